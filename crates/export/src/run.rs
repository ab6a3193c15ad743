//! What is exported: the trace files of a run, and who wrote them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stage2_analysis::layout::COLLECTOR_DIR;
use stage2_analysis::load::events::{Span, TraceFile};
use stage2_analysis::load::libraries::LibraryDomains;
use stage2_analysis::load::spool::trace_files;
use stage2_analysis::{Settings, files};
use stage2_model::{ProcessRow, Report};
use stage2_spool::Device;
use stage2_text::visible_path;

use crate::ExportError;

/// The trace files of a run.
#[derive(Debug)]
pub struct Run {
    /// Name of the run, for titles.
    pub name: String,
    processes: Vec<Process>,
    gpus: Vec<Gpu>,
}

/// One traced process.
#[derive(Debug)]
pub struct Process {
    /// Its trace file.
    pub file: TraceFile,
    /// Its rank; nothing where it has none.
    pub rank: Option<u64>,
    /// Ranks of its job, as far as known.
    pub world_size: Option<u64>,
    /// A number that no other process of the run has: its process id where that is unique.
    pub pid: u32,
    /// The GPU of the run by the number that the process gives it.
    pub gpus: BTreeMap<u32, u32>,
}

/// A GPU of the run.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The host that it is in.
    pub host: String,
    /// What CUPTI says of it.
    pub device: Device,
}

/// Larger reports are none of ours.
const REPORT_LIMIT_BYTES: u64 = 1 << 30;

/// First number for a process whose own is taken: process ids are smaller.
const FIRST_STAND_IN: u32 = 1 << 23;

impl Run {
    /// The run whose bundle is in `run_dir`, with the trace files that its report counts (it leaves
    /// out copies).
    ///
    /// # Errors
    /// When the report or a trace file cannot be read, and when there is no trace file.
    pub fn of_bundle(run_dir: &Path) -> Result<Self, ExportError> {
        let path = run_dir.join("metrics.json");
        let text = files::read_text(&path, REPORT_LIMIT_BYTES).map_err(|error| error.to_string());
        let report = text.and_then(|text| {
            serde_json::from_str::<Report>(&text).map_err(|error| error.to_string())
        });
        let report =
            report.map_err(|why| ExportError::NoReport { path: visible_path(&path), why })?;
        // A folder that cannot be listed has no trace files; the error is that of an empty one.
        let all = trace_files(&run_dir.join(COLLECTOR_DIR)).unwrap_or_default();
        let counted = |path: &PathBuf| {
            let name = path.file_name().map_or("".into(), |name| name.to_string_lossy());
            let name = files::plain_name(&name);
            report.coverage.processes.iter().any(|process| process.file == name)
        };
        let files: Vec<PathBuf> = all.into_iter().filter(counted).collect();
        let name = report.run.name.clone();
        Self::open(name, &files, &Settings::of_run(run_dir).libraries, &report.processes)
    }

    /// The run that left `files`; `rows` say which rank wrote which of them.
    ///
    /// # Errors
    /// When a file cannot be read, and when there is none.
    pub fn open(
        name: String,
        files: &[PathBuf],
        libraries: &LibraryDomains,
        rows: &[ProcessRow],
    ) -> Result<Self, ExportError> {
        if files.is_empty() {
            return Err(ExportError::NoTraceFiles { run: name });
        }
        let mut run = Self { name, processes: Vec::new(), gpus: Vec::new() };
        for path in files {
            let file = TraceFile::open(path, libraries)?;
            let row = rows.iter().find(|row| row.file == file.file);
            run.add(file, row.and_then(|row| row.rank), row.and_then(|row| row.world_size));
        }
        Ok(run)
    }

    fn add(&mut self, file: TraceFile, rank: Option<u64>, world_size: Option<u64>) {
        let own = file.process.as_ref().map_or(0, |process| process.pid);
        let taken = own == 0 || self.processes.iter().any(|process| process.pid == own);
        let stand_in = FIRST_STAND_IN + self.processes.len() as u32;
        let pid = if taken { stand_in } else { own };
        let host = file.process.as_ref().map_or_else(String::new, |process| process.host.clone());
        let mut gpus = BTreeMap::new();
        for device in file.devices.values() {
            gpus.insert(device.id, self.gpu(&host, device));
        }
        self.processes.push(Process { file, rank, world_size, pid, gpus });
    }

    /// Processes of one host see the same GPU under numbers of their own.
    fn gpu(&mut self, host: &str, device: &Device) -> u32 {
        let same = |known: &Gpu| {
            let alike = if device.uuid == [0; 16] {
                known.device.id == device.id && known.device.name == device.name
            } else {
                known.device.uuid == device.uuid
            };
            known.host == host && alike
        };
        if let Some(known) = self.gpus.iter().position(same) {
            return known as u32;
        }
        self.gpus.push(Gpu { host: host.to_owned(), device: device.clone() });
        (self.gpus.len() - 1) as u32
    }

    /// Its processes.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Its GPUs.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// From the first to the last event of all processes.
    pub fn span(&self) -> Option<Span> {
        let spans = self.processes.iter().filter_map(|process| process.file.span);
        spans.reduce(|a, b| Span {
            start_ns: a.start_ns.min(b.start_ns),
            end_ns: a.end_ns.max(b.end_ns),
        })
    }
}

impl Process {
    /// How tools show it: its program, and its rank where it has one.
    pub fn title(&self) -> String {
        let process = self.file.process.as_ref();
        let exe = process.map_or("", |process| process.exe.rsplit('/').next().unwrap_or(""));
        let exe = if exe.is_empty() { self.file.file.as_str() } else { exe };
        match self.rank {
            Some(rank) => format!("rank {rank}: {exe}"),
            None => exe.to_owned(),
        }
    }

    /// Its host; empty: not known.
    pub fn host(&self) -> &str {
        self.file.process.as_ref().map_or("", |process| process.host.as_str())
    }

    /// The GPU of the run; the process's own number where the trace file does not describe it.
    pub fn gpu(&self, device: u32) -> u32 {
        self.gpus.get(&device).copied().unwrap_or(device)
    }

    /// What was lost, in a few words; nothing: all was recorded.
    pub fn losses(&self) -> Option<String> {
        let losses = &self.file.losses;
        let records = losses.cupti_dropped + losses.unreadable_records;
        let parts = [
            (records, "records lost"),
            (losses.unattributed, "unattributed"),
            (losses.invalid_timestamps, "without times"),
            (losses.spool_bytes_unwritten, "bytes not written"),
        ];
        let parts: Vec<String> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}
