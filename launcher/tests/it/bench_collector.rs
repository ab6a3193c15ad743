//! `stage2-launch bench` with the real collector, on the demo workload and the simulated GPU.

use std::collections::BTreeMap;

use crate::common::simulated::{collector, demo_script, launches};
use crate::common::{self, Sandbox, names_in, stdout};
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use serde_json::Value;

/// `bench` with the collector that was built, and the simulated CUPTI for it.
fn bench(sandbox: &Sandbox, rounds: &str, command: &[&str]) -> assert_cmd::Command {
    let words = ["bench", "--run-dir", "b", "--ignore-failure", "--rounds", rounds];
    let words = [&words[..], &["pipeline.nsys.enable=false", "--"], command].concat();
    let mut bench = sandbox.launch(&words);
    bench.envs(collector());
    bench
}

/// The demo workload on the simulated GPU: a shell that keeps its line of JSON, and ends with `$1`.
fn demo(sandbox: &Sandbox) {
    demo_script(sandbox, "", "--rounds 3 --steps 4 >> told || exit\nexit ${1:-0}");
}

fn results(sandbox: &Sandbox) -> Value {
    common::json(&sandbox.path("b/bench.json"))
}

/// Rows of the table: (stage, configuration) to its other cells.
fn table(page: &str) -> BTreeMap<(String, String), Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let rows = page.lines().filter(|line| line.starts_with("| ")).skip(1).map(cells);
    let rows = rows.filter(|cells| !cells[0].starts_with("---"));
    rows.map(|cells| ((cells[0].clone(), cells[1].clone()), cells[2..].to_vec())).collect()
}

#[test]
fn the_table_holds_what_the_workload_itself_measured_in_every_configuration() {
    let sandbox = Sandbox::new();
    demo(&sandbox);
    let assert = bench(&sandbox, "2", &["./demo"]).assert().success();
    let page = stdout(&assert);
    assert_eq!(page, common::read(&sandbox.path("b/bench.md")));
    assert!(page.contains("Simulated: no real GPU took part"), "{page}");
    assert!(!page.contains("recorded no") && !page.contains("fails"), "{page}");
    let table = table(&page);
    let row = |stage: &str, name: &str| {
        let key = (stage.to_owned(), name.to_owned());
        table.get(&key).unwrap_or_else(|| panic!("{key:?} in {page}"))
    };
    let results = results(&sandbox);
    // A cell has the digits that the noise leaves it, which the A/A pairs state.
    let is_of = |cell: &str, value: f64, noise: f64| {
        let cell = cell.split(" ± ").next().unwrap_or_default().replace(',', "");
        let decimals = match noise {
            n if n >= 10.0 => 0,
            n if n >= 1.0 => 1,
            n if n >= 0.1 => 2,
            _ => 3,
        };
        cell == format!("{value:.decimals$}")
    };
    let traced = ["ranges only", "ranges only again", "collector"];
    for (stage, basis_name, others) in [
        ("whole process", "untraced", [&["untraced again"], &traced[..]].concat()),
        ("`prefill`", "ranges only", traced[1..].to_vec()),
        ("`decode`", "ranges only", traced[1..].to_vec()),
        ("`warm-up`", "ranges only", traced[1..].to_vec()),
    ] {
        let basis = row(stage, basis_name);
        // runs, median ms, min ms, median ratio, min ratio
        assert_eq!(basis[0], "2", "{page}");
        assert!(basis[1].contains(" ± ") || stage != "whole process", "{page}");
        let measured = |name: &str, key: &str| {
            let rows = results["rows"].as_array().expect("rows");
            let is_it = |row: &&Value| {
                let of =
                    row["stage"].as_str().map_or("whole process".to_owned(), |s| format!("`{s}`"));
                of == stage && row["configuration"] == name
            };
            rows.iter().find(is_it).and_then(|row| row[key].as_f64()).expect("a number")
        };
        let pairs = [("untraced", "untraced again"), ("ranges only", "ranges only again")];
        let pairs = &pairs[usize::from(stage != "whole process")..];
        let noise = pairs.iter().map(|(first, again)| {
            (measured(again, "median_ns") / measured(first, "median_ns") - 1.0).abs()
        });
        let noise = noise.fold(0.0, f64::max);
        assert!(is_of(&basis[3], 1.0, noise) && is_of(&basis[4], 1.0, noise), "{page}");
        for name in others {
            let other = row(stage, name);
            let error_ms = noise * measured(name, "median_ns") / 1e6;
            assert_eq!(other[0], "2", "{page}");
            for (value, ratio, key) in [(1, 3, "median_ns"), (2, 4, "min_ns")] {
                let ns = measured(name, key);
                assert!(is_of(&other[value], ns / 1e6, error_ms), "{name} {ns}: {page}");
                assert!(
                    is_of(&other[ratio], ns / measured(basis_name, key), noise),
                    "{name}: {page}"
                );
            }
        }
    }
    assert_eq!(table.len(), 5 + 3 * 3, "{page}");

    let of = |name: &str| common::row(&results["configurations"], "name", name);
    let told = common::read(&sandbox.path("told"));
    let told: Vec<Value> =
        told.lines().map(|line| serde_json::from_str(line).expect("a summary")).collect();
    assert_eq!(told.len(), 1 + 2 * 5);
    let told = &told[1..]; // The warm-up run is not measured.
    // In order: untraced, ranges only, collector, ranges only again, untraced again; then back.
    let kernels = |told: &Value| {
        let of = |key: &str| told[key].as_u64().expect("a count");
        (3 * of("kernels_per_prefill"), 3 * 4 * of("kernels_per_step"))
    };
    for (name, runs) in
        [("ranges only", [1, 8]), ("collector", [2, 7]), ("ranges only again", [3, 6])]
    {
        for (run, at) in of(name)["runs"].as_array().expect("runs").iter().zip(runs) {
            for stage in ["prefill", "decode"] {
                let found = common::row(&run["stages"], "stage", stage);
                assert_eq!(found["instances"], 3);
                // Without the first there are two; the median of two lies between them.
                let rounds = told[at]["all_host_ms"].as_array().expect("rounds");
                let times: Vec<f64> =
                    rounds[1..].iter().map(|round| round[stage].as_f64().expect("ms")).collect();
                let least = times.iter().copied().fold(f64::MAX, f64::min);
                let most = times.iter().copied().fold(0.0, f64::max);
                let ms = found["host_ns"].as_f64().expect("ns") / 1e6;
                let slack = 0.2 + 0.05 * most;
                assert!(
                    (least - slack..=most + slack).contains(&ms),
                    "{name} {stage}: {ms} ms, the workload itself: {times:?}"
                );
            }
            let (prefills, steps) = kernels(&told[at]);
            match run["gpu_records"].as_u64() {
                None => assert!(name.starts_with("ranges only"), "{run}"),
                // And those of the warm-up.
                Some(records) => assert!(records > prefills + steps, "{records}"),
            }
        }
    }
    let left = names_in(&sandbox.path("b"));
    assert_eq!(left.len(), 2, "captures are not kept: {left:?}");
}

#[test]
fn a_workload_that_fails_is_measured_and_said_to_fail() {
    let sandbox = Sandbox::new();
    demo(&sandbox);
    let assert = bench(&sandbox, "1", &["./demo", "7"]).assert().code(7);
    assert
        .stdout(contains("**The workload itself fails** (exit status 7)").and(contains("`decode`")))
        .stderr(
            contains("the workload fails without a profiler: exit status 7")
                .and(contains("log.txt")),
        );
    assert_eq!(results(&sandbox)["workload_exit"], serde_json::json!({"code": 7}));
    assert!(sandbox.path("b/round-1/untraced/untraced/log.txt").is_file());
}

#[test]
fn a_workload_without_ranges_is_compared_as_a_whole_and_told_so() {
    let sandbox = Sandbox::new();
    launches(&sandbox);
    let assert = bench(&sandbox, "1", &["./launches"]).assert().success();
    assert.stdout(
        contains("opened no NVTX range: only the whole process is compared")
            .and(contains("| whole process | collector | 1 |"))
            .and(contains("recorded no").not()),
    );
    let results = results(&sandbox);
    assert_eq!(results["configurations"][4]["runs"][0]["gpu_records"], 10, "{results:#}");
}

#[test]
fn a_collector_whose_cupti_is_off_is_no_measurement_of_the_collector() {
    let sandbox = Sandbox::new();
    demo(&sandbox);
    let mut bench = bench(&sandbox, "1", &["./demo"]);
    bench.env("STAGE2_CUPTI", "/nonexistent/libcupti.so.13").assert().code(70).stdout(
        contains("collector: no complete measurement: `GPU work was not recorded: ")
            .and(contains("/nonexistent/libcupti.so.13"))
            .and(contains("| `decode` | ranges only | 1 |"))
            .and(contains("| `decode` | collector |").not()),
    );
}
