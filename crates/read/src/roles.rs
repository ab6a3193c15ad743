//! Keys of `roles` in the configuration, and the name of an outermost range -> what the range is to the model.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use stage2_model::{Apart, PathKind, PathRow, Role};
use wildmatch::WildMatch;

use crate::trace::inferred::{DECODE, PREFILL, START_UP};
use crate::trace::libraries::RangeNames;

/// The part of a vision encoder that a stage runs; its text is the name of the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum VisionPart {
    /// All of it.
    #[strum(serialize = "vision")]
    Whole,
    /// The encoder of fine detail.
    Sam,
    /// The encoder of meaning.
    Clip,
    /// What maps its output to the width of the language model.
    Projector,
}

impl VisionPart {
    /// The part that a range of this name, in front of its domain, stands for.
    pub fn of_range(name: &str) -> Option<VisionPart> {
        name.split('@').next()?.parse().ok()
    }
}

/// Patterns of the names of ranges, by what the ranges are: the keys of `roles` in `conf/config.yaml`. Of
/// several that match, the last of these fields counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RoleSettings {
    /// They build the KV cache.
    pub prefill: Vec<RangePattern>,
    /// They make tokens.
    pub decode: Vec<RangePattern>,
    /// They repeat right within a stage and are its steps, unlike layers and blocks; no outermost ranges.
    pub step: Vec<RangePattern>,
    /// They move data between GPUs, and are not a stage of the model.
    pub communication: Vec<RangePattern>,
    /// They come before what is to be measured.
    pub warm_up: Vec<RangePattern>,
    /// Any other stage.
    pub other: Vec<RangePattern>,
}

impl Default for RoleSettings {
    fn default() -> Self {
        let patterns =
            |texts: &[&str]| texts.iter().map(|text| (*text).to_owned().into()).collect();
        Self {
            prefill: patterns(&["prefill*"]),
            decode: patterns(&["decode*", "generate*"]),
            step: patterns(&["*step*", "*iter*", "*token*"]),
            communication: Vec::new(),
            warm_up: patterns(&["warm?up*", "warmup*", "*warmup", "warming?up*"]),
            other: patterns(&["decoder*"]),
        }
    }
}

/// What an outermost range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant {
    /// A stage.
    Stage(Role),
    /// None of the model.
    Apart(Apart),
}

impl RoleSettings {
    /// Whether a name states that its range, within a stage, is a step of it.
    pub fn is_step(&self, name: &str) -> bool {
        let range = Reading { name, domain: None };
        self.step.iter().any(|pattern| pattern.matches(&range))
    }

    /// Patterns that are none of the defaults, and that no range fits, as they are written.
    pub fn unmatched(&self, ranges: &[&PathRow]) -> Vec<String> {
        let defaults = Self::default();
        let lists = [
            ("prefill", &self.prefill, &defaults.prefill),
            ("decode", &self.decode, &defaults.decode),
            ("communication", &self.communication, &defaults.communication),
            ("warm_up", &self.warm_up, &defaults.warm_up),
            ("other", &self.other, &defaults.other),
        ];
        let all = lists.into_iter().flat_map(|(key, own, defaults)| {
            let chosen = own.iter().filter(|pattern| !defaults.contains(pattern));
            let idle = chosen.filter(|pattern| !ranges.iter().any(|row| pattern.fits(row)));
            idle.map(move |pattern| format!("roles.{key}={}", pattern.text))
        });
        all.collect()
    }

    /// What an outermost range of this name is, in this domain or the default one.
    pub fn of(&self, name: &str, domain: Option<&str>) -> Meant {
        // These names are not from a program, so the patterns do not apply.
        match name {
            START_UP => return Meant::Apart(Apart::WarmUp),
            PREFILL => return Meant::Stage(Role::Prefill),
            DECODE => return Meant::Stage(Role::Decode),
            _ => {}
        }
        let readings = readings(name, domain);
        let is = |patterns: &[RangePattern]| {
            readings.iter().any(|read| patterns.iter().any(|pattern| pattern.matches(read)))
        };
        let by_patterns = [
            (&self.other, Meant::Stage(Role::Other)),
            (&self.warm_up, Meant::Apart(Apart::WarmUp)),
            (&self.communication, Meant::Apart(Apart::Communication)),
            (&self.decode, Meant::Stage(Role::Decode)),
            (&self.prefill, Meant::Stage(Role::Prefill)),
        ];
        let found = by_patterns.into_iter().find(|(patterns, _)| is(patterns));
        let is_vision = || readings.iter().any(|read| VisionPart::of_range(read.name).is_some());
        found.map(|(_, meant)| meant).unwrap_or_else(|| {
            Meant::Stage(if is_vision() { Role::VisionBefore } else { Role::Other })
        })
    }
}

/// A name and its domain.
pub struct Reading<'r> {
    name: &'r str,
    domain: Option<&'r str>,
}

/// What a range may be called. Programs that know no domains, such as those that push ranges by PyTorch, write
/// `decode` of the domain `LLM` as `LLM@decode`, or as `decode@LLM`.
pub fn readings<'r>(name: &'r str, domain: Option<&'r str>) -> Vec<Reading<'r>> {
    match (domain, name.split_once('@')) {
        (None, Some((first, second))) => vec![
            Reading { name: second, domain: Some(first) },
            Reading { name: first, domain: Some(second) },
        ],
        (domain, _) => vec![Reading { name, domain }],
    }
}

/// `NAME` (in any domain) or `NAME@DOMAIN`, each with `*` and `?`; upper and lower case are one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct RangePattern {
    text: String,
    name: WildMatch,
    domain: Option<WildMatch>,
}

impl RangePattern {
    fn matches(&self, range: &Reading<'_>) -> bool {
        let of = |domain: &WildMatch| domain.matches(range.domain.unwrap_or_default());
        self.name.matches(range.name) && self.domain.as_ref().is_none_or(of)
    }

    fn fits(&self, row: &PathRow) -> bool {
        readings(&row.name, row.domain.as_deref()).iter().any(|read| self.matches(read))
    }
}

impl PartialEq for RangePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl From<String> for RangePattern {
    fn from(text: String) -> Self {
        let (name, domain) = text.rsplit_once('@').unzip();
        let glob = WildMatch::new_case_insensitive;
        Self { name: glob(name.unwrap_or(&text)), domain: domain.map(glob), text }
    }
}

impl From<RangePattern> for String {
    fn from(pattern: RangePattern) -> String {
        pattern.text
    }
}

/// The range that `wanted` means, of those in `paths`: one of that name (`NAME`, `NAME@DOMAIN`, or the domain
/// first), else one that fits it as a pattern with `*` and `?`, else, of `prefill` and `decode`, one of that
/// role. Of several it is the outermost one with the most kernel time.
pub fn find_range<'r>(
    wanted: &str,
    paths: &'r [PathRow],
    names: &RangeNames,
) -> Option<&'r PathRow> {
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
        &|row| pattern.fits(row),
        &|row| swapped.as_ref().is_some_and(|pattern| pattern.fits(row)),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, domain: Option<&str>) -> Meant {
        RoleSettings::default().of(name, domain)
    }

    #[test]
    fn three_spellings_of_a_label_are_one() {
        for (name, role) in [
            ("prefill", Role::Prefill),
            ("decode_all", Role::Decode),
            ("Generate", Role::Decode),
            ("vision", Role::VisionBefore),
            ("decoder_layer", Role::Other),
            ("train", Role::Other),
        ] {
            let role = Meant::Stage(role);
            assert_eq!(of(name, None), role, "{name}");
            assert_eq!(of(name, Some("LLM")), role, "{name}");
            assert_eq!(of(&format!("LLM@{name}"), None), role, "{name}");
        }
        assert_eq!(of("step", Some("decode")), Meant::Stage(Role::Other));
        assert_eq!(of("decode@LLM", None), Meant::Stage(Role::Decode));
        for name in ["LLM@", "@", ""] {
            assert_eq!(of(name, None), Meant::Stage(Role::Other), "{name}");
        }
    }

    #[test]
    fn warm_up_by_any_spelling() {
        let warm = Meant::Apart(Apart::WarmUp);
        for name in ["warmup", "warm_up", "Warm-Up", "warmup_3", "model warmup", "warming up"] {
            assert_eq!(of(name, None), warm, "{name}");
        }
        for name in ["decode", "warm", "up", "prefill_warm"] {
            assert_ne!(of(name, None), warm, "{name}");
        }
    }

    #[test]
    fn a_domain_is_heeded_where_a_pattern_names_one() {
        let decode = vec!["step*@engine".to_owned().into()];
        let settings = RoleSettings { decode, ..RoleSettings::default() };
        assert_eq!(settings.of("step 3", Some("Engine")), Meant::Stage(Role::Decode));
        assert_eq!(settings.of("engine@step 3", None), Meant::Stage(Role::Decode));
        assert_eq!(settings.of("step 3", Some("other")), Meant::Stage(Role::Other));
        assert_eq!(settings.of("step 3", None), Meant::Stage(Role::Other));
    }

    #[test]
    fn the_built_in_configuration_has_the_defaults() {
        let config = include_str!("../../../conf/config.yaml");
        let config: serde_json::Value = serde_saphyr::from_str(config).expect("YAML");
        let roles = serde_json::from_value::<RoleSettings>(config["roles"].clone()).expect("roles");
        assert_eq!(roles, RoleSettings::default());
    }

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
            let row = find_range(wanted, &paths, &RangeNames::default());
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
            let found = find_range(wanted, &paths, &RangeNames::default());
            assert!(found.is_some(), "{wanted}");
        }
    }
}
