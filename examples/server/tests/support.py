"""What several tests need: options, a model without weights, ranges that write down, a server."""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from server import options
from server.options import Options
from server.ranges import Ranges

EXAMPLES = Path(__file__).resolve().parents[2]
"""The folder that `python -m server` is started in."""


def make_options(**changes: Any) -> Options:
    """Return the default options with changes."""
    return dataclasses.replace(options.parse(["--simulated-gpu", "off"]), **changes)


class Recorder:
    """Ranges that note every opening and closing, and the thread."""

    def __init__(self) -> None:
        """Start with no range open."""
        self.stack: list[str] = []
        self.paths: list[tuple[str, int | None]] = []
        """Path and payload of every push, in order."""
        self.started: dict[int, tuple[str, int, str]] = {}
        """Of each start: handle to name, number, thread."""
        self.ended: list[tuple[int, str]] = []
        """Of each end: handle, thread."""
        self.ranges = Ranges("recorder", self._push, self._pop, self._start, self._end)

    def _push(self, name: str, payload: int | None) -> None:
        self.stack.append(name)
        self.paths.append(("/".join(self.stack), payload))

    def _pop(self) -> None:
        self.stack.pop()

    def _start(self, name: str, number: int) -> int:
        handle = 1000 + number
        self.started[handle] = (name, number, threading.current_thread().name)
        return handle

    def _end(self, handle: int) -> None:
        self.ended.append((handle, threading.current_thread().name))


class CountingModel:
    """Its next token after `t` is `t + 1`; it knows what is in each slot."""

    backend, device, gpu, decode_mode, parameters = "counting", "cpu", "off", "cpu", 0

    def __init__(self) -> None:
        """Start with empty slots."""
        self.slots: dict[int, list[int]] = {}
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        """Each prefill with its slot, and each decode with its slots."""
        self.before_first: Callable[[], None] = lambda: None
        """Called before the first prefill."""

    def warm_up(self) -> None:
        """Do nothing."""

    def prefill(self, slot: int, prompt: tuple[int, ...]) -> int:
        """Keep the prompt."""
        if not self.calls:
            self.before_first()
        self.calls.append(("prefill", (slot,)))
        self.slots[slot] = list(prompt)
        return prompt[-1] + 1

    def decode(self, slots: list[int], tokens: list[int]) -> list[int]:
        """Keep the tokens, which have to be those that were given for these slots."""
        self.calls.append(("decode", tuple(slots)))
        for slot, token in zip(slots, tokens, strict=True):
            assert token == self.slots[slot][-1] + 1, "the sequence of another slot"
            self.slots[slot].append(token)
        return [token + 1 for token in tokens]


class ServerProcess:
    """A server on a free port, ended when the `with` block ends."""

    def __init__(self, *arguments: str) -> None:
        """Start it, and wait until it serves."""
        self._folder = tempfile.TemporaryDirectory()
        ready = Path(self._folder.name) / "ready.json"
        command = [sys.executable, "-m", "server", "--port=0", f"--ready-file={ready}"]
        command += ["--backend=numpy", "--simulated-gpu=off", *arguments]
        self.process = subprocess.Popen(
            command,
            cwd=EXAMPLES,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 60
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"no server: {self.process.communicate()}")
            time.sleep(0.01)
        self.about: dict[str, Any] = json.loads(ready.read_text())

    def __enter__(self) -> ServerProcess:
        """Return the server."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it at once, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self._folder.cleanup()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send one request; return the status and the JSON document."""
        connection = http.client.HTTPConnection("127.0.0.1", self.about["port"], timeout=60)
        try:
            text = body if isinstance(body, (str, bytes, type(None))) else json.dumps(body)
            connection.request(method, path, text)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def generate(self, prompt: str = "abc", max_tokens: int = 4) -> tuple[int, Any]:
        """Ask for tokens."""
        return self.ask("POST", "/generate", {"prompt": prompt, "max_tokens": max_tokens})

    def in_background(self, max_tokens: int) -> tuple[threading.Thread, list[tuple[int, Any]]]:
        """Send a request from another thread; its answer appears in the list."""
        answers: list[tuple[int, Any]] = []
        thread = threading.Thread(target=lambda: answers.append(self.generate("abc", max_tokens)))
        thread.start()
        return thread, answers

    def wait_for_open_requests(self, count: int) -> None:
        """Wait until so many requests are with the engine."""
        deadline = time.monotonic() + 30
        while self.ask("GET", "/health")[1]["open_requests"] != count:
            assert time.monotonic() < deadline, f"never {count} open requests"
            time.sleep(0.005)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return the exit status and standard error."""
        self.process.send_signal(number)
        _, stderr = self.process.communicate(timeout=60)
        return self.process.returncode, stderr
