//! The median step of each stage -> what ran in it on the host and on the GPU, by a second pass over
//! the trace file that the step is in.

mod collect;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use collect::{StepEvents, Stop};
use stage2_model::{Finding, Report, Step, StepSeries, StepTimeline};
use stage2_read::trace::Capture;
use stage2_read::trace::events::TraceFile;
use stage2_read::trace::libraries::RangeNames;

/// Stages that get a timeline.
const STAGES: usize = 4;

/// Fills in the timelines of the series that know their median step. A file is read once, however
/// many of these steps it holds. What cannot be read again costs its own timelines, and a finding
/// says so.
pub(crate) fn add(report: &mut Report, capture: Capture, libraries: &RangeNames) {
    let chosen: Vec<(StepSeries, Step)> =
        chosen(report).into_iter().map(|(series, step)| (series.clone(), step)).collect();
    let mut by_file: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, (series, _)) in chosen.iter().enumerate() {
        by_file.entry(&series.file).or_default().push(at);
    }
    let mut timelines: Vec<(usize, StepTimeline)> = Vec::new();
    let mut captures: BTreeMap<String, _> =
        capture.processes.into_iter().map(|process| (process.file.clone(), process)).collect();
    for (name, wanted) in by_file {
        let failed = |why: String| {
            Finding::warning(
                format!("the timeline of the median step is missing for a stage of {name}"),
                why,
                "write the reports again with the trace file in its place",
            )
        };
        let Some(process) = captures.remove(name) else {
            report.findings.push(failed("the file is not among those that were read".into()));
            continue;
        };
        let file = TraceFile::of(process, libraries);
        let steps = wanted.iter().filter_map(|at| Some((*at, chosen.get(*at)?.1)));
        let mut steps: Vec<(usize, StepEvents)> =
            steps.map(|(at, step)| (at, StepEvents::of(step))).collect();
        let read = file.for_each(|event| {
            steps.iter_mut().for_each(|(_, step)| step.take(&event));
            if steps.iter().all(|(_, step)| step.is_over()) { Err(Stop::Over) } else { Ok(()) }
        });
        if let Err(Stop::Unreadable(error)) = read {
            report.findings.push(failed(error.to_string()));
            continue;
        }
        for (at, events) in steps {
            let Some((series, step)) = chosen.get(at) else { continue };
            match events.finish() {
                Some(timeline) => timelines.push((
                    at,
                    StepTimeline {
                        stage: series.stage.clone(),
                        path: series.path.clone(),
                        file: series.file.clone(),
                        step: *step,
                        ..timeline
                    },
                )),
                None => report.findings.push(failed(format!("it holds no range {}", step.range))),
            }
        }
    }
    timelines.sort_by_key(|(at, _)| *at);
    report.step_timelines = timelines.into_iter().map(|(_, timeline)| timeline).collect();
}

/// One series of each stage of the model, the stages with the longest time first.
fn chosen(report: &Report) -> Vec<(&StepSeries, Step)> {
    let mut stages: Vec<_> = report.stages.iter().filter(|row| row.apart.is_none()).collect();
    stages.sort_by_key(|row| Reverse(row.gpu_window_ns.max(row.host_total_ns)));
    let series = stages.iter().filter_map(|row| {
        let mut of_stage = report.step_series.iter().filter(|series| series.stage == row.stage);
        of_stage.find_map(|series| Some((series, series.median?)))
    });
    series.take(STAGES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_contract::trace::{
        Anchor, GpuNs, GpuWork, MonoNs, NONE, Path, Queue, RangeOpen, Record, Shape, WallNs, What,
        Writer,
    };
    use stage2_model::StageRow;
    use stage2_read::trace::folder::load_folder;

    /// Behind the host's clock by this much, so that a mix-up of the clocks shows.
    const GPU_AHEAD_NS: u64 = 1_000_000_000;

    struct Trace(Vec<Record>);

    impl Trace {
        /// A stage `decode` with a range `layer` within it, and two streams.
        fn new() -> Self {
            let mut records = Vec::new();
            let (gpu, mono) = (GpuNs(GPU_AHEAD_NS + 1), MonoNs(1));
            records.push(Record::Anchor(Anchor { gpu, mono, wall: WallNs(1_700_000_000) }));
            for (id, name) in [(1, "decode"), (2, "layer"), (3, "cutlass_gemm_bf16"), (4, "other")]
            {
                records.push(Record::Name { id, bytes: name.into() });
            }
            for (id, stream) in [(1, 7), (2, 13)] {
                records.push(Record::Queue(Queue { id, device: 0, context: 1, stream }));
            }
            records.push(Record::Shape(Shape { id: 1, name: 3, ..Shape::default() }));
            for (id, parent, name) in [(1, NONE, 1), (2, 1, 2), (3, NONE, 4)] {
                records.push(Record::Path(Path { id, parent, name, domain: NONE }));
            }
            Self(records)
        }

        fn open(&mut self, range: u64, path: u32, parent: u64, start: u64) -> &mut Self {
            self.0.push(Record::RangeOpen(RangeOpen {
                range,
                path,
                thread: 1,
                parent,
                start: MonoNs(start),
                ..RangeOpen::default()
            }));
            self
        }

        fn close(&mut self, range: u64, end: u64) -> &mut Self {
            self.0.push(Record::RangeClose { range, end: MonoNs(end) });
            self
        }

        fn kernel(&mut self, range: u64, queue: u32, start: u64, end: u64) -> &mut Self {
            let (start, end) = (GpuNs(start + GPU_AHEAD_NS), GpuNs(end + GPU_AHEAD_NS));
            let work = GpuWork::new(What::Kernel { shape: 1 });
            self.0.push(Record::Work(GpuWork { start, end, queue, range, ..work }));
            self
        }

        /// The timeline of range `range` of `decode`, and the findings.
        fn timeline(&self, range: u64) -> (Option<StepTimeline>, Vec<Finding>) {
            let folder = tempfile::tempdir().expect("folder");
            let mut writer = Writer::new(Vec::new()).expect("a vector takes anything");
            self.0.iter().for_each(|record| writer.write(record));
            writer.flush().expect("a vector takes anything");
            std::fs::write(folder.path().join("a.s2t"), writer.into_sink()).expect("trace file");
            let libraries = RangeNames::default();
            let capture = load_folder(folder.path(), &libraries);
            let median = Some(Step { number: 1, range, host_ns: 1_000 });
            let stage = "decode".to_owned();
            let series = StepSeries {
                stage: stage.clone(),
                file: "a.s2t".into(),
                median,
                ..StepSeries::default()
            };
            let mut report = Report {
                stages: vec![StageRow { stage, ..StageRow::default() }],
                step_series: vec![series],
                ..Report::default()
            };
            add(&mut report, capture, &libraries);
            (report.step_timelines.pop(), report.findings)
        }
    }

    #[test]
    fn holds_the_step_and_nothing_of_its_neighbours() {
        let mut trace = Trace::new();
        trace.open(1, 1, 0, 100).kernel(1, 1, 110, 120).close(1, 1_000);
        trace.open(2, 1, 0, 200_000).open(3, 2, 2, 200_100).open(4, 3, 0, 200_150);
        trace.kernel(3, 1, 200_200, 210_200).kernel(4, 2, 200_000, 290_000);
        trace.close(4, 200_160).close(3, 200_300).close(2, 300_000);
        trace.open(5, 1, 0, 300_100).kernel(5, 1, 300_150, 300_200);
        // Work comes late, and ends behind the step.
        trace.kernel(2, 2, 240_200, 290_200).kernel(3, 1, 310_000, 320_000).close(5, 400_000);
        let (timeline, findings) = trace.timeline(2);
        assert_eq!(findings, []);
        let found = timeline.expect("a timeline");
        assert_eq!((found.length_ns, found.left_out), (120_000, 0));
        let ranges: Vec<_> = (found.ranges.iter())
            .map(|r| (found.names[r.name].as_str(), r.depth, r.start_ns, r.length_ns))
            .collect();
        assert_eq!(ranges, [("decode", 0, 0, 100_000), ("layer", 1, 100, 200)]);
        let lanes: Vec<_> = (found.lanes.iter())
            .map(|lane| {
                let work = lane.work.iter().map(|w| (w.start_ns, w.length_ns)).collect::<Vec<_>>();
                (lane.label.as_str(), work)
            })
            .collect();
        assert_eq!(
            lanes,
            [
                ("GPU 0, stream 7", vec![(200, 10_000), (110_000, 10_000)]),
                ("GPU 0, stream 13", vec![(40_200, 50_000)]),
            ]
        );
        assert_eq!(found.lanes[0].work[0].class, "gemm");
        let gaps: Vec<_> = found.gaps.iter().map(|g| (g.start_ns, g.length_ns, g.launch)).collect();
        // Before the first work the GPU waits for the host; 50 us are as long as a launch gap can be.
        assert_eq!(gaps, [(0, 200, false), (10_200, 30_000, true), (90_200, 19_800, true)]);
    }

    #[test]
    fn the_longest_work_is_kept_and_the_rest_counted() {
        let mut trace = Trace::new();
        trace.open(2, 1, 0, 100);
        for i in 0..4_100 {
            trace.kernel(2, 1, 1_000 + i * 100, 1_000 + i * 100 + 1 + i % 50);
        }
        for i in 0..1_100 {
            trace.open(3 + i, 2, 2, 1_000 + i * 10).close(3 + i, 1_005 + i * 10);
        }
        trace.close(2, 500_000);
        let found = trace.timeline(2).0.expect("a timeline");
        let work = &found.lanes[0].work;
        assert_eq!((work.len(), found.ranges.len()), (4_000, 1_000));
        assert_eq!(found.left_out, 100 + 101, "the step itself is one of the ranges");
        assert!(work.is_sorted_by_key(|work| work.start_ns));
        assert!(work.iter().all(|work| work.length_ns > 1), "the shortest are left out");
        assert_eq!(found.ranges[0].depth, 0, "the step itself stays");
        // The sums are of all of it, and so are those of the gaps.
        let all: u64 = (0..4_100).map(|i| 1 + i % 50).sum();
        let [sum] = &found.sums.work[..] else { panic!("{:?}", found.sums) };
        assert_eq!((sum.calls, sum.total_ns, sum.class.as_str()), (4_100, all, "gemm"));
        assert_eq!(sum.name.map(|at| found.names[at].as_str()), Some("cutlass_gemm_bf16"));
        let gaps = found.sums.launch_gaps_ns + found.sums.other_idle_ns;
        assert_eq!((found.sums.whole, gaps), (true, found.length_ns - all));
        let drawn: u64 = found.gaps.iter().map(|gap| gap.length_ns).sum();
        assert!(drawn < gaps, "4,000 gaps are drawn: {drawn} of {gaps}");
    }

    #[test]
    fn work_that_comes_long_after_younger_ranges_is_still_of_the_step() {
        const LONG: u64 = 20_000_000_000;
        let mut trace = Trace::new();
        trace.open(2, 1, 0, 100).close(2, 1_000);
        trace.open(3, 1, 0, LONG).close(3, LONG + 1_000);
        trace.kernel(2, 1, 200, 300).kernel(3, 1, LONG + 100, LONG + 200);
        // What comes behind much younger work is not read.
        trace.kernel(2, 1, 400, 500);
        let found = trace.timeline(2).0.expect("a timeline");
        let work: Vec<_> = found.lanes[0].work.iter().map(|w| (w.start_ns, w.length_ns)).collect();
        assert_eq!(work, [(100, 100)]);
    }

    #[test]
    fn a_step_that_is_not_in_its_file_is_a_finding() {
        let mut trace = Trace::new();
        trace.open(1, 1, 0, 100).close(1, 200);
        let (timeline, findings) = trace.timeline(99);
        assert_eq!(timeline, None);
        assert!(findings[0].what.contains("a.s2t") && findings[0].why.contains("99"));
    }

    #[test]
    fn a_step_without_recorded_work_has_no_gaps() {
        let mut trace = Trace::new();
        trace.open(1, 1, 0, 100).close(1, 200);
        let found = trace.timeline(1).0.expect("a timeline");
        assert_eq!((found.length_ns, found.lanes.len(), found.gaps.len()), (100, 0, 0));
    }
}
