"""An independent count of kernels, with torch.profiler."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch


def count_kernels(work: Callable[[], object], ready: Callable[[], object] | None = None) -> int:
    """Run `work` and return how many kernels torch.profiler saw, on all threads and streams.

    `ready` runs once the profiler has warmed up: ranks wait for each other there.
    """
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]):  # Its first start is slow and may miss some.
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
    if ready:
        ready()
        torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    return sum(event.get("cat") == "kernel" for event in events)
