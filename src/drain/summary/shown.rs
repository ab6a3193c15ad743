//! Range paths as the table shows them. A library's range is never around a range of the program:
//! it is a part inside of one, or stands in a table of its own where there is none.

use rustc_hash::FxHashMap;
use stage2_spool::NONE;
use stage2_text::is_library_domain;

use crate::drain::aggregate::UNATTRIBUTED;
use crate::drain::intern::Interner;

/// How many bytes of the innermost parts are shown when no existing path has this text.
const TEXT_BYTES: usize = 512;

/// A path as it is shown; 0 is no range, and [`UNATTRIBUTED`] is what it is.
pub(super) type ShownPath = u32;

/// The shown paths of a process.
pub(super) struct ShownPaths<'a> {
    names: &'a Interner,
    /// By number, from 1.
    nodes: Vec<Node>,
    /// The shown path of every path, by its number from 1.
    of_path: Vec<ShownPath>,
}

#[derive(Clone, Copy)]
struct Node {
    parent: ShownPath,
    name: u32,
    /// The innermost part that is the program's, this one included; 0 where all are a library's.
    own: ShownPath,
    /// A path with just these parts; 0 where there is none.
    path: u32,
}

impl<'a> ShownPaths<'a> {
    /// Those of all paths that have a number.
    pub(super) fn of(names: &'a Interner) -> Self {
        let mut shown = ShownPaths { names, nodes: Vec::new(), of_path: Vec::new() };
        let mut known: FxHashMap<(ShownPath, u32, u32), ShownPath> = FxHashMap::default();
        for (id, path) in (1..).map_while(|id| Some((id, *names.path_of(id)?))) {
            let is_library = path.domain != NONE && is_library_domain(names.text(path.domain));
            // Outer paths have smaller numbers.
            let around = shown.path(path.parent);
            let parent = if is_library { around } else { shown.node(around).map_or(0, |n| n.own) };
            let whole = path.parent == NONE
                || parent == around && shown.node(around).is_some_and(|n| n.path == path.parent);
            let number = *known.entry((parent, path.name, path.domain)).or_insert_with(|| {
                let number = shown.nodes.len() as u32 + 1;
                let own = match is_library {
                    true => shown.node(parent).map_or(0, |node| node.own),
                    false => number,
                };
                shown.nodes.push(Node { parent, name: path.name, own, path: 0 });
                number
            });
            if let Some(node) = shown.nodes.get_mut(number as usize - 1).filter(|_| whole) {
                node.path = id;
            }
            shown.of_path.push(number);
        }
        shown
    }

    fn node(&self, path: ShownPath) -> Option<&Node> {
        self.nodes.get((path as usize).checked_sub(1)?)
    }

    /// What a path is shown as.
    pub(super) fn path(&self, path: u32) -> ShownPath {
        if path == UNATTRIBUTED {
            return path;
        }
        let index = (path as usize).checked_sub(1);
        index.and_then(|index| self.of_path.get(index)).copied().unwrap_or(0)
    }

    /// Whether all parts of a path are a library's.
    pub(super) fn is_of_library(&self, path: ShownPath) -> bool {
        self.node(path).is_some_and(|node| node.own == 0)
    }

    /// The parts of a path, joined by `/`; a long one without its middle, or its beginning. Not
    /// escaped.
    pub(super) fn text(&self, path: ShownPath) -> Vec<u8> {
        let Some(node) = self.node(path) else { return Vec::new() };
        if node.path != 0 {
            return self.names.path_text(node.path);
        }
        let (mut parts, mut bytes, mut at) = (Vec::new(), 0, path);
        while let Some(node) = self.node(at).filter(|_| bytes < TEXT_BYTES) {
            let part = self.names.text(node.name);
            bytes += part.len() + 1;
            parts.push(part);
            at = node.parent;
        }
        if at != 0 {
            parts.push("…".as_bytes());
        }
        parts.reverse();
        parts.join(&b'/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::intern::Sink;

    fn path(names: &mut Interner, sink: &mut impl Sink, parts: &[(&str, &str)]) -> u32 {
        parts.iter().fold(0, |parent, (domain, name)| {
            let name = names.name(name.as_bytes(), sink);
            let domain = if domain.is_empty() { 0 } else { names.name(domain.as_bytes(), sink) };
            names.path(parent, name, domain, sink)
        })
    }

    #[test]
    fn ranges_of_libraries_are_inside_those_of_the_program_or_alone() {
        let (mut names, mut sink) = (Interner::new(), Vec::new());
        let mut add = |parts: &[(&str, &str)]| path(&mut names, &mut sink, parts);
        let decode = add(&[("", "decode")]);
        let inside = add(&[("NCCL", "init"), ("", "decode")]);
        let between = add(&[("", "decode"), ("TSL", "run"), ("llm", "layer")]);
        let below = add(&[("NCCL", "init"), ("", "decode"), ("nccl", "reduce")]);
        let alone = add(&[("NCCL", "init"), ("TSL", "run")]);
        let shown = ShownPaths::of(&names);
        let text = |path| String::from_utf8(shown.text(shown.path(path))).unwrap();
        assert_eq!(shown.path(inside), shown.path(decode));
        assert_eq!(
            [decode, inside, between, below, alone].map(text),
            ["decode", "decode", "decode/layer", "decode/reduce", "init/run"]
        );
        let of_library = |path| shown.is_of_library(shown.path(path));
        assert_eq!([decode, inside, between, below].map(of_library), [false; 4]);
        assert!(of_library(alone));
        assert_eq!((shown.path(0), shown.path(UNATTRIBUTED)), (0, UNATTRIBUTED));
        assert!(!shown.is_of_library(0) && !shown.is_of_library(UNATTRIBUTED));
    }

    #[test]
    fn a_deep_path_without_its_libraries_is_told_in_bounded_text() {
        let (mut names, mut sink) = (Interner::new(), Vec::new());
        let mut parts = vec![("NCCL", "init")];
        parts.extend([("", "a rather long name"); 1000]);
        let deep = path(&mut names, &mut sink, &parts);
        let shown = ShownPaths::of(&names);
        let text = shown.text(shown.path(deep));
        assert!(text.starts_with("…/".as_bytes()) && text.len() < 600, "{}", text.len());
    }
}
