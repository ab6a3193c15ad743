//! The folder of a run -> its reports, written again.

use std::path::Path;

use crate::bundle::{self, RunRecord};
use crate::cli::Options;
use crate::commands::run::{list_files, request, tell};
use crate::exit::Rules;
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::terminal::Terminal;
use crate::{config, views};

/// `stage2-launch report`.
pub(crate) fn report_again(
    run_dir: &Path,
    options: &Options,
    overrides: Vec<String>,
    terminal: &Terminal,
) -> Result<u8, Failure> {
    if options.runs_something() {
        let text = "`report` takes no --dry-run, --run-dir, --timeout, --annotate or --keep-going: it runs no \
             workload";
        return Err(Failure::Usage(text.into()));
    }
    RunRecord::read(run_dir).map_err(|e| Failure::Usage(format!("{e:#}")))?;
    if !overrides.is_empty() {
        let words = overrides.join(" ");
        let request = request(options, overrides);
        let change = |text: Option<&str>| Ok(config::recompose(text, run_dir, &request)?);
        bundle::change_config(run_dir, &words, change)?;
    }
    let outcome = views::write_reports(run_dir).map_err(|e| Failure::NoResult(format!("{e:#}")))?;
    let record = bundle::update_after_report(run_dir, &outcome)
        .map_err(|e| Failure::NoResult(format!("{e:#}")))?;
    let outcome: anyhow::Result<Outcome> = Ok(outcome);
    list_files(&outcome, run_dir, terminal);
    let headline = outcome.as_ref().map_or(&[][..], |outcome| &outcome.headline);
    tell(&record, headline, run_dir, terminal);
    Ok(Rules::of(options).status(0, outcome.as_ref().ok(), &record.passes, terminal))
}
