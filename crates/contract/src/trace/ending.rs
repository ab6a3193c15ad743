//! What a trace file states about the end of its process.

/// Meta key: the process was about to end like that ([`EXEC`], [`of_signal`]), and everything before is in the
/// file. An empty value takes it back: the process went on. Where nothing follows, the process has ended so.
pub const ANNOUNCED: &str = "end.announced";
/// By becoming another program.
pub const EXEC: &str = "exec";
/// How an end by a signal begins; its number follows.
const SIGNAL: &str = "signal ";
/// Whether a process ended so suddenly that nobody closed its ranges.
pub fn is_abrupt(reason: &str) -> bool {
    reason == EXEC || signal_of(reason).is_some()
}

/// An end by this signal.
pub fn of_signal(signal: i32) -> String {
    format!("{SIGNAL}{signal}")
}

/// The signal of [`of_signal`].
pub fn signal_of(reason: &str) -> Option<i32> {
    reason.strip_prefix(SIGNAL)?.parse().ok()
}
