//! Range paths as the table shows them. A library's range is never around a range of the program:
//! it is a part inside of one, or stands in a table of its own where there is none.

use rustc_hash::FxHashMap;
use stage2_contract::text::is_library_domain;
use stage2_contract::trace::{NONE, Path};

use crate::drain::aggregate::UNATTRIBUTED;
use crate::drain::intern::Interner;

/// The shown paths of a process. Each is a path of the [`Interner`]; 0 is no range, and
/// [`UNATTRIBUTED`] is what it is.
#[derive(Default)]
pub(crate) struct ShownPaths {
    /// The shown path of every path, by its number from 1.
    of_path: Vec<u32>,
    /// The innermost part of a shown path that is the program's, as a path; 0 where all are a library's.
    own: FxHashMap<u32, u32>,
}

impl ShownPaths {
    /// Those of all paths that have a number. Adds to `names` the paths that no record has defined.
    pub(crate) fn of(names: &mut Interner) -> Self {
        let mut shown = ShownPaths::default();
        let paths: Vec<Path> = (1..).map_while(|id| names.path_of(id).copied()).collect();
        for path in paths {
            let is_library = path.domain != NONE && is_library_domain(names.text(path.domain));
            // Outer paths have smaller numbers.
            let around = shown.path(path.parent);
            let own = shown.own.get(&around).copied().unwrap_or(0);
            let parent = if is_library { around } else { own };
            let number = names.shown_path(parent, path.name, path.domain);
            shown.own.insert(number, if is_library { own } else { number });
            shown.of_path.push(number);
        }
        shown
    }

    /// What a path is shown as.
    pub(crate) fn path(&self, path: u32) -> u32 {
        if path == UNATTRIBUTED {
            return path;
        }
        let index = (path as usize).checked_sub(1);
        index.and_then(|index| self.of_path.get(index)).copied().unwrap_or(0)
    }

    /// Whether all parts of a shown path are a library's.
    pub(crate) fn is_of_library(&self, path: u32) -> bool {
        self.own.get(&path) == Some(&0)
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
        let (mut names, mut sink) = (Interner::default(), Vec::new());
        let mut add = |parts: &[(&str, &str)]| path(&mut names, &mut sink, parts);
        let decode = add(&[("", "decode")]);
        let inside = add(&[("NCCL", "init"), ("", "decode")]);
        let between = add(&[("", "decode"), ("TSL", "run"), ("llm", "layer")]);
        let below = add(&[("NCCL", "init"), ("", "decode"), ("nccl", "reduce")]);
        let alone = add(&[("NCCL", "init"), ("TSL", "run")]);
        let shown = ShownPaths::of(&mut names);
        let text = |path| String::from_utf8(names.path_text(shown.path(path))).unwrap();
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
        let (mut names, mut sink) = (Interner::default(), Vec::new());
        let mut parts = vec![("NCCL", "init")];
        parts.extend([("", "a rather long name"); 1000]);
        let deep = path(&mut names, &mut sink, &parts);
        let shown = ShownPaths::of(&mut names);
        let text = String::from_utf8(names.path_text(shown.path(deep))).unwrap();
        assert!(text.starts_with("a rather") && text.contains('…') && text.len() < 1100, "{text}");
    }
}
