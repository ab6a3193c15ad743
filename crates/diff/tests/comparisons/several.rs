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
        assert!(!is_open || word == "inconclusive", "{name}: {word} {ends:?} of {before}");
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
            let word = row.map(|row| stage.word(row));
            assert!(word.is_none_or(|word| word == part.word()), "{part:?} {row:?}");
            if let [row] = part.work[..] {
                let class = stage.metric(&format!("class_{}_ms", row.class));
                let class = class.filter(|class| class.change.is_some());
                let word = class.map_or_else(|| row.word(), |class| stage.word(class));
                assert_eq!(part.word(), word, "{row:?}");
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
    assert!(waits.iter().any(|cause| cause.word() == "inconclusive"), "{waits:?}");
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
    // The tables have the same numbers, and the times of steps are medians.
    let of = |name: &str| found.stages[0].metric(name).and_then(|metric| metric.before);
    assert_eq!(of("window_ms"), Some(14.25));
    assert_eq!(of("idle_ms").map(|ms| (ms * 1e6).round()), Some(12.25e6));
    assert_eq!(of("step_ms"), Some(13.5));
    for cause in &found.stages[0].host {
        let part = parts.rows.iter().find(|part| part.cause == Some(&cause.metric));
        let ns = part.expect("a part").sides_ns[0];
        assert!((cause.before.expect("a time") * 1e6 - ns).abs() < 1.0, "{cause:?}");
    }
    let one = diff(&before.each_ref(), &after.each_ref()[..1], &[], false);
    assert!(one.verdict.contains("(4 runs vs 1"), "{}", one.verdict);
}

#[test]
fn launch_gaps_that_explain_more_than_each_cause_are_named() {
    let before = side([(14.0, 9.5, 4.0), (14.1, 9.5, 8.0), (14.2, 9.6, 1.0), (14.3, 9.6, 6.0)]);
    let after = side([(6.0, 0.3, 2.0), (6.1, 0.3, 1.0), (6.2, 0.4, 0.2), (6.3, 0.4, 3.0)]);
    let found = diff(&before.each_ref(), &after.each_ref(), &[], false);
    let said = found.stages[0].parts().gaps_text();
    assert_eq!(
        said.as_deref(),
        Some(
            "the same idle time: launch gaps 9.550 → 0.350 ms (better), not launch gaps 2.600 → 3.800 ms (worse)"
        )
    );
    let same = side([(6.0, 9.5, 2.0), (6.1, 9.5, 1.0), (6.2, 9.6, 0.2), (6.3, 9.6, 3.0)]);
    let found = diff(&before.each_ref(), &same.each_ref(), &[], false);
    assert_eq!(found.stages[0].parts().gaps, None);
    // A host that was ahead in one run of four leaves the causes as they are; in two, they are no parts.
    let ahead = |runs: usize| {
        let mut before = before.clone();
        for run in &mut before[..runs] {
            let stage = Some("decode".to_owned());
            let said = Takeaway { rule: Rule::HostAhead, stage, ..Takeaway::default() };
            run.insight.takeaways.push(said);
        }
        let found = diff(&before.each_ref(), &after.each_ref(), &[], false);
        let parts = found.stages[0].parts();
        let has_gaps = parts.rows.iter().any(|part| part.cause == Some("launch gaps"));
        (has_gaps, parts.has_other_causes)
    };
    assert_eq!([0, 1, 2].map(ahead), [(false, false), (false, false), (true, true)]);
}

#[test]
fn a_run_far_from_the_others_of_its_side_is_named() {
    let before = side([(10.0, 1.0, 2.0), (10.1, 1.0, 2.0), (10.2, 1.0, 2.0), (10.3, 1.0, 2.0)]);
    let found = |last: f64| {
        let after = side([(10.0, 1.0, 2.0), (10.1, 1.0, 2.0), (10.2, 1.0, 2.0), (last, 1.0, 2.0)]);
        line(&diff(&before.each_ref(), &after.each_ref(), &[], false), "comparable")
    };
    let far = found(15.15);
    assert!(far.contains(" takes 1.50x as long as the others (decode)"), "{far}");
    assert!(!found(10.9).contains("as long as the other runs"), "less than 10 %");
    let two =
        diff(&[&before[0], &before[1]], &[&before[2], &slower(before[3].clone())], &[], false);
    assert!(!line(&two, "comparable").contains("as long as"), "no other runs to tell");
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
    let interleaved = found([10, 11], "serve");
    let apart = found([10, 30], "serve");
    assert_eq!(apart.outlook(), Outlook::Worse, "{}", apart.verdict);
    for of in [&interleaved, &apart] {
        let next = line(of, "next");
        let start = "no known difference in the program, libraries or GPU work, but idle time changed, mainly \
                     `Scheduler.schedule (vllm/v1/core/scheduler.py)` (+10.15 ms per call): ";
        assert!(next.starts_with(start) && next.ends_with("with the runs interleaved"), "{next}");
    }
    assert!(line(&apart, "comparable").contains("runs not interleaved"), "{:?}", apart.lines);
    assert!(!line(&interleaved, "comparable").contains("interleaved"), "{:?}", interleaved.lines);
    let interleaved = found([10, 11], "serve --slow");
    assert_eq!(line(&interleaved, "next"), "the change makes it slower: revise or drop it");
    assert!(
        interleaved.verdict.starts_with("Worse (4 vs 4") && !interleaved.is_doubted(),
        "{interleaved:?}"
    );
    // With several runs per side, the order alone may be the reason.
    let other = found([10, 30], "serve --slow");
    assert_eq!(line(&other, "comparable"), "with caveats: runs not interleaved; different command");
    assert!(other.verdict.starts_with("Worse, with caveats (4 vs 4"), "{}", other.verdict);
    let next = "the order of the runs (not interleaved) may be the reason: record both sides again, interleaved, before you drop the change";
    assert_eq!((line(&other, "next"), other.is_doubted()), (next.to_owned(), true));
}

/// 4 vs 4 runs of `decode` with so many calls at once: how long they take, and what they deliver.
fn concurrent(calls: [f64; 2], ms: [[f64; 4]; 2], rates: [[f64; 4]; 2]) -> Comparison {
    let of = |side: usize, at: usize| {
        let ns = (ms[side][at] * 1e6) as u64;
        let mut report = report(&[("decode", 9, ns, vec![("k".into(), 9, 900)])]);
        let tokens_per_s = Figure::Known(rates[side][at]);
        let step = StepTimes {
            path: Some("decode".into()),
            steps: 9,
            p50_ns: ns,
            mean_ns: ns,
            ..StepTimes::default()
        };
        let bottleneck = Bottleneck {
            of: step.shown_unit().into(),
            at_a_time: Some(calls[side]),
            ..Bottleneck::default()
        };
        let (step, bottleneck) = (Some(step), Some(bottleneck));
        let stage = StageAnswer { step, bottleneck, tokens_per_s, ..answer("decode") };
        report.answer.stages.push(stage);
        report
    };
    let [a, b] = [0, 1].map(|side| [0, 1, 2, 3].map(|at| of(side, at)));
    diff(&a.each_ref(), &b.each_ref(), &[], false)
}

#[test]
fn of_other_concurrency_the_tokens_per_second_lead_and_nothing_is_to_be_kept() {
    let calm = [[10.0, 10.5, 11.0, 11.5], [10.2, 11.9, 9.8, 12.4]];
    let rates = [[80.0, 81.0, 82.0, 83.0], [150.0, 151.0, 152.0, 153.0]];
    let found = concurrent([1.0, 2.0], calm, rates);
    let head =
        "Better, with caveats (4 vs 4 runs without overlap, p = 0.029): decode tokens/s +85.9 % [";
    assert!(found.verdict.starts_with(head), "{}", found.verdict);
    assert!(found.verdict.ends_with("], within noise"), "the time has its word: {}", found.verdict);
    let next = line(&found, "next");
    let start = "concurrent calls (1 → decode 2) may be the reason: record both sides again, alike and interleaved, ";
    assert_eq!(next, format!("{start}before you keep the change"));
    // A time that changed as well comes behind the rate, and against it.
    let slow = [calm[0], [15.0, 15.5, 16.0, 16.5]];
    let found = concurrent([1.0, 2.0], slow, rates);
    assert_eq!(found.outlook(), Outlook::Mixed, "{}", found.verdict);
    let at = |text: &str| found.verdict.find(text).expect("a number");
    assert!(
        at("decode tokens/s +85.9 %") < at("; decode median call time +46.5 %"),
        "{}",
        found.verdict
    );
    // As many calls on both sides: the time leads.
    let found = concurrent([1.0, 1.0], slow, rates);
    let at = |text: &str| found.verdict.find(text).expect("a number");
    assert!(at("median call time") < at("tokens/s") && !found.is_doubted(), "{}", found.verdict);
}

#[test]
fn runs_that_mix_commands_are_warned_of_and_runs_that_only_differ_in_a_path_are_not() {
    let found = |commands: [&str; 4]| {
        let runs = commands.map(|command| {
            let mut run = idling(10.0, 1.0, 2.0);
            run.run.command = Some(command.split(' ').map(str::to_owned).collect());
            run
        });
        let [a, b] = [&runs[..2], &runs[2..]].map(|side| side.iter().collect::<Vec<_>>());
        diff(&a, &b, &[], false)
    };
    let mixed = found(["serve m --tp 2", "serve m", "serve m", "serve m --tp 2"]);
    assert_eq!(line(&mixed, "comparable"), "with caveats: both sides mix commands");
    let row = &mixed.differences[0];
    assert_eq!((&*row.before, row.severity), ("no other words | … --tp 2", Severity::Warning));
    let one = found(["serve m --tp 2", "serve m", "serve m", "serve m"]);
    assert!(
        line(&one, "comparable").starts_with("with caveats: one side mixes commands"),
        "{one:?}"
    );
    let paths = found(["serve -o 1", "serve -o 2", "serve -o 3", "serve -o 4"]);
    assert_eq!(line(&paths, "comparable"), "yes (different command)");
}

#[test]
fn no_difference_needs_a_judgement_of_every_main_number() {
    let side = |decode: [u64; 4], encode: [u64; 4], prefill: [u64; 4]| {
        let stage = |name, ms: u64| (name, 4, ms * 100_000, Vec::new());
        [0, 1, 2, 3].map(|at| {
            report(&[
                stage("decode", decode[at]),
                stage("encode", encode[at]),
                stage("prefill", prefill[at]),
            ])
        })
    };
    let found = |a: &[Report; 4], b: &[Report; 4]| diff(&a.each_ref(), &b.each_ref(), &[], false);
    let (calm, stirred) = ([100, 101, 102, 103], [101, 100, 103, 102]);
    let (wild, wilder) = ([100, 101, 310, 102], [150, 99, 320, 180]);
    let (before, after) = (side(calm, calm, wild), side(stirred, stirred, wilder));
    let one = found(&before, &after);
    assert_eq!(one.outlook(), Outlook::Undecided, "{}", one.verdict);
    let start = "Undecided (4 vs 4 runs): prefill median call time +62.6 % [";
    assert!(one.verdict.starts_with(start), "{}", one.verdict);
    assert!(one.verdict.ends_with("], inconclusive"), "named once: {}", one.verdict);
    assert_eq!(
        line(&one, "next"),
        "record both sides again, interleaved, because run is an outlier; record more runs, interleaved, to decide on prefill time +62.6 %"
    );
    let runs = |side: &'static str, reports| {
        let run = |report| Run { label: side, report, left_out: &[] };
        Vec::from_iter(<&[Report; 4]>::into_iter(reports).map(run))
    };
    let (old, new) = (runs("baseline:old/3", &before), runs("runs/new", &after));
    let named = compare(&old, &new, &[], false).expect("a comparison").outlier();
    assert_eq!(named.as_deref(), Some("baseline:old/3"), "not by its number alone");
    let two = found(&side(calm, wild, wild), &side(stirred, wilder, wilder));
    assert!(two.verdict.ends_with("; prefill time +62.6 % is inconclusive"), "{}", two.verdict);
    let none = found(&side(calm, calm, calm), &side(stirred, stirred, stirred));
    assert!(none.verdict.starts_with("No difference beyond noise (4 vs 4"), "{}", none.verdict);
}

#[test]
fn the_line_noise_has_the_true_level_of_the_interval_and_how_often_the_test_errs() {
    let said = |a: usize, b: usize| {
        let run = idling(10.0, 1.0, 2.0);
        line(&diff(&vec![&run; a], &vec![&run; b], &[], false), "noise")
    };
    for (a, b, level, errs) in [(4, 4, 97, 35), (5, 5, 96, 31), (3, 5, 96, 28), (20, 20, 95, 20)] {
        let said = said(a, b);
        assert!(
            said.starts_with(&format!("[ ] is the {level} % confidence interval")),
            "{a} {b}: {said}"
        );
        assert!(
            said.contains(&format!("up to 1 false alarm in {errs} numbers")),
            "{a} {b}: {said}"
        );
    }
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
    assert!(found.verdict.ends_with("; prefill time +42.4 % is inconclusive"), "{}", found.verdict);
    let next = line(&found, "next");
    assert_eq!(
        next,
        "the change helps: keep it; record more runs, interleaved, to decide on prefill time +42.4 %; run is an outlier, but \
         the result holds with it"
    );
}

#[test]
fn the_advice_names_what_may_be_the_change_itself_and_a_simulated_gpu() {
    let of = |ns: u64, is_graph: bool, simulated: bool| {
        let mut report = report(&[("decode", 4, ns, Vec::new())]);
        report.source = "collector".to_owned();
        report.simulated = simulated;
        let words = if is_graph { &["demo", "--graph"][..] } else { &["demo"] };
        report.run.command = Some(words.iter().map(|word| (*word).to_owned()).collect());
        report.insight.stage_numbers = vec![
            serde_json::from_value(
                json!({"stage": "decode", "graph_percent": if is_graph { 90.0 } else { 0.0 }}),
            )
            .expect("a row"),
        ];
        report
    };
    let said = |simulated: bool| {
        let before =
            [9_000_000, 9_010_000, 9_020_000, 9_030_000].map(|ns| of(ns, false, simulated));
        let after = [5_000_000, 5_010_000, 5_020_000, 5_030_000].map(|ns| of(ns, true, simulated));
        let found = diff(&before.each_ref(), &after.each_ref(), &[], false);
        let head = found.verdict.split(" (").next().unwrap_or_default().to_owned();
        (head, line(&found, "next").to_owned())
    };
    let next = "the change helps: keep it, if `--graph` is the change";
    assert_eq!(said(false), ("Better".to_owned(), next.to_owned()));
    let next = "the change helps in the simulation: measure on a real GPU before you keep it";
    assert_eq!(said(true), ("Better in the simulation".to_owned(), next.to_owned()));
}
