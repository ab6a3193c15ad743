//! A report -> `report.md`: what ran, whether it can be believed, and where the GPU's time went.

mod coverage;
pub(super) mod insight;
mod ranges;
mod run;
mod tools;
mod whole_run;
mod work;

use super::advice;
use super::costs::costs;
use super::energy::{self, energy_md};
use super::page::{Page, first_screen};
use super::ranks::{collectives, processes, ranks};
use super::regions::regions_md;
use super::sampled;
use super::steps::{self, steps_md};
use stage2_contract::text::numbers::counted;
use stage2_contract::text::plain;
use stage2_model::{Report, Severity};

/// The page.
pub(super) fn page(report: &Report) -> Page {
    let title = format!("Report of {}", report.run.name);
    let sections = vec![
        ("Takeaways", advice::takeaways(report)),
        ("Recommendations", advice::recommendations(report)),
        ("What ran", run::what_ran(report)),
        ("Stages", ranges::stages(report)),
        (steps::TITLE, steps_md(report)),
        ("Stages by GPU", ranges::stages_by_device(report)),
        (energy::TITLE, energy_md(report)),
        ranges::libraries(report),
        ranks(report),
        ("Collectives", collectives(report)),
        ("Model FLOP utilisation", insight::utilisation(report)),
        (sampled::TITLE, sampled::sampled_md(report)),
        ("Cost of the passes", costs(report, |_| true)),
        ("Ranges", ranges::paths(report)),
        ("Top kernels of each stage", work::stage_kernels(report)),
        ("Kernel classes", tools::classes(report)),
        ("Roofline", tools::roofline(report)),
        ("Regions under ncu", regions_md(report)),
        ("Nsight Systems against the collector", tools::reconciliation(report)),
        ("Copies", work::memory(&report.copies)),
        ("Fills", work::memory(&report.fills)),
        ("Graph launches", work::graphs(report)),
        ("Graph replays by the range of their capture", work::captures(report)),
        ("GPUs", run::devices(report)),
        ("Processes", processes(report)),
        ("Coverage", coverage::coverage(report)),
        ("Findings", advice::findings(report, usize::MAX)),
        ("Whole run, with warm-up", whole_run::whole_run(report)),
        (advice::RULES, advice::rules(report)),
        ("How to read this", definitions(report)),
    ];
    Page { title, head: first_screen(report) + &serious(report), sections }
}

/// On the first screen: how many findings there are, and what the errors are.
fn serious(report: &Report) -> String {
    let of = |severity| report.findings.iter().filter(move |f| f.severity == severity);
    let errors: String =
        of(Severity::Error).map(|f| format!("- **error:** {}\n", plain(&f.what))).collect();
    let number = |severity, noun| counted(of(severity).count() as u64, noun);
    let (warnings, notes) = (number(Severity::Warning, "warning"), number(Severity::Note, "note"));
    let line = format!("**Findings:** {warnings} and {notes}.\n\n");
    if errors.is_empty() { line } else { format!("{errors}\n{line}") }
}

fn definitions(report: &Report) -> String {
    let mut out = String::new();
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
