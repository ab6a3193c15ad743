//! What guests do to their process: an exec, descriptors, limits, scheduling, cancellation.

use crate::cuda::Stream;
use crate::hazards::{plain, wait_for_a_flush};
use crate::nvtx::{client, range};

/// The child becomes a guest of its own.
pub fn fork_exec() {
    plain();
    let program = std::env::current_exe().expect("own path");
    let status = std::process::Command::new(program).arg("return").status().expect("starts");
    println!("child={status}");
}

/// The first range of the process comes from a thread that is to be cancelled.
pub fn cancelled() {
    unsafe extern "C" {
        fn pthread_cancel(thread: libc::pthread_t) -> i32;
        fn pthread_setcancelstate(state: i32, old: *mut i32) -> i32;
    }
    std::thread::spawn(|| {
        // SAFETY: the thread is this one, and comes to none of its own cancellation points before
        // it holds the request off (1: disable), so that no frame of Rust is unwound.
        unsafe { pthread_cancel(libc::pthread_self()) };
        range(b"while cancelled");
        let mut before = 0;
        // SAFETY: the place is valid.
        unsafe { pthread_setcancelstate(1, &raw mut before) };
        println!("cancelable={}", before == 0);
    })
    .join()
    .expect("ends");
}

/// As `ulimit -v`: so many MiB more than there are now.
fn limit_address_space(mib: u64) {
    let bytes = address_space() + (mib << 20);
    limit(libc::RLIMIT_AS, bytes, bytes);
}

/// Bytes of address space that are in use.
pub fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: u64 = pages.split(' ').next().and_then(|text| text.parse().ok()).expect("pages");
    pages * 4096
}

/// A limit that can be taken back.
pub fn limit_for_a_while(what: libc::__rlimit_resource_t, soft: u64) {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the place is valid.
    assert_eq!(unsafe { libc::getrlimit(what, &raw mut now) }, 0);
    limit(what, soft.min(now.rlim_max), now.rlim_max);
}

/// May take 4 MiB more of address space when it first uses NVTX.
pub fn little_memory() {
    limit_address_space(4);
    range(b"work");
    println!("worked on");
}

/// The plain guest that may take less address space than the pool of buffers would like to have.
pub fn little_address_space() {
    limit_address_space(320);
    plain();
}

/// The thread that first uses NVTX is pinned to a processor, and of a lower class than others.
pub fn pinned() {
    std::thread::spawn(|| {
        pin_and_lower();
        client().pop();
    })
    .join()
    .expect("ends");
    print_scheduling();
}

/// Pins this thread to the processor that it is on.
pub fn pin() {
    // SAFETY: the set is valid and of the size given; 0 is this thread.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut one);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const one);
    }
}

fn set_class(class: i32) {
    // SAFETY: the place is valid; 0 is this thread.
    unsafe {
        let plain: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, class, &raw const plain);
    }
}

fn pin_and_lower() {
    pin();
    set_class(libc::SCHED_BATCH);
}

pub fn limit(what: libc::__rlimit_resource_t, soft: u64, hard: u64) {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the struct is valid; the limit is meant.
    assert_eq!(unsafe { libc::setrlimit(what, &raw const limit) }, 0);
}

/// Starts us on a pinned thread of a lower class, works on two threads, says so and ends with a status of
/// its own.
pub fn steady() {
    std::thread::spawn(|| {
        pin_and_lower();
        range(b"before");
    })
    .join()
    .expect("ends");
    plain();
    let worker = || {
        let stream = Stream::new();
        stream.work(b"worker", 20);
    };
    std::thread::spawn(worker).join().expect("ends");
    println!("launched 227 kernels");
    std::process::exit(3);
}

/// Another part of the program has taken all thread-specific keys.
pub fn no_keys() {
    let mut key = 0;
    // SAFETY: the place is valid; nobody looks at the keys.
    while unsafe { libc::pthread_key_create(&raw mut key, None) } == 0 {}
    plain();
    println!("worked on");
}

/// May take no more memory once we run, and opens ranges of ever new names without taking any itself.
pub fn memory_runs_out() {
    plain();
    // Until the collector has taken in what was done before.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:")).expect("VmData");
    let kib: u64 = data.trim().trim_end_matches(" kB").parse().expect("KiB");
    println!("has what it needs");
    limit(libc::RLIMIT_DATA, (kib + 64) << 10, (kib + 64) << 10);
    open_ranges_of_new_names();
    println!("worked on");
}

/// Has our thread allocate all the time.
pub fn ever_new_names() {
    plain();
    open_ranges_of_new_names();
    // The collector takes all of them in while the guest still lives.
    std::thread::sleep(std::time::Duration::from_millis(500));
    println!("worked on");
}

fn open_ranges_of_new_names() {
    let mut name = *b"a name that nobody had before: 00000000\0";
    for number in 0..30_000u32 {
        let mut rest = number;
        for digit in name[31..39].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        client().push_c(std::ffi::CStr::from_bytes_with_nul(&name).expect("a text"));
        client().pop();
        if number.is_multiple_of(100) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

/// The whole guest is of the class for what may wait, as under `chrt -i 0`.
pub fn idle_class() {
    set_class(libc::SCHED_IDLE);
    client().pop();
    print_scheduling();
}

/// Prints processors and class of the main thread, and of ours.
fn print_scheduling() {
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
pub fn close_all() {
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
    if std::env::var_os("STAGE2_TEST_REPLACE").is_some() {
        let out = std::env::var_os("STAGE2_OUT").expect("a folder");
        for file in std::fs::read_dir(out).expect("a folder").flatten() {
            std::fs::remove_file(file.path()).expect("the trace file");
            std::fs::write(file.path(), "").expect("another file");
        }
    }
    let files: Vec<std::fs::File> =
        (3..=highest).map(|_| tempfile::tempfile().expect("a file")).collect();
    for _ in 0..5 {
        range(b"more");
        wait_for_a_flush();
    }
    let bytes: u64 = files.iter().map(|file| file.metadata().map_or(1, |file| file.len())).sum();
    println!("bytes={bytes}");
}

/// Counts on getting the number that it has closed, also after its first NVTX call, when the collector has
/// had time to get going.
pub fn reopen() {
    let close = || {
        // SAFETY: nothing else uses standard input.
        unsafe { libc::close(0) };
    };
    // SAFETY: the path is NUL-terminated.
    let gets_another = || unsafe { libc::open(c"/dev/zero".as_ptr(), libc::O_RDONLY) } != 0;
    close();
    client().pop();
    std::thread::sleep(std::time::Duration::from_millis(10));
    let mut others = u32::from(gets_another());
    for _ in 0..300 {
        close();
        others += u32::from(gets_another());
    }
    println!("others={others}");
}

/// The plain guest where no file may grow beyond 32 KiB, and much work after it.
pub fn no_room() {
    limit(libc::RLIMIT_FSIZE, 32 << 10, 32 << 10);
    plain();
    wait_for_a_flush();
    let stream = Stream::new();
    for _ in 0..20 {
        stream.work(b"more", 500);
    }
    wait_for_a_flush();
    println!("worked on");
}

/// No file may grow for a while, in which ranges come up that go on afterwards.
pub fn no_room_for_a_while() {
    let limit_files = |bytes| limit(libc::RLIMIT_FSIZE, bytes, libc::RLIM_INFINITY);
    let work = |name: &[u8]| {
        let stream = Stream::new();
        client().push(b"outer");
        stream.work(name, 200);
        client().pop();
        wait_for_a_flush();
    };
    plain();
    wait_for_a_flush();
    limit_files(1);
    work(b"lost");
    work(b"later");
    limit_files(libc::RLIM_INFINITY);
    wait_for_a_flush();
    work(b"later");
    work(b"later");
}

/// The rank is set between the first range and the first use of the GPU, as Python's
/// multiprocessing workers do it.
pub fn late_rank() {
    range(b"load");
    // SAFETY: the guest has no other thread that reads the environment.
    unsafe {
        std::env::set_var("RANK", "1");
        std::env::set_var("LOCAL_RANK", "1");
    }
    plain();
}
