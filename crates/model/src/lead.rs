//! What every reader of a report tells first: the stage of the verdict, the kernel that loses most in it, and whether
//! its GPU waits for the host.

use stage2_contract::text::numbers::{grouped, shown_time};

use crate::kernels::{ClassFloor, Loss, class_floors, stage_kernels, steps};
use crate::{BottleneckKind, Report, Rule, StageAnswer};

/// The stages of the answer, that of the verdict first.
pub fn lead_first(report: &Report) -> impl Iterator<Item = &StageAnswer> {
    let lead = verdict_stage(report);
    let is_lead = move |answer: &&StageAnswer| lead.is_some_and(|of| std::ptr::eq(of, *answer));
    lead.into_iter().chain(report.answer.stages.iter().filter(move |answer| !is_lead(answer)))
}

/// If the loss of at least this share of the kernel time of a stage is known, the largest known loss counts as the
/// largest, even where a kernel whose loss is not known takes longer than that.
const KNOWN_LOSS_PERCENT: f64 = 50.0;

/// The kernel of a stage that loses most, with what it loses in a step, or else, also where it may be one whose
/// loss is not known, the longest one of the class that could gain most by `floors`, or of all. Communication may wait most of its
/// time.
pub fn told<'l, 'k>(
    answer: &StageAnswer,
    losses: &'l [Loss<'k>],
    floors: &[ClassFloor],
) -> Option<(&'l Loss<'k>, Option<f64>)> {
    let of_stage = || {
        let rows = losses.iter().filter(|loss| loss.kernel.row.stage == answer.stage);
        rows.filter(|loss| loss.kernel.row.class != "communication")
            .filter_map(|loss| Some((loss, loss.ns_of_step?)))
    };
    let unknown = || of_stage().filter(|(loss, _)| loss.ns_per_step.is_none()).map(|(_, ns)| ns);
    let all_ns = of_stage().map(|(_, ns)| ns).sum::<f64>();
    let is_most_known = unknown().sum::<f64>() * 100.0 <= all_ns * (100.0 - KNOWN_LOSS_PERCENT);
    let longest_unknown = unknown().fold(0.0, f64::max);
    let lost = of_stage().filter_map(|(loss, _)| Some((loss, loss.ns_per_step?)));
    // Another one may lose all of its time.
    let lost = lost.filter(|(_, ns)| *ns > 0.0 && (is_most_known || *ns >= longest_unknown));
    if let Some((loss, ns)) = lost.max_by(|a, b| a.1.total_cmp(&b.1)) {
        return Some((loss, Some(ns)));
    }
    let could_gain =
        |loss: &Loss<'_>| floors.first().is_none_or(|most| most.contains(&loss.kernel.row.class));
    let longest =
        of_stage().filter(|(loss, _)| could_gain(loss)).max_by(|a, b| a.1.total_cmp(&b.1));
    longest.map(|(loss, _)| (loss, None))
}

/// The stage that the verdict is about: the first one whose mean step is divided.
pub fn verdict_stage(report: &Report) -> Option<&StageAnswer> {
    report.answer.stages.iter().find(|answer| {
        let found = answer.bottleneck.as_ref().filter(|found| found.is_of_step());
        found.is_some() && answer.step.is_some()
    })
}

/// `the gemm kernels lose most: up to 0.315 of 0.935 ms per step`, or what all kernels of a stage lose.
/// `None`: no floor is known.
pub fn gain_by_floor(report: &Report, answer: &StageAnswer, unit: &str) -> Option<String> {
    if let Some(most) = floors(report, answer).first() {
        let lost = lost_of(most.above_ns(), most.ns);
        return Some(match most.reads {
            Some(_) => {
                let class = &most.class;
                format!("the {class} kernels lose most: up to {lost} per {unit}")
            }
            None => format!(
                "the kernels that read neither weights nor KV cache lose most: up to {} per {unit}",
                shown_time(most.ns)
            ),
        });
    }
    let found = answer.bottleneck.as_ref().filter(|found| found.is_of_step())?;
    let (ns, over) = (found.kernels()?.ns as f64, found.kernels_over_floor?);
    let lost = lost_of(ns - ns / over, ns);
    Some(format!("the kernels lose up to {lost} per {unit}"))
}

/// [`class_floors`] of a stage.
pub fn floors(report: &Report, answer: &StageAnswer) -> Vec<ClassFloor> {
    let kernels = stage_kernels(report);
    let steps = steps(report);
    let losses: Vec<Loss<'_>> = kernels.iter().map(|kernel| Loss::of(kernel, &steps)).collect();
    class_floors(answer, &losses)
}

/// Which kernel [`told`] tells of where no loss is known.
pub fn longest(report: &Report, answer: &StageAnswer) -> &'static str {
    let mut of_stage = report.kernels.iter().filter(|row| row.stage == answer.stage);
    match floors(report, answer).is_empty() {
        false => "longest of them",
        true if of_stage.any(|row| row.class == "communication") => {
            "longest kernel that does not communicate"
        }
        true => "longest kernel",
    }
}

/// Whether the report found that the GPU did not wait for the host in a stage.
pub fn host_ahead(report: &Report, stage: &str) -> bool {
    let mut found = report.insight.takeaways.iter();
    found.any(|said| said.rule == Rule::HostAhead && said.stage.as_deref() == Some(stage))
}

/// What a stage is bound by, to be read after "bound by": where the host was ahead, its launches were in time.
pub fn bound_by(report: &Report, stage: &str, kind: BottleneckKind) -> &'static str {
    match kind {
        BottleneckKind::Launches if host_ahead(report, stage) => "gaps between kernels",
        kind => kind.label(),
    }
}

/// `0.901 of 2.434 ms`, with the decimals of the table of kernels; short ones in us.
pub fn lost_of(lost_ns: f64, all_ns: f64) -> String {
    match all_ns < 1e5 {
        true => format!("{:.1} of {:.1} us", lost_ns / 1e3, all_ns / 1e3),
        false => grouped(&format!("{:.3} of {:.3} ms", lost_ns / 1e6, all_ns / 1e6)),
    }
}
