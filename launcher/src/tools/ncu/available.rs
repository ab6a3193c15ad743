//! What `ncu --list-sections` and `ncu --query-metrics` print -> which of the wished ones there are.

use std::collections::BTreeSet;

use regex::Regex;
use strsim::jaro_winkler;

use stage2_contract::text::listed;
use stage2_model::Finding;

/// Names that a finding lists.
const LISTED: usize = 6;

/// Names that the tool and the GPU know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Available {
    /// Identifiers of sections; nothing where the list could not be had: then none is refused.
    pub sections: Option<BTreeSet<String>>,
    /// Base names of metrics, without `.sum` and the like; nothing where they could not be had.
    pub metrics: Option<BTreeSet<String>>,
}

impl Available {
    /// Reads both lists. A list without a single name counts as not had.
    pub fn read(list_sections: Option<&str>, query_metrics: Option<&str>) -> Available {
        let had = |names: BTreeSet<String>| (!names.is_empty()).then_some(names);
        Available {
            sections: list_sections.map(sections).and_then(had),
            metrics: query_metrics.map(metrics).and_then(had),
        }
    }
}

/// The first column of a table whose header starts with `Identifier`.
fn sections(output: &str) -> BTreeSet<String> {
    let rule = |line: &str| line.starts_with("---");
    output
        .lines()
        .skip_while(|line| !line.starts_with("Identifier"))
        .skip(1)
        .skip_while(|line| rule(line))
        .take_while(|line| !line.starts_with("=="))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| {
            word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
        })
        .map(str::to_owned)
        .collect()
}

/// The first column of the lists, one for each chip. Every metric has two underscores after its
/// unit (`sm__`), which no other line starts with.
fn metrics(output: &str) -> BTreeSet<String> {
    output
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.contains("__"))
        .filter(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.')))
        .map(|word| base(word).to_owned())
        .collect()
}

/// `dram__bytes` of `dram__bytes.sum.per_second`. Names of some counters start with where they are
/// (`FE_B.TriageCompute.gr__cycles_active`): the dots before the unit belong to them.
fn base(metric: &str) -> &str {
    let unit = metric.find("__").unwrap_or(0);
    let end = metric[unit..].find('.').map_or(metric.len(), |dot| unit + dot);
    &metric[..end]
}

/// The sections that there are, in the order wished. A finding names what is left out. An expression
/// (`.*SpeedOfLight.*`) gets the prefix by which ncu knows it as one.
pub fn known_sections(
    wished: &[String],
    available: &Available,
    findings: &mut Vec<Finding>,
) -> Vec<String> {
    let is_expression = |name: &str| !name.contains(':') && name.contains(SIGNS);
    let prefixed = |name: &String| match is_expression(name) {
        true => format!("regex:{name}"),
        false => name.clone(),
    };
    let Some(known) = &available.sections else { return wished.iter().map(prefixed).collect() };
    let fits = |name: &str| {
        let expression = Regex::new(&format!("^(?:{name})$"));
        expression.is_ok_and(|expression| known.iter().any(|other| expression.is_match(other)))
    };
    let is_there = |name: &str| if is_expression(name) { fits(name) } else { known.contains(name) };
    let (kept, left) = split(wished, is_there);
    findings.extend(left_out(&left, known, "section", "sections.txt lists what there is"));
    kept.iter().map(prefixed).collect()
}

/// Signs of an expression; a name has none of them.
const SIGNS: [char; 10] = ['*', '+', '?', '^', '$', '|', '(', ')', '[', ']'];

/// The metrics that the GPU has, in the order wished. A finding names what is left out.
///
/// Names are compared up to the first dot behind the unit. `launch__`, `profiler__` and the like are
/// not counted on the GPU, so that the list does not hold them: they are passed on.
pub fn known_metrics(
    wished: &[String],
    available: &Available,
    findings: &mut Vec<Finding>,
) -> Vec<String> {
    let Some(known) = &available.metrics else { return wished.to_vec() };
    let is_elsewhere = |name: &str| NOT_LISTED.iter().any(|unit| name.starts_with(unit));
    let (kept, left) = split(wished, |name| is_elsewhere(name) || known.contains(base(name)));
    let (differ, left): (Vec<&String>, Vec<&String>) =
        left.into_iter().partition(|name| DIFFER.iter().any(|part| name.contains(part)));
    if !differ.is_empty() {
        findings.push(Finding::note(
            format!("ncu: left out {} metrics that are for other GPUs", differ.len()),
            format!(
                "each generation has its own names for the same work: {}",
                listed(&differ, LISTED)
            ),
            "",
        ));
    }
    let remedy = "`ncu --query-metrics` lists what the GPU has";
    findings.extend(left_out(&left, known, "metric", remedy));
    kept
}

/// Parts of names that differ between generations of GPUs: a preset for all of them names them all.
const DIFFER: &[&str] =
    &["sm__ops_path_tensor_", "add2_pred_on", "mul2_pred_on", "fma2_pred_on", "dram__bytes_"];

/// Units whose metrics are not in the list of the GPU's counters.
const NOT_LISTED: &[&str] = &[
    "launch__",
    "profiler__",
    "device__",
    "nvlink__",
    "numa__",
    "derived__",
    "memory_",
    "inst_",
    "thread_",
];

/// Names that are there, and those that are not. Prefixes (`group:`, `breakdown:`, `regex:`) name no
/// single thing, and are passed on.
fn split(wished: &[String], is_there: impl Fn(&str) -> bool) -> (Vec<String>, Vec<&String>) {
    let (kept, left): (Vec<&String>, Vec<&String>) =
        wished.iter().partition(|name| name.contains(':') || is_there(name));
    (kept.into_iter().cloned().collect(), left)
}

fn left_out(
    left: &[&String],
    known: &BTreeSet<String>,
    kind: &str,
    remedy: &str,
) -> Option<Finding> {
    let first = left.first()?;
    let near = nearest(base(first), known);
    let near = near.map(|near| format!("; the nearest name to {first} is {near}"));
    Some(Finding::warning(
        format!("ncu: left out {} {kind}s: {}", left.len(), listed(left, LISTED)),
        format!("this ncu does not have them for this GPU{}", near.unwrap_or_default()),
        remedy,
    ))
}

fn nearest<'a>(name: &str, known: &'a BTreeSet<String>) -> Option<&'a str> {
    const ALIKE: f64 = 0.85;
    known
        .iter()
        .map(|other| (jaro_winkler(name, other), other.as_str()))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::Severity;

    const SECTIONS: &str = "\
----------------- -------------- ------- --------
Identifier        Display Name   Enabled Filename
----------------- -------------- ------- --------
LaunchStats       Launch Stats   yes     ...a.section
Occupancy         Occupancy      yes     ...b.section
SpeedOfLight      GPU Speed      yes     ...c.section
";
    const METRICS: &str = "\
Device NVIDIA H200 (GH100)
---------------------------------- ------- ---- -----------
Metric Name                        Type    Unit Description
---------------------------------- ------- ---- -----------
FE_B.TriageCompute.gr__cycles      Counter cycle
dram__bytes                        Counter byte # of bytes accessed in DRAM, see
                                                dram pages
dram__bytes_read                   Counter byte
sm__ops_path_tensor_src_fp16       Counter
sm__throughput                     Throughput %
";

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn both_lists_are_read() {
        let read = Available::read(Some(SECTIONS), Some(METRICS));
        let sections = read.sections.expect("sections");
        assert_eq!(
            sections,
            names(&["LaunchStats", "Occupancy", "SpeedOfLight"]).into_iter().collect()
        );
        let metrics = read.metrics.expect("metrics");
        assert_eq!(metrics.len(), 5, "{metrics:?}");
        assert!(
            metrics.contains("FE_B.TriageCompute.gr__cycles") && metrics.contains("dram__bytes")
        );
    }

    #[test]
    fn what_is_not_there_is_left_out_and_told() {
        let available = Available::read(Some(SECTIONS), Some(METRICS));
        let mut findings = Vec::new();
        let wished = names(&["Ocupancy", "LaunchStats", "regex:Memory.*"]);
        assert_eq!(
            known_sections(&wished, &available, &mut findings),
            ["LaunchStats", "regex:Memory.*"]
        );
        let text = findings[0].to_string();
        assert!(text.contains("Ocupancy is Occupancy"), "{text}");
        let wished = names(&[".*SpeedOfLight.*", ".*Speed", "*"]);
        let kept = known_sections(&wished, &available, &mut findings);
        assert_eq!(kept, ["regex:.*SpeedOfLight.*"]);
        let text = findings.pop().expect("a finding").to_string();
        assert!(text.contains("left out 2 sections: .*Speed, *"), "{text}");
        let kept = known_sections(&wished[..1], &Available::default(), &mut findings);
        assert_eq!(kept, ["regex:.*SpeedOfLight.*"]);
        let wished = names(&["dram__bytes.sum", "sm__troughput.avg.pct", "launch__grid_size"]);
        let kept = known_metrics(&wished, &available, &mut findings);
        assert_eq!(kept, ["dram__bytes.sum", "launch__grid_size"]);
        assert!(findings[1].to_string().contains("sm__throughput"), "{}", findings[1]);
        assert_eq!(findings[1].severity, Severity::Warning);
    }

    #[test]
    fn names_of_other_generations_are_a_note() {
        let available = Available::read(None, Some(METRICS));
        let mut findings = Vec::new();
        let wished = names(&[
            "sm__ops_path_tensor_src_fp16.sum",
            "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
        ]);
        assert_eq!(known_metrics(&wished, &available, &mut findings).len(), 1);
        assert_eq!((findings.len(), findings[0].severity), (1, Severity::Note));
    }

    #[test]
    fn without_a_list_nothing_is_refused() {
        for text in ["", "==ERROR== no device", "Identifier\n---"] {
            let available = Available::read(Some(text), Some(text));
            assert_eq!(available, Available::default(), "{text:?}");
            let mut findings = Vec::new();
            assert_eq!(known_sections(&names(&["X"]), &available, &mut findings), ["X"]);
            assert_eq!(
                known_metrics(&names(&["x__y.sum"]), &available, &mut findings),
                ["x__y.sum"]
            );
            assert!(findings.is_empty());
        }
    }
}
