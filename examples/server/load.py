"""`python -m server.load`: a load of open arrivals against the server, and what its clients saw.

Standard output is a table; `--out` takes a JSON line for each request, command and phase. The exit
status is 0, 1 if a request or a command failed, 2 for a command line that is not understood.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from server import load_report
from server.load_client import Outcome, Target, read_url, send
from server.load_plan import (
    FORMS,
    Command,
    Lengths,
    Mark,
    PlanError,
    Planned,
    phase_at,
    plan,
    read_command,
    read_mark,
)
from server.load_report import Ran

OUTPUT_BYTES = 4096
"""As much is kept of what a command prints."""


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line; end the program with status 2 for a word that is not understood."""
    parser = argparse.ArgumentParser(
        prog="python -m server.load",
        description="Send requests to the server at random times, and report what clients see.",
    )
    add = parser.add_argument
    add("--url", default="http://127.0.0.1:8000", help="the server [http://127.0.0.1:8000]")
    add("--rate", type=float, default=5.0, help="requests a second, on average [5]")
    add("--duration", type=float, default=10.0, metavar="S", help="seconds of arrivals [10]")
    add("--requests", type=int, metavar="N", help="end after so many arrivals, whatever the time")
    add("--prompt", default="uniform:16:128", metavar="TOKENS", help=f"prompt: {FORMS}")
    add("--output", default="uniform:8:32", metavar="TOKENS", help=f"tokens to generate: {FORMS}")
    add("--seed", type=int, default=0, help="of arrivals and lengths [0]")
    add("--timeout", type=float, default=60.0, metavar="S", help="of a request [60]")
    add(
        "--mark",
        action="append",
        default=[],
        metavar="SECONDS=NAME",
        help="from then on arrivals belong to the phase NAME; each phase has a row",
    )
    add(
        "--at",
        action="append",
        nargs=2,
        default=[],
        metavar=("SECONDS", "COMMAND"),
        help="run a command of the shell at that time",
    )
    add("--out", type=Path, metavar="FILE", help="JSON lines")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the load; return the exit status."""
    asked = parse(arguments)
    try:
        for name in ("rate", "duration", "timeout"):
            if not 0 < getattr(asked, name) <= 1e6:
                raise PlanError(f"--{name}={getattr(asked, name)}: give a number above 0")
        if asked.requests is not None and asked.requests < 1:
            raise PlanError(f"--requests={asked.requests}: give 1 or more")
        target = read_url(asked.url)
        marks = [read_mark(text) for text in asked.mark]
        commands = [read_command(*words) for words in asked.at]
        lengths = Lengths.read(asked.prompt), Lengths.read(asked.output)
        duration_s = asked.duration if asked.requests is None else float("inf")
        planned = plan(asked.rate, duration_s, *lengths, marks, asked.seed, asked.requests)
        if not planned:
            raise PlanError("no request arrives in that time: raise --rate or --duration")
        # Opened before the load, since its results cannot be had again.
        out = None if asked.out is None else asked.out.open("w", encoding="utf-8")
    except (PlanError, OSError) as error:
        print(f"load: error: {error}", file=sys.stderr)
        return 2

    def write(line: dict[str, Any]) -> None:
        if out is not None:
            out.write(json.dumps(line) + "\n")

    with out or contextlib.nullcontext():
        load = run(target, planned, commands, marks, asked.timeout, write)
        try:
            outcomes, ran = asyncio.run(load)
        except KeyboardInterrupt:
            print("load: interrupted; --out has the requests that have ended", file=sys.stderr)
            return 130
        rows = load_report.summary(outcomes)
        for row in rows:
            write(row)
    print(load_report.table(rows))
    return _complain(outcomes, ran)


async def run(
    target: Target,
    planned: list[Planned],
    commands: list[Command],
    marks: list[Mark],
    timeout_s: float,
    write: Callable[[dict[str, Any]], None],
) -> tuple[list[Outcome], list[Ran]]:
    """Send all requests and run all commands at their times; return when all have ended.

    `write` gets the line of each as it ends.
    """
    start_s = time.monotonic()

    async def request(one: Planned) -> Outcome:
        await asyncio.sleep(one.at_s - (time.monotonic() - start_s))
        outcome = await send(target, one, start_s, timeout_s)
        write(load_report.request_line(outcome))
        return outcome

    async def command(one: Command) -> Ran:
        await asyncio.sleep(one.at_s - (time.monotonic() - start_s))
        began_s = time.monotonic() - start_s
        process = await asyncio.create_subprocess_shell(
            one.words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        ended = Ran(
            words=one.words,
            phase=phase_at(began_s, marks),
            start_s=began_s,
            end_s=time.monotonic() - start_s,
            status=process.returncode if process.returncode is not None else -1,
            output=output[-OUTPUT_BYTES:].decode("utf-8", "replace"),
        )
        write(load_report.command_line(ended))
        return ended

    requests = asyncio.gather(*(request(one) for one in planned))
    ran = asyncio.gather(*(command(one) for one in commands))
    return list(await requests), list(await ran)


def _complain(outcomes: list[Outcome], ran: list[Ran]) -> int:
    """Say what failed, each reason once; return the exit status."""
    reasons: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.error is not None:
            reasons[outcome.error] = reasons.get(outcome.error, 0) + 1
    for reason, count in reasons.items():
        print(f"load: {count} of {len(outcomes)} requests failed: {reason}", file=sys.stderr)
    failed = [each for each in ran if each.status != 0]
    for each in failed:
        text = " ".join(each.output.split())
        print(f"load: `{each.words}` ended with status {each.status}: {text}", file=sys.stderr)
    return 1 if reasons or failed else 0


if __name__ == "__main__":
    sys.exit(main())
