//! Why nothing moves: what the drain thread knows of the GPU, what every thread of the guest does, and what NVML
//! says, as evidence. Whoever asked draws the conclusion.
//!
//! Each of the three may hang, so each is on a thread that may be left behind: the drain thread flushes CUPTI, and
//! a thread that ends afterwards looks at threads and asks NVML. This one waits for [`PATIENCE`] at most, and
//! answers with what is there by then.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use stage2_contract::control::Answer;
use stage2_contract::trace::HostState;

use super::Context;
use crate::base::clock::Instant;
use crate::base::futex::{self, Flag};
use crate::base::json::{List, Object};
use crate::base::options::Options;
use crate::base::{barrier, diag};
use crate::guest::gpu::GpuNow;
use crate::guest::state::{self, Phase};
use crate::guest::windows::Work;
use crate::host::Interpreter;
use crate::host::look::{self, Look, Seen};

/// The longest that evidence is waited for. The answer has to come within 2 s.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Between the two looks at the threads.
const BETWEEN: Duration = Duration::from_millis(200);
/// No further native stack is read after this time.
const NATIVES: Duration = Duration::from_millis(700);
/// Between two looks for the answer of the drain thread.
const STEP: Duration = Duration::from_millis(2);
/// The version of the evidence.
const VERSION: u32 = 1;

/// What the thread has found so far.
#[derive(Default)]
struct Found {
    memory: Option<String>,
    look: Option<Look>,
    gpus: Option<Result<Vec<GpuNow>, String>>,
    notes: Vec<String>,
    /// What it is at.
    step: &'static str,
}

#[derive(Default)]
struct Slot {
    found: Mutex<Found>,
    gpus_done: Flag,
    done: Flag,
}

/// The question that was asked last: its thread may not have come back.
#[derive(Default)]
pub(super) struct Asked {
    last: Option<(Arc<Slot>, Instant)>,
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Threads without native stacks, and NVML.
    Host,
    /// That, and work on the GPU: CUPTI is flushed by force where nothing ends.
    Work,
    Full,
}

/// What was found, for others as JSON.
pub(super) struct Evidence {
    pub(super) process: String,
    pub(super) work: Option<Work>,
    pub(super) gpus: Vec<String>,
    pub(super) threads: Vec<String>,
    pub(super) missing: Vec<String>,
    /// What the threads do, before it became JSON: the watch compares it with its last look.
    pub(super) look: Option<Look>,
    pub(super) readings: Vec<GpuNow>,
}

impl Evidence {
    /// All of it as one object, as the launcher reads it from a file.
    pub(super) fn to_json(&self, watch: &str) -> String {
        let list = |values: &[String]| {
            let mut list = List::new();
            values.iter().for_each(|value| list.push(value));
            list.end()
        };
        let mut object = Object::new()
            .value("version", VERSION)
            .text("watch", watch)
            .raw("process", &self.process)
            .raw("gpus", &list(&self.gpus))
            .raw("threads", &list(&self.threads))
            .texts("missing", self.missing.iter().map(String::as_str));
        if let Some(work) = &self.work {
            object = object.raw("work", &work.json);
        }
        object.end() + "\n"
    }
}

impl Asked {
    pub(super) fn answer(&mut self, context: &Context) -> Answer {
        let evidence = self.gather(context, Depth::Full);
        let mut answer = Answer::ok().with("evidence", VERSION).with("process", &evidence.process);
        answer = evidence.work.iter().fold(answer, |answer, work| answer.with("work", &work.json));
        answer = evidence.missing.iter().fold(answer, |answer, note| answer.with("missing", note));
        answer = evidence.gpus.iter().fold(answer, |answer, gpu| answer.with("gpu", gpu));
        evidence.threads.iter().fold(answer, |answer, thread| answer.with("thread", thread))
    }

    /// Collects evidence for [`PATIENCE`] at most.
    pub(super) fn gather(&mut self, context: &Context, depth: Depth) -> Evidence {
        let work = depth != Depth::Host;
        let begun = Instant::now();
        let mut missing = Vec::new();
        let shared = state::shared();
        let asked = shared.filter(|_| work).map(|shared| {
            let asked = shared.windows.ask_why();
            shared.wake_drain();
            (shared, asked)
        });
        let slot = self.slot(context, depth, &mut missing);
        if let Some(slot) = &slot
            && !slot.done.wait(PATIENCE)
        {
            let step = slot.found.try_lock_for(STEP).map_or("the allocator", |found| found.step);
            missing.push(format!("{step} has not come back within {} ms", PATIENCE.as_millis()));
        }
        let mut told = None;
        match asked {
            Some((shared, Ok(number))) => {
                told = shared.windows.why(number);
                while told.is_none() && begun.elapsed() < PATIENCE {
                    futex::nap(STEP);
                    told = shared.windows.why(number);
                }
                if told.is_none() {
                    missing.push(format!(
                        "work on the GPU: the thread that reads records has not answered within {} ms; it \
                         waits for CUPTI or for the disk",
                        PATIENCE.as_millis()
                    ));
                }
            }
            _ if work => missing.push(
                "work on the GPU: nothing is recorded, so no kernel has a name; a process that records \
                 (STAGE2_START=on, or `ctl start` before it stands still) tells"
                    .to_owned(),
            ),
            _ => {}
        }
        // A thread that hangs in the allocator may hold it.
        let found =
            slot.and_then(|slot| Some(std::mem::take(&mut *slot.found.try_lock_for(STEP)?)));
        let found = found.unwrap_or_default();
        missing.extend(found.notes);
        let look = found.look;
        let notes = look.iter().flat_map(|look| look.notes.iter().cloned());
        missing.extend(notes);
        if let Some(look) = look.as_ref().filter(|look| look.left_out > 0) {
            missing.push(format!("{} further threads", look.left_out));
        }
        let readings = match found.gpus {
            Some(Ok(readings)) => readings,
            Some(Err(why)) => {
                missing.push(format!("readings of the GPU: {why}"));
                Vec::new()
            }
            None => Vec::new(),
        };
        Evidence {
            process: process(found.memory, look.as_ref(), begun),
            work: told,
            gpus: readings.iter().map(gpu_json).collect(),
            threads: look.iter().flat_map(|look| &look.threads).map(thread_json).collect(),
            missing,
            look,
            readings,
        }
    }

    /// Starts the thread, unless the last one has not come back.
    fn slot(
        &mut self,
        context: &Context,
        depth: Depth,
        missing: &mut Vec<String>,
    ) -> Option<Arc<Slot>> {
        if let Some((last, since)) = &self.last
            && !last.done.is_set()
        {
            missing.push(format!(
                "an earlier look at this process has not come back for {} s ({}); there is no second one",
                since.elapsed().as_secs(),
                last.found.try_lock_for(STEP).map_or("the allocator", |found| found.step)
            ));
            return None;
        }
        let slot = Arc::new(Slot::default());
        let (of_thread, options) = (Arc::clone(&slot), context.options.clone());
        let (gpus, python) = (context.gpus, context.python);
        let thread = move || {
            let _counted = state::Server::counted();
            if let Err(panic) =
                barrier::own_thread(|| find(&of_thread, depth, (options, gpus, python)))
            {
                of_thread.found.lock().notes.push(panic.to_string());
            }
            of_thread.done.set();
        };
        match barrier::thread("stage2-why").spawn(thread) {
            Ok(_) => {
                self.last = Some((Arc::clone(&slot), Instant::now()));
                Some(slot)
            }
            Err(error) => {
                diag::debug(format_args!("no thread can be started ({error})"));
                missing.push(format!(
                    "threads and GPUs: no thread can be started ({error}); raise the limit of threads (ulimit -u) or of memory (ulimit -v)"
                ));
                None
            }
        }
    }
}

type Gpus = fn(&Options) -> Result<Vec<GpuNow>, String>;

/// The body of the thread. What comes first is known even if the rest hangs.
fn find(
    slot: &Arc<Slot>,
    depth: Depth,
    (options, gpus, python): (Options, Gpus, Option<Interpreter>),
) {
    let found = &slot.found;
    // NVML would be loaded into a process that has nothing to do with a GPU.
    let asks_nvml = state::cuda_seen();
    if asks_nvml {
        ask_nvml(slot, options, gpus);
    } else {
        let note = "readings of the GPU: the process has not initialised CUDA";
        found.lock().notes.push(note.to_owned());
    }
    found.lock().step = "the look at the threads";
    let tell = |look: &Look| found.lock().look = Some(look.clone());
    // The watch looks often, and the symbols of a large library take time.
    let natives = if depth == Depth::Full { NATIVES } else { Duration::ZERO };
    match look::look(python, (BETWEEN, natives), tell) {
        Ok(()) => {
            let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
            found.lock().memory = Some(status);
        }
        Err(why) => found.lock().notes.push(format!("threads: {why}")),
    }
    found.lock().step = "NVML";
    if asks_nvml {
        slot.gpus_done.wait(PATIENCE);
    }
}

/// Asks NVML on one more thread: the one that looks at threads has a table of descriptors of its own, without those
/// through which NVML talks to the driver if the program opened it before.
fn ask_nvml(slot: &Arc<Slot>, options: Options, gpus: Gpus) {
    let of_thread = Arc::clone(slot);
    let thread = move || {
        let _counted = state::Server::counted();
        let read = barrier::own_thread(|| gpus(&options));
        let read = read.unwrap_or_else(|panic| Err(panic.to_string()));
        of_thread.found.lock().gpus = Some(read);
        of_thread.gpus_done.set();
    };
    if let Err(error) = barrier::thread("stage2-nvml").spawn(thread) {
        slot.found.lock().gpus = Some(Err(format!("no thread can be started ({error})")));
        slot.gpus_done.set();
    }
}

fn process(status: Option<String>, look: Option<&Look>, begun: Instant) -> String {
    let status = status.unwrap_or_default();
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    let phase = match state::phase() {
        Phase::On => "on",
        Phase::Dormant => "dormant",
        Phase::Idle => "starting",
        _ => "ended",
    };
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let threads = look.map_or(0, |look| look.threads.len() as u64 + look.left_out);
    let mut object = Object::new()
        .value("pid", std::process::id())
        .text("phase", phase)
        .value("cuda", state::cuda_seen())
        .value("unix_ms", wall.as_millis())
        .value("took_ms", begun.elapsed().as_millis())
        .value("between_ms", look.map_or(0, |look| look.between_ns / 1_000_000))
        .value("threads", threads)
        .maybe("rss_kib", kib("VmRSS:"))
        .maybe("peak_rss_kib", kib("VmHWM:"))
        .maybe("swap_kib", kib("VmSwap:"));
    if let Some(shared) = state::shared() {
        let counters = &shared.counters;
        let records = counters.attributed.get() + counters.unattributed.get();
        object = object
            .value("window", shared.windows.standing().windows)
            .value("records", records)
            .value("untimed", counters.invalid_timestamps.get());
        let facts = shared.job_at_gpu_start.get().unwrap_or(&shared.job);
        if let Some(rank) = facts.rank() {
            object = object.value("rank", rank);
        }
    }
    object.end()
}

fn thread_json(seen: &Seen) -> String {
    let state = match seen.state {
        HostState::Unknown => "unknown",
        HostState::Running => "running",
        HostState::Runnable => "runnable",
        HostState::GilWait => "gil",
        HostState::Lock => "lock",
        HostState::Sleep => "sleep",
        HostState::Poll => "poll",
        HostState::Driver => "driver",
        HostState::Blocked => "blocked",
    };
    let mut object = Object::new()
        .value("tid", seen.tid)
        .text("name", &seen.name)
        .text("letter", &seen.letter.to_string())
        .text("state", state)
        .value("cpu_us", seen.cpu_ns / 1_000)
        .value("switches", seen.switches);
    if !seen.waits_in.is_empty() {
        object = object.text("waits_in", &seen.waits_in);
    }
    object = object.maybe("same_stack", seen.same_stack);
    if seen.holds_gil {
        object = object.value("holds_gil", true);
    }
    if seen.gil_holder != 0 {
        object = object.value("gil_holder", seen.gil_holder);
    }
    for (name, frames) in [("python", &seen.python), ("native", &seen.native)] {
        if !frames.is_empty() {
            object = object.texts(name, frames.iter().map(String::as_str));
        }
    }
    object.end()
}

fn gpu_json(gpu: &GpuNow) -> String {
    Object::new()
        .value("index", gpu.index)
        .text("uuid", &gpu.uuid)
        .maybe("own", gpu.is_own)
        .maybe("gpu_percent", gpu.gpu_percent)
        .maybe("memory_percent", gpu.memory_percent)
        .maybe("power_mw", gpu.power_mw)
        .maybe("power_limit_mw", gpu.power_limit_mw)
        .maybe("sm_clock_mhz", gpu.sm_clock_mhz)
        .maybe("memory_clock_mhz", gpu.memory_clock_mhz)
        .maybe("temperature_c", gpu.temperature_c)
        .maybe("clock_reasons", gpu.clock_reasons)
        .maybe("memory_used_bytes", Some(gpu.memory_used_bytes).filter(|bytes| *bytes > 0))
        .maybe("uncorrected_errors", gpu.uncorrected_errors)
        .maybe("busy_ms", gpu.busy_ms)
        .maybe("quiet_ms", gpu.quiet_ms)
        .end()
}
