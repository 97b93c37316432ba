"""A thousand models on a cluster, with failures: hours, cost, storage, and what is lost.

    python benchmarks/cluster_simulation.py
    python benchmarks/cluster_simulation.py --models 100 --gpus 64 --images 200000

Every model is asked `--questions` yes/no questions about each of `--images` images, as jobs of one GPU, a shard each
(`shard=i/n`). A job ends when its shard is done, at the time limit, when its machine fails, or when it is preempted;
then it waits for a GPU again, loads the model, and goes on with what its store lacks. For comparison the same jobs
start over after each interruption, as without a store.

What is assumed, and can be changed on the command line:

- Passes: 2 x parameters x tokens operations an image. 9,000 tokens for 500 questions is what prefix sharing leaves
  (benchmarks/README.md: 8,174 to 8,534 tokens on the two models there), in proportion for other numbers.
- A GPU reaches `--share` of `--peak` operations a second (989e12: the data sheet of an H100 in bfloat16).
- A machine fails once in 50,700 hours of a GPU: 419 interruptions in 54 days of 16,384 GPUs (The Llama 3 Herd of
  Models, section 3.3.4). A job is preempted once a day.
- Storage: 48.6 bytes an answer in store and run folder together (docs/dense_storage.md).
- Merging the shards of a model: `--merged` arrays a second on a core, an array for the questions about an image
  (`store_scale.py`). The analysis: `--analysed` answers a second on a core (`gras_storage.py`). Both were measured on
  far fewer answers and are taken as proportional to them; models are merged and analysed independently.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import sys
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

SIZES = {0.3e9: 0.2, 1e9: 0.15, 2e9: 0.25, 3e9: 0.15, 8e9: 0.2, 13e9: 0.05}
"""Parameters of the models, with their shares: what the configs of this project have, roughly."""


@dataclass(frozen=True)
class Cluster:
    """A cluster; times in hours.

    Attributes
    ----------
    limit : float
        The longest that a job runs.
    failure, preemption : float
        Mean time between failures of a GPU's machine, and between preemptions of a job.
    wait, load : float
        From the end of a job to its restart, and until its model is loaded.
    in_flight : float
        Work that is done but not stored when a job ends without warning.
    """

    gpus: int
    limit: float = 4.0
    failure: float = 50_700.0
    preemption: float = 24.0
    wait: float = 1 / 6
    load: float = 0.05
    in_flight: float = 30 / 3600


@dataclass
class Spent:
    """What came of the jobs; times in hours."""

    makespan: float = 0.0
    gpu: float = 0.0
    repeated: float = 0.0
    restarts: int = 0


def simulate(shards: list[float], cluster: Cluster, rng: np.random.Generator, *, resumes: bool = True) -> Spent:
    """Run jobs of these lengths, the longest first, on the GPUs; return what it took."""
    spent = Spent()
    waiting = deque((0.0, work, work) for work in sorted(shards, reverse=True))  # (from when on, left, in all)
    free = [0.0] * cluster.gpus
    heapq.heapify(free)
    while waiting:
        earliest, left, whole = waiting.popleft()
        start = max(heapq.heappop(free), earliest)
        ended = rng.exponential(1 / (1 / cluster.failure + 1 / cluster.preemption))
        run = min(cluster.load + left, cluster.limit, ended)
        heapq.heappush(free, start + run)
        spent.gpu += run
        spent.makespan = max(spent.makespan, start + run)
        if run == cluster.load + left:
            continue
        done = max(0.0, run - cluster.load)
        spent.restarts += 1
        lost = min(done, cluster.in_flight) if resumes else done + whole - left
        spent.repeated += lost
        waiting.append((start + run + cluster.wait, left - done + lost, whole))
    return spent


def hours_of(parameters: float, given: argparse.Namespace) -> float:
    """Return the GPU hours that a model takes for all images."""
    tokens = 9_000 * given.questions / 500
    return 2 * parameters * tokens * given.images / (given.share * given.peak) / 3600


def report(given: argparse.Namespace) -> dict[str, Any]:
    """Return hours, cost, storage and losses."""
    rng = np.random.default_rng(given.seed)
    sizes = rng.choice(list(SIZES), size=given.models, p=list(SIZES.values()))
    hours = [hours_of(size, given) for size in sizes]
    shards = [work / parts for work in hours for parts in [math.ceil(work / given.shard)] for _ in range(parts)]
    cluster = Cluster(given.gpus)
    kept = simulate(shards, cluster, rng)
    over = simulate(shards, cluster, rng, resumes=False)
    answers = given.models * given.images * given.questions
    return {
        "models": given.models,
        "images": given.images,
        "questions": given.questions,
        "gpus": given.gpus,
        "answers": answers,
        "jobs": len(shards),
        "ideal_gpu_hours": round(sum(hours)),
        "gpu_hours": round(kept.gpu),
        "days": round(kept.makespan / 24, 1),
        "restarts": kept.restarts,
        "overhead": round(kept.gpu / sum(hours) - 1, 4),
        "asked_again": round(kept.repeated / sum(hours), 5),
        "merge_core_hours": round(given.models * given.images / given.merged / 3600),
        "merge_hours_a_model": round(given.images / given.merged / 3600, 2),
        "analysis_core_hours": round(answers / given.analysed / 3600),
        "analysis_hours_a_model": round(answers / given.models / given.analysed / 3600, 2),
        "cost": round(kept.gpu * given.price),
        "storage_tb": round(answers * given.bytes / 1e12, 1),
        "without_store": {
            "gpu_hours": round(over.gpu),
            "days": round(over.makespan / 24, 1),
            "asked_again": round(over.repeated / sum(hours), 3),
        },
    }


def options() -> argparse.ArgumentParser:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--gpus", type=int, default=512)
    parser.add_argument("--shard", type=float, default=3.5, help="hours of a shard at most")
    parser.add_argument("--peak", type=float, default=989e12, help="operations a second of a GPU")
    parser.add_argument("--share", type=float, default=0.3, help="of the peak that is reached")
    parser.add_argument("--price", type=float, default=2.5, help="of a GPU hour")
    parser.add_argument("--bytes", type=float, default=48.6, help="of an answer")
    parser.add_argument("--merged", type=float, default=3_200, help="arrays merged in a second")
    parser.add_argument("--analysed", type=float, default=62_000, help="answers analysed in a second")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="(always)")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Simulate; print one JSON line."""
    print(json.dumps({"benchmark": "cluster_simulation", **report(options().parse_args(arguments))}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
