//! A trace that is cut into pieces is what it would be in one file, each piece can be read alone, and the disk
//! and the memory have a bound.

use crate::common;
use crate::common::cut;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use crate::common::trace::work;
use crate::common::{Guest, Running, TraceFile, wait_until};
use stage2_contract::trace::{Ending, Losses, Record, Writer, pieces};

fn guest(rotate: &str) -> Guest {
    let guest = Guest::new("obey").env("STAGE2_FLUSH_MS", "10");
    if rotate.is_empty() { guest } else { guest.env("STAGE2_ROTATE", rotate) }
}

/// The number of the newest piece in a folder.
fn newest(folder: &Path) -> u64 {
    cut::files(folder).values().flatten().map(|(number, _)| *number).max().unwrap_or(0)
}

fn pause() {
    std::thread::sleep(Duration::from_millis(15));
}

/// Work for every run: on two threads besides the main one, with a graph, and ranges that are open
/// all the time.
fn script(guest: &mut Running) {
    guest.does(["cuda", "thread", "thread", "push server", "on 0 push worker", "push warm-up"]);
    guest.tell("capture 20");
    for line in ["pop", "on 1 push other", "on 1 push inner"] {
        guest.tell(line);
        pause();
    }
    for round in 0..30 {
        // Up to three are open, which end in the order of their start.
        if round % 4 == 0 {
            guest.tell("start request");
        }
        guest.does(["push step", "launch 150", "replay decode"]);
        pause();
        guest.does(["on 0 work layer 30", "on 1 launch 40", "launch 1", "pop"]);
        if round % 4 == 0 && round >= 8 {
            guest.tell("end");
        }
        if round % 3 == 0 {
            guest.tell("launch 2");
            pause();
        }
    }
    guest.does(["end", "end", "on 1 pop", "on 1 pop", "on 1 launch 1", "on 0 pop", "pop"]);
    guest.tell("work last 4");
}

/// Buffers come when they are full, not when a flush was: a call of the driver more or less, and the
/// simulated GPU takes another time for what follows.
fn run(guest: Guest) -> Running {
    let guest = guest.env("STAGE2_FLUSH_MS", "60000").env("STAGE2_BUFFERS", "64K*64");
    let mut running = guest.spawn();
    script(&mut running);
    assert!(running.end().success(), "{}", running.stderr());
    assert_eq!(running.stderr(), "");
    running
}

/// Nodes of graphs whose capture the trace tells.
fn captured(trace: &TraceFile) -> BTreeSet<u64> {
    let node = |record: &Record| match record {
        Record::GraphNode { node, .. } => Some(*node),
        _ => None,
    };
    trace.records.iter().filter_map(node).collect()
}

fn add(sums: &mut BTreeMap<String, usize>, more: BTreeMap<String, usize>) {
    for (key, number) in more {
        *sums.entry(key).or_default() += number;
    }
}

/// Fails unless all is there equally often.
fn assert_equal(found: &BTreeMap<String, usize>, expected: &BTreeMap<String, usize>) {
    let keys: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    let other = keys.into_iter().filter(|key| found.get(*key) != expected.get(*key));
    let other: Vec<_> = other.map(|key| (key, found.get(key), expected.get(key))).collect();
    assert!(other.is_empty(), "{} differ: {:#?}", other.len(), &other[..other.len().min(4)]);
}

/// Fails unless the pieces are the trace of one file, joined and one by one.
fn assert_same(one: &TraceFile, all: &[TraceFile], joined: &TraceFile) {
    assert!(all.len() >= 20, "{} pieces", all.len());
    assert_equal(&work(joined), &work(one));
    assert_eq!(cut::instances(joined), cut::instances(one));
    assert_eq!((joined.samples(), joined.losses()), (one.samples(), one.losses()));
    assert_eq!((joined.losses(), joined.ending), (Losses::default(), Ending::Complete));
    assert_eq!((captured(joined), joined.kernels()), (captured(one), one.kernels()));
    let (mut alone, mut opened) = (BTreeMap::new(), BTreeMap::new());
    for (number, piece) in (1..).zip(all) {
        assert_eq!(piece.meta(pieces::PIECE), Some(number.to_string().as_str()));
        assert_eq!((piece.ending, piece.losses()), (Ending::Complete, Losses::default()));
        assert_eq!((piece.pid(), piece.meta("cupti.simulated")), (joined.pid(), Some("1")));
        cut::assert_alone(piece, &captured(one));
        add(&mut alone, work(piece));
        add(&mut opened, cut::instances(piece).0);
    }
    assert_equal(&alone, &work(one));
    assert_equal(&opened, &cut::instances(one).0);
}

/// Hazard (Traces in pieces): Ranges are open while a trace turns to its next piece.
/// Promise: Each is one instance, with all its work; each piece lists the open ones.
/// Hazard (Traces in pieces): A piece of a trace is all that there is.
/// Promise: It defines every name, path, shape and queue that it uses.
/// Hazard (Traces in pieces): Records come after the ranges of their launch have closed in an
///  earlier piece.
/// Promise: The piece defines these ranges; no work is lost or duplicated.
/// Hazard (Traces in pieces): A graph was captured in an earlier piece.
/// Promise: The piece states where.
#[test]
fn twenty_pieces_are_the_trace_of_one_file_with_ranges_open_over_their_seams() {
    for attribution in ["fence", "callback"] {
        let of = |rotate| run(guest(rotate).env("STAGE2_ATTRIBUTION", attribution));
        let (one, several) = (of(""), of("every=10ms"));
        let one = &common::traces_in(one.out())[0];
        let (all, joined, gaps) = cut::read(several.out());
        assert_same(one, &all, &joined);
        assert_eq!(gaps, []);
    }
}

/// Hazard (Traces in pieces): A sample is recorded in pieces.
/// Promise: It is the sample of one file.
#[test]
fn a_sample_in_pieces_is_the_sample_of_one_file() {
    let of = |rotate| {
        run(guest(rotate).env("STAGE2_SAMPLE", "1/4").env("STAGE2_RANGES", "step,layer,decode"))
    };
    let (one, several) = (of(""), of("every=10ms"));
    let one = &common::traces_in(one.out())[0];
    let (all, joined, _) = cut::read(several.out());
    assert!(
        joined.samples().values().any(|(asked, taken)| taken < asked),
        "{:?}",
        joined.samples()
    );
    assert_same(one, &all, &joined);
}

#[test]
fn pieces_are_new_files_of_their_owner_with_names_that_sort() {
    let mut guest = guest("every=10ms").spawn();
    guest.tell("cuda");
    wait_until("three pieces", || {
        guest.tell("work step 3");
        newest(guest.out()) >= 3
    });
    assert!(guest.end().success());
    let traces = cut::files(guest.out());
    let (stem, files) = traces.iter().next().expect("a trace file");
    let (of, seconds) = stem.rsplit_once('-').expect("a second");
    assert!(of.ends_with(&format!("-{}", guest.pid())), "{stem}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("later");
    let age = now.as_secs() - seconds.parse::<u64>().expect("a number");
    assert!(age < 60, "{stem}");
    for (at, (number, path)) in (1..).zip(files) {
        assert_eq!(
            (*number, path.metadata().expect("file").permissions().mode() & 0o777),
            (at, 0o600)
        );
        assert!(path.ends_with(format!("{stem}-p{number:06}.s2t")), "{}", path.display());
    }
}

/// Hazard (Traces in pieces): A server is recorded for a week with `keep=N`.
/// Promise: There are N+1 files at most, each little larger than its limit.
#[test]
fn what_is_kept_bounds_the_disk_and_what_is_gone_is_told() {
    let (size, keep) = (64 << 10, 3);
    let mut guest = guest("size=64K,keep=3").spawn();
    guest.does(["cuda", "push server", "busy 2"]);
    let (mut most, mut most_bytes) = (0, 0);
    wait_until("twenty pieces", || {
        let entries = std::fs::read_dir(guest.out()).expect("folder").flatten();
        let files: Vec<_> =
            entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "s2t")).collect();
        let bytes: u64 = files.iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        (most, most_bytes) = (most.max(files.len()), most_bytes.max(bytes));
        newest(guest.out()) >= 20
    });
    let kernels: usize = guest.tell("calm").parse().expect("a number");
    guest.tell("pop");
    assert!(guest.end().success());
    assert!((keep..=keep + 1).contains(&most), "{most} files");
    // A block of the writer, and what a piece says again, come on top.
    let bound = (keep as u64 + 1) * (size + (64 << 10) + (32 << 10));
    assert!(most_bytes <= bound, "{most_bytes} bytes");
    let (all, joined, gaps) = cut::read(guest.out());
    let last = newest(guest.out());
    assert_eq!((all.len(), gaps), (keep, vec![(1, last - keep as u64)]));
    let found: usize = joined.kernels().values().sum();
    assert!(found > 0 && found < kernels, "{found} of {kernels}");
    assert_eq!(joined.losses(), Losses::default());
    // The range that is open since the first piece is known in those that are left, and is no instance.
    assert!(joined.range_paths().values().any(|path| path == "server"));
    assert_eq!(cut::instances(&joined).0.get("server"), None);
    assert_eq!(guest.stderr(), "");
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("KiB")
}

/// Hazard (Traces in pieces): A server is recorded for a week with `keep=N`.
/// Promise: A thousand pieces take less than 1 MB more memory than 150.
#[test]
fn a_week_of_pieces_takes_no_more_memory_than_an_hour() {
    // Ten minutes a piece.
    let (hour, week) = (6, 6 * 24 * 7);
    let mut guest = guest("every=10ms,keep=8").spawn();
    guest.does(["cuda", "push server"]);
    let mut run_to = |pieces| {
        wait_until("pieces", || {
            guest.tell("launch 3");
            newest(guest.out()) >= pieces
        });
        resident_kib(guest.pid())
    };
    let (before, after) = (run_to(24 * hour), run_to(week));
    println!("{before} KiB, then {after} KiB");
    assert!(after < before + 1_000, "{before} KiB, then {after} KiB");
    assert!(guest.end().success());
    assert_eq!(cut::read(guest.out()).0.len(), 8);
}

/// Hazard (Traces in pieces): No further piece can be begun.
/// Promise: The last one continues up to twice its size; one line reports it, and losses are counted.
#[test]
fn where_no_further_piece_can_be_begun_one_line_says_so_and_what_is_lost_counts() {
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    let mut guest = guest("size=64K").env("STAGE2_OUT", at("traces")).spawn();
    guest.does(["cuda", "busy 2"]);
    wait_until("two pieces", || newest(&at("traces")) >= 2);
    // The collector goes on in the file that it has, and makes none elsewhere.
    std::fs::rename(at("traces"), at("before")).expect("moved");
    std::fs::write(at("traces"), "no folder").expect("a file");
    wait_until("a line", || !guest.stderr().is_empty());
    std::thread::sleep(Duration::from_millis(1500));
    std::fs::remove_file(at("traces")).expect("removed");
    wait_until("a further piece", || newest(&at("traces")) > 0);
    let kernels: usize = guest.tell("calm").parse().expect("a number");
    assert!(guest.end().success());
    let said = guest.stderr();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("no further piece of the trace file can be begun"), "{said}");
    for (_, path) in cut::files(&at("traces")).into_values().flatten() {
        std::fs::rename(&path, at("before").join(path.file_name().expect("a name")))
            .expect("moved");
    }
    let (all, joined, gaps) = cut::read(&at("before"));
    assert_eq!(gaps, [], "the number goes on where it was");
    let longest = all.iter().flat_map(|piece| piece.meta(pieces::PIECE)).count();
    assert!(longest >= 3);
    let largest = cut::files(&at("before")).into_values().flatten();
    let largest = largest.map(|(_, path)| path.metadata().expect("file").len()).max();
    assert!(largest.expect("files") < 4 * (64 << 10), "{largest:?}");
    let found: usize = joined.kernels().values().sum();
    let lost = joined.losses();
    assert!(found <= kernels && (found == kernels || lost.spool_bytes_unwritten > 0), "{lost:?}");
    assert_eq!(Losses { spool_bytes_unwritten: 0, ..lost }, Losses::default());
    cut::assert_alone(all.last().expect("pieces"), &BTreeSet::new());
}

/// Hazard (Traces in pieces): The disk is full when a piece is over.
/// Promise: One line reports it; losses count in their piece, and further pieces follow.
#[test]
fn a_full_disk_at_a_seam_costs_what_was_lost_and_the_pieces_go_on_behind_it() {
    let mut guest = guest("every=20ms").spawn();
    guest.does(["cuda", "busy 1"]);
    wait_until("two pieces", || newest(guest.out()) >= 2);
    let mut outage = |ms| {
        guest.tell("room 10");
        std::thread::sleep(Duration::from_millis(ms));
        let there = newest(guest.out());
        guest.tell("room 4000000000");
        wait_until("a few further pieces", || newest(guest.out()) > there + 2);
    };
    // What was lost in the first one is no longer told in the second one.
    outage(600);
    outage(120);
    guest.does(["calm", "work last 7"]);
    assert!(guest.end().success());
    let said = guest.stderr();
    assert_eq!(said.lines().count(), 1, "{said}");
    let (all, joined, gaps) = cut::read(guest.out());
    assert_eq!(gaps, []);
    assert_eq!(joined.kernels()["last"], 7);
    let told: Vec<u64> = all.iter().map(|piece| piece.losses().spool_bytes_unwritten).collect();
    assert_eq!(told.iter().sum::<u64>(), joined.losses().spool_bytes_unwritten);
    assert_eq!(
        told.iter().filter(|told| **told > 0).count(),
        2,
        "each piece tells its own: {told:?}"
    );
}

/// Hazard (Traces in pieces): The disk is full when a piece begins, and has room again before it
///  ends.
/// Promise: The piece identifies itself as soon as it can; it is not reported as missing.
#[test]
fn a_piece_whose_beginning_was_lost_says_which_one_it_is() {
    let mut guest = guest("every=100ms").spawn();
    guest.does(["cuda", "busy 1"]);
    wait_until("two pieces", || newest(guest.out()) >= 2);
    // Room for the header of a file, and for nothing behind it.
    guest.tell("room 100");
    let there = newest(guest.out());
    wait_until("a piece that is empty", || newest(guest.out()) > there);
    std::thread::sleep(Duration::from_millis(40));
    guest.tell("room 4000000000");
    let there = newest(guest.out());
    wait_until("further pieces", || newest(guest.out()) > there + 2);
    guest.tell("calm");
    assert!(guest.end().success());
    let files = cut::files(guest.out()).into_values().next().expect("a trace file");
    let with_records = files.iter().filter(|(number, path)| {
        let piece = TraceFile::read(path);
        let said = piece.meta(pieces::PIECE).map(str::to_owned);
        assert!(piece.records.is_empty() || said == Some(number.to_string()), "{path:?}: {said:?}");
        piece.meta(pieces::OPEN_BEFORE) == Some(pieces::UNKNOWN)
    });
    assert!(with_records.count() > 0, "no piece has lost its beginning only");
}

/// Hazard (Traces in pieces): A process is killed within a piece.
/// Promise: The earlier ones are complete.
/// Hazard (Traces in pieces): A process is killed when the file of the next piece exists and is empty.
/// Promise: The piece before it is the one that is cut off; nothing is reported missing.
#[test]
fn of_a_process_that_is_killed_the_earlier_pieces_are_whole() {
    let guest = killed_within_a_piece();
    let killed = cut::read(guest.out());
    let (stem, files) = cut::files(guest.out()).pop_first().expect("a trace");
    let next = pieces::piece_name(&stem, files.last().expect("pieces").0 + 1);
    let file = std::fs::File::create(guest.out().join(next)).expect("a file");
    drop(Writer::new(file).expect("a piece with nothing in it"));
    for (mut all, joined, gaps) in [killed, cut::read(guest.out())] {
        all.retain(|piece| !piece.records.is_empty());
        let (last, earlier) = all.split_last().expect("pieces");
        assert!(earlier.iter().all(|piece| piece.ending == Ending::Complete));
        assert_ne!(last.ending, Ending::Complete);
        assert_eq!((gaps, joined.losses()), (vec![], Losses::default()));
        assert!(joined.kernels()["step/layer"] > 0);
    }
}

/// A guest that was killed while it wrote a piece. The signal may come between two of them, but not always.
fn killed_within_a_piece() -> Running {
    for _ in 0..9 {
        let mut guest = guest("every=10ms").spawn();
        guest.does(["cuda", "push server", "busy 1"]);
        wait_until("five pieces", || newest(guest.out()) >= 5);
        guest.signal(libc::SIGKILL);
        guest.ended();
        // Of a piece that has just begun, not even the header may be there.
        let is_empty = |path: &Path| path.metadata().is_ok_and(|file| file.len() == 0);
        if cut::files(guest.out()).values().flatten().any(|(_, path)| is_empty(path)) {
            continue;
        }
        let (pieces, ..) = cut::read(guest.out());
        let last = pieces.last().expect("pieces");
        if !last.records.is_empty() && last.ending != Ending::Complete {
            return guest;
        }
    }
    panic!("nine guests in turn were killed between two pieces");
}

#[test]
fn pieces_of_a_forked_child_are_its_own() {
    let mut guest = guest("every=10ms,keep=2").spawn();
    guest.tell("push server");
    let child = guest.tell("fork");
    let out = guest.out().to_owned();
    let of = |pid: &str| {
        let traces = cut::files(&out);
        traces.into_iter().find(|(stem, _)| stem.contains(&format!("-{pid}-")))
    };
    wait_until("a file of the child", || of(&child).is_some());
    let own = guest.pid().to_string();
    guest.does(["cuda", "busy 1"]);
    wait_until("a few pieces", || newest(guest.out()) >= 9);
    guest.tell("calm");
    let (_, files) = of(&child).expect("its files");
    let first = TraceFile::read(&files[0].1);
    assert_eq!((first.pid().to_string(), first.meta("fork.of")), (child, Some(own.as_str())));
    assert!(files.iter().all(|(number, _)| *number <= 2), "{files:?}");
    let (_, files) = of(&own).expect("files");
    assert!(files.len() <= 3 && files[0].0 > 5, "{files:?}");
    guest.signal(libc::SIGKILL);
}

#[test]
fn a_setting_that_cannot_be_read_is_one_line_and_one_file() {
    let mut guest = guest("size=1,keep=2").spawn();
    guest.does(["cuda", "work step 3"]);
    assert!(guest.end().success());
    let said = guest.stderr();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("STAGE2_ROTATE") && said.contains("size=256M"), "{said}");
    let traces = common::traces_in(guest.out());
    assert_eq!((traces.len(), traces[0].meta(pieces::PIECE)), (1, None));
}
