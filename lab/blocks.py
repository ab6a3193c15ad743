"""Bare CUPTI in an eager LLM decode: what sampling single steps costs, and blocks with a detach.

Nothing of the collector is loaded. In one process, in turn: untraced repetitions, and repetitions
in which kernel records are on for `--take` consecutive steps of `--period` and CUPTI is detached
(cuptiFinalize) after them; then repetitions in which every `--take`th step is recorded and CUPTI
stays. Prints one JSON line: ms of each repetition by kind, and what was recorded.

Usage: blocks.py LIBRARY (blocks.cpp, built)
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

import common


class Records:
    """Kernel records of CUPTI, on and off."""

    def __init__(self, path: str) -> None:
        """Load the library; CUPTI itself is not touched before `on`."""
        self._library = ctypes.CDLL(path)
        for name in ("on", "off"):
            getattr(self._library, f"block_{name}").restype = ctypes.c_double
        for name in ("kernels", "untimed"):
            getattr(self._library, f"block_{name}").restype = ctypes.c_long
        self.switches: list[float] = []

    def on(self) -> None:
        """Start recording."""
        self.switches.append(self._library.block_on())

    def off(self, detach: bool) -> None:
        """Stop recording; with `detach`, CUPTI leaves the process until the next `on`."""
        self.switches[-1] += self._library.block_off(int(detach))

    def flush(self) -> None:
        """Hand over what CUPTI still holds."""
        self._library.block_flush()

    def counts(self) -> dict[str, int]:
        """Return all kernels so far, those without usable times, and calls that CUPTI refused."""
        names = ("kernels", "untimed", "errors")
        return {name: int(getattr(self._library, f"block_{name}")()) for name in names}


def main() -> None:
    """Run all repetitions."""
    parser = common.arguments(__doc__ or "")
    common.model_arguments(parser)
    parser.add_argument("library", help="blocks.cpp, built")
    parser.add_argument("--take", type=common.positive, default=16)
    parser.add_argument("--period", type=common.positive, default=256)
    parser.add_argument("--busy", action="store_true", help="another thread launches too; GPU only")
    parser.set_defaults(new=256, reps=6)
    options = parser.parse_args()
    device = common.prepare(options)
    generator = common.warm_generator(options, device)
    records = Records(options.library)
    done = threading.Event()
    other = threading.Thread(target=launch_until, args=(done, device))
    if options.busy:
        other.start()
    try:
        run(generator, options, records)
    finally:
        done.set()
        if options.busy:
            other.join()


def run(generator: common.Generator, options: argparse.Namespace, records: Records) -> None:
    """Run the repetitions in turn and print what they took."""
    ms: dict[str, list[float]] = {}
    found: dict[str, Any] = {}
    _, step_kernels = common.default_counts(options)

    def repeat(kind: str, before: Callable[[int], None], after: Callable[[int], None]) -> None:
        generator.prefill(None)
        start = time.perf_counter_ns()
        decode(generator, options.new, before, after)
        ms.setdefault(kind, []).append((time.perf_counter_ns() - start) / 1e6)

    def nothing(_step: int) -> None:
        pass

    def block_on(step: int) -> None:
        if step % options.period == 0:
            records.on()

    def block_off(step: int) -> None:
        if step % options.period == options.take - 1:
            records.off(detach=True)

    def single_on(step: int) -> None:
        if step % options.take == 0:
            records.on()

    def single_off(step: int) -> None:
        if step % options.take == 0:
            records.off(detach=False)

    def summarize(kind: str, recorded_steps: int, before: dict[str, int]) -> None:
        now = records.counts()
        found[kind] = {name: now[name] - before[name] for name in now}
        found[kind]["expected"] = step_kernels and step_kernels * recorded_steps
        found[kind]["switch_us"] = statistics.median(records.switches)
        records.switches.clear()

    repeat("none", nothing, nothing)
    ms.clear()  # The first repetition is cold.
    before = records.counts()
    for _ in range(options.reps):
        repeat("none", nothing, nothing)
        repeat("blocks", block_on, block_off)
        repeat("none again", nothing, nothing)
    blocks = -(-options.new // options.period)
    summarize("blocks", options.reps * blocks * options.take, before)
    before = records.counts()
    for _ in range(options.reps):
        repeat("single", single_on, single_off)
        repeat("off, not detached", nothing, nothing)
    records.flush()
    summarize("single", options.reps * -(-options.new // options.take), before)
    least = {kind: min(each) for kind, each in ms.items()}
    ratios = {kind: round(value / least["none"], 4) for kind, value in least.items()}
    print(json.dumps({"ratios": ratios, "records": found, "busy": options.busy, "ms": ms}))
    if any(each["errors"] for each in found.values()):
        sys.exit("CUPTI refused a call; see above")


@torch.inference_mode()
def decode(
    generator: common.Generator,
    new: int,
    before: Callable[[int], None],
    after: Callable[[int], None],
) -> None:
    """Run `new` steps, each between two calls, and wait for them."""
    for step in range(new):
        before(step)
        generator.step()
        after(step)
    generator.synchronize()


def launch_until(done: threading.Event, device: torch.device) -> None:
    """Launch kernels on a stream of this thread's own until `done`."""
    with torch.cuda.stream(torch.cuda.Stream(device)):
        values = torch.zeros(1024, device=device)
        while not done.is_set():
            values.add_(1)
            time.sleep(0.0001)
        torch.cuda.current_stream(device).synchronize()


if __name__ == "__main__":
    main()
