//! Samples the guest's threads from our own thread: the state and the stack of each.
//!
//! It sends no signal to a guest thread, takes no lock and stops nothing. It reads memory through the kernel
//! ([`memory`]), because the interpreter keeps running and may free that memory at any moment. The thread
//! starts with a window, and ends with it or when the interpreter finalizes. A forked child has no such
//! thread until its own recording starts. The samples go to the drain thread in a bounded number of
//! [`Round`]s. If no `Round` is free, the round is skipped and counted.

mod code;
mod interpreter;
pub(crate) mod layout;
pub(crate) mod look;
mod memory;
mod native;
mod pace;
#[doc(hidden)]
pub mod probe;
mod stacks;
mod tasks;

use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use stage2_contract::trace::{HostSampling, HostState, MonoNs};

use crate::base::call_stacks::{CallStacks, Frames};
use crate::base::clock::{self, Instant};
use crate::base::futex::{Bell, Flag};
use crate::base::{barrier, diag, scheduling};
pub use interpreter::Interpreter;
use layout::Layout;
use memory::Memory;
use native::Natives;
use pace::Pace;
use stacks::{Ended, Python};
use tasks::{NoDescriptors, Task, Times};

/// The most rounds that wait for the drain thread.
const ROUNDS: usize = 64;
/// How long [`Sampling::stop`] waits for the thread, whose rounds take less than a millisecond.
const END_PATIENCE: Duration = Duration::from_millis(100);
/// Threads that do not launch GPU work are sampled once in this many rounds.
const SELDOM: u64 = 16;
/// How often the threads are listed and their times written, about.
const LISTING: Duration = Duration::from_secs(1);
/// How long a thread that held the GIL while a launching thread waited for it is sampled in each round.
const SUSPECTED: Duration = Duration::from_secs(1);
/// The most threads that are sampled.
const MAX_TASKS: usize = 256;
/// The most threads that are kept as launching threads.
const MAX_LAUNCHING: usize = 64;
/// Names of our threads, which threads that a library starts on them inherit. A guest may be called `stage2-demo`.
const OWN_THREADS: [&str; 6] = [
    "stage2-drain",
    "stage2-host",
    "stage2-control",
    "stage2-nvml",
    "stage2-counters",
    "stage2-why",
];
/// An interpreter whose lists cannot be followed so many times in a row is left alone.
const MAX_TORN: u32 = 200;

/// The samples of one moment, and what is new since the last one.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) at: MonoNs,
    /// New code objects, and native functions. Their texts are contiguous in `bytes`.
    pub(crate) codes: Vec<CodeText>,
    pub(crate) bytes: Vec<u8>,
    /// The numbers of code objects from earlier rounds are no longer valid.
    pub(crate) forgets_codes: bool,
    /// The code object and the instruction offset of each frame, the innermost frame of each stack first.
    pub(crate) frames: Vec<(u32, i32)>,
    pub(crate) samples: Vec<Sample>,
    /// New threads and their names. A thread is here before its first sample.
    pub(crate) met: Vec<(u32, String)>,
    /// Threads that have ended.
    pub(crate) gone: Vec<u32>,
    /// Stacks of calls that blocked: the thread's number in the trace file, the begin of the call, and its frames.
    pub(crate) calls: Vec<(u32, MonoNs, Range<usize>)>,
    /// Times of threads: number, on a processor, ready without one, ns.
    pub(crate) times: Vec<(u32, u64, u64)>,
    pub(crate) totals: HostSampling,
}

impl Round {
    fn clear(&mut self) {
        self.codes.clear();
        self.bytes.clear();
        self.forgets_codes = false;
        self.frames.clear();
        self.samples.clear();
        self.calls.clear();
        self.met.clear();
        self.gone.clear();
        self.times.clear();
    }
}

/// A code object and the lengths of its texts, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeText {
    pub(crate) id: u32,
    pub(crate) first_line: u32,
    pub(crate) name: usize,
    pub(crate) file: usize,
    pub(crate) table: usize,
}

/// A sample of a thread.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) tid: u32,
    pub(crate) state: HostState,
    pub(crate) holds_gil: bool,
    /// The thread that holds the GIL, if this one waits for it; 0: none, or not known.
    pub(crate) holder: u32,
    /// Its frames in [`Round::frames`]; empty if it has no stack.
    pub(crate) frames: Range<usize>,
    pub(crate) interval_ns: u64,
}

/// The Python stack of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Stack {
    /// It runs no Python code, or was not sampled.
    #[default]
    None,
    Frames {
        /// In [`Round::frames`].
        frames: Range<usize>,
        /// The outermost frames are missing.
        is_cut: bool,
    },
    /// It changed while it was read.
    Torn,
    /// It could not be read, or is not a valid stack.
    Unreadable,
}

impl Stack {
    fn is_empty(&self) -> bool {
        match self {
            Stack::None => true,
            Stack::Frames { frames, .. } => frames.is_empty(),
            Stack::Torn | Stack::Unreadable => false,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Said {
    Round(Box<Round>),
    /// The version of the interpreter whose stacks are read: `3.MINOR`.
    Python {
        minor: u32,
    },
    /// A limit of the samples, for instance that stacks are missing.
    Note(String),
    /// Sampling has ended, for this reason.
    Off(String),
}

/// What the sampling thread and the other threads share.
#[derive(Debug)]
struct Common {
    stop: AtomicBool,
    bell: Bell,
    /// The thread will send nothing more.
    ended: Flag,
    said: ArrayQueue<Said>,
    /// Rounds that are not in use.
    free: ArrayQueue<Box<Round>>,
    /// IDs of the launching threads; 0: a free entry.
    launching: [AtomicU32; MAX_LAUNCHING],
    /// How many were added so far.
    launching_changes: AtomicUsize,
}

impl Common {
    fn new() -> Self {
        Common {
            stop: AtomicBool::new(false),
            bell: Bell::default(),
            ended: Flag::default(),
            // All rounds, and what is said besides.
            said: ArrayQueue::new(ROUNDS + 8),
            free: ArrayQueue::new(ROUNDS),
            launching: [const { AtomicU32::new(0) }; MAX_LAUNCHING],
            launching_changes: AtomicUsize::new(0),
        }
    }
}

/// The thread that samples, as the drain thread sees it.
pub(crate) struct Sampling {
    common: Arc<Common>,
}

impl Sampling {
    /// Starts the thread. The caller has blocked all signals, and the thread inherits that.
    ///
    /// # Errors
    /// The process may have no further thread.
    pub(crate) fn start(
        hz: u32,
        python: Option<Interpreter>,
        calls: &'static CallStacks,
    ) -> std::io::Result<Self> {
        let common = Arc::new(Common::new());
        (0..ROUNDS).for_each(|_| drop(common.free.push(Box::default())));
        let of_thread = Arc::clone(&common);
        let interval = Duration::from_secs(1) / hz.max(1);
        let thread = move || {
            let common = &*of_thread;
            let sampler = || Sampler::new(interval, python, (common, calls)).run();
            let ended = barrier::own_thread(sampler);
            calls.tell_threads(std::iter::empty());
            if let Err(panic) = ended {
                let why = format!("{panic}; everything else continues; please report it");
                let _ = common.said.push(Said::Off(why));
            }
            common.ended.set();
        };
        barrier::thread("stage2-host").spawn(thread)?;
        Ok(Sampling { common })
    }

    /// Has a thread sampled in each round, because it opens ranges or launches GPU work.
    pub(crate) fn watch(&self, tid: u32) {
        let place_of = |tid| {
            let mut places = self.common.launching.iter();
            places.find(|place| place.load(Ordering::Relaxed) == tid)
        };
        if place_of(tid).is_none()
            && let Some(free) = place_of(0)
        {
            free.store(tid, Ordering::Relaxed);
            self.common.launching_changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Takes the next message of the thread. Does not wait.
    pub(crate) fn take(&self) -> Option<Said> {
        self.common.said.pop()
    }

    /// Returns a round for reuse.
    pub(crate) fn give_back(&self, mut round: Box<Round>) {
        round.clear();
        // The queue has room for all rounds.
        let _ = self.common.free.push(round);
    }

    /// Whether the thread still runs.
    pub(crate) fn is_alive(&self) -> bool {
        !self.common.ended.is_set()
    }

    /// Stops the thread, and waits for it for at most 0.1 s. Its last messages remain in the queue.
    pub(crate) fn stop(&self) {
        self.common.stop.store(true, Ordering::Release);
        self.common.bell.ring();
        if !self.common.ended.wait(END_PATIENCE) {
            diag::debug(format_args!("the host sampling thread does not end in time"));
        }
    }
}

/// A thread of the guest.
#[derive(Debug, Default)]
struct Known {
    tid: u32,
    /// It belongs to the collector.
    is_own: bool,
    /// Its files; `None`: they cannot be opened.
    task: Option<Task>,
    launches: bool,
    /// A seccomp filter may end it for a system call.
    is_filtered: bool,
    /// Until when it is looked at in each round.
    suspected_until: Instant,
    /// The time of its last sample.
    before: MonoNs,
    told: Times,
}

/// Reads the stacks.
struct Reader {
    memory: Memory,
    natives: Natives,
    python: Option<Interpreted>,
}

/// The Python code of the process.
struct Interpreted {
    python: Python,
    /// The layout has led to a valid stack.
    is_verified: bool,
    /// The number of rounds in a row in which the lists of threads could not be followed.
    torn: u32,
}

impl Reader {
    /// Whether an interpreter is there whose threads are not known yet.
    fn awaits_python(&self) -> bool {
        self.python.as_ref().is_some_and(|interpreted| !interpreted.is_verified)
    }

    /// The threads of Python, and what reads the stacks of others once these are known.
    fn parts(&mut self) -> (&[stacks::Thread], Option<(&mut Natives, &mut Memory)>) {
        let awaits = self.awaits_python();
        let verified = self.python.as_ref().filter(|_| !awaits);
        let threads = verified.map_or(&[][..], |interpreted| &interpreted.python.threads);
        (threads, (!awaits).then_some((&mut self.natives, &mut self.memory)))
    }
}

/// The state of the sampling thread.
struct Sampler<'a> {
    asked: Duration,
    python: Option<Interpreter>,
    common: &'a Common,
    calls: &'a CallStacks,
    known: Vec<Known>,
    /// A launching thread is known. `changes`: the value of [`Common::launching_changes`] at the last
    /// listing.
    any_launches: bool,
    changes: usize,
    pid: u32,
    /// The seccomp filters of this thread when it started.
    filters: scheduling::Filters,
    /// The thread can open files of `/proc`.
    has_files: bool,
    own_times: Option<Task>,
    totals: HostSampling,
    pace: Pace,
    next_listing: Instant,
}

impl<'a> Sampler<'a> {
    fn new(
        asked: Duration,
        python: Option<Interpreter>,
        (common, calls): (&'a Common, &'a CallStacks),
    ) -> Self {
        let asked_ns = asked.as_nanos() as u64;
        Sampler {
            asked,
            python,
            common,
            calls,
            known: Vec::new(),
            any_launches: false,
            changes: 0,
            pid: std::process::id(),
            filters: scheduling::Filters::of_caller(),
            has_files: false,
            own_times: None,
            totals: HostSampling { asked_ns, ..HostSampling::default() },
            pace: Pace::new(asked),
            next_listing: Instant::now(),
        }
    }

    fn run(mut self) {
        match self.prepare() {
            Ok(reader) => self.work(reader),
            Err(why) => self.say(Said::Off(why)),
        }
    }

    /// Prepares the thread. If memory cannot be read, there is no reader of stacks.
    ///
    /// # Errors
    /// Why nothing can be sampled, with the remedy.
    fn prepare(&mut self) -> Result<Option<Reader>, String> {
        if scheduling::has_filter_of_its_own() {
            let why = "the program has a seccomp filter, which might kill the process for a system call of \
                       the sampling thread; to get samples, run the program without the filter";
            return Err(why.to_owned());
        }
        let own = crate::base::generation::thread_id() as u32;
        match tasks::own_descriptors() {
            Ok(()) => {
                self.has_files = Task::name(own).is_ok();
                if !self.has_files {
                    let why = "states of threads are not known: /proc has other numbers of threads than the \
                               process itself; mount that of its PID namespace";
                    self.say(Said::Note(why.to_owned()));
                }
            }
            Err(why @ NoDescriptors::Refused(_)) => {
                self.say(Said::Note(format!("thread states are not known: {why}")));
            }
            Err(why) => return Err(why.to_string()),
        }
        scheduling::be_ordinary();
        match Task::open(own) {
            Ok(task) => self.own_times = Some(task),
            Err(error) if self.has_files => self.say(Said::Note(format!(
                "states of threads are not known: the system refuses the files of a thread in /proc ({error}), \
                 as it does after a change of user"
            ))),
            Err(_) => {}
        }
        let mut memory = match Memory::open(self.has_files) {
            Ok(memory) => memory,
            Err(error) if self.has_files => {
                self.say(Said::Note(error.to_string()));
                return Ok(None);
            }
            Err(error) => return Err(error.to_string()),
        };
        self.calls.begin();
        let python = match attach(self.python, &mut memory) {
            Ok(python) => Some(Interpreted { python, is_verified: false, torn: 0 }),
            Err(why) => {
                self.say(Said::Note(why));
                None
            }
        };
        Ok(Some(Reader { memory, natives: Natives::default(), python }))
    }

    /// Samples until [`Sampling::stop`] is called, or the interpreter finalizes.
    fn work(&mut self, mut reader: Option<Reader>) {
        let begun = Instant::now();
        let mut due = begun;
        while !self.common.stop.load(Ordering::Acquire) {
            let now = Instant::now();
            if now < due {
                self.common.bell.wait(due.saturating_duration_since(now));
                continue;
            }
            if self.is_filtered() {
                return;
            }
            let late = now.saturating_duration_since(due);
            self.totals.rounds += 1;
            self.totals.late += u64::from(late > self.pace.interval / 2);
            due = if late > self.pace.interval { now } else { due } + self.pace.interval;
            let Some(mut round) = self.common.free.pop() else {
                self.totals.lost += self.known.len() as u64;
                continue;
            };
            round.at = clock::mono();
            let is_full = self.totals.rounds % SELDOM == 1;
            self.list(&mut round);
            if let Some(reader) = &mut reader {
                reader.natives.make_room(&mut round);
                match self.read(reader, &mut round, (is_full, now)) {
                    Err(Ended::Finalizing | Ended::Gone) => return,
                    Err(Ended::Torn) => reader.python = None,
                    Ok(()) => {}
                }
                if round.forgets_codes {
                    reader.natives.forget_functions();
                }
                self.take_calls(reader, &mut round);
                if !reader.awaits_python() {
                    self.tell_threads(reader.parts().0);
                }
            }
            self.sample(reader.as_mut(), &mut round, now, is_full);
            self.keep_pace(late);
            self.totals.at = round.at;
            self.totals.sampled_ns = now.saturating_duration_since(begun).as_nanos() as u64;
            self.totals.interval_ns = self.pace.interval.as_nanos() as u64;
            round.totals = self.totals;
            self.say(Said::Round(round));
        }
        if self.is_filtered() {
            return;
        }
        // The last times of the threads: up to a second has passed since they were written.
        if let Some(mut round) = self.common.free.pop() {
            self.next_listing = Instant::now();
            round.at = clock::mono();
            self.list(&mut round);
            round.totals = self.totals;
            self.say(Said::Round(round));
        }
        if reader.is_some_and(|reader| reader.awaits_python()) {
            let why = "no Python code ran, or the memory layout of the interpreter is not that of its \
                       version: samples have no stacks";
            self.say(Said::Note(why.to_owned()));
        }
    }

    /// Whether the program has installed a seccomp filter for this thread; reports it if so. Any system call after
    /// that may end the process, so this comes first in a round.
    fn is_filtered(&self) -> bool {
        let is_it = scheduling::Filters::of_caller() != self.filters;
        if is_it {
            let why = "the program has installed a seccomp filter, which might kill the process for a system call \
                       of the sampling thread; to get later samples, run the program without the filter";
            self.say(Said::Off(why.to_owned()));
        }
        is_it
    }

    /// Reads the stacks that are due. There are none before the guest has initialised its interpreter.
    ///
    /// # Errors
    /// There are no more stacks, or the lists of threads cannot be followed.
    fn read(
        &mut self,
        reader: &mut Reader,
        round: &mut Round,
        (is_full, now): (bool, Instant),
    ) -> Result<(), Ended> {
        let Reader { memory, python: Some(interpreted), .. } = reader else { return Ok(()) };
        let Interpreted { python, is_verified, torn } = interpreted;
        if !*is_verified && is_full {
            *is_verified = python.verify(memory);
            if *is_verified {
                self.say(Said::Python { minor: python.layout.minor });
                self.calls.tell_layout(python.layout.of_frames());
            }
        }
        if !*is_verified {
            return Ok(());
        }
        let keeps = |tid: u32| self.known.iter().any(|known| known.tid == tid);
        let due = |tid: u32| is_full || self.is_hot(tid, now);
        let looked = python.look(memory, round, (is_full, keeps), due);
        self.totals.threads_left_out = self.totals.threads_left_out.max(python.left_out);
        if looked != Err(Ended::Torn) {
            *torn = 0;
            return looked;
        }
        round.frames.clear();
        python.threads.iter_mut().for_each(|thread| thread.stack = Stack::Torn);
        *torn += 1;
        if *torn <= MAX_TORN {
            return Ok(());
        }
        let why =
            "the thread lists of the interpreter are inconsistent: later samples have no stacks";
        self.say(Said::Note(why.to_owned()));
        looked
    }

    /// States which threads may read their own stacks: those that launch, unless a filter might end them for it.
    fn tell_threads(&self, threads: &[stacks::Thread]) {
        let may = self.known.iter().filter(|known| known.launches && !known.is_filtered);
        self.calls.tell_threads(may.map(|known| {
            let is_it = |thread: &&stacks::Thread| thread.tid == known.tid && thread.has_frames();
            (known.tid, threads.iter().find(is_it).map(stacks::Thread::state))
        }));
    }

    /// Looks up the lines of calls that blocked.
    fn take_calls(&self, reader: &mut Reader, round: &mut Round) {
        while let Some(call) = self.calls.take() {
            let begin = round.frames.len();
            match call.frames {
                Frames::Python(frames) => {
                    let Reader { memory, python, .. } = &mut *reader;
                    for told in frames {
                        let Some(interpreted) = python else { break };
                        let Some(frame) = interpreted.python.frame(told, memory, round) else {
                            break;
                        };
                        round.frames.push(frame);
                    }
                }
                Frames::Native(registers, stack) => {
                    let stack = native::Stack::Copied(registers.sp, &stack);
                    reader.natives.walk(registers, stack, &mut reader.memory, round);
                }
            }
            round.calls.push((call.thread, call.begin, begin..round.frames.len()));
        }
    }

    fn say(&self, said: Said) {
        // The queue has room for all rounds and the other messages.
        let _ = self.common.said.push(said);
    }

    /// Lists the threads of the process about once a second, and finds out which of them launch GPU work.
    fn list(&mut self, round: &mut Round) {
        let changes = self.common.launching_changes.load(Ordering::Acquire);
        let is_new = std::mem::replace(&mut self.changes, changes) != changes;
        let now = Instant::now();
        if !is_new && now < self.next_listing {
            return;
        }
        if self.has_files {
            let all = tasks::all();
            let launching = &self.common.launching;
            self.known.retain(|known| {
                // A list that is read while threads end may lack others. The files of a thread tell for sure.
                let is_there = match &known.task {
                    Some(task) => task.times().is_ok(),
                    None => all.contains(&known.tid),
                };
                if !is_there {
                    round.gone.push(known.tid);
                    for place in launching {
                        // The kernel may reuse its ID.
                        let _ = place.compare_exchange(
                            known.tid,
                            0,
                            Ordering::Relaxed,
                            Ordering::Relaxed,
                        );
                    }
                }
                is_there
            });
            let left_out = all.into_iter().filter(|&tid| !self.meet(tid, round)).count() as u64;
            self.totals.threads_left_out = self.totals.threads_left_out.max(left_out);
        }
        self.any_launches = false;
        for place in &self.common.launching {
            let tid = place.load(Ordering::Relaxed);
            for known in self.known.iter_mut().filter(|known| known.tid == tid) {
                known.launches = true;
                self.any_launches = true;
            }
        }
        if now < self.next_listing {
            return;
        }
        self.next_listing = now + LISTING;
        for known in self.known.iter_mut().filter(|known| !known.is_own) {
            known.is_filtered = known.launches && scheduling::has_filter(known.tid);
            let Some(times) = known.task.as_ref().and_then(|task| task.times().ok()) else {
                continue;
            };
            if times != known.told {
                known.told = times;
                round.times.push((known.tid, times.cpu_ns, times.delay_ns));
            }
        }
    }

    /// Adds a thread if it is new. `false`: there are too many.
    fn meet(&mut self, tid: u32, round: &mut Round) -> bool {
        if tid == 0 || self.known.iter().any(|known| known.tid == tid) {
            return true;
        }
        let is_full = self.known.len() >= MAX_TASKS;
        let is_it = |place: &AtomicU32| place.load(Ordering::Relaxed) == tid;
        if is_full && !self.common.launching.iter().any(is_it) {
            return false;
        }
        let name = if self.has_files { Task::name(tid) } else { Ok(String::new()) };
        if name.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            // What an interpreter takes for the number of a thread need be none.
            return true;
        }
        let name = name.unwrap_or_default();
        if is_full {
            // A thread that launches takes the place of one that does not.
            let other = self.known.iter().position(|known| !known.is_own && !known.launches);
            let Some(other) = other else { return false };
            self.known.swap_remove(other);
        }
        let is_own = OWN_THREADS.contains(&&*name);
        let task = if self.has_files && !is_own { Task::open(tid).ok() } else { None };
        self.known.push(Known { tid, is_own, task, ..Known::default() });
        if !is_own {
            round.met.push((tid, name));
        }
        true
    }

    /// Whether the thread with this ID is sampled in each round. An unknown thread is, if there is room for it.
    fn is_hot(&self, tid: u32, now: Instant) -> bool {
        let stands_in = tid == self.pid && !self.any_launches;
        match self.known.iter().find(|known| known.tid == tid) {
            Some(known) => known.is_hot(stands_in, now),
            None => self.known.len() < MAX_TASKS,
        }
    }

    /// Adds a sample of each thread that is due.
    fn sample(
        &mut self,
        reader: Option<&mut Reader>,
        round: &mut Round,
        now: Instant,
        is_full: bool,
    ) {
        let (threads, mut native) = reader.map_or((&[][..], None), Reader::parts);
        for thread in threads {
            self.meet(thread.tid, round);
        }
        // A thread has a state in each interpreter that it entered; the one with frames counts.
        let of_tid = |tid: u32| {
            let mut states = threads.iter().filter(|thread| thread.tid == tid);
            let first = states.clone().next();
            states.find(|thread| !thread.stack.is_empty()).or(first)
        };
        let interval_ns = self.pace.interval.as_nanos() as u64;
        let mut suspects = Vec::new();
        for known in self.known.iter_mut().filter(|known| !known.is_own) {
            let tid = known.tid;
            let is_often = known.is_hot(tid == self.pid && !self.any_launches, now);
            if !is_full && !is_often {
                continue;
            }
            let thread = of_tid(tid);
            let frames = match thread.map(|thread| &thread.stack) {
                Some(Stack::Torn) => {
                    self.totals.torn += 1;
                    continue;
                }
                Some(Stack::Unreadable) => {
                    self.totals.unreadable += 1;
                    continue;
                }
                Some(Stack::Frames { frames, is_cut }) => {
                    self.totals.cut += u64::from(*is_cut);
                    frames.clone()
                }
                Some(Stack::None) | None => 0..0,
            };
            let nowhere = 0..0;
            let futexes = thread.map_or(&nowhere, |thread| &thread.futexes);
            let (state, waits_at) = match &mut known.task {
                Some(task) => match task.state(futexes) {
                    Ok(found) => found,
                    // The thread has ended.
                    Err(_) => continue,
                },
                None => (HostState::Unknown, None),
            };
            let frames = match (&mut native, waits_at, &known.task) {
                (Some((natives, memory)), Some(registers), Some(task))
                    if is_often && frames.is_empty() =>
                {
                    let begin = round.frames.len();
                    let is_cut = natives.walk(registers, native::Stack::InMemory, memory, round);
                    // The thread has gone on, so its stack has changed. The state was right.
                    if !task.waits_at(registers) {
                        round.frames.truncate(begin);
                    }
                    self.totals.cut += u64::from(is_cut);
                    begin..round.frames.len()
                }
                _ => frames,
            };
            let holder =
                thread.filter(|_| state == HostState::GilWait).map_or(0, |thread| thread.holder);
            if holder != 0 && is_often {
                suspects.push(holder);
            }
            let since = round.at.since(known.before);
            let due_ns = interval_ns.saturating_mul(if is_often { 1 } else { SELDOM });
            let is_first = known.before == MonoNs(0);
            known.before = round.at;
            round.samples.push(Sample {
                tid,
                state,
                holds_gil: thread.is_some_and(|thread| thread.holds_gil),
                holder,
                frames,
                interval_ns: if is_first { due_ns } else { since.min(2 * due_ns) },
            });
        }
        for known in self.known.iter_mut().filter(|known| suspects.contains(&known.tid)) {
            known.suspected_until = now + SUSPECTED;
        }
    }

    /// Adapts the interval to how long this thread itself waited for a processor.
    fn keep_pace(&mut self, late: Duration) {
        let Some(times) = self.own_times.as_ref().and_then(|task| task.times().ok()) else {
            return;
        };
        let delay = times.delay_ns.saturating_sub(self.totals.own_delay_ns);
        (self.totals.own_cpu_ns, self.totals.own_delay_ns) = (times.cpu_ns, times.delay_ns);
        if self.totals.rounds > 1 && self.pace.note(late, Duration::from_nanos(delay)) {
            if self.totals.backed_off == 0 {
                self.say(Said::Note(format!(
                    "the processors are overloaded: the host was sampled less often than every {} ms, so as \
                     not to slow the program down",
                    self.asked.as_millis()
                )));
            }
            self.totals.backed_off += 1;
        }
    }
}

/// Reads the layout of the interpreter of this process.
///
/// # Errors
/// Why its stacks cannot be read.
fn attach(python: Option<Interpreter>, memory: &mut Memory) -> Result<Python, String> {
    let none =
        "no Python interpreter was found when recording began: only threads that wait have stacks";
    let interpreter = python.ok_or(none)?;
    let mut told = [0; layout::TOLD];
    for (index, number) in told.iter_mut().enumerate() {
        *number = memory.number(interpreter.runtime + 8 * index as u64).ok_or(none)?;
    }
    let layout = Layout::find(&told, interpreter.version).map_err(|refusal| refusal.to_string())?;
    Ok(Python::new(layout, interpreter, memory))
}

impl Known {
    /// Whether it is sampled in each round. `stands_in`: no launching thread is known, and this one is
    /// treated as one.
    fn is_hot(&self, stands_in: bool, now: Instant) -> bool {
        self.launches || stands_in || now < self.suspected_until
    }
}

#[cfg(test)]
mod tests;
