//! What a collector tells about a process that stands still, and what can be seen of one that does not answer.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stage2_contract::control::{Answer, SocketName, start_of};
use stage2_contract::order::Order as _;

use crate::control::{AskError, ControlSocket};

/// Characters of a title.
const MAX_TITLE: usize = 40;
/// Threads of a silent process that are read.
const MAX_THREADS: usize = 256;

/// What is known of one process.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct Evidence {
    pub(super) process: Process,
    /// What is known of the work on the GPU; `None`: nothing is recorded, or it was not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) work: Option<Work>,
    pub(super) gpus: Vec<Gpu>,
    pub(super) threads: Vec<Thread>,
    /// Recent errors of the driver in the kernel's log: of this process, or without the name of a process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) xid: Vec<String>,
    /// What could not be had, and why.
    pub(super) missing: Vec<String>,
    /// Why the process did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) silent: Option<Silent>,
    /// Why the watch wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) watch: Option<String>,
}

/// The process itself. Times and sizes that are not known are null.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) rank: Option<u64>,
    /// Its number in its own container, if it runs in one: that of its main thread there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inner_pid: Option<u32>,
    /// What it calls itself in the list of processes, where that is not a command: `VLLM::Worker_TP1`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) title: String,
    /// `on`: it records; `dormant`, `starting` or `ended`. Empty: it did not answer.
    pub(super) phase: String,
    /// It has used CUDA.
    pub(super) cuda: bool,
    /// When it answered.
    pub(super) unix_ms: u64,
    pub(super) took_ms: u64,
    /// Between the two looks at its threads.
    pub(super) between_ms: u64,
    pub(super) threads: u64,
    pub(super) rss_kib: Option<u64>,
    pub(super) peak_rss_kib: Option<u64>,
    pub(super) swap_kib: Option<u64>,
    /// The window of recording, from 1.
    pub(super) window: Option<u64>,
    /// Records of GPU work so far, and those of them without times.
    pub(super) records: Option<u64>,
    pub(super) untimed: Option<u64>,
}

/// What the records show about work on the GPU.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct Work {
    /// CUPTI was flushed by force: what has not ended is known.
    pub(super) forced: bool,
    pub(super) flush_us: u64,
    pub(super) unfinished: u64,
    /// Only some ranges are recorded.
    pub(super) restricted: bool,
    pub(super) queues: Vec<Queue>,
    pub(super) open_ranges: Vec<OpenRange>,
    pub(super) calls: Vec<OpenCall>,
    pub(super) steps: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) range_closed_ms_ago: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gpu_off: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) flush_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_forced: Option<String>,
}

/// A stream.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct Queue {
    pub(super) device: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) finished: u64,
    /// Kernels of collectives so far, finished or not.
    pub(super) collectives: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_finished: Option<Piece>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_unfinished: Option<Piece>,
    pub(super) unfinished: u64,
    pub(super) unfinished_names: Vec<Counted>,
}

/// A piece of work on the GPU.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct Piece {
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) path: String,
    pub(super) range: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) graph: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended_ms_ago: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seen_ms_ago: Option<u64>,
}

/// Pieces of work of one name.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct Counted {
    pub(super) name: String,
    pub(super) count: u64,
}

/// A range that is open.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct OpenRange {
    pub(super) path: String,
    pub(super) range: u64,
    pub(super) tid: Option<u32>,
    pub(super) open_ms: u64,
    /// It is none of a library.
    pub(super) of_program: bool,
    /// Instances of the same path that have closed, and for how long the longest was open.
    pub(super) earlier: u64,
    pub(super) longest_ms: u64,
    /// Work was launched in earlier ones, and this one has been open for twice as long as ever.
    pub(super) overdue: bool,
}

/// A call of the driver that has not returned.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct OpenCall {
    pub(super) name: String,
    pub(super) tid: Option<u32>,
    pub(super) ms: u64,
}

/// What NVML says of a GPU.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct Gpu {
    pub(super) index: u32,
    pub(super) uuid: String,
    /// The process runs there. `None`: NVML does not tell.
    pub(super) own: Option<bool>,
    pub(super) gpu_percent: Option<u32>,
    pub(super) memory_percent: Option<u32>,
    pub(super) power_mw: Option<u32>,
    pub(super) power_limit_mw: Option<u32>,
    pub(super) sm_clock_mhz: Option<u32>,
    pub(super) memory_clock_mhz: Option<u32>,
    pub(super) temperature_c: Option<u32>,
    pub(super) clock_reasons: Option<u64>,
    pub(super) memory_used_bytes: Option<u64>,
    pub(super) uncorrected_errors: Option<u64>,
    /// For how long, up to now, it was busy all the time, and its memory was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) busy_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quiet_ms: Option<u64>,
}

/// A thread of the process, in two looks.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct Thread {
    pub(super) tid: u32,
    pub(super) name: String,
    /// The letter that the kernel gives for its state.
    pub(super) letter: String,
    /// `running`, `runnable`, `gil`, `lock`, `sleep`, `poll`, `driver`, `blocked` or `unknown`; empty: seen from outside.
    pub(super) state: String,
    /// Processor time and context switches between the looks.
    pub(super) cpu_us: u64,
    pub(super) switches: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) waits_in: String,
    /// Its stacks are those of the first look; `None`: it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) same_stack: Option<bool>,
    pub(super) holds_gil: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gil_holder: Option<u32>,
    /// The innermost frame first.
    pub(super) python: Vec<String>,
    pub(super) native: Vec<String>,
}

/// A process that did not answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Silent {
    pub(super) why: String,
    pub(super) state: SilentState,
}

/// What is known of a process that did not answer.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum SilentState {
    /// By a signal (SIGSTOP), or by a debugger.
    Stopped,
    /// It has ended.
    Gone,
    /// It has ended, and its parent has not taken notice.
    Zombie,
    /// Its collector does not know the question.
    Older,
    /// It lives, and does not answer.
    Mute,
}

impl Evidence {
    /// Reads an answer. What cannot be read is missing, and told as missing.
    pub(super) fn of(found: &ControlSocket, answer: Result<Answer, AskError>) -> Evidence {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Evidence::from_outside(found, error.to_string()),
        };
        if answer.refused || answer.get("evidence").is_none() {
            let error = answer.get("error").unwrap_or("it tells no reason").to_owned();
            let version = answer.get("collector").unwrap_or("of an older version");
            let why = format!(
                "its collector ({version}) does not know why: {error}; start it with this version's library"
            );
            let mut evidence = Evidence::from_outside(found, why);
            if let Some(silent) = &mut evidence.silent {
                silent.state = SilentState::Older;
            }
            return evidence;
        }
        let mut evidence = Evidence::default();
        let mut missing: Vec<String> = answer.all("missing").map(str::to_owned).collect();
        let mut read = |name: &str| -> Vec<Value> {
            let all = answer.all(name).filter_map(|text| match serde_json::from_str(text) {
                Ok(value) => Some(value),
                Err(error) => {
                    missing.push(format!("{name}: it cannot be read ({error})"));
                    None
                }
            });
            all.collect()
        };
        let (process, work) = (read("process"), read("work"));
        let (gpus, threads) = (read("gpu"), read("thread"));
        evidence.process = one(process).unwrap_or_default();
        evidence.work = one(work);
        evidence.gpus = many(gpus);
        evidence.threads = many(threads);
        if answer.get("cut").is_some() {
            missing.push("the rest of the threads: the answer was too long".to_owned());
        }
        evidence.missing = missing;
        // As it is numbered here.
        evidence.process.pid = found.pid;
        evidence.process.inner_pid = Some(found.name.pid).filter(|inner| *inner != found.pid);
        let proc = format!("/proc/{}", found.pid);
        if evidence.threads.is_empty() {
            evidence.threads = threads_of(&proc);
            evidence.process.threads = evidence.threads.len() as u64;
            evidence.process.inner_pid = None;
        }
        evidence.process.title = title_of(Path::new(&proc));
        // A dormant collector does not tell it.
        evidence.process.rank = evidence.process.rank.or_else(|| rank_of(Path::new(&proc)));
        evidence
    }

    /// A process that has no socket: it has ended, or is in its exit. `None`: it is not under the collector.
    pub(super) fn without_socket(pid: u32) -> Option<Evidence> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let stat = read("stat")?;
        if !matches!(letter_of(&stat), Some('Z' | 'X')) {
            read("maps").filter(|maps| maps.contains("libstage2.so"))?;
        }
        let name = SocketName::new("", pid, start_of(&stat)?);
        let found = ControlSocket { pid, path: PathBuf::new(), name };
        let why = "it has no control socket: it is in its exit, and the collector has ended its part (or it was \
                   started with STAGE2_CONTROL=off, or has not used NVTX or CUDA yet)";
        Some(Evidence::from_outside(&found, why.to_owned()))
    }

    /// Whether `tid` is its main thread.
    pub(super) fn is_main(&self, tid: u32) -> bool {
        tid == self.process.inner_pid.unwrap_or(self.process.pid)
    }

    /// Whether the process has ended.
    pub(super) fn is_gone(&self) -> bool {
        let state = self.silent.as_ref().map(|silent| silent.state);
        matches!(state, Some(SilentState::Gone | SilentState::Zombie))
    }

    /// What `/proc` shows of a process that does not answer.
    pub(super) fn from_outside(found: &ControlSocket, why: String) -> Evidence {
        let proc = format!("/proc/{}", found.pid);
        let mut evidence = Evidence::default();
        evidence.process.pid = found.pid;
        let stat = fs::read_to_string(format!("{proc}/stat")).unwrap_or_default();
        // Another process may have got its number.
        let is_it = start_of(&stat) == Some(found.name.start);
        let letter = letter_of(&stat).filter(|_| is_it);
        let state = match letter {
            None => SilentState::Gone,
            Some('Z' | 'X') => SilentState::Zombie,
            Some('T' | 't') => SilentState::Stopped,
            Some(_) => SilentState::Mute,
        };
        let why = match state {
            SilentState::Gone => {
                "it has left its control socket behind: it was killed, or crashed".to_owned()
            }
            _ => why,
        };
        evidence.silent = Some(Silent { why, state });
        if letter.is_some() {
            evidence.process.rank = rank_of(Path::new(&proc));
            evidence.process.title = title_of(Path::new(&proc));
            evidence.threads = threads_of(&proc);
            evidence.process.threads = evidence.threads.len() as u64;
        }
        evidence
    }
}

/// The rank in the environment with which it was started.
fn rank_of(proc: &Path) -> Option<u64> {
    crate::control::variable_of(proc, b"RANK=")?.to_str()?.trim().parse().ok()
}

/// The first word of its command line, if it holds `::`, as frameworks name their workers.
fn title_of(proc: &Path) -> String {
    let line = fs::read(proc.join("cmdline")).unwrap_or_default();
    let first = line.split(|byte| byte.is_ascii_whitespace() || *byte == 0).next();
    let text = String::from_utf8_lossy(first.unwrap_or_default()).into_owned();
    if text.contains("::") { text.chars().take(MAX_TITLE).collect() } else { String::new() }
}

fn one<T: for<'d> Deserialize<'d>>(values: Vec<Value>) -> Option<T> {
    values.into_iter().next().and_then(|value| serde_json::from_value(value).ok())
}

fn many<T: for<'d> Deserialize<'d>>(values: Vec<Value>) -> Vec<T> {
    values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect()
}

/// The state of a process or thread in its `stat`: behind the name, which may hold parentheses.
fn letter_of(stat: &str) -> Option<char> {
    stat.get(stat.rfind(')')? + 1..)?.trim_start().chars().next()
}

fn threads_of(proc: &str) -> Vec<Thread> {
    let entries = fs::read_dir(format!("{proc}/task")).into_iter().flatten().flatten();
    let threads = entries.take(MAX_THREADS).filter_map(|entry| {
        let task = entry.path();
        let text = |file: &str| fs::read_to_string(task.join(file)).unwrap_or_default();
        let letter = letter_of(&text("stat"))?.to_string();
        let waits_in = text("wchan");
        let is_in_lock =
            text("syscall").split(' ').next() == Some(&*nix::libc::SYS_futex.to_string());
        let state = match letter.as_str() {
            "R" => "running",
            _ if is_in_lock => "lock",
            _ => "",
        };
        Some(Thread {
            state: state.to_owned(),
            tid: entry.file_name().to_str()?.parse().ok()?,
            name: text("comm").trim().to_owned(),
            letter,
            waits_in: if waits_in == "0" { String::new() } else { waits_in },
            ..Thread::default()
        })
    });
    let mut threads: Vec<Thread> = threads.collect();
    threads.order_by_key(|thread| thread.tid);
    threads
}
