//! What a pair of push and pop costs the guest's thread while the collector is dormant: all that a dormant
//! collector does per range.

#[path = "../tests/guests/nvtx.rs"]
#[allow(dead_code, unreachable_pub, reason = "written for the guest, which calls all of it")]
mod nvtx;

use std::sync::OnceLock;

use divan::counter::ItemsCount;
use stage2::guest::state::{self, Phase};

const PAIRS: usize = 10_000;

static CLIENT: OnceLock<nvtx::Nvtx> = OnceLock::new();

fn main() {
    // SAFETY: no other thread is there yet.
    unsafe {
        std::env::set_var("STAGE2_START", "off");
        std::env::set_var("STAGE2_CONTROL", "off");
    }
    let client = nvtx::Nvtx::attached_to(stage2::entry::inject::InitializeInjectionNvtx2);
    client.push_c(c"a");
    client.pop();
    assert_eq!(state::phase(), Phase::Dormant, "no window was started");
    let _ = CLIENT.set(client);
    divan::main();
    assert_eq!(state::phase(), Phase::Dormant, "no window was started");
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn push_and_pop(bencher: divan::Bencher) {
    let client = CLIENT.get().expect("attached");
    bencher.counter(ItemsCount::new(PAIRS)).bench(|| {
        for _ in 0..PAIRS {
            client.push_c(c"decode_step");
            client.pop();
        }
    });
}
