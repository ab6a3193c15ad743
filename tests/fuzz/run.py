"""Run the fuzz targets under libFuzzer, and keep the inputs that reach new code.

    python3 tests/fuzz/run.py                     every target for ten minutes
    python3 tests/fuzz/run.py 1                   for one minute
    python3 tests/fuzz/run.py 10 trace hydra      these targets
    python3 tests/fuzz/run.py --list              names of the targets

libFuzzer counts which code an input reaches: LLVM's coverage pass is in the stable compiler, and
only the sanitizers need a nightly one. Each target has a limit of memory for the whole process
and one of time for an input; crates/fuzz holds each input to closer ones. What a run finds is
kept below target/fuzz. At its end inputs that together reach the same code are taken from there
into tests/fuzz/corpus, as far as there is room. The exit status is 1 if an input fails; the file
that holds it is named.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CORPUS = HERE / "corpus"
WORK = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "fuzz"
TRIPLE = "x86_64-unknown-linux-gnu"
# As cargo-fuzz has them, without a sanitizer.
COVERAGE = (
    "-Cpasses=sancov-module"
    " -Cllvm-args=-sanitizer-coverage-level=4"
    " -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
    " -Cllvm-args=-sanitizer-coverage-pc-table"
    " -Cllvm-args=-sanitizer-coverage-trace-compares"
    " --cfg fuzzing"
)
MEMORY_MIB = 512
# Much longer than an input may take by its target's own limit, which is one of CPU time.
SECONDS_PER_INPUT = 30
MAX_INPUT_BYTES = 64 * 1024
# What the repository keeps of each target.
MAX_KEPT_BYTES = 200 * 1024
MAX_KEPT_FILES = 60
DONE = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)
COVERED = re.compile(r"\bcov: (\d+)")
COUNTERS = re.compile(r"Loaded \d+ modules\s+\((\d+) inline 8-bit counters\)")


@dataclass(frozen=True)
class Outcome:
    """What a target's run came to."""

    target: str
    executions: int
    covered: int
    counters: int
    failed: list[Path]


def build() -> Path:
    """Build the program with coverage, and return its path."""
    environment = dict(os.environ, RUSTFLAGS=COVERAGE, CARGO_INCREMENTAL="0")
    command = [
        *("cargo", "build", "--locked", "--profile", "fuzzing", "--target", TRIPLE),
        *("--target-dir", str(WORK), "-p", "stage2-fuzz", "--features", "guided"),
    ]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return WORK / TRIPLE / "fuzzing" / "stage2-fuzz"


def libfuzzer(program: Path, target: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Start libFuzzer over a target and wait for its end."""
    environment = dict(os.environ, STAGE2_FUZZ_TARGET=target)
    limits = [f"-rss_limit_mb={MEMORY_MIB}", f"-timeout={SECONDS_PER_INPUT}"]
    command = [str(program), *limits, f"-max_len={MAX_INPUT_BYTES}", *options]
    return subprocess.run(
        command,
        cwd=WORK,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def fuzz(program: Path, target: str, minutes: float) -> Outcome:
    """Fuzz a target for so long."""
    found, failures = WORK / "found" / target, WORK / "failed" / target
    found.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(failures, ignore_errors=True)
    failures.mkdir(parents=True)
    seconds = max(1, round(minutes * 60))
    options = [f"-max_total_time={seconds}", "-print_final_stats=1", "-len_control=20", "-reload=0"]
    run = libfuzzer(
        program, target, *options, f"-artifact_prefix={failures}/", str(found), str(CORPUS / target)
    )
    said = run.stderr
    (WORK / f"{target}.log").write_text(said, encoding="utf-8")
    failed = sorted(failures.iterdir())
    if run.returncode != 0 and not failed:
        print(said[-4000:], file=sys.stderr)
        raise SystemExit(f"{target}: libFuzzer ended with {run.returncode} and kept no input")

    def last(pattern: re.Pattern[str]) -> int:
        numbers = pattern.findall(said)
        return int(numbers[-1]) if numbers else 0

    return Outcome(target, last(DONE), last(COVERED), last(COUNTERS), failed)


def keep(program: Path, target: str) -> int:
    """Take inputs that reach what was reached into the corpus; return how many are new."""
    merged = WORK / "merged" / target
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    # What the corpus has comes first, so that it stays.
    shutil.copytree(CORPUS / target, merged, dirs_exist_ok=True)
    run = libfuzzer(
        program, target, "-set_cover_merge=1", str(merged), str(WORK / "found" / target)
    )
    if run.returncode != 0:
        print(f"{target}: nothing was taken over: {run.stderr[-500:]}", file=sys.stderr)
        return 0
    known = {path.name for path in (CORPUS / target).iterdir()}
    room = MAX_KEPT_BYTES - sum(path.stat().st_size for path in (CORPUS / target).iterdir())
    new = 0
    # By their names, which are hashes: the smallest ones alone reach only the start of each reader.
    for path in sorted(merged.iterdir(), key=lambda path: path.name):
        size = path.stat().st_size
        fits = size <= min(room, MAX_KEPT_BYTES // 10) and len(known) + new < MAX_KEPT_FILES
        if path.name not in known and fits:
            shutil.copy(path, CORPUS / target / path.name)
            room -= size
            new += 1
    return new


def main() -> int:
    """Build, fuzz each target, and say what came of it."""
    names = sorted(path.name for path in CORPUS.iterdir() if path.is_dir())
    parser = argparse.ArgumentParser(description="Run the fuzz targets under libFuzzer.")
    parser.add_argument(
        "minutes", nargs="?", type=float, default=10, help="minutes for each target"
    )
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(names)}; none: all")
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    parser.add_argument("--keep-nothing", action="store_true", help="leave the corpus as it is")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(names))
        return 0
    unknown = sorted(set(arguments.targets) - set(names))
    if unknown or not arguments.minutes > 0:
        missing = f"no target {', '.join(unknown)}"
        parser.error(missing if unknown else "minutes have to be positive")
    program = build()
    outcomes = []
    head = ("target", "minutes", "executions", "edges reached", "new")
    print("{:14} {:>7} {:>10} {:>17} {:>4} failures".format(*head), flush=True)
    for target in arguments.targets or names:
        outcome = fuzz(program, target, arguments.minutes)
        outcomes.append(outcome)
        new = 0 if arguments.keep_nothing or outcome.failed else keep(program, target)
        edges = f"{outcome.covered} of {outcome.counters}"
        row = f"{target:14} {arguments.minutes:7g} {outcome.executions:10} {edges:>17} {new:4}"
        print(f"{row} {len(outcome.failed)}", flush=True)
        for path in outcome.failed:
            print(f"  {path}; what it broke: {WORK / (target + '.log')}", flush=True)
    failed = [outcome.target for outcome in outcomes if outcome.failed]
    if failed:
        print(f"FAILED: {', '.join(failed)}. To repeat: STAGE2_FUZZ_TARGET=TARGET {program} FILE")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
