//! Sampled hardware counters: what each piece of work counts, and sampling of one device.
//!
//! A piece of work counts known amounts, spread evenly over the time that it runs. Pieces are known when
//! they are launched, before they run, so a sample of the past is never changed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::abi::{Outcome, cupti, refuse_if};
use crate::clock;
use crate::config::PmFaults;
use crate::record::Span;
use crate::recorded::{Kernel, Work};

pub(crate) const CHIP: &std::ffi::CStr = c"GH100";
/// `CUPTI_ERROR_UNKNOWN`.
const UNKNOWN: u32 = 999;
/// What one sample takes of the hardware's buffer, bytes, as on an H200.
const SAMPLE_BYTES: u64 = 40 << 10;
const METRICS_PER_PASS: usize = 12;
/// How long before now a sample has to end: work is noted just after it was queued.
const MARGIN_NS: u64 = 3_000_000;
/// Pieces of work that are kept: more than run within the longest buffer.
const PIECES: usize = 1 << 18;
/// Cycles of the multiprocessors in a microsecond.
const CYCLES_PER_US: f64 = 1980.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    DramRead,
    DramWrite,
    /// Percent of the time.
    Tensor,
    SmActive,
    Issue,
    L2Sectors,
    PcieRead,
    PcieWrite,
    Cycles,
    Duration,
}

/// Amounts that a piece of work counts, by [`Source`]; percentages times ns.
type Amounts = [f64; 8];

const METRICS: &[(&str, Source)] = &[
    ("dram__bytes_read.sum", Source::DramRead),
    ("dram__bytes_write.sum", Source::DramWrite),
    ("sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed", Source::Tensor),
    ("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", Source::SmActive),
    ("sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed", Source::Issue),
    ("lts__t_sectors.sum", Source::L2Sectors),
    ("pcie__read_bytes.sum", Source::PcieRead),
    ("pcie__write_bytes.sum", Source::PcieWrite),
    ("gpc__cycles_elapsed.max", Source::Cycles),
    ("gpu__time_duration.sum", Source::Duration),
    // It takes 19 passes on an H200.
    (MANY_PASSES, Source::SmActive),
];

const MANY_PASSES: &str = "sm__throughput.avg.pct_of_peak_sustained_elapsed";

pub(crate) fn metric(name: &str) -> Option<usize> {
    METRICS.iter().position(|(known, _)| *known == name)
}

pub(crate) fn passes(metrics: &[usize]) -> usize {
    let many = metric(MANY_PASSES).filter(|many| metrics.contains(many)).map_or(0, |_| 18);
    metrics.len().div_ceil(METRICS_PER_PASS).max(1) + many
}

pub(crate) fn is_metric(metric: usize) -> bool {
    metric < METRICS.len()
}

/// Bytes that a kernel reads from memory: 1 to 16 MB, by its name, its grid and its blocks.
fn kernel_read_bytes(kernel: &Kernel) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let shape = kernel.grid.iter().chain(&kernel.block).flat_map(|n| n.to_le_bytes());
    for byte in kernel.name.to_bytes().iter().copied().chain(shape) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    1_000_000 + hash % 15_000_000
}

pub(crate) fn read_bytes(work: &Work) -> u64 {
    match work {
        Work::Kernel(kernel) => kernel_read_bytes(kernel),
        &Work::Memcpy { bytes, copy_kind } if copy_kind != 1 => bytes,
        Work::Memcpy { .. } | Work::Memset { .. } => 0,
    }
}

fn amounts(work: &Work, span: &Span) -> Amounts {
    let ns = span.end_ns.saturating_sub(span.start_ns) as f64;
    match work {
        Work::Kernel(_) => {
            let read = read_bytes(work);
            let tensor = if read.is_multiple_of(2) { 20.0 } else { 0.0 };
            let read = read as f64;
            [read, read / 8.0, tensor * ns, 60.0 * ns, 10.0 * ns, read / 16.0, 0.0, 0.0]
        }
        // Host to device and back cross the bus.
        &Work::Memcpy { bytes, copy_kind } => {
            let bytes = bytes as f64;
            match copy_kind {
                1 => [0.0, bytes, 0.0, 0.0, 0.0, bytes / 32.0, bytes, 0.0],
                2 => [bytes, 0.0, 0.0, 0.0, 0.0, bytes / 32.0, 0.0, bytes],
                _ => [bytes, bytes, 0.0, 0.0, 0.0, bytes / 16.0, 0.0, 0.0],
            }
        }
        &Work::Memset { bytes, .. } => {
            let bytes = bytes as f64;
            [0.0, bytes, 0.0, 1.0 * ns, 0.0, bytes / 32.0, 0.0, 0.0]
        }
    }
}

/// The metrics of the profiler hosts; a handle is a place in this list plus 1.
pub(crate) type Hosts = Mutex<Vec<Vec<usize>>>;

/// A piece of work: when it runs, ns, and what it counts.
type Piece = (u64, u64, Amounts);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) values: Vec<f64>,
}

#[derive(Default)]
pub(crate) struct Sampling {
    /// Work is kept only while somebody may sample it.
    enabled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    session: Option<Session>,
    pieces: VecDeque<Piece>,
    decodings: u64,
    samples: u64,
}

#[derive(Default)]
struct Session {
    metrics: Vec<usize>,
    interval_ns: u64,
    samples_of_room: u64,
    /// Where the next sample begins.
    next_ns: u64,
    /// The next sample lasts until then and an interval more: it began before the start.
    first_until_ns: Option<u64>,
    running: bool,
    stopped_ns: u64,
}

impl Sampling {
    pub(crate) fn note(&self, work: &Work, span: &Span) {
        if self.enabled.load(Ordering::Relaxed) {
            let mut state = self.state.lock();
            state.pieces.push_back((span.start_ns, span.end_ns, amounts(work, span)));
            if state.pieces.len() > PIECES {
                state.pieces.pop_front();
            }
        }
    }

    /// Takes the counters; refused while somebody has them.
    pub(crate) fn enable(&self) -> Outcome {
        let mut state = self.state.lock();
        refuse_if(state.session.is_some(), cupti::INVALID_OPERATION)?;
        state.session = Some(Session::default());
        self.enabled.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn disable(&self) -> Outcome {
        let mut state = self.state.lock();
        state.session.take().ok_or(cupti::INVALID_OPERATION)?;
        state.pieces.clear();
        self.enabled.store(false, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn is_enabled(&self) -> Outcome {
        self.state.lock().session.as_ref().map(|_| ()).ok_or(cupti::INVALID_OPERATION)
    }

    pub(crate) fn configure(&self, metrics: Vec<usize>, interval_ns: u64, room: u64) -> Outcome {
        let mut state = self.state.lock();
        let session = state.session.as_mut().ok_or(cupti::INVALID_OPERATION)?;
        refuse_if(session.running || interval_ns == 0, cupti::INVALID_PARAMETER)?;
        *session = Session {
            metrics,
            interval_ns,
            samples_of_room: room / SAMPLE_BYTES,
            next_ns: clock::now_ns(),
            ..Session::default()
        };
        Ok(())
    }

    pub(crate) fn run(&self, on: bool) -> Outcome {
        let mut state = self.state.lock();
        let session = state.session.as_mut().ok_or(cupti::INVALID_OPERATION)?;
        refuse_if(session.running == on || session.interval_ns == 0, cupti::INVALID_OPERATION)?;
        session.running = on;
        session.stopped_ns = clock::now_ns();
        if on {
            session.first_until_ns = Some(session.stopped_ns);
        }
        Ok(())
    }

    pub(crate) fn width(&self) -> usize {
        self.state.lock().session.as_ref().map_or(0, |session| session.metrics.len())
    }

    /// Samples that are done, at most `room`. The first one after a start began when the session was
    /// configured or stopped before.
    pub(crate) fn decode(&self, room: usize, seed: u64, faults: &PmFaults) -> Outcome<Vec<Sample>> {
        let mut state = self.state.lock();
        let State { session, pieces, decodings, samples } = &mut *state;
        let session = session.as_mut().ok_or(cupti::INVALID_OPERATION)?;
        *decodings += 1;
        refuse_if(*decodings == faults.break_at, UNKNOWN)?;
        let running = clock::now_ns().saturating_sub(MARGIN_NS);
        let until = if session.running { running } else { session.stopped_ns };
        let since = session.first_until_ns.unwrap_or_default().max(session.next_ns);
        let waiting = until.saturating_sub(since) / session.interval_ns.max(1);
        let forced = faults.overflow_every > 0 && decodings.is_multiple_of(faults.overflow_every);
        if forced || waiting > session.samples_of_room {
            session.next_ns = until;
            return Err(cupti::OUT_OF_MEMORY);
        }
        let mut spans = Vec::new();
        while spans.len() < room {
            let start = session.next_ns;
            let first = session.first_until_ns.unwrap_or(start);
            let end = first.saturating_add(session.interval_ns);
            if end > until {
                break;
            }
            session.first_until_ns = None;
            let stretch = end / 1_000_000 / faults.gaps_ms.max(1);
            if faults.gaps_ms == 0 || stretch.is_multiple_of(2) {
                spans.push((start, end));
            }
            session.next_ns = end;
        }
        let number = *samples;
        *samples += spans.len() as u64;
        let metrics = session.metrics.clone();
        let next_ns = session.next_ns;
        let of_them: Vec<Piece> =
            pieces.iter().filter(|(from, ..)| *from < next_ns).copied().collect();
        // Pieces lie in about the order of time; a long one holds those behind it for a while.
        while pieces.front().is_some_and(|(_, end, _)| *end < next_ns) {
            pieces.pop_front();
        }
        // Launches wait for the lock.
        drop(state);
        let noisy = |(place, span): (usize, (u64, u64))| {
            let number = number + place as u64 + 1;
            let mut values = values(&metrics, &of_them, span, faults);
            for (column, value) in values.iter_mut().enumerate() {
                let noise =
                    clock::jitter(1_000_000, seed, number * 64 + column as u64) as f64 / 1e6;
                // 2 % either way is what durations have; half of it is enough.
                *value *= 1.0 + (noise - 1.0) / 2.0;
            }
            if faults.nan_every > 0 && number.is_multiple_of(faults.nan_every) {
                values.fill(f64::NAN);
            }
            Sample { start_ns: span.0, end_ns: span.1, values }
        };
        Ok(spans.into_iter().enumerate().map(noisy).collect())
    }
}

fn values(
    metrics: &[usize],
    pieces: &[Piece],
    (start, end): (u64, u64),
    faults: &PmFaults,
) -> Vec<f64> {
    let mut sums = Amounts::default();
    let length = end.saturating_sub(start) as f64;
    for &(from, to, amounts) in pieces {
        let shared = to.min(end).saturating_sub(from.max(start)) as f64;
        if shared > 0.0 {
            let part = shared / (to - from) as f64;
            sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount * part);
        }
    }
    sums[Source::DramRead as usize] += faults.other_bytes_per_us as f64 * length / 1e3;
    let value = |source: Source| match source {
        Source::Tensor | Source::SmActive | Source::Issue => {
            (sums[source as usize] / length).min(100.0)
        }
        Source::Cycles => length / 1e3 * CYCLES_PER_US,
        Source::Duration => length,
        other => sums[other as usize],
    };
    metrics.iter().filter_map(|&metric| Some(value(METRICS.get(metric)?.1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILL: Work = Work::Memset { bytes: 3_200, value: 0 };

    fn span(start_ns: u64, end_ns: u64) -> Span {
        Span { start_ns, end_ns, stream_id: 7, correlation_id: 1 }
    }

    #[test]
    fn work_on_the_edge_of_a_sample_is_split_by_time_and_streams_add_up() {
        let write = metric("dram__bytes_write.sum").expect("known");
        let piece = |start, end| (start, end, amounts(&FILL, &span(start, end)));
        let pieces = [piece(50, 150), piece(100, 200), piece(400, 500)];
        let sum = |from, to| values(&[write], &pieces, (from, to), &PmFaults::default())[0];
        assert_eq!((sum(0, 100), sum(100, 200), sum(200, 300)), (1_600.0, 4_800.0, 0.0));
        assert_eq!(sum(0, 1_000), 9_600.0);
    }

    #[test]
    fn one_session_has_the_counters() {
        let sampling = Sampling::default();
        assert_eq!(sampling.run(true), Err(cupti::INVALID_OPERATION));
        assert_eq!(sampling.enable(), Ok(()));
        assert_eq!(sampling.enable(), Err(cupti::INVALID_OPERATION));
        assert_eq!(sampling.configure(vec![0], 0, 1 << 20), Err(cupti::INVALID_PARAMETER));
        assert_eq!(sampling.configure(vec![0], 100_000, 16 << 20), Ok(()));
        assert_eq!(sampling.run(true), Ok(()));
        assert_eq!(sampling.run(true), Err(cupti::INVALID_OPERATION));
        assert_eq!((sampling.run(false), sampling.disable()), (Ok(()), Ok(())));
        assert_eq!(sampling.disable(), Err(cupti::INVALID_OPERATION));
    }

    #[test]
    fn samples_follow_each_other_and_a_full_buffer_is_an_error() {
        let sampling = Sampling::default();
        let faults = PmFaults::default();
        sampling.enable().expect("free");
        sampling.configure(vec![0], 1_000_000, 16 << 20).expect("configured");
        sampling.run(true).expect("started");
        std::thread::sleep(std::time::Duration::from_millis(20));
        let samples = sampling.decode(8, 1, &faults).expect("room");
        assert_eq!(samples.len(), 8);
        assert!(samples.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns));
        let faults = PmFaults { overflow_every: 1, ..faults };
        assert_eq!(sampling.decode(8, 1, &faults).err(), Some(cupti::OUT_OF_MEMORY));
    }
}
