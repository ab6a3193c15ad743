//! A run of two ranks, with all that makes an export hard -> each format, read back.

mod common;
mod host;
mod host_tracks;

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use common::trace;
use serde_json::Value;
use stage2_export::{ExportError, Exported, Format, Run, Selection, Traces, export};
use stage2_model::{ClockPoint, HostClock, ProcessRow};
use stage2_read::trace::libraries::RangeNames;

struct Scratch {
    folder: tempfile::TempDir,
    run: Run,
}

fn run_of(processes: &[(u32, &str)]) -> Scratch {
    let folder = tempfile::tempdir().expect("folder");
    let traces = folder.path().join("traces");
    fs::create_dir(&traces).expect("folder");
    let mut rows = Vec::new();
    for (rank, &(pid, host)) in (0u64..).zip(processes) {
        trace(&traces, pid, host, 1_000 * rank);
        rows.push(ProcessRow {
            file: format!("{host}-{pid}.s2t"),
            rank: Some(rank),
            world_size: Some(processes.len() as u64),
            ..ProcessRow::default()
        });
    }
    let run = of_folder(&traces, &rows).expect("run");
    Scratch { folder, run }
}

fn of_folder(traces: &Path, rows: &[ProcessRow]) -> Result<Run, ExportError> {
    Run::of_traces("try".into(), Traces::read(traces, &RangeNames::default()), rows)
}

impl Scratch {
    fn export(&self, format: Format, name: &str) -> Exported {
        self.select(format, name, &Selection::default()).expect(name)
    }

    fn select(&self, format: Format, name: &str, s: &Selection) -> Result<Exported, ExportError> {
        export(&self.run, format, s, &self.path(name))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An export, read back.
    fn text(&self, format: Format) -> String {
        self.export(format, "x");
        fs::read_to_string(self.path("x")).expect("file")
    }

    fn database(&self) -> rusqlite::Connection {
        self.export(Format::Sqlite, "x.sqlite");
        rusqlite::Connection::open(self.path("x.sqlite")).expect("database")
    }
}

fn unzipped(path: &Path) -> String {
    let mut text = String::new();
    let packed = File::open(path).expect("file");
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).expect("gzip");
    text
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&unzipped(path)).expect("JSON")
}

#[test]
fn what_a_file_holds_and_what_it_cannot_hold_is_counted() {
    let scratch = run_of(&[(110, "a"), (111, "a")]);
    for format in Format::ALL {
        let counts = scratch.export(format, format.name()).counts;
        let timeline = matches!(format, Format::Perfetto | Format::Chrome | Format::Sqlite);
        let kernels = if timeline { 20 } else { 22 };
        assert_eq!((counts.kernels, counts.memory, counts.graphs), (kernels, 4, 2), "{format:?}");
        assert_eq!((counts.without_times, counts.not_selected), (2, 0), "{format:?}");
        assert_eq!(counts.ranges, 10, "{format:?}");
    }
}

#[test]
fn chrome_keeps_all_work_in_rows_where_nothing_overlaps() {
    let scratch = run_of(&[(110, "a"), (111, "a")]);
    let files = scratch.export(Format::Chrome, "chrome").files;
    assert_eq!(files.len(), 2);
    for (rank, file) in files.iter().enumerate() {
        let trace = json(file);
        assert_eq!(trace["distributedInfo"]["rank"], rank);
        let events = trace["traceEvents"].as_array().expect("events");
        let of = |cat: &str| events.iter().filter(move |e| e["cat"] == cat).collect::<Vec<_>>();
        assert_eq!([of("kernel").len(), of("gpu_memcpy").len(), of("gpu_graph").len()], [10, 1, 1]);
        let micros: f64 = of("kernel").iter().filter_map(|e| e["dur"].as_f64()).sum();
        assert!((micros - 10.0).abs() < 1e-9, "{micros}");
        let mut rows: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
        for event in events.iter().filter(|e| e["ph"] == "X" && e["args"]["stream"] == 13) {
            let at = event["ts"].as_f64().expect("ts");
            let row = (event["pid"].as_u64().expect("pid"), event["tid"].as_u64().expect("tid"));
            rows.entry(row).or_default().push((at, at + event["dur"].as_f64().expect("dur")));
        }
        assert_eq!(rows.len(), 2, "the kernels that overlap have a second row");
        for spans in rows.values_mut() {
            spans.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-9), "{spans:?}");
        }
        let is_hostile = |e: &&Value| e["name"].as_str().is_some_and(|n| n.contains("say \"hi\""));
        assert!(of("kernel").iter().any(is_hostile));
        assert!(of("user_annotation").iter().any(|e| e["name"] == "never closed"));
    }
    let plain = unzipped(&files[1]);
    assert!(plain.contains("\"rank\": 1,"), "HolisticTraceAnalysis searches for it with a space");
}

/// Hazard (Resources): An export is larger than the disk.
/// Promise: Its size is known before it is written: it takes no more, and at least half as much.
#[test]
fn sizes_are_known_before_they_are_written() {
    let bundle = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sample/vllm_two_gpus");
    let run = Run::of_bundle(Path::new(bundle), &RangeNames::default()).expect("run");
    let folder = tempfile::tempdir().expect("folder");
    for (format, name) in [
        (Format::Perfetto, "a.perfetto-trace"),
        (Format::Perfetto, "b.perfetto-trace.gz"),
        (Format::Chrome, "c.chrome"),
        (Format::Csv, "d.csv"),
        (Format::Csv, "e.csv.gz"),
        (Format::Sqlite, "f.sqlite"),
    ] {
        let out = folder.path().join(name);
        let estimate = format.estimate(&run, &Selection::default(), &out);
        let files = export(&run, format, &Selection::default(), &out).expect(name).files;
        let bytes: u64 = files.iter().map(|file| fs::metadata(file).expect(name).len()).sum();
        assert!(estimate / 2 < bytes && bytes <= estimate, "{name}: {bytes}, not {estimate}");
    }
}

#[test]
fn files_are_gzipped_by_their_names() {
    let scratch = run_of(&[(110, "a")]);
    for (name, packed) in
        [("x.csv", false), ("x.csv.gz", true), ("x.folded.gz", true), ("x", false)]
    {
        let format = if name.contains("csv") { Format::Csv } else { Format::Folded };
        let files = scratch.export(format, name).files;
        let bytes = fs::read(&files[0]).expect(name);
        assert_eq!(bytes.starts_with(&[0x1f, 0x8b]), packed, "{name}");
        let text =
            if packed { unzipped(&files[0]) } else { String::from_utf8(bytes).expect("UTF-8") };
        assert!(text.contains("prefill") && text.ends_with('\n'), "{name}: {text:.200}");
    }
}

#[test]
fn sqlite_has_the_tables_of_nsys_and_the_range_of_each_kernel() {
    let scratch = run_of(&[(110, "a"), (111, "a")]);
    let db = scratch.database();
    let kernels = "SELECT k.globalPid >> 24 & 0xffffff, s.value, w.rangePath, sum(k.end - k.start)
        FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.mangledName
        JOIN STAGE2_WORK_RANGES w ON w.kind = 'kernel' AND w.workRowId = k.rowid
        GROUP BY 1, 2, 3 ORDER BY 1, 3";
    let mut query = db.prepare(kernels).expect("query");
    let rows =
        query.query_map([], |row| Ok((row.get(0)?, row.get(2)?, row.get(3)?))).expect("rows");
    let rows: Vec<(i64, String, i64)> = rows.map(|row| row.expect("row")).collect();
    let of_one = [
        ("(outside ranges)", 1_000),
        ("(unattributed)", 1_000),
        ("decode", 1_000),
        ("decode/ncclAllReduce@NCCL", 1_000),
        ("decode/step", 1_000),
        ("prefill", 5_000),
    ];
    let expected: Vec<(i64, String, i64)> = [110, 111]
        .into_iter()
        .flat_map(|pid| of_one.map(|(path, ns)| (pid, path.to_owned(), ns)))
        .collect();
    assert_eq!(rows, expected);
    let count = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).expect(sql);
    assert_eq!(count("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59"), 10);
    assert_eq!(count("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 75 AND text = 'NCCL'"), 2);
    assert_eq!(count("SELECT min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL"), 100);
    assert_eq!(count("SELECT count(*) FROM TARGET_INFO_GPU"), 1, "two processes, one GPU");
}

#[test]
fn totals_by_path_hold_every_nanosecond_of_the_run() {
    let scratch = run_of(&[(110, "a")]);
    let text = scratch.text(Format::Folded);
    let numbers = text.lines().map(|line| line.rsplit_once(' ').expect("number").1);
    assert_eq!(numbers.map(|n| n.parse::<u64>().expect("ns")).sum::<u64>(), 12_750);
    assert!(text.contains("decode;step;say \"hi\": <b>"), "{text}");
    fs::remove_file(scratch.path("x")).expect("file");
    let tree: Value = serde_json::from_str(&scratch.text(Format::Hatchet)).expect("JSON");
    fn ns(node: &Value) -> u64 {
        let own = node["metrics"]["time (ns)"].as_u64().unwrap_or(0);
        own + node["children"].as_array().map_or(0, |all| all.iter().map(ns).sum())
    }
    assert_eq!(ns(&tree[0]), 12_750);
    assert_eq!(tree[0]["metrics"]["time (ns)"], 0);
}

#[test]
fn a_stage_or_a_window_is_a_part() {
    let scratch = run_of(&[(110, "a")]);
    let stage = |name: &str| Selection { stages: vec![name.into()], ..Selection::default() };
    let counts = scratch.select(Format::Sqlite, "decode", &stage("decode")).expect("decode").counts;
    assert_eq!((counts.kernels, counts.ranges, counts.graphs, counts.not_selected), (3, 3, 1, 12));
    let window = Selection {
        window: Some("0.000020..0.000031".parse().expect("window")),
        ..Selection::default()
    };
    let counts = scratch.select(Format::Perfetto, "window", &window).expect("window").counts;
    assert_eq!((counts.kernels, counts.ranges, counts.not_selected), (3, 3, 12));
    // In each process by its own clock.
    let two = run_of(&[(110, "a"), (111, "b")]);
    let steps = |text: &str| Selection {
        window: Some(text.parse().expect("steps")),
        ..Selection::default()
    };
    let counts = two.select(Format::Csv, "steps", &steps("decode:0..1")).expect("steps").counts;
    let whole = two.select(Format::Csv, "whole", &Selection::default()).expect("all").counts;
    assert!(counts.kernels > 0 && counts.kernels < whole.kernels, "{counts:?}");
    assert_eq!(counts.kernels % 2, 0, "the same of both: {counts:?}");
    let notes = |text| two.select(Format::Csv, text, &steps(text)).expect(text).notes;
    assert!(notes("decode:0..")[..].is_empty() && notes("0..")[..].is_empty());
    assert!(
        notes("decode:0..70000")[0]
            .starts_with("--window ends at call 70000 of `decode`, which has ")
    );
    assert!(
        notes("0..70000")[0]
            .starts_with("--window ends at 70000 s, after the last event of the run (")
    );
    for (text, parts) in [
        ("decode:70000..", ["so many calls of `decode`", "choose some of the "]),
        ("warm-up:0..1", ["`warm-up`", "decode, never closed"]),
    ] {
        let refused = two.select(Format::Csv, "no steps", &steps(text)).expect_err(text);
        assert!(refused.is_usage());
        assert!(parts.iter().all(|part| refused.to_string().contains(part)), "{refused}");
    }
    // Stages come first; of the ranges of modules there are too many.
    let folder = tempfile::tempdir().expect("folder");
    common::modules(folder.path(), 20);
    let modules = of_folder(folder.path(), &[]).expect("run");
    let refused = export(&modules, Format::Csv, &stage("decod"), &folder.path().join("none"));
    let refused = refused.expect_err("no such stage").to_string();
    assert!(
        refused.ends_with("did you mean `decode`? (20 ranges without GPU work are not listed)"),
        "{refused}"
    );
    let late = Selection { window: Some("9..".parse().expect("window")), ..Selection::default() };
    let refused = scratch.select(Format::Folded, "none", &late).expect_err("nothing is left");
    assert!(refused.to_string().contains("part of the run is empty"), "{refused}");
    let refused =
        scratch.select(Format::Folded, "none", &stage("warm-up")).map_err(|e| e.to_string());
    let refused = refused.expect_err("no such stage");
    for part in ["`warm-up`", "decode, never closed"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert!(!scratch.path("none").exists());
}

#[test]
fn of_many_hosts_a_line_names_a_few() {
    let hosts = ["a", "b", "c", "d", "e", "f", "g"];
    let processes: Vec<(u32, &str)> = (110..).zip(hosts).collect();
    let scratch = run_of(&processes);
    let clocks = scratch.select(Format::Folded, "many", &Selection::default()).expect("all").clocks;
    let clocks = clocks.expect("there are several hosts");
    assert!(clocks.contains("a, b, c, d, e and 2 more; their"), "{clocks}");
}

#[test]
fn nothing_takes_the_place_of_a_file_and_nothing_is_left_of_an_export_that_fails() {
    let scratch = run_of(&[(110, "a"), (111, "a")]);
    for format in Format::ALL {
        let name = format!("taken {}", format.name());
        fs::write(scratch.path(&name), "mine").expect("file");
        let refused = scratch.select(format, &name, &Selection::default()).expect_err("taken");
        assert!(refused.to_string().contains("exists already"), "{refused}");
        assert_eq!(fs::read_to_string(scratch.path(&name)).expect("file"), "mine");
        let missing = format!("no/such/folder/{}", format.name());
        let refused =
            scratch.select(format, &missing, &Selection::default()).expect_err("no folder");
        assert!(refused.to_string().contains("cannot be written"), "{refused}");
    }
    let left = fs::read_dir(scratch.folder.path()).expect("folder").filter_map(Result::ok);
    let left: Vec<_> =
        left.filter(|e| e.file_name().to_string_lossy().starts_with(".new-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn damage_is_said_and_costs_only_its_own_file() {
    let folder = tempfile::tempdir().expect("folder");
    let none = of_folder(folder.path(), &[]).expect_err("no files").to_string();
    assert!(none.contains("has no trace file"), "{none}");
    fs::write(folder.path().join("a-1.s2t"), "not a trace").expect("file");
    let damaged = of_folder(folder.path(), &[]).expect_err("a damaged file").to_string();
    assert!(damaged.contains("a-1.s2t"), "{damaged}");
    // A whole one, and one that was cut in the middle and compressed.
    trace(folder.path(), 10, "a", 0);
    let whole = fs::read(trace(folder.path(), 11, "a", 0)).expect("file");
    fs::remove_file(folder.path().join("a-11.s2t")).expect("file");
    let packed = File::create(folder.path().join("a-11.s2t.gz")).expect("file");
    let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    packed.write_all(&whole[..whole.len() - 20]).expect("disk");
    packed.finish().expect("disk");
    let run = of_folder(folder.path(), &[]).expect("two of three");
    assert_eq!(run.processes().len(), 2);
    let out = folder.path().join("x");
    let exported = export(&run, Format::Folded, &Selection::default(), &out).expect("an export");
    let missing = exported.missing.join("\n");
    assert!(missing.contains("a-1.s2t"), "{missing}");
    assert!(missing.contains("the file is cut short"), "{missing}");
    assert_eq!(missing.lines().count(), 2, "nothing is missing from the whole file: {missing}");
}

#[test]
fn paths_are_those_of_reports() {
    let folder = tempfile::tempdir().expect("folder");
    // A program without ranges is one stage.
    common::without_ranges(folder.path());
    let run = of_folder(folder.path(), &[]).expect("run");
    let whole = Selection { stages: vec!["(whole process)".into()], ..Selection::default() };
    let out = folder.path().join("x");
    let counts = export(&run, Format::Folded, &whole, &out).expect("an export").counts;
    assert_eq!((counts.kernels, counts.not_selected), (1, 0));
    // Of a deep path the middle gives way.
    let deep = tempfile::tempdir().expect("folder");
    common::nested(deep.path(), 100);
    let run = of_folder(deep.path(), &[]).expect("run");
    export(&run, Format::Folded, &Selection::default(), &deep.path().join("x")).expect("an export");
    let text = fs::read_to_string(deep.path().join("x")).expect("file");
    let frames: Vec<&str> = text.trim().split(';').collect();
    assert_eq!((frames.len(), frames[0], frames[1]), (65, "r1", "… 37 more …"), "{text}");
    assert!(frames[63].starts_with("r100"), "{text}");
}

#[test]
fn ranks_of_one_host_stay_aligned_whatever_their_wall_clock_says() {
    let scratch = run_of(&[(100, "a"), (101, "a")]);
    let files = scratch.export(Format::Chrome, "chrome").files;
    let first = |file: &PathBuf| {
        let trace = json(file);
        let events = trace["traceEvents"].as_array().expect("events").clone();
        let prefill = events.iter().find(|event| event["name"] == "prefill").expect("prefill");
        prefill["ts"].as_f64().expect("ts")
    };
    // The second was started 1,000 ns later; its own wall clock is 5 us ahead.
    assert_eq!([first(&files[0]), first(&files[1])], [0.0, 1.0]);
}

#[test]
fn hostile_times_neither_panic_nor_wrap() {
    let folder = tempfile::tempdir().expect("folder");
    common::hostile_times(folder.path());
    let run = of_folder(folder.path(), &[]).expect("run");
    for format in Format::ALL {
        let out = folder.path().join(format.name());
        let exported = export(&run, format, &Selection::default(), &out);
        assert!(exported.is_ok(), "{format:?}: {exported:?}");
    }
}

/// A run of one process, from what `write` leaves in a folder.
fn of(write: impl FnOnce(&Path)) -> Scratch {
    let folder = tempfile::tempdir().expect("folder");
    let traces = folder.path().join("traces");
    fs::create_dir(&traces).expect("folder");
    write(&traces);
    let run = of_folder(&traces, &[]).expect("run");
    Scratch { folder, run }
}

#[test]
fn ranges_that_open_in_the_same_nanosecond_come_from_the_outside_in() {
    let scratch = of(common::same_nanosecond);
    scratch.export(Format::Chrome, "x.json.gz");
    let trace = json(&scratch.path("x.json.gz"));
    let events = trace["traceEvents"].as_array().expect("events");
    let of_host = |e: &&Value| e["ph"] == "X" && e["cat"] != "kernel";
    let ranges: Vec<&Value> = events.iter().filter(of_host).collect();
    let names: Vec<&str> = ranges.iter().filter_map(|e| e["name"].as_str()).collect();
    assert_eq!(names, ["outer", "middle", "inner"]);
    assert!(ranges.iter().all(|e| e["ts"] == ranges[0]["ts"]), "{ranges:?}");
    let kinds: Vec<&str> = ranges.iter().filter_map(|e| e["cat"].as_str()).collect();
    assert_eq!(kinds, ["user_annotation", "cpu_op", "cpu_op"], "stages are no operators");
    let kernel = events.iter().find(|e| e["cat"] == "kernel").expect("kernel");
    assert_eq!(kernel["args"]["External id"], ranges[2]["args"]["External id"]);
}

#[test]
fn sqlite_has_the_typed_values_of_ranges_as_nsys_has_them() {
    let scratch = of(common::same_nanosecond);
    let db = scratch.database();
    let text = "SELECT jsonText FROM NVTX_EVENTS WHERE text = 'inner'";
    let text: String = db.query_row(text, [], |row| row.get(0)).expect("a row");
    let fields: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(fields["tokens"], u64::MAX);
    assert_eq!(fields["text"], "=cmd|' /C calc'!A0");
    let none = "SELECT count(*) FROM NVTX_EVENTS WHERE text = 'outer' AND jsonText IS NULL";
    assert_eq!(db.query_row(none, [], |row| row.get::<_, i64>(0)).expect("a row"), 1);
}

#[test]
fn csv_has_a_row_for_each_piece_of_work_and_no_formula() {
    let scratch = run_of(&[(110, "a"), (111, "b")]);
    scratch.export(Format::Csv, "x.csv");
    let mut table = csv::Reader::from_path(scratch.path("x.csv")).expect("table");
    let header = table.headers().expect("header").clone();
    let at = |name: &str| header.iter().position(|column| column == name).expect(name);
    let rows: Vec<csv::StringRecord> = table.records().map(|row| row.expect("row")).collect();
    let kernels: Vec<_> = rows.iter().filter(|row| &row[at("kind")] == "kernel").collect();
    assert_eq!((kernels.len(), rows.len()), (22, 28));
    let ns = |row: &&&csv::StringRecord| row[at("duration_ns")].parse::<i64>().ok();
    assert_eq!(kernels.iter().filter_map(|row| ns(&row)).sum::<i64>(), 20_000);
    let timeless = kernels.iter().filter(|row| row[at("start_ns")].is_empty());
    assert_eq!(timeless.count(), 2, "absent is not zero");
    let second: Vec<_> = rows.iter().filter(|row| &row[at("host")] == "b").collect();
    assert!(second.iter().all(|row| &row[at("rank")] == "1" && &row[at("pid")] == "111"));
    assert!(second[0][at("device_uuid")].starts_with("GPU-07070707-"), "{:?}", second[0]);
    let hostile = of(common::same_nanosecond);
    let counts = hostile.export(Format::Csv, "x.csv.gz").counts;
    assert_eq!((counts.marks, counts.marks_left_out), (0, 1));
    let text = unzipped(&hostile.path("x.csv.gz"));
    assert!(text.contains("kernel,'=cmd|' /C calc'!A0,'=cmd|"), "{text}");
    assert!(text.ends_with("\r\n") && text.lines().count() == 2, "{text}");
}

#[test]
fn hosts_whose_clocks_nothing_ties_are_said() {
    let one = run_of(&[(110, "a"), (111, "a")]);
    assert_eq!(one.export(Format::Folded, "x").clocks, None);
    let two = run_of(&[(110, "a"), (111, "b")]);
    let clocks = two.export(Format::Folded, "x").clocks.expect("two hosts");
    assert!(clocks.contains("no collective ties the clocks of these hosts: a, b"), "{clocks}");
    let db = two.database();
    let said = "SELECT value FROM META_DATA_EXPORT WHERE name = 'STAGE2_CLOCKS'";
    assert_eq!(db.query_row(said, [], |row| row.get::<_, String>(0)).expect("a row"), clocks);
    two.export(Format::Chrome, "chrome");
    let files = fs::read_dir(two.path("chrome")).expect("folder");
    assert!(files.filter_map(Result::ok).all(|file| json(&file.path())["clocks"] == clocks));
}

#[test]
fn hosts_whose_clocks_are_tied_are_on_one_clock() {
    let scratch = run_of(&[(110, "a"), (111, "b")]);
    let traces = scratch.path("traces");
    let names = ["a-110.s2t", "b-111.s2t"];
    let rows = names.map(|file| ProcessRow { file: file.into(), ..ProcessRow::default() });
    let first = |clocks: &[HostClock]| {
        let mut traces = Traces::read(&traces, &RangeNames::default());
        traces.correct(clocks);
        let run = Run::of_traces("try".into(), traces, &rows).expect("run");
        run.processes()[1].file.span().expect("events").start_ns
    };
    let apart = first(&[]);
    let points = vec![ClockPoint { wall_ns: 0, add_ns: -4_000 }];
    let ahead = 1_700_000_000_000_000_000 + 5_000;
    let clock = HostClock { host: "b".into(), wall_ahead_ns: ahead, error_ns: 9, points };
    assert_eq!(first(&[clock]), apart - 4_000);
}
