//! Several runs per side: one word for a number wherever it stands, parts that add up, and what the verdict leaves open.

use super::*;

/// A run of `decode` in so many ms, of which the GPU is idle for all but 2: what of that are launch gaps, and what is a
/// wait for a processor.
fn idling(step: f64, gaps: f64, waiting: f64) -> Report {
    let ns = |ms: f64| (ms * 1e6).round() as u64;
    let mut report = with_host(7, waiting / (step - 2.0) * 100.0, 0.0);
    let row = &mut report.stages[0];
    for host_ns in [&mut row.host_warm_median_ns, &mut row.host_warm_mean_ns] {
        *host_ns = Some(ns(step));
    }
    row.gpu_window_ns = Some(ns(4.0 * step));
    row.gpu_busy_ns = Some(ns(8.0));
    row.gpu_idle_ns = Some(ns(4.0 * (step - 2.0)));
    row.gpu_short_gaps_ns = Some(ns(4.0 * gaps));
    report
}

fn side(runs: [(f64, f64, f64); 4]) -> [Report; 4] {
    runs.map(|(step, gaps, waiting)| idling(step, gaps, waiting))
}

fn line(of: &Comparison, label: &str) -> String {
    of.lines.iter().find(|line| line.label == label).expect("a line").text.clone()
}

/// Of every number with its word that the runs show something of.
fn assert_words(of: &Comparison) {
    let excludes_0 = |ends: Option<[f64; 2]>| ends.is_some_and(|[a, b]| a > 0.0 || b < 0.0);
    let reaches_2x = |ends: Option<[f64; 2]>, before: f64| {
        ends.is_some_and(|[a, b]| b >= before || a <= -before / 2.0)
    };
    let check = |name: &str, word: &str, ends: Option<[f64; 2]>, before: f64| {
        assert!(word != "within noise" || !excludes_0(ends), "{name}: {word} {ends:?}");
        let is_open = reaches_2x(ends, before) && !excludes_0(ends) && word != "equal";
        assert!(!is_open || word == "not judged", "{name}: {word} {ends:?} of {before}");
    };
    for stage in &of.stages {
        for metric in stage.metrics.iter().chain(&stage.host) {
            let before = metric.before.unwrap_or(0.0);
            check(&metric.metric, metric.word(), metric.interval, before);
        }
        for part in stage.parts().rows {
            if part.work.len() < 2 {
                check("part", part.word(), part.interval, part.sides_ns[0]);
            }
            let row = stage.host.iter().find(|row| Some(&*row.metric) == part.cause);
            let word = row.map(|row| match row.verdict {
                Verdict::Increased => "longer",
                Verdict::Decreased => "shorter",
                _ => row.word(),
            });
            assert!(word.is_none_or(|word| word == part.word()), "{part:?} {row:?}");
            if let [row] = part.work[..] {
                assert_eq!(part.word(), row.word(), "{row:?}");
            }
        }
        for row in &stage.work {
            check("row", row.word(), row.interval, row.before.as_ref().map_or(0.0, |a| a.ns));
        }
    }
}

#[test]
fn a_number_has_one_word_and_noise_never_excludes_nothing() {
    let [calm, wild] = [
        side([(10.0, 1.0, 4.0), (10.1, 1.1, 4.1), (10.2, 1.2, 4.2), (10.3, 1.3, 4.3)]),
        side([(11.0, 4.0, 0.2), (11.1, 4.1, 9.0), (30.2, 4.2, 0.1), (11.3, 4.3, 2.3)]),
    ];
    let mut tiny = calm.clone();
    for (at, run) in tiny.iter_mut().enumerate() {
        // Sure, but of no size.
        run.stages[0].gpu_busy_ns = Some(8_020_000 + at as u64);
    }
    for (a, b) in [(&calm, &wild), (&wild, &calm), (&calm, &tiny), (&tiny, &calm), (&calm, &calm)] {
        assert_words(&diff(&a.each_ref(), &b.each_ref(), &[], false));
        assert_words(&diff(&a.each_ref()[..2], &b.each_ref()[..2], &[], false));
    }
    let found = diff(&calm.each_ref(), &tiny.each_ref(), &[], false);
    let busy = found.stages[0].metric("gpu_busy_ms").expect("busy");
    assert_eq!(busy.word(), "too small", "{busy:?}");
    let wild = diff(&calm.each_ref(), &wild.each_ref(), &[], false);
    let waits = &wild.stages[0].host;
    assert!(waits.iter().any(|cause| cause.word() == "not judged"), "{waits:?}");
}

proptest! {
    #[test]
    fn words_hold_of_any_runs(
        runs in prop::collection::vec((3.0..30.0f64, 0.0..1.0f64, 0.0..1.0f64), 8),
        scale in 0.0..1.0f64,
    ) {
        let of = |(at, (step, gaps, waiting)): (usize, &(f64, f64, f64))| {
            let step = if at < 4 { 10.0 + step * scale } else { 10.0 * (1.0 - scale) + step };
            idling(step, gaps * (step - 2.0), waiting * (step - 2.0))
        };
        let runs: Vec<Report> = runs.iter().enumerate().map(of).collect();
        let (a, b) = runs.split_at(4);
        let found = diff(&a.iter().collect::<Vec<_>>(), &b.iter().collect::<Vec<_>>(), &[], false);
        assert_words(&found);
        let stage = &found.stages[0];
        for share in stage.metrics.iter().filter(|metric| metric.metric.ends_with("percent")) {
            let ends = share.before.zip(share.interval);
            let within = ends.is_none_or(|(a, [least, most])| a + least > -1e-9 && a + most < 100.0 + 1e-9);
            prop_assert!(within, "{:?}", share);
        }
        let parts = stage.parts();
        for at in [0, 1] {
            let sum: f64 = parts.rows.iter().map(|part| part.sides_ns[at]).sum();
            prop_assert!((sum + parts.rest_ns[at] - parts.sides_ns[at]).abs() < 1.0);
        }
    }
}

#[test]
fn parts_of_several_runs_are_means_and_leave_no_rest() {
    // The median of each cause is in another run.
    let before = side([(10.0, 1.0, 7.0), (12.0, 1.0, 2.0), (15.0, 1.0, 6.0), (20.0, 1.0, 1.0)]);
    let after = side([(9.0, 1.0, 6.0), (8.0, 1.0, 1.0), (7.0, 1.0, 4.5), (6.0, 1.0, 0.5)]);
    let found = diff(&before.each_ref(), &after.each_ref(), &[], false);
    let parts = found.stages[0].parts();
    assert_eq!(parts.sides_ns.map(|ns| (ns / 1e3).round()), [14_250.0, 7_500.0]);
    let idle = |at: usize| parts.rows.iter().map(|part| part.sides_ns[at]).sum::<f64>();
    let rest = parts.rest_ns;
    // 2 ms of each step is work without rows.
    assert!((rest[0] - 2e6).abs() < 1.0 && (rest[1] - 2e6).abs() < 1.0, "{rest:?}");
    assert!((idle(0) - 12.25e6).abs() < 1.0 && (idle(1) - 5.5e6).abs() < 1.0);
}

#[test]
fn launch_gaps_that_explain_more_than_each_cause_are_named() {
    let before = side([(14.0, 9.5, 4.0), (14.1, 9.5, 8.0), (14.2, 9.6, 1.0), (14.3, 9.6, 6.0)]);
    let after = side([(6.0, 0.3, 2.0), (6.1, 0.3, 1.0), (6.2, 0.4, 0.2), (6.3, 0.4, 3.0)]);
    let found = diff(&before.each_ref(), &after.each_ref(), &[], false);
    let said = found.stages[0].parts().gaps_text();
    assert_eq!(said.as_deref(), Some("launch gaps 9.550 → 0.350 ms (-9.20 ms, better)"));
    let same = side([(6.0, 9.5, 2.0), (6.1, 9.5, 1.0), (6.2, 9.6, 0.2), (6.3, 9.6, 3.0)]);
    let found = diff(&before.each_ref(), &same.each_ref(), &[], false);
    assert_eq!(found.stages[0].parts().gaps, None);
}

#[test]
fn a_change_that_only_the_machine_explains_drops_no_change() {
    let before = side([(10.0, 1.0, 2.0), (10.1, 1.0, 2.0), (10.2, 1.0, 2.0), (10.3, 1.0, 2.0)]);
    let after = side([(20.0, 1.0, 12.0), (20.1, 1.0, 12.1), (20.2, 1.0, 12.2), (20.3, 1.0, 12.3)]);
    let found = |minutes: [usize; 2], command: &str| {
        let [mut a, mut b] = [before.clone(), after.clone()];
        for (at, run) in a.iter_mut().chain(&mut b).enumerate() {
            let minute = minutes[at / 4] + at % 4 * 2;
            run.run.started = Some(format!("2026-11-29T23:{minute:02}:00.000Z"));
            run.run.command = Some(vec![if at < 4 { "serve" } else { command }.to_owned()]);
        }
        diff(&a.each_ref(), &b.each_ref(), &[], false)
    };
    let in_turn = found([10, 11], "serve");
    let apart = found([10, 30], "serve");
    assert_eq!(apart.outlook(), Outlook::Worse, "{}", apart.verdict);
    for of in [&in_turn, &apart] {
        let next = line(of, "next");
        let start = "no difference in the program, libraries or GPU work is known, but the idle time changed, most of \
                     all `Scheduler.schedule (vllm/v1/core/scheduler.py)` (+10.15 ms per call): ";
        assert!(next.starts_with(start) && next.ends_with("with the sides in turn"), "{next}");
    }
    assert!(line(&apart, "comparable").contains("not recorded in turn"), "{:?}", apart.lines);
    assert!(!line(&in_turn, "comparable").contains("in turn"), "{:?}", in_turn.lines);
    let other = found([10, 30], "serve --slow");
    assert_eq!(line(&other, "next"), "the change makes it slower: revise or drop it");
}

#[test]
fn a_stage_that_is_not_judged_stands_in_the_verdict() {
    let of = |decode: u64, prefill: u64| {
        report(&[("decode", 4, decode, Vec::new()), ("prefill", 4, prefill, Vec::new())])
    };
    let before =
        [15_000_000, 14_400_000, 31_000_000, 15_200_000].map(|ns| of(9_000_000 + ns / 100, ns));
    let after =
        [21_000_000, 15_400_000, 31_600_000, 22_000_000].map(|ns| of(5_000_000 + ns / 100, ns));
    let found = diff(&before.each_ref(), &after.each_ref(), &[], false);
    assert_eq!(found.outlook(), Outlook::Better, "{}", found.verdict);
    assert!(found.verdict.ends_with("; prefill +42.4 % is not judged"), "{}", found.verdict);
    let next = line(&found, "next");
    assert_eq!(
        next,
        "the change helps: keep it; record more runs, in turn, to judge prefill +42.4 %"
    );
}
