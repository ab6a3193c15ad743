//! The pages of ncu in a folder -> the counters of all reports together.
//!
//! Pages of one report have the same name but for the word that says which page: `raw.csv` and
//! `details.csv`, `run.raw.csv` and `run.details.csv`, `ncu_raw.csv` and `ncu_details.csv`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::{Source, Tables, load_reports};
use crate::files;
use crate::progress::Metered;
use stage2_contract::text::visible_path;
use stage2_model::{Finding, Severity};

/// Words of a name that say which page of a report a file is.
const PAGES: [&str; 2] = ["raw", "details"];

/// The name of the report in the name of one of its pages.
pub fn report_name(file_name: &str) -> String {
    let stem = file_name.rsplit_once('.').map_or(file_name, |(stem, _)| stem);
    let words: Vec<&str> = stem.split(['.', '_', '-']).collect();
    let page = words.iter().rposition(|word| PAGES.contains(&word.to_lowercase().as_str()));
    let rest = words.iter().enumerate().filter(|(at, _)| Some(*at) != page).map(|(_, word)| *word);
    rest.collect::<Vec<_>>().join(".")
}

/// Reads every page in the folder; nothing where there is none.
pub fn reports(folder: &Path, findings: &mut Vec<Finding>) -> Option<Tables> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "csv"))
        .collect();
    paths.sort();
    let mut reports: BTreeMap<String, Vec<Source<BufReader<Metered<File>>>>> = BTreeMap::new();
    for path in &paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match files::open(path) {
            Ok(file) => {
                let input = BufReader::new(Metered::of(file, path));
                let page = Source { name: visible_path(path), input };
                reports.entry(report_name(&name)).or_default().push(page);
            }
            Err(error) => findings.push(Finding::new(
                Severity::Warning,
                format!("{} cannot be read", visible_path(path)),
                error.to_string(),
                "its counters are missing; check the permissions of the file",
            )),
        }
    }
    (!reports.is_empty()).then(|| load_reports(reports.into_values()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_report_share_its_name() {
        for (raw, details) in [
            ("raw.csv", "details.csv"),
            ("run.raw.csv", "run.details.csv"),
            ("ncu_raw.csv", "ncu_details.csv"),
            ("Raw_run7.csv", "details_run7.csv"),
            ("ncu_raw-2.csv", "ncu_details-2.csv"),
        ] {
            assert_eq!(report_name(raw), report_name(details));
        }
        assert_ne!(report_name("a.raw.csv"), report_name("b.raw.csv"));
        assert_ne!(report_name("raw.csv"), report_name("raw-2.csv"));
        assert_eq!(report_name("drawing.csv"), "drawing");
    }
}
