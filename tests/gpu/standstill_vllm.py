"""vLLM over two GPUs, one of whose workers is stopped -> whether `ctl why` names it.

    standstill_vllm.py recording|dormant COLLECTOR LAUNCHER OUT GEN

Starts `GEN --tp 2` under the collector. While it generates it is asked once, then the worker of the
second rank gets SIGSTOP, and it is asked again by its folder and with --all; after SIGCONT it
has to go on. Prints a PASS or FAIL line for each.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

CALLS = 400
START_S = 150.0
"""The longest that the engine may take until it has generated twice."""
STANDS_S = 4.0
"""How long the worker is stopped before it is asked: what the others had queued has ended."""
MOST_S = 2.0


def workers(parent: int) -> list[tuple[str, int]]:
    """Return title and number of the descendants of a process."""
    of: dict[int, list[int]] = {}
    titles = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        above = int(stat.rpartition(")")[2].split()[1])
        of.setdefault(above, []).append(int(folder.name))
        titles[int(folder.name)] = title.strip()
    found, left = [], [parent]
    while left:
        pid = left.pop()
        found.append((titles.get(pid, ""), pid))
        left += of.get(pid, [])
    return sorted(found)


class Engine:
    """vLLM under the collector."""

    failed = 0

    def __init__(self, phase: str, collector: str, launcher: str, out: str, gen: str) -> None:
        """Start it."""
        self.phase, self.launcher, self.out = phase, launcher, Path(out)
        (self.out / "traces").mkdir(parents=True)
        (self.out / "run").mkdir(mode=0o700)
        self.log = self.out / "vllm.log"
        variables = {
            "LD_PRELOAD": collector,
            "STAGE2_OUT": str(self.out / "traces"),
            "STAGE2_START": "on" if phase == "recording" else "off",
            "STAGE2_SUMMARY": "off",
            "XDG_RUNTIME_DIR": str(self.out / "run"),
        }
        command = [sys.executable, gen, "--tp", "2", "--calls", str(CALLS), "--prompts", "8"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, env={**os.environ, **variables}, stdout=log, stderr=subprocess.STDOUT
            )

    def calls(self) -> int:
        """Return how often it has generated."""
        return len(
            re.findall(r"^generate \d+:", self.log.read_text(errors="replace"), re.MULTILINE)
        )

    def wait(self, calls: int, seconds: float) -> bool:
        """Wait until it has generated so often."""
        until = time.monotonic() + seconds
        while self.calls() < calls:
            if time.monotonic() > until or self.process.poll() is not None:
                return False
            time.sleep(0.1)
        return True

    def say(self, fits: bool, text: str) -> None:
        """Print a line of the result."""
        Engine.failed += not fits
        print(f"{'PASS' if fits else 'FAIL'} vLLM, {self.phase}: {text}", flush=True)

    def why(self, what: str, target: str, expected: str) -> None:
        """Ask, and compare the first line with what it has to say."""
        run = str(self.out / "run")
        begun = time.monotonic()
        try:
            asked = subprocess.run(
                [self.launcher, "ctl", target, "why"],
                env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": run},
                capture_output=True,
                text=True,
                timeout=20,
            )
            text = asked.stdout or asked.stderr
        except subprocess.TimeoutExpired:
            text = "no answer in 20 s"
        took = time.monotonic() - begun
        (self.out / f"why-{what.replace(' ', '-')}.txt").write_text(text)
        first = text.splitlines()[0] if text else ""
        fits = re.search(expected, first) is not None and took < MOST_S
        self.say(fits, f"{what} ({took:.2f} s): {first}")


def main() -> int:
    """Run it."""
    if len(sys.argv) != 6:
        print(__doc__, file=sys.stderr)
        return 2
    engine = Engine(*sys.argv[1:])
    try:
        if not engine.wait(2, START_S):
            engine.say(False, "it does not generate")
            print(engine.log.read_text(errors="replace")[-3000:])
            return 1
        found = workers(engine.process.pid)
        print(*found, sep="\n", flush=True)
        folder = str(engine.out / "traces")
        engine.why("it works", folder, "(?i)kernels end|the GPU is|the host|nothing is known")
        stopped = [pid for title, pid in found if "Worker_TP1" in title]
        if len(stopped) != 1:
            engine.say(False, f"{len(stopped)} processes are called Worker_TP1")
            return 1
        os.kill(stopped[0], signal.SIGSTOP)
        time.sleep(STANDS_S)
        expected = f"(?i)process {stopped[0]}.*is stopped"
        engine.why("rank 1 is stopped", folder, expected)
        engine.why("asked with all", "--all", expected)
        calls = engine.calls()
        os.kill(stopped[0], signal.SIGCONT)
        went_on = engine.wait(calls + 3, 60)
        engine.say(went_on, f"it went on after SIGCONT ({engine.calls() - calls} calls since)")
    finally:
        # Nobody waits for the rest of the calls.
        engine.process.send_signal(signal.SIGINT)
        try:
            engine.process.wait(30)
        except subprocess.TimeoutExpired:
            for _, pid in workers(engine.process.pid)[::-1]:
                os.kill(pid, signal.SIGKILL)
        said = engine.log.read_text(errors="replace")
        ours = [line for line in said.splitlines() if "stage2" in line.lower()]
        print(*ours[-10:], sep="\n", flush=True)
    return int(Engine.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
