//! `top` and `feed` with a real collector in a guest that obeys its standard input: what they show is what
//! a report says, and they outlive what they watch.

use crate::common;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::followed::{Guest, Running, get, serving};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

fn text(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

fn launch(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_stage2-launch")).args(words).output();
    let output = output.expect("stage2-launch");
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The value of the series of this metric with this label.
fn metric(metrics: &str, name: &str, label: &str) -> f64 {
    let line =
        metrics.lines().find(|line| line.starts_with(&format!("{name}{{")) && line.contains(label));
    let line = line.unwrap_or_else(|| panic!("{name} with {label} is not in\n{metrics}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn what_is_seen_live_is_what_a_report_says() {
    let mut guest = Guest::new("on", &[]);
    for turn in 1..=12 {
        guest.tell(&format!("work decode {turn}"));
        guest.tell("work prefill 5");
    }
    let folder = guest.end();
    let (traces, report) = (folder.path().join("traces"), folder.path().join("report"));
    launch(&["merge", "-q", "--allow-empty", "--spool", utf8(&traces), "-o", utf8(&report)]);
    let json = std::fs::read(report.join("metrics.json")).expect("a report");
    let json: Value = serde_json::from_slice(&json).expect("JSON");
    let metrics = launch(&["feed", "--once", utf8(&traces)]);
    let mut seen = 0;
    for stage in json["stages"].as_array().expect("stages") {
        let name = stage["stage"].as_str().expect("a name");
        if !["decode", "prefill"].contains(&name) {
            continue;
        }
        let label = format!("stage=\"{name}\"");
        let of = |key: &str| stage[key].as_f64().unwrap_or_else(|| panic!("{key} of {stage}"));
        let live = |metric_name: &str| metric(&metrics, metric_name, &label);
        assert_eq!(live("stage2_stage_step_seconds_count"), of("instances"), "{stage}");
        let close = |what: &str, live: f64, report_ns: f64| {
            // Clocks are tied at the last reading here, and between two in a report.
            assert!(
                (live * 1e9 - report_ns).abs() <= 50_000.0 + report_ns * 0.001,
                "{name} {what}: {live} {stage}"
            );
        };
        close("busy", live("stage2_stage_busy_seconds_total"), of("gpu_busy_ns"));
        close("window", live("stage2_stage_window_seconds_total"), of("gpu_window_ns"));
        close("gaps", live("stage2_stage_launch_gap_seconds_total"), of("gpu_short_gaps_ns"));
        close("open", live("stage2_stage_step_seconds_sum"), of("host_total_ns"));
        let launches: f64 = metrics
            .lines()
            .filter(|line| {
                line.starts_with("stage2_stage_class_launches_total{") && line.contains(&label)
            })
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        assert_eq!(launches, of("kernels") + of("copies") + of("fills"), "{stage}");
        seen += 1;
    }
    assert_eq!(seen, 2, "{}", json["stages"]);
    assert_eq!(metric(&metrics, "stage2_recording", ""), 0.0);
    let page = launch(&["top", "--once", utf8(&traces)]);
    for part in ["1 processes, 0 recording", "> decode", "prefill", "in ranges 100%", "ended"] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
}

/// Hazard (Watching what runs): A process dies while it is watched, and its files vanish.
/// Promise: The numbers seen so far stay, a line says what became of the file, and `top` goes on.
#[test]
fn a_process_is_watched_from_its_first_window_to_its_death() {
    let mut guest = Guest::new("off", &[]);
    let pid = guest.pid();
    let child = guest
        .launch(&["top", "--plain", &pid])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("stage2-launch");
    let mut top = Running(child);
    let (tell, lines) = std::sync::mpsc::channel();
    let stdout = BufReader::new(top.0.stdout.take().expect("piped"));
    std::thread::spawn(move || {
        stdout.lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
    });
    let until = |part: &str| {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if lines.recv_timeout(PATIENCE).is_ok_and(|line| line.contains(part)) {
                return;
            }
        }
        panic!("{part} was not shown");
    };
    until("1 dormant");
    let started = guest.launch(&["ctl", &pid, "start", "--wait"]).output().expect("stage2-launch");
    assert!(started.status.success(), "{}", text(&started));
    guest.tell("work decode 20");
    until("> decode");
    let trace = guest.traces();
    guest.child.0.kill().expect("killed");
    let _ = guest.child.0.wait();
    // What was seen stays, and what becomes of the file is told.
    until("growing");
    std::fs::remove_dir_all(&trace).expect("a folder");
    until("was taken away before it ended");
    let id = i32::try_from(top.0.id()).expect("a process");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGTERM)
        .expect("told");
    assert_eq!(top.0.wait().expect("ends").code(), Some(0));
}

#[test]
fn wrong_targets_and_open_addresses_are_refused() {
    for (words, code, part) in [
        (&["top"][..], 2, "TARGET"),
        (&["top", "/nowhere/at/all"], 70, "no process, folder or file"),
        (&["feed", "4000000000"], 70, "no process 4000000000"),
        (&["feed", "--listen", "0.0.0.0:0", "/tmp"], 2, "other hosts"),
        (&["feed", "--readable-by", "all", "/tmp"], 2, "--textfile"),
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_stage2-launch")).args(words).output().expect("runs");
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", text(&output));
        assert!(text(&output).contains(part), "{words:?}: {}", text(&output));
    }
}

#[test]
fn the_text_file_is_there_while_feed_is() {
    let mut guest = Guest::new("on", &[]);
    guest.tell("work decode 20");
    let folder = guest.end();
    let file = folder.path().join("stage2.prom");
    let child = Command::new(env!("CARGO_BIN_EXE_stage2-launch"))
        .args([
            "feed",
            "--interval",
            "1",
            "--textfile",
            utf8(&file),
            utf8(&folder.path().join("traces")),
        ])
        .spawn()
        .expect("stage2-launch");
    let mut feed = Running(child);
    let began = Instant::now();
    let holds = |part: &str| std::fs::read_to_string(&file).is_ok_and(|text| text.contains(part));
    while !holds("stage=\"decode\"") {
        assert!(began.elapsed() < PATIENCE, "no text file");
        std::thread::sleep(Duration::from_millis(50));
    }
    let id = i32::try_from(feed.0.id()).expect("a process");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGTERM)
        .expect("told");
    assert_eq!(feed.0.wait().expect("ends").code(), Some(0));
    assert!(!file.exists(), "nobody brings it up to date");
}

/// Programs of Prometheus; says where there are none.
fn prometheus() -> Option<PathBuf> {
    let named = std::env::var_os("STAGE2_TEST_PROMETHEUS").map(PathBuf::from);
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let found = named.into_iter().chain(std::env::split_paths(&on_path));
    let found = found
        .into_iter()
        .find(|folder| folder.join("prometheus").is_file() && folder.join("promtool").is_file());
    if found.is_none() {
        let missing = "prometheus and promtool are not here (apt-get install prometheus)";
        assert!(std::env::var_os("STAGE2_REQUIRE_PROMETHEUS").is_none(), "{missing}");
        common::skipped(missing);
    }
    found
}

#[test]
fn prometheus_scrapes_what_feed_serves() {
    let Some(programs) = prometheus() else { return };
    let mut guest = Guest::new("on", &[]);
    for _ in 0..3 {
        guest.tell("work decode 20");
    }
    let folder = guest.end();
    let (_feed, address) = serving(&[utf8(&folder.path().join("traces"))]);
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .expect("a port");
    let config = folder.path().join("prometheus.yml");
    let scrape = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: stage2\n    static_configs: [{{targets: ['{address}']}}]\n"
    );
    std::fs::write(&config, scrape).expect("a file");
    let checked = Command::new(programs.join("promtool"))
        .args(["check", "config", utf8(&config)])
        .output()
        .expect("promtool");
    assert!(checked.status.success(), "{}", text(&checked));
    let log = std::fs::File::create(folder.path().join("log")).expect("a file");
    let child = Command::new(programs.join("prometheus"))
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address={port}"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("prometheus");
    let _prometheus = Running(child);
    let ask = |query: &str| get(&port.to_string(), &format!("/api/v1/query?query={query}"));
    let began = Instant::now();
    let mut answer = String::new();
    while began.elapsed() < PATIENCE && !answer.contains("\"value\"") {
        std::thread::sleep(Duration::from_millis(200));
        answer = ask("stage2_stage_step_seconds_count");
    }
    let log = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    let targets = || get(&port.to_string(), "/api/v1/targets");
    assert!(
        answer.contains("\"stage\":\"decode\"") && answer.contains("\"3\"]"),
        "{answer}\n{}\n{}",
        targets(),
        log()
    );
    assert!(ask("up").contains(",\"1\"]"), "{}", targets());
    let median = ask("histogram_quantile(0.5,stage2_stage_step_seconds_bucket)");
    assert!(median.contains("\"value\""), "{median}");
    // Prometheus knows the types, so the text was read as OpenMetrics.
    let types = get(&port.to_string(), "/api/v1/metadata?metric=stage2_stage_busy_seconds");
    assert!(
        types.contains("\"type\":\"counter\"") && types.contains("\"unit\":\"seconds\""),
        "{types}"
    );
}
