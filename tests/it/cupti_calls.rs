//! Every function of CUPTI that the collector may call fails, is slow or, where a thread of ours calls it,
//! never returns: the guest's output and status stay, it ends in time, and what is lost is counted or said.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::common::{Guest, Left};
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
    ("cuptiActivityGetAttribute", Nobody, "return", PLAIN, ""),
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
    ("cuptiActivityDisable_v2", Nobody, "return", PLAIN, ""),
    // Only a window that begins late calls it: `tests/it/windows.rs`.
    ("cuptiActivityEnableAndDump", Nobody, "return", PLAIN, ""),
    ("cuptiActivityEnableHWTrace", Nobody, "return", PLAIN, ""),
    ("cuptiActivityEnable_v2", Nobody, "return", PLAIN, ""),
    ("cuptiActivityGetAttribute_v2", Nobody, "return", PLAIN, ""),
    ("cuptiActivityGetNextRecord_v2", Nobody, "return", PLAIN, ""),
    ("cuptiActivityGetNumDroppedRecords_v2", Nobody, "return", PLAIN, ""),
    ("cuptiActivityRegisterCallbacks_v2", Nobody, "return", PLAIN, ""),
    ("cuptiActivitySetAttribute_v2", Nobody, "return", PLAIN, ""),
    ("cuptiDeviceGetChipName", Sampler, "sampled", COUNTERS, ""),
    ("cuptiFinalize", Nobody, "return", PLAIN, ""),
    ("cuptiGetDeviceId", Caller::Guest, "sampled", COUNTERS, ""),
    ("cuptiGetGraphNodeId", Caller::Guest, "graph", PLAIN, ""),
    ("cuptiGetTimestamp_v2", Nobody, "return", PLAIN, ""),
    ("cuptiPmSamplingCounterDataGetSampleInfo", Sampler, "sampled", COUNTERS, ""),
    ("cuptiPmSamplingCounterDataImageInitialize", Sampler, "sampled", COUNTERS, ""),
    ("cuptiPmSamplingDecodeData", Sampler, "sampled", COUNTERS, ""),
    ("cuptiPmSamplingDisable", Sampler, "sampled", COUNTERS, ""),
    ("cuptiPmSamplingEnable", Sampler, "sampled", COUNTERS, ""),
    ("cuptiPmSamplingGetCounterAvailability", Sampler, "sampled", COUNTERS, ""),
    ("cuptiPmSamplingGetCounterDataInfo", Sampler, "sampled", COUNTERS, ""),
    ("cuptiPmSamplingGetCounterDataSize", Sampler, "sampled", COUNTERS, ""),
    ("cuptiPmSamplingSetConfig", Sampler, "sampled", COUNTERS, ""),
    ("cuptiPmSamplingStart", Sampler, "sampled", COUNTERS, ""),
    ("cuptiPmSamplingStop", Sampler, "sampled", COUNTERS, ""),
    ("cuptiProfilerHostConfigAddMetrics", Sampler, "sampled", COUNTERS, ""),
    ("cuptiProfilerHostDeinitialize", Sampler, "sampled", COUNTERS, ""),
    ("cuptiProfilerHostEvaluateToGpuValues", Sampler, "sampled", COUNTERS, ""),
    ("cuptiProfilerHostGetConfigImage", Sampler, "sampled", COUNTERS, ""),
    ("cuptiProfilerHostGetConfigImageSize", Sampler, "sampled", COUNTERS, ""),
    ("cuptiProfilerHostGetNumOfPasses", Sampler, "sampled", COUNTERS, ""),
    ("cuptiProfilerHostInitialize", Sampler, "sampled", COUNTERS, ""),
    ("cuptiProfilerInitialize", Sampler, "sampled", COUNTERS, ""),
    ("cuptiSubscribe_v2", Nobody, "return", PLAIN, ""),
];

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

fn faults(function: &str, caller: Caller) -> Vec<String> {
    let fail = format!("fail={function}:{ERROR}");
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
    let [spool] = left.spools.as_slice() else { return Some("no trace file".to_owned()) };
    let kernels: usize = spool.kernels().values().sum();
    let lost =
        |record: &Record| matches!(record, Record::Losses(lost) if *lost != Losses::default());
    let whole = spool.ending == Ending::Complete && kernels == kernels_of(guest);
    if caller == Nobody && also.is_empty() {
        return (!whole || !stderr.is_empty()).then(|| "a function that nobody calls".to_owned());
    }
    let sampled = caller == Sampler && fault.starts_with("hang");
    if sampled && kernels != kernels_of(guest) {
        return Some(format!("{kernels} kernels: sampling holds records up"));
    }
    let known = whole
        || spool.records.iter().any(lost)
        || spool.meta("gpu.off").is_some()
        || !stderr.is_empty();
    (!known).then(|| format!("{kernels} kernels, and nobody says what is lost"))
}

/// Hazard (Calls that fail): The collector looks up a further function of CUPTI.
/// Promise: A test names the missing case.
#[test]
fn every_function_that_is_looked_up_in_cupti_has_a_case() {
    let looked_up: BTreeSet<&str> = REQUIRED.iter().chain(OPTIONAL).copied().collect();
    assert_eq!(CASES.iter().map(|case| case.0).collect::<BTreeSet<_>>(), looked_up);
}

/// Hazard (Calls that fail): Any function of CUPTI fails, is slow, or never returns on a thread of
///  ours.
/// Promise: The guest goes on and ends in time; losses are known.
#[test]
fn whatever_cupti_does_the_guest_goes_on_and_what_is_lost_is_known() {
    let of =
        |case: &'static Case| faults(case.0, case.1).into_iter().map(move |fault| (case, fault));
    let todo: Vec<(&Case, String)> = CASES.iter().flat_map(of).collect();
    let cases = todo.len();
    let (todo, wrong) = (Mutex::new(todo), Mutex::new(Vec::new()));
    let work = || {
        while let Some((case, fault)) = { todo.lock().expect("no panic").pop() } {
            let &(_, _, guest, (name, value), also) = case;
            let faults = if also.is_empty() { fault.clone() } else { format!("{fault},{also}") };
            let started = Instant::now();
            let guest = Guest::new(guest).env(name, value).env("STAGE2_SIM_FAULT", &faults);
            let left = guest.run();
            if let Some(what) = complaint(case, &fault, &left, started.elapsed()) {
                let stderr = left.stderr();
                wrong.lock().expect("no panic").push(format!("{faults} {value}: {what}\n{stderr}"));
            }
        }
    };
    // Most of them wait.
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{} of {cases} cases:\n{}", wrong.len(), wrong.join("\n"));
    println!("{cases} faults");
}

/// A fault of a call is felt: the tests above could not fail otherwise.
#[test]
fn a_record_that_cannot_be_walked_to_is_counted_and_a_refused_enable_ends_the_gpu_half() {
    let run = |fault: &str| Guest::new("return").env("STAGE2_SIM_FAULT", fault).run();
    let unread = run("fail=cuptiActivityGetNextRecord:999");
    let spool = unread.expect_quiet(0).spool();
    assert_eq!(spool.kernels().values().sum::<usize>(), 0);
    assert!(spool.losses().unreadable_records >= 200, "{:?}", spool.losses());

    let off = run("fail=cuptiActivityEnable:999@2");
    assert!(off.expect_said(0).contains("CUPTI refused to collect"), "{}", off.stderr());
    assert!(off.spool().meta("gpu.off").is_some());

    let hangs = run("hang=cuptiActivityGetNumDroppedRecords@1");
    assert!(hangs.expect_said(0).contains("CUPTI did not finish within"), "{}", hangs.stderr());
}
