//! A [`Report`] -> what people and programs read: `kernels.md`, `kernels.csv`, `metrics.json`, `timelines.json`,
//! `report.md`, `report.html`, `operators.md` and `stakeholder_summary.md`.

#![forbid(unsafe_code)]

mod advice;
mod aligned;
mod costs;
pub mod diff;
mod energy;
mod engine;
mod facts;
mod headline;
mod host;
mod html;
mod job;
mod kernels;
mod links;
mod names;
pub mod operators;
mod page;
mod ranks;
mod regions;
mod report;
mod sampled;
mod stages;
mod steps;
mod summary;
pub mod table;
#[cfg(test)]
mod testing;
mod utilisation;

#[cfg(test)]
#[path = "../../../launcher/tests/it/common/golden.rs"]
mod golden;

pub use headline::{Headline, headline};
pub use job::{job_lines, write_job};
pub use page::FILES;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::names::Names;
use anyhow::Context as _;
use stage2_model::{Operators, Report, Timelines, json};
use stage2_packed::Packed;
use stage2_read::files::{remedy, stream_whole};
use stage2_read::threads;
use stage2_report::conclusions::Shown;

/// A style or script of the pages, by its path below src/.
fn packed(path: &str) -> &'static str {
    static PAGES: LazyLock<Packed> = LazyLock::new(|| {
        Packed::open(include_bytes!(concat!(env!("OUT_DIR"), "/pages.z"))).unwrap_or_default()
    });
    PAGES.text(path).unwrap_or_default()
}

/// Writes the pages and tables of a report into the folder of its run, and its answer in short into the report; gives
/// their paths. `shown` is what the pages of operators and Stage 1 show next to it, and `top_n` the number of rows of
/// `kernels.md`.
///
/// # Errors
/// A file that cannot be written.
pub fn write_files(
    report: &mut Report,
    top_n: usize,
    shown: &Shown,
    run_dir: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    report.answer.short = facts::short(report);
    let report = &*report;
    let write = |name: &str, content: &dyn Fn(&mut dyn Write) -> anyhow::Result<()>| {
        let path = run_dir.join(name);
        stream_whole(&path, content).map_err(|error| {
            let (shown, usual) =
                (path.display(), "check the space and the permissions of its folder");
            let error = format!("{error:#}");
            let remedy = remedy(&error, run_dir).unwrap_or(usual);
            anyhow::anyhow!("{shown} cannot be written: {error}; {remedy}")
        })?;
        anyhow::Ok(path)
    };
    let text = |page: String| move |sink: &mut dyn Write| Ok(sink.write_all(page.as_bytes())?);
    std::thread::scope(|scope| {
        // They take as long as all others.
        let data = threads::begin(scope, || {
            let timelines = Timelines::of(report);
            let metrics = write("metrics.json", &|sink| Ok(json::write(sink, report)?))?;
            let timelines = write("timelines.json", &|sink| Ok(json::write(sink, &timelines)?))?;
            anyhow::Ok([metrics, timelines])
        });
        let names = Names::of(report);
        let command = page::whole_command(report);
        let markdown = |name: &str, page: &str, command: Option<&str>| {
            write(name, &text(links::linked(page, name, command)))
        };
        let kernels = names.as_code(&kernels::kernels_md(report, top_n));
        let mut files = vec![
            markdown("kernels.md", &kernels, None)?,
            write("kernels.csv", &|sink| Ok(kernels::kernels_csv(report, sink)?))?,
        ];
        if !report.ncu_regions.is_empty() {
            let regions = &report.ncu_regions;
            files.push(write("ncu_regions.csv", &|s| Ok(regions::regions_csv(regions, s)?))?);
        }
        let whole = report::page(report).with_command(report, true).with_code(&names);
        // A browser has room for cells of several sentences; text has not.
        let [table, list] = [advice::recommendations, advice::recommendations_listed]
            .map(|of| names.as_code(&of(report)));
        let listed = whole.with_contents().replacen(&table, &list, 1);
        let nothing = Operators::default();
        let operators = report.insight.operators.as_ref().unwrap_or(&nothing);
        let operators = operators::page(report, operators, shown.operators_top_n).with_code(&names);
        let summary = summary::page(report, shown).with_command(report, false).with_code(&names);
        files.extend(data.join().context("the thread that writes metrics.json panicked")??);
        files.push(markdown("report.md", &listed, command.as_deref())?);
        files.push(markdown("operators.md", &operators.markdown(), None)?);
        files.push(markdown("stakeholder_summary.md", &summary.with_missing_last(), None)?);
        let html = html::report_html(report, &summary, &whole, &operators);
        files.push(write("report.html", &text(html))?);
        Ok(files)
    })
}
