//! GPU work with its place -> the windows of stages and steps on a GPU, and who owns which time.

use std::collections::BTreeMap;
use std::hash::Hash;

use rustc_hash::FxHashMap;

use stage2_read::trace::paths::PathIndex;
use stage2_read::trace::placed::{Numbered, WorkPlace};

/// Windows that are kept of a file.
const MAX_WINDOWS: usize = 1 << 20;
/// Stages of a GPU that are told apart; the others share the last place, and own no time.
const MAX_STAGES: usize = 64;

/// First start and last end of GPU work, ns of the GPU's clock.
pub(super) type Window = (u64, u64);

#[derive(Debug, Default)]
pub(super) struct Windows {
    stages: FxHashMap<(u32, Numbered), Window>,
    steps: FxHashMap<(u32, Numbered), Window>,
    /// Recorded parts of the run, where not all of it is.
    parts: FxHashMap<(u32, u32), Window>,
    /// Pieces of work whose window was not kept.
    pub(super) left_out: u64,
}

impl Windows {
    pub(super) fn add(&mut self, device: u32, place: WorkPlace, span: Window) {
        let room = self.stages.len() + self.steps.len() + self.parts.len() < MAX_WINDOWS;
        for (map, place) in [(&mut self.stages, place.stage), (&mut self.steps, place.step)] {
            let Some(place) = place else { continue };
            self.left_out += u64::from(!widen(map, (device, place), span, room));
        }
        if let Some(part) = place.part {
            self.left_out += u64::from(!widen(&mut self.parts, (device, part), span, room));
        }
    }

    /// The recorded parts of the run on a GPU.
    pub(super) fn parts(&self, device: u32) -> Parts {
        let of_device = self.parts.iter().filter(|((on, _), _)| *on == device);
        Parts::of(of_device.map(|(_, window)| *window).collect())
    }

    pub(super) fn stages(&self, device: u32) -> ByPath {
        by_path(&self.stages, device)
    }

    pub(super) fn steps(&self, device: u32) -> ByPath {
        by_path(&self.steps, device)
    }
}

/// Widens a window to hold `span`; false where it is new and there is no `room` for it.
fn widen<K: Eq + Hash>(
    windows: &mut FxHashMap<K, Window>,
    of: K,
    span: Window,
    room: bool,
) -> bool {
    match windows.get_mut(&of) {
        Some(window) => *window = (window.0.min(span.0), window.1.max(span.1)),
        None if room => drop(windows.insert(of, span)),
        None => return false,
    }
    true
}

/// Times of a GPU in which all its work is recorded, where only parts of a run are: each from the first
/// start to the last end of the work of one part. Before and behind, work may have no record.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// In the order of their start, each with the last end of all up to it.
    windows: Vec<Window>,
}

impl Parts {
    fn of(mut windows: Vec<Window>) -> Self {
        windows.sort_unstable();
        let mut last = 0;
        for (_, end) in &mut windows {
            last = last.max(*end);
            *end = last;
        }
        Self { windows }
    }

    /// Whether one part holds all of the time from `start` to `end`.
    pub(super) fn hold(&self, start: u64, end: u64) -> bool {
        let before = self.windows.partition_point(|(from, _)| *from <= start);
        let last = before.checked_sub(1).and_then(|at| self.windows.get(at));
        last.is_some_and(|(_, last)| *last >= end)
    }
}

/// Windows of a path, in the order of their start, with their numbers.
pub(super) type ByPath = BTreeMap<PathIndex, Vec<(Window, u32)>>;

fn by_path(windows: &FxHashMap<(u32, Numbered), Window>, device: u32) -> ByPath {
    let mut found = ByPath::new();
    for (&(on, (path, number)), &window) in windows {
        if on == device {
            found.entry(path).or_default().push((window, number));
        }
    }
    found.values_mut().for_each(|windows| windows.sort_unstable());
    found
}

/// A time in which the windows of the same stages are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) end: u64,
    /// A bit for each of these stages.
    owners: u64,
}

impl Segment {
    /// The only stage with an open window, by its place in [`Owners::stages`].
    pub(super) fn owner(&self) -> Option<usize> {
        let one = self.owners.is_power_of_two() && self.owners.trailing_zeros() < 63;
        one.then_some(self.owners.trailing_zeros() as usize)
    }

    pub(super) fn has(&self, stage: usize) -> bool {
        self.owners >> stage.min(63) & 1 == 1
    }
}

/// Which stages have a window open when, on one GPU.
#[derive(Debug, Default)]
pub(super) struct Owners {
    pub(super) stages: Vec<PathIndex>,
    /// Stages that are not told apart.
    pub(super) others: usize,
    /// In the order of time, without overlap.
    pub(super) segments: Vec<Segment>,
}

impl Owners {
    pub(super) fn of(windows: &ByPath) -> Self {
        let stages: Vec<PathIndex> = windows.keys().copied().take(MAX_STAGES - 1).collect();
        let others = windows.len() - stages.len();
        // A stage's own windows are joined first: where its instances overlap it is one owner.
        let mut ends: Vec<(u64, bool, usize)> = Vec::new();
        for (place, of_stage) in windows.values().enumerate() {
            for (start, end) in join_spans(of_stage.iter().map(|(window, _)| *window)) {
                let place = place.min(MAX_STAGES - 1);
                ends.extend([(start, true, place), (end, false, place)]);
            }
        }
        ends.sort_unstable();
        let mut open = [0u32; MAX_STAGES];
        let mut segments: Vec<Segment> = Vec::new();
        let (mut owners, mut since) = (0u64, 0);
        for (at, opens, place) in ends {
            if owners != 0 && at > since {
                segments.push(Segment { start: since, end: at, owners });
            }
            since = at;
            let Some(count) = open.get_mut(place) else { continue };
            *count = if opens { *count + 1 } else { count.saturating_sub(1) };
            owners = if *count > 0 { owners | 1 << place } else { owners & !(1 << place) };
        }
        Self { stages, others, segments }
    }

    /// The first segment that ends after `at`.
    pub(super) fn first_after(&self, at: u64) -> usize {
        self.segments.partition_point(|segment| segment.end <= at)
    }
}

/// Spans in the order of their start -> the same time, without overlap.
fn join_spans(spans: impl Iterator<Item = Window>) -> Vec<Window> {
    let mut joined: Vec<Window> = Vec::new();
    for (start, end) in spans {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}
