//! The ncu pass: what the tool knows, the kernels to ask for, a profiling run, a second one without
//! filters where nothing passed them, then the tables.

use super::SignalSource;
use super::child::Spawner;
use super::collected::Collected;
use super::ncu_kernels::kernels_of;
use super::ncu_regions;
use super::ncu_steps::{import, profiled};
use super::tool::{Tool, ToolPass, version_of, without_version};
use crate::plan::{KernelChoice, Profiler, ncu_files};
use crate::tools::ncu::available::Available;
use crate::tools::ncu::command::{Filter, Invocation, Request};
use crate::tools::ncu::config::Ncu;
use crate::tools::ncu::outcome::judge_version;
use crate::tools::ncu::version::NcuVersion;
use crate::tools::ncu::{command, missed};
use stage2_model::{Finding, PassStatus, Severity, WorkloadExit};

/// Runs the pass. `collected` is what the collect pass recorded, `collect` how the workload ended in it.
pub(super) fn run<S: Spawner, G: SignalSource>(
    tool: &Tool<'_, S, G>,
    ncu: &Ncu,
    choice: &KernelChoice,
    profiler: &Profiler,
    collected: &Collected,
    collect: Option<WorkloadExit>,
) -> ToolPass {
    let version = match version_of(&ncu.executable) {
        Ok(said) => NcuVersion::parse(&said),
        Err(why) => {
            let status = without_version(&why);
            return ToolPass::without(status, missing_tool(ncu, &why.to_string()));
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
    let selection = kernels_of(tool, collected, &mut ncu, choice, &mut findings);
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
