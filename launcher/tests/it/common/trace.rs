//! Short words for the records of a synthetic process, and the reports of such processes.

use std::path::{Path, PathBuf};

use stage2_contract::trace::{
    Anchor, Device, GpuNs, GpuWork, MonoNs, NONE, Path as RangePath, Process, Queue, RangeOpen,
    Record, Shape, WallNs, What, Writer,
};
use stage2_launch::reports::Outcome;
use stage2_launch::reports::write_reports;
use stage2_model::finding::{Basis, Id};
use stage2_model::{EvidenceValue, Finding, Report, RunInfo, StageRow, Timelines};
use stage2_read::trace::{Capture, Tally};
use stage2_report::join::join;

/// Ranges are timed with a clock that is this far behind the GPU's.
pub(crate) const GPU_AHEAD_NS: u64 = 1_000_000;

#[derive(Default)]
pub(crate) struct Build {
    pub(crate) records: Vec<Record>,
    /// Where the writer flushes: after this many records.
    flushes: Vec<usize>,
}

impl Build {
    pub(crate) fn process(pid: u32, exe: &str) -> Self {
        let process = Process {
            pid,
            ppid: 1,
            host: "node-1".into(),
            exe: exe.into(),
            argv: vec![exe.into(), "-m".into(), "runner".into()],
            collector: "0.1.0".into(),
        };
        Self { records: vec![Record::Process(process)], flushes: Vec::new() }
    }

    pub(crate) fn add(&mut self, record: Record) -> &mut Self {
        self.records.push(record);
        self
    }

    pub(crate) fn meta(&mut self, key: &str, value: &str) -> &mut Self {
        self.add(Record::Meta { key: key.into(), value: value.into() })
    }

    pub(crate) fn anchor(&mut self, mono: u64) -> &mut Self {
        let anchor = Anchor {
            gpu: GpuNs(mono + GPU_AHEAD_NS),
            mono: MonoNs(mono),
            wall: WallNs(1_700_000_000_000_000_000 + mono),
        };
        self.add(Record::Anchor(anchor))
    }

    pub(crate) fn name(&mut self, id: u32, bytes: &[u8]) -> &mut Self {
        self.add(Record::Name { id, bytes: bytes.to_vec() })
    }

    /// A name that is optional: its identifier.
    pub(crate) fn domain(&mut self, id: u32, name: Option<&str>) -> u32 {
        let Some(name) = name else { return NONE };
        self.name(id, name.as_bytes());
        id
    }

    /// A device with its queue of the same number plus one.
    pub(crate) fn device(&mut self, id: u32, name: &str, uuid: u8) -> &mut Self {
        self.add(Record::Device(Device {
            id,
            name: name.into(),
            multiprocessors: 132,
            compute_capability: (9, 0),
            memory_bytes: 150_754_820_096,
            bandwidth_kb_per_s: 4_800_000_000,
            core_clock_khz: 1_980_000,
            l2_bytes: 62_914_560,
            uuid: if uuid == 0 { [0; 16] } else { std::array::from_fn(|i| uuid + i as u8) },
        }));
        self.queue(id + 1, id)
    }

    pub(crate) fn queue(&mut self, id: u32, device: u32) -> &mut Self {
        self.add(Record::Queue(Queue { id, device, context: 1, stream: 7 }))
    }

    pub(crate) fn shape(&mut self, id: u32, name: u32, blocks: u32) -> &mut Self {
        self.launch_shape(id, name, [blocks, 1, 1], [128, 1, 1])
    }

    pub(crate) fn launch_shape(
        &mut self,
        id: u32,
        name: u32,
        grid: [u32; 3],
        block: [u32; 3],
    ) -> &mut Self {
        self.add(Record::Shape(Shape {
            id,
            name,
            grid,
            block,
            static_shared_bytes: 0,
            dynamic_shared_bytes: 4096,
            registers_per_thread: 64,
            local_bytes_per_thread: 0,
        }))
    }

    pub(crate) fn path(&mut self, id: u32, parent: u32, name: u32) -> &mut Self {
        self.path_in(id, parent, name, NONE)
    }

    pub(crate) fn path_in(&mut self, id: u32, parent: u32, name: u32, domain: u32) -> &mut Self {
        self.add(Record::Path(RangePath { id, parent, name, domain }))
    }

    pub(crate) fn open(&mut self, range: u64, path: u32, parent: u64, start: u64) -> &mut Self {
        self.continues(range, path, parent, start, 0)
    }

    pub(crate) fn continues(
        &mut self,
        range: u64,
        path: u32,
        parent: u64,
        start: u64,
        continues: u64,
    ) -> &mut Self {
        self.add(Record::RangeOpen(RangeOpen {
            range,
            path,
            thread: 1,
            parent,
            start: MonoNs(start),
            start_end: continues != 0,
            category: 0,
            payload: None,
            continues,
        }))
    }

    pub(crate) fn close(&mut self, range: u64, end: u64) -> &mut Self {
        self.add(Record::RangeClose { range, end: MonoNs(end) })
    }

    /// A kernel; its times are given on the clock of the ranges.
    pub(crate) fn kernel(
        &mut self,
        range: u64,
        shape: u32,
        queue: u32,
        times: (u64, u64),
    ) -> &mut Self {
        self.node(range, shape, queue, times, 0)
    }

    pub(crate) fn node(
        &mut self,
        range: u64,
        shape: u32,
        queue: u32,
        times: (u64, u64),
        graph_node: u64,
    ) -> &mut Self {
        let kernel = GpuWork::new(What::Kernel { shape });
        self.work(GpuWork { queue, range, correlation: 1, graph_node, ..kernel }, times)
    }

    /// A kernel whose times CUPTI could not take.
    pub(crate) fn untimed(&mut self, range: u64, shape: u32, queue: u32) -> &mut Self {
        let kernel = GpuWork::new(What::Kernel { shape });
        self.add(Record::Work(GpuWork { queue, range, ..kernel }))
    }

    pub(crate) fn copy(
        &mut self,
        range: u64,
        kind: u8,
        bytes: u64,
        times: (u64, u64),
    ) -> &mut Self {
        let copy = GpuWork::new(What::Copy { bytes, kind });
        self.work(GpuWork { queue: 1, range, ..copy }, times)
    }

    pub(crate) fn fill(&mut self, range: u64, bytes: u64, times: (u64, u64)) -> &mut Self {
        let fill = GpuWork::new(What::Fill { bytes });
        self.work(GpuWork { queue: 1, range, ..fill }, times)
    }

    pub(crate) fn graph(&mut self, graph: u32, queue: u32, times: (u64, u64)) -> &mut Self {
        let launch = GpuWork::new(What::Graph { graph });
        self.work(GpuWork { queue, correlation: 9, ..launch }, times)
    }

    fn work(&mut self, work: GpuWork, (start, end): (u64, u64)) -> &mut Self {
        let [start, end] = [start, end].map(|mono| GpuNs(mono + GPU_AHEAD_NS));
        self.add(Record::Work(GpuWork { start, end, ..work }))
    }

    pub(crate) fn flush(&mut self) -> &mut Self {
        self.flushes.push(self.records.len());
        self
    }

    pub(crate) fn end(&mut self) -> &mut Self {
        self.add(Record::End { reason: "exit".into() })
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new()).expect("a vector takes anything");
        for (i, record) in self.records.iter().enumerate() {
            if self.flushes.contains(&i) {
                writer.flush().expect("a vector takes anything");
            }
            writer.write(record);
        }
        writer.flush().expect("a vector takes anything");
        writer.into_sink()
    }

    /// Ends the process; the report on it alone, written and read again.
    pub(crate) fn report(&mut self) -> Report {
        RunFolder::of([&*self.end()]).report()
    }

    pub(crate) fn save(&self, run_dir: &Path, file: &str) {
        let folder = run_dir.join("collector");
        std::fs::create_dir_all(&folder).expect("folder");
        std::fs::write(folder.join(file), self.bytes()).expect("a trace file");
    }
}

/// The report on several processes, without files.
pub(crate) fn report_of<'b>(builds: impl IntoIterator<Item = &'b mut Build>) -> Report {
    let read = |build: &mut Build| {
        let mut tally = Tally::default();
        build.records.drain(..).for_each(|record| tally.push(record));
        tally.finish()
    };
    let processes = builds.into_iter().map(read).collect();
    join(Capture { processes, ..Capture::default() }, RunInfo::default(), Vec::new())
}

#[track_caller]
pub(crate) fn stage<'r>(report: &'r Report, name: &str) -> &'r StageRow {
    report.stages.iter().find(|row| row.stage == name).expect(name)
}

pub(crate) fn takeaways(report: &Report) -> Vec<&str> {
    report.insight.takeaways.iter().map(|takeaway| takeaway.text.as_str()).collect()
}

/// Whether a finding has this part in what it says first.
pub(crate) fn finds(report: &Report, part: &str) -> bool {
    report.findings.iter().any(|finding| finding.what.contains(part))
}

/// The folder of a run that a test makes, and its reports.
pub(crate) struct RunFolder(tempfile::TempDir);

impl RunFolder {
    pub(crate) fn new() -> RunFolder {
        RunFolder(tempfile::tempdir().expect("folder"))
    }

    /// With the trace file of each process, by its place: `0.s2t`.
    pub(crate) fn of<'b>(processes: impl IntoIterator<Item = &'b Build>) -> RunFolder {
        let folder = RunFolder::new();
        for (at, process) in processes.into_iter().enumerate() {
            process.save(folder.0.path(), &format!("{at}.s2t"));
        }
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &RunFolder {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        std::fs::write(path, text).expect(name);
        self
    }

    #[track_caller]
    pub(crate) fn reports(&self) -> Outcome {
        let outcome = write_reports(self.0.path()).expect("reports");
        self.check_findings();
        outcome
    }

    /// In every report, each finding has an id, those on numbers have evidence, and each value of it stands at its place
    /// in metrics.json.
    #[track_caller]
    fn check_findings(&self) {
        // The file itself: `metrics` gives kernels as objects.
        let metrics: serde_json::Value =
            serde_json::from_str(&self.text("metrics.json")).expect("JSON");
        for found in metrics["findings"].as_array().into_iter().flatten() {
            let finding: Finding = serde_json::from_value(found.clone()).expect("a finding");
            let of_run = self.path("run.json").exists();
            assert!(finding.id != Id::Unnamed || of_run, "without an id: {found}");
            let of_other_run = finding.what.contains(" pass: ");
            let rests = finding.id.basis() != Basis::Numbers || !finding.evidence.is_empty();
            assert!(rests || of_other_run, "without evidence: {found}");
            for evidence in &finding.evidence {
                let there = metrics.pointer(&evidence.source);
                let there = there.unwrap_or_else(|| panic!("nothing there: {evidence:?}"));
                match &evidence.value {
                    EvidenceValue::Number(number) => assert_eq!(there.as_f64(), Some(*number)),
                    EvidenceValue::Flag(flag) => assert_eq!(there.as_bool(), Some(*flag)),
                    EvidenceValue::State(state) => assert_eq!(there.as_str(), Some(&**state)),
                }
            }
        }
    }

    #[track_caller]
    pub(crate) fn report(&self) -> Report {
        self.reports();
        let mut report = serde_json::from_str(&self.text("metrics.json")).expect("model");
        let timelines: Timelines =
            serde_json::from_str(&self.text("timelines.json")).expect("model");
        timelines.put_into(&mut report).expect("both are of one report");
        report
    }

    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> String {
        super::read(&self.path(name))
    }

    pub(crate) fn metrics(&self) -> serde_json::Value {
        super::json(&self.path("metrics.json"))
    }

    /// A page without the escapes of Markdown.
    pub(crate) fn plain(&self, name: &str) -> String {
        self.text(name).replace('\\', "")
    }
}
