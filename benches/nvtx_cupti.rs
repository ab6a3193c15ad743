//! What a pair of push and pop costs the guest's thread, with a fence at each on the simulated CUPTI
//! (the real fence call takes 95-147 ns; docs/cupti-findings.md).

#[path = "../tests/guests/cuda.rs"]
#[allow(dead_code, unreachable_pub, reason = "written for the guest, which calls all of it")]
mod cuda;
#[path = "common/pairs.rs"]
mod pairs;

fn main() {
    let own = std::env::current_exe().expect("own path");
    let simulator = own.with_file_name("libstage2_sim.so");
    // SAFETY: no other thread is there yet.
    unsafe {
        std::env::set_var("STAGE2_SUMMARY", "off");
        std::env::set_var("STAGE2_TEST_SIM", &simulator);
        std::env::set_var("STAGE2_CUPTI", &simulator);
        std::env::set_var("STAGE2_SIM_FAST", "1");
    }
    cuda::init();
    stage2::entry::inject::InitializeInjection();
    let shared = stage2::guest::state::shared().expect("the collector runs");
    assert!(shared.gpu().is_some_and(|gpu| gpu.tracer.fence() > 0), "fences work");
    pairs::run();
}
