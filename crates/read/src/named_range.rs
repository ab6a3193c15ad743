//! What a user calls a range -> the range of that name that was seen.

use std::cmp::Reverse;

use stage2_model::{PathKind, PathRow, Role};

use crate::roles::{Meant, RangePattern, readings};
use crate::trace::libraries::RangeNames;

/// The range that `wanted` means, of those in `paths`: one of that name (`NAME`, `NAME@DOMAIN`, or the domain
/// first), else one that fits it as a pattern with `*` and `?`, else, of `prefill` and `decode`, one of that
/// role. Of several it is the outermost one with the most kernel time.
pub fn find<'r>(wanted: &str, paths: &'r [PathRow], names: &RangeNames) -> Option<&'r PathRow> {
    let pattern = RangePattern::from(wanted.to_owned());
    let swapped = wanted.split_once('@').map(|(first, rest)| format!("{rest}@{first}"));
    let swapped = swapped.map(RangePattern::from);
    let role = match wanted.strip_suffix("@*").unwrap_or(wanted) {
        "prefill" => Some(Role::Prefill),
        "decode" => Some(Role::Decode),
        _ => None,
    };
    let ways: [&dyn Fn(&PathRow) -> bool; 4] = [
        &|row| label(row) == wanted,
        &|row| fits(&pattern, row),
        &|row| swapped.as_ref().is_some_and(|pattern| fits(pattern, row)),
        &|row| {
            let meant = || names.roles.of(&row.name, row.domain.as_deref());
            role.is_some_and(|role| row.parent.is_none() && meant() == Meant::Stage(role))
        },
    ];
    // A pattern of names that were joined is no name that a tool would find.
    let is_range = |row: &&PathRow| row.kind == PathKind::Range && row.joined_names.is_none();
    let rows = || paths.iter().filter(is_range);
    let rank = |row: &&PathRow| (Reverse(row.depth), row.kernel_sum_inclusive_ns);
    ways.iter().find_map(|is| rows().filter(|row| is(row)).max_by_key(rank))
}

fn label(row: &PathRow) -> String {
    match &row.domain {
        Some(domain) => format!("{}@{domain}", row.name),
        None => row.name.clone(),
    }
}

fn fits(pattern: &RangePattern, row: &PathRow) -> bool {
    readings(&row.name, row.domain.as_deref()).iter().any(|read| pattern.matches(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, domain: Option<&str>, ns: u64) -> PathRow {
        PathRow {
            name: name.into(),
            domain: domain.map(str::to_owned),
            kind: PathKind::Range,
            kernel_sum_inclusive_ns: Some(ns),
            ..PathRow::default()
        }
    }

    #[test]
    fn a_range_is_found_by_each_of_its_spellings() {
        let paths = [
            row("prefill", Some("LLM"), 900),
            row("decode_all", Some("LLM"), 500),
            row("decode_tail", None, 20),
            PathRow { depth: 1, parent: Some(1), ..row("decode_step", Some("LLM"), 600) },
            PathRow { joined_names: Some(3), ..row("decode *", None, 9_999) },
        ];
        let found = |wanted: &str| {
            let row = find(wanted, &paths, &RangeNames::default());
            row.map(|row| row.name.as_str())
        };
        for wanted in
            ["decode_all", "decode_all@LLM", "LLM@decode_all", "decode*", "decode@*", "decode*@*"]
        {
            assert_eq!(found(wanted), Some("decode_all"), "{wanted}");
        }
        assert_eq!(found("decode"), Some("decode_all"), "by its role");
        assert_eq!(found("prefill"), Some("prefill"));
        assert_eq!(found("decode_step@LLM"), Some("decode_step"));
        assert_eq!(found("decode_t*"), Some("decode_tail"));
        for wanted in ["step", "decode_all@other", "", "@", "*@none", "LLM"] {
            assert_eq!(found(wanted), None, "{wanted}");
        }
    }

    #[test]
    fn a_name_that_holds_the_domain_is_found_as_well() {
        let paths = [row("LLM@decode_all", None, 5)];
        for wanted in ["LLM@decode_all", "LLM@decode*", "decode", "decode@*"] {
            let found = find(wanted, &paths, &RangeNames::default());
            assert!(found.is_some(), "{wanted}");
        }
    }
}
