"""Models with custom code: their answers are those of a plain loop over the code's public methods."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bench import Bench, fp2, predicate_of
from own_code import HERE, built, save_chat, save_query
from PIL import Image
from thorough import thorough_but

from fp2.data.pixels import open_rgb
from fp2.engines import checkpoint as checkpoint_module
from fp2.engines.hf.engine import REMOTE_CODE, HfEngine, HfOptions
from fp2.engines.hf.likelihoods import read_yes_no, yes_no_forms
from fp2.engines.hf.model import HfSpec
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask, Question

DECODING = Decoding(max_new_tokens=6)
YES_NO = tuple(
    Question(f"{trait}", "trait", f"Is this person {trait}? Answer Yes or No.", "yes_no")
    for trait in ("kind", "brave", "a very patient one")
)
PICK = Question("pick", "pick", "Which one?\n{options}", "choice", choices=("nurse", "street", "Yes"))
Key = tuple[str, str]


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_chat(tmp_path_factory.mktemp("chat"))


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_query(tmp_path_factory.mktemp("query"))


@pytest.fixture(scope="module")
def no_generate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_chat(tmp_path_factory.mktemp("older"), language_model="of its own")


def engine(folder: Path | str, decoding: Decoding = DECODING, **options: Any) -> HfEngine:
    allowed = {"trust_remote_code": True} | options
    spec = {name: allowed.pop(name) for name in list(allowed) if name in HfSpec.__dataclass_fields__}
    return HfEngine(HfSpec(str(folder), **spec), decoding, HfOptions(threads=1, **allowed))


def answers(asked: HfEngine, tasks: Iterable[ImageTask]) -> dict[Key, Answer]:
    found = [answer for batch in asked.answer(tasks) for answer in batch]
    assert [answer.error for answer in found if answer.error] == []
    return {(answer.image_id, answer.question_id): answer for answer in found}


def asking(tasks: Sequence[ImageTask], *questions: Question) -> list[ImageTask]:
    return [dataclasses.replace(task, questions=questions or task.questions) for task in tasks]


def tiles_of(picture: Image.Image, side: int = 28, most: int = 6) -> torch.Tensor:
    """The model card's recipe by hand: the nearest grid, its tiles row by row, then the whole image."""
    shape = picture.width / picture.height
    grids = sorted(((w, h) for w in range(1, most + 1) for h in range(1, most + 1) if w * h <= most), key=np.prod)
    best, least = (1, 1), float("inf")
    for w, h in grids:
        off = abs(shape - w / h)
        roomy = picture.width * picture.height > 0.5 * side * side * w * h
        if off < least or (off == least and roomy):
            best, least = (w, h), off
    large = picture.resize((best[0] * side, best[1] * side), Image.Resampling.BICUBIC)
    corners = [(x * side, y * side) for y in range(best[1]) for x in range(best[0])]
    tiles = [large.crop((x, y, x + side, y + side)) for x, y in corners]
    tiles += [picture.resize((side, side), Image.Resampling.BICUBIC)] * (len(tiles) > 1)
    pixels = torch.from_numpy(np.stack([np.array(tile) for tile in tiles])).permute(0, 3, 1, 2) / 255
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    return (pixels - mean) / std


def chat_logits(model: Any, tokenizer: Any, picture: Image.Image, question: str) -> torch.Tensor:
    tiles = tiles_of(picture)
    marks = f"<img>{'<IMG_CONTEXT>' * 4 * len(tiles)}</img>"
    prompt = (
        "<|im_start|>system\nYou answer in short.<|im_end|>\n"
        f"<|im_start|>user\n{marks}\n{question}<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
    model.img_context_token_id = tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>")
    flags = torch.ones(len(tiles), 1, dtype=torch.long)
    with torch.no_grad():
        logits: torch.Tensor = model(tiles, ids, torch.ones_like(ids), image_flags=flags).logits
    return logits[:, -1].float()


def query_logits(model: Any, picture: Image.Image, question: str, behind: Sequence[int] = ()) -> torch.Tensor:
    assert model.query is not None  # sets the caches up
    prompt = [1, *model.model.tokenizer.encode(" " + question).ids, 2, *behind]
    logits: torch.Tensor = model.model.from_scratch(picture, prompt)
    return logits[None].float()


def the_same(found: dict[str, Any], logits: torch.Tensor, tokenizer: Any) -> None:
    (expected,) = read_yes_no(logits, yes_no_forms(tokenizer))
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("sharing", thorough_but(["auto", "vision", "none"], "auto"))
def test_chatting_code_answers_as_its_own_methods_do(chat: Path, tasks: list[ImageTask], sharing: str) -> None:
    from transformers import AutoTokenizer

    model, tokenizer = built(chat), AutoTokenizer.from_pretrained(chat)
    asked, some = engine(chat, sharing=sharing), tasks[:3]
    words, numbers = answers(asked, some), answers(asked, asking(some, *YES_NO))
    for task in some:
        picture = open_rgb(task.path)
        for question in task.questions:
            said = model.chat(tokenizer, tiles_of(picture), question.text, {"max_new_tokens": 6, "do_sample": False})
            assert words[task.image_id, question.question_id].text == said
        for question in YES_NO:
            logits = chat_logits(model, tokenizer, picture, question.text)
            the_same(dict(numbers[task.image_id, question.question_id].numbers or {}), logits, tokenizer)
    assert len({answer.text for answer in words.values()}) > 5, "pictures and questions have to move the words"
    assert len({round((a.numbers or {})["logit_difference"], 4) for a in numbers.values()}) == len(numbers)
    assert asked.runtime()["sharing"] == ("tree" if sharing == "auto" else sharing)


def test_queried_code_answers_as_its_own_methods_do(query: Path, tasks: list[ImageTask]) -> None:
    model, asked, some = built(query), engine(query), tasks[:3]
    words, numbers = answers(asked, some), answers(asked, asking(some, *YES_NO, PICK))
    tokenizer = asked._session.loaded.processor.tokenizer
    for task in some:
        picture = open_rgb(task.path)
        for question in task.questions:
            settings = {"temperature": 0, "max_tokens": 6}
            said = model.query(picture, question.text, settings=settings)["answer"]
            assert words[task.image_id, question.question_id].text == said.strip()
        for question in YES_NO:
            logits = query_logits(model, picture, question.text)
            the_same(dict(numbers[task.image_id, question.question_id].numbers or {}), logits, tokenizer)
        found = numbers[task.image_id, "pick"].numbers or {}
        orders = [(PICK.choices[i:] + PICK.choices[:i]) for i in range(3)]
        expected = [[query_likelihood(model, picture, order, choice) for choice in PICK.choices] for order in orders]
        shares = np.exp(np.array(expected) - np.logaddexp.reduce(expected, axis=1, keepdims=True))
        assert found["p"] == pytest.approx(shares.mean(axis=0).tolist(), rel=1e-3)
    assert len({answer.text for answer in words.values()}) > 5, "pictures and questions have to move the words"
    assert len({round((a.numbers or {}).get("logit_difference", 0), 5) for a in numbers.values()}) > 8
    assert asked.runtime()["sharing"] == "vision"


def query_likelihood(model: Any, picture: Image.Image, order: Sequence[str], choice: str) -> float:
    text = PICK.text.replace("{options}", "\n".join(f"- {option}" for option in order))
    ways = []
    for written in (choice, f" {choice}"):
        ids = model.model.tokenizer.encode(written).ids
        logs = [query_logits(model, picture, text, ids[:k]).log_softmax(-1)[0, token] for k, token in enumerate(ids)]
        ways.append(float(sum(logs)))
    return float(np.logaddexp.reduce(ways))


def test_an_image_is_encoded_once_for_all_its_questions(query: Path, tasks: list[ImageTask]) -> None:
    asked = engine(query)
    core, seen = asked._session.loaded.model._core, []
    original = core.encode_image
    core.encode_image = lambda picture: seen.append(isinstance(picture, Image.Image)) or original(picture)
    answers(asked, asking(tasks[:2], *YES_NO, PICK))
    assert sum(seen) == 2


@pytest.mark.thorough
def test_the_rest_of_the_batch_changes_nothing_for_custom_code(chat: Path, query: Path, tasks: list[ImageTask]) -> None:
    for folder, heat in ((chat, 1.3), (query, 40.0)):
        hot = Decoding(max_new_tokens=5, temperature=heat, seed=5)
        together = answers(engine(folder, hot), tasks[:3])
        alone = {k: a for task in reversed(tasks[:3]) for k, a in answers(engine(folder, hot), [task]).items()}
        other = answers(engine(folder, dataclasses.replace(hot, seed=6)), tasks[:3])
        assert {k: a.text for k, a in together.items()} == {k: a.text for k, a in alone.items()}
        assert {k: a.text for k, a in together.items()} != {k: a.text for k, a in other.items()}


def test_without_an_image(chat: Path, query: Path, tasks: list[ImageTask]) -> None:
    from transformers import AutoTokenizer

    unseen = [dataclasses.replace(task, variant="blind") for task in tasks[:2]]
    question = tasks[0].questions[0]
    assert engine(chat).method(question, blind=True)["blind"] == "no picture"
    assert engine(query).method(question, blind=True)["blind"] == "grey picture"
    found = answers(engine(chat), unseen)
    said = built(chat).chat(AutoTokenizer.from_pretrained(chat), None, question.text, {"max_new_tokens": 6})
    assert {found[task.image_id, question.question_id].text for task in unseen} == {said}
    grey = answers(engine(query), unseen)
    assert len({grey[task.image_id, question.question_id].text for task in unseen}) == 1


def test_code_that_cannot_generate_still_gives_probabilities(no_generate: Path, tasks: list[ImageTask]) -> None:
    from transformers import AutoTokenizer

    model, tokenizer = built(no_generate), AutoTokenizer.from_pretrained(no_generate)
    asked = engine(no_generate)
    numbers = answers(asked, asking(tasks[:2], *YES_NO))
    for (image, name), answer in numbers.items():
        task = next(task for task in tasks if task.image_id == image)
        question = next(question for question in YES_NO if question.question_id == name)
        logits = chat_logits(model, tokenizer, open_rgb(task.path), question.text)
        the_same(dict(answer.numbers or {}), logits, tokenizer)
    assert asked.runtime()["sharing"] == "vision"
    with pytest.raises(Fp2Error, match=r"NoGenerate cannot generate.*\n?.*yes/no or choice"):
        answers(engine(no_generate), tasks[:1])


def test_code_that_hides_its_logits_still_answers_in_words(query: Path, tmp_path: Path, tasks: list[ImageTask]) -> None:
    folder = Path(shutil.copytree(query, tmp_path / "hidden"))
    code = (folder / "query_code.py").read_text()
    (folder / "query_code.py").write_text(code.replace("_prefill_prompt", "_begin"))
    open_ = answers(engine(query), tasks[:1])
    assert {k: a.text for k, a in answers(engine(folder), tasks[:1]).items()} == {k: a.text for k, a in open_.items()}
    with pytest.raises(Fp2Error, match=r"gives no access.*\n?.*Ask in words"):
        answers(engine(folder), asking(tasks[:1], *YES_NO))


def test_it_runs_only_where_it_is_allowed(chat: Path, query: Path, tasks: list[ImageTask]) -> None:
    with pytest.raises(Fp2Error, match=r"code of its own.*\n?.*trust_remote_code=true.*InternVL2_5-2B-MPO-hf"):
        answers(engine(chat, trust_remote_code=False), tasks[:1])
    with pytest.raises(Fp2Error, match=r"code of its own.*\n?.*trust_remote_code=true") as told:
        answers(engine(query, trust_remote_code=False), tasks[:1])
    assert "-hf" not in str(told.value)


@pytest.mark.usefixtures("mlflow_store")
def test_a_run_says_that_code_of_the_checkpoint_runs(
    chat: Path, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """At its start, in MLflow, in the passport and in the dashboard; a run without such code says nothing."""
    import mlflow

    plain = engine(chat, trust_remote_code=False)
    assert (plain.notices, plain.limitations) == ((), ())
    words = ["model=internvl2_2b", f"model.id={chat}", "model.dtype=float32", "data.limit=2", "probe.select=[trust]"]
    allowed = [*words, "model.trust_remote_code=true", "tracking=mlflow", "report=default", "report.figures=false"]
    assert bench.launch(*allowed, "engine.device=cpu", "engine.threads=1") == 0
    code = f"local@sha256:{plain.checkpoint.weights_digest}"
    said = f"{REMOTE_CODE}: {code}"
    assert "".join(said.split()) in "".join(capsys.readouterr().err.split())
    (folder,) = bench.run_folders()
    assert said in predicate_of(folder)["limitations"]
    assert code in (folder / "dashboard.html").read_text(encoding="utf-8")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{bench.root / 'mlruns' / 'mlflow.db'}")
    (run,) = client.search_runs(["1"])
    assert run.data.tags["fp2.remote_code"] == code
    other = f"sqlite:///{bench.root / 'other.db'}"
    assert fp2("log", str(folder), "tracking=mlflow", f"tracking.uri={other}", *bench.paths) == 0
    (again,) = mlflow.MlflowClient(tracking_uri=other).search_runs(["1"])
    assert again.data.tags["fp2.remote_code"] == code


@pytest.mark.parametrize("revision", [None, "main"])
def test_a_hub_model_needs_a_pinned_commit(
    chat: Path, tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, revision: str | None
) -> None:
    commit = "a" * 40
    cached = Path(shutil.copytree(chat, tmp_path / commit))
    monkeypatch.setattr(checkpoint_module, "fetch", lambda *a, **k: cached)
    with pytest.raises(Fp2Error, match=f"runs code of its own.*\n?.*model.revision={commit}"):
        answers(engine("some/chat", revision=revision), tasks[:1])
    pinned = engine("some/chat", revision=commit)
    assert len(answers(pinned, tasks[:1])) == 3
    assert pinned.identity()["revision"] == commit


def import_gone(folder: Path) -> None:
    code = folder / "chat_code.py"
    code.write_text("from transformers import LlamaFlashAttention2\n" + code.read_text())


def computing_at_the_start(folder: Path) -> None:
    code = folder / "chat_code.py"
    code.write_text(code.read_text().replace("self.img_context_token_id = None", "self.all_heads.item()"))


@pytest.mark.parametrize(
    ("spoil", "says"), [(import_gone, "LlamaFlashAttention2"), (computing_at_the_start, "all_heads")]
)
def test_code_that_does_not_run_names_its_transformers(
    chat: Path, tmp_path: Path, tasks: list[ImageTask], spoil: Callable[[Path], None], says: str
) -> None:
    folder = Path(shutil.copytree(chat, tmp_path / spoil.__name__))
    spoil(folder)
    with pytest.raises(Fp2Error, match=says) as told:
        answers(engine(folder), tasks[:1])
    line = str(told.value)
    assert "written for transformers 4.37.2, and this is 5." in line
    assert "OpenGVLab/InternVL2_5-2B-MPO-hf" in line
    assert "openai_compat" in line


def test_other_trouble_is_one_line_too(chat: Path, query: Path, tmp_path: Path, tasks: list[ImageTask]) -> None:
    from safetensors.torch import load_file, save_file

    short = Path(shutil.copytree(chat, tmp_path / "short"))
    tensors = load_file(short / "model.safetensors")
    save_file({name: value for name, value in tensors.items() if name != "mlp1.weight"}, short / "model.safetensors")
    strange = Path(shutil.copytree(query, tmp_path / "strange"))
    code = strange / "query_code.py"
    code.write_text(code.read_text().replace("def query(self):", "def ask_me(self):"))
    trouble: list[tuple[HfEngine, str]] = [
        (engine(short), "1 weights of the model.*mlp1.weight"),
        (engine(strange), "none of the known interfaces"),
        (engine(chat, quantisation="int8"), "cannot be quantised"),
        (engine(chat, prompt="{image}{question}"), "writes the prompt itself"),
    ]
    for asked, says in trouble:
        with pytest.raises(Fp2Error, match=says):
            answers(asked, tasks[:1])


def test_the_code_is_part_of_the_key(chat: Path, tmp_path: Path, tasks: list[ImageTask]) -> None:
    question = tasks[0].questions[0]
    assert engine(chat).method(question)["prompt"] == {"form": "code", "format": "own_code/1"}
    other = Path(shutil.copytree(chat, tmp_path / "other"))
    (other / "chat_code.py").write_text((HERE / "chat_code.py").read_text().replace("in short", "at length"))
    assert engine(other).identity() != engine(chat).identity()
    assert json.dumps(engine(chat).identity()).count("tmp") == 0
    before, after = answers(engine(chat), tasks[:2]), answers(engine(other), tasks[:2])
    assert {key: answer.text for key, answer in before.items()} != {key: answer.text for key, answer in after.items()}


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["bfloat16"])
def test_smaller_numbers_stay_near(chat: Path, query: Path, tasks: list[ImageTask], dtype: str) -> None:
    for folder in (chat, query):
        plain, small = (answers(engine(folder, dtype=name), asking(tasks[:2], *YES_NO)) for name in ("float32", dtype))
        for key, answer in small.items():
            assert (answer.numbers or {})["p_yes_norm"] == pytest.approx(
                (plain[key].numbers or {})["p_yes_norm"], abs=0.1
            )
