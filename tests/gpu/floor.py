"""Runs the processes of floor.sh in turn -> raw.jsonl, and tables of what each kind of them costs.

As many rounds as fit into the time: a round runs every kind once, every other round in the opposite
order. Tables hold whole rounds only. The exit status is 1 when a kind of process could not be
measured.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import floor_tables
import floor_turns
from floor_ways import Place, Way, ways
from turns import last_json

SKIPPED = 77
"""Exit status of a workload that found no GPU."""

Row = dict[str, Any]


def main() -> int:
    """Run everything, write the raw lines, print the tables."""
    options = arguments()
    variables = os.environ
    out: Path = options.out
    old = variables.get("OLD_CUPTI")
    place = Place(
        out / "bin/floor.so",
        options.collector,
        options.cupti,
        Path(old).absolute() if old else None,
    )
    chosen = ways(options.mode, place)
    if prefixes := tuple(
        word.strip() for word in variables.get("WAYS", "").split(";") if word.strip()
    ):
        chosen = [way for way in chosen if way.name.startswith(prefixes)]
    if not chosen:
        print(f"floor.py: no way begins with WAYS={variables['WAYS']}", file=sys.stderr)
        return 2
    programs = ["launches", "decode"] if options.llm else ["launches"]
    if only := variables.get("PROGRAM"):
        programs = [program for program in programs if program == only]
    if not programs:
        print(f"floor.py: no PROGRAM={only} here: launches, or decode of an LLM", file=sys.stderr)
        return 2
    # The decode needs more: its processes take long to start.
    budget_s = float(variables.get("BUDGET_S", "500")) / len(programs)
    most = int(variables.get("ROUNDS", "20"))

    def once(round_: int, way: Way, left_s: float) -> list[Row]:
        words, limit_s = launches(out, options), min(options.limit_s, left_s)
        return [
            {"round": round_, "way": way.name, "program": "launches"} | run(words, way, limit_s)
        ]

    with (out / "raw.jsonl").open("w", encoding="utf-8") as file:

        def keep(rows: list[Row]) -> None:
            for row in rows:
                file.write(json.dumps(row) + "\n")
            file.flush()

        rows, whole = (
            rounds(chosen, once, keep, budget_s, most) if "launches" in programs else ([], 1)
        )
        if "decode" in programs and not any(row["status"] == SKIPPED for row in rows):
            decodes = floor_turns.decode(chosen, options.llm, budget_s, variables)
            keep(decodes)
            rows += decodes
    if without := [row for row in rows if row["status"] == SKIPPED]:
        print(f"SKIP no GPU: {without[0]['why']}")
        return 0
    of_launches = f"{whole} whole rounds, " if "launches" in programs else ""
    print(f"# {options.mode}: {of_launches}{len(rows)} processes\n")
    if whole == 0:
        print(
            "The time was up in the first round: the tables are not of all kinds. Raise BUDGET_S.\n"
        )
    used = [row for row in rows if whole == 0 or "turns" in row or row["round"] < whole]
    names = [way.name for way in chosen]
    print(floor_tables.page(options.mode, names, used))
    if by_turns := floor_turns.table(names, used):
        print("\n" + "\n".join(by_turns))
    failed = {row["way"] for row in used if row["why"]} | {way.name for way in chosen} - {
        row["way"] for row in used
    }
    return int(bool(failed))


def arguments() -> argparse.Namespace:
    """Read what floor.sh says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=["cost", "fields", "off"], required=True)
    for name in ("out", "collector", "cupti"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--llm", type=Path)
    parser.add_argument("--driver", help="instead of libcuda.so.1")
    parser.add_argument("--limit-s", type=float, default=60)
    return parser.parse_args()


def launches(out: Path, options: argparse.Namespace) -> list[str]:
    """Return the command of the empty kernels."""
    words = [str(out / "bin/launches")]
    words += ["--launches", os.environ.get("LAUNCHES", "100000")]
    words += ["--replays", os.environ.get("REPLAYS", "1000")]
    return words + (["--driver", options.driver] if options.driver else [])


def rounds(
    chosen: list[Way],
    once: Callable[[int, Way, float], list[Row]],
    keep: Callable[[list[Row]], None],
    budget_s: float,
    most: int,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[Row], int]:
    """Run whole rounds while another one fits into the time; return all rows, and how many rounds.

    The first round begins in any case and ends where the time does.
    """
    begun, longest, whole = clock(), 0.0, 0
    all_: list[Row] = []
    while whole < most and (whole == 0 or clock() - begun + longest <= budget_s):
        start = clock()
        for way in chosen[:: -1 if whole % 2 else 1]:
            left_s = budget_s - (clock() - begun)
            if left_s <= 0:
                return all_, whole
            rows = once(whole, way, left_s)
            keep(rows)
            all_ += rows
        longest = max(longest, clock() - start)
        whole += 1
    return all_, whole


def run(words: list[str], way: Way, limit_s: float) -> Row:
    """Run a process; `why` says why it has no result, or is empty."""
    words = [*words, "--switch", *way.switch] if way.switch else words
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        own = {
            name: folder + value.removeprefix("OUT") if value.startswith("OUT") else value
            for name, value in way.variables.items()
        }
        process = subprocess.Popen(
            words,
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            said, complained = process.communicate(timeout=limit_s)
            why = ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, complained = process.communicate()
            why = f"ended after the limit of {limit_s:.0f} s"
        floor = last_json(read(Path(folder) / "floor.json"))
    complaints = [line for line in complained.splitlines() if line.strip()]
    result = last_json(said)
    if not why and process.returncode != 0:
        why = f"exit status {process.returncode}: {complaints[-1] if complaints else 'no message'}"
    if not why and result is None:
        why = "it printed no line of JSON"
    return {
        "status": process.returncode,
        "why": why,
        "seconds": round(time.monotonic() - begun, 3),
        "result": result,
        "floor": floor,
        "said": [line for line in complaints if line.startswith("stage2:")],
    }


def read(file: Path) -> str:
    """Return the text of a file; none where it is not there."""
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
