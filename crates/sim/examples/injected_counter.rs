//! A CUDA and NVTX tool as small as one can be, for the tests: it counts, and says so at exit.
//!
//! Loaded through CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH; finds CUPTI in the library that
//! COUNTER_CUPTI names. Prints `counter: kernels=N records=N pushes=N pops=N dropped=N`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

const BUFFER_BYTES: usize = 64 << 10;
const KINDS: [u32; 5] = [10, 1, 2, 8, 9];

static CUPTI: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static KERNELS: AtomicU64 = AtomicU64::new(0);
static RECORDS: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);
static PUSHES: AtomicU64 = AtomicU64::new(0);
static POPS: AtomicU64 = AtomicU64::new(0);

type Next = unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> u32;
type Dropped = unsafe extern "C" fn(usize, u32, *mut usize) -> u32;
type Code = unsafe extern "C" fn(u32) -> u32;

/// # Safety
/// The symbol has type `T`.
unsafe fn symbol<T: Copy>(name: &str) -> T {
    let name = CString::new(name).expect("a name without NUL");
    // SAFETY: a live handle and a C string; the type is the caller's promise.
    unsafe {
        let found = libc::dlsym(CUPTI.load(Ordering::Acquire), name.as_ptr());
        assert!(!found.is_null(), "no {name:?}");
        std::mem::transmute_copy(&found)
    }
}

unsafe extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let memory = Box::leak(vec![0_u8; BUFFER_BYTES].into_boxed_slice());
    // SAFETY: CUPTI's three out-pointers.
    unsafe {
        *buffer = memory.as_mut_ptr();
        *size = memory.len();
        *records = 0;
    }
}

unsafe extern "C" fn complete(_: usize, _: u32, buffer: *mut u8, size: usize, valid: usize) {
    // SAFETY: CUPTI's functions, and the memory that `request` leaked.
    unsafe {
        let next: Next = symbol("cuptiActivityGetNextRecord");
        let mut record = std::ptr::null_mut();
        while next(buffer, valid, &raw mut record) == 0 {
            RECORDS.fetch_add(1, Ordering::Relaxed);
            if record.cast::<u32>().read() == 10 {
                KERNELS.fetch_add(1, Ordering::Relaxed);
            }
        }
        let mut dropped = 0;
        symbol::<Dropped>("cuptiActivityGetNumDroppedRecords")(0, 0, &raw mut dropped);
        DROPPED.fetch_add(dropped as u64, Ordering::Relaxed);
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(buffer, size)));
    }
}

extern "C" fn report() {
    // SAFETY: CUPTI's function.
    unsafe { symbol::<Code>("cuptiActivityFlushAll")(1) };
    let [kernels, records, pushes, pops, dropped] =
        [&KERNELS, &RECORDS, &PUSHES, &POPS, &DROPPED].map(|count| count.load(Ordering::Relaxed));
    println!(
        "counter: kernels={kernels} records={records} pushes={pushes} pops={pops} dropped={dropped}"
    );
}

/// Called by the driver in cuInit.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    let path = std::env::var_os("COUNTER_CUPTI").expect("COUNTER_CUPTI");
    let path = CString::new(path.into_vec()).expect("a path");
    // SAFETY: a C string; the functions have the types that CUPTI's headers give them.
    unsafe {
        CUPTI.store(libc::dlopen(path.as_ptr(), libc::RTLD_NOW), Ordering::Release);
        let register: unsafe extern "C" fn(*const c_void, *const c_void) -> u32 =
            symbol("cuptiActivityRegisterCallbacks");
        assert_eq!(register(request as *const c_void, complete as *const c_void), 0);
        for kind in KINDS {
            assert_eq!(symbol::<Code>("cuptiActivityEnable")(kind), 0);
        }
        libc::atexit(report);
    }
    1
}

extern "C" fn push(_: *const c_char) -> c_int {
    PUSHES.fetch_add(1, Ordering::Relaxed);
    0
}

extern "C" fn pop() -> c_int {
    POPS.fetch_add(1, Ordering::Relaxed);
    0
}

/// NVTX's table of callbacks.
#[repr(C)]
pub struct Callbacks {
    size: usize,
    table: unsafe extern "C" fn(c_int, *mut *mut *mut *const c_void, *mut u32) -> c_int,
}

/// Called by NVTX at its first use.
///
/// # Safety
/// `get_table` is NVTX's export table function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(
    get_table: unsafe extern "C" fn(u32) -> *const Callbacks,
) -> c_int {
    // SAFETY: table 1 is the callbacks; module 1 is the core, with RangePushA 9 and RangePop 11.
    unsafe {
        let (mut slots, mut count) = (std::ptr::null_mut(), 0);
        if ((*get_table(1)).table)(1, &raw mut slots, &raw mut count) != 1 || count <= 11 {
            return 0;
        }
        **slots.add(9) = push as *const c_void;
        **slots.add(11) = pop as *const c_void;
    }
    1
}
