//! What the system refuses the launcher: threads, stack, modes, room. It goes on, or says what it was and ends
//! with status 70, and never by a panic or a signal.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::simulated::compile;
use crate::common::{LAUNCH, Sandbox, at_once, expect_parts, lossy, names_in, shared_folder};

/// Refuses calls of stage2-launch, as `TEST_REFUSE` says, and of no program that it starts.
const REFUSAL: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
static const char *refused(const char *what) {
    const char *all = getenv("TEST_REFUSE");
    const char *found = all ? strstr(all, what) : NULL;
    return found && !strcmp(program_invocation_short_name, "stage2-launch") ? found + strlen(what) : NULL;
}
#define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *d) {
    static int count;
    const char *from = refused("thread");
    if (from && ++count >= atoi(from)) return EAGAIN;
    return NEXT(pthread_create)(t, a, f, d);
}
int chmod(const char *path, mode_t mode) {
    if (refused("chmod")) { errno = EPERM; return -1; }
    return NEXT(chmod)(path, mode);
}
int fchmod(int file, mode_t mode) {
    if (refused("chmod")) { errno = EPERM; return -1; }
    return NEXT(fchmod)(file, mode);
}
int fdatasync(int file) {
    if (refused("sync")) { errno = EIO; return -1; }
    return NEXT(fdatasync)(file);
}
int statvfs64(const char *path, struct statvfs64 *found) {
    int result = NEXT(statvfs64)(path, found);
    if (refused("inodes")) { found->f_files = 100; found->f_favail = 0; }
    return result;
}
int statvfs(const char *path, struct statvfs *found) { return statvfs64(path, (struct statvfs64 *)found); }
int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    if (refused("inodes") && strstr(path, "/.new-")) { errno = ENOSPC; return -1; }
    return NEXT(open64)(path, flags, mode);
}
"#;

/// A sandbox, and the library.
fn sandbox() -> (Sandbox, PathBuf) {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        shared_folder("refusal", |folder| {
            let sandbox = Sandbox::new();
            let library = compile(&sandbox, REFUSAL, "refusal.so", &["-shared", "-fPIC"]);
            std::fs::copy(library, folder.join("refusal.so")).expect("a copy");
        })
    });
    (Sandbox::new(), FOLDER.join("refusal.so"))
}

/// A run that is refused `what`; how it ended, and what it said.
fn run(what: &str, words: &[&str]) -> (Sandbox, Output, String) {
    let (sandbox, library) = sandbox();
    let mut command = sandbox.std_launch(words);
    let output = command.env("LD_PRELOAD", library).env("TEST_REFUSE", what).output();
    let output = output.expect("stage2-launch");
    let said = lossy(&output.stderr);
    (sandbox, output, said)
}

/// A run in a shell that sets a limit first.
fn limited(limit: &str, workload: &str) -> (Sandbox, Output, String) {
    let sandbox = Sandbox::new();
    let launch = sandbox.std_launch(&["--light", "run.tee=true", "--", "sh", "-c", workload]);
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")]).arg(launch.get_program());
    shell.args(launch.get_args()).current_dir(sandbox.path(""));
    launch.get_envs().for_each(|(name, value)| {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    });
    let output = shell.output().expect("bash");
    let said = lossy(&output.stderr);
    (sandbox, output, said)
}

/// Hazard (Calls that fail): The system refuses the launcher threads.
/// Promise: It does without, or ends with status 70 and the reason.
#[test]
fn threads_that_are_refused_are_done_without_or_told() {
    let went_on = AtomicUsize::new(0);
    at_once(1..=8, |first| {
        let words = ["--light", "run.tee=true", "--", "sh", "-c", "echo the workload ran"];
        let (sandbox, output, said) = run(&format!("thread{first}"), &words);
        let out = lossy(&output.stdout);
        assert!(!said.contains("panicked"), "{first}: {said}");
        match output.status.code() {
            Some(0) => {
                assert!(out.contains("the workload ran"), "{first}: {said}");
                assert!(sandbox.read("report.md").contains("# "), "{first}");
                went_on.fetch_add(1, Ordering::Relaxed);
            }
            code => assert!(
                code == Some(70) && said.contains("temporarily") && said.contains("ulimit -u"),
                "{first} {code:?}: {said}"
            ),
        }
    });
    assert!(went_on.into_inner() >= 1, "most threads can be done without");
    let (sandbox, library) = sandbox();
    let mut doctor = Command::new(LAUNCH);
    doctor.arg("doctor").current_dir(sandbox.path(""));
    let output = doctor.env("LD_PRELOAD", library).env("TEST_REFUSE", "thread1").output();
    let output = output.expect("stage2-launch");
    let said = lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 2), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// Hazard (Calls that fail): The stack of the launcher is small.
/// Promise: It has another one.
#[test]
fn a_small_stack_is_enough() {
    let (_sandbox, output, said) = limited("ulimit -s 64", "true");
    assert!(output.status.success(), "{:?}: {said}", output.status);
}

#[test]
fn a_thread_that_is_refused_is_no_panic_where_stderr_is_full() {
    let (sandbox, library) = sandbox();
    let mut shell = Command::new("bash");
    shell.args(["-c", "ulimit -s 64; exec \"$0\" --version 2>/dev/full"]);
    shell.arg(LAUNCH).current_dir(sandbox.path(""));
    let ended = shell.env("LD_PRELOAD", library).env("TEST_REFUSE", "thread1").status();
    assert_eq!(ended.expect("bash").code(), Some(70));
}

/// Hazard (Calls that fail): Files of the launcher reach `ulimit -f`.
/// Promise: The launcher reports it, and the workload gets the usual signal.
#[test]
fn a_limit_on_files_is_told_and_the_workload_has_the_usual_signal() {
    let workload = "grep -E 'Sig(Ign|Cgt)' /proc/self/status >&2";
    let (sandbox, output, said) = limited("ulimit -f 24", workload);
    assert_eq!(output.status.code(), Some(70), "{:?}: {said}", output.status);
    let told = "the limit on the size of a file is reached: raise it (`ulimit -f`)";
    expect_parts(&said, "said", &[told, "SigIgn"]);
    let ignored = said.lines().filter_map(|line| line.strip_prefix("Sig")?.split_once(":\t"));
    for (name, mask) in ignored {
        let mask = u64::from_str_radix(mask, 16).expect("a mask");
        assert_eq!(mask & (1 << 24), 0, "{name} of SIGXFSZ in the workload");
    }
    let left = names_in(&sandbox.latest(""));
    assert!(left.iter().all(|name| !name.starts_with(".new-")), "{left:?}");
}

#[test]
fn another_folder_is_no_remedy_for_a_limit_on_files() {
    let (_sandbox, output, said) = limited("ulimit -f 0", "true");
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("raise it (`ulimit -f`)") && !said.contains("choose another"), "{said}");
}

/// Hazard (Calls that fail): A file system refuses chmod.
/// Promise: The run continues, and a finding states that the file system decides who may read it.
#[test]
fn a_file_system_without_modes_is_told_and_used() {
    let (sandbox, output, said) = run("chmod", &["--light", "--run-dir", "run", "--", "true"]);
    assert!(output.status.success(), "{:?}: {said}", output.status);
    expect_parts(&said, "said", &["cannot be set", "refuses chmod", "--run-dir"]);
    assert!(sandbox.path("run/report.md").is_file());
}

/// Hazard (Calls that fail): A file system reports only at the end that bytes did not arrive.
/// Promise: The file is not created, and it is an error.
#[test]
fn bytes_that_do_not_arrive_on_the_disk_are_no_report() {
    let (sandbox, output, said) = run("sync", &["--light", "--run-dir", "run", "--", "true"]);
    assert_eq!(output.status.code(), Some(2), "no folder can be used: {said}");
    assert!(said.contains("Input/output error"), "{said}");
    assert_eq!(names_in(&sandbox.path("run")), ["collector"], "nothing that is not whole");
}

/// Hazard (Calls that fail): A file system has no inode left.
/// Promise: The message names that cause.
#[test]
fn a_file_system_without_inodes_is_told_as_that() {
    let (_sandbox, output, said) = run("inodes", &["--light", "--run-dir", "run", "--", "true"]);
    assert!(output.status.code().is_some_and(|code| [2, 70].contains(&code)), "{said}");
    expect_parts(&said, "said", &["no inode left", "df -i", "!check the space"]);
}
