//! What repeats in the processes without ranges -> rows of inferred steps, and what to do to have
//! ranges.

use crate::operators::{Annotation, OperatorSettings};
use stage2_model::{
    Before, Finding, InferredStepRow, InferredSteps, Origin, PathKind, Report, Resemblance,
};
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::WholeProcess;
use stage2_read::trace::steps::{Phase, Repeats};

use super::kernels::percent;

/// The steps of all processes that have some.
pub(crate) fn inferred(processes: &[ProcessCapture]) -> Option<InferredSteps> {
    let mut rows: Vec<InferredStepRow> = Vec::new();
    for process in processes {
        let Some(whole) = &process.whole else { continue };
        for of in &whole.repeats {
            rows.extend(of.phases.iter().map(|phase| row(process, whole, of, phase)));
        }
    }
    (!rows.is_empty()).then(|| InferredSteps::of(rows))
}

fn row(
    process: &ProcessCapture,
    whole: &WholeProcess,
    of: &Repeats,
    phase: &Phase,
) -> InferredStepRow {
    let stream = of.queue.map(|queue| match whole.streams.get(&queue) {
        Some((device, stream)) => format!("device {device}, stream {stream}"),
        None => "(stream not known)".to_owned(),
    });
    let launches = phase.steps.saturating_mul(phase.launches_per_step);
    InferredStepRow {
        file: process.file.clone(),
        pid: process.process.as_ref().map(|process| process.pid),
        stream,
        resembles: match phase.follows_longer_work() {
            true => Resemblance::DecodeLike,
            false => Resemblance::Repeating,
        },
        steps: phase.steps,
        at_least: phase.at_least,
        phases: phase.phases,
        steps_per_phase_median: phase.steps_per_phase.median(),
        kernels_per_step: phase.launches_per_step.saturating_sub(phase.graphs_per_step),
        graphs_per_step: phase.graphs_per_step,
        timed_steps: phase.step_times.timed(),
        step_p50_ns: phase.step_times.percentile_ns(50),
        step_p99_ns: phase.step_times.p99_ns(),
        step_mean_ns: phase.step_times.mean_ns(),
        kernel_sum_per_step_ns: phase.kernel_sum_ns.checked_div(phase.steps),
        window_ns: phase.window_ns,
        sequence_percent: percent(launches, of.launches),
        irregular_kernels: phase.irregular_launches,
        before: before(phase),
    }
}

fn before(phase: &Phase) -> Option<Before> {
    let leads = &phase.leads;
    let prefill_like = phase.follows_longer_work();
    if leads.launches.count() == 0 {
        let first = phase.first_lead.filter(|lead| lead.launches > 0)?;
        return Some(Before {
            prefill_like,
            from_program_start: true,
            times: 1,
            kernels_min: Some(first.launches),
            kernels_median: Some(first.launches),
            kernels_max: Some(first.launches),
            kernel_sum_median_ns: Some(first.kernel_sum_ns),
        });
    }
    Some(Before {
        prefill_like,
        from_program_start: false,
        times: leads.launches.count(),
        kernels_min: leads.launches.min(),
        kernels_median: leads.launches.median(),
        kernels_max: leads.launches.max(),
        kernel_sum_median_ns: leads.kernel_sum_ns.median(),
    })
}

/// Says that there are no stages, why steps are there or not, and how to have stages. `settings` say
/// what the workload was made to mark.
pub(crate) fn explain(report: &mut Report, settings: &OperatorSettings) {
    let whole = report.stages.iter().find(|row| row.kind == PathKind::WholeProcess);
    let Some(stage) = whole.map(|row| row.stage.clone()) else { return };
    let why = match (&report.inferred_steps, has_sequence(report)) {
        (Some(steps), _) => {
            format!("{stage} is one stage, loading and warm-up included; steps are {}", steps.label)
        }
        (None, true) => format!(
            "{stage} is one stage, loading and warm-up included; no steps are reported: its kernels \
             show no clear repeating pattern"
        ),
        (None, false) => format!(
            "{stage} is one stage; no steps are reported: its source has totals per kernel, not \
             their order"
        ),
    };
    let python = match report.run.command.as_deref().and_then(<[String]>::first) {
        Some(program) => is_python(program),
        None => report
            .coverage
            .processes
            .iter()
            .any(|process| process.exe.as_deref().is_some_and(is_python)),
    };
    // Where it was on, to say that it should be is no help.
    let remedy = match python && !settings.annotate.contains(&Annotation::PrefillDecode) {
        true => {
            "run again with --annotate prefill-decode (a Hugging Face model), or open NVTX ranges \
             such as prefill and decode in the program"
        }
        false => "open NVTX ranges such as prefill and decode in the program",
    };
    report.findings.push(Finding::note("none of the workload's ranges was recorded", why, remedy));
}

/// Whether the rows come from records that stand in the order of their launches.
fn has_sequence(report: &Report) -> bool {
    let is_from = |label: &Origin| report.source == label.label();
    is_from(&Origin::Collector)
        || (is_from(&Origin::Nsys) && report.kernels.iter().any(|row| row.times.p50_ns.is_some()))
}

/// `python`, `/usr/bin/python3.12`, `torchrun` and the like.
fn is_python(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    ["python", "torchrun", "accelerate", "vllm"].iter().any(|known| name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_by_any_of_its_names() {
        for name in ["python", "python3", "/opt/venv/bin/python3.12", "torchrun"] {
            assert!(is_python(name), "{name}");
        }
        for name in ["", "bash", "/usr/bin/stage2-demo", "/python/serve"] {
            assert!(!is_python(name), "{name}");
        }
    }
}
