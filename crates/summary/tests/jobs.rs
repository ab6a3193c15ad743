//! Jobs of made summaries, whole and broken -> what the page says of them.

mod made;

use std::fs;
use std::path::{Path, PathBuf};

use made::{FIRST_MINUTE, Made};
use stage2_summary::job::{Cause, Fold, Job, Pattern};
use stage2_summary::{Entry, Period, Reader, Writer, tree};

fn job_of(paths: &[PathBuf], folder: &Path) -> Job {
    let mut inventory = tree::look(paths);
    let mut fold = Fold::default();
    tree::merge(&mut inventory, folder, |period| {
        fold.add(period);
        Ok(())
    })
    .expect("the folder takes files");
    let left: Vec<_> = fs::read_dir(folder).expect("it is there").collect();
    let hidden = |entry: &std::io::Result<fs::DirEntry>| {
        entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with('.'))
    };
    assert!(!left.iter().any(hidden), "files of the merge are left");
    fold.finish(&inventory, |host| Some(format!("rack-{}", &host[..7])))
}

/// Hazard (Jobs of many ranks): A rank comes late from some time on, again and again, and its process moves to another
///  host meanwhile.
/// Promise: The job page names the rank with its times, hosts and cause, and not the ranks that waited for it.
#[test]
fn a_straggler_among_a_thousand_that_begins_late_recurs_and_moves_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut made = Made::new(1_000, 30);
    let is_late = |minute: u64| minute >= 12 && matches!(minute % 9, 3..6);
    made.late = Box::new(move |minute| is_late(minute).then_some((437, 4_000_000, 0)));
    made.host = Box::new(|rank, minute| if rank == 437 && minute >= 20 { 900 } else { rank / 8 });
    let job = job_of(&made.write(folder.path()), folder.path());
    assert_eq!((job.ranks, job.expected, job.hosts), (1_000, Some(1_000), 126));
    assert_eq!(job.late.len(), 1, "{:#?}", job.late);
    let late = &job.late[0];
    assert_eq!((late.rank, late.cause, late.pattern), (Some(437), Cause::Host, Pattern::Recurring));
    assert_eq!(late.hosts, ["node-0054", "node-0900"]);
    let at = |minute: u64| FIRST_MINUTE + minute;
    assert_eq!(late.episodes, [(at(12), at(14)), (at(21), at(23))]);
    assert_eq!((late.minutes, job.passed_on), (6, 7), "seven ranks of its host pass it on");
    assert!(late.late_ns.abs_diff(4_000_000) < 400_000, "{}", late.late_ns);
    assert_eq!(job.restarted, [(437, 2)]);
    // The row of the heat map that holds it is the hottest one of those minutes.
    let hottest = job.heat.cells.iter().max_by_key(|(.., ns)| *ns).expect("there is heat");
    assert_eq!(hottest.0, 437 / job.heat.row_ranks);
}

/// Hazard (Jobs of many ranks): The clocks of two hosts are hours apart, or known to no better than a millisecond.
/// Promise: How late a rank is follows from how long the others were in the call, within 10 % or the stated error.
#[test]
fn delays_between_two_ranks_are_recovered_whatever_the_clocks() {
    for delay in [0, 50_000, 250_000, 1_000_000] {
        for (hosts, ahead_ns) in [(1, 0), (2, 0), (2, 3 * 3_600_000_000_000i64)] {
            let folder = tempfile::tempdir().expect("a folder");
            let mut made = Made::new(2, 3);
            made.late = Box::new(move |_| (delay > 0).then_some((1, delay, 0)));
            made.host = Box::new(move |rank, _| rank % hosts);
            made.ahead_ns = Box::new(move |host| if host == 1 { ahead_ns } else { 0 });
            let job = job_of(&made.write(folder.path()), folder.path());
            let what = format!("{delay} ns, {hosts} hosts, {ahead_ns} ns ahead");
            if delay == 0 {
                // Ranks come within 4 us of each other.
                assert!(job.late.iter().all(|late| late.late_ns < 4_000), "{what}: {:?}", job.late);
                continue;
            }
            let late = &job.late[0];
            assert_eq!((job.late.len(), late.rank), (1, Some(1)), "{what}");
            let off = late.late_ns.abs_diff(delay);
            assert!(off <= delay / 10 || off <= late.error_ns, "{what}: {late:?}");
            assert!(late.error_ns < 25_000, "{what}: {late:?}");
            let apart = job.clocks.apart.iter().map(|(_, ms)| ms.abs()).max().unwrap_or(0);
            assert_eq!(apart, ahead_ns / 1_000_000, "{what}: {:?}", job.clocks);
            assert_eq!(job.last_minute - job.first_minute, 2, "{what}");
        }
    }
}

#[test]
fn more_work_and_a_low_clock_are_told_from_a_late_host() {
    for (work_ns, mhz, celsius, cause, hot) in [
        (0, 1_980, 60, Cause::Host, None),
        (2_900_000, 1_980, 69, Cause::GpuWork, None),
        (2_900_000, 1_200, 84, Cause::LowClock, Some(84)),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut made = Made::new(16, 4);
        made.late = Box::new(move |_| Some((5, 3_000_000, work_ns)));
        made.mhz = Box::new(move |rank| if rank == 5 { mhz } else { 1_980 });
        made.celsius = Box::new(move |rank| if rank == 5 { celsius } else { 60 });
        let job = job_of(&made.write(folder.path()), folder.path());
        assert_eq!((job.late[0].rank, job.late[0].cause), (Some(5), cause));
        assert_eq!((job.late[0].hot_c, job.common.len()), (hot, 0));
        assert_eq!((job.late.len(), job.late[0].pattern), (1, Pattern::Lasting));
    }
}

#[test]
fn what_the_worst_have_in_common_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut made = Made::new(64, 6);
    made.late = Box::new(|minute| Some((8 + minute % 3, 3_000_000, 0)));
    made.celsius = Box::new(|rank| if rank == 8 || rank == 9 { 85 } else { 60 });
    let job = job_of(&made.write(folder.path()), folder.path());
    let ranks: Vec<_> = job.late.iter().filter_map(|late| late.rank).collect();
    assert_eq!(ranks.len(), 3, "{ranks:?}");
    assert_eq!(job.common[0], "3 of the 3 worst: host node-0001 (8 of 64 processes)");
    assert!(job.common.contains(&"2 of the 3 worst: a GPU hotter than the others'".to_owned()));
    assert!(!job.common.iter().any(|text| text.contains("H200")), "all have it: {:?}", job.common);
}

/// Hazard (Jobs of many ranks): Summaries are missing, doubled, cut, damaged, empty, of a newer version or of another
///  job, and a folder holds files of other kinds.
/// Promise: Each is counted and named, and the rest is complete.
#[test]
fn broken_files_are_counted_and_named_and_the_rest_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let late = |_| Some((5, 3_000_000, 0));
    let mut made = Made::new(32, 4);
    made.late = Box::new(late);
    let mut paths = made.write(folder.path());
    let other = Made { job: 2, ..Made::new(16, 4) };
    paths.extend(other.write(folder.path()));
    let find = |rank: u64| folder.path().join(format!("node-{:04}-1-{rank}-0.s2s", rank / 8));
    // Missing.
    paths.retain(|path| *path != find(31));
    // Doubled.
    let copy = folder.path().join("zz-copy.s2s");
    fs::copy(find(3), &copy).expect("a copy");
    paths.push(copy);
    // Cut, damaged, empty, newer, something else.
    let bytes = fs::read(find(20)).expect("a file");
    fs::write(find(20), &bytes[..bytes.len() - 7]).expect("a cut file");
    let mut bytes = fs::read(find(21)).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(find(21), bytes).expect("a damaged file");
    fs::write(folder.path().join("empty.s2s"), b"").expect("an empty file");
    let mut newer = fs::read(find(4)).expect("a file");
    newer.truncate(20);
    newer[8] = 9;
    fs::write(folder.path().join("newer.s2s"), newer).expect("a newer file");
    fs::create_dir(folder.path().join("folder.s2s")).expect("a folder");
    paths.extend(
        ["empty.s2s", "newer.s2s", "folder.s2s", "absent.s2s"].map(|n| folder.path().join(n)),
    );
    let job = job_of(&paths, folder.path());
    let files = &job.files;
    assert_eq!((files.read, files.doubled, files.torn, files.damaged_frames), (31, 1, 1, 1));
    assert_eq!((files.unreadable, files.of_other_jobs, files.other_jobs), (4, 16, 1));
    assert_eq!((job.ranks, job.missing.as_slice()), (31, &[31][..]));
    assert_eq!((job.late.len(), job.late[0].rank), (1, Some(5)), "{:#?}", job.late);
    assert!(job.collectives.incomplete > 0, "calls that rank 31 took part in");
    let named = |of: &str| files.named.iter().any(|(path, _)| path.contains(of));
    assert!(
        ["zz-copy", "-20-", "-21-", "empty", "newer", "absent"].iter().all(|of| named(of)),
        "{files:?}"
    );
}

/// Hazard (Jobs of many ranks): A shared folder lags: files go away, become shorter, grow, or end in zeros between the
///  first look and the merge.
/// Promise: Losses are counted and named, and the rest is complete.
#[test]
fn files_that_change_while_they_are_merged_are_named_and_the_rest_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut made = Made::new(200, 4);
    made.late = Box::new(|_| Some((5, 3_000_000, 0)));
    let paths = made.write(folder.path());
    let find = |rank: u64| folder.path().join(format!("node-{:04}-1-{rank}-0.s2s", rank / 8));
    let whole = fs::read(find(20)).expect("a file");
    let mut inventory = tree::look(&paths);
    assert_eq!((inventory.sources.len(), inventory.faults.torn), (200, 0));
    fs::remove_file(find(40)).expect("it was there");
    fs::write(find(20), &whole[..whole.len() / 2]).expect("half of it");
    let mut zeros = fs::read(find(60)).expect("a file");
    let end = zeros.len() * 2 / 3;
    zeros[end..].fill(0);
    fs::write(find(60), zeros).expect("a hole");
    let mut grown = fs::read(find(80)).expect("a file");
    grown.extend_from_slice(&whole[whole.len() / 2..whole.len() / 2 + 9]);
    fs::write(find(80), grown).expect("the beginning of more");
    let mut fold = Fold::default();
    let take = |period| {
        fold.add(period);
        Ok(())
    };
    tree::merge(&mut inventory, folder.path(), take).expect("the folder takes files");
    let job = fold.finish(&inventory, |_| None);
    assert_eq!((job.files.unreadable, job.files.torn), (1, 2), "{:?}", job.files);
    let named = |of: &str| job.files.named.iter().any(|(path, _)| path.contains(of));
    assert!(
        ["-20-", "-40-", "-60-"].iter().all(|of| named(of)) && !named("-80-"),
        "{:?}",
        job.files
    );
    assert_eq!((job.late.len(), job.late[0].rank), (1, Some(5)), "{:#?}", job.late);
    assert_eq!(job.last_minute - job.first_minute, 3);
}

/// Hazard (Jobs of many ranks): A rank runs other versions than all the others.
/// Promise: The page counts the versions; what the worst ranks alone have is said.
#[test]
fn versions_that_differ_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut made = Made::new(64, 3);
    made.late = Box::new(|minute| Some((8 + minute % 2, 3_000_000, 0)));
    made.version = Box::new(|rank| if matches!(rank, 8 | 9) { "22705" } else { "22809" });
    let job = job_of(&made.write(folder.path()), folder.path());
    let count = |text: &str| job.versions.iter().find(|(name, _)| name == text).map(|(_, n)| *n);
    assert_eq!((count("nccl.version 22809"), count("nccl.version 22705")), (Some(62), Some(2)));
    let common = "2 of the 2 worst: nccl.version 22705 (2 of 64 processes)";
    assert!(job.common.iter().any(|text| text == common), "{:?}", job.common);
}

/// Hazard (Jobs of many ranks): A folder holds a hundred thousand files, nearly all of them copies or nonsense.
/// Promise: They are counted, some are named, and the job is complete.
#[test]
fn of_very_many_files_the_few_of_the_job_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut paths = Made::new(8, 2).write(folder.path());
    let (copy, nonsense) = (folder.path().join("zz.s2s"), folder.path().join("zz-not.s2s"));
    fs::copy(&paths[3], &copy).expect("a copy");
    fs::write(&nonsense, "no summary").expect("a file");
    // One file by many names costs the test less than many files.
    (0..50_000).for_each(|_| paths.extend([copy.clone(), nonsense.clone()]));
    let job = job_of(&paths, folder.path());
    let files = &job.files;
    assert_eq!((files.read, files.doubled, files.unreadable), (8, 50_000, 50_000));
    assert!((1..=16).contains(&files.named.len()), "{}", files.named.len());
}

/// Hazard (Jobs of many ranks): Summaries are merged in another order, or summaries of summaries.
/// Promise: The same numbers come out.
#[test]
fn a_tree_of_any_shape_gives_the_same_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut made = Made::new(200, 5);
    made.late = Box::new(|minute| (minute > 1).then_some((77, 2_000_000, 0)));
    let paths = made.write(folder.path());
    let out = tempfile::tempdir().expect("a folder");
    let whole = job_of(&paths, out.path());
    assert_eq!(whole.late[0].rank, Some(77));
    let mut nodes = Vec::new();
    for (at, part) in paths.chunks(56).enumerate() {
        let mut inventory = tree::look(part);
        let path = out.path().join(format!("node-{at}.s2s"));
        let mut writer = Writer::new(fs::File::create(&path).expect("a file")).expect("a header");
        for member in inventory.sources.iter().flat_map(|source| &source.members) {
            writer.write(&Entry::Member(member.clone())).expect("a member");
        }
        let keep = |period: Period| writer.write(&Entry::Period(Box::new(period)));
        tree::merge(&mut inventory, out.path(), keep).expect("it merges");
        nodes.push(path);
    }
    let mut of_nodes = job_of(&nodes, out.path());
    of_nodes.files = whole.files.clone();
    of_nodes.clocks = whole.clocks.clone();
    // Percentiles of what is merged in another order are the same; sums are exact.
    assert_eq!(of_nodes, whole);
}

#[test]
fn every_entry_survives_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = Made::new(16, 2).write(folder.path());
    let (mut again, mut all) = (Vec::new(), Period::default());
    let mut writer = Writer::new(&mut again).expect("a header");
    let mut entries = Vec::new();
    for path in &paths {
        let file = std::io::BufReader::new(fs::File::open(path).expect("a file"));
        let mut reader = Reader::new(file).expect("a summary");
        while let Some(entry) = reader.next_entry().expect("it reads") {
            if let Entry::Period(period) = &entry {
                all.merge((**period).clone());
            }
            entries.push(entry);
        }
    }
    all.settle(false);
    entries.push(Entry::Period(Box::new(all)));
    entries.iter().for_each(|entry| writer.write(entry).expect("space"));
    let mut reader = Reader::new(again.as_slice()).expect("a summary");
    for entry in entries {
        assert_eq!(reader.next_entry().expect("it reads"), Some(entry));
    }
    assert_eq!(reader.next_entry().expect("it reads"), None);
    let bytes = fs::metadata(&paths[0]).expect("a file").len();
    assert!(bytes < 2 * 4_096, "{bytes} bytes of two minutes of a rank");
}
