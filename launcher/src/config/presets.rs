//! The built-in presets and a folder of the user's -> YAML trees by group and name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::advice::nearest;
use super::error::ConfigError;
use stage2_config::hydra::{Node, Origin, Value};
use stage2_config::presets::FILES;
use stage2_read::files;

/// Larger files are no presets.
const LIMIT_BYTES: u64 = 16 << 20;

/// Where presets are looked up: the user's folder before the built-in ones, file by file.
pub(super) struct Presets {
    folder: Option<PathBuf>,
    /// Names of the presets of each group.
    options: BTreeMap<String, BTreeSet<String>>,
}

pub(super) struct Preset {
    /// Its keys, without `defaults`.
    pub(super) keys: Node,
    /// Its `defaults` list.
    pub(super) defaults: Option<Node>,
    /// What stands after `# @package` on top of it.
    pub(super) package: Option<String>,
    /// Name for messages.
    pub(super) file: Arc<str>,
}

impl Presets {
    /// The built-in presets, and those in `folder`.
    pub(super) fn open(folder: Option<&Path>) -> Result<Presets, ConfigError> {
        let mut paths: Vec<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        if let Some(dir) = folder {
            list(dir, "", 0, &mut paths).map_err(|error| ConfigError::File {
                file: format!("`--config-dir {}`", dir.display()),
                what: format!(
                    "cannot be read ({error}); give a folder laid out like conf/ (GROUP/PRESET.yaml)"
                ),
            })?;
        }
        let mut options: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (group, file) in paths.iter().filter_map(|path| path.rsplit_once('/')) {
            if let Some(option) = file.strip_suffix(".yaml") {
                options.entry(group.to_owned()).or_default().insert(option.to_owned());
            }
        }
        Ok(Presets { folder: folder.map(Path::to_owned), options })
    }

    /// The file at `path` below the preset folders (`runner/stage2.yaml`).
    fn text(&self, path: &str) -> Result<Option<(Arc<str>, String)>, ConfigError> {
        if let Some(file) = self.folder.as_ref().map(|dir| dir.join(path)) {
            match files::read_text(&file, LIMIT_BYTES) {
                Ok(text) => return Ok(Some((file.to_string_lossy().into(), text))),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => {
                    let file = file.display().to_string();
                    return Err(ConfigError::File { file, what: format!("cannot be read: {e}") });
                }
            }
        }
        let built_in = FILES.iter().find(|(name, _)| *name == path);
        Ok(built_in.map(|(name, text)| (format!("conf/{name}").into(), (*text).to_owned())))
    }

    pub(super) fn primary(&self) -> Result<Preset, ConfigError> {
        let (file, text) =
            self.text("config.yaml")?.unwrap_or_else(|| ("config.yaml".into(), String::new()));
        Preset::read(file, &text)
    }

    /// The preset `option` of `group`, asked for by `origin`.
    pub(super) fn load(
        &self,
        group: &str,
        option: &str,
        origin: &Origin,
    ) -> Result<Preset, ConfigError> {
        // Only names that were listed are opened: `../../x` is no preset.
        let path = format!("{group}/{option}.yaml");
        let found = if self.has(group, option) { self.text(&path)? } else { None };
        if let Some((file, text)) = found {
            return Preset::read(file, &text);
        }
        let known: Vec<&str> =
            self.options.get(group).into_iter().flatten().map(|o| &**o).collect();
        Err(ConfigError::UnknownPreset {
            group: group.to_owned(),
            option: option.to_owned(),
            origin: origin.clone(),
            choices: known.join(", ") + &nearest(option, known.iter().copied()),
        })
    }

    pub(super) fn has(&self, group: &str, option: &str) -> bool {
        self.options.get(group).is_some_and(|options| options.contains(option))
    }

    /// Names of all groups.
    pub(super) fn groups(&self) -> BTreeSet<String> {
        self.options.keys().cloned().collect()
    }
}

/// Groups nest no deeper than this: `--config-dir /` must not walk the machine.
const MAX_GROUP_DEPTH: usize = 4;

fn list(dir: &Path, prefix: &str, depth: usize, found: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() && depth < MAX_GROUP_DEPTH && !name.starts_with('.') {
            list(&entry.path(), &format!("{path}/"), depth + 1, found)?;
        } else if name.ends_with(".yaml") {
            found.push(path);
        }
    }
    Ok(())
}

impl Preset {
    fn read(file: Arc<str>, text: &str) -> Result<Preset, ConfigError> {
        let fault = |what: String| ConfigError::File { file: file.to_string(), what };
        let mut keys =
            Node::from_yaml(text, &file).map_err(|e| fault(format!("no valid YAML: {e}")))?;
        match keys.value {
            Value::Map(_) => {}
            Value::Null => keys.value = Value::Map(Vec::new()),
            _ => return Err(fault("the file has to be a mapping: lines `key: value`".into())),
        }
        let defaults = keys.remove("defaults");
        let package = text
            .lines()
            .map_while(|line| line.trim_start().strip_prefix('#'))
            .find_map(|comment| comment.trim().strip_prefix("@package "))
            .map(|package| package.trim().to_owned());
        Ok(Preset { keys, defaults, package, file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_outside_the_folders_cannot_be_named() {
        let presets = Presets::open(None).expect("built-in");
        let origin = Origin::Flag("test".into());
        for option in ["../config", "/etc/passwd", "", "hydra.yaml"] {
            assert!(presets.load("workload", option, &origin).is_err(), "{option}");
        }
    }
}
