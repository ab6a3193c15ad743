//! A whole report -> the numbers that its findings rest on, by their places in `metrics.json`.
//!
//! A finding is made where its cause is seen; the places are known only when no row moves any more.

use stage2_model::finding::Id;
use stage2_model::{Evidence, EvidenceValue, Finding, KERNEL_COLUMNS, KernelRow, Report, Roofline};

use crate::join::overhead::LIMIT;
use crate::llm::mfu::{HIGHEST_POSSIBLE_SHARE, READS_TOO_MUCH, shares};
use crate::roofline::bound::DURATION_RATIO_MOST;
use crate::sampled::label;

/// Rows that a finding on several points to.
const ROWS_NAMED: usize = 3;

pub(crate) fn add(report: &mut Report) {
    let mut findings = std::mem::take(&mut report.findings);
    for finding in findings.iter_mut().filter(|finding| finding.evidence.is_empty()) {
        finding.evidence = of_finding(finding, report).unwrap_or_default();
    }
    report.findings = findings;
}

fn of_finding(finding: &Finding, report: &Report) -> Option<Vec<Evidence>> {
    let subject = finding.subject.as_deref();
    Some(match finding.id {
        Id::GpuShared => {
            let at = report.devices.iter().position(|row| Some(&*row.device) == subject)?;
            let source = format!("/devices/{at}/processes");
            vec![count("processes", report.devices[at].processes, source)]
        }
        Id::OverheadHigh => slowdowns(report, subject?),
        Id::CountersMixedOnly
        | Id::CountersLeftOut
        | Id::CountersGap
        | Id::CountersLost
        | Id::CountersUnusable => counter_losses(finding.id, report, subject?)?,
        Id::NsysDiffers => {
            let all = &report.nsys.as_ref()?.reconciliations;
            let at = all.iter().position(|one| one.text == finding.what)?;
            let sides = &all[at].overall;
            let source = |field: &str| format!("/nsys/reconciliations/{at}/overall/{field}");
            let ns = |name, value: u64| Evidence::number(name, value as f64, "ns", source(name));
            vec![
                count("collector_calls", sides.collector_calls, source("collector_calls")),
                count("nsys_calls", sides.nsys_calls, source("nsys_calls")),
                ns("collector_ns", sides.collector_ns),
                ns("nsys_ns", sides.nsys_ns),
            ]
        }
        Id::NcuOneLaunch => of_kernels(report, "one_launch", |row| {
            row.counters.as_ref()?.one_launch.clone().map(EvidenceValue::State)
        }),
        Id::NcuDurationDiffers => of_kernels(report, "roofline/duration_ratio", |row| {
            let ratio = roofline(row)?.duration_ratio?;
            (ratio > DURATION_RATIO_MOST).then_some(EvidenceValue::Number(ratio))
        }),
        Id::NcuImpossibleRates => {
            let beyond = |of: fn(&Roofline) -> Option<f64>| {
                move |row: &KernelRow| {
                    let rates = roofline(row)?;
                    of(rates)
                        .filter(|share| Some(*share) == rates.beyond_peak())
                        .map(EvidenceValue::Number)
                }
            };
            let mut found =
                of_kernels(report, "roofline/compute_share", beyond(|r| r.compute_share));
            found.extend(of_kernels(
                report,
                "roofline/bandwidth_share",
                beyond(|r| r.bandwidth_share),
            ));
            found
        }
        Id::RanksMissing => vec![
            count("seen", report.ranks.seen, "/ranks/seen".to_owned()),
            count("expected", report.ranks.expected?, "/ranks/expected".to_owned()),
        ],
        Id::RanksUnmatched => {
            let source = "/ranks/kernels_left_out".to_owned();
            vec![count("kernels_left_out", report.ranks.kernels_left_out, source)]
        }
        Id::ModelSteps => {
            let concerned = |stage: &str, role: stage2_model::Role| {
                Some(stage) == subject || role == stage2_model::Role::Prefill
            };
            let rows = report.stages.iter().enumerate();
            let rows = rows.filter(|(_, row)| concerned(&row.stage, row.role));
            let of = |at: usize, instances| {
                count("instances", instances, format!("/stages/{at}/instances"))
            };
            rows.filter_map(|(at, row)| Some(of(at, row.instances?))).collect()
        }
        Id::ModelImpossible => {
            let used = &report.insight.utilisation.as_ref()?.numbers;
            let mut all = shares(&used.stages, &used.model);
            let (_, figure, place) = all.find(|(name, ..)| Some(name.as_str()) == subject)?;
            let source = format!("/utilisation/{place}/known");
            let share = Evidence::number("share_of_peak", figure.value()?, "ratio", source);
            vec![share.against(HIGHEST_POSSIBLE_SHARE)]
        }
        Id::ModelReadsMore => {
            let stages = &report.insight.utilisation.as_ref()?.numbers.stages;
            let at = stages.iter().position(|stage| Some(&*stage.stage) == subject)?;
            let ratio = stages[at].sampled.as_ref()?.read_over_modelled?;
            let source = format!("/utilisation/stages/{at}/sampled/read_over_modelled");
            vec![
                Evidence::number("read_over_modelled", ratio, "ratio", source)
                    .against(READS_TOO_MUCH),
            ]
        }
        _ => return None,
    })
}

fn count(name: &str, value: u64, source: String) -> Evidence {
    Evidence::number(name, value as f64, "count", source)
}

/// The stages that a pass slowed down, those that were slowed most first.
fn slowdowns(report: &Report, pass: &str) -> Vec<Evidence> {
    let costs = report.costs.stages.iter().enumerate().filter(|(_, cost)| cost.pass == pass);
    let mut slow: Vec<(usize, f64)> = costs
        .filter_map(|(at, cost)| Some((at, cost.ratio.filter(|ratio| *ratio > LIMIT)?)))
        .collect();
    slow.sort_by(|a, b| b.1.total_cmp(&a.1));
    let of = |(at, ratio)| {
        let source = format!("/costs/stages/{at}/ratio");
        Evidence::number("ratio_to_baseline", ratio, "ratio", source).against(LIMIT)
    };
    slow.into_iter().take(ROWS_NAMED).map(of).collect()
}

fn counter_losses(id: Id, report: &Report, subject: &str) -> Option<Vec<Evidence>> {
    let devices = &report.sampled.as_ref()?.devices;
    let at = devices.iter().position(|device| label(device) == subject)?;
    let device = &devices[at];
    let numbers = match id {
        Id::CountersMixedOnly => {
            [("samples_unrecorded", device.samples_unrecorded), ("samples", Some(device.samples))]
        }
        Id::CountersLeftOut => {
            [("samples_left_out", Some(device.samples_left_out)), ("samples", Some(device.samples))]
        }
        Id::CountersGap => [("overflows", device.overflows), ("lost_ns", device.lost_ns)],
        Id::CountersLost => {
            [("samples_lost", device.samples_lost), ("samples", Some(device.samples))]
        }
        _ => [
            ("unusable_samples", Some(device.unusable_samples)),
            ("unusable_values", Some(device.unusable_values)),
        ],
    };
    let of = |(name, value): (&str, Option<u64>)| {
        let unit = if name.ends_with("_ns") { "ns" } else { "count" };
        Some(Evidence::number(name, value? as f64, unit, format!("/sampled/devices/{at}/{name}")))
    };
    Some(numbers.into_iter().filter_map(of).collect())
}

fn roofline(row: &KernelRow) -> Option<&Roofline> {
    row.counters.as_ref().map(|counters| &counters.roofline)
}

/// The first kernel rows of which `value` is known, by the field of their counters that holds it.
fn of_kernels(
    report: &Report,
    field: &str,
    value: impl Fn(&KernelRow) -> Option<EvidenceValue>,
) -> Vec<Evidence> {
    let column =
        KERNEL_COLUMNS.iter().position(|(name, _)| *name == "counters").unwrap_or_default();
    let name = field.rsplit('/').next().unwrap_or(field);
    let of = |(at, value): (usize, EvidenceValue)| {
        let unit = matches!(value, EvidenceValue::Number(_)).then(|| "ratio".to_owned());
        let source = format!("/kernels/rows/{at}/{column}/{field}");
        Evidence { unit, ..Evidence::state(name, value, &source) }
    };
    let rows = report.kernels.iter().enumerate();
    let known = rows.filter_map(|(at, row)| Some((at, value(row)?)));
    known.take(ROWS_NAMED).map(of).collect()
}
