//! A real LLM decode on an H200, eager and as a CUDA graph: what must come out is known from the
//! sizes of the operands.

use std::io::BufReader;
use std::path::Path;

use stage2_counter_fit::{Column, CounterFit, Fit, Fitted, Kernel, Kinds, Samples};
use stage2_model::SampledAmount;

/// The stages of the recording, and the counters of its samples.
const EAGER: usize = 0;
const GRAPH: usize = 1;
const READ: usize = 0;

fn lines(name: &str) -> Vec<Vec<f64>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/data").join(name);
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
    let mut samples = Samples::new(2);
    for (row, (read, written)) in rows.iter().zip(reads.into_iter().zip(writes)) {
        let start = row[0] as u64;
        samples.push(start, start + row[1] as u64, &[read as f32, written as f32]);
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

fn fit(samples: &Samples, kernels: &[Kernel]) -> Fitted {
    let mut kinds = Kinds::default();
    kernels.iter().for_each(|kernel| kinds.add(kernel));
    let design = kinds.design(samples);
    let mut fit = Fit::new(samples, &design);
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
    let SampledAmount::Known { value: amount, low, high } = column.amount else {
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
    println!("{:?}", fitted.edges);
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
    if let Some(amount) = column.amount.value() {
        assert!((amount / 1e6 / K_AND_V - 1.0).abs() < 0.1, "{column:?}");
    }
    let r2: Vec<f64> = fitted.stages.iter().filter_map(|stage| stage.counters[READ].r2).collect();
    assert!(r2[EAGER] > 0.998 && r2[GRAPH] > 0.996, "{r2:?}");
}

#[test]
fn the_samples_show_how_late_they_are() {
    let (samples, kernels) = recording();
    let edges = fit(&samples, &kernels).edges;
    assert!(
        (250..=1_250).contains(&edges.start_ns) && (-3_500..=-1_500).contains(&edges.end_ns),
        "{edges:?}"
    );
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
    let least = residual(&fit(&exact, &kernels));
    let of_levels = |levels: f64| {
        let (mut more, mut far) = (0.0_f64, 0.0_f64);
        for above in [0.0, 0.2, 0.6] {
            let fitted = fit(&samples(&rows, |values| rounded(values, levels, above)), &kernels);
            let reads = &fitted.stages[GRAPH].counters[READ];
            more = more.max(residual(&fitted) / least);
            for (kind, operand) in [(38, GATE_AND_UP), (28, Q_AND_O), (29, K_AND_V)] {
                let column = reads.columns.iter().find(|of| of.column == Column::Kind(kind));
                // If an amount is too uncertain to be reported, use the middle of its interval.
                let (low, high) = column.and_then(|of| of.interval).expect("the kind ran");
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
