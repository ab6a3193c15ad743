use super::*;
use stage2_contract::trace::{
    Anchor, GpuNs, Losses, MonoNs, Path as RangePath, Process as Who, RangeOpen, Record, WallNs,
    Writer, ending, pieces,
};

const S: u64 = 1_000_000_000;

/// A file of `pid` that defines the stage `decode`.
fn begun(path: &Path, pid: u32, meta: &Record, at: u64) -> Writer<fs::File> {
    let mut writer = Writer::new(fs::File::create(path).expect("a file")).expect("a header");
    writer.write(&Record::Process(Who { pid, host: "host".into(), ..Who::default() }));
    writer.write(meta);
    let (gpu, mono, wall) = (GpuNs(at), MonoNs(at), WallNs(at));
    writer.write(&Record::Anchor(Anchor { gpu, mono, wall }));
    writer.write(&Record::Name { id: 1, bytes: b"decode".to_vec() });
    writer.write(&Record::Path(RangePath { id: 1, parent: 0, name: 1, domain: 0 }));
    writer
}

/// A file of `pid` with `steps` steps of the stage `decode`, one each 100 ms from second `from` on.
fn trace(path: &Path, pid: u32, rank: &str, from: u64, steps: u64, ends: bool) {
    let rank = Record::Meta { key: "env.RANK".into(), value: rank.into() };
    let mut writer = begun(path, pid, &rank, from * S);
    for range in 1..=steps {
        let start = MonoNs(from * S + range * S / 10);
        let open = RangeOpen { range, start, path: 1, thread: 1, ..RangeOpen::default() };
        writer.write(&Record::RangeOpen(open));
        writer.write(&Record::RangeClose { range, end: MonoNs(start.0 + 5) });
    }
    if ends {
        writer.write(&Record::End { reason: "exit".into() });
    }
    writer.flush().expect("a disk");
}

fn watched_folder() -> (tempfile::TempDir, Watch) {
    let folder = tempfile::tempdir().expect("a folder");
    let watch = Watch::new(vec![Source::Folder(folder.path().into())], Options::default());
    (folder, watch)
}

fn steps(process: &Watched) -> u64 {
    process.totals.get("decode").map_or(0, |numbers| numbers.steps)
}

fn steps_shown(process: &Watched) -> u64 {
    process.window.stages.get("decode").map_or(0, |numbers| numbers.steps)
}

/// Hazard (Watching what runs): A trace file ends within a frame.
/// Promise: Once the frame can no longer be completed, something is known to be missing.
#[test]
fn a_file_that_ends_within_a_frame_is_torn_until_somebody_completes_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.s2t");
    trace(&path, 1, "0", 0, 5, true);
    let whole = fs::read(&path).expect("a file");
    fs::write(&path, &whole[..whole.len() - 3]).expect("a file");
    let mut watch = Watch::new(vec![Source::File(path.clone())], Options::default());
    watch.tick();
    assert!(!watch.look().processes[0].is_torn, "it may be in the making");
    (0..=QUIET_TICKS).for_each(|_| watch.tick());
    assert!(watch.look().processes[0].is_torn && !watch.look().processes[0].is_growing());
    fs::write(&path, whole).expect("a file");
    watch.tick();
    let process = &watch.look().processes[0];
    assert_eq!((process.is_torn, &process.state), (false, &FileState::Ended));
}

/// Hazard (Watching what runs): A trace file grows faster than it is read, and one look at it never ends.
/// Promise: A look reads what was there when it began, tells how far it is, and has its numbers.
#[test]
fn what_is_there_is_read_to_its_end_however_fast_a_file_grows() {
    let (folder, mut watch) = watched_folder();
    let path = folder.path().join("host-1.s2t");
    let long = || (0..60).map(|id| Record::Name { id: 100 + id, bytes: vec![b'x'; 100_000] });
    trace(&path, 1, "0", 10, 20, false);
    let mut writer = Writer::new(Vec::new()).expect("a header");
    long().for_each(|name| writer.write(&name));
    writer.flush().expect("memory");
    // Frames without the header of a file, which has 20 bytes.
    let frames = writer.into_sink()[20..].to_vec();
    let grow = || {
        let mut file = fs::File::options().append(true).open(&path).expect("a file");
        std::io::Write::write_all(&mut file, &frames).expect("a disk");
    };
    grow();
    let all = fs::metadata(&path).expect("a file").len();
    let mut told = Vec::new();
    watch.read_what_is_there(|read, of| {
        grow();
        told.push((read, of));
        true
    });
    assert!(told.len() == 2 && told[0] == (0, all) && told[1].0 > 0, "{told:?} of {all}");
    let look = watch.look();
    assert!(!look.is_reading && look.behind_bytes > 0, "{} bytes", look.behind_bytes);
    assert_eq!(steps(&look.processes[0]), 19);
    // Before it is followed, too, and then it tells how far it is as well.
    let (folder, mut watch) = watched_folder();
    trace(&folder.path().join("host-1.s2t"), 1, "0", 10, 20, false);
    let mut told = Vec::new();
    watch.read_first(|read, of| {
        told.push((read, of));
        true
    });
    assert!(told.len() == 1 && told[0].1 > 0, "{told:?}");
    assert!(!watch.look().is_reading && steps(&watch.look().processes[0]) > 0);
}

#[test]
fn ranks_stand_side_by_side_and_files_that_come_are_found() {
    let (folder, mut watch) = watched_folder();
    watch.tick();
    assert!(watch.look().processes.is_empty());
    trace(&folder.path().join("host-2.s2t"), 2, "1", 10, 20, false);
    trace(&folder.path().join("host-9.s2t"), 9, "0", 10, 30, true);
    fs::write(folder.path().join("notes.txt"), "no trace file").expect("a file");
    watch.tick_at(14 * S, TICK_BYTES);
    let look = watch.look();
    let seen: Vec<_> =
        look.processes.iter().map(|p| (p.rank, p.pid, steps(p), p.state.clone())).collect();
    assert_eq!(seen[0], (Some(0), 9, 30, FileState::Ended));
    // The last one has closed, and may still go on.
    assert_eq!(seen[1], (Some(1), 2, 19, FileState::Growing));
    for _ in 0..QUIET_TICKS {
        watch.tick();
    }
    assert_eq!(steps(&watch.look().processes[1]), 20, "nothing more came");
    // While a rank goes on, all show the last seconds; when none does, their calls but the first.
    let shown = |watch: &Watch| {
        let of = |p: &Watched| (p.window.is_whole, p.window.stages["decode"].steps);
        watch.look().processes.iter().map(of).collect::<Vec<_>>()
    };
    watch.now_ns = 20 * S;
    assert_eq!(shown(&watch), [(false, 30), (false, 20)]);
    watch.now_ns = 60 * S;
    assert_eq!(shown(&watch), [(true, 29), (true, 19)]);
}

/// Hazard (Watching what runs): A process begins its next trace file.
/// Promise: Counters never fall.
#[test]
fn totals_never_fall_when_a_process_begins_its_next_file() {
    let (folder, mut watch) = watched_folder();
    let mut before = 0;
    for window in 1..=5u64 {
        let path = folder.path().join(format!("host-7-w{window}.s2t"));
        trace(&path, 7, "0", 100 * window, 10, true);
        watch.tick();
        let look = watch.look();
        assert_eq!(look.processes.len(), 1);
        assert_eq!(steps(&look.processes[0]), before + 10);
        assert!(look.processes[0].file.ends_with(&format!("w{window}.s2t")));
        before += 10;
        // A file that was read and is taken away later is no news.
        fs::remove_file(&path).expect("a file");
    }
    assert!(watch.look().problems.is_empty(), "{:?}", watch.look().problems);
    assert_eq!(watch.files.len(), 1, "the others are sums");
}

/// A piece of the trace of process 7: a second of steps, the last of which goes on in the next piece.
fn piece(folder: &Path, number: u64, ends: bool) {
    let path = folder.join(pieces::piece_name("host-7-1700000000", number));
    let (first, begin) = (number * 10, (100 + number) * S);
    let meta = |key: &str, value: u64| Record::Meta { key: key.into(), value: value.to_string() };
    let open = |range: u64, start: u64, continues: u64| {
        let start = MonoNs(start);
        let open =
            RangeOpen { range, start, continues, path: 1, thread: 1, ..RangeOpen::default() };
        Record::RangeOpen(open)
    };
    let mut writer = begun(&path, 7, &meta(pieces::PIECE, number), begin);
    if number > 1 {
        writer.write(&open(first - 1, begin, first - 1));
    }
    writer.write(&meta(pieces::OPEN_BEFORE, u64::from(number > 1)));
    writer.write(&Record::Losses(Losses { range_events: 2, ..Losses::default() }));
    if number > 1 {
        writer.write(&Record::RangeClose { range: first - 1, end: MonoNs(begin + 5) });
    }
    for range in first..first + 10 {
        let start = begin + (range - first + 1) * S / 20;
        writer.write(&open(range, start, 0));
        if range < first + 9 || ends {
            writer.write(&Record::RangeClose { range, end: MonoNs(start + 5) });
        }
    }
    let reason = if ends { "exit" } else { pieces::CONTINUED };
    writer.write(&Record::End { reason: reason.into() });
    writer.flush().expect("a disk");
}

fn lost_events(process: &Watched) -> u64 {
    process.losses.iter().find(|(kind, _)| *kind == "range_events").map_or(0, |(_, lost)| *lost)
}

/// Hazard (Traces in pieces): A piece ends while it is watched live.
/// Promise: The reader goes on with the next one, and counts a range that is open once.
#[test]
fn pieces_of_a_trace_are_one_process_and_its_reader_goes_on_over_each_seam() {
    let (folder, mut watch) = watched_folder();
    for number in 1..=6 {
        piece(folder.path(), number, number == 6);
        watch.tick_at((101 + number) * S, TICK_BYTES);
        let look = watch.look();
        assert_eq!((look.processes.len(), look.behind_bytes), (1, 0));
        let process = &look.processes[0];
        let open = u64::from(number < 6);
        // The last one that closed may still go on.
        assert!((number * 10 - 1 - open..=number * 10 - open).contains(&steps(process)));
        assert_eq!(lost_events(process), 2 * number);
        assert_eq!(process.notes, Vec::<String>::new());
        let state = if number == 6 { FileState::Ended } else { FileState::Growing };
        assert_eq!(process.state, state, "piece {number}");
    }
    assert_eq!(watch.look().processes[0].end.as_deref(), Some("exit"));
    assert!(watch.look().problems.is_empty(), "{:?}", watch.look().problems);
    assert_eq!((watch.files.len(), watch.files().count()), (1, 6));
}

#[test]
fn pieces_that_are_deleted_before_they_are_read_are_told() {
    let (folder, mut watch) = watched_folder();
    (2..=4).for_each(|number| piece(folder.path(), number, false));
    watch.tick();
    piece(folder.path(), 8, true);
    watch.tick_at(109 * S, TICK_BYTES);
    let look = watch.look();
    let [process] = &look.processes[..] else { panic!("{:?}", look.processes) };
    assert_eq!(process.notes, ["of its trace is not there any more: piece 1, pieces 5 to 7"]);
    // Those that were open before the gap, or came out of it, count where they began or not at all.
    assert_eq!((steps(process), lost_events(process)), (40, 8));
}

#[test]
fn a_process_that_dies_and_files_that_vanish_or_are_damaged_are_told_once() {
    let (folder, mut watch) = watched_folder();
    let [gone, cut, foreign] = ["a.s2t", "b.s2t", "c.s2t"].map(|name| folder.path().join(name));
    trace(&gone, 1, "0", 10, 20, false);
    trace(&cut, 2, "1", 10, 20, false);
    fs::write(&foreign, "\x1b[2J is no trace file at all, whatever it is called").expect("a file");
    watch.tick();
    fs::remove_file(&gone).expect("a file");
    fs::File::options().write(true).open(&cut).and_then(|file| file.set_len(60)).expect("a file");
    for _ in 0..9 {
        watch.tick();
    }
    let problems = watch.look().problems;
    assert_eq!(problems.len(), 3, "{problems:?}");
    for part in ["was removed", "became shorter", "not a trace file"] {
        assert!(problems.iter().any(|problem| problem.contains(part)), "{part}: {problems:?}");
    }
    assert!(problems.iter().all(|problem| problem.matches(".s2t").count() == 1), "{problems:?}");
    let steps: Vec<u64> = watch.look().processes.iter().map(steps).collect();
    assert_eq!(steps[..2], [20, 20], "what was read counts");
}

/// Hazard (Watching what runs): A process of this host is killed: nothing says that its recording is over.
/// Promise: It is gone within seconds; one of another host, or one that runs, is not. As in a report, something is missing
///  unless its file states that it was about to end.
#[test]
fn a_process_of_this_host_that_was_killed_is_gone_at_once() {
    let (folder, mut watch) = watched_folder();
    let of_the_past = || {
        let mut child = std::process::Command::new("true").spawn().expect("a program");
        child.wait().expect("it ends");
        child.id()
    };
    let (killed, ended, goes_on) = (of_the_past(), of_the_past(), of_the_past());
    trace(&folder.path().join("a.s2t"), killed, "0", 10, 20, false);
    trace(&folder.path().join("b.s2t"), std::process::id(), "1", 10, 20, false);
    let announced = |path: &str, pid: u32, all: &[&str]| {
        let said = |how: &str| Record::Meta { key: ending::ANNOUNCED.into(), value: how.into() };
        let mut writer = begun(&folder.path().join(path), pid, &said(all[0]), 11 * S);
        all[1..].iter().for_each(|how| writer.write(&said(how)));
        writer.flush().expect("a disk");
    };
    announced("c.s2t", ended, &["signal 9"]);
    // It took that back, and was killed later.
    announced("d.s2t", goes_on, &["signal 15", ""]);
    let gone = |watch: &mut Watch, host: &str, second: u64| {
        host.clone_into(&mut watch.host);
        watch.tick_at(second * S, TICK_BYTES);
        let look = watch.look();
        let of = |pid: u32| look.processes.iter().find(|process| process.pid == pid).expect("it");
        let runs = of(std::process::id());
        assert!(runs.is_growing() && !runs.is_gone && !runs.is_cut_off);
        [killed, ended, goes_on].map(|pid| {
            let process = of(pid);
            assert_eq!(process.is_growing(), !process.is_gone);
            assert_eq!(process.is_cut_off, !process.notes.is_empty(), "{:?}", process.notes);
            (process.is_gone, process.is_cut_off)
        })
    };
    assert_eq!(gone(&mut watch, "host", 13), [(false, false); 3], "it may be of a container");
    assert_eq!(gone(&mut watch, "another", 17), [(false, false); 3]);
    assert_eq!(gone(&mut watch, "host", 17), [(true, true), (true, false), (true, true)]);
    // Of another host it is not known whether it still runs.
    let folder = tempfile::tempdir().expect("a folder");
    trace(&folder.path().join("a.s2t"), killed, "0", 10, 20, false);
    let mut watch = Watch::new(vec![Source::Folder(folder.path().into())], Options::default());
    (0..9).for_each(|_| watch.tick_at(90 * S, TICK_BYTES));
    let missing = "killed, or still running; up to one flush period of its records (STAGE2_FLUSH_MS) may be missing";
    assert_eq!(watch.look().processes[0].notes, [missing]);
}

/// Hazard (Watching what runs): The shared folder of a job shows the file of one host late, and a rank was
///  started again.
/// Promise: Both are said of the process, and what was read counts.
#[test]
fn a_process_that_lags_and_a_rank_that_restarted_are_told() {
    let (folder, mut watch) = watched_folder();
    trace(&folder.path().join("a.s2t"), 1, "0", 10, 20, false);
    trace(&folder.path().join("b.s2t"), 2, "1", 60, 20, false);
    trace(&folder.path().join("c.s2t"), 3, "2", 20, 20, true);
    trace(&folder.path().join("d.s2t"), 4, "2", 61, 20, false);
    (0..=QUIET_TICKS).for_each(|_| watch.tick_at(64 * S, TICK_BYTES));
    let look = watch.look();
    let of = |pid: u32| look.processes.iter().find(|process| process.pid == pid).expect("it");
    assert_eq!([1, 2, 3, 4].map(|pid| of(pid).lags), [true, false, false, false]);
    assert!(
        of(1).notes[0].starts_with("its data is 51 s older than the newest"),
        "{:?}",
        of(1).notes
    );
    assert_eq!(of(3).notes, ["process 4 on host has rank 2, too, and newer data"]);
    assert!(of(2).notes.is_empty() && of(4).notes.is_empty());
    // Of a file that was silent for long when it was found, nothing more is awaited.
    assert_eq!(look.processes.iter().map(steps).sum::<u64>(), 80);
}

/// Hazard (Watching what runs): The trace files of two jobs are in one folder.
/// Promise: The processes with the same number, and those of the smaller job, are named; all count.
#[test]
fn processes_of_two_jobs_in_one_folder_are_told() {
    let (folder, mut watch) = watched_folder();
    for (pid, rank) in [(1, "0"), (2, "1"), (3, "0")] {
        trace(&folder.path().join(format!("{pid}.s2t")), pid, rank, 10, 20, false);
    }
    for (pid, ranks) in [(4, "4"), (5, "8"), (6, "8")] {
        let ranks = Record::Meta { key: "env.WORLD_SIZE".into(), value: ranks.into() };
        let path = folder.path().join(format!("{pid}.s2t"));
        begun(&path, pid, &ranks, 10 * S).flush().expect("a disk");
    }
    (0..=QUIET_TICKS).for_each(|_| watch.tick_at(13 * S, TICK_BYTES));
    let look = watch.look();
    let told: Vec<_> = look.processes.iter().filter(|of| of.is_suspect).collect();
    let notes: Vec<_> = told.iter().map(|of| (of.pid, of.notes.concat())).collect();
    let both = "both are still running: they are of two jobs, or were given the same number";
    let double = format!("process 1 on host has rank 0, too, and {both}");
    let other = "its job has 4 ranks, and that of most others 8: it is of another job";
    assert_eq!(notes, [(3, double), (4, other.to_owned())]);
    assert_eq!((look.processes.len(), look.processes.iter().map(steps).sum::<u64>()), (6, 60));
    // In another folder, the same rank is that of another run.
    let other = folder.path().join("other");
    std::fs::create_dir(&other).expect("a folder");
    trace(&other.join("7.s2t"), 7, "1", 10, 20, false);
    let sources = [folder.path().to_owned(), other].map(Source::Folder);
    let mut watch = Watch::new(sources.into(), Options::default());
    (0..=QUIET_TICKS).for_each(|_| watch.tick_at(13 * S, TICK_BYTES));
    let look = watch.look();
    let doubles = look.processes.iter().filter(|of| of.notes.concat().contains(", too, and"));
    assert_eq!(doubles.map(|of| of.pid).collect::<Vec<_>>(), [3]);
}

/// Hazard (Watching what runs): The files of a finished run, whose process did not announce its end, are being read.
/// Promise: Until all of them are read, the page states that; then their numbers are final at once.
#[test]
fn a_run_that_has_ended_has_no_numbers_until_all_is_read() {
    const STEPS: u64 = 200_000;
    let (folder, mut watch) = watched_folder();
    let path = folder.path().join("a.s2t");
    trace(&path, 1, "0", 10, STEPS, false);
    let shown = |watch: &Watch| {
        let look = watch.look();
        (look.is_reading, look.processes[0].window.is_whole, steps(&look.processes[0]))
    };
    // As little as a reader takes at least.
    watch.tick_at(100_000 * S, 1);
    let (is_reading, is_whole, part) = shown(&watch);
    assert!(is_reading && !is_whole && (1..STEPS).contains(&part), "{part}");
    watch.tick_at(100_000 * S, TICK_BYTES);
    assert_eq!(shown(&watch), (false, true, STEPS));
}

/// Hazard (Watching what runs): So much comes at once that a tick does not read all of it, once of a process that ends then.
/// Promise: The numbers so far stay, the page states that newer ones are being read, and nobody is said to hang.
#[test]
fn numbers_stay_while_newer_records_are_read() {
    let (folder, mut watch) = watched_folder();
    let path = folder.path().join("a.s2t");
    trace(&path, 1, "0", 10, 400_000, true);
    let whole = fs::read(&path).expect("a file");
    fs::write(&path, &whole[..whole.len() / 4]).expect("a file");
    trace(&folder.path().join("b.s2t"), 2, "1", 40_005, 10, false);
    let shown = |watch: &Watch| {
        let look = watch.look();
        assert!(look.processes.iter().all(|of| !of.lags), "{look:#?}");
        let of_first = &look.processes[0];
        (look.is_reading, look.catches_up, of_first.is_behind, steps(of_first) > 1_000)
    };
    watch.tick_at(40_006 * S, TICK_BYTES);
    // Nothing more of it is there: it may hang.
    assert!(watch.look().processes[0].lags && !watch.look().is_reading);
    fs::write(&path, &whole).expect("a file");
    watch.tick_at(40_006 * S, 1);
    assert_eq!(shown(&watch), (false, true, true, true));
    (watch.pace, watch.behind) = (watch.pace.map(|of| (of.0 - 10 * PACE, 0)), watch.bytes());
    assert_eq!(watch.look().reading_left_s.map(|left| left.abs_diff(10) < 2), Some(true));
    watch.tick_at(40_006 * S, TICK_BYTES);
    assert_eq!(shown(&watch), (false, false, false, true));
    assert_eq!(watch.look().processes[0].state, FileState::Ended);
}

/// Hazard (Watching what runs): A run has recorded for hours when a screen attaches to it.
/// Promise: The page is of now after the definitions and the newest part are read; sums follow with the history.
#[test]
fn the_newest_part_of_a_long_run_is_shown_before_its_history() {
    const STEPS: u64 = 1_200_000;
    let (folder, mut watch) = watched_folder();
    watch.newest_first();
    let path = folder.path().join("a.s2t");
    let mut child = std::process::Command::new("true").spawn().expect("a program");
    child.wait().expect("it ends");
    let pid = child.id();
    trace(&path, pid, "0", 10, STEPS, false);
    "host".clone_into(&mut watch.host);
    let now_ns = (10 + STEPS / 10) * S;
    assert!(fs::metadata(&path).expect("a file").len() > HISTORY_BYTES);
    let mut looks: Vec<Look> = Vec::new();
    for _ in 0..32 {
        watch.tick_at(now_ns, CATCH_UP_BYTES);
        if looks.last().is_some_and(|last| last.is_reading) && watch.look().catches_up {
            // That it was killed is known before its history is read.
            watch.tick_at(now_ns + 5 * S, 1);
            assert!(watch.look().catches_up && watch.look().processes[0].is_gone);
            watch.tick_at(now_ns, 1);
        }
        looks.push(watch.look());
    }
    let first = looks.iter().find(|look| !look.is_reading).expect("numbers");
    let (process, last) = (&first.processes[0], &looks.last().expect("looks").processes[0]);
    assert!(first.catches_up && !process.is_behind, "{first:#?}");
    assert_eq!((process.pid, process.rank, process.state.is_over()), (pid, Some(0), false));
    let shown = |of: &Watched| (of.window.ns, of.window.end_wall_ns, steps(of), steps_shown(of));
    let (ns, end, sum, in_window) = shown(process);
    assert!(sum < STEPS / 2 && in_window > 80, "{sum} {in_window}");
    // What was left out is not idle time.
    assert!(process.window.minute.busy_ns.len() == 60 && ns > 8 * S, "{ns}");
    // With the history, they are the same.
    assert_eq!(shown(last), (ns, end, STEPS - 1, in_window));
    assert!(!looks.last().is_none_or(|look| look.catches_up || look.is_reading));
    // A file that is over is read from its start, and then its numbers are of all of it.
    let (folder, mut watch) = watched_folder();
    watch.newest_first();
    let path = folder.path().join("a.s2t");
    trace(&path, 1, "0", 10, STEPS, false);
    let old = SystemTime::now() - Duration::from_mins(1);
    fs::File::options()
        .append(true)
        .open(&path)
        .and_then(|of| of.set_modified(old))
        .expect("a file");
    watch.tick_at(2 * now_ns, CATCH_UP_BYTES);
    assert!(watch.look().is_reading && steps(&watch.look().processes[0]) > 1_000);
    // Next to a process that goes on, such a file waits, and has no numbers before it is read.
    let (_, mut watch) = (watch, Watch::new(vec![Source::File(path)], Options::default()));
    watch.newest_first();
    let live = folder.path().join("b.s2t");
    trace(&live, 2, "1", 2 * STEPS, 90_000, false);
    watch.add(Source::File(live));
    let now_ns = (2 * STEPS + 9_000) * S;
    for _ in 0..4 {
        watch.tick_at(now_ns, CATCH_UP_BYTES / 8);
        let look = watch.look();
        if !look.is_reading {
            break;
        }
        assert!(look.processes.iter().all(|of| of.pid != 1), "{look:#?}");
    }
    watch.tick_at(now_ns, 1);
    let look = watch.look();
    let [past, now] = &look.processes[..] else { panic!("{look:#?}") };
    assert!(look.catches_up && past.is_behind && !now.is_behind, "{look:#?}");
    assert_eq!((past.window.stages.len(), steps_shown(now) > 80), (0, true));
}

/// Hazard (Watching what runs): A busy host reads the history at the cost of the present, which grows old meanwhile.
/// Promise: Between two looks at the present, so much is read as takes about a second.
#[test]
fn a_slow_host_reads_less_of_the_history_at_a_time() {
    let (folder, mut watch) = watched_folder();
    watch.newest_first();
    let path = folder.path().join("a.s2t");
    trace(&path, 1, "0", 10, 800_000, false);
    assert!(fs::metadata(&path).expect("a file").len() > HISTORY_BYTES);
    for _ in 0..8 {
        if !watch.look().catches_up {
            watch.tick_at((10 + 80_000) * S, CATCH_UP_BYTES);
        }
    }
    assert!(watch.look().catches_up);
    // 4 MB took 30 s.
    watch.catch_up_bytes = Some(in_a_second(CATCH_UP_BYTES, 30 * CATCH_UP));
    let before = watch.files[0].follow.bytes();
    watch.catch_up();
    let read = watch.files[0].follow.bytes() - before;
    assert!(read > 0 && read < CATCH_UP_BYTES / 20, "{read}");
    let next = |bytes, seconds| in_a_second(bytes, CATCH_UP.mul_f64(seconds));
    assert_eq!(next(CATCH_UP_BYTES, 0.0), CATCH_UP_BYTES);
    assert_eq!(next(200_001, 0.5), 400_002);
    assert_eq!(next(CATCH_UP_LEAST, 600.0), CATCH_UP_LEAST);
}

/// Hazard (Watching what runs): A trace file is damaged near its begin, or cannot be read.
/// Promise: The rest of it is not awaited.
#[test]
fn what_cannot_be_read_is_not_awaited() {
    let (folder, mut watch) = watched_folder();
    let path = folder.path().join("a.s2t");
    fs::write(&path, vec![b'x'; 3 * CURRENT_BYTES as usize]).expect("a file");
    (0..9).for_each(|_| watch.tick());
    let look = watch.look();
    assert!(look.processes[0].state.is_over(), "{:?}", look.processes[0].state);
    assert_eq!((look.is_reading, look.behind_bytes), (false, 0));
}

#[test]
fn a_file_with_damaged_frames_is_named() {
    let (folder, mut watch) = watched_folder();
    let path = folder.path().join("host-1.s2t");
    trace(&path, 1, "0", 10, 20, false);
    let mut writer = Writer::new(Vec::new()).expect("a header");
    writer.write(&Record::Name { id: 100, bytes: vec![b'x'; 100] });
    writer.flush().expect("memory");
    let mut frame = writer.into_sink()[20..].to_vec();
    let whole = frame.clone();
    *frame.last_mut().expect("bytes") ^= 0x55;
    let bytes = [fs::read(&path).expect("a file"), frame, whole].concat();
    fs::write(&path, bytes).expect("a file");
    (0..3).for_each(|_| watch.tick());
    let process = &watch.look().processes[0];
    assert_eq!(process.corrupt_frames, 1);
    let damaged = format!("{} has damaged frames, which are left out", path.display());
    assert_eq!(watch.look().problems, [damaged]);
}

/// Hazard (Watching what runs): The clocks of the hosts of a job are hours apart.
/// Promise: The process is marked, its data is as old as its file states, and none of the others is late.
#[test]
fn a_clock_that_is_hours_away_is_told_and_makes_nobody_late() {
    let (folder, mut watch) = watched_folder();
    let now = 100_000 * S;
    let no_rank = Record::Meta { key: "env.RANK".into(), value: String::new() };
    let hosts = [(1, 100_000), (2, 100_000 + 3 * 3_600), (3, 90_000)];
    let mut writers = hosts.map(|(pid, from)| {
        begun(&folder.path().join(format!("{pid}.s2t")), pid, &no_rank, from * S)
    });
    writers.iter_mut().for_each(|writer| writer.flush().expect("a disk"));
    watch.tick_at(now, TICK_BYTES);
    for (writer, (_, from)) in writers.iter_mut().zip(hosts) {
        let at = (from + 1) * S;
        let (gpu, mono, wall) = (GpuNs(at), MonoNs(at), WallNs(at));
        writer.write(&Record::Anchor(Anchor { gpu, mono, wall }));
        writer.flush().expect("a disk");
    }
    watch.tick_at(now + S, TICK_BYTES);
    let look = watch.look();
    let told: Vec<_> =
        look.processes.iter().map(|of| (of.pid, of.lags, of.notes.concat())).collect();
    let [ahead, behind] = ["3 h ahead of", "2 h behind"]
        .map(|way| format!("its clock is {way} that of this host; its times are shifted"));
    assert_eq!(told, [(1, false, String::new()), (2, false, ahead), (3, false, behind)]);
    assert!(look.processes.iter().all(|of| of.last_wall_ns == Some(now + S)), "{told:?}");
}

/// Hazard (Watching what runs): A shared folder loses a trace file for some time.
/// Promise: It is reported; when the file is back, reading continues, and nothing counts twice.
#[test]
fn a_file_that_a_shared_folder_lost_is_read_on_when_it_is_there_again() {
    let (folder, mut watch) = watched_folder();
    let (path, away) = (folder.path().join("a.s2t"), folder.path().join("elsewhere"));
    trace(&path, 1, "0", 10, 20, true);
    let whole = fs::read(&path).expect("a file");
    fs::write(&path, &whole[..whole.len() - 30]).expect("a file");
    watch.tick();
    fs::rename(&path, &away).expect("lost");
    (0..3).for_each(|_| watch.tick());
    assert_eq!(watch.look().processes[0].state, FileState::Removed);
    fs::rename(&away, &path).expect("there again");
    fs::write(&path, &whole).expect("a file");
    (0..3).for_each(|_| watch.tick());
    let look = watch.look();
    assert_eq!((look.processes.len(), steps(&look.processes[0])), (1, 20));
    assert_eq!(look.processes[0].state, FileState::Ended);
    let [lost, back] = &look.problems[..] else { panic!("{:?}", look.problems) };
    assert!(lost.contains("was removed") && back.ends_with("is there again, and is read on"));
}

/// Hazard (Watching what runs): A run ends, and moves the trace files of its windows into their bundles.
/// Promise: Reading continues where they are now; a file of another name is another one.
#[test]
fn a_file_that_its_run_moves_is_followed() {
    let (folder, mut watch) = watched_folder();
    let bundle = folder.path().join("windows/w1/collector");
    fs::create_dir_all(&bundle).expect("folders");
    let names = ["killed.s2t", "ended.s2t"];
    trace(&folder.path().join(names[0]), 1, "0", 10, 20, false);
    trace(&folder.path().join(names[1]), 2, "1", 10, 20, true);
    watch.tick_at(13 * S, TICK_BYTES);
    for name in names {
        fs::rename(folder.path().join(name), bundle.join(name)).expect("moved");
    }
    watch.tick_at(14 * S, TICK_BYTES);
    let look = watch.look();
    let states: Vec<_> = look.processes.iter().map(|of| (of.pid, of.state.clone())).collect();
    assert_eq!(states, [(1, FileState::Growing), (2, FileState::Ended)]);
    assert_eq!(look.problems, Vec::<String>::new());
    let files: Vec<PathBuf> = watch.files().map(|(path, _)| path).collect();
    assert!(files.iter().all(|path| path.starts_with(&bundle)), "{files:?}");
    // Nothing counts twice where the new folder is followed, too.
    watch.add(Source::Folder(bundle));
    (0..=QUIET_TICKS).for_each(|_| watch.tick_at(15 * S, TICK_BYTES));
    assert_eq!(watch.look().processes.iter().map(steps).sum::<u64>(), 40);
}

/// Hazard (Watching what runs): A folder has more entries than are looked at.
/// Promise: It is said once, and what is found is followed.
#[test]
fn a_folder_with_too_many_entries_is_told() {
    let (folder, mut watch) = watched_folder();
    (0..ENTRIES + 9).for_each(|at| {
        fs::File::create(folder.path().join(format!("{at}.log"))).expect("a file");
    });
    (0..3).for_each(|_| watch.tick());
    let problems = watch.look().problems;
    assert!(
        problems.len() == 1 && problems[0].contains("has more than 16384 entries"),
        "{problems:?}"
    );
}

#[test]
fn more_files_than_are_followed_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    for pid in 0..FILES as u32 + 5 {
        trace(&folder.path().join(format!("host-{pid}.s2t")), pid, "0", 10, 1, false);
    }
    let mut watch = Watch::new(vec![Source::Folder(folder.path().into())], Options::default());
    watch.tick();
    watch.tick();
    let look = watch.look();
    assert_eq!((look.processes.len(), look.files_left_out), (FILES, 5));
}

/// Hazard (Watching what runs): One file is named in several ways (the folder of a run, a link, a
///  socket).
/// Promise: It is followed once.
#[test]
fn a_file_that_is_named_in_several_ways_is_followed_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (real, latest) = (folder.path().join("run/collector"), folder.path().join("latest"));
    fs::create_dir_all(&real).expect("folders");
    std::os::unix::fs::symlink("run", &latest).expect("a link");
    trace(&real.join("host-2.s2t"), 2, "0", 10, 20, false);
    let linked = latest.join("collector");
    let named = |path: PathBuf| Source::File(path.join("host-2.s2t"));
    let sources = vec![Source::Folder(linked.clone()), named(real.clone())];
    let mut watch = Watch::new(sources, Options::default());
    watch.tick();
    watch.add(named(linked));
    watch.add(Source::Folder(real));
    watch.tick();
    assert_eq!(watch.files().count(), 1);
    assert_eq!(watch.look().processes.len(), 1);
}
