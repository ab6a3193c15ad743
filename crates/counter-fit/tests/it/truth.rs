//! Samples that follow from known amounts: the 90 % intervals must hold the truth as often as they say.

use fastrand::Rng;
use stage2_counter_fit::{Column, CounterFit, Fit, Fitted, Kernel, Kinds, Samples};
use stage2_model::{NoAmount, SampledAmount};

/// What is made hard for the fit.
#[derive(Debug, Clone, Copy, Default)]
struct Hardship {
    /// Standard deviation of the amount of a call, as a share of its mean.
    call_noise: f64,
    /// Standard deviation of a sample's value, as a share of the mean sample.
    sample_noise: f64,
    /// Standard deviation of the instant at which a sample really ends, in ns.
    edge_noise_ns: f64,
    /// By how much samples end later than they say, in ns.
    late_ns: f64,
    /// Share of the time that no sample covers.
    gaps: f64,
    /// Share of the samples that lack the second counter.
    missing: f64,
    /// A second stream with kernels of its own.
    two_streams: bool,
    /// Kinds 0 and 1 always run at the same time, and kind 4 always right behind kind 3.
    twins: bool,
    /// Kernels follow each other without a pause, as in a graph.
    back_to_back: bool,
    /// The share of each call's amount that is moved within its first half, beyond an even spread.
    front_loaded: f64,
}

struct Truth {
    samples: Samples,
    kernels: Vec<Kernel>,
    /// Of each kind, for each of two counters.
    amounts: Vec<[f64; 2]>,
}

const KINDS: usize = 36;
const STEPS: u32 = 48;
const SAMPLE_NS: f64 = 100_000.0;

fn normal(random: &mut Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

fn simulate(seed: u64, hard: Hardship) -> Truth {
    let mut random = Rng::with_seed(seed);
    let lengths: Vec<f64> = (0..KINDS).map(|_| 1_500.0 * (random.f64() * 3.0).exp()).collect();
    // A third of the kinds moves next to nothing, as elementwise kernels with warm caches do.
    let mut amount = |kind: usize| {
        if kind % 3 == 2 { 0.0 } else { lengths[kind] * (2.0 * random.f64() - 1.0).exp() * 2_000.0 }
    };
    let amounts: Vec<[f64; 2]> = (0..KINDS).map(|kind| [amount(kind), amount(kind)]).collect();
    let mut kernels = Vec::new();
    let mut stream = |first: usize, count: usize, random: &mut Rng| {
        let mut now = 50_000.0;
        for step in 0..STEPS {
            // 16 layers of the same kernels, in which some come twice, and an end with rare ones.
            let layer: Vec<usize> = (first..first + count - 4)
                .flat_map(|kind| {
                    vec![kind; if hard.twins { usize::from(kind != 1) } else { 1 + kind % 2 }]
                })
                .collect();
            for index in 0..layer.len() * 16 + 4 {
                let kind =
                    layer.get(index % layer.len()).copied().filter(|_| index < layer.len() * 16);
                let kind = kind.unwrap_or(first + count - 4 + index % 4);
                let length = lengths[kind] * (1.0 + 0.03 * normal(random));
                kernels.push(Kernel {
                    start_ns: now as u64,
                    end_ns: (now + length) as u64,
                    stage: Some(7),
                    kind: kind as u32,
                    class: 0,
                    step: Some(step),
                });
                if hard.twins && kind == 0 {
                    let twin = kernels[kernels.len() - 1];
                    kernels.push(Kernel { kind: 1, ..twin });
                }
                now += length
                    + if hard.back_to_back { 800.0 } else { 1_000.0 + 6_000.0 * random.f64() };
            }
        }
        now
    };
    let end = if hard.two_streams {
        let half = KINDS / 2;
        stream(0, half, &mut random).max(stream(half, half, &mut random))
    } else {
        stream(0, KINDS, &mut random)
    };
    kernels.sort_by_key(|kernel| kernel.start_ns);
    let rows = (end / SAMPLE_NS) as usize + 1;
    let edges: Vec<f64> = (0..=rows)
        .map(|row| row as f64 * SAMPLE_NS + hard.late_ns + hard.edge_noise_ns * normal(&mut random))
        .collect();
    let mut values = vec![[0.0; 2]; rows];
    for kernel in &kernels {
        let factor = (1.0 + hard.call_noise * normal(&mut random)).max(0.0);
        let (start, end) = (kernel.start_ns as f64, kernel.end_ns as f64);
        // The share of the call that has happened at a time.
        let done = |time: f64| {
            let even = ((time - start) / (end - start)).clamp(0.0, 1.0);
            even + hard.front_loaded * 4.0 * even * (1.0 - even) / 2.0
        };
        let first = ((start - hard.late_ns) / SAMPLE_NS) as usize;
        for row in first.saturating_sub(1)..(first + 3).min(rows) {
            let share = done(edges[row + 1]) - done(edges[row]);
            for counter in 0..2 {
                values[row][counter] += share * factor * amounts[kernel.kind as usize][counter];
            }
        }
    }
    let mean = values.iter().map(|row| row[0] + row[1]).sum::<f64>() / (2 * rows) as f64;
    let mut samples = Samples::new(2);
    let mut gap = 0;
    for (row, value) in values.iter().enumerate() {
        if gap == 0 && random.f64() < hard.gaps / 10.0 {
            gap = random.usize(1..20);
        }
        if gap > 0 {
            gap -= 1;
            continue;
        }
        let mut noisy = value
            .map(|value| (value + hard.sample_noise * mean * normal(&mut random)).max(0.0) as f32);
        if random.f64() < hard.missing {
            noisy[1] = f32::NAN;
        }
        let start = row as u64 * SAMPLE_NS as u64;
        samples.push(start, start + SAMPLE_NS as u64, &noisy);
    }
    Truth { samples, kernels, amounts }
}

fn fit(truth: &Truth) -> Fitted {
    let mut kinds = Kinds::default();
    truth.kernels.iter().for_each(|kernel| kinds.add(kernel));
    let design = kinds.design(&truth.samples);
    let mut fit = Fit::new(&truth.samples, &design);
    truth.kernels.iter().for_each(|kernel| fit.kernel(kernel));
    fit.finish()
}

/// How many kinds have an interval, and in how many of them the truth lies; the same of those whose
/// amount is a value; and the groups.
#[derive(Debug, Default)]
struct Rates {
    intervals: [usize; 2],
    values: [usize; 2],
    limits: [usize; 2],
    groups: [usize; 2],
    kinds: usize,
    width: f64,
}

impl Rates {
    fn add(&mut self, truth: &Truth, fit: &CounterFit) {
        fn count(to: &mut [usize; 2], holds: bool) {
            to[0] += 1;
            to[1] += usize::from(holds);
        }
        let of = |column: Column| match column {
            Column::Kind(kind) => truth.amounts[kind as usize][fit.counter],
            _ => panic!("all kinds have columns"),
        };
        for column in &fit.columns {
            self.kinds += 1;
            let amount = of(column.column);
            // At zero an end of the interval may be off by what nobody would call an amount.
            let slack = 1e-3 * fit.measured / fit.samples as f64 / 30.0;
            if let (Some((low, high)), false) = (
                column.interval,
                matches!(
                    column.amount,
                    SampledAmount::Absent(
                        NoAmount::Together { .. } | NoAmount::TooFewSamples { .. }
                    )
                ),
            ) {
                count(&mut self.intervals, low - slack <= amount && amount <= high + slack);
            }
            match column.amount {
                SampledAmount::Known { value, low, high } => {
                    count(&mut self.values, low <= amount && amount <= high);
                    self.width += (high - low) / 2.0 / value;
                }
                SampledAmount::AtMost { limit } => count(&mut self.limits, amount <= limit),
                SampledAmount::Absent(_) => {}
            }
        }
        for group in &fit.groups {
            let total: f64 = group
                .members
                .iter()
                .map(|&of_group| {
                    of(fit.columns[of_group].column) * fit.columns[of_group].calls as f64
                })
                .sum();
            match group.total {
                SampledAmount::Known { low, high, .. } => {
                    count(&mut self.groups, low <= total && total <= high)
                }
                SampledAmount::AtMost { limit } => count(&mut self.groups, total <= limit),
                SampledAmount::Absent(_) => {}
            }
        }
    }

    fn share([all, hits]: [usize; 2]) -> f64 {
        hits as f64 / all as f64
    }
}

fn rates(name: &str, hard: Hardship) -> Rates {
    let mut rates = Rates::default();
    let mut shifts = Vec::new();
    for seed in 0..8 {
        let truth = simulate(seed, hard);
        let fitted = fit(&truth);
        shifts.push(fitted.edges);
        for counter in &fitted.stages[0].counters {
            rates.add(&truth, counter);
        }
    }
    println!(
        "{name}: {} kinds, {:.0} % of {} intervals hold the truth, {:.0} % of {} values (half width {:.1} %), {:.0} % of {} limits, {} of {} groups, shifts {shifts:?}",
        rates.kinds,
        100.0 * Rates::share(rates.intervals),
        rates.intervals[0],
        100.0 * Rates::share(rates.values),
        rates.values[0],
        100.0 * rates.width / rates.values[0] as f64,
        100.0 * Rates::share(rates.limits),
        rates.limits[0],
        rates.groups[1],
        rates.groups[0],
    );
    rates
}

const USUAL: Hardship = Hardship {
    call_noise: 0.03,
    sample_noise: 0.005,
    edge_noise_ns: 200.0,
    late_ns: 800.0,
    gaps: 0.0,
    missing: 0.0,
    two_streams: false,
    twins: false,
    back_to_back: false,
    front_loaded: 0.0,
};

fn hold_the_truth(runs: &[(&str, Hardship)]) {
    for &(name, hard) in runs {
        let rates = rates(name, hard);
        assert!(Rates::share(rates.intervals) >= 0.85, "{name}: {rates:?}");
        // Noise that happens to be small makes a value of a kind that is none: such kinds lie worse.
        assert!(Rates::share(rates.values) >= 0.80, "{name}: {rates:?}");
        assert!(Rates::share(rates.limits) >= 0.85, "{name}: {rates:?}");
        // Wide intervals would hold any truth.
        assert!(rates.values[0] + rates.limits[0] > rates.kinds / 2, "{name}: {rates:?}");
    }
}

// In two tests, which run side by side.
#[test]
fn intervals_hold_the_truth_of_noisy_and_missing_samples() {
    let noise = Hardship { call_noise: 0.2, sample_noise: 0.1, edge_noise_ns: 1_000.0, ..USUAL };
    let missing = Hardship { missing: 0.4, ..USUAL };
    hold_the_truth(&[("usual", USUAL), ("much noise", noise), ("missing metrics", missing)]);
}

#[test]
fn intervals_hold_the_truth_of_every_order_of_kernels() {
    hold_the_truth(&[
        ("gaps", Hardship { gaps: 0.2, ..USUAL }),
        ("two streams", Hardship { two_streams: true, ..USUAL }),
        ("back to back", Hardship { back_to_back: true, ..USUAL }),
        ("collinear", Hardship { twins: true, ..USUAL }),
    ]);
}

#[test]
fn intervals_hold_the_truth_of_calls_that_move_their_amount_early() {
    hold_the_truth(&[
        ("a little early", Hardship { front_loaded: 0.1, ..USUAL }),
        ("early", Hardship { front_loaded: 0.3, ..USUAL }),
    ]);
}

#[test]
fn kinds_that_run_at_the_same_time_share_a_total() {
    let truth = simulate(1, Hardship { twins: true, ..USUAL });
    let fitted = fit(&truth);
    for counter in &fitted.stages[0].counters {
        let of = |kind| {
            counter
                .columns
                .iter()
                .position(|column| column.column == Column::Kind(kind))
                .expect("a column")
        };
        let twins = [of(0), of(1)];
        for twin in twins {
            let amount = &counter.columns[twin].amount;
            assert!(
                matches!(amount, SampledAmount::Absent(NoAmount::Together { .. })),
                "{amount:?}"
            );
        }
        let group = counter
            .groups
            .iter()
            .find(|group| twins.iter().all(|twin| group.members.contains(twin)))
            .expect("a group");
        let SampledAmount::Known { value: amount, .. } = group.total else {
            panic!("the total is known: {group:?}")
        };
        let calls = counter.columns[twins[0]].calls as f64;
        let total: f64 =
            [0, 1].iter().map(|&kind: &usize| calls * truth.amounts[kind][counter.counter]).sum();
        assert!(
            group.members.len() == 2 && (amount / total - 1.0).abs() < 0.05,
            "{total} is not that of {group:?}"
        );
    }
}

#[test]
fn a_long_kernel_that_reads_unevenly_takes_nothing_from_the_next_one() {
    // Attention of 24 us that reads 54 MB in its first 14 us, then a product of 6 us and 8 MB.
    let mut random = Rng::with_seed(7);
    let (mut kernels, mut reads, mut at) = (Vec::new(), Vec::new(), 1_000_000_u64);
    for step in 0..4_000 {
        let product = at + 24_000 + random.u64(8_000..12_000);
        for (kind, start, length, read_for, bytes) in
            [(0, at, 24_000, 14_000, 54e6), (1, product, 6_000, 6_000, 8e6)]
        {
            kernels.push(Kernel {
                start_ns: start,
                end_ns: start + length,
                stage: Some(0),
                kind,
                class: 0,
                step: Some(step),
            });
            reads.push((start, start + read_for, bytes));
        }
        at = product + random.u64(20_000..90_000);
    }
    let mut values = vec![0.0_f64; (at / 100_000) as usize + 2];
    for (start, end, bytes) in reads {
        for (row, value) in values.iter_mut().enumerate().skip((start / 100_000) as usize).take(2) {
            let (from, to) = (row as u64 * 100_000, (row as u64 + 1) * 100_000);
            let within = end.min(to).saturating_sub(start.max(from));
            *value += bytes * within as f64 / (end - start) as f64;
        }
    }
    let mut samples = Samples::new(1);
    for (row, value) in values.iter().enumerate() {
        let start = row as u64 * 100_000;
        samples.push(start, start + 100_000, &[*value as f32]);
    }
    let truth = Truth { samples, kernels, amounts: Vec::new() };
    let fitted = fit(&truth);
    for (column, bytes) in fitted.stages[0].counters[0].columns.iter().zip([54e6, 8e6]) {
        let amount = column.amount.value().expect("it is known");
        assert!((amount / bytes - 1.0).abs() < 0.03, "{amount} of {bytes}: {:?}", fitted.edges);
    }
}

#[test]
fn a_kernel_that_always_runs_does_not_get_the_background() {
    // 20 ms in which nothing runs, then one kernel after the other: 2 MB in 70 us each, over a
    // background of 1 GB/s.
    let mut samples = Samples::new(1);
    for row in 0..1_200 {
        let work = if row < 200 { 0.0 } else { 2e6 * 100.0 / 70.0 };
        samples.push(row * 100_000, (row + 1) * 100_000, &[work + 1e5]);
    }
    let calls = (0..1_428).map(|call| 20_000_000 + call * 70_000);
    let kernel = |start_ns| Kernel {
        start_ns,
        end_ns: start_ns + 70_000,
        stage: Some(0),
        kind: 1,
        class: 0,
        step: None,
    };
    let truth = Truth { samples, kernels: calls.map(kernel).collect(), amounts: Vec::new() };
    let fitted = fit(&truth);
    let amount = fitted.stages[0].counters[0].columns[0].amount.value().expect("it is known");
    assert!((amount / 2e6 - 1.0).abs() < 0.01, "{amount} bytes for 2 MB");
}
