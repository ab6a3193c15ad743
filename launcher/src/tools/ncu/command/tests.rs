use super::*;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use crate::tools::ncu::config::tests::{settings, text};
use crate::tools::ncu::select::{KernelTime, select};
use stage2_model::Severity;

fn version(text: &str) -> Option<Version> {
    Version::parse(&format!("Version {text}"))
}

/// Files called `name` in `folder`.
fn files(folder: &Path, name: &str) -> Files {
    let file = |suffix: &str| folder.join(format!("{name}{suffix}"));
    Files {
        report: file(".ncu-rep"),
        log: file(".log"),
        raw: file(".raw.csv"),
        details: file(".details.csv"),
    }
}

fn words(list: &[&str]) -> Vec<OsString> {
    list.iter().map(OsString::from).collect()
}

fn selection(settings: &Ncu) -> Selection {
    let row =
        |name: &str| KernelTime { mangled: name.into(), total_ns: 1, stage: "decode".to_owned() };
    select(&[row("_ZN1a.constprop$0Ev"), row("b")], settings)
}

fn argv(settings: &Ncu, version: Option<Version>) -> Vec<String> {
    let workload = words(&["python3", "-m", "runner", "x y"]);
    let available = Available::default();
    let request = Request { settings, version, workload: &workload, available: &available };
    let filter = Filter::new(settings, &selection(settings), &mut Vec::new());
    let files = self::files(Path::new("/run/ncu"), "decode");
    let made = profile(&request, &filter, &files, &mut Vec::new());
    made.into_iter().map(|word| word.into_string().expect("UTF-8")).collect()
}

/// What `make` gives for a workload `w`.
fn made(
    settings: &Ncu,
    available: &Available,
    make: impl FnOnce(&Request<'_>) -> Vec<OsString>,
) -> Vec<String> {
    let workload = words(&["w"]);
    let words = make(&Request { settings, version: None, workload: &workload, available });
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// What [`profile`] gives for a workload `w` without a filter, and what it tells.
fn unfiltered(settings: &Ncu, available: &Available) -> (Vec<String>, Vec<Finding>) {
    let mut findings = Vec::new();
    let files = files(Path::new("/r"), "x");
    let argv = made(settings, available, |request| {
        profile(request, &Filter::default(), &files, &mut findings)
    });
    (argv, findings)
}

/// The values of a flag.
fn values(argv: &[String], flag: &str) -> Vec<String> {
    argv.windows(2).filter(|pair| pair[0] == flag).map(|pair| pair[1].clone()).collect()
}

#[test]
fn one_run_profiles_a_launch_of_each_configuration_of_the_top_kernels() {
    let settings = settings("{ncu_cli: {metrics: [a__b.sum, c__d.sum]}}");
    let expected = [
        r"ncu --config-file off --target-processes all --clock-control none",
        r"--cache-control all --log-file /run/ncu/decode.log --export",
        r"/run/ncu/decode.ncu-rep --force-overwrite --replay-mode kernel --filter-mode",
        r"per-launch-config --launch-count 1 --kernel-name-base mangled --kernel-name",
        r"regex:^(_ZN1a\.constprop\$0Ev|b)$ --nvtx --nvtx-include decode/ --set roofline",
        r"--section Occupancy --section LaunchStats --metrics a__b.sum,c__d.sum python3",
        r"-m runner x y",
    ];
    let argv = argv(&settings, version("2025.3.1.0"));
    let expected = expected.join(" ");
    let mut words: Vec<&str> = expected.split(' ').collect();
    // One word stays one.
    words.splice(words.len() - 2.., ["x y"]);
    assert_eq!(argv, words);
}

#[test]
fn older_versions_get_no_argument_that_they_do_not_know() {
    let old = argv(&settings(""), version("2022.4.0"));
    assert!(!old.iter().any(|word| word == "--config-file"));
    assert!(argv(&settings(""), None).iter().any(|word| word == "--config-file"));
}

#[test]
fn every_setting_reaches_its_flag() {
    let settings = settings(
        "{executable: /opt/ncu, ncu_cli: {target_processes: application-only, replay_mode: application, \
         filter_mode: global, launch_skip: 5, launch_count: 7, clock_control: base, \
         cache_control: none, graph_profiling: graph, force_overwrite: false, set: full, \
         kernel_name: 'regex:gemm', kernel_name_base: demangled, extra_args: [--pm-sampling-interval, '0'], \
         nvtx: {include: [decode, 'dom@x/'], exclude: warm}}}",
    );
    assert_eq!(settings.faults(), []);
    let argv = argv(&settings, version("2025.3.1"));
    for (flag, expected) in [
        ("--target-processes", vec!["application-only"]),
        ("--replay-mode", vec!["application"]),
        ("--filter-mode", vec!["global"]),
        ("--launch-skip", vec!["5"]),
        ("--launch-count", vec!["7"]),
        ("--clock-control", vec!["base"]),
        ("--cache-control", vec!["none"]),
        ("--graph-profiling", vec!["graph"]),
        ("--set", vec!["full"]),
        ("--kernel-name", vec!["regex:gemm"]),
        ("--kernel-name-base", vec!["demangled"]),
        ("--nvtx-include", vec!["decode/", "dom@x/"]),
        ("--nvtx-exclude", vec!["warm/"]),
        ("--pm-sampling-interval", vec!["0"]),
    ] {
        assert_eq!(values(&argv, flag), expected, "{flag}");
    }
    assert!(argv[0] == "/opt/ncu" && !argv.iter().any(|word| word == "--force-overwrite"));
}

#[test]
fn ranges_gate_only_where_they_can() {
    let gate = |changes: &str| values(&argv(&settings(changes), None), "--nvtx-include");
    assert_eq!(gate("{stage: prefill}"), [""; 0], "no kernel ran there");
    assert_eq!(gate("{gating_nvtx: false}"), [""; 0]);
    assert_eq!(gate("{stage: decode, ncu_cli: {nvtx: {include: ['a/', b]}}}"), ["a/", "b/"]);
    let filter =
        |changes: &str| Filter::new(&settings(changes), &Selection::unknown(), &mut Vec::new());
    let unknown = filter("{stage: 'decode@LLM'}");
    assert_eq!(unknown.nvtx_include, ["LLM@decode/"], "nothing is known against it");
    assert_eq!(unknown.kernel_name, None);
    assert_eq!(filter("{gating_nvtx: false}"), Filter::default());
    assert_eq!(filter("{ncu_cli: {nvtx: {start_end: true}}}").nvtx_include, ["decode"]);
}

#[test]
fn a_name_that_spoils_the_expressions_beside_it_is_told() {
    let changes = r"{stage: 'C:\run', ncu_cli: {nvtx: {exclude: [a/b, c/d]}}}";
    let mut findings = Vec::new();
    Filter::new(&settings(changes), &Selection::unknown(), &mut findings);
    assert_eq!(findings[0].what, "ncu matches nothing for c/d/", "{findings:?}");
    let plain = changes.replace(r"C:\run", "decode");
    Filter::new(&settings(&plain), &Selection::unknown(), &mut findings);
    assert_eq!(findings.len(), 1, "{findings:?}");

    let files = files(Path::new("/r"), "x");
    let mut findings = Vec::new();
    made(&settings(changes), &Available::default(), |request| {
        profile_region(request, r"regex:^a\x3bb$/", &files, &mut findings)
    });
    assert_eq!(findings[0].what, "ncu matches nothing for c/d/", "{findings:?}");
}

#[test]
fn range_replay_filters_by_range_alone() {
    let changes = "{regions: {launch_count: 2}, ncu_cli: {replay_mode: range, launch_skip: 1}}";
    let argv = argv(&settings(changes), None);
    for flag in ["--kernel-name", "--kernel-name-base", "--filter-mode"] {
        assert!(!argv.iter().any(|word| word == flag), "{flag}");
    }
    assert_eq!(values(&argv, "--launch-skip"), ["1"]);
    assert_eq!(values(&argv, "--launch-count"), ["2"]);
    assert_eq!(values(&argv, "--replay-mode"), ["range"]);
}

#[test]
fn a_retry_of_range_replay_replays_kernels() {
    let settings = settings("{ncu_cli: {replay_mode: app-range}}");
    let (argv, findings) = unfiltered(&settings, &Available::default());
    assert_eq!(values(&argv, "--replay-mode"), ["kernel"]);
    assert_eq!(values(&argv, "--launch-count"), ["1"]);
    assert_eq!(values(&argv, "--nvtx-include"), [""; 0]);
    assert!(findings[0].what.contains("in place of ranges"), "{findings:?}");
}

#[test]
fn a_region_is_measured_in_a_run_of_its_own() {
    let settings = settings("{ncu_cli: {replay_mode: app-range, nvtx: {include: [one, two]}}}");
    let files = self::files(Path::new("/run/ncu/regions/layer_5b0_5d"), "region");
    let expression = r"LLM@layer\[0\]/";
    let argv = made(&settings, &Available::default(), |request| {
        profile_region(request, expression, &files, &mut Vec::new())
    });
    assert_eq!(values(&argv, "--nvtx-include"), [expression]);
    assert_eq!(values(&argv, "--replay-mode"), ["app-range"]);
    let metrics = values(&argv, "--metrics").join(",");
    assert!(metrics.contains("sm__ops_path_tensor") && !metrics.contains("__sass_"), "{metrics}");
}

#[test]
fn kernels_that_wait_for_peers_are_measured_in_one_pass() {
    let settings = settings("{communication_kernels: true}");
    let filter = Filter { nvtx_include: vec!["decode/".into()], ..Filter::default() };
    let files = self::files(Path::new("/r"), "communication");
    let argv = made(&settings, &Available::default(), |request| {
        profile_communication(request, "regex:^(nccl)$", &filter, &files)
    });
    assert_eq!(values(&argv, "--metrics"), [SINGLE_PASS_METRICS.join(",")]);
    assert_eq!(values(&argv, "--kernel-name"), ["regex:^(nccl)$"]);
    assert!(!argv.iter().any(|word| word == "--set" || word == "--section"));
}

#[test]
fn what_the_tool_does_not_have_is_left_out() {
    let settings = settings(
        "{ncu_cli: {sections: [Occupancy, Nothing], metrics: [dram__bytes.sum, no__such.sum]}}",
    );
    let available =
        Available::read(Some(&text("sections.txt")), Some(&text("query-metrics.gh100.txt")));
    let (argv, findings) = unfiltered(&settings, &available);
    assert_eq!(values(&argv, "--section"), ["Occupancy"]);
    assert_eq!(values(&argv, "--metrics"), ["dram__bytes.sum"]);
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings.iter().all(|finding| finding.severity == Severity::Warning));
}

#[test]
fn a_percent_sign_in_a_path_is_literal_and_bytes_stay() {
    let folder = Path::new(OsStr::from_bytes(b"/run/100%q{HOME}/\xff"));
    let settings = settings("");
    let workload = vec![OsString::from_vec(b"caf\xe9".to_vec())];
    let available = Available::default();
    let request =
        Request { settings: &settings, version: None, workload: &workload, available: &available };
    let made = profile(&request, &Filter::default(), &self::files(folder, "d"), &mut Vec::new());
    let export = OsStr::from_bytes(b"/run/100%%q{HOME}/\xff/d.ncu-rep");
    assert!(made.iter().any(|word| word == export));
    assert!(made.iter().any(|word| *word == folder.join("d.log")), "the log is not expanded");
    assert_eq!(made.last(), workload.first());
}

#[test]
fn a_report_is_read_by_two_runs_in_base_units() {
    let files = self::files(Path::new("/r"), "decode");
    let [raw, details] = imports(Path::new("ncu"), &files);
    let page =
        ["--page", "raw", "--csv", "--print-kernel-base", "mangled", "--print-units", "base"];
    assert_eq!(raw.argv, words(&[&["ncu", "--import", "/r/decode.ncu-rep"], &page[..]].concat()));
    assert_eq!(raw.stdout.as_deref(), Some(Path::new("/r/decode.raw.csv")));
    assert!(details.argv.contains(&"details".into()));
    assert_eq!(details.stdout.as_deref(), Some(Path::new("/r/decode.details.csv")));
    let made = lists(Path::new("ncu"), Path::new("/r"));
    for (step, (flag, file)) in made
        .iter()
        .zip([("--list-sections", "/r/sections.txt"), ("--query-metrics", "/r/metrics.txt")])
    {
        assert_eq!(
            (&step.argv, step.stdout.as_deref()),
            (&words(&["ncu", flag]), Some(Path::new(file)))
        );
        assert!(step.timeout.is_some());
    }
}

const SECTIONS: &str = "\
----------------- -------------- ------- --------
Identifier        Display Name   Enabled Filename
----------------- -------------- ------- --------
LaunchStats       Launch Stats   yes     ...a.section
Occupancy         Occupancy      yes     ...b.section
SpeedOfLight      GPU Speed      yes     ...c.section
";
const METRICS: &str = "\
Device NVIDIA H200 (GH100)
---------------------------------- ------- ---- -----------
Metric Name                        Type    Unit Description
---------------------------------- ------- ---- -----------
FE_B.TriageCompute.gr__cycles      Counter cycle
dram__bytes                        Counter byte # of bytes accessed in DRAM, see
                                                dram pages
dram__bytes_read                   Counter byte
sm__ops_path_tensor_src_fp16       Counter
sm__throughput                     Throughput %
";

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn both_lists_are_read() {
    let read = Available::read(Some(SECTIONS), Some(METRICS));
    let sections = read.sections.expect("sections");
    assert_eq!(
        sections,
        BTreeSet::from(["LaunchStats", "Occupancy", "SpeedOfLight"].map(String::from))
    );
    let metrics = read.metrics.expect("metrics");
    assert_eq!(metrics.len(), 5, "{metrics:?}");
    assert!(metrics.contains("FE_B.TriageCompute.gr__cycles") && metrics.contains("dram__bytes"));
}

#[test]
fn what_is_not_there_is_left_out_and_told() {
    let available = Available::read(Some(SECTIONS), Some(METRICS));
    let mut findings = Vec::new();
    let wished = names(&["Ocupancy", "LaunchStats", "regex:Memory.*"]);
    let kept = known_sections(&wished, &available, &mut findings);
    assert_eq!(kept, ["LaunchStats", "regex:Memory.*"]);
    let text = findings[0].to_string();
    assert!(text.contains("Ocupancy is Occupancy"), "{text}");
    let wished = names(&[".*SpeedOfLight.*", ".*Speed", "*"]);
    let kept = known_sections(&wished, &available, &mut findings);
    assert_eq!(kept, ["regex:.*SpeedOfLight.*"]);
    let text = findings.pop().expect("a finding").to_string();
    assert!(text.contains("left out 2 sections: .*Speed, *"), "{text}");
    let kept = known_sections(&wished[..1], &Available::default(), &mut findings);
    assert_eq!(kept, ["regex:.*SpeedOfLight.*"]);
    let wished = names(&["dram__bytes.sum", "sm__troughput.avg.pct", "launch__grid_size"]);
    let kept = known_metrics(&wished, &available, &mut findings);
    assert_eq!(kept, ["dram__bytes.sum", "launch__grid_size"]);
    assert!(findings[1].to_string().contains("sm__throughput"), "{}", findings[1]);
    assert_eq!(findings[1].severity, Severity::Warning);
}

#[test]
fn names_of_other_generations_are_a_note() {
    let available = Available::read(None, Some(METRICS));
    let mut findings = Vec::new();
    let wished =
        names(&["sm__ops_path_tensor_src_fp16.sum", "sm__ops_path_tensor_src_fp16_dst_fp32.sum"]);
    assert_eq!(known_metrics(&wished, &available, &mut findings).len(), 1);
    assert_eq!((findings.len(), findings[0].severity), (1, Severity::Note));
}

#[test]
fn without_a_list_nothing_is_refused() {
    for text in ["", "==ERROR== no device", "Identifier\n---"] {
        let available = Available::read(Some(text), Some(text));
        assert_eq!(available, Available::default(), "{text:?}");
        let mut findings = Vec::new();
        assert_eq!(known_sections(&names(&["X"]), &available, &mut findings), ["X"]);
        assert_eq!(known_metrics(&names(&["x__y.sum"]), &available, &mut findings), ["x__y.sum"]);
        assert!(findings.is_empty());
    }
}
