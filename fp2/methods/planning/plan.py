"""`fp2 plan`: what a run or a sweep would ask and how long it takes, without loading a model, even without the data."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fp2.extension import (
    NOT_GIVEN,
    Asks,
    AsksServers,
    CallerObjects,
    CheckpointMissingError,
    Fp2Error,
    Job,
    LocalOptions,
    Output,
    Progress,
    ResponseStore,
    SuppliesAnswers,
    Waves,
    build_protocol,
    check_machine,
    check_run_cost,
    check_settings,
    check_surroundings,
    check_typed,
    config_hash,
    config_of,
    expected_cost,
    expected_scorings,
    for_battery,
    jobs_of,
    load_asking,
    load_inputs,
    n_samples,
    open_storage,
    plain,
    plan_answers,
    reasoning_budget,
    write_text,
)
from fp2.methods.planning.forecast import (
    BASIS,
    UNTIMED,
    YES_NO_BASIS,
    QuestionTexts,
    computed_time,
    duration,
    generated_time,
    saved_words,
    sharing_of,
    sizes,
)

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Battery, Config, Cut, Engine, Forecast, Inputs, Plan, Protocol, Storage

_TRIAL_BYTES = 300e6
"""Models with smaller weights are loaded to time one image."""
_MOST_GROUPS = 12
"""Groups of a cut that are listed."""
TRAITS_MISSING = "The questions are part of the data: bundled words are counted here, and the config hash will differ"
UNKNOWN = "unknown without the data"
_DETECTABLE = "minimum detectable effect"


def plan_run(
    overrides: Sequence[str],
    json_path: Path | None = None,
    sd: float | None = None,
    icc: float | None = None,
    gap: float | None = None,
) -> int:
    """Print the size of each run that `overrides` describe (answers, how many are stored, time, disk); return a status.

    `sd`, `icc`: the spread of the answers, for the minimum detectable effect (`expected_effects`). `gap`: the
    difference for which a run that stops when certain is planned.
    Where the user's data are missing, the sizes follow from `data.limit`, and a line says so. `json_path`: the file of
    the plans as JSON; "-" prints them in place of tables.
    """
    jobs = jobs_of([word for word in overrides if not word.startswith("-")])  # several values are a sweep anyway
    with Output(as_json=str(json_path) == "-") as out:
        out.say(plans=[], notes=[])
        configs, lacking = zip(*(config_of(job) for job in jobs), strict=True)
        check_typed(overrides, configs)
        if gap is not None and any(config.answers.stop is None for config in configs):
            raise Fp2Error("--gap needs --power, or answers.stop=certain", where="fp2 plan")
        if gap is not None and gap <= 0:
            raise Fp2Error("out of range", where="--gap", fix="See fp2 plan --help")
        status = _plan_jobs(configs, lacking, (sd, icc, gap), out)
    if json_path is not None and not out.as_json:
        write_text(json_path, json.dumps(out.facts, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        print(f"{'json':<12} {json_path}")
    return status


def _plan_jobs(configs: Sequence[Config], lacking: Sequence[bool], spread: Spread, out: Output) -> int:
    """Print the plan of each job; return the exit status: one of several that would be refused stops no other."""
    if missing := _missing(configs[0]):
        for config in configs:  # what `fp2 run` would refuse before it reads any data
            check_surroundings(config)
            protocol = build_protocol(config)
            if isinstance(protocol, Asks):
                with ResponseStore(Path(config.paths.store), seeds=config.paths.seed_stores) as store:
                    load_asking(protocol, config, store, CallerObjects(), Progress(quiet=True))
        _print_sizes(configs, missing, out)
        if lacking[0]:
            _note(TRAITS_MISSING, out)
        return 0
    status = 0
    for config in configs:
        try:
            with ResponseStore(Path(config.paths.store), seeds=config.paths.seed_stores) as store:
                _plan_job(config, store, spread, out)
        except Fp2Error as error:
            if len(configs) == 1:
                raise
            status = error.exit_status
            _note(f"{config.model.name}: {error}", out)
    return status


def _plan_job(config: Config, store: ResponseStore, spread: Spread, out: Output) -> None:
    """Print the plan of one run: its sizes alone where the model is missing or the images have to be made first."""
    missing = ""
    try:
        protocol, inputs = load_inputs(config, store, Progress(), makes_images=False)
    except CheckpointMissingError as error:
        protocol, inputs = load_inputs(config, store, Progress(), makes_images=False, model_needed=False)
        missing = str(error)
    if not inputs.dataset_digest:
        missing = "; ".join(filter(None, (missing.removesuffix("."), UNMADE.format(data=config.data.name))))
    elif not missing:
        _print_plan(protocol, inputs, spread, out)
        return
    groups, warning = _groups(inputs.people, inputs.cuts), None
    if isinstance(protocol, Asks):
        detectable, warning = _detectable(protocol, inputs, spread)
        groups |= detectable
    _print_sizes([config], missing, out, inputs.people["image_id"].nunique(), groups)
    for line in (*inputs.notes, *([warning] if warning else [])):
        _note(line, out)


Spread = tuple[float | None, float | None, float | None]
"""SD and ICC of the answers, and the difference to be found, as far as they are stated."""


def _detectable(
    protocol: Asks[Any], inputs: Inputs, spread: Spread, storage: Storage | None = None
) -> tuple[dict[str, str], str | None]:
    """Return rows of what can be found, and a warning where minimum detectable effects exceed the effect of interest.

    `storage`: with one that calls for answers in waves, how many are expected.
    """
    from fp2.methods.planning.sample_size import expected_effects

    assert inputs.battery is not None
    job = Job(inputs.config, inputs.cuts, inputs.battery, inputs.scorers)
    family = protocol.planned_family(job)
    if family is None:
        return {_DETECTABLE: "not known before the run: no scores are compared"}, None
    text, warning, largest = expected_effects(job, family, inputs.people, *spread[:2])
    rows = {_DETECTABLE: text}
    if isinstance(storage, Waves) and largest is not None:
        gaps = [0.0, 2 * largest, 4 * largest] if spread[2] is None else [spread[2]]
        answers = [storage.expected_answers((gap - family.smallest_effect) / largest) for gap in gaps]
        counts = [f"{n:,} at {gap:.2g}" for n, gap in zip(answers, gaps, strict=True) if n is not None]
        other = "clearest difference of a probe; its other rows, and composites, may need more"
        if counts:
            rows["answers until certain"] = f"about {', '.join(counts)} ({other})"
    return rows, warning


def _note(line: str, out: Output) -> None:
    out.show(line, soft_wrap=True, highlight=False)
    out.facts["notes"].append(line)


def _missing(config: Config) -> str | None:
    """Return which data of the user are missing, or None."""
    from fp2.extension import required

    for name, marker in required(asdict(config.data)).items():
        value = getattr(config.data, name)
        if str(value) == NOT_GIVEN:
            return f"data.{name} ({marker.what}) is not given"
        if isinstance(value, Path) and not value.expanduser().exists():
            return f"data.{name} ({marker.what}) does not exist on this machine"
    return None


UNMADE = "the images of data={data} are made by the first run, once; `fp2 data verify` makes them as well"


def _print_sizes(
    configs: Sequence[Config],
    missing: str,
    out: Output,
    n_images: int | None = None,
    groups: Mapping[str, str] | None = None,
) -> None:
    """Print what is known without the data, or without the model or the images (`n_images`, `groups`: of the data)."""
    from fp2.extension import load_battery, resolve_cuts

    first = configs[0]
    protocol, *_ = [build_protocol(config) for config in configs]
    if not isinstance(protocol, Asks):
        raise Fp2Error(f"{missing}, and task={first.task.name} asks no model", where="fp2 plan")
    battery = load_battery(asdict(first.probe), first.model.id)
    protocol = for_battery(protocol, battery)
    check_settings(protocol, first, battery)
    images = n_images or first.data.limit
    per_image = len(battery.asked) * _n_shown(protocol, battery)
    answers = None if images is None else images * per_image
    cuts = resolve_cuts(asdict(first.cut))
    by = f", in equal shares of {' x '.join(first.data.stratify)}" if first.data.stratify else ""
    # The selected and merged values of each cut, as far as they are known without the data.
    selected = {}
    for cut in cuts:
        shown = [f"{group} = {' + '.join(values)}" for _, found in cut.merged for group, values in found]
        taken = {value for _, found in cut.merged for _, values in found for value in values}
        shown += [value for _, values in cut.groups for value in values if value not in taken]
        if shown:
            others = [name for name, _ in cut.merged if name not in dict(cut.groups)]
            rest = f"; other values of {' and '.join(others)} unchanged" if others else ""
            selected[f"groups of {cut.name}"] = plain("; ".join(shown)) + rest
    rows = {
        "images": "all of the data set" if images is None else f"{images:,}{by}",
        "questions per image": f"{per_image:,}{_samples(battery)}",
        "runs": f"{len(configs)}: {', '.join(config.model.name for config in configs)}",
        "answers per run": UNKNOWN if answers is None else f"{answers:,}",
        "answers in total": UNKNOWN if answers is None else f"{answers * len(configs):,}",
        "disk": UNKNOWN if answers is None else _disk(protocol, answers * len(configs)),
        "cuts": ", ".join(cut.name for cut in cuts),
        **({**selected, _DETECTABLE: UNKNOWN} if groups is None else groups),
        "config hash": ", ".join(config_hash(config)[:16] for config in configs),
    }
    _print_rows(
        f"{first.experiment or first.probe.name} on {first.data.name}",
        rows,
        out,
        {"images": images, "answers": answers, "runs": len(configs)},
    )
    if images is not None and answers is not None:
        known, texts = sizes(), _texts(battery)
        for config in configs:
            size = known.get(str(config.model.id))
            if _is_scored(battery):
                sharing = sharing_of(size, config) if size else "auto"
                operations, took = computed_time(size, texts, images, config.model.name, sharing)
                saved = saved_words(images * len(texts.texts), images, sharing)
                of_model = {"forward passes saved": saved, "operations": operations, "estimated time": took}
            else:
                of_model = {"estimated time": _generated_time(config, battery, answers)}
            _print_rows(config.model.name, of_model, out)
        for basis in (*BASIS, *([YES_NO_BASIS] if _is_scored(battery) else [])):
            _note(basis, out)
    lacking = missing.removesuffix(".")
    _note(f"{lacking}: sizes are computed from the config alone", out)


def _generated_time(config: Config, battery: Battery, answers: int) -> str:
    """Return the time of generating answers, computed from the model's published size."""
    name = config.model.name
    if any(question.kind not in ("text", "number") for question in battery.questions):
        return UNTIMED.format(model=name)
    weight_bytes = 4 if config.model.dtype == "float32" else 2
    batch = config.engine.batch_size if isinstance(config.engine, LocalOptions) else None
    tokens = battery.decoding.max_new_tokens
    size = sizes().get(str(config.model.id))
    return generated_time(size, _texts(battery), answers, tokens, batch, name, weight_bytes)


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


def _print_plan(protocol: Protocol, inputs: Inputs, spread: Spread, out: Output) -> None:
    """Print what one run would ask, how much of it is stored, and what the rest will take."""
    config, people = inputs.config, inputs.people
    counts: dict[str, int | None] = {
        "images": people["image_id"].nunique(),
        "subjects": people["subject_id"].nunique(),
    }
    rows = {"images": f"{counts['images']:,} of {counts['subjects']:,} subjects"}
    if isinstance(protocol, Asks):
        plan = plan_answers(protocol, inputs)
        storage = open_storage(protocol, inputs, plan)
        check_machine(storage, inputs)
        if config.answers.max_cost is not None:
            check_run_cost(storage, inputs, config.answers.max_cost)
        forecast = storage.forecast()
        rows |= _asking_rows(protocol, inputs, plan, storage, forecast)
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
    notes = [str(note) for note in inputs.notes]
    if isinstance(protocol, Asks):
        detectable, warning = _detectable(protocol, inputs, spread, storage)
        rows |= detectable
        notes += [warning] if warning else []
    rows["config hash"] = config_hash(config)[:16]
    name = config.model.name if isinstance(protocol, Asks) else config.task.name
    _print_rows(f"{name} on {config.data.name}", rows, out, counts)
    for line in notes:
        _note(line, out)


def _groups(people: pd.DataFrame, cuts: Sequence[Cut]) -> dict[str, str]:
    from fp2.extension import group_sizes

    rows = {}
    for cut, groups in group_sizes(people, cuts).items():
        sizes = [f"{plain(name)} {groups[name]['n_subjects']:,}" for name in sorted(groups)]
        shown = ", ".join(sizes[:_MOST_GROUPS])
        more = f" and {len(sizes) - _MOST_GROUPS:,} more" if len(sizes) > _MOST_GROUPS else ""
        rows[f"groups of {cut}"] = f"{shown}{more}"
    return rows


def _n_shown(protocol: Protocol, battery: Battery) -> int:
    return len(battery.variants) or protocol.requires.copies


def _disk(protocol: Protocol, answers: int) -> str:
    """Return the disk space that answers take, as text; none of them is in the store yet."""
    if protocol.requires.dense:
        from fp2.extension import dense_storage

        return dense_storage().disk(answers, answers)
    from fp2.extension import BYTES_PER_ANSWER

    return f"about {answers * BYTES_PER_ANSWER / 1e6:.1f} MB"


def _asking_rows(
    protocol: Asks[Any], inputs: Inputs, plan: Plan, storage: Storage, forecast: Forecast
) -> dict[str, str]:
    config, battery = inputs.config, inputs.battery
    assert battery is not None
    n_variants = _n_shown(protocol, battery)
    permutations, resamples = (UNKNOWN if n is None else f"{n:,}" for n in protocol.n_resamples(inputs))
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
        "resampling": f"{permutations} permutations, {resamples} bootstrap resamples",
    }
    assert inputs.engine is not None
    if (price := inputs.engine.profile().price) is not None:
        rows["cost"] = str(expected_cost(forecast, inputs.engine, battery.questions, battery.decoding, price))
    for name, scoring in expected_scorings(storage, inputs.scorers, battery.decoding, forecast):
        more = f", and at most {scoring.more:,} of answers to ask" if scoring.more else ""
        rows[f"texts for {name}"] = f"{scoring.texts:,} of stored answers{more}"
        if scoring.cost is not None:
            rows[f"cost of {name}"] = str(scoring.cost)
    if budget := reasoning_budget(inputs.engine, battery.questions, battery.decoding):
        longest = battery.decoding.max_new_tokens
        samples = n_samples(inputs.engine, battery.questions, battery.decoding)
        times = f", {samples:,.3g} times for each" if samples > 1 else ""
        rows["reasoning"] = (
            f"at most {budget:,} tokens before each answer of at most {longest:,}{times} (decoding.reasoning)"
        )
        if price is not None:
            without = replace(battery.decoding, reasoning="off")
            cost = expected_cost(replace(forecast, tokens=None), inputs.engine, battery.questions, without, price)
            rows["cost without reasoning"] = str(cost)
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
    if (rate := inputs.engine.profile().rate) is not None:
        return f"{duration(forecast.left / rate)} (at the stated {rate:g} answers a second)"
    if isinstance(inputs.engine, AsksServers):
        return UNTIMED.format(model=inputs.config.model.name)
    if not _is_scored(inputs.battery):
        return _generated_time(inputs.config, inputs.battery, forecast.left)
    weights = inputs.engine.profile().weight_bytes
    if weights is not None and weights < _TRIAL_BYTES and (seconds := _timed(plan, inputs.engine)) is not None:
        left = duration(forecast.left * seconds / len(plan.questions))
        return f"{left} (one image timed now: {seconds:.2g} s)"
    if reasoning_budget(inputs.engine, inputs.battery.questions, inputs.battery.decoding):
        return UNTIMED.format(model=inputs.config.model.name)
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
