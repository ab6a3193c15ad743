//! Guests whose NVTX calls make no sense, or are far too many.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::cuda::{self, Stream};
use crate::nvtx::client;

/// Ends what was never started, and what was started twice; between that, wanted ranges.
pub fn bogus_ends() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    nvtx.end(0x4141_4141_4141_4141);
    let request = nvtx.start("want");
    stream.launch(3);
    nvtx.end(request);
    nvtx.end(request);
    for _ in 0..10 {
        nvtx.push(b"want");
        stream.launch(5);
        stream.synchronize();
        nvtx.end(request);
        nvtx.pop();
        stream.launch(2);
    }
    stream.synchronize();
}

/// 300 rounds of two ranges with 10 and 20 kernels, while three threads do `noise` without a pause.
fn flooded(noise: impl Fn() + Sync) {
    cuda::init();
    let stream = Stream::new();
    let (noise, stop) = (&noise, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    noise();
                }
            });
        }
        for _ in 0..300 {
            for (name, kernels) in [(c"A", 10), (c"B", 20)] {
                client().push_c(name);
                stream.launch(kernels);
                client().pop();
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        stop.store(true, Ordering::Relaxed);
    });
    stream.synchronize();
}

/// More marks than anybody can take in.
pub fn flood_of_marks() {
    flooded(|| {
        client().mark(c"mark");
    });
}

/// More ranges than anybody can take in.
pub fn flood_of_ranges() {
    flooded(|| {
        client().push_c(c"noise");
        client().pop();
    });
}

/// Killed after two seconds of work under more marks than anybody can take in.
pub fn flood_and_kill() {
    cuda::init();
    let stream = Stream::new();
    for _ in 0..8 {
        std::thread::spawn(|| {
            loop {
                client().mark(c"mark");
            }
        });
    }
    for _ in 0..200 {
        stream.launch(1);
        std::thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: kills this process, as meant.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}
