//! The trace files of a run -> a file for another tool.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use stage2_contract::text::numbers::{count, counted};
use stage2_contract::text::visible_path;
use stage2_export::{ExportError, Exported, Run, Selection, export as write};
use stage2_report::Settings;

use crate::bundle::refuse_dormant;
use crate::cli::ExportArgs;
use crate::failure::Failure;
use crate::terminal::{Terminal, printable};

const PARQUET: &str = "stage2-parquet";

pub(crate) fn export(args: ExportArgs, terminal: &Terminal) -> Result<u8, Failure> {
    refuse_dormant(&args.run_dir)?;
    let (exported, out) = match args.format.of_crate() {
        Some(format) => {
            let run = Run::of_bundle(&args.run_dir, &Settings::of_run(&args.run_dir).libraries)
                .map_err(|error| unread(&args.run_dir, error))?;
            let out = args
                .output
                .unwrap_or_else(|| format!("{}{}", run.name, format.suffix(&run)).into());
            let selection = Selection { stages: args.stage, window: args.window };
            (write(&run, format, &selection, &out).map_err(failure)?, out)
        }
        None => parquet(args)?,
    };
    tell(&exported, &out, terminal);
    Ok(0)
}

/// A report that is there and cannot be read is no mistake of the command line.
fn unread(run_dir: &Path, error: ExportError) -> Failure {
    let is_there = run_dir.join("metrics.json").symlink_metadata().is_ok();
    match error {
        ExportError::NoReport { .. } if is_there => Failure::NoResult(error.to_string()),
        error => failure(error),
    }
}

fn failure(error: ExportError) -> Failure {
    let text = error.to_string();
    if error.is_usage() { Failure::Usage(text) } else { Failure::NoResult(text) }
}

fn parquet(args: ExportArgs) -> Result<(Exported, PathBuf), Failure> {
    let ExportArgs { run_dir, output, stage, window, .. } = args;
    let name = run_dir.canonicalize().unwrap_or_else(|_| run_dir.clone());
    let name = name.file_name().map(PathBuf::from).unwrap_or_else(|| "run".into());
    let out = output.unwrap_or_else(|| name.with_added_extension("parquet"));
    let program =
        super::program_beside(PARQUET, "Parquet is written", "stage2-export --features parquet")?;
    let mut command = Command::new(&program);
    command.args(stage.iter().map(|stage| format!("--stage={stage}")));
    command.args(window.iter().map(|window| format!("--window={window}")));
    command.arg("--").arg(&run_dir).arg(&out);
    let no_result = |why: String| Failure::NoResult(format!("{}: {why}", visible_path(&program)));
    let Output { status, stdout, stderr } =
        command.output().map_err(|error| no_result(format!("it cannot be started: {error}")))?;
    if !status.success() {
        let text = printable(String::from_utf8_lossy(&stderr).trim());
        return Err(match status.code() {
            Some(2) => Failure::Usage(text),
            Some(_) => Failure::NoResult(text),
            None => no_result(format!("it ended early ({status})")),
        });
    }
    let exported = serde_json::from_slice(&stdout);
    let exported =
        exported.map_err(|error| no_result(format!("its answer cannot be read: {error}")))?;
    Ok((exported, out))
}

fn tell(exported: &Exported, out: &Path, terminal: &Terminal) {
    let counts = &exported.counts;
    let kinds = [
        (counts.memory, "memory operation"),
        (counts.graphs, "CUDA graph launch"),
        (counts.ranges, "range"),
        (counts.marks, "mark"),
        (counts.samples, "host sample"),
        (counts.host_stacks, "idle stack"),
        (counts.calls, "blocking call"),
        (counts.steps, "engine step"),
        (counts.requests, "request"),
    ];
    let mut kinds: Vec<(u64, &str)> = kinds.into_iter().filter(|(n, _)| *n > 0).collect();
    if counts.kernels > 0 || kinds.is_empty() {
        kinds.insert(0, (counts.kernels, "kernel"));
    }
    let kinds = kinds.into_iter();
    let held: Vec<String> = kinds.map(|(n, kind)| counted(n, kind)).collect();
    terminal.result(&format!("export: {} ({})", visible_path(out), held.join(", ")));
    if counts.without_times > 0 {
        let times = counted(counts.without_times, "GPU record");
        terminal.result(&format!("no valid times, and so in no timeline or sum: {times}"));
    }
    if counts.marks_left_out > 0 {
        let marks = counted(counts.marks_left_out, "NVTX mark");
        terminal.result(&format!("left out: {marks}, which this format has no place for"));
    }
    if counts.host_left_out > 0 {
        let host = count(counts.host_left_out);
        terminal.result(&format!(
            "left out: {host} samples and blocking calls of the host, which this file has no place for"
        ));
    }
    if counts.not_selected > 0 {
        terminal.detail(&format!("not selected: {}", counted(counts.not_selected, "event")));
    }
    exported.missing.iter().for_each(|what| terminal.result(&format!("incomplete: {what}")));
    if let Some(clocks) = &exported.clocks {
        terminal.result(&format!("several hosts: {clocks}"));
    }
    if let Some(share) = &exported.sample {
        terminal
            .result(&format!("a sample ({share}): the export holds what was recorded, unscaled"));
    }
}
