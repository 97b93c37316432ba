"""What is asked: 100 traits in 5 templates with a Yes-or-No instruction, the six probes, and drawn people."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from fp2.tables import SECOND, ImageTask, Question

SIZE = (364, 504)  # width, height in pixels: 13 x 18 = 234 image tokens of 28 px in Qwen2.5-VL


def yes_no_questions(n_traits: int = 100) -> tuple[Question, ...]:
    """Return `5 * n_traits` yes/no questions, template by template."""
    import yaml

    text = resources.files("fp2").joinpath("models/peeps_vlm/planted.yaml").read_text(encoding="utf-8")
    planted = yaml.safe_load(text)
    instruction = planted["yes_no"]["instruction"]
    return tuple(
        Question(f"{name}_{trait}", "traits", f"{wording.format(trait=trait)} {instruction}", "yes_no", name, trait)
        for name, (_, wording, _) in planted["templates"].items()
        for trait, *_ in planted["traits"][:n_traits]
    )


def probes() -> tuple[Question, ...]:
    """Return the six probes of the default battery."""
    from dataclasses import asdict

    from fp2.compose import load_config
    from fp2.probes.battery import load_battery

    return tuple(load_battery(asdict(load_config([]).probe)).questions)


def draw_people(folder: Path, n: int, size: tuple[int, int] = SIZE) -> list[Path]:
    """Draw `n` people and write one image of each, `size` pixels (width, height) on a grey ground, as PNG."""
    from PIL import Image

    from fp2.methods.peeps.data.source import load_peeps
    from fp2.methods.peeps.data.spec import PeepsSpec

    people = load_peeps(folder / "peeps", PeepsSpec(seed=11, n_subjects=n, images_per_subject=1, n_pairs=0)).people
    paths = []
    for number, path in enumerate(people["image_path"]):
        with Image.open(path) as drawn:
            picture = drawn.convert("RGB").resize((size[0], size[0]))
        ground = Image.new("RGB", size, (160, 160, 160))
        ground.paste(picture, (0, size[1] - size[0]))
        paths.append(folder / f"person_{number}.png")
        ground.save(paths[-1])
    return paths


def task(path: Path, questions: Sequence[Question], second: Path | None = None) -> ImageTask:
    """Return the task of asking `questions` about the image at `path`, and a second image that is shown after it."""
    from fp2.data.pixels import open_rgb, pixel_sha256

    params = {} if second is None else {SECOND: pixel_sha256(open_rgb(second))}
    about = (path.stem, path.stem, path, pixel_sha256(open_rgb(path)), tuple(questions))
    return ImageTask(*about, variant_params=params, second=second)
