//! The GPUs whose sampling begins anew: how often that was, and what was lost until then.

use super::device::{Anew, Lost};

/// How often sampling of a GPU begins anew: each time takes a fifth of a second of CPU time.
pub(super) const MOST_RENEWALS: u32 = 16;

/// A GPU whose sampling begins anew.
#[derive(Clone, Copy, Default)]
pub(super) struct Renewed {
    /// What it begins with.
    pub(super) anew: Option<Anew>,
    /// Until now.
    pub(super) lost: Lost,
    /// Where the last sample ended, ns, until sampling goes on.
    lost_since: Option<u64>,
    /// It failed, and did not only fall behind.
    has_failed: bool,
    /// How often it began anew.
    times: u32,
}

/// All of them, by the number of the GPU.
#[derive(Default)]
pub(super) struct Renewals(Vec<(u32, Renewed)>);

impl Renewals {
    /// What is known of a GPU.
    pub(super) fn of(&self, device: u32) -> Option<Renewed> {
        self.0.iter().find(|(id, _)| *id == device).map(|(_, renewed)| *renewed)
    }

    /// Whether sampling of a GPU has fallen behind, or failed, as often as it may begin anew.
    pub(super) fn are_used_up(&self, device: u32) -> bool {
        self.of(device).is_some_and(|renewed| renewed.times >= MOST_RENEWALS)
    }

    /// Whether sampling of a GPU has failed before.
    pub(super) fn has_failed(&self, device: u32) -> bool {
        self.of(device).is_some_and(|renewed| renewed.has_failed)
    }

    /// Notes that sampling of a GPU begins anew, by what its last session lost and where that ended.
    pub(super) fn note(
        &mut self,
        device: u32,
        anew: Option<Anew>,
        has_failed: bool,
        (lost, ended): (Lost, u64),
    ) {
        let before = self.of(device).unwrap_or_default();
        self.0.retain(|(id, _)| *id != device);
        let lost_since = Some(ended);
        let (has_failed, times) = (has_failed || before.has_failed, before.times + 1);
        self.0.push((device, Renewed { anew, lost, lost_since, has_failed, times }));
    }

    /// Where the last sample of a GPU ended before it began anew, ns; once.
    pub(super) fn take_lost_since(&mut self, device: u32) -> Option<u64> {
        self.0.iter_mut().find(|(id, _)| *id == device)?.1.lost_since.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_begins_anew_so_often_and_a_failure_is_remembered() {
        let mut renewals = Renewals::default();
        for _ in 1..MOST_RENEWALS {
            renewals.note(3, None, false, (Lost::default(), 5));
        }
        assert!(!renewals.are_used_up(3) && !renewals.has_failed(3));
        renewals.note(3, None, true, (Lost::default(), 7));
        renewals.note(4, None, false, (Lost::default(), 9));
        assert!(renewals.are_used_up(3) && renewals.has_failed(3));
        assert!(!renewals.are_used_up(4) && !renewals.has_failed(4));
        assert_eq!((renewals.take_lost_since(3), renewals.take_lost_since(3)), (Some(7), None));
    }
}
