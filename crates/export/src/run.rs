//! What is exported: the trace files of a run, and who wrote them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::numbers::count;
use stage2_contract::text::{listed, visible, visible_path};
use stage2_contract::trace::Device;
use stage2_model::{
    HostClock, HostStage, LateRow, ProcessRow, RankStageRow, SCHEMA, SCHEMA_VERSION,
};
use stage2_read::files;
use stage2_read::layout::COLLECTOR_DIR;
use stage2_read::trace::events::{Span, TraceFile, Traces};
use stage2_read::trace::libraries::RangeNames;

use crate::ExportError;

/// The trace files of a run.
#[derive(Debug)]
pub struct Run {
    /// Name of the run, for titles.
    pub name: String,
    processes: Vec<Process>,
    gpus: Vec<Gpu>,
    problems: Vec<String>,
    lost: Vec<String>,
    clocks: Option<String>,
    /// What its report states of all ranks together.
    pub conclusions: Conclusions,
}

/// What a report states of all ranks of a run together.
#[derive(Debug, Default)]
pub struct Conclusions {
    /// Each rank in each stage.
    pub rank_stages: Vec<RankStageRow>,
    /// Ranks that others waited for.
    pub late_ranks: Vec<LateRow>,
    /// What the host did while the GPU idled.
    pub idle_causes: Vec<HostStage>,
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

/// What of a report an export needs: the rest may be most of it.
#[derive(Debug, Deserialize)]
struct Known {
    schema: String,
    schema_version: u32,
    processes: Vec<ProcessRow>,
    ranks: KnownRanks,
    host: Option<KnownHost>,
}

#[derive(Debug, Deserialize)]
struct KnownRanks {
    #[serde(default)]
    host_clocks: Vec<HostClock>,
    #[serde(default)]
    stages: Vec<RankStageRow>,
    #[serde(default)]
    late: Vec<LateRow>,
}

#[derive(Debug, Deserialize)]
struct KnownHost {
    #[serde(default)]
    stages: Vec<HostStage>,
}

impl Known {
    /// The report at `path`, or why it cannot be used.
    fn read(path: &Path) -> Result<Self, String> {
        let text = files::read_text(path, REPORT_LIMIT_BYTES).map_err(|error| error.to_string())?;
        let known: Self = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if known.schema == SCHEMA && known.schema_version == SCHEMA_VERSION {
            return Ok(known);
        }
        let (schema, version) = (visible(known.schema.as_bytes()), known.schema_version);
        Err(format!(
            "it is of schema {schema}, version {version}; this program reads {SCHEMA}, version \
             {SCHEMA_VERSION}"
        ))
    }
}

/// Larger reports are none of ours.
const REPORT_LIMIT_BYTES: u64 = 1 << 30;

/// First number for a process whose own is taken: process ids are smaller.
const FIRST_STAND_IN: u32 = 1 << 23;
/// A machine has no more GPUs.
const LAST_GPU: u32 = 63;
/// Hosts that a line names.
const NAMED: usize = 5;

impl Run {
    /// The run whose bundle is in `run_dir`, with the trace files that its report counts;
    /// `libraries` are the NVTX domains whose ranges are not stages.
    ///
    /// # Errors
    /// When the report cannot be read, and when there is no trace file that can be read.
    pub fn of_bundle(run_dir: &Path, libraries: &RangeNames) -> Result<Self, ExportError> {
        let path = run_dir.join("metrics.json");
        let report = Known::read(&path)
            .map_err(|why| ExportError::NoReport { path: visible_path(&path), why })?;
        // Not the name in the report, which may be anything in a bundle of somebody else.
        let whole = run_dir.canonicalize().unwrap_or_else(|_| run_dir.to_owned());
        let name = whole.file_name().map_or("run".into(), |name| visible(name.as_encoded_bytes()));
        let mut traces = Traces::read(&run_dir.join(COLLECTOR_DIR), libraries);
        traces.correct(&report.ranks.host_clocks);
        let mut run = Self::of_traces(name, traces, &report.processes)?;
        run.clocks = run.clocks_of_hosts(&report.ranks.host_clocks);
        for row in &report.processes {
            if run.processes.iter().all(|process| process.file.name() != row.file) {
                let absent = format!("{}: it is in the report, and not in the bundle", row.file);
                run.problems.push(absent);
            }
        }
        for row in &report.processes {
            let files = run.processes.iter().filter(|process| process.file.name() == row.file);
            let left = files.map(|process| process.file.kernels()).fold(0, u64::saturating_add);
            if left < row.kernels {
                run.lost.push(format!(
                    "{}: {} of {} kernels are left",
                    visible(row.file.as_bytes()),
                    count(left),
                    count(row.kernels)
                ));
            }
        }
        run.conclusions = Conclusions {
            rank_stages: report.ranks.stages,
            late_ranks: report.ranks.late,
            idle_causes: report.host.map(|host| host.stages).unwrap_or_default(),
        };
        Ok(run)
    }

    /// The run that left `traces`; `rows` say which rank wrote which of them.
    ///
    /// # Errors
    /// When there is no trace file that can be read.
    pub fn of_traces(
        name: String,
        traces: Traces,
        rows: &[ProcessRow],
    ) -> Result<Self, ExportError> {
        if traces.files.is_empty() {
            let what: Vec<&str> = traces.problems.iter().map(|found| found.what.as_str()).collect();
            return Err(ExportError::NoTraceFiles { run: name, why: what.join("; ") });
        }
        let problems: Vec<String> = traces.problems.iter().map(ToString::to_string).collect();
        let (processes, gpus) = (Vec::new(), Vec::new());
        let conclusions = Conclusions::default();
        let lost = Vec::new();
        let mut run = Self { name, processes, gpus, problems, lost, clocks: None, conclusions };
        for file in traces.files {
            let row = rows.iter().find(|row| row.file == file.name());
            run.add(file, row);
        }
        run.clocks = run.clocks_of_hosts(&[]);
        Ok(run)
    }

    /// Why rows and sums of the trace files are not those of the report: files that were cut, damaged or removed since it
    /// was made. Nothing where they have all its kernels.
    pub fn lost(&self) -> Option<String> {
        (!self.lost.is_empty()).then(|| {
            format!(
                "trace files were cut, damaged or removed after the report was made: {}",
                listed(&self.lost, NAMED)
            )
        })
    }

    /// What is missing from the run: damaged or absent files, and what each process lost.
    pub(crate) fn missing(&self) -> Vec<String> {
        let of = |process: &Process| {
            let missing = process.file.missing();
            (!missing.is_empty()).then(|| format!("{}: {}", process.title(), missing.join("; ")))
        };
        self.problems.iter().cloned().chain(self.processes.iter().filter_map(of)).collect()
    }

    /// How far clocks of several hosts agree; nothing where all processes are of one host.
    pub fn clocks(&self) -> Option<&str> {
        self.clocks.as_deref()
    }

    fn clocks_of_hosts(&self, clocks: &[HostClock]) -> Option<String> {
        let hosts: BTreeSet<String> = self.processes.iter().map(Process::host).into_set();
        if hosts.len() < 2 {
            return None;
        }
        let known = |host: &String| clocks.iter().find(|clock| clock.host == *host);
        let error_ns = hosts.iter().filter_map(known).map(|clock| clock.error_ns).max();
        let untied = hosts.iter().filter(|host| known(host).is_none());
        let untied: Vec<String> = untied.map(|host| shown(host)).collect();
        let aligned = error_ns.map(|ns| {
            let micros = ns.div_ceil(1_000);
            format!("clocks of hosts were aligned by their collectives, to {micros} us at worst")
        });
        let apart = (!untied.is_empty()).then(|| {
            let more = untied.len().saturating_sub(NAMED);
            let named: Vec<&str> = untied.iter().take(NAMED).map(String::as_str).collect();
            let hosts = named.join(", ");
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "no collective ties the clocks of these hosts: {hosts}{more}; their times are on their own \
                 wall clocks, which may differ by milliseconds: do not compare starts across hosts"
            )
        });
        Some(aligned.into_iter().chain(apart).collect::<Vec<_>>().join("; "))
    }

    pub(crate) fn sample(&self) -> Option<String> {
        self.processes.iter().find_map(|process| process.file.sample()).map(str::to_owned)
    }

    fn add(&mut self, file: TraceFile, row: Option<&ProcessRow>) {
        let traced = file.process();
        let own = traced.map_or(0, |process| process.pid);
        let host = traced.map_or_else(String::new, |process| process.host.clone());
        let gpus = file.devices().map(|device| (device.id, self.gpu(&host, device))).collect();
        // Formats have GPUs and processes in one space of numbers; in a container, processes have
        // small ones.
        let taken = own <= LAST_GPU || self.processes.iter().any(|process| process.pid == own);
        let stand_in = FIRST_STAND_IN + self.processes.len() as u32;
        let pid = if taken { stand_in } else { own };
        let (rank, world_size) = row.map_or((None, None), |row| (row.rank, row.world_size));
        self.processes.push(Process { file, rank, world_size, pid, gpus });
    }

    /// Processes of one host see the same GPU under numbers of their own.
    fn gpu(&mut self, host: &str, device: &Device) -> u32 {
        let same = |known: &Gpu| {
            let named = known.device.id == device.id && known.device.name == device.name;
            let has_uuid = device.uuid != [0; 16];
            let alike = if has_uuid { known.device.uuid == device.uuid } else { named };
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
        let spans = self.processes.iter().filter_map(|process| process.file.span());
        spans.reduce(|a, b| Span {
            start_ns: a.start_ns.min(b.start_ns),
            end_ns: a.end_ns.max(b.end_ns),
        })
    }
}

fn shown(host: &str) -> String {
    if host.is_empty() { "(unknown)".to_owned() } else { visible(host.as_bytes()) }
}

impl Process {
    /// How tools show it: its program, and its rank where it has one.
    pub fn title(&self) -> String {
        let process = self.file.process();
        let exe = process.map_or("", |process| process.exe.rsplit('/').next().unwrap_or(""));
        let exe = if exe.is_empty() { self.file.name() } else { exe };
        match self.rank {
            Some(rank) => format!("rank {rank}: {}", visible(exe.as_bytes())),
            None => visible(exe.as_bytes()),
        }
    }

    /// Its host, as visible text; empty: not known.
    pub fn host(&self) -> String {
        self.file.process().map_or_else(String::new, |process| visible(process.host.as_bytes()))
    }

    /// The GPU of the run; the process's own number where the trace file does not describe it.
    pub fn gpu(&self, device: u32) -> u32 {
        self.gpus.get(&device).copied().unwrap_or(device)
    }
}
