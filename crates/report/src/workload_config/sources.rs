//! The folders that a Hydra app composed its configuration from -> the keys that stand in their files.
//!
//! An override of the command line can make a key. Only the files tell whether the app had it before.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use stage2_read::files;

/// Folders inside each other.
const MAX_DEPTH: usize = 5;
/// Files that are read; an app with more of them is not judged.
const MAX_FILES: usize = 300;
/// Entries of folders that are looked at, whatever they are; an app with more is not judged.
const MAX_ENTRIES: usize = 10_000;
/// Larger files are no configuration.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The keys of an app's own files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OwnKeys {
    /// Names that may stand at the top of what is composed: top keys, groups, and packages.
    pub(crate) top: BTreeSet<String>,
    /// Names of keys, at any depth.
    pub(crate) all: BTreeSet<String>,
}

/// The keys in the YAML files of the app whose `hydra.yaml` says `hydra`.
/// Nothing where the files cannot all be read: then a key may stand in any of them.
pub(super) fn keys(hydra: &Value) -> Option<OwnKeys> {
    keys_within(hydra, MAX_ENTRIES)
}

fn keys_within(hydra: &Value, max_entries: usize) -> Option<OwnKeys> {
    let runtime = hydra.pointer("/hydra/runtime")?;
    let cwd = Path::new(runtime.get("cwd")?.as_str()?);
    let mut walk = Walk { max_entries, ..Walk::default() };
    let mut folders = 0;
    for source in runtime.get("config_sources")?.as_array()? {
        let text = |key| source.get(key).and_then(Value::as_str).unwrap_or_default();
        let folder = match (text("provider"), text("schema")) {
            // Hydra's own files, and classes, which the composed configuration shows whole.
            ("hydra", _) | (_, "structured") => continue,
            (_, "file") => PathBuf::from(text("path")),
            (_, "pkg") => cwd.join(text("path").replace('.', "/")),
            _ => return None,
        };
        folders += 1;
        walk.folder(&folder, 0)?;
    }
    (folders > 0 && walk.files > 0).then_some(walk.found)
}

/// A way through folders, with what was found on it.
#[derive(Default)]
struct Walk {
    found: OwnKeys,
    files: usize,
    entries: usize,
    max_entries: usize,
}

impl Walk {
    /// Reads a folder and those in it. Nothing where a part of it is not read.
    fn folder(&mut self, folder: &Path, depth: usize) -> Option<()> {
        for entry in folder.read_dir().ok()? {
            let entry = entry.ok()?;
            self.entries += 1;
            if self.entries > self.max_entries {
                return None;
            }
            let (path, kind) = (entry.path(), entry.file_type().ok()?);
            let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
            if kind.is_dir() {
                if depth == MAX_DEPTH {
                    return None;
                }
                let group = path.file_name().map(|name| name.to_string_lossy().into_owned());
                self.found.top.extend(group);
                self.folder(&path, depth + 1)?;
            } else if kind.is_symlink() && path.is_dir() {
                // It may lead anywhere: it is not followed, and so the keys are not known.
                return None;
            } else if is_yaml {
                self.files += 1;
                if self.files > MAX_FILES {
                    return None;
                }
                self.found.add(&files::read_text(&path, MAX_FILE_BYTES).ok()?);
            }
        }
        Some(())
    }
}

impl OwnKeys {
    /// Adds the keys of a YAML file.
    fn add(&mut self, text: &str) {
        self.all.extend(names(text).map(str::to_owned));
        let starts = text.lines().map(|line| line.trim_start_matches(['{', '"', '\'']));
        // `group@package: preset`, and `# @package a.b` on the first line.
        let packages = text.split('@').skip(1);
        let packages = packages.map(|rest| rest.strip_prefix("package ").unwrap_or(rest));
        self.top.extend(starts.chain(packages).map(leading).filter(|name| !name.is_empty()));
    }
}

/// The name that a text starts with; empty where it starts with anything else.
fn leading(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || "_-".contains(*c)).collect()
}

/// Words in front of a colon: every key of a YAML file, and some words that are none. A preset may be
/// mounted below a name of its own, so only the name counts, not its place.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(':').filter_map(|(at, _)| {
        let end = text.get(..at)?.trim_end().trim_end_matches(['"', '\'']);
        let is_inside = |c: char| !(c.is_alphanumeric() || "_-".contains(c));
        end.rsplit(is_inside).next().filter(|name| !name.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hydra(cwd: &Path, schema: &str, path: &str) -> Value {
        json!({"hydra": {"runtime": {"cwd": cwd, "config_sources": [
            {"path": "hydra.conf", "schema": "pkg", "provider": "hydra"},
            {"path": path, "schema": schema, "provider": "main"},
            {"path": "", "schema": "structured", "provider": "schema"},
        ]}}})
    }

    #[test]
    fn keys_of_all_files_are_found_however_the_folder_is_named() {
        let dir = tempfile::tempdir().expect("folder");
        let conf = dir.path().join("app/conf");
        std::fs::create_dir_all(conf.join("model")).expect("folders");
        std::fs::write(conf.join("config.yaml"), "inputs:\n  manifest: null # x\n\"quoted\": 1\n")
            .expect("file");
        std::fs::write(conf.join("model/a.yaml"), "# @package pkg.x\n{name: x, deep-er: 2}\n")
            .expect("file");
        std::fs::write(conf.join("notes.txt"), "other: 1\n").expect("file");
        for (schema, path) in [("pkg", "app.conf".to_owned()), ("file", conf.display().to_string())]
        {
            let found = keys(&hydra(dir.path(), schema, &path)).expect("keys");
            for key in ["inputs", "manifest", "quoted", "name", "deep-er"] {
                assert!(found.all.contains(key), "{key} in {found:?}");
            }
            assert!(!found.all.contains("other"), "{found:?}");
            for (key, expected) in
                [("inputs", true), ("model", true), ("pkg", true), ("manifest", false)]
            {
                assert_eq!(found.top.contains(key), expected, "{key} in {found:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_as_a_whole_says_nothing() {
        let dir = tempfile::tempdir().expect("folder");
        let conf = dir.path().join("conf");
        let of = || keys(&hydra(dir.path(), "file", &conf.display().to_string()));
        assert_eq!(of(), None, "no folder");
        std::fs::create_dir(&conf).expect("folder");
        assert_eq!(of(), None, "no file");
        std::fs::write(conf.join("a.yaml"), "a: 1\n").expect("file");
        assert_eq!(of().map(|found| found.all.len()), Some(1));
        assert_eq!(keys(&hydra(dir.path(), "s3", "x")), None);
        assert_eq!(keys(&json!({"hydra": 3})), None);
        std::fs::write(conf.join("b.yaml"), b"\xff").expect("file");
        assert_eq!(of(), None, "one that is no text");
        std::fs::remove_file(conf.join("b.yaml")).expect("removed");
        std::os::unix::fs::symlink(&conf, conf.join("circle")).expect("link");
        assert_eq!(of(), None, "a folder without end");
        std::fs::remove_file(conf.join("circle")).expect("removed");
        std::fs::create_dir(conf.join("empty")).expect("folder");
        let within =
            |most| keys_within(&hydra(dir.path(), "file", &conf.display().to_string()), most);
        assert_eq!(within(2).map(|found| found.all.len()), Some(1));
        assert_eq!(within(1), None, "folders count as well");
    }
}
