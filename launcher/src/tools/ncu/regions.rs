//! The ranges of a run and the settings -> the regions that range replay measures, a run for each.

use crate::tools::ncu::RangeTime;
use crate::tools::ncu::config::Ncu;
use crate::tools::ncu::expression::{Around, exact};
use crate::tools::ncu::missed::ranges_seen;
use stage2_model::Finding;
use stage2_read::ncu::nvtx::{self, Label};
use stage2_read::ncu::regions::Patterns;

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
/// [`most`](stage2_read::ncu::regions::Regions::most). Without patterns they are those of the stage, if
/// there is one.
pub fn choose(ranges: &[RangeTime], ncu: &Ncu, findings: &mut Vec<Finding>) -> Vec<Chosen> {
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
        findings.push(Finding::note(
            format!("ncu: {empty} regions are not measured"),
            "no kernel was launched in them",
            "",
        ));
    }
    allowed.sort_by_key(|range| (std::cmp::Reverse(range.total_ns), nvtx::path(&range.stack)));
    let most = usize::try_from(ncu.regions.most.get()).unwrap_or(usize::MAX);
    if allowed.len() > most {
        findings.push(Finding::warning(
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
    let slash = if glob.ends_with('/') {
        "leave the slash at its end out: that is for ncu_cli.nvtx.include; "
    } else {
        ""
    };
    Some(Finding::warning(
        format!(
            "ncu measures nothing for {glob}: this pattern of pipeline.ncu.regions.include matches no \
             range"
        ),
        ranges_seen(ranges),
        format!("{slash}give a glob of a range's name or path, e.g. decode or decode/*"),
    ))
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
            "give the range a name of its own",
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
    findings.push(Finding::warning(what, why, remedy));
    None
}

/// What ncu compares of a stack with an expression for its innermost range: the ranges of its domain,
/// and of start/end ranges, which do not nest, the range alone.
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
    use stage2_model::Severity;

    fn label(name: &str) -> Label {
        Label::of_stage(name)
    }

    fn range(path: &str, kernels: u64, total_ns: u64) -> RangeTime {
        RangeTime { stack: path.split('/').map(label).collect(), kernels, total_ns }
    }

    fn ncu(include: &[&str], exclude: &[&str], stage: Option<&str>, most: u64) -> Ncu {
        let mut ncu = crate::tools::ncu::config::tests::settings("");
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
            [("decode", "decode/"), ("decode/mlp", "mlp/"), ("decode/attn", "[decode/attn/"),],
            "attn is in several places, and needs the range around it"
        );
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
        assert!(findings.iter().any(|f| f.what == "ncu: 2 of 5 regions are measured"));
    }

    /// The expression of each of `paths` beside the others, and what is told.
    fn expressions(paths: &[&str], start_end: bool) -> (Vec<(String, String)>, Vec<Finding>) {
        let ranges: Vec<RangeTime> =
            paths.iter().rev().zip(1..).map(|(path, time)| range(path, 1, time)).collect();
        let mut ncu = ncu(&[], &[], None, 16);
        ncu.ncu_cli.nvtx.start_end = start_end;
        let mut findings = Vec::new();
        let chosen = choose(&ranges, &ncu, &mut findings);
        (chosen.into_iter().map(|c| (c.path(), c.expression)).collect(), findings)
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
