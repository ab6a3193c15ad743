//! Anchors of a trace file -> a map from the monotonic clock (ranges) to the GPU clock (GPU work).

use stage2_contract::trace::{Anchor, GpuNs, MonoNs};

/// How far two clocks may part between two anchors without that one of them was stepped: this, or a
/// thousandth of the time between. Clocks that run freely drift apart by a tenth of that at most.
const NO_STEP_NS: u64 = 1_000_000;
const NO_STEP_SHARE: u64 = 1_000;

/// Converts times of ranges into times of GPU work: linear between anchors, a constant offset
/// before the first and after the last.
///
/// The GPU's clock follows that of the wall, which may be set. It goes on while the machine is suspended,
/// and the monotonic clock does not. Between two anchors with such a step a line would stretch every time:
/// there, the offset of the earlier one holds up to the step, wherever that lies.
#[derive(Clone, Debug, Default)]
pub struct ClockMap {
    points: Vec<(u64, u64)>,
    ignored: u64,
}

impl ClockMap {
    /// Uses the anchors that hold a GPU time, in the order of the monotonic clock. An anchor that
    /// lets the GPU clock stand or run backwards is left out and counted.
    pub fn new(anchors: &[Anchor]) -> Self {
        let mut points: Vec<(u64, u64)> =
            anchors.iter().filter(|a| a.gpu.0 != 0).map(|a| (a.mono.0, a.gpu.0)).collect();
        points.sort_unstable();
        points.dedup();
        let usable = points.len();
        let mut last: Option<(u64, u64)> = None;
        points.retain(|&point| {
            let grows = last.is_none_or(|(mono, gpu)| point.0 > mono && point.1 > gpu);
            if grows {
                last = Some(point);
            }
            grows
        });
        let ignored = usable.saturating_sub(points.len()) as u64;
        Self { points, ignored }
    }

    pub(crate) fn ignored(&self) -> u64 {
        self.ignored
    }

    /// How often one of the clocks stepped ahead of the other between two anchors.
    pub fn steps(&self) -> u64 {
        let steps = self.points.windows(2).filter(|pair| matches!(pair, [a, b] if is_step(*a, *b)));
        steps.count() as u64
    }

    /// `at` on the GPU clock; nothing where no anchor ties the clocks together.
    pub fn gpu(&self, at: MonoNs) -> Option<GpuNs> {
        self.convert(at.0, |point| point).map(GpuNs)
    }

    /// The other way round: a time of the GPU clock on the monotonic clock.
    pub fn mono(&self, at: GpuNs) -> Option<MonoNs> {
        self.convert(at.0, |(mono, gpu)| (gpu, mono)).map(MonoNs)
    }

    /// `pair` gives of an anchor the time on the clock of `at`, and that on the other clock.
    fn convert(&self, at: u64, pair: fn((u64, u64)) -> (u64, u64)) -> Option<u64> {
        let after = self.points.partition_point(|&point| pair(point).0 <= at);
        let point = |index: usize| self.points.get(index).copied().map(pair);
        match (after.checked_sub(1).and_then(point), point(after)) {
            (Some(from), Some(to)) => Some(between(from, to, at)),
            (Some(only), None) | (None, Some(only)) => Some(offset(only, at)),
            (None, None) => None,
        }
    }

    /// How far an anchor lies from where its neighbours put it, at most, ns: what a time that was
    /// converted may be off by. Of two anchors, how much their clocks drifted apart between them;
    /// nothing where a single one leaves that open.
    pub fn spread_ns(&self) -> Option<u64> {
        let off = |window: &[(u64, u64)]| match *window {
            [from, at, to] => between(from, to, at.0).abs_diff(at.1),
            _ => 0,
        };
        match *self.points.as_slice() {
            [] | [_] => None,
            [a, b] => Some((b.0 - a.0).abs_diff(b.1 - a.1)),
            ref all => all.windows(3).map(off).max(),
        }
    }
}

/// Whether the clocks parted further than they can drift.
fn is_step(from: (u64, u64), to: (u64, u64)) -> bool {
    let (one, other) = (to.0.saturating_sub(from.0), to.1.saturating_sub(from.1));
    one.abs_diff(other) > NO_STEP_NS.max(one.min(other) / NO_STEP_SHARE)
}

/// `points` hold strictly growing values, so that the divisor is not zero.
fn between(from: (u64, u64), to: (u64, u64), mono: u64) -> u64 {
    if is_step(from, to) {
        return offset(from, mono).min(to.1);
    }
    let elapsed = u128::from(mono - from.0);
    let gpu_step = u128::from(to.1 - from.1);
    let mono_step = u128::from(to.0 - from.0);
    from.1.saturating_add(u64::try_from(elapsed * gpu_step / mono_step).unwrap_or(u64::MAX))
}

fn offset(anchor: (u64, u64), mono: u64) -> u64 {
    let shifted = i128::from(mono) - i128::from(anchor.0) + i128::from(anchor.1);
    u64::try_from(shifted.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_contract::trace::WallNs;

    fn map(points: &[(u64, u64)]) -> ClockMap {
        let anchors: Vec<Anchor> = points
            .iter()
            .map(|&(mono, gpu)| Anchor { gpu: GpuNs(gpu), mono: MonoNs(mono), wall: WallNs(0) })
            .collect();
        ClockMap::new(&anchors)
    }

    fn at(map: &ClockMap, mono: u64) -> Option<u64> {
        map.gpu(MonoNs(mono)).map(|gpu| gpu.0)
    }

    #[test]
    fn is_linear_between_anchors_and_offset_outside() {
        const MAX: u64 = u64::MAX;
        for (points, times) in [
            (
                &[(100, 1_100), (200, 1_300)][..],
                &[(50, 1_050), (100, 1_100), (150, 1_200), (200, 1_300), (260, 1_360)][..],
            ),
            // Never below zero.
            (&[(1_000, 400)], &[(900, 300), (1, 0)]),
            (&[(1, 1), (MAX, MAX)], &[(MAX, MAX), (MAX / 2, MAX / 2)]),
        ] {
            let map = map(points);
            times.iter().for_each(|&(mono, gpu)| assert_eq!(at(&map, mono), Some(gpu), "{mono}"));
        }
        assert_eq!(at(&map(&[]), 5), None);
        assert_eq!(at(&map(&[(10, 0)]), 5), None, "an anchor without a GPU time says nothing");
    }

    /// Hazard (Records that make no sense): Clock readings that contradict each other.
    /// Promise: They are left out and counted.
    #[test]
    fn contradicting_anchors_are_left_out_and_counted() {
        let map = map(&[(100, 1_000), (200, 900), (300, 1_200), (300, 1_300)]);
        assert_eq!(map.ignored(), 2);
        assert_eq!(at(&map, 200), Some(1_100));
    }

    #[test]
    fn a_clock_that_steps_ahead_stretches_no_time_and_is_counted() {
        const S: u64 = 1_000_000_000;
        let drifting = [(S, S), (2 * S, 2 * S + 400_000), (602 * S, 602 * S + 60_000_000)];
        assert_eq!(map(&drifting).steps(), 0, "clocks that drift do not step");
        // The machine was suspended for an hour: the GPU's clock went on.
        let hour = 3_600 * S;
        let map =
            map(&[(S, 10 * S), (2 * S, 11 * S), (3 * S, 12 * S + hour), (4 * S, 13 * S + hour)]);
        assert_eq!((map.steps(), map.ignored()), (1, 0));
        // Half a second, not half an hour.
        for (mono, gpu) in [(S, 10 * S), (2 * S, 11 * S), (3 * S, 12 * S + hour)] {
            assert_eq!(at(&map, mono + S / 2), Some(gpu + S / 2), "{mono}");
        }
        assert_eq!(map.mono(GpuNs(11 * S + S / 2)), Some(MonoNs(2 * S + S / 2)));
        let suspended = map.mono(GpuNs(11 * S + hour / 2));
        assert_eq!(suspended, Some(MonoNs(3 * S)));
    }

    #[test]
    fn times_of_the_gpu_come_back_to_the_monotonic_clock() {
        let map = map(&[(100, 1_100), (200, 1_300), (300, 1_400)]);
        assert_eq!(map.steps(), 0);
        for mono in [50, 100, 150, 200, 250, 300, 360] {
            let gpu = map.gpu(MonoNs(mono)).expect("tied");
            assert_eq!(map.mono(gpu), Some(MonoNs(mono)));
        }
        assert_eq!(ClockMap::default().mono(GpuNs(7)), None);
    }

    #[test]
    fn the_spread_is_what_anchors_contradict_each_other_by() {
        for (points, spread) in [
            (&[(100, 1_100), (200, 1_200), (300, 1_300)][..], Some(0)),
            (&[(100, 1_100), (200, 1_206), (300, 1_300)], Some(6)),
            (&[(100, 1_100), (200, 1_203)], Some(3)),
            (&[(100, 1_100)], None),
        ] {
            assert_eq!(map(points).spread_ns(), spread, "{points:?}");
        }
    }
}
