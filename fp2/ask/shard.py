"""Shards: the planned questions split by image, so that several machines each ask one part.

What shows the same pixels is in one shard, whatever else is planned: a shard stays the same when images are added, and
no two shards ask the same question.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fp2.errors import Fp2Error

if TYPE_CHECKING:
    from fp2.tables import ImageTask


@dataclass(frozen=True)
class Shard:
    """The part `part` (from 1) of `of`."""

    part: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Shard:
        """Return the shard that `i/n` names; None is all.

        Raises
        ------
        Fp2Error
            If it is something else, or i is not from 1 to n.
        """
        if text is None:
            return cls()
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise Fp2Error(f"{text!r} is not a shard", where="shard", fix="Give i/n with i from 1 to n, such as 1/4")
        return cls(int(match[1]), int(match[2]))

    def has(self, task: ImageTask) -> bool:
        """Whether a stimulus is in this shard."""
        mark = hashlib.sha256(task.pixel_sha256.encode()).digest()
        return int.from_bytes(mark[:8], "big") % self.of == self.part - 1

    def __str__(self) -> str:
        return f"{self.part}/{self.of}"
