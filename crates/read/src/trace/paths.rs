//! Path records -> a tree of range names that is safe to walk.
//!
//! The trace file keeps the nesting in which ranges were opened. The tree holds the nesting that
//! reports show: a library range (NCCL's, say) is never a stage and never the parent of a user range:
//!
//! | as opened           | in the tree                           |
//! |---------------------|---------------------------------------|
//! | `U1`, `L`           | `U1/L`                                |
//! | `U1`, `L`, `U2`     | `U1/U2`                               |
//! | `L`, `U`            | `U`                                   |
//! | `L`                 | `(outside ranges)/L`: no stage of it  |
//!
//! A node's parent always stands before it, so that no walk can loop, whatever the file states.

use std::collections::HashMap;

use indexmap::IndexSet;
use stage2_contract::trace::{NONE, Path};

/// Number of a path in its file.
pub type PathIndex = u32;

/// Work that was launched while no range of the user was open; above ranges of libraries alone.
pub const OUTSIDE: PathIndex = 0;
/// Work whose launch could not be placed.
pub const UNATTRIBUTED: PathIndex = 1;
/// Stands for a path that is used but not defined.
pub const UNDEFINED: PathIndex = 2;

/// One range name under its parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathNode {
    /// The path around it.
    pub parent: Option<PathIndex>,
    /// The outermost node around it, or itself: its stage.
    pub top: PathIndex,
    /// Index of its name in the names of the file; nothing for the nodes above.
    pub name: Option<u32>,
    /// Index of the name of its domain; nothing for the default domain.
    pub domain: Option<u32>,
    /// The innermost range of the user at it or around it; nothing where only libraries' are.
    pub user: Option<PathIndex>,
}

impl PathNode {
    fn stand_in(index: PathIndex) -> Self {
        let user = (index != OUTSIDE).then_some(index);
        Self { parent: None, top: index, name: None, domain: None, user }
    }
}

/// The paths of ranges of a file.
#[derive(Debug)]
pub struct Paths {
    nodes: Vec<PathNode>,
    by_id: HashMap<u32, PathIndex>,
    /// A writer that lost records defines again what it goes on using: the same path stays one.
    by_content: HashMap<PathKey, PathIndex>,
}

type PathKey = (Option<PathIndex>, Option<u32>, Option<u32>);

impl Default for Paths {
    fn default() -> Self {
        let nodes = [OUTSIDE, UNATTRIBUTED, UNDEFINED].map(PathNode::stand_in).to_vec();
        Self { nodes, by_id: HashMap::new(), by_content: HashMap::new() }
    }
}

impl Paths {
    /// Adds the path that `record` defines; `name` and `domain` are the indices of its names, and
    /// `library` says that the domain is that of a library. False where its parent is not defined:
    /// it is then put under [`UNDEFINED`].
    pub fn define(
        &mut self,
        record: &Path,
        name: Option<u32>,
        domain: Option<u32>,
        library: bool,
    ) -> bool {
        let found = match record.parent {
            NONE => None,
            id => Some(self.find(id)),
        };
        let around = found.map(|index| index.unwrap_or(UNDEFINED));
        let user_around = around.and_then(|index| self.node(index).user);
        let parent = if library { around.or(Some(OUTSIDE)) } else { user_around };
        let fresh = self.nodes.len() as PathIndex;
        let index = *self.by_content.entry((parent, name, domain)).or_insert(fresh);
        if index == fresh {
            let top = parent.map_or(index, |p| self.node(p).top);
            let user = if library { user_around } else { Some(index) };
            self.nodes.push(PathNode { parent, top, name, domain, user });
        }
        self.by_id.insert(record.id, index);
        found != Some(None)
    }

    /// Lets a path of this identifier mean the one around it. False where that is not defined.
    pub(crate) fn leave_out(&mut self, record: &Path) -> bool {
        let around = if record.parent == NONE { Some(OUTSIDE) } else { self.find(record.parent) };
        self.by_id.insert(record.id, around.unwrap_or(UNDEFINED));
        around.is_some()
    }

    pub(crate) fn find(&self, id: u32) -> Option<PathIndex> {
        self.by_id.get(&id).copied()
    }

    /// A node; [`UNDEFINED`] for an index of another file.
    pub fn node(&self, index: PathIndex) -> PathNode {
        self.nodes.get(index as usize).copied().unwrap_or(PathNode::stand_in(UNDEFINED))
    }

    /// All nodes, every parent before its children.
    pub fn nodes(&self) -> &[PathNode] {
        &self.nodes
    }
}

/// Names of a file, each once.
#[derive(Debug, Default)]
pub struct Names {
    all: IndexSet<Vec<u8>>,
    by_id: HashMap<u32, u32>,
}

impl Names {
    /// Adds a string, and gives its index. One that repeats an identifier counts from there on.
    pub fn define(&mut self, id: u32, bytes: Vec<u8>) -> u32 {
        let index = self.add(bytes);
        self.by_id.insert(id, index);
        index
    }

    /// Adds a string that no record defines, and gives its index.
    pub fn add(&mut self, bytes: Vec<u8>) -> u32 {
        self.all.insert_full(bytes).0 as u32
    }

    pub(crate) fn get(&self, index: u32) -> Option<&[u8]> {
        self.all.get_index(index as usize).map(Vec::as_slice)
    }

    pub(crate) fn find(&self, id: u32) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn into_list(self) -> Vec<Vec<u8>> {
        self.all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(id: u32, parent: u32) -> Path {
        Path { id, parent, name: 1, domain: NONE }
    }

    #[test]
    fn the_stage_is_the_outermost_node() {
        let mut paths = Paths::default();
        assert!(paths.define(&path(1, NONE), Some(0), None, false));
        assert!(paths.define(&path(2, 1), Some(1), None, false));
        assert!(paths.define(&path(3, 2), Some(2), None, false));
        let deepest = paths.find(3).unwrap();
        assert_eq!(paths.node(deepest).top, paths.find(1).unwrap());
        assert_eq!(paths.node(deepest).parent, paths.find(2));
    }

    #[test]
    fn ranges_of_libraries_are_never_around_those_of_the_user() {
        let mut paths = Paths::default();
        let mut define = |id, parent, name, library: bool| {
            let domain = library.then_some(9);
            assert!(paths.define(&path(id, parent), Some(name), domain, library));
            paths.find(id).unwrap()
        };
        let lone = define(1, NONE, 1, true);
        let within_lone = define(2, 1, 2, true);
        let stage = define(3, 2, 3, false);
        let same_stage = define(4, NONE, 3, false);
        let child = define(5, 3, 1, true);
        let child_of_child = define(6, 5, 2, true);
        let nested = define(7, 6, 4, false);
        assert_eq!((lone, paths.node(lone).parent), (3, Some(OUTSIDE)));
        assert_eq!(paths.node(within_lone).parent, Some(lone));
        assert_eq!((paths.node(within_lone).top, paths.node(within_lone).user), (OUTSIDE, None));
        assert_eq!((paths.node(stage).parent, same_stage), (None, stage));
        assert_eq!(paths.node(child_of_child).parent, Some(child));
        assert_eq!((paths.node(child).parent, paths.node(child).user), (Some(stage), Some(stage)));
        assert_eq!((paths.node(nested).parent, paths.node(nested).top), (Some(stage), stage));
    }

    #[test]
    fn a_path_that_is_defined_again_stays_one() {
        let mut paths = Paths::default();
        assert!(paths.define(&path(1, NONE), Some(0), None, false));
        assert!(paths.define(&path(9, NONE), Some(0), None, false));
        assert!(paths.define(&path(2, NONE), Some(0), Some(1), false));
        assert_eq!(paths.find(1), paths.find(9));
        assert_ne!(paths.find(1), paths.find(2), "another domain");
    }

    #[test]
    fn a_path_cannot_contain_itself_or_what_comes_later() {
        let mut paths = Paths::default();
        assert!(!paths.define(&path(1, 1), None, None, false));
        assert!(!paths.define(&path(2, 3), None, None, false));
        assert!(paths.define(&path(3, 2), None, None, false));
        for node in paths.nodes() {
            let steps = std::iter::successors(Some(*node), |n| n.parent.map(|p| paths.node(p)));
            assert!(steps.take(10).count() <= 4);
        }
        assert_eq!(paths.node(paths.find(3).unwrap()).top, UNDEFINED);
    }

    #[test]
    fn a_string_is_kept_once_and_an_identifier_can_move() {
        let mut names = Names::default();
        names.define(7, b"a".to_vec());
        names.define(8, b"a".to_vec());
        names.define(7, b"b".to_vec());
        assert_eq!((names.find(7), names.find(8), names.find(9)), (Some(1), Some(0), None));
        assert_eq!(names.into_list(), [b"a".to_vec(), b"b".to_vec()]);
    }
}
