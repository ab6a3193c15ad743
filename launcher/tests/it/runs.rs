//! Workloads that run, end in every way, and leave a bundle.

use crate::common::simulated::run_demo;
use crate::common::{Sandbox, at_once, expect_parts, lossy, names_in, read, stderr, stdout};
use predicates::prelude::*;
use predicates::str::{contains, starts_with};
use serde_json::json;

/// Every file of the bundle, with the size that it has when the program is over.
#[test]
fn report_md_lists_the_files_of_the_bundle() {
    let sandbox = Sandbox::new();
    let script = "echo '{}' > \"$(dirname \"$STAGE2_OUT\")/stage1-of-workload.json\"";
    sandbox.launch(&["run.tee=true", "--", "sh", "-c", script]).assert().success();
    for again in [false, true] {
        if again {
            sandbox.launch(&["report", "tmp/stage2/latest"]).assert().success();
        }
        let page = sandbox.read("report.md");
        let (_, section) = page.split_once("## Files of this bundle\n").expect("the section");
        let rows: Vec<Vec<&str>> = section
            .lines()
            .filter(|line| line.starts_with("| `") || line.starts_with("| [`"))
            .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        let names: Vec<&str> = (rows.iter())
            .map(|row| {
                let (_, name) = row[0].split_once('`').expect("code");
                let (name, link) = name.split_once('`').expect("an end");
                let expected =
                    if name == "report.md" { String::new() } else { format!("]({name})") };
                assert_eq!(link, expected, "each file but the page itself is a link");
                name
            })
            .collect();
        for name in ["run.json", "env.json", "report.html", "metrics.json", "collector/stderr.log"]
        {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        assert_eq!(json!(names), sandbox.run_json()["files"], "as run.json has them");
        for (name, row) in names.iter().zip(&rows).filter(|(name, _)| **name != "report.md") {
            let size = sandbox.latest(name).metadata().expect("file").len();
            assert_eq!(row[2].replace(',', ""), size.to_string(), "{name}");
            let known = !row[1].contains("does not know");
            assert_eq!(known, *name != "stage1-of-workload.json", "{name}: {}", row[1]);
        }
    }
}

#[test]
fn output_and_exit_status_are_the_workloads() {
    let sandbox = Sandbox::new();
    let script = "cat; echo out; echo err >&2; exit 3";
    let assert = sandbox.launch(&["-q", "--", "sh", "-c", script]).write_stdin("in\n").assert();
    assert.code(3).stdout("in\nout\n").stderr(starts_with("err\n").and(contains("no GPU work")));
    let run = sandbox.run_json();
    assert_eq!(run["workload_exit"], json!({"code": 3}));
    assert_eq!(run["passes"][0]["status"], "workload_failed");
    assert_eq!(run["passes"][0]["why"], "the workload failed: exit status 3");
    assert_eq!(run["command"], json!(["sh", "-c", script]));
    assert!(run["finished"].is_string() && run["passes"][0]["duration_ms"].is_u64());
}

#[test]
fn the_bundle_says_what_it_was() {
    let sandbox = Sandbox::new();
    sandbox.write("inputs.txt", "- a.png\n- b.png\n");
    let words =
        ["+inputs.manifest=inputs.txt", "run.mode=light", "--", "true", "model=tiny", "--x=1"];
    sandbox.launch(&words).env("SECRET_TOKEN", "hunter2").assert().success().stdout("");
    let run = sandbox.run_json();
    let environment = &run["passes"][0]["environment"];
    let library = sandbox.path("libstage2.so").display().to_string();
    assert_eq!(environment["LD_PRELOAD"], json!(library));
    assert!(environment["STAGE2_OUT"].as_str().is_some_and(|out| out.ends_with("/collector")));
    assert_eq!(environment.as_object().map(|map| map.len()), Some(7));
    assert_eq!(run["tools"]["collector"]["path"], json!(library));
    for file in ["run.json", "env.json", "config.yaml", "inputs.yaml"] {
        assert!(!sandbox.read(file).contains("hunter2"), "{file} holds the environment");
        assert!(run["files"].as_array().is_some_and(|files| files.contains(&json!(file))), "{run}");
    }
    assert!(sandbox.read("config.yaml").contains("mode: light"));
    let inputs = sandbox.read("inputs.yaml");
    let parts = ["- model=tiny", "model: tiny", "b.png", "simulated: false"];
    expect_parts(&inputs, "inputs.yaml", &parts);
    let environment = sandbox.json("env.json");
    assert!(environment["host"]["cpus"].as_u64() > Some(0) && environment["python"].is_null());
    let (devices, absent) = (&environment["gpu"]["devices"], &environment["gpu"]["absent"]);
    assert!(devices.as_array().is_some_and(|gpus| !gpus.is_empty() || absent.is_string()));
}

#[test]
fn a_workload_that_a_signal_ends_gives_128_and_its_number() {
    at_once([("KILL", 9), ("TERM", 15), ("SEGV", 11)], |(signal, number)| {
        // `latest` stays with the last run that holds something.
        let sandbox = Sandbox::new();
        let script = format!("ulimit -c 0; kill -{signal} $$");
        sandbox.launch(&["--", "sh", "-c", &script]).assert().code(128 + number);
        let run = sandbox.run_json();
        assert_eq!(run["workload_exit"], json!({"signal": number}));
        let ended = format!("the workload failed: ended by SIG{signal}");
        assert_eq!(run["passes"][0]["status"], "workload_failed");
        assert_eq!(run["passes"][0]["why"], ended);
        for page in ["stakeholder_summary.md", "report.md", "report.html"] {
            let text = sandbox.read(page);
            // report.html has its contents in front.
            let text = &text[text.find("<header").unwrap_or(0)..];
            let head = &text[..text.find("Coverage").expect("coverage")];
            assert!(head.contains(&ended), "{page}: {head}");
        }
    });
}

#[test]
fn what_cannot_be_run_gives_what_a_shell_gives_and_no_bundle() {
    let sandbox = Sandbox::new();
    sandbox.launch(&["--", "true"]).assert().success();
    let bundles = || {
        let latest = std::fs::read_link(sandbox.path("tmp/stage2/latest")).expect("latest");
        (names_in(&sandbox.path("tmp/stage2")), latest)
    };
    let before = bundles();
    sandbox.executable("tools/pythagoras", "#!/bin/sh\n");
    sandbox.write("text", "echo hi\n");
    sandbox.write("script", "#!/bin/sh\n");
    sandbox.executable("lost", "#!/no/such/interpreter\n");
    sandbox.executable("cut", "\u{7f}ELF\u{2}");
    sandbox.executable("no-first-line", "echo hi\n");
    sandbox.executable("windows", "#!/bin/sh\r\ntrue\r\n");
    for (command, code, parts) in [
        ("no-such-program", 127, ["`no-such-program`: command not found", "PATH"]),
        ("./no-such-program", 127, ["command not found", "check the path"]),
        ("sh -c true", 127, ["command not found", "does not run in a shell"]),
        ("cd", 127, ["command not found", "a command of the shell: use `-- sh -c '...'`"]),
        ("pythagroas", 127, ["command not found", "did you mean `pythagoras`?"]),
        ("", 127, ["the command is empty", "give a command behind `--`"]),
        (
            "./text",
            126,
            ["its first line is not #!", "hint: give its interpreter, e.g. -- sh ./text"],
        ),
        ("./script", 126, ["cannot run `./script`", "chmod +x"]),
        (".", 126, ["cannot run `.`", "folder"]),
        ("./lost", 127, ["./lost", "interpreter"]),
        ("./cut", 126, ["damaged or missing", "build or copy it again"]),
        ("./no-first-line", 126, ["its first line is not #!", "-- sh ./no-first-line"]),
        ("./windows", 127, [r"`/bin/sh\r` is not there", "Windows line endings"]),
    ] {
        let assert = sandbox.launch_with_tools(&["-q", "--", command]).assert().code(code);
        assert
            .stderr(contains(parts[0]).and(contains(parts[1])))
            .stderr(predicate::function(|text: &str| lossy(text.as_bytes()).lines().count() == 1));
        assert_eq!(bundles(), before, "{command}: no bundle, and `latest` stays");
        let given = ["--run-dir", "given", "--", command];
        sandbox.launch(&given).assert().code(code);
        assert!(!sandbox.path("given").exists(), "{command}");
    }
}

#[test]
fn programs_are_found_without_a_path_and_by_names_that_are_no_utf8() {
    use std::os::unix::ffi::OsStringExt as _;
    let sandbox = Sandbox::new();
    let mut command = sandbox.launch(&["run.mode=light", "--", "ls"]);
    command.env_remove("PATH").assert().success();
    let name = std::ffi::OsString::from_vec(b"b\xffn".to_vec());
    let script = sandbox.executable("script", "#!/bin/sh\nexit 3\n");
    std::fs::create_dir(sandbox.path("bin")).expect("folder");
    std::fs::rename(script, sandbox.path("bin").join(&name)).expect("file");
    let mut command = sandbox.launch(&["run.mode=light", "--"]);
    command.arg(&name).env("PATH", sandbox.path("bin")).assert().code(3);
}

#[test]
fn what_only_the_kernel_refuses_leaves_a_bundle_that_says_so() {
    let sandbox = Sandbox::new();
    sandbox.executable("noshebang", "\u{1}\u{2}\n");
    let assert = sandbox.launch(&["--", "./noshebang"]).assert().code(126);
    assert.stderr(contains("./noshebang").and(contains("interpreter")));
    let run = sandbox.run_json();
    assert_eq!(run["passes"][0]["status"], "failed");
    let empty = &run["coverage"]["empty"];
    assert_eq!(empty["cause"], "not_started");
    assert!(empty.to_string().contains("give its interpreter"), "the remedy of the pass: {empty}");
    assert!(run["workload_exit"].is_null() && run["finished"].is_string());
    for file in ["env.json", "config.yaml", "inputs.yaml"] {
        assert!(!sandbox.read(file).is_empty(), "{file}");
    }
}

#[test]
fn time_runs_out() {
    let stubborn = "trap '' TERM; while :; do sleep 0.1; done";
    let cases = [
        (&["--timeout", "1"][..], "exec sleep 60", 15),
        (&["run.timeout_s=1", "run.kill_grace_s=0"], stubborn, 9),
    ];
    at_once(cases, |(options, script, signal)| {
        let sandbox = Sandbox::new();
        let words = [options, &["--light", "--", "sh", "-c", script]].concat();
        sandbox.launch(&words).assert().code(124).stderr(contains("the time limit (1 s) ended"));
        assert_eq!(sandbox.run_json()["workload_exit"], json!({"signal": signal}));
        assert_eq!(sandbox.run_json()["passes"][0]["status"], "timed_out");
    });
}

#[test]
fn a_child_that_stays_is_not_waited_for() {
    let start = std::time::Instant::now();
    at_once([false, true], |tee| {
        let sandbox = Sandbox::new();
        let script = "sleep 30 >&- 2>&- & sleep 30 & echo done";
        let option = format!("run.tee={tee}");
        let mut command = sandbox.std_launch(&["-q", &option, "--", "sh", "-c", script]);
        // Its streams are not read to their ends, which come with that of the child.
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        assert!(command.status().expect("stage2-launch").success());
        let findings = sandbox.run_json()["findings"].to_string();
        assert_eq!(findings.contains("stdout.log is incomplete"), tee, "{findings}");
    });
    assert!(start.elapsed() < std::time::Duration::from_secs(15), "{:?}", start.elapsed());
}

#[test]
fn output_is_kept_on_request() {
    let sandbox = Sandbox::new();
    let script = "printf 'a\\377b'; echo err >&2";
    let assert =
        sandbox.launch(&["-q", "run.tee=true", "--", "sh", "-c", script]).assert().success();
    assert.stdout(&b"a\xffb"[..]).stderr(starts_with("err\n"));
    let latest = sandbox.path("tmp/stage2/latest");
    assert_eq!(std::fs::read(latest.join("collector/stdout.log")).expect("log"), b"a\xffb");
    assert_eq!(read(&latest.join("collector/stderr.log")), "err\n");
    assert_eq!(
        sandbox.run_json()["passes"][0]["log"],
        json!(["collector/stdout.log", "collector/stderr.log"])
    );
}

#[test]
fn the_library_is_loaded_behind_a_link_where_its_path_has_blanks() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("my files")).expect("folder");
    std::fs::copy(sandbox.path("libstage2.so"), sandbox.path("my files/libstage2.so"))
        .expect("copy");
    let script = "cat /proc/$$/maps; echo LD_PRELOAD=$LD_PRELOAD";
    let mut command = sandbox.launch(&["-q", "--", "sh", "-c", script]);
    command.env("STAGE2_COLLECTOR", sandbox.path("my files/libstage2.so"));
    let text = stdout(&command.assert().success());
    assert!(text.contains("my files/libstage2.so"), "not loaded: {text}");
    let link = text.lines().find_map(|line| line.strip_prefix("LD_PRELOAD=")).expect("a preload");
    assert!(!link.contains(' ') && !std::path::Path::new(link).exists(), "{link} is left over");
}

#[test]
fn variables_of_the_user_are_respected_and_told() {
    let sandbox = Sandbox::new();
    let script = "echo $STAGE2_LOG $STAGE2_GRAPH $STAGE2_SUMMARY $LD_PRELOAD";
    let mut command =
        sandbox.launch(&["-q", "profiling.collector.graph=node", "--", "sh", "-c", script]);
    let library = sandbox.path("libstage2.so").display().to_string();
    command.env("STAGE2_LOG", "debug").env("STAGE2_GRAPH", "graph").env("LD_PRELOAD", &library);
    command.assert().success().stdout(format!("debug node off {library}:{library}\n"));
    let run = sandbox.run_json();
    assert_eq!(run["passes"][0]["environment_kept"], json!({"STAGE2_LOG": "debug"}));
    assert!(
        run["findings"].to_string().contains("STAGE2_GRAPH=graph of the environment was replaced")
    );
}

#[test]
fn python_packages_are_asked_from_the_workloads_python() {
    let sandbox = Sandbox::new();
    sandbox.write("json.py", "raise SystemExit('the working directory was imported')\n");
    sandbox.launch(&["--", "python3", "-c", "pass"]).assert().success();
    let environment = sandbox.json("env.json");
    let python = &environment["python"];
    assert!(python["version"].as_str().is_some_and(|v| v.starts_with('3')), "{python}");
    assert_eq!(sandbox.run_json()["tools"]["python"]["path"], "python3");
}

#[test]
fn reports_are_written_again() {
    let sandbox = Sandbox::new();
    sandbox.launch(&["--", "true"]).assert().success();
    let before = sandbox.run_json();
    sandbox.launch(&["report", "tmp/stage2/latest"]).assert().success().stderr(contains("latest"));
    let after = sandbox.run_json();
    assert_eq!((&after["started"], &after["passes"]), (&before["started"], &before["passes"]));
}

#[test]
fn every_command_that_reads_a_run_knows_the_latest_one_by_its_name() {
    let sandbox = Sandbox::new();
    run_demo(&sandbox, "tmp/stage2/one", &[]);
    std::os::unix::fs::symlink("one", sandbox.path("tmp/stage2/latest")).expect("a link");
    for words in [
        &["report", "latest"][..],
        &["summarise", "latest", "--out", "sums"],
        &["job", "latest"],
        &["export", "latest", "-f", "csv", "-o", "k.csv"],
        &["next", "latest"],
        &["ask", "latest", "summary"],
        &["diff", "latest", "latest"],
        &["query", "latest", "SELECT 1"],
        &["baseline", "save", "main", "latest"],
        &["top", "--once", "latest"],
    ] {
        sandbox.launch_strictly(words).assert().success();
    }
}

#[test]
fn words_that_are_no_utf8_reach_the_workload() {
    use std::os::unix::ffi::OsStringExt as _;
    let sandbox = Sandbox::new();
    let mut command = sandbox.launch(&["-q", "--", "printf", "%s"]);
    command.arg(std::ffi::OsString::from_vec(vec![b'x', 0xff]));
    command.assert().success().stdout(&b"x\xff"[..]);
    assert_eq!(sandbox.run_json()["command"][2], "x\u{fffd}");
}

/// Hazard (Hostile environments): The bundle is deleted during the run.
/// Promise: It is reported, and there is no partial result.
#[test]
fn a_workload_that_takes_the_bundle_away_leaves_no_result() {
    let sandbox = Sandbox::new();
    // The launcher notes the start in run.json meanwhile, which keeps the first rm from the folder now and
    // then.
    let script = "d=\"$(dirname \"$STAGE2_OUT\")\"; rm -rf \"$d\" 2>/dev/null || rm -rf \"$d\"";
    sandbox.launch(&["--", "sh", "-c", script]).assert().code(70).stderr(contains("is gone"));
    let failing = format!("{script}; exit 5");
    let assert = sandbox.launch(&["--", "sh", "-c", &failing]).assert().code(5);
    let said = stderr(&assert);
    assert_eq!(said.matches("error: the folder of the run is gone").count(), 1, "{said}");
    let wrong =
        ["!files stay", "!bundle:", "!stage2-launch report", "!out of date", "!cannot be created"];
    expect_parts(&said, "said", &wrong);
}
