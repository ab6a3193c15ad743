"""Steps that replay a CUDA graph and wait for it, each in a range `decode` -> ms a step.

Nothing is loaded from here: run it untraced, and with LD_PRELOAD and settings of the collector, in
turn. Prints one JSON line: the least and the median of the repetitions, the first left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch

import common


@torch.inference_mode()
def main() -> None:
    """Capture the graph, then run all repetitions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=common.positive, default=600, help="of one replay")
    parser.add_argument("--steps", type=common.positive, default=320)
    parser.add_argument("--reps", type=common.positive, default=6)
    options = parser.parse_args()
    values = torch.zeros(1 << 20, device="cuda")
    values.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(options.kernels):
            values.add_(1)
    graph.replay()
    torch.cuda.synchronize()
    step_ms = []
    for _ in range(options.reps):
        start = time.perf_counter_ns()
        for _ in range(options.steps):
            with common.open_range("decode"):
                graph.replay()
                torch.cuda.synchronize()
        step_ms.append((time.perf_counter_ns() - start) / 1e6 / options.steps)
    warm = step_ms[1:] or step_ms
    print(json.dumps({"least_ms": min(warm), "median_ms": statistics.median(warm)}))


if __name__ == "__main__":
    main()
