//! Errors on request: each one does what it says, and nothing else.

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{DECODE, FAST, KERNEL, MEMCPY, Sim, client, library_path};
use libloading::Library;

fn with_fault(fault: &str) -> Sim {
    Sim::new(&[FAST, ("STAGE2_SIM_FAULT", fault)])
}

#[test]
fn refusals_give_the_asked_for_codes() {
    let sim = with_fault("subscribe=39,enable=14,register=999");
    assert_eq!(sim.subscribe().0, 39);
    assert_eq!(sim.register(), 999);
    assert_eq!(sim.call("cuptiActivityEnable", KERNEL as usize), 14);
    assert_eq!(sim.call("cuptiActivityDisable", KERNEL as usize), 0);
}

#[test]
fn the_driver_can_have_no_device_or_fail() {
    for (fault, code) in [("no-device", 100), ("cu-init=999", 999), ("typo=1", 1)] {
        let sim = with_fault(fault);
        assert_eq!(sim.call("cuInit", 0), code, "{fault}");
        assert_eq!(sim.out("cuDeviceGetCount", 0).0, 3, "{fault}");
    }
}

#[test]
fn every_nth_record_is_dropped_and_counted() {
    let sim = with_fault("drop=10");
    sim.start(&[KERNEL]);
    sim.play(DECODE, 0);
    assert_eq!(sim.finish().of(KERNEL).len(), 694 - 69);
    assert_eq!(sim.dropped(), 69);
}

#[test]
fn every_nth_kernel_has_no_times() {
    let sim = with_fault("zero-timestamps=100");
    sim.start(&[KERNEL]);
    sim.play(DECODE, 0);
    let client = sim.finish();
    let kernels = client.of(KERNEL);
    assert_eq!(kernels.len(), 694);
    assert_eq!(kernels.iter().filter(|kernel| (kernel.start, kernel.end) == (0, 0)).count(), 6);
}

#[test]
fn late_buffers_are_late() {
    let sim = with_fault("late-buffers=500");
    client().max_records = 10;
    sim.start(&[KERNEL]);
    (0..11).for_each(|index| sim.launch(DECODE, index, 0));
    sim.synchronize();
    let done = Instant::now();
    sim.flush(false);
    assert!(client().completed_on.is_empty());
    while client().completed_on.is_empty() && done.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(done.elapsed() >= Duration::from_millis(400), "{:?}", done.elapsed());
    assert_eq!(client().of(KERNEL).len(), 10);
    sim.flush(true);
    assert_eq!(client().of(KERNEL).len(), 11, "a forced flush waits for nothing");
}

#[test]
fn a_flush_can_hang() {
    let sim = with_fault("flush-hang=80");
    let begin = Instant::now();
    sim.flush(false);
    assert!(begin.elapsed() >= Duration::from_millis(80));
}

#[test]
fn settings_are_fixed_by_the_first_use() {
    let sim = Sim::new(&[]);
    sim.make("cuptiGetVersion", 0);
    let configure: extern "C" fn(*const i8, *const i8) -> u32 = sim.get("stage2_sim_configure");
    assert_eq!(configure(c"STAGE2_SIM_SEED".as_ptr(), c"1".as_ptr()), 1);
}

#[test]
fn a_seed_repeats_the_durations() {
    let durations = |seed| {
        let sim = Sim::new(&[FAST, ("STAGE2_SIM_SEED", seed)]);
        sim.start(&[KERNEL, MEMCPY]);
        (0..50).for_each(|index| sim.launch(DECODE, index, 0));
        sim.finish().of(KERNEL).iter().map(|kernel| kernel.end - kernel.start).collect::<Vec<_>>()
    };
    assert_eq!(durations("1"), durations("1"));
    assert_ne!(durations("1"), durations("2"));
}

#[test]
fn a_symbol_can_be_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("libstage2_sim.so");
    let name = "cuptiActivityFlushAll";
    stage2_sim::without_symbol(&library_path(), &copy, name).expect("a copy");
    assert!(!exports(&copy, name));
    assert!(exports(&library_path(), name));
    for kept in ["cuptiActivityEnable", "cuptiGetVersion", "cuInit", "stage2_sim_version"] {
        assert!(exports(&copy, kept), "{kept}");
    }
    let error = stage2_sim::without_symbol(&library_path(), &copy, "cuptiNothing");
    assert!(error.expect_err("no such symbol").to_string().contains("cuptiNothing"));
}

fn exports(library: &Path, name: &str) -> bool {
    // SAFETY: the library of this package; nothing of it is called.
    let library = Box::leak(Box::new(unsafe { Library::new(library) }.expect("loads")));
    // SAFETY: the symbol is only looked up.
    unsafe { library.get::<unsafe extern "C" fn()>(name) }.is_ok()
}
