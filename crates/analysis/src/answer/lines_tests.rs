use super::*;
use stage2_model::{
    Coverage, Floor, Removed, Rule, StageRow, Verdict, WindowKind, WindowSplit, WorkloadEnd,
};

fn none() -> Figure {
    Figure::Absent(Absent::NoModel)
}

fn told(row: &StageRow) -> Told<'_> {
    Told {
        row,
        why_no_window: None,
        tokens_of_step: Some(1),
        saved_ns: None,
        doubt: None,
        answer: StageAnswer {
            stage: row.stage.clone(),
            role: Role::Decode,
            basis: String::new(),
            step: Some(StepTimes { p50_ns: 8_800_000, p99_ns: 9_120_000, ..StepTimes::default() }),
            time_to_first_token_ns: none(),
            tokens_per_s: Figure::of(113.72),
            window: Some(WindowSplit {
                window_ns: 1_000,
                steps: None,
                parts: [(WindowKind::Compute, 19.7), (WindowKind::LaunchGaps, 80.3)]
                    .map(|(kind, percent)| WindowPart { kind, ns: 1, percent })
                    .to_vec(),
            }),
            floor: Floor {
                memory_ns: none(),
                compute_ns: none(),
                floor_ns: none(),
                distance: none(),
            },
            first: None,
        },
    }
}

fn report() -> Report {
    let verdict = Verdict { status: Status::Complete, text: "complete: all of it".into() };
    Report { coverage: Coverage { verdict, ..Coverage::default() }, ..Report::default() }
}

fn said(report: &Report, stages: &[Told<'_>], first: Option<&FirstStep>) -> Vec<String> {
    let lines = lines(report, stages, first);
    let labels: Vec<&str> = lines.iter().map(|line| line.label.as_str()).collect();
    assert_eq!(labels, ["time", "window", "floor", "first", "coverage"]);
    assert!(lines.iter().all(|line| line.text.chars().count() <= LINE_LIMIT + 4), "{lines:?}");
    lines.into_iter().map(|line| line.text).collect()
}

#[test]
fn five_lines_say_it_all() {
    let (decode, prefill) = (row("decode"), row("prefill"));
    let mut prefill = told(&prefill);
    prefill.answer.time_to_first_token_ns = Figure::of(9_700_000.0);
    let first = FirstStep {
        stage: Some("decode".into()),
        rule: Rule::LaunchBound,
        text: "Launch less often.".into(),
        condition: "launch gaps vanish".into(),
        removes: vec![Removed { what: "launch gaps".into(), percent: 80.3 }],
        factor: Some(4.94),
        is_floor: false,
    };
    let lines = said(&report(), &[told(&decode), prefill], Some(&first));
    assert_eq!(
        lines,
        [
            "decode 8.80 ms per token (p50; p99 9.12), 113.7 tokens/s on average; prefill 9.70 ms (time to \
             first token)",
            "decode: compute 19.7 %, launch gaps 80.3 %; prefill: compute 19.7 %, launch gaps 80.3 %",
            "not known: no model is configured; model/llm=NAME gives the floor",
            "decode up to 4.9x faster if launch gaps vanish: launch gaps 80.3 % of the window. Launch less often.",
            "complete: all of it",
        ]
    );
}

#[test]
fn what_the_numbers_must_not_be_read_without_comes_first() {
    let decode = row("decode");
    let mut simulated = Report { simulated: true, ..report() };
    assert!(said(&simulated, &[told(&decode)], None)[0].starts_with("simulated GPU: decode 8.80"));
    simulated.run.workload_end = Some(WorkloadEnd {
        how: stage2_model::EndedBy::Failure,
        exit: None,
        text: "the workload failed: exit status 3".into(),
        likely_cause: None,
        log: None,
    });
    let early = said(&simulated, &[told(&decode)], None);
    let lead = "the workload failed: exit status 3; until then: simulated GPU: decode";
    assert!(early[0].starts_with(lead), "{early:?}");
    let mut empty = report();
    empty.coverage.verdict.status = Status::Empty;
    assert!(said(&empty, &[], None)[0].starts_with("EMPTY: no GPU work was recorded"));
}

#[test]
fn many_stages_and_long_names_do_not_make_long_lines() {
    let rows: Vec<StageRow> =
        (0..1_000).map(|at| row(&format!("stage {at} {}", "x".repeat(500)))).collect();
    let stages: Vec<Told<'_>> = rows.iter().map(told).collect();
    let lines = said(&report(), &stages, None);
    assert!(lines[0].ends_with(" more stages"), "{}", lines[0]);
    assert!(said(&report(), &[], None)[0].starts_with("not known: the workload opened no NVTX"));
}

#[test]
fn requests_around_the_steps_of_an_engine_stand_behind_them() {
    let (request, decode) = (row("request"), row("decode"));
    let without_work = |row| {
        let mut told = told(row);
        told.answer.window = None;
        told.why_no_window = Some(NO_GPU_WORK);
        told
    };
    let window = |stages: &[Told<'_>]| said(&report(), stages, None).swap_remove(1);
    assert_eq!(
        window(&[without_work(&request), told(&decode)]),
        "decode: compute 19.7 %, launch gaps 80.3 %; request: no GPU work of its own"
    );
    assert_eq!(window(&[without_work(&request)]), "request: no GPU work of its own");
}

#[test]
fn a_text_is_cut_at_the_end_of_a_clause() {
    assert_eq!(cut("short", 10), "short");
    assert_eq!(cut("one clause; another, and more words", 24), "one clause; another ...");
    assert_eq!(cut(&"é".repeat(50), 10), format!("{} ...", "é".repeat(10)));
}

fn row(stage: &str) -> StageRow {
    StageRow { stage: stage.to_owned(), ..StageRow::default() }
}
