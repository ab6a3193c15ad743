mod answer;
mod foot;
mod gpus;
mod head;
mod help;
mod hosts;
mod kernels;
mod minute;
mod processes;
mod runs;
mod stages;

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
    let parts = "2 processes, 2 recording|3 s behind  last 10 s|attributed 100%|in ranges 99.8%|> decode|  prefill|\
                 gemm|attention|flash_fwd|71 node-1|stopping|70.0%|q quit";
    for part in parts.split('|') {
        assert!(whole.contains(part), "{part} is not in\n{whole}");
    }
    let mut begun = view();
    begun.look.is_reading = true;
    (begun.look.processes[0].bytes, begun.look.behind_bytes) = (120 << 20, 180 << 20);
    begun.phases.clear();
    let shown_first = text(&begun, 80, 24);
    assert!(
        shown_first[0].ends_with("2 processes  reading 120 of 300 MB  10 s ending 3 s ago"),
        "{shown_first:#?}"
    );
    begun.look.reading_left_s = Some(9);
    let first = text(&begun, 80, 24).swap_remove(0);
    assert!(first.ends_with("reading 120 of 300 MB, 9 s left  10 s ending 3 s ago"), "{first}");
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
    // What the process does, and whether its file is read, are two things.
    later.phases = vec![(72, "on".to_owned())];
    let shown_later = text(&later, 80, 24);
    let row = shown_later.iter().find(|line| line.contains(" 72 node-1")).expect("a process");
    assert!(row.contains(" recording ") && row.ends_with(" reading"), "{shown_later:#?}");
    later.look.sums_lag = true;
    let shown_later = text(&later, 80, 24);
    assert_eq!(shown_later[1], "lost 0  GPU work: reading", "no sums of a part");
    // Its present was read first: the same words for both would be progress that begins again.
    assert!(
        shown_later[0].contains(", reading history: 120 of 300 MB, 9 s left"),
        "{shown_later:#?}"
    );
    begun.look.sums_lag = true;
    let first = text(&begun, 80, 24).swap_remove(0);
    assert!(first.contains("  finding the last 10 s: 120 of 300 MB, 9 s left"), "{first}");
    begun.look.sums_lag = false;
    // Those of a past that is read are shown with their time, and nothing that is taken for the present or for all.
    let whole = shown_first.join("\n");
    for part in ["> decode", "gemm", "50.0", "(all stages, 10 s ending 3 s ago)", " reading "] {
        assert!(whole.contains(part), "{part} is not in\n{whole}");
    }
    for part in ["attributed", "412 W", "STEP ms"] {
        assert!(!whole.contains(part), "{part} is in\n{whole}");
    }
    for process in &mut begun.look.processes {
        process.window = Window::default();
    }
    let whole = text(&begun, 80, 24).join("\n");
    assert!(whole.contains("  nothing yet in the first 40.0% of the trace files"), "{whole}");
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

#[test]
fn numbers_stay_near_to_their_names_on_a_wide_terminal() {
    for line in text(&view(), 200, 50) {
        let gap = line.trim_end().split(|c: char| c != ' ').map(str::len).max();
        assert!(gap.unwrap_or(0) < 80, "{line}");
    }
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
    // Each fits into its line, with the order and the filter.
    (view.state.processes_by, view.state.filter) =
        (ProcessOrder::Wait, "flash_attention_fwd".into());
    let help = text(&view, 80, HELP.len() + 1);
    assert!(help[0].ends_with("press any key to go back"), "{help:#?}");
    let whole = help.join("\n");
    for part in ["LOST; now: wait", "mean; now: time", "class; now: flash_"] {
        assert!(whole.contains(part), "{part} is not in\n{whole}");
    }
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
    assert_eq!(shown[14], "q quit  s record  j/k stage  ←/→ process  / filter  ? help");
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
    assert!(find("STAGE").ends_with("         RATE    GPU WORK  WORK/S"));
    assert!(find("STAGE").contains(" P50 ms  P90 ms  P99 ms  BUSY"));
    assert!(find("> decode").contains("   50.0    57.9    59.7 70.0%"), "{}", find("> decode"));
    let numbers = " 20.0 steps/s   40.0/step     800";
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
    view.look.processes[1].state = FileState::Unreadable("it is no trace file".into());
    assert!(is_over(&view), "that file says nothing of a process");
    view.look.processes[1].state = FileState::Ended;
    assert!(is_over(&view));
    view.phases.push((72, "dormant".to_owned()));
    assert!(!is_over(&view));
}

/// Hazard (Watching what runs): A terminal is small, and what has no room is missing without a word.
/// Promise: What is left out is named or marked, and whose times the columns are stays as long as they are there.
#[test]
fn what_has_no_room_is_said_to_be_missing() {
    let (view, _) = sample("vllm_two_gpus");
    for (width, height, whose) in [
        (80, 24, "  P50, P99, T/CALL-S: rank 0, as in a report; other columns: all ranks together"),
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
    // PER, P50, P90, P99, BUSY, WAIT, GAPS, IDLE, OTHER, TOKENS/S
    assert_eq!(cells("> decode")[2], "step");
    let decode: Vec<f64> = cells("> decode")[3..12].iter().map(|cell| number(cell)).collect();
    let percent = |kind: &str| {
        let parts = report.pointer("/answer/stages/0/window/parts").and_then(|of| of.as_array());
        let part = parts.expect("parts").iter().find(|part| part["kind"] == kind);
        part.and_then(|part| part["percent"].as_f64()).expect("a share")
    };
    near("P50 ms", decode[0], of("/answer/stages/0/step/p50_ns") / 1e6, 0.006);
    near("P99 ms", decode[2], of("/answer/stages/0/step/p99_ns") / 1e6, 0.006);
    near("IDLE", decode[6], percent("other_idle"), 0.06);
    near("OTHER", decode[7], percent("other_work"), 0.06);
    near("GAPS", decode[5], percent("launch_gaps"), 0.15);
    near("WAIT", decode[4], percent("waiting"), 0.5);
    near("the parts", decode[3] + decode[5] + decode[6] + decode[7], 100.0, 0.2);
    near("TOKENS/S", decode[8], of("/answer/stages/0/tokens_per_s/known"), 0.6);
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
    assert_eq!([&decode[3..4], &decode[5..8]].concat(), row[4..8], "{alone:#?}");
    let parts: Vec<f64> = decode[6..11].iter().map(|cell| number(cell)).collect();
    near("the parts", parts[0] + parts[2] + parts[3] + parts[4], 100.0, 0.2);
    near("NO WORK", number(&found("    rank 1")[2]), parts[2] + parts[3], 0.2);
    assert!(alone.iter().any(|line| line.contains("STAGE of rank 1")), "{alone:#?}");
}
