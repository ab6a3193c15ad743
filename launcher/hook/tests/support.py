"""A piece of Python becomes a child process under the hook, and what it did becomes a list."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T", bound=Callable[..., Any])

HOOK = Path(__file__).resolve().parents[1]


class Ran(NamedTuple):
    """What a child left behind."""

    status: int
    out: str
    err: str
    ranges: list[str]
    """Paths of the ranges in the order of their opening; `!` stands for one too many pops."""


class EngineRan(NamedTuple):
    """What a child with an engine left behind."""

    ran: Ran
    description: dict[str, Any] | None
    """The engine's configuration that the hook wrote."""


def run_engine(sources: dict[str, str], code: str, annotate: str) -> EngineRan:
    """Run `code` with modules of these paths and sources, under a stand-in for the collector."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # The hook writes the configuration of an engine to its own folder.
        hook = folder / "hook"
        shutil.copytree(HOOK, hook, ignore=shutil.ignore_patterns("tests", "__pycache__"))
        for path, text in sources.items():
            file = folder / "packages" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        # With this name, the hook calls it without a package.
        tool = folder / "libstage2.so"
        tool.symlink_to(nvtx_tool())
        env = {"NVTX_INJECTION64_PATH": str(tool)}
        find = f"import sys; sys.path.insert(0, {str(folder / 'packages')!r})\n"
        ran = run(find + code, annotate, env=env, hook=hook)
        written = list(hook.glob("engine-*.json"))
        return EngineRan(ran, json.loads(written[0].read_text()) if written else None)


def run(
    code: str,
    annotate: str = "",
    *flags: str,
    path: str = "",
    env: dict[str, str] | None = None,
    hook: Path = HOOK,
) -> Ran:
    """Run `code` with the hook in front of `path`."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "nvtx.log")
        own = {
            "PYTHONPATH": str(hook) + (os.pathsep + path if path else ""),
            "PYTHONDONTWRITEBYTECODE": "1",
            "STAGE2_ANNOTATE": annotate,
            "STAGE2_LOG": "warn",
            "NVTX_LOG": str(log),
        }
        done = subprocess.run(
            [sys.executable, *flags, "-c", code],
            env={**os.environ, **own, **(env or {})},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        lines = log.read_text().splitlines() if log.exists() else []
    return Ran(done.returncode, done.stdout, done.stderr, _paths(lines))


def _paths(lines: list[str]) -> list[str]:
    stacks: dict[str, list[str]] = {}
    paths = []
    for line in lines:
        what, thread, *name = line.split(" ", 2)
        stack = stacks.setdefault(thread, [])
        if what == "push":
            stack.append(name[0])
            paths.append("/".join(stack))
        elif stack:
            stack.pop()
        else:
            paths.append("!")
    if any(stacks.values()):
        paths.append("(still open)")
    return paths


def needs(*modules: str) -> Callable[[T], T]:
    """Skip a test where a module is missing."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(bool(missing), f"not installed: {', '.join(missing)}")


@functools.lru_cache(maxsize=None)
def nvtx_tool() -> str:
    """Build the NVTX tool that writes the log, and return its path."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise unittest.SkipTest("no C compiler (cc)")
    folder = tempfile.mkdtemp(prefix="stage2-nvtx-log-")
    library = os.path.join(folder, "nvtx_log.so")
    source = Path(__file__).with_name("nvtx_log.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def run_with_nvtx(code: str, annotate: str, *flags: str) -> Ran:
    """Run `code` under the hook, with the tool that writes down ranges."""
    return run(code, annotate, *flags, env={"NVTX_INJECTION64_PATH": nvtx_tool()})
