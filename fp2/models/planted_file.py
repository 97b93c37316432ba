"""Read and check the planted truth's data file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fp2.errors import Fp2Error, nearest
from fp2.models.planted import HIGHEST, Planted, PlantedPair, PlantedProbe, Points, Refusal, Template, Trait
from fp2.models.planted_vqa import read_vqa


def _points(raw: Mapping[str, Any], cues: Mapping[str, tuple[str, ...]], where: str) -> Points:
    table = {}
    for cue, values in raw.items():
        if cue not in cues:
            raise Fp2Error(f"no cue named {cue!r}", where=where, fix=nearest(cue, cues))
        if len(values) != len(cues[cue]):
            raise Fp2Error(f"cue '{cue}' has {len(cues[cue])} values but {len(values)} points", where=where)
        table[cue] = tuple(float(value) for value in values)
    return Points(table)


def _probe(name: str, raw: Mapping[str, Any], cues: Mapping[str, tuple[str, ...]]) -> PlantedProbe:
    if len(raw["sentences"]) != HIGHEST + 1:
        raise Fp2Error(f"probe '{name}' has {len(raw['sentences'])} sentences", where=name, fix=f"Give {HIGHEST + 1}.")
    declined = raw.get("refusal")
    refusal = None
    if declined:
        refusal = Refusal(declined["sentence"], declined["threshold"], _points(declined["points"], cues, name))
    return PlantedProbe(
        name,
        tuple(raw["questions"]),
        _points(raw["points"], cues, name),
        raw["answer"],
        tuple(raw["sentences"]),
        refusal,
    )


def read_planted(path: Path) -> Planted:
    """Return the planted truth of a file.

    Raises
    ------
    Fp2Error
        If the file is missing, or a table does not fit its cue.
    """
    import yaml

    if not path.is_file():
        raise Fp2Error("the planted truth is missing", where=str(path))
    raw = yaml.safe_load(path.read_text("utf-8"))
    cues = {cue: tuple(map(str, values)) for cue, values in raw["cues"].items()}
    pair, yes_no = raw["pair"], raw["yes_no"]
    return Planted(
        version=str(raw["version"]),
        cues=cues,
        attributes={name: tuple(values) for name, values in raw["attributes"].items()},
        groups={name: tuple(map(str, values)) for name, values in raw["groups"].items()},
        offset=int(raw["level_offset"]),
        wording=_points(raw["wording"]["points"], cues, "wording"),
        phrases=tuple(raw["wording"]["phrases"]),
        probes={name: _probe(name, body, cues) for name, body in raw["probes"].items()},
        pair=PlantedPair(
            tuple(pair["questions"]),
            tuple(pair["naming"]),
            _points(pair["points"], cues, "pair"),
            int(pair["gap"]),
            *(pair[key] for key in ("answer", "first", "second", "second_short")),
        ),
        vqa=read_vqa(raw["vqa"], lambda table, where: _points(table, cues, where)),
        instruction=yes_no["instruction"],
        nuisance=_points(yes_no["nuisance"], cues, "yes_no.nuisance"),
        demographic=_points(yes_no["demographic"], cues, "yes_no.demographic"),
        templates={name: Template(name, *values) for name, values in raw["templates"].items()},
        traits={row[0]: Trait(row[0], float(row[1]), float(row[2]), row[3]) for row in raw["traits"]},
    )
