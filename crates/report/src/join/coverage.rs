//! What every process recorded and lost -> coverage with a verdict in plain language, and findings: what is
//! missing, why, and what to do about it.

use std::collections::{BTreeMap, BTreeSet};

use crate::join::{META_INCOMPLETE, empty, is_simulated};
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::numbers::{count, ms3};
use stage2_contract::text::{listed, visible};
use stage2_contract::trace::pieces::ROTATE;
use stage2_contract::trace::window::{self, FirstSteps};
use stage2_contract::trace::{GPU_OFF, ending};
use stage2_model::finding::Id;
use stage2_model::{
    Coverage, CoverageCounts, DeviceRow, Empty, FileEnding, Finding, META_SAMPLE, ProcessCoverage,
    Severity, Status, Verdict, WorkloadExit,
};
use stage2_read::trace::ranges::PathTimes;
use stage2_read::trace::stats::Sampled;
use stage2_read::trace::{Capture, META_GPU_OFF, META_PIECES_MISSING, ProcessCapture};

pub(super) fn coverage(capture: &Capture) -> Coverage {
    let mut processes: Vec<ProcessCoverage> = capture.processes.iter().map(process).collect();
    for (known, one) in processes.iter_mut().zip(&capture.processes) {
        let cut = one.state.ending == FileEnding::Open && one.end.is_none();
        if cut && capture.processes.iter().any(|other| goes_on_in(one, other)) {
            known.end_reason = Some(describe_ending(ending::EXEC));
        }
    }
    let mut total = CoverageCounts::default();
    processes.iter().for_each(|process| total.add(&process.counts));
    let files_refused = capture.files_refused;
    let mut coverage =
        Coverage { verdict: Verdict::default(), empty: None, total, files_refused, processes };
    coverage.verdict = verdict(&coverage, &paused(&capture.processes));
    if coverage.verdict.status == Status::Empty {
        coverage.empty = Empty::of(empty::of_capture(capture));
    }
    coverage
}

/// Whether a later file is of the same process: it became another program.
fn goes_on_in(one: &ProcessCapture, other: &ProcessCapture) -> bool {
    let Some((a, b)) = one.process.as_ref().zip(other.process.as_ref()) else { return false };
    let begins = |capture: &ProcessCapture| capture.first_anchor.map(|anchor| anchor.mono);
    let is_later = begins(one).is_some() && begins(one) < begins(other);
    is_later && (a.pid, &a.host) == (b.pid, &b.host)
}

/// Why a process ended, for people.
fn describe_ending(reason: &str) -> String {
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
        end_reason: capture.end.as_deref().map(describe_ending),
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

fn verdict(coverage: &Coverage, paused: &str) -> Verdict {
    let (gaps, part) = (gaps(coverage).join("; "), part(coverage) + paused);
    let records = coverage.gpu_records();
    let total = &coverage.total;
    if records == 0 {
        // `empty::explain` adds the cause.
        let gaps = if gaps.is_empty() { gaps } else { format!(" ({gaps})") };
        let text = format!("{}{gaps}{part}", empty::EMPTY);
        return Verdict { status: Status::Empty, text };
    }
    if gaps.is_empty() {
        // Nobody looks outside where only ranges are asked for.
        let in_part = coverage.processes.iter().all(ProcessCoverage::is_in_part);
        let mut text = format!(
            "complete: no known lost records, and every kernel record is attributed ({} GPU records in \
             ranges",
            count(total.attributed),
        );
        if !in_part || total.outside_ranges > 0 {
            let whose =
                if total.in_library_ranges > 0 { "the workload's ranges" } else { "ranges" };
            text += &format!(", {} outside of {whose}", count(total.outside_ranges));
        }
        if total.in_library_ranges > 0 {
            text += &format!(", {} of them in ranges of libraries", count(total.in_library_ranges));
        }
        return Verdict { status: Status::Complete, text: format!("{text}){part}") };
    }
    let text = format!("PARTIAL, with {} GPU records: {gaps}{part}", count(records));
    Verdict { status: Status::Partial, text }
}

/// What has to be known of a part of a run before any number is read.
fn part(coverage: &Coverage) -> String {
    let mut part = String::new();
    if let Some(ranges) = coverage.ranges() {
        part = format!("; COLLECTED ONLY in {ranges}: GPU work elsewhere is in no number");
    }
    let samples = coverage.processes.iter().filter_map(|p| p.meta.get(META_SAMPLE));
    let samples: BTreeSet<&str> = samples.map(String::as_str).into_set();
    let samples = samples.into_iter().collect::<Vec<_>>().join(", ");
    if !samples.is_empty() {
        part += &format!(
            "; SAMPLED {samples}: calls and totals are scaled from the recorded instances of each \
             range"
        );
    }
    part
}

/// How much of the processes was recorded, where that was stopped while they ran: of the one that lacks most. Of a
/// window that was asked for, no more is expected.
fn paused(all: &[ProcessCapture]) -> String {
    let mut windows: BTreeMap<(&[u8], u32), Vec<&ProcessCapture>> = BTreeMap::new();
    for process in all.iter().filter(|process| process.meta.contains_key(window::NUMBER)) {
        if let Some(who) = &process.process {
            windows.entry((who.host.as_bytes(), who.pid)).or_default().push(process);
        }
    }
    let paused = windows.into_values().filter_map(|windows| {
        let extents: Vec<(u64, u64)> = windows.iter().filter_map(|of| of.host_extent.0).collect();
        let (first, last) =
            (extents.iter().map(|of| of.0).min()?, extents.iter().map(|of| of.1).max()?);
        let recorded_ns = extents.iter().fold(0u64, |sum, of| sum.saturating_add(of.1 - of.0));
        let (all_ns, is_from_start) =
            (last - first, windows.iter().any(|of| !of.meta.contains_key(window::BEGAN)));
        let goes_on = |of: &&&ProcessCapture| {
            of.meta.get(window::ENDED).is_some_and(|why| why != window::EXIT)
        };
        let is_last = |of: &&&ProcessCapture| of.host_extent.0.is_some_and(|of| of.1 == last);
        let stops = windows.iter().filter(is_last).any(|of| goes_on(&of));
        let text = match windows.len() {
            1 if is_from_start && stops => format!(
                "RECORDED ONLY the first {:.1} s: recording was stopped, and the process went on",
                recorded_ns as f64 / 1e9
            ),
            1 => return None,
            some => format!(
                "RECORDED ONLY {:.1} of {:.1} s, in {some} windows: recording was stopped in between",
                recorded_ns as f64 / 1e9,
                all_ns as f64 / 1e9
            ),
        };
        Some((all_ns.saturating_sub(recorded_ns), text))
    });
    let worst = paused.max_by_key(|(missing_ns, _)| *missing_ns);
    worst.map_or_else(String::new, |(_, text)| format!("; {text}"))
}

/// What keeps the capture from being complete.
fn gaps(coverage: &Coverage) -> Vec<String> {
    let number = |has: &dyn Fn(&ProcessCoverage) -> bool| {
        coverage.processes.iter().filter(|process| has(process)).count() as u64
    };
    let ended = |ending| number(&|p| p.ending == ending);
    let killed = number(&|p| p.ending == FileEnding::Open && p.end_reason.is_none());
    // Without any GPU work that is the cause, not a gap.
    let off = number(&|p| p.gpu_off.is_some() && coverage.gpu_records() > 0);
    let with = |key| number(&|p| p.meta.contains_key(key));
    let of_processes = [
        ("processes that were killed, or are still running", killed),
        (
            "processes whose last records before an exec are missing",
            ended(FileEnding::Open) - killed,
        ),
        ("trace files cut short", ended(FileEnding::Torn)),
        ("trace files not readable to the end", ended(FileEnding::Unreadable)),
        ("trace files not readable at all", coverage.files_refused),
        ("processes whose GPU work was not recorded", off),
        ("processes with pieces of their trace missing", with(META_PIECES_MISSING)),
        ("processes whose GPU work is incomplete", with(META_INCOMPLETE)),
    ];
    let counted = CHECKS.iter().filter(|check| check.id.severity() != Severity::Note);
    let counted = counted.map(|check| (check.what, check.count(&coverage.total)));
    let gaps = counted.chain(of_processes).filter(|(_, number)| *number > 0);
    gaps.map(|(what, number)| format!("{what}: {}", count(number))).collect()
}

/// Files that a finding names.
const FILES_NAMED: usize = 3;
/// Meta key of a forked child: why it could not be recorded.
pub(super) const META_UNRECORDED: &str = "fork.unrecorded";
/// Meta key of a parent: how many processes it forked after it had initialised CUDA.
pub(super) const META_AFTER_CUDA: &str = "forks.after_cuda";
/// Meta key: fields of NVTX payloads that were left out.
const META_FIELDS_LEFT_OUT: &str = "ranges.fields_left_out";

/// A count, by its name in `coverage.total`.
type Counted = (&'static str, fn(&CoverageCounts) -> u64);

/// A count that, where it is not zero, is a finding; as a warning or an error, it also keeps the
/// capture from being complete.
struct Check {
    id: Id,
    /// The counts that make it up.
    counts: &'static [Counted],
    what: &'static str,
    why: &'static str,
    remedy: &'static str,
}

macro_rules! checks {
    ($($id:ident($($count:ident),*) $what:literal $why:literal => $remedy:literal;)*) => {
        const CHECKS: &[Check] = &[$(Check {
            id: Id::$id,
            counts: &[$((stringify!($count), |counts| counts.$count)),*],
            what: $what,
            why: $why,
            remedy: $remedy,
        }),*];
    };
}

impl Check {
    fn count(&self, of: &CoverageCounts) -> u64 {
        let all = self.counts.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(count(of)));
        // Those of the workload have a check of their own.
        all.saturating_sub(if self.id == Id::RangesUnclosed { of.open_at_end } else { 0 })
    }

    fn finding(&self, coverage: &Coverage) -> Option<Finding> {
        let total = self.count(&coverage.total);
        let concerned = coverage.processes.iter().filter(|p| self.count(&p.counts) > 0);
        let files = file_list(&concerned.map(|p| p.file.as_str()).collect::<Vec<_>>());
        let what = format!("{}: {}{files}", self.what, count(total));
        let finding = self.id.found(what, self.why, self.remedy);
        let counts = self.counts.iter().map(|(name, count)| (name, count(&coverage.total)));
        let on = |finding: Finding, (name, value): (&&str, u64)| {
            finding.on_count(name, value, &format!("/coverage/total/{name}"))
        };
        (total > 0).then(|| counts.filter(|(_, value)| *value > 0).fold(finding, on))
    }
}

checks! {
    RecordsDropped(dropped_by_cupti) "activity records dropped by CUPTI"
        "kernels are missing from every number here"
        => "give the collector more memory for records (STAGE2_BUFFERS, for instance 1G)";
    RecordsBuffersRefused(buffers_refused) "activity buffers refused"
        "all buffers were full; what CUPTI dropped then, it counts itself"
        => "give the collector more memory for records (STAGE2_BUFFERS, for instance 1G)";
    RangesEventsLost(range_events_lost) "range events lost"
        "the event queue was full; work around them may be unattributed"
        => "open fewer ranges, or name those that matter in STAGE2_RANGES";
    RecordsUnattributed(unattributed) "GPU records unattributed"
        "their launch could not be placed in or out of a range; they have their own row"
        => "look for lost range events; otherwise report it with STAGE2_LOG=debug";
    RecordsInvalidTimes(invalid_timestamps) "GPU records without valid timestamps"
        "CUPTI could not take the times; the calls are counted, and in no time or mean"
        => "see that no other profiler uses the GPU, and run again";
    RecordsUnreadable(unreadable_records) "activity records incomplete or unreadable (about)"
        "their work still ran when the process ended, their buffers were not returned in time, or this \
         CUPTI writes them in a form that the collector does not know"
        => "wait for the GPU before the process ends; otherwise use a newer collector, or name a supported \
            libcupti in STAGE2_CUPTI";
    RecordsUnwritten(spool_bytes_unwritten) "bytes not written to the trace file"
        "the disk was full or the folder not writable; records are missing"
        => "free space or choose another run folder, and run again";
    TraceDamaged(corrupt_frames) "damaged frames in trace files"
        "their records are missing from every number here"
        => "copy the files again from where they were written, or run again";
    RecordsUndefined(undefined_identifiers) "uses of identifiers that no record defines"
        "the records that define them were lost; such work is shown as undefined or unattributed"
        => "look for unwritten bytes and damaged frames above; run again";
    RecordsLate(late_intervals) "GPU records too late to enter busy time exactly"
        "busy time may be larger than shown, by at most gpu_busy_uncertain_ns"
        => "flush more often (STAGE2_FLUSH_MS)";
    RangesLateCollection(late_switches) "ranges opened before collection was on"
        "another thread was still switching it on; GPU work at their beginning is not recorded"
        => "run without STAGE2_RANGES, or name a range that is open around them";
    RangesBeyondLimits(beyond_limits) "ranges or names beyond what is kept"
        "domains, registered strings, graph nodes or nested ranges past its bounded tables are shown under \
         special names, or under the enclosing range"
        => "register fewer strings, and close every range that is opened";
    RangesCallsRefused(calls_turned_away) "NVTX calls not taken in"
        "they came from inside another NVTX call of their thread (a signal handler, an annotated \
         allocator), or their thread had jumped out of one; their ranges are missing"
        => "keep NVTX calls out of signal handlers, and handlers from jumping";
    RangesUnbalanced(unbalanced_range_ends, contradicting_ranges)
        "ends of ranges that match no open range, or range records that contradict others"
        "they are ignored; the workload pops more than it pushes, or range events were lost"
        => "check the pushes and pops of the workload";
    RangesOpenAtEnd(open_at_end) "the workload's ranges open at its end"
        "what they enclose is larger than what the workload meant, other ranges may lie in them by mistake, \
         and their time on the host is not known"
        => "close every range; look for a push without its pop, or an early return between them";
    RangesUnclosed(unclosed_ranges) "ranges never closed"
        "they have no host time; their GPU work is counted"
        => "let the process end by itself; a library may leave its own ranges open, and a window ends while \
            ranges are open";
    RangesNamesCut(names_cut) "range names cut at the length limit"
        "ranges that differ only after it count as one"
        => "use shorter names, and payloads for values";
}

/// Everything worth knowing about the processes, each kind once.
pub(super) fn process_findings(captures: &[ProcessCapture], coverage: &Coverage) -> Vec<Finding> {
    let processes = &coverage.processes;
    let mut findings: Vec<Finding> =
        CHECKS.iter().filter_map(|check| check.finding(coverage)).collect();
    findings.extend(endings(processes));
    findings.extend(abrupt_endings(captures, processes));
    findings.extend(processes.iter().filter_map(|process| {
        let why = process.gpu_off.as_ref()?;
        Some(Id::GpuNotRecorded.about(&process.file).found(
            format!("{}: GPU work was not recorded: {why}", process.file),
            "only its ranges are here",
            match why == GPU_OFF {
                true => empty::UNSET_GPU,
                false => "remove the cause that this message names, and run again; docs/limits.md lists what CUPTI needs",
            },
        ))
    }));
    findings.extend(processes.iter().filter_map(|process| {
        let reason = process.meta.get(META_INCOMPLETE)?;
        Some(Id::GpuIncomplete.about(&process.file).found(
            format!("{}: GPU work is missing: {reason}", process.file),
            "how much is not known",
            "remove the cause and run again",
        ))
    }));
    findings.extend(processes.iter().filter_map(missing_pieces));
    findings.extend(processes.iter().filter_map(late_window).chain(shifted_windows(processes)));
    findings.extend(clocks(captures));
    findings.extend(filters(captures));
    findings.extend(samples(captures));
    findings.extend(children(captures));
    let fields = sum_of_meta(captures, META_FIELDS_LEFT_OUT);
    findings.extend((fields > 0).then(|| {
        Id::RangesPayloadLeftOut.found(
            format!("fields of NVTX payloads left out: {}", count(fields)),
            "they lie behind pointers, in arrays or unions, or beyond what is kept of a payload",
            "nothing, unless bytes of collectives are missing; then report it",
        )
    }));
    findings.extend(of_files(
        Id::TraceNoIdentity,
        captures.iter().filter(|c| c.process.is_none()).map(|c| c.file.as_str()),
        "trace files without the identity of their process",
        "the beginning of the file is missing or damaged",
        "look for damaged frames above; run again",
    ));
    findings.extend(of_files(
        Id::TraceNewer,
        captures.iter().filter(|c| c.state.unknown_records > 0).map(|c| c.file.as_str()),
        "trace files with records of a kind that this version does not know",
        "a newer collector wrote them; everything else was read",
        "use a stage2-launch at least as new as the collector",
    ));
    findings
}

/// Each finding once, the serious ones first: a run's own file may repeat those of an earlier
/// report on it.
pub(super) fn distinct(findings: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::with_capacity(findings.len());
    add_new(&mut kept, findings);
    kept.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    kept
}

pub(crate) fn add_new(kept: &mut Vec<Finding>, findings: Vec<Finding>) {
    for finding in findings {
        match kept.iter_mut().find(|known| known.says_what(&finding)) {
            // An older version said it without an id.
            Some(known) if known.id == Id::Unnamed => *known = finding,
            Some(_) => {}
            None => kept.push(finding),
        }
    }
}

fn endings(processes: &[ProcessCoverage]) -> impl Iterator<Item = Finding> {
    let ended =
        |ending| processes.iter().filter(move |p| p.ending == ending).map(|p| p.file.as_str());
    let open = |becomes: bool| {
        let open = processes.iter().filter(|p| p.ending == FileEnding::Open);
        open.filter(move |p| p.end_reason.is_some() == becomes).map(|p| p.file.as_str())
    };
    let replaced = of_files(
        Id::TraceExec,
        open(true),
        "trace files that end where their process became another program (exec)",
        "a later file has the same process id; at most the last flush period before the exec is missing",
        "preload the collector (LD_PRELOAD), as the launcher does: then an exec waits for the file",
    );
    let open = of_files(
        Id::TraceOpen,
        open(false),
        "trace files without an end record",
        "the process was killed, or still runs; at most the last flush period is missing",
        "let the workload end by itself, or shorten the period (STAGE2_FLUSH_MS)",
    );
    let torn = of_files(
        Id::TraceCut,
        ended(FileEnding::Torn),
        "trace files cut short",
        "the process was killed while it wrote, the disk was full, or the file is damaged; the \
         rest of the file is not here",
        "check the free space of the run folder and run again",
    );
    replaced.into_iter().chain(open).chain(torn)
}

/// Processes that ended by a signal or an exec after their files were brought up to date.
fn abrupt_endings(
    captures: &[ProcessCapture],
    processes: &[ProcessCoverage],
) -> impl Iterator<Item = Finding> {
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let abrupt = |capture: &ProcessCapture| {
        capture.state.ending == FileEnding::Complete
            && capture.end.as_deref().is_some_and(ending::is_abrupt)
    };
    for (_, process) in captures.iter().zip(processes).filter(|(capture, _)| abrupt(capture)) {
        let how = process.end_reason.as_deref().unwrap_or_default();
        files.entry(how).or_default().push(&process.file);
    }
    files.into_iter().filter_map(|(how, files)| {
        of_files(
            Id::TraceAbruptEnd,
            files.into_iter(),
            &format!("processes that ended without returning from main ({how})"),
            "their trace files were written in full right before that",
            "no action is needed if they had finished their work",
        )
    })
}

fn missing_pieces(process: &ProcessCoverage) -> Option<Finding> {
    let missing = process.meta.get(META_PIECES_MISSING)?;
    let rotate = process.meta.get(ROTATE).map_or("", String::as_str);
    Some(Id::TracePiecesMissing.about(&process.file).found(
        format!("{}: of its trace is not here: {missing} (cut with {rotate})", process.file),
        "what the process did then is in no number; a range that was open across it counts up to the gap, or \
         as no instance",
        "keep more pieces (keep=N in STAGE2_ROTATE), or give all of them, in one folder",
    ))
}

fn clocks(captures: &[ProcessCapture]) -> impl Iterator<Item = Finding> {
    // Of a stage of which no instance was recorded as a whole there is no window either.
    let whole = |capture: &ProcessCapture, stage| {
        let times = capture.path_times.get(stage);
        times.is_none_or(|times| times.recorded != Some(0))
    };
    let untied = captures.iter().filter(|capture| {
        let ranges = capture.stages.iter().filter(|(stage, _)| whole(capture, stage));
        let mut times = ranges.filter_map(|(_, stage)| stage.times.as_ref());
        times.any(|times| times.window_ns.is_none()) && capture.counts.attributed > 0
    });
    let untied = of_files(
        Id::ClockUntied,
        untied.map(|c| c.file.as_str()),
        "trace files without a reading that ties the GPU's clock to that of the ranges",
        "the window, idle time and busy share of stages are absent; busy time is not affected",
        "run again; the collector takes such readings from the first GPU record on",
    );
    let contradicting = of_files(
        Id::ClockContradicting,
        captures.iter().filter(|c| c.anchors_ignored > 0).map(|c| c.file.as_str()),
        "trace files with clock readings that contradict each other",
        "a clock was set back during the run; those readings were left out, and windows of \
         stages may be off by the step",
        "keep the clocks of the machine steady during a run",
    );
    let steps = captures.iter().fold(0_u64, |sum, c| sum.saturating_add(c.clock_steps));
    let steps = count(steps);
    let stepped = of_files(
        Id::ClockStepped,
        captures.iter().filter(|c| c.clock_steps > 0).map(|c| c.file.as_str()),
        &format!("trace files with clocks that stepped during the run (in all {steps} times)"),
        "the clock was set, or the machine was suspended; windows and idle time of stages that were \
         open then are off by the step, and times of GPU work are not",
        "keep the machine awake and its clock steady during a run, and run again",
    );
    untied.into_iter().chain(contradicting).chain(stepped)
}

/// What was left out of processes that were asked for some ranges only.
fn filters(captures: &[ProcessCapture]) -> impl Iterator<Item = Finding> {
    let mut times = captures.iter().flat_map(|capture| capture.path_times.values());
    let opened = times.any(|times| times.sampled.instances > 0);
    captures.iter().filter(|capture| capture.gpu_recorded()).filter_map(move |capture| {
        let unseen = capture.path_times.values().filter(|times| times.recorded == Some(0));
        let what = format!(
            "{}: GPU work was collected only in ranges that match {}; of {} range paths none was \
             recorded",
            capture.file,
            capture.ranges()?,
            count(unseen.count() as u64),
        );
        let why = "their GPU numbers are absent, and no sum holds them, nor GPU work outside of \
                   ranges; busy and idle time of the GPUs are not known";
        let (severity, remedy) = match opened {
            true => (Severity::Note, "leave STAGE2_RANGES unset to have all GPU work"),
            false => (
                Severity::Warning,
                "correct STAGE2_RANGES: no range that was opened matches, so no GPU work is here",
            ),
        };
        Some(Id::RangesFiltered.about(&capture.file).graded(severity, what, why, remedy))
    })
}

fn samples(captures: &[ProcessCapture]) -> impl Iterator<Item = Finding> {
    captures.iter().filter_map(|capture| {
        let sample = capture.sample()?;
        let (mut all, mut unseen) = (Sampled::default(), 0);
        for PathTimes { sampled, .. } in capture.path_times.values() {
            unseen += u64::from(sampled.instances > 0 && sampled.recorded == 0);
            all.add(*sampled);
        }
        let what = format!(
            "{}: sampled {sample}: recorded {} of {} range instances (nested ones count each); {} \
             range paths have none that was recorded",
            capture.file,
            count(all.recorded),
            count(all.instances),
            count(unseen),
        );
        let why = "calls and totals are scaled by instances/recorded of their range path, and \
                   means and percentiles over several paths weighed by it; means and percentiles \
                   of one path, busy time, windows and kernels per instance are of what was \
                   recorded; work outside of the sampled ranges, and of paths without a recorded \
                   instance, is in no number";
        let remedy = "lower N of STAGE2_SAMPLE, or name the ranges that repeat in STAGE2_RANGES";
        Some(match unseen > 0 || all.recorded == 0 {
            true => {
                Id::RangesSampled.about(&capture.file).graded(Severity::Warning, what, why, remedy)
            }
            false => Id::RangesSampled.about(&capture.file).found(what, why, ""),
        })
    })
}

fn children(captures: &[ProcessCapture]) -> Vec<Finding> {
    let mut notes = Vec::new();
    for capture in captures {
        let Some(why) = capture.meta.get(META_UNRECORDED) else { continue };
        notes.push(Id::GpuChildInPart.about(&capture.file).found(
            format!("{}: this forked child was recorded only in part", capture.file),
            why,
            "fork it before the parent uses CUDA, or start it with the method `spawn`",
        ));
    }
    let children = sum_of_meta(captures, META_AFTER_CUDA);
    if children > 0 {
        let what = "processes forked after their parent had initialised CUDA";
        notes.push(Id::GpuForkedAfterCuda.found(
            format!("{what}: {}", count(children)),
            "CUDA does not work in such a child before it calls exec, so its GPU work is missing",
            "if they should use the GPU, fork them before the parent uses CUDA, or start them with \
             the method `spawn`",
        ));
    }
    notes
}

/// The sum of a count over all files; what is not a number counts as nothing.
pub(super) fn sum_of_meta(captures: &[ProcessCapture], key: &str) -> u64 {
    let counts = captures.iter().filter_map(|capture| capture.meta.get(key)?.parse::<u64>().ok());
    counts.fold(0, u64::saturating_add)
}

fn of_files<'f>(
    id: Id,
    files: impl Iterator<Item = &'f str>,
    what: &str,
    why: &str,
    remedy: &str,
) -> Option<Finding> {
    let files: Vec<&str> = files.collect();
    let what = || format!("{what}: {}{}", count(files.len() as u64), file_list(&files));
    (!files.is_empty()).then(|| id.found(what(), why, remedy))
}

fn file_list(files: &[&str]) -> String {
    match files {
        [] => String::new(),
        files => format!(" ({})", listed(files, FILES_NAMED)),
    }
}

/// GPUs that several processes used at the same time.
pub(super) fn shared_devices(rows: &[DeviceRow]) -> impl Iterator<Item = Finding> {
    rows.iter().filter(|row| row.shared_by_processes).map(|row| {
        Id::GpuShared.about(&row.device).found(
            format!("{} processes used {} at the same time", row.processes, row.device),
            "busy times are unions within a process, summed over processes: what ran side by side \
             counts for each, and what one leaves idle another may fill",
            "idle times and busy shares of this GPU are not given; nsys shows processes on one \
             timeline",
        )
    })
}

/// A window that was to begin together with those of other processes.
fn late_window(process: &ProcessCoverage) -> Option<Finding> {
    let late_ns = process.meta.get(window::LATE)?.parse().ok();
    let late_ms = late_ns.filter(|ns| *ns >= window::LATE_FROM_NS).map(ms3)?;
    Some(Id::WindowLate.about(&process.file).found(
        format!("{}: its window began {late_ms} ms after the moment that was set", process.file),
        "the process was asked too late, or CUPTI took long to start: the steps recorded here are later ones \
         than those of processes that began in time",
        "start again: CUPTI stays attached; or set a later moment (`ctl start --at`)",
    ))
}

/// Windows of a host that began at one moment, with different steps.
fn shifted_windows(processes: &[ProcessCoverage]) -> Option<Finding> {
    let fact = |process: &ProcessCoverage, key| process.meta.get(key)?.parse::<u64>().ok();
    let at = processes.iter().find_map(|process| fact(process, window::AT))?;
    // Clocks of several hosts are further apart than steps.
    let host = processes.first()?.host.as_ref();
    let here = processes.iter().filter(|process| process.host.as_ref() == host);
    let begun = here.filter(|process| fact(process, window::AT) == Some(at));
    let steps =
        begun.filter_map(|p| Some((fact(p, window::FIRST_STEP)?, fact(p, window::FIRST_STEP_NS)?)));
    let steps = FirstSteps::of(steps).filter(|steps| !steps.are_one())?;
    Some(Id::WindowShifted.found(
        format!(
            "the windows of these processes do not begin with the same step: their first ones opened {} ms \
             apart and were open for {} ms",
            ms3(steps.apart_ns),
            ms3(steps.shortest_ns)
        ),
        "a step opened in one process just before the moment that was set, and in another one just after \
         it; or the processes do not step together",
        "start again",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_contract::trace::Process;
    use stage2_read::trace::Extent;

    fn window(file: &str, number: u64, ended: &str, seconds: (u64, u64)) -> ProcessCapture {
        let facts = [(window::NUMBER, number.to_string()), (window::ENDED, ended.to_owned())];
        let late = (number > 1).then(|| (window::BEGAN, window::START.to_owned()));
        let meta = facts.into_iter().chain(late).map(|(key, value)| (key.to_owned(), value));
        ProcessCapture {
            file: file.to_owned(),
            process: Some(Process { pid: 7, host: "vm".to_owned(), ..Process::default() }),
            meta: meta.collect(),
            host_extent: Extent(Some((seconds.0 * 1_000_000_000, seconds.1 * 1_000_000_000))),
            ..ProcessCapture::default()
        }
    }

    /// Hazard (Dormant processes and windows): Recording is stopped for a while, and the report takes its windows for
    /// ranks, or for all of the run.
    /// Promise: The windows are one process, and the coverage states how much of it was recorded.
    #[test]
    fn a_pause_of_recording_is_stated_and_its_windows_are_one_process() {
        let first = || window("a.s2t", 1, "stop", (1, 8));
        let second = || window("a-w2.s2t", 2, window::EXIT, (18, 24));
        assert_eq!(
            paused(&[first(), second()]),
            "; RECORDED ONLY 13.0 of 23.0 s, in 2 windows: recording was stopped in between"
        );
        assert_eq!(
            paused(&[first()]),
            "; RECORDED ONLY the first 7.0 s: recording was stopped, and the process went on"
        );
        assert_eq!(paused(&[window("a.s2t", 1, window::EXIT, (1, 8))]), "");
        assert_eq!(paused(&[second()]), "", "somebody asked for this window alone");
        let of = |processes: [ProcessCapture; 2]| {
            let coverage = coverage(&Capture { processes: processes.into(), ..Capture::default() });
            coverage.processes_of(|_| true)
        };
        assert_eq!(of([first(), second()]), 1);
        let other = ProcessCapture { process: None, ..first() };
        assert_eq!(of([other, second()]), 2, "it is not known whose it is");
    }
}
