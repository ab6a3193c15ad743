//! What a watched call of the driver costs the guest's thread, at the simulated CUPTI: `STAGE2_HOST=off` for the call
//! without us. It returns at once, so that it is only counted.

#[path = "../tests/guests/cuda.rs"]
#[allow(dead_code, unreachable_pub, reason = "written for the guest, which calls all of it")]
mod cuda;

use divan::counter::ItemsCount;
use stage2::guest::open_calls::OpenCalls;
use stage2_contract::trace::MonoNs;

const CALLS: usize = 10_000;

fn main() {
    let own = std::env::current_exe().expect("own path");
    let simulator = own.with_file_name("libstage2_sim.so");
    // SAFETY: no other thread is there yet.
    unsafe {
        std::env::set_var("STAGE2_SUMMARY", "off");
        std::env::set_var("STAGE2_OUT", env!("CARGO_TARGET_TMPDIR"));
        std::env::set_var("STAGE2_TEST_SIM", &simulator);
        std::env::set_var("STAGE2_CUPTI", &simulator);
        if std::env::var_os("STAGE2_HOST").is_none() {
            std::env::set_var("STAGE2_HOST", "on");
        }
    }
    cuda::init();
    stage2::entry::inject::InitializeInjection();
    divan::main();
    let shared = stage2::guest::state::shared().expect("the collector runs");
    let counted = shared.counters.short_calls.get() > 0;
    assert_eq!(
        counted,
        shared.options.host_hz.is_some(),
        "calls are watched where the host is sampled"
    );
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn synchronise(bencher: divan::Bencher) {
    let stream = cuda::Stream::new();
    bencher.counter(ItemsCount::new(CALLS)).bench_local(|| {
        (0..CALLS).for_each(|_| stream.synchronize());
    });
}

/// What the call costs so that `ctl why` can tell of it while it lasts: a part of the above.
#[divan::bench(sample_count = 200, sample_size = 1)]
fn note_the_open_call(bencher: divan::Bencher) {
    let calls = divan::black_box(OpenCalls::default());
    bencher.counter(ItemsCount::new(CALLS)).bench_local(|| {
        for at in 0..CALLS as u64 {
            calls.begin(divan::black_box(7), 126, MonoNs(at));
            calls.end(divan::black_box(7));
        }
    });
}
