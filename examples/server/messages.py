"""What goes through the pipes between the server's process and the engine's.

Times are nanoseconds of the monotonic clock, which both processes share.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Submit:
    """To the engine: generate `max_tokens` tokens after `prompt`."""

    number: int
    prompt: tuple[int, ...]
    max_tokens: int


@dataclass(frozen=True)
class Cancel:
    """To the engine: nobody waits for this request any more."""

    number: int


@dataclass(frozen=True)
class Stop:
    """To the engine: refuse what is open, and end."""


ToEngine = Submit | Cancel | Stop


@dataclass(frozen=True)
class Ready:
    """From the engine, first: it serves, with this model."""

    model: str
    backend: str
    """`numpy` or `torch`."""
    device: str
    """Where the model runs, for instance `cuda:0`."""
    gpu: str
    """What the GPU calls itself; `off` without GPU work."""
    decode: str
    """`graphs` or `eager`; `cpu` without GPU work."""
    nvtx: str
    """Which package opens the ranges; `off` without."""
    parameters: int
    capacity: int
    """Positions of a slot: prompt and generated tokens together."""


@dataclass(frozen=True)
class Broken:
    """From the engine, last: it cannot go on, or could not start."""

    reason: str


@dataclass(frozen=True)
class Generated:
    """One token of a request."""

    number: int
    token: int
    is_last: bool


@dataclass(frozen=True)
class Tokens:
    """From the engine: what a prefill or a decode step gave."""

    generated: tuple[Generated, ...]
    at_ns: int


@dataclass(frozen=True)
class Refused:
    """From the engine: a request that it will not finish."""

    number: int
    reason: str


FromEngine = Ready | Broken | Tokens | Refused
