//! The ncu pass: what the tool knows, the kernels to ask for, a profiling run, a second one without
//! filters where nothing passed them, then the tables.

use super::collected::Collected;
use super::forecast;
use super::ncu_kernels::kernels_of;
use super::ncu_regions;
use super::ncu_steps::{import, profiled};
use super::tool::{Tool, ToolPass, read_from, version_for};
use crate::plan::{KernelChoice, Profiler, ncu_files};
use crate::tools::ncu::available::Available;
use crate::tools::ncu::command::{self, Filter, Request};
use crate::tools::ncu::config::Ncu;
use crate::tools::ncu::missed;
use crate::tools::ncu::select::pattern;
use crate::tools::step::Step;
use stage2_model::{Finding, PassStatus, Severity};

/// Runs the pass. `collected` is what the collect pass recorded.
pub(super) fn run(
    tool: &Tool<'_>,
    ncu: &Ncu,
    choice: &KernelChoice,
    profiler: &Profiler,
    collected: &Collected,
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
        let finding = finding.unwrap_or_else(|| Finding::warning("ncu: no kernels", "", ""));
        return ToolPass::without_after(PassStatus::Skipped, finding, findings);
    }
    if let Some(line) = forecast::of_kernels(selection.kernels.len(), &ncu, tool.first) {
        tool.host.terminal.progress(&line);
    }
    let available = available(tool, &ncu);
    if tool.is_interrupted() {
        let what = "ncu measured nothing: it was not started yet when the run was interrupted";
        let finding = Finding::note(what, "", "");
        return ToolPass::without_after(PassStatus::Skipped, finding, findings);
    }
    let request =
        Request { settings: &ncu, version, workload: &profiler.workload, available: &available };
    if ncu.ncu_cli.replay_mode.is_range()
        && let Some(pass) = ncu_regions::run(tool, &request, collected.report(), &mut findings)
    {
        findings.extend(pass.findings.iter().cloned());
        return ToolPass { findings, ..pass };
    }
    let filter = Filter::new(&ncu, &selection, &mut findings);
    let files = ncu_files(&tool.folder, None);
    let argv = command::profile(&request, &filter, &files, &mut findings);
    let mut pass = profiled(tool, argv, &files, !filter.is_empty(), &mut findings);
    if pass.status == PassStatus::Planned {
        // The range replay modes hand no kernel name on.
        let names = filter.kernel_name.clone().filter(|_| !ncu.ncu_cli.replay_mode.is_range());
        let filter = Filter { kernel_name: names, ..filter.clone() };
        let seen = ncu_regions::ranges(collected.report());
        findings.extend(missed::finding(&filter, ncu.ncu_cli.nvtx.start_end, &seen));
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

/// Asks the tool for its sections, and for the metrics of the GPU.
fn available(tool: &Tool<'_>, ncu: &Ncu) -> Available {
    let list = |step: Step| {
        let file = step.stdout.clone()?;
        tool.step(step).succeeded().then(|| read_from(&file, 0))
    };
    let sections = list(command::list_sections(&ncu.executable, &tool.folder.join("sections.txt")));
    let wants_metrics = !ncu.ncu_cli.metrics.is_empty();
    let metrics = wants_metrics
        .then(|| list(command::query_metrics(&ncu.executable, &tool.folder.join("metrics.txt"))));
    Available::read(sections.as_deref(), metrics.flatten().as_deref())
}
