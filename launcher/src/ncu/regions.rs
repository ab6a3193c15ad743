//! The ranges of a run and the settings -> the regions that range replay measures, a run for each.

use crate::ncu::config::Ncu;
use crate::ncu::expression::exact;
use crate::ncu::missed::seen_ranges;
use stage2_analysis::ncu::nvtx::{self, Label};
use stage2_analysis::ncu::regions::Patterns;
use stage2_model::{Finding, Severity};

/// A range of the collect pass, at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTime {
    /// The ranges around it and itself, the outermost first.
    pub stack: Vec<Label>,
    /// Kernels launched in it and in the ranges within it.
    pub kernels: u64,
    /// Their durations together, nanoseconds.
    pub total_ns: u64,
}

/// A region to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The ranges around it and itself, the outermost first.
    pub stack: Vec<Label>,
    /// What selects it for `--nvtx-include`.
    pub expression: String,
}

impl Chosen {
    /// Its path, unlike that of every other.
    pub fn path(&self) -> String {
        nvtx::path(&self.stack)
    }
}

/// The regions that the settings allow and that launched kernels, the longest first and no more than
/// [`most`](stage2_analysis::ncu::regions::Regions::most). Without patterns they are those of the stage, if
/// there is one.
pub fn choose(ranges: &[RangeTime], ncu: &Ncu, findings: &mut Vec<Finding>) -> Vec<Chosen> {
    let patterns = Patterns::new(&ncu.regions);
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
        findings.push(Finding::new(
            Severity::Note,
            format!("ncu: {empty} regions are not measured"),
            "no kernel was launched in them",
            "",
        ));
    }
    allowed.sort_by_key(|range| (std::cmp::Reverse(range.total_ns), nvtx::path(&range.stack)));
    let most = usize::try_from(ncu.regions.most.get()).unwrap_or(usize::MAX);
    if allowed.len() > most {
        findings.push(Finding::new(
            Severity::Warning,
            format!("ncu: {} of {} regions are measured", most, allowed.len()),
            "each takes a run of the workload; they are those with the most GPU time",
            "name fewer with pipeline.ncu.regions.include, or raise pipeline.ncu.regions.most",
        ));
        allowed.truncate(most);
    }
    let start_end = ncu.ncu_cli.nvtx.start_end;
    let chosen = allowed.into_iter().filter_map(|range| {
        let expression = expression(&range.stack, ranges, start_end, findings)?;
        Some(Chosen { stack: range.stack.clone(), expression })
    });
    chosen.collect()
}

/// What to tell of a pattern that matches none of the ranges.
fn without_range(glob: &str, ranges: &[RangeTime]) -> Option<Finding> {
    let only = Patterns::of(&[glob.to_owned()], &[]);
    if ranges.iter().any(|range| only.allow(&range.stack)) {
        return None;
    }
    let seen = seen_ranges(ranges).map_or_else(
        || "the collect pass recorded no range".to_owned(),
        |ranges| format!("the ranges of the run are {ranges}"),
    );
    let slash = if glob.ends_with('/') {
        "leave the slash at its end out: that is for ncu_cli.nvtx.include; "
    } else {
        ""
    };
    Some(Finding::new(
        Severity::Warning,
        format!(
            "ncu measures nothing for {glob}: this pattern of pipeline.ncu.regions.include matches no \
             range"
        ),
        seen,
        format!("{slash}give a glob of a range's name or path, e.g. decode or decode/*"),
    ))
}

/// Whether a label is the one that is meant: without a domain, in any.
fn is(meant: &Label, label: &Label) -> bool {
    meant.name == label.name && (meant.domain.is_none() || meant.domain == label.domain)
}

/// The expression for the innermost range of a stack. The range alone, where nothing else has its
/// name; else with the ranges around it, which ncu can only say of ranges of one domain.
fn expression(
    stack: &[Label],
    ranges: &[RangeTime],
    start_end: bool,
    findings: &mut Vec<Finding>,
) -> Option<String> {
    let last = stack.last()?;
    let places = ranges.iter().filter(|range| range.stack.last() == Some(last)).count();
    if places <= 1 || start_end {
        return exact(std::slice::from_ref(last), start_end);
    }
    if stack.iter().all(|label| label.domain == last.domain) {
        return exact(stack, false);
    }
    findings.push(Finding::new(
        Severity::Warning,
        format!("ncu: the region {} is not measured", nvtx::path(stack)),
        "ranges of its name are in several places, and ncu tells places apart within one domain only",
        "give the range a name of its own, or open it in the domain of the ranges around it",
    ));
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(name: &str) -> Label {
        Label::of_stage(name)
    }

    fn range(path: &str, kernels: u64, total_ns: u64) -> RangeTime {
        RangeTime { stack: path.split('/').map(label).collect(), kernels, total_ns }
    }

    fn ncu(include: &[&str], exclude: &[&str], stage: Option<&str>, most: u64) -> Ncu {
        let mut ncu = crate::ncu::testing::settings("");
        ncu.stage = stage.map(str::to_owned);
        ncu.regions.include = include.iter().map(|glob| (*glob).to_owned()).collect();
        ncu.regions.exclude = exclude.iter().map(|glob| (*glob).to_owned()).collect();
        ncu.regions.most = most.try_into().expect("not zero");
        ncu
    }

    fn chosen(ncu: &Ncu) -> (Vec<(String, String)>, Vec<Finding>) {
        let ranges = [
            range("prefill", 10, 500),
            range("prefill/attn", 4, 300),
            range("decode", 30, 900),
            range("decode/attn", 12, 400),
            range("decode/mlp", 18, 450),
            range("decode/idle", 0, 0),
            range("decode/odd@LLM/attn", 1, 1),
        ];
        let mut findings = Vec::new();
        let chosen = choose(&ranges, ncu, &mut findings);
        (chosen.into_iter().map(|c| (c.path(), c.expression)).collect(), findings)
    }

    #[test]
    fn without_patterns_the_regions_of_the_stage_are_measured_the_longest_first() {
        let (chosen, findings) = chosen(&ncu(&[], &[], Some("decode"), 16));
        let chosen: Vec<(&str, &str)> = chosen.iter().map(|(p, e)| (&**p, &**e)).collect();
        assert_eq!(
            chosen,
            [("decode", "decode/"), ("decode/mlp", "mlp/"), ("decode/attn", "decode/attn/"),],
            "attn is in several places, and needs the range around it"
        );
        assert!(findings.iter().any(|f| f.what.contains("odd@LLM/attn")), "{findings:?}");
        assert!(findings.iter().any(|f| f.what.starts_with("ncu: 1 regions")), "{findings:?}");
    }

    #[test]
    fn patterns_reach_over_stages_and_exclude_wins() {
        let (chosen, _) = chosen(&ncu(&["*attn", "decode"], &["decode/*"], Some("decode"), 16));
        let paths: Vec<&str> = chosen.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["decode", "prefill/attn"]);
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
        let paths: Vec<&str> = chosen.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["decode", "prefill"]);
        assert!(findings.iter().any(|f| f.what == "ncu: 2 of 6 regions are measured"));
    }
}
