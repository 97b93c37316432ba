"""`results.json`: everything a run found, in one documented, finite, path-free object that reports read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fp2 import __version__
from fp2.config import Config, config_hash, variant_identity

if TYPE_CHECKING:
    import pandas as pd

    from fp2.analysis import Findings
    from fp2.cuts import Cut
    from fp2.prepare import Prepared
    from fp2.probes.battery import Battery
    from fp2.protocols.fingerprint import Comparison, Fingerprint
    from fp2.respond import Asked
    from fp2.scorers.base import Scorer

SCHEMA_VERSION = 1

LIMITATIONS = (
    "A disparity says that descriptions differ between groups in these pictures; it does not say why.",
    "Valence is VADER's: polite refusals can score positive and some occupation words carry valence of their own.",
    "A raw max-min gap is above zero by chance alone; read it beside its chance level.",
    "Lexicons and the valence scorer are for English answers.",
    "A signature proves origin and integrity of this result, not that the measurement is true.",
)
ABOUT_WORDS = (LIMITATIONS[1], LIMITATIONS[3])
SERVED = "A server answered: its weights cannot be checked from outside; what it told of itself is in `model.server`."
TOO_FEW = "permutations the smallest adjusted p-value"
MATCHED_TITLE = "Counterfactual comparison"
EMBEDDED = "Effects were planted in this model on purpose: the run is calibration, never a finding about people."


def model_block(config: Config, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return who answered, without machine paths.

    `embedded` marks a model whose effects were planted; `server` is what a server told of itself.
    """
    model = config.model
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
        "embedded": given.startswith("pkg://") or config.engine.name == "planted",
        **({"server": identity["server"]} if "server" in identity else {}),
    }


def group_sizes(people: pd.DataFrame, cuts: Sequence[Cut]) -> dict[str, dict[str, dict[str, int]]]:
    """Return cut -> group -> number of subjects and of images (of counterfactual sets: those that vary in the cut)."""
    from fp2.cuts import memberships, varying

    sizes: dict[str, dict[str, dict[str, int]]] = {}
    for cut in cuts:
        grouped = memberships(varying(people, cut), cut).groupby("group", sort=True)
        sizes[cut.name] = {
            str(group): {"n_subjects": part["subject_id"].nunique(), "n_images": part["image_id"].nunique()}
            for group, part in grouped
        }
    return sizes


def diversity_block(answers: pd.DataFrame, probes: Sequence[str]) -> list[dict[str, Any]]:
    """Return per probe how many distinct answers there are, their entropy in bits, and whether that says nothing."""
    from fp2.stats import response_diversity

    answered = answers[answers["status"] == "answered"]
    return [
        {"probe": probe, **asdict(response_diversity(answered.loc[answered["probe"] == probe, "text"].tolist()))}
        for probe in probes
    ]


def scorer_block(scorers: Mapping[str, Scorer]) -> list[dict[str, Any]]:
    """Return the scorers as reports and the passport name them."""
    return [
        {
            "name": name,
            "version": scorer.version,
            "higher_is_better": scorer.higher_is_better,
            "value_range": list(scorer.value_range),
            "smallest_effect": scorer.smallest_effect,
            "lexicon": scorer.lexicon,
        }
        for name, scorer in scorers.items()
    ]


def probe_block(battery: Battery) -> list[dict[str, Any]]:
    """Return the probes with the exact text that was asked, and the options of those that give a choice."""
    blocks: list[dict[str, Any]] = []
    for probe in battery.probes:
        asked = [question for question in battery.questions if question.probe == probe.id]
        block = {"id": probe.id, "label": probe.label, "text": " | ".join(question.text for question in asked)}
        choices = [list(question.choices) for question in asked if question.choices]
        blocks.append(block | ({"choices": choices} if choices else {}))
    return blocks


def analysis_block(config: Config, comparison: Comparison, scorers: Mapping[str, Scorer]) -> dict[str, Any]:
    """Return the settings of the comparison, resolved."""
    family = "all probes x cuts of one scorer" if comparison.family == "scorer" else "all rows of the run"
    return {
        "unit": "subject",
        "alpha": comparison.alpha,
        "n_permutations": comparison.n_permutations,
        "n_bootstrap": comparison.n_bootstrap,
        "min_subjects": comparison.min_subjects,
        "correction": comparison.correction,
        "family": family,
        "primary": comparison.primary,
        "seed": comparison.seed,
        "smallest_effects": {name: scorer.smallest_effect for name, scorer in scorers.items()},
    }


def headline(found: Fingerprint, cuts: Sequence[Cut]) -> dict[str, Any]:
    """Return `composite`, `severity` (first cut) and `composites` (every cut)."""
    from fp2.protocols.fingerprint import NO_COMPOSITE

    first = found.composites.get(cuts[0].name, NO_COMPOSITE)
    return {"composite": first["value"], "severity": first["severity"], "composites": found.composites}


def base_block(config: Config) -> dict[str, Any]:
    """Return the versions and bounds that every results file carries."""
    return {
        "schema_version": SCHEMA_VERSION,
        "fp2_version": __version__,
        "severity_bounds": config.analysis.severity,
    }


def too_few_permutations(
    found: Fingerprint, comparison: Comparison, blocks: Mapping[str, Any] | None = None
) -> list[str]:
    """Return a warning for each family in which even the rarest permutation could not be significant once corrected.

    Families are those of the fingerprint's rows, and of the rows of `blocks` that are tested by permutation.
    """
    from fp2.protocols.fingerprint import STEP_DOWN

    told = [("", found.disparities, comparison.correction, comparison.n_permutations)]
    for name in ("matched", "missing"):
        block = (blocks or {}).get(name, {})
        correction = block.get("correction", comparison.correction)
        told.append((name, block.get("rows", []), correction, block.get("n_permutations", comparison.n_permutations)))
    out = []
    for name, rows, correction, n in told:
        family = max((row["family_size"] for row in rows), default=0)
        steps = {"holm": family, "bonferroni": family, STEP_DOWN: min(family, 1)}.get(correction, 0)
        if (smallest := steps / (n + 1)) > comparison.alpha:
            out.append(
                f"With {n} {TOO_FEW} of a family of {family}{f' (block {name})' if name else ''} is "
                f"{smallest:.3g}, above {comparison.alpha:g}: no row of it could be called significant."
            )
    return out


def limitations(model: Mapping[str, Any], notes: Sequence[str], scored: bool = True) -> list[str]:
    """Return what a reader has to know, the data set's notes included; `scored`: answers in words were scored."""
    return [
        *([EMBEDDED] if model["embedded"] else []),
        *([SERVED] if "server" in model else []),
        *(line for line in LIMITATIONS if scored or line not in ABOUT_WORDS),
        *notes,
    ]


def later_limitations(
    before: Mapping[str, Any], balance: Sequence[Mapping[str, Any]], gone: Sequence[str] = ()
) -> list[str]:
    """Return the limitations of a run made again: what followed from its balance table anew, without lines `gone`."""
    from fp2.protocols.balance import balance_warnings

    old = {*balance_warnings(before["balance"]), *gone}
    return [*(line for line in before["limitations"] if line not in old), *balance_warnings(balance)]


def answer_counts(answers: pd.DataFrame, model_calls: int) -> dict[str, int]:
    """Return planned = answered + failed, refused and cached (both among the answered), and the batches sent."""
    answered = answers["status"] == "answered"
    return {
        "planned": len(answers),
        "answered": int(answered.sum()),
        "refused": int(answers["refused"].sum()),
        "failed": len(answers) - int(answered.sum()),
        "cached": int((answers["cached"] & answered).sum()),
        "model_calls": model_calls,
    }


def refusal_rates(answers: pd.DataFrame) -> list[dict[str, Any]]:
    """Return per probe the share of refusals among its answers."""
    grouped = answers[answers["status"] == "answered"].groupby("probe", sort=False)["refused"]
    return [{"probe": probe, "n": len(part), "rate": float(part.mean())} for probe, part in grouped]


def measured(
    people: pd.DataFrame, answers: pd.DataFrame, found: Fingerprint, cuts: Sequence[Cut], probes: Sequence[str],
    model_calls: int,
) -> dict[str, Any]:  # fmt: skip
    """Return the part of the results that follows from the tables alone (ids may be salted keys)."""
    from fp2.cuts import of_sets
    from fp2.protocols.balance import balance_block
    from fp2.protocols.fingerprint import answers_by_group

    return {
        "n_images": int(people["image_id"].nunique()),
        "n_subjects": int(people["subject_id"].nunique()),
        "answers": answer_counts(answers, model_calls),
        "answers_by_group": answers_by_group(answers, people, cuts),
        "refusal_rates": refusal_rates(answers),
        "coverage": found.coverage,
        "balance": [] if of_sets(people) else balance_block(people, cuts),
        **headline(found, cuts),
        "disparities": found.disparities,
        "diversity": diversity_block(answers, probes),
    }


def bare_results(
    config: Config, *, title: str, run_id: str, complete: bool, response_set: str | None, dataset_digest: str,
    model: Mapping[str, Any], dataset: Mapping[str, Any], people: pd.DataFrame, cuts: Sequence[Cut],
    analysis: Mapping[str, Any], answers: Mapping[str, int] | None = None, probes: Sequence[Mapping[str, Any]] = (),
    scorers: Sequence[Mapping[str, Any]] = (), notes: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return the results of a run that is no fingerprint: what every report needs, without a composite.

    Parameters
    ----------
    title : str
        What the report is, before "of MODEL": `GRAS bias scores`.
    model : mapping
        As `model_block` makes it; a run that asked nobody gives at least `name`, `id`, `engine` and `embedded`.
    dataset : mapping
        `name, release, settings`.
    analysis : mapping
        Settings of the comparison (`alpha, correction, family, primary, min_subjects` where they apply).
    answers : mapping, optional
        As `answer_counts` makes it; all 0 for a run that asked nobody.

    Such a run adds a block under its protocol's name, and rows to `disparities` where it has any.
    """
    from fp2.protocols.balance import balance_block
    from fp2.protocols.fingerprint import NO_COMPOSITE

    names = ("planned", "answered", "refused", "failed", "cached", "model_calls")
    own_model = {**dict.fromkeys(("revision", "weights_digest", "dtype", "quantisation", "processor")), **model}
    return {
        **base_block(config),
        "title": title,
        "run_id": run_id,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "complete": complete,
        "config_hash": config_hash(config),
        "response_set": response_set,
        "dataset_digest": dataset_digest,
        "model": own_model,
        "dataset": {**dataset, "digest": dataset_digest, "groups": group_sizes(people, cuts)},
        "variant": {"name": config.variant.name, **variant_identity(config.variant)},
        "probes": list(probes),
        "scorers": list(scorers),
        "cuts": [cut.name for cut in cuts],
        "n_images": int(people["image_id"].nunique()),
        "n_subjects": int(people["subject_id"].nunique()),
        "answers": dict(answers) if answers else dict.fromkeys(names, 0),
        "answers_by_group": [],
        "refusal_rates": [],
        "coverage": [],
        "balance": balance_block(people, cuts),
        "composite": NO_COMPOSITE["value"],
        "severity": NO_COMPOSITE["severity"],
        "composites": {},
        "disparities": [],
        "diversity": [],
        "analysis": dict(analysis),
        "limitations": limitations(own_model, notes, scored=bool(scorers)),
    }


def results_of(
    prepared: Prepared, asked: Asked, answers: pd.DataFrame, findings: Findings, run_id: str
) -> dict[str, Any]:
    """Return everything a run found; `answers` is the answers table with its `refused` column."""
    from fp2.cuts import of_sets
    from fp2.protocols.balance import balance_warnings

    config, people, dataset = prepared.config, prepared.people, prepared.dataset
    found, comparison = findings.fingerprint, findings.comparison
    model = model_block(config, prepared.engine.identity())
    probes = [probe.id for probe in prepared.battery.probes]
    found_out = measured(people, answers, found, prepared.cuts, probes, asked.model_calls)
    few = too_few_permutations(found, comparison, findings.blocks)
    notes = [*balance_warnings(found_out["balance"]), *dataset.notes, *few]
    return {
        **base_block(config),
        **({"title": MATCHED_TITLE} if of_sets(people) else {}),
        "run_id": run_id,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "complete": asked.complete,
        "config_hash": config_hash(config),
        "response_set": prepared.plan.response_set,
        "dataset_digest": prepared.dataset_digest,
        "model": model,
        "dataset": {
            "name": dataset.name,
            "release": dataset.release,
            "settings": dict(dataset.settings),
            "digest": prepared.dataset_digest,
            "groups": group_sizes(people, prepared.cuts),
        },
        "variant": {"name": config.variant.name, **variant_identity(config.variant)},
        "probes": probe_block(prepared.battery),
        "scorers": scorer_block(prepared.scorers),
        "cuts": [cut.name for cut in prepared.cuts],
        **found_out,
        "analysis": analysis_block(config, comparison, prepared.scorers),
        "limitations": limitations(model, notes),
        **findings.blocks,
    }
