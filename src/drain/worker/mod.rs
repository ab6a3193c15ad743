//! The body of our thread: windows, one after the other. In each it takes in buffers and events, flushes,
//! and finishes everything. Between them it sleeps.

mod intake;
mod metadata;
mod missing_records;
mod why;
mod windows;

use std::sync::atomic::Ordering;
use std::time::Duration;

use cupti_sys::CuptiError;
use stage2_contract::trace::{Device, MonoNs, Record, ending};

use crate::base::clock::{self, Instant};
use crate::base::{allocator, ancestry, diag, futex, generation, last_thread};
use crate::drain::aggregate::Aggregates;
use crate::drain::device_state::DeviceStates;
use crate::drain::flush_request::FlushRequest;
use crate::drain::host_samples::HostSamples;
use crate::drain::intern::{Interner, Sink};
use crate::drain::output::Output;
use crate::drain::pace::{Pace, Stillness};
use crate::drain::ranges::Ranges;
use crate::drain::standing::Queues;
use crate::drain::summary;
use crate::drain::trusted_times::{PossibleTimes, Spans};
use crate::guest::gpu::{Gpu, OffReason};
use crate::guest::pool::Pool;
use crate::guest::state::{self, EndStep, Phase, Shared};
use crate::guest::window_filter::WindowFilter;
use crate::guest::windows::Window;
use crate::host;
use windows::{Calls, Deadlines, Why};

/// How long the thread sleeps at most while events may come in.
const NAP: Duration = Duration::from_millis(10);
/// The longest that an end waits for calls that have begun to send an event, which takes less than a
/// microsecond, and how long between two looks.
const SENDERS_PATIENCE: Duration = Duration::from_millis(20);
const SENDERS_STEP: Duration = Duration::from_millis(1);

/// A process that lives on for so long after an announced end has not ended.
const FAREWELL: Duration = Duration::from_millis(500);

/// Everything that only this thread touches.
struct Drain {
    shared: &'static Shared,
    output: Output,
    names: Interner,
    ranges: Ranges,
    aggregates: Aggregates,
    /// The last finished and the first unfinished work of each stream.
    queues: Queues,
    gpu_known: bool,
    /// It was said whether the hardware takes the times of kernels, and it does.
    hardware_told: bool,
    times_by_hardware: bool,
    /// CUPTI told layouts of records that cannot be right, which was said.
    layouts_doubted: bool,
    spans: Spans,
    still: Stillness,
    /// Energy and clocks of the GPUs in use; nothing before the GPU half starts, and where it is off.
    device_states: Option<DeviceStates>,
    host: HostSamples,
    /// CUPTI told at the last flush how many records it had dropped.
    drops_known: bool,
    possible: PossibleTimes,
    records: missing_records::RecordWatch,
    /// [`Shared::forks_after_cuda`] as the trace file has it.
    forks_noted: u64,
    window: Window,
    wanted: &'static WindowFilter,
    calls: Calls,
    /// Of the events that belong to it ([`generation::epoch`]).
    epoch: u32,
    /// Calls that had begun to send an event before it, and not ended.
    unfinished_before: usize,
    /// Instances that a limit of steps counts.
    steps: u64,
    /// When the last of them closed, where the limit was reached: the window is over since then.
    cut: Option<MonoNs>,
    /// The start of the GPU half was tried in this window.
    gpu_tried: bool,
    /// Work without a place was launched outside of the window.
    unplaced_is_foreign: bool,
    /// When the file was told that the process is about to end.
    announced: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// While the window is on: what is complete comes.
    Periodic,
    /// At the end of a window that goes on launching: what is complete comes.
    Last,
    /// For the last time, and what is not complete is lost.
    Forced,
}

/// Why the drain thread has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// It was told to.
    Requested,
    /// No thread of the guest is left: no other thread ends the process.
    Alone,
    /// The system has no memory left for us.
    OutOfMemory,
}

/// What this thread asks of those above it.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// Starts the GPU half while the program runs.
    pub start_gpu: fn(&'static Shared) -> Result<(), OffReason>,
    /// What is open belongs to no window from here on.
    pub begin_anew: fn(),
    /// Has us finish in `exit` before the handlers that are registered by now.
    pub watch_exit: fn(),
    /// The name of a call of the driver, by CUPTI's number.
    pub call_name: fn(u32) -> Option<&'static str>,
    /// The interpreter of this process.
    pub python: Option<host::Interpreter>,
}

/// What lives as long as the thread.
struct Thread {
    shared: &'static Shared,
    hooks: Hooks,
    request: Option<FlushRequest>,
    watch: last_thread::Watch<'static>,
    /// The GPUs that earlier windows met.
    devices: Vec<Device>,
    /// The exit is watched again when CUPTI has moved so many buffers.
    next_exit_watch: u64,
}

/// Up to so many moved buffers the exit is watched again each time that their number has doubled. CUPTI and the
/// driver may register exit handlers when they first ask for a buffer, and when they first hand records over; they
/// hand over nothing once these have run.
const LAST_EXIT_WATCH: u64 = 16;

/// The body of the drain thread: works until it has to stop, or no thread of the guest is left. Then it
/// finishes everything.
pub fn run(shared: &'static Shared, hooks: Hooks) -> EndReason {
    let mut thread = Thread {
        shared,
        hooks,
        request: shared.options.flush_page.as_deref().and_then(FlushRequest::find),
        watch: last_thread::Watch::new(&shared.helpers),
        devices: Vec::new(),
        next_exit_watch: 1,
    };
    loop {
        let window = shared.windows.take();
        let stops = shared.stop.load(Ordering::Acquire);
        match window {
            Some(window) if !(stops && window.late) => {
                if let Some(reason) = thread.record(window) {
                    return reason;
                }
            }
            _ if stops => return EndReason::Requested,
            _ if thread.is_out_of_memory(Phase::Dormant) => return EndReason::OutOfMemory,
            _ => thread.sleep(windows::LONG_SLEEP),
        }
    }
}

impl Thread {
    /// Records a window. `None`: the process goes on.
    fn record(&mut self, window: Window) -> Option<EndReason> {
        let shared = self.shared;
        if let Some(at) = window.at
            && !self.sleep_until(at)
        {
            // Where the process ends, nobody asks how the window stands.
            shared.windows.over("stop".to_owned(), 0, 0);
            return None;
        }
        let mut drain = Drain::open(shared, window, self.hooks);
        drain.meet_process();
        drain.meet_window(&self.devices);
        // If the guest is killed soon, the file shows at least that it ran.
        drain.output.flush(&shared.counters);
        shared.ready.set();
        let late = if window.late { drain.begin_late(self.hooks) } else { None };
        shared.windows.begun(drain.output.path().map(|path| path.display().to_string()), late);
        match self.work(&mut drain) {
            why @ Why::Process(reason) => {
                drain.finish(&why);
                Some(reason)
            }
            why @ Why::Window(_) => {
                let met = drain.end_window(&why);
                self.devices.retain(|old| met.iter().all(|new| new.id != old.id));
                self.devices.extend(met);
                None
            }
        }
    }

    fn work(&mut self, drain: &mut Drain) -> Why {
        let shared = self.shared;
        let mut limits = Deadlines::of(&drain.window.limits);
        let mut pace = Pace::new(shared.options.flush);
        let runs_low = || shared.pool.get().is_some_and(Pool::runs_low);
        while !shared.stop.load(Ordering::Acquire) {
            shared.bell.wait(NAP.min(pace.left()).min(limits.left()));
            drain.take_in();
            drain.take_states();
            drain.sample_host(self.hooks.python);
            drain.take_host();
            drain.check_moves();
            self.watch_exit(drain.moves());
            drain.take_marks();
            if let Some(turn) = shared.farewell.turns.pending() {
                drain.announce_end();
                shared.farewell.turns.done(turn);
                pace.flushed(runs_low());
            }
            let wish = self.request.as_mut().filter(|request| request.is_pending());
            let asked = shared.windows.asked_flush();
            let is_taken_back = drain.announced.is_some_and(|at| at.elapsed() > FAREWELL);
            if wish.is_some() || asked.is_some() || pace.is_due(runs_low()) || is_taken_back {
                // A failure has no consequence yet: what is not handed over now comes later.
                let flushed = drain.flush(Flush::Periodic);
                // A CUPTI that is slow at first may have moved nothing between two early flushes.
                if pace.is_whole() {
                    drain.check_missing(flushed.is_ok());
                }
                wish.into_iter().for_each(FlushRequest::grant);
                asked.into_iter().for_each(|number| shared.windows.flushed(number));
                pace.flushed(runs_low());
            }
            if let Some(number) = shared.windows.asked_why() {
                let why = drain.why(self.hooks);
                shared.windows.tell_why(number, why);
            }
            drain.turn_piece();
            if self.is_out_of_memory(Phase::On) {
                drain.say_incomplete("the system refused memory during the run");
                return Why::Process(EndReason::OutOfMemory);
            }
            if let Some(why) = limits.reached(drain)
                && state::advance(Phase::On, Phase::Dormant)
            {
                return Why::Window(why);
            }
            let own = drain.reader_threads() + drain.host.thread_count() + state::servers();
            if self.watch.is_alone(own) && state::advance(Phase::On, Phase::Stopping) {
                return Why::Process(EndReason::Alone);
            }
            drain.meet_late_gpu(self.hooks);
        }
        Why::Process(EndReason::Requested)
    }

    fn watch_exit(&mut self, moves: u64) {
        if moves >= self.next_exit_watch && self.next_exit_watch <= LAST_EXIT_WATCH {
            self.next_exit_watch = moves * 2;
            (self.hooks.watch_exit)();
        }
    }

    /// Whether memory was refused: nothing more is recorded then, since whatever comes next could need more
    /// than the reserve.
    fn is_out_of_memory(&self, now: Phase) -> bool {
        if !allocator::has_failed() {
            return false;
        }
        // An exit that comes now waits until the file is whole and the reason was said.
        self.shared.ends_itself.store(true, Ordering::Release);
        state::advance(now, Phase::Ended)
    }
}

impl Drain {
    fn open(shared: &'static Shared, window: Window, hooks: Hooks) -> Self {
        if window.late {
            windows::begin_anew(shared, &window, hooks);
        }
        let wanted = shared.window_filter();
        Drain {
            shared,
            output: Output::open(&shared.options, window.late.then_some(window.number)),
            names: Interner::default(),
            ranges: Ranges::new(wanted.is_restricted()),
            aggregates: Aggregates::default(),
            queues: Queues::default(),
            gpu_known: false,
            hardware_told: false,
            times_by_hardware: false,
            layouts_doubted: false,
            spans: Spans::default(),
            still: Stillness::default(),
            device_states: None,
            host: HostSamples::new(),
            drops_known: true,
            possible: PossibleTimes::default(),
            records: missing_records::RecordWatch::default(),
            forks_noted: 0,
            window,
            wanted,
            calls: Calls::default(),
            epoch: generation::epoch(),
            unfinished_before: if window.late { shared.events.unfinished() } else { 0 },
            steps: 0,
            cut: None,
            gpu_tried: false,
            unplaced_is_foreign: false,
            announced: None,
        }
    }

    /// Has CUPTI hand over what it holds, takes that in, and brings the trace file up to date.
    fn flush(&mut self, flush: Flush) -> Result<(), CuptiError> {
        let (forced, last) = (flush == Flush::Forced, flush != Flush::Periodic);
        // A flush holds up launches for a moment, so there is none where CUPTI holds nothing.
        let restricted = self.wanted.is_restricted();
        let worthwhile = self.still.may_hold_records(restricted, &self.shared.collection) || last;
        let mut done = Ok(());
        let gpu = self.shared.gpu();
        if let Some(Gpu { tracer, .. }) = gpu.filter(|_| worthwhile) {
            // What goes wrong on CUPTI's own threads fails the next call, and that one only.
            done = self.shared.flush(forced).or_else(|_| self.shared.flush(forced));
            if let Err(error) = &done {
                diag::debug(format_args!("CUPTI did not flush: {error}"));
            }
            let dropped = tracer.take_dropped();
            self.drops_known = dropped.is_some();
            self.shared.counters.cupti_dropped.add(dropped.unwrap_or(0));
        }
        // For the last time nobody comes by later. While the program goes on launching, what comes meanwhile is
        // not waited for.
        let pool = self.shared.pool.get();
        let mut waiting = pool.map_or(0, Pool::waiting);
        loop {
            waiting = waiting.saturating_sub(self.take_in());
            let is_over = waiting == 0 && !forced;
            if !last || is_over || !pool.is_some_and(Pool::has_full) {
                break;
            }
        }
        self.shared.counters.names_cut.add(self.names.take_refused());
        self.write_host();
        self.output.put(Record::Anchor(clock::anchor(|| gpu.and_then(|gpu| gpu.tracer.now()))));
        self.count_forks(last);
        if last {
            self.shared.end_step.store(EndStep::File as u8, Ordering::Relaxed);
        }
        if self.announced.take_if(|at| forced || at.elapsed() > FAREWELL).is_some() {
            self.output.say(ending::ANNOUNCED, String::new(), &self.shared.counters);
        }
        self.output.flush(&self.shared.counters);
        done
    }

    /// Takes in what calls send that began in the window, for a bounded time. What they have not sent by then
    /// is lost, and counted: the guest may have left such a call for good.
    fn await_senders(&mut self) {
        let (events, before) = (&self.shared.events, self.unfinished_before);
        let until = Instant::now() + SENDERS_PATIENCE;
        while events.pending() > before && Instant::now() < until {
            futex::nap(SENDERS_STEP);
            self.take_in();
        }
        self.shared.counters.range_events.add(events.unfinished().saturating_sub(before) as u64);
    }

    /// Brings the file up to date as at an end, and says in it which end that is: who asks is about to end the
    /// process, and may fail to.
    fn announce_end(&mut self) {
        // What fails now is tried again, or the last flush of the process tells of it.
        let _ = self.flush(Flush::Forced);
        self.shared.end_step.store(EndStep::Records as u8, Ordering::Relaxed);
        self.output.say(ending::ANNOUNCED, self.shared.farewell.words(), &self.shared.counters);
        self.announced = Some(Instant::now());
    }

    /// Takes in the rest, closes the trace file and, where recording ends for good, shows the
    /// summary. Gives the GPUs that were met.
    fn finish(mut self, why: &Why) -> Vec<Device> {
        self.end_host();
        self.shared.switch(false);
        let sampling = self.shared.gpu().and_then(|gpu| gpu.counters.as_ref());
        if let Some(counters) = sampling {
            counters.stop();
        }
        // A forced flush loses the records of work that runs. While the program goes on launching there is
        // always some, and what the window waited for has come without it.
        let ends = matches!(why, Why::Process(_)) || self.shared.stop.load(Ordering::Acquire);
        let forced = ends || self.shared.gpu().is_none_or(|gpu| gpu.switches);
        let flushed = self.flush(if forced { Flush::Forced } else { Flush::Last });
        self.check_missing_at_end(flushed.is_ok(), forced);
        self.await_senders();
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
            let reason = "CUPTI did not report how many records it dropped";
            diag::warn(format_args!("GPU work may be missing: {reason}"));
            self.say_incomplete(reason);
        }
        self.output.count("ranges.fields_left_out", self.shared.counters.range_fields.get());
        // Without memory, or after a window, the process goes on, and its ranges close yet.
        let open = match why {
            Why::Process(EndReason::OutOfMemory) => 0,
            Why::Process(_) => self.say_open(),
            Why::Window(_) => self.ranges.open_count() as u64,
        };
        self.output.count("ranges.open_at_end", open);
        let counters = &self.shared.counters;
        counters.unclosed.set(self.ranges.open_count() as u64);
        for open in self.ranges.still_open(self.cut.unwrap_or_else(clock::mono)) {
            self.aggregates.add_range(open);
        }
        let words = match why {
            Why::Process(EndReason::Requested) => self.shared.farewell.words(),
            other => other.words().to_owned(),
        };
        self.output.end(counters, &words);
        let records = counters.attributed.get() + counters.unattributed.get();
        let devices = self.output.devices().into_values().cloned().collect();
        self.shared.windows.over(words, records, counters.lost());
        if let Why::Window(_) = why {
            self.shared.end_step.store(EndStep::Records as u8, Ordering::Relaxed);
            return devices;
        }
        self.shared.end_step.store(EndStep::Summary as u8, Ordering::Relaxed);
        if self.window.late || (ancestry::parent().is_some() && records == 0) {
            // A prefork server has hundreds of such children. What a window holds is in its file: its
            // filter may be another one than that of the table.
            return devices;
        }
        let shown = summary::ShownPaths::of(&mut self.names);
        let summary = summary::Summary {
            options: &self.shared.options,
            filter: self.shared.environment,
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
        devices
    }
}
