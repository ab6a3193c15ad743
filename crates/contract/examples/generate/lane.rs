//! One device and the thread that feeds it -> ranges, and the work launched in them.

use std::fs::File;

use stage2_contract::trace::{GpuNs, GpuWork, MonoNs, RangeOpen, Record, What, Writer};

use crate::recorded::{Op, Recorded, Work};
use crate::{GPU_AHEAD_NS, Nodes, OPS_PER_LAYER, REPLAY};

/// The sequences, in the order in which their stages come around.
const CYCLE: [usize; 8] = [0, 1, 1, 2, 1, 1, 2, 1];
/// From the launch of work to its start, ns.
const LAUNCH_NS: u64 = 20_000;

/// A range that is open.
#[derive(Clone, Copy, Debug)]
struct Open {
    range: u64,
    /// Its place in the paths of the stage.
    node: usize,
}

/// A thread, its queue (of the same number), and how far both are.
#[derive(Debug)]
pub(crate) struct Lane {
    thread: u32,
    random: u64,
    /// Monotonic time at which the last work ended.
    now: u64,
    correlation: u64,
    /// Steps that were begun.
    steps: usize,
    stage: usize,
    /// Next operation of the sequence.
    at: usize,
    /// The next range of the stage.
    node: usize,
    open: Vec<Open>,
}

impl Lane {
    /// A thread that did nothing yet.
    pub(crate) fn new(thread: u32, seed: u64) -> Self {
        let now = 1_000_000;
        let (correlation, steps, stage, at, node) = (100, 0, 0, 0, 0);
        Self { thread, random: seed, now, correlation, steps, stage, at, node, open: Vec::new() }
    }

    /// When the last work ended.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Closes what is open.
    pub(crate) fn end(&mut self, writer: &mut Writer<File>) {
        self.close_to(0, writer);
    }

    /// Opens the next range and runs `size` kernels in it, or a whole replay; gives their number.
    pub(crate) fn range(
        &mut self,
        nodes: &Nodes,
        recorded: &Recorded,
        size: u64,
        next_range: &mut u64,
        writer: &mut Writer<File>,
        work: &mut Vec<Record>,
    ) -> u64 {
        if self.node == nodes.stages[self.stage].len() || self.open.is_empty() {
            self.close_to(0, writer);
            self.stage = CYCLE[self.steps % CYCLE.len()];
            self.steps += 1;
            (self.at, self.node) = (0, 0);
            self.correlation += 1;
        }
        // A layer closes the one before, an operation the one before it.
        let depth = match self.node {
            0 => 0,
            node if (node - 1).is_multiple_of(OPS_PER_LAYER + 1) => 1,
            _ => 2,
        };
        self.close_to(depth, writer);
        let parent = self.open.last().map_or(0, |open| open.range);
        let (range, path) = (*next_range, nodes.stages[self.stage][self.node]);
        *next_range += 1;
        self.now += 1_000;
        writer.write(&Record::RangeOpen(RangeOpen {
            range,
            path,
            thread: self.thread,
            parent,
            start: MonoNs(self.now - LAUNCH_NS),
            ..RangeOpen::default()
        }));
        self.open.push(Open { range, node: self.node });
        self.node += 1;
        self.run(recorded, range, size, work)
    }

    fn run(&mut self, recorded: &Recorded, range: u64, size: u64, work: &mut Vec<Record>) -> u64 {
        let sequence: &[Op] = &recorded.sequences[self.stage];
        let grid = (self.steps / CYCLE.len()) as u32;
        let replay = self.stage == REPLAY;
        let mut kernels = 0;
        while kernels < size || (replay && self.at > 0) {
            let op = sequence[self.at];
            let graph_node = if replay { (7 << 32) + self.at as u64 } else { 0 };
            self.at = (self.at + 1) % sequence.len();
            // All work of a replay has the number of its launch.
            self.correlation += if replay { 0 } else { 3 + self.draw() % 4 };
            let start = self.now + op.gap_ns;
            self.now = start + self.varied(op.duration_ns);
            let (start, end) = (GpuNs(GPU_AHEAD_NS + start), GpuNs(GPU_AHEAD_NS + self.now));
            let (queue, correlation) = (self.thread, self.correlation);
            let what = match op.work {
                Work::Kernel(shape) => What::Kernel { shape: recorded.with_grid(shape, grid) },
                Work::Copy(bytes, kind) => What::Copy { bytes, kind },
                Work::Fill(bytes) => What::Fill { bytes },
            };
            let done = GpuWork { what, start, end, queue, range, correlation, graph_node };
            kernels += u64::from(done.is_kernel());
            work.push(Record::Work(done));
        }
        kernels
    }

    fn close_to(&mut self, depth: usize, writer: &mut Writer<File>) {
        while self.open.len() > depth
            && let Some(Open { range, node }) = self.open.pop()
        {
            // What is outside closes a little later.
            let end = MonoNs(self.now - LAUNCH_NS + 100 * u64::from(node == 0));
            writer.write(&Record::RangeClose { range, end });
        }
    }

    fn varied(&mut self, ns: u64) -> u64 {
        let draw = self.draw();
        if draw.is_multiple_of(1_000) { ns * 8 } else { ns * (960 + (draw >> 32) % 141) / 1_000 }
    }

    /// The next pseudo-random number (splitmix64).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
