//! Every function of CUPTI that the collector may call fails, is slow or, where a thread of ours calls it,
//! never returns: the guest's output and status stay, it ends in time, and what is lost is counted or said.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::common::{Guest, Left, check_each};
use cupti_sys::table::{OPTIONAL, REQUIRED};
use stage2_contract::trace::{Ending, Losses, Record};

/// Whose thread calls a function. A guest that calls a CUPTI which never returns hangs without us too.
#[derive(Clone, Copy, PartialEq)]
enum Caller {
    /// The guest's, in a start or at a range.
    Guest,
    /// The drain thread.
    Drain,
    /// The thread that samples counters.
    Sampler,
    /// Nobody: a failure changes nothing.
    Nobody,
}
use Caller::{Drain, Nobody, Sampler};

/// A function, whose thread calls it, in what guest, with which setting and other fault.
type Case = (&'static str, Caller, &'static str, (&'static str, &'static str), &'static str);

const PLAIN: (&str, &str) = ("STAGE2_FLUSH_MS", "50");
const RANGES: (&str, &str) = ("STAGE2_RANGES", "decode");
const CALLBACKS: (&str, &str) = ("STAGE2_ATTRIBUTION", "callback");
const COUNTERS: (&str, &str) = ("STAGE2_COUNTERS", "on@500");

const CASES: &[Case] = &[
    ("cuptiActivityDisable", Drain, "return", PLAIN, ""),
    ("cuptiActivityDisable", Caller::Guest, "gated", RANGES, ""),
    ("cuptiActivityEnable", Caller::Guest, "return", PLAIN, ""),
    ("cuptiActivityEnable", Caller::Guest, "gated", RANGES, ""),
    ("cuptiActivityFlushAll", Drain, "return", PLAIN, ""),
    ("cuptiActivityFlushAll", Drain, "gated", RANGES, ""),
    ("cuptiActivityGetNextRecord", Drain, "return", PLAIN, ""),
    ("cuptiActivityGetNumDroppedRecords", Drain, "return", PLAIN, "drop=10"),
    ("cuptiActivityRegisterCallbacks", Caller::Guest, "return", PLAIN, ""),
    ("cuptiActivitySetAttribute", Caller::Guest, "return", PLAIN, ""),
    ("cuptiEnableCallback", Caller::Guest, "return", PLAIN, ""),
    ("cuptiEnableCallback", Caller::Guest, "graph", CALLBACKS, ""),
    ("cuptiGetResultString", Nobody, "return", PLAIN, "flush=8"),
    ("cuptiGetTimestamp", Drain, "return", PLAIN, ""),
    ("cuptiGetTimestamp", Caller::Guest, "gated", RANGES, ""),
    ("cuptiGetVersion", Caller::Guest, "return", PLAIN, ""),
    ("cuptiSubscribe", Caller::Guest, "return", PLAIN, ""),
    ("cuptiUnsubscribe", Caller::Guest, "return", PLAIN, "register=35"),
    ("cuptiGetDeviceId", Caller::Guest, "sampled", COUNTERS, ""),
    ("cuptiGetGraphNodeId", Caller::Guest, "graph", PLAIN, ""),
];

/// Functions that the thread that samples counters calls.
const SAMPLING: &str = "\
    cuptiDeviceGetChipName cuptiPmSamplingCounterDataGetSampleInfo \
    cuptiPmSamplingCounterDataImageInitialize cuptiPmSamplingDecodeData cuptiPmSamplingDisable \
    cuptiPmSamplingEnable cuptiPmSamplingGetCounterAvailability \
    cuptiPmSamplingGetCounterDataInfo cuptiPmSamplingGetCounterDataSize \
    cuptiPmSamplingSetConfig cuptiPmSamplingStart cuptiPmSamplingStop \
    cuptiProfilerHostConfigAddMetrics cuptiProfilerHostDeinitialize \
    cuptiProfilerHostEvaluateToGpuValues cuptiProfilerHostGetConfigImage \
    cuptiProfilerHostGetConfigImageSize cuptiProfilerHostGetNumOfPasses \
    cuptiProfilerHostInitialize cuptiProfilerInitialize";

/// Functions that nobody calls here. `cuptiActivityEnableAndDump` is for windows that begin late:
/// `tests/it/windows.rs`.
const UNCALLED: &str = "\
    cuptiActivityGetAttribute cuptiActivityDisable_v2 cuptiActivityEnableAndDump \
    cuptiActivityEnableHWTrace cuptiActivityEnable_v2 cuptiActivityGetAttribute_v2 \
    cuptiActivityGetNextRecord_v2 cuptiActivityGetNumDroppedRecords_v2 \
    cuptiActivityRegisterCallbacks_v2 cuptiActivitySetAttribute_v2 \
    cuptiGetTimestamp_v2 cuptiSubscribe_v2";

fn cases() -> impl Iterator<Item = Case> {
    let sampling = SAMPLING.split_whitespace().map(|name| (name, Sampler, "sampled", COUNTERS, ""));
    let uncalled = UNCALLED.split_whitespace().map(|name| (name, Nobody, "return", PLAIN, ""));
    CASES.iter().copied().chain(sampling).chain(uncalled)
}

/// Any error that is no refusal of a known kind.
const ERROR: u32 = 999;
/// An end waits for 5 s, a start for 2.
const IN_TIME: Duration = Duration::from_secs(9);

fn kernels_of(guest: &str) -> usize {
    match guest {
        "sampled" => 20 * 694,
        "graph" => 5 * 30,
        // What is asked for: a layer and two kernels around it, ten times.
        "gated" => 10 * 9,
        _ => 207,
    }
}

fn faults(&(function, caller, _, _, also): &Case) -> Vec<String> {
    let fail = format!("fail={function}:{ERROR}");
    if caller == Nobody && also.is_empty() {
        // Any call of it would show.
        return vec![fail, format!("hang={function}@1")];
    }
    let slow = format!("slow={function}:30@1");
    let mut faults = vec![fail.clone(), format!("{fail}@1"), format!("{fail}@3"), slow];
    match caller {
        Caller::Guest | Nobody => {}
        // An end waits its whole patience for each of these.
        Drain => faults.extend([format!("hang={function}@1"), format!("hang={function}@2")]),
        Sampler => faults.push(format!("hang={function}@1")),
    }
    faults
}

/// What went wrong for the guest, or was lost without a word.
fn complaint(case: &Case, fault: &str, left: &Left, took: Duration) -> Option<String> {
    let &(_, caller, guest, _, also) = case;
    let (stdout, stderr) = (left.stdout(), left.stderr());
    let expected =
        if guest == "sampled" { stdout.trim().parse::<u64>().is_ok() } else { stdout.is_empty() };
    if left.output.status.code() != Some(0) || !expected {
        return Some(format!("the guest: {:?} {stdout:?}", left.output.status));
    }
    if took > IN_TIME {
        return Some(format!("it took {took:?}"));
    }
    if let Some(line) = stderr.lines().find(|line| !line.starts_with("stage2: ")) {
        return Some(format!("somebody else said: {line}"));
    }
    if stderr.contains("internal error") {
        return Some("a panic".to_owned());
    }
    let [trace] = left.traces.as_slice() else { return Some("no trace file".to_owned()) };
    let kernels: usize = trace.kernels().values().sum();
    let lost =
        |record: &Record| matches!(record, Record::Losses(lost) if *lost != Losses::default());
    let whole = trace.ending == Ending::Complete && kernels == kernels_of(guest);
    if caller == Nobody && also.is_empty() {
        return (!whole || !stderr.is_empty()).then(|| "a function that nobody calls".to_owned());
    }
    let sampled = caller == Sampler && fault.starts_with("hang");
    if sampled && kernels != kernels_of(guest) {
        return Some(format!("{kernels} kernels: sampling holds records up"));
    }
    let known = whole
        || trace.records.iter().any(lost)
        || trace.meta("gpu.off").is_some()
        || !stderr.is_empty();
    (!known).then(|| format!("{kernels} kernels, and nobody says what is lost"))
}

/// Hazard (Calls that fail): The collector looks up a further function of CUPTI.
/// Promise: A test names the missing case.
#[test]
fn every_function_that_is_looked_up_in_cupti_has_a_case() {
    let looked_up: BTreeSet<&str> = REQUIRED.iter().chain(OPTIONAL).copied().collect();
    assert_eq!(cases().map(|case| case.0).collect::<BTreeSet<_>>(), looked_up);
}

/// Hazard (Calls that fail): Any function of CUPTI fails, is slow, or never returns on a thread of the collector.
/// Promise: The guest continues and ends in time; losses are known.
#[test]
fn whatever_cupti_does_the_guest_goes_on_and_what_is_lost_is_known() {
    let with_faults = |case: Case| faults(&case).into_iter().map(move |fault| (case, fault));
    let mut todo: Vec<(Case, String)> = cases().flat_map(with_faults).collect();
    // Those that hang wait for seconds and are taken first, from the end.
    todo.sort_by_key(|(_, fault)| fault.starts_with("hang"));
    check_each(8, todo, |(case, fault)| {
        let (_, _, guest, (name, value), also) = case;
        let faults = if also.is_empty() { fault.clone() } else { format!("{fault},{also}") };
        let started = Instant::now();
        let left = Guest::new(guest).env(name, value).env("STAGE2_SIM_FAULT", &faults).run();
        let what = complaint(&case, &fault, &left, started.elapsed())?;
        Some(format!("{faults} {value}: {what}\n{}", left.stderr()))
    });
}

/// A fault of a call is felt: the tests above could not fail otherwise.
#[test]
fn a_record_that_cannot_be_walked_to_is_counted_and_a_refused_enable_ends_the_gpu_half() {
    let run = |fault: &str| Guest::new("return").env("STAGE2_SIM_FAULT", fault).run();
    let unread = run("fail=cuptiActivityGetNextRecord:999");
    let trace = unread.expect_quiet(0).trace();
    assert_eq!(trace.kernel_count(), 0);
    assert!(trace.losses().unreadable_records >= 200, "{:?}", trace.losses());

    let off = run("fail=cuptiActivityEnable:999@2");
    assert!(off.expect_said(0).contains("CUPTI refused to collect"), "{}", off.stderr());
    assert!(off.trace().meta("gpu.off").is_some());

    let hangs = run("hang=cuptiActivityGetNumDroppedRecords@1");
    assert!(hangs.expect_said(0).contains("CUPTI did not finish within"), "{}", hangs.stderr());
}
