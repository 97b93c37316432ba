"""A Hugging Face data set on the local disk: a folder that `save_to_disk` wrote, or Parquet files.

Both are read with pyarrow; the `datasets` library is not needed. Images that are stored inside the files are extracted
once, byte for byte, into the cache of this machine, because every other part of the program reads images from files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from fp2.extension import ITEM_ROW, Dataset, Fp2Error, check_names, digest, frame_people

_MAGIC = ((b"\x89PNG", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"RIFF", ".webp"), (b"GIF8", ".gif"), (b"BM", ".bmp"))
_BATCH = 256
_FILE = "_file"

Tick = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class DataShard:
    """One data file and its split."""

    path: Path
    split: str


def load_hf(
    root: Path, columns: Mapping[str, str], cache: Path, *, split: str | None = None, tick: Tick = lambda done, n: None
) -> Dataset:
    """Return the people of a local Hugging Face data set.

    Parameters
    ----------
    root : Path
        The folder that `save_to_disk` wrote (one data set or several splits), or one with Parquet files.
    columns : mapping
        Our names to the data set's columns, as for `load_table`; `image` is a column of images or of paths below
        `root`. Class labels are read as their names. The split is the attribute `split`.
    cache : Path
        Where images from inside the files are written, into a folder named by the digest of the files' stamps.
    split : str, optional
        The only split to read.
    tick : callable
        Called with (images written, rows in total).
    """
    shards = find_shards(root)
    splits = list(dict.fromkeys(shard.split for shard in shards))
    check_names([] if split is None else [split], splits, "the data set has no split", str(root))
    shards = [shard for shard in shards if split in (None, shard.split)]
    column = columns.get("image", "")
    folder = cache / digest([[str(s.path.absolute()), *_stamp(s.path)] for s in shards] + [column])[:24]
    try:
        frame, inside = _table(shards, column, root)
        if inside:
            _extract(shards, column, folder, len(frame), tick)
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = " ".join(str(error).split())
        raise Fp2Error(f"the data set cannot be read: {reason}", where=str(root)) from None
    mapped = {"split": "_split", **columns, **({"image": _FILE} if _FILE in frame else {})}
    dataset = frame_people(frame, mapped, folder if inside else root.absolute(), root)
    return Dataset(root.name, None, dataset.people, dataset.notes)


def find_shards(root: Path) -> list[DataShard]:
    """Return the data files below `root` with their splits, in order."""
    if (root / "dataset_dict.json").is_file():
        splits = json.loads((root / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
        return [shard for name in splits for shard in _saved(root / name, name)]
    if (root / "state.json").is_file():
        return _saved(root, "all")
    # of the hub: data/train-00000-of-00002.parquet; of others: train.parquet, train/0.parquet
    parquet = sorted(root.rglob("*.parquet")) if root.is_dir() else []
    if not parquet:
        fix = "data.root is the folder that save_to_disk wrote, or one with Parquet files"
        raise Fp2Error("the folder has no Hugging Face data set", where=str(root), fix=fix)
    return [DataShard(path, _split_of(path, root)) for path in parquet]


def _saved(folder: Path, split: str) -> list[DataShard]:
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        return [DataShard(folder / entry["filename"], split) for entry in state["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Fp2Error(f"the saved data set is damaged: {error}", where=str(folder / "state.json")) from None


def _split_of(path: Path, root: Path) -> str:
    head = path.stem.split("-")[0]
    folders = [name for name in path.relative_to(root).parts[:-1] if name != "data"]
    return folders[-1] if head.isdecimal() and folders else head


def _stamp(path: Path) -> tuple[int, int]:
    try:
        stat = path.stat()
    except OSError as error:
        raise Fp2Error(f"a file of the data set is missing: {error.strerror}", where=str(path)) from None
    return stat.st_size, stat.st_mtime_ns


def _batches(shard: DataShard, only: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in batches; `only` lists the columns to read."""
    if shard.path.suffix == ".parquet":
        with pq.ParquetFile(shard.path) as file:
            yield from file.iter_batches(_BATCH, columns=only)
        return
    with pa.memory_map(str(shard.path)) as source, pa.ipc.open_stream(source) as stream:
        for batch in stream:
            yield batch.select(only) if only else batch


def _schema(shard: DataShard) -> pa.Schema:
    if shard.path.suffix == ".parquet":
        return pq.read_schema(shard.path)
    with pa.memory_map(str(shard.path)) as source, pa.ipc.open_stream(source) as stream:
        return stream.schema


def class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Return the label names of each column of class labels, from the file's `huggingface` metadata."""
    metadata = (schema.metadata or {}).get(b"huggingface")
    features = json.loads(metadata)["info"]["features"] if metadata else {}
    return {
        name: list(feature["names"])
        for name, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    }


def _table(shards: list[DataShard], column: str, root: Path) -> tuple[pd.DataFrame, bool]:
    """Return all columns but the image bytes, with the image files, and whether images are stored inside the files."""
    parts: list[pd.DataFrame] = []
    inside = False
    for shard in shards:
        schema = _schema(shard)
        plain = [field.name for field in schema if not pa.types.is_struct(field.type)]
        frame = pa.Table.from_batches(list(_batches(shard, plain)), pa.schema([schema.field(n) for n in plain]))
        columns = frame.to_pandas()
        for name, names in class_names(schema).items():
            if name in columns:
                columns[name] = [
                    names[int(value)] if value is not None and value >= 0 else None for value in columns[name]
                ]
        if column in schema.names and column not in plain:
            files: list[str] = []  # the name that an image will be extracted to, or the path of one outside
            for image in _images(shard, column):
                if image["bytes"] is None:
                    files.append(str((root / str(image["path"] or "missing")).absolute()))
                else:
                    files.append(_name(shard, len(files), image["bytes"]))
                    inside = True
            columns[_FILE] = files
        elif column in columns:
            columns[_FILE] = columns[column]
        columns["_split"] = shard.split
        columns[ITEM_ROW] = [f"{row} of {shard.path.name}" for row in range(1, len(columns) + 1)]
        parts.append(columns)
    return pd.concat(parts, ignore_index=True), inside


def _images(shard: DataShard, column: str) -> Iterator[Mapping[str, Any]]:
    for batch in _batches(shard, [column]):
        for image in batch.column(0).to_pylist():
            yield image or {"bytes": None, "path": None}


def _name(shard: DataShard, row: int, data: bytes) -> str:
    suffix = next((ending for magic, ending in _MAGIC if data.startswith(magic)), ".img")
    return f"{shard.split}/{shard.path.stem}/{row:06d}{suffix}"


def _extract(shards: list[DataShard], column: str, folder: Path, n_rows: int, tick: Tick) -> None:
    """Write the images from inside the files, unless they are there; the folder is renamed when it is complete."""
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if folder.is_dir():
            return
        building = folder.with_name(f".{folder.name}.building")
        shutil.rmtree(building, ignore_errors=True)
        try:
            rows = ((shard, row, data) for shard in shards for row, data in enumerate(_images(shard, column)))
            for done, (shard, row, image) in enumerate(rows, start=1):
                if image["bytes"] is not None:
                    path = building / _name(shard, row, image["bytes"])
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(image["bytes"])
                tick(done, n_rows)
            building.rename(folder)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
