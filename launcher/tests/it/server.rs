//! The example server under the collector, on the simulated GPU: a forked engine with continuous batching,
//! CUDA graphs, and requests whose ranges cross threads; recorded whole by the launcher, or in windows.
//!
//! Skipped, and said so, where Python lacks hydra-core, numpy or nvtx; a failure there when
//! STAGE2_REQUIRE_HYDRA is set.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use crate::common::simulated::{built, collector};
use crate::common::{
    self, LAUNCH, Sandbox, end, has_packages, json, lossy, names_in, repository, row, send, spawn,
};
use nix::sys::signal::Signal;
use serde_json::Value;
use stage2_contract::trace::{Ending, Payload, Process, Reader, Record, What};

const REQUESTS: u64 = 50;
/// Of each request: one from its prefill, the others from a decode step each.
const TOKENS: u64 = 4;
/// Kernels of the simulated GPU's recorded prefill, and of a replay of its graph.
const PREFILL_KERNELS: u64 = 662;
const GRAPH_KERNELS: u64 = 761;

fn examples() -> PathBuf {
    repository("examples").canonicalize().expect("examples")
}

/// The launcher with the server as its workload, which serves when this returns.
fn serving(sandbox: &Sandbox) -> Child {
    let simulator = built("libstage2_sim.so");
    let library = simulator.to_str().expect("a path of UTF-8");
    let mut command = sandbox.std_launch(&["run.mode=light", "--", "python3", "-m", "server"]);
    command
        .args(["--backend=numpy", "--port=0", "--ready-file=ready", "--slots=6"])
        .arg(format!("--simulated-gpu={library}"))
        .env("PYTHONPATH", examples())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(collector())
        .env("STAGE2_SIM_FAST", "1");
    sandbox.spawn_until_ready(&mut command)
}

fn load_command(url: &str, out: &Path, words: &[String]) -> Command {
    let mut command = Command::new("python3");
    command
        .args(["-m", "server.load", "--url", url, "--out"])
        .arg(out)
        .args(words)
        .current_dir(examples())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Sends all requests; returns how many were served.
fn load(url: &str) -> usize {
    let folder = tempfile::tempdir().expect("folder");
    let out = folder.path().join("load.jsonl");
    let words =
        ["--rate=100".to_owned(), format!("--requests={REQUESTS}"), format!("--output={TOKENS}")];
    let output = load_command(url, &out, &words).output().expect("python3");
    assert!(output.status.success(), "{}", lossy(&output.stderr));
    requests(&out).iter().filter(|request| request["error"].is_null()).count()
}

/// What the load generator wrote of its requests.
fn requests(out: &Path) -> Vec<Value> {
    let lines = common::read(out);
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["kind"] == "request").collect()
}

/// What the trace file of the engine says.
struct Trace {
    process: Process,
    ending: Ending,
    fork_of: String,
    /// Of each range of its own: innermost name, payload, thread, whether it is start/end, and
    /// whether it has closed.
    ranges: Vec<Range>,
    /// Threads that had a range open at the launch of GPU work.
    launching: BTreeSet<u32>,
}

struct Range {
    name: String,
    payload: Option<u64>,
    thread: u32,
    start_end: bool,
    closed: bool,
    /// The instance around it.
    parent: u64,
    /// That were launched in it, and in ranges inside it.
    kernels: u64,
}

fn trace(path: &Path) -> Trace {
    let mut reader = Reader::open(path).expect("a trace file");
    let records: Vec<Record> = reader.by_ref().map(|record| record.expect("readable")).collect();
    let (mut names, mut paths, mut ranges) = (HashMap::new(), HashMap::new(), BTreeMap::new());
    let (mut process, mut fork_of, mut worked) = (Process::default(), String::new(), vec![]);
    for record in records {
        match record {
            Record::Process(found) => process = found,
            Record::Meta { key, value } if key == "fork.of" => fork_of = value,
            Record::Name { id, bytes } => {
                names.insert(id, String::from_utf8_lossy(&bytes).into_owned());
            }
            Record::Path(path) => {
                paths.insert(path.id, names[&path.name].clone());
            }
            Record::RangeOpen(open) if open.continues == 0 => {
                let payload = open.payload.and_then(|payload| match payload {
                    Payload::U64(value) => Some(value),
                    Payload::I64(value) => u64::try_from(value).ok(),
                    Payload::F64(_) => None,
                });
                let range = Range {
                    name: paths[&open.path].clone(),
                    payload,
                    thread: open.thread,
                    start_end: open.start_end,
                    closed: false,
                    parent: open.parent,
                    kernels: 0,
                };
                ranges.insert(open.range, range);
            }
            Record::RangeClose { range, .. } => {
                if let Some(range) = ranges.get_mut(&range) {
                    range.closed = true;
                }
            }
            Record::Work(work) => {
                worked.push(work.range);
                let mut at = matches!(work.what, What::Kernel { .. }).then_some(work.range);
                while let Some(range) = at.and_then(|at| ranges.get_mut(&at)) {
                    range.kernels += 1;
                    at = Some(range.parent);
                }
            }
            _ => {}
        }
    }
    let launching =
        worked.iter().filter_map(|range| ranges.get(range)).map(|range| range.thread).collect();
    let ranges = ranges.into_values().collect();
    Trace { process, ending: reader.end(), fork_of, ranges, launching }
}

#[test]
fn a_server_whose_engine_is_forked_is_recorded_whole() {
    if !has_packages("omegaconf, numpy, nvtx") {
        return;
    }
    let sandbox = Sandbox::new();
    let launcher = serving(&sandbox);
    let about = json(&sandbox.path("ready"));
    assert_eq!((&about["decode"], &about["nvtx"]), (&"graphs".into(), &"nvtx".into()));
    let served = load(about["url"].as_str().expect("url"));
    assert_eq!(served as u64, REQUESTS);
    send(&launcher, Signal::SIGTERM);
    let (code, stderr) = end(launcher);
    assert_eq!(code, Some(0), "the server ends in order: {stderr}");

    // The bundle.
    let report = sandbox.json("metrics.json");
    assert_eq!(report["coverage"]["verdict"]["status"], "complete", "{stderr}");
    assert_eq!(report["coverage"]["total"]["outside_ranges"], 0);
    let stage = |name: &str| {
        let found = row(&report["stages"], "stage", name);
        (found["instances"].as_u64().expect("instances"), found["kernels"].as_u64())
    };
    assert_eq!(stage("prefill"), (REQUESTS, Some(REQUESTS * PREFILL_KERNELS)));
    let (steps, kernels) = stage("decode");
    assert_eq!(kernels, Some(steps * GRAPH_KERNELS));
    // With six slots a step gives six tokens at most. Alone each request would need its own steps.
    let tokens = REQUESTS * (TOKENS - 1);
    assert!((tokens.div_ceil(6)..tokens).contains(&steps), "{steps} steps: batched");

    // The one trace file is that of the forked engine: the server itself used no GPU and no NVTX.
    let collector = sandbox.latest("collector");
    let files = names_in(&collector);
    assert_eq!(files.len(), 1, "{files:?}");
    let trace = trace(&collector.join(&files[0]));
    assert_eq!(u64::from(trace.process.pid), about["engine_pid"]);
    assert_eq!(u64::from(trace.process.ppid), about["pid"]);
    assert_eq!(trace.fork_of, about["pid"].to_string());
    assert_eq!(trace.ending, Ending::Complete);

    // Requests: opened on a thread that launches nothing, with their numbers, and all closed.
    let of =
        |name: &str| trace.ranges.iter().filter(|range| range.name == name).collect::<Vec<_>>();
    let requests = of("request");
    let numbers: BTreeSet<_> = requests.iter().map(|range| range.payload).collect();
    assert_eq!(requests.len() as u64, REQUESTS);
    assert_eq!(numbers, (1..=REQUESTS).map(Some).collect());
    assert!(requests.iter().all(|range| range.start_end && range.closed));
    let threads =
        |ranges: &[&Range]| ranges.iter().map(|range| range.thread).collect::<BTreeSet<_>>();
    assert_eq!(threads(&requests).len(), 1);
    assert!(threads(&requests).is_disjoint(&trace.launching));

    // Steps: all on the thread that launches, with the size of the batch.
    let decodes = of("decode");
    assert_eq!(threads(&decodes), trace.launching);
    assert_eq!(threads(&of("prefill")), trace.launching);
    let batches: u64 = decodes.iter().filter_map(|range| range.payload).sum();
    assert_eq!(batches, tokens, "each step gives a token to each sequence of its batch");
}

/// Windows that are begun and ended while requests come in.
const WINDOWS: u64 = 20;
/// Requests come in for so long, seconds.
const UNDER_LOAD_S: u64 = 12;

/// The server, ended when this is dropped: a failed assertion leaves nothing running.
struct Running(Option<Child>);

impl Running {
    /// Has it end in order. What it said, and how it ended.
    fn end(mut self) -> (Option<i32>, String) {
        let child = self.0.take().expect("it runs");
        send(&child, Signal::SIGTERM);
        end(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.iter().for_each(|child| send(child, Signal::SIGTERM));
    }
}

/// The server, dormant, which serves when this returns.
fn dormant(sandbox: &Sandbox) -> Running {
    let simulator = built("libstage2_sim.so");
    for folder in ["run", "traces"] {
        std::fs::create_dir(sandbox.path(folder)).expect("folder");
    }
    let mut command = Command::new("python3");
    command
        .args(["-m", "server", "--backend=numpy", "--port=0", "--slots=6", "--ready-file"])
        .arg(sandbox.path("ready"))
        .arg("--simulated-gpu")
        .arg(&simulator)
        .env("PYTHONPATH", examples())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LD_PRELOAD", built("libstage2.so"))
        .env("STAGE2_CUPTI", &simulator)
        .env("STAGE2_SIM_FAST", "1")
        .env("STAGE2_START", "off")
        .env("STAGE2_OUT", sandbox.path("traces"))
        .env("XDG_RUNTIME_DIR", sandbox.path("run"));
    let server = Running(Some(spawn(&mut command)));
    sandbox.wait_for("ready");
    server
}

fn ctl(sandbox: &Sandbox, engine: &Value, words: &[&str]) {
    let mut command = Command::new(LAUNCH);
    command.args(["ctl", &engine.to_string()]).args(words).arg("--wait");
    let output = command.env("XDG_RUNTIME_DIR", sandbox.path("run")).output().expect("ctl");
    assert!(output.status.success(), "{words:?}: {output:?}");
}

#[test]
fn windows_of_a_dormant_server_under_load_hold_whole_steps_and_no_request_fails() {
    if !has_packages("omegaconf, numpy, nvtx") {
        return;
    }
    let sandbox = Sandbox::new();
    let server = dormant(&sandbox);
    let about = json(&sandbox.path("ready"));
    let out = sandbox.path("load.jsonl");
    let words =
        ["--rate=10".into(), format!("--duration={UNDER_LOAD_S}"), format!("--output={TOKENS}")];
    let url = about["url"].as_str().expect("url");
    let load = spawn(&mut load_command(url, &out, &words));

    // Begun and ended in the middle of whatever the engine does.
    for window in 0..WINDOWS {
        std::thread::sleep(Duration::from_millis(50 + 13 * (window % 5)));
        ctl(&sandbox, &about["engine_pid"], &["start"]);
        std::thread::sleep(Duration::from_millis(150 + 17 * (window % 7)));
        ctl(&sandbox, &about["engine_pid"], &["stop"]);
    }
    let (code, said) = end(load);
    assert_eq!(code, Some(0), "{said}");
    let (code, stderr) = server.end();
    assert_eq!(code, Some(0), "as without the collector: {stderr}");
    assert!(!stderr.contains("stage2: "), "{stderr}");

    let requests = requests(&out);
    assert!(requests.len() > 30, "{}", requests.len());
    assert!(requests.iter().all(|request| request["error"].is_null()));

    // A window may begin and end within a step. The steps that lie in it whole are whole.
    let files = names_in(&sandbox.path("traces"));
    assert_eq!(files.len() as u64, WINDOWS, "{files:?}");
    let (mut steps, mut prefills) = (0, 0);
    for file in &files {
        let trace = trace(&sandbox.path("traces").join(file));
        assert_eq!(trace.ending, Ending::Complete, "{file}");
        for range in trace.ranges.iter().filter(|range| range.closed) {
            let expected = match range.name.as_str() {
                "decode" => GRAPH_KERNELS,
                "prefill" => PREFILL_KERNELS,
                _ => continue,
            };
            assert_eq!(range.kernels, expected, "{} in {file}", range.name);
            *if range.name == "decode" { &mut steps } else { &mut prefills } += 1;
        }
    }
    // On a busy machine there are few.
    assert!(steps > WINDOWS && prefills > 0, "{steps} steps, {prefills} prefills in windows");
}
