//! Small exports, made for one question each, and exports beyond the limits.

mod random_tests;
mod steps_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use stage2_contract::stats::Histogram;
use stage2_model::{Finding, PathKind, Report, RunInfo};

use random_tests::Numbers;
use stage2_read::nsys::capture::{Limits, read, read_within};
use stage2_read::trace::libraries::RangeNames;
use stage2_report::join::join;

const SCHEMA: &str = "
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
        correlationId INTEGER, globalPid INTEGER, mangledName INTEGER, graphNodeId INTEGER,
        gridX INTEGER, gridY INTEGER, gridZ INTEGER,
        blockX INTEGER, blockY INTEGER, blockZ INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,
        correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER,
        correlationId INTEGER, globalPid INTEGER, bytes INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, globalTid INTEGER,
        correlationId INTEGER);
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
        globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
    INSERT INTO StringIds VALUES (1, '_Z1av'), (10, 'prefill'), (11, 'decode');
";
const MAIN: i64 = (1 << 24) + 1;
const PROCESS: i64 = 1 << 24;

pub(crate) fn export(dir: &Path, sql: &str) -> PathBuf {
    let path = dir.join("made.sqlite");
    let _ = std::fs::remove_file(&path);
    let db = Connection::open(&path).expect("file");
    db.execute_batch(&format!("BEGIN; {SCHEMA} {sql} COMMIT;")).expect("tables");
    path
}

pub(crate) fn kernel(process: i64, correlation: impl ToString, start: i64, end: i64) -> String {
    format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({start}, {end}, 0, {}, {process}, 1, \
         NULL, 1, 2, 3, 64, 1, 1);",
        correlation.to_string()
    )
}

pub(crate) fn call(thread: i64, correlation: i64, start: i64) -> String {
    format!("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({start}, {thread}, {correlation});")
}

pub(crate) fn range(thread: i64, name: &str, start: i64, end: Option<i64>) -> String {
    let end = end.map_or("NULL".to_owned(), |end| end.to_string());
    format!(
        "INSERT INTO NVTX_EVENTS VALUES ({start}, {end}, 59, '{name}', {thread}, NULL, NULL, 0);"
    )
}

/// The report of an export with the rows of `sql`, and what was found on the way.
pub(crate) fn report_within(sql: &str, limits: Limits) -> (Report, Vec<Finding>) {
    let dir = tempfile::tempdir().expect("folder");
    let path = export(dir.path(), sql);
    let export = read_within(&path, &RangeNames::default(), limits).expect("export");
    let findings = export.capture.findings.clone();
    (join(export.capture, RunInfo::default(), Vec::new()), findings)
}

pub(crate) fn report(sql: &str) -> Report {
    let (report, findings) = report_within(sql, Limits::default());
    assert_eq!(findings, []);
    report
}

/// Instances and kernels of each path.
pub(crate) fn by_path(report: &Report) -> BTreeMap<String, (u64, u64)> {
    let row = |row: &stage2_model::PathRow| {
        let counts = (row.instances.unwrap_or(0), row.kernels_exclusive.unwrap_or(0));
        (row.path.clone(), counts)
    };
    report.paths.iter().map(row).filter(|(_, counts)| *counts != (0, 0)).collect()
}

#[test]
fn percentiles_are_those_of_the_one_histogram_for_each_path() {
    let (mut sql, mut exact) = (String::new(), BTreeMap::<&str, Vec<u64>>::new());
    let mut n = Numbers(7);
    for i in 0..400 {
        let (path, at) = if i % 4 == 0 { ("s/x", 15) } else { ("s", 5) };
        let ns = 1_000 + n.below(100_000);
        sql += &(kernel(PROCESS, i, 100, 100 + ns) + &call(MAIN, i, at));
        exact.entry(path).or_default().push(ns as u64);
    }
    sql += &(range(MAIN, "s", 0, Some(50)) + &range(MAIN, "x", 10, Some(20)));
    sql += &(kernel(PROCESS, 1_000, 0, 0) + &call(MAIN, 1_000, 15));
    let report = report(&sql);
    assert_eq!(report.kernels.len(), 2);
    for row in &report.kernels {
        let mut values = exact.remove(row.path.as_str()).expect("path");
        values.sort_unstable();
        let mut histogram = Histogram::default();
        values.iter().for_each(|&ns| histogram.add(ns));
        let times = &row.times;
        let untimed = u64::from(row.path == "s/x");
        assert_eq!(
            (times.calls, times.invalid_timestamp_calls),
            (values.len() as u64 + untimed, untimed)
        );
        assert_eq!((times.min_ns, times.max_ns), (values.first().copied(), values.last().copied()));
        assert_eq!(times.p50_ns, histogram.percentile(50));
        let p99 = histogram.percentile(99).filter(|_| values.len() >= 20);
        assert_eq!(times.p99_ns, p99);
        assert_eq!(times.total_ns, values.iter().sum::<u64>());
    }
}

#[test]
fn a_start_end_range_that_outlives_the_one_around_it_goes_on_without_it() {
    let sql = range(MAIN, "step", 0, Some(10))
        + "INSERT INTO NVTX_EVENTS VALUES (5, 15, 60, 'request', 16777217, 16777218, NULL, 0);"
        + &kernel(PROCESS, 1, 100, 110)
        + &kernel(PROCESS, 2, 120, 140)
        + &(call(MAIN, 1, 7) + &call(MAIN, 2, 12));
    let report = report(&sql);
    let rows: Vec<_> = report
        .paths
        .iter()
        .map(|row| (row.path.as_str(), row.instances, row.host_total_ns, row.kernels_inclusive))
        .collect();
    let expected = [
        ("request", Some(0), Some(5), Some(1)),
        ("step", Some(1), Some(10), Some(1)),
        ("step/request", Some(1), Some(5), Some(1)),
    ];
    assert_eq!(rows, expected);
    assert_eq!(report.paths[2].parent, Some(1));
}

#[test]
fn names_domains_and_ranges_without_end() {
    let nvtx = |rest: &str| format!("INSERT INTO NVTX_EVENTS VALUES ({rest});");
    let sql = [
        nvtx(&format!("0, NULL, 59, NULL, {MAIN}, NULL, 10, 0")),
        nvtx(&format!("1, 90, 59, 'aten::mm, op_id = 3', {MAIN}, NULL, NULL, 0")),
        nvtx(&format!("2, 80, 59, 'decode', {MAIN}, NULL, NULL, 3")),
        nvtx(&format!("3, 70, 59, 'x', {MAIN}, NULL, NULL, 4")),
        nvtx(&format!("91, 99, 59, 'aten::mm, op_id = 4', {MAIN}, NULL, NULL, 0")),
        // Behind its first use.
        nvtx(&format!("40, NULL, 75, 'vllm', {MAIN}, NULL, NULL, 3")),
        kernel(PROCESS, 1, 100, 110) + &call(MAIN, 1, 50),
        kernel(PROCESS, 2, 100, 110) + &call(MAIN, 2, 1_000),
    ];
    let report = report(&sql.concat());
    let expected = [
        ("prefill", (1, 1)),
        ("prefill/aten::mm", (2, 0)),
        ("prefill/aten::mm/decode@vllm", (1, 0)),
        ("prefill/aten::mm/decode@vllm/x@domain 4", (1, 1)),
    ];
    let expected = expected.map(|(path, counts)| (path.to_owned(), counts));
    assert_eq!(by_path(&report), BTreeMap::from(expected));
    assert_eq!(report.stages[0].unclosed, Some(1));
}

#[test]
fn ranges_of_libraries_are_no_stages_however_they_nest() {
    let nvtx = |rest: &str| format!("INSERT INTO NVTX_EVENTS VALUES ({rest});");
    let sql = [
        nvtx(&format!("0, 900, 59, 'ncclCommInitRank', {MAIN}, NULL, NULL, 3")),
        range(MAIN, "decode", 100, Some(200)),
        nvtx(&format!("120, 180, 59, 'ncclAllReduce', {MAIN}, NULL, NULL, 3")),
        range(MAIN, "layer", 140, Some(160)),
        range(MAIN, "decode", 300, Some(420)),
        // Behind its first use.
        nvtx(&format!("40, NULL, 75, 'NCCL', {MAIN}, NULL, NULL, 3")),
        kernel(PROCESS, 1, 10, 20) + &call(MAIN, 1, 5),
        kernel(PROCESS, 2, 130, 140) + &call(MAIN, 2, 130),
        kernel(PROCESS, 3, 150, 160) + &call(MAIN, 3, 150),
        kernel(PROCESS, 4, 330, 340) + &call(MAIN, 4, 310),
    ]
    .concat();
    let (expected, stages) = (
        [
            ("(outside ranges)/ncclCommInitRank@NCCL", (1, 1)),
            ("decode", (2, 1)),
            ("decode/layer", (1, 1)),
            ("decode/ncclAllReduce@NCCL", (1, 1)),
        ]
        .map(|(path, counts)| (path.to_owned(), counts)),
        |report: &Report| {
            let row = |row: &stage2_model::StageRow| {
                (row.stage.clone(), row.host_total_ns, row.gpu_window_ns, row.kernels)
            };
            report.stages.iter().map(row).collect::<Vec<_>>()
        },
    );
    let whole = report(&sql);
    assert_eq!(by_path(&whole), BTreeMap::from(expected));
    let of_user = [
        ("decode".to_owned(), Some(220), Some(220), Some(3)),
        ("(outside ranges)".to_owned(), None, None, Some(1)),
    ];
    assert_eq!(stages(&whole), of_user);
    // Where only outermost ranges are followed, those of the user are.
    let (outermost, _) = report_within(&sql, Limits { paths: 3, ..Limits::default() });
    assert_eq!(stages(&outermost), of_user);
    let dir = tempfile::tempdir().expect("folder");
    let tables = stage2_read::nsys::sqlite::load(&export(dir.path(), &sql), &RangeNames::default())
        .expect("tables");
    let names: Vec<_> = tables.ranges.iter().map(|r| (r.name.as_str(), r.instances)).collect();
    assert_eq!(names, [("decode", Some(2))]);
    assert_eq!((tables.counts.in_ranges, tables.counts.outside_ranges), (3, 1));
}

#[test]
fn copies_and_fills_are_busy_time_and_migrations_are_not() {
    let sql = range(MAIN, "s", 0, Some(1_000))
        + &(kernel(PROCESS, 1, 100, 200) + &call(MAIN, 1, 10))
        + &format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (150, 300, 0, 2, {PROCESS}, 64, 1),
               (400, 900, 0, 2, {PROCESS}, 64, 11);"
        )
        + &format!("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (500, 510, 0, 3, {PROCESS}, 7);")
        + &(call(MAIN, 2, 11) + &call(MAIN, 3, 12));
    let report = report(&sql);
    let stage = &report.stages[0];
    assert_eq!((stage.gpu_busy_ns, stage.gpu_window_ns), (Some(210), Some(1_000)));
    assert_eq!((stage.kernels, stage.copies, stage.fills), (Some(1), Some(1), Some(1)));
    let copy = &report.copies[0];
    assert_eq!((copy.bytes, copy.direction.as_deref()), (64, Some("host to device")));
    assert_eq!((report.fills[0].bytes, report.fills[0].path.as_str()), (7, "s"));
}

#[test]
fn work_without_the_number_of_a_launch_is_unattributed() {
    let sql = range(MAIN, "s", 0, Some(1_000))
        + &kernel(PROCESS, "NULL", 100, 200)
        + &kernel(PROCESS, 7, 100, 150);
    let report = report(&sql);
    assert_eq!(by_path(&report)["(unattributed)"], (0, 2));
    let row = &report.kernels[0];
    assert_eq!((report.kernels.len(), row.times.calls, row.times.total_ns), (1, 2, 150));
    assert_eq!(report.paths.iter().filter(|row| row.kind == PathKind::Unattributed).count(), 1);
}

#[test]
fn beyond_the_limits_there_are_outermost_ranges_and_a_word_about_it() {
    let mut sql = String::new();
    for i in 0..50 {
        let at = i * 100;
        sql += &range(MAIN, "decode", at, Some(at + 90));
        sql += &range(MAIN, &format!("layer {i}"), at + 1, Some(at + 80));
        sql += &(kernel(PROCESS, i, at, at + 10) + &call(MAIN, i, at + 5));
    }
    let limited = |limits: Limits| {
        let (report, findings) = report_within(&sql, limits);
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        (by_path(&report), found.join("\n"), report.stages[0].gpu_busy_ns)
    };
    let all = Limits::default();
    let whole = limited(all);
    assert_eq!((whole.0.len(), whole.1.as_str()), (51, ""));
    for (limits, of) in [
        (Limits { paths: 20, ..all }, "20 names or paths"),
        (Limits { groups: 20, ..all }, "20 rows"),
        (Limits { open: 1, ..all }, "more than 1 of its ranges are open"),
    ] {
        let (paths, found, busy) = limited(limits);
        assert_eq!(paths, BTreeMap::from([("decode".to_owned(), (50, 50))]), "{of}");
        assert!(found.contains("outermost ranges") && found.contains(of), "{found}");
        assert_eq!(busy, whole.2);
    }
}

#[test]
fn too_many_outermost_ranges_are_taken_together() {
    let mut sql = String::new();
    for i in 0..50 {
        sql += &range(MAIN, &format!("step {i}"), i * 100, Some(i * 100 + 90));
        sql += &(kernel(PROCESS, i, 0, 10) + &call(MAIN, i, i * 100 + 5));
    }
    let (report, findings) = report_within(&sql, Limits { stages: 20, ..Limits::default() });
    let paths = by_path(&report);
    assert_eq!((paths.len(), paths["(other ranges)"]), (21, (30, 30)));
    assert!(findings.iter().any(|f| f.what.contains("30 ranges")), "{findings:?}");
}

#[test]
fn ranges_that_overlap_again_and_again_do_not_take_for_ever() {
    let ranges = (0..200).map(|i| range(MAIN, "x", i, Some(i + 100)));
    let sql = ranges.collect::<String>() + &(kernel(PROCESS, 1, 0, 10) + &call(MAIN, 1, 150));
    let (whole, _) = report_within(&sql, Limits::default());
    assert_eq!(whole.paths.iter().map(|row| row.depth).max(), Some(99));
    let limits = Limits { continuations: 1_000, ..Limits::default() };
    let (report, findings) = report_within(&sql, limits);
    assert_eq!(by_path(&report), BTreeMap::from([("x".to_owned(), (200, 1))]));
    assert!(findings[0].why.contains("overlap"), "{findings:?}");
}

#[test]
fn start_end_ranges_of_one_name_stand_side_by_side() {
    let start_end =
        |i: i64| range(MAIN, "x", 10 * i, Some(10 * i + 1_000)).replace(", 59, ", ", 60, ");
    let sql = (0..200).map(start_end).collect::<String>()
        + &range(MAIN, "decode", 1_491, Some(1_499))
        + &(kernel(PROCESS, 1, 0, 10) + &call(MAIN, 1, 1_495));
    // None goes on when another one ends.
    let limits = Limits { continuations: 0, ..Limits::default() };
    let (report, findings) = report_within(&sql, limits);
    let expected = [("x".to_owned(), (200, 0)), ("x/decode".to_owned(), (1, 1))];
    assert_eq!(by_path(&report), BTreeMap::from(expected), "{findings:?}");
}

#[test]
fn damaged_and_odd_rows_do_no_harm() {
    let nvtx = |rest: &str| format!("INSERT INTO NVTX_EVENTS VALUES ({rest});");
    let extremes = [i64::MIN, -1, 0, 1, i64::MAX];
    let mut sql = String::new();
    for (i, &start) in (0..).zip(&extremes) {
        for &end in extremes.iter().filter(|&&end| end >= start) {
            sql += &nvtx(&format!("{start}, {end}, 59, 'x', {MAIN}, NULL, NULL, {start}"));
            sql += &kernel(PROCESS, i, start, end);
        }
        sql += &call(MAIN, i, start);
    }
    sql += &nvtx("'a', 'b', 60, X'FF', 'c', NULL, 99, 1.5");
    sql += &nvtx("5, 3, 59, 'x', NULL, NULL, NULL, NULL");
    sql += &kernel(-1, i64::MAX, 5, 3);
    let (report, _) = report_within(&sql, Limits::default());
    let kernels: u64 = report.kernels.iter().map(|row| row.times.calls).sum();
    assert_eq!(kernels, 16);
    let stages: BTreeSet<&str> = report.kernels.iter().map(|row| row.stage.as_str()).collect();
    assert!(stages.len() > 1, "{stages:?}");
}

/// Thirty kernels of a kind each, in the range `decode`.
fn thirty_kinds() -> String {
    let kernels = (0..30).map(|i| {
        let row =
            kernel(PROCESS, i, 100, 110).replace("1, 2, 3, 64", &format!("{}, 2, 3, 64", i + 1));
        row + &call(MAIN, i, i + 10)
    });
    kernels.collect::<String>() + &range(MAIN, "decode", 0, Some(1_000))
}

/// Hazard (Hostile files): An nsys export with millions of kinds of kernels.
/// Promise: They are counted together, and that is said.
#[test]
fn kinds_of_kernels_beyond_the_limit_are_counted_together() {
    let limits = Limits { kinds: 10, ..Limits::default() };
    let (report, findings) = report_within(&thirty_kinds(), limits);
    let calls = |name: &str| {
        let of_name = report.kernels.iter().filter(|row| row.kernel == name);
        of_name.map(|row| row.times.calls).collect::<Vec<_>>()
    };
    assert_eq!((calls("a"), calls("(other kernels)")), (vec![1; 10], vec![20]));
    let said = findings.iter().any(|f| f.what.starts_with("20 pieces of GPU work"));
    assert!(said, "{findings:?}");
    let (whole, findings) = report_within(&thirty_kinds(), Limits { kinds: 30, ..limits });
    assert_eq!((whole.kernels.len(), findings), (30, Vec::new()), "as many as the limit says");
}

/// Hazard (Hostile files): An nsys export whose work makes too many rows.
/// Promise: It is in every sum, and a finding states how much of it is in no range.
#[test]
fn work_beyond_the_rows_that_are_kept_is_in_no_range_and_in_every_sum() {
    let limits = Limits { groups: 5, outermost_groups: 12, ..Limits::default() };
    let (report, findings) = report_within(&thirty_kinds(), limits);
    assert_eq!(by_path(&report)["decode"], (1, 12));
    assert_eq!(report.kernels.iter().map(|row| row.times.calls).sum::<u64>(), 30);
    let said = findings.iter().any(|f| f.what.starts_with("18 pieces of GPU work"));
    assert!(said, "{findings:?}");
}

#[test]
fn names_beyond_their_bytes_are_counted() {
    let rows = (0..30).map(|i| {
        let name = format!("INSERT INTO StringIds VALUES ({}, '{i:0>40}');", i + 100);
        let row = kernel(PROCESS, i, 100, 110).replace("1, NULL", &format!("{}, NULL", i + 100));
        name + &row
    });
    let limits = Limits { name_bytes: 400, ..Limits::default() };
    let (report, findings) = report_within(&rows.collect::<String>(), limits);
    assert_eq!(report.kernels.iter().map(|row| row.times.calls).sum::<u64>(), 30);
    let said = findings.iter().any(|f| f.what.starts_with("20 names of kernels"));
    assert!(said, "{findings:?}");
}

#[test]
fn each_process_has_the_names_of_its_own_ranges_only() {
    let ranges = (0..20).map(|i| range(((i + 1) << 24) + 1, &format!("range {i}"), i, Some(i + 1)));
    let dir = tempfile::tempdir().expect("folder");
    let path = export(dir.path(), &ranges.collect::<String>());
    let read = read(&path, &RangeNames::default()).expect("export");
    let names: Vec<usize> = read.capture.processes.iter().map(|p| p.names.len()).collect();
    assert_eq!(names, [1; 20]);
}
