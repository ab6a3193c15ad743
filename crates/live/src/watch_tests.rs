use super::*;
use crate::follow::FileState;
use stage2_contract::trace::{
    Anchor, GpuNs, Losses, MonoNs, Path as RangePath, Process as Who, RangeOpen, Record, WallNs,
    Writer, pieces,
};

const S: u64 = 1_000_000_000;

/// A file of `pid` with `steps` steps of the stage `decode`, one each 100 ms from second `from` on.
fn trace(path: &Path, pid: u32, rank: &str, from: u64, steps: u64, ends: bool) {
    let mut writer = Writer::new(fs::File::create(path).expect("a file")).expect("a header");
    let who = Who { pid, host: "host".into(), ..Who::default() };
    writer.write(&Record::Process(who));
    writer.write(&Record::Meta { key: "env.RANK".into(), value: rank.into() });
    let (gpu, mono, wall) = (GpuNs(from * S), MonoNs(from * S), WallNs(from * S));
    writer.write(&Record::Anchor(Anchor { gpu, mono, wall }));
    writer.write(&Record::Name { id: 1, bytes: b"decode".to_vec() });
    writer.write(&Record::Path(RangePath { id: 1, parent: 0, name: 1, domain: 0 }));
    for range in 1..=steps {
        let start = MonoNs(from * S + range * S / 10);
        writer.write(&Record::RangeOpen(RangeOpen {
            range,
            start,
            path: 1,
            thread: 1,
            parent: 0,
            ..RangeOpen::default()
        }));
        writer.write(&Record::RangeClose { range, end: MonoNs(start.0 + 5) });
    }
    if ends {
        writer.write(&Record::End { reason: "exit".into() });
    }
    writer.flush().expect("a disk");
}

fn steps(process: &Watched) -> u64 {
    process.totals.get("decode").map_or(0, |numbers| numbers.steps)
}

#[test]
fn ranks_stand_side_by_side_and_files_that_come_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut watch = Watch::new(vec![Source::Folder(folder.path().into())], Options::default());
    watch.tick();
    assert!(watch.look().processes.is_empty());
    trace(&folder.path().join("host-2.s2t"), 2, "1", 10, 20, false);
    trace(&folder.path().join("host-9.s2t"), 9, "0", 10, 30, true);
    fs::write(folder.path().join("notes.txt"), "no trace file").expect("a file");
    watch.tick();
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
}

/// Hazard (Watching what runs): A process begins its next trace file.
/// Promise: Counters never fall.
#[test]
fn totals_never_fall_when_a_process_begins_its_next_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut watch = Watch::new(vec![Source::Folder(folder.path().into())], Options::default());
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
    let mut writer = Writer::new(fs::File::create(path).expect("a file")).expect("a header");
    let meta = |key: &str, value: u64| Record::Meta { key: key.into(), value: value.to_string() };
    let open = |range: u64, start: u64, continues: u64| {
        Record::RangeOpen(RangeOpen {
            range,
            start: MonoNs(start),
            path: 1,
            thread: 1,
            parent: 0,
            start_end: false,
            category: 0,
            payload: None,
            continues,
        })
    };
    let (first, begin) = (number * 10, (100 + number) * S);
    writer.write(&Record::Process(Who { pid: 7, host: "host".into(), ..Who::default() }));
    writer.write(&meta(pieces::PIECE, number));
    let (gpu, mono, wall) = (GpuNs(begin), MonoNs(begin), WallNs(begin));
    writer.write(&Record::Anchor(Anchor { gpu, mono, wall }));
    writer.write(&Record::Name { id: 1, bytes: b"decode".to_vec() });
    writer.write(&Record::Path(RangePath { id: 1, parent: 0, name: 1, domain: 0 }));
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
    let folder = tempfile::tempdir().expect("a folder");
    let mut watch = Watch::new(vec![Source::Folder(folder.path().into())], Options::default());
    for number in 1..=6 {
        piece(folder.path(), number, number == 6);
        watch.tick();
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
    let folder = tempfile::tempdir().expect("a folder");
    let mut watch = Watch::new(vec![Source::Folder(folder.path().into())], Options::default());
    (2..=4).for_each(|number| piece(folder.path(), number, false));
    watch.tick();
    piece(folder.path(), 8, true);
    watch.tick();
    let look = watch.look();
    let [process] = &look.processes[..] else { panic!("{:?}", look.processes) };
    assert_eq!(process.notes, ["of its trace is not there any more: piece 1, pieces 5 to 7"]);
    // Those that were open before the gap, or came out of it, count where they began or not at all.
    assert_eq!((steps(process), lost_events(process)), (40, 8));
}

#[test]
fn a_process_that_dies_and_files_that_vanish_or_are_damaged_are_told_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut watch = Watch::new(vec![Source::Folder(folder.path().into())], Options::default());
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
    for part in ["taken away", "became shorter", "not a spool"] {
        assert!(problems.iter().any(|problem| problem.contains(part)), "{part}: {problems:?}");
    }
    let steps: Vec<u64> = watch.look().processes.iter().map(steps).collect();
    assert_eq!(steps[..2], [20, 20], "what was read counts");
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
