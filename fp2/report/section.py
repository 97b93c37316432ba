"""How one block of the results is shown: in the dashboard, as figures, and in the terminal.

A protocol names its sections by import path (`EvaluationProtocol.sections`), so that its figures load with the report
and not before. A section reads a block and computes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text

from fp2.plugins import load_path

Block = Mapping[str, Any]
Results = Mapping[str, Any]


class Section:
    """What a reader sees of one block of `results.json`.

    Attributes
    ----------
    name : str
        The block's key in the results.
    title : str
        The heading in the dashboard.
    detail : bool
        Whether the section follows the fingerprint's tables, which it explains, or precedes them.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    detail: ClassVar[bool] = False

    @property
    def template(self) -> Path:
        """The Jinja2 template of the dashboard: `<name>.html.j2` beside the module of the class."""
        return Path(inspect.getfile(type(self))).with_name(f"{self.name}.html.j2")

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return what the template reads, as `section`; groups of fewer than `min_cell` subjects are left out.

        The key `alts` (file name -> text) lists the figures that the template shows.
        """
        return {}

    def figures(self, block: Block, results: Results, folder: Path) -> Iterator[Path]:
        """Draw PNG files named `<name>_*.png` into `folder` and yield their paths."""
        return iter(())

    def lines(self, block: Block, results: Results) -> list[Text]:
        """Return the headline for the terminal."""
        return []


def load_sections(targets: Sequence[str]) -> list[Section]:
    """Return the sections that the import paths name.

    Raises
    ------
    Fp2Error
        If one cannot be imported.
    """
    return [load_path(target, "report section")() for target in targets]


def present(sections: Sequence[Section], results: Results) -> list[Section]:
    """Return the sections that the results have a block for."""
    return [section for section in sections if results.get(section.name)]
