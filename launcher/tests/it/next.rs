//! `stage2-launch next`: the experiment that would confirm the first advice, and the check of its outcome.

use std::fs;

use crate::common::{Sandbox, copy_folder, lossy, repository};
use predicates::str::contains;
use serde_json::Value;

fn next(sandbox: &Sandbox, run: &str) -> Value {
    let output = sandbox.launch_strictly(&["next", run, "--json"]).assert().success();
    let text = lossy(&output.get_output().stdout);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.len() < 8_000, "below 2,000 tokens: {}", text.len());
    serde_json::from_str(&text).expect("JSON")
}

fn words(value: &Value) -> Vec<&str> {
    value.as_array().expect("words").iter().map(|word| word.as_str().expect("a word")).collect()
}

#[test]
fn the_check_passes_only_if_the_change_helped() {
    let sandbox = Sandbox::new();
    copy_folder(&repository("docs/sample/server_window"), &sandbox.path("before"));
    sandbox.launch_strictly(&["report", "-q", "before"]).assert().success();
    let found = next(&sandbox, "before");
    assert_eq!(found["kind"], "change", "{found}");
    // The captures were taken elsewhere: the command is that of the process that was recorded.
    let argv = words(&found["argv"]);
    assert_eq!(argv[argv.len() - 2..], ["--model", "llama_1b"]);
    // A window of a server, which was recorded once.
    assert_eq!(argv[..3], ["stage2-launch", "run", "--light"]);
    assert_eq!(found["notes"][0], "send the same load, then stop the server");
    assert_eq!(found["directory"], Value::Null);
    let metric = &found["metric"];
    let name = metric["name"].as_str().expect("a name");
    let (stage, of_stage) = name.rsplit_once('.').expect("STAGE.METRIC");
    assert_eq!(of_stage, "step_mean_ms");
    let metrics = fs::read_to_string(sandbox.path("before/metrics.json")).expect("metrics.json");
    let mut after: Value = serde_json::from_str(&metrics).expect("JSON");
    let check = words(&found["check"]);
    let run_check = |sandbox: &Sandbox| sandbox.launch_strictly(&check[1..]).assert();
    let folder = check[3];
    fs::create_dir(folder).expect("the folder of the next run");
    // Another run, which took the same time.
    after["run"]["started"] = "2026-11-30T00:00:00Z".into();
    fs::write(format!("{folder}/metrics.json"), after.to_string()).expect("written");
    run_check(&sandbox).code(1);
    // Steps that take as long as is expected at best.
    let best = metric["after_at_best"].as_f64().expect("known")
        / metric["before"].as_f64().expect("known");
    for row in after["answer"]["stages"].as_array_mut().expect("stages") {
        if row["stage"] == stage {
            for field in ["p50_ns", "mean_ns"] {
                let ns = row["step"][field].as_f64().expect("a time");
                row["step"][field] = Value::from((ns * best) as u64);
            }
        }
    }
    for row in after["stages"].as_array_mut().expect("stages") {
        if row["stage"] == stage {
            for field in ["host_warm_median_ns", "host_warm_mean_ns"] {
                let ns = row[field].as_f64().expect("a time");
                row[field] = Value::from((ns * best) as u64);
            }
        }
    }
    fs::write(format!("{folder}/metrics.json"), after.to_string()).expect("written");
    run_check(&sandbox).success();
}

#[test]
fn samples_have_experiments_that_can_be_run() {
    let sandbox = Sandbox::new();
    for (sample, kind) in
        [("vllm_two_gpus", "change"), ("vllm_sorting", "change"), ("server_window", "change")]
    {
        let run = repository("docs/sample").join(sample).display().to_string();
        let found = next(&sandbox, &run);
        assert_eq!(found["kind"], kind, "{found}");
        let page = sandbox.launch_strictly(&["next", &run]).assert().success();
        let page = lossy(&page.get_output().stdout);
        assert!(page.contains("**check:**") && page.len() < 8_000, "{page}");
    }
    let run = repository("docs/sample/vllm_two_gpus").display().to_string();
    let found = next(&sandbox, &run);
    assert_eq!(found["directory"], "/opt/stage");
    // The late rank is late on the host: what that does for longer than the other's is where to look.
    sandbox.launch_strictly(&["next", &run]).assert().stdout(contains("waiting for the GIL"));
    let argv = words(&found["argv"]);
    assert_eq!(
        argv[argv.len() - 4..],
        ["python3", "/opt/stage/tests/gpu/engine_offline.py", "--tp", "2"]
    );
    assert!(argv.contains(&"--light"), "{argv:?}");
}

#[test]
fn what_is_no_run_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.launch_strictly(&["next", "nowhere"]).assert().code(2);
    sandbox.launch_strictly(&["next"]).assert().code(2);
    fs::create_dir(sandbox.path("empty")).expect("folder");
    sandbox.launch_strictly(&["next", "empty"]).assert().code(2);
    fs::write(sandbox.path("cut.json"), "{\"schema\": \"stage2.report\"").expect("written");
    sandbox.launch_strictly(&["next", "cut.json"]).assert().code(70);
}
