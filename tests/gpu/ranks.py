"""Ranks of a tensor-parallel MLP: ranges warmup, prefill and decode, an all_reduce in every layer.

Run it with `python -m torch.distributed.run --standalone --nproc-per-node N ranks.py --out DIR`.
Every rank writes DIR/rank.R.json with what a profiler must find. With --sleep-ms one rank
synchronises its GPU and sleeps before one decode step in eight; how long it slept is noted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

try:
    import torch
    import torch.distributed as dist

    from count import count_kernels
except ImportError as error:
    sys.exit(f"{error}; run: python -m pip install torch")

EVERY = 8
"""One decode step in so many is slept before."""


def main() -> None:
    """Run the stages of this rank, or count their kernels with torch.profiler."""
    options = arguments()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    model = Mlp(options, world, device)
    sleeps: list[float] = []
    sleep_s = options.sleep_ms / 1e3 if rank == options.sleep_rank else 0.0
    stages: dict[str, Callable[[], None]] = {
        "prefill": lambda: model.forward(options.prompt),
        "decode": lambda: decode(model, options, sleep_s, sleeps),
    }
    with nvtx("warmup"):
        for tokens in (options.prompt, options.batch):
            for _ in range(3):
                model.forward(tokens)
        torch.cuda.synchronize()
    reps = 1 if options.count_with else options.reps
    kernels: dict[str, int] = {}
    for _ in range(reps):
        for name, stage in stages.items():
            dist.barrier()
            torch.cuda.synchronize()
            if options.count_with:
                kernels[name] = count_kernels(stage, dist.barrier)
                continue
            with nvtx(name):
                stage()
                torch.cuda.synchronize()
    bytes_per_call = {"prefill": options.prompt, "decode": options.batch}
    calls = {"prefill": options.layers, "decode": options.layers * options.steps}
    truth: dict[str, Any] = {
        "rank": rank,
        "world": world,
        "torch": torch.__version__,
        "nccl": ".".join(str(part) for part in torch.cuda.nccl.version()),
        "reps": reps,
        "kernels": kernels,
        "all_reduces": {name: reps * count for name, count in calls.items()},
        "bytes_per_call": {name: n * options.hidden * 2 for name, n in bytes_per_call.items()},
        "sleeps": len(sleeps),
        "sleep_ms_median": statistics.median(sleeps) * 1e3 if sleeps else None,
    }
    file = options.out / f"rank.{rank}.json"
    file.write_text(json.dumps(truth) + "\n", encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="an existing folder")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--prompt", type=int, default=512, help="tokens of a prefill")
    parser.add_argument("--batch", type=int, default=8, help="tokens of a decode step")
    parser.add_argument("--steps", type=int, default=64, help="decode steps")
    parser.add_argument("--reps", type=int, default=3, help="prefills and decodes")
    parser.add_argument("--sleep-ms", type=float, default=0.0)
    parser.add_argument("--sleep-rank", type=int, default=1)
    parser.add_argument("--count-with", choices=["torch"], help="torch.profiler, alone")
    return parser.parse_args()


class Mlp:
    """Layers of which every rank holds a part: the sum over ranks is each layer's output."""

    def __init__(self, options: argparse.Namespace, world: int, device: torch.device) -> None:
        """Make the weights."""
        hidden, part = options.hidden, 4 * options.hidden // world
        torch.manual_seed(0)

        def weights(rows: int, columns: int) -> torch.Tensor:
            values = torch.randn(rows, columns, device=device, dtype=torch.bfloat16)
            return values / rows**0.5

        self._layers = [
            (weights(hidden, part), weights(part, hidden)) for _ in range(options.layers)
        ]
        most = max(options.prompt, options.batch)
        self._inputs = torch.randn(most, hidden, device=device, dtype=torch.bfloat16)

    def forward(self, tokens: int) -> None:
        """Launch one pass over `tokens` tokens."""
        values = self._inputs[:tokens]
        for up, down in self._layers:
            values = torch.nn.functional.gelu(values @ up) @ down
            dist.all_reduce(values)


def decode(model: Mlp, options: argparse.Namespace, sleep_s: float, sleeps: list[float]) -> None:
    """Launch the steps; sleep before one in eight where this rank is to."""
    for step in range(options.steps):
        if sleep_s and step % EVERY == EVERY // 2:
            torch.cuda.synchronize()
            start = time.perf_counter()
            time.sleep(sleep_s)
            sleeps.append(time.perf_counter() - start)
        model.forward(options.batch)


def nvtx(name: str) -> Any:
    """Return a range."""
    return torch.cuda.nvtx.range(name) if torch.cuda.is_available() else nullcontext()


if __name__ == "__main__":
    main()
