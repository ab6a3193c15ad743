//! GPU work by range path and kernel: what the formats without a timeline hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message as _;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};
use stage2_read::trace::events::{Event, Work};

use crate::run::Gpu;
use crate::selection::{Holds, Selected};
use crate::{Counts, ExportError, names, output};

/// Totals of one kernel in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Total {
    ns: u64,
    calls: u64,
    /// The GPU of the run.
    gpu: u32,
}

/// A range, or the root: what was launched in it, and the ranges in it.
#[derive(Debug, Default)]
struct Node {
    children: BTreeMap<String, Node>,
    /// By name and GPU.
    work: BTreeMap<(String, u32), Total>,
}

impl Node {
    fn build(selected: &Selected<'_>, counts: &mut Counts) -> Result<Self, ExportError> {
        let mut root = Self::default();
        for process in selected.run.processes() {
            let top = match selected.run.processes() {
                [_] => &mut root,
                _ => root.children.entry(process.title()).or_default(),
            };
            selected.for_each(process, Holds::Work, counts, |event| {
                if let Event::Work(work) = event {
                    top.add(&work, process.gpu(work.queue.device));
                }
                Ok(())
            })?;
        }
        Ok(root)
    }

    fn add(&mut self, work: &Work<'_>, gpu: u32) {
        let mut node = self;
        for element in &work.path.elements {
            if !node.children.contains_key(element) {
                node.children.insert(element.clone(), Self::default());
            }
            // It was inserted if it was absent.
            let Some(child) = node.children.get_mut(element) else { return };
            node = child;
        }
        let total = node.work.entry((names::short(work.what).into_owned(), gpu)).or_default();
        let ns = work.span.map_or(0, |span| span.ns().unsigned_abs());
        *total = Total { ns: total.ns.saturating_add(ns), calls: total.calls + 1, gpu };
    }

    /// Calls `each` with the ranges around every piece of work, from the outside in.
    fn walk<'n, E>(
        &'n self,
        around: &mut Vec<&'n str>,
        each: &mut impl FnMut(&[&'n str], &'n str, Total) -> Result<(), E>,
    ) -> Result<(), E> {
        for ((name, _), total) in &self.work {
            each(around, name, *total)?;
        }
        for (name, child) in &self.children {
            around.push(name);
            child.walk(around, each)?;
            around.pop();
        }
        Ok(())
    }
}

/// Folded stacks, as flame graph tools read them: `prefill;layer.0;gemm 12345`, in nanoseconds.
pub(crate) fn folded(
    selected: &Selected<'_>,
    out: &Path,
    counts: &mut Counts,
) -> Result<Vec<PathBuf>, ExportError> {
    let root = Node::build(selected, counts)?;
    output::file(out, |file| {
        root.walk(&mut Vec::new(), &mut |ranges, name, total| {
            let mut line: String = ranges.iter().map(|range| frame(range) + ";").collect();
            line.push_str(&frame(name));
            writeln!(file, "{line} {}", total.ns).map_err(ExportError::write(out))
        })
    })
}

/// Folded stacks of the host while the GPU idles: `decode;EngineCore.step (core.py:300);(sleeping) 12345`, in
/// nanoseconds.
pub(crate) fn folded_host(
    selected: &Selected<'_>,
    out: &Path,
    counts: &mut Counts,
) -> Result<Vec<PathBuf>, ExportError> {
    let run = selected.run;
    if selected.has_window() {
        return Err(ExportError::NoWindowOfHost);
    }
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    let mut is_sampled = false;
    for process in run.processes() {
        let Some(stacks) = process.file.idle_stacks() else { continue };
        is_sampled = true;
        for (stage, stack, ns) in stacks {
            if selected.has_stage(&stage) {
                let frames = std::iter::once(stage).chain(stack).map(|name| frame(&name));
                let line = frames.collect::<Vec<_>>().join(";");
                let known = lines.entry(line).or_default();
                *known = known.saturating_add(ns);
            }
        }
    }
    if !is_sampled {
        return Err(ExportError::NoHostSamples(run.name.clone()));
    }
    counts.host_stacks = lines.len() as u64;
    output::file(out, |file| {
        lines.iter().try_for_each(|(line, ns)| {
            writeln!(file, "{line} {ns}").map_err(ExportError::write(out))
        })
    })
}

/// A frame ends at `;`, and the last one at the space before the number.
fn frame(name: &str) -> String {
    name.replace(';', ":").replace(['\n', '\r'], " ")
}

/// The JSON of Triton Proton, which `proton-viewer` and Hatchet read. The root lists every metric with 0:
/// without it Hatchet computes no inclusive columns.
pub(crate) fn hatchet(
    selected: &Selected<'_>,
    out: &Path,
    counts: &mut Counts,
) -> Result<Vec<PathBuf>, ExportError> {
    let root = Node::build(selected, counts)?;
    let tree = json!({
        "frame": {"name": "ROOT", "type": "function"},
        "metrics": {"count": 0, "time (ns)": 0},
        "children": children(&root),
    });
    let document = json!([tree, {"CUDA": devices(selected.run.gpus())}]);
    output::file(out, |file| {
        let written = serde_json::to_writer_pretty(&mut *file, &document).map_err(Into::into);
        written.and_then(|()| file.write_all(b"\n")).map_err(ExportError::write(out))
    })
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

// The messages of `profile.proto` (`perftools.profiles`), with the fields that are written.
messages! {
    Profile {
        sample_type: Vec<ValueType> = 1, message, repeated;
        sample: Vec<Sample> = 2, message, repeated;
        location: Vec<Location> = 4, message, repeated;
        function: Vec<Function> = 5, message, repeated;
        string_table: Vec<String> = 6, string, repeated;
        time_nanos: i64 = 9, int64;
        duration_nanos: i64 = 10, int64;
    }

    ValueType {
        kind: i64 = 1, int64;
        unit: i64 = 2, int64;
    }

    Sample {
        location_id: Vec<u64> = 1, uint64, repeated;
        value: Vec<i64> = 2, int64, repeated;
        label: Vec<Label> = 3, message, repeated;
    }

    Label {
        key: i64 = 1, int64;
        text: i64 = 2, int64;
    }

    Location {
        id: u64 = 1, uint64;
        line: Vec<Line> = 4, message, repeated;
    }

    Line {
        function_id: u64 = 1, uint64;
    }

    Function {
        id: u64 = 1, uint64;
        name: i64 = 2, int64;
    }
}

/// Strings of a profile; the first is the empty one.
#[derive(Default)]
struct Strings(FxHashMap<String, i64>, Vec<String>);

impl Strings {
    fn index(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.0.get(text) {
            return index;
        }
        let index = self.1.len() as i64;
        self.1.push(text.to_owned());
        self.0.insert(text.to_owned(), index);
        index
    }
}

/// A gzipped pprof profile: ranges are the stack, kernels its leaves. Values are the number of calls, and
/// nanoseconds of GPU time under the name that Parca's agent gives them.
pub(crate) fn pprof(
    selected: &Selected<'_>,
    out: &Path,
    counts: &mut Counts,
) -> Result<Vec<PathBuf>, ExportError> {
    let root = Node::build(selected, counts)?;
    let profile = profile(&root, selected);
    output::packed_file(out, |file| {
        file.write_all(&profile.encode_to_vec()).map_err(ExportError::write(out))
    })
}

fn profile(root: &Node, selected: &Selected<'_>) -> Profile {
    let mut strings = Strings::default();
    strings.index("");
    let mut kind =
        |kind: &str, unit: &str| ValueType { kind: strings.index(kind), unit: strings.index(unit) };
    let sample_type =
        vec![kind("gpu_kernel_calls", "count"), kind("gpu_kernel_time", "nanoseconds")];
    let gpu = strings.index("gpu");
    let mut functions: FxHashMap<i64, u64> = FxHashMap::default();
    let mut profile = Profile { sample_type, ..Profile::default() };
    let walked: Result<(), std::convert::Infallible> =
        root.walk(&mut Vec::new(), &mut |ranges, name, total| {
            // The leaf comes first.
            let frames = std::iter::once(name).chain(ranges.iter().rev().copied());
            let mut location_id = Vec::with_capacity(ranges.len() + 1);
            for frame in frames {
                let name = strings.index(frame);
                let next = functions.len() as u64 + 1;
                let id = *functions.entry(name).or_insert(next);
                if id == next {
                    profile.function.push(Function { id, name });
                    let line = vec![Line { function_id: id }];
                    profile.location.push(Location { id, line });
                }
                location_id.push(id);
            }
            profile.sample.push(Sample {
                location_id,
                value: [total.calls, total.ns]
                    .map(|n| i64::try_from(n).unwrap_or(i64::MAX))
                    .to_vec(),
                label: vec![Label { key: gpu, text: strings.index(&total.gpu.to_string()) }],
            });
            Ok(())
        });
    let Ok(()) = walked;
    if let Some(span) = selected.run.span() {
        profile.time_nanos = span.start_ns;
        profile.duration_nanos = span.ns();
    }
    profile.string_table = strings.1;
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_cannot_end_early() {
        assert_eq!(frame("a;b\nc d"), "a:b c d");
    }
}
