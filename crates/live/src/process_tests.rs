use super::*;
use stage2_contract::trace::{Field, GpuNs, MonoNs, Path, Queue, RangeOpen, Shape, WallNs};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// The GPU's clock is ahead.
const AHEAD: u64 = 1_000 * S;

/// A process with the stage `decode` (path 1) and a range of a library (path 2).
fn process() -> Process {
    let mut process = Process::new(Options::default());
    let names = [(1, "decode"), (2, "NCCL"), (3, "sm90_xmma_gemm_bf16"), (4, "tokens")];
    for (id, name) in names {
        process.push(Record::Name { id, bytes: name.into() });
    }
    process.push(Record::Anchor(Anchor {
        gpu: GpuNs(AHEAD + S),
        mono: MonoNs(S),
        wall: WallNs(50 * S),
    }));
    process.push(Record::Path(Path { id: 1, parent: 0, name: 1, domain: 0 }));
    process.push(Record::Path(Path { id: 2, parent: 1, name: 1, domain: 2 }));
    process.push(Record::Shape(Shape { id: 1, name: 3, ..Shape::default() }));
    process.push(Record::Queue(Queue { id: 1, device: 0, context: 1, stream: 7 }));
    process
}

fn opened(range: u64, at: u64) -> Record {
    Record::RangeOpen(RangeOpen {
        range,
        path: 1,
        thread: 1,
        parent: 0,
        start: MonoNs(at),
        start_end: false,
        category: 0,
        payload: Some(Payload::U64(range)),
        continues: 0,
    })
}

fn kernel(range: u64, from: u64, to: u64) -> Record {
    let work = GpuWork::new(What::Kernel { shape: 1 });
    Record::Work(GpuWork {
        start: GpuNs(AHEAD + from),
        end: GpuNs(AHEAD + to),
        queue: 1,
        range,
        ..work
    })
}

/// `count` steps of 10 ms from 1 s on, each with two kernels of 4 ms, 20 us apart.
fn steps(process: &mut Process, count: u64) {
    for step in 1..=count {
        let at = S + step * 10 * MS;
        process.push(opened(step, at));
        process.push(Record::RangeClose { range: step, end: MonoNs(at + 10 * MS) });
        process.push(kernel(step, at + MS, at + 5 * MS));
        process.push(kernel(step, at + 5 * MS + 20_000, at + 9 * MS));
    }
}

#[test]
fn steps_busy_time_and_gaps_of_a_stage_are_those_of_its_records() {
    let mut process = process();
    steps(&mut process, 2_000);
    process.push(Record::End { reason: "exit".into() });
    let totals = process.totals();
    let decode = &totals["decode"];
    assert_eq!((decode.steps, decode.launches), (2_000, 4_000));
    assert_eq!(decode.busy_ns, 2_000 * (8 * MS - 20_000));
    assert_eq!((decode.window_ns, decode.gaps_ns), (2_000 * 10 * MS, 2_000 * 20_000));
    assert_eq!(decode.late_ns, 0);
    assert_eq!(process.device_totals(), [DeviceBusy { device: 0, busy_ns: decode.busy_ns }]);
    let window = process.window();
    let recent = &window.stages["decode"];
    assert!((9 * S..=10 * S).contains(&window.ns), "{}", window.ns);
    let rate = recent.steps as f64 / (window.ns as f64 / 1e9);
    assert!((rate - 100.0).abs() < 1.0, "{rate} steps/s");
    assert!((recent.busy_share().unwrap() - 0.798).abs() < 0.001, "{:?}", recent.busy_share());
    assert_eq!(window.kernels[0].name, "sm90_xmma_gemm_bf16");
    assert_eq!(crate::class_label(window.kernels[0].class), "gemm");
    assert_eq!(window.end_wall_ns, Some(49 * S + process.front + 1));
}

#[test]
fn steps_that_have_their_number_in_their_names_are_one_stage() {
    let mut process = process();
    for step in 1..=300u64 {
        let (id, at) = (step as u32 + 100, S + step * 10 * MS);
        process.push(Record::Name { id, bytes: format!("step {step}").into() });
        process.push(Record::Path(Path { id, parent: 0, name: id, domain: 0 }));
        let Record::RangeOpen(open) = opened(step, at) else { unreachable!("it opens") };
        process.push(Record::RangeOpen(RangeOpen { path: id, ..open }));
        process.push(Record::RangeClose { range: step, end: MonoNs(at + 10 * MS) });
        process.push(kernel(step, at + MS, at + 5 * MS));
    }
    process.push(Record::End { reason: "exit".into() });
    let window = process.window();
    assert_eq!(window.stages.keys().collect::<Vec<_>>(), ["step *"]);
    let step = &window.stages["step *"];
    assert_eq!((step.steps, step.launches, step.busy_ns), (300, 300, 300 * 4 * MS));
    let rows: Vec<_> = window.kernels.iter().map(|row| (&*row.stage, row.launches)).collect();
    assert_eq!(rows, [("step *", 300)]);
    let totals = process.totals();
    assert_eq!((totals.len(), totals["step *"].steps), (1, 300));
}

#[test]
fn the_same_in_any_order_of_the_gpu_records_that_is_not_too_late() {
    let (mut one, mut other) = (process(), process());
    steps(&mut one, 300);
    for step in 1..=300u64 {
        let at = S + step * 10 * MS;
        other.push(opened(step, at));
        other.push(Record::RangeClose { range: step, end: MonoNs(at + 10 * MS) });
    }
    for step in (1..=300u64).rev() {
        let at = S + step * 10 * MS;
        other.push(kernel(step, at + 5 * MS + 20_000, at + 9 * MS));
        other.push(kernel(step, at + MS, at + 5 * MS));
    }
    for process in [&mut one, &mut other] {
        process.finish();
    }
    let decode = |process: &Process| process.totals()["decode"].clone();
    assert_eq!(decode(&one), decode(&other));
}

#[test]
fn numbers_of_the_last_moments_are_not_shown_before_they_are_final() {
    let mut process = process();
    steps(&mut process, 500);
    // Six seconds of data: the last three wait.
    let before = process.window();
    assert!(before.ns <= 3 * S && before.ns >= 2 * S, "{}", before.ns);
    process.finish();
    assert!(process.window().ns > 4 * S);
}

#[test]
fn work_outside_of_ranges_and_of_unknown_ranges_is_counted_apart() {
    let mut process = process();
    for (range, at) in [(RANGE_OUTSIDE, 1), (RANGE_UNKNOWN, 2), (77, 3)] {
        process.push(kernel(range, S + at * MS, S + at * MS + 5));
    }
    process.push(Record::Work(GpuWork::new(What::Fill { bytes: 4 })));
    process.finish();
    let counts = process.counts();
    assert_eq!((counts.work, counts.kernels, counts.outside, counts.unattributed), (4, 3, 2, 2));
    assert_eq!(counts.untimed, 1);
    let totals = process.totals();
    assert_eq!(totals["(outside ranges)"].busy_ns, 5);
    assert_eq!(totals["(unattributed)"].busy_ns, 10);
}

#[test]
fn tokens_are_known_from_a_field_or_from_the_payload_where_the_user_says_so() {
    let tokens = |process: &Process| {
        let all = process.totals();
        (all["decode"].tokens, all["decode"].steps_with_tokens)
    };
    let mut plain = process();
    plain.push(opened(1, 2 * S));
    let field = Field { name: 4, value: FieldValue::U64(8) };
    plain.push(Record::RangeFields { range: 1, fields: vec![field] });
    plain.push(Record::RangeClose { range: 1, end: MonoNs(3 * S) });
    steps(&mut plain, 3);
    plain.finish();
    assert_eq!(tokens(&plain), (8, 1));
    let mut told = Process::new(Options { tokens_in_payload: vec!["decode".into()] });
    std::mem::swap(&mut told.options, &mut plain.options);
    let mut told = Process { options: plain.options, ..process() };
    steps(&mut told, 3);
    told.finish();
    assert_eq!(tokens(&told), (6, 3));
}

#[test]
fn instances_that_are_not_recorded_have_steps_and_no_window() {
    let mut process = process();
    process.push(Record::Meta { key: "sample".into(), value: "1/2".into() });
    for step in 1..=10u64 {
        let at = S + step * 10 * MS;
        process.push(opened(step, at));
        process.push(Record::RangeSample { range: step, recorded: step % 2 == 0 });
        process.push(Record::RangeClose { range: step, end: MonoNs(at + 10 * MS) });
    }
    process.finish();
    let totals = process.totals();
    assert_eq!((totals["decode"].steps, totals["decode"].window_ns), (10, 50 * MS));
}

/// Hazard (Watching what runs): Times of a hostile file lie anywhere.
/// Promise: The reader neither stops nor slows down.
#[test]
fn times_from_nowhere_neither_stop_nor_slow_the_reader() {
    let mut process = process();
    process.push(opened(1, u64::MAX - 1));
    process.push(Record::RangeClose { range: 1, end: MonoNs(3) });
    process.push(kernel(1, 5, u64::MAX - AHEAD));
    process.push(Record::Anchor(Anchor { gpu: GpuNs(u64::MAX), mono: MonoNs(1), wall: WallNs(1) }));
    process.push(kernel(1, 5, 6));
    steps(&mut process, 50);
    process.finish();
    let _ = process.window();
    assert_eq!(process.counts().work, 102);
}

#[test]
fn what_is_skimmed_leaves_definitions_only() {
    let mut process = process();
    process.skim(true);
    steps(&mut process, 50);
    process.push(Record::Name { id: 9, bytes: b"prefill".to_vec() });
    process.skim(false);
    process.push(Record::Path(Path { id: 9, parent: 0, name: 9, domain: 0 }));
    assert_eq!((process.counts().work, process.tables.place(9).stage.is_some()), (0, true));
    assert_eq!(process.tables.stage_name(process.tables.place(9).stage.unwrap()), "prefill");
}
