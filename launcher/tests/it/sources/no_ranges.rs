//! Captures of other tools without any range: one stage, and steps where the order of kernels is known.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use crate::sources::plain::{Bundle, Place};

fn only_stage(metrics: &Value) -> &Value {
    let stages = metrics["stages"].as_array().expect("stages");
    let [stage] = stages.as_slice() else { panic!("{stages:#?}") };
    assert_eq!(stage["kind"], "whole_process");
    stage
}

fn rules(metrics: &Value, stage: &str) -> Vec<String> {
    let takeaways = metrics["takeaways"].as_array().expect("takeaways");
    let of_stage = takeaways.iter().filter(|t| t["stage"] == stage);
    of_stage.map(|t| t["rule"].as_str().expect("rule").to_owned()).collect()
}

/// Empties the columns of NVTX ranges in a page of ncu.
fn without_ranges(page: &Path) {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_path(page).expect("page");
    let head = reader.headers().expect("head").clone();
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    writer.write_record(&head).expect("head");
    for row in reader.records() {
        let row = row.expect("row");
        let cells = head.iter().zip(&row);
        let cells = cells.map(|(name, cell)| if name.contains("_Range:") { "" } else { cell });
        writer.write_record(cells).expect("row");
    }
    fs::write(page, writer.into_inner().expect("page")).expect("page");
}

fn why(bundle: &Bundle) -> String {
    let metrics = bundle.json("metrics.json");
    let findings = metrics["findings"].as_array().expect("findings");
    let finding =
        findings.iter().find(|f| f["what"] == "none of the workload's ranges was recorded");
    finding.expect("the finding")["why"].as_str().expect("text").to_owned()
}

/// The recorded decode of eight steps, without its NVTX table.
#[test]
fn an_export_without_ranges_has_its_steps() {
    let place = Place::new();
    let path = place.put("nsys/decode.sqlite.xz", "a.sqlite");
    let database = Connection::open(&path).expect("database");
    database.execute_batch("DROP TABLE NVTX_EVENTS; VACUUM;").expect("dropped");
    let bundle = place.merged(&["--nsys", "a.sqlite"]);
    let metrics = bundle.json("metrics.json");
    let rows = metrics["inferred_steps"]["rows"].as_array().expect("rows");
    let [row] = rows.as_slice() else { panic!("{rows:#?}") };
    assert_eq!((&row["kernels_per_step"], &row["steps"]), (&694.into(), &8.into()), "{row:#}");
    assert_eq!((&row["phases"], &row["resembles"]), (&1.into(), &"repeating".into()));
    assert!(row["step_p50_ns"].as_u64().is_some_and(|ns| ns > 1_000_000), "{row:#}");
    let stage = only_stage(&metrics);
    assert_eq!((&stage["stage"], &stage["kernels"]), (&"(whole process)".into(), &5_552.into()));
    assert!(stage["gpu_idle_ns"].as_u64().is_some_and(|ns| ns > 0), "{stage:#}");
    assert!(!rules(&metrics, "(whole process)").is_empty());
    assert!(why(&bundle).contains("inferred from the kernel sequence"));
}

#[test]
fn tables_without_an_order_are_one_stage_without_steps() {
    let place = Place::new();
    let name = "decode_m_cuda_gpu_kern_sum_mangled.csv";
    place.put(&format!("nsys/{name}"), name);
    let of_nsys = place.merged(&["--nsys", name]);
    let place = Place::new();
    for page in ["raw", "details"] {
        let file = place.put(&format!("ncu/matmul.{page}.csv.xz"), &format!("my_{page}.csv"));
        without_ranges(&file);
    }
    let of_ncu = place.merged(&["--ncu", "my_raw.csv", "--ncu", "my_details.csv"]);
    for bundle in [of_nsys, of_ncu] {
        let metrics = bundle.json("metrics.json");
        let stage = only_stage(&metrics);
        assert_eq!(stage["stage"], "(whole capture)");
        assert!(stage["kernel_sum_ns"].as_u64().is_some_and(|ns| ns > 0));
        assert_eq!(stage["gpu_idle_ns"], Value::Null, "nobody knows");
        assert!(!rules(&metrics, "(whole capture)").is_empty(), "{:#}", metrics["takeaways"]);
        assert_eq!(metrics.get("inferred_steps"), None);
        let why = why(&bundle);
        assert!(why.contains("has totals per kernel, not their order"), "{why}");
    }
}
