//! What guests do: one function for each hazard, named for it.

use std::time::Duration;

use crate::cuda::{self, Stream};
use crate::nvtx::client;
use crate::repeated;

/// Name and body.
pub const ALL: &[(&str, fn())] = &[
    ("nothing", nothing),
    ("return", plain),
    ("exit", || {
        plain();
        std::process::exit(3);
    }),
    ("_exit", || {
        plain();
        wait_for_a_flush();
        // SAFETY: ends the process at once, as meant.
        unsafe { libc::_exit(4) };
    }),
    ("_exit_soon", || {
        client().push(b"never written");
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }),
    ("kill", || {
        plain();
        wait_for_a_flush();
        // SAFETY: kills this process, as meant.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }),
    ("fork", fork),
    ("fork_exec", fork_exec),
    ("fork_silently", fork_silently),
    ("fork_before_cuda", fork_before_cuda),
    ("fork_at_start", fork_at_start),
    ("threads", threads),
    ("graph", graph),
    ("start_end", start_end),
    ("strings", strings),
    ("unbalanced", unbalanced),
    ("deep", deep),
    ("nvtx_only", nvtx_only),
    ("late_cuda", late_cuda),
    ("thread_exit", thread_exit),
    ("many_threads", many_threads),
    ("transfers", transfers),
    ("gated", gated),
    ("steps", repeated::steps),
    ("sampled_threads", repeated::sampled_threads),
    ("late_switch", repeated::late_switch),
    ("sampled_graph", repeated::sampled_graph),
    ("sampled_graph_waits", repeated::sampled_graph_waits),
    ("sampled_fork", repeated::sampled_fork),
    ("never_closed", repeated::never_closed),
    ("hoard", repeated::hoard),
    ("hang", hang),
    ("no_room", no_room),
    ("sigpipe", || {
        // Rust ignores the signal; a C program does not.
        // SAFETY: the default action.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        plain();
    }),
    ("cancelled", cancelled),
    ("little_memory", little_memory),
    ("pinned", pinned),
    ("close_all", close_all),
    ("no_stderr", || {
        // SAFETY: the number is nobody's then.
        unsafe { libc::close(2) };
        plain();
        wait_for_a_flush();
        println!("{}", std::fs::read_link("/proc/self/fd/2").is_err());
    }),
    ("reopen", reopen),
];

/// Uses neither CUDA nor NVTX; prints its threads and open files.
fn nothing() {
    let count = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
    println!("threads={} files={}", count("/proc/self/task"), count("/proc/self/fd"));
}

/// A prefill of 100 kernels and two decodes of 50 each, 7 kernels outside.
fn plain() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    stream.launch(7);
    for (name, kernels) in [("prefill", 100), ("decode", 50), ("decode", 50)] {
        nvtx.push(name.as_bytes());
        stream.launch(kernels);
        stream.synchronize();
        nvtx.pop();
    }
}

fn wait_for_a_flush() {
    std::thread::sleep(Duration::from_millis(300));
}

/// The child must be left alone, whatever it does; the parent is complete.
fn fork() {
    plain();
    // SAFETY: the child only calls what any forked child may call, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        for _ in 0..1000 {
            client().push(b"in the child");
            client().pop();
        }
        std::process::exit(0);
    }
    let mut status = 0;
    // SAFETY: the place is valid.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    println!("child={status}");
    client().push(b"after fork");
    let stream = Stream::new();
    stream.launch(5);
    stream.synchronize();
    client().pop();
}

/// A fork of which the C library knows nothing. The child uses NVTX, and exits in order.
fn fork_silently() {
    plain();
    // SAFETY: the child only calls what it is to be tested with, and ends.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if child == 0 {
        let level = client().push(b"in the child");
        // Not tracked: we are off.
        std::process::exit(level);
    }
    let mut status = 0;
    // SAFETY: the place is valid.
    unsafe { libc::waitpid(child as libc::pid_t, &raw mut status, 0) };
    println!("child={}", libc::WEXITSTATUS(status) as i8);
}

/// The parent uses NVTX only, and the child is the one to use CUDA.
fn fork_before_cuda() {
    client().push(b"parent");
    client().pop();
    // SAFETY: the child only calls what any forked child may call, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        plain();
        std::process::exit(0);
    }
    let mut status = 0;
    // SAFETY: the place is valid.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    println!("child={status}");
}

/// Forks while another thread waits for NVTX to be loaded; the child uses it as well.
fn fork_at_start() {
    let tasks = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let first = std::thread::spawn(|| client().pop());
    // The thread that we are about to be recorded by.
    while tasks() < 3 && !first.is_finished() {}
    // SAFETY: the child only calls what it is to be tested with, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        client().pop();
        // SAFETY: ends the process at once, as meant.
        unsafe { libc::_exit(0) };
    }
    first.join().expect("ends");
    let mut status = -1;
    for _ in 0..500 {
        // SAFETY: the place is valid.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: a child of ours, ended or not.
    unsafe { libc::kill(child, libc::SIGKILL) };
    println!("child={status}");
}

/// The child becomes a guest of its own.
fn fork_exec() {
    plain();
    let program = std::env::current_exe().expect("own path");
    let status = std::process::Command::new(program).arg("return").status().expect("starts");
    println!("child={status}");
}

/// Four threads with their own ranges and streams, at the same time.
fn threads() {
    cuda::init();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            scope.spawn(move || {
                let stream = Stream::new();
                for _ in 0..20 {
                    client().push(format!("t{thread}.prefill").as_bytes());
                    stream.launch(60 + thread);
                    client().pop();
                    client().push(format!("t{thread}.decode").as_bytes());
                    stream.launch(10 + thread);
                    client().pop();
                    stream.launch(1);
                }
                stream.synchronize();
            });
        }
    });
}

/// Captured under one path, replayed under another.
fn graph() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    nvtx.push(b"capture");
    nvtx.push(b"layer.0");
    let graph = stream.capture(|| {
        stream.launch(10);
        nvtx.pop();
        nvtx.push(b"layer.1");
        stream.launch(20);
    });
    nvtx.pop();
    nvtx.pop();
    nvtx.push(b"decode");
    for _ in 0..5 {
        graph.replay(&stream);
    }
    stream.synchronize();
    nvtx.pop();
}

/// A range that another thread ends, and two that do not nest.
fn start_end() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    let request = nvtx.start("request");
    stream.launch(11);
    std::thread::spawn(move || client().end(request)).join().expect("ends");
    stream.launch(3);
    let outer = nvtx.start("outer");
    let inner = nvtx.start("inner");
    stream.launch(4);
    nvtx.end(outer);
    stream.launch(5);
    nvtx.end(inner);
    stream.launch(6);
    stream.synchronize();
}

/// Names of every kind.
fn strings() {
    let nvtx = client();
    nvtx.push(b"bad utf8 \xff\xfe");
    nvtx.push(b"pipe | newline \n escape \x1b[31m <b>html</b>");
    nvtx.push(&"long".repeat(1000).into_bytes());
    nvtx.push(b"");
    let wide: Vec<i32> = "wide é漢".chars().map(|c| c as i32).chain([0]).collect();
    nvtx.push_wide(&wide);
    for _ in 0..5 {
        nvtx.pop();
    }
    let domain = nvtx.domain("llm");
    let string = nvtx.register(domain, "registered");
    nvtx.push_registered(domain, string, -42);
    nvtx.pop_in(domain);
}

fn unbalanced() {
    let nvtx = client();
    let level = nvtx.pop();
    nvtx.end(12345 << 1);
    nvtx.push(b"never closed");
    println!("level={level}");
}

fn deep() {
    let nvtx = client();
    for _ in 0..10_000 {
        nvtx.push(b"deep");
    }
    let level = nvtx.push(b"bottom");
    nvtx.pop();
    for _ in 0..10_000 {
        nvtx.pop();
    }
    println!("level={level}");
}

fn nvtx_only() {
    client().push(b"cpu work");
    client().pop();
}

/// NVTX is used, also inside an open range, before CUDA is there.
fn late_cuda() {
    client().push(b"load");
    cuda::init();
    let stream = Stream::new();
    stream.launch(9);
    stream.synchronize();
    client().pop();
    client().push(b"work");
    stream.launch(8);
    stream.synchronize();
    client().pop();
}

/// Ranges in a thread-local destructor, after ours are gone.
fn thread_exit() {
    struct AtExit;
    impl Drop for AtExit {
        fn drop(&mut self) {
            client().push(b"in a destructor");
            client().pop();
        }
    }
    thread_local!(static LAST: AtExit = const { AtExit });
    std::thread::spawn(|| {
        LAST.with(|_| {});
        client().push(b"in a thread");
        client().pop();
    })
    .join()
    .expect("ends");
}

/// More launching threads than there are buffers.
fn many_threads() {
    cuda::init();
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                let stream = Stream::new();
                client().push(b"many");
                stream.launch(50);
                stream.synchronize();
                client().pop();
            });
        }
    });
}

fn transfers() {
    cuda::init();
    let stream = Stream::new();
    client().push(b"io");
    stream.upload(1 << 20);
    stream.fill(4096);
    stream.synchronize();
    client().pop();
}

/// Wanted and unwanted ranges in turn.
fn gated() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    for _ in 0..10 {
        nvtx.push(b"prefill");
        stream.launch(5);
        nvtx.pop();
        nvtx.push(b"decode");
        nvtx.push(b"layer");
        stream.launch(7);
        nvtx.pop();
        stream.launch(2);
        nvtx.pop();
        stream.launch(3);
    }
    stream.synchronize();
}

/// The plain guest where no file may grow beyond 32 KiB, and much work after it.
fn no_room() {
    let limit = libc::rlimit { rlim_cur: 32 << 10, rlim_max: 32 << 10 };
    // SAFETY: the struct is valid; the limit is meant.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    plain();
    wait_for_a_flush();
    let stream = Stream::new();
    for _ in 0..20 {
        client().push(b"more");
        stream.launch(500);
        stream.synchronize();
        client().pop();
    }
    wait_for_a_flush();
    println!("worked on");
}

/// The first range of the process comes from a thread that is to be cancelled.
fn cancelled() {
    unsafe extern "C" {
        fn pthread_cancel(thread: libc::pthread_t) -> i32;
        fn pthread_setcancelstate(state: i32, old: *mut i32) -> i32;
    }
    std::thread::spawn(|| {
        // SAFETY: the thread is this one, and comes to none of its own cancellation points before
        // it holds the request off (1: disable), so that no frame of Rust is unwound.
        unsafe { pthread_cancel(libc::pthread_self()) };
        client().push(b"while cancelled");
        client().pop();
        let mut before = 0;
        // SAFETY: the place is valid.
        unsafe { pthread_setcancelstate(1, &raw mut before) };
        println!("cancelable={}", before == 0);
    })
    .join()
    .expect("ends");
}

/// May take 4 MiB more of address space when it first uses NVTX.
fn little_memory() {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: u64 = pages.split(' ').next().and_then(|text| text.parse().ok()).expect("pages");
    let bytes = pages * 4096 + (4 << 20);
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the struct is valid; the limit is meant.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    client().push(b"work");
    client().pop();
    println!("worked on");
}

/// The thread that first uses NVTX is pinned to a processor, and of a lower class than others.
fn pinned() {
    std::thread::spawn(|| {
        // SAFETY: the places are valid and of the sizes given; 0 is this thread.
        unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(libc::sched_getcpu() as usize, &mut one);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const one);
            let plain: libc::sched_param = std::mem::zeroed();
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const plain);
        }
        client().pop();
    })
    .join()
    .expect("ends");
    for task in std::fs::read_dir("/proc/self/task").expect("tasks").flatten() {
        let text = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let is_main = task.file_name().to_str() == Some(&std::process::id().to_string());
        if !is_main && text("comm").trim() != "stage2-drain" {
            continue;
        }
        let status = text("status");
        let allowed = status.lines().find(|line| line.starts_with("Cpus_allowed:"));
        let class = text("stat").split(' ').nth(40).map(str::to_owned);
        println!("{allowed:?} {class:?}");
    }
}

/// Closes every descriptor that it does not know, as daemons do, and opens files of its own.
fn close_all() {
    plain();
    wait_for_a_flush();
    let highest = std::fs::read_dir("/proc/self/fd")
        .expect("descriptors")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .max()
        .unwrap_or(3);
    for number in 3..=highest {
        // SAFETY: that is the hazard.
        unsafe { libc::close(number) };
    }
    let files: Vec<std::fs::File> =
        (3..=highest).map(|_| tempfile::tempfile().expect("a file")).collect();
    for _ in 0..5 {
        client().push(b"more");
        client().pop();
        wait_for_a_flush();
    }
    let bytes: u64 = files.iter().map(|file| file.metadata().map_or(1, |file| file.len())).sum();
    println!("bytes={bytes}");
}

/// Counts on getting the number that it has just closed.
fn reopen() {
    client().pop();
    let others = (0..300)
        .filter(|_| {
            // SAFETY: the path is NUL-terminated, and nothing else uses standard input.
            unsafe {
                libc::close(0);
                libc::open(c"/dev/zero".as_ptr(), libc::O_RDONLY) != 0
            }
        })
        .count();
    println!("others={others}");
}

/// Goes on until it is killed.
fn hang() {
    plain();
    println!("ready");
    std::thread::sleep(Duration::from_secs(60));
}
