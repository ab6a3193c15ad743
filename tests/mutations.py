"""Break one promise at a time, and expect the test that guards it to fail.

`mutations.toml` beside this file holds changes that break a promise of the project each, and the
command of the test that guards it. cargo-mutants makes the changes that follow a rule; those here
follow none (`mutations` and `mutants` of `.ci/full`).

This script copies the last commit into a worktree below `target/mutations`. It runs every test
command there on the unbroken code, where it must pass. Then it makes the changes one by one. A
mutation is caught if the code still compiles and the test reports a failure.

    python3 tests/mutations.py              all of them: hours
    python3 tests/mutations.py --jobs 2     in two worktrees at a time, each with its build
    python3 tests/mutations.py fork ends    those whose names contain one of the words
    python3 tests/mutations.py --sample 20  so many of them, others each day
    python3 tests/mutations.py --list       their names and promises

The exit status is 1 if a test fails on the unbroken code, or a mutation survives. Where the text
that a mutation changes is gone, or stands several times in its file, the mutation is STALE: mend or
remove its entry. Python 3.11 or newer.
"""

import argparse
import datetime
import os
import queue
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import tomllib

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "mutations.toml"
WORK = ROOT / "target" / "mutations"
# Of Rust's test harness, and of Python's unittest.
FAILED = re.compile(r"^test result: FAILED|^FAILED \(", re.MULTILINE)
TIME_LIMIT_S = 900
# Tests of single packages run programs of others, which cargo does not build for them.
BUILD = "cargo test --locked --workspace --no-run"

Todo = TypeVar("Todo")


@dataclass(frozen=True)
class Mutation:
    """An entry of the table: what it breaks, by which change, and the test that has to notice."""

    name: str
    promise: str
    file: str
    function: str
    find: str
    replace: str
    test: str

    def staleness(self, tree: Path) -> str | None:
        """Say why the change cannot be made in a tree; None where it can."""
        path = tree / self.file
        if not path.is_file():
            return f"{self.file} is gone"
        count = path.read_text(encoding="utf-8").count(self.find)
        if count == 1:
            return None
        return f"its text stands {count} times in {self.file} (it was in `{self.function}`)"

    def apply(self, tree: Path) -> None:
        """Make the change."""
        path = tree / self.file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(self.find, self.replace), encoding="utf-8")


def git(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run git and return what it said; never raise."""
    return subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Lane:
    """A worktree with a build of its own, where one thing is tried at a time."""

    place: Path
    """Folder of the worktree, the build and the logs."""

    jobs: int
    """Compilers that may run at a time."""

    @property
    def tree(self) -> Path:
        """The worktree."""
        return self.place / "tree"

    def fill(self) -> None:
        """Put the last commit into the worktree, whatever an interrupted run left there."""
        self.place.mkdir(parents=True, exist_ok=True)
        if (self.tree / ".git").exists():
            git("reset", "--hard", "--quiet", cwd=self.tree)
            head = git("rev-parse", "HEAD").stdout.strip()
            said = git("checkout", "--detach", "--force", "--quiet", head, cwd=self.tree)
        else:
            git("worktree", "prune")
            said = git("worktree", "add", "--detach", "--force", str(self.tree), "HEAD")
        if said.returncode:
            sys.exit(f"cannot make the worktree {self.tree}: {said.stderr.strip()}")

    def build(self) -> None:
        """Build the unbroken code."""
        if self.run(BUILD, self.place / "build.log")[0]:
            sys.exit(f"the unbroken code does not build: see {self.place / 'build.log'}")

    def run(self, command: str, log: Path) -> tuple[int, str]:
        """Run a command in the worktree; return its exit status (-1: too late) and its output."""
        environment = os.environ | {
            "CARGO_TARGET_DIR": str(self.place / "build"),
            "CARGO_BUILD_JOBS": str(self.jobs),
            "CARGO_TERM_COLOR": "never",
        }
        with log.open("w", encoding="utf-8") as out:
            # A session of its own: the time limit ends cargo, the test and its guests as well.
            child = subprocess.Popen(
                ["bash", "-c", command],
                cwd=self.tree,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
            try:
                status = child.wait(TIME_LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                status = -1
        return status, log.read_text(encoding="utf-8", errors="replace")

    def is_sound(self, command: str) -> bool:
        """Run a test command on the unbroken code, and say whether it passes."""
        log = self.place / "unbroken.log"
        status, said = self.run(command, log)
        ran = re.findall(r"^test result: ok\. (\d+) passed|^Ran (\d+) test", said, re.MULTILINE)
        if status == 0 and any(int(one or other) for one, other in ran):
            return True
        kept = log.rename(self.place / f"unsound-{time.monotonic_ns()}.log")
        print(f"UNSOUND  fails or runs no test on the unbroken code: {command} ({kept})")
        return False

    def catches(self, mutation: Mutation) -> bool:
        """Make one change, run its test, take the change back; say whether the test noticed."""
        log = self.place / f"{mutation.name}.log"
        began = time.monotonic()
        mutation.apply(self.tree)
        try:
            status, output = self.run(mutation.test, log)
        finally:
            git("checkout", "--quiet", "--", ".", cwd=self.tree)
            git("clean", "-fdq", cwd=self.tree)
        noticed = status != 0 and FAILED.search(output) is not None
        word = "caught  " if noticed else "SURVIVED" if status == 0 else "NO TEST "
        seconds = time.monotonic() - began
        print(f"{word} {mutation.name}, {seconds:.0f} s: {mutation.promise}", flush=True)
        if not noticed:
            print(f"         see {log}")
        return noticed


def in_lanes(lanes: list[Lane], todo: list[Todo], work: Callable[[Lane, Todo], bool]) -> int:
    """Do each thing in whatever lane is free; return how many of them were as they should be."""
    free: queue.SimpleQueue[Lane] = queue.SimpleQueue()
    for lane in lanes:
        free.put(lane)

    def one(what: Todo) -> bool:
        lane = free.get()
        try:
            return work(lane, what)
        finally:
            free.put(lane)

    with ThreadPoolExecutor(len(lanes)) as pool:
        return sum(pool.map(one, todo))


def chosen_mutations(words: list[str], sample: int | None) -> list[Mutation]:
    """Read the table; keep those whose name contains one of the words, and today's sample."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    mutations = [Mutation(**entry) for entry in table["mutation"]]
    if words:
        mutations = [one for one in mutations if any(word in one.name for word in words)]
    if sample is not None and sample < len(mutations):
        today = random.Random(datetime.date.today().toordinal())
        mutations = today.sample(mutations, max(sample, 1))
    return mutations


def without_stale(mutations: list[Mutation], tree: Path) -> list[Mutation]:
    """Return those that can be made in a tree, and report the others."""
    why = {one.name: one.staleness(tree) for one in mutations}
    for name, reason in why.items():
        if reason:
            print(f"STALE {name}: {reason}")
    return [one for one in mutations if why[one.name] is None]


def main() -> int:
    """Check the chosen mutations; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", help="only mutations whose name contains one of these")
    parser.add_argument("--sample", type=int, metavar="N", help="N of them, others each day")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="N worktrees at a time")
    parser.add_argument("--list", action="store_true", help="run no test")
    arguments = parser.parse_args()
    mutations = chosen_mutations(arguments.words, arguments.sample)
    if not mutations:
        sys.exit(f"{TABLE} holds no mutation of that name")
    if arguments.list:
        for one in without_stale(mutations, ROOT):
            print(f"{one.name}: {one.promise}")
        return 0
    jobs = max(arguments.jobs, 1)
    compilers = max((os.cpu_count() or 1) // jobs, 1)
    lanes = [Lane(WORK / str(number), compilers) for number in range(1, jobs + 1)]
    for lane in lanes:
        lane.fill()
    fresh = without_stale(mutations, lanes[0].tree)
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(Lane.build, lanes))
    # Neighbours have most of a build in common.
    fresh.sort(key=lambda one: one.test)
    tests = list(dict.fromkeys(one.test for one in fresh))
    sound = in_lanes(lanes, tests, Lane.is_sound)
    caught = in_lanes(lanes, fresh, Lane.catches)
    stale = len(mutations) - len(fresh)
    print(f"{caught} of {len(fresh)} mutations were caught; {stale} more are stale")
    return 0 if sound == len(tests) and caught == len(fresh) else 1


if __name__ == "__main__":
    sys.exit(main())
