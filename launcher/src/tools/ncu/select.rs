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

use wildmatch::WildMatch;

use super::config::Ncu;
use super::expression::{Around, exact};
use super::{RangeTime, ranges_seen};
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::{self, kernel_name};
use stage2_model::finding::Id;
use stage2_model::{Finding, Severity};
use stage2_read::ncu::nvtx::{self, Label};
use stage2_read::ncu::regions::Patterns;
use stage2_read::trace::operation::is_communication;

/// Length of the longest expression, in bytes. Linux takes 128 KiB in one argument; the rest is left
/// to what a user adds and to expression engines that grow with it.
const LONGEST_PATTERN_BYTES: usize = 64 * 1024;
/// Length of the longest name that is worth a place in the expression, in bytes.
const LONGEST_NAME_BYTES: usize = 16 * 1024;

/// What one kernel took in one stage, in one configuration.
#[derive(Clone, Debug)]
pub(crate) struct KernelTime {
    /// Mangled name, as CUPTI or nsys gave it.
    pub(crate) mangled: Vec<u8>,
    pub(crate) total_ns: u64,
    /// Range that it was launched in, or the whole path of them (`decode/layer.3`); empty: none.
    pub(crate) stage: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selection {
    /// Mangled names of kernels that compute, the longest-running first.
    pub(crate) kernels: Vec<String>,
    /// Mangled names of kernels that talk to other GPUs, the longest-running first, if asked for.
    pub(crate) communication: Vec<String>,
    /// False where no times are known: then nothing is filtered by name.
    pub(crate) times_known: bool,
    /// False where times are known and none of them is in the stage: then its range cannot gate.
    pub(crate) stage_occurred: bool,
    /// Name and domain of the stage, where its range was seen.
    pub(crate) stage: Option<Label>,
    pub(crate) findings: Vec<Finding>,
}

impl Selection {
    /// No times are known: no filter.
    pub(crate) fn unknown() -> Selection {
        Selection { stage_occurred: true, ..Selection::default() }
    }

    /// Kernels ran, and none of them may be asked for: without a filter ncu would profile them all.
    pub(crate) fn allows_none(&self) -> bool {
        self.times_known && self.kernels.is_empty()
    }
}

/// `regex:^(A|B)$` for these kernels; none: no filter.
pub(crate) fn pattern(kernels: &[String]) -> Option<String> {
    let names: Vec<String> = kernels.iter().map(|name| escape(name)).collect();
    (!names.is_empty()).then(|| format!("regex:^({})$", names.join("|")))
}

/// Chooses the kernels that take the most time in the stage of the settings.
pub(crate) fn select(rows: &[KernelTime], settings: &Ncu) -> Selection {
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
        let what = format!("ncu: {} kernels that talk to other GPUs are not profiled", talk.len());
        let why = "replayed alone, they would wait for their peers forever";
        let remedy = "pipeline.ncu.communication_kernels=true measures them in a single pass";
        selection.findings.push(Id::NcuLeftOut.graded(Severity::Note, what, why, remedy));
    }
    if selection.kernels.is_empty() && selection.communication.is_empty() {
        let what = "ncu: none of the kernels that ran may be profiled";
        let why = "all of them are left out by name or by kind";
        let remedy = "see pipeline.ncu.kernel_include, kernel_exclude and communication_kernels";
        selection.findings.push(Id::NcuNothingProfiled.found(what, why, remedy));
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
    let outer = rows.iter().filter_map(|row| row.stage.split('/').next());
    let known: BTreeSet<&str> = outer.filter(|range| !range.is_empty()).into_set();
    let known: Vec<&str> = known.into_iter().take(8).collect();
    selection.stage_occurred = false;
    selection.findings.push(Id::NcuChosen.graded(Severity::Warning, format!("ncu: no kernel ran in the stage {stage:?}: the top kernels of the whole run are profiled"),
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
    ranked.order_by_key(|(_, total_ns)| std::cmp::Reverse(*total_ns));
    ranked.into_iter().map(|(name, _)| name).collect()
}

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

/// The first of `ranked` that can be named, as many as the settings ask for and the expression may hold.
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
            findings.push(Id::NcuLeftOut.found(
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
        findings.push(Id::NcuLeftOut.found(format!("ncu: {} kernels are not profiled: {}", unnameable.len(), unnameable.join(", ")),
            format!("a name that is not printable text, or longer than {LONGEST_NAME_BYTES} bytes, cannot be selected"),
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// The ranges around it and itself, the outermost first.
    pub(crate) stack: Vec<Label>,
    /// What selects it for `--nvtx-include`.
    pub(crate) expression: String,
}

impl Region {
    /// Its path, unlike that of every other.
    pub(crate) fn path(&self) -> String {
        nvtx::path(&self.stack)
    }
}

/// The regions with kernels that the settings allow, the longest first, `regions.most` at most. Without patterns they
/// are those of the stage, if there is one.
pub(crate) fn choose_regions(
    ranges: &[RangeTime],
    ncu: &Ncu,
    findings: &mut Vec<Finding>,
) -> Vec<Region> {
    let patterns = Patterns::of(&ncu.regions.include, &ncu.regions.exclude);
    findings.extend(ncu.regions.include.iter().filter_map(|glob| without_range(glob, ranges)));
    let stage = ncu.stage.as_deref().filter(|_| ncu.regions.include.is_empty());
    let stage = stage.map(Label::of_stage);
    let in_stage = |range: &RangeTime| {
        let outermost = range.stack.first();
        stage.as_ref().is_none_or(|stage| outermost.is_some_and(|label| is(stage, label)))
    };
    let mut allowed: Vec<&RangeTime> =
        ranges.iter().filter(|range| patterns.allow(&range.stack) && in_stage(range)).collect();
    let empty = allowed.iter().filter(|range| range.kernels == 0).count();
    allowed.retain(|range| range.kernels > 0);
    if empty > 0 {
        let what = format!("ncu: {empty} regions are not measured");
        findings.push(Id::NcuLeftOut.graded(
            Severity::Note,
            what,
            "no kernel was launched in them",
            "",
        ));
    }
    allowed.order_by_key(|range| (std::cmp::Reverse(range.total_ns), nvtx::path(&range.stack)));
    let most = usize::try_from(ncu.regions.most.get()).unwrap_or(usize::MAX);
    if allowed.len() > most {
        findings.push(Id::NcuLeftOut.found(
            format!("ncu: {} of {} regions are measured", most, allowed.len()),
            "each takes a run of the workload; they are those with the most GPU time",
            "name fewer with pipeline.ncu.regions.include, or raise pipeline.ncu.regions.most",
        ));
        allowed.truncate(most);
    }
    let start_end = ncu.ncu_cli.nvtx.start_end;
    let chosen = allowed.into_iter().filter_map(|range| {
        let expression = expression(&range.stack, ranges, start_end, findings)?;
        Some(Region { stack: range.stack.clone(), expression })
    });
    chosen.collect()
}

/// What to tell of a pattern that matches none of the ranges.
fn without_range(glob: &str, ranges: &[RangeTime]) -> Option<Finding> {
    let only = Patterns::of(&[glob.to_owned()], &[]);
    if ranges.iter().any(|range| only.allow(&range.stack)) {
        return None;
    }
    let slash = if glob.ends_with('/') {
        "leave the slash at its end out: that is for ncu_cli.nvtx.include; "
    } else {
        ""
    };
    let what = format!(
        "ncu measures nothing for {glob}: this pattern of pipeline.ncu.regions.include matches no \
         range"
    );
    let why = ranges_seen(ranges);
    let remedy = format!("{slash}give a glob of a range's name or path, e.g. decode or decode/*");
    Some(Id::NcuLeftOut.found(what, why, remedy))
}

/// Whether a label is the one that is meant: without a domain, in any.
fn is(meant: &Label, label: &Label) -> bool {
    meant.name == label.name && (meant.domain.is_none() || meant.domain == label.domain)
}

/// The expression for the innermost range of a stack: the range alone where nothing else has its name,
/// else with the ranges around it. Nothing where ncu would measure other places along with it.
fn expression(
    stack: &[Label],
    ranges: &[RangeTime],
    start_end: bool,
    findings: &mut Vec<Finding>,
) -> Option<String> {
    let last = stack.last()?;
    let others = ranges.iter().filter(|range| range.stack.last() == Some(last));
    let others: Vec<&RangeTime> = others.filter(|range| range.stack != stack).collect();
    let wanted = as_ncu_sees(stack, start_end);
    let (why, remedy) = match others.iter().find(|o| as_ncu_sees(&o.stack, start_end) == wanted) {
        Some(other) => (
            format!(
                "ncu {}, and would measure {} along with it",
                match start_end {
                    true => "does not look at what is around a start/end range",
                    false => "looks only at the ranges of one domain",
                },
                nvtx::path(&other.stack)
            ),
            "give the range a unique name",
        ),
        None => {
            let expression = match others.is_empty() {
                true => exact(std::slice::from_ref(last), Around::Anything, start_end),
                false => exact(&wanted, Around::Nothing, start_end),
            };
            if expression.is_some() {
                return expression;
            }
            let why = "ncu has no form for a range without a name".to_owned();
            (why, "give every range of this path a name")
        }
    };
    let what = format!("ncu: the region {} is not measured", nvtx::path(stack));
    findings.push(Id::NcuLeftOut.found(what, why, remedy));
    None
}

/// What ncu compares of a stack: the ranges of the innermost one's domain; of start/end ranges that one alone.
fn as_ncu_sees(stack: &[Label], start_end: bool) -> Vec<Label> {
    let Some(last) = stack.last() else { return Vec::new() };
    if start_end {
        return vec![last.clone()];
    }
    stack.iter().filter(|label| label.domain == last.domain).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::tools::ncu::config::tests::settings;
    use stage2_model::Severity;

    fn row(name: &str, total_ns: u64, stage: &str) -> KernelTime {
        KernelTime { mangled: name.into(), total_ns, stage: stage.into() }
    }

    #[test]
    fn the_longest_of_the_stage_are_chosen_over_all_of_their_configurations() {
        let rows = [
            row("a", 40, "decode"),
            row("b", 30, "decode"),
            row("b", 30, "decode/layer.1"),
            row("c", 1000, "prefill"),
            row("d", 5, "decode"),
            row("e", 40, "decode"),
        ];
        let selection = select(&rows, &settings("{top_n: 3}"));
        assert_eq!(selection.kernels, ["b", "a", "e"], "60, then 40 and 40 by name");
        assert_eq!(pattern(&selection.kernels).as_deref(), Some("regex:^(b|a|e)$"));
        assert!(selection.stage_occurred && selection.findings.is_empty());
    }

    #[test]
    fn a_stage_that_never_occurred_is_told_and_the_whole_run_is_taken() {
        let rows = [row("a", 1, "prefill"), row("b", 2, ""), row("c", 3, "warmup/x")];
        let selection = select(&rows, &settings("{stage: dekode}"));
        assert!(!selection.stage_occurred);
        assert_eq!(selection.kernels, ["c", "b", "a"]);
        let text = selection.findings[0].to_string();
        assert!(text.contains("\"dekode\"") && text.contains("prefill, warmup"), "{text}");
    }

    #[test]
    fn kernels_that_wait_for_peers_are_left_out_unless_asked_for() {
        let rows = [row("ncclDevKernel_AllReduce", 100, "decode"), row("gemm", 10, "decode")];
        let selection = select(&rows, &settings(""));
        assert_eq!(selection.kernels, ["gemm"]);
        assert_eq!(pattern(&selection.communication), None);
        let told = &selection.findings[0].what;
        assert!(told.contains("1 kernels that talk"), "{told}");
        let asked = select(&rows, &settings("{communication_kernels: true}"));
        assert_eq!(asked.kernels, ["gemm"], "not in the run with many passes");
        let name = pattern(&asked.communication);
        assert_eq!(name.as_deref(), Some("regex:^(ncclDevKernel_AllReduce)$"));
        let alone = select(&rows[..1], &settings(""));
        assert!(alone.findings.iter().any(|f| f.what.contains("none of the kernels")));
        let unknown = select(&[], &settings(""));
        assert_eq!((pattern(&unknown.kernels), unknown.stage_occurred), (None, true));
    }

    #[test]
    fn globs_include_and_exclude_by_either_name_and_exclude_wins() {
        let rows = [
            row("_ZN2at6native4gemmEv", 4, "decode"),
            row("gemm_plain", 3, "decode"),
            row("softmax", 2, "decode"),
        ];
        let chosen = |changes: &str| select(&rows, &settings(changes)).kernels;
        let mangled = "_ZN2at6native4gemmEv";
        assert_eq!(chosen("{kernel_include: 'at::native::*'}"), [mangled]);
        assert_eq!(chosen("{kernel_include: '*gemm*', kernel_exclude: '*plain'}"), [mangled]);
        assert_eq!(chosen("{kernel_exclude: ['*gemm*']}"), ["softmax"]);
        // The next one moves up.
        assert_eq!(chosen("{kernel_exclude: '*gemm*', top_n: 1}"), ["softmax"]);
    }

    #[test]
    fn names_that_no_argument_can_hold_are_left_out_and_told() {
        let huge = "x".repeat(LONGEST_NAME_BYTES + 1);
        let mut broken = row("", 9, "decode");
        broken.mangled = b"bad\xff\xfe".into();
        let rows = [
            broken,
            row("line\nbreak", 8, "decode"),
            row("zero\0byte", 7, "decode"),
            row(&huge, 6, "decode"),
            row("", 5, "decode"),
            row("good", 1, "decode"),
        ];
        let selection = select(&rows, &settings(""));
        assert_eq!(selection.kernels, ["good"]);
        let text = selection.findings[0].to_string();
        assert!(text.contains("5 kernels") && text.contains(r"bad\xff\xfe"), "{text}");
    }

    #[test]
    fn an_expression_that_grows_too_long_loses_its_tail_and_never_half_a_name() {
        let long: Vec<String> = (0..40).map(|n| format!("k{n:02}{}", "y".repeat(4000))).collect();
        let rows: Vec<_> =
            long.iter().enumerate().map(|(n, name)| row(name, 1000 - n as u64, "decode")).collect();
        let selection = select(&rows, &settings("{top_n: 30}"));
        let whole = pattern(&selection.kernels).expect("pattern");
        assert!(whole.len() <= LONGEST_PATTERN_BYTES);
        assert_eq!(selection.kernels.len(), 16, "16 names of 4003 bytes and a bar fit");
        let inner =
            whole.strip_prefix("regex:^(").and_then(|p| p.strip_suffix(")$")).expect("form");
        assert!(inner.split('|').zip(&long).all(|(part, name)| part == name));
        assert!(selection.findings[0].what.contains("the last 14 "), "{:?}", selection.findings);
    }

    proptest! {
        /// Unescaping gives the name back, and no character with a meaning stands alone.
        #[test]
        fn an_escaped_name_means_itself(name in "\\PC{0,60}") {
            let escaped = escape(&name);
            let mut plain = String::new();
            let mut characters = escaped.chars();
            while let Some(c) = characters.next() {
                if c == '\\' {
                    plain.push(characters.next().expect("something is escaped"));
                } else {
                    let special = r"\^$.|?*+()[]{}".contains(c);
                    prop_assert!(!special);
                    plain.push(c);
                }
            }
            prop_assert_eq!(plain, name);
        }
    }

    fn label(name: &str) -> Label {
        Label::of_stage(name)
    }

    fn range(path: &str, kernels: u64, total_ns: u64) -> RangeTime {
        RangeTime { stack: path.split('/').map(label).collect(), kernels, total_ns }
    }

    fn ncu(include: &[&str], exclude: &[&str], stage: Option<&str>, most: u64) -> Ncu {
        let words = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        let mut ncu = settings("");
        ncu.stage = stage.map(str::to_owned);
        (ncu.regions.include, ncu.regions.exclude) = (words(include), words(exclude));
        ncu.regions.most = most.try_into().expect("not zero");
        ncu
    }

    /// Path and expression of each region that is chosen, and what is told.
    fn chosen_of(ranges: &[RangeTime], ncu: &Ncu) -> (Vec<(String, String)>, Vec<Finding>) {
        let mut findings = Vec::new();
        let chosen = choose_regions(ranges, ncu, &mut findings);
        (chosen.into_iter().map(|c| (c.path(), c.expression)).collect(), findings)
    }

    fn chosen(ncu: &Ncu) -> (Vec<(String, String)>, Vec<Finding>) {
        let ranges = [
            range("prefill", 10, 500),
            range("prefill/attn", 4, 300),
            range("decode", 30, 900),
            range("decode/attn", 12, 400),
            range("decode/mlp", 18, 450),
            range("decode/idle", 0, 0),
        ];
        chosen_of(&ranges, ncu)
    }

    fn paths(chosen: &[(String, String)]) -> Vec<&str> {
        chosen.iter().map(|(path, _)| path.as_str()).collect()
    }

    #[test]
    fn without_patterns_the_regions_of_the_stage_are_measured_the_longest_first() {
        let (chosen, findings) = chosen(&ncu(&[], &[], Some("decode"), 16));
        let chosen: Vec<(&str, &str)> = chosen.iter().map(|(p, e)| (&**p, &**e)).collect();
        assert_eq!(
            chosen,
            [("decode", "decode/"), ("decode/mlp", "mlp/"), ("decode/attn", "[decode/attn/"),],
            "attn is in several places, and needs the range around it"
        );
        assert!(findings.iter().any(|f| f.what.starts_with("ncu: 1 regions")), "{findings:?}");
    }

    #[test]
    fn patterns_reach_over_stages_and_exclude_wins() {
        let (chosen, _) = chosen(&ncu(&["*attn", "decode"], &["decode/*"], Some("decode"), 16));
        assert_eq!(paths(&chosen), ["decode", "prefill/attn"]);
    }

    #[test]
    fn a_pattern_without_a_range_is_named_with_the_ranges_there_are() {
        let (chosen, findings) = chosen(&ncu(&["prefill", "decod", "mlp/"], &[], None, 16));
        assert_eq!(chosen.len(), 1);
        let told: Vec<&Finding> =
            findings.iter().filter(|f| f.what.contains("matches no range")).collect();
        assert_eq!(told.len(), 2, "{findings:?}");
        assert!(told[0].what.contains("for decod:") && told[0].why.contains("decode/attn"));
        assert_eq!(told[0].severity, Severity::Warning);
        assert!(told[1].remedy.starts_with("leave the slash"), "{}", told[1]);
    }

    #[test]
    fn no_more_than_allowed_and_it_is_said() {
        let (chosen, findings) = chosen(&ncu(&[], &[], None, 2));
        assert_eq!(paths(&chosen), ["decode", "prefill"]);
        assert!(findings.iter().any(|f| f.what == "ncu: 2 of 5 regions are measured"));
    }

    /// The expression of each of `paths` beside the others, and what is told.
    fn expressions(paths: &[&str], start_end: bool) -> (Vec<(String, String)>, Vec<Finding>) {
        let ranges: Vec<RangeTime> =
            paths.iter().rev().zip(1..).map(|(path, time)| range(path, 1, time)).collect();
        let mut ncu = ncu(&[], &[], None, 16);
        ncu.ncu_cli.nvtx.start_end = start_end;
        chosen_of(&ranges, &ncu)
    }

    #[test]
    fn a_region_never_holds_the_counters_of_one_that_ends_like_it() {
        for (paths, expected) in [
            (["attn", "decode/attn"], ["[attn/", "[decode/attn/"]),
            (["decode/attn", "warmup/decode/attn"], ["[decode/attn/", "[warmup/decode/attn/"]),
            // What is around it in another domain ncu does not see.
            (["decode/attn", "odd@LLM/attn"], ["[decode/attn/", "[attn/"]),
            (["decode/attn", "decode/attn@LLM"], ["attn/", "LLM@attn/"]),
        ] {
            let (chosen, findings) = expressions(&paths, false);
            let chosen: Vec<&str> = chosen.iter().map(|(_, expression)| &**expression).collect();
            assert_eq!(chosen, expected, "{paths:?}");
            assert!(findings.is_empty(), "{findings:?}");
        }
    }

    #[test]
    fn what_ncu_cannot_tell_apart_or_name_is_left_out_and_said() {
        for (paths, start_end, why) in [
            (["decode/attn", "decode/odd@LLM/attn"], false, "would measure decode/odd@LLM/attn"),
            (["step", "run/step"], true, "what is around a start/end range"),
            (["run/", "run/odd/"], false, "no form for a range without a name"),
        ] {
            let (chosen, findings) = expressions(&paths, start_end);
            assert_eq!(chosen, [], "{paths:?}");
            assert!(findings[0].why.contains(why), "{findings:?}");
            let what = format!("ncu: the region {} is not measured", paths[0]);
            assert_eq!((&findings[0].what, findings.len()), (&what, 2));
        }
    }
}
