//! Identifiers of the run -> what people read: unique device labels, joined range paths.

use super::intern::{GlobalDevice, Node, Tables};
use stage2_contract::text;
use stage2_read::path_label::{element, shown};
use stage2_read::trace::paths::UNDEFINED;

#[derive(Debug)]
pub(crate) struct Labels<'t> {
    pub(crate) tables: &'t Tables,
    paths: Vec<String>,
    devices: Vec<String>,
}

impl<'t> Labels<'t> {
    pub(crate) fn new(tables: &'t Tables) -> Self {
        let nodes = &tables.nodes;
        Self {
            tables,
            paths: nodes.iter().map(|node| path_label(nodes, node)).collect(),
            devices: device_labels(&tables.devices.values().collect::<Vec<_>>()),
        }
    }

    pub(crate) fn path(&self, path: u32) -> &str {
        let undefined = self.paths.get(UNDEFINED as usize);
        self.paths.get(path as usize).or(undefined).map_or("", String::as_str)
    }

    /// The stage of a path; it is a path itself.
    pub(crate) fn stage_of(&self, path: u32) -> u32 {
        self.tables.nodes.get(path as usize).map_or(UNDEFINED, |node| node.top)
    }

    pub(crate) fn stage(&self, path: u32) -> &str {
        self.path(self.stage_of(path))
    }

    pub(crate) fn device(&self, device: u32) -> &str {
        self.devices.get(device as usize).map_or("", String::as_str)
    }
}

fn path_label(nodes: &[Node], node: &Node) -> String {
    let up = |node: &&Node| node.parent.and_then(|parent| nodes.get(parent as usize));
    let around = std::iter::successors(Some(node), up);
    let element = |node: &Node| element(&node.name, node.domain.as_deref());
    shown(around.map(element), node.depth, nodes.get(node.top as usize).map(element)).join("/")
}

/// What the name of a simulated GPU ends in.
const SIMULATED: &str = " (simulated)";

fn device_labels(devices: &[&GlobalDevice]) -> Vec<String> {
    let short: Vec<String> = devices.iter().map(|device| short_label(device)).collect();
    let unique = |(label, device): (&String, &&GlobalDevice)| match short
        .iter()
        .filter(|other| *other == label)
        .count()
    {
        0 | 1 => label.clone(),
        _ => format!("{label} ({})", distinction(device)),
    };
    short.iter().zip(devices).map(unique).collect()
}

fn short_label(device: &GlobalDevice) -> String {
    let Some(index) = device.index else { return "(device not known)".to_owned() };
    let name = device.device.as_ref().map(|d| text::shorten(&text::visible(&d.name), 60));
    let name = name.filter(|name| !name.trim().is_empty());
    let name = name.as_deref().unwrap_or("(name not known)");
    // The simulated GPU of this project says it in its name already.
    let marked = device.simulated && !name.ends_with(SIMULATED);
    format!("{index} {name}{}", if marked { SIMULATED } else { "" })
}

fn distinction(device: &GlobalDevice) -> String {
    let host = device.host.as_deref().map_or("", |host| host);
    let uuid = device.device.as_ref().map(|d| d.uuid).filter(|uuid| *uuid != [0; 16]);
    match (uuid, device.pid) {
        (Some(uuid), _) => format!("{host} GPU-{}", &text::uuid_text(uuid)[..8]),
        (None, Some(pid)) => format!("{host} pid {pid}"),
        (None, None) => "another process".to_owned(),
    }
}
