//! Runs a command of the user's from our thread, so that the guest does not notice: its `wait` does not get it, and no
//! SIGCHLD comes.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::futex;

/// The child runs on this until its `execve`: it calls the system, and nothing else.
const STACK_BYTES: usize = 64 << 10;
const STEP: Duration = Duration::from_millis(20);
const LAST_SIGNAL: libc::c_int = 64;
/// Bytes of the kernel's set of signals.
const SET_BYTES: usize = 8;

struct Program {
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
}

/// Runs `sh -c COMMAND` with the path of the evidence in `STAGE2_WHY_FILE`, for `patience` at most.
///
/// # Errors
/// It could not be started, failed, or took too long; then it was ended.
pub(super) fn run(
    command: &OsStr,
    variables: &[(&str, &str)],
    patience: Duration,
) -> Result<(), String> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| "it has a NUL byte".to_owned());
    let words = [text(b"sh")?, text(b"-c")?, text(command.as_bytes())?];
    let mut variables: Vec<CString> = variables
        .iter()
        .map(|(name, value)| text(format!("{name}={value}").as_bytes()))
        .collect::<Result<_, _>>()?;
    variables.push(text(b"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")?);
    let pointers = |texts: &[CString]| {
        texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>()
    };
    let program = Program { arguments: pointers(&words), environment: pointers(&variables) };
    let mut stack = vec![0_u8; STACK_BYTES];
    // No signal at its end: the guest's `wait` without `__WCLONE` does not get the child either.
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: this thread sleeps until the child has called `execve` or `_exit`, so all that the child uses lives as
    // long. The child runs `become_it` only, on a stack of its own, aligned at its end.
    let child = unsafe {
        let end = stack.as_mut_ptr().add(STACK_BYTES);
        let top = end.sub(end as usize % 16);
        libc::clone(become_it, top.cast(), flags, (&raw const program).cast_mut().cast())
    };
    if child < 0 {
        return Err(format!("no process can be started ({})", std::io::Error::last_os_error()));
    }
    await_end(child, patience)
}

extern "C" fn become_it(program: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `run` gives a valid program. Signal handlers are copies of the guest's and are reset before any signal
    // may come; the calls go to the system directly, because a preloaded library stands before some of them.
    unsafe {
        let program = &*program.cast::<Program>();
        // The kernel's `sigaction` of all zeros: the default, without flags and mask.
        let default = [0_u64; 4];
        for signal in 1..=LAST_SIGNAL {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null::<u64>(),
                SET_BYTES,
            );
        }
        let none = 0_u64;
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            ptr::null::<u64>(),
            SET_BYTES,
        );
        // With what it starts it is one group, so that all of it can be ended.
        libc::syscall(libc::SYS_setpgid, 0, 0);
        let path = c"/bin/sh".as_ptr();
        libc::syscall(
            libc::SYS_execve,
            path,
            program.arguments.as_ptr(),
            program.environment.as_ptr(),
        );
        libc::syscall(libc::SYS_exit, 127);
    }
    127
}

fn await_end(child: libc::pid_t, patience: Duration) -> Result<(), String> {
    let until = Instant::now() + patience;
    loop {
        let mut status = 0;
        // SAFETY: the place is valid. `__WALL` gets children that send no signal.
        match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG | libc::__WALL) } {
            0 if Instant::now() < until => futex::nap(STEP),
            0 => {
                // SAFETY: the child has not been waited for, so its number is still its own.
                unsafe {
                    libc::syscall(libc::SYS_kill, -child, libc::SIGKILL);
                    libc::waitpid(child, &raw mut status, libc::__WALL);
                }
                return Err(format!("it took more than {} s and was ended", patience.as_secs()));
            }
            ended if ended == child => {
                return match status {
                    0 => Ok(()),
                    _ if libc::WIFEXITED(status) => {
                        Err(format!("it ended with status {}", libc::WEXITSTATUS(status)))
                    }
                    _ => Err(format!("it was ended by signal {}", libc::WTERMSIG(status))),
                };
            }
            // The guest has waited for all children (`__WALL`): how it ended is not known.
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_succeeds_fails_or_is_ended() {
        let patience = Duration::from_secs(20);
        let run =
            |command: &str, patience| super::run(OsStr::new(command), &[("X", "a b")], patience);
        assert_eq!(run("test \"$X\" = 'a b'", patience), Ok(()));
        assert_eq!(run("exit 3", patience), Err("it ended with status 3".to_owned()));
        assert_eq!(run("kill -TERM $$", patience), Err("it was ended by signal 15".to_owned()));
        let error = run("sleep 100", Duration::from_millis(50)).unwrap_err();
        assert!(error.contains("was ended"), "{error}");
    }
}
