//! The ncu pass: what the tool knows, the kernels to ask for, a profiling run, a second one without
//! filters where nothing passed them, then the tables.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::imports::export_nsys;
use super::nsys_pass::{clean_copies, environment_finding};
use super::tool::{Tool, ToolPass, file_name, read_from, tables_cut_off, version_for};
use super::{CollectPass, forecast};
use crate::bundle::{NCU_DIR, NSYS_DIR};
use crate::copy_inputs::{InputCopies, Kind};
use crate::env::{NoAnswer, ask, on_path};
use crate::plan::{KernelChoice, Limits, Profiler, ncu_files};
use crate::tools::Step;
use crate::tools::ncu::command::{self, Available, Files, Filter, Request};
use crate::tools::ncu::config::Ncu;
use crate::tools::ncu::outcome::{
    ToolRun, Verdict, failed_workload, judge, judge_import, nothing_passed,
};
use crate::tools::ncu::select::{KernelTime, Region, Selection, choose_regions, pattern, select};
use crate::tools::ncu::{RangeTime, ranges_seen};
use stage2_contract::text::{listed, visible_path};
use stage2_model::finding::Id;
use stage2_model::nsys::Source;
use stage2_model::{Finding, PassStatus, PathKind, PathRow, Report, Severity, WorkloadExit};
use stage2_read::files::write_whole;
use stage2_read::ncu::nvtx::Label;
use stage2_read::ncu::regions::{REGION_FILE, RegionFile, folder};
use stage2_read::nsys::folder::captures;
use stage2_read::nsys::{Naming, Range, RangeKernel, Tables};
use stage2_read::private;
use stage2_read::roles::find_range;
use stage2_read::trace::libraries::RangeNames;
use stage2_report::join::without_collector::{Piece, label, of_nsys};

/// Runs the pass. `collected` is what the collect pass recorded.
pub(super) fn run(
    tool: &Tool<'_>,
    ncu: &Ncu,
    choice: &KernelChoice,
    profiler: &Profiler,
    collected: &CollectPass,
) -> ToolPass {
    let mut findings = Vec::new();
    let oldest = (command::OLDEST, Severity::Error);
    let version = match version_for("ncu", &ncu.executable, oldest, &mut findings) {
        Ok(version) => version,
        Err(pass) => return pass,
    };
    let mut ncu = ncu.clone();
    let selection = kernels_of(tool, collected, &mut ncu, choice, &mut findings);
    let named = ncu.ncu_cli.kernel_name.is_some() || ncu.ncu_cli.replay_mode.is_range();
    if selection.allows_none() && !named {
        let finding = findings.pop();
        let finding =
            finding.unwrap_or_else(|| Id::NcuNothingProfiled.found("ncu: no kernels", "", ""));
        return ToolPass::without_after(PassStatus::Skipped, finding, findings);
    }
    if let Some(line) = forecast::of_kernels(selection.kernels.len(), &ncu, tool.first) {
        tool.host.terminal.progress(&line);
    }
    let available = available(tool, &ncu);
    if tool.is_interrupted() {
        let what = "ncu measured nothing: it was not started yet when the run was interrupted";
        return ToolPass::without_after(
            PassStatus::Skipped,
            Id::NcuNothingProfiled.graded(Severity::Note, what, "", ""),
            findings,
        );
    }
    let request =
        Request { settings: &ncu, version, workload: &profiler.workload, available: &available };
    if ncu.ncu_cli.replay_mode.is_range()
        && let Some(pass) = run_regions(tool, &request, collected.report(), &mut findings)
    {
        findings.extend(pass.findings.iter().cloned());
        return ToolPass { findings, ..pass };
    }
    let filter = Filter::new(&ncu, &selection, &mut findings);
    let files = ncu_files(&tool.folder, None);
    let argv = command::profile(&request, &filter, &files, &mut findings);
    let mut pass = profiled(tool, argv, &files, filter != Filter::default(), &mut findings);
    if pass.status == PassStatus::Planned {
        // The range replay modes hand no kernel name on.
        let names = filter.kernel_name.clone().filter(|_| !ncu.ncu_cli.replay_mode.is_range());
        let filter = Filter { kernel_name: names, ..filter.clone() };
        let seen = ranges(collected.report());
        findings.extend(nothing_passed(&filter, ncu.ncu_cli.nvtx.start_end, &seen));
        tool.host.terminal.progress("ncu: once more, without filters");
        let argv = command::profile(&request, &Filter::default(), &files, &mut Vec::new());
        pass = profiled(tool, argv, &files, false, &mut findings);
        if pass.status.has_data() {
            let repeated = "nothing passed the filters: repeated without them";
            pass.why = match pass.status {
                PassStatus::Ok => repeated.to_owned(),
                _ => format!("{repeated}; {}", pass.why),
            };
        }
    }
    if pass.status.has_data() && ncu.ncu_cli.export.csv {
        import(tool, &ncu, &files, &mut findings);
    }
    if let Some(pattern) = pattern(&selection.communication).filter(|_| !tool.is_interrupted()) {
        let files = ncu_files(&tool.folder, Some("communication"));
        let argv = command::profile_communication(&request, &pattern, &filter, &files);
        let second = profiled(tool, argv, &files, false, &mut findings);
        if second.status.has_data() && ncu.ncu_cli.export.csv {
            import(tool, &ncu, &files, &mut findings);
        }
    }
    ToolPass { findings, ..pass }
}

fn available(tool: &Tool<'_>, ncu: &Ncu) -> Available {
    let list = |step: Step| {
        let file = step.stdout.clone()?;
        tool.step(step).succeeded().then(|| read_from(&file, 0))
    };
    let [sections, metrics] = command::lists(&ncu.executable, &tool.folder);
    let sections = list(sections);
    let metrics = (!ncu.ncu_cli.metrics.is_empty()).then(|| list(metrics)).flatten();
    Available::read(sections.as_deref(), metrics.as_deref())
}

/// Folder of the captures that the user names, in that of the pass.
const GIVEN_DIR: &str = "kernels_from_nsys";

/// Kernels with their times, from one source: the collect pass; where that has no kernels, the nsys pass of the
/// same run; else captures of nsys that the user names. Where there are none, nothing is filtered.
#[derive(Default)]
struct KernelTimes {
    rows: Vec<KernelTime>,
    /// The range at the top with the most kernel time.
    longest: Option<String>,
}

/// Chooses the kernels. A stage that is set by default and did not occur gives way to that with the most GPU time.
fn kernels_of(
    tool: &Tool<'_>,
    collected: &CollectPass,
    ncu: &mut Ncu,
    choice: &KernelChoice,
    findings: &mut Vec<Finding>,
) -> Selection {
    let KernelTimes { rows, longest } = known(tool, collected, ncu, choice, findings);
    if rows.is_empty() {
        let what =
            "ncu: no kernels are known from the collect pass: launches are not filtered by name";
        let why = "the collect pass recorded none, and there is no capture of nsys with kernels";
        findings.push(Id::NcuChosen.found(what, why, ""));
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
            findings.push(Id::NcuChosen.found(what, "the collect pass saw it under this name", ""));
            ncu.stage = Some(stage);
        }
    }
    if let Some(wanted) = ncu.stage.clone().filter(|_| !choice.stage_is_explicit)
        && !rows.is_empty()
        && !occurs(&wanted)
    {
        let of = longest.as_ref().map_or("whole run".to_owned(), |name| format!("stage {name}"));
        findings.push(Id::NcuChosen.found(
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

fn known(
    tool: &Tool<'_>,
    collected: &CollectPass,
    ncu: &Ncu,
    choice: &KernelChoice,
    findings: &mut Vec<Finding>,
) -> KernelTimes {
    let known = KernelTimes::of_report(collected.report());
    if !known.rows.is_empty() {
        findings.extend(not_needed(choice, "the collect pass"));
        return known;
    }
    let libraries = &collected.names;
    // The reports list what is wrong with the nsys pass.
    let of_run = captures(&collected.run_dir.join(NSYS_DIR), libraries, &mut Vec::new());
    let known = KernelTimes::of_captures(&of_run, ncu, "the nsys pass of this run", findings);
    if !known.rows.is_empty() {
        findings.extend(not_needed(choice, "the nsys pass"));
        return known;
    }
    if choice.nsys_files.is_empty() {
        return known;
    }
    let given = captures_of(tool, &tool.folder.join(GIVEN_DIR), (choice, libraries), findings);
    findings.extend(given.iter().flat_map(|tables| tables.findings.clone()));
    KernelTimes::of_captures(&given, ncu, "the files of --nsys", findings)
}

fn not_needed(choice: &KernelChoice, known_from: &str) -> Option<Finding> {
    (!choice.nsys_files.is_empty()).then(|| {
        let what = "the files of --nsys are not used";
        let why = format!("kernels and their times are known from {known_from}");
        Id::ImportLeftOut.graded(
            Severity::Note,
            what,
            why,
            "`stage2-launch merge` makes reports of them",
        )
    })
}

/// Takes the files of the user into the bundle and reads them.
fn captures_of(
    tool: &Tool<'_>,
    folder: &Path,
    (choice, libraries): (&KernelChoice, &RangeNames),
    findings: &mut Vec<Finding>,
) -> Vec<Tables> {
    let mut copies = InputCopies::new(Kind::Nsys, folder.to_owned());
    choice.nsys_files.iter().for_each(|file| copies.add(file, findings));
    let reports: Vec<PathBuf> = copies.for_tool();
    if !reports.is_empty() {
        let tool = Tool { folder: folder.to_owned(), ..tool.clone() };
        export_nsys(&tool, &choice.nsys, &reports, findings);
    }
    if !clean_copies(&copies, findings) {
        findings.extend(environment_finding(folder, &format!("{NCU_DIR}/{GIVEN_DIR}"), false));
    }
    captures(folder, libraries, findings)
}

impl KernelTimes {
    /// The rows of the collector, by path.
    fn of_report(report: &Report) -> KernelTimes {
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
        KernelTimes { rows: rows.collect(), longest: longest(report).map(str::to_owned) }
    }

    /// The first capture that has kernels with mangled names.
    fn of_captures(
        captures: &[Tables],
        ncu: &Ncu,
        source: &str,
        findings: &mut Vec<Finding>,
    ) -> KernelTimes {
        for tables in captures {
            let known = KernelTimes::of_tables(tables, ncu, findings);
            if known.rows.is_empty() {
                continue;
            }
            let names: Vec<String> = tables.files.iter().map(|path| file_name(path)).collect();
            findings.push(Id::NcuChosen.found(
                format!("ncu: kernels are chosen by their times in {source}: {}", names.join(", ")),
                "the collect pass recorded no kernel; nothing else is taken from that capture here",
                "",
            ));
            return known;
        }
        KernelTimes::default()
    }

    fn of_tables(tables: &Tables, ncu: &Ncu, findings: &mut Vec<Finding>) -> KernelTimes {
        if tables.source == Source::Csv {
            return KernelTimes::of_csv(tables, ncu, findings);
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
        KernelTimes { rows: pieces.map(row).collect(), longest }
    }

    /// Ranges of the CSV tables nest: without counting twice only those of the stage can be used.
    fn of_csv(tables: &Tables, ncu: &Ncu, findings: &mut Vec<Finding>) -> KernelTimes {
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
            return KernelTimes { rows, longest: None };
        }
        // Where nobody knows the ranges, the stage is not said to be missing.
        let ranges_are_known = tables.ranges.iter().any(|range| !range.kernels.is_empty());
        let stage = ncu.stage.as_deref().filter(|_| !ranges_are_known).unwrap_or_default();
        let all = tables.kernels.iter().enumerate();
        let rows: Vec<KernelTime> = all
            .filter_map(|(at, kernel)| row(at, kernel.calls, kernel.total_ns, stage.to_owned()))
            .collect();
        if !rows.is_empty() && !stage.is_empty() {
            findings.push(Id::NcuChosen.found(
                format!("ncu: the top kernels of the whole capture are asked for in {stage}"),
                "the CSV tables do not show in which range a kernel ran",
                "give the SQLite export, or the table nvtx_kern_sum:mangled",
            ));
        }
        KernelTimes { rows, longest: None }
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

const REGIONS_DIR: &str = "regions";

/// Measures every chosen region; nothing where the collect pass, i.e. `collected`, knows none.
fn run_regions(
    tool: &Tool<'_>,
    request: &Request<'_>,
    collected: &Report,
    findings: &mut Vec<Finding>,
) -> Option<ToolPass> {
    let ranges = ranges(collected);
    let regions = choose_regions(&ranges, request.settings, findings);
    if regions.is_empty() && !request.settings.regions.include.is_empty() {
        // The stage in their place would be an answer to another question.
        return Some(ToolPass::without(PassStatus::Skipped, no_region(&ranges)));
    }
    if regions.is_empty() {
        let what = "ncu: one run measures what the filter names, instead of one for each region";
        let why = "the collect pass recorded no range with kernels that the patterns allow";
        findings.push(Id::NcuChosen.found(what, why, ""));
        return None;
    }
    let start = Instant::now();
    let mut whole: Option<ToolPass> = None;
    let mut own = Vec::new();
    for (at, region) in regions.iter().enumerate() {
        let Some(limits) = left(tool, start.elapsed()) else {
            let what = format!("ncu: {} of {} regions are measured", at, regions.len());
            let remedy = "raise pipeline.ncu.time_budget_s, or name fewer regions";
            findings.push(Id::NcuTimeLimit.found(what, "the time of the pass was used up", remedy));
            break;
        };
        let title = format!("ncu: region {} of {}: {}", at + 1, regions.len(), region.path());
        tool.host.terminal.progress(&title);
        let tool = Tool { limits, ..tool.clone() };
        whole = Some(together(whole, one(&tool, request, region, &mut own)));
        if tool.is_interrupted() {
            break;
        }
    }
    findings.extend(by_finding(own));
    whole
}

fn no_region(ranges: &[RangeTime]) -> Finding {
    let what = "ncu measured nothing: there is no region to measure";
    let why = format!(
        "{}, and pipeline.ncu.regions asks for none with kernels that ncu can measure",
        ranges_seen(ranges)
    );
    let remedy = "correct pipeline.ncu.regions.include or exclude";
    Id::NcuNothingProfiled.found(what, why, remedy)
}

const NAMED: usize = 3;

/// Findings of single regions as findings of the pass: what is found in several is said once.
fn by_finding(own: Vec<(String, Finding)>) -> Vec<Finding> {
    let mut groups: Vec<(Vec<String>, Finding)> = Vec::new();
    for (path, finding) in own {
        match groups.iter_mut().find(|(_, known)| *known == finding) {
            Some((paths, _)) if paths.contains(&path) => {}
            Some((paths, _)) => paths.push(path),
            None => groups.push((vec![path], finding)),
        }
    }
    let named = |(paths, finding): (Vec<String>, Finding)| {
        let regions = if paths.len() == 1 { "region" } else { "regions" };
        let what = format!("{regions} {}: {}", listed(&paths, NAMED), finding.what);
        Finding { what, ..finding }
    };
    groups.into_iter().map(named).collect()
}

/// The limits of the next run; nothing where no time is left.
fn left(tool: &Tool<'_>, gone: Duration) -> Option<Limits> {
    let Some(limit) = tool.limits.timeout else { return Some(tool.limits) };
    let timeout = Some(limit.checked_sub(gone).filter(|left| !left.is_zero())?);
    Some(Limits { timeout, ..tool.limits })
}

fn one(
    tool: &Tool<'_>,
    request: &Request<'_>,
    region: &Region,
    findings: &mut Vec<(String, Finding)>,
) -> ToolPass {
    let path = region.path();
    let home = tool.folder.join(REGIONS_DIR).join(folder(&path));
    let place = RegionFile { stack: region.stack.clone() };
    let written = private::create_folders(&home)
        .map(drop)
        .map_err(anyhow::Error::from)
        .and_then(|()| Ok(serde_json::to_string(&place)?))
        .and_then(|text| write_whole(&home.join(REGION_FILE), &text));
    if let Err(error) = written {
        let what = format!("ncu: the region {path} is not measured");
        let why = format!("{}: {error:#}", home.display());
        return ToolPass::without(PassStatus::Failed, Id::NcuLeftOut.found(what, why, ""));
    }
    let files = ncu_files(&home, None);
    let mut own = Vec::new();
    let argv = command::profile_region(request, &region.expression, &files, &mut own);
    let pass = profiled(tool, argv, &files, false, &mut own);
    if pass.status.has_data() && request.settings.ncu_cli.export.csv {
        import(tool, request.settings, &files, &mut own);
    }
    findings.extend(own.into_iter().map(|finding| (path.clone(), finding)));
    pass
}

/// Several runs as one pass: it has data if one of them has, and is `ok` if the workload failed in none.
fn together(whole: Option<ToolPass>, pass: ToolPass) -> ToolPass {
    let Some(before) = whole else { return pass };
    let duration = before.duration.zip(pass.duration).map(|(a, b)| a + b);
    let mut findings = before.findings.clone();
    findings.extend(pass.findings.iter().cloned());
    let failed = pass.status == PassStatus::WorkloadFailed;
    let first = if before.status.has_data() && !failed { before } else { pass };
    ToolPass { duration: duration.or(first.duration), findings, ..first }
}

pub(super) fn ranges(report: &Report) -> Vec<RangeTime> {
    let range = |row: &PathRow| RangeTime {
        stack: stack(report, row),
        kernels: row.kernels_inclusive.unwrap_or(0),
        total_ns: row.kernel_sum_inclusive_ns.unwrap_or(0),
    };
    report.paths.iter().filter(|row| row.kind == PathKind::Range).map(range).collect()
}

fn stack(report: &Report, row: &PathRow) -> Vec<Label> {
    let label = |row: &PathRow| Label { name: row.name.clone(), domain: row.domain.clone() };
    // Every parent stands before its children, so that this ends.
    let parents = std::iter::successors(Some(row), |row| report.paths.get(row.parent?));
    let mut stack: Vec<Label> = parents.map(label).collect();
    stack.reverse();
    stack
}

const PRINT_RAW: &str = "ncu --import FILE --page raw --csv --print-units base \
                                    --print-kernel-base mangled > raw.csv";

/// A profiling run. [`PassStatus::Planned`] means: once more, without filters.
fn profiled(
    tool: &Tool<'_>,
    argv: Vec<OsString>,
    files: &Files,
    filtered: bool,
    findings: &mut Vec<Finding>,
) -> ToolPass {
    // What an earlier run left must not pass for the result of this one.
    let _ = std::fs::remove_file(&files.report);
    let ended = tool.profile(&argv);
    let messages = read_from(&files.log, 0);
    // One log holds everything; what ncu says there itself is its own file while it runs.
    let log = std::fs::File::options().append(true).open(tool.folder.join("log.txt"));
    let _ = log.and_then(|mut log| log.write_all(messages.as_bytes()));
    let said = format!("{messages}\n{}", ended.log);
    let finished = ToolRun {
        ended: &ended,
        log: &said,
        report_bytes: files.report.metadata().ok().map(|found| found.len()),
        filtered: filtered && !ended.interrupted,
        workload_exit: match tool.collect {
            Some(WorkloadExit::Code(code)) => Some(code),
            _ => None,
        },
    };
    let (outcome, workload) = (judge(&finished), failed_workload(&finished));
    let mut pass = ToolPass::ran(argv, &ended);
    pass.status = match outcome.verdict {
        Verdict::Complete | Verdict::Partial => PassStatus::Ok,
        Verdict::Retry => PassStatus::Planned,
        Verdict::Failed => PassStatus::Failed,
    };
    pass.why = outcome.findings.first().map(ToString::to_string).unwrap_or_default();
    findings.extend(outcome.findings);
    if !ended.interrupted {
        pass.ended(workload.map(WorkloadExit::Code));
    }
    pass
}

/// Turns a report into its two tables.
pub(super) fn import(tool: &Tool<'_>, ncu: &Ncu, files: &Files, findings: &mut Vec<Finding>) {
    for step in command::imports(&ncu.executable, files) {
        let csv = step.stdout.clone().unwrap_or_default();
        let ended = tool.step(step);
        if let Some(signal) = tool.interrupted.get().filter(|_| !ended.succeeded()) {
            findings.push(tables_cut_off(&files.report, signal, PRINT_RAW));
            return;
        }
        let bytes = csv.metadata().ok().map(|found| found.len());
        let said = format!("{}\n{}", ended.log, read_from(&csv, 0));
        findings.extend(judge_import(&files.report, &ended, &said, bytes));
    }
}

/// Prints the page; its first lines state which one.
const SCRIPT: &str = include_str!("../tools/ncu/print_report.py");
/// Starting Python, and loading the package, may take this long.
const ASK_LIMIT: Duration = Duration::from_secs(60);
const PRINT_LIMIT: Duration = Duration::from_secs(600);
/// Without the folder that it is run in.
const IMPORT: &str = "import sys; sys.path[:] = [p for p in sys.path if p]; import ncu_report";

#[derive(Debug, thiserror::Error)]
pub(super) enum NoPython {
    #[error("there is no python3 on PATH")]
    OnPath,
    #[error("{} cannot import ncu_report: {why}", .python.display())]
    WithPackage { python: PathBuf, why: NoAnswer },
}

/// The first Python on PATH that has the package; else what the first one says.
pub(super) fn interpreter() -> Result<PathBuf, NoPython> {
    let mut no_python = NoPython::OnPath;
    for python in ["python3", "python"].into_iter().filter_map(on_path) {
        match ask(Command::new(&python).args(["-c", IMPORT]), ASK_LIMIT) {
            Ok(_) => return Ok(python),
            Err(_) if matches!(no_python, NoPython::WithPackage { .. }) => {}
            Err(why) => no_python = NoPython::WithPackage { python, why },
        }
    }
    Err(no_python)
}

/// Writes the raw page of `report` to `raw`.
pub(super) fn print_by_python(
    tool: &Tool<'_>,
    python: &Path,
    (report, raw): (&Path, &Path),
    findings: &mut Vec<Finding>,
) {
    let step = Step {
        argv: vec![python.into(), "-c".into(), SCRIPT.into(), report.into()],
        stdout: Some(raw.to_owned()),
        timeout: Some(PRINT_LIMIT),
        ..Step::default()
    };
    let ended = tool.step(step);
    let shown = visible_path(report);
    if ended.succeeded() {
        let what = format!("{shown} was read by the Python package ncu-report");
        let why = "ncu cannot be run here; the package does not tell processes apart, and the advice of \
                   ncu's rules (the details page) is missing";
        findings.push(Id::NcuByPython.found(what, why, ""));
        return;
    }
    // What it left would pass for all of it.
    if ended.refused.is_none() {
        let _ = std::fs::remove_file(raw);
    }
    if let Some(signal) = tool.interrupted.get() {
        findings.push(tables_cut_off(report, signal, PRINT_RAW));
        return;
    }
    let why = match (&ended.refused, ended.timed_out_after) {
        (Some(why), _) => why.clone(),
        (None, Some(limit)) => format!("it did not end within {} s", limit.as_secs()),
        (None, None) => {
            let last = ended.log.lines().rfind(|line| !line.trim().is_empty());
            last.unwrap_or("it does not say why").trim().to_owned()
        }
    };
    let what = format!("the Python package ncu-report could not read {shown}");
    let remedy = "the package has to be at least as new as the ncu that wrote the file: `pip install --upgrade \
                  ncu-report`, or print the tables with that ncu, and merge the .csv";
    findings.push(Id::NcuByPython.graded(Severity::Warning, what, why, remedy));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_region_is_left_the_ranges_of_the_run_are_named() {
        let range = RangeTime { stack: vec![Label::of_stage("decode")], kernels: 0, total_ns: 0 };
        let told = no_region(&[range]);
        assert!(told.why.contains("saw decode,"), "{told}");
        assert!(told.remedy.contains("pipeline.ncu.regions.include or exclude"), "{told}");
        assert!(no_region(&[]).why.contains("saw no range,"));
    }

    #[test]
    fn what_is_found_in_several_regions_is_said_once() {
        let found = |what: &str| Id::NcuLeftOut.graded(Severity::Note, what, "", "");
        let mut own: Vec<(String, Finding)> = ["prefill", "decode", "decode/attn", "decode/mlp"]
            .map(|path| (path.to_owned(), found("left out 12 metrics")))
            .to_vec();
        own.insert(1, ("prefill".to_owned(), found("another")));
        own.push(("prefill".to_owned(), found("left out 12 metrics")));
        let said: Vec<String> = by_finding(own).into_iter().map(|f| f.what).collect();
        assert_eq!(
            said,
            [
                "regions prefill, decode, decode/attn and 1 more: left out 12 metrics",
                "region prefill: another"
            ]
        );
    }
}
