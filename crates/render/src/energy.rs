//! Energy and clocks of the stages -> the table of report.md, with a reason for each number that is missing.

use std::collections::BTreeMap;

use crate::table::{ROWS, Table, decimal, more, name, none, paragraph, text};
use stage2_contract::text::numbers::{count, counted};
use stage2_contract::text::{code, plain};
use stage2_model::{Absent, ClockUse, DeviceEnergy, Report, StageEnergy};

/// Heading of the section.
pub(super) const TITLE: &str = "Energy and clocks";
/// Key under which a trace file states why nothing was read.
const META_NVML_OFF: &str = "nvml.off";
/// Reasons for missing numbers that are shown, and stages named with each.
const REASONS: usize = 8;
const STAGES: usize = 3;

/// A stage, or a GPU of a stage that ran on several.
struct Row<'r> {
    stage: &'r str,
    joules_per_token: Option<f64>,
    gpu: DeviceEnergy,
}

fn rows(row: &StageEnergy) -> impl Iterator<Item = Row<'_>> {
    let (only, several) = match row.devices.as_slice() {
        [only] => (Some(only), &[][..]),
        several => (None, several),
    };
    let whole = DeviceEnergy {
        device: only.map_or("all", |only| &only.device).to_owned(),
        energy_j: row.energy_j.clone(),
        uncertainty_j: row.uncertainty_j,
        mean_power_w: row.mean_power_w.clone(),
        clocks: row.clocks.clone(),
        other_processes: only.and_then(|only| only.other_processes),
        window_ns: 0,
    };
    let stage = row.stage.as_str();
    let of = move |joules_per_token, gpu| Row { stage, joules_per_token, gpu };
    let several = several.iter().map(move |device| of(None, device.clone()));
    std::iter::once(of(row.joules_per_token.value(), whole)).chain(several)
}

/// The section; empty if no readings were requested, or the trace files are older.
pub(super) fn energy_md(report: &Report) -> String {
    if report.energy.is_empty() {
        let mut processes = report.coverage.processes.iter();
        let off = processes.find_map(|process| process.meta.get(META_NVML_OFF));
        return off.map_or_else(String::new, |reason| none(reason, ""));
    }
    let rows: Vec<Row<'_>> = report.energy.iter().flat_map(rows).collect();
    let table = Table::first(ROWS, &rows)
        .left("stage", |row| name(row.stage))
        .left("GPU", |Row { gpu, .. }| text(&gpu.device))
        .right("energy_J", |Row { gpu, .. }| decimal(gpu.energy_j.value(), 1))
        .right("± J", |Row { gpu, .. }| decimal(gpu.uncertainty_j, 1))
        .right("J per token", |row| decimal(row.joules_per_token, 3))
        .right("mean_power_W", |Row { gpu, .. }| decimal(gpu.mean_power_w.value(), 0))
        .right("SM clock MHz, mean", |Row { gpu, .. }| {
            gpu.clocks.sm_clock_mhz.map(|clock| decimal(Some(clock.mean), 0))
        })
        .right("min to max", |Row { gpu, .. }| {
            gpu.clocks.sm_clock_mhz.map(|clock| format!("{} to {}", clock.min, clock.max))
        })
        .right("temperature °C, max", |Row { gpu, .. }| {
            gpu.clocks.temperature_max_c.map(|celsius| celsius.to_string())
        })
        .left("clocks held down by", |Row { gpu, .. }| limits(&gpu.clocks))
        .right("readings", |Row { gpu, .. }| count(gpu.clocks.reads))
        .right("other processes", |Row { gpu, .. }| gpu.other_processes.map(|n| n.to_string()));
    let table = table.with_note("Windows of a stage: warm calls only, where there are any.");
    table + &missing(&report.energy) + &foreign(&rows)
}

fn limits(clocks: &ClockUse) -> Option<String> {
    let limits = clocks.limits.as_ref()?;
    let named = limits.iter();
    let named =
        named.map(|limit| format!("{} ({})", limit.reason, counted(limit.reads, "reading")));
    let named: Vec<String> = named.collect();
    // A reading that names nothing is a finding as well.
    Some(if named.is_empty() { "nothing".to_owned() } else { text(&named.join(", ")) })
}

/// Why numbers are missing, the same reason once.
fn missing(all: &[StageEnergy]) -> String {
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for row in all {
        let per_token = row.joules_per_token.absent();
        // Why there is no token belongs to the page of the model.
        let per_token = per_token.filter(|absent| **absent == Absent::SeveralGpus);
        let absent = row.energy_j.absent().map(|absent| ("energy", absent));
        for (what, absent) in absent.into_iter().chain(per_token.map(|a| ("energy per token", a))) {
            let reason = format!("no {what}, because {absent}");
            reasons.entry(reason).or_default().push(&row.stage);
        }
    }
    let mut out = String::new();
    for (reason, stages) in reasons.iter().take(REASONS) {
        let mut named: Vec<String> = stages.iter().take(STAGES).map(|stage| code(stage)).collect();
        if stages.len() > STAGES {
            named.push(format!("{} more stages", count((stages.len() - STAGES) as u64)));
        }
        out.push_str(&format!("- {}: {}.\n", named.join(", "), plain(reason)));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out + &more(reasons.len(), REASONS, "reason")
}

fn foreign(rows: &[Row<'_>]) -> String {
    let others = rows.iter().filter_map(|row| row.gpu.other_processes).max();
    match others {
        None => paragraph(
            "The energy is that of the whole GPU. The driver does not say whether other processes used it.",
        ),
        Some(0) => String::new(),
        Some(_) => paragraph(
            "The energy is that of the whole GPU, and other processes used it as well: the share of each \
             is not known.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::{ClockLimit, Figure, ReadSpan};

    fn stage(name: &str, joules: Figure, others: Option<u32>) -> StageEnergy {
        let clocks = ClockUse {
            reads: 9,
            clock_reads: 9,
            sm_clock_mhz: Some(ReadSpan { min: 1200, mean: 1305.4, max: 1410 }),
            limits: Some(vec![ClockLimit { reason: "power limit".into(), reads: 7 }]),
            ..ClockUse::default()
        };
        let power = joules.map(|joules| joules / 2.0);
        StageEnergy {
            stage: name.into(),
            energy_j: joules.clone(),
            uncertainty_j: Some(3.04),
            mean_power_w: power.clone(),
            joules_per_token: Figure::Absent(Absent::NoModel),
            clocks: clocks.clone(),
            devices: vec![DeviceEnergy {
                device: "0 H200".into(),
                window_ns: 2_000_000_000,
                energy_j: joules,
                uncertainty_j: Some(3.04),
                mean_power_w: power,
                clocks,
                other_processes: others,
            }],
        }
    }

    #[test]
    fn every_missing_number_has_its_reason() {
        let short = Figure::Absent(Absent::TooShortForEnergy);
        let energy =
            vec![stage("decode", Figure::of(1234.56), Some(0)), stage("a|b", short, Some(0))];
        let page = energy_md(&Report { energy, ..Report::default() });
        let row = "| `decode` | 0 H200 | 1,234.6 | 3.0 | 617 | 1,305 | 1,200 to 1,410 |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("power limit (7 readings)"), "{page}");
        assert!(page.contains("no energy, because its windows add up to less than 1 s"), "{page}");
        assert!(!page.contains("whole GPU") && !page.contains("0.0"), "{page}");
    }

    #[test]
    fn whose_energy_it_is_stands_beside_it() {
        let page = |others| {
            let energy = vec![stage("decode", Figure::of(10.0), others)];
            energy_md(&Report { energy, ..Report::default() })
        };
        assert!(page(Some(2)).contains("other processes used it as well"));
        assert!(page(None).contains("does not say whether other processes used it"));
    }

    #[test]
    fn without_readings_the_reason_stands_there_if_the_collector_gave_one() {
        assert_eq!(energy_md(&Report::default()), "");
        let mut report = Report::default();
        let mut process = stage2_model::ProcessCoverage::default();
        process.meta.insert(META_NVML_OFF.into(), "STAGE2_DEVICE_STATE=off".into());
        report.coverage.processes.push(process);
        assert_eq!(energy_md(&report), "None: STAGE2_DEVICE_STATE=off.\n\n");
    }
}
