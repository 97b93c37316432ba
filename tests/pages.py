"""The commands of README and docs, and a project in which they run as they stand. No test in here.

Data are made up, in the formats of the real ones (`page_data.py`); the simulator, supplied answers or a server on
loopback stand in where weights are not here. A command that is on several pages runs once.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import page_data
from bench import REPOSITORY, execute, fp2, results_of, write_pictures
from fake_server import FakeServer, Reply, Seen, completion, tokens
from family_checkpoints import save
from family_checkpoints.duals import save_image_encoder
from gras_checkout import write_images
from own_code import save_query
from test_docs import PAGES as FILES
from test_docs import blocks, spans

from fp2.app import main
from fp2.compose import load_config
from fp2.methods.labels.sample import Wanted, sheet_of

PAGES = (
    "sweep", "start", "runs", "gate", "passport", "comparing", "recorded", "fhibe", "coverage", "data", "matched",
    "attention", "dataset_report", "extending", "fingerprint", "gras", "labels", "models", "custom_code", "vllm",
    "curves", "audit", "board", "monitor", "stopping",
    "reliability", "results", "scaling", "workers", "scorers", "servers", "statistics", "variants", "README",
)  # fmt: skip
"""In this order: the first runs a sweep, whose runs others read."""
NOT_RUN: Mapping[str, str] = {
    r"fp2 (ui|watch|view)": "goes on until it is interrupted: tests/tracking/test_tracking.py, "
    "tests/methods/viewer/test_view.py, tests/runs/test_live.py",
    r"fp2 label (?!.*--(labels|status|analyse))": "serves a page until it is interrupted: "
    "tests/methods/labels/test_label.py",
    r"fp2 (audit|board|monitor|preregister)": "needs the passports or answers of others: "
    "tests/methods/audit/test_audit.py, tests/methods/board/test_board.py, tests/methods/monitor/test_monitor.py",
    r"answers\.stop=": "asks and tests several times: tests/methods/stopping/test_stopping.py",
    r"hydra/launcher=": "starts processes, or jobs of a cluster: tests/test_clusters.py",
    r"engine\.devices=|engine=ray": "starts processes, on GPUs or with Ray: tests/methods/workers/test_run_workers.py",
    r"engine=vllm": "needs a GPU: tests/methods/vllm/test_vllm.py",
    r"experiment=(visogender|vl_gender|pairs|vlbiasbench|sb_bench|genderbias_vl|social_counterfactuals)": "needs a "
    "copy of the data: tests/methods/benchmarks/test_visogender.py, tests/methods/benchmarks/test_vl_gender.py, "
    "tests/methods/benchmarks/test_pairs.py, tests/methods/benchmarks/test_vlbiasbench.py, "
    "tests/methods/benchmarks/test_sb_bench.py, tests/methods/benchmarks/test_genderbias_vl.py, "
    "tests/methods/benchmarks/test_social_counterfactuals.py",
    r"model=openai( |$)": "asks a host: tests/engines/server/test_limits.py, tests/methods/batch/test_batch.py",
    r"tracking\.uri=": "needs a database or a server: tests/tracking/test_postgres.py",
    r"task\.options\.models=|experiment=narrow_demo": "needs weights: "
    "tests/methods/fhibe/narrow/test_narrow_checkpoints.py, tests/methods/fhibe/narrow/test_narrow_real_models.py",
    r"launch.py experiment=page_code": "needs weights, and the page's code: "
    "tests/methods/page_code/test_page_code_run.py",
    r"launch.py experiment=gras_paper(?!.*llava_1_5_7b_gras)": "needs the weights of several published models: "
    "tests/engines/hf/test_published_conditions.py",
    r"experiment=(consistency|word_count)": "needs the plug-in to be installed: tests/test_plugin.py",
    r"sweep=(cuts|scorers)": "as sweep=controls; each choice is composed in tests/test_compose.py",
    r"^pip install ": "changes the environment: tests/test_plugin.py and "
    "tests/methods/maintenance/test_new.py install packages",
    r"^make ": "sets up an environment; what they start is in tests/test_run_default.py (run), "
    "tests/report/test_site.py (docs); the others measure or start tests",
    r"^python (-m )?benchmarks": "measures for minutes to days: tests/benchmarks/test_benchmark_options.py starts the "
    "scripts, tests/benchmarks/test_benchmark_own_scorers.py a package",
    r"^sbatch ": "needs SLURM: tests/test_clusters.py runs the script",
    r"^(mlflow server|vllm serve) ": "goes on until it is interrupted, and needs a database or a GPU: "
    "tests/tracking/test_postgres.py, tests/benchmarks/test_benchmark_prefix_cache.py",
}
"""Commands that are looked up only (settings, options, files), with the reason and the test of what they do."""
STATUSES: Mapping[str, tuple[int, ...]] = {
    r"fp2 gate": (0, 1), r"fp2 diff": (1,), r"fp2 pin": (1,), r"fp2 data verify data=fhibe data.root=/data/new": (1,),
    r"fp2 rerun SHARED_RUN": (2,),
}  # fmt: skip
"""Exit statuses other than 0: of commands that answer by them, and of `fp2 pin` where no model is in the cache.

`tests/test_page_run.py` pins models that are there."""
SQUARES = (
    "data=table", "data.path=people.csv",
    "data.columns={image: file, subject: person, region: region, age: region, pronoun: gender, skin_tone: gender}",
)  # fmt: skip
FHIBE = ("data=fhibe", "data.root=PATH", "data.accept_terms=true")
DRAWN = ("data.n_subjects=24", "data.images_per_subject=1", "data.n_pairs=0")
GIVEN = ("model=recorded", "model.name=theirs")
FACES = [f"FairFace/train/{number}.jpg" for number in range(8)]
SIMULATED = ("model=planted",)
SERVED = ("model=openai_compat", "scorer=valence", *SQUARES, "data.limit=6")
SETTINGS: Mapping[str, Sequence[str]] = {
    r"-m .*model\.truth=": (  # A, B, C and D
        *SIMULATED, *SQUARES, "model.truth={seed: 1},{seed: 2},{seed: 3},{seed: 4}", "tracking=mlflow",
        "report=default", "scorer=valence",
    ),
    r"sweep=scorers": (*SIMULATED, *SQUARES, "cut=region", "data.limit=12"),
    r"sweep=": (*SIMULATED, *SQUARES, "scorer=valence", "data.limit=12"),
    r"-m variant=": (*SIMULATED, *SQUARES, "cut=region", "scorer=valence", "data.limit=12"),
    r"experiment=page": (
        *SIMULATED, *FHIBE, "cut=first_region", "scorer=valence", "seed=1,2", "data.limit=40", "tracking=mlflow",
        "report=default", "model.trust_remote_code=true",
    ),
    r"variant=masked_box": (*SIMULATED, *FHIBE, "scorer=valence", "data.limit=20"),
    r"stereotype\.published=": (
        *SIMULATED, *FHIBE, "scorer=stereotype", "scorer.stereotype.published=SETS", "analysis.primary=stereotype",
        "data.limit=20",
    ),
    r"experiment=attention": (*GIVEN, "engine.answers=two.csv", *FHIBE),
    r"probe=attention": ("model=peeps_vlm", *FHIBE, "data.limit=6"),
    r"experiment=gras_published.*model=all": (
        "data.root=CHECKOUT", "task.options.permutations=20", "task.options.bootstrap=20",
    ),
    r"experiment=gras_published": (
        "data.root=CHECKOUT", "task.options.model=MODEL", "task.options.permutations=20", "task.options.bootstrap=20",
    ),
    r"experiment=gras_paper": (
        "data.root=PAPER", f"data.ids=[{','.join(FACES)}]", "cut.each=[gender]",
        "model.id=llava-1.5-7b-hf", "model.dtype=float32", "model.softmax_dtype=null",
        "model.image_backend=pil", "probe.traits_file=null", "probe.traits={kind: 2, mean: -2}",
        "probe.options.permutations=20", "probe.options.bootstrap=20",
    ),
    r"experiment=gras": (
        *SIMULATED, *FHIBE, "probe.options.permutations=20", "probe.options.bootstrap=20",
        "probe.traits={kind: 2.6, cruel: -2.9}",
    ),
    r"probe=gras": (
        *SIMULATED, "probe.options.permutations=20", "probe.options.bootstrap=20",
        "probe.traits={kind: 2.6, cruel: -2.9}",
    ),
    r"model=seer_regnet": (
        *FHIBE, "model.id=SEER", "task.options.sample=4", "task.options.repeats=2", "data.limit=6",
    ),
    r"task=diversity.*embed=true": (
        *FHIBE, "model.id=CLIP", "task.options.sample=4", "task.options.repeats=2", "data.limit=6",
    ),
    r"task=diversity": (
        *FHIBE, "task.options.sample=20", "task.options.repeats=2", "data.limit=12",
    ),
    r"task=annotator_agreement": ("cut=pronoun",),
    r"task=fhibe_narrow": (*FHIBE, "cut=pronoun"),
    r"experiment=fhibe_scores_demo": (
        *DRAWN, "cut=pronoun", "task.options.depth=1", "task.options.features=[bald]",
        "task.options.error_model={trees: 5, folds: 2, repeats: 1, resamples: 20}",
        "task.options.patterns={permutations: 20}",
    ),
    r"task=fhibe_scores": (
        *FHIBE, "task.files.scores=scores.csv", "task.options.metrics={recall: {higher_is_better: true}}",
        "task.options.depth=1", "cut=pronoun", "task.options.pixels=false", "data.limit=20",
        "task.options.features=[visible_keypoints,bald,age]",
        "task.options.error_model={trees: 5, folds: 2, repeats: 1, resamples: 20}",
        "task.options.patterns={permutations: 20}",
    ),
    r"experiment=fhibe_clip": (*GIVEN, *FHIBE, "engine.answers=zero_shot.csv", "data.limit=12"),
    r"experiment=fhibe_vqa": (*GIVEN, *FHIBE, "engine.answers=open.csv", "cut=pronoun", "data.limit=12"),
    r"experiment=smoke": (*SIMULATED, *DRAWN, "scorer=default", "cut=pronoun"),
    r"cut=subregion": (*SIMULATED, *FHIBE, "scorer=valence"),
    r"data=fhibe.*(limit=3000)": (*SIMULATED, *FHIBE, "data.limit=20", "scorer=valence"),
    r"data=fhibe": (*SIMULATED, *FHIBE, "cut=pronoun", "data.limit=20", "scorer=valence"),
    r"data=peeps_twins": (*SIMULATED, "data.n_sets=4", "scorer=valence"),
    r"data=counterfactual": (*SIMULATED, "scorer=valence"),
    r"model=recorded": (),
    r"model=moondream2": (
        "model.id=QUERY", "model.revision=null", *SQUARES, "data.limit=4", "probe.select=[occupation]",
    ),
    r"model=my_model": ("hydra.searchpath=[file://conf]", *SQUARES, "data.limit=4", "scorer=valence"),
    r"model\.id=/models/mine": (*SQUARES, "data.limit=4", "scorer=valence"),
    r"model=openai_compat": (*SERVED, "cut=region"),
    r"scorer=\[valence,(classifier|judge)": (*SIMULATED, *SQUARES, "cut=region", "data.limit=6"),
    r"data=table": (*SIMULATED, "scorer=valence"),
    r"-m ": (*SIMULATED, *SQUARES, "cut=region,region_x_age", "scorer=valence", "data.limit=12"),
    r"^launch\.py|^fp2 run": (*SIMULATED, *SQUARES, "cut=region"),
}  # fmt: skip
"""Settings of a run by a pattern of its command, the first that fits: less data, fewer resamples, stand-ins."""
EVERY_RUN = ("analysis.permutations=99", "analysis.bootstrap=20", "analysis.min_subjects=3", "report.figures=false")
ALONE = ("tracking=none", "report=none")
MANY = re.compile(r"-m |sweep=|experiment=page|options\.model=all")
SPELT_OUT = re.compile(r"^(make|mlflow|pip|python|sbatch|vllm) |[A-Z=/](?!.* --\w+$)")
"""A command in the text of a page that is more than a name: with a run, a file or a setting."""
RUN = re.compile(r"RUN|RUN_ID|OTHER_RUN|[A-D]|OLD|NEW|\$RUN|outputs/(2026-)?\.\.\./[ab]")
NAMES: Mapping[str, str] = {
    "NAME": "tone",
    "data=NAME": "data=peeps",
    "model=NAME": "model=planted",
    "scorer=NAME": "scorer=refusal",
    "analysis.primary=NAME": "analysis.primary=refusal",
    "/data/new": "NEW_PATH",
    "data.root=/data/new": "data.root=NEW_PATH",
    "data.root=/data/old": "data.root=PATH",
    "data.root=/data/fhibe": "data.root=PATH",
    "task.files.person_detection=my_boxes.json": "task.files.person_detection=a.json",
    "task.files.person_detection=FILE": "task.files.person_detection=a.json",
    "scorer.classifier.model=PATH": "scorer.classifier.model=CLASSIFIER",
    "model.id=/models/mine": f"model.id={REPOSITORY / 'fp2/models/peeps_vlm'}",
    "passport_key.pub.pem": "PUBLIC_KEY.pem",
    ".fp2/keys/passport_key.pub.pem": "PUBLIC_KEY.pem",
}
"""What stands for a word of a page."""


@dataclass
class Project:
    """A folder in which the commands run, and the exit status of each command."""

    root: Path
    server: FakeServer
    statuses: dict[str, int | str] = field(default_factory=dict)
    _ran: dict[tuple[str, ...], int | str] = field(default_factory=dict)

    @property
    def sweep(self) -> Path:
        """The folder of the sweep that ran first."""
        return next(iter(sorted((self.root / "outputs").glob("*/*/0")))).parent

    @cached_property
    def sweep_id(self) -> str:
        """Its id in MLflow, which a report that is made again from the folder does not have."""
        return str(results_of(self.sweep / "report")["sweep_id"])

    def folders(self) -> list[Path]:
        """Return the folders of all runs and reports, oldest first."""
        found = (self.root / "outputs").rglob("results.json")
        return [path.parent for path in sorted(found, key=lambda path: path.stat().st_mtime_ns)]

    def run(self, command: str) -> None:
        """Run a command, unless another command that means the same has run, and keep its exit status."""
        words = tuple(self.words(command))
        if words not in self._ran:
            try:
                self._ran[words] = self._start(list(words))
            except Exception as error:  # so that one test names all that fail
                self._ran[words] = f"{type(error).__name__}: {error}"
        self.statuses[command] = self._ran[words]

    def words(self, command: str) -> list[str]:
        """Return the words that a command is run with."""
        program, *words = shlex.split(command)
        words = {"launch.py": ["run", *words], "python": ["python", *words]}.get(program, words)
        runs = itertools.count()
        if words[0] == "run":
            more = next(more for pattern, more in SETTINGS.items() if re.search(pattern, command))
            words = override(words, [*more, *EVERY_RUN, *([] if "report=default" in more else ALONE)])
        elif (
            (words[0] == "data" and "data=" not in command)
            or "model=recorded" in command
            or words[:2] == ["plan", "-m"]
        ):
            words = override(words, SQUARES)
        elif words[:2] == ["store", "merge"]:
            words = [
                {"A": "shard1/responses.sqlite", "B": "shard2/responses.sqlite", "C": "C.sqlite"}.get(word, word)
                for word in words
            ]
        elif words == ["log", "FOLDER"]:
            words[1] = str(next((self.root / "outputs").glob("alone-*")))
        if "toxic: 1" in command:
            words = [word.replace("model=PATH", "model=TOXIC") for word in words]
        return [self.known(word, runs) for word in words]

    def known(self, word: str, runs: Iterator[int]) -> str:
        """Return what stands for a word: the runs of a command are the first of the sweep, in their order."""
        word = NAMES.get(word, word)
        if RUN.fullmatch(word):
            return str(self.sweep / str(next(runs)))
        if word in ("PUBLIC_KEY.pem", "signer.pub.pem"):
            return str(next((self.root / ".fp2" / "keys").glob("*.pub.pem")))
        if word in ("SWEEP", "SWEEP_ID", "outputs/2026-.../sweep"):
            return self.sweep_id if word == "SWEEP_ID" else str(self.sweep)
        if word in ("passport.json", "outputs/DATE/TIME/passport.json"):
            return str(self.sweep / "0" / "passport.json")
        if word in ("outputs/FIRST", "outputs/SECOND"):
            found = [folder for folder in self.folders() if results_of(folder).get("diversity")]
            return str(found[word.endswith("SECOND")])
        if word == "CONFIG_HASH":
            return str(results_of(self.sweep / "0")["config_hash"])
        if "base_url=" in word:
            urls = [self.server.url, self.server.url.replace("127.0.0.1", "localhost")]
            return word.partition("=")[0] + "=" + (f"[{','.join(urls)}]" if "[" in word else urls[0])
        word = word.replace("$PWD/examples", f"{REPOSITORY}/examples").replace("$PWD", str(self.root))
        word = word.replace("[file://conf]", f"[file://{self.root}/conf]").replace("shards/", "shard")
        word = word.replace("=examples/", f"={REPOSITORY}/examples/")
        return word.replace("$GITHUB_STEP_SUMMARY", "summary.md")

    def _start(self, words: list[str]) -> int:
        """Run the words of a command: a single run past the command line, everything else through it."""
        if words[0] == "python":
            return subprocess.run([sys.executable, REPOSITORY / words[1], *words[2:]], cwd=self.root).returncode
        if words[0] == "run" and ("tracking=mlflow" in words or MANY.search(" ".join(words))):
            return main(words[1:])
        if words[0] == "run":
            outcome = execute(words[1:], self.root / "outputs" / f"alone-{len(self._ran)}")
            return int(not outcome.results["complete"] and not any(word.startswith("shard=") for word in words))
        return fp2(*words, *["--yes"] * (words[0] == "purge"))


def override(words: Sequence[str], more: Sequence[str]) -> list[str]:
    """Return `words` without the keys that `more` sets, and without the options of another data set, then `more`."""
    keys = {word.partition("=")[0] for word in more}
    data = {word for word in more if word.startswith("data=")}
    kept = [word for word in words if "=" not in word or word.partition("=")[0] not in keys]
    if data and not data & set(words):
        kept = [word for word in kept if not word.startswith("data.")]
    return kept + list(more)


def page_path(page: str) -> Path:
    """Return the file of a page."""
    return next(path for path in FILES if path.stem == page and path.parent.name != "peeps_vlm")


def written(page: str) -> list[str]:
    """Return the commands of a page: those of blocks, and those in its text that have a run, a file or a setting."""
    found = [*blocks(page_path(page)), *(one for one in spans(page_path(page)) if SPELT_OUT.search(one))]
    return [one for one in dict.fromkeys(re.sub(r"\s+", " ", one) for one in found) if " --help" not in one]


def write_project(root: Path, empty_mlflow: Path) -> None:
    """Write what the commands read, but for what is made from their runs."""
    write_pictures(root, per_subject=1)
    with (root / "people.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    boxes = [[*rows[0], "x", "y", "w", "h"], *([*row, "1", "1", "6", "6"] for row in rows[1:])]
    sets = [["image", "set_id", "gender"], *([row[0], str(place // 2), row[2]] for place, row in enumerate(rows[1:]))]
    for name, table in (("people", boxes), ("sets", sets)):
        with (root / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(table)
    page_data.write_data(root)
    save_image_encoder(root / "SEER", "regnet")
    (root / "mlruns").mkdir()
    shutil.copyfile(empty_mlflow, root / "mlruns" / "mlflow.db")
    for page in PAGES:  # the files that a page shows, with their paths in the first line
        text = page_path(page).read_text(encoding="utf-8")
        for path, body in re.findall(r"^```yaml\n# ([\w/]+\.yaml).*\n((?:.*\n)*?)```", text, re.M):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            weights = f"id: {REPOSITORY / 'fp2/models/peeps_vlm'}"
            (root / path).write_text(body.replace("id: owner/name", weights).replace("bfloat16", "float32"))


def prepare(project: Project, page: str) -> None:
    """Write what the commands of a page read of earlier runs."""
    root = project.root
    if page == "passport":
        assert fp2("keygen", "AUDITOR.pem") == 0
    elif page == "recorded":
        assert fp2("export", str(project.sweep / "0"), "--answers", "own.csv") == 0
        page_data.write_supplied(root, root / "own.csv")
    elif page == "labels":
        project.run("fp2 export RUN --answers answers.csv")
        with (root / "answers.csv").open(encoding="utf-8") as file:
            rows = [{**row, "label": str(place % 3 - 1)} for place, row in enumerate(csv.DictReader(file))]
        with (root / "answers.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, rows[0])
            table.writeheader()
            table.writerows(rows)
        sheet = sheet_of(project.sweep / "0", load_config(()), Wanted(n=24, probes=("trust",)))
        for labeller in "ab":
            for place, answer in enumerate(sheet.answers):
                sheet.append(labeller, answer, float(place % 3 - 1))
    elif page == "gras":
        save("llava", root / "llava-1.5-7b-hf")
        page_data.write_gras(root / "PAPER")
        write_images(root / "PAPER", FACES, size=(36, 28))
    elif page == "custom_code":
        save_query(root / "QUERY")
    elif page == "coverage":
        from engines.family_checkpoints.duals import save_clip

        (root / "CLIP").mkdir()
        save_clip(root / "CLIP")
    elif page == "scaling":
        for name in ("shard1", "shard2"):
            (root / name).mkdir()
            shutil.copyfile(root / ".fp2" / "salt", root / name / "salt")
    elif page == "scorers":
        from methods.model_scorers.tiny_classifiers import save_classifier

        save_classifier(root / "CLASSIFIER", {0: "POSITIVE", 1: "NEGATIVE"})
        save_classifier(root / "TOXIC", {0: "toxic", 1: "other"})


def listed(seen: Seen, before: int) -> Reply:
    """List the models of the server."""
    return Reply({"data": [{"id": "NAME"}, {"id": "fp2/models/peeps_vlm"}]})


def replying(seen: Seen, before: int) -> Reply:
    """Answer about an image, or label an answer as a judge does."""
    if '"answer"' in str(seen.body["messages"][-1]["content"]) and "label" in str(seen.body):
        return Reply(completion(json.dumps({"label": "neutral"})))
    return tokens(seen, before)


ROUTES = {"/v1/models": listed, "/v1/chat/completions": replying}
