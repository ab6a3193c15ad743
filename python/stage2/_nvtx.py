"""The ABI of NVTX 3 in ctypes, which its C headers compile into every program that uses it.

A tool gets tables of slots and writes the addresses of its functions there. We call these.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, Callable, Mapping, Sequence

_CORE, _MODULES = 1, 7
_SLOTS = 16
_RANGE_PUSH_EX, _RANGE_PUSH_A, _RANGE_POP = 8, 9, 11
_CALLBACKS, _VERSION_INFO = 1, 3
_PAYLOAD_MODULE, _PAYLOAD_COMPATIBILITY, _PAYLOAD_SLOTS = 2, 260, 63
_SCHEMA_REGISTER = 0
_INT64, _FLOAT64, _CHAR, _FIXED_ARRAY = 17, 44, 1, 16
_STATIC = 1
_TYPE, _ENTRIES, _NUM_ENTRIES, _STATIC_SIZE = 4, 16, 32, 64
_EXTENDED_PAYLOAD, _ASCII_MESSAGE = -541261815, 1
_TEXT_BYTES, _MAX_BYTES = 64, 280
MAX_FIELDS = 16
"""The most fields of a range."""
_MAX_SCHEMAS = 256
_INT64_MAX = 2**63 - 1


class NvtxError(RuntimeError):
    """The library is not an NVTX tool, or refuses to record this process."""


class _Attributes(Structure):
    _fields_ = [
        ("version", c_uint16),
        ("size", c_uint16),
        ("category", c_uint32),
        ("color_type", c_int32),
        ("color", c_uint32),
        ("payload_type", c_int32),
        ("reserved", c_int32),
        ("payload", c_void_p),
        ("message_type", c_int32),
        ("message", c_char_p),
    ]


class _Payload(Structure):
    _fields_ = [("schema", c_uint64), ("size", c_size_t), ("data", c_void_p)]


class _Entry(Structure):
    _fields_ = [
        ("flags", c_uint64),
        ("type", c_uint64),
        ("name", c_char_p),
        ("description", c_char_p),
        ("detail", c_uint64),
        ("offset", c_uint64),
        ("semantics", c_void_p),
        ("reserved", c_void_p),
    ]


class _Schema(Structure):
    _fields_ = [
        ("field_mask", c_uint64),
        ("name", c_char_p),
        ("type", c_uint64),
        ("flags", c_uint64),
        ("entries", POINTER(_Entry)),
        ("num_entries", c_size_t),
        ("static_size", c_size_t),
        ("pack_align", c_size_t),
        ("schema_id", c_uint64),
        ("extension", c_void_p),
    ]


class _Segment(Structure):
    _fields_ = [("segment", c_size_t), ("slot_count", c_size_t), ("slots", POINTER(c_void_p))]


class _Module(Structure):
    _fields_ = [
        ("nvtx_version", c_uint16),
        ("struct_size", c_uint16),
        ("module", c_uint16),
        ("compatibility", c_uint16),
        ("segment_count", c_size_t),
        ("segments", POINTER(_Segment)),
        ("get_export_function", c_void_p),
        ("information", c_void_p),
    ]


_GetTable = CFUNCTYPE(c_int, c_int, POINTER(c_void_p), POINTER(c_uint32))
_GetExportTable = CFUNCTYPE(c_void_p, c_uint32)
_SetVersion = CFUNCTYPE(None, c_uint32)


class _Callbacks(Structure):
    _fields_ = [("struct_size", c_size_t), ("get_table", _GetTable)]


class _VersionInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("version", c_uint32),
        ("reserved", c_uint32),
        ("set_injection_version", _SetVersion),
    ]


_kept: list[Any] = []
"""Objects that a tool may access as long as the process lives."""


class NvtxClient:
    """An NVTX client, attached to one tool."""

    def __init__(self, tool: str) -> None:
        """Attach to the library at the path `tool`.

        Raises:
            NvtxError: It has no entry point, or refuses to record this process.
            OSError: It cannot be loaded.

        """
        library = ctypes.CDLL(tool)
        self._slots = _attach(library)
        push, pop = self._slots[_RANGE_PUSH_A], self._slots[_RANGE_POP]
        if not push or not pop:
            raise NvtxError(f"{tool} takes no ranges")
        self._push = CFUNCTYPE(c_int, c_char_p)(push)
        self._pop = CFUNCTYPE(c_int)(pop)
        push_ex = self._slots[_RANGE_PUSH_EX]
        self._push_ex = CFUNCTYPE(c_int, c_void_p)(push_ex) if push_ex else None
        self._register = _attach_payloads(library)
        self._schemas: dict[tuple[tuple[str, type], ...], int] = {}

    def push(self, name: str, fields: Mapping[str, Any]) -> None:
        """Open a range. Values that are neither numbers nor strings are kept as their `str`."""
        text = _c_text(name)
        if not fields or self._push_ex is None or self._register is None:
            self._push(text)
            return
        kinds, values = [], bytearray()
        for field, value in list(fields.items())[:MAX_FIELDS]:
            kind, data = _encoded(value)
            if len(values) + len(data) > _MAX_BYTES:
                break
            kinds.append((field, kind))
            values += data
        schema = self._schema(tuple(kinds))
        if schema == 0:
            self._push(text)
            return
        held = ctypes.create_string_buffer(bytes(values), len(values))
        payload = _Payload(schema, len(values), ctypes.addressof(held))
        # `attributes` holds only addresses, so the locals above must live until the call returns.
        attributes = _attributes(text, payload)
        self._push_ex(ctypes.addressof(attributes))

    def prepare(self, name: str, fields: Sequence[str]) -> Callable[..., None]:
        """Return a function that opens a range of this name, with an integer for each field.

        It takes a fraction of the time of `push`. Integers that do not fit in 64 bits raise
        `struct.error`.
        """
        text = _c_text(name)
        fits = len(fields) <= min(MAX_FIELDS, _MAX_BYTES // 8)
        if self._push_ex is not None and self._register is not None and fits:
            schema = self._schema(tuple((field, int) for field in fields))
            if schema:
                return _Prepared(self._push_ex, text, schema, len(fields)).push
        return lambda *_values: self._push(text)

    def pop(self) -> None:
        """Close the innermost range of this thread."""
        self._pop()

    def _schema(self, kinds: tuple[tuple[str, type], ...]) -> int:
        """Return the ID of the schema of these fields; 0 if there is none."""
        known = self._schemas.get(kinds)
        if known is not None:
            return known
        if len(self._schemas) >= _MAX_SCHEMAS or self._register is None:
            return 0
        entries = (_Entry * len(kinds))()
        offset = 0
        for entry, (name, kind) in zip(entries, kinds):
            entry.name, entry.offset = _c_text(name), offset
            if kind is str:
                entry.type, entry.flags, entry.detail = _CHAR, _FIXED_ARRAY, _TEXT_BYTES
                offset += _TEXT_BYTES
            else:
                entry.type = _INT64 if kind is int else _FLOAT64
                offset += 8
        schema = _Schema(
            field_mask=_TYPE | _ENTRIES | _NUM_ENTRIES | _STATIC_SIZE,
            type=_STATIC,
            entries=entries,
            num_entries=len(kinds),
            static_size=offset,
        )
        number = int(self._register(None, ctypes.addressof(schema)))
        self._schemas[kinds] = number
        return number


def _attributes(text: bytes, payload: _Payload) -> _Attributes:
    """Return the attributes of a range. The caller keeps `payload` as long as they are used."""
    return _Attributes(
        version=3,
        size=ctypes.sizeof(_Attributes),
        payload_type=_EXTENDED_PAYLOAD,
        reserved=1,
        payload=ctypes.addressof(payload),
        message_type=_ASCII_MESSAGE,
        message=text,
    )


class _Prepared(threading.local):
    """The attributes of ranges of one name, created once for each thread."""

    def __init__(self, push: Callable[[int], Any], text: bytes, schema: int, fields: int) -> None:
        values = struct.Struct(f"={fields}q")
        self._held = ctypes.create_string_buffer(values.size)
        self._payload = _Payload(schema, values.size, ctypes.addressof(self._held))
        self._attributes = _attributes(text, self._payload)
        self._address = ctypes.addressof(self._attributes)
        self._pack_into = values.pack_into
        self._push = push

    def push(self, *values: int) -> None:
        self._pack_into(self._held, 0, *values)
        self._push(self._address)


def _c_text(value: Any) -> bytes:
    try:
        text = str(value)
    except Exception:
        # A value whose `__str__` raises must not end the workload.
        text = f"({type(value).__name__} without a text)"
    # A NUL would end the C string, and a lone surrogate is not valid UTF-8.
    return text.encode("utf-8", "replace").replace(b"\0", b"?")


def _encoded(value: Any) -> tuple[type, bytes]:
    """Return the storage type of a value, and its bytes."""
    if isinstance(value, int) and -_INT64_MAX <= value <= _INT64_MAX:
        return int, bytes(c_int64(value))
    if isinstance(value, (int, float)):
        try:
            return float, bytes(c_double(value))
        except OverflowError:
            return float, bytes(c_double(float("inf") if value > 0 else float("-inf")))
    data = _c_text(value)[:_TEXT_BYTES]
    return str, data.decode("utf-8", "ignore").encode().ljust(_TEXT_BYTES, b"\0")


def _attach(library: ctypes.CDLL) -> Any:
    """Give the tool our tables, and return the slots of the core functions."""
    try:
        initialize = library.InitializeInjectionNvtx2
    except AttributeError:
        raise NvtxError(f"{library._name} is not an NVTX tool") from None
    slots = [(c_void_p * _SLOTS)() for _ in range(_MODULES)]
    tables = []
    for module in slots:
        size = ctypes.sizeof(c_void_p)
        places = [ctypes.addressof(module) + size * index for index in range(_SLOTS)]
        tables.append((c_void_p * (_SLOTS + 1))(*places, None))

    def get_table(module: int, table: Any, size: Any) -> int:
        if not 0 < module < _MODULES:
            return 0
        if table:
            table[0] = ctypes.addressof(tables[module])
        if size:
            size[0] = _SLOTS
        return 1

    callbacks = _Callbacks(ctypes.sizeof(_Callbacks), _GetTable(get_table))
    version = _VersionInfo(ctypes.sizeof(_VersionInfo), 3, 0, _SetVersion(lambda _version: None))
    answers = {
        _CALLBACKS: ctypes.addressof(callbacks),
        _VERSION_INFO: ctypes.addressof(version),
    }
    export = _GetExportTable(lambda table: answers.get(table))
    _kept.extend([slots, tables, callbacks, version, export])
    initialize.argtypes, initialize.restype = [_GetExportTable], c_int
    if not initialize(export):
        raise NvtxError(f"{library._name} does not record this process")
    return slots[_CORE]


def _attach_payloads(library: ctypes.CDLL) -> Callable[[Any, Any], Any] | None:
    """Give the tool the slots of the payload extension; return its function for schemas."""
    try:
        initialize = library.InitializeInjectionNvtxExtension
    except AttributeError:
        return None
    slots = (c_void_p * _PAYLOAD_SLOTS)()
    segment = _Segment(0, _PAYLOAD_SLOTS, ctypes.cast(slots, POINTER(c_void_p)))
    module = _Module(
        nvtx_version=3,
        struct_size=ctypes.sizeof(_Module),
        module=_PAYLOAD_MODULE,
        compatibility=_PAYLOAD_COMPATIBILITY,
        segment_count=1,
        segments=ctypes.pointer(segment),
    )
    _kept.extend([slots, segment, module])
    initialize.argtypes, initialize.restype = [c_void_p], c_int
    register = slots[_SCHEMA_REGISTER] if initialize(ctypes.addressof(module)) else None
    return CFUNCTYPE(c_uint64, c_void_p, c_void_p)(register) if register else None
