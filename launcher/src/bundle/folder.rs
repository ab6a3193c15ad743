//! The choice of a run folder -> an empty folder that can be written to, and the link to the latest.

use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use nix::unistd::{AccessFlags, Gid, Group, access, getegid, geteuid, getgroups};

use crate::failure::Failure;
use stage2_model::Finding;
use stage2_model::finding::Id;
use stage2_read::files;
use stage2_read::private::{self, Sharing};

/// Why there is no run folder. Ends the program with status 2.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be the run folder: {what}; {remedy}", .path.display())]
pub(crate) struct FolderError {
    pub(crate) path: PathBuf,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl FolderError {
    pub(super) fn new(path: &Path, what: impl Into<String>, remedy: &str) -> FolderError {
        let what = what.into();
        // A limit of this process holds in every folder.
        let is_everywhere = what.contains("(`ulimit -f`)");
        let remedy = if is_everywhere { "then run again" } else { remedy };
        FolderError { path: path.to_owned(), what, remedy: remedy.to_owned() }
    }
}

/// A folder for a bundle, absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunFolder {
    /// The one that the user named.
    Given(PathBuf),
    /// One named in the way of Hydra, and the folder of all runs, in which the link to the latest lies.
    GivenAndLinked { path: PathBuf, latest_in: PathBuf },
    /// A new one of this name under the folder of all runs.
    New { under: PathBuf, name: String },
}

pub(crate) struct LatestLink {
    pub(crate) link: PathBuf,
    /// Nothing: it is gone.
    pub(crate) target: Option<PathBuf>,
}

/// The name of a run folder: local time and process, `YYYYmmdd-HHMMSS-pid`.
pub(crate) fn run_name(pid: u32) -> String {
    format!("{}-{pid}", jiff::Zoned::now().strftime("%Y%m%d-%H%M%S"))
}

impl RunFolder {
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            RunFolder::Given(path) | RunFolder::GivenAndLinked { path, .. } => path.clone(),
            RunFolder::New { under, name } => under.join(name),
        }
    }

    /// Makes the folder, or takes an empty one over.
    pub(crate) fn create(self, access: &Access) -> Result<RunFolder, FolderError> {
        match self {
            RunFolder::Given(_) | RunFolder::GivenAndLinked { .. } => {
                access.apply_to_folders(&take_over(&self.path())?);
                Ok(self)
            }
            RunFolder::New { under, name } => {
                let failed = |path: &Path, e: io::Error| {
                    FolderError::new(path, reason(&e, path), OTHER_PLACE)
                };
                let made = make_folder_of_runs(&under).map_err(|e| failed(&under, e))?;
                access.apply_to_folders(&made);
                // Two containers with one folder can have the same process id in the same second.
                for attempt in 1..100 {
                    let name =
                        if attempt == 1 { name.clone() } else { format!("{name}-{attempt}") };
                    let path = under.join(&name);
                    match private::create_folder(&path) {
                        Ok(()) => return Ok(RunFolder::New { under, name }),
                        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                        Err(e) => return Err(failed(&path, e)),
                    }
                }
                Err(failed(&under.join(&name), io::ErrorKind::AlreadyExists.into()))
            }
        }
    }

    /// Makes the first folder in a run folder that was found empty: at most one of several processes goes on.
    pub(crate) fn claim(&self, name: &str) -> Result<(), FolderError> {
        let path = self.path();
        let failed = |e: io::Error| match e.kind() {
            io::ErrorKind::AlreadyExists => not_empty(&path),
            _ => FolderError::new(&path, reason(&e, &path), "choose another one"),
        };
        private::create_folder(&path.join(name)).map_err(failed)?;
        // Another kind of run begins with another folder.
        let entries = std::fs::read_dir(&path).map_err(failed)?;
        let is_folder = |e: &std::fs::DirEntry| e.file_type().is_ok_and(|kind| kind.is_dir());
        if entries.flatten().any(|entry| entry.file_name() != name && is_folder(&entry)) {
            let _ = std::fs::remove_dir(path.join(name));
            return Err(not_empty(&path));
        }
        Ok(())
    }

    /// Why [`RunFolder::create`] is certain to fail, as far as that can be seen without making anything.
    pub(crate) fn refused(&self) -> Option<FolderError> {
        match self {
            RunFolder::Given(path) | RunFolder::GivenAndLinked { path, .. } => found(path).err(),
            RunFolder::New { under, .. } => {
                let there = under.ancestors().find(|part| part.exists())?;
                let error = match there.is_dir() {
                    false => io::ErrorKind::NotADirectory.into(),
                    true => access(there, AccessFlags::W_OK).err()?.into(),
                };
                Some(FolderError::new(under, reason(&error, under), OTHER_PLACE))
            }
        }
    }

    /// Lets `latest` point to this run. A folder that the user named may lie anywhere, and has no such link.
    pub(crate) fn link_latest(&self) -> Option<Finding> {
        let (under, target) = match self {
            RunFolder::Given(_) => return None,
            RunFolder::New { under, name } => (under, Ok(PathBuf::from(name))),
            RunFolder::GivenAndLinked { path, latest_in } => {
                let made = make_folder_of_runs(latest_in);
                (latest_in, made.and_then(|_| way(latest_in, path)))
            }
        };
        let latest = under.join(LATEST);
        let problem = match std::fs::symlink_metadata(&latest) {
            Ok(found) if !found.is_symlink() => {
                Some("it is not a link, and was left unchanged".into())
            }
            _ => {
                let linked = target.and_then(|target| replace_link(under, &target, &latest));
                linked.err().map(|e| e.to_string())
            }
        };
        problem.map(|why| {
            let what = format!("{} does not point to this run", latest.display());
            Id::BundleNotShown.found(what, why, "move the existing file away")
        })
    }

    /// The folder with the link to the latest run, where this one has a link.
    fn links_in(&self) -> Option<&Path> {
        match self {
            RunFolder::Given(_) => None,
            RunFolder::New { under, .. } => Some(under),
            RunFolder::GivenAndLinked { latest_in, .. } => Some(latest_in),
        }
    }

    pub(crate) fn latest(&self) -> Option<PathBuf> {
        std::fs::read_link(self.links_in()?.join(LATEST)).ok()
    }

    /// Takes `latest` from this run, which has no result: it points to the run before again, or is gone where there is
    /// none. Nothing where another run moved it.
    pub(crate) fn give_up_latest(&self, earlier: Option<PathBuf>) -> Option<LatestLink> {
        let under = self.links_in()?;
        let link = under.join(LATEST);
        if link.canonicalize().ok()? != self.path().canonicalize().ok()? {
            return None;
        }
        let target = earlier.filter(|earlier| under.join(earlier).is_dir());
        match &target {
            Some(earlier) => replace_link(under, earlier, &link).ok()?,
            None => std::fs::remove_file(&link).ok()?,
        }
        Some(LatestLink { link, target })
    }
}

/// The link to the latest run.
pub(crate) const LATEST: &str = "latest";

/// What keeps git, and tools that read its files, away from all that lies in a folder.
const IGNORE_ALL: &str = "# Written by stage2-launch: runs are not source files.\n*\n";

/// Makes the folder of all runs. Only a new one is marked as none of the user's sources: the user decides
/// about a folder that was there before.
fn make_folder_of_runs(path: &Path) -> io::Result<Vec<PathBuf>> {
    let made = private::create_folders(path)?;
    if made.last().is_some_and(|last| last == path)
        && let Ok(mut file) = private::create(&path.join(".gitignore"))
    {
        // A disk that has no room for this is told of by the run itself.
        let _ = file.write_all(IGNORE_ALL.as_bytes());
    }
    Ok(made)
}

/// The way between two folders, relative, so that it holds where they are moved or mounted together.
fn way(from: &Path, to: &Path) -> io::Result<PathBuf> {
    let (from, to) = (from.canonicalize()?, to.canonicalize()?);
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    Ok(up.chain(to.components().skip(common)).collect())
}

/// A reader sees the old link or the new one, never none.
fn replace_link(under: &Path, target: &Path, latest: &Path) -> io::Result<()> {
    let fresh = under.join(format!(".latest-{}", std::process::id()));
    let _ = std::fs::remove_file(&fresh);
    std::os::unix::fs::symlink(target, &fresh)?;
    std::fs::rename(&fresh, latest).inspect_err(|_| {
        let _ = std::fs::remove_file(&fresh);
    })
}

const OTHER_PLACE: &str = "choose another place with --run-dir DIR";
const OTHER: &str = "choose another one with --run-dir DIR";

/// Whether there is such a folder, empty; not whether it can be written to.
fn found(path: &Path) -> Result<bool, FolderError> {
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(FolderError::new(path, reason(&e, path), OTHER)),
        Ok(found) if found.is_symlink() && !path.exists() => {
            let what = "it is a link to something that is not there";
            Err(FolderError::new(path, what, "remove the link, or create its target"))
        }
        Ok(_) if !path.is_dir() => Err(FolderError::new(path, "it is not a folder", OTHER)),
        Ok(_) => {
            let mut entries = std::fs::read_dir(path)
                .map_err(|e| FolderError::new(path, reason(&e, path), OTHER))?;
            if entries.next().is_some() { Err(not_empty(path)) } else { Ok(true) }
        }
    }
}

/// Folders that it made for it.
fn take_over(path: &Path) -> Result<Vec<PathBuf>, FolderError> {
    let mut made = Vec::new();
    if !found(path)? {
        made = private::create_folders(path)
            .map_err(|e| FolderError::new(path, reason(&e, path), OTHER))?;
    }
    files::try_folder(path).map(|()| made).map_err(|e| {
        let what = format!("cannot be written to ({e}{})", remedy(&e, path));
        FolderError::new(path, what, OTHER)
    })
}

fn not_empty(path: &Path) -> FolderError {
    let what = "it is not empty, and results of two runs must not be mixed";
    FolderError::new(path, what, "name a new one, or empty it first")
}

fn reason(error: &io::Error, path: &Path) -> String {
    match error.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "it exists and is not a folder".into()
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            format!("cannot be written to ({error})")
        }
        _ => {
            let there = path.ancestors().find(|part| part.exists()).unwrap_or(path);
            format!("cannot be created ({error}{})", remedy(error, there))
        }
    }
}

/// What to do about an error of the system in `folder`, where more is known of it.
fn remedy(error: &io::Error, folder: &Path) -> String {
    files::remedy(&error.to_string(), folder).map(|more| format!(": {more}")).unwrap_or_default()
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

/// Who may read a bundle: its owner, and the members of a group if one was named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    sharing: Sharing,
}

/// Why a bundle cannot be shared with a group.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoGroup {
    #[error("run.group={0}: this machine has no such group; `getent group` lists the groups")]
    Unknown(String),
    #[error(
        "run.group={0}: you are not a member of this group, so files cannot be given to it; name one \
         that `id -Gn` lists"
    )]
    NotAMember(String),
    #[error("run.group={0}: the group cannot be looked up ({1}); try its number")]
    NoAnswer(String, nix::Error),
}

impl From<NoGroup> for Failure {
    fn from(error: NoGroup) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl Access {
    /// That of the group of this name or number; none: of the owner alone.
    pub(crate) fn of(group: Option<&str>) -> Result<Access, NoGroup> {
        let Some(name) = group else { return Ok(Access::default()) };
        let found = match name.parse::<u32>() {
            Ok(number) => Group::from_gid(Gid::from_raw(number)),
            Err(_) => Group::from_name(name),
        };
        let shown = || stage2_contract::text::visible(name.as_bytes());
        let found = found.map_err(|error| NoGroup::NoAnswer(shown(), error))?;
        let gid = found.ok_or_else(|| NoGroup::Unknown(shown()))?.gid;
        let own = getgroups().unwrap_or_default();
        if !geteuid().is_root() && gid != getegid() && !own.contains(&gid) {
            return Err(NoGroup::NotAMember(shown()));
        }
        Ok(Access { sharing: Sharing { group: Some(gid.as_raw()) } })
    }

    /// Opens folders that were just created, and nothing in them, to the group.
    pub(crate) fn apply_to_folders(&self, made: &[PathBuf]) {
        if self.sharing.group.is_some() {
            for folder in made {
                // Whoever cannot come in will say so.
                let _ = self.sharing.apply_to_folder(folder);
            }
        }
    }

    /// Brings everything in a bundle to its mode: tools and workloads write by their own umask.
    pub(crate) fn apply(&self, dir: &Path) -> Option<Finding> {
        let problems = self.sharing.apply(dir);
        let first = problems.first()?;
        let what = format!("{} keeps its permissions", first.path.display());
        let why = match problems.len() {
            1 => first.error.to_string(),
            _ => format!("{}; the same holds for others", first.error),
        };
        let remedy = "look at them before others may look into the folder";
        Some(Id::BundleModes.found(what, why, remedy))
    }
}

/// That the file system of `folder`, made just now, takes no modes and decides itself who may read.
pub(super) fn refused(folder: &Path) -> Option<Finding> {
    let error = private::refuses_modes(folder)?;
    let what = format!("the modes of files in {} cannot be set", folder.display());
    let why =
        format!("its file system refuses chmod ({error}), and decides itself who may read them");
    let remedy = "look at them with `ls -l`; where others must not read a bundle, name another place with \
                  --run-dir DIR";
    Some(Id::BundleModes.found(what, why, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_known_by_name_and_number_and_others_are_refused() {
        assert_eq!(Access::of(None).expect("nobody"), Access::default());
        let own = getegid().as_raw();
        let access = Access::of(Some(&own.to_string())).expect("the own group");
        assert_eq!(access.sharing, Sharing { group: Some(own) });
        let refused = |name: &str| Access::of(Some(name)).expect_err("no group").to_string();
        assert!(refused("no-such-group").contains("getent group"));
        assert!(refused("4294967294").contains("no such group"));
        if !geteuid().is_root() {
            assert!(refused("root").contains("id -Gn"));
        }
    }
}
