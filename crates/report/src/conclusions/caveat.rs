//! A stage -> why nothing is advised from its times.

use std::collections::BTreeMap;

use super::unlike;
use super::warm_up::WarmUp;
use stage2_model::rule::ENOUGH_INSTANCES;
use stage2_model::{InferredStepRow, Origin, PathKind, Report, StageRow};

/// What ends the caveat of a stage from whose times nothing is advised.
pub(crate) const NO_GROUND: &str = ": not a basis for advice";

/// Why nothing should be advised from the times of a stage; nothing where they can be relied on.
pub(super) fn caveat(report: &Report, row: &StageRow) -> Option<String> {
    // Nobody marked what that work is for, and most programs do theirs at the start.
    let is_outside = row.kind == PathKind::OutsideRanges;
    let outside = is_outside.then_some("launched outside of every range, start-up included");
    // They could not be left out: there are too few others, say.
    let kept = row.outliers.as_ref().filter(|outliers| !outliers.left_out);
    let kept = kept.map(|outliers| match outliers.count {
        1 => "an outlier is in its times",
        _ => "outliers are in its times",
    });
    // What a profiler costs the host is in the times that it gives.
    let under_a_profiler = match report.source.as_str() {
        source if source == Origin::Nsys.label() => Some("under nsys, which slows the host down"),
        source if source == Origin::Ncu.label() => Some("launches that ncu replayed"),
        _ => None,
    };
    let two_kinds = unlike::is_unlike(report, &row.stage)
        .then_some("its calls have two distinct durations, and the mean describes neither");
    let (few, no_steps) = (few_instances(report, row), mostly_no_steps(report, row));
    let warm_up = WarmUp::of(report, &row.stage).map(|found| found.caveat());
    let reasons = [outside, few, no_steps, two_kinds, kept, warm_up.as_deref(), under_a_profiler];
    let reasons: Vec<&str> = reasons.into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| format!("{}{NO_GROUND}", reasons.join(", ")))
}

/// Times of a first instance hold what happens once (compilation, allocation, caches). Of many steps in it,
/// that is the first.
fn few_instances(report: &Report, row: &StageRow) -> Option<&'static str> {
    if row.only().is_some() {
        return None;
    }
    let all = row.instances.filter(|&all| all > 0 && row.kind == PathKind::Range)?;
    let ours = report.source == Origin::Collector.label();
    let taken = row.recorded_instances.filter(|&taken| ours && taken < all);
    match taken.unwrap_or(all) {
        0 => None,
        1 if taken.is_some() => Some("one recorded call"),
        1 => Some("one call, which is cold"),
        // Of a sample the first, cold instance is no part.
        few if few < ENOUGH_INSTANCES && taken.is_some() => Some("two recorded calls"),
        few if few < ENOUGH_INSTANCES => Some("two calls, the first of them cold"),
        _ if row.host_warm_instances == Some(0) => {
            Some("no call but the first, cold one of each process")
        }
        _ => None,
    }
}

/// A process without ranges is one window, with loading and warm-up in it. Advice needs steps that
/// repeat, and that most of the window is made of.
fn mostly_no_steps(report: &Report, row: &StageRow) -> Option<&'static str> {
    let window_ns = row.gpu_window_ns.filter(|_| row.kind == PathKind::WholeProcess)?;
    let Some(steps) = &report.inferred_steps else {
        return Some("one window, with loading and warm-up in it, and no steps are known");
    };
    let in_steps = in_steps_ns(&steps.rows);
    (in_steps < window_ns / 2).then_some("most of the window lies outside of the inferred steps")
}

/// Time in steps, over all processes. Those of different streams run at the same time, so of each
/// process the stream with the most counts.
fn in_steps_ns(rows: &[InferredStepRow]) -> u64 {
    let mut streams: BTreeMap<(&str, Option<&str>), u64> = BTreeMap::new();
    for row in rows {
        let sum = streams.entry((&row.file, row.stream.as_deref())).or_default();
        *sum = sum.saturating_add(row.window_ns);
    }
    let mut processes: BTreeMap<&str, u64> = BTreeMap::new();
    for ((file, _), ns) in streams {
        let most = processes.entry(file).or_default();
        *most = ns.max(*most);
    }
    processes.into_values().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::{InferredSteps, Outliers};

    fn label(source: Origin, change: fn(&mut StageRow)) -> String {
        let report = Report { source: source.label().to_owned(), ..Report::default() };
        let mut row =
            StageRow { instances: Some(20), host_warm_instances: Some(19), ..StageRow::default() };
        change(&mut row);
        caveat(&report, &row).unwrap_or_default()
    }

    #[test]
    fn a_process_without_ranges_is_in_doubt_where_its_window_is_not_made_of_steps() {
        let with = |in_steps: Option<u64>| {
            let rows = |window_ns| vec![InferredStepRow { window_ns, ..Default::default() }; 2];
            let report = Report {
                source: Origin::Collector.label().to_owned(),
                inferred_steps: in_steps.map(|ns| InferredSteps::of(rows(ns))),
                ..Report::default()
            };
            let kind = PathKind::WholeProcess;
            let row = StageRow { kind, gpu_window_ns: Some(1000), ..StageRow::default() };
            caveat(&report, &row).unwrap_or_default()
        };
        assert!(with(None).contains("no steps are known"));
        assert!(with(Some(249)).contains("outside of the inferred steps"));
        assert_eq!(with(Some(250)), "");
    }

    #[test]
    fn steps_of_streams_side_by_side_count_once() {
        let row = |file: &str, stream: &str, window_ns| InferredStepRow {
            file: file.into(),
            stream: (!stream.is_empty()).then(|| stream.into()),
            window_ns,
            ..Default::default()
        };
        let streams = ["1", "2", "3", "4"].map(|stream| row("a", stream, 200));
        assert_eq!(in_steps_ns(&streams), 200);
        let phases = [row("a", "1", 200), row("a", "2", 150), row("a", "2", 100)];
        assert_eq!(in_steps_ns(&phases), 250);
        let processes = [row("a", "", 200), row("a", "", 50), row("b", "7", 30)];
        assert_eq!(in_steps_ns(&processes), 280);
    }

    #[test]
    fn outliers_that_are_not_left_out_are_in_doubt_however_much_they_hold() {
        let said = label(Origin::Collector, |row| {
            row.outliers = Some(Outliers { count: 1, percent: 22.5, ..Outliers::default() });
        });
        assert_eq!(said, "an outlier is in its times: not a basis for advice");
        let said = label(Origin::Collector, |row| {
            row.outliers = Some(Outliers { left_out: true, ..Outliers::default() });
        });
        assert_eq!(said, "");
    }

    #[test]
    fn few_cold_or_inflated_instances_are_in_doubt() {
        let outside = "launched outside of every range, start-up included: not a basis for advice";
        type Change = fn(&mut StageRow);
        let cases: [(Change, &str); 10] = [
            (|_| (), ""),
            (|row| row.instances = Some(3), ""),
            (|row| row.instances = None, ""),
            (|row| row.kind = PathKind::OutsideRanges, outside),
            (|row| row.recorded_instances = Some(4), ""),
            (|row| row.instances = Some(1), "one call, which is cold: not a basis for advice"),
            (|row| row.instances = Some(2), "two calls, "),
            (|row| row.recorded_instances = Some(1), "one recorded call: "),
            (|row| row.recorded_instances = Some(2), "two recorded calls: not a basis for advice"),
            (
                |row| row.host_warm_instances = Some(0),
                "no call but the first, cold one of each process",
            ),
        ];
        for (at, (change, begin)) in cases.into_iter().enumerate() {
            let said = label(Origin::Collector, change);
            let is_whole = begin.is_empty() || begin.ends_with("advice");
            assert!(if is_whole { said == begin } else { said.starts_with(begin) }, "{at}: {said}");
        }
        assert!(label(Origin::Nsys, |_| ()).contains("under nsys"));
        assert!(label(Origin::Ncu, |_| ()).contains("ncu replayed"));
        let both = label(Origin::Nsys, |row| row.instances = Some(1));
        assert!(both.contains("which is cold, under nsys"), "{both}");
    }
}
