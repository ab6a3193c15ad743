#!/usr/bin/env python3
"""Turns raw CUPTI activity captures into the recorded sequences that the simulated GPU replays.

    extract.py CAPTURES_DIR [OUT_DIR]

CAPTURES_DIR holds NAME.buf.xz and NAME.tsv for NAME in llm13 and graph13; README.md beside this
file describes the format and what is taken from them. Needs only the standard library.
"""

import lzma
import struct
import sys
from collections import defaultdict
from pathlib import Path

KERNEL, MEMCPY, MEMSET, DEVICE = 10, 1, 2, 8
# Record sizes of CUPTI 13.0 by CUpti_ActivityKind (9 CONTEXT, 38 SYNCHRONIZATION, 51 GRAPH_TRACE).
RECORD_BYTES = {KERNEL: 216, MEMCPY: 96, MEMSET: 88, DEVICE: 184, 9: 32, 38: 56, 51: 56}
CUPTI_VERSION = "130001"
# Offsets in those records: (start, correlation id, graph node id).
OFFSETS = {KERNEL: (16, 92, 144), MEMCPY: (16, 44, 64), MEMSET: (16, 44, 64)}
OP_NAMES = {KERNEL: "kernel", MEMCPY: "memcpy", MEMSET: "memset"}

COLUMNS = (
    "op",
    "name",
    "grid",
    "block",
    "static_shared_bytes",
    "dynamic_shared_bytes",
    "registers_per_thread",
    "local_bytes_per_thread",
    "bytes",
    "copy_kind",
    "layer",
    "duration_ns",
    "gap_ns",
)

# Fields of CUpti_ActivityDevice5 that describe the GPU model (not the one machine): offset, format.
DEVICE_FIELDS = {
    "global_memory_bandwidth_kb_per_s": (8, "<Q"),
    "global_memory_bytes": (16, "<Q"),
    "constant_memory_bytes": (24, "<I"),
    "l2_cache_bytes": (28, "<I"),
    "threads_per_warp": (32, "<I"),
    "core_clock_khz": (36, "<I"),
    "memcpy_engines": (40, "<I"),
    "multiprocessors": (44, "<I"),
    "max_warps_per_multiprocessor": (52, "<I"),
    "max_blocks_per_multiprocessor": (56, "<I"),
    "max_shared_bytes_per_multiprocessor": (60, "<I"),
    "max_registers_per_multiprocessor": (64, "<I"),
    "max_registers_per_block": (68, "<I"),
    "max_shared_bytes_per_block": (72, "<I"),
    "max_threads_per_block": (76, "<I"),
    "compute_capability_major": (104, "<I"),
    "compute_capability_minor": (108, "<I"),
}


class Op:
    """One kernel, copy or fill as it ran."""

    def __init__(self, kind, record, names):
        start_at, correlation_at, node_at = OFFSETS[kind]
        self.kind = kind
        self.start, self.end = struct.unpack_from("<QQ", record, start_at)
        (self.correlation,) = struct.unpack_from("<I", record, correlation_at)
        # 0 for a plain launch; the upper half is the id of the executable graph, never 0.
        (self.node,) = struct.unpack_from("<Q", record, node_at)
        if kind == KERNEL:
            (self.registers,) = struct.unpack_from("<H", record, 6)
            shape = struct.unpack_from("<9i", record, 52)
            self.grid, self.block = shape[0:3], shape[3:6]
            self.static_shared, self.dynamic_shared, self.local = shape[6:9]
            (pointer,) = struct.unpack_from("<Q", record, 104)
            if pointer not in names:
                sys.exit(f"kernel name pointer {pointer:#x} has no `name` line in the .tsv file")
            self.name = names[pointer]
        else:
            (self.bytes,) = struct.unpack_from("<Q", record, 8)
            self.copy_kind = record[4] if kind == MEMCPY else None

    def shape(self):
        """What two launches of the same operation have in common."""
        if self.kind == KERNEL:
            return (self.kind, self.name, self.grid, self.block)
        return (self.kind, self.bytes, self.copy_kind)


def read_records(path):
    """Yields (kind, record bytes) of every buffer of a capture."""
    with lzma.open(path) as capture:
        data = capture.read()
    at = 0
    while at < len(data):
        if data[at : at + 4] != b"BUF0":
            sys.exit(f"{path}: no buffer header at byte {at}")
        (length,) = struct.unpack_from("<Q", data, at + 4)
        at += 12
        end = at + length
        if end > len(data):
            sys.exit(f"{path}: the buffer at byte {at} is cut short")
        while at < end:
            (kind,) = struct.unpack_from("<I", data, at)
            if kind not in RECORD_BYTES:
                sys.exit(f"{path}: record of unknown kind {kind} at byte {at}")
            yield kind, data[at : at + RECORD_BYTES[kind]]
            at += RECORD_BYTES[kind]


def read_tsv(path):
    """Returns (names by pointer, ranges as (name, first id, last id)) of a capture."""
    names, ranges, open_ranges = {}, [], []
    for line in path.read_text().splitlines():
        fields = line.split("\t")
        if fields[0] == "cupti" and fields[1] != CUPTI_VERSION:
            sys.exit(f"{path}: captured with CUPTI {fields[1]}, this script reads {CUPTI_VERSION}")
        elif fields[0] == "name":
            names[int(fields[1], 16)] = fields[2]
        elif fields[0] == "push":
            open_ranges.append((fields[5], int(fields[3])))
        elif fields[0] == "pop":
            name, first = open_ranges.pop()
            ranges.append((name, first, int(fields[3])))
    return names, ranges


def load(folder, name):
    """Returns (operations in order of start, ranges, device record or None) of a capture."""
    names, ranges = read_tsv(folder / f"{name}.tsv")
    ops, device = [], None
    for kind, record in read_records(folder / f"{name}.buf.xz"):
        if kind in OFFSETS:
            ops.append(Op(kind, record, names))
        elif kind == DEVICE:
            device = record
    ops.sort(key=lambda op: op.start)
    return ops, ranges, device


def last_range(ops, ranges, wanted):
    """The operations of the last range of a name: the first one ran cold (lazy loading)."""
    _, first, last = [r for r in ranges if r[0] == wanted][-1]
    return [op for op in ops if first < op.correlation < last]


def typical_step(ops, steps):
    """Of equal steps, the one whose kernel time is nearest the mean."""
    if len(ops) % steps:
        sys.exit(f"{len(ops)} operations cannot be cut into {steps} equal steps")
    size = len(ops) // steps
    cut = [ops[i * size : (i + 1) * size] for i in range(steps)]
    times = [busy_ns(step) for step in cut]
    mean = sum(times) / steps
    return cut[min(range(steps), key=lambda i: abs(times[i] - mean))]


def typical_replay(ops):
    """Of all replays of the graph, the one whose kernel time is the median."""
    replays = defaultdict(list)
    for op in ops:
        if op.node:
            replays[op.correlation].append(op)
    ordered = sorted(replays.values(), key=busy_ns)
    replay = ordered[len(ordered) // 2]
    replay.sort(key=lambda op: op.start)
    return replay


def busy_ns(ops):
    """Sum of the kernel durations."""
    return sum(op.end - op.start for op in ops if op.kind == KERNEL)


def layers(ops):
    """For each operation the layer of the network that it belongs to, or None.

    Layers are the repetitions of the longest periodic run; the run itself starts with the first
    layer and may reach into the final norm, whose kernels equal the head of a layer.
    """
    shapes = [op.shape() for op in ops]
    best_run, best_start, best_period = 0, 0, 0
    for period in range(20, len(ops) // 2):
        run = 0
        for i in range(len(ops) - period):
            run = run + 1 if shapes[i] == shapes[i + period] else 0
            if run > best_run:
                best_run, best_start, best_period = run, i - run + 1, period
    count = (best_run + best_period) // best_period if best_period else 0
    result: list[int | None] = [None] * len(ops)
    for i in range(count * best_period):
        result[best_start + i] = i // best_period
    return result


def dims(values):
    return "x".join(str(v) for v in values)


def rows(ops, name_index):
    """The table of a sequence."""
    previous_end = ops[0].start
    for op, layer in zip(ops, layers(ops)):
        gap = op.start - previous_end
        previous_end = op.end
        tail = ["-" if layer is None else layer, op.end - op.start, gap]
        if op.kind == KERNEL:
            index = name_index.setdefault(op.name, len(name_index))
            launch = [dims(op.grid), dims(op.block), op.static_shared, op.dynamic_shared]
            yield ["kernel", index, *launch, op.registers, op.local, "-", "-", *tail]
        else:
            copy_kind = "-" if op.copy_kind is None else op.copy_kind
            yield [OP_NAMES[op.kind], "-", "-", "-", "-", "-", "-", "-", op.bytes, copy_kind, *tail]


def write_table(path, header, table):
    lines = ["\t".join(header)] + ["\t".join(str(v) for v in row) for row in table]
    path.write_text("\n".join(lines) + "\n")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    captures = Path(sys.argv[1])
    out = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(__file__).parent
    llm, llm_ranges, device = load(captures, "llm13")
    graph, _, _ = load(captures, "graph13")
    name_index: dict[bytes, int] = {}
    sequences = {
        "prefill": last_range(llm, llm_ranges, "prefill"),
        "decode": typical_step(last_range(llm, llm_ranges, "decode"), 8),
        "graph": typical_replay(graph),
    }
    for name, ops in sequences.items():
        table = list(rows(ops, name_index))
        write_table(out / f"{name}.tsv", COLUMNS, table)
        kernels = sum(op.kind == KERNEL for op in ops)
        print(
            f"{name}: {len(ops)} operations, {kernels} kernels, {busy_ns(ops)} ns of kernels, "
            f"{len(set(layers(ops)) - {None})} layers"
        )
    write_table(out / "names.tsv", ("name", "mangled"), [(i, n) for n, i in name_index.items()])
    device_rows = [
        (key, struct.unpack_from(fmt, device, at)[0]) for key, (at, fmt) in DEVICE_FIELDS.items()
    ]
    write_table(out / "device.tsv", ("key", "value"), device_rows)


if __name__ == "__main__":
    main()
