//! Launches into activity records: how many, when, in whose buffers, of which size.

mod common;

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use common::{
    CONTEXT, DECODE, DEVICE, DRIVER, FAST, GRAPH, KERNEL, MEMCPY, MEMSET, PREFILL, Sim, client,
};

#[test]
fn a_prefill_and_a_decode_step_give_their_recorded_kernels() {
    let sim = Sim::started(&[KERNEL, MEMSET]);
    let stream = sim.stream();
    sim.play(PREFILL, stream);
    sim.synchronize();
    sim.flush(true);
    assert_eq!(client().of(MEMSET).len(), 17);
    let kernels = client().of(KERNEL);
    assert_eq!(kernels.len(), 662);
    let busy: u64 = kernels.iter().map(|kernel| kernel.end - kernel.start).sum();
    assert!((3_740_000..=3_890_000).contains(&busy), "3.816 ms were recorded, {busy} ns came");
    client().activities.clear();
    sim.play(DECODE, stream);
    let client = sim.finish();
    let kernels = client.of(KERNEL);
    assert_eq!(kernels.len(), 694);
    let busy: u64 = kernels.iter().map(|kernel| kernel.end - kernel.start).sum();
    assert!((1_785_000..=1_860_000).contains(&busy), "1.824 ms were recorded, {busy} ns came");
    let ids: HashSet<u32> = kernels.iter().map(|kernel| kernel.correlation).collect();
    assert_eq!(ids.len(), 694);
    assert!(kernels.iter().all(|kernel| !kernel.name.is_empty() && kernel.node == 0));
}

#[test]
fn record_times_lie_inside_the_host_times() {
    let sim = Sim::started(&[KERNEL]);
    let stream = sim.stream();
    let before = sim.make("cuptiGetTimestamp", 0) as u64;
    sim.play(DECODE, stream);
    sim.synchronize();
    let after = sim.make("cuptiGetTimestamp", 0) as u64;
    let client = sim.finish();
    let mut kernels = client.of(KERNEL);
    assert!(kernels.iter().all(|k| before < k.start && k.start < k.end && k.end <= after));
    kernels.sort_by_key(|kernel| kernel.correlation);
    assert!(kernels.is_sorted_by_key(|kernel| kernel.start), "a stream runs in order of launch");
}

#[test]
fn a_forced_flush_hands_out_unfinished_work_without_times() {
    let sim = Sim::started(&[KERNEL]);
    let stream = sim.stream();
    let fill: extern "C" fn(u64, u8, usize, usize) -> u32 = sim.get("cuMemsetD8Async");
    // Half a second at 2 TB/s, so that nothing behind it is done by chance.
    assert_eq!(fill(0, 1, 1_000_000_000_000, stream), 0);
    sim.play(DECODE, stream);
    sim.flush(false);
    assert!(client().completed_on.is_empty(), "a plain flush leaves unfinished buffers alone");
    sim.flush(true);
    {
        let client = client();
        // 694 records of 216 bytes need three buffers of 64 KiB.
        assert_eq!(client.ends, [12; 3], "the walks end with the buffers");
        let kernels = client.of(KERNEL);
        assert!(kernels.len() > 600 && kernels.iter().all(|k| (k.start, k.end) == (0, 0)));
    }
    sim.synchronize();
    client().ends.clear();
    sim.play(PREFILL, stream);
    sim.synchronize();
    sim.flush(false);
    assert_eq!(client().ends, [12; 3]);
}

#[test]
fn every_thread_has_its_own_buffer_by_default() {
    let sim = Sim::started(&[KERNEL]);
    let ids: Vec<_> = thread::scope(|scope| {
        let launch = || {
            let stream = sim.stream();
            (0..50).for_each(|index| sim.launch(DECODE, index, stream));
            thread::current().id()
        };
        let threads = [scope.spawn(launch), scope.spawn(launch), scope.spawn(launch)];
        threads.map(|thread| thread.join().expect("launches")).to_vec()
    });
    let client = sim.finish();
    assert_eq!(client.of(KERNEL).len(), 150);
    assert_eq!(client.requested_on.iter().collect::<HashSet<_>>(), ids.iter().collect());
    assert_eq!(client.requested_on.len(), 3);
    let streams: HashSet<u32> = client.activities.iter().map(|kernel| kernel.stream).collect();
    assert_eq!(streams.len(), 3);
}

#[test]
fn threads_share_a_buffer_when_asked_to() {
    let sim = Sim::new(&[FAST]);
    let set: extern "C" fn(u32, *mut usize, *mut u8) -> u32 = sim.get("cuptiActivitySetAttribute");
    let get: extern "C" fn(u32, *mut usize, *mut u8) -> u32 = sim.get("cuptiActivityGetAttribute");
    let (mut size, mut value) = (1, 9);
    assert_eq!((get(9, &mut size, &mut value), value), (0, 1));
    assert_eq!(set(9, &mut size, &mut 0), 0);
    assert_eq!((get(9, &mut size, &mut value), value), (0, 0));
    assert_eq!(set(9, &mut 0, &mut 0), 10);
    assert_eq!(get(77, &mut size, &mut value), 1);
    sim.start(&[KERNEL]);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..50).for_each(|index| sim.launch(DECODE, index, 0)));
        }
    });
    let client = sim.finish();
    assert_eq!(client.of(KERNEL).len(), 150);
    // 150 records of 216 bytes fit; a second one may have been asked for in a race.
    assert!(client.requested_on.len() <= 3 && client.completed_on.len() <= 3);
    assert_eq!(client.ends.len(), client.requested_on.len());
}

#[test]
fn full_buffers_come_from_a_thread_of_the_library_and_flushed_ones_from_the_caller() {
    let sim = Sim::new(&[FAST]);
    client().max_records = 100;
    sim.start(&[KERNEL]);
    sim.play(DECODE, sim.stream());
    sim.synchronize();
    let deadline = Instant::now() + Duration::from_secs(10);
    while client().completed_on.len() < 6 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    let own = thread::current().id();
    {
        let client = client();
        assert_eq!(client.of(KERNEL).len(), 600);
        assert!(client.requested_on.iter().all(|thread| *thread == own));
        assert!(client.completed_on.iter().all(|thread| *thread != own));
    }
    sim.flush(false);
    assert_eq!(client().completed_on.last(), Some(&own));
    assert_eq!(client().of(KERNEL).len(), 694);
    // After a flush, the next launch asks for a buffer again.
    let requested = client().requested_on.len();
    sim.launch(DECODE, 0, 0);
    assert_eq!(client().requested_on.len(), requested + 1);
}

#[test]
fn a_thread_that_ended_leaves_its_records_to_the_flush() {
    let sim = Sim::started(&[KERNEL]);
    for _ in 0..5 {
        thread::scope(|scope| {
            scope.spawn(|| sim.launch(DECODE, 0, 0)).join().expect("launches");
        });
    }
    assert_eq!(sim.finish().of(KERNEL).len(), 5);
}

#[test]
fn without_a_buffer_records_are_dropped_and_counted() {
    let sim = Sim::new(&[FAST]);
    client().refuse = true;
    sim.start(&[KERNEL]);
    (0..7).for_each(|index| sim.launch(DECODE, index, 0));
    assert_eq!((sim.dropped(), sim.dropped()), (7, 0));
    client().refuse = false;
    client().buffer_bytes = 100;
    sim.launch(DECODE, 0, 0);
    assert_eq!(sim.dropped(), 1, "a buffer that holds no record is no buffer");
    client().buffer_bytes = 1000;
    sim.launch(DECODE, 0, 0);
    assert_eq!(sim.finish().of(KERNEL).len(), 1);
}

#[test]
fn kinds_take_effect_for_later_launches() {
    let sim = Sim::started(&[]);
    sim.launch(DECODE, 0, 0);
    assert_eq!(sim.call("cuptiActivityEnable", KERNEL as usize), 0);
    sim.launch(DECODE, 1, 0);
    assert_eq!(sim.call("cuptiActivityDisable", KERNEL as usize), 0);
    sim.launch(DECODE, 2, 0);
    assert_eq!(sim.finish().of(KERNEL).len(), 1);
    assert_eq!(sim.call("cuptiActivityEnable", 38), 27, "SYNCHRONIZATION is not simulated");
    assert_eq!(sim.call("cuptiActivityEnable", 60), 21);
    assert_eq!(sim.call("cuptiActivityEnable", 0), 21);
}

#[test]
fn device_and_context_come_with_the_context_or_on_demand() {
    let sim = Sim::started(&[DEVICE, CONTEXT]);
    assert_eq!(sim.call("cuptiActivityEnableAndDump", DEVICE as usize), 0);
    let client = sim.finish();
    assert_eq!((client.of(DEVICE).len(), client.of(CONTEXT).len()), (2, 1));
    assert_eq!(client.of(DEVICE)[0].name, "NVIDIA H200 (simulated)");
}

#[test]
fn copies_fills_and_driver_calls_are_recorded() {
    let sim = Sim::started(&[MEMCPY, MEMSET]);
    let record_calls: extern "C" fn(u32, u8) -> u32 = sim.get("cuptiActivityEnableDriverApi");
    assert_eq!(record_calls(277, 1), 0);
    let copy: extern "C" fn(usize, usize, usize, usize) -> u32 = sim.get("cuMemcpyHtoDAsync_v2");
    let fill: extern "C" fn(u64, u8, usize, usize) -> u32 = sim.get("cuMemsetD8Async");
    assert_eq!((copy(0, 0, 50_000_000, 0), fill(0, 1, 4096, 0)), (0, 0));
    let client = sim.finish();
    let copies = client.of(MEMCPY);
    let duration = copies[0].end - copies[0].start;
    assert!((970_000..=1_030_000).contains(&duration), "50 MB at 50 GB/s took {duration} ns");
    assert_eq!(client.of(MEMSET).len(), 1);
    let calls = client.of(DRIVER);
    assert_eq!((calls.len(), calls[0].correlation), (1, copies[0].correlation));
}

#[test]
fn record_sizes_follow_the_version() {
    for (version, bytes, reported) in [
        ("11.8", 200, 18),
        ("12.4", 208, 22),
        ("13.0", 216, 130_001),
        ("130101", 224, 130_101),
        ("13.3", 232, 130_301),
        ("13.4", 248, 130_401),
        ("99", 248, 99),
    ] {
        let sim = Sim::new(&[FAST, ("STAGE2_SIM_CUPTI_VERSION", version)]);
        sim.start(&[KERNEL, MEMCPY]);
        (0..20).for_each(|index| sim.launch(GRAPH, index, 0));
        let client = sim.finish();
        assert_eq!(client.of(KERNEL).len(), 20, "{version}");
        assert!(client.strides.iter().all(|stride| *stride == bytes), "{version}");
        drop(client);
        assert_eq!(sim.make("cuptiGetVersion", 0), reported);
    }
}

#[test]
fn unrecorded_kernels_run_under_any_name() {
    let sim = Sim::started(&[KERNEL]);
    let module = sim.make("cuModuleLoadData", c"image".as_ptr() as usize);
    let mut function = 0;
    let get: extern "C" fn(*mut usize, usize, *const i8) -> u32 = sim.get("cuModuleGetFunction");
    assert_eq!(get(&mut function, module, c"a|b\n<script>".as_ptr()), 0);
    #[rustfmt::skip]
    type Launch = extern "C" fn(usize, u32, u32, u32, u32, u32, u32, u32, usize, usize, usize) -> u32;
    let launch: Launch = sim.get("cuLaunchKernel");
    assert_eq!(launch(function, 4, 1, 1, 32, 1, 1, 0, 0, 0, 0), 0);
    assert_eq!(launch(function, 0, 1, 1, 32, 1, 1, 0, 0, 0, 0), 1);
    assert_eq!(launch(12345, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0), 400);
    assert_eq!(launch(function, 1, 1, 1, 32, 1, 1, 0, 999, 0, 0), 400);
    let client = sim.finish();
    assert_eq!(client.of(KERNEL).len(), 1);
    assert_eq!(client.of(KERNEL)[0].name, "a|b\n<script>");
}
