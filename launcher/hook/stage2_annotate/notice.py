"""Prints messages as single lines on stderr, each of them once per process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

_MOST_SAID = 32


class Notices:
    """Prints each message once, up to a limit, to descriptor 2: `sys.stderr` is the workload's."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Read the level from STAGE2_LOG, as the collector does."""
        level = environment.get("STAGE2_LOG", "warn").strip().lower()
        self._warns = level != "off"
        self._informs = level in ("info", "debug")
        self._said: set[str] = set()

    def warn(self, text: str) -> None:
        """Print that something does not work."""
        if self._warns:
            self._say(text)

    def inform(self, text: str) -> None:
        """Print useful information."""
        if self._informs:
            self._say(text)

    def _say(self, text: str) -> None:
        # The limit matters because the text of an error may be different in each step.
        if text in self._said or len(self._said) >= _MOST_SAID:
            return
        self._said.add(text)
        line = "stage2: " + " ".join(text.split()) + "\n"
        # If the line cannot be written, the workload must not fail.
        with contextlib.suppress(OSError):
            os.write(2, line.encode("utf-8", "backslashreplace"))
