//! The clock of the day, as other processes and files tell its time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Now, since 1970; zero where the clock is set before that.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
