"""The commands of the pages for users run as they stand, on a few coloured squares and a simulator in place of weights.

Those of `docs/coverage.md` run in `test_coverage.py`. What stands for a placeholder is in `Project.known`.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from bench import REPOSITORY, fp2, write_pictures
from test_coverage import page_commands
from test_docs import commands

from fp2.app import main

PAGES = ("sweep", "start", "runs", "gate", "passport", "comparing", "answers")
NOT_RUN = {
    r"fp2 (ui|view)\b": "they serve pages until they are interrupted",
    r"fp2 run model=qwen": "it needs weights",
    r"model=openai_compat": "it needs a server",
    r"experiment=page": "it runs in test_coverage.py",
}
"""Commands that do not run here, and why."""
FAILS = {r"fp2 gate": (0, 1), r"fp2 diff": (1,)}
"""Exit statuses other than 0 of commands that answer a question by them."""
FEW = (
    "data=table", "data.path=people.csv", "cut=region",
    "data.columns={image: file, subject: person, region: region, age: region, pronoun: gender, skin_tone: gender}",
)  # fmt: skip
QUICK = ("scorer=valence", "analysis.permutations=99", "analysis.bootstrap=20", "report.figures=false")
PLACEHOLDER = re.compile(r"RUN|RUN_ID|OTHER_RUN|[A-D]|OLD|NEW|\$RUN|outputs/(2026-)?\.\.\./[ab]")


@dataclass
class Project:
    """A folder in which the commands run."""

    root: Path
    statuses: dict[str, int] = field(default_factory=dict)

    @property
    def sweep(self) -> Path:
        """The folder of the sweep that ran first."""
        return next(iter(sorted((self.root / "outputs").glob("*/*/0")))).parent

    def run(self, command: str) -> None:
        """Run a command and keep its exit status."""
        program, *words = shlex.split(command)
        runs = itertools.count()
        words = [self.known(word, runs) for word in words]
        starts = program == "launch.py" or words[0] == "run"
        if starts or words[0] in ("plan", "data"):
            words = self.small(words, starts)
        self.statuses[command] = main(words) if program == "launch.py" else fp2(*words)

    def small(self, words: list[str], starts: bool) -> list[str]:
        """Return the words of a run with few people, few resamples and a simulator, unless they say otherwise."""
        own = " ".join(words)
        more = [] if "data=" in own else [word for word in FEW if word != "cut=region" or "cut" not in own]
        if starts:
            more += [word for word in QUICK if word != "scorer=valence" or "sweep=scorers" not in own]
            more += [] if "model=recorded" in own else ["model=planted"]
            more += ["report=none"] if "sweep=" in own else []
        if "-m" in words and "model.truth=" in own:
            more.append("model.truth={seed: 1},{seed: 2},{seed: 3},{seed: 4}")  # A, B, C and D
        keys = {word.partition("=")[0] for word in (*more, "data.n_subjects=")}
        return [word for word in words if word.partition("=")[0] not in keys] + more

    def known(self, word: str, runs: itertools.count[int]) -> str:
        """Return what stands for a placeholder: the runs of a command are the first of the sweep, in their order."""
        if PLACEHOLDER.fullmatch(word):
            return str(self.sweep / str(next(runs)))
        if word == "PUBLIC_KEY.pem":
            (key,) = (self.root / ".fp2" / "keys").glob("*.pub.pem")
            return str(key)
        if word in ("SWEEP_ID", "outputs/2026-.../sweep"):
            return str(self.sweep)
        if word == "passport.json":
            return str(self.sweep / "0" / word)
        word = word.replace("$PWD", str(REPOSITORY)).replace("=examples/", f"={REPOSITORY}/examples/")
        return word.replace("$GITHUB_STEP_SUMMARY", "summary.md")


def written(page: str) -> list[str]:
    """Return the commands of a page; those without a run, a file or a setting are names in its text."""
    found = commands(REPOSITORY / "docs" / f"{page}.md")
    whole = [one for one in found if re.search(r"[A-Z=/]", one)]
    return [re.sub(r"\s+", " ", one) for one in dict.fromkeys(whole)]


def write_answers(root: Path, run: Path) -> None:
    """Write the answers of a run in the forms that the page on supplied answers reads."""
    assert fp2("export", str(run), "--answers", str(root / "own.csv")) == 0
    with (root / "own.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    batch, samples, index = [], [], ["id,image,question"]
    for number, row in enumerate(rows):
        body = {"choices": [{"message": {"role": "assistant", "content": row["text"]}}]}
        response = {"status_code": 200, "body": body}
        batch.append({"custom_id": f"{row['image']}|{row['question']}", "response": response, "error": None})
        samples.append({"doc_id": number, "input": "", "filtered_resps": [row["text"]]})
        index.append(f"{number},{row['image']},{row['question']}")
    for name, lines in (("batch_output", batch), ("samples_task", samples)):
        (root / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (root / "documents.csv").write_text("\n".join(index))
    shown = dict.fromkeys(row["image"] for row in rows)
    (root / "p_yes.csv").write_text("\n".join(["image,word,template,p", *(f"{one},kind,T1,0.5" for one in shown)]))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, empty_mlflow: Path) -> Project:
    """A project in which every command of the pages has run, those of sweeps first."""
    made = Project(tmp_path_factory.mktemp("pages"))
    write_pictures(made.root, per_subject=1)
    (made.root / "mlruns").mkdir()
    shutil.copyfile(empty_mlflow, made.root / "mlruns" / "mlflow.db")
    elsewhere = set(page_commands())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made.root)
        patch.setenv("FP2_ROOT", str(made.root))
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        for page in PAGES:
            if page == "passport":
                assert fp2("keygen", "AUDITOR.pem") == 0
            if page == "answers":
                write_answers(made.root, made.sweep / "0")
            for command in written(page):
                skipped = any(re.search(pattern, command) for pattern in NOT_RUN)
                if not skipped and command not in elsewhere and command not in made.statuses:
                    made.run(command)
    return made


@pytest.mark.long
def test_the_commands_of_the_pages_run(project: Project) -> None:
    wrong = {}
    for command, status in project.statuses.items():
        allowed = next((found for pattern, found in FAILS.items() if re.match(pattern, command)), (0,))
        if status not in allowed:
            wrong[command] = status
    assert wrong == {}
    assert len(project.statuses) > 30


def test_every_reason_not_to_run_a_command_is_about_one() -> None:
    known = [command for page in PAGES for command in written(page)]
    assert [pattern for pattern in NOT_RUN if not any(re.search(pattern, command) for command in known)] == []
