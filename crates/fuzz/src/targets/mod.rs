//! What is fuzzed: one file for each kind of foreign bytes.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stage2_config::hydra::{Action, Node, Origin, Override, Value, hydra_key};
use stage2_contract::trace::{Ending, Reader, Record, Skipped, Writer};
use stage2_diff::{Run, compare, read_report};
use stage2_model::Finding;
use stage2_read::gguf::Gguf;
use stage2_read::ncu::load::{Source, load};
use stage2_read::nsys::{csv, sqlite};
use stage2_read::trace::libraries::RangeNames;
use stage2_report::{Settings, Sources, analyse};

use crate::mutate::{self, Mutator};
use crate::{Limits, scratch};

mod ask;
mod live;
mod nvtx;
mod python;
mod summary;

/// A reader of foreign bytes, and what has to hold for every input.
#[derive(Debug)]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// Reads an input, and panics where a property fails.
    pub check: fn(&[u8]),
    /// Changes an input.
    pub mutate: Mutator,
    /// What one input may take.
    pub limits: Limits,
}

const MIB: usize = 1 << 20;

/// All of them.
pub const TARGETS: &[Target] = &[
    new("trace", check_trace, mutate::trace, limits(1, MIB, 400)),
    new("live", live::check, mutate::trace, limits(2, 64 * MIB, 2_000)),
    new("live_message", live::check_message, mutate::json, limits(2, 8 * MIB, 400)),
    new("summary", summary::check, mutate::summary, limits(2, 8 * MIB, 2_000)),
    new("bundle", check_bundle, mutate::bundle, limits(5, 64 * MIB, 2_000)),
    // SQLite lists the pages of a record by the length that it claims, 8 bytes a page: of at most
    // 4 GiB in pages of 512 bytes these are 64 MiB.
    new("nsys_sqlite", check_nsys_sqlite, mutate::sqlite, limits(2, 80 * MIB, 500)),
    new("nsys_csv", check_nsys_csv, mutate::table, limits(1, 2 * MIB, 200)),
    new("ncu_csv", check_ncu_csv, mutate::table, limits(1, 2 * MIB, 400)),
    new("gguf", check_gguf, mutate::bytes, limits(1, 2 * MIB, 400)),
    new("hydra", check_hydra, mutate::override_words, limits(1, 2 * MIB, 1_000)),
    new("nvtx", nvtx::check, mutate::bytes, limits(1, MIB, 400)),
    new("python", python::check, mutate::bytes, limits(1, 16 * MIB, 400)),
    new("metrics_json", check_metrics_json, mutate::json, limits(2, 8 * MIB, 400)),
    new("ask", ask::check, mutate::json, limits(5, 64 * MIB, 2_000)),
];

const fn new(name: &'static str, check: fn(&[u8]), mutate: Mutator, limits: Limits) -> Target {
    Target { name, check, mutate, limits }
}

const fn limits(seconds: u64, memory_bytes: usize, memory_per_byte: usize) -> Limits {
    Limits { time: Duration::from_secs(seconds), memory_bytes, memory_per_byte }
}

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Gives what `read` gives, which has to be the same a second time: nothing may depend on the order of a
/// hash table, on a clock or on what was read before.
fn same_twice<T: Debug + PartialEq>(what: &str, read: impl Fn() -> T) -> T {
    let (first, second) = (read(), read());
    // As texts NaN is itself.
    if first != second {
        let (one, other) = (format!("{first:?}"), format!("{second:?}"));
        assert!(one == other, "{what}: the second reading differs: {}", difference(&one, &other));
    }
    first
}

fn difference(one: &str, other: &str) -> String {
    let at = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let around =
        |text: &str| text.chars().skip(at.saturating_sub(80)).take(200).collect::<String>();
    format!("\n  {:?}\n  {:?}", around(one), around(other))
}

/// A finding has to say what happened, and hold nothing that changes a terminal.
fn check_findings(findings: &[Finding]) {
    for finding in findings {
        let Finding { what, why, remedy, .. } = finding;
        assert!(!what.is_empty(), "a finding says nothing: {finding:?}");
        let shown = [what, why, remedy].into_iter().all(|text| !text.contains('\u{1b}'));
        assert!(shown, "a control character in a finding: {finding:?}");
    }
}

/// What holds for every table of nsys, whatever the file was.
fn check_nsys(tables: &stage2_read::nsys::Tables) {
    for range in &tables.ranges {
        for row in &range.kernels {
            assert!(row.kernel < tables.kernels.len(), "a range names a kernel that is not there");
        }
    }
    let calls = tables.kernels.iter().map(|kernel| u128::from(kernel.calls)).sum::<u128>();
    let counted = u128::from(tables.counts.kernels);
    assert!(calls.min(u64::MAX.into()) <= counted, "{calls} calls of {counted} kernels");
}

fn check_trace(input: &[u8]) {
    let Some((records, _, _)) = same_twice("records", || read_trace(input)) else { return };
    // Samples are kept as one byte each, with a rounding that is carried on from those before.
    let records: Vec<Record> =
        records.into_iter().filter(|r| !matches!(r, Record::CounterSamples(_))).collect();
    let once = written_trace(&records);
    let again = read_trace(&once).expect("our own header");
    assert_eq!(format!("{records:?}"), format!("{:?}", again.0), "written and read again");
    assert_eq!(again.2, Skipped::default(), "our own file has nothing to step over");
    assert!(!matches!(again.1, Ending::Torn { .. }), "our own file is whole");
    assert!(once == written_trace(&again.0), "written twice, the bytes differ");
}

fn read_trace(input: &[u8]) -> Option<(Vec<Record>, Ending, Skipped)> {
    let mut reader = Reader::new(input).ok()?;
    let mut records = Vec::new();
    for record in reader.by_ref() {
        records.push(record.expect("a slice gives no errors of reading"));
    }
    Some((records, reader.end(), reader.skipped()))
}

fn written_trace(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("a vector takes everything");
    records.iter().for_each(|record| writer.write(record));
    writer.flush().expect("a vector takes everything, and no record is longer than what was read");
    writer.into_sink()
}

fn check_bundle(input: &[u8]) {
    let folder = scratch::folder();
    let run = folder.path().join("run");
    for (which, bytes) in mutate::unpack_bundle(input) {
        let path = run.join(mutate::BUNDLE_FILES[which].0);
        std::fs::create_dir_all(path.parent().unwrap_or(&run)).expect("a folder");
        std::fs::write(&path, &bytes).expect("room for a temporary file");
    }
    let report = same_twice("report", || report(&run));
    // What `diff` and `report` read again.
    let read = stage2_diff::read_report(report.as_bytes()).expect("a report of our own");
    assert!(read.left_out.is_empty(), "our own report is read in part: {:?}", read.left_out);
    check_findings(&read.report.findings);
}

fn report(run: &Path) -> String {
    let analysis = analyse(&Sources::of_run(run), &Settings::of_run(run));
    serde_json::to_string(&analysis.report).expect("every report is JSON")
}

fn check_nsys_sqlite(input: &[u8]) {
    let file = scratch::file("input.sqlite", input);
    let tables = same_twice("tables", || sqlite::load(&file.path, &RangeNames::default()));
    match tables {
        Ok(tables) => {
            check_findings(&tables.findings);
            assert!(
                tables.complete || !tables.findings.is_empty(),
                "a part is missing, and nothing says so"
            );
            check_nsys(&tables);
        }
        Err(finding) => {
            assert!(finding.what.contains("input.sqlite"), "the file is named: {finding}");
            assert!(!finding.why.is_empty() && !finding.remedy.is_empty(), "{finding}");
        }
    }
}

fn check_nsys_csv(input: &[u8]) {
    let file = scratch::file("input_cuda_gpu_kern_sum_mangled.csv", input);
    let tables = same_twice("tables", || {
        csv::load(std::slice::from_ref(&file.path), &RangeNames::default())
    });
    check_findings(&tables.findings);
    let named = tables.findings.iter().any(|finding| finding.what.contains("input_cuda"));
    assert!(
        tables.complete || named,
        "a part is missing, and nothing says so: {:?}",
        tables.findings
    );
    for kernel in &tables.kernels {
        assert!(kernel.min_ns <= kernel.max_ns || kernel.max_ns.is_none(), "{kernel:?}");
    }
    check_nsys(&tables);
}

fn check_ncu_csv(input: &[u8]) {
    let tables = same_twice("tables", || load([Source { name: "input.csv".to_owned(), input }]));
    check_findings(&tables.findings);
    let quantities = tables.launches.iter().flat_map(|launch| launch.metrics.values());
    assert!(quantities.into_iter().all(|quantity| quantity.value.is_finite()));
    assert!(
        !tables.launches.is_empty() || !tables.findings.is_empty(),
        "nothing was read, and nothing says so"
    );
}

fn check_hydra(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let file: Arc<str> = "input.yaml".into();
    let yaml = same_twice("YAML", || Node::from_yaml(&text, &file));
    let mut config = match yaml {
        Ok(node) => {
            assert!(node.leaves().iter().all(|(_, leaf)| !matches!(leaf.value, Value::Map(_))));
            node
        }
        Err(error) => {
            let error = error.to_string();
            assert!(!error.is_empty() && !error.contains('\n'), "one line, and no more: {error:?}");
            Node { value: Value::Map(Vec::new()), origin: Origin::Chosen }
        }
    };
    for word in text.lines() {
        check_word(word, &mut config);
    }
    // JSON is YAML: what a configuration is written as is read equal.
    let json = config.to_json();
    let written = serde_json::to_string(&json).expect("every value is JSON");
    if let Ok(again) = Node::from_yaml(&written, &file) {
        assert_eq!(again.to_json(), json, "written and read again: {written}");
    }
}

fn check_word(word: &str, config: &mut Node) {
    let _ = hydra_key(word);
    let parsed = same_twice("override", || Override::parse(word));
    match parsed {
        Ok(parsed) => {
            let origin = parsed.origin();
            match parsed.action {
                Action::Set(value) | Action::Add(value) | Action::AddOrSet(value) => {
                    config.set(&parsed.key, Node { value, origin });
                    assert!(config.get(&parsed.key).is_some(), "what was set is there: {word:?}");
                }
                Action::Delete(_) => drop(config.remove(&parsed.key)),
            }
        }
        Err(error) => {
            let length = word.chars().count();
            assert!((1..=length + 1).contains(&error.at), "a place in the word: {error:?}");
            assert!(!error.what.is_empty(), "{word:?}");
        }
    }
}

fn check_gguf(input: &[u8]) {
    let bytes = input.len() as u64;
    let read = || Gguf::of(input, bytes).map_err(|error| error.to_string());
    let Ok(head) = same_twice("head", read) else { return };
    let tensors = head.tensors.iter().map(|tensor| u128::from(tensor.bytes)).sum::<u128>();
    assert!(tensors <= bytes.into(), "{tensors} bytes of tensors in {bytes}");
}

fn check_metrics_json(input: &[u8]) {
    let Ok(read) = same_twice("report", || read_report(input)) else { return };
    // What is written again is read equal.
    let written = serde_json::to_string(&read.report).expect("every report is JSON");
    let again = read_report(written.as_bytes())
        .unwrap_or_else(|why| panic!("our own report is refused: {why}"));
    assert!(again.left_out.is_empty(), "our own report is read in part: {:?}", again.left_out);
    let rewritten = serde_json::to_string(&again.report).expect("every report is JSON");
    assert_eq!(written, rewritten, "written again: {}", difference(&written, &rewritten));

    let run = |label| Run { label, report: &read.report, left_out: &read.left_out };
    let compared = same_twice("comparison", || compare(&[run("a")], &[run("b")], &[], false));
    let Ok(comparison) = compared else { return };
    for stage in &comparison.stages {
        for metric in &stage.metrics {
            assert!(!metric.verdict.is_change(), "a report differs from itself: {metric:?}");
        }
    }
}
