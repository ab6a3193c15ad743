//! Pairs of push and pop -> what one costs the guest's thread; the program says what is under them.

#[path = "../../tests/guests/nvtx.rs"]
#[allow(dead_code, unreachable_pub, reason = "written for the guest, which calls all of it")]
mod nvtx;

use std::sync::OnceLock;
use std::time::Duration;

use divan::counter::ItemsCount;

/// Pairs in a sample: fewer events than the queue holds. Between samples it is emptied.
const PAIRS: usize = 10_000;

static CLIENT: OnceLock<nvtx::Nvtx> = OnceLock::new();

/// Attaches the collector as the NVTX tool, runs the benches, and sees that no event was lost.
pub(crate) fn run() {
    let client = nvtx::Nvtx::attached_to(stage2::entry::inject::InitializeInjectionNvtx2);
    assert_eq!(client.push_c(c"a"), 0, "the collector answers");
    client.pop();
    let _ = CLIENT.set(client);
    divan::main();
    let shared = stage2::guest::state::shared().expect("the collector runs");
    assert_eq!(shared.counters.range_events.get(), 0, "no event was lost");
}

fn pairs(bencher: divan::Bencher, body: impl Fn(&nvtx::Nvtx) + Sync) {
    let client = CLIENT.get().expect("attached");
    let emptied = || {
        let shared = stage2::guest::state::shared().expect("the collector runs");
        while shared.events.waiting() > 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
    };
    bencher
        .counter(ItemsCount::new(PAIRS))
        .with_inputs(emptied)
        .bench_values(|()| (0..PAIRS).for_each(|_| body(client)));
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn push_and_pop(bencher: divan::Bencher) {
    pairs(bencher, |client| {
        client.push_c(c"decode_step");
        client.pop();
    });
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn push_registered_and_pop(bencher: divan::Bencher) {
    let client = CLIENT.get().expect("attached");
    let domain = client.domain("llm");
    let string = client.register(domain, "decode_step");
    pairs(bencher, |client| {
        client.push_registered(domain, string, 1);
        client.pop_in(domain);
    });
}
