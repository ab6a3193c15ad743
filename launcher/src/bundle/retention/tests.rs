use super::*;

/// Settings with these limits; 0: none.
fn limits(last: u64, bytes: u64, uncompressed: u64) -> Run {
    let run = crate::config::built_in().expect("the presets").run;
    Run {
        keep_last: NonZeroU64::new(last),
        keep_bytes: NonZeroU64::new(bytes),
        keep_uncompressed: NonZeroU64::new(uncompressed),
        ..run
    }
}

/// Room for a run that went well.
fn room_for(folder: &RunFolder, settings: &Run) -> Room {
    make_room(folder, settings, &RunRecord::default())
}

#[test]
fn only_what_we_wrote_goes_and_the_newest_stay() {
    let dir = tempfile::tempdir().expect("folder");
    let bundle = |name: &str, id: &str, started: &str, finished: Option<&str>| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(&path).expect("folder");
        let mut record = RunRecord::new(id.into(), Vec::new());
        record.started = started.into();
        record.finished = finished.map(str::to_owned);
        // The list comes after the reports.
        if name != "reporting" {
            record.files = vec!["run.json".into(), "sub/x.csv".into()];
        }
        let json = serde_json::to_vec(&record).expect("JSON");
        std::fs::write(path.join("run.json"), json).expect("run.json");
    };
    bundle("old", "old", "2026-01-01T00:00:00.000Z", Some("x"));
    bundle("linked", "linked", "2026-01-02T00:00:00.000Z", Some("x"));
    bundle("copied", "another", "2026-01-01T00:00:00.000Z", Some("x"));
    bundle("running", "running", "2026-01-01T00:00:00.000Z", None);
    bundle("reporting", "reporting", "2026-01-01T00:00:00.000Z", Some("x"));
    bundle("annotated", "annotated", "2026-01-01T00:00:00.000Z", Some("x"));
    std::fs::write(dir.path().join("annotated/NOTES.md"), "mine").expect("file");
    std::fs::create_dir(dir.path().join("old/sub")).expect("folder");
    std::fs::write(dir.path().join("old/sub/x.csv"), "").expect("file");
    bundle("new", "new", "2026-01-03T00:00:00.000Z", Some("x"));
    std::fs::create_dir(dir.path().join("notes")).expect("folder");
    std::fs::write(dir.path().join("notes/run.json"), "{}").expect("file");
    std::fs::create_dir(dir.path().join("this")).expect("folder");
    std::os::unix::fs::symlink("linked", dir.path().join("latest")).expect("link");
    std::os::unix::fs::symlink("old", dir.path().join("alias")).expect("link");
    let folder = RunFolder::New { under: dir.path().into(), name: "this".into() };
    let keep_last = |folder: &RunFolder, last: u64| room_for(folder, &limits(last, 0, 0)).findings;
    let findings = keep_last(&folder, 2);
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings.iter().any(|f| f.severity == Severity::Warning
        && f.what.contains("annotated stays")
        && f.why.contains("NOTES.md")));
    assert!(!dir.path().join("old").exists());
    for kept in ["linked", "copied", "running", "reporting", "annotated", "new", "notes", "this"] {
        assert!(dir.path().join(kept).is_dir(), "{kept}");
    }
    assert_eq!(keep_last(&RunFolder::Given(dir.path().join("new")), 1), []);
    assert_eq!(keep_last(&folder, 5), []);
}

fn bundle(under: &Path, name: &str, bytes: usize) {
    let path = under.join(name);
    std::fs::create_dir_all(path.join("collector")).expect("folder");
    std::fs::write(path.join("collector/a.s2t"), vec![b'x'; bytes]).expect("file");
    let mut record = RunRecord::new(name.into(), Vec::new());
    record.started = format!("2026-01-01T00:00:0{}.000Z", name.len());
    record.finished = Some("x".into());
    record.files = vec!["run.json".into(), "collector/a.s2t".into()];
    let json = serde_json::to_vec(&record).expect("JSON");
    std::fs::write(path.join("run.json"), json).expect("run.json");
}

#[test]
fn the_oldest_go_until_all_fit() {
    let dir = tempfile::tempdir().expect("folder");
    for name in ["a", "bb", "ccc", "dddd"] {
        bundle(dir.path(), name, 100_000);
    }
    std::fs::write(dir.path().join("bb/NOTES.md"), "mine").expect("file");
    std::fs::create_dir(dir.path().join("foreign")).expect("folder");
    std::fs::write(dir.path().join("foreign/huge"), vec![0; 500_000]).expect("file");
    let folder = RunFolder::New { under: dir.path().into(), name: "dddd".into() };
    let keep = |bytes| limits(0, bytes, 0);
    let left = || {
        let entries = std::fs::read_dir(dir.path()).expect("folder").flatten();
        let mut names: Vec<_> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
        names.retain(|name| name != LOCK);
        names.sort();
        names.join(" ")
    };
    // Room for this run alone is not enough: none goes for nothing.
    let room = room_for(&folder, &keep(90_000));
    assert!(room.findings[0].what.contains("less than this run alone has"), "{room:?}");
    assert_eq!(left(), "a bb ccc dddd foreign");
    // Three and their records fit; what is foreign is not counted.
    let room = room_for(&folder, &keep(320_000));
    assert_eq!(left(), "bb ccc dddd foreign");
    assert!(room.findings[0].why.contains("run.keep_bytes=320000"), "{room:?}");
    // The next is not ours alone; the one after it goes in its place.
    let room = room_for(&folder, &keep(220_000));
    assert_eq!(left(), "bb dddd foreign");
    assert!(room.findings[0].what.contains("run.keep_bytes") && room.findings.len() == 2);
    assert!(room_for(&folder, &keep(u64::MAX)).findings.is_empty());
    let given = RunFolder::Given(dir.path().join("dddd"));
    assert!(room_for(&given, &keep(1)).findings.is_empty());
}

#[test]
fn a_run_that_failed_takes_the_place_of_no_good_one() {
    let dir = tempfile::tempdir().expect("folder");
    let mark = |name: &str, status: PassStatus| {
        let mut record = RunRecord::read(&dir.path().join(name)).expect("record");
        let pass = PassRecord { name: "collect".into(), status, ..PassRecord::default() };
        record.passes = vec![pass];
        record.write(&dir.path().join(name)).expect("record");
        record
    };
    // Each starts later than the one before it.
    for name in ["a", "bb", "ccc", "dddd", "eeeee"] {
        bundle(dir.path(), name, 1000);
    }
    mark("ccc", PassStatus::WorkloadFailed);
    let this = mark("eeeee", PassStatus::Interrupted);
    let folder = |name: &str| RunFolder::New { under: dir.path().into(), name: name.into() };
    let left = || {
        let there = |name: &&str| dir.path().join(name).exists();
        ["a", "bb", "ccc", "dddd", "eeeee"].into_iter().filter(there).collect::<Vec<_>>().join(" ")
    };
    // Two too many, and only one of them failed.
    make_room(&folder("eeeee"), &limits(3, 0, 0), &this);
    assert_eq!(left(), "a bb dddd eeeee");
    make_room(&folder("eeeee"), &limits(1, 3000, 0), &this);
    assert_eq!(left(), "a bb dddd eeeee");
    // A good one comes after it: what failed goes first, then what is oldest.
    room_for(&folder("dddd"), &limits(3, 0, 0));
    assert_eq!(left(), "a bb dddd");
    room_for(&folder("dddd"), &limits(2, 0, 0));
    assert_eq!(left(), "bb dddd");
    let empty = serde_json::json!({"verdict": {"status": "empty"}});
    assert!(!is_good(&RunRecord { coverage: empty, ..RunRecord::default() }));
}

#[test]
fn older_bundles_are_compressed_and_still_ours() {
    let dir = tempfile::tempdir().expect("folder");
    for name in ["a", "bb", "ccc", "dddd"] {
        bundle(dir.path(), name, 100_000);
    }
    std::os::unix::fs::symlink("a", dir.path().join("latest")).expect("link");
    let folder = RunFolder::New { under: dir.path().into(), name: "dddd".into() };
    let keep = limits(0, 0, 2);
    let room = room_for(&folder, &keep);
    assert_eq!(room.compressed, [dir.path().join("bb")], "neither latest nor the newest two");
    assert!(room.findings[0].what.contains("1 file of the bundle"), "{room:?}");
    assert!(dir.path().join("bb/collector/a.s2t.gz").is_file());
    for name in ["a", "ccc", "dddd"] {
        assert!(dir.path().join(name).join("collector/a.s2t").is_file(), "{name}");
    }
    assert!(room_for(&folder, &keep).compressed.is_empty(), "once is enough");
    // The compressed file is on the list: the bundle can still be removed.
    let room = room_for(&folder, &limits(2, 0, 0));
    assert!(!dir.path().join("bb").exists() && dir.path().join("a").exists(), "{room:?}");
}

#[test]
fn what_a_signal_left_behind_keeps_no_bundle() {
    let dir = tempfile::tempdir().expect("folder");
    bundle(dir.path(), "a", 100);
    bundle(dir.path(), "bb", 100);
    let at = |name: &str| dir.path().join("a").join(name);
    std::fs::write(at("collector/.new-Ab12Cd"), "half").expect("file");
    std::fs::write(at(".unpacked-Ab12Cd"), "half").expect("file");
    std::os::unix::fs::symlink("bb", dir.path().join("latest")).expect("link");
    let folder = RunFolder::New { under: dir.path().into(), name: "bb".into() };
    let room = room_for(&folder, &limits(1, 0, 0));
    assert!(!dir.path().join("a").exists(), "{room:?}");
}

#[test]
fn a_bundle_of_which_one_file_cannot_be_compressed_lists_its_files_again() {
    let dir = tempfile::tempdir().expect("folder");
    for name in ["a", "bb", "ccc"] {
        bundle(dir.path(), name, 100_000);
    }
    let at = |name: &str| dir.path().join("a").join(name);
    std::fs::copy(at("collector/a.s2t"), at("collector/b.s2t")).expect("file");
    std::fs::write(at("collector/b.s2t.gz"), "mine").expect("file");
    let mut record = RunRecord::read(&dir.path().join("a")).expect("record");
    record.files.push("collector/b.s2t".into());
    record.write(&dir.path().join("a")).expect("record");
    std::os::unix::fs::symlink("ccc", dir.path().join("latest")).expect("link");
    let folder = RunFolder::New { under: dir.path().into(), name: "ccc".into() };
    let room = room_for(&folder, &limits(0, 0, 2));
    assert!(room.findings[0].what.contains("could not be compressed completely"), "{room:?}");
    assert!(at("collector/a.s2t.gz").is_file() && at("collector/b.s2t").is_file());
    assert_eq!(room.compressed, [dir.path().join("a")]);
}

#[test]
fn two_runs_do_not_make_room_at_the_same_time() {
    let dir = tempfile::tempdir().expect("folder");
    bundle(dir.path(), "a", 100);
    bundle(dir.path(), "bb", 100);
    std::os::unix::fs::symlink("bb", dir.path().join("latest")).expect("link");
    let folder = RunFolder::New { under: dir.path().into(), name: "bb".into() };
    let keep = limits(1, 0, 0);
    let other = std::fs::File::create(dir.path().join(LOCK)).expect("file");
    other.lock().expect("lock");
    let room = room_for(&folder, &keep);
    assert!(dir.path().join("a").exists() && room.findings.is_empty(), "{room:?}");
    drop(other);
    room_for(&folder, &keep);
    assert!(!dir.path().join("a").exists(), "the other one has ended");
}

#[test]
fn a_bundle_over_its_limit_is_told() {
    let dir = tempfile::tempdir().expect("folder");
    std::fs::write(dir.path().join("a"), [0; 100]).expect("file");
    assert_eq!(too_big(dir.path(), 100), None);
    assert!(too_big(dir.path(), 99).is_some_and(|f| f.what.contains("100 bytes")));
}
