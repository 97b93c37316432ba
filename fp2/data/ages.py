"""Age groups: decades of adults, as FHIBE has them."""

from __future__ import annotations

AGE_GROUPS: tuple[str, ...] = ("18-29", "30-39", "40-49", "50-59", "60+")


def age_group(age: int) -> str | None:
    """Return the age group of `age` in years (`'18-29'` .. `'60+'`), or None below 18: FHIBE has adults only."""
    if age < 18:
        return None
    return AGE_GROUPS[min(max(age, 20) // 10 - 2, 4)]
