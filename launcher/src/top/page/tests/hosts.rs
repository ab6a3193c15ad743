//! What the host did.

use super::*;

/// Hazard (Watching what runs): The host waits for the GPU, and the wait is taken for what the GPU waits for.
/// Promise: The page says that the host is ahead, as a report does, and names another cause only as what it is.
#[test]
fn a_wait_for_the_gpu_is_no_cause() {
    let of_gpu = |calls: [(&str, f64); 2], parts: [u64; 2], note: &str| {
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
        process.notes.push(note.into());
        let shown = text(&view, 80, 24);
        (shown[2].clone(), of_hosts(&shown)[0].trim_end().to_owned())
    };
    let page = |calls, parts| of_gpu(calls, parts, "no power is read");
    let two = [("cuStreamSynchronize", 36.0), ("cuMemcpyDtoHAsync", 19.0)];
    let ahead = "host ahead of the GPU (waits in cuStreamSynchronize)";
    let (answer, first) = page(two, [20, 10]);
    assert_eq!(answer, format!("decode: GPU idle 80.0%, {ahead}"));
    assert!(first.ends_with(&format!("  55.0%  {ahead}")), "{first}");
    let (answer, _) = page(two, [20, 70]);
    assert!(
        answer.starts_with("decode: GPU idle 80.0%, 70.0% in launch gaps, host ahead "),
        "{answer}"
    );
    let (answer, _) = of_gpu(two, [20, 10], "the GPU is simulated: slow");
    assert!(
        answer.contains("first cause in all stages: "),
        "its simulator may be what is waited for: {answer}"
    );
    // Less than half of the time does not decide, and a call that is no wait is a cause.
    let (answer, first) = page([two[0], ("cuMemAlloc", 1.0)], [20, 10]);
    assert!(answer.contains("all stages: …schedule"), "{answer}");
    assert!(first.contains("41.0%  Scheduler.schedule"), "{first}");
    let (answer, first) = page([("cuStreamSynchronize", 45.0), ("cuMemAlloc", 1.0)], [20, 10]);
    assert!(answer.contains("all stages: …schedule"), "{answer}");
    assert!(first.contains("45.0%  host ahead, no cause (waits in cuStreamSynchroni"), "{first}");
    let (answer, _) = page([("cuStreamSynchronize", 45.0), ("cuMemAlloc", 46.0)], [20, 10]);
    assert!(answer.ends_with(", first cause in all stages: blocked in cuMemAlloc"), "{answer}");
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
        ["rank 0", "rank 1"].map(|who| format!("  {who:>8}   35.0%  41.0%  {line}; rest 59%"));
    let gil = "                    22.0%  GIL held by 'detokenizer' …schedule (scheduler.py:99)";
    assert_eq!(of_hosts(&two), [first.as_str(), second.as_str()], "{two:#?}");
    assert!(of_hosts(&text(&view, 100, 50)).len() == 8);
    view.look.processes.truncate(1);
    let one = text(&view, 80, 24);
    let alone = first.replace("; rest 59%", "");
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
        "                    22.0%  waiting for the GIL held by 'detokenizer'; rest 37%",
        "                           the memory layout of Python 3.9 is not known: sample…",
    ];
    assert_eq!(of_hosts(&shown), expected, "{shown:#?}");
}

/// Hazard (Watching what runs): On a small terminal, a cause that takes a third of the time is a part of the rest, and a line
///  explains something else.
/// Promise: Each cause of 10 % has a line before why causes are in no code has one, and before the last kernels. The title
///  then states that reason.
#[test]
fn a_large_cause_has_a_line_before_notes_and_the_last_kernels() {
    let page = |ranks: usize, causes: &[f64], height: usize| {
        let width = if height < 20 { 60 } else { 80 };
        let mut view = view();
        view.look.processes.truncate(ranks);
        for process in &mut view.look.processes {
            let cause = |percent: &f64| HostCause {
                kind: HostCauseKind::NativeCode,
                thread: Some(format!("lane {percent}")),
                percent: *percent,
                ..HostCause::default()
            };
            let host = &mut process.window.host;
            host.causes = causes.iter().map(cause).collect();
            host.note = Some("no Python interpreter was found".into());
        }
        text(&view, width, height)
    };
    let note = |shown: &[String]| {
        let at = |line: &String| line.contains("no Python interpreter");
        shown.iter().filter(|line| at(line)).cloned().collect::<Vec<_>>()
    };
    for (causes, height) in
        [(&[33.0, 31.0, 29.0][..], 24), (&[30.0, 29.0, 20.0, 19.0], 24), (&[33.0, 31.0], 20)]
    {
        let shown = page(1, causes, height);
        let lines = of_hosts(&shown);
        for percent in causes {
            let line = format!(" {percent:.1}%  native code of the thread 'lane {percent}'");
            assert!(lines.iter().any(|of| of.contains(&line)), "{line}: {shown:#?}");
        }
        assert_eq!(note(&shown).len(), 1, "{shown:#?}");
        let title = shown.iter().position(|line| line.contains("KERNEL IN")).expect("a title");
        assert!(shown[title + 2].contains(" gemm_b "), "{shown:#?}");
    }
    // With as many causes as lines, the title has it.
    let shown = note(&page(2, &[40.0, 30.0], 24));
    let title = "  HOST (all stages, last 10 s): no Python interpre";
    assert!(shown.len() == 1 && shown[0].contains(title), "{shown:#?}");
    // A word or two of it say nothing.
    let shown = page(2, &[40.0, 30.0], 15);
    let title = shown.iter().find(|line| line.contains("NO WORK"));
    assert!(title.is_some_and(|title| title.ends_with("(all stages, last 10 s)")), "{shown:#?}");
}

#[test]
fn of_a_line_that_is_too_long_what_is_looked_for_stays() {
    let wait = "blocked in cuStreamSynchronize from gpu::Lane::synchronize (stage2-demo)";
    let code = "EncoderCudaGraphManager.run_fullgraph (cudagraph_utils.py:401)";
    let call = "a system call from <std::io::stdio::StdinLock as std::io::BufRead>::fill (guest)";
    for (text, width, expected) in [
        (call, 53, "a system call from …fill (guest)"),
        (wait, 50, "blocked in cuStreamSynchronize (stage2-demo)"),
        (wait, 30, "blocked in cuStreamSynchronize"),
        (wait, 20, "cuStreamSynchronize"),
        (code, 40, "…run_fullgraph (cudagraph_utils.py:401)"),
        (code, 30, "cudagraph_utils.py:401"),
        ("runnable, waiting for a processor", 25, "waiting for a processor"),
        ("runnable, waiting for a processor", 20, "runnable"),
        ("native code of the thread 'lane 0'", 25, "native code"),
    ] {
        assert_eq!(super::super::hosts::fitted(text, width), expected);
    }
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

#[test]
fn causes_of_all_stages_say_why_they_are_not_of_the_chosen_one() {
    let (view, _) = sample("runner");
    let shown = text(&view, 80, 24).join("\n");
    assert!(shown.contains("  HOST (all stages: too few samples in decode)"), "{shown}");
    // What is outside of ranges has no calls in which there could be samples.
    let (mut view, _) = sample("vllm_two_gpus");
    view.state.chosen = 3;
    let shown = text(&view, 80, 24).join("\n");
    assert!(shown.contains("> (outside ranges)") && shown.contains("RAN (all stages)"), "{shown}");
}

/// Not all calls are recorded: the GPU may work in the others, and the host is not sampled.
#[test]
fn of_a_sampled_run_the_time_without_work_is_known_and_that_of_the_gpu_is_not() {
    let (view, _) = sample("server_window");
    let shown = text(&view, 80, 24);
    assert!(of_hosts(&shown)[0].starts_with("      3913   43.6%  "), "{shown:#?}");
    let rank = shown.iter().find(|line| line.starts_with("     -    3913 ")).expect("a row");
    assert!(rank.trim_end().ends_with("56.4%     -       0"), "{shown:#?}");
}
