//! `check_symbols LIBCUPTI`: loads one library, calls nothing in it, and says what it lacks.

use cupti_sys::{Api, find};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: check_symbols LIBCUPTI");
        return ExitCode::from(2);
    };
    match check(&path) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("check_symbols: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check(path: &std::path::Path) -> Result<String, Box<dyn std::error::Error>> {
    let found = find::locate(Some(path), None)?;
    // SAFETY: the user named a CUPTI, and no method that calls into it follows.
    let api = unsafe { Api::load(found.library) }?;
    let absent = api.absent();
    let absent = if absent.is_empty() { "nothing".into() } else { absent.join(", ") };
    Ok(format!("all required symbols; of the optional ones absent: {absent}"))
}
