//! `stage2-parquet RUN_DIR... OUT`: the trace files of runs -> a dataset of Parquet tables.
//!
//! Its own program, because the Parquet library would lengthen the build of the launcher by a
//! quarter. The launcher starts it, and reads what it wrote from its standard output: a line of JSON
//! for each run.
#![forbid(unsafe_code)]

mod columns;
mod dataset;
mod tables;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use stage2_export::{Cost, ExportError, Exported, Run, Said, Selection, Space, Window};
use stage2_report::Settings;

use dataset::Dataset;

/// Write the trace files of runs as a dataset of Parquet tables
#[derive(Debug, Parser)]
struct Arguments {
    /// Folders of bundles
    #[arg(required = true)]
    run_dirs: Vec<PathBuf>,
    /// Folder of the dataset
    out: PathBuf,
    /// Add to a dataset that exists
    #[arg(long)]
    append: bool,
    /// Write it even if the file system has less space than it will take
    #[arg(long)]
    force: bool,
    /// The job that the runs are of, the first partition [default: the name of each run]
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Export this stage only; may be repeated
    #[arg(long)]
    stage: Vec<String>,
    /// Export this window only: START..END in seconds since the first event, or STAGE:FIRST..END in steps
    #[arg(long)]
    window: Option<Window>,
}

fn main() -> ExitCode {
    let Arguments { run_dirs, out, append, force, job, stage, window } = Arguments::parse();
    let selection = Selection { stages: stage, window };
    let mut dataset = Dataset { root: out, appends: append };
    for run_dir in &run_dirs {
        match export(run_dir, job.as_deref(), &selection, &dataset, force) {
            Ok(exported) => say(&Said::Done(Box::new(exported))),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(if error.is_usage() { 2 } else { 1 });
            }
        }
        // The runs after the first one are added to it.
        dataset.appends = true;
    }
    ExitCode::SUCCESS
}

/// A line for the launcher, at once. Nobody may listen.
fn say(said: &Said) {
    let _ = writeln!(io::stdout().lock(), "{}", serde_json::json!(said));
}

fn export(
    run_dir: &Path,
    job: Option<&str>,
    selection: &Selection,
    dataset: &Dataset,
    force: bool,
) -> Result<Exported, ExportError> {
    let run = Run::of_bundle(run_dir, &Settings::of_run(run_dir).libraries)?;
    let space = Space::before(&dataset.root, Cost::PARQUET.estimate(&run, selection));
    let mut notes = Vec::new();
    let mut exported = stage2_export::select(&run, selection, |part, counts| {
        say(&Said::About(space));
        if !force {
            space.check(&dataset.root)?;
        }
        let job = job.unwrap_or(&run.name);
        dataset.add(part, job, selection, counts, &mut notes)
    })?;
    exported.notes.extend(notes);
    Ok(exported)
}
