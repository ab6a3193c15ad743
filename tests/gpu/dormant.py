"""Eager decode steps and replays of a CUDA graph, in ranges -> ms a step, and memory.

Nothing is loaded from here: run it untraced, and with LD_PRELOAD and a dormant collector, in turn
(dormant.sh). Prints one JSON line.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

import common


def main() -> None:
    """Warm up, then time both kinds of steps."""
    parser = common.arguments(__doc__)
    common.model_arguments(parser)
    parser.add_argument("--nodes", type=common.positive, default=600, help="kernels of a graph")
    parser.add_argument("--replays", type=common.positive, default=400)
    options = parser.parse_args()
    device = common.prepare(options)
    generator = common.warm_generator(options, device)

    def decode() -> None:
        generator.decode(options.new, "decode", "step")

    generator.prefill("prefill")
    eager_ms = per_step(decode, options.new, options.reps)
    replay = captured(options.nodes)

    def replays() -> None:
        for _ in range(options.replays):
            with common.open_range("replay"):
                replay()
        torch.cuda.synchronize()

    graph_ms = per_step(replays, options.replays, options.reps)
    line = {"eager_ms": eager_ms, "graph_ms": graph_ms, "rss_kib": rss_kib()}
    print(json.dumps(line))


def per_step(run: Callable[[], None], steps: int, reps: int) -> float:
    """Return the median over the repetitions of the ms that one of `steps` steps takes."""
    run()
    times = []
    for _ in range(reps):
        start = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - start) / 1e6 / steps)
    return statistics.median(times)


@torch.inference_mode()
def captured(nodes: int) -> Callable[[], None]:
    """Return the replay of a graph of so many small kernels."""
    values = torch.zeros(1 << 12, device="cuda")
    values.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(nodes):
            values.add_(1)
    return graph.replay


def rss_kib() -> int:
    """Return the memory of this process that no other one shares and that is resident, KiB."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    private = [line.split() for line in lines if line.startswith("Private_")]
    return sum(int(words[1]) for words in private)


if __name__ == "__main__":
    main()
