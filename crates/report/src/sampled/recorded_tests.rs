//! A recorded LLM decode on an H200 (24 eager steps in one range, and replays of the same network as a
//! CUDA graph) as a trace file: the operands of its projections say what has to come out.

use std::io::BufReader;
use std::path::Path;

use super::tests::Trace;
use stage2_contract::trace::{
    CounterSamples, CounterSet, Device, GpuNs, GpuWork, MAX_SAMPLES, MonoNs, RangeOpen, Record,
    Shape, What,
};
use stage2_model::{Report, SampledAmount, SampledStage};

/// Steps of the recorded decode.
const STEPS: f64 = 24.0;

fn lines(name: &str) -> Vec<Vec<f64>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/counter_fit/data").join(name);
    let file = std::fs::File::open(&data).expect("the recording is beside the tests of the fit");
    let mut text = Vec::new();
    lzma_rs::xz_decompress(&mut BufReader::new(file), &mut text).expect("a whole recording");
    let text = String::from_utf8(text).expect("text");
    let numbers = |line: &str| line.split(',').map(|word| word.parse().expect("number")).collect();
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
        let SampledAmount::Known { value, low, high } = *found else { panic!("{kind}: {found:?}") };
        assert!((value / 1e6 / megabytes - 1.0).abs() < 0.03, "{kind}: {value:.4e}");
        assert!(low <= value && value <= high, "{kind}: {found:?}");
    }
    // Without issue and tensor activity, what holds a kernel up is not known.
    assert!(
        report.kernels.iter().filter_map(|row| row.sampled.as_ref()).all(|s| s.bound.is_none())
    );
}
