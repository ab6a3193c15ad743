//! Guests with another user of CUPTI in the process: one of the first activity API, as torch.profiler is,
//! and one of the second that lets others in.

use std::ffi::{CStr, c_char, c_void};

use libloading::Library;

use crate::cuda::{self, Stream};
use crate::nvtx::client;

/// `CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL`.
const KERNELS: u32 = 10;

/// `CUpti_SubscriberParams` of CUPTI 13.2 and later.
#[repr(C)]
struct Parameters {
    bytes: usize,
    name: *const c_char,
    old_name: *mut c_char,
    old_bytes: usize,
    company: u8,
    padding: [u8; 7],
}

/// The CUPTI that the collector uses. It stays, as a profiler's does.
struct Cupti(&'static Library);

impl Cupti {
    fn find() -> Self {
        let path = std::env::var_os("STAGE2_TEST_SIM").expect("the simulated CUPTI");
        // SAFETY: the library is in the process already.
        let library = unsafe { Library::new(path) }.expect("the simulated CUPTI");
        Cupti(Box::leak(Box::new(library)))
    }

    fn enable(&self) -> u32 {
        // SAFETY: the function has this type, and takes any number.
        unsafe {
            let enable = self.0.get::<unsafe extern "C" fn(u32) -> u32>(b"cuptiActivityEnable");
            enable.expect("a CUPTI")(KERNELS)
        }
    }

    fn subscribe(&self) -> u32 {
        type Subscribe = unsafe extern "C" fn(*mut usize, *const c_void, *mut c_void) -> u32;
        let mut handle = 0;
        // SAFETY: the function has this type; nothing is enabled that would call back.
        unsafe {
            let subscribe = self.0.get::<Subscribe>(b"cuptiSubscribe").expect("a CUPTI");
            subscribe(&raw mut handle, std::ptr::null(), std::ptr::null_mut())
        }
    }

    /// Result, and who came first.
    fn subscribe_in_company(&self) -> (u32, String) {
        type Subscribe =
            unsafe extern "C" fn(*mut usize, *const c_void, *mut c_void, *mut Parameters) -> u32;
        let (mut handle, mut old) = (0, [0u8; 128]);
        let mut parameters = Parameters {
            bytes: size_of::<Parameters>(),
            name: c"another tool".as_ptr(),
            old_name: old.as_mut_ptr().cast(),
            old_bytes: old.len(),
            company: 1,
            padding: [0; 7],
        };
        // SAFETY: the function has this type, and all places are valid during the call.
        let result = unsafe {
            let subscribe = self.0.get::<Subscribe>(b"cuptiSubscribe_v2").expect("a CUPTI");
            subscribe(&raw mut handle, std::ptr::null(), std::ptr::null_mut(), &raw mut parameters)
        };
        let first = CStr::from_bytes_until_nul(&old).unwrap_or_default();
        (result, first.to_string_lossy().into_owned())
    }
}

fn work() {
    let stream = Stream::new();
    client().push(b"work");
    stream.launch(50);
    stream.synchronize();
    client().pop();
}

/// A profiler of the first activity API comes second, and the work goes on.
pub fn profiler_beside() {
    cuda::init();
    work();
    let cupti = Cupti::find();
    println!("subscribe={} enable={}", cupti.subscribe(), cupti.enable());
    work();
}

/// A profiler of the first activity API was there before CUDA was initialised.
pub fn profiler_first() {
    println!("subscribe={}", Cupti::find().subscribe());
    cuda::init();
    work();
}

/// A tool that allows others beside it comes second.
pub fn tool_beside() {
    cuda::init();
    work();
    let (result, first) = Cupti::find().subscribe_in_company();
    println!("subscribe={result} first={first}");
    work();
}
