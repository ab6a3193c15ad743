//! An answer made by hand, and a report that is rich in stages, for the tests of the pages.

use stage2_model::finding::{Id, Severity};
use stage2_model::*;

/// The answer for a decode that launch gaps hold up.
pub(super) fn answer() -> Answer {
    let first = FirstStep {
        stage: Some("decode".into()),
        rule: Rule::LaunchBound,
        takeaway: None,
        text: "Launch less often: CUDA graphs".into(),
        condition: "launch gaps vanish".into(),
        removes: vec![Removed { what: "launch gaps".into(), percent: 79.6 }],
        factor: Some(4.9),
        is_floor: false,
        ..FirstStep::default()
    };
    let line = |label: &str, text: &str| AnswerLine { label: label.into(), text: text.into() };
    Answer {
        lines: vec![
            line("time", "decode 2.150 ms per token (p50; p99 2.310), 465 tokens/s"),
            line("window", "decode: launch gaps 79.0 %, compute 20.9 %, copies 0.1 %"),
            line("floor", "decode 0.420 ms per token: 5.1x the floor"),
            line("first", "decode up to 4.9x faster if launch gaps vanish: use CUDA graphs"),
            line(
                "coverage",
                "complete: no known lost records, and every kernel record is attributed",
            ),
        ],
        stages: vec![stage("decode", Some(first.clone()))],
        first: Some(first),
        ..Answer::default()
    }
}

/// The idle time of a decode: a scheduler, and the GIL that another thread holds.
pub(super) fn host() -> HostUse {
    let frame = |function: &str, file: &str, line| HostFrame {
        function: function.into(),
        file: file.into(),
        line,
    };
    let cause = |kind, frame, percent, error_percent, samples| HostCause {
        kind,
        frame,
        percent,
        error_percent,
        samples,
        ..HostCause::default()
    };
    let schedule = frame("Scheduler.schedule", "vllm/v1/core/scheduler.py", 212);
    let decode = frame("Tokenizer.decode", "tokenizer.py", 88);
    let gil = HostCause {
        thread: Some("detok".into()),
        ..cause(HostCauseKind::Gil, Some(decode.clone()), 32.7, 3.0, 80)
    };
    let lines = [(212, 40.0, 3.2, 98), (214, 20.0, 2.6, 49), (230, 5.3, 3.0, 13)];
    let line = |(line, percent, error_percent, samples)| HostLine {
        line,
        percent,
        error_percent,
        samples,
    };
    let code = HostCause {
        beside_work_percent: 4.2,
        lines: lines.map(line).into(),
        ..cause(HostCauseKind::EngineCode, Some(schedule.clone()), 65.3, 3.1, 160)
    };
    let stage = HostStage {
        stage: "decode".into(),
        window_ns: Some(10_000_000),
        idle_ns: Some(6_000_000),
        threads: vec!["engine".into()],
        samples: 240,
        covered_percent: 98.0,
        waits_for_work_percent: 0.5,
        causes: vec![code, gil, cause(HostCauseKind::Unknown, None, 2.0, 0.0, 0)],
        advice: vec![HostAdvice {
            kind: HostAdviceKind::Gil,
            percent: 32.7,
            error_percent: 3.0,
            frame: Some(decode),
            text: "32.7 ± 3.0 % of the idle time passed while the launching thread waited".into(),
            remedy: "Move it.".into(),
        }],
        stacks: vec![
            HostStackTime { stack: vec![0, 1], ns: 3_918_000, samples: 160 },
            HostStackTime { stack: vec![0, 2], ns: 1_962_000, samples: 80 },
        ],
        stacks_of_ns: 6_000_000,
        ..HostStage::default()
    };
    let process = HostProcess {
        file: "node-1.s2t".into(),
        python: Some("3.12".into()),
        asked_hz: Some(100.0),
        reached_hz: Some(99.5),
        samples: 1_000,
        dropped: 3,
        late_percent: Some(1.0),
        delay_ns: 1_000_000,
        cpu_ns: 4_000_000,
        ..HostProcess::default()
    };
    let leaf = "waiting for the GIL held by 'detok'";
    let names = ["EngineCore.step (vllm/v1/engine/core.py:300)", &schedule.text(), leaf];
    HostUse { stages: vec![stage], processes: vec![process], names: names.map(Into::into).into() }
}

fn stage(name: &str, first: Option<FirstStep>) -> StageAnswer {
    let part = |kind, ns, percent| WindowPart { kind, ns, percent };
    let bottleneck_part = |kind, ns| BottleneckPart { kind, ns };
    StageAnswer {
        stage: name.into(),
        role: Role::Decode,
        basis: "3 warm calls, the first of each process left out".into(),
        step: Some(StepTimes {
            unit: StepUnit::RangeWithin,
            path: Some(format!("{name}/step")),
            steps: 64,
            mean_ns: 2_160_000,
            p50_ns: 2_150_000,
            p99_ns: Some(2_310_000),
            max_ns: Some(2_500_000),
            std_ns: Some(41_000),
            tokens_per_step: Some(1),
            cold: false,
            requests: None,
            passed_over: None,
        }),
        slowdown: None,
        time_to_first_token_ns: Figure::Absent(Absent::NotMeasured),
        tokens_per_s: Figure::of(465.0),
        tokens_counted: TokensCounted::Generated,
        window: Some(WindowSplit {
            window_ns: 412_000_000,
            steps: Some(192.0),
            parts: vec![
                part(WindowKind::Compute, 86_000_000, 20.9),
                part(WindowKind::Copies, 500_000, 0.1),
                part(WindowKind::LaunchGaps, 325_500_000, 79.0),
            ],
        }),
        bottleneck: Some(Bottleneck {
            of: "token".into(),
            ns: 2_145_834,
            parts: vec![
                bottleneck_part(BottleneckKind::Launches, 1_695_313),
                bottleneck_part(BottleneckKind::Memory, 447_917),
                bottleneck_part(BottleneckKind::Copies, 2_604),
            ],
            kernels_over_floor: Some(1.066),
            ..Bottleneck::default()
        }),
        floor: Floor {
            memory_ns: Figure::of(420_000.0),
            kv_cache_ns: None,
            compute_ns: Figure::of(40_000.0),
            floor_ns: Figure::of(420_000.0),
            distance: Figure::of(5.119),
            baseline_distance: None,
        },
        first,
    }
}

/// Twenty stages with ten kernels each, as many takeaways and findings, and an answer for each stage.
pub(super) fn rich() -> Report {
    let mut report = Report { source: "collector".into(), ..Report::default() };
    report.run.name = "20261122-101500-7".into();
    report.run.started = Some("2026-11-22T10:15:00.000Z".into());
    report.run.command = Some((0..200).map(|n| format!("--option-{n}=value")).collect());
    let facts = (0..60).map(|n| Fact { key: format!("python.package{n}"), value: "1.0".into() });
    report.run.environment = facts.collect();
    report.coverage.verdict.text = "complete: every kernel record is attributed".into();
    report.answer = answer();
    report.answer.stages.clear();
    for number in 0..20 {
        let name = format!("stage{number}");
        report.answer.stages.push(stage(&name, None));
        report.stages.push(StageRow {
            stage: name.clone(),
            instances: Some(4),
            host_warm_median_ns: Some(9_000_000),
            host_warm_mean_ns: Some(9_100_000),
            host_warm_std_ns: Some(100_000),
            ..StageRow::default()
        });
        report.kernels.extend((0..10).map(|kernel| KernelRow {
            kernel: format!("at::native::vectorized_elementwise_kernel<{kernel}, float, int>"),
            name_index: kernel,
            stage: name.clone(),
            class: "elementwise".into(),
            times: Times { total_ns: 1_000_000, calls: 10, ..Times::default() },
            ..KernelRow::default()
        }));
        report.insight.takeaways.push(Takeaway {
            rule: Rule::LaunchBound,
            stage: Some(name.clone()),
            text: format!(
                "{name}: the GPU is idle 80.1 % of the window: 43392 kernels, 678 per token, 2.6 us \
                 each, one every 12.9 us; 93.0 % of the idle time is in gaps of 50 us at most"
            ),
            recommendation: Some(format!("Replay {name} as a CUDA graph, then fuse its kernels")),
            concerns_percent: Some(4.0),
            ..Takeaway::default()
        });
        report.findings.push(Id::NcuOneLaunch.graded(
            Severity::Warning,
            format!(
                "counters of 12 of 30 kernel rows are of the profiled launch only, e.g. in {name}"
            ),
            "profiled in decode, and 1.76 times the mean of the row",
            "profile the stage that matters, or tell workloads apart with NVTX ranges",
        ));
    }
    report
}
