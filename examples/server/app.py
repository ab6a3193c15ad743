"""The server: routes, limits, and an end in order after SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from server import generate
from server.engine_client import EngineClient, EngineGone
from server.errors import ServerError
from server.generate import Answers, ClientGone
from server.http1 import (
    HEAD_BYTES,
    READ_S,
    HttpError,
    HttpRequest,
    answer,
    chunk,
    json_answer,
    line,
    read_request,
    stream_head,
)
from server.messages import Ready
from server.options import Options

log = logging.getLogger("server")

LAST_ANSWERS_S = 2.0
"""How long clients may take to read the last answers, once the engine has ended."""


def serve(options: Options) -> int:
    """Serve until a signal comes; return the exit status: 0, or 1 if the engine failed.

    Raises `ServerError`: it cannot listen, or the engine cannot start.
    """
    client = EngineClient(options)
    return asyncio.run(_serve(options, client))


async def _serve(options: Options, client: EngineClient) -> int:
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    server = Server(options, client)
    try:
        starting = asyncio.create_task(server.open())
        await _first(starting, asyncio.create_task(ending.wait()))
        if starting.done():
            await starting
            waits = [ending.wait(), server.engine_gone.wait()]
            await _first(*(asyncio.create_task(wait) for wait in waits))
        else:
            starting.cancel()
    except BaseException:
        await client.stop()
        raise
    return await server.close()


async def _first(*tasks: asyncio.Task[Any]) -> None:
    """Wait for one of the tasks."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


class Server:
    """The listening socket, the connections and the counts."""

    def __init__(self, options: Options, client: EngineClient) -> None:
        """Serve with `client`."""
        self._options = options
        self._client = client
        self._about: Ready | None = None
        self._listener: asyncio.Server | None = None
        self._is_ending = False
        self._answers: Counter[int] = Counter()
        self._busy: set[asyncio.Task[Any]] = set()
        self._idle: set[asyncio.Task[Any]] = set()

    @property
    def engine_gone(self) -> asyncio.Event:
        """Set when the engine has ended."""
        assert self._client.gone is not None
        return self._client.gone

    async def open(self) -> None:
        """Wait for the engine, then listen and say so.

        Raises `ServerError`: the engine or the address cannot be used.
        """
        options = self._options
        try:
            self._about = await self._client.ready()
        except EngineGone as error:
            raise ServerError(f"the engine cannot serve: {error}", "nothing is listening") from None
        try:
            self._listener = await asyncio.start_server(
                self._connection, options.host, options.port, limit=HEAD_BYTES
            )
        except OSError as error:
            raise ServerError(
                f"{options.host}:{options.port} cannot be listened at: {error}",
                "choose another --port (0 takes a free one) or --host",
            ) from error
        port = self._listener.sockets[0].getsockname()[1]
        ready = {
            "url": f"http://{options.host}:{port}",
            "port": port,
            "pid": os.getpid(),
            "engine_pid": self._client.pid,
            **asdict(self._about),
        }
        print(json.dumps(ready), flush=True)
        if options.ready_file is not None:
            _write_whole(options.ready_file, json.dumps(ready) + "\n")

    async def close(self) -> int:
        """Finish what is open within the grace time, refuse the rest; return the exit status."""
        self._is_ending = True
        if self._listener is not None:
            self._listener.close()
        for task in self._idle:
            task.cancel()
        if self._busy and not self.engine_gone.is_set():
            await asyncio.wait(self._busy, timeout=self._options.grace_s)
        failed = self._client.gone is not None and self.engine_gone.is_set()
        in_order = await self._client.stop()
        if self._busy:
            await asyncio.wait(self._busy, timeout=LAST_ANSWERS_S)
        for task in self._busy:
            task.cancel()
        if failed or not in_order:
            log.error("the engine failed: %s", self._client.reason)
            return 1
        return 0

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""
        task = asyncio.current_task()
        assert task is not None
        keeps_alive = True
        try:
            while keeps_alive and not self._is_ending:
                self._idle.add(task)
                try:
                    request = await read_request(reader, self._options.max_body_bytes)
                    self._idle.discard(task)
                    self._busy.add(task)
                    if request is None:
                        return
                    keeps_alive = request.keeps_alive
                    await self._answer(request, reader, writer)
                except HttpError as error:
                    keeps_alive = keeps_alive and not error.closes
                    self._write(writer, error.status, {"error": error.reason}, keeps_alive)
                await asyncio.wait_for(writer.drain(), READ_S)
                self._busy.discard(task)
        except (ClientGone, ConnectionError, asyncio.TimeoutError, asyncio.CancelledError):
            pass  # Nobody is there to be answered, or the server ends.
        finally:
            self._idle.discard(task)
            self._busy.discard(task)
            writer.close()

    async def _answer(
        self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        routes = {"/generate": "POST", "/health": "GET", "/metrics": "GET"}
        method = routes.get(request.path)
        if method is None:
            raise HttpError(404, f"there is no {request.path[:80]}; there are {', '.join(routes)}")
        if request.method != method:
            raise HttpError(405, f"{request.path} takes {method}")
        if request.path == "/generate":
            await self._generate(request, reader, writer)
        elif request.path == "/health":
            self._write(writer, 200, self._health(), request.keeps_alive)
        else:
            self._answers[200] += 1
            text = self._metrics().encode()
            writer.write(answer(200, text, "text/plain; version=0.0.4", request.keeps_alive))

    async def _generate(
        self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        asked = generate.read(request.body, self._options.capacity)
        if self._client.open_requests >= self._options.max_queue:
            raise HttpError(
                429, f"{self._options.max_queue} requests are open already; try again later"
            )
        try:
            submitted = self._client.submit(asked.prompt, asked.max_tokens)
        except EngineGone as error:
            raise HttpError(503, f"the engine has ended: {error}") from error
        keeps_alive = request.keeps_alive
        answers = Answers(submitted, asked, reader)
        try:
            if asked.streams:
                await self._stream(answers, writer, keeps_alive)
            else:
                async for _ in answers.tokens():
                    pass
                self._write(writer, 200, answers.document(), keeps_alive)
        except EngineGone as error:
            raise HttpError(503, str(error)) from error
        finally:
            self._client.cancel(submitted)

    async def _stream(
        self, answers: Answers, writer: asyncio.StreamWriter, keeps_alive: bool
    ) -> None:
        """Send each token as a JSON line when it is there, then the document of all."""
        last: dict[str, Any] = {}
        try:
            async for token in answers.tokens():
                if len(answers.times_ns) == 1:
                    # Not before: until the first token the answer may still be an error.
                    self._answers[200] += 1
                    writer.write(stream_head(keeps_alive))
                writer.write(chunk(line({"token": token})))
                await asyncio.wait_for(writer.drain(), READ_S)
            last = answers.document()
        except EngineGone as error:
            if not answers.times_ns:
                raise
            last = {"error": str(error)}
        writer.write(chunk(line(last)) + chunk(b""))

    def _health(self) -> dict[str, Any]:
        assert self._about is not None
        return {
            "status": "ok",
            "open_requests": self._client.open_requests,
            **asdict(self._about),
        }

    def _metrics(self) -> str:
        """Return the counts in the text format of Prometheus."""
        lines = ["# TYPE server_answers_total counter"]
        for status, count in sorted(self._answers.items()):
            lines.append(f'server_answers_total{{status="{status}"}} {count}')
        lines.append("# TYPE server_tokens_total counter")
        lines.append(f"server_tokens_total {self._client.tokens}")
        lines.append("# TYPE server_open_requests gauge")
        lines.append(f"server_open_requests {self._client.open_requests}")
        return "\n".join(lines) + "\n"

    def _write(
        self, writer: asyncio.StreamWriter, status: int, document: dict[str, Any], alive: bool
    ) -> None:
        self._answers[status] += 1
        writer.write(json_answer(status, document, alive))


def _write_whole(file: Path, text: str) -> None:
    """Write a file that nobody sees half written.

    Raises `ServerError`: it cannot be written.
    """
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    except OSError as error:
        raise ServerError(
            f"--ready-file={file} cannot be written: {error.strerror}", "choose another folder"
        ) from error
