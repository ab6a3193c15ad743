//! The `defaults` list and the group overrides -> one merged tree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::advice::{advice, earlier_preset};
use super::error::ConfigError;
use super::presets::{Preset, Presets};
use stage2_hydra::{Action, Override};
use stage2_hydra::{Node, Origin, Value};

/// One line of a `defaults` list.
#[derive(Clone, Debug)]
enum Entry {
    /// The keys of the file itself.
    Own,
    /// A preset.
    Chosen { group: String, package: Option<String>, option: Node },
}

/// Presets that start from presets, at most this deep.
const MAX_NESTING: usize = 8;

/// What came of the presets.
pub(crate) struct Merged {
    /// The values.
    pub(crate) tree: Node,
    /// The overrides that choose no preset.
    pub(crate) values: Vec<Override>,
    /// The name of the preset of each group; of a group that is mounted twice, the last one.
    pub(crate) chosen: BTreeMap<String, String>,
}

/// Merges the primary configuration and the presets that it and `overrides` choose.
pub(crate) fn merge_presets(
    presets: &Presets,
    overrides: Vec<Override>,
) -> Result<Merged, ConfigError> {
    let primary = presets.primary()?;
    let groups = presets.groups()?;
    let mut entries = match &primary.defaults {
        Some(list) => entries_of(list, None, &primary.file)?,
        None => vec![Entry::Own],
    };
    if !entries.iter().any(|entry| matches!(entry, Entry::Own)) {
        entries.push(Entry::Own);
    }
    let (choices, values): (Vec<_>, Vec<_>) =
        overrides.into_iter().partition(|o| chooses_preset(o, &groups));
    for choice in choices {
        choose(presets, &mut entries, choice, &groups)?;
    }
    let mut tree = Node { value: Value::Map(Vec::new()), origin: primary.keys.origin.clone() };
    let mut chosen = BTreeMap::new();
    for entry in entries {
        match entry {
            Entry::Own => tree.merge(primary.keys.clone()),
            Entry::Chosen { group, package, option } => {
                let package = package.as_deref();
                mount(presets, &group, package, &option, &groups, &mut tree, 0)?;
                if let Value::Text(name) = option.value {
                    chosen.insert(group, name);
                }
            }
        }
    }
    Ok(Merged { tree, values, chosen })
}

/// Whether an override speaks of a group and not of a key. A deep value under a group's name
/// (`workload.append=[]`) has dots, and a map is never the name of a preset.
pub(super) fn chooses_preset(o: &Override, groups: &BTreeSet<String>) -> bool {
    o.package.is_some() || o.key.contains('/') || groups.contains(&o.key)
}

/// Applies one group override to the list.
fn choose(
    presets: &Presets,
    entries: &mut Vec<Entry>,
    o: Override,
    groups: &BTreeSet<String>,
) -> Result<(), ConfigError> {
    let conflict = |what: String| ConfigError::Conflict { word: o.word.clone(), what };
    if !groups.contains(&o.key) {
        return Err(ConfigError::UnknownKey {
            key: o.key.clone(),
            origin: o.origin(),
            advice: advice(&o.key, &o.origin(), groups.iter().map(String::as_str)),
        });
    }
    let wanted = o.package.as_deref();
    let place = entries.iter().position(|entry| match entry {
        // Without @package the only entry of the group is meant, wherever it is mounted.
        Entry::Chosen { group, package, option } if *group == o.key => {
            wanted.is_none_or(|wanted| {
                let mounted = package.clone().or_else(|| package_of(presets, group, option, 0));
                mounted.is_some_and(|mounted| mounted == wanted)
            })
        }
        _ => false,
    });
    let option = match &o.action {
        Action::Set(value) | Action::Add(value) | Action::AddOrSet(value) => match value {
            Value::Text(_) => Some(Node { value: value.clone(), origin: o.origin() }),
            Value::Int(n) => Some(Node { value: Value::Text(n.to_string()), origin: o.origin() }),
            _ => {
                return Err(conflict(format!(
                    "`{}` is a group: it takes the name of one preset",
                    o.key
                )));
            }
        },
        Action::Delete(_) => None,
    };
    if let Some(Node { value: Value::Text(name), .. }) = &option
        && let Some(instead) = earlier_preset(&o.key, wanted, name)
        && !presets.options(&o.key)?.contains(name)
    {
        return Err(conflict(format!("there is no such preset; {instead}")));
    }
    match (place, option, &o.action) {
        (Some(at), None, _) => {
            entries.remove(at);
        }
        (None, None, _) => return Err(conflict("no such group is in the defaults list".into())),
        (Some(_), Some(_), Action::Add(_)) => {
            return Err(conflict(
                "the group is in the defaults list already; leave the + out".into(),
            ));
        }
        (Some(at), Some(new), _) => {
            if let Some(Entry::Chosen { option, .. }) = entries.get_mut(at) {
                *option = new;
            }
        }
        (None, Some(_), Action::Set(_)) => {
            return Err(conflict(
                "the group is not in the defaults list; put a + before it to add it".into(),
            ));
        }
        (None, Some(option), _) => {
            entries.push(Entry::Chosen {
                group: o.key.clone(),
                package: o.package.clone(),
                option,
            });
        }
    }
    Ok(())
}

/// Where a preset is mounted when nobody says where: as in Hydra what the head of its file says, or
/// else that of the preset it starts from, or else the group's own name. Nothing for a preset that
/// cannot be read, which is told where it is used.
fn package_of(presets: &Presets, group: &str, option: &Node, depth: usize) -> Option<String> {
    let Value::Text(name) = &option.value else { return None };
    let preset = presets.load(group, name, &option.origin).ok()?;
    let base = || {
        let list = preset.defaults.as_ref().filter(|_| depth < MAX_NESTING)?;
        let entries = entries_of(list, Some(group), &preset.file).ok()?;
        entries.iter().find_map(|entry| match entry {
            Entry::Chosen { group: base, option, .. } if base == group => {
                package_of(presets, group, option, depth + 1)
            }
            _ => None,
        })
    };
    preset.package.clone().or_else(base).or_else(|| Some(group.replace('/', ".")))
}

/// Merges one preset, and what it starts from, into the tree.
fn mount(
    presets: &Presets,
    group: &str,
    package: Option<&str>,
    option: &Node,
    groups: &BTreeSet<String>,
    tree: &mut Node,
    depth: usize,
) -> Result<(), ConfigError> {
    let name = match &option.value {
        Value::Text(name) => name.as_str(),
        Value::Null => return Ok(()),
        _ => {
            return Err(ConfigError::WrongValue {
                key: group.to_owned(),
                origin: option.origin.clone(),
                what: "the name of one preset is expected".into(),
            });
        }
    };
    if !groups.contains(group) {
        return Err(ConfigError::UnknownKey {
            key: group.to_owned(),
            origin: option.origin.clone(),
            advice: advice(group, &option.origin, groups.iter().map(String::as_str)),
        });
    }
    let Preset { keys, defaults, package: own_package, file } =
        presets.load(group, name, &option.origin)?;
    let fault = |what: &str| ConfigError::File { file: file.to_string(), what: what.to_owned() };
    if depth > MAX_NESTING {
        return Err(fault("its `defaults` go in circles"));
    }
    let package = package
        .map(str::to_owned)
        .or(own_package)
        .or_else(|| package_of(presets, group, option, 0))
        .unwrap_or_else(|| group.replace('/', "."));
    let mut entries = match &defaults {
        Some(list) => entries_of(list, Some(group), &file)?,
        None => Vec::new(),
    };
    if !entries.iter().any(|entry| matches!(entry, Entry::Own)) {
        entries.push(Entry::Own);
    }
    for entry in entries {
        match entry {
            Entry::Own if package == "_global_" => tree.merge(keys.clone()),
            Entry::Own => tree.set(&package, keys.clone()),
            Entry::Chosen { group: base, option, .. } if base == group => {
                mount(presets, group, Some(&package), &option, groups, tree, depth + 1)?;
            }
            Entry::Chosen { .. } => {
                return Err(fault("its `defaults` may name presets of its own group only"));
            }
        }
    }
    Ok(())
}

/// Reads a `defaults` list. `own_group` is the group that a bare name belongs to.
fn entries_of(
    list: &Node,
    own_group: Option<&str>,
    file: &Arc<str>,
) -> Result<Vec<Entry>, ConfigError> {
    let fault = |origin: &Origin| ConfigError::File {
        file: file.to_string(),
        what: format!("{origin}: a line of `defaults` is `- group: preset` or `- _self_`"),
    };
    let Value::List(items) = &list.value else { return Err(fault(&list.origin)) };
    let mut entries = Vec::new();
    for item in items {
        match (&item.value, own_group) {
            (Value::Text(word), _) if word == "_self_" => entries.push(Entry::Own),
            (Value::Text(_), Some(group)) => entries.push(Entry::Chosen {
                group: group.to_owned(),
                package: None,
                option: item.clone(),
            }),
            (Value::Map(pairs), _) => match pairs.as_slice() {
                [(name, option)] => {
                    let (group, package) = match name.split_once('@') {
                        Some((group, package)) => (group, Some(package.to_owned())),
                        None => (name.as_str(), None),
                    };
                    entries.push(Entry::Chosen {
                        group: group.to_owned(),
                        package,
                        option: option.clone(),
                    });
                }
                _ => return Err(fault(&item.origin)),
            },
            _ => return Err(fault(&item.origin)),
        }
    }
    Ok(entries)
}
