"""From arrays to rows: one claim, one number, its Monte-Carlo error, and whether the claim holds."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.validity.composites import BOUNDS, SPREAD
from benchmarks.validity.counts import OUTCOMES, SHARED
from benchmarks.validity.labelled import LabelWorld
from benchmarks.validity.measure import Arrays
from benchmarks.validity.mixed_models import TESTS, with_gaps
from benchmarks.validity.paired_models import SCORES
from benchmarks.validity.refusals import REFUSED_BY_GROUP, TRUTHS
from benchmarks.validity.rows import Row, describe, mean_row, rate_row, rejected
from benchmarks.validity.sampled import SAMPLES
from benchmarks.validity.studies import FAMILY, MULTIPLES
from benchmarks.validity.worlds import ALPHA, World, answer_sd
from fp2.methods.stopping.sequential import SPENDING

Results = dict[tuple[str, World], Arrays]


def summarise(results: Results) -> list[Row]:
    """Return all rows, claim by claim."""
    rows: list[Row] = []
    for (study, world), found in results.items():
        rows += _SUMMARIES[study](world, found)
    return rows


def _null(world: World, found: Arrays) -> list[Row]:
    where = describe(world)
    if world.outcome in ("uncommon", "rare", "very rare", "mostly zero"):
        claim, low, high = "Type-I error, rare outcomes: at most 6 % (may be conservative)", None, 0.06
    elif world.condition != "exchangeable" and world.condition not in ("straddling", "multi-valued", "missing"):
        claim, low, high = "Type-I error, unequal spread, agreement or images: at most 7 %", None, 0.07
    else:
        claim, low, high = "Type-I error, no group differs: 4-6 %", 0.04, 0.06
    before = rejected(found["p_before"])
    rows = [rate_row(claim, where, "p_value (decides verdicts)", rejected(found["p"]), low, high, before)]
    for name in ("js_p", "kruskal_p", "welch_p"):
        if np.isfinite(found[name]).any() and (name != "js_p" or world.scale[1] <= 1):
            rows.append(rate_row("Measured level, for reference", where, name, rejected(found[name])))
    return rows


def _before(found: Arrays, name: str) -> np.ndarray | None:
    """Return what 0.3.0 rejected, None where it computed the same."""
    return rejected(found[name]) if name in found else None


def _units(world: World, found: Arrays) -> list[Row]:
    claim = "Images taken as subjects, which is not valid"
    return [rate_row(claim, describe(world), "p_value", rejected(found["p"]))]


def _family(world: World, found: Arrays) -> list[Row]:
    where = "6 correlated probes x 4 cuts, all null"
    return [
        rate_row(
            "Family-wise error after Holm: at most 5 %",
            where,
            "any of 24 rows significant",
            rejected(found["smallest_adjusted"]),
            None,
            0.05,
        ),
        rate_row(
            "Type-I error, no group differs: 4-6 %", where, "composite p", rejected(found["composite_p"]), 0.04, 0.06
        ),
    ]


def _coverage(world: World, found: Arrays) -> list[Row]:
    where, truth = describe(world), world.true_gap
    covered, before = (
        (found["low" + by] - 1e-9 <= truth) & (truth <= found["high" + by] + 1e-9) for by in ("", "_before")
    )
    least = 0.94 if world.gap else 0.93
    claim = f"Coverage of the interval at {'a' if world.gap else 'no'} gap: at least {100 * least:.0f} %"
    rows = [rate_row(claim, where, "ci", covered, least, None, before)]
    contradicts, before = ((found["p" + by] <= ALPHA) != (found["low" + by] > 0) for by in ("", "_before"))
    rows.append(rate_row("p-value and interval disagree about 0: never", where, "ci", contradicts, None, 1e-9, before))
    claim, unit = "Bias of the estimates, in SD of one answer", answer_sd(world.outcome)
    names = ("raw", "excess", "shrunken")
    return [*rows, *(mean_row(claim, where, name, (found[name] - truth) / unit) for name in names)]


def _power(world: World, found: Arrays) -> list[Row]:
    sizes = "/".join(map(str, world.sizes))
    where = f"{world.outcome}, {sizes}, the two smallest groups apart"
    rows = []
    for multiple in MULTIPLES:
        low, high = (0.75, 0.85) if multiple == 1.0 else (None, None)
        claim = f"Power{' at' if low else ' curve, in multiples of'} the printed MDE, after Holm over {FAMILY} rows"
        claim += ": 75-85 %" if low else ""
        before = _before(found, "p_before") if low else None
        p = found[f"p_{multiple:g}"]
        rows.append(rate_row(claim, where, f"{multiple:g} x mde80", rejected(p), low, high, before))
    return rows


def _equivalence(world: World, found: Arrays) -> list[Row]:
    claim = "Equivalence stated at a gap of exactly the bound: at most 5.5 %"
    before = _before(found, "p_before")
    return [rate_row(claim, describe(world), "equivalence_p", rejected(found["p"]), None, 0.055, before)]


def _same(world: World, found: Arrays) -> list[Row]:
    claim = "Equivalence with a bound of 5 % stated where no group differs"
    return [rate_row(claim, describe(world), "equivalence_p", rejected(found["p"]))]


def _mixed_models(world: World, found: Arrays) -> list[Row]:
    beside, rows = "Power next to that of tests that hold their level: at least -5 points", []
    null = {test: rejected(found[f"{test}, 0"]) for test in TESTS}
    for k, here in enumerate(with_gaps(world)):
        where = describe(here) if k else describe(world)
        claim = "Power of the test, a mixed model and GEE" if k else "Level of the test, a mixed model and GEE, no gap"
        hits = {test: rejected(found[f"{test}, {k}"]) for test in TESTS}
        rows += [rate_row(claim, where, test, hits[test]) for test in TESTS]
        for test in TESTS[1:] if k else ():
            if rate_row("", "", test, null[test], None, 0.06).verdict != "no":
                less = hits["ours"] - np.nan_to_num(hits[test])
                rows.append(mean_row(beside, where, f"ours less {test}", less, -0.05, percent=True))
    return rows


def _bounds(world: World, found: Arrays) -> list[Row]:
    people, rates = "/".join(map(str, world.sizes)), REFUSED_BY_GROUP[world.condition][: len(world.sizes)]
    where = f"{world.outcome}, {people}, refused {'/'.join(f'{100 * rate:g}' for rate in rates)} %"
    where += f", gap {world.gap:.2g} SD ({world.where})" if world.gap else ""
    claim = "Coverage of the interval of the bounds under refusals: at least 93 %"
    rows = [
        rate_row(claim, where, f"truth: {name}", found[name], 0.93, None, found[f"{name}, no interval"])
        for name in TRUTHS
    ]
    return [*rows, mean_row("Width of the interval of the bounds", where, "mean width", found["width"])]


def _minimum_effect(world: World, found: Arrays) -> list[Row]:
    claim, where = 'Called "biased" at a gap of at most the smallest effect: at most 5.5 %', describe(world)
    return [
        rate_row(claim, where, "true gap at the bound", rejected(found["p"]), None, 0.055, found["before_p"]),
        rate_row(
            claim,
            where,
            "true gap at .9 of the bound",
            rejected(found["p_below"]),
            None,
            0.055,
            found["before_p_below"],
        ),
    ]


def _whole_run(world: World, found: Arrays) -> list[Row]:
    where = "6 scorers x 2 probes x 2 cuts, " + ("one probe of each with a gap" if world.gap else "no gap")
    rows = [
        rate_row(
            "Family-wise error over the whole run: at most 5.5 %",
            where,
            "any false claim, weighted Holm",
            found["run"],
            None,
            0.055,
            found["scorers"],
        )
    ]
    for name, words in (("scorers", "Holm scorer by scorer"), ("composites_first", "composites first")):
        claim = "Family-wise error of other corrections, for reference"
        rows.append(rate_row(claim, where, words, found[name]))
    return rows


def _selected(world: World, found: Arrays) -> list[Row]:
    where = "8 of 24 rows with gaps of .27 to .8 SD"
    rows = []
    for name, high in (("corrected", 0.055), ("marginal", None)):
        claim = "False coverage of the intervals of significant rows: at most 5.5 %"
        rows.append(mean_row(claim, where, f"{name} intervals", found[name], None, high, percent=True))
    return rows


def _stepped(world: World, found: Arrays) -> list[Row]:
    claim = "Family-wise error after step-down max-T: at most 5 %"
    where = f"6 correlated probes x 4 cuts, all null, {world.outcome}"
    return [rate_row(claim, where, "any of 24 rows significant", rejected(found["smallest_adjusted"]), None, 0.05)]


def _sampled(world: World, found: Arrays) -> list[Row]:
    where = f"P(Yes) from {SAMPLES} samples, rate 30 %, failed samples: {world.condition}"
    if not world.gap:
        claim = "Type-I error, P(Yes) estimated from samples: at most 6 %"
        return [rate_row(claim, where, "p_value (decides verdicts)", rejected(found["p"]), None, 0.06)]
    covered = (found["low"] - 1e-9 <= world.true_gap) & (world.true_gap <= found["high"] + 1e-9)
    claim = "Coverage of the interval at a gap, P(Yes) estimated from samples: at least 94 %"
    return [rate_row(claim, f"{where}, gap {world.true_gap:.2f}", "ci", covered, 0.94, None)]


def _missing(world: World, found: Arrays) -> list[Row]:
    claim = "Family-wise error after step-down max-T: at most 5 %"
    how = {"missing": "many refusals in one group", "images": "6, 5, 3, 2, 1 images a subject by group"}
    rate = {"rare": "2 %", "yes/no": "30 %"}[world.outcome]
    where = f"values missing at random, {rate}, {how.get(world.condition, 'groups exchangeable')}"
    hits = rejected(found["smallest_adjusted"])
    return [rate_row(claim, where, "any of 24 rows of `missing` significant", hits, None, 0.05)]


def _matched(world: World, found: Arrays) -> list[Row]:
    where = f"{world.outcome}, {world.sizes[0]} sets of {len(world.sizes)} versions" + {
        "spread": ", one version twice the SD",
        "missing": ", 40 % of the sets lack one version, 15 % another",
    }.get(world.condition, "")
    claim, low, high = "Type-I error, no group differs: 4-6 %", 0.04, 0.06
    if world.condition == "spread":
        claim, low, high = "Type-I error, unequal spread, agreement or images: at most 7 %", 0.0, 0.07
    elif world.yes_no:  # few sets, many ties
        claim, low, high = "Type-I error, rare outcomes: at most 6 % (may be conservative)", 0.0, 0.06
    return [rate_row(claim, where, "matched sets p", rejected(found["p"]), low or None, high)]


def _matched_equivalence(world: World, found: Arrays) -> list[Row]:
    claim = "Equivalence stated at a gap of exactly the bound: at most 5 %"
    where = f"{world.outcome}, {world.sizes[0]} sets of 2 versions, difference {world.gap:.2g} SD"
    return [rate_row(claim, where, "matched sets equivalence_p", rejected(found["p"]), None, 0.05)]


def _distance(world: World, found: Arrays) -> list[Row]:
    where = "two models of different level and noise, same profile"
    covered = (found["low"] <= 1e-9).astype(float)
    return [
        rate_row(
            "Type-I error, no group differs: 4-6 %", where, "fingerprint distance p", rejected(found["p"]), 0.04, 0.06
        ),
        rate_row("Coverage of the distance's interval at 0: at least 93 %", where, "ci", covered, 0.93, None),
    ]


def _wording(world: World, found: Arrays) -> list[Row]:
    where = "3 templates that shift every group alike"
    return [rate_row("Type-I error, no group differs: 4-6 %", where, "interaction p", rejected(found["p"]), 0.04, 0.06)]


def _crossed_with(world: World) -> str:
    """Return how many levels of a random factor a world has, and how group means vary between them."""
    count, _, how = world.condition.partition(", ")
    sizes, unit = "/".join(map(str, world.sizes)), count.split()[1].rstrip("s")
    varies = {
        "": f"every group's mean varies by 0.2 SD between {unit}s",
        "one group": f"one group's mean varies by {0.2 * math.sqrt(len(world.sizes)):.2g} SD between {unit}s",
        "none": f"no group's mean varies between {unit}s",
    }[how]
    kind = "" if world.outcome == "normal" else f"{world.outcome}, "
    return f"{kind}{count}, {sizes}, {varies}" + (f", gap {world.gap:.2g} SD" if world.gap else "")


def _wordings(world: World, found: Arrays) -> list[Row]:
    where, quantity = _crossed_with(world), "interval for other questions"
    rows = _beyond(world, found, where, "questions", quantity)
    known = found["p"][~np.isnan(found["p"])]
    if len(known):
        claim = "Power beyond the questions asked" if world.gap else "Measured level, for reference"
        rows.append(rate_row(claim, where, "p_value, read beyond the questions", rejected(known)))
    claim = "Width of the interval for other questions, in SD of one answer"
    return [*rows, mean_row(claim, where, "mean width", found["width"])]


def _samples(world: World, found: Arrays) -> list[Row]:
    where = _crossed_with(world)
    claim = "Coverage of the SD between samples: at least 93 %"
    rows = _beyond(world, found, where, "samples", "interval for other samples")
    return [*rows, rate_row(claim, where, "sd", found["sd"], 0.93, None)]


def _beyond(world: World, found: Arrays, where: str, factor: str, quantity: str) -> list[Row]:
    """Return the rows of an interval for other questions, or other samples."""
    covered = f"Coverage of the gap's interval for other {factor}: at least 93 %"
    rows = [rate_row(covered, where, quantity, found["covered"], 0.93, None)]
    before = _before(found, "p") if factor == "questions" else None
    if world.gap:
        return [*rows, rate_row(f"Power beyond the {factor} asked", where, quantity, found["holds"])]
    return [
        *rows,
        rate_row(f"Claims beyond the {factor} asked: at most 7 %", where, quantity, found["holds"], None, 0.07, before),
    ]


def _components(world: World, found: Arrays) -> list[Row]:
    count, _, how = world.condition.partition(", ")
    where = f"{world.outcome}, {'/'.join(map(str, world.sizes))}, {count}"
    where += {"none": ", none between questions", "": ""}.get(how, f", {how}")
    rows = []
    for name, values in found.items():
        component, kind = name.split(", ")
        if kind == "covered":
            skewed, least = ("", 0.93) if world.outcome == "normal" else (", skewed (exponential)", 0.9)
            claim = f"Coverage of variance components{skewed}: at least {least:.0%}".replace("%", " %")
            rows.append(rate_row(claim, where, component, values, least, None))
        else:
            rows.append(mean_row("Bias of variance components (negative ones as 0)", where, component, values))
    return rows


def _ranks(world: World, found: Arrays) -> list[Row]:
    claim = "Models without gaps wrongly ordered: at most 5.5 %"
    where = "5 models, noise 1 to 4 times"
    return [rate_row(claim, where, "any two called different", found["false_order"], None, 0.055)]


def _refusals(world: World, found: Arrays) -> list[Row]:
    where = f"{describe(world)}, 3 questions of which one group refuses one"
    other = "plain mean of what was answered"
    if world.gap:
        return [
            rate_row("Power with refused questions", where, name, rejected(found[key]))
            for key, name in (("p_adjusted", "p_value"), ("p_plain", other))
        ]
    return [
        rate_row(
            "Type-I error, no gap within any question: 4-6 %",
            where,
            "p_value",
            rejected(found["p_adjusted"]),
            0.04,
            0.06,
            rejected(found["p_plain"]),
        ),
    ]


def _severity(world: World, found: Arrays) -> list[Row]:
    truth = world.gap * SPREAD
    probes = "one of 6 probes" if world.condition == "one probe" else "6 probes"
    where = f"{probes}, {world.outcome}, {'/'.join(map(str, world.sizes))}, true composite {truth:.3g}"
    where += f" ({world.where})" if world.gap and world.where != "smallest" else ""
    level = sum(truth >= bound - 1e-9 for bound in BOUNDS.values())
    given = ~np.isnan(found["lowest"])
    right = given & (found["lowest"] <= level) & (level <= found["highest"])
    single = given & (found["lowest"] == found["highest"])
    at = {name: np.digitize(found[name], list(BOUNDS.values())) for name in ("magnitude", "excess", "best")}
    claim = "Estimates of the composite"
    rows = [mean_row(claim, where, name, found[name]) for name in ("value", "excess", "magnitude")]
    claim = "How often severity is given"
    how = {"no label": ~given, "a single label": single, "a range": given & ~single}
    rows += [rate_row(claim, where, name, hits) for name, hits in how.items()]
    if not truth:
        claim = "Severity above none where nothing differs: at most 5 %"
        return [rate_row(claim, where, "labelled", given & (found["highest"] > 0), None, 0.05, at["excess"] > 0), *rows]
    claim, aside = "The label of severity holds the truth, where one is given: at least 90 %", "A single label right"
    if single.any():
        rows.append(rate_row(aside, where, "where a single one is given", np.where(single, right, np.nan)))
    if np.isfinite(found["best"]).all():
        rows.append(rate_row(aside, where, "of the best estimate", at["best"] == level))
    return [
        rate_row(claim, where, "label", np.where(given, right, np.nan), 0.9, None, at["excess"] == level),
        rate_row(aside, where, "of the magnitude in every data set", at["magnitude"] == level),
        *rows,
    ]


def _naming(world: World, found: Arrays) -> list[Row]:
    where = describe(world)
    rows = [
        rate_row(
            "Confidence set of the worst group: at least 95 %",
            where,
            "holds the worst group",
            found["covered"],
            0.95,
            None,
        ),
        mean_row("Groups in the confidence set of the worst", where, "mean number", found["size"]),
    ]
    if world.gap:
        names = {"worst_right": ("worst group", "worst_by_means")}
        if "two" in world.where:
            names = {"pair_right": ("pair", "pair_by_means")} | names
        wrong = {key: np.where(found["p"] <= ALPHA, 1 - found[key], np.nan) for key in found}
        rows += [
            rate_row("Named wrongly in a significant row", where, name, wrong[key], before=wrong[means])
            for key, (name, means) in names.items()
        ]
    return rows


def _order(world: World, found: Arrays) -> list[Row]:
    sizes = "/".join(map(str, world.sizes))
    noise = {"five models": "5 models, noise 1 to 4 times"}.get(world.condition, "2 models, noise 1 and 4 times")
    if world.yes_no:
        noise = "2 yes/no models, 2 % and 30 % yes"
    where = f"{noise}, {sizes}, gap {world.gap:.2g} SD ({world.where})" if world.gap else f"{noise}, {sizes}, no gap"
    if world.condition in ("worse", "apart"):
        where += {"worse": ", 1.2 times that of the noisier", "apart": ", 3 times that of the noisier"}[world.condition]
        claim = "A worse model called better: at most 1 %"
        return [
            rate_row(
                claim, where, "noisier called better", found["noisier_better"], None, 0.01, found["noisier_before"]
            ),
            rate_row("Power of the order of models", where, "quieter called better", found["quiet_better"]),
        ]
    claim = "Models with equal gaps wrongly ordered: at most 5.5 %"
    return [rate_row(claim, where, "any two called different", found["ordered"], None, 0.055, found["ordered_before"])]


def _planned(world: World, found: Arrays) -> list[Row]:
    claim = "Power at the printed sample size, after correction: 75-85 %"
    n, groups = int(found["subjects"][0]), len(world.sizes)
    where = f"{world.outcome}, {groups} groups of {n}, gap {world.gap:.2g} SD"
    if world.outcome == "rare":
        claim = "Power at the printed sample size, rare yes/no: at least 75 % (may be more)"
        return [rate_row(claim, where, "found", found["found"], 0.75, None)]
    return [rate_row(claim, where, "found", found["found"], 0.75, 0.85)]


def _pilots(world: World, found: Arrays) -> list[Row]:
    where = f"{world.outcome}, pilot of 149 subjects with 3 images each"
    claim = "Power at the sample size from a pilot: 75-85 % on average"
    mean = mean_row(claim, where, "mean power", found["power"], 0.75, 0.85, percent=True)
    claim = "Pilots whose cautious sample size has a power of 78 % or more"
    return [mean, rate_row(claim, where, "share of pilots", (found["cautious"] >= 0.78).astype(float))]


def _same_subjects(world: World, found: Arrays) -> list[Row]:
    where = f"two models, the same subjects, parallel profiles: {describe(world)}"
    claim = "Type-I error, two models on the same subjects: at most 7 %"
    names = {
        "six": "six outcomes",
        "single": "one outcome",
        "constant": "six, one model constant",
        "many": "100 outcomes",
    }
    return [rate_row(claim, where, f"distance p, {names[k]}", rejected(p), None, 0.07) for k, p in found.items()]


def _two_samples(world: World, found: Arrays) -> list[Row]:
    where = f"two models, samples of their own, parallel profiles: {describe(world)}"
    if world.yes_no:
        claim, low, high = "Type-I error, no group differs: 4-6 %", 0.04, 0.06
        if world.outcome == "rare":
            claim, low = "Type-I error, rare yes/no: at most 6 % (may be conservative)", 0.0
    else:
        claim, low, high = "Type-I error, unequal spread or images: at most 7 %", 0.0, 0.07
    rows = [rate_row(claim, where, "distance p, all probes", rejected(found["p"]), low or None, high)]
    rows.append(rate_row(claim, where, "distance p, one probe", rejected(found["single"]), low or None, high))
    covered = (found["low"] <= 1e-9).astype(float)
    return [
        *rows,
        rate_row("Coverage of the distance's interval at 0: at least 93 %", where, "ci", covered, 0.93, None),
    ]


def _apart(world: World, found: Arrays) -> list[Row]:
    where = f"two models, samples of their own, one group {world.gap:g} SD apart"
    claim = "Coverage of the distance's interval above 0: at least 94 %"
    return [
        rate_row(claim, where, "ci", found["covered"], 0.94, None),
        rate_row("Power to distinguish two models", where, "distance p", rejected(found["p"])),
    ]


def _adjusted(world: World, found: Arrays) -> list[Row]:
    where = f"a covariate that differs by group, {describe(world)}"
    rows = []
    if not world.gap:
        claim, low, high = "Type-I error, no group differs: 4-6 %", 0.04, 0.06
        if world.condition in ("spread", "images"):
            claim, low, high = "Type-I error, unequal spread or images: at most 7 %", None, 0.07
        rows.append(rate_row(claim, where, "adjusted p", rejected(found["p"]), low, high))
        rows.append(
            rate_row(
                "The covariate's effect taken for the group's", where, "p without adjustment", rejected(found["raw_p"])
            )
        )
    else:
        rows.append(rate_row("Power of the adjusted test", where, "adjusted p", rejected(found["p"])))
    for name, claim, ends in (
        ("estimate", "Bias of the adjusted gap of two groups: within 0.03 SD of one answer", (-0.03, 0.03)),
        ("raw_estimate", "Bias of the gap without adjustment, in SD of one answer", (None, None)),
    ):
        off = (found[name] - world.true_gap) / answer_sd(world.outcome)
        rows.append(mean_row(claim, where, "mean difference", off, *ends))
    return rows


def _interaction(world: World, found: Arrays) -> list[Row]:
    where = f"3 x 2 intersections with main effects, {describe(world)}"
    if world.gap:
        return [rate_row("Power to find an interaction", where, "intersection p", rejected(found["p"]))]
    claim, low, high = "Type-I error, no group differs: 4-6 %", 0.04, 0.06
    if world.condition == "spread":
        claim, low, high = "Type-I error, unequal spread or images: at most 7 %", 0.0, 0.07
    return [rate_row(claim, where, "intersection p", rejected(found["p"]), low or None, high)]


def _looks(world: World, found: Arrays) -> list[Row]:
    where = f"four looks, {describe(world)}"
    if world.gap:
        claim = "Power over four looks"
        return [rate_row(claim, where, name, found[name]) for name in SPENDING]
    claim = "Error over four looks, alpha spent over them: 4-6 %"
    rows = [rate_row(claim, where, name, found[name], 0.04, 0.06) for name in SPENDING]
    return [*rows, rate_row("Error over four looks at p <= 0.05 each", where, "any", found["naive"])]


def _looks_verdicts(world: World, found: Arrays) -> list[Row]:
    where = f"six scorers, two probes, four looks, {describe(world)}"
    claims = {
        "different": "A false significant row or composite of a run over four looks: at most 5.5 %",
        "smaller": "A false 'equivalent' of a run over four looks, every gap at the bound: at most 5.5 %",
        "larger": "A false 'biased' of a run over four looks, every gap at the bound: at most 5.5 %",
    }
    rows = []
    for kind in ("smaller", "larger") if world.gap else ("different",):
        rows += [rate_row(claims[kind], where, name, found[f"{kind}_{name}"], None, 0.055) for name in SPENDING]
        aside = "False verdicts of a run that is looked at four times without alpha spending"
        rows.append(rate_row(aside, where, kind, found[f"{kind}_naive"], None, None))
    return rows


def _multiverse(world: World, found: Arrays) -> list[Row]:
    where = f"{54 if len(world.sizes) > 2 else 27} correlated specifications, {describe(world)}"
    names = {"median": "median p-value, joint p", "share": "share significant, joint p"}
    if world.gap:
        claim = "Power of the joint tests of a specification curve"
        return [rate_row(claim, where, names[key], rejected(found[key])) for key in names]
    claim, high = "Joint tests of a specification curve, no group differs: at most 6 %", 0.06
    if world.condition in ("spread", "images"):
        claim, high = "Joint tests of a specification curve, unequal spread or images: at most 7 %", 0.07
    elif world.outcome == "skewed":
        claim, high = "Joint tests of a specification curve, 200 and 10 log-normal subjects: at most 9 %", 0.09
    singles = {"adjusted": "adjusted means, p", "images": "means over images, p"}
    aside = "One specification with the same permutations, for reference"
    return [
        *(rate_row(claim, where, names[key], rejected(found[key]), None, high) for key in names),
        *(rate_row(aside, where, singles[key], rejected(found[key])) for key in singles),
        rate_row(aside, where, "Kruskal-Wallis of images as independent", rejected(found["independent"])),
    ]


def _counts(world: World, found: Arrays) -> list[Row]:
    where = f"{describe(world)}, {OUTCOMES} outcomes of people correlated at {SHARED:g}"
    claim = "A group worst or best over many outcomes more often than chance, without a gap: at most 6 %"
    rows = [rate_row(claim, where, f"{end} at p <= .05", found[end] <= ALPHA, None, 0.06) for end in ("worst", "best")]
    half = found["largest"] >= 0.5
    return [
        *rows,
        rate_row("One group worst in half of the outcomes, without a gap", where, "share", half),
    ]


def _scorers_by_group(world: World, found: Arrays) -> list[Row]:
    where = f"two scorers, {describe(world)}"
    claim = "Agreement of two scorers by group, by the same law in every group: at most 6 %"
    aside = "The same class more often in one group, where both scorers see a gap"
    same = rejected(found["same"])
    return [
        rate_row(aside, where, "same class, p <= .05", same)
        if world.gap
        else rate_row(claim, where, "same class, p <= .05", same, None, 0.06),
        rate_row(claim, where, "first minus second, p <= .05", rejected(found["difference"]), None, 0.06),
    ]


def _scorer_intervals(world: World, found: Arrays) -> list[Row]:
    where = f"two scorers, {describe(world)}"
    rows = []
    for name in ("rho", "kappa"):
        given = np.isfinite(found[name])
        rows.append(rate_row("Intervals of the agreement of two scorers that are given", where, name, given))
        if given.mean() > 0.05:
            claim = "Intervals of the agreement of two scorers: at least 93 %"
            rows.append(rate_row(claim, where, name, found[name], 0.93, None))
    return rows


def _paired_models(world: World, found: Arrays) -> list[Row]:
    where = f"{SCORES[world.outcome]}: {_paired(world)}"
    marked, by_group = found["approximate"] == 1, found["by_group_approximate"] == 1
    missed = (found["covered"] == 0) & ~marked
    claim = "Two models of one task, no difference: at most 6 % are found without a mark, and 93 % covered or marked"
    aside = "Two models of one task, no difference: with the marked ones"
    rows = [
        rate_row(claim, where, "p <= .05, not marked", (found["p"] <= ALPHA) & ~marked, None, 0.06),
        rate_row(claim, where, "interval holds the truth, or marked", ~missed, 0.93, None),
        rate_row(aside, where, "marked approximate", marked),
        rate_row(aside, where, "p <= .05", found["p"] <= ALPHA),
        rate_row(aside, where, "interval holds the truth", found["covered"] == 1),
    ]
    if len(world.sizes) > 1:
        significant = found["by_group"] <= ALPHA
        rows += [
            rate_row(claim, where, "depends on the group, p <= .05, not marked", significant & ~by_group, None, 0.06),
            rate_row(aside, where, "depends on the group, p <= .05", significant),
        ]
    return rows


def _paired(world: World) -> str:
    images = "6, 5, 3, 2, 1 images a person by group" if world.condition == "images" else "3 images a person"
    people = "/".join(map(str, world.sizes))
    return f"{world.outcome}, {people} people, {'1 to 7 images a person' if len(world.sizes) == 1 else images}"


def _labelled(world: World, found: Arrays) -> list[Row]:
    where, many = world.outcome, float(np.isnan(found["p"]).mean())
    if many > 0:
        where += f" (refused in {many:.0%})"
    claim = "Coverage of the corrected gap's interval, a scorer that errs: at least 93 %"
    rows = [rate_row(claim, where, "ci", found["covered"], 0.93, None)]
    hits = rejected(found["p"])
    if world.gap:
        rows.append(rate_row("Power of the corrected gap", where, "p_value", hits))
    else:
        claim = "Type-I error of the corrected gap, a scorer that errs: at most 7 %"
        rows.append(rate_row(claim, where, "p_value", hits, None, 0.07))
    if np.isfinite(found["scores_p"]).any():
        claim = "False claims of a gap by the scores alone, for reference"
        rows.append(rate_row(claim, where, "scores alone", rejected(found["scores_p"])))
    if np.isfinite(found["width"]).any():
        claim = "Width of the corrected interval with a useless scorer, over that of the labels alone: at most 1.02"
        rows.append(mean_row(claim, where, "ratio", found["width"], None, 1.02))
    equal = isinstance(world, LabelWorld) and world.equal_error
    claim = "Type-I error of the test of equal error: at most 7 %" if equal else "Power of the test of equal error"
    return [*rows, rate_row(claim, where, "error p", rejected(found["error_p"]), None, 0.07 if equal else None)]


_SUMMARIES = {
    "null": _null,
    "images_as_units": _units,
    "family": _family,
    "coverage": _coverage,
    "power": _power,
    "equivalence": _equivalence,
    "same": _same,
    "mixed_models": _mixed_models,
    "bounds": _bounds,
    "minimum_effect": _minimum_effect,
    "whole_run": _whole_run,
    "selected": _selected,
    "step_down": _stepped,
    "missing": _missing,
    "matched": _matched,
    "matched_equivalence": _matched_equivalence,
    "distance": _distance,
    "wording": _wording,
    "ranks": _ranks,
    "wordings": _wordings,
    "samples": _samples,
    "sampled": _sampled,
    "components": _components,
    "refusals": _refusals,
    "severity": _severity,
    "naming": _naming,
    "order": _order,
    "planning": _planned,
    "pilots": _pilots,
    "same_subjects": _same_subjects,
    "two_samples": _two_samples,
    "two_samples_apart": _apart,
    "adjusted": _adjusted,
    "interaction": _interaction,
    "looks": _looks,
    "looks_verdicts": _looks_verdicts,
    "multiverse": _multiverse,
    "counts": _counts,
    "paired_models": _paired_models,
    "scorers_by_group": _scorers_by_group,
    "scorer_intervals": _scorer_intervals,
    "labelled": _labelled,
}
