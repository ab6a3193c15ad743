//! Work -> a thread of its own, or, where the system refuses one (a limit on processes), this one.

use std::sync::mpsc::channel;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Work that was begun.
pub enum Task<'scope, T> {
    /// On a thread of its own.
    Begun(ScopedJoinHandle<'scope, Option<T>>),
    /// Here, because there was no thread for it.
    Done(T),
}

impl<T> Task<'_, T> {
    /// What came of it; nothing where it panicked.
    pub fn join(self) -> Option<T> {
        match self {
            Task::Begun(thread) => thread.join().ok().flatten(),
            Task::Done(result) => Some(result),
        }
    }
}

/// Does `work` beside this thread where that can be, and else at once.
pub fn begin<'scope, T: Send + 'scope, F: FnOnce() -> T + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: F,
) -> Task<'scope, T> {
    // The thread takes the work when it is there: what a refused thread was given is gone.
    let (give, given) = channel::<F>();
    match Builder::new().spawn_scoped(scope, move || Some((given.recv().ok()?)())) {
        Ok(thread) => {
            // A thread that ended already has panicked, which its end tells.
            let _ = give.send(work);
            Task::Begun(thread)
        }
        Err(_) => Task::Done(work()),
    }
}
