"""When which requests are sent: open arrivals of a Poisson process, drawn before anything is sent.

Arrivals do not wait for answers. A slow server meets the same load as a fast one, so that its
latency shows in full.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

FORMS = "N, uniform:LOW:HIGH, or lognormal:MEDIAN:SIGMA"


class PlanError(ValueError):
    """A text of the command line that is not understood."""


@dataclass(frozen=True)
class Lengths:
    """A distribution of numbers of tokens."""

    kind: str
    first: float
    second: float

    @staticmethod
    def read(text: str) -> Lengths:
        """Read one of `FORMS`, or raise `PlanError`."""
        kind, *words = text.split(":")
        if not words:
            kind, words = "fixed", [kind, kind]
        try:
            first, second = map(float, words)
        except ValueError:
            raise PlanError(f"`{text}` is no length; give {FORMS}") from None
        least = 0.0 if kind == "lognormal" else first
        good = {"fixed": True, "uniform": True, "lognormal": second <= 4}.get(kind, False)
        if not good or not 1 <= first <= 1e6 or not least <= second <= 1e6:
            raise PlanError(f"`{text}` is no length; give {FORMS}")
        return Lengths(kind, first, second)

    def draw(self, source: random.Random) -> int:
        """Draw a length, 1 or more."""
        if self.kind == "lognormal":
            value = self.first * math.exp(self.second * source.gauss(0, 1))
            return max(1, round(min(value, 1e6)))
        return source.randint(round(self.first), round(self.second))


@dataclass(frozen=True)
class Planned:
    """One request that is to be sent."""

    number: int
    at_s: float
    """Seconds after the start of the load."""
    phase: str
    prompt_tokens: int
    max_tokens: int


@dataclass(frozen=True)
class Mark:
    """A phase begins."""

    at_s: float
    name: str


def read_mark(text: str) -> Mark:
    """Read `SECONDS=NAME`, or raise `PlanError`."""
    seconds, equals, name = text.partition("=")
    at_s = _seconds(seconds)
    if not equals or not name or at_s is None:
        raise PlanError(f"`{text}` is no mark; give SECONDS=NAME, for instance 5=profiled")
    return Mark(at_s, name)


@dataclass(frozen=True)
class Command:
    """A command to run."""

    at_s: float
    words: str
    """For the shell."""


def read_command(seconds: str, words: str) -> Command:
    """Read the two words of `--at`, or raise `PlanError`."""
    at_s = _seconds(seconds)
    if at_s is None or not words.strip():
        raise PlanError(f"`--at {seconds} {words!r}`: give seconds and a command for the shell")
    return Command(at_s, words)


def plan(
    rate: float,
    duration_s: float,
    prompt: Lengths,
    output: Lengths,
    marks: list[Mark],
    seed: int,
    most: int | None = None,
) -> list[Planned]:
    """Draw the requests of `duration_s` seconds at `rate` a second, `most` at most.

    The same seed gives the same requests. Times and lengths come from generators of their own: so
    other lengths leave the times as they are.
    """
    times, lengths = random.Random(f"{seed} times"), random.Random(f"{seed} lengths")
    planned: list[Planned] = []
    at_s = times.expovariate(rate)
    while at_s < duration_s and (most is None or len(planned) < most):
        tokens = prompt.draw(lengths), output.draw(lengths)
        planned.append(Planned(len(planned) + 1, at_s, phase_at(at_s, marks), *tokens))
        at_s += times.expovariate(rate)
    return planned


def phase_at(at_s: float, marks: list[Mark]) -> str:
    """Return the name of the phase: that of the last mark so far, `all` before the first."""
    begun = [mark for mark in sorted(marks, key=lambda mark: mark.at_s) if mark.at_s <= at_s]
    return begun[-1].name if begun else "all"


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= 1e6 else None
