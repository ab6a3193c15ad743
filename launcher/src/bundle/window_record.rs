//! A trace file of a window -> what `run.json` logs of it.

use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use stage2_contract::trace::{Ending, Losses, Record, WallNs, window};
use stage2_read::trace::file::Trace;

/// A window of recording: what a process recorded from a start to a stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Reads a trace file; its name in the bundle is `file`. A file of a process that records all its life
    /// is its first window.
    ///
    /// # Errors
    /// The file cannot be read.
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
    use stage2_contract::trace::{Anchor, GpuWork, Process, What, Writer};

    use super::*;

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
        let mut records = vec![
            Record::Process(process),
            at(1_000),
            meta("window", "3"),
            Record::Work(GpuWork::new(What::Kernel { shape: 1 })),
            Record::Work(GpuWork::new(What::Kernel { shape: 1 })),
            meta("window.ended", "limit steps=2"),
            at(2_500),
            Record::Losses(Losses {
                cupti_dropped: 4,
                spool_bytes_unwritten: 99,
                ..Losses::default()
            }),
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
