//! Ranges of one thread in the order of time -> which of them are open, and the records of their
//! openings and closings.
//!
//! Ranges of push and pop nest; start/end ranges may outlive the one around them, and then go on
//! under another path, and those of one name stand side by side, as the collector records it. Where only outermost ranges are wanted, the one
//! that was opened first is the outer one.

use std::collections::VecDeque;

use stage2_contract::trace::{NONE, RANGE_OUTSIDE};

use super::limits::MAX_CONTINUED;
use super::process::Process;
use super::rows::OPEN;
use super::strings::Strings;

#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    pub(super) start: i64,
    /// When it closes, ns; [`OPEN`]: never.
    pub(super) end: i64,
    pub(super) name: u32,
    pub(super) domain: Option<u32>,
    pub(super) start_end: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    opening: Opening,
    /// The least end of this one and of those before it.
    least_end: i64,
    range: u64,
    path: u32,
    parent: Parent,
}

/// What a range is in.
#[derive(Clone, Copy, Debug)]
struct Parent {
    range: u64,
    path: u32,
}

impl Parent {
    /// What `opening` is in where `innermost` is the innermost range.
    fn of(opening: &Opening, innermost: Option<&Open>) -> Parent {
        let kind = |o: &Opening| (o.name, o.domain);
        match innermost {
            None => Parent { range: RANGE_OUTSIDE, path: NONE },
            Some(open)
                if opening.start_end
                    && open.opening.start_end
                    && kind(opening) == kind(&open.opening) =>
            {
                open.parent
            }
            Some(&Open { range, path, .. }) => Parent { range, path },
        }
    }
}

/// What is open on one thread, the outermost first.
#[derive(Debug)]
pub(super) struct Stack {
    open: VecDeque<Open>,
    /// Also ranges within others. Else those that are kept end one after the other.
    nested: bool,
}

impl Stack {
    pub(super) fn new(nested: bool) -> Self {
        Self { open: VecDeque::new(), nested }
    }

    /// Opens a range; ranges have to come by their start, of equal ones the longest first.
    /// Gives the number of ranges that went on under another path.
    pub(super) fn open(
        &mut self,
        process: &mut Process,
        strings: &Strings,
        opening: Opening,
    ) -> u64 {
        let Opening { start, end, name, domain, .. } = opening;
        // One that ends where this one begins is not around it, unless it holds it. Of outermost
        // ranges, what is launched at that time belongs to the earlier one.
        let continued = self.close(process, strings, start, self.nested && end > start);
        if !self.nested && self.holds(end) {
            return continued;
        }
        let innermost = self.open.back().filter(|_| self.nested);
        let parent = Parent::of(&opening, innermost);
        let least_end = innermost.map_or(end, |open| open.least_end.min(end));
        let path = process.path(strings, parent.path, name, domain);
        let range = process.open(path, parent.range, start, 0);
        self.open.push_back(Open { opening, least_end, range, path, parent });
        continued
    }

    /// Closes what ends before `at`, or also `at` it. Gives the number of ranges that went on under
    /// another path; it breaks off beyond [`MAX_CONTINUED`].
    pub(super) fn close(
        &mut self,
        process: &mut Process,
        strings: &Strings,
        at: i64,
        also_at: bool,
    ) -> u64 {
        let mut continued = 0;
        while let Some(end) = self.least_end().filter(|&end| end < at || (also_at && end == at)) {
            if continued > MAX_CONTINUED {
                break;
            }
            // Of those that end together the innermost closes first.
            let place = match self.nested {
                true => self.open.iter().rposition(|open| open.opening.end == end).unwrap_or(0),
                false => 0,
            };
            let Some(closed) = self.open.remove(place) else { break };
            process.close(closed.range, end);
            if self.nested {
                continued += self.go_on(process, strings, place, &closed, end);
            }
        }
        continued
    }

    pub(super) fn close_all(&mut self, process: &mut Process, strings: &Strings) -> u64 {
        self.close(process, strings, OPEN, false)
    }

    /// What was opened in `closed`, which was at `from`, goes on in the one around that.
    fn go_on(
        &mut self,
        process: &mut Process,
        strings: &Strings,
        from: usize,
        closed: &Open,
        at: i64,
    ) -> u64 {
        let is_around = self.open.range(from..).any(|open| open.parent.range == closed.range);
        let mut before = from.checked_sub(1).and_then(|place| self.open.get(place)).copied();
        let mut continued = 0;
        for open in self.open.range_mut(from..) {
            let Opening { end, name, domain, .. } = open.opening;
            if is_around {
                open.parent = Parent::of(&open.opening, before.as_ref());
                open.path = process.path(strings, open.parent.path, name, domain);
                open.range = process.open(open.path, open.parent.range, at, open.range);
                continued += 1;
            }
            open.least_end = before.map_or(end, |before| before.least_end.min(end));
            before = Some(*open);
        }
        continued
    }

    fn least_end(&self) -> Option<i64> {
        match self.nested {
            true => self.open.back().map(|open| open.least_end),
            false => self.open.front().map(|open| open.opening.end),
        }
    }

    /// Whether a range that opens now and ends at `end` is within one that is open; of outermost
    /// ones the last ends last.
    pub(super) fn holds(&self, end: i64) -> bool {
        self.open.back().is_some_and(|last| end <= last.opening.end)
    }

    pub(super) fn range(&self) -> u64 {
        let open = if self.nested { self.open.back() } else { self.open.front() };
        open.map_or(RANGE_OUTSIDE, |open| open.range)
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}
