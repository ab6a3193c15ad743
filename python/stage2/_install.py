"""Locates the files of this installation: the collector's library and `stage2-launch`."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Iterator, Mapping

LIBRARY = "libstage2.so"
LAUNCHER = "stage2-launch"
_INSTALL = "`pip install .` in a checkout of stage2 installs it, as the wheel does"


class InstallError(RuntimeError):
    """A file of the installation is missing, or cannot be used as asked."""


def library_path() -> Path:
    """Return the absolute path of the collector, for LD_PRELOAD.

    STAGE2_COLLECTOR names another library, as for `stage2-launch`, which otherwise loads the one
    next to it.

    Raises:
        InstallError: It is not installed; the text lists the places that were searched.
    """
    named = os.environ.get("STAGE2_COLLECTOR")
    places = [Path(named).absolute()] if named else list(dict.fromkeys(_libraries()))
    for path in places:
        if path.is_file():
            return path
    looked = " or ".join(str(path) for path in places)
    origin = "STAGE2_COLLECTOR names it" if named else _INSTALL
    raise InstallError(f"the collector is not at {looked}: {origin}")


def _libraries() -> Iterator[Path]:
    yield Path(__file__).absolute().with_name(LIBRARY)
    with contextlib.suppress(InstallError):
        folder = launcher_path().resolve().parent
        yield folder / LIBRARY
        yield folder.parent / "lib" / LIBRARY


def launcher_path() -> Path:
    """Return the absolute path of the program `stage2-launch` that belongs to this package.

    Raises:
        InstallError: It is not installed; the text lists the places that were searched.
    """
    places = list(dict.fromkeys(_launchers()))
    for path in places:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    looked = ", ".join(str(path) for path in places)
    raise InstallError(f"{LAUNCHER} is neither on PATH nor in {looked}: {_INSTALL}")


def _launchers() -> Iterator[Path]:
    try:
        files = metadata.distribution("stage2").files or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == LAUNCHER:
            yield Path(os.path.normpath(str(file.locate())))
    # `pip install --target` has no record of where it put the scripts.
    yield Path(__file__).absolute().parent.parent / "bin" / LAUNCHER
    yield Path(sysconfig.get_path("scripts")) / LAUNCHER
    yield Path(sys.executable).parent / LAUNCHER
    on_path = shutil.which(LAUNCHER)
    if on_path:
        yield Path(on_path).absolute()


def env(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which a command runs under the collector.

    It is `base`, or else the environment of this process, with the collector first in LD_PRELOAD.
    Without `stage2-launch`, the command prints a table of its top kernels at exit. STAGE2_OUT names
    a folder for a trace file.

    Raises:
        InstallError: The library is missing, or LD_PRELOAD cannot hold its path.
        TypeError: `base` is not a mapping.
    """
    if base is not None and not isinstance(base, Mapping):
        raise TypeError(f"base must be a mapping of variables or None, not {base!r}")
    path = str(library_path())
    if any(character in path for character in " :$\t\n"):
        raise InstallError(
            f"LD_PRELOAD cannot hold the path {path!r}: install stage2 into a folder without "
            "spaces, colons and dollar signs, or run the command with stage2-launch"
        )
    changed = dict(os.environ if base is None else base)
    others = [word for word in changed.get("LD_PRELOAD", "").replace(":", " ").split(" ") if word]
    changed["LD_PRELOAD"] = ":".join([path, *(word for word in others if word != path)])
    return changed
