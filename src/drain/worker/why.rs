//! What the drain thread knows of work that does not end, for the thread that answers `why`.

use super::{Drain, Hooks};
use crate::base::clock;
use crate::base::clock::Instant;
use crate::base::json::{List, Object};
use crate::drain::standing::{RECENT, shortened};
use crate::guest::pool::Pool;

/// Open ranges that are told of, the innermost ones of each thread last.
const MAX_RANGES: usize = 64;
/// A call of the driver that has lasted for so long is a reason to flush by force.
const LONG_CALL_NS: u64 = 1_000_000_000;

impl Drain {
    /// Which work has ended last, and which has not, as JSON. If nothing has ended for a second, or a thread is in one
    /// call of the driver for so long, CUPTI is flushed by force: work that is running then never gets times.
    pub(super) fn why(&mut self, hooks: Hooks) -> String {
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
        object = object
            .value("forced", forced)
            .value("flush_us", took)
            .value("unfinished", self.queues.unfinished())
            .value("restricted", self.wanted.is_restricted())
            .raw("queues", &self.queues.to_json(gpu_now, now, &self.names))
            .raw("open_ranges", &self.open_ranges_json())
            .raw("calls", &self.open_calls_json(hooks))
            .value("steps", self.steps);
        if let Some(off) = self.shared.gpu.get().and_then(|gpu| gpu.as_ref().err()) {
            object = object.text("gpu_off", &off.to_string());
        }
        if self.queues.last_close.0 != 0 {
            let ago = now.since(self.queues.last_close) / 1_000_000;
            object = object.value("range_closed_ms_ago", ago);
        }
        object.end()
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

    fn open_ranges_json(&self) -> String {
        let mut list = List::new();
        let open = self.ranges.open_ranges(&self.names, clock::mono());
        for (thread, range, path, ns, is_of_program) in open.take(MAX_RANGES) {
            let range = Object::new()
                .text("path", &shortened(&self.names.path_text(path)))
                .value("range", range)
                .maybe("tid", self.host.tid_of(thread))
                .value("open_ms", ns / 1_000_000)
                .value("of_program", is_of_program);
            list.push(&range.end());
        }
        list.end()
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
