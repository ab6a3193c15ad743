//! Which thread is in which call of the driver that may block, since when: for whoever asks while the call lasts.
//!
//! A guest thread stores three numbers when a call begins and one when it ends, and nobody waits for anybody. A
//! reader may meet a call that begins or ends at that moment: it then reads numbers of two calls, of which both
//! are over a moment later.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use stage2_contract::trace::MonoNs;

/// Threads that have their own place. One more shares that of another, and each call replaces the last.
const PLACES: usize = 64;

#[derive(Default)]
struct Place {
    /// The thread's number; 0: it is in no call.
    thread: AtomicU32,
    id: AtomicU32,
    at: AtomicU64,
}

/// The calls that have not ended, a place for each thread.
pub struct OpenCalls([Place; PLACES]);

/// A call that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenCall {
    /// [`crate::guest::thread::number`].
    pub(crate) thread: u32,
    /// CUPTI's number of the function.
    pub(crate) id: u32,
    pub(crate) at: MonoNs,
}

impl Default for OpenCalls {
    fn default() -> Self {
        OpenCalls(
            [const { Place { thread: AtomicU32::new(0), id: AtomicU32::new(0), at: AtomicU64::new(0) } };
                PLACES],
        )
    }
}

impl OpenCalls {
    fn place(&self, thread: u32) -> Option<&Place> {
        self.0.get(thread as usize % PLACES).filter(|_| thread != 0)
    }

    /// This thread begins a call. Neither waits nor allocates.
    #[inline]
    pub fn begin(&self, thread: u32, id: u32, at: MonoNs) {
        if let Some(place) = self.place(thread) {
            place.id.store(id, Ordering::Relaxed);
            place.at.store(at.0, Ordering::Relaxed);
            place.thread.store(thread, Ordering::Release);
        }
    }

    /// Its call has ended.
    #[inline]
    pub fn end(&self, thread: u32) {
        if let Some(place) = self.place(thread) {
            place.thread.store(0, Ordering::Release);
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = OpenCall> + '_ {
        self.0.iter().filter_map(|place| {
            let thread = place.thread.load(Ordering::Acquire);
            let (id, at) = (place.id.load(Ordering::Relaxed), place.at.load(Ordering::Relaxed));
            (thread != 0).then_some(OpenCall { thread, id, at: MonoNs(at) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_open_until_it_ends_or_another_takes_its_place() {
        let calls = OpenCalls::default();
        calls.begin(3, 126, MonoNs(7));
        calls.begin(0, 1, MonoNs(1));
        let open = OpenCall { thread: 3, id: 126, at: MonoNs(7) };
        assert_eq!(calls.all().collect::<Vec<_>>(), [open]);
        calls.begin(3 + PLACES as u32, 17, MonoNs(9));
        assert_eq!(calls.all().map(|call| call.id).collect::<Vec<_>>(), [17]);
        calls.end(3);
        assert_eq!(calls.all().count(), 0);
    }
}
