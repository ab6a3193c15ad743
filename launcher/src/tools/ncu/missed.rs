//! Expressions that let no launch through, and the ranges that the collector saw -> why.
//!
//! What `expression` cannot read, nothing is said of.

use std::collections::BTreeSet;

use regex::Regex;

use super::RangeTime;
use super::command::Filter;
use super::expression::{self, Around, Expression, Frame};
use crate::tools::saw;
use stage2_contract::text::listed;
use stage2_model::Finding;
use stage2_read::ncu::nvtx::{self, DEFAULT_DOMAIN, Label};

/// Expressions that are listed and explained.
const LISTED: usize = 8;
/// Longer expressions are not read.
const LONGEST: usize = 4096;

/// What to tell after a run that profiled nothing with this filter; nothing where it asks for no
/// ranges.
pub fn finding(filter: &Filter, start_end: bool, seen: &[RangeTime]) -> Option<Finding> {
    let asked = &filter.nvtx_include;
    if asked.is_empty() {
        return None;
    }
    let explained = asked.iter().take(LISTED);
    let causes: BTreeSet<String> =
        explained.map(|text| cause(text, filter, start_end, seen)).collect();
    let causes: Vec<String> = causes.into_iter().collect();
    let kernels = match filter.kernel_name {
        Some(_) => {
            "; the kernels that are profiled depend on pipeline.ncu.kernel_include, kernel_exclude, \
             top_n and ncu_cli.kernel_name"
        }
        None => "",
    };
    Some(Finding::warning(
        format!("ncu profiled nothing with these filters: {}", listed(asked, LISTED)),
        format!("{}; {}", causes.join("; "), ranges_seen(seen)),
        format!(
            "correct pipeline.ncu.stage (NAME or NAME@DOMAIN) or pipeline.ncu.ncu_cli.nvtx.include \
             (NAME/, OUTER/*/INNER/, DOMAIN@NAME/, a glob, or regex:EXPRESSION){kernels}"
        ),
    ))
}

/// The ranges of a run, for people.
pub fn ranges_seen(seen: &[RangeTime]) -> String {
    let paths: BTreeSet<String> = seen.iter().map(|range| nvtx::path(&range.stack)).collect();
    saw(&paths.into_iter().collect::<Vec<_>>())
}

/// Why an expression let nothing through.
fn cause(text: &str, filter: &Filter, start_end: bool, seen: &[RangeTime]) -> String {
    let expression = Some(text).filter(|text| text.len() <= LONGEST);
    let Some(expression) = expression.and_then(|text| expression::read(text, start_end)) else {
        return format!("{text} cannot be compared with the ranges of the run");
    };
    let hit = |any_domain: bool| -> Vec<&RangeTime> {
        let is_hit = |stack: &[Label]| matches(&expression, start_end, stack, any_domain);
        seen.iter().filter(|range| is_hit(&range.stack)).collect()
    };
    let here = hit(false);
    if here.iter().any(|range| range.kernels > 0) {
        return format!("kernels ran in {text} in the collect pass; either {}", filtered(filter));
    }
    if !here.is_empty() {
        return format!("no kernel was launched in {text}");
    }
    let elsewhere = hit(true);
    let form = |range: &&RangeTime| {
        expression::exact(range.stack.get(range.stack.len() - 1..)?, Around::Anything, start_end)
    };
    match elsewhere.iter().find_map(form) {
        Some(form) => format!("{text}: the range is in another domain: write {form}"),
        None => format!("{text} matches no range of the run"),
    }
}

/// What may keep out kernels that ran in a range that was asked for.
fn filtered(filter: &Filter) -> String {
    let mut causes = Vec::new();
    if filter.kernel_name.is_some() {
        causes.push("none of them passed the kernel name filter".to_owned());
    }
    if !filter.nvtx_exclude.is_empty() {
        causes.push(format!("all are in the excluded {}", listed(&filter.nvtx_exclude, LISTED)));
    }
    causes.push("other threads than the one that opened the range launched them".to_owned());
    causes.push(
        "the range is of the other kind: push/pop ranges are written with a slash at the end, \
         start/end ranges without"
            .to_owned(),
    );
    causes.join(", or ")
}

/// Whether a launch in the innermost range of a stack is within what an expression says. Start/end
/// ranges are open at the same time in any order.
fn matches(
    expression: &Expression<Regex>,
    start_end: bool,
    stack: &[Label],
    any_domain: bool,
) -> bool {
    let Expression { domain, bottom, frames, top } = expression;
    let in_domain = |label: &&Label| match (domain, &label.domain) {
        _ if any_domain => true,
        (None, domain) => domain.is_none(),
        (Some(wanted), domain) => wanted.is_match(domain.as_deref().unwrap_or(DEFAULT_DOMAIN)),
    };
    let labels: Vec<&Label> = stack.iter().filter(in_domain).collect();
    if start_end {
        return frames.iter().all(|frame| match frame {
            Frame::Name(name) => labels.iter().any(|label| name.is_match(&label.name)),
            Frame::Between(_) => true,
        });
    }
    // How far into the stack the frames so far may reach.
    let mut reached: BTreeSet<usize> =
        if *bottom { [0].into() } else { (0..=labels.len()).collect() };
    for frame in frames {
        reached = match frame {
            Frame::Between('*') => {
                let first = reached.first().copied().unwrap_or(labels.len() + 1);
                (first..=labels.len()).collect()
            }
            Frame::Between(_) => reached.iter().map(|at| at + 1).collect(),
            Frame::Name(name) => {
                let hit = |at: &&usize| labels.get(**at).is_some_and(|l| name.is_match(&l.name));
                reached.iter().filter(hit).map(|at| at + 1).collect()
            }
        };
        reached.retain(|at| *at <= labels.len());
    }
    if *top { reached.contains(&labels.len()) } else { !reached.is_empty() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Vec<RangeTime> {
        let range = |path: &str, kernels| RangeTime {
            stack: path.split('/').map(Label::of_stage).collect(),
            kernels,
            total_ns: kernels,
        };
        vec![
            range("prefill", 5),
            range("prefill/attn", 5),
            range("decode@LLM", 9),
            range("warm[0]", 0),
            range("layer3", 4),
            RangeTime {
                stack: vec![Label { name: "a/b".into(), domain: None }],
                kernels: 2,
                total_ns: 2,
            },
            range("outer", 3),
            range("outer/mid", 3),
            range("outer/mid/inner", 3),
        ]
    }

    fn of(include: &[String]) -> Filter {
        Filter { nvtx_include: include.to_vec(), ..Filter::default() }
    }

    #[test]
    fn the_cause_is_named_for_each_expression() {
        for (expression, cause) in [
            ("nothing/", "nothing/ matches no range of the run"),
            ("regex:^dec$/", "regex:^dec$/ matches no range"),
            ("decode/", "decode/: the range is in another domain: write LLM@decode/"),
            ("LLM@prefill/attn/", "in another domain: write attn/"),
            (r"LLM@a\/b/", r"in another domain: write a\/b/"),
            ("regex:layer[0-9]/", "kernels ran in regex:layer[0-9]/ in the collect pass"),
            ("LLM@decode/", "other threads than the one that opened the range"),
            ("regex:^LLM$@^dec.*$/", "other threads than the one that opened the range"),
            (r"warm\[0\]/", "no kernel was launched in"),
            ("attn/", "other threads"),
            ("prefill/attn/", "other threads"),
            ("[attn/", "matches no range"),
            ("outer/*/inner/", "other threads"),
            ("outer/+/inner/", "other threads"),
            ("outer/inner/", "matches no range"),
            ("prefill/+/attn/", "matches no range"),
            ("[outer/*/inner]", "other threads"),
            ("regex:^(/", "cannot be compared"),
            ("a@b@c/", "cannot be compared"),
        ] {
            let found = finding(&of(&[expression.to_owned()]), false, &seen()).expect("a finding");
            assert!(found.why.contains(cause), "{expression}: {found}");
            assert!(found.what.contains(expression), "{found}");
        }
    }

    #[test]
    fn what_was_asked_for_and_what_was_seen_are_listed() {
        let asked: Vec<String> = (0..9).map(|n| format!("stage{n}/")).collect();
        let found = finding(&of(&asked), false, &seen()).expect("a finding");
        assert!(found.what.contains("stage0/") && found.what.contains("and 1 more"), "{found}");
        assert!(
            found.why.contains("the collector saw a%2Fb, decode@LLM, layer3, outer, outer/mid"),
            "{found}"
        );
        let found = finding(&of(&asked), false, &[]).expect("a finding");
        assert!(found.why.ends_with("the collector saw no range"), "{found}");
        assert_eq!(finding(&of(&[]), false, &seen()), None);
    }

    #[test]
    fn every_filter_that_may_have_kept_the_kernels_out_is_named() {
        let mut filter = of(&["prefill/".to_owned()]);
        let why = |filter: &Filter| finding(filter, false, &seen()).expect("a finding").why;
        let plain = "kernels ran in prefill/ in the collect pass; either other threads";
        assert!(why(&filter).starts_with(plain), "{}", why(&filter));
        filter.kernel_name = Some("regex:^(no_such)$".to_owned());
        filter.nvtx_exclude = vec!["attn/".to_owned()];
        let both = "either none of them passed the kernel name filter, or all are in the excluded \
                    attn/, or other threads";
        assert!(why(&filter).contains(both), "{}", why(&filter));
        let remedy = finding(&filter, false, &seen()).expect("a finding").remedy;
        assert!(remedy.contains("ncu_cli.kernel_name"), "{remedy}");
    }

    #[test]
    fn start_end_ranges_are_read_as_such() {
        let cause =
            |text: &str| finding(&of(&[text.to_owned()]), true, &seen()).expect("a finding").why;
        assert!(cause("attn,prefill").starts_with("kernels ran in attn,prefill"));
        assert!(cause("attn,outer").starts_with("attn,outer matches no range"));
        assert!(cause("decode").contains("write LLM@decode;"), "{}", cause("decode"));
    }

    #[test]
    fn hostile_expressions_end() {
        let asked = [format!("a/{}b/", "*/".repeat(2000)), "\\".to_owned(), "é[".repeat(2000)];
        let deep = RangeTime { stack: vec![Label::of_stage("a"); 500], kernels: 1, total_ns: 1 };
        assert!(finding(&of(&asked), false, &[deep]).is_some());
    }
}
