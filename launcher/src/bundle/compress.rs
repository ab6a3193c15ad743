//! A closed bundle -> the same with its largest kinds of files compressed: trace files, and SQLite
//! exports of nsys. Reports are written again from the compressed files as from the others.
//!
//! What nsys and ncu call reports (`.nsys-rep`, `.ncu-rep`) is compressed inside already.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;

use super::{
    BASELINE_DIR, COLLECTOR_DIR, COUNTERS_DIR, NSYS_DIR, RunRecord, WINDOWS_DIR, window_bundles,
    window_number,
};
use stage2_read::files;

/// Smaller files are left: there is little to gain.
const LEAST_BYTES: u64 = 64 << 10;
/// A file has to shrink to this part of its size, percent, or stays as it is.
const MOST_PERCENT: u64 = 90;
/// The beginning of a file shows whether the file is worth its share of the budget.
const PROBED_BYTES: u64 = 4 << 20;
/// No process of ours writes to a temporary file again after such a time.
const ABANDONED_AFTER: Duration = Duration::from_secs(60 * 60);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Compressed {
    pub(super) files: u64,
    pub(super) before_bytes: u64,
    pub(super) after_bytes: u64,
}

/// Compresses files that `record` lists, of at most `budget` bytes together, and brings the list up to
/// date, for a file of a window also that of the window's bundle. Files that do not shrink cost nothing
/// of the budget.
///
/// At every moment each file is there, in one form at least, and on the list: a signal may end the
/// process anywhere, and the next call goes on from there.
///
/// # Errors
/// A file that cannot be read or written; those before it are compressed.
pub(super) fn compress(
    dir: &Path,
    record: &mut RunRecord,
    budget: &mut u64,
) -> anyhow::Result<Compressed> {
    remove_abandoned(dir);
    let mut done = Compressed::default();
    for name in record.files.clone() {
        let Some(path) = candidate(dir, &name) else { continue };
        let bytes = fs::symlink_metadata(&path).map_or(0, |found| found.len());
        if !(LEAST_BYTES..=*budget).contains(&bytes) {
            continue;
        }
        let failed = || format!("{} cannot be compressed", path.display());
        let packed = dir.join(packed_name(&name));
        let there = fs::symlink_metadata(&packed).ok();
        if there.is_none() && !shrinks(&path).with_context(failed)? {
            continue;
        }
        *budget = budget.saturating_sub(bytes);
        let fresh = match there {
            None => match pack(&path, bytes).with_context(failed)? {
                None => continue,
                fresh => fresh,
            },
            // A copy is what an earlier call left; another file may be somebody's.
            Some(found) => {
                let is_copy = found.is_file() && holds(&packed, &path).with_context(failed)?;
                let packed = packed.display();
                anyhow::ensure!(is_copy, "{packed} is there already, with other contents");
                None
            }
        };
        // Listed first: what is not listed counts as the user's, and keeps the bundle from being deleted.
        relist(dir, record, &name, |record, name| {
            let listed = packed_name(name);
            if !record.files.contains(&listed) {
                record.files.push(listed);
            }
        })?;
        if let Some(fresh) = fresh {
            files::put(fresh, &packed).with_context(failed)?;
        }
        let after = fs::symlink_metadata(&packed).with_context(failed)?.len();
        fs::remove_file(&path).with_context(failed)?;
        relist(dir, record, &name, |record, name| {
            record.files.retain(|other| other != name);
            record.files.sort();
            for window in record.windows.iter_mut().filter(|window| window.file == name) {
                window.file = packed_name(name);
            }
        })?;
        done.files += 1;
        done.before_bytes = done.before_bytes.saturating_add(bytes);
        done.after_bytes = done.after_bytes.saturating_add(after);
    }
    Ok(done)
}

fn packed_name(name: &str) -> String {
    format!("{name}.{}", files::COMPRESSED)
}

/// Changes what is said of a file by the record of the run, and by that of the window whose bundle has
/// the file under a shorter name.
fn relist(
    dir: &Path,
    record: &mut RunRecord,
    name: &str,
    change: impl Fn(&mut RunRecord, &str),
) -> anyhow::Result<()> {
    change(record, name);
    record.write(dir)?;
    let (window, own_name) = split_window(name);
    // A record that cannot be read is nothing to go by for anybody else either.
    if !window.is_empty()
        && let Ok(mut own) = RunRecord::read(&dir.join(window))
    {
        change(&mut own, own_name);
        own.write(&dir.join(window))?;
    }
    Ok(())
}

/// The window that has a file, `windows/w3`, and the name of the file in its bundle. Empty: the file is
/// of no window.
fn split_window(name: &str) -> (&str, &str) {
    let mut parts = name.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(WINDOWS_DIR), Some(window), Some(own_name)) if window_number(window).is_some() => {
            let (window, _) = name.split_at(WINDOWS_DIR.len() + 1 + window.len());
            (window, own_name)
        }
        _ => ("", name),
    }
}

/// Deletes temporary files that a signal left in the folders where files are packed and unpacked.
fn remove_abandoned(dir: &Path) {
    let is_abandoned = |entry: &fs::DirEntry| {
        let old = |at: SystemTime| at.elapsed().is_ok_and(|age| age >= ABANDONED_AFTER);
        entry.file_name().to_str().is_some_and(files::is_temporary)
            && entry
                .metadata()
                .is_ok_and(|found| found.is_file() && found.modified().is_ok_and(old))
    };
    let folders = [COLLECTOR_DIR, BASELINE_DIR, COUNTERS_DIR, NSYS_DIR].map(|name| dir.join(name));
    let windows = window_bundles(dir).into_iter().filter(|_| is_dir(&dir.join(WINDOWS_DIR)));
    let of_windows = windows.filter(|window| is_dir(window)).map(|dir| dir.join(COLLECTOR_DIR));
    for folder in folders.into_iter().chain(of_windows) {
        if !is_dir(&folder) {
            continue;
        }
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten().filter(is_abandoned) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The path of a file that may be compressed: an ordinary one, right in a folder that is ours, of the run
/// or of one of its windows, none of them a link.
fn candidate(dir: &Path, name: &str) -> Option<PathBuf> {
    let (window, own_name) = split_window(name);
    let (folder, file) = own_name.split_once('/')?;
    let kind = match folder {
        COLLECTOR_DIR | BASELINE_DIR | COUNTERS_DIR => ".s2t",
        NSYS_DIR => ".sqlite",
        _ => return None,
    };
    let is_ours = window.is_empty() || is_dir(&dir.join(WINDOWS_DIR)) && is_dir(&dir.join(window));
    let folder = dir.join(window).join(folder);
    let path = folder.join(file);
    let is_plain = file.ends_with(kind) && !file.contains('/');
    let is_file = || fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
    (is_plain && is_ours && is_dir(&folder) && is_file()).then_some(path)
}

/// Whether it is a folder, and no link to one.
fn is_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Whether a file gets smaller, by its beginning.
fn shrinks(path: &Path) -> io::Result<bool> {
    let file = files::open(path)?;
    let read = file.metadata()?.len().min(PROBED_BYTES);
    let mut packed = flate2::read::GzEncoder::new(file.take(PROBED_BYTES), Compression::fast());
    Ok(is_smaller(io::copy(&mut packed, &mut io::sink())?, read))
}

fn is_smaller(after: u64, before: u64) -> bool {
    after.saturating_mul(100) <= before.saturating_mul(MOST_PERCENT)
}

/// The compressed file under a name of its own, read again to see that it holds the same. None: it is
/// hardly smaller, or would be taken for a bomb.
fn pack(from: &Path, bytes: u64) -> anyhow::Result<Option<NamedTempFile>> {
    let fresh = files::new_in(from.parent().unwrap_or(Path::new(".")))?;
    let mut packer = GzEncoder::new(io::BufWriter::new(fresh), Compression::fast());
    io::copy(&mut files::open(from)?, &mut packer)?;
    let mut sink = packer.finish()?;
    sink.flush()?;
    // Without its buffer; all of that is written.
    let (fresh, _) = sink.into_parts();
    let after = fresh.as_file().metadata()?.len();
    if !is_smaller(after, bytes) || files::most_unpacked(after) < bytes {
        return Ok(None);
    }
    anyhow::ensure!(holds(fresh.path(), from)?, "what was written is not what comes back");
    fresh.as_file().set_permissions(fs::symlink_metadata(from)?.permissions())?;
    Ok(Some(fresh))
}

/// Whether a compressed file stands for the same bytes as a plain one.
fn holds(packed: &Path, plain: &Path) -> io::Result<bool> {
    let mut left = io::BufReader::new(files::unpacked(packed)?);
    let mut right = io::BufReader::new(files::open(plain)?);
    loop {
        let (a, b) = (io::BufRead::fill_buf(&mut left)?, io::BufRead::fill_buf(&mut right)?);
        let common = a.len().min(b.len());
        if a.get(..common) != b.get(..common) {
            return Ok(false);
        }
        if common == 0 {
            return Ok(a.is_empty() && b.is_empty());
        }
        io::BufRead::consume(&mut left, common);
        io::BufRead::consume(&mut right, common);
    }
}

#[cfg(test)]
mod tests {
    use super::super::WindowRecord;
    use super::*;

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
    fn bundle(files: &[(&str, &[u8])]) -> (tempfile::TempDir, RunRecord) {
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
        let (dir, mut record) = bundle(&[]);
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
        assert_eq!(
            record.files,
            ["windows/mine/collector/b.s2t", "windows/w12/collector/a.s2t.gz"]
        );
        assert_eq!(record.windows[0].file, "windows/w12/collector/a.s2t.gz");
        let own = RunRecord::read(&window).expect("record");
        assert_eq!(own.files, ["collector/a.s2t.gz"]);
        assert_eq!(own.windows[0].file, "collector/a.s2t.gz");
    }

    #[test]
    fn what_does_not_shrink_leaves_the_budget_to_others() {
        let (noise, text) = (noise(200_000), "kernel ".repeat(20_000));
        let (dir, mut record) = bundle(&[("a.s2t", &noise), ("b.s2t", text.as_bytes())]);
        let mut budget = 250_000;
        let done = compress(dir.path(), &mut record, &mut budget).expect("compressed");
        assert_eq!((done.files, budget), (1, 250_000 - text.len() as u64));
        assert!(dir.path().join("collector/b.s2t.gz").is_file());
    }

    #[test]
    fn an_interrupted_call_is_gone_on_with() {
        let text = "kernel ".repeat(20_000);
        let (dir, mut record) = bundle(&[("a.s2t", text.as_bytes()), ("b.s2t", text.as_bytes())]);
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
        let (dir, mut record) = bundle(&[("a.s2t", text.as_bytes()), ("mine", b"another kernel")]);
        let at = |name: &str| dir.path().join("collector").join(name);
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(&fs::read(at("mine")).expect("mine")).expect("packed");
        fs::write(at("a.s2t.gz"), packer.finish().expect("packed")).expect("file");
        let error = compress(dir.path(), &mut record, &mut (1 << 20)).expect_err("in the way");
        assert!(format!("{error:#}").contains("with other contents"), "{error:#}");
        assert!(at("a.s2t").is_file() && !record.files.contains(&"collector/a.s2t.gz".to_owned()));
    }
}
