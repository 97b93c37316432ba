"""The images of a run: of one person or of two, by id, whole counterfactual sets, or a seeded sample of whole subjects.

The order in which subjects are sampled depends on the seed and on the subjects only, not on the order of the rows, so
that a larger sample contains a smaller one and only new questions are put to the model.

Counterfactual sets are images of one scene that differ in one attribute, compared within the set only. A set varies in
a cut if its images are in at least two of the cut's groups, its *versions* (`fp2.cuts.varying`). Sets that vary in no
cut of a run are left out of it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fp2.cuts import Cut, memberships, varying
from fp2.errors import Fp2Error
from fp2.notes import NoteKind, Stage
from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns
from fp2.text import normal_id, plural

LEFT, RIGHT = "left", "right"
_APART = 0.1  # share of the narrower box's width: centres that are closer do not determine who is on the left


def single_person(people: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the rows of images with one person, and a note if others were left out.

    "This person" is ambiguous in an image of two people, so that such images never enter single-person probes.
    """
    alone = people["n_people"] <= 1
    if alone.all():
        return people, ()
    n_images = people.loc[~alone, "image_id"].nunique()
    note = f"Images of two or more people were left out: {n_images:,}. The questions are about one person."
    return people[alone].reset_index(drop=True), (note,)


def two_person(people: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the two rows of each image of two people, with their `side`, and notes on what was left out.

    The sides are determined by the centres of the person boxes. An image is left out if it shows fewer or more than
    two people, if the data set has only one of them, or if the boxes are missing or do not determine the sides.

    Returns
    -------
    (DataFrame, notes)
        The rows in their order; `side` is `left` or `right`.
    """
    sizes = people.groupby("image_id")["n_people"].transform("size")
    single = int(people.loc[people["n_people"] != 2, "image_id"].nunique())
    both_listed = (people["n_people"] == 2) & (sizes == 2)
    alone = int(people.loc[(people["n_people"] == 2) & ~both_listed, "image_id"].nunique())
    middle = people["box_x"] + people["box_w"] / 2
    by_image = middle[both_listed].groupby(people.loc[both_listed, "image_id"])
    apart = by_image.max() - by_image.min()
    narrow = people[both_listed].groupby("image_id")["box_w"].min()
    area = (people["box_w"] * people["box_h"])[both_listed].groupby(people.loc[both_listed, "image_id"]).min()
    missing = by_image.apply(lambda middles: bool(middles.isna().any())) | ~(area > 0)
    clear = (apart > _APART * narrow) & ~missing
    is_taken = both_listed & people["image_id"].isin(clear.index[clear])
    pairs = people[is_taken].reset_index(drop=True)
    centre = middle[is_taken].reset_index(drop=True)
    mean = centre.groupby(pairs["image_id"]).transform("mean")
    pairs["side"] = np.where(centre < mean, LEFT, RIGHT)
    counts = {
        "Images of other than two people were left out: {}. The questions are about two people.": single,
        "Images of two people of whom the data have only one were left out: {}.": alone,
        "Images of two people whose boxes do not determine who is on the left were left out: {}.": int((~clear).sum()),
    }
    return pairs, tuple(message.format(f"{n:,}") for message, n in counts.items() if n)


def one_row_each(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per image: that of the primary person, or else of the person on the left."""
    order = pairs.assign(_rank=~pairs["is_primary"] * 2 + (pairs["side"] == RIGHT))
    first = order.sort_values(["image_id", "_rank"], kind="stable").drop_duplicates("image_id").index
    return pairs.loc[sorted(first)].reset_index(drop=True)


def limit_people(
    people: pd.DataFrame, n_images: int | None, *, seed: int, by: Sequence[str] | None = None, offset: int = 0
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the rows of a sample of at most `n_images` images, and notes on what the sample lacks.

    Whole subjects are sampled, in an order that `seed` draws; only the last subject may have fewer images than the data
    set, so that the count is met. With `by` (one or more attributes) the sample is stratified: the next subject is
    always of the group with the fewest images so far. A group is a combination of values; a subject with several values
    is in each of their groups, and subjects without a value are left out. The first `offset` images of the order are
    skipped. Rows keep their order in `people`.
    """
    if (n_images is not None and n_images < 1) or offset < 0:
        raise Fp2Error(f"a sample needs at least 1 image and an offset of at least 0, not {n_images} and {offset}")
    images = {str(subject): sorted(set(ids)) for subject, ids in people.groupby("subject_id")["image_id"]}
    groups = _groups(people, by)
    order = _subject_order(images, groups, seed)
    chosen = list(dict.fromkeys(image for subject in order for image in images[subject]))
    if offset and offset >= len(chosen):
        raise Fp2Error(f"the offset skips all {len(chosen)} images", where="data.offset", fix="Give a smaller offset")
    chosen = chosen[offset : None if n_images is None else offset + n_images]
    notes = _notes(people, set(chosen), groups, n_images, by)
    return people[people["image_id"].isin(chosen)].reset_index(drop=True), notes


def limit_images(people: pd.DataFrame, n_images: int, *, seed: int) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the rows of a simple random sample of images, in the order of their paths; a note if there are fewer.

    `seed` draws places in the sorted list of paths without replacement, as numpy's `Generator.choice` does, so that
    other code that draws this way gets the same images. A larger sample need not contain a smaller one.
    """
    images = people.drop_duplicates("image_id")
    paths = sorted(zip(map(Path, images["image_path"]), images["image_id"], strict=True))
    if n_images > len(paths):
        return people, (f"{n_images} images were requested, {len(paths)} are available",)
    chosen_indices = np.random.default_rng(seed).choice(len(paths), size=n_images, replace=False)
    chosen = {paths[index][1] for index in chosen_indices}
    return people[people["image_id"].isin(chosen)].reset_index(drop=True), ()


def pick_images(people: pd.DataFrame, image_ids: Sequence[str]) -> pd.DataFrame:
    """Return the rows of the images with these ids."""
    unknown = sorted(set(image_ids) - set(people["image_id"]))
    if unknown:
        are = plural(len(unknown), "image id is", "image ids are")
        raise Fp2Error(f"{are} not in the data set, such as {unknown[0]!r}", where="data.ids")
    return people[people["image_id"].isin(image_ids)].reset_index(drop=True)


def read_ids(ids_or_path: str | Sequence[str]) -> list[str]:
    """Return the image ids of a list, or of a text file (its path is given) with one id per line and `#` comments."""
    if isinstance(ids_or_path, str):
        try:
            rows = Path(ids_or_path).expanduser().read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise Fp2Error(f"the list of image ids cannot be read: {error}", where="data.ids") from None
        ids_or_path = [row for row in rows if row.strip() and not row.startswith("#")]
    ids = list(dict.fromkeys(map(normal_id, ids_or_path)))
    if not ids:
        raise Fp2Error("no image id is given", where="data.ids", fix="One id per line, or data.ids=[ID,...]")
    return ids


def _groups(people: pd.DataFrame, by: Sequence[str] | None) -> dict[str, list[str]]:
    """Return group -> its subjects; without `by`, one group of all subjects."""
    if not by:
        return {"": sorted(set(people["subject_id"]))}
    table = memberships(people, Cut("sample", tuple(by)))
    return {str(group): sorted(set(subjects)) for group, subjects in table.groupby("group")["subject_id"]}


def _subject_order(images: dict[str, list[str]], groups: dict[str, list[str]], seed: int) -> list[str]:
    """Return every grouped subject once: the next one is always of the group with the fewest images so far."""
    rng = np.random.default_rng(seed)
    names = sorted(groups)
    queues = {name: deque(groups[name][row] for row in rng.permutation(len(groups[name]))) for name in names}
    member_of: dict[str, list[str]] = {}
    for name in names:
        for subject in groups[name]:
            member_of.setdefault(subject, []).append(name)
    counts = dict.fromkeys(names, 0)
    order: dict[str, None] = {}
    while queues:
        name = min(queues, key=lambda group: (counts[group], group))
        queue = queues[name]
        while queue and queue[0] in order:
            queue.popleft()
        if not queue:
            del queues[name]
            continue
        subject = queue.popleft()
        order[subject] = None
        for group in member_of[subject]:
            counts[group] += len(images[subject])
    return list(order)


def _notes(
    people: pd.DataFrame, chosen: set[str], groups: dict[str, list[str]], n_images: int | None, by: Sequence[str] | None
) -> tuple[str, ...]:
    """Return notes on the sample: fewer images than asked for, unequal shares, subjects without a value."""
    notes = []
    if n_images is not None and len(chosen) < n_images:
        notes.append(f"{n_images} images were requested, {len(chosen)} are available")
    if not by:
        return tuple(notes)
    name = " x ".join(by)
    ungrouped = people["subject_id"].nunique() - len(set().union(*groups.values()))
    if ungrouped:
        notes.append(f"{plural(ungrouped, 'subject')} without a value for {name} left out of the sample")
    sample = people[people["image_id"].isin(chosen)]
    counts: Counter[str] = Counter(memberships(sample, Cut("sample", tuple(by)))["group"])
    largest = max(counts.values(), default=0)
    per_subject = people.groupby("subject_id")["image_id"].nunique().max()
    short = [f"{group} {counts[group]}" for group in sorted(groups) if counts[group] + per_subject < largest]
    if short:
        more = f" and {len(short) - 8} groups more" if len(short) > 8 else ""
        notes.append(
            f"the groups of {name} are not of equal size (up to {largest} images): {', '.join(short[:8])}{more}"
        )
    return tuple(notes)


COMMON = 0.05
"""Another attribute is reported as varying with a cut if it varies in more than this share of the cut's sets."""
SETS_ALSO_VARY = NoteKind(
    "sets_also_vary",
    Stage.DATA,
    "the sets that vary in {cut} also vary in {others}: differences within them cannot be attributed to one of these "
    "alone",
)


def whole_sets(people: pd.DataFrame, cuts: Sequence[Cut]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the rows of the sets that vary in a cut, and notes on what was left out and which attributes vary too."""
    alone = people["set_id"].isna()
    notes: list[str] = []
    if alone.any():
        notes.append(f"{plural(people.loc[alone, 'image_id'].nunique(), 'image')} of no set left out")
    sets = people[~alone]
    by_cut = {cut.name: varying(sets, cut) for cut in cuts}
    varying_sets = {name for rows in by_cut.values() for name in rows["set_id"]}
    if not varying_sets:
        raise Fp2Error(
            f"no counterfactual set varies in {', '.join(cut.name for cut in cuts)}",
            where="cut",
            fix=f"The sets vary in: {', '.join(_varied(sets)) or 'nothing'}",
        )
    if dropped := sets["set_id"].nunique() - len(varying_sets):
        notes.append(f"{plural(dropped, 'set')} without variation in any of the cuts left out")
    for cut in cuts:
        also = [name for name in _varied(by_cut[cut.name], COMMON) if name not in cut.by]
        if also:
            notes.append(SETS_ALSO_VARY(cut=cut.name, others=also))
    return people[people["set_id"].isin(varying_sets)].reset_index(drop=True), tuple(notes)


def _varied(people: pd.DataFrame, share: float = 0.0) -> list[str]:
    """Return the attributes that differ within more than `share` of the sets."""
    varied = []
    for name in attribute_columns(people):
        labels = people[ATTRIBUTE_PREFIX + name].map(lambda cell: tuple(sorted(cell)))
        versions = labels.groupby(people["set_id"]).nunique()
        if len(versions) and (versions > 1).mean() > share:
            varied.append(name)
    return varied


def units(people: pd.DataFrame) -> pd.Series[str]:
    """Return for each row its independent unit: sets that share a subject, directly or over others, are one unit.

    Units are the connected components of the graph of sets and subjects; each is named by the first of its sets in
    alphabetical order.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    sets, names = pd.factorize(people["set_id"].astype("str"), sort=True)
    subjects, ids = pd.factorize(people["subject_id"])
    size = len(names) + len(ids)
    edges = coo_array((np.ones(len(people)), (sets, len(names) + subjects)), shape=(size, size))
    _, component = connected_components(edges, directed=False)
    first = pd.Series(sets).groupby(component[sets]).transform("min")
    return pd.Series(names[first], index=people.index, dtype="str")
