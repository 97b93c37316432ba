"""From a model's name to a checkpoint: weights, processor and chat template, without importing torch or transformers.

A model is named by a folder, by `pkg://package/folder` (inside an installed package), or by a Hugging Face id. A folder
is pinned by the digests of its files; an id by the commit of its revision in the local cache. Small files are fetched
first; weights are fetched only when the model is loaded.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fp2.errors import Fp2Error
from fp2.hashing import digest, file_stamp, sha256_bytes, sha256_file

PACKAGE_SCHEME = "pkg://"
DATE_FUNCTION = "strftime_now"  # by which chat templates get the date
_SMALL = ("*.json", "*.jinja", "*.txt", "*.model", "*.py")
_SAFE = ("*.safetensors",)
_WEIGHTS = (*_SAFE, "*.bin")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_OFFLINE_FIX = (
    "Download it once on a machine with a network (`hf download {id}`), copy the cache folder (HF_HOME) here, "
    "or set model.id to a local folder"
)


CODE_CLASSES = ("AutoModel", "AutoModelForCausalLM")
"""The auto classes under which checkpoints name a model class of their own."""


class CheckpointMissingError(Fp2Error):
    """A hub model that is not on this machine, which cannot reach the hub."""


@dataclass(frozen=True)
class Checkpoint:
    """A model on this disk: its folder, what pins it, and what its small files say.

    Attributes
    ----------
    id : str
        The hub id, the `pkg://` name, or `local`: never a path of this machine.
    path : Path
    revision : str, optional
        The commit of a hub model.
    weights_digest : str, optional
        The digest over all files of a folder; None for a hub model, which is pinned by its commit.
    config : dict
        `config.json`.
    code : dict
        Auto classes for which the checkpoint has code of its own: class name -> `module.Class`.
    uses_date : bool
        Whether the chat template asks for the date.
    chat_template : str, optional
        Its text; of several, the default one.
    """

    id: str
    path: Path
    revision: str | None
    weights_digest: str | None
    config: dict[str, Any] = field(hash=False)
    processor_class: str
    image_processor_class: str
    processor_digest: str
    chat_template_digest: str | None
    code: dict[str, str] = field(default_factory=dict, hash=False)
    uses_date: bool = False
    chat_template: str | None = field(default=None, repr=False)

    @property
    def model_type(self) -> str:
        """The architecture in `config.json`."""
        return str(self.config.get("model_type", ""))

    @property
    def has_custom_interface(self) -> bool:
        """Whether it has a model class of its own and no processor, so that it is asked through its code."""
        named = any(name in self.code for name in CODE_CLASSES)
        return named and "AutoProcessor" not in self.code and not self.processor_class

    @property
    def has_weights(self) -> bool:
        """Whether every weights file is on this disk."""
        return _weights_complete(self.path, _WEIGHTS)

    @property
    def weight_bytes(self) -> int | None:
        """Size of the weights on this disk, or None if they are not complete."""
        if not self.has_weights:
            return None
        return sum(file.stat().st_size for pattern in _WEIGHTS for file in self.path.glob(pattern))

    @property
    def n_parameters(self) -> int | None:
        """Number of weights, from the headers of safetensors files; None without a complete set of such files."""
        shards = {
            str(shard) for index in self.path.glob("*.safetensors.index.json") for shard in _weight_map(index).values()
        }
        files = [self.path / shard for shard in sorted(shards)] if shards else sorted(self.path.glob("*.safetensors"))
        if not files or not self.has_weights:
            return None
        try:
            return sum(_count_weights(file) for file in files)
        except (OSError, ValueError, KeyError, TypeError):  # loading it reports a damaged file
            return None

    def identity(self) -> dict[str, Any]:
        """Return the part of the response key: JSON values, no paths."""
        return {
            "model": self.id,
            "revision": self.revision,
            "weights": self.weights_digest,
            "processor": {
                "class": self.processor_class,
                "image_processor": self.image_processor_class,
                "digest": self.processor_digest,
            },
            "chat_template": self.chat_template_digest,
        }


def resolve_checkpoint(name: str, revision: str | None = None, digests: FileDigests | None = None) -> Checkpoint:
    """Return the checkpoint of a model name at a revision.

    For a hub id only the small files are fetched, and only if the local cache lacks them.
    """
    if name.startswith(PACKAGE_SCHEME):
        return _from_folder(name, _package_folder(name), digests or FileDigests())
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _from_folder("local", folder.resolve(), digests or FileDigests())
    if not is_repository(name):
        raise Fp2Error(
            f"there is no model directory {name!r}",
            where="model.id",
            fix="Give a folder or a Hugging Face id (owner/name)",
        )
    path = fetch(name, revision, _SMALL)
    _require_config(path, name)
    return _read(name, path, path.name, None)


def is_repository(name: str) -> bool:
    """Return whether a model's name is that of a repository of the hub: no folder, and no part of a package."""
    return _HUB_ID.fullmatch(name) is not None and not Path(name).is_dir()


def read_small_files(name: str, path: Path, weights_digest: str) -> Checkpoint:
    """Return the checkpoint of a model in memory, whose config and processor were saved in the folder `path`."""
    return _read(name, path, None, weights_digest)


def with_weights(checkpoint: Checkpoint, *, pickled: bool = False, option: str = "") -> Path:
    """Return the folder of a checkpoint with its weights as safetensors, which are fetched for a hub model.

    Parameters
    ----------
    pickled : bool
        Whether pickled weights (`*.bin`) are fetched and read where there are no others.
    option : str
        The setting that permits them; empty where none does.
    """
    path, commit = checkpoint.path, checkpoint.revision
    wanted = _WEIGHTS if pickled else _SAFE
    if commit is not None and not _weights_complete(path, wanted):
        try:
            path = fetch(checkpoint.id, commit, (*_SMALL, *_SAFE), weights=_SAFE)
        except CheckpointMissingError:
            if not checkpoint.has_weights:
                raise
        if pickled and not _weights_complete(path, wanted):
            path = fetch(checkpoint.id, commit, (*_SMALL, *_WEIGHTS), weights=_WEIGHTS)
    if _weights_complete(path, wanted):
        return path
    if not any(path.glob("*.safetensors*")) and not pickled:
        permit = f", or set {option}=true where you trust their origin (only tensors are read)" if option else ""
        raise Fp2Error(
            f"the model {checkpoint.id} has no weights as safetensors, and pickled ones (*.bin) can run code",
            where="model.id",
            fix=f"Convert them to safetensors{permit}",
        )
    raise Fp2Error(
        f"the model {checkpoint.id} has no complete weights",
        where=str(path),
        fix="Every weights file that its index names is needed: copy or download the folder again",
    )


def fetch(
    name: str,
    revision: str | None,
    patterns: tuple[str, ...],
    *,
    weights: tuple[str, ...] = (),
    needed: Sequence[str] = (),
) -> Path:
    """Return the snapshot folder of a hub model, from the local cache or downloaded.

    Parameters
    ----------
    patterns : tuple of str
        What is downloaded.
    weights : tuple of str
        Patterns of weights files of which a complete set must be there; none if no weights are needed.
    needed : sequence of str
        Further files that must be there.
    """
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        cached = Path(snapshot_download(name, revision=revision, local_files_only=True, allow_patterns=list(_SMALL)))
        is_cached = all((cached / file).is_file() for file in ("config.json", *needed))
        if is_cached and (not weights or _weights_complete(cached, weights)):
            return cached
    except LocalEntryNotFoundError:
        pass
    if constants.HF_HUB_OFFLINE:
        raise CheckpointMissingError(
            f"the model {name} is not in the local cache, and HF_HUB_OFFLINE forbids downloading it",
            where="model.id",
            fix=_OFFLINE_FIX.format(id=name),
        )
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(patterns)))
    except Exception as error:  # the hub client raises its own, httpx's and the operating system's errors
        raise _hub_error(name, revision, error) from error


def _hub_error(name: str, revision: str | None, error: Exception) -> Fp2Error:
    from huggingface_hub import errors as hub

    if isinstance(error, hub.GatedRepoError):
        message, fix = (
            f"access to the model {name} is gated",
            "Accept its terms on the hub and log in (`hf auth login`)",
        )
    elif isinstance(error, hub.RevisionNotFoundError):
        message, fix = f"the model {name} has no revision {revision!r}", "Set model.revision to a commit, tag or branch"
    elif isinstance(error, hub.RepositoryNotFoundError):
        message, fix = f"the hub has no model {name}", "Check model.id, or log in if it is private (`hf auth login`)"
    elif isinstance(error, OSError) and error.errno == 28:
        message, fix = f"the disk is full while downloading {name}", "Free some space, or move the cache (HF_HOME)"
    elif isinstance(error, hub.LocalEntryNotFoundError):
        message = f"the model {name} is not in the local cache, and the hub cannot be reached"
        return CheckpointMissingError(message, where="model.id", fix=_OFFLINE_FIX.format(id=name))
    else:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        message, fix = f"the model {name} could not be downloaded: {reason}", _OFFLINE_FIX.format(id=name)
        return CheckpointMissingError(message, where="model.id", fix=fix)
    return Fp2Error(message, where="model.id", fix=fix)


def has_planted_effects(name: str) -> bool:
    """Return whether a model that ships inside a package has effects planted on purpose, named in a `planted.yaml`."""
    try:
        return name.startswith(PACKAGE_SCHEME) and (_package_folder(name) / "planted.yaml").is_file()
    except Fp2Error:  # it is named, and another engine answers
        return False


def _package_folder(name: str) -> Path:
    package, _, rest = name.removeprefix(PACKAGE_SCHEME).partition("/")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    roots = list(spec.submodule_search_locations or ()) if spec else []
    for root in roots:
        if (Path(root) / rest).is_dir():
            return Path(root) / rest
    raise Fp2Error(f"there is no model directory {name}", where="model.id", fix="Reinstall the package that ships it")


def _from_folder(name: str, path: Path, digests: FileDigests) -> Checkpoint:
    _require_config(path, str(path))
    files = sorted({file for pattern in (*_SMALL, *_WEIGHTS) for file in path.glob(pattern) if file.is_file()})
    if not any(file.match(pattern) for file in files for pattern in _WEIGHTS):
        raise Fp2Error(f"the model folder has no weights ({' or '.join(_WEIGHTS)})", where=str(path))
    try:
        weights = digest({file.name: digests.sha256(file) for file in files})
    except OSError as error:
        raise Fp2Error(f"a model file cannot be read: {error.strerror}", where=str(error.filename)) from error
    return _read(name, path, None, weights)


def _require_config(path: Path, where: str) -> None:
    if not (path / "config.json").is_file():
        raise Fp2Error("not a model directory: it has no config.json", where=where, fix="Check model.id")


def _read(name: str, path: Path, revision: str | None, weights_digest: str | None) -> Checkpoint:
    """Read the small files: model type, processor classes, and the digests of processor and chat template."""
    config = _json(path / "config.json")
    processor, image_processor, tokenizer = (
        _json(path / file) for file in ("processor_config.json", "preprocessor_config.json", "tokenizer_config.json")
    )
    inner = processor.get("image_processor")
    image_processor = inner if isinstance(inner, dict) else image_processor
    processors = (processor, image_processor, tokenizer)
    kind = image_processor.get("image_processor_type") or image_processor.get("feature_extractor_type") or ""
    template_digest, uses_date, template = _chat_template(path, processor, tokenizer)
    return Checkpoint(
        id=name,
        path=path,
        revision=revision,
        weights_digest=weights_digest,
        config=config,
        processor_class=next(
            (str(settings["processor_class"]) for settings in processors if settings.get("processor_class")), ""
        ),
        image_processor_class=str(kind),
        processor_digest=digest(  # the keys are hashed: do not rename
            {"processor": processor, "pictures": image_processor, "tokenizer": tokenizer}
        ),
        chat_template_digest=template_digest,
        code=_code(config, *processors),
        uses_date=uses_date,
        chat_template=template,
    )


def _code(*files: dict[str, object]) -> dict[str, str]:
    """Return the entries of the files' `auto_map`: a name, or a list of names of which one may be missing."""
    classes: dict[str, str] = {}
    for file in files:
        named = file.get("auto_map")
        for auto, value in (named if isinstance(named, dict) else {}).items():
            names = value if isinstance(value, list) else [value]
            classes.update({str(auto): str(name) for name in names if name})
    return classes


def _chat_template(
    path: Path, processor: dict[str, Any], tokenizer: dict[str, Any]
) -> tuple[str | None, bool, str | None]:
    """Return the digest of the chat template, wherever it is (None without one), whether it uses the date, its text."""
    file = path / "chat_template.jinja"
    if file.is_file():
        text = file.read_bytes()
        return sha256_bytes(text), DATE_FUNCTION.encode() in text, text.decode(errors="replace")
    for holder in (_json(path / "chat_template.json"), processor, tokenizer):
        if template := holder.get("chat_template"):
            named = {entry["name"]: entry["template"] for entry in template} if isinstance(template, list) else template
            default = named.get("default") if isinstance(named, dict) else named
            return digest(template), DATE_FUNCTION in json.dumps(template), default
    return None, False, None


def _weights_complete(path: Path, kinds: tuple[str, ...]) -> bool:
    """Return whether a folder has a complete set of weights of these kinds: a single file, or all files of an index."""
    indexes = [index for kind in kinds for index in sorted(path.glob(f"{kind}.index.json"))]
    for index in indexes:
        shards = set(_weight_map(index).values())
        if shards and all((path / str(shard)).is_file() for shard in shards):
            return True
    return not indexes and any(file.is_file() for kind in kinds for file in path.glob(kind))


def _weight_map(index: Path) -> dict[str, object]:
    return dict(_json(index).get("weight_map", {}))


def _count_weights(file: Path) -> int:
    """Return the number of elements of all tensors, from the header of a safetensors file (its length, then JSON)."""
    with file.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        if length > file.stat().st_size:
            raise ValueError("the header is longer than the file")
        header = json.loads(handle.read(length))
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Fp2Error(f"a model file cannot be read: {error}", where=os.fspath(path)) from error
    if not isinstance(value, dict):
        raise Fp2Error("a model file is not a JSON object", where=os.fspath(path))
    return value


_CREATE = """
CREATE TABLE IF NOT EXISTS file_digests (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, sha256 TEXT NOT NULL
) WITHOUT ROWID
"""


class FileDigests:
    """SHA-256 of files, remembered by path and stamp in the table `file_digests` of an open SQLite database.

    Parameters
    ----------
    connection : sqlite3.Connection, optional
        Without one, or after it has failed (locked, full, damaged), digests are computed and not remembered: a problem
        with the database is reported when answers are stored.
    verify : bool
        Read every file again, whatever is remembered.
    """

    def __init__(self, connection: sqlite3.Connection | None = None, *, verify: bool = False) -> None:
        self._connection, self._verify = connection, verify
        self.files_read = 0
        """Files read so far; the digests of the others were remembered."""
        if not self._execute("SELECT 1 FROM sqlite_master WHERE name = 'file_digests'"):
            self._execute(_CREATE)

    def sha256(self, path: Path) -> str:
        """Return the hex SHA-256 of a file.

        Raises
        ------
        OSError
            If the file cannot be read.
        """
        key, before = os.path.abspath(path), file_stamp(path)
        if not self._verify:
            query = "SELECT sha256, size, mtime_ns FROM file_digests WHERE path = ?"
            for remembered, *stamp in self._execute(query, key):
                if file_stamp(path, remembered) == tuple(stamp):
                    return str(remembered)
        value = sha256_file(path)
        self.files_read += 1
        after = file_stamp(path, value)
        if after is not None and file_stamp(path) == before:
            self._execute("INSERT OR REPLACE INTO file_digests VALUES (?, ?, ?, ?)", key, *after, value)
        return value

    def _execute(self, statement: str, *values: str | int) -> list[tuple[Any, ...]]:
        """Return the rows; after an error the database is not used again, since each query may wait for a lock."""
        if self._connection is None:
            return []
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error:
            self._connection = None
            return []
