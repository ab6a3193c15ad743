//! What the user said and what the workload was configured with -> a finding for each contradiction,
//! with both values.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::llm::preset::Model;
use crate::llm::shape::Shape;
use crate::workload_config::{FOLDER, NEW_TOKENS, Tree, Workload};
use serde_json::Value;
use stage2_contract::order::IntoOrdered as _;
use stage2_model::finding::Id;
use stage2_model::{Finding, TokenCounts};

/// Switches; where both stand next to each other, the first decides.
const SWITCHES: [&str; 2] = ["enable", "enabled"];
/// Maps of profilers that take CUPTI.
const PROFILERS: [&str; 7] =
    ["torch_profiler", "pytorch_profiler", "profiler", "profiling", "kineto", "nsys", "ncu"];
/// Findings about other profilers.
const MAX_TOLD: usize = 4;

/// Every contradiction. The user chose `model` (none: no model, or the workload's own) and gave `tokens`
/// and `manifest` (`inputs.manifest`); the workload recorded `written` after it ran.
pub fn contradictions(
    workload: &Workload,
    model: Option<&Model>,
    tokens: &TokenCounts,
    written: &TokenCounts,
    manifest: Option<&str>,
) -> Vec<Finding> {
    let Some(tree) = &workload.tree else { return Vec::new() };
    let mut findings = profilers(tree);
    findings.extend(static_analysis(tree));
    if let Some(model) = model {
        findings.extend(other_model(workload, model));
        findings.extend(other_dtype(workload, model));
    }
    findings.extend(other_tokens(workload, tokens, written));
    findings.extend(manifest.and_then(|manifest| other_manifest(workload, manifest)));
    findings
}

/// Maps of a kind that are switched on, each by the key of its switch.
fn switched_on(tree: &Tree, is_kind: impl Fn(&str) -> bool) -> Vec<String> {
    let leaves = tree.leaves();
    let switch = |leaf: &&String| {
        let (map, last) = leaf.rsplit_once('.')?;
        (SWITCHES.contains(&last) && is_kind(map)).then(|| map.to_owned())
    };
    let maps: BTreeSet<String> = leaves.iter().filter_map(|leaf| switch(&leaf)).into_set();
    let on = |map: &String| {
        let keys = SWITCHES.iter().map(|switch| format!("{map}.{switch}"));
        let mut states = keys.filter_map(|key| Some((tree.value(&key)?.as_bool()?, key)));
        states.next().filter(|(on, _)| *on).map(|(_, key)| key)
    };
    maps.iter().filter_map(on).collect()
}

fn profilers(tree: &Tree) -> Vec<Finding> {
    let is_profiler =
        |map: &str| map.rsplit('.').next().is_some_and(|last| PROFILERS.contains(&last));
    let uses_cupti = |key: &String| {
        let map = key.rsplit_once('.').map_or("", |(map, _)| map);
        match tree.value(&format!("{map}.activities")) {
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind.as_str() != Some("cpu")),
            _ => true,
        }
    };
    let on = switched_on(tree, is_profiler).into_iter().filter(uses_cupti).take(MAX_TOLD);
    on.map(|key| {
        Id::WorkloadProfiler.about(&key).found(
            format!("another profiler was on in the workload: {key}=true"),
            "CUPTI has one subscriber: one of the two misses records, or all of them, and what is \
             measured has the cost of both",
            format!("give the workload {key}=false after `--`"),
        )
    })
    .collect()
}

fn static_analysis(tree: &Tree) -> Option<Finding> {
    let is_analysis = |map: &str| {
        map.ends_with("static_analysis") || format!(".{map}").ends_with(".analysis.static")
    };
    let key = switched_on(tree, is_analysis).into_iter().next()?;
    Some(Id::WorkloadProfiler.about(&key).found(
        format!("static analysis was on in the workload: {key}=true"),
        "it runs the model on its own, and its kernels are measured with the others",
        format!("give the workload {key}=false after `--`"),
    ))
}

/// The workload's sizes say more than its name; a name is only compared with one where there are none.
fn other_model(workload: &Workload, model: &Model) -> Option<Finding> {
    let names = workload.models();
    let (key, name) = names.first()?;
    let what = format!(
        "the reports count with the model {}, and the workload ran another: {key}={name}",
        model.name
    );
    if let Some((read, from)) = workload.shape() {
        let pairs = sizes(&model.shape).into_iter().zip(sizes(&read.shape));
        let differ = pairs.filter(|((_, ours), (_, theirs))| ours != theirs);
        let differ =
            differ.map(|((size, ours), (_, theirs))| format!("{size} {ours} and {theirs}"));
        let differ = differ.collect::<Vec<_>>().join(", ");
        return (!differ.is_empty()).then(|| {
            Id::ModelDiffers.found(
                what,
                format!("model.llm and {from} differ: {differ}; MFU and MBU are wrong"),
                "choose the preset of the model that ran (model/llm=), or model/llm=none for the \
                 workload's own sizes, and write the reports again",
            )
        });
    }
    let alike = names.iter().any(|(_, name)| same_name(&model.name, name));
    (!alike).then(|| {
        Id::ModelDiffers.found(
            what,
            "the names do not match; if the models differ, MFU and MBU are wrong",
            format!(
                "choose the preset of the model that ran (model/llm=); if it is the same model, set \
                 model.llm.name={name}"
            ),
        )
    })
}

fn sizes(shape: &Shape) -> [(&'static str, u64); 4] {
    [
        ("hidden_size", shape.hidden_size),
        ("num_hidden_layers", shape.num_hidden_layers),
        ("vocab_size", shape.vocab_size),
        ("intermediate_size", shape.mlp.intermediate_size),
    ]
}

/// Whether all words of one name stand in the other: `llama_3_8b` and `meta-llama/Llama-3-8B`.
fn same_name(one: &str, other: &str) -> bool {
    let words = |name: &str| -> BTreeSet<String> {
        let name = name.to_lowercase();
        let parts = name.split(|c: char| !c.is_alphanumeric());
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let (one, other) = (words(one), words(other));
    !one.is_empty() && !other.is_empty() && (one.is_subset(&other) || other.is_subset(&one))
}

fn other_dtype(workload: &Workload, model: &Model) -> Option<Finding> {
    let (key, name) = workload.dtype_name()?;
    let dtype = workload.dtype()?;
    let ours = serde_json::to_value(model.dtype).ok()?;
    (dtype != model.dtype).then(|| {
        Id::ModelDiffers.about("model.llm.dtype").found(
            format!(
                "the reports count with model.llm.dtype={}, and the workload ran with {key}={name}",
                ours.as_str().unwrap_or_default()
            ),
            "MFU is computed with the peak, and MBU with the bytes, of the wrong type",
            "set model.llm.dtype and write the reports again",
        )
    })
}

fn other_tokens(workload: &Workload, tokens: &TokenCounts, written: &TokenCounts) -> Vec<Finding> {
    let configured = workload.tokens();
    let steps_key = workload.first(&NEW_TOKENS).map_or("infer.max_new_tokens", |(key, _)| key);
    // A sequence may end before its last allowed step.
    let most = configured.decode_steps.filter(|most| tokens.decode_steps > Some(*most));
    let counts = |pick: fn(&TokenCounts) -> Option<u64>| (pick(tokens), pick(written));
    let (batch, prompt) = (configured.batch_size, configured.prompt_tokens);
    let mut findings = Vec::new();
    for (name, (ours, written), configured, key) in [
        ("batch_size", counts(|counts| counts.batch_size), batch, "its batch size"),
        ("prompt_tokens", counts(|counts| counts.prompt_tokens), prompt, "its prompt tokens"),
        ("decode_steps", counts(|counts| counts.decode_steps), most, steps_key),
    ] {
        let (Some(ours), Some(theirs)) = (ours, written.or(configured)) else { continue };
        let from = match written {
            Some(_) => "stage1/metrics.json".to_owned(),
            None => format!("{key} of {FOLDER}/config.yaml"),
        };
        if ours != theirs {
            findings.push(Id::ModelDiffers.about(format!("model.tokens.{name}")).found(
                format!(
                    "model.tokens.{name} is {ours}, and the workload ran with {theirs} ({from})"
                ),
                "MFU, MBU and tokens per second are computed from the first",
                format!(
                    "leave model.tokens.{name} out, or correct it, and write the reports again"
                ),
            ));
        }
    }
    findings
}

/// What to say where the workload reads another list of inputs than `manifest`, the one that the user
/// gave.
fn other_manifest(workload: &Workload, manifest: &str) -> Option<Finding> {
    let what = format!("inputs.manifest={manifest} was not read by the workload");
    let remedy = "give the workload the key that it reads after `--`, or name that key with \
                  workload.manifest_key=KEY";
    let Some((key, read)) = workload.manifest() else {
        let keys = workload.manifest_keys().join(" or ");
        let why = format!("{FOLDER}/config.yaml has no {keys}");
        return Some(Id::WorkloadManifest.found(what, why, remedy));
    };
    // A relative path was given from where this program was started, not from where a report is made.
    let started_in = workload.started_in.as_deref().unwrap_or_else(|| workload.cwd());
    let (theirs, ours) = (normal(&read), normal(&started_in.join(manifest)));
    (theirs != ours && !theirs.ends_with(normal(Path::new(manifest)))).then(|| {
        let why = format!("its configuration says {key}={}", read.display());
        Id::WorkloadManifest.found(what, why, remedy)
    })
}

/// A path without `.` and, as far as its text goes, without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(found.components().next_back(), Some(Component::Normal(_))) =>
            {
                found.pop();
            }
            part => found.push(part),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::preset::ModelPreset;
    use crate::workload_config::tests::left;
    use stage2_config::presets::group as presets_of;

    fn preset(name: &str) -> Model {
        let mut presets = presets_of("model/llm");
        let (_, text) = presets.find(|(known, _)| *known == name).expect("a preset");
        let preset: ModelPreset = serde_saphyr::from_str(text).expect("a model");
        preset.model().expect("sound").expect("sizes")
    }

    fn findings_of(config: &str, model: Option<&Model>, tokens: TokenCounts) -> Vec<String> {
        let (workload, findings) = left(&[("config.yaml", config.as_bytes())]);
        assert_eq!(findings, []);
        let written = TokenCounts::default();
        let found = contradictions(&workload, model, &tokens, &written, None);
        found.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn profilers_and_analyses_that_are_on_are_told_with_their_key() {
        for (config, expected) in [
            ("torch_profiler: {enabled: true}", "torch_profiler.enabled=true"),
            (
                "p: {torch_profiler: {enable: '${.enabled}', enabled: true}}",
                "p.torch_profiler.enable=true",
            ),
            ("p: {torch_profiler: {enable: true, enabled: false}}", "p.torch_profiler.enable=true"),
            ("pipeline: {nsys: {enable: true}}", "pipeline.nsys.enable=true"),
            ("a: {profiler: {enabled: true, activities: [cpu, cuda]}}", "a.profiler.enabled=true"),
            ("pipeline: {static_analysis: {enable: true}}", "pipeline.static_analysis.enable=true"),
            ("analysis: {static: {enabled: true}}", "analysis.static.enabled=true"),
        ] {
            let findings = findings_of(config, None, TokenCounts::default());
            assert_eq!(findings.len(), 1, "{config}: {findings:?}");
            assert!(findings[0].contains(expected), "{config}: {findings:?}");
        }
        for config in [
            "pipeline: {torch_profiler: {enable: false, enabled: true}}",
            "torch_profiler: {enabled: true, activities: [cpu]}",
            "torch_profiler: {enabled: '${oc.env:X}'}",
            "torch_profiler: {output: {enable: true}}",
            "torch_profiler: true",
            "static_analysis: {enable: false, write_reports: true}",
        ] {
            assert_eq!(findings_of(config, None, TokenCounts::default()), [""; 0], "{config}");
        }
    }

    #[test]
    fn another_model_is_told_by_its_sizes_or_else_by_its_name() {
        let llama = preset("llama_1b_random");
        let none = TokenCounts::default();
        let sizes = |hidden: u64| {
            format!(
                "model: {{name: anything, architecture: llama, config: {{vocab_size: 32000, \
                 hidden_size: {hidden}, intermediate_size: 8192, num_hidden_layers: 16, \
                 num_attention_heads: 32, num_key_value_heads: 8}}}}"
            )
        };
        assert_eq!(findings_of(&sizes(2048), Some(&llama), none.clone()), [""; 0]);
        let findings = findings_of(&sizes(1024), Some(&llama), none.clone());
        assert_eq!(findings.len(), 1, "{findings:?}");
        for part in ["llama_1b_random", "model.name=anything", "hidden_size 2048 and 1024"] {
            assert!(findings[0].contains(part), "{part}: {findings:?}");
        }
        for (name, same) in [
            ("llama_1b", true),
            ("org/Llama-1B-Random-v2", true),
            ("deepseek_ocr", false),
            ("llama_8b", false),
        ] {
            let findings =
                findings_of(&format!("model: {{name: {name}}}"), Some(&llama), none.clone());
            assert_eq!(findings.is_empty(), same, "{name}: {findings:?}");
        }
        assert_eq!(findings_of("infer: {x: 1}", Some(&llama), none.clone()), [""; 0]);
        assert_eq!(findings_of("model: {name: x}", None, none), [""; 0]);
    }

    #[test]
    fn other_types_and_token_counts_are_told_with_both_values() {
        let llama = preset("llama_1b_random");
        let none = TokenCounts::default();
        let config = "model: {name: llama_1b, dtype: float16}";
        let findings = findings_of(config, Some(&llama), none.clone());
        assert!(findings[0].contains("model.llm.dtype=bf16"), "{findings:?}");
        assert!(findings[0].contains("model.dtype=float16"), "{findings:?}");
        for dtype in ["auto", "bfloat16", "odd"] {
            let config = format!("model: {{name: llama_1b, dtype: {dtype}}}");
            assert_eq!(findings_of(&config, Some(&llama), none.clone()), [""; 0], "{dtype}");
        }
        let config = "infer: {max_new_tokens: 64, batch_size: 1, prompt_tokens: 32}";
        let tokens = |steps, batch| TokenCounts {
            decode_steps: Some(steps),
            batch_size: Some(batch),
            ..TokenCounts::default()
        };
        assert_eq!(findings_of(config, None, tokens(64, 1)), [""; 0]);
        assert_eq!(findings_of(config, None, tokens(40, 1)), [""; 0], "a sequence may end earlier");
        let findings = findings_of(config, None, tokens(65, 4));
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("model.tokens.batch_size is 4"), "{findings:?}");
        assert!(findings[1].contains("decode_steps is 65"), "{findings:?}");
        assert!(findings[1].contains("64 (infer.max_new_tokens"), "{findings:?}");
    }

    #[test]
    fn counts_that_were_written_down_beat_those_of_the_configuration() {
        let (workload, _) = left(&[("config.yaml", b"infer: {max_new_tokens: 64}\n")]);
        let steps = |n| TokenCounts { decode_steps: Some(n), ..TokenCounts::default() };
        let of = |tokens: &TokenCounts, written: &TokenCounts| {
            contradictions(&workload, None, tokens, written, None).len()
        };
        assert_eq!((of(&steps(40), &steps(40)), of(&steps(40), &steps(41))), (0, 1));
    }

    /// What is said of the files of a bundle and a list.
    fn manifest_finding(files: &[(&str, &str)], key: Option<&str>, manifest: &str) -> String {
        let dir = tempfile::tempdir().expect("folder");
        std::fs::create_dir_all(dir.path().join(FOLDER)).expect("folder");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).expect("file");
        }
        let mut findings = Vec::new();
        let workload = Workload::read(dir.path(), key, &mut findings);
        assert_eq!(findings, []);
        other_manifest(&workload, manifest).map_or_else(String::new, |finding| finding.to_string())
    }

    #[test]
    fn a_manifest_that_is_not_the_workloads_is_told() {
        let of = |config, manifest| {
            manifest_finding(&[("stage1/.hydra/config.yaml", config)], None, manifest)
        };
        assert_eq!(of("inputs: {manifest: /a/m.yaml}", "/a/m.yaml"), "");
        assert_eq!(of("dataset: {subset_filelist: lists/m.txt}", "lists/m.txt"), "");
        let other = of("inputs: {manifest: /a/m.yaml}", "/b/m.yaml");
        assert!(other.contains("/b/m.yaml"), "{other}");
        assert!(other.contains("inputs.manifest=/a/m.yaml"), "{other}");
        let none = of("inputs: {manifest: null}", "/b/m.yaml");
        assert!(none.contains("no inputs.manifest or dataset.subset_filelist"), "{none}");
    }

    #[test]
    fn the_key_that_the_user_named_is_looked_up_first() {
        let config = "data: {list: /a/m.yaml}\ninputs: {manifest: /old.yaml}\n";
        let of = |key, manifest| {
            manifest_finding(&[("stage1/.hydra/config.yaml", config)], key, manifest)
        };
        assert_eq!(of(Some("data.list"), "/a/m.yaml"), "");
        assert_ne!(of(None, "/a/m.yaml"), "");
        let other = of(Some("data.list"), "/b/m.yaml");
        assert!(other.contains("data.list=/a/m.yaml"), "{other}");
        let none =
            manifest_finding(&[("stage1/.hydra/config.yaml", "a: 1\n")], Some("data.list"), "/b");
        assert!(none.contains("has no data.list or inputs.manifest or dataset"), "{none}");
    }

    #[test]
    fn relative_lists_are_of_the_folder_that_the_run_was_started_in() {
        let config = ("stage1/.hydra/config.yaml", "inputs: {manifest: /w/lists/m.yaml}\n");
        let started = ("inputs.yaml", "cwd: /w/app\nargv: []\n");
        let hydra = ("stage1/.hydra/hydra.yaml", "hydra: {runtime: {cwd: /w/app}}\n");
        for files in [&[config, started][..], &[config, hydra]] {
            for same in ["../lists/m.yaml", "./../lists/./m.yaml", "./lists/m.yaml", "m.yaml"] {
                assert_eq!(manifest_finding(files, None, same), "", "{same}");
            }
            let other = manifest_finding(files, None, "../m.yaml");
            assert!(other.contains("inputs.manifest=../m.yaml was not read"), "{other}");
        }
    }
}
