//! Facts about forked children and about payloads that could not be read -> notes.

use stage2_figures::text::visible;

use crate::finding::{Finding, Severity};
use crate::load::ProcessCapture;
use crate::report::numbers::count;

/// Meta key of a forked child: why it could not be recorded.
pub(super) const META_UNRECORDED: &str = "fork.unrecorded";
/// Meta key of a parent: how many processes it forked after it had initialised CUDA.
pub(super) const META_AFTER_CUDA: &str = "forks.after_cuda";
/// Meta key: fields of NVTX payloads that were left out.
const META_FIELDS_LEFT_OUT: &str = "ranges.fields_left_out";

/// How many children of these processes were forked after CUDA was initialised.
pub(super) fn after_cuda(captures: &[ProcessCapture]) -> u64 {
    sum(captures, META_AFTER_CUDA)
}

/// What the trace files say of children and payloads.
pub(super) fn findings(captures: &[ProcessCapture]) -> Vec<Finding> {
    let mut notes: Vec<Finding> = captures.iter().filter_map(unrecorded).collect();
    let children = after_cuda(captures);
    if children > 0 {
        notes.push(Finding::new(
            Severity::Note,
            format!("processes forked after their parent had initialised CUDA: {}", count(children)),
            "CUDA does not work in such a process unless it execs, so no GPU work of theirs is here",
            "if they should use the GPU, fork them before the parent uses CUDA, or start them with \
             the method `spawn`",
        ));
    }
    let fields = sum(captures, META_FIELDS_LEFT_OUT);
    if fields > 0 {
        notes.push(Finding::new(
            Severity::Note,
            format!("fields of NVTX payloads left out: {}", count(fields)),
            "they lie behind pointers, in arrays or unions, or beyond what is kept of a payload",
            "nothing, unless bytes of collectives are missing; then report it",
        ));
    }
    notes
}

fn unrecorded(capture: &ProcessCapture) -> Option<Finding> {
    let why = visible(capture.meta.get(META_UNRECORDED)?.as_bytes());
    let what = format!("{}: a forked child of which not everything is recorded", capture.file);
    let remedy = "fork it before the parent uses CUDA, or start it with the method `spawn`";
    Some(Finding::new(Severity::Note, what, why, remedy))
}

/// The sum of a count over all files; what is no number counts as nothing.
fn sum(captures: &[ProcessCapture], key: &str) -> u64 {
    let counts = captures.iter().filter_map(|capture| capture.meta.get(key)?.parse::<u64>().ok());
    counts.fold(0, u64::saturating_add)
}
