//! A real nsys around a CPU-only Python program with NVTX ranges: gates, exports, tables, secrets.
//!
//! Needs `nsys` on PATH and a Python with the package nvtx: 0.2.11 or older, because nsys 2023.4
//! sees no ranges of newer ones (STAGE2_TEST_PYTHON names it; else `python3`). Where one is missing
//! the tests say SKIPPED on stderr; with STAGE2_REQUIRE_NSYS=1 they fail instead.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{self, Sandbox, lossy, names_in, stderr};
use serde_json::Value;
use stage2_launch::tools::CommandEnd;
use stage2_launch::tools::Step;
use stage2_launch::tools::Version;
use stage2_launch::tools::nsys::command;
use stage2_launch::tools::nsys::config::{CaptureRange, Nsys};
use stage2_launch::tools::nsys::outcome::{Files, Outcome, Verdict, judge, judge_tables};
use stage2_launch::tools::nsys::scrub::scrub;
use stage2_model::WorkloadExit;
use stage2_read::nsys::{Tables, csv, sqlite};

/// One prefill, three decodes with a step each, then a line on standard output. The stages are long
/// because nsys now and then misses a range of 20 ms on a busy machine: it ends before nsys captures.
const WORKLOAD: &str = "\
import sys, time, nvtx
def stage(name, inner):
    with nvtx.annotate(name):
        with nvtx.annotate(inner, domain='inner'):
            time.sleep(0.2)
stage('prefill', 'layer')
for _ in range(3):
    stage('decode', 'step')
print('the workload ran to its end')
sys.exit(int(sys.argv[1]))
";
const SECRET: &str = "not-for-other-eyes-7291";
/// nsys needs some seconds to start and to import; a machine under load, some more.
const LIMIT: Duration = Duration::from_secs(120);

/// What is needed, or nothing where the test is skipped.
fn tools(test: &str) -> Option<(Version, OsString)> {
    let python = std::env::var_os("STAGE2_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let found = (|| {
        let nsys =
            Command::new("nsys").arg("--version").output().map_err(|_| "nsys not on PATH")?;
        let version = Version::parse(&String::from_utf8_lossy(&nsys.stdout));
        let version = version.ok_or("nsys does not say its version")?;
        let code = "from importlib.metadata import version; import nvtx; print(version('nvtx'))";
        let asked = Command::new(&python).args(["-c", code]).output();
        let asked = asked.ok().filter(|o| o.status.success()).ok_or("no Python with nvtx")?;
        let text = String::from_utf8_lossy(&asked.stdout);
        let numbers: Vec<u32> = text.trim().split('.').filter_map(|n| n.parse().ok()).collect();
        if version <= Version::new(2023, 4, 99) && numbers > vec![0, 2, 11] {
            return Err("this nsys sees no ranges of nvtx newer than 0.2.11");
        }
        Ok((version, python))
    })();
    match found {
        Ok(tools) => Some(tools),
        Err(why) => {
            let required = std::env::var_os("STAGE2_REQUIRE_NSYS").is_some_and(|v| v == "1");
            assert!(!required, "STAGE2_REQUIRE_NSYS=1, but {why}");
            common::skipped(&format!("{test}: {why}"));
            None
        }
    }
}

/// A folder with a percent sign, a comma and a blank in it, and the workload.
struct Bench {
    dir: tempfile::TempDir,
    version: Version,
    python: OsString,
}

impl Bench {
    fn new(test: &str) -> Option<Bench> {
        let (version, python) = tools(test)?;
        let dir = tempfile::Builder::new().prefix("nsys 50%p,").tempdir().expect("folder");
        std::fs::write(dir.path().join("workload.py"), WORKLOAD).expect("workload");
        Some(Bench { dir, version, python })
    }

    fn base(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn profile(&self, nsys: &Nsys, status: i32) -> (Outcome, String) {
        let script = self.dir.path().join("workload.py").into_os_string();
        let workload = [self.python.clone(), script, status.to_string().into()];
        let profile =
            command::profile(nsys, Some(self.version), &workload, &self.base()).expect("settings");
        let (outcome, log) = self.run_settled(nsys, profile.argv);
        if let Verdict::Ok { reports } = &outcome.verdict {
            assert_eq!(reports.first(), Some(&profile.report), "where it was expected");
        }
        (outcome, log)
    }

    /// Runs a command, again where nsys itself stumbled: what came of it, and its log.
    fn run_settled(&self, nsys: &Nsys, argv: Vec<OsString>) -> (Outcome, String) {
        let step = Step { argv, ..Step::default() };
        let mut runs = 0;
        loop {
            let ended = run(&step);
            let outcome = judge(nsys, &ended, &Files::find(&self.base(), &ended.log));
            runs += 1;
            if !outcome.transient || runs == 3 {
                return (outcome, ended.log);
            }
            eprintln!("nsys stumbled, once more: {}", ended.log);
        }
    }

    /// Export and stats of the report, both read.
    fn tables(&self, nsys: &Nsys) -> (Tables, Tables) {
        let (report, file) =
            (self.base().with_extension("nsys-rep"), self.base().with_extension("sqlite"));
        let export = command::export(nsys, &report, &file);
        assert_eq!(judge_tables("nsys export", &run(&export), &file, ""), Ok(()));
        let stats = command::stats(nsys, Some(self.version), &file, "run");
        let nvtx = stats.files.last().expect("a table of the ranges").clone();
        assert_eq!(judge_tables("nsys stats", &run(&stats.step), &nvtx, ""), Ok(()));
        (
            sqlite::load(&file, &Default::default()).expect("export"),
            csv::load(&[nvtx], &Default::default()),
        )
    }
}

fn run(step: &Step) -> CommandEnd {
    let log = tempfile::NamedTempFile::new().expect("log");
    // Standard output and standard error append to one file.
    let stream = || Stdio::from(File::options().append(true).open(log.path()).expect("log"));
    let (program, arguments) = step.argv.split_first().expect("a program");
    let mut command = Command::new(program);
    command.args(arguments).env("STAGE2_TEST_SECRET", SECRET);
    command.stdin(Stdio::null()).stdout(stream()).stderr(stream());
    if let Some(folder) = &step.cwd {
        command.current_dir(folder);
    }
    let mut child = command.spawn().expect("nsys");
    let start = Instant::now();
    let status = loop {
        match child.try_wait().expect("status") {
            Some(status) => break status,
            None if start.elapsed() > LIMIT => {
                let _ = child.kill();
                panic!("{:?} did not end", step.argv);
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let log = std::fs::read(log.path()).expect("log");
    let exit = status.code().map(WorkloadExit::Code);
    CommandEnd { exit, log: lossy(&log), ..CommandEnd::default() }
}

/// The default preset, on a machine without GPU.
fn preset() -> Nsys {
    let text = include_str!("../../../conf/profiling/nsys/nsys.default.yaml");
    let mut nsys: Nsys = serde_saphyr::from_str(text).expect("preset");
    nsys.trace = vec!["nvtx".into()];
    nsys
}

fn gated(range: &str) -> Nsys {
    let capture_range = CaptureRange::Nvtx;
    Nsys { capture_range, nvtx_capture: Some(range.into()), ..preset() }
}

fn names(tables: &Tables) -> Vec<(&str, Option<u64>)> {
    let mut names: Vec<_> =
        tables.ranges.iter().map(|range| (range.name.as_str(), range.instances)).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_gate_on_prefill_and_one_on_decode_each_give_their_first_range() {
    for (range, inner) in [("prefill", "layer"), ("decode@*", "step")] {
        // A folder for each gate: if nsys failed, the report of the other gate would pass for its own.
        let Some(bench) = Bench::new("gates") else { return };
        let nsys = gated(range);
        let (outcome, log) = bench.profile(&nsys, 0);
        assert!(matches!(outcome.verdict, Verdict::Ok { .. }), "{outcome:?}\n{log}");
        assert_eq!(outcome.workload, Some(WorkloadExit::Code(0)), "{outcome:?}\n{log}");
        assert!(log.contains("the workload ran to its end"), "stop lets it run on: {log}");
        let (tables, from_csv) = bench.tables(&nsys);
        assert!(tables.complete, "{:?}", tables.findings);
        let name = range.trim_end_matches("@*");
        assert_eq!(
            names(&tables),
            [(name, Some(1))],
            "the first one only, and the inner one in it"
        );
        let host_ms = tables.ranges[0].host_total_ns.unwrap_or(0) / 1_000_000;
        assert!((200..20_000).contains(&host_ms), "{host_ms} ms");
        let shown: Vec<&str> = from_csv.ranges.iter().map(|r| r.name.as_str()).collect();
        assert!(shown.contains(&name), "{shown:?}");
        assert!(shown.iter().any(|shown| shown.ends_with(inner)), "{shown:?}");
    }
}

#[test]
fn a_missing_range_is_found_out_and_the_retry_without_gate_has_everything() {
    let Some(bench) = Bench::new("missing range") else { return };
    let nsys = gated("no_such_range@*");
    let (outcome, log) = bench.profile(&nsys, 0);
    let Verdict::NoRange { finding } = &outcome.verdict else { panic!("{outcome:?}\n{log}") };
    assert!(finding.what.contains("no_such_range@*"), "{finding}");
    assert_eq!(outcome.workload, Some(WorkloadExit::Code(0)));
    let retry = nsys.without_gate();
    let (outcome, log) = bench.profile(&retry, 3);
    assert!(matches!(outcome.verdict, Verdict::Ok { .. }), "{outcome:?}\n{log}");
    assert_eq!(outcome.workload, Some(WorkloadExit::Code(3)), "the status of the workload");
    let (tables, from_csv) = bench.tables(&retry);
    assert_eq!(names(&tables), [("decode", Some(3)), ("prefill", Some(1))]);
    let decode = |t: &Tables| {
        t.ranges.iter().find(|r| r.name == "decode").map(|r| (r.instances, r.host_total_ns))
    };
    assert_eq!(decode(&tables), decode(&from_csv), "as nsys itself adds it up");
}

#[test]
fn sigterm_at_a_shutdown_is_no_failure() {
    let Some(bench) = Bench::new("shutdown") else { return };
    let mut nsys = gated("prefill");
    nsys.capture_range_end = Some("stop-shutdown".to_owned());
    let (outcome, log) = bench.profile(&nsys, 0);
    assert!(matches!(outcome.verdict, Verdict::Ok { .. }), "{outcome:?}\n{log}");
    assert!(!log.contains("the workload ran to its end"), "nsys ended it");
    assert_eq!(outcome.workload, None);
}

#[test]
fn refused_arguments_and_unwritable_places_are_named() {
    let Some(bench) = Bench::new("refusals") else { return };
    let mut nsys = preset();
    nsys.trace.push("no-such-api".into());
    let (outcome, log) = bench.profile(&nsys, 0);
    let Verdict::Failed { finding } = &outcome.verdict else { panic!("{outcome:?}\n{log}") };
    assert!(finding.what.contains("arguments") && finding.why.contains("no-such-api"), "{finding}");
    std::fs::write(bench.base().with_extension("nsys-rep"), "").expect("file in the way");
    let mut nsys = preset();
    nsys.force_overwrite = false;
    let script = bench.dir.path().join("workload.py").into_os_string();
    let words = [bench.python.clone(), script, "0".into()];
    let profile =
        command::profile(&nsys, Some(bench.version), &words, &bench.base()).expect("valid");
    let (outcome, log) = bench.run_settled(&nsys, profile.argv);
    let Verdict::Ok { reports } = &outcome.verdict else { panic!("{outcome:?}\n{log}") };
    assert_ne!(reports, &[profile.report], "nsys put it somewhere else, and exits with 0");
    assert!(outcome.findings.iter().any(|f| f.what.contains("wrote its report to")), "{outcome:?}");
    reports.iter().for_each(|report| drop(std::fs::remove_file(report)));
}

#[test]
fn exports_hold_the_environment_and_scrubbed_copies_do_not() {
    let Some(bench) = Bench::new("secrets") else { return };
    let nsys = preset();
    let (outcome, log) = bench.profile(&nsys, 0);
    assert!(matches!(outcome.verdict, Verdict::Ok { .. }), "{outcome:?}\n{log}");
    let (tables, _) = bench.tables(&nsys);
    let (from, to) =
        (bench.base().with_extension("sqlite"), bench.base().with_extension("scrubbed.sqlite"));
    let secret = |path: &Path| {
        let bytes = std::fs::read(path).expect("file");
        bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
    };
    assert!(secret(&from), "else there is nothing to scrub");
    scrub(&from, &to).expect("copy");
    assert!(!secret(&to));
    let copy = sqlite::load(&to, &Default::default()).expect("copy");
    assert_eq!(copy.ranges, tables.ranges);
}

/// Runs the launcher around the workload; nothing where the test is skipped.
fn launched(test: &str, settings: &[&str], status: &str) -> Option<(Sandbox, String)> {
    let (_, python) = tools(test)?;
    let sandbox = Sandbox::new();
    sandbox.write("workload.py", WORKLOAD);
    let python = python.to_str().expect("UTF-8").to_owned();
    let common = ["pipeline.ncu.enable=false", "pipeline.nsys.trace=[nvtx]", "--keep-going"];
    let workload = ["--", &python, "workload.py", status];
    let mut command = sandbox.launch(&[settings, &common, &workload].concat());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.timeout(std::time::Duration::from_secs(240));
    let assert = command.assert().code(status.parse::<i32>().expect("a status"));
    let mut said = stderr(&assert);
    // What nsys said itself is needed where a test fails.
    said.push_str(&sandbox.read("nsys/log.txt"));
    Some((sandbox, said))
}

fn nsys_pass(sandbox: &Sandbox, said: &str, status: &str) -> Value {
    let pass = sandbox.pass("nsys");
    assert_eq!(pass["status"], status, "{pass:#}\n{said}");
    for file in ["run.nsys-rep", "SENSITIVE.txt", "run.sqlite", "cmd.txt", "log.txt"] {
        let path = sandbox.latest("nsys").join(file);
        assert!(path.metadata().is_ok_and(|found| found.len() > 0), "{file}\n{said}");
    }
    assert!(sandbox.read("nsys/log.txt").contains("the workload ran to its end"));
    pass
}

/// Ranges with their instances, as the export has them.
fn ranges(sandbox: &Sandbox) -> Vec<(String, Option<u64>)> {
    let export = sandbox.latest("nsys/run.sqlite");
    let tables = sqlite::load(&export, &Default::default()).expect("export");
    let mut ranges: Vec<_> = tables.ranges.into_iter().map(|r| (r.name, r.instances)).collect();
    ranges.sort();
    ranges
}

#[test]
fn a_gated_pass_records_its_range_and_the_workload_runs_to_its_end() {
    for range in ["prefill", "decode"] {
        let gate = format!("pipeline.nsys.nvtx_capture={range}@*");
        let settings = ["profiling/nsys=nsys.gated", &gate];
        let Some((sandbox, said)) = launched("a gated pass", &settings, "0") else { return };
        let pass = nsys_pass(&sandbox, &said, "ok");
        assert!(pass["argv"].to_string().contains("--capture-range=nvtx"), "{pass:#}\n{said}");
        assert_eq!(ranges(&sandbox), [(range.to_owned(), Some(1))]);
        let csv = |name: &String| name.ends_with(".csv") && name.contains("nvtx");
        let tables = names_in(&sandbox.latest("nsys"));
        assert!(tables.iter().any(csv), "a table of the ranges: {tables:?}\n{said}");
    }
}

#[test]
fn a_gate_that_never_opens_is_told_and_the_pass_repeated_without_it() {
    let settings = ["profiling/nsys=nsys.gated", "pipeline.nsys.nvtx_capture=no_such_range"];
    let Some((sandbox, said)) = launched("a gate that never opens", &settings, "3") else { return };
    assert!(said.contains("no_such_range"), "{said}");
    let pass = nsys_pass(&sandbox, &said, "workload_failed");
    assert!(pass["why"].as_str().expect("text").contains("without the gate"), "{pass:#}");
    let expected = [("decode".to_owned(), Some(3)), ("prefill".to_owned(), Some(1))];
    assert_eq!(ranges(&sandbox), expected);
}
