use std::path::Path;

use proptest::prelude::*;
use stage2_contract::control::START_COST;
use stage2_contract::stats::Histogram;
use stage2_live::{
    Counter, Counts, DeviceBusy, GpuState, HostIdle, KernelRow, Minute, Options, Source, Watch,
    Window,
};
use stage2_model::{HostCause, HostCauseKind, HostFrame};
use stage2_read::trace::stats::Series;

use super::help::HELP;
use super::*;

fn process(pid: u32, rank: u64) -> Watched {
    let mut decode = StageNumbers {
        steps: 200,
        recorded_steps: 200,
        window_ns: 9_000_000_000,
        busy_ns: 6_300_000_000,
        gaps_ns: 900_000_000,
        launches: 8_000,
        requests: 6_400,
        steps_with_requests: 200,
        ..StageNumbers::default()
    };
    (0..200u64).for_each(|at| {
        decode.step_times.push(40_000_000 + at * 100_000);
    });
    (decode.class_ns[1], decode.class_ns[2]) = (5_000_000_000, 1_500_000_000);
    let prefill = StageNumbers { steps: 10, launches: 9, ..decode.clone() };
    let kernel = |name: &str, ns| {
        let (stage, name) = ("decode".to_owned(), name.to_owned());
        KernelRow { stage, name, class: 1, ns, launches: 1_000, quick_ns: None }
    };
    let names =
        ["gemm_a", "gemm_b", "flash_fwd", "rms_norm", "rope", "silu", "add", "copy", "cast"];
    Watched {
        host: "node-1".into(),
        pid,
        rank: Some(rank),
        state: FileState::Growing,
        window: Window {
            ns: 10_000_000_000,
            end_wall_ns: Some(100_000_000_000),
            stages: [("decode".to_owned(), decode), ("prefill".to_owned(), prefill)].into(),
            kernels: names
                .iter()
                .zip(1u64..)
                .map(|(name, at)| kernel(name, 5_000_000_000 / at))
                .collect(),
            devices: vec![DeviceBusy { device: 0, busy_ns: 6_500_000_000 }],
            host: host(),
            minute: Minute {
                steps: [("decode".to_owned(), vec![(20, 800_000_000), (0, 0), (10, 600_000_000)])]
                    .into(),
                busy_ns: vec![0, 500_000_000, 1_000_000_000],
            },
            ..Window::default()
        },
        gpus: vec![GpuState {
            device: 0,
            power_mw: Some(412_300),
            sm_clock_mhz: Some(1_980),
            memory_clock_mhz: Some(2_619),
            temperature_c: Some(61),
            clock_reasons: (rank == 0).then_some(4),
            memory_used_bytes: Some(20 << 30),
            memory_bytes: Some(80 << 30),
            age_ns: 0,
        }],
        counts: Counts {
            work: 1_000_000,
            attributed: 998_000,
            outside: 2_000,
            ..Counts::default()
        },
        ..Watched::default()
    }
}

fn host() -> HostIdle {
    let cause = |kind, line, percent| HostCause {
        kind,
        frame: Some(HostFrame {
            function: "Scheduler.schedule".into(),
            file: "vllm/v1/core/sched/scheduler.py".into(),
            line,
        }),
        thread: (kind == HostCauseKind::Gil).then(|| "detokenizer".into()),
        percent,
        ..HostCause::default()
    };
    HostIdle {
        ns: 10_000_000_000,
        idle_ns: 3_500_000_000,
        samples: 350,
        causes: vec![
            cause(HostCauseKind::EngineCode, 212, 41.0),
            cause(HostCauseKind::Gil, 99, 22.0),
            cause(HostCauseKind::Lock, 7, 9.0),
            cause(HostCauseKind::Sleep, 8, 3.0),
        ],
        ..HostIdle::default()
    }
}

fn view() -> View {
    View {
        name: "tmp/stage2/latest".into(),
        look: Look { processes: vec![process(71, 0), process(72, 1)], ..Look::default() },
        phases: vec![(72, "stopping".into())],
        now_ns: 103_200_000_000,
        state: State::default(),
        ..View::default()
    }
}

fn text(view: &View, width: usize, height: usize) -> Vec<String> {
    page(view, width, height).iter().map(ToString::to_string).collect()
}

#[test]
fn all_that_matters_fits_into_80_by_24_without_colour() {
    let shown = text(&view(), 80, 24);
    assert_eq!(shown.len(), 24);
    assert!(shown.iter().all(|line| line.chars().count() <= 80), "{shown:#?}");
    let whole = shown.join("\n");
    let parts = "2 processes, 2 recording|3 s behind  last 10 s|placed 100%|in ranges 99.8%|> decode|  prefill|\
                 gemm|attention|flash_fwd|71 node-1|stopping|70.0%|q quit";
    for part in parts.split('|') {
        assert!(whole.contains(part), "{part} is not in\n{whole}");
    }
    let mut begun = view();
    begun.look.is_reading = true;
    (begun.look.processes[0].bytes, begun.look.behind_bytes) = (120 << 20, 180 << 20);
    begun.phases.clear();
    let shown_first = text(&begun, 80, 24);
    assert!(shown_first[0].ends_with("2 processes  reading 120 of 300 MB"), "{shown_first:#?}");
    begun.look.reading_left_s = Some(9);
    let first = text(&begun, 80, 24).swap_remove(0);
    assert!(first.ends_with("reading 120 of 300 MB, 9 s left"), "{first}");
    // Numbers that were shown stay.
    let mut later = begun.clone();
    (later.look.is_reading, later.look.catches_up) = (false, true);
    later.look.processes[1].is_behind = true;
    let shown_later = text(&later, 80, 24);
    assert!(
        shown_later[0].contains("3 s behind, reading 120 of 300 MB, 9 s left"),
        "{shown_later:#?}"
    );
    let row = shown_later.iter().find(|line| line.contains(" 72 node-1")).expect("a process");
    assert!(row.contains(" reading ") && row.contains("50.0"), "{shown_later:#?}");
    let whole = shown_first.join("\n");
    assert!(
        whole.contains("  read 40.0% of the trace files; numbers follow when all is read")
            && whole.contains(" reading "),
        "{whole}"
    );
    // What is read so far would look like all of it.
    for part in ["decode", "gemm", "placed", "49.8", "NO WORK"] {
        assert!(!whole.contains(part), "{part} is in\n{whole}");
    }
    let decode = shown.iter().find(|line| line.starts_with("> decode")).expect("a row");
    let numbers: Vec<&str> = decode.split_whitespace().skip(2).collect();
    // 200 steps in 10 s, of 40 to 60 ms and 32 requests; 70 % of the time in steps busy, 10 % in gaps.
    let expected = ["step", "50.0", "59.7", "70.0%", "10.0%", "20.0%", "32.0", "20.0", "steps/s"];
    assert_eq!(numbers, expected, "{decode}");
    let small = text(&view(), 80, 16).join("\n");
    assert!(small.contains(" others ") && small.contains("q quit"), "{small}");
    let styles = page(&view(), 80, 24);
    let spans = styles.iter().flat_map(|line| &line.spans).map(|span| span.style);
    let mut all = spans.chain(styles.iter().map(|line| line.style));
    assert!(all.all(|style| style.fg.is_none() && style.bg.is_none()));
}

#[test]
fn colour_adds_nothing_to_what_the_page_says() {
    let mut coloured = view();
    coloured.look.processes[1].state = FileState::Cut;
    let plain = text(&coloured, 80, 24);
    coloured.has_colour = true;
    assert_eq!(text(&coloured, 80, 24), plain);
    let lines = page(&coloured, 80, 24);
    let of = |colour| {
        let its = lines.iter().filter(|line| line.style.fg == Some(colour));
        its.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(of(Color::Green).iter().all(|line| line.contains('▁') || line.contains('█')));
    let yellow = of(Color::Yellow);
    assert!(yellow[0].contains("lost ?") && yellow[1].contains(" cut "), "{yellow:#?}");
    assert_eq!((of(Color::Green).len(), of(Color::Red).len()), (2, 0));
}

/// Hazard (Watching what runs): One rank of many is to be looked at.
/// Promise: It can be chosen in the order of the rows, is always among them, and all other tables are of it alone.
#[test]
fn one_process_can_be_shown_alone() {
    let mut view = view();
    view.look.processes.extend((2..40).map(|rank| process(71 + rank as u32, rank)));
    view.look.processes[1].window.kernels.truncate(1);
    let all = text(&view, 80, 50).join("\n");
    assert!(all.contains("flash_fwd") && all.contains(" more processes (left, right"), "{all}");
    let (mut seen, below, above) = (Vec::new(), true, false);
    while let Some(next) =
        neighbour(&view, below).filter(|next| Some(next) != view.state.only.as_ref())
    {
        view.state.only = Some(next.clone());
        let shown = text(&view, 80, 50);
        let rows: Vec<&String> = shown.iter().filter(|line| line.starts_with("> ")).collect();
        assert!(rows.len() == 2 && rows[1].contains(&next.1.to_string()), "{shown:#?}");
        let whose = format!("STAGE of rank {} ", next.1 - 71);
        let narrow = text(&view, 60, 20);
        assert!(narrow.iter().any(|line| line.starts_with("  STAGE     PER")), "{narrow:#?}");
        assert!(shown.iter().any(|line| line.contains(&whose)), "{shown:#?}");
        let has_all = shown.join("\n").contains("flash_fwd");
        assert_eq!(has_all, next.1 != 72, "{shown:#?}");
        seen.push(next.1);
    }
    assert_eq!(seen, (71..111).collect::<Vec<_>>());
    view.state.only = neighbour(&view, above);
    assert_eq!(view.state.only, Some(("node-1".to_owned(), 109)));
    view.state.only = Some(("node-1".to_owned(), 71));
    assert_eq!(neighbour(&view, above), None, "all again");
    // It has ended, and is no longer there.
    view.state.only = Some(("node-1".to_owned(), 9));
    assert!(text(&view, 80, 50).join("\n").contains("flash_fwd"));
}

#[test]
fn kernels_below_the_first_ones_can_be_scrolled_to() {
    let mut view = view();
    assert_eq!(kernels(&view), 9);
    let shown = |view: &View| {
        let lines = text(view, 80, 24);
        let at = lines.iter().position(|line| line.contains("KERNEL")).expect("a title");
        (lines[at].contains("KERNEL IN decode, from 2"), lines[at + 1].contains("gemm_b"))
    };
    assert_eq!(shown(&view), (false, false));
    view.state.above = 1;
    assert_eq!(shown(&view), (true, true));
    // A key scrolls by what is shown, so that none is passed over: the last line is the sum of the others.
    let lines = text(&view, 80, 24);
    let at = lines.iter().position(|line| line.contains("KERNEL IN")).expect("a title");
    let others = lines[at + 1..].iter().position(|line| line.contains(" others"));
    assert_eq!(view.kernels_shown.get(), others.unwrap_or(4), "{lines:#?}");
    // The last page is full, also where a later terminal has more lines.
    view.state.above = 99;
    for height in [24, 40] {
        let lines = text(&view, 80, height).join("\n");
        assert!(lines.contains(" cast ") && !lines.contains(" others"), "{lines}");
        let shown = 9 - view.kernels_above.get();
        assert!(shown > 4 && view.kernels_shown.get() == shown, "{shown} in {height} lines");
    }
}

/// Hazard (Watching what runs): Copies are in the classes and not in the whole that their shares are of.
/// Promise: The shares of the kernels' classes add up to 100 %, and those of copies say that they come on top.
#[test]
fn the_shares_of_the_classes_add_up_and_copies_come_on_top() {
    let label = |class: &u8| stage2_live::class_label(*class);
    let number = |wanted: &str| (0..u8::MAX).find(|class| label(class) == wanted).expect("a class");
    let of = |copies: &[(&str, u64)], height: usize| {
        let mut view = view();
        view.look.processes.truncate(1);
        let decode = view.look.processes[0].window.stages.get_mut("decode").expect("a stage");
        for (class, ns) in copies {
            decode.class_ns[usize::from(number(class))] = *ns;
        }
        let shown = text(&view, 80, height);
        let at = shown.iter().position(|line| line.contains("CLASS")).expect("a title");
        let rows = shown[at + 1..].iter().map(|line| line[..25].trim().to_owned());
        rows.take_while(|row| row.ends_with('%')).collect::<Vec<_>>()
    };
    let row = |class: &str, share: &str| format!("{class:14} {share:>6}");
    let kernels = [row("gemm", "76.9%"), row("attention", "23.1%")];
    assert_eq!(of(&[], 40), kernels);
    let with = |last: String| [&kernels[..], &[last]].concat();
    assert_eq!(of(&[("memcpy", 65_000_000)], 40), with(row("memcpy", "+1.0%")));
    let both = [("memcpy", 6_500_000_000), ("memset", 6_500_000_000)];
    assert_eq!(of(&both, 40), with(row("copies, fills", "+200%")));
}

/// Hazard (Watching what runs): What limits a stage has to be gathered from the columns and tables of a whole page.
/// Promise: The third line states it for the selected stage, with how much of the time it takes.
#[test]
fn what_limits_the_stage_is_in_the_first_lines() {
    let answer = |parts: [u64; 3], width: usize| {
        let mut view = view();
        for process in &mut view.look.processes {
            let decode = process.window.stages.get_mut("decode").expect("a stage");
            [decode.busy_ns, decode.gaps_ns, decode.other_ns] = parts.map(|of| of * 90_000_000);
        }
        text(&view, width, 24).swap_remove(2)
    };
    let works = "decode: GPU works 70.0% of the time, gemm 76.9% of its kernel time";
    assert_eq!(answer([70, 10, 0], 80), works);
    assert_eq!(
        answer([20, 70, 0], 80),
        "decode: gaps between launches take 70.0% of the time, GPU work 20.0%"
    );
    assert_eq!(answer([20, 10, 60], 80), "decode: GPU works for other stages 60.0% of the time");
    let idle = "decode: GPU idle 70.0%, first cause: Scheduler.schedule (scheduler.py:212)";
    assert_eq!(answer([20, 10, 0], 80), idle);
    let with = |start: &str| idle.replace("70.0%", start);
    assert_eq!(answer([20, 10, 0], 120), with("70.0% of the time"));
    assert!(answer([20, 10, 0], 70).ends_with(" …schedule (scheduler.py:212)"));
}

/// Hazard (Watching what runs): The host waits for the GPU, and the wait is taken for what the GPU waits for.
/// Promise: The page says that the host is ahead, as a report does, and names another cause only as what it is.
#[test]
fn a_wait_for_the_gpu_is_no_cause() {
    let page = |calls: [(&str, f64); 2], parts: [u64; 2]| {
        let mut view = view();
        view.look.processes.truncate(1);
        let process = &mut view.look.processes[0];
        let decode = process.window.stages.get_mut("decode").expect("a stage");
        [decode.busy_ns, decode.gaps_ns] = parts.map(|of| of * 90_000_000);
        let waits = calls.map(|(call, percent)| HostCause {
            kind: HostCauseKind::CudaCall,
            called: Some(call.into()),
            percent,
            ..HostCause::default()
        });
        process.window.host.causes.extend(waits);
        let shown = text(&view, 80, 24);
        (shown[2].clone(), of_hosts(&shown)[0].trim_end().to_owned())
    };
    let two = [("cuStreamSynchronize", 36.0), ("cuMemcpyDtoHAsync", 19.0)];
    let ahead = "host ahead of the GPU (waits in cuStreamSynchronize)";
    let (answer, first) = page(two, [20, 10]);
    assert_eq!(answer, format!("decode: GPU idle 70.0%, {ahead}"));
    assert!(first.ends_with(&format!("  55.0%  {ahead}")), "{first}");
    let (answer, _) = page(two, [20, 70]);
    assert!(answer.starts_with("decode: gaps in GPU work take 70.0%, host ahead "), "{answer}");
    // Less than half of the time does not decide, and a call that is no wait is a cause.
    let (answer, first) = page([two[0], ("cuMemAlloc", 1.0)], [20, 10]);
    assert!(answer.contains("first cause: Scheduler.schedule"), "{answer}");
    assert!(first.contains("41.0%  Scheduler.schedule"), "{first}");
    let (answer, _) = page([("cuStreamSynchronize", 45.0), ("cuMemAlloc", 46.0)], [20, 10]);
    assert!(answer.ends_with(", first cause: blocked in cuMemAlloc"), "{answer}");
}

/// Hazard (Watching what runs): The settings of a run state its tokens, and its page has no rate until there is a report.
/// Promise: It has one while the run goes on: that of the steps of the decode, and of the prefill before each decode.
#[test]
fn tokens_that_the_settings_state_have_a_rate() {
    let mut view = view();
    view.look.processes.truncate(1);
    for (name, within) in [("decode", 640), ("prefill", 0)] {
        let sum = view.look.processes[0].window.stages.get_mut(name).expect("a stage");
        (sum.steps, sum.within) = (10, within);
        (sum.requests, sum.steps_with_requests) = (0, 0);
    }
    let counts = |batch, prompt| TokenCounts {
        batch_size: batch,
        prompt_tokens: prompt,
        ..TokenCounts::default()
    };
    let rates = |view: &View| rows(view).iter().map(|row| row.tokens_per_s).collect::<Vec<_>>();
    for (tokens, rate) in [
        (counts(Some(2), Some(512)), [Some(128.0), Some(1_024.0)]),
        (counts(Some(2), None), [Some(128.0), None]),
        (counts(None, Some(512)), [None, None]),
    ] {
        view.tokens_set = vec![("run".into(), tokens)];
        assert_eq!(rates(&view), rate);
    }
    // A prefill of several calls before a decode.
    view.tokens_set = vec![("run".into(), counts(Some(2), Some(512)))];
    view.look.processes[0].window.stages.get_mut("prefill").expect("a stage").steps = 40;
    assert_eq!(rates(&view), [Some(128.0), None]);
}

#[test]
fn a_dormant_process_is_recorded_at_the_press_of_a_key_and_the_page_says_which() {
    let processes = vec![Watched { pid: 7, ..Watched::default() }];
    let look = Look { processes, ..Look::default() };
    let dormant = View { look, phases: vec![(7, "dormant".to_owned())], ..View::default() };
    let shown = text(&dormant, 80, 24);
    assert!(shown[0].contains("1 process, 1 dormant"), "{shown:#?}");
    assert_eq!(shown[3], "  1 process dormant: press s to record");
    // Where there is no stage, the page says why.
    let why = |view: &View| text(view, 80, 24).swap_remove(3);
    assert_eq!(why(&View::default()), "  no process has a trace file yet");
    // Recording has begun, perhaps again: what ran is recorded, and no number is final.
    let counts = Counts { work: 4_865, ..Counts::default() };
    let look =
        Look { processes: vec![Watched { counts, ..Watched::default() }], ..Look::default() };
    let begun = View { look, ..View::default() };
    assert_eq!(why(&begun), "  first numbers in 2 s");
    assert!(text(&begun, 80, 24)[0].ends_with("  first numbers in 2 s"));
    let look = Look { hosts: Some((0, 2)), ..Look::default() };
    assert_eq!(why(&View { look, ..View::default() }), "  no host answers");
    let look = Look { processes: vec![Watched::default()], ..Look::default() };
    assert!(why(&View { look, ..View::default() }).contains("nothing has run in the last 10 s"));
}

#[test]
fn a_question_names_what_it_costs() {
    let mut view = view();
    view.state.asked = Some(Switch::Start([71, 72].into()));
    let shown = text(&view, 80, 24);
    let at =
        shown.iter().position(|line| line.starts_with("start recording 2 processes? y: start"));
    let cost = shown[at.expect("a question") + 1..23].join(" ");
    assert_eq!(cost.split_whitespace().collect::<Vec<_>>().join(" "), START_COST);
    view.state.asked = Some(Switch::Stop([72].into()));
    let shown = text(&view, 80, 24);
    assert_eq!(shown[22], "stop recording process 72? y: stop, any other key: no");
    // What the key would do is of the process that is shown alone.
    view.state.asked = None;
    view.phases = vec![(71, "on".into()), (72, "dormant".into())];
    let mut keys = |only: Option<u32>| {
        view.state.only = only.map(|pid| ("node-1".to_owned(), pid));
        text(&view, 80, 24).pop().unwrap_or_default()
    };
    assert!(keys(None).contains("  s stop") && keys(Some(71)).contains("  s stop"));
    assert!(keys(Some(72)).contains("  s record"));
}

/// Hazard (Watching what runs): Rows of processes are left out, and texts cut, above empty lines; and a process that is shown
///  alone has the message of another one.
/// Promise: As long as lines are free, each process has its row and its whole reason.
#[test]
fn no_row_is_missing_while_lines_are_free() {
    let mut view = view();
    view.look.processes = (0..3).map(|rank| process(71 + rank as u32, rank)).collect();
    view.phases.clear();
    for process in &mut view.look.processes {
        process.counts = Counts::default();
        process.window.kernels.clear();
        process.window.minute = Minute::default();
        process.gpus.clear();
        process.window.stages.values_mut().for_each(|sum| {
            (sum.busy_ns, sum.gaps_ns, sum.launches, sum.class_ns) = (0, 0, 0, Default::default());
        });
        let why =
            "idle time is not known: no GPU work is recorded, because this GPU has no counters";
        process.window.host = HostIdle { why_none: Some(why.into()), ..HostIdle::default() };
    }
    view.look.processes[0].notes = vec!["no GPU work is recorded".into()];
    let shown = text(&view, 80, 24);
    let whole = shown.join("\n");
    for rank in ["    rank 0 ", "    rank 1 ", "    rank 2 ", "     2      73 "] {
        assert!(whole.contains(rank), "{rank} is not in\n{whole}");
    }
    assert_eq!(whole.matches("has no counters").count(), 3, "{whole}");
    assert!(whole.contains("71: no GPU work is recorded"), "{whole}");
    view.state.only = Some(("node-1".into(), 72));
    let alone = text(&view, 80, 24).join("\n");
    assert!(!alone.contains("71: no GPU work"), "{alone}");
    // Where there is no room, the page counts what is missing.
    view.state.only = None;
    view.look.processes = (0..30).map(|rank| process(71 + rank as u32, rank)).collect();
    let shown = text(&view, 80, 24).join("\n");
    assert_eq!(shown.matches("more processes (left, right").count(), 2, "{shown}");
}

/// Hazard (Watching what runs): A young process is watched, and one page speaks of 3.5 s and of 10 s.
/// Promise: Its tables are of the time that the first line names. A terminal of any width says which run it is.
#[test]
fn a_page_has_one_window_and_names_its_run() {
    let mut view = view();
    view.look.processes.iter_mut().for_each(|process| process.window.ns = 3_500_000_000);
    view.name = "vllm-sorting-of-friday".into();
    let shown = text(&view, 120, 40);
    assert!(shown[0].ends_with("3 s behind  last 3.5 s"), "{}", shown[0]);
    assert!(shown.iter().any(|line| line.contains("(all stages, last 3.5 s)")), "{shown:#?}");
    for (width, name, end) in [
        (120, "stage2 top  vllm-sorting-of-friday  2 processes", "last 3.5 s"),
        (80, "vllm-sorting-of-friday  2 processes", "last 3.5 s"),
        (60, "vllm-sor", "2 recording  3 s behind"),
        (40, "vllm-", "last 3.5 s"),
        (30, "vllm-", "3 s behind"),
    ] {
        let first = &text(&view, width, 24)[0];
        assert!(first.starts_with(name) && first.ends_with(end), "{width}: {first}");
        // And no number of the second line is cut.
        let second = &text(&view, width, 24)[1];
        let parts = ["99.8%", "placed 100%", "2,000,000", "lost 0"];
        assert!(parts.iter().any(|part| second.ends_with(part)), "{second}");
    }
}

/// Hazard (Watching what runs): Counters are sampled no more, and their last values stand there as if they were new.
/// Promise: Their age is said.
#[test]
fn old_readings_say_their_age() {
    let mut view = view();
    view.look.processes.truncate(1);
    view.look.processes[0].gpus[0].age_ns = 7_000_000_000;
    view.look.processes[0].counters =
        vec![Counter { age_ns: 12_400_000_000, ..counter(0, "dram__bytes_read.sum", 3e11) }];
    let shown = text(&view, 120, 40).join("\n");
    assert!(shown.contains("GPU0 (7 s old) 412 W"), "{shown}");
    assert!(shown.contains("GPU0 (12 s old) DRAM 300 GB/s"), "{shown}");
    view.look.processes[0].gpus[0].age_ns = 2_000_000_000;
    assert!(!text(&view, 120, 40).join("\n").contains("(2 s old)"));
}

#[test]
fn messages_leave_one_stage_its_row() {
    let mut view = view();
    view.ended = Some("Ended; report: /srv/of/a/long/name/stage2/run-7/report.html".into());
    view.look.problems = vec!["/tmp/a.s2t is damaged at byte 7, and what follows is lost".into()];
    let shown = text(&view, 40, 8);
    assert!(shown.iter().any(|line| line.starts_with("> decode")), "{shown:#?}");
    assert!(shown[4].starts_with("/tmp/a.s2t is damaged"), "{shown:#?}");
    assert!(shown[5].starts_with("Ended;") && shown[7].starts_with("q quit"), "{shown:#?}");
}

#[test]
fn rows_of_several_runs_name_the_run_and_lines_of_gpus_the_process() {
    let mut view = view();
    for (process, run) in view.look.processes.iter_mut().zip(["run-a", "run-b"]) {
        process.rank = None;
        process.file = format!("/srv/{run}/collector/node-1-{}.s2t", process.pid);
        process.counters = vec![counter(0, "dram__bytes_read.sum", 3e11)];
    }
    let shown = text(&view, 80, 30);
    let has =
        |parts: &[&str]| shown.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(has(&["RANK", "RUN"]) && has(&[" 71 run-a "]) && has(&[" 72 run-b "]), "{shown:#?}");
    assert!(has(&["  71 GPU0 DRAM"]) && has(&["  72 GPU0 412 W"]), "{shown:#?}");
    assert!(has(&["> run-a decode "]) && has(&["  run-b decode "]), "{shown:#?}");
    assert!(has(&["KERNEL IN decode of run-a "]) && has(&["(all stages of run-a,"]), "{shown:#?}");
    // Of one run, the host.
    view.look.processes[1].file = "/srv/run-a/collector/node-1-72.s2t".to_owned();
    let shown = text(&view, 80, 30).join("\n");
    assert!(shown.contains(" 72 node-1 ") && !shown.contains("RUN"), "{shown}");
    assert!(!shown.contains(" runs "), "{shown}");
    for (process, window) in view.look.processes.iter_mut().zip(["w1", "w2"]) {
        process.file = format!("/srv/run-a/windows/{window}/collector/node-1-7.s2t");
    }
    assert!(!text(&view, 80, 30).join("\n").contains("RUN"), "windows of one run");
}

#[test]
fn the_last_minute_is_a_column_a_second_and_ends_with_the_newest() {
    let lines = text(&view(), 80, 24);
    let find = |start: &str| {
        let found = lines.iter().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("{start} is not in {lines:#?}")).as_str()
    };
    // 40 ms, no step, 60 ms; an idle GPU is a low bar and no gap.
    let older = " ".repeat(43);
    assert_eq!(find("  STEP ms"), format!("  STEP ms, last 46 s  {older}▆ █ 40.0-60.0"));
    assert_eq!(find("  GPU,"), format!("  GPU, last 46 s      {older}▁▅█ 0.0%-100%"));
    let gpu = "GPU0 412 W 1980 MHz memory 2619 MHz 61 C 20.0 of 80.0 GiB";
    let limited = format!("  rank 0 {gpu} ! power limit");
    assert_eq!(find("  rank 0"), limited, "one line at 80 columns");
    let wide = text(&view(), 200, 50);
    let both = format!("{limited}   rank 1 {gpu}");
    assert!(wide.contains(&both), "{wide:#?}");
    // Another stage has no steps in this minute.
    let mut other = view();
    other.state.chosen = 1;
    assert!(!text(&other, 80, 24).iter().any(|line| line.contains("STEP ms")));
}

/// Hazard (Watching what runs): A job has more GPUs than the page has lines.
/// Promise: A line shows the lowest and the highest value of all of them, and how many are held down.
#[test]
fn many_gpus_are_one_line_where_there_is_no_room_for_each() {
    let mut view = view();
    view.look.processes = (0..8).map(|rank| process(71 + rank as u32, rank)).collect();
    view.look.processes[7].gpus[0].power_mw = Some(97_000);
    view.look.processes[7].gpus[0].memory_used_bytes = None;
    let find = |width: usize, height: usize| -> Vec<String> {
        text(&view, width, height).into_iter().filter(|line| line.contains(" C ")).collect()
    };
    let all = "  8 GPUs 97-412 W 1980 MHz memory 2619 MHz 61 C 20 of 80 GiB ! power limit on 1";
    assert_eq!(find(80, 24), [all]);
    let each = find(200, 60);
    assert!(each.len() == 3 && each[0].contains("rank 1 GPU0 412 W"), "{each:#?}");
}

/// Hazard (Watching what runs): A run ends while it is watched.
/// Promise: The page states it and the next step, above its keys.
#[test]
fn a_run_that_has_ended_says_what_to_do_next() {
    let mut view = view();
    view.ended = Some("Ended; w writes its report".into());
    view.look.problems = vec!["/tmp/a.s2t is damaged at byte 7".into()];
    let shown = text(&view, 80, 24);
    assert_eq!((shown[22].as_str(), shown.len()), (view.ended.as_deref().expect("told"), 24));
    assert!(shown[21].contains("damaged at byte 7") && shown[23].starts_with("q quit"));
    // A share shows it if a part of the work came late.
    let late = "Shares can differ from the report's, which include what came late";
    for (late_ns, is_said) in [(9_000_000, false), (11_000_000, true)] {
        let process = &mut view.look.processes[0];
        (process.late_ns, process.device_totals) = (late_ns, [(0, 10_000_000_000)].into());
        assert_eq!(text(&view, 80, 24).iter().any(|line| line == late), is_said);
    }
}

/// Hazard (Watching what runs): Several hosts are watched, and some do not answer.
/// Promise: The first line counts them, the page names them all, and reports other problems if there is room.
#[test]
fn hosts_that_do_not_answer_are_counted_and_named() {
    let mut view = view();
    view.look.hosts = Some((1, 3));
    view.look.problems =
        vec!["node-2:9464: nothing is listening there".into(), "node-3:9464: it is damaged".into()];
    view.look.processes[1].state = FileState::Unreachable;
    view.look.processes[1].is_suspect = true;
    view.look.processes[1].notes = vec!["process 8 on node-4 has rank 1, too".into()];
    view.phases.clear();
    let shown = text(&view, 80, 24);
    assert!(
        shown[0].starts_with("stage2 top  1 of 3 hosts answer  2 processes, 1 recording"),
        "{shown:#?}"
    );
    let foot = "node-2:9464: nothing is listening there; node-3:9464: it is damaged";
    assert_eq!(shown[22], foot);
    assert!(shown.iter().any(|line| line.contains(" no answer ")), "{shown:#?}");
    view.is_text = true;
    let shown = text(&view, 80, 26).join("\n");
    assert!(
        shown.contains(foot) && shown.contains("72: process 8 on node-4 has rank 1, too"),
        "{shown}"
    );
}

#[test]
fn numbers_stay_near_to_their_names_on_a_wide_terminal() {
    for line in text(&view(), 200, 50) {
        let gap = line.trim_end().split(|c: char| c != ' ').map(str::len).max();
        assert!(gap.unwrap_or(0) < 80, "{line}");
    }
}

#[test]
fn rows_are_sorted_by_what_the_user_asks_for_and_the_title_says_so() {
    let mut view = view();
    let slow = &mut view.look.processes[1];
    let steps = &mut slow.window.stages.get_mut("decode").expect("a stage").step_times;
    (0..400).for_each(|_| {
        steps.push(90_000_000);
    });
    for (process, ns) in view.look.processes.iter_mut().zip([5_000_000_000, 2_000_000_000]) {
        process.window.kernels[8].launches = 1;
        // Of 9 s in steps: what 1,000 launches took beyond 1 ms each.
        (process.window.kernels[0].ns, process.window.kernels[0].quick_ns) = (ns, Some(1_000_000));
    }
    let shown = text(&view, 80, 24).join("\n");
    assert!(shown.contains(" (11.1%)* ") && shown.contains(" (44.4%)  "), "{shown}");
    // Waiting is a part of the busy time, as in a report.
    assert!(shown.contains(" 70.0% (27.8%) 10.0% 20.0%"), "{shown}");
    assert!(shown.contains("  * rank 1 is late: the other rank waits for it"), "{shown}");
    let first = |view: &View| {
        let lines = text(view, 80, 24);
        let at = lines.iter().position(|line| line.contains("RANK")).expect("a title");
        let rank = lines[at + 1].split_whitespace().next().expect("a rank").to_owned();
        let title = lines[at].split_whitespace().find(|word| word.contains(['▾', '▴']));
        (rank, title.map(str::to_owned))
    };
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.push(first(&view));
        view.state.processes_by = view.state.processes_by.next();
    }
    let told = |rank: &str, title: Option<&str>| (rank.to_owned(), title.map(str::to_owned));
    let wanted = [
        told("0", None),
        told("1", Some("ms▾")),
        told("0", Some("BUSY▴")),
        told("1", Some("(WAIT▾)")),
        told("0", Some("LOST▾")),
    ];
    assert_eq!(expected, wanted);
    let kernels = |view: &View| {
        let lines = text(view, 80, 24);
        let at = lines.iter().position(|line| line.contains("KERNEL")).expect("a title");
        (lines[at].contains("MEAN us▾"), lines[at + 1].contains("cast"))
    };
    assert_eq!(kernels(&view), (false, false));
    view.state.kernels_by = KernelOrder::Mean;
    assert_eq!(kernels(&view), (true, true));
}

#[test]
fn a_file_that_was_cut_lost_nobody_knows_how_much() {
    let mut view = view();
    view.look.processes[0].is_torn = true;
    view.look.processes[1].state = FileState::Cut;
    view.look.processes[1].losses = vec![("range_events", 3)];
    view.phases.clear();
    let shown = text(&view, 80, 24);
    assert!(shown[0].contains("2 processes, 0 recording"), "{shown:#?}");
    assert!(shown[1].contains("lost 3+?"), "{shown:#?}");
    let ends = |pid: &str| {
        let row = shown.iter().rfind(|line| line.contains(pid)).expect("a row");
        row.split_whitespace().skip(3).map(str::to_owned).collect::<Vec<_>>()
    };
    let (torn, cut) = (ends("  71 "), ends("  72 "));
    assert_eq!((torn[0].as_str(), torn.last().map(String::as_str)), ("cut", Some("?")));
    assert_eq!((cut[0].as_str(), cut.last().map(String::as_str)), ("cut", Some("3+?")));
    // However much it is, the row is as wide as its title.
    for lost in [9_999, 10_000, 999_999, 1_000_000, 2_000_000_000, u64::MAX] {
        view.look.processes[1].losses = vec![("range_events", lost)];
        let shown = text(&view, 80, 24);
        let width = |part: &str| {
            let line = shown.iter().rfind(|line| line.contains(part)).expect("a line");
            line.trim_end().chars().count()
        };
        assert_eq!(width("  72 "), width("LOST"), "{lost}: {shown:#?}");
    }
    // Nobody heard of it for long, and it did not say that it ends.
    view.look.processes.truncate(1);
    view.look.processes[0].is_torn = false;
    view.now_ns += 60_000_000_000;
    let shown = text(&view, 80, 24);
    assert!(shown[0].contains("1 process, 0 recording"), "{shown:#?}");
    assert!(shown.join("\n").contains(" silent "), "{shown:#?}");
    // Its file states its end, or that it was about to end.
    view.look.processes[0].states_its_end = true;
    let shown = text(&view, 80, 24).join("\n");
    assert!(shown.contains(" ended ") && !shown.contains(" silent "), "{shown}");
    let process = &mut view.look.processes[0];
    (process.states_its_end, process.is_gone, process.is_cut_off) = (false, true, true);
    let shown = text(&view, 80, 24);
    assert!(shown[1].starts_with("lost ?") && shown.join("\n").contains(" killed "), "{shown:#?}");
}

#[test]
fn work_outside_of_ranges_is_never_the_first_stage() {
    let mut view = view();
    for process in &mut view.look.processes {
        let outside = process.window.stages["decode"].clone();
        process.window.stages.insert("(outside ranges)".to_owned(), outside);
    }
    let shown = text(&view, 80, 24);
    assert!(shown.iter().any(|line| line.starts_with("> decode")), "{shown:#?}");
    // Of a run that has ended it has no rate, and a row of marks would say less.
    for process in &mut view.look.processes {
        process.window.is_whole = true;
        let launches = process.window.stages["decode"].launches;
        let outside = StageNumbers { launches, ..StageNumbers::default() };
        process.window.stages.insert("(outside ranges)".to_owned(), outside);
    }
    let shown = text(&view, 80, 24);
    let row = shown.iter().find(|line| line.contains("(outside ranges)")).expect("a row");
    assert!(row.contains("  no calls; only its kernels are recorded"), "{shown:#?}");
}

/// The lines of the table of the host, without its title.
fn of_hosts(shown: &[String]) -> Vec<&str> {
    let title = shown.iter().position(|line| line.contains("NO WORK  SHARE"));
    let rest = shown.iter().skip(title.expect("a title") + 1);
    rest.take_while(|line| !line.contains("RANK")).map(|line| line.trim_end()).collect()
}

#[test]
fn the_causes_of_idle_time_have_a_line_each_and_more_where_there_is_room() {
    let mut view = view();
    let line = "Scheduler.schedule (scheduler.py:212)";
    let two = text(&view, 80, 24);
    let [first, second] =
        ["rank 0", "rank 1"].map(|who| format!("  {who:>8}   35.0%  41.0%  {line}; rest 59.0%"));
    let gil = "                    22.0%  GIL held by 'detokenizer' …schedule (scheduler.py:99)";
    assert_eq!(of_hosts(&two), [first.as_str(), second.as_str()], "{two:#?}");
    assert!(of_hosts(&text(&view, 100, 50)).len() == 6);
    view.look.processes.truncate(1);
    let one = text(&view, 80, 24);
    let alone = first.replace("; rest 59.0%", "");
    let expected = [
        alone.as_str(),
        gil,
        "                     9.0%  lock or a thread in …schedule (scheduler.py:7) …",
    ];
    assert_eq!(of_hosts(&one), expected, "{one:#?}");
    let wide = text(&view, 200, 50).join("\n");
    let whole = "waiting for the GIL held by 'detokenizer' in Scheduler.schedule (scheduler.py:99)";
    assert!(wide.contains(whole), "{wide}");
    // A page of text has all, and one for a program whole names.
    view.is_text = true;
    assert!(text(&view, 80, 50).join("\n").contains("sleeping in Scheduler.schedule"));
    let name = "k".repeat(300);
    view.look.processes[0].window.kernels[0].name.clone_from(&name);
    let mut two = view.clone();
    two.look.processes.push(process(72, 1));
    for (process, run) in two.look.processes.iter_mut().zip(["a", "b"]) {
        process.file = format!("/srv/{run}/collector/a.s2t");
    }
    assert!(text(&two, 80, 80).join("\n").contains("sleeping in Scheduler.schedule"));
    assert!(text(&view, UNCUT, 50).join("\n").contains(&name));
}

/// Hazard (Watching what runs): Of two runs one has ended, and its last rates look as if they were of now.
/// Promise: Next to a run that is recorded it has no rates, and its row has the age of its numbers.
#[test]
fn a_run_that_ended_next_to_a_live_one_has_its_age_and_no_rates() {
    let mut view = view();
    for (process, run) in view.look.processes.iter_mut().zip(["run-a", "run-b"]) {
        process.file = format!("/srv/{run}/collector/{}.s2t", process.pid);
        process.window.stages.get_mut("decode").expect("a stage").steps_with_tokens = 200;
        process.window.stages.get_mut("decode").expect("a stage").tokens = 2_000;
    }
    view.phases.clear();
    let rates = |view: &View| {
        let shown = text(view, 160, 40);
        let has = |run: &str, part: &str| {
            let mut row = shown.iter().filter(|line| line.contains(&format!("{run} decode ")));
            row.any(|line| line.contains(part))
        };
        ["run-a", "run-b"].map(|run| ["steps/s", " 200 ", " 800"].map(|part| has(run, part)))
    };
    assert_eq!(rates(&view), [[true; 3]; 2], "{:#?}", text(&view, 160, 40));
    let ended = &mut view.look.processes[1];
    (ended.state, ended.window.end_wall_ns) = (FileState::Ended, Some(1_000_000_000));
    view.now_ns = 303_200_000_000;
    view.look.processes[0].window.end_wall_ns = Some(300_000_000_000);
    assert_eq!(rates(&view), [[true; 3], [false; 3]], "{:#?}", text(&view, 160, 40));
    let shown = text(&view, 80, 30);
    let row = |pid: &str| shown.iter().find(|line| line.contains(pid)).expect("a row").clone();
    assert!(row(" 72 run-b").contains(" ended 5 min "), "{shown:#?}");
    assert!(row(" 71 run-a").contains(" recording  "), "{shown:#?}");
    // All have ended: the first line shows it.
    view.look.processes[0].state = FileState::Ended;
    assert_eq!(rates(&view), [[true; 3]; 2], "{:#?}", text(&view, 160, 40));
}

/// Processes of which the last one is late: its host waits for the GIL for longer than those of the others.
fn with_late_rank(ranks: u64) -> View {
    let mut view = view();
    view.look.processes = (0..ranks).map(|rank| process(71 + rank as u32, rank)).collect();
    for process in &mut view.look.processes {
        let is_late = process.rank == Some(ranks - 1);
        let kernel = &mut process.window.kernels[0];
        kernel.ns = if is_late { 2_000_000_000 } else { 5_000_000_000 };
        kernel.quick_ns = Some(1_000_000);
        let decode = process.window.stages.get_mut("decode").expect("a stage");
        (decode.tokens, decode.steps_with_tokens) = (6_400, 200);
        let of = |cause: &HostCause, percent: f64, error_percent: f64| HostCause {
            percent,
            error_percent,
            samples: 100,
            ..cause.clone()
        };
        let host = &mut process.window.host;
        let [code, gil, lock, sleep] = host.causes.as_slice() else { panic!("four causes") };
        let gil = HostCause { frame: None, thread: None, ..gil.clone() };
        host.spent = match is_late {
            true => vec![of(code, 40.0, 1.0), of(lock, 12.0, 1.0), of(&gil, 9.0, 0.5)],
            // Of the GIL there is no sample; the code takes as long, and the lock hardly less.
            false => vec![of(code, 40.0, 1.0), of(lock, 9.0, 1.0), of(sleep, 20.0, 1.0)],
        };
    }
    view
}

/// Hazard (Watching what runs): A rank is late, and what its host does most is not why: the hosts of the other ranks do
///  it for as long.
/// Promise: The page shows what its host does for longer, beyond chance, as a report does.
#[test]
fn a_late_rank_has_what_its_host_does_for_longer() {
    let lines = |view: &View, width: usize| {
        let shown = text(view, width, 24);
        let at = shown.iter().position(|line| line.contains(" is late")).expect("a late rank");
        let end = shown.iter().position(|line| line.starts_with("q quit")).expect("the keys");
        let lines = shown[at..end].iter().map(|line| line.trim_end().to_owned());
        lines.filter(|line| !line.is_empty()).collect::<Vec<_>>()
    };
    for (ranks, others) in [(2, "rank waits"), (8, "ranks wait")] {
        let view = with_late_rank(ranks);
        let late = format!("  * rank {} is late: the other {others} for it", ranks - 1);
        let gil = "    +9.00% of the time  waiting for the GIL";
        let first = format!("{late}. Its host spends more time on:");
        assert_eq!(lines(&view, 80), [first.as_str(), gil]);
        let first = format!("  * rank {} is late. Its host spends more time on:", ranks - 1);
        assert_eq!(lines(&view, 60), [first.as_str(), gil]);
        let shown = text(&view, 80, 24);
        let waits = format!("waits for rank {} ", ranks - 1);
        assert!(shown[2].starts_with("decode: ") && shown[2].contains(&waits), "{}", shown[2]);
        let stages = shown.iter().find(|line| line.contains("STAGE")).expect("a title");
        assert!(stages.contains("(WAIT)") && stages.ends_with(" REQS"), "{stages}");
    }
    // After the end, of the calls of the stage: 200 steps of 50 ms.
    let mut view = with_late_rank(2);
    for process in &mut view.look.processes {
        let host = process.window.host.clone();
        process.window.hosts.insert("decode".to_owned(), host);
    }
    assert_eq!(lines(&view, 80)[1], "    +4.50 ms/step  waiting for the GIL");
    view.look.processes[1].window.hosts.get_mut("decode").expect("it").spent.truncate(2);
    let why = "  * rank 1 is late: the other rank waits for it; samples do not show why";
    assert_eq!(lines(&view, 80), [why]);
    // A process without the stage is none of the others, and one that is not sampled tells nothing.
    view.look.processes[0].window.hosts.clear();
    view.look.processes[0].window.host.spent.clear();
    let idle =
        Watched { window: Window { host: host(), ..Window::default() }, ..Watched::default() };
    view.look.processes.push(idle);
    assert_eq!(lines(&view, 80), ["  * rank 1 is late: the other rank waits for it"]);
}

/// Hazard (Watching what runs): Keys act on another page than the one that is shown.
/// Promise: One process alone can be scrolled as all of them can.
/// Hazard (Watching what runs): Two runs are watched, and what is known of each hangs on the row that happens to be chosen.
/// Promise: Each run has the mark of its late rank and the reason, and stages that have no room are counted.
#[test]
fn each_of_two_runs_has_its_late_rank_and_its_names_stay_apart() {
    let mut view = with_late_rank(2);
    let mut others = with_late_rank(2).look.processes;
    others.iter_mut().for_each(|process| process.pid += 100);
    view.look.processes.extend(others);
    for (at, process) in view.look.processes.iter_mut().enumerate() {
        let run = if at < 2 { "vllm_sorting" } else { "vllm_two_gpus" };
        process.file = format!("/srv/{run}/collector/{at}.s2t");
        process.host = "node-1".to_owned();
    }
    // One that waits for a start has no file that names its run.
    let mut waiting = view.clone();
    waiting.look.processes.push(Watched { pid: 9, host: "node-1".into(), ..Watched::default() });
    waiting.phases.push((9, "dormant".to_owned()));
    for (runs, name) in
        [([(9, "vllm_later".to_owned())].into(), " vllm_later "), ([].into(), " - ")]
    {
        waiting.runs = runs;
        let shown = text(&waiting, 120, 60);
        let row = shown.iter().find(|line| line.contains(" 9 ")).expect("a row");
        assert!(row.contains(name) && row.contains(" dormant "), "{row}");
    }
    let rows = rows(&view).len();
    for chosen in 0..rows {
        view.state.chosen = chosen;
        if super::rows(&view)[chosen].name != "decode" {
            continue;
        }
        let shown = text(&view, 120, 60).join("\n");
        for run in ["vllm_sorting", "vllm_two_gpus"] {
            let late = format!("  * rank 1 of {run} is late: the other rank waits for it");
            assert!(shown.contains(&late), "{chosen}: {shown}");
        }
        assert_eq!(shown.matches(")*").count(), 2, "{chosen}: {shown}");
    }
    let shown = text(&view, 80, 16);
    let title = shown.iter().find(|line| line.contains("RUN")).expect("a title");
    assert!(rows == 4 && title.contains("STAGE 3/4"), "{shown:#?}");
}

#[test]
fn names_of_runs_lose_what_they_have_in_common_first() {
    let cut = |names: &[&str], width| {
        let of = runs::names_apart(names.iter().copied(), width);
        names.iter().map(|name| of[name].clone()).collect::<Vec<_>>()
    };
    let names = ["vllm_sorting", "vllm_two_gpus"];
    assert_eq!(cut(&names, 20), names);
    assert_eq!(cut(&names, 9), ["…sorting", "…two_gpus"]);
    assert_eq!(cut(&names, 6), ["…so…ng", "…tw…us"]);
    // No word loses its begin, and a name that is still too long keeps its end.
    assert_eq!(cut(&["serve-monday", "serve-morning"], 9), ["…monday", "…morning"]);
    assert_eq!(cut(&["a-long-word-here", "another-word"], 9), ["a-lo…here", "anot…word"]);
    assert_eq!(cut(&["run-a", "run-b"], 4), ["…a", "…b"]);
    // A part of a name that another one has whole.
    assert_eq!(cut(&["run", "run-b"], 4), ["run", "ru…b"]);
    assert_eq!(cut(&["a-long-name-1", "b-long-name-2"], 6).len(), 2);
}

#[test]
fn the_kernels_of_one_process_alone_can_be_scrolled() {
    let mut view = view();
    view.state.only = Some(("node-1".into(), 72));
    text(&view, 80, 24);
    assert!(view.kernels_shown.get() > 1);
}

/// Hazard (Watching what runs): Recording was stopped, and the page takes the process for one that was never recorded, or
///  its last window for the whole run.
/// Promise: The process is `stopped`, and the first line names what the numbers are of.
#[test]
fn a_process_whose_recording_was_stopped_is_no_dormant_one() {
    let mut view = view();
    view.look.processes.truncate(1);
    view.phases = vec![(71, "dormant".to_owned())];
    assert!(text(&view, 100, 24)[0].contains(", 1 dormant  "), "{:#?}", text(&view, 100, 24));
    view.look.processes[0].state = FileState::Ended;
    let shown = text(&view, 100, 24);
    assert!(shown[0].contains("0 recording, 1 stopped  "), "{shown:#?}");
    assert!(shown.iter().any(|line| line.contains(" stopped  ")), "{shown:#?}");
    view.look.processes[0].window.is_whole = true;
    // It may be recorded again.
    assert!(text(&view, 100, 24)[0].ends_with("  recorded so far"));
    let phases = std::mem::take(&mut view.phases);
    assert!(text(&view, 100, 24)[0].ends_with("  whole run"));
    view.phases = phases;
    view.look.processes[0].window.is_last = true;
    assert!(text(&view, 100, 24)[0].ends_with("  last window"));
}

/// Hazard (Watching what runs): A process whose recording stopped without work disappears next to one that was never
///  recorded.
/// Promise: Only a process with work hides those without.
#[test]
fn a_process_without_work_is_listed_next_to_a_dormant_one() {
    let mut view = view();
    let [stopped, dormant] = &mut view.look.processes[..] else { panic!("two processes") };
    for process in [&mut *stopped, &mut *dormant] {
        process.counts.work = 0;
    }
    stopped.state = FileState::Ended;
    (dormant.state, dormant.file) = (FileState::Waiting, String::new());
    let pids = |view: &View| -> Vec<u32> {
        processes::sorted_processes(view, None).iter().map(|process| process.pid).collect()
    };
    assert_eq!(pids(&view), [71, 72]);
    (view.look.processes[1].state, view.look.processes[1].counts.work) = (FileState::Growing, 9);
    assert_eq!(pids(&view), [71, 72], "it has calls, of which no GPU work is known");
    view.look.processes[0].window.stages.clear();
    assert_eq!(pids(&view), [72]);
}

/// Hazard (Watching what runs): A server that waits for requests looks like one whose data is old.
/// Promise: The page says that no GPU has worked, and for how long; after a run, it says nothing of that.
#[test]
fn an_idle_program_is_not_old_data() {
    let mut view = view();
    let second = |view: &View| text(view, 80, 24).swap_remove(1);
    for process in &mut view.look.processes {
        process.window.minute.busy_ns = [[7].repeat(10), [0].repeat(8)].concat();
    }
    assert!(second(&view).contains("  GPU work 2,000,000, none for 8 s  "), "{}", second(&view));
    // One of them works.
    view.look.processes[1].window.minute.busy_ns = vec![7, 0, 0];
    assert!(second(&view).contains("  GPU work 2,000,000  "), "{}", second(&view));
    view.look.processes.truncate(1);
    view.look.processes[0].window.minute.busy_ns = vec![0; 60];
    assert!(second(&view).contains(", none for over 1 min  "), "{}", second(&view));
    view.ended = Some("The run has ended".into());
    assert!(second(&view).contains("  GPU work 1,000,000  "), "{}", second(&view));
}

#[test]
fn the_keys_are_those_that_do_something() {
    let keys = |phases: &[(u32, &str)], width: usize| {
        let phases = phases.iter().map(|(pid, phase)| (*pid, (*phase).to_owned())).collect();
        text(&View { phases, ..view() }, width, 24).swap_remove(23)
    };
    assert!(keys(&[(71, "dormant"), (72, "on")], 80).starts_with("q quit  s stop  j/k stage"));
    assert!(keys(&[(71, "dormant")], 80).starts_with("q quit  s record  j/k stage"));
    assert!(keys(&[], 80).starts_with("q quit  j/k stage"));
    let ended = View { ended: Some("Ended".into()), has_report: true, ..view() };
    let last = text(&ended, 200, 24).swap_remove(23);
    assert!(!last.contains("freeze") && !last.contains("w report") && last.contains("? help"));
    let without = text(&View { has_report: false, ..ended }, 200, 24).swap_remove(23);
    assert!(!without.contains("freeze") && without.contains("w report"), "{without}");
    assert!(keys(&[(71, "dormant")], 200).contains("  PgUp/PgDn kernels  "));
    assert!(
        keys(&[(71, "on")], 80).contains("  ←/→ process  PgDn  / filter  o,t sort  f w  ? help")
    );
    // One process is neither chosen nor sorted.
    let mut one = View { phases: vec![(71, "on".to_owned())], ..view() };
    one.look.processes.truncate(1);
    let last = |view: &View| text(view, 80, 24).swap_remove(23);
    let all = "q quit  s stop  j/k stage  PgDn  / filter  t sort  f freeze  w report  ? help";
    assert_eq!(last(&one), all);
    let ended = View { ended: Some("Ended".into()), has_report: true, phases: Vec::new(), ..one };
    assert_eq!(last(&ended), "q quit  j/k stage  PgUp/PgDn kernels  / filter  t sort  ? help");
    assert_eq!(
        text(&ended, 50, 24).swap_remove(23),
        "q quit  j/k stage  PgDn  / filter  t sort  ? help"
    );
}

#[test]
fn where_there_is_no_cause_the_reason_and_the_limits_of_samples_are_said() {
    let mut view = view();
    view.look.processes.truncate(1);
    view.look.processes[0].window.host = HostIdle {
        why_none: Some("not sampled: STAGE2_HOST is off".into()),
        ..HostIdle::default()
    };
    let shown = text(&view, 80, 24);
    let expected = ["    rank 0       -         not sampled: STAGE2_HOST is off"];
    assert_eq!(of_hosts(&shown), expected, "{shown:#?}");
    // States without lines.
    let mut host = host();
    host.causes.iter_mut().for_each(|cause| cause.frame = None);
    let why =
        "the memory layout of Python 3.9 is not known: samples have no stacks; use another version";
    host.note = Some(why.into());
    view.look.processes[0].window.host = host;
    let shown = text(&view, 80, 24);
    let expected = [
        "    rank 0   35.0%  41.0%  code",
        "                    22.0%  waiting for the GIL held by 'detokenizer'; rest 37.0%",
        "                           the memory layout of Python 3.9 is not known: sample…",
    ];
    assert_eq!(of_hosts(&shown), expected, "{shown:#?}");
}

/// Hazard (Watching what runs): One stage or kernel of many is looked for.
/// Promise: Its name is enough, in any case, and the page says that it shows only a part.
#[test]
fn stages_and_kernels_are_found_by_their_names() {
    let (mut view, _) = sample("runner");
    let all = stages(&view);
    view.state.filter = "DEC".into();
    let names: Vec<String> = rows(&view).into_iter().map(|row| row.name).collect();
    assert!(names.iter().any(|name| name == "decode") && names.len() < all, "{names:?}");
    let shown = text(&view, 80, 24);
    assert!(shown[23].starts_with("Esc clears /DEC  q quit"), "{shown:#?}");
    // A kernel leads to its stage, and to no other kernel of it.
    let decode = rows(&view).into_iter().find(|row| row.name == "decode").expect("a stage");
    let of_decode = kernels_of(&view, &decode).0.len();
    let name = kernels_of(&view, &decode).0[0].0.to_owned();
    view.state.filter.clone_from(&name);
    let found = rows(&view).into_iter().find(|row| row.name == "decode").expect("a stage");
    let (wanted, _) = kernels_of(&view, &found);
    assert!(wanted.len() < of_decode && wanted.iter().all(|(of, _)| of.contains(&name)));
    // So does a class; the others are one row, so that the shares add up.
    view.state.filter = "GEMM".into();
    let found = rows(&view).into_iter().find(|row| row.name == "decode").expect("a stage");
    let (wanted, class_of) = kernels_of(&view, &found);
    let is_gemm = |name: &str| stage2_live::class_label(class_of[name]) == "gemm";
    assert!(wanted.iter().any(|(name, _)| is_gemm(name) && !name.contains("gemm")), "{wanted:?}");
    let shown = text(&view, 80, 60).join("\n");
    let others = format!("  {} others", of_decode - wanted.len());
    assert!(shown.contains(&others), "{others} is not in\n{shown}");
    view.state.filter = "no such".into();
    view.state.types = true;
    let shown = text(&view, 80, 24);
    let none = "no stage and no kernel has `no such` in its name";
    assert!(shown.iter().any(|line| line.contains(none)), "{shown:#?}");
    assert!(shown[23].starts_with("/no such_  Enter"), "{shown:#?}");
}

#[test]
fn another_stage_has_its_own_kernels_and_the_chosen_row_is_always_seen() {
    let mut view = view();
    let numbers = view.look.processes[0].window.stages["decode"].clone();
    for at in 0..40 {
        view.look.processes[0].window.stages.insert(format!("stage {at:02}"), numbers.clone());
    }
    for chosen in [0, 7, 30, 41, 99] {
        view.state.chosen = chosen;
        let shown = text(&view, 80, 24);
        let marked: Vec<&String> = shown.iter().filter(|line| line.starts_with("> ")).collect();
        assert_eq!(marked.len(), 1, "{chosen}: {shown:#?}");
    }
    view.state.chosen = 1;
    assert!(!text(&view, 80, 24).join("\n").contains("flash_fwd"), "kernels of decode only");
}

#[test]
fn what_went_wrong_is_said_and_nothing_obeys_it() {
    let mut view = view();
    view.look.problems = vec!["/tmp/a.s2t is damaged at byte 7".into()];
    assert!(text(&view, 80, 24).join("\n").contains("damaged at byte 7"));
    view.state.said = Some("71: \x1b[2Jstart".into());
    assert!(text(&view, 80, 24).join("\n").contains("71: \\x1b[2Jstart"));
    // A long one has a second line.
    view.state.said = Some(format!("stage2-top was not made: {}", "no space is left ".repeat(4)));
    let shown = text(&view, 80, 24);
    assert!(
        shown[22].ends_with("is left") && shown[21].starts_with("stage2-top was"),
        "{shown:#?}"
    );
    view.state.help = true;
    let help = text(&view, 80, 60);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let whole = words(&help.join(" "));
    assert!(HELP.iter().all(|(_, text)| whole.contains(&words(text))), "it is cut:\n{help:#?}");
    assert_eq!(help[0], "stage2-launch top: press any key to go back");
    assert!(text(&view, 80, 24)[0].starts_with("lines 1-23 of "));
    view.state = State { frozen: true, ..State::default() };
    assert!(text(&view, 80, 24)[0].contains("FROZEN"));
}

/// Hazard (Watching what runs): Another host reports numbers that no process has.
/// Promise: There is a page.
#[test]
fn numbers_beyond_all_measure_have_a_page() {
    let mut view = view();
    for process in &mut view.look.processes {
        for sum in process.window.stages.values_mut() {
            (sum.steps, sum.tokens, sum.busy_ns, sum.gaps_ns) =
                (u64::MAX, u64::MAX, u64::MAX, u64::MAX);
            (sum.launches, sum.window_ns) = (u64::MAX, 1);
            sum.class_ns = sum.class_ns.map(|_| u64::MAX);
            let mut times = Histogram::default();
            times.add_times(u64::MAX, u64::MAX);
            sum.step_times = Series::of_histogram(times, u64::MAX);
        }
        for kernel in &mut process.window.kernels {
            (kernel.ns, kernel.launches) = (u64::MAX, u64::MAX);
        }
        process.window.minute.busy_ns = vec![u64::MAX; 99];
        process.window.minute.steps.insert("decode".into(), vec![(u64::MAX, u64::MAX); 99]);
        process.window.devices = vec![DeviceBusy { device: 0, busy_ns: u64::MAX }; 9];
        process.window.host.causes[0].percent = 1e300;
        (process.counts.attributed, process.counts.work) = (u64::MAX, u64::MAX);
        process.losses = vec![("range_events", u64::MAX); 9];
        (process.last_wall_ns, process.window.end_wall_ns) = (Some(u64::MAX), Some(u64::MAX));
        process.gpus[0].memory_used_bytes = Some(u64::MAX);
    }
    for (width, height) in [(60, 15), (80, 24), (200, 50)] {
        assert_eq!(text(&view, width, height).len(), height);
    }
}

#[test]
fn the_help_of_a_narrow_terminal_goes_on_in_its_column() {
    let mut view = view();
    view.state.help = true;
    let shown = text(&view, 60, 40);
    let at = shown.iter().position(|line| line.starts_with("up, down, k, j   choose")).expect("it");
    assert_eq!(shown[at + 1], "                 causes are shown");
    assert!(shown.iter().all(|line| line.chars().count() <= 60), "{shown:#?}");
    // Where it does not fit, it scrolls to its end.
    let shown = text(&view, 60, 20);
    assert!(shown[0].starts_with("lines 1-19 of "), "{shown:#?}");
    let beyond = view.help_beyond.get();
    view.state.help_above = 2 * beyond;
    let shown = text(&view, 60, 20);
    let end = format!("lines {}-{} of {}:", beyond + 1, beyond + 19, beyond + 19);
    assert!(shown[0].starts_with(&end) && shown[19].contains("sends no data"), "{shown:#?}");
}

/// Hazard (Watching what runs): The terminal is narrower than a table.
/// Promise: Each column is complete or left out, and the line of keys is shorter.
#[test]
fn columns_of_a_narrow_terminal_are_whole() {
    let shown = text(&view(), 60, 15);
    let find = |part: &str| {
        let found = shown.iter().find(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("{part} is not in {shown:#?}")).trim_end()
    };
    assert!(find("STAGE").ends_with("REQS") && find("> decode").ends_with("32.0"), "{shown:#?}");
    assert!(find("PROCESS").ends_with("  HOST (all stages, last 10 s)"), "{shown:#?}");
    assert!(find("RANK").ends_with("GPU") && find(" node-1").ends_with("65.0%"), "{shown:#?}");
    assert!(find("2 processes").ends_with("s behind"), "{shown:#?}");
    assert_eq!(shown[14], "q quit  s record  j/k stage  ←/→ process  / o t f w  ? help");
    assert_eq!(text(&view(), 50, 15)[14], "q quit  s record  ? more keys");
}

proptest! {
    /// Hazard (Watching what runs): A terminal of one cell, or of any size.
    /// Promise: There is a page, and no panic.
    #[test]
    fn every_size_has_a_page(width in 0usize..300, height in 0usize..100, chosen in 0usize..5, help: bool) {
        let mut view = view();
        view.state = State { chosen, help, ..State::default() };
        let shown = text(&view, width, height);
        prop_assert!(shown.len() <= height && shown.iter().all(|line| line.chars().count() <= width));
        let empty = View { state: view.state.clone(), ..View::default() };
        prop_assert!(text(&empty, width, height).len() <= height);
    }
}

#[test]
fn a_terminal_of_any_size_is_drawn_to() {
    use ratatui::{Terminal, backend::TestBackend, widgets::Paragraph};
    for (width, height) in [(1, 1), (2, 1), (1, 50), (80, 24), (20, 5), (300, 90)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let drawn = terminal.draw(|frame| {
            let area = frame.area();
            let lines = page(&view(), area.width.into(), area.height.into());
            frame.render_widget(Paragraph::new(lines), area);
        });
        assert!(drawn.is_ok());
    }
}

fn counter(device: u32, metric: &str, value: f64) -> Counter {
    Counter {
        device,
        metric: metric.to_owned(),
        value,
        is_percent: metric.contains("pct"),
        age_ns: 0,
    }
}

/// Hazard (Watching what runs): Counters are called as CUPTI calls them, and there are more than fit into a line.
/// Promise: Names and numbers are not cut; the most important come first, and a line counts the GPUs that do not fit.
#[test]
fn counters_are_called_as_people_call_them_and_never_cut() {
    let mut view = view();
    let tensor = "sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed";
    for (process, device) in view.look.processes.iter_mut().zip([0, 1]) {
        process.counters = vec![
            counter(device, "own__metric_of_a_very_long_name.sum", 12.0),
            counter(device, "gpc__cycles_elapsed.max", 1.98e9),
            counter(device, "dram__bytes_read.sum", 3e11),
            counter(device, "dram__bytes_write.sum", 4.5e10),
            counter(device, tensor, 0.0),
            counter(device, "lts__t_sectors.sum", 1e9),
        ];
    }
    let find = |width: usize, height: usize| -> Vec<String> {
        let all = text(&view, width, height).into_iter();
        all.filter(|line| line.contains("DRAM")).map(|line| line.trim().to_owned()).collect()
    };
    let start = "rank 0 GPU0 DRAM 345 GB/s · tensor 0.0% · SM clock 1.98 GHz";
    assert_eq!(find(80, 20), [format!("{start} …  (1 more GPU)")]);
    let all = find(140, 50);
    assert_eq!(
        all[0],
        format!("{start} · L2 32.0 GB/s · own__metric_of_a_very_long_name.sum 12.0/s")
    );
    assert!(all.len() == 2 && all[1].starts_with("rank 1 GPU1 DRAM"), "{all:#?}");
}

/// Hazard (Watching what runs): The terminal is wide and tall.
/// Promise: The page uses it for more numbers.
#[test]
fn a_wide_terminal_has_more_columns_and_causes() {
    let mut view = view();
    view.look.processes.truncate(1);
    view.look.processes[0].file = "/srv/run/collector/node-1-71.s2t".to_owned();
    let shown = text(&view, 200, 50);
    assert!(shown.iter().all(|line| line.chars().count() <= 200), "{shown:#?}");
    let find = |part: &str| {
        let found = shown.iter().find(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("{part} is not in {shown:#?}")).as_str()
    };
    assert!(find("STAGE").ends_with("         RATE  P90 ms    GPU WORK  WORK/S"));
    let numbers = " 20.0 steps/s    57.9   40.0/step     800";
    assert!(find("> decode").ends_with(numbers), "{}", find("> decode"));
    // 5 s and 1,000 launches in 200 calls.
    assert!(find("gemm_a").ends_with("     5.00   25,000  gemm"), "{}", find("gemm_a"));
    assert!(find(" node-1 ").ends_with("        -  /srv/run/collector/node-1-71.s2t"));
    assert!(find("scheduler.py:8)").contains("3.0%"));
    let columns = |of: &str| find(of).chars().count();
    assert_eq!(
        (columns("STAGE"), columns("MEAN us")),
        // The class of the first kernel is shorter than its title.
        (columns("> decode"), columns("gemm_a") + 4)
    );
}

#[test]
fn a_run_is_over_when_all_its_files_are_and_no_process_has_a_socket() {
    let mut view = View { phases: Vec::new(), ..view() };
    assert!(!is_over(&View::default()) && !is_over(&view));
    view.now_ns += 20_000_000_000;
    assert!(is_over(&view), "both are silent");
    view.now_ns -= 20_000_000_000;
    view.look.processes[0].state = FileState::Ended;
    assert!(!is_over(&view));
    view.look.processes[1].state = FileState::Removed;
    assert!(!is_over(&view));
    view.look.processes[1].state = FileState::Ended;
    assert!(is_over(&view));
    view.phases.push((72, "dormant".to_owned()));
    assert!(!is_over(&view));
}

/// Hazard (Watching what runs): Two runs are watched, and one number is the mean of both: of calls without known tokens or
///  requests, too.
/// Promise: Each run has its rows, with the numbers that it has alone, and its own kernels, causes and late rank.
#[test]
fn no_number_is_of_two_runs() {
    let (sorting, _) = sample("vllm_sorting");
    let (other, _) = sample("runner");
    let mut both = sorting.clone();
    both.look.processes.extend(other.look.processes.clone());
    let numbers = |row: &Row| {
        let times = (row.p50_ns, row.p99_ns, row.busy, row.gaps, row.idle, row.other);
        (times, row.tokens_per_s, row.requests, row.processes, row.unit)
    };
    let all = rows(&both);
    assert_eq!(all.len(), rows(&sorting).len() + rows(&other).len());
    for (name, alone) in [("vllm_sorting", &sorting), ("runner", &other)] {
        for of_one in rows(alone) {
            let is_it = |row: &&Row| row.run.as_deref() == Some(name) && row.name == of_one.name;
            let row = all.iter().find(is_it).expect("a row");
            assert_eq!(numbers(row), numbers(&of_one), "{name} {}", row.name);
            let of_run = seen(&both, Some(row));
            let kernels = [kernels_of(&of_run, row).0.len(), kernels_of(alone, &of_one).0.len()];
            assert_eq!(kernels[0], kernels[1], "{name} {}", row.name);
        }
    }
    // One process alone is of one run.
    both.state.only = Some(id(&other.look.processes[0]));
    assert!(
        rows(&both).len() == rows(&other).len() && rows(&both).iter().all(|row| row.run.is_none())
    );
    // Ranks of two runs do not wait for each other.
    let (late, _) = sample("vllm_two_gpus");
    let mut apart = late.clone();
    let one = apart.look.processes.iter_mut().find(|process| process.rank == Some(1));
    one.expect("a rank").file = "/srv/other/collector/a.s2t".to_owned();
    let known = |view: &View| waits(view, "decode").iter().flatten().count();
    assert_eq!((known(&late), known(&apart)), (2, 0));
}

/// Hazard (Watching what runs): The ranks of one job write into a folder of each host, and look like several runs.
/// Promise: They are one run, as long as no rank is there twice and the job is as large.
#[test]
fn ranks_of_one_job_stay_together_whatever_folder_they_write_into() {
    let of = |worlds: [Option<u64>; 2], ranks: [u64; 2], hosts: [&str; 2]| {
        let mut view = view();
        for (at, process) in view.look.processes.iter_mut().enumerate() {
            process.file = format!("/srv/run-{at}/collector/a.s2t");
            (process.world, process.rank) = (worlds[at], Some(ranks[at]));
            process.host = hosts[at].to_owned();
        }
        runs(view.look.processes.iter()).len()
    };
    assert_eq!(of([Some(2); 2], [0, 1], ["a", "a"]), 1);
    assert_eq!(of([Some(2); 2], [0, 0], ["a", "b"]), 2, "two jobs");
    assert_eq!(of([Some(2), Some(4)], [0, 1], ["a", "b"]), 2);
    assert_eq!(of([Some(1); 2], [0, 1], ["a", "b"]), 2);
    assert_eq!(of([None; 2], [0, 1], ["a", "b"]), 1);
    assert_eq!(of([None; 2], [0, 1], ["a", "a"]), 2);
}

/// Hazard (Watching what runs): A process of a run knows no tokens, states no requests or has no GPU records, and counts
///  as one with none.
/// Promise: Only processes that have a number have a part in it.
#[test]
fn a_process_without_a_number_is_none_with_zero() {
    let mut view = view();
    let row = |view: &View| {
        let row = rows(view).into_iter().find(|row| row.name == "decode").expect("a row");
        (row.tokens_per_s, row.requests, row.p50_ns, row.unit)
    };
    let decode = view.look.processes[0].window.stages.get_mut("decode").expect("a stage");
    (decode.tokens, decode.steps_with_tokens) = (6_400, 200);
    let alone = (Some(640.0), Some(32.0));
    let shown = row(&view);
    assert_eq!((shown.0, shown.1), alone);
    // Calls of the other one, which are no steps of an engine.
    let decode = view.look.processes[1].window.stages.get_mut("decode").expect("a stage");
    (decode.requests, decode.steps_with_requests) = (0, 0);
    (0..900).for_each(|_| {
        decode.step_times.push(1_000_000);
    });
    assert_eq!(row(&view), (Some(640.0), Some(32.0), shown.2, "step"));
    // After the end: of the calls that state their tokens.
    view.look.processes.truncate(1);
    let process = &mut view.look.processes[0];
    process.window.is_whole = true;
    let decode = process.window.stages.get_mut("decode").expect("a stage");
    (decode.requests, decode.steps_with_requests) = (0, 0);
    (decode.steps_with_tokens, decode.tokens_ns, decode.steps_ns) = (50, 1_000, 3_000);
    // 9 s in calls.
    let rate = row(&view).0.expect("a rate");
    assert!((rate - 6_400.0 / 3.0).abs() < 1e-6, "{rate}");
    // Kernels per call: of the calls whose work is recorded.
    let mut view = super::tests::view();
    view.look.processes[1].has_no_gpu_records = true;
    view.look.processes[1].window.kernels.clear();
    let shown = text(&view, 130, 40);
    let kernel = shown.iter().find(|line| line.contains("  gemm_a ")).expect("a kernel");
    // 1,000 launches in 200 steps.
    assert!(kernel.contains(" 5.00 "), "{kernel}");
}

/// Hazard (Watching what runs): A terminal is small, and what has no room is missing without a word.
/// Promise: What is left out is named or marked, and whose times the columns are stays as long as they are there.
#[test]
fn what_has_no_room_is_said_to_be_missing() {
    let (view, _) = sample("vllm_two_gpus");
    for (width, height, whose) in [
        (80, 24, "  P50, P99, TOKENS/S: rank 0, as in a report; other columns: all ranks together"),
        (60, 20, "  P50: rank 0; other columns: all ranks together"),
    ] {
        let shown = text(&view, width, height);
        assert!(shown.iter().any(|line| line == whose), "{shown:#?}");
        let whole = shown.join("\n");
        assert!(whole.contains("KERNEL IN") || whole.contains("  no room for "), "{whole}");
        assert!(shown[height - 1].contains("  / "), "{whole}");
    }
    let (view, _) = sample("vllm_sorting");
    let shown = text(&view, 80, 20);
    let title = shown.iter().position(|line| line.contains("KERNEL IN")).expect("a title");
    let others = shown[title..].iter().find(|line| line.contains(" others "));
    assert_eq!(others.map(|line| line.matches(" others ").count()), Some(2), "{shown:#?}");
    let mut all: Vec<f64> = Vec::new();
    for line in &shown[title + 1..] {
        let Some(share) = line.get(17..23).and_then(|cell| cell.trim().strip_suffix('%')) else {
            break;
        };
        all.push(share.parse().expect("a share"));
    }
    // Copies and fills are beyond the time of kernels.
    let sum: f64 = all.iter().sum();
    assert!((100.0..102.0).contains(&sum), "{all:?}");
}

/// A sample that `top` shows after its end, and its report.
fn sample(name: &str) -> (View, serde_json::Value) {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sample").join(name);
    let mut watch = Watch::new(vec![Source::Folder(sample.join("collector"))], Options::default());
    (0..6).for_each(|_| watch.tick());
    let report = std::fs::read(sample.join("metrics.json")).expect("a report");
    let mut view = View { look: watch.look(), ended: Some("over".into()), ..View::default() };
    view.now_ns = view.look.processes[0].last_wall_ns.expect("a time") + 1;
    (view, serde_json::from_slice(&report).expect("JSON"))
}

/// Hazard (Watching what runs): PyTorch marks each operator, so that many ranges outside of the model hide its stages.
/// Promise: Decode and prefill come first, and the title says how many stages there are.
#[test]
fn the_stages_of_the_model_come_before_many_other_ranges() {
    let (view, _) = sample("runner");
    let names: Vec<String> = rows(&view).into_iter().map(|row| row.name).collect();
    assert_eq!(names[..2], ["decode", "prefill"], "{names:?}");
    assert!(names.len() > 10, "{names:?}");
    let shown = text(&view, 80, 24);
    let title = shown.iter().find(|line| line.contains("STAGE ")).expect("a title");
    assert!(title.contains(&format!(" of {}", names.len())), "{shown:#?}");
    assert!(shown.iter().any(|line| line.starts_with("> decode")), "{shown:#?}");
    // On a high screen, they have the lines that nothing else needs.
    let all = text(&view, 200, 60);
    let of_stages = all.iter().filter(|line| line.starts_with("  aten::")).count();
    let empty = all.iter().filter(|line| line.is_empty()).count();
    assert!(of_stages > 12 && (empty == 0 || of_stages + 3 >= names.len()), "{all:#?}");
}

/// Hazard (Watching what runs): An engine has ended, and the page shows other times and rates than its report: of all
///  ranks, of other steps, or rounded to a bucket.
/// Promise: Both are of the same steps of one process, and exact.
#[test]
fn an_engine_that_has_ended_has_the_step_times_and_rates_of_its_report() {
    for name in ["vllm_sorting", "vllm_two_gpus"] {
        let (view, report) = sample(name);
        let kinds = report.pointer("/engine/kinds").and_then(|kinds| kinds.as_array());
        for kind in kinds.expect("an engine") {
            let rows = rows(&view);
            let row = rows.iter().find(|row| kind["stage"] == row.name.as_str()).expect("a row");
            assert_eq!(row.p50_ns, kind["p50_ns"].as_u64(), "{name} {}", row.name);
            assert_eq!(row.p99_ns, kind["p99_ns"].as_u64(), "{name} {}", row.name);
            let [live, reported] = [row.tokens_per_s, kind["tokens_per_s"].as_f64()];
            let difference = live.zip(reported).map(|(live, reported)| (live - reported).abs());
            // Over the GPU windows, which both read with their own rounding, where these are longer than the steps.
            let by_steps = row.sum.run.as_ref().and_then(|run| run.tokens_per_s());
            let most = if live == by_steps { 1e-6 } else { 1e-6 * reported.unwrap_or(0.0) };
            assert!(difference.is_some_and(|by| by < most), "{name} {}: {live:?}", row.name);
        }
    }
}

/// Hazard (Watching what runs): A run has ended, and its last seconds are those in which it started and stopped; or the
///  page and the report of the run differ.
/// Promise: The numbers are of all calls but the first, as in its report, and the same rank is late.
#[test]
fn a_run_that_has_ended_has_the_numbers_of_its_report() {
    let (mut view, report) = sample("vllm_two_gpus");
    let lines = text(&view, 200, 50);
    let shown = lines.join("\n");
    assert!(lines[0].ends_with("ended 0 s ago  whole run"), "{shown}");
    let cells = |start: &str| -> Vec<&str> {
        let found = lines.iter().find(|line| line.trim_start().starts_with(start));
        found.unwrap_or_else(|| panic!("{start} is not in\n{shown}")).split_whitespace().collect()
    };
    let number = |cell: &str| -> f64 {
        let digits = cell.trim_matches(['%', '*', '(', ')']).replace(',', "");
        digits.parse().unwrap_or_else(|_| panic!("{cell} in\n{shown}"))
    };
    let of = |at: &str| report.pointer(at).and_then(serde_json::Value::as_f64).expect(at);
    let near = |what: &str, live: f64, reported: f64, error: f64| {
        assert!((live - reported).abs() <= error, "{what}: {live}, report {reported}\n{shown}");
    };
    // PER, P50, P99, BUSY, WAIT, GAPS, IDLE, OTHER, TOKENS/S
    assert_eq!(cells("> decode")[2], "step");
    let decode: Vec<f64> = cells("> decode")[3..11].iter().map(|cell| number(cell)).collect();
    let percent = |kind: &str| {
        let parts = report.pointer("/answer/stages/0/window/parts").and_then(|of| of.as_array());
        let part = parts.expect("parts").iter().find(|part| part["kind"] == kind);
        part.and_then(|part| part["percent"].as_f64()).expect("a share")
    };
    near("P50 ms", decode[0], of("/answer/stages/0/step/p50_ns") / 1e6, 0.006);
    near("P99 ms", decode[1], of("/answer/stages/0/step/p99_ns") / 1e6, 0.006);
    near("IDLE", decode[5], percent("other_idle"), 0.06);
    near("OTHER", decode[6], percent("other_work"), 0.06);
    near("GAPS", decode[4], percent("launch_gaps"), 0.15);
    near("WAIT", decode[3], percent("waiting"), 0.5);
    near("the parts", decode[2] + decode[4] + decode[5] + decode[6], 100.0, 0.2);
    near("TOKENS/S", decode[7], of("/answer/stages/0/tokens_per_s/known"), 0.6);
    // A kernel of the first row of the report and its mean; below it the late rank.
    let warm = of("/stage_kernels/0/total_ns") - of("/stage_kernels/0/cold_total_ns");
    let mean_us = warm / (of("/stage_kernels/0/calls") - of("/stage_kernels/0/cold_calls")) / 1e3;
    let kernel = lines.iter().find(|line| line.contains("cross_device_reduce")).expect("a kernel");
    let mean = kernel.split_whitespace().rev().nth(3).expect("a mean");
    near("MEAN us", number(mean), mean_us, 0.1);
    let time = kernel.split_whitespace().rev().nth(4).expect("a share");
    let percent = of("/stage_numbers/0/top_kernels/0/kernel_time_percent");
    near("TIME", number(time), percent, 0.05);
    let late = report.pointer("/ranks/late/0/who").and_then(|who| who.as_str()).expect("a rank");
    assert!(shown.contains(&format!("* {late} is late: the other rank waits for it")), "{shown}");
    let ranks: Vec<&String> = lines.iter().filter(|line| line.contains(" vm ")).collect();
    assert!(
        ranks.len() == 2 && ranks[0].starts_with("     0") && ranks[0].contains("%)* "),
        "{shown}"
    );
    assert!(!ranks[1].contains('*'), "{shown}");
    // In a few steps, any rank is late in one. Stages of the model come first.
    view.state.chosen = 2;
    let mixed = text(&view, 200, 50).join("\n");
    assert!(mixed.contains("> mixed") && mixed.contains("(WAIT)") && !mixed.contains("  * rank"));
    view.state.chosen = 0;
    // One rank alone has the numbers of its row, and its own causes.
    let row: Vec<&str> = ranks[1].split_whitespace().collect();
    view.state.only = view.look.processes.iter().find(|of| of.rank == Some(1)).map(id);
    let alone = text(&view, 200, 50);
    let found = |start: &str| {
        let line = alone.iter().find(|line| line.starts_with(start)).expect("a line");
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let decode = found("> decode");
    assert_eq!(decode[3..7], row[4..8], "{alone:#?}");
    let parts: Vec<f64> = decode[5..10].iter().map(|cell| number(cell)).collect();
    near("the parts", parts[0] + parts[2] + parts[3] + parts[4], 100.0, 0.2);
    near("NO WORK", number(&found("    rank 1")[2]), parts[2] + parts[3], 0.2);
    assert!(alone.iter().any(|line| line.contains("STAGE of rank 1")), "{alone:#?}");
}

#[test]
fn how_busy_a_gpu_is_that_is_not_recorded_is_not_known() {
    let mut view = view();
    for process in &mut view.look.processes {
        process.counts = Counts::default();
        process.window.stages.values_mut().for_each(|sum| {
            (sum.busy_ns, sum.gaps_ns, sum.launches) = (0, 0, 0);
        });
    }
    let shown = text(&view, 80, 24);
    let decode = shown.iter().find(|line| line.starts_with("> decode")).expect("a stage");
    assert!(decode.contains(" - ") && !decode.contains("100%"), "{shown:#?}");
    assert_eq!(decode.split_whitespace().nth(5), Some("-"), "{shown:#?}");
    // The reason is stated: no number of GPU work is a zero, and there is no chart of it.
    let chart =
        |view: &View| text(view, 130, 40).iter().any(|line| line.starts_with("  GPU, last "));
    assert!(chart(&view));
    view.look.processes.iter_mut().for_each(|process| process.has_no_gpu_records = true);
    let shown = text(&view, 130, 40);
    assert!(!chart(&view) && shown[1].contains("GPU work -  placed -"), "{shown:#?}");
    let decode = shown.iter().find(|line| line.starts_with("> decode")).expect("a stage");
    assert!(!decode.contains("0/step"), "{decode}");
    // One of two ranks is recorded: shares and counts are its own.
    view.look.processes[0] = process(71, 0);
    let shown = text(&view, 130, 40);
    let decode = shown.iter().find(|line| line.starts_with("> decode")).expect("a stage");
    assert!(chart(&view) && decode.contains("70.0%") && decode.contains("40.0/step"), "{decode}");
}

/// Hazard (Watching what runs): The GPU works for another stage, or what a stage is about runs in ranges of other threads,
///  and the page calls that idle time.
/// Promise: Work of other stages is a share of its own, also where the host is not sampled, and a stage without GPU work of
///  its own has no such shares.
#[test]
fn work_of_other_stages_is_no_idle_time() {
    let (mut view, _) = sample("server_window");
    let at = rows(&view).iter().position(|row| row.name == "request").expect("a stage");
    view.state.chosen = at;
    let shown = text(&view, 80, 24);
    let request = shown.iter().find(|line| line.starts_with("> request")).expect("a row");
    assert_eq!(request.split_whitespace().skip(5).take(3).collect::<Vec<_>>(), ["-"; 3]);
    assert!(shown.iter().any(|line| line.contains("request launches no GPU work itself")));
    let live = |other_ns| {
        let mut view = super::tests::view();
        for process in &mut view.look.processes {
            let decode = process.window.stages.get_mut("decode").expect("a stage");
            decode.other_ns = other_ns;
        }
        text(&view, 100, 40)
    };
    let of = |shown: &[String], title: &str| {
        let cells = |start: &str| {
            let line = shown.iter().find(|line| line.contains(start)).expect("a line");
            line.trim_start_matches('>').split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let titles = cells("STAGE ").join(" ").replace(" ms", "ms");
        let at = titles.split(' ').position(|of| of == title)?;
        cells("> decode").get(at).cloned()
    };
    let shown = live(900_000_000);
    let shares = ["BUSY", "GAPS", "IDLE", "OTHER"].map(|title| of(&shown, title).expect(title));
    assert_eq!(shares, ["70.0%", "10.0%", "10.0%", "10.0%"], "{shown:#?}");
    // A narrow terminal has all parts of the time, and rather no P99.
    let mut narrow = with_late_rank(2);
    for process in &mut narrow.look.processes {
        process.window.stages.get_mut("decode").expect("a stage").other_ns = 900_000_000;
    }
    let shown = text(&narrow, 60, 24);
    let title = shown.iter().find(|line| line.contains("STAGE")).expect("a title");
    assert!(title.ends_with("P50 ms  BUSY  (WAIT)  GAPS  IDLE OTHER"), "{shown:#?}");
    let shown = live(80_000_000);
    assert_eq!(of(&shown, "OTHER"), None, "{shown:#?}");
    assert_eq!(of(&shown, "IDLE").as_deref(), Some("19.1%"), "{shown:#?}");
}

/// Hazard (Watching what runs): Another stage is chosen, and nothing says that the numbers of the ranks are of that one.
/// Promise: The title of the ranks names the stage at any width, without hiding a host or moving a column.
#[test]
fn the_table_of_ranks_names_its_stage() {
    let title_of = |view: &View, width: usize| {
        let shown = text(view, width, 30);
        let at = shown.iter().position(|line| line.contains(" PID ")).expect("a title");
        let end = |line: &str, of: &str| line.find(of).map(|at| at + of.len());
        assert_eq!(end(&shown[at], "BUSY"), end(&shown[at + 1], "70.0%"), "{shown:#?}");
        assert!(shown[at + 1].contains(" node-1 "), "{shown:#?}");
        shown[at].clone()
    };
    for (width, title) in [
        (130, "STATE  IN decode:  P50 ms  P99 ms"),
        (80, "STATE  IN decode:  P50 ms  P99 ms"),
        (60, " STATE  IN decode:  P50 ms  BUSY"),
    ] {
        let shown = title_of(&view(), width);
        assert!(shown.contains(title), "{shown}");
    }
    // The name of a run gives way.
    let mut view = view();
    for (at, process) in view.look.processes.iter_mut().enumerate() {
        process.file = format!("/srv/node-1-sorting-{at}/collector/a.s2t");
    }
    let shown = text(&view, 60, 30).join("\n");
    assert!(shown.contains("RUN     STATE  IN decode:  P50 ms  BUSY"), "{shown}");
    assert!(shown.contains("  HOST (all stages, last 10 s)\n"), "{shown}");
    view.look.processes.iter_mut().for_each(|process| process.file.clear());
    view.state.chosen = 1;
    assert!(title_of(&view, 80).contains("IN prefill:  P50 ms"));
}

/// Hazard (Watching what runs): What the host did is divided otherwise than in a report.
/// Promise: After the end, the time of a stage and the first causes are those of its report.
#[test]
fn what_the_host_did_in_a_stage_is_divided_as_in_a_report() {
    let (view, report) = sample("vllm_sorting");
    let lines = text(&view, 160, 60);
    let of = |at: &str| report.pointer(at).and_then(serde_json::Value::as_f64).expect(at);
    let at = lines.iter().position(|line| line.contains("NO WORK RAN (decode)")).expect("it");
    for (cause, line) in lines[at + 1..].iter().take(3).enumerate() {
        let at = format!("/host/stages/0/causes/{cause}");
        let percent = of(&format!("{at}/percent"));
        let found = report.pointer(&format!("{at}/frame/function")).and_then(|of| of.as_str());
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert!(line.contains(found.expect("a function")), "{line}");
        let share = cells.iter().filter_map(|cell| cell.strip_suffix('%')).next_back();
        let share: f64 = share.and_then(|share| share.parse().ok()).expect("a share");
        assert!((share - percent).abs() < 0.15, "{line}, report {percent}");
    }
    let unused = 100.0 * of("/host/stages/0/idle_ns") / of("/host/stages/0/window_ns");
    assert!(lines[at + 1].contains(&format!("{unused:.1}%")), "{lines:#?}");
}
