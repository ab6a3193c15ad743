"""HTTP/1.1 over asyncio streams, as far as the server needs it: bytes become requests and back.

Everything that comes from outside is bounded: the head in bytes, the body in bytes, both in time.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

HEAD_BYTES = 16 << 10
"""Longest request line and headers together; give it to `asyncio.start_server` as `limit`."""
READ_S = 30.0
"""How long a head or a body may take, and a connection may be idle."""

REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    411: "Length Required",
    413: "Content Too Large",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class HttpError(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, reason: str, closes: bool = False) -> None:
        """Answer with `status` and `reason`; `closes` where the rest cannot be understood."""
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.closes = closes


@dataclass(frozen=True)
class HttpRequest:
    """One request."""

    method: str
    path: str
    """Without the query."""
    body: bytes
    keeps_alive: bool


async def read_request(reader: asyncio.StreamReader, max_body_bytes: int) -> HttpRequest | None:
    """Read a request; None if the client has closed the connection, or let it idle.

    Raises `HttpError`: it is no request, or too large, or too slow.
    """
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), READ_S)
    except asyncio.TimeoutError:
        return None
    except asyncio.LimitOverrunError:
        raise HttpError(431, f"the headers are longer than {HEAD_BYTES} bytes", True) from None
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    line, *fields = head[:-4].decode("latin-1").split("\r\n")
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise HttpError(400, "the first line is no HTTP/1.1 request line", True)
    headers = {}
    for each in fields:
        name, colon, value = each.partition(":")
        if not colon or not name or name != name.strip():
            raise HttpError(400, "a header is not of the form `Name: value`", True)
        headers[name.lower()] = value.strip()
    length = _body_length(words[0], headers, max_body_bytes)
    try:
        body = await asyncio.wait_for(reader.readexactly(length), READ_S)
    except asyncio.TimeoutError:
        raise HttpError(408, f"the body did not arrive within {READ_S:g} s", True) from None
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    keeps_alive = words[2] != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
    return HttpRequest(words[0], words[1].partition("?")[0], body, keeps_alive)


def _body_length(method: str, headers: dict[str, str], max_body_bytes: int) -> int:
    if "transfer-encoding" in headers:
        raise HttpError(411, "send Content-Length instead of Transfer-Encoding", True)
    text = headers.get("content-length")
    if text is None:
        if method == "POST":
            raise HttpError(411, "send Content-Length", True)
        return 0
    # int() would take signs, blanks, underscores and digits of other scripts.
    if not (text.isascii() and text.isdigit()):
        raise HttpError(400, "Content-Length is no number", True)
    if len(text) > 18 or int(text) > max_body_bytes:
        raise HttpError(413, f"the body is larger than {max_body_bytes} bytes", True)
    return int(text)


def answer(status: int, body: bytes, kind: str, keeps_alive: bool) -> bytes:
    """Return the bytes of a whole answer."""
    return _head(status, kind, keeps_alive, f"Content-Length: {len(body)}") + body


def json_answer(status: int, document: dict[str, Any], keeps_alive: bool) -> bytes:
    """Return the bytes of an answer with a JSON document."""
    return answer(status, line(document), "application/json", keeps_alive)


def stream_head(keeps_alive: bool) -> bytes:
    """Return the head of an answer of JSON lines, whose chunks follow."""
    return _head(200, "application/x-ndjson", keeps_alive, "Transfer-Encoding: chunked")


def chunk(data: bytes) -> bytes:
    """Return a part of such an answer; empty data ends it."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def line(document: dict[str, Any]) -> bytes:
    """Return a document as one line."""
    return json.dumps(document).encode() + b"\n"


def _head(status: int, kind: str, keeps_alive: bool, length: str) -> bytes:
    fields = [
        f"HTTP/1.1 {status} {REASONS[status]}",
        f"Content-Type: {kind}",
        length,
        f"Connection: {'keep-alive' if keeps_alive else 'close'}",
    ]
    if status in (429, 503):
        fields.append("Retry-After: 1")
    return ("\r\n".join(fields) + "\r\n\r\n").encode("latin-1")
