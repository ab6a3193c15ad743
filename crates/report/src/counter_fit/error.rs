//! What a caller can do wrong.

use thiserror::Error;

/// Why the fit does not accept what it was given.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FitError {
    /// A sample does not have one value for each counter.
    #[error(
        "a sample has {found} values, but {expected} counters were named: pass NaN for a value that is missing"
    )]
    WrongWidth {
        /// The number of counters.
        expected: usize,
        /// The number of values in the sample.
        found: usize,
    },
    /// There are more counters than the fit is made for.
    #[error(
        "{found} counters are more than the {limit} that one fit takes: split them over several fits"
    )]
    TooManyCounters {
        /// The number of counters that were named.
        found: usize,
        /// The largest number of counters.
        limit: usize,
    },
}
