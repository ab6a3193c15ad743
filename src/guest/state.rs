//! Which phase we are in, and everything that one process records.
//!
//! ```text
//!            start()               stop()                 drain thread has finished
//!   Idle ---------------> On ------------------> Stopping ----------------------> Ended
//!   Idle -- start() with STAGE2_START=off -------------------------------------> Dormant
//!   Dormant <-- a window ends or begins, on the drain thread ------------------> On
//!   Dormant -- stop() ---------------------------------------------------------> Stopping
//!   Idle, On, Dormant -- the drain thread failed ---------------------------------------> Ended
//!   any -- fork(), in the child: a new generation -----------------------------> Idle
//!   any -- a fork that calls no handler, in the child -------------------------> Forked (for good)
//! ```
//!
//! Guest threads only read the phase and [`Shared`]; `lifecycle`, `ends` and `forks` move the phase. A
//! generation is what one process records. A forked child begins the next one and leaves everything of
//! its parent's alone: other threads may have been in the middle of it.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence,
};

use cupti_sys::CuptiError;

use crate::base::call_stacks::CallStacks;
use crate::base::counters::Counters;
use crate::base::futex::{Bell, Flag, Lock};
use crate::base::generation;
use crate::base::glob::RangeFilter;
use crate::base::job::JobFacts;
use crate::base::last_thread::Helpers;
use crate::base::options::{Graph, Options};
use crate::base::sync::{self, process_wide};
use crate::guest::collection_switch::{CollectionSwitch, StartedRanges, Switches};
use crate::guest::event::Events;
use crate::guest::farewell::Farewell;
use crate::guest::gpu::{Gpu, OffReason};
use crate::guest::launch_watch::LaunchWatch;
use crate::guest::open_calls::OpenCalls;
pub use crate::guest::phase::Phase;
use crate::guest::phase::PhaseMachine;
use crate::guest::pool::Pool;
use crate::guest::registry::{Kind, registry};
use crate::guest::window_filter::{Bits, WindowFilter};
use crate::guest::windows::Windows;

process_wide! {
    static PHASE: PhaseMachine = PhaseMachine(sync::AtomicU8::new(Phase::Idle as u8))
}
/// Null before the start. What it points to is never freed.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());
/// The filter of the last start in this process or an ancestor: a forked child may register names
/// before it starts, and these have to be matched as well.
static RANGES: AtomicPtr<RangeFilter> = AtomicPtr::new(ptr::null_mut());
/// The bits of registrations for a filter that a start brought; null until there was one. Never freed.
static BITS: AtomicPtr<Bits> = AtomicPtr::new(ptr::null_mut());
/// The driver has been initialised, or is being so.
static CUDA_SEEN: AtomicBool = AtomicBool::new(false);
/// Threads that serve the control socket: 0 or 1.
static SERVERS: AtomicU64 = AtomicU64::new(0);
/// How a forked child starts; set by the constructor.
static START: OnceLock<fn() -> Option<&'static Shared>> = OnceLock::new();
/// Thread numbers start at 1 and are never used twice, unlike the kernel's thread ids.
static NEXT_THREAD: AtomicU32 = AtomicU32::new(1);

/// Held while a thread starts us: NVTX before CUDA 12.9 may do so on several threads at once. No callback
/// takes it.
pub static STARTING: Lock = Lock::new();

/// The phase now.
pub fn phase() -> Phase {
    PHASE.now()
}

/// Moves from one phase to another; `false` where the phase was not `from`.
pub fn advance(from: Phase, to: Phase) -> bool {
    PHASE.advance(from, to)
}

/// Off for good, whatever the phase was.
pub fn forked() {
    PHASE.set(Phase::Forked);
}

/// The drain thread failed ([`PhaseMachine::fail`]).
pub fn fail(shut: impl FnOnce()) {
    PHASE.fail(shut);
}

/// The GPU half was started ([`PhaseMachine::started`]).
pub fn started(shut: impl FnOnce()) -> bool {
    PHASE.started(shut)
}

/// A call of the guest that is recorded.
#[derive(Clone, Copy)]
pub struct Call {
    /// What threads share.
    pub shared: &'static Shared,
    /// [`generation::epoch`] when it began. It tells whose window the call belongs to, however long it takes.
    pub epoch: u32,
}

/// A call that begins now, if that is the phase.
fn call_in(recording: Phase) -> Option<Call> {
    // In this order: each epoch begins before its window is on, so a call is of that window or of an
    // earlier one, and never one that began before the window that it is of.
    let epoch = generation::epoch();
    let is_so = phase() == recording && !generation::in_silent_child();
    let shared = is_so.then(shared).flatten()?;
    Some(Call { shared, epoch })
}

/// A call that begins now, while we record. The one check of every handler.
pub fn active() -> Option<Call> {
    call_in(Phase::On)
}

/// A call that begins now, while our thread ends its work: what it does is taken in as long as it can be.
pub fn ending() -> Option<Call> {
    call_in(Phase::Stopping)
}

/// What threads share, in any phase after the start.
pub fn shared() -> Option<&'static Shared> {
    // SAFETY: null, or what `share` leaked.
    unsafe { SHARED.load(Ordering::Acquire).as_ref() }
}

/// Sets what threads share. Once a generation; `None` if it was set before.
pub fn share(shared: Shared) -> Option<&'static Shared> {
    let shared = Box::into_raw(Box::new(shared));
    let null = ptr::null_mut();
    if SHARED.compare_exchange(null, shared, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // SAFETY: it came from a box, and nobody else has seen it.
        drop(unsafe { Box::from_raw(shared) });
        return None;
    }
    let shared = self::shared()?;
    keep_filter(&shared.options.ranges);
    Some(shared)
}

/// What is registered from here on is matched with this filter: at a start that records nothing yet.
pub fn keep_filter(ranges: &'static RangeFilter) {
    RANGES.store(ptr::from_ref(ranges).cast_mut(), Ordering::Release);
}

/// The bits for filters that starts bring. The first call allocates; only one thread makes it.
pub fn window_bits() -> &'static Bits {
    if let Some(bits) = window_bits_if_any() {
        return bits;
    }
    let bits: &'static Bits = Box::leak(Box::new(Bits::default()));
    BITS.store(ptr::from_ref(bits).cast_mut(), Ordering::SeqCst);
    bits
}

fn window_bits_if_any() -> Option<&'static Bits> {
    // SAFETY: null, or what `window_bits` leaked.
    unsafe { BITS.load(Ordering::SeqCst).as_ref() }
}

/// A domain or a string was registered. Neither locks nor allocates.
pub(crate) fn note_registration(number: u32, kind: Kind, text: &[u8]) {
    if let Some(bits) = window_bits_if_any() {
        bits.note(number, kind, text);
    }
}

/// A number for a thread that has none. Neither waits nor allocates.
pub(crate) fn take_thread_number() -> u32 {
    NEXT_THREAD.fetch_add(1, Ordering::Relaxed)
}

pub(crate) fn cuda_seen() -> bool {
    CUDA_SEEN.load(Ordering::Acquire)
}

/// The driver is being initialised.
pub(crate) fn note_cuda() {
    CUDA_SEEN.store(true, Ordering::Release);
}

/// Threads that serve the control socket.
pub(crate) fn servers() -> u64 {
    SERVERS.load(Ordering::Acquire)
}

/// A thread that serves the control socket was started, or ends.
pub(crate) fn set_servers(count: u64) {
    SERVERS.store(count, Ordering::Release);
}

/// The calling thread, as one more that serves the control socket. It counts itself once it runs and until it is about
/// to end: one that is counted and is not there would stand for a thread of the guest, and end the process too soon.
pub(crate) struct Server(());

impl Server {
    pub(crate) fn counted() -> Self {
        SERVERS.fetch_add(1, Ordering::AcqRel);
        Server(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let fewer = |count: u64| count.checked_sub(1);
        let _ = SERVERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
    }
}

/// The filter of ranges. Before its own start a forked child has that of its parent.
pub fn range_filter() -> Option<&'static RangeFilter> {
    // SAFETY: null, or a part of what `share` leaked; nobody changes it.
    unsafe { RANGES.load(Ordering::Acquire).as_ref() }
}

/// Begins a new generation: the only thread of a forked child calls it. Neither locks nor allocates.
pub fn renew() {
    SHARED.store(ptr::null_mut(), Ordering::Release);
    CUDA_SEEN.store(false, Ordering::Release);
    SERVERS.store(0, Ordering::Release);
    STARTING.break_open();
    generation::begin();
    PHASE.set(Phase::Idle);
}

/// Notes how a forked child is to start.
pub fn set_start(start: fn() -> Option<&'static Shared>) {
    // The constructor runs once.
    let _ = START.set(start);
}

/// Whether this is a forked child that has not started yet.
pub fn is_new_child() -> bool {
    phase() == Phase::Idle
        && generation::number() > 0
        && START.get().is_some()
        && !generation::in_silent_child()
}

/// Starts a forked child, as [`is_new_child`] knows it, for a call that began before.
pub fn start_child() -> Option<Call> {
    let epoch = generation::epoch();
    let shared = START.get()?()?;
    Some(Call { shared, epoch })
}

/// What the guest's threads, CUPTI's threads and the drain thread share.
pub struct Shared {
    /// What was asked for.
    pub options: Options,
    /// The process that is recorded.
    pub(crate) pid: u32,
    /// What the environment says about its place in a job.
    pub(crate) job: JobFacts,
    /// [`Shared::job`] at the start of the GPU half: some launchers set their variables in between.
    pub job_at_gpu_start: OnceLock<JobFacts>,
    /// Events from guest threads to the drain thread.
    pub events: Events,
    /// What was seen and lost.
    pub counters: Counters,
    /// Python frames of calls that blocked.
    pub(crate) call_stacks: CallStacks,
    /// Calls of the driver that threads are in.
    pub(crate) open_calls: OpenCalls,
    /// Switches collection with `STAGE2_RANGES` and `STAGE2_SAMPLE`.
    pub(crate) collection: CollectionSwitch,
    /// The start/end ranges that hold collection on.
    pub started: StartedRanges,
    /// What the environment asks for.
    pub environment: &'static WindowFilter,
    /// What the window records. Never null; what it points to is never freed.
    wanted: AtomicPtr<WindowFilter>,
    /// Requests for windows, and how they stand. No guest thread comes there.
    pub windows: Windows,
    /// When collection was switched.
    pub switches: Switches,
    /// Counts kernel launches while CUPTI brings no records.
    pub launch_watch: LaunchWatch,
    /// A CUDA graph was launched in a wanted range, and the times of its kernels were not read since.
    pub replayed: AtomicBool,
    /// A flush is due that a thread of the guest has to make ([`Shared::flush`]).
    flush_is_due: AtomicBool,
    /// A thread of the guest made the last flush of the process.
    flushed_at_exit: AtomicBool,
    /// Activity buffers, once the GPU half was started.
    pub pool: OnceLock<Pool>,
    /// The GPU half, or why there is none.
    pub gpu: OnceLock<Result<Gpu, OffReason>>,
    /// Threads that are not the guest's, besides ours.
    pub(crate) helpers: Helpers,
    /// The drain thread, as the kernel numbers it; 0 before it runs.
    drain_thread: AtomicI64,
    /// Wakes the drain thread.
    pub(crate) bell: Bell,
    /// Forks since then. CUDA does not work in such children.
    pub forks_after_cuda: AtomicU64,
    /// The drain thread has opened its file and identified the process in it.
    pub ready: Flag,
    /// The drain thread is to finish.
    pub stop: AtomicBool,
    /// What the drain thread is about to finish ([`EndStep`]).
    pub end_step: AtomicU8,
    /// The drain thread is finishing without having been told to: an end of the process waits for it.
    pub ends_itself: AtomicBool,
    /// The drain thread has finished.
    pub(crate) done: Flag,
    /// What is about to end the process.
    pub(crate) farewell: Farewell,
}

impl Shared {
    /// Nothing is recorded yet.
    pub fn new(options: Options) -> Self {
        let environment: &'static WindowFilter = Box::leak(Box::new(WindowFilter::of(&options)));
        let windows = Windows::default();
        if options.start {
            windows.ask_first();
        }
        Shared {
            environment,
            wanted: AtomicPtr::new(ptr::from_ref(environment).cast_mut()),
            windows,
            switches: Switches::new(environment.is_restricted() || options.control),
            launch_watch: LaunchWatch::default(),
            started: StartedRanges::new(environment.is_restricted() || options.control),
            options,
            pid: std::process::id(),
            job: JobFacts::from_env(),
            job_at_gpu_start: OnceLock::new(),
            events: Events::default(),
            counters: Counters::default(),
            call_stacks: CallStacks::default(),
            open_calls: OpenCalls::default(),
            collection: CollectionSwitch::default(),
            replayed: AtomicBool::new(false),
            flush_is_due: AtomicBool::new(false),
            flushed_at_exit: AtomicBool::new(false),
            pool: OnceLock::new(),
            gpu: OnceLock::new(),
            helpers: Helpers::default(),
            drain_thread: AtomicI64::new(0),
            bell: Bell::default(),
            forks_after_cuda: AtomicU64::new(0),
            ready: Flag::default(),
            stop: AtomicBool::new(false),
            end_step: AtomicU8::new(EndStep::Records as u8),
            ends_itself: AtomicBool::new(false),
            done: Flag::default(),
            farewell: Farewell::default(),
        }
    }

    /// What the window records.
    pub fn window_filter(&self) -> &'static WindowFilter {
        // SAFETY: set from a box that is never freed, at the start and by `want`.
        unsafe { &*self.wanted.load(Ordering::Acquire) }
    }

    /// Sets what the next window records. Only the drain thread calls it, while nothing is recorded.
    pub fn want(&self, wanted: &'static WindowFilter) {
        if let Some(bits) = window_bits_if_any() {
            bits.fill(&wanted.ranges, registry());
        }
        wanted.sampler.reset();
        self.collection.reset();
        self.started.reset();
        self.wanted.store(ptr::from_ref(wanted).cast_mut(), Ordering::Release);
    }

    /// As [`Shared::switch`], for the ranges of guest threads. The window may end at the same moment:
    /// then collection is off at the end.
    pub fn collect(&self, on: bool) {
        if on && phase() == Phase::Stopping {
            return;
        }
        self.switch(on);
        // Of this thread and the one that ends the window at least one sees what the other has stored.
        fence(Ordering::SeqCst);
        if on && phase() != Phase::On && self.windows.is_used() {
            self.switch(false);
        }
    }

    /// Switches collection of GPU work on or off, if there is any, and notes when.
    pub fn switch(&self, on: bool) {
        if let Some(gpu) = self.gpu().filter(|gpu| gpu.switches) {
            if let Some(now) = gpu.tracer.now() {
                self.switches.note(on, now);
            }
            gpu.tracer.collect(on);
        }
    }

    /// Which turn collection is on since; 0 where it is never switched. `None` while it is off.
    pub fn collected_since(&self) -> Option<u64> {
        let switches =
            self.window_filter().is_restricted() && self.gpu().is_some_and(|gpu| gpu.switches);
        if switches { self.collection.on_since() } else { Some(0) }
    }

    /// Has CUPTI read the times of recorded replays of CUDA graphs, if there were any: the next replay
    /// overwrites them, unless it is recorded itself. Takes 0.7 us a kernel. Records of whole replays
    /// are never switched off.
    pub fn keep_replay_times(&self) {
        if let Some(gpu) = self.gpu()
            && self.options.graph == Graph::Node
            && self.replayed.swap(false, Ordering::Relaxed)
        {
            // CUPTI hands over what is done. A failure costs only times.
            let _ = gpu.tracer.flush(false);
        }
    }

    /// Our thread has CUPTI hand over what it holds; `forced`: unfinished buffers as well.
    ///
    /// Not where the hardware takes the times of kernels: CUPTI's decoder is reported to write over the
    /// program's heap if another thread flushes while the program works. A thread of the guest is asked to
    /// do it then, at its next range boundary ([`Shared::flush_if_due`]) or at the end of the process.
    pub fn flush(&self, forced: bool) -> Result<(), CuptiError> {
        match self.gpu() {
            Some(gpu) if gpu.asks_hardware => {
                self.flush_is_due.store(true, Ordering::Relaxed);
                Ok(())
            }
            Some(gpu) => gpu.tracer.flush(forced),
            None => Ok(()),
        }
    }

    /// A thread of the guest makes the flush that [`Shared::flush`] left to it.
    pub fn flush_if_due(&self) {
        if self.options.hardware_trace
            && self.flush_is_due.swap(false, Ordering::Relaxed)
            && let Some(gpu) = self.gpu()
        {
            // What is not handed over now comes later.
            let _ = gpu.tracer.flush(false);
        }
    }

    /// The thread that ends the process makes the last flush where ours may not.
    pub fn flush_at_exit(&self) {
        if let Some(gpu) = self.gpu().filter(|gpu| gpu.asks_hardware)
            && gpu.tracer.flush(true).is_ok()
        {
            self.flushed_at_exit.store(true, Ordering::Release);
        }
    }

    /// Whether what CUPTI held at the end of the process may be missing, because nobody could flush it.
    pub fn lacks_last_flush(&self) -> bool {
        self.gpu().is_some_and(|gpu| gpu.asks_hardware)
            && !self.flushed_at_exit.load(Ordering::Acquire)
    }

    /// The GPU half, where it runs.
    pub fn gpu(&self) -> Option<&Gpu> {
        self.gpu.get()?.as_ref().ok()
    }

    /// Hardware counters to sample: what the environment asks for, or the collector's choice where the
    /// window that starts CUPTI asks for some.
    pub fn counters_to_sample(&self) -> stage2_contract::settings::Counters {
        match self.windows.are_counters_asked() && self.options.counters.off {
            true => stage2_contract::settings::Counters::default(),
            false => self.options.counters.clone(),
        }
    }

    /// The calling thread is the drain thread.
    pub(crate) fn note_drain_thread(&self) {
        self.drain_thread.store(generation::thread_id(), Ordering::Relaxed);
    }

    /// Whether the drain thread runs.
    pub(crate) fn has_drain_thread(&self) -> bool {
        self.drain_thread.load(Ordering::Relaxed) != 0
    }

    /// Whether the calling thread is the drain thread. Neither waits nor allocates.
    pub fn is_drain_thread(&self) -> bool {
        self.drain_thread.load(Ordering::Relaxed) == generation::thread_id()
    }

    /// Wakes the drain thread. Neither waits nor allocates.
    pub fn wake_drain(&self) {
        self.bell.ring();
    }
}

/// The steps of the end, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EndStep {
    /// What CUPTI still holds is taken in.
    Records = 0,
    /// The trace file is ended.
    File = 1,
    /// The tables are shown.
    Summary = 2,
}
