//! Run folders: which are taken, which are refused, and the link to the latest.

use std::os::unix::fs::symlink;

use crate::common::{self, Sandbox, end, four_at_once, names_in, spawn};
use predicates::str::contains;

#[test]
fn a_new_or_empty_folder_is_taken() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("empty")).expect("folder");
    std::fs::create_dir(sandbox.path("real")).expect("folder");
    symlink("real", sandbox.path("link")).expect("link");
    let cases = [
        (["--run-dir", "a/b/c"], "a/b/c"),
        (["--run-dir", "empty"], "empty"),
        (["--run-dir", "link"], "real"),
        (["-q", "run.dir=by-key"], "by-key"),
        (["-q", "hydra.run.dir=by-synonym"], "by-synonym"),
        (["--run-dir", "with blanks: and $signs"], "with blanks: and $signs"),
    ];
    four_at_once(cases, |(option, folder)| {
        let words = [&option[..], &["--", "sh", "-c", "test -d \"$STAGE2_OUT\""]].concat();
        sandbox.launch(&words).assert().success();
        assert!(sandbox.path(folder).join("run.json").is_file(), "{folder}");
    });
    // Hydra's key has a link, and no other folder is made.
    assert_eq!(names_in(&sandbox.path("tmp/stage2")), [".gitignore", "latest"]);
}

#[test]
fn hydras_run_folder_has_the_link_to_the_latest() {
    let sandbox = Sandbox::new();
    let latest = sandbox.path("tmp/stage2/latest");
    let run = |setting: &str| {
        sandbox.launch(&["-q", "--light", setting, "--", "true"]).assert().success();
    };
    for (setting, folder) in [
        ("hydra.run.dir=out/one", "out/one"),
        ("hydra.run.dir=${hydra:runtime.cwd}/two", "two"),
        ("+hydra.run.dir=tmp/stage2/mine", "tmp/stage2/mine"),
    ] {
        run(setting);
        let here = |path: &std::path::Path| path.canonicalize().expect("there");
        assert_eq!(here(&latest), here(&sandbox.path(folder)), "{setting}");
        assert!(std::fs::read_link(&latest).expect("link").is_relative(), "{setting}");
    }
    // Other folders that are named leave it where it is.
    let before = std::fs::read_link(&latest).expect("link");
    run("run.dir=three");
    assert_eq!(std::fs::read_link(&latest).expect("link"), before);
    sandbox.launch(&["report", "tmp/stage2/latest"]).assert().success();
    // A run of its own takes it back.
    run("report.top_n=5");
    assert_ne!(std::fs::read_link(&latest).expect("link"), before);
    // Where nothing can be linked, the run goes on.
    sandbox.write("file", "");
    let words = ["hydra.run.dir=four", "artifacts.stage2_dir=file/x", "--", "sh", "-c", "exit 0"];
    sandbox.launch(&words).assert().success().stderr(contains("does not point to this run"));
}

#[test]
fn the_users_repository_ignores_the_folder_of_all_runs() {
    let sandbox = Sandbox::new();
    let git = |words: &[&str]| {
        let mut git = std::process::Command::new("git");
        let output = git.args(words).current_dir(sandbox.path("")).output().expect("git");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    git(&["init", "-q"]);
    let before = git(&["status", "--porcelain"]);
    let run = |words: &[&str]| {
        sandbox.launch(&[words, &["-q", "--light", "--", "true"]].concat()).assert().success();
    };
    run(&[]);
    assert_eq!(git(&["status", "--porcelain"]), before);
    // Who wants bundles in the repository empties or deletes the file, or makes the folder.
    sandbox.write("tmp/stage2/.gitignore", "");
    run(&[]);
    assert_eq!(common::read(&sandbox.path("tmp/stage2/.gitignore")), "");
    std::fs::remove_file(sandbox.path("tmp/stage2/.gitignore")).expect("file");
    std::fs::create_dir(sandbox.path("runs")).expect("folder");
    run(&[]);
    run(&["artifacts.stage2_dir=runs"]);
    for folder in ["tmp/stage2", "runs"] {
        assert!(!sandbox.path(folder).join(".gitignore").exists(), "{folder}");
    }
}

#[test]
fn other_folders_are_refused_before_anything_runs() {
    let sandbox = Sandbox::new();
    sandbox.write("full/old.txt", "x");
    sandbox.write("file", "x");
    symlink("nowhere", sandbox.path("dangling")).expect("link");
    symlink("file", sandbox.path("link-to-file")).expect("link");
    symlink("loop", sandbox.path("loop")).expect("link");
    let cases = [
        ("full", "not empty"),
        ("file", "not a folder"),
        ("link-to-file", "not a folder"),
        ("dangling", "link to something that is not there"),
        ("loop", "link to something that is not there"),
        ("file/below", "is not a folder"),
        ("/proc/stage2", "cannot be"),
    ];
    four_at_once(cases, |(folder, part)| {
        let words = ["--run-dir", folder, "--", "sh", "-c", "touch ran"];
        let assert = sandbox.launch(&words).assert().code(2);
        assert.stderr(contains(part)).stderr(contains("run folder"));
    });
    assert!(!sandbox.path("ran").exists(), "the workload has run");
    assert_eq!(names_in(&sandbox.path("full")), ["old.txt"]);
}

/// Hazard (Hostile environments): Two launchers take one folder.
/// Promise: It is one run's.
///
/// Each looks whether the folder is empty, and it is.
#[test]
fn a_folder_that_several_take_at_once_is_one_runs() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "Total Time (ns),Instances,Name\n10,1,k\n");
    let run = ["-q", "--run-dir", "same", "--", "sh", "-c", "echo . >> ran; sleep 0.5"];
    let bench = ["bench", "--rounds", "1", "--run-dir", "same", "--", "true"];
    let merge = ["merge", "--nsys", "a.csv", "-o", "same"];
    for round in 0..5 {
        let _ = std::fs::remove_dir_all(sandbox.path("same"));
        let _ = std::fs::remove_file(sandbox.path("ran"));
        let kinds = match round {
            0 => [&merge[..], &merge, &merge],
            1 => [&merge[..], &run, &bench],
            _ => [&run[..], &run, &run],
        };
        let start = |words: &[&str]| spawn(&mut sandbox.std_launch(words));
        let children: Vec<_> = kinds.into_iter().map(start).collect();
        let refused = children.into_iter().map(end).filter(|(code, _)| *code == Some(2));
        let refused = refused
            .inspect(|(_, told)| assert!(told.contains("it is not empty"), "{told}"))
            .count();
        // Those that begin with other folders may get into each other's way.
        assert!(refused == 2 || (round == 1 && refused == 3), "{round}: {refused}");
        if round > 1 {
            assert_eq!(common::read(&sandbox.path("ran")), ".\n");
        }
    }
}

#[test]
fn a_default_place_that_cannot_be_made_is_told() {
    let sandbox = Sandbox::new();
    sandbox.write("tmp", "a file");
    sandbox.launch(&["--", "true"]).assert().code(2).stderr(contains("--run-dir"));
    let elsewhere = ["artifacts.stage2_dir=runs", "--", "true"];
    sandbox.launch(&elsewhere).assert().success();
    assert!(sandbox.path("runs/latest/run.json").is_file());
}

#[test]
fn latest_points_to_the_newest_run() {
    let sandbox = Sandbox::new();
    let latest = sandbox.path("tmp/stage2/latest");
    let mut targets = Vec::new();
    for _ in 0..2 {
        sandbox.launch(&["--light", "--", "true"]).assert().success();
        targets.push(std::fs::read_link(&latest).expect("a link"));
    }
    assert_ne!(targets[0], targets[1]);
    let name = targets[1].to_str().expect("a name");
    let parts: Vec<_> = name.split('-').map(str::len).collect();
    let digits = name.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    assert!(parts[..2] == [8, 6] && digits, "{name}");
    let entries = names_in(&sandbox.path("tmp/stage2"));
    assert_eq!(entries.len(), 5, "two runs, the link and the lock: {entries:?}");
    // Dormant runs without a window have nothing to show.
    sandbox.launch_strictly(&["run", "--dormant", "--", "true"]).assert().success();
    assert_eq!(std::fs::read_link(&latest).expect("a link"), targets[1]);
}

#[test]
fn latest_is_never_taken_from_anybody() {
    let sandbox = Sandbox::new();
    let latest = sandbox.path("tmp/stage2/latest");
    let run = || {
        let assert = sandbox.launch(&["--light", "--", "true"]).assert().success();
        assert.stderr(contains("latest does not point"));
        assert!(!latest.is_symlink());
    };
    sandbox.write("tmp/stage2/latest", "mine");
    run();
    std::fs::remove_file(&latest).expect("file");
    sandbox.write("tmp/stage2/latest/mine", "mine");
    run();
    assert_eq!(common::read(&sandbox.latest("mine")), "mine");
}
