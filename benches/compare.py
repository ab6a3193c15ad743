"""Run the benches of an earlier commit and of this one in turn, and print both in one table.

    python3 benches/compare.py [COMMIT] [--rounds N] [BENCH ...]

COMMIT is the previous release: the newest tag, or the commit that `PREVIOUS` in .ci/versions names
where there is none. Its worktree and its build are kept below target/compare. Rounds alternate
between the two, so that both have the same share of whatever else the machine does. Times are
divan's medians; the spread is that of the rounds. The exit status is 1 where a bench cannot be
built or run.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "target" / "compare"
BENCHES = ["drain", "nvtx", "nvtx_cupti"]
UNITS_NS = {"ps": 1e-3, "ns": 1.0, "µs": 1e3, "us": 1e3, "ms": 1e6, "s": 1e9}
ROW = re.compile(r"^(?P<indent>[\s│]*)[├╰]─ (?P<name>\S+)(?P<rest>.*)$")
TIME = re.compile(r"^\s*([\d.]+) (ps|ns|µs|us|ms|s)\s*$")


def times(text: str) -> dict[str, float]:
    """Read divan's tables: median in ns by the path of the bench, its parts joined by `/`."""
    found: dict[str, float] = {}
    path: list[str] = []
    for line in text.splitlines():
        row = ROW.match(line)
        if row is None:
            continue
        depth = len(row["indent"]) // 3
        path = [*path[:depth], row["name"]]
        columns = row["rest"].split("│")
        time = TIME.match(columns[2]) if len(columns) > 3 else None
        if time is not None:
            found["/".join(path)] = float(time[1]) * UNITS_NS[time[2]]
    return found


def previous() -> str:
    """Name the previous release."""
    tag = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0"], cwd=ROOT, capture_output=True, text=True
    )
    if tag.returncode == 0:
        return tag.stdout.strip()
    versions = (ROOT / ".ci" / "versions").read_text(encoding="utf-8")
    named = re.search(r"^PREVIOUS=(\S+)$", versions, re.MULTILINE)
    if named is None:
        sys.exit("compare: there is no tag, and .ci/versions names no PREVIOUS; give a commit")
    return named[1]


def checkout(commit: str) -> Path:
    """Give a worktree of the commit."""
    tree = PLACE / "tree"
    if tree.is_dir():
        command = ["git", "-C", str(tree), "checkout", "--quiet", "--detach", commit]
    else:
        command = ["git", "worktree", "add", "--quiet", "--force", "--detach", str(tree), commit]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare: {commit} cannot be checked out: {done.stderr.strip()}")
    return tree


def bench(tree: Path, name: str) -> dict[str, float]:
    """Run one bench of a tree."""
    command = ["cargo", "bench", "--locked", "--quiet", "-p", "stage2", "--bench", name]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare: bench {name} fails in {tree}: {done.stderr.strip()[-2000:]}")
    return {f"{name}/{path}": time for path, time in times(done.stdout).items()}


def shown(ns: float) -> str:
    """Write a time with a unit that fits."""
    for unit, size in [("ns", 1.0), ("us", 1e3), ("ms", 1e6)]:
        if ns < size * 1000:
            return f"{ns / size:.3g} {unit}"
    return f"{ns / 1e9:.3g} s"


def table(before: list[dict[str, float]], now: list[dict[str, float]]) -> str:
    """Compare the rounds of both: medians, their quotient and the larger spread of the two."""
    lines = [
        "| bench | before | now | now / before | spread of the rounds |",
        "|---|---|---|---|---|",
    ]
    names = {name for each in [*before, *now] for name in each}
    for name in sorted(names):
        old = [each[name] for each in before if name in each]
        new = [each[name] for each in now if name in each]
        if not old or not new:
            lines.append(f"| {name} | {'' if old else 'not there'} | {'' if new else 'gone'} | | |")
            continue
        spread = max((max(each) - min(each)) / median(each) for each in (old, new))
        lines.append(
            f"| {name} | {shown(median(old))} | {shown(median(new))} "
            f"| {median(new) / median(old):.2f} | {spread:.0%} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit", nargs="?", help="the newest tag, or PREVIOUS of .ci/versions")
    parser.add_argument("benches", nargs="*", metavar="BENCH", help=f"of {', '.join(BENCHES)}")
    parser.add_argument("--rounds", type=int, default=3, help="of each of the two (3)")
    options = parser.parse_args()
    commit = options.commit or previous()
    tree = checkout(commit)
    names = options.benches or BENCHES
    before: list[dict[str, float]] = [{} for _ in range(options.rounds)]
    now: list[dict[str, float]] = [{} for _ in range(options.rounds)]
    for turn in range(options.rounds):
        order = [(tree, before), (ROOT, now)]
        for where, results in order if turn % 2 == 0 else reversed(order):
            for name in names:
                results[turn].update(bench(where, name))
    print(f"Medians of {options.rounds} rounds in turn, this checkout and {commit}:\n")
    print(table(before, now))


if __name__ == "__main__":
    main()
