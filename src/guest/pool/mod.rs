//! Memory for activity records into full buffers: a fixed pool that CUPTI fills and we empty.
//!
//! CUPTI asks for a buffer on a guest thread, inside a launch, and hands it back full on its own
//! thread or on the drain thread. Both sides only move an index through a lock-free list or
//! queue. The address space is reserved once, at start; memory is taken when it is first written.
//!
//! CUPTI holds one buffer for each launching thread, so [`Layout`] makes them smaller as more are
//! out. Buffers of ended threads come back with the next flush; when few are left,
//! [`Pool::runs_low`] asks for one early. When none is left, the pool refuses, and CUPTI counts the
//! records that it drops. CUPTI before 12.9 crashes on a refusal; there extra buffers go out, whatever
//! the limit, and give their memory back once they were read. Records that nothing reads in time are
//! counted.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;

use cupti_sys::fields::{Completion, LayoutError, Layouts};

use crate::base::counters::{Counter, Counters};
use crate::base::pages::{self, Zeroed};
use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::guest::queue::Queue;

pub use stage2_contract::settings::Buffers;

/// Extra buffers, each as large as a small one: 256 MiB of address space, only where CUPTI does not
/// survive a refusal. Half of them may wait to be read; CUPTI fills the others.
const EXTRA_COUNT: usize = 4096;
/// Of all buffers, the part that is left when the pool runs low.
const LOW: usize = 4;
/// How often a bound in bytes is halved where the process may not reserve that much.
const HALVINGS: u32 = 5;

/// In the place of its holder: CUPTI does not hold the buffer.
const NOT_GIVEN: u64 = u64::MAX;

/// The holder of a buffer: its owner, and above it the number of the move that gave it, which wraps.
fn holder(owner: u32, given: u64) -> u64 {
    given << 32 | u64::from(owner)
}

/// A buffer that CUPTI handed back.
#[derive(Debug)]
pub struct FullBuffer {
    start: *mut u8,
    /// Bytes of valid records.
    pub valid: usize,
    /// The thread that asked for the buffer ([`crate::guest::thread`]); 0 is not known.
    pub owner: u32,
    index: u32,
    told: Told,
}

#[derive(Clone, Copy, Debug)]
enum Told {
    /// Nothing: they are of the first activity API.
    Nothing,
    /// Their layouts, in the place of the buffer.
    Layouts(*const Layouts),
    /// What cannot be right.
    False(LayoutError),
}

// SAFETY: a `FullBuffer` is the only handle to its memory, and to the layouts beside it, between
// `complete` and `recycle`; both are plain bytes that any thread may read and write.
unsafe impl Send for FullBuffer {}

impl FullBuffer {
    /// The records.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start..start+valid` lies within a buffer of this pool (checked in `complete`),
        // which is mapped for the life of the process and which nobody writes until `recycle`.
        unsafe { std::slice::from_raw_parts(self.start, self.valid) }
    }

    /// How the records are laid out, as CUPTI told it when it handed the buffer back; `None` for records
    /// of the first activity API, which CUPTI's own walker reads.
    pub fn layouts(&self) -> Option<Result<&Layouts, LayoutError>> {
        match self.told {
            Told::Nothing => None,
            // SAFETY: the place is mapped for the life of the process, `complete` filled it, and nobody
            // writes to it until `recycle`.
            Told::Layouts(layouts) => unsafe { layouts.as_ref() }.map(Ok),
            Told::False(error) => Some(Err(error)),
        }
    }

    /// The start of the records, for CUPTI's own walker.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }
}

/// The buffers.
pub struct Pool {
    layout: Layout,
    start: *mut u8,
    links: Links,
    /// Free buffers by class of the layout.
    free: Box<[FreeList]>,
    /// Where requests may not be refused, the last class is that of the extra buffers.
    may_refuse: bool,
    /// Buffers without the extra ones.
    pooled: usize,
    holders: Box<[AtomicU64]>,
    /// With the second activity API only: what CUPTI tells of each buffer, at its index. A completion
    /// callback may run on a guest thread, which allocates nothing; a place takes 8 KiB at its first use.
    /// Mapped for the life of the process, as the buffers are. Who may use a place is who may use its buffer.
    layouts: Option<ManuallyDrop<Zeroed<UnsafeCell<Layouts>>>>,
    full: Queue<FullBuffer>,
    moves: Counter,
}

// SAFETY: the raw pointer is the start of a mapping that lives as long as the process; who may
// touch which part of it is decided by lock-free lists and queues of indices.
unsafe impl Send for Pool {}
// SAFETY: as above; every method only moves indices through lock-free lists and queues.
unsafe impl Sync for Pool {}

impl Pool {
    /// Reserves the address space: less than was asked for in bytes, where the process may not have
    /// as much. `may_refuse`: this CUPTI survives a request that is not met (12.9 and later). `None`
    /// where the system has no address space left.
    pub fn new(asked: Buffers, may_refuse: bool) -> Option<Self> {
        (0..=HALVINGS).find_map(|halvings| {
            let within = match asked {
                Buffers::Within { bytes } => Buffers::Within { bytes: bytes >> halvings },
                sized @ Buffers::Sized { .. } => sized,
            };
            Self::reserve(within, may_refuse, halvings)
        })
    }

    fn reserve(asked: Buffers, may_refuse: bool, halvings: u32) -> Option<Self> {
        let mut layout = Layout::new(asked);
        let pooled = layout.count();
        let extras = if may_refuse { 0 } else { EXTRA_COUNT >> halvings };
        if !may_refuse {
            layout.add(SMALL_BYTES, extras);
        }
        let start = map(layout.bytes())?;
        let links = Links::new(layout.count());
        let free = layout.0.iter().map(|class| FreeList::new(class.first, class.count, &links));
        Some(Pool {
            start,
            free: free.collect(),
            links,
            may_refuse,
            pooled,
            holders: (0..layout.count()).map(|_| AtomicU64::new(NOT_GIVEN)).collect(),
            full: Queue::new(pooled + extras / 2),
            moves: Counter::default(),
            layouts: None,
            layout,
        })
    }

    /// The pool with room for the layouts of the second activity API; `None` without address space.
    pub fn with_layouts(self) -> Option<Self> {
        // SAFETY: zeros are a table without layouts, which has nothing to be dropped.
        let layouts = ManuallyDrop::new(unsafe { Zeroed::new(self.layout.count()) });
        (!layouts.is_empty()).then(|| Pool { layouts: Some(layouts), ..self })
    }

    /// A zeroed buffer for `owner`, and its size. `None` is a refusal, which was counted.
    pub fn request(&self, owner: u32, counters: &Counters) -> Option<(*mut u8, usize)> {
        let given = self.moves.next();
        let Some(index) = self.free.iter().find_map(|class| class.pop(&self.links)) else {
            counters.buffers_refused.increment();
            if self.may_refuse {
                return None;
            }
            // CUPTI holds thousands of buffers. `complete` does not know this one: its records are
            // counted, its memory stays.
            return map(SMALL_BYTES).map(|start| (start, SMALL_BYTES));
        };
        if let Some(slot) = self.holders.get(index as usize) {
            slot.store(holder(owner, given), Ordering::Release);
        }
        self.extent(index)
    }

    /// Takes a buffer back from CUPTI with `valid` bytes of records in it. Memory that is not from this
    /// pool (another tool's buffer) is left alone: its records are counted.
    pub fn complete(&self, start: *mut u8, valid: usize, counters: &Counters) {
        self.take_back(start, valid, counters, RECORD_BYTES, |_| Told::Nothing);
    }

    /// As [`Pool::complete`], of the second activity API. Without `completion` nothing can be read.
    pub fn complete_told(
        &self,
        start: *mut u8,
        valid: usize,
        completion: Option<Completion<'_>>,
        counters: &Counters,
    ) {
        self.take_back(start, valid, counters, CHOSEN_RECORD_BYTES, |index| {
            let place = self.layouts.as_ref().and_then(|layouts| layouts.get(index as usize));
            let Some((completion, place)) = completion.zip(place.map(UnsafeCell::get)) else {
                return Told::False(LayoutError::None);
            };
            // SAFETY: the buffer is in our hands alone until it is in the queue, and its place with it,
            // which is mapped for the life of the process; a table is made of numbers of any value.
            match completion.layouts(unsafe { &mut *place }) {
                Ok(()) => Told::Layouts(place),
                Err(error) => Told::False(error),
            }
        });
    }

    /// Takes a buffer back. `told` is called with its index while it is in our hands alone; of what is
    /// lost, so many bytes count as a record.
    fn take_back(
        &self,
        start: *mut u8,
        valid: usize,
        counters: &Counters,
        record_bytes: usize,
        told: impl FnOnce(u32) -> Told,
    ) {
        self.moves.increment();
        let given = self.index_of(start).and_then(|index| {
            let holder = self.holders.get(index as usize)?.swap(NOT_GIVEN, Ordering::AcqRel);
            (holder != NOT_GIVEN).then_some((index, holder as u32, self.extent(index)?.1))
        });
        let Some((index, owner, size)) = given else {
            counters.unreadable_records.add(records_in(valid, record_bytes));
            return;
        };
        let full = FullBuffer { start, valid: valid.min(size), owner, index, told: told(index) };
        if let Err(full) = self.full.send(full) {
            counters.unreadable_records.add(records_in(full.valid, record_bytes));
            self.recycle(full);
        }
    }

    /// Buffers that CUPTI holds.
    pub(crate) fn given(&self) -> usize {
        self.given_now().count()
    }

    /// Those of them that CUPTI holds since before move number `moves` ([`Pool::moves`]).
    pub fn given_since(&self, moves: u64) -> usize {
        let was_there = |(_, holder): &(u32, u64)| {
            (moves as u32).wrapping_sub((holder >> 32) as u32) as i32 >= 0
        };
        self.given_now().filter(was_there).count()
    }

    /// Index and holder of each.
    fn given_now(&self) -> impl Iterator<Item = (u32, u64)> {
        let holders = self.holders.iter().map(|holder| holder.load(Ordering::Relaxed));
        (0..).zip(holders).filter(|&(_, holder)| holder != NOT_GIVEN)
    }

    /// Bytes of the buffers that CUPTI holds: what it can fill before it asks for another one.
    pub fn given_bytes(&self) -> usize {
        self.given_now().filter_map(|(index, _)| self.extent(index)).map(|(_, bytes)| bytes).sum()
    }

    /// How often CUPTI asked for a buffer or handed one back.
    pub fn moves(&self) -> u64 {
        self.moves.get()
    }

    /// Few buffers are left, without the extra ones: those that CUPTI keeps for idle and for ended
    /// threads are needed.
    pub fn runs_low(&self) -> bool {
        let extras = usize::from(!self.may_refuse);
        let left: usize = self.free.iter().rev().skip(extras).map(FreeList::left).sum();
        left < self.pooled / LOW
    }

    /// Bytes of address space, with those of the extra buffers.
    pub fn bytes(&self) -> usize {
        self.layout.bytes()
    }

    /// The oldest buffer that CUPTI handed back.
    pub fn take_full(&self) -> Option<FullBuffer> {
        self.full.receive()
    }

    /// Buffers that CUPTI handed back and that wait to be taken, with those that it is just handing back.
    pub fn waiting(&self) -> usize {
        self.full.in_use()
    }

    pub(crate) fn has_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Makes a buffer that was read available again.
    pub fn recycle(&self, full: FullBuffer) {
        if full.index as usize >= self.pooled {
            // SAFETY: these are whole pages of a mapping of this pool, which nobody uses until
            // the index is pushed below. They read as zero from now on.
            unsafe { libc::madvise(full.start.cast(), SMALL_BYTES, libc::MADV_DONTNEED) };
        } else {
            // CUPTI knows that buffers come zeroed, which spares the guest's threads from
            // clearing them.
            // SAFETY: the buffer is ours alone until its index is pushed below, and `valid` does
            // not exceed its size.
            unsafe { ptr::write_bytes(full.start, 0, full.valid) };
        }
        let class = self.layout.extent(full.index as usize).and_then(|(_, at)| self.free.get(at));
        if let Some(class) = class {
            class.push(full.index, &self.links);
        }
    }

    fn extent(&self, index: u32) -> Option<(*mut u8, usize)> {
        let (offset, class) = self.layout.extent(index as usize)?;
        Some((self.start.wrapping_add(offset), self.layout.0.get(class)?.bytes))
    }

    fn index_of(&self, start: *mut u8) -> Option<u32> {
        let offset = (start as usize).checked_sub(self.start as usize)?;
        self.layout.index_of(offset).map(|index| index as u32)
    }
}

/// A kernel of CUDA 12, bytes. From 11.8 to 13.x kernels have 200 to 248, copies and fills 88 to 112.
pub const RECORD_BYTES: usize = 208;
/// A kernel with the fields that are asked for, bytes; each CUPTI tells its own number.
pub const CHOSEN_RECORD_BYTES: usize = 100;

/// About how many records of so many bytes each lie in `bytes`.
pub fn records_in(bytes: usize, record_bytes: usize) -> u64 {
    bytes.div_ceil(record_bytes.max(1)) as u64
}

fn map(bytes: usize) -> Option<*mut u8> {
    pages::map(bytes, libc::MAP_PRIVATE | libc::MAP_NORESERVE).map(<*mut c_void>::cast)
}

// Indices of free buffers, last in, first out, without a lock and without allocation. The buffer that was used
// last is handed out first: the memory that a guest touches follows what it uses at a time, not the size of
// the pool.

const END: u32 = u32::MAX;

/// Which free buffer lies below which. Shared by all lists, because a buffer is in one at a time.
struct Links(Box<[AtomicU32]>);

impl Links {
    fn new(count: usize) -> Self {
        Links((0..count).map(|_| AtomicU32::new(END)).collect())
    }
}

struct FreeList {
    /// The index on top in the lower half. The upper half counts changes: without it, a thread that
    /// sleeps in [`FreeList::pop`] could take a top that is the same again over another list.
    head: AtomicU64,
    left: AtomicUsize,
}

impl FreeList {
    /// The indices from `first`, the lowest on top.
    fn new(first: usize, count: usize, links: &Links) -> Self {
        let free = FreeList { head: AtomicU64::new(u64::from(END)), left: AtomicUsize::new(0) };
        for index in (first..first + count).rev() {
            free.push(index as u32, links);
        }
        free
    }

    fn pop(&self, links: &Links) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let below = links.0.get(head as u32 as usize)?.load(Ordering::Relaxed);
            match self.replace(head, below) {
                Ok(()) => {
                    self.left.fetch_sub(1, Ordering::Relaxed);
                    return Some(head as u32);
                }
                Err(now) => head = now,
            }
        }
    }

    fn push(&self, index: u32, links: &Links) {
        let Some(link) = links.0.get(index as usize) else { return };
        // First the count, so that it never falls below nought.
        self.left.fetch_add(1, Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            link.store(head as u32, Ordering::Relaxed);
            match self.replace(head, index) {
                Ok(()) => return,
                Err(now) => head = now,
            }
        }
    }

    /// About how many are left.
    fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    fn replace(&self, head: u64, top: u32) -> Result<(), u64> {
        let next = ((head >> 32).wrapping_add(1) << 32) | u64::from(top);
        let replaced =
            self.head.compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire);
        replaced.map(drop)
    }
}

// What `STAGE2_BUFFERS` asks for into how many buffers of which size, and where each lies. CUPTI keeps one
// buffer for each launching thread, so the sizes follow the number of threads: the first ones get large
// buffers, which change hands rarely; when these are taken, smaller ones go out. All lie in one mapping,
// largest first.

/// A large buffer, bytes: 5,000 kernel records of CUPTI 13.
const LARGE_BYTES: usize = 1 << 20;
/// A buffer for the threads after the first, bytes.
const MEDIUM_BYTES: usize = 256 << 10;
/// The smallest buffer, bytes: 300 kernel records of CUPTI 13. No smaller one was tried with CUPTI.
const SMALL_BYTES: usize = 64 << 10;
/// Small buffers next to those that were asked for by size and number.
const BESIDE: usize = if cfg!(feature = "models") { 0 } else { 64 };
/// Of a bound in bytes, the shares of the large and of the medium buffers: 32 and 48 MiB of the
/// default's 256. The other 176 MiB are 2,816 small ones: 1,000 threads hold one each, and as many
/// again may wait to be read after a flush, which takes them from all threads at once.
const LARGE_SHARE: (usize, usize) = (2, 16);
const MEDIUM_SHARE: (usize, usize) = (3, 16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    bytes: usize,
    count: usize,
    /// Index of the first.
    first: usize,
    /// Where the first lies, bytes from the start of the mapping.
    offset: usize,
}

/// All sizes, largest first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Layout(Vec<Class>);

impl Layout {
    fn new(asked: Buffers) -> Self {
        let sizes = match asked {
            Buffers::Sized { bytes, count } => vec![(bytes, count), (SMALL_BYTES, BESIDE)],
            Buffers::Within { bytes } => {
                let share = |(part, of): (usize, usize)| bytes / of * part;
                let large = share(LARGE_SHARE) / LARGE_BYTES;
                let medium = share(MEDIUM_SHARE) / MEDIUM_BYTES;
                let rest = bytes - large * LARGE_BYTES - medium * MEDIUM_BYTES;
                let small = (SMALL_BYTES, rest / SMALL_BYTES);
                vec![(LARGE_BYTES, large), (MEDIUM_BYTES, medium), small]
            }
        };
        let mut layout = Layout(Vec::with_capacity(sizes.len() + 1));
        for (bytes, count) in sizes {
            layout.add(bytes, count);
        }
        layout
    }

    /// Adds buffers behind all others.
    fn add(&mut self, bytes: usize, count: usize) {
        let (first, offset) = (self.count(), self.bytes());
        self.0.push(Class { bytes, count, first, offset });
    }

    fn count(&self) -> usize {
        self.0.last().map_or(0, |class| class.first + class.count)
    }

    fn bytes(&self) -> usize {
        self.0.last().map_or(0, |class| class.offset + class.bytes * class.count)
    }

    /// Where a buffer lies, bytes from the start of the mapping, and its class.
    fn extent(&self, index: usize) -> Option<(usize, usize)> {
        let at = self.0.iter().rposition(|class| class.first <= index)?;
        let class = self.0.get(at)?;
        let within = index - class.first;
        (within < class.count).then_some((class.offset + within * class.bytes, at))
    }

    /// The buffer that starts so many bytes behind the start of the mapping.
    fn index_of(&self, offset: usize) -> Option<usize> {
        let class = self.0.iter().rev().find(|class| class.count > 0 && class.offset <= offset)?;
        let within = offset - class.offset;
        let index = within / class.bytes;
        (within.is_multiple_of(class.bytes) && index < class.count).then_some(class.first + index)
    }
}

#[cfg(all(test, feature = "models"))]
mod models;

#[cfg(test)]
mod tests;
