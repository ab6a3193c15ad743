//! A report -> `report.md`: what ran, whether it can be believed, and where the GPU's time went.

mod coverage;
pub(super) mod insight;
mod ranges;
mod run;
mod tools;
mod work;

use super::costs::costs;
use super::page::first_screen;
use super::ranks::{processes, ranks};
use super::regions::regions_md;
use super::steps::steps_md;
use stage2_model::{Finding, Report, Severity};
use stage2_text::numbers::counted;
use stage2_text::plain;

/// Rows of a table in this page; metrics.json has them all.
const ROWS: usize = 200;

/// The page.
pub(super) fn report_md(report: &Report) -> String {
    let mut out = first_screen(&format!("Report of {}", report.run.name), report);
    out.push_str(&serious(report));
    out.push_str(&insight::takeaways(report));
    out.push_str(&run::what_ran(report));
    out.push_str(&ranges::stages(report));
    out.push_str(&steps_md(report));
    out.push_str(&ranges::stages_by_device(report));
    out.push_str(&ranges::libraries(report));
    out.push_str(&ranks(report));
    out.push_str(&insight::utilisation(report));
    out.push_str(&format!("## Cost of the passes\n\n{}", costs(report, |_| true)));
    out.push_str(&ranges::paths(report));
    out.push_str(&work::stage_kernels(report));
    out.push_str(&tools::classes(report));
    out.push_str(&tools::roofline(report));
    out.push_str(&regions_md(report));
    out.push_str(&tools::reconciliation(report));
    out.push_str(&work::memory("Copies", &report.copies));
    out.push_str(&work::memory("Fills", &report.fills));
    out.push_str(&work::graphs(report));
    out.push_str(&work::captures(report));
    out.push_str(&run::devices(report));
    out.push_str(&processes(report));
    out.push_str(&coverage::coverage(report));
    out.push_str(&findings(report));
    out.push_str(&definitions(report));
    out
}

/// On the first screen: how many findings there are, and what the errors are.
fn serious(report: &Report) -> String {
    let of = |severity| report.findings.iter().filter(move |f| f.severity == severity);
    let errors: String =
        of(Severity::Error).map(|f| format!("- **error:** {}\n", plain(&f.what))).collect();
    let number = |severity, noun| counted(of(severity).count() as u64, noun);
    let (warnings, notes) = (number(Severity::Warning, "warning"), number(Severity::Note, "note"));
    let line = format!("The section Findings lists {warnings} and {notes}.\n\n");
    if errors.is_empty() { line } else { format!("{errors}\n{line}") }
}

fn findings(report: &Report) -> String {
    let mut out = String::from("## Findings\n\n");
    if report.findings.is_empty() {
        out.push_str("None.\n\n");
        return out;
    }
    out.extend(report.findings.iter().map(Finding::item));
    out.push('\n');
    out
}

fn definitions(report: &Report) -> String {
    let mut out = String::from("## How to read this\n\n");
    for definition in &report.definitions {
        let (term, meaning) = (plain(&definition.term), plain(&definition.meaning));
        out.push_str(&format!("- **{term}**: {meaning}\n"));
    }
    out.push_str(&format!(
        "\nmetrics.json holds everything here (`{}` version {}), kernels.csv every kernel row.\n",
        report.schema, report.schema_version
    ));
    out
}
