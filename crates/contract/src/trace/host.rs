//! Samples of the host: what the threads of the guest were doing at regular moments.
//!
//! A sample is the state of a thread and its Python stack. A stack is a node in a tree of [`HostStack`]s.
//! Each node names a [`HostFrame`], and the texts of a frame are [`Name`](crate::trace::Record::Name)s. So a
//! sample takes about five bytes.

use crate::trace::record::{MonoNs, NONE};
use crate::trace::varint::{Cursor, put, put_step};
use crate::trace::wire::Wire;

/// Fact: why the host was not sampled, or why sampling ended early, with the remedy. Absent if it was
/// sampled to the end, or if sampling was not requested.
pub const OFF: &str = "host.off";
/// Fact: the limits of the samples, for instance that they have no stacks because no interpreter was found.
pub const NOTE: &str = "host.note";
/// Fact: the version of the interpreter whose stacks are read, for instance `3.12`.
pub const PYTHON: &str = "host.python";

/// A line of a function of the guest. Identifiers start at 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostFrame {
    /// Identifier.
    pub id: u32,
    /// Name of the function, qualified if the interpreter has the qualified name (CPython 3.11 and later).
    pub function: u32,
    /// Name of its file, relative to `site-packages`, `dist-packages`, the standard library or the folder of
    /// its package; else the whole path.
    pub file: u32,
    /// The line that ran, from 1; 0: not known.
    pub line: u32,
}

/// A stack, as a node of a tree: a frame that the stack `parent` called. Identifiers start at 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostStack {
    /// Identifier.
    pub id: u32,
    /// The caller's stack; [`NONE`] for the outermost frame.
    pub parent: u32,
    /// [`HostFrame::id`].
    pub frame: u32,
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum HostState {
    /// Not known.
    #[default]
    Unknown = 0,
    /// Running on a processor.
    Running = 1,
    /// Runnable, and waiting for a processor on a run queue.
    Runnable = 2,
    /// Waiting for the GIL, which [`HostSample::holder`] held.
    GilWait = 3,
    /// Waiting for another futex: a lock, a condition, a queue or the end of a thread.
    Lock = 4,
    /// Sleeping.
    Sleep = 5,
    /// Waiting for input or output.
    Poll = 6,
    /// In a driver call (`ioctl`).
    Driver = 7,
    /// Blocked in another system call.
    Blocked = 8,
}

impl HostState {
    const ALL: [Self; 9] = [
        Self::Unknown,
        Self::Running,
        Self::Runnable,
        Self::GilWait,
        Self::Lock,
        Self::Sleep,
        Self::Poll,
        Self::Driver,
        Self::Blocked,
    ];
}

/// A sample of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// Its time. All samples of a round have the same time.
    pub at: MonoNs,
    /// The number of the thread ([`Record::Thread`](crate::trace::Record::Thread)).
    pub thread: u32,
    /// The state of the thread.
    pub state: HostState,
    /// The thread held the GIL.
    pub holds_gil: bool,
    /// The thread that held the GIL, if this one waited for it; [`NONE`]: none, or not known.
    pub holder: u32,
    /// [`HostStack::id`] of its Python stack; [`NONE`]: it has none, or it is not known.
    pub stack: u32,
    /// The time that the sample represents, ns: the time since the previous sample of this thread, but at most
    /// twice the sampling interval of the thread.
    pub interval_ns: u64,
}

/// The most samples in a record.
pub const MAX_HOST_SAMPLES: usize = 4096;

/// A call of the CUDA driver that may wait, from its begin to its end on one thread. Both are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCall {
    /// Name of the function, without the suffix of its version.
    pub name: u32,
    /// The number of the thread, as [`Record::Thread`](crate::trace::Record::Thread) has it.
    pub thread: u32,
    /// When it began.
    pub begin: MonoNs,
    /// When it ended.
    pub end: MonoNs,
    /// [`HostStack::id`] of the Python stack that made it; [`NONE`]: it has none, or it is not known.
    pub stack: u32,
}

/// Calls that one record holds at most.
pub const MAX_HOST_CALLS: usize = 4096;

/// How the sampling went, as totals since the file was begun. The last one of a file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSampling {
    /// The time of the record.
    pub at: MonoNs,
    /// The requested interval, ns.
    pub asked_ns: u64,
    /// The interval in effect, ns: longer if the sampling thread backed off.
    pub interval_ns: u64,
    /// The time that was sampled, ns.
    pub sampled_ns: u64,
    /// Number of rounds.
    pub rounds: u64,
    /// Rounds that began more than half an interval late.
    pub late: u64,
    /// Samples in the file.
    pub samples: u64,
    /// Stacks that changed while they were read. They are in no sample.
    pub torn: u64,
    /// Stacks that could not be read, or were not valid. They are in no sample.
    pub unreadable: u64,
    /// Stacks without their outermost frames, because they were too deep.
    pub cut: u64,
    /// Samples that were lost because no buffer was free.
    pub lost: u64,
    /// Threads that were not sampled, because there were too many (the maximum over time).
    pub threads_left_out: u64,
    /// How often the interval was doubled because the processors were overloaded.
    pub backed_off: u64,
    /// CPU time of the sampling thread, ns.
    pub own_cpu_ns: u64,
    /// Time that it was runnable and waited for a processor, ns.
    pub own_delay_ns: u64,
    /// Calls in the file. Added later, as the next two: 0 where a file does not tell.
    pub calls: u64,
    /// Calls that were too short to be kept, and are in no record.
    pub short_calls: u64,
    /// Calls that found no room.
    pub lost_calls: u64,
}

/// The times that the kernel counts for a guest thread since its start. They are exact, unlike samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostThread {
    /// When the times were read.
    pub at: MonoNs,
    /// The number of the thread.
    pub thread: u32,
    /// The thread has launched GPU work, or opened a range.
    pub launches: bool,
    /// Its CPU time, ns.
    pub cpu_ns: u64,
    /// The time that it was runnable and waited for a processor, ns.
    pub delay_ns: u64,
}

// The first byte of a sample has its state in the lower four bits, and these flags.
const HOLDS_GIL: u8 = 0x10;
const HAS_HOLDER: u8 = 0x20;
const SAME_INTERVAL: u8 = 0x40;
const SAME_TIME: u8 = 0x80;

/// The format is in [`crate::trace`]. Samples beyond [`MAX_HOST_SAMPLES`] are left out: no caller has so
/// many.
impl Wire for Vec<HostSample> {
    fn put(&self, out: &mut Vec<u8>) {
        let samples = &self[..self.len().min(MAX_HOST_SAMPLES)];
        put(out, samples.len() as u64);
        let mut before = HostSample::default();
        for sample in samples {
            let flag = |on, bit| if on { bit } else { 0 };
            out.push(
                sample.state as u8
                    | flag(sample.holds_gil, HOLDS_GIL)
                    | flag(sample.holder != NONE, HAS_HOLDER)
                    | flag(sample.interval_ns == before.interval_ns, SAME_INTERVAL)
                    | flag(sample.at == before.at, SAME_TIME),
            );
            put(out, sample.thread.into());
            put_step(out, before.stack.into(), sample.stack.into());
            if sample.at != before.at {
                put_step(out, before.at.0, sample.at.0);
            }
            if sample.interval_ns != before.interval_ns {
                put_step(out, before.interval_ns, sample.interval_ns);
            }
            if sample.holder != NONE {
                put(out, sample.holder.into());
            }
            before = *sample;
        }
    }

    fn get(c: &mut Cursor<'_>) -> Option<Self> {
        let count = usize::try_from(c.u64()?).ok().filter(|count| *count <= MAX_HOST_SAMPLES)?;
        // A sample takes at least three bytes.
        let mut samples = Vec::with_capacity(count.min(c.left() / 3));
        let mut sample = HostSample::default();
        for _ in 0..count {
            let flags = c.byte()?;
            // A state of a later version is unknown here.
            let state = HostState::ALL.get(usize::from(flags & 0x0f));
            sample.state = state.copied().unwrap_or_default();
            sample.holds_gil = flags & HOLDS_GIL != 0;
            sample.thread = c.u32()?;
            sample.stack = u32::try_from(c.step(sample.stack.into())?).ok()?;
            if flags & SAME_TIME == 0 {
                sample.at = MonoNs(c.step(sample.at.0)?);
            }
            if flags & SAME_INTERVAL == 0 {
                sample.interval_ns = c.step(sample.interval_ns)?;
            }
            sample.holder = if flags & HAS_HOLDER == 0 { NONE } else { c.u32()? };
            samples.push(sample);
        }
        Some(samples)
    }
}

/// As [`crate::trace`] lays it out. Calls beyond [`MAX_HOST_CALLS`] are left out: no caller has any.
impl Wire for Vec<HostCall> {
    fn put(&self, out: &mut Vec<u8>) {
        let calls = &self[..self.len().min(MAX_HOST_CALLS)];
        put(out, calls.len() as u64);
        let mut before = HostCall::default();
        for call in calls {
            put(out, call.name.into());
            put(out, call.thread.into());
            put_step(out, before.end.0, call.begin.0);
            put(out, call.end.0.wrapping_sub(call.begin.0));
            put_step(out, before.stack.into(), call.stack.into());
            before = *call;
        }
    }

    fn get(c: &mut Cursor<'_>) -> Option<Self> {
        let count = usize::try_from(c.u64()?).ok().filter(|count| *count <= MAX_HOST_CALLS)?;
        // A call takes five bytes at least.
        let mut calls = Vec::with_capacity(count.min(c.left() / 5));
        let mut call = HostCall::default();
        for _ in 0..count {
            (call.name, call.thread) = (c.u32()?, c.u32()?);
            call.begin = MonoNs(c.step(call.end.0)?);
            call.end = MonoNs(call.begin.0.wrapping_add(c.u64()?));
            call.stack = u32::try_from(c.step(call.stack.into())?).ok()?;
            calls.push(call);
        }
        Some(calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(samples: &Vec<HostSample>) -> Vec<u8> {
        let mut bytes = Vec::new();
        samples.put(&mut bytes);
        bytes
    }

    /// Eight threads at 100 Hz. The stacks of half of them change.
    #[test]
    fn a_sample_takes_about_five_bytes() {
        let sample = |i: u32| HostSample {
            at: MonoNs(5_432_109_876_543 + u64::from(i / 8) * 10_000_123),
            thread: i % 8 + 1,
            state: HostState::Lock,
            stack: if i.is_multiple_of(2) { 70 + i % 8 } else { 3_000 + i % 900 },
            interval_ns: 10_000_000,
            ..HostSample::default()
        };
        let bytes = written(&(0..4_000).map(sample).collect());
        assert!(bytes.len() < 4_000 * 5, "{} bytes for 4,000 samples", bytes.len());
    }

    #[test]
    fn what_is_cut_or_counts_too_many_is_refused_and_later_states_are_unknown() {
        let sample = HostSample { stack: 7, thread: 2, holder: 3, ..HostSample::default() };
        let bytes = written(&vec![sample; 3]);
        for cut in 0..bytes.len() {
            assert_eq!(Vec::<HostSample>::get(&mut Cursor::new(&bytes[..cut])), None, "at {cut}");
        }
        let mut many = Vec::new();
        put(&mut many, MAX_HOST_SAMPLES as u64 + 1);
        many.resize(100_000, 0);
        assert_eq!(Vec::<HostSample>::get(&mut Cursor::new(&many)), None);
        let later = Vec::<HostSample>::get(&mut Cursor::new(&[1, 0xcf, 9, 0]));
        assert_eq!(later, Some(vec![HostSample { thread: 9, ..HostSample::default() }]));
        assert_eq!(Vec::<HostSample>::get(&mut Cursor::new(&[1, 0xc0, 9, 1])), None, "stack -1");
    }

    #[test]
    fn calls_that_are_cut_or_count_too_many_are_refused() {
        let call = HostCall { name: 300, thread: 2, end: MonoNs(5_000), ..HostCall::default() };
        let mut bytes = Vec::new();
        vec![call; 3].put(&mut bytes);
        assert_eq!(Vec::<HostCall>::get(&mut Cursor::new(&bytes)), Some(vec![call; 3]));
        for cut in 0..bytes.len() {
            assert_eq!(Vec::<HostCall>::get(&mut Cursor::new(&bytes[..cut])), None, "at {cut}");
        }
        let mut many = Vec::new();
        put(&mut many, MAX_HOST_CALLS as u64 + 1);
        many.resize(100_000, 0);
        assert_eq!(Vec::<HostCall>::get(&mut Cursor::new(&many)), None);
    }

    #[test]
    fn every_state_is_the_one_of_its_number() {
        for (number, state) in HostState::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, number);
        }
    }
}
