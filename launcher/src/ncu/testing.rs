//! What several tests of this module start from.

use serde_json::Value;

use super::config::Ncu;

/// The presets, by name.
pub(super) const PRESETS: &[(&str, &str)] = &[
    ("ncu.default", include_str!("../../../conf/profiling/ncu/ncu.default.yaml")),
    ("ncu.high", include_str!("../../../conf/profiling/ncu/ncu.high.yaml")),
    ("ncu.hopper", include_str!("../../../conf/profiling/ncu/ncu.hopper.yaml")),
    ("ncu.rtx3090", include_str!("../../../conf/profiling/ncu/ncu.rtx3090.yaml")),
    ("ncu.rtx3090.compute", include_str!("../../../conf/profiling/ncu/ncu.rtx3090.compute.yaml")),
    ("ncu.rtx3090.memory", include_str!("../../../conf/profiling/ncu/ncu.rtx3090.memory.yaml")),
];

/// A preset as the composition would give it, with `changes` (a YAML map) on top.
pub(super) fn preset(name: &str, changes: &str) -> Result<Ncu, String> {
    let text = PRESETS.iter().find(|(known, _)| *known == name).expect("preset").1;
    let mut tree = yaml(PRESETS[0].1);
    let mut own = yaml(text);
    if let Value::Object(map) = &mut own {
        map.remove("defaults");
    }
    merge(&mut tree, own);
    merge(&mut tree, yaml(changes));
    serde_json::from_value(tree).map_err(|error| error.to_string())
}

/// The default preset with `changes`.
pub(super) fn settings(changes: &str) -> Ncu {
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
pub(super) fn fixture(name: &str) -> Vec<u8> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/ncu");
    if name.ends_with(".txt") && folder.join(name).exists() {
        return std::fs::read(folder.join(name)).expect(name);
    }
    let packed = std::fs::read(folder.join(format!("{name}.xz"))).expect(name);
    let mut bytes = Vec::new();
    lzma_rs::xz_decompress(&mut packed.as_slice(), &mut bytes).expect(name);
    bytes
}

/// The same as text.
pub(super) fn text(name: &str) -> String {
    String::from_utf8(fixture(name)).expect("UTF-8")
}
