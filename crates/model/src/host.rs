//! What the launching threads of a stage were doing while the GPU was idle.

use serde::{Deserialize, Serialize};
use stage2_contract::text::numbers::counted;

use crate::late::more_samples;

/// The fewest samples of the idle time of a stage for which shares are given.
pub const HOST_SAMPLES_LEAST: u64 = 30;
/// A row is a finding if its share is at least this many standard errors: chance alone gives one row in
/// twenty.
pub const HOST_ERRORS_LEAST: f64 = 2.0;
/// Below this share of its time, percent, a launching thread counts as never waiting for running GPU work.
const HOST_WAITS_PERCENT: f64 = 2.0;
/// Folders of a file outside of packages that are shown.
const FOLDERS_SHOWN: usize = 2;
/// The widest frame of a [`HostFrame::short`], characters.
const FUNCTION_CHARS: usize = 60;

/// Samples of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostUse {
    /// Stages with samples, in the order of [`Report::stages`](crate::Report::stages).
    pub stages: Vec<HostStage>,
    /// Statistics of sampling for each process.
    pub processes: Vec<HostProcess>,
    /// Frames and states. The stacks of the stages hold indices into this list.
    pub names: Vec<String>,
}

impl HostUse {
    /// How to get more samples.
    pub fn more_samples(&self) -> &'static str {
        more_samples(asked_hz(&self.processes))
    }
}

/// The lowest rate of sampling that was requested for any of the processes, Hz.
pub fn asked_hz(processes: &[HostProcess]) -> Option<f64> {
    processes.iter().filter_map(|process| process.asked_hz).reduce(f64::min)
}

/// The idle time of a stage, divided among causes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostStage {
    /// [`StageRow::stage`](crate::StageRow::stage).
    pub stage: String,
    /// The length of the windows that contain the samples, over all processes, ns; null: not known.
    pub window_ns: Option<u64>,
    /// Time of the windows in which no work of the stage ran, without `other_work`, ns; null: not known.
    pub idle_ns: Option<u64>,
    /// Work of other stages meanwhile; null: there was none, or there are too few samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_work: Option<HostOtherWork>,
    /// Names of its launching threads that were sampled.
    pub threads: Vec<String>,
    /// Samples of these threads in the idle time.
    pub samples: u64,
    /// Part of the windows that the samples represent, percent.
    pub covered_percent: f64,
    /// Share of the windows in which the launching threads were in calls that wait for running GPU work, percent.
    #[serde(default)]
    pub waits_for_work_percent: f64,
    /// The causes of the idle time, the largest first: they add up to 100 %. Empty: there are too few
    /// samples.
    pub causes: Vec<HostCause>,
    /// Those that are one row among them, [`HostCauseKind::Small`], without their stacks: in another run they may be
    /// large enough for a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub small_causes: Vec<HostCause>,
    /// The largest causes of the idle time of outliers that are left out, as shares of that time; empty: there are
    /// none, or too few samples of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outlier_causes: Vec<HostCause>,
    /// Known faults among the causes, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<HostAdvice>,
    /// The stacks with the longest time.
    pub stacks: Vec<HostStackTime>,
    /// The idle time that the times of the stacks are parts of, ns; that of all threads that launch the work. What
    /// no stack stands for is not known, or is in shorter stacks.
    #[serde(default)]
    pub stacks_of_ns: u64,
}

/// The time in which no work of a stage ran, but work of another one did, as shares of all time in which no work of the
/// stage ran. It is not part of the idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostOtherWork {
    /// All of it, percent.
    pub percent: f64,
    /// The part in launch gaps, percent.
    pub launch_gaps_percent: f64,
}

impl HostOtherWork {
    /// Splits launch gaps and longer times without work of a stage into what is idle time, and the work of other stages.
    pub fn split(found: Option<Self>, gaps_ns: u64, longer_ns: u64) -> [u64; 3] {
        let Self { percent, launch_gaps_percent } = found.unwrap_or_default();
        let all_ns = gaps_ns.saturating_add(longer_ns) as f64;
        let part = |percent: f64| (all_ns * percent.clamp(0.0, 100.0) / 100.0).round() as u64;
        let in_gaps_ns = part(launch_gaps_percent.min(percent)).min(gaps_ns);
        let in_longer_ns = part(percent).saturating_sub(in_gaps_ns).min(longer_ns);
        [gaps_ns - in_gaps_ns, longer_ns - in_longer_ns, in_gaps_ns + in_longer_ns]
    }
}

impl HostStage {
    /// The causes as shares of all time in which no work of the stage ran, with the work of other stages among them.
    pub fn causes_with_other_work(&self) -> Vec<HostCause> {
        let other = self.other_work.map(|HostOtherWork { percent, launch_gaps_percent }| {
            let kind = HostCauseKind::OtherWork;
            HostCause { kind, percent, launch_gaps_percent, ..HostCause::default() }
        });
        self.causes.iter().map(|cause| self.of_all_time(cause)).chain(other).collect()
    }

    /// A cause as a share of all time in which no work of the stage ran.
    pub fn of_all_time(&self, cause: &HostCause) -> HostCause {
        let other = self.other_work.map_or(0.0, |other| other.percent);
        let part = 1.0 - other.clamp(0.0, 100.0) / 100.0;
        HostCause {
            percent: cause.percent * part,
            error_percent: cause.error_percent * part,
            launch_gaps_percent: cause.launch_gaps_percent * part,
            ..cause.clone()
        }
    }

    /// Whether the launching threads hardly ever wait for the GPU. Then the host alone sets the pace: without a
    /// function, each step is shorter by all of that function's time, not only by the part that is idle time.
    pub fn never_waits(&self) -> bool {
        self.waits_for_work_percent < HOST_WAITS_PERCENT
    }
}

/// A cause of idle time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostCause {
    /// The kind of cause.
    pub kind: HostCauseKind,
    /// The responsible line of code: of several lines of a function, the one with the most time; null: not known.
    pub frame: Option<HostFrame>,
    /// The lines of the function, the one with the most time first; empty: there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<HostLine>,
    /// The function of a library or of CUDA that it was in; null: none, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
    /// The thread that was waited for, or that ran without a stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Share of the idle time, percent.
    pub percent: f64,
    /// Standard error of that share, percentage points; 0 where calls say themselves how long they took, and from
    /// where.
    pub error_percent: f64,
    /// Number of samples.
    pub samples: u64,
    /// Share of the idle time that is in launch gaps, percent.
    pub launch_gaps_percent: f64,
    /// Share of the windows in which the launching thread ran this function while GPU work ran, percent: see
    /// [`HostStage::never_waits`].
    #[serde(default)]
    pub beside_work_percent: f64,
    /// Standard error of that share, percentage points.
    #[serde(default)]
    pub beside_work_error_percent: f64,
    /// The stack with the longest time, the outermost frame first; empty: none is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// The processes that the time is in, the one with the most of it first; empty: only one was sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<HostCauseProcess>,
}

/// A line of the function that a cause is named after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostLine {
    /// The line, from 1; 0: not known.
    pub line: u32,
    /// Share of the idle time, percent.
    pub percent: f64,
    /// Standard error of that share, percentage points.
    pub error_percent: f64,
    /// Number of samples.
    pub samples: u64,
}

/// The part of a cause in a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostCauseProcess {
    /// [`HostProcess::file`].
    pub file: String,
    /// Share of the time of the cause, percent.
    pub percent: f64,
}

/// A line of Python code. The texts are printable, and not escaped for any format.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostFrame {
    /// The function, qualified if the interpreter has the qualified name.
    pub function: String,
    /// Its file, relative to the folder of packages.
    pub file: String,
    /// The line, from 1; 0: not known.
    pub line: u32,
}

impl HostFrame {
    /// As rows show it: `Scheduler.schedule (vllm/v1/core/scheduler.py:212)`; of a file outside of packages the
    /// last folders.
    pub fn text(&self) -> String {
        self.with(self.shown_file(false), " (", ")")
    }

    /// Returns the form for single lines: `Scheduler.schedule (scheduler.py:212)`.
    pub fn short(&self) -> String {
        self.with(self.shown_file(true), " (", ")")
    }

    /// The function and its line without parentheses, for a text within some: `Scheduler.schedule, scheduler.py:212`.
    /// `short`: the file without its folders.
    pub fn named(&self, short: bool) -> String {
        self.with(self.shown_file(short), ", ", "")
    }

    fn shown_file(&self, short: bool) -> &str {
        if short {
            return self.file.rsplit('/').next().unwrap_or(&self.file);
        }
        let outside = self.file.strip_prefix('/').filter(|_| self.file.len() > 1);
        let from = outside.and_then(|path| path.rmatch_indices('/').nth(FOLDERS_SHOWN));
        from.map_or(&self.file, |(at, _)| self.file.get(at + 2..).unwrap_or(""))
    }

    fn with(&self, file: &str, before: &str, after: &str) -> String {
        // Python's mark of a function within another one says nothing that the names do not.
        let function = self.function.replace(".<locals>", "");
        let function = stage2_contract::text::shorten(&function, FUNCTION_CHARS);
        match self.line {
            0 => format!("{function}{before}{file}{after}"),
            line => format!("{function}{before}{file}:{line}{after}"),
        }
    }
}

/// What a thread was doing while the GPU was idle.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HostCauseKind {
    /// It ran user code.
    UserCode,
    /// It ran code of an inference engine.
    EngineCode,
    /// It ran code of a framework.
    FrameworkCode,
    /// It ran, and its stack is not known.
    NativeCode,
    /// It waited for the GIL.
    Gil,
    /// It waited for another lock, or another thread.
    Lock,
    /// It was in a call to CUDA or to the driver.
    CudaCall,
    /// It was runnable and waited for a processor.
    NotScheduled,
    /// It waited for requests, or for messages from another thread or process.
    Requests,
    /// It waited for another rank.
    OtherRank,
    /// It slept.
    Sleep,
    /// It was blocked in another system call, such as for input or output.
    System,
    /// GPU work of another stage ran.
    OtherWork,
    /// The sum of causes whose shares are below [`HOST_ERRORS_LEAST`] standard errors.
    Small,
    /// Not known: no sample represents the time, or the sample has no state.
    #[default]
    Unknown,
}

impl HostCauseKind {
    /// Whether the thread ran code.
    pub fn is_code(self) -> bool {
        matches!(self, Self::UserCode | Self::EngineCode | Self::FrameworkCode | Self::NativeCode)
    }

    /// Whether a thread of the simulator may have done it, or the machine that ran it.
    pub fn is_of_simulator(self) -> bool {
        matches!(self, Self::NativeCode | Self::NotScheduled | Self::CudaCall)
    }

    /// Whether the thread waited for another rank, or for a process that tells it what to do; or it is not known.
    pub fn waits_for_others(self) -> bool {
        matches!(self, Self::Requests | Self::OtherRank | Self::OtherWork | Self::Unknown)
    }

    /// Whether each function has its own row.
    pub fn has_line(self) -> bool {
        !matches!(
            self,
            Self::NativeCode | Self::NotScheduled | Self::OtherWork | Self::Small | Self::Unknown
        )
    }
}

/// Waits for work that the host had launched: their share of the idle time, percent, and the call of the longest. At
/// `HOST_DECIDED_PERCENT` or more, the host was ahead of the GPU. Work of other stages does not count as idle time.
pub fn waits_for_gpu(causes: &[HostCause]) -> Option<(f64, &HostCause)> {
    let sum = |all: &mut dyn Iterator<Item = &HostCause>| all.map(|of| of.percent).sum::<f64>();
    let waits = || causes.iter().filter(|cause| cause.wait_for_gpu().is_some());
    let longest = waits().max_by(|a, b| a.percent.total_cmp(&b.percent))?;
    let other = sum(&mut causes.iter().filter(|of| of.kind == HostCauseKind::OtherWork));
    Some((sum(&mut waits()) / (1.0 - other / 100.0).max(f64::EPSILON), longest))
}

/// A process that has at least this share of the time of a cause is named, percent.
const IN_RANK_PERCENT: f64 = 75.0;

/// The text of [`HostCauseKind::OtherWork`].
pub const OTHER_STAGES_WORK: &str = "work of another stage ran on the GPU";

impl HostCause {
    /// ` mostly in rank 1`: the rank that most of it is in; nothing where that is not one. `rank_of`: of a trace file.
    pub fn in_rank(&self, rank_of: impl Fn(&str) -> Option<u64>) -> String {
        let most = self.processes.first().filter(|most| most.percent >= IN_RANK_PERCENT);
        match most.and_then(|most| Some((most, rank_of(&most.file)?))) {
            Some((most, rank)) if most.percent > 99.95 => format!(" in rank {rank}"),
            Some((_, rank)) => format!(" mostly in rank {rank}"),
            None => String::new(),
        }
    }

    /// The call in which the host waited for work that it had launched: it was ahead of the GPU, so its code is not the cause.
    pub fn wait_for_gpu(&self) -> Option<&str> {
        let waits = |call: &&str| call.ends_with("Synchronize") || call.starts_with("cuMemcpyDtoH");
        self.called.as_deref().filter(|_| self.kind == HostCauseKind::CudaCall).filter(waits)
    }

    /// Describes the cause, with whole paths of files if not `short`.
    pub fn text(&self, short: bool) -> String {
        let frame = self.frame.as_ref().map(|frame| self.of_function(frame, short));
        let at = |what: &str, word: &str| match &frame {
            Some(frame) => format!("{what} {word} {frame}"),
            None => what.to_owned(),
        };
        let thread = self.thread.as_ref().map(|thread| format!("'{thread}'"));
        match self.kind {
            HostCauseKind::UserCode | HostCauseKind::EngineCode | HostCauseKind::FrameworkCode => {
                let called = self.called.as_ref().map(|called| format!(" in {called}"));
                let frame = frame.unwrap_or_else(|| "code".to_owned());
                format!("{frame}{}", called.filter(|_| !short).unwrap_or_default())
            }
            HostCauseKind::NativeCode => {
                let of =
                    thread.map_or_else(String::new, |thread| format!(" of the thread {thread}"));
                format!("native code{of}")
            }
            HostCauseKind::Gil => match thread {
                Some(thread) => at(&format!("waiting for the GIL held by {thread}"), "in"),
                None => at("waiting for the GIL", "in"),
            },
            HostCauseKind::Lock => match thread {
                Some(thread) => at(&format!("waiting for a lock held by {thread}"), "in"),
                None => at("waiting for a lock or a thread", "in"),
            },
            HostCauseKind::CudaCall => match &self.called {
                Some(called) => at(&format!("blocked in {called}"), "from"),
                None => at("in a CUDA call", "from"),
            },
            HostCauseKind::NotScheduled => "runnable, waiting for a processor".to_owned(),
            HostCauseKind::Requests => at("waiting for requests", "in"),
            HostCauseKind::OtherRank => at("waiting for another rank", "in"),
            HostCauseKind::Sleep => at("sleeping", "in"),
            HostCauseKind::System => at("blocked in a system call", "from"),
            HostCauseKind::OtherWork => OTHER_STAGES_WORK.to_owned(),
            HostCauseKind::Small => "smaller causes, each within its sampling error".to_owned(),
            HostCauseKind::Unknown => "unknown".to_owned(),
        }
    }

    /// Whether it is of the same kind and the same function as another one.
    pub fn is_of_the_function_of(&self, other: &Self) -> bool {
        let function = |cause: &Self| {
            cause.frame.as_ref().map(|frame| (frame.function.clone(), frame.file.clone()))
        };
        self.kind == other.kind && function(self) == function(other)
    }

    /// Describes the cause without the line number, which changes between versions of a program.
    pub fn without_line(&self) -> String {
        let frame = self.frame.as_ref().map(|frame| HostFrame { line: 0, ..frame.clone() });
        let called = self.called.clone().filter(|_| self.kind == HostCauseKind::CudaCall);
        Self { frame, called, lines: Vec::new(), ..self.clone() }.text(false)
    }

    /// Describes a frame, and how many more lines of its function there are:
    /// `copy (buffer_utils.py:40 and 1 more line)`.
    fn of_function(&self, frame: &HostFrame, short: bool) -> String {
        let shown = if short { frame.short() } else { frame.text() };
        let more = (self.lines.len() as u64).saturating_sub(1);
        match shown.strip_suffix(')').filter(|_| more > 0) {
            Some(open) => format!("{open} and {})", counted(more, "more line")),
            None => shown,
        }
    }

    /// Whether it is a single, known cause whose share exceeds its sampling error.
    pub fn is_finding(&self) -> bool {
        !matches!(self.kind, HostCauseKind::Small | HostCauseKind::Unknown)
    }
}

/// A known problem, recognised from stacks or thread states.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostAdvice {
    /// Which problem.
    pub kind: HostAdviceKind,
    /// Share of the idle time, percent.
    pub percent: f64,
    /// Standard error of that share, percentage points.
    pub error_percent: f64,
    /// The line with most of the time; null: not known.
    pub frame: Option<HostFrame>,
    /// What was observed.
    pub text: String,
    /// What to do.
    pub remedy: String,
}

/// Known problems of the host that leave the GPU idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HostAdviceKind {
    /// Values are read from the GPU one by one (`.item()`).
    #[default]
    Item,
    /// Tensors are copied to the host (`.cpu()`).
    Copy,
    /// The host waits for the size of a result (`nonzero`).
    Nonzero,
    /// Memory is allocated or freed in a loop.
    Allocation,
    /// The launching thread tokenises or detokenises text.
    Tokenisation,
    /// The launching thread writes a log.
    Logging,
    /// There are too few processors.
    Starved,
    /// Another thread holds the GIL.
    Gil,
}

impl HostAdviceKind {
    /// Describes the problem in a few words.
    pub fn what(self) -> &'static str {
        match self {
            Self::Item => "reads of single values from the GPU",
            Self::Copy => "waits for copies to the host",
            Self::Nonzero => "sizes that depend on data",
            Self::Allocation => "allocation in the loop",
            Self::Tokenisation => "tokenisation on the launching thread",
            Self::Logging => "logging on the launching thread",
            Self::Starved => "lack of processors",
            Self::Gil => "waiting for the GIL",
        }
    }
}

/// A stack and the time that its samples represent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostStackTime {
    /// Indices into [`HostUse::names`], the outermost frame first; the last one is what the thread waited
    /// for, if it did.
    pub stack: Vec<usize>,
    /// Idle time that its samples represent, or that its calls took, ns.
    pub ns: u64,
    /// Samples.
    pub samples: u64,
}

/// Statistics of sampling for a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostProcess {
    /// Its trace file.
    pub file: String,
    /// Version of the interpreter whose stacks were read; null: none was found.
    pub python: Option<String>,
    /// Why it was not sampled, or why sampling ended early, with the remedy; null: it was sampled to the
    /// end.
    pub off: Option<String>,
    /// The limits of its samples, as the collector reported them.
    pub note: Option<String>,
    /// The requested sampling rate, Hz.
    pub asked_hz: Option<f64>,
    /// The sampling rate that was achieved on average, Hz.
    pub reached_hz: Option<f64>,
    /// Samples of threads.
    pub samples: u64,
    /// Samples and calls that were lost, or whose stacks moved or could not be read.
    pub dropped: u64,
    /// Part of the rounds that began more than half an interval late, percent.
    pub late_percent: Option<f64>,
    /// Time that the launching threads were runnable and waited for a processor, ns.
    pub delay_ns: u64,
    /// CPU time of these threads, ns.
    pub cpu_ns: u64,
    /// Time that the sampling thread waited for a processor, ns.
    pub own_delay_ns: u64,
    /// CPU time of the sampling thread, ns.
    pub own_cpu_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_in_several_lines_names_the_first_and_how_many_more_there_are() {
        let frame = HostFrame { function: "copy".into(), file: "gpu/buffer.py".into(), line: 40 };
        let line = |line| HostLine { line, ..HostLine::default() };
        let (kind, frame) = (HostCauseKind::EngineCode, Some(frame));
        let one = HostCause { kind, frame, ..HostCause::default() };
        assert_eq!(one.text(true), "copy (buffer.py:40)");
        let two = HostCause { lines: vec![line(40), line(41)], ..one.clone() };
        assert_eq!(two.text(true), "copy (buffer.py:40 and 1 more line)");
        assert_eq!(two.text(false), "copy (gpu/buffer.py:40 and 1 more line)");
        assert_eq!(two.without_line(), one.without_line());
    }

    #[test]
    fn a_file_outside_of_packages_has_its_last_folders() {
        let text =
            |file: &str, line| HostFrame { function: "f".into(), file: file.into(), line }.text();
        assert_eq!(text("/home/a/b/c/serve.py", 7), "f (b/c/serve.py:7)");
        assert_eq!(text("/c/serve.py", 7), "f (/c/serve.py:7)");
        assert_eq!(
            text("vllm/v1/core/sched/scheduler.py", 0),
            "f (vllm/v1/core/sched/scheduler.py)"
        );
        assert_eq!([text("", 1), text("/", 1)], ["f (:1)", "f (/:1)"]);
    }
}
