//! Ranges that opened lately -> the range right within their stage, and the number of its instance: which
//! step of a stage something belongs to.

use rustc_hash::FxHashMap;
use stage2_contract::trace::RangeOpen;

use super::paths::{PathIndex, PathNode};

/// Ranges that are remembered; GPU work comes into the file soon after the range of its launch.
const RECENT: usize = 1 << 17;
/// Paths whose instances are counted.
const PATHS: usize = 1 << 14;

pub(super) type StepOf = (PathIndex, u32);

#[derive(Debug, Default)]
pub(super) struct RangeSteps {
    /// By the end of their identifier: a newer one takes the place of an older one.
    recent: Vec<(u64, Option<StepOf>)>,
    opened: FxHashMap<PathIndex, u32>,
}

impl RangeSteps {
    pub(super) fn open(&mut self, open: &RangeOpen, path: PathIndex, node: PathNode) {
        let is_step = node.user == Some(path) && node.parent.is_some_and(|p| p == node.top);
        let step = match open.continues {
            0 if is_step => self.count(path).map(|number| (path, number)),
            0 => self.of(open.parent),
            before => self.of(before),
        };
        if self.recent.is_empty() {
            self.recent.resize(RECENT, (0, None));
        }
        if let Some(place) = self.recent.get_mut(open.range as usize % RECENT) {
            *place = (open.range, step);
        }
    }

    fn count(&mut self, path: PathIndex) -> Option<u32> {
        if self.opened.len() >= PATHS && !self.opened.contains_key(&path) {
            return None;
        }
        let opened = self.opened.entry(path).or_default();
        *opened = opened.saturating_add(1);
        Some(*opened - 1)
    }

    /// The step that `range` is or lies in.
    pub(super) fn of(&self, range: u64) -> Option<StepOf> {
        let (known, step) = self.recent.get(range as usize % RECENT)?;
        step.filter(|_| *known == range)
    }
}
