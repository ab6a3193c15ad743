//! Samples of the host, blocking calls, steps and requests of an engine -> the formats that hold them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::{Value, json};
use stage2_contract::text::REQUEST_RANGE;
use stage2_contract::trace::{
    Anchor, Field, FieldValue, GpuNs, GpuWork, HostCall, HostFrame, HostSample, HostStack,
    HostState, MonoNs, NONE, Path as RangePath, Process, RangeOpen, Record, WallNs, What, Writer,
};
use stage2_export::{ExportError, Exported, Format, Run, Selection, Traces, export};
use stage2_read::trace::libraries::RangeNames;

const US: u64 = 1_000;

/// Names by their identifiers, from 1.
const NAMES: [&str; 19] = [
    "vllm step",
    REQUEST_RANGE,
    "Scheduler.schedule",
    "vllm/v1/core/sched/scheduler.py",
    "BaseTokenizer.decode; <b>",
    "/srv/app/detok.py",
    "step",
    "prefill_requests",
    "prefill_tokens",
    "decode_requests",
    "decode_tokens",
    "cuStreamSynchronize",
    "request",
    "arrived_ns",
    "total_ns",
    "prompt_tokens",
    "output_tokens",
    "first_step",
    "last_step",
];

fn name(of: &str) -> u32 {
    NAMES.iter().position(|name| *name == of).map_or(NONE, |at| at as u32 + 1)
}

fn fields(range: u64, values: &[(&str, u64)]) -> Record {
    let field =
        |(of, value): &(&str, u64)| Field { name: name(of), value: FieldValue::U64(*value) };
    Record::RangeFields { range, fields: values.iter().map(field).collect() }
}

/// An engine with a prefill of 100 us and two decode steps of 100 us each, 10 us apart. Its main thread
/// schedules, then waits for the GIL that `detok` holds; it synchronises at the end of the first decode.
fn engine() -> Vec<Record> {
    let anchor = |at| Anchor { gpu: GpuNs(at), mono: MonoNs(at), wall: WallNs(at) };
    let process =
        Process { pid: 77, host: "h".into(), exe: "/bin/python3".into(), ..Process::default() };
    let mut all = vec![Record::Process(process)];
    all.extend([1, 1_000 * US].map(|at| Record::Anchor(anchor(at))));
    all.extend((1..).zip(NAMES).map(|(id, name)| Record::Name { id, bytes: name.into() }));
    for (id, os_tid, name) in [(1, 77, "main"), (2, 78, "detok")] {
        all.push(Record::Thread { id, os_tid, name: name.into() });
    }
    for (id, name) in [(1, name("vllm step")), (2, name(REQUEST_RANGE))] {
        all.push(Record::Path(RangePath { id, parent: NONE, name, domain: NONE }));
    }
    let frames =
        [("Scheduler.schedule", NAMES[3], 212), ("BaseTokenizer.decode; <b>", NAMES[5], 9)];
    for (id, (function, file, line)) in (1..).zip(frames) {
        let (function, file) = (name(function), name(file));
        all.push(Record::HostFrame(HostFrame { id, function, file, line }));
        all.push(Record::HostStack(HostStack { id, parent: NONE, frame: id }));
    }
    let steps: [(u64, &[(&str, u64)]); 3] = [
        (100, &[("step", 1), ("prefill_requests", 2), ("prefill_tokens", 64)]),
        (210, &[("step", 2), ("decode_requests", 2), ("decode_tokens", 2)]),
        (320, &[("step", 3), ("decode_requests", 1)]),
    ];
    for (range, (start, work)) in (1..).zip(steps) {
        let open = RangeOpen { range, path: 1, thread: 1, ..RangeOpen::default() };
        all.push(Record::RangeOpen(RangeOpen { start: MonoNs(start * US), ..open }));
        all.push(fields(range, work));
        let work = GpuWork { range, ..GpuWork::new(What::Fill { bytes: 1 }) };
        let (start, end) = (GpuNs((start + 50) * US), GpuNs((start + 60) * US));
        all.push(Record::Work(GpuWork { start, end, ..work }));
        all.push(Record::RangeClose { range, end: MonoNs(end.0 + 40 * US) });
    }
    for (range, number, last_step) in [(8, 41, 3), (9, 42, 2)] {
        let open = RangeOpen { range, path: 2, thread: 2, ..RangeOpen::default() };
        all.push(Record::RangeOpen(RangeOpen { start: MonoNs(430 * US), ..open }));
        let values = [
            ("request", number),
            ("arrived_ns", 90 * US),
            ("total_ns", 300 * US),
            ("prompt_tokens", 32),
            ("output_tokens", 2),
            ("first_step", 1),
            ("last_step", last_step),
        ];
        all.push(fields(range, &values));
        all.push(Record::RangeClose { range, end: MonoNs(430 * US) });
    }
    let mut samples = Vec::new();
    for at in 0..10 {
        let waits = (4..8).contains(&at);
        let own = HostSample {
            at: MonoNs((110 + at * 10) * US),
            thread: 1,
            state: if waits { HostState::GilWait } else { HostState::Running },
            holder: if waits { 2 } else { NONE },
            stack: 1,
            interval_ns: 10 * US,
            ..HostSample::default()
        };
        let (thread, stack, holds_gil) = (2, 2, waits);
        let state = HostState::Running;
        samples.extend([own, HostSample { thread, state, holder: NONE, stack, holds_gil, ..own }]);
    }
    all.push(Record::HostSamples(samples));
    let call =
        HostCall { name: name("cuStreamSynchronize"), thread: 1, stack: 1, ..HostCall::default() };
    let (begin, end) = (MonoNs(280 * US), MonoNs(290 * US));
    // The second contradicts the first.
    let cross = HostCall { begin: MonoNs(285 * US), end: MonoNs(295 * US), ..call };
    all.push(Record::HostCalls(vec![HostCall { begin, end, ..call }, cross]));
    all.push(Record::End { reason: "exit".into() });
    all
}

fn bytes_of(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    records.iter().for_each(|record| writer.write(record));
    writer.flush().expect("memory");
    writer.into_sink()
}

fn run_of(folder: &Path, bytes: &[u8]) -> Result<Run, ExportError> {
    fs::write(folder.join("h-77.s2t"), bytes).expect("file");
    Run::of_traces("try".into(), Traces::read(folder, &RangeNames::default()), &[])
}

struct Scratch {
    folder: tempfile::TempDir,
    run: Run,
}

fn scratch(records: &[Record]) -> Scratch {
    let folder = tempfile::tempdir().expect("folder");
    let run = run_of(folder.path(), &bytes_of(records)).expect("a run");
    Scratch { folder, run }
}

impl Scratch {
    fn select(&self, format: Format, selection: &Selection) -> (Exported, PathBuf) {
        let out = self.folder.path().join(format.name());
        let _ = fs::remove_file(&out);
        (export(&self.run, format, selection, &out).expect("an export"), out)
    }

    fn export(&self, format: Format) -> (Exported, PathBuf) {
        self.select(format, &Selection::default())
    }

    fn json(&self, format: Format) -> Value {
        let text = fs::read_to_string(self.export(format).1).expect("file");
        serde_json::from_str(&text).expect("JSON")
    }
}

fn rows(db: &Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut query = db.prepare(sql).expect(sql);
    let columns = query.column_count();
    let value = |value: rusqlite::types::Value| match value {
        rusqlite::types::Value::Integer(number) => json!(number),
        rusqlite::types::Value::Text(text) => json!(text),
        _ => Value::Null,
    };
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at).map(value)).collect();
    query.query_map([], row).expect(sql).map(|row| row.expect("a row")).collect()
}

#[test]
fn chrome_has_a_row_for_each_thread_with_the_words_of_reports() {
    let scratch = scratch(&engine());
    let trace = scratch.json(Format::Chrome);
    let events = trace["traceEvents"].as_array().expect("events");
    let of = |cat: &str| -> Vec<[Value; 3]> {
        let of_kind = events.iter().filter(|event| event["cat"] == cat);
        of_kind.map(|e| [e["name"].clone(), e["ts"].clone(), e["dur"].clone()]).collect()
    };
    let schedule = "Scheduler.schedule (scheduler.py:212)";
    let decode = "BaseTokenizer.decode; <b> (detok.py:9)";
    let waits = format!("waiting for the GIL held by 'detok' in {decode}");
    // Times are since the first event, the begin of the first step.
    let expected = [
        [json!(schedule), json!(0.0), json!(40.0)],
        [json!(waits), json!(40.0), json!(40.0)],
        [json!(schedule), json!(80.0), json!(20.0)],
        [json!(decode), json!(0.0), json!(100.0)],
    ];
    assert_eq!(of("host_sample"), expected);
    assert_eq!(of("host_call"), [[json!("cuStreamSynchronize"), json!(180.0), json!(10.0)]]);
    let call = events.iter().find(|event| event["cat"] == "host_call").expect("a call");
    assert_eq!(call["args"]["stack"], "Scheduler.schedule (vllm/v1/core/sched/scheduler.py:212)");
    // The prefill and the first decode last until the next step begins.
    let expected = [("prefill", 0.0, 110.0), ("decode", 110.0, 110.0), ("decode", 220.0, 100.0)];
    assert_eq!(of("engine_step"), expected.map(|(a, b, c)| [json!(a), json!(b), json!(c)]));
    let steps: Vec<&Value> =
        events.iter().filter(|e| e["cat"] == "engine_step").map(|e| &e["args"]).collect();
    assert_eq!(steps[0]["prefill_tokens"], 64);
    assert_eq!(steps[1]["requests"], json!([41, 42]));
    assert_eq!(steps[2]["requests"], json!([41]));
    assert!(steps[2].get("decode_tokens").is_none(), "not known is absent: {}", steps[2]);
    let titles = events.iter().filter(|event| event["name"] == "thread_name");
    let titles: Vec<&str> = titles.filter_map(|event| event["args"]["name"].as_str()).collect();
    for title in
        ["host samples: main (77)", "host samples: detok (78)", "blocking calls: main (77)"]
    {
        assert!(titles.contains(&title), "{titles:?}");
    }
    let counts = scratch.export(Format::Perfetto).0.counts;
    assert_eq!((counts.samples, counts.calls, counts.steps, counts.requests), (20, 1, 3, 0));
}

#[test]
fn sqlite_has_samples_calls_steps_and_requests_as_tables() {
    let scratch = scratch(&engine());
    let (exported, path) = scratch.export(Format::Sqlite);
    let counts = exported.counts;
    assert_eq!((counts.samples, counts.calls, counts.steps, counts.requests), (20, 1, 3, 2));
    let db = Connection::open(path).expect("database");
    let by_state = "SELECT s.state, s.globalTid & 0xffffff, t.value, sum(s.end - s.start),
        sum(s.holdsGil), s.holderGlobalTid & 0xffffff
        FROM STAGE2_HOST_SAMPLES s JOIN StringIds t ON t.id = s.lineId GROUP BY 1, 2 ORDER BY 2, 1";
    let schedule = "Scheduler.schedule (vllm/v1/core/sched/scheduler.py:212)";
    let decode = "BaseTokenizer.decode; <b> (/srv/app/detok.py:9)";
    let expected = [
        vec![json!("gil_wait"), json!(77), json!(schedule), json!(40_000), json!(0), json!(78)],
        vec![json!("running"), json!(77), json!(schedule), json!(60_000), json!(0), Value::Null],
        vec![json!("running"), json!(78), json!(decode), json!(100_000), json!(4), Value::Null],
    ];
    assert_eq!(rows(&db, by_state), expected);
    let calls = "SELECT c.start, c.end, n.value, k.lines FROM STAGE2_HOST_CALLS c
        JOIN StringIds n ON n.id = c.nameId JOIN STAGE2_HOST_STACKS k ON k.stackId = c.stackId";
    let call = [json!(180_000), json!(190_000), json!("cuStreamSynchronize"), json!(schedule)];
    assert_eq!(rows(&db, calls), [call.to_vec()]);
    let steps =
        "SELECT number, kind, end - start, prefillTokens, decodeRequests, decodeTokens, requests
        FROM STAGE2_ENGINE_STEPS";
    let row = |number: u64, kind: &str, ns: u64, rest: [Value; 4]| {
        [vec![json!(number), json!(kind), json!(ns)], rest.to_vec()].concat()
    };
    let expected = [
        row(1, "prefill", 110_000, [json!(64), json!(0), json!(0), json!("[41,42]")]),
        row(2, "decode", 110_000, [json!(0), json!(2), json!(2), json!("[41,42]")]),
        row(3, "decode", 100_000, [json!(0), json!(1), Value::Null, json!("[41]")]),
    ];
    assert_eq!(rows(&db, steps), expected);
    let requests = "SELECT number, arrived, totalNs, outputTokens, queueNs FROM STAGE2_REQUESTS";
    let request =
        |number: u64| vec![json!(number), json!(-10_000), json!(300_000), json!(2), Value::Null];
    assert_eq!(rows(&db, requests), [request(41), request(42)]);
}

/// What speedscope's published schema asks of a file with sampled profiles.
fn check_speedscope(file: &Value) -> BTreeMap<String, Vec<(Vec<String>, u64)>> {
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = file["shared"]["frames"].as_array().expect("frames");
    assert!(frames.iter().all(|frame| frame["name"].is_string()), "{frames:?}");
    let mut found = BTreeMap::new();
    for profile in file["profiles"].as_array().expect("profiles") {
        assert_eq!(
            (&profile["type"], &profile["unit"]),
            (&json!("sampled"), &json!("nanoseconds"))
        );
        let samples = profile["samples"].as_array().expect("samples");
        let weights = profile["weights"].as_array().expect("weights");
        assert_eq!(samples.len(), weights.len());
        let name = |at: &Value| {
            let frame = frames.get(at.as_u64().expect("an index") as usize).expect("a frame");
            frame["name"].as_str().expect("a name").to_owned()
        };
        let stack = |of: &Value| of.as_array().expect("a stack").iter().map(name).collect();
        let ns = |weight: &Value| weight.as_u64().expect("ns");
        let total: u64 = weights.iter().map(ns).sum();
        assert_eq!(ns(&profile["startValue"]) + total, ns(&profile["endValue"]));
        let all = samples.iter().map(stack).zip(weights.iter().map(ns)).collect();
        let title = profile["name"].as_str().expect("a name").to_owned();
        assert!(found.insert(title, all).is_none(), "profiles of one name");
    }
    found
}

#[test]
fn speedscope_has_a_profile_of_each_thread_in_the_order_of_time() {
    let mut records = engine();
    // A sample after a pause of 1 ms, and one without a stack.
    let late = |at: u64, stack| HostSample {
        at: MonoNs(at * US),
        thread: 1,
        state: HostState::Sleep,
        stack,
        interval_ns: 10 * US,
        ..HostSample::default()
    };
    records.push(Record::HostSamples(vec![late(1_210, 1), late(1_220, NONE)]));
    let scratch = scratch(&records);
    let (exported, path) = scratch.export(Format::Speedscope);
    assert_eq!((exported.counts.samples, exported.counts.kernels), (22, 0));
    let text = fs::read_to_string(path).expect("file");
    let found = check_speedscope(&serde_json::from_str(&text).expect("JSON"));
    let schedule = "Scheduler.schedule (vllm/v1/core/sched/scheduler.py:212)";
    let stack =
        |frames: &[&str]| frames.iter().map(|frame| (*frame).to_owned()).collect::<Vec<_>>();
    let expected = [
        (stack(&[schedule]), 40_000),
        (stack(&[schedule, "(waiting for the GIL)"]), 40_000),
        (stack(&[schedule]), 20_000),
        (stack(&[]), 1_000_000),
        (stack(&[schedule, "(sleeping)"]), 10_000),
        (stack(&["(no stack)", "(sleeping)"]), 10_000),
    ];
    assert_eq!(found["python3, main (77)"], expected);
    assert_eq!(found.len(), 2);
    let window =
        Selection { window: Some("0.0001..".parse().expect("window")), ..Selection::default() };
    let part = scratch.select(Format::Speedscope, &window).0.counts;
    assert_eq!((part.samples, part.not_selected > 0), (4, true), "two end where the window begins");
    let without = scratch_of_no_samples();
    let out = without.folder.path().join("x");
    let refused = export(&without.run, Format::Speedscope, &Selection::default(), &out);
    assert!(matches!(refused, Err(ExportError::NoHostSamples(_))), "{refused:?}");
}

fn scratch_of_no_samples() -> Scratch {
    let is_host = |record: &Record| matches!(record, Record::HostSamples(_) | Record::HostCalls(_));
    scratch(&engine().into_iter().filter(|record| !is_host(record)).collect::<Vec<_>>())
}

#[test]
fn a_stage_has_the_samples_within_its_ranges_and_formats_without_a_place_say_so() {
    let mut records = engine();
    let outside = HostSample {
        at: MonoNs(600 * US),
        thread: 2,
        stack: 2,
        interval_ns: 10 * US,
        ..HostSample::default()
    };
    records.push(Record::HostSamples(vec![outside]));
    let scratch = scratch(&records);
    let stages = vec!["vllm step".to_owned()];
    let part =
        scratch.select(Format::Sqlite, &Selection { stages, ..Selection::default() }).0.counts;
    assert_eq!((part.samples, part.calls, part.steps), (20, 1, 3));
    let counts = scratch.export(Format::Csv).0.counts;
    assert_eq!((counts.samples, counts.host_left_out, counts.steps), (0, 22, 0));
}

#[test]
fn files_that_are_cut_anywhere_are_exported_as_far_as_they_go() {
    let whole = bytes_of(&engine());
    let mut exports = 0;
    for cut in (0..whole.len()).step_by(7) {
        let folder = tempfile::tempdir().expect("folder");
        let Ok(run) = run_of(folder.path(), &whole[..cut]) else { continue };
        for format in [Format::Perfetto, Format::Chrome, Format::Sqlite, Format::Speedscope] {
            let out = folder.path().join(format.name());
            match export(&run, format, &Selection::default(), &out) {
                Ok(_) => exports += 1,
                Err(ExportError::NoHostSamples(_)) => {}
                Err(error) => panic!("{format:?} of {cut} bytes: {error}"),
            }
        }
    }
    assert!(exports > 100, "{exports}");
}

/// Stacks that grow deeper one by one, with names of 50,000 characters; stacks that are defined again as their own
/// callers; and samples of as many threads.
#[test]
fn deep_stacks_and_huge_names_take_bounded_space_and_time() {
    let mut records = engine();
    let huge = "x".repeat(50_000);
    records.push(Record::Name { id: 100, bytes: huge.into() });
    let depth = 1_000;
    records.push(Record::HostStack(HostStack { id: 9, parent: NONE, frame: 10 }));
    for id in 10..depth {
        records.push(Record::HostFrame(HostFrame { id, function: 100, file: 100, line: id }));
        records.push(Record::HostStack(HostStack { id, parent: id - 1, frame: id }));
    }
    records.push(Record::HostStack(HostStack { id: 9, parent: 9, frame: 9 }));
    records.push(Record::HostStack(HostStack { id: 10, parent: depth - 1, frame: 10 }));
    let sample = |of: u32| HostSample {
        at: MonoNs((600 + u64::from(of)) * US),
        thread: of,
        state: HostState::Lock,
        holder: of + 1,
        stack: of,
        interval_ns: u64::from(of),
        ..HostSample::default()
    };
    for chunk in (1..depth).collect::<Vec<_>>().chunks(2_000) {
        records.push(Record::HostSamples(chunk.iter().map(|of| sample(*of)).collect()));
        let call = |of: &u32| {
            let sample = sample(*of);
            let (begin, stack) = (sample.at, sample.stack);
            HostCall { name: 100, thread: 1, begin, end: MonoNs(begin.0 + 1), stack }
        };
        records.push(Record::HostCalls(chunk.iter().map(call).collect()));
    }
    let scratch = scratch(&records);
    for format in [Format::Perfetto, Format::Chrome, Format::Sqlite, Format::Speedscope] {
        let (exported, path) = scratch.export(format);
        let counts = exported.counts;
        let samples = counts.samples + counts.host_left_out;
        assert!(samples > u64::from(depth), "{format:?}: {counts:?}");
        let bytes = fs::metadata(path).expect("file").len();
        assert!(bytes < 1 << 26, "{format:?}: {bytes} bytes");
    }
}
