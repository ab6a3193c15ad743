"""Runs `stage2-launch` of this installation."""

from __future__ import annotations

import os
import subprocess
from typing import Sequence

from ._install import launcher_path


def launch(
    words: Sequence[str], timeout_s: float | None = None, folder: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `stage2-launch WORDS` to its end, in this folder, and capture its output.

    Raises:
        InstallError: It is not installed.
        OSError: It cannot be started.
        subprocess.TimeoutExpired: It took more than `timeout_s` seconds.

    """
    return subprocess.run(
        [str(launcher_path()), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout_s,
        check=False,
        cwd=folder,
        env=_without_collector(),
    )


def as_operand(path: str | os.PathLike[str]) -> str:
    """Return a path as a word that is neither an option nor a setting."""
    text = os.fspath(path) or os.curdir
    # An option begins with a dash, and a setting has an equals sign.
    is_plain = os.path.isabs(text) or not (text.startswith("-") or "=" in text)
    return text if is_plain else f"./{text}"


def _without_collector() -> dict[str, str]:
    """Return the environment of this process without a preloaded collector."""
    environment = dict(os.environ)
    preloaded = environment.pop("LD_PRELOAD", "").replace(":", " ").split()
    others = [path for path in preloaded if not os.path.basename(path).startswith("libstage2")]
    if others:
        environment["LD_PRELOAD"] = ":".join(others)
    return environment
