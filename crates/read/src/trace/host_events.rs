//! Samples of the host's threads and calls that may wait -> events, under the names that reports use.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use stage2_contract::text::{shorten, visible};
use stage2_contract::trace::{self as records, HostState, NONE};
use stage2_model::{HostCause, HostCauseKind, HostFrame};

use super::events::{Event, Span, Thread, TraceFile};
use super::host::{HostCapture, LONGEST_NS};
use crate::host_cause::{Calls, WAITS_IN, doing, telling};
use crate::host_samples::THREADS;
use crate::host_stacks::{DEPTH, FILE_CHARS, ends};

/// Stacks whose line and activity are cached; those of further stacks are read again.
const STACKS_KEPT: usize = 1 << 14;
/// Frames that are read to find the lines of stacks. After this many, only the innermost frames of a stack are
/// read: no real program has so many stacks without its own line.
const FRAMES_READ: usize = 1 << 22;

/// The most characters of the name of a thread.
const THREAD_CHARS: usize = 40;
/// The longest name of a thread that the kernel keeps, bytes.
const COMM_BYTES: usize = 15;

/// A sample of a thread.
#[derive(Clone, Copy, Debug)]
pub struct HostSample<'a> {
    /// The time that it represents. The sample was taken at its end.
    pub span: Span,
    /// The thread.
    pub thread: Thread<'a>,
    /// Its state.
    pub state: HostState,
    /// It held the GIL.
    pub holds_gil: bool,
    /// The thread that held what it waited for; `None`: no thread, or not known.
    pub holder: Option<Thread<'a>>,
    /// Its stack, for [`TraceFile::stack`]; [`NONE`]: it has none, or it is not known.
    pub stack: u32,
    /// What it does, as reports divide it.
    pub doing: HostCauseKind,
    /// The line that stands for its stack.
    pub frame: Option<&'a HostFrame>,
    /// The line that stands for the stack of the holder at the same moment.
    pub holder_frame: Option<&'a HostFrame>,
}

impl HostSample<'_> {
    /// What the thread does, in the words of a report's row.
    pub fn text(&self) -> String {
        self.cause().text(true)
    }

    /// [`text`](Self::text) without the line, so that all lines of a function have one text.
    pub fn function(&self) -> String {
        let mut cause = self.cause();
        if let Some(frame) = &mut cause.frame {
            frame.line = 0;
        }
        cause.text(true)
    }

    fn cause(&self) -> HostCause {
        let of_holder = self.holder.map(|holder| holder.shown());
        // As in a report, the thread that is waited for is responsible.
        let frame = if of_holder.is_some() { self.holder_frame } else { self.frame };
        let thread = match self.doing {
            HostCauseKind::NativeCode => Some(self.thread.shown()),
            _ => of_holder,
        };
        let frame = frame.filter(|_| self.doing.has_line()).cloned();
        HostCause { kind: self.doing, frame, thread, ..HostCause::default() }
    }
}

/// A call of the driver that may wait.
#[derive(Clone, Debug)]
pub struct HostCall<'a> {
    /// The function.
    pub name: String,
    /// Its exact begin and end.
    pub span: Span,
    /// The thread.
    pub thread: Thread<'a>,
    /// The stack that made it, for [`TraceFile::stack`]; [`NONE`]: it has none, or it is not known.
    pub stack: u32,
    /// The line that stands for that stack.
    pub frame: Option<&'a HostFrame>,
}

impl Thread<'_> {
    /// Its name as people read it, as in reports.
    pub fn shown(&self) -> String {
        match (self.name, self.os_tid) {
            ("", 0) => "an unknown thread".to_owned(),
            ("", os_tid) => format!("thread {os_tid}"),
            // The kernel keeps no more of it.
            (name, _) if name.len() == COMM_BYTES => format!("{name}…"),
            (name, _) => shorten(name, THREAD_CHARS),
        }
    }
}

impl TraceFile {
    /// The frames of a stack of the host, the innermost first: what [`line`](Self::line) takes.
    pub fn stack(&self, stack: u32) -> impl Iterator<Item = u32> {
        let host = self.capture.host.as_deref();
        host.into_iter().flat_map(move |host| host.stack_frames(stack))
    }

    /// The line of a frame.
    pub fn line(&self, frame: u32) -> HostFrame {
        let host = self.capture.host.as_deref();
        host.map(|host| host.line(frame, &self.capture.names)).unwrap_or_default()
    }
}

/// What a stack says while its thread is in a state.
#[derive(Debug)]
struct Known {
    doing: HostCauseKind,
    frame: Option<HostFrame>,
}

/// Follows the records of the host's threads.
pub(super) struct HostEvents<'f> {
    file: &'f TraceFile,
    host: Option<&'f HostCapture>,
    /// Thread ID and visible name, by the number of the thread.
    threads: FxHashMap<u32, (u32, String)>,
    known: FxHashMap<(u32, HostState), Rc<Known>>,
    frames_left: usize,
    last_at: u64,
    /// The end of the last call of each thread.
    call_ends: FxHashMap<u32, u64>,
}

impl<'f> HostEvents<'f> {
    pub(super) fn of(file: &'f TraceFile) -> Self {
        let host = file.capture.host.as_deref();
        let threads = host.into_iter().flat_map(|host| &host.threads);
        let text = |name: &[u8]| shorten(&visible(&ends(name)), FILE_CHARS);
        Self {
            file,
            host,
            threads: threads.map(|(id, of)| (*id, (of.os_tid, text(&of.name)))).collect(),
            known: FxHashMap::default(),
            frames_left: FRAMES_READ,
            last_at: 0,
            call_ends: FxHashMap::default(),
        }
    }

    /// Passes the samples of a record to `each`, except those that contradict the order of time.
    pub(super) fn samples<E>(
        &mut self,
        samples: &[records::HostSample],
        each: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // All samples of a round have the same time.
        for round in samples.chunk_by(|a, b| a.at == b.at) {
            let has_holders = round.iter().any(|sample| sample.holder != NONE);
            let of_round = if has_holders { round } else { &[] };
            let stacks = of_round.iter().map(|of| (self.number(of.thread), of.stack));
            let stacks: FxHashMap<u32, u32> = stacks.collect();
            for sample in round {
                if sample.at.0 < self.last_at || sample.interval_ns == 0 {
                    continue;
                }
                self.last_at = sample.at.0;
                let holder = (sample.holder != NONE).then(|| self.number(sample.holder));
                let of_holder = holder.and_then(|holder| stacks.get(&holder)).copied();
                let known = self.known(sample.stack, sample.state);
                let of_holder = of_holder.map(|stack| self.known(stack, HostState::Running));
                let end_ns = self.file.host(sample.at);
                let ns = i64::try_from(sample.interval_ns.min(LONGEST_NS)).unwrap_or(i64::MAX);
                each(Event::Sample(HostSample {
                    span: Span { start_ns: end_ns.saturating_sub(ns), end_ns },
                    thread: self.thread(self.number(sample.thread)),
                    state: sample.state,
                    holds_gil: sample.holds_gil,
                    holder: holder.map(|holder| self.thread(holder)),
                    stack: sample.stack,
                    doing: known.doing,
                    frame: known.frame.as_ref(),
                    holder_frame: of_holder.as_ref().and_then(|known| known.frame.as_ref()),
                }))?;
            }
        }
        Ok(())
    }

    /// Passes a call to `each`, unless it contradicts the previous one of its thread.
    pub(super) fn call<E>(
        &mut self,
        call: &records::HostCall,
        name: String,
        each: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let thread = self.number(call.thread);
        let before = self.call_ends.get(&thread);
        let has_room = before.is_some() || self.call_ends.len() < THREADS;
        let is_behind = before.is_none_or(|end| *end <= call.begin.0);
        if !has_room || !is_behind || call.begin >= call.end {
            return Ok(());
        }
        self.call_ends.insert(thread, call.end.0);
        let known = self.known(call.stack, HostState::Driver);
        let start_ns = self.file.host(call.begin);
        each(Event::Call(HostCall {
            name,
            span: Span { start_ns, end_ns: self.file.host(call.end).max(start_ns) },
            thread: self.thread(thread),
            stack: call.stack,
            frame: known.frame.as_ref(),
        }))
    }

    fn number(&self, thread: u32) -> u32 {
        self.host.map_or(thread, |host| host.number(thread))
    }

    /// A thread with the last name that the file gives it; `None` if the file has no samples.
    pub(super) fn named(&self, thread: u32) -> Option<Thread<'_>> {
        self.host.map(|host| self.thread(host.number(thread)))
    }

    fn thread(&self, number: u32) -> Thread<'_> {
        let known = self.threads.get(&number);
        known.map_or(Thread { os_tid: 0, name: "" }, |(os_tid, name)| Thread {
            os_tid: *os_tid,
            name,
        })
    }

    fn known(&mut self, stack: u32, state: HostState) -> Rc<Known> {
        if let Some(known) = self.known.get(&(stack, state)) {
            return known.clone();
        }
        if self.known.len() >= STACKS_KEPT {
            self.known.clear();
        }
        let most = if self.frames_left > 0 { DEPTH } else { WAITS_IN };
        let frames = telling(self.file.stack(stack).take(most).map(|frame| self.file.line(frame)));
        self.frames_left = self.frames_left.saturating_sub(frames.len());
        let calls = Calls::of(frames.iter());
        let doing = doing(state, &calls);
        let frame = calls.line();
        let known = Rc::new(Known { doing, frame });
        self.known.insert((stack, state), known.clone());
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_kernel_may_have_cut_says_so() {
        let shown = |name| Thread { os_tid: 7, name }.shown();
        assert_eq!(shown("VLLM::EngineCor"), "VLLM::EngineCor…");
        assert_eq!([shown("python3"), shown("")], ["python3", "thread 7"]);
    }
}
