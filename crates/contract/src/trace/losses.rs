//! What a collector could not keep, by kind, and how such counts of several files add up.

/// Everything that was not kept, by kind. All are counts since the file was begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Activity records that CUPTI dropped (its own counter).
    pub cupti_dropped: u64,
    /// Times that no activity buffer was free when CUPTI asked for one.
    pub buffers_refused: u64,
    /// NVTX events that found the event queue full.
    pub range_events: u64,
    /// Kernel, copy and fill records whose launch could not be placed in or out of a range.
    pub unattributed: u64,
    /// Records without valid timestamps.
    pub invalid_timestamps: u64,
    /// Records that CUPTI handed over incomplete, because their work still ran, or that are of a kind or
    /// length that the collector does not read. Estimated where only their bytes are known.
    pub unreadable_records: u64,
    /// Pops and ends that matched no open range.
    pub unbalanced: u64,
    /// Ranges still open when the process ended.
    pub unclosed: u64,
    /// Range names that were cut at the length limit.
    pub names_cut: u64,
    /// Bytes that could not be written to the trace file (disk full, for instance).
    pub spool_bytes_unwritten: u64,
    /// Aggregates left out of the summary at exit because it keeps a bounded number of rows.
    pub aggregates_folded: u64,
    /// Ranges that were to be collected, and opened before collection was on: GPU work at their
    /// beginning has no record. Added later: 0 where a file does not tell.
    pub late_switches: u64,
    /// What came after the bounded tables of the collector were full, by the piece: domains,
    /// registered strings and nodes of CUDA graphs without their names, ranges nested too deep to
    /// be kept, start/end ranges whose end does not end collection. Added later, as above.
    pub beyond_limits: u64,
    /// NVTX calls that were not taken in because they came from inside another one on the same
    /// thread, or after the guest had jumped out of one. Added later, as above.
    pub calls_turned_away: u64,
}

impl Losses {
    /// The sum of two, kind by kind.
    #[must_use]
    pub fn plus(&self, more: &Self) -> Self {
        self.with(more, u64::saturating_add)
    }

    /// What came since it was `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn with(&self, other: &Self, of: fn(u64, u64) -> u64) -> Self {
        // All fields by name: one that is missing here is an error of the compiler.
        macro_rules! all {
            ($($name:ident),+ $(,)?) => { Self { $($name: of(self.$name, other.$name)),+ } };
        }
        all!(
            cupti_dropped,
            buffers_refused,
            range_events,
            unattributed,
            invalid_timestamps,
            unreadable_records,
            unbalanced,
            unclosed,
            names_cut,
            spool_bytes_unwritten,
            aggregates_folded,
            late_switches,
            beyond_limits,
            calls_turned_away,
        )
    }
}
