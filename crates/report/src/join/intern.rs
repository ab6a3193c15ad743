//! Identifiers of single files -> identifiers of the whole run, by content.

use std::collections::HashMap;

use indexmap::{IndexMap, IndexSet};
use stage2_contract::trace::{Device, Shape};

use stage2_contract::text;
use stage2_model::PathKind;
use stage2_read::path_label::{
    OUTSIDE_RANGES, UNATTRIBUTED_WORK, UNDEFINED_KERNEL, UNDEFINED_RANGE, WHOLE_PROCESS,
    visible_name,
};
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::paths::{OUTSIDE, PathIndex, UNATTRIBUTED, UNDEFINED};
use stage2_read::trace::stats::{GroupKey, Work};

/// Stands for the whole of each process whose user opened no range.
const WHOLE: u32 = 3;

/// A range name under its parents, of the whole run.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) parent: Option<u32>,
    pub(crate) top: u32,
    pub(crate) depth: u64,
    pub(crate) kind: PathKind,
    pub(crate) name: String,
    pub(crate) domain: Option<String>,
}

/// Parent, name, domain.
type NodeKey = (Option<u32>, Option<Vec<u8>>, Option<Vec<u8>>);

/// A kernel with its launch configuration; `launch` without its identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GlobalShape {
    pub(crate) name: u32,
    pub(crate) launch: Option<Shape>,
}

/// A GPU: by its UUID on its host, else by its number in its file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DeviceKey {
    Uuid { simulated: bool, host: Option<String>, uuid: [u8; 16] },
    InFile { file: usize, id: Option<u32> },
}

/// A GPU as the run saw it first.
#[derive(Clone, Debug)]
pub(crate) struct GlobalDevice {
    pub(crate) index: Option<u32>,
    pub(crate) device: Option<Device>,
    pub(crate) host: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) simulated: bool,
}

/// Everything that rows refer to, by identifiers of the run.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) nodes: Vec<Node>,
    node_index: HashMap<NodeKey, u32>,
    pub(crate) kernel_names: IndexSet<Vec<u8>>,
    pub(crate) shapes: IndexSet<GlobalShape>,
    pub(crate) devices: IndexMap<DeviceKey, GlobalDevice>,
    /// CUDA graphs: the index of the file, and CUPTI's id in it.
    pub(crate) graphs: IndexSet<(usize, u32)>,
}

/// From the indices of one file to those of the run.
#[derive(Debug, Default)]
pub(crate) struct Mapping {
    file: usize,
    paths: Vec<u32>,
    shapes: Vec<u32>,
    devices: Vec<u32>,
}

impl Mapping {
    pub(crate) fn path(&self, index: PathIndex) -> u32 {
        self.paths.get(index as usize).copied().unwrap_or(UNDEFINED)
    }

    /// All paths of the file.
    pub(crate) fn paths(&self) -> impl Iterator<Item = u32> {
        self.paths.iter().copied()
    }

    /// Index 0 of every file's shapes is the stand-in for undefined ones.
    pub(crate) fn shape(&self, index: u32) -> u32 {
        self.shapes.get(index as usize).or(self.shapes.first()).copied().unwrap_or(u32::MAX)
    }

    pub(crate) fn device(&self, index: u32) -> u32 {
        self.devices.get(index as usize).copied().unwrap_or(0)
    }
}

impl Default for Tables {
    fn default() -> Self {
        let special = [
            (OUTSIDE, PathKind::OutsideRanges, OUTSIDE_RANGES),
            (UNATTRIBUTED, PathKind::Unattributed, UNATTRIBUTED_WORK),
            (UNDEFINED, PathKind::Undefined, UNDEFINED_RANGE),
            (WHOLE, PathKind::WholeProcess, WHOLE_PROCESS),
        ];
        let node = |(top, kind, name): (u32, PathKind, &str)| {
            let name = name.to_owned();
            Node { parent: None, top, depth: 0, kind, name, domain: None }
        };
        Self {
            nodes: special.map(node).to_vec(),
            node_index: HashMap::new(),
            kernel_names: IndexSet::new(),
            shapes: IndexSet::new(),
            devices: IndexMap::new(),
            graphs: IndexSet::new(),
        }
    }
}

impl Tables {
    /// Takes what `process`, the `file`th, defines.
    pub(crate) fn take(&mut self, file: usize, process: &ProcessCapture) -> Mapping {
        Mapping {
            file,
            paths: self.take_paths(process),
            shapes: self.take_shapes(process),
            devices: self.take_devices(file, process),
        }
    }

    /// The group of the run that a group of a file belongs to.
    pub(crate) fn group(&mut self, key: GroupKey, mapping: &Mapping) -> GroupKey {
        let work = match key.work {
            Work::Kernel(shape) => Work::Kernel(mapping.shape(shape)),
            Work::Graph(id) => Work::Graph(self.graphs.insert_full((mapping.file, id)).0 as u32),
            other => other,
        };
        GroupKey { path: mapping.path(key.path), work, device: mapping.device(key.device) }
    }

    fn take_paths(&mut self, process: &ProcessCapture) -> Vec<u32> {
        let bytes = |name: Option<u32>| name.and_then(|i| process.names.get(i as usize)).cloned();
        let mut mapped: Vec<u32> = vec![OUTSIDE, UNATTRIBUTED, UNDEFINED];
        let whole = process.whole.as_ref().and_then(|whole| mapped.get_mut(whole.path as usize));
        whole.into_iter().for_each(|path| *path = WHOLE);
        for node in process.paths.iter().skip(mapped.len()) {
            let parent = node.parent.and_then(|p| mapped.get(p as usize)).copied();
            let key = (parent, bytes(node.name), bytes(node.domain));
            let index = match self.node_index.get(&key) {
                Some(&index) => index,
                None => self.add_node(key),
            };
            mapped.push(index);
        }
        mapped
    }

    fn add_node(&mut self, key: NodeKey) -> u32 {
        let index = self.nodes.len() as u32;
        let around = key.0.and_then(|parent| self.nodes.get(parent as usize));
        let name = visible_name(key.1.as_deref());
        let node = Node {
            parent: key.0,
            top: around.map_or(index, |node| node.top),
            depth: around.map_or(0, |node| node.depth + 1),
            kind: around.map_or(PathKind::Range, |node| node.kind),
            name,
            domain: key.2.as_deref().map(text::visible),
        };
        self.nodes.push(node);
        self.node_index.insert(key, index);
        index
    }

    fn take_shapes(&mut self, process: &ProcessCapture) -> Vec<u32> {
        let mut mapped = Vec::with_capacity(process.shapes.len());
        for entry in &process.shapes {
            if !entry.defined && process.undefined.shapes == 0 {
                // The stand-in, which nothing in this file refers to.
                mapped.push(u32::MAX);
                continue;
            }
            let bytes = entry.name.and_then(|name| process.names.get(name as usize));
            let bytes = bytes.cloned().unwrap_or_else(|| UNDEFINED_KERNEL.as_bytes().to_vec());
            let name = self.kernel_names.insert_full(bytes).0 as u32;
            let launch = entry.defined.then_some(Shape { id: 0, name: 0, ..entry.shape });
            mapped.push(self.shapes.insert_full(GlobalShape { name, launch }).0 as u32);
        }
        mapped
    }

    fn take_devices(&mut self, file: usize, process: &ProcessCapture) -> Vec<u32> {
        let simulated = super::is_simulated(process);
        let host = process.process.as_ref().map(|p| text::visible(p.host.as_bytes()));
        let pid = process.process.as_ref().map(|p| p.pid);
        let mut mapped = Vec::with_capacity(process.devices.len());
        for entry in &process.devices {
            let uuid = entry.device.as_ref().map(|d| d.uuid).filter(|uuid| *uuid != [0; 16]);
            let key = match uuid {
                Some(uuid) => DeviceKey::Uuid { simulated, host: host.clone(), uuid },
                None => DeviceKey::InFile { file, id: entry.id },
            };
            let known = self.devices.entry(key);
            mapped.push(known.index() as u32);
            let (device, host) = (entry.device.clone(), host.clone());
            known.or_insert(GlobalDevice { index: entry.id, device, host, pid, simulated });
        }
        mapped
    }
}
