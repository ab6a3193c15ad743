//! Sequences of launches with known steps, and without any.

use proptest::prelude::*;

use super::*;
use crate::trace::stats::Span;

/// Launches one kernel after the other; every one takes 3 us, and starts 10 us after the last.
#[derive(Default)]
struct Program {
    launches: Vec<Launch>,
}

impl Program {
    fn of(whats: &[u32]) -> Self {
        let mut program = Program::default();
        program.run(whats);
        program
    }
    fn launch(&mut self, what: u32, queue: u32, ns: u64) {
        let at = self.launches.len() as u64 + 1;
        let span = Span { start: at * 10_000, end: at * 10_000 + ns };
        self.launches.push(Launch { what, queue, correlation: at, node: 0, span });
    }

    fn run(&mut self, whats: &[u32]) {
        whats.iter().for_each(|&what| self.launch(what, 1, 3_000));
    }

    fn repeats(&self) -> Vec<Repeats> {
        let mut sequences = Sequences::default();
        self.launches.iter().for_each(|&launch| sequences.push(launch));
        sequences.finish()
    }

    /// The only kind of step: launches, steps, phases.
    fn steps(&self) -> (u64, u64, u64) {
        let found = self.repeats();
        let [Repeats { phases, .. }] = found.as_slice() else { panic!("{found:?}") };
        let [phase] = phases.as_slice() else { panic!("{phases:?}") };
        (phase.launches_per_step, phase.steps, phase.phases)
    }
}

/// `layers` layers of 20 kernels and a head; `kind` makes the kernels others.
fn forward(layers: usize, kind: u32) -> Vec<u32> {
    let base = kind * 100;
    let layer: Vec<u32> = (0..20).map(|at| base + at * 3 % 13).collect();
    let head = (0..10).map(|at| 50 + at);
    (90..94).chain(layer.repeat(layers)).chain(head).collect()
}

fn random(count: usize, mut state: u64, names: u32) -> Vec<u32> {
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as u32 % names
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn steps_are_at_least_so_many_where_a_run_as_long_was_dropped() {
    let mut runs = Runs::default();
    let program = Program::of(&forward(3, 1).repeat(30));
    program.launches.iter().for_each(|launch| runs.push(launch));
    let mut found = runs.finish();
    let period = forward(3, 1).len() as u64;
    for (dropped, expected) in [(0, false), (5 * period - 1, false), (5 * period, true)] {
        found.longest_dropped = dropped;
        let repeats = repeats_of(&found).expect("steps");
        assert_eq!(repeats.phases[0].at_least, expected, "{dropped} of {period}");
    }
}

#[test]
fn the_steps_of_three_decodes_are_found_and_their_prefills_stand_apart() {
    let (prefill, step) = (forward(34, 2), forward(34, 1));
    let mut program = Program::default();
    program.run(&random(3_000, 7, 40));
    for _ in 0..3 {
        prefill.iter().for_each(|&what| program.launch(what, 1, 9_000));
        (0..64).for_each(|_| program.run(&step));
    }
    let found = program.repeats();
    let [Repeats { queue: None, launches, phases, .. }] = found.as_slice() else {
        panic!("{found:?}")
    };
    let [phase] = phases.as_slice() else { panic!("{phases:?}") };
    assert_eq!(phase.launches_per_step, 694);
    assert_eq!((phase.phases, phase.steps, phase.irregular_launches), (3, 192, 0));
    assert_eq!(*launches, 3_000 + 3 * (65 * 694));
    assert_eq!(phase.steps_per_phase.median(), Some(64));
    assert_eq!((phase.leads.launches.count(), phase.leads.launches.median()), (2, Some(694)));
    assert_eq!(phase.step_times.min_ns, Some(6_940_000), "3 us kernels, every 10 us");
    assert_eq!(phase.step_times.max_ns, Some(6_940_000));
    assert_eq!(phase.step_times.timed(), 192, "the last one of each phase goes on, too");
    assert!(phase.follows_longer_work());
}

#[test]
fn short_requests_that_repeat_are_no_steps() {
    let request = [forward(16, 2), forward(16, 1).repeat(8)].concat();
    assert_eq!(Program::of(&request.repeat(20)).steps(), (334, 160, 20));
}

#[test]
fn experts_in_layers_in_steps_are_no_steps() {
    let expert = [1, 2, 3, 4];
    let layer: Vec<u32> = (10..25).chain(expert.repeat(8)).collect();
    let step: Vec<u32> = (30..37).chain(layer.repeat(12)).chain(40..50).collect();
    assert_eq!(Program::of(&step.repeat(30)).steps(), (step.len() as u64, 30, 1));
}

#[test]
fn too_few_steps_are_none() {
    let step: Vec<u32> = (0..100).collect();
    let mut program = Program::of(&[random(50, 3, 1_000), step.repeat(4)].concat());
    assert!(program.repeats().is_empty());
    program.run(&step);
    assert_eq!(program.steps(), (100, 5, 1));
}

#[test]
fn odd_steps_do_not_end_a_phase() {
    let step: Vec<u32> = (0..100).collect();
    let mut program = Program::default();
    for odd in random(2_000, 21, 60) {
        program.run(&step[..60]);
        if odd == 0 {
            program.run(&[777]);
        }
        program.run(&step[60..]);
    }
    let found = program.repeats();
    let phase = &found[0].phases[0];
    assert_eq!((found[0].phases.len(), phase.launches_per_step), (1, 100));
    assert!(phase.phases <= 3 && (1_980..=2_000).contains(&phase.steps), "{phase:?}");
    assert!(phase.irregular_launches >= 20, "{phase:?}");
}

/// Steps of 8 kernels; behind every `whole` of them comes one that is always another.
fn with_others_between(whole: usize) -> Vec<Repeats> {
    let step: Vec<u32> = (0..8).collect();
    let mut program = Program::of(&step.repeat(5));
    for other in 100..300 {
        program.run(&[other]);
        program.run(&step.repeat(whole));
    }
    program.repeats()
}

#[test]
fn a_phase_counts_where_whole_steps_are_95_percent_of_it() {
    // 24 of 25 are 96 %, 16 of 17 are 94 %.
    let found = with_others_between(3);
    let phase = &found[0].phases[0];
    assert_eq!((phase.launches_per_step, phase.phases, phase.steps), (8, 1, 605));
    assert_eq!(phase.irregular_launches, 200);
    let found = with_others_between(2);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn the_smallest_period_counts_and_no_half_of_one() {
    // The halves differ in one kernel.
    let mut step: Vec<u32> = (0..347).chain(0..347).collect();
    step[100] = 5_000;
    assert_eq!(Program::of(&step.repeat(24)).steps(), (694, 24, 1));
    step[100] = 100;
    assert_eq!(Program::of(&step.repeat(24)).steps(), (347, 48, 1));
}

#[test]
fn threads_that_mix_are_told_apart_by_their_queues() {
    let step: Vec<u32> = (0..60).map(|at| at * 7 % 60).collect();
    let mut program = Program::default();
    let mut at = [0usize; 2];
    for turn in random(6_000, 11, 2) {
        let thread = turn as usize;
        program.launch(step[at[thread] % 60] + 100 * turn, 1 + turn, 3_000);
        at[thread] += 1;
    }
    let found = program.repeats();
    let seen: Vec<_> =
        found.iter().map(|r| (r.queue, r.phases[0].launches_per_step, r.phases[0].steps)).collect();
    let mut expected = vec![(Some(1), 60, at[0] as u64 / 60), (Some(2), 60, at[1] as u64 / 60)];
    expected.sort_by_key(|&(queue, ..)| seen.iter().position(|s| s.0 == queue));
    assert_eq!(seen, expected);
}

#[test]
fn streams_of_one_thread_make_one_step() {
    let mut program = Program::default();
    for _ in 0..20 {
        (0..30).for_each(|at| program.launch(at, 1 + at % 3, 3_000));
    }
    assert_eq!(program.steps(), (30, 20, 1));
    assert_eq!(program.repeats()[0].queue, None);
}

#[test]
fn replays_of_a_graph_are_steps_in_whatever_order_their_kernels_ran() {
    let mut sequences = Sequences::default();
    let order = random(200 * 40, 5, 1_000);
    for replay in 0..200u64 {
        let mut nodes: Vec<u64> = (1..=40).collect();
        let keys = &order[replay as usize * 40..][..40];
        nodes.sort_by_key(|&node| keys[node as usize - 1]);
        for node in nodes {
            let start = 1 + replay * 1_000_000 + node;
            let what = (node * 11 % 40) as u32;
            let correlation = 10 * replay;
            let span = Span { start, end: start + 5 };
            sequences.push(Launch { what, queue: 1, correlation, node, span });
        }
    }
    let found = sequences.finish();
    assert_eq!((found[0].phases[0].launches_per_step, found[0].phases[0].steps), (40, 200));
    let p50 = found[0].phases[0].step_times.percentile_ns(50);
    assert!(p50.is_some_and(|ns| (980_000..1_020_000).contains(&ns)), "{p50:?}");
}

#[test]
fn graphs_that_ran_as_a_whole_belong_to_a_step() {
    let found = Program::of(&[GRAPH | 4, 1, 2].repeat(50)).repeats();
    let phase = &found[0].phases[0];
    assert_eq!((phase.launches_per_step, phase.graphs_per_step, phase.steps), (3, 1, 50));
}

#[test]
fn one_kernel_again_and_again_is_no_step() {
    let mut program = Program::default();
    program.run(&vec![3; 1_000_000]);
    assert!(program.repeats().is_empty());
}

#[test]
fn a_little_loop_in_a_long_program_is_not_its_step() {
    let whats = [random(4_000, 9, 100), [1, 2, 3, 4].repeat(300), random(4_000, 10, 100)];
    assert!(Program::of(&whats.concat()).repeats().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The kernels of a decode in any other order have no period.
    #[test]
    fn a_shuffled_sequence_has_no_steps(
        seed in 1u64..u64::MAX,
        step in 8usize..200,
        steps in 20usize..60,
        names in 6u32..80,
    ) {
        let names: Vec<u32> = (0..step as u32).map(|at| at % names).collect();
        let mut whats = names.repeat(steps);
        let keys = random(whats.len(), seed, u32::MAX);
        let mut order: Vec<usize> = (0..whats.len()).collect();
        order.sort_by_key(|&at| keys[at]);
        let shuffled: Vec<u32> = order.iter().map(|&at| whats[at]).collect();
        let found = Program::of(&shuffled).repeats();
        prop_assert!(found.is_empty(), "{found:?}");
        // In order they do, unless a shorter period makes up the step.
        whats.extend_from_slice(&names);
        prop_assert_eq!(Program::of(&whats).repeats().len(), 1);
    }

    #[test]
    fn any_sequence_ends_well_and_counts_no_launch_twice(
        blocks in prop::collection::vec((0u32..6, 1usize..9, 1usize..40, 0u32..3), 0..60),
    ) {
        let mut program = Program::default();
        for (first, length, times, queue) in blocks {
            for at in 0..length * times {
                program.launch(first + (at % length) as u32, queue, at as u64 % 3 * 1_000);
            }
        }
        for found in program.repeats() {
            let of = |p: &Phase| p.steps * p.launches_per_step;
            prop_assert!(found.phases.iter().map(of).sum::<u64>() <= found.launches);
            for phase in &found.phases {
                prop_assert!(phase.launches_per_step > 1 && phase.steps >= 5 * phase.phases);
            }
        }
    }
}

fn launch_of(what: u32, span: Span) -> Launch {
    Launch { what, queue: 0, correlation: 0, node: 0, span }
}

fn runs(whats: impl IntoIterator<Item = u32>) -> Vec<Run> {
    let mut runs = Runs::default();
    for (at, what) in (1u64..).zip(whats) {
        runs.push(&launch_of(what, Span { start: at * 10, end: at * 10 + 7 }));
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
            runs.push(&launch_of(what, Span { start: 1, end: 2 }));
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
                runs.push(&launch_of(what, Span { start: 0, end: 0 }));
                prop_assert!(runs.followed.len() <= FOLLOWED && runs.runs.len() <= 8);
                prop_assert!(runs.patterns.len() <= 8);
            }
        }
    }
}

fn launch(correlation: u64, node: u64) -> Launch {
    Launch { what: 0, queue: 0, correlation, node, span: Span { start: 0, end: 0 } }
}

#[test]
fn buffers_of_several_threads_become_one_sequence() {
    let mut order = InOrder { held: Vec::new(), window: 100 };
    let mut seen = Vec::new();
    // Two threads launch in turn; each hands over a buffer of 40 launches at a time.
    for buffer in 0..50u64 {
        let (thread, first) = (buffer % 2, buffer / 2 * 80);
        for at in 0..40 {
            let correlation = first + 2 * at + thread;
            let ready = order.push(launch(correlation, 0));
            seen.extend(ready.iter().map(|launch| launch.correlation));
            assert!(order.held.len() <= 200);
        }
    }
    seen.extend(order.rest().iter().map(|launch| launch.correlation));
    assert_eq!(seen, (0..2_000).collect::<Vec<u64>>());
}

#[test]
fn kernels_of_a_replay_come_by_their_nodes() {
    let mut order = InOrder::default();
    for node in [3, 1, 2] {
        order.push(launch(7, node));
    }
    let nodes: Vec<u64> = order.rest().iter().map(|launch| launch.node).collect();
    assert_eq!(nodes, [1, 2, 3]);
}
