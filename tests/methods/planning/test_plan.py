"""`fp2 plan`: the size of a run or a sweep, what the store has of it, without a model and even without the data."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from bench import Bench, environment, execute, fp2, load_config

from fp2.compose import jobs_of
from fp2.methods.peeps.planted.engine import PlantedEngine
from fp2.methods.planning.forecast import QuestionTexts, generated_time, sizes

PAGE = ["paligemma_3b_mix_448", "smolvlm2_2_2b", "qwen2_5_vl_3b", "internvl2_2b", "moondream2"]
GRAS = [
    "paligemma2_3b_mix_224_gras",
    "llava_1_5_7b_gras",
    "qwen2_5_vl_3b_gras",
    "blip2_opt_2_7b_gras",
]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def plan(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    """Return the rows of the printed tables, and everything that was printed under `text`."""
    assert fp2("plan", *words) == 0
    text = capsys.readouterr().out
    pairs = [re.split(r"\s*│\s*", line.strip("│ ")) for line in text.splitlines() if "│" in line]
    return {**{pair[0]: pair[1] for pair in pairs if len(pair) == 2}, "text": " ".join(text.split())}


def test_it_counts_what_the_store_has_and_asks_nobody(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = plan(capsys, *bench.words())
    assert before["images"] == "72 of 36 subjects"
    assert before["questions per image"] == "6"
    assert before["answers planned"] == "432"
    assert before["answers to ask"] == "432"
    assert before["in the store"] == "0"
    bench.run("data.limit=24")
    with monkeypatch.context() as patch:
        patch.setattr(PlantedEngine, "answer", lambda self, tasks: pytest.fail("the model was asked"))
        after = plan(capsys, *bench.words())
        assert (after["in the store"], after["answers to ask"]) == ("144", "288")
        assert after["response set"] == before["response set"]
        assert fp2("plan", *bench.words("cut.by=[gendr]")) == 2
        assert "Did you mean 'gender'" in capsys.readouterr().err


def test_it_lists_the_groups_of_each_cut_with_their_subjects(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    words = bench.words("cut.each=[gender,region]", "cut.groups={region: {Polar: [North, South]}}")
    rows = plan(capsys, *words)
    assert (rows["groups of gender"], rows["groups of region"]) == ("f 18, m 18", "Polar 24, West 12")
    merged = plan(capsys, *bench.words("cut.each=[region]", "cut.groups={region: {Zone: [North, South]}}"))
    assert merged["groups of region"] == "West 12, Zone 24"  # in the order of their names, not of their sizes
    assert fp2("plan", *words, "cut.groups={region: {Polar: [North, Soth]}}") == 2
    assert "no subject has region 'Soth' (cut.groups). Did you mean 'South'" in capsys.readouterr().err
    words = ["data=fhibe", "model=planted", "cut=region", "cut.groups={region: [Africa, {Eurasia: [Asia, Europe]}]}"]
    assert plan(capsys, *words)["groups of region"] == "Eurasia = Asia + Europe; Africa"
    assert "other values of region unchanged" in plan(capsys, *words[:-1], "cut.groups={Eurasia: [Asia]}")["text"]


def test_it_says_which_groups_cannot_be_compared(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    said = "Cut gender: no comparison, since fewer than two groups have 40 subjects (f 18, m 18): about 80 subjects"
    words = bench.words("analysis.min_subjects=40")
    assert said in plan(capsys, *words)["text"]
    assert fp2("plan", *words, "--json", "-") == 0
    shown = capsys.readouterr()
    assert any(note.startswith(said) for note in json.loads(shown.out)["notes"])
    assert said not in shown.err
    people = ["data=peeps", "data.n_subjects=6", "data.n_pairs=0", "model=planted", "cut=region", *bench.paths]
    rows = plan(capsys, *people)
    assert rows["groups of region"] == "Africa 1, Americas 1, Asia 1, Europe 1, Oceania 2"
    assert "Cut region: no comparison" in rows["text"]


def test_a_yes_no_battery_is_counted_by_question(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    def words(traits: str) -> list[str]:
        return [
            "model=planted",
            "probe=gras",
            f"probe.traits={traits}",
            "probe.templates={A: 'Is the person {trait}?'}",
            "probe.options.permutations=20",
            "probe.options.bootstrap=20",
            "data=table",
            "cut.each=[gender,region]",
            "data.columns={image: file, subject: person, gender: gender, region: region}",
            "report=none",
            "tracking=none",
            *bench.places,
        ]

    one = words("{kind: 2.6, cruel: -2.9}")
    execute(one, bench.outputs / "one")
    capsys.readouterr()
    assert plan(capsys, *one)["estimated time"] == "nothing is left to ask"
    rows = plan(capsys, *words("{kind: 2.6, cruel: -2.9, clever: 2.2}"))
    assert (rows["answers planned"], rows["in the store"], rows["answers to ask"]) == ("216", "144", "72")
    assert rows["resampling"] == "20 permutations, 20 bootstrap resamples"


def test_a_task_asks_no_model(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    rows = plan(capsys, *bench.words("task=diversity"))
    assert rows["answers planned"] == "none: task=diversity asks no model"
    assert rows["images"] == "72 of 36 subjects"


def test_every_run_of_a_sweep_is_planned_and_one_mistake_stops_no_other(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fp2("plan", *bench.words("cut=region,age")) == 2
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("answers planned") == 1
    assert "no attribute 'age'" in text


def test_a_real_models_plan_imports_no_torch(bench: Bench) -> None:
    """Not even the size of the model needs it."""
    code = (
        "import sys; from fp2.cli import main\n"
        "try: main()\n"
        "except SystemExit as e: assert not e.code, e.code\n"
        "assert not {'torch', 'transformers', 'mlflow'} & set(sys.modules)"
    )
    net = bench.root / "net"
    net.mkdir()
    for name in ("config.json", "preprocessor_config.json", "tokenizer_config.json"):
        (net / name).write_text('{"model_type": "llava"}', encoding="utf-8")
    (net / "model.safetensors").write_bytes(b"weights")
    words = bench.words("model=peeps_vlm", f"model.id={net}", "engine.device=cpu")
    done = subprocess.run(
        [sys.executable, "-c", code, "plan", *words],
        env=environment(bench.root),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "432" in done.stdout


# --- without the data ---


def test_the_size_of_the_gras_study(capsys: pytest.CaptureFixture[str]) -> None:
    rows = plan(capsys, "experiment=gras_paper")
    assert rows["images"] == "5,010"
    assert rows["questions per image"] == "500"
    assert rows["answers per run"] == "2,505,000"
    assert rows["answers in total"] == "10,020,000"
    assert rows["cuts"] == "gender, race, age, skin_tone"
    assert "MB in the store" in rows["disk"]
    for part in ("2,499,990 of 2,505,000", "of the vision encoder", "at 100 TFLOP/s", "data.root", *GRAS):
        assert part in rows["text"]
    assert "The questions are part of the data" in rows["text"]


def test_a_folder_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    text = plan(capsys, "experiment=gras_paper", "model=planted", "data.root=/nowhere/gras")["text"]
    assert "The questions are part of the data" in text
    assert "data.root (the folder with the official lists) does not exist on this machine" in text


@pytest.mark.parametrize(
    ("words", "said"), [([], "data.root (the folder of the release) is not given"), (["data.root=/no"], "not exist")]
)
def test_the_size_of_the_page_of_five_models(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = plan(capsys, "experiment=page", *words)
    assert (rows["answers per run"], rows["answers in total"]) == ("18,000", "90,000")
    assert rows["images"] == "3,000, in equal shares of first_region"
    assert all(model in rows["runs"] for model in PAGE)
    assert said in rows["text"]


def test_a_task_without_its_data_has_no_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("plan", "task=fhibe_scores", "data=fhibe") == 2
    assert "is not given, and task=fhibe_scores asks no model" in capsys.readouterr().err


def test_the_page_is_the_run_that_its_experiment_describes(capsys: pytest.CaptureFixture[str]) -> None:
    config = load_config(["experiment=page", "data.root=/data"])
    assert (config.data.kind, config.data.limit, config.data.stratify) == ("fhibe", 3000, ["first_region"])
    assert list(config.scorer) == ["valence", "stereotype", "confidence", "refusal", "economic"]
    assert all(spec["lexicon_file"] == name for name, spec in config.scorer.items() if name != "valence")
    assert list(config.probe.probes) == ["occupation", "education", "authority", "trust", "lifestyle", "neighbourhood"]
    assert config.cut.each[0] == "region"
    assert [job[-1] for job in jobs_of(["experiment=page"])] == [f"model={model}" for model in PAGE]
    assert [job[-1] for job in jobs_of(["experiment=page", "model=smolvlm2_2_2b"])] == ["model=smolvlm2_2_2b"]
    assert fp2("run", "experiment=page") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_model_that_is_not_on_this_machine_is_planned_without_the_network(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert fp2("plan", *bench.words("model=qwen2_5_vl_3b")) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "answers per run │ 432" in out
    assert "is not in the local cache" in out


def test_a_sweep_is_planned_with_its_flag(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("plan", "-m", *bench.words("seed=1,2")) == 0
    assert capsys.readouterr().out.count("answers planned") == 2


def test_it_says_which_difference_would_be_found(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """The table of sample sizes says the same: with as many subjects, a gap of that size is found with 80 % power."""
    rows = plan(capsys, *bench.words(), "--sd", "0.2", "--icc", "0.5")
    gap = float(rows["minimum detectable effect"].split()[0])
    assert "SD 0.2, ICC 0.5)" in rows["minimum detectable effect"]
    assert "The smallest effect of interest is 0.05" in rows["text"]
    assert (
        fp2(
            "plan",
            "--power",
            "--sd",
            "0.2",
            "--icc",
            "0.5",
            "--groups",
            "2",
            "--gap",
            str(gap),
            "--images",
            "2",
            "--json",
            "-",
            *bench.words(),
        )
        == 0
    )
    needed = json.loads(capsys.readouterr().out)["rows"][0]["needs"][0]["subjects"]
    assert needed == pytest.approx(18, abs=2)
    certain = plan(capsys, *bench.words("scorer.valence.smallest_effect=0.9"))
    assert "may be missed" not in certain["text"]
    lacking = plan(capsys, "data=fhibe", "model=planted")
    assert lacking["minimum detectable effect"] == "unknown without the data"


def test_the_drawn_people_are_counted_and_not_drawn(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data=peeps", "data.n_subjects=4", "data.n_pairs=0", "model=qwen2_5_vl_3b", "tracking=none", *bench.paths]
    rows = plan(capsys, *words)
    assert rows["images"] == "12"
    assert rows["answers per run"] == "72"
    assert not list(bench.root.rglob("*.png"))
    assert "are made by the first run" in rows["text"]
    seconds = generated_time(sizes()["Qwen/Qwen2.5-VL-3B-Instruct"], _texts_of(words), 72, 64, None, "")
    assert rows["estimated time"] == seconds
    assert plan(capsys, *words, "data.limit=5")["images"] == "5"
    drawn = execute([*words, "model=planted", *FAST], bench.outputs / "drawn")
    assert drawn.results["n_images"] == 12
    capsys.readouterr()
    assert "ConnectError" not in (offline := plan(capsys, *words, "data.limit=5"))["text"]
    assert offline["images"] == "5"
    assert offline["estimated time"].startswith("about ")


FAST = (
    "scorer=valence",
    "cut=pronoun",
    "analysis.permutations=99",
    "analysis.bootstrap=20",
    "report=none",
    "analysis.min_subjects=2",
)


def _texts_of(words: list[str]) -> QuestionTexts:
    probes = load_config(words).probe.probes
    return QuestionTexts(tuple(one["text"] for probe in probes.values() for one in probe["questions"]))
