"""Sends ranges to the tool that is injected into this process, if any."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Mapping, Protocol, Sequence

from ._nvtx import NvtxClient, NvtxError

INJECTION = "NVTX_INJECTION64_PATH"
"""The variable that names the tool. A preloaded collector (LD_PRELOAD) sets it as well."""


class Backend(Protocol):
    """Opens and closes ranges of this thread. `push` and `pop` do not raise."""

    def push(self, name: str, fields: Mapping[str, Any]) -> None:
        """Open a range."""

    def pop(self) -> None:
        """Close the innermost range."""

    def prepare(self, name: str, fields: Sequence[str]) -> Callable[..., None]:
        """Return a function that opens a range of this name, with an integer for each field."""


class _Calls:
    """The range functions of a package that does not support fields."""

    def __init__(self, push: Callable[[str], Any], pop: Callable[[], Any]) -> None:
        self._push = push
        self.pop = pop

    def push(self, name: str, fields: Mapping[str, Any]) -> None:
        self._push(name)

    def prepare(self, name: str, fields: Sequence[str]) -> Callable[..., None]:
        return lambda *_values: self._push(name)


def find_backend() -> Backend | None:
    """Return the backend of this process; None if no tool is injected.

    For our collector, our own client comes first, because it sends fields. For other tools, the
    `nvtx` package and PyTorch come first, because tools are tested with them.
    """
    tool = os.environ.get(INJECTION)
    if not tool:
        return None
    order = [_own, _package, _torch] if _is_ours(tool) else [_package, _torch, _own]
    for attempt in order:
        backend = attempt(tool)
        if backend is not None:
            return backend
    return None


def find_own() -> Backend | None:
    """Return the backend for our collector; None if another tool records."""
    tool = os.environ.get(INJECTION)
    return _own(tool) if tool and _is_ours(tool) else None


def _is_ours(tool: str) -> bool:
    return Path(tool).name.startswith("libstage2")


def _own(tool: str) -> Backend | None:
    try:
        return NvtxClient(tool)
    except (NvtxError, OSError):
        return None


def _package(_tool: str) -> Backend | None:
    try:
        import nvtx

        return _Calls(nvtx.push_range, nvtx.pop_range)
    except (ImportError, AttributeError):
        return None


def _torch(_tool: str) -> Backend | None:
    try:
        from torch.cuda import nvtx

        # Without CUDA, these functions raise.
        nvtx.range_push("stage2")
        nvtx.range_pop()
        return _Calls(nvtx.range_push, nvtx.range_pop)
    except (ImportError, RuntimeError, AttributeError):
        return None
