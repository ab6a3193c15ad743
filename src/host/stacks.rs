//! One look at the Python threads of this process: who holds the GIL, and the stack of each thread.
//!
//! The interpreter goes on meanwhile. So all that the last look has found is read at once; a stack whose innermost
//! frame is another one afterwards is read once more, and dropped then.

use std::ops::Range;

use super::code::Codes;
use super::layout::{LONGEST, Layout};
use super::memory::Memory;
use super::{Interpreter, Round, Stack};

/// Interpreters and threads that are looked at, and frames of a stack.
const MAX_INTERPRETERS: usize = 64;
pub(super) const MAX_THREADS: usize = 256;
const MAX_FRAMES: usize = 1024;
/// Frames of all stacks of a look.
const MAX_ALL_FRAMES: usize = 16 << 10;
/// Frames with at most so many bytes between them are one window; so many bytes behind the innermost one are read
/// as well, for calls to come.
const GAP: u64 = 768;
const BEHIND: u64 = 512;
const PAGE: u64 = 4096;

/// A thread of an interpreter, and what the last look has found.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// Its state, by address.
    state: u64,
    interpreter: u64,
    gil: u64,
    /// Where the innermost frame was kept.
    innermost_at: u64,
    /// Its frames by address, sorted.
    chain: Vec<u64>,
    /// The kernel's number; 0: not known.
    pub(super) tid: u32,
    /// Where the futexes of its GIL lie.
    pub(super) futexes: Range<u64>,
    pub(super) holds_gil: bool,
    /// The number of the thread that holds the GIL, if another one does; 0: none, or not known.
    pub(super) holder: u32,
    /// What this look has found, if it was asked for.
    pub(super) stack: Stack,
    innermost: u64,
    /// It is of the reads that are checked next.
    is_fresh: bool,
}

/// Nothing more can be read from here on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The interpreter ends.
    Finalizing,
    /// There is no interpreter.
    Gone,
    /// Its lists are not what they should be.
    Torn,
}

#[derive(Debug)]
pub(super) struct Python {
    pub(super) layout: Layout,
    interpreter: Interpreter,
    codes: Codes,
    pub(super) threads: Vec<Thread>,
    /// Bytes between a thread's `pthread_t` and its number in the C library, where only that has it.
    tid_in_pthread: Option<u64>,
    /// More threads than are looked at.
    pub(super) left_out: u64,
}

impl Python {
    pub(super) fn new(layout: Layout, interpreter: Interpreter, memory: &mut Memory) -> Self {
        let tid_in_pthread = if layout.thread.tid.is_none() { find_tid(memory) } else { None };
        Python {
            layout,
            interpreter,
            codes: Codes::default(),
            threads: Vec::with_capacity(MAX_THREADS),
            tid_in_pthread,
            left_out: 0,
        }
    }

    /// Looks at all threads, and at the stacks of those that are `due`.
    ///
    /// # Errors
    /// There is nothing to look at, or not now.
    pub(super) fn look(
        &mut self,
        memory: &mut Memory,
        round: &mut Round,
        due: impl Fn(u32) -> bool,
    ) -> Result<(), Ended> {
        self.codes.make_room(round);
        memory.clear();
        self.want_lists(memory);
        for thread in self.threads.iter().filter(|thread| due(thread.tid)) {
            want_frames(thread, &self.layout, memory);
        }
        memory.fill();
        let generation = self.find_threads(memory)?;
        self.codes.begin(generation);
        self.find_holders(memory);
        for thread in &mut self.threads {
            thread.stack = Stack::None;
        }
        self.read_stacks(memory, round, |thread| due(thread.tid));
        // Once more: short calls come and go.
        let is_lost = |thread: &Thread| matches!(thread.stack, Stack::Torn | Stack::Unreadable);
        if self.threads.iter().any(is_lost) {
            memory.clear();
            for thread in self.threads.iter().filter(|thread| is_lost(thread)) {
                self.want_thread(thread, memory);
                want_frames(thread, &self.layout, memory);
            }
            memory.fill();
            self.read_stacks(memory, round, is_lost);
        }
        Ok(())
    }

    /// Whether what the layout says leads where it should: the innermost frame of some thread is one of Python.
    pub(super) fn verify(&mut self, memory: &mut Memory, round: &mut Round) -> bool {
        let found = self.look(memory, round, |_| true).is_ok()
            && self.threads.iter().any(|thread| matches!(thread.stack, Stack::Frames { .. }));
        round.clear();
        // What was read is told again when it is met again.
        self.codes = Codes::default();
        found
    }

    fn want_lists(&self, memory: &mut Memory) {
        let Layout { runtime, interpreter, gil, .. } = &self.layout;
        let of_runtime = [runtime.head, runtime.finalizing];
        of_runtime
            .iter()
            .for_each(|field| memory.want(self.interpreter.runtime.wrapping_add(*field), 8));
        let (mut last_interpreter, mut last_gil) = (0, 0);
        for thread in &self.threads {
            if std::mem::replace(&mut last_interpreter, thread.interpreter) != thread.interpreter {
                let fields = [Some(interpreter.next), Some(interpreter.threads), interpreter.gil];
                for field in fields.into_iter().flatten().chain(interpreter.code_generation) {
                    memory.want(thread.interpreter.wrapping_add(field), 8);
                }
            }
            if std::mem::replace(&mut last_gil, thread.gil) != thread.gil {
                memory.want(thread.gil.wrapping_add(gil.holder.min(gil.locked)), 16);
            }
            self.want_thread(thread, memory);
        }
    }

    fn want_thread(&self, thread: &Thread, memory: &mut Memory) {
        memory.want(thread.state, self.layout.thread.bytes());
        if self.layout.thread.behind.is_some() {
            memory.want(thread.innermost_at, 8);
        }
    }

    /// Walks the lists. Gives how many code objects have gone, where the interpreter counts that.
    fn find_threads(&mut self, memory: &mut Memory) -> Result<u64, Ended> {
        let Layout { runtime, interpreter, thread: layout, gil, .. } = self.layout;
        let base = self.interpreter.runtime;
        let at =
            |memory: &mut Memory, base: u64, field: u64| memory.number(base.wrapping_add(field));
        if at(memory, base, runtime.finalizing).ok_or(Ended::Gone)? != 0 {
            return Err(Ended::Finalizing);
        }
        let mut here =
            at(memory, base, runtime.head).filter(|head| *head != 0).ok_or(Ended::Gone)?;
        let (mut count, mut generation, mut left_out) = (0, 0_u64, 0);
        let mut interpreters = 0;
        while here != 0 && interpreters < MAX_INTERPRETERS {
            interpreters += 1;
            let own_gil = match interpreter.gil {
                Some(field) => at(memory, here, field).ok_or(Ended::Torn)?,
                None => base,
            };
            if let Some(field) = interpreter.code_generation {
                generation = generation.wrapping_add(at(memory, here, field).unwrap_or(0));
            }
            let mut state = at(memory, here, interpreter.threads).ok_or(Ended::Torn)?;
            let mut walked = 0;
            while state != 0 {
                walked += 1;
                // A list that forms a circle, or has far more threads than any process.
                if walked > 16 * MAX_THREADS || at(memory, state, layout.interpreter) != Some(here)
                {
                    return Err(Ended::Torn);
                }
                if count < MAX_THREADS {
                    self.place(count, state);
                    let tid = self.tid(state, memory);
                    let thread = &mut self.threads[count];
                    (thread.interpreter, thread.gil, thread.tid) = (here, own_gil, tid);
                    let begin = if interpreter.gil.is_some() { own_gil } else { base };
                    thread.futexes = begin..begin.saturating_add(gil.bytes);
                    count += 1;
                } else {
                    left_out += 1;
                }
                state = at(memory, state, layout.next).ok_or(Ended::Torn)?;
            }
            here = at(memory, here, interpreter.next).ok_or(Ended::Torn)?;
        }
        self.threads.truncate(count);
        self.left_out = left_out;
        Ok(generation)
    }

    /// Puts the thread with this state at this place of the list, with what is known of it.
    fn place(&mut self, index: usize, state: u64) {
        let known = self.threads.get(index..).unwrap_or_default();
        match known.iter().position(|thread| thread.state == state) {
            Some(0) => {}
            Some(behind) => self.threads.swap(index, index + behind),
            None => self.threads.insert(index, Thread { state, ..Thread::default() }),
        }
    }

    fn tid(&self, state: u64, memory: &mut Memory) -> u32 {
        let layout = &self.layout.thread;
        let tid = match layout.tid {
            Some(field) => memory.number(state.wrapping_add(field)).map(|tid| tid as u32),
            None => {
                let pthread = memory.number(state.wrapping_add(layout.pthread));
                let at = pthread.filter(|pthread| *pthread != 0).zip(self.tid_in_pthread);
                at.and_then(|(pthread, field)| memory.small_number(pthread.wrapping_add(field)))
            }
        };
        tid.unwrap_or(0)
    }

    fn find_holders(&mut self, memory: &mut Memory) {
        let gil = self.layout.gil;
        for index in 0..self.threads.len() {
            let base = self.threads[index].gil;
            let locked = memory.small_number(base.wrapping_add(gil.locked)) == Some(1);
            let holder =
                memory.number(base.wrapping_add(gil.holder)).filter(|_| locked).unwrap_or(0);
            let holder_tid = self.threads.iter().find(|thread| thread.state == holder);
            let holder_tid = holder_tid.map_or(0, |thread| thread.tid);
            let thread = &mut self.threads[index];
            thread.holds_gil = holder != 0 && holder == thread.state;
            thread.holder = if thread.holds_gil { 0 } else { holder_tid };
        }
    }

    fn read_stacks(
        &mut self,
        memory: &mut Memory,
        round: &mut Round,
        wanted: impl Fn(&Thread) -> bool,
    ) {
        let (layout, interpreter) = (&self.layout, &self.interpreter);
        for thread in self.threads.iter_mut().filter(|thread| wanted(thread)) {
            let begin = round.frames.len();
            thread.chain.clear();
            let frames = thread.walk((layout, interpreter), &mut self.codes, memory, round);
            thread.chain.sort_unstable();
            thread.is_fresh = frames.is_some();
            thread.stack = frames.map_or(Stack::Unreadable, |is_cut| Stack::Frames {
                frames: begin..round.frames.len(),
                is_cut,
            });
            if frames.is_none() {
                round.frames.truncate(begin);
            }
        }
        // Did an innermost frame move meanwhile? All are read at once, past the windows.
        memory.clear();
        let fresh = self.threads.iter().filter(|thread| thread.is_fresh);
        fresh.for_each(|thread| memory.want(thread.innermost_at, 8));
        memory.fill();
        for thread in self.threads.iter_mut().filter(|thread| thread.is_fresh) {
            thread.is_fresh = false;
            if memory.number(thread.innermost_at) != Some(thread.innermost) {
                thread.stack = Stack::Torn;
            }
        }
    }
}

impl Thread {
    /// Appends the frames of the thread, the innermost first. Tells whether there were more than are kept;
    /// `None`: they are not what frames are.
    fn walk(
        &mut self,
        python: (&Layout, &Interpreter),
        codes: &mut Codes,
        memory: &mut Memory,
        round: &mut Round,
    ) -> Option<bool> {
        let layout = python.0;
        self.innermost_at = self.state.wrapping_add(layout.thread.frame);
        if let Some(behind) = layout.thread.behind {
            self.innermost_at = memory.number(self.innermost_at)?.wrapping_add(behind);
        }
        let mut at = memory.number(self.innermost_at)?;
        self.innermost = at;
        while at != 0 {
            if self.chain.len() >= MAX_FRAMES {
                // Deep, or a circle.
                return (!self.chain.contains(&at)).then_some(true);
            }
            if round.frames.len() >= MAX_ALL_FRAMES {
                return Some(true);
            }
            self.chain.push(at);
            let mut bytes = [0; LONGEST as usize];
            let bytes = bytes.get_mut(..layout.frame.bytes as usize)?;
            memory.get(at, bytes).then_some(())?;
            let field = |field: u64| -> Option<u64> {
                let bytes = bytes.get(field as usize..)?.first_chunk()?;
                Some(u64::from_le_bytes(*bytes))
            };
            let owner = layout.frame.owner.and_then(|owner| bytes.get(owner as usize)).copied();
            if layout.is_python_frame(owner.unwrap_or(0)) {
                // 3.14 and later keep a mark in the lowest bits of the pointer.
                let code = field(layout.frame.code)? & !3;
                let id = codes.find(code, python, memory, round)?;
                let instruction = field(layout.frame.instruction)?;
                let offset = match layout.code.instructions {
                    Some(first) => instruction.wrapping_sub(code).wrapping_sub(first) as i32,
                    None => (instruction as i32).wrapping_mul(2),
                };
                round.frames.push((id, offset));
            }
            at = field(layout.frame.previous)?;
        }
        Some(false)
    }
}

/// Frames that lie near each other are read in one piece.
fn want_frames(thread: &Thread, layout: &Layout, memory: &mut Memory) {
    let bytes = layout.frame.bytes;
    let mut frames = thread.chain.iter().copied().peekable();
    while let Some(start) = frames.next() {
        let mut end = start.saturating_add(bytes);
        while let Some(next) = frames.next_if(|next| *next < end.saturating_add(GAP)) {
            end = next.saturating_add(bytes);
        }
        // Frames of 3.11 and later lie one behind the other.
        if frames.peek().is_none() && layout.minor > 10 {
            end = end.saturating_add(BEHIND).min(end.checked_next_multiple_of(PAGE).unwrap_or(end));
        }
        memory.want(start, end - start);
    }
}

/// Where in a `pthread_t` the C library keeps the kernel's number of the thread.
fn find_tid(memory: &mut Memory) -> Option<u64> {
    const PTHREAD_BYTES: u64 = 2304;
    let own = crate::base::generation::thread_id() as u32;
    // SAFETY: no preconditions.
    let start = unsafe { libc::pthread_self() } as u64;
    (0..PTHREAD_BYTES).step_by(4).find(|field| memory.small_number(start + field) == Some(own))
}
