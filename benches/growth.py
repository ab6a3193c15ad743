"""Measure how time and memory of `merge`, `diff`, `export` and `job` grow, and print a table.

    python3 benches/growth.py [ROW ...] [--launcher PATH] [--examples FOLDER] [--rounds N]

Rows are `ranks`, `kernels`, `kernel-names`, `range-names` (`merge`, then `diff` of two bundles),
`exports` (kernels; every format), `summaries` (ranks of an hour; `job`), or one of their sizes, as
`ranks=100`. The files come from the examples `grow` and `generate` of crates/contract and
`job_files` of crates/summary, which are built for release unless --examples names their folder.
They are removed again. Time is the wall clock's, CPU time that of user and system, memory the
process's peak; the least of the rounds and the largest are given. The exit status is 1 where a
command fails.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZES = {
    "ranks": [1, 10, 100, 1_000, 10_000],
    "kernels": [1_000_000, 10_000_000, 100_000_000],
    "kernel-names": [1_000, 10_000, 100_000],
    "range-names": [1_000, 10_000, 100_000],
    "exports": [10_000_000],
    "summaries": [1_000, 10_000],
}
FORMATS = ["folded", "pprof", "hatchet", "chrome", "perfetto", "sqlite", "csv"]
MINUTES = "60"
"""Of a summary."""


def generate(example: Path, row: str, size: int, folder: Path) -> None:
    """Write the trace files or the summaries of one size."""
    command: list[str | Path] = [example / "grow", folder, row, str(size)]
    if row in ("kernels", "exports"):
        command = [example / "generate", folder, f"kernels={size}"]
    elif row == "summaries":
        command = [example / "job_files", folder, str(size), MINUTES]
    elif row == "range-names":  # Two processes share them.
        command = [example / "grow", folder, row, str(size // 2)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


Run = tuple[float, float, float]


def measured(command: list[str | Path]) -> Run:
    """Run a command and give its wall time (s), its CPU time (s) and its peak memory (MB)."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - began
        if process.returncode != 0:
            said.seek(0)
            text = said.read().decode(errors="replace")
            sys.exit(f"growth: {command}: exit status {process.returncode}:\n{text}")
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def spread(values: list[float]) -> str:
    """Give the least and the largest with two digits that count."""
    least, most = (f"{v:.0f}" if v >= 100 else f"{v:.2g}" for v in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"


def megabytes(path: Path) -> float:
    """Give the size of a file, or of all files below a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def line(row: str, size: int, what: str, runs: list[Run], written: Path | None = None) -> None:
    """Print one line of the table."""
    columns = [spread([run[at] for run in runs]) for at in range(3)]
    columns.append(spread([megabytes(written)]) if written else "")
    things = {"exports": "kernels", "summaries": "summaries of an hour"}.get(row, row)
    things = things.replace("-", " ").removesuffix("s" if size == 1 else "")
    print(f"| {size:,} {things} | {what} | {' | '.join(columns)} |", flush=True)


def reports(launcher: Path, row: str, size: int, folder: Path, rounds: int) -> None:
    """Merge trace files, and compare two of the bundles."""
    merge: list[str | Path] = [launcher, "merge", "--spool", folder / "trace", "-o"]
    runs = [measured([*merge, folder / f"run-{of}"]) for of in range(rounds)]
    line(row, size, "merge", runs, folder / "run-0")
    if rounds > 1:
        diff: list[str | Path] = [launcher, "diff", folder / "run-0", folder / "run-1", "--output"]
        line(row, size, "diff", [measured([*diff, folder / "diff.md"]) for _ in range(rounds)])


def exports(launcher: Path, row: str, size: int, folder: Path, rounds: int) -> None:
    """Write a bundle in each format."""
    bundle, written = folder / "run", folder / "export"
    measured([launcher, "merge", "--spool", folder / "trace", "-o", bundle])
    for form in FORMATS:
        runs = []
        for _ in range(rounds):
            remove(written)
            runs.append(measured([launcher, "export", bundle, "-f", form, "-o", written]))
        line(row, size, f"export -f {form}", runs, written)
        remove(written)


def jobs(launcher: Path, row: str, size: int, folder: Path, rounds: int) -> None:
    """Merge summaries, and write the page of the job."""
    command: list[str | Path] = [launcher, "job", folder / "trace", "--out"]
    runs = [measured([*command, folder / f"job-{of}"]) for of in range(rounds)]
    line(row, size, "job", runs, folder / "job-0")


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("rows", nargs="*", default=list(SIZES))
    built = ROOT / "target" / "release"
    parser.add_argument("--launcher", type=Path, default=built / "stage2-launch")
    parser.add_argument("--examples", type=Path, help="where they are, instead of building them")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if not given.examples:
        build = ["cargo", "build", "--release", "--locked", "--examples"]
        build += ["-p", "stage2-contract", "-p", "stage2-summary"]
        subprocess.run(build, cwd=ROOT, check=True)
    # A core dump of a crash would fill the disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("| size | command | wall s | CPU s | peak MB | written MB |\n|---|---|---|---|---|---|")
    for word in given.rows:
        row, _, one = word.partition("=")
        measure = {"exports": exports, "summaries": jobs}.get(row, reports)
        for size in [int(one)] if one else SIZES[row]:
            folder = Path(tempfile.mkdtemp(prefix="growth-"))
            try:
                generate(given.examples or built / "examples", row, size, folder / "trace")
                measure(given.launcher, row, size, folder, given.rounds)
            finally:
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
