"""`task=diversity`: what a data set holds, before any model is judged on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.config import Config
from fp2.cuts import Cut, check_may_leave, memberships
from fp2.errors import Fp2Error, nearest
from fp2.protocols.base import Collected, EvaluationProtocol, Inputs, Job
from fp2.protocols.diversity import counts
from fp2.protocols.diversity.embeddings import Floats, from_file, from_model, named
from fp2.protocols.diversity.shapes import SHAPES, heat, measure_shapes, summary
from fp2.protocols.diversity.vendi import Vendi, vendi
from fp2.protocols.task_tables import no_scores, score_settings, score_tables
from fp2.results import Analysis
from fp2.tables import ATTRIBUTE_PREFIX, BY_REGION, ORIGINAL, attribute_columns

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.answers import RunTables

BLOCK = "diversity_report"
USUAL = ("pronoun", "age", "region", "skin_tone")
OPTIONS = ("embed", "variants", "attributes", "sample", "repeats", "order")


@dataclass(frozen=True)
class DiversityOptions:
    """The options of the task; see `conf/task/diversity.yaml`."""

    embed: bool
    variants: tuple[str, ...]
    attributes: tuple[str, ...] | None
    sample: int
    repeats: int
    order: float


def read_options(given: Mapping[str, Any]) -> DiversityOptions:
    """Return the options, checked.

    Raises
    ------
    Fp2Error
        Naming the first one that is wrong.
    """
    where = "task.options"
    for key in given:
        if key not in OPTIONS:
            raise Fp2Error(f"unknown option {key!r}", where=where, fix=nearest(str(key), OPTIONS))
    variants = tuple(str(kind) for kind in given.get("variants") or (ORIGINAL,))
    known = {ORIGINAL, "masked", "background_removed"} & ({ORIGINAL} | BY_REGION)
    for kind in variants:
        if kind not in known:
            raise Fp2Error(f"variant {kind!r} cannot be embedded here", where=where, fix=nearest(kind, known))
    sample, repeats = given.get("sample", 200), given.get("repeats", 50)
    order = given.get("order", 1)
    for name, value, least in (("sample", sample, 2), ("repeats", repeats, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise Fp2Error(f"{name} is {value!r}", where=where, fix=f"Give a whole number of at least {least}")
    if isinstance(order, bool) or not isinstance(order, int | float) or order < 0:
        raise Fp2Error(f"order is {order!r}", where=where, fix="Give a number of at least 0; 1 is the Vendi score")
    attributes = given.get("attributes")
    names = None if attributes is None else tuple(str(name) for name in attributes)
    check_may_leave(names or (), where)
    return DiversityOptions(bool(given.get("embed", False)), variants, names, sample, repeats, float(order))


class Diversity(EvaluationProtocol[DiversityOptions]):
    """What a data set holds: counts, shapes, and Vendi scores of embeddings."""

    name = "diversity"
    Options = DiversityOptions
    asks = False
    scoring = "none"
    sections = ("fp2.protocols.diversity.section:DiversitySection",)

    @classmethod
    def from_config(cls, config: Config) -> Diversity:
        """Return the protocol with its options."""
        return cls(read_options(config.task.options))

    def title(self, inputs: Inputs) -> str:
        """Return what the report is called."""
        return "Data set report"

    def check(self, inputs: Inputs) -> None:
        """Refuse unknown files and attributes."""
        for name in inputs.config.task.files:
            if name != "embeddings":
                raise Fp2Error(f"unknown file {name!r}", where="task.files", fix="It takes embeddings=FILE")
        if inputs.config.task.files.get("embeddings") and self.options.embed:
            what = "embeddings are given and asked for"
            raise Fp2Error(what, where="task", fix="Omit task.options.embed or the file")
        _attributes(inputs.people, inputs.cuts, self.options)

    def collect(self, inputs: Inputs) -> Collected:
        """Measure the shapes, and score the diversity of the embeddings."""
        people, config = inputs.people, inputs.config
        attributes = _attributes(people, inputs.cuts, self.options)
        with inputs.progress.steps("Measuring boxes, masks and keypoints", len(people)) as tick:
            numbers, points = measure_shapes(people, tick)
        scored, reasons, notes = _scored(inputs, attributes, self.options)
        measured = people.join(numbers)
        return Collected(
            tables=score_tables(measured, no_scores()),
            model=named(config) if self.options.embed else {"name": "nobody asked"},
            attributes=attributes,
            notes=notes,
            facts={
                "counted": counted(measured, attributes, config.analysis.min_subjects),
                "keypoints": heat(points), "vendi": scored, "not_embedded": reasons,
            },
        )  # fmt: skip

    def n_steps(self, job: Job, tables: RunTables) -> int:
        """Return 1."""
        return 1

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the block.

        The tables of a logged run keep the shapes, and the attributes of the intersections only: the number of
        attributes and values stays that of the first run; places, keypoints and Vendi scores cannot be computed again.
        """
        people, facts = tables.people, job.facts
        attributes = _attributes(people, job.cuts, self.options)
        block = dict(facts.get("counted") or counted(people, attributes, job.config.analysis.min_subjects))
        if "totals" in facts:
            block |= {"totals": block["totals"] | facts["totals"], "places": []}
        block |= {name: facts[name] for name in ("keypoints", "vendi", "not_embedded")}
        job.tick()
        return Analysis(
            settings=score_settings(job.config, {}), blocks={BLOCK: block | _summary(block, block["vendi"])}
        )

    def recall(self, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what of a logged run stays."""
        kept = {name: results[BLOCK]["totals"][name] for name in ("attributes", "attribute_values")}
        return {"totals": kept, "keypoints": None, "vendi": [], "not_embedded": {}}


def counted(people: pd.DataFrame, attributes: Sequence[str], least: int) -> dict[str, Any]:
    """Return the part of the block that follows from the people table and its columns of shapes."""
    listed = [name for name in counts.shown_attributes(people) if people[ATTRIBUTE_PREFIX + name].map(len).any()]
    return {
        "totals": counts.totals(people),
        "attributes": list(attributes),
        "intersections": counts.intersections(people, attributes, least),
        "places": counts.shares(people, counts.PLACES, least),
        "groups": [{"attribute": name, "rows": counts.shares(people, name, least)} for name in listed],
        "shapes": summary(people[list(SHAPES)]),
        "centres": heat(people[["centre_x", "centre_y"]].dropna().to_numpy()),
    }


def _attributes(people: pd.DataFrame, cuts: Sequence[Cut], options: DiversityOptions) -> tuple[str, ...]:
    """Return the attributes of the intersections: those named, else the usual ones, else those of the cuts."""
    known = [name for name in attribute_columns(people) if people[ATTRIBUTE_PREFIX + name].map(len).any()]
    for name in options.attributes or ():
        if name not in known:
            raise Fp2Error(f"nobody has the attribute {name!r}", where="task.options", fix=nearest(name, known))
    if options.attributes is not None:
        return options.attributes
    usual = tuple(name for name in USUAL if name in known)
    return usual or tuple(dict.fromkeys(part for cut in cuts for part in cut.by))


def _scored(
    given: Inputs, attributes: Sequence[str], options: DiversityOptions
) -> tuple[list[dict[str, Any]], dict[str, int], list[str]]:
    """Return the scores per variant, for everybody and by group; why pictures have no embedding; and notes."""
    config = given.config
    path = config.task.files.get("embeddings")
    if not path and not options.embed:
        note = "no Vendi score: give task.files.embeddings=FILE, or task.options.embed=true and model=a dual encoder"
        return [], {}, [note]
    reasons: dict[str, int] = {}
    scored: list[dict[str, Any]] = []
    kinds = ("file",) if path else options.variants
    for kind in kinds:
        if path:
            vectors, people = from_file(Path(path).expanduser(), given.people)
        else:
            vectors, people, missing = from_model(config, given.people, kind, given.store.connection, given.progress)
            reasons |= {f"{kind}: {reason}": n for reason, n in missing.items()}
        scored.append({"variant": kind, "by": None, "group": None, **_one(vectors, people, options, config)})
        scored += [
            {"variant": kind, "by": name, "group": group, **_one(vectors[rows], people.iloc[rows], options, config)}
            for name in attributes
            for group, rows in _rows(people, name, config.analysis.min_subjects)
        ]
    return scored, reasons, []


def _rows(people: pd.DataFrame, attribute: str, least: int) -> list[tuple[str, list[int]]]:
    """Return the groups with enough people, and the rows of their pictures."""
    place = {name: row for row, name in enumerate(people["image_id"])}
    entries = memberships(people, Cut(attribute, (attribute,)))
    return [
        (str(group), [place[name] for name in part["image_id"]])
        for group, part in entries.groupby("group", sort=True)
        if part["subject_id"].nunique() >= least
    ]


def _one(vectors: Floats, people: pd.DataFrame, options: DiversityOptions, config: Config) -> dict[str, Any]:
    found: Vendi = vendi(
        vectors, people["subject_id"], sample=options.sample, repeats=options.repeats, seed=config.seed, q=options.order
    )
    return asdict(found)


def _summary(block: Mapping[str, Any], scored: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what MLflow charts and the passport holds."""
    metrics = {f"totals.{name}": float(n) for name, n in block["totals"].items()}
    metrics |= {f"{one['name']}.median": one["quantiles"][2] for one in block["shapes"]}
    metrics |= {f"vendi.{one['variant']}": one["score"] for one in scored if one["by"] is None}
    return {"metrics": metrics, "headline": dict(block["totals"])}
