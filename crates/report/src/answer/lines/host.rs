//! Samples of the host -> the line that says what on the host the GPU waits for.

use std::collections::HashMap;

use super::bound_by::part_of;
use super::{AnsweredStage, list_stages, ranks_of, shown_time};
use stage2_contract::text::numbers::{count, counted};
use stage2_model::{
    Bottleneck, BottleneckKind, HOST_SAMPLES_LEAST, HostCause, HostCauseKind, HostCauseProcess,
    HostStage, LateDelays, LateHostRow, LateRow, RankIdle, Report,
};

/// Causes of a stage in the line.
const HOST_CAUSES: usize = 3;
/// The smallest share of idle time that the line shows, percent.
const HOST_PERCENT: f64 = 1.0;

/// What on the host each stage waits for; `None` if the host was not sampled.
pub(super) fn host(report: &Report, stages: &[AnsweredStage<'_>]) -> Option<String> {
    let sampled = report.host.as_ref()?;
    let by_stage: HashMap<&str, &HostStage> =
        sampled.stages.iter().map(|found| (found.stage.as_str(), found)).collect();
    let ranks = ranks_of(report);
    let text = list_stages(stages.iter(), |told| {
        Some(host_of(told, by_stage.get(told.row.stage.as_str())?, &ranks))
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

/// A process that has at least this share of the time of a cause is named, percent.
const IN_RANK_PERCENT: f64 = 75.0;

/// The rank that most of a cause is in, if several ranks were sampled.
fn in_rank(cause: &HostCause, ranks: &HashMap<&str, Option<u64>>) -> String {
    let first = cause.processes.first();
    let most = first.filter(|process| process.percent >= IN_RANK_PERCENT);
    let rank = most.and_then(|most| Some((most, ranks.get(most.file.as_str()).copied()??)));
    match rank {
        Some((most, rank)) if most.percent > 99.95 => format!(" in rank {rank}"),
        Some((_, rank)) => format!(" mostly in rank {rank}"),
        None => String::new(),
    }
}

/// `; of the 2.2 ms its host spends 0.92 ms longer in f (a.py:3) and 0.40 ms longer in g (a.py:9) than in its other
/// steps`. If the samples do not show that, `; in its idle time the host is most often in f (a.py:3) (25 % of the idle time of all ranks)`: the largest
/// cause that is mostly in the rank of `late`.
pub(super) fn code_of(report: &Report, late: &LateRow) -> Option<String> {
    if let Some(compared) = late.host.as_ref().filter(|of| of.finding().is_some()) {
        let late_by = late.delays.as_ref().and_then(LateDelays::late_by);
        let of = late_by.map_or_else(|| "in these steps".to_owned(), |by| format!("of the {by}"));
        let longer: Vec<String> = compared.findings().take(LATE_FUNCTIONS).map(longer_in).collect();
        let (longer, against) = (longer.join(" and "), compared.against());
        return Some(format!("; {of} its host spends {longer} than in {against}"));
    }
    let sampled = report.host.as_ref()?;
    let found = sampled.stages.iter().find(|found| found.stage == late.stage)?;
    let is_of = |process: &HostCauseProcess| {
        process.file == late.file && process.percent >= IN_RANK_PERCENT
    };
    let mut causes = found.causes.iter().filter(|cause| cause.is_finding());
    let cause = causes.find(|cause| cause.processes.first().is_some_and(is_of))?;
    Some(format!(
        "; in its idle time the host is most often in {} ({:.0} % of the idle time of all ranks)",
        cause.text(true),
        cause.percent
    ))
}

/// Functions that are named of a late rank.
const LATE_FUNCTIONS: usize = 2;

/// `0.92 ms longer in f (a.py:3)`.
fn longer_in(row: &LateHostRow) -> String {
    format!("{} longer in {}", shown_time(row.longer_ns() as f64), row.text(true))
}

fn host_of(
    told: &AnsweredStage<'_>,
    found: &HostStage,
    ranks: &HashMap<&str, Option<u64>>,
) -> String {
    let name = told.name();
    // The GPU is busy then, and the stage waits for its turn.
    let other = |cause: &&HostCause| cause.kind == HostCauseKind::OtherWork;
    let other_percent: f64 = found.causes.iter().filter(other).map(|cause| cause.percent).sum();
    let idle = told.answer.bottleneck.as_ref().map(waits).unwrap_or_default();
    if found.causes.is_empty() {
        let samples = counted(found.samples, "sample");
        return format!(
            "{name}{idle}: too few samples to say more ({samples} of its idle time, and \
             {HOST_SAMPLES_LEAST} are needed: record for longer, or set STAGE2_HOST=1000)"
        );
    }
    let findings = found.causes.iter().filter(|cause| cause.is_finding() && !other(cause));
    let findings = findings.filter(|cause| cause.percent >= HOST_PERCENT).take(HOST_CAUSES);
    let of_host = 1.0 - other_percent / 100.0;
    let mut named_percent = 0.0;
    let mut causes: Vec<String> = findings
        .map(|cause| {
            let [share, error] = [cause.percent, cause.error_percent].map(|part| part / of_host);
            named_percent += share;
            let share = match error {
                0.0 => format!("{share:.0} %"),
                error if error < 0.5 => format!("{share:.0} ± {error:.1} %"),
                error => format!("{share:.0} ± {error:.0} %"),
            };
            format!("{share} {}{}", cause.text(true), in_rank(cause, ranks))
        })
        .collect();
    if causes.is_empty() {
        causes.push("no cause stands out".to_owned());
    }
    let unknown = found.causes.iter().find(|cause| cause.kind == HostCauseKind::Unknown);
    let unknown_percent = unknown.map_or(0.0, |cause| cause.percent / of_host);
    let smaller_percent = 100.0 - named_percent - unknown_percent;
    for (percent, what) in [(smaller_percent, "in smaller causes"), (unknown_percent, "not known")]
    {
        causes.extend((percent >= HOST_PERCENT).then(|| format!("{percent:.0} % {what}")));
    }
    let causes = causes.join(", ");
    let samples = count(found.samples);
    // Ahead of the causes, where a line that is cut short still has it.
    match causes.contains(" ± ") {
        true => {
            format!("{name}{idle}; of that time (± standard error, {samples} samples): {causes}")
        }
        false => format!("{name}{idle}: {causes} (of that time; {samples} samples)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::lines::tests::{bound, row, stage};
    use stage2_model::{HostFrame, LateHost, LateSteps};

    #[test]
    fn the_functions_that_make_a_rank_late_are_told_as_parts_of_its_delay() {
        let row = |function: &str, late_ns, error_ns| LateHostRow {
            kind: HostCauseKind::EngineCode,
            frame: Some(HostFrame { function: function.into(), file: "a.py".into(), line: 3 }),
            late_ns,
            error_ns,
            ..LateHostRow::default()
        };
        let rows = vec![
            row("f", 920_000, 310_000),
            row("noise", 500_000, 400_000),
            row("g", 400_000, 100_000),
            row("h", 300_000, 100_000),
        ];
        let host = LateHost { of_same_rank: true, rows, ..LateHost::default() };
        let steps = LateSteps { median_ns: 2_200_000, ..LateSteps::default() };
        let delays = LateDelays { steps: Some(steps), ..LateDelays::default() };
        let late = LateRow { host: Some(host), delays: Some(delays), ..LateRow::default() };
        let said = "; of the 2.2 ms its host spends 0.92 ms longer in f (a.py:3) and 0.40 ms longer in g (a.py:3) \
                    than in its other steps";
        assert_eq!(code_of(&Report::default(), &late).as_deref(), Some(said));
    }

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
        let cause = |function: &str, percents: &[f64]| HostCause {
            kind: HostCauseKind::EngineCode,
            frame: Some(HostFrame { function: function.into(), file: "a.py".into(), line: 1 }),
            percent: 20.0,
            processes: (0..)
                .zip(percents)
                .map(|(at, &percent)| HostCauseProcess { file: format!("{at}.s2t"), percent })
                .collect(),
            ..HostCause::default()
        };
        let causes = vec![
            cause("one", &[100.0]),
            cause("most", &[80.0, 20.0]),
            cause("both", &[55.0, 45.0]),
        ];
        let host = HostStage { samples: 40, causes, ..HostStage::default() };
        let files = [("0.s2t", Some(0)), ("1.s2t", Some(1))].into();
        assert_eq!(
            host_of(&told, &host, &files),
            "decode waits 1.40 of 2.00 ms for the host in the mean step (rank 0 2.03 ms, rank 1 0.77 ms): 20 % \
             one (a.py:1) in rank 0, 20 % most (a.py:1) mostly in rank 0, 20 % both (a.py:1), 40 % in \
             smaller causes (of that time; 40 samples)"
        );
        told.answer.bottleneck =
            Some(Bottleneck { ranks: idle(&[2_030_000, 9, 770_000]), ..found });
        let mut uncertain = host.clone();
        uncertain.causes.iter_mut().for_each(|cause| cause.error_percent = 6.0);
        let said = host_of(&told, &uncertain, &files);
        let begin = "; of that time (± standard error, 40 samples): 20 ± 6 % one";
        assert!(said.contains(begin), "{said}");
        let many = host_of(&told, &host, &HashMap::new());
        assert!(
            many.starts_with(
                "decode waits 1.40 of 2.00 ms for the host in the mean step (from rank 2 0.77 ms to rank 0 2.03 \
                 ms): 20 % one (a.py:1), 20"
            ),
            "{many}"
        );
    }
}
