"""How long the analysis of a full GRAS run takes: 2.5 million answers, 2,000 tests, 200 permutations of the labels.

Made-up answers of the official sizes (3,570 images with gender, race and age, 1,440 with a skin tone; 100 traits,
five templates) go through everything that a run's analysis does: tests, scores, null, magnitude and rates with
resamples, wording, mass. Beside it the plain way on the same work: `scipy.stats.f_oneway(equal_var=False)` over Python
lists, once for the observed and once for every permuted labelling, timed on a sample of its 402,000 calls and scaled.
Only the calls themselves are timed, with their lists ready; `plain_grouping_ms` is what making the lists takes besides.
The plain way finds the scores and their null only: `ratio_same_work` sets it against that part of ours
(`null_seconds`), `ratio_all` against the whole analysis.

Seconds are wall-clock; `cpu` are processor seconds of this process, which a busy machine does not stretch.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gras_worlds import OFFICIAL, World
from fp2.methods.gras.analysis import analyse
from fp2.methods.gras.answers import GrasAnswers
from fp2.methods.gras.grouping import group_answers
from fp2.methods.gras.options import GrasOptions
from fp2.methods.gras.resampling import TraitTests


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the result, wall-clock seconds and processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def with_columns(answers: GrasAnswers) -> GrasAnswers:
    """Return the answers with all seven numbers of a yes/no answer, as a run holds them."""
    p = np.clip(answers.columns["p_yes_first_token"], 0.001, 0.949)
    columns = {
        "p_yes_first_token": p,
        "p_no_first_token": np.float32(0.95) - p,
        "p_yes": p + np.float32(0.01),
        "p_no": np.float32(0.96) - p,
        "p_yes_norm": p / np.float32(0.95),
        "mass": np.full_like(p, 0.97),
        "logit_difference": np.log(p / (np.float32(0.95) - p)),
    }
    return GrasAnswers(answers.image_ids, answers.subject_ids, answers.traits, answers.templates, columns)


def plain_calls(answers: GrasAnswers, people: Any, names: list[str], calls: int) -> tuple[np.ndarray, list[Any]]:
    """Call the plain way, all attributes alike.

    Returns seconds per call (wall-clock and processor of the test, wall-clock of making its lists), and (attribute,
    trait, template, p) of each.
    """
    from scipy.stats import f_oneway

    rng = np.random.default_rng(5)
    values = answers.columns["p_yes_first_token"]
    found: list[Any] = []
    spent = np.zeros(3)
    for k in range(calls):
        name = names[k % len(names)]
        trait, template = int(rng.integers(values.shape[1])), int(rng.integers(values.shape[2]))

        def grouped(name: str = name, trait: int = trait, template: int = template) -> list[list[float]]:
            groups: dict[str, list[float]] = {}
            for cell, y in zip(people[f"attr_{name}"], values[:, trait, template].tolist(), strict=True):
                if cell:
                    groups.setdefault(cell[0], []).append(y)
            return list(groups.values())

        lists, grouping, _ = timed(grouped)
        test, wall, cpu = timed(lambda lists=lists: f_oneway(*lists, equal_var=False))
        spent += wall, cpu, grouping
        found.append((name, trait, template, float(test.pvalue)))
    return spent / calls, found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line only")
    parser.add_argument("--permutations", type=int, default=200)
    parser.add_argument("--bootstrap", type=int, default=200)
    parser.add_argument("--plain-calls", type=int, default=400, help="calls of the plain way to time")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, to see that it runs")
    args = parser.parse_args()
    part = 10 if args.quick else 1
    world = World(3_570 // part, groups=dict(OFFICIAL), tones=1_440 // part, traits=100 // part)
    rng = np.random.default_rng(1)
    people = world.people(rng)
    answers = with_columns(world.answers(people, rng))
    options = GrasOptions(permutations=args.permutations // part, bootstrap=max(20, args.bootstrap // part), seed=1)
    block, wall, cpu = timed(lambda: analyse(answers, people, world.cuts, options))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)
    size = len(json.dumps(block, allow_nan=False))

    def same_work() -> Any:
        tests = TraitTests(answers, group_answers(answers, people, world.cuts, options), options, "images")
        return tests.observed(), tests.null(options.permutations)

    _, null_wall, null_cpu = timed(same_work)
    names = [cut.name for cut in world.cuts]
    (plain_wall, plain_cpu, grouping), sample = plain_calls(answers, people, names, args.plain_calls // part)
    tests = block["units"]["images"]["tests"]
    apart = max(abs(tests[name]["p_value"][k][t] - p) for name, k, t, p in sample)
    calls = block["units"]["images"]["scores"]["n_tests"] * (1 + options.permutations)
    result = {
        "benchmark": "gras_analysis",
        "rows": int(answers.columns["p_yes"].size),
        "images": len(answers.image_ids),
        "tests": block["units"]["images"]["scores"]["n_tests"],
        "permutations": options.permutations,
        "bootstraps": options.bootstrap,
        "analysis_seconds": round(wall, 2),
        "analysis_cpu_seconds": round(cpu, 2),
        "null_seconds": round(null_wall, 2),
        "null_cpu_seconds": round(null_cpu, 2),
        "peak_mib": round(peak),
        "block_bytes": size,
        "plain_ms_per_call": round(plain_wall * 1000, 3),
        "plain_cpu_ms_per_call": round(plain_cpu * 1000, 3),
        "plain_grouping_ms": round(grouping * 1000, 3),
        "plain_calls": calls,
        "plain_calls_timed": len(sample),
        "plain_seconds_scaled": round(plain_wall * calls),
        "ratio_all": round(plain_wall * calls / wall, 1),
        "ratio_all_cpu": round(plain_cpu * calls / cpu, 1),
        "ratio_same_work": round(plain_wall * calls / null_wall, 1),
        "ratio_same_work_cpu": round(plain_cpu * calls / null_cpu, 1),
        "max_p_difference": float(f"{apart:.2g}"),
        "targets": {"analysis_seconds": 120, "peak_mib": 2048, "ratio_same_work": 20},
    }
    if not args.json:
        print(
            f"analysis: {wall:.1f} s ({cpu:.1f} s of processor), {peak:.0f} MiB at most\n"
            f"scores and null alone: {null_wall:.1f} s; plain loop, scaled: {plain_wall * calls:.0f} s\n"
            f"largest difference of a p-value from SciPy's: {apart:.1e}"
        )
    print(json.dumps(result))
    kept = args.quick or (wall < 120 and peak < 2048 and plain_wall * calls / null_wall >= 20)
    sys.exit(0 if kept and apart < 1e-5 else 1)


if __name__ == "__main__":
    main()
