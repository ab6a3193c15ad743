//! Guests with another user of CUPTI in the process: one of the first activity API, as torch.profiler is,
//! and one of the second that lets others in.

use std::ffi::{CStr, c_char, c_void};
use std::time::Duration;

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

type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Complete = extern "C" fn(usize, u32, *mut u8, usize, usize);

const BUFFER_BYTES: usize = 1 << 16;

/// Hands a buffer out that nobody frees.
extern "C" fn request(buffer: *mut *mut u8, bytes: *mut usize, most: *mut usize) {
    let fresh = Box::leak(vec![0u8; BUFFER_BYTES].into_boxed_slice());
    // SAFETY: three places of CUPTI's.
    unsafe {
        *buffer = fresh.as_mut_ptr();
        *bytes = BUFFER_BYTES;
        *most = 0;
    }
}

/// Takes a buffer back, whoever gave it.
extern "C" fn complete(_: usize, _: u32, _: *mut u8, _: usize, _: usize) {}

/// The CUPTI that the collector uses. It stays, as a profiler's does.
struct Cupti(&'static Library);

impl Cupti {
    fn find() -> Self {
        let path = std::env::var_os("STAGE2_TEST_SIM").expect("the simulated CUPTI");
        // SAFETY: the library is in the process already.
        let library = unsafe { Library::new(path) }.expect("the simulated CUPTI");
        Cupti(Box::leak(Box::new(library)))
    }

    /// Takes the activity callbacks of the first activity API, as a profiler does that knows of nobody else.
    fn take_records(&self) -> u32 {
        type Register = unsafe extern "C" fn(Request, Complete) -> u32;
        // SAFETY: the function has this type; the two callbacks live as long as the program.
        unsafe {
            let register = self.0.get::<Register>(b"cuptiActivityRegisterCallbacks");
            register.expect("a CUPTI")(request, complete)
        }
    }

    fn finalize(&self) -> u32 {
        // SAFETY: the function has this type, and no thread but this one is in a call of CUPTI.
        unsafe {
            let finalize = self.0.get::<unsafe extern "C" fn() -> u32>(b"cuptiFinalize");
            finalize.expect("a CUPTI")()
        }
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
    stream.work(b"work", 50);
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

/// Ranges with a few kernels each, for longer than a few flushes.
fn steps(kernels: u32) {
    let stream = Stream::new();
    for _ in 0..30 {
        client().push(b"step");
        stream.run(kernels);
        std::thread::sleep(Duration::from_millis(20));
        client().pop();
    }
}

/// A profiler takes CUPTI's activity records half-way.
pub fn records_taken() {
    cuda::init();
    steps(20);
    println!("register={}", Cupti::find().take_records());
    steps(500);
}

/// A profiler takes CUPTI's activity records half-way, and what follows is too little to fill a
/// buffer.
pub fn few_records_taken() {
    cuda::init();
    steps(20);
    println!("register={}", Cupti::find().take_records());
    steps(1);
}

/// Another library takes CUPTI out of the process half-way.
pub fn finalized() {
    cuda::init();
    steps(20);
    println!("finalize={}", Cupti::find().finalize());
    steps(20);
}

/// Another library takes CUPTI out of the process, and it ends two flushes later.
pub fn finalized_at_the_end() {
    cuda::init();
    steps(20);
    println!("finalize={}", Cupti::find().finalize());
    for _ in 0..4 {
        client().push(b"step");
        std::thread::sleep(Duration::from_millis(30));
        client().pop();
    }
}

/// What the driver and CUPTI do in `exit`, for longer than a few flushes.
extern "C" fn leave_slowly() {
    Cupti::find().finalize();
    std::thread::sleep(Duration::from_millis(300));
}

/// CUPTI leaves the process in `exit`, by a handler that was registered before its first record.
pub fn exits_slowly() {
    cuda::init();
    // SAFETY: the handler is a function of this program.
    unsafe { libc::atexit(leave_slowly) };
    steps(20);
}

/// CUPTI leaves the process in `exit`, right after some kernels, by a handler that was registered
/// later than anything of ours.
pub fn exits_slowly_by_a_late_handler() {
    cuda::init();
    steps(20);
    client().push(b"step");
    let stream = Stream::new();
    stream.run(20);
    client().pop();
    // SAFETY: as above.
    unsafe { libc::atexit(leave_slowly) };
}

/// Works on the GPU in two stretches. In between there are ranges without: on the CPU alone, with waits for
/// the GPU, with launches that fail, and with launches that are captured into a graph that is never replayed.
pub fn rests() {
    cuda::init();
    steps(20);
    let stream = Stream::new();
    for _ in 0..30 {
        client().push(b"tokenize");
        stream.synchronize();
        std::thread::sleep(Duration::from_millis(20));
        client().pop();
        client().push(b"probe");
        cuda::launch_in_vain(200);
        client().pop();
        client().push(b"capture");
        stream.capture(|| stream.launch(200));
        client().pop();
    }
    steps(20);
}
