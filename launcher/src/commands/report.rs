//! The folder of a run -> its reports, written again.

use std::path::Path;

use super::ending::{PAGE, list_files, open_report, print_file, tell_answer, tell_findings};
use super::windows;
use crate::bundle::{
    self, Access, COLLECTOR_DIR, RUN_JSON, RunRecord, cut_trace, lost_traces, refused_run,
    run_named,
};
use crate::cli::{self, ReportArgs};
use crate::failure::Failure;
use crate::plan::TRACE_FOLDER;
use crate::run::left_running;
use crate::terminal::Terminal;
use crate::{config, redaction, reports};
use stage2_contract::text::visible_path;
use stage2_report::Settings;

pub(crate) fn report(args: ReportArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let ReportArgs { showing, json, .. } = &args;
    let run_dir = &run_named(&args.run_dir);
    if cli::is_setting(&run_dir.to_string_lossy()) && !run_dir.exists() {
        let word = run_dir.display();
        return Err(Failure::Usage(format!(
            "`{word}` is not a folder; if it is a setting, give RUN_DIR as well: stage2-launch report \
             tmp/stage2/latest {word}"
        )));
    }
    if let Some(word) = args.overrides.iter().find(|word| !cli::is_setting(word)) {
        let run = run_dir.display();
        let text = format!(
            "`{word}` is not KEY=VALUE; report takes one run, and settings; to compare two runs: stage2-launch diff {run} \
             {word}"
        );
        return Err(Failure::Usage(text));
    }
    if run_dir.join(RUN_JSON).symlink_metadata().is_err() {
        return Err(refused_run(run_dir));
    }
    let record = RunRecord::read(run_dir).map_err(Failure::no_result)?;
    if !record.dormant {
        let status = write_again(run_dir, &record, &args, terminal)?;
        if *json {
            print_file(&run_dir.join("metrics.json"))?;
        }
        if showing.open {
            open_report(run_dir, terminal);
        }
        return Ok(status);
    }
    if *json || showing.open {
        bundle::refuse_dormant(run_dir)?;
    }
    let folders = bundle::window_bundles(run_dir);
    let shown = visible_path(run_dir);
    if folders.is_empty() {
        return Err(Failure::NoResult(format!(
            "{shown} is a dormant run without windows: there is nothing to report; if it was killed, \
             `stage2-launch merge --spool {shown}/{COLLECTOR_DIR} -o DIR` reads what it left"
        )));
    }
    let mut status = 0;
    for folder in &folders {
        let one = RunRecord::read(folder).map_err(Failure::no_result);
        let one = one.and_then(|record| write_again(folder, &record, &args, terminal));
        // One window that cannot be reported does not cost the others their reports.
        status = status.max(one.unwrap_or_else(|failure| {
            terminal.error(&failure.to_string());
            failure.exit()
        }));
    }
    windows::compare(run_dir, terminal)?;
    Ok(status)
}

/// Writes the reports of one bundle; those that can no longer be made stay.
fn write_again(
    run_dir: &Path,
    record: &RunRecord,
    ReportArgs { presets, acceptance, overrides, json, .. }: &ReportArgs,
    terminal: &Terminal,
) -> Result<u8, Failure> {
    if let Some(why) = lost_traces(run_dir, record) {
        return Err(Failure::NoResult(why));
    }
    redaction::set(Settings::of_run(run_dir).redactor);
    if !overrides.is_empty() {
        let words = redaction::words(overrides).join(" ");
        let request = presets.request(overrides.to_vec());
        bundle::change_config(run_dir, &words, |text, origins| {
            Ok(config::recompose(text, origins, run_dir, &request)?)
        })?;
    } else {
        bundle::check_config(run_dir, record)?;
    }
    if !record.left_running.is_empty() {
        forget_ended(run_dir)?;
    }
    terminal.progress(&format!("writing the reports of {}", visible_path(run_dir)));
    let outcome = reports::replace_reports(run_dir, |found| cut_trace(run_dir, record, found));
    let outcome = outcome.map_err(Failure::no_result)?;
    let record = bundle::update_after_report(run_dir, &outcome).map_err(Failure::no_result)?;
    let outcome = Ok(outcome);
    list_files(&outcome, run_dir, terminal);
    share_again(run_dir, terminal);
    tell_findings(&record, &outcome, run_dir, acceptance.allow_empty, terminal);
    tell_answer(&record, &outcome, run_dir, None, terminal);
    let status = acceptance.status(0, outcome.as_ref().ok(), &record.passes, terminal);
    if !json {
        terminal.place(&run_dir.join(PAGE));
    }
    Ok(status)
}

/// Processes that the workload left behind may have ended meanwhile. On another machine they are not there either.
fn forget_ended(run_dir: &Path) -> Result<(), Failure> {
    let mut record = RunRecord::read(run_dir).map_err(Failure::no_result)?;
    let traces = record.passes.iter().find_map(|pass| pass.environment.get(TRACE_FOLDER));
    record.left_running = traces.map(|folder| left_running(Path::new(folder))).unwrap_or_default();
    record.write(run_dir).map_err(Failure::no_result)
}

/// Gives pages that were written again to the group of the run. Nothing else is changed: what was done to the
/// bundle since was done on purpose.
fn share_again(run_dir: &Path, terminal: &Terminal) {
    let group = Settings::of_run(run_dir).group;
    match Access::of(group.as_deref()) {
        Ok(access) if group.is_some() => {
            access.apply(run_dir).into_iter().for_each(|finding| terminal.finding(&finding));
        }
        Ok(_) => {}
        // The bundle may have come from another machine.
        Err(error) => terminal.detail(&format!("the new pages are readable by you only: {error}")),
    }
}
