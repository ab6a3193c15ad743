//! The threads of this process as the kernel shows them under `/proc`: the state and the CPU time of each.
//!
//! The files are open in a descriptor table that only our thread has ([`own_descriptors`]): a guest may
//! expect that its next file gets the number that it has just closed, or may have reached its limit of open
//! files.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use stage2_contract::trace::HostState;

use crate::base::call_stacks::Registers;

/// Why a thread has no descriptor table of its own.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoDescriptors {
    /// Nothing has changed.
    #[error(
        "the system does not give a thread its own descriptor table ({0}); Linux 5.9 and later can do so"
    )]
    Refused(io::Error),
    /// The thread may keep files of the guest open, and has to end.
    #[error(
        "a thread cannot get its own descriptor table ({0}); raise the limit of open files (ulimit -n)"
    )]
    Unknown(#[from] io::Error),
}

/// Gives the calling thread, which is ours, an empty descriptor table of its own.
///
/// # Errors
/// The system lacks the call, refuses it, or does not do what the call promises. The descriptors of the
/// guest do not change.
pub(super) fn own_descriptors() -> Result<(), NoDescriptors> {
    const UNSHARE: usize = 2;
    const LAST: usize = u32::MAX as usize;
    // Closes no descriptor yet, so that nothing is lost if the flag has no effect.
    close_range(LAST, LAST, UNSHARE).map_err(NoDescriptors::Refused)?;
    let own = File::open("/proc/thread-self/schedstat")?;
    let number = own.as_raw_fd() as usize;
    let path = fs::read_link(format!("/proc/thread-self/fd/{number}"))?;
    let seen_by_guest = fs::read_link(format!("/proc/self/fd/{number}"));
    // If the main thread has ended, `/proc/self` shows nothing, so that the check below proves nothing.
    fs::read_link("/proc/self/exe")?;
    if seen_by_guest.is_ok_and(|seen| seen == path) {
        return Err(NoDescriptors::Unknown(io::ErrorKind::Unsupported.into()));
    }
    if number > 0 {
        close_range(0, number - 1, 0)?;
    }
    Ok(close_range(number + 1, LAST, 0)?)
}

fn close_range(first: usize, last: usize, flags: usize) -> io::Result<()> {
    // SAFETY: the call takes only numbers. It closes descriptors in a table that no other thread uses, which
    // the caller has made sure of, or it closes none.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the thread IDs of this process.
pub(super) fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The most bytes that are read of a line: a system call with six arguments fits.
const LINE: usize = 256;

/// Times of a thread since its start, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// On a processor.
    pub(super) cpu_ns: u64,
    /// Runnable, and waiting for a processor on a run queue.
    pub(super) delay_ns: u64,
}

/// A thread's files.
#[derive(Debug)]
pub(super) struct Task {
    waits: File,
    times: File,
    /// Its times at the last sample that found it runnable.
    before: Times,
    /// The part of the time on the run queue that no sample has reported yet, in samples.
    untold: f64,
}

impl Task {
    /// Opens the files of the thread with this ID.
    pub(super) fn open(tid: u32) -> io::Result<Self> {
        let open = |file: &str| File::open(format!("/proc/self/task/{tid}/{file}"));
        let (waits, times) = (open("syscall")?, open("schedstat")?);
        let mut task = Task { waits, times, before: Times::default(), untold: 0.0 };
        task.before = task.times()?;
        Ok(task)
    }

    /// The name of a thread, as it gave it to itself.
    ///
    /// # Errors
    /// `NotFound`: there is no such thread in this process.
    pub(super) fn name(tid: u32) -> io::Result<String> {
        let name = fs::read(format!("/proc/self/task/{tid}/comm"))?;
        Ok(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
    }

    pub(super) fn times(&self) -> io::Result<Times> {
        let mut line = [0; LINE];
        let length = self.times.read_at(&mut line, 0)?;
        times(line.get(..length).unwrap_or_default()).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Returns the state of the thread, and where it waits. `gil`: the addresses of the futexes of its GIL.
    ///
    /// # Errors
    /// The thread has ended.
    pub(super) fn state(
        &mut self,
        gil: &std::ops::Range<u64>,
    ) -> io::Result<(HostState, Option<Registers>)> {
        let mut line = [0; LINE];
        let length = self.waits.read_at(&mut line, 0)?;
        let line = line.get(..length).unwrap_or_default();
        match waits(line, gil) {
            HostState::Running => Ok((self.running_or_ready()?, None)),
            state => Ok((state, registers(line))),
        }
    }

    /// Whether the thread waits there still.
    pub(super) fn waits_at(&self, place: Registers) -> bool {
        let mut line = [0; LINE];
        let length = self.waits.read_at(&mut line, 0).unwrap_or(0);
        registers(line.get(..length).unwrap_or_default()) == Some(place)
    }

    /// Tells a running thread from one that waits on a run queue. The kernel shows no difference at a given
    /// moment, only the total times. So the share of `Runnable` samples follows these totals.
    fn running_or_ready(&mut self) -> io::Result<HostState> {
        let now = self.times()?;
        let ran = now.cpu_ns.saturating_sub(self.before.cpu_ns);
        let waited = now.delay_ns.saturating_sub(self.before.delay_ns);
        self.before = now;
        if waited > 0 {
            self.untold += waited as f64 / (waited as f64 + ran as f64);
        }
        if self.untold < 0.5 {
            return Ok(HostState::Running);
        }
        self.untold -= 1.0;
        Ok(HostState::Runnable)
    }
}

/// Parses `schedstat`: `CPU DELAY SLICES`.
fn times(line: &[u8]) -> Option<Times> {
    let mut numbers = std::str::from_utf8(line).ok()?.split_ascii_whitespace().map(str::parse);
    Some(Times { cpu_ns: numbers.next()?.ok()?, delay_ns: numbers.next()?.ok()? })
}

/// Parses `syscall`: `running`, the number of a system call and its arguments, or -1 if the thread is
/// blocked outside of a system call.
fn waits(line: &[u8], gil: &std::ops::Range<u64>) -> HostState {
    let Ok(line) = std::str::from_utf8(line) else { return HostState::Unknown };
    let mut words = line.split_ascii_whitespace();
    match words.next() {
        Some("running") => HostState::Running,
        Some("-1") => HostState::Blocked,
        Some(number) => {
            let Ok(number) = number.parse() else { return HostState::Unknown };
            let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
            let (first, second) = (argument(), argument());
            let is_gil = first.is_some_and(|address| gil.contains(&address));
            match in_call(number) {
                HostState::Lock if is_gil => HostState::GilWait,
                // A poll without files is a sleep, such as `time.sleep` of CPython up to 3.10.
                HostState::Poll if watches_nothing(number, first, second) => HostState::Sleep,
                state => state,
            }
        }
        None => HostState::Unknown,
    }
}

/// Parses the end of `syscall`: the stack pointer and the instruction of a thread that waits.
fn registers(line: &[u8]) -> Option<Registers> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace().rev();
    let mut next = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (pc, sp) = (next()?, next()?);
    Some(Registers { pc, sp, rbp: None })
}

/// Whether a call of `select` or `poll` names no file.
fn watches_nothing(number: libc::c_long, first: Option<u64>, second: Option<u64>) -> bool {
    #[cfg(target_arch = "x86_64")]
    const OLD: [libc::c_long; 2] = [libc::SYS_select, libc::SYS_poll];
    #[cfg(not(target_arch = "x86_64"))]
    const OLD: [libc::c_long; 2] = [libc::SYS_pselect6, libc::SYS_ppoll];
    let [select, poll] = OLD;
    match number {
        number if number == select || number == libc::SYS_pselect6 => first == Some(0),
        number if number == poll || number == libc::SYS_ppoll => second == Some(0),
        _ => false,
    }
}

/// Returns the state of a thread that is blocked in this system call.
fn in_call(number: libc::c_long) -> HostState {
    const FUTEX_WAITV: libc::c_long = 449;
    const LOCKS: &[libc::c_long] = &[libc::SYS_futex, FUTEX_WAITV];
    const SLEEPS: &[libc::c_long] = &[libc::SYS_nanosleep, libc::SYS_clock_nanosleep];
    const POLLS: &[libc::c_long] = &[
        libc::SYS_ppoll,
        libc::SYS_pselect6,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_pread64,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_connect,
        libc::SYS_io_uring_enter,
        libc::SYS_io_getevents,
        libc::SYS_fsync,
    ];
    #[cfg(target_arch = "x86_64")]
    const OLD_POLLS: &[libc::c_long] = &[libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait];
    #[cfg(not(target_arch = "x86_64"))]
    const OLD_POLLS: &[libc::c_long] = &[];
    match number {
        libc::SYS_ioctl => HostState::Driver,
        lock if LOCKS.contains(&lock) => HostState::Lock,
        sleep if SLEEPS.contains(&sleep) => HostState::Sleep,
        poll if POLLS.contains(&poll) || OLD_POLLS.contains(&poll) => HostState::Poll,
        _ => HostState::Blocked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn states_are_told_by_the_system_call_and_the_futex() {
        let gil = 0x1000..0x10c8;
        let state = |line: &str| waits(line.as_bytes(), &gil);
        let call = |number: libc::c_long, first: &str| {
            state(&format!("{number} {first} 0x80 0x0 0x0 0x0 0x0 0x7ffc 0x7f00\n"))
        };
        assert_eq!(state("running\n"), HostState::Running);
        assert_eq!(call(libc::SYS_futex, "0x10c7"), HostState::GilWait);
        assert_eq!(call(libc::SYS_futex, "0x10c8"), HostState::Lock);
        assert_eq!(call(libc::SYS_ioctl, "0x1010"), HostState::Driver);
        assert_eq!(call(libc::SYS_clock_nanosleep, "0x1"), HostState::Sleep);
        assert_eq!(call(libc::SYS_read, "0x0"), HostState::Poll);
        assert_eq!(call(libc::SYS_wait4, "0x0"), HostState::Blocked);
        assert_eq!(call(libc::SYS_pselect6, "0x0"), HostState::Sleep);
        assert_eq!(call(libc::SYS_pselect6, "0x4"), HostState::Poll);
        assert_eq!(call(libc::SYS_ppoll, "0x7ffc"), HostState::Poll);
        assert_eq!(state(&format!("{} 0x7ffc 0x0 0x5", libc::SYS_ppoll)), HostState::Sleep);
        assert_eq!(state("-1 0x7ffc 0x7f00\n"), HostState::Blocked);
        for odd in ["", "\n", "x 0x1000", "99999999999999999999999 0x1000", "\u{0}"] {
            assert_eq!(state(odd), HostState::Unknown, "{odd:?}");
        }
        assert_eq!(waits(b"\xff", &gil), HostState::Unknown);
        assert_eq!(state(&format!("{}", libc::SYS_futex)), HostState::Lock, "cut");
    }

    #[test]
    fn times_are_two_numbers() {
        assert_eq!(times(b"12 7 3\n"), Some(Times { cpu_ns: 12, delay_ns: 7 }));
        assert_eq!([times(b""), times(b"12\n"), times(b"12 -7 3"), times(b"\xff 1 1")], [None; 4]);
    }

    /// The other tests of this process keep their descriptors.
    #[test]
    fn our_thread_has_descriptors_of_its_own_and_the_guests_stay_open() {
        let guests = File::open("/proc/self/status").expect("a file");
        let number = guests.as_raw_fd();
        let closed = std::thread::spawn(move || {
            match own_descriptors() {
                Err(NoDescriptors::Refused(_)) => return None,
                other => other.expect("descriptors"),
            }
            let left = fs::read_dir("/proc/thread-self/fd").expect("a folder").count();
            let first = File::open("/proc/thread-self/stat").expect("a file");
            Some((left, first.as_raw_fd()))
        });
        let closed = closed.join().expect("it ends");
        assert!(guests.read_at(&mut [0; 16], 0).is_ok(), "{number} was closed in the guest");
        // The one descriptor is that of the listing.
        let Some(closed) = closed else {
            return eprintln!("SKIPPED: the system has no close_range");
        };
        assert_eq!(closed, (1, 0));
    }

    #[test]
    fn a_thread_is_seen_asleep_and_its_end_is_an_error() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, may_end) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("dozes".into());
        let thread = thread.spawn(move || {
            tell.send(crate::base::generation::thread_id() as u32).expect("heard");
            let _ = may_end.recv();
        });
        let tid = told.recv().expect("a number");
        assert!(all().contains(&tid));
        assert_eq!(Task::name(tid).expect("a name"), "dozes");
        let mut task = Task::open(tid).expect("files");
        let mut is = |wanted| {
            let seen = || task.state(&(0..0)).is_ok_and(|(state, _)| state == wanted);
            std::iter::repeat_with(seen).take(5_000).any(|seen| {
                std::thread::sleep(Duration::from_millis(1));
                seen
            })
        };
        assert!(is(HostState::Lock), "it waits for the channel");
        drop(end);
        thread.expect("a thread").join().expect("it ends");
        let ended = std::iter::repeat_with(|| task.state(&(0..0)).is_err()).take(5_000);
        assert!(ended.into_iter().any(|ended| ended || {
            std::thread::sleep(Duration::from_millis(1));
            false
        }));
    }

    #[test]
    fn so_many_samples_wait_for_a_processor_as_the_sum_says() {
        let tid = crate::base::generation::thread_id() as u32;
        let mut task = Task::open(tid).expect("files");
        let mut told = [0_u64, 0];
        for step in 0..1_000_u64 {
            // Since the last sample, the thread ran for 700 ns and waited for 300 ns.
            let now = task.times().expect("times");
            task.before = Times {
                cpu_ns: now.cpu_ns.saturating_sub(700),
                delay_ns: now.delay_ns.saturating_sub(300),
            };
            if step > 0 && now.delay_ns >= 300 && now.cpu_ns >= 700 {
                let state = task.running_or_ready().expect("a state");
                told[usize::from(state == HostState::Runnable)] += 1;
            }
        }
        let all = told[0] + told[1];
        assert!(all == 0 || (told[1] * 100 / all).abs_diff(30) < 12, "{told:?}");
    }
}
