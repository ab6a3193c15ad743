//! Samples of the host, of interpreters that are installed here: what they say against what the program measured
//! itself, and that the program does not notice.

use crate::common::calls::{self, FOR_EVER, Fault};
use crate::common::host::{Samples, any_python, guest, said, share, with_each, with_each_at_once};
use crate::common::{Guest, despite_other_work};
use stage2_contract::trace::{
    Ending, HostCall, HostSample, HostSampling, HostState, Losses, Record, host,
};

/// Whether a share is right: within five points, or what chance makes of so few samples. A sampler that has to wait
/// for processors sees the moments at which the program does not run, as the file says: nothing is judged then.
fn judge(minor: u32, (sampled, measured): (f64, f64), samples: usize, totals: &HostSampling) {
    let chance = 3.0 * (measured * (1.0 - measured) / samples as f64).sqrt();
    let delays = totals.own_delay_ns as f64 / totals.sampled_ns as f64;
    eprintln!("3.{minor}: {sampled:.3} for {measured:.3} of {samples} samples; {totals:?}");
    if (sampled - measured).abs() < chance.max(0.05) {
        return;
    }
    if delays > 0.05 {
        return eprintln!(
            "SKIPPED for Python 3.{minor}: the machine has too few processors to spare"
        );
    }
    assert_usual!(false, "3.{minor}: {sampled} for {measured} of {samples} samples: {totals:?}");
}

fn line_of(comment: &str) -> u32 {
    let script = include_str!("../guests/host.py");
    let at = script.lines().position(|line| line.ends_with(comment)).expect("the line");
    at as u32 + 1
}

/// Hazard (Host samples): Python code runs, frames come and go, while they are read.
/// Promise: Shares of time by line are right within five points, or what chance makes of few samples.
#[test]
fn lines_have_the_shares_that_the_program_measured() {
    despite_other_work(|| {
        with_each(|minor, python| {
            let left = guest(python, "shares", "3").run();
            let trace = left.expect_quiet(0).trace();
            assert_eq!((trace.ending, trace.losses()), (Ending::Complete, Losses::default()));
            assert_eq!(
                (trace.meta(host::PYTHON), trace.meta(host::OFF)),
                (Some(&*format!("3.{minor}")), None)
            );
            let (said, all) = (said(&left), Samples::of(trace));
            let main = all.of_thread(f64::from(trace.pid()));
            let step = if minor == 10 { "step" } else { "Scheduler.step" };
            let (larger, smaller) =
                (line_of("# line of the larger share"), line_of("# line of the smaller share"));
            let at = |sample: &HostSample, line| all.lines(sample).contains(&(step, line));
            let in_step: Vec<&HostSample> = main
                .iter()
                .copied()
                .filter(|sample| at(sample, larger) || at(sample, smaller))
                .collect();
            assert_usual!(
                in_step.len() > 100,
                "3.{minor}: {} of {}: {:?}",
                in_step.len(),
                main.len(),
                all.totals
            );
            let sampled = share(&in_step, |sample| at(sample, larger));
            judge(minor, (sampled, said["larger"]), in_step.len(), &all.totals);
            // The recursion, what it was called from, and nothing else below it. A thread that leaves a frame and is
            // back in it between two looks cannot be told from one that stayed: a few stacks in a thousand.
            let is_whole = |sample: &HostSample| {
                let lines = all.lines(sample);
                lines.iter().filter(|(function, _)| *function == step).count() == 21
                    && lines.last().is_some_and(|(function, _)| *function == "<module>")
            };
            let whole = share(&in_step, is_whole);
            assert!(whole > 0.99, "3.{minor}: {whole} of {} stacks are whole", in_step.len());
            let holds = share(&main, |sample| sample.holds_gil);
            assert_usual!(holds > 0.8, "3.{minor}: {holds} hold the GIL");
            let ran = |sample: &HostSample| {
                matches!(sample.state, HostState::Running | HostState::Runnable)
            };
            let ran = share(&main, ran);
            assert_usual!(ran > 0.8, "3.{minor}: {ran} ran");
            assert!(all.threads[&trace.pid()].starts_with("python"), "{:?}", all.threads);
            // What the kernel counts covers the loop, and no more than the process lived.
            let [first, last] = all.times[&trace.pid()];
            let ready = last.cpu_ns + last.delay_ns - first.cpu_ns - first.delay_ns;
            assert_usual!(last.launches && ready > 2_500_000_000, "3.{minor}: {first:?} {last:?}");
            assert!(ready <= last.at.since(first.at) + 20_000_000, "3.{minor}: {first:?} {last:?}");
            for (name, function, state) in [
                ("naps", "nap", HostState::Sleep),
                ("locks", "await_lock", HostState::Lock),
                ("reads", "await_input", HostState::Poll),
            ] {
                let samples = all.of_thread(said[name]);
                assert_usual!(samples.len() >= 10, "3.{minor} {name}: {}", samples.len());
                let is = |sample: &HostSample| {
                    sample.state == state
                        && all.lines(sample).first().is_some_and(|(of, _)| *of == function)
                };
                assert_usual!(share(&samples, is) > 0.8, "3.{minor} {name}: {samples:?}");
            }
        });
    });
}

/// Hazard (Host samples): A thread that launches waits for the GIL, which looks like any other lock.
/// Promise: The share of that wait is right within five points, and its holder is named.
#[test]
fn a_wait_for_the_gil_is_told_with_its_holder() {
    despite_other_work(|| {
        with_each(|minor, python| {
            let left = guest(python, "gil", "2").run();
            let trace = left.expect_quiet(0).trace();
            let (said, all) = (said(&left), Samples::of(trace));
            let main = all.of_thread(f64::from(trace.pid()));
            let in_loop: Vec<&HostSample> = main
                .iter()
                .copied()
                .filter(|sample| all.lines(sample).iter().any(|(function, _)| *function == "gil"))
                .collect();
            let waits = |sample: &HostSample| sample.state == HostState::GilWait;
            judge(minor, (share(&in_loop, waits), said["waits"]), in_loop.len(), &all.totals);
            let waiting: Vec<&HostSample> =
                in_loop.iter().copied().filter(|sample| waits(sample)).collect();
            let by_hog = share(&waiting, |sample| {
                all.tids.get(&sample.holder).is_some_and(|tid| f64::from(*tid) == said["hog"])
            });
            assert_usual!(by_hog > 0.9, "3.{minor}: {by_hog}");
            // What holds it is looked at as often as what waits.
            let hog = all.of_thread(said["hog"]);
            assert_usual!(
                hog.len() * 2 > in_loop.len(),
                "3.{minor}: {} of {}",
                hog.len(),
                in_loop.len()
            );
        });
    });
}

/// Hazard (Host samples): A process forks while it is sampled.
/// Promise: The child is not sampled until it launches, and then has its own samples.
#[test]
fn a_forked_child_is_sampled_from_its_own_start_on() {
    with_each_at_once(|minor, python| {
        let left = guest(python, "fork", "1").run();
        // 3.12 and later warn of forks in a process with threads, of which ours is one.
        assert_eq!(left.output.status.code(), Some(0), "3.{minor}: {}", left.stderr());
        let said = said(&left);
        assert_eq!(said["status"], 0.0);
        let with_samples: Vec<f64> = left
            .traces
            .iter()
            .filter(|trace| Samples::of(trace).samples.len() > 20)
            .map(|trace| f64::from(trace.pid()))
            .collect();
        assert!(with_samples.contains(&said["launches"]), "3.{minor}: {with_samples:?}");
        assert!(left.traces.iter().all(|trace| f64::from(trace.pid()) != said["silent"]));
    });
}

/// Hazard (Host samples): Stacks deeper than what is kept; functions whose memory others take.
/// Promise: The innermost frames are recorded, cut ones are counted, and no function is taken for another one.
#[test]
fn deep_stacks_are_cut_and_counted() {
    despite_other_work(|| {
        with_each_at_once(|minor, python| {
            let left = guest(python, "deep", "2").run();
            let trace = left.expect_quiet(0).trace();
            let all = Samples::of(trace);
            let main = all.of_thread(f64::from(trace.pid()));
            let is_cut = |sample: &HostSample| {
                let lines = all.lines(sample);
                lines.len() > 900
                    && lines.last().is_some_and(|(outermost, _)| *outermost != "<module>")
            };
            let deep: Vec<_> = main.iter().filter(|sample| is_cut(sample)).collect();
            assert_usual!(
                deep.len() > 20,
                "3.{minor}: {} of {}: {:?}",
                deep.len(),
                main.len(),
                all.totals
            );
            assert!(all.totals.cut >= deep.len() as u64);
            let below = if minor == 10 { "below" } else { "deep.<locals>.below" };
            let odd = deep.iter().filter(|sample| {
                let lines = all.lines(sample);
                let short =
                    lines.iter().filter(|(function, _)| function.starts_with("short_")).count();
                short > 1
                    || lines.iter().filter(|(function, _)| *function == below).count() + 3
                        < lines.len()
            });
            assert_eq!(odd.count(), 0, "3.{minor}");
        });
    });
}

/// Hazard (Host samples): A program without Python code waits: of another language, or on a thread of a library.
/// Promise: The stacks of its waits are complete, down to the start of the thread.
#[test]
fn without_an_interpreter_threads_that_wait_have_native_stacks() {
    despite_other_work(|| {
        let left = Guest::new("works_for_a_while").env("STAGE2_HOST", "on").run();
        let trace = left.expect_quiet(0).trace();
        let all = Samples::of(trace);
        let main = all.of_thread(f64::from(trace.pid()));
        let asleep: Vec<&HostSample> =
            main.iter().copied().filter(|sample| sample.state == HostState::Sleep).collect();
        let is_whole = |sample: &HostSample| {
            let lines = all.lines(sample);
            let is = |name: &str| {
                lines.iter().any(|(function, line)| function.contains(name) && *line == 0)
            };
            is("works_for_a_while") && is("_start")
        };
        let whole = share(&asleep, is_whole);
        let lines = asleep.first().map(|sample| all.lines(sample));
        assert_usual!(asleep.len() > 60 && whole > 0.9, "{whole} of {}: {lines:?}", asleep.len());
        assert!(trace.meta(host::NOTE).is_some_and(|note| note.contains("no Python interpreter")));
        assert_eq!(all.totals.asked_ns, 10_000_000);
        let left = Guest::new("works_for_a_while").run();
        let trace = left.expect_quiet(0).trace();
        assert!(Samples::of(trace).samples.is_empty(), "nobody asked for it");
    });
}

/// Hazard (Host samples): Calls that block are shorter than the interval of the samples, or lie between two.
/// Promise: Each is recorded with its begin and end on its thread, with either attribution method.
#[test]
fn calls_that_block_are_told_with_their_exact_times() {
    despite_other_work(|| {
        let ways = [
            ("13.0", "fence", "v1", &[][..]),
            ("13.3", "fence", "v2", &[][..]),
            ("12.4", "callback", "v1", &[][..]),
            // Collection is off, and with it the callbacks at launches.
            ("13.0", "callback", "v1", &[("STAGE2_RANGES", "nothing")]),
        ];
        for (version, attribution, api, settings) in ways {
            let left = Guest::new("blocking_calls")
                .env("STAGE2_HOST", "on")
                .env("STAGE2_CUPTI_API", api)
                .envs(settings)
                .env("STAGE2_ATTRIBUTION", attribution)
                .env("STAGE2_SIM_CUPTI_VERSION", version)
                .env("STAGE2_SIM_FAULT", "slow-alloc=7")
                .run();
            let trace = left.expect_quiet(0).trace();
            assert_eq!(trace.losses(), Losses::default());
            let all = Samples::of(trace);
            let calls = all.calls(trace);
            let thread = trace.each(|record| match record {
                Record::RangeOpen(open) => Some(open.thread),
                _ => None,
            });
            let mut found = calls.iter();
            let mut measured = 0;
            for line in left.stdout().lines() {
                let mut words = line.split(' ');
                let name = words.next().expect("a name");
                let mut time = || words.next().expect("a time").parse::<u64>().expect("ns");
                let (begin, end) = (time(), time());
                let is_within = |call: &&HostCall| call.begin.0 >= begin && call.end.0 <= end;
                let call =
                    found.find(is_within).unwrap_or_else(|| panic!("{version} {line}: {calls:?}"));
                assert_eq!((all.names[&call.name].as_str(), call.thread), (name, thread[0]));
                let ns = call.end.since(call.begin);
                // What the call waited for: 50 MiB at 50 GB/s, give or take 2 %; the fault.
                let least = [("cuMemcpyDtoH", 1_027_000), ("cuMemAlloc", 7_000_000)];
                let least = least.iter().find(|(of, _)| *of == name).map_or(5_000, |(_, ns)| *ns);
                assert!(ns >= least, "{version} {line}: {ns}");
                measured += 1;
            }
            assert_eq!(measured, 30);
            assert_eq!(all.totals.calls, calls.len() as u64);
            // The first ones come before the thread is known to launch. Who made a call is read at its end.
            let long = calls.iter().filter(|call| call.end.since(call.begin) > 500_000);
            let told: Vec<_> =
                long.map(|call| all.lines_of(call.stack)).skip_while(Vec::is_empty).collect();
            let is_whole = |lines: &[(&str, u32)]| {
                let at =
                    |name: &str| lines.iter().position(|(function, _)| function.contains(name));
                let ours = at("copy_stack").or(at("on_callback"));
                ours.is_none()
                    && at("blocking_calls") < at("_start")
                    && at("blocking_calls").is_some()
            };
            let (whole, others): (Vec<_>, Vec<_>) =
                told.into_iter().partition(|lines| is_whole(lines));
            assert!(others.iter().all(Vec::is_empty), "{version}: {others:?}");
            assert_usual!(
                whole.len() > 8 && whole.len() * 3 >= others.len() * 7,
                "{version}: {}",
                whole.len()
            );
            // A call on a stream without work is one that sleeps for no time.
            let others = all.totals.short_calls + calls.len() as u64 - 30;
            assert!(others >= 51 && all.totals.lost_calls == 0, "{version}: {:?}", all.totals);
        }
        let left = Guest::new("blocking_calls").env("STAGE2_ATTRIBUTION", "callback").run();
        let calls = |record: &Record| matches!(record, Record::HostCalls(_)).then_some(());
        assert!(left.expect_quiet(0).trace().each(calls).is_empty(), "nobody asked for them");
    });
}

/// Hazard (Host samples): Two lines make the same call; no sample lies in it.
/// Promise: Each call records the line that made it.
#[test]
fn calls_that_block_tell_their_own_lines() {
    despite_other_work(|| {
        with_each_at_once(|minor, python| {
            let left = guest(python, "blocked", "2")
                .env("STAGE2_HOST", "100")
                .env("STAGE2_SIM_FAULT", "slow-alloc=8")
                .run();
            let trace = left.expect_quiet(0).trace();
            assert_eq!(trace.losses(), Losses::default());
            let (said, all) = (said(&left), Samples::of(trace));
            let calls: Vec<HostCall> = all
                .calls(trace)
                .into_iter()
                .filter(|call| all.names[&call.name] == "cuMemAlloc")
                .collect();
            assert_eq!(calls.len() as f64, said["count"], "3.{minor}");
            let (often, seldom) =
                (line_of("# line that allocates often"), line_of("# line that allocates seldom"));
            let mut told = 0;
            for (number, call) in calls.iter().enumerate() {
                let lines = all.lines_of(call.stack);
                let line = if number % 4 == 0 { seldom } else { often };
                let is_right = lines.first() == Some(&("allocate", line))
                    && lines.last().is_some_and(|(function, _)| *function == "<module>");
                assert!(lines.is_empty() || is_right, "3.{minor} {number}: {lines:?}");
                told += usize::from(is_right);
            }
            eprintln!(
                "3.{minor}: {told} of {} calls tell their line; {:?}",
                calls.len(),
                all.totals
            );
            // The first ones come before the interpreter is found.
            assert_usual!(told * 10 > calls.len() * 8, "3.{minor}: {told} of {}", calls.len());
        });
    });
}

/// Hazard (Host samples): The system refuses the calls that the sampling rests on.
/// Promise: Stacks are read another way, or states are missing and the file states why; nothing of the program is lost.
#[test]
fn where_the_system_refuses_calls_stacks_are_read_another_way() {
    let Some(library) = calls::library() else { return };
    let Some((minor, python)) = any_python() else { return };
    let meet = |function, error, first| {
        let fault = Fault { function, error, first, last: FOR_EVER };
        let met = calls::meet(guest(python, "shares", "2"), library, fault);
        assert!(met.failed > 0, "{function}");
        let trace = met.left.expect_quiet(0).trace();
        assert_eq!((trace.kernel_count(), trace.losses()), (10, Losses::default()), "{function}");
        let all = Samples::of(trace);
        let is_known = |sample: &&HostSample| sample.state != HostState::Unknown;
        let with_stack = all.samples.iter().filter(|sample| sample.stack != 0).count();
        let with_state = all.samples.iter().filter(is_known).count();
        let note = trace.meta(host::NOTE).unwrap_or_default().to_owned();
        (with_stack > 20, with_state > 20, note)
    };
    let (stacks, states, note) = meet("process_vm_readv", libc::EPERM, 1);
    assert!(stacks && states, "3.{minor} by /proc/self/mem: {note}");
    let (stacks, states, note) = meet("close_range", libc::ENOSYS, 1);
    assert!(stacks && !states && note.contains("Linux 5.9"), "3.{minor}: {note}");
}

/// Hazard (Host samples): A call fails when the thread already holds the program's descriptors.
/// Promise: The thread ends and holds none of them; one line states what is missing.
#[test]
fn a_thread_that_cannot_get_rid_of_descriptors_ends() {
    let Some(library) = calls::library() else { return };
    let fault = Fault { function: "close_range", error: libc::EPERM, first: 2, last: FOR_EVER };
    let met = calls::meet(Guest::new("works_for_a_while").env("STAGE2_HOST", "on"), library, fault);
    let stderr = met.left.expect_line(0);
    assert!(stderr.contains("the host is not sampled") && stderr.contains("ulimit -n"), "{stderr}");
    let trace = met.left.trace();
    assert!(trace.meta(host::OFF).is_some() && Samples::of(trace).samples.is_empty());
}

/// Hazard (Host samples): The program counts on the number of the descriptor that it has just closed.
/// Promise: It gets the numbers that it would get without the collector.
#[test]
fn a_program_keeps_the_numbers_of_its_descriptors() {
    let Some((_, python)) = any_python() else { return };
    let left = guest(python, "descriptors", "2").run();
    let trace = left.expect_quiet(0).trace();
    let said = said(&left);
    assert_eq!((said["tries"] > 1000.0, said["wrong"]), (true, 0.0));
    assert!(Samples::of(trace).samples.len() > 100);
}

/// Hazard (Host samples): The trace file is cut into pieces.
/// Promise: Each piece defines what its samples name.
#[test]
fn each_piece_of_a_trace_defines_what_its_samples_name() {
    let Some((_, python)) = any_python() else { return };
    // Threads that come and go have pieces turn.
    let left = guest(python, "descriptors", "2").env("STAGE2_ROTATE", "every=200ms").run();
    left.expect_quiet(0);
    let with_stacks = left.traces.iter().filter(|trace| {
        let all = Samples::of(trace);
        all.samples
            .iter()
            .any(|sample| all.lines(sample).iter().any(|(function, _)| *function == "descriptors"))
    });
    assert!(with_stacks.count() >= 4, "{} pieces", left.traces.len());
}
