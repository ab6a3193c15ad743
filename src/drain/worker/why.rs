//! What the drain thread knows of work that does not end, for the thread that answers `why`.

use super::{Drain, Hooks};
use crate::base::clock;
use crate::base::clock::Instant;
use crate::base::json::{List, Object};
use crate::drain::standing::{RECENT, shortened};
use crate::guest::pool::Pool;
use crate::guest::windows::{Overdue, Work};

/// Open ranges that are told of, the innermost ones of each thread last.
const MAX_RANGES: usize = 64;
/// A call of the driver that has lasted for so long is a reason to flush by force.
const LONG_CALL_NS: u64 = 1_000_000_000;
/// A range is overdue if so many of its instances have closed, and it has been open for so many times the longest.
const LEAST_EARLIER: u64 = 3;
const OVERDUE: u64 = 2;

impl Drain {
    /// Which work has ended last, and which has not. If nothing has ended for a second, or a thread is in one
    /// call of the driver for so long, CUPTI is flushed by force: work that is running then never gets times.
    pub(super) fn why(&mut self, hooks: Hooks) -> Work {
        let mut object = Object::new();
        let begun = Instant::now();
        let gpu = self.shared.gpu();
        let mut forced = false;
        if let Some(gpu) = gpu {
            let flushed = self.shared.flush(false);
            self.take_in();
            let now = gpu.tracer.now();
            let recent = now.is_some_and(|now| {
                let ago = now.0.saturating_sub(self.queues.last_end().0);
                self.queues.last_end().0 != 0 && u128::from(ago) < RECENT.as_nanos()
            });
            let mono = clock::mono();
            let mut calls = self.shared.open_calls.all();
            let is_long = calls.any(|call| mono.since(call.at) > LONG_CALL_NS);
            if let Err(error) = flushed {
                object = object.text("flush_error", &error.to_string());
            } else if gpu.asks_hardware {
                object = object.text(
                    "not_forced",
                    "the hardware takes the times of kernels, so only threads of the program may flush",
                );
            } else if !recent || is_long {
                forced = true;
                object = self.force(object);
            }
        }
        let took = begun.elapsed().as_micros();
        let now = clock::mono();
        let gpu_now = gpu.and_then(|gpu| gpu.tracer.now());
        let (ranges, overdue) = self.open_ranges();
        object = object
            .value("forced", forced)
            .value("flush_us", took)
            .value("unfinished", self.queues.unfinished())
            .value("restricted", self.wanted.is_restricted())
            .raw("queues", &self.queues.to_json(gpu_now, now, &self.names))
            .raw("open_ranges", &ranges)
            .raw("calls", &self.open_calls_json(hooks))
            .value("steps", self.steps);
        if let Some(off) = self.shared.gpu.get().and_then(|gpu| gpu.as_ref().err()) {
            object = object.text("gpu_off", &off.to_string());
        }
        if self.queues.last_close.0 != 0 {
            let ago = now.since(self.queues.last_close) / 1_000_000;
            object = object.value("range_closed_ms_ago", ago);
        }
        Work { json: object.end(), unfinished: self.queues.unfinished(), overdue }
    }

    fn force(&mut self, object: Object) -> Object {
        self.queues.begin_forced(clock::mono());
        let done = self.shared.flush(true);
        while self.shared.pool.get().is_some_and(Pool::has_full) {
            self.take_in();
        }
        self.queues.end_forced();
        match done {
            Ok(()) => object,
            Err(error) => object.text("flush_error", &error.to_string()),
        }
    }

    /// The open ranges as JSON, and the one that has been open for longest of those that are overdue.
    fn open_ranges(&self) -> (String, Option<Overdue>) {
        let (mut list, mut longest) = (List::new(), None::<Overdue>);
        let (events, now) = (&self.shared.events, clock::mono());
        let with_work = self.aggregates.with_work(&self.names);
        let open = self.ranges.open_ranges(&self.names, |thread| events.lost(thread));
        for open in open.take(MAX_RANGES) {
            let earlier = self.aggregates.closed(open.path);
            let (count, longest_ns) = earlier.unwrap_or_default();
            let open_ns = now.since(open.since);
            let is_late = count >= LEAST_EARLIER && open_ns / OVERDUE >= longest_ns;
            let is_overdue =
                is_late && open.is_of_program && open.is_sure && with_work.contains(&open.path);
            let path = shortened(&self.names.path_text(open.path));
            let (open_ms, longest_ms) = (open_ns / 1_000_000, longest_ns / 1_000_000);
            let range = Object::new()
                .text("path", &path)
                .value("range", open.range)
                .maybe("tid", self.host.tid_of(open.thread))
                .value("open_ms", open_ms)
                .value("of_program", open.is_of_program)
                .value("earlier", count)
                .value("longest_ms", longest_ms)
                .value("overdue", is_overdue);
            list.push(&range.end());
            if is_overdue && longest.as_ref().is_none_or(|other| other.open_ms < open_ms) {
                longest = Some(Overdue { path, open_ms, earlier: count, longest_ms });
            }
        }
        (list.end(), longest)
    }

    fn open_calls_json(&self, hooks: Hooks) -> String {
        let mut list = List::new();
        let now = clock::mono();
        for call in self.shared.open_calls.all() {
            let name = (hooks.call_name)(call.id).unwrap_or("a call of the driver");
            let call = Object::new()
                .text("name", name)
                .maybe("tid", self.host.tid_of(call.thread))
                .value("ms", now.since(call.at) / 1_000_000);
            list.push(&call.end());
        }
        list.end()
    }
}
