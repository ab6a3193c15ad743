"""A decode loop on the simulated GPU with one seeded cause, for the recordings of `traces`.

Usage: workload.py CAUSE

Prints one line of JSON: what the program measured itself, which `truth.json` takes its times from.
A comment `# seeded` marks the line that is to blame.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from statistics import mean, median

import stage2

clock = time.perf_counter
cuda = ctypes.CDLL(os.environ["SIMULATOR"])
libc_with_gil = ctypes.PyDLL(None)

GEMM = (0, 379)
"""A matrix product of the recorded prefill: 32.9 us, 1.7 us after the one before."""


class Gpu:
    """A stream, and what is launched on it."""

    def __init__(self) -> None:
        """Make the context."""
        self.stream, context = ctypes.c_size_t(), ctypes.c_size_t()
        results = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)]
        results.append(cuda.cuCtxSetCurrent(context))
        results.append(cuda.cuStreamCreate(ctypes.byref(self.stream), 0))
        if any(results):
            raise RuntimeError(results)

    def compute(self, products: int) -> None:
        """Launch matrix products, 35 us each."""
        for _ in range(products):
            cuda.stage2_sim_launch_recorded(*GEMM, self.stream)

    def synchronize(self) -> None:
        """Wait for the work."""
        cuda.cuStreamSynchronize(self.stream)


class Server:
    """Steps, one for each cause. Every wait is measured where it is made."""

    def __init__(self) -> None:
        """Start idle."""
        self.gpu = Gpu()
        self.seeded: list[float] = []
        self.step, self.seeded_cpu = 0, list[float]()
        self.lock, self.begin = threading.Lock(), threading.Semaphore(0)

    def schedule(self) -> None:
        """Do what every step does on the host: 1 ms."""
        time.sleep(0.001)

    def report_metrics(self) -> None:
        """Hold the lock for 6 ms in each step, on a thread of its own."""
        while True:
            self.begin.acquire()
            with self.lock:
                time.sleep(0.006)

    def update_cache(self) -> None:
        """Wait for the lock that the other thread holds."""
        begin = clock()
        self.lock.acquire()  # seeded
        self.seeded.append(clock() - begin)
        self.lock.release()

    def host_lock(self) -> None:
        """Compute 2 ms, then wait 4 ms for a lock."""
        self.begin.release()
        self.gpu.compute(58)
        self.gpu.synchronize()
        self.update_cache()
        self.schedule()

    def detokenize(self) -> None:
        """Keep the GIL for 6 ms in each step, in a library that does not release it."""
        while True:
            self.begin.acquire()
            libc_with_gil.usleep(6_000)  # seeded

    def gil_hog(self) -> None:
        """Compute 2 ms, then wait 4 ms for the GIL."""
        self.gpu.compute(58)
        self.begin.release()
        begin = clock()
        self.gpu.synchronize()
        self.seeded.append(clock() - begin)
        self.schedule()

    def sample(self) -> None:
        """Read the token as `.item()` of a tensor does, and look at it on the host."""
        value = ctypes.c_int32()
        cuda.cuMemcpyDtoHAsync_v2(ctypes.byref(value), ctypes.c_uint64(4096), 4, self.gpu.stream)
        cuda.cuStreamSynchronize(self.gpu.stream)  # seeded
        self.penalise_repeats(value.value)

    def penalise_repeats(self, token: int) -> None:
        """Run Python code for 1.5 ms."""
        begin, cpu_begin = clock(), time.thread_time()
        end = begin + 0.0015
        while clock() < end:
            token += 1
        self.seeded.append(clock() - begin)
        # Without waits for a processor, which a busy machine adds.
        self.seeded_cpu.append(time.thread_time() - cpu_begin)

    def item(self) -> None:
        """Compute 1 ms, and read a value, three times."""
        for _ in range(3):
            self.gpu.compute(29)
            self.sample()

    def load_adapter(self) -> None:
        """Read a file, once."""
        time.sleep(0.080)  # seeded

    def outlier(self) -> None:
        """Compute 3 ms; one step of all loads an adapter."""
        self.gpu.compute(87)
        self.gpu.synchronize()
        if self.step == 37:
            begin = clock()
            self.load_adapter()
            self.seeded.append(clock() - begin)
        self.schedule()

    def incomplete(self) -> None:
        """Compute 3 ms. Every eighth record is lost by the simulated CUPTI."""
        self.gpu.compute(87)
        self.gpu.synchronize()
        self.schedule()


STEPS = {"outlier": 60}
THREADS = {"host_lock": "report_metrics", "gil_hog": "detokenize"}


def main(cause: str) -> None:
    """Run the steps."""
    server = Server()
    step: Callable[[], None] = getattr(server, cause)
    if cause in THREADS:
        body = getattr(server, THREADS[cause])
        threading.Thread(target=body, name=THREADS[cause][:15], daemon=True).start()
    times = []
    for server.step in range(STEPS.get(cause, 40)):
        begin = clock()
        with stage2.annotate("decode"):
            step()
        times.append(clock() - begin)
    warm = times[1:]
    print(
        json.dumps(
            {
                "cause": cause,
                "steps": len(times),
                "step_median_ms": round(median(warm) * 1e3, 3),
                "step_mean_ms": round(mean(warm) * 1e3, 3),
                "step_max_ms": round(max(warm) * 1e3, 3),
                "seeded_mean_ms": round(mean(server.seeded) * 1e3, 3) if server.seeded else None,
                "seeded_cpu_mean_ms": round(mean(server.seeded_cpu) * 1e3, 3)
                if server.seeded_cpu
                else None,
                "seeded_per_step": len(server.seeded) / len(times),
            }
        )
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
