use super::*;
use stage2_model::{
    Coverage, Floor, Removed, Rule, Slowdown, StageRow, StepTimes, Verdict, WindowKind,
    WindowSplit, WorkloadEnd,
};

fn none() -> Figure {
    Figure::Absent(Absent::NoModel)
}

fn told(row: &StageRow) -> Told<'_> {
    Told {
        row,
        why_no_window: None,
        saved_ns: None,
        caveat: None,
        answer: StageAnswer {
            stage: row.stage.clone(),
            role: Role::Decode,
            basis: String::new(),
            step: Some(StepTimes {
                steps: 32,
                p50_ns: 8_800_000,
                p99_ns: Some(9_120_000),
                tokens_per_step: Some(1),
                ..StepTimes::default()
            }),
            slowdown: None,
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
                baseline_distance: None,
            },
            first: None,
        },
    }
}

fn used() -> ModelUse {
    let report = super::super::steps::tests::report(Vec::new(), 64);
    report.insight.utilisation.expect("made by hand")
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
    prefill.answer.role = Role::Prefill;
    prefill.answer.tokens_per_s = none();
    prefill.answer.step = Some(StepTimes {
        steps: 2,
        p50_ns: 9_700_000,
        max_ns: Some(9_900_000),
        ..StepTimes::default()
    });
    prefill.answer.slowdown = Some(Slowdown { pass: "collect".into(), ratio: 1.5 });
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
            "decode 8.80 ms per token (p50; p99 9.12), 113.7 tokens/s on average; prefill 9.70 ms per \
             instance (p50 of 2; longest 9.90; 1.50x its baseline)",
            "decode: compute 19.7 %, launch gaps 80.3 %; prefill: compute 19.7 %, launch gaps 80.3 %",
            "not known: no model is configured (choose one, also for stage2-launch report RUN_DIR: \
             model/llm=NAME, or model.llm.config_json=PATH)",
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

#[test]
fn a_long_instance_of_many_tokens_is_told_and_held_against_the_floor_per_token() {
    let decode = row("decode");
    let mut told = told(&decode);
    told.answer.step = Some(StepTimes {
        steps: 1,
        p50_ns: 64_000_000,
        max_ns: Some(64_000_000),
        tokens_per_step: Some(64),
        ..StepTimes::default()
    });
    let floor = &mut told.answer.floor;
    (floor.floor_ns, floor.distance) = (Figure::of(6_400_000.0), Figure::of(10.0));
    floor.baseline_distance = Some(8.0);
    let mut used = used();
    used.peaks = Some(stage2_model::Peaks::default());
    let mut report = Report { simulated: true, ..report() };
    report.insight.utilisation = Some(used);
    let lines = said(&report, &[told], None);
    let time = "simulated GPU: decode 1.00 ms per token (the only warm instance), ";
    assert!(lines[0].starts_with(time), "{lines:?}");
    assert_eq!(
        lines[2],
        "simulated GPU: decode 0.10 ms per token (peak rates): the run takes 10.0x as long, its \
         baseline 8.0x"
    );
}

#[test]
fn what_is_missing_for_the_floor_is_one_command() {
    let decode = row("decode");
    let mut used = used();
    let keys = ["model/llm=NAME", "hardware=NAME", "model.tokens.batch_size=N"];
    let more = ["model.tokens.prompt_tokens=N", "model.tokens.decode_steps=N"];
    used.needs.settings = keys.into_iter().chain(more).map(str::to_owned).collect();
    let mut report = report();
    report.insight.utilisation = Some(used);
    let lines = lines(&report, &[told(&decode)], None);
    assert_eq!(
        lines[2].text,
        "not known: stage2-launch report RUN_DIR model/llm=NAME hardware=NAME \
         model.tokens.batch_size=N model.tokens.prompt_tokens=N model.tokens.decode_steps=N gives it, \
         with your NAME and N"
    );
}

#[test]
fn each_stage_says_whether_its_outliers_are_left_out() {
    let row = |stage: &str, left_out| {
        let outliers =
            Outliers { count: 1, of: 200, percent: 22.5, left_out, ..Outliers::default() };
        StageRow { stage: stage.to_owned(), outliers: Some(outliers), ..StageRow::default() }
    };
    let line = |rows: [StageRow; 2]| {
        let stages: Vec<Told<'_>> = rows.iter().map(told).collect();
        outliers(&report(), &stages).expect("a line")
    };
    let hold = "1 of 200 instances holds 22.5 % of the time";
    assert_eq!(
        line([row("a", true), row("b", false)]),
        format!(
            "a: {hold}, left out of window, gains and advice; b: {hold}, which other numbers include, so \
             nothing is advised"
        )
    );
    let left_out = line([row("a", true), row("b", true)]);
    assert!(left_out.ends_with("; window, gains and advice are without this time"), "{left_out}");
}
