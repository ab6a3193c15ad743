//! Traces made by hand, whose numbers are known exactly.

use super::*;
use crate::join::join_kept;
use stage2_contract::trace::{
    Anchor, CounterSamples, CounterSet, Device, DeviceState, GpuNs, GpuWork, MonoNs, NONE, Path,
    Process, Queue, RangeOpen, Record, Shape, WallNs, What, Writer,
};
use stage2_model::{RunInfo, SampledRates, SampledStage};
use stage2_read::trace::folder::load_folder;

const READ: &str = "dram__bytes_read.sum";
const WRITE: &str = "dram__bytes_write.sum";
const TENSOR: &str = "sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed";
/// Times are in us from here on, which leaves room for samples before the work.
const ZERO: u64 = 1_000_000;

/// A process with stages `a` and `b`, a range `step` within `a`, and two GPUs with a queue each.
pub(super) struct Trace(pub(super) Vec<Record>);

impl Trace {
    pub(super) fn new() -> Self {
        let mut trace = Self(vec![Record::Process(Process { pid: 7, ..Process::default() })]);
        let mono = |at| Anchor { gpu: GpuNs(at), mono: MonoNs(at), wall: WallNs(at) };
        trace.0.push(Record::Anchor(mono(1)));
        for (id, name) in [(1, "a"), (2, "b"), (3, "step"), (4, "gemm")] {
            trace.0.push(Record::Name { id, bytes: name.into() });
        }
        for id in [0, 1] {
            let device = Device { id, uuid: [id as u8 + 1; 16], ..Device::default() };
            let bandwidth_kb_per_s = 1_000_000_000;
            trace.0.push(Record::Device(Device { bandwidth_kb_per_s, ..device }));
            trace.0.push(Record::Queue(Queue { id: id + 1, device: id, context: 1, stream: 7 }));
        }
        for (id, parent, name) in [(1, NONE, 1), (2, NONE, 2), (3, 1, 3)] {
            trace.0.push(Record::Path(Path { id, parent, name, domain: NONE }));
        }
        trace.0.push(Record::Shape(Shape { id: 1, name: 4, ..Shape::default() }));
        trace
    }

    fn open(&mut self, range: u64, path: u32, parent: u64, start: u64) -> &mut Self {
        self.0.push(Record::RangeOpen(RangeOpen {
            range,
            path,
            thread: 1,
            parent,
            start: MonoNs(at(start)),
            ..RangeOpen::default()
        }));
        self
    }

    fn close(&mut self, range: u64, end: u64) -> &mut Self {
        self.0.push(Record::RangeClose { range, end: MonoNs(at(end)) });
        self
    }

    /// A stage with one kernel on the GPU of `queue`.
    fn stage(&mut self, range: u64, path: u32, queue: u32, start: u64, end: u64) -> &mut Self {
        self.open(range, path, 0, start).kernel(range, queue, start, end).close(range, end)
    }

    fn kernel(&mut self, range: u64, queue: u32, start: u64, end: u64) -> &mut Self {
        let work = GpuWork::new(What::Kernel { shape: 1 });
        let (start, end) = (GpuNs(at(start)), GpuNs(at(end)));
        self.0.push(Record::Work(GpuWork { start, end, queue, range, ..work }));
        self
    }

    fn set(&mut self, id: u32, device: u32, metrics: &[&str]) -> &mut Self {
        let metrics = metrics.iter().map(|&name| name.to_owned()).collect();
        self.0.push(Record::CounterSet(CounterSet { id, device, interval_ns: 100_000, metrics }));
        self
    }

    /// Samples from `start` on, 100 us each.
    fn samples(&mut self, set: u32, start: u64, values: &[&[f64]]) -> &mut Self {
        let span = |n: usize| {
            let start = start + n as u64 * 100;
            (GpuNs(at(start)), GpuNs(at(start + 100)))
        };
        let spans = (0..values.len()).map(span).collect();
        let values = values.concat();
        self.0.push(Record::CounterSamples(CounterSamples { set, spans, values }));
        self
    }

    fn save(&self, folder: &std::path::Path) {
        let mut writer = Writer::new(Vec::new()).expect("a vector takes anything");
        self.0.iter().for_each(|record| writer.write(record));
        writer.flush().expect("a vector takes anything");
        std::fs::write(folder.join("a.s2t"), writer.into_sink()).expect("trace file");
    }

    pub(super) fn report(&self) -> Report {
        self.report_beside(None)
    }

    /// `collected`: a run of its own, which all that was not sampled is of.
    fn report_beside(&self, collected: Option<&Trace>) -> Report {
        let [folder, own] = [(); 2].map(|()| tempfile::tempdir().expect("folder"));
        let libraries = RangeNames::default();
        collected.unwrap_or(self).save(folder.path());
        let mut capture = load_folder(folder.path(), &libraries);
        let mut report = join_kept(&mut capture, RunInfo::default(), Vec::new()).0;
        self.save(own.path());
        add(&mut report, &load_folder(own.path(), &libraries), &libraries);
        report
    }

    fn sampled(&self) -> SampledCounters {
        self.report().sampled.expect("samples")
    }
}

fn at(us: u64) -> u64 {
    (ZERO + us) * 1_000
}

fn stage<'s>(found: &'s SampledCounters, name: &str) -> &'s SampledStage {
    found.stages.iter().find(|row| row.stage == name).expect(name)
}

/// Values are kept within 0.14 %, and edges are cut by the share of their time.
fn near(value: Option<f64>, wanted: f64) -> bool {
    value.is_some_and(|value| (value / wanted - 1.0).abs() < 0.025)
}

#[test]
fn samples_at_the_edges_count_by_the_share_of_their_time() {
    let mut trace = Trace::new();
    // 250 us: a quarter of the first sample, two whole ones, and a quarter of the last.
    trace.set(1, 0, &[READ, WRITE, TENSOR]);
    trace.stage(1, 1, 1, 75, 325);
    trace.samples(
        1,
        0,
        &[&[4e6, 1e6, 8.0], &[8e6, 0.0, 64.0], &[8e6, 0.0, 64.0], &[4e6, 1e6, 8.0]],
    );
    let found = trace.sampled();
    let a = stage(&found, "a");
    assert_eq!((a.gpu_window_ns, a.covered_ns, a.instances), (250_000, 250_000, 1));
    assert!(!a.partial && a.contested_percent == 0.0);
    let SampledRates { dram_read_bytes_per_s, dram_write_bytes_per_s, tensor_percent, .. } =
        a.rates;
    assert!(near(dram_read_bytes_per_s, (1e6 + 8e6 + 8e6 + 1e6) / 250e-6), "{:?}", a.rates);
    assert!(near(dram_write_bytes_per_s, 0.5e6 / 250e-6), "{:?}", a.rates);
    assert!(near(tensor_percent, (8.0 * 50.0 + 64.0 * 200.0) / 250.0), "{:?}", a.rates);
    assert!(near(a.rates.dram_percent, (18e6 + 0.5e6) / 250e-6 / 1e12 * 100.0));
    assert_eq!(a.rates.l2_bytes_per_s, None, "absent is not zero");
}

#[test]
fn gaps_and_unknown_values_lower_the_coverage_and_change_no_rate() {
    let mut trace = Trace::new();
    trace.set(1, 0, &[READ, TENSOR]).stage(1, 1, 1, 0, 1_000);
    let nan = f64::NAN;
    trace.samples(1, 0, &[&[8e6, 50.0], &[8e6, nan]]).samples(
        1,
        500,
        &[&[8e6, 50.0], &[8e6, 50.0]],
    );
    let found = trace.sampled();
    let a = stage(&found, "a");
    assert_eq!((a.gpu_window_ns, a.covered_ns), (1_000_000, 400_000));
    assert!(a.partial, "40 % of it is covered");
    assert!(near(a.rates.dram_read_bytes_per_s, 80e9) && near(a.rates.tensor_percent, 50.0));
    assert_eq!(found.devices[0].unusable_values, 0, "not known is no fault");
}

#[test]
fn a_sample_that_holds_work_of_two_stages_counts_for_none() {
    let mut trace = Trace::new();
    trace.set(1, 0, &[READ]).stage(1, 1, 1, 0, 350).stage(2, 2, 1, 310, 600);
    trace.samples(1, 0, &[&[1e6], &[1e6], &[1e6], &[9e9], &[4e6], &[4e6]]);
    // Work outside of ranges counts like that of another stage.
    trace.kernel(0, 1, 510, 520);
    let found = trace.sampled();
    let (a, b) = (stage(&found, "a"), stage(&found, "b"));
    assert_eq!((a.gpu_window_ns, a.covered_ns), (350_000, 300_000));
    assert!((a.contested_percent - 100.0 / 7.0).abs() < 1e-9 && a.partial);
    assert!(near(a.rates.dram_read_bytes_per_s, 1e6 / 100e-6));
    assert_eq!((b.gpu_window_ns, b.covered_ns), (290_000, 100_000));
    assert!(near(b.rates.dram_read_bytes_per_s, 4e6 / 100e-6));
}

#[test]
fn each_gpu_has_numbers_of_its_own() {
    let mut trace = Trace::new();
    trace.set(1, 0, &[READ]).set(2, 1, &[READ, TENSOR]);
    trace.open(1, 1, 0, 0).kernel(1, 1, 0, 200).kernel(1, 2, 100, 300).close(1, 300);
    trace.samples(1, 0, &[&[1e6], &[1e6]]).samples(2, 100, &[&[3e6, 10.0], &[3e6, 10.0]]);
    let found = trace.sampled();
    let rates: Vec<_> = (found.stages.iter())
        .map(|row| (row.covered_ns, row.rates.dram_read_bytes_per_s, row.rates.tensor_percent))
        .collect();
    let [first, second] = rates[..] else { panic!("{rates:?}") };
    assert!(first.0 == 200_000 && near(first.1, 10e9) && first.2.is_none(), "{first:?}");
    assert!(second.0 == 200_000 && near(second.1, 30e9) && near(second.2, 10.0), "{second:?}");
    assert_ne!(found.stages[0].device, found.stages[1].device);
}

#[test]
fn steps_have_medians_of_their_own() {
    let mut trace = Trace::new();
    trace.set(1, 0, &[READ]).open(1, 1, 0, 0);
    for step in 0..5 {
        let (range, start) = (2 + step, step * 200);
        trace.open(range, 3, 1, start).kernel(range, 1, start, start + 200);
        trace.close(range, start + 200);
    }
    trace.close(1, 1_000);
    // The last step has samples for a half of it only.
    let values: Vec<[f64; 1]> = (0..9).map(|at| [f64::from(1 << (at / 2)) * 1e6]).collect();
    trace.samples(1, 0, &values.iter().map(|value| &value[..]).collect::<Vec<_>>());
    let found = trace.sampled();
    let steps = stage(&found, "a").steps.as_ref().expect("steps");
    assert_eq!((steps.path.as_str(), steps.count, steps.covered), ("a/step", 5, 4));
    assert!(near(steps.dram_read_bytes, 8e6), "2 MB are of the first, cold step: {steps:?}");
    assert_eq!(steps.each.len(), 5);
    let number = steps.median.as_ref().map(|curve| curve.number);
    assert_eq!(number, Some(2), "of 1, 2 and 3: the first, cold step is left out");
    assert!((steps.each[4].coverage_percent - 50.0).abs() < 1e-9);
}

/// Hazard (Dormant processes and windows): A process launches GPU work before and after a window
///  with hardware counters.
/// Promise: That work has no records, and does not count as another process's.
#[test]
fn nobody_else_may_use_the_gpu() {
    let idle = |bytes: f64| {
        let mut trace = Trace::new();
        trace.set(1, 0, &[READ, WRITE]).stage(1, 1, 1, 0, 200);
        let one = [bytes, 0.0];
        trace.samples(1, 0, &[&[9e6, 0.0], &[9e6, 0.0]]).samples(1, 300, &[&one[..]; 40]);
        trace
    };
    let quiet = idle(800.0).sampled();
    assert_eq!(quiet.devices[0].omitted, None);
    assert!(near(quiet.devices[0].idle_dram_bytes_per_s, 8e6));
    // 50 GB/s of 1 TB/s.
    let busy = idle(5e6).sampled();
    assert!(
        busy.devices[0].omitted.as_ref().is_some_and(|why| why.contains("100 % of the samples"))
    );
    assert!(busy.stages.is_empty());
    // Before and behind a window of a process that runs on, work of its own has no record.
    let mut window = idle(5e6);
    let (key, value) = ("window.began".to_owned(), "start".to_owned());
    window.0.push(Record::Meta { key, value });
    assert_eq!(window.sampled().devices[0].omitted, None);
    window.stage(2, 1, 1, 4_150, 4_250);
    let between = window.sampled();
    assert!(between.devices[0].omitted.as_ref().is_some_and(|why| why.contains("100 %")));
    let mut watched = idle(800.0);
    let state = DeviceState { other_processes: Some(1), ..DeviceState::default() };
    watched.0.push(Record::DeviceState(state));
    let found = watched.sampled();
    assert!(
        found.devices[0].omitted.as_ref().is_some_and(|why| why.starts_with("1 other process"))
    );
    assert!(found.stages.is_empty());
}

#[test]
fn a_copy_that_another_gpu_has_the_record_of_is_no_other_process() {
    let arriving = |received: f64| {
        let mut trace = Trace::new();
        let metrics = [READ, WRITE, "nvlrx__bytes.sum"];
        trace.set(1, 0, &metrics).stage(1, 1, 1, 0, 200);
        let one = [0.0, 5e6, received];
        let work = [9e6, 0.0, 0.0];
        trace.samples(1, 0, &[&work, &work]).samples(1, 300, &[&one[..]; 40]);
        trace.sampled()
    };
    assert_eq!(arriving(5.3e6).devices[0].omitted, None);
    assert!(arriving(1e3).devices[0].omitted.is_some(), "nothing came over the link");
}

#[test]
fn samples_without_kernels_and_kernels_without_samples() {
    let mut trace = Trace::new();
    trace.set(1, 0, &[READ]).samples(1, 0, &[&[1e6], &[1e6]]);
    let found = trace.sampled();
    assert_eq!((found.devices[0].samples, found.stages.len()), (2, 0));
    let mut trace = Trace::new();
    trace.stage(1, 1, 1, 0, 200);
    assert_eq!(trace.report().sampled, None, "nobody asked for samples");
    let (key, value) = (counters::OFF.to_owned(), "no permission; do this".to_owned());
    trace.0.push(Record::Meta { key, value });
    let report = trace.report();
    let found = report.sampled.expect("a reason");
    assert_eq!(found.devices[0].omitted.as_deref(), Some("no permission; do this"));
    assert!(report.findings.iter().any(|f| f.why == "no permission" && f.remedy == "do this"));
}

#[test]
fn hostile_samples_are_counted_and_left_out() {
    let mut trace = Trace::new();
    trace.set(1, 0, &[READ, TENSOR]).stage(1, 1, 1, 0, 400);
    let samples = |set, spans: &[(u64, u64)], values: &[f64]| {
        let spans = spans.iter().map(|&(start, end)| (GpuNs(start), GpuNs(end))).collect();
        Record::CounterSamples(CounterSamples { set, spans, values: values.to_vec() })
    };
    // Later ones first; one on top of another; one beyond all time; a share that cannot be.
    trace.samples(1, 200, &[&[1e6, 20.0], &[1e6, 500.0]]).samples(
        1,
        0,
        &[&[1e6, 20.0], &[1e6, 20.0]],
    );
    trace.0.push(samples(1, &[(at(50), at(150))], &[9e12, 90.0]));
    trace.0.push(samples(1, &[(at(100_000_000), u64::MAX)], &[1e300, 20.0]));
    // A set that nobody defines.
    trace.0.push(samples(9, &[(at(0), at(100))], &[1e6, 20.0]));
    let report = trace.report();
    let found = report.sampled.expect("samples");
    let device = &found.devices[0];
    assert_eq!((device.samples, device.unusable_samples, device.unusable_values), (5, 1, 2));
    let a = stage(&found, "a");
    assert_eq!(a.covered_ns, 400_000);
    assert!(near(a.rates.dram_read_bytes_per_s, 10e9) && near(a.rates.tensor_percent, 20.0));
    let told = |what: &str| report.findings.iter().any(|finding| finding.what.contains(what));
    assert!(
        told("1 counter samples of a.s2t cannot be used") && told("1 counter samples and 2 values")
    );
}

#[test]
fn a_report_keeps_a_bounded_number_of_samples() {
    // Three samples: times take as much room as four values.
    let mut store = store::Store::with_limit(18);
    let metrics = vec![READ.to_owned(), WRITE.to_owned(), "gpc__cycles_elapsed.max".to_owned()];
    store.define(&CounterSet { id: 1, device: 0, interval_ns: 1, metrics });
    let samples = |count: u64| CounterSamples {
        set: 1,
        spans: (1..=count).map(|n| (GpuNs(n), GpuNs(n + 1))).collect(),
        values: vec![1.0; count as usize * 3],
    };
    store.add(&samples(5));
    // As many values as the set says, or the record says nothing.
    store.add(&CounterSamples { values: vec![1.0; 4], ..samples(2) });
    let series = &store.finish().series[0];
    assert_eq!((series.spans.len(), series.values.len()), (3, 6));
    assert_eq!((series.left_out, series.unusable_samples), (2, 2));
    // With one metric as well, most of which are the times.
    let mut store = store::Store::with_limit(18);
    let metrics = vec![READ.to_owned()];
    store.define(&CounterSet { id: 1, device: 0, interval_ns: 1, metrics });
    store.add(&CounterSamples { values: vec![1.0; 5], ..samples(5) });
    assert_eq!(store.finish().series[0].left_out, 2);
}

#[test]
fn metrics_that_no_report_reads_are_no_damage() {
    let mut trace = Trace::new();
    trace.set(1, 0, &["gpc__cycles_elapsed.max"]).stage(1, 1, 1, 0, 200);
    trace.samples(1, 0, &[&[1e5], &[1e5]]);
    let report = trace.report();
    let found = report.sampled.as_ref().expect("samples");
    let device = &found.devices[0];
    assert_eq!((device.samples, device.unusable_samples, found.stages.len()), (2, 0, 0));
    let why = device.omitted.as_ref().expect("a reason");
    assert!(why.contains("none of the metrics that were sampled"), "{why}");
    assert!(report.findings.iter().all(|f| !f.why.contains("damaged")), "{:?}", report.findings);
}

#[test]
fn shares_of_a_kernel_are_of_the_run_that_was_sampled() {
    // 80 us a call in the collect pass, 100 us in the counters pass.
    let run = |us: u64| {
        let mut trace = Trace::new();
        trace.set(1, 0, &[READ, WRITE, TENSOR]).open(1, 1, 0, 0);
        for call in 0..60 {
            trace.kernel(1, 1, call * 200, call * 200 + us);
        }
        trace.close(1, 12_000);
        trace
    };
    let mut sampled = run(100);
    let values: Vec<_> =
        (0..120).map(|at| if at % 2 == 0 { [30e6, 20e6, 60.0] } else { [0.0, 0.0, 0.0] }).collect();
    sampled.samples(1, 0, &values.iter().map(|value| &value[..]).collect::<Vec<_>>());
    let report = sampled.report_beside(Some(&run(80)));
    let [row] = &report.kernels[..] else { panic!("{:?}", report.kernels) };
    assert_eq!(row.times.mean_ns, Some(80_000));
    let found = row.sampled.as_ref().expect("a fit");
    assert_eq!(found.mean_ns, Some(100_000.0));
    // 50 MB in 100 us of 1 TB/s.
    assert!(near(found.dram_percent, 50.0) && near(found.tensor_percent, 60.0), "{found:?}");
}

#[test]
fn what_the_collector_lost_is_told_of_the_gpu_that_lost_it() {
    let mut trace = Trace::new();
    trace.set(1, 0, &[READ]).set(2, 1, &[READ]);
    trace.open(1, 1, 0, 0).kernel(1, 1, 0, 200).kernel(1, 2, 0, 200).close(1, 200);
    trace.samples(1, 0, &[&[1e6], &[1e6]]).samples(2, 0, &[&[1e6], &[1e6]]);
    let facts =
        [(counters::OVERFLOWS, "2"), (counters::LOST_NS, "1500000"), (counters::SAMPLES_LOST, "9")];
    for (key, value) in facts {
        let (key, value) = (counters::of_device(key, 1), value.to_owned());
        trace.0.push(Record::Meta { key, value });
    }
    let report = trace.report();
    let found = report.sampled.as_ref().expect("samples");
    let lost: Vec<_> = (found.devices.iter())
        .map(|device| (device.overflows, device.lost_ns, device.samples_lost))
        .collect();
    assert_eq!(lost, [(None, None, None), (Some(2), Some(1_500_000), Some(9))]);
    let told: Vec<_> = report.findings.iter().map(|finding| finding.what.as_str()).collect();
    for what in ["not sampled for 1.50 ms (2 gaps)", "9 counter samples of"] {
        assert_eq!(told.iter().filter(|told| told.contains(what)).count(), 1, "{told:?}");
    }
}

#[test]
fn of_a_run_in_parts_only_samples_within_one_part_count() {
    // Of the steps within a stage the first and the third are recorded, with work without a record
    // before, between and behind.
    let mut trace = Trace::new();
    trace.set(1, 0, &[READ]).open(1, 1, 0, 0);
    for (step, recorded) in [true, false, true].into_iter().enumerate() {
        let (range, start) = (2 + step as u64, 150 + step as u64 * 400);
        trace.open(range, 3, 1, start).0.push(Record::RangeSample { range, recorded });
        if recorded {
            // The second piece of work is of a range within.
            trace.kernel(range, 1, start, start + 100);
            trace.open(range + 10, 3, range, start).kernel(range + 10, 1, start + 150, start + 400);
            trace.close(range + 10, start + 400);
        }
        trace.close(range, start + 400);
    }
    trace.close(1, 1_400);
    // Parts are from 150 to 550 us, and from 950 to 1350.
    let foreign = 1e9;
    let values: Vec<[f64; 1]> =
        (0..15).map(|at| if matches!(at, 2..=4 | 10..=12) { [2e6] } else { [foreign] }).collect();
    trace.samples(1, 0, &values.iter().map(|value| &value[..]).collect::<Vec<_>>());
    let found = trace.sampled();
    let device = &found.devices[0];
    assert_eq!((device.samples, device.samples_unrecorded), (6, Some(9)));
    let a = stage(&found, "a");
    assert!(near(a.rates.dram_read_bytes_per_s, 20e9), "{:?}", a.rates);
    let steps = a.steps.as_ref().expect("steps");
    assert!(
        steps.each.iter().all(|step| near(step.rates.dram_read_bytes_per_s, 20e9)),
        "{steps:?}"
    );
    // All of a run that is recorded as a whole counts.
    trace.0.retain(|record| !matches!(record, Record::RangeSample { .. }));
    let whole = trace.sampled();
    assert_eq!((whole.devices[0].samples, whole.devices[0].samples_unrecorded), (15, None));
}

#[test]
fn parts_that_are_shorter_than_a_sample_have_no_numbers_and_are_told() {
    let mut trace = Trace::new();
    trace.set(1, 0, &[READ]).open(1, 1, 0, 10);
    trace.0.push(Record::RangeSample { range: 1, recorded: true });
    trace.kernel(1, 1, 10, 90).close(1, 90).samples(1, 0, &[&[1e6], &[1e6]]);
    let report = trace.report();
    let found = report.sampled.as_ref().expect("samples");
    assert_eq!(stage(found, "a").rates, SampledRates::default());
    let told = |f: &&Finding| f.what.contains("is of recorded work only");
    let finding = report.findings.iter().find(told).expect("a finding");
    assert!(finding.why.contains("(2 samples)"), "{}", finding.why);
}

/// A recorded LLM decode on an H200 (24 eager steps in one range, and replays of the same network as a
/// CUDA graph) as a trace file: the operands of its projections say what has to come out.
mod recorded {
    use std::io::BufReader;
    use std::path::Path;

    use crate::sampled::tests::Trace;
    use stage2_contract::trace::{
        CounterSamples, CounterSet, Device, GpuNs, GpuWork, MAX_SAMPLES, MonoNs, RangeOpen, Record,
        Shape, What,
    };
    use stage2_model::{Report, SampledAmount, SampledStage};

    /// Steps of the recorded decode.
    const STEPS: f64 = 24.0;

    fn lines(name: &str) -> Vec<Vec<f64>> {
        let data =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../counter-fit/tests/it/data").join(name);
        let file =
            std::fs::File::open(&data).expect("the recording is beside the tests of the fit");
        let mut text = Vec::new();
        lzma_rs::xz_decompress(&mut BufReader::new(file), &mut text).expect("a whole recording");
        let text = String::from_utf8(text).expect("text");
        let numbers =
            |line: &str| line.split(',').map(|word| word.parse().expect("number")).collect();
        text.lines().skip(1).map(numbers).collect()
    }

    /// The recording as a trace file: its stages are `a` (eager) and `b` (graph), and a kernel of kind N has
    /// N blocks.
    fn report() -> Report {
        let mut trace = Trace::new();
        // H200.
        trace.0.push(Record::Device(Device {
            id: 0,
            uuid: [1; 16],
            bandwidth_kb_per_s: 4_800_000_000,
            ..Device::default()
        }));
        let metrics = ["dram__bytes_read.sum", "dram__bytes_write.sum"].map(str::to_owned).to_vec();
        trace.0.push(Record::CounterSet(CounterSet {
            id: 1,
            device: 0,
            interval_ns: 100_000,
            metrics,
        }));
        for rows in lines("samples.csv.xz").chunks(MAX_SAMPLES) {
            let span = |row: &Vec<f64>| (GpuNs(row[0] as u64), GpuNs((row[0] + row[1]) as u64));
            let spans = rows.iter().map(span).collect();
            let values = rows.iter().flat_map(|row| [row[2], row[3]]).collect();
            trace.0.push(Record::CounterSamples(CounterSamples { set: 1, spans, values }));
        }
        let kernels = lines("kernels.csv.xz");
        for (range, path) in [(1, 1), (2, 2)] {
            let start = MonoNs(1);
            trace.0.push(Record::RangeOpen(RangeOpen {
                range,
                path,
                thread: 1,
                parent: 0,
                start,
                ..RangeOpen::default()
            }));
        }
        for kind in 0..256 {
            let (id, grid) = (100 + kind, [kind, 1, 1]);
            trace.0.push(Record::Shape(Shape { id, name: 4, grid, ..Shape::default() }));
        }
        let mut start = 0;
        for row in kernels {
            start += row[0] as u64;
            let work = GpuWork::new(What::Kernel { shape: 100 + row[2] as u32 });
            let (from, end) = (GpuNs(start), GpuNs(start + row[1] as u64));
            let range = 1 + row[3] as u64;
            trace.0.push(Record::Work(GpuWork { start: from, end, queue: 1, range, ..work }));
        }
        for range in [1, 2] {
            trace.0.push(Record::RangeClose { range, end: MonoNs(900_000_000) });
        }
        trace.report()
    }

    fn stage<'r>(report: &'r Report, name: &str) -> &'r SampledStage {
        let sampled = report.sampled.as_ref().expect("samples");
        sampled.stages.iter().find(|row| row.stage == name).expect(name)
    }

    /// Bytes that a call of a kind reads in a stage.
    fn read_bytes<'r>(report: &'r Report, stage: &str, kind: u32) -> &'r SampledAmount {
        let is_it = |launch: stage2_model::Launch| launch.grid == [kind, 1, 1];
        let mut rows = report.kernels.iter().filter(|row| row.stage == stage);
        let row = rows.find(|row| row.launch.is_some_and(is_it)).expect("a row");
        &row.sampled.as_ref().expect("samples").dram_read_bytes
    }

    #[test]
    fn a_recorded_decode_reads_its_weights() {
        let report = report();
        let decode = stage(&report, "a");
        assert!(decode.coverage_percent > 99.9 && !decode.partial, "{}", decode.coverage_percent);
        let rate = decode.rates.dram_read_bytes_per_s.expect("sampled");
        let of_step = rate * decode.gpu_window_ns as f64 / 1e9 / STEPS;
        assert!((of_step / 1.68e9 - 1.0).abs() < 0.02, "{of_step:.4e} bytes of a step");
        let share = decode.rates.dram_percent.expect("the peak is known");
        assert!((0.9 * rate..1.2 * rate).contains(&(share / 100.0 * 4.8e12)), "{share}");
        // Operands of the gate and up projection, the q and o projection, the k and v projection.
        for (kind, megabytes) in [(97, 23.07), (86, 8.39), (87, 4.19)] {
            let found = read_bytes(&report, "a", kind);
            let SampledAmount::Known { value, low, high } = *found else {
                panic!("{kind}: {found:?}")
            };
            assert!((value / 1e6 / megabytes - 1.0).abs() < 0.03, "{kind}: {value:.4e}");
            assert!(low <= value && value <= high, "{kind}: {found:?}");
        }
        // Without issue and tensor activity, what holds a kernel up is not known.
        assert!(
            report.kernels.iter().filter_map(|row| row.sampled.as_ref()).all(|s| s.bound.is_none())
        );
    }
}
