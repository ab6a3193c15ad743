"""What else decides how a CUDA graph can be recorded, and what it costs.

Runs the programs of graph_ways.ini with graph_levels.cpp, as graph_levels.py does: changes of
graphs, switches beside threads and running replays, the two speeds of a launch, times that a graph
takes of itself, kernels of several lengths, and the first seconds. Nothing of the collector is
loaded.

Usage: graph_ways.py PROGRAM FOLDER --kernels CUBIN --out FILE [--seconds 230] [--only WORD]
FOLDER holds VERSION/libcupti.so; CUBIN is made of graph_ways.cu. Prints Markdown; FILE gets all
numbers, a line of JSON for each step. The timed parts run in turn, the most wanted first, until the
time is up.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import graph_levels as levels
from graph_levels import Case

Steps = list[dict[str, Any]]

# Versions from this one on have the second activity API, which the collector takes where it is.
SECOND_API = (13, 2)
# These run everything.
FULL = [("13.0", "v1"), ("13.5", "v2")]
# The last one whose launches stay cheap while it is attached.
CHEAP = [("12.8", "v1")]
ONLY_COST = {"12.8", "13.1"}
# Sections whose cases run beside each other, and how many at a time.
BESIDE = {"counted": 8, "threads": 4}
LIMIT_S = 30
# What tells where a launch is, or how a series went; lists, so the tables leave them out.
LISTS = ("processors", "modules", "places", "class_us", "slices", "slices_longest")


def plan(versions: list[str]) -> dict[str, list[Case]]:
    """Return the cases of each section, in their order."""
    ways = []
    for version in versions:
        number = tuple(int(part) for part in version.split(".") if part.isdigit())
        ways.append((version, "v2" if number >= SECOND_API else "v1"))
    full = [way for way in FULL if way in ways] or ways[:1]
    some = [way for way in ways if way[0] not in ONLY_COST]
    sections = {
        "counted": some,
        "threads": some,
        "speed": full + [way for way in CHEAP if way in ways],
        "ideas": full,
        "ideas alone": full[:1],
        "cost": ways,
        "start": full,
        "start more": full[:1],
    }
    return {
        section: [
            Case(*way, *each, int(section not in BESIDE))
            for each in levels.programs(section)
            for way in chosen
        ]
        for section, chosen in sections.items()
    }


def counts(step: dict[str, Any]) -> str:
    """Return which records a step left, and what is wrong with them."""
    text = levels.counts(step)
    wrong = [
        f"{name.replace('_', ' ')} {step[name]:g}"
        for name in ("wrong_graphs", "wrong_spans", "nodes_each", "failed_threads")
        if step.get(name)
    ]
    for name in ("windows", "pauses"):
        if f"{name}_missing" in step:
            missing, lost = step[f"{name}_missing"], step[f"{name}_threads_lost"]
            wrong.append(f"{name}: {missing:g} of {step['of']:g} without, {lost:g} threads lost")
    return "; ".join(part for part in [text, *wrong] if part)


def details(cases: list[Steps]) -> str:
    """Return the lists of each step that has some."""
    lines = []
    for steps in cases:
        for step in steps:
            for name, values in step.items():
                if isinstance(values, list) and name.endswith(LISTS):
                    text = ", ".join(str(value) for value in values)
                    where = f"{step['cupti']} {step['api']} {step['case']} `{step['step']}`"
                    lines.append(f"- {where} {name}: {text}")
    return "\n".join(lines) + "\n"


def host() -> str:
    """Return what is known of the processors and the GPU."""
    commands = [
        "lscpu | grep -iE 'model name|socket|numa|thread|mhz|l3|hypervisor|^cpu\\(s\\)'",
        "cat /proc/self/status | grep -i allowed_list",
        "cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        "cat /sys/fs/cgroup/cpu.max",
        "nvidia-smi --query-gpu=name,driver_version,pci.bus_id,clocks.sm --format=csv,noheader",
        "nvidia-smi topo -m | head -4",
    ]
    lines = []
    for command in commands:
        found = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, check=False, timeout=20
        )
        lines += [f"    {line}" for line in found.stdout.splitlines()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what fits into the time, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kernels", type=Path, required=True, help="graph_ways.cubin")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=230)
    parser.add_argument("--count", type=int, default=20, help="replays of a counting step")
    parser.add_argument("--only", default="", help="cases whose section, version or name has it")
    options = parser.parse_args()
    options.program = options.program.resolve()
    end = time.monotonic() + options.seconds
    levels.CASES = levels.read_cases(Path(__file__).with_suffix(".ini"))
    os.environ["GRAPH_WAYS_CUBIN"] = str(options.kernels.resolve())
    versions = sorted(path.parent.name for path in options.folder.glob("*/libcupti.so"))
    if not versions:
        parser.error(f"{options.folder} holds no VERSION/libcupti.so")
    cases = {
        section: [case for case in all_of if options.only in f"{section} {' '.join(case[:3])}"]
        for section, all_of in plan(versions).items()
    }
    options.out.unlink(missing_ok=True)
    print(host(), flush=True)
    results: dict[str, list[Steps]] = {}
    left_out = []
    for section, wanted in cases.items():
        begun = time.monotonic()
        if section in BESIDE:
            with concurrent.futures.ThreadPoolExecutor(BESIDE[section]) as threads:
                results[section] = list(
                    threads.map(lambda case: levels.run(options, case, LIMIT_S), wanted)
                )
        else:
            results[section] = []
            for case in wanted:
                left_s = end - time.monotonic()
                if left_s < 4:
                    left_out.append(f"{section}: {case.version} {case.api} {case.name}")
                else:
                    results[section].append(levels.run(options, case, min(LIMIT_S, left_s)))
        levels.say(f"{section}: {len(wanted)} cases, {time.monotonic() - begun:.0f} s")
        print(f"\n## {section}\n")
        if section in BESIDE:
            shown = re.compile("replay|swap|together|each_update|inflight|threads|eager")
            print(levels.side_by_side(results[section], counts, shown))
        else:
            print(levels.table(results[section]))
            print(details(results[section]), flush=True)
    failed = [
        f"- {step['cupti']} {step['api']} {step['case']}: {step['step']}: {step['error']}"
        for found in results.values()
        for steps in found
        for step in steps
        if "error" in step
    ]
    print("\n## errors\n\n" + "\n".join(failed))
    print("\nLeft out: " + ("; ".join(left_out) or "nothing"))


if __name__ == "__main__":
    main()
