//! Runs without GPU work: each cause is named alike on the first screens, in `metrics.json` and for the
//! terminal, and a remedy stands beside it.

use serde_json::{Value, json};
use stage2_contract::trace::NONE;

use crate::common::trace::{Build, RunFolder};

/// A process that opened one range.
fn process() -> Build {
    let mut b = Build::process(7, "python3");
    b.anchor(1).name(1, b"decode").path(1, NONE, 1).open(1, 1, 0, 10).close(1, 20);
    b
}

/// A run folder as the launcher leaves it: its collect pass, and what the machine has.
fn folder(exit: Value, extra: Value, gpu_absent: Option<&str>) -> RunFolder {
    let folder = RunFolder::new();
    std::fs::create_dir(folder.path("collector")).expect("folder");
    let mut pass = json!({"name": "collect", "status": "ok", "exit": exit});
    for (key, value) in extra.as_object().expect("object") {
        pass[key] = value.clone();
    }
    let run = json!({"schema": 1, "state": "closed", "passes": [pass]});
    folder.write("run.json", run.to_string()).write("config.yaml", "{}");
    let env = json!({"gpu": {"devices": [], "absent": gpu_absent}});
    folder.write("env.json", env.to_string());
    folder
}

/// The causes in order, after checking that every view tells the first of them.
fn causes(folder: &RunFolder) -> Vec<String> {
    let outcome = folder.reports();
    let metrics = folder.metrics();
    let empty = &metrics["coverage"]["empty"];
    assert_eq!(outcome.coverage["empty"], *empty, "run.json holds the same");
    assert_eq!(metrics["coverage"]["verdict"]["status"], "empty");
    let text = |key: &str| empty[key].as_str().expect(key).to_owned();
    let (why, remedy) = (text("why"), text("remedy"));
    assert!(!remedy.is_empty());
    let verdict = metrics["coverage"]["verdict"]["text"].as_str().expect("text");
    assert!(verdict.starts_with("EMPTY: no GPU work was recorded: ") && verdict.contains(&why));
    let lines: Vec<&str> = outcome.headline.answer.iter().map(|line| &*line.label).collect();
    assert_eq!(lines, ["coverage", "to do"], "what else there is says nothing");
    assert!(outcome.headline.answer[0].text.contains(&why), "{:?}", outcome.headline);
    assert_eq!(outcome.headline.answer[1].text, remedy);
    let told = outcome.findings.iter().filter(|f| f.what.contains(&why) && f.remedy == remedy);
    assert_eq!(told.count(), 1, "{:#?}", outcome.findings);
    // Pages escape Markdown: compare words.
    let words = |text: &str| text.replace(['\\', '`', '*', '_'], "");
    for page in ["stakeholder_summary.md", "report.md", "kernels.md"] {
        assert!(words(&folder.text(page)).contains(&words(&why)), "{page}: {why}");
    }
    assert!(words(&folder.text("stakeholder_summary.md")).contains(&words(&remedy)), "{remedy}");
    let also = empty["also"].as_array().cloned().unwrap_or_default();
    let all = [vec![empty.clone()], also].concat();
    all.iter().map(|one| one["cause"].as_str().expect("cause").to_owned()).collect()
}

fn of(exit: Value, gpu_absent: Option<&str>, processes: &[&Build]) -> Vec<String> {
    let folder = folder(exit, json!({}), gpu_absent);
    for (at, process) in processes.iter().enumerate() {
        process.save(&folder.path(""), &format!("h-{at}.s2t"));
    }
    causes(&folder)
}

const NO_DRIVER: Option<&str> =
    Some("libcuda.so, the CUDA driver library, is not installed on this machine");

#[test]
fn what_the_trace_files_say_is_named() {
    let ok = || json!({"code": 0});
    let ended = |build: &mut Build| std::mem::take(build);
    let ranges = ended(process().end());
    assert_eq!(of(ok(), None, &[&ranges]), ["cuda_never_initialised"]);
    let off = ended(process().meta("gpu.off", "CUPTI is held by nsys").end());
    assert_eq!(of(ok(), None, &[&off, &ranges]), ["cupti_off"]);
    // What a variable of the user did, it did also where there is no GPU.
    let library = "x.so cannot be loaded; let STAGE2_CUPTI name a libcupti.so, or leave it unset";
    let of_user = ended(process().meta("gpu.off", library).end());
    assert_eq!(of(ok(), NO_DRIVER, &[&of_user]), ["cupti_off", "no_gpu"]);
    assert_eq!(of(ok(), NO_DRIVER, &[&off]), ["no_gpu"]);
    let recorded = ended(process().meta("cupti.version", "26").end());
    assert_eq!(of(ok(), None, &[&recorded]), ["nothing_launched"]);
    assert_eq!(of(ok(), NO_DRIVER, &[&recorded]), ["nothing_launched"], "CUPTI did start");
    let filtered =
        ended(process().meta("cupti.version", "26").meta("ranges", "no_such_range").end());
    assert_eq!(of(ok(), None, &[&filtered]), ["ranges_never_opened"]);
    let forked = ended(process().meta("fork.unrecorded", "2 children: no thread").end());
    assert_eq!(of(ok(), None, &[&forked]), ["children_not_recorded"]);
    let mut cut = process();
    cut.flush().records[0] = Build::process(8, "python3").records.remove(0);
    assert_eq!(of(json!({"signal": 9}), None, &[&cut]), ["killed"]);
    assert_eq!(of(ok(), None, &[&forked, &cut]), ["children_not_recorded", "killed"]);
}

#[test]
fn what_the_run_and_the_machine_say_is_named() {
    let ok = || json!({"code": 0});
    assert_eq!(of(ok(), None, &[]), ["nothing_used"]);
    assert_eq!(of(ok(), NO_DRIVER, &[]), ["no_gpu"]);
    assert_eq!(of(ok(), NO_DRIVER, &[&process()]), ["killed", "no_gpu"]);
    // The simulated GPU is there, and has to be named.
    let demo = folder(ok(), json!({}), NO_DRIVER);
    let mut run: Value = serde_json::from_str(&demo.text("run.json")).expect("JSON");
    for device in [&["--device", "simulated"][..], &["--device=simulated"]] {
        run["command"] = json!([&["bin/stage2-demo"], device].concat());
        demo.write("run.json", run.to_string());
        assert_eq!(causes(&demo), ["no_gpu"]);
        let remedy = demo.metrics()["coverage"]["empty"]["remedy"].to_string();
        assert!(remedy.contains("set STAGE2_CUPTI to the library next to stage2-demo"), "{remedy}");
    }
    let failed = folder(json!({"code": 3}), json!({"status": "workload_failed"}), NO_DRIVER);
    assert_eq!(causes(&failed), ["workload_failed", "no_gpu"]);
    let remedy = failed.metrics()["coverage"]["empty"]["remedy"].to_string();
    assert!(remedy.ends_with("correct its command, and run again\""), "{remedy}");
    let not_asked = Some("the CUDA driver could not be asked: it took longer than 30 s");
    assert_eq!(of(ok(), not_asked, &[]), ["nothing_used"], "nobody knows");
    assert_eq!(of(json!({"signal": 11}), None, &[]), ["killed"]);
    let case = |extra: Value| causes(&folder(json!(null), extra, None));
    assert_eq!(case(json!({"status": "failed", "why": "cannot run x"})), ["not_started"]);
    assert_eq!(case(json!({"not_loaded": "/bin/x: it uses musl"})), ["collector_not_loaded"]);
    let damaged = folder(ok(), json!({}), None);
    damaged.write("collector/h-1.s2t", "no spool");
    assert_eq!(causes(&damaged), ["files_unreadable"]);
}

/// The trace file of a process that was told to end has no last record, either.
#[test]
fn a_time_limit_is_no_signal_from_elsewhere() {
    for (exit, ended) in [(json!({"signal": 15}), "SIGTERM"), (json!({"code": 3}), "status 3")] {
        let folder = folder(exit, json!({"status": "timed_out"}), None);
        process().save(&folder.path(""), "h-0.s2t");
        assert_eq!(causes(&folder)[0], "killed");
        let empty = folder.metrics()["coverage"]["empty"].clone();
        let text = |key: &str| empty[key].as_str().expect(key).to_owned();
        assert!(
            text("why").contains("the time limit ended the workload")
                && text("why").contains(ended)
        );
        assert!(text("remedy").contains("--timeout"), "{empty}");
    }
    // More time alone brings no GPU.
    let folder = folder(json!({"signal": 15}), json!({"status": "timed_out"}), NO_DRIVER);
    assert_eq!(causes(&folder), ["killed", "no_gpu"]);
    let remedy = folder.metrics()["coverage"]["empty"]["remedy"].to_string();
    assert!(remedy.starts_with("\"run on a machine with a GPU"), "{remedy}");
    assert!(remedy.contains("; then give the workload more time"), "{remedy}");
}

#[test]
fn a_run_with_gpu_work_has_no_such_cause() {
    let folder = folder(json!({"code": 0}), json!({}), NO_DRIVER);
    let mut b = process();
    b.device(0, "NVIDIA H200", 1).name(2, b"k").shape(1, 2, 1);
    b.kernel(1, 1, 1, (12, 14)).end().save(&folder.path(""), "h-1.s2t");
    let outcome = folder.reports();
    assert!(outcome.coverage["empty"].is_null());
    assert_eq!(outcome.coverage["verdict"]["status"], "complete");
    assert!(!outcome.findings.iter().any(|finding| finding.what.contains("no GPU work")));
}

#[test]
fn a_record_that_was_never_closed_is_told() {
    let folder = folder(json!(null), json!({"status": "running"}), None);
    let collect = json!({"name": "collect", "status": "running", "exit": null});
    let planned = json!({"name": "nsys", "status": "planned"});
    for (state, told) in [("running", true), ("closed", false), ("reporting", false)] {
        let run = json!({"schema": 1, "state": state, "passes": [collect, planned]});
        let findings = folder.write("run.json", run.to_string()).reports().findings;
        let found = findings.iter().find(|f| f.what == "the run record was never closed");
        assert_eq!(found.is_some(), told, "{state}: {findings:#?}");
        if let Some(found) = found {
            assert!(found.why.contains("during the pass collect") && found.why.contains("nsys"));
        }
    }
}
