//! Runs whose user opened no range: one stage, and steps from the sequence of kernels.

use serde_json::{Value, json};
use stage2_contract::trace::{NONE, RANGE_OUTSIDE};

use crate::common::trace::{Build, RunFolder};

/// From the start of a kernel to that of the next, ns.
const EVERY_NS: u64 = 10_000;
/// Names of decode, of prefill, and others.
const NAMES: u32 = 60;

/// A program that launches kernels one after the other, on queue 1.
struct Program {
    build: Build,
    now: u64,
}

impl Program {
    fn new(pid: u32, exe: &str) -> Self {
        let mut build = Build::process(pid, exe);
        build.anchor(1).device(0, "NVIDIA H200", 1);
        for id in 1..=NAMES {
            build.name(id, format!("_Z9kernel_{id:02}v").as_bytes()).shape(id, id, 8);
        }
        Self { build, now: 1_000 }
    }

    fn kernel(&mut self, name: u32, ns: u64) {
        self.build.kernel(RANGE_OUTSIDE, name, 1, (self.now, self.now + ns));
        self.now += EVERY_NS;
    }

    /// 34 layers of 20 kernels, and 14 others around them: 694. The names are `first` and later.
    fn forward(&mut self, first: u32, layers: u32, ns: u64) {
        (0..4).for_each(|at| self.kernel(1 + at, ns));
        for _ in 0..layers {
            (0..20).for_each(|at| self.kernel(first + at * 3 % 13, ns));
        }
        (0..10).for_each(|at| self.kernel(5 + at, ns));
    }

    /// A prefill of 654 kernels, and `steps` decode steps of 694.
    fn generate(&mut self, steps: u32) {
        self.forward(40, 32, 8_000);
        (0..steps).for_each(|_| self.forward(20, 34, 3_000));
    }

    fn noise(&mut self, count: u32) {
        let mut state = 12_345u32;
        for _ in 0..count {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            self.kernel(1 + (state >> 16) % NAMES, 3_000);
        }
    }
}

fn report_of(programs: &mut [Program]) -> (RunFolder, Value, Vec<String>) {
    let folder = RunFolder::of(programs.iter_mut().map(|program| &*program.build.end()));
    folder.write("config.yaml", "report: {infer_stages: false}\n");
    let headline = folder.reports().headline.lines();
    let metrics = folder.metrics();
    (folder, metrics, headline)
}

fn stage<'m>(metrics: &'m Value, name: &str) -> Option<&'m Value> {
    metrics["stages"].as_array().expect("stages").iter().find(|row| row["stage"] == name)
}

fn finding(metrics: &Value) -> Option<&Value> {
    let findings = metrics["findings"].as_array().expect("findings");
    findings.iter().find(|f| f["what"] == "none of the workload's ranges was recorded")
}

#[test]
fn three_generations_have_their_steps_and_the_process_is_a_stage() {
    let mut program = Program::new(7, "python3");
    program.noise(2_000);
    (0..3).for_each(|_| program.generate(64));
    let (folder, metrics, headline) = report_of(&mut [program]);

    let steps = &metrics["inferred_steps"];
    assert_eq!(steps["label"], "inferred from the kernel sequence");
    let [row] = steps["rows"].as_array().expect("rows").as_slice() else { panic!("{steps:#}") };
    for (key, expected) in [
        ("pid", 7),
        ("kernels_per_step", 694),
        ("graphs_per_step", 0),
        ("steps", 192),
        ("phases", 3),
        ("steps_per_phase_median", 64),
        // The last ten kernels of a prefill are those of a step as well: a step begins with them.
        ("kernel_sum_per_step_ns", 694 * 3_000 + 3 * 10 * 5_000 / 192),
        ("irregular_kernels", 0),
    ] {
        assert_eq!(row[key], expected, "{key}: {row:#}");
    }
    assert_eq!(row["resembles"], "decode_like");
    assert_eq!(row["step_mean_ns"], 694 * EVERY_NS);
    let before = &row["before"];
    assert_eq!((&before["prefill_like"], &before["times"]), (&true.into(), &2.into()));
    assert_eq!(before["kernels_median"], 654, "{before:#}");

    let kernels: u64 = 2_000 + 3 * (654 + 64 * 694);
    let whole = stage(&metrics, "(whole process)").expect("the stage");
    let window = (kernels - 1) * EVERY_NS + 3_000;
    let busy = (2_000 + 3 * 64 * 694) * 3_000 + 3 * 654 * 8_000;
    assert_eq!(whole["kind"], "whole_process");
    assert_eq!(whole["kernels"], kernels);
    assert_eq!((&whole["gpu_window_ns"], &whole["gpu_busy_ns"]), (&window.into(), &busy.into()));
    assert_eq!(whole["gpu_idle_ns"], window - busy);
    assert!(stage(&metrics, "(outside ranges)").is_none());
    let takeaways = metrics["takeaways"].as_array().expect("takeaways");
    let of_stage = |t: &&Value| t["stage"] == "(whole process)";
    let idle = takeaways
        .iter()
        .filter(of_stage)
        .find(|t| t["text"].as_str().is_some_and(|text| text.contains("idle 69.")));
    assert!(idle.is_some(), "{takeaways:#?}");

    let said =
        "inferred from the kernel sequence: decode-like: 192 steps of 694 kernels in 3 phases";
    assert!(headline.iter().any(|line| line.starts_with(said)), "{headline:#?}");
    for (page, title) in [
        ("report.md", "## Inferred steps\n"),
        ("stakeholder_summary.md", "## Inferred steps\n"),
        ("report.html", "Inferred steps</h2>"),
    ] {
        let text = folder.text(page);
        assert!(text.contains(title), "{page}: {text}");
        assert!(text.contains("inferred from the kernel sequence"), "{page}");
        assert!(text.contains("prefill-like"), "{page}");
        assert!(!text.contains("192 tokens"), "{page}");
    }
    let finding = finding(&metrics).expect("it says that there is no range");
    let remedy = finding["remedy"].as_str().expect("text");
    assert!(remedy.contains("--annotate prefill-decode"), "{remedy}");
}

#[test]
fn stages_that_nothing_marked_are_told_where_they_were_asked_for() {
    let config =
        |words: &str| format!("operators: {{annotate: [{words}], pattern: null, top_n: 1}}\n");
    for (words, range, told) in [
        ("prefill-decode", None, true),
        ("prefill-decode", Some("load"), true),
        ("prefill-decode", Some("decode"), false),
        ("torch-ops", None, false),
    ] {
        let mut program = Program::new(7, "/usr/bin/python3");
        if let Some(range) = range {
            let at = program.now;
            program.build.name(90, range.as_bytes()).path(90, NONE, 90).open(90, 90, 0, at);
            program.build.kernel(90, 1, 1, (at, at + 100)).close(90, at + 200);
        }
        program.noise(20);
        let folder = RunFolder::of([&*program.build.end()]);
        let findings = folder.write("config.yaml", config(words)).reports().findings;
        let found =
            findings.iter().find(|f| f.what.starts_with("--annotate prefill-decode was on"));
        assert_eq!(found.is_some(), told, "{words} {range:?}: {findings:?}");
        assert!(found.is_none_or(|f| f.remedy.contains("lines `stage2:`")), "{found:?}");
        let again = findings.iter().any(|f| f.remedy.contains("again with --annotate prefill"));
        assert!(!(told && again), "it was on: {findings:?}");
    }
    // A run that recorded no process shows nothing of what ran.
    let folder = RunFolder::new();
    let findings = folder.write("config.yaml", config("prefill-decode")).reports().findings;
    assert!(!findings.iter().any(|f| f.what.contains("prefill-decode was on")), "{findings:?}");
}

#[test]
fn where_no_period_is_certain_no_step_is_given() {
    let mut program = Program::new(7, "/usr/bin/serve");
    program.noise(30_000);
    (0..4).for_each(|_| program.forward(20, 34, 3_000));
    let (folder, metrics, headline) = report_of(&mut [program]);
    assert_eq!(metrics.get("inferred_steps"), None);
    assert!(!headline.iter().any(|line| line.contains("inferred")), "{headline:#?}");
    let page = folder.text("report.md");
    assert!(!page.contains("Inferred steps"), "{page}");
    let finding = finding(&metrics).expect("it says that there is no range");
    let why = finding["why"].as_str().expect("text");
    assert!(why.contains("its kernels show no clear repeating pattern"), "{why}");
    let remedy = finding["remedy"].as_str().expect("text");
    assert!(!remedy.contains("--annotate"), "no Python: {remedy}");
    assert!(stage(&metrics, "(whole process)").is_some());
}

#[test]
fn a_range_of_the_user_ends_it_and_one_of_a_library_does_not() {
    for (domain, whole) in [(None, false), (Some("NCCL"), true), (Some("mine"), false)] {
        let mut program = Program::new(7, "python3");
        let build = &mut program.build;
        build.name(98, b"ncclCommInitRank");
        let of_domain = build.domain(99, domain);
        build.path_in(1, NONE, 98, of_domain).open(1, 1, 0, 100).close(1, 200);
        (0..2).for_each(|_| program.generate(20));
        let (_folder, metrics, _) = report_of(&mut [program]);
        assert_eq!(metrics.get("inferred_steps").is_some(), whole, "{domain:?}");
        assert_eq!(stage(&metrics, "(whole process)").is_some(), whole, "{domain:?}");
        assert_eq!(stage(&metrics, "(outside ranges)").is_some(), !whole, "{domain:?}");
        assert_eq!(finding(&metrics).is_some(), whole, "{domain:?}");
    }
}

#[test]
fn what_was_recorded_in_a_part_is_no_whole_process() {
    for key in ["ranges", "sample"] {
        let mut program = Program::new(7, "python3");
        program.build.meta(key, if key == "sample" { "1/4" } else { "decode" });
        program.generate(20);
        let (_folder, metrics, _) = report_of(&mut [program]);
        assert_eq!(metrics.get("inferred_steps"), None, "{key}");
        assert!(stage(&metrics, "(whole process)").is_none(), "{key}");
    }
}

#[test]
fn each_process_has_its_own_steps() {
    let mut with_range = Program::new(1, "python3");
    with_range.build.name(98, b"decode").path(1, NONE, 98).open(1, 1, 0, 100).close(1, 200);
    with_range.generate(20);
    let mut long = Program::new(2, "python3");
    long.generate(30);
    let mut short = Program::new(3, "python3");
    short.now = 1_000_000_000;
    (0..25).for_each(|_| short.forward(20, 10, 3_000));
    let (_folder, metrics, headline) = report_of(&mut [with_range, long, short]);
    let rows = metrics["inferred_steps"]["rows"].as_array().expect("rows");
    let keys = ["pid", "kernels_per_step", "steps", "resembles"];
    let seen: Vec<_> = rows.iter().map(|row| keys.map(|key| row[key].clone())).collect();
    let expected = [json!([2, 694, 30, "decode_like"]), json!([3, 214, 25, "repeating"])];
    assert_eq!(json!(seen), json!(expected));
    assert!(headline.iter().any(|line| line.contains("process 3, repeating: 25 steps")));
    let whole = stage(&metrics, "(whole process)").expect("of two processes");
    assert_eq!(whole["kernels"], 654 + 30 * 694 + 25 * 214);
    let outside = stage(&metrics, "(outside ranges)").expect("of the other");
    assert_eq!(outside["kernels"], 654 + 20 * 694);
}
