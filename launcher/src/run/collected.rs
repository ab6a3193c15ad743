//! The trace files of the collect pass -> a report of them, made once for all passes that ask for it.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use crate::bundle::COLLECTOR_DIR;
use crate::load::libraries::LibraryDomains;
use crate::load::spool::load_folder_with;
use crate::merge::merge;
use crate::report::model::{Report, RunInfo};

/// What the collect pass of a run recorded.
pub(super) struct Collected {
    run_dir: PathBuf,
    libraries: LibraryDomains,
    report: OnceCell<Report>,
}

impl Collected {
    /// Of the run in `run_dir`. `library_domains`: globs of further domains of libraries.
    pub(super) fn new(run_dir: PathBuf, library_domains: &[String]) -> Collected {
        let libraries = LibraryDomains::with(library_domains);
        Collected { run_dir, libraries, report: OnceCell::new() }
    }

    /// Folder of the run.
    pub(super) fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// The domains whose ranges are no stages.
    pub(super) fn libraries(&self) -> &LibraryDomains {
        &self.libraries
    }

    /// What it recorded. Only to be asked for after the pass: the answer stays the same.
    pub(super) fn report(&self) -> &Report {
        self.report.get_or_init(|| {
            // What is wrong with the trace files is told by the reports.
            let spools = load_folder_with(&self.run_dir.join(COLLECTOR_DIR), &self.libraries);
            merge(spools, RunInfo::default(), Vec::new())
        })
    }
}
