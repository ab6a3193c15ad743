//! The tool that each number of a report comes from.

use serde::{Deserialize, Serialize};

/// A tool that measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The collector: undisturbed durations of every launch.
    #[default]
    Collector,
    /// Nsight Systems.
    Nsys,
    /// Nsight Compute: replayed launches, at other clocks and with cold caches.
    Ncu,
}

impl Origin {
    /// Its name in reports.
    pub fn label(self) -> &'static str {
        match self {
            Origin::Collector => "collector",
            Origin::Nsys => "nsys",
            Origin::Ncu => "ncu",
        }
    }
}

/// Where the numbers of a row come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {
    /// Calls and durations.
    pub times: Origin,
    /// Counters; null where there are none.
    pub counters: Option<Origin>,
}

impl Sources {
    /// Both, for people: `collector, ncu`.
    pub fn label(&self) -> String {
        match self.counters {
            Some(counters) if counters != self.times => {
                format!("{}, {}", self.times.label(), counters.label())
            }
            _ => self.times.label().to_owned(),
        }
    }
}
