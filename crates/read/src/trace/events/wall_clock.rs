//! Times of a host's monotonic clock -> times on the wall clock of the run.

use stage2_contract::trace::MonoNs;
use stage2_model::{ClockPoint, HostClock};

/// The wall clock of a host, corrected where collectives tie it to those of other hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct WallClock {
    /// Wall time less monotonic time, ns.
    ahead_ns: i64,
    /// What is to be added, in the order of time; empty: nothing.
    points: Vec<ClockPoint>,
}

impl WallClock {
    pub(super) fn ahead(ahead_ns: i64) -> Self {
        Self { ahead_ns, points: Vec::new() }
    }

    /// Points that do not follow each other in time, as in a damaged report, are left out.
    pub(super) fn corrected(clock: &HostClock) -> Self {
        let mut points = clock.points.clone();
        points.sort_unstable_by_key(|point| point.wall_ns);
        points.dedup_by_key(|point| point.wall_ns);
        Self { ahead_ns: clock.wall_ahead_ns, points }
    }

    /// Linear between points; a constant before the first and after the last.
    pub(super) fn at(&self, at: MonoNs) -> i64 {
        let wall = i64::try_from(at.0).unwrap_or(i64::MAX).saturating_add(self.ahead_ns);
        wall.saturating_add(self.add_at(wall))
    }

    fn add_at(&self, wall: i64) -> i64 {
        let after = self.points.partition_point(|point| point.wall_ns <= wall);
        let before = after.checked_sub(1).and_then(|at| self.points.get(at));
        match (before, self.points.get(after)) {
            (Some(from), Some(to)) => {
                let wide = i128::from;
                let elapsed = wide(wall) - wide(from.wall_ns);
                let step = wide(to.wall_ns) - wide(from.wall_ns);
                let gained = (wide(to.add_ns) - wide(from.add_ns)).saturating_mul(elapsed) / step;
                i64::try_from(wide(from.add_ns) + gained).unwrap_or(i64::MAX)
            }
            (Some(only), None) | (None, Some(only)) => only.add_ns,
            (None, None) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_correction_is_linear_between_points_and_constant_outside() {
        let points = [(1_000, 10), (2_000, 30), (2_000, 99)];
        let points = points.map(|(wall_ns, add_ns)| ClockPoint { wall_ns, add_ns }).to_vec();
        let clock = HostClock { wall_ahead_ns: 500, points, ..HostClock::default() };
        let clock = WallClock::corrected(&clock);
        let at = |mono| clock.at(MonoNs(mono)) - mono as i64 - 500;
        assert_eq!([at(0), at(500), at(1_000), at(1_500), at(9_000)], [10, 10, 20, 30, 30]);
        assert_eq!(WallClock::ahead(7).at(MonoNs(3)), 10);
    }

    #[test]
    fn hostile_points_neither_panic_nor_wrap() {
        let ends = [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN)];
        let points = ends.map(|(wall_ns, add_ns)| ClockPoint { wall_ns, add_ns }).to_vec();
        for ahead in [i64::MIN, 0, i64::MAX] {
            let clock =
                HostClock { wall_ahead_ns: ahead, points: points.clone(), ..HostClock::default() };
            let clock = WallClock::corrected(&clock);
            for mono in [0, 1, 1 << 63, u64::MAX] {
                clock.at(MonoNs(mono));
            }
        }
    }
}
