//! When each launched operation starts and ends on the simulated GPU.
//!
//! Each stream runs its operations in order. A launch that finds too much unfinished work on its
//! stream must wait, as a real launch does; that also bounds the memory of the simulation.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use crate::abi::{Handle, Outcome, cuda, refuse_if};
use crate::clock;
use crate::record::{NULL_STREAM_ID, Span};

/// Time from a launch to the earliest start of its kernel on an idle stream, ns.
const LAUNCH_LATENCY_NS: u64 = 3_000;
/// Operations that a stream may have unfinished before a launch must wait.
const QUEUE_LIMIT: u32 = 1024;
const STREAM_LIMIT: usize = 65_536;
const STREAM_TAG: usize = 0x1000_0000_0000_0000;
/// CUPTI's id of the first created stream.
const FIRST_STREAM_ID: u32 = 13;

/// All streams of the context. An unknown handle gives `INVALID_HANDLE`.
#[derive(Default)]
pub(crate) struct Timeline {
    streams: Mutex<Streams>,
}

#[derive(Default)]
struct Streams {
    created: u32,
    by_handle: HashMap<Handle, Stream>,
    /// When the work of the streams that were destroyed is done, ns.
    retired_end_ns: u64,
}

#[derive(Default)]
struct Stream {
    id: u32,
    /// When everything launched so far is done, ns.
    end_ns: u64,
    /// (end in ns, operations) of the launches not known to be done.
    unfinished: VecDeque<(u64, u32)>,
    /// Sum of the operations in `unfinished`.
    queued: u32,
    capture: Option<Handle>,
}

impl Timeline {
    /// A new stream; `OUT_OF_MEMORY` when there are very many.
    pub(crate) fn create(&self) -> Outcome<Handle> {
        let mut streams = self.streams.lock();
        refuse_if(streams.by_handle.len() >= STREAM_LIMIT, cuda::OUT_OF_MEMORY)?;
        let id = FIRST_STREAM_ID + streams.created;
        streams.created += 1;
        let handle = STREAM_TAG | id as usize;
        streams.by_handle.insert(handle, Stream { id, ..Stream::default() });
        Ok(handle)
    }

    /// Forgets a stream; its work goes on.
    pub(crate) fn destroy(&self, handle: Handle) -> Outcome {
        let mut streams = self.streams.lock();
        let stream = streams.by_handle.remove(&handle).ok_or(cuda::INVALID_HANDLE)?;
        streams.retired_end_ns = streams.retired_end_ns.max(stream.end_ns);
        Ok(())
    }

    /// Queues operations, each a duration and a gap to the one before, ns; waits while the stream is full.
    pub(crate) fn enqueue(
        &self,
        handle: Handle,
        correlation_id: u32,
        ops: impl ExactSizeIterator<Item = (u64, i64)>,
    ) -> Outcome<Vec<Span>> {
        while let Some(free_at_ns) =
            self.with(handle, |stream| stream.full_until(clock::now_ns()))?
        {
            clock::sleep_until(free_at_ns);
        }
        self.with(handle, |stream| {
            let earliest_ns = clock::now_ns() + LAUNCH_LATENCY_NS;
            let count = u32::try_from(ops.len()).unwrap_or(u32::MAX);
            stream.end_ns = clock::real(stream.end_ns);
            let spans = ops.map(|(duration_ns, gap_ns)| {
                let start_ns = stream.end_ns.saturating_add_signed(gap_ns).max(earliest_ns);
                stream.end_ns = match duration_ns {
                    clock::FOREVER_NS if clock::is_held(start_ns) => start_ns + 1_000,
                    clock::FOREVER_NS => clock::next_release_ns(),
                    duration_ns => start_ns.saturating_add(duration_ns),
                };
                Span { start_ns, end_ns: stream.end_ns, stream_id: stream.id, correlation_id }
            });
            let spans = spans.collect();
            stream.unfinished.push_back((stream.end_ns, count));
            stream.queued = stream.queued.saturating_add(count);
            spans
        })
    }

    pub(crate) fn end_ns(&self, handle: Handle) -> Outcome<u64> {
        self.with(handle, |stream| stream.end_ns)
    }

    pub(crate) fn end_of_all_ns(&self) -> u64 {
        let streams = self.streams.lock();
        let ends = streams.by_handle.values().map(|stream| clock::real(stream.end_ns));
        ends.fold(clock::real(streams.retired_end_ns), u64::max)
    }

    pub(crate) fn capture(&self, handle: Handle) -> Outcome<Option<Handle>> {
        self.with(handle, |stream| stream.capture)
    }

    /// Starts (`Some`) or ends (`None`) a capture; gives what was captured into before.
    pub(crate) fn set_capture(
        &self,
        stream: Handle,
        graph: Option<Handle>,
    ) -> Outcome<Option<Handle>> {
        self.with(stream, |stream| std::mem::replace(&mut stream.capture, graph))
    }

    fn with<T>(&self, handle: Handle, body: impl FnOnce(&mut Stream) -> T) -> Outcome<T> {
        let mut streams = self.streams.lock();
        // 0, 1 and 2 are the default stream and its explicit legacy and per-thread forms.
        let stream = if handle <= 2 {
            let new = || Stream { id: NULL_STREAM_ID, ..Stream::default() };
            streams.by_handle.entry(0).or_insert_with(new)
        } else {
            streams.by_handle.get_mut(&handle).ok_or(cuda::INVALID_HANDLE)?
        };
        Ok(body(stream))
    }
}

impl Stream {
    /// Drops what is done; if the stream still is full, when its next launch is done, ns.
    fn full_until(&mut self, now_ns: u64) -> Option<u64> {
        while let Some((_, count)) =
            self.unfinished.front().filter(|(end, _)| clock::real(*end) <= now_ns)
        {
            self.queued = self.queued.saturating_sub(*count);
            self.unfinished.pop_front();
        }
        if self.queued < QUEUE_LIMIT {
            return None;
        }
        self.unfinished.front().map(|(end, _)| *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_a_stream_follow_each_other_with_their_gaps() {
        let timeline = Timeline::default();
        let ops = [(1_000_000, 0), (2_000_000, 500_000), (1_000_000, -97)];
        let before = clock::now_ns();
        let spans = timeline.enqueue(0, 5, ops.into_iter()).expect("default stream");
        assert_eq!((spans[0].stream_id, spans[0].correlation_id), (NULL_STREAM_ID, 5));
        assert!(spans[0].start_ns >= before + LAUNCH_LATENCY_NS);
        assert_eq!(spans[0].end_ns - spans[0].start_ns, 1_000_000);
        assert_eq!(spans[1].start_ns - spans[0].end_ns, 500_000);
        assert_eq!(spans[1].end_ns - spans[2].start_ns, 97);
        assert_eq!(timeline.end_ns(0), Ok(spans[2].end_ns));
        assert_eq!(timeline.end_of_all_ns(), spans[2].end_ns);
    }

    #[test]
    fn streams_run_side_by_side() {
        let timeline = Timeline::default();
        let (a, b) = (timeline.create().expect("a"), timeline.create().expect("b"));
        let launch = |s| timeline.enqueue(s, 1, [(5_000_000_000, 0)].into_iter()).expect("launch");
        let (first, second) = (launch(a), launch(b));
        assert_ne!(first[0].stream_id, second[0].stream_id);
        assert!(second[0].start_ns < first[0].end_ns, "the second stream waited for the first");
    }

    #[test]
    fn a_full_stream_makes_the_launch_wait() {
        let timeline = Timeline::default();
        let begin = clock::now_ns();
        for _ in 0..=QUEUE_LIMIT {
            timeline.enqueue(0, 1, [(20_000, 0)].into_iter()).expect("launch");
        }
        // The last launch had to wait for the first, and 1024 launches of 20 us are queued.
        let end = timeline.end_of_all_ns();
        assert!(clock::now_ns() >= begin + 20_000);
        assert!(end >= begin + 20_000_000);
        assert!(timeline.with(0, |stream| stream.queued).expect("stream") <= QUEUE_LIMIT);
    }

    #[test]
    fn a_stream_that_is_not_there_is_refused() {
        let timeline = Timeline::default();
        let stream = timeline.create().expect("stream");
        assert_eq!(timeline.destroy(stream), Ok(()));
        assert_eq!(timeline.destroy(stream), Err(cuda::INVALID_HANDLE));
        assert_eq!(timeline.enqueue(stream, 1, [].into_iter()).err(), Some(cuda::INVALID_HANDLE));
        assert_eq!(timeline.capture(77), Err(cuda::INVALID_HANDLE));
    }
}
