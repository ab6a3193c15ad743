//! What a pair of push and pop costs the guest's thread without CUDA.

#[path = "common/pairs.rs"]
mod pairs;

fn main() {
    // SAFETY: no other thread is there yet.
    unsafe { std::env::set_var("STAGE2_SUMMARY", "off") };
    pairs::run();
}
