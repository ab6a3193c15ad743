//! The few driver calls that the hazards need, on the simulated driver.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use libloading::Library;

static DRIVER: OnceLock<Library> = OnceLock::new();

/// A recorded sequence of the simulated driver.
pub const DECODE_STEP: u32 = 1;
/// Its kernels.
pub const DECODE_KERNELS: u32 = 694;

/// Bytes that the kernels of a decode step read from the memory of the simulated GPU.
pub fn decode_read_bytes() -> u64 {
    let driver = DRIVER.get().expect("init was called");
    type Read = unsafe extern "C" fn(u32, u32) -> u64;
    // SAFETY: the function has this type, and answers any numbers.
    unsafe {
        let read = *driver.get::<Read>(b"stage2_sim_read_bytes").expect("the simulated driver");
        (0..DECODE_KERNELS).map(|index| read(DECODE_STEP, index)).sum()
    }
}

/// Loads the driver and initialises it, which loads the tool of `CUDA_INJECTION64_PATH`.
pub fn init() {
    let path =
        std::env::var("STAGE2_TEST_SIM").expect("STAGE2_TEST_SIM names the simulated driver");
    // SAFETY: the simulated driver has no constructors.
    let library = unsafe { Library::new(path) }.expect("the simulated driver loads");
    DRIVER.set(library).expect("init is called once");
    // SAFETY: cuInit takes flags, which must be 0.
    assert_eq!(call::<unsafe extern "C" fn(u32) -> u32>(b"cuInit", |f| unsafe { f(0) }), 0);
    let mut context = 0usize;
    let retain = |f: unsafe extern "C" fn(*mut usize, c_int) -> u32| {
        // SAFETY: the place is valid.
        unsafe { f(&raw mut context, 0) }
    };
    assert_eq!(call(b"cuDevicePrimaryCtxRetain", retain), 0);
    set_context(context);
}

fn set_context(context: usize) {
    // SAFETY: the context was retained.
    call::<unsafe extern "C" fn(usize) -> u32>(b"cuCtxSetCurrent", |f| unsafe { f(context) });
}

/// Looks a driver function up and gives it to `body`. `F` must be its type.
fn call<F: Copy>(name: &[u8], body: impl FnOnce(F) -> u32) -> u32 {
    let driver = DRIVER.get().expect("init was called");
    // SAFETY: the callers name the driver's own types.
    body(*unsafe { driver.get::<F>(name) }.expect("the simulated driver has the function"))
}

/// Launches a recorded kernel of a decode step.
fn launch(index: u32, stream: usize) -> u32 {
    type Launch = unsafe extern "C" fn(u32, u32, usize) -> u32;
    // SAFETY: any numbers are answered.
    call(b"stage2_sim_launch_recorded", |f: Launch| unsafe { f(DECODE_STEP, index, stream) })
}

/// Has the driver refuse `count` launches, on a stream that there is not.
pub fn launch_in_vain(count: u32) {
    for index in 0..count {
        assert_ne!(launch(index, usize::MAX), 0);
    }
}

/// Copies from the GPU, on the default stream, and waits for that.
pub fn download_and_wait(bytes: usize) {
    type Copy = unsafe extern "C" fn(*mut c_void, u64, usize) -> u32;
    // SAFETY: the simulation looks at no address.
    let copy = |f: Copy| unsafe { f(std::ptr::null_mut(), 0, bytes) };
    assert_eq!(call(b"cuMemcpyDtoH_v2", copy), 0);
}

/// Ends the kernels that run until they are released.
pub fn release() {
    type Release = unsafe extern "C" fn() -> u32;
    // SAFETY: no preconditions.
    assert_eq!(call(b"stage2_sim_release", |f: Release| unsafe { f() }), 1);
}

/// Allocates memory of the GPU.
pub fn allocate(bytes: usize) {
    let mut address = 0;
    type Allocate = unsafe extern "C" fn(*mut u64, usize) -> u32;
    // SAFETY: the place is valid.
    assert_eq!(call(b"cuMemAlloc_v2", |f: Allocate| unsafe { f(&raw mut address, bytes) }), 0);
}

pub struct Stream(usize);

impl Stream {
    pub fn new() -> Self {
        let mut stream = 0;
        let create = |f: unsafe extern "C" fn(*mut usize, u32) -> u32| {
            // SAFETY: the place is valid.
            unsafe { f(&raw mut stream, 0) }
        };
        assert_eq!(call(b"cuStreamCreate", create), 0);
        Stream(stream)
    }

    /// Launches `count` recorded kernels of a decode step.
    pub fn launch(&self, count: u32) {
        for index in 0..count {
            assert_eq!(launch(index, self.0), 0);
        }
    }

    /// Launches a kernel of this name, which runs until [`release`] if it begins with `spin_until_released`.
    pub fn launch_named(&self, name: &std::ffi::CStr) {
        let (mut module, mut function, none) = (0usize, 0usize, std::ptr::null::<c_void>());
        type Load = unsafe extern "C" fn(*mut usize, *const c_void) -> u32;
        // SAFETY: the place is valid; the simulation reads no image.
        let load = |f: Load| unsafe { f(&raw mut module, b"x".as_ptr().cast()) };
        assert_eq!(call(b"cuModuleLoadData", load), 0);
        type Get = unsafe extern "C" fn(*mut usize, usize, *const std::ffi::c_char) -> u32;
        // SAFETY: the place and the name are valid.
        let get = |f: Get| unsafe { f(&raw mut function, module, name.as_ptr()) };
        assert_eq!(call(b"cuModuleGetFunction", get), 0);
        type Launch = unsafe extern "C" fn(
            usize,
            u32,
            u32,
            u32,
            u32,
            u32,
            u32,
            u32,
            usize,
            *const c_void,
            *const c_void,
        ) -> u32;
        // SAFETY: the function and the stream are alive; the kernel has no arguments.
        let launch = |f: Launch| unsafe { f(function, 1, 1, 1, 32, 1, 1, 0, self.0, none, none) };
        assert_eq!(call(b"cuLaunchKernel", launch), 0);
    }

    pub fn run(&self, count: u32) {
        self.launch(count);
        self.synchronize();
    }

    pub fn fill(&self, bytes: usize) {
        type Fill = unsafe extern "C" fn(u64, u8, usize, usize) -> u32;
        // SAFETY: the simulation looks at no address.
        assert_eq!(call(b"cuMemsetD8Async", |f: Fill| unsafe { f(0, 0, bytes, self.0) }), 0);
    }

    pub fn upload(&self, bytes: usize) {
        type Copy = unsafe extern "C" fn(u64, *const c_void, usize, usize) -> u32;
        let host = [0u8; 64];
        let copy = |f: Copy| {
            // SAFETY: the simulation looks at no address.
            unsafe { f(0, host.as_ptr().cast(), bytes, self.0) }
        };
        assert_eq!(call(b"cuMemcpyHtoDAsync_v2", copy), 0);
    }

    pub fn synchronize(&self) {
        type Synchronize = unsafe extern "C" fn(usize) -> u32;
        // SAFETY: the stream is alive.
        assert_eq!(call(b"cuStreamSynchronize", |f: Synchronize| unsafe { f(self.0) }), 0);
    }

    /// Captures what `body` launches on this stream into an executable graph.
    pub fn capture(&self, body: impl FnOnce()) -> Graph {
        let (mut graph, mut exec) = (0usize, 0usize);
        type Begin = unsafe extern "C" fn(usize, u32) -> u32;
        // SAFETY: the stream is alive.
        assert_eq!(call(b"cuStreamBeginCapture_v2", |f: Begin| unsafe { f(self.0, 1) }), 0);
        body();
        let end = |f: unsafe extern "C" fn(usize, *mut usize) -> u32| {
            // SAFETY: the place is valid.
            unsafe { f(self.0, &raw mut graph) }
        };
        assert_eq!(call(b"cuStreamEndCapture", end), 0);
        let instantiate = |f: unsafe extern "C" fn(*mut usize, usize, u64) -> u32| {
            // SAFETY: the place is valid.
            unsafe { f(&raw mut exec, graph, 0) }
        };
        assert_eq!(call(b"cuGraphInstantiateWithFlags", instantiate), 0);
        Graph(exec)
    }
}

pub struct Graph(usize);

impl Graph {
    pub fn replay(&self, stream: &Stream) {
        type Launch = unsafe extern "C" fn(usize, usize) -> u32;
        // SAFETY: both are alive.
        assert_eq!(call(b"cuGraphLaunch", |f: Launch| unsafe { f(self.0, stream.0) }), 0);
    }
}
