//! A small capture with fixed content: every kind of record, every form that it can take.

use stage2_contract::trace::*;

const GPU: u64 = 1_789_000_000_123_456_789;
const MONO: u64 = 5_432_109_876_543;

fn definitions() -> Vec<Record> {
    let argv = ["python", "-m", "runner", "prompt=h\u{e9}llo\n"].map(String::from).to_vec();
    vec![
        Record::Process(Process {
            pid: 4321,
            ppid: 1,
            host: "gpu-node-1".into(),
            exe: "/usr/bin/python3".into(),
            argv,
            collector: "0.1.0".into(),
        }),
        Record::Meta { key: "cupti.version".into(), value: "13.0".into() },
        Record::Anchor(Anchor { gpu: GpuNs(GPU), mono: MonoNs(MONO), wall: WallNs(GPU + 17) }),
        Record::Name { id: 1, bytes: b"_Z6kernelPfS_i".to_vec() },
        Record::Name { id: 2, bytes: b"decode".to_vec() },
        Record::Name { id: 3, bytes: b"not \xff\xfe UTF-8 | <b>\n".to_vec() },
        Record::Thread { id: 1, os_tid: 4321, name: b"python".to_vec() },
        Record::Thread { id: 2, os_tid: 4400, name: Vec::new() },
        Record::Device(Device {
            id: 0,
            name: b"NVIDIA H200".to_vec(),
            multiprocessors: 132,
            compute_capability: (9, 0),
            memory_bytes: 150_754_820_096,
            bandwidth_kb_per_s: 4_917_504_000,
            core_clock_khz: 1_980_000,
            l2_bytes: 62_914_560,
            uuid: *b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\xff",
        }),
        Record::Queue(Queue { id: 1, device: 0, context: 1, stream: 7 }),
        Record::Queue(Queue { id: 2, device: 0, context: 1, stream: 13 }),
        Record::Shape(Shape {
            id: 1,
            name: 1,
            grid: [1_048_576, 2, 3],
            block: [256, 1, 1],
            static_shared_bytes: 1024,
            dynamic_shared_bytes: 232_448,
            registers_per_thread: 168,
            local_bytes_per_thread: 8,
        }),
        Record::Path(Path { id: 1, parent: NONE, name: 2, domain: NONE }),
        Record::Path(Path { id: 2, parent: 1, name: 3, domain: 2 }),
    ]
}

fn open(range: u64, parent: u64, after_ns: u64) -> RangeOpen {
    RangeOpen {
        range,
        path: if parent == RANGE_OUTSIDE { 1 } else { 2 },
        thread: 1,
        parent,
        start: MonoNs(MONO + after_ns),
        ..RangeOpen::default()
    }
}

fn ranges() -> Vec<Record> {
    vec![
        Record::RangeOpen(open(1, RANGE_OUTSIDE, 1_000)),
        Record::RangeOpen(open(2, 1, 2_500)),
        Record::RangeOpen(RangeOpen {
            start_end: true,
            category: 9,
            payload: Some(Payload::U64(300)),
            continues: 1,
            ..open(3, 2, 2_600)
        }),
        Record::RangeOpen(RangeOpen { payload: Some(Payload::I64(-2)), ..open(4, 3, 2_700) }),
        Record::RangeOpen(RangeOpen {
            payload: Some(Payload::F64(0.5)),
            ..open(5, RANGE_OUTSIDE, 2_800)
        }),
        Record::Mark(Mark {
            at: MonoNs(MONO + 2_900),
            thread: 2,
            name: 3,
            domain: 2,
            category: 1,
            payload: Some(Payload::F64(-1.25)),
        }),
        Record::RangeClose { range: 5, end: MonoNs(MONO + 3_000) },
        Record::RangeClose { range: 2, end: MonoNs(MONO + 2_950) },
    ]
}

fn work() -> Vec<Record> {
    let (start, end) = (GpuNs(GPU), GpuNs(GPU + 4_321));
    let what = What::Kernel { shape: 1 };
    let kernel =
        GpuWork { what, start, end, queue: 1, range: 2, correlation: 1_000, graph_node: 0 };
    let other = |what, from: u64, to: u64, correlation| {
        let (start, end) = (GpuNs(GPU + from), GpuNs(GPU + to));
        GpuWork { what, start, end, correlation, ..kernel }
    };
    let later = |ns: u64| other(kernel.what, ns, ns + 900, 1_000 + ns / 500);
    let copy = other(What::Copy { bytes: 1 << 30, kind: 1 }, 10_000, 12_000, 1_030);
    let fill = other(What::Fill { bytes: 4_096 }, 12_500, 12_600, 1_031);
    let graph = other(What::Graph { graph: 7 }, 20_000, 40_000, 1_040);
    vec![
        Record::Work(kernel),
        Record::Work(later(5_000)),
        Record::Work(GpuWork { range: RANGE_OUTSIDE, queue: 2, ..later(6_000) }),
        Record::Work(GpuWork { range: RANGE_UNKNOWN, ..later(5_500) }),
        Record::Work(GpuWork { range: 1, graph_node: (7 << 32) + 3, ..later(8_000) }),
        Record::Work(GpuWork { start: GpuNs(0), end: GpuNs(0), ..later(9_000) }),
        Record::Work(GpuWork { queue: 2, range: 1, ..copy }),
        Record::Work(GpuWork { range: RANGE_UNKNOWN, graph_node: (7 << 32) + 4, ..fill }),
        Record::Work(GpuWork { range: RANGE_UNKNOWN, ..graph }),
        Record::GraphNode { node: (7 << 32) + 3, path: 2, range: 0 },
    ]
}

fn ending() -> Vec<Record> {
    vec![
        Record::Losses(Losses {
            cupti_dropped: 1,
            buffers_refused: 2,
            range_events: 3,
            unattributed: 400,
            invalid_timestamps: 5,
            unreadable_records: 6,
            unbalanced: 7,
            unclosed: 8,
            names_cut: 9,
            spool_bytes_unwritten: 100_000,
            aggregates_folded: 11,
            late_switches: 12,
            beyond_limits: 13,
            calls_turned_away: 14,
        }),
        Record::End { reason: "exit".into() },
    ]
}

/// The capture, a group for each frame.
pub(crate) fn frames() -> Vec<Vec<Record>> {
    vec![definitions(), ranges(), work(), ending()]
}
