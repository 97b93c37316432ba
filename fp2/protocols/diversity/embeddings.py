"""Embeddings of a data set's images: the user's file, or a dual encoder's, also of images without person or scene."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from fp2.config import Config, VariantConfig
from fp2.errors import Fp2Error
from fp2.progress import Progress
from fp2.tables import Decoding

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
FIX = "Give an .npz with `image_id` (n) and `embedding` (n, d), or a table with image_id and one column per dimension"


def from_file(path: Path, people: pd.DataFrame) -> tuple[Floats, pd.DataFrame]:
    """Return vectors, and the people whose image has one, in the same order.

    Raises
    ------
    Fp2Error
        If the file cannot be read, has two vectors of one image, or none of an image of the people.
    """
    ids, vectors = _read(path)
    where = "task.files.embeddings"
    if len(set(ids)) < len(ids):
        raise Fp2Error("an image has two embeddings", where=where, fix="Keep one row per image_id")
    place = {name: row for row, name in enumerate(ids)}
    kept = people[people["image_id"].isin(place)].drop_duplicates("image_id")
    if kept.empty:
        raise Fp2Error("no embedding is of an image of the data set", where=where, fix="Compare the image ids")
    found = vectors[[place[name] for name in kept["image_id"]]]
    if not np.isfinite(found).all() or not np.linalg.norm(found, axis=1).all():
        raise Fp2Error("an embedding is zero or not finite", where=where)
    return found, kept


def _read(path: Path) -> tuple[list[str], Floats]:
    import pandas as pd

    where = "task.files.embeddings"
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as held:
                ids, vectors = [str(name) for name in held["image_id"]], np.asarray(held["embedding"], dtype=np.float64)
        else:
            table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, dtype={"image_id": str})
            ids, vectors = table["image_id"].astype(str).tolist(), table.drop(columns="image_id").to_numpy(np.float64)
        if vectors.ndim != 2 or not vectors.size or len(vectors) != len(ids):
            raise ValueError(f"{len(ids)} image ids and vectors of shape {vectors.shape}")
        return ids, vectors
    except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Fp2Error(f"{path.name} cannot be read: {reason}", where=where, fix=FIX) from error


def from_model(
    config: Config, people: pd.DataFrame, kind: str, store: sqlite3.Connection, progress: Progress
) -> tuple[Floats, pd.DataFrame, dict[str, int]]:
    """Return the dual encoder's vectors of one image variant, their people, and reason -> number of images without one.

    Raises
    ------
    Fp2Error
        If the model is not a dual encoder, cannot be loaded, or embeds no image.
    """
    from fp2.ask.plan import show
    from fp2.data.pixels import PixelIndex
    from fp2.engines.build import create
    from fp2.engines.dual.engine import DualEngine

    first = people.drop_duplicates("image_id")
    pixels = PixelIndex(store).digest_many([Path(path) for path in first["image_path"]], lambda more: None)
    shown = show(first, VariantConfig(name=kind, kind=kind), pixels, Path(config.paths.data) / "shown", progress)
    engine = create(DualEngine, asdict(config.model), asdict(config.engine), Decoding(), connection=store)
    reasons: dict[str, int] = {}
    rows, vectors = [], []
    visible = [(row, stimulus) for row, stimulus in enumerate(shown) if stimulus.error is None]
    for stimulus in shown:
        if stimulus.error is not None:
            reasons[stimulus.error] = reasons.get(stimulus.error, 0) + 1
    with progress.steps(f"Embedding, {kind.replace('_', ' ')}", len(visible)) as step:
        embedded = engine.encoder.embed(stimulus.task(()) for _, stimulus in visible)
        for (row, _), one in zip(visible, embedded, strict=True):
            step()
            if one.vector is None:
                reasons[one.error or "no embedding"] = reasons.get(one.error or "no embedding", 0) + 1
                continue
            rows.append(row)
            vectors.append(one.vector)
    if not vectors:
        raise Fp2Error(f"no image could be embedded as {kind}", where="task=diversity", fix=next(iter(reasons), ""))
    return np.asarray(np.stack(vectors), dtype=np.float64), first.iloc[rows], reasons


def describe_model(config: Config) -> Mapping[str, Any]:
    """Return the dual encoder as results name it."""
    return {"name": config.model.name, "id": str(config.model.id or config.model.name), "engine": "dual"}
