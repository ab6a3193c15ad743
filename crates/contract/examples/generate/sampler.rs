//! The work of one GPU -> samples of its counters, as if every call of a kernel moved the same.

use std::fs::File;

use stage2_contract::trace::{
    CounterSamples, CounterSet, GpuNs, MAX_SAMPLES, Record, What, Writer,
};

use crate::GPU_AHEAD_NS;

/// What the collector samples on an H200, and the most that one ns adds to it: bytes or sectors, or
/// percent of the time.
const METRICS: [(&str, f64); 9] = [
    ("dram__bytes_read.sum", 3_000.0),
    ("dram__bytes_write.sum", 1_500.0),
    ("lts__t_sectors.sum", 250.0),
    ("pcie__read_bytes.sum", 0.5),
    ("pcie__write_bytes.sum", 0.5),
    ("nvlrx__bytes.sum", 0.5),
    ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 80.0),
    ("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", 95.0),
    ("sm__inst_executed.avg.pct_of_peak_sustained_elapsed", 60.0),
];
const WIDTH: usize = METRICS.len();

/// Samples of one GPU, one after the other, without a gap.
#[derive(Debug)]
pub(crate) struct Sampler {
    set: u32,
    interval_ns: u64,
    /// What a call of each shape moves, in the order of [`METRICS`]; a share times ns where they are
    /// percentages.
    amounts: Vec<[f64; WIDTH]>,
    /// Start of the sample that is open, and what it has so far.
    start: u64,
    open: [f64; WIDTH],
    full: CounterSamples,
    written: u64,
}

impl Sampler {
    /// Begins at `start`, ns of the GPU's clock. `durations` are those of a call of each shape, by
    /// [`stage2_contract::trace::Shape::id`] less 1.
    pub(crate) fn new(set: u32, interval_ns: u64, start: u64, durations: &[u64]) -> Self {
        let of_shape = |(shape, ns): (u64, &u64)| {
            let mut metric = 0;
            METRICS.map(|(_, most)| {
                metric += 1;
                most * *ns as f64 * share(shape * 64 + metric)
            })
        };
        let amounts = (1..).zip(durations).map(of_shape).collect();
        let full = CounterSamples { set, ..CounterSamples::default() };
        let open = [0.0; WIDTH];
        Self { set, interval_ns, amounts, start: GPU_AHEAD_NS + start, open, full, written: 0 }
    }

    /// Says what the samples are of.
    pub(crate) fn define(&self, device: u32, writer: &mut Writer<File>) {
        let metrics = METRICS.map(|(name, _)| name.to_owned()).to_vec();
        let interval_ns = self.interval_ns;
        writer.write(&Record::CounterSet(CounterSet {
            id: self.set,
            device,
            interval_ns,
            metrics,
        }));
    }

    /// Takes work, in the order of time, and writes the samples that end before it.
    pub(crate) fn work(&mut self, record: &Record, writer: &mut Writer<File>) {
        let Record::Work(work) = record else { return };
        let (mut from, end) = (work.start.0, work.end.0);
        let length = end.saturating_sub(from).max(1) as f64;
        let copied = |bytes: u64| {
            let mut amounts = [0.0; WIDTH];
            amounts[..2].fill(bytes as f64);
            amounts
        };
        let amounts = match work.what {
            What::Kernel { shape } => {
                self.amounts.get(shape as usize - 1).copied().unwrap_or_default()
            }
            What::Copy { bytes, .. } => copied(bytes),
            What::Fill { .. } | What::Graph { .. } => [0.0; WIDTH],
        };
        while from < end {
            while self.start + self.interval_ns <= from {
                self.close(writer);
            }
            let to = end.min(self.start + self.interval_ns);
            for (sum, amount) in self.open.iter_mut().zip(amounts) {
                *sum += amount * (to - from) as f64 / length;
            }
            from = to;
        }
    }

    /// Writes what is left; gives the number of all samples.
    pub(crate) fn end(&mut self, writer: &mut Writer<File>) -> u64 {
        self.close(writer);
        self.write(writer);
        self.written
    }

    fn close(&mut self, writer: &mut Writer<File>) {
        let end = self.start + self.interval_ns;
        self.full.spans.push((GpuNs(self.start), GpuNs(end)));
        let length = self.interval_ns as f64;
        let values = METRICS.iter().zip(self.open);
        self.full.values.extend(values.map(|((name, _), sum)| {
            if name.ends_with(".sum") { sum.round() } else { (sum / length).min(100.0) }
        }));
        (self.start, self.open) = (end, [0.0; WIDTH]);
        if self.full.spans.len() == MAX_SAMPLES {
            self.write(writer);
        }
    }

    fn write(&mut self, writer: &mut Writer<File>) {
        self.written += self.full.spans.len() as u64;
        let empty = CounterSamples { set: self.set, ..CounterSamples::default() };
        writer.write(&Record::CounterSamples(std::mem::replace(&mut self.full, empty)));
    }
}

/// A share of 0.1 to 0.9 that follows from `number` alone.
fn share(number: u64) -> f64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
    0.1 + (mixed >> 40) as f64 / (1_u64 << 24) as f64 * 0.8
}
