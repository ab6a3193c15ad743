//! libFuzzer over one target, which the environment variable `STAGE2_FUZZ_TARGET` names.
//!
//! Its options are libFuzzer's own. `tests/fuzz/run.py` builds and starts it. libFuzzer keeps the
//! inputs that reach new code; half of its mutations are its own, half know the format.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use stage2_fuzz::{Target, run};

fn target_of_environment() -> &'static Target {
    static CHOSEN: OnceLock<&Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("STAGE2_FUZZ_TARGET").unwrap_or_default();
        stage2_fuzz::target(&name).unwrap_or_else(|| {
            let names: Vec<&str> = stage2_fuzz::TARGETS.iter().map(|target| target.name).collect();
            panic!("STAGE2_FUZZ_TARGET is `{name}`; set it to one of {}", names.join(", "))
        })
    })
}

fuzz_target!(|input: &[u8]| run(target_of_environment(), input));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = fastrand::Rng::with_seed(seed.into());
    if random.bool() {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut input = data[..size].to_vec();
    (target_of_environment().mutate)(&mut input, &mut random);
    let size = input.len().min(max_size);
    data[..size].copy_from_slice(&input[..size]);
    size
});
