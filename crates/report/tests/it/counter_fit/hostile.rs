//! Input that no device sends: every kernel and sample is fitted or counted, and nothing panics.

use super::fit;
use fastrand::Rng;
use stage2_report::counter_fit::{
    Amount, Column, Edges, FitError, Fitted, Kernel, Kinds, OWN_COLUMNS, Reason, Samples,
};

fn kernel(start_ns: u64, end_ns: u64, stage: Option<u32>, kind: u32) -> Kernel {
    Kernel { start_ns, end_ns, stage, kind, class: kind % 3, step: None }
}

fn even(rows: u64) -> Samples {
    let mut samples = Samples::new(1).expect("one counter");
    for row in 0..rows {
        samples.push(row * 100, row * 100 + 100, &[1.0]).expect("one value");
    }
    samples
}

#[test]
fn unusable_samples_are_counted() {
    let mut samples = Samples::new(2).expect("two counters");
    for (start, end, values) in [
        (100, 200, [1.0, f32::NAN]),
        (50, 150, [1.0, 1.0]),
        (300, 300, [1.0, 1.0]),
        (400, 300, [1.0, 1.0]),
        (300, u64::MAX, [f32::INFINITY, -1.0]),
    ] {
        samples.push(start, end, &values).expect("two values");
    }
    let counts = samples.counts();
    assert_eq!((counts.kept, counts.out_of_order, counts.empty), (2, 1, 2));
    assert_eq!((counts.invalid_values, counts.gaps), (2, 1));
    assert_eq!(samples.push(0, 1, &[0.0]), Err(FitError::WrongWidth { expected: 2, found: 1 }));
    assert!(matches!(Samples::new(1000), Err(FitError::TooManyCounters { found: 1000, .. })));
}

#[test]
fn unusable_kernels_are_counted() {
    let mut samples = even(100);
    samples.push(20_000, 20_100, &[1.0]).expect("one value");
    let kernels = [
        kernel(50, 40, Some(0), 1),
        kernel(150, 150, Some(0), 1),
        kernel(9_950, 10_050, Some(0), 1),
        kernel(12_000, 12_100, Some(0), 1),
        kernel(u64::MAX - 1, u64::MAX, Some(0), 1),
        kernel(320, 330, None, 1),
        kernel(410, 420, Some(0), 1),
        kernel(430, 440, Some(1), 1),
    ];
    let counts = fit(&samples, &kernels, Some(Edges::default())).counts;
    assert_eq!((counts.kernels, counts.reversed, counts.zero_length, counts.cut), (5, 1, 1, 1));
    assert_eq!((counts.outside, counts.foreign), (2, 1));
    assert_eq!((counts.mixed_samples, counts.foreign_samples), (1, 1));
    assert_eq!((counts.fitted_samples, counts.idle_samples), (2, 97));
}

#[test]
fn a_sample_of_two_stages_is_in_no_fit() {
    // Stage 0 reads 5 per call. Every tenth sample holds a kernel of stage 1, and reads 1,000.
    let (mut samples, mut kernels) = (Samples::new(1).expect("one counter"), Vec::new());
    let mut random = Rng::with_seed(3);
    for row in 0..1_000 {
        let calls = random.u64(0..4);
        let start = row * 100;
        kernels.extend((0..calls).map(|n| kernel(start + n * 20, start + n * 20 + 10, Some(0), 1)));
        let mixed = row % 10 == 0 && calls > 0;
        kernels.extend(mixed.then(|| kernel(start + 90, start + 95, Some(1), 2)));
        let value = 5.0 * calls as f32 + if mixed { 995.0 } else { 0.0 };
        samples.push(start, start + 100, &[value]).expect("one value");
    }
    let fitted = fit(&samples, &kernels, Some(Edges::default()));
    assert!(fitted.counts.mixed_samples > 50, "{:?}", fitted.counts);
    let amount = fitted.stages[0].counters[0].columns[0].amount;
    let is_five = matches!(amount, Amount::Value { amount, .. } if (amount - 5.0).abs() < 0.01);
    assert!(is_five, "{amount:?}");
    // Stage 1 never has a sample of its own.
    assert_eq!(fitted.stages[1].counters[0].columns[0].amount, Amount::Unknown(Reason::NoSamples));
}

#[test]
fn the_order_of_kernels_does_not_matter() {
    let mut random = Rng::with_seed(5);
    let mut samples = Samples::new(1).expect("one counter");
    let mut kernels = Vec::new();
    for row in 0..2_000 {
        let kind = random.u32(0..4);
        let start = row * 100 + random.u64(0..40);
        kernels.push(kernel(start, start + 50 + u64::from(kind), Some(0), kind));
        let value = f32::from(u8::try_from(kind).expect("a small number") + 1) * 1e3;
        samples.push(row * 100, row * 100 + 100, &[value]).expect("one value");
    }
    let sorted = fit(&samples, &kernels, Some(Edges::default()));
    random.shuffle(&mut kernels);
    let shuffled = fit(&samples, &kernels, Some(Edges::default()));
    assert_eq!((sorted.counts.kernels, sorted.counts.late), (2_000, 0));
    assert_eq!(sorted.counts, shuffled.counts);
    let amounts = |fitted: &Fitted| -> Vec<f64> {
        let columns = fitted.stages[0].counters[0].columns.iter();
        columns.map(|of| of.amount.value().expect("known")).collect()
    };
    for (a, b) in amounts(&sorted).into_iter().zip(amounts(&shuffled)) {
        assert!((a / b - 1.0).abs() < 1e-6, "{a} is not {b}");
    }
}

#[test]
fn rare_kinds_are_pooled_by_class() {
    let mut kinds = Kinds::new();
    for kind in 0..1_000 {
        kinds.add(&kernel(0, 10_000 - u64::from(kind), Some(0), kind));
    }
    let design = kinds.design(&even(100));
    let last = OWN_COLUMNS as u32 - 1;
    assert_eq!(design.column(0, last), Some(Column::Kind(last)));
    assert_eq!(design.column(0, last + 1), Some(Column::Pool((last + 1) % 3)));
    assert_eq!(design.column(1, 0), None);
}

#[test]
fn any_numbers_end_in_time() {
    let begin = std::time::Instant::now();
    let mut random = Rng::with_seed(4);
    for round in 0..20 {
        let mut samples = Samples::new(3).expect("three counters");
        let wild = [0.0, f32::NAN, f32::INFINITY, -1.0, f32::MAX, f32::MIN_POSITIVE, 1.0];
        for row in 0..2_000_u64 {
            let start = if random.u8(..20) == 0 { random.u64(..) } else { row * 100 };
            let values = [(); 3].map(|()| wild[random.usize(..wild.len())]);
            samples.push(start, start.saturating_add(100), &values).expect("three values");
        }
        let any =
            |random: &mut Rng| if random.bool() { random.u64(..) } else { random.u64(..200_000) };
        let kernels: Vec<Kernel> = (0..5_000)
            .map(|_| Kernel {
                start_ns: any(&mut random),
                end_ns: any(&mut random),
                stage: (random.u8(..5) > 0).then(|| random.u32(..1 + round * 300)),
                kind: random.u32(..400),
                class: random.u32(..),
                step: Some(random.u32(..)),
            })
            .collect();
        let narrow = Edges { start_ns: i64::MAX, end_ns: i64::MIN };
        let far = [Edges::both(i64::MIN), Edges::both(i64::MAX), narrow].map(Some);
        let fitted = fit(&samples, &kernels, far.get(round as usize % 4).copied().flatten());
        let counts = fitted.counts;
        assert_eq!(counts.kernels + counts.reversed + counts.outside, 5_000, "{counts:?}");
    }
    // 100,000 kernels that each last all the time.
    let always = vec![kernel(0, 2_000_000, Some(0), 1); 100_000];
    let fitted = fit(&even(20_000), &always, Some(Edges::default()));
    assert!(fitted.counts.crowded > 0, "{:?}", fitted.counts);
    assert!(begin.elapsed().as_secs() < 60, "it took {:?}", begin.elapsed());
}

#[test]
fn nothing_at_all_is_no_amount() {
    let fitted = fit(&Samples::new(1).expect("one counter"), &[kernel(0, 10, Some(0), 1)], None);
    assert_eq!(fitted.stages[0].counters[0].columns[0].amount, Amount::Unknown(Reason::NoCounter));
    let fitted = fit(&even(10), &[], None);
    assert!(fitted.stages.is_empty() && fitted.idle[0].amount == 10.0);
}
