//! What one pause, or a few, must not turn round: shares, gains and advice.

use crate::common::trace::{Build, RunFolder, takeaways};
use crate::report::meaning::process;
use stage2_contract::trace::Record;
use stage2_model::rule::Rule;
use stage2_model::{Report, StageAnswer, StepUnit, WindowKind};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// What is different in an instance.
#[derive(Clone, Copy, Default)]
struct Odd {
    /// Idle time before it closes, ns.
    pause: u64,
    /// What one of its kernels takes longer, ns.
    kernel: u64,
}

/// An instance of path `path` from `at` on: 20 kernels of 480 us each, 20 us apart. Gives its end.
fn instance(b: &mut Build, range: u64, path: u32, around: u64, mut at: u64, odd: Odd) -> u64 {
    b.open(range, path, around, at);
    for kernel in 0..20 {
        let longer = if kernel == 7 { odd.kernel } else { 0 };
        b.kernel(range, 1, 1, (at + 20 * US, at + 500 * US + longer));
        at += 500 * US + longer;
    }
    at += odd.pause;
    b.close(range, at);
    at
}

/// 200 instances of the stage `a`, the first of them cold.
fn steps(odd: impl Fn(u64) -> Odd) -> Build {
    let mut b = process();
    let mut at = MS;
    for number in 0..200 {
        at = instance(&mut b, 1 + number, 1, 0, at, odd(number)) + 10 * US;
    }
    b.anchor(at);
    b
}

fn pause(number: u64, of: &[u64], ns: u64) -> Odd {
    Odd { pause: if of.contains(&number) { ns } else { 0 }, ..Odd::default() }
}

fn written(processes: &mut [Build]) -> (Report, Vec<String>) {
    let folder = RunFolder::of(processes.iter_mut().map(|process| &*process.end()));
    let report = folder.report();
    let pages = ["report.md", "stakeholder_summary.md", "kernels.md", "report.html"];
    (report, pages.map(|name| folder.text(name)).to_vec())
}

fn line<'r>(report: &'r Report, label: &str) -> Option<&'r str> {
    let line = report.answer.lines.iter().find(|line| line.label == label)?;
    Some(&line.text)
}

fn shares(answer: &StageAnswer) -> Vec<(WindowKind, f64)> {
    let window = answer.window.as_ref().expect("a window");
    window.parts.iter().map(|part| (part.kind, part.percent)).collect()
}

/// What must be as without the outliers: shares, steps, gain, advice.
fn assert_as_without(report: &Report, plain: &Report) {
    let (with, without) = (&report.answer.stages[0], &plain.answer.stages[0]);
    assert_eq!(with.stage, without.stage);
    for ((kind, with), (other, without)) in shares(with).into_iter().zip(shares(without)) {
        assert_eq!(kind, other);
        assert!((with - without).abs() < 0.05, "{kind:?}: {with} and {without}");
    }
    let per_step = |answer: &StageAnswer| {
        let window = answer.window.as_ref().expect("a window");
        window.per_step(window.window_ns)
    };
    assert!((per_step(with) / per_step(without) - 1.0).abs() < 0.001);
    let step = with.step.as_ref().expect("steps");
    assert!((per_step(with) / step.p50_ns as f64 - 1.0).abs() < 0.01, "beside the step time");
    let rules = |report: &Report| -> Vec<Rule> {
        report.insight.takeaways.iter().map(|takeaway| takeaway.rule).collect()
    };
    assert_eq!(rules(report), rules(plain));
    let first = |report: &Report| report.answer.first.as_ref().map(|first| first.rule);
    assert_eq!(first(report), first(plain));
}

#[test]
fn one_pause_or_three_turn_nothing_round() {
    let plain = steps(|_| Odd::default()).report();
    assert_eq!(line(&plain, "outliers"), None);
    for (of, said) in [
        (&[100u64][..], "a: 1 of 199 calls holds 96.8 % of the time: a pause of 60."),
        (
            &[20, 100, 199],
            "a: 3 of 199 calls hold 98.9 % of the time: the longest is a pause of 60.",
        ),
    ] {
        let mut build = steps(|number| pause(number, of, 60 * SECOND));
        let (report, pages) = written(std::slice::from_mut(&mut build));
        assert_as_without(&report, &plain);
        let told = line(&report, "outliers").expect("a line of its own");
        assert!(told.starts_with(said), "{told}");
        // The clock of the host reads 1.7e9 s and as much as it ran.
        assert!(told.contains(" s at 22:13:2"), "{told}");
        assert!(told.ends_with("window, gains and advice are without this time"), "{told}");
        for page in &pages {
            assert!(page.contains(&said[3..30]), "{page}");
        }
        let outliers = report.stages[0].outliers.as_ref().expect("in metrics.json");
        assert_eq!((outliers.count, outliers.of), (of.len() as u64, 199));
        assert!(outliers.left_out && outliers.unit == StepUnit::Instance);
        let basis = &report.answer.stages[0].basis;
        assert!(basis.contains(&format!("{} outlier", of.len())), "{basis}");
    }
}

#[test]
fn a_long_kernel_is_no_more_than_a_line() {
    let plain = steps(|_| Odd::default()).report();
    let odd = |number| Odd { kernel: if number == 100 { 5 * SECOND } else { 0 }, pause: 0 };
    let report = steps(odd).report();
    assert_as_without(&report, &plain);
    let told = line(&report, "outliers").expect("a line");
    assert!(told.contains("a kernel of 5,000.48 ms (k)"), "{told}");
}

#[test]
fn a_pause_in_one_step_of_few_instances_is_told_from_the_others() {
    let decodes = |odd: fn(u64) -> Odd| {
        let mut b = process();
        let (mut at, mut range) = (MS, 0);
        for decode in 0..3 {
            let outer = range + 1;
            b.open(outer, 1, 0, at);
            for step in 0..40 {
                range = outer + 1 + step;
                at = instance(&mut b, range, 3, outer, at, odd(decode * 40 + step)) + 10 * US;
            }
            b.close(outer, at);
            at += 10 * US;
        }
        b.anchor(at).report()
    };
    let plain = decodes(|_| Odd::default());
    let report = decodes(|number| pause(number, &[70], 60 * SECOND));
    assert_as_without(&report, &plain);
    let told = line(&report, "outliers").expect("a line");
    assert!(
        told.starts_with("a: 1 of 80 steps holds 98.7 % of the time: a pause of 60."),
        "{told}"
    );
    // A long first step in each of them is how they begin.
    let report = decodes(|number| pause(number, &[0, 40, 80], 60 * SECOND));
    assert_eq!(line(&report, "outliers"), None);
}

#[test]
fn a_pause_in_a_short_stage_does_not_make_it_the_one_to_change() {
    let both = |ns: u64| {
        let mut b = process();
        let (mut at, mut range) = (MS, 0);
        for round in 0..20 {
            for (path, times) in [(1, 1), (2, 10)] {
                for _ in 0..times {
                    range += 1;
                    let odd = if path == 1 { pause(round, &[9], ns) } else { Odd::default() };
                    at = instance(&mut b, range, path, 0, at, odd) + 10 * US;
                }
            }
        }
        b.anchor(at).report()
    };
    let (plain, report) = (both(0), both(6 * SECOND));
    assert_eq!(report.answer.stages[0].stage, "b");
    assert_as_without(&report, &plain);
    let said = takeaways(&report);
    let dominant = said.iter().find(|text| text.contains("of the time of all stages"));
    assert!(dominant.expect("the long one").starts_with("b: 91.7 %"), "{said:?}");
    let told = line(&report, "outliers").expect("a line");
    assert!(told.starts_with("a: 1 of 19 calls holds 97."), "{told}");
}

#[test]
fn two_populations_are_no_outliers_and_of_few_one_is_only_named() {
    for of in [2, 8, 16] {
        let pause = |number| if number % of == 0 { 45 * MS } else { 0 };
        let report = steps(|number| Odd { pause: pause(number), ..Odd::default() }).report();
        assert_eq!(line(&report, "outliers"), None, "every {of}th");
    }
    let mut b = process();
    let mut at = MS;
    for number in 0..5 {
        at = instance(&mut b, 1 + number, 1, 0, at, pause(number, &[3], 6 * SECOND)) + 10 * US;
    }
    let report = b.anchor(at).report();
    let told = line(&report, "outliers").expect("a line");
    assert!(told.starts_with("a: 1 of 4 calls holds 99.5 % of the time: a pause of 6"), "{told}");
    assert!(told.contains("so nothing is advised"), "{told}");
    assert_eq!(report.answer.first, None);
    assert!(report.insight.takeaways.iter().all(|said| said.recommendation.is_none()));
}

#[test]
fn in_one_rank_it_is_named_with_its_rank() {
    let mut ranks: Vec<Build> = (0..2u32)
        .map(|rank| {
            let mut b =
                steps(|number| pause(number, if rank == 1 { &[50] } else { &[] }, 60 * SECOND));
            if let Some(Record::Process(process)) = b.records.first_mut() {
                process.pid += rank;
            }
            b.meta("env.RANK", &rank.to_string()).meta("env.WORLD_SIZE", "2");
            b
        })
        .collect();
    let (report, _) = written(&mut ranks);
    let told = line(&report, "outliers").expect("a line");
    assert!(told.starts_with("a: 1 of 398 calls holds 93.8 % of the time"), "{told}");
    assert!(told.contains(" UTC in rank 1;"), "{told}");
}

/// Equal kernels: launched one by one, with long waits between some, and by a graph.
#[test]
fn a_graph_of_the_same_run_is_no_faster_than_the_gain_at_most() {
    let mut b = process();
    let (mut at, mut range) = (MS, 0);
    for _ in 0..12 {
        for path in [1, 2] {
            range += 1;
            b.open(range, path, 0, at);
            for kernel in 0..100u64 {
                let gap = match path {
                    1 if kernel % 10 == 0 => 60 * US,
                    1 => 12 * US,
                    _ => 500,
                };
                at += gap;
                b.node(range, 1, 1, (at, at + 3 * US), if path == 2 { 1 + kernel } else { 0 });
                at += 3 * US;
            }
            b.close(range, at);
            at += 10 * US;
        }
    }
    let report = b.anchor(at).report();
    let of = |name: &str| {
        let stages = &report.answer.stages;
        stages.iter().find(|stage| stage.stage == name).expect(name)
    };
    let time = |name: &str| of(name).step.as_ref().expect("steps").p50_ns as f64;
    let first = of("a").first.as_ref().expect("advice");
    assert_eq!(first.rule, Rule::LaunchBound);
    let (bound, measured) = (first.factor.expect("a gain"), time("a") / time("b"));
    assert!(bound >= measured, "{bound} at most, and {measured} was measured");
    // What a reader can check on the same page.
    let removed: f64 = first.removes.iter().map(|part| part.percent).sum();
    assert!((100.0 / (100.0 - removed) / bound - 1.0).abs() < 0.01, "{first:?}");
    for part in &first.removes {
        let window = of("a").window.as_ref().expect("a window");
        let shown = window.parts.iter().zip(window.rounded_percent());
        let mut shown = shown.filter(|(shown, _)| shown.kind.label() == part.what);
        let (_, percent) = shown.next().expect("a part of the window");
        // The window shows tenths that add up to 100.
        assert!((percent - part.percent).abs() < 0.1, "{part:?}: {percent}");
    }
}

#[test]
fn every_page_puts_first_what_the_answer_puts_first() {
    let build = steps(|number| pause(number, &[100], 60 * SECOND));
    let mut idle = process();
    let mut at = MS;
    for number in 0..30 {
        at = instance(&mut idle, 1 + number, 1, 0, at, Odd { pause: 20 * MS, kernel: 0 }) + 10 * US;
    }
    idle.anchor(at);
    for mut process in [build, idle] {
        let (report, pages) = written(std::slice::from_mut(&mut process));
        let Some(first) = &report.answer.first else { panic!("{:?}", report.answer) };
        let gain = first.gain();
        let text = first.text.split(['.', ':']).next().expect("a sentence");
        for page in pages.iter().filter(|page| page.contains("## Recommendations")) {
            let after = page.split("## Recommendations").nth(1).expect("a section");
            let one = after.lines().find(|l| l.starts_with("1. ") || l.starts_with("| 1 |"));
            let one = one.expect("a recommendation");
            let is_in = one.to_lowercase().contains(&text.to_lowercase());
            assert!(
                is_in
                    && one.contains(&format!("In {}, ", first.stage.as_deref().expect("a stage"))),
                "{one}"
            );
            if let Some(gain) = &gain {
                assert!(one.contains(gain.as_str()), "{one}: {gain}");
            }
        }
        if let Some(gain) = &gain {
            assert!(line(&report, "first").is_some_and(|said| said.contains(gain.as_str())));
        }
    }
}

/// Layers that the host leaves long before the GPU gets to them, or only when their kernels ran.
#[test]
fn where_the_host_was_ahead_short_gaps_are_not_its_fault() {
    let layers = |host_us: u64| {
        let mut b = process();
        let (mut at, mut range) = (MS, 0);
        for _ in 0..4 {
            let (outer, start) = (range + 1, at);
            b.open(outer, 1, 0, start);
            let mut gpu = start + 5 * US;
            for layer in 0..20 {
                range = outer + 1 + layer;
                let opened = start + layer * host_us * US;
                b.open(range, 3, outer, opened).close(range, opened + host_us * US);
                for _ in 0..5 {
                    gpu = gpu.max(opened) + 12 * US;
                    b.kernel(range, 1, 1, (gpu, gpu + 3 * US));
                    gpu += 3 * US;
                }
            }
            at = gpu.max(start + 20 * host_us * US);
            b.close(outer, at);
            at += 10 * US;
        }
        b.anchor(at).report()
    };
    let said = |report: &Report, rule: Rule| {
        let found = report.insight.takeaways.iter().find(|takeaway| takeaway.rule == rule);
        found.unwrap_or_else(|| panic!("{:?}", report.insight.takeaways)).text.clone()
    };
    let ahead = said(&layers(10), Rule::HostAhead);
    assert!(ahead.contains("the host was ahead of the GPU"), "{ahead}");
    // Within a layer, nobody knows when each kernel was launched: no cause is named.
    let open = said(&layers(75), Rule::LaunchBound);
    assert!(open.contains("% of that time in gaps of at most 50 us"), "{open}");
    assert!(!open.contains("the host"), "{open}");
}
