"""What the first seconds after CUPTI's start cost an engine, by the collector and by bare CUPTI.

One process serves steps of vLLM without a pause. After SECONDS of them another thread switches
recording on, then off, on and off again, each time for SECONDS, while steps go on. Every step is
timed, so both what a switch delays and what follows it show.

Usage: python3 first_seconds.py WAY SECONDS GEN [ARGUMENTS OF GEN]
WAY is `none`, a floor.so (tests/gpu/floor.cpp: bare CUPTI, thrown away unread; set FLOOR_CUPTI), or
stage2-launch (set STAGE2_START=off and LD_PRELOAD=libstage2.so). GEN is a program that imports vllm
and calls LLM.generate, with the engine in its own process. Prints one line of JSON for each window:
medians of the decode steps in microseconds, for each quarter of a second, their ratio to the first
window, the longest step and when it ended, and how long the switch took.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import runpy
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SLICE_S = 0.25
WINDOWS = ("before", "on", "off", "on again", "off again")
# Calls before anything is measured, and steps of a call that are not decode alone.
WARM_CALLS = 6
PREFILL_STEPS = 3


class Switch:
    """Switches recording in a thread of its own, and keeps how long that took."""

    def __init__(self, way: str) -> None:
        """Open the bare collector where `way` is one."""
        self.way = way
        self.bare = ctypes.CDLL(way) if way.endswith(".so") else None
        self.took_ms: dict[str, float] = {}

    def to(self, window: str) -> None:
        """Begin `window`; its steps do not wait for that."""
        if self.way != "none" and window != "before":
            threading.Thread(target=self._run, args=(window,)).start()

    def _run(self, window: str) -> None:
        begun = time.perf_counter()
        on = window.startswith("on")
        if self.bare is not None:
            done = self.bare.floor_on() if on else self.bare.floor_off(b"disable")
            if done != 1:
                print(f"the switch to `{window}` failed", flush=True)
        else:
            verb = "start" if on else "stop"
            subprocess.run([self.way, "ctl", str(os.getpid()), verb], check=False)
        self.took_ms[window] = (time.perf_counter() - begun) * 1e3


def medians(steps: list[tuple[float, float]], seconds: float) -> list[float]:
    """Return the median of each slice, in microseconds; steps are (end, duration) in seconds."""
    slices: list[list[float]] = [[] for _ in range(int(seconds / SLICE_S))]
    for end, took in steps:
        at = int(end / SLICE_S)
        if at < len(slices):
            slices[at].append(took * 1e6)
    return [round(statistics.median(each), 1) if each else 0.0 for each in slices]


def serve(switch: Switch, seconds: float, engine: Any, generate: Callable[[], Any]) -> Any:
    """Run all windows on steps of `engine`, and print what they took."""
    step = engine.step
    steps: list[tuple[float, float]] = []
    in_call = 0
    window_begun = time.perf_counter()

    def timed() -> Any:
        nonlocal in_call
        begun = time.perf_counter()
        out = step()
        end = time.perf_counter()
        in_call += 1
        if in_call > PREFILL_STEPS:
            steps.append((end - window_begun, end - begun))
        return out

    engine.step = timed
    for _ in range(WARM_CALLS):
        out = generate()
    base = 0.0
    for window in WINDOWS:
        steps.clear()
        window_begun = time.perf_counter()
        switch.to(window)
        while time.perf_counter() - window_begun < seconds:
            in_call = 0
            out = generate()
        took = [each[1] * 1e6 for each in steps]
        middle = statistics.median(took)
        base = base or middle
        longest = max(steps, key=lambda each: each[1])
        series = medians(steps, seconds)
        line = {
            "way": Path(switch.way).name,
            "window": window,
            "steps": len(took),
            "median_us": round(middle, 1),
            "over_before": round(middle / base, 3),
            "p99_us": round(statistics.quantiles(took, n=100)[98], 1),
            "longest_us": round(longest[1] * 1e6, 1),
            "longest_at_s": round(longest[0], 3),
            "switch_ms": round(switch.took_ms.get(window, 0.0), 1),
            "slices_over_before": [round(each / base, 3) for each in series],
        }
        print("SERIES " + json.dumps(line), flush=True)
    return out


def main() -> None:
    """Run GEN with the windows around its calls."""
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM

    _, way, seconds, gen, *rest = sys.argv
    generate = LLM.generate

    def replaced(llm: Any, *arguments: Any, **named: Any) -> Any:
        call = functools.partial(generate, llm, *arguments, **named)
        return serve(Switch(way), float(seconds), llm.llm_engine, call)

    LLM.generate = replaced
    sys.argv = [gen, "--calls", "1", *rest]
    runpy.run_path(gen, run_name="__main__")


if __name__ == "__main__":
    main()
