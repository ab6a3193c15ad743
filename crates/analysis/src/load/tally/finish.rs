//! Everything that was tallied of a process -> its [`ProcessCapture`].

use std::collections::BTreeMap;

use stage2_spool::Anchor;

use super::Tally;
use crate::load::clock::ClockMap;
use crate::load::paths::PathIndex;
use crate::load::stats::{GroupKey, Stats};
use crate::load::{META_OPEN_AT_END, ProcessCapture, StageCapture};
use stage2_model::{FileEnding, FileState};

impl Tally {
    /// Everything that was read, reduced.
    pub fn finish(mut self) -> ProcessCapture {
        self.undefined.queues = self.devices.undefined_queues;
        let clock = ClockMap::new(&self.anchors);
        let wall_ahead_ns = wall_ahead_ns(&self.anchors);
        let ending = if self.end.is_some() { FileEnding::Complete } else { FileEnding::Open };
        let busy = self.unions.finish();
        let busy_of = |union: usize| busy.get(union).copied().unwrap_or_default();
        let mut stages: BTreeMap<PathIndex, StageCapture> = BTreeMap::new();
        let (faults, gated) = (self.ranges.faults, self.ranges.is_gated());
        let (path_times, stage_times, model_windows) = self.ranges.finish(&clock);
        for (stage, times) in stage_times {
            stages.entry(stage).or_default().times = Some(times);
        }
        for (stage, unions) in &self.stages {
            let entry = stages.entry(*stage).or_default();
            entry.by_device = unions.by_device.iter().map(|&(d, u)| (d, busy_of(u))).collect();
            let all = unions.any.or(unions.by_device.first().map(|&(_, union)| union));
            entry.busy = all.map(busy_of).unwrap_or_default();
            entry.cold_busy = unions.cold.map(busy_of).unwrap_or_default();
            entry.recorded = true;
        }
        for (path, times) in &path_times {
            let stage = stages.get_mut(&self.paths.node(*path).top);
            if let Some(stage) = stage.filter(|_| times.recorded != Some(0)) {
                stage.recorded = true;
            }
        }
        let mut groups: Vec<(GroupKey, Stats)> =
            self.stats.into_iter().map(|group| (group.key, group.stats)).collect();
        groups.sort_by_key(|(key, _)| *key);
        let of_user = |path: &PathIndex| self.paths.node(*path).user == Some(*path);
        let open_at_end = path_times.iter().filter(|(path, _)| of_user(path));
        let open_at_end = open_at_end.map(|(_, times)| times.unclosed).fold(0, u64::saturating_add);
        let told = self.meta.get(META_OPEN_AT_END).and_then(|count| count.parse().ok());
        let open_at_end = open_at_end.max(told.unwrap_or(0));
        let sampled = |path| path_times.get(&path).map(|times| times.sampled).unwrap_or_default();
        for (key, stats) in &mut groups {
            stats.scale(sampled(key.path));
        }
        for (&(path, _), captured) in &mut self.captured {
            let sampled = sampled(path);
            captured.kernels = sampled.scale(captured.kernels);
            captured.total_ns = sampled.scale(captured.total_ns);
        }
        let collectives = self.collectives.finish(sampled);
        ProcessCapture {
            file: String::new(),
            state: FileState { ending, ..FileState::default() },
            process: self.process,
            meta: self.meta,
            names: self.names.into_list(),
            shapes: self.shapes.into_list(),
            path_times: path_times.into_iter().collect(),
            paths: self.paths.nodes().to_vec(),
            devices: self.devices.into_list(),
            device_busy: self.device_unions.iter().map(|(&d, &u)| (d, busy_of(u))).collect(),
            stages,
            model_windows,
            groups,
            captured: self.captured.into_iter().collect(),
            losses: self.losses,
            counts: self.counts,
            undefined: self.undefined,
            faults,
            open_at_end: if self.end.is_some() { open_at_end } else { 0 },
            anchors: self.anchors.len() as u64,
            first_anchor: self.anchors.first().copied(),
            anchors_ignored: clock.ignored(),
            end: self.end,
            whole: self.whole.finish(&self.counts),
            gated,
            collectives,
            clock,
            wall_ahead_ns,
        }
    }
}

/// Wall time less monotonic time at the middle one of the readings.
fn wall_ahead_ns(anchors: &[Anchor]) -> Option<i64> {
    let ahead = |a: &Anchor| i64::try_from(i128::from(a.wall.0) - i128::from(a.mono.0)).ok();
    let mut all: Vec<i64> = anchors.iter().filter_map(ahead).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}
