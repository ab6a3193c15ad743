//! Trace files with all that makes an export hard: work out of order, overlapping, without times, in
//! ranges of libraries; hostile names; ranges that never close.
#![allow(dead_code, reason = "not every test file needs all of it")]

use std::fs::File;
use std::path::{Path, PathBuf};

use stage2_contract::trace::{
    Anchor, Device, Field, FieldValue, GpuNs, GpuWork, Mark, MonoNs, Payload, Process, Queue,
    RANGE_OUTSIDE, RANGE_UNKNOWN, RangeOpen, Record, Shape, WallNs, What, Writer,
};

const NAMES: [&[u8]; 8] = [
    b"prefill",
    b"decode",
    b"NCCL",
    b"_Z4gemmILi4EEvPf",
    b"say \"hi\"; <b>\n\xff",
    b"ncclAllReduce",
    b"step",
    b"never closed",
];

/// Writes `HOST-PID.s2t`: ten kernels of 1,000 ns (two of them overlap on one stream), one without times, a copy of 500 ns,
/// a fill of 250 ns and a graph of 2,000 ns: prefill 5 kernels, decode 3, outside 1, unattributed 1.
pub(crate) fn trace(folder: &Path, pid: u32, host: &str, shift: u64) -> PathBuf {
    let path = folder.join(format!("{host}-{pid}.s2t"));
    let mut w = Writer::new(File::create(&path).expect("file")).expect("header");
    let anchor = |at: u64| Anchor {
        gpu: GpuNs(1_000_000 + at),
        mono: MonoNs(at),
        // The clocks of two processes are never read at the same moment.
        wall: WallNs(1_700_000_000_000_000_000 + at + 5 * shift),
    };
    let (host, exe) = (host.into(), "/usr/bin/python3".into());
    w.write(&Record::Process(Process { pid, host, exe, ..Process::default() }));
    w.write(&Record::Anchor(anchor(shift)));
    for (id, bytes) in (1..).zip(NAMES) {
        w.write(&Record::Name { id, bytes: bytes.to_vec() });
    }
    w.write(&Record::Thread { id: 1, os_tid: pid + 1, name: b"main".to_vec() });
    let gpu = Device { id: 0, name: b"GPU".to_vec(), uuid: [7; 16], ..Device::default() };
    w.write(&Record::Device(gpu));
    w.write(&Record::Queue(Queue { id: 1, device: 0, context: 1, stream: 13 }));
    for (id, name) in [(1, 4), (2, 5)] {
        let (grid, block) = ([2, 1, 1], [64, 1, 1]);
        w.write(&Record::Shape(Shape { id, name, grid, block, ..Shape::default() }));
    }
    // prefill, decode, decode/ncclAllReduce@NCCL, decode/step, never closed.
    for (id, parent, name, domain) in
        [(1, 0, 1, 0), (2, 0, 2, 0), (3, 2, 6, 3), (4, 3, 7, 0), (5, 0, 8, 0)]
    {
        w.write(&Record::Path(stage2_contract::trace::Path { id, parent, name, domain }));
    }
    let open = |range, path, parent, start| {
        let open = opened(range, path, parent, shift + start);
        Record::RangeOpen(RangeOpen { start_end: false, ..open })
    };
    let close = |range, end| Record::RangeClose { range, end: MonoNs(shift + end) };
    let work = |what, range, start: u64, ns: u64| {
        let start = GpuNs(1_000_000 + shift + start);
        let (end, correlation) = (GpuNs(start.0 + ns), start.0);
        GpuWork { what, start, end, queue: 1, range, correlation, graph_node: 0 }
    };
    let kernel = |shape, range, start| work(What::Kernel { shape }, range, start, 1_000);
    w.write(&open(1, 1, 0, 0));
    w.write(&close(1, 10_000));
    // Out of order, and the second overlaps the third.
    for start in [4_000, 100, 1_100, 1_600, 6_000] {
        w.work(&kernel(1, 1, start));
    }
    w.write(&open(2, 2, 0, 20_000));
    w.write(&open(3, 3, 2, 21_000));
    w.write(&open(4, 4, 3, 22_000));
    for (range, start) in [(2, 20_100), (3, 21_100), (4, 22_100)] {
        w.work(&kernel(2, range, start));
    }
    for (range, end) in [(4, 24_000), (3, 25_000), (2, 30_000)] {
        w.write(&close(range, end));
    }
    w.work(&kernel(1, RANGE_OUTSIDE, 40_000));
    w.work(&kernel(1, RANGE_UNKNOWN, 42_000));
    w.work(&GpuWork { start: GpuNs(0), end: GpuNs(0), ..kernel(1, 1, 0) });
    w.work(&work(What::Copy { bytes: 4_096, kind: 1 }, 1, 8_000, 500));
    w.work(&work(What::Fill { bytes: 64 }, 1, 9_000, 250));
    w.work(&work(What::Graph { graph: 3 }, 2, 26_000, 2_000));
    w.write(&open(5, 5, 0, 50_000));
    w.write(&Record::Anchor(anchor(shift + 60_000)));
    w.write(&Record::End { reason: "exit".into() });
    w.flush().expect("disk");
    path
}

/// A trace file of process 1 on `host`, with a shape and its name.
pub(crate) fn writer(path: &Path, host: &str) -> Writer<File> {
    let mut writer = Writer::new(File::create(path).expect("file")).expect("header");
    writer.write(&Record::Process(Process { pid: 1, host: host.into(), ..Process::default() }));
    for at in [10, 60_000] {
        let anchor = Anchor { gpu: GpuNs(1_000_000 + at), mono: MonoNs(at), wall: WallNs(at) };
        writer.write(&Record::Anchor(anchor));
    }
    writer.write(&Record::Name { id: 1, bytes: b"k".to_vec() });
    writer.write(&Record::Shape(Shape { id: 1, name: 1, ..Shape::default() }));
    writer
}

pub(crate) fn kernel_at(start: u64, end: u64, range: u64) -> GpuWork {
    let (start, end, what) = (GpuNs(start), GpuNs(end), What::Kernel { shape: 1 });
    GpuWork { what, start, end, queue: 1, range, correlation: 1, graph_node: 0 }
}

pub(crate) fn opened(range: u64, path: u32, parent: u64, start: u64) -> RangeOpen {
    let start = MonoNs(start);
    RangeOpen { range, path, thread: 1, parent, start, start_end: true, ..RangeOpen::default() }
}

pub(crate) fn path(id: u32, parent: u32, name: u32) -> Record {
    Record::Path(stage2_contract::trace::Path { id, parent, name, domain: 0 })
}

pub(crate) fn end(mut writer: Writer<File>) {
    writer.write(&Record::End { reason: "exit".into() });
    writer.flush().expect("disk");
}

/// A process that opened no range.
pub(crate) fn without_ranges(folder: &Path) {
    let mut writer = writer(&folder.join("h-1.s2t"), "h");
    writer.work(&kernel_at(1_000_100, 1_000_200, RANGE_OUTSIDE));
    end(writer);
}

/// A kernel in so many ranges, each in the one before: `r1`, `r2`...
pub(crate) fn nested(folder: &Path, depth: u32) {
    let mut writer = writer(&folder.join("h-1.s2t"), "h");
    for id in 1..=depth {
        writer.write(&Record::Name { id: id + 1, bytes: format!("r{id}").into_bytes() });
        writer.write(&path(id, id - 1, id + 1));
        writer.write(&Record::RangeOpen(opened(u64::from(id), id, u64::from(id - 1), 20)));
    }
    writer.work(&kernel_at(1_000_100, 1_000_200, u64::from(depth)));
    end(writer);
}

/// A stage `decode` with a kernel, and so many ranges without.
pub(crate) fn modules(folder: &Path, number: u32) {
    let mut writer = writer(&folder.join("h-1.s2t"), "h");
    for id in 1..=number + 1 {
        let name = if id == 1 { "decode".to_owned() } else { format!("module {id}") };
        writer.write(&Record::Name { id: id + 1, bytes: name.into_bytes() });
        writer.write(&path(id, 0, id + 1));
        writer.write(&Record::RangeOpen(opened(u64::from(id), id, 0, 20)));
    }
    writer.work(&kernel_at(1_000_100, 1_000_200, 1));
    end(writer);
}

/// Three ranges that open in the same nanosecond, each in the one before: `outer` to 90, `middle` to
/// 50, `inner` to 50, which has typed values; then a mark at 60, and kernels named like formulas.
pub(crate) fn same_nanosecond(folder: &Path) {
    let mut writer = writer(&folder.join("h-1.s2t"), "h");
    let names: [&[u8]; 6] =
        [b"outer", b"middle", b"inner", b"=cmd|' /C calc'!A0", b"tokens", b"text"];
    for (id, bytes) in (2..).zip(names) {
        writer.write(&Record::Name { id, bytes: bytes.to_vec() });
    }
    writer.write(&Record::Shape(Shape { id: 2, name: 5, ..Shape::default() }));
    for range in 1..=3 {
        let (id, parent) = (range as u32, range as u32 - 1);
        writer.write(&path(id, parent, id + 1));
        let open = opened(range, id, range - 1, 20);
        writer.write(&Record::RangeOpen(RangeOpen { start_end: false, ..open }));
    }
    let fields = vec![
        Field { name: 6, value: FieldValue::U64(u64::MAX) },
        Field { name: 7, value: FieldValue::Name(5) },
    ];
    writer.write(&Record::RangeFields { range: 3, fields });
    let kernel = GpuWork { what: What::Kernel { shape: 2 }, ..kernel_at(1_000_030, 1_000_040, 3) };
    writer.work(&kernel);
    for (range, end) in [(3, 50), (2, 50), (1, 90)] {
        writer.write(&Record::RangeClose { range, end: MonoNs(end) });
    }
    writer.write(&Record::Mark(Mark {
        at: MonoNs(60),
        thread: 1,
        name: 5,
        domain: 0,
        category: 0,
        payload: Some(Payload::U64(u64::MAX)),
    }));
    end(writer);
}

/// So many kernels of 10 ns in ranges of 100 kernels, each of which has a value.
pub(crate) fn many(folder: &Path, kernels: u64) {
    let mut writer = writer(&folder.join("h-1.s2t"), "h");
    writer.write(&path(1, 0, 1));
    for range in 1..=kernels / 100 {
        let start = range * 1_000;
        writer.write(&Record::RangeOpen(opened(range, 1, 0, start)));
        for at in (0..100).map(|kernel| 1_000_000 + start + kernel * 10) {
            writer.work(&kernel_at(at, at + 10, range));
        }
        let fields = vec![Field { name: 1, value: FieldValue::U64(range) }];
        writer.write(&Record::RangeFields { range, fields });
        writer.write(&Record::RangeClose { range, end: MonoNs(start + 1_000) });
    }
    end(writer);
}

/// Work and ranges at both ends of all clocks.
pub(crate) fn hostile_times(folder: &Path) {
    let mut writer = writer(&folder.join("h-1.s2t"), "h");
    writer.write(&path(1, 0, 1));
    for (range, start) in [(1, 0), (2, u64::MAX), (3, 1 << 63)] {
        writer.write(&Record::RangeOpen(opened(range, 1, 0, start)));
        writer.write(&Record::RangeClose { range, end: MonoNs(u64::MAX - start) });
    }
    for (start, end) in [(1, u64::MAX), (u64::MAX, u64::MAX), (1, 1), (1 << 63, (1 << 63) + 1)] {
        writer.work(&kernel_at(start, end, 1));
    }
    writer.write(&Record::RangeOpen(opened(4, 1, 0, 5)));
    writer.flush().expect("disk");
}
