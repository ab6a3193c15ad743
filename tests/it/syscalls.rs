//! Every function of the C library that the collector calls fails in turn: the guest's output and
//! status stay, it ends in time, and what is lost is counted or said.

use crate::common;
use crate::common::calls;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::common::calls::{FOR_EVER, Fault, Met};
use crate::common::{Guest, check_each, collector, counts, each, skipped};
use libc::{
    EACCES, EAGAIN, EDQUOT, EINTR, EINVAL, EIO, ELOOP, EMFILE, ENOENT, ENOMEM, ENOSPC, ENOSYS,
    EPERM,
};
use stage2_contract::trace::{Ending, Losses, Record};

/// What the function does instead of failing: takes a part, steps ahead.
const INSTEAD: i32 = -1;

/// Functions and the errors that they fail with.
const FALLIBLE: &[(&str, &[i32])] = &[
    ("accept4", &[EMFILE, EINTR]),
    ("bind", &[EACCES, ENOSPC]),
    ("chmod", &[EPERM]),
    ("clock_gettime", &[EPERM, INSTEAD]),
    ("clone", &[EAGAIN]),
    ("close", &[EIO, EINTR]),
    ("close_range", &[ENOSYS, EPERM]),
    ("dlopen", &[ENOMEM]),
    ("fchmod", &[EPERM]),
    ("fdatasync", &[EIO]),
    ("fcntl", &[EMFILE, EINVAL]),
    ("fstat64", &[EIO]),
    ("futex", &[EINTR, ENOSYS, EPERM]),
    ("getcwd", &[ENOENT]),
    ("getrandom", &[ENOSYS, EINTR]),
    ("getrlimit", &[EPERM]),
    ("getsockopt", &[EINVAL]),
    ("listen", &[EINVAL]),
    ("lseek64", &[EINVAL]),
    ("lstat64", &[EACCES]),
    ("madvise", &[ENOMEM]),
    ("mkdir", &[EACCES, ENOSPC]),
    ("mmap", &[ENOMEM]),
    ("mprotect", &[ENOMEM]),
    ("munmap", &[ENOMEM]),
    ("open64", &[EACCES, EMFILE, ENOENT, ELOOP, EINTR]),
    ("opendir", &[EMFILE]),
    ("poll", &[EINTR, ENOMEM]),
    ("pread64", &[EIO, ENOENT]),
    ("process_vm_readv", &[EPERM]),
    ("pthread_attr_setstacksize", &[EINVAL]),
    ("pthread_create", &[EAGAIN]),
    ("pthread_key_create", &[EAGAIN]),
    ("pthread_setcancelstate", &[EINVAL]),
    ("pthread_setname_np", &[EPERM]),
    ("pthread_sigmask", &[EINVAL]),
    ("pwritev2", &[ENOSYS, EINTR, EIO]),
    ("read", &[EIO, EINTR]),
    ("readdir64", &[EIO]),
    ("readlink", &[ENOENT]),
    ("realpath", &[EACCES]),
    ("rename", &[EACCES, ENOSPC]),
    ("sched_getaffinity", &[EPERM]),
    ("sched_setaffinity", &[EPERM]),
    ("sched_setscheduler", &[EPERM]),
    ("setenv", &[ENOMEM]),
    ("shutdown", &[EINVAL]),
    ("sigpending", &[EINVAL]),
    ("sigtimedwait", &[EINTR, EAGAIN]),
    ("socket", &[EMFILE, EPERM]),
    ("stat64", &[EACCES]),
    ("statx", &[EACCES, ENOSYS]),
    ("sysconf", &[EINVAL]),
    ("unlink", &[EACCES]),
    ("write", &[ENOSPC, EDQUOT, EIO, EINTR, INSTEAD]),
    ("waitpid", &[EINTR]),
    ("writev", &[EIO, EINTR, INSTEAD]),
];

/// Of those, what this guest brings the collector to call on some systems only, or never.
const SELDOM: &str = "\
    accept4 chmod clone fdatasync fstat64 getcwd getrandom getsockopt lseek64 lstat64 mkdir rename sched_getaffinity \
    sched_setaffinity shutdown sigtimedwait stat64 sysconf \
    waitpid writev";

/// Memory has a test of its own, `out_of_memory`.
const MEMORY: &[&str] = &["malloc", "calloc", "realloc", "posix_memalign"];

/// What makes no system call, cannot fail for what it is given, or ends the process as meant. The
/// doors to the rest, `syscall` and `dlsym`, are here too: what is asked of them is in the list above, or
/// a lookup that may find nothing (`tests/it/trouble.rs`).
const HARMLESS: &str = "\
    _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable __cxa_atexit __cxa_finalize \
    __cxa_thread_atexit_impl __errno_location __gmon_start__ __pthread_key_create \
    __tls_get_addr __xpg_strerror_r _dl_find_object abort bcmp clock_nanosleep closedir dirfd \
    dl_iterate_phdr dladdr dlclose dlerror dlinfo dlsym environ exit free fstat getauxval \
    getenv geteuid getpgid getpgrp getpid getppid gettid memcmp memcpy memmove memset mmap64 \
    pause prctl pthread_attr_destroy pthread_attr_getguardsize pthread_attr_getstack \
    pthread_attr_init pthread_detach pthread_getattr_np pthread_getspecific pthread_key_delete \
    pthread_mutex_lock pthread_mutex_unlock pthread_once pthread_self pthread_setspecific \
    sched_yield sigaction sigaddset sigaltstack sigdelset sigemptyset sigfillset sigismember \
    strlen strnlen syscall unsetenv";

fn is_in(list: &str, function: &str) -> bool {
    list.split_whitespace().any(|name| name == function)
}

/// Signals do not come for ever, and std tries again until none does: so many calls in a row are interrupted.
const STORM: u64 = 10_000;
/// Here we try again ourselves, and not for ever.
const OWN_LOOPS: &[&str] = &["futex", "poll", "pwritev2", "writev", "sigtimedwait"];
/// Where nothing waits for what will not come, a guest takes 0.1 s; an end waits for 5 s.
const IN_TIME: Duration = Duration::from_secs(10);

fn guest() -> Guest {
    // Has the start say something, so that messages are written.
    Guest::new("steady").env("STAGE2_GRAPH", "edge").env("STAGE2_HOST", "1000")
}

/// What the collector said beside that.
fn said(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| !line.contains("STAGE2_GRAPH")).collect()
}

/// What went wrong for the guest or was lost without a word; nothing where all is well.
fn complaint(met: &Met) -> Option<String> {
    let (left, stderr) = (&met.left, met.left.stderr());
    if (left.output.status.code(), left.stdout().as_str()) != (Some(3), "launched 227 kernels\n") {
        return Some(format!("the guest: {:?} {:?}", left.output.status, left.stdout()));
    }
    if met.took > IN_TIME {
        return Some(format!("it took {:?}", met.took));
    }
    if let Some(line) = stderr.lines().find(|line| !line.starts_with("stage2: ")) {
        return Some(format!("somebody else said: {line}"));
    }
    let all = counts(&[("(outside)", 7), ("prefill", 100), ("decode", 100), ("worker", 20)]);
    let whole =
        |trace: &common::TraceFile| trace.ending == Ending::Complete && trace.kernels() == all;
    let lost =
        |record: &Record| matches!(record, Record::Losses(lost) if *lost != Losses::default());
    let counted = |trace: &common::TraceFile| {
        trace.records.iter().any(lost) || trace.meta("gpu.off").is_some()
    };
    let known = match left.traces.as_slice() {
        [trace] => whole(trace) || counted(trace) || !said(&stderr).is_empty(),
        _ => !said(&stderr).is_empty(),
    };
    (!known).then(|| "something is lost, and nobody says so".to_owned())
}

/// The ways in which a function that is called so often fails with an error.
fn faults(function: &'static str, error: i32, calls: u64) -> Vec<Fault> {
    let is_std = error == EINTR && !OWN_LOOPS.contains(&function);
    let for_ever = if is_std { STORM } else { FOR_EVER };
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for first in [1, 2, calls.div_ceil(2), calls.saturating_sub(1), calls] {
        if (1..=calls).contains(&first) && seen.insert(first) {
            faults.push((first, first));
        }
    }
    faults.extend([(1, for_ever), (calls / 2 + 1, for_ever.saturating_add(calls))]);
    // A key that std takes for itself: without it std ends the process. The start looks before whether
    // there are any.
    let in_order = |&(first, last): &(u64, u64)| {
        function != "pthread_key_create" || first == 1 || (first == 2 && last == 2)
    };
    let fault = |(first, last)| Fault { function, error, first, last };
    faults.into_iter().filter(in_order).map(fault).collect()
}

/// Hazard (Calls that fail): Any function of the C library that the collector calls fails: at the
///  first, the second, a middle or the last call, or always.
/// Promise: The guest's output and status stay, it ends in time, and what is lost is counted or
///  said.
#[test]
fn whatever_fails_the_guest_goes_on_and_what_is_lost_is_known() {
    let Some(library) = calls::library() else { return };
    let rows = FALLIBLE.iter().flat_map(|&(name, errors)| errors.iter().map(move |&e| (name, e)));
    let todo = Mutex::new(Vec::new());
    // An error decides which calls it is for.
    each(rows, |(function, error)| {
        let none = Fault { function, error, first: 0, last: 0 };
        let met = calls::meet(guest(), library, none);
        assert_eq!(complaint(&met), None, "nothing failed");
        assert_eq!(said(&met.left.stderr()), [""; 0], "nothing failed");
        assert!(met.calls > 0 || is_in(SELDOM, function), "{function} is never called");
        todo.lock().expect("no panic").extend(faults(function, error, met.calls));
    });
    let todo: Vec<Fault> = todo.into_inner().expect("no panic");
    assert!(todo.len() > 200, "{}", todo.len());
    check_each(6, todo, |fault| {
        let met = calls::meet(guest(), library, fault);
        // How often a call is made depends on how threads meet; that it is made does not.
        let untouched = met.failed == 0 && fault.first == 1 && !is_in(SELDOM, fault.function);
        let what = complaint(&met).or(untouched.then(|| "the call never came".to_owned()))?;
        Some(format!("{fault}: {what}\n{}", met.left.stderr()))
    });
}

/// Hazard (Calls that fail): The collector calls a further function of the C library.
/// Promise: A test names the missing case.
#[test]
fn every_function_that_the_collector_takes_from_the_c_library_has_a_case() {
    let mut nm = Command::new("nm");
    let Ok(output) = nm.args(["-D", "--undefined-only"]).arg(collector()).output() else {
        return skipped("nm is not installed");
    };
    assert!(output.status.success());
    let symbols = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = symbols.lines().filter_map(|line| line.split_whitespace().last());
    let names: BTreeSet<&str> = names.filter_map(|name| name.split('@').next()).collect();
    assert!(names.len() > 50, "{names:?}");
    let has_case = |name: &&str| {
        FALLIBLE.iter().any(|(function, _)| function == name)
            || MEMORY.contains(name)
            || is_in(HARMLESS, name)
    };
    let without: Vec<&&str> = names.iter().filter(|name| !has_case(name)).collect();
    assert!(without.is_empty(), "give these a case in FALLIBLE, or list them: {without:?}");
}

/// Hazard (Calls that fail): All thread-specific keys are used up.
/// Promise: Off with one line.
#[test]
fn a_guest_that_has_used_up_its_thread_specific_keys_works_on_without_us() {
    let left = Guest::new("no_keys").run();
    let stderr = left.expect_line(0);
    assert_eq!(left.stdout(), "worked on\n");
    assert!(stderr.contains("off: ") && stderr.contains("pthread_key_create"), "{stderr}");
}

/// Hazard (Calls that fail): The wall clock is set during the run.
/// Promise: No kernel is lost or moved.
#[test]
fn a_wall_clock_that_is_set_during_the_run_moves_no_kernel() {
    let Some(library) = calls::library() else { return };
    let step = |first| Fault { function: "clock_gettime", error: INSTEAD, first, last: FOR_EVER };
    let met = calls::meet(Guest::new("works_for_a_while"), library, step(4));
    let trace = met.left.expect_quiet(0).trace();
    assert!(met.failed > 0, "the clock was set");
    assert_eq!(trace.kernels(), counts(&[("work", 120)]));
    assert_eq!((trace.losses(), trace.ending), (Losses::default(), Ending::Complete));
}

/// Hazard (Calls that fail): A preloaded library fakes the monotonic clock, or stops it.
/// Promise: Every wait ends in time.
#[test]
fn a_clock_that_is_faked_for_the_program_holds_nobody_up() {
    let Some((_folder, library)) = calls::compiled("faked_clock") else { return };
    let preloads = format!("{} {}", library.display(), collector().display());
    let left = Guest::new("return").env("LD_PRELOAD", &preloads).run();
    let trace = left.expect_quiet(0).trace();
    assert_eq!(trace.kernel_count(), 207);
    assert_eq!((trace.losses(), trace.ending), (Losses::default(), Ending::Complete));
    // Who looks now and then looks again.
    let left = Guest::new("main_ends").env("LD_PRELOAD", &preloads).run();
    assert_eq!(left.expect_quiet(0).trace().ending, Ending::Complete);
    // A wait that is in vain ends nevertheless.
    let hang = Guest::new("_exit").env("STAGE2_SIM_FAULT", "flush-hang=20000");
    let started = Instant::now();
    let left = hang.env("LD_PRELOAD", preloads).run();
    assert_eq!(left.output.status.code(), Some(4), "{}", left.stderr());
    assert!(started.elapsed() < IN_TIME, "{:?}", started.elapsed());
}

/// The library is found, so that no test above passes for want of it.
#[test]
fn a_fault_reaches_the_collector_and_nobody_else() {
    let Some(library) = calls::library() else { return };
    assert!(Path::new(library).exists());
    let fault = Fault { function: "open64", error: EACCES, first: 1, last: FOR_EVER };
    let met = calls::meet(guest(), library, fault);
    assert!(met.failed > 0 && met.left.traces.is_empty());
    let alone = calls::meet(guest().without("NVTX_INJECTION64_PATH"), library, fault);
    assert_eq!(alone.left.stdout(), met.left.stdout());
}
