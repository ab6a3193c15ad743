//! Identifiers of the run -> what people read: unique device labels, joined range paths.

use std::collections::HashMap;

use super::intern::{GlobalDevice, Node, Tables};
use crate::load::paths::UNDEFINED;
use stage2_text as text;

/// Ranges of a path that are shown; of a deeper one, the middle gives way.
const PATH_DEPTH_LIMIT: u64 = 64;
/// Characters of one range name within a path; the names themselves are kept in full.
pub(crate) const ELEMENT_LIMIT: usize = 200;

/// Labels by identifier.
#[derive(Debug)]
pub(crate) struct Labels {
    paths: Vec<String>,
    stages: Vec<u32>,
    devices: Vec<String>,
}

impl Labels {
    pub(crate) fn new(tables: &Tables) -> Self {
        let nodes = &tables.nodes;
        Self {
            paths: nodes.iter().map(|node| path_label(nodes, node)).collect(),
            stages: nodes.iter().map(|node| node.top).collect(),
            devices: device_labels(&tables.devices),
        }
    }

    pub(crate) fn path(&self, path: u32) -> &str {
        let undefined = self.paths.get(UNDEFINED as usize);
        self.paths.get(path as usize).or(undefined).map_or("", String::as_str)
    }

    /// The stage of a path; it is a path itself.
    pub(crate) fn stage_of(&self, path: u32) -> u32 {
        self.stages.get(path as usize).copied().unwrap_or(UNDEFINED)
    }

    pub(crate) fn stage(&self, path: u32) -> &str {
        self.path(self.stage_of(path))
    }

    pub(crate) fn device(&self, device: u32) -> &str {
        self.devices.get(device as usize).map_or("", String::as_str)
    }
}

/// Own name of a range, with its domain unless that is the default one.
fn element(node: &Node) -> String {
    let name = text::shorten(&node.name, ELEMENT_LIMIT);
    match &node.domain {
        Some(domain) => format!("{name}@{}", text::shorten(domain, ELEMENT_LIMIT)),
        None => name,
    }
}

fn path_label(nodes: &[Node], node: &Node) -> String {
    let up = |node: &&Node| node.parent.and_then(|parent| nodes.get(parent as usize));
    let around = std::iter::successors(Some(node), up);
    let mut elements: Vec<String> = if node.depth < PATH_DEPTH_LIMIT {
        around.map(element).collect()
    } else {
        let inner = around.take(PATH_DEPTH_LIMIT as usize - 2).map(element);
        let left_out = node.depth + 2 - PATH_DEPTH_LIMIT;
        let outermost = nodes.get(node.top as usize).map(element);
        inner.chain([format!("… {left_out} more …")]).chain(outermost).collect()
    };
    elements.reverse();
    elements.join("/")
}

/// What the name of a simulated GPU ends in.
const SIMULATED: &str = " (simulated)";

fn device_labels(devices: &[GlobalDevice]) -> Vec<String> {
    let short: Vec<String> = devices.iter().map(short_label).collect();
    let mut seen: HashMap<&str, u32> = HashMap::new();
    short.iter().for_each(|label| *seen.entry(label).or_default() += 1);
    let unique = |(label, device): (&String, &GlobalDevice)| match seen.get(label.as_str()) {
        Some(1) | None => label.clone(),
        Some(_) => format!("{label} ({})", distinction(device)),
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
        (Some(uuid), _) => format!("{host} GPU-{}", &uuid_text(uuid)[..8]),
        (None, Some(pid)) => format!("{host} pid {pid}"),
        (None, None) => "another process".to_owned(),
    }
}

/// A UUID in the form that NVIDIA's tools print, without their `GPU-`.
pub(crate) fn uuid_text(uuid: [u8; 16]) -> String {
    let mut out = String::with_capacity(36);
    for (i, byte) in uuid.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push_str(&format!("{byte:02x}"));
    }
    out
}
