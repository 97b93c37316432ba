"""Resize a picture once, however many prompts are written beside it.

A processor runs its image processor anew for every prompt. `OncePerPicture` stands in its place and keeps what came out
for the last picture. A picture always goes through alone, so nothing of it depends on the company it would be in.
"""

from __future__ import annotations

from typing import Any


class OncePerPicture:
    """An image processor that remembers its last picture until `forget`; every other attribute is the inner one's."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._kept: tuple[Any, dict[str, Any], Any] | None = None  # the picture is held too: its id is not given anew

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def forget(self) -> None:
        """Drop the picture."""
        self._kept = None

    def __call__(self, images: Any, *args: Any, **options: Any) -> Any:
        """Return what the inner processor returns for `images`: one picture, perhaps in a list, or in a list in one."""
        picture = images
        while isinstance(picture, list) and len(picture) == 1:
            picture = picture[0]
        if args or isinstance(picture, list):
            return self._inner(images, *args, **options)
        if self._kept is None or self._kept[0] is not picture or self._kept[1] != options:
            self._kept = (picture, dict(options), self._inner(images, **options))
        found = self._kept[2]
        return type(found)(found)  # a processor may take things out of it
