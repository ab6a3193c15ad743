//! Ranges within a stage that are named as parts of a vision encoder -> rows and times of their own.
//!
//! Of a range that lies within another, the collector keeps host times and kernels, but no window and
//! no time in which the GPU was busy: the sum of its kernels' durations stands for the latter. Where
//! they overlap, the GPU was busy for less, and MFU is a lower bound.

use super::counted::stage_flops;
use crate::llm::mfu::StageInput;
use stage2_contract::text::numbers::count;
use stage2_model::{Origin, PathKind, PathRow, Report, Role, StageRow};
use stage2_read::roles::VisionPart;

/// A part of a vision encoder, and the ranges around it.
pub struct Nested<'r> {
    /// Its row.
    pub path: &'r PathRow,
    /// The range right around it.
    pub within: &'r PathRow,
    /// The stage that it lies in.
    pub stage: &'r StageRow,
    index: usize,
}

/// All of them, in the order of the paths. Those in warm-ups and operators count as little as these.
pub fn nested(report: &Report) -> Vec<Nested<'_>> {
    let found = report.paths.iter().enumerate().filter_map(|(index, path)| {
        VisionPart::of_range(&path.name).filter(|_| path.kind == PathKind::Range)?;
        let within = report.paths.get(path.parent?)?;
        let outermost = report.paths.get(around(report, index).last()?)?;
        let is_stage = |row: &&StageRow| row.stage == outermost.path && row.apart.is_none();
        let stage =
            report.stages.iter().filter(|row| row.kind == PathKind::Range).find(is_stage)?;
        Some(Nested { path, within, stage, index })
    });
    found.collect()
}

/// A path and those around it, the innermost first. Parents stand in front of their children.
fn around(report: &Report, index: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(index), |&at| {
        report.paths.get(at)?.parent.filter(|parent| *parent < at)
    })
}

/// What MFU of those within a prefill follows from.
pub(crate) fn inputs(report: &Report) -> Vec<StageInput> {
    let in_prefill = |nested: &Nested<'_>| nested.stage.role == Role::Prefill;
    nested(report).into_iter().filter(in_prefill).map(|nested| input(report, &nested)).collect()
}

fn input(report: &Report, nested: &Nested<'_>) -> StageInput {
    let Nested { path, within, stage, index } = nested;
    let all = path.instances.unwrap_or(0);
    let ours = report.source == Origin::Collector.label();
    let sampled = report.is_sampled();
    // Sums of a sample stand for all instances; where ranges were chosen by name, for the chosen.
    let taken = path.recorded_instances.filter(|_| ours && !sampled).unwrap_or(all);
    let known = taken > 0 && (!sampled || report.is_sampled_throughout());
    let counted = stage_flops(report, |row| around(report, row.path_index).any(|at| at == *index));
    let counted = counted.filter(|_| known);
    StageInput {
        tokens: None,
        mean_batch: None,
        gpus: 1,
        stage: path.name.clone(),
        within: Some(within.path.clone()),
        role: Role::VisionInPrefill,
        per_generation: match stage.instances {
            Some(generations) if generations > 0 => all as f64 / generations as f64,
            _ => f64::NAN,
        },
        instances: taken,
        wall_ns: None,
        busy_ns: path.kernel_sum_inclusive_ns.filter(|_| known),
        kernels: path.kernels_inclusive.filter(|_| known),
        measured_flops: counted.map(|counted| counted.flops),
        measured_percent: counted.map(|counted| counted.percent),
        one_launch_percent: counted.map(|counted| counted.one_launch_percent),
        sampled: None,
        basis: format!(
            "lies within {}; its GPU busy time is the sum of its kernels' durations, mean of {} \
             instances, cold ones included",
            within.path,
            if taken < all {
                format!("the {} recorded of {}", count(taken), count(all))
            } else {
                format!("all {}", count(all))
            }
        ),
    }
}
