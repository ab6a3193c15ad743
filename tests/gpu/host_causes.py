"""Decode steps in which the GPU waits for the host, for a cause whose share the program measures.

    host_causes.py CAUSE [--seconds N]      lines | sleep | lock | gil | item | malloc | starved

Each step launches some matrix products, waits for them, and then spends time in the cause. The last
line is `truth` and a JSON object: the expected causes, each with its kind (empty: any) and function
(*: any) as in metrics.json, and how long it took, s.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable

import torch

DEVICE = "cuda"
ANY = "*"
"""Any function."""
clock = time.perf_counter


class Work:
    """The work of a step on the GPU: about 0.3 ms."""

    def __init__(self) -> None:
        """Allocate the matrices."""
        self.left = torch.randn(2048, 2048, device=DEVICE, dtype=torch.bfloat16)
        self.right = torch.randn(2048, 2048, device=DEVICE, dtype=torch.bfloat16)

    def run(self) -> None:
        """Launch the work and wait for its end."""
        for _ in range(8):
            self.right = torch.mm(self.left, self.right) * 0.02
        torch.cuda.synchronize()


def spin(seconds: float) -> None:
    """Compute in Python."""
    end = clock() + seconds
    while clock() < end:
        pass


def large() -> None:
    """Spend most of the time."""
    spin(0.003)


def small() -> None:
    """Spend the rest of it."""
    spin(0.001)


def nap() -> None:
    """Sleep."""
    time.sleep(0.004)


class Times:
    """Seconds by cause."""

    def __init__(self) -> None:
        """Start at zero."""
        self.by_cause: dict[tuple[str, str], float] = {}

    def spend(self, kind: str, function: Callable[[], None], name: str = "") -> None:
        """Call `function`, and add its time to the cause of this kind."""
        begin = clock()
        function()
        key = (kind, name or function.__name__)
        self.by_cause[key] = self.by_cause.get(key, 0.0) + clock() - begin


def step_of(cause: str, times: Times) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what a step does besides its work, and what ends the cause."""
    nothing: Callable[[], None] = lambda: None  # noqa: E731
    if cause == "lines":

        def lines() -> None:
            times.spend("user_code", large, "spin")
            times.spend("user_code", small, "spin")

        return lines, nothing
    if cause == "sleep":
        return lambda: times.spend("sleep", nap), nothing
    if cause == "lock":
        return _locked(times)
    if cause == "gil":
        return _contended(times)
    if cause == "item":
        queue = torch.randn(4096, 4096, device=DEVICE, dtype=torch.bfloat16)

        def item() -> None:
            for _ in range(40):
                float(queue[0, 0].item())

        return lambda: times.spend("", item), nothing
    if cause == "malloc":

        def allocate() -> None:
            for _ in range(2):
                block = torch.empty(1 << 28, device=DEVICE, dtype=torch.uint8)
                del block
                torch.cuda.empty_cache()

        return lambda: times.spend("", allocate), nothing
    if cause == "starved":
        return _starved(times)
    raise SystemExit(f"unknown cause {cause!r}")


def _locked(times: Times) -> tuple[Callable[[], None], Callable[[], None]]:
    lock, end = threading.Lock(), threading.Event()

    def hold() -> None:
        while not end.is_set():
            with lock:
                time.sleep(0.004)
            time.sleep(0.0002)

    holder = threading.Thread(target=hold, name="holder")
    holder.start()

    def take() -> None:
        with lock:
            pass

    def stop() -> None:
        end.set()
        holder.join()

    return lambda: times.spend("lock", take), stop


def _contended(times: Times) -> tuple[Callable[[], None], Callable[[], None]]:
    end = threading.Event()

    def hog() -> None:
        while not end.is_set():
            sum(range(1_000))

    thread = threading.Thread(target=hog, name="hog")
    thread.start()

    def give() -> None:
        time.sleep(0)

    def stop() -> None:
        end.set()
        thread.join()

    return lambda: times.spend("gil", give, ANY), stop


def _starved(times: Times) -> tuple[Callable[[], None], Callable[[], None]]:
    # This thread and a busy process share a processor.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    child = os.fork()
    if child == 0:
        while True:
            pass

    def compute() -> None:
        begin = time.thread_time()
        while time.thread_time() - begin < 0.003:
            pass

    def stop() -> None:
        os.kill(child, 9)
        os.waitpid(child, 0)

    return lambda: times.spend("not_scheduled", compute, ANY), stop


def main() -> None:
    """Run the steps, and print the truth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("cause")
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    work, times = Work(), Times()
    for _ in range(20):
        work.run()
    step, stop = step_of(options.cause, times)
    nvtx = torch.cuda.nvtx
    on_processor, begin = time.thread_time(), clock()
    nvtx.range_push("decode")
    while clock() - begin < options.seconds:
        nvtx.range_push("step")
        work.run()
        step()
        nvtx.range_pop()
    nvtx.range_pop()
    wall, on_processor = clock() - begin, time.thread_time() - on_processor
    stop()
    if options.cause in ("starved", "gil"):
        # All the time in which it did not have a processor: it never waits for the GPU without one.
        ((cause, _),) = times.by_cause.items()
        times.by_cause = {cause: wall - on_processor}
    truth = [
        {"kind": kind, "function": function, "seconds": seconds}
        for (kind, function), seconds in times.by_cause.items()
    ]
    print("truth", json.dumps({"causes": truth}), flush=True)


if __name__ == "__main__":
    main()
