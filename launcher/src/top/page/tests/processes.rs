//! Processes and ranks.

use super::*;

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
        told("1", Some("(WAIT▴)")),
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
        process.window.is_whole = true;
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

/// Hazard (Watching what runs): A process is recorded, its file is not read yet, and a key acts on what the page does not show.
/// Promise: It has a row and is counted. What it does, and that its file is read, are in two columns.
#[test]
fn a_process_that_is_not_read_yet_has_a_row() {
    let mut view = view();
    view.look.catches_up = true;
    view.phases = vec![(71, "on".to_owned()), (72, "on".to_owned())];
    let [_, late] = &mut view.look.processes[..] else { panic!("two processes") };
    *late = Watched { host: "node-1".into(), pid: 72, is_behind: true, ..Watched::default() };
    (late.state, late.file) = (FileState::Growing, "/srv/run/collector/node-1-72.s2t".into());
    let shown = text(&view, 80, 24);
    assert!(shown[0].contains("2 processes, 2 recording"), "{shown:#?}");
    let row = shown.iter().find(|line| line.contains(" 72 node-1 ")).expect("a row");
    assert!(row.contains(" recording ") && row.ends_with(" reading"), "{row}");
    // Without a socket it may have ended.
    view.phases.pop();
    let shown = text(&view, 80, 24);
    assert!(shown[0].contains("2 processes, 1 recording"), "{shown:#?}");
    // Before the history is read, the busy time of the last seconds is known.
    view.look.processes[0].counts.work = 0;
    let shown = text(&view, 80, 24);
    let row = shown.iter().find(|line| line.contains(" 71 node-1 ")).expect("a row");
    assert!(row.contains(" 70.0% 65.0% "), "{row}");
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
