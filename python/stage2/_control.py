"""The client of the collector's control socket in this process: requests recording windows.

A request is one line, and an answer is several; `crates/contract/src/control` defines the language.
"""

from __future__ import annotations

import functools
import os
import socket
import stat
import time
from pathlib import Path
from typing import Iterator
from urllib.parse import unquote

from ._backend import find_own

_TITLE = "stage2-control/1"
_PATIENCE_S = 10.0
_MAX_ANSWER_BYTES = 256 << 10
_PHASE_PATIENCE_S = 15.0
"""The longest wait for the beginning of a window, and for its end."""
_LOOK_S = 0.002
_NOTHING = "nothing is recorded here"


class ControlError(RuntimeError):
    """There is no collector in this process, or it refuses. The text gives reason and remedy."""


class Answer:
    """The fields of an answer. A name may occur several times."""

    def __init__(self, text: str) -> None:
        """Parse an answer.

        Raises:
            ControlError: It is incomplete, or a refusal.

        """
        lines = text.split("\n")
        if not lines[0].startswith(f"{_TITLE} ") or lines[-2:] != ["end", ""]:
            raise ControlError(f"the collector's answer cannot be read: {lines[0][:80]!r}")
        pairs = (line.partition(" ") for line in lines[1:-2])
        self._fields = [(unquote(name), unquote(value)) for name, _, value in pairs]
        if lines[0] != f"{_TITLE} ok":
            raise ControlError(f"the collector refused: {self.get('error') or lines[0]}")

    def get(self, name: str) -> str:
        """Return the first value of that name; an empty string if there is none."""
        return next(self.all(name), "")

    def all(self, name: str) -> Iterator[str]:
        """Return all values of that name."""
        return (value for known, value in self._fields if known == name)


def ask(words: str) -> Answer:
    """Ask the collector of this process.

    Raises:
        ControlError: There is none, it does not answer, or it refuses.

    """
    try:
        text = _exchange(_find(), f"{_TITLE} {words}\n")
    except OSError as error:
        raise ControlError(f"the collector of this process does not answer: {error}") from error
    answer = Answer(text)
    if answer.get("pid") != str(os.getpid()):
        raise ControlError("the control socket answers for another process; it is not believed")
    return answer


def status() -> Answer:
    """Return the state of the collector, once it has started.

    Raises:
        ControlError: There is no collector in this process.

    """
    if _attach(os.getpid()) is None:
        raise ControlError(
            f"no collector is in this process, so {_NOTHING}: start the program with "
            "`stage2-launch run --dormant -- python ...`"
        )
    return await_phase("dormant", "on", "ended")


def await_phase(*phases: str) -> Answer:
    """Wait until the collector is in one of these phases.

    Raises:
        ControlError: That takes more than 15 s.

    """
    until = time.monotonic() + _PHASE_PATIENCE_S
    while True:
        answer = ask("status")
        if answer.get("phase") in phases:
            return answer
        if time.monotonic() > until:
            raise ControlError(
                f"the collector is {answer.get('phase')!r} after {_PHASE_PATIENCE_S:.0f} s, and "
                f"not {' or '.join(phases)}: see "
                f"`stage2-launch ctl {os.getpid()} status`"
            )
        time.sleep(_LOOK_S)


@functools.lru_cache(maxsize=None)
def _attach(_pid: int) -> object:
    """Let the collector start, as the first range of a process does; None if there is none."""
    return find_own()


def _find() -> str:
    """Return the path of the socket of this process."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    start = fields.rpartition(")")[2].split()[19]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folders = [Path(runtime) / "stage2"] if os.path.isabs(runtime) else []
    folders.append(Path(f"/tmp/stage2-{os.geteuid()}"))
    for folder in filter(_is_own, folders):
        for path in folder.glob(f"*-{os.getpid()}-{start}.sock"):
            return str(path)
    raise ControlError(
        f"the collector of this process has no control socket in {' or '.join(map(str, folders))}, "
        f"so {_NOTHING}: start the program without STAGE2_CONTROL=off"
    )


def _is_own(folder: Path) -> bool:
    """Tell whether no other user can have put a socket there."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    is_closed = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
    return is_closed and status.st_uid in (0, os.geteuid())


def _exchange(path: str, line: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_PATIENCE_S)
        client.connect(path)
        client.sendall(line.encode())
        answer = bytearray()
        while len(answer) <= _MAX_ANSWER_BYTES:
            part = client.recv(65536)
            if not part:
                break
            answer += part
    return answer.decode("utf-8", "replace")
