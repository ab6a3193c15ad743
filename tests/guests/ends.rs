//! How guests end their process, and what they do to the clock meanwhile.

use std::ffi::c_char;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cuda::{self, Stream};
use crate::hazards::plain;
use crate::nvtx::range;

unsafe extern "C" {
    fn quick_exit(status: i32) -> !;
    #[link_name = "_Exit"]
    fn exit_at_once(status: i32) -> !;
}

/// Ends by `_exit` right after its last kernel.
pub fn at_once() {
    plain();
    // SAFETY: ends the process at once, as meant.
    unsafe { libc::_exit(4) };
}

/// Ends by ISO C's `_Exit` right after its last kernel.
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
        range(b"quick handler");
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

/// A child that has its parent's memory calls `exit`. It uses up the exit handlers, so the parent
/// ends by `_exit`.
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
    work_on();
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
    range(b"main");
    end_main();
}

/// The main thread ends after GPU work, the only thread of the guest.
pub fn main_ends_with_cuda() {
    plain();
    end_main();
}

pub fn main_ends_first() {
    cuda::init();
    std::thread::spawn(|| {
        let stream = Stream::new();
        for _ in 0..10 {
            stream.work(b"works on", 3);
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

/// Its exit handler starts a thread that works on while the process ends.
pub fn works_beside_the_end() {
    extern "C" fn last() {
        let (works, at_work) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let stream = Stream::new();
            let started = Instant::now();
            while started.elapsed() < Duration::from_secs(5) {
                stream.launch_in(b"beside the end", 3);
                stream.synchronize();
                let _ = works.send(());
            }
        });
        let _ = at_work.recv();
    }
    plain();
    // SAFETY: the handler may run at any time.
    unsafe { libc::atexit(last) };
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
    range(b"interrupted");
    println!("started in time: {}", started.elapsed() < Duration::from_secs(3));
}

unsafe extern "C" {
    fn tgkill(pid: i32, thread: i32, signal: i32) -> i32;
    fn sigqueue(pid: i32, signal: i32, value: usize) -> i32;
    fn execveat(
        folder: i32,
        path: *const c_char,
        argv: *const *const c_char,
        envp: *const *const c_char,
        flags: i32,
    ) -> i32;
    static environ: *const *const c_char;
}

fn way() -> String {
    std::env::var("STAGE2_TEST_WAY").expect("a way")
}

/// Ends by a signal of its own, in the way that is asked for.
pub fn by_own_signal() {
    plain();
    // SAFETY: each sends this process a signal, as meant.
    unsafe {
        let (own, signal) = (libc::getpid(), libc::SIGTERM);
        match way().as_str() {
            "raise" => libc::raise(signal),
            "kill" => libc::kill(own, signal),
            "killpg" => libc::killpg(libc::getpgrp(), signal),
            "tgkill" => tgkill(own, own, signal),
            "pthread_kill" => libc::pthread_kill(libc::pthread_self(), signal),
            "sigqueue" => sigqueue(own, signal, 0),
            "abort" => libc::abort(),
            other => panic!("no way {other}"),
        };
    }
}

/// Handles a signal and puts one off, sends them to itself, and works on.
pub fn survives_own_signals() {
    extern "C" fn nothing(_: i32) {}
    plain();
    // SAFETY: the handler does nothing; the set is initialised.
    unsafe {
        libc::signal(libc::SIGTERM, nothing as *const () as libc::sighandler_t);
        let mut put_off = std::mem::zeroed();
        libc::sigemptyset(&raw mut put_off);
        libc::sigaddset(&raw mut put_off, libc::SIGINT);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const put_off, std::ptr::null_mut());
        for signal in [libc::SIGTERM, libc::SIGCHLD, libc::SIGINT, 0] {
            assert_eq!(libc::raise(signal), 0);
            assert_eq!(libc::kill(libc::getpid(), signal), 0);
        }
        assert_eq!((libc::raise(99), libc::kill(libc::getpid(), 99)), (-1, -1));
    }
    work_on();
    // What was put off must not end the process before its exit handlers.
    std::process::exit(3);
}

fn work_on() {
    let stream = Stream::new();
    stream.work(b"after", 5);
}

/// Becomes `echo`, in the way that is asked for, after execs that fail.
pub fn becomes_another() {
    plain();
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("no program");
    std::fs::write(&text, [0; 64]).expect("a file");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&text, all).expect("may be run");
    let text = std::ffi::CString::new(text.to_str().expect("text")).expect("a path");
    let (path, argv) = (c"/bin/echo".as_ptr(), [c"echo".as_ptr(), c"became".as_ptr(), ptr::null()]);
    // SAFETY: paths, arguments and the environment end as these functions ask for.
    unsafe {
        let (argv, none) = (argv.as_ptr(), ptr::null::<c_char>());
        assert_eq!(libc::execv(c"/nonexistent".as_ptr(), argv), -1);
        assert_eq!(libc::execv(text.as_ptr(), argv), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOEXEC));
        work_on();
        drop(folder);
        let (zero, one) = (c"echo".as_ptr(), c"became".as_ptr());
        match way().as_str() {
            "execve" => libc::execve(path, argv, environ),
            "execv" => libc::execv(path, argv),
            "execvp" => libc::execvp(zero, argv),
            "execvpe" => libc::execvpe(zero, argv, environ),
            "execl" => libc::execl(path, zero, one, none),
            "execlp" => libc::execlp(zero, zero, one, none),
            "execle" => libc::execle(path, zero, one, none, environ),
            "fexecve" => libc::fexecve(libc::open(path, libc::O_RDONLY), argv, environ),
            "execveat" => execveat(libc::AT_FDCWD, path, argv, environ, 0),
            // More arguments than there are registers.
            "long execl" => {
                let e = c"".as_ptr();
                libc::execl(path, zero, e, e, e, e, e, e, e, e, one, none)
            }
            other => panic!("no way {other}"),
        };
    }
    unreachable!("{}", std::io::Error::last_os_error());
}

/// A child that has its parent's memory becomes another program.
pub fn child_becomes_another() {
    extern "C" fn become_true(_: *mut libc::c_void) -> i32 {
        let argv = [c"sh".as_ptr(), c"-c".as_ptr(), c"exit 9".as_ptr(), ptr::null()];
        // SAFETY: path and arguments end as asked for.
        unsafe { libc::execv(c"/bin/sh".as_ptr(), argv.as_ptr()) }
    }
    beside_a_child(become_true);
}

/// Ends a child that works and then waits, by the signal that is asked for.
pub fn ends_a_child() {
    let (signal, mut ready) = (way().parse::<i32>().expect("a number"), [0; 2]);
    // SAFETY: the places are valid; the child only works and waits.
    unsafe {
        assert_eq!(libc::pipe(ready.as_mut_ptr()), 0);
        let child = libc::fork();
        if child == 0 {
            plain();
            libc::write(ready[1], ready.as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        let (mut byte, mut status) = (0u8, 0);
        libc::read(ready[0], (&raw mut byte).cast(), 1);
        let started = Instant::now();
        assert_eq!(libc::kill(child, signal), 0);
        libc::waitpid(child, &raw mut status, 0);
        // Nobody is there any more.
        assert_eq!(libc::kill(child, signal), -1);
        println!("child={} soon={}", libc::WTERMSIG(status), started.elapsed().as_secs() < 2);
    }
}

static LINGERS: AtomicBool = AtomicBool::new(false);

static GOES_ON: AtomicBool = AtomicBool::new(false);

/// Has exit stop in a handler, and again behind all handlers, each time until a SIGUSR1 comes; says where it is.
pub fn linger() {
    extern "C" fn go_on(_: i32) {
        GOES_ON.store(true, Ordering::SeqCst);
    }
    LINGERS.store(true, Ordering::SeqCst);
    // SAFETY: the handler only stores.
    unsafe { libc::signal(libc::SIGUSR1, go_on as *const () as libc::sighandler_t) };
}

/// Right before the end, because the collector registers its handler again from time to time, and the latest one runs
/// first.
pub fn register_what_lingers() {
    if LINGERS.load(Ordering::SeqCst) {
        // SAFETY: the handler is a function of this program.
        unsafe { libc::atexit(in_a_handler) };
    }
}

extern "C" fn in_a_handler() {
    say_and_wait("ok in a handler");
}

#[used]
#[unsafe(link_section = ".fini_array")]
static BEHIND_HANDLERS: extern "C" fn() = {
    extern "C" fn behind_handlers() {
        if LINGERS.load(Ordering::SeqCst) {
            say_and_wait("ok behind the handlers");
        }
    }
    behind_handlers
};

fn say_and_wait(where_it_is: &str) {
    println!("{where_it_is}");
    let started = Instant::now();
    while !GOES_ON.swap(false, Ordering::SeqCst) && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(200));
    }
}
