"""The stereotype score of the page's code: likeness to sentences that state stereotypes, by sentence embeddings.

The embedding of a text is the mean of the last hidden states over its tokens, as the package sentence-transformers
computes it for checkpoints with mean pooling. The value is (c + 1) / 2, c the largest cosine with one of the sentences
in the page's code, rounded to four digits.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fp2.extension import Answer, Content, Flag, Fp2Error, Local
from fp2.methods.model_scorers.by_model import Asked, ModelScorer, Reading
from fp2.methods.page_code.scorers import lists_at, lists_digest, lists_info

if TYPE_CHECKING:
    from fp2.extension import Checkpoint

POOLING = Path("1_Pooling") / "config.json"
LENGTH = "sentence_bert_config.json"
FALL_BACK = "set scorer=page_code_keywords, the code's fall-back"


@dataclass(frozen=True)
class PageStereotype(ModelScorer):
    """(Largest cosine with a sentence that states a stereotype + 1) / 2.

    Parameters
    ----------
    published : str
        The page's script, or a checkout of its repository.
    model : str
        A sentence-embedding checkpoint: a folder, or a repository of the hub.
    revision : str, optional
        The commit of a hub model; by default the pinned one.
    device : str
        `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
    batch_size : int
        Texts computed together.
    """

    name: str = "page_stereotype"
    higher_is_better: Flag = False
    published: Annotated[str | None, Content(lists_digest)] = None
    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    revision: str | None = None
    device: Annotated[str, Local()] = "auto"
    batch_size: Annotated[int, Ge(1), Local()] = 32

    method: ClassVar[str] = "page_stereotype/1"

    def __post_init__(self) -> None:
        self.settle(0.0, 1.0)
        lists_at(self.published, self.name)

    @property
    def lexicon(self) -> dict[str, str]:
        """Name, version and sha256 of the lists."""
        return lists_info(lists_at(self.published, self.name))

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint, of which the small files are read."""
        from fp2.extension import FileDigests, resolve_checkpoint

        store = self.resources.store
        digests = FileDigests(store.connection if store is not None else None, verify=self.resources.verify_files)
        try:
            return resolve_checkpoint(self.model, self.revision, digests)
        except Fp2Error as error:
            raise self._refused(error.what) from error

    def _refused(self, reason: str) -> Fp2Error:
        where = f"scorer.{self.name}.model"
        return Fp2Error(reason, where=where, fix=f"Give {where}=FOLDER with sentence embeddings, or {FALL_BACK}")

    def check(self) -> None:
        """Load the checkpoint and embed the sentences."""
        from fp2.extension import resolve_device

        resolve_device(self.device, f"scorer.{self.name}.device")
        _ = self._stereotypes

    @cached_property
    def _encoder(self) -> Encoder:
        try:
            return load(self.checkpoint, self.model)
        except Fp2Error as error:
            raise self._refused(error.what) from error

    @cached_property
    def _stereotypes(self) -> npt.NDArray[np.float64]:
        """The embeddings of the sentences, of length 1, shape (sentences, dimensions)."""
        return self._encoder.embed(lists_at(self.published, self.name).stereotypes, "cpu")[0]

    def model_identity(self) -> dict[str, Any]:
        """Return the identity of the checkpoint and of the lists, and how much of a text is read."""
        return {"checkpoint": self.checkpoint.identity(), "lists": self.lexicon, "max_tokens": self._encoder.limit}

    def ask(self, asked: Asked) -> Generator[list[Answer], None, None]:
        """Yield the values of batches of texts of similar length."""
        from fp2.extension import resolve_device

        device = resolve_device(self.device, f"scorer.{self.name}.device")
        ordered = sorted(asked, key=lambda key: (len(asked[key][1]), asked[key][1]))
        for start in range(0, len(ordered), self.batch_size):
            keys = ordered[start : start + self.batch_size]
            embeddings, lengths = self._encoder.embed([asked[key][1] for key in keys], device)
            values = np.clip((embeddings @ self._stereotypes.T).max(axis=1) / 2 + 0.5, 0.0, 1.0).round(4)
            yield [
                Answer(key, self.name, "", tokens=n, numbers={"value": value, "truncated": n > self._encoder.limit})
                for key, value, n in zip(keys, values.tolist(), lengths, strict=True)
            ]

    def read(self, text: str, numbers: Mapping[str, Any]) -> Reading:
        """Return the stored value."""
        return Reading(float(numbers["value"]), {"truncated": bool(numbers["truncated"])})

    def missing(self, state: str) -> Reading:
        """Return the reading of a text without a value."""
        return Reading(float("nan"), {"truncated": False})

    def note(self, details: Sequence[Mapping[str, Any]]) -> str:
        """Say what the values are, and how many texts were not read to their end."""
        note = f"values are likenesses to ten or so sentences by the embeddings of {Path(self.model).name}."
        if count := sum(bool(detail.get("truncated")) for detail in details):
            note += f" {count} of {len(details)} answers are longer than it reads: their first tokens were scored."
        return note

    def runtime(self) -> dict[str, Any]:
        """Return the versions of the libraries."""
        from fp2.extension import versions

        return {"device": self.device, "batch_size": self.batch_size, "versions": versions(("torch", "transformers"))}


@dataclass(frozen=True)
class Encoder:
    """A sentence-embedding model; `limit` is the most tokens that it reads."""

    model: Any
    tokenizer: Any
    limit: int

    def embed(self, texts: Sequence[str], device: str) -> tuple[npt.NDArray[np.float64], list[int]]:
        """Return embeddings of length 1, shape (texts, dimensions), and the texts' numbers of tokens before cutting."""
        import torch

        stripped = [text.strip() for text in texts]
        lengths = [len(ids) for ids in self.tokenizer(stripped, truncation=False)["input_ids"]]
        cut = {"truncation": True, "max_length": self.limit}
        inputs = self.tokenizer(stripped, return_tensors="pt", padding=True, **cut).to(device)
        with torch.inference_mode():
            states = self.model.to(device)(**inputs).last_hidden_state
            mask = inputs["attention_mask"].unsqueeze(-1).to(states.dtype)
            means = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1e-9)
            unit = torch.nn.functional.normalize(means, dim=1)
        return unit.cpu().double().numpy(), lengths


@lru_cache(maxsize=1)
def load(checkpoint: Checkpoint, name: str) -> Encoder:
    """Load a sentence-embedding model with mean pooling, in float32 from safetensors; the last one is kept."""
    from fp2.extension import HfSpec, load_weights, loading_error, silence_loaders, with_weights

    silence_loaders()
    path, spec = with_weights(checkpoint), HfSpec(name)
    pooling = _settings(path / POOLING)
    modes = [name for name, value in pooling.items() if name.startswith("pooling_mode_") and value]
    if modes != ["pooling_mode_mean_tokens"]:
        raise Fp2Error("the checkpoint has no sentence embeddings by mean pooling (1_Pooling/config.json)")
    try:
        tokenizer = importlib.import_module("transformers").AutoTokenizer.from_pretrained(path)
    except Exception as error:  # missing files, missing libraries: many kinds, one line
        raise loading_error("its tokenizer", spec, error) from error
    model = load_weights("AutoModel", path, spec, "cpu")
    stated = _settings(path / LENGTH).get("max_seq_length")
    limit = min(int(number) for number in (stated, tokenizer.model_max_length) if number)
    return Encoder(model, tokenizer, limit)


def _settings(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
