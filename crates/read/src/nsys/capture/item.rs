//! What a piece of GPU work is: the work that is counted together, and how its rows say so.

use super::super::Naming;

/// No kernel runs for days: such a time is damage.
const MAX_NS: u64 = 24 * 3600 * 1_000_000_000;

/// A kernel's name, as the number of its text.
pub(super) type NameId = (Naming, Option<i64>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ran {
    /// Its name, blocks and threads, registers and memory.
    Kernel(NameId, [Option<u32>; 6], [Option<u32>; 4]),
    Copy(u8),
    Fill,
    Graph(u32),
    /// All kernels of further kinds.
    OtherKernels,
}

/// The items for work beyond the limit on kinds, one for each sort of work. The position of an item is its
/// number.
pub(super) const OTHERS: [Ran; 4] =
    [Ran::OtherKernels, Ran::Copy(0), Ran::Fill, Ran::Graph(u32::MAX)];

impl Ran {
    /// The number of the item that takes all further work of this sort.
    pub(super) fn others(self) -> u32 {
        match self {
            Ran::Kernel(..) | Ran::OtherKernels => 0,
            Ran::Copy(_) => 1,
            Ran::Fill => 2,
            Ran::Graph(_) => 3,
        }
    }
}

/// What ran where; work of one item is counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Item {
    pub(super) what: Ran,
    pub(super) device: Option<u32>,
    pub(super) in_graph: bool,
}

/// Duration of a row; nothing where its times are impossible.
pub(super) fn duration_ns(start: Option<i64>, end: Option<i64>) -> Option<u64> {
    let (start, end) = (start?, end?);
    // Times before the session started are possible, an end of zero is CUPTI's "not taken".
    if end == 0 && start == 0 {
        return None;
    }
    u64::try_from(end.checked_sub(start)?).ok().filter(|ns| *ns <= MAX_NS)
}

/// The best name that a row has: the mangled one, else the demangled one, else the bare one.
pub(super) fn name_of(mangled: Option<i64>, demangled: Option<i64>, short: Option<i64>) -> NameId {
    match (mangled, demangled) {
        (Some(mangled), _) => (Naming::Mangled, Some(mangled)),
        (None, Some(demangled)) => (Naming::Demangled, Some(demangled)),
        (None, None) => (Naming::Short, short),
    }
}

/// Blocks and threads in x, y and z, where each is known.
pub(super) fn grid_and_block(values: [Option<u32>; 6]) -> (Option<[u32; 3]>, Option<[u32; 3]>) {
    let [gx, gy, gz, bx, by, bz] = values;
    let all = |x: Option<u32>, y: Option<u32>, z: Option<u32>| Some([x?, y?, z?]);
    (all(gx, gy, gz), all(bx, by, bz))
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
