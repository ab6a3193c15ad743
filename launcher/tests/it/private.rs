//! What a run leaves is its user's alone, and holds no secret that can be told from other text.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{FAKE_NSYS, Sandbox, change_export, expect_parts, lossy, send, text, unpack};
use nix::sys::signal::Signal;
use predicates::prelude::*;
use predicates::str::contains;
use stage2_launch::tools::nsys::scrub::scrub;
use stage2_read::nsys::Tables;

const SECRET: &str = "hunter2Xy9";

/// Everything below a folder that is no link, the folder among it.
fn below(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path).expect("folder").map(|e| e.expect("entry").path());
        found.extend(entries.filter(|path| !path.is_symlink()).flat_map(|path| below(&path)));
    }
    found
}

/// Fails unless folders and files below have these modes; how many they are.
fn expect_modes(path: &Path, folder: u32, file: u32) -> usize {
    let all = below(path);
    for path in &all {
        let found = path.metadata().expect("there");
        let expected = if found.is_dir() { folder } else { file };
        let mode = found.permissions().mode() & 0o7777;
        assert_eq!(mode, expected, "{}: {mode:o}", path.display());
    }
    all.len()
}

/// A real export of nsys with a secret in its environment.
fn export(sandbox: &Sandbox) -> PathBuf {
    let path = sandbox.path("decode.sqlite");
    unpack("nsys/decode.sqlite.xz", &path);
    let add = "INSERT INTO TARGET_INFO_SYSTEM_ENV (devStateName, name, nameEnum, value)
        VALUES ('System', 'DeviceEnvironment', 1, 'TOKEN=hunter2Xy9');";
    change_export(&path, add);
    path
}

fn with_nsys(settings: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    let nsys = sandbox.executable("tools/nsys", FAKE_NSYS);
    let nsys = format!("pipeline.nsys.executable={}", nsys.display());
    let script =
        "umask 0; mkdir -p made; echo x > \"$STAGE2_OUT/../of-workload\" 2>/dev/null; exit 0";
    let words = [&["run.tee=true", "pipeline.ncu.enable=false", &nsys], settings].concat();
    let words = [&words[..], &["--", "sh", "-c", script]].concat();
    sandbox.launch(&words).env("FAKE_SQLITE", export(&sandbox)).assert().success();
    sandbox
}

/// Hazard (Security): Another user reads a bundle, also what nsys, ncu and the workload wrote into
///  it.
/// Promise: Files 0600 and folders 0700 after each pass.
#[test]
fn a_bundle_is_its_owners_whatever_the_umask_and_what_tools_write() {
    let sandbox = with_nsys(&[]);
    let run = sandbox.path("tmp/stage2/latest").canonicalize().expect("bundle");
    assert!(expect_modes(&run, 0o700, 0o600) > 15, "the pages, the logs and the export");
    assert_eq!(expect_modes(&sandbox.path("tmp"), 0o700, 0o600), below(&sandbox.path("tmp")).len());
    let made = sandbox.path("made").metadata().expect("the workload's own").permissions();
    assert_eq!(made.mode() & 0o777, 0o777, "the workload's umask is its own");
    sandbox.launch(&["report", "tmp/stage2/latest"]).assert().success();
    expect_modes(&run, 0o700, 0o600);
}

/// Hazard (Security): A bundle has to be shared.
/// Promise: `--group` gives a group what it names; an unknown group is wrong usage.
#[test]
fn a_group_may_read_what_it_was_given_and_nothing_is_given_to_an_unknown_one() {
    let group = nix::unistd::getegid().to_string();
    let sandbox = with_nsys(&["--group", &group]);
    let bundle = sandbox.path("tmp/stage2/latest").canonicalize().expect("bundle");
    expect_modes(&bundle, 0o750, 0o640);
    for above in ["tmp", "tmp/stage2"] {
        let mode = sandbox.path(above).metadata().expect("folder").permissions().mode();
        assert_eq!(mode & 0o7777, 0o750, "the group can come in: {above}");
    }
    sandbox.launch(&["report", "tmp/stage2/latest"]).assert().success();
    expect_modes(&bundle, 0o750, 0o640);
    let sandbox = Sandbox::new();
    let refused = sandbox.launch(&["--group", "no-such-group", "--", "true"]).assert().code(2);
    refused.stderr(contains("run.group=no-such-group").and(contains("getent group")));
    assert!(!sandbox.path("tmp").exists(), "nothing was made");
}

/// Hazard (Security): Secrets in files of the bundle, on the console and on pages of older
///  bundles.
/// Promise: None is written that can be distinguished from other text.
#[test]
fn no_secret_among_arguments_settings_and_variables_is_written_or_said() {
    let sandbox = Sandbox::new();
    sandbox.write("list.yaml", "inputs: [a]\napi_key: hunter2Xy9\n");
    let script = "exit 0 # --password hunter2Xy9";
    let words = [
        "-v",
        "inputs.manifest=list.yaml",
        "workload.append=['db.password=hunter2Xy9']",
        "run.mode=light",
        "--",
        "env",
        "HF_TOKEN=hunter2Xy9",
        "sh",
        "-c",
        script,
        "--api-key",
        SECRET,
        "db.secret=hunter2Xy9 and more",
        "https://me:hunter2Xy9@host/x",
        "--max-new-tokens=128",
    ];
    let dry = [&["--dry-run"], &words[..]].concat();
    for words in [&dry[..], &words] {
        let assert = sandbox.launch(words).assert().success();
        let said = text(assert.get_output());
        assert!(!said.contains(SECRET) && said.contains("[redacted]"), "{said}");
    }
    let run = sandbox.path("tmp/stage2/latest").canonicalize().expect("bundle");
    let held = || {
        let files = below(&run).into_iter().filter(|path| path.is_file());
        let has = |path: &PathBuf| lossy(&std::fs::read(path).expect("file")).contains(SECRET);
        files.filter(has).collect::<Vec<_>>()
    };
    assert!(held().is_empty(), "{:?}", held());
    assert!(sandbox.read("run.json").contains("[redacted]"));
    assert!(sandbox.read("run.json").contains("--max-new-tokens=128"), "what is none stays");
    let summary = sandbox.read("stakeholder_summary.md");
    expect_parts(&summary, "summary", &["!max-new-tokens", "\n\n`env …` · "]);
    // Bundles of older versions hold them in run.json: new pages do not.
    let json = sandbox.read("run.json").replace("[redacted]", &format!("--token={SECRET}"));
    std::fs::write(run.join("run.json"), json).expect("run.json");
    let settings: [&[&str]; 2] = [&[], &["report.top_n=9"]];
    for settings in settings {
        let words = [&["report", "tmp/stage2/latest"], settings].concat();
        let assert = sandbox.launch(&words).assert().success();
        assert!(!text(assert.get_output()).contains(SECRET));
        assert!(held().is_empty(), "{settings:?}: {:?}", held());
    }
}

#[test]
fn redaction_has_patterns_of_the_user_and_can_be_switched_off() {
    let sandbox = Sandbox::new();
    let run = |setting: &str| {
        let words = [setting, "run.mode=light", "--", "true", "--acme-pin=1234", "--password=x1"];
        sandbox.launch(&words).assert().success();
        sandbox.run_json()["command"].to_string()
    };
    assert_eq!(run("run.tee=false"), r#"["true","--acme-pin=1234","--password=[redacted]"]"#);
    let own = run("redact.patterns=[acme_pin]");
    assert_eq!(own, r#"["true","--acme-pin=[redacted]","--password=[redacted]"]"#);
    let passes = &sandbox.run_json()["passes"];
    assert_eq!(passes[0]["environment"]["STAGE2_REDACT"], "acmepin", "the collector knows it, too");
    assert_eq!(run("redact.secrets=false"), r#"["true","--acme-pin=1234","--password=x1"]"#);
    let refused = sandbox.launch(&["redact.patterns=['a b']", "--", "true"]).assert().code(2);
    refused.stderr(contains("a b").and(contains("not a pattern of a secret")));
}

/// Hazard (Security): Captures of nsys hold the environment.
/// Promise: The export is scrubbed; the report is marked, and left out on request.
#[test]
fn what_nsys_knows_of_the_machine_is_in_its_report_only_and_that_can_be_left_out() {
    let holds = |sandbox: &Sandbox, name: &str| {
        let bytes = std::fs::read(sandbox.latest("nsys").join(name));
        bytes.ok().map(|bytes| bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()))
    };
    let (kept, sandbox) = std::thread::scope(|scope| {
        let kept = scope.spawn(|| with_nsys(&[]));
        let sandbox = with_nsys(&["pipeline.nsys.export.keep_raw=false"]);
        (kept.join().expect("a run"), sandbox)
    });
    assert_eq!(holds(&kept, "run.sqlite"), Some(false), "scrubbed");
    assert!(holds(&kept, "run.nsys-rep").is_some() && holds(&kept, "SENSITIVE.txt").is_some());
    assert!(kept.read("report.md").contains("the report in nsys/ holds the environment"));
    expect_modes(&kept.path("tmp/stage2/latest/nsys"), 0o700, 0o600);
    assert_eq!(holds(&sandbox, "run.sqlite"), Some(false), "scrubbed");
    assert_eq!(holds(&sandbox, "run.nsys-rep"), None, "left out");
    assert_eq!(holds(&sandbox, "SENSITIVE.txt"), None);
    assert!(sandbox.read("report.md").contains("run.nsys-rep was left out"));
    let export = export(&sandbox).display().to_string();
    sandbox.launch(&["merge", "--nsys", &export, "-o", "merged"]).assert().success();
    let merged = std::fs::read(sandbox.path("merged/nsys/decode.sqlite")).expect("a copy");
    assert!(!lossy(&merged).contains(SECRET));
    expect_modes(&sandbox.path("merged"), 0o700, 0o600);
}

/// Starts a merge of an export with a secret, and ends it by `signal` while the export is copied.
fn merge_ended_by(signal: Signal) -> Sandbox {
    let sandbox = Sandbox::new();
    let export = export(&sandbox);
    // To copy it takes much longer than to see that it begins.
    let filler = "CREATE TABLE filler AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 \
                  FROM n WHERE i < 60000) SELECT randomblob(1000) AS bytes FROM n;";
    change_export(&export, filler);
    let words = ["merge", "--nsys", &export.display().to_string(), "-o", "merged"];
    let mut merge = sandbox.std_launch(&words).spawn().expect("stage2-launch");
    let copy = sandbox.path("merged/nsys/decode.sqlite");
    while !copy.exists() {
        let ended = merge.try_wait().expect("its status");
        assert_eq!(ended, None, "it ended before its copy was seen");
        std::thread::sleep(Duration::from_millis(1));
    }
    send(&merge, signal);
    let status = merge.wait().expect("its status");
    assert_eq!(status.signal(), Some(signal as i32), "{status}");
    sandbox
}

#[test]
fn a_merge_that_is_ended_leaves_no_raw_copy_unmarked() {
    let sandbox = merge_ended_by(Signal::SIGTERM);
    let left = below(&sandbox.path("merged"));
    assert!(!left.iter().any(|path| path.ends_with("nsys")), "{left:?}");
    // Nobody can clean up behind this one.
    let sandbox = merge_ended_by(Signal::SIGKILL);
    assert!(sandbox.path("merged/nsys/SENSITIVE.txt").is_file());
}

#[test]
fn links_that_lie_in_wait_for_logs_are_not_written_through() {
    let sandbox = Sandbox::new();
    let precious = sandbox.write("precious", "precious");
    // What runs in the folder plants links for what is written next.
    let script = "cd \"$STAGE2_OUT/..\" && for n in report.md kernels.csv metrics.json run.json; do \
                  ln -sf ../../../precious $n; done";
    sandbox.launch(&["run.mode=light", "--", "sh", "-c", script]).assert().success();
    let run = sandbox.path("tmp/stage2/latest").canonicalize().expect("bundle");
    assert!(!run.join("report.md").is_symlink() && !run.join("run.json").is_symlink());
    assert_eq!(std::fs::read_to_string(&precious).expect("file"), "precious");
}

#[test]
fn a_scrubbed_copy_reads_the_same() {
    let dir = tempfile::tempdir().expect("folder");
    let (from, to) = (dir.path().join("decode.sqlite"), dir.path().join("scrubbed.sqlite"));
    unpack("nsys/decode.sqlite.xz", &from);
    scrub(&from, &to).expect("copy");
    let read = |path| {
        let tables = stage2_read::nsys::sqlite::load(path, &Default::default()).expect("export");
        Tables { files: Vec::new(), ..tables }
    };
    assert_eq!(read(&to), read(&from));
}
