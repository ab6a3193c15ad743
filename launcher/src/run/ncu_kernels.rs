//! The spools of the collect pass -> the kernels that ncu is asked for.

use std::path::Path;

use crate::bundle::COLLECTOR_DIR;
use crate::finding::{Finding, Severity};
use crate::load::spool::load_folder;
use crate::merge::merge;
use crate::ncu::config::Ncu;
use crate::ncu::nvtx::Label;
use crate::ncu::select::{KernelTime, Selection, select};
use crate::report::model::{PathKind, Report, RunInfo};

/// What is to be profiled, and whether any times were known.
pub(super) struct Kernels {
    pub(super) selection: Selection,
    known: bool,
}

impl Kernels {
    /// Kernels ran, and none of them may be asked for: without a filter ncu would profile them all.
    pub(super) fn nothing_may_be_profiled(&self) -> bool {
        self.known && self.selection.kernels.is_empty()
    }
}

/// Chooses the kernels. A stage that the settings name by default gives way to the one with the most
/// GPU time where it did not occur.
pub(super) fn kernels_of(
    run_dir: &Path,
    ncu: &mut Ncu,
    stage_is_explicit: bool,
    findings: &mut Vec<Finding>,
) -> Kernels {
    // What is wrong with the spools is told by the reports.
    let report = merge(load_folder(&run_dir.join(COLLECTOR_DIR)), RunInfo::default(), Vec::new());
    let rows = times(&report);
    if rows.is_empty() {
        findings.push(Finding::new(
            Severity::Note,
            "ncu: no kernels are known from the collect pass: launches are not filtered by name",
            "the collect pass recorded none",
            "",
        ));
    }
    if !stage_is_explicit && let Some(wanted) = ncu.stage.clone() {
        let label = Label::of_stage(&wanted);
        if !rows.is_empty() && !rows.iter().any(|row| label.opens(row.stage)) {
            let stage = longest(&report);
            findings.push(Finding::new(
                Severity::Note,
                match stage {
                    Some(stage) => {
                        format!("ncu: the top kernels of the stage {stage} are profiled")
                    }
                    None => "ncu: the top kernels of the whole run are profiled".to_owned(),
                },
                format!(
                    "no kernel ran in the stage {wanted}, and this one takes the most GPU time"
                ),
                "choose one with pipeline.ncu.stage=NAME",
            ));
            ncu.stage = stage.map(str::to_owned);
        }
    }
    let mut selection = select(&rows, ncu);
    findings.append(&mut selection.findings);
    Kernels { selection, known: !rows.is_empty() }
}

/// The rows of the kernels, by path.
fn times(report: &Report) -> Vec<KernelTime<'_>> {
    let row = |row: &'_ crate::report::model::KernelRow| {
        let name = report.kernel_names.get(row.name_index)?;
        let launch = row.launch.as_ref();
        Some((name, row.times.calls, row.times.total_ns, launch.map(|l| (l.grid, l.block))))
    };
    let rows = report.kernels.iter().filter_map(|kernel| {
        let (name, calls, total_ns, shape) = row(kernel)?;
        let (grid, block) = shape.unwrap_or_default();
        let kind = report.paths.get(kernel.path_index).map(|path| path.kind);
        let stage = if kind == Some(PathKind::Range) { kernel.path.as_str() } else { "" };
        Some(KernelTime { mangled: name.mangled.as_bytes(), grid, block, calls, total_ns, stage })
    });
    rows.collect()
}

/// The range at the top with the most kernel time.
fn longest(report: &Report) -> Option<&str> {
    let time = |stage: &str| -> u64 {
        let rows = report.stage_kernels.iter().filter(|row| row.stage == stage);
        rows.map(|row| row.times.total_ns).fold(0, u64::saturating_add)
    };
    let ranges = report.stages.iter().filter(|row| row.kind == PathKind::Range);
    let timed = ranges.map(|row| (time(&row.stage), row.stage.as_str()));
    timed.filter(|(ns, _)| *ns > 0).max_by_key(|(ns, _)| *ns).map(|(_, stage)| stage)
}
