//! GPU work of a trace file as lines that two runs can be compared by.

use std::collections::{BTreeMap, HashMap};

use stage2_contract::trace::{RANGE_OUTSIDE, RANGE_UNKNOWN, Record, What};

use crate::common::Spool;

/// Every piece of work as a line of all that is told of it, and how often there is such a one. With the
/// same seed the simulated GPU takes equally long for the same launch.
pub(crate) fn work(spool: &Spool) -> BTreeMap<String, usize> {
    let ranges = spool.range_paths();
    let (mut names, mut shapes, mut queues) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut lines = BTreeMap::new();
    for record in &spool.records {
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
