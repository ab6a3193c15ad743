//! Input that no device sends: what is sound around it is fitted all the same, and nothing panics.

use fastrand::Rng;
use stage2_counter_fit::{Column, Fit, Fitted, Kernel, Kinds, OWN_COLUMNS, Samples};
use stage2_model::{NoAmount, SampledAmount};

fn kernel(start_ns: u64, end_ns: u64, stage: Option<u32>, kind: u32) -> Kernel {
    Kernel { start_ns, end_ns, stage, kind, class: kind % 3, step: None }
}

fn fit(samples: &Samples, kernels: &[Kernel]) -> Fitted {
    let mut kinds = Kinds::default();
    kernels.iter().for_each(|kernel| kinds.add(kernel));
    let design = kinds.design(samples);
    let mut fit = Fit::new(samples, &design);
    kernels.iter().for_each(|kernel| fit.kernel(kernel));
    fit.finish()
}

fn amount(fitted: &Fitted, stage: usize) -> SampledAmount {
    fitted.stages[stage].counters[0].columns[0].amount.clone()
}

fn even(rows: u64) -> Samples {
    let mut samples = Samples::new(1);
    (0..rows).for_each(|row| samples.push(row * 100, row * 100 + 100, &[1.0]));
    samples
}

/// Stage 0 reads 5 per call. Every tenth sample holds something else as well, and reads 1,000; samples and
/// kernels that cannot be lie in between.
#[test]
fn a_sample_that_holds_work_of_no_or_of_another_stage_is_in_no_fit() {
    for other in [Some(1), None] {
        let (mut samples, mut kernels) = (Samples::new(1), Vec::new());
        let mut random = Rng::with_seed(3);
        for row in 0..1_000 {
            let (calls, start) = (random.u64(0..4), row * 100);
            let call = |call| kernel(start + call * 20, start + call * 20 + 10, Some(0), 1);
            kernels.extend((0..calls).map(call));
            let mixed = row % 10 == 0 && calls > 0;
            kernels.extend(mixed.then(|| kernel(start + 90, start + 95, other, 2)));
            // It ends before it starts, or lies where no sample is.
            kernels.extend([
                kernel(start + 50, start + 40, Some(0), 1),
                kernel(1 << 40, 1 << 41, None, 1),
            ]);
            let value = 5.0 * calls as f32 + if mixed { 995.0 } else { 0.0 };
            samples.push(start, start + 100, &[value]);
            // Without length, in reverse, on top of the one before.
            for (from, to) in [(100, 100), (100, 50), (50, 150)] {
                samples.push(start + from, start + to, &[9e9]);
            }
        }
        let fitted = fit(&samples, &kernels);
        let found = amount(&fitted, 0);
        assert!(found.value().is_some_and(|amount| (amount - 5.0).abs() < 0.01), "{found:?}");
        // Stage 1 never has a sample of its own.
        if other.is_some() {
            assert_eq!(amount(&fitted, 1), SampledAmount::Absent(NoAmount::NoSamples));
        }
    }
}

/// A value that is no amount is one that is missing: its sample counts for the other counter.
#[test]
fn values_that_are_no_amounts_are_missing() {
    let (mut samples, mut kernels) = (Samples::new(2), Vec::new());
    for row in 0..1_000 {
        let calls = row % 4;
        kernels.extend(
            (0..calls).map(|at| kernel(row * 100 + at * 20, row * 100 + at * 20 + 10, Some(0), 1)),
        );
        let bad = [f32::INFINITY, -1.0, f32::NAN].get(row as usize % 10).copied();
        samples.push(
            row * 100,
            row * 100 + 100,
            &[5.0 * calls as f32, bad.unwrap_or(7.0 * calls as f32)],
        );
    }
    let fitted = fit(&samples, &kernels);
    for (counter, wanted) in fitted.stages[0].counters.iter().zip([5.0, 7.0]) {
        let amount = counter.columns[0].amount.value().expect("known");
        assert!((amount / wanted - 1.0).abs() < 1e-3, "{amount} for {wanted}");
    }
}

#[test]
fn the_order_of_kernels_does_not_matter() {
    let mut random = Rng::with_seed(5);
    let mut samples = Samples::new(1);
    let mut kernels = Vec::new();
    for row in 0..2_000 {
        let kind = random.u32(0..4);
        let start = row * 100 + random.u64(0..40);
        kernels.push(kernel(start, start + 50 + u64::from(kind), Some(0), kind));
        let value = f32::from(u8::try_from(kind).expect("a small number") + 1) * 1e3;
        samples.push(row * 100, row * 100 + 100, &[value]);
    }
    let sorted = fit(&samples, &kernels);
    // The search for the edges looks at the samples up to the last kernels.
    random.shuffle(&mut kernels[..1_900]);
    let shuffled = fit(&samples, &kernels);
    let amounts = |fitted: &Fitted| -> Vec<f64> {
        fitted.stages[0].counters[0]
            .columns
            .iter()
            .map(|of| of.amount.value().expect("known"))
            .collect()
    };
    for (a, b) in amounts(&sorted).into_iter().zip(amounts(&shuffled)) {
        assert!((a / b - 1.0).abs() < 1e-6, "{a} is not {b}");
    }
}

#[test]
fn rare_kinds_are_pooled_by_class() {
    let kernels: Vec<Kernel> =
        (0..1_000).map(|kind| kernel(0, 10_000 - u64::from(kind), Some(0), kind)).collect();
    let fitted = fit(&even(100), &kernels);
    let columns: Vec<Column> =
        fitted.stages[0].counters[0].columns.iter().map(|of| of.column).collect();
    let own = OWN_COLUMNS as u32;
    let wanted = (0..own).map(Column::Kind).chain([0, 1, 2].map(|at| Column::Pool((own + at) % 3)));
    assert_eq!(columns, wanted.collect::<Vec<_>>());
}

#[test]
fn any_numbers_end_in_time() {
    let begin = std::time::Instant::now();
    let mut random = Rng::with_seed(4);
    for round in 0..20 {
        let mut samples = Samples::new(3);
        let wild = [0.0, f32::NAN, f32::INFINITY, -1.0, f32::MAX, f32::MIN_POSITIVE, 1.0];
        for row in 0..2_000_u64 {
            let start = if random.u8(..20) == 0 { random.u64(..) } else { row * 100 };
            let values = [(); 3].map(|()| wild[random.usize(..wild.len())]);
            samples.push(start, start.saturating_add(100), &values);
        }
        let any =
            |random: &mut Rng| if random.bool() { random.u64(..) } else { random.u64(..200_000) };
        let kernels: Vec<Kernel> = (0..5_000)
            .map(|_| Kernel {
                start_ns: any(&mut random),
                end_ns: any(&mut random),
                stage: Some(random.u32(..))
                    .filter(|stage| stage % 5 > 0)
                    .map(|stage| stage % (1 + round * 300)),
                kind: random.u32(..400),
                class: random.u32(..),
                step: Some(random.u32(..)),
            })
            .collect();
        fit(&samples, &kernels);
    }
    // 100,000 kernels that each last all the time.
    fit(&even(20_000), &vec![kernel(0, 2_000_000, Some(0), 1); 100_000]);
    assert!(begin.elapsed().as_secs() < 60, "it took {:?}", begin.elapsed());
}

#[test]
fn nothing_at_all_is_no_amount() {
    let fitted = fit(&Samples::new(1), &[kernel(0, 10, Some(0), 1)]);
    assert_eq!(amount(&fitted, 0), SampledAmount::Absent(NoAmount::NoCounter));
    assert!(fit(&even(10), &[]).stages.is_empty());
}
