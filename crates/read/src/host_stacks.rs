//! Frames and stacks of the host, as a trace file defines them -> lines of code.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use stage2_contract::text::{function_name, shorten, visible};
use stage2_contract::trace::{HostStack, NONE};
use stage2_model::HostFrame;

/// The most frames, and the most stacks, unless another limit is set.
const MOST: usize = 1 << 20;
/// Frames of a stack that are read, as many as the collector keeps.
pub(crate) const DEPTH: usize = 1 << 10;
/// Characters of a function, and of a file.
const FUNCTION_CHARS: usize = 120;
pub(crate) const FILE_CHARS: usize = 160;
/// Bytes at each end of a longer name that are read: more than the characters of it that are kept.
const END_BYTES: usize = 4 * FILE_CHARS;

/// A line of a function. Its texts are numbers of names.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    function: Option<u32>,
    file: Option<u32>,
    line: u32,
}

/// The stacks of a trace file.
#[derive(Debug)]
pub struct HostStacks {
    frames: FxHashMap<u32, Frame>,
    /// The parent and the frame of each.
    stacks: FxHashMap<u32, (u32, u32)>,
    most: usize,
}

impl Default for HostStacks {
    fn default() -> Self {
        Self::with_limit(MOST)
    }
}

impl HostStacks {
    /// Keeps at most this many frames, and this many stacks.
    pub fn with_limit(most: usize) -> Self {
        Self { frames: FxHashMap::default(), stacks: FxHashMap::default(), most }
    }

    /// Adds a frame with the numbers of the names of its function and its file.
    pub fn frame(&mut self, id: u32, (function, file): (Option<u32>, Option<u32>), line: u32) {
        if self.frames.len() < self.most {
            self.frames.entry(id).or_insert(Frame { function, file, line });
        }
    }

    /// Adds a stack. A repeated definition, as in a later piece of a trace, changes nothing: so stacks cannot form
    /// a cycle.
    pub fn stack(&mut self, stack: &HostStack) {
        let is_rooted = stack.parent == NONE || self.stacks.contains_key(&stack.parent);
        if is_rooted && stack.id != NONE && self.stacks.len() < self.most {
            self.stacks.entry(stack.id).or_insert((stack.parent, stack.frame));
        }
    }

    /// Returns the lines of a stack, the innermost first. `name` finds a name by its number.
    pub fn lines<'n>(
        &self,
        stack: u32,
        name: impl Fn(u32) -> Option<&'n [u8]>,
    ) -> impl Iterator<Item = HostFrame> {
        self.frames_of(stack).map(move |frame| self.line(frame, &name))
    }

    /// Returns the frames of a stack by their identifiers, the innermost first.
    pub(crate) fn frames_of(&self, stack: u32) -> impl Iterator<Item = u32> {
        let first = self.stacks.get(&stack);
        // A stack is kept only if its parent is already kept, so this ends.
        let all = std::iter::successors(first, |(parent, _)| self.stacks.get(parent));
        all.take(DEPTH).map(|(_, frame)| *frame)
    }

    /// Returns a frame with its texts. `name` finds a name by its number.
    pub(crate) fn line<'n>(&self, frame: u32, name: impl Fn(u32) -> Option<&'n [u8]>) -> HostFrame {
        let text = |of: Option<u32>, limit| match of.and_then(&name) {
            Some(bytes) => shorten(&visible(&ends(bytes)), limit),
            None => "(not known)".to_owned(),
        };
        let Frame { function, file, line } = self.frames.get(&frame).copied().unwrap_or_default();
        let file = in_package(&text(file, FILE_CHARS)).to_owned();
        // Native code has no lines. Its names may be mangled.
        let mangled = function.filter(|_| line == 0).and_then(&name);
        let function = match mangled.filter(|name| is_mangled(name)) {
            Some(mangled) => shorten(&function_name(mangled), FUNCTION_CHARS),
            None => text(function, FUNCTION_CHARS),
        };
        HostFrame { function, file, line }
    }
}

fn is_mangled(name: &[u8]) -> bool {
    name.len() <= 2 * END_BYTES && [&b"_Z"[..], b"_R"].iter().any(|start| name.starts_with(start))
}

/// Returns the part of a name of which [`shorten`] keeps something: a name of any length costs the same.
pub(crate) fn ends(name: &[u8]) -> Cow<'_, [u8]> {
    match (name.get(..END_BYTES), name.len().checked_sub(END_BYTES)) {
        (Some(head), Some(tail)) if tail > END_BYTES => {
            Cow::Owned([head, name.get(tail..).unwrap_or_default()].concat())
        }
        _ => Cow::Borrowed(name),
    }
}

/// Returns a path relative to the folder of packages or of the standard library.
fn in_package(file: &str) -> &str {
    for folder in ["site-packages/", "dist-packages/"] {
        if let Some((_, rest)) = file.rsplit_once(folder) {
            return rest;
        }
    }
    let Some((_, rest)) = file.rsplit_once("/lib/python3.") else { return file };
    rest.split_once('/').map_or(file, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_native_functions_are_demangled_and_bounded() {
        let (mangled, huge) =
            (&b"_ZN6engine9Scheduler8scheduleEi"[..], [b"_Z", &[b'x'; 5_000][..]].concat());
        let names = [&b"libengine.so"[..], mangled, &huge, b"_Z?"];
        let mut stacks = HostStacks::default();
        let at = |function, line| (function, line);
        for (id, (function, line)) in
            [at(1, 0), at(1, 7), at(2, 0), at(3, 0)].into_iter().enumerate()
        {
            stacks.frame(id as u32, (Some(function), Some(0)), line);
        }
        let text = |id| stacks.line(id, |name| names.get(name as usize).copied()).function;
        assert_eq!(text(0), "engine::Scheduler::schedule");
        assert_eq!(
            text(1),
            "_ZN6engine9Scheduler8scheduleEi",
            "Python has lines, and such names too"
        );
        assert!(text(2).chars().count() <= FUNCTION_CHARS);
        assert_eq!(text(3), "_Z?");
    }

    #[test]
    fn of_a_huge_name_the_ends_are_kept_as_of_any_other() {
        for length in [10, 159, 161, 1_281, 50_000] {
            let whole: String = ('a'..='z').chain(['\n', 'é', '😀']).cycle().take(length).collect();
            let cut = shorten(&visible(&ends(whole.as_bytes())), FILE_CHARS);
            assert_eq!(cut, shorten(&visible(whole.as_bytes()), FILE_CHARS), "{length}");
        }
    }
}
