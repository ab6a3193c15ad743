"""Processes that real jobs are made of: forked engines, `os._exit`, many threads, a main that left.

Usage: processes.py CASE [--ranges N] [--threads N]

Each range holds exactly one kernel (`add_` on a tensor), so what a profiler must find is known
without another one. Prints the JSON line that `check_counts.py` reads. Exit status 77: no GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

try:
    import torch
except ImportError as error:
    sys.exit(f"{error}; run: python -m pip install torch")

CHILDREN = 2


def main() -> None:
    """Run one case and say what it holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("--ranges", type=int, default=500, help="ranges of each thread")
    parser.add_argument("--threads", type=int, default=64)
    options = parser.parse_args()
    CASES[options.case](options)


def work(name: str, ranges: int) -> None:
    """Open `ranges` ranges with one kernel each, on a stream of this thread's own."""
    with torch.cuda.stream(torch.cuda.Stream()):
        tensor = torch.zeros(256, device="cuda")
        torch.cuda.current_stream().synchronize()
        for _ in range(ranges):
            torch.cuda.nvtx.range_push(name)
            tensor.add_(1)
            torch.cuda.nvtx.range_pop()
        torch.cuda.current_stream().synchronize()


def report(case: str, names: list[str], ranges: int) -> None:
    """Print what must be found."""
    expect = [
        {"path": name, "instances": ranges, "kernels": ranges, "kernels_per_instance": 1}
        for name in names
    ]
    print(json.dumps({"workload": f"processes {case}", "expect": expect}), flush=True)


def need_gpu() -> None:
    """Leave with 77 where there is no GPU; this initialises CUDA."""
    if not torch.cuda.is_available():
        print("SKIP no GPU: torch.cuda.is_available() is false", file=sys.stderr)
        sys.exit(77)


def multiprocess(case: str, method: str, options: argparse.Namespace) -> None:
    """Let children of `multiprocessing` work; those of fork end in `os._exit`."""
    context: Any = multiprocessing.get_context(method)
    names = [f"child{index}" for index in range(CHILDREN)]
    children = [context.Process(target=work, args=(name, options.ranges)) for name in names]
    for child in children:
        child.start()
    for child in children:
        child.join()
        if child.exitcode:
            sys.exit(f"a child ended with {child.exitcode}")
    report(case, names, options.ranges)


def fork_untouched(options: argparse.Namespace) -> None:
    """Fork from a parent that has used neither NVTX nor CUDA, as vLLM does."""
    multiprocess("fork-untouched", "fork", options)


def fork_with_ranges(options: argparse.Namespace) -> None:
    """Fork while ranges of the parent are open, one of them by the thread that forks."""
    torch.cuda.nvtx.range_push("parent")
    multiprocess("fork-with-ranges", "fork", options)
    torch.cuda.nvtx.range_pop()


def fork_then_parent(options: argparse.Namespace) -> None:
    """Let the parent use the GPU after its children."""
    torch.cuda.nvtx.range_push("before")
    torch.cuda.nvtx.range_pop()
    multiprocess("fork-then-parent", "fork", options)
    work("parent", options.ranges)
    report("fork-then-parent", ["child0", "child1", "parent"], options.ranges)


def forkserver(options: argparse.Namespace) -> None:
    """Let a fork server make the children."""
    multiprocess("forkserver", "forkserver", options)


def spawn(options: argparse.Namespace) -> None:
    """Let the children be programs of their own."""
    multiprocess("spawn", "spawn", options)


def prefork(options: argparse.Namespace) -> None:
    """Fork workers in a loop, as prefork servers do; each ends in `os._exit`."""
    names = [f"worker{index}" for index in range(4)]
    for name in names:
        child = os.fork()
        if child == 0:
            work(name, options.ranges)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit("a worker failed")
    report("prefork", names, options.ranges)


def os_exit(options: argparse.Namespace) -> None:
    """End right after the work, without any exit handler."""
    need_gpu()
    work("main", options.ranges)
    report("os-exit", ["main"], options.ranges)
    os._exit(0)


def slow_exit(options: argparse.Namespace) -> None:
    """Rest in exit handlers, of which one is older than the first kernel and one is younger."""
    need_gpu()
    libc = ctypes.CDLL(None)
    sleep = ctypes.cast(libc.sleep, ctypes.c_void_p)
    libc.__cxa_atexit(sleep, ctypes.c_void_p(3), None)
    work("main", options.ranges)
    libc.__cxa_atexit(sleep, ctypes.c_void_p(3), None)
    report("slow-exit", ["main"], options.ranges)


def main_leaves(options: argparse.Namespace) -> None:
    """End the main thread by `pthread_exit` while another one works, and then exits.

    It has to: threads of the CUDA driver would keep the process for ever, profiled or not.
    """
    need_gpu()
    libc = ctypes.CDLL(None)

    def rest() -> None:
        work("other", options.ranges)
        report("main-leaves", ["other"], options.ranges)
        libc.exit(0)

    threading.Thread(target=rest).start()
    libc.pthread_exit(None)


def threads(options: argparse.Namespace) -> None:
    """Let many threads launch at once, each on its own stream."""
    need_gpu()
    names = [f"thread{index}" for index in range(options.threads)]
    barrier = threading.Barrier(options.threads)

    def one(name: str) -> None:
        barrier.wait()
        work(name, options.ranges)

    running = [threading.Thread(target=one, args=(name,)) for name in names]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    report("threads", names, options.ranges)


CASES: dict[str, Callable[[argparse.Namespace], None]] = {
    "fork-untouched": fork_untouched,
    "fork-with-ranges": fork_with_ranges,
    "fork-then-parent": fork_then_parent,
    "forkserver": forkserver,
    "spawn": spawn,
    "prefork": prefork,
    "os-exit": os_exit,
    "slow-exit": slow_exit,
    "main-leaves": main_leaves,
    "threads": threads,
}

if __name__ == "__main__":
    main()
