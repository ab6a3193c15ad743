//! Work -> its own thread, or, where the system refuses one (a limit on processes), this one.

use std::io;
use std::sync::mpsc::channel;
use std::thread::Builder;

use crate::failure::Failure;

/// What to do where the system refuses a thread or a process.
pub(crate) const MORE_PROCESSES: &str =
    "raise the limit on processes (`ulimit -u`, pids.max of the container)";

/// Begins work that nobody waits for; where the system refuses a thread it is done here.
pub(crate) fn begin_alone<F: FnOnce() + Send + 'static>(work: F) {
    let (give, given) = channel::<F>();
    match Builder::new().spawn(move || given.recv().map(|work| work())) {
        Ok(_) => drop(give.send(work)),
        Err(_) => work(),
    }
}

/// Why a command that cannot do without a thread ends.
pub(crate) fn refused(error: &io::Error) -> Failure {
    Failure::NoResult(format!("the system refuses a thread ({error}); {MORE_PROCESSES}"))
}
