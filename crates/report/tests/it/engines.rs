//! Captures of real engines -> steps by kind and batch, modules by path, and a floor without configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use stage2_contract::text::redact::Redactor;
use stage2_contract::trace::{
    self, Field, FieldValue, GpuWork, MonoNs, Process, RangeOpen, Record, Writer,
};
use stage2_model::{EngineSteps, Report};
use stage2_read::trace::file::Trace;
use stage2_report::llm::command_model::CommandModel;
use stage2_report::{Settings, Sources, analyse};

/// The report of a capture below tests/fixtures/engines, as of a run without settings.
fn report(capture: &str) -> Report {
    report_with(capture, "{}")
}

/// The report of a capture, as of a run whose `config.yaml` is `config`.
fn report_with(capture: &str, config: &str) -> Report {
    report_of(&run_of(capture), config)
}

fn report_of(run: &tempfile::TempDir, config: &str) -> Report {
    fs::write(run.path().join("config.yaml"), config).expect("a configuration");
    let settings = Settings::of_run(run.path());
    analyse(&Sources::of_run(run.path()), &settings).report
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/engines").join(name)
}

/// The folder of a run that left a capture.
fn run_of(capture: &str) -> tempfile::TempDir {
    let from = fixture(capture);
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
    run
}

/// Makes the command of the run name its model, which the hook does not record.
fn named_by_command(run: &Path, words: &[&str]) {
    let model = tempfile::tempdir().expect("a folder");
    let hook = run.join("hook");
    for entry in hook.read_dir().expect("the hook") {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("a configuration");
        let engine: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        fs::write(model.path().join("config.json"), engine["config"].to_string()).expect("a file");
    }
    fs::remove_dir_all(hook).expect("removed");
    let command: Vec<_> = ["vllm", "serve", "."].iter().chain(words).map(Into::into).collect();
    let kept = CommandModel::keep(run, &command, model.path(), &|_| None, &Redactor::default());
    assert_eq!(kept, None);
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
    // 16 prompts, 64 tokens each: the first one comes from the prompts' steps. The first step of a kind is cold.
    let decode = steps(&report, "decode");
    assert_eq!((decode.steps, decode.decode_requests_mean.round()), (63, 16.0));
    assert_eq!(
        (decode.rows.last().map(|row| row.requests), decode.p50_ns),
        (Some(16), Some(3_662_116))
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
fn the_model_that_the_command_names_gives_what_the_engine_said() {
    for (capture, words) in [("steps", &[][..]), ("ranks", &["--tensor-parallel-size", "2"])] {
        let capture = format!("vllm-0.26.0/{capture}");
        let run = run_of(&capture);
        named_by_command(run.path(), words);
        let numbers = |report: Report| report.insight.utilisation.expect("a model").numbers;
        let (told, named) = (numbers(report(&capture)), numbers(report_of(&run, "{}")));
        assert_eq!(named.stages, told.stages, "{capture}");
        let says = |line: &&String| line.contains("config.json, which the command names (.)");
        assert_eq!(named.assumptions.iter().filter(says).count(), 1, "{:?}", named.assumptions);
        // The model of the user's choice counts, and the command can be ignored.
        let used = |config| report_of(&run, config).insight.utilisation.expect("an answer");
        let own = "{model: {llm: {name: own, shape: {hidden_size: 64, num_hidden_layers: 1, vocab_size: 9, \
                   attention: {num_attention_heads: 1, num_key_value_heads: 1, head_dim: 64}, \
                   mlp: {intermediate_size: 64, gated: true}}}}}";
        assert_eq!(used(own).model_name.as_deref(), Some("own"));
        let off = used("{model: {from_command: false}}");
        assert_eq!(off.model_name, None);
        assert!(off.absent.is_some_and(|why| why.starts_with("no model is configured")));
    }
}

#[test]
fn steps_that_do_not_say_how_long_the_context_is_ask_for_the_prompt() {
    let run = run_of("vllm-0.26.0/names");
    fs::copy(fixture("vllm-0.26.0/steps/engine-3377.json"), run.path().join("hook/engine-1.json"))
        .expect("a copy");
    named_by_command(run.path(), &[]);
    let floor = |report: &Report| {
        let floor = report.answer.lines.iter().find(|line| line.label == "floor");
        floor.expect("a floor").text.clone()
    };
    let asked = report_of(&run, "{}");
    assert!(floor(&asked).contains("decode: not known (prompt_tokens is"), "{}", floor(&asked));
    let needs = &asked.insight.utilisation.as_ref().expect("a model").needs;
    assert_eq!(needs.settings, ["model.tokens.prompt_tokens=N"]);
    let known = report_of(&run, "{model: {tokens: {prompt_tokens: 512}}}");
    assert!(floor(&known).contains("decode 0."), "{}", floor(&known));
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

/// The report of a capture that knows the range of the capture of the nodes of which `knows` is true.
fn report_with_captures(capture: &str, knows: fn(u64) -> bool) -> Report {
    let run = run_of(capture);
    let folder = run.path().join("collector");
    let files: Vec<PathBuf> =
        folder.read_dir().expect("files").map(|f| f.expect("one").path()).collect();
    for path in files {
        let mut seen = BTreeSet::new();
        let to = fs::File::create(path.with_extension("")).expect("a file");
        let mut writer = Writer::new(to).expect("a header");
        for record in Trace::open(&path).expect("a trace") {
            let record = record.expect("a record");
            if let Record::Work(GpuWork { graph_node: node, .. }) = record
                && node != 0
                && knows(node)
                && seen.insert(node)
            {
                writer.write(&Record::GraphNode { node, path: trace::NONE, range: 0 });
            }
            writer.write(&record);
        }
        writer.flush().expect("a disk");
        fs::remove_file(path).expect("removed");
    }
    report_of(&run, "{}")
}

#[test]
fn replays_by_the_range_of_their_capture_are_all_kernels_of_graphs() {
    let report = report_with_captures("vllm-0.26.0/steps", |node| node.is_multiple_of(2));
    let mut left: BTreeMap<&String, [u64; 2]> = BTreeMap::new();
    for row in &report.kernels {
        left.entry(&row.path).or_default()[0] += row.times.graph_calls;
    }
    for row in &report.graph_captures {
        left.entry(&row.replay_path).or_default()[1] += row.kernels;
    }
    assert_eq!(left[&"decode".to_owned()], [146_101, 146_101]);
    assert!(left.values().all(|[of_graphs, captured]| of_graphs == captured), "{left:?}");
    let places: BTreeSet<&str> =
        report.graph_captures.iter().map(|row| row.capture_path.as_str()).collect();
    assert_eq!(places, ["(outside ranges)", "(range of the capture not known)"].into());
    // Where no capture is known, there is nothing to tell.
    assert_eq!(report_with_captures("vllm-0.26.0/steps", |_| false).graph_captures, []);
}

#[test]
fn no_kernel_of_an_engine_that_takes_time_is_without_a_class() {
    for capture in ["names", "steps", "ranks", "modules", "requests"] {
        let report = report(&format!("vllm-0.26.0/{capture}"));
        let mut of_stage = BTreeMap::<&str, u64>::new();
        let mut unknown = BTreeMap::<(&str, &str), u64>::new();
        for row in &report.kernels {
            // Outside of the steps, Inductor tries kernels without a name of their own.
            if row.stage == "(outside ranges)" {
                continue;
            }
            *of_stage.entry(&row.stage).or_default() += row.times.total_ns;
            if row.class == "other" {
                *unknown.entry((&row.stage, &row.kernel)).or_default() += row.times.total_ns;
            }
        }
        assert!(of_stage.len() >= 2, "{capture}: {of_stage:?}");
        unknown.retain(|(stage, _), ns| *ns * 100 > of_stage[stage]);
        assert!(unknown.is_empty(), "{capture}: {unknown:?} of {of_stage:?}");
    }
}

/// Name, begin and end, and fields of a range.
type ServedRange<'f> = (&'static str, [u64; 2], &'f [(&'static str, i64)]);

/// A trace file in which ranges open and close one after the other.
fn trace(path: &Path, pid: u32, ranges: &[ServedRange<'_>]) {
    let mut writer = Writer::new(fs::File::create(path).expect("a file")).expect("a header");
    writer.write(&Record::Process(Process { pid, host: "h".into(), ..Process::default() }));
    let mut names: Vec<&'static str> = Vec::new();
    for (range, (name, [start, end], fields)) in (1..).zip(ranges) {
        let mut id = |writer: &mut Writer<fs::File>, name| {
            let known = names.iter().position(|known| *known == name);
            let at = known.unwrap_or_else(|| {
                names.push(name);
                let (id, bytes) = (names.len() as u32, name.as_bytes().to_vec());
                writer.write(&Record::Name { id, bytes });
                writer.write(&Record::Path(trace::Path { id, parent: 0, name: id, domain: 0 }));
                names.len() - 1
            });
            at as u32 + 1
        };
        let path = id(&mut writer, name);
        let start = MonoNs(*start);
        let open = RangeOpen { range, path, thread: 1, start, ..RangeOpen::default() };
        writer.write(&Record::RangeOpen(open));
        let field = |(name, value): &(&'static str, i64)| (*name, FieldValue::I64(*value));
        let fields = fields.iter().map(field);
        let fields = fields.map(|(name, value)| Field { name: id(&mut writer, name), value });
        let fields = fields.collect();
        writer.write(&Record::RangeFields { range, fields });
        writer.write(&Record::RangeClose { range, end: MonoNs(*end) });
    }
    writer.write(&Record::End { reason: "exit".into() });
    writer.flush().expect("written");
}

const STEP: i64 = 9 << 32;

/// A prompt of 10 tokens, then one of 5 with a token of the first request, then a token of each.
fn served(config: &str) -> Report {
    let run = tempfile::tempdir().expect("a folder");
    let collector = run.path().join("collector");
    fs::create_dir(&collector).expect("a folder");
    let prompt =
        |tokens, step| [("prefill_requests", 1), ("prefill_tokens", tokens), ("step", step)];
    let decode = |requests| [("decode_requests", requests), ("decode_tokens", requests)];
    trace(
        &collector.join("h-2.s2t"),
        2,
        &[
            // A warm-up step, which no request asked for.
            ("prefill", [100, 200], &prompt(512, 0)),
            ("prefill", [1_000, 1_090], &prompt(10, STEP + 1)),
            ("mixed", [1_100, 1_200], &[&prompt(5, STEP + 2)[..], &decode(1)].concat()),
            ("decode", [1_220, 1_280], &[&decode(2)[..], &[("step", STEP + 3)]].concat()),
        ],
    );
    let request = |steps: [i64; 3], number, arrived, queue, first, total, prompt, output| {
        let [first_step, prompt_step, last_step] = steps.map(|step| STEP + step);
        [
            ("request", number),
            ("arrived_ns", arrived),
            ("queue_ns", queue),
            ("first_token_ns", first),
            ("total_ns", total),
            ("prompt_tokens", prompt),
            ("output_tokens", output),
            ("first_step", first_step),
            ("prompt_step", prompt_step),
            ("last_step", last_step),
            ("prompt_steps", 1),
        ]
    };
    let [a, b] = [
        request([1, 1, 3], 1, 700, 290, 400, 590, 10, 3),
        request([2, 2, 3], 2, 990, 105, 220, 300, 5, 2),
    ];
    // No step worked on it.
    let none = [("request", 3), ("queue_ns", -1), ("first_step", -1), ("aborted", 1)];
    // It ends twice.
    let records = [&a[..], &b, &none, &b].map(|fields| ("stage2.request", [1_290, 1_291], fields));
    trace(&collector.join("h-1.s2t"), 1, &records);
    fs::write(run.path().join("config.yaml"), config).expect("a configuration");
    let settings = Settings::of_run(run.path());
    analyse(&Sources::of_run(run.path()), &settings).report
}

#[test]
fn records_of_a_scheduler_and_steps_of_a_worker_give_requests_their_times_and_their_price() {
    let report = served("{report: {gpu_hour_dollars: 3.6}}");
    assert!(!stages(&report).contains(&"stage2.request"), "{:?}", stages(&report));
    let run = report.engine.as_ref().expect("an engine");
    // The first request arrived 300 ns before its step, in a pause that began at 200 ns.
    assert_eq!((run.pause_ns, run.waiting_pause_ns), (800, Some(300)));
    let requests = run.requests.as_ref().expect("requests");
    assert_eq!((requests.requests, requests.aborted, requests.unsound_records), (3, 1, 1));
    assert_eq!((requests.first_token.p50_ns, requests.queue.max_ns), (Some(310), Some(290)));
    assert_eq!(requests.token.p50_ns, Some((95 + 80_u64).div_ceil(2)));
    let slowest: Vec<_> = requests.slowest.iter().map(|row| (row.number, row.gpu_ns)).collect();
    // The first: 100, a sixth of 120 and half of 60. The second: five sixths of 120 and half of 60.
    assert_eq!(slowest, [(1, Some(150)), (2, Some(130)), (3, None)]);
    let cost = requests.cost.as_ref().expect("a cost");
    assert_eq!((cost.steps_gpu_ns, cost.requests_gpu_ns, cost.run_gpu_ns), (280, 280, 280));
    assert_eq!((cost.gpu_time.p50_ns, cost.gpu_time.max_ns), (Some(140), Some(150)), "exactly");
    let dollars = cost.output.dollars_per_million.expect("a price");
    assert!((dollars - 1e-12 * 80.0 / 5.0 * 1e6).abs() < 1e-15, "{dollars}");
    let twice = report.findings.iter().filter(|found| found.what.contains("1 record of requests"));
    assert_eq!(twice.count(), 1, "{:?}", report.findings);
}

#[test]
fn requests_of_a_server_of_vllm_add_up_to_its_steps() {
    let report = report_with("vllm-0.26.0/requests", "{report: {gpu_hour_dollars: 2.5}}");
    let requests = report.engine.as_ref().and_then(|run| run.requests.as_ref()).expect("requests");
    // The client streamed 4 x 16 requests with 512 prompt tokens and 64 output tokens: 75.996 ms to
    // the first token and 3.642 ms for each further token, HTTP included.
    assert_eq!((requests.requests, requests.aborted, requests.unsound_records), (64, 0, 0));
    assert_eq!((requests.prompt_tokens, requests.output_tokens), (64 * 512, 64 * 64));
    assert_eq!(
        (requests.first_token.p50_ns, requests.token.p50_ns),
        (Some(67_661_609), Some(3_633_835))
    );
    let cost = requests.cost.as_ref().expect("a cost");
    assert_eq!((cost.whole_requests, cost.approximate_gpu_ns, cost.gpus), (64, 0, 1));
    let nobody = cost.steps_gpu_ns - cost.requests_gpu_ns;
    assert!(nobody <= 2 * 64, "{nobody} ns of {}", cost.steps_gpu_ns);
    // The steps without a number, those of the warm-up, are all others outside of pauses.
    let run = report.engine.as_ref().expect("an engine");
    assert!(cost.unnumbered_gpu_ns > 0);
    let steps_ns = cost.steps_gpu_ns + cost.unnumbered_gpu_ns;
    assert_eq!(steps_ns, run.extent_ns - run.pause_ns);
    let dollars = |cost: &stage2_model::TokenCost| cost.dollars_per_million.expect("a price");
    // The GPU works 31 times as long for an output token as for a prompt token.
    assert!((25.0..40.0).contains(&(dollars(&cost.output) / dollars(&cost.input))));
    let time = report.answer.lines.iter().find(|line| line.label == "time").expect("a line");
    let said = "; requests 67.66 ms to the first token, 3.63 ms per further token (p50 of 64)";
    assert!(time.text.contains(said), "{}", time.text);
}

#[test]
fn a_price_that_cannot_be_is_named_and_nothing_else_is_lost() {
    for price in ["-1", "1e300", "0", "cheap", "[2]"] {
        let report = served(&format!("{{report: {{gpu_hour_dollars: {price}}}}}"));
        let named = |found: &&stage2_model::Finding| found.what.contains("report.gpu_hour_dollars");
        let requests = report.engine.and_then(|run| run.requests).expect("requests");
        assert_eq!(requests.cost.and_then(|cost| cost.input.dollars_per_million), None, "{price}");
        assert_eq!(report.findings.iter().filter(named).count(), 1, "{price}");
    }
}
