//! The files of ncu and nsys in a run's folder -> their tables, where they are there.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use crate::finding::{Finding, Severity};
use crate::ncu;
use crate::nsys;
use stage2_figures::text::visible_path;

/// The pages of ncu's report, raw and details; `None` where there are none.
pub(super) fn ncu_tables(run_dir: &Path, findings: &mut Vec<Finding>) -> Option<ncu::load::Tables> {
    let folder = run_dir.join("ncu");
    let mut pages = Vec::new();
    let mut names = csv_files(&folder);
    names.sort();
    for path in &names {
        match File::open(path) {
            Ok(file) => pages.push((visible_path(path), BufReader::new(file))),
            Err(error) => findings.push(Finding::new(
                Severity::Warning,
                format!("{} cannot be read", visible_path(path)),
                error.to_string(),
                "its counters are missing; check the permissions of the file",
            )),
        }
    }
    if pages.is_empty() {
        return None;
    }
    let names: Vec<String> = pages.iter().map(|(name, _)| name.clone()).collect();
    let sources =
        names.iter().zip(pages).map(|(name, (_, input))| ncu::load::Source { name, input });
    Some(ncu::load::load(sources))
}

/// The tables of an nsys export: SQLite, else CSV; `None` where there is neither.
pub(super) fn nsys_tables(
    run_dir: &Path,
    findings: &mut Vec<Finding>,
) -> Option<nsys::load::Tables> {
    let folder = run_dir.join("nsys");
    let database = ["run.sqlite", "run_scrubbed.sqlite"].map(|name| folder.join(name));
    if let Some(path) = database.iter().find(|path| path.is_file()) {
        match nsys::load::sqlite::load(path) {
            Ok(tables) => return Some(tables),
            Err(finding) => findings.push(finding),
        }
    }
    let tables = csv_files(&folder);
    (!tables.is_empty()).then(|| nsys::load::csv::load(&tables))
}

fn csv_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "csv"))
        .collect()
}
