//! A real LLM decode on an H200, eager and as a CUDA graph: what must come out is known from the
//! sizes of the operands.

use std::io::BufReader;
use std::path::Path;

use stage2_fit::{Amount, Column, CounterFit, Fit, Fitted, Kernel, Kinds, Samples, Shift};

/// The stages of the recording, and the counters of its samples.
const EAGER: usize = 0;
const GRAPH: usize = 1;
const READ: usize = 0;

fn lines(name: &str) -> Vec<Vec<f64>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let mut file =
        BufReader::new(std::fs::File::open(&path).expect("the recording is in tests/data"));
    let mut text = Vec::new();
    lzma_rs::xz_decompress(&mut file, &mut text).expect("the recording is whole");
    let text = String::from_utf8(text).expect("the recording is text");
    let numbers =
        |line: &str| line.split(',').map(|word| word.parse().expect("a number")).collect();
    text.lines().skip(1).map(numbers).collect()
}

fn recording() -> (Samples, Vec<Kernel>) {
    let mut samples = Samples::new(2).expect("two counters");
    for row in lines("samples.csv.xz") {
        let start = row[0] as u64;
        samples
            .push(start, start + row[1] as u64, &[row[2] as f32, row[3] as f32])
            .expect("two values");
    }
    let mut start_ns = 0;
    let kernel = |row: Vec<f64>| {
        start_ns += row[0] as u64;
        Kernel {
            start_ns,
            end_ns: start_ns + row[1] as u64,
            stage: Some(row[3] as u32),
            kind: row[2] as u32,
            class: 0,
            step: None,
        }
    };
    (samples, lines("kernels.csv.xz").into_iter().map(kernel).collect())
}

fn fit(samples: &Samples, kernels: &[Kernel]) -> Fitted {
    let mut kinds = Kinds::new();
    kernels.iter().for_each(|kernel| kinds.add(kernel));
    let design = kinds.design();
    let mut fit = Fit::new(samples, &design, None);
    kernels.iter().for_each(|kernel| fit.kernel(kernel));
    fit.finish()
}

fn print(fit: &CounterFit) {
    println!(
        "counter {}: {} samples, R2 {:?}, residual {:?}, measured {:.3e}, explained {:?}, background {:?}",
        fit.counter, fit.samples, fit.r2, fit.residual, fit.measured, fit.explained, fit.background
    );
    for column in &fit.columns {
        println!(
            "  {:?} {} calls, {} samples: {:?} {:?}",
            column.column, column.calls, column.samples, column.amount, column.interval
        );
    }
    for group in &fit.groups {
        println!(
            "  group {:?}: {:?}",
            group.members.iter().map(|&of| fit.columns[of].column).collect::<Vec<_>>(),
            group.total
        );
    }
}

#[test]
fn projections_read_their_operands() {
    let (samples, kernels) = recording();
    let fitted = fit(&samples, &kernels);
    println!("{:?} {:?} {:?}", fitted.shift, fitted.counts, fitted.sample_counts);
    for stage in &fitted.stages {
        for c in &stage.counters {
            print(c);
        }
    }
}
