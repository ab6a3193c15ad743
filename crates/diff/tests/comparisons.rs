//! Whole comparisons of reports, real ones among them: what holds of any two.

use proptest::prelude::*;
use serde_json::json;
use stage2_contract::text::KernelName;
use stage2_diff::{
    Comparison, Condition, Outcome, Outlook, PartChange, Per, Presence, Run, Verdict, compare,
    read_report,
};
use stage2_model::finding::Id;
use stage2_model::{
    Absent, Bottleneck, CaptureRow, ClockLimit, ClockUse, EngineRequests, EngineRun, EngineSteps,
    Fact, Figure, Floor, GraphRow, HostCause, HostCauseKind, HostFrame, HostOtherWork, HostProcess,
    HostStage, HostUse, KernelRow, MemoryRow, PathKind, PathRow, ReadSpan, Report, Role, Rule,
    SCHEMA, SCHEMA_VERSION, SampledCounters, Severity, Spread, StageAnswer, StageEnergy,
    StageNumbers, StageRow, Status, StepTimes, StepUnit, Takeaway, Times, WarmRow,
};

/// Calls and total time of kernels of a stage, by name.
type Kernels = Vec<(String, u64, u64)>;

#[path = "comparisons/several.rs"]
mod several;

fn report(stages: &[(&str, u64, u64, Kernels)]) -> Report {
    let mut report = Report {
        schema: SCHEMA.to_owned(),
        schema_version: SCHEMA_VERSION,
        source: "collector".to_owned(),
        ..Report::default()
    };
    report.coverage.verdict.status = Status::Complete;
    for (stage, instances, step_ns, kernels) in stages {
        let sum = kernels.iter().map(|(_, _, ns)| ns).sum();
        report.stages.push(StageRow {
            stage: (*stage).to_owned(),
            kind: PathKind::Range,
            instances: Some(*instances),
            host_warm_instances: Some(instances - 1),
            host_warm_median_ns: Some(*step_ns),
            host_warm_mean_ns: Some(*step_ns),
            host_warm_std_ns: Some(step_ns / 100),
            kernels: Some(kernels.iter().map(|(_, calls, _)| calls).sum()),
            kernel_sum_ns: Some(sum),
            ..StageRow::default()
        });
        for (name, calls, total_ns) in kernels {
            let names = &mut report.kernel_names;
            let name_index = names.iter().position(|known| known.mangled == *name);
            let name_index = name_index.unwrap_or_else(|| {
                names.push(KernelName {
                    mangled: name.clone(),
                    demangled: name.clone(),
                    short: name.clone(),
                    ..KernelName::default()
                });
                names.len() - 1
            });
            report.kernels.push(KernelRow {
                kernel: name.clone(),
                name_index,
                stage: (*stage).to_owned(),
                class: "gemm".to_owned(),
                times: Times {
                    calls: *calls,
                    total_ns: *total_ns,
                    // All calls take the same time.
                    p50_ns: total_ns.checked_div(*calls),
                    p99_ns: total_ns.checked_div(*calls),
                    ..Times::default()
                },
                ..KernelRow::default()
            });
        }
    }
    report
}

fn diff(before: &[&Report], after: &[&Report], conditions: &[&str], strict: bool) -> Comparison {
    fn runs<'r>(side: &[&'r Report]) -> Vec<Run<'r>> {
        side.iter().map(|report| Run { label: "run", report, left_out: &[] }).collect()
    }
    let conditions: Vec<Condition> =
        conditions.iter().map(|text| text.parse().expect("a condition")).collect();
    compare(&runs(before), &runs(after), &conditions, strict).expect("a comparison")
}

/// A run whose only stage took so much energy in four instances.
fn with_energy(joules: f64, mhz: f64) -> Report {
    let mut report = report(&[("decode", 4, 1_000_000, Vec::new())]);
    let clock = ReadSpan { min: 1_000, mean: mhz, max: 1_980 };
    report.energy.push(StageEnergy {
        stage: "decode".to_owned(),
        energy_j: Figure::of(joules),
        uncertainty_j: Some(joules / 50.0),
        mean_power_w: Figure::of(joules / 2.0),
        joules_per_token: Figure::Absent(Absent::NoModel),
        clocks: ClockUse { reads: 20, sm_clock_mhz: Some(clock), ..ClockUse::default() },
        devices: Vec::new(),
    });
    report
}

#[test]
fn energy_is_compared_per_instance_and_judged_of_several_runs_only() {
    let (before, more, most) = (
        with_energy(1_000.0, 1_900.0),
        with_energy(1_010.0, 1_900.0),
        with_energy(1_500.0, 1_300.0),
    );
    let gates = ["decode.energy_j>+0.5%", "decode.energy_j>+100J", "decode.sm_clock_mhz<-10%"];
    let passes = |runs: usize, after: &Report| -> Vec<bool> {
        let comparison = diff(&vec![&before; runs], &vec![after; runs], &gates, false);
        let metric = comparison.stages[0].metrics.iter().find(|metric| metric.metric == "energy_j");
        assert_eq!(metric.expect("a metric").before, Some(250.0), "J of one of four instances");
        comparison.conditions.iter().map(|outcome| outcome.outcome != Outcome::Failed).collect()
    };
    assert_eq!(passes(2, &more), [true, true, true]);
    assert_eq!(passes(2, &most), [false, false, false]);
    assert_eq!(passes(1, &most), [true, true, true], "one value a side");
    // An older version counted the cold call in the energy, and told it apart elsewhere.
    let none = || Figure::Absent(Absent::NoModel);
    let with_windows = |window_ns| {
        let mut report = with_energy(1_500.0, 1_300.0);
        report.stages[0].warm =
            Some(WarmRow { instances: 3, gpu_window_ns: 3_000, ..WarmRow::default() });
        let device = json!({"device": "0", "window_ns": window_ns, "energy_j": none(), "mean_power_w": none(),
            "uncertainty_j": null, "other_processes": null, "clocks": ClockUse::default()});
        report.energy[0].devices = vec![serde_json::from_value(device).expect("a device")];
        report
    };
    let energy = |report: &Report| {
        let found = diff(&[&before], &[report], &[], false);
        let after = |name| found.stages[0].metric(name).and_then(|metric| metric.after);
        (after("energy_j"), after("power_w").is_some(), after("sm_clock_mhz"))
    };
    assert_eq!(energy(&with_windows(3_000)), (Some(500.0), true, Some(1_300.0)));
    assert_eq!(energy(&with_windows(4_200)), (None, false, Some(1_300.0)));
}

/// A run whose only stage idles for 6 ms of each of four instances, in these shares, percent.
fn with_host(line: u32, schedule: f64, gil: f64) -> Report {
    let mut report = report(&[("decode", 4, 10_000_000, Vec::new())]);
    let row = &mut report.stages[0];
    row.gpu_window_ns = Some(40_000_000);
    row.gpu_busy_ns = Some(16_000_000);
    row.gpu_idle_ns = Some(24_000_000);
    let file = "vllm/v1/core/scheduler.py".to_owned();
    let frame = Some(HostFrame { function: "Scheduler.schedule".into(), file, line });
    let cause = |kind, frame, percent| HostCause {
        kind,
        frame,
        percent,
        error_percent: 2.0,
        ..HostCause::default()
    };
    let causes = vec![
        cause(HostCauseKind::EngineCode, frame, schedule),
        cause(HostCauseKind::Gil, None, gil),
        cause(HostCauseKind::Unknown, None, 100.0 - schedule - gil),
    ];
    let causes = causes.into_iter().filter(|cause| cause.percent > 0.0).collect();
    let stage = HostStage { stage: "decode".into(), samples: 500, causes, ..HostStage::default() };
    report.host = Some(HostUse { stages: vec![stage], ..HostUse::default() });
    report
}

#[test]
fn work_of_other_stages_is_no_idle_time_and_keeps_the_causes_of_that_as_long() {
    let known = |percent| {
        let mut report = with_host(7, 40.0, 20.0);
        let stage = &mut report.host.as_mut().expect("sampled").stages[0];
        stage.other_work = Some(HostOtherWork { percent, launch_gaps_percent: 0.0 });
        report
    };
    let found = diff(&[&known(0.0)], &[&known(25.0)], &[], false);
    let value = |name: &str| {
        let metric = found.stages[0].metric(name).expect(name);
        (metric.before, metric.after)
    };
    // Of 6 ms per call without work of the stage, as the pages of both runs have it.
    assert_eq!(value("idle_ms"), (Some(6.0), Some(4.5)));
    assert_eq!(value("other_work_ms"), (Some(0.0), Some(1.5)));
    let gil = found.stages[0].host.iter().find(|cause| cause.metric.contains("GIL"));
    let text = |ms: Option<f64>| ms.map(|ms| format!("{ms:.3}"));
    let sides = gil.map(|gil| [text(gil.before), text(gil.after)]);
    assert_eq!(sides, Some([Some("1.200".to_owned()), Some("0.900".to_owned())]));
}

/// Its step takes twice as long; its idle time stays.
fn slower(mut report: Report) -> Report {
    let row = &mut report.stages[0];
    for ns in [&mut row.host_warm_median_ns, &mut row.host_warm_mean_ns] {
        *ns = ns.map(|ns| ns * 2);
    }
    report
}

#[test]
fn a_cause_is_judged_only_among_runs_whose_stage_moved() {
    let (before, after) = (with_host(212, 40.0, 21.0), with_host(212, 60.0, 20.0));
    let judged = |before: &[&Report], after: &[&Report]| {
        let found = diff(before, after, &[], false);
        let verdict = found.verdict.clone();
        let part = found.stages[0].parts().rows[0].word();
        (part, found.stages[0].host[0].verdict, verdict.contains("worse"))
    };
    // The same step with its idle time spent elsewhere.
    assert_eq!(judged(&[&before], &[&after]), ("within noise", Verdict::None, false));
    let same = judged(&[&before, &before], &[&after, &after]);
    assert_eq!(same, ("within noise", Verdict::None, false));
    let slow = slower(after);
    // Of one run per side the errors of the samples decide: 2.4 ± 0.1 ms against 3.6 ± 0.1 ms, or 2.6 ± 0.1 ms.
    assert_eq!(judged(&[&before], &[&slow]).1, Verdict::Increased);
    assert_eq!(judged(&[&before], &[&slower(with_host(212, 43.0, 20.0))]).1, Verdict::None);
    assert_eq!(judged(&[&before, &before], &[&slow, &slow]).1, Verdict::Increased);
}

#[test]
fn a_cause_that_was_too_small_for_a_row_is_not_new() {
    let (mut before, after) = (with_host(212, 40.0, 0.0), slower(with_host(212, 40.0, 30.0)));
    let gil = |before: &Report| {
        let found = diff(&[before], &[&after], &[], false);
        let parts = found.stages[0].parts();
        let part = parts.rows.iter().find(|part| part.cause.is_some_and(|is| is.contains("GIL")));
        let part = part.expect("a cause");
        (part.word(), (part.sides_ns[0] / 1e3).round(), part.noise_text())
    };
    // Nothing is known of a percentage of nothing.
    assert_eq!(gil(&before), ("new", 0.0, Some("± 0.240 ms".to_owned())));
    let stage = &mut before.host.as_mut().expect("samples").stages[0];
    stage.small_causes = vec![HostCause {
        kind: HostCauseKind::Gil,
        percent: 3.0,
        error_percent: 2.0,
        ..HostCause::default()
    }];
    let (word, us, _) = gil(&before);
    assert_eq!((word, us), ("longer", 180.0));
}

#[test]
fn what_clients_of_a_server_see_is_compared() {
    let of = |scale: u64| {
        let mut report = report(&[("decode", 4, 10_000_000 * scale, Vec::new())]);
        report.answer.stages.push(StageAnswer { role: Role::Decode, ..answer("decode") });
        let spread = |ns: u64| Spread {
            count: 16,
            p50_ns: Some(ns),
            p90_ns: Some(ns + ns / 100),
            ..Spread::default()
        };
        let requests = EngineRequests {
            requests: 16,
            token: spread(10_000_000 * scale),
            total: spread(300_000_000),
            ..EngineRequests::default()
        };
        report.engine = Some(EngineRun { requests: Some(requests), ..EngineRun::default() });
        report
    };
    let found = diff(&[&of(1)], &[&of(2)], &["decode.tpot_ms>+5%"], false);
    let token = found.stages[0].metric("tpot_ms").expect("a time");
    let total = found.run.iter().find(|row| row.metric == "request_ms").expect("a time");
    assert_eq!((token.before, token.after, &*token.word), (Some(10.0), Some(20.0), "longer"));
    assert_eq!((total.before, &*total.word), (Some(300.0), "equal"));
    assert_eq!(found.conditions[0].outcome, Outcome::Failed);
}

#[test]
fn a_cause_is_found_again_where_its_thread_has_another_name() {
    let of = |threads: &[&str]| {
        let mut report = with_host(212, 40.0, 0.0);
        let causes = &mut report.host.as_mut().expect("samples").stages[0].causes;
        causes.extend(threads.iter().map(|thread| HostCause {
            kind: HostCauseKind::NativeCode,
            thread: Some((*thread).to_owned()),
            percent: 30.0 / threads.len() as f64,
            ..HostCause::default()
        }));
        report
    };
    let native = |before: &Report, after: &Report| -> Vec<(String, Option<f64>)> {
        let found = diff(&[before], &[after], &[], false);
        let host = found.stages[0].host.iter().filter(|row| row.metric.starts_with("native"));
        host.map(|row| (row.metric.clone(), row.change)).collect()
    };
    let same = native(&of(&["lane 0"]), &of(&["lane 0"]));
    assert_eq!(same, [("native code of the thread 'lane 0'".to_owned(), Some(0.0))]);
    for renamed in [&["main"][..], &["lane 0", "main"]] {
        let found = native(&of(&["lane 0"]), &of(renamed));
        let [(name, change)] = &found[..] else { panic!("one row: {found:?}") };
        assert_eq!(name, "native code");
        assert!(change.is_some_and(|ms| ms.abs() < 1e-9), "{change:?}");
    }
}

#[test]
fn causes_of_idle_time_are_compared_whatever_their_line() {
    let (before, after) = (with_host(212, 40.0, 21.0), with_host(219, 60.0, 20.9));
    let sides = [before.clone(), before.clone()].map(slower);
    let comparison = diff(&sides.each_ref(), &[&after, &after], &[], false);
    let changes: Vec<_> = comparison.stages[0].host.iter().collect();
    let told = changes.iter().map(|change| {
        let tenths = |ms: Option<f64>| ms.map(|ms| (ms * 10.0).round() / 10.0);
        (change.metric.as_str(), tenths(change.before), tenths(change.after), change.verdict)
    });
    let schedule = "Scheduler.schedule (vllm/v1/core/scheduler.py)";
    let expected = [
        (schedule, Some(2.4), Some(3.6), Verdict::Increased),
        // What is left of the idle time, so that they add up to it.
        ("smaller and unknown causes", Some(2.3), Some(1.1), Verdict::Decreased),
        ("waiting for the GIL", Some(1.3), Some(1.3), Verdict::None),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    // A cause that is gone has no time; that of a run without samples is not known.
    let without = with_host(212, 40.0, 0.0);
    let gone = diff(&sides.each_ref(), &[&without, &without], &[], false);
    let gil = gone.stages[0].host.iter().find(|change| change.metric.contains("GIL"));
    assert_eq!(gil.map(|gil| (gil.after, gil.verdict)), Some((Some(0.0), Verdict::Decreased)));
    let unsampled = report(&[("decode", 4, 10_000_000, Vec::new())]);
    let partial = diff(&[&before], &[&unsampled], &[], false);
    let stage = &partial.stages[0];
    assert_eq!(stage.host, []);
    let why = stage.host_absent.as_deref().expect("silence would look like no change");
    assert!(
        why.starts_with("no host samples after the change:")
            && why.contains("1 of 1 runs before and 0 of 1 after"),
        "{why}"
    );
    let warned = partial.differences.iter().find(|d| d.what == "samples of the host");
    let warned = warned.map(|d| (d.severity, &*d.before, &*d.after));
    assert_eq!(warned, Some((Severity::Warning, "yes", "no")));
    let neither = diff(&[&unsampled], &[&unsampled], &[], false);
    assert!(neither.stages[0].host_absent.is_none() && neither.differences.is_empty());
}

#[test]
fn the_largest_change_comes_first_and_noise_last() {
    let parts = |before: &[&Report], after: &[&Report]| -> Vec<(String, &'static str)> {
        let found = diff(before, after, &[], false);
        let name = |part: &PartChange<'_>| match (&part.work[..], part.cause) {
            ([], cause) => format!("idle {}", cause.unwrap_or("in all")),
            (rows, _) => rows.iter().map(|row| row.class.as_str()).collect::<Vec<_>>().join(" "),
        };
        found.stages[0].parts().rows.iter().map(|part| (name(part), part.word())).collect()
    };
    let expected = [
        ("idle Scheduler.schedule (vllm/v1/core/scheduler.py)", "longer"),
        ("idle smaller and unknown causes", "shorter"),
        ("idle waiting for the GIL", "too small"),
    ];
    let after = slower(with_host(219, 60.0, 20.9));
    let before = with_host(212, 40.0, 21.0);
    let found = parts(&[&before, &before], &[&after, &after]);
    assert_eq!(found, expected.map(|(name, word)| (name.to_owned(), word)));
    let of = |ns: [u64; 4], last: &str| {
        let names = ["small", "large", "copy", last];
        let kernels = names.iter().zip(ns).map(|(name, ns)| ((*name).to_owned(), 4, ns)).collect();
        let mut report = report(&[("decode", 4, 10_000_000 + ns[1] / 4, kernels)]);
        let row = report.kernels.iter_mut().find(|row| row.kernel == "copy");
        row.expect("a kernel").class = "memory".into();
        report
    };
    // Kernels that autotuning swapped do not count, the sum of their class does.
    let old = of([4_000, 90_000, 80_000, 400_000], "old");
    let new = of([8_000, 80_000, 30_000, 404_000], "fresh");
    assert_eq!(
        parts(&[&old], &[&new]),
        [("memory", "shorter"), ("gemm gemm gemm gemm", "within noise")]
            .map(|(name, word)| (name.to_owned(), word))
    );
    let found = diff(&[&old], &[&new], &[], false);
    let parts = found.stages[0].parts();
    let [_, gemm] = &parts.rows[..] else { panic!("{parts:?}") };
    assert!(gemm.work.iter().all(|row| gemm.is_swap(row)), "{gemm:?}");
    // Without a window they are the parts of nothing but their sum.
    assert_eq!((parts.whole, parts.change_ns.round(), parts.told), (None, -13_000.0, 1));
    let [before, mut after] = [&before, &after].map(Report::clone);
    after.stages[0].gpu_window_ns = Some(44_000_000);
    let found = diff(&[&before], &[&after], &[], false);
    let parts = found.stages[0].parts();
    let sum = parts.rows.iter().map(|row| row.change_ns).sum::<f64>();
    assert_eq!(parts.whole.map(|whole| &*whole.metric), Some("window_ms"));
    assert!((parts.change_ns - 1e6).abs() + (sum - 1e6).abs() < 1.0, "{parts:?}");
}

#[test]
fn versions_stand_beside_the_kernels_that_changed_with_them() {
    let of = |torch: &str, cublas: &str, kernels: &[&str]| {
        let kernels = kernels.iter().map(|name| ((*name).to_owned(), 4, 4_000)).collect();
        let mut report = report(&[("decode", 4, 1_000_000, kernels)]);
        let fact = |name: &str, value: &str| Fact {
            key: format!("python.packages.{name}"),
            value: value.to_owned(),
        };
        report.run.environment = vec![fact("torch", torch), fact("nvidia-cublas-cu12", cublas)];
        report
    };
    let (copy, fill) = ("void at::native::copy_kernel<4>(int)", "void at::native::fill<4>(int)");
    let before = of("2.10.0", "12.8", &["nvjet_sm90_tst_64x8_TNT", "mine", copy]);
    let after = of("2.11.0", "12.8", &["nvjet_sm90_tst_8x64_TNN", "mine", fill, "other"]);
    let found = diff(&[&before], &[&after], &[], false);
    let rows = found.libraries.iter().map(|row| {
        let [a, b] = [&row.before, &row.after].map(|version| version.as_deref().unwrap_or("?"));
        (row.library.as_str(), a, b, [row.new, row.vanished, row.renamed])
    });
    let expected = [
        ("torch", "2.10.0", "2.11.0", [1, 1, 0]),
        ("", "?", "?", [1, 0, 0]),
        ("cuBLAS", "12.8", "12.8", [0, 0, 1]),
    ];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    let line = found.lines.iter().find(|line| line.label == "libraries").expect("a line");
    assert!(line.text.starts_with("torch 2.10.0 → 2.11.0 (kernels: 1 new, 1 gone)"), "{line:?}");
    assert!(found.differences.is_empty(), "versions have their own line: {:?}", found.differences);
    let mut older = before.clone();
    older.run.environment.clear();
    for same in [&before, &older] {
        assert_eq!(diff(&[same], &[&before], &[], false).libraries, []);
    }
}

#[test]
fn clocks_limits_graphs_and_batches_that_differ_are_warned_of() {
    let of = |mhz: f64, limited: u64, graphs: bool, batch: f64| {
        let mut report = with_energy(1_000.0, mhz);
        let clocks = &mut report.energy[0].clocks;
        clocks.clock_reads = 20;
        clocks.limits = Some(vec![ClockLimit { reason: "power limit".into(), reads: limited }]);
        if graphs {
            let replay_path = "decode/step".to_owned();
            report.graph_captures.push(CaptureRow { replay_path, ..CaptureRow::default() });
        }
        let steps = EngineSteps {
            stage: "decode".into(),
            p50_ns: Some(1),
            decode_requests_mean: batch,
            ..EngineSteps::default()
        };
        report.engine = Some(EngineRun { kinds: vec![steps], ..EngineRun::default() });
        report
    };
    let warned = |after: &Report| -> Vec<String> {
        let found = diff(&[&of(1_980.0, 1, true, 16.0)], &[after], &[], false);
        let warnings = found.differences.iter().filter(|d| d.severity == Severity::Warning);
        warnings.map(|d| format!("{}: {} → {}", d.what, d.before, d.after)).collect()
    };
    assert_eq!(warned(&of(1_975.0, 0, true, 15.8)), [""; 0]);
    let unlike = |after: &Report| diff(&[&of(1_980.0, 1, true, 16.0)], &[after], &[], false).unlike;
    assert_eq!(unlike(&of(1_410.0, 12, false, 16.0)), [""; 0]);
    assert_eq!(unlike(&of(1_980.0, 1, true, 8.0)), ["different workloads"]);
    // The prompts of a prefill step are chance: nothing of the stage got better or worse by them.
    let prefill = |tokens: f64, ns: u64| {
        let mut report = slower(report(&[("prefill", 9, ns, vec![("k".into(), 9, 9 * ns)])]));
        let kind = EngineSteps {
            stage: "prefill".into(),
            p50_ns: Some(ns),
            prefill_requests_mean: 1.0,
            prefill_tokens_mean: Some(tokens),
            ..EngineSteps::default()
        };
        report.engine = Some(EngineRun { kinds: vec![kind], ..EngineRun::default() });
        report
    };
    let gate = ["prefill.step_ms>+5%"];
    let found = diff(&[&prefill(509.0, 1_000)], &[&prefill(795.0, 2_000)], &gate, false);
    let why = "509 vs 795 prompt tokens per step";
    assert_eq!(found.stages[0].other_work.as_deref(), Some(why));
    assert_eq!((found.outlook(), found.any_worse()), (Outlook::Same, false));
    assert!(
        found.verdict.contains(&format!("prefill median call time not comparable: {why}")),
        "{found:?}"
    );
    assert_eq!(found.conditions[0].outcome, Outcome::Failed, "a gate is the user's");
    let said = format!("(not comparable: {why}): beyond the limit");
    assert!(found.conditions[0].text.contains(&said), "{:?}", found.conditions);
    let step = found.stages[0].metric("step_ms").expect("a time");
    assert_eq!((step.verdict, step.word.as_str()), (Verdict::None, "not comparable"));
    assert_eq!(found.stages[0].work[0].verdict, Verdict::None, "of other work as well");
    let alike = diff(&[&prefill(509.0, 1_000)], &[&prefill(512.0, 2_000)], &[], false);
    assert_eq!((alike.outlook(), alike.any_worse()), (Outlook::Changed, true));
    let damaged = of(1_980.0, u64::MAX, true, 16.0);
    assert_eq!(warned(&damaged), ["clock throttle reasons: none → power limit"]);
    assert_eq!(warned(&of(1_980.0, 0, true, 15.1)), ["requests in a decode step: 16.00 → 15.10"]);
    assert_eq!(
        warned(&of(1_410.0, 12, false, 8.0)),
        [
            "SM clock, MHz: 1,980 → 1,410",
            "requests in a decode step: 16 → 8",
            "CUDA graphs: in decode → none",
            "clock throttle reasons: none → power limit",
        ]
    );
}

#[test]
fn graphs_are_told_by_the_share_of_their_kernels_and_not_by_their_captures() {
    let of = |percent: Option<f64>, is_captured: bool| {
        let mut report = report(&[("decode", 4, 10_000_000, Vec::new())]);
        let stage = "decode".to_owned();
        let numbers = StageNumbers { stage, graph_percent: percent, ..StageNumbers::default() };
        report.insight.stage_numbers.push(numbers);
        if is_captured {
            let replay_path = "decode".to_owned();
            report.graph_captures.push(CaptureRow { replay_path, ..CaptureRow::default() });
        }
        report
    };
    let told = |before: &Report, after: &Report| {
        let found = diff(&[before], &[after], &[], false).differences;
        let graphs = found.into_iter().find(|d| d.what == "CUDA graphs");
        graphs.map(|d| format!("{} → {}", d.before, d.after))
    };
    assert_eq!(told(&of(Some(91.4), false), &of(Some(91.8), true)), None);
    assert_eq!(told(&of(None, true), &of(Some(91.8), false)), None, "an older report");
    let changed = told(&of(Some(0.0), false), &of(Some(91.8), false));
    assert_eq!(changed.as_deref(), Some("none → in decode"));
}

/// A step of an engine lasts until the next one begins: neither a call nor a token does.
#[test]
fn steps_of_an_engine_and_calls_are_shown_and_not_subtracted() {
    let of = |unit, p50_ns, tokens_per_step| {
        let kernels = vec![("k".to_owned(), 4, 4000)];
        let mut report = report(&[("decode", 4, 2_000_000, kernels)]);
        let step = StepTimes { unit, p50_ns, steps: 9, tokens_per_step, ..StepTimes::default() };
        report.answer.stages.push(StageAnswer { step: Some(step), ..answer("decode") });
        report
    };
    let engine = of(StepUnit::OfEngine, 3_321_000, None);
    let calls = of(StepUnit::Instance, 96_000_000, Some(8));
    let conditions = ["decode.step_ms>+5%", "decode.class_gemm_ms>+5%", "run.kernels>+0"];
    let found = diff(&[&engine], &[&calls], &conditions, false);
    let stage = &found.stages[0];
    assert_eq!(stage.own_text().as_deref(), Some("3.321 ms per step → 12.000 ms per token"));
    assert_eq!(
        found.verdict,
        "Times not comparable (one run per side): decode is timed per step of an engine before, and per token after"
    );
    assert!(
        stage.metrics.iter().all(|metric| stage.per_of(&metric.metric).is_empty()),
        "{stage:?}"
    );
    assert!(stage.work.is_empty() && stage.host.is_empty() && stage.parts().rows.is_empty());
    let outcomes: Vec<Outcome> = found.conditions.iter().map(|row| row.outcome).collect();
    assert_eq!(outcomes, [Outcome::NotEvaluated, Outcome::NotEvaluated, Outcome::Passed]);
    assert!(found.conditions[0].text.contains("3.321 ms per step → 12.000 ms per token"));
    // The same way on both sides, they are subtracted.
    for report in [&engine, &calls] {
        let same = diff(&[report], &[report], &[], false);
        assert!(same.stages[0].own_times.is_none() && same.stages[0].time().is_some());
    }
    // Where a side has both, none of them stands for it.
    let mixed = diff(&[&engine, &calls], &[&engine], &[], false);
    let times = mixed.stages[0].own_times.as_ref().expect("times");
    assert_eq!(times.each_ref().map(|side| side.ms), [None, Some(3.321)]);
}

#[test]
fn steps_that_are_not_of_one_kind_are_warned_of() {
    let of = |path: Option<&str>| {
        let mut report = report(&[("decode", 4, 16_000_000, Vec::new())]);
        let unit = path.map_or(StepUnit::Instance, |_| StepUnit::RangeWithin);
        let path = path.map(str::to_owned);
        let step = Some(StepTimes { unit, path, p50_ns: 1_000_000, ..StepTimes::default() });
        report.answer.stages.push(StageAnswer { step, ..answer("decode") });
        report
    };
    let found = diff(&[&of(Some("decode/step"))], &[&of(None)], &[], false);
    let warning = found.differences.iter().find(|d| d.what == "timing of decode");
    let told = warning.map(|d| (d.severity, &*d.before, &*d.after));
    assert_eq!(told, Some((Severity::Warning, "steps of decode/step", "calls")));
    assert_eq!(found.stages[0].step.as_deref(), Some("call"));
    let same = diff(&[&of(None)], &[&of(None)], &[], false);
    assert!(same.differences.is_empty(), "{:?}", same.differences);
    assert_eq!(
        same.verdict,
        "No clear difference (one run per side): decode median call time equal"
    );
    assert!(!same.any_worse());
}

fn sample(name: &str) -> Report {
    let path = format!("{}/../../tests/fixtures/reports/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let read = read_report(&std::fs::read(&path).expect(&path)).expect("a report");
    assert!(read.left_out.is_empty(), "{:?}", read.left_out);
    read.report
}

/// What holds of every comparison: rows add up to their stage.
fn assert_sums(comparison: &Comparison) {
    for stage in &comparison.stages {
        let rows: f64 = stage.work.iter().map(|row| row.change_ns).sum();
        let scale = stage.work.iter().map(|row| row.change_ns.abs()).sum::<f64>().max(1.0);
        let total = stage.work_total.change_ns;
        assert!((rows - total).abs() <= 1e-9 * scale, "{}: {rows} {total}", stage.stage);
        if comparison.after.len() > 1 {
            // Metrics are medians of several runs, rows are means.
            continue;
        }
        let kernels = stage.work.iter().filter(|row| row.kind == stage2_diff::WorkKind::Kernel);
        let sum: f64 = kernels.filter_map(|row| row.after.as_ref()).map(|side| side.ns).sum();
        let said = stage.metric("kernel_ms").and_then(|metric| metric.after).unwrap_or(0.0);
        assert!((sum / 1e6 - said).abs() <= 1e-9 * said.max(1.0), "{}: {sum} {said}", stage.stage);
    }
}

fn assert_nothing_changed(comparison: &Comparison) {
    for stage in &comparison.stages {
        assert_eq!(stage.presence, Presence::Both);
        assert!(stage.metrics.iter().all(|metric| metric.verdict == Verdict::None));
        assert!(stage.work.iter().all(|row| row.verdict == Verdict::None && row.change_ns == 0.0));
    }
    assert!(comparison.run.iter().all(|metric| metric.verdict == Verdict::None));
}

#[test]
fn a_time_that_changed_comes_before_larger_noise() {
    let stages = |prefill, decode| {
        report(&[("prefill", 9, prefill, Vec::new()), ("decode", 9, decode, Vec::new())])
    };
    let (before, after) = (stages(90_000_000, 4_000_000), stages(91_000_000, 3_000_000));
    let found = diff(&[&before], &[&after], &[], false);
    let names: Vec<&str> = found.stages.iter().map(|stage| stage.stage.as_str()).collect();
    assert_eq!(names, ["decode", "prefill"]);
    assert!(
        found
            .verdict
            .starts_with("Changed (one run per side): decode median call time -25.0 % (-1.00 ms)"),
        "{}",
        found.verdict
    );
}

#[test]
fn decode_comes_before_a_larger_change_of_another_stage() {
    let run = |decode, prefill, mixed| {
        let stages = [("decode", decode), ("mixed", mixed), ("prefill", prefill)];
        let mut run = report(&stages.map(|(name, ns)| (name, 9, ns, Vec::new())));
        let roles = [("decode", Role::Decode), ("prefill", Role::Prefill), ("mixed", Role::Other)];
        let answers = roles.map(|(stage, role)| StageAnswer { role, ..answer(stage) });
        run.answer.stages = answers.into();
        run
    };
    let before = run(4_000_000, 9_000_000, 30_000_000);
    let names = |after: &Report, runs: usize| -> Vec<String> {
        let found = diff(&vec![&before; runs], &vec![after; runs], &[], false);
        found.stages.into_iter().map(|stage| stage.stage).collect()
    };
    for runs in [1, 2, 4] {
        assert_eq!(
            names(&run(3_000_000, 6_000_000, 20_000_000), runs),
            ["decode", "prefill", "mixed"]
        );
        let only_mixed = names(&run(4_000_000, 9_000_000, 20_000_000), runs);
        assert_eq!(only_mixed, ["mixed", "decode", "prefill"], "what changed comes first");
    }
}

#[test]
fn no_row_says_more_than_the_verdict() {
    let of = |step_ns: u64| report(&[("decode", 40, step_ns, vec![("k".to_owned(), 40, step_ns)])]);
    let (before, after) = (of(1_000_000), of(800_000));
    for (a, b) in [(1, 1), (1, 5), (2, 2), (3, 3), (4, 4), (3, 5)] {
        let found = diff(&vec![&before; a], &vec![&after; b], &[], false);
        let stage = &found.stages[0];
        let words: Vec<&str> = stage.metrics.iter().map(|metric| stage.word(metric)).collect();
        let judges = ["better", "worse"].iter().any(|word| words.contains(word));
        assert_eq!(judges, found.outlook() == Outlook::Better, "{a} {b}: {}", found.verdict);
        assert_eq!(judges, found.verdict.starts_with("Better"), "{a} {b}: {}", found.verdict);
        assert_eq!(judges, a.min(b) > 2 && a + b > 7, "{a} {b}");
        assert!(judges || words.contains(&"shorter"), "{words:?}");
    }
}

#[test]
fn real_reports_add_up_and_equal_themselves() {
    let (llama, moe) = (sample("llama_1b"), sample("moe_small"));
    let same = diff(&[&llama], &[&llama], &[], false);
    assert_nothing_changed(&same);
    assert!(same.differences.is_empty(), "{:?}", same.differences);
    let other = diff(&[&llama], &[&moe], &[], false);
    assert_sums(&other);
    let warned: Vec<&str> = other.differences.iter().map(|d| d.what.as_str()).collect();
    assert!(warned.contains(&"model") && !warned.contains(&"GPU"), "{warned:?}");
    let decode = other.stages.iter().find(|stage| stage.stage == "decode").expect("decode");
    let step = decode.metric("step_ms").expect("a step");
    assert_eq!((step.verdict, decode.per), (Verdict::None, Per::Token));
    assert_eq!(other.lines.len(), 7);
    assert_eq!(other.unlike, ["different models"]);
    let verdict = &other.verdict;
    // Nothing got worse by the program where the model is another, and no line judges or names a change.
    assert_eq!(verdict, "Times not comparable (one run per side)");
    assert!(!other.any_worse());
    let stages = other.stages.iter().filter(|stage| stage.other_work.is_none());
    let metrics = stages.clone().flat_map(|stage| stage.metrics.iter().chain(&stage.host));
    for metric in metrics.chain(&other.run).filter(|metric| metric.change.is_some()) {
        assert!(["not comparable", "equal"].contains(&&*metric.word), "{metric:?}");
    }
    for row in stages.flat_map(|stage| &stage.work) {
        assert!(["not comparable", "new", "gone", "equal"].contains(&&*row.word), "{row:?}");
    }
    let window = &other.lines[1].text;
    assert!(window.contains("per token: GPU busy"), "{window}");
    assert!(window.matches(" → ").count() >= 4 && window.contains("; "), "{window}");
    assert!(other.lines[0].text.contains("decode: 16.318 → 14.855 ms per token (not comparable)"));
}

#[test]
fn runs_of_different_length_compare() {
    let kernels = |n: u64| vec![("k".to_owned(), 8 * n, 800 * n)];
    let (short, long) = (
        report(&[("decode", 4, 1_000_000, kernels(4))]),
        report(&[("decode", 40, 1_000_000, kernels(40))]),
    );
    let found = diff(&[&short], &[&long], &[], false);
    let decode = &found.stages[0];
    assert!(decode.work.iter().all(|row| row.change_ns == 0.0 && row.verdict == Verdict::None));
    assert!(decode.metrics.iter().all(|metric| metric.verdict == Verdict::None), "{decode:?}");
    // Twice the tokens in an instance: per token nothing changed either.
    let mut twice = sample("moe_small");
    let tokens = |report: &mut Report| {
        report.insight.utilisation.as_mut().expect("use").tokens.decode_steps = Some(32);
        let steps = report.answer.stages.iter_mut().filter_map(|stage| stage.step.as_mut());
        steps.for_each(|step| step.tokens_per_step = step.tokens_per_step.map(|_| 32));
    };
    tokens(&mut twice);
    twice.kernels.iter_mut().filter(|row| row.stage == "decode").for_each(|row| {
        row.times.calls *= 2;
        row.times.total_ns *= 2;
    });
    let memory = twice.copies.iter_mut().chain(&mut twice.fills);
    memory.filter(|row| row.stage == "decode").for_each(|row| {
        row.times.calls *= 2;
        row.times.total_ns *= 2;
    });
    let found = diff(&[&sample("moe_small")], &[&twice], &[], false);
    let decode = found.stages.iter().find(|stage| stage.stage == "decode").expect("decode");
    assert_eq!(decode.per, Per::Token);
    assert!(decode.work.iter().all(|row| row.change_ns.abs() < 1e-6), "{:?}", decode.work.first());
}

#[test]
fn conditions_fire_beyond_noise_only_unless_strict() {
    let of = |step_ns| report(&[("decode", 40, step_ns, vec![("k".to_owned(), 40, 4000)])]);
    let (a, slower, little) = (of(1_000_000), of(1_200_000), of(1_030_000));
    let outcome = |after: &Report, condition: &str, strict: bool| {
        diff(&[&a], &[after], &[condition], strict).conditions[0].outcome
    };
    assert_eq!(outcome(&slower, "decode.step_ms>+5%+0.1ms", false), Outcome::Failed);
    // The share and the amount have to be exceeded, each of them.
    assert_eq!(outcome(&slower, "decode.step_ms>+5%+0.3ms", false), Outcome::Passed);
    assert_eq!(outcome(&slower, "decode.step_ms>+30%+0.1ms", false), Outcome::Passed);
    assert_eq!(outcome(&little, "decode.step_ms>+1%", false), Outcome::Undecided);
    assert_eq!(outcome(&little, "decode.step_ms>+1%", true), Outcome::Failed);
    assert_eq!(outcome(&slower, "decode.step_ms<-5%", true), Outcome::Passed);
    let back = diff(&[&slower], &[&a], &["decode.step_ms<-5%"], false);
    assert_eq!(back.conditions[0].outcome, Outcome::Failed);
    for (condition, why) in [
        ("decod.step_ms>+5%", "neither side has a stage `decod`; did you mean `decode`?"),
        (
            "decode.ttft_ms>+5%",
            "no such number on either side (ttft_ms: it has no ranges of requests); it has ",
        ),
        ("decode.class_moe_ms>+5%", "there are gemm"),
        ("run.mfu_percent<-5%", "the run has no such number"),
    ] {
        let found = diff(&[&a], &[&slower], &[condition], false);
        assert_eq!(found.conditions[0].outcome, Outcome::NotEvaluated);
        assert!(found.conditions[0].text.contains(why), "{}", found.conditions[0].text);
    }
    let none = report(&[("prefill", 4, 1, vec![("k".to_owned(), 1, 1)])]);
    let found = diff(&[&a], &[&none], &["decode.step_ms>+5%"], false);
    assert!(found.conditions[0].outcome.fails());
    assert!(
        found.conditions[0].text.contains("the runs after the change have no stage"),
        "{:?}",
        found.conditions
    );
}

#[test]
fn several_runs_bring_the_noise_of_their_own() {
    let of = |step_ns: u64| report(&[("decode", 4, step_ns, vec![("k".to_owned(), 4, step_ns)])]);
    let side = |steps: [u64; 4]| steps.map(of);
    let (a, noisy, b) = (
        side([1_000_000, 1_002_000, 1_004_000, 1_001_000]),
        side([1_001_500, 999_000, 1_200_000, 1_003_000]),
        side([1_020_000, 1_021_000, 1_023_000, 1_019_000]),
    );
    fn all(side: &[Report; 4]) -> Vec<&Report> {
        side.iter().collect()
    }
    let same = diff(&all(&a), &all(&noisy), &["decode.step_ms>+0.01%"], false);
    assert_eq!(same.stages[0].metric("step_ms").map(|m| m.verdict), Some(Verdict::None));
    assert!(!same.conditions[0].outcome.fails());
    let slower = diff(&all(&a), &all(&b), &["decode.step_ms>+1%"], false);
    assert_eq!(slower.conditions[0].outcome, Outcome::Failed, "2 % is real with four runs");
    assert_eq!(slower.stages[0].work[0].verdict, Verdict::Increased);
    assert_sums(&slower);
}

#[test]
fn programs_without_stages_or_kernels_in_common_hardly_compare() {
    let of = |script: &str, stages: &[&str], kernel: &str| {
        let kernels = || vec![(kernel.to_owned(), 4, 4000), (format!("{kernel}2"), 4, 100)];
        let stages: Vec<_> = stages.iter().map(|stage| (*stage, 4, 1000, kernels())).collect();
        let mut run = report(&stages);
        run.run.command = Some(vec!["python3".into(), format!("tests/{script}")]);
        run
    };
    let unlike = |a: &Report, b: &Report| diff(&[a], &[b], &[], false).unlike;
    let run = of("a.py", &["decode", "prefill"], "gemm");
    assert_eq!(unlike(&run, &of("b.py", &["decode"], "gemm")), [""; 0], "it is the same otherwise");
    let kernels = unlike(&run, &of("b.py", &["decode", "prefill"], "attention"));
    assert_eq!(kernels, ["different programs (a.py → b.py)", "no kernel in common"]);
    let stages = unlike(&run, &of("a.py", &["decode", "x", "y"], "gemm"));
    assert_eq!(stages, ["stages without a counterpart (prefill, x, y)"]);
}

#[test]
fn a_stage_that_some_runs_of_a_side_lack_is_named() {
    let kernels = || vec![("k".to_owned(), 4, 4000)];
    let whole = report(&[("decode", 4, 1000, kernels()), ("prefill", 2, 1000, kernels())]);
    let part = report(&[("decode", 4, 1000, kernels())]);
    let found = diff(&[&whole, &part], &[&whole, &whole], &[], false);
    let of = found.differences.iter().find(|d| d.what.starts_with("stages missing from some runs"));
    let of = of.expect("a warning");
    assert_eq!((&*of.before, &*of.after), ("prefill (in 1 of 2 runs)", "none"));
}

#[test]
fn a_row_is_never_called_longer_where_its_mean_fell() {
    let of = |ns: u64| report(&[("decode", 1, 1000, vec![("k".to_owned(), 1, ns)])]);
    // Medians 1000 and 1100; one outlier before makes its mean the larger.
    let a: Vec<Report> = [1000, 1000, 1000, 1000, 9000].map(of).into();
    let b: Vec<Report> = [1100; 5].map(of).into();
    let found = diff(&a.iter().collect::<Vec<_>>(), &b.iter().collect::<Vec<_>>(), &[], false);
    let row = &found.stages[0].work[0];
    assert!(row.change_ns < 0.0 && row.verdict != Verdict::Increased, "{row:?}");
}

#[test]
fn an_empty_run_is_refused_and_a_partial_one_is_warned_of() {
    let mut a = report(&[("decode", 4, 1_000_000, vec![("k".to_owned(), 4, 4000)])]);
    let b = a.clone();
    a.coverage.verdict.status = Status::Partial;
    let found = diff(&[&a], &[&b], &[], false);
    assert!(found.lines[4].text.contains("coverage is partial"), "{:?}", found.lines);
    a.coverage.verdict.status = Status::Empty;
    let run = |report| Run { label: "a/b", report, left_out: &[] };
    let error = compare(&[run(&a)], &[run(&b)], &[], false).expect_err("EMPTY");
    assert!(error.to_string().starts_with("a/b (BEFORE) is EMPTY"), "{error}");
    let error = compare(&[run(&b)], &[run(&b), run(&a)], &[], false).expect_err("EMPTY");
    assert!(error.to_string().contains("(AFTER)"), "{error}");
}

#[test]
fn runs_that_were_profiled_differently_are_warned_of() {
    let with = |facts: &[(&str, &str)]| {
        let mut run = report(&[("decode", 9, 1_000_000, vec![("k".into(), 9, 900)])]);
        let fact = |&(key, value): &(&str, &str)| Fact { key: key.into(), value: value.into() };
        run.run.profiled = facts.iter().map(fact).collect();
        run
    };
    let plain = [("annotation", "none"), ("mode", "light"), ("collector settings", "flush_ms=9")];
    let other =
        [("annotation", "torch-ops"), ("mode", "deep"), ("collector settings", "flush_ms=1")];
    let warned = |a: &Report, b: &Report| -> Vec<String> {
        let found = diff(&[a], &[b], &[], false).differences.into_iter();
        let weighty = found.filter(|difference| difference.severity == Severity::Warning);
        weighty.map(|difference| difference.what).collect()
    };
    let mut counted = with(&other);
    counted.sampled = Some(SampledCounters::default());
    assert_eq!(
        warned(&with(&plain), &counted),
        ["annotation", "mode", "counters sampled with the records", "collector settings"]
    );
    assert!(warned(&counted, &counted).is_empty());
    assert!(warned(&with(&plain), &with(&[])).is_empty(), "an older report does not say");
}

#[test]
fn a_median_that_got_better_while_the_mean_got_worse_is_not_called_better() {
    let run = |p50_ns, mean_ns| {
        let mut run = report(&[("decode", 9, mean_ns, vec![("k".into(), 9, 900)])]);
        let mut answer = answer("decode");
        let path = Some("decode".into());
        let std_ns = Some(1_000_000);
        let steps = StepTimes { path, steps: 180, p50_ns, mean_ns, std_ns, ..StepTimes::default() };
        answer.step = Some(steps);
        run.answer.stages.push(answer);
        run
    };
    let before = run(3_738_000, 3_618_000);
    let found = |mean_ns| diff(&[&before], &[&run(3_265_000, mean_ns)], &[], false).verdict;
    let opposed = found(3_665_000);
    assert!(
        opposed.starts_with(
            "Changed (one run per side): decode call time: median -12.7 %, but mean +1.3 %"
        ),
        "{opposed}"
    );
    let agreed = found(3_200_000);
    assert!(
        agreed
            .starts_with("Changed (one run per side): decode median call time -12.7 % (-0.47 ms)"),
        "{agreed}"
    );
    let several =
        |runs| diff(&vec![&before; runs], &vec![&run(3_265_000, 3_665_000); runs], &[], false);
    let mixed = several(4);
    assert_eq!(mixed.outlook(), Outlook::Mixed);
    let stage = &mixed.stages[0];
    let step = stage.metric("step_ms").map(|step| (stage.word(step), step.verdict));
    assert_eq!(step, Some(("shorter", Verdict::Decreased)), "the verdict does not say better");
    let next = mixed.lines.iter().find(|line| line.label == "next");
    assert!(next.is_some_and(|line| line.text.contains("disagree")), "{:?}", mixed.lines);
    let few = several(3);
    assert_eq!(few.outlook(), Outlook::Changed, "no test can tell");
    assert!(
        few.verdict.starts_with("Changed (3 vs 3 runs, too few for a test): "),
        "{}",
        few.verdict
    );
}

#[test]
fn a_step_is_called_what_it_is() {
    let run = |ns, tokens_per_step| {
        let mut run = report(&[("decode", 9, ns, vec![("k".into(), 9, 900)])]);
        let mut answer = answer("decode");
        answer.step = Some(StepTimes {
            path: Some("decode".into()),
            steps: 8,
            p50_ns: ns,
            mean_ns: ns,
            // An older report has it of any number.
            p99_ns: Some(ns),
            tokens_per_step,
            ..StepTimes::default()
        });
        // And the time of the prefill as that to the first token.
        answer.time_to_first_token_ns = Figure::of(1e6);
        run.answer.stages.push(answer);
        run
    };
    let conditions = ["decode.step_ms>+5%", "decode.step_p99_ms>+5%", "decode.ttft_ms>+5%"];
    let (a, b) = (run(261_000_000, None), run(300_000_000, None));
    let found = diff(&[&a], &[&b], &conditions, true);
    assert!(
        found.lines[0].text.starts_with("decode: 261.000 → 300.000 ms per call ("),
        "{:?}",
        found.lines
    );
    assert!(found.conditions[0].text.starts_with("261.000 → 300.000 ms per call, "), "{found:?}");
    for condition in &found.conditions[1..] {
        assert_eq!(condition.outcome, Outcome::NotEvaluated, "{condition:?}");
    }
    let (a, b) = (run(261_000_000, Some(16)), run(300_000_000, Some(16)));
    let found = diff(&[&a], &[&b], &["decode.step_ms>+5%"], true);
    let text = &found.conditions[0].text;
    let other = "; its row has the time per token (token_ms)";
    assert!(text.ends_with(other), "another number: {text}");
    let (a, b) = (run(261_000_000, Some(1)), run(300_000_000, Some(1)));
    let same = diff(&[&a], &[&b], &["decode.step_ms>+5%"], true);
    assert!(!same.conditions[0].text.contains("token"), "the same number: {same:?}");
    assert!(
        found.lines[0].text.starts_with("decode: 16.312 → 18.750 ms per token ("),
        "as in the report: {:?}",
        found.lines
    );
    let (a, b) = (run(261_000_000, Some(16)), run(300_000_000, Some(20)));
    let found = diff(&[&a], &[&b], &[], true);
    assert_eq!(found.stages[0].per_word(), "token");
    assert!(
        found.lines[0].text.starts_with("decode: 16.312 → 15.000 ms per token ("),
        "{:?}",
        found.lines
    );
}

fn answer(stage: &str) -> StageAnswer {
    let none = || Figure::Absent(Absent::NoModel);
    StageAnswer {
        stage: stage.into(),
        role: Role::Decode,
        basis: String::new(),
        step: None,
        slowdown: None,
        time_to_first_token_ns: none(),
        tokens_per_s: none(),
        tokens_counted: Default::default(),
        window: None,
        bottleneck: None,
        floor: Floor {
            memory_ns: none(),
            kv_cache_ns: None,
            compute_ns: none(),
            floor_ns: none(),
            distance: none(),
            baseline_distance: None,
        },
        first: None,
    }
}

#[test]
fn more_runs_on_the_other_side_do_not_decide_what_a_single_run_leaves_open() {
    let of = |step_ns: u64, std_ns: u64| {
        let mut run = report(&[("prefill", 3, step_ns, vec![("k".to_owned(), 3, 900)])]);
        let row = &mut run.stages[0];
        row.host_total_ns = Some(3 * step_ns);
        row.host_warm_std_ns = Some(std_ns);
        row.warm = Some(stage2_model::WarmRow {
            instances: 2,
            gpu_window_ns: 2 * step_ns,
            gpu_busy_ns: 600,
            ..Default::default()
        });
        row.gpu_idle_ns = Some(3 * step_ns);
        run
    };
    let calm = [14_610_000, 14_550_000, 14_570_000, 14_600_000].map(|ns| of(ns, 5_000));
    let noisy = of(15_616_000, 700_000);
    let gates = ["step_ms", "host_ms", "window_ms", "idle_ms"];
    let gates = |limit: &str| gates.map(|metric| format!("prefill.{metric}{limit}"));
    for runs in 1..=calm.len() {
        let several: Vec<&Report> = calm.iter().take(runs).collect();
        let sides = [(several.clone(), vec![&noisy], ">+5%"), (vec![&noisy], several, "<-5%")];
        for (before, after, limit) in sides {
            let gates = gates(limit);
            let found = diff(&before, &after, &gates.each_ref().map(String::as_str), false);
            for row in &found.conditions {
                assert_eq!(row.outcome, Outcome::Undecided, "{runs} runs: {row:?}");
            }
            assert!(found.verdict.starts_with("No clear difference ("), "{}", found.verdict);
        }
    }
    let several: Vec<&Report> = calm.iter().collect();
    let twice = diff(&several, &[&of(30_000_000, 700_000)], &["prefill.idle_ms>+5%"], false);
    assert_eq!(twice.conditions[0].outcome, Outcome::Failed, "{:?}", twice.conditions);
}

/// The range of an engine's step ends before the step does, and varies less than the time to the next step.
#[test]
fn the_noise_of_steps_of_an_engine_is_that_of_their_times_and_not_of_their_ranges() {
    let of = |p50_ns: u64, std_ns: Option<u64>| {
        let mut report = report(&[("decode", 101, 2_000_000, vec![("k".into(), 101, 4000)])]);
        report.stages[0].host_warm_std_ns = Some(20_000);
        let step = StepTimes {
            unit: StepUnit::OfEngine,
            path: Some("decode".into()),
            steps: 100,
            p50_ns,
            mean_ns: p50_ns,
            std_ns,
            ..StepTimes::default()
        };
        report.answer.stages.push(StageAnswer { step: Some(step), ..answer("decode") });
        report
    };
    let word = |std_ns: Option<u64>| {
        let found = diff(&[&of(4_000_000, std_ns)], &[&of(4_300_000, std_ns)], &[], false);
        found.stages[0].metric("step_ms").map(|step| step.word())
    };
    assert_eq!(word(Some(40_000)), Some("longer"), "7.5 % against 5 %");
    assert_eq!(word(Some(1_300_000)), Some("within noise"), "7.5 % against 11 %");
    assert_eq!(word(None), Some("inconclusive"), "an older report does not know it");
}

/// A graph that replays launches the same kernels each time, however many tokens its calls hold.
#[test]
fn the_number_of_kernels_is_exact_if_all_calls_launch_as_many() {
    let of = |calls: u64, most: u64| {
        let mut report = report(&[("decode", 4, 2_000_000, vec![("k".into(), calls, 4000)])]);
        let row = &mut report.stages[0];
        row.kernels_per_instance_min = Some(calls / 4);
        row.kernels_per_instance_max = Some(most);
        let step = StepTimes {
            unit: StepUnit::RangeWithin,
            path: Some("decode/step".into()),
            steps: 40,
            p50_ns: 200_000,
            mean_ns: 200_000,
            ..StepTimes::default()
        };
        report.answer.stages.push(StageAnswer { step: Some(step), ..answer("decode") });
        report
    };
    let word = |most: [u64; 2]| {
        let found = diff(&[&of(400, most[0])], &[&of(440, most[1])], &[], false);
        found.stages[0].metric("kernels").map(|kernels| kernels.word())
    };
    assert_eq!(word([100, 110]), Some("higher"));
    assert_eq!(word([100, 120]), Some("inconclusive"), "a call launched more");
}

/// Its window is one value of a run, however many steps are in it.
#[test]
fn idle_time_is_judged_of_several_runs_or_with_the_step_that_it_is_part_of() {
    let of = |window_ns: u64| {
        let mut report = report(&[("decode", 4, window_ns, vec![("k".to_owned(), 4, 4000)])]);
        let row = &mut report.stages[0];
        row.gpu_idle_ns = Some(3 * window_ns);
        row.warm = Some(stage2_model::WarmRow {
            instances: 3,
            gpu_window_ns: 3 * window_ns,
            gpu_busy_ns: 600_000,
            ..Default::default()
        });
        report
    };
    let found = |runs: usize, after: u64| {
        let (before, after) = (of(1_000_000), of(after));
        let gates = ["decode.idle_ms>+4%"];
        diff(&vec![&before; runs], &vec![&after; runs], &gates, false)
    };
    let metric = |found: &Comparison| {
        let idle = found.stages[0].metric("idle_ms").expect("a metric");
        (idle.verdict, idle.change.map(|change| (change * 10.0).round()))
    };
    let step = |found: &Comparison| found.stages[0].metric("step_ms").map(|step| step.verdict);
    // 0.4 ms are more than the noise of the step, 0.07 ms.
    let one = found(1, 1_400_000);
    assert_eq!(metric(&one), (Verdict::Increased, Some(4.0)));
    assert_eq!(
        (step(&one), one.conditions[0].outcome),
        (Some(Verdict::Increased), Outcome::Failed)
    );
    let parts = one.stages[0].parts();
    assert_eq!(parts.rows[0].word(), "longer", "{parts:?}");
    let one = found(1, 1_040_000);
    assert_eq!((step(&one), metric(&one).0), (Some(Verdict::None), Verdict::None));
    assert_eq!(one.conditions[0].outcome, Outcome::Undecided);
    let why = "+0.040 ms, +5.0 %: beyond the limit, but within noise (± 6.5 %), so it does not fail; record 4 runs";
    assert!(one.conditions[0].text.contains(why), "{:?}", one.conditions);
    let two = found(2, 1_400_000);
    assert_eq!(metric(&two), (Verdict::Increased, Some(4.0)));
    assert_eq!(two.conditions[0].outcome, Outcome::Failed);
}

fn kernels() -> impl Strategy<Value = Kernels> {
    let name = prop::sample::select(vec![
        "nvjet_sm90_tst_64x8_v_bz_TNT",
        "nvjet_sm90_tst_8x64_v_bz_TNN",
        "nvjet_sm90_hsh_8x8_TNT",
        "ampere_bf16_s16816gemm_bf16_64x64_nn",
        "my_kernel",
        "\u{1b}[2J|`<b>",
        "",
    ]);
    let calls = prop_oneof![Just(4u64), Just(8u64), any::<u64>()];
    let row = (name, calls, prop_oneof![0u64..1_000_000, any::<u64>()]);
    prop::collection::vec(row.prop_map(|(name, calls, ns)| (name.to_owned(), calls, ns)), 0..8)
}

fn any_report() -> impl Strategy<Value = Report> {
    let stage = (
        prop::sample::select(vec!["decode", "prefill", "x/y.z"]),
        2u64..9,
        any::<u64>(),
        kernels(),
    );
    prop::collection::vec(stage, 1..4).prop_map(|stages| {
        let mut seen = Vec::new();
        let mut kept: Vec<(&str, u64, u64, Kernels)> = Vec::new();
        for (stage, instances, step, kernels) in stages {
            if !seen.contains(&stage) {
                seen.push(stage);
                // Sums of a real report fit.
                let kernels = kernels.into_iter().map(|(n, c, ns)| (n, c >> 8, ns >> 8)).collect();
                kept.push((stage, instances, step, kernels));
            }
        }
        report(&kept)
    })
}

proptest! {
    #[test]
    fn a_report_equals_itself(a in any_report()) {
        assert_nothing_changed(&diff(&[&a], &[&a], &[], false));
    }

    #[test]
    fn changes_add_up_and_change_their_sign_with_the_sides(a in any_report(), b in any_report()) {
        let (there, back) = (diff(&[&a], &[&b], &[], false), diff(&[&b], &[&a], &[], false));
        assert_sums(&there);
        let json = serde_json::to_string(&there).expect("JSON");
        prop_assert!(!json.contains("u001b"));
        for stage in &there.stages {
            let other = back.stages.iter().find(|s| s.stage == stage.stage).expect("the same stages");
            prop_assert_eq!(stage.work.len(), other.work.len());
            prop_assert!((stage.work_total.change_ns + other.work_total.change_ns).abs() < 1e-6);
            for metric in &stage.metrics {
                let swapped = other.metric(&metric.metric).expect("the same metrics");
                prop_assert_eq!(metric.change, swapped.change.map(|change| -change));
                prop_assert_eq!(metric.verdict.is_change(), swapped.verdict.is_change());
            }
        }
    }
}

/// The first, cold call of a stage takes what no later one takes: it is none of a step.
#[test]
fn kernels_of_cold_calls_do_not_count_where_both_sides_tell_them_apart() {
    let with_cold = |cold_ns: u64| {
        let kernels = vec![("gemm".to_owned(), 10, 9_000_000 + cold_ns)];
        let mut report = report(&[("decode", 10, 1_000_000, kernels)]);
        report.stages[0].warm = Some(WarmRow { instances: 9, ..WarmRow::default() });
        let times = &mut report.kernels[0].times;
        (times.cold_calls, times.cold_total_ns) = (u64::from(cold_ns > 0), cold_ns);
        report
    };
    let work = |before: &Report, after: &Report| {
        let found = diff(&[before], &[after], &[], false);
        let stage = &found.stages[0];
        let row = stage.work[0].after.clone().expect("a kernel");
        let kernel_ms = stage.metric("kernel_ms").and_then(|metric| metric.after);
        (row.ns.round() as u64, row.calls, kernel_ms)
    };
    let (quick, slow, unknown) = (with_cold(1_000_000), with_cold(561_000_000), with_cold(0));
    assert_eq!(work(&quick, &slow), (1_000_000, 1.0, Some(1.0)));
    // Where one side does not tell, both count all.
    assert_eq!(work(&unknown, &slow), (57_000_000, 1.0, Some(57.0)));
}

/// A run of `calls` calls of which the first is cold and takes ten times as long. Each has two kernels, four copies, a fill
/// and a graph, of `us` each.
fn with_all_work(calls: u64, us: u64) -> Report {
    let of = |each: u64| {
        let (cold_total_ns, warm_ns) = (each * us * 10_000, (calls - 1) * each * us * 1_000);
        let total_ns = cold_total_ns + warm_ns;
        Times { calls: calls * each, total_ns, cold_calls: each, cold_total_ns, ..Times::default() }
    };
    let mut report = report(&[("decode", calls, us * 8_000, vec![("gemm".to_owned(), 0, 0)])]);
    report.kernels[0].times = of(2);
    let stage = || "decode".to_owned();
    let copy = |each, to: Option<&str>| MemoryRow {
        stage: stage(),
        direction: to.map(str::to_owned),
        times: of(each),
        ..MemoryRow::default()
    };
    report.copies.extend([copy(1, Some("device to host")), copy(3, Some("host to device"))]);
    report.fills.push(copy(1, None));
    report.graph_launches.push(GraphRow { stage: stage(), times: of(1), ..GraphRow::default() });
    let busy_ns = (calls - 1) * 8 * us * 1_000;
    let (instances, gpu_busy_ns, gpu_window_ns) = (calls - 1, busy_ns, busy_ns + busy_ns / 2);
    let row = &mut report.stages[0];
    row.warm = Some(WarmRow { instances, gpu_busy_ns, gpu_window_ns, ..WarmRow::default() });
    let all_ns = busy_ns + 80_000 * us;
    (row.gpu_busy_ns, row.gpu_window_ns) = (Some(all_ns), Some(2 * all_ns));
    (row.gpu_idle_ns, row.gpu_short_gaps_ns) = (Some(all_ns), Some(0));
    report
}

/// Short runs of different length compare: what every call does is as much per call on both sides, whatever it is.
#[test]
fn all_gpu_work_is_of_the_calls_that_it_is_divided_by() {
    let (before, after) = (with_all_work(3, 100), with_all_work(9, 70));
    let found = diff(&[&before], &[&after], &[], false);
    let stage = &found.stages[0];
    assert_eq!(stage.work.len(), 5, "{:?}", stage.work);
    for row in &stage.work {
        let (a, b) = (row.before.as_ref().expect("before"), row.after.as_ref().expect("after"));
        let name = &a.name;
        let each = if name == "gemm" { 2.0 } else { 1.0 };
        let each = if name == "memcpy, host to device" { 3.0 } else { each };
        for (side, us) in [(a, 100.0), (b, 70.0)] {
            assert!((side.calls - each).abs() < 1e-9, "{name}: {} calls", side.calls);
            assert!((side.ns - each * us * 1e3).abs() < 1e-6, "{name}: {} ns", side.ns);
            assert_eq!(side.mean_ns.map(f64::round), Some(us * 1e3), "{name}");
        }
    }
    let busy = stage.metric("gpu_busy_ms").and_then(|busy| busy.change).expect("a busy time");
    assert!((stage.work_total.change_ns - busy * 1e6).abs() < 1e-6, "no work overlaps");
    let parts = stage.parts();
    let sum: f64 = parts.rows.iter().map(|part| part.change_ns).sum();
    assert!((sum - parts.change_ns).abs() < 1e-6, "{sum} of {}", parts.change_ns);
    assert!(!stage.has_other_busy());
    // Where nothing is left out of the kernels, nothing is left out of the copies either.
    let mut partly = after.clone();
    partly.stages[0].recorded_instances = Some(4);
    let found = diff(&[&before], &[&partly], &[], false);
    let calls = found.stages[0].work.iter().filter_map(|row| Some(row.after.as_ref()?.calls));
    let sum: f64 = calls.sum();
    assert!((sum - 8.0).abs() < 1e-9, "{sum} of 8 calls");
}

/// What `diff` calls the mean step of a stage is the one of its report, to the last digit that either shows.
#[test]
fn the_mean_step_is_that_of_the_report() {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sample");
    let mut seen = 0;
    for name in ["regions", "server_window", "vllm_server", "vllm_sorting", "vllm_two_gpus"] {
        let bytes = std::fs::read(format!("{samples}/{name}/metrics.json")).expect(name);
        let report = read_report(&bytes).expect(name).report;
        let found = diff(&[&report], &[&report], &[], false);
        for answer in &report.answer.stages {
            let bound = answer.bottleneck.as_ref().filter(|bound| bound.is_of_step());
            let stage = found.stages.iter().find(|stage| stage.stage == answer.stage);
            let Some((bound, stage)) = bound.zip(stage) else { continue };
            let whole = stage.parts().whole.and_then(|whole| whole.before).expect("a window");
            let said = bound.ns as f64 / 1e6;
            assert!((whole - said).abs() < 0.005, "{name} {}: {whole} {said}", stage.stage);
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen}");
}

#[test]
fn tokens_per_second_decide_where_the_time_of_a_call_did_not_change() {
    let of = |at: u64, rate: f64| {
        let mut report = report(&[("decode", 9, 2_000_000 + at, vec![("k".into(), 9, 900)])]);
        let tokens_per_s = Figure::Known(rate + at as f64 / 1e3);
        report.answer.stages.push(StageAnswer { tokens_per_s, ..answer("decode") });
        report
    };
    let side = |rate| [0, 100, 200, 300].map(|at| of(at, rate));
    let (before, after) = (side(80.0), side(150.0));
    let found = diff(&before.each_ref(), &after.each_ref(), &[], false);
    assert_eq!(found.outlook(), Outlook::Better, "{}", found.verdict);
    let head = "Better (4 vs 4 runs without overlap, p = 0.029): decode tokens/s +87.3 % [";
    assert!(found.verdict.starts_with(head), "{}", found.verdict);
    assert!(found.verdict.ends_with("; decode median call time equal"), "{}", found.verdict);
    let worse = diff(&after.each_ref(), &before.each_ref(), &[], false);
    assert_eq!(worse.outlook(), Outlook::Worse, "{}", worse.verdict);
    let wild = [(0, 150.0), (900_000, 151.0), (4_000_000, 152.0), (100, 153.0)];
    let wild = wild.map(|(at, rate)| of(at, rate));
    let open = diff(&before.each_ref(), &wild.each_ref(), &[], false).verdict;
    assert_eq!(open.matches("inconclusive").count(), 1, "named once: {open}");
    let one = diff(&[&before[0]], &[&before[0]], &[], false);
    assert_eq!(one.outlook(), Outlook::Same, "{}", one.verdict);
}

#[test]
fn tokens_per_second_that_follow_a_few_slow_steps_come_with_the_median_that_did_not_change() {
    let of = |mean_ns: u64, rate: f64| {
        let mut report = report(&[("decode", 9, mean_ns, vec![("k".into(), 9, 900)])]);
        let path = Some("decode".into());
        let (steps, p50_ns, std_ns) = (180, 4_000_000, Some(200_000));
        let step = StepTimes { path, steps, p50_ns, mean_ns, std_ns, ..StepTimes::default() };
        let tokens_per_s = Figure::Known(rate);
        let answer = StageAnswer { step: Some(step), tokens_per_s, ..answer("decode") };
        report.answer.stages.push(answer);
        report
    };
    let slower = diff(&[&of(4_100_000, 80.0)], &[&of(4_700_000, 70.0)], &[], false).verdict;
    let why = "decode tokens/s -12.5 % (more slow steps); decode median call time equal";
    assert!(slower.contains(why), "{slower}");
    // More of them at a time.
    let more = diff(&[&of(4_100_000, 80.0)], &[&of(4_120_000, 150.0)], &[], false).verdict;
    assert!(more.contains("decode tokens/s +87.5 %; decode median call time equal"), "{more}");
}

#[test]
fn kernels_that_replace_each_other_count_together_and_none_is_kept_silent() {
    let of = |kernels: &[(&str, &str, u64, u64)]| {
        let all = kernels.iter().map(|(name, _, calls, ns)| ((*name).to_owned(), *calls, *ns));
        let mut report = report(&[("decode", 9, 4_000_000, all.collect())]);
        for (row, (_, class, ..)) in report.kernels.iter_mut().zip(kernels) {
            row.class = (*class).to_owned();
        }
        report
    };
    let line = |after: &[(&str, &str, u64, u64)]| {
        let before = of(&[
            ("old_attention", "attention", 9, 630_000),
            ("old_copy", "copy", 9, 540_000),
            ("fill", "fill", 9, 90_000),
            ("gemm", "gemm", 9, 5_000_000),
        ]);
        let found = diff(&[&before], &[&of(after)], &[], false);
        found.lines.iter().find(|line| line.label == "kernels").map(|line| line.text.clone())
    };
    let other = |fill, calls, attention| {
        line(&[
            ("new_attention", "attention", 18, attention),
            ("new_copy", "copy", 18, 549_000),
            ("fill", "fill", calls, fill),
            ("gemm", "gemm", 9, 5_000_000),
        ])
    };
    assert_eq!(
        other(450_000, 9, 900_000).as_deref(),
        Some(
            "largest changes per decode call: fill +40.0 us, 1 attention kernel replaced by another: +30.0 us net; \
             2 other kernels replaced each other (+1.0 us net, within noise); 2 new, 2 gone"
        )
    );
    assert_eq!(
        other(90_000, 9, 639_000).as_deref(),
        Some(
            "per decode call: 4 kernels replaced each other (+2.0 us net, within noise); 2 new, 2 gone"
        )
    );
}

#[test]
fn idle_time_without_causes_is_split_into_launch_gaps_and_the_rest() {
    let of = |gaps_ns: u64, others_ns: u64| {
        let mut report = report(&[("decode", 4, 9_000_000, vec![("k".into(), 4, 4_000_000)])]);
        let row = &mut report.stages[0];
        row.gpu_busy_ns = Some(4_000_000);
        row.gpu_window_ns = Some(4_000_000 + gaps_ns + others_ns);
        row.gpu_idle_ns = Some(gaps_ns + others_ns);
        row.gpu_short_gaps_ns = Some(gaps_ns);
        report
    };
    let (before, after) = (of(20_000_000, 4_000_000), of(2_000_000, 3_000_000));
    let found = diff(&[&before], &[&after], &[], false);
    let parts = found.stages[0].parts();
    let told = |part: &PartChange<'_>| (part.cause.map(str::to_owned), part.change_ns.round());
    let told: Vec<_> = parts.rows.iter().map(told).collect();
    let expected =
        [(Some("launch gaps".into()), -4.5e6), (Some("not launch gaps".into()), -0.25e6)];
    assert_eq!(told, expected);
    // One value per run; the smaller one is less than the noise of the step, which did not change.
    let words: Vec<_> = parts.rows.iter().map(PartChange::word).collect();
    assert_eq!(words, ["inconclusive", "within noise"]);
    let several = diff(&[&before; 4], &[&after; 4], &[], false);
    let parts = several.stages[0].parts();
    assert!(parts.rows.iter().all(|part| part.word() == "better"), "{:?}", parts.rows);
}

#[test]
fn the_verdict_names_the_largest_change_and_not_a_small_one_for_the_worse() {
    let of = |gaps_ns: u64, kernel_ns: u64| {
        let mut report = report(&[("decode", 4, 9_000_000, vec![("k".into(), 4, kernel_ns)])]);
        let row = &mut report.stages[0];
        row.gpu_busy_ns = Some(40_000_000);
        row.gpu_window_ns = Some(80_000_000);
        row.gpu_idle_ns = Some(40_000_000);
        row.gpu_short_gaps_ns = Some(gaps_ns);
        report
    };
    let (before, after) = (of(36_000_000, 400_000), of(2_000_000, 800_000));
    let verdict = diff(&[&before; 4], &[&after; 4], &[], false).verdict;
    let gaps = "such as decode launch gaps -8.50 ms, -94.4 %, and 2 of them for the worse;";
    assert!(verdict.contains(gaps), "{verdict}");
    let back = diff(&[&after; 4], &[&before; 4], &[], false).verdict;
    assert!(back.contains("for the worse, such as decode launch gaps +8.50 ms"), "{back}");
    let large = diff(&[&before; 4], &[&of(2_000_000, 40_000_000); 4], &[], false).verdict;
    assert!(large.contains("such as decode kernel time +9.90 ms"), "{large}");
    let both = diff(&[&before; 4], &[&of(2_000_000, 4_000_000); 4], &[], false).verdict;
    let both_named = "launch gaps -8.50 ms, -94.4 %, and 2 of them for the worse, such as decode kernel time +0.90 ms";
    assert!(both.contains(both_named), "{both}");
}

/// What a host does that is ahead is not what the GPU waits for.
#[test]
fn idle_time_is_divided_in_one_way_where_a_host_was_ahead() {
    let of = |ahead: bool, schedule: f64| {
        let mut report = with_host(212, schedule, 20.0);
        report.stages[0].gpu_short_gaps_ns = Some(if ahead { 20_000_000 } else { 2_000_000 });
        let said =
            Takeaway { rule: Rule::HostAhead, stage: Some("decode".into()), ..Takeaway::default() };
        report.insight.takeaways.extend(ahead.then_some(said));
        report
    };
    let causes = |before: &[&Report], after: &[&Report]| {
        let found = diff(before, after, &[], false);
        let stage = &found.stages[0];
        let causes: Vec<_> =
            stage.parts().rows.iter().filter_map(|part| part.cause.map(str::to_owned)).collect();
        let is_worse = stage.host.iter().any(|cause| cause.is_worse());
        (causes, stage.host.is_empty(), is_worse)
    };
    let gaps = (vec!["launch gaps".to_owned(), "not launch gaps".to_owned()], false, false);
    let (before, after) = (of(true, 40.0), slower(of(false, 60.0)));
    assert_eq!(causes(&[&before], &[&after]), gaps);
    assert_eq!(causes(&[&after], &[&before]), gaps);
    assert_eq!(causes(&[&after, &before], &[&after, &after]).0, gaps.0, "one of several");
    // Silence would look like no change.
    let mut bare = of(true, 40.0);
    bare.host = None;
    let found = diff(&[&bare, &before], &[&after, &after], &[], false);
    assert!(found.stages[0].host.is_empty() && found.stages[0].host_absent.is_some());
    let (found, _, _) = causes(&[&of(false, 40.0)], &[&after]);
    assert!(found.iter().any(|cause| cause.starts_with("Scheduler.schedule")), "{found:?}");
}

#[test]
fn overloaded_processors_are_warned_of() {
    let quiet = with_host(1, 40.0, 20.0);
    let mut busy = with_host(1, 40.0, 20.0);
    let process =
        HostProcess { file: "a.s2t".into(), delay_ns: 3, cpu_ns: 7, ..HostProcess::default() };
    busy.host.as_mut().expect("samples").processes.push(process);
    // The report decides what is long enough.
    assert_eq!(diff(&[&quiet], &[&busy], &[], false).differences, []);
    busy.findings.push(Id::HostOverloaded.about("a.s2t").found("", "", ""));
    let warned = |a: &Report, b: &Report| {
        let found = diff(&[a], &[b], &[], false);
        let of = found.differences.into_iter().find(|of| of.what == "overloaded processors");
        of.map(|of| (of.severity, of.before, of.after))
    };
    let expected = (Severity::Warning, "no".to_owned(), "waiting 30 %".to_owned());
    assert_eq!(warned(&quiet, &busy), Some(expected));
    assert_eq!(warned(&quiet, &quiet), None);
}

#[test]
fn times_of_calls_with_other_numbers_of_tokens_are_not_judged() {
    let of = |at: u64, tokens: u64| {
        let ns = tokens * 1_000_000 + at;
        let mut report = report(&[("decode", 9, ns, vec![("k".into(), 9 * tokens, 900 * tokens)])]);
        report.stages[0].host_total_ns = Some(9 * ns);
        let tokens_per_step = Some(tokens);
        let (unit, steps) = (StepUnit::Instance, 8);
        let step = StepTimes {
            unit,
            p50_ns: ns,
            mean_ns: ns,
            steps,
            tokens_per_step,
            ..StepTimes::default()
        };
        report.answer.stages.push(StageAnswer { step: Some(step), ..answer("decode") });
        report
    };
    let side = |tokens| [0, 100, 200, 300].map(|at| of(at, tokens));
    let words = |after: u64| {
        let (before, after) = (side(8), side(after));
        let found = diff(&before.each_ref(), &after.each_ref(), &[], false);
        let decode = &found.stages[0];
        let word = |name| decode.word(decode.metric(name).expect("a metric"));
        ([word("step_ms"), word("host_ms"), word("token_ms")], found.any_worse(), found.verdict)
    };
    let (longer, any_worse, verdict) = words(9);
    assert_eq!(longer[..2], ["not comparable"; 2], "a call has 9 tokens in place of 8");
    assert!(longer[2] != "not comparable" && !any_worse, "{longer:?}");
    assert!(!verdict.contains("other number"), "{verdict}");
    let (equal, ..) = words(8);
    assert_eq!(equal, ["equal"; 3]);
}

#[test]
fn the_time_of_a_call_is_not_judged_where_it_has_another_number_of_steps() {
    let of = |at: u64, tokens: u64| {
        let ns = tokens * 1_000_000 + at;
        let mut report = report(&[("decode", 9, ns, vec![("k".into(), 9 * tokens, 900 * tokens)])]);
        report.stages[0].host_total_ns = Some(9 * ns);
        report.stages[0].gpu_window_ns = Some(9 * ns);
        let path = "decode/step".to_owned();
        let instances = Some(9 * tokens);
        report.paths.push(PathRow { path: path.clone(), instances, ..PathRow::default() });
        let step = StepTimes {
            unit: StepUnit::RangeWithin,
            path: Some(path),
            p50_ns: 1_000_000 + at / tokens,
            mean_ns: 1_000_000 + at / tokens,
            steps: 8 * tokens,
            tokens_per_step: Some(1),
            ..StepTimes::default()
        };
        report.answer.stages.push(StageAnswer { step: Some(step), ..answer("decode") });
        report
    };
    let side = |tokens| [0, 100, 200, 300].map(|at| of(at, tokens));
    let told = |after: u64| {
        let (before, after) = (side(8), side(after));
        let found = diff(&before.each_ref(), &after.each_ref(), &["decode.host_ms>+5%"], false);
        let decode = &found.stages[0];
        let word = decode.word(decode.metric("host_ms").expect("a metric"));
        (word, found.any_worse(), found.conditions[0].text.clone(), found.verdict)
    };
    let (word, any_worse, condition, verdict) = told(12);
    assert_eq!((word, any_worse), ("not comparable", false), "{verdict}");
    assert!(condition.contains("a different number of tokens on each side):"), "{condition}");
    assert!(!verdict.contains("other number"), "{verdict}");
    assert_eq!(told(8).0, "equal");
}

#[test]
fn a_shorter_time_does_not_hide_a_longer_busy_time() {
    let of = |at: u64, step_ns: u64, busy_ns: u64| {
        let step_ns = step_ns + at;
        let mut report = report(&[("decode", 4, step_ns, vec![("k".into(), 4, 4 * busy_ns)])]);
        let row = &mut report.stages[0];
        row.gpu_busy_ns = Some(4 * (busy_ns + at));
        row.gpu_window_ns = Some(4 * step_ns);
        row.gpu_idle_ns = Some(4 * (step_ns - busy_ns));
        report
    };
    let side = |step_ns, busy_ns| [0, 100, 200, 300].map(|at| of(at, step_ns, busy_ns));
    let (before, after) = (side(10_000_000, 2_000_000), side(4_000_000, 2_300_000));
    let found = diff(&before.each_ref(), &after.each_ref(), &[], false);
    assert_eq!(found.outlook(), Outlook::Better);
    let longer = "; but decode GPU busy +0.30 ms per call";
    assert!(found.verdict.ends_with(longer), "{}", found.verdict);
    let next = found.lines.iter().find(|line| line.label == "next").expect("next");
    assert!(next.text.ends_with("keep it; in decode, look at k +0.30 ms"), "{}", next.text);
    // From 2 % of the step on.
    for busy_ns in [2_000_000, 2_190_000] {
        let found = diff(&before.each_ref(), &side(4_000_000, busy_ns).each_ref(), &[], false);
        let next = found.lines.iter().find(|line| line.label == "next").expect("next");
        assert!(!found.verdict.contains("busy") && !next.text.contains("look"), "{found:?}");
    }
}
