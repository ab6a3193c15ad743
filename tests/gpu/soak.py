"""Launch for minutes from four threads, with graphs, in two processes, in ranges that come and go.

Usage: soak.py [--seconds S] [--only-wanted]

Each thread repeats: a range `wanted` with eager kernels and replays of a graph, then a range
`other` with fewer. Prints the JSON line that `check_counts.py` reads, with the memory of the
process after a quarter of the time and at the end. Exit status 77: no GPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import threading
import time
from pathlib import Path
from typing import Any

try:
    import torch
except ImportError as error:
    sys.exit(f"{error}; run: python -m pip install torch")

THREADS = 4
EAGER, GRAPH, REPLAYS, OTHER = 200, 50, 4, 20
"""Kernels launched one by one, kernels of the graph, its replays in a range, kernels of `other`."""


def main() -> None:
    """Run two processes of four threads each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--only-wanted", action="store_true", help="expect nothing of `other`")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("SKIP no GPU: torch.cuda.is_available() is false", file=sys.stderr)
        sys.exit(77)
    context: Any = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    processes = [
        context.Process(target=process, args=(index, options.seconds, results))
        for index in range(2)
    ]
    for each in processes:
        each.start()
    found = [results.get() for _ in processes]
    for each in processes:
        each.join()
        if each.exitcode != 0:
            sys.exit(f"a process ended with {each.exitcode}")
    expect = [entry for result in found for entry in result["expect"]]
    if options.only_wanted:
        expect = [entry for entry in expect if entry["path"].startswith("wanted")]
    memory = {result["name"]: result["memory_kib"] for result in found}
    print(json.dumps({"workload": "soak", "memory_kib": memory, "expect": expect}), flush=True)


def process(index: int, seconds: float, results: Any) -> None:
    """Work in threads until the time is over, and say how much there was."""
    rounds = [0] * THREADS
    start = threading.Barrier(THREADS + 1)
    threads = [
        threading.Thread(target=work, args=(index, number, seconds, rounds, start))
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    start.wait()
    time.sleep(seconds / 4)
    early = resident_kib()
    for thread in threads:
        thread.join()
    expect = []
    for number, count in enumerate(rounds):
        wanted = EAGER + GRAPH * REPLAYS
        for name, kernels in (
            (f"wanted{index}.{number}", wanted),
            (f"other{index}.{number}", OTHER),
        ):
            expect.append({"path": name, "instances": count, "kernels": count * kernels})
    results.put({"name": str(index), "memory_kib": [early, resident_kib()], "expect": expect})


def work(
    index: int, number: int, seconds: float, rounds: list[int], start: threading.Barrier
) -> None:
    """Repeat the two ranges."""
    wanted, other = f"wanted{index}.{number}", f"other{index}.{number}"
    with torch.cuda.stream(torch.cuda.Stream()):
        tensor = torch.zeros(1024, device="cuda")
        graph = torch.cuda.CUDAGraph()
        # Captures of several threads disturb each other.
        with LOCK, torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(GRAPH):
                tensor.add_(1)
        torch.cuda.current_stream().synchronize()
        start.wait()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            torch.cuda.nvtx.range_push(wanted)
            for _ in range(EAGER):
                tensor.add_(1)
            for _ in range(REPLAYS):
                graph.replay()
            torch.cuda.current_stream().synchronize()
            torch.cuda.nvtx.range_pop()
            torch.cuda.nvtx.range_push(other)
            for _ in range(OTHER):
                tensor.add_(1)
            torch.cuda.current_stream().synchronize()
            torch.cuda.nvtx.range_pop()
            rounds[number] += 1


LOCK = threading.Lock()


def resident_kib() -> int:
    """Read the memory in use of this process."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1])


if __name__ == "__main__":
    main()
