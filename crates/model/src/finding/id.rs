//! The ids of findings: scripts and agents name a kind of finding by its id, whatever its text.
//!
//! An id is never given another meaning, and never reused. A new kind of finding gets a row here and in
//! docs/findings.md, which also states what to do.

use serde::{Deserialize, Serialize};

use super::{Finding, Severity};

/// What a finding, and the advice in it, rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Numbers of `metrics.json`, which its evidence points to.
    Numbers,
    /// A file, process, device, range or kernel, which its text names.
    Object,
    /// A setting, a variable or a word of the command, which its text names.
    Setting,
    /// What a tool or the system said, or how it ended; the text quotes it.
    Message,
}

macro_rules! ids {
    ($($name:ident $code:literal $severity:ident $basis:ident $meaning:literal;)*) => {
        /// Names a kind of finding.
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub enum Id {
            $(
                #[doc = $meaning]
                #[serde(rename = $code)]
                $name,
            )*
            /// Of a report whose version gave no ids, or knew others.
            #[default]
            #[serde(rename = "unnamed", other)]
            Unnamed,
        }

        impl Id {
            /// All that findings are given.
            pub const ALL: &[Id] = &[$(Id::$name),*];

            /// As files, conditions and pages have it.
            pub fn code(self) -> &'static str {
                match self {
                    $(Id::$name => $code,)*
                    Id::Unnamed => "unnamed",
                }
            }

            /// How much such a finding matters, if it does not say otherwise.
            pub fn severity(self) -> Severity {
                match self {
                    $(Id::$name => Severity::$severity,)*
                    Id::Unnamed => Severity::Note,
                }
            }

            /// What such a finding rests on.
            pub fn basis(self) -> Basis {
                match self {
                    $(Id::$name => Basis::$basis,)*
                    Id::Unnamed => Basis::Message,
                }
            }

            /// What it means.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Id::$name => $meaning,)*
                    Id::Unnamed => "of a report whose version gave findings no ids, or knew others",
                }
            }
        }
    };
}

ids! {
    // Records of the GPU.
    RecordsDropped "records.dropped" Warning Numbers
        "CUPTI dropped activity records: kernels are missing from all numbers";
    RecordsBuffersRefused "records.buffers_refused" Warning Numbers
        "all record buffers were full, so the collector could not give CUPTI another one";
    RecordsUnattributed "records.unattributed" Warning Numbers
        "the collector could not determine whether some GPU work was launched in a range";
    RecordsInvalidTimes "records.invalid_times" Warning Numbers
        "CUPTI could not measure the times of some GPU work: it counts, but not in times";
    RecordsUnreadable "records.unreadable" Warning Numbers
        "activity records were incomplete, or in an unknown form";
    RecordsUnwritten "records.unwritten" Error Numbers
        "records could not be written to the trace file";
    RecordsUndefined "records.undefined" Warning Numbers
        "records use identifiers whose definitions were lost";
    RecordsLate "records.late" Warning Numbers
        "GPU records came too late to count exactly in busy time";

    // GPU work of processes.
    GpuNoWork "gpu.no_work" Error Message
        "the report contains no GPU work";
    GpuPassEmpty "gpu.pass_empty" Warning Message
        "the run reported no GPU work, but the trace files contain some";
    GpuNotRecorded "gpu.not_recorded" Warning Message
        "a process recorded its ranges, but no GPU work";
    GpuIncomplete "gpu.incomplete" Warning Message
        "an unknown amount of a process's GPU work is missing";
    GpuChildInPart "gpu.child_in_part" Note Message
        "a forked child was recorded only in part";
    GpuForkedAfterCuda "gpu.forked_after_cuda" Note Object
        "processes were forked after their parent had initialised CUDA, which does not work in them";
    GpuShared "gpu.shared" Note Numbers
        "several processes used one GPU at the same time, so its idle time is not known";

    // Trace files.
    TraceDamaged "trace.damaged" Warning Numbers
        "trace files have damaged frames, and their records are missing";
    TraceCut "trace.cut" Warning Object
        "a trace file is cut short";
    TraceOpen "trace.open" Warning Object
        "a process was killed or still runs: at most the last flush period is missing";
    TraceExec "trace.exec" Warning Object
        "a process became another program before its last records were written";
    TraceAbruptEnd "trace.abrupt_end" Note Object
        "a process did not return from main; its trace file was completed just before";
    TraceNoIdentity "trace.no_identity" Warning Object
        "the beginning of a trace file is missing: its process is not known";
    TraceNewer "trace.newer" Note Object
        "a newer collector wrote records of a kind that this version does not know";
    TracePiecesMissing "trace.pieces_missing" Warning Object
        "pieces of a trace that was cut are missing";
    TraceCopy "trace.copy" Warning Object
        "a trace file is a copy of another one, so it was not read";
    TraceUnreadable "trace.unreadable" Error Object
        "a trace file, or its folder, cannot be read: the process is missing from all numbers";

    // Ranges.
    RangesEventsLost "ranges.events_lost" Warning Numbers
        "the event queue was full: work around the lost events may be unattributed";
    RangesLateCollection "ranges.late_collection" Warning Numbers
        "ranges were opened before collection was on";
    RangesBeyondLimits "ranges.beyond_limits" Warning Numbers
        "ranges or names exceed the limits of the collector";
    RangesCallsRefused "ranges.calls_refused" Warning Numbers
        "NVTX calls came from inside another NVTX call: their ranges are missing";
    RangesUnbalanced "ranges.unbalanced" Note Numbers
        "ends of ranges match no open range, or range records contradict each other";
    RangesOpenAtEnd "ranges.open_at_end" Warning Numbers
        "the workload left ranges open at its end: they enclose more than it meant";
    RangesUnclosed "ranges.unclosed" Note Numbers
        "ranges were never closed: they have no host time";
    RangesNamesCut "ranges.names_cut" Note Numbers
        "range names were cut: ranges that differ only after the cut count as one";
    RangesPayloadLeftOut "ranges.payload_left_out" Note Object
        "fields of NVTX payloads were left out";
    RangesFiltered "ranges.filtered" Note Setting
        "GPU work was collected only in some ranges; a warning if none of them was opened";
    RangesSampled "ranges.sampled" Note Setting
        "only some instances of ranges were recorded, and totals are scaled; a warning if a path has none";
    RangesNumbered "ranges.numbered" Warning Object
        "range names differ only in a number, so each has one instance";
    RangesJoined "ranges.joined" Note Setting
        "ranges whose names differ only in a number or an identifier count as one";
    RangesOverlapping "ranges.overlapping" Warning Setting
        "start/end ranges with the same name overlap, and kernels were launched in them";
    RangesUnlike "ranges.unlike" Warning Object
        "instances of a stage take very different times: one range seems to contain two kinds of work";
    RangesWarmUp "ranges.warm_up" Warning Object
        "the first calls of a stage take much longer than the others, and means contain them";
    RangesNoneRecorded "ranges.none_recorded" Note Message
        "none of the workload's ranges was recorded";
    RangesRoleUnmatched "ranges.role_unmatched" Warning Setting
        "no outermost range matches a pattern of `roles`";
    RangesNotAnnotated "ranges.not_annotated" Warning Setting
        "`--annotate` was on, but the workload was not annotated";
    RangesAnnotated "ranges.annotated" Note Setting
        "the launcher makes the workload or its engine mark ranges, which costs host time";

    // Clocks.
    ClockUntied "clock.untied" Warning Object
        "no reading relates the GPU clock to the clock of the ranges: windows and idle times are absent";
    ClockContradicting "clock.contradicting" Note Object
        "clock readings contradict each other, so they were left out";
    ClockStepped "clock.stepped" Warning Object
        "a clock stepped during the run: windows and idle times may be off by the step";
    ClockSlower "clock.slower" Note Numbers
        "the GPU ran one stage at a lower clock than another one";

    // Windows of dormant runs, and snapshots.
    WindowLate "window.late" Note Object
        "a window began later than requested";
    WindowShifted "window.shifted" Note Object
        "the windows of the processes begin with different steps";
    WindowNone "window.none" Note Setting
        "the workload started dormant, and no window was started";
    WindowMissing "window.missing" Warning Object
        "a window or a process is missing from the bundle or snapshot";
    WindowOpen "window.open" Warning Object
        "a snapshot was taken while its window was open: work in flight is missing";

    // Counters sampled in the run itself.
    CountersNone "counters.none" Note Message
        "a GPU has no sampled counters";
    CountersNotRead "counters.not_read" Warning Object
        "the counter samples of a trace file are not in the report";
    CountersStagesJoined "counters.stages_joined" Warning Object
        "there are too many stages or instances to assign all counter samples";
    CountersUnusable "counters.unusable" Warning Object
        "counter samples, or their values, cannot be used";
    CountersMixedOnly "counters.mixed_only" Warning Numbers
        "no counter sample covers only recorded work";
    CountersLeftOut "counters.left_out" Warning Numbers
        "a trace file has more counter samples than a report keeps";
    CountersGap "counters.gap" Warning Numbers
        "the hardware's sample buffer was full: no counter covers the work that ran meanwhile";
    CountersLost "counters.lost" Warning Numbers
        "the collector did not write counter samples as fast as it took them";
    CountersCutShort "counters.cut_short" Warning Message
        "the counters pass did not run to its end";

    // Cost of the profilers.
    OverheadHigh "overhead.high" Warning Numbers
        "a profiler slows stages so much that their times mostly show the profiler; a note if that is not certain";
    HostOverloaded "host.overloaded" Warning Numbers
        "threads that launch GPU work waited for a processor for much of the time, so times are longer than they have to be";

    // Kernels and timelines.
    KernelsLikened "kernels.likened" Note Object
        "kernels of two tools were matched by similarity, because their names are spelled differently";
    TimelineMissing "timeline.missing" Warning Object
        "the timeline of a median step is missing";
    SourceOther "source.other" Warning Message
        "rows and durations come from nsys or ncu, because the collector has no kernels; an error if records are lost";

    // nsys.
    NsysDiffers "nsys.differs" Warning Numbers
        "the nsys capture and the collector differ; a note if two runs may differ";
    NsysNoRanges "nsys.no_ranges" Warning Object
        "nsys recorded no NVTX range, but the collector did";
    NsysSays "nsys.says" Note Message
        "a message of nsys about its capture";
    NsysSeveral "nsys.several" Warning Object
        "of several captures or tables, only one is used";
    NsysUnreadable "nsys.unreadable" Warning Object
        "a file of nsys, or a part of it, cannot be used; an error if counts are missing";
    NsysLacks "nsys.lacks" Warning Object
        "an nsys export lacks tables, columns, names, launches or times; a note if none is expected";
    NsysLost "nsys.lost" Warning Object
        "a capture of nsys seems to have lost records";
    NsysBeyondLimits "nsys.beyond_limits" Warning Object
        "an nsys capture exceeds the limits of the reader";
    NsysNamesCut "nsys.names_cut" Note Object
        "names in an nsys capture were cut";
    NsysNested "nsys.nested" Warning Object
        "kernels of nsys tables count in several ranges; a note if they are in no stage";
    NsysNotRead "nsys.not_read" Note Object
        "files of nsys were not read, because others contain the same";
    NsysWholeGraphs "nsys.whole_graphs" Note Object
        "nsys recorded CUDA graphs as a whole, without their kernels";
    NsysFailed "nsys.failed" Error Message
        "nsys left no report";
    NsysComplains "nsys.complains" Warning Message
        "according to its log, nsys left something out of its report";
    NsysEmptyReport "nsys.empty_report" Error Object
        "nsys left an empty report; a warning if there is another one";
    NsysElsewhere "nsys.elsewhere" Warning Object
        "nsys wrote its report to another place";
    NsysNoRange "nsys.no_range" Warning Setting
        "the range that nsys waits for never came";
    NsysTimeLimit "nsys.time_limit" Error Setting
        "a limit of time or size ended nsys; a warning if its report exists";
    NsysTablesMissing "nsys.tables_missing" Warning Message
        "tables of an nsys report are missing";
    NsysRetried "nsys.retried" Note Message
        "nsys failed once, and was started again";
    NsysAdjusted "nsys.adjusted" Note Setting
        "nsys was started with other options than the settings state, or an option has a side effect";
    NsysSecrets "nsys.secrets" Warning Object
        "files of nsys contain the environment of the workload; a note if that is permitted, or if they are removed";
    NsysScrubbed "nsys.scrubbed" Note Object
        "the environment of the workload was removed from files of nsys";

    // ncu.
    NcuNothingMatches "ncu.nothing_matches" Warning Object
        "none of the kernels that ncu profiled is in the capture";
    NcuOneLaunch "ncu.one_launch" Note Numbers
        "counters of kernel rows cover only the profiled launch, so they have no rates";
    NcuImpossibleRates "ncu.impossible_rates" Warning Numbers
        "rates of kernel rows exceed the limits of the GPU";
    NcuDurationDiffers "ncu.duration_differs" Note Numbers
        "ncu's durations differ greatly from the undisturbed ones";
    NcuUnreadable "ncu.unreadable" Warning Object
        "a report or table of ncu cannot be used, or only in part; an error if none of it can be used";
    NcuValuesLeftOut "ncu.values_left_out" Warning Object
        "values, rows or rules of an ncu report were left out; a note if they are rare";
    NcuOtherGpu "ncu.other_gpu" Warning Object
        "counters of another kind of GPU are left out";
    NcuNotation "ncu.notation" Note Object
        "an ncu report spells names or numbers differently: decimal commas, demangled names";
    NcuSeveralReports "ncu.several_reports" Note Object
        "kernels are in more than one report, so their counters are means over all reports";
    NcuRegions "ncu.regions" Note Setting
        "numbers of NVTX regions are absent or not known";
    NcuFailed "ncu.failed" Error Message
        "ncu failed, or wrote no report; a warning if a report exists";
    NcuTimeLimit "ncu.time_limit" Warning Setting
        "a limit of time or size ended ncu";
    NcuNothingProfiled "ncu.nothing_profiled" Warning Setting
        "ncu profiled nothing, because its filters match no kernel or range; an error if no other filter can be tried";
    NcuChosen "ncu.chosen" Note Setting
        "how the launcher chose the kernels or ranges that ncu profiles, if the settings do not determine it";
    NcuLeftOut "ncu.left_out" Warning Setting
        "ncu does not measure some kernels, regions, metrics or sections; a note if that is usual";
    NcuByPython "ncu.by_python" Note Object
        "the Python package ncu-report read a report, but not all of it; a warning if it could not read it";

    // Tools.
    ToolMissing "tool.missing" Warning Setting
        "nsys or ncu cannot be run, so a pass is left out, or reports are not read";
    ToolVersion "tool.version" Warning Message
        "the version of nsys or ncu is too old, or not known; an error if it cannot be used";

    // Ranks.
    RanksMissing "ranks.missing" Warning Numbers
        "some ranks of the job are missing";
    RanksSizesDiffer "ranks.sizes_differ" Warning Object
        "processes disagree on the number of ranks";
    RanksCommunicators "ranks.communicators" Note Object
        "the ranks come from separate communicators, each of which numbers its own from 0";
    RanksImpossible "ranks.impossible" Warning Object
        "a process reports a rank that its job does not have";
    RanksClaimedTwice "ranks.claimed_twice" Warning Object
        "several processes claim one rank, and all communicate";
    RanksUnmatched "ranks.unmatched" Warning Numbers
        "communication kernels belong to no collective in the report";

    // Engines.
    EngineAdapter "engine.adapter" Warning Setting
        "the engine's adapter cannot be used";
    EngineSteps "engine.steps" Warning Object
        "names of steps contain impossible numbers";
    EngineRequests "engine.requests" Warning Object
        "records of requests contradict each other, so they do not count";

    // The model, its token counts and the hardware: MFU, MBU and the floor.
    ModelUnknown "model.unknown" Note Setting
        "the sizes of the model that ran are not known: MFU, MBU and the floor are absent";
    ModelInvalid "model.invalid" Warning Setting
        "`model.llm` contradicts itself: MFU and MBU are absent";
    ModelSeveral "model.several" Note Setting
        "the command names several models; the first one counts";
    ModelNotKept "model.not_kept" Warning Object
        "the model of the run could not be written to the bundle";
    ModelDiffers "model.differs" Warning Setting
        "the report uses another model, type or token count than the workload did";
    ModelTokens "model.tokens" Note Setting
        "token counts are an upper limit, or come from another run";
    ModelSteps "model.steps" Warning Numbers
        "instances of a stage do not divide evenly among the prefills: its MFU and MBU are absent";
    ModelImpossible "model.impossible" Warning Numbers
        "a utilisation exceeds the peak: the model, token counts, peak or times do not match the run";
    ModelReadsMore "model.reads_more" Warning Numbers
        "a stage reads far more from DRAM than its weights and KV cache";
    HardwareOther "hardware.other" Warning Setting
        "the peak rates are those of another GPU";
    HardwareInvalid "hardware.invalid" Warning Setting
        "a peak rate is not a positive number, so it is ignored";
    HardwareUnknown "hardware.unknown" Warning Setting
        "the peak rates of the GPU are not known: MFU, MBU and the distance to the roof are absent";

    // What the workload was and did.
    WorkloadEnded "workload.ended" Warning Message
        "the workload, or a pass of it, ended early or failed: numbers cover what it did until then";
    WorkloadEndedDifferently "workload.ended_differently" Warning Message
        "the workload ended differently under a tool than in the collect pass";
    WorkloadTimeLimit "workload.time_limit" Warning Setting
        "the launcher ended the workload at its time limit";
    WorkloadInterrupted "workload.interrupted" Note Message
        "a signal interrupted the run";
    WorkloadNotRunnable "workload.not_runnable" Error Message
        "the command cannot be run";
    WorkloadProfiler "workload.profiler" Warning Setting
        "another profiler, or static analysis, was on in the workload";
    WorkloadBlocking "workload.blocking" Warning Setting
        "`CUDA_LAUNCH_BLOCKING` is set: host times are those of a debug run";
    WorkloadNoCollector "workload.no_collector" Warning Object
        "the workload, or one of its programs, cannot load the collector";
    WorkloadConfigUnread "workload.config_unread" Warning Object
        "the workload's own configuration is not known, or only in part; a note if it left none";
    WorkloadManifest "workload.manifest" Warning Setting
        "the workload probably did not read `inputs.manifest`";
    WorkloadOverride "workload.override" Warning Setting
        "an override did not reach the workload, or had no effect; a note if the launcher left it out";
    WorkloadHydra "workload.hydra" Warning Setting
        "the workload looks like a Hydra app, but runs as a plain command";

    // Settings.
    SettingInvalid "setting.invalid" Warning Setting
        "a setting of the report cannot be used, so its default applies";
    SettingNoEffect "setting.no_effect" Warning Setting
        "a setting has no effect here; a note if nothing is lost";
    SettingReplaced "setting.replaced" Note Setting
        "a variable or an override was read differently than it was written; a warning if items may be lost";

    // The run and its bundle.
    RunWouldFail "run.would_fail" Warning Message
        "a run would fail, or lack a requested part";
    RunPassLeftOut "run.pass_left_out" Warning Message
        "passes of the run were left out, or could not begin";
    RunUnclosed "run.unclosed" Warning Object
        "the launcher was killed, or still runs: what came later is missing";
    RunFileUnusable "run.file_unusable" Warning Object
        "a file of the bundle is missing or cannot be used; a note if no measured number depends on it";
    BundleGone "bundle.gone" Error Object
        "the folder of the run was deleted or moved during the run";
    BundleNotWritten "bundle.not_written" Error Message
        "the reports could not be written";
    BundleModes "bundle.modes" Warning Object
        "permissions of files in the bundle could not be set";
    BundleStays "bundle.stays" Warning Setting
        "an older bundle could not be deleted or compressed, or the limits of `run` are too small";
    BundleDeleted "bundle.deleted" Note Setting
        "an older bundle was deleted or compressed, as the limits of `run` require";
    BundleNotShown "bundle.not_shown" Warning Object
        "`latest` does not point to the run, or its page was not opened";
    ImportLeftOut "import.left_out" Warning Object
        "a given file was not merged; a note if it was given twice or is not needed";

    // Benchmarks and comparisons.
    BenchNotMeasured "bench.not_measured" Warning Message
        "a round of the benchmark has no measurement, or the workload itself fails";
    DiffUnlike "diff.unlike" Warning Message
        "two runs differ in something that their comparison depends on";
    DiffUndecided "diff.undecided" Warning Message
        "a change exceeds the limit of a condition, but may be noise, so the condition does not fail";
    DiffReversed "diff.reversed" Warning Message
        "a condition fails if its metric improves";
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Id {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "FindingId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let codes: Vec<&str> = Id::ALL.iter().copied().chain([Id::Unnamed]).map(Id::code).collect();
        let description = "Names a kind of finding: docs/findings.md lists their meanings.";
        schemars::json_schema!({ "type": "string", "enum": codes, "description": description })
    }
}

impl Id {
    /// Of what kind a finding is, and about what, where one report can have several of that kind.
    pub fn about(self, subject: impl AsRef<str>) -> About {
        About { id: self, subject: Some(subject.as_ref().into()) }
    }

    /// A finding of this kind.
    pub fn found(
        self,
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        self.graded(self.severity(), what, why, remedy)
    }

    /// A finding of this kind that matters more or less than others of it.
    pub fn graded(
        self,
        severity: Severity,
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        About { id: self, subject: None }.graded(severity, what, why, remedy)
    }
}

/// The beginning of a finding: [`Id::about`].
#[derive(Debug)]
pub struct About {
    id: Id,
    subject: Option<Box<str>>,
}

impl About {
    /// As [`Id::found`].
    pub fn found(
        self,
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        let severity = self.id.severity();
        self.graded(severity, what, why, remedy)
    }

    /// As [`Id::graded`].
    pub fn graded(
        self,
        severity: Severity,
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        let (what, why, remedy) = (what.into(), why.into(), remedy.into());
        let About { id, subject } = self;
        Finding { id, subject, severity, what, why, remedy, evidence: Vec::new() }.visible()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A row of docs/findings.md; what to do is written there alone.
    fn row(id: Id, page: &str) -> String {
        let begin = format!("| `{}` | ", id.code());
        let written = page.lines().find_map(|line| line.strip_prefix(&begin));
        let cells = written.and_then(|cells| cells.trim_end_matches(" |").rsplit_once(" | "));
        let remedy = cells.map_or("", |(_, remedy)| remedy);
        format!("{begin}{} | {} | {remedy} |\n", id.severity(), id.meaning())
    }

    /// docs/findings.md with a row for each id, in their order: a new one comes before the id that
    /// follows it. What is between the rows is written there alone.
    fn with_rows(page: &str) -> String {
        let mut ids = Id::ALL.iter().copied();
        let mut text = String::new();
        for line in page.lines() {
            let code = line.strip_prefix("| `").and_then(|rest| rest.split('`').next());
            let Some(code) = code.filter(|code| code.contains('.')) else {
                text += &format!("{line}\n");
                continue;
            };
            if ids.clone().any(|id| id.code() == code) {
                let before = ids.clone().take_while(|id| id.code() != code).count();
                text.extend(ids.by_ref().take(before + 1).map(|id| row(id, page)));
            }
        }
        text.extend(ids.map(|id| row(id, page)));
        text
    }

    /// Also that they are the same in JSON.
    #[test]
    fn ids_are_unique_well_formed_and_documented() {
        let codes: BTreeSet<&str> = Id::ALL.iter().map(|id| id.code()).collect();
        assert_eq!(codes.len(), Id::ALL.len(), "an id is there twice");
        for id in Id::ALL {
            let word = |word: &str| {
                !word.is_empty()
                    && word.bytes().all(|b| b.is_ascii_lowercase() || b"_0123456789".contains(&b))
            };
            let code = id.code();
            assert!(
                code.split_once('.').is_some_and(|(of, what)| word(of) && word(what)),
                "{code}"
            );
            assert_eq!(serde_json::to_value(id).unwrap(), code);
            let text = id.meaning();
            assert!(!text.ends_with('.') && !text.contains('|'), "{code}: {text}");
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
        let page = std::fs::read_to_string(path).expect(path);
        let expected = with_rows(&page);
        if std::env::var_os("SNAPSHOTS").is_some_and(|how| how == "overwrite") {
            std::fs::write(path, &expected).expect(path);
        } else {
            assert!(
                page == expected,
                "docs/findings.md differs: SNAPSHOTS=overwrite cargo test -p stage2-model"
            );
        }
        assert!(!page.contains(" |  |\n"), "a finding without what to do");
    }

    #[test]
    fn an_unknown_id_is_unnamed_and_never_an_error() {
        for text in ["\"of.the_future\"", "\"unnamed\"", "\"\""] {
            assert_eq!(serde_json::from_str::<Id>(text).expect(text), Id::Unnamed);
        }
    }
}
