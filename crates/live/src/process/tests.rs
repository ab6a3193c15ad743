use super::*;
use stage2_contract::trace::{
    Device, DeviceState, Field, GpuNs, HostSample, HostThread, MonoNs, Path, Queue, RANGE_OUTSIDE,
    RangeOpen, Shape, WallNs,
};

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
    let (gpu, mono, wall) = (GpuNs(AHEAD + S), MonoNs(S), WallNs(50 * S));
    process.push(Record::Anchor(Anchor { gpu, mono, wall }));
    process.push(Record::Path(Path { id: 1, parent: 0, name: 1, domain: 0 }));
    process.push(Record::Path(Path { id: 2, parent: 1, name: 1, domain: 2 }));
    process.push(Record::Shape(Shape { id: 1, name: 3, ..Shape::default() }));
    process.push(Record::Queue(Queue { id: 1, device: 0, context: 1, stream: 7 }));
    process
}

fn opened(range: u64, at: u64) -> Record {
    let (start, payload) = (MonoNs(at), Some(Payload::U64(range)));
    Record::RangeOpen(RangeOpen {
        range,
        path: 1,
        thread: 1,
        start,
        payload,
        ..RangeOpen::default()
    })
}

fn kernel(range: u64, from: u64, to: u64) -> Record {
    let (start, end) = (GpuNs(AHEAD + from), GpuNs(AHEAD + to));
    let work = GpuWork::new(What::Kernel { shape: 1 });
    Record::Work(GpuWork { start, end, queue: 1, range, ..work })
}

/// `count` steps of 10 ms from 1 s on, each with two kernels of 4 ms, 20 us apart.
fn steps(process: &mut Process, count: u64) {
    steps_from(process, 1, count);
}

fn steps_from(process: &mut Process, first: u64, last: u64) {
    for step in first..=last {
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
    assert_eq!(process.late_ns, 0);
    assert_eq!(process.device_totals().collect::<Vec<_>>(), [(0, decode.busy_ns)]);
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

/// Hazard (Watching what runs): The window begins and ends within calls, whose kernels count in part, and a recording is
///  stopped within one.
/// Promise: The kernels of a call, or of a step within it, are those of whole ones.
#[test]
fn the_kernels_of_a_call_are_those_of_whole_calls() {
    for (call_ms, kernels) in [(1_700, 17), (300, 3)] {
        let mut process = process();
        for call in 1..=(60_000 / call_ms) {
            let at = S + call * call_ms * MS;
            process.push(opened(call, at));
            for kernel_at in (0..kernels).map(|kernel| at + kernel * 100 * MS) {
                process.push(kernel(call, kernel_at + MS, kernel_at + 90 * MS));
            }
            process.push(Record::RangeClose { range: call, end: MonoNs(at + call_ms * MS) });
            let window = process.window();
            let Some(decode) = window.stages.get("decode").filter(|of| of.whole_each > 0) else {
                continue;
            };
            let each = decode.launches as f64 / decode.each().1;
            assert!((each - kernels as f64).abs() < 1e-9, "{each} of {kernels} in {call}");
        }
        assert!(process.window().stages["decode"].whole_each > 2);
        process.push(opened(9_000, 70 * S));
        process.push(kernel(9_000, 70 * S + MS, 70 * S + 90 * MS));
        process.push(Record::End { reason: "stopped".into() });
        let decode = &process.recording().stages["decode"];
        let each = decode.launches as f64 / decode.each().1;
        assert!((each - kernels as f64).abs() < 1e-9, "{each} of {kernels} when it was stopped");
    }
}

/// Hazard (Watching what runs): One thread is in its first call while others are in later ones.
/// Promise: As in a report, only the work of the first call is left out; if it runs at the same time as that of the others,
///  the numbers are of all calls.
#[test]
fn a_first_call_that_overlaps_others_is_left_out_only_if_its_work_does_not() {
    for (work_ms, window_ms) in [(2, 400 * 10), (503, 4_009)] {
        let mut process = process();
        let Record::RangeOpen(first) = opened(9_000, S + MS) else { unreachable!("it opens") };
        process.push(Record::RangeOpen(RangeOpen { thread: 2, ..first }));
        steps(&mut process, 200);
        process.push(kernel(9_000, S + work_ms * MS, S + (work_ms + 1) * MS));
        process.push(Record::RangeClose { range: 9_000, end: MonoNs(S + 1_010 * MS) });
        steps_from(&mut process, 201, 400);
        process.finish();
        let recording = process.recording();
        let decode = &recording.stages["decode"];
        assert_eq!(decode.window_ns, window_ms * MS, "{work_ms}");
        assert_eq!((decode.busy_ns, decode.gaps_ns), (400 * (8 * MS - 20_000), 400 * 20_000));
        assert_eq!(decode.steps, if work_ms == 2 { 400 } else { 401 });
    }
}

/// Hazard (Watching what runs): The GPU works for something else during the calls of a stage, which looks idle.
/// Promise: That time is known, in a window and in a recording, also over the edge of a second.
#[test]
fn work_of_others_during_the_calls_of_a_stage_is_known() {
    let mut process = process();
    for second in 1..=3 {
        let (first, at) = (second * 1_000, second * S + 900 * MS);
        process.push(opened(first, at));
        process.push(kernel(first, at + 10 * MS, at + 40 * MS));
        // 20 ms beside the own work, and 60 ms on both sides of the edge.
        process.push(kernel(RANGE_OUTSIDE, at + 20 * MS, at + 60 * MS));
        process.push(kernel(RANGE_OUTSIDE, at + 80 * MS, at + 120 * MS));
        process.push(Record::RangeClose { range: first, end: MonoNs(at + 200 * MS) });
    }
    process.finish();
    let times = |of: &StageNumbers| [of.window_ns, of.busy_ns, of.other_ns].map(|ns| ns / MS);
    assert_eq!(times(&process.window().stages["decode"]), [600, 90, 180]);
    assert_eq!(times(&process.recording().stages["decode"]), [400, 60, 120]);
    assert_eq!(process.window().stages["(outside ranges)"].other_ns, 0);
}

/// Hazard (Watching what runs): No range opens or closes for seconds after a call, while other records come.
/// Promise: The call ends where its range closed: a pause is no part of it.
#[test]
fn a_pause_after_a_call_is_not_in_its_window() {
    let mut process = process();
    steps(&mut process, 10);
    for second in 3..9 {
        process.push(kernel(RANGE_OUTSIDE, second * S, second * S + MS));
    }
    steps_from(&mut process, 900, 900);
    process.push(Record::End { reason: "exit".into() });
    let decode = &process.totals()["decode"];
    assert_eq!((decode.steps, decode.window_ns), (11, 11 * 10 * MS));
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
    steps(&mut one, 140);
    for step in 1..=140u64 {
        let at = S + step * 10 * MS;
        other.push(opened(step, at));
        other.push(Record::RangeClose { range: step, end: MonoNs(at + 10 * MS) });
    }
    for step in (1..=140u64).rev() {
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
    // Five seconds of data: the last one and a half wait.
    process.is_current();
    let before = process.window().ns;
    assert_eq!(process.front - SETTLE_NS, process.settled);
    assert!((3 * S..4 * S).contains(&before), "{before}");
    process.finish();
    assert!(process.window().ns > 4 * S);
}

/// Hazard (Watching what runs): calls and work that ended after the window count in its rates.
/// Promise: no rate is higher than the calls that fit into the time, whenever one looks.
#[test]
fn rates_are_of_the_time_of_the_window() {
    let mut process = process();
    let mut seen = 0;
    for step in 1..=1_500u64 {
        let at = S + step * 10 * MS;
        process.push(opened(step, at));
        process.push(Record::RangeClose { range: step, end: MonoNs(at + 10 * MS) });
        process.push(kernel(step, at + MS, at + 9 * MS));
        process.is_current();
        let window = process.window();
        let Some(decode) = window.stages.get("decode") else { continue };
        // One call may have begun before.
        let fit = window.ns / (10 * MS) + 1;
        assert!(decode.steps <= fit, "{} calls in {} ns", decode.steps, window.ns);
        assert!(decode.launches <= fit, "{} kernels in {} ns", decode.launches, window.ns);
        let kernels: u64 = window.kernels.iter().map(|row| row.launches).sum();
        assert_eq!(kernels, decode.launches);
        // From the first boundary on they are not fewer, either.
        assert!(decode.steps + 3 >= fit, "{} calls in {} ns", decode.steps, window.ns);
        seen += 1;
    }
    assert!(seen > 1_000, "{seen}");
    process.finish();
    assert_eq!(process.totals()["decode"].steps, 1_500);
}

#[test]
fn once_a_record_comes_late_the_numbers_wait_longer() {
    let mut process = process();
    steps(&mut process, 500);
    process.is_current();
    let settled = process.settled;
    process.push(kernel(500, 2 * S, 2 * S + MS));
    assert_eq!((process.late_ns, process.final_to()), (MS, process.front - SETTLE_LATE_NS));
    process.is_current();
    assert_eq!(process.settled, settled, "what is final stays so");
}

/// Hazard (Watching what runs): The unit of a stage changes when its run ends, because a report counts the ranges that
///  repeat within a call.
/// Promise: The live page counts these too, even while the only call is open.
#[test]
fn ranges_that_repeat_within_a_call_and_cover_it_are_its_steps() {
    let calls = |per_call: u64, ns: u64| {
        let mut process = process();
        process.push(Record::Name { id: 7, bytes: b"step".to_vec() });
        process.push(Record::Path(Path { id: 7, parent: 1, name: 7, domain: 0 }));
        for call in 1..=5u64 {
            let at = S + call * S;
            process.push(opened(call * 100, at));
            for step in 0..per_call {
                let start = at + step * S / per_call;
                let Record::RangeOpen(open) = opened(call * 100 + 1 + step, start) else {
                    unreachable!("it opens")
                };
                let open = RangeOpen { path: 7, parent: call * 100, ..open };
                process.push(Record::RangeOpen(open));
                let end = MonoNs(start + ns);
                process.push(Record::RangeClose { range: open.range, end });
            }
            if call < 5 {
                process.push(Record::RangeClose { range: call * 100, end: MonoNs(at + S) });
            }
        }
        process.finish();
        process
    };
    let of = |process: &Process, window: Window| {
        let decode = window.stages["decode"].clone();
        let minute = &process.window().minute.steps["decode"];
        let charted: u64 = minute.iter().map(|(steps, _)| steps).sum();
        (decode.each().0, decode.step_times.percentile(50).map(|ns| ns / MS), charted)
    };
    let steps = calls(10, 95 * MS);
    // The chart is without the last second, which is not whole.
    assert_eq!(of(&steps, steps.window()), (50, Some(95), 40));
    let (each, p50, _) = of(&steps, steps.recording());
    assert_eq!((each, p50), (40, Some(95)), "the first call is left out");
    assert_eq!(steps.totals()["decode"].steps, 4);
    for (per_call, ns, why) in [(10, 80 * MS, "they cover too little"), (1, 990 * MS, "one")] {
        let calls = calls(per_call, ns);
        assert_eq!(of(&calls, calls.window()), (4, Some(1000), 3), "{why}");
    }
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
    assert_eq!((counts.work, counts.outside, counts.unattributed), (4, 2, 2));
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
    let options = Options { tokens_in_payload: vec!["decode".into()] };
    let mut told = Process { options, ..process() };
    steps(&mut told, 3);
    told.finish();
    assert_eq!(tokens(&told), (6, 3));
}

#[test]
fn steps_of_an_engine_have_their_kind_requests_and_tokens_by_fields_and_by_names() {
    let mut process = process();
    let step = |process: &mut Process, range: u64, path: u32, fields: Vec<Field>| {
        let at = S + range * 10 * MS;
        let Record::RangeOpen(open) = opened(range, at) else { unreachable!("it opens") };
        process.push(Record::RangeOpen(RangeOpen { path, ..open }));
        process.push(Record::RangeFields { range, fields });
        process.push(Record::RangeClose { range, end: MonoNs(at + 10 * MS) });
    };
    let names = [
        (5, "decode_requests"),
        (6, "decode_tokens"),
        (7, "execute_context_1(32)_generation_4(4)"),
        (8, "execute_context_0(0)_generation_0(0)"),
    ];
    for (id, name) in names {
        process.push(Record::Name { id, bytes: name.into() });
    }
    // By its fields, in the range `decode`; 31 requests, and as many drafted tokens again.
    let field = |name, value| Field { name, value: FieldValue::U64(value) };
    step(&mut process, 1, 1, vec![field(5, 31), field(6, 62)]);
    step(&mut process, 2, 1, vec![field(5, 33), field(6, 66)]);
    // By its name; the last one holds no work.
    for id in [7, 8] {
        process.push(Record::Path(Path { id, parent: 0, name: id, domain: 0 }));
    }
    step(&mut process, 3, 7, Vec::new());
    step(&mut process, 4, 8, Vec::new());
    process.finish();
    let totals = process.totals();
    let of = |stage: &str| {
        let numbers = &totals[stage];
        (numbers.steps, numbers.tokens, numbers.requests_per_step())
    };
    // How many of the drafted ones are accepted is not known: as in a report, none counts.
    assert_eq!(of("decode"), (2, 64, Some(32.0)));
    assert_eq!(of("mixed"), (1, 36, Some(5.0)));
    assert_eq!(totals.len(), 2, "{:?}", totals.keys());
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
    let decode = &totals["decode"];
    assert_eq!((decode.steps, decode.recorded_steps, decode.window_ns), (10, 5, 50 * MS));
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
fn readings_of_a_gpu_add_up_to_what_is_known_of_it() {
    let mut process = process();
    process.push(Record::Device(Device { id: 0, memory_bytes: 80 << 30, ..Device::default() }));
    assert!(process.gpus().is_empty(), "the driver said nothing yet");
    let full = DeviceState {
        power_mw: Some(400_000),
        sm_clock_mhz: Some(1_000),
        clock_reasons: Some(4),
        memory_used_bytes: 20 << 30,
        ..DeviceState::default()
    };
    process.push(Record::DeviceState(full));
    let (at, clock) = (MonoNs(2 * S), Some(1_980));
    let short = DeviceState { at, sm_clock_mhz: clock, ..DeviceState::default() };
    process.push(Record::DeviceState(short));
    let expected = GpuState {
        power_mw: Some(400_000),
        sm_clock_mhz: Some(1_980),
        clock_reasons: Some(4),
        memory_used_bytes: Some(20 << 30),
        memory_bytes: Some(80 << 30),
        ..GpuState::default()
    };
    assert_eq!(process.gpus(), std::slice::from_ref(&expected));
    // Nothing is read since, and the data goes on.
    process.push(opened(1, 9 * S));
    assert_eq!(process.gpus(), [GpuState { age_ns: 7 * S, ..expected }]);
    for device in 0..1_000 {
        process.push(Record::DeviceState(DeviceState { device, ..short }));
    }
    assert_eq!(process.gpus().len(), DEVICES);
}

#[test]
fn the_rank_is_that_in_the_largest_communicator_unless_several_are_of_one_process() {
    let mut process = process();
    for (id, name) in [(11, "No. of ranks"), (12, "Rank")] {
        process.push(Record::Name { id, bytes: name.into() });
    }
    let mut told = |members: u64, rank: u64| {
        let field = |name, value| Field { name, value: FieldValue::U64(value) };
        let fields = vec![field(11, members), field(12, rank)];
        process.push(Record::RangeFields { range: 1, fields });
        process.rank_of_communicator()
    };
    assert_eq!(told(2, 2), None, "no rank of two");
    assert_eq!(told(2, 1), Some(1));
    assert_eq!(told(8, 5), Some(5));
    assert_eq!(told(2, 0), Some(5));
    assert_eq!(told(8, 6), None, "a thread for each of several GPUs");
}

#[test]
fn what_is_skimmed_leaves_definitions_and_open_ranges_only() {
    let mut process = process();
    process.skim(true);
    process.push(opened(1, S));
    process.push(opened(2, 20 * S));
    process.push(Record::RangeClose { range: 1, end: MonoNs(20 * S) });
    process.skim(false);
    process.push(kernel(2, 21 * S, 22 * S));
    process.push(Record::RangeClose { range: 2, end: MonoNs(30 * S) });
    process.push(Record::End { reason: "exit".into() });
    let window = process.window();
    let decode = &window.stages["decode"];
    assert_eq!((decode.steps, decode.launches, process.counts().attributed), (1, 1, 1));
    assert!(window.ns < 10 * S, "what was left out is no idle time: {}", window.ns);
    let mut process = self::process();
    process.skim(true);
    steps(&mut process, 50);
    process.push(Record::Name { id: 9, bytes: b"prefill".to_vec() });
    process.skim(false);
    process.push(Record::Path(Path { id: 9, parent: 0, name: 9, domain: 0 }));
    assert_eq!((process.counts().work, process.tables.place(9).stage.is_some()), (0, true));
    assert_eq!(process.tables.stage_name(process.tables.place(9).stage.unwrap()), "prefill");
}

#[test]
fn what_the_host_did_in_the_last_seconds_is_known_for_each_stage() {
    let mut process = process();
    process.push(Record::HostThread(HostThread {
        thread: 1,
        launches: true,
        ..HostThread::default()
    }));
    let sample = |at: u64| HostSample {
        at: MonoNs(S + at * MS),
        thread: 1,
        interval_ns: MS,
        ..HostSample::default()
    };
    // Every step of 10 ms has 2 ms without work; after 3 s, none runs.
    for second in 0..6 {
        if second < 3 {
            steps_from(&mut process, second * 100 + 1, second * 100 + 100);
        }
        let samples = second * 1_000 + 10..second * 1_000 + 1_010;
        process.push(Record::HostSamples(samples.map(sample).collect()));
    }
    let window = process.window();
    let host = &window.hosts["decode"];
    assert!(host.ns < window.host.ns, "{window:?}");
    let share = host.idle_ns as f64 / host.ns as f64;
    assert!((0.18..0.22).contains(&share), "{share}");
    let mut few = self::process();
    steps(&mut few, 300);
    few.is_current();
    assert!(few.window().hosts.is_empty());
}
