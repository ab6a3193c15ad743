//! What a sampled guest may do: its samples are right, or missing with a reason, and the guest and its kernels are as
//! without samples.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::common::host::{Samples, any_python, free_threaded, said, with_each, with_each_at_once};
use crate::common::{self, Guest, Left, TraceFile, calls, despite_other_work, each};
use stage2_contract::trace::{HostState, Losses, host};

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/host_hazards.py")
}

fn hazard(python: &Path, what: &str) -> Guest {
    Guest::program(python).argument(script()).argument(what).env("STAGE2_HOST", "500")
}

/// The trace file of a guest that ended well, with all its kernels and without a message.
fn whole<'l>(left: &'l Left, what: &str) -> (&'l TraceFile, Samples) {
    assert_eq!((left.output.status.code(), &*left.stderr()), (Some(0), ""), "{what}");
    let trace = left.trace();
    assert_eq!((trace.kernel_count(), trace.losses()), (10, Losses::default()), "{what}");
    (trace, Samples::of(trace))
}

/// How many samples have these functions in consecutive frames, the innermost first. The class before a name is ignored:
/// 3.10 has no qualified names.
fn count(all: &Samples, functions: &[&str]) -> usize {
    let is = |name: &str, wanted: &str| {
        name.strip_suffix(wanted).is_some_and(|class| class.is_empty() || class.ends_with('.'))
    };
    let are = |part: &[&str]| part.iter().zip(functions).all(|(name, wanted)| is(name, wanted));
    let has = |stack| {
        let lines = all.lines_of(stack);
        let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
        names.windows(functions.len()).any(are)
    };
    let stacks: BTreeSet<u32> = all.stacks.keys().copied().filter(|stack| has(*stack)).collect();
    all.samples.iter().filter(|sample| stacks.contains(&sample.stack)).count()
}

/// Hazard (Host samples): Sub-interpreters, which have a GIL of their own from 3.12 on, come and go on other threads.
/// Promise: Their stacks are read like those of the main interpreter.
#[test]
fn sub_interpreters_have_stacks() {
    despite_other_work(|| {
        with_each_at_once(|minor, python| {
            let left = hazard(python, "sub_interpreters").run();
            // The interpreter's own warning about a private module.
            let trace = left.trace();
            assert_eq!(left.output.status.code(), Some(0), "3.{minor}: {}", left.stderr());
            assert_eq!(
                (trace.kernel_count(), trace.losses()),
                (10, Losses::default()),
                "3.{minor}"
            );
            let all = Samples::of(trace);
            assert_usual!(count(&all, &["in_sub"]) >= 2, "3.{minor}: {:?}", all.totals);
            assert_usual!(
                count(&all, &["spin", "sub_interpreters"]) >= 2,
                "3.{minor}: {:?}",
                all.totals
            );
        });
    });
}

/// Hazard (Host samples): A process has a thousand threads, and the one that launches is the last one in the lists.
/// Promise: Its stacks are read, and those of threads beyond the limit are counted.
#[test]
fn of_a_thousand_threads_the_one_that_launches_has_its_stacks() {
    despite_other_work(|| {
        // All at once, thousands of threads leave the sampler no processor.
        with_each(|minor, python| {
            let left = hazard(python, "thousand_threads").run();
            let (trace, all) = whole(&left, &format!("3.{minor}"));
            let main = all.of_thread(f64::from(trace.pid()));
            let with_stack = main.iter().filter(|sample| sample.stack != 0).count();
            eprintln!("3.{minor}: {with_stack} of {} with a stack; {:?}", main.len(), all.totals);
            assert_usual!(
                with_stack >= 5 && with_stack * 10 >= main.len() * 8,
                "3.{minor}: {:?}",
                all.totals
            );
            let spinning = count(&all, &["spin", "launch_and_spin"]);
            assert_usual!(spinning >= 5, "3.{minor}: {spinning}");
            assert!(all.totals.threads_left_out >= 740, "3.{minor}: {:?}", all.totals);
        });
    });
}

/// Hazard (Host samples): Frames lie on the heap and are switched: generators, coroutines, greenlets.
/// Promise: Stacks go through all of them, down to who asked for the next value.
#[test]
fn generators_coroutines_and_greenlets_have_whole_stacks() {
    despite_other_work(|| {
        // Wheels of greenlet, one for each interpreter, may be in such a folder.
        let packages = std::env::var_os("STAGE2_TEST_PYTHON_PACKAGES").unwrap_or_default();
        with_each_at_once(|minor, python| {
            let left = hazard(python, "generators").env("PYTHONPATH", &packages).run();
            let (_, all) = whole(&left, &format!("3.{minor}"));
            let of_generators = ["spin", "inner_generator", "outer_generator", "generators"];
            let of_coroutines = ["spin", "inner_coroutine", "outer_coroutine", "Handle._run"];
            let of_coroutines = if minor == 10 { &of_coroutines[..3] } else { &of_coroutines[..] };
            let found = [count(&all, &of_generators), count(&all, of_coroutines)];
            assert_usual!(
                found.iter().all(|found| *found >= 3),
                "3.{minor}: {found:?} {:?}",
                all.totals
            );
            if said(&left).contains_key("greenlets") {
                let in_greenlet = count(&all, &["spin", "in_greenlet"]);
                let in_main = count(&all, &["spin", "generators"]);
                assert_usual!(
                    in_greenlet >= 3 && in_main >= 3,
                    "3.{minor}: {in_greenlet} {in_main}"
                );
            } else {
                let why =
                    format!("greenlets of Python 3.{minor}: STAGE2_TEST_PYTHON_PACKAGES has none");
                common::not_allowed(&why);
            }
        });
    });
}

/// Hazard (Host samples): Names of functions and files are a megabyte long, empty, or have no UTF-8 form.
/// Promise: They are kept within a limit, as UTF-8.
#[test]
fn odd_names_are_kept_within_limits() {
    with_each_at_once(|minor, python| {
        let left = hazard(python, "odd_names").run();
        let (_, all) = whole(&left, &format!("3.{minor}"));
        let known: Vec<&str> = all.names.values().map(String::as_str).collect();
        assert!(known.iter().all(|name| name.len() <= 1_600), "3.{minor}");
        for start in ["nnnnnn", "half \u{fffd} \u{fffd}", "\u{1f600}\u{1f600}"] {
            assert!(known.iter().any(|name| name.starts_with(start)), "3.{minor} {start:?}");
        }
    });
}

/// Hazard (Host samples): Functions are compiled, run and freed in a loop, at the same addresses.
/// Promise: None is taken for another one: a name and its line belong together.
#[test]
fn functions_at_one_address_keep_their_own_lines() {
    with_each_at_once(|minor, python| {
        let left = hazard(python, "reused_code").run();
        let (_, all) = whole(&left, &format!("3.{minor}"));
        let mut right = 0;
        for sample in &all.samples {
            for (function, line) in all.lines(sample) {
                let Some(number) = function.strip_prefix("at_") else { continue };
                // A frame that has not yet begun has the line of its first instruction, or none.
                assert!(line == 0 || number == line.to_string(), "3.{minor} {function}:{line}");
                right += usize::from(line != 0);
            }
        }
        assert!(right >= 10, "3.{minor}: {right}: {:?}", all.totals);
    });
}

/// Hazard (Host samples): The interpreter finalises while daemon threads compute and are sampled.
/// Promise: The program ends as without the collector, with a complete file.
#[test]
fn an_end_with_daemon_threads_is_as_without_us() {
    with_each_at_once(|minor, python| {
        for _ in 0..2 {
            let left = hazard(python, "ends_with_daemons").env("STAGE2_HOST", "1000").run();
            let (_, all) = whole(&left, &format!("3.{minor}"));
            assert!(count(&all, &["spin", "launch_and_spin"]) >= 2, "3.{minor}: {:?}", all.totals);
        }
    });
}

/// Hazard (Host samples): The program executes another one while it is sampled.
/// Promise: Both have a complete file with their samples.
#[test]
fn a_program_that_goes_on_as_another_one_is_sampled_anew() {
    let Some((_, python)) = any_python() else { return };
    let left = hazard(python, "executes").run();
    left.expect_quiet(0);
    assert_eq!(left.traces.len(), 2);
    for trace in &left.traces {
        assert_eq!((trace.kernel_count(), trace.losses()), (10, Losses::default()));
        let all = Samples::of(trace);
        assert!(count(&all, &["spin", "launch_and_spin"]) >= 5, "{:?}", all.totals);
    }
}

/// Hazard (Host samples): Memory is unmapped and threads end while they are read.
/// Promise: The program does not notice, and loses no kernel.
#[test]
fn memory_that_goes_while_it_is_read_harms_nobody() {
    with_each_at_once(|minor, python| {
        let left = hazard(python, "unmapped").env("STAGE2_HOST", "1000").run();
        let (_, all) = whole(&left, &format!("3.{minor}"));
        assert!(count(&all, &["unmapped"]) >= 5, "3.{minor}: {:?}", all.totals);
    });
}

/// Hazard (Host samples): A limit leaves few descriptors, or none.
/// Promise: Samples use none of the program's: they work, or one line states why not, and no kernel is lost.
#[test]
fn a_limit_of_descriptors_takes_samples_at_most() {
    let Some((_, python)) = any_python() else { return };
    each(0..=8, |free| {
        let left = hazard(python, "few_descriptors").argument(free.to_string()).run();
        assert_eq!(left.output.status.code(), Some(0), "{free}: {}", left.stderr());
        let Some(trace) = left.traces.first() else {
            assert!(!left.stderr().is_empty(), "{free}: nobody said that nothing is recorded");
            return;
        };
        assert_eq!((trace.kernel_count(), trace.losses()), (10, Losses::default()), "{free}");
        let all = Samples::of(trace);
        let why = trace.meta(host::OFF).or(trace.meta(host::NOTE));
        assert!(
            all.samples.len() >= 5 || why.is_some(),
            "{free}: {} {:?}",
            left.stderr(),
            all.totals
        );
    });
}

/// Hazard (Host samples): The program has become another user, to whom the kernel shows none of its files in `/proc`.
/// Promise: Stacks are read, and the file states why states are missing.
#[test]
fn another_user_has_stacks_and_a_word_about_states() {
    with_each_at_once(|minor, python| {
        let left = hazard(python, "other_user").run();
        if left.stderr().contains("PermissionError") {
            return common::not_allowed("a change of user needs root");
        }
        let (trace, all) = whole(&left, &format!("3.{minor}"));
        let note = trace.meta(host::NOTE).unwrap_or_default();
        assert!(
            count(&all, &["spin", "launch_and_spin"]) >= 2,
            "3.{minor}: {note} {:?}",
            all.totals
        );
        let unknown = all.samples.iter().filter(|sample| sample.state == HostState::Unknown);
        let has_none = unknown.count() == all.samples.len();
        assert_eq!(has_none, note.contains("a change of user"), "3.{minor}: {note}");
    });
}

/// Hazard (Host samples): A limit of threads leaves none for the samples.
/// Promise: One line reports it, and no kernel is lost.
#[test]
fn a_limit_of_threads_takes_samples_at_most() {
    let Some((_, python)) = any_python() else { return };
    let lacks = std::sync::Mutex::new([Vec::new(), Vec::new()]);
    let lacked = |index: usize, threads| lacks.lock().expect("no panic")[index].push(threads);
    // Several times each, because chance decides which thread starts first.
    each((2..=6).chain(2..=6).chain(2..=6), |threads: u32| {
        let left = hazard(python, "few_threads").argument(threads.to_string()).run();
        if left.stderr().contains("PermissionError") {
            return common::not_allowed("a change of user needs root");
        }
        assert_eq!(left.output.status.code(), Some(0), "{threads}: {}", left.stderr());
        let Some(trace) = left.traces.first() else {
            assert!(!left.stderr().is_empty(), "{threads}: nobody said that nothing is recorded");
            return;
        };
        if left.stderr().contains("GPU work is not recorded") {
            return lacked(0, threads);
        }
        assert_eq!((trace.kernel_count(), trace.losses()), (10, Losses::default()), "{threads}");
        if trace.meta(host::OFF).is_some_and(|why| why.contains("ulimit -u")) {
            assert_eq!(left.stderr().matches("the host is not sampled").count(), 1);
            lacked(1, threads);
        } else {
            assert!(Samples::of(trace).samples.len() >= 5, "{threads}: {}", left.stderr());
        }
    });
    let [kernels, samples] = lacks.into_inner().expect("no panic");
    let both = kernels.iter().find(|threads| samples.contains(threads));
    assert_eq!(both, None, "kernels lack a thread that samples may have: {kernels:?} {samples:?}");
    assert_eq!(kernels.is_empty(), samples.is_empty(), "no limit leaves kernels without samples");
}

/// Hazard (Host samples): The program gives all threads, including the collector's, a filter that kills on reading
///  memory.
/// Promise: The thread sees the filter before it reads, and ends with one line.
#[test]
fn a_filter_that_comes_later_kills_nobody() {
    if cfg!(not(target_arch = "x86_64")) {
        return common::not_allowed("the filter is one of x86-64");
    }
    with_each_at_once(|minor, python| {
        // A filter that comes within a round, which takes some microseconds, cannot be seen in time.
        let ended_well = |_| {
            let left = hazard(python, "late_filter").run();
            let is_killed = left.output.status.code().is_none();
            (!is_killed).then_some(left)
        };
        let left = (0..3).find_map(ended_well).unwrap_or_else(|| panic!("3.{minor}: killed"));
        let stderr = left.expect_line(0);
        assert!(stderr.contains("the host is no longer sampled"), "3.{minor}: {stderr}");
        let (trace, all) = (left.trace(), Samples::of(left.trace()));
        assert_eq!((trace.kernel_count(), trace.losses()), (10, Losses::default()), "3.{minor}");
        assert!(count(&all, &["spin", "launch_and_spin"]) >= 2, "3.{minor}: {:?}", all.totals);
        assert_eq!(count(&all, &["spin", "late_filter"]), 0, "3.{minor}");
        assert!(
            trace.meta(host::OFF).is_some_and(|why| why.contains("installed a seccomp filter"))
        );
    });
}

/// Hazard (Host samples): The program begins with a filter that kills on reading memory.
/// Promise: It is not read, and one line reports it.
#[test]
fn under_a_filter_of_its_own_the_program_is_not_sampled() {
    let Some((_, python)) = any_python() else { return };
    let left = hazard(python, "own_filter").run();
    let stderr = left.expect_line(0);
    assert!(
        stderr.contains("the host is not sampled: the program has a seccomp filter"),
        "{stderr}"
    );
    let trace = left.trace();
    assert_eq!((trace.kernel_count(), Samples::of(trace).samples.len()), (10, 0));
}

/// Hazard (Host samples): The filter of a container refuses to read memory by one call, or by all.
/// Promise: Stacks are read another way, or the file states why there are none.
#[test]
fn under_the_filter_of_a_container_stacks_are_read_another_way_or_not() {
    let Some((_, python)) = any_python() else { return };
    each([1, 2], |refused: i32| {
        let left = hazard(python, "contained").argument(refused.to_string()).run();
        if said(&left).contains_key("refused") {
            return common::not_allowed("a namespace needs the right to make one");
        }
        assert_eq!(said(&left).get("status"), Some(&0.0), "{refused}: {}", left.stderr());
        assert_eq!(left.stderr(), "", "{refused}");
        let trace = left.traces.first().expect("the process in the container launches");
        assert_eq!((trace.kernel_count(), trace.losses()), (10, Losses::default()), "{refused}");
        let all = Samples::of(trace);
        let with_stack = count(&all, &["spin", "launch_and_spin"]);
        let note = trace.meta(host::NOTE).or(trace.meta(host::OFF)).unwrap_or_default();
        if refused == 1 {
            assert!(with_stack >= 5, "{note} {:?}", all.totals);
        } else {
            assert!(with_stack == 0 && note.contains("seccomp"), "{note} {:?}", all.totals);
        }
    });
}

/// Hazard (Host samples): A build without the GIL keeps its threads in another way.
/// Promise: Threads have states without stacks, and the file states why.
#[test]
fn a_build_without_the_gil_is_refused() {
    let check = |minor: u32, left: &Left| {
        let (trace, all) = whole(left, &format!("3.{minor}"));
        let note = trace.meta(host::NOTE).unwrap_or_default();
        assert!(note.contains("free-threaded build of Python"), "3.{minor}: {note}");
        assert!(all.samples.len() >= 5 && all.samples.iter().all(|sample| sample.stack == 0));
    };
    match free_threaded() {
        Some((minor, python)) => check(minor, &hazard(python, "sampled").patience(120).run()),
        None => common::not_allowed("a build without the GIL: set STAGE2_TEST_PYTHONS to one"),
    }
    // From 3.13 on, a build tells that it has no GIL in a field that another build can have as well.
    with_each_at_once(|minor, python| {
        if minor >= 13 {
            check(minor, &hazard(python, "forged_build").patience(120).run());
        }
    });
}

/// Hazard (Host samples): After a fork, 3.11.0 and 3.11.1 keep the parent's number of the thread.
/// Promise: The child's thread has its own stacks.
#[test]
fn a_forked_child_with_its_parents_number_has_stacks() {
    with_each_at_once(|minor, python| {
        if minor != 11 {
            return;
        }
        let left = hazard(python, "stale_number").run();
        let said = said(&left);
        assert_eq!(said.get("status"), Some(&0.0), "{}", left.stderr());
        let child = left.traces.iter().find(|trace| f64::from(trace.pid()) == said["child"]);
        let all = Samples::of(child.expect("the child launches"));
        let main = all.of_thread(said["child"]);
        let with_stack = main.iter().filter(|sample| sample.stack != 0).count();
        assert!(with_stack >= 5, "{with_stack} of {}: {:?}", main.len(), all.totals);
    });
}

/// The shared library of an interpreter.
fn shared_library(minor: u32, python: &Path) -> Option<PathBuf> {
    let folder = python.parent()?.with_file_name("lib");
    let name = format!("libpython3.{minor}.so.1.0");
    let places = [folder.join(&name), folder.join("x86_64-linux-gnu").join(&name)];
    places.into_iter().find(|path| path.exists())
}

/// Hazard (Host samples): A program of another language has interpreters, of different versions or none that starts,
///  and ends one while it is sampled.
/// Promise: Stacks are those of the interpreter that the whole process sees, or missing with a reason; no kernel is
///  lost.
#[test]
fn interpreters_within_other_programs_are_told_apart() {
    let Some((_folder, program)) = calls::program("interpreters") else { return };
    let libraries = std::sync::Mutex::new(Vec::new());
    with_each_at_once(|minor, python| {
        if let Some(library) = shared_library(minor, python) {
            libraries.lock().expect("no panic").push((minor, library));
        }
    });
    let mut libraries = libraries.into_inner().expect("no panic");
    libraries.retain(|(minor, library)| {
        let word = format!("global={}", library.display());
        let loaded = std::process::Command::new(&program).arg(word).output();
        let loads = loaded.is_ok_and(|output| output.status.success());
        if !loads {
            common::not_allowed(&format!(
                "the library of Python 3.{minor} needs another C library"
            ));
        }
        loads
    });
    libraries.sort();
    let run = |words: &[String]| {
        let guest = Guest::program(&program).env("STAGE2_HOST", "500");
        let left = words.iter().fold(guest, Guest::argument).run();
        assert_eq!((left.output.status.code(), &*left.stderr()), (Some(0), ""), "{words:?}");
        let trace = left.trace();
        let launches = words.iter().filter(|word| *word == "launch").count();
        assert_eq!((trace.kernel_count(), trace.losses()), (10 * launches, Losses::default()));
        let (note, version) = (trace.meta(host::NOTE), trace.meta(host::PYTHON));
        let note = note.unwrap_or_default().to_owned();
        (count(&Samples::of(trace), &["embedded"]), note, version.map(str::to_owned))
    };
    let words = |text: &str, libraries: &[&PathBuf]| -> Vec<String> {
        let mut libraries = libraries.iter();
        let word = |word: &str| match word.strip_suffix('=') {
            Some(_) => format!("{word}{}", libraries.next().expect("one more").display()),
            None => word.to_owned(),
        };
        text.split(' ').map(word).collect()
    };
    each(&libraries, |(minor, library)| {
        let version = Some(format!("3.{minor}"));
        // It never starts; it ends while it is sampled, and the program goes on; nobody but the program sees it.
        let (stacks, note, found) = run(&words("global= launch wait launch", &[library]));
        assert_eq!((stacks, found), (0, None), "3.{minor}");
        assert!(note.contains("no Python code ran"), "3.{minor}: {note}");
        let (stacks, note, found) =
            run(&words("global= launch run=0 end=0 wait launch", &[library]));
        assert!(stacks >= 5 && found == version, "3.{minor}: {stacks} {note} {found:?}");
        let (stacks, note, found) = run(&words("local= launch run=0 launch", &[library]));
        assert_eq!((stacks, found), (0, None), "3.{minor}");
        assert!(note.contains("no Python interpreter was found"), "3.{minor}: {note}");
    });
    let (Some((oldest, first)), Some((_, last))) = (libraries.first(), libraries.last()) else {
        return common::not_allowed("no interpreter here has a shared library");
    };
    if libraries.len() > 1 {
        let (stacks, note, found) =
            run(&words("global= local= launch run=0 run=1 end=1 launch", &[first, last]));
        assert!(stacks >= 5 && found == Some(format!("3.{oldest}")), "{stacks} {note} {found:?}");
        // The newer one has symbols that the older one lacks, and never starts.
        let (stacks, note, found) =
            run(&words("global= global= launch run=0 launch", &[first, last]));
        assert!(stacks >= 5 && found == Some(format!("3.{oldest}")), "{stacks} {note} {found:?}");
    }
}

/// Another sampler is the oracle: both look at the same program at the same time.
#[test]
fn py_spy_sees_the_same_shares() {
    despite_other_work(|| {
        let py_spy =
            std::env::var_os("STAGE2_TEST_PY_SPY").map_or_else(|| "py-spy".into(), PathBuf::from);
        let seen = |python: &Path| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests");
            let guest = Guest::program(python).argument(folder.join("host.py")).argument("shares");
            let mut running = guest.argument("3").env("STAGE2_HOST", "200").spawn();
            let told = running.out().join("py-spy");
            let output = std::process::Command::new(&py_spy)
                .args([
                    "record",
                    "--nonblocking",
                    "--format",
                    "raw",
                    "--rate",
                    "200",
                    "--duration",
                    "4",
                ])
                .args(["--pid", &running.pid().to_string(), "--output"])
                .arg(&told)
                .output();
            let output = match output {
                Ok(output) => output,
                Err(error) => {
                    running.end();
                    return Err(format!("py-spy ({error}): set STAGE2_TEST_PY_SPY to it"));
                }
            };
            assert!(running.ended().success(), "{}", running.stderr());
            let Ok(theirs) = std::fs::read_to_string(&told) else {
                return Err(format!("py-spy: {}", String::from_utf8_lossy(&output.stderr)));
            };
            let traces = common::traces_in(running.out());
            Ok((Samples::of(traces.first().expect("a trace file")), theirs))
        };
        with_each_at_once(|minor, python| {
            let (all, theirs) = match seen(python) {
                Ok(both) => both,
                Err(why) => return common::skipped(&why),
            };
            let line_of = |comment: &str| {
                let script = include_str!("../guests/host.py");
                script.lines().position(|line| line.ends_with(comment)).expect("the line") + 1
            };
            let lines = ["# line of the larger share", "# line of the smaller share"].map(line_of);
            let ours = lines.map(|line| {
                let is_at = |stack| {
                    let lines = all.lines_of(stack);
                    lines.iter().any(|(name, of)| name.ends_with("step") && *of as usize == line)
                };
                all.samples.iter().filter(|sample| is_at(sample.stack)).count()
            });
            let theirs = lines.map(|line| {
                let frame = format!("(host.py:{line})");
                let stacks = theirs.lines().filter(|stack| {
                    stack.split(';').any(|of| of.contains("step (") && of.contains(&*frame))
                });
                stacks
                    .filter_map(|stack| stack.rsplit(' ').next()?.parse::<usize>().ok())
                    .sum::<usize>()
            });
            let share = |[larger, smaller]: [usize; 2]| larger as f64 / (larger + smaller) as f64;
            eprintln!("3.{minor}: {ours:?} of ours, {theirs:?} of py-spy; {:?}", all.totals);
            let fewest = (ours[0] + ours[1]).min(theirs[0] + theirs[1]);
            assert_usual!(fewest > 50, "3.{minor}: {ours:?} {theirs:?}");
            // Two estimates of about 0.7, each with its chance.
            let chance = 3.0 * (2.0 * 0.21 / fewest as f64).sqrt();
            let difference = (share(ours) - share(theirs)).abs();
            assert_usual!(
                difference < chance.max(0.05),
                "3.{minor}: {difference} {ours:?} {theirs:?}"
            );
        });
    });
}
