//! Evidence of processes -> a sentence about what stands still, of each and of all together.
//!
//! Rules, the first that holds: a process that does not answer; work on the GPU that does not end; threads that wait
//! for each other; a GPU that is busy without a record; kernels that end; a step that does not end; a host that waits
//! or computes. What no rule covers is not known, and the sentence states what would tell.

use serde::Serialize;
use stage2_contract::text::numbers::counted;
use stage2_contract::text::{function_name, kernel_name, shorten_kernel};

use stage2_read::trace::operation::is_communication;

use super::evidence::{Evidence, Gpu, Piece, Queue, SilentState, Thread, Work};

/// A GPU that is in use for so large a share does nothing else.
const BUSY_PERCENT: u32 = 95;
/// A kernel that only spins reads and writes no memory to speak of.
const SPINS_PERCENT: u32 = 2;
/// Work that has not ended for so long stands.
const STANDS_MS: u64 = 1_000;
/// A thread that ran for so large a part of the time computes.
const COMPUTES: f64 = 0.5;
const NAME: usize = 70;
/// The collector's thread that answers.
const CONTROL: &str = "stage2-control";
/// A process that stands for less may only be busy.
const HOLDS_UP_MS: u64 = 2_000;

/// What stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// Work on the GPU does not end.
    Gpu,
    /// A collective waits for a rank.
    Collective,
    /// Threads wait for each other.
    Deadlock,
    /// A step does not end, and no work on the GPU is known to be unfinished.
    Step,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// It has ended.
    Gone,
    /// It does not answer, or its collector does not know why.
    Silent,
    /// The host computes.
    Host,
    /// The host waits, and no work is unfinished.
    Waits,
    /// Kernels end.
    Runs,
    Unknown,
}

/// The conclusion, of one process or of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Verdict {
    pub(super) kind: Kind,
    /// Without a full stop.
    pub(super) sentence: String,
}

#[derive(Clone, Debug)]
pub(super) struct Verdicts {
    pub(super) all: Verdict,
    pub(super) processes: Vec<Verdict>,
}

pub(super) fn of(all: &[Evidence]) -> Verdicts {
    let processes: Vec<Verdict> = all.iter().map(of_process).collect();
    let of_all = of_ranks(all).unwrap_or_else(|| most_telling(all, &processes));
    Verdicts { all: of_all, processes }
}

/// The sentence of the process that explains most, with its number where there are several.
fn most_telling(all: &[Evidence], verdicts: &[Verdict]) -> Verdict {
    let weight = |kind: Kind| match kind {
        Kind::Collective => 0,
        Kind::Stopped => 1,
        Kind::Gone => 2,
        Kind::Deadlock => 3,
        Kind::Gpu => 4,
        Kind::Step => 5,
        Kind::Silent => 6,
        Kind::Host => 7,
        Kind::Unknown => 8,
        Kind::Waits => 9,
        Kind::Runs => 10,
    };
    let first = all.iter().zip(verdicts).min_by_key(|(_, verdict)| weight(verdict.kind));
    match first {
        Some((evidence, verdict)) if all.len() > 1 => Verdict {
            kind: verdict.kind,
            sentence: format!("{}: {}", called(evidence), verdict.sentence),
        },
        Some((_, verdict)) => verdict.clone(),
        None => Verdict { kind: Kind::Unknown, sentence: "no process was asked".to_owned() },
    }
}

/// `rank 3 (process 123)`.
pub(super) fn called(evidence: &Evidence) -> String {
    let pid = evidence.process.pid;
    match (evidence.process.rank, evidence.process.title.as_str()) {
        (Some(rank), _) => format!("rank {rank} (process {pid})"),
        (None, "") => format!("process {pid}"),
        (None, title) => format!("process {pid} ({title})"),
    }
}

/// Why CUPTI must not be started in a dormant process: its start would not return until the kernel ends, and launches
/// on other streams would hang with it.
pub(super) fn holds_up_cupti(evidence: &Evidence) -> Option<String> {
    if evidence.silent.is_some() || evidence.work.is_some() {
        return None;
    }
    let verdict = of_busy_gpu(evidence)?;
    let own = gpus_of(evidence);
    let is_short = |ms: Option<u64>| ms.is_some_and(|ms| ms < HOLDS_UP_MS);
    if own.iter().all(|gpu| is_short(gpu.busy_ms) || is_short(gpu.quiet_ms)) {
        return None;
    }
    let thread = principal(evidence)?;
    let waits = cuda_call(thread, evidence).is_some() || synchronizes(thread);
    (waits && thread.same_stack != Some(false)).then_some(verdict.sentence)
}

fn of_process(evidence: &Evidence) -> Verdict {
    let mut verdict = of_evidence(evidence);
    if let Some(xid) = evidence.xid.last() {
        verdict.sentence.push_str(&format!("; the driver told an error: {xid}"));
    }
    verdict
}

fn of_evidence(evidence: &Evidence) -> Verdict {
    let told = of_silent(evidence)
        .or_else(|| of_unfinished(evidence))
        .or_else(|| of_gil(evidence))
        .or_else(|| of_busy_gpu(evidence))
        .or_else(|| of_ending(evidence))
        .or_else(|| of_overdue(evidence));
    told.unwrap_or_else(|| of_host(evidence))
}

fn of_silent(evidence: &Evidence) -> Option<Verdict> {
    let silent = evidence.silent.as_ref()?;
    let (kind, sentence) = match silent.state {
        SilentState::Stopped => (
            Kind::Stopped,
            "it is stopped (state T: SIGSTOP, or a debugger); `kill -CONT` lets it go on"
                .to_owned(),
        ),
        SilentState::Gone => (Kind::Gone, format!("it has ended ({})", silent.why)),
        SilentState::Zombie => {
            (Kind::Gone, "it has ended, and its parent has not taken notice".to_owned())
        }
        SilentState::Older => (Kind::Silent, silent.why.clone()),
        SilentState::Mute => {
            let deep: Vec<&Thread> =
                evidence.threads.iter().filter(|thread| thread.letter == "D").collect();
            let own = evidence.threads.iter().find(|thread| thread.name == CONTROL);
            let is_in_lock = own.is_some_and(|thread| thread.state == "lock");
            let why = match deep.first() {
                None if is_in_lock => "not known: it does not answer, because the collector's own thread waits for a \
                     lock: most likely the allocator's, which a thread of the program holds that stands; `gdb -p` \
                     or `eu-stack -p` show that thread"
                    .to_owned(),
                Some(thread) => format!(
                    "not known: it does not answer; thread {} is in an uninterruptible wait of the kernel{}",
                    thread_name(thread, evidence),
                    place_in_kernel(thread)
                ),
                None => {
                    let main = evidence.threads.iter().find(|thread| evidence.is_main(thread.tid));
                    let main = main.map_or(String::new(), |thread| {
                        format!("; thread {} {}", thread_name(thread, evidence), doing(thread, evidence))
                    });
                    format!("not known: it does not answer: {}{main}", silent.why)
                }
            };
            (Kind::Silent, why)
        }
    };
    Some(Verdict { kind, sentence })
}

fn place_in_kernel(thread: &Thread) -> String {
    if thread.waits_in.is_empty() { String::new() } else { format!(" ({})", thread.waits_in) }
}

/// The GPUs of the process: those that NVML names, else all.
fn gpus_of(evidence: &Evidence) -> Vec<&Gpu> {
    let own: Vec<&Gpu> = evidence.gpus.iter().filter(|gpu| gpu.own == Some(true)).collect();
    if own.is_empty() { evidence.gpus.iter().collect() } else { own }
}

/// How busy its busiest GPU is, percent.
fn busy_percent(evidence: &Evidence) -> Option<u32> {
    gpus_of(evidence).iter().filter_map(|gpu| gpu.gpu_percent).max()
}

/// The stream whose work has stood for longest.
fn standing(work: &Work) -> Option<(&Queue, &Piece)> {
    let all =
        work.queues.iter().filter_map(|queue| Some((queue, queue.first_unfinished.as_ref()?)));
    all.max_by_key(|(queue, _)| since_last(queue).unwrap_or(u64::MAX))
}

fn since_last(queue: &Queue) -> Option<u64> {
    queue.last_finished.as_ref().and_then(|last| last.ended_ms_ago)
}

pub(super) fn kernel(name: &str) -> String {
    let demangled = kernel_name(name.as_bytes()).demangled;
    shorten_kernel(&demangled, NAME)
}

pub(super) fn is_collective(name: &str) -> bool {
    is_communication(name.as_bytes())
}

fn of_unfinished(evidence: &Evidence) -> Option<Verdict> {
    let work = evidence.work.as_ref()?;
    let (queue, first) = standing(work)?;
    // No record tells of its end, if nothing was launched behind it.
    if first.seen_ms_ago.is_some_and(|ms| ms >= 2 * STANDS_MS)
        && busy_percent(evidence).is_some_and(|percent| percent < BUSY_PERCENT / 2)
    {
        return None;
    }
    let what = if is_collective(&first.name) { "the collective" } else { "kernel" };
    let mut text = format!("{what} `{}` on stream {}", kernel(&first.name), queue.stream);
    if let (Some(graph), Some(node)) = (first.graph, first.node) {
        text.push_str(&format!(" (node {node} of graph {graph})"));
    }
    // Since it was first seen unfinished; at most since the end of what ran before.
    let seen_ms = first.seen_ms_ago.unwrap_or(0);
    let call_ms = work.calls.iter().map(|call| call.ms).max().unwrap_or(0);
    let since_ms = since_last(queue);
    let least_ms = seen_ms.max(call_ms.min(since_ms.unwrap_or(u64::MAX)));
    let is_busy = busy_percent(evidence);
    let stands = least_ms >= STANDS_MS
        || (since_ms.is_none_or(|ms| ms >= STANDS_MS)
            && is_busy.is_none_or(|percent| percent >= BUSY_PERCENT));
    if !stands {
        let busy = is_busy.map_or(String::new(), |percent| {
            format!(", and the GPU was busy for only {percent} % of the last moment")
        });
        let text = format!(
            "nothing is known to be stuck: {text} is running, and may have just begun{busy}; ask again in some \
             seconds, which tells whether it has ended"
        );
        return Some(Verdict { kind: Kind::Unknown, sentence: text });
    }
    text.push_str(" has not ended");
    match (since_ms, least_ms) {
        (Some(since), least) if least >= STANDS_MS && least + 500 < since => {
            text.push_str(&format!(" for {} to {}", seconds(least), seconds(since)));
        }
        (Some(since), _) => {
            text.push_str(&format!(": nothing has ended on this stream for {}", seconds(since)))
        }
        (None, least) if least >= STANDS_MS => {
            text.push_str(&format!(" for at least {}", seconds(least)));
        }
        (None, _) => text.push_str(", and nothing has ended before it on this stream"),
    }
    if !first.path.is_empty() {
        text.push_str(&format!(" (launched in {})", first.path));
    }
    let behind = queue.unfinished.saturating_sub(1);
    if behind > 0 {
        let verb = if behind == 1 { "waits" } else { "wait" };
        text.push_str(&format!(", {behind} more {verb} behind it"));
    }
    if let Some(held) = gil_held(evidence) {
        text.push_str(&format!(
            "; {held}: a deadlock, if the thread that waits for the GIL is to let the kernel end"
        ));
    } else if let Some(waits) = who_waits(evidence) {
        text.push_str(&format!("; {waits}"));
    }
    let sentence = format!("work on the GPU stands: {text}");
    let kind = if is_collective(&first.name) { Kind::Collective } else { Kind::Gpu };
    Some(Verdict { kind, sentence })
}

/// `MainThread holds the GIL and waits in ..., and 2 threads wait for the GIL`.
fn gil_held(evidence: &Evidence) -> Option<String> {
    let holder = evidence.threads.iter().find(|thread| {
        thread.holds_gil
            && evidence.threads.iter().any(|other| other.gil_holder == Some(thread.tid))
    })?;
    let waiting: Vec<&Thread> =
        evidence.threads.iter().filter(|other| other.gil_holder == Some(holder.tid)).collect();
    if holder.same_stack == Some(false) {
        return None;
    }
    let others = match &waiting[..] {
        [one] => format!(
            "thread {} waits for the GIL{}",
            thread_name(one, evidence),
            line_of(one).map_or(String::new(), |line| format!(" at {line}"))
        ),
        many => format!("{} threads wait for the GIL", many.len()),
    };
    Some(format!(
        "thread {} holds the GIL and {}, and {others}",
        thread_name(holder, evidence),
        doing(holder, evidence)
    ))
}

fn of_gil(evidence: &Evidence) -> Option<Verdict> {
    let held = gil_held(evidence)?;
    let holder = evidence.threads.iter().find(|thread| thread.holds_gil)?;
    if computes(holder, evidence) && cuda_call(holder, evidence).is_none() {
        let sentence = format!("the host is held up: {held}");
        return Some(Verdict { kind: Kind::Host, sentence });
    }
    let sentence = format!("a deadlock: {held}");
    Some(Verdict { kind: Kind::Deadlock, sentence })
}

/// Nothing is recorded, or no record came, and the GPU is busy without memory traffic.
fn of_busy_gpu(evidence: &Evidence) -> Option<Verdict> {
    let ends = evidence.work.as_ref().is_some_and(|work| !work.forced && work.not_forced.is_none());
    if ends {
        return None;
    }
    let spins = |gpu: &&Gpu| {
        gpu.gpu_percent.is_some_and(|percent| percent >= BUSY_PERCENT)
            && gpu.memory_percent.is_some_and(|percent| percent <= SPINS_PERCENT)
    };
    let gpu = gpus_of(evidence).into_iter().find(spins)?;
    let waits = who_waits(evidence)?;
    let lasts_ms = gpu.busy_ms.zip(gpu.quiet_ms).map_or(0, |(busy, quiet)| busy.min(quiet));
    let lasts = match lasts_ms {
        STANDS_MS.. => format!(" for at least {}", seconds(lasts_ms)),
        _ => String::new(),
    };
    let is_foreign = gpu.own != Some(true);
    let whose = if is_foreign { ", if it is this process that uses it" } else { "" };
    let name = match &evidence.work {
        Some(work) if work.restricted => {
            "its name is not known, because only some ranges are recorded"
        }
        Some(_) => "no record tells its name",
        None if evidence.process.phase == "on" => {
            "its name is not known, because the records had not come when the answer had to"
        }
        None => "its name is not known, because nothing was recorded",
    };
    let sentence = format!(
        "a kernel has been running{lasts} that moves no data: GPU {} is {} % busy with {} % memory traffic{whose}; \
         {name}; {waits}",
        gpu.index,
        gpu.gpu_percent.unwrap_or(0),
        gpu.memory_percent.unwrap_or(0)
    );
    Some(Verdict { kind: Kind::Gpu, sentence })
}

fn of_ending(evidence: &Evidence) -> Option<Verdict> {
    let work = evidence.work.as_ref().filter(|work| !work.forced)?;
    let last = work.queues.iter().filter_map(|queue| queue.last_finished.as_ref());
    let last = last.min_by_key(|last| last.ended_ms_ago.unwrap_or(u64::MAX))?;
    let ago = last.ended_ms_ago.filter(|ago| *ago < STANDS_MS)?;
    let sentence = format!(
        "nothing is stuck: kernels end, the last one (`{}`) {ago} ms ago",
        kernel(&last.name)
    );
    Some(Verdict { kind: Kind::Runs, sentence })
}

/// A range in which work was launched each time has been open for much longer than ever before: the host stands
/// between launches.
fn of_overdue(evidence: &Evidence) -> Option<Verdict> {
    let ranges = evidence.work.iter().flat_map(|work| &work.open_ranges);
    let stands = ranges.filter(|range| range.overdue && range.open_ms >= STANDS_MS);
    // Of ranges that are open within each other, the innermost one says most.
    let range = stands.min_by_key(|range| range.open_ms)?;
    let mut sentence = format!(
        "a step does not end, and no work on the GPU is known to be unfinished: range {} has been open for {}, the {} \
         before it for {} at most",
        range.path,
        seconds(range.open_ms),
        range.earlier,
        seconds(range.longest_ms)
    );
    let thread = evidence.threads.iter().find(|thread| Some(thread.tid) == range.tid);
    if let Some(thread) = thread {
        let doing = doing(thread, evidence);
        sentence.push_str(&format!("; thread {} {doing}", thread_name(thread, evidence)));
    }
    Some(Verdict { kind: Kind::Step, sentence })
}

/// No work is known to be unfinished: what the host does.
fn of_host(evidence: &Evidence) -> Verdict {
    let gpu = match (&evidence.work, busy_percent(evidence)) {
        (Some(work), _) if work.forced && work.unfinished == 0 => {
            let since = work.queues.iter().filter_map(since_last).min();
            let since = since
                .map_or(String::new(), |ms| format!(" (the last work ended {} ago)", seconds(ms)));
            format!("no work on the GPU is unfinished{since}")
        }
        (_, Some(0)) => "the GPU is idle".to_owned(),
        (_, Some(percent)) => format!("the GPU is {percent} % busy"),
        (_, None) => "what the GPU does is not known".to_owned(),
    };
    let range = evidence.work.as_ref().and_then(|work| {
        work.open_ranges.iter().filter(|range| range.of_program).max_by_key(|range| range.open_ms)
    });
    let range = range.map_or(String::new(), |range| {
        format!("; range {} has been open for {}", range.path, seconds(range.open_ms))
    });
    let busiest = evidence.threads.iter().max_by_key(|thread| thread.cpu_us);
    if let Some(thread) = busiest.filter(|thread| computes(thread, evidence)) {
        let moves = match thread.same_stack {
            Some(true) => " (in the same line at both looks)",
            _ => "",
        };
        let sentence = format!(
            "{gpu}: the host computes: thread {} {}{moves}{range}",
            thread_name(thread, evidence),
            doing(thread, evidence)
        );
        return Verdict { kind: Kind::Host, sentence };
    }
    let Some(thread) = principal(evidence) else {
        let what = evidence.missing.first().cloned().unwrap_or_default();
        let sentence = format!("not known: no thread could be looked at ({what})");
        return Verdict { kind: Kind::Unknown, sentence };
    };
    let waits = format!("thread {} {}", thread_name(thread, evidence), doing(thread, evidence));
    let is_idle = matches!(thread.state.as_str(), "poll" | "sleep");
    let (kind, hint) = match thread.state.as_str() {
        _ if cuda_call(thread, evidence).is_some() => (
            Kind::Unknown,
            "which work it waits for is not known: only a process that records tells",
        ),
        _ if is_idle => (Kind::Waits, "it may simply have nothing to do"),
        "lock" => (Kind::Waits, "whether another thread is about to release it is not known"),
        _ => (Kind::Unknown, "asking again tells whether it moves"),
    };
    Verdict { kind, sentence: format!("{gpu}, and the host waits: {waits}{range}; {hint}") }
}

fn computes(thread: &Thread, evidence: &Evidence) -> bool {
    let between_us = evidence.process.between_ms * 1000;
    between_us > 0 && thread.cpu_us as f64 >= COMPUTES * between_us as f64
}

/// The thread that says most of the process: one that is in a call of CUDA, else the main thread.
fn principal(evidence: &Evidence) -> Option<&Thread> {
    let threads = &evidence.threads;
    let in_call = threads.iter().find(|thread| cuda_call(thread, evidence).is_some());
    // A thread that waits for the GPU by spinning is in no call that its stack could show.
    let spins = || threads.iter().find(|thread| synchronizes(thread));
    let main = || threads.iter().find(|thread| evidence.is_main(thread.tid));
    in_call.or_else(spins).or_else(main).or_else(|| threads.first())
}

/// `MainThread waits in cuStreamSynchronize, from sampler.py:88 (step)`.
fn who_waits(evidence: &Evidence) -> Option<String> {
    let thread = principal(evidence)?;
    Some(format!("thread {} {}", thread_name(thread, evidence), doing(thread, evidence)))
}

pub(super) fn thread_name(thread: &Thread, evidence: &Evidence) -> String {
    if evidence.is_main(thread.tid) {
        format!("{} (main)", thread.name)
    } else {
        format!("{} ({})", thread.name, thread.tid)
    }
}

/// What a thread does, and where: `waits in cuStreamSynchronize, from sampler.py:88 (step)`.
pub(super) fn doing(thread: &Thread, evidence: &Evidence) -> String {
    let mut text = match (cuda_call(thread, evidence), thread.state.as_str()) {
        (Some(call), _) => format!("waits in {call}"),
        (None, "running" | "runnable") if synchronizes(thread) => {
            "waits for the GPU (it spins in a call that synchronizes)".to_owned()
        }
        (None, "running" | "runnable") => {
            let share = match evidence.process.between_ms {
                0 => String::new(),
                ms => format!(" ({} % of a processor)", (thread.cpu_us / 10 / ms).min(100)),
            };
            format!("runs{share}")
        }
        (None, "lock") => "waits for a lock".to_owned(),
        (None, "gil") => "waits for the GIL".to_owned(),
        (None, "sleep") => "sleeps".to_owned(),
        (None, "poll") => "waits for input or output".to_owned(),
        (None, "driver") => "waits for the driver".to_owned(),
        (None, _) => format!("waits{}", place_in_kernel(thread)),
    };
    if let Some(line) = line_of(thread) {
        text.push_str(&format!(" at {line}"));
    } else if cuda_call(thread, evidence).is_none()
        && let Some(frame) = thread.native.iter().find(|frame| !is_wait(frame))
    {
        text.push_str(&format!(" in {}", native(frame)));
    }
    text
}

/// `function library`, with the function as its source has it.
pub(super) fn native(frame: &str) -> String {
    match frame.rsplit_once(' ') {
        Some((name, library)) => {
            format!("{} ({library})", shorten_kernel(&function_name(name.as_bytes()), NAME))
        }
        None => frame.to_owned(),
    }
}

/// Functions of the C library that every wait ends in.
fn is_wait(frame: &str) -> bool {
    let library = frame.rsplit(' ').next().unwrap_or_default();
    library.starts_with("libc.so")
        || library.starts_with("libpthread")
        || library.starts_with("ld-")
}

/// The call of CUDA or of NCCL that a thread is in, with its length where it is known.
fn cuda_call(thread: &Thread, evidence: &Evidence) -> Option<String> {
    let calls = evidence.work.iter().flat_map(|work| &work.calls);
    let told = calls.filter(|call| call.tid == Some(thread.tid)).max_by_key(|call| call.ms);
    if let Some(call) = told.filter(|call| call.ms > 50) {
        return Some(format!("{} (for {})", call.name, seconds(call.ms)));
    }
    let of_cuda = |frame: &&String| {
        let name = frame.split(' ').next().unwrap_or_default();
        let rest = name.strip_prefix("cuda").or_else(|| name.strip_prefix("cu"));
        let rest = rest.or_else(|| name.strip_prefix("nccl"));
        rest.and_then(|rest| rest.chars().next()).is_some_and(|c| c.is_ascii_uppercase())
    };
    // The outermost one is what the program has called.
    let frame = thread.native.iter().rev().find(of_cuda);
    let in_driver = || {
        let is_driver = |frame: &&String| frame.contains("libcuda.so");
        thread.native.iter().find(is_driver).map(|_| "a call of the driver".to_owned())
    };
    frame.map(|frame| frame.split(' ').next().unwrap_or_default().to_owned()).or_else(in_driver)
}

/// Whether it is in one of the frameworks' functions that wait for the GPU.
fn synchronizes(thread: &Thread) -> bool {
    let innermost = thread.python.first().map_or("", String::as_str);
    let (function, place) = innermost.split_once(' ').unwrap_or_default();
    let name = function.rsplit('.').next().unwrap_or(function);
    let is_framework = ["/torch/", "/cupy/", "/jax/"].iter().any(|part| place.contains(part));
    thread.same_stack != Some(false) && is_framework && name == "synchronize"
}

/// The line of Python that says most: the innermost one that is not of a package, else the innermost one.
pub(super) fn line_of(thread: &Thread) -> Option<String> {
    let is_own = |frame: &&String| {
        !frame.contains("/site-packages/")
            && !frame.contains("/dist-packages/")
            && !frame.contains("/lib/python")
            && !frame.contains("<frozen")
    };
    let frame = thread.python.iter().find(is_own).or_else(|| thread.python.first())?;
    let (function, place) = frame.split_once(' ')?;
    let place = place.rsplit('/').next().unwrap_or(place);
    Some(format!("{place} ({function})"))
}

pub(super) fn seconds(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..100_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        _ => format!("{} min", ms / 60_000),
    }
}

/// Of several processes: which one did not enter the collective that the others wait in.
fn of_ranks(all: &[Evidence]) -> Option<Verdict> {
    if all.len() < 2 {
        return None;
    }
    let collective = |evidence: &Evidence| {
        let (queue, first) = standing(evidence.work.as_ref()?)?;
        is_collective(&first.name).then(|| (first.clone(), queue.clone()))
    };
    let waiting: Vec<(&Evidence, Piece, Queue)> = all
        .iter()
        .filter_map(|evidence| collective(evidence).map(|(first, queue)| (evidence, first, queue)))
        .collect();
    if waiting.is_empty() {
        return of_ranks_by_gpu(all);
    }
    // Processes of several hosts may have the same number.
    let is_waiting =
        |evidence: &Evidence| waiting.iter().any(|(other, _, _)| std::ptr::eq(*other, evidence));
    // An engine has processes that take no part: they use no GPU.
    let takes_part = |evidence: &&Evidence| {
        let process = &evidence.process;
        evidence.silent.is_some() || process.cuda || process.rank.is_some()
    };
    let mut away: Vec<&Evidence> =
        all.iter().filter(|evidence| !is_waiting(evidence)).filter(takes_part).collect();
    away.sort_by_key(|evidence| {
        let state = evidence.silent.as_ref().map(|silent| silent.state);
        let is_lost = !matches!(state, None | Some(SilentState::Older));
        let queues = evidence.work.iter().flat_map(|work| &work.queues);
        let joins = queues.map(|queue| queue.collectives).sum::<u64>() > 0;
        (!is_lost, !joins)
    });
    let (_, first, queue) = waiting.first()?;
    let names: Vec<String> = waiting.iter().map(|(evidence, _, _)| called(evidence)).collect();
    let since = since_last(queue).map_or(String::new(), |ms| format!(" for {}", seconds(ms)));
    let what = format!("`{}`", kernel(&first.name));
    if let Some(missing) = away.first() {
        let others = match away.len() {
            1 => String::new(),
            2 => " (and 1 other)".to_owned(),
            more => format!(" (and {} others)", more - 1),
        };
        let verb = if names.len() == 1 { "waits" } else { "wait" };
        if let Some(silent) = missing.silent.as_ref().filter(|_| missing.is_gone()) {
            let sentence = format!(
                "{}{others} has ended; {} {verb} in the collective {what}, number {} of its stream since \
                 recording began{since}: {}",
                called(missing),
                names.join(", "),
                number_of(queue),
                silent.why
            );
            return Some(Verdict { kind: Kind::Collective, sentence });
        }
        let sentence = format!(
            "{}{others} did not enter the collective {what} that {} {} in{since}: {}",
            called(missing),
            names.join(", "),
            verb,
            of_process(missing).sentence
        );
        return Some(Verdict { kind: Kind::Collective, sentence });
    }
    let counts = waiting.iter().map(|(_, _, queue)| number_of(queue));
    let (least, most) = (counts.clone().min()?, counts.max()?);
    if least < most {
        let behind = waiting.iter().find(|(_, _, queue)| number_of(queue) == least)?;
        let sentence = format!(
            "all ranks wait in collectives, and not in the same one: {} waits in its number {least} \
             (`{}`), others in number {most}, counted since recording began",
            called(behind.0),
            kernel(&behind.1.name)
        );
        return Some(Verdict { kind: Kind::Collective, sentence });
    }
    let sentence = format!(
        "all {} wait in the collective {what}{since}, and each has entered it (number {most} since recording began): \
         what is missing is not a rank here; ranks on other hosts, the network and NCCL's log would tell",
        counted(all.len() as u64, "process")
    );
    Some(Verdict { kind: Kind::Collective, sentence })
}

/// The number of the first unfinished collective of a stream: those behind it have been launched as well.
fn number_of(queue: &Queue) -> u64 {
    let unfinished = queue.unfinished_names.iter().filter(|of| is_collective(&of.name));
    let unfinished: u64 = unfinished.map(|of| of.count).sum();
    (queue.collectives + 1).saturating_sub(unfinished.max(1))
}

/// Nothing is recorded, and one GPU is idle while others are busy without memory traffic.
fn of_ranks_by_gpu(all: &[Evidence]) -> Option<Verdict> {
    let spins = |evidence: &&Evidence| {
        evidence.work.is_none()
            && gpus_of(evidence).len() == 1
            && gpus_of(evidence).iter().all(|gpu| {
                gpu.gpu_percent.is_some_and(|percent| percent >= BUSY_PERCENT)
                    && gpu.memory_percent.is_some_and(|percent| percent <= SPINS_PERCENT)
            })
    };
    let waiting: Vec<&Evidence> = all.iter().filter(spins).collect();
    let silent = |evidence: &&Evidence| {
        let silent = evidence.silent.as_ref();
        silent.is_some_and(|silent| silent.state != SilentState::Older)
    };
    let idle = |evidence: &&Evidence| {
        silent(evidence) || (evidence.silent.is_none() && busy_percent(evidence) == Some(0))
    };
    let lost = |evidence: &&Evidence| silent(evidence) && idle(evidence);
    let away = all.iter().find(lost).or_else(|| all.iter().find(idle))?;
    if waiting.is_empty() {
        return None;
    }
    let names: Vec<String> = waiting.iter().map(|evidence| called(evidence)).collect();
    let sentence = format!(
        "{} seems to be what {} {} for, on GPUs that are busy without memory traffic (without records, whether \
         this is a collective is not known): {}",
        called(away),
        names.join(", "),
        if names.len() == 1 { "waits" } else { "wait" },
        of_process(away).sentence
    );
    Some(Verdict { kind: Kind::Collective, sentence })
}

#[cfg(test)]
mod tests;
