//! Samples of the host -> the line that states what on the host the GPU waits for.

use std::collections::HashMap;

use super::bound_by::part_of;
use super::{AnsweredStage, list_stages, ranks_of, shown_time};
use stage2_contract::text::numbers::{count, counted};
use stage2_model::{
    Bottleneck, BottleneckKind, HOST_SAMPLES_LEAST, HostCauseKind, HostStage, LateRow, RankIdle,
    Report, Rule, Takeaway,
};

/// Causes of a stage in the line.
const HOST_CAUSES: usize = 3;
/// The smallest share of idle time that the line shows, percent.
const HOST_PERCENT: f64 = 1.0;
/// Characters of a stage: fewer causes are named where they are longer, so that the line never ends before its sum. A
/// terminal shows about as many.
const HOST_LIMIT: usize = 340;

/// What on the host each stage waits for; `None` if the host was not sampled.
pub(super) fn host(report: &Report, stages: &[AnsweredStage<'_>]) -> Option<String> {
    let sampled = report.host.as_ref()?;
    let by_stage: HashMap<&str, &HostStage> =
        sampled.stages.iter().map(|found| (found.stage.as_str(), found)).collect();
    let (ranks, more) = (ranks_of(report), sampled.more_samples());
    let text = list_stages(stages.iter(), |told| {
        let found = by_stage.get(told.row.stage.as_str())?;
        let is_ahead = |said: &Takeaway| {
            said.rule == Rule::HostAhead && said.stage.as_deref() == Some(told.row.stage.as_str())
        };
        let ahead = report.insight.takeaways.iter().any(is_ahead);
        let mut texts =
            (1..=HOST_CAUSES).rev().map(|most| host_of(told, found, more, &ranks, ahead, most));
        let fits = texts.find(|text| text.chars().count() <= HOST_LIMIT);
        Some(fits.unwrap_or_else(|| host_of(told, found, more, &ranks, ahead, 1)))
    });
    let why = || {
        let mut off = sampled.processes.iter().filter_map(|process| process.off.as_deref());
        let why = off.next().unwrap_or("no sample lies in a stage with GPU work");
        format!("not known: {why}")
    };
    Some(if text.is_empty() { why() } else { text })
}

/// ` waits 1.40 of 3.62 ms for the host in the mean step (rank 0 2.04 ms, rank 1 0.77 ms)`. Idle time that is bound
/// by launches is not called a wait for the host, which may have launched long before.
fn waits(found: &Bottleneck) -> String {
    let idle = found.idle();
    let time = part_of(idle.map_or(0, |part| part.ns), found.ns);
    let of_rank = |rank: &RankIdle| format!("{} {}", rank.who, shown_time(rank.ns as f64));
    let ranks = match found.ranks.as_slice() {
        [most, least] => format!(" ({}, {})", of_rank(most), of_rank(least)),
        [most, .., least] => format!(" (from {} to {})", of_rank(least), of_rank(most)),
        _ => String::new(),
    };
    let mean = if found.of == "window" { "" } else { "mean " };
    let waits = match idle.is_some_and(|part| part.kind == BottleneckKind::Launches) {
        true => format!("leaves the GPU idle {time} between kernels"),
        false => format!("waits {time} for the host"),
    };
    format!(" {waits} in the {mean}{}{ranks}", found.of)
}

/// If the hosts of ranks could not be compared, that it is not known what that of the late one does, and how to know.
pub(super) fn why_not_known(report: &Report, late: &LateRow) -> Option<String> {
    let how = match &report.host {
        Some(host) => host.more_samples(),
        None => "sample it with profiling.collector.host=on (without the launcher: STAGE2_HOST=on)",
    };
    late.host.is_none().then(|| format!("; why its host is late is not known: {how}"))
}

fn host_of(
    told: &AnsweredStage<'_>,
    found: &HostStage,
    more: &str,
    ranks: &HashMap<&str, Option<u64>>,
    ahead: bool,
    most: usize,
) -> String {
    let name = told.name();
    let idle = told.answer.bottleneck.as_ref().map(waits).unwrap_or_default();
    if found.causes.is_empty() {
        let samples = counted(found.samples, "sample");
        return format!(
            "{name}{idle}: too few samples to say more ({samples} of its idle time, and \
             {HOST_SAMPLES_LEAST} are needed: {more})"
        );
    }
    let findings = found.causes.iter().filter(|cause| cause.is_finding());
    let findings = findings.filter(|cause| cause.percent >= HOST_PERCENT).take(most);
    let mut named_percent = 0.0;
    let mut causes: Vec<String> = findings
        .map(|cause| {
            let (share, error) = (cause.percent, cause.error_percent);
            named_percent += share;
            let share = match error {
                0.0 => format!("{share:.0} %"),
                error if error < 0.5 => format!("{share:.0} ± {error:.1} %"),
                error => format!("{share:.0} ± {error:.0} %"),
            };
            let in_rank = cause.in_rank(|file| ranks.get(file).copied().flatten());
            format!("{share} {}{in_rank}", cause.text(true))
        })
        .collect();
    if causes.is_empty() {
        causes.push("no cause stands out".to_owned());
    }
    let unknown = found.causes.iter().find(|cause| cause.kind == HostCauseKind::Unknown);
    let unknown_percent = unknown.map_or(0.0, |cause| cause.percent);
    let smaller_percent = 100.0 - named_percent - unknown_percent;
    let smaller = if ahead { "in the rest" } else { "in other causes" };
    for (percent, what) in [(smaller_percent, smaller), (unknown_percent, "not known")] {
        causes.extend((percent >= HOST_PERCENT).then(|| format!("{percent:.0} % {what}")));
    }
    let causes = causes.join(", ");
    let samples = count(found.samples);
    // The line on a late rank is only of what that one does in addition.
    let of_all = match ranks.values().flatten().count() {
        0 | 1 => "of all GPU idle time",
        _ => "of all ranks' GPU idle time",
    };
    // Ahead of the causes, where a line that is cut short still has it.
    let of = match (ahead, causes.contains(" ± ")) {
        // What it did meanwhile is not what the GPU waited for.
        (true, _) => "; the host was ahead, and did meanwhile",
        (false, true) => &format!("; {of_all}"),
        (false, false) => {
            return format!("{name}{idle}: {causes} ({of_all}; {samples} samples)");
        }
    };
    format!("{name}{idle}{of} (± standard error, {samples} samples): {causes}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::lines::tests::{bound, row, stage};
    use stage2_model::{HostCauseProcess, HostFrame};

    #[test]
    fn the_host_line_names_the_ranks_that_wait_and_those_of_a_cause() {
        let decode = row("decode");
        let mut told = stage(&decode);
        let idle = |ns: &[u64]| {
            let rank = |(at, ns): (usize, &u64)| RankIdle { who: format!("rank {at}"), ns: *ns };
            ns.iter().enumerate().map(rank).collect()
        };
        let found = bound(&[(BottleneckKind::Host, 1_400), (BottleneckKind::Kernels, 600)], None);
        told.answer.bottleneck =
            Some(Bottleneck { ranks: idle(&[2_030_000, 770_000]), ..found.clone() });
        let cause = |function: &str, percents: &[f64]| stage2_model::HostCause {
            kind: HostCauseKind::EngineCode,
            frame: Some(HostFrame { function: function.into(), file: "a.py".into(), line: 1 }),
            percent: 20.0,
            processes: (0..)
                .zip(percents)
                .map(|(at, &percent)| HostCauseProcess { file: format!("{at}.s2t"), percent })
                .collect(),
            ..stage2_model::HostCause::default()
        };
        let causes = vec![
            cause("one", &[100.0]),
            cause("most", &[80.0, 20.0]),
            cause("both", &[55.0, 45.0]),
        ];
        let host = HostStage { samples: 40, causes, ..HostStage::default() };
        let files = [("0.s2t", Some(0)), ("1.s2t", Some(1))].into();
        assert_eq!(
            host_of(&told, &host, "more", &files, false, HOST_CAUSES),
            "decode waits 1.40 of 2.00 ms for the host in the mean step (rank 0 2.03 ms, rank 1 0.77 ms): 20 % \
             one (a.py:1) in rank 0, 20 % most (a.py:1) mostly in rank 0, 20 % both (a.py:1), 40 % in \
             other causes (of all ranks' GPU idle time; 40 samples)"
        );
        told.answer.bottleneck =
            Some(Bottleneck { ranks: idle(&[2_030_000, 9, 770_000]), ..found });
        let mut uncertain = host.clone();
        uncertain.causes.iter_mut().for_each(|cause| cause.error_percent = 6.0);
        let said = host_of(&told, &uncertain, "more", &files, false, HOST_CAUSES);
        let begin = "; of all ranks' GPU idle time (± standard error, 40 samples): 20 ± 6 % one";
        assert!(said.contains(begin), "{said}");
        // Long names leave room for fewer of them, and never hide what is left.
        let two = host_of(&told, &uncertain, "more", &files, true, 2);
        let meanwhile =
            "; the host was ahead, and did meanwhile (± standard error, 40 samples): 20 ± 6 % one";
        assert!(two.contains(meanwhile) && two.ends_with(", 60 % in the rest"), "{two}");
        let many = host_of(&told, &host, "more", &HashMap::new(), false, HOST_CAUSES);
        assert!(
            many.starts_with(
                "decode waits 1.40 of 2.00 ms for the host in the mean step (from rank 2 0.77 ms to rank 0 2.03 \
                 ms): 20 % one (a.py:1), 20"
            ),
            "{many}"
        );
    }
}
