//! Kernels to trace file bytes and back: how many a second, and how many bytes each takes.

use divan::counter::ItemsCount;
use stage2_contract::trace::{GpuWork, Reader, Record, Writer};

#[path = "../tests/it/common/decode_trace.rs"]
mod decode_trace;

const STEPS: u64 = 1_000;

const LAUNCHES: [&str; 2] = ["eager", "graph"];

fn main() {
    for launches in LAUNCHES {
        let kernels = kernels(launches);
        let bytes = trace_file(&kernels, Vec::new()).len();
        println!("{launches}: {:.2} bytes per kernel", bytes as f64 / kernels.len() as f64);
    }
    divan::main();
}

fn kernels(launches: &str) -> Vec<GpuWork> {
    match launches {
        "eager" => decode_trace::kernels(STEPS),
        _ => decode_trace::graph_kernels(STEPS),
    }
}

fn trace_file(kernels: &[GpuWork], file: Vec<u8>) -> Vec<u8> {
    let mut writer = Writer::new(file).expect("memory takes the header");
    kernels.iter().for_each(|kernel| writer.work(kernel));
    writer.flush().expect("memory takes the kernels");
    writer.into_sink()
}

#[divan::bench(args = LAUNCHES)]
fn encode(bencher: divan::Bencher, launches: &str) {
    let kernels = kernels(launches);
    let room = trace_file(&kernels, Vec::new()).len();
    bencher
        .counter(ItemsCount::new(kernels.len()))
        .with_inputs(|| Vec::with_capacity(room))
        .bench_values(|file| trace_file(&kernels, file));
}

#[divan::bench(args = LAUNCHES)]
fn decode(bencher: divan::Bencher, launches: &str) {
    let kernels = kernels(launches);
    let file = trace_file(&kernels, Vec::new());
    bencher.counter(ItemsCount::new(kernels.len())).bench(|| {
        let reader = Reader::new(file.as_slice()).expect("the header is good");
        let correlations = reader.map(|record| match record {
            Ok(Record::Work(kernel)) => kernel.correlation,
            _ => 0,
        });
        correlations.fold(0, u64::wrapping_add)
    });
}
