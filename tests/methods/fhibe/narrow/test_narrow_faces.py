"""Face parsing, verification and generated images against hand counts, scikit-learn and a second implementation."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.metrics import f1_score, roc_curve

from fp2.errors import Fp2Error
from fp2.methods.fhibe.narrow import faces, generated_images, pairs
from fp2.methods.fhibe.narrow.tasks import TaskScores
from fp2.methods.fhibe.narrow.truth import Person
from fp2.methods.fhibe.narrow.verification import Faces, verify
from fp2.tables import ATTRIBUTE_PREFIX


def test_f1_is_scikit_learns_over_the_parts_of_either_map() -> None:
    rng = np.random.default_rng(0)
    true, found = (rng.integers(0, 6, (30, 40)).astype(np.uint8) for _ in range(2))
    present = [1, 2, 3, 4, 5]
    expected = f1_score(true.ravel(), found.ravel(), labels=present, average=None)
    ours = faces.part_f1(found, true)
    assert list(ours) == [faces.PARTS[n] for n in present]
    np.testing.assert_allclose(list(ours.values()), expected)
    assert faces.mean_f1(faces.part_f1(true, true)) == 1.0
    assert np.isnan(faces.mean_f1({}))


def test_a_part_that_only_one_map_has_scores_nothing() -> None:
    true, found = np.zeros((4, 4), np.uint8), np.zeros((4, 4), np.uint8)
    true[:2] = 1
    found[:2, :2] = 1
    found[3] = 14  # a hat that is not there
    assert faces.part_f1(found, true) == {"skin": pytest.approx(2 * 4 / 12), "hat": 0.0}


def test_the_map_is_painted_from_polygons_and_ears_are_skin() -> None:
    square = [[(0, 0), (10, 0), (10, 10), (0, 10)]]
    eye = [[(2, 2), (4, 2), (4, 4), (2, 4)]]
    labels = faces.from_polygons((10, 12), {"Left eye": eye, "Face skin": square, "Bag": square})
    assert labels.shape == (12, 10)
    assert (labels == faces.PARTS.index("l_eye")).sum() == 4
    assert (labels == faces.PARTS.index("skin")).sum() == 96
    assert (labels == 0).sum() == 20
    ears = np.array([[8, 9, 15, 4, 5]], dtype=np.uint8)
    assert faces.as_annotated(ears).tolist() == [[1, 1, 0, 4, 5]]
    assert faces.as_annotated(ears, mirrored=True).tolist() == [[1, 1, 0, 5, 4]]


def test_threshold_and_rates_are_those_of_the_roc_curve() -> None:
    rng = np.random.default_rng(1)
    same, different = rng.normal(1, 1, 700), rng.normal(-1, 1, 5000)
    rates = pairs.rates(same, different, np.array([f"s{n % 50}" for n in range(700)], dtype=object))
    far, tar, _ = roc_curve(
        np.r_[np.ones(700), np.zeros(5000)], np.r_[same, different], drop_intermediate=False
    )  # every threshold that a pair offers
    assert rates.far == 0.001  # 5 of 5,000
    assert rates.tar == pytest.approx(tar[far <= 0.001].max())
    assert rates.tar_low is not None
    assert rates.tar_high is not None
    assert rates.tar_low < rates.tar < rates.tar_high
    assert rates.n_subjects == 50


def test_with_few_false_pairs_none_is_accepted_and_with_no_pairs_there_is_no_rate() -> None:
    names = np.array(["a", "a", "b"], dtype=object)
    rates = pairs.rates(np.array([0.5, 0.9, 0.7]), np.array([0.1, 0.7]), names)
    assert rates.far == 0.0
    assert rates.tar == pytest.approx(1 / 3)
    assert pairs.rates(np.zeros(0), np.zeros(3), names[:0]).tar is None


def test_pairs_are_all_of_one_person_and_all_hard_ones_of_two() -> None:
    rng = np.random.default_rng(2)
    subjects = [f"s{n}" for n in rng.integers(0, 12, 60)]
    pronouns = {name: frozenset(rng.choice(["she", "he", "they"], 1 + rng.integers(0, 2))) for name in set(subjects)}
    tones = {name: (None if name == "s3" else int(rng.integers(0, 6))) for name in set(subjects)}
    every = list(itertools.combinations(range(60), 2))
    same = {(a, b) for a, b in every if subjects[a] == subjects[b]}
    assert set(zip(*(x.tolist() for x in pairs.genuine_pairs(subjects)), strict=True)) == same
    hard = set()
    for a, b in every:
        one, two = subjects[a], subjects[b]
        tone = tones[one], tones[two]
        if one != two and pronouns[one] & pronouns[two] and None not in tone and abs(tone[0] - tone[1]) <= 1:  # type: ignore[operator]
            hard.add((a, b))
    blocks = pairs.hard_impostor_pairs(subjects, [pronouns[s] for s in subjects], [tones[s] for s in subjects])
    got = [pair for a, b in blocks for pair in zip(a.tolist(), b.tolist(), strict=True)]
    assert len(got) == len(set(got))
    assert set(got) == hard


def test_drawn_pairs_are_of_people_with_two_faces_repeatable_and_at_most_as_many_as_asked() -> None:
    subjects = ["a"] * 5 + ["b"] * 5 + ["alone"]
    (a, b), (c, d) = pairs.drawn_pairs(subjects, seed=1, most=12)
    assert len(a) == 12
    assert len(c) == 12
    assert all(subjects[x] == subjects[y] for x, y in zip(a, b, strict=True))
    assert all(subjects[x] != subjects[y] for x, y in zip(c, d, strict=True))
    assert 10 not in {*a.tolist(), *b.tolist(), *c.tolist(), *d.tolist()}
    again = pairs.drawn_pairs(subjects, seed=1, most=12)
    assert np.array_equal(again[1][0], c)


def test_psnr_by_hand_and_cosine() -> None:
    black, grey = np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), 51, np.uint8)
    assert generated_images.psnr(grey, black) == pytest.approx(20 * np.log10(255 / 51))
    assert generated_images.psnr(black, black) == 100.0
    assert generated_images.cosine([1, 0], [1, 1]) == pytest.approx(np.sqrt(0.5))
    assert np.isnan(generated_images.cosine([0, 0], [1, 1]))
    assert generated_images.prepare(Image.new("L", (30, 20))).shape == (256, 256, 3)


def _vgg(rng: np.random.Generator) -> dict[str, torch.Tensor]:
    widths, numbers = (
        [3, 4, 4, 5, 5, 6, 6, 6, 7, 7, 7, 8, 8, 8],
        [n for block in generated_images._BLOCKS for n in block],
    )
    state = {}
    for n, (into, out) in zip(numbers, itertools.pairwise(widths), strict=True):
        state[f"features.{n}.weight"] = torch.tensor(rng.normal(0, 0.4, (out, into, 3, 3)), dtype=torch.float32)
        state[f"features.{n}.bias"] = torch.tensor(rng.normal(0, 0.1, out), dtype=torch.float32)
    return state


def test_lpips_is_a_second_implementation_through_a_sequential_network(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    state = _vgg(rng)
    heads = {f"lin{n}.model.1.weight": torch.rand(1, width, 1, 1) for n, width in enumerate((4, 5, 6, 7, 8))}
    torch.save(state, tmp_path / "vgg16.pth")
    torch.save(heads, tmp_path / "vgg.pth")
    a, b = (rng.integers(0, 256, (32, 32, 3)).astype(np.uint8) for _ in range(2))
    measure = generated_images.load_lpips(tmp_path / "vgg16.pth", tmp_path / "vgg.pth")
    assert measure(a, a) == 0.0
    assert measure(a, b) == pytest.approx(_lpips(state, heads, a, b), rel=1e-4)
    with pytest.raises(Fp2Error, match="lpips_network"):
        generated_images.load_lpips(tmp_path / "nothing.pth", tmp_path / "vgg.pth")


@torch.no_grad()
def _lpips(state: dict[str, torch.Tensor], heads: dict[str, torch.Tensor], a: np.ndarray, b: np.ndarray) -> float:
    """Torchvision's VGG16 layer by layer (31 modules), slices after 3, 8, 15, 22, 29, as the package lpips cuts it."""
    layers: list[torch.nn.Module] = []
    for block in ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3):
        for _ in block:
            weight = state[f"features.{len(layers)}.weight"]
            layer = torch.nn.Conv2d(weight.shape[1], weight.shape[0], 3, padding=1)
            layer.load_state_dict({"weight": weight, "bias": state[f"features.{len(layers)}.bias"]})
            layers += [layer, torch.nn.ReLU()]
        layers.append(torch.nn.MaxPool2d(2, 2))
    shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    total, seen = 0.0, []
    for image in (a, b):
        x = ((torch.tensor(image) / 255 * 2 - 1 - shift) / scale).permute(2, 0, 1)[None].float()
        taps = []
        for number, layer in enumerate(layers):
            x = layer(x)
            if number in (3, 8, 15, 22, 29):
                taps.append(torch.nn.functional.normalize(x[0], dim=0, eps=1e-10))
        seen.append(taps)
    for n, (one, two) in enumerate(zip(*seen, strict=True)):
        total += float((((one - two) ** 2) * heads[f"lin{n}.model.1.weight"][0]).sum(dim=0).mean())
    return total


def test_a_group_with_few_people_in_pairs_has_no_rate_however_many_are_in_it() -> None:
    from fp2.cuts import Cut

    rng = np.random.default_rng(4)
    own = [f"s{n}" for n in range(40)] + [f"s{n}" for n in range(9)]  # 40 people, 9 of them with two faces
    faces = [Person(f"i{n}", name, Path(f"{n}.png"), 1) for n, name in enumerate(own)]
    table = pd.DataFrame({"image_id": [f.image_id for f in faces], "subject_id": own})
    for name, value in (("pronoun", "she"), ("skin_tone", "II"), ("hairstyle", "bun")):
        table[f"{ATTRIBUTE_PREFIX}{name}"] = [[value]] * len(own)
    cut = Cut("pronoun", ("pronoun",))
    given = Faces(faces, rng.normal(size=(len(own), 8)), [True] * len(own))
    for least, has in ((10, False), (9, True)):
        block = verify(given, table, [cut], TaskScores(), similarity="cosine", seed=0, min_subjects=least)
        (row,) = block["groups"]
        assert (row["n_group"], row["n_subjects"], row["n_same"]) == (40, 9, 9)
        assert (row["tar"] is not None) == has
        (pair,) = block["whole"]["hairstyles"]
        assert (pair["n_subjects"], pair["missed"] is not None) == (9, has)
        assert pair["confused"] is not None  # 40 people are in the false pairs
        (style,) = block["whole"]["by_hairstyle"]
        assert (style["missed"] is not None) == has
