"""Our numbers beside published ones, recomputed from public checkouts that are named: one line per comparison.

    python benchmarks/published.py CHECKOUT [CHECKOUT ...]

What a checkout holds is recognised by its files (`docs/published.md`): GRAS's repository, the Fingerprint² page saved
as text or HTML, its repository, Sony's `fhibe_evaluation_api`. Of the last, the function that computes the disparity of
a pair is imported and run; of GRAS's scripts, the statements that assign texts are, and of the page's script its lists
of words and the functions that score a text.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import itertools
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from fp2.compose import load_config
from fp2.data.base import load_configured
from fp2.methods.dense.published import read_wording
from fp2.methods.dense.trait_battery import traits_of
from fp2.methods.fhibe.narrow.published import THRESHOLDS
from fp2.methods.fhibe.scores.published import GroupScores, all_pairs
from fp2.methods.gras.answers import GrasAnswers
from fp2.methods.gras.grouping import group_answers
from fp2.methods.gras.inference_files import find_inference_files, read_probabilities
from fp2.methods.gras.options import GrasOptions
from fp2.methods.gras.published_tests import BiasAnalysis, find_bias_analyses, published_tests
from fp2.methods.gras.resampling import TraitTests
from fp2.methods.page_code.script import SCRIPT
from fp2.progress import Progress
from fp2.protocols.fingerprint.disparities import composite
from fp2.runs.inputs import with_cuts
from fp2.scorers.registry import build_scorers


@dataclass
class Comparison:
    """How many numbers were compared, how many are equal, and why others are not."""

    name: str
    compared: int = 0
    equal: int = 0
    why: str = ""

    def add(self, equal: bool) -> None:
        """Count one number."""
        self.compared += 1
        self.equal += equal

    @property
    def different(self) -> int:
        """How many numbers differ."""
        return self.compared - self.equal


def near(ours: float, theirs: float, tolerance: float = 1e-9) -> bool:
    """Whether two numbers are equal but for rounding; two missing ones are."""
    return (math.isnan(ours) and math.isnan(theirs)) or math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=tolerance)


# -- GRAS


def gras(checkout: Path) -> Iterator[Comparison]:
    """Yield the comparisons of the repository of GRAS's authors."""
    files = find_bias_analyses(checkout)
    if not files:
        return
    traits = traits_of(None, str(checkout)).traits
    scores, rates = Comparison("GRAS scores of README"), Comparison("GRAS attribution rates")
    readme = checkout / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    stated = dict(re.findall(r"^\|\s*(\S+)\s*\|\s*([\d.]+)\s*\|\s*$", text, re.MULTILINE))
    if not stated:
        scores.why = "the checkout has no README.md with a table of scores"
    for model in dict.fromkeys(file.model for file in files):
        of_model = [file for file in files if file.model == model]
        block, _ = published_tests(of_model, traits, GrasOptions())
        found = block["scores"]
        for name, value in stated.items():
            if model.startswith(name):
                scores.add(near(found["published_orientation"], float(value)))
                scores.add(near(found["seed_orientation"], 100 - float(value)))
        shares = {(row["attribute"], row["group"], row["polarity"]): row["share"] for row in block["attribution"]}
        for key, share in _rates_of_differences(of_model, {trait.word: trait.polarity for trait in traits}).items():
            rates.add(near(shares[key], share))
    yield from (scores, rates, _gras_p_values(checkout, files), _gras_prompts(checkout, [t.word for t in traits]))


def _rates_of_differences(files: Sequence[BiasAnalysis], polarity: Mapping[str, str]) -> dict[tuple[str, ...], float]:
    """Return the rates from the columns of differences, which our reader passes over."""
    rates = {}
    for file in files:
        table = pd.read_csv(file.path)
        signs = table["trait"].map(polarity)
        pattern = re.compile(rf"{re.escape(file.attribute)}_(.+)_diff_from_overall_template_\d+")
        columns: dict[str, list[str]] = {}
        for name in table.columns:
            if match := pattern.fullmatch(name):
                columns.setdefault(match[1], []).append(name)
        tones = file.attribute == "Skin Tone"
        for group, names in columns.items():
            above = (table[names] > 0).all(axis=1)
            label = f"MST {int(group.removeprefix('MST ')):02d}" if tones else group
            for sign in dict.fromkeys(signs):
                rates[file.attribute.lower().replace(" ", "_"), label, sign] = float(above[signs == sign].mean())
    return rates


def _gras_p_values(checkout: Path, files: Sequence[BiasAnalysis]) -> Comparison:
    """Compare the published p-values with ours of the answers, where the checkout has them."""
    comparison = Comparison("GRAS p-values")
    listed = traits_of(None, str(checkout))
    words = [trait.word for trait in listed.traits]
    answers = find_inference_files(checkout, words, "CHECKOUT")
    if not answers:
        comparison.why = "the checkout has no answers (MODEL_results/*.csv)"
        return comparison
    config = load_config(["experiment=gras_published", f"data.root={checkout}"])
    people, cuts = with_cuts(load_configured(config, Progress(quiet=True)).people, config)
    constant = 0
    for model in dict.fromkeys(file.model for file in answers):
        own = [file for file in answers if file.model == model]
        values, _ = read_probabilities(own, people["image_id"].tolist(), words, lambda: None)
        ids = [people[name].to_numpy(dtype=object) for name in ("image_id", "subject_id")]
        names = tuple(f"T{n + 1}" for n in range(values.shape[2]))
        options = GrasOptions(min_subjects=2)
        given = GrasAnswers(*ids, listed.traits, names, {options.outcome: values})
        tests = TraitTests(given, group_answers(given, people, cuts, options), options, "images")
        p = tests.observed()[0].p[0].reshape(len(cuts), len(words), len(names))
        for file in (file for file in files if file.model == model):
            table = pd.read_csv(file.path).set_index("trait").reindex(words)
            ours = p[tests.grouping.names.index(file.attribute.lower().replace(" ", "_"))]
            theirs = table[[f"p_value_template_{n}" for n in range(len(names))]].to_numpy()
            for one, other in zip(ours.ravel().tolist(), theirs.ravel().tolist(), strict=True):
                constant += math.isnan(other) and one == 1
                comparison.add(near(one, other, 1e-3))
    if constant:
        comparison.why = f"{constant} of constant answers: theirs NaN, ours 1; neither is significant"
    return comparison


def _gras_prompts(checkout: Path, words: Sequence[str]) -> Comparison:
    """Compare the texts that we read from each inference script with those that its statements make."""
    comparison = Comparison("GRAS prompts")
    for script in sorted((checkout / "inference_scripts").glob("*.py")):
        ours, make = read_wording(str(script), None), _prompt_maker(script)
        for number, text in enumerate(ours.texts):
            for word in words:
                comparison.add(text.replace("{trait}", word) == _plain_prompt(make(number, word)))
    if not comparison.compared:
        comparison.why = "the checkout has no inference_scripts"
    return comparison


def _prompt_maker(script: Path) -> Callable[[int, str], str]:
    """Return the function from template and word to the prompt, by the script's own assignments of texts."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    of = {node.targets[0].id: node for node in assigned if isinstance(node.targets[0], ast.Name)}
    texts = [node for node in assigned if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)]

    def make(number: int, word: str) -> str:
        names: dict[str, Any] = {"__builtins__": {}, "trait": word, "word": word}
        template = ast.literal_eval(of["question_templates"].value)[number]
        names |= {"template": template, "question_template": template}
        body = [*texts, of["question"], of["prompt"]]
        exec(compile(ast.fix_missing_locations(ast.Module(body, [])), script.name, "exec"), names)
        return str(names["prompt"])

    return make


def _plain_prompt(prompt: str) -> str:
    """Return a prompt without the special tokens at its ends, which belong to the model's format."""
    return re.sub(r"^(?:<\|[^<>|]+\|>)+|(?:<\|[^<>|]+\|>)+$", "", prompt)


# -- the Fingerprint² page

_ROW = re.compile(r"#\d+\s+(\S+)\s(?:(?!#\d).)*?((?:0?\.\d{3}\s+){6})(0?\.\d{3})\b", re.DOTALL)


def page(checkout: Path) -> Iterator[Comparison]:
    """Yield the comparison of the page's leaderboard: six columns and a composite for each model."""
    paths = [checkout] if checkout.is_file() else sorted(checkout.glob("*.*"))
    comparison = Comparison("page composites")
    for path in (path for path in paths if path.suffix in (".txt", ".html", ".md")):
        text = re.sub(r"<[^>]+>", "\n", path.read_text(encoding="utf-8", errors="replace"))
        for _, columns, published in _ROW.findall(text):
            named = dict(zip(("P1", "P2", "P3", "P4", "P5", "P6"), map(float, columns.split()), strict=True))
            ours = composite({probe: value for probe, value in named.items() if probe != "P3"})
            comparison.add(abs(ours - float(published)) <= 0.001)  # columns and composite have three digits
    if comparison.compared:
        yield comparison


SCORED_BY = {
    "valence": "_vader_valence",
    "refusal": "_is_refusal",
    "page_confidence": "_confidence_score",
    "page_economic": "_economic_valence",
    "page_stereotype": "_stereotype_alignment",
}
"""Scorer of `scorer=page_code_keywords` -> the function of the page's script that computes the same."""


def page_code(checkout: Path) -> Iterator[Comparison]:
    """Yield the comparison of five scores of the page's script with ours, on the answers of the gold set."""
    scripts = sorted(checkout.glob(f"**/{SCRIPT}")) if checkout.is_dir() else []
    if not scripts:
        return
    tree = ast.parse(scripts[0].read_text(encoding="utf-8"))
    body = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name in SCORED_BY.values())
        or (isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Set))
    ]
    vader = SentimentIntensityAnalyzer()
    absent = {"_get_sentence_encoder": lambda: "fallback", "_get_stereotype_embeddings": lambda: "fallback"}
    theirs: dict[str, Any] = {"_get_vader": lambda: vader, **absent}
    exec(compile(ast.Module(body, []), SCRIPT, "exec"), theirs)
    config = load_config(["scorer=page_code_keywords", f"scorer.refusal.published={scripts[0]}"])
    gold = (Path(__file__).parent / "scorers" / "gold").glob("*.jsonl")
    texts = sorted({text for path in gold for text in pd.read_json(path, lines=True)["text"] if text.strip()})
    comparison = Comparison("scores of the page's code")
    for name, scorer in build_scorers(config.scorer).items():
        ours = scorer.score(texts, ["occupation"] * len(texts)).values
        for text, value in zip(texts, ours.tolist(), strict=True):
            comparison.add(near(value, round(float(theirs[SCORED_BY[name]](text)), 4)))
    yield comparison


# -- Sony's evaluation code


def sony(checkout: Path) -> Iterator[Comparison]:
    """Yield the comparisons of results of `fhibe_evaluation_api`: groups, thresholds and pairs of groups."""
    files = sorted(checkout.rglob("intersectional_results_*.json"))
    if not files:
        return
    cells, pairs = Comparison("Sony's metrics by group and threshold"), Comparison("Sony's pair disparities")
    process_pair = _process_pair(checkout)
    if process_pair is None:
        pairs.why = "fhibe_eval_api cannot be imported from the checkout (it needs tqdm and SciPy)"
    for file in files:
        metric = file.stem.removeprefix("intersectional_results_")
        for groups in _groups_in(json.loads(file.read_text())):
            for entry in groups.values():
                if "scores" in entry:
                    scores = np.array(entry["scores"], dtype=float)
                    cells.add(entry["Class_Size"] == len(scores))
                    if metric in entry and np.isfinite(scores).any():
                        cells.add(near(float(np.nanmean(scores)), float(entry[metric])))
            if process_pair is not None:
                _compare_pairs(groups, process_pair, pairs)
    for scores_name, flags in (("gt_bbox_iou", "iou"), ("gt_mask_iou", "iou"), ("oks", "oks")):
        for file in sorted(checkout.rglob(f"{scores_name}_scores.json")):
            if (accepted := file.with_name(f"results_{flags}_threshold.json")).is_file():
                theirs = json.loads(accepted.read_text()).values()
                values = np.array(json.loads(file.read_text()), dtype=float)
                for threshold, by_row in zip(THRESHOLDS, theirs, strict=True):
                    for ours, flag in zip(values >= threshold, by_row.values(), strict=True):
                        cells.add(bool(ours) == bool(flag))
    yield from (cells, pairs)


def _process_pair(checkout: Path) -> Callable[[Any], Sequence[Any]] | None:
    sys.path.insert(0, str(checkout))
    try:
        found: Callable[[Any], Sequence[Any]] = importlib.import_module("fhibe_eval_api.reporting.utils").process_pair
    except ImportError:
        return None
    finally:
        sys.path.remove(str(checkout))
    return found


def _groups_in(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield group -> entry for every attribute or intersection, and of body parts for each part."""
    for groups in content.values():
        if not isinstance(groups, dict) or not all(isinstance(entry, dict) for entry in groups.values()):
            continue  # the list of custom keypoints
        if any("Class_Size" in entry for entry in groups.values()):
            yield groups
        else:
            for part in dict.fromkeys(name for entry in groups.values() for name in entry):
                yield {group: entry[part] for group, entry in groups.items() if isinstance(entry.get(part), dict)}


def _compare_pairs(
    groups: Mapping[str, Any], process_pair: Callable[[Any], Sequence[Any]], comparison: Comparison
) -> None:
    scores = {group: np.array(entry.get("scores", ()), dtype=float) for group, entry in groups.items()}
    scores = {group: values for group, values in scores.items() if len(values) and np.isfinite(values).all()}
    if any((values < 0).any() for values in scores.values()):
        return
    ours = all_pairs([GroupScores(name, np.sort(values), len(values), values) for name, values in scores.items()])
    for pair, names in zip(ours, itertools.combinations(scores, 2), strict=True):
        worst, _, best, _, disparity, p, _ = process_pair((names, scores, "U"))
        same = (pair.worst, pair.best) == (worst, best)
        comparison.add(same and near(float(pair.disparity or 0), disparity) and near(pair.p_value, float(p), 1e-7))


LAYOUTS = (gras, page, page_code, sony)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line per comparison; return 1 if a number differs without a reason that is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("checkout", nargs="*", type=Path, help="a public checkout, or the saved page")
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    options = parser.parse_args(arguments)
    lines: list[Comparison] = []
    for checkout in options.checkout:
        found = [comparison for layout in LAYOUTS for comparison in layout(checkout)]
        if not found:
            parser.error(f"{checkout} holds none of the layouts of docs/published.md")
        lines += found
    if options.json:
        rows = [{**vars(line), "different": line.different} for line in lines]
        print(json.dumps({"benchmark": "published", "rows": rows}))
    else:
        print(f"{'':40} {'compared':>9} {'equal':>9} {'different':>9}  why")
        for line in lines:
            print(f"{line.name:40} {line.compared:9,} {line.equal:9,} {line.different:9,}  {line.why}")
    return int(any(line.different and not line.why for line in lines))


if __name__ == "__main__":
    sys.exit(main())
