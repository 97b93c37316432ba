"""The drawn people as data sets: drawn once per machine into the cache, then read like any FHIBE release."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from fp2.extension import ATTRIBUTE_PREFIX, DataOptions, Dataset, DataSource, LoadContext, with_values
from fp2.methods.peeps.data.spec import DEFAULT_SEED, MANIFEST, PeepsSpec

NOTE = (
    "The people are drawings (Open Peeps by Pablo Stanley, CC0), and region is shown by a backdrop pattern only: "
    "the results are about the model and the drawings, not about people."
)

CAUTION = "The people are drawings. Their region is shown by a backdrop pattern only: no physical trait stands for it."
TERMS = "CC0 1.0 (Open Peeps by Pablo Stanley)"


@dataclass(frozen=True, kw_only=True)
class PeepsOptions(DataOptions):
    """Options of the drawn people, see `PeepsSpec`; those of the other kind of data set are hashed, but not used."""

    seed: Annotated[int, Ge(0)] = DEFAULT_SEED
    n_subjects: Annotated[int, Ge(1)] = 400
    images_per_subject: Annotated[int, Ge(1)] = 3
    n_pairs: Annotated[int, Ge(0)] = 60
    n_sets: Annotated[int, Ge(1)] = 40


class Peeps(DataSource[PeepsOptions]):
    """Drawn people with independent attributes."""

    Options = PeepsOptions
    may_be_shown: ClassVar[bool] = True
    kind: ClassVar[Literal["people", "twins"]] = "people"

    @classmethod
    def check_installation(cls) -> tuple[bool, str]:
        """Return whether a person can be drawn."""
        import numpy as np

        from fp2.methods.peeps.data.draw import render_image
        from fp2.methods.peeps.data.figure import sample_image_cues, sample_person

        rng = np.random.default_rng(0)
        try:
            size = render_image(sample_image_cues(sample_person(rng), rng), 64).size
        except Exception as error:  # the libraries that draw raise many kinds
            return False, f"the drawings of people cannot be made: {error}"
        return size == (64, 64), "the drawings of people can be made"

    def load(self, context: LoadContext) -> Dataset:
        """Return the drawn people, drawing them first if they are not in the cache."""
        with context.progress.counter("Drawing the people (once)") as drawn:
            return load_peeps(context.cache, self._spec(), drawn)

    def attributes(self) -> list[str]:
        """Return the attributes that drawings have."""
        return list(attributes_of(self._spec()))

    def preview(self, cache: Path) -> Dataset | None:
        """Return the people as they will be drawn; None if they are."""
        return None if is_drawn(cache, self._spec()) else planned_peeps(self._spec())

    def _spec(self) -> PeepsSpec:
        chosen = self.options
        return PeepsSpec(
            seed=chosen.seed,
            n_subjects=chosen.n_subjects,
            images_per_subject=chosen.images_per_subject,
            n_pairs=chosen.n_pairs,
            kind=self.kind,
            n_sets=chosen.n_sets,
        )


class PeepsTwins(Peeps):
    """Counterfactual drawings: the same scene with exactly one attribute changed."""

    kind = "twins"


def load_peeps(
    cache_dir: Path, spec: PeepsSpec | None = None, progress: Callable[[int, int], None] | None = None
) -> Dataset:
    """Return the drawn people as a data set named `peeps` or `peeps_twins`; see `ensure_peeps`."""
    from fp2.methods.fhibe_release.load import load_fhibe

    spec = spec or PeepsSpec()
    loaded = load_fhibe(ensure_peeps(cache_dir, spec, progress))
    return replace(loaded, name=spec.name, notes=(NOTE, *loaded.notes), schema_lines=(), terms=TERMS, caution=CAUTION)


def planned_peeps(spec: PeepsSpec) -> Dataset:
    """Return what `load_peeps` will return, except for the files: each person of a pair has one half as box."""
    from fp2.extension import people_table
    from fp2.methods.fhibe_release.attributes import AttributeReader
    from fp2.methods.fhibe_release.load import unused
    from fp2.methods.fhibe_release.vocab import DOWNSAMPLED_HEADER
    from fp2.methods.peeps.data.annotate import cells, labels, position
    from fp2.methods.peeps.data.cast import plan_images

    reader, columns = AttributeReader(), dict[str, list[object]]()
    for plan in plan_images(spec):
        for person in plan.people:
            known = {**labels(person), "subject_position": position(person)}
            row = dict(zip(DOWNSAMPLED_HEADER, cells(DOWNSAMPLED_HEADER, known), strict=True))
            half = spec.size / len(plan.people)
            values: dict[str, object] = {
                "image_id": plan.image_id,
                "subject_id": person.subject_id,
                "image_path": "",
                "is_primary": person.is_primary,
                "n_people": len(plan.people),
                "set_id": plan.set_id or None,
                **dict(
                    zip(("box_x", "box_y", "box_w", "box_h"), (half * person.right, 0, half, spec.size), strict=True)
                ),
                **{ATTRIBUTE_PREFIX + name: found for name, found in reader.read(row).items()},
            }
            for name, value in values.items():
                columns.setdefault(name, []).append(value)
    people = people_table({name: found for name, found in columns.items() if not unused(name, found)})
    return Dataset(spec.name, spec.release, people, (NOTE,), terms=TERMS, caution=CAUTION)


@cache
def attributes_of(spec: PeepsSpec) -> tuple[str, ...]:
    """Return the attributes that the drawn people of `spec` have."""
    return tuple(with_values(planned_peeps(spec).people))


def _root(cache_dir: Path, spec: PeepsSpec) -> Path:
    return cache_dir / spec.folder() / f"{spec.release}_downsampled_public"


def is_drawn(cache_dir: Path, spec: PeepsSpec) -> bool:
    """Return whether the drawn people of `spec` are in `cache_dir`."""
    return (_root(cache_dir, spec) / MANIFEST).is_file()


def ensure_peeps(cache_dir: Path, spec: PeepsSpec, progress: Callable[[int, int], None] | None = None) -> Path:
    """Return the root folder of the drawn people of `spec` in `cache_dir`, drawing them first if they are not there.

    They are drawn into a temporary folder that is renamed when complete, under a lock, so that an interrupted or
    simultaneous run leaves nothing half done. The folder's name has the digest of the spec and the generator.
    """
    from filelock import FileLock

    from fp2.methods.peeps.data.build import build_peeps

    root = _root(cache_dir, spec)
    folder = root.parent
    if is_drawn(cache_dir, spec):
        return root
    cache_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(cache_dir / f"{folder.name}.lock"):
        if is_drawn(cache_dir, spec):
            return root
        building = cache_dir / f".{folder.name}.building"
        for left_over in (building, folder):
            shutil.rmtree(left_over, ignore_errors=True)
        try:
            build_peeps(building, spec, progress)
            building.rename(folder)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
    return root
