"""The generic engine against plain transformers, and errors of an image, a batch or a model."""

from __future__ import annotations

import dataclasses
import inspect
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from family_checkpoints import save
from PIL import Image, ImageOps
from thorough import thorough_but

from fp2.engines.build import build_engine
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.inputs import ImageQuestions
from fp2.engines.hf.model import HfSpec
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask, Question, sample_id

DECODING = Decoding(max_new_tokens=12)
Table = dict[tuple[str, str], str | None]


def engine(folder: Path, **options: Any) -> HfEngine:
    options.setdefault("threads", 1)
    return HfEngine(HfSpec(str(folder)), options.pop("decoding", DECODING), HfOptions(**options))


def collect(batches: Iterable[Sequence[Answer]]) -> list[Answer]:
    return [answer for batch in batches for answer in batch]


def table(answers: Iterable[Answer]) -> Table:
    return {(answer.image_id, answer.question_id): answer.text for answer in answers}


YES_NO = tuple(
    Question(f"{trait}{number}", "trait", f"{how} this person {trait}? Answer with Yes or No.", "yes_no")
    for number, how in enumerate(("Is", "Do you think that this is", "Does the picture show"))
    for trait in ("kind", "brave", "lazy", "honest", "a leader", "dull")
)


def numbers(answers: Iterable[Answer]) -> dict[tuple[str, str], dict[str, float]]:
    found = {(answer.image_id, answer.question_id): answer.numbers for answer in answers}
    assert None not in found.values(), {answer.error for answer in answers}
    return {key: dict(values) for key, values in found.items() if values is not None}


def one_at_a_time(folder: Path, tasks: Sequence[ImageTask], chat: bool) -> Table:
    """Ask plain transformers one question about one image at a time: no batch, no padding, no memory."""
    from transformers import AutoModelForImageTextToText, AutoProcessor

    processor: Any = AutoProcessor.from_pretrained(folder)
    model: Any = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    answers: Table = {}
    for task in tasks:
        image = ImageOps.exif_transpose(Image.open(task.path)).convert("RGB")
        for question in task.questions:
            if chat:
                content = [{"type": "image", "image": image}, {"type": "text", "text": question.text}]
                inputs = processor.apply_chat_template(
                    [{"role": "user", "content": content}],
                    add_generation_prompt=True,
                    tokenize=True,
                    return_dict=True,
                    return_tensors="pt",
                )
            else:
                prompt = f"USER: <image>\n{question.text} ASSISTANT:"  # the family's form
                inputs = processor(text=prompt, images=image, return_tensors="pt")
            output = model.generate(**inputs, max_new_tokens=DECODING.max_new_tokens, do_sample=False)
            words = processor.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
            answers[task.image_id, question.question_id] = words.strip()
    return answers


@pytest.mark.parametrize("kind", ["chat", "raw"])
@pytest.mark.parametrize("batch_size", thorough_but([1, 50], 50))
def test_answers_are_those_of_plain_transformers(
    kind: str, batch_size: int, tiny_llava: Path, tiny_llava_raw: Path, tasks: list[ImageTask]
) -> None:
    folder = tiny_llava if kind == "chat" else tiny_llava_raw
    expected = one_at_a_time(folder, tasks, chat=kind == "chat")
    answers = collect(engine(folder, batch_size=batch_size).answer(tasks))
    assert len(answers) == len(expected) == 21
    assert table(answers) == expected
    assert len(set(expected.values())) > 15, "pictures and questions have to move the words, or this proves nothing"
    assert all(answer.status == "answered" and answer.seconds > 0 for answer in answers)
    assert all(1 <= answer.tokens <= DECODING.max_new_tokens for answer in answers)


def test_an_image_is_resized_once_for_all_its_questions(
    tiny_llava: Path, tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = engine(tiny_llava, batch_size=6)
    inner = type(asked._session.loaded.image_processor._inner)
    resized: list[int] = []
    original = inner.preprocess
    monkeypatch.setattr(
        inner, "preprocess", lambda self, images, *a, **k: resized.append(1) or original(self, images, *a, **k)
    )
    collect(asked.answer(tasks))
    assert len(resized) == len(tasks)


@pytest.mark.package(name="prefix_sharing")
def test_without_a_batch_size_a_small_model_takes_many_side_by_side(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    asked = engine(tiny_llava)
    assert asked.runtime()["batch_size"] is None
    assert asked.model_calls == 0
    assert len(list(asked.answer(tasks))) == 1
    assert asked.runtime()["batch_size"] == 96
    assert asked.runtime()["sharing"] == "tree"


def test_the_model_runs_once_for_a_beginning_once_for_its_questions_and_once_a_token(
    tiny_llava: Path, tasks: list[ImageTask]
) -> None:
    asked = engine(tiny_llava, batch_size=7)
    batches = list(asked.answer(tasks))
    assert [len(batch) for batch in batches] == [6, 6, 6, 3]  # two images with three questions each fit into seven
    check = 2 + 3  # before the first answer: the tree, and the trial prompts one at a time
    most = check + 4 * (1 + DECODING.max_new_tokens)
    assert check + 4 * 2 < asked.model_calls <= most


def test_no_open_question_loads_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_llava: Path) -> None:
    monkeypatch.setattr("fp2.engines.hf.engine.load", lambda *a: pytest.fail("loaded"))
    assert collect(engine(tiny_llava).answer([])) == []


def test_a_broken_image_fails_alone(tiny_llava: Path, tasks: list[ImageTask], tmp_path: Path) -> None:
    whole = table(collect(engine(tiny_llava).answer(tasks)))
    cut = tmp_path / "cut.png"
    cut.write_bytes(tasks[1].path.read_bytes()[:300])
    swapped = dataclasses.replace(tasks[4], path=tasks[5].path)
    broken = [*tasks]
    broken[1], broken[2] = (
        dataclasses.replace(tasks[1], path=cut),
        dataclasses.replace(tasks[2], path=tmp_path / "absent.png"),
    )
    broken[4] = swapped
    answers = collect(engine(tiny_llava).answer(broken))
    failed = {answer.image_id for answer in answers if answer.status == "error"}
    assert failed == {tasks[1].image_id, tasks[2].image_id, tasks[4].image_id}
    assert all(answer.text is None and answer.error and "\n" not in answer.error for answer in answers if answer.error)
    assert any("changed" in (answer.error or "") for answer in answers)
    good = {key: text for key, text in table(answers).items() if key[0] not in failed}
    assert good == {key: text for key, text in whole.items() if key[0] not in failed}


class Failing:
    """Stands before the session's `ask` and raises for groups that a rule picks."""

    def __init__(self, asked: HfEngine, rule: Callable[[list[ImageQuestions]], Exception | None]) -> None:
        self._ask, self._rule, self.sizes = asked._session.ask, rule, []

    def __call__(self, group: list[ImageQuestions]) -> list[Answer]:
        self.sizes.append(sum(len(ready.questions) for ready in group))
        if (error := self._rule(group)) is not None:
            raise error
        return self._ask(group)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ],
    ids=["gpu", "cpu", "python"],
)
def test_out_of_memory_halves_the_batch_and_goes_on(
    error: Exception, tiny_llava: Path, tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = table(collect(engine(tiny_llava).answer(tasks)))
    asked = engine(tiny_llava, batch_size=16)
    failing = Failing(asked, lambda group: error if len(group) > 1 else None)
    monkeypatch.setattr(asked._session, "ask", failing)
    assert table(collect(asked.answer(tasks))) == expected
    assert failing.sizes[:3] == [15, 6, 3]
    assert max(failing.sizes[3:]) <= 9
    assert failing.sizes.count(6) <= 3, "it stays halved"
    assert asked.runtime()["batch_size"] == 3


@pytest.mark.package(name="prefix_sharing")
@pytest.mark.parametrize("sharing", thorough_but(["tree", "none"], "tree"))
def test_out_of_memory_while_probabilities_are_read(
    sharing: Any, tiny_family: Callable[[str], Path], tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = [dataclasses.replace(task, questions=YES_NO) for task in tasks[:3]]
    expected = numbers(collect(engine(tiny_family("llava")).answer(scored)))
    asked = engine(tiny_family("llava"), sharing=sharing, batch_size=8)
    model, sizes = asked._session.loaded.model, []
    original = model.forward

    def forward(*args: Any, **inputs: Any) -> Any:
        sizes.append(inputs["input_ids"].numel())
        if sizes[-1] > 80:
            raise MemoryError("too much")
        return original(*args, **inputs)

    forward.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    monkeypatch.setattr(model, "forward", forward)
    found = numbers(collect(asked.answer(scored)))
    assert max(sizes) > 80, "or nothing was too much"
    assert found.keys() == expected.keys()
    for key, values in found.items():
        assert values == pytest.approx(expected[key], abs=1e-4)


@pytest.mark.thorough
def test_memory_for_not_even_one_is_an_error_row(
    tiny_llava: Path, tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = engine(tiny_llava, batch_size=4)
    monkeypatch.setattr(asked._session, "ask", Failing(asked, lambda group: MemoryError("none left")))
    answers = collect(asked.answer(tasks[:2]))
    assert len(answers) == 6
    assert all("none left" in (answer.error or "") for answer in answers)


def test_one_failing_question_fails_alone(
    tiny_llava: Path, tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = table(collect(engine(tiny_llava).answer(tasks)))
    asked = engine(tiny_llava, batch_size=8)
    bad = (tasks[0].image_id, tasks[0].questions[1])

    def rule(group: list[ImageQuestions]) -> Exception | None:
        hit = any(ready.task.image_id == bad[0] and bad[1] in ready.questions for ready in group)
        return RuntimeError("an index is out of range\nin a long trace") if hit else None

    monkeypatch.setattr(asked._session, "ask", Failing(asked, rule))
    answers = collect(asked.answer(tasks))
    assert len(answers) == 21
    failed = {(answer.image_id, answer.question_id): answer.error for answer in answers if answer.error}
    assert failed == {(bad[0], bad[1].question_id): "the model failed: RuntimeError: an index is out of range"}
    assert all(answer.text == expected[answer.image_id, answer.question_id] for answer in answers if not answer.error)


def test_ctrl_c_is_not_swallowed(tiny_llava: Path, tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = engine(tiny_llava, batch_size=4)

    def stop(group: list[ImageQuestions]) -> list[Answer]:
        raise KeyboardInterrupt

    monkeypatch.setattr(asked._session, "ask", stop)
    with pytest.raises(KeyboardInterrupt):
        collect(asked.answer(tasks))


def test_each_sample_has_a_stream_of_its_own_and_the_first_is_that_of_a_single_answer(
    tiny_llava: Path, tasks: list[ImageTask]
) -> None:
    hot = Decoding(max_new_tokens=8, temperature=1.5, seed=3, samples=3)
    sampled = [
        dataclasses.replace(
            task,
            questions=tuple(
                dataclasses.replace(q, question_id=sample_id(q.question_id, n), sample=n)
                for q in task.questions
                for n in range(3)
            ),
        )
        for task in tasks[:3]
    ]
    single = table(collect(engine(tiny_llava, decoding=hot).answer(tasks[:3])))
    found = table(collect(engine(tiny_llava, decoding=hot, batch_size=16).answer(sampled)))
    assert found == table(collect(engine(tiny_llava, decoding=hot, batch_size=2).answer(sampled[::-1])))
    assert {key: found[key] for key in single} == single
    different = [len({found[image, sample_id(name, n)] for n in range(3)}) for image, name in single]
    assert min(different) == 3


def test_identity_imports_nothing_heavy_and_holds_no_path(tiny_llava: Path) -> None:
    script = (
        "import json, sys\n"
        "from fp2.engines.build import build_engine\n"
        "from fp2.engines.base import Decoding\n"
        "model = {'name': 'tiny', 'engine': 'hf', 'id': sys.argv[1]}\n"
        "engine = build_engine(model, {'name': 'hf'}, Decoding(), None)\n"
        "identity, runtime = engine.identity(), engine.runtime()\n"
        "heavy = sorted({'torch', 'transformers', 'pandas', 'scipy', 'sklearn', 'mlflow'} & set(sys.modules))\n"
        "print(json.dumps([identity, heavy]))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tiny_llava)], capture_output=True, text=True, check=True)
    identity, heavy = json.loads(done.stdout)
    assert heavy == []
    assert str(tiny_llava) not in done.stdout
    assert tiny_llava.parent.name not in done.stdout
    assert identity["processor"]["backend"] == "pil"
    assert identity["processor"]["class"] == "LlavaProcessor"


def test_identity_is_the_same_in_another_folder_and_follows_the_files(tiny_llava: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny_llava, tmp_path / "elsewhere"))
    before = engine(copy).identity()
    assert before == engine(tiny_llava).identity()
    for name, field in [
        ("model.safetensors", "weights"),
        ("processor_config.json", "processor"),
        ("chat_template.jinja", "chat_template"),
    ]:
        file = copy / name
        original = file.read_bytes()
        changed = original[:-1] + b"\x01" if name.endswith("safetensors") else original.replace(b"32", b"48") + b" "
        file.write_bytes(changed)
        after = engine(copy).identity()
        assert after[field] != before[field], name
        file.write_bytes(original)
    assert engine(copy).identity() == before


def _break(folder: Path, how: str) -> None:
    weights = folder / "model.safetensors"
    config = json.loads((folder / "config.json").read_text())
    if how == "no weights":
        weights.unlink()
    elif how == "missing tensors":
        from safetensors.torch import load_file, save_file

        tensors = load_file(weights)
        save_file(dict(list(tensors.items())[3:]), weights, metadata={"format": "pt"})
    elif how == "wrong size":
        config["text_config"]["intermediate_size"] = 80
        (folder / "config.json").write_text(json.dumps(config))
    elif how == "no processor":
        (folder / "processor_config.json").unlink()
    elif how == "no config":
        (folder / "config.json").unlink()
    elif how == "broken config":
        (folder / "config.json").write_text("{")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("no weights", "no weights"),
        ("missing tensors", "3 weights"),
        ("wrong size", "wrong size"),
        ("no processor", "no processor_config.json"),
        ("no config", "no config.json"),
        ("broken config", "cannot be read"),
    ],
)
def test_a_bad_checkpoint_is_one_clear_line(
    tiny_llava: Path, tmp_path: Path, tasks: list[ImageTask], how: str, says: str
) -> None:
    folder = Path(shutil.copytree(tiny_llava, tmp_path / "bad"))
    _break(folder, how)
    with pytest.raises(Fp2Error, match=says) as told:
        collect(engine(folder).answer(tasks[:1]))
    line = str(told.value)
    assert "\n" not in line
    assert len(line) < 700


def test_a_gpu_that_is_not_there(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    with pytest.raises(Fp2Error, match="does not see the device cuda:99"):
        collect(engine(tiny_llava, device="cuda:99").answer(tasks[:1]))


def test_options_that_do_not_exist(tiny_llava: Path, tiny_llava_raw: Path, tasks: list[ImageTask]) -> None:
    with pytest.raises(Fp2Error, match="Did you mean 'cpu'"):
        collect(engine(tiny_llava, device="cpuu").answer(tasks[:1]))
    model = {"id": str(tiny_llava)}
    for wrong, says in (
        ({"dtype": "float23"}, "'float23' is not float32, bfloat16 or float16 .*model.dtype"),
        ({"quantisation": "int"}, "'int' is not int8 or nf4 .*model.quantisation"),
        ({"image_backend": "pill"}, "'pill' is not pil or torchvision .*model.image_backend"),
    ):
        with pytest.raises(Fp2Error, match=says):
            build_engine({**model, **wrong}, {"name": "hf"}, DECODING)
    for option in ("batch_size", "max_tokens", "threads"):
        with pytest.raises(Fp2Error, match=rf"0 is not at least 1 .*engine\.{option}"):
            build_engine(model, {"name": "hf", option: 0}, DECODING)
    with pytest.raises(Fp2Error, match=r"'treee' is not .*vision or none .*engine\.sharing"):
        build_engine(model, {"name": "hf", "sharing": "treee"}, DECODING)
    with pytest.raises(Fp2Error, match="no chat template"):
        HfEngine(HfSpec(str(tiny_llava_raw), chat=True), DECODING).method(tasks[0].questions[0])


def test_the_prompt_format_is_part_of_the_method(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    question = tasks[0].questions[0]
    methods = [HfEngine(HfSpec(str(tiny_llava), chat=chat), DECODING).method(question) for chat in (None, True, False)]
    assert methods[0] == methods[1] != methods[2]


def test_a_vocabulary_without_yes_ends_the_run_in_one_line(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    """Its tokenizer has bytes and common pieces only."""
    with pytest.raises(Fp2Error, match="no token of this model's vocabulary reads 'yes'") as told:
        collect(engine(tiny_llava).answer([dataclasses.replace(tasks[0], questions=YES_NO)]))
    assert "\n" not in str(told.value)


def test_the_variant_is_what_the_model_sees(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    def upside_down(picture: Image.Image) -> Image.Image:
        return picture.transpose(Image.Transpose.FLIP_TOP_BOTTOM)

    changed = [dataclasses.replace(task, variant="turned", change=upside_down) for task in tasks[:3]]
    plain, turned = (table(collect(engine(tiny_llava).answer(some))) for some in (tasks[:3], changed))
    assert plain.keys() == turned.keys()
    assert plain != turned


@pytest.mark.package(name="prefix_sharing")
@pytest.mark.parametrize("sharing", thorough_but(["tree", "none"], "tree"))
@pytest.mark.parametrize("scored", [True, False], ids=["scored", "words"])
def test_an_image_that_never_fits_fails_alone_and_slows_no_other(
    sharing: Any,
    scored: bool,
    tiny_family: Callable[[str], Path],
    tasks: list[ImageTask],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = engine(tiny_family("llava"), sharing=sharing, batch_size=6)
    some = [dataclasses.replace(task, questions=YES_NO) if scored else task for task in tasks[:4]]
    list(asked.answer(some[:1]))  # the way is settled
    before = asked._session.limits
    before = dataclasses.replace(before)
    original, sizes = asked._session.ask, []

    def ask(group: list[ImageQuestions]) -> list[Answer]:
        sizes.append([ready.task.image_id for ready in group])
        if any(ready.task.image_id == some[1].image_id for ready in group):
            raise MemoryError("far too large")
        return original(group)

    monkeypatch.setattr(asked._session, "ask", ask)
    answers = collect(asked.answer(some))
    assert len(answers) == sum(len(task.questions) for task in some)
    assert {answer.image_id for answer in answers if answer.error} == {some[1].image_id}
    assert asked._session.limits.max_tokens == before.max_tokens
    assert sizes.count([some[3].image_id]) + sum(some[3].image_id in group for group in sizes if len(group) > 1) <= 3


@pytest.mark.package(name="prefix_sharing")
def test_a_checkpoints_own_settings_of_decoding_change_no_answer(
    tiny_family: Callable[[str], Path], tasks: list[ImageTask], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_family("llava"), tmp_path / "hostile"))
    settings = json.loads((folder / "generation_config.json").read_text())
    plain = table(collect(engine(tiny_family("llava")).answer(tasks)))
    hostile = {
        "repetition_penalty": 5.0,
        "suppress_tokens": list(range(20, 90)),
        "bad_words_ids": [[100], [101]],
        "min_new_tokens": 9,
        "forced_eos_token_id": 7,
        "no_repeat_ngram_size": 1,
        "num_beams": 3,
        "do_sample": True,
        "temperature": 3.0,
        "stop_strings": ["e"],
        "max_time": 1e-9,
    }
    (folder / "generation_config.json").write_text(json.dumps({**settings, **hostile}))
    for sharing in ("tree", "none"):
        assert table(collect(engine(folder, sharing=sharing).answer(tasks))) == plain


def test_logits_that_are_no_numbers_are_errors(tasks: list[ImageTask], tmp_path: Path) -> None:
    asked = engine(save("llava", tmp_path / "own", seed=5))  # a model of its own: it is spoiled
    list(asked.answer(tasks[:1]))  # the way is settled
    with torch.no_grad():
        asked._session.loaded.model.get_output_embeddings().weight.fill_(torch.nan)
    some = [dataclasses.replace(task, questions=(*task.questions, YES_NO[0])) for task in tasks[:2]]
    answers = collect(asked.answer(some))
    assert len(answers) == 8
    assert all("not numbers" in (answer.error or "") for answer in answers)


def test_a_control_token_in_a_question_is_that_questions_error(
    tiny_family: Callable[[str], Path], tasks: list[ImageTask]
) -> None:
    bad = tuple(
        Question(mark, "x", f"Is {mark} kind? Answer with Yes or No.", "yes_no") for mark in ("<image>", "</s>")
    )
    (task,) = [dataclasses.replace(tasks[0], questions=(*YES_NO[:3], *bad))]
    answers = collect(engine(tiny_family("llava")).answer([task]))
    assert {answer.question_id for answer in answers if answer.error} == {"<image>", "</s>"}
    assert all("special token" in answer.error for answer in answers if answer.error)


def test_a_processor_that_fails_at_one_question_fails_alone(
    tiny_llava: Path, tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = engine(tiny_llava)
    builder = asked._session._builder
    original = builder._prompt

    def prompt(text: str, *, images: int, scored: bool = True) -> str:
        if text.startswith("A leader"):
            raise ZeroDivisionError("so it goes")
        return original(text, images=images, scored=scored)

    monkeypatch.setattr(builder, "_prompt", prompt)
    answers = collect(asked.answer(tasks[:2]))
    assert len(answers) == 6
    assert {answer.question_id for answer in answers if answer.error} == {"lead"}


def test_options_that_begin_alike_are_refused(tiny_family: Callable[[str], Path], tasks: list[ImageTask]) -> None:
    question = Question("q", "x", "Which? {options}", "choice", choices=("no", "no opinion"))
    with pytest.raises(Fp2Error, match="begins with 'no'"):
        collect(engine(tiny_family("llava")).answer([dataclasses.replace(tasks[0], questions=(question,))]))


@pytest.mark.package(name="prefix_sharing")
def test_many_text_questions_are_generated_in_batches(
    tiny_family: Callable[[str], Path], tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = tuple(Question(f"q{i}", "x", f"What about number {i}? Say a word.") for i in range(30))
    (task,) = [dataclasses.replace(tasks[0], questions=many)]
    wide = table(collect(engine(tiny_family("llava"), batch_size=64).answer([task])))
    asked = engine(tiny_family("llava"), batch_size=4)
    list(asked.answer(tasks[:1]))
    strategy, seen = asked._session._strategy, []
    original = strategy._run  # type: ignore[union-attr]
    monkeypatch.setattr(strategy, "_run", lambda s, packed: seen.append(packed.keep.numel()) or original(s, packed))
    assert table(collect(asked.answer([task]))) == wide
    assert max(seen) == 4


@pytest.mark.package(name="prefix_sharing")
def test_a_prompt_with_the_image_last_shares_the_features_only(
    tiny_family: Callable[[str], Path], tasks: list[ImageTask]
) -> None:
    spec = HfSpec(str(tiny_family("llava")), prompt="{question}{image}")
    some = [dataclasses.replace(task, questions=YES_NO[:4]) for task in tasks[:2]]
    shared, plain = (
        HfEngine(spec, DECODING, HfOptions(threads=1)),
        HfEngine(spec, DECODING, HfOptions(sharing="none", threads=1)),
    )
    found, expected = numbers(collect(shared.answer(some))), numbers(collect(plain.answer(some)))
    assert shared.runtime()["sharing"] == "vision"
    for key, values in found.items():
        assert values == pytest.approx(expected[key], abs=1e-5)
    with pytest.raises(Fp2Error, match="needs the image before the question"):
        collect(HfEngine(spec, DECODING, HfOptions(sharing="tree", threads=1)).answer(some))
