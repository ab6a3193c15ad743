//! Instances of a stage, or steps of it, that took so much longer than all others that they say nothing
//! about these: the rule, and what is known of them.

use serde::{Deserialize, Serialize};

use crate::answer::StepUnit;
use crate::rows::{BusyParts, WarmRow};
use crate::rule::OUTLIERS_AMONG;

/// One may be an outlier, and of many fewer than one in so many: more of them are how the program runs.
pub const OUTLIERS_ONE_IN: u64 = 20;
/// Of fewer, one that takes at least so many times the median is named: nothing is advised then.
pub const OUTLIER_OF_FEW_TIMES_MEDIAN: f64 = 10.0;
/// Outliers that are told one by one, in each process, and so the most that there can be.
pub const OUTLIERS_MOST: usize = 19;
/// An outlier takes at least so many times the median.
pub const OUTLIER_TIMES_MEDIAN: f64 = 4.0;
/// It lies beyond the third quartile by at least so many times the ratio of the quartiles: of a wide
/// spread, long times are a part.
pub const OUTLIER_QUARTILE_RATIOS: i32 = 3;
/// It takes at least so many times the longest of the others: a tail has no gap in it.
pub const OUTLIER_TIMES_NEXT: u64 = 3;
/// Outliers hold at least this part of the time, percent: less turns no share round.
pub const OUTLIERS_PERCENT: u64 = 10;

/// The outliers of a stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outliers {
    /// What the outliers are: instances of the stage, or of a range right within it.
    pub unit: StepUnit,
    /// Number of outliers.
    pub count: u64,
    /// Number of instances or steps that were looked at. The first, cold one of each process is left out, unless they
    /// are the steps of a stage that has one instance only.
    pub of: u64,
    /// Time of the outliers, ns. The time of an instance is its window without what lies in the windows of those
    /// that ended before it; the time of a step is its host time.
    pub time_ns: u64,
    /// Time of all instances, or steps, that were looked at, ns.
    pub of_ns: u64,
    /// Share of `time_ns` in `of_ns`, percent.
    pub percent: f64,
    /// Whether shares, gains and advice are without the outliers. Else what ran in them is not known, there are too few
    /// others, or some process has outliers of another kind: then they are in every number, and nothing
    /// is advised.
    pub left_out: bool,
    /// The GPU work in their time. Of steps, no instance is counted.
    pub gpu: WarmRow,
    /// The longest of them, in falling order of time.
    pub longest: Vec<Outlier>,
    /// Kernels in their time: index of the name, calls, and sum of the durations, ns.
    #[serde(skip)]
    pub kernels: Vec<(usize, u64, u64)>,
}

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outlier {
    /// Trace file of its process; of a job, says the rank.
    pub file: String,
    /// When it began, ns since the Unix epoch; null: not known.
    pub wall_ns: Option<i64>,
    /// Its time, ns.
    pub ns: u64,
    /// Of that, time without GPU work of the stage, ns; null: not known.
    pub idle_ns: Option<u64>,
    /// Its longest kernel, and how long that ran within it, ns.
    pub longest_kernel: Option<(String, u64)>,
}

impl Outliers {
    /// `times`, of all instances, without those of the outliers. Where these are steps, the others stand
    /// for them, so that the number of instances stays what it was.
    #[must_use]
    pub fn taken_from(&self, times: WarmRow) -> WarmRow {
        if !self.left_out {
            return times;
        }
        let (of, left) = match self.unit {
            StepUnit::Instance => (1, 1),
            _ => (self.of, self.of.saturating_sub(self.count)),
        };
        let rest = |all: u64, out: u64| {
            let rest = u128::from(all.saturating_sub(out)) * u128::from(of);
            u64::try_from(rest.checked_div(u128::from(left)).unwrap_or(0)).unwrap_or(u64::MAX)
        };
        let out = self.gpu;
        let parts = times.gpu_busy_parts.map(|all| {
            let out = out.gpu_busy_parts.unwrap_or_default();
            BusyParts {
                compute_ns: rest(all.compute_ns, out.compute_ns),
                communication_ns: rest(all.communication_ns, out.communication_ns),
                copies_ns: rest(all.copies_ns, out.copies_ns),
            }
        });
        // The parts make up the busy time, whatever was rounded.
        let busy_ns = parts.map(|parts| {
            parts.compute_ns.saturating_add(parts.communication_ns).saturating_add(parts.copies_ns)
        });
        let gpu_busy_ns = busy_ns.unwrap_or_else(|| rest(times.gpu_busy_ns, out.gpu_busy_ns));
        WarmRow {
            instances: times.instances.saturating_sub(out.instances),
            gpu_window_ns: rest(times.gpu_window_ns, out.gpu_window_ns).max(gpu_busy_ns),
            gpu_busy_ns,
            gpu_short_gaps_ns: rest(times.gpu_short_gaps_ns, out.gpu_short_gaps_ns),
            gpu_busy_parts: parts,
            kernels: rest(times.kernels, out.kernels),
        }
    }

    /// `times`, host or window of all instances, ns, without those of the outliers.
    pub fn without(&self, all_ns: u64) -> u64 {
        if self.left_out { all_ns.saturating_sub(self.gpu.gpu_window_ns) } else { all_ns }
    }

    /// `call` or `step`.
    pub fn unit_word(&self) -> &'static str {
        match self.unit {
            StepUnit::Instance => "call",
            _ => "step",
        }
    }

    /// By which rule they are told from the others.
    pub fn rule() -> String {
        format!(
            "An instance, or a step of a stage, that takes at least {OUTLIER_TIMES_MEDIAN} times the \
             median, that lies beyond the third quartile by at least the ratio of the quartiles to the \
             power of {OUTLIER_QUARTILE_RATIOS}, and at least {OUTLIER_TIMES_NEXT} times the longest of \
             the others. A process must have at least {OUTLIERS_AMONG} of them, and only one outlier, or \
                 fewer than 1 in {OUTLIERS_ONE_IN} and {OUTLIERS_MOST} at most; together the outliers hold \
                 at least {OUTLIERS_PERCENT} % of the time. Where only a sample of the instances was \
                 recorded, an outlier also takes at least {OUTLIER_TIMES_NEXT} times the host time that 1 in \
                 {OUTLIERS_ONE_IN} of all instances exceeds"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(instances: u64, by: u64) -> WarmRow {
        WarmRow {
            instances,
            gpu_window_ns: 100 * by,
            gpu_busy_ns: 60 * by,
            gpu_short_gaps_ns: 10 * by,
            gpu_busy_parts: Some(BusyParts {
                compute_ns: 50 * by,
                communication_ns: 7 * by,
                copies_ns: 3 * by,
            }),
            kernels: 5 * by,
        }
    }

    #[test]
    fn instances_are_taken_out_and_steps_are_replaced_by_the_others() {
        let outliers = Outliers { count: 1, of: 11, left_out: true, ..Outliers::default() };
        let instance = Outliers { gpu: row(1, 4), ..outliers.clone() };
        assert_eq!(instance.taken_from(row(11, 14)), row(10, 10));
        assert_eq!(instance.without(1_400), 1_000);
        let step = Outliers { unit: StepUnit::RangeWithin, gpu: row(0, 4), ..outliers };
        assert_eq!(step.taken_from(row(2, 14)), row(2, 11), "11 steps in 2 instances");
        let known = Outliers { left_out: false, ..step };
        assert_eq!((known.taken_from(row(2, 14)), known.without(9)), (row(2, 14), 9));
    }

    #[test]
    fn what_is_left_holds_its_busy_time() {
        let outliers = Outliers {
            gpu: WarmRow { gpu_window_ns: 1_300, ..row(1, 1) },
            left_out: true,
            ..Outliers::default()
        };
        let left = outliers.taken_from(row(11, 14));
        assert_eq!((left.gpu_window_ns, left.gpu_busy_ns), (780, 780));
    }
}
