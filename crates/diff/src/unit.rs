//! The units of metrics, how their numbers are written, and which way they get better.

use serde::{Deserialize, Serialize};

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricUnit {
    /// Milliseconds.
    Ms,
    /// Percent; absolute changes are percentage points.
    Percent,
    /// A number of things.
    Count,
    /// Things per second.
    PerSecond,
    /// Joules.
    Joule,
    /// Watts.
    Watt,
    /// Megahertz.
    Mhz,
}

impl MetricUnit {
    /// As it follows a number.
    pub fn suffix(self) -> &'static str {
        match self {
            MetricUnit::Ms => " ms",
            MetricUnit::Percent => " %",
            MetricUnit::Count => "",
            MetricUnit::PerSecond => "/s",
            MetricUnit::Joule => " J",
            MetricUnit::Watt => " W",
            MetricUnit::Mhz => " MHz",
        }
    }

    /// Digits behind the point of a number of it.
    pub fn digits(self, value: f64) -> usize {
        match self {
            MetricUnit::Ms => 3,
            MetricUnit::Percent if value.abs() < 1.0 => 3,
            MetricUnit::Percent | MetricUnit::PerSecond => 1,
            MetricUnit::Joule => 3,
            MetricUnit::Watt | MetricUnit::Mhz => 0,
            MetricUnit::Count if value.fract() == 0.0 => 0,
            MetricUnit::Count => 2,
        }
    }

    /// As it follows a difference of two numbers.
    pub fn difference_suffix(self) -> &'static str {
        match self {
            MetricUnit::Percent => " points",
            unit => unit.suffix(),
        }
    }
}

/// Which way a metric gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither by itself.
    Neither,
}

/// A number with its sign; what rounds to nothing has none.
pub fn signed(value: f64, digits: usize) -> String {
    let text = format!("{value:+.digits$}");
    let bare = text.trim_start_matches(['+', '-']);
    if bare.chars().all(|c| c == '0' || c == '.') { bare.to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounds_to_nothing_has_no_sign() {
        assert_eq!(signed(-0.0001, 2), "0.00");
        assert_eq!(signed(0.5, 1), "+0.5");
        assert_eq!(signed(-12.0, 0), "-12");
    }
}
