use proptest::prelude::*;
use stage2_live::{Counts, DeviceBusy, KernelRow, Window};

use super::*;

fn process(pid: u32, rank: u64) -> Watched {
    let mut decode = StageNumbers {
        steps: 200,
        window_ns: 9_000_000_000,
        busy_ns: 6_300_000_000,
        gaps_ns: 900_000_000,
        launches: 8_000,
        ..StageNumbers::default()
    };
    (0..200u64).for_each(|at| decode.step_times.add(40_000_000 + at * 100_000));
    (decode.class_ns[1], decode.class_ns[2]) = (5_000_000_000, 1_500_000_000);
    let prefill = StageNumbers { steps: 10, launches: 9, ..decode.clone() };
    let kernel = |name: &str, ns| {
        let (stage, name) = ("decode".to_owned(), name.to_owned());
        KernelRow { stage, name, class: 1, ns, launches: 1_000 }
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
        },
        counts: Counts {
            work: 1_000_000,
            attributed: 998_000,
            outside: 2_000,
            ..Counts::default()
        },
        ..Watched::default()
    }
}

fn view() -> View {
    View {
        name: "tmp/stage2/latest".into(),
        look: Look { processes: vec![process(71, 0), process(72, 1)], ..Look::default() },
        phases: vec![(72, "stopping".into())],
        now_ns: 103_200_000_000,
        state: State::default(),
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
    for part in [
        "2 processes, 2 recording",
        "data 3.2 s old",
        "placed 100%",
        "in ranges 99.8%",
        "> decode",
        "  prefill",
        "gemm",
        "attention",
        "flash_fwd",
        "71 node-1",
        "stopping",
        "70.0%",
        "q end",
    ] {
        assert!(whole.contains(part), "{part} is not in\n{whole}");
    }
    let decode = shown.iter().find(|line| line.starts_with("> decode")).expect("a row");
    let numbers: Vec<&str> = decode.split_whitespace().skip(2).collect();
    // 200 steps in 10 s, of 40 to 60 ms; 70 % of the time in steps busy, 10 % in gaps.
    assert_eq!(numbers, ["20.0", "49.8", "59.2", "70.0%", "10.0%", "-", "800"], "{decode}");
    let small = text(&view(), 80, 16).join("\n");
    assert!(small.contains(" others ") && small.contains("q end"), "{small}");
    let styles = page(&view(), 80, 24);
    let spans = styles.iter().flat_map(|line| &line.spans);
    assert!(spans.into_iter().all(|span| span.style.fg.is_none() && span.style.bg.is_none()));
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
    view.state.help = true;
    let help = text(&view, 80, 24).join("\n");
    assert!(HELP.iter().all(|line| help.contains(line)), "a line of it is cut:\n{help}");
    view.state = State { frozen: true, ..State::default() };
    assert!(text(&view, 80, 24)[0].contains("FROZEN"));
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
