//! What is said of keys that are not ours.

use super::*;
use crate::config::compose::{skeleton, valid_keys};
use crate::config::presets::Presets;

fn keys(runs_workload: bool) -> Keys {
    let presets = Presets::open(None).expect("built-in");
    let valid = valid_keys(&skeleton().expect("built-in"), &presets).expect("keys");
    Keys { valid, runs_workload }
}

fn advised(word: &str) -> String {
    advised_at(&keys(true), word, Origin::Override(word.into()))
}

fn advised_at(keys: &Keys, word: &str, origin: Origin) -> String {
    let key = word.trim_start_matches('+').split(['=', '@']).next().expect("a key");
    keys.advice(key, &origin)
}

#[test]
fn settings_of_workloads_are_sent_behind_the_dashes() {
    for word in [
        "infer.max_new_tokens=64",
        "dataset.sampling.num_epochs=1",
        "+dataset/sampling@dataset.sampling=default",
        "device=cuda:0",
        "+torch_profiler.enabled=false",
        "pipeline.torch_profiler.enable=false",
        "profiling.activities=[cpu]",
        "experiment=stage1",
        "outputs.save_predictions=false",
        "outputs.visualization.enable=false",
        "model.path=/m",
        "hydra.job.chdir=true",
        "+model.target=alt",
        "profiling/torch@pipeline.torch_profiler=torch-profiler.min",
        "profiling/torch=torch-profiler.min",
        "model/deepseek_ocr/arch@model=deepseek_ocr.default",
        "model/deepseek_ocr/infer@infer=fast",
    ] {
        let advice = advised(word);
        let expected = format!("after `--`: stage2-launch -- COMMAND {word}");
        assert!(advice.ends_with(&expected), "{word}: {advice}");
    }
    assert!(advised("trainer.epochs=3").ends_with("settings of the workload go after `--`"));
    assert!(advised("model/lmm=llama_3_8b").ends_with("`model/llm`"));
    assert!(
        advised("+model.target=alt").starts_with(
            "; use model/llm=PRESET or model.llm.config_json=FILE; the workload's own"
        )
    );
    let off = "; workload=hydra and workload=stage1 switch it off already; settings of";
    assert!(advised("+torch_profiler.enabled=false").starts_with(off));
    assert!(advised("pipeline.static_analysis.enable=False").starts_with(off));
    assert!(!advised("+torch_profiler.enabled=true").contains("already"));
}

#[test]
fn nothing_is_sent_behind_the_dashes_where_no_workload_runs() {
    let none = keys(false);
    for (word, expected) in [
        ("+model.target=x", "; use model/llm=PRESET or model.llm.config_json=FILE"),
        ("infer.x=1", "; this is a workload setting, and this command runs no workload"),
        ("run.mod=x", "; the nearest valid one is `run.mode`"),
    ] {
        assert_eq!(advised_at(&none, word, Origin::Override(word.into())), expected);
    }
    assert!(!none.for_map("model").contains("--"));
    assert_eq!(none.for_map("run"), "");
}

#[test]
fn a_file_without_its_head_is_told_so() {
    let origin = Origin::File { name: "c/runner/stage2.yaml".into(), line: 1 };
    let advice = advised_at(&keys(true), "runner.run.mode", origin);
    assert_eq!(advice, "; put `# @package _global_` on the first line of c/runner/stage2.yaml");
    assert!(!advised("runner.run.mode=deep").contains("@package"));
}

#[test]
fn keys_without_their_prefix_find_the_key_of_the_same_tool() {
    for (word, expected) in [
        ("+ncu.gating_nvtx=false", "; did you mean `pipeline.ncu.gating_nvtx`?"),
        ("nsys.trace=[cuda]", "; did you mean `pipeline.nsys.trace`?"),
        ("profiling.nsys.trace=[cuda]", "; did you mean `pipeline.nsys.trace`?"),
        ("ncu_cli.set=full", "; did you mean `pipeline.ncu.ncu_cli.set`?"),
        ("mode=light", "; did you mean `run.mode`?"),
        ("ncu=ncu.rtx3090.compute", "; did you mean `profiling/ncu`?"),
        ("llm=llama_3_8b", "; did you mean `model/llm`?"),
        ("enable=false", "; did you mean `pipeline.ncu.enable` or `pipeline.nsys.enable`?"),
        ("nsys.gating_nvtx=false", "; use pipeline.nsys.capture_range: none"),
        ("pipeline.nsys.gating_nvtx=false", "; use pipeline.nsys.capture_range: none"),
        ("run.stage1_repeats=1", "; give the workload dataset.sampling"),
        (
            "nsys.nvtx_capture=decode",
            "; use pipeline.nsys.capture_range=nvtx pipeline.nsys.nvtx_capture=decode (or \
             profiling/nsys=nsys.gated)",
        ),
        (
            "+profiling.nsys.nvtx_capture=prefill",
            "; use pipeline.nsys.capture_range=nvtx pipeline.nsys.nvtx_capture=prefill",
        ),
        ("ncu.nvtx_include=X", "; use pipeline.ncu.ncu_cli.nvtx.include"),
        ("ncu.export.raw_csv=true", "; use pipeline.ncu.ncu_cli.export.csv"),
        ("run.top_n_kernels=5", "; use report.top_n"),
        ("model.llm.params=8e9", "; the count follows from shape or config_json"),
        ("pipeline.workload.module=x", "; give the command after `--`"),
        ("nsys.tracer=x", "; the nearest valid one is `pipeline.nsys.trace`"),
        ("run.mod=x", "; the nearest valid one is `run.mode`"),
    ] {
        let advice = advised(word);
        assert!(advice.starts_with(expected), "{word}: {advice}");
    }
}

#[test]
fn no_key_that_is_advised_against_is_valid_and_every_one_that_is_advised_is() {
    let keys = keys(true);
    let known = |key: &str| keys.all().any(|valid| within(valid, key));
    for key in OF_WORKLOADS.iter().chain(SWITCHED_OFF).chain(EARLIER.iter().map(|(old, _)| old)) {
        assert!(!known(key) && !known(&format!("pipeline.{key}")), "{key}");
    }
    for (_, of_tool) in TOOLS {
        assert!(known(of_tool), "{of_tool}");
    }
    let words = EARLIER.iter().flat_map(|(_, text)| text.split([' ', ':', ',']));
    let ours = words.filter(|word| word.starts_with("pipeline.") || word.starts_with("report."));
    assert!(ours.clone().count() > 3 && ours.clone().all(known), "{:?}", ours.collect::<Vec<_>>());
}

#[test]
fn a_misspelt_key_finds_its_neighbour() {
    let keys = ["run.mode", "run.timeout_s", "profiling.collector.flush_ms"];
    let near = |word| most_like(word, keys).unwrap_or_default();
    assert_eq!(near("run.mod"), "run.mode");
    assert_eq!(near("timeout"), "run.timeout_s");
    assert_eq!(near("profiling.colector.flush"), "profiling.collector.flush_ms");
    assert_eq!(most_like("x", []), None);
}
