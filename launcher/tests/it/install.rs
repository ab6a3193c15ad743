//! An installed launcher: completions, manual pages, and a collector that is where pip puts it or nowhere.

use std::fs;

use crate::common::simulated::built;
use crate::common::{self, Sandbox};
use predicates::prelude::*;
use predicates::str::contains;

#[test]
fn completions_are_written_for_each_shell() {
    let sandbox = Sandbox::new();
    for (shell, part) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef stage2-launch"),
        ("fish", "complete -c stage2-launch"),
    ] {
        let assert = sandbox.launch_strictly(&["completions", shell]).assert().success();
        assert.stdout(contains(part).and(contains("dry-run")).and(contains("export")));
    }
    let assert = sandbox.launch_strictly(&["completions", "csh2"]).assert().code(2);
    assert.stderr(contains("[possible values"));
}

#[test]
fn manual_pages_are_written_into_a_folder() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("man")).expect("folder");
    sandbox.launch_strictly(&["man", "man"]).assert().success();
    assert!(common::read(&sandbox.path("man/stage2-launch.1")).contains("KEY=VALUE"));
    assert!(common::read(&sandbox.path("man/stage2-launch-export.1")).contains("perfetto"));
    sandbox.launch_strictly(&["man", "none"]).assert().code(70).stderr(contains("none"));
}

#[test]
fn the_collector_is_found_in_a_package_of_python_or_every_place_is_named() {
    let sandbox = Sandbox::new();
    let launcher = sandbox.install_launcher("prefix/bin/stage2-launch");
    let package = sandbox.path("prefix/lib/python3.9/site-packages/stage2");
    fs::create_dir_all(&package).expect("folder");
    let launch = |words: &[&str]| {
        let mut command = assert_cmd::Command::new(&launcher);
        command.env_remove("STAGE2_COLLECTOR").current_dir(sandbox.path(""));
        command.args(words).assert()
    };
    let run = ["run.mode=light", "--allow-empty", "--", "true"];
    launch(&run).code(70).stderr(
        contains(sandbox.path("prefix/bin/libstage2.so").display().to_string())
            .and(contains("prefix/lib/libstage2.so"))
            .and(contains("prefix/lib/python3.*/site-packages/stage2/libstage2.so"))
            .and(contains("pip install"))
            .and(contains("cargo build --release"))
            .and(contains("STAGE2_COLLECTOR")),
    );
    let place = sandbox.path("prefix/bin/libstage2.so");
    launch(&["--dry-run", "--", "true"])
        .success()
        .stdout(contains(format!("LD_PRELOAD={}", place.display())))
        .stderr(
            contains("a run would fail: the collector libstage2.so was not found at /")
                .and(contains("\\n").not()),
        );
    launch(&["doctor"]).stdout(contains("was not found at /").and(contains("\\n").not()));
    launch(&["demo"]).code(70).stderr(contains("stage2-demo").and(contains("cargo build")));
    launch(&["demo", "--dry-run"]).success().stdout(contains("--device"));
    fs::copy(built("libstage2.so"), package.join("libstage2.so")).expect("the collector");
    launch(&run).success();
}
