//! Guests whose NVTX calls make no sense, or are far too many.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
        stream.run(5);
        nvtx.end(request);
        nvtx.pop();
        stream.launch(2);
    }
    stream.synchronize();
}

/// Threads that do noise, and calls of them all before the rounds begin: four times what the
/// collector's queue holds.
const NOISY: usize = 15;
const CALLS_BEFORE: usize = 4 << 16;

/// 300 rounds of two ranges with 10 and 20 kernels, while threads do `noise` without a pause. The
/// collector's thread has to share one processor with all of them, so that it cannot keep up,
/// however fast it is and whatever else runs on this machine.
fn flooded(noise: impl Fn() + Sync) {
    cuda::init();
    let (stream, calls) = (Stream::new(), &AtomicUsize::new(0));
    client();
    let (noise, stop) = (&noise, &AtomicBool::new(false));
    let crowd = Crowd::on_this_processor();
    std::thread::scope(|scope| {
        for _ in 0..NOISY {
            scope.spawn(|| {
                crowd.join();
                while !stop.load(Ordering::Relaxed) {
                    noise();
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while calls.load(Ordering::Relaxed) < CALLS_BEFORE {
            std::thread::sleep(Duration::from_millis(1));
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
    drop(crowd);
    stream.synchronize();
}

/// Threads that share a processor; the collector's is one of them while this lives.
struct Crowd {
    one: libc::cpu_set_t,
    before: libc::cpu_set_t,
    collector: libc::pid_t,
}

impl Crowd {
    fn on_this_processor() -> Self {
        // SAFETY: a set is plain bits, none of them set, and `before` is as large as is said.
        let (one, before) = unsafe {
            let (mut one, mut before): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
            let here = libc::sched_getcpu();
            libc::CPU_SET(usize::try_from(here).expect("a processor"), &mut one);
            libc::sched_getaffinity(0, size_of_val(&before), &raw mut before);
            (one, before)
        };
        let tasks = std::fs::read_dir("/proc/self/task").expect("tasks").flatten();
        let is_collector = |task: &std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|c| c == "stage2-drain\n")
        };
        let task = tasks.into_iter().find(is_collector).expect("the collector's thread");
        let collector = task.file_name().to_str().and_then(|id| id.parse().ok());
        let collector = collector.expect("the number of a thread");
        let crowd = Crowd { one, before, collector };
        crowd.move_collector(&crowd.one);
        crowd
    }

    /// The calling thread shares that processor from now on.
    fn join(&self) {
        // SAFETY: the set is as large as is said.
        unsafe { libc::sched_setaffinity(0, size_of_val(&self.one), &raw const self.one) };
    }

    fn move_collector(&self, to: &libc::cpu_set_t) {
        // SAFETY: the set is as large as is said.
        unsafe { libc::sched_setaffinity(self.collector, size_of_val(to), to) };
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.move_collector(&self.before);
    }
}

pub fn flood_of_marks() {
    flooded(|| {
        client().mark(c"mark");
    });
}

pub fn flood_of_ranges() {
    flooded(|| {
        client().push_c(c"noise");
        client().pop();
    });
}

/// Works without end under more marks than anybody can take in: the queue is full before the work
/// begins, and is never empty, because the collector's thread shares a processor.
pub fn flood_without_end() {
    cuda::init();
    let (stream, calls) = (Stream::new(), &AtomicUsize::new(0));
    client();
    let crowd = &Crowd::on_this_processor();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                crowd.join();
                loop {
                    client().mark(c"mark");
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while calls.load(Ordering::Relaxed) < CALLS_BEFORE {
            std::thread::sleep(Duration::from_millis(1));
        }
        loop {
            stream.launch(1);
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}
