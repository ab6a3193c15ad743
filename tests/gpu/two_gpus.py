"""Copies between two GPUs and products on each, in one process -> what NVLink must have moved.

Prints one JSON line with the bytes that were copied from the first GPU to the second.
"""

from __future__ import annotations

import json
import sys
import time

import torch

BYTES = 1 << 30
"""Of one copy."""
SECONDS = 2.0
"""That the copies go on, about."""


def main() -> None:
    """Copy for a while, then multiply on both GPUs at once."""
    if torch.cuda.device_count() < 2:
        sys.exit("two_gpus.py needs two GPUs")
    source = torch.ones(BYTES, dtype=torch.uint8, device="cuda:0")
    target = torch.empty(BYTES, dtype=torch.uint8, device="cuda:1")
    matrices = [
        torch.randn(8192, 8192, device=f"cuda:{at}", dtype=torch.bfloat16) for at in range(2)
    ]
    for matrix in matrices:
        matrix @ matrix
    target.copy_(source)
    synchronize()
    copies, began = 0, time.perf_counter()
    with torch.cuda.nvtx.range("copies"):
        while time.perf_counter() - began < SECONDS:
            for _ in range(10):
                target.copy_(source, non_blocking=True)
            synchronize()
            copies += 10
    took = time.perf_counter() - began
    with torch.cuda.nvtx.range("products"):
        for _ in range(400):
            for matrix in matrices:
                matrix @ matrix
        synchronize()
    peer = torch.cuda.can_device_access_peer(0, 1)
    print(json.dumps({"bytes": copies * BYTES, "seconds": took, "peer_access": peer}))


def synchronize() -> None:
    """Wait for both GPUs."""
    for at in range(2):
        torch.cuda.synchronize(at)


if __name__ == "__main__":
    main()
