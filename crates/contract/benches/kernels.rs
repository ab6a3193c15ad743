//! Kernels to trace file bytes and back: how many a second, and how many bytes each takes.

use divan::counter::ItemsCount;
use stage2_contract::trace::{GpuWork, Reader, Record, Writer};

#[path = "../tests/it/common/decode_trace.rs"]
mod decode_trace;

const STEPS: u64 = 1_000;

fn main() {
    for (what, kernels) in
        [("eager", decode_trace::kernels(STEPS)), ("graph", decode_trace::graph_kernels(STEPS))]
    {
        let bytes = trace_file(&kernels, Vec::new()).len();
        println!("{what}: {:.2} bytes per kernel", bytes as f64 / kernels.len() as f64);
    }
    divan::main();
}

fn trace_file(kernels: &[GpuWork], file: Vec<u8>) -> Vec<u8> {
    let mut writer = Writer::new(file).expect("memory takes the header");
    kernels.iter().for_each(|kernel| writer.work(kernel));
    writer.flush().expect("memory takes the kernels");
    writer.into_sink()
}

fn encode(bencher: divan::Bencher, kernels: &[GpuWork]) {
    let room = trace_file(kernels, Vec::new()).len();
    bencher
        .counter(ItemsCount::new(kernels.len()))
        .with_inputs(|| Vec::with_capacity(room))
        .bench_values(|file| trace_file(kernels, file));
}

fn decode(bencher: divan::Bencher, kernels: &[GpuWork]) {
    let file = trace_file(kernels, Vec::new());
    bencher.counter(ItemsCount::new(kernels.len())).bench(|| {
        let reader = Reader::new(file.as_slice()).expect("the header is good");
        let correlations = reader.map(|record| match record {
            Ok(Record::Work(kernel)) => kernel.correlation,
            _ => 0,
        });
        correlations.fold(0, u64::wrapping_add)
    });
}

#[divan::bench]
fn encode_eager(bencher: divan::Bencher) {
    encode(bencher, &decode_trace::kernels(STEPS));
}

#[divan::bench]
fn encode_graph(bencher: divan::Bencher) {
    encode(bencher, &decode_trace::graph_kernels(STEPS));
}

#[divan::bench]
fn decode_eager(bencher: divan::Bencher) {
    decode(bencher, &decode_trace::kernels(STEPS));
}

#[divan::bench]
fn decode_graph(bencher: divan::Bencher) {
    decode(bencher, &decode_trace::graph_kernels(STEPS));
}
