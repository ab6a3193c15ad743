//! Rows of the NVTX table that name domains -> the name of each, and which of them are libraries'.
//!
//! They are read before the ranges, because a name may stand behind the first range of its domain.

use std::borrow::Cow;

use foldhash::{HashMap, HashSet};

use super::database::{Database, integer, short, text};
use super::launches::PROCESS_BITS;
use crate::trace::libraries::RangeNames;

pub(super) const TABLE: &str = "NVTX_EVENTS";

/// The rows, and how many of them are looked at.
const FILTER: &str = "WHERE eventType = 75 LIMIT 100000";
/// Names that are kept, and bytes of each: a program has a handful.
const MAX_NAMES: usize = 10_000;
const MAX_NAME_BYTES: usize = 1024;
const COLUMNS: [&str; 4] = ["globalTid", "domainId", "textId", "text"];

#[derive(Debug, Default)]
pub(super) struct Domains {
    names: HashMap<(i64, i64), String>,
    libraries: HashSet<(i64, i64)>,
    /// Names that were not kept.
    pub(super) left_out: u64,
}

impl Domains {
    /// Reads them. What is wrong with the table is told by whoever reads its ranges.
    pub(super) fn read(database: &Database, libraries: &RangeNames) -> Self {
        let mut read = Self::default();
        let Ok(Some(table)) = database.table(TABLE) else { return read };
        if !table.has("eventType") {
            return read;
        }
        let _ = database.rows(&table, &COLUMNS, FILTER, |row| {
            let process = integer(row, 0).unwrap_or(0) & PROCESS_BITS;
            let key = (process, integer(row, 1).unwrap_or(0));
            // The first name counts.
            if read.names.contains_key(&key) {
                return;
            }
            let name = text(row, 3).or_else(|| database.string(integer(row, 2)?));
            if let Some(mut name) = name.filter(|name| !name.is_empty()) {
                if read.names.len() >= MAX_NAMES {
                    read.left_out += 1;
                    return;
                }
                name = short(name, MAX_NAME_BYTES);
                if libraries.contains(name.as_bytes()) {
                    read.libraries.insert(key);
                }
                read.names.insert(key, name);
            }
        });
        read
    }

    /// The name of a domain, or its number where it has none; nothing for the default domain.
    pub(super) fn name(&self, thread: i64, domain: i64) -> Option<Cow<'_, str>> {
        if domain == 0 {
            return None;
        }
        let known = self.names.get(&(thread & PROCESS_BITS, domain));
        Some(known.map_or_else(|| format!("domain {domain}").into(), |name| name.as_str().into()))
    }

    pub(super) fn is_library(&self, thread: i64, domain: i64) -> bool {
        self.libraries.contains(&(thread & PROCESS_BITS, domain))
    }
}
