"""What a third party adds from outside the tree: model, battery, scorer, cut, protocol, task, supplement."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import Bench, fp2, predicate_of, question_texts, results_of

SCORER = '''
"""How loud an answer is."""
import numpy as np
from fp2.scorers.base import BaseScorer, Scored
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Loudness(BaseScorer):
    name: str = "loudness"
    higher_is_better: bool = False
    value_range: tuple = (0.0, 1.0)
    smallest_effect: float = 0.05
    scale: ClassVar[tuple] = (0.0, 1.0)

    def score_unique(self, texts):
        return Scored(np.array([min(text.count("e") / 20, 1.0) for text in texts]))
'''


def test_a_model_a_battery_a_scorer_and_a_cut(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = bench.root / "outside"
    text = question_texts()["trust"]
    files = {
        "model/outsider.yaml": "defaults:\n  - planted\n  - _self_\nname: outsider\n"
        "truth: {seed: 9, effects: {all: {gender: {f: 3}}}}\n",
        "probe/brief.yaml": f"name: brief\nversion: '1'\nprobes:\n  trust:\n    label: Trust\n    questions:\n"
        f"      - {{id: trust, text: '{text}'}}\n",
        "scorer/loudness.yaml": "loudness:\n  target: fp2_outside_scorer:Loudness\n  smallest_effect: 0.01\n",
        "cut/both.yaml": "name: both\nby: [gender]\neach: null\ngroups: null\n",
    }
    for name, body in files.items():
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text(body, encoding="utf-8")
    (bench.root / "fp2_outside_scorer.py").write_text(SCORER, encoding="utf-8")
    monkeypatch.syspath_prepend(str(bench.root))
    code = bench.launch(
        f"hydra.searchpath=[file://{outside}]",
        "model=outsider",
        "probe=brief",
        "scorer=loudness",
        "cut=both",
        "analysis.primary=loudness",
    )
    assert code == 0
    results = results_of(bench.run_folders()[0])
    assert results["model"]["name"] == "outsider"
    assert results["cuts"] == ["both"]
    assert [(row["probe"], row["scorer"]) for row in results["disparities"]] == [("trust", "loudness")]
    assert results["composites"]["both"]["probes"] == ["trust"]


PROTOCOL = '''
"""A protocol that titles its report, a supplement with its report section, and a task."""
from dataclasses import dataclass, replace

from fp2.protocols.base import Collected, Collects
from fp2.protocols.fingerprint.protocol import Fingerprint
from fp2.protocols.fingerprint.settings import Supplement
from fp2.protocols.task_tables import no_scores, score_tables
from fp2.report.section import Section
from fp2.report.values import Sentence, Weight
from fp2.results import Analysis


class Calm(Fingerprint):
    name = "calm"
    states = replace(Fingerprint.states, title="Calm fingerprint")


class Tally(Supplement):
    name = "tally"
    section = "fp2_outside_protocol:TallySection"

    def block(self, run):
        n = len(run.answers)
        return {"n": n, "metrics": {"n": n}, "headline": {"n": n}}


class TallySection(Section):
    name = "tally"
    title = "Tally"

    def values(self, block, results):
        yield Sentence(f"tally of {block['n']}", Weight.LEAD)


@dataclass(frozen=True)
class SizeOptions:
    unit: str = "image"


class Sizes(Collects):
    name = "sizes"
    Options = SizeOptions

    def collect(self, inputs):
        return Collected(score_tables(inputs.people, no_scores()), model={"name": "none"})

    def analyse(self, tables, job):
        n = len(tables.people)
        return Analysis(settings={}, blocks={"sizes": {"n": n, "unit": self.options.unit, "headline": {"n": n}}})
'''


@pytest.fixture
def outside(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = bench.root / "outside"
    folder.mkdir()
    (folder / "fp2_outside_protocol.py").write_text(PROTOCOL, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.mark.package(name="reruns")
@pytest.mark.package(name="withdrawal")
@pytest.mark.usefixtures("outside")
def test_a_protocol_and_a_supplement_with_its_section_through_run_purge_and_rescore(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ("probe.protocol=fp2_outside_protocol:Calm", "+probe.options.supplements=[fp2_outside_protocol:Tally]")
    assert bench.launch(*own, "report=default", "report.figures=false") == 0
    shown = capsys.readouterr().out
    assert "Calm fingerprint of planted" in shown
    assert "tally of 432" in shown
    (folder,) = bench.run_folders()
    assert results_of(folder)["tally"]["n"] == 432
    assert predicate_of(folder)["findings"]["tally"] == {"n": 432}
    assert "tally of 432" in (folder / "dashboard.html").read_text(encoding="utf-8")
    subject = bench.table.read_text(encoding="utf-8").splitlines()[1].split(",")[1]
    assert fp2("purge", "--subject", subject, "--yes", *bench.paths) == 0
    assert results_of(folder)["tally"]["n"] == 420
    assert "tally of 420" in (folder / "dashboard.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert fp2("rescore", str(folder), "analysis.alpha=0.01", "report=none", "tracking=none", *bench.paths) == 0
    assert "tally of 420" in capsys.readouterr().out


@pytest.mark.package(name="withdrawal")
@pytest.mark.usefixtures("outside")
def test_a_task(bench: Bench) -> None:
    words = ("task.name=fp2_outside_protocol:Sizes", "task.options.unit=photograph")
    folder = bench.run(*words).folder
    assert results_of(folder)["sizes"] == {"n": 72, "unit": "photograph", "headline": {"n": 72}}
    subject = bench.table.read_text(encoding="utf-8").splitlines()[1].split(",")[1]
    assert fp2("purge", "--subject", subject, "--yes", *bench.paths) == 0
    assert results_of(folder)["sizes"]["n"] == 70
    assert fp2("run", *bench.words(words[0], "task.options.units=x")) == 2
