//! Short words for the records of a synthetic process.

use std::path::Path;

use stage2_contract::trace::{
    Anchor, Device, GpuNs, GpuWork, MonoNs, NONE, Path as RangePath, Process, Queue, RangeOpen,
    Record, Shape, WallNs, What, Writer,
};

/// Ranges are timed with a clock that is this far behind the GPU's.
pub(crate) const GPU_AHEAD_NS: u64 = 1_000_000;

/// The records of one process, in order.
#[derive(Default)]
pub(crate) struct Build {
    pub(crate) records: Vec<Record>,
    /// Where the writer flushes: after this many records.
    flushes: Vec<usize>,
}

impl Build {
    pub(crate) fn process(pid: u32, exe: &str) -> Self {
        let process = Process {
            pid,
            ppid: 1,
            host: "node-1".into(),
            exe: exe.into(),
            argv: vec![exe.into(), "-m".into(), "runner".into()],
            collector: "0.1.0".into(),
        };
        Self { records: vec![Record::Process(process)], flushes: Vec::new() }
    }

    pub(crate) fn add(&mut self, record: Record) -> &mut Self {
        self.records.push(record);
        self
    }

    pub(crate) fn meta(&mut self, key: &str, value: &str) -> &mut Self {
        self.add(Record::Meta { key: key.into(), value: value.into() })
    }

    pub(crate) fn anchor(&mut self, mono: u64) -> &mut Self {
        let anchor = Anchor {
            gpu: GpuNs(mono + GPU_AHEAD_NS),
            mono: MonoNs(mono),
            wall: WallNs(1_700_000_000_000_000_000 + mono),
        };
        self.add(Record::Anchor(anchor))
    }

    pub(crate) fn name(&mut self, id: u32, bytes: &[u8]) -> &mut Self {
        self.add(Record::Name { id, bytes: bytes.to_vec() })
    }

    /// A device with its queue of the same number plus one.
    pub(crate) fn device(&mut self, id: u32, name: &str, uuid: u8) -> &mut Self {
        self.add(Record::Device(Device {
            id,
            name: name.into(),
            multiprocessors: 132,
            compute_capability: (9, 0),
            memory_bytes: 150_754_820_096,
            bandwidth_kb_per_s: 4_800_000_000,
            core_clock_khz: 1_980_000,
            l2_bytes: 62_914_560,
            uuid: if uuid == 0 { [0; 16] } else { std::array::from_fn(|i| uuid + i as u8) },
        }));
        self.queue(id + 1, id)
    }

    pub(crate) fn queue(&mut self, id: u32, device: u32) -> &mut Self {
        self.add(Record::Queue(Queue { id, device, context: 1, stream: 7 }))
    }

    pub(crate) fn shape(&mut self, id: u32, name: u32, blocks: u32) -> &mut Self {
        self.launch_shape(id, name, [blocks, 1, 1], [128, 1, 1])
    }

    pub(crate) fn launch_shape(
        &mut self,
        id: u32,
        name: u32,
        grid: [u32; 3],
        block: [u32; 3],
    ) -> &mut Self {
        self.add(Record::Shape(Shape {
            id,
            name,
            grid,
            block,
            static_shared_bytes: 0,
            dynamic_shared_bytes: 4096,
            registers_per_thread: 64,
            local_bytes_per_thread: 0,
        }))
    }

    pub(crate) fn path(&mut self, id: u32, parent: u32, name: u32) -> &mut Self {
        self.add(Record::Path(RangePath { id, parent, name, domain: NONE }))
    }

    /// A path in a domain.
    pub(crate) fn path_in(&mut self, id: u32, parent: u32, name: u32, domain: u32) -> &mut Self {
        self.add(Record::Path(RangePath { id, parent, name, domain }))
    }

    pub(crate) fn open(&mut self, range: u64, path: u32, parent: u64, start: u64) -> &mut Self {
        self.continues(range, path, parent, start, 0)
    }

    pub(crate) fn continues(
        &mut self,
        range: u64,
        path: u32,
        parent: u64,
        start: u64,
        continues: u64,
    ) -> &mut Self {
        self.add(Record::RangeOpen(RangeOpen {
            range,
            path,
            thread: 1,
            parent,
            start: MonoNs(start),
            start_end: continues != 0,
            category: 0,
            payload: None,
            continues,
        }))
    }

    pub(crate) fn close(&mut self, range: u64, end: u64) -> &mut Self {
        self.add(Record::RangeClose { range, end: MonoNs(end) })
    }

    /// A kernel; its times are given on the clock of the ranges.
    pub(crate) fn kernel(
        &mut self,
        range: u64,
        shape: u32,
        queue: u32,
        times: (u64, u64),
    ) -> &mut Self {
        self.node(range, shape, queue, times, 0)
    }

    /// A kernel of a graph.
    pub(crate) fn node(
        &mut self,
        range: u64,
        shape: u32,
        queue: u32,
        (start, end): (u64, u64),
        graph_node: u64,
    ) -> &mut Self {
        let (start, end) = (gpu(start), gpu(end));
        let what = What::Kernel { shape };
        self.add(Record::Work(GpuWork {
            what,
            start,
            end,
            queue,
            range,
            correlation: 1,
            graph_node,
        }))
    }

    /// A kernel whose times CUPTI could not take.
    pub(crate) fn untimed(&mut self, range: u64, shape: u32, queue: u32) -> &mut Self {
        let kernel = GpuWork::new(What::Kernel { shape });
        self.add(Record::Work(GpuWork { queue, range, ..kernel }))
    }

    pub(crate) fn copy(
        &mut self,
        range: u64,
        kind: u8,
        bytes: u64,
        (start, end): (u64, u64),
    ) -> &mut Self {
        let (start, end) = (gpu(start), gpu(end));
        let copy = GpuWork::new(What::Copy { bytes, kind });
        self.add(Record::Work(GpuWork { start, end, queue: 1, range, ..copy }))
    }

    pub(crate) fn fill(&mut self, range: u64, bytes: u64, (start, end): (u64, u64)) -> &mut Self {
        let (start, end) = (gpu(start), gpu(end));
        let fill = GpuWork::new(What::Fill { bytes });
        self.add(Record::Work(GpuWork { start, end, queue: 1, range, ..fill }))
    }

    pub(crate) fn graph(&mut self, graph: u32, queue: u32, (start, end): (u64, u64)) -> &mut Self {
        let (start, end) = (gpu(start), gpu(end));
        let launch = GpuWork::new(What::Graph { graph });
        self.add(Record::Work(GpuWork { start, end, queue, correlation: 9, ..launch }))
    }

    pub(crate) fn flush(&mut self) -> &mut Self {
        self.flushes.push(self.records.len());
        self
    }

    pub(crate) fn end(&mut self) -> &mut Self {
        self.add(Record::End { reason: "exit".into() })
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new()).expect("a vector takes anything");
        for (i, record) in self.records.iter().enumerate() {
            if self.flushes.contains(&i) {
                writer.flush().expect("a vector takes anything");
            }
            writer.write(record);
        }
        writer.flush().expect("a vector takes anything");
        writer.into_sink()
    }

    pub(crate) fn save(&self, run_dir: &Path, file: &str) {
        let folder = run_dir.join("collector");
        std::fs::create_dir_all(&folder).expect("folder");
        std::fs::write(folder.join(file), self.bytes()).expect("spool");
    }
}

fn gpu(mono: u64) -> GpuNs {
    GpuNs(mono + GPU_AHEAD_NS)
}
