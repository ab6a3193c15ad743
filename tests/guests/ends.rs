//! How guests end their process, and what they do to the clock meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cuda::{self, Stream};
use crate::hazards::plain;
use crate::nvtx::client;

unsafe extern "C" {
    fn quick_exit(status: i32) -> !;
    #[link_name = "_Exit"]
    fn exit_at_once(status: i32) -> !;
}

/// Right after its last kernel.
pub fn at_once() {
    plain();
    // SAFETY: ends the process at once, as meant.
    unsafe { libc::_exit(4) };
}

/// The same by another name.
pub fn at_once_by_iso_c() {
    plain();
    // SAFETY: as above.
    unsafe { exit_at_once(4) };
}

/// `quick_exit`, with a handler of its own that makes a range.
pub fn quick() {
    unsafe extern "C" {
        fn at_quick_exit(handler: extern "C" fn()) -> i32;
    }
    extern "C" fn last() {
        client().push(b"quick handler");
        client().pop();
    }
    plain();
    // SAFETY: the handler may run at any time; ends the process, as meant.
    unsafe {
        at_quick_exit(last);
        quick_exit(4)
    };
}

/// `exit` on a thread that is not the main one, which sleeps.
pub fn from_a_thread() {
    plain();
    std::thread::spawn(|| std::process::exit(4));
    std::thread::sleep(Duration::from_secs(20));
}

/// A child that has its parent's memory calls `_exit`; the parent goes on.
pub fn child_in_the_same_memory() {
    extern "C" fn end(_: *mut libc::c_void) -> i32 {
        // SAFETY: ends the child, as CPython does after an exec that failed.
        unsafe { libc::_exit(9) }
    }
    beside_a_child(end);
}

/// The same with `exit`. The child uses up the exit handlers, so the parent ends by `_exit`.
pub fn exit_in_the_same_memory() {
    extern "C" fn end(_: *mut libc::c_void) -> i32 {
        // SAFETY: ends the child, as a wrong program does after an exec that failed.
        unsafe { libc::exit(9) }
    }
    beside_a_child(end);
    // SAFETY: ends the process at once, as meant.
    unsafe { libc::_exit(0) };
}

/// Works, lets a child that has this process's memory call `end`, and works on.
fn beside_a_child(end: extern "C" fn(*mut libc::c_void) -> i32) {
    plain();
    let mut stack = vec![0u8; 256 << 10];
    let mut status = 0;
    // SAFETY: the stack is the child's until it has ended, for which this call waits.
    unsafe {
        let top = stack.as_mut_ptr_range().end.cast();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let child = libc::clone(end, top, flags, std::ptr::null_mut());
        libc::waitpid(child, &raw mut status, 0);
    }
    println!("child={}", libc::WEXITSTATUS(status));
    let stream = Stream::new();
    client().push(b"after");
    stream.launch(5);
    stream.synchronize();
    client().pop();
}

/// Ends the main thread as `pthread_exit` in a C program does: from a stack of its own, because the
/// frames of Rust's start-up let nothing unwind through them.
pub fn end_main() {
    unsafe extern "C" {
        fn pthread_exit(value: *mut libc::c_void) -> !;
    }
    let stack = Box::leak(vec![0u8; 256 << 10].into_boxed_slice());
    // SAFETY: the context is initialised by the first call; its stack is never freed; the function
    // takes one word, which is 0.
    unsafe {
        let mut context: libc::ucontext_t = std::mem::zeroed();
        libc::getcontext(&raw mut context);
        context.uc_stack.ss_sp = stack.as_mut_ptr().cast();
        context.uc_stack.ss_size = stack.len();
        let end = std::mem::transmute::<*const (), extern "C" fn()>(pthread_exit as *const ());
        libc::makecontext(&raw mut context, end, 1, 0usize);
        libc::setcontext(&raw const context);
    }
}

/// The main thread ends after one range, the only thread of the guest.
pub fn main_ends() {
    client().push(b"main");
    client().pop();
    end_main();
}

/// The same with CUDA.
pub fn main_ends_with_cuda() {
    plain();
    end_main();
}

/// The main thread ends; another one works on for a while.
pub fn main_ends_first() {
    cuda::init();
    std::thread::spawn(|| {
        let stream = Stream::new();
        for _ in 0..10 {
            client().push(b"works on");
            stream.launch(3);
            stream.synchronize();
            client().pop();
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("worked on");
    });
    end_main();
}

/// The main thread ends; another one works on, which was started while CUPTI was being started.
pub fn main_ends_beside_a_start() {
    static CUDA_IS_THERE: AtomicBool = AtomicBool::new(false);
    let has_our_thread = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        tasks.flatten().any(|task| name(task).is_ok_and(|name| name.trim() == "stage2-drain"))
    };
    std::thread::spawn(|| {
        cuda::init();
        CUDA_IS_THERE.store(true, Ordering::Release);
    });
    while !has_our_thread() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // CUPTI's start follows at once, and `slow-enable` makes it last.
    std::thread::sleep(Duration::from_millis(100));
    let in_time = !CUDA_IS_THERE.load(Ordering::Acquire);
    std::thread::spawn(move || {
        while !CUDA_IS_THERE.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_secs(1));
        println!("worked on, started in time: {in_time}");
    });
    end_main();
}

/// Works for a second after its last range.
pub fn lives_on() {
    plain();
    std::thread::sleep(Duration::from_secs(1));
    println!("worked on");
}

/// A range and an end, while a timer interrupts every call: `STAGE2_TEST_TIMER_US` apart, with
/// `STAGE2_TEST_SLACK_MS` of slack for those who sleep.
pub fn interrupted() {
    extern "C" fn nothing(_: i32) {}
    let number = |name: &str| {
        std::env::var(name).ok().and_then(|value| value.parse::<i64>().ok()).expect("a number")
    };
    let every = libc::timeval { tv_sec: 0, tv_usec: number("STAGE2_TEST_TIMER_US") };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    let started = Instant::now();
    // SAFETY: the handler does nothing; the places are valid.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, number("STAGE2_TEST_SLACK_MS") * 1_000_000);
        libc::signal(libc::SIGALRM, nothing as *const () as libc::sighandler_t);
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
    client().push(b"interrupted");
    client().pop();
    println!("started in time: {}", started.elapsed() < Duration::from_secs(3));
}
