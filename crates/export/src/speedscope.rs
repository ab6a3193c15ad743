//! Samples of the host as speedscope's JSON: a sampled profile for each thread, in the order of time.
//!
//! Weights are nanoseconds. An empty stack stands for time without a sample, so that all profiles have one axis.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use serde::Serialize;
use stage2_model::HostFrame;
use stage2_read::trace::events::{Event, HostSample, Thread, TraceFile, waits};

use crate::run::Process;
use crate::selection::{Holds, Selected};
use crate::{Counts, ExportError, output};

/// Samples of all threads that are kept, after consecutive equal ones were joined.
const SAMPLES: usize = 1 << 20;
/// Frames in all stacks of these samples, which the viewer has to read; and frames of distinct stacks, which are read
/// from the trace file.
const FRAMES: usize = 1 << 24;
const LINES: usize = 1 << 21;
/// Distinct frames, and distinct stacks.
const FRAMES_APART: usize = 1 << 18;
/// The frame of a running thread whose stack is not known.
const NO_STACK: &str = "(no stack)";
/// Stands for every further frame.
const MORE_FRAMES: &str = "(more lines than are kept)";

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

pub(crate) fn write(
    selected: &Selected<'_>,
    out: &Path,
    counts: &mut Counts,
) -> Result<Vec<PathBuf>, ExportError> {
    let mut shared = Shared::default();
    let mut processes = Vec::new();
    let mut room = Room { samples: SAMPLES, frames: FRAMES, lines: LINES };
    for process in selected.run.processes() {
        let mut threads = Threads::new(process, selected.start_ns());
        // GPU work is not in the file.
        let mut all = Counts::default();
        selected.for_each(process, Holds::Timeline, &mut all, |event| {
            if let Event::Sample(sample) = event {
                let is_kept = threads.add(&process.file, &sample, &mut shared, &mut room);
                counts.samples += u64::from(is_kept);
                counts.host_left_out += u64::from(!is_kept);
            }
            Ok(())
        })?;
        counts.not_selected += all.not_selected;
        processes.push(threads);
    }
    let profiles = processes.iter().flat_map(|threads| {
        threads.by_tid.values().map(|profile| Sampled::of(profile, &threads.frames))
    });
    let profiles: Vec<Sampled<'_>> = profiles.collect();
    if profiles.is_empty() {
        return Err(match counts.not_selected {
            0 => ExportError::NoHostSamples(selected.run.name.clone()),
            _ => ExportError::NothingSelected(
                selected.run.span().map_or(0.0, |s| s.ns() as f64 / 1e9),
            ),
        });
    }
    let document = Document {
        schema: SCHEMA,
        name: &selected.run.name,
        exporter: concat!("stage2 ", env!("CARGO_PKG_VERSION")),
        active_profile_index: 0,
        shared: Frames { frames: &shared.frames },
        profiles,
    };
    output::file(out, |file| {
        serde_json::to_writer(&mut *file, &document)
            .map_err(|error| ExportError::write(out)(error.into()))?;
        writeln!(file).map_err(ExportError::write(out))
    })
}

/// What the file may still hold.
struct Room {
    samples: usize,
    frames: usize,
    lines: usize,
}

/// The frames of all profiles.
#[derive(Default)]
struct Shared {
    frames: Vec<Frame>,
    by_frame: FxHashMap<HostFrame, u32>,
}

impl Shared {
    fn frame(&mut self, frame: HostFrame) -> u32 {
        if let Some(&number) = self.by_frame.get(&frame) {
            return number;
        }
        if self.frames.len() >= FRAMES_APART && frame.function != MORE_FRAMES {
            return self.word(MORE_FRAMES);
        }
        let number = self.frames.len() as u32;
        let is_code = !frame.file.is_empty();
        self.frames.push(Frame {
            name: if is_code { frame.text() } else { frame.function.clone() },
            file: is_code.then(|| frame.file.clone()),
            line: (frame.line > 0).then_some(frame.line),
        });
        self.by_frame.insert(frame, number);
        number
    }

    /// A frame that is not a line of code.
    fn word(&mut self, word: &str) -> u32 {
        self.frame(HostFrame { function: word.to_owned(), ..HostFrame::default() })
    }
}

/// The samples of the threads of a process.
struct Threads<'p> {
    process: &'p Process,
    start_ns: i64,
    by_tid: BTreeMap<u32, Profile>,
    /// The frames of each stack with what its thread waits for, by their numbers.
    stacks: FxHashMap<(u32, Option<&'static str>), u32>,
    frames: Vec<Vec<u32>>,
    /// The numbers of the frames of the trace file.
    lines: FxHashMap<u32, u32>,
}

impl<'p> Threads<'p> {
    fn new(process: &'p Process, start_ns: i64) -> Self {
        let (by_tid, stacks, lines) = (BTreeMap::new(), FxHashMap::default(), FxHashMap::default());
        Self { process, start_ns, by_tid, stacks, frames: Vec::new(), lines }
    }

    /// Whether there was room for the sample.
    fn add(
        &mut self,
        file: &TraceFile,
        sample: &HostSample<'_>,
        shared: &mut Shared,
        room: &mut Room,
    ) -> bool {
        let key = (sample.stack, waits(sample.state));
        let stack = match self.stacks.get(&key) {
            Some(&stack) => stack,
            None if room.lines == 0 => return false,
            None => {
                let number = |frame: u32| {
                    let line = || shared.frame(file.line(frame));
                    *self.lines.entry(frame).or_insert_with(line)
                };
                let mut frames: Vec<u32> = file.stack(sample.stack).map(number).collect();
                frames.reverse();
                if frames.is_empty() {
                    frames.push(shared.word(NO_STACK));
                }
                frames.extend(key.1.map(|waits| shared.word(waits)));
                room.lines = room.lines.saturating_sub(frames.len());
                let stack = self.frames.len() as u32;
                self.stacks.insert(key, stack);
                self.frames.push(frames);
                stack
            }
        };
        let depth = self.frames.get(stack as usize).map_or(0, Vec::len);
        let since = |at_ns: i64| u64::try_from(at_ns.saturating_sub(self.start_ns)).unwrap_or(0);
        let (start, end) = (since(sample.span.start_ns), since(sample.span.end_ns));
        let title = || title(self.process, sample.thread);
        let profile = self.by_tid.entry(sample.thread.os_tid).or_insert_with(|| Profile {
            name: title(),
            start,
            end: start,
            samples: Vec::new(),
        });
        // Times of one thread never overlap.
        let start = start.max(profile.end);
        if start >= end {
            return false;
        }
        if profile.samples.last().is_some_and(|(last, _)| *last == Some(stack))
            && start == profile.end
        {
            if let Some((_, ns)) = profile.samples.last_mut() {
                *ns += end - start;
            }
        } else {
            if room.samples < 2 || room.frames < depth {
                return false;
            }
            room.samples -= 1;
            room.frames -= depth;
            if start > profile.end {
                room.samples -= 1;
                profile.samples.push((None, start - profile.end));
            }
            profile.samples.push((Some(stack), end - start));
        }
        profile.end = end;
        true
    }
}

fn title(process: &Process, thread: Thread<'_>) -> String {
    format!("{}, {} ({})", process.title(), thread.shown(), thread.os_tid)
}

/// A thread, and what it did: stacks and their durations, ns; no stack where nothing is known.
struct Profile {
    name: String,
    start: u64,
    end: u64,
    samples: Vec<(Option<u32>, u64)>,
}

// The file, with the names of its format.

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    name: &'a str,
    exporter: &'a str,
    active_profile_index: usize,
    shared: Frames<'a>,
    profiles: Vec<Sampled<'a>>,
}

#[derive(Serialize)]
struct Frames<'a> {
    frames: &'a [Frame],
}

#[derive(Serialize)]
struct Frame {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    name: &'a str,
    unit: &'a str,
    start_value: u64,
    end_value: u64,
    samples: Vec<&'a [u32]>,
    weights: Vec<u64>,
}

impl<'a> Sampled<'a> {
    fn of(profile: &'a Profile, frames: &'a [Vec<u32>]) -> Self {
        let stack = |stack: Option<u32>| stack.and_then(|at| frames.get(at as usize));
        let samples = profile.samples.iter();
        Self {
            kind: "sampled",
            name: &profile.name,
            unit: "nanoseconds",
            start_value: profile.start,
            end_value: profile.end,
            samples: samples
                .clone()
                .map(|(of, _)| stack(*of).map_or(&[][..], Vec::as_slice))
                .collect(),
            weights: samples.map(|(_, ns)| *ns).collect(),
        }
    }
}
