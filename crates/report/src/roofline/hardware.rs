//! conf/hardware and the name that a driver gives its GPU -> dense peak rates, or the reason for none.
//!
//! A GPU is recognised by its whole name only: a part of a name (`H100`, `A10`) stands for cards
//! whose rates differ by half, and a slice of a card (`... MIG 1g.10gb`) has other rates than the
//! card. So no order or specificity is needed: a name is listed in one preset, or in none.

use serde::{Deserialize, Serialize};
use stage2_model::{DenseTflops, Finding, Peaks, Severity, no_rates};

/// A preset of conf/hardware, one to one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Name of the card; null: take the preset that lists the driver's name.
    pub name: Option<String>,
    /// Where the figures are from.
    pub source: Option<String>,
    /// Names that drivers give to this card.
    #[serde(default)]
    pub device_names: Vec<String>,
    /// Dense peak rates.
    #[serde(default)]
    pub dense_tflops: DenseTflops,
    /// Peak memory bandwidth, 10^9 bytes/s.
    pub memory_gb_per_s: Option<f64>,
}

/// Peak rates, or none, and what the reader should know about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    /// None: nothing is known.
    pub peaks: Option<Peaks>,
    /// What the reader should know.
    pub findings: Vec<Finding>,
}

/// All presets of conf/hardware.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    presets: Vec<(String, Hardware)>,
}

/// Names offered where one is not known.
const NAMES_OFFERED: usize = 3;
/// Similarity (Jaro-Winkler) from which a name is offered.
const SIMILAR: f64 = 0.85;

impl Catalogue {
    /// The presets that are built into the program. A test reads each of them, and finds no name in two.
    pub fn built_in() -> Catalogue {
        let read = |(preset, text): (&str, &str)| {
            Some((preset.to_owned(), serde_saphyr::from_str(text).ok()?))
        };
        Catalogue { presets: stage2_config::presets::group("hardware").filter_map(read).collect() }
    }

    /// The card whose preset lists the device name.
    pub fn find(&self, device_name: &str) -> Option<&Hardware> {
        let wanted = words(device_name);
        let listed = |card: &&Hardware| card.device_names.iter().any(|name| words(name) == wanted);
        self.presets.iter().map(|(_, card)| card).find(listed).filter(|_| !wanted.is_empty())
    }

    /// Presets whose names are like the name.
    fn similar(&self, device_name: &str) -> Vec<String> {
        let wanted = words(device_name).join(" ");
        let mut scored: Vec<(f64, &String)> = self
            .presets
            .iter()
            .filter_map(|(preset, hardware)| {
                let score = |name: &String| strsim::jaro_winkler(&words(name).join(" "), &wanted);
                let best = hardware.device_names.iter().map(score).max_by(f64::total_cmp)?;
                (best >= SIMILAR).then_some((best, preset))
            })
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        scored.into_iter().take(NAMES_OFFERED).map(|(_, preset)| preset.clone()).collect()
    }
}

/// The words of a device name that tell cards apart.
fn words(device_name: &str) -> Vec<String> {
    device_name
        .split(|c: char| c.is_whitespace() || matches!(c, '-' | '_' | ','))
        .map(|word| word.to_ascii_lowercase())
        .filter(|word| {
            !matches!(word.as_str(), "" | "nvidia" | "corporation" | "tesla" | "geforce")
        })
        .collect()
}

/// The peaks for a GPU. What the configuration sets wins over the preset that lists the GPU's name;
/// a preset that was chosen by name wins altogether.
pub fn resolve(
    catalogue: &Catalogue,
    configured: &Hardware,
    device_name: Option<&str>,
) -> Resolved {
    let mut findings = Vec::new();
    let configured = checked(configured, &mut findings);
    let listed = device_name.and_then(|name| catalogue.find(name));
    let base = match &configured.name {
        Some(name) => {
            if let Some(other) = listed.and_then(|l| l.name.as_ref()).filter(|l| *l != name) {
                findings.push(Finding::new(
                    Severity::Warning,
                    format!(
                        "peak rates are those of {name}, but the GPU calls itself {}",
                        device_name.unwrap_or_default()
                    ),
                    format!("that name belongs to {other}"),
                    "leave hardware=auto, unless this is intended",
                ));
            }
            catalogue.presets.iter().map(|(_, h)| h).find(|h| h.name.as_ref() == Some(name))
        }
        None => listed,
    };
    let base = base.map(|base| checked(base, &mut findings)).unwrap_or_default();
    let peaks = lay_over(base, configured);
    if peaks.is_none() {
        findings.push(unknown(catalogue, device_name));
    }
    Resolved { peaks, findings }
}

/// Leaves out rates that are no positive number, with a finding each.
fn checked(hardware: &Hardware, findings: &mut Vec<Finding>) -> Hardware {
    let mut checked = hardware.clone();
    let dense = checked.dense_tflops.iter_mut();
    let dense = dense.map(|(precision, rate)| (format!("dense_tflops.{precision}"), rate));
    let memory = ("memory_gb_per_s".to_owned(), &mut checked.memory_gb_per_s);
    for (key, rate) in dense.chain([memory]) {
        if let Some(bad) = rate.filter(|v| !(v.is_finite() && *v > 0.0)) {
            *rate = None;
            findings.push(Finding::new(
                Severity::Warning,
                format!("hardware.{key}={bad} is no peak rate"),
                "it has to be a positive number; it is left out",
                "correct or remove it",
            ));
        }
    }
    checked
}

fn lay_over(base: Hardware, over: Hardware) -> Option<Peaks> {
    let (mut dense_tflops, mut memory_gb_per_s) = (no_rates(), base.memory_gb_per_s);
    dense_tflops.extend(base.dense_tflops);
    let mut overridden = Vec::new();
    let mut lay = |key: String, rate: &mut Option<f64>, value: Option<f64>| {
        if value.is_some() && value != *rate {
            *rate = value;
            overridden.push(key);
        }
    };
    for (precision, value) in over.dense_tflops {
        let rate = dense_tflops.entry(precision).or_default();
        lay(format!("dense_tflops.{precision}"), rate, value);
    }
    lay("memory_gb_per_s".to_owned(), &mut memory_gb_per_s, over.memory_gb_per_s);
    let known = dense_tflops.values().chain([&memory_gb_per_s]).any(Option::is_some);
    let or = |first: Option<String>, second: Option<String>, last: &str| {
        first.or(second).filter(|text| !text.is_empty()).unwrap_or_else(|| last.to_owned())
    };
    known.then(|| Peaks {
        card: or(base.name, over.name, "configuration"),
        source: or(base.source, over.source, "set in the configuration"),
        dense_tflops,
        memory_gb_per_s,
        overridden,
    })
}

fn unknown(catalogue: &Catalogue, device_name: Option<&str>) -> Finding {
    let what = match device_name {
        None => "the GPU's name is not known, so neither are its peak rates".to_owned(),
        Some(name) => format!("no hardware preset lists the GPU name {name:?}"),
    };
    let offered = device_name.map(|name| catalogue.similar(name)).unwrap_or_default();
    let choose = match offered.is_empty() {
        true => String::new(),
        false => format!("hardware={} if that is the card, or ", offered.join(" or ")),
    };
    Finding::new(
        Severity::Warning,
        what,
        "MFU, MBU and the distance to the roof are absent",
        format!(
            "set {choose}hardware.dense_tflops.bf16 (dense, TFLOP/s) and hardware.memory_gb_per_s"
        ),
    )
}

#[cfg(test)]
#[path = "hardware_tests.rs"]
mod tests;
