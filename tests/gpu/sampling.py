"""What sampling.sh left in its folder becomes PASS, FAIL and NOTE lines.

Usage: sampling.py OUTDIR

Times: `run/NAME-ROUND*.out`, the JSON lines of llm.py. Records: `merge/NAME/metrics.json`.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verdicts

TIME_LIMIT = 1.03
"""Sampled over untraced decode, both the minimum of all repetitions."""

COST_LIMIT = 0.8
"""What a sample costs over what a full record costs, by the minima of all repetitions. CUPTI leaves
launches slower once it was on, which is about half of its cost: docs/cupti-findings.md."""

MEAN_LIMIT = 0.03
"""Mean duration of a kernel in the sample against the full record."""

CALLS_LIMIT = 0.01
"""Scaled calls against the full record."""

SHARE = 0.005
"""Kernels with less than this share of the GPU time are counted, not compared one by one."""

Kernels = dict[str, tuple[int, int, int]]
"""Calls, calls with times and total ns by mangled name."""


def main() -> int:
    """Print every line; 1 where one says FAIL."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    out = Path(sys.argv[1])
    return verdicts.show([*times(out / "run"), *records(out / "merge")])


def times(folder: Path) -> Iterator[tuple[bool | None, str]]:
    """Compare the decode times of the configurations, with the noise of the untraced ones."""
    decode: dict[str, list[float]] = {}
    for file in sorted(folder.glob("*.out")):
        config, _, round_ = file.stem.partition("-")
        if config in ("graph", "whole") or not (document := last_document(file)):
            continue
        # The first repetition of a process is cold.
        warm = [each["decode"] for each in document["host_ms"][1:]]
        for name in [config, "none-" + round_[-1] if config == "none" else ""]:
            decode.setdefault(name, []).extend(warm)
    decode.pop("", None)
    if not {"none-a", "none-b", "sampled"} <= decode.keys():
        yield False, "times: no untraced or no sampled run came to its end"
        return
    untraced = decode["none"]
    least, middle = (pick(untraced) for pick in PICKS)
    for name, warm in sorted(decode.items()):
        yield (
            None,
            f"decode {name}: minimum {min(warm):.1f} ms ({min(warm) / least:.3f}x), median "
            f"{statistics.median(warm):.1f} ms ({statistics.median(warm) / middle:.3f}x), "
            f"{len(warm)} repetitions",
        )
    noise = [abs(pick(decode["none-a"]) / pick(decode["none-b"]) - 1) for pick in PICKS]
    yield None, f"A/A noise of untraced: minimum {noise[0]:.1%}, median {noise[1]:.1%}"
    sampled = min(decode["sampled"])
    ratio = sampled / least
    yield ratio <= TIME_LIMIT, f"sampled decode {ratio:.3f}x of untraced, at most {TIME_LIMIT}x"
    if "full" not in decode:
        yield False, "times: no full record came to its end"
        return
    full = min(decode["full"])
    if full <= least * (1 + noise[0]):
        yield None, "times: the full record costs less than the noise, so no share of it is told"
        return
    share = (sampled - least) / (full - least)
    yield (
        share <= COST_LIMIT,
        f"a sample costs {share:.2f} of what a full record costs, at most {COST_LIMIT}",
    )


PICKS = (min, statistics.median)


def records(folder: Path) -> Iterator[tuple[bool | None, str]]:
    """Compare the samples with the full records, and the full records with each other."""
    found = {file.parent.name: load(file) for file in sorted(folder.glob("*/metrics.json"))}
    full = [found[name] for name in sorted(found) if name.startswith("full-")]
    if not full:
        yield False, "records: no full record"
        return
    if len(full) > 1:
        again = compare(kernels(full[0], "decode/step"), kernels(full[1], "decode/step"))
        yield None, f"two full records against each other: {again[2]}"
    for name in sorted(name for name in found if name.startswith("sampled-")):
        yield from sampled(name, full[0], found[name], "decode/step")
    for graph in ("graph", "graph-waited"):
        # A graph that was made while CUPTI looked away: its copies may count as kernels. Kernels
        # that run on after their range have no times.
        if {f"{graph}-full", f"{graph}-sampled"} <= found.keys():
            both = found[f"{graph}-full"], found[f"{graph}-sampled"]
            yield from sampled(f"{graph}-sampled", *both, "decode", with_times=graph != "graph")
    for name in sorted(found):
        if name.startswith(("graph-waited-", "whole")):
            yield from timed(name, found[name])
    for name in sorted(name for name in found if name.startswith("unwanted-")):
        count = found[name]["coverage"]["total"]["kernels"]
        yield count == 0, f"{name}: {count} kernels recorded, expected 0"


REPLAYS = 64
"""Replays of graph_ranges.py, each in a range, as sampling.sh runs it."""


def timed(name: str, metrics: dict[str, Any]) -> Iterator[tuple[bool | None, str]]:
    """Check that all GPU work has times, and the number of replays recorded as wholes."""
    total = metrics["coverage"]["total"]
    untimed = total["invalid_timestamps"]
    yield untimed == 0, f"{name}: {untimed} records without times"
    if name.startswith("whole"):
        # One more, in no range, is replayed first.
        expected = {"full": REPLAYS + 1, "ranges": REPLAYS, "sampled": REPLAYS // 16}
        wanted, found = expected[name.rpartition("-")[2]], total["graph_launches"]
        yield found == wanted, f"{name}: {found} replays recorded, expected {wanted}"


def sampled(
    name: str, full: dict[str, Any], part: dict[str, Any], path: str, with_times: bool = True
) -> Iterator[tuple[bool | None, str]]:
    """Check one sample against the full record; `with_times`: the means, too, not calls alone."""
    coverage = part["coverage"]
    yield None, f"{name}: {coverage['verdict']['text']}"
    rows = [row for row in part["paths"] if row["path"] == path]
    if len(rows) != 1 or not rows[0]["recorded_instances"]:
        yield False, f"{name}: no recorded instance of {path}"
        return
    instances, recorded = rows[0]["instances"], rows[0]["recorded_instances"]
    yield None, f"{name}: recorded {recorded} of {instances} instances of {path}"
    lost = coverage["total"]["unattributed"] + coverage["total"]["dropped_by_cupti"]
    yield lost == 0, f"{name}: {lost} records dropped or unattributed"
    calls, means, text = compare(kernels(full, path), kernels(part, path))
    good = calls <= CALLS_LIMIT and (means <= MEAN_LIMIT or not with_times)
    yield good, f"{name} against full: {text}"


def compare(full: Kernels, part: Kernels) -> tuple[float, float, str]:
    """Return the largest deviation of calls, of means, and both in words."""
    whole = sum(total for _, _, total in full.values())
    steady = [name for name, (_, _, total) in full.items() if total >= SHARE * whole]
    absent = [name for name in steady if name not in part]
    off_calls: list[tuple[float, str]] = [(1.0, name) for name in absent]
    off_means: list[tuple[float, str]] = []
    untimed = 0
    for name in steady:
        if name in part:
            (calls, timed, total), (its_calls, its_timed, its_total) = full[name], part[name]
            off_calls.append((abs(its_calls / calls - 1), name))
            if timed and its_timed:
                off_means.append((abs(its_total / its_timed / (total / timed) - 1), name))
            untimed += its_timed == 0
    sums = [sum(kernel[0] for kernel in each.values()) for each in (full, part)]
    off_calls.append((abs(sums[1] / sums[0] - 1), "all kernels"))
    (most, calls_of), (means, means_of) = max(off_calls), max(off_means, default=(0.0, "none"))
    text = (
        f"calls {sums[1]} against {sums[0]}, off by at most {most:.2%} ({calls_of[:60]}); means "
        f"off by at most {means:.2%} ({means_of[:60]}); {len(steady)} kernels of {len(full)} "
        f"compared ({untimed} of them without times in the sample), with "
        f"{sum(full[n][2] for n in steady) / whole:.1%} of the GPU time"
    )
    return most, means, text


def kernels(metrics: dict[str, Any], path: str) -> Kernels:
    """Sum the rows of `path` and of what is within it by kernel."""
    sums: Kernels = {}
    for row in rows(metrics["kernels"]):
        if row["path"] == path or row["path"].startswith(path + "/"):
            name = metrics["kernel_names"][row["name_index"]]["mangled"]
            calls, timed, total = sums.get(name, (0, 0, 0))
            its_timed = row["calls"] - row["invalid_timestamp_calls"]
            sums[name] = (calls + row["calls"], timed + its_timed, total + row["total_ns"])
    return sums


def rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table of kernels with their path and name; a list has them already."""
    if isinstance(table, list):
        return table
    # Rows end where only zeros follow.
    named = [
        dict.fromkeys(table["columns"], 0) | dict(zip(table["columns"], row, strict=False))
        for row in table["rows"]
    ]
    return [row | table["names"][row["name"]] | table["ranges"][row["range"]] for row in named]


def load(file: Path) -> dict[str, Any]:
    """Read a JSON object."""
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document


def last_document(file: Path) -> dict[str, Any] | None:
    """Return the JSON line of a workload that came to its end."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line[:1] == "{"]
    return json.loads(lines[-1]) if lines else None


if __name__ == "__main__":
    sys.exit(main())
