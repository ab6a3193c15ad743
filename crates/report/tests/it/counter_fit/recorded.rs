//! A real LLM decode on an H200, eager and as a CUDA graph: what must come out is known from the
//! sizes of the operands.

use std::io::BufReader;
use std::path::Path;

use super::fit;
use stage2_report::counter_fit::{
    Amount, Column, ColumnFit, CounterFit, Fitted, Kernel, Samples, Shift,
};

/// The stages of the recording, and the counters of its samples.
const EAGER: usize = 0;
const GRAPH: usize = 1;
const READ: usize = 0;

fn lines(name: &str) -> Vec<Vec<f64>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/counter_fit/data").join(name);
    let mut file =
        BufReader::new(std::fs::File::open(&path).expect("the recording is beside the tests"));
    let mut text = Vec::new();
    lzma_rs::xz_decompress(&mut file, &mut text).expect("the recording is whole");
    let text = String::from_utf8(text).expect("the recording is text");
    let numbers =
        |line: &str| line.split(',').map(|word| word.parse().expect("a number")).collect();
    text.lines().skip(1).map(numbers).collect()
}

/// The samples, with what `keep` makes of the values of each counter.
fn samples(rows: &[Vec<f64>], keep: impl Fn(&[f64]) -> Vec<f64>) -> Samples {
    let column = |at: usize| keep(&rows.iter().map(|row| row[at]).collect::<Vec<_>>());
    let (reads, writes) = (column(2), column(3));
    let mut samples = Samples::new(2).expect("two counters");
    for (row, (read, written)) in rows.iter().zip(reads.into_iter().zip(writes)) {
        let start = row[0] as u64;
        let end = start + row[1] as u64;
        samples.push(start, end, &[read as f32, written as f32]).expect("two values");
    }
    samples
}

fn recording() -> (Samples, Vec<Kernel>) {
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
    let samples = samples(&lines("samples.csv.xz"), <[f64]>::to_vec);
    (samples, lines("kernels.csv.xz").into_iter().map(kernel).collect())
}

/// Values as a file may keep them: at so many levels for each factor of 2, `above` of a step higher than
/// powers of 2 are, where what rounding adds to a value is taken from the next.
fn rounded(values: &[f64], levels: f64, above: f64) -> Vec<f64> {
    let mut carried = 0.0;
    let round = |value: &f64| {
        let wanted = value + carried;
        let level = (wanted.log2() * levels - above).round() + above;
        let kept = if wanted > 0.0 { (level / levels).exp2() } else { 0.0 };
        carried = wanted - kept;
        kept
    };
    values.iter().map(round).collect()
}

/// What the kernel of one call must read, its weights, in MB.
const GATE_AND_UP: f64 = 2048.0 * 5632.0 * 2.0 / 1e6;
const Q_AND_O: f64 = 2048.0 * 2048.0 * 2.0 / 1e6;
const K_AND_V: f64 = 2048.0 * 1024.0 * 2.0 / 1e6;

fn megabytes(fit: &CounterFit, kind: u32) -> (f64, f64, f64) {
    let column = column_of(fit, kind);
    let Amount::Value { amount, low, high } = column.amount else {
        panic!("kind {kind} is not known: {column:?}")
    };
    let (amount, low, high) = (amount / 1e6, low / 1e6, high / 1e6);
    println!("kind {kind}: {amount:.3} MB ({low:.3} to {high:.3}) of {} calls", column.calls);
    (amount, low, high)
}

fn column_of(fit: &CounterFit, kind: u32) -> &ColumnFit {
    fit.columns.iter().find(|of| of.column == Column::Kind(kind)).expect("the kind ran")
}

#[test]
fn projections_read_their_operands() {
    let (samples, kernels) = recording();
    let fitted = fit(&samples, &kernels, None);
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
        let told = format!("kind {kind}: {amount} ({low} to {high}) MB for {operand} MB");
        assert!((amount / operand - 1.0).abs() < share, "{told}");
        assert!(low <= operand * 1.02 && operand * 0.98 <= high, "{told}");
    }
    // Two kinds of the graph have the same rhythm: one of them is not sure, and says by how much.
    let column = column_of(&fitted.stages[GRAPH].counters[READ], 29);
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
    let Shift::Estimated { edges, r2_unshifted, r2 } = fit(&samples, &kernels, None).shift else {
        panic!("there is a shift")
    };
    assert!((250..=1_250).contains(&edges.start_ns), "{edges:?}");
    assert!((-3_500..=-1_500).contains(&edges.end_ns), "{edges:?}");
    assert!(r2 > r2_unshifted, "{r2_unshifted} to {r2}");
}

/// Replays of a graph repeat the same samples, and so the same rounding: it does not average out, and
/// draws of blocks do not show it.
#[test]
fn a_rhythm_repeats_what_values_are_rounded_by() {
    let (exact, kernels) = recording();
    let rows = lines("samples.csv.xz");
    let residual = |fitted: &Fitted| {
        fitted.stages[GRAPH].counters[READ].residual.expect("the stage is solved")
    };
    let least = residual(&fit(&exact, &kernels, None));
    let of_levels = |levels: f64| {
        let (mut more, mut far) = (0.0_f64, 0.0_f64);
        for above in [0.0, 0.2, 0.6] {
            let samples = samples(&rows, |values| rounded(values, levels, above));
            let fitted = fit(&samples, &kernels, None);
            let reads = &fitted.stages[GRAPH].counters[READ];
            more = more.max(residual(&fitted) / least);
            for (kind, operand) in [(38, GATE_AND_UP), (28, Q_AND_O), (29, K_AND_V)] {
                // If an amount is too uncertain to be reported, use the middle of its interval.
                let (low, high) = column_of(reads, kind).interval.expect("there is an interval");
                far = far.max(((low + high) / 2e6 / operand - 1.0).abs());
            }
        }
        println!("{levels} levels: up to {more:.2} times the residual, {:.1} % off", 100.0 * far);
        (more, far)
    };
    let [coarse, fine] = [16.0, 256.0].map(of_levels);
    assert!(coarse.0 > 3.0 && coarse.1 > 0.05, "steps of 4 %: {coarse:?}");
    assert!(fine.0 < 1.1 && fine.1 < 0.03, "steps of 0.3 %: {fine:?}");
}
