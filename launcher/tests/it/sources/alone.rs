//! One source alone: its numbers are the rows, and every view says whose they are; what is said, and what is
//! not, of captures that no collector made; and captures without any range.

use std::fs;
use std::path::Path;

use serde_json::Value;
use stage2_contract::trace::NONE;
use stage2_launch::reports::write_reports;

use super::combined::write_trace;
use super::{Bundle, Place, fixture, raw_page, sql, table};
use crate::common::trace::Build;
use crate::common::{change_export, row};

/// Every view says that the rows are those of `tool`.
fn says(bundle: &Bundle, tool: &str) {
    let verdict = format!("kernels of {tool} and none of the collector");
    for page in ["kernels.md", "report.md"] {
        assert!(bundle.text(page).contains(&verdict), "{page}");
    }
    assert!(bundle.said.contains(&verdict), "{}", bundle.said);
    assert_eq!(bundle.values("source"), [tool]);
    let metrics = bundle.json("metrics.json");
    assert_eq!(metrics["source"], tool);
    assert_eq!(metrics["coverage"]["verdict"]["status"], "partial");
    for row in metrics["kernels"].as_array().expect("rows") {
        assert_eq!(row["sources"]["times"], tool);
    }
    assert!(bundle.text("kernels.md").contains(&format!("Times are those of {tool}")));
    assert!(!bundle.said.contains("no spool file"), "none was asked for: {}", bundle.said);
}

#[test]
fn an_export_of_any_name_gives_rows_and_stages() {
    let place = Place::new();
    let database = place.put("nsys/decode.sqlite.xz", "from node 7.sqlite");
    let bundle = place.merged(&["--nsys", "from node 7.sqlite"]);
    says(&bundle, "nsys");
    let sums = sql(&database, None);
    assert_eq!(sums.values().map(|sum| sum.0).sum::<u64>(), 5_552);
    assert_eq!(bundle.sums(None), sums);
    assert_eq!(bundle.sums(Some("decode")), sql(&database, Some("decode")));
    assert_eq!(bundle.values("stage"), ["decode"]);
    let metrics = bundle.json("metrics.json");
    assert_eq!(metrics["stages"][0]["kernels"], 5_552);
    assert_eq!(metrics["devices"][0]["uuid"], serde_json::Value::Null, "none is made up");
    assert_eq!(metrics["devices"][0]["name"], "NVIDIA H200");
    numbers_without_advice(&bundle, "one call, which is cold, under nsys");
    let idle = said(&bundle).iter().any(|takeaway| takeaway["rule"] == "gpu_idle");
    assert!(idle, "its idle time is shown: {:?}", said(&bundle));
}

#[test]
fn a_lossy_export_is_used_only_with_a_loud_word() {
    let place = Place::new();
    let database = place.put("nsys/lossy.sqlite.xz", "run.sqlite");
    let bundle = place.merged(&["--nsys", "run.sqlite"]);
    says(&bundle, "nsys");
    assert_eq!(bundle.sums(None), sql(&database, None));
    for stage in ["prefill", "decode"] {
        assert_eq!(bundle.sums(Some(stage)), sql(&database, Some(stage)), "{stage}");
    }
    assert!(bundle.text("kernels.md").contains("LOST RECORDS"));
    let metrics = bundle.json("metrics.json");
    for stage in metrics["stages"].as_array().expect("stages") {
        assert!(stage["gpu_idle_ns"].is_null() && stage["gpu_busy_ns"].is_null(), "{stage:#}");
    }
    assert!(bundle.said.contains("stage2-launch: error: the collector has no kernels"));
}

#[test]
fn a_copy_to_give_away_is_read_where_the_whole_export_is_missing_or_damaged() {
    let place = Place::new();
    let scrubbed = place.put("nsys/decode.sqlite.xz", "run.scrubbed.sqlite");
    let sums = sql(&scrubbed, None);
    assert_eq!(place.merged(&["--nsys", "run.scrubbed.sqlite"]).sums(None), sums);
    fs::write(place.path("run.sqlite"), "no database").expect("file");
    fs::remove_dir_all(place.path("out")).expect("bundle");
    let words = ["--nsys", "run.scrubbed.sqlite", "--nsys", "run.sqlite"];
    let bundle = place.merged(&words);
    assert_eq!(bundle.sums(None), sums);
    assert!(bundle.said.contains("run.sqlite is not in the bundle"), "{}", bundle.said);
}

#[test]
fn tables_of_nsys_stats_give_rows_without_stages() {
    let place = Place::new();
    let name = "decode_m_cuda_gpu_kern_sum_mangled.csv";
    place.put(&format!("nsys/{name}"), name);
    let bundle = place.merged(&["--nsys", name]);
    says(&bundle, "nsys");
    assert_eq!(bundle.sums(None), table(&fixture("nsys").join(name)));
    assert_eq!(bundle.values("stage"), ["(whole capture)"]);
    assert_eq!(bundle.values("grid_x"), [""], "the table has no launch configurations");
    numbers_without_advice(&bundle, "under nsys");
    let text = format!("{:?}", said(&bundle));
    assert!(text.contains("(whole capture): "), "{text}");
}

#[test]
fn launches_that_ncu_profiled_are_rows_with_their_counters() {
    let place = Place::new();
    let raw = place.put("ncu/matmul.raw.csv.xz", "my_raw.csv");
    place.put("ncu/matmul.details.csv.xz", "my_details.csv");
    let bundle = place.merged(&["--ncu", "my_raw.csv", "--ncu", "my_details.csv"]);
    says(&bundle, "ncu");
    assert_eq!(bundle.sums(None), raw_page(&raw));
    assert_eq!(bundle.values("counters_source"), ["ncu"]);
    let metrics = bundle.json("metrics.json");
    let row = &metrics["kernels"][0];
    assert!(row["counters"]["sm_percent"].is_number(), "{row:#}");
    assert!(row["counters"]["roofline"]["duration_ratio"].is_null(), "nothing to check against");
    assert!(!row["counters"]["rules"].as_array().expect("rules").is_empty(), "both pages count");
    for page in ["stakeholder_summary.md", "operators.md"] {
        let text = bundle.text(page);
        assert!(text.contains("ncu, which gives no times of ranges"), "{text}");
        assert!(!text.contains("opened no NVTX range"), "nobody looked: {text}");
    }
}

#[test]
fn times_of_nsys_are_not_called_the_collectors_beside_a_baseline() {
    let place = Place::new();
    place.put("nsys/decode.sqlite.xz", "a.sqlite");
    let costs = |bundle: &Bundle| {
        let text = bundle.text("report.md");
        let costs = text.split("## Cost of the passes").nth(1).expect("section");
        costs.split("\n## ").next().expect("section").to_owned()
    };
    let bundle = place.merged(&["--nsys", "a.sqlite"]);
    let alone = costs(&bundle);
    assert!(alone.contains("there is nothing to compare its capture with"), "{alone}");
    assert!(!alone.contains("not reliable"), "nothing speaks against it: {alone}");
    let mut b = Build::process(1, "python3");
    b.anchor(1).name(1, b"decode").path(1, NONE, 1).open(1, 1, 0, 1_000).close(1, 9_000).end();
    b.save(&place.path(""), "h-1.s2t");
    fs::rename(place.path("collector"), bundle.dir.join("baseline")).expect("baseline");
    write_reports(&bundle.dir).expect("reports");
    let both = costs(&bundle);
    assert!(both.contains("| baseline | `decode` | 0.008 | 1 |"), "{both}");
    assert!(both.contains("| nsys | `decode` |") && !both.contains("| collect"), "{both}");
}

#[test]
fn trace_files_alone_are_the_collectors() {
    let place = Place::new();
    let nsys = place.put("nsys/decode.sqlite.xz", "decode.sqlite");
    write_trace(&place, &nsys);
    let bundle = place.merged(&["--spool", "spools"]);
    assert_eq!(bundle.values("source"), ["collector"]);
    assert_eq!(bundle.values("counters_source"), [""]);
    assert_eq!(bundle.sums(Some("decode")), sql(&nsys, None), "as the spool was made");
    let run = bundle.json("run.json");
    assert_eq!(run["passes"][0]["name"], "collect");
    assert_eq!(run["passes"][0]["merged"]["collector/h-1.s2t"], "spools/h-1.s2t");
}

#[test]
fn the_bundle_says_what_it_was_made_of_and_nothing_of_this_machine() {
    let place = Place::new();
    place.put("nsys/decode.sqlite.xz", "a.sqlite");
    let words =
        ["--nsys", "a.sqlite", "report.top_n=3", "hardware.memory_gb_per_s=77", "run.mode=light"];
    let bundle = place.merged(&words);
    assert!(bundle.text("kernels.md").contains("Rows: 3 of "));
    assert!(bundle.text("config.yaml").contains("77"));
    assert!(bundle.text("run.json").contains("without effect on a merge: run.mode"));
    let environment = bundle.json("env.json");
    assert!(environment["environment"].as_str().is_some_and(|text| text.starts_with("not known")));
    assert_eq!(environment["gpu"]["devices"][0]["name"], "NVIDIA H200");
    assert_eq!(environment["tools"]["nsys"]["version"], "2023.4.4.54");
    assert!(environment["host"].is_null());
    let run = bundle.json("run.json");
    assert_eq!(run["passes"].as_array().map(Vec::len), Some(1));
    assert_eq!(run["passes"][0]["why"], "merged from a.sqlite");
    assert_eq!(run["tools"]["nsys"]["version"], "2023.4.4.54");
    assert!(!bundle.dir.join("nsys/SENSITIVE.txt").exists(), "the copy was scrubbed");
    assert!(bundle.text("run.json").contains("a.sqlite is a scrubbed copy"));
    let pages =
        || ["report.md", "kernels.csv", "stakeholder_summary.md"].map(|name| bundle.text(name));
    let before = pages();
    place.command(&["report", "out"]).assert().success();
    assert!(before == pages(), "the bundle alone gives the same reports");
}

/// NCCL opens ranges of its own around each of its calls, within those of the program and without.
#[test]
fn ranges_of_nccl_in_a_real_export_are_no_stages() {
    let place = Place::new();
    let path = place.put("nsys/nccl.sqlite.xz", "a.sqlite");
    let database = rusqlite::Connection::open(&path).expect("database");
    let of_nccl = "SELECT count(*) FROM NVTX_EVENTS WHERE domainId = 1 AND eventType = 59";
    let count: i64 = database.query_row(of_nccl, [], |row| row.get(0)).expect("a count");
    assert_eq!(count, 1_628);
    let metrics = place.merged(&["--nsys", "a.sqlite"]).json("metrics.json");
    let stages = metrics["stages"].as_array().expect("stages");
    let mut names: Vec<&str> = stages.iter().filter_map(|row| row["stage"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["(outside ranges)", "decode", "prefill", "warmup"]);
}

/// Takeaways that are about the workload and not about the capture.
fn said(bundle: &Bundle) -> Vec<Value> {
    let metrics = bundle.json("metrics.json");
    let takeaways = metrics["takeaways"].as_array().expect("takeaways").clone();
    takeaways.into_iter().filter(|takeaway| takeaway["rule"] != "incomplete").collect()
}

fn numbers_without_advice(bundle: &Bundle, label: &str) {
    let said = said(bundle);
    assert!(!said.is_empty());
    for takeaway in &said {
        let text = takeaway["text"].as_str().expect("text");
        assert!(text.contains(label) && text.contains("not a basis for advice"), "{text}");
        assert!(text.contains(|c: char| c.is_ascii_digit()), "{text}");
        assert!(takeaway["recommendation"].is_null() && takeaway["concerns_percent"].is_null());
    }
    for page in ["report.md", "stakeholder_summary.md"] {
        let text = bundle.text(page);
        for guess in ["something else", ".item()", "of the time of all stages |"] {
            assert!(!text.contains(guess), "{page}: {guess}");
        }
    }
}

#[test]
fn what_is_a_library_can_be_said_when_the_reports_are_written() {
    let place = Place::new();
    let mut b = Build::process(1, "x");
    b.anchor(1).device(0, "GPU", 1).name(1, b"execute").name(2, b"vllm.worker").name(3, b"k");
    b.shape(1, 3, 1).path_in(1, NONE, 1, 2);
    b.open(1, 1, 0, 100).kernel(1, 1, 1, (200, 300)).close(1, 400).end();
    b.save(&place.path("run"), "a.s2t");
    let stages = |bundle: &Bundle| -> Vec<String> {
        let metrics = bundle.json("metrics.json");
        let rows = metrics["stages"].as_array().expect("stages");
        rows.iter().map(|row| row["stage"].as_str().expect("stage").to_owned()).collect()
    };
    let bundle =
        place.merged(&["--spool", "run/collector", "report.library_domains=[other,'VLLM.*']"]);
    assert_eq!(stages(&bundle), ["(whole process)"]);
    place.command(&["report", "out", "report.library_domains=[]"]).assert().success();
    assert_eq!(stages(&bundle), ["execute@vllm.worker"]);
    place.command(&["report", "out", "report.library_domains=vllm.worker"]).assert().success();
    assert_eq!(stages(&bundle), ["(whole process)"]);
}

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
    let what = "none of the workload's ranges was recorded";
    row(&metrics["findings"], "what", what)["why"].as_str().expect("text").to_owned()
}

/// The recorded decode of eight steps, without its NVTX table.
#[test]
fn an_export_without_ranges_has_its_steps() {
    let place = Place::new();
    let path = place.put("nsys/decode.sqlite.xz", "a.sqlite");
    change_export(&path, "DROP TABLE NVTX_EVENTS; VACUUM;");
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
