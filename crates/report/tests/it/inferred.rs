//! Processes without ranges -> stages from the sequence of their kernels, compared with the steps that the engine
//! named in the same capture.

use std::fs;
use std::path::Path;

use stage2_contract::trace::{GpuWork, RANGE_OUTSIDE, Record, Writer};
use stage2_model::{Report, StageRow};
use stage2_read::trace::file::Trace;
use stage2_report::{Settings, Sources, analyse};

const STAGES: [&str; 3] = ["start-up (inferred)", "prefill (inferred)", "decode (inferred)"];

/// The records of a capture of vLLM, as if the engine had opened no range.
fn without_ranges(capture: &str, folder: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/engines/vllm-0.26.0")
        .join(capture);
    let files = from.read_dir().expect("the capture").map(|entry| entry.expect("an entry").path());
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "gz")) {
        let to = folder.join(path.file_stem().expect("a name"));
        let mut writer = Writer::new(fs::File::create(to).expect("a file")).expect("a header");
        for record in Trace::open(&path).expect("a trace") {
            match record.expect("a record") {
                Record::Work(work) => {
                    writer.write(&Record::Work(GpuWork { range: RANGE_OUTSIDE, ..work }));
                }
                Record::RangeOpen(_) | Record::RangeClose { .. } | Record::RangeFields { .. } => {}
                other => writer.write(&other),
            }
        }
        writer.flush().expect("a disk");
    }
}

fn report(capture: &str, config: &str) -> Report {
    let run = tempfile::tempdir().expect("a folder");
    let folder = run.path().join("collector");
    fs::create_dir(&folder).expect("a folder");
    without_ranges(capture, &folder);
    fs::write(run.path().join("config.yaml"), config).expect("a configuration");
    analyse(&Sources::of_run(run.path()), &Settings::of_run(run.path())).report
}

fn stage<'r>(report: &'r Report, name: &str) -> &'r StageRow {
    let found = report.stages.iter().find(|row| row.stage == name);
    found.unwrap_or_else(|| panic!("{name}: {:?}", report.stages))
}

#[test]
fn look() {
    for capture in ["names", "steps", "ranks", "modules"] {
        let now = std::time::Instant::now();
        let report = report(capture, "{}");
        println!("{capture} {:?}", now.elapsed());
        for row in &report.stages {
            println!(
                "{} {:?} inst {:?} kernels {:?} sum {:?} window {:?} busy {:?} steps {:?}",
                row.stage,
                row.apart,
                row.instances,
                row.kernels,
                row.kernel_sum_ns,
                row.gpu_window_ns,
                row.gpu_busy_ns,
                row.steps
            );
        }
        for row in report.inferred_steps.iter().flat_map(|steps| &steps.rows) {
            println!("{row:?}");
        }
        for line in &report.answer.lines {
            println!("{}: {}", line.label, line.text);
        }
        for finding in &report.findings {
            println!("F {finding}");
        }
    }
}
