//! Rows of the kernel table -> kernels in groups, and one short record each for the way to its
//! launch.

use rusqlite::Row;
use rustc_hash::FxHashMap;

use super::Kernel;
use super::Naming;
use super::database::{Database, Table, integer};
use super::launches::Launches;
use stage2_model::nsys::Counts;

/// Name of the table.
pub(super) const TABLE: &str = "CUPTI_ACTIVITY_KIND_KERNEL";

const COLUMNS: [&str; 14] = [
    "start",
    "end",
    "deviceId",
    "correlationId",
    "globalPid",
    "mangledName",
    "demangledName",
    "shortName",
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
];

/// What tells groups of kernels apart; as the file has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    naming: Naming,
    name: Option<i64>,
    device: Option<i64>,
    shape: [Option<i64>; 6],
}

/// Kernels in groups.
#[derive(Default)]
pub(super) struct Kernels {
    by_key: FxHashMap<Key, u32>,
    groups: Vec<(Key, Kernel)>,
}

/// No kernel runs for days: such a time is damage.
const MAX_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Duration of a row; nothing where its times are impossible.
pub(super) fn duration_ns(start: Option<i64>, end: Option<i64>) -> Option<u64> {
    let (start, end) = (start?, end?);
    // Times before the session started are possible, an end of zero is CUPTI's "not taken".
    if end == 0 && start == 0 {
        return None;
    }
    u64::try_from(end.checked_sub(start)?).ok().filter(|ns| *ns <= MAX_NS)
}

/// The best of a kernel's names, each as the number of its text.
pub(super) fn name_of(
    mangled: Option<i64>,
    demangled: Option<i64>,
    short: Option<i64>,
) -> (Naming, Option<i64>) {
    match (mangled, demangled) {
        (Some(mangled), _) => (Naming::Mangled, Some(mangled)),
        (None, Some(demangled)) => (Naming::Demangled, Some(demangled)),
        (None, None) => (Naming::Short, short),
    }
}

impl Kernels {
    /// Reads the table. An error ends the reading; what came before it is kept.
    pub(super) fn read(
        &mut self,
        database: &Database,
        table: &Table,
        counts: &mut Counts,
        launches: &mut Launches<u64>,
    ) -> rusqlite::Result<()> {
        database.rows(table, &COLUMNS, "", |row| self.add(row, counts, launches))
    }

    fn add(&mut self, row: &Row<'_>, counts: &mut Counts, launches: &mut Launches<u64>) {
        let duration = duration_ns(integer(row, 0), integer(row, 1));
        let (naming, name) = name_of(integer(row, 5), integer(row, 6), integer(row, 7));
        let shape = std::array::from_fn(|i| integer(row, 8 + i));
        let group = self.group(Key { naming, name, device: integer(row, 2), shape });
        counts.kernels += 1;
        if let Some((_, kernel)) = self.groups.get_mut(group as usize) {
            kernel.calls += 1;
            match duration {
                Some(ns) => {
                    kernel.total_ns = kernel.total_ns.saturating_add(ns);
                    kernel.min_ns = Some(kernel.min_ns.map_or(ns, |min| min.min(ns)));
                    kernel.max_ns = Some(kernel.max_ns.map_or(ns, |max| max.max(ns)));
                }
                None => kernel.untimed += 1,
            }
        }
        match duration {
            Some(ns) => counts.kernel_total_ns = counts.kernel_total_ns.saturating_add(ns),
            None => counts.untimed += 1,
        }
        let correlation = integer(row, 3).and_then(|id| u32::try_from(id).ok());
        launches.kernel(integer(row, 4), correlation, group, duration.unwrap_or(0));
    }

    fn group(&mut self, key: Key) -> u32 {
        *self.by_key.entry(key).or_insert_with(|| {
            self.groups.push((key, Kernel::default()));
            (self.groups.len() - 1) as u32
        })
    }

    /// The groups, by the number that [`Launches`] knows them by.
    pub(super) fn finish(self, database: &Database, counts: &mut Counts) -> Vec<Kernel> {
        let small = |value: Option<i64>| value.and_then(|v| u32::try_from(v).ok());
        let triple = |values: &[Option<i64>]| match values {
            [x, y, z] => Some([small(*x)?, small(*y)?, small(*z)?]),
            _ => None,
        };
        let mut named: FxHashMap<i64, Option<String>> = FxHashMap::default();
        let finish = |(key, mut kernel): (Key, Kernel)| {
            let name = key
                .name
                .and_then(|id| named.entry(id).or_insert_with(|| database.string(id)).clone());
            if name.is_none() {
                counts.odd_rows = counts.odd_rows.saturating_add(kernel.calls);
            }
            kernel.naming = if name.is_some() { key.naming } else { Naming::Short };
            kernel.name = name.unwrap_or_else(|| "(no name in the file)".into());
            kernel.device = small(key.device);
            let (grid, block) = key.shape.split_at(3);
            (kernel.grid, kernel.block) = (triple(grid), triple(block));
            kernel
        };
        self.groups.into_iter().map(finish).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::duration_ns;

    #[test]
    fn impossible_times_are_no_duration() {
        assert_eq!(duration_ns(Some(5), Some(9)), Some(4));
        assert_eq!(duration_ns(Some(-5), Some(9)), Some(14));
        assert_eq!(duration_ns(Some(9), Some(9)), Some(0));
        for (start, end) in [
            (Some(9), Some(5)),
            (Some(i64::MIN), Some(i64::MAX)),
            (None, Some(1)),
            (Some(1), None),
            (Some(0), Some(0)),
            (Some(0), Some(i64::MAX)),
        ] {
            assert_eq!(duration_ns(start, end), None, "{start:?} {end:?}");
        }
    }
}
