//! GPU work and the API calls that launched it, joined by process and correlation id -> when and on
//! which thread each piece was launched.
//!
//! The pieces are sorted once and the far more numerous API rows are streamed past them, so that
//! the database needs neither an index nor a join.

use foldhash::{HashMap, HashSet};

use super::database::{Database, Table, integer};

pub(super) const TABLE: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";

/// More GPU work than this is counted but not placed in ranges (40 bytes each).
pub(super) const MAX_KERNELS: usize = 7_000_000;

/// The process in a global thread number.
pub(super) const PROCESS_BITS: i64 = !0x00ff_ffff;
/// A block of calls without any record was lost: the calls that nsys leaves out by design stand
/// between recorded ones, some 30 at a time.
const BLOCK: u32 = 1024;
/// Fewer lost blocks, or a smaller part of all, may be a part of the program that nsys does not trace.
const LOST_BLOCKS: u64 = 8;
const LOST_PART: u64 = 10;
/// Blocks that are remembered: those of a thousand million calls.
const MAX_BLOCKS: usize = 1 << 20;
/// Threads that launch. Work of further ones counts as work whose launch is not in the file.
const MAX_THREADS: usize = 1 << 20;
const NOWHERE: u32 = u32::MAX;

/// A piece of GPU work on its way to its launch.
#[derive(Clone, Copy, Debug)]
struct Launch {
    /// Start and end of the work, ns.
    span: (i64, i64),
    /// When the API call began, ns.
    time: i64,
    correlation: u32,
    process: u32,
    group: u32,
    thread: u32,
}

#[derive(Debug, Default)]
pub(super) struct Launches {
    processes: HashMap<i64, u32>,
    threads: HashMap<i64, u32>,
    launches: Vec<Launch>,
    /// Blocks of the sequence of calls of a process that have a record, up to [`MAX_BLOCKS`].
    blocks: HashSet<(i64, u32)>,
    more_blocks: bool,
}

impl Launches {
    /// Adds a piece of work; `group` and `span` come back with its launch.
    pub(super) fn add(&mut self, process: i64, correlation: u32, group: u32, span: (i64, i64)) {
        let process = number(&mut self.processes, process & PROCESS_BITS);
        if self.launches.len() == self.launches.capacity() {
            // Doubling would go far beyond what is ever held.
            let most = MAX_KERNELS.saturating_sub(self.launches.len()).max(1);
            self.launches.reserve_exact(self.launches.len().clamp(64, most.max(64)));
        }
        self.launches.push(Launch { span, time: 0, correlation, process, group, thread: NOWHERE });
    }

    /// Says where the piece that was added last was launched.
    pub(super) fn place_last(&mut self, thread: i64, time: i64) {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&thread) {
            return;
        }
        let thread = number(&mut self.threads, thread);
        if let Some(last) = self.launches.last_mut() {
            (last.thread, last.time) = (thread, time);
        }
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
                let thread = integer(row, 2).unwrap_or(0);
                let block = (thread & PROCESS_BITS, correlation / BLOCK);
                if last != Some(block) {
                    if self.blocks.len() < MAX_BLOCKS {
                        self.blocks.insert(block);
                    } else {
                        self.more_blocks |= !self.blocks.contains(&block);
                    }
                    last = Some(block);
                }
                self.call(thread, correlation, time);
            }
        })
    }

    /// Calls that must have been lost, about: zero where what is missing may be by design; nothing
    /// where there are too many blocks to tell.
    pub(super) fn call_numbers_missing(&self) -> Option<u64> {
        if self.more_blocks {
            return None;
        }
        let mut processes: HashMap<i64, (u32, u32, u64)> = HashMap::default();
        for &(process, block) in &self.blocks {
            let (first, last, seen) = processes.entry(process).or_insert((block, block, 0));
            (*first, *last, *seen) = ((*first).min(block), (*last).max(block), *seen + 1);
        }
        let missing = |(first, last, seen): (u32, u32, u64)| {
            let all = u64::from(last - first) + 1;
            let lost = all.saturating_sub(seen);
            if lost >= LOST_BLOCKS && lost >= all / LOST_PART { lost * u64::from(BLOCK) } else { 0 }
        };
        Some(processes.into_values().map(missing).sum())
    }

    fn sort(&mut self) {
        self.launches.sort_unstable_by_key(|l| (l.process, l.correlation, l.group));
    }

    /// Notes an API call on all work that it launched: a graph launch has many kernels. Of several
    /// calls with one id the first one counts.
    fn call(&mut self, thread: i64, correlation: u32, time: i64) {
        let Some(&process) = self.processes.get(&(thread & PROCESS_BITS)) else { return };
        let wanted = (process, correlation);
        let first = self.launches.partition_point(|l| (l.process, l.correlation) < wanted);
        let rest = self.launches.get_mut(first..).unwrap_or_default();
        let mut launched =
            rest.iter_mut().take_while(|l| (l.process, l.correlation) == wanted).peekable();
        let earlier = launched.peek().is_some_and(|l| l.thread == NOWHERE || time < l.time);
        let is_full = self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&thread);
        if earlier && !is_full {
            let thread = number(&mut self.threads, thread);
            launched.for_each(|l| (l.thread, l.time) = (thread, time));
        }
    }

    /// All work in the order of its launches; work whose launch was not found comes last.
    pub(super) fn in_order(mut self) -> InOrder {
        self.launches
            .sort_unstable_by_key(|l| (l.thread == NOWHERE, l.time, l.correlation, l.group));
        let (threads, processes) = (by_number(self.threads), by_number(self.processes));
        InOrder { launches: self.launches, threads, processes }
    }
}

/// Kinds of API calls that are told apart: CUDA has some hundred.
const MAX_KINDS: usize = 10_000;

/// Calls that launch a kernel or a graph, by their names; zero where these cannot be read.
pub(super) fn launch_calls(database: &Database) -> u64 {
    let mut calls: HashMap<i64, u64> = HashMap::default();
    let read = database.table(TABLE).and_then(|table| match table {
        Some(table) => database.rows(&table, &["nameId"], "", |row| {
            if let Some(name) = integer(row, 0)
                && (calls.len() < MAX_KINDS || calls.contains_key(&name))
            {
                *calls.entry(name).or_default() += 1;
            }
        }),
        None => Ok(()),
    });
    let launches = |name: i64| database.string(name).is_some_and(|name| name.contains("Launch"));
    let launched = calls.into_iter().filter(|(name, _)| launches(*name));
    read.map_or(0, |()| launched.map(|(_, calls)| calls).fold(0, u64::saturating_add))
}

#[derive(Debug, Default)]
pub(super) struct InOrder {
    launches: Vec<Launch>,
    /// Global numbers.
    threads: Vec<i64>,
    processes: Vec<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// By the thread of this global number, at this time, ns.
    Call { thread: i64, time: i64 },
    /// Somewhere in this process: its API call is not in the file.
    Process(i64),
}

impl InOrder {
    /// Where the work at this place of the order was launched, with its group and its span.
    pub(super) fn get(&self, at: usize) -> Option<(Origin, u32, (i64, i64))> {
        let launch = self.launches.get(at)?;
        let origin = match self.threads.get(launch.thread as usize) {
            Some(&thread) => Origin::Call { thread, time: launch.time },
            None => Origin::Process(*self.processes.get(launch.process as usize)?),
        };
        Some((origin, launch.group, launch.span))
    }
}

fn by_number(numbers: HashMap<i64, u32>) -> Vec<i64> {
    let mut values: Vec<(i64, u32)> = numbers.into_iter().collect();
    values.sort_unstable_by_key(|&(_, number)| number);
    values.into_iter().map(|(value, _)| value).collect()
}

fn number(numbers: &mut HashMap<i64, u32>, value: i64) -> u32 {
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
            launches.add(process, correlation, group, (0, 10));
        }
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
        let launches = launches.in_order();
        let found: Vec<_> = (0..).map_while(|at| launches.get(at)).collect();
        let call = |thread, time| Origin::Call { thread, time };
        let expected = [
            (call(A + 1, 100), 1, (0, 10)),
            (call(B + 1, 200), 2, (0, 10)),
            (call(A + 2, 300), 3, (0, 10)),
            (call(A + 2, 300), 4, (0, 10)),
            // Its call is not in the file.
            (Origin::Process(A), 5, (0, 10)),
        ];
        assert_eq!(found, expected);
    }
}
