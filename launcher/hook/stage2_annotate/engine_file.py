"""Writes the configuration of an engine to a file next to the hook, for the reports."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_MOST_BYTES = 4 << 20


def write(description: dict[str, Any]) -> None:
    """Write `description` as `engine-PID.json` into the folder of the hook.

    Raises:
        OSError: The file cannot be written.
        ValueError: It is larger than any configuration.

    """
    text = json.dumps({"pid": os.getpid(), **description}, default=str).encode()
    if len(text) > _MOST_BYTES:
        raise ValueError(f"a configuration of {len(text)} bytes is too large")
    path = Path(__file__).parents[1] / f"engine-{os.getpid()}.json"
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
    new.replace(path)
