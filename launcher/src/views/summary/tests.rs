//! The page with everything, with nothing, and with what tries to break out of it.

use proptest::prelude::*;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag};

use super::*;
use crate::golden::compare;
use stage2_model::{Fact, Finding, OperatorRow, Severity, Status, Verdict};

const SECTIONS: [&str; 10] = [
    "Environment",
    "Aggregates",
    "Per-Stage Timings",
    "Cost of the Passes",
    "MFU",
    "Top Operators",
    "Top Kernels",
    "Takeaways",
    "Recommendations",
    "Limits",
];

/// `hostile` stands wherever a name or a text of foreign origin can stand.
fn full(hostile: &str) -> Stakeholder {
    let fact = |key: &str, value: &str| Fact { key: key.into(), value: value.into() };
    let stage = |stage: &str, within: Option<&str>, busy, idle| StageTimingRow {
        stage: stage.into(),
        within: within.map(str::to_owned),
        instances: Some(3),
        host_mean_ns: Some(98_336_000),
        host_std_ns: Some(1_500_000),
        host_median_ns: Some(98_000_000),
        host_first_ns: Some(749_102_000),
        gpu_busy_ns: busy,
        gpu_idle_percent: idle,
        kernels: Some(19_980),
    };
    let mfu = |scope: &str, mfu, mbu| MfuRow {
        scope: scope.into(),
        mfu,
        mbu,
        flops: Some(1.234e13),
        time_ns: Some(98_336_000),
        achieved_tflops: Some(4.4),
        peak_dense_tflops: Some(209.5),
        ..MfuRow::default()
    };
    let takeaway =
        |text: &str, evidence: &str| Takeaway { text: text.into(), evidence: evidence.into() };
    Stakeholder {
        run: format!("20261120-193500-1{hostile}"),
        simulated: true,
        ended_early: Some(format!("the workload failed: exit status 3{hostile}")),
        verdict: Verdict {
            status: Status::Partial,
            text: format!("27 kernels of 2 processes, 12 records dropped{hostile}"),
        },
        environment: Section::of(
            vec![
                fact("gpu.0", "NVIDIA H200"),
                fact("driver", "580.159"),
                fact("host", &format!("node-1{hostile}")),
            ],
            "env.json",
        ),
        aggregates: Section::of(
            vec![AggregateRow {
                metric: "Tokens per second".into(),
                unit: "1/s".into(),
                values: Some(2),
                mean: Some(90.5),
                std: Some(0.125),
                median: Some(90.5),
                first: None,
            }],
            "collector, without the first instance of each stage",
        ),
        stages: Section::of(
            vec![
                stage("prefill", None, Some(65_691_733), Some(33.2)),
                stage("decode", None, Some(179_072_697), Some(74.7)),
                stage(&format!("vision{hostile}"), Some("prefill"), Some(25_000_000), None),
            ],
            "collector",
        )
        .with_note("vision lies within prefill and is not added to it"),
        steps: Vec::new(),
        costs: Section::of(
            vec![
                CostRow {
                    pass: "collect".into(),
                    stage: Some(format!("decode{hostile}")),
                    instances: Some(3),
                    total_ns: Some(1_179_072_697),
                    median_ns: Some(98_000_000),
                    ratio: Some(1.0125),
                },
                CostRow {
                    pass: format!("ncu{hostile}"),
                    total_ns: Some(35_728_000_000),
                    ..CostRow::default()
                },
            ],
            "collector and run.json",
        ),
        mfu: Section::of(
            vec![
                mfu("Model-level", Some(0.00262), None),
                mfu("decode", Some(0.000211), Some(1.25)),
            ],
            format!("{hostile}shape of the model, host time"),
        )
        .with_note(format!("{hostile}FLOPs: 2 for each weight and token; embeddings left out")),
        operators: Section::of(
            vec![OperatorRow {
                op_name: format!("aten::linear{hostile}"),
                host_total_ns: Some(1_030_125_000),
                gpu_inclusive_ns: Some(700_000_000),
                calls: 1_024,
                host_mean_ns: Some(1_005_981),
                ..OperatorRow::default()
            }],
            "NVTX ranges of operators",
        ),
        kernels: Section::of(
            vec![TopKernelRow {
                kernel: format!("gemvx::kernel<4>{hostile}"),
                total_ns: 61_600_000,
                calls: 5_552,
                mean_ns: Some(11_095),
                device: Some("0 NVIDIA H200".into()),
                percent: Some(34.4),
                class: Some("gemm".into()),
                bound: Some("memory".into()),
                attainable_share: Some(0.715),
                occupancy_percent: Some(48.25),
            }],
            "collector",
        ),
        takeaways: Section::of(
            vec![
                takeaway(
                    "Decode waits for the host: the GPU is idle 74.7 % of the time",
                    "collector",
                ),
                takeaway(&format!("{hostile}One kernel takes a third of the GPU's time."), hostile),
            ],
            "",
        ),
        recommendations: Section::of(
            vec![Recommendation {
                action: "Replay decode as a CUDA graph".into(),
                why: "launching takes longer than running".into(),
                gain: "up to 74.7 % of decode".into(),
            }],
            "",
        ),
        limits: Section::of(
            vec![Finding::new(
                Severity::Warning,
                "12 records were dropped",
                hostile,
                "larger buffers",
            )],
            "",
        ),
    }
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
    let page = stakeholder_md(&full(""));
    compare("stakeholder_summary.md", &page);
    assert_eq!(structure(&page), (SECTIONS.map(str::to_owned).to_vec(), 10));
    let first_screen: Vec<&str> = page.lines().take(7).collect();
    assert!(first_screen.iter().any(|line| line.contains("SIMULATED")));
    assert!(first_screen.iter().any(|line| line.starts_with("**Coverage:** 27 kernels")));
}

#[test]
fn a_page_without_any_data_has_every_section_and_says_why() {
    let page = stakeholder_md(&Stakeholder {
        run: "empty".into(),
        kernels: Section::none("CUPTI is held by another tool", "run `stage2-launch config`"),
        operators: Section::of(Vec::new(), "NVTX ranges of operators"),
        ..Stakeholder::default()
    });
    compare("stakeholder_empty.md", &page);
    assert_eq!(structure(&page), (SECTIONS.map(str::to_owned).to_vec(), 0));
    assert_eq!(page.matches("None, because ").count(), 10);
}

#[test]
fn inferred_steps_are_a_section_where_there_are_some() {
    let title = "## Inferred steps";
    assert!(!stakeholder_md(&full("")).contains(title));
    let steps = vec!["inferred: 3 steps of <b>4</b> kernels | all".to_owned()];
    let page = stakeholder_md(&Stakeholder { steps, ..full("") });
    let (headings, _) = structure(&page);
    assert!(headings.iter().any(|heading| heading == "Inferred steps"), "{headings:?}");
    assert!(page.contains("- inferred: 3 steps of") && !page.contains("<b>"), "{page}");
}

#[test]
fn the_summary_has_three_to_five_sentences() {
    let mut page = full("");
    let takeaway = |n: usize| Takeaway { text: format!("Number {n}"), evidence: String::new() };
    for (takeaways, expected) in [(0, 3), (1, 3), (2, 3), (3, 3), (5, 5), (9, 5)] {
        page.takeaways = Section::of((0..takeaways).map(takeaway).collect(), "");
        let sentences = sentences::sentences(&page);
        assert_eq!(sentences.len(), expected, "{sentences:?}");
        assert!(sentences.iter().all(|sentence| sentence.ends_with('.')), "{sentences:?}");
    }
    page.takeaways = Section::default();
    assert!(sentences::sentences(&page)[0].contains("`decode`: 179.073 ms and idle for 74.7 %"));
}

#[test]
fn long_sections_are_cut_and_say_so() {
    let mut page = full("");
    let row = page.kernels.rows()[0].clone();
    page.kernels = Section::of(vec![row; 100], "");
    assert!(stakeholder_md(&page).contains("60 more rows stand in metrics.json."));
}

#[test]
fn the_input_survives_json() {
    let page = full("|x\u{1b}");
    let json = serde_json::to_string(&page).expect("JSON");
    assert_eq!(serde_json::from_str::<Stakeholder>(&json).expect("the same"), page);
    let typo = json.replace("\"takeaways\"", "\"takeaway\"");
    assert!(serde_json::from_str::<Stakeholder>(&typo).is_err());
}

proptest! {
    #[test]
    fn no_text_breaks_out(hostile in "\\PC{0,20}|[|`<>\\n\\r\\x1b#*_\\[\\]\\\\&-]{1,12}") {
        let page = stakeholder_md(&full(&hostile));
        prop_assert_eq!(structure(&page), (SECTIONS.map(str::to_owned).to_vec(), 10));
        prop_assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
    }
}
