//! Sampling on one GPU: set up, started, stopped, and what it has brought.

use std::ffi::{CStr, CString};
use std::time::Duration;

use cupti_sys::pm_sampling::{Chip, Metrics, Session, Trigger};
use cupti_sys::{Api, CuptiError, bindings as sys};
use stage2_contract::settings::Counters;
use stage2_contract::trace::counters::{self, Names, SM_ACTIVE};
use stage2_contract::trace::{CounterSamples, CounterSet, GpuNs};

use crate::base::clock::Instant;

/// Length of a sample where none was named.
const INTERVAL_US: u32 = 100;
/// Samples become no longer than this by themselves.
const LONGEST_US: u32 = 10_000;
/// Cycles of the system clock that are taken for a microsecond where the chip has no trigger by time.
const CYCLES_PER_US: u64 = 1_500;
/// Room for what was not decoded yet. A sample of nine metrics of an H200 takes 32 to 64 KB.
const HARDWARE_BYTES: usize = 16 << 20;
/// Samples that are decoded at once, of 20 KB each on an H200.
const ROOM: u32 = 256;
/// Samples that lie no further apart follow each other.
const JITTER_NS: u64 = 1_000;
/// Samples that are handed on together.
const CHUNK: usize = 1024;
/// They are handed on after this time at the latest.
const CHUNK_AGE: Duration = Duration::from_secs(1);
/// How often the buffer may overflow before samples become twice as long.
const OVERFLOWS_PER_LENGTH: u32 = 2;
/// Samples become twice as long as well where gaps take a larger part of the time than one in so many:
/// CUPTI tells of no overflow then, and what it could not keep is missing. Gaps of an eighth come at the
/// end of the hardware's buffer, whatever the length.
const GAPS_PER_LENGTH: u64 = 4;

/// Why counters are not sampled, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub(super) String);

/// Sampling on one GPU.
pub(super) struct Device {
    session: Session<'static>,
    pub(super) set: CounterSet,
    /// Where [`SM_ACTIVE`] stands in the set: an idle GPU is identified by it.
    activity: Option<usize>,
    /// Where the last sample ended, ns; 0 before the first one after a pause.
    pub(super) last_end: u64,
    /// Where the last sample of the session before ended, ns, until there is one of this one.
    pub(super) lost_since: Option<u64>,
    /// The next sample began when sampling was off.
    is_first: bool,
    /// Full chunks, on their way to the drain thread: the thread that samples sends them after each look.
    pub(super) ready: Vec<CounterSamples>,
    chunk: CounterSamples,
    chunk_since: Instant,
    row: Vec<f64>,
    /// Gaps between the samples of the chunk, ns.
    gaps: u64,
    /// Gaps took too much of a chunk.
    is_behind: bool,
    pub(super) lost: Lost,
}

/// What of a GPU's samples did not reach the trace file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// How often the hardware's buffer was full.
    pub(super) overflows: u32,
    /// Time without samples while sampling was on, ns.
    pub(super) ns: u64,
    /// Samples for which there was no room on the way to the trace file.
    pub(super) samples: u64,
}

/// What [`Device::take`] has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// There were samples.
    pub(super) any: bool,
    /// Whether the GPU did something in one of them.
    pub(super) active: bool,
    /// The buffer was full, or much is missing: only a new session goes on as it should.
    pub(super) anew: Option<Anew>,
}

/// The length of samples, in us, of the session behind one that fell behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anew(pub(super) u32);

impl Device {
    /// Sets up sampling. Gives the metrics that were named and left out as well.
    pub(super) fn open(
        api: &'static Api,
        id: u32,
        wanted: &Counters,
        anew: Option<Anew>,
    ) -> Result<(Self, Vec<String>), Refusal> {
        let chip = api.chip(id).map_err(|error| reason(id, "describe the chip", error))?;
        let Some(Choice { metrics, names, left_out }) = choose(&chip, &wanted.metrics) else {
            return Err(Refusal(format!(
                "GPU {id}: CUPTI measures none of the metrics in one pass on {}; name others with \
                 STAGE2_COUNTERS",
                chip.name().to_string_lossy()
            )));
        };
        let interval_us = anew.map(|Anew(us)| us).or(wanted.interval_us).unwrap_or(INTERVAL_US);
        let by_time = chip.open(metrics, trigger(false, interval_us), HARDWARE_BYTES, ROOM);
        let by_cycles =
            by_time.as_ref().is_err_and(|error| error.code() == sys::CUPTI_ERROR_NOT_SUPPORTED);
        let session = if by_cycles {
            let all: Vec<&CStr> = names.iter().map(|name| name.as_c_str()).collect();
            let (metrics, _) =
                chip.metrics(&all).map_err(|error| reason(id, "choose metrics", error))?;
            chip.open(metrics, trigger(true, interval_us), HARDWARE_BYTES, ROOM)
        } else {
            by_time
        };
        let session = session.map_err(|error| reason(id, "take the counters", error))?;
        let set = CounterSet {
            id: 0,
            device: id,
            interval_ns: u64::from(interval_us) * 1000,
            metrics: names.iter().map(|name| name.to_string_lossy().into_owned()).collect(),
        };
        let device = Device {
            session,
            activity: names.iter().position(|name| SM_ACTIVE.contains(&name.as_c_str())),
            last_end: 0,
            lost_since: None,
            is_first: true,
            ready: Vec::new(),
            chunk: CounterSamples::default(),
            chunk_since: Instant::now(),
            row: vec![0.0; names.len()],
            set,
            gaps: 0,
            is_behind: false,
            lost: Lost::default(),
        };
        Ok((device, left_out))
    }

    pub(super) fn start(&mut self) -> Result<(), Refusal> {
        self.session.start().map_err(|error| self.refusal("start", error))?;
        // What lies between two times of sampling is a pause, and no loss.
        (self.is_first, self.last_end) = (true, 0);
        Ok(())
    }

    /// Stops, after which what was sampled can be taken once more.
    pub(super) fn stop(&mut self) -> Result<(), Refusal> {
        self.session.stop().map_err(|error| self.refusal("stop", error))
    }

    /// How long sampling may go on before it is taken from.
    pub(super) fn patience(&self) -> Duration {
        let room = Duration::from_nanos(self.set.interval_ns) * ROOM;
        (room * 7 / 10).clamp(Duration::from_millis(5), Duration::from_millis(100))
    }

    /// Takes in what was sampled. Chunks that are full or old enough become [`Device::ready`].
    pub(super) fn take(&mut self) -> Result<Taken, Refusal> {
        let mut taken = Taken::default();
        loop {
            let decoded = match self.session.decode() {
                Ok(decoded) => decoded,
                Err(error) if error.code() == sys::CUPTI_ERROR_OUT_OF_MEMORY => {
                    taken.anew = Some(self.overflowed());
                    return Ok(taken);
                }
                Err(error) => return Err(self.refusal("decode samples", error)),
            };
            taken.any |= decoded.samples > 0;
            for sample in 0..decoded.samples {
                let read = self.read(sample);
                taken.active |= read.map_err(|error| self.refusal("read a sample", error))?;
                if self.chunk.spans.len() >= CHUNK {
                    self.hand_on();
                }
            }
            self.session.clear().map_err(|error| self.refusal("clear samples", error))?;
            if decoded.overflowed {
                taken.anew = Some(self.overflowed());
                return Ok(taken);
            }
            if std::mem::take(&mut self.is_behind) {
                taken.anew = Some(self.anew(true)).filter(|Anew(us)| *us <= LONGEST_US);
                return Ok(taken);
            }
            if !decoded.is_full {
                break;
            }
        }
        if self.chunk_since.elapsed() >= CHUNK_AGE {
            self.hand_on();
        }
        Ok(taken)
    }

    /// Makes what is there [`Device::ready`].
    pub(super) fn hand_on(&mut self) {
        let gaps = std::mem::take(&mut self.gaps);
        if let [(start, _), .., (_, end)] = self.chunk.spans.as_slice() {
            self.is_behind |= gaps > end.0.saturating_sub(start.0) / GAPS_PER_LENGTH;
        }
        if !self.chunk.spans.is_empty() {
            self.chunk.set = self.set.id;
            self.ready.push(std::mem::take(&mut self.chunk));
        }
    }

    /// Forgets what was taken and not handed on.
    pub(super) fn forget(&mut self) {
        (self.chunk, self.last_end) = (CounterSamples::default(), 0);
    }

    /// Reads one sample; tells whether the GPU did something in it.
    fn read(&mut self, sample: usize) -> Result<bool, CuptiError> {
        let (start, end) = self.session.span_ns(sample)?;
        if std::mem::take(&mut self.is_first) || end <= start {
            return Ok(false);
        }
        // CUPTI's times of neighbours differ by up to 40 ns.
        let start = if start.abs_diff(self.last_end) < JITTER_NS { self.last_end } else { start };
        let gap = if self.last_end > 0 { start.saturating_sub(self.last_end) } else { 0 };
        // What was lost to the change of sessions says nothing of how this one keeps up.
        let before = self.lost_since.take().map_or(0, |since| start.saturating_sub(since));
        self.lost.ns = self.lost.ns.saturating_add(gap).saturating_add(before);
        self.gaps = self.gaps.saturating_add(gap);
        self.last_end = end;
        if self.chunk.spans.is_empty() {
            self.chunk_since = Instant::now();
        }
        self.session.values(sample, &mut self.row)?;
        let known =
            |value: &f64| if value.is_finite() && *value >= 0.0 { *value } else { f64::NAN };
        self.chunk.spans.push((GpuNs(start), GpuNs(end)));
        self.chunk.values.extend(self.row.iter().map(known));
        Ok(self.activity.is_none_or(|at| self.row.get(at).is_none_or(|active| *active > 0.0)))
    }

    /// The hardware's buffer was full.
    fn overflowed(&mut self) -> Anew {
        self.lost.overflows += 1;
        self.anew(self.lost.overflows.is_multiple_of(OVERFLOWS_PER_LENGTH))
    }

    /// A session for which the length is set a second time goes on with the first one (CUPTI 13.0), or
    /// does not start any more where there are two.
    fn anew(&self, longer: bool) -> Anew {
        let interval_us = u32::try_from(self.set.interval_ns / 1000).unwrap_or(LONGEST_US);
        let is_longer = longer && interval_us < LONGEST_US;
        Anew(if is_longer { interval_us.saturating_mul(2) } else { interval_us })
    }

    fn refusal(&self, what: &str, error: CuptiError) -> Refusal {
        reason(self.set.device, what, error)
    }
}

fn trigger(by_cycles: bool, interval_us: u32) -> Trigger {
    if by_cycles {
        Trigger::Cycles(u64::from(interval_us) * CYCLES_PER_US)
    } else {
        Trigger::TimeNs(u64::from(interval_us) * 1000)
    }
}

/// What it means here that CUPTI refused to do something.
fn reason(id: u32, what: &str, error: CuptiError) -> Refusal {
    let held = "another profiler samples its counters (a second collector, nsys, ncu or DCGM): stop that \
                one first";
    Refusal(match error.code() {
        sys::CUPTI_ERROR_INVALID_OPERATION => format!("GPU {id}: {held}"),
        sys::CUPTI_ERROR_NOT_SUPPORTED => format!(
            "GPU {id}: CUPTI samples no counters here (MIG, MPS, a virtual GPU, or a chip that cannot): \
             use a whole GPU without MPS"
        ),
        _ => format!("GPU {id}: CUPTI does not {what}: {error}"),
    })
}

/// What is asked for where nothing was named, the most important first. Of each line the first that the
/// chip has is taken: what CUPTI does not know it refuses.
const PREFERRED: &[Names] = &[
    counters::DRAM_READ,
    counters::DRAM_WRITE,
    counters::TENSOR,
    counters::SM_ACTIVE,
    counters::ISSUE,
    counters::L2_SECTORS,
    counters::PCIE_READ,
    counters::PCIE_WRITE,
    // No report reads it: it is for other readers of the trace file.
    counters::CYCLES,
    // GPUs without a neighbour have none.
    counters::NVLINK_RECEIVED,
    counters::NVLINK_SENT,
];

/// Metrics that were chosen, and those that were named but left out.
struct Choice {
    metrics: Metrics<'static>,
    names: Vec<CString>,
    left_out: Vec<String>,
}

/// Adds metric after metric, as long as one pass measures all. `named`: by the user; none: the preferred.
/// `None` where not one is measured.
fn choose(chip: &Chip<'static>, named: &[String]) -> Option<Choice> {
    let lines: Vec<Vec<CString>> = if named.is_empty() {
        PREFERRED.iter().map(|line| line.iter().map(|&name| name.to_owned()).collect()).collect()
    } else {
        named.iter().map(|name| CString::new(name.as_str()).into_iter().collect()).collect()
    };
    let mut choice: Option<(Metrics<'static>, Vec<CString>)> = None;
    let mut left_out = Vec::new();
    for line in lines {
        let before = choice.as_ref().map(|(_, names)| names.clone()).unwrap_or_default();
        let fitting = line.iter().find_map(|name| {
            let mut names = before.clone();
            names.push(name.clone());
            let all: Vec<&CStr> = names.iter().map(CString::as_c_str).collect();
            let (metrics, passes) = chip.metrics(&all).ok()?;
            (passes == 1).then_some((metrics, names))
        });
        match fitting {
            Some(fitting) => choice = Some(fitting),
            None => left_out.extend(line.first().map(|name| name.to_string_lossy().into_owned())),
        }
    }
    // What the chip does not have was not asked for by anybody, unless it was named.
    let left_out = if named.is_empty() { Vec::new() } else { left_out };
    choice.map(|(metrics, names)| Choice { metrics, names, left_out })
}
