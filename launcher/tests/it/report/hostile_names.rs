//! Hostile names at every place of a bundle that has names -> every artifact, read by a parser of its
//! own format.

use std::fs;
use std::io::Read as _;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Mutex;

use rusqlite::Connection;
use serde_json::{Value, json};
use stage2_contract::trace::{Mark, MonoNs, NONE, Process, Record};
use stage2_export::{Format, Run, Selection, Traces, export};
use stage2_launch::reports::write_reports;
use stage2_read::trace::libraries::RangeNames;

use crate::common::hostile_names::{acts, all};
use crate::common::trace::Build;
use crate::common::{LAUNCH, four_at_once, read};
use crate::report::pages::{check_html, check_markdown};

/// Longest name of a file, and of a record of a trace file.
const FILE_NAME_BYTES: usize = 200;
const RECORD_BYTES: usize = 60_000;

/// A bundle in which everything that has a name has this one.
fn write(run_dir: &Path, name: &[u8]) {
    let text = String::from_utf8_lossy(name).into_owned();
    trace_file(run_dir, name.get(..RECORD_BYTES).unwrap_or(name));
    for folder in ["nsys", "ncu"] {
        fs::create_dir(run_dir.join(folder)).expect("folder");
    }
    let export = nsys_export(&run_dir.join("nsys").join(file_name(&text, "sqlite")), &text);
    export.expect("an export");
    let cell = format!("\"{}\"", text.replace('"', "\"\""));
    let table = format!(
        "Total Time (ns),Instances,Min (ns),Max (ns),GridXYZ,BlockXYZ,Name\n\
         10,1,10,10,1 1 1,1 1 1,{cell}\n"
    );
    fs::write(run_dir.join("nsys/other_cuda_gpu_kern_sum.csv"), table).expect("table");
    let range = format!("\"{}:range:none:none:none\"", text.replace('"', "\"\""));
    let page = format!(
        "==PROF== {text}\n\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\
         \"Context\",\"Stream\",\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\
         \"thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg\",\
         \"gpu__time_duration.sum\"\n\
         \"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"ns\"\n\
         \"0\",\"7\",{cell},{cell},{cell},\"1\",\"7\",\"(1, 1, 1)\",\"(1, 1, 1)\",\"0\",\"9.0\",\
         {range},\"10\"\n"
    );
    fs::write(run_dir.join("ncu").join(file_name(&text, "raw.csv")), page).expect("page");
    let rules = format!(
        "\"ID\",\"Process ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\
         \"Metric Value\",\"Rule Name\",\"Rule Type\",\"Rule Description\",\"Estimated Speedup\"\n\
         \"0\",\"7\",{cell},{cell},{cell},{cell},\"1\",{cell},{cell},{cell},\"50\"\n"
    );
    fs::write(run_dir.join("ncu").join(file_name(&text, "details.csv")), rules).expect("page");
    let run = json!({
        "schema": 2, "stage2_version": text, "run_id": text, "started": text, "finished": text,
        "command": [text, text], "workload_exit": {"code": 0},
        "tools": {text.as_str(): {"path": text, "version": text}},
        "passes": [
            {"name": "collect", "argv": [text, text], "status": "ok", "why": text, "log": [text]},
            {"name": text, "argv": [text], "status": "failed", "why": text},
        ],
        "findings": [{"severity": "error", "what": text, "why": text, "remedy": text}],
    });
    fs::write(run_dir.join("run.json"), run.to_string()).expect("run.json");
    let env = json!({
        "driver": text, "hostname": text, "gpus": [{"name": text}], text.as_str(): text,
        "python": {"packages": {"nvtx": text, text.as_str(): text}},
    });
    fs::write(run_dir.join("env.json"), env.to_string()).expect("env.json");
    let config = json!({
        "report": {"top_n": 6, "title": text}, "hardware": {"name": text},
        "workload": {"model": text, "manifest_key": text},
    });
    fs::write(run_dir.join("config.yaml"), config.to_string()).expect("config.yaml");
    // What Hydra leaves of the workload's own configuration.
    let hydra = run_dir.join("collect/hydra/.hydra");
    fs::create_dir_all(&hydra).expect("folder");
    let workload = json!({"model": {"name": text, "path": text}, text.as_str(): text});
    fs::write(hydra.join("config.yaml"), workload.to_string()).expect("config.yaml");
    fs::write(hydra.join("overrides.yaml"), json!([format!("model.name={text}")]).to_string())
        .expect("overrides.yaml");
}

/// A file may have every name but that of a folder.
fn file_name(text: &str, ending: &str) -> String {
    let text: String = text.chars().filter(|c| !['/', '\0'].contains(c)).collect();
    let cut = text.get(..text.floor_char_boundary(FILE_NAME_BYTES)).unwrap_or_default();
    format!("x{cut}.{ending}")
}

fn trace_file(run_dir: &Path, name: &[u8]) {
    let text = String::from_utf8_lossy(name).into_owned();
    let mut b = Build::process(1, &text);
    b.records = vec![Record::Process(Process {
        pid: 1,
        ppid: 1,
        host: text.clone(),
        exe: text.clone(),
        argv: vec![text.clone(), text.clone()],
        collector: text.clone(),
    })];
    b.meta(&text, &text).meta("gpu.off", &text).anchor(1).anchor(1_000_000);
    b.name(1, name).device(0, &text, 1).shape(1, 1, 1);
    b.path(1, NONE, 1).path(2, 1, 1).path_in(3, 2, 1, 1);
    b.open(1, 1, 0, 5).open(2, 2, 1, 6).open(3, 3, 2, 7);
    b.kernel(3, 1, 1, (10, 20)).copy(2, 1, 5, (20, 30)).fill(1, 5, (30, 31));
    b.add(Record::Mark(Mark {
        at: MonoNs(8),
        thread: 1,
        name: 1,
        domain: 1,
        category: 0,
        payload: None,
    }));
    b.close(3, 40).close(2, 50).close(1, 60).add(Record::End { reason: text.clone() });
    let file = file_name(&text, "s2t");
    b.save(run_dir, &file);
}

fn nsys_export(path: &Path, text: &str) -> rusqlite::Result<()> {
    let db = Connection::open(path)?;
    db.execute_batch(crate::nsys_export::SCHEMA)?;
    db.execute_batch(
        "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
         CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
         CREATE TABLE DIAGNOSTIC_EVENT (severity INTEGER, text TEXT);",
    )?;
    db.execute("UPDATE StringIds SET value = ?1", [text])?;
    db.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?1)", [text])?;
    db.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', ?1)", [text])?;
    db.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (3, ?1)", [text])?;
    let (process, thread) = (1 << 24, (1 << 24) + 1);
    db.execute_batch(&crate::nsys_export::kernel(process, 1, 10, 20))?;
    db.execute_batch(&crate::nsys_export::call(thread, 1, 7))?;
    db.execute_batch(&crate::nsys_export::range(thread, 10, 5, 60))?;
    let domain = "INSERT INTO NVTX_EVENTS VALUES (1, NULL, 75, ?1, ?2, NULL, NULL, 3)";
    db.execute(domain, rusqlite::params![text, thread])?;
    let range = "INSERT INTO NVTX_EVENTS VALUES (6, 50, 59, ?1, ?2, NULL, NULL, 3)";
    db.execute(range, rusqlite::params![text, thread])?;
    Ok(())
}

fn unpacked(path: &Path) -> Vec<u8> {
    let (packed, mut bytes) = (fs::read(path).expect("file"), Vec::new());
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect("gzip");
    bytes
}

fn check_text(text: &str, of: &str) {
    let found = text.chars().find(|&c| acts(c) && c != '\n');
    assert_eq!(found, None, "{of}");
}

/// Every text of a JSON value, keys among them.
fn check_json(value: &Value, of: &str) {
    match value {
        Value::String(text) => assert_eq!(text.chars().find(|&c| acts(c)), None, "{of}: {text:?}"),
        Value::Array(all) => all.iter().for_each(|value| check_json(value, of)),
        Value::Object(all) => {
            for (key, value) in all {
                assert_eq!(key.chars().find(|&c| acts(c)), None, "{of}: {key:?}");
                check_json(value, of);
            }
        }
        _ => {}
    }
}

/// A table: every record as wide as the header, and no cell that a spreadsheet takes for a formula.
fn check_csv(bytes: &[u8], of: &str) {
    let mut reader = csv::Reader::from_reader(bytes);
    let mut rows = 0;
    for record in reader.records() {
        let record = record.unwrap_or_else(|why| panic!("{of}: {why}"));
        for cell in &record {
            let number = cell.parse::<f64>().is_ok();
            assert!(
                number || !cell.starts_with(['=', '+', '-', '@', '\t', '\r']),
                "{of}: {cell:?}"
            );
            assert_eq!(cell.chars().find(|&c| acts(c)), None, "{of}: {cell:?}");
        }
        rows += 1;
    }
    assert!(rows > 0, "{of} has no rows");
}

/// The fields of a protobuf message: numbers, and the bytes of those that have a length.
fn fields<'a>(mut message: &'a [u8], of: &str) -> Vec<(u64, Option<&'a [u8]>)> {
    fn varint(message: &mut &[u8], of: &str) -> u64 {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = message.split_first().unwrap_or_else(|| panic!("{of} is cut"));
            *message = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
        }
        panic!("{of}: a number without an end");
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message, of);
        let length = match key & 7 {
            0 => {
                varint(&mut message, of);
                found.push((key >> 3, None));
                continue;
            }
            1 => 8,
            2 => varint(&mut message, of) as usize,
            5 => 4,
            other => panic!("{of}: a field of the kind {other}"),
        };
        let (field, rest) = message.split_at_checked(length).expect("a field that is whole");
        found.push((key >> 3, (key & 7 == 2).then_some(field)));
        message = rest;
    }
    found
}

/// What an export has to be for the tool that reads it.
fn check_export(format: Format, path: &Path, of: &str) {
    match format {
        // A trace is packets; each has fields.
        Format::Perfetto => {
            let mut trace = Vec::new();
            let file = fs::File::open(path).expect("file");
            flate2::read::GzDecoder::new(file).read_to_end(&mut trace).expect("gzip");
            for (number, packet) in fields(&trace, of) {
                assert_eq!(number, 1, "{of}");
                assert!(!fields(packet.expect("a packet"), of).is_empty(), "{of}");
            }
        }
        Format::Chrome => {
            let trace: Value = serde_json::from_slice(&unpacked(path)).expect(of);
            check_json(&trace, of);
            let events = trace["traceEvents"].as_array().expect("events");
            assert_eq!(events.iter().filter(|event| event["cat"] == "kernel").count(), 1, "{of}");
        }
        Format::Sqlite => {
            let db = Connection::open(path).expect("a database");
            let whole = db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
            assert_eq!(whole.as_deref(), Ok("ok"), "{of}");
            let kernels = "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds \
                           ON id = mangledName";
            assert_eq!(db.query_row(kernels, [], |row| row.get::<_, i64>(0)), Ok(1), "{of}");
            let mut names = db.prepare("SELECT value FROM StringIds").expect("a table");
            let names = names.query_map([], |row| row.get::<_, String>(0)).expect("rows");
            names.for_each(|name| check_text(&name.expect("UTF-8"), of));
        }
        Format::Csv => check_csv(&fs::read(path).expect("file"), of),
        Format::Hatchet | Format::Speedscope => {
            check_json(&serde_json::from_str(&read(path)).expect(of), of)
        }
        Format::Pprof => {
            let profile = unpacked(path);
            let strings = fields(&profile, of).into_iter().filter(|(number, _)| *number == 6);
            let strings: Vec<_> = strings.map(|(_, text)| text.expect("a text")).collect();
            assert_eq!(strings.first(), Some(&&b""[..]), "{of}: the first string is the empty one");
            strings.iter().for_each(|text| check_text(std::str::from_utf8(text).expect(of), of));
        }
        // Three ranges around a kernel, two around a copy, one around a fill.
        Format::Folded | Format::FoldedHost => {
            let text = read(path);
            check_text(&text, of);
            let lines = text.lines().map(|line| line.rsplit_once(' ').expect("a number"));
            let frames = lines.map(|(stack, ns)| {
                assert!(ns.parse::<u64>().is_ok(), "{of}: {ns}");
                stack.split(';').count()
            });
            let mut frames: Vec<usize> = frames.collect();
            frames.sort_unstable();
            assert_eq!(frames, [2, 3, 4], "{of}: {text}");
        }
    }
}

fn check_bundle(run_dir: &Path, what: &str) {
    let outcome = write_reports(run_dir).unwrap_or_else(|why| panic!("{what}: {why:#}"));
    for line in outcome.headline.lines() {
        assert_eq!(line.chars().find(|&c| acts(c)), None, "{what}: headline {line:?}");
    }
    for finding in &outcome.findings {
        let finding = finding.to_string();
        assert_eq!(finding.chars().find(|&c| acts(c)), None, "{what}: finding {finding:?}");
    }
    for path in &outcome.files {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name of ours");
        let of = format!("{what}: {name}");
        let text = read(path);
        check_text(&text, &of);
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("md") => drop(check_markdown(&text)),
            Some("html") => check_html(&text),
            Some("csv") => check_csv(text.as_bytes(), &of),
            Some("json") => check_json(&serde_json::from_str(&text).expect(&of), &of),
            _ => panic!("{of}: no test knows this kind of file"),
        }
    }
    // What the program itself says.
    let mut report = assert_cmd::Command::new(LAUNCH);
    let said = report.args(["-v", "report"]).arg(run_dir).output().expect("stage2-launch");
    let error = String::from_utf8_lossy(&said.stderr);
    assert!(!error.contains("is not a run record"), "{what}: {error}");
    for (stream, bytes) in [("stdout", said.stdout), ("stderr", said.stderr)] {
        let text = String::from_utf8(bytes).unwrap_or_else(|_| panic!("{what}: {stream}"));
        check_text(&text, &format!("{what}: {stream}"));
    }
}

/// Every export of a bundle.
fn check_exports(folder: &Path, what: &str, name: &[u8]) {
    let traces = Traces::read(&folder.join("run/collector"), &RangeNames::default());
    let run = Run::of_traces(stage2_contract::text::visible(name), traces, &[]).expect("a run");
    for format in Format::ALL {
        let out = folder.join(format!("out{}", format.suffix(&run)));
        let exported = export(&run, format, &Selection::default(), &out).expect("an export");
        for file in &exported.files {
            check_export(format, file, &format!("{what}: {}", format.name()));
        }
    }
}

/// Hazard (Hostile files): Hostile names at every place that has names: trace files, exports of
///  nsys, pages of ncu, the run's own files, names of files.
/// Promise: Every artifact and every export is valid in its format, and no name takes effect as code.
#[test]
fn every_artifact_holds_every_hostile_name() {
    // The longest names, at the end, take the most time.
    let failed = Mutex::new(Vec::new());
    four_at_once(all().into_iter().rev(), |(what, name)| {
        let folder = tempfile::tempdir().expect("folder");
        let run_dir = folder.path().join("run");
        fs::create_dir(&run_dir).expect("folder");
        write(&run_dir, &name);
        let bundle = catch_unwind(|| check_bundle(&run_dir, what));
        let exports = catch_unwind(|| check_exports(folder.path(), what, &name));
        if bundle.and(exports).is_err() {
            failed.lock().expect("no panic").push(what);
        }
    });
    let failed = failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "see the panics above: {failed:?}");
}
