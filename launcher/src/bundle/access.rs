//! `run.group` -> who beside the owner may read a bundle.

use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group, getegid, geteuid, getgroups};

use crate::failure::Failure;
use stage2_model::Finding;
use stage2_read::private::{self, Sharing};

/// Who may read a bundle: its owner, and the members of a group if one was named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    sharing: Sharing,
}

/// Why a bundle cannot be shared with a group.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoGroup {
    #[error(
        "run.group={0}: this machine has no such group; `getent group` lists those that there are"
    )]
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
        Some(Finding::warning(what, why, remedy))
    }
}

/// That the file system takes no modes, so that who may read a bundle is left to it. `folder` was made just
/// now.
pub(super) fn refused(folder: &Path) -> Option<Finding> {
    let error = private::refuses_modes(folder)?;
    let what = format!("the modes of files in {} cannot be set", folder.display());
    let why =
        format!("its file system refuses chmod ({error}), and decides itself who may read them");
    let remedy = "look at them with `ls -l`; where others must not read a bundle, name another place with \
                  --run-dir DIR";
    Some(Finding::warning(what, why, remedy))
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
