"""The engine as the server's event loop sees it: a forked process behind two pipes.

The process is forked before the loop runs, from a parent with one thread that has touched neither
NumPy nor CUDA, as inference engines do that use the start method `fork`.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
import time
from dataclasses import dataclass, field

from server import engine
from server.messages import Broken, Cancel, Ready, Refused, Stop, Submit, ToEngine, Tokens
from server.options import Options

STOP_S = 15.0
"""How long the engine may take to end, a profiler's last flush included."""


class EngineGone(Exception):
    """The engine does not answer this request, or any."""


@dataclass
class Request:
    """One request that is with the engine."""

    number: int
    submitted_ns: int
    """When it was sent to the engine, on the monotonic clock."""
    answers: asyncio.Queue[tuple[int, int, bool] | EngineGone] = field(
        default_factory=asyncio.Queue
    )
    """Each token, when it was there, and whether it is the last; or why there are no more."""


class EngineClient:
    """Starts the engine, and passes requests and tokens on."""

    def __init__(self, options: Options) -> None:
        """Fork the engine. Call it before anything starts a thread."""
        context = multiprocessing.get_context("fork")
        inbox, self._outbox = context.Pipe(duplex=False)
        self._inbox, outbox = context.Pipe(duplex=False)
        others = [self._outbox, self._inbox]
        self._process = context.Process(
            target=_engine_process, args=(inbox, outbox, others, options), name="engine"
        )
        self._process.start()
        inbox.close()
        outbox.close()
        self._requests: dict[int, Request] = {}
        self._next = 1
        self._ready: asyncio.Future[Ready] | None = None
        self.gone: asyncio.Event | None = None
        """Set when the engine has ended, for whatever reason."""
        self.reason = "the engine ended unexpectedly"
        self.tokens = 0
        """Tokens that came so far."""

    @property
    def pid(self) -> int:
        """Process id of the engine."""
        return self._process.pid or 0

    @property
    def open_requests(self) -> int:
        """Number of requests that the engine has not answered."""
        return len(self._requests)

    async def ready(self) -> Ready:
        """Watch the pipe from now on; return what the engine says when it serves.

        Raises `EngineGone`: it cannot serve.
        """
        loop = asyncio.get_running_loop()
        self.gone = asyncio.Event()
        self._ready = loop.create_future()
        loop.add_reader(self._inbox.fileno(), self._receive)
        return await self._ready

    def submit(self, prompt: list[int], max_tokens: int) -> Request:
        """Send a request; its tokens arrive in its queue.

        Raises `EngineGone`: the engine has ended.
        """
        request = Request(self._next, time.monotonic_ns())
        self._send(Submit(request.number, tuple(prompt), max_tokens))
        self._next += 1
        self._requests[request.number] = request
        return request

    def cancel(self, request: Request) -> None:
        """Let the engine forget a request that nobody waits for."""
        if self._requests.pop(request.number, None) is not None:
            # An engine that has ended has forgotten it.
            with contextlib.suppress(EngineGone):
                self._send(Cancel(request.number))

    async def stop(self) -> bool:
        """End the engine; return whether it ended by itself and in order."""
        assert self.gone is not None
        with contextlib.suppress(EngineGone):
            self._send(Stop())
        deadline = time.monotonic() + STOP_S
        while self._process.is_alive() and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        if self._process.is_alive():
            self._process.kill()
            self.reason = f"it did not end within {STOP_S:g} s, and was killed"
        elif self._process.exitcode is not None and self._process.exitcode < 0:
            number = -self._process.exitcode
            self.reason = (
                f"it was ended by signal {number} ({signal.strsignal(number)}); "
                "if nobody sent it, look for memory that ran out"
            )
        self._process.join()
        return self._process.exitcode == 0

    def _send(self, message: ToEngine) -> None:
        # The intake of the engine reads at once whatever the model does, so this does not block.
        try:
            self._outbox.send(message)
        except OSError as error:
            raise EngineGone(self.reason) from error

    def _receive(self) -> None:
        """Take what is in the pipe; the loop calls this when there is something."""
        try:
            while self._inbox.poll():
                self._take(self._inbox.recv())
        except (EOFError, OSError):
            self._end()

    def _take(self, message: object) -> None:
        if isinstance(message, Tokens):
            for one in message.generated:
                self.tokens += 1
                request = self._requests.get(one.number)
                if request is not None:
                    request.answers.put_nowait((one.token, message.at_ns, one.is_last))
                if one.is_last:
                    self._requests.pop(one.number, None)
        elif isinstance(message, Refused):
            request = self._requests.pop(message.number, None)
            if request is not None:
                request.answers.put_nowait(EngineGone(message.reason))
        elif isinstance(message, Broken):
            self.reason = message.reason
        elif isinstance(message, Ready) and self._ready is not None and not self._ready.done():
            self._ready.set_result(message)

    def _end(self) -> None:
        """Tell all who wait that the pipe is closed."""
        asyncio.get_running_loop().remove_reader(self._inbox.fileno())
        gone = EngineGone(self.reason)
        for request in self._requests.values():
            request.answers.put_nowait(gone)
        self._requests.clear()
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(gone)
        if self.gone is not None:
            self.gone.set()


def _engine_process(*arguments: object) -> None:
    raise SystemExit(engine.run(*arguments))  # type: ignore[arg-type]
