//! Kernels and the API calls that launched them, met by process and correlation id -> when and on
//! which thread each kernel was launched.
//!
//! The kernels are sorted once and the far more numerous API rows are streamed past them, so that
//! neither index nor join of the database is needed.

use rustc_hash::{FxHashMap, FxHashSet};

use super::database::{Database, Table, integer};

/// Name of the table of API calls: runtime and driver.
pub(super) const TABLE: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";

/// More kernels than this are counted but not placed in ranges (32 bytes each, 40 with their times).
pub(super) const MAX_KERNELS: usize = 12_000_000;

/// The process in a global thread number.
pub(super) const PROCESS_BITS: i64 = !0x00ff_ffff;
/// Calls of which a whole block has no record were lost: those that nsys leaves out by design stand
/// between recorded ones, some 30 at a time.
const BLOCK: u32 = 1024;
/// Fewer lost blocks, or a smaller part of all, may be a part of the program that nsys does not trace.
const LOST_BLOCKS: u64 = 8;
const LOST_PART: u64 = 10;
/// No thread.
const NOWHERE: u32 = u32::MAX;

/// A kernel on its way to its launch; `T`: what its times are needed for.
#[derive(Clone, Copy, Debug)]
struct Launch<T> {
    times: T,
    /// When the API call began, ns.
    time: i64,
    correlation: u32,
    process: u32,
    group: u32,
    thread: u32,
}

/// The kernels, and where they were launched.
#[derive(Debug)]
pub(super) struct Launches<T> {
    processes: FxHashMap<i64, u32>,
    threads: FxHashMap<i64, u32>,
    launches: Vec<Launch<T>>,
    sorted: bool,
    /// Blocks of the sequence of calls of a process that have a record.
    blocks: FxHashSet<(i64, u32)>,
    /// Kernels without a correlation id, or beyond the limit.
    unplaced: u64,
    /// Kernels beyond the limit.
    pub(super) beyond_limit: u64,
}

impl<T> Default for Launches<T> {
    fn default() -> Self {
        Self {
            processes: FxHashMap::default(),
            threads: FxHashMap::default(),
            launches: Vec::new(),
            sorted: false,
            blocks: FxHashSet::default(),
            unplaced: 0,
            beyond_limit: 0,
        }
    }
}

/// A kernel whose launch was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed<T> {
    /// Number of the group of kernels.
    pub(super) group: u32,
    /// When it ran.
    pub(super) times: T,
    /// When the API call began, ns.
    pub(super) time: i64,
    /// Global number of the thread that launched it, or of its process where `known` is not set.
    pub(super) thread: i64,
    /// Its launch is in the file.
    pub(super) known: bool,
}

impl<T: Copy> Launches<T> {
    /// Adds a kernel.
    pub(super) fn kernel(
        &mut self,
        process: Option<i64>,
        correlation: Option<u32>,
        group: u32,
        times: T,
    ) {
        let Some(correlation) = correlation else {
            self.unplaced += 1;
            return;
        };
        if self.launches.len() >= MAX_KERNELS {
            self.unplaced += 1;
            self.beyond_limit += 1;
            return;
        }
        let process = number(&mut self.processes, process.unwrap_or(0) & PROCESS_BITS);
        let launch = Launch { times, time: 0, correlation, process, group, thread: NOWHERE };
        self.launches.push(launch);
        self.sorted = false;
    }

    /// Reads the API calls; gives their number even if an error ends the reading.
    pub(super) fn read(
        &mut self,
        database: &Database,
        table: &Table,
        calls: &mut u64,
    ) -> rusqlite::Result<()> {
        self.sort();
        let mut last = None;
        database.rows(table, &["start", "correlationId", "globalTid"], "", |row| {
            *calls += 1;
            let correlation = integer(row, 1).and_then(|id| u32::try_from(id).ok());
            if let (Some(correlation), Some(time)) = (correlation, integer(row, 0)) {
                let process = integer(row, 2).unwrap_or(0) & PROCESS_BITS;
                let block = (process, correlation / BLOCK);
                if last != Some(block) {
                    self.blocks.insert(block);
                    last = Some(block);
                }
                self.call(integer(row, 2).unwrap_or(0), correlation, time);
            }
        })
    }

    /// Calls that must have been lost, about: none where what is missing may be by design.
    pub(super) fn call_numbers_missing(&self) -> u64 {
        let mut processes: FxHashMap<i64, (u32, u32, u64)> = FxHashMap::default();
        for &(process, block) in &self.blocks {
            let (first, last, seen) = processes.entry(process).or_insert((block, block, 0));
            (*first, *last, *seen) = ((*first).min(block), (*last).max(block), *seen + 1);
        }
        let missing = |(first, last, seen): (u32, u32, u64)| {
            let all = u64::from(last - first) + 1;
            let lost = all.saturating_sub(seen);
            if lost >= LOST_BLOCKS && lost >= all / LOST_PART { lost * u64::from(BLOCK) } else { 0 }
        };
        processes.into_values().map(missing).sum()
    }

    fn sort(&mut self) {
        if !self.sorted {
            self.launches.sort_unstable_by_key(|l| (l.process, l.correlation, l.group));
            self.sorted = true;
        }
    }

    /// Notes an API call on all kernels that it launched: a graph launch has many. Of several calls
    /// with one id the first one counts.
    fn call(&mut self, thread: i64, correlation: u32, time: i64) {
        let Some(&process) = self.processes.get(&(thread & PROCESS_BITS)) else { return };
        let wanted = (process, correlation);
        let first = self.launches.partition_point(|l| (l.process, l.correlation) < wanted);
        let rest = self.launches.get_mut(first..).unwrap_or_default();
        let mut launched =
            rest.iter_mut().take_while(|l| (l.process, l.correlation) == wanted).peekable();
        let earlier = launched.peek().is_some_and(|l| l.thread == NOWHERE || time < l.time);
        if earlier {
            let thread = number(&mut self.threads, thread);
            launched.for_each(|l| (l.thread, l.time) = (thread, time));
        }
    }

    /// Hands every kernel whose launch was found to `take`, and gives the number of the others.
    pub(super) fn finish(self, mut take: impl FnMut(Placed<T>)) -> u64 {
        let unplaced = self.unplaced;
        let places = self.places();
        let mut unknown = 0;
        for launch in self.launches {
            match places.of(&launch) {
                placed if placed.known => take(placed),
                _ => unknown += 1,
            }
        }
        unplaced + unknown
    }

    /// All kernels in the order of their launches; those whose launch was not found are the last.
    pub(super) fn in_order(mut self) -> InOrder<T> {
        self.launches
            .sort_unstable_by_key(|l| (l.thread == NOWHERE, l.time, l.correlation, l.group));
        InOrder { places: self.places(), launches: self.launches }
    }

    fn places(&self) -> Places {
        Places { threads: by_number(&self.threads), processes: by_number(&self.processes) }
    }
}

/// Kernels in the order of their launches.
#[derive(Debug)]
pub(super) struct InOrder<T> {
    launches: Vec<Launch<T>>,
    places: Places,
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self { launches: Vec::new(), places: Places::default() }
    }
}

impl<T: Copy> InOrder<T> {
    /// The kernel at this place of the order.
    pub(super) fn get(&self, at: usize) -> Option<Placed<T>> {
        self.launches.get(at).map(|launch| self.places.of(launch))
    }
}

/// Global numbers of threads and processes.
#[derive(Debug, Default)]
struct Places {
    threads: Vec<i64>,
    processes: Vec<i64>,
}

impl Places {
    fn of<T: Copy>(&self, launch: &Launch<T>) -> Placed<T> {
        let &Launch { group, times, time, .. } = launch;
        let thread = self.threads.get(launch.thread as usize).copied();
        let process = self.processes.get(launch.process as usize).copied();
        let known = thread.is_some();
        Placed { group, times, time, thread: thread.or(process).unwrap_or(0), known }
    }
}

fn by_number(numbers: &FxHashMap<i64, u32>) -> Vec<i64> {
    let mut values = vec![0; numbers.len()];
    for (&value, &number) in numbers {
        if let Some(slot) = values.get_mut(number as usize) {
            *slot = value;
        }
    }
    values
}

fn number(numbers: &mut FxHashMap<i64, u32>, value: i64) -> u32 {
    let next = numbers.len() as u32;
    *numbers.entry(value).or_insert(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: i64 = 1 << 24;
    const B: i64 = 2 << 24;

    #[test]
    fn a_kernel_belongs_to_the_call_of_its_own_process() {
        let mut launches = Launches::default();
        for (process, correlation, group) in [(B, 5, 2), (A, 5, 1), (A, 7, 3), (A, 7, 4), (A, 9, 5)]
        {
            launches.kernel(Some(process), Some(correlation), group, 10);
        }
        launches.kernel(Some(A), None, 6, 10);
        launches.sort();
        for (thread, correlation, time) in [
            (A + 1, 5, 100),
            (B + 1, 5, 200),
            (A + 2, 7, 310),
            (A + 2, 7, 300),
            (A + 2, 7, 320),
            (A + 1, 8, 1),
        ] {
            launches.call(thread, correlation, time);
        }
        let mut found = Vec::new();
        let unplaced = launches
            .finish(|placed: Placed<u64>| found.push((placed.thread, placed.group, placed.time)));
        found.sort_unstable();
        assert_eq!(found, [(A + 1, 1, 100), (A + 2, 3, 300), (A + 2, 4, 300), (B + 1, 2, 200)]);
        assert_eq!(unplaced, 2, "one without id, one whose call is not in the file");
    }
}
