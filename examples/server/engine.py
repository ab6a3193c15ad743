"""The engine's process: requests from a pipe become prefills, decode steps, and tokens in a pipe.

Two threads. The intake takes messages from the pipe and opens the range `request` of each request.
The main thread runs the model, and ends that range when the request is done. So the range lasts
from the arrival to the last token, and crosses threads; it belongs to the intake, which launches
nothing, so that all GPU work belongs to the stages `prefill` and `decode`.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from server.batch import Batch, Sequence
from server.errors import ServerError
from server.messages import (
    Broken,
    Cancel,
    FromEngine,
    Generated,
    Ready,
    Refused,
    Stop,
    Submit,
    ToEngine,
    Tokens,
)
from server.options import Options
from server.ranges import Ranges
from server.slots import SlotModel

ENDING = "the server is ending"
"""Why an open request is refused at the end."""

BuildModel = Callable[[Options, Ranges], SlotModel]


def run(inbox: Connection, outbox: Connection, others: list[Connection], options: Options) -> int:
    """Serve until told to stop or left alone; return the exit status of the process.

    `others` are the ends of the pipes that belong to the parent. This copy of them has to be
    closed, or the engine would never see that the parent is gone.
    """
    # Who ends the server ends the engine. Ctrl-C reaches both, and the engine has to finish first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for connection in others:
        connection.close()
    try:
        # Here, not at the top: the parent touches neither NumPy nor CUDA, since neither survives
        # a fork for certain.
        from server import build, ranges

        chosen = ranges.choose(options.nvtx)
        with chosen.open("warmup"):
            model = build.build(options, chosen)
            model.warm_up()
        outbox.send(_ready(options, model, chosen))
        Engine(model, chosen, options, outbox.send).serve(inbox)
    except ServerError as error:
        return _broken(outbox, str(error))
    except BrokenPipeError:
        return 1  # The parent is gone; nobody is left to tell.
    except Exception as error:  # Whatever it is, the parent has to hear that nobody serves.
        traceback.print_exc()
        return _broken(outbox, f"{type(error).__name__}: {error}; the traceback is above")
    return 0


def _broken(outbox: Connection, reason: str) -> int:
    with contextlib.suppress(OSError):
        outbox.send(Broken(reason))
    return 1


def _ready(options: Options, model: SlotModel, ranges: Ranges) -> Ready:
    return Ready(
        model=options.model,
        backend=model.backend,
        device=model.device,
        gpu=model.gpu,
        decode=model.decode_mode,
        nvtx=ranges.provider,
        parameters=model.parameters,
        capacity=options.capacity,
    )


class Engine:
    """The loop over steps, and what it knows of each request."""

    def __init__(
        self,
        model: SlotModel,
        ranges: Ranges,
        options: Options,
        send: Callable[[FromEngine], object],
    ) -> None:
        """Serve with `model`; tokens go to `send`."""
        self._model = model
        self._ranges = ranges
        self._send = send
        self._batch = Batch(options.slots, options.prefill_tokens)
        self._arrivals: queue.SimpleQueue[tuple[ToEngine, Any]] = queue.SimpleQueue()
        self._open: dict[int, Any] = {}
        """The handle of the range of each open request."""

    def serve(self, inbox: Connection) -> None:
        """Serve what comes from `inbox`, until `Stop` or its end."""
        threading.Thread(target=self.take_in, args=(inbox,), name="intake", daemon=True).start()
        while self.take_arrivals():
            self.step()
        for number in self._batch.clear():
            self._refuse(number, ENDING)

    def take_in(self, inbox: Connection) -> None:
        """Hand on messages, with the range of each new request; runs in the intake's thread."""
        message: ToEngine = Stop()
        while True:
            try:
                message = inbox.recv()
            except (EOFError, OSError):
                message = Stop()  # The parent is gone.
            handle = None
            if isinstance(message, Submit):
                handle = self._ranges.start("request", message.number)
            self._arrivals.put((message, handle))
            if isinstance(message, Stop):
                return

    def take_arrivals(self) -> bool:
        """Take what has arrived, waiting if there is nothing to do; return False at the end."""
        while self._batch.is_idle or not self._arrivals.empty():
            message, handle = self._arrivals.get()
            if isinstance(message, Stop):
                return False
            if isinstance(message, Cancel):
                # It may have been done just before.
                if self._batch.remove(message.number):
                    self._end(message.number)
                continue
            self._open[message.number] = handle
            self._batch.submit(Sequence(message.number, message.prompt, message.max_tokens))
        return True

    def step(self) -> None:
        """Prefill what may join the batch, one by one, then decode one token of each."""
        for sequence in self._batch.admit():
            assert sequence.slot is not None
            with self._ranges.open("prefill", len(sequence.prompt)):
                token = self._model.prefill(sequence.slot, sequence.prompt)
            self._deliver([sequence], [token])
        running = self._batch.running()
        if not running:
            return
        slots = [sequence.slot for sequence in running if sequence.slot is not None]
        last = [sequence.tokens[-1] for sequence in running]
        with self._ranges.open("decode", len(running)):
            tokens = self._model.decode(slots, last)
        self._deliver(running, tokens)

    def _deliver(self, sequences: list[Sequence], tokens: list[int]) -> None:
        at_ns = time.monotonic_ns()
        generated = []
        for sequence, token in zip(sequences, tokens, strict=True):
            is_last = self._batch.accept(sequence, token)
            generated.append(Generated(sequence.number, token, is_last))
            if is_last:
                self._end(sequence.number)
        self._send(Tokens(tuple(generated), at_ns))

    def _refuse(self, number: int, reason: str) -> None:
        self._end(number)
        self._send(Refused(number, reason))

    def _end(self, number: int) -> None:
        """End the range of a request, in whichever thread."""
        self._ranges.end(self._open.pop(number))
