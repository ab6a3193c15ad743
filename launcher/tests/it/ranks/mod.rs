//! Captures of several ranks in, who waited for whom out; and short words for the captures of a synthetic job.

mod hosts;
mod late;
mod matching;

use std::path::Path;

use crate::common::trace::{Build, GPU_AHEAD_NS, RunFolder};
use stage2_contract::trace::{
    Anchor, Field, FieldValue, GpuNs, MonoNs, NONE, RANGE_OUTSIDE, Record, WallNs,
};
use stage2_model::{CollectiveRow, Report};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Names and paths of ranges of NCCL, by their identifiers.
const ALL_REDUCE: u32 = 11;
const ALL_GATHER: u32 = 12;
const BROADCAST: u32 = 13;
const GROUP_START: u32 = 14;
const GROUP_END: u32 = 15;
const INIT: u32 = 16;
const SEND: u32 = 17;
const RECV: u32 = 18;
const NAMES: [(u32, &[u8]); 16] = [
    (1, b"decode"),
    (2, b"gemm_kernel"),
    (3, b"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    (4, b"NCCL"),
    (ALL_REDUCE, b"ncclAllReduce"),
    (ALL_GATHER, b"ncclAllGather"),
    (BROADCAST, b"ncclBroadcast"),
    (GROUP_START, b"ncclGroupStart"),
    (GROUP_END, b"ncclGroupEnd"),
    (INIT, b"ncclCommInitRankConfig"),
    (SEND, b"ncclSend"),
    (RECV, b"ncclRecv"),
    (20, b"Message size [bytes]"),
    (21, b"NCCL communicator ID"),
    (22, b"No. of ranks"),
    (23, b"Rank"),
];
/// The shape of the communication kernel.
const COMMUNICATE: u32 = 2;

struct Rank {
    b: Build,
    pid: u32,
    host: String,
    next: u64,
    /// The stage instance that is open.
    stage: u64,
}

impl Rank {
    /// Rank `rank` of `world` on `node-1`.
    fn new(rank: u32, world: u32) -> Self {
        let mut one = Self::on("node-1", 100 + rank, rank);
        one.b.anchor(1).anchor(50 * MS).anchor(100 * MS);
        let text = |number: u32| number.to_string();
        one.b.meta("env.RANK", &text(rank)).meta("env.LOCAL_RANK", &text(rank));
        one.b.meta("env.WORLD_SIZE", &text(world));
        one
    }

    /// A process without a rank and without clock readings.
    fn on(host: &str, pid: u32, gpu: u32) -> Self {
        let mut b = Build::process(pid, "python3");
        if let Some(Record::Process(process)) = b.records.first_mut() {
            process.host = host.to_owned();
        }
        for (id, name) in NAMES {
            b.name(id, name);
        }
        b.device(gpu, "NVIDIA H200", (gpu as u8).wrapping_mul(16) | 1).queue(1, gpu);
        b.shape(1, 2, 132).shape(COMMUNICATE, 3, 24).path(1, NONE, 1);
        let ranges = [ALL_REDUCE, ALL_GATHER, BROADCAST, GROUP_START, GROUP_END, INIT, SEND, RECV];
        for name in ranges {
            b.path_in(name, 1, name, 4);
        }
        Self { b, pid, host: host.to_owned(), next: 1, stage: RANGE_OUTSIDE }
    }

    /// Clock readings of a host whose monotonic clock began elsewhere and whose wall clock is wrong.
    fn clocks(&mut self, mono_shift: u64, wall_error: u64) -> &mut Self {
        for at in [1, 50 * MS, 100 * MS] {
            self.b.add(Record::Anchor(Anchor {
                gpu: GpuNs(at + mono_shift + GPU_AHEAD_NS),
                mono: MonoNs(at + mono_shift),
                wall: WallNs(1_700_000_000_000_000_000 + at + wall_error),
            }));
        }
        self
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn communicator(&mut self, hash: u64, members: u64, rank: u64) -> &mut Self {
        let range = self.number();
        self.b.open(range, INIT, RANGE_OUTSIDE, 1);
        self.fields(range, &[(21, hash), (22, members), (23, rank)]);
        self.b.close(range, 2);
        self
    }

    fn fields(&mut self, range: u64, fields: &[(u32, u64)]) {
        let field = |&(name, value)| Field { name, value: FieldValue::U64(value) };
        self.b.add(Record::RangeFields { range, fields: fields.iter().map(field).collect() });
    }

    fn decode(&mut self, start: u64) -> &mut Self {
        self.stage = self.number();
        self.b.open(self.stage, 1, RANGE_OUTSIDE, start);
        self
    }

    /// It is one of a sample, or is not.
    fn sampled(&mut self, recorded: bool) -> &mut Self {
        self.b.add(Record::RangeSample { range: self.stage, recorded });
        self
    }

    fn done(&mut self, end: u64) -> &mut Self {
        self.b.close(self.stage, end);
        self
    }

    /// A matrix product in the stage.
    fn gemm(&mut self, times: (u64, u64)) -> &mut Self {
        self.b.kernel(self.stage, 1, 1, times);
        self
    }

    /// A range of NCCL without kernels of its own; gives its number.
    fn call(&mut self, name: u32, bytes: Option<u64>, hash: Option<u64>) -> u64 {
        let range = self.number();
        self.b.open(range, name, self.stage, 3);
        let fields = [(20, bytes), (21, hash)];
        let fields: Vec<(u32, u64)> =
            fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        if !fields.is_empty() {
            self.fields(range, &fields);
        }
        self.b.close(range, 4);
        range
    }

    /// A collective with its kernel.
    fn collective(
        &mut self,
        name: u32,
        bytes: Option<u64>,
        hash: Option<u64>,
        times: (u64, u64),
    ) -> &mut Self {
        let range = self.call(name, bytes, hash);
        self.b.kernel(range, COMMUNICATE, 1, times);
        self
    }

    /// A communication kernel in a range, or in none of NCCL's.
    fn kernel(&mut self, range: Option<u64>, times: (u64, u64), node: u64) -> &mut Self {
        self.b.node(range.unwrap_or(self.stage), COMMUNICATE, 1, times, node);
        self
    }

    fn save(&mut self, run_dir: &Path) {
        let file = format!("{}-{}.s2t", self.host, self.pid);
        self.b.end().save(run_dir, &file);
    }
}

/// What is made of the captures, and of every page by its name.
fn report(ranks: &mut [Rank]) -> (Report, impl Fn(&str) -> String + use<>) {
    let folder = RunFolder::new();
    ranks.iter_mut().for_each(|rank| rank.save(&folder.path("")));
    (folder.report(), move |name: &str| folder.text(name))
}

/// Calls that are matched with none, and why.
fn why(row: &CollectiveRow) -> Vec<(u64, &str)> {
    row.unmatched.iter().map(|unmatched| (unmatched.calls, unmatched.why.as_str())).collect()
}
