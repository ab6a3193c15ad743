//! Reports written again over those of before: on a disk that fills, and with a trace file that
//! became another one. What was there is kept or replaced, never cut. From compressed trace files and
//! exports of nsys they are the same, and what is damaged costs its own part.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::trace::Build;
use crate::common::{self, LAUNCH, Sandbox, compress, lossy, names_in, stderr, unpack};
use predicates::prelude::*;
use predicates::str::contains;
use stage2_contract::trace::RANGE_OUTSIDE;

const REPORTS: [&str; 5] =
    ["kernels.md", "kernels.csv", "metrics.json", "timelines.json", "report.html"];

fn trace_file(path: &Path, kernels: u32) {
    trace_file_of(1, path, kernels);
}

/// A trace file with a kernel of each name and configuration.
fn trace_file_of(pid: u32, path: &Path, kernels: u32) {
    let mut trace = Build::process(pid, "python3");
    trace.anchor(1).device(0, "GPU", 1);
    for id in 1..=kernels {
        let start = 1_000 * u64::from(id);
        trace.name(id, format!("_Z9kernel{id:03}v").as_bytes()).shape(id, id, 1);
        trace.kernel(RANGE_OUTSIDE, id, 1, (start, start + 500));
    }
    fs::write(path, trace.end().bytes()).expect("a trace file");
}

/// A bundle with a trace file and its reports.
fn bundle(kernels: u32) -> Sandbox {
    let sandbox = Sandbox::new();
    trace_file(&sandbox.path("node-1.s2t"), kernels);
    sandbox.launch(&["merge", "--spool", "node-1.s2t", "-o", "b"]).assert().success();
    sandbox
}

fn files(sandbox: &Sandbox) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(sandbox.path("b")).expect("folder").flatten();
    let files = entries.filter(|entry| entry.path().is_file());
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, fs::read(entry.path()).expect("file"))
    };
    files.map(file).collect()
}

/// `report b` where no file may become larger than `limit_kib`: the write fails as on a full disk.
fn report_with_limit(sandbox: &Sandbox, limit_kib: u64) -> Output {
    // Bash counts in KiB. Ignored, the signal leaves an error of the write behind.
    let script = format!("trap '' XFSZ; ulimit -f {limit_kib}; exec '{LAUNCH}' report b");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(sandbox.path("")).output().expect("bash")
}

#[test]
fn on_a_full_disk_every_report_is_the_old_one_or_the_new_one() {
    for limit_kib in [1, 4, 16, 64, 256] {
        let sandbox = bundle(300);
        let before = files(&sandbox);
        trace_file(&sandbox.path("b/collector/node-1.s2t"), 400);
        let output = report_with_limit(&sandbox, limit_kib);
        let told = lossy(&output.stderr);
        assert_eq!(output.status.signal(), None, "{limit_kib}: {told}");
        let now = files(&sandbox);
        assert_eq!(now.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{told}");
        sandbox.launch(&["report", "b"]).assert().success();
        let after = files(&sandbox);
        for name in REPORTS {
            let whole = now[name] == before[name] || now[name] == after[name];
            assert!(whole, "{limit_kib}: {name} is neither the old nor the new one");
        }
        if before["metrics.json"].len() as u64 > limit_kib * 1024 {
            assert_eq!(output.status.code(), Some(70), "{limit_kib}: {told}");
            assert!(told.contains("; the limit on the size of a file"), "{told}");
        }
    }
}

/// Hazard (Hostile files): Links, pipes and devices in the place of a bundle's files.
/// Promise: They are not read, and no report leads elsewhere.
///
/// Somebody else's bundle: whoever made it knew the names of our files.
#[test]
fn links_in_a_bundle_lead_no_report_elsewhere() {
    let sandbox = bundle(3);
    sandbox.write("mine", "mine");
    for name in REPORTS.into_iter().chain(["report.md", "run.json"]) {
        for end in [".part", ".new", ".tmp"] {
            let link = sandbox.path("b").join(format!("{name}{end}"));
            std::os::unix::fs::symlink("../mine", link).expect("link");
        }
        if name != "run.json" {
            fs::remove_file(sandbox.path("b").join(name)).expect("report");
            std::os::unix::fs::symlink("../mine", sandbox.path("b").join(name)).expect("link");
        }
    }
    sandbox.launch(&["report", "b"]).assert().success();
    assert_eq!(common::read(&sandbox.path("mine")), "mine");
    assert!(!sandbox.path("b/report.md").is_symlink());
}

#[test]
fn pipes_and_devices_in_the_place_of_files_are_not_read() {
    const ODD: &str = "not a regular file";
    let sandbox = bundle(3);
    let pipe = |name: &str| {
        let path = sandbox.path(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    };
    let endless = |name: &str| {
        let _ = fs::remove_file(sandbox.path(name));
        std::os::unix::fs::symlink("/dev/zero", sandbox.path(name)).expect("link");
    };
    let told = || {
        let assert = sandbox.launch(&["report", "b"]).assert().success();
        let assert = assert.stderr(contains("writing the reports").not());
        assert.stderr(contains("\nwarnings: ").and(contains("explained above").not()));
        common::read(&sandbox.path("b/run.json")).matches(ODD).count()
    };
    pipe("b/env.json");
    pipe("b/config.yaml");
    pipe("b/stage1/metrics.json");
    pipe("b/ncu/raw.csv");
    assert_eq!(told(), 4, "{}", common::read(&sandbox.path("b/run.json")));
    // As on a terminal: they may take long.
    let assert = sandbox.launch(&["-v", "report", "b"]).assert().success();
    assert.stderr(contains("stage2-launch: writing the reports of b\n"));
    endless("b/env.json");
    endless("b/config.yaml");
    endless("b/ncu/raw.csv");
    assert_eq!(told(), 4);
    let refused = |words: &[&str], code: i32| {
        let text = stderr(&sandbox.launch(words).assert().code(code));
        assert!(text.contains(ODD), "{words:?}: {text}");
    };
    refused(&["report", "b", "report.top_n=3"], 2);
    pipe("presets/config.yaml");
    refused(&["config", "--config-dir", "presets"], 2);
    fs::remove_file(sandbox.path("b/config.yaml")).expect("link");
    pipe("pipe/metrics.json");
    pipe("pipe/config.json");
    let folder = sandbox.path("pipe");
    let stage1 = format!("stage1.run_dir={}", folder.display());
    let model = format!("model.llm.config_json={}", folder.join("config.json").display());
    sandbox.launch(&["report", "b", &stage1, &model]).assert().success();
    let found = common::read(&sandbox.path("b/run.json"));
    assert!(found.matches(ODD).count() >= 5, "{found}");
    fs::remove_file(sandbox.path("b/metrics.json")).expect("report");
    fs::create_dir(sandbox.path("b/metrics.json")).expect("folder");
    let again = "hint: make it a file that you may read, or move it away and write it again with `stage2-launch report b`";
    sandbox.launch(&["ask", "b", "summary"]).assert().code(70).stderr(contains(again));
    let moved = contains("hint: a folder has this name: move the folder away");
    sandbox.launch(&["report", "b"]).assert().code(70).stderr(moved);
    fs::remove_dir(sandbox.path("b/metrics.json")).expect("folder");
    pipe("b/run.json");
    refused(&["report", "b"], 70);
    endless("b/run.json");
    refused(&["report", "b"], 70);
}

#[test]
fn settings_that_the_run_was_not_told_of_are_given_to_its_reports_and_stay() {
    let sandbox = bundle(300);
    let rows = |sandbox: &Sandbox| {
        let table = common::read(&sandbox.path("b/kernels.md"));
        table.lines().filter(|line| line.contains("kernel0")).count()
    };
    let summary = |sandbox: &Sandbox| common::read(&sandbox.path("b/stakeholder_summary.md"));
    let unknown = |summary: &str| {
        summary.contains("no model is configured") || summary.contains("model/llm=NAME")
    };
    assert!(unknown(&summary(&sandbox)), "{}", summary(&sandbox));
    assert_eq!(rows(&sandbox), 50);

    let words = ["report", "b", "model/llm=llama_3_8b", "hardware=h200", "report.top_n=5"];
    sandbox.launch(&words).assert().success();
    assert!(!unknown(&summary(&sandbox)), "{}", summary(&sandbox));
    assert!(summary(&sandbox).contains("llama_3_8b"), "{}", summary(&sandbox));
    assert_eq!(rows(&sandbox), 5);
    let config = common::read(&sandbox.path("b/config.yaml"));
    for part in [
        "# after the run, by `stage2-launch report`: model/llm=llama_3_8b hardware=h200 report.top_n=5",
        "# conf/model/llm/llama_3_8b.yaml:",
        "# override report.top_n=5",
        "# conf/runner/stage2.yaml:",
    ] {
        assert!(config.contains(part), "{part:?} in {config}");
    }

    // What was given stays; and once more, on top of it.
    sandbox.launch(&["report", "b"]).assert().success();
    assert_eq!((rows(&sandbox), common::read(&sandbox.path("b/config.yaml"))), (5, config));
    sandbox.launch(&["report", "b", "report.top_n=7"]).assert().success();
    assert!(summary(&sandbox).contains("llama_3_8b"));
    assert_eq!(rows(&sandbox), 7);
    let config = common::read(&sandbox.path("b/config.yaml"));
    assert_eq!(config.lines().filter(|line| line.starts_with("# after the run")).count(), 2);
}

#[test]
fn a_setting_that_is_wrong_or_of_the_run_changes_nothing() {
    let sandbox = bundle(3);
    let before = files(&sandbox);
    for (word, part) in [
        ("run.mode=light", "the run is over"),
        ("report.top_n=many", "wrong value"),
        ("model/llm=no-such", "no preset"),
        ("nonsense", "KEY=VALUE"),
    ] {
        sandbox.launch(&["report", "b", word]).assert().code(2).stderr(contains(part));
    }
    assert!(files(&sandbox) == before);
    fs::write(sandbox.path("b/config.yaml"), "a: [1").expect("file");
    let assert = sandbox.launch(&["report", "b", "hardware=h200"]).assert().code(2);
    assert.stderr(contains("config.yaml: invalid YAML"));
    fs::remove_file(sandbox.path("b/config.yaml")).expect("file");
    sandbox.launch(&["report", "b", "hardware=h200"]).assert().success();
    assert!(common::read(&sandbox.path("b/config.yaml")).contains("name: \"H200 SXM\""));
}

/// Hazard (Hostile files): `config.yaml` of a bundle was cut or damaged, and its reports are to be written again.
/// Promise: The reports stay as they are if settings that they were made with are lost, and the error gives these.
#[test]
fn reports_whose_settings_are_gone_stay_as_they_are() {
    let sandbox = bundle(3);
    let given = ["model/llm=llama_3_8b", "hardware=h200", "model.tokens.batch_size=4"];
    sandbox.launch(&["report", "b"]).args(given).assert().success();
    let before = files(&sandbox);
    let whole = common::read(&sandbox.path("b/config.yaml"));
    let config = sandbox.path("b/config.yaml");
    let cut = whole.split_inclusive('\n').take(20).collect::<String>();
    let words =
        "`stage2-launch report b hardware=h200 model/llm=llama_3_8b model.tokens.batch_size=4`";
    let odd = whole.replacen("hidden_size: 4096", "hidden_size: x", 1);
    assert_ne!(odd, whole);
    for (text, why) in [
        (Some(&*cut), words),
        (Some("a: ["), "unclosed bracket"),
        (Some("a: ["), words),
        (Some("- a"), "a mapping"),
        (Some(&*odd), "`model.llm.shape.hidden_size`"),
        (Some(&*odd), words),
        (None, words),
    ] {
        for more in [&[][..], &["report.top_n=5"]] {
            text.map_or_else(|| fs::remove_file(&config), |text| fs::write(&config, text))
                .expect("file");
            let assert = sandbox.launch(&["report", "b"]).args(more).assert().code(2);
            assert.stderr(contains(why).and(contains("hint: ")));
            fs::write(&config, &whole).expect("file");
            assert!(files(&sandbox) == before, "{text:?}, {more:?}: nothing is written");
        }
    }
    // No report can be given what the run was told.
    let record = common::read(&sandbox.path("b/run.json"));
    let line = record.lines().find(|line| line.contains("\"operators.annotate\"")).expect("a line");
    let option = "    \"operators.annotate\": \"option --annotate torch-ops\",";
    sandbox.write("b/run.json", &record.replace(line, option));
    let lines = whole.split_inclusive('\n').filter(|line| !line.contains("annotate:"));
    fs::write(&config, lines.collect::<String>()).expect("file");
    let before = files(&sandbox);
    let told = contains("(operators.annotate)")
        .and(contains("`stage2-launch merge --spool b/collector -o DIR`"));
    sandbox.launch(&["report", "b"]).assert().code(2).stderr(told);
    assert!(files(&sandbox) == before);
    sandbox.write("b/run.json", &record);
    fs::remove_file(&config).expect("file");
    sandbox.launch(&["report", "b"]).args(given).assert().success();
    assert!(common::read(&sandbox.path("b/stakeholder_summary.md")).contains("llama_3_8b"));
    // Settings may be taken back by name.
    sandbox.launch(&["report", "b", "model/llm=none"]).assert().success();
}

#[test]
fn a_trace_file_of_a_newer_version_is_refused_by_name_and_the_others_are_read() {
    let sandbox = bundle(3);
    let mut newer = fs::read(sandbox.path("node-1.s2t")).expect("a trace file");
    newer[8..12].copy_from_slice(&9u32.to_le_bytes());
    let sum = crc32(&newer[..16]);
    newer[16..20].copy_from_slice(&sum.to_le_bytes());
    fs::write(sandbox.path("b/collector/node-2.s2t"), newer).expect("a trace file");
    let assert = sandbox.launch(&["report", "b"]).assert().success();
    assert.stderr(contains("node-2.s2t").and(contains("version 9")));
    let csv = common::read(&sandbox.path("b/kernels.csv"));
    assert_eq!(csv.lines().count(), 4, "{csv}");
}

/// Hazard (Hostile files): A trace file of a bundle was cut, and its reports are to be written again.
/// Promise: The reports stay as they are, and the file is named. `merge` reports what is left.
#[test]
fn reports_of_a_trace_file_that_was_cut_stay_as_they_are() {
    let sandbox = bundle(4_000);
    let before = files(&sandbox);
    let path = sandbox.path("b/collector/node-1.s2t");
    let length = fs::metadata(&path).expect("a trace file").len();
    let file = File::options().write(true).open(&path).expect("a trace file");
    file.set_len(length / 2).expect("cut");
    let told = contains("made from 4,000 kernels in node-1.s2t, of which ")
        .and(contains("`stage2-launch merge --spool b/collector -o DIR`"));
    sandbox.launch(&["report", "b"]).assert().code(70).stderr(told);
    assert_eq!(files(&sandbox), before, "nothing is written");
    let rest = sandbox.launch(&["merge", "--spool", "b/collector", "-o", "c"]).assert();
    rest.success().stderr(contains("node-1.s2t"));
    let rows = common::read(&sandbox.path("c/kernels.csv")).lines().count();
    assert!((1_000..4_000).contains(&rows), "{rows}");
    // Damaged within, it may have all kernels that it had.
    sandbox.launch(&["merge", "--spool", "node-1.s2t", "-o", "e"]).assert().success();
    let path = sandbox.path("e/collector/node-1.s2t");
    let mut bytes = fs::read(&path).expect("a trace file");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 7].fill(b'x');
    fs::write(&path, bytes).expect("a trace file");
    sandbox.launch(&["report", "e"]).assert().code(70).stderr(contains("damaged afterwards"));
    // Of the first bytes alone, no command makes a report.
    file.set_len(length / 100).expect("cut");
    let none = contains("of which 0 are left").and(contains("or record the workload again"));
    let assert = sandbox.launch(&["report", "b"]).assert().code(70);
    assert.stderr(none.and(contains("merge --spool").not()));
    let assert = sandbox.launch(&["merge", "--spool", "b/collector", "-o", "d"]).assert().success();
    assert.stderr(contains("end within a record").and(contains("STAGE2_FLUSH_MS").not()));
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    })
}

/// Hazard (Hostile files): Trace files of a bundle were deleted, and its reports are to be written
///  again.
/// Promise: The reports stay as they are, and the files are named.
#[test]
fn reports_whose_trace_files_are_gone_stay_as_they_are() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("in")).expect("folder");
    for rank in 1..=3 {
        trace_file_of(rank, &sandbox.path(&format!("in/node-{rank}.s2t")), 300);
    }
    sandbox.launch(&["merge", "--spool", "in", "-o", "b"]).assert().success();
    let before = files(&sandbox);
    let refused = |part: &str| {
        let output = sandbox.launch(&["report", "b", "report.top_n=5"]).assert().code(70);
        let said = stderr(&output);
        assert!(said.contains(part), "{part:?} in {said}");
        assert!(said.contains("so no report was written; restore the files"), "{said}");
        assert_eq!(files(&sandbox), before, "nothing is written");
        said
    };
    let trace = |rank: u32| sandbox.path(&format!("b/collector/node-{rank}.s2t"));

    fs::remove_file(trace(2)).expect("trace");
    let said = refused("node-2.s2t is missing from b/collector");
    let told = "`stage2-launch merge --spool b/collector -o DIR` reports what";
    assert!(said.contains(told), "{said}");
    fs::remove_file(trace(1)).expect("trace");
    refused("node-1.s2t and 1 more are missing");
    fs::remove_dir_all(sandbox.path("b/collector")).expect("folder");
    let said = refused("node-1.s2t and 2 more are missing");
    assert!(!said.contains("merge"), "nothing is left: {said}");

    // Put back, and one of them compressed since.
    fs::create_dir(sandbox.path("b/collector")).expect("folder");
    (1..=3).for_each(|rank| trace_file_of(rank, &trace(rank), 300));
    compress(&trace(3));
    sandbox.launch(&["report", "b", "report.top_n=5"]).assert().success();
}

fn captures() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("in")).expect("folder");
    trace_file(&sandbox.path("in/node-1.s2t"), 50);
    unpack("nsys/decode.sqlite.xz", &sandbox.path("in/run.sqlite"));
    let words = ["merge", "--spool", "in", "--nsys", "in/run.sqlite", "-o", "plain/bundle"];
    sandbox.launch(&words).assert().success();
    sandbox
}

const PAGES: [&str; 4] = ["kernels.md", "kernels.csv", "operators.md", "metrics.json"];

fn pages(sandbox: &Sandbox, dir: &str) -> Vec<String> {
    PAGES.iter().map(|page| common::read(&sandbox.path(dir).join(page))).collect()
}

#[test]
fn reports_of_compressed_captures_are_the_same() {
    let sandbox = captures();
    sandbox.launch(&["report", "plain/bundle"]).assert().success();
    let before = pages(&sandbox, "plain/bundle");
    assert!(before[0].contains("kernel"), "{}", before[0]);
    for file in ["collector/node-1.s2t", "nsys/run.sqlite"] {
        compress(&sandbox.path("plain/bundle").join(file));
    }
    sandbox.launch(&["report", "plain/bundle"]).assert().success();
    for (page, (before, after)) in
        PAGES.iter().zip(before.iter().zip(pages(&sandbox, "plain/bundle")))
    {
        // The export is named as it lies there.
        assert_eq!(*before, after.replace("run.sqlite.gz", "run.sqlite"), "{page}");
    }
    let left = names_in(&sandbox.path("plain/bundle/nsys"));
    assert!(!left.iter().any(|name| name.starts_with('.')), "{left:?}");
}

#[test]
fn compressed_captures_are_merged_and_damage_is_told() {
    let sandbox = captures();
    let before = pages(&sandbox, "plain/bundle");
    compress(&sandbox.path("in/node-1.s2t"));
    compress(&sandbox.path("in/run.sqlite"));
    let merge = |out: &str| {
        let words = ["merge", "--spool", "in", "--nsys", "in/run.sqlite.gz", "-o", out];
        sandbox.launch(&words).assert()
    };
    merge("again/bundle").success();
    assert!(sandbox.path("again/bundle/collector/node-1.s2t").is_file(), "as it was");
    assert!(sandbox.path("again/bundle/nsys/run.sqlite").is_file(), "as it was");
    assert_eq!(pages(&sandbox, "again/bundle")[..3], before[..3]);

    for file in ["in/node-1.s2t.gz", "in/run.sqlite.gz"] {
        let bytes = fs::read(sandbox.path(file)).expect("file");
        fs::write(sandbox.path(file), &bytes[..bytes.len() / 2]).expect("cut");
    }
    let told = contains("node-1.s2t.gz").and(contains("cannot be unpacked"));
    merge("cut/bundle").stderr(told);
    assert!(!sandbox.path("cut/bundle/nsys/run.sqlite").exists(), "no half of it");
    // The reports of a bundle do not become those of what comes before the damage.
    let collector = sandbox.path("again/bundle/collector");
    fs::copy(sandbox.path("in/node-1.s2t.gz"), collector.join("node-1.s2t.gz")).expect("copied");
    fs::remove_file(collector.join("node-1.s2t")).expect("removed");
    let told = contains("kernels in node-1.s2t, of which");
    sandbox.launch(&["report", "again/bundle"]).assert().code(70).stderr(told);
}
