//! Looks once at all threads of the guest, twice in a row: what each does, and whether it has moved in between.
//!
//! For whoever asks why nothing moves. As the sampling thread, it sends no signal, takes no lock and stops nothing;
//! it runs on its own thread, which ends afterwards.

use std::fs;
use std::ops::Range;
use std::time::Duration;

use rustc_hash::FxHashMap;
use stage2_contract::trace::HostState;

use super::memory::Memory;
use super::native::{self, Natives};
use super::stacks::{Ended, Python};
use super::tasks::{self, NoDescriptors, Task};
use super::{Interpreter, OWN_THREADS, Round, Stack, layout};
use crate::base::clock::Instant;
use crate::base::{futex, scheduling};

/// The most threads that are looked at.
const MAX_TASKS: usize = 512;
/// The most threads that are told of, and frames of each stack.
const MAX_TOLD: usize = 96;
const MAX_FRAMES: usize = 24;
/// Characters of a frame.
const MAX_TEXT: usize = 120;
/// How often stacks are read again that changed while they were read.
const TORN: u32 = 4;

/// A thread of the guest, and what it did between two looks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) tid: u32,
    pub(crate) name: String,
    /// The letter that the kernel gives for its state.
    pub(crate) letter: char,
    /// Where in the kernel it waits, where that may be read.
    pub(crate) waits_in: String,
    pub(crate) state: HostState,
    pub(crate) cpu_ns: u64,
    pub(crate) switches: u64,
    /// Context switches since it began.
    pub(crate) all_switches: u64,
    /// Its stacks are those of the first look. `None`: it has none.
    pub(crate) same_stack: Option<bool>,
    pub(crate) holds_gil: bool,
    /// The thread that holds the GIL while this one waits for it; 0: none.
    pub(crate) gil_holder: u32,
    /// The innermost frame first: `function file:line`.
    pub(crate) python: Vec<String>,
    /// The innermost frame first: `function library`.
    pub(crate) native: Vec<String>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    pub(crate) threads: Vec<Seen>,
    /// Threads that are not told of.
    pub(crate) left_out: u64,
    /// How far apart the looks were, ns; 0: there was one.
    pub(crate) between_ns: u64,
    /// What could not be had, and why.
    pub(crate) notes: Vec<String>,
}

/// Texts of code objects and functions, by number.
#[derive(Default)]
struct Texts(FxHashMap<u32, (String, String, u32, Vec<u8>)>);

impl Texts {
    fn take_in(&mut self, round: &Round) {
        let mut at = 0;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for code in &round.codes {
            let mut next = |length: usize| {
                let bytes = round.bytes.get(at..at + length).unwrap_or_default();
                at += length;
                bytes
            };
            let (name, file) = (text(next(code.name)), text(next(code.file)));
            let table = next(code.table).to_vec();
            self.0.insert(code.id, (name, file, code.first_line, table));
        }
    }

    fn frames(&self, round: &Round, range: &Range<usize>, minor: u32) -> Vec<String> {
        let frames = round.frames.get(range.clone()).unwrap_or_default();
        let shown = frames.iter().take(MAX_FRAMES).filter_map(|&(code, offset)| {
            let (name, file, first_line, table) = self.0.get(&code)?;
            let mut text = format!("{name} {file}");
            if !table.is_empty() {
                text.push_str(&format!(":{}", layout::line(minor, table, *first_line, offset)));
            }
            Some(text.chars().take(MAX_TEXT).collect())
        });
        shown.collect()
    }
}

/// Files of a thread that hold what the first look compares with.
struct Known {
    task: Option<Task>,
    seen: Seen,
    cpu_ns: u64,
    switches: u64,
    /// Its stack changed each time that it was read.
    is_torn: bool,
}

/// Looks, waits until `between` has passed, and looks again. `tell` gets what is known after each step.
///
/// # Errors
/// The program has a seccomp filter, or the thread gets no descriptors of its own.
pub(crate) fn look(
    python: Option<Interpreter>,
    (between, deadline): (Duration, Duration),
    tell: impl Fn(&Look),
) -> Result<(), String> {
    if scheduling::has_filter_of_its_own() {
        return Err("the program has a seccomp filter, which might kill the process for a look at its threads"
            .to_owned());
    }
    let begun = Instant::now();
    let mut found = Look::default();
    if let Err(why @ NoDescriptors::Unknown(_)) = tasks::own_descriptors() {
        return Err(why.to_string());
    }
    scheduling::be_ordinary();
    let mut reader = Reader::open(python, &mut found.notes);
    let mut known = list(&mut found);
    let mut first = reader.read(&mut known, None);
    tell(&with(&found, &known));
    reader.read_natives(&mut known, &mut first, (begun, deadline));
    tell(&with(&found, &known));
    let before: Vec<(Vec<String>, Vec<String>)> =
        known.iter().map(|one| (one.seen.python.clone(), one.seen.native.clone())).collect();
    futex::nap(between.saturating_sub(begun.elapsed()));
    let since = begun.elapsed();
    let mut second = reader.read(&mut known, Some(&mut found.notes));
    reader.read_natives(&mut known, &mut second, (begun, deadline));
    for (one, (python, native)) in known.iter_mut().zip(&before) {
        let seen = &mut one.seen;
        let has_any = !seen.python.is_empty() || !seen.native.is_empty();
        let is_same = !one.is_torn && seen.python == *python && seen.native == *native;
        seen.same_stack = (has_any || one.is_torn).then_some(is_same);
    }
    found.between_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    tell(&with(&found, &known));
    Ok(())
}

/// What is told of the threads: those with a Python stack first, then the others by number.
fn with(found: &Look, known: &[Known]) -> Look {
    let mut threads: Vec<&Known> = known.iter().collect();
    threads.sort_by_key(|one| {
        let seen = &one.seen;
        (seen.tid != std::process::id(), seen.python.is_empty(), seen.native.is_empty(), seen.tid)
    });
    let left_out = found.left_out + threads.len().saturating_sub(MAX_TOLD) as u64;
    let threads = threads.iter().take(MAX_TOLD).map(|one| one.seen.clone()).collect();
    Look { threads, left_out, ..found.clone() }
}

fn list(found: &mut Look) -> Vec<Known> {
    let all = tasks::all();
    found.left_out = all.len().saturating_sub(MAX_TASKS) as u64;
    let known = all.into_iter().take(MAX_TASKS).filter_map(|tid| {
        let name = Task::name(tid).ok()?;
        if OWN_THREADS.contains(&&*name) {
            return None;
        }
        let task = Task::open(tid).ok();
        let cpu_ns = task.as_ref().and_then(|task| task.times().ok()).unwrap_or_default().cpu_ns;
        let (letter, switches) = status(tid);
        let waits_in = fs::read_to_string(format!("/proc/self/task/{tid}/wchan"));
        let waits_in = waits_in.ok().filter(|place| place != "0").unwrap_or_default();
        let seen = Seen { tid, name, letter, waits_in, ..Seen::default() };
        Some(Known { task, seen, cpu_ns, switches, is_torn: false })
    });
    known.collect()
}

/// The state of a thread and its context switches so far.
fn status(tid: u32) -> (char, u64) {
    let status = fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let number = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let letter = field("State:").and_then(|text| text.chars().next()).unwrap_or('?');
    (letter, number("voluntary_ctxt_switches:") + number("nonvoluntary_ctxt_switches:"))
}

struct Reader {
    memory: Option<Memory>,
    natives: Natives,
    python: Option<Python>,
    texts: Texts,
}

impl Reader {
    fn open(interpreter: Option<Interpreter>, notes: &mut Vec<String>) -> Self {
        let mut memory = match Memory::open(true) {
            Ok(memory) => Some(memory),
            Err(error) => {
                notes.push(error.to_string());
                None
            }
        };
        let mut python = None;
        if let (Some(memory), Some(_)) = (&mut memory, interpreter) {
            match super::attach(interpreter, memory) {
                Ok(attached) => python = Some(attached),
                Err(why) => notes.push(why),
            }
        }
        Reader { memory, natives: Natives::default(), python, texts: Texts::default() }
    }

    /// Reads states and Python stacks. Gives where threads wait, for the native stacks.
    fn read(&mut self, known: &mut [Known], notes: Option<&mut Vec<String>>) -> Vec<Waits> {
        let mut round = Round::default();
        if let (Some(memory), Some(python)) = (&mut self.memory, &mut self.python)
            && let Some(note) = read_python(python, memory, &mut round)
            && let Some(notes) = notes
        {
            notes.push(note.to_owned());
        }
        self.texts.take_in(&round);
        let threads = self.python.as_ref().map_or(&[][..], |python| &python.threads);
        let minor = self.python.as_ref().map_or(0, |python| python.layout.minor);
        let mut waits = Vec::new();
        for (index, one) in known.iter_mut().enumerate() {
            let mut of_it = threads.iter().filter(|thread| thread.tid == one.seen.tid);
            let first = of_it.clone().next();
            let thread = of_it.find(|thread| !thread.stack.is_empty()).or(first);
            let nowhere = 0..0;
            let futexes = thread.map_or(&nowhere, |thread| &thread.futexes);
            let seen = &mut one.seen;
            if let Some(task) = &mut one.task {
                match task.state(futexes) {
                    Ok((state, at)) => {
                        seen.state = state;
                        waits.extend(at.map(|at| (index, at)));
                    }
                    // It has ended.
                    Err(_) => seen.letter = 'X',
                }
                let cpu_ns = task.times().unwrap_or_default().cpu_ns;
                seen.cpu_ns = cpu_ns.saturating_sub(one.cpu_ns);
            }
            if seen.letter != 'X' {
                let (letter, switches) = status(seen.tid);
                seen.letter = letter;
                seen.switches = switches.saturating_sub(one.switches);
                seen.all_switches = switches;
            }
            seen.holds_gil = thread.is_some_and(|thread| thread.holds_gil);
            let waits_for_gil = seen.state == HostState::GilWait;
            seen.gil_holder = thread.filter(|_| waits_for_gil).map_or(0, |thread| thread.holder);
            let stack = thread.map(|thread| &thread.stack);
            one.is_torn |= stack == Some(&Stack::Torn);
            (seen.python, seen.native) = match stack {
                Some(Stack::Frames { frames, .. }) => {
                    (self.texts.frames(&round, frames, minor), Vec::new())
                }
                _ => Default::default(),
            };
        }
        waits
    }

    /// Reads the native stacks of threads that wait, until the deadline: the symbols of a large library take
    /// time when they are first read.
    fn read_natives(
        &mut self,
        known: &mut [Known],
        waits: &mut Vec<Waits>,
        (begun, deadline): (Instant, Duration),
    ) {
        let Some(memory) = &mut self.memory else { return };
        // Those with Python code, and the main thread, come first.
        let pid = std::process::id();
        let rank = |one: &Known| (one.seen.tid != pid, one.seen.python.is_empty());
        waits.sort_by_key(|(index, _)| known.get(*index).map(rank));
        for (index, at) in waits.drain(..) {
            let Some(one) = known.get_mut(index) else { continue };
            if begun.elapsed() > deadline {
                return;
            }
            let mut round = Round::default();
            self.natives.walk(at, native::Stack::InMemory, memory, &mut round);
            self.texts.take_in(&round);
            if one.task.as_ref().is_some_and(|task| task.waits_at(at)) {
                let all = 0..round.frames.len();
                one.seen.native = self.texts.frames(&round, &all, 0);
            }
        }
    }
}

/// The index of a thread, and where it waits.
type Waits = (usize, crate::base::call_stacks::Registers);

/// Reads the stacks of all threads of Python. Gives why there are none.
fn read_python(
    python: &mut Python,
    memory: &mut Memory,
    round: &mut Round,
) -> Option<&'static str> {
    for _ in 0..TORN {
        round.frames.clear();
        match python.look(memory, round, (true, |_| true), |_| true) {
            Err(Ended::Finalizing) => {
                return Some("the Python interpreter is finalizing: threads have no Python stacks");
            }
            Err(Ended::Gone) => {
                return Some("the Python interpreter is gone: threads have no Python stacks");
            }
            Err(Ended::Torn) => {}
            Ok(()) => {
                let is_torn = python.threads.iter().any(|thread| thread.stack == Stack::Torn);
                if !is_torn {
                    return None;
                }
            }
        }
    }
    None
}
