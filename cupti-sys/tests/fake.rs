//! The whole way from finding a library to reading its records, with a CUPTI made for the purpose.

#[path = "fake/build.rs"]
mod build;

use build::build;
use cupti_sys::fields::Field;
use cupti_sys::find::{self, How};
use cupti_sys::subscriber::Company;
use cupti_sys::{Api, CuptiError, bindings as cupti, record, table};
use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};

static LAST_CALLBACK: AtomicU32 = AtomicU32::new(0);
static BUFFER: AtomicUsize = AtomicUsize::new(0);
static VALID_BYTES: AtomicUsize = AtomicUsize::new(0);
const BUFFER_BYTES: usize = 4096;

extern "C" fn on_callback(_: *mut c_void, domain: u32, id: u32, _: *const c_void) {
    LAST_CALLBACK.store(domain * 1000 + id, SeqCst);
}

extern "C" fn on_request(buffer: *mut *mut u8, bytes: *mut usize, limit: *mut usize) {
    let new: &'static mut [u64] = Box::leak(vec![0; BUFFER_BYTES / 8].into_boxed_slice());
    // SAFETY: the caller passes three valid places to write to.
    unsafe {
        *buffer = new.as_mut_ptr().cast();
        *bytes = BUFFER_BYTES;
        *limit = 0;
    }
}

extern "C" fn on_complete(_: cupti::CUcontext, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    BUFFER.store(buffer as usize, SeqCst);
    VALID_BYTES.store(valid, SeqCst);
}

/// The start times of the records in the buffer that came back last, and how the walk ended.
fn starts(api: &Api) -> (Vec<u64>, Option<CuptiError>) {
    let buffer = std::ptr::with_exposed_provenance_mut::<u8>(BUFFER.load(SeqCst));
    let valid_bytes = VALID_BYTES.load(SeqCst);
    let mut starts = Vec::new();
    let mut previous = std::ptr::null_mut();
    loop {
        // SAFETY: the buffer came back with this many valid bytes and is never freed.
        match unsafe { api.walker().next_record(buffer, valid_bytes, previous) } {
            Ok(Some(found)) => previous = found.as_ptr(),
            Ok(None) => return (starts, None),
            Err(error) => return (starts, Some(error)),
        }
        // SAFETY: the fake's records have 224 bytes.
        let bytes = unsafe { std::slice::from_raw_parts(previous.cast::<u8>(), 224) };
        let kernel: record::Kernel = record::read(bytes).expect("a whole record");
        starts.push(kernel.start);
    }
}

#[test]
fn from_the_path_to_the_records() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = build(folder.path().join("libcupti.so.13"), &[]);
    let found = find::locate(Some(&library), Some(13)).expect("it is there");
    assert_eq!((found.how, found.path.as_path()), (How::Explicit, library.as_path()));
    // SAFETY: the fake behaves like a CUPTI that needs no driver.
    let api = unsafe { Api::load(found.library) }.expect("all required symbols");
    assert_eq!(api.path(), library);
    // Of the optional functions the fake has one.
    let absent: Vec<_> =
        table::OPTIONAL.iter().filter(|name| **name != "cuptiSubscribe_v2").collect();
    assert_eq!(api.absent().iter().collect::<Vec<_>>(), absent);
    assert!(!api.has_pm_sampling());
    assert_eq!(api.chip(0).err(), Some(CuptiError::NOT_IMPLEMENTED));
    // SAFETY: the fake has no such function, so no node is looked at.
    let node_id = unsafe { api.graph_node_id(std::ptr::null_mut()) };
    assert_eq!(node_id, Err(CuptiError::NOT_IMPLEMENTED));

    // Now a copy is in the process, which the search finds by itself, whatever the driver.
    for driver in [None, Some(12), Some(13)] {
        let again = find::locate(None, driver).expect("it is loaded");
        assert_eq!((again.how, again.path.as_path()), (How::AlreadyLoaded, library.as_path()));
    }

    assert_eq!(api.version(), Ok(130_202));
    assert_eq!(api.timestamp_ns(), Ok(1_700_000_000_000_000_000));
    assert_eq!(api.num_dropped(), Ok(7));

    // One subscriber, and who it is.
    let mut subscriber = api.subscribe(on_callback, std::ptr::null_mut()).expect("the first one");
    let refused = api.subscribe(on_callback, std::ptr::null_mut()).map(drop);
    assert_eq!(refused, Err(CuptiError::MULTIPLE_SUBSCRIBERS));
    assert_eq!(api.holder(c"me").as_deref(), Some("CUPTI for somebody, not me"));
    let refusal = api
        .subscribe_as(c"us", Company::Welcome, on_callback, std::ptr::null_mut())
        .expect_err("somebody holds it");
    assert_eq!(refusal.error, CuptiError::MULTIPLE_SUBSCRIBERS);
    assert_eq!(refusal.holder.as_deref(), Some("CUPTI for somebody, not us"));
    // 13.2 has half of the second activity API, the fake nothing of it.
    assert!(!api.has_activity_v2());
    let kind = cupti::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    let enabled = api.activity_enable_v2(&subscriber, kind, &[Field::KIND]);
    assert_eq!(enabled, Err(CuptiError::NOT_IMPLEMENTED));
    assert_eq!(api.enable_hardware_trace(), Err(CuptiError::NOT_IMPLEMENTED));
    let (domain, id) =
        (cupti::CUPTI_CB_DOMAIN_DRIVER_API, cupti::CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion);
    assert_eq!(api.enable_callback(&mut subscriber, domain, id, false), Ok(()));
    assert_eq!(LAST_CALLBACK.load(SeqCst), 0);
    assert_eq!(api.enable_callback(&mut subscriber, domain, id, true), Ok(()));
    assert_eq!(LAST_CALLBACK.load(SeqCst), 1002);
    assert_eq!(api.unsubscribe(subscriber), Ok(()));
    assert_eq!(api.holder(c"me"), None, "nobody holds it, and asking holds nothing");
    assert!(api.subscribe(on_callback, std::ptr::null_mut()).is_ok());

    let (zeroed, buffer_bytes) = (
        cupti::CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER,
        cupti::CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE,
    );
    assert_eq!(api.set_attribute_u8(zeroed, 1), Ok(()));
    let (mut value, mut bytes) = (0_u8, 1);
    // SAFETY: the value is as long as the size says.
    let code = unsafe {
        (api.activity_get_attribute)(zeroed, &mut bytes, (&raw mut value).cast::<c_void>())
    };
    assert_eq!((code, value), (cupti::CUPTI_SUCCESS, 1));
    assert_eq!(api.set_attribute_u8(buffer_bytes, 1).map_err(CuptiError::code), Err(10));

    assert_eq!(api.register_callbacks(on_request, on_complete), Ok(()));
    assert_eq!(api.activity_enable(cupti::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), Ok(()));
    assert_eq!(api.flush_all(false), Ok(()));
    assert_eq!(starts(&api), (vec![0, 100, 200], None));
    assert_eq!(api.flush_all(true), Ok(()));
    assert_eq!(starts(&api), (vec![0, 100], Some(CuptiError::from(21))));
}

#[test]
fn one_missing_symbol_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Not named as a CUPTI is: the other test searches the process for those meanwhile.
    let library = build(folder.path().join("broken.so"), &["--cfg", "broken"]);
    // SAFETY: the fake's initialisers do nothing.
    let opened = unsafe { libloading::Library::new(&library) }.expect("a library");
    // SAFETY: no method is called: the load fails.
    let error = unsafe { Api::load(opened) }.expect_err("cuptiUnsubscribe is missing");
    assert_eq!(error.missing, ["cuptiUnsubscribe"]);
    assert_eq!(error.library, library);
}

#[test]
fn a_library_without_cupti_s_symbols_is_refused_with_all_that_its_user_needs_to_know() {
    // SAFETY: the C library is in the process already.
    let library = unsafe { libloading::Library::new("libc.so.6") }.expect("the C library");
    // SAFETY: no method is called: the load fails.
    let error = unsafe { Api::load(library) }.expect_err("libc is no CUPTI");
    assert_eq!(error.missing, table::REQUIRED);
    let shown = error.to_string();
    for part in ["libc.so.6", "cuptiSubscribe", "STAGE2_CUPTI", "pip install"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn no_symbol_is_both_required_and_optional() {
    let all = table::REQUIRED.iter().chain(table::OPTIONAL);
    let distinct: HashSet<_> = all.collect();
    assert_eq!(distinct.len(), table::REQUIRED.len() + table::OPTIONAL.len());
    assert!(distinct.iter().all(|name| name.starts_with("cupti")));
}
