//! Guests that notice what others do not: signals, limits, little stack, filtered system calls.

use std::ffi::{c_int, c_void};
use std::os::unix::thread::JoinHandleExt as _;
use std::time::Duration;

use crate::cuda::{self, Stream};
use crate::hazards::plain;
use crate::nvtx::client;
use crate::process::{limit, pin};

/// Blocks all signals in its only thread, sends itself one and waits for it, as a program does that
/// handles its signals in one place. Our thread comes with NVTX, those of CUPTI with CUDA.
pub fn waits_for_a_signal() {
    client();
    cuda::init();
    Stream::new().launch(1);
    // SAFETY: the sets are initialised before they are used; the signal is sent to this process.
    let got = unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
        libc::kill(libc::getpid(), libc::SIGUSR1);
        let patience = libc::timespec { tv_sec: 5, tv_nsec: 0 };
        let mut one = std::mem::zeroed();
        libc::sigemptyset(&raw mut one);
        libc::sigaddset(&raw mut one, libc::SIGUSR1);
        libc::sigtimedwait(&raw const one, std::ptr::null_mut(), &raw const patience)
    };
    println!("got={}", got == libc::SIGUSR1);
}

/// Threads that a signal keeps for ever in the midst of what they do, which is NVTX calls. Then another one
/// works. Where the guest leaves its calls by `siglongjmp` it is the same for us: they never end.
pub fn kept_in_calls() {
    extern "C" fn keep(_signal: c_int) {
        loop {
            // SAFETY: no preconditions; async-signal-safe.
            unsafe { libc::pause() };
        }
    }
    // SAFETY: the handler is async-signal-safe.
    unsafe { libc::signal(libc::SIGUSR1, keep as *const () as libc::sighandler_t) };
    client();
    for _ in 0..60 {
        // One that is kept in the start of its thread holds locks of the C library's, which are not ours.
        let in_calls = std::sync::Barrier::new(5);
        let in_calls: &'static std::sync::Barrier = Box::leak(Box::new(in_calls));
        let work = move || {
            client().push_c(c"kept");
            client().pop();
            in_calls.wait();
            loop {
                client().push_c(c"kept");
                client().pop();
            }
        };
        let threads: Vec<std::thread::JoinHandle<()>> =
            (0..4).map(|_| std::thread::spawn(work)).collect();
        in_calls.wait();
        std::thread::sleep(Duration::from_millis(2));
        for thread in &threads {
            // SAFETY: the thread never ends.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) };
        }
    }
    std::thread::sleep(Duration::from_millis(20));
    cuda::init();
    let stream = Stream::new();
    for _ in 0..20 {
        stream.work(b"after", 3);
    }
}

/// Prints the signals that this thread has blocked, before and after it started us.
pub fn keeps_its_mask() {
    let blocked = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("status");
        status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("SigBlk").to_owned()
    };
    let before = blocked();
    plain();
    println!("same={}", before == blocked());
}

/// No file may grow at all, stderr, which is a file, included.
pub fn no_file_may_grow() {
    limit(libc::RLIMIT_FSIZE, 0, 0);
    plain();
}

/// The smallest stack that a thread may have.
const SMALLEST: usize = 16 << 10;

/// A thread with the smallest stack makes the first NVTX call of the process.
pub fn smallest_stack() {
    on_a_stack_of(SMALLEST, || {
        client().push(b"first");
        client().pop();
    });
    println!("worked on");
}

/// Prints how much stack the first NVTX call takes, and how much a push, a pop and a mark do, bytes.
pub fn stack_use() {
    let first = on_a_stack_of(1 << 20, || {
        client();
    });
    let nothing = on_a_stack_of(1 << 20, || ());
    let more = on_a_stack_of(1 << 20, || {
        client().push_c(c"a range");
        client().push_wide(&['w' as i32, 0]);
        client().mark(c"a mark");
        let id = client().start_c(c"started");
        client().end(id);
        client().pop();
        client().pop();
    });
    println!("{} {}", first - nothing, more - nothing);
}

/// Runs `body` on a thread with such a stack; how much of it was used, bytes.
fn on_a_stack_of(bytes: usize, body: fn()) -> usize {
    const PAINT: u8 = 0xA5;
    extern "C" fn run(body: *mut c_void) -> *mut c_void {
        // SAFETY: the caller passes a function of this type.
        let body: fn() = unsafe { std::mem::transmute(body) };
        body();
        std::ptr::null_mut()
    }
    // SAFETY: the stack is memory of this function until the thread has been joined.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let stack = libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0);
        assert_ne!(stack, libc::MAP_FAILED);
        std::ptr::write_bytes(stack.cast::<u8>(), PAINT, bytes);
        let (mut attributes, mut thread) = (std::mem::zeroed(), 0);
        libc::pthread_attr_init(&raw mut attributes);
        assert_eq!(libc::pthread_attr_setstack(&raw mut attributes, stack, bytes), 0);
        let body = body as *mut c_void;
        assert_eq!(libc::pthread_create(&raw mut thread, &raw const attributes, run, body), 0);
        libc::pthread_join(thread, std::ptr::null_mut());
        let memory = std::slice::from_raw_parts(stack.cast::<u8>(), bytes);
        bytes - memory.iter().position(|&byte| byte != PAINT).unwrap_or(bytes)
    }
}

/// Numbers of system calls that the filter below kills for.
const KILLING: [libc::c_long; 3] =
    [libc::SYS_sched_setscheduler, libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity];

/// Starts us from a pinned thread under a filter that ends the process at a scheduling call. Our
/// thread begins on one processor, then, and should be on those of the main thread.
pub fn filtered() {
    std::thread::spawn(under_a_filter).join().expect("ends");
}

fn under_a_filter() {
    pin();
    let statement = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let [first, second, third] = KILLING.map(|number| number as u32);
    let mut program = [
        statement(LOAD, 0, 0, 0),
        statement(EQUAL, 3, 0, first),
        statement(EQUAL, 2, 0, second),
        statement(EQUAL, 1, 0, third),
        statement(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        statement(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the filter is valid, and meant.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter), 0);
    }
    plain();
}
