"""Variance components of the answers, and the comparison of repeated samples.

The disparities average samples and questions. This supplement says how much of the variation is due to each, and
whether another run would show the same differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from fp2.extension import (
    Block,
    Cell,
    Column,
    ComparedRun,
    Estimate,
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
    entries_of,
    first_of,
    json_ready,
    members,
    number,
    outcome_columns,
    probe_labels,
    question_of,
    sample_id,
    sample_of,
    sentence,
)

NOTHING_SAMPLED = "all samples of every answer are equal: the engine ignores the temperature, and one sample is enough"
ONE_QUESTION = "one question: the variation between wordings cannot be estimated"


class Variance(Supplement):
    """Variance components of the probes with several questions, or several samples of each answer."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `variance`, or None where every probe is one question that is asked once."""
        from fp2.extension import of_sets

        if not run.disparities or run.battery.people != 1 or of_sets(run.people):
            return None
        rows = list(_rows(run))
        if not rows:
            return None
        answers = run.answers[run.answers["status"] == "answered"]
        keys = [answers["image_id"], answers["subject_id"], answers["question_id"].map(question_of)]
        texts = answers["text"].groupby(keys).agg(["size", "nunique"])
        several = texts.loc[texts["size"] > 1, "nunique"]
        return {
            "scorer": run.comparison.primary,
            "alpha": run.comparison.alpha,
            "n_samples": run.battery.decoding.samples,
            "share_identical": float((several == 1).mean()) if len(several) else None,
            "estimator": "method of moments from mean squares (Cornfield and Tukey 1956), negative estimates as 0; "
            "generalised confidence intervals (Weerahandi 1993)",
            "rows": rows,
        }

    def columns(self, block: Mapping[str, Any]) -> Mapping[tuple[str, str, str], Mapping[str, Any]]:
        """Return the interval of the gap for other subjects and other samples."""
        return {
            (row["probe"], block["scorer"], row["cut"]): {
                "samples_low": row["samples"]["others"]["gap_low"],
                "samples_high": row["samples"]["others"]["gap_high"],
            }
            for row in block["rows"]
            if row["samples"]
        }


def _rows(run: ComparedRun) -> Iterator[dict[str, Any]]:
    """Yield one row per probe with several questions or samples, and cut, of the primary scorer."""
    from fp2.methods.prompt_variation.components import variance_components
    from fp2.methods.prompt_variation.random_factors import between_samples

    c = run.comparison
    scores = run.scores[run.scores["scorer"] == c.primary]
    for probe, part in scores.groupby("probe", sort=False):
        if part["question_id"].nunique() < 2:
            continue
        wide = outcome_columns(part.assign(probe=part["question_id"]))
        names, (scorer,) = part["question_id"].unique(), part["scorer"].unique()
        questions, n_samples = list(dict.fromkeys(map(question_of, names))), 1 + max(map(sample_of, names))
        columns = [(sample_id(question, sample), scorer) for question in questions for sample in range(n_samples)]
        wide, shape = wide.reindex(columns=columns), (len(questions), n_samples)
        for cut in run.cuts:
            entries = entries_of(wide, members(run.people, cut))
            values = entries.values.reshape(-1, *shape)
            labels = (values, entries.groups, entries.subjects)
            options: dict[str, Any] = {"images": entries.images, "min_subjects": c.min_subjects, "alpha": c.alpha}
            components = variance_components(*labels, **options, seed=c.seed)
            if components is None:
                continue
            spread = between_samples(*labels, **options) if shape[1] > 1 else None
            yield {
                "probe": str(probe),
                "cut": cut.name,
                "n_questions": shape[0],
                "other_wordings": None if shape[0] > 1 else ONE_QUESTION,
                **json_ready(asdict(components)),
                "samples": None if spread is None else json_ready(asdict(spread)),
            }


class VarianceSection(Section):
    """The shares of the components, and the differences in each sample, by cut."""

    name = "variance"
    title = "Sources of variation"
    detail = True

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield how far samples differ, and by cut the components and the clearest difference in each sample."""
        labels = probe_labels(results)
        spreads = [
            f"{labels[row['probe']]} by {cut_label(row['cut'])} {number(row['samples']['sd'])}"
            for row in block["rows"]
            if row["samples"]
        ]
        if block["share_identical"] == 1:
            yield Sentence(f"{sentence(NOTHING_SAMPLED)}.", Weight.WARNING)
        elif spreads:
            yield Sentence(f"SD of the clearest difference between samples: {first_of(spreads, 6)}.")
        for cut in dict.fromkeys(row["cut"] for row in block["rows"]):
            rows = {labels[row["probe"]]: row for row in block["rows"] if row["cut"] == cut}
            components = {label: {part["name"]: part for part in row["components"]} for label, row in rows.items()}
            names = list(dict.fromkeys(name for parts in components.values() for name in parts))
            columns = [Column(sentence(name.replace(" x ", " × ")), Kind.SHARE, digits=2) for name in names]
            cells = [Row([label, *(_share(parts.get(name)) for name in names)]) for label, parts in components.items()]
            caption = f"Shares of the variance in percent, by {cut_label(cut)}"
            yield Table("components", [Column("Probe"), *columns], cells, caption, cut=cut)
            sampled = [_sampled(label, row["samples"]) for label, row in rows.items() if row["samples"]]
            caption = f"The clearest difference in {block['n_samples']} samples of every answer, by {cut_label(cut)}"
            yield Table("samples", SAMPLE_COLUMNS, sampled, caption, cut=cut)
            if single := [label for label, row in rows.items() if row["other_wordings"]]:
                yield Sentence(f"{', '.join(single)}: {ONE_QUESTION}.", Weight.DETAIL, cut=cut)
        if block["share_identical"] is not None:
            share = number(100 * block["share_identical"], 1)
            yield Sentence(f"All samples of an answer are equal in {share} % of the answers.", Weight.DETAIL)
        yield Sentence(HOW_TO_READ.format(estimator=block["estimator"]), Weight.DETAIL)


def _share(part: Mapping[str, Any] | None) -> Cell:
    if part is None:
        return Cell(None)
    share = Estimate(part["share"], part["share_low"], part["share_high"])
    return Cell(share, detail="estimated below 0" if part["negative"] else "")


def _sampled(label: str, samples: Mapping[str, Any]) -> Row:
    """Return the clearest difference of one probe: in the first samples, on average, and in other samples."""
    differences, others = samples["differences"], samples["others"]
    shown = ", ".join(number(difference, signed=True) for difference in differences[:8])
    return Row(
        [
            label,
            others["worst"],
            others["best"],
            Cell(others["difference"], detail=shown + (", ..." if len(differences) > 8 else "")),
            Estimate(samples["sd"], samples["sd_low"], samples["sd_high"]),
            Estimate(None, samples["same_low"], samples["same_high"]),
            Estimate(None, others["low"], others["high"]),
        ]
    )


SAMPLE_COLUMNS = [
    Column("Probe"),
    Column("Lower", Kind.NAME),
    Column("Higher", Kind.NAME),
    Column("Mean difference, and in each sample", Kind.NUMBER, signed=True),
    Column("SD between samples", Kind.ESTIMATE),
    Column("Same subjects, other samples", Kind.INTERVAL, signed=True),
    Column("Other subjects and samples", Kind.INTERVAL, signed=True),
]
HOW_TO_READ = (
    "Shares of the variance components in their sum, with intervals, by the {estimator}. Groups are those compared; "
    "questions, subjects, their images and samples of an answer count as drawn from many. Group × question is how far "
    "the differences between groups depend on the wording; what varies with subjects or samples is noise that more of "
    "them reduce. Images without an answer to some question are left out. Without repeated samples the last component "
    "is the residual, and where subjects have one image each, the components of subjects include those of images. The "
    "SD between samples is what one run would differ from another by; the last interval is corrected for all pairs of "
    "groups."
)
