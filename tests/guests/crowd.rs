//! Guests with many launching threads. `STAGE2_TEST_THREADS` says how many.

use std::sync::Barrier;
use std::time::Duration;

use crate::cuda::{self, Stream};

const AT_A_TIME: usize = 40;
const PAUSE: Duration = Duration::from_millis(10);

fn threads() -> usize {
    let text = std::env::var("STAGE2_TEST_THREADS").expect("STAGE2_TEST_THREADS is set");
    text.parse().expect("a number")
}

/// All threads at the same time, each with work before and after the others had theirs: 40 kernels
/// in a range `crowd`, one outside. Prints the memory that the process had at its worst, KiB.
pub fn all_at_once() {
    cuda::init();
    let threads = threads();
    let (first, second) = (Barrier::new(threads), Barrier::new(threads));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let stream = Stream::new();
                for barrier in [&first, &second] {
                    stream.launch_in(b"crowd", 20);
                    barrier.wait();
                }
                stream.run(1);
            });
        }
    });
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let worst = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    println!("{}", worst.trim().trim_end_matches("kB").trim());
}

/// Threads that launch 4 kernels in a range `short` and end, one after another, in no hurry: on a busy
/// machine the collector has to get a turn.
pub fn come_and_go() {
    cuda::init();
    let mut left = threads();
    while left > 0 {
        let now = left.min(AT_A_TIME);
        std::thread::scope(|scope| {
            for _ in 0..now {
                scope.spawn(|| {
                    let stream = Stream::new();
                    stream.work(b"short", 4);
                });
            }
        });
        left -= now;
        std::thread::sleep(PAUSE);
    }
}
