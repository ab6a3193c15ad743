//! `STAGE2_SAMPLE`: what is recorded of which instances, and what switching costs nobody else.

use std::collections::BTreeMap;

use crate::common::{Guest, Left, TraceFile, counts, each};
use stage2_contract::trace::{Losses, Record};

fn sampled(hazard: &str, one_in: u32) -> Guest {
    Guest::new(hazard).env("STAGE2_SAMPLE", format!("1/{one_in}"))
}

/// What the table at exit says of a range path.
fn line_of<'t>(stderr: &'t str, path: &str) -> &'t str {
    stderr.lines().find(|line| line.starts_with(path)).expect(path)
}

fn complete(left: &Left) -> &TraceFile {
    let trace = left.expect_quiet(0).trace();
    assert_eq!(trace.losses(), Losses::default());
    trace
}

#[test]
fn of_every_16_steps_one_is_recorded_with_all_inside_and_scales_to_the_full_count() {
    let left = sampled("steps", 16).env("STAGE2_RANGES", "decode_step").run();
    let trace = complete(&left);
    assert_eq!(trace.meta("sample"), Some("1/16"));
    let step = "decode/decode_step".to_owned();
    assert_eq!(trace.samples(), BTreeMap::from([(step.clone(), (192, 12))]));
    let expected = counts(&[(&step, 12 * 2), ("decode/decode_step/layer", 12 * 7)]);
    assert_eq!(trace.kernels(), expected);
}

#[test]
fn without_a_filter_the_outermost_ranges_are_sampled_each_kind_by_itself() {
    let left = sampled("steps", 2).run();
    let trace = complete(&left);
    let found = trace.samples();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["decode", "prefill"]);
    for (path, (asked, recorded)) in &found {
        assert_eq!(*asked, 3, "{path}");
        assert!((1..=2).contains(recorded), "{path}: {recorded}");
    }
    let (decodes, prefills) = (found["decode"].1 as usize, found["prefill"].1 as usize);
    let expected = counts(&[
        ("decode", 4 * decodes),
        ("decode/decode_step", 64 * 2 * decodes),
        ("decode/decode_step/layer", 64 * 7 * decodes),
        ("prefill", 5 * prefills),
    ]);
    assert_eq!(trace.kernels(), expected);
}

#[test]
fn what_is_nested_in_a_step_that_collection_came_too_late_for_is_left_out_with_it() {
    let expected =
        [("early", (2, 1)), ("later", (4, 1)), ("later/inner", (1, 0)), ("later/started", (1, 0))];
    each(["fence", "callback"], |attribution| {
        let guest = sampled("late_switch", 2).env("STAGE2_ATTRIBUTION", attribution);
        let left = guest.env("STAGE2_SIM_FAULT", "slow-enable=200").run();
        let trace = complete(&left);
        assert_eq!(trace.meta("attribution"), Some(attribution));
        assert_eq!(trace.samples(), expected.map(|(path, n)| (path.to_owned(), n)).into());
        assert_eq!(trace.kernels(), counts(&[("early", 3), ("later", 7)]), "{attribution}");
    });
}

/// 64 steps of a replay with 30 kernels, one of 16 recorded; and how many records have no times.
fn replays(hazard: &str) -> (Left, u64) {
    let left = sampled(hazard, 16).env("STAGE2_RANGES", "decode_step").run();
    let trace = left.expect_quiet(0).trace();
    assert_eq!(trace.kernels(), counts(&[("decode_step", 4 * 30)]));
    let Losses { invalid_timestamps, .. } = trace.losses();
    assert_eq!(trace.losses(), Losses { invalid_timestamps, ..Losses::default() });
    (left, invalid_timestamps)
}

#[test]
fn replays_of_sampled_steps_are_whole() {
    // The other replays write their times over what CUPTI has not read yet.
    let (_, untimed) = replays("sampled_graph_waits");
    assert_eq!(untimed, 0);
}

#[test]
fn replays_recorded_as_wholes_keep_their_times_whether_their_step_waits_or_not() {
    // Switching that kind of record off and on would crash CUPTI, real and simulated.
    for hazard in ["sampled_graph_waits", "sampled_graph"] {
        for attribution in ["fence", "callback"] {
            for (ranges, sample, launches) in
                [("decode_step", "1/16", 4), ("decode_step", "1/1", 64), ("none-such", "1/1", 0)]
            {
                let left = Guest::new(hazard)
                    .env("STAGE2_RANGES", ranges)
                    .env("STAGE2_SAMPLE", sample)
                    .env("STAGE2_GRAPH", "graph")
                    .env("STAGE2_ATTRIBUTION", attribution)
                    .run();
                let found = complete(&left).graph_launches();
                let steps: &[_] = if launches > 0 { &[("decode_step", launches)] } else { &[] };
                assert_eq!(found, counts(steps), "{hazard} {attribution} {ranges} {sample}");
            }
        }
    }
}

#[test]
fn replays_that_run_on_after_their_step_are_counted_and_keep_no_times() {
    let (left, untimed) = replays("sampled_graph");
    assert!(untimed > 0);
    let zero = |record: &&Record| matches!(record, Record::Work(k) if k.is_kernel() && k.start.0 == 0 && k.end.0 == 0);
    assert_eq!(left.trace().records.iter().filter(zero).count() as u64, untimed);
}

/// Hazard (Versions, libraries and rivals): A CUPTI that may deadlock when it is switched off
///  (before 13.0 update 1).
/// Promise: It stays on.
#[test]
fn a_cupti_that_may_deadlock_when_it_is_switched_off_stays_on_and_the_rest_is_left_out() {
    each([("12.4", "callback"), ("12.8", "fence")], |(version, attribution)| {
        let old = |guest: Guest| {
            // Whoever switches it off is held up for longer than we wait at the end.
            guest
                .env("STAGE2_SIM_CUPTI_VERSION", version)
                .env("STAGE2_SIM_FAULT", "slow-disable=20000")
                .env("STAGE2_SUMMARY", "stderr")
                .env("STAGE2_RANGES", "decode_step")
        };
        let left = old(sampled("steps", 16)).run();
        let (stderr, trace) = (left.stderr(), left.trace());
        assert_eq!(stderr.matches("may deadlock").count(), 1, "{stderr}");
        for part in ["decode/decode_step  x192", "left out by", "complete: 108 GPU records"] {
            assert!(stderr.contains(part), "{part:?} in {stderr}");
        }
        let of = |key| trace.meta(key);
        assert_eq!((of("attribution"), of("collection")), (Some(attribution), Some("whole")));
        assert_eq!(trace.losses(), Losses::default());
        let step = "decode/decode_step".to_owned();
        assert_eq!(trace.samples(), BTreeMap::from([(step.clone(), (192, 12))]));
        let expected = counts(&[(&step, 12 * 2), ("decode/decode_step/layer", 12 * 7)]);
        assert_eq!(trace.kernels(), expected);

        // Graphs that run on after their range are collected to their end.
        let left = old(sampled("sampled_graph", 16)).run();
        assert_eq!(left.trace().losses(), Losses::default());
        assert_eq!(left.trace().kernels(), counts(&[("decode_step", 4 * 30)]));
    });
}

/// Hazard (Processes and forks): A fork within a sampled step.
/// Promise: Neither side is disturbed.
#[test]
fn a_fork_within_a_sampled_step_disturbs_neither_side() {
    let left = sampled("sampled_fork", 4).env("STAGE2_RANGES", "decode_step").run();
    let trace = complete(&left);
    // The second of four, in which it forked, and one of the next four.
    let expected = counts(&[("decode_step", 9 + 2), ("decode_step/layer", 7)]);
    assert_eq!(trace.samples(), BTreeMap::from([("decode_step".to_owned(), (8, 2))]));
    assert_eq!(trace.kernels(), expected);
    // The child chooses among its own, of which the one that it was forked in is none.
    let children = left.children();
    assert_eq!((children.len(), children[0].losses()), (1, Losses::default()));
    assert_eq!(children[0].samples(), BTreeMap::from([("decode_step".to_owned(), (100, 25))]));
}

#[test]
fn a_sampled_range_that_is_never_closed_keeps_to_itself() {
    let left = sampled("never_closed", 4).run();
    let trace = left.expect_open("decode_step").trace();
    assert_eq!(trace.losses(), Losses { unclosed: 1, ..Losses::default() });
    let other = trace.samples()["other"];
    assert_eq!(other, (8, 2));
    assert_eq!(trace.kernels(), counts(&[("decode_step", 6), ("other", 3 * 2)]));
}

#[test]
fn the_table_at_exit_is_scaled_and_says_so() {
    let left = sampled("steps", 16)
        .env("STAGE2_RANGES", "decode_step")
        .env("STAGE2_SUMMARY", "stderr")
        .run();
    let stderr = left.stderr();
    for part in ["SAMPLED 1/16", "decode/decode_step  x192", "recorded 12", ", 384 calls"] {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
    assert!(stderr.contains(", 1344 calls"), "{stderr}");
    // No record of the others arrived that had to be left out: CUPTI was off.
    assert!(!stderr.contains("left out"), "{stderr}");
}

#[test]
fn no_range_to_sample_is_said() {
    let left = sampled("steps", 16)
        .env("STAGE2_RANGES", "nothing-of-that-name")
        .env("STAGE2_SUMMARY", "stderr")
        .run();
    assert!(left.stderr().contains("NO RANGE to sample"), "{}", left.stderr());
    assert!(!left.stderr().contains("left out"), "{}", left.stderr());
    assert_eq!(left.trace().kernels(), counts(&[]));
}

#[test]
fn what_the_ranges_leave_out_is_marked_and_no_zero_in_the_table_at_exit() {
    let run = |ranges: &str| {
        let guest = Guest::new("steps").env("STAGE2_RANGES", ranges);
        guest.env("STAGE2_SUMMARY", "stderr").run()
    };
    let left = run("decode_step,none@here");
    let (trace, stderr) = (left.trace(), left.stderr());
    assert_eq!((trace.meta("ranges"), trace.meta("sample")), (Some("decode_step,none@here"), None));
    assert_eq!(trace.samples(), BTreeMap::from([("decode/decode_step".to_owned(), (192, 192))]));
    assert_eq!(trace.kernel_count(), 192 * 9);
    for part in ["COLLECTED ONLY in ranges that match decode_step,none@here (", "union of recorded"]
    {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
    let steps = line_of(&stderr, "decode/decode_step  ");
    assert!(steps.contains("x192") && steps.contains("recorded 192, GPU sum "), "{steps}");
    assert!(line_of(&stderr, "decode/decode_step/layer").ends_with(", 1344 calls"), "{stderr}");
    for path in ["prefill  x3", "decode  x3"] {
        assert!(line_of(&stderr, path).ends_with(" ms, GPU work not recorded"), "{stderr}");
    }
    let nothing = run("nothing-of-that-name").stderr();
    assert!(nothing.contains("; NO RANGE that matches was opened"), "{nothing}");
}

#[test]
fn values_that_are_no_share_are_named_once_and_everything_is_recorded() {
    for value in ["0", "1/0", "2/3", "1/-1", "1/99999999999", "half"] {
        let left = Guest::new("return").env("STAGE2_SAMPLE", value).run();
        let stderr = left.expect_line(0);
        for part in ["STAGE2_SAMPLE", value, "accepted: 1/N"] {
            assert!(stderr.contains(part), "{part:?} in {stderr}");
        }
        assert_eq!(left.trace().kernel_count(), 207);
        assert_eq!(left.trace().meta("sample"), None);
    }
}
