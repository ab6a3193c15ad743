//! The tables that say of our own exports in which range instance each piece of GPU work was launched
//! -> a thread and a time at which that range, and none within it, is open.
//!
//! The collector records ranges and no API calls, so that these tables stand in for them.

use foldhash::HashMap;

use super::super::database::{Database, integer, text};
use super::super::launches::PROCESS_BITS;

const WORK: &str = "STAGE2_WORK_RANGES";
const RANGES: &str = "STAGE2_RANGES";
/// Range instances and pieces of work that are held (40 and 8 bytes each).
const MAX_RANGES: usize = 4_000_000;
const MAX_WORK: usize = 7_000_000;
/// Kinds of work, in the order of the tables that are read.
const KINDS: [&str; 4] = ["kernel", "memcpy", "memset", "graph"];
/// Stands for a range that is not known.
const UNKNOWN: i64 = -1;
/// A thread of a process that opens no range.
const NO_RANGES: i64 = !PROCESS_BITS;

#[derive(Debug)]
pub(super) struct Own {
    /// Thread and start of each instance, by its process and its number.
    ranges: HashMap<(i64, i64), (i64, i64)>,
    /// The instance of each row of each kind.
    work: [Vec<i64>; KINDS.len()],
}

impl Own {
    /// Reads them; nothing where they are not there, or too large.
    pub(super) fn read(database: &Database) -> Option<Own> {
        let table = |name| database.table(name).ok().flatten();
        let (work, ranges) = (table(WORK)?, table(RANGES)?);
        if !work.has("rangeId") {
            return None;
        }
        let mut own = Own { ranges: HashMap::default(), work: Default::default() };
        let mut pieces = 0_usize;
        let all = database.rows(&work, &["kind", "rangeId"], "", |row| {
            let kind = text(row, 0).and_then(|kind| KINDS.iter().position(|known| *known == kind));
            pieces += 1;
            if let Some(of_kind) = kind.and_then(|kind| own.work.get_mut(kind))
                && pieces <= MAX_WORK
            {
                of_kind.push(integer(row, 1).unwrap_or(UNKNOWN));
            }
        });
        let mut instances = 0_usize;
        let columns = ["globalTid", "rangeId", "start"];
        let all = all.and_then(|()| {
            database.rows(&ranges, &columns, "", |row| {
                instances += 1;
                if let (Some(thread), Some(range), Some(start)) =
                    (integer(row, 0), integer(row, 1), integer(row, 2))
                    && instances <= MAX_RANGES
                {
                    own.ranges.insert((thread & PROCESS_BITS, range), (thread, start));
                }
            })
        });
        (all.is_ok() && pieces <= MAX_WORK && instances <= MAX_RANGES).then_some(own)
    }

    /// Thread and time of a row of a table, counted from 0.
    pub(super) fn launch(&self, table: usize, row: usize, process: i64) -> Option<(i64, i64)> {
        let process = process & PROCESS_BITS;
        match *self.work.get(table)?.get(row)? {
            0 => Some((process | NO_RANGES, 0)),
            // A range within it that opens in the same nanosecond would get its work: NVTX calls take
            // longer than that.
            range => self.ranges.get(&(process, range)).copied(),
        }
    }
}
