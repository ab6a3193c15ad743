use super::*;
use serde_json::Value;

use crate::tools::ncu::command::{Available, known_metrics, known_sections};
use stage2_model::Severity;

/// A preset as the composition would give it, with `changes` (a YAML map) on top.
pub(in crate::tools::ncu) fn preset(name: &str, changes: &str) -> Result<Ncu, String> {
    let text = text_of(name);
    let mut tree = yaml(text_of("ncu.default"));
    let mut own = yaml(text);
    if let Value::Object(map) = &mut own {
        map.remove("defaults");
    }
    merge(&mut tree, own);
    merge(&mut tree, yaml(changes));
    serde_json::from_value(tree).map_err(|error| error.to_string())
}

fn text_of(name: &str) -> &'static str {
    stage2_config::presets::group("profiling/ncu")
        .find(|(known, _)| *known == name)
        .expect("preset")
        .1
}

/// The default preset with `changes`.
pub(in crate::tools::ncu) fn settings(changes: &str) -> Ncu {
    preset("ncu.default", changes).expect("settings")
}

fn yaml(text: &str) -> Value {
    if text.is_empty() {
        return Value::Null;
    }
    serde_saphyr::from_str(text).expect("YAML")
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (into, from) => *into = from,
    }
}

/// A file of tests/fixtures/ncu, unpacked.
pub(in crate::tools::ncu) fn fixture(name: &str) -> Vec<u8> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/ncu");
    if name.ends_with(".txt") && folder.join(name).exists() {
        return std::fs::read(folder.join(name)).expect(name);
    }
    let packed = std::fs::read(folder.join(format!("{name}.xz"))).expect(name);
    let mut bytes = Vec::new();
    lzma_rs::xz_decompress(&mut packed.as_slice(), &mut bytes).expect(name);
    bytes
}

/// The text of a file of tests/fixtures/ncu, unpacked.
pub(in crate::tools::ncu) fn text(name: &str) -> String {
    String::from_utf8(fixture(name)).expect("UTF-8")
}

#[test]
fn every_preset_is_whole_and_sound() {
    for (name, text) in stage2_config::presets::group("profiling/ncu") {
        let settings = preset(name, "").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(settings.faults(), [], "{name}");
        assert!(text.starts_with("# @package pipeline.ncu\n"), "{name}");
        assert!(settings.enable && settings.description.is_some(), "{name}");
    }
}

#[test]
fn the_settings_can_be_written_and_read_again() {
    let settings = settings("");
    let text = serde_json::to_string(&settings).expect("JSON");
    assert_eq!(serde_json::from_str::<Ncu>(&text).expect("read"), settings);
}

#[test]
fn what_a_preset_asks_for_exists_on_its_gpu() {
    for (name, list) in [
        ("ncu.default", "query-metrics.gh100.txt"),
        ("ncu.default", "query-metrics.gb202.txt"),
        ("ncu.high", "query-metrics.gh100.txt"),
        ("ncu.hopper", "query-metrics.gh100.txt"),
    ] {
        let settings = preset(name, "").expect(name);
        let available = Available::read(Some(&text("sections.txt")), Some(&text(list)));
        let mut findings = Vec::new();
        let cli = &settings.ncu_cli;
        assert_eq!(known_sections(&cli.sections, &available, &mut findings), cli.sections);
        let kept = known_metrics(&cli.metrics, &available, &mut findings);
        // What other generations have is a note; anything else would be a slip of the preset.
        assert!(
            findings.iter().all(|f| f.severity == Severity::Note),
            "{name} {list}: {findings:?}"
        );
        if name == "ncu.hopper" {
            assert_eq!(kept, cli.metrics);
        }
        for needed in ["bf16", "dram__bytes", "sm__warps_active", "ffma", "gpu__time_duration"] {
            assert!(kept.iter().any(|metric| metric.contains(needed)), "{name} {list}: {needed}");
        }
    }
}

#[test]
fn lists_may_be_one_name_or_nothing() {
    let ncu = settings(
        "{kernel_include: '*gemm*', ncu_cli: {metrics: 'a__b.sum, c__d.sum,a__b.sum', nvtx: {include: 'x,y/'}}}",
    );
    assert_eq!(ncu.kernel_include, ["*gemm*"]);
    assert_eq!(ncu.ncu_cli.metrics, ["a__b.sum", "c__d.sum"]);
    assert_eq!(ncu.ncu_cli.nvtx.include, ["x,y/"], "a comma has a meaning in expressions");
    let mut json = serde_json::to_value(&ncu).expect("JSON");
    json["ncu_cli"]["sections"] = serde_json::Value::Null;
    let none: Ncu = serde_json::from_value(json).expect("null is no section");
    assert!(none.ncu_cli.sections.is_empty());
}

#[test]
fn wrong_values_are_refused() {
    for (changes, part) in [
        ("{ncu_cli: {replay_mode: kernels}}", "kernels"),
        ("{ncu_cli: {metrics: 7}}", "a list of names"),
        ("{ncu_cli: {metrics: ['a__b,,c__d']}}", "empty name"),
        ("{ncu_cli: {sections: [null]}}", "null"),
        ("{top_n: 0}", "nonzero"),
        ("{top_n: -1}", "nonzero"),
        ("{time_budget_s: 0}", "nonzero"),
        ("{ncu_cli: {launchcount: 3}}", "launchcount"),
        ("{topn: 3}", "topn"),
    ] {
        let error = preset("ncu.default", changes).expect_err(changes);
        assert!(error.contains(part), "{changes}: {error}");
    }
}

#[test]
fn values_that_do_not_go_together_are_faults() {
    for (changes, key) in [
        ("{executable: ''}", "executable"),
        ("{stage: ''}", "stage"),
        ("{stage: '@LLM'}", "stage"),
        ("{ncu_cli: {sections: ['Speed Of Light']}}", "ncu_cli.sections"),
        ("{ncu_cli: {metrics: ['--x']}}", "ncu_cli.metrics"),
        ("{ncu_cli: {set: 'a b'}}", "ncu_cli.set"),
        ("{ncu_cli: {kernel_name_base: demangled}}", "ncu_cli.kernel_name_base"),
        ("{ncu_cli: {kernel_name: ''}}", "ncu_cli.kernel_name"),
        ("{gating_nvtx: false, ncu_cli: {replay_mode: range}}", "ncu_cli.replay_mode"),
        ("{ncu_cli: {extra_args: ['--csv']}}", "ncu_cli.extra_args"),
        ("{ncu_cli: {extra_args: ['--metrics=x']}}", "ncu_cli.extra_args"),
        ("{ncu_cli: {extra_args: ['--', 'rm']}}", "ncu_cli.extra_args"),
        ("{ncu_cli: {nvtx: {include: '*/attn/'}}}", "ncu_cli.nvtx.include"),
        ("{ncu_cli: {nvtx: {exclude: [warm, 'a,b/']}}}", "ncu_cli.nvtx.exclude"),
        ("{ncu_cli: {nvtx: {include: decode/, start_end: true}}}", "ncu_cli.nvtx.include"),
        ("{ncu_cli: {nvtx: {include: ['dec*', a/b, c/d]}}}", "ncu_cli.nvtx.include"),
        ("{ncu_cli: {nvtx: {include: ['dec*'], exclude: [a/b, c/d]}}}", "ncu_cli.nvtx.exclude"),
        (r#"{ncu_cli: {nvtx: {include: ["a\0b"]}}}"#, "ncu_cli"),
    ] {
        let faults = settings(changes).faults();
        assert!(faults.iter().any(|fault| fault.key == key), "{changes}: {faults:?}");
    }
    let mut hanging = settings("{communication_kernels: true}");
    hanging.time_budget_s = None;
    assert_eq!(hanging.faults()[0].key, "time_budget_s");
    let nested = "{ncu_cli: {nvtx: {include: ['dec*', e/f], exclude: [a/b, c]}}}";
    assert_eq!(settings(nested).faults(), [], "one in each list");
    let good = "{gating_nvtx: false, ncu_cli: {replay_mode: app-range, extra_args: ['--range-filter', ':1:']}}";
    assert_eq!(settings(good).faults(), []);
}
