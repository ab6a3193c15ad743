//! One number of a job, as large as asked for -> a folder of trace files, for measuring how reports grow.
//!
//! `cargo run --release -p stage2-contract --example grow -- DIR WHAT N`, where WHAT is
//! `ranks` (N processes of 100 decode steps, each step with 8 collectives that all ranks meet at),
//! `kernel-names` (one process, two launches of each of N kernels), or
//! `range-names` (two processes, each with N ranges `request-HASH-NUMBER` of one kernel).
//! Kernels by their number alone: see the example `generate`. The same words give the same bytes.

use std::error::Error;
use std::fs::{self, File};
use std::path::Path as Folder;
use std::process::ExitCode;

use stage2_contract::trace::{
    Anchor, Device, Field, FieldValue, GpuNs, GpuWork, MonoNs, Path, Process, Queue, RangeOpen,
    Record, Shape, WallNs, What, Writer, file_name,
};

/// The GPU's clock against the monotonic one, ns.
const GPU_AHEAD_NS: u64 = 1_789_000_000_000_000_000;
const US: u64 = 1_000;
const STEPS: u64 = 100;
const COLLECTIVES_PER_STEP: u64 = 8;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match grow(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("grow: {error}");
            ExitCode::FAILURE
        }
    }
}

fn grow(words: &[String]) -> Result<(), Box<dyn Error>> {
    let [folder, what, number] = words else {
        return Err("give DIR, WHAT (ranks, kernel-names, range-names) and N".into());
    };
    let (folder, number): (_, u32) = (Folder::new(folder), number.parse()?);
    fs::create_dir_all(folder)?;
    match what.as_str() {
        "ranks" => (0..number).try_for_each(|rank| Traced::new(folder, rank)?.rank(rank, number)),
        "kernel-names" => Traced::new(folder, 0)?.kernel_names(number),
        "range-names" => (0..2).try_for_each(|of| Traced::new(folder, of)?.range_names(of, number)),
        _ => Err(format!("{what}: give ranks, kernel-names or range-names").into()),
    }
}

/// A process with one thread and one queue, and how far it is.
struct Traced {
    writer: Writer<File>,
    now: u64,
    ranges: u64,
    names: u32,
}

impl Traced {
    /// Eight processes share a host, each with a GPU of its own.
    fn new(folder: &Folder, number: u32) -> Result<Self, Box<dyn Error>> {
        let (host, pid) = (format!("node-{:03}", number / 8), 1_000 + number);
        let writer = Writer::new(File::create_new(folder.join(file_name(&host, pid)))?)?;
        let mut traced = Self { writer, now: 1_000_000, ranges: 0, names: 0 };
        traced.writer.write(&Record::Process(Process {
            pid,
            ppid: 1,
            host,
            exe: "/usr/bin/python3".into(),
            argv: vec!["python3".into(), "grown".into()],
            collector: "grown".into(),
        }));
        traced.anchor();
        let mut uuid = [1; 16];
        uuid[..4].copy_from_slice(&number.to_le_bytes());
        traced.writer.write(&Record::Device(Device {
            id: number % 8,
            name: b"NVIDIA H200".to_vec(),
            multiprocessors: 132,
            compute_capability: (9, 0),
            memory_bytes: 141 << 30,
            bandwidth_kb_per_s: 4_800_000_000,
            core_clock_khz: 1_980_000,
            l2_bytes: 50 << 20,
            uuid,
        }));
        traced.writer.write(&Record::Queue(Queue {
            id: 1,
            device: number % 8,
            context: 1,
            stream: 7,
        }));
        traced.writer.write(&Record::Thread { id: 1, os_tid: 4_001, name: b"main".to_vec() });
        Ok(traced)
    }

    fn rank(mut self, rank: u32, ranks: u32) -> Result<(), Box<dyn Error>> {
        for (key, value) in
            [("env.RANK", rank), ("env.LOCAL_RANK", rank % 8), ("env.WORLD_SIZE", ranks)]
        {
            self.writer.write(&Record::Meta { key: key.into(), value: value.to_string() });
        }
        let nccl = self.name("NCCL");
        let (decode, reduce, init) = (
            self.path("decode", 0),
            self.path("ncclAllReduce", nccl),
            self.path("ncclCommInitRankConfig", nccl),
        );
        let (gemm, nccl_kernel) =
            (self.shape("gemm"), self.shape("ncclDevKernel_AllReduce_Sum_bf16_RING_LL"));
        let fields = ["Message size [bytes]", "NCCL communicator ID", "No. of ranks", "Rank"];
        let [bytes, communicator, size, number] = fields.map(|field| self.name(field));
        let begun = self.open(init, 0);
        self.fields(begun, &[(communicator, 0xfeed), (size, ranks.into()), (number, rank.into())]);
        self.close(begun);
        for step in 0..STEPS {
            let decoding = self.open(decode, 0);
            for layer in 0..COLLECTIVES_PER_STEP {
                // Each rank comes at a time of its own; the collective ends in all of them at once.
                let own = (u64::from(rank) * 7_919 + step * 31 + layer) % 900;
                let (start, end) = (self.now, self.now + 60 * US);
                self.kernel(decoding, gemm, start, start + 30 * US + own);
                let reducing = self.open(reduce, decoding);
                self.fields(reducing, &[(bytes, 16_384), (communicator, 0xfeed)]);
                self.close(reducing);
                self.kernel(decoding, nccl_kernel, start + 31 * US + own, end);
                self.now = end + 2 * US;
            }
            self.close(decoding);
            self.now += 20 * US;
        }
        self.end()
    }

    fn kernel_names(mut self, names: u32) -> Result<(), Box<dyn Error>> {
        let decode = self.path("decode", 0);
        let kernels: Vec<u32> =
            (0..names).map(|n| self.shape(&format!("triton_poi_fused_{n}"))).collect();
        for step in kernels.chunks(1_000).chain(kernels.chunks(1_000)) {
            let decoding = self.open(decode, 0);
            for &kernel in step {
                self.kernel(decoding, kernel, self.now, self.now + 3 * US);
                self.now += 5 * US;
            }
            self.close(decoding);
        }
        self.end()
    }

    fn range_names(mut self, process: u32, names: u32) -> Result<(), Box<dyn Error>> {
        let kernel = self.shape("gemm");
        for name in 0..names {
            let hash = (process * names + name).wrapping_mul(2_654_435_761);
            let path = self.path(&format!("request-{hash:08x}-{name}"), 0);
            let request = self.open(path, 0);
            self.kernel(request, kernel, self.now, self.now + 2 * US);
            self.now += 3 * US;
            self.close(request);
        }
        self.end()
    }

    fn anchor(&mut self) {
        let (gpu, mono) = (GpuNs(self.now + GPU_AHEAD_NS), MonoNs(self.now));
        self.writer.write(&Record::Anchor(Anchor { gpu, mono, wall: WallNs(self.now) }));
    }

    fn name(&mut self, text: &str) -> u32 {
        self.names += 1;
        self.writer.write(&Record::Name { id: self.names, bytes: text.into() });
        self.names
    }

    /// An outermost range's path. Its number is that of its name.
    fn path(&mut self, name: &str, domain: u32) -> u32 {
        let name = self.name(name);
        self.writer.write(&Record::Path(Path { id: name, parent: 0, name, domain }));
        name
    }

    /// A kernel's shape. Its number is that of its name.
    fn shape(&mut self, name: &str) -> u32 {
        let name = self.name(name);
        let (grid, block) = ([1 + name % 500, 1, 1], [128, 1, 1]);
        self.writer.write(&Record::Shape(Shape {
            id: name,
            name,
            grid,
            block,
            ..Shape::default()
        }));
        name
    }

    fn open(&mut self, path: u32, parent: u64) -> u64 {
        self.ranges += 1;
        let (range, start) = (self.ranges, MonoNs(self.now));
        self.writer.write(&Record::RangeOpen(RangeOpen {
            range,
            path,
            thread: 1,
            parent,
            start,
            ..RangeOpen::default()
        }));
        self.now += 1;
        range
    }

    fn close(&mut self, range: u64) {
        self.writer.write(&Record::RangeClose { range, end: MonoNs(self.now) });
        self.now += 1;
    }

    fn fields(&mut self, range: u64, fields: &[(u32, u64)]) {
        let fields =
            fields.iter().map(|&(name, value)| Field { name, value: FieldValue::U64(value) });
        self.writer.write(&Record::RangeFields { range, fields: fields.collect() });
    }

    fn kernel(&mut self, range: u64, shape: u32, start: u64, end: u64) {
        let (start, end) = (GpuNs(start + GPU_AHEAD_NS), GpuNs(end + GPU_AHEAD_NS));
        let correlation = self.ranges + start.0 / 7;
        let kernel = What::Kernel { shape };
        self.writer.work(&GpuWork {
            start,
            end,
            queue: 1,
            range,
            correlation,
            ..GpuWork::new(kernel)
        });
    }

    fn end(mut self) -> Result<(), Box<dyn Error>> {
        self.anchor();
        self.writer.write(&Record::End { reason: "exit".into() });
        Ok(self.writer.flush()?)
    }
}
