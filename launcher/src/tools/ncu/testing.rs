//! What several tests of this module start from.

use serde_json::Value;

use super::config::Ncu;

/// A preset as the composition would give it, with `changes` (a YAML map) on top.
pub(super) fn preset(name: &str, changes: &str) -> Result<Ncu, String> {
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
    stage2_presets::group("profiling/ncu").find(|(known, _)| *known == name).expect("preset").1
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
