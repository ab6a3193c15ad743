//! How a change was judged, and the word for it: one number has one word on all surfaces.

use serde::{Deserialize, Serialize};

use crate::comparison::{is_nothing, signed};
use crate::noise::is_wide;
use stage2_contract::order::IntoOrdered as _;

/// What a comparison of two numbers comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No difference beyond noise, or the two do not compare.
    None,
    /// Larger after.
    Increased,
    /// Smaller after.
    Decreased,
    /// A side has no number.
    Unknown,
}

impl Verdict {
    /// Whether it is a difference beyond noise.
    pub fn is_change(self) -> bool {
        matches!(self, Verdict::Increased | Verdict::Decreased)
    }

    /// Whether a number moved this way by more than a threshold.
    pub(crate) fn is_beyond(self, change: f64, threshold: Option<f64>) -> bool {
        let is_same_way = match self {
            Verdict::Increased => change > 0.0,
            Verdict::Decreased => change < 0.0,
            Verdict::None | Verdict::Unknown => false,
        };
        is_same_way && threshold.is_some_and(|threshold| change.abs() > threshold)
    }
}

/// What decided on a change, in percent of the value before, or in percentage points of a share.
#[derive(Clone, Debug, PartialEq)]
pub enum NoiseText {
    /// Of one run per side, the noise: `± 7.0 %`.
    Within(String),
    /// Of several, the changes that they allow, and their unit: `[-45.1, -18.0]`, ` %`.
    Interval(String, &'static str),
    /// The number may be twice or half the other one.
    ExceedsValue,
}

impl std::fmt::Display for NoiseText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoiseText::Within(least) => write!(f, "± {least}"),
            NoiseText::Interval(ends, _) => f.write_str(ends),
            NoiseText::ExceedsValue => f.write_str("± over 2x"),
        }
    }
}

/// How the noise of a number is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoiseMethod {
    /// A side has no number.
    #[default]
    NotCompared,
    /// One run per side, and a number of many steps or calls: 5 % of the larger value, which is more than their noise.
    FivePercent,
    /// A side is a single run, which has one value of it: its noise only several runs show, and it is inconclusive.
    OneRunEach,
    /// One run per side: the noise of its steps or calls, which is larger than 5 %.
    Instances,
    /// A count that repeats exactly: any difference is one.
    Exact,
    /// Several runs: exact rank test (Mann-Whitney), two-sided, p of at most 0.05, and the difference
    /// is larger than 1 %.
    RankTest,
    /// Few runs, so that no rank test can reach 0.05, or too many for an exact one: the values of the
    /// sides lie apart by more than either side spreads, and the difference is larger than 1 %.
    Separation,
    /// One run against several: as for few runs, and the difference is larger than the noise within the single run and
    /// than 5 %.
    OneAgainstSeveral,
}

impl NoiseMethod {
    /// One run per side.
    pub fn is_of_two_runs(self) -> bool {
        use NoiseMethod::{Exact, FivePercent, Instances, OneRunEach};
        matches!(self, Exact | FivePercent | Instances | OneRunEach)
    }
}

/// What a difference was compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Noise {
    /// How the noise is known.
    pub method: NoiseMethod,
    /// Smaller differences count as none; in the unit of the number. Null: a side has no number.
    pub threshold: Option<f64>,
    /// Probability of such ranks if nothing changed; null: no rank test.
    pub p_value: Option<f64>,
    /// Whether what the runs show is less than counts: the least change, or the least part of the stage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub too_small: bool,
    /// Whether every change that the runs allow reads 0.0 %.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub equal: bool,
    /// Whether the sides are not comparable, so that nothing is judged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlike: bool,
    /// Whether the noise allows the number to be twice or half the one before, so that the runs do not tell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exceeds_value: bool,
    /// If a side is a single run: the noise within it, and within the runs that it is compared with, in the unit of the
    /// number; null: not known, or several runs per side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single: Option<f64>,
}

impl Noise {
    /// The noise of a number that was converted to another unit by this factor.
    pub(crate) fn times(self, scale: f64) -> Self {
        let scaled = |value: Option<f64>| value.map(|value| value * scale);
        Self { threshold: scaled(self.threshold), single: scaled(self.single), ..self }
    }

    /// What a part of the number has to change by at least; null: not known.
    pub(crate) fn least(self) -> Option<f64> {
        self.threshold.map(|threshold| threshold.max(self.single.unwrap_or(0.0)))
    }

    /// The noise of the whole number, for a part of it that has these values and did not change beyond it.
    pub(crate) fn of_part(self, sides: [f64; 2]) -> Self {
        let exceeds_value = self.threshold.is_some_and(|noise| is_wide(noise, sides));
        Self { exceeds_value, ..self }
    }

    /// Noise of which only the kind is known: another number decided.
    pub(crate) fn of_another(self) -> Self {
        Self { method: self.method, unlike: self.unlike, ..Self::default() }
    }

    /// The word for a change of a value that is none beyond noise. Nothing else chooses it, so that a number has one word
    /// on all surfaces.
    pub fn word(self, change: f64, before: f64) -> &'static str {
        let reads_zero = self.equal && change.abs() < READS_ZERO * before.abs();
        match () {
            () if change == 0.0 || reads_zero => "equal",
            () if self.unlike => NOT_COMPARABLE,
            () if !self.is_judged() => INCONCLUSIVE,
            () if self.too_small => "too small",
            () => "within noise",
        }
    }

    /// Whether the runs tell if a change is more than noise.
    pub fn is_judged(self) -> bool {
        self.method != NoiseMethod::OneRunEach && !self.exceeds_value && !self.unlike
    }

    /// Why they do not tell; nothing where they do.
    pub fn why_not_judged(self) -> Option<&'static str> {
        let is_range = matches!(self.method, NoiseMethod::RankTest | NoiseMethod::Separation);
        match (self.method, self.exceeds_value) {
            _ if self.unlike => Some(NOT_COMPARABLE),
            (NoiseMethod::OneRunEach, _) => Some("one value per run"),
            (_, true) if is_range => Some("interval reaches 2x"),
            (_, true) => Some("± over 2x"),
            (_, false) => None,
        }
    }
}

/// Reasons, each once: `one value per run, or ± over 2x`; nothing of none.
pub(crate) fn either(reasons: impl Iterator<Item = &'static str>) -> Option<String> {
    let reasons: std::collections::BTreeSet<&str> = reasons.into_set();
    let reasons: Vec<&str> = reasons.into_iter().rev().collect();
    (!reasons.is_empty()).then(|| reasons.join(", or "))
}

/// The word for a change that has another reason than the one that is asked for.
pub const NOT_COMPARABLE: &str = "not comparable";

/// The word of [`Noise::word`] for what the runs cannot tell.
pub(crate) const INCONCLUSIVE: &str = "inconclusive";

/// The word for what only the side before the change has.
pub const GONE: &str = "gone";

/// Share of a value from which its change reads as more than 0.0 %.
pub(crate) const READS_ZERO: f64 = 0.0005;

/// Whether no change is among those that several runs allow.
pub(crate) fn is_apart(interval: Option<[f64; 2]>) -> bool {
    interval.is_some_and(|[least, most]| least > 0.0 || most < 0.0)
}

/// `[-45.1, -18.0]`: with so many digits, and more if an end that is not 0 would read 0 next to a change.
pub fn ends_text(ends: [f64; 2], digits: usize) -> String {
    let is_shown = |digits: &usize| {
        !is_apart(Some(ends)) || ends.iter().all(|end| !is_nothing(&format!("{end:.*}", *digits)))
    };
    let digits = (digits..=MOST_DIGITS_OF_ENDS).find(is_shown).unwrap_or(digits);
    let [a, b] = ends.map(|end| signed(end, if end.abs() < LONG { digits } else { 0 }));
    format!("[{a}, {b}]")
}

/// Digits behind the point of the ends of an interval, at most.
const MOST_DIGITS_OF_ENDS: usize = 6;
/// From here on, digits behind the point say nothing.
const LONG: f64 = 1000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_excludes_0_does_not_read_0() {
        assert_eq!(ends_text([0.00023, 0.021], 3), "[+0.0002, +0.0210]");
        assert_eq!(ends_text([-0.01, 4.3], 1), "[0.0, +4.3]", "it does not exclude 0");
        assert_eq!(ends_text([-100.0, 424_757.7], 1), "[-100.0, +424,758]");
    }

    #[test]
    fn what_reads_0_has_one_word() {
        let of = |equal, too_small| Noise {
            method: NoiseMethod::RankTest,
            equal,
            too_small,
            ..Noise::default()
        };
        assert_eq!(of(true, true).word(0.0001, 60.0), "equal");
        assert_eq!(of(true, false).word(0.0, 60.0), "equal");
        assert_eq!(of(false, true).word(0.1, 60.0), "too small");
        let unlike = Noise { unlike: true, ..of(false, false) };
        assert_eq!(unlike.word(1.0, 60.0), NOT_COMPARABLE);
    }
}
