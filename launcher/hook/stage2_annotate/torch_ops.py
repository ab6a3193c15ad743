"""Importing torch becomes an NVTX range for every operator that PyTorch runs.

PyTorch can do that itself: it is what `torch.autograd.profiler.emit_nvtx` switches on. Neither uses
CUPTI, so the collector keeps it. `emit_nvtx` itself is of no use here, because it initialises CUDA,
which a workload that forks must not do early; what it calls then is called here.

The switch is one of each thread. It is on in the thread that imports torch and in every thread
that `threading` starts later; PyTorch hands it on to the threads that it starts by itself.
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
        # No shapes, no memory, no stacks, no FLOPs, no modules: names are all that is needed.
        settings = (False,) * 5
        experimental = profiler._ExperimentalConfig()
        return profiler.ProfilerConfig(profiler.ProfilerState.NVTX, *settings, experimental)

    def on(self) -> None:
        """Switch on; raises what PyTorch raises."""
        if getattr(self._state, "on", False):
            return
        self._enable(self._config(), set())
        self._state.on = True
        # Lets compiled code name the kernels that it launches past the operators.
        getattr(self._profiler, "_run_on_profiler_start", lambda: None)()

    def try_on(self) -> None:
        """Switch on, or say why not."""
        try:
            self.on()
        except Exception as error:
            self._notices.warn(f"{OPERATORS}: a thread runs without ranges: {error!r}")

    def try_off(self) -> bool:
        """Switch off, or say why not; says whether it was on and is off."""
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
        """Let the workload's own profiler have each thread for as long as it wants it.

        A thread has room for one profiler, and a second one is an error.
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
            # A profiler within a profiler, which PyTorch 2.0 allows, changes nothing.
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
        """Switch on in every thread that is started from now on."""
        original = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            run = thread.run

            def annotated() -> None:
                # Gone before the workload looks, and no reference to the thread is left behind.
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
    """Switch the ranges on, here and in every thread that is started later."""
    switch = _Switch(torch, notices)
    switch.on()
    switch.make_way()
    switch.follow_threads()
    # A switch that is on when the thread goes makes PyTorch complain.
    atexit.register(switch.try_off)
    others = threading.active_count() - 1
    if others > 0:
        notices.inform(
            f"{OPERATORS}: {others} threads were started before torch was imported; their "
            "operators have no ranges"
        )
