"""Whether CUPTI's records of graphs can be switched between replays and nodes, and what that costs.

Runs the programs of graph_levels.ini with graph_levels.cpp, each in a process of its own, for each
libcupti of a folder. Those that only count records run beside each other; the timed ones run alone,
the most wanted first, until the time is up. Nothing of the collector is loaded.

Usage: graph_levels.py PROGRAM FOLDER --out FILE [--minutes 4.7] [--only WORD] > TABLES
FOLDER holds VERSION/libcupti.so, such as 13.0/libcupti.so. The version `simulated` is the simulated
GPU, which has few of the functions. Prints three tables in Markdown; FILE gets all numbers, a
line of JSON for each step.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import configparser
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


def read_cases(path: Path) -> configparser.ConfigParser:
    """Return the programs of a file."""
    cases = configparser.ConfigParser(
        delimiters="=", interpolation=configparser.ExtendedInterpolation()
    )
    cases.read_string(path.read_text())
    return cases


CASES = read_cases(Path(__file__).with_suffix(".ini"))
COUNTED_LIMIT_S = 20
TIMED_LIMIT_S = 40
SHORT_LIMIT_S = 12
KILLED_LIMIT_S = 5
MOST_SAID = 50
REPLAYS = 2000
FEWER_REPLAYS = 600
SECOND_API = {"13.2", "13.5", "simulated"}
# In the order in which they are wanted.
FULL = [("13.0", "v1"), ("13.5", "v2")]


class Case(NamedTuple):
    """A program, and what runs it."""

    version: str
    api: str
    name: str
    steps: str
    replays: int


def programs(name: str) -> list[tuple[str, str]]:
    """Return the names and the steps of a section's programs."""
    return [(key, steps) for key, steps in CASES[name].items() if key not in CASES.defaults()]


def plan(versions: list[str]) -> tuple[list[Case], list[Case]]:
    """Return the cases that only count, and those that are timed."""
    ways = [(version, "v1") for version in versions]
    ways += [(version, "v2") for version in versions if version in SECOND_API]
    full = [way for way in FULL if way in ways] or ways[:1]
    counted, timed = [], []
    for way in ways:
        counted += [
            Case(*way, *each, 0) for each in programs("counted") + programs(f"counted {way[1]}")
        ]
    for way in full:
        timed += [Case(*way, *each, REPLAYS) for each in programs("timed") + programs("timed more")]
    others = [
        Case(*way, *each, FEWER_REPLAYS)
        for way in ways
        if way not in full
        for each in programs("timed")
    ]
    for way in full:
        wanted = programs("start") + programs(f"start {way[1]}")
        timed += [Case(*way, f"start, {name}", steps, 0) for name, steps in wanted]
        timed += others
        others = []
    return counted, timed


def run(options: argparse.Namespace, case: Case, limit_s: float) -> list[dict[str, Any]]:
    """Run a case; return its steps, and after a crash one more that says where and how."""
    words = case.steps.split()
    environment = dict(word.split("=") for word in words if "=" in word)
    steps = []
    for word in words:
        if "=" not in word:
            steps.append(word.replace(":R", f":{case.replays}").replace(":C", f":{options.count}"))
    library = options.folder / case.version / "libcupti.so"
    command = [options.program, str(library), case.api, *steps]
    begun = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | environment
    )
    try:
        out, errors = process.communicate(timeout=limit_s)
        end = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        end = None
        try:
            out, errors = process.communicate(timeout=KILLED_LIMIT_S)
        except subprocess.TimeoutExpired:
            # The driver does not let it go.
            out, errors = b"> -", b"not even killed"
    lines = out.decode(errors="replace").splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    begin = [line[2:] for line in lines if line.startswith("> ")]
    if len(begin) > len(found):
        how = "took too long" if end is None else f"status {end}"
        if end is not None and end < 0:
            how = signal.Signals(-end).name
        text = errors.decode(errors="replace").strip().splitlines()[-1:]
        found.append({"step": begin[-1], "error": " ".join([f"**{how}**", *text])})
    elif not begin:
        found.append({"step": "-", "error": errors.decode(errors="replace").strip()[-200:]})
    for each in found:
        each |= {"cupti": case.version, "api": case.api, "case": case.name}
    if case.replays > 0 or case.name.startswith("start"):
        say(f"{time.monotonic() - begun:5.1f} s {case.version} {case.api} {case.name}")
    with options.out.open("a") as file:
        file.write("".join(json.dumps(step) + "\n" for step in found))
    return found


def say(text: str) -> None:
    """Print progress to standard error; standard output is for the tables."""
    print(text, file=sys.stderr, flush=True)


# What has a column of its own. All other fields stand in the last one, except these endings, which
# only the lines of JSON have.
SHOWN = {"step", "error", "cupti", "api", "case", "us", "nodes", "graphs", "eager", "version"}
ENDS = ("blocks_us", "first_us", "sum_us", "max_us", "median_us", "p99_us")
# Steps that stand in the table only if they fail.
QUIET = re.compile(
    "nodes|distinct|pool|warm|start|set|make|module|again|update|upload|spin|flags|pin|crowd|marks:"
)
# Steps of the table of first launches: besides launches, what may be CUPTI's first call.
STARTED = re.compile("first|replay|eager|each|on|load|register|sub|attr|show|alloc|fields")


def number(value: float | None) -> str:
    """Return a number with three or four digits."""
    return "" if value is None else f"{value:.4g}"


def spread(step: dict[str, Any], name: str) -> str:
    """Return the median of a series, and the least and the most of the medians of its blocks."""
    text = number(step.get(f"{name}_median_us"))
    blocks = step.get(f"{name}_blocks_us")
    return f"{text} ({number(min(blocks))} to {number(max(blocks))})" if blocks else text


def row(step: dict[str, Any], base: float | None) -> str:
    """Return one line of the table."""
    median = step.get("whole_median_us")
    notes = [step["error"]] if "error" in step else []
    for name, value in step.items():
        if name in {"event_median_us", "event_p99_us", "graph_p99_us"} or not (
            name in SHOWN or name.endswith(ENDS) or isinstance(value, list)
        ):
            notes.append(f"{name} {number(value)}")
    if "on_whole_median_us" in step:
        notes.append(f"on: launch {spread(step, 'on_launch')}, whole {spread(step, 'on_whole')}")
    verb = step["step"].split(":")[0]
    if median is None and "us" in step:
        notes.append(f"took {number(step.get('us'))} us")
    found = [str(int(step[name])) if name in step else "" for name in ("nodes", "graphs", "eager")]
    ratio = f"{median / base:.3f}" if median and base and verb == "replay" else ""
    words = [step["cupti"], step["api"], step["case"], f"`{step['step']}`", *found]
    words += [
        spread(step, "launch"),
        spread(step, "whole"),
        number(step.get("whole_p99_us")),
        ratio,
        "; ".join(notes),
    ]
    return "| " + " | ".join(words) + " |"


def table(cases: list[list[dict[str, Any]]]) -> str:
    """Return the steps of timed cases, a line for each."""
    heads = "CUPTI, API, case, step, nodes, graphs, eager, launch us, whole us, p99, ratio, more"
    lines = ["| " + heads.replace(", ", " | ") + " |", "|---|---|---|---" + "|--:" * 7 + "|---|"]
    for steps in cases:
        replays = [step for step in steps if step["step"].startswith("replay")]
        base = replays[0].get("whole_median_us") if replays else None
        for step in steps:
            if "error" in step or not QUIET.match(step["step"]):
                lines.append(row(step, base))
    return "\n".join(lines) + "\n"


def counts(step: dict[str, Any]) -> str:
    """Return which records a step left: of nodes (n), graphs (g) and eager kernels (e)."""
    if "error" in step:
        return str(step["error"])[:40]
    parts = []
    for name in ("nodes", "graphs", "eager"):
        if not step.get(name):
            continue
        on = f"{step[f'on_{name}']:.0f} on, " if f"on_{name}" in step else ""
        untimed = f" ({step[f'untimed_{name}']:.0f} untimed)" if f"untimed_{name}" in step else ""
        off = step[name] - step.get(f"on_{name}", 0)
        parts.append(f"{on}{off:.0f} {'off ' if on else ''}{name[0]}{untimed}")
    return "; ".join(parts) or ("0" if "nodes" in step else "")


def started(step: dict[str, Any]) -> str:
    """Return the milliseconds of all launches of a step and its longest one."""
    if "error" in step or "whole_sum_us" not in step:
        return str(step.get("error", f"{step.get('us', 0) / 1e3:.3g}"))[:40]
    return f"{step['whole_sum_us'] / 1e3:.4g}, {step['whole_max_us'] / 1e3:.3g}"


def side_by_side(
    cases: list[list[dict[str, Any]]], cell: Callable[[dict[str, Any]], str], shown: re.Pattern[str]
) -> str:
    """Return the steps in lines, behind those that have no cell; each CUPTI has a column."""
    ways = list(dict.fromkeys((steps[0]["cupti"], steps[0]["api"]) for steps in cases))
    found: dict[tuple[str, int, str], dict[tuple[str, str], str]] = {}
    for steps in cases:
        since: list[str] = []
        for at, step in enumerate(steps):
            since.append(step["step"])
            if "error" not in step and not shown.match(step["step"]):
                continue
            line = found.setdefault((step["case"], at, " ".join(since)), {})
            line[step["cupti"], step["api"]] = cell(step)
            since = []
    order = {case: at for at, case in enumerate(dict.fromkeys(case for case, _, _ in found))}
    lines = ["| case | step | " + " | ".join(" ".join(way) for way in ways) + " |"]
    lines.append("|---|---" + "|--:" * len(ways) + "|")
    for key in sorted(found, key=lambda key: (order[key[0]], key[1])):
        cells = [found[key].get(way, "-") for way in ways]
        lines.append(f"| {key[0]} | `{key[2]}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def report(cases: list[list[dict[str, Any]]]) -> str:
    """Return all tables."""
    start = [steps for steps in cases if steps[0]["case"].startswith("start")]
    timed_names = {name for name, _ in programs("timed") + programs("timed more")}
    timed = [steps for steps in cases if steps[0]["case"] in timed_names]
    counted = [steps for steps in cases if steps not in start and steps not in timed]
    return (
        "Records: of nodes (n), graphs (g), eager kernels (e)\n\n"
        + side_by_side(counted, counts, re.compile("replay|toggle|eager"))
        + "\nTimes: medians, and the medians of ten blocks from the least to the most\n\n"
        + table(timed)
        + "\nThe first launches: ms of all, and of the longest\n\n"
        + side_by_side(start, started, STARTED)
    )


def main() -> None:
    """Run all cases that the time allows, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="graph_levels.cpp, built")
    parser.add_argument("folder", type=Path, help="with VERSION/libcupti.so")
    parser.add_argument("--out", type=Path, required=True, help="lines of JSON")
    parser.add_argument("--minutes", type=float, default=4.7, help="no case begins later")
    parser.add_argument("--beside", type=int, default=6, help="counting cases that run at a time")
    parser.add_argument("--count", type=int, default=50, help="replays that are counted")
    parser.add_argument(
        "--only", default="", help="cases whose name, version or API has this in it"
    )
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    versions = sorted(path.parent.name for path in options.folder.glob("*/libcupti.so"))
    if not versions:
        parser.error(f"{options.folder} holds no VERSION/libcupti.so")
    counted, timed = (
        [case for case in cases if options.only in " ".join(case[:3])] for cases in plan(versions)
    )
    options.out.unlink(missing_ok=True)
    with concurrent.futures.ThreadPoolExecutor(options.beside) as threads:
        results = list(threads.map(lambda case: run(options, case, COUNTED_LIMIT_S), counted))
    say(f"{len(results)} cases were counted; {end - time.monotonic():.0f} s are left")
    left_out = []
    for case in timed:
        left_s = end - time.monotonic()
        if left_s < 5:
            left_out.append(f"{case.version} {case.api} {case.name}")
        else:
            limit_s = SHORT_LIMIT_S if case.replays == FEWER_REPLAYS else TIMED_LIMIT_S
            results.append(run(options, case, min(limit_s, left_s)))
    print(report(results), end="")
    failed = [step for steps in results for step in steps if step.get("error", "").startswith("**")]
    say(f"{len(results)} cases, {len(failed)} ended early; left out: {', '.join(left_out)}")
    for step in failed[:MOST_SAID]:
        say(f"{step['cupti']} {step['api']} {step['case']}: {step['step']}: {step['error']}"[:120])


if __name__ == "__main__":
    main()
