//! Facts about forked children -> notes.

use crate::load::ProcessCapture;
use stage2_model::Finding;
use stage2_text::numbers::count;
use stage2_text::visible;

/// Meta key of a forked child: why it could not be recorded.
pub(crate) const META_UNRECORDED: &str = "fork.unrecorded";
/// Meta key of a parent: how many processes it forked after it had initialised CUDA.
pub(crate) const META_AFTER_CUDA: &str = "forks.after_cuda";

/// How many children of these processes were forked after CUDA was initialised.
pub(crate) fn after_cuda(captures: &[ProcessCapture]) -> u64 {
    sum(captures, META_AFTER_CUDA)
}

/// What the trace files say of children.
pub(crate) fn findings(captures: &[ProcessCapture]) -> Vec<Finding> {
    let mut notes: Vec<Finding> = captures.iter().filter_map(unrecorded).collect();
    let children = after_cuda(captures);
    if children > 0 {
        notes.push(Finding::note(
            format!(
                "processes forked after their parent had initialised CUDA: {}",
                count(children)
            ),
            "CUDA does not work in such a child before it calls exec, so its GPU work is missing",
            "if they should use the GPU, fork them before the parent uses CUDA, or start them with \
             the method `spawn`",
        ));
    }
    notes
}

fn unrecorded(capture: &ProcessCapture) -> Option<Finding> {
    let why = visible(capture.meta.get(META_UNRECORDED)?.as_bytes());
    let what = format!("{}: this forked child was recorded only in part", capture.file);
    let remedy = "fork it before the parent uses CUDA, or start it with the method `spawn`";
    Some(Finding::note(what, why, remedy))
}

/// The sum of a count over all files; what is no number counts as nothing.
pub(crate) fn sum(captures: &[ProcessCapture], key: &str) -> u64 {
    let counts = captures.iter().filter_map(|capture| capture.meta.get(key)?.parse::<u64>().ok());
    counts.fold(0, u64::saturating_add)
}
