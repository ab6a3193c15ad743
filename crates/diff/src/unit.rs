//! The units of metrics, and which way they get better.

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
