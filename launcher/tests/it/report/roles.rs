//! What outermost ranges are to the model, by their names: the same numbers however a label is spelled.

use crate::common::trace::{Build, RunFolder};
use crate::common::{LAUNCH, row};
use serde_json::Value;
use stage2_contract::trace::NONE;

/// A step, ns.
const STEP: u64 = 10_000_000;

/// Four generations: a prefill, and a decode of ten steps of three kernels each.
fn generations(prefill: &str, decode: &str, domain: Option<&str>) -> Build {
    let mut build = Build::process(1, "x");
    build.anchor(1).device(0, "NVIDIA H200", 1).name(3, b"k").shape(1, 3, 1).name(4, b"step");
    build.name(1, prefill.as_bytes()).name(2, decode.as_bytes());
    let domain = build.domain(5, domain);
    build.path_in(1, NONE, 1, domain).path_in(2, NONE, 2, domain).path_in(3, 2, 4, domain);
    let mut now = STEP;
    for generation in 0..4u64 {
        let range = 1 + 100 * generation;
        build.open(range, 1, 0, now).kernel(range, 1, 1, (now + 1_000, now + STEP));
        now += 2 * STEP;
        build.close(range, now);
        let around = range + 1;
        build.open(around, 2, 0, now);
        for step in 0..10 {
            let range = around + 1 + step;
            build.open(range, 3, around, now);
            for kernel in 0..3 {
                let start = now + 10_000 + 2_500_000 * kernel;
                build.kernel(range, 1, 1, (start, start + 2_000_000));
            }
            now += STEP;
            build.close(range, now);
        }
        build.close(around, now);
        now += STEP;
    }
    build.end();
    build
}

fn bundle(build: &Build, settings: &[&str]) -> Vec<(&'static str, String)> {
    let folder = RunFolder::of([build]);
    let place = folder.path("");
    let launch = |words: &[&str]| {
        assert_cmd::Command::new(LAUNCH).args(words).current_dir(&place).assert().success();
    };
    launch(&["merge", "--spool", "collector", "-o", "bundle"]);
    launch(&[&["report", "bundle"], settings].concat());
    let names =
        ["metrics.json", "report.md", "kernels.md", "kernels.csv", "stakeholder_summary.md"];
    let place = place.display().to_string();
    let text = |name| folder.text(&format!("bundle/{name}")).replace(&place, "PLACE/");
    names.map(|name| (name, text(name))).into()
}

/// `metrics.json` of such a bundle.
fn metrics(texts: &[(&str, String)]) -> Value {
    serde_json::from_str(&texts[0].1).expect("JSON")
}

const MODEL: [&str; 4] = [
    "model/llm=llama_3_8b",
    "hardware=h200",
    "model.tokens.batch_size=1",
    "model.tokens.prompt_tokens=128",
];

#[test]
fn three_spellings_of_a_label_give_the_same_numbers() {
    let plain = bundle(&generations("prefill", "decode_all", None), &MODEL);
    let metrics = metrics(&plain);
    let used = &metrics["utilisation"];
    assert_eq!(used["tokens"]["decode_steps"], 10, "{used}");
    assert!(used["model"]["generated_tokens_per_s"]["known"].is_number(), "{used}");
    for answer in metrics["answer"]["stages"].as_array().expect("stages") {
        assert!(answer["floor"]["floor_ns"]["known"].is_number(), "{answer}");
    }
    let (_, summary) = &plain[4];
    assert!(!summary.contains("no stage is"), "{summary}");
    let in_a_domain = bundle(&generations("prefill", "decode_all", Some("LLM")), &MODEL);
    let literal = bundle(&generations("LLM@prefill", "LLM@decode_all", None), &MODEL);
    for (spelled, other) in [("@LLM", in_a_domain), ("LLM@", literal)] {
        for ((name, expected), (_, found)) in plain.iter().zip(other) {
            let found = found.replace(spelled, "").replace(r#""domain":"LLM""#, r#""domain":null"#);
            // Each bundle has a time of its own, and files of other lengths.
            let lines = |text: &str| -> Vec<String> {
                let stays = |line: &&str| {
                    !["started", "Started", "UTC", "| `", "| [`", "Total without"]
                        .iter()
                        .any(|word| line.contains(word))
                };
                text.lines().filter(stays).map(str::to_owned).collect()
            };
            for (expected, found) in lines(expected).iter().zip(&lines(&found)) {
                assert_eq!(expected, found, "{name}, {spelled}");
            }
            assert_eq!(expected.lines().count(), found.lines().count(), "{name}");
        }
    }
}

#[test]
fn a_range_of_any_name_is_what_the_configuration_says() {
    let build = generations("read", "write", None);
    let floor = |texts: &[(&str, String)]| {
        let metrics = metrics(texts);
        let line = row(&metrics["answer"]["lines"], "label", "floor");
        line["text"].as_str().expect("text").to_owned()
    };
    let unnamed = floor(&bundle(&build, &MODEL));
    assert!(unnamed.contains("roles.decode=[NAME]"), "{unnamed}");
    assert!(unnamed.contains("write") && unnamed.contains("read"), "{unnamed}");
    let named = [&MODEL[..], &["roles.decode=[write]", "roles.prefill=[read]"]].concat();
    let named = bundle(&build, &named);
    assert!(floor(&named).starts_with("write 3.13 ms per token"), "{}", floor(&named));
    let model = |texts: &[(&str, String)]| metrics(texts)["utilisation"]["model"].clone();
    let (_, report) = &bundle(&build, &["roles.decode=[wrote]"])[1];
    assert!(report.contains("no outermost range fits roles.decode=wrote"), "{report}");
    assert!(!named[1].1.contains("no outermost range fits"), "{}", named[1].1);
    let usual = bundle(&generations("prefill", "decode", None), &MODEL);
    assert_eq!(model(&named), model(&usual));
}
