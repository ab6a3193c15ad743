//! The work and the windows of a stage -> busy time and launch gaps, as far as they are final.

use stage2_contract::stats::BACK_TO_BACK_NS;

use crate::numbers::StageNumbers;
use crate::settled::{Settled, overlap_ns};

#[derive(Debug, Default)]
pub(crate) struct Stage {
    pub(crate) totals: StageNumbers,
    pub(crate) work: Settled,
    windows: Settled,
    /// Windows that a gap may still begin in.
    recent: Vec<(u64, u64)>,
}

impl Stage {
    /// Adds a part of the window of an instance.
    pub(crate) fn window(&mut self, start: u64, end: u64) {
        self.windows.add(start, end);
    }

    /// Gives what is final up to `to`: windows, busy time and gaps, ns.
    pub(crate) fn settle(&mut self, to: u64) -> StageNumbers {
        let windows = self.windows.settle(to).pieces;
        let work = self.work.settle(to);
        self.recent.extend(&windows);
        let length = |all: &[(u64, u64)]| all.iter().map(|(start, end)| end - start).sum::<u64>();
        let found = StageNumbers {
            window_ns: length(&windows),
            busy_ns: length(&work.pieces),
            gaps_ns: overlap_ns(&work.gaps, &self.recent),
            ..StageNumbers::default()
        };
        let keep_from = to.saturating_sub(BACK_TO_BACK_NS);
        // The last one stays where work ran long: a gap begins at the end of work.
        self.recent.retain(|window| window.1 >= keep_from);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_count_within_windows_only_and_over_the_edge_of_a_slice() {
        let mut stage = Stage::default();
        stage.window(1_000, 2_000);
        stage.work.add(1_000, 1_990);
        let first = stage.settle(1_995);
        stage.window(1_995, 2_000);
        stage.window(2_010, 3_000);
        stage.work.add(2_020, 2_500);
        let second = stage.settle(4_000);
        assert_eq!((first.window_ns, first.busy_ns, first.gaps_ns), (995, 990, 0));
        // Idle from 1990 to 2020, of which 2000 to 2010 is between two steps.
        assert_eq!((second.window_ns, second.busy_ns, second.gaps_ns), (995, 480, 20));
    }
}
