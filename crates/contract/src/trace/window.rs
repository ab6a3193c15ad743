//! Facts of a trace file about the window of recording that it holds.

/// Meta key: its number in the process, from 1. Absent: the process was recorded from its first call on.
pub const NUMBER: &str = "window";
/// Meta key: how it began; [`START`] where someone asked for it while the process ran.
pub const BEGAN: &str = "window.began";
/// Value of [`BEGAN`].
pub const START: &str = "start";
/// Meta key: why it ended.
pub const ENDED: &str = "window.ended";
/// Value of [`ENDED`] where the process ended; after every other end it went on.
pub const EXIT: &str = "exit";
/// Meta key: the moment that was set for its beginning, ns since the Unix epoch.
pub const AT: &str = "window.at_unix_ns";
/// Meta key: how much later than [`AT`] it began, ns.
pub const LATE: &str = "window.late_ns";
/// A window that is late by at least so much is reported, ns: a step can be this short.
pub const LATE_FROM_NS: u64 = 1_000_000;
/// Meta key: how long CUPTI took to start, ns, where it started for this window. Launches may wait for it.
pub const CUPTI_START: &str = "window.cupti_start_ns";
/// Meta key: when its first step opened, ns since the Unix epoch, where a moment was set. Steps are what limits
/// of steps count.
pub const FIRST_STEP: &str = "window.first_step_unix_ns";
/// Meta key: how long that step was open, ns.
pub const FIRST_STEP_NS: &str = "window.first_step_ns";

/// The first steps of windows that began together, as processes tell of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstSteps {
    /// From the opening of the earliest one to that of the latest one, ns.
    pub apart_ns: u64,
    /// How long the shortest one was open, ns.
    pub shortest_ns: u64,
}

impl FirstSteps {
    /// From when each opened (on one clock) and how long it was open, ns. `None` for less than two.
    pub fn of(steps: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        let steps: Vec<(u64, u64)> = steps.into_iter().collect();
        let opened = || steps.iter().map(|(opened, _)| *opened);
        let apart_ns = opened().max()? - opened().min()?;
        let shortest_ns = steps.iter().map(|(_, ns)| *ns).min()?;
        (steps.len() > 1).then_some(FirstSteps { apart_ns, shortest_ns })
    }

    /// Whether they can be the same step everywhere: ranks that exchange data in each step are never half
    /// a step apart.
    pub fn are_one(&self) -> bool {
        self.apart_ns <= self.shortest_ns / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_steps_are_one_while_they_are_less_than_half_a_step_apart() {
        assert_eq!(FirstSteps::of([]), None);
        assert_eq!(FirstSteps::of([(5, 100)]), None);
        let steps = |apart: u64| FirstSteps::of([(1000 + apart, 90), (1000, 120), (1000, 100)]);
        assert_eq!(steps(45), Some(FirstSteps { apart_ns: 45, shortest_ns: 90 }));
        assert!(steps(45).is_some_and(|steps| steps.are_one()));
        assert!(steps(46).is_some_and(|steps| !steps.are_one()));
    }
}
