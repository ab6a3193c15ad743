//! A report on a part of what ran -> its whole-run numbers, and what its numbers are over, in words.

use stage2_model::Report;

/// Kernels of the run: of a sample, scaled to all instances.
pub fn kernels(report: &Report) -> u64 {
    report.devices.iter().map(|row| row.kernels).fold(0, u64::saturating_add)
}

/// What the numbers of stages are over; nothing where everything was recorded.
pub fn stages(report: &Report) -> Option<String> {
    let mut out = collected(report)?;
    if report.is_sampled() {
        out.push_str(
            "GPU window, busy and idle are over the recorded instances; kernels and their sums are \
             scaled to all. ",
        );
    }
    out.push_str(
        "Where no instance was recorded, GPU numbers are those of the ranges within that were, or \
         absent.",
    );
    Some(out)
}

/// What the numbers of operators are over; nothing where everything was recorded.
pub fn operators(report: &Report) -> Option<String> {
    let mut out = collected(report)?;
    out.push_str("GPU times leave out what was not; calls and host times are those of all.");
    Some(out)
}

/// What the numbers of the whole run are over; nothing where everything was recorded.
pub fn whole_run(report: &Report) -> Option<String> {
    let mut out = collected(report)?;
    if report.is_sampled() {
        out.push_str("Kernels are scaled from the recorded instances to all. ");
    }
    out.push_str(
        "How long a GPU was busy or idle in all is not known: a part of its work was not recorded.",
    );
    Some(out)
}

/// Which GPU work was recorded.
fn collected(report: &Report) -> Option<String> {
    let ranges = report.coverage.ranges();
    let mut out = ranges.map(|of| format!("GPU work was collected only in {of}. "));
    if report.is_sampled() {
        *out.get_or_insert_default() += "Only some instances of ranges were recorded. ";
    }
    out
}
