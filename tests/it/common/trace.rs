//! What a trace file of a guest says, in the terms of the tests.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use stage2_contract::trace::{
    Ending, GpuWork, Losses, RANGE_OUTSIDE, RANGE_UNKNOWN, Reader, Record, What,
};

pub(crate) struct TraceFile {
    pub(crate) ending: Ending,
    pub(crate) records: Vec<Record>,
}

pub(crate) fn traces_in(folder: &Path) -> Vec<TraceFile> {
    files_in(folder).iter().map(|path| TraceFile::read(path)).collect()
}

/// Trace files in a folder, by name.
pub(crate) fn files_in(folder: &Path) -> Vec<PathBuf> {
    let has_bytes = |path: &PathBuf| path.metadata().is_ok_and(|file| file.len() > 0);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("folder")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "s2t"))
        // Of a guest in which no file may grow there is nothing to read.
        .filter(has_bytes)
        .collect();
    paths.sort();
    paths
}

impl TraceFile {
    pub(crate) fn read(path: &Path) -> Self {
        let mut reader = Reader::open(path).unwrap_or_else(|error| panic!("{error}"));
        let records = reader.by_ref().map(|record| record.expect("readable")).collect();
        TraceFile { ending: reader.end(), records }
    }

    /// Path of each range instance, its parts joined by `/`.
    pub(crate) fn range_paths(&self) -> BTreeMap<u64, String> {
        let (mut names, mut paths) = (HashMap::new(), HashMap::new());
        let mut ranges = BTreeMap::new();
        for record in &self.records {
            match record {
                Record::Name { id, bytes } => {
                    names.insert(*id, String::from_utf8_lossy(bytes).into_owned());
                }
                Record::Path(path) => {
                    let name = &names[&path.name];
                    let full = match paths.get(&path.parent) {
                        Some(parent) => format!("{parent}/{name}"),
                        None => name.clone(),
                    };
                    paths.insert(path.id, full);
                }
                Record::RangeOpen(open) => {
                    ranges.insert(open.range, paths[&open.path].clone());
                }
                _ => {}
            }
        }
        ranges
    }

    /// GPU records by range path: how many of what `pick` takes.
    fn by_path(&self, pick: impl Fn(&Record) -> Option<u64>) -> BTreeMap<String, usize> {
        let ranges = self.range_paths();
        let mut counts = BTreeMap::new();
        for range in self.records.iter().filter_map(pick) {
            let path = match range {
                RANGE_OUTSIDE => "(outside)",
                RANGE_UNKNOWN => "(unknown)",
                // A frame of the file could not be written, which it counts.
                range => ranges.get(&range).map_or("(undefined)", String::as_str),
            };
            *counts.entry(path.to_owned()).or_insert(0) += 1;
        }
        counts
    }

    pub(crate) fn each<'t, T>(&'t self, pick: impl FnMut(&'t Record) -> Option<T>) -> Vec<T> {
        self.records.iter().filter_map(pick).collect()
    }

    /// Kernels, wherever they were launched.
    pub(crate) fn kernel_count(&self) -> usize {
        self.kernels().values().sum()
    }

    pub(crate) fn ranges(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for path in self.range_paths().into_values() {
            *counts.entry(path).or_insert(0) += 1;
        }
        counts
    }

    pub(crate) fn kernels(&self) -> BTreeMap<String, usize> {
        self.by_path(|record| match record {
            Record::Work(work) if work.is_kernel() => Some(work.range),
            _ => None,
        })
    }

    pub(crate) fn transfers(&self) -> BTreeMap<String, usize> {
        self.by_path(|record| match record {
            Record::Work(GpuWork {
                what: What::Copy { .. } | What::Fill { .. }, range, ..
            }) => Some(*range),
            _ => None,
        })
    }

    pub(crate) fn graph_launches(&self) -> BTreeMap<String, usize> {
        self.by_path(|record| match record {
            Record::Work(GpuWork { what: What::Graph { .. }, range, .. }) => Some(*range),
            _ => None,
        })
    }

    /// (instances that the choice was made for, recorded ones) by path, with `STAGE2_SAMPLE`.
    pub(crate) fn samples(&self) -> BTreeMap<String, (u64, u64)> {
        let paths = self.range_paths();
        let mut samples = BTreeMap::new();
        for record in &self.records {
            if let Record::RangeSample { range, recorded } = record {
                let (asked, taken) = samples.entry(paths[range].clone()).or_insert((0, 0));
                *asked += 1;
                *taken += u64::from(*recorded);
            }
        }
        samples
    }

    pub(crate) fn pid(&self) -> u32 {
        let pid = self.records.iter().find_map(|record| match record {
            Record::Process(process) => Some(process.pid),
            _ => None,
        });
        pid.expect("a process")
    }

    pub(crate) fn meta(&self, wanted: &str) -> Option<&str> {
        self.records.iter().rev().find_map(|record| match record {
            Record::Meta { key, value } if key == wanted => Some(value.as_str()),
            _ => None,
        })
    }

    /// The last word on losses.
    pub(crate) fn losses(&self) -> Losses {
        let last = self.records.iter().rev().find_map(|record| match record {
            Record::Losses(losses) => Some(*losses),
            _ => None,
        });
        last.expect("losses")
    }
}

/// Every piece of work as a line of all that is told of it, and how often there is such a one. With the
/// same seed the simulated GPU takes equally long for the same launch.
pub(crate) fn work(trace: &TraceFile) -> BTreeMap<String, usize> {
    let ranges = trace.range_paths();
    let (mut names, mut shapes, mut queues) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut lines = BTreeMap::new();
    for record in &trace.records {
        match record {
            Record::Name { id, bytes } => {
                names.insert(*id, String::from_utf8_lossy(bytes).into_owned());
            }
            Record::Shape(shape) => {
                let mut told = *shape;
                (told.id, told.name) = (0, 0);
                shapes.insert(shape.id, format!("{} {told:?}", names[&shape.name]));
            }
            Record::Queue(queue) => {
                queues.insert(queue.id, (queue.device, queue.context, queue.stream));
            }
            Record::Work(work) => {
                let path = match work.range {
                    RANGE_OUTSIDE => "(outside)",
                    RANGE_UNKNOWN => "(unknown)",
                    range => &ranges[&range],
                };
                let what = match work.what {
                    What::Kernel { shape } => shapes[&shape].clone(),
                    other => format!("{other:?}"),
                };
                let ns = work.end.0 - work.start.0;
                let (queue, node) = (queues[&work.queue], work.graph_node);
                let line = format!("{path}: {what}, {ns} ns, queue {queue:?}, node {node}");
                *lines.entry(line).or_insert(0) += 1;
            }
            _ => {}
        }
    }
    lines
}
