//! Turns the rounds of the host sampling thread into frames, stacks and samples of the trace file.
//!
//! Samples wait until there are enough for a record. The frames and stacks that they name are defined right
//! before the record, and again if that definition was lost or is in an earlier piece. All tables are
//! bounded, so kernels never lose their names to Python functions.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rustc_hash::FxHashMap;
use stage2_contract::trace::host::{self, MAX_HOST_CALLS, MAX_HOST_SAMPLES};
use stage2_contract::trace::{
    HostCall, HostFrame, HostSample, HostSampling, HostStack, HostThread, MonoNs, NONE, Record,
};

use crate::base::clock::Instant;
use crate::base::counters::{Counter, Counters};
use crate::base::diag;
use crate::drain::intern::{Interner, Sink};
use crate::guest::event::Event;
use crate::guest::state::{self, Shared};
use crate::host::{Interpreter, Round, Said, Sampling, layout};

/// Samples in a record, unless a flush comes first.
const BATCH: usize = 1024;
/// The most names of functions and files, and their bytes: a part of what the trace file has room for.
const MAX_TEXTS: usize = 1 << 13;
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Replaces every further name.
const MORE: &[u8] = b"(more functions than are kept)";
/// The most frames and stacks. A frame beyond this has no line, or is left out. A stack beyond this counts
/// as its caller's stack.
const MAX_FRAMES: usize = 1 << 15;
const MAX_STACKS: usize = 1 << 16;
/// The most instructions in the cache of frames.
const MAX_INSTRUCTIONS: usize = 1 << 16;
/// The most threads with a number.
const MAX_THREADS: usize = 1 << 12;

/// A code object.
struct Code {
    function: u32,
    file: u32,
    first_line: u32,
    table: Box<[u8]>,
}

/// A value of the trace file, and the epoch in which it was last defined.
struct Defined<T> {
    value: T,
    epoch: Option<u32>,
}

#[derive(Default)]
pub(super) struct HostSamples {
    made: Instant,
    has_begun: bool,
    sampling: Option<Sampling>,
    /// `MINOR` of `3.MINOR`; 0: not known.
    minor: u32,
    codes: FxHashMap<u32, Code>,
    packages: Packages,
    texts: usize,
    text_bytes: usize,
    /// Code object, instruction offset and 0 -> frame.
    instructions: FxHashMap<[u32; 3], u32>,
    /// Function, file and line -> frame.
    frames: FxHashMap<[u32; 3], u32>,
    frame_list: Vec<Defined<HostFrame>>,
    /// Parent, frame and 0 -> stack.
    stacks: FxHashMap<[u32; 3], u32>,
    stack_list: Vec<Defined<HostStack>>,
    /// Thread ID -> the thread's number in the trace file, and whether it launches.
    threads: FxHashMap<u32, (u32, bool)>,
    waiting: Vec<HostSample>,
    samples: u64,
    /// Calls, and whether the stack of each is still to come.
    waiting_calls: Vec<(HostCall, bool)>,
    calls: u64,
    totals: HostSampling,
    told: HostSampling,
    notes: Vec<String>,
    /// The reason why sampling is off is written only once.
    off: bool,
}

impl HostSamples {
    pub(super) fn new() -> Self {
        HostSamples { made: Instant::now(), ..HostSamples::default() }
    }

    pub(super) fn age(&self) -> Duration {
        self.made.elapsed()
    }

    /// Whether [`begin`](Self::begin) was called.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Starts sampling `hz` times a second, if that is set and there is a trace file.
    pub(super) fn begin(
        &mut self,
        (shared, hz, python): (&'static Shared, Option<u32>, Option<Interpreter>),
        has_file: bool,
        output: &mut impl Sink,
    ) {
        self.has_begun = true;
        let Some(hz) = hz else { return };
        if !has_file {
            diag::warn(format_args!(
                "the host is not sampled: samples need a trace file; set STAGE2_OUT to a folder"
            ));
            return;
        }
        match Sampling::start(hz, python, &shared.call_stacks) {
            Ok(sampling) => {
                let launching = self.threads.iter().filter(|(_, (_, launches))| *launches);
                launching.for_each(|(tid, _)| sampling.watch(*tid));
                self.sampling = Some(sampling);
            }
            Err(error) => {
                let why = format!(
                    "no thread can be started ({error}); raise the limit of threads (ulimit -u)"
                );
                self.say_off(why, output);
            }
        }
    }

    /// Takes the number of a guest thread, which launches GPU work or opens ranges.
    pub(super) fn meet(&mut self, tid: u32, number: u32) {
        if self.has_begun && self.sampling.is_none() {
            return;
        }
        self.sampling.iter().for_each(|sampling| sampling.watch(tid));
        self.threads.insert(tid, (number, true));
    }

    /// The kernel's number of a guest thread, where it is known.
    pub(super) fn tid_of(&self, number: u32) -> Option<u32> {
        self.threads.iter().find(|(_, (known, _))| *known == number).map(|(tid, _)| *tid)
    }

    /// A thread of the guest was in a call that may block.
    pub(super) fn call(&mut self, event: &Event, names: &mut Interner, output: &mut impl Sink) {
        let name = self.text(event.text(), names, output);
        let (thread, begin, end) = (event.thread, event.at, MonoNs(event.id));
        let call = HostCall { name, thread, begin, end, stack: NONE };
        self.waiting_calls.push((call, event.category != 0));
        if self.waiting_calls.len() >= BATCH {
            self.write_calls(names, output);
        }
    }

    /// Threads of ours that sample.
    pub(super) fn thread_count(&self) -> u64 {
        self.sampling.as_ref().map_or(0, |sampling| sampling.is_alive().into())
    }

    /// Takes in all messages of the sampling thread. Does not wait.
    pub(super) fn take(&mut self, names: &mut Interner, output: &mut impl Sink) {
        while let Some(said) = self.sampling.as_ref().and_then(Sampling::take) {
            self.take_in(said, names, output);
        }
    }

    /// Ends sampling. Waits for the thread for a bounded time.
    pub(super) fn finish(&mut self, names: &mut Interner, output: &mut impl Sink) {
        if let Some(sampling) = &self.sampling {
            sampling.stop();
            self.take(names, output);
            self.sampling = None;
        }
        self.write(names, output);
    }

    fn take_in(&mut self, said: Said, names: &mut Interner, output: &mut impl Sink) {
        match said {
            Said::Round(round) => {
                self.take_in_round(&round, names, output);
                if let Some(sampling) = &self.sampling {
                    sampling.give_back(round);
                }
            }
            Said::Python { minor } => {
                self.minor = minor;
                put_fact(host::PYTHON, format!("3.{minor}"), output);
            }
            Said::Note(note) => {
                diag::info(format_args!("samples of the host: {note}"));
                self.notes.push(note);
                put_fact(host::NOTE, self.notes.join("; "), output);
            }
            Said::Off(why) => self.say_off(why, output),
        }
    }

    fn say_off(&mut self, why: String, output: &mut impl Sink) {
        if !std::mem::replace(&mut self.off, true) {
            let no = if self.totals.rounds > 0 { "no longer" } else { "not" };
            diag::warn(format_args!("the host is {no} sampled: {why}"));
            put_fact(host::OFF, why, output);
        }
    }

    fn take_in_round(&mut self, round: &Round, names: &mut Interner, output: &mut impl Sink) {
        if round.forgets_codes {
            self.codes.clear();
            self.instructions.clear();
        }
        let mut at = 0;
        let mut bytes = |length: usize| {
            let bytes = round.bytes.get(at..at + length).unwrap_or_default();
            at += length;
            bytes
        };
        for code in &round.codes {
            let function = self.text(bytes(code.name), names, output);
            let file = self.packages.short(bytes(code.file));
            let file = self.text(file, names, output);
            let (first_line, table) = (code.first_line, bytes(code.table).into());
            self.codes.insert(code.id, Code { function, file, first_line, table });
        }
        // First: another thread may have the number already.
        for tid in &round.gone {
            self.threads.remove(tid);
        }
        for (tid, name) in &round.met {
            match self.threads.get(tid) {
                // Whoever gave it its number did not know its name.
                Some((number, _)) => put_thread(*number, *tid, name, output),
                None => {
                    self.number(*tid, name, output);
                }
            }
        }
        for sample in &round.samples {
            let frames = round.frames.get(sample.frames.clone()).unwrap_or_default();
            let stack = self.stack(frames);
            let thread = self.number(sample.tid, "", output);
            let holder = match sample.holder {
                0 => NONE,
                holder => self.number(holder, "", output),
            };
            let (at, state, holds_gil) = (round.at, sample.state, sample.holds_gil);
            let interval_ns = sample.interval_ns;
            self.waiting.push(HostSample {
                at,
                thread,
                state,
                holds_gil,
                holder,
                stack,
                interval_ns,
            });
        }
        for (thread, begin, frames) in &round.calls {
            let stack = self.stack(round.frames.get(frames.clone()).unwrap_or_default());
            let mut waiting = self.waiting_calls.iter_mut().rev();
            let call = waiting.find(|(call, _)| call.thread == *thread && call.begin == *begin);
            if let Some(call) = call {
                (call.0.stack, call.1) = (stack, false);
            }
        }
        for &(tid, cpu_ns, delay_ns) in &round.times {
            let thread = self.number(tid, "", output);
            let launches = self.threads.get(&tid).is_some_and(|(_, launches)| *launches);
            output.put(Record::HostThread(HostThread {
                at: round.at,
                thread,
                launches,
                cpu_ns,
                delay_ns,
            }));
        }
        self.totals = round.totals;
        if self.waiting.len() >= BATCH {
            self.write_samples(names, output);
        }
    }

    /// Returns the number of a name, within the limits of this module.
    fn text(&mut self, text: &[u8], names: &mut Interner, output: &mut impl Sink) -> u32 {
        if names.knows(text) {
            return names.name(text, output);
        }
        if self.texts >= MAX_TEXTS || self.text_bytes + text.len() > MAX_TEXT_BYTES {
            return names.name(MORE, output);
        }
        self.texts += 1;
        self.text_bytes += text.len();
        names.name(text, output)
    }

    /// Returns the number of a thread. A new thread gets one.
    fn number(&mut self, tid: u32, name: &str, output: &mut impl Sink) -> u32 {
        if let Some((number, _)) = self.threads.get(&tid) {
            return *number;
        }
        if self.threads.len() >= MAX_THREADS {
            self.threads.clear();
        }
        let number = state::take_thread_number();
        self.threads.insert(tid, (number, false));
        put_thread(number, tid, name, output);
        number
    }

    /// Returns the number of a stack, whose innermost frame comes first.
    fn stack(&mut self, frames: &[(u32, i32)]) -> u32 {
        let mut stack = NONE;
        for &instruction in frames.iter().rev() {
            let Some(frame) = self.frame(instruction) else { continue };
            let key = [stack, frame, 0];
            if let Some(&known) = self.stacks.get(&key) {
                stack = known;
            } else if self.stack_list.len() < MAX_STACKS {
                let id = self.stack_list.len() as u32 + 1;
                self.stacks.insert(key, id);
                let value = HostStack { id, parent: stack, frame };
                self.stack_list.push(Defined { value, epoch: None });
                stack = id;
            } else {
                return stack;
            }
        }
        stack
    }

    fn frame(&mut self, instruction: (u32, i32)) -> Option<u32> {
        let (code, offset) = instruction;
        let instruction = [code, offset as u32, 0];
        if let Some(&frame) = self.instructions.get(&instruction) {
            return Some(frame);
        }
        let code = self.codes.get(&code)?;
        let mut key = [
            code.function,
            code.file,
            layout::line(self.minor, &code.table, code.first_line, offset),
        ];
        if self.frame_list.len() >= MAX_FRAMES {
            // A new frame loses its line.
            let known = self.frames.contains_key(&key);
            key[2] = if known { key[2] } else { 0 };
        }
        let id = match self.frames.get(&key) {
            Some(&id) => id,
            None if self.frame_list.len() >= 2 * MAX_FRAMES => return None,
            None => {
                let id = self.frame_list.len() as u32 + 1;
                let [function, file, line] = key;
                self.frames.insert(key, id);
                let value = HostFrame { id, function, file, line };
                self.frame_list.push(Defined { value, epoch: None });
                id
            }
        };
        if self.instructions.len() >= MAX_INSTRUCTIONS {
            self.instructions.clear();
        }
        self.instructions.insert(instruction, id);
        Some(id)
    }

    /// Writes the waiting samples and the totals of sampling.
    pub(super) fn write(&mut self, names: &mut Interner, output: &mut impl Sink) {
        self.write_samples(names, output);
        self.write_calls(names, output);
        let count = |of: fn(&Counters) -> &Counter| {
            state::shared().map_or(0, |shared| of(&shared.counters).get())
        };
        let totals = HostSampling {
            samples: self.samples,
            calls: self.calls,
            short_calls: count(|of| &of.short_calls),
            lost_calls: count(|of| &of.lost_calls),
            ..self.totals
        };
        if totals != self.told {
            self.told = totals;
            output.put(Record::HostSampling(totals));
        }
    }

    fn write_samples(&mut self, names: &mut Interner, output: &mut impl Sink) {
        let waiting = std::mem::take(&mut self.waiting);
        for samples in waiting.chunks(MAX_HOST_SAMPLES) {
            for sample in samples {
                self.define(sample.stack, names, output);
            }
            self.samples += samples.len() as u64;
            output.put(Record::HostSamples(samples.to_vec()));
        }
    }

    /// Writes calls. Those whose stack is to come wait for one more time, with all behind them.
    fn write_calls(&mut self, names: &mut Interner, output: &mut impl Sink) {
        let known = self.waiting_calls.iter().position(|(_, awaits)| *awaits);
        let known = known.filter(|_| self.sampling.is_some()).unwrap_or(self.waiting_calls.len());
        let calls: Vec<HostCall> =
            self.waiting_calls.drain(..known).map(|(call, _)| call).collect();
        self.waiting_calls.iter_mut().for_each(|(_, awaits)| *awaits = false);
        for calls in calls.chunks(MAX_HOST_CALLS) {
            for call in calls {
                names.define_name(call.name, output);
                self.define(call.stack, names, output);
            }
            self.calls += calls.len() as u64;
            output.put(Record::HostCalls(calls.to_vec()));
        }
    }

    /// Defines a stack with all that it is made of, unless that was done and is not lost.
    fn define(&mut self, stack: u32, names: &mut Interner, output: &mut impl Sink) {
        let epoch = Some(names.epoch());
        let (mut undefined, mut at) = (Vec::new(), stack);
        while let Some(node) =
            (at as usize).checked_sub(1).and_then(|index| self.stack_list.get_mut(index))
            && node.epoch != epoch
        {
            node.epoch = epoch;
            undefined.push(node.value);
            at = node.value.parent;
        }
        for stack in undefined.into_iter().rev() {
            let frame = (stack.frame as usize).checked_sub(1);
            if let Some(frame) = frame.and_then(|index| self.frame_list.get_mut(index))
                && frame.epoch != epoch
            {
                frame.epoch = epoch;
                names.define_name(frame.value.function, output);
                names.define_name(frame.value.file, output);
                output.put(Record::HostFrame(frame.value));
            }
            output.put(Record::HostStack(stack));
        }
    }
}

fn put_thread(id: u32, os_tid: u32, name: &str, output: &mut impl Sink) {
    output.put(Record::Thread { id, os_tid, name: name.as_bytes().to_vec() });
}

fn put_fact(key: &str, value: String, output: &mut impl Sink) {
    output.put(Record::Meta { key: key.to_owned(), value });
}

/// Folder of source files -> index at which the name of the package begins.
#[derive(Debug, Default)]
struct Packages(FxHashMap<Vec<u8>, Option<usize>>);

impl Packages {
    /// Folders that are looked at: each takes calls of the system on the drain thread.
    const KEPT: usize = 1 << 10;
    /// The most parent folders of a file that are checked.
    const DEPTH: usize = 16;

    /// Returns the path from its outermost package on, or the whole path if it is in none. A package that is
    /// not installed (`pip install -e`) is recognised by its `__init__.py`.
    fn short<'p>(&mut self, path: &'p [u8]) -> &'p [u8] {
        if let Some(at) = installed(path) {
            return path.get(at..).unwrap_or(path);
        }
        let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let Some(folder) = path.get(..end).filter(|folder| folder.starts_with(b"/")) else {
            return path;
        };
        let at = match self.0.get(folder) {
            Some(&at) => at,
            None if self.0.len() >= Self::KEPT => None,
            None => *self.0.entry(folder.to_vec()).or_insert(outermost_package(folder)),
        };
        at.and_then(|at| path.get(at..)).unwrap_or(path)
    }
}

/// Returns the index in the path of a folder at which the name of the outermost package begins.
fn outermost_package(folder: &[u8]) -> Option<usize> {
    let folders = Path::new(OsStr::from_bytes(folder)).ancestors().take(Packages::DEPTH);
    let packages = folders.filter(|folder| folder.join("__init__.py").exists());
    let outermost = packages.last()?;
    Some(outermost.parent()?.as_os_str().len() + 1).filter(|&at| at > 1)
}

/// Returns the index in a path past the folder of installed packages, or of the standard library.
fn installed(path: &[u8]) -> Option<usize> {
    let behind = |folder: &[u8]| {
        path.windows(folder.len()).rposition(|part| part == folder).map(|at| at + folder.len())
    };
    behind(b"/site-packages/").or_else(|| behind(b"/dist-packages/")).or_else(|| {
        // `lib/python3.12/`
        let at = behind(b"/lib/python3.")?;
        let version = path.get(at..)?.iter().position(|byte| *byte == b'/')?;
        Some(at + version + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{CodeText, Sample};
    use stage2_contract::trace::HostState;

    #[test]
    fn files_of_packages_are_named_from_the_package_on() {
        let cases = [
            (
                "/opt/v/lib/python3.12/site-packages/vllm/v1/engine/core.py",
                "vllm/v1/engine/core.py",
            ),
            ("/usr/lib/python3/dist-packages/torch/nn.py", "torch/nn.py"),
            ("/usr/lib/python3.11/asyncio/events.py", "asyncio/events.py"),
            ("/usr/lib/python3.11", "/usr/lib/python3.11"),
            ("/home/a/serve.py", "/home/a/serve.py"),
            ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
            ("", ""),
        ];
        let mut packages = Packages::default();
        for (path, short) in cases {
            assert_eq!(packages.short(path.as_bytes()), short.as_bytes(), "{path}");
        }
    }

    #[test]
    fn a_package_that_is_not_installed_is_known_by_its_marks() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("vllm/v1/no_package/core");
        std::fs::create_dir_all(&inner).unwrap();
        for folder in ["vllm", "vllm/v1"] {
            std::fs::write(root.path().join(folder).join("__init__.py"), "").unwrap();
        }
        let mut packages = Packages::default();
        for (file, short) in [
            ("vllm/v1/no_package/core/sched.py", Some("vllm/v1/no_package/core/sched.py")),
            ("vllm/v1/no_package/core/other.py", Some("vllm/v1/no_package/core/other.py")),
            ("vllm/entry.py", Some("vllm/entry.py")),
            ("serve.py", None),
        ] {
            let path = root.path().join(file);
            let path = path.to_str().unwrap();
            assert_eq!(packages.short(path.as_bytes()), short.unwrap_or(path).as_bytes());
        }
        // The drain thread looks at so many folders and no more.
        let looked_at = (0..Packages::KEPT).map(|at| (at.to_string().into_bytes(), None));
        let path = root.path().join("vllm/entry.py").into_os_string().into_encoded_bytes();
        assert_eq!(Packages(looked_at.collect()).short(&path), path);
    }

    /// A round with code objects of 3.12 that are numbered from here, each with one line.
    fn round(codes: std::ops::Range<u32>, frames: &[(u32, i32)]) -> Round {
        let mut round = Round { at: MonoNs(1_000), ..Round::default() };
        for id in codes {
            let name = format!("f{id}");
            round.bytes.extend_from_slice(name.as_bytes());
            round.bytes.extend_from_slice(b"/x/site-packages/m.py\xd8\0\0");
            round.codes.push(CodeText { id, first_line: id, name: name.len(), file: 21, table: 3 });
        }
        round.frames.extend_from_slice(frames);
        round.samples.push(Sample {
            tid: 77,
            state: HostState::Running,
            holds_gil: true,
            holder: 0,
            frames: 0..frames.len(),
            interval_ns: 5,
        });
        round
    }

    fn samples_of_3_12() -> HostSamples {
        HostSamples { minor: 12, ..HostSamples::default() }
    }

    #[test]
    fn a_thread_that_takes_the_number_of_one_that_ended_is_another_one() {
        let (mut samples, mut names, mut sink) =
            (samples_of_3_12(), Interner::default(), Vec::new());
        samples.take_in_round(&round(1..2, &[(1, 0)]), &mut names, &mut sink);
        let met = vec![(77, "new".to_owned())];
        let next = Round { gone: vec![77], met, ..round(0..0, &[(1, 0)]) };
        samples.take_in_round(&next, &mut names, &mut sink);
        let numbers: Vec<u32> = sink
            .iter()
            .filter_map(|record| match record {
                Record::Thread { id, .. } => Some(*id),
                _ => None,
            })
            .collect();
        let of_samples: Vec<u32> = samples.waiting.iter().map(|sample| sample.thread).collect();
        assert_eq!(of_samples, numbers);
        assert!(matches!(numbers[..], [first, second] if first != second), "{numbers:?}");
    }

    #[test]
    fn what_a_sample_names_is_defined_once_and_again_where_that_was_lost() {
        let (mut samples, mut names, mut sink) =
            (samples_of_3_12(), Interner::default(), Vec::new());
        samples.take_in_round(&round(1..3, &[(2, 0), (1, 0)]), &mut names, &mut sink);
        samples.write(&mut names, &mut sink);
        let number = match sink.iter().find(|record| matches!(record, Record::Thread { .. })) {
            Some(Record::Thread { id, os_tid: 77, .. }) => *id,
            other => panic!("{other:?}"),
        };
        let text = |name: u32, of: &str| assert_eq!(names.text(name), of.as_bytes());
        let frames: Vec<HostFrame> = sink
            .iter()
            .filter_map(|record| match record {
                Record::HostFrame(frame) => Some(*frame),
                _ => None,
            })
            .collect();
        assert_eq!(frames.iter().map(|frame| frame.line).collect::<Vec<_>>(), [2, 3]);
        text(frames[0].function, "f1");
        text(frames[1].function, "f2");
        text(frames[1].file, "m.py");
        let stack = |id, parent, frame| Record::HostStack(HostStack { id, parent, frame });
        assert!(sink.contains(&stack(1, NONE, 1)) && sink.contains(&stack(2, 1, 2)));
        let sample = HostSample {
            at: MonoNs(1_000),
            thread: number,
            state: HostState::Running,
            holds_gil: true,
            holder: NONE,
            stack: 2,
            interval_ns: 5,
        };
        assert!(sink.contains(&Record::HostSamples(vec![sample])));
        let first = std::mem::take(&mut sink);
        // The same samples again define nothing.
        samples.take_in_round(&round(0..0, &[(2, 0), (1, 0)]), &mut names, &mut sink);
        samples.write(&mut names, &mut sink);
        assert!(matches!(&sink[..], [Record::HostSamples(_), Record::HostSampling(_)]), "{sink:?}");
        names.define_again();
        sink.clear();
        samples.take_in_round(&round(0..0, &[(2, 0), (1, 0)]), &mut names, &mut sink);
        samples.write(&mut names, &mut sink);
        let defines = |record: &&Record| {
            matches!(record, Record::Name { .. } | Record::HostFrame(_) | Record::HostStack(_))
        };
        let again = sink.iter().filter(defines);
        assert_eq!(again.clone().count(), 3 + 2 + 2);
        assert!(again.clone().all(|record| first.contains(record)));
    }

    #[test]
    fn whatever_comes_the_tables_stay_bounded_and_names_of_kernels_have_room() {
        let (mut samples, mut names, mut sink) =
            (samples_of_3_12(), Interner::default(), Vec::new());
        for step in 0..150 {
            let codes = step * 1_000 + 1..step * 1_000 + 1_001;
            let frames: Vec<(u32, i32)> = codes.clone().map(|id| (id, 0)).collect();
            samples.take_in_round(&round(codes, &frames), &mut names, &mut sink);
            samples.codes.clear();
        }
        assert!(samples.texts <= MAX_TEXTS);
        assert!(samples.frame_list.len() <= 2 * MAX_FRAMES, "{}", samples.frame_list.len());
        assert!(
            samples.stack_list.len() <= MAX_STACKS
                && samples.instructions.len() <= MAX_INSTRUCTIONS
        );
        assert_eq!(names.take_refused(), 0);
        let kernel = names.name(b"kernel", &mut sink);
        assert_eq!(names.text(kernel), b"kernel");
        for tid in 0..2 * MAX_THREADS as u32 {
            samples.number(tid, "", &mut sink);
        }
        assert!(samples.threads.len() <= MAX_THREADS);
    }

    #[test]
    fn a_round_that_does_not_fit_itself_is_no_harm() {
        let (mut samples, mut names, mut sink) =
            (samples_of_3_12(), Interner::default(), Vec::new());
        let mut odd = round(1..2, &[(1, 0), (9, 0)]);
        odd.bytes.truncate(3);
        odd.samples[0].frames = 1..9;
        samples.take_in_round(&odd, &mut names, &mut sink);
        odd.samples[0].frames = 0..2;
        odd.codes.clear();
        samples.take_in_round(&odd, &mut names, &mut sink);
        samples.write(&mut names, &mut sink);
        let stacks = sink.iter().find_map(|record| match record {
            Record::HostSamples(samples) => Some([samples[0].stack, samples[1].stack]),
            _ => None,
        });
        assert_eq!(stacks, Some([NONE, 1]), "unknown code objects are left out");
    }
}
