use super::*;
use crate::bundle::WindowRecord;
use stage2_model::Severity;

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
    for name in ["old", "reporting", "annotated"] {
        bundle(name, name, "2026-01-01T00:00:00.000Z", Some("x"));
    }
    bundle("linked", "linked", "2026-01-02T00:00:00.000Z", Some("x"));
    bundle("copied", "another", "2026-01-01T00:00:00.000Z", Some("x"));
    bundle("running", "running", "2026-01-01T00:00:00.000Z", None);
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

/// Bundles of so many bytes, the last one that of this run.
fn bundles(names: &[&str], bytes: usize, latest: Option<&str>) -> (tempfile::TempDir, RunFolder) {
    let dir = tempfile::tempdir().expect("folder");
    names.iter().for_each(|name| bundle(dir.path(), name, bytes));
    if let Some(latest) = latest {
        std::os::unix::fs::symlink(latest, dir.path().join("latest")).expect("link");
    }
    let name = names[names.len() - 1].into();
    let folder = RunFolder::New { under: dir.path().into(), name };
    (dir, folder)
}

#[test]
fn the_oldest_go_until_all_fit() {
    let (dir, folder) = bundles(&["a", "bb", "ccc", "dddd"], 100_000, None);
    std::fs::write(dir.path().join("bb/NOTES.md"), "mine").expect("file");
    std::fs::create_dir(dir.path().join("foreign")).expect("folder");
    std::fs::write(dir.path().join("foreign/huge"), vec![0; 500_000]).expect("file");
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
    assert_eq!((room.deleted, room.compressed.len()), (1, 0), "{room:?}");
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
    let (dir, folder) = bundles(&["a", "bb", "ccc", "dddd"], 100_000, Some("a"));
    let keep = limits(0, 0, 2);
    let room = room_for(&folder, &keep);
    assert_eq!(room.compressed, [dir.path().join("bb")], "neither latest nor the newest two");
    assert!(room.compressions[0].what.contains("1 file of the bundle"), "{room:?}");
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
    let (dir, folder) = bundles(&["a", "bb"], 100, Some("bb"));
    let at = |name: &str| dir.path().join("a").join(name);
    std::fs::write(at("collector/.new-Ab12Cd"), "half").expect("file");
    std::fs::write(at(".unpacked-Ab12Cd"), "half").expect("file");
    let room = room_for(&folder, &limits(1, 0, 0));
    assert!(!dir.path().join("a").exists(), "{room:?}");
}

#[test]
fn a_bundle_of_which_one_file_cannot_be_compressed_lists_its_files_again() {
    let (dir, folder) = bundles(&["a", "bb", "ccc"], 100_000, Some("ccc"));
    let at = |name: &str| dir.path().join("a").join(name);
    std::fs::copy(at("collector/a.s2t"), at("collector/b.s2t")).expect("file");
    std::fs::write(at("collector/b.s2t.gz"), "mine").expect("file");
    let mut record = RunRecord::read(&dir.path().join("a")).expect("record");
    record.files.push("collector/b.s2t".into());
    record.write(&dir.path().join("a")).expect("record");
    let room = room_for(&folder, &limits(0, 0, 2));
    let found = &room.compressions[0];
    assert!(found.what.contains("could not be compressed completely"), "{room:?}");
    assert!(at("collector/a.s2t.gz").is_file() && at("collector/b.s2t").is_file());
    assert_eq!(room.compressed, [dir.path().join("a")]);
}

#[test]
fn two_runs_do_not_make_room_at_the_same_time() {
    let (dir, folder) = bundles(&["a", "bb"], 100, Some("bb"));
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

#[test]
fn only_listed_files_of_our_folders_are_compressed_and_all_come_back() {
    let dir = tempfile::tempdir().expect("folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("collector")).expect("folder");
    fs::create_dir(at("nsys")).expect("folder");
    let text = "kernel ".repeat(20_000);
    let all = ["collector/a.s2t", "nsys/run.sqlite", "nsys/run.nsys-rep", "collector/x.s2t"];
    for name in all {
        fs::write(at(name), &text).expect(name);
    }
    fs::write(at("collector/small.s2t"), "small").expect("small");
    fs::write(at("collector/noise.s2t"), noise(200_000)).expect("noise");
    fs::write(at("elsewhere"), &text).expect("elsewhere");
    std::os::unix::fs::symlink(at("elsewhere"), at("collector/link.s2t")).expect("link");
    let mut record = RunRecord::new("run".into(), Vec::new());
    let listed = ["small.s2t", "link.s2t", "noise.s2t", "../elsewhere", "a.s2t", "gone.s2t"];
    record.files = listed.iter().map(|name| format!("collector/{name}")).collect();
    record.files.extend(["nsys/run.sqlite".into(), "nsys/run.nsys-rep".into()]);
    let mut budget = 1 << 20;
    let done = compress(dir.path(), &mut record, &mut budget).expect("compressed");
    assert_eq!((done.files, done.before_bytes), (2, 2 * text.len() as u64));
    assert!(done.after_bytes < done.before_bytes / 10, "{done:?}");
    for name in ["collector/a.s2t", "nsys/run.sqlite"] {
        assert!(!at(name).exists(), "{name}");
        let packed = format!("{name}.gz");
        let mut again = String::new();
        io::Read::read_to_string(&mut files::unpacked(&at(&packed)).expect("open"), &mut again)
            .expect("unpacked");
        assert_eq!(again, text);
        assert!(record.files.contains(&packed) && !record.files.contains(&name.to_owned()));
    }
    for name in ["nsys/run.nsys-rep", "collector/x.s2t", "collector/noise.s2t", "elsewhere"] {
        assert!(at(name).is_file() && !at(&format!("{name}.gz")).exists(), "{name}");
    }
    assert!(at("collector/link.s2t").is_symlink());
    assert_eq!(RunRecord::read(dir.path()).expect("saved").files, record.files);
    let again = compress(dir.path(), &mut record, &mut budget).expect("nothing to do");
    assert_eq!(again, Compressed::default());
    // Beyond the budget nothing is begun.
    record.files.push("collector/x.s2t".into());
    let done = compress(dir.path(), &mut record, &mut 1_000).expect("nothing to do");
    assert_eq!(done.files, 0);
}

/// Bytes that do not shrink.
fn noise(bytes: u64) -> Vec<u8> {
    let mixed = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 ^ i << 3;
    (0..bytes).map(|i| mixed(i).wrapping_mul(i) as u8).collect()
}

/// A bundle with these files in `collector/`, all on its list.
fn bundle_of(files: &[(&str, &[u8])]) -> (tempfile::TempDir, RunRecord) {
    let dir = tempfile::tempdir().expect("folder");
    fs::create_dir(dir.path().join("collector")).expect("folder");
    let mut record = RunRecord::new("run".into(), Vec::new());
    for (name, bytes) in files {
        fs::write(dir.path().join("collector").join(name), bytes).expect("file");
        record.files.push(format!("collector/{name}"));
    }
    (dir, record)
}

#[test]
fn files_of_windows_are_compressed_and_both_lists_say_so() {
    let text = "kernel ".repeat(20_000);
    let (dir, mut record) = bundle_of(&[]);
    let window = dir.path().join("windows/w12");
    fs::create_dir_all(window.join("collector")).expect("folder");
    fs::write(window.join("collector/a.s2t"), &text).expect("file");
    fs::create_dir_all(dir.path().join("windows/mine/collector")).expect("folder");
    fs::write(dir.path().join("windows/mine/collector/b.s2t"), &text).expect("file");
    let names = ["windows/w12/collector/a.s2t", "windows/mine/collector/b.s2t"];
    record.files = names.map(str::to_owned).into();
    let file = |file: &str| WindowRecord { file: file.to_owned(), ..WindowRecord::default() };
    record.windows = vec![file(names[0])];
    let mut own = RunRecord::new("w12".into(), Vec::new());
    own.files = vec!["collector/a.s2t".to_owned()];
    own.windows = vec![file("collector/a.s2t")];
    own.write(&window).expect("record");
    let done = compress(dir.path(), &mut record, &mut (1 << 20)).expect("compressed");
    assert_eq!(done.files, 1, "what is in no window of ours stays");
    assert!(holds(&window.join("collector/a.s2t.gz"), &dir.path().join(names[1])).unwrap());
    assert_eq!(record.files, ["windows/mine/collector/b.s2t", "windows/w12/collector/a.s2t.gz"]);
    assert_eq!(record.windows[0].file, "windows/w12/collector/a.s2t.gz");
    let own = RunRecord::read(&window).expect("record");
    assert_eq!(own.files, ["collector/a.s2t.gz"]);
    assert_eq!(own.windows[0].file, "collector/a.s2t.gz");
}

#[test]
fn what_does_not_shrink_leaves_the_budget_to_others() {
    let (noise, text) = (noise(200_000), "kernel ".repeat(20_000));
    let (dir, mut record) = bundle_of(&[("a.s2t", &noise), ("b.s2t", text.as_bytes())]);
    let mut budget = 250_000;
    let done = compress(dir.path(), &mut record, &mut budget).expect("compressed");
    assert_eq!((done.files, budget), (1, 250_000 - text.len() as u64));
    assert!(dir.path().join("collector/b.s2t.gz").is_file());
}

#[test]
fn an_interrupted_call_is_gone_on_with() {
    let text = "kernel ".repeat(20_000);
    let (dir, mut record) = bundle_of(&[("a.s2t", text.as_bytes()), ("b.s2t", text.as_bytes())]);
    let at = |name: &str| dir.path().join("collector").join(name);
    // The signal came before `a` was deleted, and while `b` was written.
    pack(&at("a.s2t"), text.len() as u64)
        .expect("packed")
        .expect("smaller")
        .persist(at("a.s2t.gz"))
        .expect("file");
    let old = SystemTime::now() - ABANDONED_AFTER;
    for (name, old) in [
        (".new-Ab12Cd", Some(old)),
        (".unpacked-Ab12Cd", Some(old)),
        (".new-Ef34Gh", None),
        (".new-notes.md", Some(old)),
    ] {
        let file = fs::File::create(at(name)).expect("file");
        old.into_iter().for_each(|at| file.set_modified(at).expect("time"));
    }
    let done = compress(dir.path(), &mut record, &mut (1 << 20)).expect("compressed");
    assert_eq!((done.files, done.before_bytes), (2, 2 * text.len() as u64));
    assert_eq!(record.files, ["collector/a.s2t.gz", "collector/b.s2t.gz"]);
    let entries = fs::read_dir(dir.path().join("collector")).expect("folder").flatten();
    let mut left: Vec<_> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    left.sort();
    // One that was written to a moment ago may be in use.
    assert_eq!(left, [".new-Ef34Gh", ".new-notes.md", "a.s2t.gz", "b.s2t.gz"]);
}

#[test]
fn a_file_that_is_no_copy_is_left_alone() {
    let text = "kernel ".repeat(20_000);
    let (dir, mut record) = bundle_of(&[("a.s2t", text.as_bytes()), ("mine", b"another kernel")]);
    let at = |name: &str| dir.path().join("collector").join(name);
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(&fs::read(at("mine")).expect("mine")).expect("packed");
    fs::write(at("a.s2t.gz"), packer.finish().expect("packed")).expect("file");
    let error = compress(dir.path(), &mut record, &mut (1 << 20)).expect_err("in the way");
    assert!(format!("{error:#}").contains("with other contents"), "{error:#}");
    assert!(at("a.s2t").is_file() && !record.files.contains(&"collector/a.s2t.gz".to_owned()));
}
