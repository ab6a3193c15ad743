//! Regions that ncu measured by range replay -> a section of `report.md`, and `ncu_regions.csv`.

use std::io::Write;

use stage2_contract::text::{code, csv_field, plain};
use stage2_model::Report;
use stage2_model::regions::{Region, RegionTable, Scope, Totals};

use super::table::{ROWS, Table};

/// The section of report.md; nothing if no region was measured.
pub(super) fn regions_md(report: &Report) -> String {
    let Some(shown) = report.ncu_regions.iter().min_by_key(|table| table.scope) else {
        return String::new();
    };
    let table = Table::first(ROWS, &shown.regions)
        .left("region", |region| code(&region.path))
        .left("within", |region| region.parent.as_deref().map(code))
        .right("instances", |region| region.inclusive.launches.to_string())
        .right("ms inclusive", |region| number(region.inclusive.duration_ns, 1e6, 3))
        .right("ms exclusive", |region| number(exclusive(region, |own| own.duration_ns), 1e6, 3))
        .right("GB inclusive", |region| number(region.inclusive.dram_bytes, 1e9, 3))
        .right("GB exclusive", |region| number(exclusive(region, |own| own.dram_bytes), 1e9, 3))
        .right("TFLOP inclusive", |region| number(region.inclusive.flops, 1e12, 3))
        .right("TFLOP/s", |region| number(per_second(region, |all| all.flops), 1e12, 2))
        .right("GB/s", |region| number(per_second(region, |all| all.dram_bytes), 1e9, 1))
        .right("FLOP/byte", |Region { inclusive: all, .. }| {
            number(all.flops.zip(all.dram_bytes).map(|(flops, bytes)| flops / bytes), 1.0, 2)
        })
        .right("SM_%", |region| number(region.inclusive.sm_percent, 1.0, 1))
        .right("memory_%", |region| number(region.inclusive.memory_percent, 1.0, 1));
    let scopes: Vec<String> = report.ncu_regions.iter().map(|table| scope(table.scope)).collect();
    format!(
        "{}Range replay: each region was measured as one unit, in a separate \
         run; times are of the GPU under ncu, launch gaps included. FLOP are those of the \
         tensor cores: ncu counts no others over a range. Inclusive is with the measured regions \
         within it, exclusive without. Scope: {}; ncu_regions.csv has {}.\n\n",
        table.markdown_with_rest_in("ncu_regions.csv"),
        plain(&scope(shown.scope)),
        plain(&scopes.join(", ")),
    )
}

/// A column of `ncu_regions.csv`: its name, and the field of a region below it.
type Column = (&'static str, fn(Scope, &Region) -> String);

const COLUMNS: [Column; 17] = [
    ("scope", |of, _| scope(of)),
    ("region", |_, region| csv_field(&region.path)),
    ("name", |_, region| csv_field(&region.name)),
    ("domain", |_, region| csv_field(region.domain.as_deref().unwrap_or_default())),
    ("parent", |_, region| csv_field(region.parent.as_deref().unwrap_or_default())),
    ("depth", |_, region| region.depth.to_string()),
    ("instances", |_, region| region.inclusive.launches.to_string()),
    ("inclusive_ns", |_, region| field(region.inclusive.duration_ns)),
    ("exclusive_ns", |_, region| field(exclusive(region, |own| own.duration_ns))),
    ("inclusive_dram_bytes", |_, region| field(region.inclusive.dram_bytes)),
    ("exclusive_dram_bytes", |_, region| field(exclusive(region, |own| own.dram_bytes))),
    ("inclusive_flops", |_, region| field(region.inclusive.flops)),
    ("exclusive_flops", |_, region| field(exclusive(region, |own| own.flops))),
    ("flops_per_s", |_, region| field(per_second(region, |all| all.flops))),
    ("dram_bytes_per_s", |_, region| field(per_second(region, |all| all.dram_bytes))),
    ("sm_percent", |_, region| field(region.inclusive.sm_percent)),
    ("memory_percent", |_, region| field(region.inclusive.memory_percent)),
];

/// Writes `ncu_regions.csv`: every region of every scope. Absent values are empty fields.
///
/// # Errors
/// What the sink says.
pub(super) fn regions_csv(tables: &[RegionTable], sink: impl Write) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(sink);
    writer.write_record(COLUMNS.map(|(name, _)| name))?;
    for table in tables {
        for region in &table.regions {
            writer.write_record(COLUMNS.map(|(_, field)| field(table.scope, region)))?;
        }
    }
    writer.flush()?;
    Ok(())
}

fn scope(scope: Scope) -> String {
    match scope {
        Scope::Aggregate => "all processes and devices".to_owned(),
        Scope::Process(id) => format!("process {id}"),
        Scope::Device(index) => format!("device {index}"),
    }
}

fn exclusive(region: &Region, value: fn(&Totals) -> Option<f64>) -> Option<f64> {
    region.exclusive.as_ref().and_then(value)
}

fn per_second(region: &Region, amount: fn(&Totals) -> Option<f64>) -> Option<f64> {
    let all = &region.inclusive;
    Some(amount(all)? * 1e9 / all.duration_ns.filter(|ns| *ns > 0.0)?)
}

fn number(value: Option<f64>, unit: f64, decimals: usize) -> Option<String> {
    let value = value.map(|value| value / unit).filter(|value| value.is_finite());
    value.map(|value| format!("{value:.decimals$}"))
}

fn field(value: Option<f64>) -> String {
    number(value, 1.0, 4).unwrap_or_default()
}
