//! Notices that nothing moves, and records why, once.
//!
//! It works on the thread of the control socket, which otherwise sleeps. While records come in, it compares two
//! numbers a few times in each period. Where none have come for half a period, or nothing is recorded, it looks at
//! the threads and at NVML. What stands is told when it has stood for a whole period.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::why::{Asked, Depth, Evidence};
use super::{Context, command};
use crate::base::clock::Instant;
use crate::base::futex::Flag;
use crate::base::{barrier, diag, new_file};
use crate::guest::gpu::GpuNow;
use crate::guest::state::{self, Phase};
use crate::host::look::Seen;

/// Looks in a period, and the bounds of the time between two.
const LOOKS: u32 = 6;
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);
/// The shortest time between two files, and the most files.
const RARELY: Duration = Duration::from_secs(3600);
const MOST: u32 = 5;
/// A GPU that is in use for so large a share does nothing else; a kernel that spins moves no data.
const BUSY_PERCENT: u32 = 95;
const SPINS_PERCENT: u32 = 2;
/// The longest that the command may take.
const COMMAND_PATIENCE: Duration = Duration::from_secs(30);

/// What may stand, each since when.
#[derive(Default)]
struct Since {
    /// Work on the GPU has not ended.
    work: Option<Instant>,
    /// No work is unfinished, and a range in which work was launched before does not close.
    step: Option<Instant>,
    /// The GPU is busy without memory traffic, while a thread waits in the same place.
    spin: Option<Instant>,
    /// A thread waits for the GIL, and another one holds it, in the same places.
    gil: Option<Instant>,
}

pub(super) struct Standstill<'a> {
    context: &'a Context,
    period: Option<Duration>,
    next: Instant,
    /// Records and losses so far, and when they last changed.
    records: (u64, u64),
    moved: Instant,
    since: Since,
    /// What threads did at the last look.
    before: FxHashMap<u32, Place>,
    files: u32,
    told: Option<Instant>,
    /// The thread that writes has ended.
    written: Option<Arc<Flag>>,
}

/// Where a thread is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    python: Vec<String>,
    switches: u64,
    /// The thread that held the GIL when this one was seen to wait for it in this place; 0: it was not.
    gil_holder: u32,
}

impl<'a> Standstill<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        let period = context.options.watch;
        Standstill {
            context,
            period,
            next: Instant::now() + step(period),
            records: (0, 0),
            moved: Instant::now(),
            since: Since::default(),
            before: FxHashMap::default(),
            files: 0,
            told: None,
            written: None,
        }
    }

    /// Until the next look; none if none was requested.
    pub(super) fn left(&self) -> Option<Duration> {
        self.period?;
        Some(self.next.saturating_duration_since(Instant::now()))
    }

    /// Looks, if it is time.
    pub(super) fn look(&mut self, asked: &mut Asked) {
        let (Some(period), now) = (self.period, Instant::now()) else { return };
        if now < self.next || !state::cuda_seen() {
            return;
        }
        self.next = now + step(self.period);
        let phase = state::phase();
        if !matches!(phase, Phase::On | Phase::Dormant) || self.is_resting(now) {
            return;
        }
        let records = records();
        if records != self.records {
            (self.records, self.moved) = (records, now);
            self.since = Since::default();
            self.before.clear();
            return;
        }
        if phase == Phase::On && now.saturating_duration_since(self.moved) < period / 2 {
            return;
        }
        let depth = if phase == Phase::On { Depth::Work } else { Depth::Host };
        let evidence = asked.gather(self.context, depth);
        self.judge(&evidence, now);
        if let Some(reason) = self.reason(&evidence, now, period) {
            let depth = if phase == Phase::On { Depth::Full } else { Depth::Host };
            // Native stacks of a process that stands are worth their time.
            let depth = if depth == Depth::Host { Depth::Full } else { depth };
            let evidence = asked.gather(self.context, depth);
            self.tell(&evidence, &reason, now);
        }
    }

    /// It was told a short time ago, or often enough.
    fn is_resting(&self, now: Instant) -> bool {
        self.files >= MOST
            || self.told.is_some_and(|told| now.saturating_duration_since(told) < RARELY)
    }

    fn judge(&mut self, evidence: &Evidence, now: Instant) {
        let begin = |since: &mut Option<Instant>, stands: bool| {
            *since = if stands { Some(since.unwrap_or(now)) } else { None };
        };
        let work = evidence.work.as_ref();
        let unfinished = work.map_or(0, |work| work.unfinished);
        // A GPU that does nothing has ended what was unfinished at an earlier look.
        let may_run = evidence.readings.is_empty() || busy(&evidence.readings, |_| true);
        let stands = unfinished > 0 && may_run;
        begin(&mut self.since.work, stands);
        begin(&mut self.since.step, !stands && work.is_some_and(|work| work.overdue.is_some()));
        let threads = evidence.look.as_ref().map_or(&[][..], |look| &look.threads[..]);
        let stays = |seen: &Seen| {
            let before = self.before.get(&seen.tid);
            before.is_some_and(|before| match seen.python.is_empty() {
                true => before.switches == seen.all_switches,
                false => before.python == seen.python,
            })
        };
        let works = evidence.work.is_none() && {
            let spins =
                |gpu: &GpuNow| gpu.memory_percent.is_some_and(|percent| percent <= SPINS_PERCENT);
            busy(&evidence.readings, spins)
        };
        let is_waiting = |seen: &Seen| seen.tid == std::process::id() || !seen.python.is_empty();
        let spin = works && threads.iter().any(|seen| is_waiting(seen) && stays(seen));
        // Whoever waits for the GIL wakes up now and then, and may be waiting for a processor at this look.
        let gil_holder = |seen: &Seen| match self.before.get(&seen.tid) {
            Some(before) if seen.gil_holder == 0 && stays(seen) => before.gil_holder,
            _ => seen.gil_holder,
        };
        let gil = threads.iter().any(|seen| {
            let wanted = gil_holder(seen);
            let holder = threads.iter().find(|other| other.tid == wanted && other.holds_gil);
            stays(seen) && holder.is_some_and(stays)
        });
        begin(&mut self.since.spin, spin);
        begin(&mut self.since.gil, gil);
        self.before = threads
            .iter()
            .map(|seen| {
                let (python, switches) = (seen.python.clone(), seen.all_switches);
                (seen.tid, Place { python, switches, gil_holder: gil_holder(seen) })
            })
            .collect();
    }

    /// What has stood for a period.
    fn reason(&self, evidence: &Evidence, now: Instant, period: Duration) -> Option<String> {
        // While records came, nothing stood, and two looks tell that it does.
        let least = period / 2;
        let stands = |since: Option<Instant>, least: Duration| {
            since.map(|since| now.saturating_duration_since(since)).filter(|stood| *stood >= least)
        };
        let since_record = now.saturating_duration_since(self.moved);
        if stands(self.since.work, least).is_some() && since_record >= period {
            return Some(format!("no work on the GPU has ended for {} s", since_record.as_secs()));
        }
        let overdue = evidence.work.as_ref().and_then(|work| work.overdue.as_ref());
        if let (Some(overdue), Some(_)) = (overdue, stands(self.since.step, least))
            && since_record >= period
            && u128::from(overdue.open_ms) >= period.as_millis()
        {
            return Some(format!(
                "range {} has been open for {} s, the {} before it for {} ms at most, and no work on the GPU has ended \
                 for {} s",
                overdue.path,
                overdue.open_ms / 1_000,
                overdue.earlier,
                overdue.longest_ms,
                since_record.as_secs()
            ));
        }
        if let Some(stood) = stands(self.since.spin, period) {
            return Some(format!(
                "the GPU is busy without memory traffic, and threads are in the same place, for {} s",
                stood.as_secs()
            ));
        }
        stands(self.since.gil, period).map(|stood| {
            format!(
                "a thread has waited for the GIL, which another one holds, for {} s",
                stood.as_secs()
            )
        })
    }

    fn tell(&mut self, evidence: &Evidence, reason: &str, now: Instant) {
        self.files += 1;
        self.told = Some(now);
        self.since = Since::default();
        if self.written.as_ref().is_some_and(|written| !written.is_set()) {
            diag::warn(format_args!(
                "watch: {reason}; the evidence of the last time is still being written"
            ));
            return;
        }
        let options = &self.context.options;
        let file = state::shared().and_then(|shared| shared.windows.standing().file);
        let stem = match (&file, &options.out) {
            (Some(file), _) => Some(PathBuf::from(file.strip_suffix(".s2t").unwrap_or(file))),
            (None, Some(out)) => Some(out.join(format!("process-{}", std::process::id()))),
            (None, None) => None,
        };
        let (json, reason) = (evidence.to_json(reason), reason.to_owned());
        let command = options.watch_command.clone();
        let written = Arc::new(Flag::default());
        let of_thread = Arc::clone(&written);
        let files = self.files;
        let thread = move || {
            let _counted = state::Server::counted();
            let work = || {
                write_and_run(
                    stem.as_deref(),
                    files,
                    &json,
                    &reason,
                    command.as_deref(),
                    &of_thread,
                )
            };
            if let Err(panic) = barrier::own_thread(work) {
                diag::warn(format_args!("watch: {panic}; please report it"));
            }
            of_thread.set();
        };
        // The disk may hang, and so may the command.
        match barrier::thread("stage2-why").spawn(thread) {
            Ok(_) => self.written = Some(written),
            Err(error) => {
                diag::warn(format_args!("watch: no thread can be started ({error})"));
            }
        }
    }
}

fn step(period: Option<Duration>) -> Duration {
    (period.unwrap_or(LONGEST) / LOOKS).clamp(SHORTEST, LONGEST)
}

/// Work that was recorded, or left out by a filter, so far.
fn records() -> (u64, u64) {
    state::shared().map_or((0, 0), |shared| {
        let counters = &shared.counters;
        let records =
            counters.attributed.get() + counters.unattributed.get() + counters.filtered.get();
        // What a forced flush has handed out without times has not ended.
        (records.saturating_sub(counters.invalid_timestamps.get()), counters.cupti_dropped.get())
    })
}

/// Whether a GPU of the process, or of any where NVML does not tell, is busy and is one of these.
fn busy(readings: &[GpuNow], is_one: impl Fn(&GpuNow) -> bool) -> bool {
    let is_known = readings.iter().any(|gpu| gpu.is_own == Some(true));
    let mut own = readings.iter().filter(|gpu| !is_known || gpu.is_own == Some(true));
    own.any(|gpu| gpu.gpu_percent.is_some_and(|percent| percent >= BUSY_PERCENT) && is_one(gpu))
}

/// The body of the thread that tells.
fn write_and_run(
    stem: Option<&Path>,
    number: u32,
    json: &str,
    reason: &str,
    command: Option<&std::ffi::OsStr>,
    written: &Flag,
) {
    let file = stem.map(|stem| {
        let mut name = stem.as_os_str().to_owned();
        name.push(if number == 1 { ".why.json".to_owned() } else { format!(".{number}.why.json") });
        PathBuf::from(name)
    });
    let result = file.as_deref().map(|file| write(file, json));
    written.set();
    let pid = std::process::id();
    match (&file, &result) {
        (Some(file), Some(Ok(()))) => diag::warn(format_args!(
            "watch: {reason}; `stage2-launch ctl {} why` tells what stands",
            file.display()
        )),
        (Some(file), Some(Err(error))) => diag::warn(format_args!(
            "watch: {reason}; {} cannot be written ({error}); `stage2-launch ctl {pid} why` tells what stands",
            file.display()
        )),
        _ => diag::warn(format_args!(
            "watch: {reason}; `stage2-launch ctl {pid} why` tells what stands (with STAGE2_OUT=FOLDER it is kept)"
        )),
    }
    if let Some(command) = command {
        let name = file.map(|file| file.display().to_string()).unwrap_or_default();
        let pid = pid.to_string();
        let variables = [("STAGE2_WHY_FILE", name.as_str()), ("STAGE2_WHY_PID", pid.as_str())];
        if let Err(why) = command::run(command, &variables, COMMAND_PATIENCE) {
            diag::warn(format_args!("watch: STAGE2_WATCH_COMMAND: {why}"));
        }
    }
}

/// Writes a file whole or not at all: it has its name only when it is whole, for those who wait for it.
fn write(file: &Path, json: &str) -> std::io::Result<()> {
    use std::io::{Error, ErrorKind, Write};

    if let Some(folder) = file.parent() {
        new_file::create_folder(folder)?;
    }
    if std::fs::symlink_metadata(file).is_ok() {
        return Err(Error::from(ErrorKind::AlreadyExists));
    }
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let mut opened = new_file::create(Path::new(&part))?;
    let done = opened.write_all(json.as_bytes()).and_then(|()| opened.sync_data());
    let done = done.and_then(|()| std::fs::rename(&part, file));
    if done.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_a_part_of_the_period_within_bounds() {
        let of = |seconds| step(Some(Duration::from_secs(seconds)));
        assert_eq!([of(60), of(3600)], [LONGEST; 2]);
        assert_eq!(of(1), Duration::from_secs(1) / 6);
    }

    #[test]
    fn the_gpus_of_the_process_count_where_they_are_known() {
        let gpu =
            |is_own, percent| GpuNow { is_own, gpu_percent: Some(percent), ..GpuNow::default() };
        assert!(busy(&[gpu(None, 0), gpu(None, 99)], |_| true));
        assert!(!busy(&[gpu(Some(true), 0), gpu(None, 99)], |_| true));
        assert!(!busy(&[gpu(Some(true), 99)], |_| false));
    }
}
