"""What results say of the model, its servers, the questions and the scorers, and what follows from counting tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from fp2.engines.base import AsksServers, Engine, SuppliesAnswers, remote_code
from fp2.engines.build import engine_class
from fp2.engines.checkpoint import has_planted_effects
from fp2.results import Block, Counts, Probe, ScorerFacts

if TYPE_CHECKING:
    from fp2.ask.answers import RunTables
    from fp2.config import Config
    from fp2.cuts import Cut
    from fp2.probes.battery import Battery
    from fp2.scorers.base import Scorer

SHOWN_AS = ("image_size", "resample", "adapter", "yes_no", "softmax_dtype")
"""Settings of a model by which its answers differ from those that it gives by default."""


def describe_model(config: Config, engine: Engine) -> Block:
    """Return which model answered, without machine paths.

    `embedded` marks a model with planted effects (a positive control), `without_effects` a simulated one without any,
    which is marked as well; `server` is what a server reported of itself;
    `supplied` says where answers come from that existed already, `remote_code` whose code ran beside the harness;
    `SHOWN_AS` are there if they were given.
    """
    model, identity = config.model, engine.identity()
    model_id = str(model.id or "")
    return {
        "name": model.name,
        "id": identity.get("model", model_id or model.name),
        "engine": config.engine.name,
        "revision": identity.get("revision"),
        "weights_digest": identity.get("weights") or identity.get("truth"),
        "dtype": model.dtype,
        "quantisation": model.quantisation,
        "processor": identity.get("processor"),
        "embedded": engine_class(asdict(config.engine)).planted
        or has_planted_effects(model_id)
        or bool(identity.get("planted")),
        **({"without_effects": True} if engine.profile().without_effects else {}),
        **({"server": identity["server"]} if "server" in identity else {}),
        **({"remote_code": code} if (code := remote_code(identity)) else {}),
        **{name: value for name in SHOWN_AS if (value := getattr(model, name)) is not None},
        **({"supplied": engine.provenance()} if isinstance(engine, SuppliesAnswers) else {}),
    }


def describe_serving(engine: Engine) -> Block:
    """Return what became of the requests to servers (key `serving`); nothing without a server or a request."""
    serving = engine.serving() if isinstance(engine, AsksServers) else {}
    return {"serving": serving} if serving else {}


def describe_architecture(engine: Engine) -> Block:
    """Return family and size of the model (key `architecture`), as far as its checkpoint says; for reports only."""
    profile = engine.profile()
    facts = {"family": profile.family, "parameters": profile.parameters}
    return {"architecture": facts} if any(facts.values()) else {}


def describe_scorers(scorers: Mapping[str, Scorer]) -> list[ScorerFacts]:
    """Return the scorers as reports and the passport name them."""
    from fp2.scorers.base import AsksModel

    described: list[ScorerFacts] = []
    for name, scorer in scorers.items():
        described.append(
            {
                "name": name,
                "version": scorer.version,
                "higher_is_better": scorer.higher_is_better,
                "value_range": list(scorer.value_range),
                "smallest_effect": scorer.smallest_effect,
                "lexicon": scorer.lexicon,
            }
        )
        if isinstance(scorer, AsksModel):
            described[-1]["model"] = scorer.identity
    return described


def describe_questions(battery: Battery) -> list[Probe]:
    """Return the probes as reports show them: `id, label, text` (and `choices`).

    Of questions about traits the text is that of their templates; `questions.parquet` has every question.
    """
    described: list[Probe] = []
    for probe in battery.probes:
        questions = [question for question in battery.questions if question.probe == probe.id]
        texts = [question.text for question in questions]
        if battery.expansion:
            texts = [*map(battery.expansion.text, dict.fromkeys(question.template for question in questions))]
        row: Probe = {"id": probe.id, "label": probe.label, "text": " | ".join(texts)}
        if choices := [list(question.choices) for question in questions if question.choices]:
            row["choices"] = choices
        described.append(row)
    return described


def count_tables(tables: RunTables, cuts: Sequence[Cut], probes: Sequence[str], model_calls: int) -> Counts:
    """Return the parts of the results that follow from counting the tables."""
    from fp2.cuts import of_sets
    from fp2.data.group_sizes import group_sizes, without_value
    from fp2.protocols.balance import balance_block

    people, answers = tables.people, tables.answers
    has_answers = bool(answers.n_planned)
    return Counts(
        n_images=tables.n_images,
        n_subjects=tables.n_subjects,
        answers=answers.counts(model_calls),
        answers_by_group=answers.counts_by_group(people, cuts) if has_answers else [],
        refusal_rates=answers.refusal_rates() if has_answers else [],
        balance=[] if of_sets(people) else balance_block(people, cuts),
        diversity=answers.diversity(probes) if has_answers else [],
        groups=group_sizes(people, cuts),
        without_value=without_value(people, cuts),
    )
