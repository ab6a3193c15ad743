//! Calls of CUPTI's functions that fail, are slow or never return, whatever the function does: asked for
//! by the function's name.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The functions that `state::gate` stands in, which is checked when this is compiled.
pub(crate) const FUNCTIONS: &[&str] = &[
    "cuptiActivityDisable",
    "cuptiActivityDisable_v2",
    "cuptiActivityEnable",
    "cuptiActivityEnableAndDump",
    "cuptiActivityEnableHWTrace",
    "cuptiActivityEnable_v2",
    "cuptiActivityFlushAll",
    "cuptiActivityGetAttribute",
    "cuptiActivityGetAttribute_v2",
    "cuptiActivityGetNextRecord",
    "cuptiActivityGetNextRecord_v2",
    "cuptiActivityGetNumDroppedRecords",
    "cuptiActivityGetNumDroppedRecords_v2",
    "cuptiActivityRegisterCallbacks",
    "cuptiActivityRegisterCallbacks_v2",
    "cuptiActivitySetAttribute",
    "cuptiActivitySetAttribute_v2",
    "cuptiDeviceGetChipName",
    "cuptiEnableCallback",
    "cuptiFinalize",
    "cuptiGetDeviceId",
    "cuptiGetGraphNodeId",
    "cuptiGetResultString",
    "cuptiGetTimestamp",
    "cuptiGetTimestamp_v2",
    "cuptiGetVersion",
    "cuptiPmSamplingCounterDataGetSampleInfo",
    "cuptiPmSamplingCounterDataImageInitialize",
    "cuptiPmSamplingDecodeData",
    "cuptiPmSamplingDisable",
    "cuptiPmSamplingEnable",
    "cuptiPmSamplingGetCounterAvailability",
    "cuptiPmSamplingGetCounterDataInfo",
    "cuptiPmSamplingGetCounterDataSize",
    "cuptiPmSamplingSetConfig",
    "cuptiPmSamplingStart",
    "cuptiPmSamplingStop",
    "cuptiProfilerHostConfigAddMetrics",
    "cuptiProfilerHostDeinitialize",
    "cuptiProfilerHostEvaluateToGpuValues",
    "cuptiProfilerHostGetConfigImage",
    "cuptiProfilerHostGetConfigImageSize",
    "cuptiProfilerHostGetNumOfPasses",
    "cuptiProfilerHostInitialize",
    "cuptiProfilerInitialize",
    "cuptiSubscribe",
    "cuptiSubscribe_v2",
    "cuptiUnsubscribe",
];

/// One fault of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallFault {
    function: &'static str,
    effect: Effect,
    /// The call that it is for, from 1; `None` for all.
    at: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The call does nothing and returns this `CUptiResult`.
    Fail(u32),
    /// The call first blocks for so long, ms.
    Slow(u64),
    /// The call never returns.
    Hang,
    /// Before the call a thread of the guest forks.
    Fork,
}

impl CallFault {
    /// Reads `fail=FUNCTION:CODE`, `slow=FUNCTION:MS` or `hang=FUNCTION` or `fork=FUNCTION`, each with `@N` behind it for the
    /// Nth call only. `None` for anything else.
    pub(crate) fn parse(item: &str) -> Option<CallFault> {
        let (what, rest) = item.split_once('=')?;
        let (rest, at) = match rest.split_once('@') {
            Some((rest, at)) => (rest, Some(at.parse().ok().filter(|&at| at > 0)?)),
            None => (rest, None),
        };
        let (name, amount) = match rest.split_once(':') {
            Some((name, amount)) => (name, Some(amount.parse::<u64>().ok()?)),
            None => (rest, None),
        };
        let effect = match (what, amount) {
            ("fail", Some(code)) => Effect::Fail(u32::try_from(code).ok()?),
            ("slow", Some(ms)) => Effect::Slow(ms),
            ("hang", None) => Effect::Hang,
            ("fork", None) => Effect::Fork,
            _ => return None,
        };
        let function = FUNCTIONS.iter().find(|function| **function == name)?;
        Some(CallFault { function, effect, at })
    }
}

/// The calls so far of the functions that have a fault.
#[derive(Debug, Default)]
pub(crate) struct CallCounts(Vec<AtomicU64>);

impl CallCounts {
    pub(crate) fn new(faults: &[CallFault]) -> CallCounts {
        CallCounts(faults.iter().map(|_| AtomicU64::new(0)).collect())
    }
}

/// A call of a function begins. `Some`: what it returns at once.
pub(crate) fn meet(faults: &[CallFault], counts: &CallCounts, function: &str) -> Option<u32> {
    for (fault, calls) in faults.iter().zip(&counts.0) {
        if fault.function != function {
            continue;
        }
        let call = calls.fetch_add(1, Ordering::Relaxed) + 1;
        if fault.at.is_some_and(|at| at != call) {
            continue;
        }
        match fault.effect {
            Effect::Fail(code) => return Some(code),
            Effect::Slow(ms) => std::thread::sleep(Duration::from_millis(ms)),
            Effect::Fork => have_fork(),
            Effect::Hang => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
        }
    }
    None
}

/// Asks the guest for a fork, where it has a function for that.
fn have_fork() {
    // SAFETY: the symbol is a function of the guest's without arguments, or is not there.
    unsafe {
        let function = libc::dlsym(libc::RTLD_DEFAULT, c"stage2_test_have_fork".as_ptr());
        if !function.is_null() {
            std::mem::transmute::<*mut c_void, extern "C" fn()>(function)();
        }
    }
}

/// Whether a function is in the list above. For constants.
pub(crate) const fn is_listed(name: &str) -> bool {
    let mut index = 0;
    while index < FUNCTIONS.len() {
        if is_same(FUNCTIONS[index].as_bytes(), name.as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut index = 0;
    while index < one.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_calls_are_read_and_anything_else_is_refused() {
        let flush = "cuptiActivityFlushAll";
        let of = |effect, at| Some(CallFault { function: flush, effect, at });
        let read = |text: &str| CallFault::parse(&text.replace('F', flush));
        assert_eq!(read("fail=F:8"), of(Effect::Fail(8), None));
        assert_eq!(read("slow=F:20@3"), of(Effect::Slow(20), Some(3)));
        assert_eq!(read("hang=F@1"), of(Effect::Hang, Some(1)));
        for text in
            ["fail=F", "hang=F:3", "slow=F:x", "fail=F:8@0", "fail=F:4294967296", "stop=F:1"]
        {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(CallFault::parse("fail=cuptiNothing:8"), None);
    }
}
