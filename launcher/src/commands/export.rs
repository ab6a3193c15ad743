//! The trace files of a run -> a file for another tool.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use stage2_contract::text::numbers::{count, counted, size};
use stage2_contract::text::visible_path;
use stage2_export::{ExportError, Exported, Run, Said, Selection, Space, export_after};
use stage2_report::Settings;

use crate::bundle::{hidden, refuse_dormant, refused_run, run_named};
use crate::cli::ExportArgs;
use crate::failure::Failure;
use crate::terminal::{Terminal, printable};

const PARQUET: &str = "stage2-parquet";

pub(crate) fn export(mut args: ExportArgs, terminal: &Terminal) -> Result<u8, Failure> {
    args.output.iter().try_for_each(|out| check_output(out))?;
    args.run_dirs = args.run_dirs.iter().map(|given| run_named(given)).collect();
    if let Some(other) = args.run_dirs.iter().find(|dir| !dir.is_dir() || hidden(dir).is_some()) {
        return Err(refused_run(other));
    }
    args.run_dirs.iter().try_for_each(|run_dir| refuse_dormant(run_dir))?;
    let Some(format) = args.format.of_crate() else {
        parquet(args, terminal)?;
        return Ok(0);
    };
    let [run_dir] = args.run_dirs.as_slice() else {
        return Err(Failure::Usage(
            "only a dataset can hold several runs; add -f parquet".to_owned(),
        ));
    };
    let of_dataset = if args.append { Some("--append") } else { args.job.map(|_| "--job") };
    if let Some(option) = of_dataset {
        return Err(Failure::Usage(format!("{option} is for a dataset; add -f parquet")));
    }
    let run = Run::of_bundle(run_dir, &Settings::of_run(run_dir).libraries)
        .map_err(|error| unread(run_dir, error))?;
    if let Some(why) = run.lost().filter(|_| !args.force) {
        return Err(Failure::NoResult(format!(
            "{why}; nothing was written: put the whole files back, or export what is left with --force"
        )));
    }
    let out = args.output.unwrap_or_else(|| format!("{}{}", run.name, format.suffix(&run)).into());
    let selection = Selection { stages: args.stage, window: args.window };
    let space = Space::before(&out, format.estimate(&run, &selection, &out));
    let begin = || {
        terminal.result(&about(space));
        if args.force { Ok(()) } else { space.check(&out) }
    };
    let exported = export_after(&run, format, &selection, &out, begin).map_err(failure)?;
    tell(&exported, &out, terminal);
    Ok(0)
}

/// Endings of names for compressed files that are not written: the name would not fit the content.
const NOT_WRITTEN: [&str; 5] = ["zip", "zst", "xz", "bz2", "lz4"];

/// Refuses an output that no export can be written to, before a run is read for it.
fn check_output(out: &Path) -> Result<(), Failure> {
    let shown = visible_path(out);
    let special = |found: std::fs::Metadata| !found.is_file() && !found.is_dir();
    if out.as_os_str() == "-" || out.metadata().is_ok_and(special) {
        return Err(Failure::Usage(format!(
            "-o {shown}: an export is a new file or folder, and not a stream; name one that does not exist"
        )));
    }
    let ending = out.extension().and_then(|ending| ending.to_str());
    if let Some(ending) = ending.filter(|ending| NOT_WRITTEN.contains(ending)) {
        return Err(Failure::Usage(format!(
            "-o {shown}: exports are compressed as .gz only, not as .{ending}; let the name end in .gz"
        )));
    }
    super::check_folder_of(out, "-o")
}

/// What an export will take, before it is written.
fn about(space: Space) -> String {
    let free = space.free.map_or_else(String::new, |free| format!("; {} are free", size(free)));
    format!("about {} will be written{free}", size(space.needed))
}

/// A report that is there and cannot be read is not a mistake of the command line.
fn unread(run_dir: &Path, error: ExportError) -> Failure {
    let metrics = run_dir.join("metrics.json");
    match error {
        // In the words of the other commands.
        ExportError::NoReport { .. } if metrics.symlink_metadata().is_ok() => {
            super::diff::report_of(&metrics).err().unwrap_or_else(|| failure(error))
        }
        ExportError::NoReport { .. } => {
            super::diff::metrics_of(run_dir).err().unwrap_or_else(|| failure(error))
        }
        error => failure(error),
    }
}

fn failure(error: ExportError) -> Failure {
    let text = error.to_string();
    if error.is_usage() { Failure::Usage(text) } else { Failure::NoResult(text) }
}

fn parquet(args: ExportArgs, terminal: &Terminal) -> Result<(), Failure> {
    let ExportArgs { run_dirs, output, stage, window, force, append, job, .. } = args;
    let named = |run_dir: &PathBuf| {
        let whole = run_dir.canonicalize().unwrap_or_else(|_| run_dir.clone());
        let name = whole.file_name().map(PathBuf::from).unwrap_or_else(|| "run".into());
        name.with_added_extension("parquet")
    };
    let out = match (output, run_dirs.as_slice()) {
        (Some(out), _) => out,
        (None, [run_dir]) if !append => named(run_dir),
        _ => return Err(Failure::Usage("name the dataset with -o".to_owned())),
    };
    let program =
        super::program_beside(PARQUET, "Parquet is written", "stage2-export --features parquet")?;
    let mut command = Command::new(&program);
    command.args(stage.iter().map(|stage| format!("--stage={stage}")));
    command.args(window.iter().map(|window| format!("--window={window}")));
    command.args(job.iter().map(|job| format!("--job={job}")));
    command.args(force.then_some("--force")).args(append.then_some("--append"));
    command.arg("--").args(&run_dirs).arg(&out);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let no_result = |why: String| Failure::NoResult(format!("{}: {why}", visible_path(&program)));
    let mut child =
        command.spawn().map_err(|error| no_result(format!("it cannot be started: {error}")))?;
    // It writes to its standard error only when it ends, and less than a pipe holds.
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let line = line.map_err(|error| no_result(error.to_string()))?;
        let said = serde_json::from_str(&line);
        match said.map_err(|error| no_result(format!("its answer cannot be read: {error}")))? {
            Said::About(space) => terminal.result(&about(space)),
            Said::Done(exported) => tell(&exported, &out, terminal),
        }
    }
    let Output { status, stderr, .. } =
        child.wait_with_output().map_err(|error| no_result(error.to_string()))?;
    let text = printable(String::from_utf8_lossy(&stderr).trim());
    match status.code() {
        Some(0) => Ok(()),
        Some(2) => Err(Failure::Usage(text)),
        Some(_) => Err(Failure::NoResult(text)),
        None => Err(no_result(format!("it ended early ({status})"))),
    }
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
    terminal.place(out);
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
            "left out: {host} samples and blocking calls of the host, which this format cannot hold"
        ));
    }
    if counts.not_selected > 0 {
        terminal.detail(&format!("not selected: {}", counted(counts.not_selected, "event")));
    }
    exported.notes.iter().for_each(|note| terminal.result(note));
    exported.missing.iter().for_each(|what| terminal.result(&format!("incomplete: {what}")));
    if let Some(clocks) = &exported.clocks {
        terminal.result(&format!("several hosts: {clocks}"));
    }
    if let Some(share) = &exported.sample {
        terminal
            .result(&format!("a sample ({share}): the export holds what was recorded, unscaled"));
    }
}
