//! Counters that were sampled in one light run, on every page: what stages and kernels read, what holds
//! kernels up, and why there is none of it where somebody else used the GPU.

use crate::common::trace::{Build, GPU_AHEAD_NS, RunFolder, finds};
use crate::report::utilisation::CONFIG;
use stage2_contract::trace::{CounterSamples, CounterSet, GpuNs, NONE, Record};
use stage2_model::{Bound, Report};

const METRICS: [&str; 4] = [
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed",
];
/// Steps, and the time from one to the next, us: no multiple of a sample's.
const STEPS: u64 = 200;
const PERIOD: u64 = 1_370;
/// Kernels of a step: start and end in it, us, bytes read per us, percent of the tensor pipe.
const KERNELS: [(u64, u64, f64, f64); 2] =
    [(50, 660, 3_300_000.0, 2.0), (700, 1_100, 20_000.0, 90.0)];
const SAMPLE: u64 = 100;

/// When a step starts, us: the pauses are not all alike, which tells the kernels apart.
fn start(step: u64) -> u64 {
    1_000 + step * PERIOD + step * step % 291
}

fn run(pid: u32) -> Build {
    let mut b = Build::process(pid, "python3");
    b.anchor(1).device(0, "NVIDIA H200", 1).name(1, b"decode").path(1, NONE, 1);
    b.name(2, b"reads").name(3, b"cutlass_gemm").shape(1, 2, 8).shape(2, 3, 16);
    let metrics = METRICS.map(str::to_owned).to_vec();
    let interval_ns = SAMPLE * 1_000;
    b.add(Record::CounterSet(CounterSet { id: 1, device: 0, interval_ns, metrics }));
    for step in 0..STEPS {
        let (range, from) = (step + 1, start(step) * 1_000);
        b.open(range, 1, 0, from);
        for (shape, (start, end, ..)) in (1..).zip(KERNELS) {
            b.kernel(range, shape, 1, (from + start * 1_000, from + end * 1_000));
        }
        b.close(range, from + 1_200_000);
    }
    let all = start(STEPS) / SAMPLE + 30;
    let time = |us: u64| GpuNs(us * 1_000 + GPU_AHEAD_NS);
    let spans = (1..all).map(|at| (time(at * SAMPLE), time((at + 1) * SAMPLE))).collect();
    let values = (1..all).flat_map(sample).collect();
    b.add(Record::CounterSamples(CounterSamples { set: 1, spans, values }));
    b.end();
    b
}

/// What the kernels do within a sample.
fn sample(at: u64) -> [f64; 4] {
    let (from, to) = (at * SAMPLE, (at + 1) * SAMPLE);
    let (mut read, mut tensor) = (0.0, 0.0);
    for step in 0..STEPS {
        for (begin, end, bytes, percent) in KERNELS {
            let (begin, end) = (start(step) + begin, start(step) + end);
            let us = end.min(to).saturating_sub(begin.max(from)) as f64;
            read += us * bytes;
            tensor += us * percent / SAMPLE as f64;
        }
    }
    [read, 0.0, tensor, 5.0]
}

fn written(processes: &[Build]) -> (RunFolder, Report) {
    let config = CONFIG.replace("bf16: 0.001", "bf16: 989.5");
    let folder = RunFolder::of(processes);
    folder.write("config.yaml", config.replace("gb_per_s: 1", "gb_per_s: 4800"));
    let metrics = r#"{"batch_size": 1, "prompt_tokens": 3, "decode_steps": 1}"#;
    let report = folder.write("stage1/metrics.json", metrics).report();
    (folder, report)
}

#[test]
fn one_light_run_says_what_holds_its_kernels_up() {
    let (folder, report) = written(&[run(1)]);
    let sampled = report.sampled.as_ref().expect("samples");
    let stage = &sampled.stages[0];
    assert!(stage.coverage_percent > 99.9 && stage.instances == STEPS, "{stage:?}");
    let of_step = 610.0 * 3_300_000.0 + 400.0 * 20_000.0;
    let read = stage.steps.as_ref().and_then(|steps| steps.dram_read_bytes).expect("steps");
    assert!((0.9..1.1).contains(&(read / of_step)), "{read} of {of_step}");
    let rows: Vec<_> = (report.kernels.iter())
        .map(|row| (row.kernel.as_str(), row.sampled.as_ref().expect("a fit")))
        .collect();
    for (kernel, bytes, bound) in [
        ("reads", 610.0 * 3_300_000.0, Bound::Memory),
        ("cutlass_gemm", 400.0 * 20_000.0, Bound::Compute),
    ] {
        let (_, found) = rows.iter().find(|(name, _)| *name == kernel).expect(kernel);
        let known = found.dram_read_bytes.between();
        let (low, high) = known.unwrap_or_else(|| panic!("{found:?}"));
        assert!(low * 0.97 <= bytes && bytes <= high * 1.03, "{kernel}: {found:?}");
        assert_eq!(found.bound, Some(bound), "{kernel}: {found:?}");
    }
    let page = |name: &str| folder.text(name);
    let report_md = page("report.md");
    for text in ["## Sampled counters", "DRAM read (GB/s)", "reads", "90 % interval"] {
        assert!(report_md.contains(text), "{text}");
    }
    assert!(page("kernels.md").contains("memory (sampled)"));
    let header = page("kernels.csv");
    assert!(header.lines().next().is_some_and(|line| line.contains("sampled_dram_read_bytes,")));
    assert!(page("kernels.csv").contains(",sampled,"), "the source of the bound");
    assert!(page("report.html").contains("Sampled counters over the median "));
    // The model has to read some hundred bytes.
    assert!(finds(&report, "times its weights and KV cache"), "{:?}", report.findings);
}

#[test]
fn two_processes_on_one_gpu_have_no_numbers_and_are_told_why() {
    let mut other = run(2);
    other.anchor(5);
    let (folder, report) = written(&[run(1), other]);
    let sampled = report.sampled.as_ref().expect("samples");
    assert!(sampled.stages.is_empty() && report.kernels.iter().all(|row| row.sampled.is_none()));
    let why = |device: &stage2_model::SampledDevice| device.omitted.clone().unwrap_or_default();
    assert!(sampled.devices.iter().all(|d| why(d).starts_with("several traced processes")));
    let page = folder.text("report.md");
    assert!(page.contains("several traced processes used the GPU"));
}
