"""NVTX for the engine: push/pop ranges of its steps, start/end ranges of its requests.

The package `nvtx` comes first, because its ranges carry a payload. The functions of PyTorch take a
name only; with them the ranges of requests cannot be told apart. All are in the default domain.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

log = logging.getLogger("server")


@dataclass(frozen=True)
class Ranges:
    """Opens and closes ranges through one provider of NVTX."""

    provider: str
    """`nvtx` (the package of that name), `torch.cuda.nvtx` or `off`."""
    push: Callable[[str, int | None], object]
    """Opens a range of this thread, with a number as payload."""
    pop: Callable[[], object]
    start: Callable[[str, int], Any]
    """Opens a range that any thread may end, with a number as payload; returns its handle."""
    end: Callable[[Any], object]

    @contextlib.contextmanager
    def open(self, name: str, payload: int | None = None) -> Iterator[None]:
        """Keep the range `name` open for the body, also when the body raises."""
        self.push(name, payload)
        try:
            yield
        finally:
            self.pop()


OFF = Ranges(
    "off",
    push=lambda _name, _payload: None,
    pop=lambda: None,
    start=lambda _name, _number: None,
    end=lambda _handle: None,
)
"""Ranges that nobody sees."""


def choose(which: str) -> Ranges:
    """Return the ranges of the package nvtx, else of PyTorch, else `OFF` and one line that says so.

    `which` is `all`, `steps` (requests get no ranges) or `off`. Call it in the process that opens
    the ranges: NVTX attaches to a tool at its first call.
    """
    if which == "off":
        return OFF
    reasons = []
    for provider in (_of_nvtx, _of_torch):
        try:
            found = provider()
            return found if which == "all" else replace(found, start=OFF.start, end=OFF.end)
        except (ImportError, AttributeError, RuntimeError) as error:
            reasons.append(str(error))
    log.warning(
        "no NVTX ranges, so a profiler cannot tell the stages apart: %s; "
        "run: python -m pip install nvtx",
        "; ".join(reasons),
    )
    return OFF


def _of_nvtx() -> Ranges:
    nvtx = importlib.import_module("nvtx")
    return Ranges(
        "nvtx",
        push=lambda name, payload: nvtx.push_range(name, payload=payload),
        pop=nvtx.pop_range,
        start=lambda name, number: nvtx.start_range(name, payload=number),
        end=nvtx.end_range,
    )


def _of_torch() -> Ranges:
    nvtx = importlib.import_module("torch.cuda.nvtx")
    # Without CUDA its functions raise RuntimeError: better now than at the first request.
    nvtx.range_push("server")
    nvtx.range_pop()
    return Ranges(
        "torch.cuda.nvtx",
        push=lambda name, _payload: nvtx.range_push(name),
        pop=nvtx.range_pop,
        start=lambda name, _number: nvtx.range_start(name),
        end=nvtx.range_end,
    )
