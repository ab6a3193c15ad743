//! A guest that works for long, with collection switched on and off all the time.

use std::sync::Barrier;

use crate::cuda::{self, DECODE_KERNELS, Stream};
use crate::nvtx::client;

const THREADS: u64 = 8;
/// Kernels in a range that nobody wants, beside each wanted one.
const UNWANTED: u32 = 20;

fn number(variable: &str) -> u64 {
    let text = std::env::var(variable).expect("the variable is set");
    text.parse().expect("a number")
}

/// `STAGE2_TEST_WINDOWS` times all threads open a range `wanted` together, close it together, and work
/// in another one; about `STAGE2_TEST_KERNELS` kernels in the wanted ones altogether. Prints these
/// kernels, and the memory in use after a quarter of the windows and at the end, KiB.
pub fn soak() {
    let (kernels, windows) = (number("STAGE2_TEST_KERNELS"), number("STAGE2_TEST_WINDOWS"));
    let rounds = (kernels / windows / THREADS / u64::from(DECODE_KERNELS)).max(1);
    cuda::init();
    let together = Barrier::new(THREADS as usize);
    let early = std::sync::OnceLock::new();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let stream = Stream::new();
                for window in 0..windows {
                    together.wait();
                    client().push(b"window_filter");
                    for _ in 0..rounds {
                        stream.launch(DECODE_KERNELS);
                    }
                    stream.synchronize();
                    client().pop();
                    // The last one switches collection off.
                    if together.wait().is_leader() && window == windows / 4 {
                        early.get_or_init(resident_kib);
                    }
                    stream.work(b"unwanted", UNWANTED);
                }
            });
        }
    });
    let launched = rounds * windows * THREADS * u64::from(DECODE_KERNELS);
    let early = early.get().expect("there were windows");
    println!("{launched} {early} {}", resident_kib());
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let now = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    now.trim().trim_end_matches("kB").trim().parse().expect("KiB")
}
