"""Threads of a Python program that do known things for about a second, with some GPU work.

Usage: host.py shares|gil|fork|deep|descriptors|blocked SECONDS

Each prints `NAME VALUE` lines: shares of its time, as the program itself measured them, and the
numbers of its threads.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

clock = time.perf_counter


def launch() -> ctypes.CDLL:
    """Launch ten recorded kernels in this process, so that the main thread is one that launches."""
    cuda = ctypes.CDLL(os.environ["STAGE2_TEST_SIM"])
    context, stream = ctypes.c_size_t(), ctypes.c_size_t()
    results = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)]
    results.append(cuda.cuCtxSetCurrent(context))
    results.append(cuda.cuStreamCreate(ctypes.byref(stream), 0))
    results += [cuda.stage2_sim_launch_recorded(1, index, stream) for index in range(10)]
    results.append(cuda.cuStreamSynchronize(stream))
    if any(results):
        raise RuntimeError(results)
    return cuda


class Scheduler:
    """What an engine does between two launches, in small."""

    def __init__(self) -> None:
        """Start at zero."""
        self.times = [0.0, 0.0]

    def spin(self, rounds: int) -> int:
        """Run Python code."""
        total = 0
        for number in range(rounds):
            total += number * number
        return total

    def step(self, depth: int) -> None:
        """Spend most of a step in one line and the rest in another one."""
        if depth > 0:
            return self.step(depth - 1)
        begin = clock()
        self.spin(35_000)  # line of the larger share
        between = clock()
        self.spin(15_000)  # line of the smaller share
        self.times[0] += between - begin
        self.times[1] += clock() - between
        return None


def say(name: str, value: object) -> None:
    """Tell the test."""
    print(name, value, flush=True)


def nap(end: threading.Event) -> None:
    """Sleep, again and again."""
    while not end.is_set():
        time.sleep(0.3)


def await_lock(lock: threading.Lock) -> None:
    """Wait for a lock that is held all the time."""
    with lock:
        pass


def await_input(pipe: int) -> None:
    """Wait for what does not come."""
    os.read(pipe, 1)


def shares(seconds: float) -> None:
    """One thread computes, and others wait in different ways."""
    end, lock = threading.Event(), threading.Lock()
    pipe = os.pipe()
    lock.acquire()
    waits: list[tuple[str, Callable[[Any], None], Any]] = [
        ("naps", nap, end),
        ("locks", await_lock, lock),
        ("reads", await_input, pipe[0]),
    ]
    threads = [threading.Thread(target=body, args=(what,)) for _, body, what in waits]
    for (name, _, _), thread in zip(waits, threads, strict=True):
        thread.start()
        say(name, thread.native_id)
    scheduler = Scheduler()
    begin = clock()
    while clock() - begin < seconds:
        scheduler.step(20)
    say("larger", scheduler.times[0] / sum(scheduler.times))
    end.set()
    lock.release()
    os.write(pipe[1], b"x")
    for thread in threads:
        thread.join()


def thread_times() -> list[float]:
    """Time of this thread on a processor, and ready without one, in seconds."""
    with open(f"/proc/self/task/{threading.get_native_id()}/schedstat", encoding="ascii") as file:
        return [int(number) / 1e9 for number in file.read().split()[:2]]


def gil(seconds: float) -> None:
    """Give up the GIL at each step, and have another thread take it."""
    end = threading.Event()

    def detokenize() -> None:
        while not end.is_set():
            sum(number * number for number in range(1_000))

    hog = threading.Thread(target=detokenize)
    hog.start()
    say("hog", hog.native_id)
    before, begin, slept = thread_times(), clock(), 0.0
    while clock() - begin < seconds:
        Scheduler.spin(None, 2_000)  # type: ignore[arg-type]
        time.sleep(0.0005)
        slept += 0.00056
    wall = clock() - begin
    ready = sum(now - then for now, then in zip(thread_times(), before, strict=True))
    say("waits", 1 - (ready + slept) / wall)
    end.set()
    hog.join()


def forks(seconds: float) -> None:
    """Fork a child that launches itself, and one that does not, of a process that is sampled."""
    for name in ["launches", "silent"]:
        if name == "silent":
            launch()
        child = os.fork()
        if child == 0:
            if name == "launches":
                launch()
            begin = clock()
            while clock() - begin < seconds:
                Scheduler().step(3)
            os._exit(0)
        say(name, child)
        say("status", os.waitpid(child, 0)[1])


def allocate(cuda: ctypes.CDLL, often: bool) -> None:
    """Call into the driver, which takes long, from one of two lines."""
    address = ctypes.c_uint64()
    if often:
        cuda.cuMemAlloc_v2(ctypes.byref(address), 1)  # line that allocates often
    else:
        cuda.cuMemAlloc_v2(ctypes.byref(address), 1)  # line that allocates seldom


def blocked(seconds: float) -> None:
    """Blocks in calls of the driver."""
    cuda, count, begin = launch(), 0, clock()
    while clock() - begin < seconds:
        allocate(cuda, count % 4 != 0)
        count += 1
        Scheduler.spin(None, 10_000)  # type: ignore[arg-type]
    say("count", count)


def deep(seconds: float) -> None:
    """Compute below a deep stack, in functions that come and go at the same addresses."""
    sys.setrecursionlimit(5_000)

    def below(depth: int) -> None:
        if depth > 0:
            below(depth - 1)
            return
        begin = clock()
        while clock() - begin < seconds:
            for number in range(50):
                names: dict[str, Any] = {}
                exec(f"def short_{number}(n):\n  for _ in range(n): pass\n", names)
                names[f"short_{number}"](2_000)

    below(1_500)


def descriptors(seconds: float) -> None:
    """Open and close a file again and again while threads come and go; its number stays."""
    first = os.open("/dev/null", os.O_RDONLY)
    os.close(first)
    tries = wrong = 0
    begin = clock()
    while clock() - begin < seconds:
        thread = threading.Thread(target=time.sleep, args=(0.002,))
        thread.start()
        for _ in range(100):
            again = os.open("/dev/null", os.O_RDONLY)
            wrong += again != first
            tries += 1
            os.close(again)
        thread.join()
    say("tries", tries)
    say("wrong", wrong)


if __name__ == "__main__":
    threading.stack_size(64 << 20)
    if sys.argv[1] != "fork":
        launch()
    {
        "shares": shares,
        "gil": gil,
        "fork": forks,
        "deep": deep,
        "descriptors": descriptors,
        "blocked": blocked,
    }[sys.argv[1]](float(sys.argv[2]))
    say("end", 0)
