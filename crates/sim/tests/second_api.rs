//! The second activity API: subscribers by name, chosen fields, buffers of each subscriber. The calls
//! are those of a collector, through `cupti_sys`.

mod common;

use std::collections::HashSet;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, PoisonError};
use std::{ptr, thread};

use common::{DECODE, FAST, KERNEL, MEMSET, PREFILL, Sim};
use cupti_sys::bindings as cupti;
use cupti_sys::chosen_records::FieldRecord;
use cupti_sys::fields::{Completion, Field, LayoutError, Layouts};
use cupti_sys::pm_sampling::Trigger;
use cupti_sys::subscriber::{Company, Refusal};
use cupti_sys::{Api, CuptiError, Subscriber};

const NEWEST: (&str, &str) = ("STAGE2_SIM_CUPTI_VERSION", "13.5");
/// A driver with which subscribers may share.
const NEW_DRIVER: (&str, &str) = ("STAGE2_SIM_DRIVER_VERSION", "13030");
const CHOSEN: u32 = cupti::CUPTI_ACTIVITY_ATTR_USER_DEFINED_RECORDS;
const BUFFER_BYTES: usize = 64 << 10;

const START: Field = Field::new(cupti::KERNEL_FIELD_START);
const END: Field = Field::new(cupti::KERNEL_FIELD_END);
const CORRELATION: Field = Field::new(cupti::KERNEL_FIELD_CORRELATION_ID);
const NAME: Field = Field::new(cupti::KERNEL_FIELD_NAME);
const NODE: Field = Field::new(cupti::KERNEL_FIELD_GRAPH_NODE_ID);
const STREAM: Field = Field::new(cupti::KERNEL_FIELD_STREAM_ID);
const KERNEL_FIELDS: [Field; 7] = [Field::KIND, END, START, CORRELATION, NAME, NODE, STREAM];
const FILL_BYTES: Field = Field::new(cupti::MEMSET_FIELD_BYTES);

/// A buffer that came back: what it held, what it was told to be, and whose it is.
struct Completed {
    base: usize,
    bytes: Vec<u8>,
    layouts: Result<Layouts, LayoutError>,
    thread_id: Option<u64>,
}

static FIRST: Mutex<Vec<Completed>> = Mutex::new(Vec::new());
static SECOND: Mutex<Vec<Completed>> = Mutex::new(Vec::new());

fn take(buffers: &Mutex<Vec<Completed>>) -> Vec<Completed> {
    std::mem::take(&mut buffers.lock().unwrap_or_else(PoisonError::into_inner))
}

extern "C" fn request(
    buffer: *mut *mut u8,
    size: *mut usize,
    records: *mut usize,
    info: *mut cupti::CUpti_BufferCallbackRequestInfo,
) {
    let words: &'static mut [u64] = vec![u64::MAX; BUFFER_BYTES / 8].leak();
    // SAFETY: CUPTI's out-pointers.
    unsafe {
        assert_eq!((*info).structSize, 8);
        (*buffer, *size, *records) = (words.as_mut_ptr().cast(), BUFFER_BYTES, 0);
    }
}

extern "C" fn refuse(
    buffer: *mut *mut u8,
    _: *mut usize,
    _: *mut usize,
    _: *mut cupti::CUpti_BufferCallbackRequestInfo,
) {
    // SAFETY: CUPTI's out-pointer.
    unsafe { *buffer = ptr::null_mut() };
}

fn keep(
    all: &Mutex<Vec<Completed>>,
    buffer: *mut u8,
    valid: usize,
    info: *mut cupti::CUpti_BufferCallbackCompleteInfo,
) {
    // SAFETY: what CUPTI gave, until this function returns.
    let completion = unsafe { Completion::new(info) }.expect("CUPTI tells something");
    let mut layouts = Layouts::new();
    let told = completion.layouts(&mut layouts).map(|()| layouts);
    // SAFETY: the buffer holds so many bytes, and is never freed.
    let bytes = unsafe { std::slice::from_raw_parts(buffer, valid) }.to_vec();
    let thread_id = completion.thread_id();
    let completed = Completed { base: buffer.expose_provenance(), bytes, layouts: told, thread_id };
    all.lock().unwrap_or_else(PoisonError::into_inner).push(completed);
}

extern "C" fn complete(
    buffer: *mut u8,
    _: usize,
    valid: usize,
    info: *mut cupti::CUpti_BufferCallbackCompleteInfo,
) {
    keep(&FIRST, buffer, valid, info);
}

extern "C" fn complete_second(
    buffer: *mut u8,
    _: usize,
    valid: usize,
    info: *mut cupti::CUpti_BufferCallbackCompleteInfo,
) {
    keep(&SECOND, buffer, valid, info);
}

extern "C" fn ignore(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}

fn subscribe(api: &Api, name: &CStr, company: Company) -> Result<Subscriber, Refusal> {
    api.subscribe_as(name, company, ignore, ptr::null_mut())
}

/// A subscriber that chooses its fields, with buffers that come back to `FIRST`.
fn collector(api: &Api) -> Subscriber {
    drop((take(&FIRST), take(&SECOND)));
    let subscriber = subscribe(api, c"first", Company::Welcome).expect("nobody is there");
    assert_eq!(api.set_attribute_v2(&subscriber, CHOSEN, 1_u8), Ok(()));
    assert_eq!(api.register_callbacks_v2(&subscriber, request, complete), Ok(()));
    subscriber
}

/// A fast copy of the newest version, with its collector.
fn newest() -> (Sim, Api, Subscriber) {
    let sim = Sim::new(&[FAST, NEWEST]);
    let api = sim.api();
    let subscriber = collector(&api);
    (sim, api, subscriber)
}

/// The buffers that come back once all work is done.
fn finish(sim: &Sim, api: &Api) -> Vec<Completed> {
    sim.synchronize();
    api.flush_all(true).expect("a flush");
    take(&FIRST)
}

/// The value of an attribute of a subscriber.
fn attribute<T: Default>(api: &Api, subscriber: &Subscriber, attribute: u32) -> T {
    let (mut value, mut bytes) = (T::default(), size_of::<T>());
    let get = api.activity_get_attribute_v2.expect("a new CUPTI");
    let place = (&raw mut value).cast::<c_void>();
    // SAFETY: the value is as long as the size says.
    assert_eq!(unsafe { get(subscriber.handle(), attribute, &mut bytes, place) }, 0);
    assert_eq!(bytes, size_of::<T>(), "what CUPTI wrote");
    value
}

fn start(sim: &Sim) {
    assert_eq!(sim.call("cuInit", 0), 0);
    sim.make("cuDevicePrimaryCtxRetain", 0);
}

fn records(completed: &Completed) -> Vec<FieldRecord<'_>> {
    let layouts = completed.layouts.as_ref().expect("true layouts");
    layouts.records(&completed.bytes).collect::<Result<_, _>>().expect("whole records")
}

fn value(record: &FieldRecord<'_>, field: Field) -> u64 {
    let number = record.layout.number(field).expect("a field that was chosen");
    record.get(number).expect("inside the record")
}

#[test]
fn records_hold_the_chosen_fields_and_nothing_else() {
    let (sim, api, subscriber) = newest();
    assert!(api.has_activity_v2());
    assert_eq!(api.activity_enable_v2(&subscriber, KERNEL, &KERNEL_FIELDS), Ok(()));
    assert_eq!(api.activity_enable_v2(&subscriber, MEMSET, &[Field::KIND, FILL_BYTES]), Ok(()));
    start(&sim);
    let before_ns = api.timestamp_v2_ns(&subscriber).expect("a clock");
    sim.play(PREFILL, sim.stream());
    sim.synchronize();
    api.flush_all(false).expect("a flush");
    let completed = take(&FIRST);
    let all: Vec<_> = completed.iter().flat_map(records).collect();
    let kernels: Vec<_> = all.iter().filter(|record| record.layout.kind() == KERNEL).collect();
    // Kind, end, start, correlation id, name, node and stream, packed.
    assert_eq!((kernels.len(), kernels[0].bytes.len()), (662, 4 + 6 * 8));
    let fills: Vec<_> = all.iter().filter(|record| record.layout.kind() == MEMSET).collect();
    assert_eq!((fills.len(), fills[0].bytes.len(), value(fills[0], FILL_BYTES)), (17, 12, 4));
    let busy: u64 = kernels.iter().map(|kernel| value(kernel, END) - value(kernel, START)).sum();
    assert!((3_740_000..=3_890_000).contains(&busy), "3.816 ms were recorded, {busy} ns came");
    assert!(kernels.iter().all(|kernel| value(kernel, START) > before_ns));
    let ids: HashSet<_> = kernels.iter().map(|kernel| value(kernel, CORRELATION)).collect();
    assert_eq!(ids.len(), 662);
    let name = ptr::with_exposed_provenance::<c_char>(value(kernels[0], NAME) as usize);
    // SAFETY: names are texts of the library, which stays loaded.
    assert!(!unsafe { CStr::from_ptr(name) }.is_empty());
    // CUPTI's own walk finds the same records.
    for buffer in &completed {
        let base = ptr::with_exposed_provenance_mut::<u8>(buffer.base);
        let (mut record, mut found) = (ptr::null_mut(), Vec::new());
        let next = api.activity_get_next_record_v2.expect("a new CUPTI");
        let bytes = buffer.bytes.len();
        let end = loop {
            // SAFETY: the buffer came back with so many bytes, and is never freed.
            match unsafe { next(subscriber.handle(), base, bytes, &mut record) } {
                0 => found.push(record.addr() - buffer.base),
                end => break end,
            }
        };
        assert_eq!(end, cupti::CUPTI_ERROR_MAX_LIMIT_REACHED);
        let starts = records(buffer)
            .into_iter()
            .scan(0, |at, record| Some(std::mem::replace(at, *at + record.bytes.len())));
        assert_eq!(found, starts.collect::<Vec<_>>());
    }
}

#[test]
fn a_forced_flush_hands_out_unfinished_work() {
    let (sim, api, subscriber) = newest();
    assert_eq!(api.activity_enable_v2(&subscriber, MEMSET, &[Field::KIND, FILL_BYTES]), Ok(()));
    start(&sim);
    let fill: extern "C" fn(u64, u8, usize, usize) -> u32 = sim.get("cuMemsetD8Async");
    // Half a second at 2 TB/s.
    assert_eq!(fill(0, 1, 1_000_000_000_000, sim.stream()), 0);
    api.flush_all(true).expect("a flush");
    let completed = take(&FIRST);
    let layouts = completed[0].layouts.as_ref().expect("true layouts");
    let records: Vec<_> = layouts.records(&completed[0].bytes).collect();
    assert!(records.len() == 1 && records[0].is_ok(), "{}", records.len());
}

#[test]
fn replays_carry_the_node_and_the_launch() {
    let (sim, api, subscriber) = newest();
    assert_eq!(api.activity_enable_v2(&subscriber, KERNEL, &KERNEL_FIELDS), Ok(()));
    start(&sim);
    let stream = sim.stream();
    let (_, exec) = sim.capture(stream);
    sim.replay(exec, stream);
    let completed = finish(&sim, &api);
    let kernels: Vec<_> = completed.iter().flat_map(records).collect();
    let of = |field| kernels.iter().map(|kernel| value(kernel, field)).collect::<HashSet<_>>();
    assert_eq!((kernels.len(), of(NODE).len(), of(CORRELATION).len()), (761, 761, 1));
}

#[test]
fn each_thread_has_a_buffer_that_says_whose_it_is() {
    let (sim, api, subscriber) = newest();
    let by_system = cupti::CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM;
    let id_type = cupti::CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE;
    assert_eq!(api.set_attribute_v2(&subscriber, id_type, by_system), Ok(()));
    assert_eq!(attribute::<u32>(&api, &subscriber, id_type), by_system);
    assert_eq!(api.activity_enable_v2(&subscriber, KERNEL, &KERNEL_FIELDS), Ok(()));
    start(&sim);
    let threads: HashSet<_> = thread::scope(|scope| {
        let launch = || {
            let stream = sim.stream();
            (0..50).for_each(|index| sim.launch(DECODE, index, stream));
            // SAFETY: gettid takes no argument and cannot fail.
            u64::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).expect("positive")
        };
        let threads = [scope.spawn(launch), scope.spawn(launch), scope.spawn(launch)];
        threads.into_iter().map(|thread| thread.join().expect("launches")).collect()
    });
    let completed = finish(&sim, &api);
    assert_eq!(completed.len(), 3);
    assert_eq!(completed.iter().filter_map(|one| one.thread_id).collect::<HashSet<_>>(), threads);
    for buffer in &completed {
        let streams: HashSet<_> =
            records(buffer).iter().map(|record| value(record, STREAM)).collect();
        assert_eq!((records(buffer).len(), streams.len()), (50, 1));
    }
}

#[test]
fn several_subscribers_have_their_own_records_and_losses() {
    let sim = Sim::new(&[FAST, NEWEST, NEW_DRIVER]);
    let api = sim.api();
    let first = collector(&api);
    let state = cupti::CUPTI_ACTIVITY_ATTR_MULTIPLE_SUBSCRIBER_STATE;
    assert_eq!(attribute::<u8>(&api, &first, state), 1);
    let refusal = subscribe(&api, c"third", Company::Refused).expect_err("the first decides");
    assert_eq!(refusal.error, CuptiError::MULTIPLE_SUBSCRIBERS);
    assert_eq!(refusal.holder.as_deref(), Some("CUPTI for first"));
    let second = subscribe(&api, c"second", Company::Welcome).expect("all allow it");
    assert_eq!(api.set_attribute_v2(&second, CHOSEN, 1_u8), Ok(()));
    assert_eq!(api.register_callbacks_v2(&second, request, complete_second), Ok(()));
    let third = subscribe(&api, c"third", Company::Welcome).expect("all allow it");
    assert_eq!(api.register_callbacks_v2(&third, refuse, complete), Ok(()));
    assert_eq!(api.activity_enable_v2(&first, KERNEL, &KERNEL_FIELDS), Ok(()));
    assert_eq!(api.activity_enable_v2(&second, KERNEL, &[Field::KIND, CORRELATION]), Ok(()));
    // Without chosen fields: records as CUPTI defines them.
    assert_eq!(api.activity_enable_v2(&third, MEMSET, &[]), Ok(()));
    start(&sim);
    sim.play(PREFILL, sim.stream());
    sim.synchronize();
    api.flush_all(true).expect("a flush of all");
    let ids = |completed: &[Completed]| -> Vec<u64> {
        completed.iter().flat_map(records).map(|record| value(&record, CORRELATION)).collect()
    };
    let (of_first, of_second) = (take(&FIRST), take(&SECOND));
    assert_eq!(records(&of_second[0])[0].bytes.len(), 12);
    assert_eq!((ids(&of_first).len(), ids(&of_first)), (662, ids(&of_second)));
    assert_eq!(api.num_dropped_v2(&third), Ok(17));
    assert_eq!((api.num_dropped_v2(&third), api.num_dropped_v2(&first)), (Ok(0), Ok(0)));
    // Who is gone gets nothing; the others go on.
    assert_eq!(api.unsubscribe(second), Ok(()));
    sim.launch(DECODE, 0, 0);
    sim.synchronize();
    api.flush_all(true).expect("a flush");
    assert_eq!((ids(&take(&FIRST)).len(), take(&SECOND).len()), (1, 0));
}

#[test]
fn an_older_driver_lets_one_subscriber_in() {
    let (_sim, api, _first) = newest();
    let refusal = subscribe(&api, c"second", Company::Welcome).expect_err("driver 13.0");
    assert_eq!(refusal.holder.as_deref(), Some("CUPTI for first"));
}

#[test]
fn the_two_activity_apis_exclude_each_other() {
    let (sim, api, subscriber) = newest();
    assert_eq!(api.activity_enable(KERNEL), Err(CuptiError::MULTIPLE_SUBSCRIBERS));
    assert_eq!(sim.register(), 39);
    assert_eq!(api.unsubscribe(subscriber), Ok(()));
    assert_eq!(api.activity_enable(KERNEL), Ok(()));
    let subscriber = subscribe(&api, c"late", Company::Refused).expect("nobody subscribed");
    let registered = api.register_callbacks_v2(&subscriber, request, complete);
    assert_eq!(registered, Err(CuptiError::MULTIPLE_SUBSCRIBERS));
    let enabled = api.activity_enable_v2(&subscriber, KERNEL, &[]);
    assert_eq!(enabled, Err(CuptiError::MULTIPLE_SUBSCRIBERS));
}

#[test]
fn other_fields_need_a_forced_flush_and_the_attribute() {
    let (_sim, api, subscriber) = newest();
    let enable = |fields: &[Field]| api.activity_enable_v2(&subscriber, KERNEL, fields);
    let code = |result: Result<(), CuptiError>| result.map_err(CuptiError::code);
    assert_eq!(enable(&[START, END]), Err(CuptiError::INVALID_PARAMETER), "no kind");
    assert_eq!(enable(&[]), Err(CuptiError::INVALID_PARAMETER), "fields are to be chosen");
    assert_eq!(enable(&[Field::KIND, Field::new(49)]), Err(CuptiError::INVALID_PARAMETER));
    assert_eq!(enable(&[Field::KIND, START]), Ok(()));
    assert_eq!(enable(&[Field::KIND, START]), Ok(()));
    assert_eq!(code(api.set_attribute_v2(&subscriber, CHOSEN, 0_u8)), Err(7), "too late");
    assert_eq!(api.activity_disable_v2(&subscriber, KERNEL), Ok(()));
    assert_eq!(code(enable(&[Field::KIND, END])), Err(7));
    api.flush_all(true).expect("a flush");
    assert_eq!(enable(&[Field::KIND, END]), Ok(()));
}

#[test]
fn versions_and_faults_are_what_they_say() {
    let not_supported = cupti::CUPTI_ERROR_NOT_SUPPORTED;
    for (version, has_v2, can_share) in [
        ("12.8", false, false),
        ("13.0", false, false),
        ("13.2", false, true),
        ("13.3", true, true),
        ("13.4", true, true),
    ] {
        let sim = Sim::new(&[FAST, ("STAGE2_SIM_CUPTI_VERSION", version)]);
        let api = sim.api();
        assert_eq!(api.has_activity_v2(), has_v2, "{version}");
        let shared = subscribe(&api, c"one", Company::Welcome);
        assert_eq!(shared.is_ok(), can_share, "{version}");
        match shared {
            // The configuration is longer from 13.4 on, and refused where it is too long.
            Ok(subscriber) if has_v2 => {
                assert_eq!(api.set_attribute_v2(&subscriber, CHOSEN, 1_u8), Ok(()));
                let enabled = api.activity_enable_v2(&subscriber, KERNEL, &KERNEL_FIELDS);
                assert_eq!(enabled, Ok(()), "{version}");
            }
            Ok(_) => {}
            Err(refusal) => assert_eq!(
                (refusal.error.code(), refusal.holder),
                (not_supported, None),
                "{version}"
            ),
        }
        // Where it may come before the driver's initialisation, nobody knows yet that this GPU cannot.
        let hardware = if has_v2 { Ok(()) } else { Err(not_supported) };
        let asked = api.enable_hardware_trace().map_err(CuptiError::code);
        assert_eq!(asked, hardware, "{version}");
    }
    let fault = |fault| Sim::new(&[FAST, NEWEST, ("STAGE2_SIM_FAULT", fault)]);
    let sim = fault("second-api=999,hardware-trace");
    let api = sim.api();
    assert_eq!(api.enable_hardware_trace(), Ok(()));
    assert!(api.has_activity_v2());
    let subscriber = subscribe(&api, c"one", Company::Refused).expect("that works");
    let registered = api.register_callbacks_v2(&subscriber, request, complete);
    assert_eq!(registered.map_err(CuptiError::code), Err(999));

    drop(sim);
    let sim = fault("false-layouts");
    let api = sim.api();
    let subscriber = collector(&api);
    assert_eq!(api.activity_enable_v2(&subscriber, KERNEL, &KERNEL_FIELDS), Ok(()));
    start(&sim);
    sim.launch(DECODE, 0, 0);
    let completed = finish(&sim, &api);
    assert!(matches!(completed[0].layouts, Err(LayoutError::FieldOutside { kind: KERNEL, .. })));
}

#[test]
fn sampling_can_be_set_up_where_parameters_are_shorter() {
    for version in ["12.6", "12.8"] {
        let sim = Sim::new(&[FAST, ("STAGE2_SIM_CUPTI_VERSION", version)]);
        let api = sim.api();
        start(&sim);
        let chip = api.chip(0).expect("a chip");
        let (metrics, passes) = chip.metrics(&[c"dram__bytes_read.sum"]).expect("a metric");
        assert_eq!(passes, 1);
        let session = chip.open(metrics, Trigger::TimeNs(10_000), 1 << 20, 100);
        assert!(session.is_ok(), "{version}: {session:?}");
    }
}
