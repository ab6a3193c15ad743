//! The ncu pass: what the tool knows, the kernels to ask for, a profiling run, a second one without
//! filters where nothing passed them, then the tables.

use std::collections::BTreeMap;
use std::io::Write as _;

use super::SignalSource;
use super::child::Spawner;
use super::collected::Collected;
use super::ncu_kernels::kernels_of;
use super::ncu_regions;
use super::tool::{Ended, Tool, ToolPass, tables_cut_off, version_of};
use crate::plan::{Given, Profiler, ncu_files};
use crate::tools::ncu::available::Available;
use crate::tools::ncu::command;
use crate::tools::ncu::command::Files;
use crate::tools::ncu::command::Filter;
use crate::tools::ncu::command::Invocation;
use crate::tools::ncu::command::Request;
use crate::tools::ncu::config::Ncu;
use crate::tools::ncu::missed;
use crate::tools::ncu::outcome::End;
use crate::tools::ncu::outcome::Finished;
use crate::tools::ncu::outcome::Verdict;
use crate::tools::ncu::outcome::failed_workload;
use crate::tools::ncu::outcome::judge;
use crate::tools::ncu::outcome::judge_import;
use crate::tools::ncu::outcome::judge_version;
use crate::tools::ncu::version::NcuVersion;
use stage2_model::{Finding, PassStatus, Severity, WorkloadExit};

/// Runs the pass. `collected` is what the collect pass recorded, `collect` how the workload ended in it.
pub(super) fn run<S: Spawner, G: SignalSource>(
    tool: &Tool<'_, S, G>,
    ncu: &Ncu,
    (stage_is_explicit, given): (bool, &Given),
    profiler: &Profiler,
    collected: &Collected,
    collect: Option<WorkloadExit>,
) -> ToolPass {
    let version = match version_of(&ncu.executable) {
        Ok(said) => NcuVersion::parse(&said),
        Err((missing, why)) => {
            let status = if missing { PassStatus::Skipped } else { PassStatus::Failed };
            return ToolPass::without(status, missing_tool(ncu, &why));
        }
    };
    let mut findings = Vec::new();
    if let Some(finding) = judge_version(version) {
        if version.is_some() {
            return ToolPass::without(PassStatus::Skipped, finding);
        }
        findings.push(finding);
    }
    let mut ncu = ncu.clone();
    let selection =
        kernels_of(tool, collected, &mut ncu, (stage_is_explicit, given), &mut findings);
    let named = ncu.ncu_cli.kernel_name.is_some() || ncu.ncu_cli.replay_mode.is_range();
    if selection.nothing_may_be_profiled() && !named {
        let finding = findings.pop();
        let finding =
            finding.unwrap_or_else(|| Finding::new(Severity::Warning, "ncu: no kernels", "", ""));
        let mut pass = ToolPass::without(PassStatus::Skipped, finding);
        findings.append(&mut pass.findings);
        return ToolPass { findings, ..pass };
    }
    let selection = selection.selection;
    let available = available(tool, &ncu);
    if tool.is_interrupted() {
        let what = "ncu measured nothing: it was not started yet when the run was interrupted";
        let finding = Finding::new(Severity::Note, what, "", "");
        let mut pass = ToolPass::without(PassStatus::Skipped, finding);
        findings.append(&mut pass.findings);
        return ToolPass { findings, ..pass };
    }
    let request =
        Request { settings: &ncu, version, workload: &profiler.workload, available: &available };
    if ncu.ncu_cli.replay_mode.is_range()
        && let Some(pass) =
            ncu_regions::run(tool, &request, collected.report(), collect, &mut findings)
    {
        findings.extend(pass.findings.iter().cloned());
        return ToolPass { findings, ..pass };
    }
    let filter = Filter::new(&ncu, &selection, &mut findings);
    let files = ncu_files(&tool.folder, None);
    let invocation = command::profile(&request, &filter, &files, &mut findings);
    let mut pass = profiled(tool, invocation, &files, !filter.is_empty(), collect, &mut findings);
    if pass.status == PassStatus::Planned {
        // The range replay modes hand no kernel name on.
        let names = filter.kernel_name.clone().filter(|_| !ncu.ncu_cli.replay_mode.is_range());
        let filter = Filter { kernel_name: names, ..filter.clone() };
        let seen = ncu_regions::ranges(collected.report());
        findings.extend(missed::finding(&filter, ncu.ncu_cli.nvtx.start_end, &seen));
        tool.terminal.progress("ncu: once more, without filters");
        let free = Filter::default();
        let invocation = command::profile(&request, &free, &files, &mut Vec::new());
        pass = profiled(tool, invocation, &files, false, collect, &mut findings);
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
    if let Some(pattern) = selection.communication_pattern().filter(|_| !tool.is_interrupted()) {
        let files = ncu_files(&tool.folder, Some("communication"));
        let invocation = command::profile_communication(&request, &pattern, &filter, &files);
        let second = profiled(tool, invocation, &files, false, collect, &mut findings);
        if second.status.has_data() && ncu.ncu_cli.export.csv {
            import(tool, &ncu, &files, &mut findings);
        }
    }
    ToolPass { findings, ..pass }
}

/// What to tell where the tool cannot be asked for its version.
fn missing_tool(ncu: &Ncu, why: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("there is no ncu pass: {} cannot be run", ncu.executable.display()),
        why,
        "install Nsight Compute, put its folder into PATH, or name it in pipeline.ncu.executable; \
         pipeline.ncu.enable=false leaves the pass out",
    )
}

/// Asks the tool for its sections, and for the metrics of the GPU.
fn available<S: Spawner, G: SignalSource>(tool: &Tool<'_, S, G>, ncu: &Ncu) -> Available {
    let list = |invocation: Invocation| {
        let file = invocation.stdout.clone()?;
        let ended = tool.step(&invocation.into());
        let whole = ended.exit == Some(WorkloadExit::Code(0));
        whole.then(|| super::tool::read_from(&file, 0))
    };
    let sections = list(command::list_sections(&ncu.executable, &tool.folder.join("sections.txt")));
    let wants_metrics = !ncu.ncu_cli.metrics.is_empty();
    let metrics = wants_metrics
        .then(|| list(command::query_metrics(&ncu.executable, &tool.folder.join("metrics.txt"))));
    Available::read(sections.as_deref(), metrics.flatten().as_deref())
}

/// A profiling run. [`PassStatus::Planned`] means: once more, without filters.
pub(super) fn profiled<S: Spawner, G: SignalSource>(
    tool: &Tool<'_, S, G>,
    invocation: Invocation,
    files: &Files,
    filtered: bool,
    collect: Option<WorkloadExit>,
    findings: &mut Vec<Finding>,
) -> ToolPass {
    // What an earlier run left must not pass for the result of this one.
    let _ = std::fs::remove_file(&files.report);
    let ended = tool.profile(&invocation.argv, &BTreeMap::new());
    let messages = super::tool::read_from(&files.log, 0);
    // One log holds everything; what ncu says there itself is its own file while it runs.
    let log = std::fs::File::options().append(true).open(tool.folder.join("log.txt"));
    let _ = log.and_then(|mut log| log.write_all(messages.as_bytes()));
    let said = format!("{messages}\n{}", ended.log);
    let finished = Finished {
        end: end_of(&ended),
        log: &said,
        report_bytes: files.report.metadata().ok().map(|found| found.len()),
        filtered: filtered && !ended.interrupted,
        workload_exit: match collect {
            Some(WorkloadExit::Code(code)) => Some(code),
            _ => None,
        },
    };
    let (outcome, workload) = (judge(&finished), failed_workload(&finished));
    let status = match outcome.verdict {
        Verdict::Complete | Verdict::Partial => PassStatus::Ok,
        Verdict::Retry => PassStatus::Planned,
        Verdict::Failed => PassStatus::Failed,
    };
    let why = outcome.findings.first().map(ToString::to_string).unwrap_or_default();
    findings.extend(outcome.findings);
    let mut pass = ToolPass {
        status,
        why,
        argv: Some(invocation.argv),
        exit: ended.exit,
        workload: None,
        duration: Some(ended.duration),
        findings: Vec::new(),
    };
    if !ended.interrupted {
        pass.ended(workload.map(WorkloadExit::Code));
    }
    pass
}

/// Turns a report into its two tables.
pub(crate) fn import<S: Spawner, G: SignalSource>(
    tool: &Tool<'_, S, G>,
    ncu: &Ncu,
    files: &Files,
    findings: &mut Vec<Finding>,
) {
    let imports = command::imports(&ncu.executable, &files.report, &files.raw, &files.details);
    for invocation in imports {
        let csv = invocation.stdout.clone().unwrap_or_default();
        let ended = tool.step(&invocation.into());
        if let Some(signal) = tool.interrupted.get()
            && ended.exit != Some(WorkloadExit::Code(0))
        {
            // What it left would pass for all of it.
            if ended.refused.is_none() {
                let _ = std::fs::remove_file(&csv);
            }
            let remedy = "ncu --import FILE --page raw --csv --print-units base \
                          --print-kernel-base mangled > raw.csv";
            findings.push(tables_cut_off(&files.report, signal, remedy));
            return;
        }
        let bytes = csv.metadata().ok().map(|found| found.len());
        let said = format!("{}\n{}", ended.log, super::tool::read_from(&csv, 0));
        findings.extend(judge_import(&files.report, end_of(&ended), &said, bytes));
    }
}

fn end_of(ended: &Ended) -> End {
    match (&ended.refused, ended.timed_out_after, ended.exit) {
        (Some(why), ..) => End::NotStarted { not_found: why.contains("not found") },
        (_, Some(after), _) => End::OutOfTime { after_s: after.as_secs() },
        (_, _, Some(WorkloadExit::Code(code))) => End::Exit(code),
        (_, _, Some(WorkloadExit::Signal(signal))) => End::Signal(signal),
        (None, None, None) => End::NotStarted { not_found: false },
    }
}
