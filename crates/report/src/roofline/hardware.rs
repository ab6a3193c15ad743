//! conf/hardware and the name that a driver gives its GPU -> dense peak rates, or the reason for none.
//!
//! A GPU is recognised by its whole name only: a part of a name (`H100`, `A10`) stands for cards
//! whose rates differ by half, and a slice of a card (`... MIG 1g.10gb`) has other rates than the
//! card. So no order or specificity is needed: a name is listed in one preset, or in none.

use serde::{Deserialize, Serialize};
use stage2_contract::order::Order as _;
use stage2_model::finding::Id;
use stage2_model::{DenseTflops, Finding, Peaks, no_rates};

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
pub(crate) struct PeakLookup {
    pub(crate) peaks: Option<Peaks>,
    pub(crate) findings: Vec<Finding>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    presets: Vec<(String, Hardware)>,
}

const NAMES_OFFERED: usize = 3;
/// Similarity (Jaro-Winkler) from which a name is offered.
const SIMILAR: f64 = 0.85;

impl Catalogue {
    /// The presets that are built into the program. A test reads each of them, and finds no name in two.
    pub(crate) fn built_in() -> Catalogue {
        let read = |(preset, text): (&str, &str)| {
            Some((preset.to_owned(), serde_saphyr::from_str(text).ok()?))
        };
        Catalogue { presets: stage2_config::presets::group("hardware").filter_map(read).collect() }
    }

    /// The card whose preset lists the device name.
    pub(crate) fn find(&self, device_name: &str) -> Option<&Hardware> {
        let wanted = words(device_name);
        let listed = |card: &&Hardware| card.device_names.iter().any(|name| words(name) == wanted);
        self.presets.iter().map(|(_, card)| card).find(listed).filter(|_| !wanted.is_empty())
    }

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
        scored.order_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
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
pub(crate) fn resolve(
    catalogue: &Catalogue,
    configured: &Hardware,
    device_name: Option<&str>,
) -> PeakLookup {
    let mut findings = Vec::new();
    let configured = check_rates(configured, &mut findings);
    let listed = device_name.and_then(|name| catalogue.find(name));
    let base = match &configured.name {
        Some(name) => {
            if let Some(other) = listed.and_then(|l| l.name.as_ref()).filter(|l| *l != name) {
                findings.push(Id::HardwareOther.found(
                    format!(
                        "peak rates are those of {name}, but the GPU's name is {}",
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
    let base = base.map(|base| check_rates(base, &mut findings)).unwrap_or_default();
    let peaks = lay_over(base, configured);
    if peaks.is_none() {
        findings.push(unknown(catalogue, device_name));
    }
    PeakLookup { peaks, findings }
}

/// Leaves out rates that are not positive numbers, with a finding each.
fn check_rates(hardware: &Hardware, findings: &mut Vec<Finding>) -> Hardware {
    let mut checked = hardware.clone();
    let dense = checked.dense_tflops.iter_mut();
    let dense = dense.map(|(precision, rate)| (format!("dense_tflops.{precision}"), rate));
    let memory = ("memory_gb_per_s".to_owned(), &mut checked.memory_gb_per_s);
    for (key, rate) in dense.chain([memory]) {
        if let Some(bad) = rate.filter(|v| !(v.is_finite() && *v > 0.0)) {
            *rate = None;
            findings.push(Id::HardwareInvalid.about(format!("hardware.{key}")).found(
                format!("hardware.{key}={bad} is not a valid peak rate"),
                "it must be a positive number, and is ignored",
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
    Id::HardwareUnknown.found(
        what,
        "MFU, MBU and the distance to the roof are absent",
        format!(
            "set {choose}hardware.dense_tflops.bf16 (dense, TFLOP/s) and hardware.memory_gb_per_s"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::Precision;

    fn card(device_name: &str) -> Option<String> {
        Catalogue::built_in().find(device_name).and_then(|hardware| hardware.name.clone())
    }

    #[test]
    fn every_preset_is_whole_dense_and_cited() {
        let files: Vec<_> = stage2_config::presets::group("hardware").collect();
        assert!(files.len() > 20, "{}", files.len());
        let catalogue = Catalogue::built_in();
        assert_eq!(catalogue.presets.len(), files.len(), "one cannot be read");
        let auto: serde_json::Value = serde_saphyr::from_str(
            files.iter().find(|(name, _)| *name == "auto").expect("conf/hardware/auto.yaml").1,
        )
        .expect("YAML");
        let keys = |v: &serde_json::Value| -> Vec<String> {
            v.as_object().expect("a map").keys().cloned().collect()
        };
        for (preset, text) in &files {
            let value: serde_json::Value = serde_saphyr::from_str(text).expect(preset);
            assert_eq!(keys(&value), keys(&auto), "{preset}");
            assert_eq!(keys(&value["dense_tflops"]), keys(&auto["dense_tflops"]), "{preset}");
            assert!(text.to_ascii_lowercase().contains("dense"), "{preset}");
        }
        let mut names = Vec::new();
        for (preset, hardware) in catalogue.presets.iter().filter(|(preset, _)| preset != "auto") {
            let mut findings = Vec::new();
            assert_eq!(&check_rates(hardware, &mut findings), hardware);
            assert_eq!(findings, []);
            assert!(hardware.source.as_ref().is_some_and(|s| s.contains("NVIDIA")), "{preset}");
            assert!(hardware.name.is_some() && hardware.memory_gb_per_s.is_some(), "{preset}");
            let rate = |precision| hardware.dense_tflops.get(&precision).copied().flatten();
            let [fp16, bf16] = [Precision::Fp16, Precision::Bf16].map(rate);
            assert!(rate(Precision::Fp32).is_some() && fp16.is_some(), "{preset}");
            // BF16 and FP16 run at one rate on tensor cores wherever BF16 exists.
            assert!(bf16.is_none() || bf16 == fp16, "{preset}");
            for (narrow, wide) in [(rate(Precision::Fp8), bf16), (rate(Precision::Int8), fp16)] {
                if let Some((narrow, wide)) = narrow.zip(wide) {
                    assert!((1.9..4.1).contains(&(narrow / wide)), "{preset}: a sparse figure?");
                }
            }
            let mut own: Vec<_> = hardware.device_names.iter().map(|name| words(name)).collect();
            own.sort();
            own.dedup();
            names.extend(own);
        }
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "a name is listed in one preset only");
    }

    #[test]
    fn names_as_drivers_report_them_are_recognised() {
        for (device, expected, bf16, memory) in [
            ("NVIDIA H200", "H200 SXM", 989.5, 4800.0),
            ("NVIDIA H200 NVL", "H200 NVL", 835.5, 4800.0),
            ("NVIDIA H100 80GB HBM3", "H100 SXM", 989.4, 3352.0),
            ("NVIDIA H100 PCIe", "H100 PCIe", 756.0, 2039.0),
            ("NVIDIA H100 NVL", "H100 NVL", 835.5, 3900.0),
            ("NVIDIA GH200 480GB", "GH200, HBM3 96 GB", 989.5, 4000.0),
            ("NVIDIA GH200 144G HBM3e", "GH200, HBM3e 144 GB", 989.5, 4900.0),
            ("NVIDIA B200", "B200 (HGX)", 2250.0, 7700.0),
            ("NVIDIA A100-SXM4-80GB", "A100 SXM 80 GB", 312.0, 2039.0),
            ("NVIDIA A100 80GB PCIe", "A100 PCIe 80 GB", 312.0, 1935.0),
            ("NVIDIA A100-PCIE-40GB", "A100 40 GB", 312.0, 1555.0),
            ("A100-SXM4-40GB", "A100 40 GB", 312.0, 1555.0),
            ("NVIDIA A10", "A10", 125.0, 600.0),
            ("NVIDIA A10G", "A10G", 70.0, 600.0),
            ("NVIDIA L40S", "L40S", 362.05, 864.0),
            ("NVIDIA L4", "L4", 121.0, 300.0),
            ("NVIDIA GeForce RTX 3090", "GeForce RTX 3090", 71.0, 936.0),
            ("RTX 4090", "GeForce RTX 4090", 165.2, 1008.0),
            ("NVIDIA GeForce RTX 5090", "GeForce RTX 5090", 209.5, 1792.0),
        ] {
            let catalogue = Catalogue::built_in();
            let peaks =
                resolve(&catalogue, &Hardware::default(), Some(device)).peaks.expect(device);
            assert_eq!(peaks.card, expected, "{device}");
            assert_eq!(peaks.flops_per_s(Precision::Bf16), Some(bf16 * 1e12), "{device}");
            assert_eq!(peaks.bytes_per_s(), Some(memory * 1e9), "{device}");
        }
        assert_eq!(card("Tesla V100-SXM2-16GB").as_deref(), Some("V100 SXM2"));
        assert_eq!(card("Tesla T4").as_deref(), Some("T4"));
    }

    #[test]
    fn a_name_that_is_not_listed_is_never_guessed() {
        for device in [
            "NVIDIA H100",
            "NVIDIA A100",
            "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
            "NVIDIA GeForce RTX 4090 Laptop GPU",
            "NVIDIA GeForce RTX 4090 D",
            "NVIDIA GeForce RTX 3090 Ti",
            "NVIDIA A1000",
            "GRID T4-16Q",
            "Simulated GPU",
            "NVIDIA",
            "",
        ] {
            assert_eq!(card(device), None, "{device}");
            let resolved = resolve(&Catalogue::built_in(), &Hardware::default(), Some(device));
            assert_eq!(resolved.peaks, None, "{device}");
            let [finding] = resolved.findings.as_slice() else { panic!("{:?}", resolved.findings) };
            assert!(finding.what.contains(device) && finding.remedy.contains("memory_gb_per_s"));
        }
        let resolved = resolve(&Catalogue::built_in(), &Hardware::default(), Some("NVIDIA H100"));
        assert!(resolved.findings[0].remedy.contains("h100_"), "{}", resolved.findings[0].remedy);
        let nameless = resolve(&Catalogue::built_in(), &Hardware::default(), None);
        assert!(nameless.peaks.is_none() && nameless.findings.len() == 1);
    }

    #[test]
    fn what_is_configured_wins() {
        let catalogue = Catalogue::built_in();
        let mut configured = Hardware::default();
        configured.dense_tflops.insert(Precision::Bf16, Some(800.0));
        let resolved = resolve(&catalogue, &configured, Some("NVIDIA H200"));
        let peaks = resolved.peaks.expect("known");
        assert_eq!(peaks.flops_per_s(Precision::Bf16), Some(8e14));
        assert_eq!(peaks.memory_gb_per_s, Some(4800.0));
        assert_eq!(peaks.overridden, ["dense_tflops.bf16"]);

        let alone = resolve(&catalogue, &configured, Some("Some other GPU"));
        let peaks = alone.peaks.expect("the configuration's own value");
        assert_eq!((peaks.card.as_str(), peaks.memory_gb_per_s), ("configuration", None));
        assert_eq!(alone.findings, []);

        let chosen = catalogue.find("NVIDIA H100 PCIe").expect("built in").clone();
        let other = resolve(&catalogue, &chosen, Some("NVIDIA H200"));
        assert_eq!(other.peaks.map(|p| p.card).as_deref(), Some("H100 PCIe"));
        assert!(other.findings[0].what.contains("NVIDIA H200"), "{:?}", other.findings);

        configured.dense_tflops.insert(Precision::Bf16, Some(f64::NAN));
        configured.memory_gb_per_s = Some(-1.0);
        let bad = resolve(&catalogue, &configured, Some("NVIDIA H200"));
        assert_eq!(bad.findings.len(), 2, "{:?}", bad.findings);
        let peaks = bad.peaks.expect("the preset's values");
        assert_eq!(peaks.dense_tflops[&Precision::Bf16], Some(989.5));
        assert_eq!((peaks.dense_tflops.len(), peaks.memory_gb_per_s), (12, Some(4800.0)));
    }
}
