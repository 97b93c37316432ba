"""The Vendi score of a data set's images, and the embeddings that it is computed from.

The score is the effective number of different items in a set (Friedman and Dieng, "The Vendi score", TMLR 2023): exp of
the Shannon entropy of the eigenvalues of K / n, where K is the similarity matrix (here of cosines, so that K has a unit
diagonal). It is between 1 (all equal) and n (all orthogonal). Order q other than 1 is Renyi's entropy: Pasarkar and
Dieng, "Cousins of the Vendi score" (AISTATS 2024).

Embeddings are the user's file, or those of an encoder of `fp2.methods.dual`, also of images without person or scene.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import Config, Decoding, FloatArray, Fp2Error, Progress, VariantConfig

if TYPE_CHECKING:
    import pandas as pd

    from fp2.methods.dual.encoder import ImageEncoder


@dataclass(frozen=True)
class Vendi:
    """The score of all `n_images` images, and of equal samples: one image each of `sample` subjects.

    The score grows with the number of images, so that only `equal_n` (mean over the samples) compares sets or groups of
    different sizes; `low` and `high` are the 2.5 and 97.5 % quantiles over the samples, drawn without replacement.
    """

    score: float
    n_images: int
    n_subjects: int
    sample: int | None = None
    equal_n: float | None = None
    low: float | None = None
    high: float | None = None


def vendi_score(vectors: ArrayLike, q: float = 1.0) -> float:
    """Return the Vendi score of order `q` of embeddings (n, d) under cosine similarity.

    Raises
    ------
    ValueError
        Without vectors, for one of length 0 or a value that is not finite, or for q below 0.
    """
    x = np.asarray(vectors, dtype=np.float64)
    if x.ndim != 2 or not len(x):
        raise ValueError("embeddings must be a table with one row per image")
    length = np.linalg.norm(x, axis=1, keepdims=True)
    if not np.isfinite(x).all() or (length == 0).any():
        raise ValueError("an embedding is zero or not finite")
    if q < 0:
        raise ValueError(f"the order is {q}, below 0")
    x = x / length
    n, d = x.shape
    # the non-zero eigenvalues of X X' / n and X' X / n are the same
    small = (x.T @ x if d < n else x @ x.T) / n
    weights = np.linalg.eigvalsh(small)
    p = weights[weights > 1e-12]
    p = p / p.sum()
    if q == 1:
        return float(np.exp(-(p * np.log(p)).sum()))
    if np.isinf(q):
        return float(1 / p.max())
    return float((p**q).sum() ** (1 / (1 - q)))


def vendi(
    vectors: ArrayLike,
    subjects: ArrayLike,
    *,
    sample: int | None = None,
    repeats: int = 50,
    seed: int = 0,
    q: float = 1.0,
) -> Vendi:
    """Return the score of all images, and of `repeats` samples of one image each of `sample` subjects.

    vectors (n, d), subjects (n,). Without `sample`, or with fewer subjects, `equal_n` is None.
    """
    x, owners = np.asarray(vectors, dtype=np.float64), np.asarray(subjects, dtype=object)
    names, of = np.unique(owners.astype(str), return_inverse=True)
    whole = vendi_score(x, q)
    if sample is None or sample < 2 or len(names) < sample:
        return Vendi(whole, len(x), len(names))
    rng = np.random.default_rng(seed)
    order = np.argsort(of, kind="stable")
    starts = np.searchsorted(of[order], np.arange(len(names)))
    sizes = np.bincount(of)
    scores = []
    for _ in range(repeats):
        chosen = rng.permutation(len(names))[:sample]
        rows = order[starts[chosen] + rng.integers(0, sizes[chosen])]
        scores.append(vendi_score(x[rows], q))
    low, high = np.quantile(scores, (0.025, 0.975))
    return Vendi(whole, len(x), len(names), sample, float(np.mean(scores)), float(low), float(high))


FIX = "Give an .npz with `image_id` (n) and `embedding` (n, d), or a table with image_id and one column per dimension"


def from_file(path: Path, people: pd.DataFrame) -> tuple[FloatArray, pd.DataFrame]:
    """Return vectors, and the people whose image has one, in the same order."""
    from fp2.extension import number_column, read_table

    where = "task.files.embeddings"
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as held:
                ids, vectors = [str(name) for name in held["image_id"]], np.asarray(held["embedding"], dtype=np.float64)
        else:
            table = read_table(path)
            ids = table["image_id"].astype(str).tolist()
            columns = [number_column(table, name) for name in table.columns if name != "image_id"]
            vectors = np.stack(columns, axis=1)
        if vectors.ndim != 2 or not vectors.size or len(vectors) != len(ids):
            raise ValueError(f"{len(ids)} image ids and vectors of shape {vectors.shape}")
    except Fp2Error as error:
        raise Fp2Error(error.what, where=where, fix=error.fix or FIX) from error
    except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Fp2Error(f"{path.name} cannot be read: {reason}", where=where, fix=FIX) from error
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


def encoder_of(config: Config, store: sqlite3.Connection, *, crop: bool) -> ImageEncoder:
    """Return the encoder that `model` names, a dual encoder or one of images only, whose weights are not loaded yet."""
    from fp2.extension import create
    from fp2.methods.dual.encoder import ImageEncoder
    from fp2.methods.dual.engine import DualEngine
    from fp2.methods.dual.loading import reads_no_text

    dual = create(DualEngine, asdict(config.model), asdict(config.engine), Decoding(), connection=store).encoder
    if reads_no_text(dual.checkpoint):
        return ImageEncoder(dual.spec, dual.options, connection=store, crop=crop)
    dual.identity()
    if not crop:
        what = f"the dual encoder {config.model.name} sees images as its image processor prepares them"
        raise Fp2Error(what, where="task.options.crop", fix="Set it to true, or choose model=seer_regnet_y_320")
    return dual


def from_model(
    encoder: ImageEncoder,
    config: Config,
    people: pd.DataFrame,
    variant: VariantConfig,
    store: sqlite3.Connection,
    progress: Progress,
) -> tuple[FloatArray, pd.DataFrame, dict[str, int]]:
    """Return an encoder's vectors of one image variant, their people, and reason -> number of images without one."""
    from fp2.extension import PixelIndex, show

    first = people.drop_duplicates("image_id")
    pixels = PixelIndex(store).digest_many([Path(path) for path in first["image_path"]], lambda more: None)
    shown = show(first, variant, pixels, Path(config.paths.data) / "shown", progress)
    reasons: dict[str, int] = {}
    rows, vectors = [], []
    visible = [(row, stimulus) for row, stimulus in enumerate(shown) if stimulus.error is None]
    for stimulus in shown:
        if stimulus.error is not None:
            reasons[stimulus.error] = reasons.get(stimulus.error, 0) + 1
    with progress.steps(f"Embedding, {variant.name.replace('_', ' ')}", len(visible)) as step:
        embedded = encoder.embed(stimulus.task(()) for _, stimulus in visible)
        for (row, _), one in zip(visible, embedded, strict=True):
            step()
            if one.vector is None:
                reasons[one.error or "no embedding"] = reasons.get(one.error or "no embedding", 0) + 1
                continue
            rows.append(row)
            vectors.append(one.vector)
    if not vectors:
        raise Fp2Error(
            f"no image could be embedded as {variant.name}", where="task=diversity", fix=next(iter(reasons), "")
        )
    return np.asarray(np.stack(vectors), dtype=np.float64), first.iloc[rows], reasons


def describe_model(config: Config) -> Mapping[str, Any]:
    """Return the encoder as results name it."""
    return {"name": config.model.name, "id": str(config.model.id or config.model.name), "engine": "dual"}
