//! The stack of a thread at the end of a call that blocked it, read by the thread itself.
//!
//! The frames do not change within the call. The sampling thread of the host stores where those of Python are. The
//! thread reads them through the kernel, because an interpreter that ends frees them even if their thread is in a
//! call. A thread without Python code copies its registers and the end of its stack, and the sampling thread finds
//! the frames in them. A reading needs one of a few slots. If none is free, or after [`MOST`] readings in a second,
//! it is left out.

use std::ffi::c_void;
use std::sync::OnceLock;

use stage2_contract::trace::MonoNs;

use super::sync::{AtomicU32, AtomicU64, Ordering};
use super::{generation, pages, scheduling};

/// A call that took less time is not worth the reading, ns.
pub(crate) const LEAST_NS: u64 = 100_000;
/// Readings of a process in a second.
const MOST: u64 = 200;
// loom explores every slot and frame, so a model has as few as possible.
const SLOTS: usize = if cfg!(feature = "models") { 1 } else { 16 };
const THREADS: usize = if cfg!(feature = "models") { 2 } else { 64 };
/// The innermost frames that are read.
const FRAMES: usize = if cfg!(feature = "models") { 2 } else { 64 };
/// Numbers of a native stack that are copied, counted from its end: those of CUPTI's own frames lie there too.
const WORDS: usize = if cfg!(feature = "models") { 2 } else { 1536 };
/// Registers that are kept with them.
const REGISTERS: usize = 3;
/// Bytes that are read at once: frames that were called from each other lie near each other, from 3.11.
const WINDOW: usize = 2048;
const PAGE: u64 = 4096;

/// Stands for the state of a thread that runs no Python code.
const NATIVE: u64 = 0;

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

/// The registers of a thread that tell where it is, and in which frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registers {
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    /// `None`: not known.
    pub(crate) rbp: Option<u64>,
}

/// What a thread has read of its stack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frames {
    /// Addresses of code objects and what their frames say of the instruction, the innermost first.
    Python(Vec<(u64, u64)>),
    /// Its registers, and the bytes of its stack from the stack pointer on.
    Native(Registers, Vec<u8>),
}

/// A reading.
pub(crate) struct CallStack {
    /// The number of the thread in the trace file.
    pub(crate) thread: u32,
    /// When the call began.
    pub(crate) begin: MonoNs,
    pub(crate) frames: Frames,
}

/// What the threads of the guest and the one that samples them share.
#[derive(Debug)]
pub struct CallStacks {
    layout: OnceLock<FrameLayout>,
    /// The seccomp filters that a thread must have to read its stack.
    filters: OnceLock<scheduling::Filters>,
    /// The kernel's number of a thread, and the address of its state; [`NATIVE`]: it runs no Python code.
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
    /// The registers, and then so many numbers of a native stack. It is too large for the stack of who makes a slot.
    native: OnceLock<Box<[AtomicU64]>>,
    is_native: AtomicU32,
}

impl Default for CallStacks {
    fn default() -> Self {
        let slot = || Slot {
            state: AtomicU32::new(FREE),
            thread: AtomicU32::new(0),
            begin: AtomicU64::new(0),
            count: AtomicU32::new(0),
            frames: std::array::from_fn(|_| (AtomicU64::new(0), AtomicU64::new(0))),
            native: OnceLock::new(),
            is_native: AtomicU32::new(0),
        };
        CallStacks {
            layout: OnceLock::new(),
            filters: OnceLock::new(),
            threads: std::array::from_fn(|_| (AtomicU32::new(0), AtomicU64::new(0))),
            slots: std::array::from_fn(|_| slot()),
            spent: AtomicU64::new(0),
        }
    }
}

impl CallStacks {
    /// Makes room for native stacks. A thread whose seccomp filters differ from the caller's reads no stack.
    pub(crate) fn begin(&self) {
        for slot in &self.slots {
            slot.native.get_or_init(|| (0..REGISTERS + WORDS).map(|_| AtomicU64::new(0)).collect());
        }
        let _ = self.filters.set(scheduling::Filters::of_caller());
    }

    /// Stores how the interpreter of this process keeps frames.
    pub(crate) fn tell_layout(&self, layout: FrameLayout) {
        // One process has one interpreter.
        let _ = self.layout.set(layout);
    }

    /// Stores which threads may read their stacks: the kernel's thread ID and the address of the state of each;
    /// `None`: it runs no Python code.
    pub(crate) fn tell_threads(&self, threads: impl Iterator<Item = (u32, Option<u64>)>) {
        let mut places = self.threads.iter();
        let threads = threads.map(|(tid, state)| (tid, state.unwrap_or(NATIVE)));
        for ((tid, state), (place, at)) in threads.zip(places.by_ref()) {
            if place.load(Ordering::Relaxed) != tid || at.load(Ordering::Relaxed) != state {
                place.store(0, Ordering::Relaxed);
                at.store(state, Ordering::Relaxed);
                place.store(tid, Ordering::Release);
            }
        }
        places.for_each(|(place, _)| place.store(0, Ordering::Relaxed));
    }

    /// Reads the stack of the calling thread, which has the number `thread`, at the end of a call. Returns whether it
    /// did.
    pub(crate) fn read(&self, thread: u32, begin: MonoNs, end: MonoNs) -> bool {
        let Some(filters) = self.filters.get() else { return false };
        let tid = generation::thread_id() as u32;
        let Some(state) = self.state_of(tid) else { return false };
        // A filter that is new may end the process for reading memory.
        if scheduling::Filters::of_caller() != *filters || !self.may_read(end) {
            return false;
        }
        self.fill_slot(|slot| {
            slot.is_native.store((state == NATIVE).into(), Ordering::Relaxed);
            let count = match self.layout.get() {
                _ if state == NATIVE => slot.copy_stack(),
                Some(layout) => slot.fill(layout, state),
                None => None,
            };
            slot.describe(thread, begin, count.unwrap_or(0))
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
        let frames = match self.native.get() {
            Some(native) if self.is_native.load(Ordering::Relaxed) != 0 => {
                let mut numbers = native.iter().map(|number| number.load(Ordering::Relaxed));
                let mut next = || numbers.next().unwrap_or(0);
                let (pc, sp, rbp) = (next(), next(), Some(next()));
                let stack = numbers.take(count).flat_map(u64::to_le_bytes).collect();
                Frames::Native(Registers { pc, sp, rbp }, stack)
            }
            _ => Frames::Python(self.frames.iter().take(count).map(number).collect()),
        };
        CallStack {
            thread: self.thread.load(Ordering::Relaxed),
            begin: MonoNs(self.begin.load(Ordering::Relaxed)),
            frames,
        }
    }

    /// Copies the registers of the calling thread and what its callers left on its stack. Returns how many numbers.
    fn copy_stack(&self) -> Option<usize> {
        let native = self.native.get()?;
        let (places, numbers) = native.split_at_checked(REGISTERS)?;
        let registers = own_registers()?;
        let values = [registers.pc, registers.sp, registers.rbp?];
        places.iter().zip(values).for_each(|(place, value)| place.store(value, Ordering::Relaxed));
        let pid = std::process::id() as libc::pid_t;
        let mut bytes = [0; WINDOW];
        let mut count = 0;
        while let Some(rest) = numbers.get(count..).filter(|rest| !rest.is_empty()) {
            let start = registers.sp.checked_add(8 * count as u64)?;
            // The kernel reads all of a part or nothing, and the stack ends with a page.
            let length = (WINDOW - start as usize % WINDOW).min(8 * rest.len());
            let place = bytes.get_mut(..length)?;
            let from = libc::iovec { iov_base: start as *mut c_void, iov_len: length };
            if pages::read_own(pid, &[from], place) < length {
                break;
            }
            for (place, bytes) in rest.iter().zip(place.as_chunks().0) {
                place.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
            }
            count += length / 8;
        }
        Some(count)
    }

    /// Reads the frames of the calling thread. Returns how many.
    fn fill(&self, layout: &FrameLayout, state: u64) -> Option<usize> {
        let pid = std::process::id() as libc::pid_t;
        let at = |base: u64, field: u64| pages::read_number(pid, base.wrapping_add(field));
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

/// Returns the registers of the calling thread. `None`: frames are not found on this kind of processor.
#[inline(always)]
fn own_registers() -> Option<Registers> {
    #[cfg(target_arch = "x86_64")]
    {
        let (pc, sp, rbp): (u64, u64, u64);
        // SAFETY: the instructions change nothing but the three registers that the compiler chose.
        unsafe {
            std::arch::asm!(
                "lea {pc}, [rip]",
                "mov {sp}, rsp",
                "mov {rbp}, rbp",
                pc = out(reg) pc,
                sp = out(reg) sp,
                rbp = out(reg) rbp,
                options(nomem, nostack, preserves_flags)
            );
        }
        Some(Registers { pc, sp, rbp: Some(rbp) })
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// A part of memory that was read.
struct Window {
    start: u64,
    length: usize,
    bytes: [u8; WINDOW],
}

impl Window {
    /// Returns `length` bytes from an address. A new read also takes the bytes before them in the same page.
    fn get(&mut self, pid: libc::pid_t, address: u64, length: usize) -> Option<&[u8]> {
        let end = address.checked_add(length as u64)?;
        if address < self.start || end > self.start + self.length as u64 {
            let start = (address & !(PAGE - 1)).max(end.saturating_sub(WINDOW as u64)).min(address);
            let place = self.bytes.get_mut(..(end - start) as usize)?;
            let from = libc::iovec { iov_base: start as *mut c_void, iov_len: place.len() };
            self.length = pages::read_own(pid, &[from], place);
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
        stacks.begin();
        stacks.tell_layout(LAYOUT);
        assert!(!read(), "no thread");
        stacks.tell_threads([(own_tid(), Some(of_another.as_ptr() as u64))].into_iter());
        assert!(!read(), "the state of another thread");
        stacks.tell_threads([(own_tid(), Some(8))].into_iter());
        assert!(!read(), "memory that is not there");
        stacks.tell_threads([(own_tid(), Some(state.as_ptr() as u64))].into_iter());
        assert!(read());
        let found = stacks.take().expect("a reading");
        assert_eq!((found.thread, found.begin), (5, MonoNs(10)));
        assert_eq!(found.frames, Frames::Python(vec![(0xbeef, 9), (0xc0de, 7)]));
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
        stacks.begin();
        stacks.tell_layout(LAYOUT);
        stacks.tell_threads([(own_tid(), Some(state.as_ptr() as u64))].into_iter());
        let read = |second: u64| stacks.read(5, MonoNs(10), MonoNs(second * 1_000_000_000));
        assert_eq!((0..40).filter(|_| read(1)).count(), SLOTS);
        let found = stacks.take().expect("a reading");
        assert!(matches!(found.frames, Frames::Python(frames) if frames.len() == FRAMES));
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
    const MARK: u64 = 0x5374_6167_6532_0001;

    /// Reads with a number on the stack, and returns where that was.
    #[inline(never)]
    fn reads_with_mark(stacks: &CallStacks) -> u64 {
        let mark = std::hint::black_box(MARK);
        assert!(stacks.read(5, MonoNs(10), MonoNs(20)));
        (&raw const mark) as u64
    }

    #[test]
    fn a_thread_without_python_code_copies_its_registers_and_the_end_of_its_stack() {
        let stacks = CallStacks::default();
        stacks.begin();
        stacks.tell_threads([(own_tid(), None)].into_iter());
        let mark_at = reads_with_mark(&stacks);
        let found = stacks.take().expect("a reading");
        let Frames::Native(registers, bytes) = found.frames else { panic!("{:?}", found.frames) };
        assert!(bytes.len() <= 8 * WORDS && registers.pc != 0);
        let at = (mark_at - registers.sp) as usize;
        assert_eq!(bytes.get(at..at + 8), Some(&MARK.to_le_bytes()[..]));
        // The same slot serves a thread of Python.
        stacks.tell_layout(LAYOUT);
        let state = [own_pthread(), 0];
        stacks.tell_threads([(own_tid(), Some(state.as_ptr() as u64))].into_iter());
        assert!(!stacks.read(5, MonoNs(10), MonoNs(20)), "no frame");
    }
}
