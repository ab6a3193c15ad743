//! Known faults of a host that lets a GPU idle, recognised from stacks, states and what the GPU did before; and
//! what helps.

use std::collections::BTreeMap;

use indexmap::IndexSet;
use stage2_contract::text::numbers::percent1;
use stage2_contract::trace::HostState;
use stage2_model::rule::HOST_FAULT_PERCENT;
use stage2_model::{
    HOST_ERRORS_LEAST, HostAdvice, HostAdviceKind, HostCause, HostCauseKind, HostFrame,
};
use stage2_read::trace::host::{After, Cause, Sum};
use stage2_read::trace::host_calls::BlockedTime;

use super::stacks::Calls;
use super::{Part, Shares};

/// Lines that are told apart in one fault.
const ROWS: usize = 1 << 10;

/// Idle time with a sign of each known fault.
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
    /// `calls` are those of the thread that launches, and `row` the line that is responsible.
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

/// The fault that a sample shows. What has a cause of its own is none of the copy before it.
fn fault(cause: &Cause, kind: HostCauseKind, calls: &Calls<'_>) -> Option<HostAdviceKind> {
    let runs = kind.is_code();
    // With an idle GPU there is nothing to wait for: a driver that works allocates, frees or loads.
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
    found.sort_by(|a: &HostAdvice, b| b.percent.total_cmp(&a.percent).then(a.kind.cmp(&b.kind)));
    found
}

/// What was seen, to be read after a share of the idle time, and the remedy. `waits`: the line that most
/// likely waits for copies to the host.
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
            format!("follows a result whose size the host has to know{at}"),
            "Do not ask for sizes that depend on data (nonzero, masked indexing, torch.where with one \
             argument, unique): use a mask of fixed size, or torch.where with three arguments.",
        ),
        HostAdviceKind::Allocation => (
            "is spent in the driver, or in freeing memory, while the GPU has nothing to do"
                .to_owned(),
            "Do not allocate and free in the loop: take memory once before it, drop torch.cuda.empty_cache(), \
             pin host memory once, and let PyTorch's allocator keep what it has \
             (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True).",
        ),
        HostAdviceKind::Tokenisation => (
            "is spent on turning text into tokens or back, on the thread that launches".to_owned(),
            "Tokenise and detokenise in another process, so that the thread that launches goes on.",
        ),
        HostAdviceKind::Logging => (
            "is spent in Python's logging, on the thread that launches".to_owned(),
            "Log less in the loop, or hand records to another thread (logging.handlers.QueueHandler).",
        ),
        HostAdviceKind::Starved => (
            "the thread that launches was ready to run and no processor was free".to_owned(),
            "Give the process more processors: raise the CPU limit of its container, keep other work off \
             them, and let no library start more threads than there are processors (OMP_NUM_THREADS).",
        ),
        HostAdviceKind::Gil => (
            "the thread that launches waits for the interpreter's lock".to_owned(),
            "Move what holds the lock out of the process that launches (multiprocessing), or into code that \
             releases it.",
        ),
    };
    (text, remedy.to_owned())
}

/// What to do about a cause that is none of the known faults.
pub(crate) fn remedy(cause: &HostCause) -> &'static str {
    match cause.kind {
        HostCauseKind::UserCode | HostCauseKind::EngineCode | HostCauseKind::FrameworkCode => {
            "Make this line faster, do it while the GPU works (launch first), or move it to another process."
        }
        HostCauseKind::NativeCode => {
            "It is not Python: perf top -t, or nsys with --sample=process-tree, shows its functions."
        }
        HostCauseKind::Gil => {
            "Move what holds the lock out of the process that launches (multiprocessing), or into code that \
             releases it."
        }
        HostCauseKind::Lock => {
            "Let the thread that launches wait for no other, or hand work on in batches."
        }
        HostCauseKind::CudaCall => {
            "Do not wait for the GPU, allocate or load in the loop: launch what comes next first."
        }
        HostCauseKind::NotScheduled => {
            "Give the process more processors: raise the CPU limit of its container, and keep other work off \
             them."
        }
        HostCauseKind::Requests => {
            "The GPU waits for requests: send more at once, or use a smaller GPU."
        }
        HostCauseKind::OtherRank => "Look at the rank that comes late: section Ranks names it.",
        HostCauseKind::Sleep => "Wait for an event in place of sleeping.",
        HostCauseKind::System => "Take input and output off the thread that launches.",
        HostCauseKind::OtherWork => "The GPU works for another stage meanwhile: nothing is lost.",
        HostCauseKind::Small | HostCauseKind::Unknown => "Record for longer, or sample more often.",
    }
}
