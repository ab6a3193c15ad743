//! What is known of a run's kernels -> those that ncu is asked for.
//!
//! Times come from the collect pass; where that has no kernels from the nsys pass of the same run,
//! else from captures of nsys that the user names, else there are none: then nothing is filtered.

use std::path::{Path, PathBuf};

use super::collected::Collected;
use super::imports::export_nsys;
use super::raw_captures::{clean_copies, environment_finding};
use super::tool::Tool;
use crate::bundle::{NCU_DIR, NSYS_DIR};
use crate::copy_inputs::{InputCopies, Kind};
use crate::plan::{GivenCaptures, KernelChoice};
use crate::tools::ncu::config::Ncu;
use crate::tools::ncu::select::{KernelTime, Selection, select};
use stage2_model::nsys::Source;
use stage2_model::{Finding, PathKind, PathRow, Report};
use stage2_read::ncu::nvtx::Label;
use stage2_read::nsys::folder::captures;
use stage2_read::nsys::{Naming, Range, RangeKernel, Tables};
use stage2_read::roles::find_range;
use stage2_read::trace::libraries::RangeNames;
use stage2_report::join::without_collector::{Piece, label, of_nsys};

/// Folder of the captures that the user names, in that of the pass.
const GIVEN_DIR: &str = "kernels_from_nsys";

/// Kernels with their times, from one source.
#[derive(Default)]
struct Known {
    rows: Vec<KernelTime>,
    /// The range at the top with the most kernel time.
    longest: Option<String>,
}

/// Chooses the kernels. A stage that the settings name by default gives way to the one with the most GPU
/// time where it did not occur.
pub(super) fn kernels_of(
    tool: &Tool<'_>,
    collected: &Collected,
    ncu: &mut Ncu,
    choice: &KernelChoice,
    findings: &mut Vec<Finding>,
) -> Selection {
    let Known { rows, longest } = known(tool, collected, ncu, &choice.given, findings);
    if rows.is_empty() {
        findings.push(Finding::note(
            "ncu: no kernels are known from the collect pass: launches are not filtered by name",
            "the collect pass recorded none, and there is no capture of nsys with kernels",
            "",
        ));
    }
    let occurs = |stage: &str| {
        let label = Label::of_stage(stage);
        rows.iter().any(|row| label.opens(&row.stage))
    };
    if let Some(wanted) = ncu.stage.as_deref().filter(|wanted| !occurs(wanted)) {
        let seen = find_range(wanted, &collected.report().paths, &collected.names);
        // ncu, and who is used to it, writes the domain first.
        let swapped = wanted.split_once('@').map(|(domain, name)| format!("{name}@{domain}"));
        let found = seen.map(|row| row.path.clone()).into_iter().chain(swapped);
        if let Some(stage) = found.into_iter().find(|stage| occurs(stage)) {
            let what = format!("ncu: the stage {wanted} is {stage}");
            findings.push(Finding::note(what, "the collect pass saw it under this name", ""));
            ncu.stage = Some(stage);
        }
    }
    if let Some(wanted) = ncu.stage.clone().filter(|_| !choice.stage_is_explicit)
        && !rows.is_empty()
        && !occurs(&wanted)
    {
        let of = longest.as_ref().map_or("whole run".to_owned(), |name| format!("stage {name}"));
        findings.push(Finding::note(
            format!("ncu: the top kernels of the {of} are profiled"),
            format!("no kernel ran in the stage {wanted}, and this one takes the most GPU time"),
            "choose one with pipeline.ncu.stage=NAME",
        ));
        ncu.stage = longest;
    }
    let mut selection = select(&rows, ncu);
    selection.stage = ncu.stage.as_deref().and_then(|stage| label_of(collected.report(), stage));
    findings.append(&mut selection.findings);
    selection
}

/// The first source that knows kernels.
fn known(
    tool: &Tool<'_>,
    collected: &Collected,
    ncu: &Ncu,
    given: &GivenCaptures,
    findings: &mut Vec<Finding>,
) -> Known {
    let known = Known::of_report(collected.report());
    if !known.rows.is_empty() {
        findings.extend(not_needed(given, "the collect pass"));
        return known;
    }
    let libraries = &collected.names;
    // The reports list what is wrong with the nsys pass.
    let of_run = captures(&collected.run_dir.join(NSYS_DIR), libraries, &mut Vec::new());
    let known = Known::of_captures(&of_run, ncu, "the nsys pass of this run", findings);
    if !known.rows.is_empty() {
        findings.extend(not_needed(given, "the nsys pass"));
        return known;
    }
    if given.files.is_empty() {
        return known;
    }
    let folder = tool.folder.join(GIVEN_DIR);
    let given = captures_of(tool, &folder, (given, libraries), findings);
    findings.extend(given.iter().flat_map(|tables| tables.findings.clone()));
    Known::of_captures(&given, ncu, "the files of --nsys", findings)
}

fn not_needed(given: &GivenCaptures, known_from: &str) -> Option<Finding> {
    (!given.files.is_empty()).then(|| {
        let what = "the files of --nsys are not used";
        let why = format!("kernels and their times are known from {known_from}");
        Finding::note(what, why, "`stage2-launch merge` makes reports of them")
    })
}

/// Takes the files of the user into the bundle and reads them.
fn captures_of(
    tool: &Tool<'_>,
    folder: &Path,
    (given, libraries): (&GivenCaptures, &RangeNames),
    findings: &mut Vec<Finding>,
) -> Vec<Tables> {
    let mut copies = InputCopies::new(Kind::Nsys, folder.to_owned());
    given.files.iter().for_each(|file| copies.add(file, findings));
    let reports: Vec<PathBuf> = copies.for_tool();
    if !reports.is_empty() {
        let tool = Tool { folder: folder.to_owned(), ..tool.clone() };
        export_nsys(&tool, &given.nsys, &reports, findings);
    }
    if !clean_copies(&copies, findings) {
        let shown = format!("{NCU_DIR}/{GIVEN_DIR}");
        findings.extend(environment_finding(folder, &shown, false));
    }
    captures(folder, libraries, findings)
}

impl Known {
    /// The rows of the collector, by path.
    fn of_report(report: &Report) -> Known {
        let rows = report.kernels.iter().filter_map(|kernel| {
            let name = report.kernel_names.get(kernel.name_index)?;
            let kind = report.paths.get(kernel.path_index).map(|path| path.kind);
            let in_range = kind == Some(PathKind::Range);
            Some(KernelTime {
                mangled: name.mangled.as_bytes().to_vec(),
                total_ns: kernel.times.total_ns,
                stage: if in_range { kernel.path.clone() } else { String::new() },
            })
        });
        Known { rows: rows.collect(), longest: longest(report).map(str::to_owned) }
    }

    /// The first capture that has kernels with mangled names.
    fn of_captures(
        captures: &[Tables],
        ncu: &Ncu,
        source: &str,
        findings: &mut Vec<Finding>,
    ) -> Known {
        for tables in captures {
            let known = Known::of_tables(tables, ncu, findings);
            if known.rows.is_empty() {
                continue;
            }
            let names: Vec<String> = tables
                .files
                .iter()
                .map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned())
                .collect();
            findings.push(Finding::note(
                format!("ncu: kernels are chosen by their times in {source}: {}", names.join(", ")),
                "the collect pass recorded no kernel; nothing else is taken from that capture here",
                "",
            ));
            return known;
        }
        Known::default()
    }

    fn of_tables(tables: &Tables, ncu: &Ncu, findings: &mut Vec<Finding>) -> Known {
        if tables.source == Source::Csv {
            return Known::of_csv(tables, ncu, findings);
        }
        let row = |piece: Piece| KernelTime {
            mangled: piece.name.into_bytes(),
            total_ns: piece.times.total_ns,
            stage: if piece.kind == PathKind::Range { piece.stage } else { String::new() },
        };
        // ncu is asked by mangled names.
        let pieces = of_nsys(tables).into_iter().filter(|piece| piece.mangled);
        let timed = tables.ranges.iter().filter(|range| range.total_ns > 0);
        let longest = timed.max_by_key(|range| range.total_ns).map(label);
        Known { rows: pieces.map(row).collect(), longest }
    }

    /// Ranges of the CSV tables nest: without counting twice only those of the stage can be used.
    fn of_csv(tables: &Tables, ncu: &Ncu, findings: &mut Vec<Finding>) -> Known {
        let row = |index: usize, calls: u64, total_ns: u64, stage: String| {
            let kernel = tables.kernels.get(index)?;
            (kernel.naming == Naming::Mangled && calls > 0).then(|| KernelTime {
                mangled: kernel.name.as_bytes().to_vec(),
                total_ns,
                stage,
            })
        };
        let wanted = ncu.stage.as_deref().map(Label::of_stage);
        let of_stage = |range: &&Range| wanted.as_ref().is_some_and(|w| w.opens(&label(range)));
        let staged = tables.ranges.iter().filter(of_stage).flat_map(|range| {
            let part =
                |part: &RangeKernel| row(part.kernel, part.calls, part.total_ns, label(range));
            range.kernels.iter().filter_map(part)
        });
        let rows: Vec<KernelTime> = staged.collect();
        if !rows.is_empty() {
            return Known { rows, longest: None };
        }
        // Where nobody knows the ranges, the stage is not said to be missing.
        let ranges_are_known = tables.ranges.iter().any(|range| !range.kernels.is_empty());
        let stage = ncu.stage.as_deref().filter(|_| !ranges_are_known).unwrap_or_default();
        let all = tables.kernels.iter().enumerate();
        let rows: Vec<KernelTime> = all
            .filter_map(|(at, kernel)| row(at, kernel.calls, kernel.total_ns, stage.to_owned()))
            .collect();
        if !rows.is_empty() && !stage.is_empty() {
            findings.push(Finding::note(
                format!("ncu: the top kernels of the whole capture are asked for in {stage}"),
                "the CSV tables do not say in which range a kernel ran",
                "give the SQLite export, or the table nvtx_kern_sum:mangled",
            ));
        }
        Known { rows, longest: None }
    }
}

/// Name and domain of a stage that was seen: its label alone does not tell which is which.
fn label_of(report: &Report, stage: &str) -> Option<Label> {
    let is_stage = |row: &&PathRow| row.parent.is_none() && row.path == stage;
    let range = report.paths.iter().filter(|row| row.kind == PathKind::Range).find(is_stage)?;
    Some(Label { name: range.name.clone(), domain: range.domain.clone() })
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
