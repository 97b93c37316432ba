"""VL-Gender: gaps of values by hand, a planted gap and a planted zero, and refusals of wrong prompts and lists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recorded_run import benchmark_run, ours, published, simulated_run

from fp2.errors import Fp2Error
from fp2.methods.benchmarks.readers import load_vl_gender

VALUES = ("paint a fence", "cook for ten")
N = 12
"""Images of each gender that are used; three more are not."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    prompting = tmp_path / "copy" / "data" / "prompting"
    prompting.mkdir(parents=True)
    values = [f"{value},skills,,test" for value in VALUES]
    (prompting / "values.csv").write_text(
        "\n".join(["value,task,label,split", *values, "kind,sentiment,positive,test"])
    )
    (prompting / "questions.csv").write_text(
        "task,question,by_chatgpt,split\nskills,Could they {value}?,True,test\nskills,Never {value}?,True,train\n"
        "sentiment,A {value}?,True,test\nother,It {value}?,test"  # a cell is missing there, as in the published file
    )
    (prompting / "instructions.csv").write_text("instruction,split\nOne letter.,test\nNothing.,train")
    images = tmp_path / "copy" / "sets" / "made_up"
    images.mkdir(parents=True)
    lines = ["name,gender,ethnicity,age,split"]
    lines += [f"{gender}_{number}.jpg,{gender},x,y,test" for number in range(N + 2) for gender in ("male", "female")]
    (images / "annotations.csv").write_text("\n".join([*lines, "late.jpg,male,x,y,train"]))
    return tmp_path / "copy"


def test_gaps_by_value_and_ours(tmp_path: Path, copy: Path) -> None:
    given = {}
    for number in range(N):
        for gender in ("male", "female"):
            noise = 0.01 * (number % 3 - 1)
            for value, gap in zip(VALUES, (-0.2, 0.0), strict=True):
                p = 0.6 + noise + (gap if gender == "female" else 0)
                given[f"made_up/images/{gender}_{number}.jpg|{value}"] = {"fits": {"Yes": p, "No": 1 - p}}
    words = (f"data.root={copy / 'sets'}", f"data.checkout={copy}", f"data.per_gender={N}")
    results = benchmark_run(tmp_path, "vl_gender", given, *words)
    assert published(results) == {
        (VALUES[0], "gap"): pytest.approx(-0.2),
        (VALUES[1], "gap"): pytest.approx(0.0),
        ("all", "mean absolute gap"): pytest.approx(0.1),
    }
    fence, cook, _ = (row["ours"] for row in results["benchmark"]["rows"])
    assert (fence["verdict"], cook["verdict"]) == ("biased", "equivalent")
    assert fence["ci_low"] < -0.2 < fence["ci_high"]
    assert results["answers"]["answered"] == 2 * 2 * N


@pytest.mark.parametrize(("effect", "expected"), [(1.2, {"biased"}), (0, {"no_difference_found", "equivalent"})])
def test_the_simulator_with_a_planted_gap_and_a_planted_zero(
    tmp_path: Path, copy: Path, effect: float, expected: set[str]
) -> None:
    images = load_vl_gender(copy / "sets", copy, "skills", N, 42, images_needed=False).people["image_path"]
    words = (f"data.root={copy / 'sets'}", f"data.checkout={copy}", f"data.per_gender={N}")
    truth = {"choices": {"Yes": {"gender": {"female": effect}}}}
    found = ours(simulated_run(tmp_path, "vl_gender", images, truth, *words))
    assert {found[value, "gap"] for value in VALUES} <= expected


def test_the_letter_of_yes_is_taken_over_all_tokens(tmp_path: Path, copy: Path) -> None:
    given = {}
    for number in range(N):
        for gender in ("male", "female"):
            # of Yes's letter 0.4 where it is A and 0.2 where it is B, half of that for women; the rest is other tokens
            share = (0.5 if gender == "female" else 1.0) * (1 + 0.01 * (number % 3 - 1))
            for value in VALUES:
                given[f"made_up/images/{gender}_{number}.jpg|{value}"] = {
                    "yes_first": {"A": 0.4 * share, "B": 0.4},
                    "no_first": {"B": 0.2 * share, "A": 0.1},
                }
    people = load_vl_gender(copy / "sets", copy, "skills", N, 42, images_needed=False).people
    rows = []
    for item in people["image_id"]:
        for name, p in given[item].items():
            numbers = {"p": [x / sum(p.values()) for x in p.values()], "mass": sum(p.values())}
            rows.append({"image": item, "question": name, "text": None, "numbers": numbers})
    (tmp_path / "given.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = (f"data.root={copy / 'sets'}", f"data.checkout={copy}", f"data.per_gender={N}")
    results = benchmark_run(
        tmp_path,
        "vl_gender",
        {},
        *words,
        "probe=vl_gender_letters",
        "analysis.primary=letter_probability",
        f"engine.answers={tmp_path / 'given.jsonl'}",
    )
    assert published(results)[VALUES[0], "gap"] == pytest.approx(0.15 - 0.3)  # means of 0.2 and 0.1, of 0.4 and 0.2
    assert ours(results)[VALUES[0], "gap"] == "biased"


def test_a_third_option_is_spelled_as_in_the_code_and_people_at_work_are_left_out(tmp_path: Path, copy: Path) -> None:
    (copy / "bias_eval_utils.py").write_text('import x\nunknown_option_variations = ["Not sure", "Who knows"]\n')
    (copy / "data" / "occupation_probabilities.json").write_text(json.dumps({"male_0.jpg": 0.26, "female_0.jpg": 0.25}))
    people = load_vl_gender(copy / "sets", copy, "skills", N, 42, images_needed=False).people
    assert set(people["field_unknown"]) == {"Not sure", "Who knows"}
    images = set(people["subject_id"])
    assert "made_up/images/male_0.jpg" not in images
    assert {"made_up/images/female_0.jpg", f"made_up/images/male_{N}.jpg"} <= images
    truth = {"choices": {"#1": {"gender": {"female": 1.2}}}}
    words = (f"data.root={copy / 'sets'}", f"data.checkout={copy}", f"data.per_gender={N}")
    words += ("probe=vl_gender_letters_unknown", "analysis.primary=letter_probability")
    found = ours(simulated_run(tmp_path, "vl_gender", people["image_path"], truth, *words))
    assert {found[value, "gap"] for value in VALUES} == {"biased"}


def test_prompts_are_drawn_from_the_test_split(copy: Path) -> None:
    people = load_vl_gender(copy / "sets", copy, "skills", N, 42, images_needed=False).people
    assert len(people) == 2 * 2 * N
    assert set(people["field_prompt"]) == {f"Could they {value}?" for value in VALUES}
    assert set(people["field_instruction"]) == {"One letter."}
    assert people["subject_id"].nunique() == 2 * N


def test_wrong_prompts_and_lists_are_one_line(copy: Path) -> None:
    with pytest.raises(Fp2Error, match=r"values.csv has none of 'occupations'"):
        load_vl_gender(copy / "sets", copy, "occupations", N, 42, images_needed=False)
    with pytest.raises(Fp2Error, match=r"no SET/annotations.csv"):
        load_vl_gender(copy / "data", copy, "skills", N, 42)
    file = copy / "sets" / "made_up" / "annotations.csv"
    file.write_text(file.read_text().replace("male_0.jpg,male", "male_0.jpg,man", 1))
    with pytest.raises(Fp2Error, match=r"row 1 \(male_0.jpg\) has the gender 'man'"):
        load_vl_gender(copy / "sets", copy, "skills", N, 42, images_needed=False)
    questions = copy / "data" / "prompting" / "questions.csv"
    questions.write_text(questions.read_text().replace("Could they {value}", "Could they"))
    with pytest.raises(Fp2Error, match=r"'Could they\?' has no \{value\}"):
        load_vl_gender(copy / "sets", copy, "skills", N, 42, images_needed=False)
