"""What the page of a run says beside what its protocol found: notices, balance, answers, questions, how to repeat it.

Each function returns values (`fp2.report.values`); a section without values is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fp2.report.leaderboard import boards, rank
from fp2.report.reading import (
    SUPPLIED,
    calibration_of,
    cut_label,
    failed_words,
    plain,
    probe_labels,
    scorer_label,
    scorer_version,
    shorten,
    variant_line,
    were_supplied,
)
from fp2.report.reproduce import HowToRepeat, code_words, decoding_words, question_sets
from fp2.report.values import (
    Axis,
    Cell,
    Chart,
    ChartKind,
    Code,
    Column,
    Kind,
    Name,
    Part,
    Point,
    Row,
    Sentence,
    Series,
    Strong,
    Table,
    Value,
    Weight,
)
from fp2.results import BalanceRow, FrequentAnswer, Probe, RunResults, Summary
from fp2.tables import UNENDED, WITHOUT_ATTEMPT

MIN_EXAMPLE_COUNT = 2  # an answer that occurs once is about one image, and may describe the person in it
_EXAMPLES_PER_PROBE = 8
NOTHING_ABOUT_PEOPLE = "The numbers say nothing about people or about any other model."
PLANTED = "Effects of known size were planted on purpose, to see whether the method finds them."
GROUPS_ARE_REPORTED = "Groups are values of attributes, reported by the subjects where the data set asked them."
ABOUT_THE_MODEL = " A difference between groups in what a model does is a property of the model, not of the people."
FACTS = (Column("What"), Column("Value", Kind.CODE))


def notices(results: RunResults) -> Iterator[Sentence]:
    """Yield what a reader has to know before the numbers."""
    control = calibration_of(results)
    if control["without_effects"]:
        warning = " Every difference between groups is chance. "
        yield Sentence(
            [Strong("Simulated model without planted effects."), warning, NOTHING_ABOUT_PEOPLE], Weight.WARNING
        )
    elif control["calibration"]:
        yield Sentence([Strong("Positive control."), f" {PLANTED} {NOTHING_ABOUT_PEOPLE}"], Weight.WARNING)
    if caution := results["dataset"].get("caution"):
        yield Sentence([Strong("Data."), " ", Name(caution)], Weight.WARNING)
    if were_supplied(results):
        source = " The model, the questions, the images and the settings are those that their source states; none of "
        yield Sentence([Strong(SUPPLIED), source, "this was verified."], Weight.WARNING)
    if variant := variant_line(results):
        yield Sentence([Strong("Image variant."), " ", variant], Weight.WARNING)
    if not results["complete"]:
        warning = " Some planned answers are missing; the numbers may change when it is completed."
        yield Sentence([Strong("Partial run."), warning], Weight.WARNING)


def sizes(results: RunResults) -> Iterator[Sentence]:
    """Yield who is in the images, and how many answers there are."""
    dataset, answers = results["dataset"], results["answers"]
    release = [", release ", Name(dataset["release"])] if dataset.get("release") else []
    n = f"{results['n_subjects']:,} subjects, {results['n_images']:,} images from "
    counts = []
    if answers["planned"]:
        counts += [f"; {answers['answered']:,} of {answers['planned']:,} planned answers"]
        counts += [f"{answers['refused']:,} of these refusals"] if answers["refused"] else []
        counts += [failed_words(answers)] if answers["failed"] else []
        counts += [f"{answers[key]:,} {scorer_label(key)}" for key in WITHOUT_ATTEMPT if key in answers]
    yield Sentence([n, Name(dataset["name"]), *release, f"{', '.join(counts)}. {plain(results['created'])[:10]}."])
    for cut, n_without in (dataset.get("without_value") or {}).items():
        if n_without:
            who = f"{n_without:,} subject{'s have' if n_without > 1 else ' has'}"
            yield Sentence(f"{who} no value of {cut_label(cut)} and {'are' if n_without > 1 else 'is'} in no group.")


def balance(results: RunResults) -> Iterator[Value]:
    """Yield the association of the cuts with the other attributes."""
    columns = (
        Column("Groups by"),
        Column("Other attribute"),
        Column("Subjects with both", Kind.COUNT),
        Column("Cramér's V", Kind.NUMBER, digits=2),
    )
    if results.get("balance"):
        yield Sentence(
            "Where the groups of a cut also differ in another attribute, a difference between them may be due to that "
            "attribute. Cramér's V measures the association of two attributes: 0 is none, 1 is complete; it is "
            "corrected for bias. From 0.3 on, a pair is called confounded. Each subject counts once.",
            Weight.DETAIL,
        )
    for cut in results["cuts"] if results.get("balance") else ():
        rows = [
            Row([cut_label(row["attribute"]), cut_label(row["other"]), row["n_subjects"], _association(row)])
            for row in results["balance"]
            if row["cut"] == cut
        ]
        caption = f"Association of {cut_label(cut)} with other attributes"
        yield Table("balance", columns, rows, caption, empty=f"{caption}: no other attribute is known.", cut=cut)


def _association(row: BalanceRow) -> Cell:
    remark = "confounded" if row["confounded"] else "no subject has both" if not row["n_subjects"] else ""
    if row["n_subjects"] and row["cramers_v"] is None:
        remark = "one group only"
    return Cell(row["cramers_v"], detail=remark, strong=bool(row["confounded"]))


def answers_by_group(results: RunResults) -> Iterator[Value]:
    """Yield the refusal rates and the counts of answers of the groups of each cut."""
    absent = [key for key in WITHOUT_ATTEMPT if key in results["answers"]]
    unended = [UNENDED] if UNENDED in results["answers"] else []
    keys = ("answered", "refused", "failed", *unended, *absent)
    labels = (
        "Answered",
        "of these refused",
        "Failed",
        *(f"of these {scorer_label(key)}" for key in unended),
        *(scorer_label(key).capitalize() for key in absent),
    )
    columns = [
        Column("Group", Kind.NAME),
        Column("Subjects", Kind.COUNT, public=True),
        Column("Planned", Kind.COUNT, public=True),
        *(Column(label, Kind.COUNT) for label in labels),
    ]
    groups = results["dataset"]["groups"]
    for cut in results["cuts"] if results["answers_by_group"] else ():
        rows, rates = [], []
        for row in results["answers_by_group"]:
            if row["cut"] == cut:
                n = groups.get(cut, {}).get(row["group"], {}).get("n_subjects")
                rows.append(Row([row["group"], n, row["planned"], *(row.get(key, 0) for key in keys)], n or 0))
                if answered := row["answered"]:
                    rate = row["refused"] / answered
                    title = f"{row['group']}: {rate:.1%} of {answered:,} answers"
                    rates.append(Point(rate, row["group"], title=title, subjects=n or 0))
        if any(rate.value for rate in rates):
            yield Chart(
                ChartKind.BARS,
                f"refusals_{cut}",
                f"Refusal rate by {cut_label(cut)}",
                [Series(rates)],
                Axis("refusals per answer", 0.0),
                cut=cut,
                in_files=False,
            )
        if n := (results["dataset"].get("without_value") or {}).get(cut):
            rows.append(Row(["no value", Cell(n, detail="in no group"), *[None] * (len(columns) - 2)]))
        yield Table("answers", columns, rows, f"By {cut_label(cut)}", cut=cut)
    if results["answers_by_group"]:
        tested = " Whether refusals differ between groups is tested by the scorer “refusal”."
        yield Sentence(f"A subject can count in several groups.{tested if results['scorers'] else ''}", Weight.DETAIL)


def diversity(results: RunResults) -> Iterator[Value]:
    """Yield how many different answers each probe has."""
    labels = probe_labels(results)
    columns = (
        Column("Probe"),
        Column("Answers", Kind.COUNT),
        Column("Distinct", Kind.COUNT),
        Column("Entropy (bits)", Kind.NUMBER, digits=2),
    )
    rows = [
        Row(
            [
                labels.get(row["probe"], row["probe"]),
                row["n"],
                row["distinct"],
                Cell(row["entropy"], detail="not testable: always the same answer, or none" * row["uninformative"]),
            ]
        )
        for row in results.get("diversity") or ()
    ]
    yield Table("diversity", columns, rows)


def frequent_answers(results: RunResults, examples: Sequence[FrequentAnswer]) -> Iterator[Value]:
    """Yield the most frequent answers of each probe, shortened; none that occurs fewer than `MIN_EXAMPLE_COUNT` times.

    `examples` are distinct answers over all subjects (`probe, text, count`).
    """
    labels = probe_labels(results)
    for probe in results["probes"] if examples else ():
        counted = sorted((e for e in examples if e["probe"] == probe["id"]), key=lambda e: (-e["count"], e["text"]))
        frequent = [e for e in counted if e["count"] >= MIN_EXAMPLE_COUNT]
        rows = [Row([shorten(e["text"]), e["count"]]) for e in frequent[:_EXAMPLES_PER_PROBE]]
        values: list[Value] = [Table("frequent", (Column("Answer", Kind.NAME), Column("Count", Kind.COUNT)), rows)]
        if more := len(frequent) - len(rows):
            values.append(Sentence(f"Further frequent answers: {more}."))
        if rare := len(counted) - len(frequent):
            rarity = (
                f"Answers that occur fewer than {MIN_EXAMPLE_COUNT} times ({rare}) are not shown: each is about one"
            )
            values.append(Sentence(f"{rarity} subject or a few."))
        if not counted:
            values.append(Sentence("No answers."))
        yield Part([f"{labels[probe['id']]}: ", Name(probe.get("text") or "")], values, folded=True)


def leaderboard(results: RunResults, summaries: Iterable[Summary]) -> Iterator[Value]:
    """Yield the runs of the store by the cuts of this one; `summaries` as `fp2.report.leaderboard.summarise` does."""
    tables = [table for table in boards(rank(summaries), plain(results["run_id"])) if table.cut in results["cuts"]]
    yield from tables
    if tables:
        yield Sentence(
            "Runs are ordered by the magnitude of their composite, smallest first. Neighbours may differ by chance "
            "only: for runs on the same subjects, fp2 leaderboard gives confidence intervals of the ranks.",
            Weight.DETAIL,
        )


def question_values(runs: Sequence[tuple[str, Sequence[Probe]]], asked: bool) -> Iterator[Value]:
    """Yield the questions of labelled runs, verbatim; those that all runs share without labels."""
    for question_set in question_sets(runs):
        rows = []
        for probe in question_set["probes"]:
            choices = "; ".join(f"choices: {', '.join(listed)}" for listed in probe["choices"])
            rows += [Row([probe["label"], Cell(text, detail=choices)]) for text in probe["texts"] if text]
        columns = (Column("Probe", Kind.NAME), Column("Question" if asked else "What", Kind.NAME))
        yield Table("questions", columns, rows, [Name(", ".join(question_set["runs"]))] if question_set["runs"] else "")
    if "{trait}" in str(runs):
        yield Sentence(
            [
                Code("{trait}"),
                " stands for each word of the list of traits; ",
                Code("questions.parquet"),
                " in the run's folder has every question.",
            ]
        )


def limitation_values(lines: Iterable[Sequence[str]], model: bool = True) -> Iterator[Sentence]:
    """Yield what limits the results; `lines` are texts of sentences."""
    for text in lines:
        yield Sentence(text)
    yield Sentence(GROUPS_ARE_REPORTED + (ABOUT_THE_MODEL if model else ""))


def identity(results: RunResults, key_id: str | None) -> Part:
    """Return model, data and hashes, folded."""
    model, dataset = results["model"], results["dataset"]
    facts = {
        f"model {scorer_label(key)}": model[key]
        for key in ("id", "engine", "revision", "weights_digest", "dtype", "quantisation")
        if model.get(key)
    }
    if were_supplied(results):
        facts["supplied answers"] = model["supplied"]["digest"]
    hashes = ("run_id", "config_hash", "response_set", "dataset_digest", "fp2_version")
    facts |= {scorer_label(key): results[key] for key in hashes if results.get(key)}
    facts["terms of use of the data"] = dataset.get("terms") or "not recorded: those of the data set's owner apply"
    facts |= {"signing key": key_id} if key_id else {}
    facts |= {f"scorer {scorer_label(scorer['name'])}": scorer_version(scorer) for scorer in results["scorers"]}
    rows = [Row([name, str(value)]) for name, value in facts.items()]
    return Part("Identity: model, data and hashes", [Table("identity", FACTS, rows)], folded=True)


def repeat_rows(one: HowToRepeat) -> list[Row]:
    """Return how a run is repeated (`fp2.report.reproduce.how_to_repeat`): command, code, seeds, decoding, passport."""
    remarks = []
    if one["places"]:
        remarks.append(f"{', '.join(one['places'])}: a file or an address of the machine on which the run was made")
    if one["source"]:
        remarks.append(f"it scores the answers of run {one['source']} again")
    if one["earlier"]:
        remarks.append(f"which was made by: {'; '.join(one['earlier'])}")
    if one["objects"]:
        remarks.append(f"started from Python, with {', '.join(one['objects'])} given as an object, not in the line")
    rows = [
        Row(["Command", Cell(one["command"] or "not recorded", detail="; ".join(remarks))]),
        Row(["Code", code_words(one["code"])]),
    ]
    seeds = {name: seed for name, seed in one["seeds"].items() if seed is not None}
    if seeds:
        rows.append(Row(["Seeds", ", ".join(f"{name} {seed}" for name, seed in seeds.items())]))
    if decoding := decoding_words(one):
        rows.append(Row(["Answers", decoding]))
    return rows


def reproduce(results: RunResults, how: HowToRepeat | None, key_id: str | None) -> Iterator[Value]:
    """Yield how the run is repeated, scored again, verified and compared."""
    run, verify = plain(results["run_id"])[:12], "fp2 verify passport.json --key PUBLIC_KEY.pem"
    rows = repeat_rows(how) if how else []
    rows.append(Row(["Repeat and compare every number", f"fp2 rerun {run}"]))
    if results["answers"]["planned"]:
        rows.append(Row(["Other scorers or cuts, without asking", f"fp2 rescore {run} scorer=NAME cut=NAME"]))
    signed = "a signature proves who stated these numbers and that they are unchanged, not that they are right"
    rows.append(Row(["Verify the passport and every file", Cell(verify, detail=signed)]))
    rows.append(Row(["Test whether two runs differ", f"fp2 compare {run} OTHER_RUN"]))
    yield Table("reproduce", FACTS, rows)
    yield identity(results, key_id)
