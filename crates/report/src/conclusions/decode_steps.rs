//! Ranges -> the decode steps of a generation, where the ranges show how many there are.

use std::collections::BTreeMap;

use crate::llm::mfu::per_generation;
use stage2_model::{PathKind, PathRow, Report, Role, StageRow};
use stage2_read::roles::RoleSettings;

/// Decode steps that were counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    /// Of one generation.
    pub(super) steps: u64,
    /// What was counted.
    pub(super) text: String,
}

/// Steps within the one decode, times the decodes of a prefill. Nothing where these do not divide evenly,
/// where one range around a decode shows no steps, and where requests overlap what serves them: their
/// decodes have no prefill of their own.
pub(super) fn counted(report: &Report, roles: &RoleSettings) -> Option<Counted> {
    let stages = || report.stages.iter().filter(|row| row.apart.is_none());
    let of = |wanted: Role| stages().filter(move |row| row.role == wanted);
    let overlaps = |row: &StageRow| row.kind == PathKind::Range && row.has_no_gpu_work();
    let (mut decodes, mut prefills) = (of(Role::Decode), of(Role::Prefill));
    let (decode, prefill) = (decodes.next()?, prefills.next());
    if decodes.next().is_some() || prefills.next().is_some() || stages().any(overlaps) {
        return None;
    }
    let instances = decode.instances.filter(|instances| *instances > 0)?;
    let decodes = match prefill {
        Some(prefill) => whole(per_generation(instances, prefill.instances?)?)?,
        None => 1,
    };
    match (steps_within(report, decode, instances, roles), decodes) {
        (Some((stem, within)), _) => Some(Counted {
            steps: within.checked_mul(decodes)?,
            text: match decodes {
                1 => format!("Decode steps: {within} ranges {stem} in the decode of a generation."),
                _ => format!(
                    "Decode steps: {within} ranges {stem} in each of the {decodes} decodes of a generation."
                ),
            },
        }),
        (None, 1) => None,
        (None, decodes) => Some(Counted {
            steps: decodes,
            text: format!("Decode steps: {decodes}, the instances of decode for each prefill."),
        }),
    }
}

/// The one kind of ranges right within `decode` that is named a step, and how many an instance holds.
fn steps_within<'r>(
    report: &'r Report,
    decode: &StageRow,
    instances: u64,
    roles: &RoleSettings,
) -> Option<(&'r str, u64)> {
    let is_decode = |row: &PathRow| row.parent.is_none() && row.path == decode.stage;
    let at = report.paths.iter().position(is_decode)?;
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for row in report.paths.iter().filter(|row| row.parent == Some(at)) {
        let stem = row.name.trim_end_matches(|c: char| c.is_ascii_digit());
        if roles.is_step(stem) {
            *counts.entry(stem).or_default() += row.instances?;
        }
    }
    let mut counts = counts.into_iter();
    let (stem, count) = counts.next().filter(|_| counts.next().is_none())?;
    Some((stem, whole(per_generation(count, instances)?)?))
}

fn whole(count: f64) -> Option<u64> {
    (count >= 1.0).then_some(count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_read::roles::{Meant, RoleSettings};

    fn stage(stage: &str, instances: u64, kernels: u64) -> StageRow {
        StageRow {
            stage: stage.into(),
            role: match RoleSettings::default().of(stage, None) {
                Meant::Stage(role) => role,
                Meant::Apart(_) => Role::Other,
            },
            instances: Some(instances),
            kernels: Some(kernels),
            copies: Some(0),
            fills: Some(0),
            gpu_busy_ns: Some(kernels),
            ..StageRow::default()
        }
    }

    fn within(names: &[(&str, u64)]) -> Vec<PathRow> {
        let row = |name: &str, instances, parent| PathRow {
            path: name.into(),
            name: name.into(),
            parent,
            instances: Some(instances),
            ..PathRow::default()
        };
        let decode = row("decode", 4, None);
        let names = names.iter().map(|&(name, instances)| row(name, instances, Some(0)));
        std::iter::once(decode).chain(names).collect()
    }

    fn steps(stages: Vec<StageRow>, paths: Vec<PathRow>) -> Option<u64> {
        let report = Report { stages, paths, ..Report::default() };
        counted(&report, &RoleSettings::default()).map(|found| found.steps)
    }

    #[test]
    fn steps_are_counted_where_the_ranges_show_them() {
        let run = |decodes| vec![stage("prefill", 4, 9), stage("decode", decodes, 9)];
        assert_eq!(steps(run(4), within(&[("step", 64)])), Some(16), "within each decode");
        let numbered = within(&[("step_0", 4), ("step_1", 4), ("step_2", 4)]);
        assert_eq!(steps(run(4), numbered), Some(3));
        assert_eq!(steps(run(32), Vec::new()), Some(8), "a decode is a step");
        assert_eq!(steps(run(4), Vec::new()), None, "one range around all steps");
        assert_eq!(steps(run(4), within(&[("layer", 64)])), None, "layers are no steps");
        assert_eq!(steps(run(4), within(&[("step", 63)])), None, "they do not divide evenly");
        assert_eq!(steps(run(4), within(&[("step", 8), ("token", 8)])), None, "which is it?");
        assert_eq!(steps(run(31), Vec::new()), None);
        let mut server = run(32);
        server.push(stage("request", 4, 0));
        assert_eq!(steps(server, Vec::new()), None, "a batch serves several prefills");
        let (stages, paths) = (run(4), within(&[("tick", 64), ("step", 4)]));
        let report = Report { stages, paths, ..Report::default() };
        let roles = RoleSettings { step: vec!["TICK".to_owned().into()], ..Default::default() };
        assert_eq!(counted(&report, &roles).map(|found| found.steps), Some(16), "as configured");
    }
}
