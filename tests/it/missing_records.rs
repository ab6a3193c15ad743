//! Records that go to another library of the process: coverage is not called complete, one line says what
//! happened, and a program without GPU work is not taken for that.

use crate::common::{Guest, Left, counts, each};
use stage2_contract::trace::Losses;

const WAYS: [(&str, &str); 4] =
    [("v1", "fence"), ("v1", "callback"), ("v2", "fence"), ("v2", "callback")];

/// The only CUPTI whose collection may be switched off between ranges.
const SWITCHES: &str = "13.0";

fn guest(hazard: &str, (api, attribution): (&str, &str)) -> Guest {
    Guest::new(hazard).api(api).env("STAGE2_ATTRIBUTION", attribution)
}

/// Fails unless the trace file and one line say that records are missing, and why.
fn says_what_is_missing(left: &Left, why: &str, case: &str) {
    let said = left.expect_said(0);
    let reason = left.trace().meta("gpu.incomplete").unwrap_or_else(|| panic!("{case}: {said}"));
    assert!(reason.contains(why) && reason.contains("run without it"), "{case}: {reason}");
    assert_eq!(said, format!("stage2: GPU work is missing: {reason}\n"), "{case}");
}

fn says_nothing(left: &Left, case: &str) {
    assert_eq!(left.expect_said(0), "", "{case}");
    let trace = left.trace();
    assert_eq!((trace.losses(), trace.meta("gpu.incomplete")), (Losses::default(), None), "{case}");
}

/// Hazard (Versions, libraries and rivals): Another library takes CUPTI's activity records during
///  the run.
/// Promise: One line reports it, and the result is not called complete.
#[test]
fn a_profiler_that_takes_the_activity_records_is_noticed() {
    let hazards = ["records_taken", "few_records_taken"];
    let cases = hazards.map(|hazard| ["fence", "callback"].map(|way| (hazard, way)));
    each(cases.into_iter().flatten(), |(hazard, attribution)| {
        let left = guest(hazard, ("v1", attribution)).run();
        assert_eq!(left.stdout(), "register=0\n");
        let case = format!("{hazard} {attribution}");
        says_what_is_missing(&left, "takes the activity records", &case);
    });
    // CUPTI refuses it beside the second activity API.
    let left = guest("records_taken", ("v2", "fence")).run();
    assert_eq!(left.stdout(), "register=39\n");
    says_nothing(&left, "v2");
    assert_eq!(left.trace().kernels(), counts(&[("step", 30 * 520)]));
}

#[test]
fn buffers_that_go_elsewhere_are_noticed_whatever_the_api() {
    each(WAYS, |way| {
        let guest = guest("works_for_a_while", way).env("STAGE2_SIM_FAULT", "taken-over=40");
        says_what_is_missing(&guest.run(), "takes the activity records", &format!("{way:?}"));
    });
}

/// Hazard (Versions, libraries and rivals): Another library takes CUPTI's activity records right before the end.
/// Promise: A buffer that CUPTI keeps after the last flush reveals it: one line reports it, and the result is not
///  called complete. Of 182 processes on an H200, CUPTI kept a buffer only in that case.
#[test]
fn buffers_that_go_elsewhere_right_before_the_end_are_noticed() {
    each(WAYS, |way| {
        let guest = guest("return", way).env("STAGE2_SIM_FAULT", "taken-over=40");
        let left = guest.env("STAGE2_FLUSH_MS", "3600000").run();
        assert_eq!(left.trace().meta("cupti.buffers_kept"), Some("1"), "{way:?}");
        says_what_is_missing(&left, "did not hand back 1 activity buffer", &format!("{way:?}"));
    });
    let left = guest("return", WAYS[0]).run();
    assert_eq!(left.expect_quiet(0).trace().meta("cupti.buffers_kept"), None);
}

/// Hazard (Versions, libraries and rivals): Another library ends the collector's subscription
///  (`cuptiFinalize`).
/// Promise: One line reports it, and the result is not called complete.
#[test]
fn a_subscription_that_another_library_ends_is_noticed() {
    each(WAYS, |way| {
        for hazard in ["finalized", "finalized_at_the_end"] {
            let left = guest(hazard, way).run();
            assert_eq!(left.stdout(), "finalize=0\n");
            says_what_is_missing(&left, "cuptiFinalize", &format!("{hazard} {way:?}"));
        }
    });
}

/// Hazard (Versions, libraries and rivals): During `exit`, CUPTI detaches before the collector's handler runs, and
///  takes long.
/// Promise: The collector registers its handler again once records arrive, so that it finishes first. If a handler that
///  was registered even later detaches CUPTI, one line reports missing records, and does not blame a profiler.
#[test]
fn an_exit_in_which_cupti_leaves_is_no_loss() {
    each(WAYS, |way| {
        let left = guest("exits_slowly", way).run();
        says_nothing(&left, &format!("{way:?}"));
        assert_eq!(left.trace().kernels(), counts(&[("step", 30 * 20)]), "{way:?}");
    });
    // Here it leaves before anybody of ours hears of the exit. On a busy machine a flush may come between
    // the last kernels and that, and then nothing is missing.
    each(WAYS, |way| {
        let left = guest("exits_slowly_by_a_late_handler", way).run();
        match left.trace().meta("gpu.incomplete") {
            Some(_) => says_what_is_missing(&left, "an exit handler", &format!("{way:?}")),
            None => says_nothing(&left, &format!("{way:?}")),
        }
    });
}

/// Hazard (Versions, libraries and rivals): A program does nothing on the GPU for a long time: it works on the CPU,
///  waits, captures graphs, or its launches fail.
/// Promise: It is not taken for a loss of records.
#[test]
fn a_program_that_rests_loses_nothing_and_is_not_told_of() {
    each(WAYS, |way| {
        let left = guest("rests", way).run();
        says_nothing(&left, &format!("{way:?}"));
        assert_eq!(left.trace().kernels(), counts(&[("step", 2 * 30 * 20)]), "{way:?}");
    });
    let ranges = ["step", "probe,step"];
    let cases = ["fence", "callback"].map(|attribution| ranges.map(|ranges| (attribution, ranges)));
    each(cases.into_iter().flatten(), |(attribution, ranges)| {
        let guest = guest("rests", ("v1", attribution)).env("STAGE2_RANGES", ranges);
        let left = guest.env("STAGE2_SIM_CUPTI_VERSION", SWITCHES).run();
        says_nothing(&left, &format!("{attribution} {ranges}"));
        assert_eq!(
            left.trace().kernels(),
            counts(&[("step", 2 * 30 * 20)]),
            "{attribution} {ranges}"
        );
    });
}
