//! `top` and `feed` with a real collector in a guest that obeys its standard input: what they show is what
//! a report says, and they outlive what they watch.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::guest::{Guest, Running, get, serving};
use crate::common::simulated::{built, collector};
use crate::common::{self, LAUNCH, expect_parts, json, lossy, send, text, wait_until};
use nix::sys::signal::Signal;
use stage2_contract::trace::{Reader, Record};

const PATIENCE: Duration = Duration::from_secs(60);

fn launch(words: &[&str]) -> String {
    let output = Command::new(LAUNCH).args(words).output();
    let output = output.expect("stage2-launch");
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    lossy(&output.stdout)
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

/// By how much the readings that tie the clocks of GPU and host differ at most.
fn differences_of_readings(traces: &Path) -> u64 {
    let files = std::fs::read_dir(traces).expect("a folder").flatten();
    let records = files.flat_map(|file| Reader::open(file.path())).flatten().flatten();
    let ahead: Vec<i128> = records
        .filter_map(|record| match record {
            Record::Anchor(anchor) => Some(i128::from(anchor.gpu.0) - i128::from(anchor.mono.0)),
            _ => None,
        })
        .collect();
    let (least, most) = (ahead.iter().min(), ahead.iter().max());
    (most.expect("a reading") - least.expect("a reading")) as u64
}

#[test]
fn what_is_seen_live_is_what_a_report_says() {
    let mut guest = Guest::new("on", &[]);
    for turn in 1..=12 {
        guest.does([&format!("work decode {turn}"), "work prefill 5"]);
    }
    let folder = guest.finish();
    let (traces, report) = (folder.path().join("traces"), folder.path().join("report"));
    let readings_differ_ns = differences_of_readings(&traces) as f64;
    launch(&["merge", "-q", "--allow-empty", "--spool", utf8(&traces), "-o", utf8(&report)]);
    let json = json(&report.join("metrics.json"));
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
        // Clocks are tied at the last reading here, and between two in a report: at both ends of an
        // instance they differ by as much as the readings do.
        let slack_ns = 1_000.0 + 2.0 * of("instances") * readings_differ_ns;
        let close = |what: &str, live: f64, report_ns: f64| {
            let differ_ns = (live * 1e9 - report_ns).abs();
            assert!(differ_ns <= slack_ns, "{name} {what}: {differ_ns} > {slack_ns}: {stage}");
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
    let page = narrow_page(&traces);
    let parts = ["1 process  ended", "> decode", "prefill", "in ranges 100%"];
    expect_parts(&page, "top", &parts);
    let first = page.lines().next().expect("a header");
    assert!(first.ends_with("  whole run"), "{first}");
    let mut wide = Command::new(LAUNCH);
    wide.args(["top", "--once", utf8(&traces)]).env("COLUMNS", "200");
    let wide = text(&wide.output().expect("stage2-launch"));
    assert!(wide.contains("TRACE FILE") && !page.contains("TRACE FILE"), "{wide}");
    // A program that reads a page gets all columns.
    assert!(launch(&["top", "--once", utf8(&traces)]).contains("TRACE FILE"));
    // Nothing would change any more: without a terminal it is the same page, once.
    assert_eq!(launch(&["top", utf8(&traces)]).matches("stage2 top").count(), 1);
}

/// Hazard (Watching what runs): `top` is called without a TARGET.
/// Promise: It shows the only live run of this host; if there are several, it names them all.
#[test]
fn without_a_target_the_live_run_is_watched() {
    let mut guest = Guest::new("on", &[("STAGE2_FLUSH_MS", "10")]);
    guest.tell("work decode 20");
    let output = guest.launch(&["top", "--once"]).output().expect("stage2-launch");
    let said = text(&output);
    // Processes of other tests may have sockets in the folder for all of this user.
    match output.status.code() {
        Some(0) => expect_parts(&said, "top", &["1 process, 1 recording", &guest.pid()]),
        Some(2) => expect_parts(&said, "top", &["runs are live", &guest.pid(), "TARGET"]),
        code => panic!("{code:?}: {said}"),
    }
    guest.finish();
}

/// Hazard (Watching what runs): A process dies while it is watched, and its files vanish.
/// Promise: The numbers so far stay, a line states what happened to the file, and `top` continues.
#[test]
fn a_process_is_watched_from_its_first_window_to_its_death() {
    let mut guest = Guest::new("off", &[]);
    let pid = guest.pid();
    let mut command = guest.launch(&["top", "--plain", &pid]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut top = Running(command.spawn().expect("stage2-launch"));
    let (tell, lines) = std::sync::mpsc::channel();
    let stdout = BufReader::new(top.0.stdout.take().expect("piped"));
    std::thread::spawn(move || {
        stdout.lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
    });
    let until = |part: &str| {
        wait_until(part, || lines.recv_timeout(PATIENCE).is_ok_and(|line| line.contains(part)));
    };
    until("1 dormant");
    guest.ctl_ends(&[&pid, "start", "--wait"], 0);
    guest.tell("work decode 20");
    until("> decode");
    let trace = guest.traces();
    guest.child.kill().expect("killed");
    let _ = guest.child.wait();
    // What was seen stays, and what becomes of the file is told.
    until(&format!(" {pid} "));
    std::fs::remove_dir_all(&trace).expect("a folder");
    until("was removed before its end");
    send(&top.0, Signal::SIGTERM);
    assert_eq!(top.0.wait().expect("ends").code(), Some(0));
}

/// Variables of a guest, by name.
type Variables<'v> = [(&'v str, &'v str)];

/// `tests/guests/host.py` with a real collector and the simulated GPU; `what` it does, for longer than any test waits.
fn python_guest(folder: &Path, what: &str, variables: &Variables<'_>) -> Running {
    let said = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let mut guest = Command::new(lossy(&said.expect("python3").stdout).trim());
    guest.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/guests/host.py")).args([what, "120"]);
    guest.env("LD_PRELOAD", built("libstage2.so")).env("STAGE2_SUMMARY", "off").envs(collector());
    guest.env("STAGE2_OUT", folder.join("traces")).env("XDG_RUNTIME_DIR", folder.join("run"));
    guest.env("STAGE2_TEST_SIM", built("libstage2_sim.so")).env("STAGE2_SIM_FAST", "1");
    guest.envs(variables.iter().copied()).stdout(Stdio::null());
    Running(guest.spawn().expect("the guest starts"))
}

/// One page of `top`, 80 columns wide.
fn narrow_page(traces: &Path) -> String {
    let mut top = Command::new(LAUNCH);
    top.args(["top", "--once", utf8(traces)]).env("COLUMNS", "80");
    text(&top.output().expect("stage2-launch"))
}

/// Runs `top` on the guest until a page has this part. Returns the table of the host on that page.
fn awaits_host(folder: &Path, part: &str) -> Vec<String> {
    let traces = folder.join("traces");
    let mut page = String::new();
    wait_until(part, || {
        page = if traces.is_dir() { narrow_page(&traces) } else { String::new() };
        page.contains(part)
    });
    let table = page.lines().skip_while(|line| !line.contains("NO WORK  SHARE"));
    table.skip(1).take_while(|line| !line.contains("RANK")).map(str::to_owned).collect()
}

#[test]
fn what_the_host_does_while_the_gpu_is_idle_is_seen_live() {
    let sampled = ("STAGE2_HOST", "200");
    let slow = [sampled, ("STAGE2_SIM_FAULT", "slow-alloc=7")];
    // What the guest does, the part of the page that shows it, and the share of idle time.
    let runs: [(&str, &Variables<'_>, &str, &str); 4] = [
        ("shares", &[sampled], "%  Scheduler.spin (host.py:", "100%"),
        ("gil", &[sampled], "%  GIL held by '", "100%"),
        ("blocked", &slow, "%  blocked in cuMemAlloc from allocate (host.py:", "100%"),
        ("shares", &[("STAGE2_HOST", "off")], "  not sampled: STAGE2_HOST is off", "-"),
    ];
    for (what, variables, part, idle) in runs {
        let folder = tempfile::tempdir().expect("a folder");
        let guest = python_guest(folder.path(), what, variables);
        let table = awaits_host(folder.path(), part);
        let words: Vec<&str> = table[0].split_whitespace().take(2).collect();
        assert_eq!(words, [guest.0.id().to_string().as_str(), idle], "{table:#?}");
        assert!(table.iter().all(|line| line.chars().count() <= 80), "{table:#?}");
    }
}

/// A server that answers each client in this way, until the test ends.
fn answering(answer: fn(&mut TcpStream) -> std::io::Result<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = client.read(&mut [0; 4_096]);
                answer(&mut client)
            });
        }
    });
    address
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";

fn slowly(client: &mut TcpStream) -> std::io::Result<()> {
    client.write_all(OK)?;
    loop {
        client.write_all(b" ")?;
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn endlessly(client: &mut TcpStream) -> std::io::Result<()> {
    client.write_all(OK)?;
    loop {
        client.write_all(&[b'7'; 1 << 16])?;
    }
}

fn another_version(client: &mut TcpStream) -> std::io::Result<()> {
    client.write_all(OK)?;
    client.write_all(b"{\"stage2_live\": 999, \"now_ns\": 5}")
}

fn too_many_ranks(client: &mut TcpStream) -> std::io::Result<()> {
    let ranks = vec!["{}"; 1_000_000].join(",");
    client.write_all(OK)?;
    write!(client, "{{\"stage2_live\": 8, \"now_ns\": 5, \"look\": {{\"processes\": [{ranks}]}}}}")
}

fn nonsense(client: &mut TcpStream) -> std::io::Result<()> {
    client.write_all(b"220 mail ready\r\n")
}

/// A guest of this rank that works, and `feed` on it.
fn served(rank: &str) -> (Guest, Running, String) {
    let mut guest = Guest::new("on", &[("STAGE2_FLUSH_MS", "10"), ("RANK", rank)]);
    guest.does(["work decode 20", "work decode 20", "work decode 20"]);
    let (feed, address) = serving(&guest.traces());
    // The last call may still go on.
    let calls = format!("rank=\"{rank}\",stage=\"decode\"}} 2\n");
    wait_until("a rank", || get(&address, "/metrics").contains(&calls));
    (guest, feed, address)
}

/// Hazard (Watching what runs): One of several hosts is dead; others are slow, send without end, report a million
///  ranks, have another version, or are not `feed`.
/// Promise: Each is named with its state, the ranks of the others are shown in time, and a rank number that occurs
///  twice is reported.
#[test]
fn of_several_hosts_those_that_answer_are_shown_and_the_others_named() {
    let (guests, _feeds, mut addresses): (Vec<_>, Vec<_>, Vec<_>) =
        ["5", "5"].into_iter().map(served).collect();
    let dead = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    addresses.push(dead.to_string());
    let bad = [slowly, endlessly, another_version, too_many_ranks, nonsense];
    addresses.extend(bad.map(answering));
    let words: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let began = Instant::now();
    let page = launch(&[&["top", "--once"], words.as_slice()].concat());
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let told = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let whys = [
        "nothing is listening there",
        "it does not answer in time",
        "it sends more than 16 MB",
        "it reports version 999, and this program reads version 8",
        "it is damaged",
        "what it sends is not from `feed`",
    ];
    let states: Vec<String> =
        words[2..].iter().zip(whys).map(|(address, why)| format!("{address}: {why}")).collect();
    let (one, other) = (guests[0].pid(), guests[1].pid());
    let shown = ["2 of 8 hosts answer 2 processes", "> decode", &one, &other, "has rank 5, too"];
    expect_parts(
        &told,
        "top",
        &[&shown[..], &states.iter().map(String::as_str).collect::<Vec<_>>()].concat(),
    );
    // The same as metrics, with sums over all hosts.
    let metrics = launch(&["feed", "--once", words[0], words[1], words[2]]);
    let calls = |name: &str, label: &str| metric(&metrics, name, label);
    let of =
        [one, other].map(|pid| calls("stage2_stage_step_seconds_count", &format!("pid=\"{pid}\"")));
    assert!(of.iter().all(|calls| *calls >= 2.0), "{metrics}");
    assert_eq!(calls("stage2_job_stage_step_seconds_count", "decode"), of[0] + of[1]);
    expect_parts(&metrics, "feed", &["stage2_feed_problems 1.0"]);
}

/// Hazard (Watching what runs): A host dies while several are watched, and another one is slow.
/// Promise: What it showed last stays, its processes have the state `no answer`, and a page comes every second.
#[test]
fn a_host_that_dies_leaves_its_last_numbers_and_holds_up_no_page() {
    let (mut guest, _feed, address) = served("0");
    let (other, feed, dies) = served("1");
    let slow = answering(slowly);
    let mut command = Command::new(LAUNCH);
    command.args(["top", "--plain", &address, &dies, &slow]).stdout(Stdio::piped());
    let mut top = Running(command.spawn().expect("stage2-launch"));
    let mut lines = BufReader::new(top.0.stdout.take().expect("piped")).lines();
    // Reads up to a line with this part; how many pages began on the way.
    let mut until = |part: &str| {
        let (began, mut pages) = (Instant::now(), 0);
        while began.elapsed() < PATIENCE {
            let line = lines.next().expect("it goes on").expect("text");
            pages += u64::from(line.starts_with("stage2 top"));
            if line.contains(part) {
                return pages;
            }
        }
        panic!("{part} does not come");
    };
    until("2 of 3 hosts answer  2 processes, 2 recording");
    drop(feed);
    let began = Instant::now();
    let state = format!(" {} ", other.pid());
    let pages = until("nothing is listening there (for") + until("no answer");
    let seconds = began.elapsed().as_secs();
    assert!(seconds >= 14 && pages + 3 >= seconds, "{pages} pages in {seconds} s");
    until("1 of 3 hosts answer  2 processes, 1 recording");
    until(&state);
    guest.tell("work decode 1");
}

#[test]
fn wrong_targets_and_open_addresses_are_refused() {
    for (words, code, part) in [
        (&["top", "/nowhere/at/all"][..], 2, "/nowhere/at/all does not exist; "),
        (
            &["top", "Cargo.toml"],
            2,
            "Cargo.toml is a text file, not a trace file (.s2t) or the folder of a run; ",
        ),
        (&["top", "--once", "src"], 2, "no trace file (HOST-PID.s2t) is in src"),
        (&["feed", "4000000000"], 70, "no process 4000000000"),
        (&["feed", "--listen", "0.0.0.0:0", "/tmp"], 2, "other hosts"),
        (&["feed", "--readable-by", "all", "/tmp"], 2, "--textfile"),
        (
            &["feed", "--textfile", "/nowhere/f", "--allow-host", "h", "/nowhere"],
            2,
            "give --listen",
        ),
    ] {
        let output = Command::new(LAUNCH).args(words).output().expect("runs");
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", text(&output));
        expect_parts(&text(&output), "said", &[part]);
    }
    // Without a terminal the variable gives the width.
    let narrow = Command::new(LAUNCH).args(["top", "--once", "src"]).env("COLUMNS", "60").output();
    let said = String::from_utf8(narrow.expect("runs").stderr).expect("text");
    assert!(said.lines().count() > 2 && said.lines().all(|line| line.len() <= 60), "{said}");
}

#[test]
fn the_text_file_is_there_while_feed_is() {
    let mut guest = Guest::new("on", &[]);
    guest.tell("work decode 20");
    let folder = guest.finish();
    let file = folder.path().join("stage2.prom");
    let traces = folder.path().join("traces");
    let words = ["feed", "--interval", "1", "--textfile", utf8(&file), utf8(&traces)];
    let mut feed = Running(Command::new(LAUNCH).args(words).spawn().expect("stage2-launch"));
    let holds = |part: &str| std::fs::read_to_string(&file).is_ok_and(|text| text.contains(part));
    wait_until("the text file", || holds("stage=\"decode\""));
    send(&feed.0, Signal::SIGTERM);
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
    let folder = guest.finish();
    let (_feed, address) = serving(utf8(&folder.path().join("traces")));
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
    let mut answer = String::new();
    wait_until("a number of Prometheus", || {
        answer = ask("stage2_stage_step_seconds_count");
        answer.contains("\"value\"")
    });
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
