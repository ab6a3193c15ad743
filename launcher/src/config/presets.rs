//! The presets, built-in and of the user, by the `defaults` list and the group overrides -> one merged tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ConfigError;
use super::advice::{Keys, earlier_preset};
use stage2_config::hydra::{Action, Node, Origin, Override, Value};
use stage2_config::presets::FILES;
use stage2_contract::text::instead;
use stage2_read::files;

#[derive(Clone, Debug)]
enum Entry {
    /// The keys of the file itself.
    Own,
    Preset(Choice),
}

/// A preset, and where it is mounted; none: where its file states.
#[derive(Clone, Debug)]
struct Choice {
    group: String,
    package: Option<String>,
    option: Node,
}

/// Presets that start from presets, at most this deep.
const MAX_NESTING: usize = 8;

/// What came of the presets.
pub(super) struct PresetTree {
    pub(super) tree: Node,
    /// The overrides that choose no preset.
    pub(super) values: Vec<Override>,
    /// The name of the preset of each group; of a group that is mounted twice, the last one.
    pub(super) chosen: BTreeMap<String, String>,
}

/// Merges the primary configuration and the presets that it and `overrides` choose.
pub(super) fn merge_presets(
    presets: &Presets,
    overrides: Vec<Override>,
    runs_workload: bool,
) -> Result<PresetTree, ConfigError> {
    let groups = Keys { valid: presets.groups(), runs_workload };
    let primary = presets.primary()?;
    let mut entries = entries_of(primary.defaults.as_ref(), None, &primary.file)?;
    let (choices, values): (Vec<_>, Vec<_>) =
        overrides.into_iter().partition(|o| chooses_preset(o, &groups.valid));
    let tree = Node { value: Value::Map(Vec::new()), origin: primary.keys.origin.clone() };
    let mut merger = Merger { presets, groups, tree };
    for choice in &choices {
        merger.choose(&mut entries, choice)?;
    }
    let mut chosen = BTreeMap::new();
    for entry in entries {
        match entry {
            Entry::Own => merger.tree.merge(primary.keys.clone()),
            Entry::Preset(Choice { group, package, option }) => {
                merger.mount(&group, package.as_deref(), &option, 0)?;
                if let Value::Text(name) = option.value {
                    chosen.insert(group, name);
                }
            }
        }
    }
    Ok(PresetTree { tree: merger.tree, values, chosen })
}

/// Whether an override speaks of a group and not of a key. A deep value under a group's name
/// (`workload.append=[]`) has dots, and a map is never the name of a preset.
pub(super) fn chooses_preset(o: &Override, groups: &BTreeSet<String>) -> bool {
    o.package.is_some() || o.key.contains('/') || groups.contains(&o.key)
}

struct Merger<'a> {
    presets: &'a Presets,
    groups: Keys,
    tree: Node,
}

impl Merger<'_> {
    /// Applies one group override to the list.
    fn choose(&self, entries: &mut Vec<Entry>, o: &Override) -> Result<(), ConfigError> {
        let conflict = |what: &str| ConfigError::conflict(o, what);
        if !self.groups.valid.contains(&o.key) {
            return Err(self.groups.unknown(&o.key, o.origin()));
        }
        let wanted = o.package.as_deref();
        let place = entries.iter().position(|entry| match entry {
            // Without @package the only entry of the group is meant, wherever it is mounted.
            Entry::Preset(Choice { group, package, option }) if *group == o.key => wanted
                .is_none_or(|wanted| {
                    let mounted = package.clone().or_else(|| self.package_of(group, option, 0));
                    mounted.is_some_and(|mounted| mounted == wanted)
                }),
            _ => false,
        });
        let value = match &o.action {
            Action::Delete(_) => {
                let at = place.ok_or_else(|| conflict("no such group is in the defaults list"))?;
                entries.remove(at);
                return Ok(());
            }
            Action::Set(value) | Action::Add(value) | Action::AddOrSet(value) => value,
        };
        let name = match value {
            Value::Text(name) => name.clone(),
            Value::Int(n) => n.to_string(),
            _ => {
                let what = format!("`{}` is a group: it takes the name of one preset", o.key);
                return Err(conflict(&what));
            }
        };
        if let Some(instead) = earlier_preset(&o.key, wanted, &name)
            && !self.presets.has(&o.key, &name)
        {
            return Err(conflict(&format!("there is no such preset; {instead}")));
        }
        let new = Node { value: Value::Text(name), origin: o.origin() };
        match (place.and_then(|at| entries.get_mut(at)), &o.action) {
            (Some(_), Action::Add(_)) => {
                Err(conflict("the group is in the defaults list already; leave the + out"))
            }
            (None, Action::Set(_)) => {
                Err(conflict("the group is not in the defaults list; put a + before it to add it"))
            }
            (Some(Entry::Preset(choice)), _) => {
                choice.option = new;
                Ok(())
            }
            _ => {
                let (group, package) = (o.key.clone(), o.package.clone());
                entries.push(Entry::Preset(Choice { group, package, option: new }));
                Ok(())
            }
        }
    }

    /// Where a preset is mounted when nobody states where: as in Hydra what the head of its file states, or
    /// else that of the preset it starts from, or else the group's own name. Nothing for a preset that
    /// cannot be read: [`Merger::mount`] reports that.
    fn package_of(&self, group: &str, option: &Node, depth: usize) -> Option<String> {
        let Value::Text(name) = &option.value else { return None };
        let preset = self.presets.load(group, name, &option.origin).ok()?;
        let base = || {
            let list = preset.defaults.as_ref().filter(|_| depth < MAX_NESTING)?;
            let entries = entries_of(Some(list), Some(group), &preset.file).ok()?;
            entries.iter().find_map(|entry| match entry {
                Entry::Preset(base) if base.group == group => {
                    self.package_of(group, &base.option, depth + 1)
                }
                _ => None,
            })
        };
        preset.package.clone().or_else(base).or_else(|| Some(group.replace('/', ".")))
    }

    /// Merges one preset, and what it starts from, into the tree.
    fn mount(
        &mut self,
        group: &str,
        package: Option<&str>,
        option: &Node,
        depth: usize,
    ) -> Result<(), ConfigError> {
        let name = match &option.value {
            Value::Text(name) => name.as_str(),
            Value::Null => return Ok(()),
            _ => {
                let what = "the name of one preset is expected";
                return Err(ConfigError::wrong_value(group, &option.origin, what));
            }
        };
        if !self.groups.valid.contains(group) {
            return Err(self.groups.unknown(group, option.origin.clone()));
        }
        let preset = self.presets.load(group, name, &option.origin)?;
        let fault = |what: &str| {
            Err(ConfigError::File { file: preset.file.to_string(), what: what.to_owned() })
        };
        if depth > MAX_NESTING {
            return fault("its `defaults` go in circles");
        }
        let package = package.map(str::to_owned).or_else(|| self.package_of(group, option, 0));
        let package = package.unwrap_or_default();
        for entry in entries_of(preset.defaults.as_ref(), Some(group), &preset.file)? {
            match entry {
                Entry::Own if package == "_global_" => self.tree.merge(preset.keys.clone()),
                Entry::Own => self.tree.set(&package, preset.keys.clone()),
                Entry::Preset(base) if base.group == group => {
                    self.mount(group, Some(&package), &base.option, depth + 1)?;
                }
                Entry::Preset(_) => {
                    return fault("its `defaults` may only name presets of the same group");
                }
            }
        }
        Ok(())
    }
}

/// Reads the `defaults` list of a file, and puts the keys of the file itself last unless it states where.
/// `own_group` is the group that a bare name belongs to.
fn entries_of(
    list: Option<&Node>,
    own_group: Option<&str>,
    file: &Arc<str>,
) -> Result<Vec<Entry>, ConfigError> {
    let fault = |origin: &Origin| ConfigError::File {
        file: file.to_string(),
        what: format!("{origin}: a line of `defaults` is `- group: preset` or `- _self_`"),
    };
    let Some(list) = list else { return Ok(vec![Entry::Own]) };
    let Value::List(items) = &list.value else { return Err(fault(&list.origin)) };
    let mut entries = Vec::new();
    for item in items {
        let (group, package, option) = match (&item.value, own_group) {
            (Value::Text(word), _) if word == "_self_" => {
                entries.push(Entry::Own);
                continue;
            }
            (Value::Text(_), Some(group)) => (group, None, item),
            (Value::Map(pairs), _) if let [(name, option)] = pairs.as_slice() => {
                match name.split_once('@') {
                    Some((group, package)) => (group, Some(package.to_owned()), option),
                    None => (name.as_str(), None, option),
                }
            }
            _ => return Err(fault(&item.origin)),
        };
        let (group, option) = (group.to_owned(), option.clone());
        entries.push(Entry::Preset(Choice { group, package, option }));
    }
    if !entries.iter().any(|entry| matches!(entry, Entry::Own)) {
        entries.push(Entry::Own);
    }
    Ok(entries)
}

/// Larger files are not presets.
const LIMIT_BYTES: u64 = 16 << 20;

/// Where presets are looked up: the user's folder before the built-in ones, file by file.
pub(super) struct Presets {
    folder: Option<PathBuf>,
    options: BTreeMap<String, BTreeSet<String>>,
}

struct Preset {
    /// Its keys, without `defaults`.
    pub(super) keys: Node,
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

    fn primary(&self) -> Result<Preset, ConfigError> {
        let (file, text) =
            self.text("config.yaml")?.unwrap_or_else(|| ("config.yaml".into(), String::new()));
        Preset::read(file, &text)
    }

    /// The preset `option` of `group`, asked for by `origin`.
    fn load(&self, group: &str, option: &str, origin: &Origin) -> Result<Preset, ConfigError> {
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
            advice: instead(option, &known),
        })
    }

    pub(super) fn has(&self, group: &str, option: &str) -> bool {
        self.options.get(group).is_some_and(|options| options.contains(option))
    }

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
            Node::from_yaml(text, &file).map_err(|e| fault(format!("invalid YAML: {e}")))?;
        match keys.value {
            Value::Map(_) => {}
            Value::Null => keys.value = Value::Map(Vec::new()),
            _ => return Err(fault("the file has to be a mapping: lines `key: value`".into())),
        }
        let defaults = keys.remove("defaults");
        let mut head = text.lines().map_while(|line| line.trim_start().strip_prefix('#'));
        let package = head.find_map(|comment| comment.trim().strip_prefix("@package "));
        let package = package.map(|package| package.trim().to_owned());
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
