//! A trace that is cut into pieces: reports and live numbers are those of the same trace in one file, each piece
//! has a report of its own, and what is missing is told.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use crate::common::guest::{Guest, get, serving};
use crate::common::{
    LAUNCH, copy_folder, json, lossy, row, shared_folder, text as said, wait_until,
};
use serde_json::Value;
use stage2_contract::trace::{Reader, Record, Writer, pieces};

/// A guest whose traces are cut into pieces of 10 ms.
fn guest(start: &str) -> Guest {
    Guest::new(start, &[("STAGE2_FLUSH_MS", "10"), ("STAGE2_ROTATE", "every=10ms")])
}

/// Works in a range, over several pieces.
fn decode(guest: &mut Guest, turns: u32) {
    for turn in 1..=turns {
        guest.does(["push decode", &format!("launch {turn}"), "replay layer"]);
        std::thread::sleep(Duration::from_millis(15));
        guest.does(["launch 2", "pop", "work prefill 5"]);
    }
}

/// A folder with the trace of a process: in pieces in `traces`, in one file in `joined`.
static RECORDED: LazyLock<PathBuf> = LazyLock::new(|| {
    shared_folder("pieces", |folder| {
        let mut guest = guest("on");
        guest.does(["push warm-up", "capture 20", "pop", "push serve"]);
        decode(&mut guest, 12);
        // A busy machine may turn to the next piece later.
        for _ in 0..100 {
            if pieces_in(&guest.path("traces")).len() >= 14 {
                break;
            }
            decode(&mut guest, 1);
        }
        guest.tell("pop");
        copy_folder(&guest.finish().path().join("traces"), &folder.join("traces"));
        std::fs::create_dir(folder.join("joined")).expect("a folder");
        join(&folder.join("traces"), &folder.join("joined/host-1.s2t"));
    })
});

fn pieces_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "s2t")).collect();
    files.sort();
    files
}

/// Writes all pieces of a folder as one file.
fn join(folder: &Path, into: &Path) {
    let mut writer = Writer::new(std::fs::File::create(into).expect("a file")).expect("a header");
    let mut joined = pieces::Join::default();
    for path in pieces_in(folder) {
        joined.begin_file();
        for record in Reader::open(path).expect("a piece") {
            joined.take(record.expect("readable"), |record| match &record {
                // In one file there are none.
                Record::Meta { key, .. } if key.starts_with("piece") => {}
                record => writer.write(record),
            });
        }
    }
    joined.finish(|record| writer.write(&record));
    writer.flush().expect("a disk");
}

fn launch(words: &[&str]) -> String {
    let output = Command::new(LAUNCH).args(words).output().expect("stage2-launch");
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    lossy(&output.stdout)
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The report of a trace file, or of a folder of them.
fn report(traces: &Path, into: &Path) -> Value {
    launch(&["merge", "-q", "--allow-empty", "--spool", utf8(traces), "-o", utf8(into)]);
    json(&into.join("metrics.json"))
}

fn text(value: &Value) -> String {
    serde_json::to_string(value).expect("JSON")
}

fn kernels(report: &Value) -> u64 {
    report["coverage"]["total"]["kernels"].as_u64().expect("a number")
}

#[test]
fn the_report_of_all_pieces_is_that_of_one_file_and_each_has_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let traces = RECORDED.join("traces");
    let files = pieces_in(&traces);
    assert!(files.len() >= 12, "{} pieces", files.len());
    let (one, all) = (report(&RECORDED.join("joined"), &at("one")), report(&traces, &at("all")));
    assert_eq!(all["coverage"]["total"], one["coverage"]["total"]);
    assert_eq!(all["coverage"]["verdict"], one["coverage"]["verdict"]);
    assert_eq!(all["coverage"]["verdict"]["status"], "complete", "{}", all["coverage"]["verdict"]);
    assert_eq!(all["coverage"]["processes"].as_array().map(Vec::len), Some(1));
    for part in ["stages", "paths", "kernels", "devices", "captured", "windows", "answer"] {
        assert_eq!(all[part], one[part], "{part}");
    }
    assert_eq!(text(&all["findings"]), text(&one["findings"]));

    let mut sum = 0;
    for (number, file) in (1..).zip(&files) {
        let alone = report(file, &at(&format!("piece-{number}")));
        sum += kernels(&alone);
        let coverage = text(&alone["coverage"]["processes"][0]);
        let earlier = match number {
            1 => String::new(),
            2 => "piece 1".to_owned(),
            _ => format!("pieces 1 to {}", number - 1),
        };
        assert!(coverage.contains(&earlier), "{coverage}");
        assert!(coverage.contains("pieces.missing"), "{coverage}");
        assert_ne!(alone["coverage"]["verdict"]["status"], "complete", "piece {number}");
        assert_eq!(alone["coverage"]["total"]["undefined_identifiers"], 0, "piece {number}");
        assert_eq!(alone["coverage"]["total"]["contradicting_ranges"], 0, "piece {number}");
        assert_eq!(alone["coverage"]["total"]["unattributed"], 0, "piece {number}");
    }
    assert_eq!(sum, kernels(&one), "each kernel is in one piece");
}

/// Hazard (Traces in pieces): Pieces were deleted.
/// Promise: The report names them, and is not called complete.
#[test]
fn pieces_that_are_gone_are_told_where_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let traces = folder.path().join("traces");
    copy_folder(&RECORDED.join("traces"), &traces);
    let files = pieces_in(&traces);
    for gone in files[..5].iter().chain(&files[9..11]) {
        std::fs::remove_file(gone).expect("removed");
    }
    let found = report(&traces, &folder.path().join("report"));
    let (findings, verdict) = (text(&found["findings"]), text(&found["coverage"]["verdict"]));
    assert!(
        findings.contains("pieces 1 to 5, pieces 10 to 11 (cut with every=10ms)"),
        "{findings}"
    );
    assert!(verdict.contains("PARTIAL") && verdict.contains("pieces of their trace"), "{verdict}");
    assert_eq!(found["coverage"]["total"]["undefined_identifiers"], 0);
    assert_eq!(found["coverage"]["total"]["contradicting_ranges"], 0);
    let page = launch(&["top", "--once", utf8(&traces)]);
    assert!(page.contains("pieces 1 to 5, pieces 10 to 11"), "{page}");
}

#[test]
fn live_numbers_of_all_pieces_are_those_of_one_file() {
    let metrics = |traces: &Path| {
        let text = launch(&["feed", "--once", utf8(traces)]);
        // What is said of the files themselves.
        let of_data = |line: &&str| line.starts_with("stage2_stage_") || line.contains("lost");
        text.lines().filter(of_data).map(str::to_owned).collect::<Vec<_>>()
    };
    let (one, all) = (metrics(&RECORDED.join("joined")), metrics(&RECORDED.join("traces")));
    assert!(one.iter().any(|line| line.contains("stage=\"serve\"")), "{one:#?}");
    assert_eq!(all, one);
}

#[test]
fn feed_follows_a_process_from_piece_to_piece() {
    let mut guest = guest("on");
    let (_feed, address) = serving(&guest.traces());
    guest.tell("capture 20");
    let turns = 60;
    decode(&mut guest, turns);
    let mut metrics = String::new();
    wait_until("the last step", || {
        metrics = get(&address, "/metrics");
        let of_decode = |line: &&str| {
            line.starts_with("stage2_stage_step_seconds_count{") && line.contains("\"decode\"")
        };
        let steps = metrics.lines().find(of_decode).and_then(|line| line.rsplit(' ').next());
        steps.is_some_and(|steps| steps.parse() == Ok(f64::from(turns)))
    });
    assert!(pieces_in(Path::new(&guest.traces())).len() > 20);
    let mut lost = metrics.lines().filter(|line| line.contains("lost") && !line.starts_with('#'));
    assert!(lost.all(|line| line.ends_with(" 0")), "{metrics}");
    guest.finish();
}

#[test]
fn a_window_has_pieces_of_its_own_and_a_snapshot_takes_all_of_them() {
    let mut guest = guest("off");
    let folder = Rc::clone(&guest.folder);
    let (pid, at) = (guest.pid(), |name: &str| folder.path().join(name));
    let ctl = |guest: &Guest, words: &[&str]| {
        guest.ctl_ends(&[&[pid.as_str()], words].concat(), 0);
    };
    guest.does(["push warm-up", "capture 20", "pop"]);
    let of_window = |number: u32| {
        let part = format!("-w{number}-p");
        let files = pieces_in(&at("traces"));
        files.into_iter().filter(|path| utf8(path).contains(&part)).collect::<Vec<_>>()
    };
    ctl(&guest, &["start", "--wait"]);
    decode(&mut guest, 8);
    // With `keep` the first ones are gone.
    let first = of_window(1).swap_remove(0);
    std::fs::rename(&first, at("first")).expect("moved");
    ctl(&guest, &["snapshot", "-o", utf8(&at("snapshot"))]);
    std::fs::rename(at("first"), &first).expect("moved");
    let taken = pieces_in(&at("snapshot/collector")).len();
    assert!(taken >= 5, "{taken} pieces");
    decode(&mut guest, 4);
    ctl(&guest, &["stop", "--wait"]);
    ctl(&guest, &["start", "--size", "64K", "--wait"]);
    decode(&mut guest, 4);
    ctl(&guest, &["stop", "--wait"]);
    guest.finish();
    let (first, second) = (of_window(1), of_window(2));
    assert!(first.len() > taken && second.len() >= 3, "{first:?} {second:?}");
    // Each window is a trace: numbers begin with 1.
    assert!([&first, &second].iter().all(|files| utf8(&files[0]).ends_with("-p000001.s2t")));
    for (window, files, turns) in [(1, first, 12), (2, second, 4)] {
        let only = at(&format!("only-{window}"));
        std::fs::create_dir(&only).expect("a folder");
        for file in files {
            std::fs::rename(&file, only.join(file.file_name().expect("a name"))).expect("moved");
        }
        let found = report(&only, &at(&format!("report-{window}")));
        let verdict = &found["coverage"]["verdict"];
        assert_eq!(verdict["status"], "complete", "{verdict}");
        let decode = row(&found["stages"], "stage", "decode");
        assert_eq!(decode["instances"], turns, "window {window}");
    }
    let snapshot = json(&at("snapshot/metrics.json"));
    let processes = snapshot["coverage"]["processes"].as_array().expect("processes");
    assert_eq!(processes.len(), 1, "{processes:?}");
}
