use super::*;
use crate::tools::ncu::config::tests::text;

const fn exit(status: i32) -> CommandEnd {
    CommandEnd {
        exit: Some(WorkloadExit::Code(status)),
        refused: None,
        timed_out_after: None,
        outgrew: None,
        interrupted: false,
        duration: Duration::ZERO,
        log: String::new(),
    }
}

static WELL: CommandEnd = exit(0);

fn run(log: &str) -> ToolRun<'_> {
    ToolRun { ended: &WELL, log, report_bytes: Some(4096), filtered: true, workload_exit: Some(0) }
}

#[test]
fn a_whole_run_has_nothing_to_tell() {
    let outcome = judge(&run(&text("log.matmul.txt")));
    assert_eq!((outcome.verdict, outcome.findings), (Verdict::Complete, vec![]));
}

#[test]
fn nothing_profiled_is_found_anywhere_in_the_log_and_tried_once_more() {
    let long = format!("{}{}", "==PROF== Connected\n".repeat(5000), text("log.nokern.txt"));
    for (log, says) in
        [(long, "No kernels were profiled"), (text("log.norange.txt"), "No ranges were profiled")]
    {
        let first = ToolRun { report_bytes: None, ..run(&log) };
        let outcome = judge(&first);
        assert_eq!(outcome.verdict, Verdict::Retry, "{says}");
        assert!(outcome.findings[0].what.contains(says));
        assert!(outcome.findings[0].remedy.contains("once more"));
        let second = judge(&ToolRun { filtered: false, ..first });
        assert_eq!(second.verdict, Verdict::Failed);
        assert_eq!(second.findings[0].severity, Severity::Error);
        assert!(!second.findings[0].remedy.is_empty());
    }
}

#[test]
fn the_kernels_that_ran_are_named_when_none_matched() {
    let outcome = judge(&ToolRun { report_bytes: None, ..run(&text("log.nokern.txt")) });
    assert!(outcome.findings[0].why.contains("_Z5fma64Pd"), "{:?}", outcome.findings);
}

#[test]
fn a_cause_comes_before_its_consequence_and_is_not_tried_again() {
    for (log, what, remedy) in [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU \
             Performance Counters on the target device 0.\n==WARNING== No kernels were profiled.\n",
            "ERR_NVGPUCTRPERM",
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        (
            "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no \
             other tool (like DCGM) is concurrently collecting\n==WARNING== No kernels were profiled.\n",
            "another tool is using them",
            "dcgmi",
        ),
        (
            "==ERROR== Invalid configuration for nvtx-include : regex:^(/\n==ERROR== Unmatched marking\n",
            "refused an expression",
            "nvtx",
        ),
        (
            "==ERROR== Failed to initialize the profiler: LibraryNotLoaded. Check\n",
            "could not start measuring",
            "driver",
        ),
        (
            "==ERROR== Option '--section X' did not match any section.\n",
            "refused a section",
            "sections.txt",
        ),
        ("==ERROR== unrecognised option '--filter-mode'\n", "did not understand", "log"),
        ("==ERROR== InterprocessLockFailed\n", "lock", "TMPDIR"),
        ("==ERROR== Cannot lock GPU clock frequencies on MIG!\n", "clocks", "clock_control=none"),
    ] {
        let outcome = judge(&ToolRun { ended: &exit(1), report_bytes: None, ..run(log) });
        assert_eq!(outcome.verdict, Verdict::Failed, "{log}");
        assert_eq!(outcome.findings.len(), 1, "{:?}", outcome.findings);
        let finding = &outcome.findings[0];
        assert!(finding.what.contains(what) && finding.remedy.contains(remedy), "{finding}");
        assert!(!finding.remedy.contains("http"), "{finding}");
        assert_eq!(finding.severity, Severity::Error);
    }
}

#[test]
fn a_real_refusal_of_a_section_is_known() {
    let log = text("log.badsection.txt");
    let outcome = judge(&ToolRun { ended: &exit(1), report_bytes: None, ..run(&log) });
    assert!(outcome.findings[0].what.contains("refused a section"), "{:?}", outcome.findings);
}

#[test]
fn the_status_of_the_workload_is_told_only_where_it_differs_from_the_undisturbed_one() {
    let log = text("log.exit3.txt");
    let failed = judge(&ToolRun { ended: &exit(3), ..run(&log) });
    assert_eq!(failed.verdict, Verdict::Complete, "the report is whole");
    assert!(failed.findings[0].what.contains("status 3"), "{:?}", failed.findings);
    let same = judge(&ToolRun { ended: &exit(3), workload_exit: Some(3), ..run(&log) });
    assert_eq!(same.findings, []);
}

#[test]
fn ends_of_every_kind_are_told() {
    let late = || CommandEnd { timed_out_after: Some(Duration::from_secs(60)), ..exit(143) };
    let refused = |why: &str| CommandEnd { refused: Some(why.to_owned()), ..CommandEnd::default() };
    let signal =
        |signal| CommandEnd { exit: Some(WorkloadExit::Signal(signal)), ..CommandEnd::default() };
    for (ended, report_bytes, verdict, part) in [
        (late(), Some(10), Verdict::Partial, "ended after 60 s"),
        (late(), None, Verdict::Failed, "ended after 60 s"),
        (signal(11), None, Verdict::Failed, "signal 11"),
        (signal(9), Some(10), Verdict::Partial, "signal 9"),
        (refused("ncu: command not found"), None, Verdict::Failed, "not found"),
        (refused("ncu: permission denied"), None, Verdict::Failed, "could not be started"),
        (exit(0), None, Verdict::Failed, "wrote no report"),
        (exit(0), Some(0), Verdict::Failed, "empty report"),
        (exit(127), None, Verdict::Failed, "status 127"),
    ] {
        let outcome = judge(&ToolRun { ended: &ended, report_bytes, ..run("") });
        assert_eq!(outcome.verdict, verdict, "{ended:?}");
        assert!(outcome.findings[0].what.contains(part), "{ended:?}: {:?}", outcome.findings);
        assert!(!outcome.findings[0].remedy.is_empty());
    }
}

#[test]
fn one_failed_launch_makes_a_run_partial() {
    let log = "==ERROR== Failed to profile \"gemm\" in process 7\n==PROF== Report: x\n";
    assert_eq!(judge(&run(log)).verdict, Verdict::Partial);
}

#[test]
fn an_import_is_judged() {
    let file = Path::new("/r/decode.ncu-rep");
    assert_eq!(judge_import(file, &exit(0), "", Some(10)), None);
    let said = text("log.import-not-a-report.txt");
    let broken = judge_import(file, &exit(1), &said, Some(115)).expect("finding");
    assert!(broken.why.contains("not an Nsight Compute profiler report"), "{broken}");
    let newer = "==ERROR== The report was created with a newer version of Nsight Compute.";
    let newer = judge_import(file, &exit(1), newer, None).expect("finding");
    assert!(newer.what.contains("another version"), "{newer}");
    let killed = CommandEnd { exit: Some(WorkloadExit::Signal(9)), ..CommandEnd::default() };
    let late = CommandEnd { timed_out_after: Some(Duration::from_secs(1)), ..exit(143) };
    for ended in [exit(0), exit(2), killed, late] {
        assert!(judge_import(file, &ended, "", Some(0)).is_some(), "{ended:?}");
    }
}

#[test]
fn hostile_logs_are_shown_as_text() {
    let log = format!("==ERROR== \x1b[31m{}\n", "é".repeat(100_000));
    let outcome = judge(&ToolRun { ended: &exit(1), report_bytes: None, ..run(&log) });
    assert!(outcome.findings[0].to_string().len() < 1000);
    assert!(!outcome.findings[0].why.contains('\x1b'));
}

fn range(stack: Vec<Label>, kernels: u64) -> RangeTime {
    RangeTime { stack, kernels, total_ns: kernels }
}

fn seen() -> Vec<RangeTime> {
    let of_path = |path: &str| path.split('/').map(Label::of_stage).collect();
    let paths = [
        ("prefill", 5),
        ("prefill/attn", 5),
        ("decode@LLM", 9),
        ("warm[0]", 0),
        ("layer3", 4),
        ("outer", 3),
        ("outer/mid", 3),
        ("outer/mid/inner", 3),
    ];
    let ranges = paths.map(|(path, kernels)| range(of_path(path), kernels));
    let slashed = range(vec![Label { name: "a/b".into(), domain: None }], 2);
    ranges.into_iter().chain([slashed]).collect()
}

/// What is told of a run with these expressions that profiled nothing.
fn told(include: &[&str], start_end: bool, seen: &[RangeTime]) -> Finding {
    nothing_passed(&of(include), start_end, seen).expect("a finding")
}

fn of(include: &[&str]) -> Filter {
    let nvtx_include = include.iter().map(|text| (*text).to_owned()).collect();
    Filter { nvtx_include, ..Filter::default() }
}

#[test]
fn the_cause_is_named_for_each_expression() {
    for (expression, cause) in [
        ("nothing/", "nothing/ matches no range of the run"),
        ("regex:^dec$/", "regex:^dec$/ matches no range"),
        ("decode/", "decode/: the range is in another domain: write LLM@decode/"),
        ("LLM@prefill/attn/", "in another domain: write attn/"),
        (r"LLM@a\/b/", r"in another domain: write a\/b/"),
        ("regex:layer[0-9]/", "kernels ran in regex:layer[0-9]/ in the collect pass"),
        ("LLM@decode/", "other threads than the one that opened the range"),
        ("regex:^LLM$@^dec.*$/", "other threads than the one that opened the range"),
        (r"warm\[0\]/", "no kernel was launched in"),
        ("attn/", "other threads"),
        ("prefill/attn/", "other threads"),
        ("[attn/", "matches no range"),
        ("outer/*/inner/", "other threads"),
        ("outer/+/inner/", "other threads"),
        ("outer/inner/", "matches no range"),
        ("prefill/+/attn/", "matches no range"),
        ("[outer/*/inner]", "other threads"),
        ("regex:^(/", "cannot be compared"),
        ("a@b@c/", "cannot be compared"),
    ] {
        let found = told(&[expression], false, &seen());
        assert!(found.why.contains(cause), "{expression}: {found}");
        assert!(found.what.contains(expression), "{found}");
    }
}

#[test]
fn what_was_asked_for_and_what_was_seen_are_listed() {
    let asked: Vec<String> = (0..9).map(|n| format!("stage{n}/")).collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let found = told(&asked, false, &seen());
    assert!(found.what.contains("stage0/") && found.what.contains("and 1 more"), "{found}");
    let saw = "the collector saw a%2Fb, decode@LLM, layer3, outer, outer/mid";
    assert!(found.why.contains(saw), "{found}");
    let found = told(&asked, false, &[]);
    assert!(found.why.ends_with("the collector saw no range"), "{found}");
    assert_eq!(nothing_passed(&of(&[]), false, &seen()), None);
}

#[test]
fn every_filter_that_may_have_kept_the_kernels_out_is_named() {
    let mut filter = of(&["prefill/"]);
    let why = |filter: &Filter| nothing_passed(filter, false, &seen()).expect("a finding").why;
    let plain = "kernels ran in prefill/ in the collect pass; either other threads";
    assert!(why(&filter).starts_with(plain), "{}", why(&filter));
    filter.kernel_name = Some("regex:^(no_such)$".to_owned());
    filter.nvtx_exclude = vec!["attn/".to_owned()];
    let both = "either none of them passed the kernel name filter, or all are in the excluded \
                attn/, or other threads";
    assert!(why(&filter).contains(both), "{}", why(&filter));
    let remedy = nothing_passed(&filter, false, &seen()).expect("a finding").remedy;
    assert!(remedy.contains("ncu_cli.kernel_name"), "{remedy}");
}

#[test]
fn start_end_ranges_are_read_as_such() {
    let cause = |text: &str| told(&[text], true, &seen()).why;
    assert!(cause("attn,prefill").starts_with("kernels ran in attn,prefill"));
    assert!(cause("attn,outer").starts_with("attn,outer matches no range"));
    assert!(cause("decode").contains("write LLM@decode;"), "{}", cause("decode"));
}

#[test]
fn hostile_expressions_end() {
    let deep = [range(vec![Label::of_stage("a"); 500], 1)];
    told(&[&format!("a/{}b/", "*/".repeat(2000)), "\\", &"é[".repeat(2000)], false, &deep);
}
