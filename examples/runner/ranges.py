"""A request for NVTX becomes a pair of push and pop functions, or none with the reason.

Ranges are push/pop ranges in NVTX's default domain, on the calling thread.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

log = logging.getLogger("runner")


@dataclass(frozen=True)
class Ranges:
    """Opens and closes ranges through one provider of NVTX."""

    provider: str
    """`torch.cuda.nvtx`, `nvtx` (the package of that name) or `off`."""
    push: Callable[[str], object]
    pop: Callable[[], object]

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[None]:
        """Keep the range `name` open for the body, also when the body raises."""
        self.push(name)
        try:
            yield
        finally:
            self.pop()


OFF = Ranges("off", push=lambda _name: None, pop=lambda: None)
"""Ranges that nobody sees."""


def choose(enable: bool, torch: ModuleType | None) -> Ranges:
    """Return the ranges of `torch` if it was built with CUDA, else of the package nvtx, else `OFF`.

    `torch` is the imported module when the model runs on it: importing it only for its ranges
    would cost seconds.
    """
    if not enable:
        return OFF
    if torch is not None and torch.version.cuda is not None:
        of_torch = torch.cuda.nvtx
        return Ranges("torch.cuda.nvtx", push=of_torch.range_push, pop=of_torch.range_pop)
    try:
        import nvtx
    except ImportError as error:
        log.warning(
            "no NVTX ranges, so a profiler cannot tell the stages apart: %s; "
            "run: python -m pip install nvtx",
            error,
        )
        return OFF
    return Ranges("nvtx", push=nvtx.push_range, pop=nvtx.pop_range)
