//! Several runs.

use super::super::runs;
use super::*;

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
    // Where its units have no room, a rate has none.
    let shown = text(&view, 80, 30);
    assert!(shown.iter().any(|line| line.ends_with(" TOKENS/S  REQS  RATE/S")), "{shown:#?}");
    assert!(shown.iter().any(|line| line.ends_with("   200  32.0    20.0")), "{shown:#?}");
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
    // The table of ranks cuts no name further than that of stages, and one process alone is called by its run.
    view.state.chosen = 0;
    let shown = text(&view, 80, 40);
    for name in ["sorting ", "two_gpus "] {
        let ranks = shown.iter().filter(|line| line.starts_with("     ") && line.contains(name));
        assert_eq!(ranks.count(), 2, "{name}: {shown:#?}");
    }
    let mut alone = view.clone();
    alone.look.processes.retain(|process| process.rank == Some(0));
    alone.look.processes.iter_mut().for_each(|process| process.rank = None);
    alone.state.only = Some(id(&alone.look.processes[0]));
    let answer = text(&alone, 80, 40).swap_remove(2);
    assert!(answer.starts_with("decode of vllm_sorting: "), "{answer}");
    view.state.chosen = rows - 1;
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
    let demos = ["20261130-162512-13447", "20261130-163045-18140", "vllm_sorting"];
    assert_eq!(cut(&demos[..2], 9), ["…13447", "…18140"]);
    assert_eq!(cut(&demos, 9), ["…13447", "…18140", "…sorting"]);
    // A part of a name that another one has whole.
    assert_eq!(cut(&["run", "run-b"], 4), ["run", "ru…b"]);
    assert_eq!(cut(&["a-long-name-1", "b-long-name-2"], 6).len(), 2);
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
    // The line about the chosen stage names the run as its row does, rather than cut what it says.
    let name = |run: &str| format!("/srv/{run}/collector/a.s2t");
    let mut long = both.clone();
    for (process, run) in
        long.look.processes.iter_mut().zip(["20261130-162512-13447", "20261130-163045-18140"])
    {
        process.file = name(run);
    }
    let answer = text(&long, 80, 24).swap_remove(2);
    let end = ": sorting_scheduler.py:18";
    assert!(answer.starts_with("decode of …13447: ") && answer.ends_with(end), "{answer}");
    long.state.only = Some(id(&long.look.processes[0]));
    assert_eq!(text(&long, 80, 24).swap_remove(2), answer);
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

/// Hazard (Watching what runs): A key shows another process, and the tables are of another stage without a word.
/// Promise: The stage stays, of the same run if that is shown, also where another one begins.
#[test]
fn another_process_or_a_new_stage_leaves_the_chosen_stage() {
    let mut view = view();
    for (process, run) in view.look.processes.iter_mut().zip(["run-a", "run-b"]) {
        process.file = format!("/srv/{run}/collector/{}.s2t", process.pid);
    }
    let chosen = |view: &View| {
        let row = chosen_row(view).expect("a row");
        (row.name, row.run)
    };
    let all: Vec<_> = rows(&view).into_iter().map(|row| (row.name, row.run)).collect();
    for (at, (name, _)) in all.iter().enumerate() {
        (view.state.chosen, view.state.only) = (at, None);
        for is_below in [true, true, false, false] {
            show_neighbour(&mut view, is_below);
            assert_eq!(chosen(&view).0, *name, "{at}");
        }
        assert!(view.state.only.is_none());
        let run = Some("run-a".to_owned());
        assert_eq!(chosen(&view), (name.clone(), run), "that of the process shown last");
    }
    let before = (chosen(&view), chosen_row(&view));
    for process in &mut view.look.processes {
        let sum = process.window.stages["decode"].clone();
        process.window.stages.insert("a_new_decode".into(), sum);
    }
    keep_stage(&mut view, before.1);
    assert_eq!(chosen(&view), before.0);
}

/// Hazard (Watching what runs): Two runs leave no room for a kernel, next to why a rank of the other run is late; and a key
///  that scrolls kernels is offered.
/// Promise: The kernels of the chosen stage come first. Where none has a row, that key is not offered.
#[test]
fn kernels_come_before_why_a_rank_of_another_run_is_late() {
    let (mut view, _) = sample("vllm_sorting");
    view.look.processes.extend(sample("vllm_two_gpus").0.look.processes);
    view.ended = Some(format!("Ended; reports: {0} {0}", "docs/sample/a_long_name/report.html"));
    let of = |view: &View, run: &str, height: usize| {
        let mut view = view.clone();
        let all = rows(&view);
        let is_it = |row: &Row| row.run.as_deref() == Some(run) && row.name == "decode";
        view.state.chosen = all.iter().position(is_it).expect("a row");
        text(&view, 80, height).join("\n")
    };
    let shown = of(&view, "vllm_sorting", 24);
    assert!(shown.contains(" KERNEL IN decode") && shown.contains(" nvjet_"), "{shown}");
    assert!(!shown.contains("is late") && shown.contains(")* "), "{shown}");
    assert!(shown.contains("  PgUp/Dn  "), "{shown}");
    assert!(of(&view, "vllm_sorting", 40).contains("is late"), "{shown}");
    let shown = of(&view, "vllm_two_gpus", 24);
    assert!(shown.contains("is late"), "{shown}");
    let shown = of(&view, "vllm_sorting", 16);
    assert!(!shown.contains(" KERNEL IN ") && !shown.contains("PgUp"), "{shown}");
}
