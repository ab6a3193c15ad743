//! Launches told by callbacks: always by CUPTI before 12.6, whose buffers all threads share and whose
//! collection stays on; by newer ones where it is asked for, and switched with collection. The ranges
//! and the choice of instances have to be those of fences.

use std::collections::BTreeMap;

use crate::common::{Guest, Left, TraceFile, counts, each};
use stage2_contract::trace::{Losses, Record};

/// The oldest that is supported, and the last without safe buffers for each thread.
const OLD: [&str; 3] = ["11.8", "12.2", "12.5"];
const NEW: &str = "13.0";
const ALL: [&str; 4] = [OLD[0], OLD[1], OLD[2], NEW];

fn guest(hazard: &str, version: &str) -> Guest {
    Guest::new(hazard)
        .env("STAGE2_SIM_CUPTI_VERSION", version)
        .env("STAGE2_ATTRIBUTION", "callback")
}

/// What a guest left that noticed nothing, with launches told by callbacks.
fn by_callback(left: &Left) -> &TraceFile {
    by_callback_and_said(left, &left.stderr())
}

/// As [`by_callback`], of a guest about which only `said` is of interest.
fn by_callback_and_said<'a>(left: &'a Left, said: &str) -> &'a TraceFile {
    assert_eq!(left.output.status.code(), Some(0), "{}", left.stderr());
    let trace = left.trace();
    match trace.meta("collection") {
        Some("whole") => assert!(said.contains("stays on") && said.lines().count() == 1, "{said}"),
        _ => assert_eq!(said, ""),
    }
    assert_eq!(trace.meta("attribution"), Some("callback"));
    trace
}

fn complete(left: &Left) -> &TraceFile {
    let trace = by_callback(left);
    assert_eq!(trace.losses(), Losses::default());
    trace
}

/// Ranges of the records of GPU work, in order of their launch: by the correlation id.
fn in_order(trace: &TraceFile) -> Vec<String> {
    let paths = trace.range_paths();
    let mut launched: Vec<(u64, u64)> = trace.each(|record| match record {
        Record::Work(work) if work.is_kernel() => Some((work.correlation, work.range)),
        _ => None,
    });
    launched.sort_unstable();
    launched.into_iter().map(|(_, range)| paths.get(&range).cloned().unwrap_or_default()).collect()
}

#[test]
fn one_thread_gets_the_same_instances_paths_and_counts_as_with_fences() {
    let step = "decode_step";
    let cases = [
        ("steps", &[("STAGE2_SAMPLE", "1/16"), ("STAGE2_RANGES", step)][..]),
        ("steps", &[("STAGE2_SAMPLE", "1/16"), ("STAGE2_RANGES", "layer")]),
        ("steps", &[("STAGE2_SAMPLE", "1/2")]),
        ("steps", &[("STAGE2_RANGES", "prefill,layer")]),
        ("gated", &[("STAGE2_RANGES", "dec*")]),
        ("gated", &[("STAGE2_RANGES", "nothing-of-that-name")]),
        ("sampled_graph_waits", &[("STAGE2_SAMPLE", "1/16"), ("STAGE2_RANGES", step)]),
        ("sampled_fork", &[("STAGE2_SAMPLE", "1/4"), ("STAGE2_RANGES", step)]),
        ("graph", &[("STAGE2_RANGES", "decode")]),
        ("transfers", &[("STAGE2_RANGES", "io")]),
        ("start_end", &[("STAGE2_RANGES", "request,inner")]),
        ("requests", &[("STAGE2_RANGES", "request")]),
        ("late_cuda", &[("STAGE2_RANGES", "load")]),
    ];
    each(cases, |(hazard, settings)| {
        let run = |guest: Guest| guest.envs(settings).run();
        let new = run(guest(hazard, NEW).env("STAGE2_ATTRIBUTION", "fence"));
        let new = new.expect_quiet(0).trace();
        assert_eq!(new.meta("attribution"), Some("fence"));
        for version in ALL {
            let left = run(guest(hazard, version));
            let old = complete(&left);
            let case = format!("{hazard} {settings:?} {version}");
            assert_eq!(old.samples(), new.samples(), "{case}");
            assert_eq!(old.kernels(), new.kernels(), "{case}");
            assert_eq!(old.transfers(), new.transfers(), "{case}");
            assert_eq!(old.range_paths(), new.range_paths(), "{case}");
            assert_eq!(in_order(old), in_order(new), "{case}");
        }
    });
}

#[test]
fn what_sampling_leaves_out_is_delivered_only_where_collection_stays_on() {
    for version in ALL {
        let left = guest("steps", version)
            .env("STAGE2_SAMPLE", "1/16")
            .env("STAGE2_RANGES", "decode_step")
            .env("STAGE2_SUMMARY", "stderr")
            .run();
        let (stderr, trace) = (left.stderr(), left.trace());
        assert!(stderr.contains("SAMPLED 1/16"), "{stderr}");
        assert_eq!(stderr.contains(", 1650 left out by"), version != NEW, "{stderr}");
        let recorded = counts(&[("decode/decode_step", 24), ("decode/decode_step/layer", 84)]);
        assert_eq!(trace.kernels(), recorded, "{version}");
    }
}

#[test]
fn threads_that_share_a_buffer_are_told_apart_while_collection_is_switched() {
    for version in ALL {
        let left = guest("threads", version).env("STAGE2_RANGES", "t?.decode").run();
        let trace = by_callback(&left);
        let mut kernels = trace.kernels();
        // A launch that was under way when another thread switched collection on may be seen
        // without its callback: counted, never put anywhere.
        let unknown = kernels.remove("(unknown)").unwrap_or(0);
        let late = trace.losses().late_switches;
        let lost =
            Losses { unattributed: unknown as u64, late_switches: late, ..Losses::default() };
        assert_eq!(trace.losses(), lost);
        assert!(version == NEW || (unknown, late) == (0, 0), "nothing is switched: {lost:?}");
        let mut missing = 0usize;
        for thread in 0..4usize {
            let found = kernels.remove(&format!("t{thread}.decode")).unwrap_or(0);
            missing += (20 * (10 + thread)).checked_sub(found).expect("no more than were launched");
        }
        // A range that another thread was slow to switch collection on for may lack all of its 13.
        assert!(missing <= unknown + 13 * late as usize, "{version}: {missing} are missing");
        assert_eq!(kernels, counts(&[]), "{version}");
    }
}

#[test]
fn threads_are_sampled_each_by_its_own_instances_also_where_they_share_a_buffer() {
    let of_all = ALL.map(|version| (version, "callback", None));
    let wanted = ["callback", "fence"].map(|way| (NEW, way, Some("t*.step")));
    for (version, attribution, ranges) in of_all.into_iter().chain(wanted) {
        let guest = guest("sampled_threads", version).env("STAGE2_ATTRIBUTION", attribution);
        let guest = ranges.into_iter().fold(guest, |guest, all| guest.env("STAGE2_RANGES", all));
        let left = guest.env("STAGE2_SAMPLE", "1/8").run();
        let fences = attribution == "fence";
        let trace = if fences { left.expect_quiet(0).trace() } else { by_callback(&left) };
        let samples = trace.samples();
        assert_eq!(samples.len(), 4);
        // A launch that was under way when another thread switched collection on may be seen
        // without its callback: counted, never put anywhere.
        let mut kernels = trace.kernels();
        let unknown = kernels.remove("(unknown)");
        let may_be_unknown = version == NEW && !fences;
        assert!(may_be_unknown || unknown.is_none(), "{version} {attribution}: {unknown:?}");
        let whole: BTreeMap<String, usize> = samples
            .iter()
            .enumerate()
            .map(|(thread, (path, (asked, recorded)))| {
                // One for which collection could not be switched on in time, because another
                // thread was interrupted while it switched, is left out.
                assert_eq!(*asked, 200, "{path}");
                assert!((10..=25).contains(recorded), "{path}: {recorded}");
                (path.clone(), *recorded as usize * (3 + thread))
            })
            .collect();
        assert_eq!(kernels, whole, "{version} {attribution}");
    }
}

#[test]
fn a_range_that_is_never_closed_keeps_to_itself() {
    each(["12.2", NEW], |version| {
        let left = guest("never_closed", version).env("STAGE2_SAMPLE", "1/4").run();
        let (said, open): (Vec<_>, Vec<_>) =
            left.expect_said(0).lines().map(String::from).partition(|l| !l.contains("still open"));
        assert!(open.len() == 1 && open[0].contains("decode_step"), "{open:?}");
        let trace = by_callback_and_said(&left, &said.join("\n"));
        assert_eq!(trace.losses(), Losses { unclosed: 1, ..Losses::default() });
        assert_eq!(trace.kernels(), counts(&[("decode_step", 6), ("other", 6)]));
    });
}
