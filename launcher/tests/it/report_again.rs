//! Reports written again over those of before: on a disk that fills, and with a trace file that
//! became another one. What was there is kept or replaced, never cut.

use crate::common;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::Sandbox;
use stage2_contract::trace::{
    Anchor, Device, GpuNs, GpuWork, MonoNs, Process, Queue, Record, Shape, WallNs, What, Writer,
};

/// Names of reports.
const REPORTS: [&str; 4] = ["kernels.md", "kernels.csv", "metrics.json", "report.html"];

fn spool(path: &Path, kernels: u32) {
    spool_of(1, path, kernels);
}

fn spool_of(pid: u32, path: &Path, kernels: u32) {
    let mut writer = Writer::new(File::create(path).expect("spool")).expect("spool");
    writer.write(&Record::Process(Process { pid, host: "node".into(), ..Process::default() }));
    writer.write(&Record::Anchor(Anchor { gpu: GpuNs(1), mono: MonoNs(1), wall: WallNs(1) }));
    writer.write(&Record::Device(Device { name: b"GPU".to_vec(), ..Device::default() }));
    writer.write(&Record::Queue(Queue { id: 1, device: 0, context: 1, stream: 7 }));
    for id in 1..=kernels {
        writer.write(&Record::Name { id, bytes: format!("_Z9kernel{id:03}v").into_bytes() });
        let (grid, block) = ([1; 3], [32, 1, 1]);
        writer.write(&Record::Shape(Shape { id, name: id, grid, block, ..Shape::default() }));
        let (start, end) = (GpuNs(1_000 * u64::from(id)), GpuNs(1_000 * u64::from(id) + 500));
        let kernel = GpuWork::new(What::Kernel { shape: id });
        writer.work(&GpuWork { start, end, queue: 1, ..kernel });
    }
    writer.write(&Record::End { reason: "exit".into() });
    writer.flush().expect("spool");
}

/// A bundle with a trace file and its reports.
fn bundle(kernels: u32) -> Sandbox {
    let sandbox = Sandbox::new();
    spool(&sandbox.path("node-1.s2t"), kernels);
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
    let launch = env!("CARGO_BIN_EXE_stage2-launch");
    // Bash counts in KiB. Ignored, the signal leaves an error of the write behind.
    let script = format!("trap '' XFSZ; ulimit -f {limit_kib}; exec '{launch}' report b");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(sandbox.path("")).output().expect("bash")
}

#[test]
fn on_a_full_disk_every_report_is_the_old_one_or_the_new_one() {
    let sandbox = bundle(300);
    let before = files(&sandbox);
    spool(&sandbox.path("b/collector/node-1.s2t"), 400);
    sandbox.launch(&["report", "b"]).assert().success();
    let after = files(&sandbox);
    for limit_kib in [1, 4, 16, 64, 256] {
        spool(&sandbox.path("b/collector/node-1.s2t"), 300);
        sandbox.launch(&["report", "b"]).assert().success();
        spool(&sandbox.path("b/collector/node-1.s2t"), 400);
        let output = report_with_limit(&sandbox, limit_kib);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), None, "{limit_kib}: {told}");
        let now = files(&sandbox);
        assert_eq!(now.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{told}");
        for name in REPORTS {
            let whole = now[name] == before[name] || now[name] == after[name];
            assert!(whole, "{limit_kib}: {name} is neither the old nor the new one");
        }
        if before["metrics.json"].len() as u64 > limit_kib * 1024 {
            assert_eq!(output.status.code(), Some(70), "{limit_kib}: {told}");
            assert!(told.contains("cannot be written; the limit on the size of a file"), "{told}");
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
    const ODD: &str = "not an ordinary file";
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
        sandbox.launch(&["report", "b"]).assert().success();
        common::read(&sandbox.path("b/run.json")).matches(ODD).count()
    };
    pipe("b/env.json");
    pipe("b/config.yaml");
    pipe("b/stage1/metrics.json");
    pipe("b/ncu/raw.csv");
    assert_eq!(told(), 4, "{}", common::read(&sandbox.path("b/run.json")));
    endless("b/env.json");
    endless("b/config.yaml");
    endless("b/ncu/raw.csv");
    assert_eq!(told(), 4);
    let refused = |words: &[&str]| {
        let output = sandbox.launch(words).assert().code(2).get_output().stderr.clone();
        let text = String::from_utf8_lossy(&output).into_owned();
        assert!(text.contains(ODD), "{words:?}: {text}");
    };
    refused(&["report", "b", "report.top_n=3"]);
    pipe("presets/config.yaml");
    refused(&["config", "--config-dir", "presets"]);
    fs::remove_file(sandbox.path("b/config.yaml")).expect("link");
    pipe("pipe/metrics.json");
    pipe("pipe/config.json");
    let folder = sandbox.path("pipe");
    let stage1 = format!("stage1.run_dir={}", folder.display());
    let model = format!("model.llm.config_json={}", folder.join("config.json").display());
    sandbox.launch(&["report", "b", &stage1, &model]).assert().success();
    let found = common::read(&sandbox.path("b/run.json"));
    assert!(found.matches(ODD).count() >= 5, "{found}");
    pipe("b/run.json");
    refused(&["report", "b"]);
    endless("b/run.json");
    refused(&["report", "b"]);
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
        let assert = sandbox.launch(&["report", "b", word]).assert().code(2);
        let told = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(told.contains(part), "{word}: {told}");
    }
    assert!(files(&sandbox) == before);
    fs::write(sandbox.path("b/config.yaml"), "a: [1").expect("file");
    let assert = sandbox.launch(&["report", "b", "hardware=h200"]).assert().code(2);
    let told = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(told.contains("config.yaml: no valid YAML"), "{told}");
    fs::remove_file(sandbox.path("b/config.yaml")).expect("file");
    sandbox.launch(&["report", "b", "hardware=h200"]).assert().success();
    assert!(common::read(&sandbox.path("b/config.yaml")).contains("name: \"H200 SXM\""));
}

#[test]
fn a_spool_of_a_newer_version_is_refused_by_name_and_the_others_are_read() {
    let sandbox = bundle(3);
    let mut newer = fs::read(sandbox.path("node-1.s2t")).expect("spool");
    newer[8..12].copy_from_slice(&9u32.to_le_bytes());
    let sum = crc32(&newer[..16]);
    newer[16..20].copy_from_slice(&sum.to_le_bytes());
    fs::write(sandbox.path("b/collector/node-2.s2t"), newer).expect("spool");
    let assert = sandbox.launch(&["report", "b"]).assert().success();
    let told = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(told.contains("node-2.s2t") && told.contains("version 9"), "{told}");
    let csv = common::read(&sandbox.path("b/kernels.csv"));
    assert_eq!(csv.lines().count(), 4, "{csv}");
}

#[test]
fn a_spool_that_was_cut_gives_what_is_whole_and_says_so() {
    let sandbox = bundle(6_000);
    let path = sandbox.path("b/collector/node-1.s2t");
    let length = fs::metadata(&path).expect("spool").len();
    File::options().write(true).open(&path).expect("spool").set_len(length / 2).expect("cut");
    let assert = sandbox.launch(&["report", "b"]).assert().success();
    let told = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(told.contains("node-1.s2t"), "{told}");
    let rows = common::read(&sandbox.path("b/kernels.csv")).lines().count();
    assert!((1_000..6_000).contains(&rows), "{rows}");
}

/// The checksum of zlib and PNG.
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
        spool_of(rank, &sandbox.path(&format!("in/node-{rank}.s2t")), 300);
    }
    sandbox.launch(&["merge", "--spool", "in", "-o", "b"]).assert().success();
    let before = files(&sandbox);
    let refused = |part: &str| {
        let output = sandbox.launch(&["report", "b", "report.top_n=5"]).assert().code(70);
        let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        assert!(said.contains(part), "{part:?} in {said}");
        assert!(said.contains("they stay as they are: put the files back"), "{said}");
        assert_eq!(files(&sandbox), before, "nothing is written");
        said
    };
    let trace = |rank: u32| sandbox.path(&format!("b/collector/node-{rank}.s2t"));

    fs::remove_file(trace(2)).expect("trace");
    let said = refused("node-2.s2t is gone from b/collector");
    assert!(
        said.contains("`stage2-launch merge --spool b/collector -o DIR` reports what"),
        "{said}"
    );
    fs::remove_file(trace(1)).expect("trace");
    refused("node-1.s2t and 1 more are gone");
    fs::remove_dir_all(sandbox.path("b/collector")).expect("folder");
    let said = refused("node-1.s2t and 2 more are gone");
    assert!(!said.contains("merge"), "nothing is left: {said}");

    // Put back, and one of them compressed since.
    fs::create_dir(sandbox.path("b/collector")).expect("folder");
    (1..=3).for_each(|rank| spool_of(rank, &trace(rank), 300));
    assert!(Command::new("gzip").arg(trace(3)).status().expect("gzip").success());
    sandbox.launch(&["report", "b", "report.top_n=5"]).assert().success();
}
