"""Eager decode steps and replays of a CUDA graph, in ranges -> ms a step, and memory.

Nothing is loaded from here: run it untraced, and with LD_PRELOAD and a dormant collector, in turn
(dormant.sh). Prints one JSON line.

Each chunk of decode steps begins with the same prompt. The first step at each length of the cache
takes four times as long as later ones (43 ms and 10 ms on an H200), so no length may be new.
"""

from __future__ import annotations

import json
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
    parser.add_argument("--replays", type=common.positive, default=20, help="of a chunk")
    parser.add_argument("--steps", type=common.positive, default=8, help="decode steps of a chunk")
    parser.add_argument("--chunks", type=common.positive, default=25, help="of each kind")
    options = parser.parse_args()
    device = common.prepare(options)
    generator = common.warm_generator(options, device)

    replay = captured(options.nodes)

    def decode() -> None:
        generator.decode(options.steps, "decode", "step")

    def replays() -> None:
        for _ in range(options.replays):
            with common.open_range("replay"):
                replay()
        torch.cuda.synchronize()

    def prompt() -> None:
        generator.prefill("prefill")

    prompt()
    decode()
    replays()
    eager_ms = per_step(decode, options.steps, options.chunks, before=prompt)
    graph_ms = per_step(replays, options.replays, options.chunks)
    line = {"eager_ms": eager_ms, "graph_ms": graph_ms, "rss_kib": rss_kib()}
    print(json.dumps(line), flush=True)


def per_step(
    run: Callable[[], None],
    steps: int,
    chunks: int,
    before: Callable[[], None] = lambda: None,
) -> float:
    """Return the ms that a step takes in the shortest of the chunks of so many steps.

    `before` runs ahead of each chunk and is not timed. What else a machine does only lengthens a
    chunk. What the collector costs lengthens all.
    """
    times = []
    for _ in range(chunks):
        before()
        start = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - start) / 1e6 / steps)
    return min(times)


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
