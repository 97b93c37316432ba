"""What the report sections of several runs set side by side: tables with a column for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.errors import Fp2Error
from fp2.report.section import Section

if TYPE_CHECKING:
    from fp2.config import Config


def run_sections(folder: Path, here: Config, run_id: str) -> Sequence[Section]:
    """Return the report sections of a run's protocol; none if the protocol is not installed here."""
    from fp2.compose import build_protocol
    from fp2.report.section import load_sections
    from fp2.runs.recompute import logged_config

    try:
        return load_sections(build_protocol(logged_config(folder, here, run_id)).section_targets())
    except Fp2Error:
        return ()


def tables_of(
    results: Sequence[Mapping[str, Any]], sections: Sequence[Section], min_cell: int
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the tables of every section that some of the runs have.

    Returns
    -------
    list of dict
        `section`, `title`, and `rows`: label -> one cell per run (`fp2.report.section.Beside`), None for a run without
        the block.
    """
    found = []
    for section in {type(one): one for one in sections}.values():
        places = [place for place, one in enumerate(results) if section.applies(one)]
        tables = section.beside([results[place][section.name] for place in places], min_cell) if places else []
        for table in tables:
            rows = {
                label: [dict(zip(places, cells, strict=True)).get(place) for place in range(len(results))]
                for label, cells in table.rows.items()
            }
            found.append({"section": section.name, "title": table.title, "rows": rows})
    return found
