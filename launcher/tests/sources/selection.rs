//! Which kernels ncu is asked for where the collect pass knows none: under stand-ins for the tools.

use std::path::Path;

use crate::common::{self, Sandbox};
use crate::plain::{fixture, sql, table};

/// Writes a report that its export turns into a copy of `$FAKE_SQLITE`.
const NSYS: &str = r#"#!/bin/sh
case "$1" in
--version) echo "NVIDIA Nsight Systems version 2024.6.2"; exit 0;;
export) for word; do case "$word" in --output=*) cp "$FAKE_SQLITE" "${word#--output=}";; esac; done; exit 0;;
stats) exit 0;;
esac
for word; do case "$word" in --output=*) out="${word#--output=}";; esac; done
while [ "$1" ]; do case "$1" in profile|--*) shift;; *) break;; esac; done
"$@"; code=$?
echo report > "$out.nsys-rep"
exit $code
"#;

/// Profiles nothing as long as there is a filter, where `$FAKE` says so.
const NCU: &str = r#"#!/bin/sh
case "$1" in
--version) printf 'NVIDIA (R) Nsight Compute\nVersion 2025.3.1.0 (build 1) (public-release)\n'; exit 0;;
--list-sections|--query-metrics) exit 1;;
--import) exit 1;;
esac
out= log= filtered=
while [ "$1" ]; do case "$1" in
  --export) out="$2"; shift 2;;
  --log-file) log="$2"; shift 2;;
  --nvtx-include|--kernel-name) filtered=1; shift 2;;
  --nvtx|--force-overwrite) shift;;
  --*) shift 2;;
  *) break;;
esac; done
"$@"; code=$?
[ "$FAKE" = nokernels ] && [ -n "$filtered" ] && { echo "==WARNING== No kernels were profiled." > "$log"; exit $code; }
echo "==PROF== Disconnected" > "$log"; echo report > "$out"
exit $code
"#;

fn sandbox(tools: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("tools")).expect("folder");
    for (name, script) in tools {
        sandbox.executable(&format!("tools/{name}"), script);
    }
    let mut packed = std::io::BufReader::new(
        std::fs::File::open(fixture("nsys/decode.sqlite.xz")).expect("fixture"),
    );
    let mut file = std::fs::File::create(sandbox.path("elsewhere.sqlite")).expect("file");
    lzma_rs::xz_decompress(&mut packed, &mut file).expect("fixture");
    sandbox
}

fn launch(sandbox: &Sandbox, settings: &[&str], fake: &str) -> assert_cmd::Command {
    let workload = ["pipeline.ncu.top_n=3", "--", "sh", "-c", "echo ran >> count"];
    let mut command = sandbox.launch(&[settings, &workload].concat());
    let mut path = std::ffi::OsString::from(sandbox.path("tools:"));
    path.push(common::path_without_profilers());
    command.env("PATH", path).env("FAKE", fake);
    command.env("FAKE_SQLITE", sandbox.path("elsewhere.sqlite"));
    command
}

/// The words of the last profiling run of ncu.
fn argv(sandbox: &Sandbox) -> Vec<String> {
    let run = sandbox.run_json();
    let passes = run["passes"].as_array().expect("passes");
    let ncu = passes.iter().find(|pass| pass["name"] == "ncu").expect("pass");
    let words = ncu["argv"].as_array().expect("argv").iter();
    words.filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

fn kernel_filter(argv: &[String]) -> Option<&str> {
    let at = argv.iter().position(|word| word == "--kernel-name")?;
    argv.get(at + 1).map(String::as_str)
}

/// The three longest kernels, as plain SQL has them: none of their names needs an escape.
fn longest(sums: crate::plain::Sums) -> String {
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
    let sandbox = sandbox(&[("nsys", NSYS), ("ncu", NCU)]);
    launch(&sandbox, &[], "").assert().success();
    assert_eq!(kernel_filter(&argv(&sandbox)), Some(of_export(&sandbox).as_str()));
    assert!(sandbox.read("run.json").contains("the nsys pass of this run: run.sqlite"));
    assert!(argv(&sandbox).contains(&"decode/".to_owned()), "the stage gates");
}

#[test]
fn files_of_the_user_choose_kernels_and_nothing_else() {
    let sandbox = sandbox(&[("ncu", NCU)]);
    let words = ["pipeline.nsys.enable=false", "--nsys", "elsewhere.sqlite"];
    launch(&sandbox, &words, "").assert().success();
    assert_eq!(kernel_filter(&argv(&sandbox)), Some(of_export(&sandbox).as_str()));
    let run = sandbox.read("run.json");
    assert!(run.contains("the files of --nsys: elsewhere.sqlite"), "{run}");
    assert!(sandbox.path("tmp/stage2/latest/ncu/kernels_from_nsys/elsewhere.sqlite").is_file());
    assert!(run.contains("the files of ncu/kernels_from_nsys/ hold the environment"), "{run}");
    assert!(
        sandbox.read("metrics.json").contains("\"nsys\": null"),
        "it is no capture of this run"
    );
    assert!(sandbox.read("kernels.md").contains("EMPTY"), "and gives no rows");
}

#[test]
fn tables_and_reports_choose_kernels_too() {
    let sandbox = sandbox(&[("nsys", NSYS), ("ncu", NCU)]);
    let csv = fixture("nsys/decode_m_cuda_gpu_kern_sum_mangled.csv");
    let off = "pipeline.nsys.enable=false";
    launch(&sandbox, &[off, "--nsys", csv.to_str().expect("UTF-8")], "").assert().success();
    let of_table = longest(table(Path::new(&csv)));
    assert_eq!(kernel_filter(&argv(&sandbox)), Some(of_table.as_str()));
    assert!(
        argv(&sandbox).contains(&"decode/".to_owned()),
        "the table does not say it did not occur"
    );
    assert!(sandbox.read("run.json").contains("do not say in which range"));
    sandbox.write("far.nsys-rep", "report");
    launch(&sandbox, &[off, "--nsys", "far.nsys-rep"], "").assert().success();
    assert_eq!(kernel_filter(&argv(&sandbox)), Some(of_export(&sandbox).as_str()));
}

#[test]
fn without_any_capture_nothing_is_filtered_by_name() {
    let sandbox = sandbox(&[("ncu", NCU)]);
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
    assert!(run.contains("bad.sqlite cannot be read"), "{run}");
}

#[test]
fn a_choice_that_nothing_passes_is_dropped_once() {
    let sandbox = sandbox(&[("ncu", NCU)]);
    let words = ["pipeline.nsys.enable=false", "--nsys", "elsewhere.sqlite"];
    launch(&sandbox, &words, "nokernels").assert().success();
    assert_eq!(kernel_filter(&argv(&sandbox)), None);
    assert!(sandbox.read("ncu/cmd.txt").contains("--kernel-name"), "the first try");
    assert_eq!(common::read(&sandbox.path("count")).lines().count(), 3, "collect, ncu, ncu");
}

#[test]
fn files_that_cannot_be_captures_are_wrong_usage() {
    let sandbox = sandbox(&[("ncu", NCU)]);
    for (words, part) in [
        (&["--nsys", "no.sqlite"][..], "no.sqlite"),
        (&["--nsys", "tools/ncu"], ".sqlite or .nsys-rep"),
    ] {
        let said = predicates::str::contains(part);
        launch(&sandbox, words, "").assert().code(2).stderr(said);
    }
    let said = predicates::str::contains("--nsys has no effect");
    launch(&sandbox, &["run.mode=light", "--nsys", "elsewhere.sqlite"], "").assert().stderr(said);
}
