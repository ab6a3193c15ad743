//! Trace files with all that makes an export hard: work out of order, overlapping, without times, in
//! ranges of libraries; hostile names; ranges that never close.

use std::fs::File;
use std::path::{Path, PathBuf};

use stage2_spool::{
    Anchor, Device, GpuNs, GpuWork, MonoNs, Process, Queue, RANGE_OUTSIDE, RANGE_UNKNOWN,
    RangeOpen, Record, Shape, WallNs, What, Writer,
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
        wall: WallNs(1_700_000_000_000_000_000 + at),
    };
    w.write(&Record::Process(Process {
        pid,
        host: host.into(),
        exe: "/usr/bin/python3".into(),
        ..Process::default()
    }));
    w.write(&Record::Anchor(anchor(shift)));
    for (id, bytes) in (1..).zip(NAMES) {
        w.write(&Record::Name { id, bytes: bytes.to_vec() });
    }
    w.write(&Record::Thread { id: 1, os_tid: pid + 1, name: b"main".to_vec() });
    w.write(&Record::Device(Device {
        id: 0,
        name: b"GPU".to_vec(),
        uuid: [7; 16],
        ..Device::default()
    }));
    w.write(&Record::Queue(Queue { id: 1, device: 0, context: 1, stream: 13 }));
    for (id, name) in [(1, 4), (2, 5)] {
        w.write(&Record::Shape(Shape {
            id,
            name,
            grid: [2, 1, 1],
            block: [64, 1, 1],
            ..Shape::default()
        }));
    }
    // prefill, decode, decode/ncclAllReduce@NCCL, decode/step, never closed.
    for (id, parent, name, domain) in
        [(1, 0, 1, 0), (2, 0, 2, 0), (3, 2, 6, 3), (4, 3, 7, 0), (5, 0, 8, 0)]
    {
        w.write(&Record::Path(stage2_spool::Path { id, parent, name, domain }));
    }
    let open = |range, path, parent, start| {
        Record::RangeOpen(RangeOpen {
            range,
            path,
            thread: 1,
            parent,
            start: MonoNs(shift + start),
            start_end: false,
            category: 0,
            payload: None,
            continues: 0,
        })
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
