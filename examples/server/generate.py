"""The body of POST /generate becomes token ids, and the engine's tokens become its answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from server.engine_client import EngineGone, Request
from server.http1 import HttpError

KEYS = ("prompt", "max_tokens", "stream")

BYTES_VOCABULARY = 256
"""Token ids of a prompt are its bytes: every model has more tokens than that."""


class ClientGone(Exception):
    """Nobody reads the answer any more."""


@dataclass(frozen=True)
class Asked:
    """A request that the engine can serve."""

    prompt: list[int]
    max_tokens: int
    streams: bool


def read(body: bytes, capacity: int) -> Asked:
    """Read the body of a request.

    Raises `HttpError`: it is no such request, or does not fit into a slot of `capacity` positions.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise HttpError(400, "the body is no JSON document") from None
    if not isinstance(document, dict):
        raise HttpError(400, "the body is no JSON object")
    for key in document:
        if key not in KEYS:
            raise HttpError(400, f"unknown key {key[:40]!r}; there are {', '.join(KEYS)}")
    prompt, max_tokens = document.get("prompt"), document.get("max_tokens", 16)
    streams = document.get("stream", False)
    if not isinstance(prompt, str) or not prompt:
        raise HttpError(400, "`prompt` has to be a text that is not empty")
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
        raise HttpError(400, "`max_tokens` has to be an integer of 1 or more")
    if not isinstance(streams, bool):
        raise HttpError(400, "`stream` has to be true or false")
    tokens = list(prompt.encode("utf-8", "replace"))
    # The number itself may have thousands of digits.
    if max_tokens > capacity or len(tokens) + max_tokens > capacity:
        raise HttpError(
            400,
            f"{len(tokens)} prompt tokens (bytes) and `max_tokens` together are more than the "
            f"{capacity} positions of a slot; ask for less, or start the server with a larger "
            "--capacity",
        )
    return Asked(tokens, max_tokens, streams)


class Answers:
    """The tokens of one request, as they come."""

    def __init__(self, request: Request, asked: Asked, reader: asyncio.StreamReader) -> None:
        """Answer `asked`, which is with the engine as `request`, to the client behind `reader`."""
        self._request = request
        self._asked = asked
        self._reader = reader
        self._tokens: list[int] = []
        self.times_ns: list[int] = []
        """When each token was there, on the monotonic clock."""

    async def tokens(self) -> AsyncIterator[int]:
        """Yield the tokens.

        Raises `ClientGone`: the client has closed the connection.
        Raises `EngineGone`: the engine refuses the rest.
        """
        is_last = False
        while not is_last:
            answer = await self._request.answers.get()
            if isinstance(answer, EngineGone):
                raise answer
            if self._reader.at_eof():
                raise ClientGone
            token, at_ns, is_last = answer
            self._tokens.append(token)
            self.times_ns.append(at_ns)
            yield token

    def document(self) -> dict[str, Any]:
        """Return the whole answer; times are since the request was given to the engine."""
        since_ms = [(at_ns - self._request.submitted_ns) / 1e6 for at_ns in self.times_ns]
        return {
            "request": self._request.number,
            "prompt_tokens": len(self._asked.prompt),
            "tokens": self._tokens,
            "time_to_first_token_ms": since_ms[0],
            "total_ms": since_ms[-1],
            "token_times_ms": since_ms,
        }
