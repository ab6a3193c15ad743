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
        assert_eq!(&checked(hardware, &mut findings), hardware);
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
        let peaks = resolve(&catalogue, &Hardware::default(), Some(device)).peaks.expect(device);
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
