//! Python interpreters of this machine, and the samples of the host of a guest that one of them runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{Guest, Left, TraceFile, not_allowed, skipped};
use stage2_contract::trace::{
    HostCall, HostFrame, HostSample, HostSampling, HostStack, HostThread, Record,
};

/// An interpreter.
struct Python {
    minor: u32,
    is_free_threaded: bool,
    path: PathBuf,
}

/// Interpreters of the versions whose stacks are read: those that `STAGE2_TEST_PYTHONS` names (separated by colons),
/// those of `~/.pyenv/versions`, and those on the `PATH`.
fn found() -> &'static [Python] {
    static FOUND: OnceLock<Vec<Python>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let paths = |name| std::env::var_os(name).unwrap_or_default();
        let named: Vec<PathBuf> = std::env::split_paths(&paths("STAGE2_TEST_PYTHONS")).collect();
        let installed = std::fs::read_dir(Path::new(&paths("HOME")).join(".pyenv/versions"));
        let installed = installed.into_iter().flatten().flatten();
        let installed = installed.map(|entry| entry.path().join("bin/python3"));
        let folders: Vec<PathBuf> = std::env::split_paths(&paths("PATH")).collect();
        let names = (10..=15).map(|minor| format!("python3.{minor}"));
        let names: Vec<String> = names.chain(["python3".to_owned()]).collect();
        let on_path = names.iter().flat_map(|name| folders.iter().map(move |of| of.join(name)));
        let all = named.into_iter().chain(installed).chain(on_path.filter(|path| path.exists()));
        let mut found: Vec<Python> = Vec::new();
        for path in all {
            let Some(python) = ask(path) else { continue };
            let key = |python: &Python| (python.minor, python.is_free_threaded);
            if found.iter().all(|other| key(other) != key(&python)) {
                found.push(python);
            }
        }
        found.sort_by_key(|python| python.minor);
        let has = |minor| found.iter().any(|of| (of.minor, of.is_free_threaded) == (minor, false));
        for minor in (10..=15).filter(|minor| !has(*minor)) {
            not_allowed(&format!("samples of Python 3.{minor}: set STAGE2_TEST_PYTHONS to one"));
        }
        found
    })
}

/// Asks a program for its version and whether it is built without the GIL. `None` if no supported interpreter answers.
fn ask(path: PathBuf) -> Option<Python> {
    let words = "import sys; print(sys.version_info[1], int('t' in getattr(sys, 'abiflags', '')))";
    let output = Command::new(&path).args(["-I", "-c", words]).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (minor, free_threaded) = said.trim().split_once(' ')?;
    let minor = minor.parse().ok().filter(|minor| (10..=15).contains(minor))?;
    Some(Python { minor, is_free_threaded: free_threaded == "1", path })
}

fn with_gil() -> impl DoubleEndedIterator<Item = (u32, &'static Path)> {
    let found = found().iter().filter(|python| !python.is_free_threaded);
    found.map(|python| (python.minor, python.path.as_path()))
}

/// A build without the GIL.
pub(crate) fn free_threaded() -> Option<(u32, &'static Path)> {
    let mut found = found().iter().filter(|python| python.is_free_threaded);
    found.next().map(|python| (python.minor, python.path.as_path()))
}

/// The newest interpreter. `None`, with a message, if there is none.
pub(crate) fn any_python() -> Option<(u32, &'static Path)> {
    let newest = with_gil().next_back();
    if newest.is_none() {
        skipped("no Python 3.10 to 3.15: set STAGE2_TEST_PYTHONS to some");
    }
    newest
}

/// Runs `body` with each interpreter, one after the other: they measure times.
pub(crate) fn with_each(body: impl Fn(u32, &Path)) {
    if any_python().is_some() {
        with_gil().for_each(|(minor, path)| body(minor, path));
    }
}

/// Runs `body` with each interpreter, all at the same time.
pub(crate) fn with_each_at_once(body: impl Fn(u32, &Path) + Sync) {
    if any_python().is_some() {
        super::each(with_gil(), |(minor, path)| body(minor, path));
    }
}

pub(crate) fn guest(python: &Path, what: &str, seconds: &str) -> Guest {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/host.py");
    Guest::program(python)
        .argument(script)
        .argument(what)
        .argument(seconds)
        .env("STAGE2_HOST", "1000")
}

/// The values that the guest printed, by name.
pub(crate) fn said(left: &Left) -> BTreeMap<String, f64> {
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    left.stdout().lines().filter_map(line).collect()
}

/// The samples of a trace, with what they name.
pub(crate) struct Samples {
    pub(crate) samples: Vec<HostSample>,
    pub(crate) frames: BTreeMap<u32, HostFrame>,
    pub(crate) stacks: BTreeMap<u32, HostStack>,
    pub(crate) names: BTreeMap<u32, String>,
    pub(crate) tids: BTreeMap<u32, u32>,
    /// Names by the kernel's number.
    pub(crate) threads: BTreeMap<u32, String>,
    pub(crate) totals: HostSampling,
    /// The first and the last times of each thread, by the kernel's number.
    pub(crate) times: BTreeMap<u32, [HostThread; 2]>,
}

impl Samples {
    pub(crate) fn of(trace: &TraceFile) -> Self {
        let mut all = Samples {
            samples: Vec::new(),
            frames: BTreeMap::new(),
            stacks: BTreeMap::new(),
            names: BTreeMap::new(),
            tids: BTreeMap::new(),
            threads: BTreeMap::new(),
            totals: HostSampling::default(),
            times: BTreeMap::new(),
        };
        for record in &trace.records {
            match record {
                Record::Name { id, bytes } => {
                    all.names.insert(*id, String::from_utf8(bytes.clone()).expect("UTF-8"));
                }
                Record::Thread { id, os_tid, name } => {
                    all.tids.insert(*id, *os_tid);
                    if !name.is_empty() {
                        all.threads.insert(*os_tid, String::from_utf8_lossy(name).into_owned());
                    }
                }
                Record::HostFrame(frame) => {
                    assert!(
                        all.names.contains_key(&frame.function)
                            && all.names.contains_key(&frame.file)
                    );
                    all.frames.insert(frame.id, *frame);
                }
                Record::HostStack(stack) => {
                    assert!(stack.parent == 0 || all.stacks.contains_key(&stack.parent));
                    assert!(all.frames.contains_key(&stack.frame));
                    all.stacks.insert(stack.id, *stack);
                }
                Record::HostSamples(samples) => {
                    let known = |sample: &HostSample| {
                        sample.stack == 0 || all.stacks.contains_key(&sample.stack)
                    };
                    assert!(samples.iter().all(known), "a stack is defined before it is named");
                    all.samples.extend_from_slice(samples);
                }
                Record::HostSampling(totals) => all.totals = *totals,
                Record::HostThread(times) => {
                    // It may have had another number before it launched.
                    let tid = all.tids[&times.thread];
                    all.times.entry(tid).or_insert([*times; 2])[1] = *times;
                }
                _ => {}
            }
        }
        all
    }

    pub(crate) fn of_thread(&self, tid: f64) -> Vec<&HostSample> {
        let is = |sample: &&HostSample| {
            self.tids.get(&sample.thread).is_some_and(|of| f64::from(*of) == tid)
        };
        self.samples.iter().filter(is).collect()
    }

    /// Calls that block, in the order of the file.
    pub(crate) fn calls(&self, trace: &TraceFile) -> Vec<HostCall> {
        let calls = trace.each(|record| match record {
            Record::HostCalls(calls) => Some(calls.clone()),
            _ => None,
        });
        let calls = calls.concat();
        let is_known = |stack: u32| stack == 0 || self.stacks.contains_key(&stack);
        assert!(
            calls.iter().all(|call| is_known(call.stack) && self.names.contains_key(&call.name))
        );
        calls
    }

    /// Functions and lines, the innermost first.
    pub(crate) fn lines(&self, sample: &HostSample) -> Vec<(&str, u32)> {
        self.lines_of(sample.stack)
    }

    pub(crate) fn lines_of(&self, stack: u32) -> Vec<(&str, u32)> {
        let (mut lines, mut at) = (Vec::new(), stack);
        while let Some(stack) = self.stacks.get(&at) {
            let frame = self.frames[&stack.frame];
            lines.push((self.names[&frame.function].as_str(), frame.line));
            at = stack.parent;
        }
        lines
    }
}

/// The share of the time of samples for which the condition holds.
pub(crate) fn share(samples: &[&HostSample], holds: impl Fn(&HostSample) -> bool) -> f64 {
    let time = |samples: &mut dyn Iterator<Item = &&HostSample>| -> u64 {
        samples.map(|sample| sample.interval_ns).sum()
    };
    let part = time(&mut samples.iter().filter(|sample| holds(sample)));
    part as f64 / time(&mut samples.iter()) as f64
}
