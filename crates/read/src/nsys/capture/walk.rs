//! Rows of ranges, in the order of time, and launches -> records of ranges and of their work.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;

use foldhash::HashMap;
use stage2_contract::text::without_instance;
use stage2_contract::trace::{NONE, RANGE_OUTSIDE, RANGE_UNKNOWN};
use stage2_model::nsys::Counts;

use super::limits::{LeftOut, Limits, MAX_CONTINUED};
use super::process::{Process, Processes};
use super::rows::{self, Missing, Name, OPEN, Occurrence};
use super::work::{Origin, PROCESS_BITS, Piece, Work};
use crate::nsys::database::Database;

/// Numbers of registered names that are remembered; more are looked up again.
const MAX_REGISTERED: usize = 1 << 20;
/// Threads before those of which nothing is open are forgotten.
const MANY_THREADS: usize = 1 << 16;

#[derive(Debug)]
pub(super) enum Stopped {
    /// A range begins before the one in front of it.
    Disorder,
    /// More than is held; of what.
    TooMany(String),
    /// The rows could not be read, or not be sorted; why.
    Unreadable(String),
}

pub(super) struct Walked {
    pub(super) processes: Processes,
    pub(super) names_cut: u64,
    pub(super) left_out: LeftOut,
    pub(super) counts: Counts,
    pub(super) rest_missing: Option<String>,
}

struct Thread {
    process: usize,
    stack: Stack,
}

pub(super) struct Walk<'a> {
    work: &'a Work,
    limits: Limits,
    nested: bool,
    strings: Strings,
    registered: HashMap<i64, u32>,
    processes: Processes,
    threads: HashMap<i64, Thread>,
    many_threads: usize,
    /// Ranges that open at one time, and their threads.
    batch: Vec<(i64, Opening)>,
    next: usize,
    open: usize,
    paths: usize,
    stages: usize,
    groups: usize,
    /// Bytes of names of kernels, in each process that ran them.
    kernel_name_bytes: usize,
    continuations: u64,
    left_out: LeftOut,
}

type Flow = ControlFlow<Stopped>;

impl<'a> Walk<'a> {
    pub(super) fn new(work: &'a Work, processes: Processes, limits: Limits, nested: bool) -> Self {
        Self {
            work,
            limits,
            nested,
            strings: Strings::default(),
            registered: HashMap::default(),
            processes,
            threads: HashMap::default(),
            many_threads: MANY_THREADS,
            batch: Vec::new(),
            next: 0,
            open: 0,
            paths: 0,
            stages: 0,
            groups: 0,
            kernel_name_bytes: 0,
            continuations: 0,
            left_out: LeftOut::default(),
        }
    }

    /// Goes through the ranges of a file: as they come, or sorted by SQLite; `None` leaves them out.
    /// `database` is the same file.
    pub(super) fn run(
        mut self,
        path: &Path,
        database: &Database,
        sorted: Option<bool>,
    ) -> Result<Walked, Stopped> {
        let (mut counts, mut rest_missing) = (Counts::default(), None);
        let table = rows::table(database).unwrap_or_else(|error| {
            rest_missing = Some(error.to_string());
            None
        });
        if let Some((table, sorted)) = table.zip(sorted) {
            let row = |row: Occurrence<&[u8]>| self.row(database, row);
            match rows::each(path, &table, sorted, &mut counts, row) {
                Ok(None) => {}
                Ok(Some(stopped)) => return Err(stopped),
                // What came before the damage is used.
                Err(Missing::Rest(why)) if !sorted => rest_missing = Some(why),
                Err(Missing::Rest(why)) => {
                    return Err(Stopped::Unreadable(format!("cannot be sorted: {why}")));
                }
                Err(Missing::All(why)) => {
                    return Err(Stopped::Unreadable(format!("cannot be read: {why}")));
                }
            }
        }
        if let ControlFlow::Break(stopped) = self.end(database) {
            return Err(stopped);
        }
        let Walk { processes, strings, left_out, .. } = self;
        Ok(Walked { processes, names_cut: strings.cut, left_out, counts, rest_missing })
    }

    fn row(&mut self, database: &Database, row: Occurrence<&[u8]>) -> Flow {
        let Occurrence { span: (start, end), thread, domain, start_end, name } = row;
        if let Some(&(_, first)) = self.batch.first() {
            if start < first.start {
                return Flow::Break(Stopped::Disorder);
            }
            if start > first.start {
                self.open_batch()?;
            }
        }
        if !self.nested {
            // What a library has open around a range of the user would hide that.
            let of_library = self.processes.domains.is_library(thread, domain);
            if of_library || self.threads.get(&thread).is_some_and(|t| t.stack.holds(end)) {
                return Flow::Continue(());
            }
        }
        if self.batch.len() >= self.limits.open {
            let why = format!("more than {} of its ranges begin at once", self.limits.open);
            return Flow::Break(Stopped::TooMany(why));
        }
        let limit = if self.nested { self.limits.paths } else { self.limits.stages };
        let long = self.strings.bytes() >= self.limits.name_bytes;
        if long || self.strings.len() >= limit || self.paths >= limit {
            if long {
                let most = self.limits.name_bytes;
                self.too_many("its ranges have names of more than", most, "bytes")?;
            }
            self.too_many("its ranges have more than", limit, "names or paths")?;
            self.left_out.ranges += 1;
            let (name, domain) = (self.strings.name(OTHERS), None);
            self.batch.push((thread, Opening { start, end, name, domain, start_end }));
            return Flow::Continue(());
        }
        let name = self.name(database, name);
        let Walk { processes, strings, .. } = &mut *self;
        let domain = processes.domains.name(thread, domain);
        let domain = domain.map(|domain| strings.name(domain.as_bytes()));
        self.batch.push((thread, Opening { start, end, name, domain, start_end }));
        Flow::Continue(())
    }

    /// Breaks off where ranges within others are followed, too.
    fn too_many(&self, what: &str, limit: usize, of: &str) -> Flow {
        if self.nested {
            return Flow::Break(Stopped::TooMany(format!("{what} {limit} {of}")));
        }
        Flow::Continue(())
    }

    fn name(&mut self, database: &Database, name: Name<&[u8]>) -> u32 {
        let Name::Registered(id) = name else {
            return match name.bytes(database) {
                Some(text) => self.strings.range(&text),
                None => self.strings.name(NO_NAME),
            };
        };
        if let Some(&known) = self.registered.get(&id) {
            return known;
        }
        if self.registered.len() >= MAX_REGISTERED {
            self.registered.clear();
        }
        let name = self.strings.range(name.bytes(database).as_deref().unwrap_or(NO_NAME));
        self.registered.insert(id, name);
        name
    }

    /// Opens the ranges that begin at one time, the longest first, after what was launched before.
    fn open_batch(&mut self) -> Flow {
        let mut batch = std::mem::take(&mut self.batch);
        let Some(&(_, first)) = batch.first() else { return Flow::Continue(()) };
        self.launches(Some(first.start))?;
        // Stable: of equal ranges the one that came first is the outer one.
        batch.sort_by_key(|(_, opening)| Reverse(opening.end));
        for (thread, opening) in batch.drain(..) {
            self.open_one(thread, opening)?;
        }
        self.batch = batch;
        Flow::Continue(())
    }

    fn open_one(&mut self, thread: i64, opening: Opening) -> Flow {
        if self.threads.len() >= self.many_threads || self.open >= self.limits.open {
            self.forget_threads(opening.start);
        }
        if self.open >= self.limits.open {
            let why = format!("more than {} of its ranges are open at once", self.limits.open);
            return Flow::Break(Stopped::TooMany(why));
        }
        let Walk { threads, processes, nested, strings, .. } = self;
        let thread = threads.entry(thread).or_insert_with(|| Thread {
            process: processes.number(thread & PROCESS_BITS),
            stack: Stack { open: VecDeque::new(), nested: *nested },
        });
        let Some(process) = processes.get_mut(thread.process) else {
            return Flow::Continue(());
        };
        let (open, before) = (thread.stack.len(), process.paths());
        self.continuations += thread.stack.open(process, strings, opening);
        self.open = (self.open + thread.stack.len()).saturating_sub(open);
        let after = process.paths();
        self.paths += after.0 - before.0;
        self.stages += after.1 - before.1;
        if self.stages > self.limits.stages {
            self.too_many("it has more than", self.limits.stages, "kinds of outermost ranges")?;
        }
        self.overlapping()
    }

    fn overlapping(&self) -> Flow {
        let limit = self.limits.continuations;
        if self.continuations > limit {
            self.too_many("its ranges overlap without nesting more than", limit as usize, "times")?;
        }
        Flow::Continue(())
    }

    /// Places the work that was launched before `until`, or all whose launch is known.
    fn launches(&mut self, until: Option<i64>) -> Flow {
        while let Some((Origin::Call { thread, time }, piece)) = self.work.launch(self.next) {
            if until.is_some_and(|until| time >= until) {
                break;
            }
            self.next += 1;
            let Walk { threads, processes, strings, .. } = self;
            let (number, range) = match threads.get_mut(&thread) {
                Some(thread) => {
                    let open = thread.stack.len();
                    if let Some(process) = processes.get_mut(thread.process) {
                        self.continuations += thread.stack.close(process, strings, time, false);
                    }
                    self.open = (self.open + thread.stack.len()).saturating_sub(open);
                    (thread.process, thread.stack.range())
                }
                None => (processes.number(thread & PROCESS_BITS), RANGE_OUTSIDE),
            };
            self.add(number, &piece, range)?;
            self.overlapping()?;
        }
        Flow::Continue(())
    }

    fn add(&mut self, process: usize, piece: &Piece, range: u64) -> Flow {
        let (mut piece, mut range) = (*piece, range);
        let limits = self.limits;
        if !self.nested && self.groups >= limits.outermost_groups && range != RANGE_UNKNOWN {
            self.left_out.unplaced += 1;
            self.left_out.unplaced_kernels += u64::from(self.work.is_kernel(&piece));
            range = RANGE_UNKNOWN;
        }
        // Each process has its copy of the names of its kernels.
        let long = self.kernel_name_bytes >= limits.name_bytes.saturating_mul(2);
        if (long || self.groups >= limits.all_groups())
            && let Some(other) = self.work.among_others(&piece)
        {
            self.left_out.lumped += 1;
            piece = other;
        }
        if let Some(process) = self.processes.get_mut(process) {
            let grown = process.work(self.work, &piece, range);
            self.groups += grown.groups;
            self.kernel_name_bytes += grown.name_bytes;
        }
        if self.groups > self.limits.groups {
            self.too_many("its kernels make more than", self.limits.groups, "rows")?;
        }
        Flow::Continue(())
    }

    fn end(&mut self, database: &Database) -> Flow {
        self.open_batch()?;
        self.launches(None)?;
        while let Some((Origin::Process(process), piece)) = self.work.launch(self.next) {
            self.next += 1;
            let process = self.processes.number(process & PROCESS_BITS);
            self.add(process, &piece, RANGE_UNKNOWN)?;
        }
        let (work, mut flow) = (self.work, Flow::Continue(()));
        work.more(database, |process, piece| {
            if flow.is_continue() {
                let number = self.processes.number(process);
                flow = self.add(number, piece, RANGE_UNKNOWN);
            }
        });
        flow?;
        // By their numbers: a map has another order each time.
        let mut threads: Vec<_> = self.threads.iter_mut().collect();
        threads.sort_unstable_by_key(|(number, _)| **number);
        for (_, thread) in threads {
            if let Some(process) = self.processes.get_mut(thread.process) {
                self.continuations += thread.stack.close_all(process, &self.strings);
            }
        }
        self.overlapping()
    }

    fn forget_threads(&mut self, now: i64) {
        let Walk { threads, processes, strings, continuations, .. } = self;
        let mut in_order: Vec<_> = threads.iter_mut().collect();
        in_order.sort_unstable_by_key(|(number, _)| **number);
        for (_, thread) in in_order {
            if let Some(process) = processes.get_mut(thread.process) {
                *continuations += thread.stack.close(process, strings, now, false);
            }
        }
        threads.retain(|_, thread| thread.stack.len() > 0);
        self.open = threads.values().map(|thread| thread.stack.len()).sum();
        self.many_threads = MANY_THREADS.max(2 * self.threads.len());
    }
}

/// Stands for outermost ranges of too many names.
const OTHERS: &[u8] = b"(other ranges)";
const NO_NAME: &[u8] = b"(no name)";

#[derive(Clone, Copy, Debug)]
struct Opening {
    start: i64,
    /// When it closes, ns; [`OPEN`]: never.
    end: i64,
    name: u32,
    domain: Option<u32>,
    start_end: bool,
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
///
/// Ranges of push and pop nest; start/end ranges may outlive the one around them, and then go on
/// under another path, and those of one name stand side by side, as the collector records it. Where only outermost ranges are wanted, the one
/// that was opened first is the outer one.
#[derive(Debug)]
struct Stack {
    open: VecDeque<Open>,
    /// Also ranges within others. Else those that are kept end one after the other.
    nested: bool,
}

impl Stack {
    /// Opens a range; ranges have to come by their start, of equal ones the longest first.
    /// Gives the number of ranges that went on under another path.
    fn open(&mut self, process: &mut Process, strings: &Strings, opening: Opening) -> u64 {
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
    fn close(&mut self, process: &mut Process, strings: &Strings, at: i64, also_at: bool) -> u64 {
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

    fn close_all(&mut self, process: &mut Process, strings: &Strings) -> u64 {
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
    fn holds(&self, end: i64) -> bool {
        self.open.back().is_some_and(|last| end <= last.opening.end)
    }

    fn range(&self) -> u64 {
        let open = if self.nested { self.open.back() } else { self.open.front() };
        open.map_or(RANGE_OUTSIDE, |open| open.range)
    }

    fn len(&self) -> usize {
        self.open.len()
    }
}

/// Names are cut here, bytes: where the collector cuts them.
pub(super) const TEXT_LIMIT: usize = 1024;

#[derive(Default)]
pub(super) struct Strings {
    by_text: HashMap<Rc<[u8]>, u32>,
    list: Vec<Rc<[u8]>>,
    bytes: usize,
    pub(super) cut: u64,
}

impl Strings {
    /// The number of a range's name, without what tells one call of an operator from the next.
    pub(super) fn range(&mut self, text: &[u8]) -> u32 {
        self.name(without_instance(text))
    }

    /// The number of a name as it is, cut if it is too long.
    pub(super) fn name(&mut self, mut text: &[u8]) -> u32 {
        if let Some(cut) = text.get(..TEXT_LIMIT).filter(|cut| cut.len() < text.len()) {
            self.cut += 1;
            text = cut;
        }
        if let Some(&known) = self.by_text.get(text) {
            return known;
        }
        self.bytes += text.len();
        let (text, fresh): (Rc<[u8]>, u32) = (text.into(), self.list.len() as u32);
        self.list.push(Rc::clone(&text));
        self.by_text.insert(text, fresh);
        fresh
    }

    /// The name of a number; empty for one that was not given out.
    pub(super) fn text(&self, number: u32) -> &[u8] {
        self.list.get(number as usize).map_or(&[], AsRef::as_ref)
    }
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_an_operator_share_a_name_and_long_names_are_cut() {
        let mut strings = Strings::default();
        let first = strings.range(b"aten::mm, op_id = 1");
        assert_eq!(strings.range(b"aten::mm, op_id = 2"), first);
        let long = vec![b'x'; TEXT_LIMIT + 1];
        assert_eq!(strings.range(&long), strings.range(&long[..TEXT_LIMIT]));
        assert_eq!((strings.cut, strings.len()), (1, 2));
        assert_eq!((strings.text(1).len(), strings.bytes()), (TEXT_LIMIT, TEXT_LIMIT + 8));
    }
}
