//! What one client collects: kinds of records, single calls, attributes, and its buffers.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};

use crate::abi::{
    CompleteFunc, CompleteFuncV2, CompleteInfo, RequestFunc, RequestFuncV2, RequestInfo,
};
use crate::callbacks::IdSet;
use crate::chosen::{Chosen, Selection};
use crate::clock;
use crate::config::Config;
use crate::record::{Record, Span};
use crate::version::Version;

/// Of the process for the first activity API, of each subscriber for the second.
pub(crate) struct Collection {
    pub(crate) kinds: IdSet,
    /// Driver calls that get API records while the `DRIVER` kind is off.
    pub(crate) recorded_calls: IdSet,
    /// Values of the activity attributes that were set.
    pub(crate) attributes: RwLock<HashMap<u32, u64>>,
    pub(crate) buffers: Arc<Buffers>,
}

impl Collection {
    pub(crate) fn new(config: &Config) -> Collection {
        Collection {
            kinds: IdSet::new(),
            recorded_calls: IdSet::new(),
            attributes: RwLock::default(),
            buffers: Arc::new(Buffers::new(config)),
        }
    }

    pub(crate) fn has_call(&self, cbid: u32) -> bool {
        self.kinds.has(crate::abi::kind::DRIVER) || self.recorded_calls.has(cbid)
    }

    pub(crate) fn offer(&self, record: Record, end_ns: u64) {
        let is_wanted = match record {
            Record::Api { cbid, .. } => self.has_call(cbid),
            _ => self.kinds.has(record.kind()),
        };
        if is_wanted {
            self.buffers.stage(record, end_ns);
        }
    }
}

/// The two callbacks of the client: one gives a buffer, the other takes it back. `Other` came
/// later and keeps everything to itself.
#[derive(Clone, Copy)]
pub(crate) enum Client {
    First { request: RequestFunc, complete: CompleteFunc },
    Second { request: RequestFuncV2, complete: CompleteFuncV2 },
    Other,
}

/// The buffer that one thread, or every thread, currently writes to.
type Channel = Arc<Mutex<Option<Buffer>>>;

#[derive(Default)]
pub(crate) struct Buffers {
    /// Tells it from the others of the process.
    id: u64,
    version: Version,
    late_ns: u64,
    client: RwLock<Option<Client>>,
    /// One channel a thread (CUPTI's default from 13.0 on), or one for all.
    pub(crate) per_thread: AtomicBool,
    shared: Channel,
    /// All channels, with the shared one.
    channels: Mutex<Vec<Channel>>,
    full: Mutex<VecDeque<Buffer>>,
    wake: Condvar,
    /// Held while buffers are handed over, so that a flush ends after every earlier hand-over.
    delivery: Mutex<()>,
    dropped: AtomicU64,
    drop_every: u64,
    taken_over_at: u64,
    /// Records of GPU work.
    seen: AtomicU64,
    /// The fields that a client of the second activity API wants.
    pub(crate) chosen: Chosen,
    /// Threads are numbered as the system does it.
    pub(crate) system_thread_ids: AtomicBool,
    closed: AtomicBool,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The channels of this thread, by the id of the [`Buffers`].
    static CHANNELS: RefCell<Vec<(u64, Channel)>> = const { RefCell::new(Vec::new()) };
}

impl Buffers {
    pub(crate) fn new(config: &Config) -> Buffers {
        let shared = Channel::default();
        Buffers {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            version: config.version,
            late_ns: config.faults.late_buffers_ms.saturating_mul(1_000_000),
            per_thread: AtomicBool::new(config.version.toolkit >= (13, 0)),
            channels: Mutex::new(vec![Arc::clone(&shared)]),
            shared,
            drop_every: config.faults.drop_every,
            taken_over_at: config.faults.taken_over_at,
            ..Buffers::default()
        }
    }

    /// Takes the callbacks; the first time, also starts the thread that hands buffers over.
    pub(crate) fn register(self: &Arc<Self>, client: Client) -> std::io::Result<()> {
        if self.client.write().replace(client).is_some() {
            return Ok(());
        }
        let worker = std::thread::Builder::new().name("sim-cupti-worker".to_owned());
        let own = Arc::clone(self);
        worker.spawn(move || own.hand_over_full_buffers()).map(drop)
    }

    pub(crate) fn has_client(&self) -> bool {
        self.client.read().is_some()
    }

    /// Times have changed: looks again which buffers are complete.
    pub(crate) fn wake(&self) {
        drop(self.full.lock());
        self.wake.notify_all();
    }

    pub(crate) fn leave(&self) {
        *self.client.write() = None;
    }

    /// Ends the thread that hands buffers over. What was not flushed before does not come back.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // The lock, so that the thread cannot be between its look at `closed` and its wait.
        drop(self.full.lock());
        self.wake.notify_all();
    }

    /// The fields that the client wants of a kind of records; None for all, as predefined.
    fn selection(&self, kind: u32) -> Option<Arc<Selection>> {
        match *self.client.read() {
            Some(Client::Second { .. }) => self.chosen.of(kind),
            _ => None,
        }
    }

    /// How far records of a kind lie apart, bytes.
    pub(crate) fn stride(&self, kind: u32) -> Option<usize> {
        match self.selection(kind) {
            Some(selection) => Some(selection.record_bytes()),
            None => self.version.record_bytes(kind),
        }
    }

    /// Puts a record, complete at `end_ns`, into the calling thread's buffer. Asks the client for a
    /// new one if there is no room; if the client gives none, drops and counts the record.
    pub(crate) fn stage(&self, record: Record, end_ns: u64) {
        let selection = self.selection(record.kind());
        let size = match &selection {
            Some(selection) => selection.record_bytes(),
            None => record.size(&self.version),
        };
        if size == 0 || self.client.read().is_none() {
            return;
        }
        let staged = StagedRecord { offset: 0, size, end_ns, record, selection };
        if record.is_gpu_work() {
            let seen = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
            if seen == self.taken_over_at {
                *self.client.write() = Some(Client::Other);
            }
            if self.drop_every > 0 && seen.is_multiple_of(self.drop_every) {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        let channel = self.channel();
        let Some(staged) = self.stage_in(&channel, staged) else { return };
        if let Some(fresh) = self.request() {
            // In a shared channel another thread may have been faster; its buffer goes back.
            let other = channel.lock().replace(fresh);
            self.push_full(other);
            if self.stage_in(&channel, staged).is_none() {
                return;
            }
        }
        if !matches!(*self.client.read(), Some(Client::Other)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Puts a record into a channel's buffer. Without room it comes back, and the buffer is handed over.
    fn stage_in(&self, channel: &Channel, staged: StagedRecord) -> Option<StagedRecord> {
        let mut current = channel.lock();
        let staged = match current.as_mut() {
            Some(buffer) => buffer.stage(staged)?,
            None => staged,
        };
        let full = current.take();
        drop(current);
        self.push_full(full);
        Some(staged)
    }

    /// Hands over, from the calling thread, the buffers that are complete; with `forced` every buffer.
    pub(crate) fn flush(&self, forced: bool) {
        let _delivery = self.delivery.lock();
        let mut ready: VecDeque<Buffer> = self.take_full(forced);
        for channel in self.channels.lock().iter() {
            let is_ready = |buffer: &mut Buffer| {
                buffer.settle();
                forced || buffer.due_ns(self.late_ns) <= clock::now_ns()
            };
            ready.extend(channel.lock().take_if(is_ready));
        }
        for mut buffer in ready {
            if forced {
                buffer.settle();
                buffer.write_untimed();
            }
            self.deliver(buffer);
        }
        if forced {
            self.chosen.forget_ended();
        }
    }

    /// Overwrites the times of a graph's recorded launches whose records are not written yet: in
    /// CUPTI 13.0 all launches of a graph share the storage of its times, also unrecorded ones.
    pub(crate) fn overwrite(&self, exec_id: u32, spans: &[Span]) {
        self.full.lock().iter_mut().for_each(|buffer| buffer.overwrite(exec_id, spans));
        for channel in self.channels.lock().iter() {
            if let Some(buffer) = channel.lock().as_mut() {
                buffer.overwrite(exec_id, spans);
            }
        }
    }

    pub(crate) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    fn channel(&self) -> Channel {
        if !self.per_thread.load(Ordering::Relaxed) {
            return Arc::clone(&self.shared);
        }
        // A thread whose thread-locals are gone still may launch: it writes to the shared buffer.
        let own = |channels: &RefCell<Vec<(u64, Channel)>>| {
            let mut channels = channels.borrow_mut();
            if let Some((_, channel)) = channels.iter().find(|(id, _)| *id == self.id) {
                return Arc::clone(channel);
            }
            // Those of clients that are gone are nobody else's.
            channels.retain(|(_, channel)| Arc::strong_count(channel) > 1);
            let channel = self.add_channel();
            channels.push((self.id, Arc::clone(&channel)));
            channel
        };
        CHANNELS.try_with(own).unwrap_or_else(|_| Arc::clone(&self.shared))
    }

    fn add_channel(&self) -> Channel {
        let channel = Channel::default();
        let mut channels = self.channels.lock();
        // A thread that ended leaves its buffer to the next flush; its channel goes after that.
        channels.retain(|old| Arc::strong_count(old) > 1 || old.lock().is_some());
        channels.push(Arc::clone(&channel));
        channel
    }

    fn request(&self) -> Option<Buffer> {
        let client = (*self.client.read())?;
        let (mut base, mut size, mut max_records) = (std::ptr::null_mut(), 0, 0);
        let (base_out, size_out) = (&raw mut base, &raw mut size);
        match client {
            // SAFETY: the client registered this function for exactly these three out-parameters.
            Client::First { request, .. } => unsafe {
                request(base_out, size_out, &raw mut max_records);
            },
            Client::Second { request, .. } => {
                let mut info = RequestInfo { struct_size: size_of::<RequestInfo>() };
                // SAFETY: as above, with the information that the second API brings along.
                unsafe { request(base_out, size_out, &raw mut max_records, &raw mut info) };
            }
            Client::Other => {}
        }
        (!base.is_null() && size > 0).then(|| Buffer::new(base, size, max_records))
    }

    fn push_full(&self, buffer: Option<Buffer>) {
        if let Some(buffer) = buffer {
            self.full.lock().push_back(buffer);
            self.wake.notify_one();
        }
    }

    /// Full buffers that are due, or all of them.
    fn take_full(&self, all: bool) -> VecDeque<Buffer> {
        let now_ns = clock::now_ns();
        let mut full = self.full.lock();
        let (due, rest) =
            full.drain(..).partition(|buffer| all || buffer.due_ns(self.late_ns) <= now_ns);
        *full = rest;
        due
    }

    fn hand_over_full_buffers(&self) {
        loop {
            {
                let _delivery = self.delivery.lock();
                for buffer in self.take_full(false) {
                    self.deliver(buffer);
                }
            }
            let mut full = self.full.lock();
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            let next_ns = full.iter().map(|buffer| buffer.due_ns(self.late_ns)).min();
            match next_ns.map(|next_ns| next_ns.saturating_sub(clock::now_ns())) {
                None => self.wake.wait(&mut full),
                Some(0) => {}
                Some(wait_ns) => {
                    let until = Instant::now() + Duration::from_nanos(wait_ns);
                    self.wake.wait_until(&mut full, until);
                }
            }
        }
    }

    fn deliver(&self, mut buffer: Buffer) {
        buffer.settle();
        let Some(client) = *self.client.read() else { return };
        let Buffer { base, size, used, thread, .. } = buffer;
        match client {
            // SAFETY: the buffer is the client's own, filled to `used`; nothing here keeps it.
            Client::First { complete, .. } => unsafe { complete(0, 0, base, size, used) },
            Client::Second { complete, .. } => {
                // CUPTI 13.2 tells no layouts.
                let mut table = self.chosen.table().filter(|_| self.version.toolkit >= (13, 3));
                let by_kind = table.as_mut().map(|table| table.by_kind.as_mut_slice());
                let use_system = self.system_thread_ids.load(Ordering::Relaxed);
                let mut info = CompleteInfo {
                    struct_size: size_of::<CompleteInfo>(),
                    thread_id: if use_system { thread.system } else { thread.library },
                    layouts_len: by_kind.as_ref().map_or(0, |by_kind| by_kind.len()),
                    layouts: by_kind.map_or(std::ptr::null_mut(), <[_]>::as_mut_ptr),
                };
                // SAFETY: as above; the table lives until the callback returns.
                unsafe { complete(base, size, used, &raw mut info) };
            }
            Client::Other => {}
        }
    }
}

/// Unfinished records at which a buffer is searched for finished ones behind unfinished ones.
const SWEEP_AT: usize = 4096;

/// A record whose place is reserved.
struct StagedRecord {
    /// Of its place, bytes from the beginning of the buffer; set by [`Buffer::stage`].
    pub(crate) offset: usize,
    pub(crate) size: usize,
    pub(crate) end_ns: u64,
    pub(crate) record: Record,
    /// The fields that the client wants of it; None for all, as predefined.
    pub(crate) selection: Option<Arc<Selection>>,
}

impl StagedRecord {
    /// With the times that a release has set.
    fn by_now(&self) -> StagedRecord {
        let mut record = self.record;
        if let Record::Work { span, .. } = &mut record {
            (span.start_ns, span.end_ns) = (clock::real(span.start_ns), clock::real(span.end_ns));
        }
        StagedRecord { record, selection: self.selection.clone(), ..*self }
    }
}

struct Buffer {
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
    pub(crate) thread: Thread,
}

/// A thread, in both numberings that CUPTI has.
#[derive(Clone, Copy)]
struct Thread {
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
        while let Some(done) =
            self.staged.pop_front_if(|staged| clock::real(staged.end_ns) <= now_ns)
        {
            self.write(&done);
        }
        if self.staged.len() % SWEEP_AT == SWEEP_AT - 1 {
            self.settle();
        }
        None
    }

    pub(crate) fn settle(&mut self) {
        let now_ns = clock::now_ns();
        for staged in std::mem::take(&mut self.staged) {
            if clock::real(staged.end_ns) <= now_ns {
                self.write(&staged);
            } else {
                self.staged.push_back(staged);
            }
        }
    }

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

    /// Writes the records of work that has not ended, without times: it never gets any.
    fn write_untimed(&mut self) {
        for mut staged in std::mem::take(&mut self.staged) {
            if let Record::Work { span, .. } = &mut staged.record {
                (span.start_ns, span.end_ns) = (0, 0);
                self.write(&staged);
            }
        }
    }

    fn write(&mut self, staged: &StagedRecord) {
        let staged = &staged.by_now();
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

    pub(crate) fn due_ns(&self, late_ns: u64) -> u64 {
        clock::real(self.complete_ns).saturating_add(late_ns)
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
