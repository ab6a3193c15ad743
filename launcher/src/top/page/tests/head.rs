//! The first lines.

use super::*;

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
        (40, "vllm-", "2 processes  3 s behind"),
        (30, "vllm-", "3 s behind"),
    ] {
        let first = &text(&view, width, 24)[0];
        assert!(first.starts_with(name) && first.ends_with(end), "{width}: {first}");
        // And no number of the second line is cut.
        let second = &text(&view, width, 24)[1];
        let parts = ["99.8%", "attributed 100%", "2,000,000", "lost 0"];
        assert!(parts.iter().any(|part| second.ends_with(part)), "{second}");
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

/// Hazard (Watching what runs): Recording was stopped, and the page takes the process for one that was never recorded, or
///  its last window for the whole run.
/// Promise: The process is `stopped`, and the first line names what the numbers are of.
#[test]
fn a_process_whose_recording_was_stopped_is_no_dormant_one() {
    let mut view = view();
    view.look.processes.truncate(1);
    view.phases = vec![(71, "dormant".to_owned())];
    let shown = text(&view, 100, 24);
    assert!(shown[0].contains("0 recording, 1 stopped  "), "its file ends later: {shown:#?}");
    assert!(shown.iter().any(|line| line.contains(" stopped  ")), "{shown:#?}");
    view.look.processes[0].counts.work = 0;
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

#[test]
fn the_age_is_that_of_the_process_that_is_shown_alone() {
    let mut view = view();
    view.look.processes[1].window.end_wall_ns = Some(20_000_000_000);
    assert!(text(&view, 80, 24)[0].contains("  3 s behind"), "{:#?}", text(&view, 80, 24));
    view.state.only = Some(id(&view.look.processes[1]));
    assert!(text(&view, 80, 24)[0].contains("  83 s behind"), "{:#?}", text(&view, 80, 24));
}

#[test]
fn the_data_of_a_frozen_page_grows_older() {
    let mut view = view();
    view.state.frozen = true;
    assert!(text(&view, 80, 24)[0].contains("  3 s behind  FROZEN"), "{:#?}", text(&view, 80, 24));
    view.frozen_ns = 6_000_000_000;
    assert!(text(&view, 80, 24)[0].contains("  9 s behind  FROZEN"), "{:#?}", text(&view, 80, 24));
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
