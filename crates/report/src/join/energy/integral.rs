//! A running total of energy, read now and then -> the energy within windows, and how far it may be off.

use stage2_model::Absent;
use stage2_read::trace::ranges::WindowSet;

/// Stages of less are too short.
const SHORTEST_NS: u64 = 1_000_000_000;
/// The energy is left out where it may be off by more, as a part of it.
const MOST_OFF: f64 = 0.10;
/// A total stands still for about 100 ms and is read at any moment within: typically a quarter of that is
/// missed at each change of power.
const STALE_S: f64 = 0.025;

/// When it was read, ns on the clock of the windows, and what it was, mJ.
pub(super) type Reading = (u64, u64);

/// Energy in windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Energy {
    /// J.
    pub(super) joules: f64,
    /// How far it may be off, J.
    pub(super) off: f64,
}

/// The energy that a GPU had taken over the time of a process.
pub(super) struct Track {
    /// In the order of time, without gaps.
    spans: Vec<Span>,
    /// W.
    highest: f64,
}

impl Track {
    /// Of readings in any order. `powers`: the power at some moments, W.
    pub(super) fn new(
        mut readings: Vec<Reading>,
        powers: impl Iterator<Item = f64>,
    ) -> Result<Self, Absent> {
        readings.sort_unstable();
        readings.dedup_by_key(|reading| reading.0);
        if readings.len() < 2 {
            return Err(no("there are fewer than two reads of the energy"));
        }
        let pairs = readings.iter().zip(readings.iter().skip(1));
        let spans: Option<Vec<Span>> = pairs.map(|(from, to)| Span::new(*from, *to)).collect();
        let spans = spans.ok_or_else(|| {
            no("the counter of the energy went backwards: the driver was loaded again during the run")
        })?;
        let highest = highest_power(&spans, powers);
        Ok(Self { spans, highest })
    }

    /// What was taken within the windows.
    ///
    /// Between two reads the energy is spread evenly. If a window fills the part f of a span of s
    /// seconds, and the power within differs by d from that outside, this is wrong by f (1 - f) s d.
    /// For d the highest power of the run is taken: what is short beside a span has its power lost in
    /// the mean, so that the spans do not tell how far powers lie apart.
    pub(super) fn energy(&self, windows: &WindowSet) -> Result<Energy, Absent> {
        let length = windows.filled();
        if length < SHORTEST_NS {
            return Err(Absent::TooShortForEnergy);
        }
        let (first, last) = windows.extent();
        let begin = self.spans.partition_point(|span| span.to <= first);
        let spans = self.spans.get(begin..).unwrap_or_default();
        let (mut joules, mut off, mut covered) = (0.0, 0.0, 0.0);
        for span in spans.iter().take_while(|span| span.from < last) {
            let within = windows.within(span.from, span.to);
            let part = (within / span.ns()).min(1.0);
            covered += within;
            joules += part * span.joules;
            if part > 0.0 && part < 1.0 {
                off += (part * (1.0 - part) * span.seconds() + STALE_S) * self.highest;
            }
        }
        if covered <= 0.0 {
            return Err(no("no read of the energy is near its windows"));
        }
        // What lies before the first read or behind the last one is taken to be like the rest.
        joules *= length as f64 / covered;
        off += (length as f64 - covered).max(0.0) / 1e9 * self.highest;
        let part_off = if joules > 0.0 { off / joules } else { f64::INFINITY };
        if part_off > MOST_OFF {
            let percent = (part_off * 100.0).round().clamp(0.0, 1e6) as u64;
            return Err(Absent::EnergyUncertain { percent, spacing_ms: self.spacing_ms() });
        }
        Ok(Energy { joules, off })
    }

    /// Mean time between reads.
    fn spacing_ms(&self) -> u64 {
        let all: u64 = self.spans.iter().map(|span| span.to - span.from).sum();
        all / 1_000_000 / self.spans.len().max(1) as u64
    }
}

fn no(why: &str) -> Absent {
    Absent::NoEnergy { why: why.to_owned() }
}

/// The time between two reads.
struct Span {
    from: u64,
    to: u64,
    joules: f64,
}

impl Span {
    /// Nothing where time or energy goes backwards.
    fn new((from, before): Reading, (to, after): Reading) -> Option<Self> {
        let joules = after.checked_sub(before)? as f64 / 1e3;
        (to > from).then_some(Span { from, to, joules })
    }

    fn ns(&self) -> f64 {
        (self.to - self.from) as f64
    }

    fn seconds(&self) -> f64 {
        self.ns() / 1e9
    }
}

/// The highest power of the GPU in the run, W. Over shorter times the mean power is that of a counter
/// which stood still, or jumped.
fn highest_power(spans: &[Span], powers: impl Iterator<Item = f64>) -> f64 {
    let long = spans.iter().filter(|span| span.seconds() >= 0.09);
    long.map(|span| span.joules / span.seconds()).chain(powers).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// 100 W from 0 to 10 s, 600 W from there to 20 s; read every so many ms.
    fn steps(every_ms: u64) -> Vec<Reading> {
        let energy = |at: u64| at.min(10 * S) / 10_000 + at.saturating_sub(10 * S) * 6 / 10_000;
        (0..=20_000 / every_ms)
            .map(|n| n * every_ms * 1_000_000)
            .map(|at| (at, energy(at)))
            .collect()
    }

    fn windows(all: &[(u64, u64)]) -> WindowSet {
        let mut set = WindowSet::default();
        all.iter().for_each(|&(start, end)| set.add(start, end));
        set
    }

    fn of(readings: &[Reading], all: &[(u64, u64)]) -> Result<Energy, Absent> {
        Track::new(readings.to_vec(), std::iter::empty())?.energy(&windows(all))
    }

    #[test]
    fn the_bound_holds_wherever_power_changes_between_two_reads() {
        for every_ms in [100, 270, 900] {
            let readings = steps(every_ms);
            for start_ms in (9_000..11_000).step_by(70) {
                let start = start_ms * 1_000_000;
                let truth = (start + 5 * S - (10 * S).max(start)) as f64 * 6e-7
                    + (10 * S).saturating_sub(start) as f64 * 1e-7;
                match of(&readings, &[(start, start + 5 * S)]) {
                    Ok(Energy { joules, off }) => {
                        assert!((joules - truth).abs() <= off + 0.01, "{joules} {off} {truth}");
                    }
                    Err(error) => assert!(every_ms == 900, "{every_ms} {start_ms}: {error}"),
                }
            }
        }
    }

    #[test]
    fn whole_spans_are_exact_and_many_short_windows_are_refused() {
        let readings = steps(250);
        let Energy { joules, off } = of(&readings, &[(10 * S, 15 * S)]).unwrap();
        assert_eq!((joules, off), (3_000.0, 0.0));
        // Windows of 50 ms in turn with others: even spreading would give each the mean power.
        let short: Vec<_> = (0..100).map(|n| (n * S / 5, n * S / 5 + S / 20)).collect();
        let error = of(&readings, &short).unwrap_err();
        assert!(matches!(error, Absent::EnergyUncertain { spacing_ms: 250, .. }), "{error}");
    }

    #[test]
    fn stages_in_turn_that_are_short_beside_the_reads_have_no_energy_even_at_a_steady_mean() {
        let steady: Vec<Reading> = (0..=80).map(|n| (n * S / 4, n * 125_000)).collect();
        let of_step = |from: u64, to: u64| -> Vec<(u64, u64)> {
            (0..200).map(|n| n * S / 10).map(|at| (at + from, at + to)).collect()
        };
        for short in [of_step(0, S / 50), of_step(S / 50, S / 10)] {
            let error = of(&steady, &short).unwrap_err();
            assert!(matches!(error, Absent::EnergyUncertain { .. }), "{error}");
        }
        assert!(of(&steady, &[(S, 19 * S)]).is_ok());
    }

    #[test]
    fn what_cannot_be_known_has_its_reason() {
        let readings = steps(250);
        assert_eq!(of(&readings, &[(S, 2 * S - 1)]), Err(Absent::TooShortForEnergy));
        let why = |result: Result<Energy, Absent>| result.unwrap_err().to_string();
        assert!(why(of(&readings[..1], &[(S, 9 * S)])).contains("fewer than two reads"));
        assert!(why(of(&readings, &[(30 * S, 39 * S)])).contains("no read of the energy is near"));
        let backwards = [(0, 9_000), (S, 12_000), (2 * S, 500), (9 * S, 7_000)];
        assert!(why(of(&backwards, &[(S, 9 * S)])).contains("went backwards"));
        // Half of the windows lies behind the last read.
        assert!(why(of(&readings, &[(15 * S, 25 * S)])).contains("off by 50 %"));
    }
}
