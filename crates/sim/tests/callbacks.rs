//! Driver calls into callbacks and correlation ids, and graphs into node ids.

mod common;

use std::collections::HashSet;
use std::thread;

use common::{DECODE, Event, FAST, GRAPH_TRACE, KERNEL, MEMCPY, Sim, client};

const DRIVER_API: u32 = 1;
const RESOURCE: u32 = 3;

#[test]
fn correlation_ids_grow_by_one_with_every_call() {
    let sim = Sim::started(&[KERNEL]);
    let (_, subscriber) = sim.subscribe();
    let first = sim.fence(subscriber);
    assert_eq!(first, 3, "cuInit and cuDevicePrimaryCtxRetain came before");
    (0..10).for_each(|index| sim.launch(DECODE, index, 0));
    assert_eq!(sim.fence(subscriber), first + 11);
    let client = sim.finish();
    let mut ids: Vec<u32> = client.of(KERNEL).iter().map(|kernel| kernel.correlation).collect();
    ids.sort_unstable();
    assert_eq!(ids, (first + 1..=first + 10).collect::<Vec<_>>());
}

#[test]
fn ids_wrap_around_and_leave_out_what_stands_for_no_call() {
    let sim = Sim::new(&[FAST, ("STAGE2_SIM_FIRST_CORRELATION", "4294967293")]);
    sim.start(&[KERNEL]);
    (0..3).for_each(|index| sim.launch(DECODE, index, 0));
    let client = sim.finish();
    let ids: HashSet<u32> = client.of(KERNEL).iter().map(|kernel| kernel.correlation).collect();
    assert_eq!(ids, HashSet::from([u32::MAX, 1, 2]));
}

#[test]
fn only_enabled_callbacks_fire_at_enter_and_exit() {
    let sim = Sim::started(&[KERNEL]);
    let (_, subscriber) = sim.subscribe();
    sim.enable_callback(subscriber, DRIVER_API, 307);
    sim.launch(DECODE, 0, 0);
    sim.stream();
    let events = std::mem::take(&mut client().events);
    let [enter, exit] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((enter.site, exit.site), (0, 1));
    assert_eq!((enter.cbid, enter.function.as_str()), (307, "cuLaunchKernel"));
    assert_eq!(enter.correlation, exit.correlation);
    let client = sim.finish();
    assert_eq!(client.of(KERNEL)[0].correlation, enter.correlation);
    assert_eq!(enter.symbol.as_ref(), Some(&client.of(KERNEL)[0].name));
    drop(client);
    assert_eq!(sim.call("cuptiUnsubscribe", subscriber), 0);
    sim.launch(DECODE, 0, 0);
    assert!(client_events().is_empty());
    assert_eq!(sim.call("cuptiUnsubscribe", subscriber), 1);
}

fn client_events() -> Vec<Event> {
    client().events.clone()
}

#[test]
fn there_is_one_subscriber_and_it_is_named() {
    let sim = Sim::new(&[FAST]);
    type SubscribeV2 = extern "C" fn(*mut usize, usize, usize, *mut Params) -> u32;
    #[repr(C)]
    struct Params {
        size: usize,
        name: *const i8,
        old_name: *mut i8,
        old_size: usize,
    }
    let subscribe: SubscribeV2 = sim.get("cuptiSubscribe_v2");
    let mut old_name = [0_i8; 64];
    let mut params =
        Params { size: 32, name: c"first".as_ptr(), old_name: old_name.as_mut_ptr(), old_size: 64 };
    let mut subscriber = 0;
    assert_eq!(subscribe(&mut subscriber, 0, 0, &mut params), 0);
    assert_eq!(subscribe(&mut subscriber, 0, 0, &mut params), 39);
    let old_name: Vec<u8> = old_name.iter().map(|byte| byte.cast_unsigned()).collect();
    assert!(old_name.starts_with(b"CUPTI for first\0"));
    assert_eq!(sim.subscribe().0, 39);
    params.size = 31;
    assert_eq!(subscribe(&mut subscriber, 0, 0, &mut params), 1);
    assert_eq!(sim.call("cuptiUnsubscribe", subscriber), 0);
    assert_eq!(sim.subscribe().0, 0);
}

#[test]
fn replayed_kernels_carry_the_ids_of_the_cloned_nodes() {
    let sim = Sim::started(&[KERNEL, MEMCPY]);
    let (_, subscriber) = sim.subscribe();
    sim.enable_callback(subscriber, RESOURCE, 13);
    sim.enable_callback(subscriber, RESOURCE, 20);
    let stream = sim.stream();
    let capturing = thread::scope(|scope| {
        scope.spawn(|| (sim.capture(stream), thread::current().id())).join().expect("captures")
    });
    let ((graph, exec), capturer) = capturing;
    let events = client_events();
    let of = |cbid| events.iter().filter(|event| event.cbid == cbid).cloned().collect::<Vec<_>>();
    let (created, cloned) = (of(13), of(20));
    assert_eq!((created.len(), cloned.len()), (777, 777));
    assert!(created.iter().all(|event| event.thread == capturer));
    for (created, cloned) in created.iter().zip(&cloned) {
        assert_eq!(created.node, cloned.original);
        assert_ne!(created.node, cloned.node);
    }
    assert!(sim.finish().activities.is_empty(), "a capture runs nothing");

    sim.enable_callback(subscriber, DRIVER_API, 514);
    sim.replay(exec, stream);
    sim.replay(exec, stream);
    let events = client_events();
    let launches = events.iter().filter(|event| event.cbid == 514 && event.site == 0);
    let launches: HashSet<u32> = launches.map(|event| event.correlation).collect();
    let mut graph_id = 0;
    let get: extern "C" fn(usize, *mut u32) -> u32 = sim.get("cuptiGetGraphId");
    assert_eq!(get(graph, &mut graph_id), 0);
    let node_ids: HashSet<u64> = cloned.iter().map(|event| id_of(&sim, event.node)).collect();
    assert_eq!(node_ids.len(), 777);
    let client = sim.finish();
    assert_eq!((client.of(KERNEL).len(), client.of(MEMCPY).len()), (2 * 761, 2 * 16));
    let ids = |kind| client.of(kind).iter().map(|a| a.correlation).collect::<HashSet<_>>();
    assert_eq!((ids(KERNEL), ids(MEMCPY)), (launches.clone(), launches));
    let used: HashSet<u64> = client.activities.iter().map(|activity| activity.node).collect();
    assert_eq!(used, node_ids);
    assert!(client.activities.iter().all(|a| a.graph == graph_id + 1));
}

/// `cuptiGetGraphNodeId`, whose node comes first.
fn id_of(sim: &Sim, node: usize) -> u64 {
    let get: extern "C" fn(usize, *mut u64) -> u32 = sim.get("cuptiGetGraphNodeId");
    let mut id = 0;
    assert_eq!(get(node, &mut id), 0);
    assert_eq!(get(1, &mut 0), 1, "no node");
    id
}

#[test]
fn graph_level_collection_gives_one_record_a_launch() {
    let sim = Sim::started(&[KERNEL, GRAPH_TRACE]);
    let stream = sim.stream();
    let (graph, exec) = sim.capture(stream);
    sim.replay(exec, stream);
    sim.launch(DECODE, 0, stream);
    assert_eq!(sim.call("cuptiActivityDisable", GRAPH_TRACE as usize), 0);
    sim.replay(exec, stream);
    let client = sim.finish();
    let traces = client.of(GRAPH_TRACE);
    assert_eq!((traces.len(), client.of(KERNEL).len()), (1, 1 + 761));
    let duration = traces[0].end - traces[0].start;
    assert!((2_100_000..=2_500_000).contains(&duration), "2.28 ms recorded, {duration} ns came");
    drop(client);
    assert_eq!(sim.call("cuGraphExecDestroy", exec), 0);
    assert_eq!(sim.call("cuGraphExecDestroy", exec), 400);
    assert_eq!(sim.call("cuGraphDestroy", graph), 0);
    let launch: extern "C" fn(usize, usize) -> u32 = sim.get("cuGraphLaunch");
    assert_eq!(launch(exec, stream), 400);
}

#[test]
fn the_driver_answers_misuse_with_its_errors() {
    let sim = Sim::new(&[FAST]);
    assert_eq!(sim.call0("cuCtxSynchronize"), 3, "not initialised");
    assert_eq!(sim.call("cuInit", 1), 1);
    sim.start(&[]);
    assert_eq!(sim.out("cuDeviceGet", 1).0, 101);
    assert_eq!(sim.call("cuStreamSynchronize", 77), 400);
    assert_eq!(sim.call("cuStreamBeginCapture_v2", 0), 900);
    assert_eq!(sim.out("cuModuleLoadData", 0).0, 1);
    assert_eq!(sim.call("cuDeviceGetCount", 0), 1, "a null pointer");
    let stream = sim.stream();
    let end: extern "C" fn(usize, *mut usize) -> u32 = sim.get("cuStreamEndCapture");
    assert_eq!(end(stream, &mut 0), 401);
}

#[test]
fn a_forked_child_has_no_driver() {
    let sim = Sim::started(&[KERNEL]);
    let count: extern "C" fn(*mut i32) -> u32 = sim.get("cuDeviceGetCount");
    let mut status = 0;
    // SAFETY: the child only makes one call that takes no lock, and leaves at once.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(count(&mut 0).cast_signed());
        }
        libc::waitpid(child, &raw mut status, 0)
    };
    assert!(child > 0 && libc::WIFEXITED(status));
    assert_eq!(libc::WEXITSTATUS(status), 3, "CUDA_ERROR_NOT_INITIALIZED");
    assert_eq!(count(&mut 0), 0);
}
