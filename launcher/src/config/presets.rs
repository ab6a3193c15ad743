//! The built-in presets and a folder of the user's -> YAML trees by group and name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::ConfigError;
use super::similar::nearest;
use stage2_analysis::files;
use stage2_hydra::{Node, Origin, Value};
use stage2_presets::FILES;

/// Larger files are no presets.
const LIMIT_BYTES: u64 = 16 << 20;

/// Where presets are looked up: the user's folder before the built-in ones, file by file.
pub(super) struct Presets {
    folder: Option<PathBuf>,
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
        if let Some(dir) = folder {
            std::fs::read_dir(dir).map_err(|e| folder_error(dir, &e))?;
        }
        Ok(Presets { folder: folder.map(Path::to_owned) })
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
        let known = self.options(group)?;
        // Only names that were listed are opened: `../../x` is no preset.
        let path = format!("{group}/{option}.yaml");
        let found = if known.contains(option) { self.text(&path)? } else { None };
        if let Some((file, text)) = found {
            return Preset::read(file, &text);
        }
        let near = nearest(option, known.iter().map(String::as_str));
        Err(ConfigError::UnknownPreset {
            group: group.to_owned(),
            option: option.to_owned(),
            origin: origin.clone(),
            choices: known.into_iter().collect::<Vec<_>>().join(", ") + &near,
        })
    }

    /// Names of all presets of a group; none if there is no such group.
    pub(super) fn options(&self, group: &str) -> Result<BTreeSet<String>, ConfigError> {
        let mut files = self.files()?;
        files.retain(|(of, _)| of == group);
        Ok(files.into_iter().map(|(_, option)| option).collect())
    }

    pub(super) fn groups(&self) -> Result<BTreeSet<String>, ConfigError> {
        Ok(self.files()?.into_iter().map(|(group, _)| group).collect())
    }

    /// Group and name of every preset.
    fn files(&self) -> Result<Vec<(String, String)>, ConfigError> {
        let split = |path: &str| {
            let (group, file) = path.rsplit_once('/')?;
            Some((group.to_owned(), file.strip_suffix(".yaml")?.to_owned()))
        };
        let mut found: Vec<_> = FILES.iter().filter_map(|(path, _)| split(path)).collect();
        if let Some(dir) = &self.folder {
            let mut paths = Vec::new();
            list(dir, "", 0, &mut paths).map_err(|e| folder_error(dir, &e))?;
            found.extend(paths.iter().filter_map(|path| split(path)));
        }
        Ok(found)
    }
}

fn folder_error(dir: &Path, error: &std::io::Error) -> ConfigError {
    let file = format!("--config-dir {}", dir.display());
    let remedy = "give a folder laid out like conf/ (GROUP/PRESET.yaml)";
    ConfigError::File { file, what: format!("cannot be read ({error}); {remedy}") }
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
