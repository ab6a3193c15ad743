//! Sequences of launches, and the runs that are found in them.

use super::*;
use proptest::prelude::*;

fn launch(what: u32, span: Span) -> Launch {
    Launch { what, queue: 0, correlation: 0, node: 0, span }
}

fn runs(whats: impl IntoIterator<Item = u32>) -> Vec<Run> {
    let mut runs = Runs::default();
    for (at, what) in (1u64..).zip(whats) {
        runs.push(&launch(what, Span { start: at * 10, end: at * 10 + 7 }));
    }
    runs.finish().runs
}

fn is_period_of(whats: &[u32], run: &Run) -> bool {
    let (start, period) = (run.start as usize, run.period as usize);
    (start + period..run.end as usize).all(|at| whats[at] == whats[at - period])
}

#[test]
fn a_run_is_as_long_as_its_period_holds() {
    let step = (0..50u32).map(|at| at * 7 % 50);
    let whats: Vec<u32> =
        (100..130).chain(std::iter::repeat_n(step, 9).flatten()).chain(200..230).collect();
    let found = runs(whats.iter().copied());
    let [run] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((run.start, run.end, run.period, run.periods()), (30, 480, 50, 9));
    assert_eq!((run.start_ns, run.end_ns), (310, 4_807));
    assert_eq!(run.before_ns, (30 * 7, 480 * 7));
}

#[test]
fn one_kernel_again_and_again_is_no_run_and_takes_no_time() {
    assert_eq!(runs(std::iter::repeat_n(3, 1_000_000)), []);
}

#[test]
fn four_periods_are_too_few() {
    let whats =
        |periods: u32| (0..10).chain((0..periods * 30).map(|at| 100 + at % 30)).chain(0..10);
    assert_eq!(runs(whats(4)), []);
    assert_eq!(runs(whats(5)).len(), 1);
}

#[test]
fn of_too_many_runs_the_longest_are_kept_and_what_was_dropped_is_told() {
    let limits = Limits { runs: 8, patterns: 8 };
    let mut runs = Runs { limits, ..Runs::default() };
    // Twenty steps of their own kernels each; the tenth repeats longest, the third second.
    for kind in 0..20u32 {
        let times = match kind {
            10 => 40,
            3 => 30,
            _ => 6,
        };
        for what in (0..20).map(|at| 100 * kind + at).collect::<Vec<_>>().repeat(times) {
            runs.push(&launch(what, Span { start: 1, end: 2 }));
            assert!(runs.runs.len() <= 8 && runs.patterns.len() <= 8);
        }
    }
    let found = runs.finish();
    assert_eq!(found.longest_dropped, 6 * 20);
    let longest: Vec<u64> =
        found.runs.iter().map(|run| run.periods()).filter(|&periods| periods > 6).collect();
    assert_eq!(longest, [30, 40]);
}

#[test]
fn a_pattern_is_the_same_wherever_it_begins() {
    let whats: Vec<u32> = (0..40).map(|at| at * at % 23).collect();
    for by in 1..40 {
        let mut other = whats.clone();
        other.rotate_left(by);
        assert_eq!(pattern_of(&other), pattern_of(&whats));
    }
    let mut other = whats.clone();
    other.swap(3, 4);
    assert_ne!(pattern_of(&other), pattern_of(&whats));
    assert!(is_primitive(&[1, 2, 1]) && is_primitive(&[1, 2]));
    assert!(!is_primitive(&[1, 2, 1, 2]) && !is_primitive(&[4, 4, 4]));
}

proptest! {
    /// Layers inside of steps, by any lengths: every run holds, and the steps are found by
    /// their smallest period.
    #[test]
    fn every_run_holds_and_a_step_is_found(
        layer in prop::collection::vec(0u32..6, 2..12),
        layers in 1usize..9,
        head in prop::collection::vec(6u32..12, 1..9),
        steps in 5usize..12,
        before in prop::collection::vec(12u32..40, 0..60),
    ) {
        let step: Vec<u32> =
            head.iter().copied().chain(layer.repeat(layers)).collect();
        let whats: Vec<u32> =
            before.iter().copied().chain(step.repeat(steps)).chain([99]).collect();
        let found = runs(whats.iter().copied());
        for run in &found {
            prop_assert!(is_period_of(&whats, run), "{run:?}");
            prop_assert!(run.periods() >= PIECE && run.period > 1);
        }
        prop_assert!(
            found.iter().any(|run| run.period == step.len() as u64
                && run.periods() == steps as u64),
            "{found:?} of {} x {}", step.len(), steps
        );
    }

    #[test]
    fn whatever_comes_memory_is_bounded(
        blocks in prop::collection::vec((0u32..4, 1usize..6, 5usize..12), 0..400),
    ) {
        let limits = Limits { runs: 8, patterns: 8 };
        let mut runs = Runs { limits, ..Runs::default() };
        for (first, length, times) in blocks {
            for at in 0..length * times {
                let what = first + (at % length) as u32;
                runs.push(&launch(what, Span { start: 0, end: 0 }));
                prop_assert!(runs.followed.len() <= FOLLOWED && runs.runs.len() <= 8);
                prop_assert!(runs.patterns.len() <= 8);
            }
        }
    }
}
