//! Workloads that fail, under the collector or only under another profiler: what runs after them, what
//! every page says first, and passes that a user cannot do without (`--require`).

use crate::common::trace::Build;
use crate::common::{self, Sandbox, expect_parts, fake_ncu, stderr};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::{Value, json};
use stage2_contract::trace::NONE;

/// Runs the workload under a variable that tells it.
const NCU: &str = r#"UNDER=ncu "$@"; code=$?
[ $code = 0 ] || echo "==ERROR== The application returned an error code ($code)." > "$log"
echo report > "$out""#;

/// A sandbox with both tools and a trace file of one kernel, whose process ended in order.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.executable("tools/nsys", common::FAKE_NSYS);
    sandbox.executable("tools/ncu", &fake_ncu(r#"echo '"ID","Kernel Name"'"#, NCU));
    let mut b = Build::process(1, "python3");
    b.anchor(1).name(1, b"prefill").path(1, NONE, 1).open(1, 1, 0, 10).close(1, 20);
    b.device(0, "NVIDIA H200", 1).name(2, b"k").shape(1, 2, 1).kernel(1, 1, 1, (12, 14)).end();
    b.save(&sandbox.path("recorded"), "h-1.s2t");
    sandbox
}

/// Runs a workload that leaves the trace file under the collector and then does `end`.
fn launch(sandbox: &Sandbox, options: &[&str], end: &str) -> assert_cmd::assert::Assert {
    let recorded = sandbox.path("recorded/collector");
    let script = format!(
        "echo ran >> count; [ -n \"$STAGE2_OUT\" ] && cp {}/*.s2t \"$STAGE2_OUT\"; {end}",
        recorded.display()
    );
    let mut command = sandbox.launch_strictly(&[options, &["--", "sh", "-c", &script]].concat());
    command.env("PATH", sandbox.tools_path()).assert()
}

fn passes(sandbox: &Sandbox) -> Value {
    let run = sandbox.run_json();
    let passes = run["passes"].as_array().expect("passes").iter();
    passes.map(|pass| json!([pass["name"], pass["status"]])).collect()
}

fn named(states: [&str; 3]) -> Value {
    ["collect", "nsys", "ncu"]
        .iter()
        .zip(states)
        .map(|(name, state)| json!([name, state]))
        .collect()
}

/// What stands on a page before the verdict, and the verdict.
fn head(sandbox: &Sandbox, page: &str) -> String {
    let text = sandbox.read(page);
    // report.html has its contents in front.
    let text = &text[text.find("<header").unwrap_or(0)..];
    let end = text.find("Coverage").expect("coverage");
    // There the verdict is in the line behind its label, or in the same.
    let lines: Vec<&str> = text[end..].split_inclusive('\n').take(2).collect();
    format!("{}{}", &text[..end], lines.concat())
}

/// Hazard (Hostile environments): The workload fails under the collector.
/// Promise: Its status wins, and no profiler runs it again.
#[test]
fn no_profiler_runs_a_workload_again_that_failed_under_the_collector() {
    let sandbox = sandbox();
    launch(&sandbox, &[], "exit 77")
        .code(77)
        .stderr(contains("the workload failed: exit status 77"))
        .stderr(contains("[2/3] nsys: left out").and(contains("--keep-going")));
    assert_eq!(sandbox.count(), 1);
    assert_eq!(passes(&sandbox), named(["workload_failed", "skipped", "skipped"]));
    let run = sandbox.run_json();
    assert_eq!(run["schema"], 2);
    for pass in 1..3 {
        let why = run["passes"][pass]["why"].as_str().expect("why");
        assert!(why.contains("exit status 77 in the collect pass; --keep-going"), "{why}");
    }
    let findings = run["findings"].to_string();
    assert!(findings.contains("passes left out: nsys, ncu"), "{findings}");
    // Every kernel record is there, and the run is not whole.
    let metrics = sandbox.json("metrics.json");
    for verdict in [&run["coverage"]["verdict"], &metrics["coverage"]["verdict"]] {
        assert_eq!(verdict["status"], "partial");
        let text = verdict["text"].as_str().expect("text");
        let covered = "PARTIAL, with 1 GPU records: they cover the run until it failed; until then";
        assert!(text.starts_with(covered), "{text}");
        assert!(text.contains("until then no known lost records"), "{text}");
    }
    let end = &metrics["run"]["workload_end"];
    assert_eq!((&end["how"], &end["exit"]), (&json!("failure"), &json!({"code": 77})));
    for page in ["stakeholder_summary.md", "report.md", "report.html", "kernels.md"] {
        let head = head(&sandbox, page);
        expect_parts(&head, page, &["Ended early:", "PARTIAL"]);
        assert!(head.contains("the workload failed: exit status 77"), "{page}: {head}");
    }
    // The same once more, from the files.
    let newest = sandbox.latest("").display().to_string();
    sandbox.launch_strictly(&["report", &newest]).assert().success();
    assert_eq!(sandbox.run_json()["coverage"], run["coverage"]);
    launch(&sandbox, &[], "exit 0").code(0);
    assert_eq!(sandbox.count(), 1 + 3);
    let summary = sandbox.read("stakeholder_summary.md");
    expect_parts(&summary, "summary", &["!Ended early", "complete: no known lost records"]);
}

/// Hazard (Hostile environments): The workload fails after it has used the GPU.
/// Promise: Its failure is said before all else, what it did has a report, and `latest` stays.
#[test]
fn the_failure_is_said_first_and_latest_stays_as_it_was() {
    let sandbox = sandbox();
    let first = stderr(&launch(&sandbox, &["--light"], "exit 3").code(3));
    assert!(!first.contains("latest"), "{first}");
    assert!(!sandbox.path("tmp/stage2/latest").is_symlink());
    launch(&sandbox, &["--light"], "exit 0").code(0);
    let latest = || std::fs::read_link(sandbox.path("tmp/stage2/latest")).expect("a link");
    let before = latest();
    let said = stderr(&launch(&sandbox, &["--light"], "exit 3").code(3));
    assert_eq!(latest(), before);
    let at = |part: &str| said.find(part).unwrap_or_else(|| panic!("no {part}: {said}"));
    let failure = at("error: the workload failed: exit status 3");
    // What became of `latest` follows from it.
    assert!(
        failure < at("coverage: ") && at("coverage: ") < at("latest still points to "),
        "{said}"
    );
    assert!(said.contains("Fix the workload (exit status 3), then run again"), "{said}");
    assert_eq!(said.matches("error: ").count(), 1, "{said}");
    assert!(said.find("warning: ").is_none_or(|warning| failure < warning), "{said}");
    let last = said.lines().last().expect("lines");
    assert!(last.starts_with("report: ") && last.ends_with("/report.html"), "{said}");
}

#[test]
fn with_keep_going_every_pass_runs_and_none_of_a_failing_workload_is_ok() {
    let sandbox = sandbox();
    launch(&sandbox, &["--keep-going"], "exit 3").code(3);
    assert_eq!(sandbox.count(), 3);
    let failed = "workload_failed";
    assert_eq!(passes(&sandbox), named([failed, failed, failed]));
    let findings = sandbox.run_json()["findings"].to_string();
    expect_parts(&findings, "findings", &["!ended differently", "!left out"]);
    assert!(!sandbox.read("nsys/run.sqlite").is_empty(), "what was captured is kept");
    assert!(!sandbox.read("ncu/raw.csv").is_empty());
    for words in [
        &["report", "tmp/stage2/latest", "--keep-going"][..],
        &["merge", "--spool", "recorded/collector", "-o", "out", "--keep-going"],
        &["bench", "--keep-going", "--", "true"],
    ] {
        sandbox.launch_strictly(words).assert().code(2).stderr(contains("--keep-going"));
    }
}

#[test]
fn a_failure_under_a_profiler_alone_is_a_finding_and_costs_the_coverage_nothing() {
    let sandbox = sandbox();
    let end =
        "[ -z \"$UNDER\" ] || { echo 'torch.OutOfMemoryError: CUDA out of memory.' >&2; exit 9; }";
    launch(&sandbox, &[], end).code(0).stderr(
        contains("the workload ended differently under nsys: exit status 9")
            .and(contains("likely cause: the memory of a GPU ran out"))
            .and(contains("the workload ended with status 9 under ncu")),
    );
    assert_eq!(passes(&sandbox), named(["ok", "workload_failed", "workload_failed"]));
    let run = sandbox.run_json();
    assert_eq!(run["passes"][1]["why"], "the workload failed: exit status 9");
    assert!(!sandbox.read("report.md").contains("Ended early"), "{run:#}");
    // Of the collector's own records nothing is missing.
    assert_eq!(run["coverage"]["empty"], Value::Null);
}

#[test]
fn memory_that_ran_out_is_named_as_the_likely_cause() {
    let sandbox = sandbox();
    let error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
    let end = format!("echo noise; echo '{error}' >&2; exit 1");
    let light = ["run.mode=light", "run.tee=true"];
    launch(&sandbox, &light, &end).code(1).stderr(contains("the memory of a GPU ran out"));
    for page in ["stakeholder_summary.md", "report.md", "report.html"] {
        let parts = ["likely cause: the memory of a GPU ran out", "Tried to allocate"];
        expect_parts(&head(&sandbox, page), page, &parts);
    }
    let finding = sandbox.run_json()["report_findings"].to_string();
    assert!(finding.contains("see collector/stderr.log"), "{finding}");
    let killed = launch(&sandbox, &["run.mode=light"], "kill -9 $$").code(137);
    killed.stderr(contains("out-of-memory killer").and(contains("run.tee=true")));
    // A SIGKILL of ours is no riddle.
    let stubborn = "trap '' TERM; while :; do sleep 0.1; done";
    let words = ["run.mode=light", "run.timeout_s=1", "run.kill_grace_s=0"];
    launch(&sandbox, &words, stubborn).code(124).stderr(contains("out-of-memory").not());
    let verdict = sandbox.run_json()["coverage"]["verdict"].clone();
    assert_eq!(verdict["status"], "partial");
    let text = verdict["text"].as_str().expect("text");
    assert!(text.contains("they cover the run until its time limit"), "{text}");
}

#[test]
fn a_required_pass_that_left_nothing_ends_the_run_with_70() {
    let sandbox = sandbox();
    let line = |parts: [&str; 2]| {
        let parts = parts.map(str::to_owned);
        predicate::function(move |text: &str| {
            let lines = text.lines().filter(|line| line.contains("--require:"));
            let lines: Vec<&str> = lines.collect();
            lines.len() == 1 && parts.iter().all(|part| lines[0].contains(part.as_str()))
        })
    };
    let line_of = |parts: [&'static str; 3]| {
        predicate::function(move |text: &str| {
            text.lines().count() == 1 && parts.iter().all(|part| text.contains(part))
        })
    };
    let light = ["-q", "run.mode=light", "--require", "collect"];
    launch(&sandbox, &light, "exit 0").code(0).stderr("");
    // Known before anything runs: the workload is not started.
    let light = ["-q", "run.mode=light", "--require", "collect,nsys"];
    let unmet = line_of(["--require", "nsys: the plan has no such pass", "run.mode=deep"]);
    launch(&sandbox, &light, "touch started").code(70).stderr(unmet);
    assert!(!sandbox.path("started").exists());
    let again = ["-q", "report", "tmp/stage2/latest", "--require", "nsys"];
    sandbox.launch_strictly(&again).assert().code(70).stderr(line(["nsys", "run.mode=deep"]));
    let merge = ["-q", "merge", "--spool", "recorded/collector", "-o", "out", "--require", "ncu"];
    sandbox.launch_strictly(&merge).assert().code(70).stderr(line(["there is no ncu pass", ""]));
    // It is there, and the stand-in's tables cannot be read.
    let deep = ["-q", "--require", "nsys", "--require", "ncu"];
    let both = line(["the nsys pass left nothing", "the ncu pass left nothing"]);
    launch(&sandbox, &deep, "exit 0").code(70).stderr(both);
    let failing = "[ \"$UNDER\" != nsys ] || exit 9";
    let why = line(["the nsys pass failed: the workload failed: exit status 9", ""]);
    launch(&sandbox, &deep[..3], failing).code(70).stderr(why);
    std::fs::remove_file(sandbox.path("tools/nsys")).expect("tool");
    let gone = line_of(["--require", "nsys", "command not found"]);
    launch(&sandbox, &deep[..3], "touch started").code(70).stderr(gone);
    assert!(!sandbox.path("started").exists());
    let dry = ["--dry-run", "--require", "nsys,baseline"];
    launch(&sandbox, &dry, "exit 0").code(0).stderr(
        contains("exit with status 70: --require nsys: `nsys`: command not found")
            .and(contains("--require baseline: the plan has no such pass")),
    );
    launch(&sandbox, &["--require", "nsight"], "exit 0")
        .code(2)
        .stderr(contains("collect, nsys, ncu"));
}

#[test]
fn a_run_that_holds_nothing_leaves_the_latest_one_and_its_own_words_come_first() {
    let sandbox = sandbox();
    launch(&sandbox, &["--light"], "exit 0").code(0);
    let latest = sandbox.path("tmp/stage2/latest");
    let before = std::fs::read_link(&latest).expect("a link");
    let dead = sandbox.launch_strictly(&["--light", "--", "sh", "-c", "exit 2"]).assert().code(2);
    let said = stderr(&dead);
    let (first, rest) = said.split_once("EMPTY: ").expect("a verdict");
    let verdict = "no GPU work was recorded: the workload failed: exit status 2";
    assert!(rest.starts_with(verdict), "{said}");
    assert!(!first.contains("driver"), "its own reason comes first: {said}");
    assert!(said.matches("no GPU that CUDA can use").count() <= 1, "{said}");
    assert_eq!(said.matches("the workload failed").count(), 1, "it is said once: {said}");
    assert!(said.contains("latest still points to the previous run"), "{said}");
    assert_eq!(std::fs::read_link(&latest).expect("a link"), before);
    // With -q, one error has the reason.
    let words = ["-q", "--light", "--", "sh", "-c", "exit 0"];
    let said = stderr(&sandbox.launch_strictly(&words).assert().code(70));
    assert_eq!(said.matches("no GPU work was recorded").count(), 1, "{said}");
}
