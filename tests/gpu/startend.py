"""Start/end ranges that end on another thread or in another order than they started.

A kernel belongs to the ranges open on the thread that launched it. Every launch here is one
kernel (`add_` on a small tensor), so the counts hold for any version of torch.
"""

from __future__ import annotations

import queue
import sys
import threading
from typing import Any

import torch

import common
from count import count_kernels

JOB, AFTER_JOB, WORKER = 5, 3, 7
"""Kernels in the range `job`, of the same thread after its end, and of the other thread."""

OUTER, INNER, ALONE = 2, 3, 4
"""Kernels in `outer`, in `inner` within it, and in `inner` after `outer` has ended."""


def main() -> None:
    """Run both patterns so many times."""
    parser = common.arguments(__doc__)
    parser.add_argument("--reps", type=common.positive, default=10)
    options = parser.parse_args()
    device = common.prepare(options)
    main_tensor, worker_tensor = (torch.zeros(256, device=device) for _ in range(2))
    launch(main_tensor, 3)  # Loads the kernel.
    synchronize(device)

    def measure() -> None:
        across_threads(main_tensor, worker_tensor, options.reps)
        for _ in range(options.reps):
            out_of_order(main_tensor)
        synchronize(device)

    reps, more = options.reps, {}
    per_rep = JOB + AFTER_JOB + WORKER + OUTER + INNER + ALONE
    if options.count_with == "torch":
        kernels = count_kernels(measure)
        more = {"counted_by": "torch.profiler", "kernels": kernels}
    else:
        measure()
    expect = [
        common.expectation("job", reps, JOB),
        common.expectation("worker", reps, WORKER),
        common.expectation("outer", reps, OUTER + INNER),
        # One instance of `inner` lies on two paths; only the kernels of each are certain.
        {"path": "outer/inner", "kernels": reps * INNER},
        {"path": "inner", "kernels": reps * ALONE},
    ]
    common.report(
        "startend",
        device,
        expect,
        expected_kernels=reps * per_rep,
        **more,
    )
    if more and more["kernels"] != reps * per_rep:
        sys.exit(f"torch.profiler counts {more['kernels']} kernels, expected {reps * per_rep}")


def launch(tensor: torch.Tensor, kernels: int) -> None:
    """Launch so many kernels."""
    for _ in range(kernels):
        tensor.add_(1)


def across_threads(mine: torch.Tensor, theirs: torch.Tensor, reps: int) -> None:
    """Start `job` on this thread, let another one work and then end it."""
    jobs: queue.Queue[Any] = queue.Queue()
    ended: queue.Queue[bool] = queue.Queue()

    def worker() -> None:
        while (job := jobs.get()) is not None:
            with common.open_range("worker"):
                launch(theirs, WORKER)
            torch.cuda.nvtx.range_end(job)
            ended.put(True)

    thread = threading.Thread(target=worker, name="worker")
    thread.start()
    try:
        for _ in range(reps):
            job = torch.cuda.nvtx.range_start("job")
            launch(mine, JOB)
            jobs.put(job)
            ended.get(timeout=60)
            launch(mine, AFTER_JOB)
    finally:
        jobs.put(None)
        thread.join()


def out_of_order(tensor: torch.Tensor) -> None:
    """End `outer` while `inner`, which was opened in it, is still open."""
    outer = torch.cuda.nvtx.range_start("outer")
    launch(tensor, OUTER)
    with common.open_range("inner"):
        launch(tensor, INNER)
        torch.cuda.nvtx.range_end(outer)
        launch(tensor, ALONE)


def synchronize(device: torch.device) -> None:
    """Wait for the GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
