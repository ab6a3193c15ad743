//! A `libcupti` that answers from memory, compiled by `tests/fake.rs` with plain rustc.
//!
//! It says version 13.2.2, has no `cuptiGetGraphNodeId`, writes kernel records of 224 bytes and
//! lets one subscriber in. With `--cfg broken` it has no `cuptiUnsubscribe`.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
type Request = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Complete = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

const RECORD_BYTES: usize = 224;
const CONCURRENT_KERNEL: u32 = 10;

static HELD: AtomicBool = AtomicBool::new(false);
static ATTRIBUTE: AtomicU64 = AtomicU64::new(0);
static BUFFERS: std::sync::Mutex<Option<(Request, Complete)>> = std::sync::Mutex::new(None);
static CALLBACK: std::sync::Mutex<Option<Callback>> = std::sync::Mutex::new(None);

#[repr(C)]
struct SubscriberParams {
    bytes: usize,
    name: *const c_char,
    old_name: *mut c_char,
    old_name_bytes: usize,
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetVersion(version: *mut u32) -> u32 {
    unsafe { *version = 130202 };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetResultString(_: u32, _: *mut *const c_char) -> u32 {
    999
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetTimestamp(now_ns: *mut u64) -> u32 {
    unsafe { *now_ns = 1_700_000_000_000_000_000 };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuptiSubscribe(handle: *mut *mut c_void, callback: Callback, _: *mut c_void) -> u32 {
    if HELD.swap(true, SeqCst) {
        return 39;
    }
    *CALLBACK.lock().unwrap() = Some(callback);
    unsafe { *handle = 0x10 as *mut c_void };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuptiSubscribe_v2(
    handle: *mut *mut c_void,
    callback: Callback,
    user_data: *mut c_void,
    parameters: *const SubscriberParams,
) -> u32 {
    let parameters = unsafe { &*parameters };
    if parameters.bytes != 40 || parameters.old_name_bytes < 64 {
        return 1;
    }
    let own_name = unsafe { CStr::from_ptr(parameters.name) };
    let code = cuptiSubscribe(handle, callback, user_data);
    if code == 39 {
        let text = format!("CUPTI for somebody, not {}\0", own_name.to_str().unwrap());
        let bytes = text.as_bytes().as_ptr().cast();
        unsafe { std::ptr::copy_nonoverlapping(bytes, parameters.old_name, text.len()) };
    }
    code
}

#[cfg(not(broken))]
#[unsafe(no_mangle)]
extern "C" fn cuptiUnsubscribe(handle: *mut c_void) -> u32 {
    if handle as usize == 0x10 && HELD.swap(false, SeqCst) { 0 } else { 1 }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiEnableCallback(on: u32, _: *mut c_void, domain: u32, id: u32) -> u32 {
    let Some(callback) = *CALLBACK.lock().unwrap() else { return 15 };
    if on == 1 {
        unsafe { callback(std::ptr::null_mut(), domain, id, std::ptr::null()) };
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityRegisterCallbacks(request: Request, complete: Complete) -> u32 {
    *BUFFERS.lock().unwrap() = Some((request, complete));
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnable(kind: u32) -> u32 {
    if kind == CONCURRENT_KERNEL { 0 } else { 21 }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityDisable(kind: u32) -> u32 {
    cuptiActivityEnable(kind)
}

/// Three kernel records; with `forced` the last one is incomplete.
#[unsafe(no_mangle)]
extern "C" fn cuptiActivityFlushAll(forced: u32) -> u32 {
    let Some((request, complete)) = *BUFFERS.lock().unwrap() else { return 15 };
    let (mut buffer, mut bytes, mut limit) = (std::ptr::null_mut(), 0, 0);
    unsafe { request(&mut buffer, &mut bytes, &mut limit) };
    let kinds = [CONCURRENT_KERNEL, CONCURRENT_KERNEL, if forced == 1 { 0 } else { 10 }];
    for (index, kind) in kinds.into_iter().enumerate() {
        unsafe { buffer.add(index * RECORD_BYTES).cast::<u32>().write(kind) };
        unsafe { buffer.add(index * RECORD_BYTES + 16).cast::<u64>().write(index as u64 * 100) };
    }
    unsafe { complete(std::ptr::null_mut(), 0, buffer, bytes, kinds.len() * RECORD_BYTES) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityGetNextRecord(
    buffer: *mut u8,
    valid_bytes: usize,
    record: *mut *mut u8,
) -> u32 {
    let previous = unsafe { *record };
    let next = if previous.is_null() { buffer } else { previous.wrapping_add(RECORD_BYTES) };
    if next as usize >= buffer as usize + valid_bytes {
        return 12;
    }
    if unsafe { next.cast::<u32>().read() } == 0 {
        return 21;
    }
    unsafe { *record = next };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityGetNumDroppedRecords(_: *mut c_void, _: u32, count: *mut usize) -> u32 {
    unsafe { *count = 7 };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivitySetAttribute(id: u32, bytes: *mut usize, value: *const u8) -> u32 {
    let expected = if id == 5 { 1 } else { 8 };
    if unsafe { *bytes } != expected {
        return 10;
    }
    let value = if id == 5 {
        unsafe { *value }.into()
    } else {
        unsafe { value.cast::<u64>().read_unaligned() }
    };
    ATTRIBUTE.store(value, SeqCst);
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityGetAttribute(id: u32, bytes: *mut usize, value: *mut u8) -> u32 {
    let stored = ATTRIBUTE.load(SeqCst);
    match (id, unsafe { *bytes }) {
        (5, 1) => unsafe { *value = stored as u8 },
        (0, 8) => unsafe { value.cast::<u64>().write_unaligned(stored) },
        _ => return 10,
    }
    0
}
