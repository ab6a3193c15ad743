//! Python frames of a thread at the end of a call that blocked it, read by the thread itself.
//!
//! The frames do not change within the call. The sampling thread of the host stores where they are. The thread reads
//! them through the kernel, because an interpreter that ends frees them even if their thread is in a call.
//! A reading needs one of a few slots. If none is free, or after [`MOST`] readings in a second, it is left out.

use std::ffi::c_void;
use std::sync::OnceLock;

use stage2_contract::trace::MonoNs;

use super::sync::{AtomicU32, AtomicU64, Ordering};
use super::{generation, own_memory, scheduling};

/// A call that took less time is not worth the reading, ns.
pub(crate) const LEAST_NS: u64 = 100_000;
/// Readings of a process in a second.
const MOST: u64 = 200;
// loom explores every slot and frame, so a model has as few as possible.
const SLOTS: usize = if cfg!(feature = "models") { 1 } else { 16 };
const THREADS: usize = if cfg!(feature = "models") { 2 } else { 64 };
/// The innermost frames that are read.
const FRAMES: usize = if cfg!(feature = "models") { 2 } else { 64 };
/// Bytes that are read at once: frames that were called from each other lie near each other, from 3.11 on.
const WINDOW: usize = 2048;
const PAGE: u64 = 4096;

// The states of a slot.
const FREE: u32 = 0;
const TAKEN: u32 = 1;
const FULL: u32 = 2;

/// Where an interpreter keeps frames, in bytes from the begin of what holds them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameLayout {
    /// In the state of a thread: the innermost frame, or where that is kept.
    pub(crate) innermost: u64,
    /// The frame behind the pointer above.
    pub(crate) behind: Option<u64>,
    /// In the state of a thread: its `pthread_t`.
    pub(crate) pthread: u64,
    pub(crate) previous: u64,
    pub(crate) code: u64,
    pub(crate) instruction: u64,
    pub(crate) owner: Option<u64>,
    /// Frames with this owner or a higher one are not Python frames.
    pub(crate) no_owner: u8,
    /// Bytes of a frame up to the last of these.
    pub(crate) bytes: u64,
}

/// A reading.
pub(crate) struct CallStack {
    /// The number of the thread in the trace file.
    pub(crate) thread: u32,
    /// When the call began.
    pub(crate) begin: MonoNs,
    /// Addresses of code objects and what their frames say of the instruction, the innermost first.
    pub(crate) frames: Vec<(u64, u64)>,
}

/// What the threads of the guest and the one that samples them share.
#[derive(Debug)]
pub struct CallStacks {
    /// And the seccomp filters that a thread must have to read its frames.
    layout: OnceLock<(FrameLayout, scheduling::Filters)>,
    /// The kernel's number of a thread, and the address of its state.
    threads: [(AtomicU32, AtomicU64); THREADS],
    slots: [Slot; SLOTS],
    /// The second, and the readings in it.
    spent: AtomicU64,
}

#[derive(Debug)]
struct Slot {
    state: AtomicU32,
    thread: AtomicU32,
    begin: AtomicU64,
    count: AtomicU32,
    frames: [(AtomicU64, AtomicU64); FRAMES],
}

impl Default for CallStacks {
    fn default() -> Self {
        let slot = || Slot {
            state: AtomicU32::new(FREE),
            thread: AtomicU32::new(0),
            begin: AtomicU64::new(0),
            count: AtomicU32::new(0),
            frames: std::array::from_fn(|_| (AtomicU64::new(0), AtomicU64::new(0))),
        };
        CallStacks {
            layout: OnceLock::new(),
            threads: std::array::from_fn(|_| (AtomicU32::new(0), AtomicU64::new(0))),
            slots: std::array::from_fn(|_| slot()),
            spent: AtomicU64::new(0),
        }
    }
}

impl CallStacks {
    /// Stores how the interpreter of this process keeps frames. A thread whose seccomp filters differ from the
    /// caller's reads none.
    pub(crate) fn tell_layout(&self, layout: FrameLayout) {
        // One process has one interpreter.
        let _ = self.layout.set((layout, scheduling::Filters::of_caller()));
    }

    /// Stores which threads may read their frames: the kernel's thread ID and the address of the state of each.
    pub(crate) fn tell_threads(&self, threads: impl Iterator<Item = (u32, u64)>) {
        let mut places = self.threads.iter();
        for ((tid, state), (place, at)) in threads.zip(places.by_ref()) {
            if place.load(Ordering::Relaxed) != tid || at.load(Ordering::Relaxed) != state {
                place.store(0, Ordering::Relaxed);
                at.store(state, Ordering::Relaxed);
                place.store(tid, Ordering::Release);
            }
        }
        places.for_each(|(place, _)| place.store(0, Ordering::Relaxed));
    }

    /// Reads the frames of the calling thread, which has the number `thread`, at the end of a call. Returns whether it
    /// did.
    pub(crate) fn read(&self, thread: u32, begin: MonoNs, end: MonoNs) -> bool {
        let Some((layout, filters)) = self.layout.get() else { return false };
        let tid = generation::thread_id() as u32;
        let Some(state) = self.state_of(tid) else { return false };
        // A filter that is new may end the process for reading memory.
        if scheduling::Filters::of_caller() != *filters || !self.may_read(end) {
            return false;
        }
        self.fill_slot(|slot| {
            let count = slot.fill(layout, state).unwrap_or(0);
            slot.describe(thread, begin, count)
        })
    }

    /// Takes a reading, if there is one. Only the sampling thread calls this.
    pub(crate) fn take(&self) -> Option<CallStack> {
        self.empty_slot(Slot::reading)
    }

    /// Returns the address of the state of a thread. If its place is given to another thread meanwhile, this may be
    /// the state of that thread: whoever reads the state compares the thread in it.
    fn state_of(&self, tid: u32) -> Option<u64> {
        let place = self.threads.iter().find(|(place, _)| place.load(Ordering::Acquire) == tid);
        place.map(|(_, state)| state.load(Ordering::Relaxed))
    }

    /// Fills a free slot, if there is one. Returns whether it holds a reading now, as `fill` reports.
    fn fill_slot(&self, fill: impl FnOnce(&Slot) -> bool) -> bool {
        let take = |slot: &&Slot| {
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            slot.state.compare_exchange(FREE, TAKEN, success, failure).is_ok()
        };
        let Some(slot) = self.slots.iter().find(take) else { return false };
        let is_full = fill(slot);
        slot.state.store(if is_full { FULL } else { FREE }, Ordering::Release);
        is_full
    }

    /// Passes a slot that holds a reading to `look`, if there is one, and frees it.
    fn empty_slot<T>(&self, look: impl FnOnce(&Slot) -> T) -> Option<T> {
        let is_full = |slot: &&Slot| slot.state.load(Ordering::Acquire) == FULL;
        let slot = self.slots.iter().find(is_full)?;
        let found = look(slot);
        slot.state.store(FREE, Ordering::Release);
        Some(found)
    }

    fn may_read(&self, now: MonoNs) -> bool {
        let second = (now.0 / 1_000_000_000) << 16;
        let next = |spent: u64| match spent & !0xffff == second {
            true => (spent & 0xffff < MOST).then_some(spent + 1),
            false => Some(second + 1),
        };
        self.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

impl Slot {
    /// Stores the thread and the call that the frames belong to. Returns whether there are any frames.
    fn describe(&self, thread: u32, begin: MonoNs, count: usize) -> bool {
        self.thread.store(thread, Ordering::Relaxed);
        self.begin.store(begin.0, Ordering::Relaxed);
        self.count.store(count as u32, Ordering::Relaxed);
        count > 0
    }

    fn reading(&self) -> CallStack {
        let count = self.count.load(Ordering::Relaxed) as usize;
        let number = |(code, at): &(AtomicU64, AtomicU64)| {
            (code.load(Ordering::Relaxed), at.load(Ordering::Relaxed))
        };
        CallStack {
            thread: self.thread.load(Ordering::Relaxed),
            begin: MonoNs(self.begin.load(Ordering::Relaxed)),
            frames: self.frames.iter().take(count).map(number).collect(),
        }
    }

    /// Reads the frames of the calling thread. Returns how many.
    fn fill(&self, layout: &FrameLayout, state: u64) -> Option<usize> {
        let pid = std::process::id() as libc::pid_t;
        let at = |base: u64, field: u64| own_memory::number(pid, base.wrapping_add(field));
        // The state may be that of a thread that had this number before.
        // SAFETY: no preconditions.
        let is_own = at(state, layout.pthread)? == unsafe { libc::pthread_self() } as u64;
        let mut here = at(state, layout.innermost).filter(|_| is_own)?;
        if let Some(behind) = layout.behind {
            here = at(here, behind)?;
        }
        let mut window = Window { start: 0, length: 0, bytes: [0; WINDOW] };
        let mut count = 0;
        // C frames lie between Python frames: at most as many again.
        for _ in 0..2 * FRAMES {
            if here == 0 || count == FRAMES {
                break;
            }
            let Some(bytes) = window.get(pid, here, layout.bytes as usize) else { break };
            let field = |field: u64| {
                let bytes = bytes.get(field as usize..)?.first_chunk()?;
                Some(u64::from_le_bytes(*bytes))
            };
            let owner = layout.owner.and_then(|owner| bytes.get(owner as usize));
            if owner.is_none_or(|owner| *owner < layout.no_owner) {
                let (code, instruction) = self.frames.get(count)?;
                code.store(field(layout.code)?, Ordering::Relaxed);
                instruction.store(field(layout.instruction)?, Ordering::Relaxed);
                count += 1;
            }
            here = field(layout.previous)?;
        }
        Some(count)
    }
}

/// A part of memory that was read.
struct Window {
    start: u64,
    length: usize,
    bytes: [u8; WINDOW],
}

impl Window {
    /// Returns `length` bytes from an address on. A new read also takes the bytes before them in the same page.
    fn get(&mut self, pid: libc::pid_t, address: u64, length: usize) -> Option<&[u8]> {
        let end = address.checked_add(length as u64)?;
        if address < self.start || end > self.start + self.length as u64 {
            let start = (address & !(PAGE - 1)).max(end.saturating_sub(WINDOW as u64)).min(address);
            let place = self.bytes.get_mut(..(end - start) as usize)?;
            let from = libc::iovec { iov_base: start as *mut c_void, iov_len: place.len() };
            self.length = own_memory::copy(pid, &[from], place);
            self.start = start;
        }
        let at = (address - self.start) as usize;
        self.bytes.get(..self.length)?.get(at..at + length)
    }
}

#[cfg(all(test, feature = "models"))]
mod models;

#[cfg(all(test, not(feature = "models")))]
mod tests {
    use super::*;

    const LAYOUT: FrameLayout = FrameLayout {
        innermost: 8,
        behind: None,
        pthread: 0,
        previous: 0,
        code: 8,
        instruction: 16,
        owner: Some(24),
        no_owner: 3,
        bytes: 25,
    };

    fn own_tid() -> u32 {
        generation::thread_id() as u32
    }

    fn own_pthread() -> u64 {
        // SAFETY: no preconditions.
        unsafe { libc::pthread_self() as u64 }
    }

    #[test]
    fn a_thread_reads_its_own_frames_and_no_others() {
        let outer = [0_u64, 0xc0de, 7, 0];
        let entry = [outer.as_ptr() as u64, 0, 0, 3];
        let inner = [entry.as_ptr() as u64, 0xbeef, 9, 1];
        let state = [own_pthread(), inner.as_ptr() as u64];
        let of_another = [own_pthread() + 1, inner.as_ptr() as u64];
        let stacks = CallStacks::default();
        let read = || stacks.read(5, MonoNs(10), MonoNs(20));
        assert!(!read(), "no layout");
        stacks.tell_layout(LAYOUT);
        assert!(!read(), "no thread");
        stacks.tell_threads([(own_tid(), of_another.as_ptr() as u64)].into_iter());
        assert!(!read(), "the state of another thread");
        stacks.tell_threads([(own_tid(), 8)].into_iter());
        assert!(!read(), "memory that is not there");
        stacks.tell_threads([(own_tid(), state.as_ptr() as u64)].into_iter());
        assert!(read());
        let found = stacks.take().expect("a reading");
        assert_eq!((found.thread, found.begin), (5, MonoNs(10)));
        assert_eq!(found.frames, [(0xbeef, 9), (0xc0de, 7)]);
        assert!(stacks.take().is_none());
        stacks.tell_threads(std::iter::empty());
        assert!(!read(), "no thread any more");
    }

    #[test]
    fn circles_end_and_readings_are_bounded_in_number_and_by_the_second() {
        let mut inner = [0_u64, 0xbeef, 9, 1];
        inner[0] = inner.as_ptr() as u64;
        let state = [own_pthread(), inner.as_ptr() as u64];
        let stacks = CallStacks::default();
        stacks.tell_layout(LAYOUT);
        stacks.tell_threads([(own_tid(), state.as_ptr() as u64)].into_iter());
        let read = |second: u64| stacks.read(5, MonoNs(10), MonoNs(second * 1_000_000_000));
        assert_eq!((0..40).filter(|_| read(1)).count(), SLOTS);
        assert_eq!(stacks.take().map(|found| found.frames.len()), Some(FRAMES));
        let more = |second| {
            (0..500)
                .filter(|_| {
                    while stacks.take().is_some() {}
                    read(second)
                })
                .count()
        };
        assert_eq!([more(1), more(2)], [MOST as usize - 40, MOST as usize]);
    }
}
