//! Kernels with their times, from the collect pass or from nsys -> the filter for the kernels that
//! take the most.
//!
//! The filter is one regular expression on mangled names, anchored and escaped. There is none where
//! no times are known: then ncu profiles whatever it meets.
//!
//! Kernels that talk to other GPUs are chosen apart: replayed pass by pass, such a kernel waits for
//! kernels of its peers that do not run again, and the run hangs. It may be measured in a single pass
//! only.

use std::collections::{BTreeMap, BTreeSet};

use stage2_contract::text;
use stage2_contract::text::kernel_name;
use stage2_model::Finding;
use stage2_read::ncu::nvtx::Label;
use stage2_read::trace::operation::is_communication;
use wildmatch::WildMatch;

use super::config::Ncu;

/// Length of the longest expression, in bytes. Linux takes 128 KiB in one argument; the rest is left
/// to what a user adds and to expression engines that grow with it.
const LONGEST_PATTERN_BYTES: usize = 64 * 1024;
/// Length of the longest name that is worth a place in the expression, in bytes.
const LONGEST_NAME_BYTES: usize = 16 * 1024;

/// What one kernel took in one stage, in one configuration.
#[derive(Clone, Debug)]
pub struct KernelTime {
    /// Mangled name, as CUPTI or nsys gave it.
    pub mangled: Vec<u8>,
    /// Durations of its launches together, nanoseconds.
    pub total_ns: u64,
    /// Range that it was launched in, or the whole path of them (`decode/layer.3`); empty: none.
    pub stage: String,
}

/// What is to be profiled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Mangled names of kernels that compute, the longest-running first.
    pub kernels: Vec<String>,
    /// Mangled names of kernels that talk to other GPUs, the longest-running first, where they are
    /// asked for.
    pub communication: Vec<String>,
    /// False where no times are known: then nothing is filtered by name.
    pub times_known: bool,
    /// False where times are known and none of them is in the stage: then its range cannot gate.
    pub stage_occurred: bool,
    /// Name and domain of the stage, where its range was seen.
    pub stage: Option<Label>,
    /// What had to be left out.
    pub findings: Vec<Finding>,
}

impl Selection {
    /// No times are known: no filter.
    pub fn unknown() -> Selection {
        Selection { stage_occurred: true, ..Selection::default() }
    }

    /// Kernels ran, and none of them may be asked for: without a filter ncu would profile them all.
    pub fn allows_none(&self) -> bool {
        self.times_known && self.kernels.is_empty()
    }
}

/// `regex:^(A|B)$` for these kernels; none: no filter.
pub fn pattern(kernels: &[String]) -> Option<String> {
    let names: Vec<String> = kernels.iter().map(|name| escape(name)).collect();
    (!names.is_empty()).then(|| format!("regex:^({})$", names.join("|")))
}

/// Chooses the kernels that take the most time in the stage of the settings.
pub fn select(rows: &[KernelTime], settings: &Ncu) -> Selection {
    if rows.is_empty() {
        return Selection::unknown();
    }
    let mut selection = Selection { times_known: true, ..Selection::unknown() };
    let staged = in_stage(rows, settings, &mut selection);
    let (talk, compute): (Vec<_>, Vec<_>) =
        rank(&staged).into_iter().partition(|name| is_communication(name));
    selection.kernels = choose(compute, settings, &mut selection.findings);
    if settings.communication_kernels {
        selection.communication = choose(talk, settings, &mut selection.findings);
    } else if !talk.is_empty() {
        selection.findings.push(Finding::note(
            format!("ncu: {} kernels that talk to other GPUs are not profiled", talk.len()),
            "replayed alone they would wait for their peers for ever",
            "pipeline.ncu.communication_kernels=true measures them in a single pass",
        ));
    }
    if selection.kernels.is_empty() && selection.communication.is_empty() {
        selection.findings.push(Finding::warning(
            "ncu: none of the kernels that ran may be profiled",
            "all of them are left out by name or by kind",
            "see pipeline.ncu.kernel_include, kernel_exclude and communication_kernels",
        ));
    }
    selection
}

/// The rows of the stage; all of them where it did not occur.
fn in_stage<'a>(
    rows: &'a [KernelTime],
    settings: &Ncu,
    selection: &mut Selection,
) -> Vec<&'a KernelTime> {
    let all = rows.iter().collect();
    let Some(stage) = &settings.stage else { return all };
    let label = Label::of_stage(stage);
    let staged: Vec<_> = rows.iter().filter(|row| label.opens(&row.stage)).collect();
    if !staged.is_empty() {
        return staged;
    }
    let known: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row.stage.split('/').next())
        .filter(|s| !s.is_empty())
        .collect();
    let known: Vec<&str> = known.into_iter().take(8).collect();
    selection.stage_occurred = false;
    selection.findings.push(Finding::warning(format!("ncu: no kernel ran in the stage {stage:?}: the top kernels of the whole run are profiled"),
        match known.as_slice() {
            [] => "the workload opened no NVTX range around its kernels".to_owned(),
            known => format!("the ranges that kernels ran in are {}", known.join(", ")),
        },
        "set pipeline.ncu.stage to one of the workload's ranges, or to null",
    ));
    all
}

/// The kernels by their time over all configurations, the longest-running first.
fn rank<'a>(rows: &[&'a KernelTime]) -> Vec<&'a [u8]> {
    let mut times: BTreeMap<&[u8], u64> = BTreeMap::new();
    for row in rows {
        let total = times.entry(&row.mangled).or_default();
        *total = total.saturating_add(row.total_ns);
    }
    let mut ranked: Vec<_> = times.into_iter().collect();
    // The sort is stable, and equal times stay ordered by name: a second run chooses the same kernels.
    ranked.sort_by_key(|(_, total_ns)| std::cmp::Reverse(*total_ns));
    ranked.into_iter().map(|(name, _)| name).collect()
}

/// Whether the globs of the settings allow a kernel, by either of its names.
fn is_allowed(name: &[u8], settings: &Ncu) -> bool {
    let Ncu { kernel_include: include, kernel_exclude: exclude, .. } = settings;
    if include.is_empty() && exclude.is_empty() {
        return true;
    }
    let name = kernel_name(name);
    let matches = |glob: WildMatch| glob.matches(&name.mangled) || glob.matches(&name.demangled);
    let any = |globs: &[String]| globs.iter().any(|glob| matches(WildMatch::new(glob)));
    (include.is_empty() || any(include)) && !any(exclude)
}

/// The first of `ranked` that can be named, as many as the settings ask for, as far as the expression
/// may grow.
fn choose(ranked: Vec<&[u8]>, settings: &Ncu, findings: &mut Vec<Finding>) -> Vec<String> {
    let top = settings.top_n.map_or(usize::MAX, |n| usize::try_from(n.get()).unwrap_or(usize::MAX));
    let mut chosen = Vec::new();
    let mut bytes = "regex:^()$".len();
    let mut unnameable = Vec::new();
    let wanted = ranked.into_iter().filter(|name| is_allowed(name, settings)).take(top);
    let mut wanted = wanted.peekable();
    while let Some(name) = wanted.next() {
        let Some(nameable) = nameable(name) else {
            unnameable.push(text::shorten(&text::visible(name), 80));
            continue;
        };
        bytes += escape(nameable).len() + 1;
        if bytes > LONGEST_PATTERN_BYTES {
            let rest = 1 + wanted.count();
            findings.push(Finding::warning(
                format!("ncu: the last {rest} of the kernels that were chosen are not profiled"),
                format!(
                    "their names do not fit in one expression of {LONGEST_PATTERN_BYTES} bytes"
                ),
                "lower pipeline.ncu.top_n, or choose kernels with kernel_include",
            ));
            break;
        }
        chosen.push(nameable.to_owned());
    }
    if !unnameable.is_empty() {
        findings.push(Finding::warning(format!("ncu: {} kernels are not profiled: {}", unnameable.len(), unnameable.join(", ")),
            format!("a name that is no printable text, or longer than {LONGEST_NAME_BYTES} bytes, cannot be asked for"),
            "",
        ));
    }
    chosen
}

/// The name as text, where it can stand in an argument and means itself there.
fn nameable(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    let short = (1..=LONGEST_NAME_BYTES).contains(&name.len());
    (short && !name.chars().any(char::is_control)).then_some(name)
}

/// The expression that matches exactly `name`. Only characters that have a meaning are escaped: some
/// engines refuse a backslash before any other.
fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if r"\^$.|?*+()[]{}".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests;
