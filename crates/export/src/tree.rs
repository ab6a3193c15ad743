//! GPU work by range path and kernel: what the formats without a timeline hold.

use std::collections::BTreeMap;

use stage2_read::trace::events::{Event, Work};

use crate::selection::Selected;
use crate::{Counts, ExportError, names};

/// Totals of one kernel in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) ns: u64,
    pub(crate) calls: u64,
    /// The GPU of the run.
    pub(crate) gpu: u32,
}

/// A range, or the root: what was launched in it, and the ranges in it.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) children: BTreeMap<String, Node>,
    /// By name and GPU.
    pub(crate) work: BTreeMap<(String, u32), Total>,
}

impl Node {
    /// All work of the selection.
    pub(crate) fn build(selected: &Selected<'_>, counts: &mut Counts) -> Result<Self, ExportError> {
        let mut root = Self::default();
        for process in selected.run.processes() {
            let ranks = selected.run.processes().len() > 1;
            let top =
                if ranks { root.children.entry(process.title()).or_default() } else { &mut root };
            selected.for_each(process, true, counts, |event| {
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
    pub(crate) fn walk<'n, E>(
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
