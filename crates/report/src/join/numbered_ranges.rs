//! Ranges that differ in a number only (`step_0`, `step_1`, ...) -> what to tell: each is a stage with
//! one instance, and none of them has a warm step.
//!
//! Few of them are told, and not put together: `layer_0` and `layer_1` are different layers. Of many, the
//! loader makes one name (see [`alike`](stage2_read::trace::alike)), which is told as well.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use stage2_contract::text::numbers::count;
use stage2_contract::text::{listed, shorten};
use stage2_model::{Finding, PathKind, PathRow};
use stage2_read::roles::RoleSettings;

/// Names from which on a number is no chance.
const MANY: u64 = 4;
/// Characters of a name.
const NAME_LIMIT: usize = 60;
/// Joined names that are told.
const JOINED_NAMED: usize = 3;

/// Names with one beginning.
struct Group<'r> {
    first: &'r PathRow,
    last: &'r PathRow,
    names: u64,
}

/// What to tell of the largest group of such ranges.
pub(super) fn finding(rows: &[PathRow], roles: &RoleSettings) -> Option<Finding> {
    let mut groups: BTreeMap<(Option<usize>, &str), Group<'_>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.kind == PathKind::Range) {
        let Some(stem) = stem(row, roles) else { continue };
        // What was opened again has warm times of its own.
        if row.host_warm_median_ns.is_some() || row.instances.is_none() {
            continue;
        }
        let group =
            groups.entry((row.parent, stem)).or_insert(Group { first: row, last: row, names: 0 });
        group.names += 1;
        group.last = row;
    }
    let (_, group) = groups
        .into_iter()
        .filter(|(_, group)| group.names >= MANY)
        .max_by_key(|(_, group)| group.names)?;
    let shown = |row: &PathRow| shorten(&row.name, NAME_LIMIT);
    Some(Finding::warning(
        format!(
            "{} ranges have names that differ in a number only: {} ... {}",
            group.names,
            shown(group.first),
            shown(group.last)
        ),
        "each name counts by itself and was opened once, so that there is no time of a warm step and \
         no percentile",
        "open all of them under one name and keep the number beside it: \
         `with stage2.range(\"step\", number=i)`, or as the payload of the NVTX range",
    ))
}

/// What to tell of names that count as one.
pub(super) fn joined(rows: &[PathRow]) -> Option<Finding> {
    let mut joined: Vec<(&PathRow, u64)> =
        rows.iter().filter_map(|row| Some((row, row.joined_names?))).collect();
    joined.sort_by_key(|(_, names)| Reverse(*names));
    let told = |(row, names): &(&PathRow, u64)| {
        format!("{} ({} names)", shorten(&row.name, NAME_LIMIT), count(*names))
    };
    let told: Vec<String> = joined.iter().map(told).collect();
    (!told.is_empty()).then(|| {
        Finding::note(
            format!(
                "names of ranges that differ in a number or an identifier only count as one range: {}",
                listed(&told, JOINED_NAMED)
            ),
            "more of them than stay apart would each be a range with an instance or two, without a warm \
             time; times, shares and percentiles are over all instances of the joined range",
            "exports (`stage2-launch export`) and the trace files have each instance under its own name",
        )
    })
}

/// The name without the number at its end, if it may be that of a step.
fn stem<'r>(row: &'r PathRow, roles: &RoleSettings) -> Option<&'r str> {
    let stem = row.name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_numbered = stem.len() < row.name.len() && !stem.is_empty();
    (is_numbered && (row.depth == 0 || roles.is_step(stem))).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, parent: Option<usize>, warm_ns: Option<u64>) -> PathRow {
        PathRow {
            name: name.into(),
            kind: PathKind::Range,
            parent,
            depth: u64::from(parent.is_some()),
            instances: Some(1),
            host_warm_median_ns: warm_ns,
            ..PathRow::default()
        }
    }

    fn told(stem: &str, parent: Option<usize>, warm_ns: Option<u64>) -> Option<Finding> {
        let rows: Vec<PathRow> =
            (0..5).map(|number| row(&format!("{stem}{number}"), parent, warm_ns)).collect();
        finding(&rows, &RoleSettings::default())
    }

    #[test]
    fn numbered_steps_are_told_with_the_remedy() {
        let finding = told("ProfilerStep#", None, None).expect("a finding");
        assert_eq!(
            finding.what,
            "5 ranges have names that differ in a number only: ProfilerStep#0 ... ProfilerStep#4"
        );
        assert!(finding.remedy.contains("stage2.range"), "{finding}");
        assert!(told("decode_step_", Some(0), None).is_some(), "within a stage");
    }

    #[test]
    fn layers_and_what_has_warm_times_are_left_alone() {
        assert_eq!(told("layer_", Some(0), None), None);
        assert_eq!(told("step_", None, Some(5)), None);
        assert_eq!(told("", None, None), None, "a number alone is no name of a step");
        let few = [row("step_0", None, None), row("step_1", None, None)];
        assert_eq!(finding(&few, &RoleSettings::default()), None);
    }
}
