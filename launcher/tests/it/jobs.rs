//! `summarise` and `job`: trace files of several ranks -> summaries, and the page of their job.

use std::fs;

use crate::common::simulated::{collector, demo_script};
use crate::common::{Sandbox, json, names_in, read, repository, stderr, stdout};

const TWO_GPUS: &str = "docs/sample/vllm_two_gpus/collector";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("job")).expect("a folder");
    for name in ["vm-1552.s2t", "vm-1558.s2t", "vm-1559.s2t"] {
        let from = repository(TWO_GPUS).join(name);
        fs::copy(from, sandbox.path("job").join(name)).expect("a copy");
    }
    sandbox
}

/// Two ranks of vLLM on two GPUs, and their parent, as they were recorded.
#[test]
fn traces_become_summaries_and_the_page_of_their_job() {
    let sandbox = sandbox();
    let said = sandbox.launch_strictly(&["job", "job", "--out", "direct"]).assert().success();
    assert!(stdout(&said).contains("job.html"), "{}", stdout(&said));
    let mut job = json(&sandbox.path("direct/job.json"));
    assert_eq!((job["ranks"].as_u64(), job["expected"].as_u64()), (Some(2), Some(2)));
    assert!(job["collectives"]["samples"].as_u64() > Some(10), "{}", job["collectives"]);
    let stages = job["stages"].as_array().expect("a list").clone();
    let steps = |stage: &serde_json::Value| stage["steps"].as_u64() > Some(0);
    assert!(stages.iter().any(steps), "{stages:?}");
    let page = read(&sandbox.path("direct/job.html"));
    assert!(page.contains("<h1>Job of 2 ranks on 1 host</h1>"));
    // The same from summaries, and from the summary of all.
    sandbox.launch_strictly(&["summarise", "job"]).assert().success();
    let said = stderr(&sandbox.launch_strictly(&["summarise", "job"]).assert().code(70));
    assert!(said.contains("--force"), "{said}");
    sandbox.launch_strictly(&["job", "job", "--out", "summaries"]).assert().success();
    sandbox.launch_strictly(&["job", "summaries/job.s2s", "--out", "node"]).assert().success();
    let mut node = json(&sandbox.path("node/job.json"));
    assert_eq!(json(&sandbox.path("summaries/job.json")), job);
    for of in [&mut job, &mut node] {
        of["files"].take();
        of["clocks"].take();
    }
    assert_eq!(node, job);
    assert_eq!(names_in(&sandbox.path("node")), ["job.html", "job.json", "job.md", "job.s2s"]);
    // Pieces of a trace have one summary, which counts alone.
    for name in ["vm-1552", "vm-1558", "vm-1559"] {
        let of = |end: &str| sandbox.path("job").join(format!("{name}{end}"));
        fs::rename(of(".s2t"), of("-p000003.s2t")).expect("renamed");
    }
    sandbox.launch_strictly(&["job", "job", "--out", "pieces"]).assert().success();
    assert_eq!(json(&sandbox.path("pieces/job.json")), json(&sandbox.path("summaries/job.json")));
    // A page that is written again is no further rank.
    sandbox.launch_strictly(&["job", "summaries"]).assert().success();
}

/// Hazard (Jobs of many ranks): A run is recorded as summaries alone, under the launcher.
/// Promise: It is a result: the page of the job is in its bundle, and the report states where it is, not that something
///  failed.
#[test]
fn a_run_of_summaries_alone_has_the_page_of_its_job() {
    let sandbox = Sandbox::new();
    demo_script(&sandbox, "", "--rounds 3 --steps 4");
    let words = ["run.mode=light", "profiling.collector.detail=summary", "--", "./demo"];
    let said = sandbox.launch(&words).envs(collector()).assert().success();
    let shown = format!("{}{}", stdout(&said), stderr(&said));
    assert!(shown.contains("job.html") && !shown.contains("exit status 70"), "{shown}");
    let job = sandbox.json("job.json");
    let calls = job["stages"].as_array().into_iter().flatten();
    assert!(calls.filter(|of| of["steps"].as_u64() > Some(0)).count() > 0, "{}", job["stages"]);
    let empty = &sandbox.json("metrics.json")["coverage"]["empty"];
    assert_eq!(empty["cause"], "summary_alone", "{empty}");
    assert!(sandbox.read("report.md").contains("summary of a process, minute by minute"));
    assert!(!sandbox.read("report.md").contains("of a kind that this version does not know"));
}

#[test]
fn what_cannot_be_read_is_told() {
    let sandbox = sandbox();
    fs::create_dir(sandbox.path("empty")).expect("a folder");
    sandbox.write("racks.csv", "host\n");
    for (words, code, part) in [
        (&["job", "empty"][..], 2, "STAGE2_OUT"),
        (&["job", "absent"], 2, "absent does not exist; "),
        (
            &["job", "racks.csv"],
            2,
            "racks.csv is a text file, not a file of the collector (*.s2s, *.s2t); name",
        ),
        (&["summarise", "empty"], 2, "no trace file (*.s2t) in empty; record"),
        (&["summarise", "absent"], 2, "absent does not exist; "),
        (&["job", "job", "--racks", "racks.csv"], 2, "host,rack"),
    ] {
        let said = stderr(&sandbox.launch_strictly(words).assert().code(code));
        assert!(said.contains(part), "{words:?}: {said}");
    }
    let cut = sandbox.path("job/vm-1559.s2t");
    let bytes = fs::read(&cut).expect("a trace");
    fs::write(&cut, &bytes[..bytes.len() / 2]).expect("half of it");
    fs::write(sandbox.path("job/other.s2s"), "no summary").expect("a file");
    let said = sandbox.launch_strictly(&["job", "job"]).assert().success();
    assert!(stdout(&said).contains("1 file could not be read"), "{}", stdout(&said));
    // A trace of noise in front of whole ones costs itself only.
    for (name, bytes) in [("a", &b"noise"[..]), ("b", &bytes), ("c", &bytes)] {
        fs::create_dir_all(sandbox.path(&format!("three/{name}"))).expect("a folder");
        fs::write(sandbox.path(&format!("three/{name}/{name}-1.s2t")), bytes).expect("a file");
    }
    let said = sandbox.launch_strictly(&["job", "three"]).assert().success();
    assert!(stderr(&said).contains("a-1.s2t"), "{}", stderr(&said));
}
