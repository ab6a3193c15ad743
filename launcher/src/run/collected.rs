//! What the collect pass of a run recorded, for the passes after it: read once, and when first asked
//! for.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use crate::bundle::COLLECTOR_DIR;
use stage2_model::{Report, RunInfo};
use stage2_read::trace::folder::load_folder;
use stage2_read::trace::libraries::RangeNames;
use stage2_report::join::join;

/// The collect pass of a run.
pub(super) struct Collected {
    /// Folder of the run.
    pub(super) run_dir: PathBuf,
    /// What names of ranges and domains mean, in every capture of the run.
    pub(super) names: RangeNames,
    report: OnceCell<Report>,
}

impl Collected {
    /// The collect pass of the run in `run_dir`, whose trace files are not read yet.
    pub(super) fn new(run_dir: &Path, names: RangeNames) -> Collected {
        Collected { run_dir: run_dir.to_owned(), names, report: OnceCell::new() }
    }

    /// What it recorded. The reports of the run list what is wrong with the trace files.
    pub(super) fn report(&self) -> &Report {
        self.report.get_or_init(|| {
            let spools = load_folder(&self.run_dir.join(COLLECTOR_DIR), &self.names);
            join(spools, RunInfo::default(), Vec::new())
        })
    }
}
