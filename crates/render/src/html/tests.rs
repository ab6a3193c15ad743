//! The page of a report that has everything: its elements and their numbers, as a browser reads them.

use std::collections::BTreeSet;

use super::super::{operators, report as report_page, summary};
use super::*;
use crate::golden::compare;
use dom::{Element, parse};
use stage2_contract::text::{KernelName, visible};
use stage2_model::finding::Id;
use stage2_model::*;
use stage2_report::conclusions::Shown;

#[path = "../../../../launcher/tests/it/common/dom.rs"]
mod dom;

/// Time, share of it, FLOP per byte and FLOP/s of a kernel row; nothing where ncu did not measure it.
type Row = (&'static str, &'static str, u64, Option<(f64, f64)>);

/// Slow stretches, in which a function takes longer.
fn plateaus(hostile: &str) -> Plateaus {
    let fast = Plateau {
        mean_ns: 3.4e6,
        gpu_ns: 1.15e6,
        samples: 99,
        requests: 16.0,
        context_tokens: 800.0,
        ..Plateau::default()
    };
    let slow = Plateau { mean_ns: 4.4e6, stretches: vec![(128, 195)], ..fast.clone() };
    let function = format!("sort{hostile}");
    let longer = vec![LongerFunction { function, more_ns: 3e5, error_ns: 5e4 }];
    Plateaus { slow, fast, longer }
}

/// `hostile` stands in every name of foreign origin. A report holds visible text only.
pub(super) fn full(hostile: &str) -> Report {
    let hostile = visible(hostile.as_bytes());
    let decode = format!("decode{hostile}");
    let rows: [Row; 4] = [
        ("cutlass_gemm", "gemm", 6_000_000, Some((200.0, 4e14))),
        ("flash_attention", "attention", 3_000_000, Some((2.0, 2e12))),
        ("rms_norm", "norm", 1_000_000, None),
        ("nccl_all_reduce", "communication", 500_000, None),
    ];
    let stages = [decode.clone(), "prefill".to_owned()];
    let kernel = |stage: &str, (at, (name, class, ns, counted)): (usize, Row)| KernelRow {
        kernel: format!("{name}{hostile}"),
        name_index: at,
        device: format!("0 GPU{hostile}"),
        stage: stage.to_owned(),
        class: class.to_owned(),
        times: Times { calls: 10, total_ns: ns, mean_ns: Some(ns / 10), ..Times::default() },
        counters: counted.filter(|_| stage == decode).map(|(intensity, rate)| {
            let roofline = Roofline {
                flops_per_byte: Some(intensity),
                flops_per_s: Some(rate),
                attainable_share: Some(0.4),
                bound: Some(Bound::Memory),
                ..Roofline::default()
            };
            Box::new(CounterRow { roofline, ..CounterRow::default() })
        }),
        ..KernelRow::default()
    };
    let line = |label: &str| AnswerLine {
        label: label.into(),
        text: format!("what the {label} is{hostile}"),
    };
    let rank = |rank: u64, stage: &str, ns: u64| RankStageRow {
        stage: stage.to_owned(),
        who: format!("rank {rank}{hostile}"),
        rank: Some(rank),
        host_warm_median_ns: Some(ns),
        ..RankStageRow::default()
    };
    let bucket = |first: u64| StepBucket {
        first,
        steps: 4,
        min_ns: 990_000 + first * 100,
        mean_ns: 1_000_000 + first * 100,
        max_ns: if first == 0 { 9_000_000 } else { 1_100_000 + first * 150 },
    };
    let step = |number, host_ns| Step { number, range: number + 10, host_ns };
    let mut report = Report {
        generator: "stage2-launch".into(),
        answer: Answer {
            lines: ["time", "window", "floor", "first", "coverage"].map(line).into(),
            stages: stages.iter().map(|stage| answer(stage, &decode)).collect(),
            ..Answer::default()
        },
        stages: stages
            .iter()
            .map(|stage| StageRow {
                stage: stage.clone(),
                instances: Some(200),
                ..StageRow::default()
            })
            .collect(),
        step_series: vec![StepSeries {
            cold_steps: 1,
            until_next: false,
            stage: decode.clone(),
            path: decode.clone(),
            file: format!("node-1-1{hostile}.s2t"),
            buckets: (0..50).map(|i| bucket(i * 4)).collect(),
            outliers: vec![step(0, 9_000_000), step(120, 1_350_000)],
            before: Vec::new(),
            plateaus: Some(plateaus(&hostile)),
            median: Some(step(77, 1_000_000)),
        }],
        step_timelines: ranks(&steps(&decode, &hostile), &hostile).into(),
        host: Some(host(&decode, &hostile)),
        engine: Some(EngineRun {
            engine: Some(format!("vllm{hostile}")),
            kinds: vec![engine_steps(&decode)],
            ..EngineRun::default()
        }),
        kernel_names: (rows.iter())
            .map(|(name, ..)| KernelName {
                mangled: format!("_Z{name}{hostile}"),
                demangled: format!("void {name}<float, 128>(float const*){hostile}"),
                short: format!("{name}{hostile}"),
                ..KernelName::default()
            })
            .collect(),
        kernels: (stages.iter())
            .flat_map(|stage| rows.into_iter().enumerate().map(|row| kernel(stage, row)))
            .collect(),
        ranks: Ranks {
            stages: vec![
                rank(0, &decode, 1_000_000),
                rank(1, &decode, 1_600_000),
                rank(0, "prefill", 5_000_000),
            ],
            ..Ranks::default()
        },
        peaks: Some(Peaks {
            card: format!("H200{hostile}"),
            source: "a data sheet".into(),
            dense_tflops: [
                (Precision::Fp32, Some(66.9)),
                (Precision::Bf16, Some(989.0)),
                (Precision::Fp16, Some(989.0)),
                (Precision::Int8, Some(1979.0)),
                (Precision::Fp4, None),
            ]
            .into(),
            memory_gb_per_s: Some(4_800.0),
            overridden: Vec::new(),
        }),
        ..Report::default()
    };
    report.set_kernel_ids();
    report
}

/// Samples of the host, with `hostile` in every name of foreign origin.
fn host(stage: &str, hostile: &str) -> HostUse {
    let mut host = crate::testing::host();
    host.names.iter_mut().for_each(|name| name.push_str(hostile));
    for process in &mut host.processes {
        process.file.push_str(hostile);
        process.note = Some(format!("a note{hostile}"));
    }
    for found in &mut host.stages {
        found.stage = stage.to_owned();
        found.threads.iter_mut().for_each(|thread| thread.push_str(hostile));
        for cause in &mut found.causes {
            cause.thread.iter_mut().for_each(|thread| thread.push_str(hostile));
            if let Some(frame) = &mut cause.frame {
                frame.function.push_str(hostile);
                frame.file.push_str(hostile);
            }
        }
    }
    host
}

/// Steps of 1 to 8 requests. A step lasts 1 ms plus 0.5 ms for each request.
fn engine_steps(stage: &str) -> EngineSteps {
    let row = |requests: u64| EngineStepRow {
        requests,
        requests_to: requests,
        steps: 10,
        timed_steps: 10,
        p50_ns: Some(1_000_000 + 500_000 * requests),
        p99_ns: (requests > 1).then_some(1_200_000 + 500_000 * requests),
        ..EngineStepRow::default()
    };
    let fit = StepFit { fixed_ns: 1e6, each_ns: 5e5, of: "request".into(), r2: 1.0, rows: 4 };
    EngineSteps {
        stage: stage.to_owned(),
        steps: 40,
        timed_steps: 40,
        p50_ns: Some(3_000_000),
        decode_requests_mean: 3.75,
        rows: [1, 2, 4, 8].map(row).into(),
        fit: Some(fit),
        ..EngineSteps::default()
    }
}

fn answer(stage: &str, decode: &str) -> StageAnswer {
    let part = |kind, percent: f64| WindowPart { kind, ns: (percent * 1e5) as u64, percent };
    let split = WindowSplit {
        window_ns: 10_000_000,
        steps: None,
        parts: vec![
            part(WindowKind::Compute, 33.33),
            part(WindowKind::Waiting, 16.67),
            part(WindowKind::LaunchGaps, 41.0),
            // Rounded up, as all together are beyond 100.
            part(WindowKind::OtherIdle, 9.01),
        ],
    };
    StageAnswer {
        stage: stage.to_owned(),
        role: Role::Decode,
        basis: "199 warm calls".into(),
        step: (stage == decode).then(|| StepTimes {
            path: Some(decode.to_owned()),
            steps: 199,
            mean_ns: 1_010_000,
            p50_ns: 1_000_000,
            p99_ns: Some(1_200_000),
            tokens_per_step: Some(2),
            ..StepTimes::default()
        }),
        slowdown: Some(Slowdown { pass: "collect".into(), ratio: 1.25 }),
        time_to_first_token_ns: Figure::Absent(Absent::DecodeOnly),
        tokens_per_s: Figure::of(993.4),
        tokens_counted: TokensCounted::Generated,
        window: (stage == decode).then_some(split),
        bottleneck: None,
        floor: Floor {
            memory_ns: Figure::of(250_000.0),
            kv_cache_ns: None,
            compute_ns: Figure::of(1_000.0),
            floor_ns: Figure::of(250_000.0),
            distance: Figure::of(4.0),
            baseline_distance: Some(3.2),
        },
        first: None,
    }
}

/// The step of a late rank, and the same one of a rank that waits 5 us for it.
fn ranks(late: &StepTimeline, hostile: &str) -> [StepTimeline; 2] {
    let of = |who: &str, is_late| {
        let rank = Some(TimelineRank { who: format!("{who}{hostile}"), is_late, late_ns: None });
        StepTimeline { rank, ..late.clone() }
    };
    let [late, mut waiting] = [of("rank 1", true), of("rank 0", false)];
    waiting.lanes[0].work[0].waiting_ns = 5_000;
    [late, waiting]
}

/// 40 kernels on two streams, two ranges, and gaps of both kinds.
fn steps(stage: &str, hostile: &str) -> StepTimeline {
    let work = |i: u64, name: usize, class: &str| TimelineWork {
        name,
        class: class.into(),
        start_ns: 10_000 + i * 24_000,
        length_ns: 9_123 + i,
        waiting_ns: 0,
    };
    let gap = |start_ns, length_ns, launch| TimelineGap {
        start_ns,
        length_ns,
        launch,
        ..TimelineGap::default()
    };
    let sum = |name, class: &str, calls, total_ns| TimelineSum {
        name,
        class: class.into(),
        calls,
        total_ns,
        longest_ns: 30_000,
    };
    let range =
        |name, depth, start_ns, length_ns| TimelineRange { name, depth, start_ns, length_ns };
    StepTimeline {
        host_at_gaps: None,
        host: Some(TimelineHost {
            steps: 40,
            samples: 61,
            parts: vec![
                TimelineHostPart {
                    start_ns: 0,
                    length_ns: 250_000,
                    samples: 12,
                    functions: vec![(4, 11), (5, 1)],
                },
                TimelineHostPart {
                    start_ns: 250_000,
                    length_ns: 750_000,
                    samples: 49,
                    functions: vec![(5, 20), (4, 9)],
                },
            ],
        }),
        rank: None,
        start_ns: 1_700_000_000_000_000_000,
        stage: stage.to_owned(),
        path: stage.to_owned(),
        file: "node-1-1.s2t".into(),
        step: Step { number: 77, range: 87, host_ns: 1_000_000 },
        lasts_ns: None,
        length_ns: 1_000_000,
        names: ["decode", "layer", "cutlass_gemm", "copy, host to device", "f (a.py)", "g (b.py)"]
            .map(|name| format!("{name}{hostile}"))
            .into(),
        ranges: vec![range(0, 0, 0, 980_000), range(1, 1, 4_000, 400_000)],
        lanes: vec![
            TimelineLane {
                label: "GPU 0, stream 7".into(),
                work: (0..30).map(|i| work(i, 2, "gemm")).collect(),
            },
            TimelineLane {
                label: "GPU 0, stream 13".into(),
                work: (0..10).map(|i| work(i * 3, 3, "copy")).collect(),
            },
        ],
        gaps: vec![gap(0, 10_000, false), gap(19_123, 14_877, true)],
        left_out: 12,
        sums: TimelineSums {
            whole: true,
            // More than is drawn.
            work: vec![
                sum(Some(2), "gemm", 31, 411_000),
                sum(Some(3), "copy", 12, 150_000),
                sum(None, "fill", 9, 900),
            ],
            launch_gaps_ns: 25_000,
            other_idle_ns: 10_000,
            other_work_ns: 0,
        },
    }
}

fn written(report: &Report) -> String {
    let summary = summary::page(report, &Shown::default());
    let operators = operators::page(report, &Operators::default(), 10);
    report_html(report, &summary, &report_page::page(report), &operators)
}

fn number(text: &str) -> f64 {
    text.trim_end_matches('%').replace(',', "").parse().unwrap_or_else(|_| panic!("number: {text}"))
}

fn attribute(element: &Element, name: &str) -> f64 {
    number(&element.attribute(name).unwrap_or_else(|| panic!("{name} of {element:?}")))
}

#[test]
fn the_page_is_as_expected() {
    compare("page_of_everything.html", &written(&full("")));
}

#[test]
fn the_answer_comes_first() {
    let page = parse(&written(&full("")));
    let header = page.one("header");
    let terms: Vec<String> = header.all("dt").iter().map(Element::text).collect();
    assert_eq!(terms, ["time", "window", "floor", "kernel", "first", "coverage"]);
    let first = page.text().find("what the time is").expect("the answer");
    assert!(first < page.text().find("Where the window goes").expect("the evidence"));
}

#[test]
fn the_mean_step_is_a_bar_whose_parts_lead_to_what_explains_them() {
    let mut report = full("");
    let verdict = AnswerLine { label: "verdict".into(), text: "decode takes 6.24 ms".into() };
    report.answer.lines.insert(0, verdict);
    let parts = [BottleneckPart { kind: BottleneckKind::Kernels, ns: 10_000 }].to_vec();
    let mean = Bottleneck { of: "token".into(), ns: 10_000, parts, ..Bottleneck::default() };
    report.answer.stages[0].bottleneck = Some(Bottleneck { at_a_time: Some(2.0), ..mean });
    let page = parse(&written(&report));
    let header = page.one("header");
    let bound = "decode is bound by its kernels: 10.0 of 10.0 us per token of all streams; 4.0x the \
                 token's floor";
    assert_eq!(page.of_class("verdict")[0].text(), bound);
    let bar = &page.of_class("mean")[0];
    assert!(bar.text().contains("Mean time per token of decode: 10.0 us"), "{}", bar.text());
    let rects = bar.all("a");
    let links: Vec<String> = rects.iter().filter_map(|a| a.attribute("href")).collect();
    assert!(links.iter().any(|link| link == "#all-kernels"), "{links:?}");
    // The fixture has samples of the host: the idle time is divided by its causes.
    assert!(links.iter().any(|link| link == "#stage-1-causes"), "{links:?}");
    links.iter().for_each(|link| drop(page.by_id(link.trim_start_matches('#'))));
    let widths = bar
        .all("rect")
        .iter()
        .filter_map(|rect| rect.attribute("x").map(|_| rect))
        .map(|rect| attribute(rect, "width"))
        .sum::<f64>();
    assert!((widths - 100.0).abs() < 0.01, "{widths}");
    // Its shares are those of the table of the window, which is divided by the same causes.
    let rows = page.by_id("stage-1").one("table").one("tbody").all("tr");
    let rows = rows.iter().map(|row| {
        let cells = row.all("td");
        (cells[0].text(), cells[2].text())
    });
    let rows: Vec<(String, String)> = rows.collect();
    assert_eq!(rows[0], ("compute".to_owned(), "33.3".to_owned()));
    assert!(bar.text().contains("compute 3.3 us (33.3 %)"), "{}", bar.text());
    let legend = bar.all("li");
    assert_eq!(rows.len(), legend.len() + 1, "a row for each part, and one for all: {rows:?}");
    for ((label, percent), entry) in rows.iter().zip(&legend) {
        let entry = entry.text();
        assert!(entry.starts_with(label) && entry.contains(&format!("({percent} %)")), "{entry}");
    }
    let note = "Idle time by cause; it is launch gaps 0.004 ms and other idle 0.001 ms.";
    let stage = page.by_id("stage-1").text();
    assert!(stage.contains(note), "{stage}");
    // What is not known is apart from what is small, of which the largest have their names.
    assert!(bar.text().contains("idle: cause not known 0.1 us (1.0 %)"), "{}", bar.text());
    assert!(!header.text().contains("GPU busy"), "the bar shows it");
    // What is not there is no content, and details open.
    let more = page.one("nav").one("details").one("details").text();
    assert!(more.contains("more sections") && !page.one("nav").text().contains("Fills"));
    // An answer to each question, in short; the lines of the pages are folded.
    let labels = |list: &Element| list.all("dt").iter().map(Element::text).collect::<Vec<_>>();
    let lists = header.all("dl");
    assert_eq!(labels(&lists[0]), ["first", "host code", "kernel", "time", "coverage"]);
    let code = &lists[0].all("div")[1];
    assert_eq!(code.one("a").attribute("href").as_deref(), Some("#stage-1-causes"));
    // Who follows the link sees what the table is.
    assert!(page.by_id("stage-1-causes").text().contains("What the host does while"));
    assert!(code.text().contains("Scheduler.schedule (scheduler.py:212"), "{}", code.text());
    let folded = labels(&header.one("details"));
    assert_eq!(folded, ["verdict", "first", "kernel", "time", "window", "floor", "coverage"]);
    report.host.as_mut().expect("sampled").stages[0].causes[1].percent = 2.0;
    let small =
        "idle: many small causes (waiting for the GIL held by 'detok' 0.1 us, \u{2026}) 1.6 us";
    let bar = parse(&written(&report)).of_class("mean")[0].text();
    assert!(bar.contains(small), "{bar}");
    // Work of other stages is a part of its own, and not idle time.
    let mut beside = report.clone();
    let parts = &mut beside.answer.stages[0].window.as_mut().expect("a window").parts;
    let waiting = parts.iter_mut().find(|part| part.kind == WindowKind::Waiting).expect("waiting");
    waiting.kind = WindowKind::OtherWork;
    let page = parse(&written(&beside));
    let bar = page.of_class("mean")[0].text();
    assert!(bar.contains("work of other stages") && bar.contains(small), "{bar}");
    assert!(page.by_id("stage-1").text().contains("the GPU was not idle"));
    // What the host did is no cause where it was ahead.
    let (rule, stage) = (Rule::HostAhead, Some(report.answer.stages[0].stage.clone()));
    report.insight.takeaways = vec![Takeaway { rule, stage, ..Takeaway::default() }];
    let page = parse(&written(&report));
    let bar = page.of_class("mean")[0].text();
    assert!(bar.contains("launch gaps 4.1 us (41.0 %)") && !bar.contains("causes"), "{bar}");
    assert!(!page.by_id("stage-1").text().contains("Idle time by cause"));
    let host = page.by_id("stage-1").text();
    let remedy = &report.host.as_ref().expect("sampled").stages[0].advice[0].remedy;
    assert!(host.contains("the host was ahead of the GPU") && !host.contains(remedy), "{host}");
}

#[test]
fn the_window_adds_up() {
    let page = parse(&written(&full("")));
    let rects = page.by_id("stage-1-window").all("rect");
    let widths: Vec<f64> = rects.iter().map(|rect| attribute(rect, "width")).collect();
    assert_eq!(widths.iter().map(|width| (width * 100.0).round()).sum::<f64>(), 10_000.0);
    assert_eq!(widths[..3], [33.33, 16.67, 41.0]);
    let mut at = 0.0;
    for rect in &rects {
        assert!((attribute(rect, "x") - at).abs() < 1e-3, "no space between the parts");
        at += attribute(rect, "width");
    }
}

#[test]
fn a_bar_stands_for_every_piece_of_work() {
    let report = full("");
    let page = parse(&written(&report));
    let timeline = page.by_id("stage-1-timeline");
    let expected = &report.step_timelines[0];
    let lanes = timeline.of_class("lane");
    assert_eq!(lanes.len(), expected.lanes.len());
    for (lane, expected) in lanes.iter().zip(&expected.lanes) {
        let found: Vec<(u64, u64)> = (lane.all("rect").iter())
            .map(|rect| {
                let ns = |name| (attribute(rect, name) / 100.0 * 1e6).round() as u64;
                (ns("x"), ns("width"))
            })
            .collect();
        let work: Vec<_> = expected.work.iter().map(|w| (w.start_ns, w.length_ns)).collect();
        assert_eq!(found, work, "to the nanosecond");
    }
    let drawn = timeline.of_class("range");
    let drawn: Vec<String> = drawn.iter().map(Element::text).collect();
    // Of samples, the tooltip has the functions; without a main one, each has a height of its own.
    let parts = [
        "12 samples; 11: f (a.py); 1: g (b.py)f",
        "20 of 49 samples: g (b.py)g 41 %",
        "9 of 49 samples: f (a.py)f 18 %",
        "49 samples; 20: g (b.py); 9: f (a.py)41 % others",
    ];
    assert_eq!(drawn, [&["decode", "layer"][..], &parts].concat());
    let gaps = timeline.of_class("gaps")[0].all("rect");
    let kinds: Vec<_> = gaps.iter().filter_map(|gap| gap.attribute("class")).collect();
    assert_eq!(kinds, ["g-idle", "g-launch"]);
    let said = page.by_id("stage-1").text();
    let of = "42 of 54 ranges and pieces of GPU work are drawn: the longest.";
    assert!(said.contains(of), "{said}");
    let names = &page.by_id("stage-1").of_class("names")[0];
    let rows: Vec<String> = names.one("tbody").all("tr").iter().map(Element::text).collect();
    assert!(rows[0].starts_with("cutlass_gemmgemm31") && rows.len() == 3, "{rows:?}");
}

#[test]
fn frames_are_as_wide_as_their_share_and_lie_under_those_that_called_them() {
    let page = parse(&written(&full("")));
    let frames = page.by_id("stage-1-flame").of_class("frame");
    let frames: Vec<_> = (frames.iter())
        .map(|frame| {
            let place = ["x", "width", "y"].map(|name| attribute(frame, name));
            (place, frame.one("title").text())
        })
        .collect();
    let texts = [
        "EngineCore.step (vllm/v1/engine/core.py:300): 98.0 %, 240 samples",
        "Scheduler.schedule (vllm/v1/core/scheduler.py:212): 65.3 %, 160 samples",
        "waiting for the GIL held by 'detok': 32.7 %, 80 samples",
    ];
    let places = [[0.0, 98.0, 0.0], [0.0, 65.3, 18.0], [65.3, 32.7, 18.0]];
    let expected: Vec<_> = places.into_iter().zip(texts.map(String::from)).collect();
    assert_eq!(frames, expected);
}

#[test]
fn roofs_and_points_are_those_of_the_report() {
    let page = parse(&written(&full("")));
    let stage = page.by_id("stage-1");
    let roofs: Vec<String> = (stage.of_class("roofs")[0].all("li").iter())
        .filter_map(|roof| roof.attribute("data-flops-per-s"))
        .collect();
    // Integer operations are no FLOPs; FP16 and BF16 share a roof; FP4 has none.
    assert_eq!(roofs, ["989000000000000", "66900000000000"]);
    assert!(stage.text().contains("memory: 4800.0 GB/s"));
    let picture = page.by_id("stage-1-roofline");
    let points = picture.of_class("point");
    assert_eq!(points.len(), 2, "kernels without counters have no point");
    let at = |i: usize, name| attribute(&points[i], name);
    assert!(at(0, "cx") > at(1, "cx") && at(0, "cy") < at(1, "cy"), "more of both: right and up");
    let areas = (at(0, "r") / at(1, "r")).powi(2);
    assert!((areas - 2.0).abs() < 0.1, "areas are shares: {areas}");
    let without = page.by_id("stage-2").text();
    assert!(!without.contains("Roofline"), "ncu measured no kernel of this stage: {without}");
}

#[test]
fn dots_of_the_step_time_by_batch_are_on_the_line_that_they_made() {
    let page = parse(&written(&full("")));
    let picture = page.by_id("stage-1-batch");
    let dots: Vec<(f64, f64)> = (picture.all("circle").iter())
        .map(|dot| (attribute(dot, "cx"), attribute(dot, "cy")))
        .collect();
    assert_eq!(dots.len(), 4);
    let slope = |a: usize, b: usize| (dots[b].1 - dots[a].1) / (dots[b].0 - dots[a].0);
    assert!(slope(0, 3) < 0.0, "more requests: right and up, {dots:?}");
    assert!((slope(0, 2) / slope(0, 3) - 1.0).abs() < 0.05, "{dots:?}");
    let said = picture.one("desc").text();
    assert!(
        said.contains("in 4 rows; the slowest time shown is 5.20 ms; the line is the fit"),
        "{said}"
    );
    assert!(picture.of_class("few").is_empty(), "each is of 10 steps");
    let mut report = full("");
    report.engine.iter_mut().for_each(|run| run.kinds[0].rows[0].timed_steps = 2);
    let page = parse(&written(&report));
    let picture = page.by_id("stage-1-batch");
    assert_eq!(picture.of_class("few")[0].text(), "1 requests of a step: p50 1.50 ms, 2 steps");
    assert!(picture.text().contains("n=2"), "{}", picture.text());
    let mut report = full("");
    report.engine.iter_mut().flat_map(|run| &mut run.kinds).for_each(|kind| kind.rows.truncate(2));
    assert!(!written(&report).contains("Step time by batch"), "two batches make no picture");
    let mut report = full("");
    let kinds = report.engine.iter_mut().flat_map(|run| &mut run.kinds);
    kinds.for_each(|kind| kind.decode_requests_mean = 0.0);
    let page = parse(&written(&report));
    let said = page.by_id("stage-1-batch").one("desc").text();
    assert!(said.contains("by requests of a step"), "no tokens are known: {said}");
}

#[test]
fn latency_ranks_and_kernels_have_their_numbers() {
    let page = parse(&written(&full("")));
    let latency = page.by_id("stage-1-latency");
    let percentiles: Vec<_> = latency
        .of_class("percentile")
        .iter()
        .map(|p| (p.text(), attribute(p, "data-ns")))
        .collect();
    assert_eq!(percentiles, [("p50".to_owned(), 1e6), ("p99".to_owned(), 1.2e6)]);
    assert_eq!(latency.of_class("outlier").len(), 2);
    assert!(page.by_id("stage-1").text().contains("ends at 2.40 ms: 1 bucket."));
    let heat = &page.of_class("heat")[0];
    let cells: Vec<_> = (heat.one("tbody").all("td").iter())
        .map(|cell| (cell.text(), cell.attribute("class").unwrap_or_default()))
        .collect();
    let cell = |text: &str, class: &str| (text.to_owned(), class.to_owned());
    let [first, second] = [cell("1.000", "n heat-0"), cell("5.000", "n heat-0")];
    assert_eq!(cells, [first, second, cell("1.600", "n heat-8"), cell("–", "n")]);
    let rows = page.by_id("kernels").one("tbody").all("tr");
    assert_eq!(rows.len(), 8, "a row for each stage and kernel");
    let cells: Vec<String> = rows[0].all("td").iter().map(Element::text).collect();
    // 6 of 10.5 ms; 60 % of 6 ms, which is so much in each of 200 steps of 2 tokens.
    let expected = "cutlass_gemm|decode|gemm|memory|40.0|3.600|6.000|57.1|10|600.000";
    assert_eq!(cells.join("|"), expected);
    let of_step = rows[0].all("td")[5].attribute("title");
    assert_eq!(of_step.as_deref(), Some("0.009 ms per token"));
    let name = rows[0].one("a");
    let full = "void cutlass_gemm<float, 128>(float const*)";
    assert_eq!(name.attribute("title").as_deref(), Some(full));
    let links: Vec<_> = rows[0].all("a").iter().filter_map(|a| a.attribute("href")).collect();
    assert_eq!(links, ["#stage-1-timeline", "#stage-1-roofline"]);
    let unknown: Vec<String> = rows[2].all("td").iter().map(Element::text).collect();
    assert_eq!(unknown[3..6], ["–", "–", "–"], "{unknown:?}");
    let head = page.one("header").text();
    let said = "decode loses most in cutlass_gemm";
    assert!(
        head.contains(said)
            && head.contains("at 40.0 % of its roof): up to 9.0 of 15.0 us per token"),
        "{head}"
    );
    let top = page.by_id("top-kernels").one("tbody").all("tr");
    let cells: Vec<String> = top[0].all("td").iter().map(Element::text).collect();
    assert_eq!(cells.join("|"), "cutlass_gemm|gemm|memory|40.0|0.009|0.015|60.0");
    let name = top[0].one("a");
    assert_eq!(name.attribute("title").as_deref(), Some(full));
    let to = name.attribute("href").expect("a link");
    assert_eq!(page.by_id(&to[1..]).text(), rows[0].text(), "it leads to the row");
    let mut told = page.one("header").all("a").into_iter().filter(|a| a.text() == "cutlass_gemm");
    assert_eq!(told.next().and_then(|a| a.attribute("href")), Some(to));
    assert!(page.of_class("small").is_empty());
    let mut report = super::tests::full("");
    report.kernels[3].times.total_ns = 9_000;
    let page = parse(&written(&report));
    let small = page.of_class("small");
    assert!(small.len() == 1 && small[0].text().contains("nccl_all_reduce"), "{small:?}");
    report.kernels[3].times.cold_calls = report.kernels[3].times.calls;
    let page = parse(&written(&report));
    assert_eq!(page.by_id("kernels").one("tbody").all("tr").len(), 7);
    let said = page.by_id("all-kernels").text();
    assert!(said.contains("Not shown: 1 kernel that ran only in cold calls;"), "{said}");
}

#[test]
fn what_is_no_stage_is_not_shown_as_one() {
    let mut report = full("");
    let row = |stage: &str| StageKernelRow {
        stage: stage.into(),
        kernel: format!("kernel of {stage}"),
        times: Times { calls: 1, total_ns: 9_000, ..Times::default() },
        ..StageKernelRow::default()
    };
    let outside = [("aten::mul", Apart::Operator), ("warmup", Apart::WarmUp)];
    report.stage_kernels = vec![row("aten::mul"), row("decode"), row("warmup")];
    for (stage, apart) in outside {
        let stage = StageRow { stage: stage.into(), apart: Some(apart), ..StageRow::default() };
        let kernel = KernelRow { stage: stage.stage.clone(), ..report.kernels[0].clone() };
        report.stages.push(stage);
        report.kernels.push(kernel);
    }
    let page = parse(&written(&report));
    let rows = page.by_id("kernels").one("tbody").all("tr");
    let (apart, stages): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row.attribute("data-outside").is_some());
    let stage_of = |rows: Vec<&Element>| -> BTreeSet<String> {
        rows.iter().map(|row| row.all("td")[1].text()).collect()
    };
    assert_eq!(stage_of(apart), outside.map(|(stage, _)| stage.to_owned()).into());
    assert_eq!(stage_of(stages), ["decode", "prefill"].map(String::from).into());
    let text = report_page::page(&report).markdown();
    let (_, section) = text.split_once("## Top kernels of each stage\n").expect("a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let heads: Vec<&str> = section.lines().filter(|line| line.starts_with("### ")).collect();
    assert_eq!(heads, ["### `decode`", "### Outside the stages"], "{section}");
    assert!(section.contains("| `kernel of aten::mul` | `aten::mul` | 0.009 |"), "{section}");
    assert!(section.contains("| `kernel of warmup` | `warmup` |"), "{section}");
}

#[test]
fn kernels_that_share_a_short_name_lead_to_its_bars() {
    let timeline = steps("decode", "");
    let has_bar = |kernel| timeline::has_bar(&timeline, kernel);
    assert!(has_bar("cutlass_gemm") && has_bar("cutlass_gemm #2"));
    assert!(!has_bar("cutlass_gemm #x") && !has_bar("layer #2") && !has_bar("other #2"));
}

#[test]
fn outliers_that_come_regularly_are_said_to() {
    let said = |numbers: &[u64]| {
        let mut series = full("").step_series[0].clone();
        let first = series.outliers[0];
        series.outliers = numbers.iter().map(|at| Step { number: *at, ..first }).collect();
        chart::latency("", &series, None, "x").contains("The slow calls recur every 63 ")
    };
    assert!(said(&[0, 190, 316, 379, 442, 505, 568, 631]), "the cold one does not count");
    assert!(!said(&[190, 316, 379, 442]), "too few");
    assert!(!said(&[190, 316, 379, 442, 505, 569]));
}

#[test]
fn long_slow_stretches_are_told_at_the_chart_and_with_the_stages() {
    let report = full("");
    let said = "alls 128 to 195 are slow: they take 4.40 ms on average";
    let page = parse(&written(&report)).by_id("stage-1").text();
    assert!(page.contains(&format!("C{said}")), "{page}");
    assert!(report_page::page(&report).markdown().contains(&format!("In `decode`, c{said}")));
}

#[test]
fn a_cold_step_does_not_flatten_the_warm_ones() {
    let picture_of = |cold_ns, cold_steps| {
        let bucket = |first: u64| {
            let ns = if first < cold_steps { cold_ns } else { 10_000_000 + first };
            StepBucket { first, steps: 1, min_ns: ns, mean_ns: ns, max_ns: ns }
        };
        let buckets = (0..9).map(bucket).collect();
        let series = StepSeries {
            buckets,
            cold_steps,
            outliers: Vec::new(),
            ..full("").step_series[0].clone()
        };
        chart::latency("", &series, None, "x")
    };
    let of_call = picture_of(165_000_000, 3);
    let beyond = "Not in the picture, which ends at 10.80 ms: 3 calls of the first, cold call.";
    assert!(of_call.contains("; longest 10.00 ms.") && of_call.contains(beyond), "{of_call}");
    let picture = |cold_ns| picture_of(cold_ns, 1);
    let far = picture(165_000_000);
    assert!(far.contains("cold: 165.00 ms</text>"), "{far}");
    assert!(far.contains("ends at 10.80 ms: the first, cold call."), "{far}");
    let near = picture(15_000_000);
    assert!(!near.contains("cold: ") && !near.contains("Not in the picture"), "{near}");
    assert!(near.contains("; longest 10.00 ms."), "{near}");
}

#[test]
fn a_kernel_on_two_gpus_is_one_row_and_loses_what_one_gpu_does() {
    let mut report = full("");
    let other = |row: &KernelRow| KernelRow { device: "1 GPU".into(), ..row.clone() };
    let more: Vec<KernelRow> = report.kernels.iter().map(other).collect();
    report.kernels.extend(more);
    report.devices = vec![DeviceRow::default(), DeviceRow::default()];
    report.stages.iter_mut().for_each(|stage| stage.instances = Some(400));
    for (rank, file) in ["node-1-1.s2t", "node-1-2.s2t"].into_iter().enumerate() {
        report.ranks.stages.push(RankStageRow {
            stage: "decode".into(),
            who: format!("rank {rank}"),
            file: file.into(),
            instances: 200,
            ..RankStageRow::default()
        });
    }
    let cells = |report: &Report| {
        let page = parse(&written(report));
        let rows = page.by_id("kernels").one("tbody").all("tr");
        assert_eq!(rows.len(), 8);
        let cells: Vec<String> = rows[0].all("td").iter().map(Element::text).collect();
        (cells, page.text().contains("Each kernel runs on all GPUs."))
    };
    let (found, is_said) = cells(&report);
    assert_eq!(
        (&found[5..7], is_said),
        (&["7.200".into(), "12.000".into()][..], true),
        "{found:?}"
    );
    assert_eq!(found.len(), 10, "what is the same in each row is said once");
    // The last one ran on one of them.
    report.kernels.pop();
    let (found, is_said) = cells(&report);
    assert_eq!((found[10].as_str(), is_said), ("2 GPUs", false));
}

#[test]
fn what_to_do_stands_whole_above_the_pictures() {
    let mut report = full("");
    let takeaway = |number: usize| Takeaway {
        rule: Rule::LaunchBound,
        stage: Some(format!("stage {number}")),
        text: format!("fact {number} of the run"),
        ..Takeaway::default()
    };
    report.insight.takeaways = (0..9).map(takeaway).collect();
    report.findings = (0..9)
        .map(|n| Id::RecordsDropped.found(format!("fault {n}"), "a reason", "a remedy"))
        .collect();
    let page = parse(&written(&report));
    let text = page.text();
    for number in 0..9 {
        assert!(page.by_id("takeaways").text().contains(&format!("fact {number} of the run")));
        assert!(page.by_id("findings").text().contains(&format!("fault {number}")));
        let again = if number == 0 { String::new() } else { format!("-{}", number + 1) };
        let place = page.by_id(&format!("finding-records.dropped{again}"));
        assert!(place.text().contains(&format!("fault {number}")));
    }
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(place("fact 8 of the run") < place("Where the window goes"));
    assert!(place("fault 8") < place("Where the window goes"));
    let rows = |count| {
        let rows: String = (0..count).map(|n| format!("| {n} | do |\n")).collect();
        let table = markdown::html(&format!("| # | what |\n| --- | --- |\n{rows}\nNote.\n"));
        first_rows(&table, ADVISED, ADVICE)
    };
    assert!(!rows(5).contains("<details"));
    let (shown, more) = rows(7)
        .split_once("<details class=\"rest\">")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .expect("two");
    assert_eq!((shown.matches("do</td>").count(), more.matches("do</td>").count()), (5, 2));
    assert!(
        more.contains("2 more recommendations") && more.ends_with("</details>\n<p>Note.</p>\n"),
        "{more}"
    );
    let lines = page.one("header").all("div");
    let warned = lines.iter().find(|line| line.text().starts_with("warnings")).expect("a line");
    assert_eq!(warned.one("a").attribute("href").as_deref(), Some("#findings"));
    let ids: Vec<String> = page.all("section").iter().filter_map(|s| s.attribute("id")).collect();
    assert!(ids.iter().any(|id| id == "findings"), "{ids:?}");
}

#[test]
fn what_is_secondary_is_folded_with_its_number() {
    let rows = |parts: usize, more: usize| {
        let row = |part| format!("<tr>\n<td{part}>x</td></tr>\n");
        let rows =
            [row("").repeat(2), row(" class=\"part-of\"").repeat(parts), row("").repeat(more)];
        let table = format!(
            "<p>Idle</p><div class=\"table\"><table><tbody>\n{}</tbody></table></div>\n",
            rows.concat()
        );
        let html = first_rows(&table, 2, "more cause");
        let (shown, folded) = html.split_once("<details class=\"rest\">").unwrap_or((&html, ""));
        let count = |html: &str| html.matches("<tr>").count();
        (
            count(shown),
            count(folded),
            folded.contains(&format!("{more} more causes")),
            html.matches("Idle").count(),
        )
    };
    assert_eq!(rows(0, 3), (2, 3, true, 1));
    assert_eq!(rows(2, 3), (4, 3, true, 1), "the parts of a row stay below it");
    assert_eq!(rows(0, 1), (3, 0, false, 1), "one row needs no click");
    let page = parse(&written(&full("")));
    let summaries: Vec<String> = page.all("summary").iter().map(Element::text).collect();
    let is_there = |text: &str| summaries.iter().any(|summary| summary.starts_with(text));
    assert!(is_there("Stage prefill") && !is_there("Stage decode"), "{summaries:?}");
    assert!(is_there("Kernel time by class: gemm 57.1 %, attention 28.6 %, "), "{summaries:?}");
}

#[test]
fn the_head_answers_for_a_late_rank() {
    let mut report = full("");
    report.answer.lines.push(AnswerLine { label: "verdict".into(), text: "slow".into() });
    report.answer.lines.push(AnswerLine {
        label: "late rank".into(),
        text: "rank 0 is late ...; meanwhile, rank 1 waits".into(),
    });
    report.answer.lines.push(AnswerLine { label: "outliers".into(), text: "two".into() });
    let mean = Bottleneck { of: "step".into(), ns: 10_000, ..Bottleneck::default() };
    let parts = vec![BottleneckPart { kind: BottleneckKind::Ranks, ns: 9_000 }];
    report.answer.stages[0].bottleneck = Some(Bottleneck { parts, ..mean });
    let row = LateHostRow {
        frame: Some(HostFrame { function: "slow".into(), file: "a.py".into(), line: 3 }),
        kind: HostCauseKind::UserCode,
        late_ns: 900_000,
        error_ns: 100_000,
        samples: 40,
        ..LateHostRow::default()
    };
    let steps = LateSteps { late: 9, of: 9, median_ns: 2_000_000, ..LateSteps::default() };
    let steps = Some(LateSteps { noun: "step".into(), ..steps });
    let host = LateHost { other_ranks: true, rows: vec![row], ..LateHost::default() };
    report.ranks.late = vec![LateRow {
        who: "rank 0".into(),
        stage: "decode".into(),
        delays: Some(LateDelays { total_ns: 18_000_000, steps, ..LateDelays::default() }),
        host: Some(host),
        ..LateRow::default()
    }];
    // The summary has the same lines.
    let in_full = summary::page(&report, &Shown::default()).markdown();
    assert!(
        in_full.contains("- **Why late:** Rank 0's host spends 0.90 ± 0.10 ms more per step"),
        "{in_full}"
    );
    let page = parse(&written(&report));
    assert!(page.one("header").text().contains("\u{b1}: standard error of the samples"));
    let short = page.one("header").all("dl")[0].all("div");
    let labels: Vec<String> = short.iter().map(|line| line.one("dt").text()).collect();
    let expected =
        ["first", "late rank", "why late", "host code", "kernel", "time", "outliers", "coverage"];
    assert_eq!(labels, expected);
    assert_eq!(
        short[1].one("dd").text(),
        "rank 0 in 9 of 9 steps, by 2.00 ms (median), on the host; meanwhile, rank 1 waits."
    );
    let late = short[2].one("dd");
    let said = "Rank 0's host spends 0.90 ± 0.10 ms more per step \
                than the others in slow (a.py:3). Samples do not explain the other 1.10 ms: record for longer, or with \
                profiling.collector.host=1000. Host code of the late steps";
    assert_eq!(late.text(), said);
    let to = late.one("a").attribute("href").expect("a link");
    assert!(page.by_id(&to[1..]).text().contains("slow (a.py:3)"));
}

#[test]
fn a_long_command_is_cut_in_its_middle_and_whole_as_a_hint() {
    let mut report = full("");
    let words = |number: usize| (0..number).map(|n| format!("--option-{n:03}")).collect::<Vec<_>>();
    report.run.command = Some([vec!["serve".to_owned()], words(60)].concat());
    let page = parse(&written(&report));
    let code = page.one("header").one("code");
    let shown = code.text();
    assert!(
        shown.starts_with("serve --option-000 ") && shown.ends_with(" --option-059"),
        "{shown}"
    );
    assert!(shown.contains(" … "), "{shown}");
    let whole = code.attribute("title").expect("the whole command");
    assert_eq!(whole.split(' ').count(), 61, "{whole}");
    report.run.command = Some(words(2));
    let page = parse(&written(&report));
    let code = page.one("header").one("code");
    assert_eq!(
        (code.text().as_str(), code.attribute("title")),
        ("--option-000 --option-001", None)
    );
}

#[test]
fn the_first_of_the_top_kernels_is_that_of_the_line() {
    let mut report = full("");
    report.kernels.iter_mut().for_each(|row| row.counters = None);
    // What reads neither weights nor cache loses most, and the longest kernel is a product.
    report.kernels[2].times.total_ns = 5_800_000;
    let floor = &mut report.answer.stages[0].floor;
    (floor.memory_ns, floor.kv_cache_ns) = (Figure::of(13_000.0), Some(1_000.0));
    floor.floor_ns = Figure::of(13_000.0);
    let page = parse(&written(&report));
    let lines = page.one("header").all("div");
    let line = lines.iter().find(|line| line.text().starts_with("kernel")).expect("the line");
    assert!(line.text().contains("the longest of them is rms_norm"), "{}", line.text());
    let names = page.by_id("top-kernels").one("tbody").all("code");
    let names: Vec<String> = names.iter().map(Element::text).collect();
    assert_eq!(names[..2], ["rms_norm", "cutlass_gemm"]);
    let note = page.by_id("top-kernels").text();
    assert!(note.contains("the first one of those that could gain most"), "{note}");
}

#[test]
fn the_ranks_say_who_is_late_and_who_waits() {
    let mut report = full("");
    let row = |rank: u64, waiting_ns, busy_ns| RankStageRow {
        stage: "decode".into(),
        who: format!("rank {rank}"),
        file: format!("{rank}.s2t"),
        rank: Some(rank),
        host_warm_median_ns: Some(1_000_000),
        // The cold instance has most of it.
        waiting_ns: Some(waiting_ns + 500_000_000),
        transfer_ns: Some(80_000),
        warm_waiting_ns: Some(waiting_ns),
        warm_transfer_ns: Some(50_000),
        gpu_busy_ns: Some(busy_ns + 500_000_000),
        warm_idle: Some(WarmIdle { busy_ns: Some(busy_ns), ..WarmIdle::default() }),
        ..RankStageRow::default()
    };
    report.ranks.stages = vec![row(1, 100_000, 4_000_000), row(0, 7_000_000, 9_000_000)];
    let late = LateRow {
        stage: "decode".into(),
        file: "1.s2t".into(),
        collectives: 96,
        late_total_ns: 7_000_000,
        ..LateRow::default()
    };
    let noun = "step".to_owned();
    let (median_ns, max_ns) = (300_000, 400_000);
    let steps =
        Some(LateSteps { noun, late: 20, of: 64, median_ns, max_ns, ..LateSteps::default() });
    let delays = LateDelays { collectives: 24, steps, ..LateDelays::default() };
    report.ranks.late = vec![late.clone()];
    let is_first = |report: &Report| {
        let text = parse(&written(report)).text();
        text.find("What the columns are") < text.find("Kernels of decode that")
    };
    assert!(!is_first(&report), "what is noise is not the first thing to read");
    assert!(!written(&report).contains("\"n heat-"), "nor is it dark");
    report.ranks.late = vec![LateRow { delays: Some(delays), ..late }];
    assert!(is_first(&report));
    let verdict = AnswerLine { label: "verdict".into(), text: "rank 1 is late".into() };
    report
        .answer
        .lines
        .extend([AnswerLine { label: "late rank".into(), ..verdict.clone() }, verdict]);
    let page = parse(&written(&report));
    let terms = page.one("header").all("dt");
    let labels: Vec<String> = terms.iter().take(2).map(Element::text).collect();
    assert_eq!(labels, ["first", "late rank"], "behind the verdict");
    assert_eq!(terms[1].one("a").attribute("href").as_deref(), Some("#by-rank"));
    let rows: Vec<_> = page.by_id("by-rank").one("tbody").all("tr");
    let cells = |at: usize| -> Vec<(String, String)> {
        let cells = rows[at].all("td");
        let class = |cell: &Element| cell.attribute("class").unwrap_or_default();
        cells.iter().map(|cell| (cell.text(), class(cell))).collect()
    };
    assert_eq!(rows[0].one("th").text(), "rank 0");
    let texts = |at| cells(at).into_iter().map(|(text, _)| text).collect::<Vec<_>>().join("|");
    assert_eq!(texts(0), "decode|–|–|–|–|–|7.000|0.050|9.000");
    assert_eq!(texts(1), "decode|20 of 64 steps|host|0.300|0.400|7.000|0.100|0.050|4.000");
    assert_eq!((cells(1)[5].1.as_str(), cells(1)[6].1.as_str()), ("n heat-8", "n heat-0"));
    assert!(!page.by_id("by-rank").text().contains("1.000"), "host times say nothing here");
}

#[test]
fn the_picture_of_an_engine_has_the_times_until_the_next_step() {
    let times = StepTimes { unit: StepUnit::OfEngine, p50_ns: 900_000, ..StepTimes::default() };
    let picture = |until_next| {
        let series = StepSeries { until_next, ..full("").step_series[0].clone() };
        chart::latency("", &series, Some(&times), "x")
    };
    let until_next = picture(true);
    assert!(until_next.contains("</code> until the next one begins, in"), "{until_next}");
    assert!(until_next.contains(", p50 0.90 ms") && until_next.contains("<th>Time (ms)</th>"));
    let range_alone = picture(false);
    let without = !range_alone.contains("p50") && range_alone.contains("<th>Host time (ms)</th>");
    assert!(without, "percentiles are of other times: {range_alone}");
}

#[test]
fn counters_of_another_pass_are_not_those_of_the_step_in_the_timeline() {
    let curve = SampledCurve { points: vec![SampledPoint::default()], ..SampledCurve::default() };
    let steps = SampledSteps { median: Some(curve), ..SampledSteps::default() };
    let stage =
        SampledStage { stage: "decode".into(), steps: Some(steps), ..SampledStage::default() };
    let of = |own_run| {
        let sampled =
            SampledCounters { own_run, stages: vec![stage.clone()], ..Default::default() };
        chart::sampled(&Report { sampled: Some(sampled), ..full("") }, "decode", "x")
    };
    for words in ["of the counters pass</h3>", "is a separate run"] {
        assert!(of(true).contains(words) && !of(false).contains(words), "{words}: {}", of(true));
    }
}

#[test]
fn a_late_rank_and_a_waiting_one_stand_on_one_scale() {
    let mut report = full("");
    let [mut waiting, late] = [1, 0].map(|at| report.step_timelines.remove(at));
    // It begins earlier, and waits for 8 us of its first work.
    waiting.start_ns -= 1_000_000;
    waiting.lanes[0].work[0].waiting_ns = 8_000;
    report.step_timelines = vec![waiting, late];
    let page = parse(&written(&report));
    let ranks: Vec<_> = page.by_id("stage-1").of_class("rank");
    let heads: Vec<String> = ranks.iter().map(|rank| rank.one("h4").text()).collect();
    assert_eq!(heads, ["rank 1 (late)", "rank 0 (waits)"]);
    let lengths = ["stage-1-timeline", "stage-1-timeline-2"].map(|id| page.by_id(id));
    let lengths = lengths.map(|found| attribute(&found, "data-length"));
    assert_eq!(lengths, [2e6, 2e6]);
    let first = |at: usize| {
        let rects = ranks[at].of_class("lane")[0].all("rect");
        let rect = |n: usize| {
            let class = rects[n].attribute("class").unwrap_or_default();
            let ns = |name| (attribute(&rects[n], name) / 100.0 * 2e6).round() as u64;
            (class, ns("x"), ns("width"))
        };
        [rect(0), rect(1)]
    };
    assert_eq!(first(0)[0], ("k-gemm".to_owned(), 1_010_000, 9_123));
    let [waits, works] = first(1);
    assert_eq!(waits, ("w-waiting".to_owned(), 10_000, 8_000));
    assert_eq!(works, ("k-gemm".to_owned(), 18_000, 1_123));
    assert!(ranks[1].text().contains("waiting in collectives 8.0 us"));
}

#[test]
fn a_stage_without_gpu_work_has_no_empty_pictures() {
    let mut report = full("");
    report.kernels.retain(|row| row.stage == "decode");
    let page = parse(&written(&report));
    let text = page.by_id("stage-2").text();
    assert!(text.contains("No GPU work belongs to this stage itself"), "{text}");
    for empty in ["Roofline", "Timeline", "Where the window goes", "Kernel time by class"] {
        assert!(!text.contains(empty), "{empty}: {text}");
    }
    report.step_timelines[0].lanes.clear();
    let page = parse(&written(&report));
    let text = page.by_id("stage-1").text();
    assert!(text.contains("no GPU work of this step was recorded"), "{text}");
}

#[test]
fn points_have_names_and_the_roof_of_the_model_stands_out() {
    let mut report = full("");
    let texts = |report: &Report, class: &str| -> Vec<String> {
        let page = parse(&written(report));
        page.by_id("stage-1-roofline").of_class(class).iter().map(Element::text).collect()
    };
    assert_eq!(texts(&report, "number"), ["1", "2"]);
    let listed = texts(&report, "points").concat();
    assert!(
        listed.contains("1cutlass_gemm40.0") && listed.contains("2flash_attention"),
        "{listed}"
    );
    assert!(texts(&report, "counts").is_empty(), "no precision is known");
    let mut used = crate::summary::tests::utilisation("");
    used.numbers.precision = Some(Precision::Bf16);
    report.insight.utilisation = Some(used);
    assert_eq!(texts(&report, "counts"), ["FP16, BF16"]);
    let page = parse(&written(&report));
    let said = page.by_id("stage-1").text();
    assert!(said.contains("The thick line is the roof of this model: FP16, BF16."), "{said}");
}

#[test]
fn the_legend_is_of_the_whole_step_and_not_of_what_is_drawn() {
    let page = parse(&written(&full("")));
    let legend = &page.by_id("stage-1").of_class("legend")[0];
    let entries: Vec<String> = legend.all("li").iter().map(|entry| entry.text()).collect();
    let gaps = ["launch gaps 25.0 us", "other idle 10.0 us"];
    let work = ["gemm 0.41 ms", "copy 0.15 ms", "fill 0.9 us"];
    let samples = [
        "host: function with most samples",
        "function with second most",
        "third most",
        "other functions",
    ];
    assert_eq!(entries, [&work[..], &gaps, &samples].concat());
    let marks: Vec<_> =
        legend.all("rect").iter().filter_map(|rect| rect.attribute("class")).collect();
    assert_eq!(marks[1..3], ["k-copy", "k-fill"], "copies and fills look different");
}

#[test]
fn numbers_say_what_they_are_of_and_two_points_are_no_picture() {
    let mut report = full("");
    let text = |report: &Report| parse(&written(report)).by_id("stage-1").text();
    let said = text(&report);
    let tiles = "0.50 msper token: p50 of 199 warm calls in one process|0.60 msper token, p99|1.250times its|\
                 3.2xbaseline vs. floor|Timeline of the median step";
    tiles.split('|').for_each(|tile| assert!(said.contains(tile), "{tile}: {said}"));
    let series = &mut report.step_series[0];
    series.buckets.truncate(2);
    series.buckets.iter_mut().for_each(|bucket| bucket.steps = 1);
    series.buckets[1].first = 1;
    series.outliers.clear();
    let said = text(&report);
    assert!(said.contains("No picture of 2 calls: "), "{said}");
}

#[test]
fn the_timeline_of_a_step_of_an_engine_has_what_it_takes_after_its_range() {
    let said = |range_ns, lasts_ns| {
        let mut report = full("");
        report.step_timelines.truncate(1);
        let step = &mut report.step_timelines[0];
        (step.step.host_ns, step.lasts_ns) = (range_ns, lasts_ns);
        let page = parse(&written(&report)).by_id("stage-1").text();
        let part = |from: &str| page.contains(from);
        (part("between steps"), part("1.00 ms long until the next one"), page.clone())
    };
    let (drawn, until, page) = said(800_000, Some(1_000_000));
    assert!(drawn && until, "{page}");
    let (drawn, until, page) = said(800_000, None);
    assert!(!drawn && !until, "{page}");
    let (drawn, until, page) = said(600_000, Some(900_000));
    let long = "1.00 ms long to the end of its GPU work; the next one begins after 0.90 ms: ";
    assert!(drawn && !until && page.contains(long), "{page}");
}

#[test]
fn nothing_gets_out_of_any_context() {
    let plain = parse(&written(&full("")));
    for hostile in [
        "</script><script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onload='alert(1)",
        "</title></style></svg></desc><!--",
        "]]>&lt;b&gt;{{x}}",
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd}",
    ] {
        let page = parse(&written(&full(hostile)));
        let (shape, expected) = (page.shape(), plain.shape());
        assert_eq!(shape, expected, "{hostile}: the same elements, with the same attributes");
        let text = page.text();
        assert!(text.contains(&format!("rms_norm{hostile}")), "{hostile} is shown as it is");
    }
}

#[test]
fn a_huge_report_makes_a_page_of_bounded_size() {
    let mut report = full("");
    let long = |i: usize| format!("{i}{}", "x".repeat(3_000));
    let template = report.kernels[0].clone();
    report.kernels = (0..20_000)
        .map(|i| KernelRow {
            name_index: i,
            kernel: long(i),
            stage: format!("s{}", i % 40),
            ..template.clone()
        })
        .collect();
    report.kernel_names = (0..20_000)
        .map(|i| KernelName { demangled: long(i), short: long(i), ..KernelName::default() })
        .collect();
    let template = report.answer.stages[0].clone();
    let stages = || (0..40).map(|i| format!("s{i}"));
    report.answer.stages =
        stages().map(|stage| StageAnswer { stage, ..template.clone() }).collect();
    let mut timeline = report.step_timelines[0].clone();
    timeline.names = (0..4_000).map(long).collect();
    let work = timeline.lanes[0].work[0].clone();
    timeline.lanes[0].work = (0..4_000)
        .map(|i| TimelineWork { name: i, start_ns: i as u64 * 249, ..work.clone() })
        .collect();
    let gap = timeline.gaps[0];
    timeline.gaps = (0..4_000).map(|i| TimelineGap { start_ns: i * 249, ..gap }).collect();
    let range = timeline.ranges[1];
    timeline.ranges = (0..1_000).map(|i| TimelineRange { name: i, ..range }).collect();
    report.step_timelines =
        stages().take(4).map(|stage| StepTimeline { stage, ..timeline.clone() }).collect();
    let bytes = written(&report).len();
    assert!(bytes < 6 << 20, "{bytes} bytes");
}

/// The line below names what holds the GIL.
#[test]
fn what_to_do_first_names_the_gil_without_its_holder() {
    let of = "cut the extra host time of rank 0: waiting for the GIL";
    let rest = " and f (a.py:3) (saves up to 2 ms); not sure";
    let short = crate::facts::without_holder(&format!("{of} (held by g and h){rest}"));
    assert_eq!(short, Some(format!("{of}{rest}")));
    assert_eq!(crate::facts::without_holder(&format!("{of}{rest}")), None);
}
