//! What guests do with `fork`: prefork servers, pools of workers, chains, forks among busy threads.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use crate::cuda::{self, Stream};
use crate::hazards::plain;
use crate::nvtx::{self, client, range};

/// Runs `body` in a child, which ends by `_exit` if `body` returns. Its number.
fn child(body: impl FnOnce()) -> i32 {
    // SAFETY: the child does what it is to be tested with, and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        body();
        // SAFETY: ends the child at once, as meant.
        unsafe { libc::_exit(0) };
    }
    child
}

/// Waits for a child and prints how it ended.
fn wait(child: i32) {
    let mut status = 0;
    // SAFETY: the place is valid.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    println!("child={status}");
}

/// Forks within a range, after CUDA was initialised. The child leaves that range, and uses NVTX; it ends
/// in order. Further children only exec.
pub fn after_cuda() {
    plain();
    client().push(b"around the fork");
    let started = client().start("started before the fork");
    wait(child(|| {
        client().pop();
        client().end(started);
        (0..1000).for_each(|_| range(b"in the child"));
        std::process::exit(0);
    }));
    for _ in 0..2 {
        wait(child(|| {
            let argv = [c"true".as_ptr(), std::ptr::null()];
            // SAFETY: texts and list end as they have to.
            unsafe { libc::execvp(argv[0], argv.as_ptr()) };
        }));
    }
    let stream = Stream::new();
    stream.run(5);
    client().end(started);
    client().pop();
}

/// The parent uses NVTX only, and the child is the one to use CUDA.
pub fn before_cuda() {
    range(b"parent");
    wait(child(|| {
        plain();
        std::process::exit(0);
    }));
}

/// The parent uses nothing. Its children use the GPU at the same time, and end at once.
pub fn prefork() {
    let children: Vec<i32> = (0..4).map(|_| child(plain)).collect();
    children.into_iter().for_each(wait);
}

/// As [`prefork`], of a parent that holds ranges open on this thread and has handles for its children.
pub fn prefork_in_ranges() {
    let nvtx = client();
    let domain = nvtx.domain("server");
    let (request, late) = (nvtx.register(domain, "request"), nvtx.register(domain, "late"));
    nvtx.push(b"serve");
    nvtx.push_registered(domain, late, 1);
    let work = || {
        nvtx.push_registered(domain, request, 2);
        plain();
        nvtx.pop_in(domain);
        // Not theirs.
        nvtx.pop();
        nvtx.pop_in(domain);
    };
    let children: Vec<i32> = (0..3).map(|_| child(work)).collect();
    children.into_iter().for_each(wait);
    nvtx.pop_in(domain);
    nvtx.pop();
}

/// One child after the other, between ranges of the parent. Each uses NVTX.
pub fn in_a_loop() {
    for _ in 0..20 {
        range(b"parent");
        wait(child(|| range(b"child")));
    }
}

/// Children that open one range each. Prints how many pages the one with the fewest of them has touched.
pub fn briefly() {
    range(b"parent");
    let touched = (0..5).map(|_| {
        let child = child(|| range(b"child"));
        let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
        // SAFETY: the places are valid, and a struct of numbers may be zero.
        let usage = unsafe {
            libc::wait4(child, &raw mut status, 0, usage.as_mut_ptr());
            usage.assume_init()
        };
        assert_eq!(status, 0);
        usage.ru_minflt
    });
    println!("{}", touched.min().expect("children"));
}

/// A child that makes a domain and registers a string before its first range.
pub fn registers() {
    range(b"parent");
    wait(child(|| {
        let domain = client().domain("llm");
        let decode = client().register(domain, "decode");
        cuda::init();
        let stream = Stream::new();
        client().push_registered(domain, decode, 1);
        stream.launch(5);
        client().pop_in(domain);
        stream.run(3);
    }));
}

/// Children of children, three deep. The one in the middle uses nothing.
pub fn chain() {
    range(b"first");
    wait(child(|| {
        range(b"second");
        wait(child(|| wait(child(|| range(b"fourth")))));
    }));
}

pub fn among_threads() {
    static OVER: AtomicBool = AtomicBool::new(false);
    // Or the child waits for a thread that is only in its parent.
    client();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !OVER.load(Ordering::Relaxed) {
                    range(b"busy");
                    client().end(client().start("started"));
                }
            });
        }
        for _ in 0..10 {
            wait(child(|| (0..10).for_each(|_| range(b"child"))));
        }
        OVER.store(true, Ordering::Relaxed);
    });
}

/// A fork of which the C library knows nothing. The child uses NVTX, and exits in order.
pub fn silently() {
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

/// Forks while NVTX waits for its tool on another thread. The child pushes a range.
pub fn at_start() {
    let tasks = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let first = std::thread::spawn(|| client().pop());
    // The thread that we are about to be recorded by.
    while tasks() < 3 && !first.is_finished() {}
    let child = child(nvtx::push_and_pop_unanswered);
    first.join().expect("ends");
    wait(child);
}

/// Whether NVTX has its tool: not asked for, being asked for, there.
static NVTX: AtomicI32 = AtomicI32::new(0);
/// The status of a child that had no function of NVTX's to call.
const NO_RANGE: i32 = 9;
/// Forks of [`at_hooks`], at most: each slows the guest down, whose collector then makes more of the calls
/// that ask for forks, so that some runs took half a minute.
const MOST_FORKS: usize = 40;
/// Children of [`at_hooks`] that have not ended.
static LEFT: AtomicI32 = AtomicI32::new(0);

/// Forks on a thread of its own whenever the preloaded library of the test asks for it, which it does while
/// another thread is inside of the collector. Each child opens ten ranges. Meanwhile two threads work.
pub fn at_hooks() {
    // SAFETY: the library has such a number.
    let asked = unsafe {
        let place = libc::dlsym(libc::RTLD_DEFAULT, c"stage2_test_fork".as_ptr());
        place.cast::<AtomicI32>().as_ref().expect("the library of the test is preloaded")
    };
    asked.store(0, Ordering::SeqCst);
    std::thread::spawn(move || fork_when_asked(asked));
    NVTX.store(1, Ordering::SeqCst);
    client();
    NVTX.store(2, Ordering::SeqCst);
    cuda::init();
    let work = |name: &'static [u8]| {
        let stream = Stream::new();
        stream.launch(5);
        for _ in 0..10 {
            stream.work(name, 20);
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    let other = std::thread::spawn(move || work(b"other"));
    work(b"main");
    other.join().expect("ends");
    while LEFT.load(Ordering::SeqCst) > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("launched 410 kernels");
    std::process::exit(3);
}

/// By one write, also while another thread ends the process: `exit` takes the buffer away from `println`, which
/// then writes a line in parts.
fn print_whole_line(line: &str) {
    // SAFETY: the text is readable for its length.
    let written = unsafe { libc::write(1, line.as_ptr().cast(), line.len()) };
    assert_eq!(written, line.len() as isize, "standard output takes a line");
}

fn fork_when_asked(asked: &AtomicI32) {
    let in_child = || match NVTX.load(Ordering::SeqCst) {
        // Another thread has its lock, which is held for good here.
        1 if nvtx::push_and_pop_if_answered() => {}
        // SAFETY: ends the child at once, as meant.
        1 => unsafe { libc::_exit(NO_RANGE) },
        _ => (0..10).for_each(|_| range(b"child")),
    };
    let (mut children, mut forks) = (Vec::new(), 0);
    loop {
        if asked.load(Ordering::SeqCst) == 1 {
            children.push(child(in_child));
            LEFT.fetch_add(1, Ordering::SeqCst);
            forks += 1;
            // The library asks for no further fork once it finds -1.
            asked.store(if forks < MOST_FORKS { 0 } else { -1 }, Ordering::SeqCst);
        }
        children.retain(|&child| {
            let mut status = 0;
            // SAFETY: the place is valid.
            let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child;
            if ended {
                print_whole_line(&format!("child={status}\n"));
                LEFT.fetch_sub(1, Ordering::SeqCst);
            }
            !ended
        });
        std::thread::sleep(Duration::from_micros(50));
    }
}
