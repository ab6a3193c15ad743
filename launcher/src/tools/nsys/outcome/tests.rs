//! Logs as nsys 2022.4 and 2023.4 write them -> verdicts.

use super::*;
use stage2_model::finding::Id;
use std::time::Duration;

use crate::tools::nsys::config::tests::{default, gated};

const STARTED: &str =
    "Capture range started in the application.\nCapture range ended in the application.\n";
const REPORT: &str = "/r/run.nsys-rep";

/// A run that is over, and what it left.
struct Left {
    ended: CommandEnd,
    files: Files,
}

fn ended(code: i32, log: &str, report_bytes: Option<u64>) -> Left {
    let reports = report_bytes.map(|bytes| (REPORT.into(), bytes)).into_iter().collect();
    let exit = Some(WorkloadExit::Code(code));
    let ended = CommandEnd { exit, log: log.into(), ..CommandEnd::default() };
    Left { ended, files: Files { reports, ..Files::default() } }
}

fn judge(nsys: &Nsys, left: &Left) -> Outcome {
    super::judge(nsys, &left.ended, &left.files)
}

fn is_ok(outcome: &Outcome) -> bool {
    outcome.verdict == Verdict::Ok { reports: vec![REPORT.into()] }
}

fn failure(outcome: Outcome) -> String {
    match outcome.verdict {
        Verdict::Failed { finding } => finding.to_string(),
        other => panic!("{other:?}"),
    }
}

fn no_range(outcome: Outcome) -> Finding {
    match outcome.verdict {
        Verdict::NoRange { finding } => finding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_report_is_a_result_whatever_the_workload_exits_with() {
    for (code, workload) in [
        (0, WorkloadExit::Code(0)),
        (3, WorkloadExit::Code(3)),
        (137, WorkloadExit::Signal(9)),
        (143, WorkloadExit::Signal(15)),
    ] {
        let outcome = judge(&default(), &ended(code, "", Some(10)));
        assert!(is_ok(&outcome) && outcome.findings.is_empty(), "{outcome:?}");
        assert_eq!(outcome.workload, Some(workload));
    }
}

#[test]
fn the_signal_that_nsys_sends_at_a_shutdown_is_no_failure() {
    let (killed, crashed) = (WorkloadExit::Signal(15), WorkloadExit::Signal(11));
    // None: nsys ended it, which is not its own exit.
    for (end, kill, code, workload) in [
        ("stop-shutdown", None, 143, None),
        ("repeat-shutdown:2", None, 143, None),
        // With stop nsys sends none.
        ("stop", None, 143, Some(killed)),
        ("stop-shutdown", Some("sigkill"), 128 + 9, None),
        ("stop-shutdown", Some("sigkill"), 128 + 11, Some(crashed)),
        ("stop-shutdown", Some("sigterm"), 128 + 15, None),
        ("stop-shutdown", Some("sigterm"), 128 + 11, Some(crashed)),
        ("stop-shutdown", Some("2"), 128 + 2, None),
        ("stop-shutdown", Some("2"), 128 + 11, Some(crashed)),
        ("stop-shutdown", Some("none"), 143, Some(killed)),
    ] {
        let kill = kill.map(str::to_owned);
        let nsys = Nsys { capture_range_end: Some(end.into()), kill, ..gated() };
        let outcome = judge(&nsys, &ended(code, STARTED, Some(10)));
        assert!(is_ok(&outcome) && outcome.findings.is_empty(), "{outcome:?}");
        assert_eq!(outcome.workload, workload, "{end} {:?} {code}", nsys.kill);
    }
}

#[test]
fn a_range_that_never_came_is_told_from_other_failures() {
    let nothing = "workload done\nGenerated:\n";
    let finding = no_range(judge(&gated(), &ended(0, nothing, None)));
    assert!(finding.what.contains("decode@*") && !finding.remedy.is_empty(), "{finding}");
    let finding = no_range(judge(&gated(), &ended(7, nothing, None)));
    assert!(finding.why.contains("exit status 7"), "{finding}");
    let finding = no_range(judge(&waiting_for("decode"), &ended(0, "", None)));
    assert!(finding.why.contains("default domain"), "{finding}");
    let seen = failure(judge(&gated(), &ended(0, STARTED, None)));
    assert!(seen.contains("saw the capture range"), "{seen}");
    let ungated = failure(judge(&default(), &ended(0, nothing, None)));
    assert!(ungated.contains("wrote no report (exit status 0)"), "{ungated}");
    // The workload only talks of it.
    no_range(judge(&gated(), &ended(0, "log: Capture range started in the application.", None)));
}

#[test]
fn refusals_are_named() {
    for (log, expected) in [
        ("Illegal --trace argument 'bogus'\n", "does not accept its arguments"),
        ("unrecognised option '--bogus=3'\n", "does not accept its arguments"),
        (
            "Executable not found in current directory or standard search paths\n",
            "program of the workload",
        ),
        ("Connection to Agent lost. This is most likely a bug.\n", "lost its own helper"),
        ("End of file\n", "lost its own helper"),
        (
            "ClientProxy.cpp(389): Throw in function GetLocalEndpoint() const\n\
             [QuadDCommon::tag_message*] = Local Endpoint is not available.\n\n",
            "lost its own helper",
        ),
        (
            "Session name 'profile-27777' is already in use. Run `nsys sessions list` to list your \
             active sessions.\n",
            "lost its own helper",
        ),
    ] {
        for nsys in [default(), gated()] {
            let outcome = judge(&nsys, &ended(1, log, None));
            assert_eq!(outcome.workload, None, "1 is nsys's own status here");
            assert!(failure(outcome).contains(expected), "{log}");
        }
    }
    // The workload said that.
    for own_words in ["app: Illegal --foo argument", "End of file"] {
        no_range(judge(&gated(), &ended(0, own_words, None)));
    }
}

#[test]
fn an_agent_that_is_lost_is_no_missing_range_whatever_the_status() {
    let log = "Connection to Agent lost. This is most likely a bug. Internal reason: 'End of file'.\n\
               Please refer to the troubleshooting section of the docs:\n";
    for status in [0, 1] {
        let outcome = judge(&gated(), &ended(status, log, None));
        assert!(outcome.transient, "it may well work the next time");
        assert_eq!(outcome.workload, None, "which may not even have started");
        assert!(failure(outcome).contains("lost its own helper"));
    }
}

#[test]
fn imports_with_errors_are_noticed() {
    let log = "Importation succeeded with non-fatal errors.\nImportation succeeded with non-fatal errors.\n";
    let outcome = judge(&default(), &ended(0, log, Some(10)));
    assert!(is_ok(&outcome));
    assert_eq!(outcome.findings.len(), 1, "said once");
    assert!(outcome.findings.iter().all(|f| f.severity == Severity::Warning));
}

#[test]
fn time_outs_keep_what_there_is() {
    let mut late = ended(143, "", Some(10));
    late.ended.timed_out_after = Some(Duration::from_secs(60));
    let outcome = judge(&default(), &late);
    assert!(is_ok(&outcome) && outcome.workload.is_none());
    assert!(outcome.findings.iter().any(|f| f.what.contains("within 60 s")), "{outcome:?}");
    late.files.reports.clear();
    for nsys in [default(), gated()] {
        let outcome = judge(&nsys, &late);
        assert!(outcome.findings.is_empty(), "the verdict says it");
        assert!(failure(outcome).contains("time_limit_s"));
    }
}

#[test]
fn empty_raw_and_misplaced_reports() {
    assert!(failure(judge(&default(), &ended(0, "", Some(0)))).contains("empty report"));
    let unread =
        "Unable to retrieve the importer version: skipping importation of the QDSTRM file.";
    let mut raw = ended(0, unread, None);
    raw.files.raw = Some(("/r/run.qdstrm".into(), 10));
    assert!(failure(judge(&default(), &raw)).contains("importer"));
    let log = "Importer error status: Importation failed.\n";
    let failed = failure(judge(&default(), &ended(0, log, Some(0))));
    assert!(failed.contains("Importation failed"), "{failed}");
    let log = "Failed to create '/r/run.nsys-rep': File exists.\n\nGenerated:\n    /tmp/nsys-report-6fac.nsys-rep\n";
    let place = PathBuf::from("/tmp/nsys-report-6fac.nsys-rep");
    let mut elsewhere = ended(0, log, None);
    elsewhere.files.elsewhere = vec![(place.clone(), 10)];
    let outcome = judge(&default(), &elsewhere);
    assert_eq!(outcome.verdict, Verdict::Ok { reports: vec![place] });
    assert!(outcome.findings.iter().any(|f| f.why.contains("File exists")), "{outcome:?}");
}

#[test]
fn files_are_found_by_every_number() {
    let dir = tempfile::tempdir().expect("folder");
    let base = dir.path().join("run");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("file");
    assert_eq!(Files::find(&base, ""), Files::default());
    write("run.qdstrm", "x");
    write("run.1.nsys-rep", "1");
    write("run.2.nsys-rep", "");
    write("run.4.nsys-rep", "not in the row");
    write("other.nsys-rep", "abc");
    let log = format!(
        "Generated:\n    {0}/run.1.nsys-rep\n    {0}/other.nsys-rep\n    {0}/raw.qdstrm\n",
        dir.path().display()
    );
    let files = Files::find(&base, &log);
    let expected =
        [("run.1.nsys-rep", 1), ("run.2.nsys-rep", 0)].map(|(n, b)| (dir.path().join(n), b));
    assert_eq!(files.reports, expected);
    assert_eq!(files.raw, Some((dir.path().join("run.qdstrm"), 1)));
    assert_eq!(files.elsewhere, [(dir.path().join("other.nsys-rep"), 3)]);
    std::fs::remove_file(dir.path().join("run.qdstrm")).expect("file");
    write("raw.qdstrm", "in another place");
    assert_eq!(Files::find(&base, &log).raw, Some((dir.path().join("raw.qdstrm"), 16)));
}

#[test]
fn exports_are_judged_by_status_and_file() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("run.sqlite");
    let unread = "x\nExportation error: Cannot read from stream.\n";
    for (written, code, log, late, told) in [
        (None, 0, unread, false, &["did not write", "Cannot read"][..]),
        (Some(""), 0, "", false, &["empty"]),
        (Some("x"), 0, "", false, &[]),
        (Some("x"), 1, "", false, &["exit status 1"]),
        (Some("x"), 143, "", true, &["within 1 s"]),
    ] {
        if let Some(text) = written {
            std::fs::write(&file, text).expect("file");
        }
        let timed_out_after = late.then_some(Duration::from_secs(1));
        let end = CommandEnd { timed_out_after, ..ended(code, log, None).ended };
        let judged = judge_tables("nsys export", &end, &file, "do this");
        let said = judged.err().map(|finding| finding.to_string()).unwrap_or_default();
        assert_eq!(said.is_empty(), told.is_empty(), "{said}");
        assert!(told.iter().all(|part| said.contains(part)), "{said}");
    }
}

fn range(name: &str, domain: Option<&str>, depth: u64) -> PathRow {
    let (name, domain) = (name.to_owned(), domain.map(str::to_owned));
    PathRow { name, domain, depth, ..PathRow::default() }
}

fn told(nsys: &Nsys, paths: &[PathRow]) -> String {
    with_seen(Id::NsysNoRange.found("it never came", "none was opened", "look"), nsys, paths).why
}

fn waiting_for(capture: &str) -> Nsys {
    Nsys { nvtx_capture: Some(capture.into()), ..gated() }
}

#[test]
fn the_ranges_that_the_collector_saw_are_named_once_and_the_outer_ones_first() {
    let outside = PathRow { kind: PathKind::OutsideRanges, ..range("(outside)", None, 0) };
    let paths = [
        range("decode", None, 0),
        range("layer", None, 1),
        range("prefill", None, 0),
        range("layer", None, 1),
        range("decode_all", Some("LLM"), 0),
        outside,
    ];
    let why = told(&waiting_for("decoding@*"), &paths);
    assert_eq!(why, "none was opened; the collector saw decode, prefill, decode_all@LLM, layer");
    let many: Vec<PathRow> = (0..11).map(|n| range(&format!("r{n}"), None, 0)).collect();
    let why = told(&waiting_for("decoding@*"), &many);
    assert!(why.ends_with("r6, r7 and 3 more"), "{why}");
    assert!(told(&waiting_for("x"), &[]).ends_with("the collector saw no range"));
    assert_eq!(told(&default(), &paths), "none was opened", "it waited for no range");
}

#[test]
fn a_range_that_the_collector_saw_was_perhaps_too_short_for_nsys() {
    let paths = [range("decode", None, 0), range("layer", Some("LLM"), 1)];
    for seen in ["decode", "decode@*", "layer@LLM"] {
        let why = told(&waiting_for(seen), &paths);
        assert!(why.contains("the collector saw it in its own run"), "{why}");
    }
    assert!(told(&waiting_for("layer"), &paths).ends_with("the collector saw decode, layer@LLM"));
}

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
    let log =
        "Generated:\nGenerating '/tmp/x.qdstrm'\n[1/1] [0% ] run.nsys-rep\r[100%] run.nsys-rep\n";
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
    assert!(last_complaint(&long).is_some_and(|line| line.chars().count() == MAX_SHOWN_CHARS + 3));
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
    let found = NsysLog::in_log(log).findings();
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
        assert_eq!(NsysLog::in_log(log).may_pass(), expected, "{log}");
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
