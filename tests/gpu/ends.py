"""A program that ends in an ordinary way right after GPU work, which must not be lost.

Usage: ends.py WAY

Ways: `return`, `exit-at-once` (os._exit), `raise`, `kill`, `abort`, `exec` (the new program does
GPU work, too), `pool` (a multiprocessing.Pool, whose `with` ends its workers by SIGTERM), and
`uvicorn PORT` (a server that a SIGTERM ends, which it raises again after its graceful shutdown).
Each range `work` holds KERNELS kernels. Prints how many ranges were opened. Exit status 77: no GPU.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys

KERNELS = 10
RANGES = 5


def work(_: object = None) -> int:
    """Open one range."""
    import torch

    values = torch.zeros(64, device="cuda")
    torch.cuda.nvtx.range_push("work")
    for _ in range(KERNELS):
        values.add_(1)
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
    return 1


def pool() -> None:
    """Work in four processes, which are ended by SIGTERM."""
    with multiprocessing.get_context("spawn").Pool(4) as workers:
        print(f"ranges {sum(workers.map(work, range(16), chunksize=4))}", flush=True)


async def app(scope: dict[str, str], _receive: object, send: object) -> None:
    """Answer each request after one range."""
    if scope["type"] == "http":
        work()
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"ok"})  # type: ignore[operator]


def main() -> int:
    """Work, and end as asked."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    way = sys.argv[1]
    if way == "uvicorn":
        import uvicorn

        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
        return 0
    if way == "pool":
        pool()
        return 0
    import torch

    if not torch.cuda.is_available():
        print("SKIP no GPU: torch.cuda.is_available() is false", file=sys.stderr)
        return 77
    print(f"ranges {sum(work() for _ in range(RANGES))}", flush=True)
    match way:
        case "exit-at-once":
            os._exit(0)
        case "raise":
            signal.raise_signal(signal.SIGTERM)
        case "kill":
            os.kill(os.getpid(), signal.SIGTERM)
        case "abort":
            os.abort()
        case "exec":
            os.execv(sys.executable, [sys.executable, __file__, "return"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
