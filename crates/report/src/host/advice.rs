//! Known problems of the host that leave the GPU idle, with their remedies. They are recognised from stacks,
//! thread states and the last work of the GPU.

use std::collections::BTreeMap;

use indexmap::IndexSet;
use stage2_contract::order::Order as _;
use stage2_contract::text::capitalised;
use stage2_contract::text::numbers::percent1;
use stage2_contract::trace::HostState;
use stage2_model::rule::HOST_FAULT_PERCENT;
use stage2_model::{
    HOST_ERRORS_LEAST, HostAdvice, HostAdviceKind, HostCause, HostCauseKind, HostFrame,
};
use stage2_read::host_cause::Calls;
use stage2_read::trace::host::{After, Cause, Sum};
use stage2_read::trace::host_calls::BlockedTime;

use super::{Part, Shares};

/// The most lines of one problem.
const ROWS: usize = 1 << 10;

/// The idle time with signs of each known problem.
#[derive(Debug, Default)]
pub(super) struct Signs(BTreeMap<HostAdviceKind, Sign>);

#[derive(Debug, Default)]
struct Sign {
    sum: Sum,
    /// Time in calls, which is exact.
    exact: BlockedTime,
    /// By the line that is responsible, ns.
    rows: BTreeMap<u32, u64>,
}

impl Sign {
    fn add_row(&mut self, row: Option<u32>, ns: u64) {
        if let Some(row) = row.filter(|row| self.rows.len() < ROWS || self.rows.contains_key(row)) {
            let known = self.rows.entry(row).or_default();
            *known = known.saturating_add(ns);
        }
    }
}

impl Signs {
    /// Adds samples of one cause. `calls` is the stack of the launching thread, and `row` the responsible
    /// line.
    pub(super) fn add(
        &mut self,
        cause: &Cause,
        kind: HostCauseKind,
        calls: &Calls<'_>,
        row: Option<u32>,
        sum: &Sum,
    ) {
        let Some(kind) = fault(cause, kind, calls) else { return };
        let sign = self.0.entry(kind).or_default();
        sign.sum.add(sum);
        sign.add_row(row, sum.ns);
    }

    /// Of the time in calls of a function, with the line that makes them: what allocates, frees or loads.
    pub(super) fn add_call(&mut self, call: &str, row: Option<u32>, time: &BlockedTime) {
        let waits = call.ends_with("Synchronize") || call.starts_with("cuMemcpy");
        if !waits && call.starts_with("cu") && !call.starts_with("cuGraph") {
            let sign = self.0.entry(HostAdviceKind::Allocation).or_default();
            sign.exact.add(time);
            sign.add_row(row, time.ns);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (kind, more) in other.0 {
            let sign = self.0.entry(kind).or_default();
            sign.sum.add(&more.sum);
            sign.exact.add(&more.exact);
            more.rows.into_iter().for_each(|(row, ns)| sign.add_row(Some(row), ns));
        }
    }
}

/// Returns the problem that a sample shows. A preceding copy counts only if nothing else explains the
/// sample.
fn fault(cause: &Cause, kind: HostCauseKind, calls: &Calls<'_>) -> Option<HostAdviceKind> {
    let runs = kind.is_code();
    // While the GPU is idle, a driver call does not wait for it: it allocates, frees or loads.
    let allocates = cause.state == HostState::Driver || (runs && calls.frees());
    match kind {
        HostCauseKind::OtherWork | HostCauseKind::Unknown => None,
        HostCauseKind::NotScheduled => Some(HostAdviceKind::Starved),
        HostCauseKind::Gil => Some(HostAdviceKind::Gil),
        _ if allocates => Some(HostAdviceKind::Allocation),
        _ if calls.logs() => Some(HostAdviceKind::Logging),
        _ if runs && calls.tokenises() => Some(HostAdviceKind::Tokenisation),
        _ => match cause.after {
            _ if !runs => None,
            After::Other => None,
            After::Value => Some(HostAdviceKind::Item),
            After::Copy => Some(HostAdviceKind::Copy),
            After::Nonzero => Some(HostAdviceKind::Nonzero),
        },
    }
}

/// Faults with a notable share of the idle time, the largest first.
pub(super) fn advice(
    part: &Part,
    shares: &Shares,
    frames: &IndexSet<HostFrame>,
) -> Vec<HostAdvice> {
    let waits = part.before_copies.iter().max_by_key(|(_, sum)| sum.ns);
    let waits = waits.and_then(|(frame, _)| frames.get_index(*frame as usize));
    let mut found = Vec::new();
    for (&kind, sign) in &part.signs.0 {
        let (percent, error_percent) = shares.share(&sign.sum, &sign.exact, part);
        if percent < HOST_FAULT_PERCENT || percent < error_percent * HOST_ERRORS_LEAST {
            continue;
        }
        let most = sign.rows.iter().max_by_key(|(_, ns)| **ns);
        let most = most.and_then(|(row, _)| frames.get_index(*row as usize));
        let (text, remedy) = said(kind, waits);
        let share = format!("{} ± {} %", percent1(percent), percent1(error_percent));
        let text = format!("{share} of the idle time {text}");
        let frame = most.cloned();
        found.push(HostAdvice { kind, percent, error_percent, frame, text, remedy });
    }
    found.order_by(|a: &HostAdvice, b| b.percent.total_cmp(&a.percent).then(a.kind.cmp(&b.kind)));
    found
}

/// Returns what was observed, as the rest of a sentence about a share of the idle time, and the remedy.
/// `waits`: the line that most likely waits for copies to the host.
fn said(kind: HostAdviceKind, waits: Option<&HostFrame>) -> (String, String) {
    let at = waits.map_or_else(String::new, |frame| format!(", for which {} waits", frame.short()));
    let (text, remedy) = match kind {
        HostAdviceKind::Item => (
            format!("follows a copy of a single value to the host{at}"),
            "Do not read single values from the GPU between launches (.item(), int(), bool(), if tensor): \
             keep the value in a tensor, read it a step later, or read many at once.",
        ),
        HostAdviceKind::Copy => (
            format!("follows a copy to the host{at}"),
            "Do not wait for copies to the host between launches (.cpu(), .tolist(), .numpy()): copy into \
             pinned memory with non_blocking=True, launch what comes next, and read the result then.",
        ),
        HostAdviceKind::Nonzero => (
            format!("follows an operation whose result size the host has to know{at}"),
            "Do not ask for sizes that depend on data (nonzero, masked indexing, torch.where with one \
             argument, unique): use a mask of fixed size, or torch.where with three arguments.",
        ),
        HostAdviceKind::Allocation => (
            "is spent in the driver, or in freeing memory, while the GPU is idle".to_owned(),
            "Do not allocate and free in the loop: allocate once before it, drop torch.cuda.empty_cache(), \
             pin host memory once, and let PyTorch's allocator keep its memory \
             (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True).",
        ),
        HostAdviceKind::Tokenisation => (
            "is spent in tokenisation or detokenisation on the launching thread".to_owned(),
            "Tokenise and detokenise in another process, so that the launching thread can go on.",
        ),
        HostAdviceKind::Logging => (
            "is spent in Python's logging on the launching thread".to_owned(),
            "Log less in the loop, or pass records to another thread (logging.handlers.QueueHandler).",
        ),
        HostAdviceKind::Starved => (
            "passed while the launching thread was runnable and waited for a processor".to_owned(),
            "Give the process more processors: raise the CPU limit of its container, keep other work off \
             them, and let no library start more threads than there are processors (OMP_NUM_THREADS).",
        ),
        HostAdviceKind::Gil => (
            "passed while the launching thread waited for the GIL".to_owned(),
            "Move the code that holds the GIL to another process (multiprocessing), or into an extension \
             that releases it.",
        ),
    };
    (text, remedy.to_owned())
}

/// The advice that makes every cost of a step count for more tokens.
pub(crate) const MORE_REQUESTS: &str = "Batch more requests per step";

/// The command that shows the functions of a thread, which is called as in reports; of one without a name, those of the
/// process.
fn perf_top(thread: Option<&str>) -> String {
    // A name that the kernel has cut is what perf compares, too.
    let name = thread.map(|thread| thread.trim_end_matches('…'));
    let name = name.filter(|name| !name.is_empty() && *name != "an unknown thread");
    let tid = |name: &str| Some(name.strip_prefix("thread ")?.parse::<u32>().ok()?.to_string());
    match name.map(|name| (name, tid(name))) {
        Some((_, Some(tid))) => format!("perf top -t {tid}"),
        Some((name, None)) => format!("perf top --comms '{}'", name.replace('\'', "'\\''")),
        None => "perf top -p PID".to_owned(),
    }
}

/// Returns what to do about a cause that is not a known problem and is called `name`. A host that never waits for the
/// GPU gains nothing by doing things in another order. `is_own`: it is worth a change of the code, whoever wrote it.
pub(crate) fn remedy(cause: &HostCause, name: &str, never_waits: bool, is_own: bool) -> String {
    let remedy = match cause.kind {
        // One of the many functions that an engine runs in each step.
        _ if !is_own => {
            return format!(
                "{MORE_REQUESTS}, so that the engine's code per step is spread over more tokens, or run the engine on \
                 a faster core."
            );
        }
        HostCauseKind::EngineCode | HostCauseKind::FrameworkCode => {
            return format!(
                "Batch more requests or tokens per step, so that {name} runs less often, or make it faster."
            );
        }
        HostCauseKind::UserCode => {
            let later =
                if never_waits { "" } else { ", run it while the GPU works (launch first)" };
            return format!("Make {name} faster{later}, or move it to another process.");
        }
        HostCauseKind::NativeCode => {
            return format!(
                "Find out what {name} does: {}, or nsys with --sample=process-tree, shows its functions.",
                perf_top(cause.thread.as_deref())
            );
        }
        HostCauseKind::Gil => {
            "move the code that holds the GIL to another process (multiprocessing), or into an extension \
             that releases it."
        }
        HostCauseKind::Lock => {
            "do not let the launching thread wait for other threads, or pass work to them in batches."
        }
        HostCauseKind::CudaCall => {
            "do not wait for the GPU, allocate or load in the loop: launch the next work first."
        }
        HostCauseKind::NotScheduled => {
            "give the process more processors: raise the CPU limit of its container, and keep other work off \
             them."
        }
        HostCauseKind::Requests => "send more requests at once, or use a smaller GPU.",
        HostCauseKind::OtherRank => "find out why the other rank is late: section Ranks names it.",
        HostCauseKind::Sleep => "wait for an event instead of sleeping.",
        HostCauseKind::System => "move input and output to another thread.",
        HostCauseKind::OtherWork => "the GPU works for another stage meanwhile: no time is lost.",
        HostCauseKind::Small | HostCauseKind::Unknown => "record for longer, or sample more often.",
    };
    format!("{}: {remedy}", capitalised(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command of the advice runs as it is printed, if the thread is known.
    #[test]
    fn perf_is_given_the_thread_that_is_known() {
        for (thread, command) in [
            (Some("lane 0"), "perf top --comms 'lane 0'"),
            (Some("fifteen bytes a…"), "perf top --comms 'fifteen bytes a'"),
            (Some("thread 4711"), "perf top -t 4711"),
            (Some("an unknown thread"), "perf top -p PID"),
            (None, "perf top -p PID"),
        ] {
            assert_eq!(perf_top(thread), command);
        }
    }
}
