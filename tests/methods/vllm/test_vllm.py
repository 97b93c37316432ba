"""The vLLM engine against the generic one, through a stand-in for vLLM that has its signatures and a real tiny model.

vLLM 0.32 itself was asked the same way once, on a CPU (see docs/models.md).
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from fp2.engines.build import build_engine
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.model import HfSpec
from fp2.errors import Fp2Error
from fp2.methods.vllm import engine as vllm_module
from fp2.methods.vllm import session as vllm_session
from fp2.methods.vllm.engine import VllmEngine, VllmOptions
from fp2.plugins import read_options
from fp2.tables import Answer, Decoding, ImageTask, Question

DECODING = Decoding(max_new_tokens=6)
SCORED = (
    *(Question(t, "trait", f"Is this person {t}? Answer Yes or No.", "yes_no") for t in ("kind", "a leader", "dull")),
    Question("pick", "pick", "Which one?\n{options}", "choice", choices=("nurse", "quiet street", "Yes")),
)
IMAGE_TOKENS = 5  # of tests/engines/tiny.py
Key = tuple[str, str]


@dataclasses.dataclass
class SamplingParams:
    temperature: float = 1.0
    max_tokens: int | None = 16
    seed: int | None = None
    logprob_token_ids: list[int] | None = None
    detokenize: bool = True


class LLM:
    """Loads the checkpoint by transformers, and takes and returns what vLLM does."""

    started: ClassVar[list[dict[str, Any]]] = []
    calls: ClassVar[list[tuple[int, list[SamplingParams]]]] = []

    def __init__(self, model: str, *, dtype: str = "auto", seed: int = 0, **options: Any) -> None:
        from transformers import AutoModelForImageTextToText, AutoProcessor

        self.started.append(options)
        self._model: Any = AutoModelForImageTextToText.from_pretrained(model, dtype=getattr(torch, dtype))
        self._processor: Any = AutoProcessor.from_pretrained(model)
        self._mark = self._model.config.image_token_index

    def generate(
        self, prompts: Sequence[dict[str, Any]], sampling_params: Sequence[SamplingParams], *, use_tqdm: bool = True
    ) -> list[Any]:
        self.calls.append((len(prompts), list(sampling_params)))
        return [self._one(prompt, params) for prompt, params in zip(prompts, sampling_params, strict=True)]

    def _one(self, prompt: dict[str, Any], params: SamplingParams) -> Any:
        ids, inputs = list(prompt["prompt_token_ids"]), {}
        given = prompt.get("multi_modal_data", {}).get("image", [])
        images = given if isinstance(given, list) else [given]
        assert ids.count(self._mark) == len(images) <= self.started[-1]["limit_mm_per_prompt"]["image"]
        if images:
            pixels = self._processor.image_processor(images, return_tensors="pt")
            inputs = {"pixel_values": pixels["pixel_values"]}
            ids = [token for one in ids for token in [one] * (IMAGE_TOKENS if one == self._mark else 1)]
        said: list[int] = []
        seen = None
        logprobs: list[dict[int, Any]] = []
        stream = torch.Generator().manual_seed(params.seed or 0)
        end = self._model.generation_config.eos_token_id
        while len(said) < (params.max_tokens or 0) and (not said or said[-1] != end):
            with torch.no_grad():
                output = self._model(
                    input_ids=torch.tensor([said[-1:] or ids]), past_key_values=seen, use_cache=True, **inputs
                )
            seen, inputs, logits = output.past_key_values, {}, output.logits[0, -1].float()
            logs = logits.log_softmax(-1)
            hot = (logits / max(params.temperature, 1e-6)).softmax(-1)
            token = int(logits.argmax() if params.temperature == 0 else torch.multinomial(hot, 1, generator=stream))
            said.append(token)
            named = {*(params.logprob_token_ids or ()), token}
            logprobs.append({one: SimpleNamespace(logprob=float(logs[one])) for one in named})
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=said, logprobs=logprobs)])


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in, where vLLM would be."""
    module: Any = SimpleNamespace(LLM=LLM, SamplingParams=SamplingParams, __spec__=None)
    monkeypatch.setitem(sys.modules, "vllm", module)
    found, version = importlib.util.find_spec, importlib.metadata.version
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: module if name == "vllm" else found(name, *a))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.32.1" if name == "vllm" else version(name))
    monkeypatch.setattr(LLM, "started", [])
    monkeypatch.setattr(LLM, "calls", [])


def both(folder: Path, decoding: Decoding = DECODING, **options: Any) -> tuple[VllmEngine, HfEngine]:
    spec = HfSpec(str(folder))
    return VllmEngine(spec, decoding, read_options(VllmOptions, options, "engine")), HfEngine(
        spec, decoding, HfOptions(threads=1)
    )


def answers(asked: HfEngine, tasks: Iterable[ImageTask]) -> dict[Key, Answer]:
    found = [answer for batch in asked.answer(tasks) for answer in batch]
    assert [answer.error for answer in found if answer.error] == []
    return {(answer.image_id, answer.question_id): answer for answer in found}


def scoring(tasks: Sequence[ImageTask]) -> list[ImageTask]:
    return [dataclasses.replace(task, questions=SCORED) for task in tasks]


def test_words_are_those_of_the_generic_engine(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    ours, plain = both(tiny_llava, batch_size=12)
    some = [*tasks, dataclasses.replace(tasks[0], variant="blind", image_id="blind")]
    found, expected = answers(ours, some), answers(plain, some)
    assert {key: answer.text for key, answer in found.items()} == {key: a.text for key, a in expected.items()}
    assert {key: answer.tokens for key, answer in found.items()} == {key: a.tokens for key, a in expected.items()}
    assert len({answer.text for answer in found.values()}) > 15
    assert [size for size, _ in LLM.calls] == [12, 12], "pictures of any layout go over together"
    assert ours.model_calls == 2


def test_two_images_are_those_of_the_generic_engine(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    ours, plain = both(tiny_llava, options={"limit_mm_per_prompt": {"image": 2}})
    pairs = [
        dataclasses.replace(task, second=other.path, variant_params={"second": other.pixel_sha256})
        for task, other in zip(tasks, [*tasks[1:], tasks[0]], strict=True)
    ]
    found, expected = answers(ours, pairs), answers(plain, pairs)
    assert {key: answer.text for key, answer in found.items()} == {key: a.text for key, a in expected.items()}
    one, _ = both(tiny_llava)
    question = pairs[0].questions[0]
    assert [engine.most_images(question) for engine in (ours, plain, one)] == [2, 2, 1]


def test_numbers_are_those_of_the_generic_engine(
    tiny_family: Callable[[str], Path], tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_session, "_MOST_TOKENS", 5)  # more tokens than one request may name
    folder = tiny_family("llava")
    monkeypatch.setattr(sys.modules[__name__], "IMAGE_TOKENS", picture_length(folder))
    ours, plain = both(folder, batch_size=2)
    found, expected = answers(ours, scoring(tasks[:2])), answers(plain, scoring(tasks[:2]))
    assert found.keys() == expected.keys()
    for key, answer in expected.items():
        assert found[key].text == answer.text
        for name, value in (answer.numbers or {}).items():
            assert (found[key].numbers or {})[name] == pytest.approx(value, rel=1e-3, abs=1e-6), name
    assert max(len(one.logprob_token_ids or ()) for _, params in LLM.calls for one in params) == 5


def picture_length(folder: Path) -> int:
    from PIL import Image
    from transformers import AutoProcessor

    processor: Any = AutoProcessor.from_pretrained(folder)
    ids = processor(text="<image>", images=Image.new("RGB", (40, 40)), return_tensors="pt")["input_ids"][0].tolist()
    return max(ids.count(token) for token in ids)


def test_a_sample_depends_on_the_seed_and_not_on_the_batch(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    hot = Decoding(max_new_tokens=5, temperature=1.5, seed=3)
    together = {key: a.text for key, a in answers(both(tiny_llava, hot)[0], tasks[:3]).items()}
    alone = {key: a.text for task in tasks[:3] for key, a in answers(both(tiny_llava, hot)[0], [task]).items()}
    other = dataclasses.replace(hot, seed=4)
    assert together == alone
    assert together != {key: a.text for key, a in answers(both(tiny_llava, other)[0], tasks[:3]).items()}


def test_its_rows_never_mix_with_the_generic_engines(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    ours, plain = both(tiny_llava)
    assert ours.identity() != plain.identity()
    assert ours.identity()["family"]["vllm"] == "0.32"
    for question in (*tasks[0].questions, *SCORED):
        assert ours.method(question)["name"] == f"{plain.method(question)['name']} vllm/1"
    assert LLM.started == [], "nothing is started for that"


def test_settings_reach_vllm_and_none_that_changes_answers(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    ours, _ = both(tiny_llava, options={"max_model_len": 256, "tensor_parallel_size": 2})
    answers(ours, tasks[:1])
    (started,) = LLM.started
    assert started["max_model_len"] == 256
    assert started["enable_prefix_caching"] is True
    assert started["logprobs_mode"] == "raw_logprobs"
    assert ours.runtime()["options"]["tensor_parallel_size"] == 2
    assert ours.runtime()["versions"]["vllm"] == "0.32.1"
    with pytest.raises(Fp2Error, match=r"unknown key 'max_model_length'.*\n?.*max_model_len"):
        both(tiny_llava, options={"max_model_length": 5})
    with pytest.raises(Fp2Error, match="unknown key 'quantization'"):
        both(tiny_llava, options={"quantization": "fp8"})
    with pytest.raises(Fp2Error, match="engine=vllm does not support quantisation"):
        VllmEngine(HfSpec(str(tiny_llava), quantisation="int8"), DECODING)


def test_a_prompt_that_fails_fails_alone(
    tiny_llava: Path, tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, plain = both(tiny_llava)
    bad, original = tasks[1].questions[0], LLM._one
    length = len(ours._session.loaded.processor.tokenizer(bad.text)["input_ids"])

    def one(self: LLM, prompt: dict[str, Any], params: SamplingParams) -> Any:
        size = getattr(prompt.get("multi_modal_data", {}).get("image"), "size", None)
        if size == (57, 47) and len(prompt["prompt_token_ids"]) > length:
            raise ValueError("the prompt is longer than the maximum model length")
        return original(self, prompt, params)

    monkeypatch.setattr(LLM, "_one", one)
    found = {(a.image_id, a.question_id): a for batch in ours.answer(tasks[:3]) for a in batch}
    expected = answers(plain, tasks[:3])
    failed = {key for key, answer in found.items() if answer.error}
    assert failed
    assert {image for image, _ in failed} == {tasks[1].image_id}
    assert all(answer.text == expected[key].text for key, answer in found.items() if key not in failed)


def test_an_error_of_vllm_at_the_start_is_one_line(
    tiny_llava: Path, tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: LLM, **options: Any) -> None:
        raise RuntimeError("Engine core initialization failed.\nSee root cause above.")

    monkeypatch.setattr(LLM, "__init__", start)
    with pytest.raises(Fp2Error, match=r"vLLM does not start.*: Engine core initialization failed\.") as told:
        answers(both(tiny_llava)[0], tasks[:1])
    assert "\n" not in str(told.value)
    assert "engine.options" in str(told.value)


def test_without_vllm_there_is_one_clear_line(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    importlib.util.find_spec = lambda name, *a: None  # type: ignore[assignment]  # put back by the fixture
    model = {"name": "tiny", "engine": "hf", "id": str(tiny_llava)}
    engine = build_engine(model, {"name": "vllm", "batch_size": 3}, DECODING)
    assert isinstance(engine, VllmEngine)
    with pytest.raises(Fp2Error, match=r"vLLM is not installed.*\n?.*fp2\[vllm\]"):
        engine.identity()
    assert vllm_module.VERSION == "vllm/1"
