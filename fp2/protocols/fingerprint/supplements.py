"""What supplements a comparison of groups may have, and what each needs: it is imported only where a run has that.

Those of method packages are entry points of the group `fp2.supplements`, each a `SupplementEntry`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fp2.errors import Fp2Error
from fp2.plugins import SUPPLEMENTS, installed, load_path

if TYPE_CHECKING:
    from fp2.ask.answers import RunTables
    from fp2.protocols.base import Job
    from fp2.protocols.fingerprint.settings import Supplement
    from fp2.results import Method


@dataclass(frozen=True)
class SupplementEntry:
    """What is known of a supplement before it is imported.

    Attributes
    ----------
    name : str
        The block's key in `results.json`.
    target : str
        Import path of the supplement (`package.module:Name`).
    section : str or None
        Import path of its report section.
    methods : tuple of Method
        Methods whose numbers can differ between versions of fp2, with the places of results that each owns.
    fits : callable
        Whether a run with this config, battery and cuts and these tables can have the block; the supplement itself
        looks closer, and may return none.
    order : int
        Of the blocks in `results.json` and of the sections; those of one number stand in the order of their names.
    """

    name: str
    target: str
    section: str | None = None
    methods: tuple[Method, ...] = ()
    fits: Callable[[Job, RunTables], bool] = lambda job, tables: True
    order: int = 10

    @classmethod
    def of(cls, target: str) -> SupplementEntry:
        """Return the entry of a supplement that the config names by its import path.

        Raises
        ------
        Fp2Error
            If it cannot be imported, or is no supplement.
        """
        from fp2.protocols.fingerprint.settings import Supplement

        where = "probe.options.supplements"
        supplement = load_path(target, where)
        if not (isinstance(supplement, type) and issubclass(supplement, Supplement)):
            raise Fp2Error(f"{target} is not a supplement", where=where, fix="Derive it from Supplement")
        return cls(supplement.name, target, supplement.section, supplement.methods)

    def load(self) -> Supplement:
        """Import the supplement."""
        supplement: Supplement = load_path(self.target, SUPPLEMENTS)()
        return supplement


def of_packages() -> tuple[SupplementEntry, ...]:
    """Return the supplements of the installed method packages, in the order of their names.

    Raises
    ------
    Fp2Error
        If an entry point cannot be imported.
    """
    return tuple(load_path(point.value, SUPPLEMENTS) for _, point in sorted(installed(SUPPLEMENTS).items()))
