//! Ranks that others wait for, and the collectives in which they do.

use std::collections::HashSet;

use serde_json::Value;
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{counted, percent1, shown_time};
use stage2_model::kernels::model_stages;
use stage2_model::{
    BottleneckKind, FirstStep, LateCause, LateDelays, LateRow, LateSteps, RankStageRow, Report,
    Rule,
};

use super::{Subject, WITH_HOST, count, ms, name_of, number, quoted, text, us};
use crate::answer::{Answer, Column, Row, Table};

pub(super) fn late(subject: &Subject<'_>, answer: &mut Answer) {
    let ranks = &subject.report.ranks;
    let mut rows: Vec<(usize, &LateRow)> =
        ranks.late.iter().enumerate().filter(|(_, row)| subject.has(&row.stage)).collect();
    // What is noise comes last; the order of the report otherwise.
    rows.order_by_key(|(_, row)| {
        std::cmp::Reverse(row.delays.as_ref().map_or(0, |delays| delays.total_ns))
    });
    let first = rows.iter().find_map(|(_, row)| {
        let waits = wait(subject.report, row).map_or_else(String::new, |wait| format!(" {wait}"));
        Some(sentence(row)? + &waits)
    });
    answer.summary = first.unwrap_or_else(|| match is_compared(subject.report) {
        true => "No rank is late by more than noise.".to_owned(),
        false if is_one_process(subject.report) => {
            "One process: there is nothing to compare.".to_owned()
        }
        false if ranks.seen < 2 => format!("No ranks can be compared: {}.", seen(ranks.seen)),
        false => "Which rank is late is not known; the reason follows.".to_owned(),
    });
    answer.push(late_table(&rows));
    answer.push(rank_table(subject));
    no_ranks(subject, answer);
    // Where samples do not show the code, more of them may.
    let late = rows.iter().find_map(|(_, row)| row.delays.as_ref().map(|delays| (row, delays)));
    let is_on_host = |(row, delays): &(&&LateRow, &LateDelays)| {
        row.shows_cause() && delays.cause() != LateCause::Gpu && row.code_clause().is_none()
    };
    if let Some((row, _)) = late.filter(is_on_host) {
        let question = format!("why the host of {} takes longer", quoted(&row.who));
        let reason = match row.host.is_some() {
            true => "samples show no code that takes longer than on the other ranks",
            false => "the host was not sampled, or too rarely",
        };
        answer.unknown(&question, reason, &WITH_HOST);
    }
}

fn is_compared(report: &Report) -> bool {
    report.ranks.clock_error_ns.is_some()
}

/// Whether one process alone used GPUs.
fn is_one_process(report: &Report) -> bool {
    let processes = report.coverage.processes.iter();
    report.ranks.seen < 2 && processes.filter(|process| process.counts.kernels > 0).count() == 1
}

fn sentence(row: &LateRow) -> Option<String> {
    let delays = row.delays.as_ref()?;
    let often = match &delays.steps {
        Some(LateSteps { noun, late, of, median_ns, .. }) => {
            // It is a text of the workload's files, too.
            let noun = if noun == "call" { "call" } else { "step" };
            let (of, by) = (counted(*of, noun), shown_time(*median_ns as f64));
            format!("in {late} of {of}, by a median of {by}")
        }
        None => {
            let by = shown_time(delays.mean_ns as f64);
            let of = counted(row.collectives, "collective");
            format!("at {} of {of}, by {by} on average", delays.collectives)
        }
    };
    let code = row.code_clause();
    let because = |otherwise: &str| code.clone().unwrap_or_else(|| otherwise.to_owned());
    let (place, why) = match delays.cause() {
        _ if !row.shows_cause() => ("", "so few steps do not show why".to_owned()),
        LateCause::Host => (" on the host", because("its GPU has no more work than the others")),
        LateCause::Gpu => (" on the GPU", "it has more work than those of the others".to_owned()),
        LateCause::Both => {
            let host = because("its host code takes longer");
            ("", format!("its GPU has more work than the others, and {host}"))
        }
    };
    let carried = row.carried().filter(|_| row.shows_cause()).map(|(steps, begins)| {
        let noun = if steps.noun == "call" { "call" } else { "step" };
        format!(
            " It begins its {noun} {} after {} (median): the delay is carried over from {noun} to {noun}.",
            shown_time(begins.ns as f64),
            quoted(&begins.after)
        )
    });
    let (stage, who) = (quoted(&row.stage), quoted(&row.who));
    let carried = carried.unwrap_or_default();
    Some(format!("In {stage}, {who} is late{place} {often}: {why}.{carried}"))
}

/// How long the others wait for a late rank in a step, as one of them and as the mean of all that the summary has, and
/// what the first change saves of it.
fn wait(report: &Report, row: &LateRow) -> Option<String> {
    let answer = report.answer.stages.iter().find(|answer| answer.stage == row.stage)?;
    let bottleneck = answer.bottleneck.as_ref().filter(|found| found.is_of_step())?;
    let mean = bottleneck.parts.iter().find(|part| part.kind == BottleneckKind::Ranks)?;
    let ranks = report.ranks.stages.iter().filter(|rank| rank.stage == row.stage);
    let waits: Vec<(&RankStageRow, u64)> =
        ranks.map(|rank| Some((rank, rank.warm_waiting_ns?))).collect::<Option<_>>()?;
    let (most, most_ns) = waits.iter().max_by_key(|(_, ns)| ns)?;
    let all_ns: f64 = waits.iter().map(|(_, ns)| *ns as f64).sum();
    let share = *most_ns as f64 / all_ns.max(1.0);
    let (of, ranks) = (&bottleneck.of, waits.len() as u64);
    let most_ns = mean.ns as f64 * share * ranks as f64;
    let wait = format!(
        "Meanwhile, {} waits {} per {of} for it, or {} averaged over {}",
        quoted(&most.who),
        shown_time(most_ns),
        shown_time(mean.ns as f64),
        counted(ranks, "rank")
    );
    let first = report.answer.first.as_ref();
    let first = first.filter(|first| first.rule == Rule::Waiting);
    let saved = first.filter(|first| first.stage.as_ref() == Some(&row.stage));
    Some(match saved.and_then(FirstStep::saved) {
        Some(saved) => format!("{wait}; removing what the samples explain saves {saved}."),
        None => wait + ".",
    })
}

/// In steps, as the report counts; of a sample, and of stages with one instance, in collectives.
fn late_table(rows: &[(usize, &LateRow)]) -> Table {
    let has_steps = |(_, row): &(usize, &LateRow)| {
        row.delays.as_ref().is_some_and(|delays| delays.steps.is_some())
    };
    let late_rows = rows.iter().filter(|(_, row)| row.delays.is_some()).count();
    // One unit for all rows, that of the first late rank. What has no steps, such as work outside of ranges, has its sum.
    let in_steps = rows.iter().find(|(_, row)| row.delays.is_some()).is_some_and(has_steps);
    let rows = rows.iter().map(|(at, row)| {
        let delays = row.delays.as_ref();
        let steps = delays.and_then(|delays| delays.steps.as_ref());
        let cause = match delays.map(LateDelays::cause) {
            None => text("noise"),
            Some(_) if !row.shows_cause() => Value::Null,
            Some(LateCause::Host) => text("host"),
            Some(LateCause::Gpu) => text("gpu"),
            Some(LateCause::Both) => text("host and gpu"),
        };
        let period = delays.and_then(|delays| delays.period);
        let [of, late, usual, most] = match in_steps {
            true => [
                count(steps.map(|steps| steps.of)),
                count(steps.map(|steps| steps.late)),
                ms(steps.map(|steps| steps.median_ns)),
                ms(steps.map(|steps| steps.max_ns)),
            ],
            false => [
                count(row.collectives),
                count(delays.map(|delays| delays.collectives)),
                ms(delays.map(|delays| delays.mean_ns)),
                ms(delays.map(|delays| delays.max_ns)),
            ],
        };
        let cells = vec![
            text(&row.stage),
            text(&row.who),
            cause,
            of,
            late,
            usual,
            most,
            number(delays.map(|delays| delays.waiting_percent)),
            ms(delays.map(|delays| delays.work_ns)),
            count(period.and_then(|period| period.every)),
            delays.map_or(Value::Null, |delays| text(&delays.range)),
            ms(row.late_total_ns),
        ];
        Row::new(format!("/ranks/late/{at}"), cells)
    });
    let behind = "behind the median of the other ranks";
    let [of, late, usual, most] = match in_steps {
        true => [
            Column::number("steps", "count")
                .of("that could be compared")
                .plain()
                .at("/delays/steps/of"),
            Column::number("late", "count")
                .of("steps beyond noise")
                .plain()
                .at("/delays/steps/late"),
            Column::number("median_ms", "ms").of(behind).at("/delays/steps/median_ns"),
            Column::number("max_ms", "ms").of(behind).at("/delays/steps/max_ns"),
        ],
        false => [
            Column::number("collectives", "count")
                .of("that could be compared")
                .plain()
                .at("/collectives"),
            Column::number("late", "count")
                .of("collectives beyond noise")
                .plain()
                .at("/delays/collectives"),
            Column::number("mean_ms", "ms").of(behind).at("/delays/mean_ns"),
            Column::number("max_ms", "ms").of(behind).at("/delays/max_ns"),
        ],
    };
    let columns = vec![
        Column::workload("stage").at("/stage"),
        Column::workload("rank").at("/who"),
        Column::text("late_on")
            .of("noise: no delay is more than that; not known: too few steps")
            .plain(),
        of,
        late,
        usual,
        most,
        Column::number("waiting_percent", "percent")
            .of("share of all waiting in the stage that this rank causes")
            .at("/delays/waiting_percent"),
        Column::number("work_ms", "ms")
            .of("of the sum: by more GPU work than the others")
            .at("/delays/work_ns")
            .aside(),
        Column::number("every", "count")
            .of("calls or steps between late ones")
            .at("/delays/period/every")
            .aside(),
        Column::workload("in_range").at("/delays/range"),
        Column::number("total_ms", "ms")
            .of("sum over all collectives, noise too")
            .at("/late_total_ns")
            .aside(),
    ];
    Table::new("late_ranks", columns, rows.collect()).usually(6).briefly(late_rows.max(1))
}

/// Of warm calls; only where no stage has one, of all.
fn rank_table(subject: &Subject<'_>) -> Table {
    let rows = || subject.report.ranks.stages.iter().enumerate();
    let rows = || rows().filter(|(_, row)| subject.has(&row.stage));
    let is_warm = rows().any(|(_, row)| row.warm_idle.is_some());
    let cells = |(at, row): (usize, &RankStageRow)| {
        let warm = row.warm_idle.as_ref();
        let [calls, busy, idle, waiting, transfer] = match is_warm {
            true => [
                warm.map(|warm| warm.instances),
                warm.and_then(|warm| warm.busy_ns),
                warm.map(|warm| warm.ns),
                row.warm_waiting_ns,
                row.warm_transfer_ns,
            ],
            false => [
                Some(row.instances),
                row.gpu_busy_ns,
                row.gpu_idle_ns,
                row.waiting_ns,
                row.transfer_ns,
            ],
        };
        let cells = vec![
            text(&row.stage),
            text(&row.who),
            ms(row.host_warm_median_ns),
            ms(busy),
            ms(idle),
            ms(waiting),
            ms(transfer),
            count(calls),
        ];
        Row::new(format!("/ranks/stages/{at}"), cells)
    };
    let (calls, which) = match is_warm {
        true => ("GPU time of its warm calls", "warm ones"),
        false => ("GPU time of all its calls: none is warm", "all"),
    };
    let at = |warm, all| if is_warm { warm } else { all };
    let columns = vec![
        Column::workload("stage").at("/stage"),
        Column::workload("rank").at("/who"),
        Column::number("median_ms", "ms").of("host time of a warm call").at("/host_warm_median_ns"),
        Column::number("busy_ms", "ms").of(calls).at(at("/warm_idle/busy_ns", "/gpu_busy_ns")),
        Column::number("idle_ms", "ms").of(calls).at(at("/warm_idle/ns", "/gpu_idle_ns")),
        Column::number("waiting_ms", "ms")
            .of("of busy, in collectives until the last rank is there")
            .at(at("/warm_waiting_ns", "/waiting_ns")),
        Column::number("transfer_ms", "ms")
            .of("of busy, in collectives from then on")
            .at(at("/warm_transfer_ns", "/transfer_ns")),
        Column::number("calls", "count")
            .of(which)
            .plain()
            .at(at("/warm_idle/instances", "/instances")),
    ];
    Table::new("ranks", columns, rows().map(cells).collect()).usually(6)
}

/// How many ranks there are, of fewer than two.
fn seen(ranks: u64) -> &'static str {
    if ranks == 0 { "no process has a rank" } else { "only 1 rank was recorded" }
}

fn no_ranks(subject: &Subject<'_>, answer: &mut Answer) {
    let ranks = &subject.report.ranks;
    let example = ["run", "--light", "--", "torchrun", "--nproc-per-node", "N", "COMMAND"];
    if is_one_process(subject.report) {
        // No run of it could tell more.
    } else if ranks.seen < 2 {
        let reason = format!("{}, and lateness needs two", seen(ranks.seen));
        answer.unknown("which rank is late", reason, &example);
    } else if !is_compared(subject.report) {
        let reason = "no collective was matched over ranks";
        answer.unknown("which rank is late", reason, &["ask", subject.run.label, "collectives"]);
    }
}

pub(super) fn collectives(subject: &Subject<'_>, answer: &mut Answer) {
    let ranks = &subject.report.ranks;
    let all = ranks.collectives.iter().enumerate();
    let mut rows: Vec<_> = all.filter(|(_, row)| subject.has(&row.stage)).collect();
    // Stages of the model first; then the most time.
    let model: HashSet<&str> =
        model_stages(subject.report).map(|stage| stage.stage.as_str()).collect();
    rows.order_by_key(|(_, row)| {
        (!model.contains(row.stage.as_str()), std::cmp::Reverse(row.time_ns))
    });
    answer.summary = match rows.first() {
        None => "No collectives were recorded.".to_owned(),
        Some((_, row)) => {
            let waiting = row.waiting_ns.map(|ns| ns as f64 * 100.0 / row.time_ns.max(1) as f64);
            let waiting = waiting.map(|percent| format!(", {} % of it waiting", percent1(percent)));
            format!(
                "Most time is in {} of {}: {} over all ranks, with the cold calls{}.",
                name_of(&row.operation).as_str().unwrap_or("collectives"),
                quoted(&row.stage),
                shown_time(row.time_ns as f64),
                waiting.unwrap_or_default()
            )
        }
    };
    let unmatched: Vec<Row> = rows
        .iter()
        .flat_map(|(at, row)| {
            row.unmatched.iter().enumerate().map(move |(why_at, why)| (at, why_at, row, why))
        })
        .map(|(at, why_at, row, why)| {
            let cells = vec![
                text(&row.stage),
                name_of(&row.operation),
                count(why.calls),
                text(&why.why),
                text(&why.remedy),
            ];
            Row::new(format!("/ranks/collectives/{at}/unmatched/{why_at}"), cells)
        })
        .collect();
    let table = rows.iter().map(|(at, row)| {
        let mean = row.time_ns.checked_div(row.calls);
        let cells = vec![
            text(&row.stage),
            name_of(&row.operation),
            count(row.bytes_max),
            count(row.members),
            count(row.calls),
            ms(row.time_ns),
            ms(row.waiting_ns),
            ms(row.transfer_ns),
            us(mean),
            number(row.bus_gb_per_s),
            count(row.matched_calls),
        ];
        Row::new(format!("/ranks/collectives/{at}"), cells)
    });
    let columns = vec![
        Column::workload("stage").at("/stage"),
        Column::text("operation").at("/operation"),
        // Next to the operation: it tells rows apart that are otherwise alike.
        Column::number("bytes_max", "bytes")
            .of("largest call; known of the kernels of NCCL only")
            .at("/bytes_max"),
        Column::number("members", "count").at("/members"),
        Column::number("calls", "count").of("all ranks, with cold calls").at("/calls"),
        Column::number("time_ms", "ms").of("sum over ranks, with cold calls").at("/time_ns"),
        Column::number("waiting_ms", "ms").of("before the last member arrived").at("/waiting_ns"),
        Column::number("transfer_ms", "ms").of("from that arrival on").at("/transfer_ns"),
        Column::number("mean_us", "us").of("time over calls").plain(),
        Column::number("bus_gb_per_s", "GB/s").of("as NCCL's tests define it").at("/bus_gb_per_s"),
        Column::number("matched", "count")
            .of("calls matched over all members")
            .at("/matched_calls"),
    ];
    answer.push(Table::new("collectives", columns, table.collect()));
    let columns = vec![
        Column::workload("stage"),
        Column::text("operation"),
        Column::number("calls", "count").at("/calls"),
        Column::workload("why").at("/why"),
        Column::workload("remedy").at("/remedy"),
    ];
    answer.push(Table::new("unmatched", columns, unmatched).usually(3));
    if rows.is_empty() {
        let reason = match subject.report.coverage.total.kernels {
            0 => "no kernels were recorded".to_owned(),
            _ if ranks.seen < 2 => {
                "one process was recorded, and no communication kernel was found in it".to_owned()
            }
            _ => "no communication kernel was found".to_owned(),
        };
        answer.unknown("time in collectives", reason, &["ask", subject.run.label, "coverage"]);
    }
    if ranks.kernels_left_out > 0 {
        let reason = "they belong to no collective that could be identified";
        let question = format!("times of {} communication kernels", ranks.kernels_left_out);
        answer.unknown(&question, reason, &["ask", subject.run.label, "kernels-by-loss"]);
    }
}
