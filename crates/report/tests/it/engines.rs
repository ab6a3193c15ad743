//! Captures of real engines -> steps by kind and batch, modules by path, and a floor without configuration.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use stage2_model::{EngineSteps, Report};
use stage2_report::{Settings, Sources, analyse};

/// The report of a capture below tests/fixtures/engines, as of a run without settings.
fn report(capture: &str) -> Report {
    report_with(capture, "{}")
}

/// The report of a capture, as of a run whose `config.yaml` is `config`.
fn report_with(capture: &str, config: &str) -> Report {
    let from =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/engines").join(capture);
    let run = tempfile::tempdir().expect("a folder");
    for folder in ["collector", "hook"] {
        fs::create_dir(run.path().join(folder)).expect("a folder");
    }
    for entry in from.read_dir().expect("the capture") {
        let path = entry.expect("an entry").path();
        let folder =
            if path.extension().is_some_and(|end| end == "json") { "hook" } else { "collector" };
        let name = path.file_name().expect("a name");
        fs::copy(&path, run.path().join(folder).join(name)).expect("a copy");
    }
    fs::write(run.path().join("config.yaml"), config).expect("a configuration");
    let settings = Settings::of_run(run.path());
    analyse(&Sources::of_run(run.path()), &settings).report
}

fn steps<'r>(report: &'r Report, stage: &str) -> &'r EngineSteps {
    let run = report.engine.as_ref().expect("an engine");
    run.kinds.iter().find(|kind| kind.stage == stage).expect("steps of this kind")
}

fn stages(report: &Report) -> Vec<&str> {
    report.stages.iter().map(|row| row.stage.as_str()).collect()
}

#[test]
fn names_of_steps_become_prefill_decode_and_mixed() {
    let report = report("vllm-0.26.0/names");
    assert_eq!(stages(&report), ["decode", "mixed", "prefill", "(outside ranges)"]);
    let run = report.engine.as_ref().expect("an engine");
    assert_eq!(
        (run.engine.as_deref(), run.version.as_deref(), run.processes),
        (Some("vllm"), None, 1)
    );
    // 16 prompts, 64 tokens each: the first one comes from the prompts' steps.
    let decode = steps(&report, "decode");
    assert_eq!((decode.steps, decode.decode_requests_mean.round()), (63, 16.0));
    assert_eq!(
        (decode.rows.last().map(|row| row.requests), decode.p50_ns),
        (Some(16), Some(3_668_630))
    );
    let prompts: f64 = ["prefill", "mixed"]
        .map(|stage| steps(&report, stage))
        .iter()
        .map(|kind| kind.prefill_tokens_mean.expect("known") * kind.steps as f64)
        .sum();
    assert_eq!(prompts, 16.0 * 512.0);
}

#[test]
fn fields_of_steps_give_time_by_batch_and_a_floor_without_configuration() {
    let report = report("vllm-0.26.0/steps");
    let run = report.engine.as_ref().expect("an engine");
    assert_eq!((run.engine.as_deref(), run.version.as_deref()), (Some("vllm"), Some("0.26.0")));
    let decode = steps(&report, "decode");
    let full: Vec<u64> =
        decode.rows.iter().filter(|row| row.timed_steps > 100).map(|row| row.requests).collect();
    assert_eq!(full, [1, 3, 6, 12, 24, 32]);
    let fit = decode.fit.as_ref().expect("a line");
    assert!((2.5e6..3.5e6).contains(&fit.fixed_ns) && (1e4..3e4).contains(&fit.each_ns), "{fit:?}");
    let used = report.insight.utilisation.as_ref().expect("a model");
    assert_eq!(used.model_name.as_deref(), Some("dummy-llama"));
    assert!(used.needs.is_empty(), "{:?}", used.needs);
    let row = used.numbers.stages.iter().find(|row| row.stage == "decode").expect("decode");
    // 0.95 billion parameters in bf16, and a KV cache of some hundred megabytes.
    let bytes = row.bytes.value().expect("known");
    assert!((1.9e9..2.6e9).contains(&bytes), "{bytes}");
    let floor = report.answer.lines.iter().find(|line| line.label == "floor").expect("a floor");
    assert!(floor.text.contains("decode 0.") && floor.text.contains("prefill"), "{}", floor.text);
}

#[test]
fn ranks_of_an_engine_count_once_and_share_the_work() {
    let report = report("vllm-0.26.0/ranks");
    let run = report.engine.as_ref().expect("an engine");
    assert_eq!(run.processes, 2);
    assert_eq!(steps(&report, "decode").steps, 128);
    let used = report.insight.utilisation.as_ref().expect("a model");
    let row = used.numbers.stages.iter().find(|row| row.stage == "decode").expect("decode");
    // Half of the weights and of the KV cache on each GPU.
    let bytes = row.bytes.value().expect("known");
    assert!((0.95e9..1.3e9).contains(&bytes), "{bytes}");
    assert!(
        used.numbers
            .assumptions
            .iter()
            .any(|line| line.contains("split over 2 GPUs: FLOPs and bytes are per GPU"))
    );
}

#[test]
fn modules_are_paths_with_layers_joined_and_empty_ranges_gone() {
    let report = report("vllm-0.26.0/modules");
    let paths: Vec<&str> = report.paths.iter().map(|row| row.path.as_str()).collect();
    let module = "decode/LlamaForCausalLM/model.layers.*/model.layers.*.self_attn/\
                  model.layers.*.self_attn.qkv_proj";
    let row = report.paths.iter().find(|row| row.path == module).expect("a module");
    assert_eq!(row.instances, Some(30 * 16), "30 steps of 16 layers");
    assert!(!paths.iter().any(|path| path.contains("'Outputs'")), "{paths:#?}");
    assert!(!paths.iter().any(|path| path.contains("layers.0")), "{paths:#?}");
    assert!(report.coverage.verdict.text.starts_with("complete"), "{:?}", report.coverage.verdict);
}

#[test]
fn an_adapter_of_the_user_takes_the_place_of_the_built_in_ones() {
    let own = r"{engine: {name: mine, steps: ['execute_context_0\(0\)_generation_(?<decode_requests>\d+).*']}}";
    let report = report_with("vllm-0.26.0/names", own);
    let run = report.engine.as_ref().expect("an engine");
    assert_eq!((run.engine.as_deref(), run.kinds.len()), (Some("mine"), 1));
    assert_eq!(steps(&report, "decode").steps, 63);
    // What the adapter does not know keeps its own name.
    assert!(
        stages(&report).contains(&"execute_context_1(512)_generation_0(0)"),
        "{:?}",
        stages(&report)
    );
}

#[test]
fn an_adapter_that_cannot_be_used_is_named_and_the_built_in_ones_count() {
    for (steps, named) in [("'.*'", "matches every name"), ("'step ('", "not a usable regular")] {
        let config = format!("{{engine: {{name: mine, steps: [{steps}]}}}}");
        let report = report_with("vllm-0.26.0/names", &config);
        let found = report.findings.iter().filter(|finding| finding.what.contains(named));
        assert_eq!(found.count(), 1, "{named}: {:?}", report.findings);
        assert_eq!(steps_of_vllm(&report), 63);
    }
}

fn steps_of_vllm(report: &Report) -> u64 {
    assert_eq!(report.engine.as_ref().and_then(|run| run.engine.as_deref()), Some("vllm"));
    steps(report, "decode").steps
}

#[test]
fn no_kernel_of_an_engine_that_takes_time_is_without_a_class() {
    for capture in ["names", "steps", "ranks", "modules"] {
        let report = report(&format!("vllm-0.26.0/{capture}"));
        let mut of_stage = BTreeMap::<&str, u64>::new();
        let mut unknown = BTreeMap::<(&str, &str), u64>::new();
        for row in &report.kernels {
            *of_stage.entry(&row.stage).or_default() += row.times.total_ns;
            if row.class == "other" {
                *unknown.entry((&row.stage, &row.kernel)).or_default() += row.times.total_ns;
            }
        }
        assert!(of_stage.len() > 2, "{capture}: {of_stage:?}");
        unknown.retain(|(stage, _), ns| *ns * 100 > of_stage[stage]);
        assert!(unknown.is_empty(), "{capture}: {unknown:?} of {of_stage:?}");
    }
}
