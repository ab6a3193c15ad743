"""What has to be said becomes one line on stderr, once a process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

_MOST_SAID = 32


class Notices:
    """Says each thing once, and few in all, on the descriptor: `sys.stderr` is the workload's."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Obey STAGE2_LOG, as the collector does."""
        level = environment.get("STAGE2_LOG", "warn").strip().lower()
        self._warns = level != "off"
        self._informs = level in ("info", "debug")
        self._said: set[str] = set()

    def warn(self, text: str) -> None:
        """Say that something does not work."""
        if self._warns:
            self._say(text)

    def inform(self, text: str) -> None:
        """Say something that is good to know."""
        if self._informs:
            self._say(text)

    def _say(self, text: str) -> None:
        # The text of an error may be another one in each step.
        if text in self._said or len(self._said) >= _MOST_SAID:
            return
        self._said.add(text)
        line = "stage2: " + " ".join(text.split()) + "\n"
        # Where nobody can be told, the workload must not suffer for it.
        with contextlib.suppress(OSError):
            os.write(2, line.encode("utf-8", "backslashreplace"))
