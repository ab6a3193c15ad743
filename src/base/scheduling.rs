//! Gives our thread ordinary scheduling, on the main thread's processors.
//!
//! The thread that starts us may be pinned, or run before all others (`SCHED_FIFO`), for the sake of
//! its own work; ours inherits both. `taskset`, `numactl` or `chrt --idle` of the whole guest holds for
//! us as well, but nothing that goes before all others.
//!
//! A guest may have a seccomp filter that ends the process at a scheduling call. So no such call is
//! made where nothing has to change, or under a filter of the guest's own: then our thread stays as
//! it began. The filter of a container, which its first process has as well, only refuses.

use std::ffi::c_int;
use std::fs;

use crate::base::diag;

/// Whether a seccomp filter of the guest's own may end the process for a system call that it does not expect of
/// the calling thread.
pub(crate) fn has_filter_of_its_own() -> bool {
    let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
    may_kill(&text("/proc/thread-self/status"), || text("/proc/1/status"))
}

/// Whether a seccomp filter may end the process for such a call of the thread `tid`. True if the state of the
/// thread cannot be read.
pub(crate) fn has_filter(tid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/self/task/{tid}/status"));
    status.map_or(true, |status| {
        may_kill(&status, || fs::read_to_string("/proc/1/status").unwrap_or_default())
    })
}

/// What two short system calls show of the seccomp filters of a thread. A filter that the program installs for all its
/// threads at once changes it, unless the process started both with a filter and with `no_new_privs`
/// (`allowPrivilegeEscalation: false` of Kubernetes). Then only files of `/proc`, which cost ten times as much, show
/// another filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filters {
    mode: c_int,
    gains_no_privileges: c_int,
}

impl Filters {
    /// Returns those of the calling thread. Async-signal-safe.
    pub(crate) fn of_caller() -> Self {
        let zero: libc::c_ulong = 0;
        // SAFETY: both only return a number. Without seccomp in the kernel the first one is an error.
        let ask = |what| unsafe { libc::prctl(what, zero, zero, zero, zero) };
        Filters {
            mode: ask(libc::PR_GET_SECCOMP),
            gains_no_privileges: ask(libc::PR_GET_NO_NEW_PRIVS),
        }
    }
}

/// For the calling thread, which is ours.
pub fn be_ordinary() {
    let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let (own, main) = (text("/proc/thread-self/status"), text("/proc/self/status"));
    let (own_stat, main_stat) = (text("/proc/thread-self/stat"), text("/proc/self/stat"));
    let wanted = class(&main_stat).map(below_real_time);
    let wanted = wanted.filter(|&wanted| Some(wanted) != class(&own_stat));
    let processors = field(&own, "Cpus_allowed:") != field(&main, "Cpus_allowed:");
    if wanted.is_none() && !processors {
        return;
    }
    if may_kill(&own, || text("/proc/1/status")) {
        diag::info(format_args!(
            "the collector's thread keeps the scheduling of the thread that started it: changing it \
             could trip the guest's seccomp filter"
        ));
        return;
    }
    change(wanted, processors);
}

/// A failure leaves the thread as it was.
fn change(class: Option<c_int>, processors: bool) {
    // SAFETY: the places are valid and of the sizes given; 0 is this thread.
    unsafe {
        if let Some(class) = class {
            let parameters: libc::sched_param = std::mem::zeroed();
            libc::sched_setscheduler(0, class, &raw const parameters);
        }
        if processors {
            let mut main: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            if libc::sched_getaffinity(libc::getpid(), size, &raw mut main) == 0 {
                libc::sched_setaffinity(0, size, &raw const main);
            }
        }
    }
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Of a `stat` file: the policy is the 41st field; the name, the second one, may hold anything.
fn class(stat: &str) -> Option<c_int> {
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(38)?.parse().ok()
}

/// A class, or the ordinary one where it goes before all others.
fn below_real_time(class: c_int) -> c_int {
    match class {
        libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE => libc::SCHED_OTHER,
        class => class,
    }
}

/// Whether a seccomp filter may end the process for a scheduling call.
fn may_kill(own: &str, first_process: impl FnOnce() -> String) -> bool {
    match field(own, "Seccomp:") {
        Some("0") => false,
        // Before Linux 5.10 nobody tells how many filters there are.
        Some(_) => {
            let filters = field(own, "Seccomp_filters:");
            filters.is_none() || filters != field(&first_process(), "Seccomp_filters:")
        }
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_filter_of_the_guests_own_may_kill() {
        let kills = |own: &str, first: &str| may_kill(own, || first.to_owned());
        let container = "Seccomp:\t2\nSeccomp_filters:\t1\n";
        assert!(!kills("Seccomp:\t0\nSeccomp_filters:\t0\n", ""));
        assert!(!kills(container, container));
        assert!(kills("Seccomp:\t2\nSeccomp_filters:\t2\n", container));
        assert!(kills("Seccomp:\t2\n", "Seccomp:\t2\n"), "an old kernel");
        assert!(kills(container, ""), "nothing is known of the first process");
        assert!(kills("", ""), "nothing is known of this one");
    }

    #[test]
    fn the_class_is_found_behind_any_name() {
        let stat = |policy| format!("7 (a) b) (c) S{} {policy} 0 0", " 1".repeat(37));
        assert_eq!([class(&stat(0)), class(&stat(5)), class("")], [Some(0), Some(5), None]);
        let own = fs::read_to_string("/proc/thread-self/stat").expect("stat");
        assert_eq!(class(&own), Some(0));
    }

    #[test]
    fn our_thread_goes_before_nobody() {
        let classes = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];
        assert_eq!(classes.map(below_real_time), classes);
        assert_eq!([1, 2, 6].map(below_real_time), [libc::SCHED_OTHER; 3]);
    }
}
