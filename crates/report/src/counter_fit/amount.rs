//! What a fit says: amounts with their spread, or why there are none.

use std::fmt;

use crate::counter_fit::kinds::Column;
use crate::counter_fit::placing::Counts;
use crate::counter_fit::shift::Shift;

/// Why an amount is not given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// No sample that is part of the fit holds this work.
    NoSamples,
    /// So few samples hold this work, or so few of the stage there are, that no spread is known.
    TooFewSamples {
        /// The number of samples.
        samples: u64,
    },
    /// The counter has no value in the samples, or lacks values where most counters have them.
    NoCounter,
    /// Other columns rise and fall with this one; the total of the group is known at best.
    Collinear {
        /// The position in [`CounterFit::groups`].
        group: usize,
    },
    /// Half the 90 % interval is more than 10 % of the amount.
    TooUncertain {
        /// Half the interval in percent of the amount.
        percent: f64,
    },
    /// Work runs all the time, so that samples do not tell the background from it. The fit took what
    /// the counter gains while the device is idle.
    NeverIdle,
    /// The solver did not come to an end. Nothing is known about the amount.
    Unsolved,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoSamples => f.write_str("no sample holds this work alone"),
            Self::TooFewSamples { samples } => write!(f, "only {samples} samples hold this work"),
            Self::NoCounter => f.write_str("the samples lack this counter"),
            Self::Collinear { .. } => {
                f.write_str("it always runs together with others; only their total can be known")
            }
            Self::TooUncertain { percent } => {
                write!(f, "it is only known to {percent:.0} %, and more than 10 % says little")
            }
            Self::NeverIdle => f.write_str("work runs all the time, which hides the background"),
            Self::Unsolved => f.write_str("the fit did not come to an end"),
        }
    }
}

/// An amount in the unit of its counter, with the interval that holds the truth in 90 % of all cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// It is known to 10 % or better.
    Value {
        /// The amount.
        amount: f64,
        /// The lower end of the 90 % interval.
        low: f64,
        /// The upper end of the 90 % interval.
        high: f64,
    },
    /// It is at most 1 % of the stage's total, or the fit puts it at zero: only its upper end says
    /// something.
    AtMost {
        /// The upper end of the 90 % interval.
        limit: f64,
    },
    /// It is not known.
    Unknown(Reason),
}

impl Amount {
    /// The amount, where it is known.
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Value { amount, .. } => Some(amount),
            Self::AtMost { .. } | Self::Unknown(_) => None,
        }
    }
}

/// The fit of one column for one counter.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnFit {
    /// What it stands for.
    pub column: Column,
    /// Its calls in the stage, all of them.
    pub calls: u64,
    /// The calls that lie within fitted samples; a call at the edge counts by its share.
    pub sampled_calls: f64,
    /// The fitted samples that hold it.
    pub samples: u64,
    /// The amount per call.
    pub amount: Amount,
    /// The 90 % interval per call, as solved, whatever `amount` says; `None` where nothing was solved.
    pub interval: Option<(f64, f64)>,
}

/// Columns that cannot be told apart.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupFit {
    /// Its members, as positions in [`CounterFit::columns`].
    pub members: Vec<usize>,
    /// The amount of all calls of all members in the whole stage.
    pub total: Amount,
}

/// The fit of one stage for one counter.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterFit {
    /// The position of the counter in the samples.
    pub counter: usize,
    /// The samples of the fit.
    pub samples: u64,
    /// How long these samples last together, in seconds.
    pub seconds: f64,
    /// What the counter gained within them.
    pub measured: f64,
    /// How much of that the fit explains.
    pub explained: Option<f64>,
    /// The share of the samples' variance that the fit explains, 0 to 1.
    pub r2: Option<f64>,
    /// The root of the mean square of what the fit leaves of a sample, in the counter's unit.
    pub residual: Option<f64>,
    /// What the device gains for every second, whatever runs.
    pub background: Amount,
    /// The amounts per call, the kinds that ran longest first.
    pub columns: Vec<ColumnFit>,
    /// The columns that cannot be told apart.
    pub groups: Vec<GroupFit>,
}

/// The fits of one stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageFit {
    /// The stage's number, as in [`Kernel::stage`](crate::counter_fit::Kernel::stage).
    pub stage: u32,
    /// One for each counter of the samples.
    pub counters: Vec<CounterFit>,
}

/// What a counter gained while no work of ours ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IdleTraffic {
    /// How long the samples within which nothing ran last together, in seconds.
    pub seconds: f64,
    /// What the counter gained within them.
    pub amount: f64,
}

/// All that the samples of a device say about the kernels that ran there.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// By how much times were moved.
    pub shift: Shift,
    /// The fits, in the order of the stages' numbers. Stages without a sample of their own have
    /// amounts that say so.
    pub stages: Vec<StageFit>,
    /// For each counter.
    pub idle: Vec<IdleTraffic>,
    /// What became of the kernels.
    pub counts: Counts,
}
