"""What several tests need: the workload as a child process, and ranges that write down events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from runner.ranges import Ranges

EXAMPLES = Path(__file__).resolve().parents[2]
"""The folder that `python -m runner` is started in."""

STUB_NVTX = """
import os
events = open(os.environ["STUB_NVTX_EVENTS"], "a", buffering=1)
def push_range(message=None, **_):
    print("push", message, file=events)
def pop_range():
    print("pop", file=events)
"""
"""A package `nvtx` that writes each call into the file that STUB_NVTX_EVENTS names."""


def run_app(
    folder: Path, *overrides: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the workload on the numpy backend with `hydra.run.dir=folder`."""
    command = [sys.executable, "-m", "runner", "backend=numpy", f"hydra.run.dir={folder}"]
    return subprocess.run(
        [*command, *overrides],
        cwd=EXAMPLES,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def stdout_document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the one JSON line of a run that succeeded."""
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    return json.loads(line)


class Recorder:
    """Ranges that note the path of every range opened, and how deep the stack still is."""

    def __init__(self) -> None:
        """Start with no range open."""
        self.stack: list[str] = []
        self.paths: list[str] = []
        self.ranges = Ranges("recorder", push=self._push, pop=self._pop)

    def _push(self, name: str) -> int:
        """Return the depth, as NVTX does where a tool listens."""
        self.stack.append(name)
        self.paths.append("/".join(self.stack))
        return len(self.stack) - 1

    def _pop(self) -> int:
        self.stack.pop()
        return len(self.stack)


def paths(events: str) -> list[str]:
    """Turn the stub package's file into the path of every range opened, in order."""
    recorder = Recorder()
    for line in events.splitlines():
        what, _, name = line.partition(" ")
        if what == "push":
            recorder.ranges.push(name)
        else:
            recorder.ranges.pop()
    assert not recorder.stack, f"left open: {recorder.stack}"
    return recorder.paths
