//! Which kernels ncu is asked for where the collect pass knows none: under stand-ins for the tools.

use std::path::Path;

use stage2_contract::trace::NONE;

use super::{Sums, fixture, sql, table};
use crate::common::trace::Build;
use crate::common::{FAKE_NSYS, Sandbox, at_once, change_export, fake_ncu, unpack};

/// Profiles nothing as long as there is a filter, where `$FAKE` says so.
const NCU: &str = r#""$@"; code=$?
[ "$FAKE" = nokernels ] && [ -n "$filtered" ] && { echo "==WARNING== No kernels were profiled." > "$log"; exit $code; }
echo "==PROF== Disconnected" > "$log"; echo report > "$out""#;

/// A sandbox with ncu, and nsys or not.
fn sandbox(nsys: bool) -> Sandbox {
    let sandbox = Sandbox::new();
    // It cannot list its sections.
    let lists_nothing = fake_ncu("exit 1", NCU)
        .replace("echo \"Identifier DisplayName Enabled\"; exit 0", "exit 1");
    sandbox.executable("tools/ncu", &lists_nothing);
    if nsys {
        sandbox.executable("tools/nsys", FAKE_NSYS);
    }
    unpack("nsys/decode.sqlite.xz", &sandbox.path("elsewhere.sqlite"));
    sandbox
}

/// The workload leaves `spool.s2t` where the collector is to write, if there is one.
const WORKLOAD: &str = "echo ran >> count; \
     [ -z \"$STAGE2_OUT\" ] || [ ! -e collector/spool.s2t ] || cp collector/spool.s2t \"$STAGE2_OUT\"";

fn launch(sandbox: &Sandbox, settings: &[&str], fake: &str) -> assert_cmd::Command {
    let workload = ["pipeline.ncu.top_n=3", "--", "sh", "-c", WORKLOAD];
    let mut command = sandbox.launch_with_tools(&[settings, &workload].concat());
    command.env("FAKE", fake);
    command.env("FAKE_SQLITE", sandbox.path("elsewhere.sqlite"));
    command
}

/// The words of the last profiling run of ncu.
fn argv(sandbox: &Sandbox) -> Vec<String> {
    let ncu = sandbox.pass("ncu");
    let words = ncu["argv"].as_array().expect("argv").iter();
    words.filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

fn option<'w>(argv: &'w [String], name: &str) -> Option<&'w str> {
    let at = argv.iter().position(|word| word == name)?;
    argv.get(at + 1).map(String::as_str)
}

fn kernel_filter(argv: &[String]) -> Option<&str> {
    option(argv, "--kernel-name")
}

/// The three longest kernels, as plain SQL has them: none of their names needs an escape.
fn longest(sums: Sums) -> String {
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (_, ns))| std::cmp::Reverse(*ns));
    let names: Vec<&str> = sums.iter().take(3).map(|(name, _)| name.as_str()).collect();
    format!("regex:^({})$", names.join("|"))
}

fn of_export(sandbox: &Sandbox) -> String {
    longest(sql(&sandbox.path("elsewhere.sqlite"), Some("decode")))
}

#[test]
fn the_nsys_pass_of_the_same_run_comes_first() {
    let sandbox = sandbox(true);
    launch(&sandbox, &[], "").assert().success();
    assert_eq!(kernel_filter(&argv(&sandbox)), Some(of_export(&sandbox).as_str()));
    assert!(sandbox.read("run.json").contains("the nsys pass of this run: run.sqlite"));
    assert!(argv(&sandbox).contains(&"decode/".to_owned()), "the stage gates");
}

#[test]
fn files_of_the_user_choose_kernels_and_nothing_else() {
    let sandbox = sandbox(false);
    let words = ["pipeline.nsys.enable=false", "--nsys", "elsewhere.sqlite"];
    launch(&sandbox, &words, "").assert().success();
    assert_eq!(kernel_filter(&argv(&sandbox)), Some(of_export(&sandbox).as_str()));
    let run = sandbox.read("run.json");
    assert!(run.contains("the files of --nsys: elsewhere.sqlite"), "{run}");
    assert!(sandbox.latest("ncu/kernels_from_nsys/elsewhere.sqlite").is_file());
    assert!(run.contains("elsewhere.sqlite is a scrubbed copy"), "{run}");
    assert!(
        sandbox.read("metrics.json").contains("\"nsys\": null"),
        "it is no capture of this run"
    );
    assert!(sandbox.read("kernels.md").contains("EMPTY"), "and gives no rows");
}

#[test]
fn tables_and_reports_choose_kernels_too() {
    let sandbox = sandbox(true);
    let csv = fixture("nsys/decode_m_cuda_gpu_kern_sum_mangled.csv");
    let off = "pipeline.nsys.enable=false";
    launch(&sandbox, &[off, "--nsys", csv.to_str().expect("UTF-8")], "").assert().success();
    let of_table = longest(table(Path::new(&csv)));
    assert_eq!(kernel_filter(&argv(&sandbox)), Some(of_table.as_str()));
    assert!(
        argv(&sandbox).contains(&"decode/".to_owned()),
        "the table does not say it did not occur"
    );
    assert!(sandbox.read("run.json").contains("do not show in which range"));
    sandbox.write("far.nsys-rep", "report");
    launch(&sandbox, &[off, "--nsys", "far.nsys-rep"], "").assert().success();
    assert_eq!(kernel_filter(&argv(&sandbox)), Some(of_export(&sandbox).as_str()));
}

#[test]
fn without_any_capture_nothing_is_filtered_by_name() {
    let sandbox = sandbox(false);
    sandbox.write("far.nsys-rep", "report");
    sandbox.write("bad.sqlite", "no database");
    let off = "pipeline.nsys.enable=false";
    for words in [&[off][..], &[off, "--nsys", "far.nsys-rep", "--nsys", "bad.sqlite"]] {
        launch(&sandbox, words, "").assert().success();
        assert_eq!(kernel_filter(&argv(&sandbox)), None, "{words:?}");
        assert!(sandbox.read("run.json").contains("not filtered by name"));
    }
    let run = sandbox.read("run.json");
    assert!(run.contains("reports of Nsight Systems are not read"), "{run}");
    assert!(run.contains("bad.sqlite is not in the bundle"), "{run}");
}

#[test]
fn a_choice_that_nothing_passes_is_dropped_once() {
    let sandbox = sandbox(false);
    let words = ["pipeline.nsys.enable=false", "--nsys", "elsewhere.sqlite"];
    launch(&sandbox, &words, "nokernels").assert().success();
    assert_eq!(kernel_filter(&argv(&sandbox)), None);
    assert!(sandbox.read("ncu/cmd.txt").contains("--kernel-name"), "the first try");
    assert_eq!(sandbox.count(), 3, "collect, ncu, ncu");
}

/// `generate` within a range that a library of `domain` has open around it and works in itself.
fn inside_a_library(domain: &str) -> Sandbox {
    let sandbox = sandbox(false);
    let mut b = Build::process(1, "python3");
    b.anchor(1).device(0, "NVIDIA H200", 1);
    for (id, name) in (1..).zip(["execute", domain, "generate", "of_the_library", "gemm"]) {
        b.name(id, name.as_bytes());
    }
    b.shape(1, 4, 1).shape(2, 5, 1).path_in(1, NONE, 1, 2).path(2, 1, 3);
    b.open(1, 1, 0, 10).kernel(1, 1, 1, (100, 900));
    b.open(2, 2, 1, 1_000).kernel(2, 2, 1, (1_100, 1_200)).close(2, 1_300).close(1, 1_400).end();
    b.save(&sandbox.path("."), "spool.s2t");
    sandbox
}

#[test]
fn the_stage_with_the_most_time_is_none_of_a_library() {
    let added = "report.library_domains=['VLLM.*']";
    for (domain, settings) in [("NCCL", &[][..]), ("vllm.worker", &[added])] {
        let sandbox = inside_a_library(domain);
        launch(&sandbox, settings, "").assert().success();
        let argv = argv(&sandbox);
        assert_eq!(kernel_filter(&argv), Some("regex:^(gemm)$"), "{domain}");
        assert!(argv.contains(&"generate/".to_owned()), "{domain}: {argv:?}");
        let run = sandbox.read("run.json");
        assert!(run.contains("ncu: the stage decode is generate"), "{run}");
    }
    // Without the setting it is a range as any other.
    let sandbox = inside_a_library("vllm.worker");
    launch(&sandbox, &[], "").assert().success();
    assert_eq!(kernel_filter(&argv(&sandbox)), Some("regex:^(of_the_library|gemm)$"));
}

#[test]
fn a_capture_range_that_never_came_is_set_against_the_ranges_as_the_reports_nest_them() {
    // Captures nothing as long as it waits for a range.
    let waits = FAKE_NSYS
        .replace("while [", "case \"$*\" in *--capture-range=nvtx*) waits=1;; esac\nwhile [")
        .replace("echo report", "[ \"$waits\" ] || echo report");
    let gated = ["profiling/nsys=nsys.gated", "pipeline.nsys.nvtx_capture=decoding@*"];
    let added = "report.library_domains=['VLLM.*']";
    for (settings, seen) in [
        (&[added][..], r#"the collector saw generate""#),
        (&[], "the collector saw execute@vllm.worker, generate"),
    ] {
        let sandbox = inside_a_library("vllm.worker");
        sandbox.executable("tools/nsys", &waits);
        launch(&sandbox, &[&gated, settings].concat(), "").assert().success();
        let run = sandbox.read("run.json");
        assert!(run.contains(seen), "{settings:?}: {run}");
    }
}

/// What the collector saw: a range of this name and domain, with a kernel.
fn with_a_stage(name: &str, domain: Option<&str>) -> Sandbox {
    let sandbox = sandbox(false);
    let mut build = Build::process(1, "x");
    build.anchor(1).device(0, "GPU", 1).name(1, name.as_bytes()).name(3, b"k").shape(1, 3, 1);
    let domain = build.domain(2, domain);
    build.path_in(1, NONE, 1, domain).open(1, 1, 0, 10);
    build.kernel(1, 1, 1, (20, 90)).close(1, 99).end();
    build.save(&sandbox.path("."), "spool.s2t");
    sandbox
}

#[test]
fn ncu_is_asked_for_the_range_and_the_domain_that_were_seen() {
    // As our pages write a range, as ncu does, and without a word.
    let stages = [
        ("decode_all", None, &["", "decode_all", "decode*"][..], "decode_all/"),
        (
            "decode_all",
            Some("LLM"),
            &["", "decode", "decode@*", "decode_all@LLM", "LLM@decode_all"],
            "LLM@decode_all/",
        ),
        ("LLM@decode_all", None, &["", "decode@*", "LLM@decode_all"], r"LLM\@decode_all/"),
    ];
    at_once(stages, |(name, domain, stages, expected)| {
        for stage in stages {
            let sandbox = with_a_stage(name, domain);
            let setting = format!("pipeline.ncu.stage={stage}");
            let words = if stage.is_empty() { vec![] } else { vec![setting.as_str()] };
            launch(&sandbox, &words, "").assert().success();
            let argv = argv(&sandbox);
            let gate = option(&argv, "--nvtx-include");
            assert_eq!(gate, Some(expected), "{name} {domain:?} {stage}");
        }
    });
}

#[test]
fn ranges_of_libraries_in_captures_of_nsys_choose_no_kernels() {
    let added = "report.library_domains=['VLLM.*']";
    let of_user = ["pipeline.nsys.enable=false", "--nsys", "elsewhere.sqlite"];
    for (nsys, words) in [(true, &[][..]), (false, &of_user)] {
        let sandbox = sandbox(nsys);
        let export = sandbox.path("elsewhere.sqlite");
        // The one range, `decode`, becomes that of a domain.
        let domain = "UPDATE NVTX_EVENTS SET domainId = 7;
            INSERT INTO NVTX_EVENTS (start, eventType, globalTid, domainId, text)
            SELECT 0, 75, globalTid, 7, 'vllm.worker' FROM NVTX_EVENTS;";
        change_export(&export, domain);
        let gate = |settings: &[&str]| {
            launch(&sandbox, &[words, settings].concat(), "").assert().success();
            let argv = argv(&sandbox);
            ["--kernel-name", "--nvtx-include"].map(|name| option(&argv, name).map(str::to_owned))
        };
        let whole = longest(sql(&export, None));
        assert_eq!(gate(&[added]), [Some(whole), None], "{words:?}");
        let staged = gate(&[]);
        assert_eq!(staged, [Some(of_export(&sandbox)), Some("vllm.worker@decode/".to_owned())]);
    }
}

#[test]
fn files_that_cannot_be_captures_are_wrong_usage() {
    let sandbox = sandbox(false);
    for (words, part) in [
        (&["--nsys", "no.sqlite"][..], "no.sqlite"),
        (&["--nsys", "tools/ncu"], ".nsys-rep, .qdrep or .csv"),
    ] {
        let said = predicates::str::contains(part);
        launch(&sandbox, words, "").assert().code(2).stderr(said);
    }
    let said = predicates::str::contains("--nsys has no effect");
    launch(&sandbox, &["run.mode=light", "--nsys", "elsewhere.sqlite"], "").assert().stderr(said);
}
