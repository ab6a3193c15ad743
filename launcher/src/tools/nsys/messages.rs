//! The log of nsys -> what it said about the capture, in terms that do not change with its versions.

use std::path::{Path, PathBuf};

use stage2_model::{Finding, Severity};

/// What nsys said.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// The capture range came.
    pub(super) range_started: bool,
    /// The capture could not be turned into a report.
    pub(super) import_failed: Option<String>,
    /// Why the report is not where it should be.
    pub(super) not_created: Option<String>,
    /// The first line of each known kind, in their order.
    known: Vec<(&'static Kind, String)>,
}

/// A line that nsys writes, and what it means.
#[derive(Debug, PartialEq)]
struct Kind {
    /// Any of these, in lower case: within the line, or as the whole of it where `^` stands before it.
    marks: &'static [&'static str],
    /// An error: there is no report. Else the report lacks something.
    severity: Severity,
    what: &'static str,
    remedy: &'static str,
}

const LOST_HELPER: &str = "nsys lost its own helper process";

const KINDS: &[Kind] = &[
    Kind {
        marks: &[
            "illegal --",
            "unrecognised option",
            "unrecognized option",
            "option is ambiguous",
            "cannot be specified more than once",
            "required argument is missing",
        ],
        severity: Severity::Error,
        what: "nsys does not accept its arguments",
        remedy: "a key of pipeline.nsys has a value that this version does not know: compare with \
                 `nsys profile --help`",
    },
    Kind {
        marks: &["executable not found"],
        severity: Severity::Error,
        what: "nsys does not find the program of the workload",
        remedy: "check the first word after `--`",
    },
    Kind {
        // On a busy machine 2023.4.4 fails at one start in 70, always before the workload runs.
        marks: &[
            "connection to agent lost",
            "agent launcher failed",
            "unable to connect to agent",
            "local endpoint is not available",
            "session name 'profile-",
            "^end of file",
        ],
        severity: Severity::Error,
        what: LOST_HELPER,
        remedy: "run it again; if it stays, use another version of nsys",
    },
    Kind {
        marks: &[
            "perf_event_open",
            "ptrace",
            "must be run as root",
            "requires root privileges",
            "insufficient privilege",
        ],
        severity: Severity::Error,
        what: "nsys is not permitted what it tries",
        remedy: "set pipeline.nsys.sample and cpuctxsw to none; in a container, allow ptrace and \
                 perf_event_open (--cap-add=SYS_ADMIN, or a seccomp profile that has them)",
    },
    Kind {
        marks: &["no space left on device"],
        severity: Severity::Error,
        what: "the disk is full",
        remedy: "free space in the run folder and in the temporary folder (TMPDIR)",
    },
    Kind {
        marks: &["this is most likely a bug", "nsys-launcher: ", "quaddaemon"],
        severity: Severity::Error,
        what: "nsys crashed",
        remedy: "run it again; if it stays, use another version of nsys",
    },
    Kind {
        marks: &["unknown runtime api function index", "unknown driver api function index"],
        severity: Severity::Warning,
        what: "nsys met a call of CUDA that it does not know, and may have dropped what came with it",
        remedy: "it is older than the workload's CUDA libraries: use an nsys as new as these",
    },
    Kind {
        marks: &["importation succeeded with non-fatal errors"],
        severity: Severity::Warning,
        what: "nsys imported its capture with errors",
        remedy: "records may be missing without any mark in the tables: believe the comparison with \
                 the collector; a newer nsys may import all of it",
    },
    Kind {
        marks: &["multiple_subscribers", "multiple subscribers"],
        severity: Severity::Warning,
        what: "another tool in the workload holds CUPTI",
        remedy: "switch off the profiler that the workload itself starts (torch.profiler, ...)",
    },
    Kind {
        marks: &["err_nvgpuctrperm"],
        severity: Severity::Warning,
        what: "GPU counters are not permitted",
        remedy: "allow them to users (NVreg_RestrictProfilingToAdminUsers=0), or run as root",
    },
    Kind {
        marks: &[
            "sampling not supported",
            "context switch tracing not supported",
            "perf_event_paranoid",
            "paranoid level",
        ],
        severity: Severity::Note,
        what: "the CPU side of nsys is off",
        remedy: "set pipeline.nsys.sample and cpuctxsw to none, or lower kernel.perf_event_paranoid",
    },
    Kind {
        marks: &[
            "events were lost",
            "events have been dropped",
            "buffers were dropped",
            "might have not been collected",
            "not all events",
            "data loss",
        ],
        severity: Severity::Warning,
        what: "nsys lost records",
        remedy: "capture less (profiling/nsys=nsys.gated), or trace less (pipeline.nsys.trace)",
    },
    Kind {
        marks: &[
            "cuda profiling might have not been started",
            "cuda injection failed",
            "no cuda events collected",
        ],
        severity: Severity::Warning,
        what: "nsys recorded no GPU work",
        remedy: "the driver may be newer than this nsys knows: use a newer one",
    },
];

/// More than this of a line is not shown.
const MAX_SHOWN_CHARS: usize = 300;

impl Said {
    /// Reads a log.
    pub(super) fn in_log(log: &str) -> Said {
        let mut said = Said::default();
        for line in lines(log) {
            let low = line.to_ascii_lowercase();
            // Whole lines: the workload's own output must not end the search for them.
            said.range_started |= low == "capture range started in the application.";
            if said.import_failed.is_none() && low.starts_with("importer error status:") {
                said.import_failed = Some(shown(line));
            }
            if said.not_created.is_none() && low.starts_with("failed to create '") {
                said.not_created = Some(shown(line));
            }
            for is_refusal in [true, false] {
                let mut kinds = KINDS.iter().filter(|kind| kind.is_refusal() == is_refusal);
                if let Some((kind, at)) = kinds.find_map(|kind| Some((kind, kind.find(&low)?)))
                    && !said.known.iter().any(|(known, _)| *known == kind)
                {
                    said.known.push((kind, shown_from(line, at)));
                }
            }
        }
        said
    }

    /// Why it did not work, where it says so.
    pub(super) fn refusal(&self) -> Option<Finding> {
        self.refused().map(|(kind, line)| kind.finding(line))
    }

    /// nsys lost its helper, in words that only nsys writes. It can then exit with status 0.
    pub(super) fn lost_agent(&self) -> Option<Finding> {
        let (kind, line) = self.refused()?;
        line.starts_with("Connection to Agent lost.").then(|| kind.finding(line))
    }

    fn refused(&self) -> Option<&(&'static Kind, String)> {
        self.known.iter().find(|(kind, _)| kind.is_refusal())
    }

    /// Whether it was seen to work the next time: the importer and the connection to its own helper
    /// fail now and then, above all on a busy machine.
    pub(super) fn may_pass(&self) -> bool {
        let import =
            self.import_failed.as_ref().is_some_and(|line| line.contains("Importation failed"));
        import || self.refused().is_some_and(|(kind, _)| kind.what == LOST_HELPER)
    }

    /// What is missing from the report, as far as it says so.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let troubles = self.known.iter().filter(|(kind, _)| !kind.is_refusal());
        troubles.map(|(kind, line)| kind.finding(line)).collect()
    }
}

impl Kind {
    fn is_refusal(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Where a line in lower case has one of the marks.
    fn find(&self, line: &str) -> Option<usize> {
        self.marks.iter().find_map(|mark| match mark.strip_prefix('^') {
            Some(whole) => (line == whole).then_some(0),
            None => line.find(mark),
        })
    }

    fn finding(&self, line: &str) -> Finding {
        Finding::new(self.severity, self.what, format!("it says: {line}"), self.remedy)
    }
}

/// Captures and reports that the log names after `Generated:`.
pub(super) fn generated(log: &str) -> Vec<PathBuf> {
    let after = lines(log).skip_while(|line| *line != "Generated:").skip(1);
    let files = after.take_while(|line| line.starts_with('/') || line.is_empty());
    let known = [".nsys-rep", ".qdrep", ".qdstrm"];
    let wanted = files.filter(|line| known.iter().any(|extension| line.ends_with(extension)));
    wanted.map(PathBuf::from).collect()
}

/// The last line that complains, or else the last at all.
pub(super) fn last_complaint(log: &str) -> Option<String> {
    let complains = |line: &&str| {
        let low = line.to_ascii_lowercase();
        low.contains("error") || low.contains("failed") || low.contains("not ")
    };
    let all: Vec<&str> = lines(log).filter(|line| !line.is_empty()).collect();
    all.iter().rev().copied().find(complains).or(all.last().copied()).map(shown)
}

/// As [`last_complaint`], out of what `nsys stats` says about one of its tables where it names them.
pub(super) fn complaint_about(log: &str, table: &Path) -> Option<String> {
    let name = table.file_name()?.to_string_lossy();
    let begins = |line: &str| line.trim_start().starts_with("Processing [");
    // The input stands in the line of every table: only the output tells them apart.
    let output =
        |line: &str| line.split_once("] to [")?.1.split_once(']').map(|(to, _)| to.to_owned());
    let writes = |line: &str| output(line).is_some_and(|to| to.contains(&*name));
    let about: Vec<&str> = lines(log)
        .skip_while(|line| !(begins(line) && writes(line)))
        .enumerate()
        .take_while(|(at, line)| *at == 0 || !begins(line))
        .map(|(_, line)| line)
        .collect();
    last_complaint(&about.join("\n")).or_else(|| last_complaint(log))
}

/// Lines of a log; a progress bar is rewritten with carriage returns.
fn lines(log: &str) -> impl Iterator<Item = &str> {
    log.split(['\n', '\r']).map(str::trim)
}

/// A line as it is shown, from byte `at` where that would be cut off: of what its importer throws,
/// nsys says the cause last, behind the place in its own source, and with line ends spelled out.
fn shown_from(line: &str, at: usize) -> String {
    match line.get(at..).filter(|_| at > MAX_SHOWN_CHARS / 2) {
        Some(cause) => shown(cause.trim_end_matches('"').trim_end_matches("\\n")),
        None => shown(line),
    }
}

fn shown(line: &str) -> String {
    match line.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((at, _)) => format!("{}...", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_about_the_table_that_is_asked_for() {
        let log = "Processing [run.sqlite] with [/n/reports/nvtx_sum.py] to [/r/run_nvtx_sum.csv]... \
                   SKIPPED: run.sqlite does not contain NV Tools Extension (NVTX) data.\n\n\
                   Processing [run.sqlite] with [/n/reports/cuda_gpu_kern_sum.py] to \
                   [/r/run_cuda_gpu_kern_sum.csv]... \n\
                   SKIPPED: run.sqlite does not contain CUDA kernel data.\n";
        let about = |file: &str| complaint_about(log, Path::new(file)).unwrap_or_default();
        assert!(about("/r/run_nvtx_sum.csv").contains("NVTX"), "{}", about("/r/run_nvtx_sum.csv"));
        assert!(about("/r/run_cuda_gpu_kern_sum.csv").contains("CUDA kernel"));
        assert!(about("/r/run.sqlite").contains("CUDA kernel"), "else the last of the log");
        assert_eq!(complaint_about("", Path::new("/r/run.sqlite")), None);
    }

    #[test]
    fn generated_files_are_those_of_the_list_only() {
        let log = "Generated:\nGenerating '/tmp/x.qdstrm'\n[1/1] [0% ] run.nsys-rep\r[100%] run.nsys-rep\n";
        assert_eq!(generated(log), Vec::<PathBuf>::new());
        let log = "hi\n\nGenerated:\n    /r/run.1.nsys-rep\n    /r/run.sqlite\n    /r/run.2.nsys-rep\nbye\n/x.nsys-rep";
        assert_eq!(generated(log), ["/r/run.1.nsys-rep", "/r/run.2.nsys-rep"].map(PathBuf::from));
    }

    #[test]
    fn a_complaint_is_found_behind_progress_and_shortened() {
        assert_eq!(
            last_complaint("a\rExportation error: File not found\n50%\r\n"),
            Some("Exportation error: File not found".into())
        );
        assert_eq!(last_complaint("\n\n"), None);
        let long = "é".repeat(1000);
        assert!(
            last_complaint(&long).is_some_and(|line| line.chars().count() == MAX_SHOWN_CHARS + 3)
        );
    }

    #[test]
    fn the_call_that_an_old_nsys_does_not_know_is_shown() {
        // As nsys 2023.4.4 wrote it beside CUDA 13; the kernels behind that call were lost.
        let log = concat!(
            r#"Importer error status: Importation succeeded with non-fatal errors."#,
            "\n",
            r#"        Value: "/dvs/p4/build/sw/devtools/Agora/Rel/CUDA12.4/QuadD/Host/Analysis/Modules/"#,
            r#"TraceProcessEvent.cpp(45): Throw in function const string& {anonymous}::"#,
            r#"GetAPICallbackName(bool, bool, uint32_t, const QuadDAnalysis::MoreInjection&)\nDynamic "#,
            r#"exception type: boost::wrapexcept<QuadDCommon::InvalidArgumentException>\nstd::exception"#,
            r#"::what: InvalidArgumentException\n[QuadDCommon::tag_message*] = "#,
            r#"Unknown runtime API function index: 468\n""#,
        );
        let found = Said::in_log(log).findings();
        assert_eq!(found.len(), 2, "{found:?}");
        let unknown = found.iter().find(|one| one.what.contains("does not know")).expect("told");
        assert_eq!(unknown.why, "it says: Unknown runtime API function index: 468");
    }

    #[test]
    fn what_may_pass_is_known() {
        for (log, expected) in [
            ("Connection to Agent lost. This is most likely a bug.", true),
            ("End of file", true),
            ("EOFError: unexpected end of file", false),
            ("Importer error status: Importation failed.", true),
            ("Importer error status: An unknown error occurred.", false),
            ("Illegal --trace argument 'x'", false),
        ] {
            assert_eq!(Said::in_log(log).may_pass(), expected, "{log}");
        }
    }

    #[test]
    fn marks_are_in_lower_case() {
        for kind in KINDS {
            for mark in kind.marks {
                assert_eq!(*mark, mark.to_ascii_lowercase(), "else it is never found");
            }
        }
    }
}
