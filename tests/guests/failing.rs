//! A guest that the collector is linked into, whose GPU half fails where `STAGE2_TEST_FAILS` says, on top
//! of the real one and the simulated CUPTI.

#[allow(dead_code, unreachable_pub, reason = "written for the guest, which calls all of it")]
mod cuda;
#[allow(dead_code, unreachable_pub, reason = "written for the guest, which calls all of it")]
mod nvtx;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cupti_sys::CuptiError;
use stage2::entry::lifecycle;
use stage2::guest::cupti;
use stage2::guest::gpu::{Gpu, Tracer};
use stage2::guest::state::{self, Phase};
use stage2_contract::trace::GpuNs;

/// Which call of the GPU half fails.
const FAILS: &str = "STAGE2_TEST_FAILS";

/// The first work has been taken in and flushed.
static SETTLED: AtomicBool = AtomicBool::new(false);

/// The real GPU half, until one call.
struct Failing(Box<dyn Tracer>);

fn fail(here: &str) {
    if std::env::var(FAILS).is_ok_and(|call| call == here) {
        let none: [u8; 0] = [];
        let missing = std::hint::black_box(7);
        // What a programming error looks like.
        let _ = none[missing];
    }
}

impl Tracer for Failing {
    fn fence(&self) -> u32 {
        self.0.fence()
    }
    fn flush(&self, forced: bool) -> Result<(), CuptiError> {
        if forced {
            fail("last flush");
        }
        self.0.flush(forced)
    }
    fn now(&self) -> Option<GpuNs> {
        fail("first look");
        self.0.now()
    }
    fn take_dropped(&self) -> Option<u64> {
        if SETTLED.load(Ordering::Relaxed) {
            fail("later flush");
        }
        self.0.take_dropped()
    }
    fn collect(&self, on: bool) {
        self.0.collect(on);
    }
    fn watch_launches(&self, on: bool) -> bool {
        self.0.watch_launches(on)
    }
    fn is_attached(&self) -> bool {
        self.0.is_attached()
    }
    fn shut(&self) {
        self.0.shut();
    }
}

fn wait_until(what: &str, met: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !met() {
        assert!(Instant::now() < deadline, "{what} never came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// CUPTI has one subscriber: whether another tool could be it now.
fn cupti_is_free() -> bool {
    type Subscribe = unsafe extern "C" fn(*mut usize, *const (), usize) -> u32;
    extern "C" fn callback() {}
    let path = std::env::var_os("STAGE2_CUPTI").expect("STAGE2_CUPTI names the simulated CUPTI");
    let mut subscriber = 0;
    // SAFETY: the library is loaded already; the place is valid, and nothing is enabled that
    // would call back.
    let result = unsafe {
        let library = libloading::Library::new(path).expect("the simulator");
        let subscribe = library.get::<Subscribe>(b"cuptiSubscribe").expect("cuptiSubscribe");
        subscribe(&raw mut subscriber, callback as *const (), 0)
    };
    result == 0
}

fn main() {
    let shared = lifecycle::start().expect("a start");
    let real = cupti::start(shared, || ()).expect("the simulated CUPTI");
    let failing = Gpu { tracer: Box::new(Failing(real.tracer)), ..real };
    assert!(shared.gpu.set(Ok(failing)).is_ok());
    // The driver has its tool already.
    // SAFETY: no other thread reads the environment meanwhile.
    unsafe { std::env::remove_var("CUDA_INJECTION64_PATH") };
    cuda::init();
    let nvtx = nvtx::Nvtx::attached_to(stage2::entry::inject::InitializeInjectionNvtx2);
    let stream = cuda::Stream::new();
    let work = |name: &[u8], kernels: u32| {
        nvtx.push(name);
        stream.run(kernels);
        nvtx.pop();
    };
    work(b"before", 100);
    std::thread::sleep(Duration::from_millis(300));
    if std::env::var(FAILS).is_ok_and(|call| call == "last flush") {
        return println!("worked on");
    }
    SETTLED.store(true, Ordering::Relaxed);
    work(b"never taken in", 100);
    wait_until("the end of the drain thread", || state::phase() == Phase::Ended);
    wait_until("the end of the subscription", cupti_is_free);
    let waiting = shared.events.waiting();
    for _ in 0..200 {
        work(b"after", 100);
    }
    assert_eq!(shared.events.waiting(), waiting, "nobody takes in events any more");
    assert_eq!(shared.counters.buffers_refused.get(), 0);
    assert!(lifecycle::start().is_none(), "off for good");
    println!("worked on");
}
