//! `pipeline.ncu` of the composed configuration -> typed settings, checked.
//!
//! Fields mirror the presets in `conf/profiling/ncu/`, which hold the defaults; the keys under
//! `ncu_cli` are the flags of `ncu`, with underscores.

use std::num::NonZeroU64;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::expression;
use crate::tools::word;
use stage2_config::hydra::{one_or_many, words};
use stage2_read::ncu::regions::Regions;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ncu {
    pub(crate) description: Option<String>,
    pub(crate) enable: bool,
    /// The program: a name that is looked up, or a path.
    pub(crate) executable: PathBuf,
    /// Whether only launches inside the NVTX ranges of the stage are profiled.
    pub(crate) gating_nvtx: bool,
    /// The stage whose kernels are ranked and profiled, `name` or `name@domain`; none: all of the run.
    pub(crate) stage: Option<String>,
    /// How many kernels are profiled, by total time in the stage; none: all of them.
    pub(crate) top_n: Option<NonZeroU64>,
    /// Globs of mangled or demangled kernel names that may be chosen; empty: all.
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) kernel_include: Vec<String>,
    /// Globs of kernel names that are never chosen; wins over `kernel_include`.
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) kernel_exclude: Vec<String>,
    /// Whether kernels that talk to other GPUs are profiled, in their own run with a single pass.
    pub(crate) communication_kernels: bool,
    /// The run is ended after this many seconds, and what it has by then is kept; none: never.
    pub(crate) time_budget_s: Option<NonZeroU64>,
    /// Bytes that ncu may write before the run is ended, which keeps what it has by then; none: any number.
    pub(crate) size_limit_bytes: Option<NonZeroU64>,
    pub(crate) regions: Regions,
    pub(crate) ncu_cli: NcuCli,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NcuCli {
    pub(crate) target_processes: TargetProcesses,
    pub(crate) replay_mode: ReplayMode,
    pub(crate) filter_mode: FilterMode,
    pub(crate) kernel_name_base: KernelNameBase,
    /// `--kernel-name`, verbatim, in place of the kernels that are chosen by time.
    pub(crate) kernel_name: Option<String>,
    /// `--launch-skip`: launches that pass the filters and are not profiled.
    pub(crate) launch_skip: u64,
    /// `--launch-count`: launches that are profiled, counted as `filter_mode` says; none: all of them.
    pub(crate) launch_count: Option<NonZeroU64>,
    pub(crate) nvtx: Nvtx,
    pub(crate) set: Option<String>,
    #[serde(deserialize_with = "words")]
    pub(crate) sections: Vec<String>,
    #[serde(deserialize_with = "words")]
    pub(crate) metrics: Vec<String>,
    pub(crate) clock_control: ClockControl,
    pub(crate) cache_control: CacheControl,
    pub(crate) graph_profiling: GraphProfiling,
    pub(crate) force_overwrite: bool,
    pub(crate) export: Export,
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) extra_args: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nvtx {
    /// One `--nvtx-include` each; empty: the range of the stage.
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) include: Vec<String>,
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) exclude: Vec<String>,
    /// Whether the expressions name start/end ranges. Those of push/pop ranges get a slash at the end.
    pub(crate) start_end: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Export {
    /// The raw and the details page. Without it the counters are in the report file only.
    pub(crate) csv: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TargetProcesses {
    /// The workload and everything that it starts: Python often is not the process that launches.
    All,
    ApplicationOnly,
}

/// What is run again for metrics that do not fit in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReplayMode {
    /// Each kernel, with its memory saved and restored.
    Kernel,
    /// The whole workload.
    Application,
    /// What is launched within a range, as one unit.
    Range,
    /// The whole workload, measuring ranges: for ranges that cannot be replayed.
    AppRange,
}

impl ReplayMode {
    /// Whether a result is that of a range and not of a kernel.
    pub(crate) fn is_range(self) -> bool {
        matches!(self, ReplayMode::Range | ReplayMode::AppRange)
    }
}

/// What the launch filters count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FilterMode {
    Global,
    PerGpu,
    /// The launches of each configuration: grid, block and shared memory of a kernel. The help of
    /// ncu leaves the kernel out; kernels of equal shape were seen to be counted apart (2025.3).
    PerLaunchConfig,
}

/// Which form of the name is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KernelNameBase {
    Function,
    /// Demangled: tools differ in how.
    Demangled,
    /// Mangled: the only form that every source of this program shares.
    Mangled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ClockControl {
    /// They stay as they are in use, so that throughput can be set against undisturbed durations.
    None,
    /// They are locked to base, which lowers every rate, and needs rights that containers lack.
    Base,
}

/// What happens to the caches before each pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CacheControl {
    /// They are flushed: passes agree with each other.
    All,
    /// They stay as they are: closer to the workload, and passes differ.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum GraphProfiling {
    /// Each kernel of them.
    Node,
    /// As one unit.
    Graph,
}

/// A value that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Its key, below `pipeline.ncu`.
    pub(crate) key: &'static str,
    pub(crate) what: String,
}

/// Flags that this program sets itself, besides those that are called like a key: given twice, ncu takes
/// the last one or refuses.
const OWN_FLAGS: &[&str] = &[
    "-o",
    "-i",
    "--import",
    "--csv",
    "--page",
    "--log-file",
    "-f",
    "--print-units",
    "--print-kernel-base",
    "-k",
    "-c",
    "-s",
    "--launch-skip-before-match",
    "--nvtx-include",
    "--nvtx-exclude",
    "--section",
    "--mode",
    "--config-file",
    "--",
];

impl Ncu {
    /// Everything that is wrong with the settings; empty: nothing.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut fault = |key, what: String| faults.push(Fault { key, what });
        let cli = &self.ncu_cli;
        if self.executable.as_os_str().is_empty() {
            fault("executable", "it is empty: give a name such as ncu, or a path".into());
        }
        if self.stage.as_deref().is_some_and(|stage| stage.is_empty() || stage.starts_with('@')) {
            fault("stage", "the name is empty: give name or name@domain, or null".into());
        }
        if self.communication_kernels && self.time_budget_s.is_none() {
            let what = "kernels that wait for other GPUs can hang the run: set it, in seconds";
            fault("time_budget_s", what.into());
        }
        for (key, list) in [("ncu_cli.sections", &cli.sections), ("ncu_cli.metrics", &cli.metrics)]
        {
            for name in list.iter().filter(|name| !is_identifier(name)) {
                fault(
                    key,
                    format!("{name:?} is not a name that ncu accepts: one word without commas"),
                );
            }
        }
        if let Some(set) = cli.set.as_ref().filter(|set| !is_identifier(set)) {
            fault(
                "ncu_cli.set",
                format!("{set:?} is not the name of a set, e.g. roofline, or null"),
            );
        }
        if cli.set.is_none() && cli.sections.is_empty() && cli.metrics.is_empty() {
            fault("ncu_cli.set", "nothing to measure: give a set, sections or metrics".into());
        }
        if cli.kernel_name.as_deref().is_some_and(str::is_empty) {
            fault("ncu_cli.kernel_name", "it is empty: give a name or regex:..., or null".into());
        }
        if cli.kernel_name.is_none() && cli.kernel_name_base != KernelNameBase::Mangled {
            let what = "kernels are chosen by their mangled names: set kernel_name, or mangled";
            fault("ncu_cli.kernel_name_base", what.into());
        }
        let gates_by_range =
            self.gating_nvtx && (self.stage.is_some() || !cli.nvtx.include.is_empty());
        if cli.replay_mode.is_range() && !gates_by_range && !cli.has_own_ranges() {
            let needs = "needs ranges: set stage or ncu_cli.nvtx.include, and gating_nvtx=true";
            fault("ncu_cli.replay_mode", format!("{} {needs}", word(cli.replay_mode)));
        }
        let keys = serde_json::to_value(cli).unwrap_or_default();
        for arg in &cli.extra_args {
            let name = arg.split('=').next().unwrap_or(arg);
            let key = name.strip_prefix("--").unwrap_or_default().replace('-', "_");
            if OWN_FLAGS.contains(&name) || keys.get(key).is_some() {
                fault("ncu_cli.extra_args", format!("{name} has its own setting: use that"));
            }
        }
        let mut read = |key, list: &[String]| {
            let mut expressions = Vec::new();
            for entry in list {
                match expression::of_setting(entry, cli.nvtx.start_end) {
                    Ok(of_entry) => expressions.extend(of_entry),
                    Err(refused) => fault(key, refused.to_string()),
                }
            }
            expressions
        };
        let include = read("ncu_cli.nvtx.include", &cli.nvtx.include);
        let exclude = read("ncu_cli.nvtx.exclude", &cli.nvtx.exclude);
        let lost = expression::lost([&include, &exclude]);
        if !lost.is_empty() {
            let what = format!(
                "in addition to globs and regular expressions, ncu accepts one nested expression (with a / \
                 between names) in include and one in exclude, and matches nothing for {}: leave out \
                 the globs, or these",
                lost.join(", ")
            );
            let in_include = include.iter().any(|text| lost.contains(text));
            fault(if in_include { "ncu_cli.nvtx.include" } else { "ncu_cli.nvtx.exclude" }, what);
        }
        let texts = [&cli.nvtx.include, &cli.nvtx.exclude, &cli.extra_args];
        if texts.into_iter().flatten().any(|text| text.contains('\0')) {
            fault("ncu_cli", "a value holds a zero byte, which no argument can".into());
        }
        faults
    }
}

impl NcuCli {
    /// Whether further arguments choose ranges by the profiler's own start and stop calls.
    pub(crate) fn has_own_ranges(&self) -> bool {
        self.extra_args.iter().any(|arg| {
            let name = arg.split('=').next().unwrap_or(arg);
            matches!(name, "--range-filter" | "--profile-from-start")
        })
    }
}

/// One word of those that metrics, sections and sets are named by, `regex:` and `group:` included.
fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && !name.chars().any(|c| c.is_whitespace() || c.is_control() || c == ',')
}

#[cfg(test)]
pub(super) mod tests;
