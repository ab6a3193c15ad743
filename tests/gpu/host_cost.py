"""What the samples of the host cost a decode step that is bound by launches.

    host_cost.py LIBRARY [ROUNDS [HZ,HZ...]]

Runs processes under the collector in turn: without samples, without them again, and with so many a
second; every other round in the opposite order. Prints a table in Markdown: the median over the
rounds of the mean step time, and its ratio to the first way with a 95 % interval.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from draws import DRAWS, interval

SECONDS = 3.0


def guest() -> None:
    """Run steps of 400 small kernels, and print the mean time of a step, us."""
    import torch

    row = torch.randn(16, 256, device="cuda")
    weights = [torch.randn(256, 256, device="cuda") * 0.06 for _ in range(4)]

    def layer(value: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.mm(value, weight)) + value * 0.5

    def step(value: torch.Tensor) -> torch.Tensor:
        for _ in range(25):
            for weight in weights:
                value = layer(value, weight)
        torch.cuda.synchronize()
        return value

    for _ in range(100):
        row = step(row)
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < SECONDS:
        row = step(row)
        steps += 1
    print((time.perf_counter() - begin) / steps * 1e6)


def measured(library: str, host: str) -> float:
    """Return the mean time of a step in one process, us."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"LD_PRELOAD": library, "STAGE2_HOST": host, "STAGE2_OUT": folder}
        done = subprocess.run(
            [sys.executable, __file__, "--guest"],
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return float(done.stdout.split()[-1])


def ratio_of(found: list[float], off: list[float]) -> float:
    """Divide the median of `found` by that of `off`."""
    return statistics.median(found) / statistics.median(off)


def main() -> None:
    """Run all ways, and print the table."""
    library = os.path.realpath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    rates = sys.argv[3].split(",") if len(sys.argv) > 3 else ["100", "500", "1000"]
    ways = [("off", "off"), ("off again", "off"), *((f"{hz} a second", hz) for hz in rates)]
    times: dict[str, list[float]] = {name: [] for name, _ in ways}
    for number in range(rounds):
        for name, host in ways if number % 2 == 0 else ways[::-1]:
            times[name].append(measured(library, host))
    print("| samples | step, us (median of rounds) | ratio (95 %) |")
    print("|---|---|---|")
    for name, found in times.items():
        ratio = interval([found, times["off"]], ratio_of)
        text = ratio.text(".4f") if ratio else ""
        print(f"| {name} | {statistics.median(found):.1f} | {text} |")
    print(f"\n{rounds} rounds of {SECONDS:.0f} s, {DRAWS} draws.")


if __name__ == "__main__":
    guest() if sys.argv[1:] == ["--guest"] else main()
