//! Regions that ncu measured by range replay -> tables in a report, in `report.md` and a CSV file.

use std::io::Write;

use stage2_model::Report;
use stage2_model::regions::{Region, RegionTable, Scope, Totals};
use stage2_text::{code, csv_field, plain};

use super::table::Align::{Left, Right};
use super::table::Table;

/// Rows of the table in report.md; the CSV file has them all.
const ROWS: usize = 200;

/// The section of report.md; nothing where nothing was measured by region.
pub(super) fn regions_md(report: &Report) -> String {
    let Some(shown) = report.ncu_regions.iter().min_by_key(|table| table.scope) else {
        return String::new();
    };
    let mut table = Table::new(&[
        ("region", Left),
        ("within", Left),
        ("instances", Right),
        ("ms inclusive", Right),
        ("ms exclusive", Right),
        ("GB inclusive", Right),
        ("GB exclusive", Right),
        ("TFLOP inclusive", Right),
        ("TFLOP/s", Right),
        ("GB/s", Right),
        ("FLOP/byte", Right),
        ("SM_%", Right),
        ("memory_%", Right),
    ]);
    for region in shown.regions.iter().take(ROWS) {
        let (all, own) = (&region.inclusive, region.exclusive.as_ref());
        let own = |pick: fn(&Totals) -> Option<f64>| own.and_then(pick);
        table.row([
            code(&region.path),
            region.parent.as_ref().map_or_else(|| "–".to_owned(), |parent| code(parent)),
            all.launches.to_string(),
            number(all.duration_ns, 1e6, 3),
            number(own(|totals| totals.duration_ns), 1e6, 3),
            number(all.dram_bytes, 1e9, 3),
            number(own(|totals| totals.dram_bytes), 1e9, 3),
            number(all.flops, 1e12, 3),
            number(rate(all.flops, all.duration_ns), 1e12, 2),
            number(rate(all.dram_bytes, all.duration_ns), 1e9, 1),
            number(all.flops.zip(all.dram_bytes).map(|(flops, bytes)| flops / bytes), 1.0, 2),
            number(all.sm_percent, 1.0, 1),
            number(all.memory_percent, 1.0, 1),
        ]);
    }
    let more = shown.regions.len().saturating_sub(ROWS);
    let more = if more > 0 {
        format!("{more} more rows stand in ncu_regions.csv. ")
    } else {
        String::new()
    };
    let scopes: Vec<String> = report.ncu_regions.iter().map(|table| scope(table.scope)).collect();
    format!(
        "## Regions under ncu\n\n{}{more}Range replay: each region was measured as one unit, in a \
         run of its own; times are of the GPU under ncu, launch gaps included. FLOP are those of the \
         tensor cores: ncu counts no others over a range. Inclusive is with \
         the measured regions within it, exclusive without. Scope: {}; ncu_regions.csv has {}.\n\n",
        table.finish(),
        plain(&scope(shown.scope)),
        plain(&scopes.join(", ")),
    )
}

const COLUMNS: [&str; 17] = [
    "scope",
    "region",
    "name",
    "domain",
    "parent",
    "depth",
    "instances",
    "inclusive_ns",
    "exclusive_ns",
    "inclusive_dram_bytes",
    "exclusive_dram_bytes",
    "inclusive_flops",
    "exclusive_flops",
    "flops_per_s",
    "dram_bytes_per_s",
    "sm_percent",
    "memory_percent",
];

/// Writes `ncu_regions.csv`: every region of every scope. Absent values are empty fields.
///
/// # Errors
/// What the sink says.
pub(super) fn regions_csv(tables: &[RegionTable], sink: impl Write) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(sink);
    writer.write_record(COLUMNS)?;
    for table in tables {
        for region in &table.regions {
            writer.write_record(record(table.scope, region))?;
        }
    }
    writer.flush()?;
    Ok(())
}

fn record(of: Scope, region: &Region) -> [String; COLUMNS.len()] {
    let (all, own) = (&region.inclusive, region.exclusive.as_ref());
    let own = |pick: fn(&Totals) -> Option<f64>| field(own.and_then(pick));
    [
        scope(of),
        csv_field(&region.path),
        csv_field(&region.name),
        csv_field(region.domain.as_deref().unwrap_or_default()),
        csv_field(region.parent.as_deref().unwrap_or_default()),
        region.depth.to_string(),
        all.launches.to_string(),
        field(all.duration_ns),
        own(|totals| totals.duration_ns),
        field(all.dram_bytes),
        own(|totals| totals.dram_bytes),
        field(all.flops),
        own(|totals| totals.flops),
        field(rate(all.flops, all.duration_ns)),
        field(rate(all.dram_bytes, all.duration_ns)),
        field(all.sm_percent),
        field(all.memory_percent),
    ]
}

fn scope(scope: Scope) -> String {
    match scope {
        Scope::Aggregate => "all processes and devices".to_owned(),
        Scope::Process(id) => format!("process {id}"),
        Scope::Device(index) => format!("device {index}"),
    }
}

/// What there is of something in a second.
fn rate(amount: Option<f64>, duration_ns: Option<f64>) -> Option<f64> {
    Some(amount? * 1e9 / duration_ns.filter(|ns| *ns > 0.0)?)
}

fn number(value: Option<f64>, unit: f64, decimals: usize) -> String {
    let value = value.map(|value| value / unit).filter(|value| value.is_finite());
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.decimals$}"))
}

fn field(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(String::new, |value| format!("{value:.4}"))
}
