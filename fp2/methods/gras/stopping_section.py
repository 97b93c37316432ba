"""How far each trait was asked in each template, and what was decided, in the reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from fp2.extension import Block, Column, Kind, Results, Row, Section, Sentence, Table, Value, Weight, cut_label, number
from fp2.methods.gras.decisions import NAMES
from fp2.methods.stopping.block import asked_words, looks_words


class GrasStoppingSection(Section):
    """The block `stopping` of a GRAS run."""

    name = "stopping"
    title = "Stopped when certain"

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield what was saved, the decisions by attribute, the last look at each trait, and the rule."""
        of_traits = results["gras"]
        yield Sentence(
            f"{asked_words(block)} The composite, whether groups differ in anything: {block['composite']}.",
            Weight.PLAIN,
        )
        counts = {name: Counter(np.ravel(row["decided"]).tolist()) for name, row in block["rows"].items()}
        rows = [Row([f"by {cut_label(name)}", *(n[decided] for decided in NAMES)]) for name, n in counts.items()]
        yield Table("stopping_rows", ATTRIBUTES, rows, "Traits in templates, by what was decided")
        columns = [Column("Last look at"), *(Column(name, Kind.COUNT) for name in of_traits["templates"])]
        last = [Row([trait["word"], *looks]) for trait, looks in zip(of_traits["traits"], block["last"], strict=True)]
        yield Table("stopping_last", columns, last, fold="Last look at each trait")
        yield Sentence(
            f"{looks_words(block)} A trait was asked no "
            "further in a template once its rows of all attributes were different or equivalent (the interval of the "
            f"largest difference is beyond, or within, {number(block['smallest_effect'])}) or futile (conditional "
            f"power of both below {100 * block['futility']:.0f} %), and the composite decided. {block['estimates']}",
            Weight.DETAIL,
        )


ATTRIBUTES = [Column("Rows"), *(Column(name.capitalize(), Kind.COUNT) for name in NAMES)]
