"""Eager decode steps and replays of a CUDA graph, in ranges -> ms a step, whenever it is told to.

Nothing is loaded from here: run it untraced, and with LD_PRELOAD and a dormant collector
(dormant.sh). It takes turns as `turns.py` gives them: `echo eager | python dormant.py` tries it.

Each chunk of decode steps begins with the same prompt. The first step at each length of the cache
takes four times as long as later ones (43 ms and 10 ms on an H200), so no length may be new.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

import common


def main() -> None:
    """Warm up, then work in turn."""
    parser = common.arguments(__doc__)
    common.model_arguments(parser)
    parser.add_argument("--nodes", type=common.positive, default=600, help="kernels of a graph")
    parser.add_argument("--replays", type=common.positive, default=30, help="of a turn")
    parser.add_argument("--steps", type=common.positive, default=8, help="decode steps of a turn")
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

    def eager() -> float:
        generator.prefill("prefill")
        return ms(decode) / options.steps

    def graph() -> float:
        # The GPU turns to this process.
        replay()
        torch.cuda.synchronize()
        return ms(replays) / options.replays

    for part in (eager, graph):
        part()
    common.take_turns({"eager": eager, "graph": graph})


def ms(run: Callable[[], None]) -> float:
    """Return how long it takes."""
    start = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - start) / 1e6


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


if __name__ == "__main__":
    main()
