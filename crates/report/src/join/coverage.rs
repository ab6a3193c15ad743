//! What every process recorded and lost -> coverage, with a verdict in plain language.

use std::collections::BTreeSet;

use super::findings::CHECKS;
use super::{META_INCOMPLETE, empty, is_simulated};
use stage2_contract::text::numbers::count;
use stage2_contract::text::visible;
use stage2_contract::trace::ending;
use stage2_model::{
    Coverage, CoverageCounts, Empty, FileEnding, META_SAMPLE, ProcessCoverage, Severity, Status,
    Verdict, WorkloadExit,
};
use stage2_read::trace::{Capture, META_GPU_OFF, META_PIECES_MISSING, ProcessCapture};

pub(crate) fn coverage(capture: &Capture) -> Coverage {
    let mut processes: Vec<ProcessCoverage> = capture.processes.iter().map(process).collect();
    for (known, one) in processes.iter_mut().zip(&capture.processes) {
        let cut = one.state.ending == FileEnding::Open && one.end.is_none();
        if cut && capture.processes.iter().any(|other| goes_on_in(one, other)) {
            known.end_reason = Some(described(ending::EXEC));
        }
    }
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

/// Whether a later file is of the same process: it became another program.
fn goes_on_in(one: &ProcessCapture, other: &ProcessCapture) -> bool {
    let who = |capture: &ProcessCapture| {
        capture.process.as_ref().map(|process| (process.pid, process.host.clone()))
    };
    let begins = |capture: &ProcessCapture| capture.first_anchor.map(|anchor| anchor.mono);
    begins(one) < begins(other)
        && begins(one).is_some()
        && who(one).is_some()
        && who(one) == who(other)
}

/// Why a process ended, for people.
fn described(reason: &str) -> String {
    match ending::signal_of(reason) {
        Some(signal) => WorkloadExit::Signal(signal).describe(),
        None if reason == ending::EXEC => "became another program (exec)".to_owned(),
        None => visible(reason.as_bytes()),
    }
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
        end_reason: capture.end.as_deref().map(described),
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
    let busy = capture.stages.values().map(|stage| stage.busy.all.late_intervals);
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
        let gaps = gaps.join("; ");
        let gaps = if gaps.is_empty() { gaps } else { format!(" ({gaps})") };
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
            "complete: no record is known to be lost, and every kernel record is attributed ({} GPU records in \
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
    let samples: BTreeSet<&str> = coverage
        .processes
        .iter()
        .filter_map(|p| p.meta.get(META_SAMPLE))
        .map(String::as_str)
        .collect();
    let samples = samples.into_iter().collect::<Vec<_>>().join(", ");
    let sampled = match samples.as_str() {
        "" => String::new(),
        _ => format!(
            "; SAMPLED {samples}: calls and totals are scaled from the recorded instances of each \
             range"
        ),
    };
    format!("{ranges}{sampled}")
}

/// What keeps the capture from being complete.
fn gaps(coverage: &Coverage) -> Vec<String> {
    let processes = |has: &dyn Fn(&ProcessCoverage) -> bool| {
        coverage.processes.iter().filter(|process| has(process)).count() as u64
    };
    // Without any GPU work that is the cause, not a gap.
    let off = |p: &ProcessCoverage| p.gpu_off.is_some() && coverage.gpu_records() > 0;
    let counted = CHECKS.iter().filter(|check| check.severity != Severity::Note);
    counted
        .map(|check| (check.what, (check.count)(&coverage.total)))
        .chain([
            (
                "processes killed or still running",
                processes(&|p| p.ending == FileEnding::Open && p.end_reason.is_none()),
            ),
            (
                "processes whose last records before an exec are missing",
                processes(&|p| p.ending == FileEnding::Open && p.end_reason.is_some()),
            ),
            ("spool files cut short", processes(&|p| p.ending == FileEnding::Torn)),
            (
                "spool files not readable to the end",
                processes(&|p| p.ending == FileEnding::Unreadable),
            ),
            ("spool files not readable at all", coverage.files_refused),
            ("processes whose GPU work was not recorded", processes(&off)),
            (
                "processes with pieces of their trace missing",
                processes(&|p| p.meta.contains_key(META_PIECES_MISSING)),
            ),
            (
                "processes whose GPU work is incomplete",
                processes(&|p| p.meta.contains_key(META_INCOMPLETE)),
            ),
        ])
        .filter(|&(_, number)| number > 0)
        .map(|(what, number)| format!("{what}: {}", count(number)))
        .collect()
}
