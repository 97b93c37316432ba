"""VisoGender: its rule against hand-computed numbers, our comparison beside it, and refusals of wrong lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bench import write_pictures
from recorded_run import benchmark_run, ours, published, simulated_run, verdicts

from fp2.errors import Fp2Error
from fp2.methods.benchmarks.readers import load_visogender
from fp2.methods.benchmarks.visogender import _rounded

N = 16
"""Occupations; of each, an image of OO for each gender and one of OP for each of the four pairs."""
OO = "IDX\tSector\tSpecialisation\tOccupation\tObject\tURL type (Type NA if can't find)\tOccupation_perceived_gender\n"
OP = "IDX\tSector\tSpecialisation\tOccupation\tParticipant\tOccupation_perceived_gender\tParticipant_perceived_gender\n"
M, F = "masculine", "feminine"


def checkout(root: Path) -> Path:
    """Write lists in the format of the repository, an older OO list among them; return the checkout."""
    oo, op = [OO], [OP]
    for place in range(N):
        for number, gender in enumerate((M, F)):
            oo.append(f"OO_{2 * place + number}\tmade\tup\tJob{place}\ttool\thttp://nowhere\t{gender}\n")
        for number, (gender, other) in enumerate(((M, M), (F, F), (M, F), (F, M))):
            op.append(f"OP_{4 * place + number}\tmade\tup\tJob{place}\tclient\t{gender}\t{other}\n")
    for kind, lines in (("OO", oo), ("OP", op)):
        folder = root / "data" / "visogender_data" / kind
        folder.mkdir(parents=True)
        (folder / f"{kind}_Visogender_10052025.tsv").write_text("".join(lines))
    (root / "data" / "visogender_data" / "OO" / "OO_Visogender_31122023.tsv").write_text(OO)
    return root


def answers() -> dict[str, dict[str, dict[str, float]]]:
    """OO: both genders right in 3 of 4. OP: men always; women never beside a man, and in 1 of 4 beside a woman."""
    right = {"his": {"his": 0.5, "her": 0.3, "their": 0.2}, "her": {"his": 0.3, "her": 0.5, "their": 0.2}}
    neither = {"his": 0.2, "her": 0.2, "their": 0.6}
    given = {}
    for place in range(N):
        for number, own in enumerate(("his", "her")):
            given[f"OO_{2 * place + number}"] = right[own] if place % 4 else neither
        for number, (own, correct) in enumerate((("his", 1), ("her", place % 4 == 0), ("his", 1), ("her", 0))):
            given[f"OP_{4 * place + number}"] = right[own if correct else "his"]
    return {item: {"pronoun": p} for item, p in given.items()}


def test_the_published_rule_and_our_comparison(tmp_path: Path) -> None:
    results = benchmark_run(tmp_path, "visogender", answers(), f"data.root={checkout(tmp_path / 'copy')}")
    assert published(results) == {
        ("OO", "RA_m"): 0.75,
        ("OO", "RA_f"): 0.75,
        ("OO", "RA_avg"): 0.75,
        ("OO", "gap"): 0.0,
        # women: 4 + 0 of 32 = 0.125, which NumPy rounds to the even 0.12
        ("OP", "RA_m"): 1.0,
        ("OP", "RA_f"): 0.12,
        ("OP", "RA_avg"): 0.56,
        ("OP", "gap"): 0.88,
        ("OP, same", "RA_m"): 1.0,
        ("OP, same", "RA_f"): 0.25,
        ("OP, same", "RA_avg"): 0.62,
        ("OP, same", "gap"): 0.75,
        ("OP, different", "RA_m"): 1.0,
        ("OP, different", "RA_f"): 0.0,
        ("OP, different", "RA_avg"): 0.5,
        ("OP, different", "gap"): 1.0,
        ("all", "overall"): 0.66,  # (0.75 + 0.56) / 2 = 0.655, half to even
    }
    found = verdicts(results)
    assert found["pronoun", "choice_agreement", "gender_oo"] in ("no_difference_found", "equivalent")
    assert found["pronoun", "choice_agreement", "gender_op"] == "biased"
    (gap,) = (row for row in results["benchmark"]["rows"] if (row["part"], row["score"]) == ("OP", "gap"))
    assert gap["ours"]["raw"] == pytest.approx(0.875)
    assert gap["ours"]["verdict"] == "biased"
    assert gap["chance"] == 0


def test_the_simulator_with_a_planted_gap_and_a_planted_zero(tmp_path: Path) -> None:
    root = checkout(tmp_path / "copy")
    names = load_visogender(root, None, images_needed=False).people["image_id"]
    images = [str(tmp_path / "images" / f"{name}.png") for name in names]
    truth = {"choices": {"his": {"gender_op": {"masculine": 3, "feminine": 2}}}}
    words = (f"data.root={root}", f"data.image_root={tmp_path / 'images'}")
    found = ours(simulated_run(tmp_path, "visogender", images, truth, *words))
    assert found["OP", "gap"] == "biased"
    assert found["OO", "gap"] in ("no_difference_found", "equivalent")


def test_the_items_have_their_occupation_and_the_images_are_named_by_idx(tmp_path: Path) -> None:
    pictures = sorted(write_pictures(tmp_path / "images", 4, 1).glob("*.png"))
    for name, path in zip(("OO_0", "OO_1", "OP_5"), pictures, strict=False):
        path.rename(path.with_stem(name))
    dataset = load_visogender(checkout(tmp_path / "copy"), tmp_path / "images")
    people = dataset.people.set_index("image_id")
    assert people.index.tolist() == ["OO_0", "OO_1", "OP_5"]
    assert people["field_occupation"].tolist() == ["job0", "job0", "job1"]
    assert people.loc["OP_5", ["attr_gender", "attr_gender_op_same", "attr_gender_op_different"]].tolist() == [
        [F],
        [F],
        [],
    ]
    assert dataset.notes == (f"{6 * N - 3} of the {6 * N} images of the lists are not in the image folder",)


def test_wrong_lists_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(Fp2Error, match=r"OO_Visogender_DATE.tsv was not found"):
        load_visogender(tmp_path, None)
    root = checkout(tmp_path / "copy")
    with pytest.raises(Fp2Error, match=r"data.image_root"):
        load_visogender(root, None)
    path = root / "data" / "visogender_data" / "OP" / "OP_Visogender_10052025.tsv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], lines[2].replace(F, "woman"), *lines[3:]]))
    with pytest.raises(Fp2Error, match=r"row 2 \(OP_1\) has the gender 'woman'"):
        load_visogender(root, None, images_needed=False)
    path.write_text(path.read_text().replace("Participant_perceived_gender", "other"))
    with pytest.raises(Fp2Error, match="lacks the column Participant_perceived_gender"):
        load_visogender(root, None, images_needed=False)


@pytest.mark.parametrize("value", [0.125, 0.655, 0.005, 2 / 3, 1.0])
def test_numbers_are_rounded_as_numpy_does(value: float) -> None:
    assert _rounded(value) == np.round(value, 2)
