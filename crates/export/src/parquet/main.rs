//! `stage2-parquet RUN_DIR OUT`: the trace files of a run -> Parquet tables.
//!
//! A program of its own, because the Parquet library would lengthen the build of the launcher by a
//! quarter. The launcher starts it, and reads what it wrote from its standard output, as JSON.
#![forbid(unsafe_code)]

mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use stage2_export::{Run, Selection, Window};
use stage2_report::Settings;

/// Write the trace files of a run as Parquet
#[derive(Debug, Parser)]
struct Arguments {
    /// Folder of the bundle
    run_dir: PathBuf,
    /// Folder to write; it must not exist
    out: PathBuf,
    /// Export this stage only; may be repeated
    #[arg(long)]
    stage: Vec<String>,
    /// Export this window only: START..END in seconds since the first event
    #[arg(long)]
    window: Option<Window>,
}

fn main() -> ExitCode {
    let Arguments { run_dir, out, stage, window } = Arguments::parse();
    let selection = Selection { stages: stage, window };
    let exported = Run::of_bundle(&run_dir, &Settings::of_run(&run_dir).libraries)
        .and_then(|run| stage2_export::select(&run, &selection, |part| tables::write(part, &out)));
    match exported {
        Ok(exported) => {
            println!("{}", serde_json::json!(exported));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}
