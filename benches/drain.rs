//! CUPTI's buffers, recorded on an H200, to a trace file on the drain thread: records a second on
//! one core, with decoding, attribution and writing, and bytes of the trace file per record.

#[path = "../tests/it/common/recording.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with a test")]
mod recording;

use std::fs;

use divan::counter::ItemsCount;
use recording::Recording;

/// How often the recording is offered: about 200,000 records.
const COPIES: usize = 16;

fn main() {
    for name in ["llm13", "graph13"] {
        let (recording, out) = (Recording::load(name), tempfile::tempdir().expect("a folder"));
        stage2::drain::run(recording.offered(out.path(), COPIES, true), recording::hooks());
        let bytes: u64 = fs::read_dir(out.path())
            .expect("a folder")
            .filter_map(Result::ok)
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "s2t"))
            .map(|entry| entry.metadata().expect("a spool").len())
            .sum();
        let records = recording.records() * COPIES;
        println!(
            "{name}: {records} records, {:.2} spool bytes each",
            bytes as f64 / records as f64
        );
    }
    divan::main();
}

fn buffers_to_spool(bencher: divan::Bencher, name: &str, launcher: bool) {
    let recording = Recording::load(name);
    bencher
        .counter(ItemsCount::new(recording.records() * COPIES))
        .with_inputs(|| {
            let out = tempfile::tempdir().expect("a folder");
            (recording.offered(out.path(), COPIES, launcher), out)
        })
        .bench_values(|(shared, out)| {
            stage2::drain::run(shared, recording::hooks());
            out
        });
}

/// An eager LLM: prefill and decode.
#[divan::bench(sample_count = 12, sample_size = 1)]
fn eager(bencher: divan::Bencher) {
    buffers_to_spool(bencher, "llm13", true);
}

/// An eager LLM, with the table of top kernels, as in a run without the launcher.
#[divan::bench(sample_count = 12, sample_size = 1)]
fn eager_with_table(bencher: divan::Bencher) {
    buffers_to_spool(bencher, "llm13", false);
}

/// Replays of a CUDA graph.
#[divan::bench(sample_count = 12, sample_size = 1)]
fn graph(bencher: divan::Bencher) {
    buffers_to_spool(bencher, "graph13", true);
}
