//! Readings of clocks within windows -> their range, and what held them down, by name.

use stage2_contract::trace::DeviceState;
use stage2_model::{ClockLimit, ClockUse, ReadSpan};

/// Bits of `nvmlClocksEventReasons` and what they mean. Idleness, 1, holds nothing down.
const LIMITS: [(u64, &str); 8] = [
    (2, "clocks set by the user"),
    (4, "power limit"),
    (8, "hardware slowdown"),
    (16, "sync boost with other GPUs"),
    (32, "temperature (software)"),
    (64, "temperature (hardware)"),
    (128, "power brake (hardware)"),
    (256, "display clocks"),
];
const IDLE: u64 = 1;

/// Readings in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Clocks {
    reads: u64,
    sm: Spread,
    memory: Spread,
    temperature_max_c: Option<u32>,
    /// Readings that tell reasons, and those of each.
    told: u64,
    limits: [u64; LIMITS.len()],
    unnamed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    count: u64,
    sum: u64,
    min: u32,
    max: u32,
}

impl Spread {
    fn add(&mut self, value: u32) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.sum = self.sum.saturating_add(value.into());
        self.count += 1;
    }

    fn merge(&mut self, other: Self) {
        if other.count > 0 {
            self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
            self.max = self.max.max(other.max);
            self.sum = self.sum.saturating_add(other.sum);
            self.count += other.count;
        }
    }

    fn span(self) -> Option<ReadSpan> {
        let Self { count, sum, min, max } = self;
        (count > 0).then(|| ReadSpan { min, mean: sum as f64 / count as f64, max })
    }
}

impl Clocks {
    pub(super) fn add(&mut self, state: &DeviceState) {
        self.reads += 1;
        // An idle GPU has low clocks because nothing runs, not the other way round.
        if state.clock_reasons.is_none_or(|reasons| reasons & IDLE == 0) {
            state.sm_clock_mhz.into_iter().for_each(|clock| self.sm.add(clock));
            state.memory_clock_mhz.into_iter().for_each(|clock| self.memory.add(clock));
        }
        self.temperature_max_c = self.temperature_max_c.max(state.temperature_c);
        let Some(reasons) = state.clock_reasons else { return };
        self.told += 1;
        let mut named = IDLE;
        for (count, (bit, _)) in self.limits.iter_mut().zip(LIMITS) {
            *count += u64::from(reasons & bit != 0);
            named |= bit;
        }
        self.unnamed += u64::from(reasons & !named != 0);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.reads += other.reads;
        self.sm.merge(other.sm);
        self.memory.merge(other.memory);
        self.temperature_max_c = self.temperature_max_c.max(other.temperature_max_c);
        self.told += other.told;
        for (count, more) in self.limits.iter_mut().zip(other.limits) {
            *count += more;
        }
        self.unnamed += other.unnamed;
    }

    pub(super) fn finish(&self) -> ClockUse {
        let named = self.limits.iter().zip(LIMITS).map(|(&reads, (_, reason))| (reads, reason));
        let all = named.chain([(self.unnamed, "another reason of the driver's")]);
        let limits = all
            .filter(|(reads, _)| *reads > 0)
            .map(|(reads, reason)| ClockLimit { reason: reason.to_owned(), reads });
        ClockUse {
            reads: self.reads,
            clock_reads: self.sm.count,
            sm_clock_mhz: self.sm.span(),
            memory_clock_mhz: self.memory.span(),
            temperature_max_c: self.temperature_max_c,
            limits: (self.told > 0).then(|| limits.collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_gpu_has_no_clock_and_reasons_have_names() {
        let read = |clock, reasons| DeviceState {
            sm_clock_mhz: Some(clock),
            clock_reasons: reasons,
            ..DeviceState::default()
        };
        let mut clocks = Clocks::default();
        for state in [read(345, Some(1)), read(1500, Some(4)), read(1400, Some(4 | 64 | 1 << 40))] {
            clocks.add(&state);
        }
        let used = clocks.finish();
        assert_eq!((used.reads, used.clock_reads), (3, 2));
        assert_eq!(used.sm_clock_mhz, Some(ReadSpan { min: 1400, mean: 1450.0, max: 1500 }));
        assert_eq!((used.memory_clock_mhz, used.temperature_max_c), (None, None));
        let limits: Vec<_> = used
            .limits
            .iter()
            .flatten()
            .map(|limit| (limit.reason.as_str(), limit.reads))
            .collect();
        let expected = [
            ("power limit", 2),
            ("temperature (hardware)", 1),
            ("another reason of the driver's", 1),
        ];
        assert_eq!(limits, expected);
        let mut unknown = Clocks::default();
        unknown.add(&DeviceState::default());
        assert_eq!(unknown.finish().limits, None, "not told is not none");
    }
}
