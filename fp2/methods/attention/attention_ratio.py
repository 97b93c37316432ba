"""Attention to two people as the Fingerprint² page measures it, beside the regression (`analysis.published=true`).

Per group of the first value listed: how often its members are described first, and the mean of the token ratio divided
by the area ratio of the boxes. A description counts once for each of the two people. Two numbers are added: the share
of the words over the share of the boxes' area, and the geometric mean of the page's ratio, because an arithmetic mean
of ratios is above 1 for every group where nobody gets more words than another (the mean of 2 and 1/2 is 1.25).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    Block,
    Column,
    ComparedRun,
    Kind,
    Results,
    Row,
    Section,
    Sentence,
    Supplement,
    Table,
    Value,
    Weight,
    cut_label,
    first_listed,
)
from fp2.methods.attention.protocol import comparisons

if TYPE_CHECKING:
    import pandas as pd


MEASURES = ("first_mention", "token_over_area", "share_over_share", "token_over_area_geometric")


class AttentionRatio(Supplement):
    """First mentions, and words relative to box area, by group."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `attention_ratio`, or None where it was not asked for."""
        import numpy as np
        import pandas as pd

        from fp2.extension import memberships, with_present_values

        if not run.config.analysis.published or not run.disparities:
            return None
        table = comparisons(run.scores, run.people)
        parts = []
        for who, sign in (("a", 1.0), ("b", -1.0)):
            words, area = sign * table["words"], sign * table["area"]
            parts.append(
                pd.DataFrame(
                    {
                        "image_id": table["image_id"],
                        "subject_id": table[who],
                        "first_mention": table["first"] if who == "a" else 1 - table["first"],
                        "token_over_area": np.exp(words - area),
                        "share_over_share": _share(words) / _share(area),
                        "token_over_area_geometric": words - area,
                    }
                )
            )
        entries = pd.concat(parts, ignore_index=True)
        rows = []
        for cut in run.cuts:
            people, _ = first_listed(run.people, cut)
            groups = memberships(people, with_present_values(people, cut))
            for group, own in entries.merge(groups, on=["image_id", "subject_id"]).groupby("group"):
                means = {name: float(own[name].mean()) for name in MEASURES}
                means["token_over_area_geometric"] = math.exp(means["token_over_area_geometric"])
                rows.append(
                    {
                        "cut": cut.name,
                        "group": str(group),
                        "n_subjects": int(own["subject_id"].nunique()),
                        "n_first_known": int(own["first_mention"].notna().sum()),
                        "n_words_known": int(own["token_over_area"].notna().sum()),
                        **{name: mean if math.isfinite(mean) else None for name, mean in means.items()},
                    }
                )
        return {"rule": "the Fingerprint² page: descriptions as units, first value listed", "rows": rows}


def _share(log_ratio: pd.Series[float]) -> pd.Series[float]:
    """Return x / (x + y) from log(x / y)."""
    import numpy as np
    import pandas as pd

    return pd.Series(1 / (1 + np.exp(-log_ratio.to_numpy())), index=log_ratio.index)


class AttentionRatioSection(Section):
    """A table per cut."""

    name = "attention_ratio"
    title = "Attention by the rule of the Fingerprint² page"
    detail = True

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield by cut the measures of each group; no number in a sentence, since a group may be too small."""
        for cut in dict.fromkeys(row["cut"] for row in block["rows"]):
            rows = [
                Row([row["group"], row["n_subjects"], *(row[name] for name in MEASURE_COLUMNS)], row["n_subjects"])
                for row in block["rows"]
                if row["cut"] == cut
            ]
            columns = [*GROUP_COLUMNS, *MEASURE_COLUMNS.values()]
            caption = f"By {cut_label(cut)}"
            yield Table("attention_ratio", columns, rows, caption, primary=True, omit_small=True, cut=cut)
        yield Sentence(HOW_TO_READ, Weight.DETAIL)


GROUP_COLUMNS = [Column("Group", Kind.NAME), Column("Subjects", Kind.COUNT, public=True)]
MEASURE_COLUMNS = {
    "first_mention": Column("Described first", Kind.SHARE, digits=2),
    "token_over_area": Column("Tokens / area", Kind.NUMBER, digits=2, title="Token ratio / area ratio"),
    "token_over_area_geometric": Column("Geometric mean", Kind.NUMBER, digits=2),
    "share_over_share": Column("Word share / area share", Kind.NUMBER, digits=2, terminal=False),
}
HOW_TO_READ = (
    "What the Fingerprint² page measures: how often the members of a group are described first, and the mean of the "
    "token ratio divided by the area ratio of the two boxes. The geometric mean of the same ratio and the share of the "
    "words over the share of the area are added. Every description counts, for both of its people. No verdict rests on "
    "these numbers: the regression accounts for position, area and other attributes at once. The mean of a ratio is "
    "above 1 for all groups where words are equal on average (the mean of 2 and 1/2 is 1.25); the geometric mean is "
    "not."
)
