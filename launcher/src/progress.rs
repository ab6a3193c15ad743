//! How far the reading of large captures is -> now and then a line on stderr.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use stage2_contract::text::numbers::count;
use stage2_read::progress::{self, Progress, Unit};

use crate::terminal::Terminal;

/// Reading that takes less is not spoken of.
const QUIET: Duration = Duration::from_secs(2);
/// Readings with a longer pause between them are two.
const PAUSE: Duration = Duration::from_secs(2);

/// Says from now on how far readings are, where the user wants to know.
pub(crate) fn show(terminal: Terminal) {
    let Some(interval) = terminal.progress_interval() else { return };
    let pace = Mutex::new(Pace::every(interval));
    progress::observe(move |progress| {
        let is_due = pace.lock().unwrap_or_else(PoisonError::into_inner).is_due(Instant::now());
        if is_due {
            terminal.milestone(&line(progress));
        }
    });
}

/// When a line is due. Several files may be read at the same time: they share the lines.
#[derive(Debug)]
struct Pace {
    interval: Duration,
    began: Option<Instant>,
    last_seen: Option<Instant>,
    last_line: Option<Instant>,
}

impl Pace {
    fn every(interval: Duration) -> Self {
        Pace { interval, began: None, last_seen: None, last_line: None }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let since = |then: Option<Instant>| then.map(|then| now.saturating_duration_since(then));
        if since(self.last_seen).is_none_or(|pause| pause > PAUSE) {
            self.began = Some(now);
        }
        self.last_seen = Some(now);
        let is_long = since(self.began).is_some_and(|taken| taken >= QUIET);
        let is_due = is_long && since(self.last_line).is_none_or(|ago| ago >= self.interval);
        if is_due {
            self.last_line = Some(now);
        }
        is_due
    }
}

fn line(progress: &Progress) -> String {
    let Progress { what, done, total, unit } = progress;
    let amount = |amount: u64| match unit {
        Unit::Bytes => count(amount >> 20),
        Unit::Rows => count(amount),
    };
    let unit = match unit {
        Unit::Bytes => "MiB",
        Unit::Rows => "rows",
    };
    let done_of = match total.filter(|total| total >= done) {
        Some(total) => format!("{} of {}", amount(*done), amount(total)),
        None => amount(*done),
    };
    format!("reading {what}: {done_of} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_at(interval_s: u64, milliseconds: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let (begun, mut pace) = (Instant::now(), Pace::every(Duration::from_secs(interval_s)));
        let due = |ms: &u64| pace.is_due(begun + Duration::from_millis(*ms));
        milliseconds.into_iter().filter(due).collect()
    }

    #[test]
    fn short_readings_say_nothing_and_long_ones_one_line_an_interval() {
        assert_eq!(lines_at(1, (0..2_000).step_by(10)), [0_u64; 0]);
        assert_eq!(lines_at(1, (0..4_500).step_by(500)), [2_000, 3_000, 4_000]);
        assert_eq!(lines_at(10, (0..25_000).step_by(500)), [2_000, 12_000, 22_000]);
        // Two short readings with a pass of the workload between them.
        assert_eq!(lines_at(1, (0..1_900).chain(60_000..61_900)), [0_u64; 0]);
        // Two long ones, the second right after a line of the first.
        let both = (0..2_100).step_by(100).chain((4_200..7_000).step_by(100));
        assert_eq!(lines_at(1, both), [2_000, 6_200]);
    }

    #[test]
    fn a_line_says_what_is_read_and_how_much_of_it() {
        let mut progress = Progress {
            what: "run.sqlite, table NVTX_EVENTS".to_owned(),
            done: 1_200_000,
            total: Some(16_000_000),
            unit: Unit::Rows,
        };
        assert_eq!(
            line(&progress),
            "reading run.sqlite, table NVTX_EVENTS: 1,200,000 of 16,000,000 rows"
        );
        // A file may lie about how much it has.
        progress.total = Some(7);
        assert_eq!(line(&progress), "reading run.sqlite, table NVTX_EVENTS: 1,200,000 rows");
        let (what, done, total) = ("node-1.s2t".to_owned(), 120 << 20, Some(840 << 20));
        let progress = Progress { what, done, total, unit: Unit::Bytes };
        assert_eq!(line(&progress), "reading node-1.s2t: 120 of 840 MiB");
    }
}
