//! A closed bundle -> the same with its largest kinds of files compressed: trace files, and SQLite
//! exports of nsys. Reports are written again from the compressed files as from the others.
//!
//! What nsys and ncu call reports (`.nsys-rep`, `.ncu-rep`) is compressed inside already.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{
    BASELINE_DIR, COLLECTOR_DIR, NSYS_DIR, RUN_JSON, RunRecord, stream_whole, write_whole,
};
use stage2_analysis::files;

/// Smaller files are left: there is little to gain.
const LEAST_BYTES: u64 = 64 << 10;
/// A file has to shrink to this part of its size, percent, or stays as it is.
const MOST_PERCENT: u64 = 90;

/// What became of a bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Compressed {
    pub(super) files: u64,
    pub(super) before_bytes: u64,
    pub(super) after_bytes: u64,
}

/// Compresses files that `record` lists, of at most `budget` bytes together, and brings the list up to
/// date. At every moment each file is there, in one form at least, and on the list.
///
/// # Errors
/// A file that cannot be read or written; those before it are compressed.
pub(super) fn compress(
    dir: &Path,
    record: &mut RunRecord,
    budget: &mut u64,
) -> anyhow::Result<Compressed> {
    let mut done = Compressed::default();
    for name in record.files.clone() {
        let Some(path) = candidate(dir, &name) else { continue };
        let bytes = fs::symlink_metadata(&path).map_or(0, |found| found.len());
        if !(LEAST_BYTES..=*budget).contains(&bytes) {
            continue;
        }
        *budget = budget.saturating_sub(bytes);
        let packed = format!("{name}.{}", files::COMPRESSED);
        let failed = || format!("{} cannot be compressed", path.display());
        let Some(after) = pack(&path, &dir.join(&packed), bytes).with_context(failed)? else {
            continue;
        };
        record.files.push(packed);
        save(dir, record)?;
        fs::remove_file(&path).with_context(failed)?;
        record.files.retain(|other| *other != name);
        record.files.sort();
        save(dir, record)?;
        done.files += 1;
        done.before_bytes = done.before_bytes.saturating_add(bytes);
        done.after_bytes = done.after_bytes.saturating_add(after);
    }
    Ok(done)
}

/// The path of a file that may be compressed: an ordinary one, right in a folder that is ours, none of
/// them a link.
fn candidate(dir: &Path, name: &str) -> Option<PathBuf> {
    let (folder, file) = name.split_once('/')?;
    let kind = match folder {
        COLLECTOR_DIR | BASELINE_DIR => ".s2t",
        NSYS_DIR => ".sqlite",
        _ => return None,
    };
    let path = dir.join(folder).join(file);
    let is_plain = file.ends_with(kind) && !file.contains('/');
    let in_folder = fs::symlink_metadata(dir.join(folder)).is_ok_and(|found| found.is_dir());
    let is_file = || fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
    (is_plain && in_folder && is_file()).then_some(path)
}

/// Writes the compressed file, and reads it again to see that it holds all `bytes`. Its size; none: it
/// is hardly smaller, or would be taken for a bomb, and is not there.
fn pack(from: &Path, to: &Path, bytes: u64) -> anyhow::Result<Option<u64>> {
    // One that is there may be another's.
    anyhow::ensure!(fs::symlink_metadata(to).is_err(), "{} is there already", to.display());
    let permissions = fs::symlink_metadata(from)?.permissions();
    stream_whole(to, &|sink| {
        let mut packer = GzEncoder::new(sink, Compression::fast());
        io::copy(&mut files::open(from)?, &mut packer)?;
        packer.finish()?;
        Ok(())
    })?;
    let size = || -> io::Result<u64> {
        fs::set_permissions(to, permissions)?;
        let after = fs::symlink_metadata(to)?.len();
        if after.saturating_mul(100) > bytes.saturating_mul(MOST_PERCENT)
            || files::most_unpacked(after) < bytes
        {
            return Ok(0);
        }
        match io::copy(&mut files::unpacked(to)?, &mut io::sink())? {
            again if again == bytes => Ok(after),
            again => Err(io::Error::other(format!("{again} of {bytes} bytes came back"))),
        }
    };
    match size() {
        Ok(0) => Ok(fs::remove_file(to).map(|()| None)?),
        Ok(after) => Ok(Some(after)),
        Err(error) => {
            let _ = fs::remove_file(to);
            Err(error.into())
        }
    }
}

fn save(dir: &Path, record: &RunRecord) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(record).context("run.json")?;
    write_whole(&dir.join(RUN_JSON), &format!("{json}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_files_of_our_folders_are_compressed_and_all_come_back() {
        let dir = tempfile::tempdir().expect("folder");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("collector")).expect("folder");
        fs::create_dir(at("nsys")).expect("folder");
        let text = "kernel ".repeat(20_000);
        let noise: Vec<u8> = (0..200_000u64)
            .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 ^ i << 3).wrapping_mul(i) as u8)
            .collect();
        let all = ["collector/a.s2t", "nsys/run.sqlite", "nsys/run.nsys-rep", "collector/x.s2t"];
        for name in all {
            fs::write(at(name), &text).expect(name);
        }
        fs::write(at("collector/small.s2t"), "small").expect("small");
        fs::write(at("collector/noise.s2t"), noise).expect("noise");
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
}
