//! Files of one kind, from anywhere -> copies in a folder of the bundle, none over another.
//!
//! Files that belong together (the pages of a report, the tables of a capture) are told by their
//! names. So files of another folder never get a name that would make them part of these.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use stage2_contract::trace::pieces::piece_of;
use stage2_model::Finding;
use stage2_model::finding::{Id, Severity};
use stage2_read::files;
use stage2_read::foreign::{Given, look};
use stage2_read::layout::COLLECTOR_DIR;
use stage2_read::ncu::load::report_name;
use stage2_read::nsys::folder::capture_name;
use stage2_read::private;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Trace,
    Nsys,
    Ncu,
}

impl Kind {
    pub(crate) fn extensions(self) -> &'static [&'static str] {
        match self {
            Kind::Trace => &["s2t"],
            Kind::Nsys => &["sqlite", "nsys-rep", "qdrep", "csv"],
            Kind::Ncu => &["ncu-rep", "csv"],
        }
    }

    /// Whether a file is a report that only its tool can read.
    pub(crate) fn needs_tool(self, path: &Path) -> bool {
        self != Kind::Trace && !["csv", "sqlite"].contains(&files::ending(path))
    }

    /// What files that belong together have in common.
    fn common_name(self, file_name: &str) -> String {
        match self {
            Kind::Trace => piece_of(file_name).map_or(file_name, |(stem, _)| stem).to_owned(),
            Kind::Nsys => capture_name(file_name).to_owned(),
            Kind::Ncu => report_name(file_name),
        }
    }

    /// The name of a file of the `number`th folder that has files of that name.
    fn numbered(self, file_name: &str, number: usize) -> String {
        let end = match self {
            Kind::Nsys => capture_name(file_name).len(),
            Kind::Trace if let Some((stem, _)) = piece_of(file_name) => stem.len(),
            Kind::Trace | Kind::Ncu => file_name.rfind('.').unwrap_or(file_name.len()),
        };
        match (number, file_name.split_at_checked(end)) {
            (2.., Some((front, back))) => format!("{front}-{number}{back}"),
            _ => file_name.to_owned(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct InputCopies {
    kind: Kind,
    folder: PathBuf,
    /// Folders that files with something in common come from, by what that is.
    homes: BTreeMap<String, Vec<PathBuf>>,
    seen: BTreeSet<PathBuf>,
    /// Trace files may still be written: each is copied up to its last whole frame.
    pub(crate) is_live: bool,
    /// The copies, and where they are from.
    pub(crate) copies: Vec<(PathBuf, PathBuf)>,
}

impl InputCopies {
    /// Nothing yet; the folder is made for the first file.
    pub(crate) fn new(kind: Kind, folder: PathBuf) -> InputCopies {
        let (homes, seen) = (BTreeMap::new(), BTreeSet::new());
        InputCopies { kind, folder, homes, seen, is_live: false, copies: Vec::new() }
    }

    /// Copies a file, or all trace files in a folder, or tells why it cannot be used.
    pub(crate) fn add(&mut self, from: &Path, findings: &mut Vec<Finding>) {
        let files = match self.kind {
            Kind::Trace if from.is_dir() => trace_files_in(from),
            _ => Ok(vec![from.to_owned()]),
        };
        match files {
            Ok(files) => files.iter().for_each(|file| self.add_file(file, findings)),
            Err(why) => findings.push(unusable(from, &why)),
        }
    }

    /// Copies a trace file that is still being written, up to its last whole frame. The copy.
    pub(crate) fn add_live(&mut self, file: &Path) -> anyhow::Result<PathBuf> {
        let copy = self.copy(file)?.context("it is named twice")?;
        cut(&copy)?;
        self.copies.push((copy.clone(), file.to_owned()));
        Ok(copy)
    }

    fn add_file(&mut self, file: &Path, findings: &mut Vec<Finding>) {
        let is_live = self.is_live;
        let whole = |copy: &PathBuf| if is_live { cut(copy) } else { Ok(()) };
        let copy = self.copy(file);
        match copy.and_then(|copy| copy.as_ref().map_or(Ok(()), whole).map(|()| copy)) {
            Ok(Some(copy)) => self.copies.push((copy, file.to_owned())),
            Ok(None) => {
                let what = format!("{} is named twice", file.display());
                findings.push(Id::ImportLeftOut.graded(
                    Severity::Note,
                    what,
                    "it is taken once",
                    "",
                ));
            }
            Err(why) => findings.push(unusable(file, &why)),
        }
    }

    /// Whether some hold the environment of their machine, as files of nsys do that were not scrubbed.
    pub(crate) fn holds_an_environment(&self) -> bool {
        let mut names = self.copies.iter().filter_map(|(copy, _)| copy.file_name()?.to_str());
        self.kind == Kind::Nsys
            && names.any(|name| !name.ends_with(".csv") && !name.ends_with(".scrubbed.sqlite"))
    }

    /// The copies that only a tool can read.
    pub(crate) fn for_tool(&self) -> Vec<PathBuf> {
        let copies = self.copies.iter().map(|(copy, _)| copy);
        copies.filter(|copy| self.kind.needs_tool(copy)).cloned().collect()
    }

    /// The copy; none where the file has one already.
    fn copy(&mut self, file: &Path) -> anyhow::Result<Option<PathBuf>> {
        check(self.kind, file)?;
        // The way into a container has no other name outside of it.
        let full = file.canonicalize().or_else(|_| std::path::absolute(file))?;
        if !self.seen.insert(full.clone()) {
            return Ok(None);
        }
        let name = file.file_name().and_then(OsStr::to_str);
        let name = name.context("its name is not UTF-8; copy it to another name")?;
        let name = files::plain_name(name);
        let homes = self.homes.entry(self.kind.common_name(name)).or_default();
        let home = full.parent().unwrap_or(&full).to_owned();
        let at = homes.iter().position(|other| *other == home).unwrap_or_else(|| {
            homes.push(home);
            homes.len() - 1
        });
        private::create_folders(&self.folder).with_context(|| self.folder.display().to_string())?;
        let mut free = (at + 1..).map(|number| self.folder.join(self.kind.numbered(name, number)));
        let to = free.find(|to| !to.exists()).context("there is no name left for it")?;
        if files::is_compressed(file) {
            unpack(file, &to).map_err(|e| anyhow::anyhow!("it cannot be unpacked ({e})"))?;
        } else {
            std::io::copy(&mut files::open(file)?, &mut private::create(&to)?)?;
        }
        Ok(Some(to))
    }
}

/// Cuts a copy behind its last whole frame.
fn cut(copy: &Path) -> anyhow::Result<()> {
    let whole = stage2_contract::trace::Reader::open(copy)?.whole_bytes()?;
    Ok(std::fs::File::options().write(true).open(copy)?.set_len(whole)?)
}

/// Nothing is left of a file that cannot be unpacked to its end.
fn unpack(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut copy = private::create(to)?;
    std::io::copy(&mut files::unpacked(from)?, &mut copy).map(drop).inspect_err(|_| {
        let _ = std::fs::remove_file(to);
    })
}

/// Whether there is anything at a path: what cannot be looked at may be there.
pub(crate) fn exists(path: &Path) -> bool {
    let is_missing = |error: &std::io::Error| {
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
    };
    !path.metadata().is_err_and(|error| is_missing(&error))
}

/// Whether the command line may name this: a file of the kind, or a folder of trace files.
pub(crate) fn check(kind: Kind, path: &Path) -> anyhow::Result<()> {
    // First: what is not there has no wrong name.
    anyhow::ensure!(exists(path), "it does not exist; check the path");
    let found = path.metadata().map_err(|error| anyhow!("it cannot be read: {error}"))?;
    if kind == Kind::Trace && found.is_dir() {
        return trace_files_in(path).map(drop);
    }
    anyhow::ensure!(!found.is_dir(), "it is a folder; pass the files in it, each by its name");
    anyhow::ensure!(found.is_file(), "it is not a file");
    let (endings, ending) = (kind.extensions(), files::ending(path));
    let is_known = endings.contains(&ending);
    let given = match (kind, ending) {
        (Kind::Trace, _) => Given::Spool,
        (Kind::Nsys, "sqlite") => Given::NsysExport,
        (Kind::Nsys | Kind::Ncu, "nsys-rep" | "qdrep" | "ncu-rep") => Given::Report,
        (Kind::Nsys, _) => Given::NsysTable,
        (Kind::Ncu, _) => Given::NcuTable,
    };
    // Whoever is told to rename a file should not hear then that it is none.
    let foreign = match look(path, given) {
        Ok(foreign) => foreign,
        Err(error) if is_known && files::is_compressed(path) => {
            anyhow::bail!("it cannot be unpacked ({error})")
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(foreign) = foreign {
        anyhow::bail!("{foreign}");
    }
    if let Some(of) = of_another_kind(kind, ending) {
        anyhow::bail!("{of}");
    }
    let endings = endings.join(", .");
    let endings = match endings.rsplit_once(", ") {
        Some((others, last)) => format!("{others} or {last}"),
        None => endings,
    };
    anyhow::ensure!(is_known, "its name has to end in .{endings}");
    Ok(())
}

/// What a file is by its name that belongs under another option, and under which.
fn of_another_kind(kind: Kind, ending: &str) -> Option<&'static str> {
    match (kind, ending) {
        (Kind::Ncu | Kind::Trace, "nsys-rep" | "qdrep") => {
            Some("it is a report of Nsight Systems; give it with --nsys")
        }
        (Kind::Trace, "sqlite") => Some("it is an export of Nsight Systems; give it with --nsys"),
        (Kind::Nsys | Kind::Trace, "ncu-rep") => {
            Some("it is a report of Nsight Compute; give it with --ncu")
        }
        (Kind::Nsys | Kind::Ncu, "s2t") => {
            Some("it is a trace file of the collector; give it with --spool")
        }
        (Kind::Nsys, "qdstrm") => Some(
            "it is a raw capture of Nsight Systems, which its importer turns into a report (.nsys-rep)",
        ),
        _ => None,
    }
}

fn trace_files_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let kinds = Kind::Trace.extensions();
    // A run has them in a folder of its bundle.
    let of_run = folder.join(COLLECTOR_DIR);
    let entries = std::fs::read_dir(if of_run.is_dir() { &of_run } else { folder })?
        .flatten()
        .map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| kinds.contains(&files::ending(path))).collect();
    files.sort();
    anyhow::ensure!(!files.is_empty(), "no file in it ends in .{}", kinds.join(" or ."));
    Ok(files)
}

fn unusable(path: &Path, why: &anyhow::Error) -> Finding {
    let why = format!("{why:#}");
    // What is wrong with it may have a remedy of its own. Whether anything else is merged is not known yet.
    let (why, remedy) = why.split_once("; ").unwrap_or((&why, "give another file"));
    Id::ImportLeftOut.found(format!("{} is not merged", path.display()), why, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(kind: Kind, files: &[&str]) -> Vec<String> {
        let dir = tempfile::tempdir().expect("folder");
        let mut copies = InputCopies::new(kind, dir.path().join("out"));
        let mut findings = Vec::new();
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            std::fs::write(&path, file).expect("file");
            copies.add(&path, &mut findings);
        }
        for (copy, from) in &copies.copies {
            let (copy, from) = (std::fs::read(copy).expect("copy"), std::fs::read(from));
            assert_eq!(copy, from.expect("original"), "nothing is written over");
        }
        let name = |path: &PathBuf| path.file_name().expect("name").to_str().expect("UTF-8").into();
        copies.copies.iter().map(|(copy, _)| name(copy)).collect()
    }

    /// Hazard (Dormant processes and windows): A trace file is copied while it is written.
    /// Promise: The copy ends with a complete frame.
    #[test]
    fn a_file_that_is_being_written_is_copied_up_to_its_last_whole_frame() {
        let dir = tempfile::tempdir().expect("folder");
        let file = dir.path().join("a.s2t");
        let written = |values: &[&str]| {
            let mut writer = stage2_contract::trace::Writer::new(Vec::new()).expect("a writer");
            for &value in values {
                let (key, value) = ("k".into(), value.into());
                writer.write(&stage2_contract::trace::Record::Meta { key, value });
                writer.flush().expect("room");
            }
            writer.into_sink()
        };
        let (first, both) = (written(&["one"]).len(), written(&["one", "two"]));
        for (cut, whole) in
            [(both.len(), both.len()), (both.len() - 1, first), (first + 1, first), (first, first)]
        {
            std::fs::write(&file, &both[..cut]).expect("a file");
            let mut copies = InputCopies::new(Kind::Trace, dir.path().join(cut.to_string()));
            let copy = copies.add_live(&file).expect("a copy");
            assert_eq!(copy.metadata().expect("there").len(), whole as u64, "{cut}");
            assert_eq!(copies.copies.len(), 1);
        }
    }

    #[test]
    fn the_trace_files_of_a_run_are_in_a_folder_of_its_bundle() {
        let dir = tempfile::tempdir().expect("folder");
        let traces = dir.path().join(COLLECTOR_DIR);
        std::fs::create_dir(&traces).expect("folder");
        std::fs::write(traces.join("h-1.s2t"), "").expect("file");
        assert_eq!(trace_files_in(dir.path()).expect("files"), [traces.join("h-1.s2t")]);
        assert_eq!(trace_files_in(&traces).expect("files"), [traces.join("h-1.s2t")]);
    }

    #[test]
    fn what_belongs_together_stays_together_and_nothing_else_joins_it() {
        let pages = ["a/raw.csv", "b/raw.csv", "b/details.csv", "a/details.csv", "b/x.ncu-rep"];
        let copies = ["raw.csv", "raw-2.csv", "details-2.csv", "details.csv", "x.ncu-rep"];
        assert_eq!(names(Kind::Ncu, &pages), copies);
        let tables = ["a/run.sqlite", "b/run_cuda_gpu_kern_sum.csv", "b/run_nvtx_sum.csv"];
        let copies = ["run.sqlite", "run-2_cuda_gpu_kern_sum.csv", "run-2_nvtx_sum.csv"];
        assert_eq!(names(Kind::Nsys, &tables), copies);
        assert_eq!(names(Kind::Trace, &["a/h-1.s2t", "b/h-1.s2t"]), ["h-1.s2t", "h-1-2.s2t"]);
        assert_eq!(names(Kind::Ncu, &["a/raw.csv", "a/raw.csv"]), ["raw.csv"], "named twice");
        assert_eq!(names(Kind::Ncu, &["a/raw.txt", "a/raw"]), [""; 0]);
    }
}
