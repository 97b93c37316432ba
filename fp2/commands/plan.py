"""`fp2 plan`: what a run or a sweep would ask and how long it takes, without loading a model, even without the data.

The time of yes/no questions is computed from forward passes and operations. Operations are those of the weights' matrix
products, 2 for each weight and token (Kaplan et al. 2020, section 2.1); attention, the softmax over the vocabulary and
everything on the host are left out. Tokens are words x `TOKENS_A_WORD`. With one prompt at a time every question costs
image, template and its own words. Prefix sharing computes once: `tree` the image and every common beginning of the
questions, `vision` the vision encoder only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fp2.artifacts import write_text
from fp2.ask.cost import TEMPLATE_TOKENS, TOKENS_A_WORD, expected_cost, expected_scorings
from fp2.commands.output import Output
from fp2.compose import build_protocol, compose_config, jobs_of
from fp2.engines.base import SuppliesAnswers
from fp2.engines.checkpoint import CheckpointMissingError
from fp2.errors import Fp2Error
from fp2.report.reading import plain
from fp2.runs.inputs import load_inputs, plan_answers

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.loop import Forecast
    from fp2.ask.plan import Plan
    from fp2.config import Config
    from fp2.cuts import Cut
    from fp2.engines.base import Engine
    from fp2.probes.battery import Battery
    from fp2.protocols.base import EvaluationProtocol, Inputs

_NOT_GIVEN = "not-given"
_TRIAL_BYTES = 300e6
"""Models with smaller weights are loaded to time one image."""
_MOST_GROUPS = 12
"""Groups of a cut that are listed."""
TRAITS_MISSING = "The questions are part of the data: bundled words are counted here, and the config hash will differ"
UNKNOWN = "unknown without the data"


def plan_run(overrides: Sequence[str], json_path: Path | None = None) -> None:
    """Print the size of each run that `overrides` describe: answers, how many are stored, time, disk.

    Where the user's data are missing, the sizes follow from `data.limit`, and a line says so. `json_path`: the file of
    the plans as JSON; "-" prints them in place of tables.

    Raises
    ------
    Fp2Error
        For every mistake that `fp2 run` would refuse, except that data are missing.
    """
    jobs = jobs_of(_without_flags(overrides))
    with Output(as_json=str(json_path) == "-") as out:
        out.say(plans=[], notes=[])
        configs, lacking = zip(*(config_of(job) for job in jobs), strict=True)
        _plan_jobs(configs, lacking, out)
    if json_path is not None and not out.as_json:
        write_text(json_path, json.dumps(out.facts, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        print(f"{'json':<12} {json_path}")


def _plan_jobs(configs: Sequence[Config], lacking: Sequence[bool], out: Output) -> None:
    if missing := _missing(configs[0]):
        _print_sizes(configs, missing, out)
        if lacking[0]:
            _note(TRAITS_MISSING, out)
        return
    for config in configs:
        try:
            _print_plan(config, out)
        except CheckpointMissingError as error:
            _print_sizes([config], str(error), out, _count_images(config))
        except Fp2Error as error:
            if len(configs) == 1:
                raise
            _note(f"{config.model.name}: {error}", out)


def _note(line: str, out: Output) -> None:
    out.show(line, soft_wrap=True, highlight=False)
    out.facts["notes"].append(line)


def _without_flags(words: Sequence[str]) -> list[str]:
    """Return the overrides without -m: several options of one key are a sweep anyway.

    Raises
    ------
    Fp2Error
        For any other flag.
    """
    for word in words:
        if word.startswith("-") and word not in ("-m", "--multirun"):
            raise Fp2Error(f"fp2 plan has no option {word}", where="command line", fix="It takes overrides: key=value")
    return [word for word in words if not word.startswith("-")]


def config_of(job: Sequence[str]) -> tuple[Config, bool]:
    """Return one run's config, its data folder left open if not given; and whether its questions are missing too."""
    from omegaconf import OmegaConf

    from fp2.compose import validate
    from fp2.data.base import required

    composed = compose_config(job)
    for name, marker in required(composed.data).items():
        if composed.data.get(name) is None and marker.is_folder:
            OmegaConf.update(composed, f"data.{name}", _NOT_GIVEN, force_add=True)
    lacking = _with_missing_data(composed)
    for name in lacking:
        OmegaConf.update(composed, f"probe.{name}", None)
    return validate(composed), bool(lacking)


def _with_missing_data(composed: Any) -> list[str]:
    """Return which parts of the questions are with the data (`experiment=gras_paper`) that are missing."""
    root = composed.data.get("root")
    if not root or Path(str(root)).expanduser().is_dir():
        return []
    return [name for name in ("traits_file", "published") if composed.probe[name] == root]


def _missing(config: Config) -> str | None:
    """Return which data of the user are missing, or None."""
    from fp2.data.base import required

    for name, marker in required(asdict(config.data)).items():
        value = getattr(config.data, name)
        if str(value) == _NOT_GIVEN:
            return f"data.{name} ({marker.what}) is not given"
        if isinstance(value, Path) and not value.expanduser().exists():
            return f"data.{name} ({marker.what}) does not exist on this machine"
    return None


def _count_images(config: Config) -> int:
    """Return how many images a run is about, for a model that is not on this machine."""
    from fp2.probes.battery import load_battery
    from fp2.progress import Progress
    from fp2.runs.inputs import load_people

    battery = load_battery(asdict(config.probe), config.model.id)
    protocol = build_protocol(config).for_battery(battery)
    _, dataset = load_people(config, protocol, battery, Progress())
    return int(dataset.people["image_id"].nunique())


def _print_sizes(configs: Sequence[Config], missing: str, out: Output, n_images: int | None = None) -> None:
    """Print what is known without the data, or without the model (`n_images`: of the data)."""
    from fp2.compose import config_hash
    from fp2.cuts import resolve_cuts
    from fp2.probes.battery import load_battery

    first = configs[0]
    protocols = [build_protocol(config) for config in configs]
    if not protocols[0].asks:
        raise Fp2Error(f"{missing}, and task={first.task.name} asks no model", where="fp2 plan")
    battery = load_battery(asdict(first.probe), first.model.id)
    protocol = protocols[0].for_battery(battery)
    images = n_images or first.data.limit
    per_image = len(battery.asked) * protocol.n_variants(battery)
    answers = None if images is None else images * per_image
    cuts = resolve_cuts(asdict(first.cut))
    by = f", in equal shares of {' x '.join(first.data.stratify)}" if first.data.stratify else ""
    rows = {
        "images": "all of the data set" if images is None else f"{images:,}{by}",
        "questions per image": f"{per_image:,}{_samples(battery)}",
        "runs": f"{len(configs)}: {', '.join(config.model.name for config in configs)}",
        "answers per run": UNKNOWN if answers is None else f"{answers:,}",
        "answers in total": UNKNOWN if answers is None else f"{answers * len(configs):,}",
        "disk": UNKNOWN if answers is None else protocol.disk(answers * len(configs), answers * len(configs)),
        "cuts": ", ".join(cut.name for cut in cuts),
        **_merged(cuts),
        "config hash": ", ".join(config_hash(config)[:16] for config in configs),
    }
    _print_rows(
        f"{first.experiment or first.probe.name} on {first.data.name}",
        rows,
        out,
        {"images": images, "answers": answers, "runs": len(configs)},
    )
    if images is not None and _is_scored(battery):
        _print_computed(configs, battery, images, out)
    lacking = missing.removesuffix(".")
    _note(f"{lacking}: sizes are computed from the config alone", out)


def _print_computed(configs: Sequence[Config], battery: Battery, images: int, out: Output) -> None:
    """Print operations and time of each model, computed from its published size."""
    known, texts = sizes(), _texts(battery)
    for config in configs:
        size = known.get(str(config.model.id))
        sharing = sharing_of(size, config) if size else "auto"
        operations, took = computed_time(size, texts, images, config.model.name, sharing)
        saved = saved_words(images * len(texts.texts), images, sharing)
        rows = {"forward passes saved": saved, "operations": operations, "estimated time": took}
        _print_rows(config.model.name, rows, out)
    for line in BASIS:
        _note(line, out)


def _samples(battery: Battery) -> str:
    """Return how often each question is asked, where it is more than once."""
    samples = battery.decoding.samples
    return f": each of {len(battery.questions):,} sampled {samples:,} times" if samples > 1 else ""


def _is_scored(battery: Battery) -> bool:
    """Whether every question is answered by probabilities of Yes and No, whose cost follows from the prompt alone."""
    return all(question.kind == "yes_no" for question in battery.questions)


def _texts(battery: Battery) -> QuestionTexts:
    return QuestionTexts(tuple(question.text for question in battery.questions))


def _print_rows(title: str, rows: dict[str, str], out: Output, counts: dict[str, int | None] | None = None) -> None:
    """Print names and values as a table of two columns; the JSON has them as printed, and `counts` as numbers."""
    out.facts["plans"].append({"title": title, "rows": rows, "counts": counts or {}})
    table = Table(title=title, show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    out.show(table)


def _print_plan(config: Config, out: Output) -> None:
    """Print what one run would ask, how much of it is stored, and what the rest will take."""
    from fp2.compose import config_hash
    from fp2.progress import Progress
    from fp2.store.rows import ResponseStore

    with ResponseStore(Path(config.paths.store), seeds=config.paths.seed_stores) as store:
        protocol, inputs, pixels = load_inputs(config, store, Progress())
        people = inputs.people
        counts: dict[str, int | None] = {
            "images": people["image_id"].nunique(),
            "subjects": people["subject_id"].nunique(),
        }
        rows = {"images": f"{counts['images']:,} of {counts['subjects']:,} subjects"}
        if protocol.asks:
            plan = plan_answers(protocol, inputs, pixels)
            storage = protocol.storage(plan, inputs)
            forecast = storage.forecast()
            rows |= _asking_rows(protocol, inputs, plan, forecast)
            counts |= {
                "answers": plan.n_planned,
                "stored": forecast.stored,
                "failed": forecast.failed,
                "to_ask": forecast.left,
            }
            rows["response set"] = storage.response_set[:16]
        else:
            rows["answers planned"] = f"none: task={config.task.name} asks no model"
    rows |= {"cuts": ", ".join(cut.name for cut in inputs.cuts), **_groups(people, inputs.cuts)}
    rows["config hash"] = config_hash(config)[:16]
    name = config.model.name if protocol.asks else config.task.name
    _print_rows(f"{name} on {config.data.name}", rows, out, counts)


def _groups(people: pd.DataFrame, cuts: Sequence[Cut]) -> dict[str, str]:
    """Return the groups of each cut with their numbers of subjects, the largest first."""
    from fp2.data.group_sizes import group_sizes

    rows = {}
    for cut, groups in group_sizes(people, cuts).items():
        sizes = sorted(((part["n_subjects"], name) for name, part in groups.items()), key=lambda one: (-one[0], one[1]))
        shown = ", ".join(f"{plain(name)} {n:,}" for n, name in sizes[:_MOST_GROUPS])
        more = f" and {len(sizes) - _MOST_GROUPS:,} more" if len(sizes) > _MOST_GROUPS else ""
        rows[f"groups of {cut}"] = f"{shown}{more}"
    return rows


def _merged(cuts: Sequence[Cut]) -> dict[str, str]:
    """Return the selected and merged values of each cut, as far as they are known without the data."""
    rows = {}
    for cut in cuts:
        parts = [f"{group} = {' + '.join(values)}" for _, found in cut.merged for group, values in found]
        taken = {value for _, found in cut.merged for _, values in found for value in values}
        parts += [value for _, values in cut.groups for value in values if value not in taken]
        if parts:
            others = [name for name, _ in cut.merged if name not in dict(cut.groups)]
            rest = f"; other values of {' and '.join(others)} unchanged" if others else ""
            rows[f"groups of {cut.name}"] = plain("; ".join(parts)) + rest
    return rows


def _asking_rows(protocol: EvaluationProtocol[Any], inputs: Inputs, plan: Plan, forecast: Forecast) -> dict[str, str]:
    """Return the rows of a run that asks a model."""
    from fp2.protocols.base import Job

    config, battery = inputs.config, inputs.battery
    assert battery is not None
    n_variants = protocol.n_variants(battery)
    job = Job(config, inputs.cuts, battery, inputs.scorers)
    permutations, resamples = (UNKNOWN if n is None else f"{n:,}" for n in protocol.n_resamples(job))
    rows = {
        "shown as": ", ".join(dict.fromkeys(row.variant for row in plan.rows)),
        "questions per image": f"{len(plan.questions) * n_variants:,}{_samples(battery)}",
        "answers planned": f"{plan.n_planned:,}",
        "in the store": f"{forecast.stored:,}",
        "failed before": f"{forecast.failed:,}",
        "images that cannot be shown": f"{plan.n_not_shown // n_variants:,}",
        "answers to ask": f"{forecast.left:,}",
        **config.engine.summary(),
        "disk": forecast.disk,
        "estimated time": _time(inputs, plan, forecast),
        "permutations": f"{permutations} and {resamples} resamples",
    }
    assert inputs.engine is not None
    if (price := inputs.engine.profile().price) is not None:
        rows["cost"] = str(expected_cost(forecast, battery.questions, battery.decoding, price))
    for name, scoring in expected_scorings(protocol.storage(plan, inputs), inputs.scorers, battery.decoding, forecast):
        more = f", and at most {scoring.more:,} of answers to ask" if scoring.more else ""
        rows[f"texts for {name}"] = f"{scoring.texts:,} of stored answers{more}"
        if scoring.cost is not None:
            rows[f"cost of {name}"] = str(scoring.cost)
    if _is_scored(battery):
        rows["forward passes saved"] = saved_words(plan.n_planned, len(plan.tasks), _sharing(inputs))
    return rows


def _sharing(inputs: Inputs) -> str:
    """Return the prefix sharing of the questions about an image, as far as known without loading the model."""
    assert inputs.engine is not None
    if (sharing := inputs.engine.profile().sharing) is not None:
        return sharing
    size = sizes().get(str(inputs.config.model.id))
    return sharing_of(size, inputs.config) if size else "none"


def _time(inputs: Inputs, plan: Plan, forecast: Forecast) -> str:
    """Return the time that the rest takes and its basis: stored answers, an image timed now, or computation."""
    assert inputs.engine is not None
    assert inputs.battery is not None
    if isinstance(inputs.engine, SuppliesAnswers):
        return "nothing is asked: the answers are supplied"
    if forecast.left == 0:
        return "nothing is left to ask"
    if forecast.seconds:
        took = duration(forecast.left * forecast.seconds)
        return f"{took} (from the {forecast.stored:,} answers of this model in the store)"
    if not _is_scored(inputs.battery):
        return f"unknown: run a few images of {inputs.config.model.name} first, the plan then times them"
    weights = inputs.engine.profile().weight_bytes
    if weights is not None and weights < _TRIAL_BYTES and (seconds := _timed(plan, inputs.engine)) is not None:
        left = duration(forecast.left * seconds / len(plan.questions))
        return f"{left} (one image timed now: {seconds:.2g} s)"
    size = sizes().get(str(inputs.config.model.id))
    images = max(1, round(forecast.left / len(plan.questions)))
    operations, time_needed = computed_time(
        size, _texts(inputs.battery), images, inputs.config.model.name, _sharing(inputs)
    )
    return time_needed if size is None else f"{time_needed}; {operations} operations"


def _timed(plan: Plan, engine: Engine) -> float | None:
    """Ask all questions about one image twice and return the seconds of the second time; nothing is stored."""
    task = replace(plan.tasks[0], questions=plan.questions)
    took = None
    for _ in range(2):
        started = time.perf_counter()
        answers = [answer for batch in engine.answer([task]) for answer in batch]
        if any(answer.error for answer in answers):
            return None
        took = time.perf_counter() - started
    return took


STATED_SPEED = 100e12
"""Operations per second that times are stated for where nothing was timed: a third of an A100's peak in bfloat16."""


@dataclass(frozen=True)
class Size:
    """Weights (in 1e9) and tokens of a published model: see fp2/models/sizes.yaml."""

    family: str
    language: float
    vision: float
    patches: int
    picture: int


@dataclass(frozen=True)
class QuestionTexts:
    """The texts of a battery, as far as their length counts."""

    texts: tuple[str, ...]

    @cached_property
    def tokens(self) -> float:
        """Mean tokens of a prompt besides the image: template and question."""
        words = sum(len(text.split()) for text in self.texts) / max(1, len(self.texts))
        return TEMPLATE_TOKENS + words * TOKENS_A_WORD

    @cached_property
    def tree_tokens(self) -> float:
        """Tokens of all questions about an image, each common beginning counted once."""
        seen = {tuple(words[: k + 1]) for words in map(str.split, self.texts) for k in range(len(words))}
        return TEMPLATE_TOKENS + len(seen) * TOKENS_A_WORD


def sizes() -> dict[str, Size]:
    """Return the known sizes by hub id."""
    import yaml

    path = Path(__file__).parents[1] / "models" / "sizes.yaml"
    rows: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: Size(**row) for name, row in rows.items()}


def sharing_of(size: Size, config: Config) -> str:
    """Return the prefix sharing of a model of that family under the configured engine; `none` where it is unknown."""
    from fp2.engines.build import engine_class

    return engine_class(asdict(config.engine)).family_sharing(size.family) or "none"


def operations(size: Size, questions: QuestionTexts, images: int, sharing: str) -> float:
    """Return the operations of asking `questions` about so many images, sharing `tree`, `vision` or `none`."""
    look = 2e9 * size.vision * size.patches
    prompts = len(questions.texts) * 2e9 * size.language * (size.picture + questions.tokens)
    if sharing == "tree":
        return images * (look + 2e9 * size.language * (size.picture + questions.tree_tokens))
    return images * (look * (1 if sharing == "vision" else len(questions.texts)) + prompts)


def saved_words(prompts: int, images: int, sharing: str) -> str:
    """Return how many forward passes over an image are saved, in words."""
    if sharing == "tree":
        return f"{prompts - images:,} of {prompts:,} (each image is encoded once)"
    if sharing == "vision":
        return f"{prompts - images:,} of {prompts:,} of the vision encoder; the rest depends on the prompt"
    return f"none of {prompts:,}" if sharing == "none" else "decided by the check when the model is loaded"


def duration(seconds: float) -> str:
    """Return seconds in words, to two digits."""
    for unit, length in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.2g} {unit}" if seconds < 100 * length else f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.2g} seconds"


def computed_time(
    size: Size | None, questions: QuestionTexts, images: int, model: str, sharing: str
) -> tuple[str, str]:
    """Return (operations, time) in words for a model that is not timed here."""
    if size is None:
        return (
            "unknown: no sizes of this model",
            f"unknown: run {model} on a few images first, then their time is known",
        )
    ours, plain = (operations(size, questions, images, how) for how in (sharing, "none"))
    fewer = f"{ours:.1e} ({plain / ours:.3g} times fewer than one prompt at a time)"
    time = f"{duration(ours / STATED_SPEED)} at {STATED_SPEED / 1e12:.0f} TFLOP/s (computed, not timed)"
    return fewer, time


BASIS: Sequence[str] = (
    f"Computed from the sizes in fp2/models/sizes.yaml: 2 operations per weight and token, {TOKENS_A_WORD:.2f} tokens "
    f"a word, {TEMPLATE_TOKENS} tokens of template, images of 448 x 448; attention, loading the model and reading "
    "images come on top.",
    f"{STATED_SPEED / 1e12:.0f} TFLOP/s is about a third of an A100's peak in bfloat16; scale it to your device. One "
    "prompt at a time would take the stated factor more.",
)
