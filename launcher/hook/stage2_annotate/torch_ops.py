"""Importing torch puts an NVTX range around each operator that PyTorch runs.

PyTorch opens these ranges itself, as with `torch.autograd.profiler.emit_nvtx`. They do not use
CUPTI, so the collector can use it. The hook does not call `emit_nvtx`, because that initialises
CUDA, which a workload that forks must not do early. It calls the same functions after that.

Each thread has its own switch. It is on in the thread that imports torch and in every thread that
`threading` starts later. PyTorch passes it on to the threads that it starts itself.
"""

from __future__ import annotations

import atexit
import threading
from types import ModuleType
from typing import Any, Callable

from .notice import Notices

OPERATORS = "torch-ops"


class _Switch:
    """PyTorch's NVTX ranges, on or off for the calling thread."""

    def __init__(self, torch: ModuleType, notices: Notices) -> None:
        profiler = torch.autograd.profiler
        self._profiler = profiler
        self._notices = notices
        self._enable: Callable[..., Any] = profiler._enable_profiler
        self._disable: Callable[[], Any] = profiler._disable_profiler
        self._state = threading.local()

    def _config(self) -> Any:
        profiler = self._profiler
        # No shapes, no memory, no stacks, no FLOPs, no modules: only names are needed.
        settings = (False,) * 5
        experimental = profiler._ExperimentalConfig()
        return profiler.ProfilerConfig(profiler.ProfilerState.NVTX, *settings, experimental)

    def on(self) -> None:
        """Switch on. Errors of PyTorch are raised."""
        if getattr(self._state, "on", False):
            return
        self._enable(self._config(), set())
        self._state.on = True
        # With this, compiled code also names kernels that it launches without an operator.
        getattr(self._profiler, "_run_on_profiler_start", lambda: None)()

    def try_on(self) -> None:
        """Switch on, or print why not."""
        try:
            self.on()
        except Exception as error:
            self._notices.warn(f"{OPERATORS}: a thread runs without ranges: {error!r}")

    def try_off(self) -> bool:
        """Switch off, or print why not. Return whether it was on and is now off."""
        if not getattr(self._state, "on", False):
            return False
        self._state.on = False
        try:
            self._disable()
        except Exception as error:
            self._notices.warn(f"{OPERATORS}: the ranges could not be switched off: {error!r}")
            return False
        return True

    def make_way(self) -> None:
        """Switch off in a thread while the workload's own profiler is on there.

        A thread can have only one profiler; a second one is an error.
        """
        profiler, state = self._profiler, self._state

        def enable(*args: Any, **kwargs: Any) -> Any:
            made_way = self.try_off()
            try:
                result = self._enable(*args, **kwargs)
            except BaseException:
                if made_way:
                    self.try_on()
                raise
            # A profiler within a profiler, which PyTorch 2.0 allows, does not reset this.
            state.gave_way = made_way or getattr(state, "gave_way", False)
            return result

        def disable(*args: Any, **kwargs: Any) -> Any:
            made_way = self.try_off()
            try:
                return self._disable(*args, **kwargs)
            finally:
                if made_way or getattr(state, "gave_way", False):
                    state.gave_way = False
                    self.try_on()

        profiler._enable_profiler = enable
        profiler._disable_profiler = disable

    def follow_threads(self) -> None:
        """Switch on in every thread that starts from now on."""
        original = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            run = thread.run

            def annotated() -> None:
                # Removed before the workload can see it, so that no reference cycle remains.
                vars(thread).pop("run", None)
                self.try_on()
                try:
                    run()
                finally:
                    self.try_off()

            thread.run = annotated  # type: ignore[method-assign]
            try:
                original(thread)
            except BaseException:
                vars(thread).pop("run", None)
                raise

        start.__doc__ = original.__doc__
        threading.Thread.start = start  # type: ignore[method-assign,assignment]


def install(torch: ModuleType, notices: Notices) -> None:
    """Switch on the ranges, in this thread and in every thread that starts later."""
    switch = _Switch(torch, notices)
    switch.on()
    switch.make_way()
    switch.follow_threads()
    # PyTorch complains if the switch is still on when the thread ends.
    atexit.register(switch.try_off)
    others = threading.active_count() - 1
    if others > 0:
        notices.inform(
            f"{OPERATORS}: {others} threads were started before torch was imported; their "
            "operators have no ranges"
        )
