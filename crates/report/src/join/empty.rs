//! A run without GPU work -> why there is none, and what to do about it.
//!
//! The trace files state what the collector knows ([`of_capture`]); the run record and `env.json` add
//! what only the launcher knows ([`explain`]).

use std::collections::BTreeSet;

use crate::inputs::Doctor;
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::numbers::{count, counted};
use stage2_contract::text::{listed, most_like, visible};
use stage2_contract::trace::{GPU_OFF, ending};
use stage2_model::finding::Id;
use stage2_model::nsys::{Counts, Source};
use stage2_model::{
    COULD_NOT_ASK, Coverage, Empty, EmptyCause, EmptyReason, EndedBy, FileEnding, Finding,
    META_RANGES, PassInfo, Report, RunInfo, Status, WorkloadExit,
};
use stage2_read::trace::{Capture, META_GPU_OFF, ProcessCapture};

use super::META_INCOMPLETE;
use crate::join::coverage::{META_AFTER_CUDA, META_UNRECORDED, sum_of_meta};

/// How the verdict on a capture without GPU work begins.
pub(crate) const EMPTY: &str = "EMPTY: no GPU work was recorded";

/// What to do about [`GPU_OFF`].
pub(super) const UNSET_GPU: &str = "unset STAGE2_GPU, and run again";
/// Meta key that a process has once its GPU half has started.
const META_CUPTI: &str = "cupti.version";
/// What a process records where that is not all.
const META_DETAIL: &str = "detail";
/// SIGINT.
const INTERRUPT: i32 = 2;
/// Exit status of a shell whose child got SIGKILL.
const KILLED: i32 = 137;
const SEE_DMESG: &str =
    "something killed the workload; `dmesg` shows whether the kernel did, for lack of memory";
/// Signals by which a program crashes: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, and SIGSYS.
const CRASHES: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];
/// Reasons of one kind that are quoted.
const QUOTED: usize = 3;
/// Names of ranges that are listed.
const OPENED: usize = 8;

fn reason(cause: EmptyCause, why: impl Into<String>, remedy: impl Into<String>) -> EmptyReason {
    EmptyReason { cause, why: why.into(), remedy: remedy.into() }
}

/// What the trace files themselves say. Not empty: a capture without GPU work has some cause.
pub(super) fn of_capture(capture: &Capture) -> Vec<EmptyReason> {
    let processes = &capture.processes;
    if processes.is_empty() {
        return vec![match capture.files_refused {
            0 => reason(
                EmptyCause::NothingUsed,
                "there is no trace file: no process of the workload used CUDA or NVTX, or none \
                 loaded the collector",
                "check that it uses the GPU; if it does, it dropped LD_PRELOAD and the injection \
                 variables (sudo, a container, a clean environment), or another tool owns them: run \
                 it again with STAGE2_LOG=info and look for lines that begin with `stage2:`",
            ),
            files => reason(
                EmptyCause::FilesUnreadable,
                format!("none of the {} trace files can be read", count(files)),
                "see the findings about each file, and run again",
            ),
        }];
    }
    // Nothing is wrong, and what else is missing is missing for this reason.
    if processes
        .iter()
        .any(|process| process.meta.get(META_DETAIL).is_some_and(|of| of == "summary"))
    {
        return vec![reason(
            EmptyCause::SummaryAlone,
            "summaries alone were asked for (STAGE2_DETAIL=summary)",
            "see job.html, or `stage2-launch job RUN_DIR`; for this report record with \
             STAGE2_DETAIL=auto (profiling.collector.detail), which keeps the minutes that are unusual",
        )];
    }
    let mut reasons = Vec::new();
    let values = |key: &'static str| processes.iter().filter_map(move |p| p.meta.get(key));
    let off = distinct(values(META_GPU_OFF).chain(values(META_INCOMPLETE)));
    if !off.is_empty() {
        let (why, remedy) = match off.iter().all(|why| why == GPU_OFF) {
            true => (format!("a setting kept the collector from the GPU ({GPU_OFF})"), UNSET_GPU),
            false => (
                format!("the collector could not record the GPU: {}", quoted(&off)),
                "remove the cause that this message names, and run again; docs/limits.md lists what CUPTI needs",
            ),
        };
        reasons.push(reason(EmptyCause::CuptiOff, why, remedy));
    }
    let mut children = distinct(values(META_UNRECORDED));
    let after_cuda = sum_of_meta(processes, META_AFTER_CUDA);
    if after_cuda > 0 {
        children.push(format!(
            "{} were forked after their parent had initialised CUDA, which does not work in them",
            count(after_cuda)
        ));
    }
    if !children.is_empty() {
        reasons.push(reason(
            EmptyCause::ChildrenNotRecorded,
            format!("child processes could not be recorded: {}", quoted(&children)),
            "start the children before their parent uses CUDA or NVTX, or let them exec (with \
             multiprocessing: the start method `spawn`)",
        ));
    }
    let started: Vec<&ProcessCapture> =
        processes.iter().filter(|process| process.meta.contains_key(META_CUPTI)).collect();
    reasons.extend(ranges_never_opened(&started));
    let of_ending = |ending| processes.iter().filter(|p| p.state.ending == ending).count() as u64;
    let torn = of_ending(FileEnding::Torn);
    if torn > 0 {
        reasons.push(reason(
            EmptyCause::Killed,
            format!(
                "{} of {} trace files end within a record: the process was killed while it wrote, the disk was full, \
                 or the file was cut or damaged later",
                count(torn),
                count(processes.len() as u64)
            ),
            "give the whole file if there is one; else check the free space of the run folder, and record again",
        ));
    }
    let cut = of_ending(FileEnding::Open);
    if cut > 0 {
        reasons.push(reason(
            EmptyCause::Killed,
            format!(
                "{} of {} processes ended before the collector wrote its last record (a signal from \
                 elsewhere, or a crash), or still run",
                count(cut),
                count(processes.len() as u64)
            ),
            "let the workload end by itself, or flush more often (STAGE2_FLUSH_MS)",
        ));
    }
    if !started.is_empty() {
        reasons.push(reason(
            EmptyCause::NothingLaunched,
            "CUDA was initialised and recorded, but no kernel, copy or fill ran",
            "check that the workload runs on the GPU (a model may have stayed on the CPU)",
        ));
    } else if off.is_empty() {
        reasons.push(reason(
            EmptyCause::CudaNeverInitialised,
            "the workload opened NVTX ranges, but never initialised CUDA",
            "check that it uses the GPU (`torch.cuda.is_available()`, CUDA_VISIBLE_DEVICES)",
        ));
    }
    reasons
}

fn distinct<'v>(values: impl Iterator<Item = &'v String>) -> Vec<String> {
    let values: BTreeSet<String> = values.map(|value| visible(value.as_bytes())).into_set();
    values.into_iter().collect()
}

fn quoted(values: &[String]) -> String {
    let shown = values.iter().take(QUOTED).cloned().collect::<Vec<_>>().join("; ");
    match values.len().saturating_sub(QUOTED) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// Nothing where some process was asked for everything.
fn ranges_never_opened(recording: &[&ProcessCapture]) -> Option<EmptyReason> {
    let filters = || recording.iter().filter_map(|process| process.meta.get(META_RANGES));
    let mut times = recording.iter().flat_map(|process| process.path_times.values());
    let opened = times.any(|times| times.sampled.instances > 0);
    let all_filter = !recording.is_empty() && filters().count() == recording.len();
    let known = distinct(filters());
    (all_filter && !opened).then(|| {
        let names = opened_names(recording);
        let all: Vec<String> = names.iter().cloned().collect();
        let opened = match all.is_empty() {
            true => "no range".to_owned(),
            false => format!("none of them (opened: {})", listed(&all, OPENED)),
        };
        let globs = known.iter().flat_map(|filter| filter.split(','));
        let near = globs.filter_map(|glob| most_like(glob, names.iter().map(String::as_str)));
        let near = near.map(|near| format!(", for instance {near}")).next().unwrap_or_default();
        reason(
            EmptyCause::RangesNeverOpened,
            format!(
                "recording was limited to ranges that match {}, and the workload opened {opened}",
                quoted(&known)
            ),
            format!(
                "correct profiling.collector.ranges (STAGE2_RANGES): comma-separated names{near}, in which * is any \
                 text, each with @DOMAIN behind it if one is meant; or leave it unset"
            ),
        )
    })
}

/// The names of the ranges that these processes opened.
fn opened_names(recording: &[&ProcessCapture]) -> BTreeSet<String> {
    let names = |process: &ProcessCapture| -> Vec<String> {
        let name = |path: u32| {
            let at = process.paths.get(usize::try_from(path).ok()?)?.name?;
            Some(visible(process.names.get(usize::try_from(at).ok()?)?))
        };
        process.path_times.keys().filter_map(|path| name(*path)).collect()
    };
    recording.iter().flat_map(|process| names(process)).collect()
}

/// Completes the verdict of a report without GPU work: what the run record and `env.json` say, the
/// sentence on the first screen, and a finding.
pub(crate) fn explain(report: &mut Report, collected: bool, doctor: &Doctor) {
    if report.coverage.verdict.status != Status::Empty {
        report.findings.extend(elsewhere(report).map(|EmptyReason { why, remedy, .. }| {
            Id::GpuPassEmpty.found(why, "the reports hold what is in the trace files now", remedy)
        }));
        report.coverage.empty = None;
        return;
    }
    let reasons = if collected {
        let mut reasons = of_run(report);
        let known = report.coverage.empty.take();
        reasons.extend(
            known.into_iter().flat_map(|Empty { first, also }| [vec![first], also].concat()),
        );
        without_guesses(reasons)
    } else {
        vec![of_nsys(report).unwrap_or_else(|| {
            reason(
                EmptyCause::CapturesEmpty,
                "the captures hold no GPU work",
                "merge captures of a run that used the GPU",
            )
        })]
    };
    let Some(mut empty) = Empty::of(reasons) else { return };
    // More time alone would not help.
    let has_no_gpu = |reason: &&EmptyReason| reason.cause == EmptyCause::NoGpu;
    if let Some(no_gpu) = empty.also.iter().find(has_no_gpu)
        && empty.first.cause == EmptyCause::Killed
        && report.run.workload_end.as_ref().is_some_and(|end| end.how != EndedBy::Failure)
    {
        empty.first.remedy = format!("{}; then {}", no_gpu.remedy, empty.first.remedy);
    }
    // A workload that crashed or failed has a reason of its own: that there is no GPU stands behind it.
    let is_failure = empty.first.cause == EmptyCause::WorkloadFailed
        || empty.first.cause == EmptyCause::Killed
            && report.run.workload_end.as_ref().is_none_or(|end| end.how == EndedBy::Failure);
    if !is_failure {
        let mut all = std::iter::once(&empty.first).chain(&empty.also);
        let has_no_gpu = all.any(|reason| reason.cause == EmptyCause::NoGpu);
        add_doctor(&mut empty.first, has_no_gpu, doctor);
    }
    let EmptyReason { why, remedy, .. } = &empty.first;
    let also: Vec<&str> = empty.also.iter().map(|reason| reason.why.as_str()).collect();
    // Reasons have parentheses of their own.
    let also = if also.is_empty() { String::new() } else { format!("; also: {}", also.join("; ")) };
    let verdict = &mut report.coverage.verdict.text;
    // What follows the first words (losses, samples) stays behind the cause.
    let tail = verdict.strip_prefix(EMPTY).unwrap_or_default();
    *verdict = format!("{EMPTY}: {why}{also}{tail}");
    // Beside a failure of its own the rest is a detail, and the verdict has it.
    let also = if empty.first.cause == EmptyCause::WorkloadFailed { "" } else { &also };
    let what = format!("no GPU work was recorded: {why}{also}");
    report.findings.insert(0, Id::GpuNoWork.found(what, "", remedy));
    report.coverage.empty = Some(empty);
}

/// Captures of nsys that hold what a workload did, and nothing of what the GPU did.
fn of_nsys(report: &Report) -> Option<EmptyReason> {
    let captures = || report.nsys.iter().flat_map(|nsys| &nsys.captures);
    let sum =
        |of: fn(&Counts) -> u64| captures().map(|one| of(&one.counts)).fold(0, u64::saturating_add);
    let (launches, calls) = (sum(|counts| counts.launch_calls), sum(|counts| counts.api_calls));
    let seen = [
        (launches, "launch call"),
        (if launches == 0 { calls } else { 0 }, "CUDA API call"),
        (sum(|counts| counts.nvtx_ranges), "NVTX range"),
    ];
    let seen = seen.into_iter().filter(|(number, _)| *number > 0);
    let seen: Vec<String> = seen.map(|(number, what)| counted(number, what)).collect();
    if seen.is_empty() {
        let tables = captures().next().is_some_and(|first| first.kind == Source::Csv);
        return tables.then(|| {
            reason(
                EmptyCause::CapturesEmpty,
                "the CSV tables of nsys that were given have no kernels",
                "give the table cuda_gpu_kern_sum, too, or the SQLite export",
            )
        });
    }
    let said = captures().flat_map(|one| &one.said).take(QUOTED);
    let said: Vec<&str> = said.map(|text| text.trim_end_matches('.')).collect();
    let said =
        if said.is_empty() { String::new() } else { format!("; nsys says: {}", said.join("; ")) };
    Some(reason(
        EmptyCause::CapturesEmpty,
        format!("nsys recorded {}, but no kernel{said}", seen.join(" and ")),
        "record again with an nsys that is as new as the driver, with --trace=cuda,nvtx, and let the \
         workload synchronise with the GPU and end by itself before the capture ends",
    ))
}

fn add_doctor(empty: &mut EmptyReason, has_no_gpu: bool, doctor: &Doctor) {
    // Where there is no GPU, the reasons say what its finding does.
    if let Some(first) = doctor.found.first().filter(|_| !has_no_gpu) {
        // The command below shows them all; a remedy is one line of a log.
        empty.remedy.push_str(&format!("; doctor found: {first}"));
    }
    if let Some(next) = &doctor.next {
        empty.remedy.push_str(&format!("; `{next}` checks everything that a run needs"));
    }
}

/// That the records are made somewhere else, or later.
fn elsewhere(report: &Report) -> impl Iterator<Item = EmptyReason> + use<> {
    let RunInfo { left_running, inner_run, .. } = &report.run;
    let inner = inner_run.as_ref().map(|folder| {
        reason(
            EmptyCause::InnerRun,
            format!("the workload has started stage2-launch itself, and that run has the records: {folder}"),
            "look there, and leave one of the two away",
        )
    });
    let still = (!left_running.is_empty()).then(|| {
        let numbers: Vec<String> = left_running.iter().map(u32::to_string).collect();
        reason(
            EmptyCause::StillRunning,
            format!(
                "{} that the workload left behind still {} (PID {})",
                counted(left_running.len() as u64, "process"),
                if left_running.len() == 1 { "runs" } else { "run" },
                listed(&numbers, QUOTED),
            ),
            "once they have ended, write the reports again: `stage2-launch report RUN_DIR`",
        )
    });
    inner.into_iter().chain(still)
}

/// The program that uses the simulated GPU, and how to record it.
const DEMO: &str = "stage2-demo";
const NAME_SIMULATOR: &str = "set STAGE2_CUPTI to the library next to stage2-demo (.../libstage2_sim.so), or use `stage2-launch demo -- OPTION...`";

fn of_run(report: &Report) -> Vec<EmptyReason> {
    let mut reasons: Vec<EmptyReason> = elsewhere(report).collect();
    let end = report.run.workload_end.as_ref();
    if let Some(end) = end
        && end.how == EndedBy::Failure
        && matches!(end.exit, Some(WorkloadExit::Code(_)))
    {
        reasons.push(reason(
            EmptyCause::WorkloadFailed,
            end.text.clone(),
            // Of a shell, that is the SIGKILL of its child.
            match end.exit {
                Some(WorkloadExit::Code(KILLED)) => SEE_DMESG,
                _ => "see the output of the workload, correct its command, and run again",
            },
        ));
    }
    let collect = report.run.passes.iter().find(|p| p.name.as_deref() == Some("collect"));
    let Coverage { processes, files_refused, .. } = &report.coverage;
    if let Some(PassInfo { status, exit, why, not_loaded, .. }) = collect {
        // Trace files that cannot be read were written by a workload, or come from elsewhere.
        if status.as_deref() == Some("failed") && *files_refused == 0 {
            let why = why.as_deref().unwrap_or("the collect pass failed");
            // The launcher knows what to do where the system refuses something.
            let is_of_it = |finding: &&Finding| why == format!("{}: {}", finding.what, finding.why);
            let found = report.findings.iter().find(is_of_it).map(|finding| &*finding.remedy);
            let remedy = found.filter(|remedy| !remedy.is_empty());
            reasons.push(reason(
                EmptyCause::NotStarted,
                format!("the workload was not started: {why}"),
                remedy.unwrap_or("correct the command, and run again"),
            ));
        }
        if let Some(why) = not_loaded {
            reasons.push(reason(
                EmptyCause::CollectorNotLoaded,
                format!("the collector was not loaded into the workload: {why}"),
                "follow the finding about it, or read the passes of nsys and ncu",
            ));
        }
        let signal = exit.as_deref().and_then(ending::signal_of);
        // A workload that was told to end may have an exit status of its own.
        let told = end.filter(|end| end.how != EndedBy::Failure).map(|_| 0);
        if let Some(signal) = signal.or(told) {
            reasons.push(reason(
                EmptyCause::Killed,
                // The same words as in the rest of the report, which then says it once.
                end.map_or_else(
                    || format!("the workload was {}", WorkloadExit::Signal(signal).describe()),
                    |end| end.text.clone(),
                ),
                after_signal(signal, end.map(|end| end.how)),
            ));
        }
    }
    let started = processes.iter().any(|process| process.meta.contains_key(META_CUPTI));
    let absent = report.run.environment.iter().find(|fact| fact.key == "gpu.absent");
    if let Some(absent) = absent
        && !(started || report.simulated || *files_refused > 0)
    {
        reasons.extend(no_gpu(&absent.value, report.run.command.as_deref().unwrap_or_default()));
    }
    reasons
}

/// Why a command records no GPU work on a machine without a GPU; `absent` is why there is none.
pub fn no_gpu(absent: &str, command: &[String]) -> Option<EmptyReason> {
    let mut words = command.iter();
    let is_demo =
        words.any(|word| word.ends_with(DEMO)) && words.any(|word| word.ends_with("simulated"));
    if absent.starts_with(COULD_NOT_ASK) {
        return None;
    }
    Some(if is_demo {
        let why = "the simulated GPU comes with its own CUPTI library, which was not loaded";
        reason(EmptyCause::NoGpu, why, NAME_SIMULATOR)
    } else {
        reason(
            EmptyCause::NoGpu,
            format!("no GPU: {absent}"),
            "run on a machine with a GPU and its driver, in a container with `--gpus all`; \
             `stage2-launch demo` shows the reports with a simulated GPU",
        )
    })
}

/// What to do about a workload that a signal or its time limit ended before it used the GPU.
fn after_signal(signal: i32, how: Option<EndedBy>) -> &'static str {
    match (how, signal) {
        (Some(EndedBy::TimeLimit), _) => {
            "give the workload more time (--timeout, run.timeout_s), or less to do"
        }
        (Some(EndedBy::Interrupt), _) | (_, INTERRUPT) => {
            "run it again, and let it use the GPU before you interrupt it"
        }
        (_, signal) if CRASHES.contains(&signal) => {
            "the workload crashed: run it without stage2-launch, to see whether it crashes alone; if it \
             does not, run it again with STAGE2_LOG=info and look for lines that begin with `stage2:`"
        }
        _ => SEE_DMESG,
    }
}

/// That nothing was used is a guess, and what CUDA did follows from the rest: neither stands next to a
/// cause that states why. Of two causes of one kind the first stays.
fn without_guesses(mut reasons: Vec<EmptyReason>) -> Vec<EmptyReason> {
    use EmptyCause::{CudaNeverInitialised, NothingLaunched, NothingUsed};
    let guess = |cause| matches!(cause, NothingUsed | CudaNeverInitialised | NothingLaunched);
    if reasons.iter().any(|reason| !guess(reason.cause)) {
        reasons.retain(|reason| !guess(reason.cause));
    }
    // Without a GPU, the collector has nothing to record. What a variable of the user did, it did anyway.
    if reasons.iter().any(|reason| reason.cause == EmptyCause::NoGpu) {
        let is_of_user = |reason: &EmptyReason| reason.why.contains("let STAGE2_CUPTI name");
        reasons.retain(|reason| reason.cause != EmptyCause::CuptiOff || is_of_user(reason));
    }
    let is_elsewhere = |cause| matches!(cause, EmptyCause::InnerRun | EmptyCause::StillRunning);
    if reasons.iter().any(|reason| is_elsewhere(reason.cause)) {
        // What is missing here says nothing of the machine, and a file that is open is being written.
        reasons.retain(|reason| !matches!(reason.cause, EmptyCause::NoGpu | EmptyCause::Killed));
    }
    reasons.order_by_key(|reason| reason.cause);
    reasons.dedup_by_key(|reason| reason.cause);
    reasons
}
