//! What every process recorded and lost -> coverage, with a verdict in plain language.

use std::collections::BTreeSet;

use super::{META_INCOMPLETE, empty, is_simulated};
use crate::load::{Capture, META_GPU_OFF, ProcessCapture};
use stage2_model::{
    Coverage, CoverageCounts, Empty, FileEnding, META_SAMPLE, ProcessCoverage, Status, Verdict,
};
use stage2_text::numbers::count;
use stage2_text::visible;

/// The coverage of a capture.
pub(crate) fn coverage(capture: &Capture) -> Coverage {
    let processes: Vec<ProcessCoverage> = capture.processes.iter().map(process).collect();
    let mut total = CoverageCounts::default();
    processes.iter().for_each(|process| total.add(&process.counts));
    let files_refused = capture.files_refused;
    let mut coverage =
        Coverage { verdict: Verdict::default(), empty: None, total, files_refused, processes };
    coverage.verdict = verdict(&coverage);
    if coverage.verdict.status == Status::Empty {
        coverage.empty = Empty::of(empty::of_capture(capture));
    }
    coverage
}

fn process(capture: &ProcessCapture) -> ProcessCoverage {
    let who = capture.process.as_ref();
    let text = |value: &str| visible(value.as_bytes());
    ProcessCoverage {
        file: capture.file.clone(),
        pid: who.map(|p| p.pid),
        ppid: who.map(|p| p.ppid),
        host: who.map(|p| text(&p.host)),
        exe: who.map(|p| text(&p.exe)),
        argv: who.map(|p| p.argv.iter().map(|word| text(word)).collect()),
        collector: who.map(|p| text(&p.collector)),
        simulated: is_simulated(capture),
        gpu_off: capture.meta.get(META_GPU_OFF).map(|reason| text(reason)),
        ending: capture.state.ending,
        end_reason: capture.end.as_deref().map(text),
        anchors: capture.anchors,
        meta: capture.meta.iter().map(|(key, value)| (text(key), text(value))).collect(),
        file_state: capture.state.clone(),
        undefined: capture.undefined,
        counts: counts(capture),
    }
}

fn counts(capture: &ProcessCapture) -> CoverageCounts {
    let (counts, losses, state) = (&capture.counts, &capture.losses, &capture.state);
    let still_open = capture.path_times.values().fold(0, |sum, times| sum + times.unclosed);
    let busy = capture.stages.values().map(|stage| stage.busy.late_intervals);
    CoverageCounts {
        kernels: counts.kernels,
        copies: counts.copies,
        fills: counts.fills,
        graph_launches: counts.graph_launches,
        attributed: counts.attributed,
        outside_ranges: counts.outside_ranges,
        in_library_ranges: counts.in_library_ranges,
        unattributed: counts.unattributed,
        invalid_timestamps: counts.invalid_timestamps,
        dropped_by_cupti: losses.cupti_dropped,
        buffers_refused: losses.buffers_refused,
        range_events_lost: losses.range_events,
        unreadable_records: losses.unreadable_records,
        spool_bytes_unwritten: losses.spool_bytes_unwritten,
        corrupt_frames: state.corrupt_frames,
        torn_bytes: state.torn_bytes,
        undefined_identifiers: capture.undefined.total(),
        ranges: counts.ranges,
        marks: counts.marks,
        unbalanced_range_ends: losses.unbalanced,
        unclosed_ranges: still_open.max(losses.unclosed),
        open_at_end: capture.open_at_end,
        contradicting_ranges: capture.faults.contradicting,
        names_cut: losses.names_cut,
        late_intervals: busy.fold(0, u64::saturating_add),
        late_switches: losses.late_switches,
        beyond_limits: losses.beyond_limits,
        calls_turned_away: losses.calls_turned_away,
        summary_rows_folded: losses.aggregates_folded,
    }
}

fn verdict(coverage: &Coverage) -> Verdict {
    let gaps = gaps(coverage);
    let records = coverage.gpu_records();
    let total = &coverage.total;
    let part = part(coverage);
    if records == 0 {
        // `empty::explain` adds the cause.
        let gaps = match gaps.is_empty() {
            true => String::new(),
            false => format!(" ({})", gaps.join("; ")),
        };
        let text = format!("{}{gaps}{part}", empty::EMPTY);
        return Verdict { status: Status::Empty, text };
    }
    if gaps.is_empty() {
        // Nobody looks outside where only ranges are asked for.
        let in_part = coverage.processes.iter().all(ProcessCoverage::is_in_part);
        let outside = match in_part && total.outside_ranges == 0 {
            true => String::new(),
            false => format!(", {} outside of ranges", count(total.outside_ranges)),
        };
        let libraries = match total.in_library_ranges {
            0 => String::new(),
            number => format!(", {} of them in ranges of libraries", count(number)),
        };
        let text = format!(
            "complete: every kernel record that CUPTI delivered is attributed ({} GPU records in \
             ranges{outside}{libraries}){part}",
            count(total.attributed),
        );
        return Verdict { status: Status::Complete, text };
    }
    let text = format!("PARTIAL, with {} GPU records: {}{part}", count(records), gaps.join("; "));
    Verdict { status: Status::Partial, text }
}

/// What has to be known of a part of a run before any number is read.
fn part(coverage: &Coverage) -> String {
    let ranges = coverage.ranges().map_or_else(String::new, |ranges| {
        format!("; COLLECTED ONLY in {ranges}: GPU work elsewhere is in no number")
    });
    format!("{ranges}{}", sampled(coverage))
}

fn sampled(coverage: &Coverage) -> String {
    let samples: BTreeSet<&str> = coverage
        .processes
        .iter()
        .filter_map(|p| p.meta.get(META_SAMPLE))
        .map(String::as_str)
        .collect();
    if samples.is_empty() {
        return String::new();
    }
    let samples = samples.into_iter().collect::<Vec<_>>().join(", ");
    format!(
        "; SAMPLED {samples}: calls and totals are scaled from the recorded instances of each range"
    )
}

/// What keeps the capture from being complete.
fn gaps(coverage: &Coverage) -> Vec<String> {
    let total = &coverage.total;
    let ended = |ending| coverage.processes.iter().filter(|p| p.ending == ending).count() as u64;
    let off = coverage.processes.iter().filter(|p| p.gpu_off.is_some()).count() as u64;
    let incomplete =
        coverage.processes.iter().filter(|p| p.meta.contains_key(META_INCOMPLETE)).count() as u64;
    let off = if coverage.gpu_records() > 0 { off } else { 0 };
    [
        ("GPU records that could not be attributed", total.unattributed),
        ("GPU records without valid timestamps (counted, not timed)", total.invalid_timestamps),
        ("activity records dropped by CUPTI", total.dropped_by_cupti),
        ("activity buffers refused", total.buffers_refused),
        ("range events lost", total.range_events_lost),
        ("ranges opened before collection was on", total.late_switches),
        ("ranges or names beyond what is kept", total.beyond_limits),
        ("NVTX calls not taken in", total.calls_turned_away),
        ("activity records incomplete or unreadable (about)", total.unreadable_records),
        ("bytes not written to the spool", total.spool_bytes_unwritten),
        ("damaged frames in spool files", total.corrupt_frames),
        ("uses of identifiers that no record defines", total.undefined_identifiers),
        ("GPU records too late to enter busy time exactly", total.late_intervals),
        ("processes killed or still running", ended(FileEnding::Open)),
        ("spool files cut short", ended(FileEnding::Torn)),
        ("spool files not readable to the end", ended(FileEnding::Unreadable)),
        ("spool files not readable at all", coverage.files_refused),
        ("the workload's ranges open at its end", total.open_at_end),
        ("processes whose GPU work was not recorded", off),
        ("processes whose GPU work is incomplete", incomplete),
    ]
    .into_iter()
    .filter(|&(_, number)| number > 0)
    .map(|(what, number)| format!("{what}: {}", count(number)))
    .collect()
}
