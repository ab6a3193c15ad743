//! The body of our thread: takes in buffers and events, flushes, and finishes everything.
//!
//! Order matters once: a buffer is taken first, then all events that are there. What launched the
//! records of the buffer happened before it was full, so its ranges are among those events.

mod facts;
mod gpu_states;
mod missing_records;

use std::sync::atomic::Ordering;
use std::time::Duration;

use cupti_sys::CuptiError;
use stage2_spool::{Device, GpuNs, GpuWork, Record, Shape, What};

use crate::base::{allocator, ancestry, clock, diag, last_thread};
use crate::drain::aggregate::{Aggregates, Key, UNATTRIBUTED, Work};
use crate::drain::device_state::DeviceStates;
use crate::drain::flush_request::FlushRequest;
use crate::drain::intern::{Interner, Sink};
use crate::drain::output::Output;
use crate::drain::pace::{Pace, Stillness};
use crate::drain::possible_times::PossibleTimes;
use crate::drain::ranges::{LaunchSite, Ranges};
use crate::drain::spans::Spans;
use crate::drain::summary;
use crate::drain::timeline::Place;
use crate::guest::activity::{Activity, Execution};
use crate::guest::event::Event;
use crate::guest::gpu::Gpu;
use crate::guest::pool::{FullBuffer, Pool};
use crate::guest::state::{self, EndStep, Phase, Shared};

/// How long the thread sleeps at most while events may come in.
const NAP: Duration = Duration::from_millis(10);

/// Buffers that are taken at once, and how often in a row before the spool has its turn.
const BATCH: usize = 16;
const ROUNDS: usize = 64;

/// Everything that only this thread touches.
struct Drain {
    shared: &'static Shared,
    output: Output,
    names: Interner,
    ranges: Ranges,
    aggregates: Aggregates,
    gpu_known: bool,
    /// CUPTI told layouts of records that cannot be right, which was said.
    layouts_doubted: bool,
    spans: Spans,
    still: Stillness,
    /// Energy and clocks of the GPUs in use; nothing before the GPU half starts, and where it is off.
    device_states: Option<DeviceStates>,
    /// CUPTI told at the last flush how many records it had dropped.
    drops_known: bool,
    possible: PossibleTimes,
    records: missing_records::RecordWatch,
    /// [`Shared::forks_after_cuda`] as the trace file has it.
    forks_noted: u64,
}

/// Why the drain thread has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// It was told to.
    Requested,
    /// No thread of the guest is left: nobody else ends the process.
    Alone,
    /// The system has no memory left for us.
    OutOfMemory,
}

/// The body of the drain thread: works until it has to stop, or no thread of the guest is left. Then it
/// finishes everything.
pub fn run(shared: &'static Shared) -> EndReason {
    let mut drain = Drain {
        shared,
        output: Output::open(&shared.options),
        names: Interner::default(),
        ranges: Ranges::new(shared.options.is_restricted()),
        aggregates: Aggregates::default(),
        gpu_known: false,
        layouts_doubted: false,
        spans: Spans::default(),
        still: Stillness::default(),
        device_states: None,
        drops_known: true,
        possible: PossibleTimes::default(),
        records: missing_records::RecordWatch::default(),
        forks_noted: 0,
    };
    let mut request = shared.options.flush_page.as_deref().and_then(FlushRequest::find);
    let mut watch = last_thread::Watch::new(&shared.helpers);
    let mut finished = EndReason::Requested;
    drain.meet_process();
    // If the guest is killed soon, the file shows at least that it ran.
    drain.output.flush(&shared.counters);
    shared.ready.set();
    let mut pace = Pace::new(shared.options.flush);
    let runs_low = || shared.pool.get().is_some_and(Pool::runs_low);
    while !shared.stop.load(Ordering::Acquire) {
        shared.bell.wait(NAP.min(pace.left()));
        drain.take_in();
        drain.take_states();
        drain.heed_moves();
        let wish = request.as_mut().filter(|request| request.is_pending());
        if wish.is_some() || pace.is_due(runs_low()) {
            // A failure has no consequence yet: what is not handed over now comes later.
            let flushed = drain.flush(false);
            drain.heed_missing(flushed.is_ok());
            wish.into_iter().for_each(FlushRequest::grant);
            pace.flushed(runs_low());
        }
        // Whatever comes next could need more than the reserve.
        if allocator::has_failed() {
            // An exit that comes now waits until the file is whole and the reason was said.
            shared.ends_itself.store(true, Ordering::Release);
            if state::advance(Phase::On, Phase::Ended) {
                finished = EndReason::OutOfMemory;
                break;
            }
        }
        if watch.is_alone(drain.reader_threads()) && state::advance(Phase::On, Phase::Stopping) {
            finished = EndReason::Alone;
            break;
        }
    }
    if finished == EndReason::OutOfMemory {
        drain.say_incomplete("the system refused memory during the run");
    }
    drain.finish(finished);
    finished
}

impl Drain {
    /// Takes in what is there.
    fn take_in(&mut self) {
        self.meet_gpu();
        self.take_in_samples();
        self.spans.take_in(&self.shared.switches);
        let Some(pool) = self.shared.pool.get() else { return self.take_in_events() };
        for _ in 0..ROUNDS {
            let full: Vec<FullBuffer> =
                std::iter::from_fn(|| pool.take_full()).take(BATCH).collect();
            // After the buffers, before the events: these are all that can matter to the buffers.
            let lost = |full: &FullBuffer| self.shared.events.lost(full.owner);
            let lost: Vec<u32> = full.iter().map(lost).collect();
            self.take_in_events();
            if full.is_empty() {
                return;
            }
            if let Some(now) = self.shared.gpu().and_then(|gpu| gpu.tracer.now()) {
                self.possible.note(now);
            }
            for (full, lost) in full.into_iter().zip(lost) {
                self.ranges.heed_losses(full.owner, lost);
                self.heed_layouts(&full);
                if let Some(gpu) = self.shared.gpu() {
                    self.spans.take_in(&self.shared.switches);
                    let each = |activity: &_| self.take_in_activity(full.owner, activity);
                    let unread = gpu.records(&full, each);
                    self.shared.counters.unreadable_records.add(unread);
                }
                pool.recycle(full);
            }
        }
    }

    /// Takes in samples of hardware counters.
    fn take_in_samples(&mut self) {
        let Some(counters) = self.shared.gpu().and_then(|gpu| gpu.counters.as_ref()) else {
            return;
        };
        if self.shared.events.waiting() > 0 || self.shared.pool.get().is_some_and(Pool::has_full) {
            counters.hint();
        }
        while let Some(record) = counters.take() {
            self.output.put(record);
        }
    }

    /// Takes in the events that are there. Those that come meanwhile wait: guests may send them
    /// faster than they can be taken in.
    fn take_in_events(&mut self) {
        let events = &self.shared.events;
        let late: Vec<Event> =
            std::iter::from_fn(|| events.receive_late_end()).take(BATCH * ROUNDS).collect();
        let ends_lost = events.take_ends_lost();
        for _ in 0..events.waiting() {
            let Some(event) = events.receive() else { break };
            self.take_in_event(&event);
        }
        for end in &late {
            self.ranges.doubt_since(end);
            self.take_in_event(end);
        }
        if ends_lost {
            self.ranges.lose_ends();
        }
    }

    fn take_in_event(&mut self, event: &Event) {
        self.repair();
        self.ranges.apply(event, &mut self.names, &mut self.output, &self.shared.counters);
        for closed in self.ranges.closed.drain(..) {
            self.aggregates.add_range(closed);
        }
    }

    /// What was defined in a frame that was dropped has to be defined again.
    #[inline]
    fn repair(&mut self) {
        if self.output.take_lost() {
            self.names.define_again();
        }
    }

    #[inline]
    fn take_in_activity(&mut self, owner: u32, activity: &Activity) {
        match activity {
            Activity::Kernel { ran, shape, name } => {
                let ran = self.trusted(*ran);
                let Some(site) = self.find(owner, &ran) else { return };
                let name = self.names.name_at(name.address(), name.bytes(), &mut self.output);
                let shape = self.names.shape(Shape { name, ..*shape }, &mut self.output);
                self.add(&site, &ran, Work::Kernel(name), What::Kernel { shape });
            }
            &Activity::Transfer { ran, bytes, copy_kind } => {
                let ran = self.trusted(ran);
                let Some(site) = self.find(owner, &ran) else { return };
                let (work, what) = match copy_kind {
                    Some(kind) => (Work::Copy(kind), What::Copy { bytes, kind }),
                    None => (Work::Fill, What::Fill { bytes }),
                };
                self.add(&site, &ran, work, what);
            }
            &Activity::Graph { ran, graph } => {
                let ran = self.trusted(ran);
                let Some(site) = self.find(owner, &ran) else { return };
                self.add(&site, &ran, Work::Graph(graph), What::Graph { graph });
            }
            Activity::Device(device, name) => {
                let name = name.bytes().to_vec();
                self.output.put(Record::Device(Device { name, ..device.clone() }));
            }
            Activity::Unreadable => self.shared.counters.unreadable_records.increment(),
        }
    }

    /// Counts a piece of work, and writes it.
    fn add(&mut self, site: &LaunchSite, ran: &Execution, work: Work, what: What) {
        let queue = self.count(site, ran, work);
        let &Execution { start, end, graph_node, .. } = ran;
        let &LaunchSite { place: Place { range, .. }, correlation } = site;
        self.output.work(&GpuWork { what, start, end, queue, range, correlation, graph_node });
    }

    /// A piece of work without the times that CUPTI took wrong: see [`Spans`] and [`PossibleTimes`].
    fn trusted(&self, ran: Execution) -> Execution {
        let uncovered = ran.graph_node != 0
            && self.shared.options.is_restricted()
            && ran.is_timed()
            && !self.spans.cover(ran.start, ran.end);
        if uncovered || !self.possible.has(ran.start, ran.end) {
            Execution { start: GpuNs(0), end: GpuNs(0), ..ran }
        } else {
            ran
        }
    }

    /// Finds the ranges of a piece of work. `None` where `STAGE2_RANGES` does not ask for it or
    /// `STAGE2_SAMPLE` leaves it out.
    fn find(&mut self, owner: u32, ran: &Execution) -> Option<LaunchSite> {
        let counters = &self.shared.counters;
        let site = self.ranges.place(owner, ran.correlation);
        match site.place {
            Place::UNKNOWN => counters.unattributed.increment(),
            place if !place.wanted && self.shared.options.is_restricted() => {
                counters.filtered.increment();
                return None;
            }
            _ => counters.attributed.increment(),
        }
        self.repair();
        Some(site)
    }

    /// Counts a piece of work and gives the number of its queue.
    fn count(&mut self, site: &LaunchSite, ran: &Execution, work: Work) -> u32 {
        let counters = &self.shared.counters;
        if let Some(counters) = self.shared.gpu().and_then(|gpu| gpu.counters.as_ref()) {
            counters.use_device(ran.queue.device);
        }
        let timed = ran.is_timed().then_some((ran.start.0, ran.end.0));
        if timed.is_none() {
            counters.invalid_timestamps.increment();
        }
        if self.shared.options.shows_summary() {
            let known = site.place != Place::UNKNOWN;
            let path = if known { site.place.path } else { UNATTRIBUTED };
            let key = Key { path, work, device: ran.queue.device };
            self.aggregates.add(key, timed, counters);
        }
        self.names.queue(ran.queue, &mut self.output)
    }

    /// Has CUPTI hand over what it holds, takes that in, and brings the spool up to date.
    fn flush(&mut self, forced: bool) -> Result<(), CuptiError> {
        // A flush holds up launches for a moment, so there is none where CUPTI holds nothing.
        let restricted = self.shared.options.is_restricted();
        let worthwhile = self.still.may_hold_records(restricted, &self.shared.collection) || forced;
        let mut done = Ok(());
        let gpu = self.shared.gpu();
        if let Some(Gpu { tracer, .. }) = gpu.filter(|_| worthwhile) {
            // What goes wrong on CUPTI's own threads fails the next call, and that one only.
            done = tracer.flush(forced).or_else(|_| tracer.flush(forced));
            if let Err(error) = &done {
                diag::debug(format_args!("CUPTI did not flush: {error}"));
            }
            let dropped = tracer.take_dropped();
            self.drops_known = dropped.is_some();
            self.shared.counters.cupti_dropped.add(dropped.unwrap_or(0));
        }
        self.take_in();
        while forced && self.shared.pool.get().is_some_and(Pool::has_full) {
            self.take_in(); // Nobody comes by later.
        }
        self.shared.counters.names_cut.add(self.names.take_refused());
        self.output.put(Record::Anchor(clock::anchor(|| gpu.and_then(|gpu| gpu.tracer.now()))));
        self.count_forks(forced);
        if forced {
            self.shared.end_step.store(EndStep::File as u8, Ordering::Relaxed);
        }
        self.output.flush(&self.shared.counters);
        done
    }

    /// Takes in the rest, closes the spool and shows the summary.
    fn finish(mut self, reason: EndReason) {
        self.shared.collect(false);
        let sampling = self.shared.gpu().and_then(|gpu| gpu.counters.as_ref());
        if let Some(counters) = sampling {
            counters.stop();
        }
        let flushed = self.flush(true);
        self.heed_missing_at_end(flushed.is_ok());
        if let Some(counters) = sampling {
            // After the flush: what was recorded is in the file if the guest ends meanwhile.
            counters.rest().for_each(|record| self.output.put(record));
        }
        self.take_last_states();
        let holds_some = self.shared.pool.get().is_some_and(|pool| pool.given() > 0);
        if let (Err(error), true) = (&flushed, holds_some) {
            // Nobody knows how much.
            let reason = format!("CUPTI did not hand over its last records ({error})");
            diag::warn(format_args!("GPU work is missing: {reason}"));
            self.say_incomplete(&reason);
        }
        if !self.drops_known && !self.records.over {
            let reason = "CUPTI did not tell how many records it dropped";
            diag::warn(format_args!("GPU work may be missing: {reason}"));
            self.say_incomplete(reason);
        }
        self.output.count("ranges.fields_left_out", self.shared.counters.range_fields.get());
        // Without memory the process goes on, and its ranges close yet.
        let open = if reason == EndReason::OutOfMemory { 0 } else { self.say_open() };
        self.output.count("ranges.open_at_end", open);
        let counters = &self.shared.counters;
        counters.unclosed.set(self.ranges.open_count() as u64);
        for open in self.ranges.still_open(clock::mono()) {
            self.aggregates.add_range(open);
        }
        self.output.end(counters);
        self.shared.end_step.store(EndStep::Summary as u8, Ordering::Relaxed);
        let works_on_gpu = counters.attributed.get() + counters.unattributed.get() > 0;
        if ancestry::parent().is_some() && !works_on_gpu {
            // A prefork server has hundreds of such children.
            return;
        }
        let shown = summary::ShownPaths::of(&mut self.names);
        let summary = summary::Summary {
            options: &self.shared.options,
            counters,
            names: &self.names,
            shown,
            totals: self.aggregates.finish(),
            gpu_off: self.shared.gpu.get().and_then(|gpu| gpu.as_ref().err()),
            gpu_seen: self.shared.gpu.get().is_some(),
            devices: self.output.devices(),
            simulated: self.output.is_simulated(),
        };
        summary.show();
    }
}
