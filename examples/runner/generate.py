"""A model and a prompt become tokens and the host times of the stages, under NVTX ranges."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from runner.ranges import OFF, Ranges

Tokens = npt.NDArray[np.int64]
"""Token ids, shape (batch, tokens)."""


class LanguageModel(Protocol):
    """What a backend provides. `token` and `cache` are its own types, opaque to the caller."""

    backend: str
    """`torch` or `numpy`."""
    device: str
    """Where it runs, for instance `cuda:0`."""
    device_name: str | None
    """What that device calls itself, where it has a name."""
    dtype: str
    """Type of the weights, for instance `bfloat16`."""
    parameters: int
    """Number of weights."""
    vocab_size: int
    """Token ids are below this."""

    def place(self, prompt: Tokens) -> Any:
        """Put `prompt`, shape (batch, tokens), where the model runs."""

    def prefill(self, prompt: Any, new_tokens: int) -> tuple[Any, Any]:
        """Return the greedy next token of each sequence, and a cache with room for `new_tokens`."""

    def decode_step(self, token: Any, cache: Any) -> tuple[Any, Any]:
        """Return the greedy token after `token`, and the cache with `token` in it."""

    def synchronize(self) -> None:
        """Wait until everything asked for so far is computed."""

    def collect(self, tokens: list[Any]) -> Tokens:
        """Bring tokens, one per step, back to the host: shape (batch, steps)."""


@dataclass(frozen=True)
class Generation:
    """One repeat: what came out, and how long the host waited for it."""

    tokens: Tokens
    """The token from prefill and one from each decode step: shape (batch, 1 + steps)."""
    prefill_host_ns: int
    decode_host_ns: int


def generate(
    model: LanguageModel, prompt: Tokens, new_tokens: int, ranges: Ranges, steps: bool = False
) -> Generation:
    """Run prefill and `new_tokens` decode steps on `prompt`, shape (batch, tokens).

    Everything is computed when a range closes, so that GPU work cannot leak from one stage's
    time into the next. Copies to and from the device stay outside the ranges.
    """
    step_ranges = ranges if steps else OFF
    placed = model.place(prompt)
    model.synchronize()

    start = time.perf_counter_ns()
    with ranges.open("prefill"):
        token, cache = model.prefill(placed, new_tokens)
        model.synchronize()
    prefilled = time.perf_counter_ns()
    tokens = [token]
    with ranges.open("decode"):
        for _ in range(new_tokens):
            with step_ranges.open("step"):
                token, cache = model.decode_step(token, cache)
            tokens.append(token)
        model.synchronize()
    decoded = time.perf_counter_ns()

    return Generation(model.collect(tokens), prefilled - start, decoded - prefilled)
