//! What guests do: one function for each hazard, named for it.

use std::time::Duration;

use crate::cuda::{self, Stream};
use crate::nvtx::{client, range};
use crate::{
    commanded, crowd, delicate, ends, forks, hazards, hostile, process, repeated, schemas, soak,
    tools,
};

macro_rules! by_function {
    ($($module:ident: $($name:ident)+;)+) => {
        &[$($((stringify!($name), $module::$name as fn())),+),+]
    };
}

/// Those that have the names of their functions.
pub const NAMED: &[(&str, fn())] = by_function! {
    hazards: nothing sampled threads graph start_end strings unbalanced deep nvtx_only late_cuda
        works_for_a_while blocking_calls thread_exit many_threads transfers gated hang unfinished;
    commanded: obey;
    ends: child_in_the_same_memory exit_in_the_same_memory by_own_signal survives_own_signals
        becomes_another child_becomes_another ends_a_child main_ends main_ends_with_cuda
        main_ends_first main_ends_beside_a_start works_beside_the_end lives_on interrupted;
    process: fork_exec late_rank no_room no_room_for_a_while steady no_keys memory_runs_out
        ever_new_names cancelled little_memory little_address_space pinned idle_class close_all
        reopen;
    forks: prefork prefork_in_ranges;
    repeated: requests steps sampled_threads late_switch sampled_graph sampled_graph_waits
        sampled_fork never_closed hoard;
    crowd: come_and_go;
    soak: soak;
    delicate: waits_for_a_signal kept_in_calls keeps_its_mask no_file_may_grow smallest_stack
        stack_use filtered;
    hostile: bogus_ends flood_of_marks flood_of_ranges flood_without_end;
    schemas: nccl popped_elsewhere library_around every_pair hostile_payloads overridden;
    tools: profiler_beside profiler_first tool_beside records_taken few_records_taken finalized
        finalized_at_the_end exits_slowly exits_slowly_by_a_late_handler rests;
};

/// All others.
pub const OTHERS: &[(&str, fn())] = &[
    ("return", plain),
    ("exit", || {
        plain();
        std::process::exit(3);
    }),
    ("_exit", ends::at_once),
    ("_Exit", ends::at_once_by_iso_c),
    ("_exit_soon", || {
        client().push(b"never closed");
        // SAFETY: ends the process at once, as meant.
        unsafe { libc::_exit(0) };
    }),
    ("quick_exit", ends::quick),
    ("exit_from_a_thread", ends::from_a_thread),
    ("kill", || {
        plain();
        wait_for_a_flush();
        // SAFETY: kills this process, as meant.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }),
    ("fork_after_cuda", forks::after_cuda),
    ("fork_before_cuda", forks::before_cuda),
    ("fork_in_a_loop", forks::in_a_loop),
    ("fork_briefly", forks::briefly),
    ("fork_registers", forks::registers),
    ("fork_chain", forks::chain),
    ("fork_among_threads", forks::among_threads),
    ("fork_silently", forks::silently),
    ("fork_at_start", forks::at_start),
    ("fork_at_hooks", forks::at_hooks),
    ("crowd", crowd::all_at_once),
    ("sigpipe", || {
        // Rust ignores the signal; a C program does not.
        // SAFETY: the default action.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        plain();
    }),
    ("no_stderr", || {
        // SAFETY: the number is nobody's then.
        unsafe { libc::close(2) };
        plain();
        wait_for_a_flush();
        println!("{}", std::fs::read_link("/proc/self/fd/2").is_err());
    }),
];

/// Uses neither CUDA nor NVTX; prints its threads and open files.
fn nothing() {
    let count = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
    println!("threads={} files={}", count("/proc/self/task"), count("/proc/self/fd"));
}

impl Stream {
    /// Launches kernels in a range of their own.
    pub fn launch_in(&self, name: &[u8], kernels: u32) {
        client().push(name);
        self.launch(kernels);
        client().pop();
    }

    /// As [`Self::launch_in`], and waits for them within the range.
    pub fn work(&self, name: &[u8], kernels: u32) {
        client().push(name);
        self.run(kernels);
        client().pop();
    }
}

/// A prefill of 100 kernels and two decodes of 50 each, 7 kernels outside.
pub fn plain() {
    cuda::init();
    client();
    let stream = Stream::new();
    stream.launch(7);
    for (name, kernels) in [("prefill", 100), ("decode", 50), ("decode", 50)] {
        stream.work(name.as_bytes(), kernels);
    }
}

/// Twenty decode steps, after a moment without work; prints how many bytes they read on the simulated GPU.
fn sampled() {
    cuda::init();
    client();
    let stream = Stream::new();
    std::thread::sleep(Duration::from_millis(100));
    let mut bytes = 0;
    for _ in 0..20 {
        stream.work(b"decode", cuda::DECODE_KERNELS);
        bytes += cuda::decode_read_bytes();
    }
    println!("{bytes}");
}

/// GPU work in a range, over more than a second.
fn works_for_a_while() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    nvtx.push(b"work");
    for _ in 0..12 {
        stream.run(10);
        std::thread::sleep(Duration::from_millis(100));
    }
    nvtx.pop();
}

/// Calls that block, each with its begin and end by the monotonic clock, and some that do not.
fn blocking_calls() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    // SAFETY: `time` is a valid place for the result.
    let now = || unsafe {
        let mut time = std::mem::zeroed::<libc::timespec>();
        assert_eq!(libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time), 0);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    let timed = |name: &str, call: &dyn Fn()| {
        let begin = now();
        call();
        println!("{name} {begin} {}", now());
    };
    nvtx.push(b"work");
    for _ in 0..10 {
        stream.launch(300);
        timed("cuStreamSynchronize", &|| stream.synchronize());
        // Nothing is left to wait for.
        (0..5).for_each(|_| stream.synchronize());
        timed("cuMemcpyDtoH", &|| cuda::download_and_wait(50 << 20));
        timed("cuMemAlloc", &|| cuda::allocate(1 << 20));
        stream.upload(64);
    }
    nvtx.pop();
    stream.synchronize();
}

pub fn wait_for_a_flush() {
    std::thread::sleep(Duration::from_millis(300));
}

/// Four threads with their own ranges and streams, at the same time.
fn threads() {
    cuda::init();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            scope.spawn(move || {
                let stream = Stream::new();
                for _ in 0..20 {
                    stream.launch_in(format!("t{thread}.prefill").as_bytes(), 60 + thread);
                    stream.launch_in(format!("t{thread}.decode").as_bytes(), 10 + thread);
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
    stream.run(6);
}

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
    range(b"cpu work");
}

/// NVTX is used, also inside an open range, before CUDA is there.
fn late_cuda() {
    client().push(b"load");
    cuda::init();
    let stream = Stream::new();
    stream.run(9);
    client().pop();
    stream.work(b"work", 8);
}

/// Ranges in a thread-local destructor, after ours are gone.
fn thread_exit() {
    struct AtExit;
    impl Drop for AtExit {
        fn drop(&mut self) {
            range(b"in a destructor");
        }
    }
    thread_local!(static LAST: AtExit = const { AtExit });
    std::thread::spawn(|| {
        LAST.with(|_| {});
        range(b"in a thread");
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
                stream.work(b"many", 50);
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

/// WindowFilter and unwanted ranges in turn.
fn gated() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    for _ in 0..10 {
        stream.launch_in(b"prefill", 5);
        nvtx.push(b"decode");
        stream.launch_in(b"layer", 7);
        stream.launch(2);
        nvtx.pop();
        stream.launch(3);
    }
    stream.synchronize();
}

/// Ends while much of its work still runs.
fn unfinished() {
    plain();
    let stream = Stream::new();
    let graph = stream.capture(|| stream.launch(500));
    // What is behind a kernel that nobody releases still runs at the exit, however slow the machine is.
    stream.launch_named(c"spin_until_released");
    (0..2).for_each(|_| graph.replay(&stream));
}

/// Goes on until it is killed.
fn hang() {
    plain();
    println!("ready");
    std::thread::sleep(Duration::from_secs(60));
}
