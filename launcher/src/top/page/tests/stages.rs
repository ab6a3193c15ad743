//! Stages, their rates and their order.

use super::*;

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
    // A rank has them by the same rule as its stage, and so has what was recorded up to a stop.
    view.tokens_set = vec![("run".into(), counts(Some(2), Some(512)))];
    for is_whole in [false, true] {
        view.look.processes[0].window.is_whole = is_whole;
        let rate = short(rates(&view)[0].expect("a rate"));
        let shown = text(&view, 200, 50);
        let rank = shown.iter().find(|line| line.contains(" node-1 ")).expect("a rank");
        assert!(rank.split_whitespace().any(|cell| cell == rate), "{rate} {shown:#?}");
    }
    view.look.processes[0].window.is_whole = false;
    // A prefill of several calls before a decode.
    view.tokens_set = vec![("run".into(), counts(Some(2), Some(512)))];
    view.look.processes[0].window.stages.get_mut("prefill").expect("a stage").steps = 40;
    assert_eq!(rates(&view), [Some(128.0), None]);
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

/// Hazard (Watching what runs): One rank ends before the others, and its last seconds lower or raise the rates of now.
/// Promise: Rates are of the ranks that go on; one that has ended has none.
#[test]
fn a_rank_that_has_ended_has_no_part_in_the_rates() {
    let mut view = view();
    view.phases.clear();
    for (process, part) in view.look.processes.iter_mut().zip([1, 4]) {
        let decode = process.window.stages.get_mut("decode").expect("a stage");
        (decode.steps, decode.launches) = (200 / part, 8_000 / part);
        (decode.steps_with_tokens, decode.tokens) = (200 / part, 2_000 / part);
    }
    let rates = |view: &View| {
        let shown = text(view, 160, 40);
        let row = |start: &str| shown.iter().find(|line| line.contains(start)).expect("it").clone();
        let (stage, rank) = (row("> decode "), row(" 72 node-1"));
        let has = |part: &str| stage.contains(part);
        (has(" 20.0 steps/s") && has(" 200 ") && has(" 800"), rank.trim_end().ends_with(" -"))
    };
    view.look.processes[1].state = FileState::Ended;
    assert_eq!(rates(&view), (true, true), "{:#?}", text(&view, 160, 40));
    // Both have: each over its own time.
    view.look.processes[0].state = FileState::Ended;
    assert_eq!(rates(&view), (false, false), "{:#?}", text(&view, 160, 40));
    assert!(text(&view, 160, 40).join("\n").contains(" 12.5 steps/s"));
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
    // On a low one, they take no line, and come after all that is no operator, unless they are looked for.
    let has_operator = |shown: &[String]| shown.join("\n").contains("  aten::");
    assert!(!has_operator(&shown), "{shown:#?}");
    let mut view = view;
    let stages = &mut view.look.processes[0].window.stages;
    let outside = stages["decode"].clone();
    stages.insert("(outside ranges)".to_owned(), outside);
    let names: Vec<String> = rows(&view).into_iter().map(|row| row.name).collect();
    assert_eq!(names[3], "(outside ranges)", "{names:?}");
    view.state.filter = "aten".to_owned();
    assert!(has_operator(&text(&view, 80, 24)), "{:#?}", text(&view, 80, 24));
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
            assert!(difference.is_some_and(|by| by < 1e-6), "{name} {}: {live:?}", row.name);
        }
    }
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
    assert_eq!(request.split_whitespace().skip(6).take(3).collect::<Vec<_>>(), ["-"; 3]);
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
