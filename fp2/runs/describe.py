"""What results say of the model, its servers and the scorers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fp2.engines.base import AsksServers, Engine, SuppliesAnswers, remote_code
from fp2.engines.build import engine_class
from fp2.engines.checkpoint import has_planted_effects

if TYPE_CHECKING:
    from fp2.config import Config
    from fp2.scorers.base import Scorer

SHOWN_AS = ("image_size", "adapter", "yes_no", "softmax_dtype")
"""Settings of a model by which its answers differ from those that it gives by default."""


def describe_model(config: Config, engine: Engine) -> dict[str, Any]:
    """Return which model answered, without machine paths.

    `embedded` marks a model with planted effects (a positive control), `without_effects` a simulated one without any,
    which is marked as well; `server` is what a server reported of itself;
    `supplied` says where answers come from that existed already, `remote_code` whose code ran beside the harness;
    `SHOWN_AS` are there if they were given.
    """
    model, identity = config.model, engine.identity()
    given = str(model.id or "")
    return {
        "name": model.name,
        "id": identity.get("model", given or model.name),
        "engine": config.engine.name,
        "revision": identity.get("revision"),
        "weights_digest": identity.get("weights") or identity.get("truth"),
        "dtype": model.dtype,
        "quantisation": model.quantisation,
        "processor": identity.get("processor"),
        "embedded": engine_class(asdict(config.engine)).planted
        or has_planted_effects(given)
        or bool(identity.get("planted")),
        **({"without_effects": True} if engine.profile().without_effects else {}),
        **({"server": identity["server"]} if "server" in identity else {}),
        **({"remote_code": code} if (code := remote_code(identity)) else {}),
        **{name: value for name in SHOWN_AS if (value := getattr(model, name)) is not None},
        **({"supplied": engine.provenance()} if isinstance(engine, SuppliesAnswers) else {}),
    }


def describe_serving(engine: Engine) -> dict[str, Any]:
    """Return what became of the requests to servers (key `serving`); nothing without a server or a request."""
    found = engine.serving() if isinstance(engine, AsksServers) else {}
    return {"serving": found} if found else {}


def describe_architecture(engine: Engine) -> dict[str, Any]:
    """Return family and size of the model (key `architecture`), as far as its checkpoint says; for reports only."""
    profile = engine.profile()
    known = {"family": profile.family, "parameters": profile.parameters}
    return {"architecture": known} if any(known.values()) else {}


def describe_scorers(scorers: Mapping[str, Scorer]) -> list[dict[str, Any]]:
    """Return the scorers as reports and the passport name them."""
    from fp2.scorers.by_model import ModelScorer

    return [
        {
            "name": name,
            "version": scorer.version,
            "higher_is_better": scorer.higher_is_better,
            "value_range": list(scorer.value_range),
            "smallest_effect": scorer.smallest_effect,
            "lexicon": scorer.lexicon,
            **({"model": scorer.identity} if isinstance(scorer, ModelScorer) else {}),
        }
        for name, scorer in scorers.items()
    ]
