"""One request over a connection of its own: sent to the server, timed token by token."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass

from server.load_plan import PlanError, Planned

Clock = Callable[[], float]

LINE_BYTES = 1 << 22
"""The longest line that a server may send."""


@dataclass
class Outcome:
    """What became of a request. Times are seconds after the start of the load."""

    planned: Planned
    sent_s: float
    """Later than planned where the load generator itself was late."""
    first_token_s: float | None = None
    end_s: float = 0.0
    status: int | None = None
    """Of HTTP; None where no answer came."""
    tokens: int = 0
    error: str | None = None
    """Why it failed; None for a request that was served."""


@dataclass(frozen=True)
class Target:
    """Where the server listens."""

    host: str
    port: int


def read_url(url: str) -> Target:
    """Read `http://HOST:PORT`, or raise `PlanError`."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        host, port = None, 0
    if not host or parts.scheme != "http" or parts.path not in ("", "/"):
        raise PlanError(f"`{url}` is no address; give http://HOST:PORT")
    return Target(host, port)


async def send(target: Target, planned: Planned, start_s: float, timeout_s: float) -> Outcome:
    """Send one request and read its stream of tokens; failures are part of the outcome."""

    def now_s() -> float:
        return time.monotonic() - start_s

    outcome = Outcome(planned, now_s())
    try:
        await asyncio.wait_for(_exchange(target, outcome, now_s), timeout_s)
    except asyncio.TimeoutError:
        outcome.error = f"no whole answer within {timeout_s:g} s"
    except (OSError, ValueError, EOFError) as error:
        outcome.error = f"{type(error).__name__}: {error}"
    outcome.end_s = now_s()
    return outcome


async def _exchange(target: Target, outcome: Outcome, now_s: Clock) -> None:
    reader, writer = await asyncio.open_connection(target.host, target.port, limit=LINE_BYTES)
    try:
        planned = outcome.planned
        # A byte is a token of the server.
        text = f"request {planned.number} ".ljust(planned.prompt_tokens, "x")
        body = json.dumps(
            {
                "prompt": text[: planned.prompt_tokens],
                "max_tokens": planned.max_tokens,
                "stream": True,
            }
        ).encode()
        head = (
            f"POST /generate HTTP/1.1\r\nHost: {target.host}\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        status_line = (await reader.readline()).split(b" ", 2)
        if len(status_line) < 2 or not status_line[1].isdigit():
            raise ValueError("the answer is not of HTTP")
        outcome.status = int(status_line[1])
        chunked = False
        while (header := (await reader.readline()).strip()) != b"":
            chunked |= header.lower() == b"transfer-encoding: chunked"
        if outcome.status != 200 or not chunked:
            text = (await reader.read(1000)).decode("utf-8", "replace").strip()
            raise ValueError(f"status {outcome.status}: {text}")
        await _tokens(reader, outcome, now_s)
    finally:
        writer.close()


async def _tokens(reader: asyncio.StreamReader, outcome: Outcome, now_s: Clock) -> None:
    """Read the chunks of a stream, one JSON document each."""
    while True:
        size = int(await reader.readline(), 16)
        if size > LINE_BYTES:
            raise ValueError(f"a chunk of {size} bytes")
        data = (await reader.readexactly(size + 2))[:-2]
        if not data:
            break
        for text in data.splitlines():
            document = json.loads(text)
            if "error" in document:
                raise ValueError(str(document["error"]))
            if "token" in document:
                outcome.tokens += 1
                if outcome.first_token_s is None:
                    outcome.first_token_s = now_s()
    if outcome.tokens != outcome.planned.max_tokens:
        raise ValueError(f"{outcome.tokens} of {outcome.planned.max_tokens} tokens came")
