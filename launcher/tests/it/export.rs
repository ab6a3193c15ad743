//! `stage2-launch export` of a run of the demo: every format, a part, and what is refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::common::simulated::run_demo;
use crate::common::{
    Sandbox, at_once, copy_folder, json, lossy, names_in, repository, says, shared_folder,
};
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use serde_json::Value;

const FORMATS: [&str; 7] = ["perfetto", "chrome", "sqlite", "csv", "hatchet", "pprof", "folded"];

/// A light run of the demo on the simulated GPU, in the folder `run`.
fn demo() -> Sandbox {
    static RUN: LazyLock<PathBuf> = LazyLock::new(|| {
        shared_folder("demo", |folder| {
            let sandbox = Sandbox::new();
            run_demo(&sandbox, "run", &["--steps", "4"]);
            copy_folder(&sandbox.path("run"), &folder.join("run"));
        })
    });
    let sandbox = Sandbox::new();
    copy_folder(&RUN.join("run"), &sandbox.path("run"));
    sandbox
}

fn total_ns(metrics: &Value, stage: Option<&str>) -> u64 {
    let tables = ["kernels", "copies", "fills", "graph_launches"];
    let rows = tables.iter().flat_map(|table| metrics[table].as_array().into_iter().flatten());
    let of_stage = |row: &&Value| stage.is_none_or(|stage| row["stage"] == stage);
    rows.filter(of_stage).filter_map(|row| row["total_ns"].as_u64()).sum()
}

fn folded_ns(path: &Path) -> u64 {
    let text = fs::read_to_string(path).expect("an export");
    let number = |line: &str| line.rsplit_once(' ')?.1.parse::<u64>().ok();
    text.lines().map(|line| number(line).expect("a number at the end")).sum()
}

#[test]
fn every_format_is_written_and_sums_equal_the_report() {
    let sandbox = demo();
    let metrics = json(&sandbox.path("run/metrics.json"));
    let kernels = metrics["coverage"]["total"]["kernels"].as_u64().expect("a number");
    let said = stage2_contract::text::numbers::counted(kernels, "kernel");
    at_once(FORMATS, |format| {
        let words = ["export", "run", "--format", format, "-o", format];
        sandbox.launch_strictly(&words).assert().success().stderr(contains(&said));
        assert!(fs::metadata(sandbox.path(format)).expect(format).len() > 1_000, "{format}");
    });
    assert_eq!(folded_ns(&sandbox.path("folded")), total_ns(&metrics, None));
    let words = ["export", "run", "-f", "folded", "--stage", "decode", "-o", "decode"];
    sandbox.launch_strictly(&words).assert().success();
    assert_eq!(folded_ns(&sandbox.path("decode")), total_ns(&metrics, Some("decode")));
}

#[test]
fn the_default_destination_is_named_after_the_run_and_nothing_is_overwritten() {
    let sandbox = demo();
    let refused = |words: &[&str], why: &str| {
        let words = [&["export", "run", "-f", "folded"], words].concat();
        sandbox.launch_strictly(&words).assert().code(2).stderr(contains(why));
    };
    sandbox.launch_strictly(&["export", "run", "-f", "folded"]).assert().success();
    assert!(sandbox.path("run.folded").is_file());
    refused(&[], "run.folded exists already");
    let unknown = ["export", "run", "-f", "folded", "--stage", "decod", "-o", "x"];
    let said = sandbox.launch_strictly(&unknown).assert().code(2);
    let said = said.stderr(says("no stage `decod`; did you mean `decode`? There are decode"));
    said.stderr(contains("will be written").not());
    refused(&["--window", "7"], "START..END");
    refused(&["--window", "100000..100001", "-o", "x"], "the selected part of the run is empty");
    fs::write(sandbox.path("run/metrics.json"), "{").expect("file");
    let damaged = sandbox.launch_strictly(&["export", "run", "-f", "perfetto", "-o", "x"]).assert();
    // As the other commands say it, with a command that can be pasted.
    let truncated = says("metrics.json: it is truncated");
    damaged.code(70).stderr(truncated.and(says("with `stage2-launch report run`")));
    assert!(!sandbox.path("x").exists());
}

#[test]
fn a_disk_without_room_is_said_and_nothing_is_left() {
    let sandbox = demo();
    let launcher = sandbox.install_launcher("stage2-launch");
    let before = names_in(&sandbox.path("."));
    // No file may be larger than 512 bytes: writing fails as on a full disk.
    at_once(FORMATS, |format| {
        let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" export run -f \"$1\" -o \"$1.out\"";
        let mut command = assert_cmd::Command::new("sh");
        command.current_dir(sandbox.path(".")).args(["-c", script]).arg(&launcher).arg(format);
        let said =
            contains(".out cannot be written").and(contains("nothing of the export is left"));
        command.assert().code(70).stderr(said);
    });
    assert_eq!(names_in(&sandbox.path(".")), before, "something is left");
}

#[test]
fn a_bundle_of_another_version_and_an_empty_run_are_refused() {
    let sandbox = demo();
    let refused = |code: i32, why: &str| {
        let words = ["export", "run", "-f", "csv", "-o", "x"];
        sandbox.launch_strictly(&words).assert().code(code).stderr(says(why));
        assert!(!sandbox.path("x").exists());
    };
    let text = fs::read_to_string(sandbox.path("run/metrics.json")).expect("file");
    let other = text.replacen("\"schema_version\": 2", "\"schema_version\": 99", 1);
    assert_ne!(other, text);
    fs::write(sandbox.path("run/metrics.json"), other).expect("file");
    refused(70, "a newer stage2-launch wrote it (schema version 99; this one reads up to");
    fs::write(sandbox.path("run/metrics.json"), text).expect("file");
    for trace in names_in(&sandbox.path("run/collector")) {
        fs::write(sandbox.path("run/collector").join(trace), "damaged").expect("file");
    }
    refused(70, "restore the whole files, or record again");
    fs::remove_dir_all(sandbox.path("run/collector")).expect("folder");
    refused(
        70,
        "no trace file of the collector that can be exported (run/collector does not exist)",
    );
}

#[test]
fn a_format_that_is_not_known_and_a_program_that_is_not_there_are_named() {
    let sandbox = Sandbox::new();
    let words = ["export", ".", "-f", "perfeto"];
    sandbox.launch_strictly(&words).assert().code(2).stderr(contains("perfetto"));
    // A launcher without its neighbours.
    let alone = sandbox.install_launcher("bin/stage2-launch");
    // Also with a dataset that is there, to which runs are added.
    std::fs::create_dir(sandbox.path("dataset")).expect("a folder");
    for more in [&[][..], &["-o", "dataset", "--append"]] {
        assert_cmd::Command::new(&alone)
            .current_dir(sandbox.path("."))
            .args(["export", ".", "-f", "parquet"])
            .args(more)
            .assert()
            .code(70)
            .stderr(contains("cargo build --release -p stage2-export --features parquet"));
    }
}

/// Hazard: an export without kernels passes for one of a run without kernels.
#[test]
fn a_trace_that_was_cut_is_exported_only_if_told_to() {
    let sandbox = Sandbox::new();
    copy_folder(&repository("docs/sample/regions"), &sandbox.path("run"));
    for name in names_in(&sandbox.path("run/collector")) {
        let path = sandbox.path("run/collector").join(&name);
        if name.ends_with(".s2t") {
            let bytes = fs::read(&path).expect("a trace");
            fs::write(&path, &bytes[..bytes.len() / 4]).expect("a file");
        }
    }
    let words = ["export", "run", "-f", "csv", "-o", "cut"];
    let assert = sandbox.launch_strictly(&words).assert().code(70);
    let said = lossy(&assert.get_output().stderr).replace("\n    ", " ");
    assert!(said.contains(".s2t: ") && said.contains("kernels are left"), "{said}");
    assert!(!sandbox.path("cut").exists());
    sandbox.launch_strictly(&[&words[..], &["--force"]].concat()).assert().success();
    let said = sandbox.launch_strictly(&["query", "run", "SELECT count(*) FROM launches"]);
    let said = { said }.assert().code(70).stdout("");
    said.stderr(contains("launches cannot be filled"));
}
