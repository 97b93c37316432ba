"""Time of the specification curve at the page's scale: 3,000 people with two images each, six probes, one cut.

    python -m benchmarks.multiverse_speed

Scores are drawn at random. Processor time of one core counts, so that a busy machine gives the same number.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, replace

import numpy as np
import pandas as pd

from fp2.compose import load_config
from fp2.cuts import resolve_cuts
from fp2.methods.curves.supplement import Multiverse
from fp2.probes.battery import load_battery
from fp2.protocols.fingerprint.settings import ComparedRun, comparison_of
from fp2.scorers.registry import build_scorers

SHARES = {
    "region": (0.3, 0.3, 0.2, 0.1725, 0.0055, 0.0085, 0.0135),
    "age": (0.4, 0.35, 0.25),
    "skin_tone": (0.3, 0.3, 0.2, 0.2),
}
"""Shares of the groups; three regions are so small that larger least sizes leave them out."""


def compared_run(people: int, images: int, seed: int) -> ComparedRun:
    """Return a run of drawn scores whose groups do not differ; 5 % of the answers are refused."""
    rng = np.random.default_rng(seed)
    config = load_config(["analysis.multiverse=true", "analysis.adjust=[age,skin_tone]", "data=peeps"])
    battery, scorers = load_battery(asdict(config.probe)), build_scorers(config.scorer)
    who = np.repeat(np.arange(people), images)
    table = pd.DataFrame(
        {"image_id": [f"i{k}" for k in range(len(who))], "subject_id": [f"s{s:06d}" for s in who], "n_people": 1}
    )
    for name, shares in SHARES.items():
        value = rng.choice(len(shares), people, p=np.array(shares) / sum(shares))[who]
        table[f"attr_{name}"] = [[f"{name} {code}"] for code in value]
    parts = []
    for question in battery.questions:
        parts.append(table[["image_id", "subject_id"]].assign(question_id=question.question_id, probe=question.probe))
    answers = pd.concat(parts, ignore_index=True).assign(status="answered")
    answers["refused"] = rng.random(len(answers)) < 0.05
    scores = []
    for name, scorer in scorers.items():
        rows = answers[answers["probe"].isin(scorer.probes)] if scorer.probes else answers
        low, high = scorer.value_range
        value = np.clip(rng.normal((low + high) / 2, (high - low) / 6, len(rows)), low, high)
        scores.append(rows.assign(scorer=name, value=value))
    cuts = resolve_cuts({"by": ["region"]}, list(SHARES))
    comparison = comparison_of(config, len(battery.probes), 1)
    rows = [
        {
            "probe": probe.id,
            "scorer": "valence",
            "cut": "region",
            "verdict": None,
            "worst_group": None,
            "best_group": None,
        }
        for probe in battery.probes
    ]
    frame = pd.concat(scores, ignore_index=True)
    run = ComparedRun(config, battery, answers, frame, table, cuts, scorers, comparison, rows)
    return replace(run, comparison=replace(comparison, n_permutations=10_000))


def main() -> None:
    """Run it and print the time."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.multiverse_speed", description=__doc__)
    parser.add_argument("--people", type=int, default=3_000)
    parser.add_argument("--images", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    args = parser.parse_args()
    run = compared_run(args.people, args.images, 1)
    start = time.process_time()
    block = Multiverse().block(run)
    taken = time.process_time() - start
    assert block is not None
    computed = [row["n_computed"] for row in block["rows"]]
    n_specifications, n_tests = len(block["cuts"][0]["specifications"]), sum(computed[:-1])
    if args.json:
        found = {"specifications": n_specifications, "tests": n_tests, "seconds": taken}
        print(json.dumps({"benchmark": "multiverse_speed", **found}))
        return
    print(
        f"{n_specifications} specifications ({n_tests} tests of a probe) of "
        f"{args.people:,} people and {len(run.battery.probes)} probes, {block['n_permutations']:,} permutations: "
        f"{taken:.0f} s of one core"
    )


if __name__ == "__main__":
    main()
