//! A key that is not ours -> where it belongs: the workload, another key of ours, or the nearest one.

use std::fmt;

use super::similar::most_like;
use stage2_hydra::Origin;

/// Keys of Hydra workloads, and what is below them: those of ours that look alike stand elsewhere.
const OF_WORKLOADS: &[&str] = &[
    "infer",
    "dataset",
    "data",
    "device",
    "backend",
    "seed",
    "nvtx",
    "experiment",
    "output",
    "outputs",
    "use_flash_attn",
    "torch_profiler",
    "static_analysis",
    "analysis",
    "hydra",
    "run.repeats",
    "run.warmup",
    "model.name",
    "model.path",
    "model.dtype",
    "model.config",
    "model.target",
    "model.preprocess",
    "model.architecture",
    "profiling.enabled",
    "profiling.activities",
    "profiling.record_shapes",
    "profiling.profile_memory",
    "profiling.torch",
    "profiling.with_stack",
    "profiling.warmup_rounds",
    "profiling.rep_max_new_tokens",
    "pipeline.torch_profiler",
    "pipeline.static_analysis",
    "pipeline.direct_inference",
];

/// Keys of earlier runners, and what does the same here.
const EARLIER: &[(&str, &str)] = &[
    (
        "nsys.gating_nvtx",
        "use pipeline.nsys.capture_range: none (the default) records the whole run, nvtx the range \
         that pipeline.nsys.nvtx_capture names",
    ),
    (
        "run.top_n_kernels",
        "use report.top_n for the rows of kernels.md, pipeline.ncu.top_n for the kernels that ncu \
         profiles",
    ),
    ("ncu.nvtx_include", "use pipeline.ncu.ncu_cli.nvtx.include"),
    ("ncu.export.raw_csv", "use pipeline.ncu.ncu_cli.export.csv"),
    ("model.llm.params", "the count follows from shape or config_json; leave params out"),
    ("run.stage1_repeats", "give the workload dataset.sampling.num_samples_per_epoch=N after `--`"),
    ("repeats", "give the workload dataset.sampling.num_samples_per_epoch=N after `--`"),
    ("run.representative_max_new_tokens", "give the workload infer.max_new_tokens=N after `--`"),
    ("run.dataset_subset_filelist", "give the workload dataset.subset_filelist=FILE after `--`"),
    ("stage1_runner.device", "give the workload device=cuda:N after `--`"),
    ("stage1_runner.disable_static", "use workload=hydra, which switches static analysis off"),
    ("runners", "use workload=hydra, and give the workload its own presets after `--`"),
    ("workload.module", "give the command after `--`: -- python -m MODULE"),
];

/// Keys of earlier runners that say what reports show, and what does the same for a run that is over.
const EARLIER_OF_REPORTS: &[(&str, &str)] =
    &[("run.top_n_kernels", "use report.top_n for the rows of kernels.md")];

/// Settings of workloads that two of our presets switch off.
const SWITCHED_OFF: &[&str] =
    &["torch_profiler", "static_analysis", "pipeline.torch_profiler", "pipeline.static_analysis"];

/// Parts of our configuration that belong to one tool.
const TOOLS: &[(&str, &str)] = &[
    ("nsys", "pipeline.nsys"),
    ("ncu", "pipeline.ncu"),
    ("ncu_cli", "pipeline.ncu.ncu_cli"),
    ("collector", "profiling.collector"),
];

/// More keys than this that could be meant are no help.
const MOST_CHOICES: usize = 4;

/// What to say behind an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// What to do with settings of ours.
    ours: Box<str>,
    /// Where a setting of the workload goes: empty where it is none, or where no workload runs.
    workloads: Box<str>,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.ours, self.workloads)
    }
}

impl From<String> for Advice {
    fn from(ours: String) -> Advice {
        Advice::new(ours, "")
    }
}

impl Advice {
    fn new(ours: impl Into<Box<str>>, workloads: impl Into<Box<str>>) -> Advice {
        Advice { ours: ours.into(), workloads: workloads.into() }
    }

    /// For a command that runs no workload, and so takes nothing after `--`.
    pub(super) fn without_workload(self) -> Advice {
        match self.ours.is_empty() && !self.workloads.is_empty() {
            true => {
                Advice::new("; this is a workload setting, and this command runs no workload", "")
            }
            false => Advice::new(self.ours, ""),
        }
    }
}

/// What to say behind "unknown key `key`". `origin` says who wrote it, `valid` are all keys and groups.
pub(super) fn advice<'a>(
    key: &str,
    origin: &Origin,
    valid: impl IntoIterator<Item = &'a str>,
) -> Advice {
    let valid: Vec<&str> = valid.into_iter().collect();
    let dotted = key.replace('/', ".");
    // `profiling.nsys.x` and `pipeline.nsys.x` were said for the same tool.
    let short = ["pipeline.", "profiling."]
        .iter()
        .find_map(|prefix| dotted.strip_prefix(prefix))
        .unwrap_or(&dotted);
    if short == "nsys.nvtx_capture" {
        return gate(origin).into();
    }
    if let Some((_, instead)) = EARLIER.iter().find(|(old, _)| *old == short) {
        return format!("; {instead}").into();
    }
    if let Some(head) = missing_head(key, origin, &valid) {
        return head.into();
    }
    if OF_WORKLOADS.iter().any(|known| within(&dotted, known)) || is_group_of_workload(key) {
        return of_workload(key, &dotted, origin);
    }
    let ends_so = |known: &&str| {
        let rest = known.strip_suffix(short);
        rest.is_some_and(|rest| rest.ends_with(['.', '/']))
    };
    let mut choices: Vec<String> = valid.iter().copied().filter(ends_so).map(quoted).collect();
    if !choices.is_empty() && choices.len() <= MOST_CHOICES {
        let last = choices.pop().unwrap_or_default();
        let first = choices.join(", ");
        let or = if first.is_empty() { "" } else { " or " };
        return format!("; did you mean {first}{or}{last}?").into();
    }
    let tool = TOOLS.iter().find(|(name, _)| within(short, name)).map(|(_, of_tool)| *of_tool);
    if let Some(of_tool) = tool {
        let of_tool = valid.iter().copied().filter(|known| within(known, of_tool));
        return nearest(most_like(&dotted, of_tool)).into();
    }
    let root = dotted.split('.').next().unwrap_or_default();
    let ours = valid.iter().any(|known| known.split(['.', '/']).next() == Some(root));
    let nearest = nearest(most_like(key, valid.iter().copied()));
    match ours {
        true => nearest.into(),
        false => Advice::new(nearest, "; settings of the workload go after `--`"),
    }
}

/// What to say where a map of ours was given one value; nothing where that is no usual mistake.
pub(super) fn for_map(key: &str) -> Advice {
    match key {
        "model" => Advice::new(
            "; model/llm=PRESET says which model the reports count with",
            ", and the workload's own model goes after `--`",
        ),
        "profiling" | "pipeline" => Advice::new(
            "; presets are chosen with profiling/nsys=PRESET and profiling/ncu=PRESET",
            ", and settings of the workload go after `--`",
        ),
        _ => Advice::default(),
    }
}

/// What says the same as a key of earlier runners where the run is over.
pub(super) fn earlier_of_reports(key: &str) -> Option<&'static str> {
    EARLIER_OF_REPORTS.iter().find(|(old, _)| *old == key).map(|(_, instead)| *instead)
}

/// What does the same as a preset of earlier runners, for the group override `group@package=option`.
pub(super) fn earlier_preset(
    group: &str,
    package: Option<&str>,
    option: &str,
) -> Option<&'static str> {
    let is_stage1 = package == Some("stage1_runner") || within(option, "stage1");
    (group == "runner" && is_stage1)
        .then_some("use workload=stage1, which switches static analysis off")
}

/// The range alone starts no capture: both keys are needed.
fn gate(origin: &Origin) -> String {
    let range = match origin {
        Origin::Override(word) => word.split_once('=').map(|(_, range)| range),
        _ => None,
    };
    let range = range.filter(|range| !range.is_empty()).unwrap_or("RANGE");
    // The preset's own range is `decode` in any domain.
    let preset = match range {
        "decode" | "decode@*" => " (or profiling/nsys=nsys.gated)",
        _ => "",
    };
    format!("; use pipeline.nsys.capture_range=nvtx pipeline.nsys.nvtx_capture={range}{preset}")
}

/// A preset's file without a head is mounted below its group: `run.mode` of a `runner` becomes
/// `runner.run.mode`.
fn missing_head(key: &str, origin: &Origin, valid: &[&str]) -> Option<String> {
    let Origin::File { name, .. } = origin else { return None };
    let (group, own) = key.split_once('.')?;
    let (own_root, _) = own.split_once('.')?;
    let is_key = |known: &&str| known.split_once('.').is_some_and(|(root, _)| root == own_root);
    (valid.contains(&group) && valid.iter().any(is_key))
        .then(|| format!("; put `# @package _global_` on the first line of {name}"))
}

/// `model/deepseek_ocr/arch`: a workload has groups for each of its models, ours is `model/llm`.
fn is_group_of_workload(key: &str) -> bool {
    let mut parts = key.split('/');
    parts.next() == Some("model")
        && parts.next().is_some_and(|model| model != "llm")
        && parts.next().is_some()
}

fn of_workload(key: &str, dotted: &str, origin: &Origin) -> Advice {
    let example = example(dotted, origin);
    let all = format!("; settings of the workload go after `--`: {example}");
    if within(dotted, "model") {
        let ours = "; use model/llm=PRESET or model.llm.config_json=FILE";
        return match key.contains('/') {
            true => Advice::new(ours, all),
            false => Advice::new(
                ours,
                format!("; the workload's own setting goes after `--`: {example}"),
            ),
        };
    }
    let last = dotted.rsplit('.').next().unwrap_or_default();
    let is_off = matches!(origin, Origin::Override(word)
        if word.rsplit('=').next().is_some_and(|value| value.eq_ignore_ascii_case("false")));
    let switched_off = SWITCHED_OFF.iter().any(|part| within(dotted, part));
    if switched_off && is_off && matches!(last, "enable" | "enabled") {
        let already = "; workload=hydra and workload=stage1 switch it off already";
        return Advice::new("", format!("{already}{all}"));
    }
    Advice::new("", all)
}

fn within(key: &str, part: &str) -> bool {
    key.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn example(key: &str, origin: &Origin) -> String {
    match origin {
        Origin::Override(word) => format!("stage2-launch -- COMMAND {word}"),
        _ => format!("stage2-launch -- COMMAND {key}=VALUE"),
    }
}

fn quoted(key: &str) -> String {
    format!("`{key}`")
}

fn nearest(near: Option<String>) -> String {
    super::similar::nearest(&near)
}

#[cfg(test)]
mod tests;
