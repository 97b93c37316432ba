"""Supplied choices, in the layout of VisoGender's outputs: group rates of agreement and probability gaps by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from bench import execute, fp2, results_of

from fp2.errors import Fp2Error

CHOICES = ("his", "her", "their")
N = 20
RIGHT = {"masculine": 18, "feminine": 12}
"""Of 20 images each, those whose most probable pronoun is the right one: RA_m .90, RA_f .60, gap .30."""
LOGITS = {True: 3.0, False: 1.0}
BATTERY = """
name: pronoun
version: "1"
probes:
  pronoun:
    label: Pronoun
    questions:
      - {id: pronoun, kind: choice, text: "Whose is it?", choices: [his, her, their]}
"""
MATCHES = "scorer.choice_agreement.matches={masculine: his, feminine: her}"
AGREEMENT = ("scorer=choice_agreement", "scorer.choice_agreement.attribute=gender", MATCHES)


def logits(gender: str, number: int) -> dict[str, float]:
    own, other = ("his", "her") if gender == "masculine" else ("her", "his")
    right = number < RIGHT[gender]
    return {own: LOGITS[right], other: LOGITS[not right], "their": 0.0}


@pytest.fixture(scope="module")
def visogender(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up list of 20 images a gender, model outputs for them, and the battery."""
    root = tmp_path_factory.mktemp("visogender")
    rows, outputs = ["IDX\tOccupation\tOccupation_perceived_gender"], {}
    for gender in RIGHT:
        for number in range(N):
            name = f"OO_{len(rows)}"
            rows.append(f"{name}\tteacher\t{gender}")
            outputs[name] = {"occ": "teacher", "logits_list_obj": logits(gender, number), "context": "context_OO"}
    (root / "OO.tsv").write_text("\n".join(rows) + "\n")
    (root / "outputs.json").write_text(json.dumps(outputs, indent=1))
    (root / "conf" / "probe").mkdir(parents=True)
    (root / "conf" / "probe" / "pronoun.yaml").write_text(BATTERY)
    return root


def words(root: Path, *more: str, answers: str = "outputs.json", name: str = "logits") -> list[str]:
    return [
        "model=recorded",
        "model.name=captioner",
        f"engine.answers={root / answers}",
        f"engine.columns={{{name}: logits_list_obj}}",
        "data=table",
        f"data.path={root / 'OO.tsv'}",
        "data.columns={image: IDX, gender: Occupation_perceived_gender}",
        "cut.by=[gender]",
        f"hydra.searchpath=[file://{root / 'conf'}]",
        "probe=pronoun",
        "analysis.permutations=199",
        "analysis.bootstrap=50",
        "report=none",
        "tracking=none",
        *more,
    ]


def group_means(results: dict[str, Any]) -> dict[str, float]:
    (row,) = results["disparities"]
    return {group["group"]: group["mean"] for group in row["groups"]}


def test_agreement_by_group_is_the_resolution_accuracy(visogender: Path, own_root: Path) -> None:
    results = execute([*words(visogender), *AGREEMENT], own_root / "outputs" / "one").results
    assert results["answers"]["answered"] == 2 * N
    assert group_means(results) == pytest.approx({"masculine": 0.9, "feminine": 0.6})
    (row,) = results["disparities"]
    assert (row["scorer"], row["worst_group"]) == ("choice_agreement", "feminine")
    assert row["raw"] == pytest.approx(0.3)


def test_the_difference_of_two_choices_is_that_of_their_probabilities(visogender: Path, own_root: Path) -> None:
    chosen = ("scorer=choice_probability", "scorer.choice_probability.choice=her")
    minus = "scorer.choice_probability.minus=his"
    total = math.e**3 + math.e + 1
    high, low = math.e**3 / total, math.e / total
    p_her = {"masculine": (18 * low + 2 * high) / N, "feminine": (12 * high + 8 * low) / N}
    alone = execute([*words(visogender), *chosen], own_root / "outputs" / "alone")
    assert group_means(alone.results) == pytest.approx(p_her)
    gap = {"masculine": -(16 / 20) * (high - low), "feminine": (4 / 20) * (high - low)}
    both = execute([*words(visogender), *chosen, minus], own_root / "outputs" / "both")
    assert group_means(both.results) == pytest.approx(gap)
    assert both.results["scorers"][0]["value_range"] == [-1.0, 1.0]


def test_stored_choices_are_scored_again(visogender: Path, own_root: Path, tmp_path: Path) -> None:
    paths = [f"paths.root={own_root}", f"paths.state={own_root / 'state'}"]
    folder = own_root / "outputs" / "first"
    execute([*words(visogender, *paths), *AGREEMENT], folder)
    swapped = "scorer.choice_agreement.matches={masculine: her, feminine: his}"
    assert fp2("rescore", str(folder), swapped, "report=none", "tracking=none", *paths) == 0
    found = next(path for path in (own_root / "outputs").rglob("results.json") if path.parent != folder)
    assert group_means(results_of(found.parent)) == pytest.approx({"masculine": 0.1, "feminine": 0.4})


def test_probabilities_are_normalised_over_the_choices(visogender: Path, own_root: Path) -> None:
    values = {"his": 0.1, "her": 0.3, "their": 0.1}
    outputs = {name: {"logits_list_obj": values} for name in json.loads((visogender / "outputs.json").read_text())}
    (visogender / "p.json").write_text(json.dumps(outputs))
    scored = ("scorer=choice_probability", "scorer.choice_probability.choice=her")
    run = execute([*words(visogender, *scored, answers="p.json", name="probabilities")], own_root / "outputs" / "p")
    assert group_means(run.results) == pytest.approx({"masculine": 0.6, "feminine": 0.6})


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (("scorer=choice_probability",), "the choice is not named"),
        (("scorer=choice_probability", "scorer.choice_probability.choice=hers"), "has no choice 'hers'.*her"),
        (("scorer=choice_agreement",), "the attribute is not named"),
        (("scorer=choice_agreement", "scorer.choice_agreement.attribute=gendr"), "no attribute 'gendr'.*gender"),
        (("probe=fingerprint", "scorer=choice_probability", "scorer.choice_probability.choice=her"), "is of kind text"),
        ((*AGREEMENT, "engine.columns={probabilities: logits_list_obj}"), "probabilities of 'his' is 3.0"),
        ((*AGREEMENT, "engine.columns={logits: occ}"), "logits is not JSON"),
    ],
)
def test_what_does_not_fit_is_one_line(visogender: Path, own_root: Path, changes: tuple[str, ...], error: str) -> None:
    with pytest.raises(Fp2Error, match=error) as caught:
        execute([*words(visogender), *changes], own_root / "outputs" / "wrong")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ['{"samples": []}', "[1, 2]", '{"a": 1}'])
def test_a_json_file_that_is_no_log_and_has_no_images_says_so(visogender: Path, own_root: Path, content: str) -> None:
    (visogender / "other.json").write_text(content)
    with pytest.raises(Fp2Error, match="no key 'eval', as a log of Inspect, and is no object of an object"):
        execute([*words(visogender, answers="other.json"), *AGREEMENT], own_root / "outputs" / "wrong")


def test_texts_by_image_are_read_and_written(visogender: Path, own_root: Path) -> None:
    """A text for each image in place of an object; `fp2 export --format json` writes what is read."""
    battery = BATTERY.replace("kind: choice, ", "").replace(", choices: [his, her, their]", "")
    (visogender / "conf" / "probe" / "open.yaml").write_text(battery.replace("name: pronoun", "name: open"))
    names = json.loads((visogender / "outputs.json").read_text())
    (visogender / "texts.json").write_text(json.dumps({name: f"It is {name}'s." for name in names}))
    paths = [f"paths.root={own_root}", f"paths.state={own_root / 'state'}"]
    folder, searched = own_root / "outputs" / "texts", f"hydra.searchpath=[file://{visogender / 'conf'}]"
    given = [word for word in words(visogender, answers="texts.json") if not word.startswith("engine.columns")]
    run = execute([*given, *paths, "probe=open", "scorer=valence"], folder)
    assert run.results["answers"]["answered"] == 2 * N
    written = own_root / "again.json"
    assert fp2("export", str(folder), "--answers", str(written), "--format", "json", *paths, searched) == 0
    assert json.loads(written.read_text())["OO_1"]["text"] == "It is OO_1's."
