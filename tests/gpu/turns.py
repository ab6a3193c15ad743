"""Processes that live at the same time and work in turn -> a line of JSON for each turn.

    turns.py --ways FILE --out LINES [--groups N] [--rounds N] [--budget-s S] --parts A,B -- WORD...

A machine with other guests is slow for seconds to minutes, which hits one of two processes that run
one after the other, and some of its processors are slower than others. Here all processes are there
at once and only one works, for some 100 ms; the turns of a group, one process of each way, follow
each other in random order. Their main threads share one processor, and their other threads that
one and a second.

FILE holds `{"NAME": {"VARIABLE": "VALUE"}}`, the ways and what the environment of each has more;
OUT at the beginning of a value stands for a folder of the process's own. The command of WORDs has
to take turns as `common.take_turns` does. Exit status: 0; 1 where a process failed or did not
answer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

CPUS = 2
"""Processors of a group: one for the main threads, and one for what else a process does."""
READY_S = 300.0
"""The longest that a process may take until it waits for its first turn."""
TURN_S = 60.0
"""The longest that a turn may take."""
ERROR = re.compile(r"[\w.]+(Error|Exception)\b")
"""How Python begins the line that names an error."""


class FailedError(Exception):
    """A process did not do what it should."""


class Process:
    """One process, which works when it is its turn."""

    def __init__(
        self, group: int, way: str, words: Sequence[str], more: Mapping[str, str], cpus: set[int]
    ) -> None:
        """Start it on these processors, with more variables in its environment."""
        self.group, self.way = group, way
        self._cpus = cpus
        self._folder = tempfile.TemporaryDirectory()
        own = {
            name: self._folder.name + value.removeprefix("OUT")
            if value.startswith("OUT")
            else value
            for name, value in more.items()
        }
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            words,
            env={**os.environ, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        # Its threads begin later, and where this one may run.
        os.sched_setaffinity(self._process.pid, cpus)

    def ready(self) -> None:
        """Wait until it waits for its first turn, and keep its main thread on one processor."""
        if "ready" not in self._answer(READY_S):
            raise FailedError(f"{self.way}: its first line does not say that it is ready")
        # Linux moves one thread only, here the one that works: two processors are seldom equal.
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(self._process.pid, {min(self._cpus)})

    def turn(self, part: str) -> dict[str, Any]:
        """Let it do a part of its work, and return what it says of that."""
        try:
            _of(self._process.stdin).write(part + "\n")
            _of(self._process.stdin).flush()
        except OSError as error:
            raise FailedError(f"{self.way}: it is gone: {self.complaint()}") from error
        answer = self._answer(TURN_S)
        if not isinstance(answer.get("ms"), float):
            raise FailedError(f"{self.way}: no time in its answer: {answer}")
        return answer

    def let_end(self) -> None:
        """Tell it that there are no more turns."""
        with contextlib.suppress(OSError):
            _of(self._process.stdin).close()

    def end(self) -> None:
        """Tell it that there are no more turns, and wait for its end."""
        self.let_end()
        try:
            status = self._process.wait(READY_S)
        except subprocess.TimeoutExpired as error:
            raise FailedError(f"{self.way}: it does not end") from error
        if status != 0:
            raise FailedError(f"{self.way}: exit status {status}: {self.complaint()}")

    def status(self) -> int | None:
        """Return its exit status; none while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End it, and forget what it said and its folder."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._folder.cleanup()

    def file(self, name: str) -> str:
        """Return the text of a file in its own folder; none where it is not there."""
        file = Path(self._folder.name) / name
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def said(self) -> list[str]:
        """Return what it wrote to stderr, as lines."""
        self._errors.seek(0)
        return [line for line in self._errors.read().splitlines() if line.strip()]

    def complaint(self) -> str:
        """Return the line that names its last error, or the last line of all.

        PyTorch adds lines of advice to the message of an error of CUDA's.
        """
        said = self.said()
        errors = [line for line in said if ERROR.match(line)]
        return (errors or said or ["no message"])[-1]

    def _answer(self, patience_s: float) -> dict[str, Any]:
        out = _of(self._process.stdout)
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            if not selector.select(patience_s):
                raise FailedError(f"{self.way}: no answer within {patience_s:.0f} s")
        line = out.readline()
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise FailedError(f"{self.way}: {line.strip() or 'it ended'}: {self.complaint()}")
        return answer


def last_json(text: str) -> Any:
    """Return the last line that is a JSON object; `None` where none is."""
    for line in reversed(text.splitlines()):
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict):
            return document
    return None


def _of(pipe: Any) -> TextIO:
    """Return a pipe that was asked for."""
    assert pipe is not None
    found: TextIO = pipe
    return found


def started(
    ways: Mapping[str, Mapping[str, str]], groups: int, words: Sequence[str]
) -> Iterator[Process]:
    """Start every process and wait until it is ready; some at a time: a start works hard."""
    asked = [(group, way) for group in range(groups) for way in ways]
    cpus = sorted(os.sched_getaffinity(0))
    for first in range(0, len(asked), len(cpus)):
        some = [
            Process(group, way, words, ways[way], of_group(group, cpus))
            for group, way in asked[first:][: len(cpus)]
        ]
        yield from some
        for process in some:
            process.ready()


def of_group(group: int, cpus: Sequence[int]) -> set[int]:
    """Return the processors of a group."""
    return {cpus[(group * CPUS + at) % len(cpus)] for at in range(CPUS)}


def turns(
    processes: Sequence[Process],
    parts: Sequence[str],
    rounds: int,
    budget_s: float,
    chance: random.Random,
) -> Iterator[dict[str, Any]]:
    """Let all work in turn, in whole rounds while another one fits into the time."""
    groups: dict[int, list[Process]] = {}
    for process in processes:
        groups.setdefault(process.group, []).append(process)
    begun, longest = time.monotonic(), 0.0
    for number in range(rounds):
        start = time.monotonic()
        if number > 0 and start - begun + longest > budget_s:
            return
        for group in chance.sample(sorted(groups), len(groups)):
            for part in parts:
                for process in chance.sample(groups[group], len(groups[group])):
                    row = {"round": number, "group": group, "way": process.way, "part": part}
                    yield row | process.turn(part)
        longest = max(longest, time.monotonic() - start)


def end_all(processes: Sequence[Process]) -> None:
    """Let all end at the same time, and wait for that."""
    for process in processes:
        process.let_end()
    for process in processes:
        process.end()


def main() -> int:
    """Start the processes, give the turns, write the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--budget-s", type=float, default=300)
    parser.add_argument("--parts", required=True)
    parser.add_argument("words", nargs="+", metavar="COMMAND")
    options = parser.parse_args()
    ways = json.loads(options.ways.read_text(encoding="utf-8"))
    processes: list[Process] = []
    chance = random.Random(1)
    try:
        for process in started(ways, options.groups, options.words):
            processes.append(process)
        with options.out.open("w", encoding="utf-8") as out:
            parts = options.parts.split(",")
            for row in turns(processes, parts, options.rounds, options.budget_s, chance):
                out.write(json.dumps(row) + "\n")
                out.flush()
        end_all(processes)
    except FailedError as error:
        print(f"FAIL {error}")
        return 1
    finally:
        for process in processes:
            process.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
