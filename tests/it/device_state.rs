//! Energy and clocks, read from a simulated NVML: what is read, what is missing and why, and a guest that
//! does not notice any of it.

use std::time::{Duration, Instant};

use crate::common::{Guest, TraceFile, built, each};
use stage2_contract::trace::{DeviceState, Record};

const UUID: &str = "GPU-73746167-6532-2d73-696d-756c61746564";
const OTHER: &str = "GPU-11111111-2222-3333-4444-555555555555";

fn guest(hazard: &str) -> Guest {
    let uuids = format!("{OTHER},{UUID}");
    Guest::new(hazard).env("STAGE2_NVML", built("libnvml.so")).env("SIM_NVML_UUIDS", uuids)
}

fn states(trace: &TraceFile) -> Vec<DeviceState> {
    let state = |record: &Record| match record {
        Record::DeviceState(state) => Some(*state),
        _ => None,
    };
    trace.each(state)
}

#[test]
fn the_gpu_in_use_is_read_from_the_start_to_the_end() {
    // Which GPU works is known only after the first flush.
    let guest = guest("works_for_a_while").env("STAGE2_FLUSH_MS", "600");
    let left = guest.env("SIM_NVML_WATTS", "700").run();
    let trace = left.expect_quiet(0).trace();
    let states = states(trace);
    assert!((5..=30).contains(&states.len()), "{}", states.len());
    assert!(states.iter().all(|state| state.device == 0 && state.sm_clock_mhz == Some(1980)));
    assert!(states.iter().all(|state| state.clock_reasons == Some(4)), "by the older name");
    let (first, last) = (states[0], states[states.len() - 1]);
    let seconds = (last.at.0 - first.at.0) as f64 / 1e9;
    let joules = (last.energy_mj.unwrap() - first.energy_mj.unwrap()) as f64 / 1e3;
    assert!((joules / seconds - 700.0).abs() < 20.0, "{joules} J in {seconds} s");
    let (mut opened, mut closed) = (u64::MAX, 0);
    for record in &trace.records {
        match record {
            Record::RangeOpen(open) => opened = open.start.0,
            Record::RangeClose { end, .. } => closed = end.0,
            _ => {}
        }
    }
    assert!(first.at.0 < opened + 100_000_000, "it is read before it is known which GPU works");
    assert!(last.at.0 >= closed, "and once more at the end");
    let full: Vec<_> = states.iter().filter(|state| state.temperature_c.is_some()).collect();
    assert!((1..=2).contains(&full.len()), "a full read takes longer and comes once a second");
    assert!(full.iter().all(|state| state.other_processes == Some(0)));
    assert!(full.iter().all(|state| state.power_mw == Some(700_000)));
    assert!(full.iter().all(|state| state.memory_used_bytes == 20 << 30));
    assert_eq!(trace.meta("nvml.off"), None);
}

#[test]
fn what_nvml_does_not_say_is_absent_and_the_rest_is_there() {
    let run = |name: &str, value: &str| {
        let left = guest("works_for_a_while").env(name, value).run();
        let states = states(left.expect_quiet(0).trace());
        let full = states.iter().find(|state| state.temperature_c.is_some());
        *full.expect("a full read")
    };
    let state = run("SIM_NVML_UNSUPPORTED", "nvmlDeviceGetTotalEnergyConsumption");
    assert_eq!((state.energy_mj, state.memory_clock_mhz), (None, Some(3201)));
    each([("hidden", None), ("3", Some(3)), ("400", Some(400))], |(simulated, expected)| {
        assert_eq!(run("SIM_NVML_OTHERS", simulated).other_processes, expected, "{simulated}");
    });
}

#[test]
fn why_there_is_nothing_stands_in_the_file_and_nowhere_else() {
    let cases = [
        ("STAGE2_DEVICE_STATE", "off", "nvml.off", "STAGE2_DEVICE_STATE=off"),
        ("STAGE2_NVML", "/no/libnvidia-ml.so.1", "nvml.off", "/no/libnvidia-ml.so.1"),
        ("SIM_NVML_INIT", "9", "nvml.off", "kernel driver is not loaded (error 9)"),
        ("SIM_NVML_INIT", "18", "nvml.off", "restart the machine"),
        ("SIM_NVML_UUIDS", OTHER, "nvml.off.0", "MIG instance"),
        ("SIM_NVML_UUIDS", "GPU-0,nonsense,", "nvml.off.0", "MIG instance"),
        ("SIM_NVML_MIG", "1", "nvml.off.0", "MIG is on"),
    ];
    each(cases, |(name, value, key, reason)| {
        let left = guest("kill").env(name, value).run();
        assert_eq!(left.stderr(), "", "{name}={value}");
        let trace = left.trace();
        assert_eq!(states(trace), [], "{name}={value}");
        let told = trace.meta(key).unwrap_or_default();
        assert!(told.contains(reason), "{name}={value}: {told:?}");
    });
    let bare = Guest::new("return").run();
    let trace = bare.expect_quiet(0).trace();
    assert_eq!(
        (trace.meta("nvml.off"), states(trace)),
        (None, vec![]),
        "a simulated GPU has no NVML"
    );
}

/// Hazard (Resources): An NVML that hangs.
/// Promise: No thread of the program waits for it.
#[test]
fn an_nvml_that_hangs_holds_up_nobody() {
    let began = Instant::now();
    let left = guest("works_for_a_while").env("SIM_NVML_READ_MS", "15000").run();
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let trace = left.expect_quiet(0).trace();
    assert_eq!(trace.kernel_count(), 120);
    assert_eq!(trace.losses(), stage2_contract::trace::Losses::default());
    assert_eq!(states(trace), []);
}

/// Hazard (Processes and forks): A forked child on a machine with NVML.
/// Promise: It reads energy for itself.
#[test]
fn a_forked_child_reads_for_itself_and_a_main_thread_may_end() {
    let left = guest("fork_before_cuda").run();
    let read = left.traces.iter().filter(|trace| !states(trace).is_empty()).count();
    let worked = left.traces.iter().filter(|trace| trace.kernel_count() > 0).count();
    assert!(worked > 0 && read == worked, "{read} of {worked}: {}", left.stderr());
    let left = guest("main_ends_with_cuda").run();
    assert!(!states(left.trace()).is_empty(), "{}", left.stderr());
}
