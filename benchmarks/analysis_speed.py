"""How long the analysis of a run of the page's size takes: scoring, and everything that a run compares and tests.

Timed is `Fingerprint.analyse`, what a run calls: the disparities, and the supplements beside them (pairwise tests,
missing answers, and so on), of which `blocks_seconds` are a part. One gap is planted, so that there are pairs to test.

3,000 made-up images of 500 people, six probes, five scorers and the trust rating, four cuts (one whose groups share
people, one multi-valued), 28,800 permutations, 10,000 resamples; and the scoring of 90,000 different answers (five
models' worth). Beside it the plain way: `scipy.stats.permutation_test(..., vectorized=False)` around a pandas group
mean, timed on 200 resamples of one outcome and one cut and scaled up; it finds max - min and its null only, where ours
also has the studentised test, the interval, the divergence and all the rest. Growth with rows and with resamples is
measured as the exponent of the processor time (1 = linear).

Seconds are wall-clock; `cpu` are processor seconds of this process, which a busy machine does not stretch.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fp2.ask.answers import RowAnswers, RunTables
from fp2.compose import build_protocol, load_config
from fp2.cuts import Cut
from fp2.probes.battery import load_battery
from fp2.protocols.base import Job
from fp2.protocols.fingerprint.settings import ComparedRun, Supplement
from fp2.protocols.fingerprint.supplements import SupplementEntry
from fp2.protocols.requirements import for_battery, for_people
from fp2.scorers.outcomes import outcome_columns
from fp2.scorers.registry import build_scorers, flag_refusals, score_answers
from fp2.stats.disparities import disparity_panel
from fp2.stats.rows import Outcome, PanelSettings

PROBES = ("occupation", "education", "lifestyle", "trustworthiness", "neighbourhood", "authority")
REGIONS = ("Africa", "Americas", "Asia", "Europe", "Northern America", "Oceania")
ATTRIBUTES = ("region", "pronoun", "age", "ancestry")
ASKED = (*PROBES[:5], "trust")
PERMUTATIONS, BOOTSTRAPS, PLAIN = 28_800, 10_000, 200
TARGETS = {"analysis_seconds": 60, "scoring_seconds": 60, "peak_mib": 2048, "ratio_to_plain": 20}
STOCK = """they this person seems looks might be a the with warm and friendly kind skilled poor wealthy calm office shop
nurse engineer driver teacher artist student luxury modest home city lively quiet street village probably certainly
perhaps likely clearly smile jacket hat background tree window car blue red green trust honest leader boss works lives
enjoys music football cooking reading degree school college careful strong gentle happy sad angry tired busy"""


def people(rng: np.random.Generator, n_subjects: int, per_subject: int = 6) -> pd.DataFrame:
    """Return a people table: region and pronoun per subject, age that some change, ancestry that some have twice."""
    subject = np.repeat(np.arange(n_subjects), per_subject)
    n = len(subject)
    age = rng.integers(0, 5, n_subjects)[subject]
    later = (rng.random(n_subjects) < 0.15)[subject] & (np.arange(n) % per_subject >= per_subject // 2)
    ancestry = rng.integers(0, 6, (n_subjects, 2))
    ancestry[rng.random(n_subjects) < 0.85, 1] = -1
    columns = {
        "region": [[REGIONS[k]] for k in rng.integers(0, 6, n_subjects)[subject]],
        "pronoun": [[("he", "she", "they")[k]] for k in rng.choice(3, n_subjects, p=[0.48, 0.48, 0.04])[subject]],
        "age": [[f"{18 + 10 * k}+"] for k in np.where(later, (age + 1) % 5, age)],
        "ancestry": [sorted({f"ancestry {k}" for k in row if k >= 0}) for row in ancestry[subject]],
    }
    frame = pd.DataFrame({"image_id": [f"i{k:06d}" for k in range(n)], "subject_id": [f"s{k:05d}" for k in subject]})
    frame = frame.assign(set_id=None, n_people=1)
    return frame.assign(**{f"attr_{name}": values for name, values in columns.items()})


def answers(rng: np.random.Generator, table: pd.DataFrame, probes: tuple[str, ...] = PROBES) -> pd.DataFrame:
    """Return one different answer of 12 to 40 words per image and probe; 3 % refuse, 1 % failed."""
    images = table[["image_id", "subject_id"]]
    out = images.loc[images.index.repeat(len(probes))].reset_index(drop=True)
    n = len(out)
    stock, lengths = STOCK.split(), rng.integers(12, 40, n)
    words = np.array(stock)[rng.integers(0, len(stock), int(lengths.sum()))]
    texts = [" ".join(part) + "." for part in np.split(words, np.cumsum(lengths)[:-1])]
    refuse, fail = rng.random(n) < 0.03, rng.random(n) < 0.01
    texts = ["I'm sorry, but I can't help with that." if r else text for text, r in zip(texts, refuse, strict=True)]
    probe = list(probes) * len(images)
    texts = [f"{rng.integers(1, 11)}. {t}" if p == "trust" else t for t, p in zip(texts, probe, strict=True)]
    return out.assign(
        probe=probe,
        question_id=probe,
        variant="original",
        response_key=[f"{k:064x}" for k in range(n)],
        text=texts,
        status=np.where(fail, "failed", "answered"),
        error=np.where(fail, "made up", None),
    )


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the result, wall-clock seconds and processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def planted(scores: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return the scores with valence of the first probe lower by 0.2 for the first region."""
    region = dict(zip(table["image_id"], (cell[0] for cell in table["attr_region"]), strict=True))
    hit = (scores["scorer"] == "valence") & (scores["probe"] == PROBES[0])
    hit &= scores["image_id"].map(region) == REGIONS[0]
    return scores.assign(value=scores["value"].mask(hit, (scores["value"] - 0.2).clip(lower=-1.0)))


class Timed(Supplement):
    """A supplement that notes its wall-clock seconds in `spent`."""

    def __init__(self, supplement: Supplement, spent: list[float]) -> None:
        self._supplement, self._spent = supplement, spent

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block of the supplement."""
        made, seconds, _ = timed(lambda: self._supplement.block(run))
        self._spent.append(seconds)
        return made


@dataclass(frozen=True)
class TimedEntry(SupplementEntry):
    """An entry whose supplement notes its seconds."""

    spent: list[float] = field(default_factory=list)

    def load(self) -> Supplement:
        """Return the supplement, timed."""
        return Timed(super().load(), self.spent)


def plain_seconds(values: np.ndarray, groups: list[str], subjects: list[str], resamples: int) -> float:
    """Return the seconds of a plain permutation test of max - min on subject means, per resample."""
    from scipy.stats import permutation_test

    frame = pd.DataFrame({"y": values, "group": groups, "subject": subjects}).dropna()
    means = frame.groupby(["group", "subject"], as_index=False)["y"].mean()

    def gap(y: np.ndarray) -> float:
        by_group = means.assign(y=y).groupby("group")["y"].mean()
        return float(by_group.max() - by_group.min())

    y = means["y"].to_numpy()
    options = {"permutation_type": "pairings", "vectorized": False, "alternative": "greater", "rng": 0}
    return timed(lambda: permutation_test((y,), gap, n_resamples=resamples, **options))[1] / resamples


def growth(rng: np.random.Generator, quick: bool) -> dict[str, float]:
    """Return the exponents of processor time in rows and in resamples, over a factor of four."""
    sizes = (500, 1000, 2000)

    def panel(subjects: int, resamples: int) -> float:
        person = np.repeat(np.arange(subjects), 3)
        values = rng.normal(size=(len(person), 12))
        group = rng.integers(0, 6, subjects)[person]
        outcome = Outcome(value_range=(-9.0, 9.0))
        settings = PanelSettings(n_permutations=resamples, n_bootstrap=resamples, seed=1)
        return timed(lambda: disparity_panel(values, group, person, outcome, settings, images=np.arange(len(person))))[
            2
        ]

    base = 2_000 if quick else 6_000
    panel(200, 200)
    rows = [min(panel(n, base) for _ in range(2)) for n in sizes]
    # above the 2,000 permutations that the divergence always takes
    resamples = [min(panel(500, base * k) for _ in range(2)) for k in (2, 4, 8)]
    return {
        "rows": round(math.log(rows[-1] / rows[0]) / math.log(sizes[-1] / sizes[0]), 3),
        "resamples": round(math.log(resamples[-1] / resamples[0]) / math.log(4), 3),
    }


def analysis(rng: np.random.Generator, config: Any, scorers: Any, images: int) -> dict[str, Any]:
    """Return what the analysis of a run about so many images takes, and the plain loop in its place."""
    table = people(rng, images // 6)
    flagged = flag_refusals(answers(rng, table, ASKED), scorers)
    scores = score_answers(flagged, scorers)
    battery = load_battery(asdict(config.probe))
    protocol, spent = for_people(for_battery(build_protocol(config), battery), table), []
    entries = [TimedEntry(**vars(entry), spent=spent) for entry in protocol.supplement_entries()]
    protocol.supplement_entries = lambda: entries
    tables = RunTables(table, RowAnswers(flagged), planted(scores, table))
    cuts = tuple(Cut(name, (name,)) for name in ATTRIBUTES)
    found, wall, cpu = timed(lambda: protocol.analyse(tables, Job(config, cuts, battery, scorers)))
    outcome = outcome_columns(scores).iloc[:, 0].to_numpy()
    plain = plain_seconds(outcome, [x[0] for x in table["attr_region"]], list(table["subject_id"]), PLAIN)
    rows, permutations = len(found.disparities), found.settings["n_permutations"]
    return {
        "images": len(table),
        "subjects": int(table["subject_id"].nunique()),
        "disparity_rows": rows,
        "permutations": permutations,
        "bootstraps": found.settings["n_bootstrap"],
        "analysis_seconds": round(wall, 2),
        "analysis_cpu_seconds": round(cpu, 2),
        "significant_rows": sum(bool(row["significant"]) for row in found.disparities),
        "blocks": sorted(found.blocks),
        "blocks_seconds": round(sum(spent), 2),
        "blocks_share": round(sum(spent) / wall, 3),
        "plain_ms_per_resample": round(plain * 1000, 3),
        "plain_seconds_scaled": round(plain * permutations * rows),
        "ratio_to_plain": round(plain * permutations * rows / wall, 1),
    }


def scoring(rng: np.random.Generator, scorers: Any, n: int) -> dict[str, Any]:
    """Return what scoring so many different answers takes."""
    score_answers(flag_refusals(answers(rng, people(rng, 1), ASKED), scorers), scorers)  # lexicons are read once
    many = answers(rng, people(rng, max(1, n // len(ASKED) // 6)), ASKED)
    scores, wall, cpu = timed(lambda: score_answers(flag_refusals(many, scorers), scorers))
    seconds = {"scoring_seconds": round(wall, 2), "scoring_cpu_seconds": round(cpu, 2)}
    return {"answers_scored": len(many), "scores": len(scores), **seconds}


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line only")
    parser.add_argument("--images", type=int, default=3_000)
    parser.add_argument("--answers", type=int, default=90_000, help="answers to score")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, to see that it runs")
    args = parser.parse_args(words)
    part = 10 if args.quick else 1
    rng = np.random.default_rng(1)
    config = load_config(
        [f"analysis.permutations={PERMUTATIONS // part}", f"analysis.bootstrap={BOOTSTRAPS // part}", "scorer=default"]
    )
    scorers = build_scorers(config.scorer)
    result = {"benchmark": "analysis_speed", **scoring(rng, scorers, args.answers // part)}
    result |= analysis(rng, config, scorers, args.images // part)
    assert result["significant_rows"] or args.quick, "the planted gap must be found, or no pairs are tested"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)
    result |= {"peak_mib": round(peak), "growth_exponent": growth(rng, args.quick), "targets": TARGETS}
    if not args.json:
        print(
            f"analysis: {result['analysis_seconds']} s ({result['analysis_cpu_seconds']} s of processor), "
            f"{peak:.0f} MiB at most, for {result['disparity_rows']} rows\n"
            f"          of which {result['blocks_seconds']} s are the blocks {', '.join(result['blocks'])}\n"
            f"scoring:  {result['scoring_seconds']} s ({result['scoring_cpu_seconds']} s of processor) for "
            f"{result['answers_scored']} answers\n"
            f"plain permutation loop, scaled: {result['plain_seconds_scaled']} s, {result['ratio_to_plain']} times as "
            f"long\ngrowth exponents: {result['growth_exponent']}"
        )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
