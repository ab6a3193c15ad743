"""Python workers that use the simulated GPU, started as `multiprocessing` starts them.

Usage: workers.py fork|forkserver|spawn|os.fork|pool|daemons
"""

import ctypes
import multiprocessing
import os
import sys
import threading
import time
from typing import Any

WORKERS = 3


def work(_number: int) -> None:
    """Launch ten recorded kernels in this process."""
    cuda = ctypes.CDLL(os.environ["STAGE2_TEST_SIM"])
    context, stream = ctypes.c_size_t(), ctypes.c_size_t()
    results = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)]
    results.append(cuda.cuCtxSetCurrent(context))
    results.append(cuda.cuStreamCreate(ctypes.byref(stream), 0))
    results += [cuda.stage2_sim_launch_recorded(1, index, stream) for index in range(10)]
    results.append(cuda.cuStreamSynchronize(stream))
    if any(results):
        raise RuntimeError(results)


def spin() -> None:
    """Run Python code for ever."""
    while True:
        sum(range(100))


def doze() -> None:
    """Wake up for ever."""
    while True:
        time.sleep(0.0005)


def main(method: str) -> None:
    """Run the workers, one after the other ended or all at once."""
    if method == "pool":
        # Its end is SIGTERM to its workers.
        with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
            pool.map(work, range(2 * WORKERS), chunksize=1)
        return
    if method == "daemons":
        # They outlive the interpreter.
        work(0)
        for body in [spin, spin, spin, doze, doze]:
            threading.Thread(target=body, daemon=True).start()
        time.sleep(0.03)
        return
    if method == "os.fork":
        for number in range(WORKERS):
            child = os.fork()
            if child == 0:
                work(number)
                os._exit(0)
            print(os.waitpid(child, 0)[1])
        return
    processes: Any = multiprocessing.get_context(method)
    workers = [processes.Process(target=work, args=(number,)) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        print(worker.exitcode)


if __name__ == "__main__":
    main(sys.argv[1])
