//! Openings and closings of ranges -> how often and how long each path was open on the host.

use std::collections::HashMap;

use super::paths::PathIndex;
use super::sampling::Sampled;
use super::series::Series;
use super::share::Share;

/// Host times of instances that are kept one by one, over all paths of a file.
pub(super) const EXACT_TIMES: usize = 1 << 20;

/// Host times of the instances of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathTimes {
    /// Instances, closed or not.
    pub instances: u64,
    /// Instances that were never closed.
    pub unclosed: u64,
    /// Host time of all closed instances and continuations, ns; nothing where none was closed.
    pub host_total_ns: Option<u64>,
    /// Host time of the first closed instance, ns.
    pub host_first_ns: Option<u64>,
    /// Host time of each closed instance but the first, ns.
    pub host_warm_ns: Series,
    /// Instances whose GPU work was recorded, closed or not; nothing: that of all was.
    pub recorded: Option<u64>,
    /// Instances that were asked for, where not everything is recorded, and those of them that
    /// `STAGE2_SAMPLE` took.
    pub sampled: Sampled,
    /// Start/end ranges of it, in no other range, were open at the same time on one thread.
    pub side_by_side: bool,
}

/// A path, and when its first closed instance started.
#[derive(Debug, Default)]
struct Timed {
    times: PathTimes,
    first_start: u64,
}

#[derive(Debug, Default)]
pub(super) struct HostTimes {
    paths: HashMap<PathIndex, Timed>,
    /// Host times that are kept one by one.
    exact: usize,
    share: Share,
}

impl HostTimes {
    pub(super) fn within(share: Share) -> Self {
        Self { share, ..Self::default() }
    }

    /// A range opened; `counted` if it is no continuation of another.
    pub(super) fn opened(&mut self, path: PathIndex, counted: bool) {
        self.paths.entry(path).or_default().times.instances += u64::from(counted);
    }

    pub(super) fn opened_beside_another(&mut self, path: PathIndex) {
        self.paths.entry(path).or_default().times.side_by_side = true;
    }

    pub(super) fn ended(
        &mut self,
        path: PathIndex,
        (start, end): (u64, u64),
        counted: bool,
        sampled: Option<bool>,
    ) {
        let path = self.paths.entry(path).or_default();
        path.sample(counted, sampled);
        let ns = end.saturating_sub(start);
        let times = &mut path.times;
        times.host_total_ns = Some(times.host_total_ns.unwrap_or(0).saturating_add(ns));
        if !counted {
            return;
        }
        let warm = match times.host_first_ns.replace(ns) {
            None => {
                path.first_start = start;
                return;
            }
            // The first is the one that started first.
            Some(first) if start < path.first_start => {
                path.first_start = start;
                first
            }
            Some(first) => {
                times.host_first_ns = Some(first);
                ns
            }
        };
        self.exact += usize::from(times.host_warm_ns.push(warm));
        if self.exact > self.share.of(EXACT_TIMES) {
            self.fold();
        }
    }

    pub(super) fn never_closed(&mut self, path: PathIndex, counted: bool, sampled: Option<bool>) {
        let path = self.paths.entry(path).or_default();
        path.times.unclosed += u64::from(counted);
        path.sample(counted, sampled);
    }

    /// Keeps fewer times one by one, of the paths with the most of them.
    fn fold(&mut self) {
        let most = self.share.of(EXACT_TIMES);
        let mut limit = most / 8;
        while self.exact > most / 2 {
            limit /= 4;
            let series = self.paths.values_mut().map(|path| &mut path.times.host_warm_ns);
            self.exact = series.fold(0, |kept, series| {
                series.fold(limit);
                kept + series.kept()
            });
        }
    }

    #[cfg(test)]
    pub(super) fn exact(&self) -> usize {
        self.exact
    }

    /// All paths. With `gated`, the work of some instances was not recorded.
    pub(super) fn finish(self, gated: bool) -> HashMap<PathIndex, PathTimes> {
        let times = |(path, Timed { mut times, .. })| {
            times.recorded = gated.then_some(times.sampled.recorded);
            (path, times)
        };
        self.paths.into_iter().map(times).collect()
    }
}

impl Timed {
    fn sample(&mut self, counted: bool, sampled: Option<bool>) {
        if let Some(recorded) = sampled.filter(|_| counted) {
            self.times.sampled.add(Sampled { instances: 1, recorded: recorded.into() });
        }
    }
}
