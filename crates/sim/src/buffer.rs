//! One buffer of a client: reserves the places of records, and writes them when their work is done.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::chosen::Selection;
use crate::clock;
use crate::record::{Record, Span};

/// Unfinished records at which a buffer is searched for finished ones behind unfinished ones.
const SWEEP_AT: usize = 4096;

/// A record whose place is reserved.
pub(crate) struct StagedRecord {
    /// Of its place, bytes from the beginning of the buffer; set by [`Buffer::stage`].
    pub(crate) offset: usize,
    /// Bytes.
    pub(crate) size: usize,
    /// When its work is done, ns.
    pub(crate) end_ns: u64,
    pub(crate) record: Record,
    /// The fields that the client wants of it; None for all, as predefined.
    pub(crate) selection: Option<Arc<Selection>>,
}

/// A buffer of the client that is being filled.
pub(crate) struct Buffer {
    pub(crate) base: *mut u8,
    /// Bytes, and how many of them hold records.
    pub(crate) size: usize,
    pub(crate) used: usize,
    /// Records that the client still wants in it.
    records_left: usize,
    /// Records whose bytes are not written yet.
    staged: VecDeque<StagedRecord>,
    /// When the last of its records is complete, ns.
    complete_ns: u64,
    /// The thread that asked for it.
    pub(crate) thread: Thread,
}

/// A thread, in both numberings that CUPTI has.
#[derive(Clone, Copy)]
pub(crate) struct Thread {
    /// `pthread_self`.
    pub(crate) library: u64,
    /// `gettid`.
    pub(crate) system: u64,
}

impl Thread {
    fn current() -> Thread {
        // SAFETY: neither takes an argument or can fail. glibc 2.17 has no function for the second.
        let (library, system) = unsafe { (libc::pthread_self(), libc::syscall(libc::SYS_gettid)) };
        Thread { library, system: system as u64 }
    }
}

// SAFETY: the client handed the memory over until the completion callback; only the owner of the
// `Buffer` touches it.
unsafe impl Send for Buffer {}

impl Buffer {
    /// An empty buffer at `base`, which has `size` bytes, for at most `max_records` (0: as many as fit).
    pub(crate) fn new(base: *mut u8, size: usize, max_records: usize) -> Buffer {
        Buffer {
            base,
            size,
            used: 0,
            records_left: if max_records == 0 { usize::MAX } else { max_records },
            staged: VecDeque::new(),
            complete_ns: 0,
            thread: Thread::current(),
        }
    }

    /// Reserves the place of a record; gives the record back if there is no room.
    pub(crate) fn stage(&mut self, mut staged: StagedRecord) -> Option<StagedRecord> {
        let size = staged.size;
        if self.records_left == 0 || self.size - self.used < size {
            return Some(staged);
        }
        staged.offset = self.used;
        // The kind is 0 until the record is complete.
        self.slot(staged.offset, size.min(4)).fill(0);
        self.used += size;
        self.records_left -= 1;
        self.complete_ns = self.complete_ns.max(staged.end_ns);
        self.staged.push_back(staged);
        let now_ns = clock::now_ns();
        while let Some(done) = self.staged.pop_front_if(|staged| staged.end_ns <= now_ns) {
            self.write(&done);
        }
        if self.staged.len() % SWEEP_AT == SWEEP_AT - 1 {
            self.settle();
        }
        None
    }

    /// Writes every record whose work is done.
    pub(crate) fn settle(&mut self) {
        let now_ns = clock::now_ns();
        for staged in std::mem::take(&mut self.staged) {
            if staged.end_ns <= now_ns {
                self.write(&staged);
            } else {
                self.staged.push_back(staged);
            }
        }
    }

    /// Overwrites the times of a graph's records that are not written yet.
    pub(crate) fn overwrite(&mut self, exec_id: u32, spans: &[Span]) {
        for staged in &mut self.staged {
            let Record::Work { span, node: (id, node), .. } = &mut staged.record else { continue };
            // The lower half of a node's id is its place.
            let written = spans.get(*node as u32 as usize).filter(|_| *id == exec_id);
            if let Some(&Span { end_ns, .. }) = written {
                (span.end_ns, staged.end_ns) = (end_ns, end_ns);
                self.complete_ns = self.complete_ns.max(end_ns);
            }
        }
    }

    fn write(&mut self, staged: &StagedRecord) {
        let place = self.slot(staged.offset, staged.size);
        match &staged.selection {
            Some(selection) => selection.encode(&staged.record, place),
            None => staged.record.encode(place),
        }
    }

    fn slot(&mut self, offset: usize, size: usize) -> &mut [u8] {
        debug_assert!(offset + size <= self.size);
        // SAFETY: `stage` reserved the bytes inside the memory that the client handed over, and
        // `&mut self` makes this the only slice into it.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(offset), size) }
    }

    /// When it may be handed over, ns.
    pub(crate) fn due_ns(&self, late_ns: u64) -> u64 {
        self.complete_ns.saturating_add(late_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Damage;
    use crate::recorded::{Op, recorded};
    use crate::version::MEASURED;

    fn kernel(end_ns: u64) -> Record {
        let Op { work, .. } = recorded().sequences[1][0];
        let span = Span { start_ns: 1, end_ns, stream_id: 7, correlation_id: 1 };
        Record::Work { work, span, node: (0, 0), grid_id: 1, damage: Damage::None }
    }

    #[test]
    fn bytes_follow_when_the_work_is_done() {
        let mut memory = vec![u64::MAX; 64];
        let mut buffer = Buffer::new(memory.as_mut_ptr().cast(), 512, 0);
        let size = kernel(0).size(&MEASURED);
        let later_ns = clock::now_ns() + 3_600_000_000_000;
        let mut fits = |end_ns| {
            let record = kernel(end_ns);
            buffer
                .stage(StagedRecord { offset: 0, size, end_ns, record, selection: None })
                .is_none()
        };
        assert!(fits(5) && fits(later_ns));
        assert!(!fits(5), "two records of 216 bytes fill 512");
        buffer.settle();
        assert_eq!(buffer.slot(0, 4), [10, 0, 0, 0]);
        assert_eq!(buffer.slot(size, 4), [0; 4], "not complete, so of no kind");
        assert_eq!((buffer.staged.len(), buffer.due_ns(1)), (1, later_ns + 1));
    }
}
