"""Guests with the collector under helgrind and memcheck, and programs that have to be reported.

`run.sh` beside this file builds what is needed and starts it.
"""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ["STAGE2_VALGRIND_BUILD"])
OWN = BUILD / "valgrind"
COLLECTOR = BUILD / "debug" / "libstage2.so"
GUEST = str(BUILD / "debug" / "examples" / "guest")
HANDED_OVER = str(OWN / "handed_over")
SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) errors")
TIME_LIMIT_S = 240

# One thread after another gets its turn. A start runs on a stack of our own, often less than 2 MB
# from the guest's, which valgrind takes for one large frame without the limit.
ALWAYS = ["--fair-sched=try", "--max-stackframe=65536", "--num-callers=40"]
HELGRIND = ["--tool=helgrind", "--history-level=full", f"--suppressions={HERE / 'helgrind.supp'}"]
MEMCHECK = ["--tool=memcheck"]
LEAKS = [
    "--leak-check=full",
    "--show-leak-kinds=definite,indirect",
    "--errors-for-leak-kinds=definite,indirect",
]

# What guests do at the same time, each with the settings that its test in Rust has.
GUESTS: list[tuple[str, dict[str, str]]] = [
    ("threads", {}),
    ("threads", {"STAGE2_SIM_CUPTI_VERSION": "13.5", "STAGE2_CUPTI_API": "v2"}),
    ("threads", {"STAGE2_ATTRIBUTION": "callback"}),
    ("start_end", {}),
    ("gated", {"STAGE2_RANGES": "dec*"}),
    ("sampled_threads", {"STAGE2_RANGES": "t*.step", "STAGE2_SAMPLE": "1/8"}),
    ("crowd", {"STAGE2_TEST_THREADS": "20"}),
    ("come_and_go", {"STAGE2_TEST_THREADS": "80"}),
    ("nccl", {}),
    ("popped_elsewhere", {}),
    ("main_ends_with_cuda", {}),
    ("main_ends_beside_a_start", {}),
    ("fork_before_cuda", {}),
    ("fork_among_threads", {}),
]
# What reads and writes memory of others, or makes much of its own.
MEMORY_GUESTS: list[tuple[str, dict[str, str]]] = [
    ("threads", {}),
    ("threads", {"STAGE2_SIM_CUPTI_VERSION": "13.5", "STAGE2_CUPTI_API": "v2"}),
    ("graph", {}),
    ("strings", {}),
    ("nccl", {}),
    ("hostile_payloads", {}),
    ("start_end", {}),
]


def run(
    tool: list[str], program: list[str], settings: dict[str, str], preloaded: list[Path]
) -> str:
    """Run a program under a tool; return the reports of all its processes, "" if there are none."""
    with tempfile.TemporaryDirectory() as folder:
        simulator = str(BUILD / "debug" / "libstage2_sim.so")
        environment = {
            "PATH": os.environ["PATH"],
            # A new thread does not get the stack of one that has ended, with its thread-locals:
            # no lock orders the two.
            "GLIBC_TUNABLES": "glibc.pthread.stack_cache_size=0",
            "LD_PRELOAD": " ".join(map(str, preloaded)),
            "STAGE2_TEST_SIM": simulator,
            "STAGE2_CUPTI": simulator,
            "STAGE2_SIM_FAST": "1",
            "STAGE2_FLUSH_MS": "50",
            "STAGE2_SUMMARY": "off",
            "STAGE2_OUT": folder,
        }
        # Each process has a log of its own: a report of a child counts as much.
        command = ["valgrind", *ALWAYS, *tool, f"--log-file={folder}/%p.log", *program]
        done = subprocess.run(
            command,
            env=environment | settings,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIME_LIMIT_S,
            check=False,
        )
        logs = [path.read_text(errors="replace") for path in sorted(Path(folder).glob("*.log"))]
        said = "\n".join(logs)
        counts = [int(count) for count in SUMMARY.findall(said)]
        if done.returncode != 0 or not counts:
            raise AssertionError(f"{program} ended with {done.returncode}: {done.stderr}{said}")
        if COLLECTOR in preloaded and not list(Path(folder).glob("*.s2t")):
            raise AssertionError(f"{program} left no trace file: {done.stderr}")
        return said if any(counts) else ""


def under_helgrind(program: list[str], settings: dict[str, str], *collector: Path) -> str:
    """Run a program whose atomics helgrind is told of."""
    return run(HELGRIND, program, settings, [OWN / "orders.so", *collector])


class Reports(unittest.TestCase):
    """What has to be noticed is noticed, and nothing else."""

    def test_data_that_are_handed_over_without_an_order_are_reported(self) -> None:
        for way in ("relaxed", "stored_relaxed", "swapped_relaxed"):
            with self.subTest(way):
                said = under_helgrind([HANDED_OVER, way], {})
                self.assertIn("Possible data race during read of size 8", said)

    def test_data_that_are_handed_over_in_order_are_not_reported(self) -> None:
        for way in ("released", "swapped", "fenced"):
            with self.subTest(way):
                self.assertEqual(under_helgrind([HANDED_OVER, way], {}), "")

    def test_helgrind_alone_takes_every_order_of_atomics_for_a_race(self) -> None:
        # Otherwise the wrappers are needed no longer, or do not wrap.
        said = run(HELGRIND, [HANDED_OVER, "released"], {}, [])
        self.assertIn("Possible data race during read of size 8", said)

    def test_uninitialised_and_lost_memory_is_reported(self) -> None:
        said = run(MEMCHECK, [HANDED_OVER, "uninitialised"], {}, [])
        self.assertIn("depends on uninitialised value", said)
        said = run([*MEMCHECK, *LEAKS], [HANDED_OVER, "leaked"], {}, [])
        self.assertIn("1,000 bytes in 1 blocks are definitely lost", said)


class Races(unittest.TestCase):
    """Helgrind has nothing to report of the collector."""

    # Hazard (Threads, stacks and locks): Threads of the guest, of CUPTI and of the collector access
    #  the same memory.
    # Promise: Each access is ordered with the one before it by a lock or an atomic that promises
    #  as much.
    def test_no_guest_shows_a_race(self) -> None:
        for hazard, settings in GUESTS:
            with self.subTest(hazard, **settings):
                self.assertEqual(under_helgrind([GUEST, hazard], settings, COLLECTOR), "")


class Memory(unittest.TestCase):
    """Memcheck has nothing to report of the collector."""

    # Hazard (Threads, stacks and locks): Memory is read beyond its end, after its end or before it
    #  is written; memory is lost.
    # Promise: None of it, with texts, graphs, payloads and forked children.
    def test_no_guest_shows_an_invalid_access_or_a_leak(self) -> None:
        for hazard, settings in MEMORY_GUESTS:
            with self.subTest(hazard, **settings):
                said = run([*MEMCHECK, *LEAKS], [GUEST, hazard], settings, [COLLECTOR])
                self.assertEqual(said, "")

    def test_no_forked_child_shows_an_invalid_access(self) -> None:
        # What its parent's threads held has no owner in a child, and stays as it is.
        self.assertEqual(run(MEMCHECK, [GUEST, "fork_before_cuda"], {}, [COLLECTOR]), "")


if __name__ == "__main__":
    unittest.main()
