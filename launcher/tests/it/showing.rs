//! What a command shows at its end besides its lines: a page in a browser, a report as JSON.

use crate::common::{self, Sandbox};
use predicates::prelude::*;
use predicates::str::contains;

/// A run, with stand-ins for whatever opens a page.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let opens = "#!/bin/sh\necho \"$@\" > opened.part && mv opened.part opened\n";
    sandbox.executable("bin/xdg-open", opens);
    sandbox
}

fn launch(
    sandbox: &Sandbox,
    words: &[&str],
    screen: &[(&str, &str)],
) -> assert_cmd::assert::Assert {
    let mut command = sandbox.launch(words);
    for name in
        ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"]
    {
        command.env_remove(name);
    }
    let path = format!("{}:/usr/bin:/bin", sandbox.path("bin").display());
    command.env("PATH", path).envs(screen.iter().copied()).assert().success()
}

#[test]
fn the_report_is_opened_where_somebody_sees_it() {
    let sandbox = sandbox();
    let page = |sandbox: &Sandbox| {
        let page = sandbox.latest("report.html").canonicalize().expect("page");
        page.to_string_lossy().into_owned()
    };
    let run = ["--light", "--open", "--", "true"];
    let told = launch(&sandbox, &run, &[]);
    told.stderr(contains("there is no display").and(contains(page(&sandbox))));
    let over_ssh = [("DISPLAY", ":10"), ("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")];
    let told = launch(&sandbox, &run, &over_ssh);
    told.stderr(contains("scp ").and(contains(page(&sandbox))));
    launch(&sandbox, &["--light", "--dry-run", "--open", "--", "true"], &[("DISPLAY", ":0")]);
    assert!(!sandbox.path("opened").exists());
    launch(&sandbox, &run, &[("DISPLAY", ":0")]).stderr(contains("opening /"));
    sandbox.wait_for("opened");
    assert_eq!(common::read(&sandbox.path("opened")).trim(), page(&sandbox));
    std::fs::remove_file(sandbox.path("opened")).expect("file");
    launch(&sandbox, &["report", "tmp/stage2/latest", "--open"], &[("WAYLAND_DISPLAY", "w")]);
    sandbox.wait_for("opened");
}

#[test]
fn a_report_as_json_is_all_there_is_on_stdout() {
    let sandbox = sandbox();
    launch(&sandbox, &["--light", "--", "true"], &[]);
    for words in [
        &["report", "--json", "tmp/stage2/latest"][..],
        &["report.top_n=7", "report", "-v", "tmp/stage2/latest", "--json", "hardware=h200"],
    ] {
        let told = launch(&sandbox, words, &[]).stderr(contains("report: "));
        let printed = told.get_output().stdout.clone();
        assert_eq!(String::from_utf8_lossy(&printed), sandbox.read("metrics.json"), "{words:?}");
        let json: serde_json::Value = serde_json::from_slice(&printed).expect("one JSON document");
        assert_eq!(json["schema"], "stage2.report");
    }
    assert!(sandbox.read("config.yaml").contains("top_n: 7"), "both settings counted");
    // The place of the report is all that is left.
    let quiet = launch(&sandbox, &["-q", "report", "tmp/stage2/latest"], &[]);
    quiet.stdout("tmp/stage2/latest/report.html\n");
    // A reader that has seen enough is no error.
    let mut command = sandbox.std_launch(&["report", "--json", "-q", "tmp/stage2/latest"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("stage2-launch");
    drop(child.stdout.take());
    assert!(child.wait().expect("end").success());
}
