"""`task=diversity`: a report of a data set (counts, shapes, Vendi scores), before a model is evaluated on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from fp2.extension import (
    BY_REGION,
    NO_MODEL,
    ORIGINAL,
    Analysis,
    Block,
    Collected,
    Collects,
    Config,
    Cut,
    Flag,
    FloatArray,
    Fp2Error,
    Inputs,
    Job,
    Names,
    OmitDefault,
    Range,
    Statements,
    VariantConfig,
    check_may_leave,
    check_names,
    given_files,
    memberships,
    nearest,
    no_scores,
    read_options,
    score_settings,
    score_tables,
)
from fp2.methods.dataset_report import describe
from fp2.methods.dataset_report.describe import SHAPES, heat_map, measure_shapes, summary
from fp2.methods.dataset_report.vendi import describe_model, encoder_of, from_file, from_model, vendi
from fp2.methods.fhibe.scores.features import known_attributes

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import RunTables

BLOCK = "diversity_report"
USUAL = ("pronoun", "age", "region", "skin_tone")
"""Attributes of the intersections, as far as the data set has them."""
EMBEDDABLE = {ORIGINAL, "masked", "background_removed"} & ({ORIGINAL} | BY_REGION)


def _variants(given: Any) -> tuple[VariantConfig, ...]:
    """Return image variants, each given as its kind or as a table of its kind and parameters."""
    entries = [given] if isinstance(given, str | Mapping) else given or [ORIGINAL]
    if not isinstance(entries, list | tuple):
        raise ValueError("Input should be a list of image variants, such as [original, masked]")
    where, found = "task.options.variants", []
    for entry in entries:
        if isinstance(entry, VariantConfig):
            found.append(entry)
            continue
        table = {str(key): value for key, value in (entry if isinstance(entry, Mapping) else {"kind": entry}).items()}
        kind = str(table.get("kind"))
        if kind not in EMBEDDABLE:
            raise Fp2Error(f"variant {kind!r} cannot be embedded here", where=where, fix=nearest(kind, EMBEDDABLE))
        named = [kind, *(f"{key} {value}" for key, value in table.items() if key != "kind")]
        found.append(read_options(VariantConfig, {"name": ", ".join(named), **table}, where))
    return tuple(found)


@dataclass(frozen=True)
class DiversityOptions:
    """`task.options`.

    Attributes
    ----------
    embed : bool
        Whether the images are embedded by the network of `model`: a dual encoder, or one of images only.
    crop : bool
        Whether they are cropped as the network's image processor does; false (networks of images only): the whole image
        is resized.
    variants : tuple of VariantConfig
        Image variants that are embedded: kinds, or tables of a kind and its parameters.
    attributes : tuple of str, optional
        Attributes of the intersections; None: `USUAL`.
    sample, repeats : int
        Subjects of an equal sample, and number of samples.
    order : float
        Order of the Vendi score.
    """

    embed: Flag | None = False
    crop: Annotated[Flag, OmitDefault()] = True
    variants: Annotated[tuple[VariantConfig, ...], BeforeValidator(_variants)] = (VariantConfig(),)
    attributes: Names | None = None
    sample: Annotated[int, Range(2)] = 200
    repeats: Annotated[int, Range(1)] = 50
    order: Annotated[float, Range(0)] = 1.0

    def __post_init__(self) -> None:
        check_may_leave(self.attributes or (), "task.options.attributes")


class Diversity(Collects[DiversityOptions]):
    """Counts of a data set, shapes of its people, and Vendi scores of embeddings."""

    name = "diversity"
    Options = DiversityOptions
    states = Statements("Data set report", ("fp2.methods.dataset_report.section:DiversitySection",))

    def check(self, inputs: Inputs) -> Sequence[str]:
        """Refuse unknown files and attributes."""
        known, several = ["embeddings", "income", "annotators"], ["embeddings", "annotators"]
        files = given_files(inputs.config.task.files, known, several=several)
        if files.get("embeddings") and self.options.embed:
            what = "embeddings are both given and computed"
            raise Fp2Error(what, where="task", fix="Omit task.options.embed or the file")
        self._attributes(inputs.people, inputs.cuts)
        self._income(inputs)
        self._annotators(inputs.config)
        return ()

    def collect(self, inputs: Inputs) -> Collected:
        """Measure the shapes, and compute the Vendi scores."""
        people, config = inputs.people, inputs.config
        attributes = self._attributes(people, inputs.cuts)
        with inputs.progress.steps("Measuring boxes, masks and keypoints", len(people)) as tick:
            numbers, points = measure_shapes(people, tick)
        scored, reasons, notes = self._vendi_scores(inputs, attributes)
        measured = people.join(numbers)
        found = counted(measured, attributes, config.analysis.min_subjects)
        income, more = self._income(inputs)
        found["groups"] += income
        return Collected(
            tables=score_tables(measured, no_scores()),
            model=describe_model(config) if self.options.embed else {"name": NO_MODEL},
            attributes=attributes,
            notes=[*notes, *more],
            facts={
                "counted": found,
                "annotators": self._annotators(config),
                "keypoints": heat_map(points),
                "vendi": scored,
                "not_embedded": reasons,
            },
        )

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the block.

        The tables of a logged run have the shapes, and of the attributes those of the intersections: the number of
        attributes and values stays that of the first run; places, keypoints and Vendi scores cannot be computed again.
        """
        people, facts = tables.people, job.facts
        attributes = self._attributes(people, job.cuts)
        block = dict(facts.get("counted") or counted(people, attributes, job.config.analysis.min_subjects))
        if "totals" in facts:
            block |= {"totals": block["totals"] | facts["totals"], "places": []}
        block |= {name: facts[name] for name in ("keypoints", "vendi", "not_embedded")}
        block |= {"annotators": facts["annotators"]} if facts["annotators"] else {}
        metrics = {f"totals.{name}": float(n) for name, n in block["totals"].items()}
        metrics |= {f"{one['name']}.median": one["quantiles"][2] for one in block["shapes"]}
        metrics |= {f"vendi.{one['variant']}": one["score"] for one in block["vendi"] if one["by"] is None}
        return Analysis(
            settings=score_settings(job.config, {}),
            blocks={BLOCK: block | {"metrics": metrics, "headline": dict(block["totals"])}},
        )

    def recall(self, results: Block) -> Block:
        """Return what stays of a logged run."""
        kept = {name: results[BLOCK]["totals"][name] for name in ("attributes", "attribute_values")}
        annotators = results[BLOCK].get("annotators")
        return {"totals": kept, "keypoints": None, "vendi": [], "not_embedded": {}, "annotators": annotators}

    def _attributes(self, people: pd.DataFrame, cuts: Sequence[Cut]) -> tuple[str, ...]:
        """Return the attributes of the intersections: those of the options, else the usual ones, else the cuts'."""
        known = known_attributes(people)
        check_names(self.options.attributes or (), known, "no subject has a value of", "task.options.attributes")
        if self.options.attributes is not None:
            return self.options.attributes
        usual = tuple(name for name in USUAL if name in known)
        return usual or tuple(dict.fromkeys(part for cut in cuts for part in cut.by))

    def _income(self, inputs: Inputs) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the shares of income groups as an entry of `groups`, and notes; nothing without a file of them."""
        if not (path := inputs.config.task.files.get("income")):
            return [], []
        min_subjects = inputs.config.analysis.min_subjects
        rows, notes = describe.income_shares(inputs.people, Path(path).expanduser(), min_subjects)
        return [{"attribute": describe.INCOME, "rows": rows}], notes

    def _annotators(self, config: Config) -> list[dict[str, Any]]:
        """Return the counts of annotators by attribute; none without tables of them."""
        paths = _named_files(config.task.files.get("annotators")).values()
        return describe.annotator_counts([*paths], config.analysis.min_subjects) if paths else []

    def _vendi_scores(
        self, inputs: Inputs, attributes: Sequence[str]
    ) -> tuple[list[dict[str, Any]], dict[str, int], list[str]]:
        """Return the scores per variant, overall and by group; why images have no embedding; and notes."""
        config, options = inputs.config, self.options
        files = _named_files(config.task.files.get("embeddings"))
        if not files and not options.embed:
            note = "no Vendi score: give task.files.embeddings=FILE, or task.options.embed=true and model=an encoder"
            return [], {}, [note]
        reasons: dict[str, int] = {}
        scored: list[dict[str, Any]] = []
        store, progress = inputs.store.connection, inputs.progress
        encoder = None if files else encoder_of(config, store, crop=options.crop)
        for variant in files if files else options.variants:
            if encoder is None or isinstance(variant, str):
                kind = str(variant)
                vectors, people = from_file(files[kind], inputs.people)
            else:
                kind = variant.name
                vectors, people, missing = from_model(encoder, config, inputs.people, variant, store, progress)
                reasons |= {f"{kind}: {reason}": n for reason, n in missing.items()}
            scored.append({"variant": kind, "by": None, "group": None, **self._score(vectors, people, config)})
            row_of = {image: row for row, image in enumerate(people["image_id"])}
            for name in attributes:
                for group, entries in memberships(people, Cut(name, (name,))).groupby("group", sort=True):
                    if entries["subject_id"].nunique() >= config.analysis.min_subjects:
                        rows = [row_of[image] for image in entries["image_id"]]
                        of_group = self._score(vectors[rows], people.iloc[rows], config)
                        scored.append({"variant": kind, "by": name, "group": str(group), **of_group})
        return scored, reasons, []

    def _score(self, vectors: FloatArray, people: pd.DataFrame, config: Config) -> dict[str, Any]:
        options = self.options
        found = vendi(
            vectors,
            people["subject_id"],
            sample=options.sample,
            repeats=options.repeats,
            seed=config.seed,
            q=options.order,
        )
        return asdict(found)


def _named_files(given: Any) -> dict[str, Path]:
    """Return variant -> file: of one file `file`, of a list the names of the files, of a table its keys."""
    if not given:
        return {}
    if isinstance(given, Mapping):
        return {str(name): Path(path).expanduser() for name, path in given.items()}
    paths = [given] if isinstance(given, str) else list(given)
    return {"file" if len(paths) == 1 else Path(path).stem: Path(path).expanduser() for path in paths}


def counted(people: pd.DataFrame, attributes: Sequence[str], min_subjects: int) -> dict[str, Any]:
    """Return the part of the block that follows from the people table and its columns of shapes."""
    known = known_attributes(people)
    listed = [name for name in describe.shown_attributes(people) if name in known]
    return {
        "totals": describe.totals(people),
        "attributes": list(attributes),
        "intersections": describe.intersections(people, attributes, min_subjects),
        "places": describe.shares(people, describe.PLACES, min_subjects),
        "groups": [{"attribute": name, "rows": describe.shares(people, name, min_subjects)} for name in listed],
        "shapes": summary(people[list(SHAPES)]),
        "centres": heat_map(people[["centre_x", "centre_y"]].dropna().to_numpy()),
    }
