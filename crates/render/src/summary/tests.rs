//! The page with everything, with nothing, and with what tries to break out of it.

use proptest::prelude::*;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag};

use super::*;
use crate::golden::compare;
use crate::testing::{answer, rich};
use stage2_contract::text::visible;
use stage2_model::finding::Id;
use stage2_model::*;
use stage2_report::operators::stage1::{MeanStd, Stage1Aggregates};

const SECTIONS: [&str; 10] = [
    "Recommendations",
    "Per-Stage Timings",
    "Limits",
    "Takeaways",
    "MFU",
    "Aggregates",
    "Environment",
    "Top Kernels",
    "Top Operators",
    "Cost of the passes",
];

fn summary_md(report: &Report, shown: &Shown) -> String {
    page(report, shown).with_missing_last()
}

/// `hostile` stands wherever foreign text can stand. A report holds visible text only.
fn full(hostile: &str) -> Report {
    let hostile = &visible(hostile.as_bytes());
    let fact = |key: &str, value: &str| Fact { key: key.into(), value: value.into() };
    let stage = |stage: &str, busy, busy_percent| StageRow {
        stage: stage.into(),
        instances: Some(3),
        host_warm_mean_ns: Some(98_336_000),
        host_warm_std_ns: Some(1_500_000),
        host_warm_median_ns: Some(98_000_000),
        host_first_ns: Some(749_102_000),
        gpu_busy_ns: busy,
        gpu_busy_percent: busy_percent,
        kernels: Some(19_980),
        ..StageRow::default()
    };
    let takeaway = |text: String, stage: Option<&str>| Takeaway {
        rule: Rule::GpuIdle,
        stage: stage.map(str::to_owned),
        text,
        recommendation: stage.map(|stage| format!("Replay {stage} as a CUDA graph")),
        concerns_percent: stage.map(|_| 74.7),
        ..Takeaway::default()
    };
    let mean_ns = Some(11_095);
    let times = Times { total_ns: 61_600_000, calls: 5_552, mean_ns, ..Times::default() };
    Report {
        run: RunInfo {
            name: format!("20261120-193500-1{hostile}"),
            environment: vec![fact("driver", "580.159"), fact("host", &format!("node-1{hostile}"))],
            workload_end: Some(WorkloadEnd {
                how: EndedBy::Failure,
                exit: None,
                text: format!("the workload failed: exit status 3{hostile}"),
                likely_cause: None,
                log: None,
            }),
            ..RunInfo::default()
        },
        source: "collector".into(),
        simulated: true,
        coverage: Coverage {
            verdict: Verdict {
                status: Status::Partial,
                text: format!("27 kernels of 2 processes, 12 records dropped{hostile}"),
            },
            ..Coverage::default()
        },
        stages: vec![
            stage("prefill", Some(65_691_733), Some(66.8)),
            stage("decode", Some(179_072_697), Some(25.3)),
            stage(&format!("vision{hostile}"), Some(25_000_000), None),
        ],
        paths: vec![
            PathRow { path: "prefill".into(), name: "prefill".into(), ..PathRow::default() },
            PathRow {
                path: "prefill/sam".into(),
                name: "sam".into(),
                parent: Some(0),
                instances: Some(3),
                host_total_ns: Some(75_000_000),
                kernel_sum_inclusive_ns: Some(25_000_000),
                kernels_inclusive: Some(600),
                ..PathRow::default()
            },
        ],
        costs: PassCosts {
            stages: vec![StageCost {
                pass: "collect".into(),
                stage: format!("decode{hostile}"),
                instances: Some(3),
                host_total_ns: Some(1_179_072_697),
                host_warm_median_ns: Some(98_000_000),
                ratio: Some(1.0125),
                ..StageCost::default()
            }],
            passes: vec![PassDuration {
                pass: format!("ncu{hostile}"),
                duration_ms: Some(35_728),
                ratio: None,
            }],
            ..PassCosts::default()
        },
        kernels: vec![KernelRow {
            kernel: format!("gemvx::kernel<4>{hostile}"),
            device: "0 NVIDIA H200".into(),
            class: "gemm".into(),
            times,
            counters: Some(Box::new(CounterRow {
                achieved_occupancy_percent: Some(48.25),
                roofline: Roofline {
                    attainable_share: Some(0.715),
                    bound: Some(Bound::Memory),
                    ..Roofline::default()
                },
                ..CounterRow::default()
            })),
            ..KernelRow::default()
        }],
        insight: Insight {
            operators: Some(Operators {
                source: "NVTX ranges of operators".into(),
                rows: vec![OperatorRow {
                    op_name: format!("aten::linear{hostile}"),
                    host_total_ns: Some(1_030_125_000),
                    gpu_inclusive_ns: Some(700_000_000),
                    calls: 1_024,
                    host_mean_ns: Some(1_005_981),
                    ..OperatorRow::default()
                }],
                ..Operators::default()
            }),
            utilisation: Some(utilisation(hostile)),
            takeaways: vec![
                takeaway(
                    "Decode waits for the host: the GPU is idle 74.7 % of the time".into(),
                    Some("decode"),
                ),
                takeaway(format!("{hostile}One kernel takes a third of the GPU's time."), None),
            ],
            ..Insight::default()
        },
        findings: vec![Id::RecordsDropped.found(
            "12 records were dropped",
            hostile,
            "larger buffers",
        )],
        ..Report::default()
    }
}

pub(crate) fn utilisation(hostile: &str) -> ModelUse {
    let none = || Figure::Absent(Absent::NotMeasured);
    let decode = StageUtilisation {
        stage: format!("decode{hostile}"),
        within: None,
        role: Role::Decode,
        basis: "mean of 2 warm calls".into(),
        flops: Figure::of(1.234e13),
        measured_flops: none(),
        measured_percent: Some(40.0),
        one_launch_percent: None,
        mfu_wall: Figure::of(0.000211),
        mfu_busy: none(),
        measured_mfu_busy: none(),
        bytes: none(),
        kv_cache_bytes: None,
        mbu_wall: Figure::of(1.25),
        mbu_busy: none(),
        tokens: Figure::of(64.0),
        tokens_per_s: Figure::of(650.8),
        gpu_us_per_token: none(),
        kernels_per_token: none(),
        sampled: None,
    };
    ModelUse {
        model_name: Some(format!("llama{hostile}")),
        absent: None,
        tokens: TokenCounts::default(),
        needs: Needs::default(),
        peaks: None,
        numbers: Utilisation {
            stages: vec![decode],
            model: ModelUtilisation {
                flops: Figure::of(1.234e13),
                wall_s: Figure::of(0.098336),
                busy_s: none(),
                mfu_wall: Figure::of(0.00262),
                mfu_busy: none(),
                generated_tokens: none(),
                generated_tokens_per_s: Figure::of(650.8),
            },
            precision: None,
            peak_source: Some(format!("{hostile}data sheet")),
            assumptions: vec![format!("{hostile}FLOPs: 2 for each weight and token")],
            findings: Vec::new(),
        },
    }
}

/// Means of a Stage 1 run.
fn shown() -> Shown {
    let tokens_per_s = Some(MeanStd { mean: 90.5, std: Some(0.125) });
    let stage1 = Stage1Aggregates { tokens_per_s, ..Stage1Aggregates::default() };
    Shown { stage1: Some(stage1), ..Shown::default() }
}

/// The headings of the second level, and the number of tables, as a Markdown parser sees them.
fn structure(page: &str) -> (Vec<String>, usize) {
    let (mut headings, mut tables, mut inside) = (Vec::new(), 0, false);
    for event in Parser::new_ext(page, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { level: HeadingLevel::H2, .. }) => {
                inside = true;
                headings.push(String::new());
            }
            Event::End(_) => inside = false,
            Event::Start(Tag::Table(_)) => tables += 1,
            Event::Text(text) | Event::Code(text) if inside => {
                headings.iter_mut().last().into_iter().for_each(|h| h.push_str(&text));
            }
            Event::Html(html) | Event::InlineHtml(html) => panic!("HTML: {html}"),
            _ => {}
        }
    }
    (headings, tables)
}

#[test]
fn a_full_page() {
    let page = summary_md(&full(""), &shown());
    compare("stakeholder_summary.md", &page);
    assert_eq!(structure(&page), (SECTIONS.map(str::to_owned).to_vec(), 7));
    let first_screen: Vec<&str> = page.lines().take(11).collect();
    assert!(first_screen.iter().any(|line| line.contains("SIMULATED")));
    assert!(first_screen.iter().any(|line| line.starts_with("- **Coverage:** 27 kernels")));
}

#[test]
fn a_page_without_any_data_names_every_section_and_says_why() {
    let mut report = Report::default();
    report.run.name = "empty".into();
    report.coverage.verdict.text = "EMPTY".into();
    let page = summary_md(&report, &Shown::default());
    compare("stakeholder_empty.md", &page);
    let headings = ["Limits", "Not in this run"].map(str::to_owned).to_vec();
    assert_eq!(structure(&page), (headings, 0));
    let (_, missing) = page.split_once("## Not in this run\n\n").expect(&page);
    let lines: Vec<&str> = missing.trim_end().lines().collect();
    let without_limits = SECTIONS.iter().filter(|of| **of != "Limits");
    let mut both = without_limits.clone().zip(&lines);
    assert!(both.all(|(of, at)| at.starts_with(&format!("- **{of}:** "))), "{page}");
    assert_eq!(lines.len(), without_limits.count());
    report.insight.operators = Some(Operators::default());
    let page = summary_md(&report, &Shown::default());
    assert!(page.contains("- **Top Operators:** none was found in what was recorded."), "{page}");
}

#[test]
fn a_page_without_aggregates_says_what_they_lack() {
    let stage = StageRow {
        stage: "decode".into(),
        instances: Some(1_653),
        host_warm_instances: Some(1_651),
        gpu_window_ns: Some(407_256_713),
        gpu_busy_percent: Some(56.4),
        ..StageRow::default()
    };
    let sampled = StageRow { recorded_instances: Some(103), ..stage.clone() };
    let shared = StageRow { gpu_busy_percent: None, ..stage.clone() };
    let unknown = StageRow { gpu_window_ns: None, ..shared.clone() };
    let cold = StageRow { instances: Some(1), host_warm_instances: Some(0), ..stage };
    for (stage, why) in [
        (sampled, "only some calls of the stages were recorded"),
        (shared, "several processes share the GPU of a stage"),
        (unknown, "the GPU's time in the windows of the warm calls is not known"),
        (cold, "no stage has a call after the first, cold one"),
    ] {
        let report = Report { stages: vec![stage], ..Report::default() };
        let page = summary_md(&report, &Shown::default());
        assert!(page.contains(&format!("- **Aggregates:** {why}. To do: ")), "{page}");
    }
}

#[test]
fn the_answer_comes_first_and_replaces_the_sentences() {
    let report = Report { answer: answer(), ..full("") };
    let page = summary_md(&report, &shown());
    let screen = page.lines().filter_map(|line| line.strip_prefix("- ").or(Some(line)));
    let screen: Vec<&str> = screen.filter(|line| line.starts_with("**")).take(7).collect();
    let labels: Vec<&str> = screen.iter().filter_map(|line| line.split(':').next()).collect();
    let expected = ["Ended early", "Time", "Window", "Floor", "First", "Warnings", "Coverage"];
    let expected = expected.map(|label| format!("**{label}"));
    assert_eq!(labels, expected, "{page}");
    assert!(!page.contains("To do first:"), "the sentences are for reports without an answer");
    let row = "| `decode` | `decode/step` | 2.150 | 2.310 | 2.160 | 0.041 |";
    assert!(page.contains(row), "{page}");
    assert!(!page.contains("| Stage | Compute (%)"), "report.md has it");
}

#[test]
fn a_recommendation_gains_what_the_answer_says() {
    let mut report = Report { answer: answer(), ..full("") };
    report.insight.takeaways[0].rule = Rule::LaunchBound;
    let page = summary_md(&report, &shown());
    // The words are the answer's, too.
    let gain = "In decode, launch less often: CUDA graphs. Gain: up to 4.9x faster if launch gaps vanish: \
                launch gaps 79.6 % of the window.";
    assert!(page.contains(gain), "{page}");
    report.answer = Answer::default();
    let page = summary_md(&report, &shown());
    assert!(
        page.contains("Gain: not known; it affects 74.7 % of the time of all stages."),
        "{page}"
    );
    // What is saved at best is less than what is concerned.
    let saved = |at_best_percent, grows| {
        let mut report = report.clone();
        let metric = if grows { "tokens_per_s" } else { "step_ms" }.to_owned();
        let change = Experiment::Change {
            metric,
            at_best_percent: Some(at_best_percent),
            error_percent: None,
            grows,
        };
        report.insight.takeaways[0].experiment = Some(change);
        summary_md(&report, &shown())
    };
    let mut several = report.clone();
    for takeaway in &mut several.insight.takeaways {
        let metric = "step_ms".to_owned();
        let change = Experiment::Change {
            metric,
            at_best_percent: Some(-8.0),
            error_percent: None,
            grows: false,
        };
        takeaway.recommendation = Some(format!("{}: change it", takeaway.text));
        takeaway.experiment = Some(change);
    }
    let overlap = "Gains overlap, so do not add them up.";
    assert!(crate::advice::recommendations(&several).contains(overlap));
    several.insight.takeaways.truncate(1);
    assert!(!crate::advice::recommendations(&several).contains(overlap));
    for (page, gain) in [
        (saved(-8.0, false), "Gain: saves up to 8.0 % of its window."),
        (saved(100.0, true), "Gain: up to 2.0x the tokens/s if a larger step takes no longer."),
    ] {
        assert!(page.contains(gain), "{page}");
    }
}

#[test]
fn a_recommendation_gains_what_its_kernel_loses_and_names_its_second_reason() {
    let advice = |sample: &str| {
        let file =
            format!("{}/../../docs/sample/{sample}/metrics.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&file).expect(&file);
        crate::advice::recommendations(&serde_json::from_str(&text).expect(&file))
    };
    let of_kernel = advice("sampled_counters");
    let gain = "| saves up to 0.08 of 6.29 ms per token if nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT reaches its roof |";
    assert!(of_kernel.contains(gain), "{of_kernel}");
    let of_two = advice("vllm_sorting");
    let second =
        "CudaGraphManager.run_fullgraph (cudagraph_utils.py:401) (of 185 samples). decode: ";
    assert!(of_two.contains(second), "{of_two}");
}

#[test]
fn what_is_measured_with_marked_operators_says_so_from_the_first_sentence_on() {
    let file = format!("{}/../../docs/sample/runner/metrics.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).expect(&file);
    let report: Report = serde_json::from_str(&text).expect(&file);
    let page = summary_md(&report, &Shown::default());
    let first = "\n\nWith every operator marked, which slows the host, a token of `decode` takes";
    assert!(page.contains(first), "{page}");
    assert!(page.contains("do not add them up. Marking every operator slows the host:"), "{page}");
    let list = crate::advice::recommendations_listed(&report);
    assert!(list.starts_with("1. In decode, ") && list.contains("\n   - **Gain:** "), "{list}");
    assert!(list.contains("\n   - **Why:** ") && list.contains("Marking every"), "{list}");
}

#[test]
fn takeaways_have_one_order_on_all_pages_and_a_few_more_are_listed() {
    let mut report = full("");
    report.answer = answer();
    let told = |text: &str, rule| Takeaway { text: text.into(), rule, ..Takeaway::default() };
    let first = Takeaway { id: "first".into(), ..told("c", Rule::HostGaps) };
    report.answer.first.get_or_insert_default().takeaway = Some(first.id.clone());
    let all = [told("b", Rule::TopKernel), first, told("a", Rule::Simulated)];
    report.insight.takeaways = all.into();
    let rows = |page: String| -> String {
        page.lines()
            .filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(1)?.chars().next())
            .collect()
    };
    assert_eq!(rows(crate::advice::takeaways(&report)), "T-acb");
    let items = "1. a.\n2. c.\n3. b.\n";
    assert!(crate::advice::takeaways_in_brief(&report).starts_with(items));
    let many = |number: usize| {
        let all = (0..number).map(|at| told(&format!("takeaway {at}"), Rule::TopKernel));
        let report = Report {
            insight: stage2_model::Insight { takeaways: all.collect(), ..Default::default() },
            ..Report::default()
        };
        crate::advice::takeaways_in_brief(&report)
    };
    assert!(many(5).ends_with("5. takeaway 4.\n\n"), "{}", many(5));
    let left_out = "3. takeaway 2.\n\nSee report.md for 3 more takeaways.\n\n";
    assert!(many(6).ends_with(left_out), "{}", many(6));
}

#[test]
fn no_gain_stands_next_to_a_smaller_time_that_it_affects() {
    let folder = format!("{}/../../docs/sample", env!("CARGO_MANIFEST_DIR"));
    let mut known = 0;
    for sample in ["runner", "vllm_sorting", "vllm_two_gpus"] {
        let file = format!("{folder}/{sample}/metrics.json");
        let text = std::fs::read_to_string(&file).expect(&file);
        let report = serde_json::from_str(&text).expect(&file);
        let page = crate::advice::recommendations_in_brief(&report);
        for gain in page.lines().filter_map(|line| line.split_once(" Gain: ")) {
            let is_known = !gain.1.starts_with("not known");
            assert!(!(is_known && gain.1.contains("affects")), "{page}");
            known += usize::from(is_known);
        }
    }
    assert!(known > 4, "{known}");
}

/// Words as a reader counts them: marks of tables and headings are none.
fn words(page: &str) -> usize {
    page.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[test]
fn the_summary_stays_below_900_words() {
    let mut reports = vec![full(""), rich()];
    let (fixtures, samples) = ("tests/fixtures/reports", "docs/sample");
    for file in [
        format!("{fixtures}/llama_1b.json"),
        format!("{fixtures}/moe_small.json"),
        format!("{samples}/regions/metrics.json"),
    ] {
        let file = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&file).expect(&file);
        reports.push(serde_json::from_str(&text).expect(&file));
    }
    for report in reports {
        let without = Report { answer: Answer::default(), ..report.clone() };
        for report in [without, Report { answer: answer(), ..report }] {
            let page = summary_md(&report, &Shown::default());
            assert!(words(&page) < 900, "{} words: {page}", words(&page));
        }
    }
    let page = summary_md(&rich(), &Shown::default());
    assert!(page.contains(" at most. Other stages like it: 19.\n"), "{page}");
    for left_out in [" more rows.", " more recommendations."] {
        let is_it = |line: &str| line.starts_with("See report.md for ") && line.ends_with(left_out);
        assert!(page.lines().any(is_it), "{left_out}: {page}");
    }
}

#[test]
fn inferred_steps_are_a_section_where_there_are_some() {
    let title = "## Inferred steps";
    assert!(!summary_md(&full(""), &shown()).contains(title));
    let row = InferredStepRow { stream: Some("<b>|4".into()), ..InferredStepRow::default() };
    let steps = InferredSteps::of(vec![row]);
    let page = summary_md(&Report { inferred_steps: Some(steps), ..full("") }, &shown());
    let (headings, _) = structure(&page);
    assert!(headings.iter().any(|heading| heading == "Inferred steps"), "{headings:?}");
    assert!(page.contains("0 steps of 0 kernels") && !page.contains("<b>"), "{page}");
}

#[test]
fn the_summary_has_three_to_five_sentences() {
    let mut report = full("");
    let takeaway = report.insight.takeaways.remove(1);
    for (takeaways, expected) in [(0, 3), (1, 3), (2, 3), (3, 3), (5, 5), (9, 5)] {
        report.insight.takeaways = vec![takeaway.clone(); takeaways];
        let sentences = sentences(&report);
        assert_eq!(sentences.len(), expected, "{sentences:?}");
        assert!(sentences.iter().all(|sentence| sentence.ends_with('.')), "{sentences:?}");
    }
    report.insight.takeaways.clear();
    assert!(sentences(&report)[0].contains("`decode`: 179.07 ms and idle for 74.7 %"));
}

#[test]
fn long_sections_are_cut_and_say_so() {
    let mut report = full("");
    report.findings = vec![report.findings.remove(0); 100];
    assert!(summary_md(&report, &shown()).contains("See report.md for 96 more findings."));
}

proptest! {
    #[test]
    fn no_text_breaks_out(hostile in "\\PC{0,20}|[|`<>\\n\\r\\x1b#*_\\[\\]\\\\&-]{1,12}") {
        let page = summary_md(&full(&hostile), &shown());
        prop_assert_eq!(structure(&page), (SECTIONS.map(str::to_owned).to_vec(), 7));
        prop_assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
    }
}
