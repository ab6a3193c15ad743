"""Work in a process that another tool shares with the collector.

Usage: rivals.py RIVAL [--ranges N] [--library FILE]

Three ranges, `before`, `during` and `after`, are opened N times each, with one kernel inside. The
rival is at work in all of `during`. Prints the JSON line that `check_rivals.py` reads, with a sum
that the GPU computed. Exit status 77: no GPU, or the rival is not installed.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NoReturn

try:
    import torch
except ImportError as error:
    sys.exit(f"{error}; run: python -m pip install torch")

RANGES = ("before", "during", "after")
SKIPPED = 77


@contextmanager
def nobody(_: argparse.Namespace) -> Iterator[None]:
    """Leave the collector alone."""
    yield


@contextmanager
def torch_profiler(_: argparse.Namespace) -> Iterator[None]:
    """Record with torch.profiler (Kineto), which takes CUPTI's activity records."""
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())):
        yield


@contextmanager
def proton(_: argparse.Namespace) -> Iterator[None]:
    """Record with Triton's profiler."""
    try:
        profiler = importlib.import_module("triton.profiler")
    except ImportError as error:
        skip(f"Proton: {error}")
    with tempfile.TemporaryDirectory() as folder:
        # It refuses to start where somebody else holds CUPTI: then the program goes on without it.
        session = None
        with suppress(RuntimeError):
            session = profiler.start(str(Path(folder) / "proton"), context="shadow")
        yield
        if session is not None:
            profiler.finalize()


@contextmanager
def nvml_poller(_: argparse.Namespace) -> Iterator[None]:
    """Have nvidia-smi read every counter of the driver ten times a second."""
    command = ["nvidia-smi", "--query-gpu=timestamp,power.draw,utilization.gpu", "--format=csv"]
    try:
        poller = subprocess.Popen([*command, "-lms", "100"], stdout=subprocess.DEVNULL)
    except OSError as error:
        skip(f"nvidia-smi: {error}")
    try:
        yield
    finally:
        poller.terminate()
        poller.wait()


@contextmanager
def library(options: argparse.Namespace) -> Iterator[None]:
    """Load a library that takes CUPTI's activity records for itself, as `floor.cpp` does."""
    # Beside the second activity API CUPTI refuses it: then the program goes on without it.
    ctypes.CDLL(str(options.library)).floor_on()
    yield


RIVALS: dict[str, Callable[[argparse.Namespace], AbstractContextManager[None]]] = {
    "nobody": nobody,
    "torch-profiler": torch_profiler,
    "torch-profiler-first": torch_profiler,
    "proton": proton,
    "nvml": nvml_poller,
    "library": library,
}


def skip(why: str) -> NoReturn:
    """Leave with 77."""
    print(f"SKIP {why}", file=sys.stderr)
    sys.exit(SKIPPED)


def work(name: str, ranges: int, tensor: torch.Tensor) -> None:
    """Open so many ranges with one kernel each."""
    for _ in range(ranges):
        torch.cuda.nvtx.range_push(name)
        tensor.add_(1)
        torch.cuda.nvtx.range_pop()
    torch.cuda.synchronize()


def main() -> None:
    """Work, with the rival in the middle; of `-first`, also before CUDA is initialised."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rival", choices=sorted(RIVALS))
    parser.add_argument("--ranges", type=int, default=2000, help="ranges of each name")
    parser.add_argument("--library", type=Path, help="for the rival `library`")
    options = parser.parse_args()
    rival = RIVALS[options.rival]
    if options.rival.endswith("-first"):
        with rival(options):
            torch.zeros(1, device="cuda" if torch.cuda.is_available() else "cpu")
    if not torch.cuda.is_available():
        skip("no GPU: torch.cuda.is_available() is false")
    tensor = torch.zeros(256, device="cuda")
    torch.cuda.synchronize()
    work("before", options.ranges, tensor)
    with rival(options):
        work("during", options.ranges, tensor)
    work("after", options.ranges, tensor)
    expect = [
        {"path": name, "instances": options.ranges, "kernels": options.ranges} for name in RANGES
    ]
    total = float(tensor.sum().item())
    print(json.dumps({"workload": f"rivals {options.rival}", "sum": total, "expect": expect}))


if __name__ == "__main__":
    main()
