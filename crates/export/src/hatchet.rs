//! The JSON of Triton Proton, which `proton-viewer` and Hatchet read.
//!
//! The root lists every metric with 0: without it Hatchet computes no inclusive columns.

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::run::Gpu;
use crate::selection::Selected;
use crate::tree::Node;
use crate::{Counts, ExportError, Exported, output};

pub(crate) fn write(selected: &Selected<'_>, out: &Path) -> Result<Exported, ExportError> {
    let mut counts = Counts::default();
    let root = Node::build(selected, &mut counts)?;
    let tree = json!({
        "frame": {"name": "ROOT", "type": "function"},
        "metrics": {"count": 0, "time (ns)": 0},
        "children": children(&root),
    });
    let document = json!([tree, {"CUDA": devices(selected.run.gpus())}]);
    output::file(out, |file| {
        let written = serde_json::to_writer_pretty(&mut *file, &document).map_err(Into::into);
        written.and_then(|()| file.write_all(b"\n")).map_err(ExportError::write(out))
    })?;
    Ok(Exported { files: vec![out.to_owned()], counts, ..Exported::default() })
}

fn children(node: &Node) -> Vec<Value> {
    let range = |(name, child): (&String, &Node)| {
        json!({
            "frame": {"name": name, "type": "function"},
            "metrics": {},
            "children": children(child),
        })
    };
    let work = node.work.iter().map(|((name, gpu), total)| {
        json!({
            "frame": {"name": name, "type": "function"},
            "metrics": {
                "time (ns)": total.ns, "count": total.calls,
                "device_id": gpu.to_string(), "device_type": "CUDA",
            },
            "children": [],
        })
    });
    node.children.iter().map(range).chain(work).collect()
}

fn devices(gpus: &[Gpu]) -> Map<String, Value> {
    let device = |(index, gpu): (usize, &Gpu)| {
        let device = &gpu.device;
        let (major, minor) = device.compute_capability;
        let about = json!({
            "arch": format!("{major}{minor}"),
            "num_sms": device.multiprocessors,
            "clock_rate": device.core_clock_khz,
        });
        (index.to_string(), about)
    };
    gpus.iter().enumerate().map(device).collect()
}
