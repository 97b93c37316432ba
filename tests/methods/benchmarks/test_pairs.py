"""PAIRS: HELM's accuracy and the contrasts within scenes by hand, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded_run import benchmark_run, ours, published, simulated_run

from fp2.errors import Fp2Error
from fp2.methods.benchmarks.question_files import load_pairs

SCENES = 14
SCENARIO = """
class Scenario:
    OCCUPATIONS_TYPE_TO_QUESTIONS: Dict[str, List[Question]] = {
        {occupations}
    }
    POTENTIAL_CRIME_TYPE_TO_QUESTIONS: Dict = {"night": [Question("Friend or foe?", ["friend", "foe"])]}
    STATUS_QUESTIONS: List = [
        Question("Rich?", ["rich", "poor"], preferred_choice=0),
        Question("Last or first?", ["last", "first"], preferred_choice=1)
    ]
    STATUS_QUESTION_TYPES: List[str] = ["phone"]
"""


def questions(root: Path, content: str = SCENARIO) -> Path:
    question = 'Question("Boss or clerk of {n}?", ["boss {n}", "clerk {n}"], preferred_choice=0)'
    listed = (f'"scene{n}": [{question}],'.replace("{n}", str(n)) for n in range(SCENES))
    file = root / "pairs_scenario.py"
    file.write_text(content.replace("{occupations}", "\n        ".join(listed)))
    return file


def test_accuracy_and_contrasts_of_a_planted_difference_and_a_planted_zero(tmp_path: Path) -> None:
    given: dict[str, Any] = {}
    for item in load_pairs(tmp_path, questions(tmp_path), False).people.itertuples():
        number = sum(map(ord, item.subject_id))  # noise by scene, the same for all four images but for one digit
        woman, black = item.attr_gender == ["woman"], item.attr_race == ["black"]
        boss = 0.5 - 0.2 * woman + 0.02 * (number % 3) + 0.01 * ((number + black) % 2)
        unclear = 0.6 if number % 2 else 0.1
        rest = 1 - unclear
        p = {item.field_preferred: rest * boss, item.field_other: rest * (1 - boss), "unclear": unclear}
        given[item.image_id] = {"scene": p}
    results = benchmark_run(tmp_path, "pairs", given, f"data.root={tmp_path}", f"data.questions={questions(tmp_path)}")
    numbers = published(results)
    odd = sum(sum(map(ord, f"occupations/scene{n}")) % 2 for n in range(SCENES))
    assert numbers["occupations", "accuracy"] == pytest.approx(odd / SCENES)
    rows = {(row["part"], row["score"]): row["ours"] for row in results["benchmark"]["rows"]}
    women = rows["occupations", "women less men"]
    # twice the difference in P(boss), times what "unclear" leaves: 0.4 in odd scenes, 0.9 in the others
    assert women["raw"] == pytest.approx(-0.4 * (odd * 0.4 + (SCENES - odd) * 0.9) / SCENES)
    assert women["verdict"] == "biased"
    assert rows["occupations", "black less white"]["verdict"] in ("no_difference_found", "equivalent")
    assert rows["status", "women less men"]["verdict"] == "too_few_subjects"
    of_sets = {(row["cut"], row["scorer"]): row["verdict"] for row in results["matched"]["rows"]}
    assert of_sets["gender", "leaning"] == "biased"
    assert of_sets["race", "leaning"] != "biased"


def test_the_simulator_with_a_planted_contrast_and_a_planted_zero(tmp_path: Path) -> None:
    images = load_pairs(tmp_path, questions(tmp_path), False).people["image_path"]
    words = (f"data.root={tmp_path}", f"data.questions={questions(tmp_path)}")
    truth = {"choices": {"#1": {"gender": {"woman": -1.5}}}}
    found = ours(simulated_run(tmp_path, "pairs", images, truth, *words))
    assert found["occupations", "women less men"] == "biased"
    assert found["occupations", "black less white"] in ("no_difference_found", "equivalent")


def test_scenes_questions_and_the_misnamed_image_are_read(tmp_path: Path) -> None:
    people = load_pairs(tmp_path, questions(tmp_path), False).people
    assert len(people) == 4 * (SCENES + 1 + 2)
    row = people[people["image_id"] == "status/phone/white_man#2"].iloc[0]
    assert row["image_path"].endswith("data/status/phone/white_man1.png")
    assert row[["field_preferred", "field_other", "field_part"]].tolist() == ["first", "last", "status"]
    assert row[["set_id", "subject_id"]].tolist() == ["status/phone#2", "status/phone"]


@pytest.mark.parametrize("content", ["print('hello')", "def :", SCENARIO.replace('"Rich?", ', "")])
def test_another_file_of_questions_is_one_line(tmp_path: Path, content: str) -> None:
    with pytest.raises(Fp2Error, match=r"it is not HELM's scenario of PAIRS|the code cannot be read"):
        load_pairs(tmp_path, questions(tmp_path, content), False)
