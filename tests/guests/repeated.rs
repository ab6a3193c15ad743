//! Guests that do the same many times: steps to sample, and everything that could pile up.

use std::sync::Barrier;
use std::time::Duration;

use crate::cuda::{self, Stream};
use crate::nvtx::{client, range};

/// Three times a prefill and 64 decode steps with ranges inside, and what is outside of them.
pub fn steps() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    for _ in 0..3 {
        stream.launch_in(b"prefill", 5);
        nvtx.push(b"decode");
        for _ in 0..64 {
            decode_step(&stream);
        }
        stream.launch(4);
        nvtx.pop();
    }
    stream.run(3);
}

fn decode_step(stream: &Stream) {
    client().push(b"decode_step");
    stream.launch_in(b"layer", 7);
    stream.launch(2);
    client().pop();
}

/// Threads that are in steps at the same time, sampled ones or not.
pub fn sampled_threads() {
    cuda::init();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            scope.spawn(move || {
                let stream = Stream::new();
                for _ in 0..200 {
                    client().push(
                        format!("t{}.step", ["a", "b", "c", "d"][thread as usize]).as_bytes(),
                    );
                    stream.launch(3 + thread);
                    client().pop();
                    stream.launch(1);
                }
                stream.synchronize();
            });
        }
    });
}

/// Two threads open a step that is sampled at the same time, and collection is not on in time for the
/// second one. Within it, ranges of another domain and a start/end range open when it is on.
pub fn late_switch() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    let domain = nvtx.domain("other domain");
    let inner = nvtx.register(domain, "inner");
    // Cold, so not sampled.
    for name in [b"early", b"later"] {
        range(name);
    }
    let (opening, opened, done) = (Barrier::new(2), Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stream = Stream::new();
            opening.wait();
            nvtx.push(b"early");
            opened.wait();
            stream.launch(3);
            done.wait();
            nvtx.pop();
            stream.synchronize();
        });
        opening.wait();
        // Well within the time that the other thread needs to switch collection on.
        std::thread::sleep(Duration::from_millis(100));
        nvtx.push(b"later");
        opened.wait();
        stream.launch(2);
        nvtx.push_registered(domain, inner, 0);
        stream.launch(4);
        nvtx.pop_in(domain);
        let started = nvtx.start("started");
        stream.launch(5);
        nvtx.end(started);
        nvtx.pop();
        done.wait();
    });
    // Outside of all ranges, and then in steps of which one is sampled: the switch is where it
    // has to be.
    stream.launch(6);
    for _ in 0..2 {
        stream.launch_in(b"later", 7);
    }
    stream.synchronize();
}

/// Requests that come and go while the thread that opens them launches their steps. Another thread ends the
/// older one first.
pub fn requests() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    let step = |name: &[u8], kernels| {
        stream.launch_in(name, kernels);
    };
    let first = nvtx.start("request");
    step(b"prefill", 5);
    let second = nvtx.start("request");
    step(b"prefill", 6);
    (0..3).for_each(|_| step(b"decode", 10));
    nvtx.push(b"decode");
    stream.launch(1);
    std::thread::spawn(move || client().end(first)).join().expect("ends");
    stream.launch(9);
    nvtx.pop();
    step(b"decode", 10);
    nvtx.end(second);
    stream.run(2);
}

/// A graph of 30 kernels, replayed in steps that do not wait for it.
pub fn sampled_graph() {
    graph_steps(false);
}

/// A graph of 30 kernels, replayed in steps that each wait for their replay.
pub fn sampled_graph_waits() {
    graph_steps(true);
}

fn graph_steps(wait: bool) {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    let graph = stream.capture(|| stream.launch(30));
    for _ in 0..64 {
        nvtx.push(b"decode_step");
        graph.replay(&stream);
        if wait {
            stream.synchronize();
        }
        nvtx.pop();
    }
    stream.synchronize();
}

/// Forks within a sampled step; the child goes on with steps of its own.
pub fn sampled_fork() {
    cuda::init();
    let stream = Stream::new();
    decode_step(&stream);
    client().push(b"decode_step");
    // SAFETY: the child only calls what any forked child may call, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // What is said of children after CUDA is another test's.
        // SAFETY: the only thread.
        unsafe { std::env::set_var("STAGE2_LOG", "off") };
        client().pop();
        for _ in 0..100 {
            range(b"decode_step");
        }
        // SAFETY: ends the child at once, as meant.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the place is valid.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    stream.launch(9);
    client().pop();
    for _ in 0..6 {
        decode_step(&stream);
    }
    stream.synchronize();
}

/// The second step, which is sampled, stays open; another thread goes on with its own.
pub fn never_closed() {
    cuda::init();
    let stream = Stream::new();
    decode_step(&stream);
    client().push(b"decode_step");
    stream.launch(6);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stream = Stream::new();
            for _ in 0..8 {
                stream.launch_in(b"other", 3);
            }
            stream.synchronize();
        });
    });
    stream.synchronize();
}

/// Keeps inventing: names, registered strings, threads, streams, ranges that are never ended and
/// millions of events, in every place where a table could grow. Prints how much memory the process
/// had at its worst, KiB.
pub fn hoard() {
    cuda::init();
    let nvtx = client();
    let stream = Stream::new();
    let resident_kib = || {
        let status = std::fs::read_to_string("/proc/self/status").expect("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number")
    };
    let mut most = 0;
    let domain = nvtx.domain("hoard");
    for round in 0..100u32 {
        for i in 0..1000 {
            let name = format!("range {round} {i} {}", "x".repeat(200));
            nvtx.push(name.as_bytes());
            nvtx.register(domain, &name);
            nvtx.start("never ended");
            for _ in 0..5 {
                range(b"inner");
            }
            stream.launch(1);
            nvtx.pop();
        }
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    client().push(b"in a thread");
                    Stream::new().launch(1);
                    client().pop();
                });
            }
        });
        stream.synchronize();
        most = most.max(resident_kib());
    }
    println!("{most}");
}
