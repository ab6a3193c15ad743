//! What was seen and what was lost, counted where it happens, on any thread, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use stage2_contract::trace::Losses;

/// One number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn increment(&self) {
        self.add(1);
    }

    /// Counts one, and gives the count with it.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Counts `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Replaces the count by a total that is kept elsewhere.
    pub fn set(&self, total: u64) {
        self.0.store(total, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one process, with their reset: each name stands here once.
macro_rules! counters {
    (
        of_the_file { $($(#[$meta:meta])* $name:ident,)+ }
        others { $($(#[$other_meta:meta])* $other:ident,)+ }
    ) => {
        /// The counters of one process. [`Losses`] states what each means.
        #[derive(Debug, Default)]
        #[allow(missing_docs, reason = "the fields are those of Losses")]
        pub struct Counters {
            $($(#[$meta])* pub $name: Counter,)+
            $($(#[$other_meta])* pub $other: Counter,)+
        }

        impl Counters {
            /// Begins again, for the next window of the process.
            pub fn reset(&self) {
                $(self.$name.set(0);)+
                $(self.$other.set(0);)+
            }

            /// The losses so far, as the trace file keeps them.
            pub fn losses(&self) -> Losses {
                Losses { $($name: self.$name.get(),)+ }
            }
        }
    };
}

counters! {
    of_the_file {
        cupti_dropped,
        buffers_refused,
        range_events,
        unattributed,
        invalid_timestamps,
        /// Estimated where whole stretches of a buffer cannot be read.
        unreadable_records,
        unbalanced,
        unclosed,
        names_cut,
        spool_bytes_unwritten,
        aggregates_folded,
        /// Wanted ranges that were opened while another thread was slow to switch collection on, or that CUPTI
        /// refused to switch it on for.
        late_switches,
        beyond_limits,
        calls_turned_away,
    }
    others {
        /// GPU records that were placed in a range or known to be outside of all.
        attributed,
        /// At the end CUPTI did not hand its records to us: 1, and how many are missing is not known.
        incomplete,
        /// Payload fields, or whole payloads, that were left out: behind pointers, of kinds that are
        /// not read, beyond what is kept, or contrary to their schema. The trace file has it as a fact.
        range_fields,
        /// GPU records left out because `STAGE2_RANGES` does not ask for them.
        filtered,
        /// Calls that may block and were too short to be kept.
        short_calls,
        /// Calls that found the event queue full.
        lost_calls,
    }
}

impl Counters {
    /// Records and events that were lost so far, of every kind. A loss of unknown size counts once.
    pub fn lost(&self) -> u64 {
        let kinds = [
            &self.cupti_dropped,
            &self.range_events,
            &self.unreadable_records,
            &self.late_switches,
            &self.beyond_limits,
            &self.calls_turned_away,
            &self.incomplete,
        ];
        let unwritten = u64::from(self.spool_bytes_unwritten.get() > 0);
        kinds.into_iter().map(Counter::get).sum::<u64>() + unwritten
    }
}
