//! `stage2-launch bench` with stand-ins: a workload that leaves a trace file where it is told to,
//! and an nsys that gives back a recorded export.

use crate::common::trace::Build;
use crate::common::{self, Sandbox, change_export, names_in, says, stderr, stdout, unpack};
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use serde_json::Value;
use stage2_contract::trace::NONE;

/// Ends with `$END`, or with `$END_TRACED` where something looks on.
const WORKLOAD: &str = r#"#!/bin/sh
echo "untraced=${STAGE2_OUT:-yes} gpu=$STAGE2_GPU" >> order
[ -n "$STAGE2_OUT" ] && { cp spool "$STAGE2_OUT/node-$$.s2t"; exit ${END_TRACED:-${END:-0}}; }
exit ${END:-0}
"#;

const NSYS: &str = r#"#!/bin/sh
case "$1" in
--version) echo "NVIDIA Nsight Systems version 2024.6.2"; exit 0;;
export) for word; do case "$word" in --output=*) cp export "${word#--output=}";; esac; done; exit 0;;
stats) echo stats >> asked; exit 0;;
esac
for word; do case "$word" in --output=*) out="${word#--output=}";; esac; done
while [ "$1" ]; do case "$1" in profile|--*) shift;; *) break;; esac; done
"$@"; code=$?
echo report > "$out.nsys-rep"
exit $code
"#;

/// A workload that opens `decode` three times.
fn sandbox(nsys: bool) -> Sandbox {
    sandbox_of(nsys, &[9_000_000, 3_000_000, 5_000_000])
}

/// A workload that opens `decode` for these times, ns. The recorded export of nsys has it once.
fn sandbox_of(nsys: bool, decode_ns: &[u64]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.executable("workload", WORKLOAD);
    if nsys {
        sandbox.executable("tools/nsys", NSYS);
        unpack("nsys/decode.sqlite.xz", &sandbox.path("export"));
    }
    let mut trace = Build::process(1, "workload");
    trace.anchor(1).name(1, b"decode").path(1, NONE, 1);
    for (range, &ns) in (1..).zip(decode_ns) {
        let start = range * 10_000_000;
        trace.open(range, 1, 0, start).close(range, start + ns);
    }
    std::fs::write(sandbox.path("spool"), trace.end().bytes()).expect("a trace file");
    sandbox
}

fn bench(sandbox: &Sandbox, words: &[&str]) -> assert_cmd::Command {
    sandbox.launch_with_tools(&[&["bench", "--run-dir", "b"], words].concat())
}

fn results(sandbox: &Sandbox) -> Value {
    common::json(&sandbox.path("b/bench.json"))
}

fn configuration<'r>(results: &'r Value, name: &str) -> &'r Value {
    common::row(&results["configurations"], "name", name)
}

fn runs(results: &Value, name: &str) -> usize {
    configuration(results, name)["runs"].as_array().map_or(0, Vec::len)
}

#[test]
fn everything_runs_in_turn_and_the_second_round_in_reverse() {
    let sandbox = sandbox(true);
    let stopped = bench(&sandbox, &["--", "./workload"]).env("END", "3").assert().code(3);
    stopped.stdout("").stderr(says("log.txt; --ignore-failure measures failing runs, too"));
    let order = common::read(&sandbox.path("order"));
    assert_eq!(order.lines().count(), 2, "a warm-up, and the run that fails: {order}");
    std::fs::remove_file(sandbox.path("order")).expect("the order");
    std::fs::remove_dir_all(sandbox.path("b")).expect("the folder");
    let words = ["--rounds", "2", "--ignore-failure", "--", "./workload"];
    let assert = bench(&sandbox, &words).env("END", "3").assert().code(3);
    let fails =
        contains("the workload fails without a profiler: exit status 3").and(contains("log.txt"));
    assert.stderr(fails).stdout(
        contains("| whole process | untraced | 2 |")
            .and(contains("| `decode` | nsys |").not())
            .and(contains(
                "- nsys saw `decode` with other numbers of instances: 1, 1 (ranges only: 3 in every run)",
            ))
            .and(contains("**The workload itself fails** (exit status 3)"))
            .and(contains("collector recorded no GPU work")),
    );
    let order = common::read(&sandbox.path("order"));
    let order = order.lines().map(|line| match line {
        "untraced=yes gpu=" => "u",
        line if line.ends_with("gpu=off") => "r",
        _ => "c",
    });
    let order: String = order.collect();
    // The fourth of a round is nsys, which leaves the workload alone.
    let warm_up = "u";
    assert_eq!(order, warm_up.to_owned() + "urcuru" + "urucru");
    let results = results(&sandbox);
    assert_eq!(results["workload_exit"], serde_json::json!({"code": 3}));
    for name in
        ["untraced", "untraced again", "ranges only", "ranges only again", "collector", "nsys"]
    {
        assert_eq!(runs(&results, name), 2, "{name}: {results:#}");
        assert!(configuration(&results, name)["failed"].is_null());
    }
    let rows = results["rows"].as_array().expect("rows");
    let decode: Vec<_> = rows.iter().filter(|row| row["stage"] == "decode").collect();
    assert_eq!(decode.len(), 3, "{rows:#?}");
    // The first instance is cold; 3 and 5 ms are not.
    assert_eq!(decode[0]["configuration"], "ranges only");
    assert_eq!(decode[0]["runs_ns"], serde_json::json!([4_000_000, 4_000_000]));
    assert_eq!(decode[2]["median_ratio"], 1.0);
    let left_out = serde_json::json!([{
        "stage": "decode", "configuration": "nsys", "expected": 3, "instances": [1, 1],
    }]);
    assert_eq!(results["left_out"], left_out);
    assert!(common::read(&sandbox.path("b/bench.md")).contains("A/A"));
    assert!(!sandbox.path("asked").exists(), "nobody reads the tables of nsys stats");
    let left = names_in(&sandbox.path("b"));
    // Besides the results only the log of the first run, which says why the workload fails.
    assert_eq!(left.len(), 3, "captures are not kept: {left:?}");
    assert!(sandbox.path("b/round-1/untraced/untraced/log.txt").is_file());
}

#[test]
fn runs_before_the_rounds_are_in_no_number() {
    // Slow and failing, as one that finds its caches empty; the others are neither.
    const COLD: &str = "#!/bin/sh\n[ -e warm ] || { touch warm; sleep 0.4; exit 5; }\n\
        [ -z \"$STAGE2_OUT\" ] || cp spool \"$STAGE2_OUT/node-$$.s2t\"\n";
    let slow = |row: &Value| row["median_ns"].as_u64().expect("a time") >= 400_000_000;
    let measured = |warmup: &str| {
        let sandbox = sandbox(false);
        sandbox.executable("cold", COLD);
        let words = ["--rounds", "1", "--warmup", warmup, "--ignore-failure", "--", "./cold"];
        let output = bench(&sandbox, &words).output().expect("stage2-launch");
        assert!(!sandbox.path("b/warm-up").exists());
        let results = results(&sandbox);
        assert_eq!(results["warmup"].to_string(), warmup);
        let rows = results["rows"].as_array().expect("rows").clone();
        let page = common::read(&sandbox.path("b/bench.md"));
        assert!(page.contains(&format!("Untraced warm-up runs, not included: {warmup}.")));
        (output.status.code(), rows.iter().filter(|row| slow(row)).count(), page)
    };
    for warmup in ["1", "2"] {
        let (code, slow, page) = measured(warmup);
        assert_eq!((code, slow), (Some(0), 0), "{page}");
        assert!(!page.contains("fails"), "{page}");
    }
    let (code, slow, page) = measured("0");
    assert_eq!((code, slow), (Some(5), 1), "{page}");
    assert!(page.contains("The workload itself fails"), "{page}");
}

#[test]
fn stages_under_nsys_are_compared_where_it_saw_all_of_their_instances() {
    let sandbox = sandbox_of(true, &[500_000_000]);
    bench(&sandbox, &["--rounds", "1", "--", "./workload"]).assert().success().stdout(
        contains("| `decode` | nsys | 1 | 517.031 | 517.031 | 1.034 | 1.034 |")
            .and(contains("- nsys saw").not()),
    );
    let results = results(&sandbox);
    let rows = results["rows"].as_array().expect("rows");
    let nsys = rows.iter().find(|row| row["stage"] == "decode" && row["configuration"] == "nsys");
    // What the recorded export says of its one range.
    assert_eq!(nsys.expect("a row")["runs_ns"], serde_json::json!([517_030_787]));
    assert_eq!(results["left_out"], serde_json::json!([]));
}

/// Whether a library's range around everything is a stage, and whether `decode` within it is.
fn stages_within(domain: &str, settings: &[&str]) -> (bool, bool) {
    let sandbox = sandbox_of(false, &[]);
    let mut trace = Build::process(1, "workload");
    trace.anchor(1).name(1, b"execute").name(2, domain.as_bytes()).name(3, b"decode");
    trace.path_in(1, NONE, 1, 2).path(2, 1, 3).open(1, 1, 0, 1_000_000);
    for range in 2..5 {
        let start = range * 1_000_000;
        trace.open(range, 2, 1, start).close(range, start + 500_000);
    }
    std::fs::write(sandbox.path("spool"), trace.close(1, 9_000_000).end().bytes())
        .expect("a trace file");
    let words = [&["--rounds", "1"], settings, &["--", "./workload"]].concat();
    bench(&sandbox, &words).assert().success();
    let results = results(&sandbox);
    let rows = results["rows"].as_array().expect("rows");
    let has = |part: &str| rows.iter().any(|row| row["stage"].as_str() == Some(part));
    let execute = |row: &Value| row["stage"].as_str().is_some_and(|s| s.contains("execute"));
    (rows.iter().any(execute), has("decode"))
}

const ADDED: &str = "report.library_domains=['VLLM.*']";

#[test]
fn a_range_of_a_library_is_no_stage_and_hides_none() {
    assert_eq!(stages_within("NCCL", &[]), (false, true));
    assert_eq!(stages_within("vllm.worker", &[ADDED]), (false, true));
    // Without the setting it is a range as any other, and `decode` is within it.
    assert_eq!(stages_within("vllm.worker", &[]), (true, false));
}

#[test]
fn a_range_of_a_library_is_no_stage_under_nsys() {
    let sandbox = sandbox(true);
    // The one range of the recorded export, `decode`, becomes that of a domain.
    let domain = "UPDATE NVTX_EVENTS SET domainId = 7;
        INSERT INTO NVTX_EVENTS (start, eventType, globalTid, domainId, text)
        SELECT 0, 75, globalTid, 7, 'vllm.worker' FROM NVTX_EVENTS;";
    change_export(&sandbox.path("export"), domain);
    for (settings, stages) in [(&[][..], 1), (&[ADDED], 0)] {
        let words = [&["--rounds", "1"], settings, &["--", "./workload"]].concat();
        bench(&sandbox, &words).assert().success();
        let results = results(&sandbox);
        let run = &configuration(&results, "nsys")["runs"][0];
        assert_eq!(run["stages"].as_array().map(Vec::len), Some(stages), "{run:#}");
        std::fs::remove_dir_all(sandbox.path("b")).expect("folder");
    }
}

#[test]
fn what_nsys_says_of_its_capture_stands_under_the_table() {
    let sandbox = sandbox(true);
    let lossy =
        NSYS.replace("echo report", "echo 'Unknown runtime API function index: 468'; echo report");
    sandbox.executable("tools/nsys", &lossy);
    let assert = bench(&sandbox, &["--rounds", "1", "--", "./workload"]).assert().success();
    let page = stdout(&assert);
    let warning = page.lines().find(|line| line.contains("function index: 468")).expect("a line");
    assert!(warning.starts_with("- **warning:** nsys met a call"), "{page}");
}

#[test]
fn a_configuration_that_fails_costs_its_column_only() {
    let sandbox = sandbox(false);
    let words = ["--rounds", "3", "--", "./workload"];
    let assert = bench(&sandbox, &words).env("END_TRACED", "7").assert().code(70);
    let said = stderr(&assert);
    let of = |name: &str| contains(format!("- {name}: no complete measurement: "));
    let top = contains("**No profiler was measured**: ");
    assert.stdout(of("collector").and(of("nsys")).and(top));
    // What is not there is told once, and leaves nothing to look at.
    assert_eq!(said.matches("`nsys` is not installed").count(), 1, "{said}");
    assert_eq!(said.matches("see what is left in").count(), 3, "{said}");
    let end = "error: exit status 70: no measurement: stopped after round 1 of 3: ";
    assert!(said.contains(end), "{said}");
    assert_eq!(said.matches("stage2-launch: round ").count(), 1, "a line for each round: {said}");
    assert!(!sandbox.path("b/round-1/nsys").exists());
    let results = results(&sandbox);
    // With no profiler left, nothing is compared: the first round is the last.
    assert_eq!(runs(&results, "untraced") + runs(&results, "untraced again"), 2);
    assert_eq!(results["rounds"], 1);
    for name in ["ranges only", "collector"] {
        let why = configuration(&results, name)["failed"].as_str().expect("a reason");
        assert!(why.contains("exit status 7") && why.contains("exit status 0"), "{why}");
        assert_eq!(runs(&results, name), 1, "it is not tried again");
    }
    assert_eq!(configuration(&results, "untraced")["failed"], Value::Null);
    assert!(sandbox.path("b/round-1/collector/collector/log.txt").is_file(), "its log is kept");
}

#[test]
fn what_is_known_before_the_rounds_is_not_a_warning_of_each() {
    let sandbox = sandbox(false);
    sandbox.executable("stage2-demo", WORKLOAD);
    let mut trace = Build::process(1, "stage2-demo");
    trace.meta("gpu.off", "there is no CUPTI").anchor(1);
    std::fs::write(sandbox.path("spool"), trace.end().bytes()).expect("a trace file");
    let words = ["--rounds", "2", "--", "./stage2-demo", "--device", "simulated"];
    let said = stderr(&bench(&sandbox, &words).assert().code(70));
    let has_gpu = std::path::Path::new("/dev/nvidiactl").exists();
    // The warning, and why there is no result.
    let known = said.matches("the simulated GPU comes with its own CUPTI library").count();
    assert!(has_gpu || known == 2, "{said}");
}

#[test]
fn a_collector_that_leaves_nothing_is_told() {
    let has_gpu = std::path::Path::new("/dev/nvidiactl").exists();
    // A named CUPTI may be that of a simulated GPU, which asks for no driver.
    for (cupti, quiet) in [(None, false), (None, true), (Some("/no.so"), false)] {
        let sandbox = sandbox(false);
        let words = [if quiet { "-q" } else { "-v" }, "--rounds", "1", "--", "true"];
        let mut command = bench(&sandbox, &words);
        cupti.map(|path| command.env("STAGE2_CUPTI", path));
        let told = command.assert().code(70);
        let why = match cupti.is_some() || has_gpu {
            true => "the workload launched no GPU work",
            false => "no GPU: ",
        };
        let page = common::read(&sandbox.path("b/bench.md"));
        assert!(page.contains(&format!("There is nothing to compare: {why}")), "{page}");
        assert!(!page.contains('|') && !page.contains("overhead"), "{page}");
        let (said, stdout) = (stderr(&told), stdout(&told));
        assert_eq!(stdout, page);
        let before = format!("warning: the collector will record no GPU work: {why}");
        assert_eq!(said.contains(&before), why == "no GPU: " && !quiet, "{said}");
        let end = said.lines().last().expect("an error");
        let (what, remedy) = end.split_once("; ").expect("a hint");
        assert!(what.contains(&format!("error: exit status 70: no measurement: {why}")), "{said}");
        assert!(remedy.contains("a GPU") || remedy.contains("uses the GPU"), "{said}");
        let results = results(&sandbox);
        let why = configuration(&results, "collector")["failed"].as_str().expect("a reason");
        assert!(why.contains("there is no trace file"), "{why}");
        assert_eq!(runs(&results, "untraced again"), 0, "more runs would change nothing");
        assert_eq!(said.contains(" s per run: about "), !quiet, "{said}");
    }
}

#[test]
fn a_command_that_is_not_there_ends_as_in_a_shell() {
    let sandbox = sandbox(false);
    bench(&sandbox, &["--", "./no-such"]).assert().code(127).stderr(contains("no-such"));
    bench(&sandbox, &["run.nonsense=1", "--", "true"]).assert().code(2);
    bench(&sandbox, &["--rounds", "0", "--", "true"]).assert().code(2);
    bench(&sandbox, &["--warmup", "-1", "--", "true"]).assert().code(2);
    bench(&sandbox, &[]).assert().code(2).stderr(contains("no command to run"));
    let without_warm_up = ["--warmup", "0", "--", "./no-such"];
    bench(&self::sandbox(false), &without_warm_up).assert().code(127);
}

#[test]
fn a_dry_run_shows_every_configuration_and_runs_nothing() {
    let sandbox = sandbox(false);
    let assert = bench(&sandbox, &["--dry-run", "--", "./workload"]).assert().success();
    let said = stderr(&assert);
    let has_gpu = std::path::Path::new("/dev/nvidiactl").exists();
    assert!(said.contains("the nsys pass would be skipped"), "{said}");
    assert!(has_gpu || said.contains("would record no GPU work: no GPU: "), "{said}");
    assert
        .stdout(contains("untraced").and(contains("STAGE2_GPU=off")).and(contains("nsys profile")));
    assert!(!sandbox.path("order").exists() && !sandbox.path("b").exists());
}
