"""Ranks of a parallel MLP: ranges warmup, prefill and decode, collectives in every layer.

Run it with `python -m torch.distributed.run --standalone --nproc-per-node N ranks.py --out DIR`.
--parallel tensor sums each layer's output with an all_reduce; expert sends tokens to the ranks of
their experts and back, with two all_to_all. Every rank writes DIR/rank.R.json with what a profiler
must find. With --sleep-ms one rank synchronises its GPU and sleeps before one decode step in eight;
with --work-ms one rank's GPU has so much more work in others. How long both took is noted.
With --seconds it goes on for so long, and every decode step is a range `step N`, numbered through
the run, which waits for the GPU as a server does that hands out a token.
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
"""One decode step in so many is slept before, and one has more work."""

Delays = dict[str, list[float]]
"""How long each sleep and each piece of more work took, s."""


def main() -> None:
    """Run the stages of this rank, or count their kernels with torch.profiler."""
    options = arguments()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    model = Mlp(options, world, device)
    delays: Delays = {"sleep": [], "work": []}
    sleep_s = options.sleep_ms / 1e3 if rank == options.sleep_rank else 0.0
    more = MoreWork(options.work_ms if rank == options.work_rank else 0.0, device)
    stages: dict[str, Callable[[], None]] = {
        "prefill": lambda: model.forward(options.prompt),
        "decode": lambda: decode(model, options, sleep_s, more, delays),
    }
    with nvtx("warmup"):
        for tokens in (options.prompt, options.batch):
            for _ in range(3):
                model.forward(tokens)
        torch.cuda.synchronize()
    if options.seconds:
        serve(model, options, device)
        return
    reps = 1 if options.count_with else options.reps
    kernels: dict[str, int] = {}
    took_s: dict[str, list[float]] = {name: [] for name in stages}
    for _ in range(reps):
        for name, stage in stages.items():
            dist.barrier()
            torch.cuda.synchronize()
            if options.count_with:
                kernels[name] = count_kernels(stage, dist.barrier)
                continue
            start = time.perf_counter()
            with nvtx(name):
                stage()
                torch.cuda.synchronize()
            took_s[name].append(time.perf_counter() - start)
    bytes_per_call = {"prefill": options.prompt, "decode": options.batch}
    per_layer = 1 if options.parallel == "tensor" else 2
    calls = {
        "prefill": per_layer * options.layers,
        "decode": per_layer * options.layers * options.steps,
    }
    truth: dict[str, Any] = {
        "rank": rank,
        "world": world,
        "torch": torch.__version__,
        "nccl": ".".join(str(part) for part in torch.cuda.nccl.version()),
        "reps": reps,
        "kernels": kernels,
        "parallel": options.parallel,
        "collectives": {name: reps * count for name, count in calls.items()},
        "bytes_per_call": {name: n * options.hidden * 2 for name, n in bytes_per_call.items()},
        "step_ms": min(took_s["decode"], default=0.0) * 1e3 / options.steps,
        "late": {
            kind: {"times": len(taken), "ms_median": statistics.median(taken) * 1e3}
            for kind, taken in delays.items()
            if taken
        },
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
    parser.add_argument("--seconds", type=float, default=0.0, help="repeat for so long instead")
    parser.add_argument("--parallel", choices=["tensor", "expert"], default="tensor")
    parser.add_argument("--sleep-ms", type=float, default=0.0)
    parser.add_argument("--sleep-rank", type=int, default=1)
    parser.add_argument("--work-ms", type=float, default=0.0)
    parser.add_argument("--work-rank", type=int, default=0)
    parser.add_argument("--count-with", choices=["torch"], help="torch.profiler, alone")
    return parser.parse_args()


class Mlp:
    """Layers of which every rank holds a part: of each layer, or of its experts."""

    def __init__(self, options: argparse.Namespace, world: int, device: torch.device) -> None:
        """Make the weights."""
        self._expert = options.parallel == "expert"
        hidden, part = options.hidden, 4 * options.hidden // world
        torch.manual_seed(0)

        def weights(rows: int, columns: int) -> torch.Tensor:
            values = torch.randn(rows, columns, device=device, dtype=torch.bfloat16)
            return values / rows**0.5

        self._layers = [
            (weights(hidden, part), weights(part, hidden)) for _ in range(options.layers)
        ]
        # All ranks send each other as many tokens.
        most = -(-max(options.prompt, options.batch) // world) * world
        self._world = world
        self._inputs = torch.randn(most, hidden, device=device, dtype=torch.bfloat16)

    def forward(self, tokens: int) -> None:
        """Launch one pass over `tokens` tokens."""
        values = self._inputs[: tokens // self._world * self._world or self._world]
        for up, down in self._layers:
            if self._expert:
                values = exchanged(values)
            values = torch.nn.functional.gelu(values @ up) @ down
            if self._expert:
                values = exchanged(values)
            else:
                dist.all_reduce(values)


def exchanged(values: torch.Tensor) -> torch.Tensor:
    """Send each rank an equal part, and return what came."""
    received = torch.empty_like(values)
    dist.all_to_all_single(received, values)
    return received


class MoreWork:
    """Products that take about so many ms on this GPU; none for 0."""

    def __init__(self, ms: float, device: torch.device) -> None:
        """Find out how many that are."""
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._matrix = torch.randn(2048, 2048, device=device, dtype=torch.bfloat16)
        self._count = 0
        if ms:
            self._launch(20)
            self._events.clear()
            self._launch(200)
            self._count = max(1, round(ms / (self.taken_s()[0] * 1e3) * 200))

    def __bool__(self) -> bool:
        """Tell whether there is any."""
        return self._count > 0

    def launch(self) -> None:
        """Launch them, and wait for nothing."""
        self._launch(self._count)

    def _launch(self, count: int) -> None:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            torch.mm(self._matrix, self._matrix)
        end.record()
        self._events.append((begin, end))

    def taken_s(self) -> list[float]:
        """Return how long each launch took since the last call, s."""
        torch.cuda.synchronize()
        taken = [begin.elapsed_time(end) / 1e3 for begin, end in self._events]
        self._events.clear()
        return taken


def decode(
    model: Mlp, options: argparse.Namespace, sleep_s: float, more: MoreWork, delays: Delays
) -> None:
    """Launch the steps; sleep before one in eight, or have more work in one, if this rank is to."""
    for step in range(options.steps):
        if sleep_s and step % EVERY == EVERY // 2:
            torch.cuda.synchronize()
            start = time.perf_counter()
            time.sleep(sleep_s)
            delays["sleep"].append(time.perf_counter() - start)
        if more and step % EVERY == 0:
            more.launch()
        model.forward(options.batch)
    if more:
        delays["work"].extend(more.taken_s())


def serve(model: Mlp, options: argparse.Namespace, device: torch.device) -> None:
    """Prefill and decode for a while; all ranks end with the same step."""
    begun, number = time.perf_counter(), 0
    goes_on = torch.ones(1, device=device)
    while goes_on.item():
        with nvtx("prefill"):
            model.forward(options.prompt)
            torch.cuda.synchronize()
        for _ in range(options.steps):
            with nvtx(f"step {number}"):
                model.forward(options.batch)
                torch.cuda.synchronize()
            number += 1
        goes_on.fill_(time.perf_counter() - begun < options.seconds)
        dist.broadcast(goes_on, 0)
    dist.barrier()
    dist.destroy_process_group()


def nvtx(name: str) -> Any:
    """Return a range."""
    return torch.cuda.nvtx.range(name) if torch.cuda.is_available() else nullcontext()


if __name__ == "__main__":
    main()
