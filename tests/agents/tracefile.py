"""Trace files of processes that never ran.

crates/contract/src/trace/mod.rs describes the format; here is what the recipes need of it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

RUNNING, LOCK, SLEEP, POLL = 1, 4, 5, 6
"""States of threads in samples of the host."""
GPU_AHEAD_NS = 1_000_000
"""The GPU's clock is ahead of the one of ranges and samples."""
_BLOCK = 60_000
_Field = int | bytes | str


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _step(before: int, now: int) -> bytes:
    difference = now - before
    return _number(difference << 1 if difference >= 0 else (-difference << 1) - 1)


def _text(text: bytes | str) -> bytes:
    coded = text.encode() if isinstance(text, str) else text
    return _number(len(coded)) + coded


class Trace:
    """The records of one process. Times are nanoseconds on the clock of the ranges."""

    def __init__(self, pid: int, gpu: int = 0, facts: Iterable[tuple[str, str]] = ()) -> None:
        """Begin with a process, a thread, and an H200."""
        self._frames: list[bytes] = []
        self._block = bytearray()
        self._ids: dict[tuple[object, ...], int] = {}
        self._ranges = 0
        self._pid = pid
        self._begin_block()
        argv = ["python3", "serve.py"]
        self._record(
            0x40, pid, 1, "node-1", "python3", len(argv).to_bytes(1, "little"), *argv, "0.1.0"
        )
        for key, value in facts:
            self._record(0x41, key, value)
        self._record(0x44, 1, pid, "engine")
        sizes = (132, 9, 0, 150_754_820_096, 4_800_000_000, 1_980_000, 62_914_560)
        self._record(0x45, gpu, "NVIDIA H200", *sizes, bytes([gpu * 16 + 1] * 16))
        self._record(0x46, 1, gpu, 1, 7)
        for at in (1, 10**9, 10**10):
            self._record(0x42, at + GPU_AHEAD_NS, at, 1_700_000_000_000_000_000 + at)

    def _begin_block(self) -> None:
        self._opened = self._mono = self._end = self._correlation = 0
        self._range = self._instance = self._queue = 0

    def _close_block(self) -> None:
        head = struct.pack("<2sHI", b"S2", 1, len(self._block))
        check = struct.pack("<I", zlib.crc32(head + self._block))
        self._frames.append(head + check + bytes(self._block))
        self._block.clear()
        self._begin_block()

    def _add(self, record: bytes) -> None:
        self._block += record
        if len(self._block) > _BLOCK:
            self._close_block()

    def _record(self, tag: int, *fields: _Field) -> None:
        # `bytes` stand as they are, texts behind their length.
        parts = [
            _number(field)
            if isinstance(field, int)
            else _text(field)
            if isinstance(field, str)
            else field
            for field in fields
        ]
        self._add(bytes([tag]) + _text(b"".join(parts)))

    def _id(self, tag: int, kind: str, *fields: _Field) -> int:
        key = (kind, *fields)
        if key not in self._ids:
            self._ids[key] = 1 + sum(1 for known in self._ids if known[0] == kind)
            self._record(tag, self._ids[key], *fields)
        return self._ids[key]

    def _path(self, path: str) -> int:
        domain = self._id(0x43, "name", "NCCL") if path.rpartition("/")[2].startswith("nccl") else 0
        above, _, name = path.rpartition("/")
        return self._id(
            0x48, "path", self._path(above) if above else 0, self._id(0x43, "name", name), domain
        )

    def open(self, path: str, start: int, parent: int = 0) -> int:
        """Open a range; gives its number."""
        number = self._path(path)
        self._ranges += 1
        record = (
            bytes([0x05 if parent else 0x04])
            + _step(self._opened, self._ranges)
            + _step(self._mono, start)
        )
        record += _number(number) + _number(1) + (_step(self._ranges, parent) if parent else b"")
        self._opened, self._mono = self._ranges, start
        self._add(record)
        return self._ranges

    def close(self, number: int, end: int) -> None:
        """Close it."""
        record = b"\x01" + _step(self._opened, number) + _step(self._mono, end)
        self._opened, self._mono = number, end
        self._add(record)

    def fields(self, number: int, **values: int) -> None:
        """Give a range fields; `_` in a name stands for a space."""
        parts = []
        for name, value in values.items():
            field = (
                _number(self._id(0x43, "name", name.replace("_", " "))) + b"\x04" + _number(value)
            )
            parts.append(_text(field))
        self._record(0x4F, number, _number(len(parts)), *parts)

    def kernel(self, number: int, name: str, start: int, ns: int, blocks: int = 132) -> int:
        """Run a kernel that a range launched; gives its end."""
        shape_name = self._id(0x43, "name", name)
        shape = self._id(0x47, "shape", shape_name, blocks, 1, 1, 128, 1, 1, 0, 4096, 64, 0)
        begin = start + GPU_AHEAD_NS
        same, queue = number == self._range, self._queue == 1
        record = bytes([0x10 | (0 if same else 2) | (0 if queue else 8)])
        record += (
            _step(self._end, begin) + _number(ns) + _step(self._correlation, self._correlation + 1)
        )
        record += (b"" if queue else _number(1)) + (b"" if same else _step(self._instance, number))
        self._end, self._correlation, self._queue = begin + ns, self._correlation + 1, 1
        if not same:
            self._range = self._instance = number
        self._add(record + _number(shape))
        return start + ns

    def stack(self, *frames: tuple[str, str, int]) -> int:
        """Define a stack of (function, file, line), the outermost first."""
        stack = 0
        for function, file, line in frames:
            texts = self._id(0x43, "name", function), self._id(0x43, "name", file)
            frame = self._id(0x54, "frame", *texts, line)
            stack = self._id(0x55, "stack", stack, frame)
        return stack

    def samples(self, interval_ns: int, seen: list[tuple[int, int, int]]) -> None:
        """Add samples of the thread: (time, state, stack)."""
        record, before = bytearray(_number(len(seen))), (0, 0, 0)
        for at, state, stack in seen:
            flags = state | (0x40 if before[2] == interval_ns else 0)
            record += bytes([flags]) + _number(1) + _step(before[1], stack) + _step(before[0], at)
            if before[2] != interval_ns:
                record += _step(before[2], interval_ns)
            before = (at, stack, interval_ns)
        self._record(0x56, bytes(record))

    def sampled(self, interval_ns: int, ns: int, samples: int) -> None:
        """Say how the sampling went, and that the thread launches."""
        self._record(0x58, ns, 1, 1, ns // 2, 0)
        rounds = ns // interval_ns
        self._record(0x57, ns, interval_ns, interval_ns, ns, rounds, 0, samples, *[0] * 8)

    def save(self, folder: Path) -> None:
        """Write the file."""
        self._record(0x4D, "exit")
        self._close_block()
        start = b"\x89S2T\r\n\x1a\n" + struct.pack("<II", 1, 20)
        header = start + struct.pack("<I", zlib.crc32(start))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"node-1-{self._pid}.s2t").write_bytes(header + b"".join(self._frames))
