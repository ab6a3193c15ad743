"""What the samples of the host cost a decode step that is bound by launches.

    host_cost.py LIBRARY STAGE2_LAUNCH [ROUNDS [HZ,HZ...]]

One process is recorded in windows: without samples, without them again, and with so many a second;
every other round in the opposite order. Prints a table in Markdown: the median over the rounds of
the mean step time, and its ratio to the first way with a 95 % interval.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from draws import DRAWS, interval

SECONDS = 1.0
STEADY_S = 0.3
"""Left out at the begin of a window: CUPTI starts, and kernels meet it for the first time."""


def guest() -> None:
    """For each line of the input, run steps of 400 small kernels, and print the mean time, us."""
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

    def steps(seconds: float) -> float:
        value, begin, count = row, time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            value = step(value)
            count += 1
        return (time.perf_counter() - begin) / count * 1e6

    steps(1.0)
    print("ready", flush=True)
    for _ in sys.stdin:
        steps(STEADY_S)
        print(steps(SECONDS), flush=True)


class Guest:
    """A process that is dormant but in windows."""

    def __init__(self, library: str, launch: str, folder: str) -> None:
        """Start it and wait until it has warmed up."""
        own = {"LD_PRELOAD": library, "STAGE2_START": "off", "STAGE2_OUT": folder}
        self._launch = launch
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--guest"],
            env={**os.environ, **own, "STAGE2_SUMMARY": "off"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _ctl(self, *words: str) -> None:
        command = [self._launch, "ctl", str(self._process.pid), *words, "--wait"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def window(self, host: str) -> float:
        """Return the mean time of a step in a window, us."""
        self._ctl("start", "--host", host)
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        found = float(self._answer())
        self._ctl("stop")
        return found

    def end(self) -> None:
        """End it."""
        self._process.communicate(timeout=60)


def ratio_of(found: list[float], off: list[float]) -> float:
    """Divide the median of `found` by that of `off`."""
    return statistics.median(found) / statistics.median(off)


def main() -> None:
    """Run all ways, and print the table."""
    library, launch = map(os.path.realpath, sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    rates = sys.argv[4].split(",") if len(sys.argv) > 4 else ["100", "200", "500", "1000"]
    ways = [("off", "off"), ("off again", "off"), *((f"{hz} a second", hz) for hz in rates)]
    times: dict[str, list[float]] = {name: [] for name, _ in ways}
    with tempfile.TemporaryDirectory() as folder:
        program = Guest(library, launch, folder)
        for number in range(rounds):
            for name, host in ways if number % 2 == 0 else ways[::-1]:
                times[name].append(program.window(host))
        program.end()
    print("| samples | step, us (median of rounds) | ratio (95 %) |")
    print("|---|---|---|")
    for name, found in times.items():
        ratio = interval([found, times["off"]], ratio_of)
        text = ratio.text(".4f") if ratio else ""
        print(f"| {name} | {statistics.median(found):.1f} | {text} |")
    print(f"\n{rounds} rounds of {SECONDS} s, {DRAWS} draws.")


if __name__ == "__main__":
    guest() if sys.argv[1:] == ["--guest"] else main()
