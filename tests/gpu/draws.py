"""Processes that were measured -> a number, and how far other draws of the processes move it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

DRAWS = 4000
"""Times that processes are drawn anew, with replacement, for an interval."""


class Interval(NamedTuple):
    """A number, and the bounds of 95 % of those of other draws of the processes."""

    asked: float
    low: float
    high: float

    def text(self, form: str) -> str:
        """Put it into a cell, each number in the form of `format()`."""
        return f"{self.asked:{form}} ({self.low:{form}} to {self.high:{form}})"


def interval(
    groups: Sequence[Sequence[Any]], statistic: Callable[..., float | None]
) -> Interval | None:
    """Draw each group of processes anew, and say where the statistic of all groups lies.

    `None` where the statistic has no value for what was measured; in a draw it is infinite then.
    """
    asked = statistic(*groups)
    if asked is None:
        return None
    chance = random.Random(1)
    drawn = []
    for _ in range(DRAWS):
        found = statistic(*(chance.choices(group, k=len(group)) for group in groups))
        drawn.append(math.inf if found is None else found)
    drawn.sort()
    return Interval(asked, drawn[DRAWS // 40], drawn[-DRAWS // 40 - 1])


def quotient(untraced: float, floor: float, other: float) -> float | None:
    """Divide what the other costs by what the floor does; `None` where that costs nothing."""
    return (other - untraced) / (floor - untraced) if floor > untraced else None
