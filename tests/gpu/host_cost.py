"""What the samples of the host cost a decode step that is bound by launches.

    host_cost.py LIBRARY STAGE2_LAUNCH [ROUNDS [HZ,HZ... [SECONDS]]]

One process is recorded in windows: without samples, without them again, and with so many a second,
in each order equally often: windows that begin a round differ from others by 1 %. The launching
thread stays on one processor, and its time on it is measured beside the wall time. Prints a table
in Markdown: the median over the rounds of the mean step time, and of its ratio to the mean of the
two windows without samples of the same round, with a 95 % interval.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time

from draws import DRAWS, interval

SECONDS = 0.5
"""Of a window that are measured, unless the command says otherwise."""
STEADY = 0.4
"""So much of that is left out before: CUPTI starts, and kernels meet it for the first time."""


def guest() -> None:
    """For each line of the input, run steps of 400 small kernels, and print what they took."""
    import torch

    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
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

    def steps(seconds: float) -> tuple[float, float]:
        """Return the mean wall time of a step, and the thread's time on its processor, us."""
        value, begin, used, count = row, time.perf_counter(), time.thread_time(), 0
        while time.perf_counter() - begin < seconds:
            value = step(value)
            count += 1
        wall, own = time.perf_counter() - begin, time.thread_time() - used
        return wall / count * 1e6, own / count * 1e6

    steps(1.0)
    print("ready", flush=True)
    for line in sys.stdin:
        steps(STEADY * float(line))
        print(*steps(float(line)), flush=True)


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

    def window(self, host: str, seconds: float) -> tuple[float, float]:
        """Return the mean wall time and processor time of a step in a window, us."""
        self._ctl("start", "--host", host)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        wall, own = map(float, self._answer().split())
        self._ctl("stop")
        return wall, own

    def end(self) -> None:
        """End it."""
        self._process.communicate(timeout=60)


def ratios(found: list[float], off: list[float], again: list[float]) -> list[float]:
    """Divide each round's time by the mean of its two windows without samples."""
    return [time / ((one + two) / 2) for time, one, two in zip(found, off, again, strict=True)]


def main() -> None:
    """Run all ways, and print the table."""
    library, launch = map(os.path.realpath, sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    rates = sys.argv[4].split(",") if len(sys.argv) > 4 else ["100", "200", "500", "1000"]
    seconds = float(sys.argv[5]) if len(sys.argv) > 5 else SECONDS
    ways = [("off", "off"), ("off again", "off"), *((f"{hz} a second", hz) for hz in rates)]
    times: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in ways}
    with tempfile.TemporaryDirectory() as folder:
        program = Guest(library, launch, folder)
        orders = itertools.cycle(itertools.permutations(ways))
        for order in itertools.islice(orders, rounds):
            for name, host in order:
                times[name].append(program.window(host, seconds))
        program.end()
    print("| samples | step, us | ratio (95 %) | on the processor, us | ratio (95 %) |")
    print("|---|---|---|---|---|")
    for name in times:
        cells = [name]
        for part in (0, 1):
            found, off, again = (
                [one[part] for one in times[way]] for way in (name, "off", "off again")
            )
            each = ratios(found, off, again)
            ratio = interval([each], statistics.median)
            cells += [f"{statistics.median(found):.1f}", ratio.text(".4f") if ratio else ""]
        print(f"| {' | '.join(cells)} |")
    print(f"\n{rounds} rounds of {seconds} s, {DRAWS} draws.")


if __name__ == "__main__":
    guest() if sys.argv[1:] == ["--guest"] else main()
