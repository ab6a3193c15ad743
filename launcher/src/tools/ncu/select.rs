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

use stage2_analysis::load::operation::is_communication;
use stage2_analysis::ncu::nvtx::Label;
use stage2_model::{Finding, Severity};
use stage2_text as text;
use stage2_text::kernel_name;
use wildmatch::WildMatch;

use super::config::Ncu;

/// Length of the longest expression, in bytes. Linux takes 128 KiB in one argument; the rest is left
/// to what a user adds and to expression engines that grow with it.
const LONGEST_PATTERN_BYTES: usize = 64 * 1024;
/// Length of the longest name that is worth a place in the expression, in bytes.
const LONGEST_NAME_BYTES: usize = 16 * 1024;

/// Grid and block of a launch.
pub type Shape = ([u32; 3], [u32; 3]);

/// What one kernel took in one stage, in one configuration.
#[derive(Clone, Copy, Debug)]
pub struct KernelTime<'a> {
    /// Mangled name, as CUPTI or nsys gave it.
    pub mangled: &'a [u8],
    /// Grid.
    pub grid: [u32; 3],
    /// Block.
    pub block: [u32; 3],
    /// Launches.
    pub calls: u64,
    /// Their durations together, nanoseconds.
    pub total_ns: u64,
    /// Range that it was launched in, or the whole path of them (`decode/layer.3`); empty: none.
    pub stage: &'a str,
}

/// A kernel that is to be profiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Mangled name.
    pub mangled: String,
    /// Launches in the stage.
    pub calls: u64,
    /// Time in the stage, nanoseconds.
    pub total_ns: u64,
    /// Its configurations in the stage.
    pub shapes: BTreeSet<Shape>,
}

/// What is to be profiled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Kernels that compute, the longest first.
    pub kernels: Vec<Chosen>,
    /// Kernels that talk to other GPUs, where they are asked for.
    pub communication: Vec<Chosen>,
    /// False where times are known and none of them is in the stage: then its range cannot gate.
    pub stage_occurred: bool,
    /// What had to be left out.
    pub findings: Vec<Finding>,
}

impl Selection {
    /// `regex:^(A|B)$` for the kernels that compute; nothing: no filter.
    pub fn pattern(&self) -> Option<String> {
        pattern(&self.kernels)
    }

    /// The same for the kernels that talk to other GPUs.
    pub fn communication_pattern(&self) -> Option<String> {
        pattern(&self.communication)
    }

    /// No times are known: no filter.
    pub fn unknown() -> Selection {
        Selection { stage_occurred: true, ..Selection::default() }
    }
}

fn pattern(kernels: &[Chosen]) -> Option<String> {
    let names: Vec<String> = kernels.iter().map(|kernel| escape(&kernel.mangled)).collect();
    (!names.is_empty()).then(|| format!("regex:^({})$", names.join("|")))
}

/// Chooses the kernels that take the most time in the stage of the settings.
pub fn select(rows: &[KernelTime<'_>], settings: &Ncu) -> Selection {
    if rows.is_empty() {
        return Selection::unknown();
    }
    let mut selection = Selection::unknown();
    let staged = in_stage(rows, settings, &mut selection);
    let ranked = rank(staged);
    let (talk, compute): (Vec<_>, Vec<_>) =
        ranked.into_iter().partition(|(name, _)| is_communication(name));
    let top = settings.top_n.map_or(usize::MAX, |n| usize::try_from(n.get()).unwrap_or(usize::MAX));
    let allowed = Allowed::new(settings);
    selection.kernels = choose(compute, top, &allowed, &mut selection.findings);
    if settings.communication_kernels {
        selection.communication = choose(talk, top, &allowed, &mut selection.findings);
    } else if !talk.is_empty() {
        selection.findings.push(Finding::new(
            Severity::Note,
            format!("ncu: {} kernels that talk to other GPUs are not profiled", talk.len()),
            "replayed alone they would wait for their peers for ever",
            "pipeline.ncu.communication_kernels=true measures them in a single pass",
        ));
    }
    if selection.kernels.is_empty() && selection.communication.is_empty() {
        selection.findings.push(Finding::new(
            Severity::Warning,
            "ncu: none of the kernels that ran may be profiled",
            "all of them are left out by name or by kind",
            "see pipeline.ncu.kernel_include, kernel_exclude and communication_kernels",
        ));
    }
    selection
}

/// The rows of the stage; all of them where it did not occur.
fn in_stage<'a>(
    rows: &[KernelTime<'a>],
    settings: &Ncu,
    selection: &mut Selection,
) -> Vec<KernelTime<'a>> {
    let Some(stage) = &settings.stage else { return rows.to_vec() };
    let label = Label::of_stage(stage);
    let staged: Vec<_> = rows.iter().filter(|row| label.opens(row.stage)).copied().collect();
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
    selection.findings.push(Finding::new(
        Severity::Warning,
        format!("ncu: no kernel ran in the stage {stage:?}: the top kernels of the whole run are profiled"),
        match known.as_slice() {
            [] => "the workload opened no NVTX range around its kernels".to_owned(),
            known => format!("the ranges that kernels ran in are {}", known.join(", ")),
        },
        "set pipeline.ncu.stage to one of the workload's ranges, or to null",
    ));
    rows.to_vec()
}

/// Times of each kernel over all of its configurations, the longest first.
fn rank<'a>(rows: Vec<KernelTime<'a>>) -> Vec<(&'a [u8], Chosen)> {
    let mut kernels: BTreeMap<&[u8], Chosen> = BTreeMap::new();
    for row in rows {
        let kernel = kernels.entry(row.mangled).or_insert_with(|| Chosen {
            mangled: text::visible(row.mangled),
            calls: 0,
            total_ns: 0,
            shapes: BTreeSet::new(),
        });
        kernel.calls = kernel.calls.saturating_add(row.calls);
        kernel.total_ns = kernel.total_ns.saturating_add(row.total_ns);
        kernel.shapes.insert((row.grid, row.block));
    }
    let mut ranked: Vec<_> = kernels.into_iter().collect();
    // Equal times are ordered by name: a second run chooses the same kernels.
    ranked.sort_by(|(a_name, a), (b_name, b)| (b.total_ns, a_name).cmp(&(a.total_ns, b_name)));
    ranked
}

/// The globs of the settings.
struct Allowed {
    include: Vec<WildMatch>,
    exclude: Vec<WildMatch>,
}

impl Allowed {
    fn new(settings: &Ncu) -> Allowed {
        let globs = |list: &[String]| list.iter().map(|glob| WildMatch::new(glob)).collect();
        Allowed {
            include: globs(&settings.kernel_include),
            exclude: globs(&settings.kernel_exclude),
        }
    }

    fn allows(&self, name: &[u8]) -> bool {
        if self.include.is_empty() && self.exclude.is_empty() {
            return true;
        }
        let name = kernel_name(name);
        let any = |globs: &[WildMatch]| {
            globs.iter().any(|glob| glob.matches(&name.mangled) || glob.matches(&name.demangled))
        };
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// The first `top` of `ranked` that can be named, as far as the expression may grow.
fn choose(
    ranked: Vec<(&[u8], Chosen)>,
    top: usize,
    allowed: &Allowed,
    findings: &mut Vec<Finding>,
) -> Vec<Chosen> {
    let mut chosen = Vec::new();
    let mut bytes = "regex:^()$".len();
    let mut unnameable = Vec::new();
    let wanted = ranked.into_iter().filter(|(name, _)| allowed.allows(name)).take(top);
    let mut wanted = wanted.peekable();
    while let Some((name, kernel)) = wanted.next() {
        if !can_be_named(name) {
            unnameable.push(text::shorten(&kernel.mangled, 80));
            continue;
        }
        let length = escape(&kernel.mangled).len() + 1;
        if bytes + length > LONGEST_PATTERN_BYTES {
            let rest = 1 + wanted.count();
            findings.push(Finding::new(
                Severity::Warning,
                format!("ncu: the last {rest} of the kernels that were chosen are not profiled"),
                format!(
                    "their names do not fit in one expression of {LONGEST_PATTERN_BYTES} bytes"
                ),
                "lower pipeline.ncu.top_n, or choose kernels with kernel_include",
            ));
            break;
        }
        bytes += length;
        chosen.push(kernel);
    }
    if !unnameable.is_empty() {
        findings.push(Finding::new(
            Severity::Warning,
            format!("ncu: {} kernels are not profiled: {}", unnameable.len(), unnameable.join(", ")),
            format!("a name that is no printable text, or longer than {LONGEST_NAME_BYTES} bytes, cannot be asked for"),
            "",
        ));
    }
    chosen
}

/// Whether the name can stand in an argument, and means itself there.
fn can_be_named(name: &[u8]) -> bool {
    let printable = |name: &str| !name.chars().any(char::is_control);
    (1..=LONGEST_NAME_BYTES).contains(&name.len()) && std::str::from_utf8(name).is_ok_and(printable)
}

/// The expression that matches exactly `name`. Only characters that have a meaning are escaped: some
/// engines refuse a backslash before any other.
pub fn escape(name: &str) -> String {
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
