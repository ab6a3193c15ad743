//! Hardware counters: samples that follow from what the simulated GPU ran, and what happens when there are
//! none.

use std::collections::BTreeSet;

use crate::common::{Guest, Left, TraceFile, despite_other_work, each};
use stage2_contract::trace::{CounterSamples, CounterSet, Ending, GpuWork, Record};

const READ: &str = "dram__bytes_read.sum";

fn guest(counters: &str) -> Guest {
    Guest::new("sampled").env("STAGE2_COUNTERS", counters)
}

fn sets(trace: &TraceFile) -> Vec<&CounterSet> {
    trace.each(|record| match record {
        Record::CounterSet(set) => Some(set),
        _ => None,
    })
}

fn samples(trace: &TraceFile) -> Vec<&CounterSamples> {
    trace.each(|record| match record {
        Record::CounterSamples(sample) => Some(sample),
        _ => None,
    })
}

/// What a metric adds up to, within samples that `wanted` takes by start and end.
fn sum(trace: &TraceFile, metric: &str, wanted: impl Fn(u64, u64) -> bool) -> f64 {
    let mut sum = 0.0;
    for some in samples(trace) {
        let set = sets(trace).into_iter().find(|set| set.id == some.set).expect("defined before");
        let at = set.metrics.iter().position(|name| name == metric).expect("sampled");
        let rows = some.values.chunks_exact(set.metrics.len()).zip(&some.spans);
        let rows = rows.filter(|(_, (start, end))| wanted(start.0, end.0));
        sum += rows.map(|(row, _)| row[at]).filter(|value| !value.is_nan()).sum::<f64>();
    }
    sum
}

/// The guest ran as without us: its work is recorded, and it says what it always says.
fn expect_whole(left: &Left) -> f64 {
    assert_eq!(left.output.status.code(), Some(0), "{}", left.stderr());
    assert_eq!(left.trace().ending, Ending::Complete);
    assert_eq!(left.trace().kernels().get("decode"), Some(&(20 * 694)));
    left.stdout().trim().parse().expect("bytes")
}

#[test]
fn samples_add_up_to_what_the_kernels_read() {
    despite_other_work(|| {
        let left = guest("on@500").run();
        let expected = expect_whole(&left);
        assert_eq!(left.stderr(), "");
        // A thread that other work keeps back begins a second set, of longer samples.
        assert_usual!(sets(left.trace()).len() == 1, "{:?}", sets(left.trace()));
        let set = sets(left.trace())[0];
        assert_eq!((set.device, set.interval_ns), (0, 500_000));
        assert!(set.metrics.len() >= 9, "{:?}", set.metrics);
        let read = sum(left.trace(), READ, |_, _| true);
        assert!((read / expected - 1.0).abs() < 0.01, "{read} bytes of {expected}");
        // Without a gap, on the clock of the kernels.
        let spans: Vec<_> =
            samples(left.trace()).iter().flat_map(|some| some.spans.clone()).collect();
        assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0));
        let kernels = left.trace().records.iter().filter_map(|record| match record {
            Record::Work(work @ GpuWork { .. }) if work.is_kernel() => Some((work.start, work.end)),
            _ => None,
        });
        for (start, end) in kernels {
            assert!(
                spans[0].0 <= start && end <= spans[spans.len() - 1].1,
                "a kernel without samples"
            );
        }
        let share = |key| left.trace().meta(key).and_then(|text| text.parse::<u64>().ok());
        assert!(share("counters.sampled_ms") > Some(0), "{:?}", share("counters.sampled_ms"));
        assert!(share("counters.cpu_ms").is_some() && share("counters.setup_ms").is_some());
    });
}

/// Hazard (Traces in pieces): Hardware counters are sampled while a trace turns to its next piece.
/// Promise: No sample is lost or duplicated, and each piece states what its samples cover.
#[test]
fn samples_in_pieces_are_those_of_one_file_and_each_piece_says_what_they_are() {
    despite_other_work(|| {
        let cut = guest("on@300").env("STAGE2_ROTATE", "every=10ms").env("STAGE2_FLUSH_MS", "10");
        let left = cut.run();
        // Each piece has the set, which is the same.
        let ids: BTreeSet<u32> = left.traces.iter().flat_map(sets).map(|set| set.id).collect();
        assert_eq!(left.output.status.code(), Some(0), "{}", left.stderr());
        assert_usual!(ids.len() == 1, "{ids:?}");
        let with_samples = left.traces.iter().filter(|piece| !samples(piece).is_empty()).count();
        // They come by the thousand.
        assert!(with_samples >= 2, "{with_samples} of {} pieces", left.traces.len());
        for piece in &left.traces {
            let mut defined = false;
            for record in &piece.records {
                match record {
                    Record::CounterSet(_) => defined = true,
                    Record::CounterSamples(_) => {
                        assert!(defined, "a piece that cannot be read alone")
                    }
                    _ => {}
                }
            }
        }
        let expected: f64 = left.stdout().trim().parse().expect("bytes");
        let read: f64 = left.traces.iter().map(|piece| sum(piece, READ, |_, _| true)).sum();
        assert!((read / expected - 1.0).abs() < 0.01, "{read} bytes of {expected}");
        let mut spans: Vec<_> =
            left.traces.iter().flat_map(samples).flat_map(|s| &s.spans).collect();
        spans.sort();
        assert!(
            spans.windows(2).all(|pair| pair[0].1 == pair[1].0),
            "a sample is lost or there twice"
        );
    });
}

#[test]
fn named_metrics_are_sampled_and_those_that_do_not_fit_are_named() {
    let many_passes = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
    let wanted =
        format!("pcie__read_bytes.sum,{many_passes},dram__bytes_read.sum,no__such.sum@200");
    let left = guest(&wanted).run();
    expect_whole(&left);
    assert_eq!(sets(left.trace())[0].metrics, ["pcie__read_bytes.sum", READ]);
    assert_eq!(sets(left.trace())[0].interval_ns, 200_000);
    let note = left.trace().meta("counters.note").expect("a note");
    assert!(note.contains(&format!("{many_passes}, no__such.sum")), "{note}");
}

#[test]
fn a_gpu_that_does_nothing_is_not_sampled_all_the_time() {
    despite_other_work(|| {
        let left = guest("on").run();
        let expected = expect_whole(&left);
        let read = sum(left.trace(), READ, |_, _| true);
        // It is looked at again when the first range opens. A busy machine may fall behind, but not for long.
        assert_usual!(
            read > 0.4 * expected && read < 1.01 * expected,
            "{read} bytes of {expected}"
        );
        let sampled: u64 =
            samples(left.trace()).iter().flat_map(|s| &s.spans).map(|(a, b)| b.0 - a.0).sum();
        let whole: u64 =
            left.trace().meta("counters.sampled_ms").expect("a time").parse().expect("ms");
        assert_usual!(sampled < whole * 1_000_000 - 40_000_000, "{sampled} ns of {whole} ms");
    });
}

#[test]
fn without_counters_one_line_says_why_and_the_rest_goes_on() {
    let cases = [
        ("pm-enable=35", "CAP_SYS_ADMIN"),
        ("pm-availability=35", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("pm-enable=7", "another profiler samples its counters"),
        ("pm-enable=27", "MIG, MPS"),
        ("pm-enable=41", "confidential-computing"),
        ("pm-enable=43", "MIG"),
    ];
    each(cases, |(fault, reason)| {
        let left = guest("on").env("STAGE2_SIM_FAULT", fault).run();
        expect_whole(&left);
        let said = left.expect_line(0);
        assert!(said.contains(reason), "{fault}: {said}");
        let off = left.trace().meta("counters.off").expect("a reason");
        assert!(off.contains(reason), "{fault}: {off}");
        assert_eq!(samples(left.trace()).len(), 0);
    });
}

#[test]
fn samples_need_a_trace_file() {
    let left = guest("on").without("STAGE2_OUT").run();
    assert_eq!(left.output.status.code(), Some(0));
    assert!(left.stderr().contains("STAGE2_OUT"), "{}", left.stderr());
}

/// Hazard (Wrong data from the GPU): Counter samples overflow, or are silently missing.
/// Promise: The gap is counted, and samples become longer.
#[test]
fn an_overflow_leaves_a_gap_that_is_counted_and_makes_samples_longer() {
    let left = guest("on@500").env("STAGE2_SIM_FAULT", "pm-overflow=4").run();
    let expected = expect_whole(&left);
    // By GPU: each has a buffer of its own.
    let lost = |key| left.trace().meta(key).and_then(|text| text.parse::<u64>().ok());
    assert!(lost("counters.overflows.0") > Some(1), "{:?}", lost("counters.overflows.0"));
    let spans: Vec<_> = samples(left.trace()).iter().flat_map(|some| some.spans.clone()).collect();
    let gaps: u64 = spans.windows(2).map(|pair| pair[1].0.0 - pair[0].1.0).sum();
    assert!(gaps > 0, "{spans:?}");
    assert_eq!(lost("counters.lost_ns.0"), Some(gaps));
    let mut lengths: Vec<u64> = sets(left.trace()).iter().map(|set| set.interval_ns).collect();
    lengths.dedup();
    assert!(
        lengths.len() > 1 && lengths.windows(2).all(|pair| pair[1] == 2 * pair[0]),
        "{lengths:?}"
    );
    assert!(sum(left.trace(), READ, |_, _| true) < expected);
}

#[test]
fn what_cannot_be_read_is_not_zero() {
    let left = guest("on@500").env("STAGE2_SIM_FAULT", "pm-nan=3").run();
    expect_whole(&left);
    let values = || samples(left.trace()).into_iter().flat_map(|some| some.values.iter());
    let unknown = values().filter(|value| value.is_nan()).count() as f64;
    let share = unknown / values().count() as f64;
    assert!((share - 1.0 / 3.0).abs() < 0.01, "{share}");
}

#[test]
fn a_chip_without_a_trigger_by_time_is_sampled_by_cycles() {
    despite_other_work(|| {
        let left = guest("on@500").env("STAGE2_SIM_FAULT", "pm-no-time-trigger").run();
        let expected = expect_whole(&left);
        adds_up(&left, expected);
    });
}

#[test]
fn sampling_that_fails_later_keeps_what_it_had() {
    let left = guest("on@500").env("STAGE2_SIM_FAULT", "pm-decode=999").run();
    expect_whole(&left);
    let said = left.stderr();
    assert!(said.contains("hardware counters are not sampled"), "{said}");
}

fn adds_up(left: &Left, expected: f64) {
    let read = sum(left.trace(), READ, |_, _| true);
    assert_usual!((read / expected - 1.0).abs() < 0.01, "{read} bytes of {expected}");
}

#[test]
fn sampling_that_fails_once_begins_anew() {
    despite_other_work(|| {
        let left = guest("on@100").env("STAGE2_SIM_FAULT", "pm-break=6").run();
        let expected = expect_whole(&left);
        assert_eq!(left.stderr(), "");
        let note = left.trace().meta("counters.note").unwrap_or_default();
        assert_usual!(
            note.contains("sampling started again") && note.contains("decode samples"),
            "{note}"
        );
        // The time between two sessions is no sign that samples come too fast.
        let intervals: Vec<u64> = sets(left.trace()).iter().map(|set| set.interval_ns).collect();
        assert_usual!(intervals.starts_with(&[100_000; 2]), "{intervals:?}");
        let first = sets(left.trace())[0].id;
        let is_behind = samples(left.trace()).iter().any(|some| some.set != first);
        assert_usual!(is_behind, "no samples of a second session");
        let read = sum(left.trace(), READ, |_, _| true);
        assert_usual!(read > 0.0 && read < 1.02 * expected, "{read} bytes of {expected}");
    });
}

#[test]
fn gaps_that_nothing_tells_of_are_counted_and_make_samples_longer() {
    despite_other_work(|| {
        let left = guest("on@100").env("STAGE2_SIM_FAULT", "pm-gaps=5").run();
        expect_whole(&left);
        let spans: Vec<_> =
            samples(left.trace()).iter().flat_map(|some| some.spans.clone()).collect();
        let length = spans.last().expect("samples").1.0 - spans[0].0.0;
        let lost = left.trace().meta("counters.lost_ns.0").map(|ns| ns.parse().expect("ns"));
        assert_usual!(lost.is_some(), "no losses are told");
        let lost: u64 = lost.unwrap_or_default();
        assert_usual!(lost > length / 4 && lost < length, "{lost} ns of {length}");
        let lengths: Vec<u64> = sets(left.trace()).iter().map(|set| set.interval_ns).collect();
        assert_usual!(lengths.len() > 1 && lengths[1] == 2 * lengths[0], "{lengths:?}");
    });
}

/// Hazard (Ends of life): A sampling session is open at the end.
/// Promise: It is closed before CUPTI's libraries take themselves apart.
#[test]
fn sampling_ends_before_what_samples_takes_itself_apart() {
    despite_other_work(|| {
        let left = guest("on@500").env("STAGE2_SIM_FAULT", "pm-taken-apart").run();
        let expected = expect_whole(&left);
        assert_eq!(left.stderr(), "");
        adds_up(&left, expected);
    });
}

/// Hazard (Ends of life): CUPTI is slow to end a sampling session.
/// Promise: The program does not wait for it.
#[test]
fn slow_counters_hold_nobody_up() {
    despite_other_work(|| {
        let begin = std::time::Instant::now();
        let left = guest("on").env("STAGE2_SIM_FAULT", "pm-slow=400").run();
        expect_whole(&left);
        let took = begin.elapsed();
        assert_usual!(took < std::time::Duration::from_secs(6), "{took:?}");
        assert!(left.stderr().contains("its last samples are missing"), "{}", left.stderr());
    });
}
