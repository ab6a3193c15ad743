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
    let design = kinds.design(samples);
    let mut fit = Fit::new(samples, &design, None);
    kernels.iter().for_each(|kernel| fit.kernel(kernel));
    fit.finish()
}

/// What the kernel of one call must read, its weights, in MB.
const GATE_AND_UP: f64 = 2048.0 * 5632.0 * 2.0 / 1e6;
const Q_AND_O: f64 = 2048.0 * 2048.0 * 2.0 / 1e6;
const K_AND_V: f64 = 2048.0 * 1024.0 * 2.0 / 1e6;

fn megabytes(fit: &CounterFit, kind: u32) -> (f64, f64, f64) {
    let column = fit
        .columns
        .iter()
        .find(|column| column.column == Column::Kind(kind))
        .expect("the kind ran");
    let Amount::Value { amount, low, high } = column.amount else {
        panic!("kind {kind} is not known: {column:?}")
    };
    println!(
        "kind {kind}: {:.3} MB ({:.3} to {:.3}) of {} calls",
        amount / 1e6,
        low / 1e6,
        high / 1e6,
        column.calls
    );
    (amount / 1e6, low / 1e6, high / 1e6)
}

#[test]
fn projections_read_their_operands() {
    let (samples, kernels) = recording();
    let fitted = fit(&samples, &kernels);
    println!("{:?}", fitted.shift);
    // The stage, the kind, the operand, what is allowed, and what an earlier program found in all of
    // the recording, of which this is half.
    for (stage, kind, operand, share) in [
        (EAGER, 97, GATE_AND_UP, 0.03),
        (EAGER, 86, Q_AND_O, 0.03),
        (EAGER, 87, K_AND_V, 0.03),
        (GRAPH, 38, GATE_AND_UP, 0.03),
        (GRAPH, 28, Q_AND_O, 0.03),
    ] {
        let reads = &fitted.stages[stage].counters[READ];
        let (amount, low, high) = megabytes(reads, kind);
        assert!(
            (amount / operand - 1.0).abs() < share,
            "kind {kind}: {amount} MB for {operand} MB"
        );
        assert!(
            low <= operand * 1.02 && operand * 0.98 <= high,
            "kind {kind}: {low} to {high} MB for {operand} MB"
        );
    }
    // Two kinds of the graph have the same rhythm: one of them is not sure, and says by how much.
    let reads = &fitted.stages[GRAPH].counters[READ];
    let column = reads.columns.iter().find(|column| column.column == Column::Kind(29));
    let column = column.expect("the kind ran");
    println!("{column:?}");
    let (low, high) = column.interval.expect("there is an interval");
    assert!(low <= K_AND_V * 1e6 && K_AND_V * 1e6 <= high, "{column:?}");
    if let Amount::Value { amount, .. } = column.amount {
        assert!((amount / 1e6 / K_AND_V - 1.0).abs() < 0.1, "{column:?}");
    }
    let r2: Vec<f64> = fitted.stages.iter().filter_map(|stage| stage.counters[READ].r2).collect();
    assert!(r2[EAGER] > 0.998 && r2[GRAPH] > 0.996, "{r2:?}");
}

#[test]
fn the_samples_show_how_late_they_are() {
    let (samples, kernels) = recording();
    let Shift::Estimated { edges, r2_unshifted, r2 } = fit(&samples, &kernels).shift else {
        panic!("there is a shift")
    };
    assert!(
        (250..=1_250).contains(&edges.start_ns)
            && (-3_500..=-1_500).contains(&edges.end_ns)
            && r2 > r2_unshifted,
        "{edges:?}: R2 {r2_unshifted} to {r2}"
    );
}
