"""A process with two copies of libcupti, torch's and the collector's, and kernels to be counted.

Usage: two_copies.py CASE [--order torch-first|cuda-first] [--kernels N]

CASE: `work` (launches and replays of a graph), `contexts` (a second CUDA context beside torch's),
`profiler-before` and `profiler-after` (torch.profiler with CUDA activities before or after the
range `work`; the range `later` comes last). `cuda-first` starts CUDA, and with it the collector,
before torch loads its own libcupti.

Prints the JSON line that `check_counts.py` reads; also in it: `libcupti`, the copies in the
process, `later`, the kernels launched in that range, and what `profiler` saw of how many kernels.
Exit status 77: no GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

SKIPPED = 77
PTX = (
    b".version 6.4\n.target sm_70\n.address_size 64\n.visible .entry nothing()\n{\n    ret;\n}\n\0"
)


def main() -> None:
    """Run one case and say what it holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("--order", choices=["torch-first", "cuda-first"], default="torch-first")
    parser.add_argument("--kernels", type=int, default=200, help="of each range")
    options = parser.parse_args()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        print(f"SKIP no GPU: {error}", file=sys.stderr)
        sys.exit(SKIPPED)
    if options.order == "torch-first":
        work = Work(options.kernels)
    else:
        checked("cuInit", driver.cuInit(0))
        work = Work(options.kernels)
    found = CASES[options.case](work, driver)
    expect = [
        {"path": path, "instances": instances, "kernels": kernels}
        for path, (instances, kernels) in work.opened.items()
        if path != "later"
    ]
    line = {"workload": f"two_copies {options.case}", "expect": expect, "libcupti": copies()}
    print(json.dumps(line | {"later": work.opened.get("later", (0, 0))[1]} | found), flush=True)


class Work:
    """Ranges of torch, each of which holds a known number of kernels."""

    def __init__(self, kernels: int) -> None:
        """Import torch, which loads its libcupti, and warm up outside of all ranges."""
        import torch

        if not torch.cuda.is_available():
            print("SKIP no GPU: torch.cuda.is_available() is false", file=sys.stderr)
            sys.exit(SKIPPED)
        self.torch = torch
        self.kernels = kernels
        self.opened: dict[str, tuple[int, int]] = {}
        self.tensor = torch.zeros(256, device="cuda")
        self.tensor.add_(1)
        torch.cuda.synchronize()

    def launch(self, kernels: int) -> None:
        """Launch so many kernels of one addition, and wait for them."""
        for _ in range(kernels):
            self.tensor.add_(1)
        self.torch.cuda.synchronize()

    def in_range(self, path: str, body: Callable[[], object], kernels: int | None = None) -> None:
        """Run the body, which launches so many kernels, in a range."""
        count = self.kernels if kernels is None else kernels
        self.torch.cuda.nvtx.range_push(path)
        body()
        self.torch.cuda.nvtx.range_pop()
        instances, all_ = self.opened.get(path, (0, 0))
        self.opened[path] = (instances + 1, all_ + count)

    def work(self, path: str = "work") -> None:
        """Launch the kernels of a range."""
        self.in_range(path, lambda: self.launch(self.kernels))

    def replays(self) -> None:
        """Replay a graph of ten kernels."""
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for _ in range(10):
                self.tensor.add_(1)
        self.torch.cuda.synchronize()

        def replay() -> None:
            for _ in range(self.kernels):
                graph.replay()
            self.torch.cuda.synchronize()

        self.in_range("replays", replay, 10 * self.kernels)


def eager_and_graph(work: Work, driver: ctypes.CDLL) -> dict[str, Any]:
    """Launch kernels one by one, and as a graph."""
    work.work()
    work.replays()
    work.work()
    return {}


def contexts(work: Work, driver: ctypes.CDLL) -> dict[str, Any]:
    """Launch kernels in a second context, which ends before the process does."""
    own, context, module, function = (ctypes.c_void_p() for _ in range(4))
    device = ctypes.c_int()
    work.work()
    checked("cuCtxGetCurrent", driver.cuCtxGetCurrent(ctypes.byref(own)))
    checked("cuDeviceGet", driver.cuDeviceGet(ctypes.byref(device), 0))
    checked("cuCtxCreate", driver.cuCtxCreate_v2(ctypes.byref(context), 0, device))
    checked("cuModuleLoadData", driver.cuModuleLoadData(ctypes.byref(module), PTX))
    name = driver.cuModuleGetFunction(ctypes.byref(function), module, b"nothing")
    checked("cuModuleGetFunction", name)
    shape = [ctypes.c_uint(size) for size in (1, 1, 1, 32, 1, 1, 0)]

    def second() -> None:
        for _ in range(work.kernels):
            result = driver.cuLaunchKernel(function, *shape, None, None, None)
            checked("cuLaunchKernel", result)
        checked("cuCtxSynchronize", driver.cuCtxSynchronize())

    work.in_range("second", second)
    checked("cuCtxSetCurrent", driver.cuCtxSetCurrent(own))
    work.work()
    checked("cuCtxDestroy", driver.cuCtxDestroy_v2(context))
    work.work()
    return {}


def profiler_before(work: Work, driver: ctypes.CDLL) -> dict[str, Any]:
    """Let torch.profiler look at kernels outside of all ranges first."""
    found = profiled(work)
    work.work("later")
    return found


def profiler_after(work: Work, driver: ctypes.CDLL) -> dict[str, Any]:
    """Let torch.profiler look at kernels outside of all ranges between two."""
    work.work()
    return profiler_before(work, driver)


def profiled(work: Work) -> dict[str, Any]:
    """Return how many kernels torch.profiler saw, or why it could not look."""
    from torch.profiler import ProfilerActivity, profile

    try:
        for _ in range(2):  # Its first start is slow and may miss some.
            with profile(activities=[ProfilerActivity.CUDA]) as profiler:
                work.launch(work.kernels)
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(trace))
            events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    except Exception as error:  # It raises anything where CUPTI is not to be had.
        return {"profiler": {"kernels": 0, "of": work.kernels, "error": f"{error}"}}
    seen = sum(event.get("cat") == "kernel" for event in events)
    return {"profiler": {"kernels": seen, "of": work.kernels, "error": None}}


def checked(what: str, result: int) -> None:
    """Leave with a line where the driver says no."""
    if result != 0:
        sys.exit(f"{what} failed with CUDA error {result}")


def copies() -> list[str]:
    """Return the libcuptis in this process."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6}
    return sorted(
        path for path in paths if Path(path).name.startswith(("libcupti.so", "libcupti-"))
    )


CASES: dict[str, Callable[[Work, ctypes.CDLL], dict[str, Any]]] = {
    "work": eager_and_graph,
    "contexts": contexts,
    "profiler-before": profiler_before,
    "profiler-after": profiler_after,
}


if __name__ == "__main__":
    main()
