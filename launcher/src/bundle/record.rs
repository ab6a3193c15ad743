//! What ran, how it ended and what is missing <-> `run.json`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::COLLECTOR_DIR;
use crate::plan::quote;
use crate::redaction;
use stage2_contract::trace::{Ending, Losses, Record, WallNs, window};
use stage2_model::{Finding, PassStatus, ProcessRow, RunState, Tool, WorkloadExit};
use stage2_read::files::{self, write_whole};
use stage2_read::trace::file::Trace;

/// Name of the file in the bundle.
pub const RUN_JSON: &str = "run.json";
/// The program of the built-in workload.
pub(crate) const DEMO: &str = "stage2-demo";

/// A larger file is not a run record: the longest part is a list of 10,000 files.
const MAX_BYTES: u64 = 64 << 20;

/// The version of the format that this program writes. Version 2: the status of a pass states how its
/// workload ended; in version 1 it is `ok` however that was.
pub const SCHEMA: u32 = 2;

/// Contents of `run.json`. Written when the run starts and again after every step, so that it is
/// true at any moment, also of a run that was killed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunRecord {
    /// Version of this format, [`SCHEMA`].
    pub schema: u32,
    /// Version of the program that wrote it.
    pub stage2_version: String,
    /// How far the run came. Records of older versions do not say.
    #[serde(default)]
    pub state: RunState,
    /// Name of the run: that of its folder.
    pub run_id: String,
    /// When the run started: RFC 3339, UTC.
    pub started: String,
    /// When the last pass ended: RFC 3339, UTC; none while one runs, and for ever when
    /// stage2-launch was killed. The reports are written after that.
    pub finished: Option<String>,
    /// The command of the user: the words after `--`. Bytes that are not UTF-8 are replaced.
    pub command: Vec<String>,
    /// How the workload ended in the collect pass; none when it was never started.
    pub workload_exit: Option<WorkloadExit>,
    /// Whether the GPU was a simulated one: then no number says anything about real hardware.
    #[serde(default)]
    pub simulated: bool,
    /// Processes that the workload left behind and that ran when the reports were written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_running: Vec<u32>,
    /// Folder of the run of another stage2-launch that the workload has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_run: Option<String>,
    /// All passes of the plan, in order.
    #[serde(default)]
    pub passes: Vec<PassRecord>,
    /// The tools that took part, by name.
    #[serde(default)]
    pub tools: BTreeMap<String, Tool>,
    /// What the run found missing, or to be read with care.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// What the reports found beyond that; replaced as a whole when they are written again.
    #[serde(default)]
    pub report_findings: Vec<Finding>,
    /// Traced processes of the collect pass, with rank, host and GPU, as the report states them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessRow>,
    /// What the reports cover, as the report states it; null before there is one.
    #[serde(default)]
    pub coverage: serde_json::Value,
    /// What doctor knows of a run without GPU work; none: there was some, or doctor was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doctor: Option<DoctorNote>,
    /// The workload was started dormant: the reports are those of its windows, in `windows/`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dormant: bool,
    /// The windows that were recorded, of all processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowRecord>,
    /// Files of the bundle, relative to its folder.
    #[serde(default)]
    pub files: Vec<String>,
    /// Who set each key of `config.yaml`: a preset, the command line or the program. Records of older
    /// versions do not say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub origins: BTreeMap<String, String>,
}

/// What doctor knows of a run without GPU work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorNote {
    /// Problems and warnings that fit the cause, each with what to do.
    pub found: Vec<String>,
    /// The command that makes all checks.
    pub next: String,
}

/// One pass over the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PassRecord {
    /// `collect`, ...
    pub name: String,
    /// What was run. Bytes that are not UTF-8 are replaced.
    pub argv: Vec<String>,
    /// Variables that were set for it, beyond the environment of stage2-launch.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Variables of the collector that the user had set, and that were left as they are.
    #[serde(default)]
    pub environment_kept: BTreeMap<String, String>,
    /// How far it came.
    pub status: PassStatus,
    /// How its process ended; none when it was not started.
    pub exit: Option<WorkloadExit>,
    /// When it started: RFC 3339, UTC.
    pub started: Option<String>,
    /// How long its process lived, milliseconds.
    pub duration_ms: Option<u64>,
    /// Files that hold its output, relative to the bundle; none when it went to the terminal only.
    #[serde(default)]
    pub log: Vec<String>,
    /// Files that `merge` took in: their names here, and where they were.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub merged: BTreeMap<String, String>,
    /// Why it failed, was skipped or was ended; may be empty.
    #[serde(default)]
    pub why: String,
    /// Why the program of the workload did not load the collector; none: it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_loaded: Option<String>,
}

impl RunRecord {
    /// Whether the workload failed although nobody ended it.
    pub(crate) fn failed_by_itself(&self) -> bool {
        let collect = self.passes.iter().find(|pass| pass.name == "collect");
        collect.is_some_and(|pass| pass.status == PassStatus::WorkloadFailed)
    }

    /// A record of a run that starts now.
    pub fn new(run_id: String, command: Vec<String>) -> RunRecord {
        RunRecord {
            schema: SCHEMA,
            stage2_version: env!("CARGO_PKG_VERSION").to_owned(),
            run_id,
            state: RunState::Running,
            started: now(),
            command,
            ..RunRecord::default()
        }
    }

    /// Whether the built-in workload ran on the simulated GPU.
    pub(crate) fn is_demo(&self) -> bool {
        let program = self.command.first().and_then(|word| Path::new(word).file_name());
        self.simulated && program.is_some_and(|name| name == DEMO)
    }

    /// Reads the record of the bundle in `run_dir`.
    ///
    /// # Errors
    /// No such file, or one that this program cannot read.
    pub fn read(run_dir: &Path) -> anyhow::Result<RunRecord> {
        let path = run_dir.join(RUN_JSON);
        let text = files::read(&path, MAX_BYTES)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        // What the parser says helps nobody who did not write the file.
        let Ok(mut record) = serde_json::from_slice::<RunRecord>(&text) else {
            let traces = run_dir.join(COLLECTOR_DIR);
            let merge = match traces.is_dir() {
                true => format!(
                    "; `stage2-launch merge --spool {} -o DIR` reports its traces",
                    quote(traces)
                ),
                false => "; copy the run again, or name another one".to_owned(),
            };
            anyhow::bail!("{} is not a run record, or is damaged{merge}", path.display());
        };
        anyhow::ensure!(
            record.schema <= SCHEMA,
            "{} has version {} of the format, this program reads up to {SCHEMA}; use a newer one",
            path.display(),
            record.schema
        );
        // Versions without redaction wrote them as they were. Those of this run come without secrets:
        // they are many, and the record is written often.
        record.origins = redaction::variables(&record.origins);
        Ok(record)
    }

    /// Writes the record into the bundle in `run_dir`: a reader sees the old one or this one.
    pub(crate) fn write(&self, run_dir: &Path) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(&self.redacted()).context(RUN_JSON)?;
        write_whole(&run_dir.join(RUN_JSON), &format!("{json}\n"))
    }

    fn redacted(&self) -> RunRecord {
        let pass = |pass: &PassRecord| PassRecord {
            argv: redaction::words(&pass.argv),
            environment: redaction::variables(&pass.environment),
            environment_kept: redaction::variables(&pass.environment_kept),
            why: redaction::text(&pass.why),
            ..pass.clone()
        };
        RunRecord {
            command: redaction::words(&self.command),
            passes: self.passes.iter().map(pass).collect(),
            findings: redaction::findings(&self.findings),
            report_findings: redaction::findings(&self.report_findings),
            ..self.clone()
        }
    }
}

/// The time, RFC 3339 in UTC, to the millisecond.
pub(crate) fn now() -> String {
    let now = jiff::Timestamp::now();
    let rounded = now.round(jiff::Unit::Millisecond).unwrap_or(now);
    format!("{rounded:.3}")
}

/// A window of recording: what a process recorded from a start to a stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindowRecord {
    /// The process, as it is numbered in its own namespace.
    pub pid: u32,
    /// Its host, or its container.
    pub host: String,
    /// From 1, in the process.
    pub number: u64,
    /// When it began: RFC 3339, UTC; none: the file does not say.
    pub began: Option<String>,
    /// When it was last written to.
    pub ended: Option<String>,
    /// Why the window ended: `stop`, a limit, or `exit`; none: it was still on, or the process was killed
    /// within it.
    pub why: Option<String>,
    /// Its trace file, relative to the bundle.
    pub file: String,
    /// Records of GPU work in it.
    pub records: u64,
    /// Things that were lost, of any kind.
    pub lost: u64,
    /// The trace file was copied while the window was on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub snapshot: bool,
}

impl WindowRecord {
    /// Reads a trace file; `file` is its name in the bundle. A whole recording is the first window.
    pub(crate) fn read(path: &Path, file: String) -> anyhow::Result<WindowRecord> {
        let mut window = WindowRecord { number: 1, file, ..WindowRecord::default() };
        let mut trace = Trace::open(path)?;
        let mut losses = Losses::default();
        let (mut incomplete, mut set, mut late) = (0, None, 0);
        for record in trace.by_ref() {
            match record.with_context(|| path.display().to_string())? {
                Record::Process(process) => {
                    (window.pid, window.host) = (process.pid, process.host);
                }
                Record::Meta { key, value } => match key.as_str() {
                    window::NUMBER => window.number = value.parse().unwrap_or(window.number),
                    window::ENDED => window.why = Some(value),
                    window::AT => set = value.parse().ok(),
                    window::LATE => late = value.parse().unwrap_or(0),
                    "gpu.incomplete" => incomplete = 1,
                    _ => {}
                },
                Record::Anchor(anchor) => {
                    let at = time(anchor.wall);
                    window.began = window.began.or_else(|| at.clone());
                    window.ended = at.or(window.ended);
                }
                Record::Work(_) => window.records += 1,
                Record::Losses(now) => losses = now,
                Record::End { reason } if window.why.is_none() => window.why = Some(reason),
                _ => {}
            }
        }
        // Its file was opened before the moment that was set for it.
        let begun = set.map(|set: u64| time(WallNs(set.saturating_add(late))));
        window.began = begun.unwrap_or(window.began);
        window.lost = lost(&losses) + incomplete + u64::from(trace.skipped().corrupt_frames > 0);
        if trace.end() != Ending::Complete {
            window.why = None;
        }
        Ok(window)
    }
}

/// As the collector counts what it lost.
fn lost(losses: &Losses) -> u64 {
    [
        losses.cupti_dropped,
        losses.range_events,
        losses.unreadable_records,
        losses.late_switches,
        losses.beyond_limits,
        losses.calls_turned_away,
        u64::from(losses.spool_bytes_unwritten > 0),
    ]
    .iter()
    .sum()
}

fn time(at: WallNs) -> Option<String> {
    let at = jiff::Timestamp::from_nanosecond(i128::from(at.0)).ok().filter(|_| at.0 > 0)?;
    Some(format!("{:.3}", at.round(jiff::Unit::Millisecond).unwrap_or(at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_contract::trace::{Anchor, GpuWork, Process, What, Writer};

    #[test]
    fn the_format_is_stable() {
        let mut record = RunRecord::new("id".into(), vec!["python".into()]);
        record.workload_exit = Some(WorkloadExit::Signal(9));
        let json = serde_json::to_value(&record).expect("JSON");
        assert_eq!(json["workload_exit"], serde_json::json!({"signal": 9}));
        let started = json["started"].as_str().unwrap_or_default();
        assert!(started.len() == 24 && started.ends_with('Z'), "{json}");
        assert_eq!(serde_json::from_value::<RunRecord>(json).expect("record"), record);
    }

    #[test]
    fn only_bundles_are_read() {
        let dir = tempfile::tempdir().expect("folder");
        let read = || RunRecord::read(dir.path()).map(|_| ()).map_err(|e| format!("{e:#}"));
        assert!(read().is_err_and(|e| e.contains("run.json cannot be read")));
        for (text, hint) in [("{", "name another one"), ("{\"schema\": 1}", "reports its traces")] {
            std::fs::write(dir.path().join(RUN_JSON), text).expect("write");
            assert!(read().is_err_and(|e| e.ends_with(hint)), "{text}");
            // Its traces are named where they are.
            std::fs::create_dir_all(dir.path().join(COLLECTOR_DIR)).expect("folder");
        }
        let mut newer = RunRecord::new("id".into(), Vec::new());
        newer.schema = SCHEMA + 1;
        std::fs::write(dir.path().join(RUN_JSON), serde_json::to_vec(&newer).expect("JSON"))
            .expect("write");
        assert!(read().is_err_and(|e| e.contains("newer")));
    }

    fn file(records: &[Record]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut writer = Writer::new(file.reopen().expect("a file")).expect("a trace file");
        records.iter().for_each(|record| writer.write(record));
        writer.flush().expect("room");
        file
    }

    #[test]
    fn a_trace_file_says_which_window_it_holds_and_why_that_ended() {
        let meta = |key: &str, value: &str| Record::Meta { key: key.into(), value: value.into() };
        let at =
            |ms: u64| Record::Anchor(Anchor { wall: WallNs(ms * 1_000_000), ..Anchor::default() });
        let process = Process { pid: 7, host: "node".into(), ..Process::default() };
        let losses = Losses { cupti_dropped: 4, spool_bytes_unwritten: 99, ..Losses::default() };
        let mut records = vec![
            Record::Process(process),
            at(1_000),
            meta("window", "3"),
            Record::Work(GpuWork::new(What::Kernel { shape: 1 })),
            Record::Work(GpuWork::new(What::Kernel { shape: 1 })),
            meta("window.ended", "limit steps=2"),
            at(2_500),
            Record::Losses(losses),
        ];
        let open = file(&records);
        let read = |file: &tempfile::NamedTempFile| {
            WindowRecord::read(file.path(), "collector/a.s2t".into()).expect("readable")
        };
        assert_eq!(read(&open).why, None, "it did not end in order");
        let mut set = records.clone();
        set.extend([meta("window.at_unix_ns", "1500000000"), meta("window.late_ns", "40000000")]);
        assert_eq!(read(&file(&set)).began.as_deref(), Some("1970-01-01T00:00:01.540Z"));
        records.push(Record::End { reason: "limit steps=2".into() });
        let expected = WindowRecord {
            pid: 7,
            host: "node".into(),
            number: 3,
            began: Some("1970-01-01T00:00:01.000Z".into()),
            ended: Some("1970-01-01T00:00:02.500Z".into()),
            why: Some("limit steps=2".into()),
            file: "collector/a.s2t".into(),
            records: 2,
            lost: 5,
            snapshot: false,
        };
        assert_eq!(read(&file(&records)), expected);
    }

    #[test]
    fn what_is_no_trace_file_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(WindowRecord::read(file.path(), String::new()).is_err());
    }
}
