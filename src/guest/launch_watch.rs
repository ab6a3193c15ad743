//! Kernel launches into a count, while CUPTI brings no records: whether these are missing or there are none.
//!
//! The drain thread switches the watch on where CUPTI neither asked for a buffer nor handed one back for a
//! while, and off at the next one that it does; a range whose collection CUPTI refuses switches it off, too. So guest threads pay nothing while records come, and a
//! program that launches nothing never calls us. Only launches count that must make a record: that went
//! well, were not captured into a graph, and during all of which collection was on.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

thread_local! {
    /// The turn of collection when the calling thread began to launch a kernel; `None` outside of a launch,
    /// while collection is off, and where the launch becomes a node of a graph.
    static BEGUN: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The watch.
#[derive(Debug, Default)]
pub struct LaunchWatch {
    on: AtomicBool,
    launches: AtomicU64,
}

impl LaunchWatch {
    /// Counts from now on, from 0, or no longer. The count stays.
    pub fn set(&self, on: bool) {
        if on {
            self.launches.store(0, Ordering::Relaxed);
        }
        self.on.store(on, Ordering::Release);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Launches so far.
    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::Acquire)
    }

    /// The calling thread begins to launch a kernel. `turn`: of collection, if that is on.
    pub(crate) fn begins(&self, turn: Option<u64>) {
        let _ = BEGUN.try_with(|begun| begun.set(turn));
    }

    pub(crate) fn ends(&self, turn: Option<u64>, went_well: bool) {
        let begun = BEGUN.try_with(Cell::take).ok().flatten();
        if went_well && begun.is_some() && begun == turn {
            self.launches.fetch_add(1, Ordering::Release);
        }
    }
}

/// The launch of the calling thread makes no record.
pub(crate) fn forget() {
    let _ = BEGUN.try_with(Cell::take);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(body: impl FnOnce(&LaunchWatch)) -> u64 {
        let watch = LaunchWatch::default();
        watch.set(true);
        body(&watch);
        watch.launches()
    }

    #[test]
    fn only_launches_count_that_must_make_a_record() {
        let launch = |before, after, went_well| {
            counted(|watch| {
                watch.begins(before);
                watch.ends(after, went_well);
            })
        };
        assert_eq!(launch(Some(3), Some(3), true), 1);
        assert_eq!(launch(Some(3), Some(3), false), 0, "it failed");
        assert_eq!(launch(None, None, true), 0, "collection was off");
        assert_eq!(launch(None, Some(3), true), 0, "it went on meanwhile");
        assert_eq!(launch(Some(3), None, true), 0, "it went off meanwhile");
        assert_eq!(launch(Some(3), Some(5), true), 0, "it was off in between");
        let captured = |watch: &LaunchWatch| {
            watch.begins(Some(3));
            forget();
            watch.ends(Some(3), true);
        };
        assert_eq!(counted(captured), 0, "it became a node");
        assert_eq!(counted(|watch| watch.ends(Some(3), true)), 0, "the watch began in a launch");
    }

    #[test]
    fn each_watch_counts_from_0_and_its_count_stays() {
        let watch = LaunchWatch::default();
        watch.set(true);
        watch.begins(Some(0));
        watch.ends(Some(0), true);
        watch.set(false);
        assert_eq!((watch.is_on(), watch.launches()), (false, 1));
        watch.set(true);
        assert_eq!((watch.is_on(), watch.launches()), (true, 0));
    }
}
