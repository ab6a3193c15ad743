//! Numbers of groups -> the numbers of rows: means, medians and shares that never divide by zero.

use crate::load::stats::Stats;
use stage2_model::Times;

/// The times of a row.
pub(crate) fn times(stats: &Stats) -> Times {
    Times {
        calls: stats.calls,
        recorded_calls: stats.recorded.map(|recorded| recorded.calls),
        invalid_timestamp_calls: stats.untimed,
        graph_calls: stats.graph_calls,
        total_ns: stats.total_ns,
        mean_ns: stats.mean_ns(),
        min_ns: stats.min_ns,
        p50_ns: stats.percentile_ns(50),
        p99_ns: stats.percentile_ns(99),
        max_ns: stats.max_ns,
        first_start_gpu_ns: stats.first_start_ns,
        last_end_gpu_ns: stats.last_end_ns,
    }
}

/// `part` of `whole` in percent; nothing of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_nothing_are_absent() {
        assert_eq!(percent(1, 0), None);
        assert_eq!(percent(1, 4), Some(25.0));
    }
}
