//! Processes without ranges -> stages from the sequence of their kernels, compared with the steps that the engine
//! named in the same capture.

use std::fs;
use std::path::Path;

use stage2_contract::trace as records;
use stage2_contract::trace::{
    Anchor, GpuNs, GpuWork, MonoNs, NONE, Process, Queue, RANGE_OUTSIDE, RangeOpen, Record, Shape,
    What, Writer,
};
use stage2_model::{Apart, Finding, Report, StageRow};
use stage2_read::trace::file::Trace;
use stage2_report::{Settings, Sources, analyse};

const STAGES: [&str; 3] = ["start-up (inferred)", "prefill (inferred)", "decode (inferred)"];

/// The records of a capture of vLLM without the ranges of the engine; `change` alters each piece of
/// GPU work.
fn without_ranges(capture: &str, folder: &Path, change: fn(GpuWork) -> GpuWork) {
    let from =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/engines").join(capture);
    let files = from.read_dir().expect("the capture").map(|entry| entry.expect("an entry").path());
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "gz")) {
        let to = folder.join(path.file_stem().expect("a name"));
        let mut writer = Writer::new(fs::File::create(to).expect("a file")).expect("a header");
        for record in Trace::open(&path).expect("a trace") {
            match record.expect("a record") {
                Record::Work(work) => {
                    writer.write(&Record::Work(change(GpuWork { range: RANGE_OUTSIDE, ..work })));
                }
                Record::RangeOpen(_) | Record::RangeClose { .. } | Record::RangeFields { .. } => {}
                other => writer.write(&other),
            }
        }
        writer.flush().expect("a disk");
    }
}

/// The report of the trace files that `write` writes to a folder.
fn report(config: &str, write: impl FnOnce(&Path)) -> Report {
    let run = tempfile::tempdir().expect("a folder");
    let folder = run.path().join("collector");
    fs::create_dir(&folder).expect("a folder");
    write(&folder);
    fs::write(run.path().join("config.yaml"), config).expect("a configuration");
    analyse(&Sources::of_run(run.path()), &Settings::of_run(run.path())).report
}

fn instances(report: &Report, path: &str) -> Option<u64> {
    report.paths.iter().find(|row| row.path == path)?.instances
}

/// Number of kernels, kernel time and busy time of the GPU, summed over all stages.
fn sums(report: &Report) -> [u64; 3] {
    let sum = |of: fn(&StageRow) -> Option<u64>| report.stages.iter().filter_map(of).sum();
    [sum(|row| row.kernels), sum(|row| row.kernel_sum_ns), sum(|row| row.gpu_busy_ns)]
}

fn stage<'r>(report: &'r Report, name: &str) -> &'r StageRow {
    let found = report.stages.iter().find(|row| row.stage == name);
    found.unwrap_or_else(|| panic!("{name}: {:?}", report.stages))
}

#[test]
fn decode_steps_and_prefills_of_vllm_are_those_that_its_ranges_named() {
    // Two generations of 63 steps; a server's load of 756 at six batch sizes; 30 without graphs.
    for (capture, steps, prefills) in [
        ("vllm-0.26.0/names", 126, 3),
        ("vllm-0.26.0/steps", 756, 27),
        ("vllm-0.26.0/modules", 30, 3),
    ] {
        let found = report("{}", |folder| without_ranges(capture, folder, |work| work));
        let whole = report("report: {infer_stages: false}", |folder| {
            without_ranges(capture, folder, |work| work);
        });
        let [start_up, prefill, decode] = STAGES;
        let step = format!("{decode}/step");
        assert_eq!(instances(&found, &step), Some(steps), "{capture}");
        assert_eq!(instances(&found, prefill), Some(prefills), "{capture}");
        assert_eq!(stage(&found, start_up).apart, Some(Apart::WarmUp), "{capture}");
        assert_eq!(found.stages.len(), STAGES.len(), "{capture}: {:?}", found.stages);
        // On one stream, no work is in more than one of the three stages.
        let stages: Vec<&str> = whole.stages.iter().map(|row| row.stage.as_str()).collect();
        assert_eq!(stages, ["(whole process)"], "{capture}");
        assert_eq!(sums(&found), sums(&whole), "{capture}");
        let time = found.answer.lines.iter().find(|line| line.label == "time").expect("a line");
        assert!(time.text.contains("decode (inferred) "), "{}", time.text);
        let why = |finding: &&Finding| finding.why.contains("report.infer_stages=false");
        assert_eq!(found.findings.iter().filter(why).count(), 1, "{capture}");
    }
}

#[test]
fn llama_cpp_decodes_four_times_64_tokens() {
    let found = report("{}", |folder| without_ranges("llama.cpp-0.3.36", folder, |work| work));
    assert_eq!(instances(&found, STAGES[2]), Some(4), "{:?}", found.stages);
    assert_eq!(instances(&found, "decode (inferred)/step"), Some(256));
    assert_eq!(instances(&found, STAGES[1]), Some(4));
    assert_eq!(stage(&found, STAGES[2]).kernels, Some(256 * 245));
}

#[test]
fn ranks_have_their_own_steps() {
    let found = report("{}", |folder| without_ranges("vllm-0.26.0/ranks", folder, |work| work));
    // Each rank has 128; a step with a rare batch size is not found.
    let steps = instances(&found, "decode (inferred)/step").expect("steps");
    assert!((250..=256).contains(&steps), "{steps}");
    assert_eq!(instances(&found, STAGES[2]), Some(4), "two generations of two ranks");
}

#[test]
fn launches_without_a_number_of_their_own_make_no_stage() {
    let found = report("{}", |folder| {
        without_ranges("vllm-0.26.0/names", folder, |work| GpuWork {
            correlation: 0,
            graph_node: 0,
            ..work
        });
    });
    assert!(found.inferred_steps.is_some(), "they are in order");
    stage(&found, "(whole process)");
}

#[test]
fn half_of_a_file_has_stages_that_add_up() {
    let cut = |folder: &Path| {
        without_ranges("vllm-0.26.0/names", folder, |work| work);
        let path = folder.join("vm-3175.s2t");
        let bytes = fs::read(&path).expect("a file");
        fs::write(path, &bytes[..bytes.len() * 3 / 4]).expect("a disk");
    };
    let whole = report("report: {infer_stages: false}", cut);
    let found = report("{}", cut);
    stage(&found, STAGES[2]);
    assert_eq!(sums(&found), sums(&whole));
}

/// A start, and three generations: a prefill, and 40 steps of six kernels and a copy. The third kernel of a
/// step is launched in a range of NCCL.
fn with_library(folder: &Path) {
    let file = fs::File::create(folder.join("node-7.s2t")).expect("a file");
    let mut writer = Writer::new(file).expect("a header");
    writer.write(&Record::Process(Process { pid: 7, ..Process::default() }));
    writer.write(&Record::Anchor(Anchor {
        gpu: GpuNs(1_000),
        mono: MonoNs(1),
        ..Anchor::default()
    }));
    writer.write(&Record::Queue(Queue { id: 1, ..Queue::default() }));
    for id in 1..=60 {
        writer.write(&Record::Name { id, bytes: format!("kernel{id}x").into_bytes() });
        writer.write(&Record::Shape(Shape { id, name: id, ..Shape::default() }));
    }
    for (id, name) in [(61, "ncclAllReduce"), (62, "NCCL")] {
        writer.write(&Record::Name { id, bytes: name.into() });
    }
    writer.write(&Record::Path(records::Path { id: 1, parent: NONE, name: 61, domain: 62 }));
    let (mut now, mut correlation, mut ranges) = (10_000, 0, 0);
    let mut launch = |what: What, wait: u64, ns: u64, range: u64| {
        correlation += 1;
        let (start, end) = (GpuNs(now + wait), GpuNs(now + wait + ns));
        now = end.0;
        GpuWork { what, start, end, queue: 1, range, correlation, graph_node: 0 }
    };
    for shape in 11..=60 {
        let work = launch(What::Kernel { shape }, 100, 1_000, RANGE_OUTSIDE);
        writer.write(&Record::Work(work));
    }
    for _ in 0..3 {
        for shape in [7, 8, 9, 10, 9, 8, 7, 7, 10, 8, 9, 10] {
            let work = launch(What::Kernel { shape }, 100, 8_000, RANGE_OUTSIDE);
            writer.write(&Record::Work(work));
        }
        for _ in 0..40 {
            for shape in 1..=6 {
                let in_library = shape == 3;
                ranges += u64::from(in_library);
                let range = if in_library { ranges } else { RANGE_OUTSIDE };
                let wait = if shape == 1 { 20_000 } else { 100 };
                let work = launch(What::Kernel { shape }, wait, 1_000, range);
                if in_library {
                    let start = MonoNs(work.start.0 - 50_000);
                    let open = RangeOpen { range, path: 1, start, ..RangeOpen::default() };
                    writer.write(&Record::RangeOpen(open));
                    writer.write(&Record::RangeClose { range, end: start });
                }
                writer.write(&Record::Work(work));
            }
            let copy = What::Copy { bytes: 4, kind: 2 };
            writer.write(&Record::Work(launch(copy, 100, 500, RANGE_OUTSIDE)));
        }
    }
    writer.flush().expect("a disk");
}

#[test]
fn ranges_of_libraries_lie_within_the_steps_and_each_copy_in_the_step_it_ends() {
    let found = report("{}", with_library);
    let kernels = STAGES.map(|name| stage(&found, name).kernels);
    assert_eq!(kernels, [Some(50), Some(3 * 12), Some(3 * 40 * 6)]);
    assert_eq!(instances(&found, STAGES[2]), Some(3));
    let calls = found.paths.iter().find(|row| row.path.ends_with("/step/ncclAllReduce@NCCL"));
    let calls = calls.unwrap_or_else(|| panic!("{:?}", found.paths));
    assert_eq!(calls.instances, Some(3 * 40));
    let step = stage(&found, STAGES[2]).steps.as_ref().expect("steps");
    assert_eq!(step.times.p50_ns, 20_000 + 5 * 1_100 + 1_000 + 600);
}
