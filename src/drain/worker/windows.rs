//! The beginning and the end of a window that is not the life of the process, and what ends it by itself.

use std::sync::atomic::Ordering;
use std::time::Duration;

use stage2_contract::control::Limits;
use stage2_contract::trace::{Device, Mark, MonoNs, NONE, Record, WallNs, window};

use super::missing_records::UNFLUSHED;
use super::{Drain, EndReason, Hooks, Thread};
use crate::base::clock::Instant;
use crate::base::{clock, diag, futex, generation};
use crate::drain::intern::Sink;
use crate::guest::event::{Event, EventKind};
use crate::guest::gpu::{Gpu, OffReason};
use crate::guest::state::{self, Phase, Shared};
use crate::guest::windows::{FirstStep, Moment, Window};

/// The longest that a window waits, when it ends, for the records of work that still runs.
const LAST_RECORDS_PATIENCE: Duration = Duration::from_secs(4);
/// How long before the moment that was set for a window its file is opened and CUPTI attached, which takes
/// about 100 ms the first time.
const PREPARATION: Duration = Duration::from_secs(1);
/// How long before that moment the thread stops sleeping: it would be woken late by about as much.
const WAKEFUL: Duration = Duration::from_micros(200);
/// How long the thread sleeps at most between windows.
pub(super) const LONG_SLEEP: Duration = Duration::from_secs(3600);
/// Between two looks for those records, or at whether a window was called off.
const STEP: Duration = Duration::from_millis(5);
/// The domain of marks that were asked for by the control socket.
const MARK_DOMAIN: &[u8] = b"stage2-ctl";

pub(super) enum Why {
    /// Nothing more is recorded in this process.
    Process(EndReason),
    /// The window ends, and the process goes on.
    Window(String),
}

impl Why {
    /// As the trace file and the control socket have it.
    pub(super) fn words(&self) -> &str {
        match self {
            Why::Process(EndReason::Requested | EndReason::Alone) => window::EXIT,
            Why::Process(EndReason::OutOfMemory) => "memory",
            Why::Window(why) => why,
        }
    }
}

/// The calls of a window, as numbers in CUPTI's sequence. Where collection cannot be switched off, or
/// replays are recorded as wholes, CUPTI hands over what others launched as well.
#[derive(Debug, Default)]
pub(super) struct Calls {
    first: Option<u64>,
    last: Option<u64>,
}

impl Calls {
    pub(super) fn hold(&self, correlation: u64) -> bool {
        self.first.is_none_or(|first| correlation >= first)
            && self.last.is_none_or(|last| correlation <= last)
    }
}

pub(super) struct Deadlines {
    limits: Limits,
    since: Instant,
}

impl Deadlines {
    pub(super) fn of(limits: &Limits) -> Self {
        Deadlines { limits: *limits, since: Instant::now() }
    }

    /// Until the time is over.
    pub(super) fn left(&self) -> Duration {
        let limit = self.limits.for_ms.map_or(Duration::MAX, Duration::from_millis);
        limit.saturating_sub(self.since.elapsed())
    }

    pub(super) fn reached(&mut self, drain: &Drain) -> Option<String> {
        let Limits { for_ms, steps, size } = self.limits;
        if drain.shared.windows.is_stop_asked() {
            return Some("stop".to_owned());
        }
        if let Some(ms) = for_ms.filter(|_| self.left().is_zero()) {
            return Some(format!("limit for_ms={ms}"));
        }
        if let Some(steps) = steps.filter(|&steps| drain.steps >= steps) {
            return Some(format!("limit steps={steps}"));
        }
        let full = size.filter(|&size| drain.output.bytes() >= size);
        full.map(|size| format!("limit size={size}"))
    }
}

impl Thread {
    /// Sleeps for `longest` at most, until something is asked for, or CUPTI hands over what nobody wants.
    pub(super) fn sleep(&mut self, longest: Duration) {
        if let Some(request) = &self.request {
            request.look_away();
        }
        discard(self.shared);
        self.shared.bell.wait(longest);
        if let Some(request) = &mut self.request {
            request.look_again();
        }
    }

    /// Sleeps until a moment is near enough to prepare for it. `false`: the window was stopped meanwhile, or
    /// the process ends.
    pub(super) fn sleep_until(&mut self, moment: Moment) -> bool {
        loop {
            let left = until(moment).saturating_sub(PREPARATION);
            if is_called_off(self.shared) {
                return false;
            }
            if left.is_zero() {
                return true;
            }
            self.sleep(left.min(LONG_SLEEP));
        }
    }
}

/// How long it is until then. Where the clock cannot be read any more, nothing is waited for.
fn until(moment: Moment) -> Duration {
    let now = clock::mono();
    Duration::from_nanos(if now.0 == 0 { 0 } else { moment.mono.since(now) })
}

fn is_called_off(shared: &Shared) -> bool {
    shared.stop.load(Ordering::Acquire) || shared.windows.is_stop_asked()
}

/// What waits belongs to no window.
fn discard(shared: &Shared) {
    let events = &shared.events;
    while events.receive_late_end().is_some() {}
    while events.receive().is_some() {}
    events.take_ends_lost();
    while shared.switches.waiting.receive().is_some() {}
    shared.switches.take_overrun();
    discard_buffers(shared);
}

/// Gives back the buffers that CUPTI handed over for no window.
fn discard_buffers(shared: &Shared) {
    let Some(pool) = shared.pool.get() else { return };
    while let Some(full) = pool.take_full() {
        pool.recycle(full);
    }
}

/// Everything that guest threads and this one keep of earlier windows is forgotten.
pub(super) fn begin_anew(shared: &'static Shared, window: &Window, hooks: Hooks) {
    // First, and once: what a call of an earlier window still sends or loses is known by its epoch,
    // however long the rest of the start takes.
    generation::begin_epoch();
    if let Some(gpu) = shared.gpu() {
        // Spares the window most of what was launched before it. What comes of that later is left out by
        // its number in CUPTI's sequence, or because nobody reported its launch.
        let _ = shared.flush(false);
        gpu.tracer.take_dropped();
    }
    discard(shared);
    shared.counters.reset();
    shared.events.forget_losses();
    shared.want(window.wanted.unwrap_or(shared.environment));
    (hooks.begin_anew)();
}

impl Drain {
    pub(super) fn meet_window(&mut self, devices: &[Device]) {
        if !self.window.late {
            return;
        }
        self.output.fact(window::NUMBER, self.window.number.to_string());
        self.output.fact(window::BEGAN, window::START.to_owned());
        let Limits { for_ms, steps, size } = self.window.limits;
        let limits = [("for_ms", for_ms), ("steps", steps), ("size", size)];
        for (name, limit) in limits {
            if let Some(limit) = limit {
                self.output.fact(&format!("window.limit.{name}"), limit.to_string());
            }
        }
        self.output.fact(
            "window.unknown",
            "ranges that were open at the start; of graphs that were captured before CUPTI was on, \
             copies may count as kernels, and the ranges of the capture are missing"
                .to_owned(),
        );
        for device in devices {
            self.meet_device(device.clone());
        }
    }

    /// Switches the GPU half on, or starts it, and moves the phase: what happens is recorded from here on.
    /// How much later that was than at the moment that was set, if one was.
    pub(super) fn begin_late(&mut self, hooks: Hooks) -> Option<Duration> {
        let known = self.shared.gpu();
        if known.is_none() && state::cuda_seen() {
            self.start_gpu(hooks);
        }
        if let Some(at) = self.window.at {
            self.await_moment(at);
        }
        if let Some(gpu) = known {
            if !self.wanted.is_restricted() {
                self.shared.switch(true);
            }
            self.begin_sampling(gpu);
        }
        self.meet_gpu();
        self.calls.first = self.fence();
        // Launches are reported while a window is on, and records come all the time.
        let has_foreign = |gpu: &Gpu| gpu.reports_launches && !gpu.switches;
        self.unplaced_is_foreign = self.shared.gpu().is_some_and(has_foreign);
        // Fails where the process is ending, which this thread then sees.
        state::advance(Phase::Dormant, Phase::On);
        let at = self.window.at?;
        let late = clock::mono().since(at.mono);
        self.output.fact(window::AT, at.wall.0.to_string());
        self.output.fact(window::LATE, late.to_string());
        Some(Duration::from_nanos(late))
    }

    /// Waits for a moment that is near, unless the window is stopped or the process ends. What CUPTI hands
    /// over meanwhile belongs to no window.
    fn await_moment(&self, moment: Moment) {
        let shared = self.shared;
        loop {
            let left = until(moment);
            if left.is_zero() || is_called_off(shared) {
                return;
            }
            discard_buffers(shared);
            match left.checked_sub(WAKEFUL) {
                Some(left) => shared.bell.wait(left.min(STEP)),
                None => std::hint::spin_loop(),
            }
        }
    }

    /// The first step of a window that began together with others closed at `at`, and was open for `ns`: by
    /// that one can see whether it is the same step in every process.
    pub(super) fn tell_first_step(&mut self, at: MonoNs, ns: u64) {
        if self.window.at.is_none() {
            return;
        }
        let ago = clock::mono().since(at).saturating_add(ns);
        let opened = clock::wall().0.saturating_sub(ago);
        self.output.fact(window::FIRST_STEP, opened.to_string());
        self.output.fact(window::FIRST_STEP_NS, ns.to_string());
        self.shared.windows.note_first_step(FirstStep { opened: WallNs(opened), ns });
    }

    /// Whether the window was over when this happened. Reported launches come in order, and without a time.
    pub(super) fn is_behind_cut(&self, event: &Event) -> bool {
        let is_node =
            matches!(event.kind, EventKind::GraphNodeCreated | EventKind::GraphNodeCloned);
        self.cut.is_some_and(|cut| !is_node && (event.at > cut || event.kind == EventKind::Launch))
    }

    /// Ends the window at this event, if it closed the last one of its steps: this thread may come by when
    /// more of them have begun.
    pub(super) fn cut_behind(&mut self, event: &Event) {
        let is_last = self.window.limits.steps.is_some_and(|steps| self.steps >= steps);
        if !is_last || self.cut.is_some() {
            return;
        }
        self.cut = Some(event.at);
        if event.fence != 0 {
            self.calls.last = Some(self.ranges.number_of(event.fence));
        }
        // A launch of later on has no place.
        self.unplaced_is_foreign |= self.shared.gpu().is_some_and(|gpu| gpu.reports_launches);
    }

    /// Samples hardware counters in this window, where they were asked for. A start of the GPU half does so
    /// itself.
    fn begin_sampling(&mut self, gpu: &Gpu) {
        let Some(counters) = &gpu.counters else { return };
        let wanted = self.shared.counters_to_sample();
        let begun = counters.begin(&wanted, self.output.path().is_some());
        if let Err(refusal) = begun {
            diag::warn(format_args!("hardware counters are not sampled: {refusal}"));
            self.output.fact(stage2_contract::trace::counters::OFF, refusal.to_string());
        }
    }

    /// The program initialised CUDA at the very moment of the start: neither side has seen the other.
    pub(super) fn meet_late_gpu(&mut self, hooks: Hooks) {
        let unmet = self.window.late && !self.gpu_known && self.shared.gpu.get().is_none();
        if unmet && state::cuda_seen() && !self.gpu_tried {
            self.start_gpu(hooks);
        }
    }

    fn start_gpu(&mut self, hooks: Hooks) {
        self.gpu_tried = true;
        let begun = clock::mono();
        let off = (hooks.start_gpu)(self.shared).err();
        self.output.fact(window::CUPTI_START, clock::mono().since(begun).to_string());
        if let Some(OffReason(why)) = &off {
            // Not for the life of the process: what holds CUPTI now may be gone at the next start.
            self.output.fact("gpu.off", why.clone());
        }
        self.shared.windows.note_gpu(off.map(|off| off.to_string()));
    }

    /// A number in CUPTI's sequence, now; nothing where launches are reported one by one.
    fn fence(&mut self) -> Option<u64> {
        let fence = self.shared.gpu()?.tracer.fence();
        (fence != 0).then(|| self.ranges.number_of(fence))
    }

    pub(super) fn take_marks(&mut self) {
        for (at, text) in self.shared.windows.take_marks() {
            self.repair();
            let name = self.names.name(text.as_bytes(), &mut self.output);
            let domain = self.names.name(MARK_DOMAIN, &mut self.output);
            let (thread, category) = (0, NONE);
            let mark = Mark { at, thread, name, domain, category, payload: None };
            self.output.put(Record::Mark(mark));
        }
    }

    /// Ends the window: guest threads send nothing any more. Waits for the records of what was launched,
    /// for a bounded time.
    pub(super) fn end_window(mut self, why: &Why) -> Vec<Device> {
        let shared = self.shared;
        shared.windows.stopping();
        self.end_host();
        if !self.window.late {
            self.output.fact(window::NUMBER, self.window.number.to_string());
        }
        self.output.fact(window::ENDED, why.words().to_owned());
        self.calls.last = self.calls.last.or_else(|| self.fence());
        if !self.wanted.is_restricted() && !self.window.late {
            self.spans.assume_on();
        }
        shared.switch(false);
        self.await_records();
        let devices = self.finish(why);
        // Who is about to end the process waits for what is in the file now.
        if let Some(turn) = shared.farewell.turns.pending() {
            shared.farewell.turns.done(turn);
        }
        devices
    }

    fn warn_of_window(&self, what: &str) {
        diag::warn(format_args!("window {}: {what}", self.window.number));
    }

    /// Waits until CUPTI has handed back every buffer that it had at the end of the window, unless that takes
    /// too long. Where collection stays on it asks for further ones all the time.
    fn await_records(&mut self) {
        let shared = self.shared;
        let Some((gpu, pool)) = shared.gpu().zip(shared.pool.get()) else { return };
        let moves = pool.moves();
        let until = Instant::now() + LAST_RECORDS_PATIENCE;
        loop {
            let flushed = shared.flush(false);
            // A little at a time: CUPTI hands over a buffer only in the moments in which all its work is done.
            self.take_in_rounds(1);
            let left = pool.given_since(moves);
            if left == 0 || flushed.is_err() {
                return;
            }
            // The end of the process has its own, shorter time, and forces CUPTI.
            let ends = shared.stop.load(Ordering::Acquire);
            if gpu.asks_hardware && !ends {
                // Only threads of the guest may flush, and while nothing is recorded they never do.
                self.warn_of_window(&format!("GPU work may be missing: {UNFLUSHED}"));
                return self.say_incomplete(UNFLUSHED);
            }
            if ends && !gpu.switches {
                return;
            }
            if !gpu.switches && Instant::now() >= until {
                // To force it would cost the records of what the program has launched since.
                let reason = format!(
                    "CUPTI still held {left} of its activity buffers, with work of this window, {} s after its \
                     end, because further work was running all the time; the CUPTI of CUDA 13.0 update 1 \
                     can be switched off",
                    LAST_RECORDS_PATIENCE.as_secs()
                );
                self.warn_of_window(&format!("GPU work is missing: {reason}"));
                return self.say_incomplete(&reason);
            }
            if ends || Instant::now() >= until {
                self.warn_of_window(&format!(
                    "records of GPU work were still on their way {} s after its end, or when the process ended, \
                     and may be missing",
                    LAST_RECORDS_PATIENCE.as_secs()
                ));
                return;
            }
            if !pool.has_full() {
                futex::nap(STEP);
            }
        }
    }
}
