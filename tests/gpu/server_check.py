"""What a load saw of a server that is recorded in windows becomes PASS and FAIL lines.

Usage: server_check.py latency LOAD_JSONL [BARE_JSONL]
       server_check.py together LOAD_JSONL...
       server_check.py windows STATUS_JSON WINDOWS
       server_check.py steps WINDOW_BUNDLE WHOLE_BUNDLE

LOAD_JSONL is what `python -m server.load --out` writes, with the phases `never`, `switching` (CUPTI
starts, and meets each kernel for the first time), `on` and `off`; BARE_JSONL the same of a server
under bare CUPTI, in one phase. The 99th percentile of some hundred requests moves by a third from
server to server: `together` judges the loads of several servers.
STATUS_JSON is what `stage2-launch ctl PID status --json` prints after so many WINDOWS. The bundles
are of a window and of a whole run of the same server under the same load. Exit status: 0, 1 when
something is not as promised, 2 when a file cannot be used.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verdicts
from draws import Interval, interval
from verdicts import Line

MOST_P99 = 1.3
"""Upper bound of the 99th percentile of latency in phase `on`, over that of phase `off`."""

STEP_TIME = 0.05
"""Kernels, and median steps, of a window and of a whole run differ by no more than this share."""


def percentile_99(values: list[float]) -> float:
    """Return the value that 99 % do not exceed."""
    return sorted(values)[max(0, -(-99 * len(values) // 100) - 1)]


def latency(lines: list[dict[str, Any]], bare: list[dict[str, Any]]) -> Iterator[Line]:
    """Compare the latencies of the phases, and those under bare CUPTI where there are some."""
    requests = [line for line in lines if line["kind"] == "request"]
    failed = [line for line in requests if line["error"] is not None]
    yield not failed, f"{len(failed)} of {len(requests)} requests failed"
    commands = [line for line in lines if line["kind"] == "command"]
    bad = [line["words"] for line in commands if line["status"] != 0]
    yield bool(commands) and not bad, f"commands that failed: {bad} of {len(commands)}"
    phases = latencies(lines)
    never, on, off = (phases.get(name, []) for name in ("never", "on", "off"))
    if min(len(phase) for phase in (never, on, off)) < 20:
        text = f"{len(never)}, {len(on)} and {len(off)} requests of the phases never, on and off"
        yield False, f"{text}: too few"
        return
    for name, values in phases.items():
        yield None, f"p99 of phase {name}: {percentile_99(values):.1f} ms of {len(values)} requests"
    found = slower(off, on)
    text = f"p99 while on over p99 while off: {found.text('.2f')}, at most {MOST_P99}"
    yield found.asked <= MOST_P99, text
    yield None, f"p99 while on over p99 of never: {slower(never, on).text('.2f')}"
    if switching := phases.get("switching"):
        yield None, f"p99 while switching over p99 of never: {slower(never, switching).text('.2f')}"
    floor = [taken for phase in latencies(bare).values() for taken in phase]
    if floor:
        yield None, f"p99 under bare CUPTI: {percentile_99(floor):.1f} ms of {len(floor)} requests"
        yield None, f"p99 under bare CUPTI over p99 of never: {slower(never, floor).text('.2f')}"
        yield None, f"p99 while on over p99 under bare CUPTI: {slower(floor, on).text('.2f')}"


def together(loads: list[list[dict[str, Any]]]) -> Iterator[Line]:
    """Compare the phases of several servers: the geometric mean of on over off."""
    phases = [latencies(lines) for lines in loads]
    pairs = [(phase["off"], phase["on"]) for phase in phases]
    found = interval(
        [values for pair in pairs for values in pair],
        lambda *drawn: statistics.geometric_mean(
            percentile_99(on) / percentile_99(off)
            for off, on in zip(drawn[::2], drawn[1::2], strict=True)
        ),
    )
    assert found is not None, "latencies are above zero"
    each = ", ".join(f"{percentile_99(on) / percentile_99(off):.2f}" for off, on in pairs)
    yield None, f"p99 while on over p99 while off, of each of {len(pairs)} servers: {each}"
    text = f"their geometric mean: {found.text('.2f')}, at most {MOST_P99}"
    yield found.asked <= MOST_P99, text


def slower(base: list[float], other: list[float]) -> Interval:
    """Return the quotient of two 99th percentiles, and where those of other draws lie."""
    found = interval([base, other], lambda a, b: percentile_99(b) / percentile_99(a))
    assert found is not None, "latencies are above zero"
    return found


def latencies(lines: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the latency of each request that succeeded, ms, by phase."""
    phases: dict[str, list[float]] = {}
    for line in lines:
        if line["kind"] == "request" and line["error"] is None:
            taken = 1e3 * (line["end_s"] - line["arrival_s"])
            phases.setdefault(line["phase"], []).append(taken)
    return phases


def windows(processes: list[dict[str, Any]], asked: int) -> Iterator[Line]:
    """Look at the status of the one process after all windows."""
    yield len(processes) == 1, f"{len(processes)} processes answered"
    if len(processes) != 1:
        return
    answer = processes[0]
    yield int(answer["windows"]) == asked, f"{answer['windows']} windows of {asked}"
    yield int(answer["lost"]) == 0, f"{answer['lost']} records lost of {answer['records']}"
    yield int(answer["records"]) > 0, f"{answer['records']} records in all windows"


def steps(window: dict[str, Any], whole: dict[str, Any]) -> Iterator[Line]:
    """Compare the decode steps of a window with those of a whole run."""
    found = {}
    for name, metrics in (("window", window), ("whole run", whole)):
        stages = [row for row in metrics["stages"] if row["stage"] == "decode"]
        yield len(stages) == 1, f"{name}: {len(stages)} stages decode"
        if not stages:
            return
        found[name] = stages[0]
    kernels = {name: row["kernels_per_instance_median"] for name, row in found.items()}
    yield kernels["window"] == kernels["whole run"] is not None, f"kernels of a step: {kernels}"
    for what, field, compared in (
        ("mean kernel", "kernel_mean_ns", True),
        # A step is launched faster where few of them are recorded.
        ("median step", "host_warm_median_ns", found["window"]["recorded_instances"] is None),
    ):
        times = {name: row[field] for name, row in found.items()}
        apart = abs(times["window"] / times["whole run"] - 1)
        holds = apart <= STEP_TIME if compared else None
        yield holds, f"{what}, ns: {times}, apart by {apart:.1%}"


def lines_of(path: str) -> list[dict[str, Any]]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in text(path).splitlines()]


def main() -> int:
    """Compare what the command line names."""
    try:
        match sys.argv[1:]:
            case ["latency", path, *bare] if len(bare) <= 1:
                found = latency(lines_of(path), [line for path in bare for line in lines_of(path)])
            case ["together", _, *_]:
                found = together([lines_of(path) for path in sys.argv[2:]])
            case ["windows", path, asked] if asked.isdigit():
                found = windows(json.loads(text(path)), int(asked))
            case ["steps", window, whole]:
                bundles = Path(window), Path(whole)
                found = steps(*map(verdicts.metrics_of, bundles))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
        lines = list(found)
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        print(f"FAIL {' '.join(sys.argv[1:])}: {type(error).__name__}: {error}")
        return 2
    return verdicts.show(lines)


def text(path: str) -> str:
    """Read a file."""
    return Path(path).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
