//! Files of one kind, from anywhere -> copies in a folder of the bundle, none over another.
//!
//! Files that belong together (the pages of a report, the tables of a capture) are told by their
//! names. So files of another folder never get a name that would make them part of these.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use stage2_analysis::files;
use stage2_analysis::ncu::load::folder::report_name;
use stage2_analysis::nsys::load::folder::capture_name;
use stage2_model::{Finding, Severity};

/// What made the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The collector.
    Spool,
    /// Nsight Systems.
    Nsys,
    /// Nsight Compute.
    Ncu,
}

impl Kind {
    /// Endings that its files have.
    pub(crate) fn extensions(self) -> &'static [&'static str] {
        match self {
            Kind::Spool => &["s2t"],
            Kind::Nsys => &["sqlite", "nsys-rep", "qdrep", "csv"],
            Kind::Ncu => &["ncu-rep", "csv"],
        }
    }

    /// Whether a file is a report that only its tool can read.
    pub(crate) fn needs_tool(self, path: &Path) -> bool {
        self != Kind::Spool && !["csv", "sqlite"].contains(&files::ending(path))
    }

    /// What files that belong together have in common.
    fn common_name(self, file_name: &str) -> String {
        match self {
            Kind::Spool => file_name.to_owned(),
            Kind::Nsys => capture_name(file_name).to_owned(),
            Kind::Ncu => report_name(file_name),
        }
    }

    /// The name of a file of the `number`th folder that has files of that name.
    fn numbered(self, file_name: &str, number: usize) -> String {
        let end = match self {
            Kind::Nsys => capture_name(file_name).len(),
            Kind::Spool | Kind::Ncu => file_name.rfind('.').unwrap_or(file_name.len()),
        };
        match (number, file_name.split_at_checked(end)) {
            (2.., Some((front, back))) => format!("{front}-{number}{back}"),
            _ => file_name.to_owned(),
        }
    }
}

/// Why a file is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotTaken {
    /// It cannot be read or copied.
    #[error(transparent)]
    Unreadable(#[from] std::io::Error),
    /// Its name is that of another kind of file.
    #[error("its name has to end in .{}", .0.extensions().join(" or ."))]
    WrongEnding(Kind),
    /// It is a folder or a device.
    #[error("it is no file")]
    NoFile,
    /// No trace file lies in the folder.
    #[error("no file in it ends in .{}", Kind::Spool.extensions().join(" or ."))]
    NoSpools,
    /// The copy could not be named in reports.
    #[error("its name is no UTF-8; copy it to another name")]
    OddName,
    /// There is no folder to copy it into.
    #[error("{}: {error}", .folder.display())]
    Folder {
        /// Which one.
        folder: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// Its name and thousands like it are taken.
    #[error("there is no name left for it")]
    NoNameLeft,
    /// It is compressed, and not whole.
    #[error("it cannot be unpacked ({0})")]
    Packed(std::io::Error),
}

/// The files of one kind.
#[derive(Debug)]
pub(crate) struct TakeIn {
    kind: Kind,
    folder: PathBuf,
    /// Folders that files with something in common come from, by what that is.
    homes: BTreeMap<String, Vec<PathBuf>>,
    given: BTreeSet<PathBuf>,
    /// The copies, and where they are from.
    pub(crate) taken: Vec<(PathBuf, PathBuf)>,
}

impl TakeIn {
    /// Nothing yet; the folder is made for the first file.
    pub(crate) fn new(kind: Kind, folder: PathBuf) -> TakeIn {
        let (homes, given, taken) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        TakeIn { kind, folder, homes, given, taken }
    }

    /// Copies a file, or tells why it cannot be used.
    pub(crate) fn file(&mut self, file: &Path, findings: &mut Vec<Finding>) {
        match self.copy(file) {
            Ok(Some(copy)) => self.taken.push((copy, file.to_owned())),
            Ok(None) => findings.push(Finding::new(
                Severity::Note,
                format!("{} is named twice", file.display()),
                "it is taken once",
                "",
            )),
            Err(why) => findings.push(unusable(file, &why.to_string())),
        }
    }

    /// Copies a spool, or all spools in a folder.
    pub(crate) fn file_or_folder(&mut self, from: &Path, findings: &mut Vec<Finding>) {
        if !from.is_dir() {
            return self.file(from, findings);
        }
        match spools_in(from) {
            Ok(files) => files.iter().for_each(|file| self.file(file, findings)),
            Err(why) => findings.push(unusable(from, &why.to_string())),
        }
    }

    /// Whether some of the copies hold the environment of the machine that they were taken on: reports
    /// and exports of nsys do, but for those that were made to be given away.
    pub(crate) fn holds_an_environment(&self) -> bool {
        let whole = |copy: &Path| {
            let name = copy.file_name().unwrap_or_default().to_string_lossy();
            !name.ends_with(".csv") && !name.ends_with(".scrubbed.sqlite")
        };
        self.kind == Kind::Nsys && self.taken.iter().any(|(copy, _)| whole(copy))
    }

    /// The copies that only a tool can read.
    pub(crate) fn for_tool(&self) -> Vec<PathBuf> {
        let copies = self.taken.iter().map(|(copy, _)| copy);
        copies.filter(|copy| self.kind.needs_tool(copy)).cloned().collect()
    }

    fn copy(&mut self, file: &Path) -> Result<Option<PathBuf>, NotTaken> {
        check(self.kind, file)?;
        let full = file.canonicalize()?;
        if !self.given.insert(full.clone()) {
            return Ok(None);
        }
        let name = file.file_name().unwrap_or_default();
        let name = name.to_str().ok_or(NotTaken::OddName)?;
        let name = files::plain_name(name);
        let homes = self.homes.entry(self.kind.common_name(name)).or_default();
        let home = full.parent().unwrap_or(&full).to_owned();
        let at = homes.iter().position(|other| *other == home).unwrap_or_else(|| {
            homes.push(home);
            homes.len() - 1
        });
        std::fs::create_dir_all(&self.folder)
            .map_err(|error| NotTaken::Folder { folder: self.folder.clone(), error })?;
        let free = (at + 1..).map(|number| self.folder.join(self.kind.numbered(name, number)));
        let mut free = free.filter(|to| !to.exists());
        let to = free.next().ok_or(NotTaken::NoNameLeft)?;
        if files::is_compressed(file) {
            unpack(file, &to).map_err(NotTaken::Packed)?;
        } else {
            std::fs::copy(file, &to)?;
        }
        Ok(Some(to))
    }
}

/// Nothing is left of a file that cannot be unpacked to its end.
fn unpack(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut copy = std::fs::File::create_new(to)?;
    std::io::copy(&mut files::unpacked(from)?, &mut copy).map(drop).inspect_err(|_| {
        let _ = std::fs::remove_file(to);
    })
}

/// Whether a file can be one of the kind, by its name.
///
/// # Errors
/// Why it cannot.
pub(crate) fn check(kind: Kind, file: &Path) -> Result<(), NotTaken> {
    // First: what is not there has no wrong name.
    let found = file.metadata()?;
    if !kind.extensions().contains(&files::ending(file)) {
        return Err(NotTaken::WrongEnding(kind));
    }
    if found.is_file() { Ok(()) } else { Err(NotTaken::NoFile) }
}

/// [`check`] for what the command line names: of spools that may be a folder of them.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn check_given(kind: Kind, path: &Path) -> Result<(), NotTaken> {
    if kind == Kind::Spool && path.is_dir() {
        return spools_in(path).map(drop);
    }
    check(kind, path)
}

/// The spools of a folder.
fn spools_in(folder: &Path) -> Result<Vec<PathBuf>, NotTaken> {
    let kinds = Kind::Spool.extensions();
    let ours = |path: &PathBuf| kinds.contains(&files::ending(path));
    let entries = std::fs::read_dir(folder)?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(ours).collect();
    files.sort();
    match files.is_empty() {
        true => Err(NotTaken::NoSpools),
        false => Ok(files),
    }
}

fn unusable(path: &Path, why: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("{} is not merged", path.display()),
        why,
        "give another file; the rest is merged without it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(kind: Kind, files: &[&str]) -> Vec<String> {
        let dir = tempfile::tempdir().expect("folder");
        let mut take_in = TakeIn::new(kind, dir.path().join("out"));
        let mut findings = Vec::new();
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            std::fs::write(&path, file).expect("file");
            take_in.file(&path, &mut findings);
        }
        for (copy, from) in &take_in.taken {
            let (copy, from) = (std::fs::read(copy).expect("copy"), std::fs::read(from));
            assert_eq!(copy, from.expect("original"), "nothing is written over");
        }
        let name = |path: &PathBuf| path.file_name().expect("name").to_str().expect("UTF-8").into();
        take_in.taken.iter().map(|(copy, _)| name(copy)).collect()
    }

    #[test]
    fn what_belongs_together_stays_together_and_nothing_else_joins_it() {
        let pages = ["a/raw.csv", "b/raw.csv", "b/details.csv", "a/details.csv", "b/x.ncu-rep"];
        assert_eq!(
            names(Kind::Ncu, &pages),
            ["raw.csv", "raw-2.csv", "details-2.csv", "details.csv", "x.ncu-rep"]
        );
        let tables = ["a/run.sqlite", "b/run_cuda_gpu_kern_sum.csv", "b/run_nvtx_sum.csv"];
        assert_eq!(
            names(Kind::Nsys, &tables),
            ["run.sqlite", "run-2_cuda_gpu_kern_sum.csv", "run-2_nvtx_sum.csv"]
        );
        assert_eq!(names(Kind::Spool, &["a/h-1.s2t", "b/h-1.s2t"]), ["h-1.s2t", "h-1-2.s2t"]);
        assert_eq!(names(Kind::Ncu, &["a/raw.csv", "a/raw.csv"]), ["raw.csv"], "named twice");
        assert_eq!(names(Kind::Ncu, &["a/raw.txt", "a/raw"]), [""; 0]);
    }
}
