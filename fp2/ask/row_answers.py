"""Answers with a row each: text, or the numbers of a scored question (`fp2.tables.ANSWERS`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.store.keys import response_set
from fp2.tables import ANSWERS, CONTROLS

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut

_DTYPES = {"string": "str", "int64": "int64", "float64": "float64", "bool": "bool"}


@dataclass(frozen=True)
class RowAnswers:
    """The answers table, with the flag `refused` once it was scored (see `fp2.ask.answers.Answers`)."""

    frame: pd.DataFrame

    @classmethod
    def none(cls) -> RowAnswers:
        """Return the empty table of a run that asked no model."""
        import pandas as pd

        empty = {column.name: pd.Series([], dtype=_DTYPES[column.type]) for column in ANSWERS.columns}
        return cls(pd.DataFrame({**empty, "refused": pd.Series([], dtype="bool")}))

    @property
    def answered(self) -> pd.DataFrame:
        """The rows with an answer."""
        return self.frame[self.frame["status"] == "answered"]

    @property
    def n_planned(self) -> int:
        """How many answers were planned."""
        return len(self.frame)

    def counts(self, model_calls: int) -> dict[str, int]:
        """Return planned, answered, refused, failed and cached answers, and the model calls."""
        answered = self.frame["status"] == "answered"
        return {
            "planned": len(self.frame),
            "answered": int(answered.sum()),
            "refused": int(self.frame["refused"].sum()),
            "failed": len(self.frame) - int(answered.sum()),
            "cached": int((self.frame["cached"] & answered).sum()),
            "model_calls": model_calls,
        }

    def counts_by_group(self, people: pd.DataFrame, cuts: Sequence[Cut]) -> list[dict[str, Any]]:
        """Return planned, answered, refused and failed answers per cut and group."""
        from fp2.cuts import memberships, varying

        table = self.frame[["image_id", "subject_id", "status", "refused"]].copy()
        table["failed"] = table["status"] != "answered"
        keys = ["image_id", "subject_id"]
        if (people["n_people"] == 2).any():  # one answer about two people counts for both
            table, keys = table.drop(columns="subject_id"), ["image_id"]
        out: list[dict[str, Any]] = []
        for cut in cuts:
            merged = table.merge(memberships(varying(people, cut), cut), on=keys)
            for group, part in merged.groupby("group", sort=True):
                failed = int(part["failed"].sum())
                counts = {"planned": len(part), "answered": len(part) - failed}
                counts |= {"refused": int(part["refused"].sum()), "failed": failed}
                out.append({"cut": cut.name, "group": str(group), **counts})
        return out

    def refusal_rates(self) -> list[dict[str, Any]]:
        """Return per probe the share of refusals among its answers."""
        grouped = self.answered.groupby("probe", sort=False)["refused"]
        return [{"probe": probe, "n": len(part), "rate": float(part.mean())} for probe, part in grouped]

    def diversity(self, probes: Sequence[str]) -> list[dict[str, Any]]:
        """Return per probe the number of distinct answers, their entropy (bits), and whether they are uninformative."""
        from fp2.stats.entropy import response_diversity

        answered = self.answered
        texts = {probe: answered.loc[answered["probe"] == probe, "text"].tolist() for probe in probes}
        return [{"probe": probe, **asdict(response_diversity(found))} for probe, found in texts.items()]

    def examples(self, per_probe: int) -> list[dict[str, Any]]:
        """Return the most frequent distinct answers of each probe, with their counts."""
        out: list[dict[str, Any]] = []
        for probe, part in self.answered.groupby("probe", sort=False):
            counts = part["text"].value_counts().head(per_probe)
            out += [{"probe": str(probe), "text": str(text), "count": int(n)} for text, n in counts.items()]
        return out

    def keyed(self, salt: bytes) -> RowAnswers:
        """Return the answers with salted keys in place of ids and response keys."""
        from fp2.store.salted_keys import keyed_frame

        return RowAnswers(keyed_frame(self.frame, salt))

    def keys_of(self, images: Collection[str]) -> set[str]:
        """Return the keys of the answers about these images."""
        filed = self.frame["image_id"].isin(images) & ~self.frame["variant"].isin(CONTROLS)
        return set(self.frame.loc[filed, "response_key"])

    def without(self, images: Collection[str], keys: Collection[str]) -> RowAnswers:
        """Return the answers that are neither filed under one of `images` nor stored under one of `keys`."""
        gone = self.frame["image_id"].isin(images) | self.frame["response_key"].isin(keys)
        return RowAnswers(self.frame[~gone].reset_index(drop=True))

    def stored_keys(self) -> list[str]:
        """Return the response keys, without repeats."""
        return list(dict.fromkeys(self.frame["response_key"]))

    def response_set(self, raw_keys: Mapping[str, str]) -> str:
        """Return the digest of the response keys that `raw_keys` maps the salted ones to."""
        return response_set(raw_keys[key] for key in self.stored_keys())

    def write(self, folder: Path) -> None:
        """Write `responses.parquet`."""
        artifacts.write_parquet(folder / artifacts.RESPONSES, self.frame)
