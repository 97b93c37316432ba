"""The specification of a data set of drawn people: its size, its seed, and the version of the generator."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, Literal

from fp2.extension import Fp2Error, digest

GENERATOR_VERSION = 1
DEFAULT_SEED = 20260101
MANIFEST = "PEEPS.json"
"""The file that is written last: the drawn people are complete."""
TWIN_ATTRIBUTES = ("skin_tone", "age", "pronoun", "region")
# Libraries that determine the pixels; another version may draw differently and gets another folder.
_DRAWN_BY = ("dicebear-core", "dicebear-styles", "resvg_py")


@dataclass(frozen=True)
class PeepsSpec:
    """A data set of drawn people.

    Attributes
    ----------
    seed : int
        Seed of everything that is random; the same seed gives the same bytes.
    n_subjects, images_per_subject : int
        Number of subjects, and of single-person images of each (`kind="people"`).
    n_pairs : int
        Number of additional images of two subjects, who have one region.
    size : int
        Side of an image in pixels.
    kind : str
        `people`, or `twins`: counterfactual sets in which exactly one attribute differs between images.
    n_sets : int
        Number of sets per attribute (`kind="twins"`).
    """

    seed: int = DEFAULT_SEED
    n_subjects: int = 400
    images_per_subject: int = 3
    n_pairs: int = 60
    size: int = 384
    kind: Literal["people", "twins"] = "people"
    n_sets: int = 40

    def __post_init__(self) -> None:
        if self.kind not in ("people", "twins"):
            raise Fp2Error(f"kind of drawn people is {self.kind!r}", fix="Choose people or twins")
        least = {"seed": 0, "n_subjects": 1, "images_per_subject": 1, "n_pairs": 0, "size": 64, "n_sets": 1}
        for name, limit in least.items():
            if getattr(self, name) < limit:
                raise Fp2Error(f"{name} of the drawn people is {getattr(self, name)}", fix=f"At least {limit}")
        if self.n_pairs and self.n_subjects < 10:
            raise Fp2Error("two-person images need at least 10 subjects", fix="Raise n_subjects or set n_pairs=0")
        if self.size > 4096:
            raise Fp2Error(f"size of the drawn people is {self.size}", fix="At most 4096 pixels")

    @property
    def name(self) -> str:
        """Name of the data set in tables and reports."""
        return "peeps" if self.kind == "people" else "peeps_twins"

    @property
    def release(self) -> str:
        """Version in the format of FHIBE's releases."""
        return f"fhibe.20260101.t.{'PEEPS' if self.kind == 'people' else 'TWINS'}{GENERATOR_VERSION:03d}"

    def record(self) -> dict[str, Any]:
        """Return the specification with the versions of everything that determines the bytes.

        Options of the other kind only are left out.
        """
        unused = ("n_sets",) if self.kind == "people" else ("n_subjects", "images_per_subject", "n_pairs")
        spec = {name: value for name, value in asdict(self).items() if name not in unused}
        return {"spec": spec, "generator": GENERATOR_VERSION, "drawn_by": {name: version(name) for name in _DRAWN_BY}}

    def folder(self) -> str:
        """Return the name of the folder that holds this data set."""
        return f"{self.name}-{digest(self.record())[:16]}"
