//! Passes under stand-ins for the profilers: what is run, what is repeated, and what it costs when one
//! of them does not work.

use crate::common::{self, Sandbox, expect_parts, fake_ncu, golden, names_in, stderr, stdout};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

/// Runs its last words as nsys does, writes a report, and obeys a few words of the environment.
const NSYS: &str = r#"#!/bin/sh
case "$1" in
--version) echo "NVIDIA Nsight Systems version ${FAKE_VERSION:-2024.6.2}"; exit 0;;
export|stats)
  for word; do case "$word" in --output=*) out="${word#--output=}";; esac; done
  if [ "$1" = export ]; then echo tables > "$out"
  else echo "Name,Calls" > "${out}_cuda_gpu_kern_sum.csv"; fi
  exit 0;;
esac
[ "$FAKE" = hang ] && exec sleep 60
[ "$FAKE" = fail ] && { echo "FATAL ERROR: no" >&2; exit 1; }
gated=
for word; do case "$word" in
  --output=*) out="${word#--output=}";;
  --capture-range=*) gated=1;;
esac; done
[ "$FAKE" = grow ] && { head -c 3000000 /dev/zero > "$out.qdstrm"; exec sleep 60; }
while [ "$1" ]; do case "$1" in profile|--*) shift;; *) break;; esac; done
"$@"; code=$?
[ -n "$gated" ] && [ "$FAKE" = norange ] && exit $code
echo report > "$out.nsys-rep"
exit $code
"#;

const NCU: &str = r#"[ "$FAKE" = hang ] && exec sleep 60
[ "$FAKE" = perm ] && { echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission" > "$log"; exit 1; }
"$@"; code=$?
[ "$FAKE" = nokernels ] && [ -n "$filtered" ] && { echo "==WARNING== No kernels were profiled." > "$log"; exit $code; }
echo "==PROF== Disconnected" > "$log"
echo report > "$out""#;
const IMPORT: &str = r#"echo '"ID","Kernel Name"'; echo '"0","k"'"#;

fn sandbox(nsys: bool, ncu: bool) -> Sandbox {
    let sandbox = Sandbox::new();
    if nsys {
        sandbox.executable("tools/nsys", NSYS);
    }
    if ncu {
        sandbox.executable("tools/ncu", &fake_ncu(IMPORT, NCU));
    }
    sandbox
}

fn launch(sandbox: &Sandbox, settings: &[&str], fake: &str) -> assert_cmd::Command {
    launch_ending(sandbox, settings, fake, "exit 0")
}

/// stage2-launch with the stand-ins of the tools; `end` is the last command of the workload.
fn launch_ending(
    sandbox: &Sandbox,
    settings: &[&str],
    fake: &str,
    end: &str,
) -> assert_cmd::Command {
    let script = format!("echo ran >> count; echo out; {end}");
    let workload = ["--", "sh", "-c", &script];
    let mut command = sandbox.launch_with_tools(&[settings, &workload].concat());
    command.env("FAKE", fake);
    command
}

#[test]
fn tools_print_tables_with_plain_numbers_and_the_workload_keeps_its_locale() {
    let notes = |word: &str| format!("echo \"{word}: $LC_ALL $LC_NUMERIC\" >> \"$WHERE\"");
    for (variable, of_tables) in [("LC_ALL", "C "), ("LC_NUMERIC", " C")] {
        let sandbox = Sandbox::new();
        let nsys = NSYS.replace("export|stats)", &format!("export|stats)\n  {}", notes("tables")));
        let ncu = fake_ncu(&format!("{}; {IMPORT}", notes("tables")), NCU);
        sandbox.executable("tools/nsys", &nsys);
        sandbox.executable("tools/ncu", &ncu);
        let mut command = launch_ending(&sandbox, &[], "ok", &notes("workload"));
        for other in ["LC_ALL", "LC_NUMERIC"] {
            command.env_remove(other);
        }
        command.env(variable, "de_DE.UTF-8").env("WHERE", sandbox.path("locales"));
        command.assert().success();
        let said = common::read(&sandbox.path("locales"));
        let of_workload = of_tables.replace('C', "de_DE.UTF-8");
        for (who, locale, least) in [("tables", of_tables, 3), ("workload", &of_workload, 3)] {
            let lines: Vec<&str> = said.lines().filter(|line| line.starts_with(who)).collect();
            assert!(lines.len() >= least, "{variable}: {said}");
            assert!(lines.iter().all(|line| *line == format!("{who}: {locale}")), "{said}");
        }
    }
}

fn argv(pass: &Value) -> String {
    let words = pass["argv"].as_array().expect("argv").iter();
    words.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_tool_has_its_pass_and_the_terminal_sees_one_workload() {
    let sandbox = sandbox(true, true);
    let assert = launch(&sandbox, &[], "ok").assert().code(0).stdout("out\n");
    assert.stderr(contains("hold the environment"));
    assert_eq!(sandbox.count(), 3);
    for name in ["collect", "nsys", "ncu"] {
        assert_eq!(sandbox.pass(name)["status"], "ok", "{name}");
    }
    assert!(sandbox.pass("nsys")["environment"]["LD_PRELOAD"].is_null(), "one profiler a pass");
    for file in ["run.nsys-rep", "run.sqlite", "run_cuda_gpu_kern_sum.csv", "SENSITIVE.txt"] {
        assert!(!sandbox.read(&format!("nsys/{file}")).is_empty(), "{file}");
    }
    for file in ["run.ncu-rep", "raw.csv", "details.csv", "sections.txt"] {
        assert!(!sandbox.read(&format!("ncu/{file}")).is_empty(), "{file}");
    }
    assert!(sandbox.read("nsys/cmd.txt").contains("nsys export "));
    assert!(sandbox.read("nsys/log.txt").contains("\nout\n"));
    assert!(sandbox.read("ncu/log.txt").contains("==PROF=="));
}

#[test]
fn tools_that_are_missing_or_too_old_cost_their_passes_only() {
    let none = sandbox(false, false);
    launch(&none, &[], "")
        .assert()
        .code(0)
        .stderr(contains("pipeline.nsys.executable").and(contains("not started").not()));
    for name in ["nsys", "ncu"] {
        let pass = none.pass(name);
        assert_eq!(pass["status"], "skipped");
        assert!(pass["why"].as_str().is_some_and(|why| why.contains("is not installed")), "{pass}");
        assert!(!none.latest(name).exists(), "an empty folder looks like a capture that failed");
    }
    assert_eq!(none.count(), 1);
    let old = sandbox(true, true);
    let mut command = launch(&old, &[], "");
    command.env("FAKE_VERSION", "2021.1.0").assert().code(0).stderr(contains("older than 2022.4"));
    assert_eq!(old.pass("ncu")["status"], "skipped");
    assert_eq!(old.count(), 1);
}

#[test]
fn failures_and_time_limits_are_told_and_the_rest_goes_on() {
    let failing = sandbox(true, true);
    launch(&failing, &[], "fail").assert().code(0);
    assert_eq!(failing.pass("nsys")["status"], "failed");
    assert_eq!(failing.pass("ncu")["status"], "ok");
    let hanging = sandbox(true, true);
    let limits = ["pipeline.nsys.time_limit_s=1", "pipeline.ncu.time_budget_s=1"];
    launch(&hanging, &limits, "hang").assert().code(0).stderr(contains("within 1 s"));
    assert_eq!(hanging.pass("nsys")["status"], "failed");
    assert_eq!(hanging.pass("ncu")["status"], "failed");
    assert!(hanging.read("kernels.md").contains('#'), "the reports are written");
}

#[test]
fn a_profiler_that_writes_too_much_is_ended_and_told() {
    let sandbox = sandbox(true, false);
    let limit = ["pipeline.nsys.size_limit_bytes=1000000", "pipeline.ncu.enable=false"];
    let said = contains("nsys wrote more than 1,000,000 bytes");
    let said = said.and(contains("raise pipeline.nsys.size_limit_bytes"));
    launch(&sandbox, &limit, "grow").assert().code(0).stderr(said);
    let nsys = sandbox.pass("nsys");
    assert_eq!(nsys["status"], "failed");
    assert!(nsys["duration_ms"].as_u64().is_some_and(|ms| ms < 30_000), "{nsys}");
}

#[test]
fn a_range_that_never_came_is_repeated_without_the_gate() {
    let sandbox = sandbox(true, false);
    let gated = ["profiling/nsys=nsys.gated", "pipeline.ncu.enable=false"];
    let said = contains("never came").count(1).and(contains("the collector saw no range"));
    launch(&sandbox, &gated, "norange").assert().code(0).stderr(said);
    let nsys = sandbox.pass("nsys");
    assert_eq!(nsys["status"], "ok");
    assert!(nsys["why"].as_str().is_some_and(|why| why.contains("without the gate")));
    assert!(!argv(&nsys).contains("--capture-range"), "the run that counts");
    assert!(sandbox.read("nsys/cmd.txt").contains("--nvtx-capture=decode@*"));
    assert_eq!(sandbox.count(), 3);
    assert!(!sandbox.read("nsys/run.sqlite").is_empty());
}

#[test]
fn filters_that_nothing_passes_are_dropped_once() {
    let sandbox = sandbox(false, true);
    let settings = ["pipeline.nsys.enable=false"];
    launch(&sandbox, &settings, "nokernels")
        .assert()
        .code(0)
        .stderr(contains("it is run once more").count(1))
        .stderr(contains("filters: decode/").and(contains("the collector saw no range")));
    let ncu = sandbox.pass("ncu");
    assert_eq!(ncu["status"], "ok");
    assert!(!argv(&ncu).contains("--nvtx-include"), "{ncu}");
    assert!(sandbox.read("ncu/cmd.txt").contains("--nvtx-include decode/"));
    assert_eq!(sandbox.count(), 3);
}

#[test]
fn counters_that_are_not_permitted_have_a_remedy() {
    let sandbox = sandbox(false, true);
    let settings = ["pipeline.nsys.enable=false"];
    let assert = launch(&sandbox, &settings, "perm").assert().code(0);
    assert.stderr(contains("NVreg_RestrictProfilingToAdminUsers=0"));
    assert_eq!(sandbox.pass("ncu")["status"], "failed");
    assert_eq!(sandbox.count(), 1, "no retry can help");
}

#[test]
fn light_mode_is_the_collect_pass_and_a_baseline_comes_first() {
    let sandbox = sandbox(true, true);
    launch(&sandbox, &["run.mode=light"], "").assert().code(0);
    assert_eq!(sandbox.run_json()["passes"].as_array().map(Vec::len), Some(1));
    let words = ["run.mode=light", "run.baseline=true"];
    launch(&sandbox, &words, "").assert().code(0).stdout("out\n");
    let run = sandbox.run_json();
    let baseline = &run["passes"][0];
    assert_eq!(baseline["environment"]["STAGE2_GPU"], "off");
    let out = &baseline["environment"]["STAGE2_OUT"];
    assert!(out.as_str().is_some_and(|out| out.ends_with("baseline")), "{out}");
    assert_eq!(run["passes"][1]["name"], "collect");
    assert!(run["passes"][1]["environment"]["STAGE2_GPU"].is_null());
    assert_eq!(sandbox.read("baseline/log.txt"), "out\n");
}

#[test]
fn a_dry_run_shows_every_command_without_the_tools() {
    let sandbox = sandbox(false, false);
    let words =
        ["--dry-run", "--annotate", "torch-ops", "run.baseline=true", "--run-dir", "/r", "--", "w"];
    let text = stdout(&sandbox.launch(&words).assert().success());
    let library = sandbox.path("libstage2.so").display().to_string();
    golden::compare("dry_run.txt", &text.replace(&library, "LIBRARY"));
    assert!(!sandbox.path("tmp").exists());
}

#[test]
fn annotations_reach_every_pass() {
    let sandbox = sandbox(true, false);
    let words = ["--annotate", "prefill-decode", "--annotate", "torch-ops"];
    launch(&sandbox, &words, "").assert().code(0);
    for name in ["collect", "nsys"] {
        let environment = &sandbox.pass(name)["environment"];
        assert_eq!(environment["STAGE2_ANNOTATE"], "torch-ops,prefill-decode", "{name}");
        assert!(environment["PYTHONPATH"].as_str().is_some_and(|path| path.contains("/hook")));
    }
    assert!(!sandbox.read("hook/sitecustomize.py").is_empty());
    sandbox.launch(&["--annotate", "torch", "--", "true"]).assert().code(2);
    let set = ["config", "run.annotate=[torch-ops]"];
    sandbox.launch(&set).assert().success().stdout(contains("torch-ops"));
}

#[test]
fn only_the_newest_bundles_are_kept() {
    let sandbox = Sandbox::new();
    sandbox.write("tmp/stage2/notes/run.json", "{}");
    for _ in 0..3 {
        sandbox.launch(&["run.mode=light", "run.keep_last=2", "--", "true"]).assert().success();
    }
    let names = names_in(&sandbox.path("tmp/stage2"));
    assert_eq!(names.len(), 5, "two bundles, notes, latest and the lock: {names:?}");
    let bundles = || {
        let mut names = names_in(&sandbox.path("tmp/stage2"));
        names.retain(|name| name.starts_with('2'));
        names
    };
    // Only the kernel refuses it.
    sandbox.executable("no-program", "\u{1}\u{2}\n");
    let words = ["run.mode=light", "run.keep_last=1", "--", "./no-program"];
    let before = bundles();
    sandbox.launch(&words).assert().code(126).stderr(contains("was deleted").not());
    let after = bundles();
    assert_eq!(after.len(), 3, "what ran nothing takes nobody's place: {after:?}");
    // Listed as the user's own, also after its reports were written again.
    let annotated = format!("tmp/stage2/{}", before[0]);
    sandbox.write(&format!("{annotated}/NOTES.md"), "mine");
    sandbox.launch(&["report", &annotated]).assert().success();
    let words = ["run.mode=light", "run.keep_last=1", "--", "true"];
    let assert = sandbox.launch(&words).assert().success();
    assert.stderr(contains("was deleted").and(contains(format!("{} stays", before[0]))));
    assert_eq!(bundles().len(), 2, "this one, and that with a note");
    assert_eq!(common::read(&sandbox.path(&annotated).join("NOTES.md")), "mine");
    assert!(sandbox.read("run.json").contains("was deleted"));
    let words = ["run.mode=light", "run.size_limit_bytes=10", "--", "true"];
    sandbox.launch(&words).assert().success().stderr(contains("run.size_limit_bytes=10"));
}

#[test]
fn captures_taken_elsewhere_are_merged_as_far_as_they_can_be_read() {
    let sandbox = sandbox(false, true);
    sandbox.write("a/x.s2t", "no spool");
    sandbox.write("b.txt", "");
    sandbox.write("c.csv", "Total Time (ns),Instances,Name\n10,1,k\n");
    sandbox.write("d.ncu-rep", "report");
    sandbox.write("e.nsys-rep", "report");
    let words =
        "merge --spool a --nsys b.txt --nsys c.csv --nsys e.nsys-rep --ncu d.ncu-rep -o out";
    let words: Vec<&str> = words.split_whitespace().collect();
    // A mistyped name is no damage: the corrected command finds its folder empty.
    let mistyped = [&words[..], &["--nsys", "nowhere.sqlite"]].concat();
    let said = stderr(&sandbox.launch_with_tools(&mistyped).assert().code(2));
    let missing = "error: `nowhere.sqlite` does not exist, so nothing was merged; check the path";
    expect_parts(&said, "said", &[missing]);
    assert!(!sandbox.path("out").exists());
    let said = stderr(&sandbox.launch_with_tools(&words).assert().success());
    let parts = ["b.txt is not merged", "reports of Nsight Systems are not read", "x.s2t"];
    expect_parts(&said, "said", &parts);
    let out = sandbox.path("out");
    for file in ["collector/x.s2t", "nsys/c.csv", "ncu/raw.csv", "kernels.md"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    assert!(!out.join("nsys/e.nsys-rep").exists(), "what could not be scrubbed");
    sandbox.launch(&["merge", "-o", "other"]).assert().code(2).stderr(contains("nothing to merge"));
    sandbox.launch(&["merge", "--spool", "a", "-o", "out"]).assert().code(2);
}

#[test]
fn a_run_whose_collector_left_nothing_but_damaged_files_is_no_result() {
    let sandbox = Sandbox::new();
    let script = "echo no spool > \"$STAGE2_OUT/x-1.s2t\"";
    let mut words = vec!["run.mode=light", "--", "sh", "-c", script];
    sandbox.launch(&words).assert().code(70).stderr(contains("x-1.s2t"));
    let failing = format!("{script}; exit 5");
    words[4] = &failing;
    sandbox.launch(&words).assert().code(5);
}

#[test]
fn a_run_of_several_passes_says_at_once_how_often_and_then_how_long() {
    let sandbox = Sandbox::new();
    sandbox.executable("nsys", common::FAKE_NSYS);
    let nsys = format!("pipeline.nsys.executable={}", sandbox.path("nsys").display());
    let told = |words: &[&str]| {
        let words = [words, &["--", "sh", "-c", "echo it runs >&2"]].concat();
        let assert = sandbox.launch(&words).assert().success();
        stderr(&assert)
    };
    let deep = told(&["-v", &nsys]);
    let at = |part: &str| deep.find(part).unwrap_or_else(|| panic!("{part}: {deep}"));
    // ncu is not there, so that nothing runs under it.
    assert!(at("the workload will run 2 times") < at("give --light"));
    assert!(deep.contains("at a time: collect, nsys\n") && at("--light") < at("it runs"));
    assert!(at("it runs") < at("still to come: nsys about 3 s"));
    assert!(at("still to come") < at("the workload runs again, about 3 s"));
    assert!(!sandbox.latest("ncu").exists(), "a pass without its tool leaves no empty folder");
    let plain = told(&[&nsys]);
    assert!(plain.contains("will run 2 times") && !plain.contains("still to come"), "{plain}");
    for (once, why) in [(&["-q", nsys.as_str()][..], "quiet"), (&["--light", &nsys], "light")] {
        assert!(!told(once).contains("will run"), "{why}");
    }
}
