"""A server-like program: threads that launch kernels in ranges until a file is there.

Usage: windows.py READY_FILE STOP_FILE [THREADS [KERNELS]]

Thread N opens `tN`, and inside of it `step.0` to `step.99`, again and again, each with KERNELS
launches on a stream of its own. READY_FILE is written once each thread made a step. Exit status 77:
no GPU.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

STEPS = 100
"""Names of steps before the first one comes again; windows_check.py knows it, too."""

SKIPPED = 77


def work(thread: int, kernels: int, stop: Path, began: threading.Barrier) -> None:
    """Launch until `stop` is there."""
    import torch

    nvtx = torch.cuda.nvtx
    values = torch.zeros(4096, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        number = 0
        while not stop.exists():
            nvtx.range_push(f"t{thread}")
            nvtx.range_push(f"step.{number % STEPS}")
            for _ in range(kernels):
                values.add_(1)
            nvtx.range_pop()
            nvtx.range_pop()
            number += 1
            if number == 1:
                began.wait()
            if number % 8 == 0:
                torch.cuda.current_stream().synchronize()
            # A step of a server waits for its answer; and a queue that only grows is no load.
            time.sleep(0.0005)
        torch.cuda.current_stream().synchronize()


def main() -> int:
    """Start the threads and wait for them."""
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    ready, stop = Path(sys.argv[1]), Path(sys.argv[2])
    threads, kernels = ([int(word) for word in sys.argv[3:]] + [4, 20][len(sys.argv) - 3 :])[:2]
    import torch

    if not torch.cuda.is_available():
        print("SKIP no GPU: torch.cuda.is_available() is false", file=sys.stderr)
        return SKIPPED
    began = threading.Barrier(threads + 1)
    working = [
        threading.Thread(target=work, args=(thread, kernels, stop, began))
        for thread in range(threads)
    ]
    for thread in working:
        thread.start()
    began.wait()
    ready.write_text("ready", encoding="utf-8")
    for thread in working:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
