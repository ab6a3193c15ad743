//! Reads the Python threads of this process: which thread holds the GIL, and the stack of each thread.
//!
//! The interpreter keeps running meanwhile. So one call reads everything that the last round found. If the
//! innermost frame of a stack has changed afterwards, the stack is read once more, and dropped if it changes
//! again.

use std::ops::Range;

use super::code::Codes;
use super::layout::{LONGEST, Layout};
use super::memory::Memory;
use super::{Interpreter, Round, Stack};

/// The most interpreters and threads that are read, and the most frames of a stack.
const MAX_INTERPRETERS: usize = 64;
pub(super) const MAX_THREADS: usize = 256;
const MAX_FRAMES: usize = 1024;
/// The most threads in the lists of a process.
const MAX_LISTED: usize = 4096;
/// With more threads than this, only a full look walks the lists: each thread costs a third of a microsecond.
const MANY: usize = 64;
/// The most frames of all stacks of a round.
const MAX_ALL_FRAMES: usize = 16 << 10;
/// Frames with at most `GAP` bytes between them share a window. `BEHIND` bytes past the innermost frame are
/// read as well, because the next calls put their frames there.
const GAP: u64 = 768;
const BEHIND: u64 = 512;
const PAGE: u64 = 4096;

/// A thread of an interpreter, with what the last round found.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// Address of its thread state.
    state: u64,
    interpreter: u64,
    gil: u64,
    /// Address of the pointer to the innermost frame.
    innermost_at: u64,
    /// Address of its thread ID; 0: not known, or the ID is in its state.
    tid_at: u64,
    /// Addresses of its frames, the outermost first.
    chain: Vec<u64>,
    /// The thread ID of the kernel; 0: not known.
    pub(super) tid: u32,
    /// The addresses of the futexes of its GIL.
    pub(super) futexes: Range<u64>,
    pub(super) holds_gil: bool,
    /// The ID of the thread that holds the GIL, if another one does; 0: none, or not known.
    pub(super) holder: u32,
    is_due: bool,
    /// Its stack in this round, if it was due.
    pub(super) stack: Stack,
    innermost: u64,
    /// Its stack was just read, and is to be checked.
    is_fresh: bool,
}

/// A thread in the interpreter's lists.
struct Listed {
    state: u64,
    interpreter: u64,
    gil: u64,
    tid: u32,
    tid_at: u64,
}

/// Why the threads cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The interpreter is finalizing.
    Finalizing,
    /// There is no interpreter.
    Gone,
    /// Its lists of threads are inconsistent.
    Torn,
}

#[derive(Debug)]
pub(super) struct Python {
    pub(super) layout: Layout,
    interpreter: Interpreter,
    codes: Codes,
    pub(super) threads: Vec<Thread>,
    /// Offset of the thread ID in the C library's `pthread_t`, for versions of CPython that do not store the
    /// ID, or store that of the parent in a forked child (3.11.0 and 3.11.1).
    tid_in_pthread: Option<u64>,
    /// Threads beyond the limit.
    pub(super) left_out: u64,
}

impl Python {
    pub(super) fn new(layout: Layout, interpreter: Interpreter, memory: &mut Memory) -> Self {
        let tid_in_pthread = if layout.minor < 12 { find_tid(memory) } else { None };
        Python {
            layout,
            interpreter,
            codes: Codes::default(),
            threads: Vec::with_capacity(MAX_THREADS),
            tid_in_pthread,
            left_out: 0,
        }
    }

    /// Reads the stacks of the threads that are `due`. A look that `is_full`, and any look at few threads, walks the
    /// lists of threads first. If these are too long, the threads that it `keeps` come first.
    ///
    /// # Errors
    /// The interpreter has ended, or its lists of threads are inconsistent at the moment.
    pub(super) fn look(
        &mut self,
        memory: &mut Memory,
        round: &mut Round,
        (is_full, keeps): (bool, impl Fn(u32) -> bool),
        due: impl Fn(u32) -> bool,
    ) -> Result<(), Ended> {
        self.codes.make_room(round);
        let walks = is_full || self.threads.len() <= MANY;
        self.threads.iter_mut().for_each(|thread| thread.is_due = due(thread.tid));
        memory.clear();
        self.want_lists(walks, memory);
        for thread in self.threads.iter().filter(|thread| thread.is_due) {
            want_frames(thread, &self.layout, memory);
        }
        memory.fill();
        let generation =
            if walks { self.find_threads(memory, keeps) } else { self.check_threads(memory) }?;
        self.codes.begin(generation);
        self.find_holders(memory);
        for thread in &mut self.threads {
            (thread.stack, thread.is_due) = (Stack::None, due(thread.tid));
        }
        self.read_stacks(memory, round, |thread| thread.is_due);
        // Read these once more: most of them changed because a short call began or returned.
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

    /// Code object and offset of the instruction of a frame that a thread has read itself.
    pub(super) fn frame(
        &mut self,
        told: (u64, u64),
        memory: &mut Memory,
        round: &mut Round,
    ) -> Option<(u32, i32)> {
        frame(told, None, (&self.layout, &self.interpreter), &mut self.codes, memory, round)
    }

    /// Whether what the layout says leads where it should: the innermost frame of some thread is one of Python.
    pub(super) fn verify(&mut self, memory: &mut Memory) -> bool {
        let found = self.look(memory, &mut Round::default(), (true, |_| true), |_| true).is_ok()
            && self.threads.iter().any(|thread| matches!(thread.stack, Stack::Frames { .. }));
        // The code objects that were just read have to be reported in a later round.
        self.codes = Codes::default();
        found
    }

    /// `walks`: all threads will be read; otherwise those that are due.
    fn want_lists(&self, walks: bool, memory: &mut Memory) {
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
            if walks || thread.is_due {
                self.want_thread(thread, memory);
            }
        }
    }

    fn want_thread(&self, thread: &Thread, memory: &mut Memory) {
        memory.want(thread.state, self.layout.thread.bytes());
        if self.layout.thread.behind.is_some() {
            memory.want(thread.innermost_at, 8);
        }
        if thread.tid_at != 0 {
            memory.want(thread.tid_at, 4);
        }
    }

    /// The first interpreter.
    fn head(&self, memory: &mut Memory) -> Result<u64, Ended> {
        let (base, runtime) = (self.interpreter.runtime, self.layout.runtime);
        let mut at = |field: u64| memory.number(base.wrapping_add(field)).ok_or(Ended::Gone);
        if at(runtime.finalizing)? != 0 {
            return Err(Ended::Finalizing);
        }
        Some(at(runtime.head)?).filter(|head| *head != 0).ok_or(Ended::Gone)
    }

    /// The code generation of an interpreter; 0 if the version has none.
    fn generation(&self, interpreter: u64, memory: &mut Memory) -> u64 {
        let field = self.layout.interpreter.code_generation;
        field.and_then(|field| memory.number(interpreter.wrapping_add(field))).unwrap_or(0)
    }

    /// Walks the lists of interpreters and threads. Returns the code generation.
    fn find_threads(
        &mut self,
        memory: &mut Memory,
        keeps: impl Fn(u32) -> bool,
    ) -> Result<u64, Ended> {
        let interpreter = self.layout.interpreter;
        let at = |memory: &mut Memory, base: u64, field: u64| {
            memory.number(base.wrapping_add(field)).ok_or(Ended::Torn)
        };
        let mut here = self.head(memory)?;
        let (mut listed, mut generation, mut interpreters) = (Vec::new(), 0_u64, 0);
        while here != 0 && interpreters < MAX_INTERPRETERS {
            interpreters += 1;
            let gil = match interpreter.gil {
                Some(field) => at(memory, here, field)?,
                None => self.interpreter.runtime,
            };
            generation = generation.wrapping_add(self.generation(here, memory));
            let mut state = at(memory, here, interpreter.threads)?;
            while state != 0 {
                // The list has a cycle, or far more threads than any process.
                if listed.len() >= MAX_LISTED {
                    return Err(Ended::Torn);
                }
                let (thread, next) = self.listed(state, memory).ok_or(Ended::Torn)?;
                if thread.interpreter != here {
                    return Err(Ended::Torn);
                }
                listed.push(Listed { gil, ..thread });
                state = next;
            }
            here = at(memory, here, interpreter.next)?;
        }
        self.left_out = listed.len().saturating_sub(MAX_THREADS) as u64;
        if self.left_out > 0 {
            // New threads come first in the list, and the main thread last.
            listed.sort_by_key(|thread| !keeps(thread.tid));
            listed.truncate(MAX_THREADS);
        }
        for (index, found) in listed.iter().enumerate() {
            self.place(index, found.state);
            let thread = &mut self.threads[index];
            (thread.interpreter, thread.gil) = (found.interpreter, found.gil);
            (thread.tid, thread.tid_at) = (found.tid, found.tid_at);
            thread.futexes = found.gil..found.gil.saturating_add(self.layout.gil.bytes);
        }
        self.threads.truncate(listed.len());
        Ok(generation)
    }

    /// Checks the threads that are due, and removes those that no longer exist. Returns the code generation of the
    /// interpreters that have threads.
    fn check_threads(&mut self, memory: &mut Memory) -> Result<u64, Ended> {
        self.head(memory)?;
        let (mut generation, mut last) = (0_u64, 0);
        let mut threads = std::mem::take(&mut self.threads);
        threads.retain(|thread| {
            if std::mem::replace(&mut last, thread.interpreter) != thread.interpreter {
                generation = generation.wrapping_add(self.generation(thread.interpreter, memory));
            }
            let is_it = |(listed, _): (Listed, u64)| {
                listed.interpreter == thread.interpreter && listed.tid == thread.tid
            };
            !thread.is_due || self.listed(thread.state, memory).is_some_and(is_it)
        });
        self.threads = threads;
        Ok(generation)
    }

    /// The thread with this state, and the state behind it in the list.
    fn listed(&self, state: u64, memory: &mut Memory) -> Option<(Listed, u64)> {
        let layout = &self.layout.thread;
        let mut bytes = [0; LONGEST as usize];
        let bytes = bytes.get_mut(..layout.bytes() as usize)?;
        memory.get(state, bytes).then_some(())?;
        let field = |field: u64| -> Option<u64> {
            let bytes = bytes.get(field as usize..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let (mut tid, mut tid_at) = (layout.tid.map_or(Some(0), field)? as u32, 0);
        if let Some(in_pthread) = self.tid_in_pthread {
            let pthread = field(layout.pthread)?;
            tid_at = if pthread == 0 { 0 } else { pthread.wrapping_add(in_pthread) };
            tid = memory.small_number(tid_at).unwrap_or(0);
        }
        let interpreter = field(layout.interpreter)?;
        Some((Listed { state, interpreter, gil: 0, tid, tid_at }, field(layout.next)?))
    }

    /// Moves the thread with this state to this index of the list, or inserts it there.
    fn place(&mut self, index: usize, state: u64) {
        let known = self.threads.get(index..).unwrap_or_default();
        match known.iter().position(|thread| thread.state == state) {
            Some(0) => {}
            Some(behind) => self.threads.swap(index, index + behind),
            None => self.threads.insert(index, Thread { state, ..Thread::default() }),
        }
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
            // The outermost frame first: from 3.11 on, this is the order in memory.
            thread.chain.reverse();
            thread.is_fresh = frames.is_some();
            thread.stack = frames.map_or(Stack::Unreadable, |is_cut| Stack::Frames {
                frames: begin..round.frames.len(),
                is_cut,
            });
            if frames.is_none() {
                round.frames.truncate(begin);
            }
        }
        // Has an innermost frame changed meanwhile? One call reads them all anew.
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
    /// The address of its state.
    pub(super) fn state(&self) -> u64 {
        self.state
    }

    /// It runs code of Python, as far as this look has found.
    pub(super) fn has_frames(&self) -> bool {
        !self.stack.is_empty()
    }

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
                // The stack is deep, or the list has a cycle.
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
                let told = (field(layout.frame.code)?, field(layout.frame.instruction)?);
                let code_at = at.wrapping_add(layout.frame.code);
                let frame = frame(told, Some(code_at), python, codes, memory, round)?;
                round.frames.push(frame);
            }
            at = field(layout.frame.previous)?;
        }
        Some(false)
    }
}

/// Code object and offset of the instruction of a frame that keeps these two values, the first one at `code_at`.
fn frame(
    (pointer, instruction): (u64, u64),
    code_at: Option<u64>,
    python: (&Layout, &Interpreter),
    codes: &mut Codes,
    memory: &mut Memory,
    round: &mut Round,
) -> Option<(u32, i32)> {
    // 3.14 and later keep a mark in the lowest bits of the pointer.
    let code = pointer & !3;
    let held = code_at.map(|at| (at, pointer));
    let id = codes.find(code, held, python, memory, round)?;
    let offset = match python.0.code.instructions {
        Some(first) => instruction.wrapping_sub(code).wrapping_sub(first) as i32,
        None => (instruction as i32).wrapping_mul(2),
    };
    Some((id, offset))
}

/// Frames that lie near each other are read in one piece.
fn want_frames(thread: &Thread, layout: &Layout, memory: &mut Memory) {
    let bytes = layout.frame.bytes;
    let mut frames = thread.chain.iter().copied().peekable();
    while let Some(start) = frames.next() {
        let mut end = start.saturating_add(bytes);
        while let Some(next) =
            frames.next_if(|next| (start..end.saturating_add(GAP)).contains(next))
        {
            end = end.max(next.saturating_add(bytes));
        }
        // Frames of 3.11 and later are contiguous.
        if frames.peek().is_none() && layout.minor > 10 {
            end = end.saturating_add(BEHIND).min(end.checked_next_multiple_of(PAGE).unwrap_or(end));
        }
        memory.want(start, end - start);
    }
}

/// Finds the offset in a `pthread_t` at which the C library stores the thread ID of the kernel.
fn find_tid(memory: &mut Memory) -> Option<u64> {
    const PTHREAD_BYTES: u64 = 2304;
    let own = crate::base::generation::thread_id() as u32;
    // SAFETY: no preconditions.
    let start = unsafe { libc::pthread_self() } as u64;
    (0..PTHREAD_BYTES).step_by(4).find(|field| memory.small_number(start + field) == Some(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::layout::TOLD;

    const CODE_TYPE: u64 = 0xc0de;
    const TEXT_TYPE: u64 = 0x7e87;
    /// A full look that prefers no threads.
    const ALL: (bool, fn(u32) -> bool) = (true, |_| false);

    /// An interpreter in the layout of 3.12, in words.
    struct Fake {
        words: Vec<u64>,
        next: usize,
        /// Indices of the states of its threads, and of their frames.
        threads: Vec<usize>,
        frames: Vec<usize>,
    }

    const RUNTIME: usize = 0;
    const INTERPRETER: usize = 8;
    const GIL: usize = 64;

    impl Fake {
        /// Creates threads with these numbers of frames.
        fn new(depths: &[usize]) -> Self {
            let all = depths.iter().sum::<usize>();
            let words = vec![0; 256 + depths.len() * 32 + all * 10];
            let mut fake = Fake { words, next: 128, threads: Vec::new(), frames: Vec::new() };
            let text = fake.put(&[1, TEXT_TYPE, 1, 0, 1 << 2 | 0x60, u64::from(b'f')]);
            let table = fake.put(&[1, 0, 1, 0, 0x80]);
            let mut code = vec![0; 18];
            (code[1], code[8]) = (CODE_TYPE, 7 << 32);
            (code[16], code[14], code[17]) = (fake.at(text), fake.at(text), fake.at(table));
            let code = fake.put(&code);
            fake.words[RUNTIME + 5] = fake.at(INTERPRETER);
            fake.words[INTERPRETER + 48] = fake.at(GIL);
            fake.words[GIL + 2] = 1;
            let mut link = INTERPRETER + 9;
            for (index, depth) in depths.iter().enumerate() {
                let state = fake.put(&[0; 20]);
                fake.threads.push(state);
                fake.words[link] = fake.at(state);
                link = state + 1;
                fake.words[state + 2] = fake.at(INTERPRETER);
                fake.words[state + 18] = index as u64 + 1;
                let behind = fake.put(&[0]);
                fake.words[state + 7] = fake.at(behind);
                let mut link = behind;
                for _ in 0..*depth {
                    let instruction = fake.at(code) + 192;
                    let frame = fake.put(&[fake.at(code), 0, 0, 0, 0, 0, 0, instruction, 0]);
                    fake.frames.push(frame);
                    fake.words[link] = fake.at(frame);
                    link = frame + 1;
                }
            }
            fake.words[GIL + 1] = fake.threads.first().map_or(0, |state| fake.at(*state));
            fake
        }

        fn put(&mut self, words: &[u64]) -> usize {
            let at = self.next;
            self.next += words.len();
            self.words[at..self.next].copy_from_slice(words);
            at
        }

        fn at(&self, index: usize) -> u64 {
            self.words.as_ptr() as u64 + 8 * index as u64
        }

        fn python(&self, memory: &mut Memory) -> Python {
            let layout = Layout::find(&[0; TOLD], 0x030c_0000).expect("3.12");
            let interpreter = Interpreter {
                runtime: self.at(RUNTIME),
                code_type: CODE_TYPE,
                text_type: TEXT_TYPE,
                version: 0,
            };
            Python::new(layout, interpreter, memory)
        }
    }

    fn look(fake: &Fake, times: usize) -> (Result<(), Ended>, Python, Round) {
        let mut memory = Memory::open(false).expect("own memory");
        let mut python = fake.python(&mut memory);
        let mut round = Round::default();
        let mut result = Ok(());
        for _ in 0..times {
            round.clear();
            result = python.look(&mut memory, &mut round, ALL, |_| true);
        }
        (result, python, round)
    }

    fn depth(thread: &Thread) -> Option<(usize, bool)> {
        match &thread.stack {
            Stack::Frames { frames, is_cut } => Some((frames.len(), *is_cut)),
            _ => None,
        }
    }

    #[test]
    fn stacks_of_all_threads_are_read_with_windows_and_without() {
        let fake = Fake::new(&[3, 0, 40]);
        for times in [1, 2, 3] {
            let (result, python, round) = look(&fake, times);
            assert_eq!(result, Ok(()));
            let found: Vec<_> = python
                .threads
                .iter()
                .map(|of| (of.tid, depth(of), of.holds_gil, of.holder))
                .collect();
            let expected = [
                (1, Some((3, false)), true, 0),
                (2, Some((0, false)), false, 1),
                (3, Some((40, false)), false, 1),
            ];
            assert_eq!(found, expected);
            assert_eq!(round.frames.len(), 43);
            assert!(round.frames.iter().all(|frame| *frame == (1, 0)));
            assert_eq!(python.threads[0].futexes.start, fake.at(GIL));
        }
    }

    #[test]
    fn only_what_is_due_is_read() {
        let fake = Fake::new(&[3, 5]);
        let mut memory = Memory::open(false).expect("own memory");
        let (mut python, mut round) = (fake.python(&mut memory), Round::default());
        assert_eq!(python.look(&mut memory, &mut round, ALL, |tid| tid == 2), Ok(()));
        let depths: Vec<_> = python.threads.iter().map(depth).collect();
        assert_eq!(depths, [None, Some((5, false))]);
    }

    #[test]
    fn circles_end_and_deep_stacks_are_cut() {
        let mut fake = Fake::new(&[4, 2_000]);
        let back = fake.at(fake.frames[1]);
        let last = fake.frames[3];
        fake.words[last + 1] = back;
        let (result, python, round) = look(&fake, 2);
        assert_eq!((result, &python.threads[0].stack), (Ok(()), &Stack::Unreadable));
        assert_eq!(depth(&python.threads[1]), Some((MAX_FRAMES, true)));
        assert_eq!(round.frames.len(), MAX_FRAMES);
        // A list of threads with a cycle.
        let back = fake.at(fake.threads[0]);
        let last = fake.threads[1];
        fake.words[last + 1] = back;
        assert_eq!(look(&fake, 1).0, Err(Ended::Torn));
    }

    #[test]
    fn all_frames_of_a_look_have_a_bound_and_so_have_threads() {
        let (result, _, round) = look(&Fake::new(&[1_000; 40]), 1);
        assert_eq!(result, Ok(()));
        assert_eq!(round.frames.len(), MAX_ALL_FRAMES);
        let (result, python, _) = look(&Fake::new(&[1; 300]), 2);
        assert_eq!((result, python.threads.len(), python.left_out), (Ok(()), MAX_THREADS, 44));
    }

    #[test]
    fn an_interpreter_that_ends_or_is_not_there_is_left_alone() {
        let mut fake = Fake::new(&[3]);
        fake.words[RUNTIME + 3] = 1;
        assert_eq!(look(&fake, 1).0, Err(Ended::Finalizing));
        (fake.words[RUNTIME + 3], fake.words[RUNTIME + 5]) = (0, 0);
        assert_eq!(look(&fake, 1).0, Err(Ended::Gone));
        fake.words[RUNTIME + 5] = 8;
        assert_eq!(look(&fake, 1).0, Err(Ended::Torn));
        let mut memory = Memory::open(false).expect("own memory");
        assert!(!fake.python(&mut memory).verify(&mut memory));
        let fake = Fake::new(&[3]);
        let (mut python, mut round) = (fake.python(&mut memory), Round::default());
        assert!(python.verify(&mut memory));
        assert_eq!(python.look(&mut memory, &mut round, ALL, |_| true), Ok(()));
        assert_eq!(round.codes.len(), 1, "verify does not keep code objects from the rounds");
    }

    #[test]
    fn threads_that_come_and_go_keep_what_is_known_of_the_others() {
        let mut fake = Fake::new(&[1, 2, 3]);
        let mut memory = Memory::open(false).expect("own memory");
        let (mut python, mut round) = (fake.python(&mut memory), Round::default());
        let mut tids = |fake: &Fake| {
            std::hint::black_box(&fake.words);
            assert_eq!(python.look(&mut memory, &mut round, ALL, |_| true), Ok(()));
            let of = |thread: &Thread| (thread.tid, depth(thread).map(|(depth, _)| depth));
            python.threads.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(tids(&fake), [(1, Some(1)), (2, Some(2)), (3, Some(3))]);
        let [first, second, third] = [0, 1, 2].map(|index| fake.threads[index]);
        let (second_at, third_at) = (fake.at(second), fake.at(third));
        fake.words[first + 1] = third_at;
        assert_eq!(tids(&fake), [(1, Some(1)), (3, Some(3))]);
        fake.words[first + 1] = 0;
        fake.words[second + 1] = fake.at(first);
        fake.words[INTERPRETER + 9] = second_at;
        assert_eq!(tids(&fake), [(2, Some(2)), (1, Some(1))]);
    }

    /// The main thread is the last one of the list. Between full looks, only those that are due are read.
    #[test]
    fn of_too_many_threads_those_that_are_kept_are_read() {
        let mut fake = Fake::new(&[1; 300]);
        let mut memory = Memory::open(false).expect("own memory");
        let (mut python, mut round) = (fake.python(&mut memory), Round::default());
        let keeps = |tid| tid > 298;
        let of = |python: &Python, tid| {
            let mut threads = python.threads.iter().filter(|thread| thread.tid == tid);
            threads.next().map(|thread| depth(thread).is_some())
        };
        assert_eq!(python.look(&mut memory, &mut round, (true, keeps), |tid| tid == 300), Ok(()));
        assert_eq!(
            (of(&python, 300), of(&python, 299), of(&python, 254)),
            (Some(true), Some(false), Some(false))
        );
        assert_eq!((of(&python, 255), python.left_out), (None, 44));
        // Another thread takes the state of one that ended.
        let last = fake.threads[299];
        fake.words[last + 18] = 301;
        std::hint::black_box(&fake.words);
        round.clear();
        assert_eq!(python.look(&mut memory, &mut round, (false, keeps), |tid| tid > 298), Ok(()));
        assert_eq!(
            (of(&python, 300), of(&python, 299), of(&python, 301)),
            (None, Some(true), None)
        );
        assert_eq!(python.look(&mut memory, &mut round, (true, keeps), |tid| tid > 298), Ok(()));
        assert_eq!((of(&python, 301), python.threads.len()), (Some(true), MAX_THREADS));
        fake.words[RUNTIME + 3] = 1;
        std::hint::black_box(&fake.words);
        let looked = python.look(&mut memory, &mut round, (false, keeps), |_| true);
        assert_eq!(looked, Err(Ended::Finalizing));
    }

    /// Overwrites random words while they are read.
    #[test]
    fn whatever_the_memory_holds_a_look_ends_and_stays_bounded() {
        let sound = Fake::new(&[3, 12, 1, 30]);
        let mut memory = Memory::open(false).expect("own memory");
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize
        };
        let mut found = 0;
        for _ in 0..2_000 {
            // Of so many threads, the second look reads those that are due alone.
            let depths = if random() % 4 == 0 { &[1; MANY + 6][..] } else { &[3, 12, 1, 30] };
            let mut fake = Fake::new(depths);
            let used = fake.next;
            let mut python = fake.python(&mut memory);
            let mut round = Round::default();
            for is_full in [true, false] {
                for _ in 0..random() % 4 {
                    let (to, from) = (random() % used, random() % used);
                    fake.words[to] = match random() % 4 {
                        0 => fake.at(from),
                        1 => fake.words[from],
                        2 => (random() as u64) << (random() % 40),
                        _ => u64::MAX - random() as u64 % 64,
                    };
                }
                std::hint::black_box(&fake.words);
                round.clear();
                let keeps = |tid| tid % 2 == 0;
                let looked = python.look(&mut memory, &mut round, (is_full, keeps), |_| true);
                assert!(
                    round.frames.len() <= MAX_ALL_FRAMES && python.threads.len() <= MAX_THREADS
                );
                let in_round = |thread: &Thread| match &thread.stack {
                    Stack::Frames { frames, .. } => frames.end <= round.frames.len(),
                    _ => true,
                };
                assert!(looked.is_err() || python.threads.iter().all(in_round));
                found += usize::from(looked.is_ok());
            }
        }
        assert!(found > 1_000, "{found}: most of what is overwritten matters to no list");
        assert_eq!(look(&sound, 1).0, Ok(()));
    }
}
