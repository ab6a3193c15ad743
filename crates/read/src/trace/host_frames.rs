//! Stacks of the host's threads -> their lines, as reports and exports show them.

use std::collections::BTreeMap;

use stage2_contract::trace::HostState;
use stage2_model::HostFrame;

use super::host::HostCapture;
use super::paths::PathIndex;

/// The most frames of all stacks that are exported.
const LINES: usize = 1 << 20;
/// The last frame of a stack whose sample was taken while the GPU worked for another stage.
const OTHER_WORK: &str = "(work of another stage ran on the GPU)";
/// Stands for every further stack of a stage.
const MORE_STACKS: &str = "(more stacks than are kept)";

impl HostCapture {
    /// Returns the lines of a stack, the innermost first. `names` are the names of the capture.
    pub fn lines(&self, stack: u32, names: &[Vec<u8>]) -> impl Iterator<Item = HostFrame> {
        self.stack_frames(stack).map(move |frame| self.line(frame, names))
    }

    /// Returns the frames of a stack by their identifiers, the innermost first.
    pub(super) fn stack_frames(&self, stack: u32) -> impl Iterator<Item = u32> {
        self.stacks.frames_of(stack)
    }

    /// Returns a frame with its texts. `names` are the names of the capture.
    pub(super) fn line(&self, frame: u32, names: &[Vec<u8>]) -> HostFrame {
        self.stacks.line(frame, |name| names.get(name as usize).map(Vec::as_slice))
    }

    /// Returns the stacks of launching threads while no work of their stage ran: the stage, the frames from
    /// the outermost one on with what the thread waited for as the last one, and the time that the samples
    /// represent, ns.
    pub fn idle_stacks(&self, names: &[Vec<u8>]) -> Vec<(PathIndex, Vec<String>, u64)> {
        let mut found: BTreeMap<(PathIndex, Vec<String>), u64> = BTreeMap::new();
        let mut lines = 0;
        for (stage, idle) in &self.stages {
            for (cause, sum) in idle.all().into_iter().flat_map(|idle| &idle.by_cause) {
                let waits = if cause.other_work { Some(OTHER_WORK) } else { waits(cause.state) };
                let mut stack: Vec<String> =
                    waits.iter().map(|waits| (*waits).to_owned()).collect();
                stack.extend(self.lines(cause.stack, names).map(|line| line.text()));
                stack.reverse();
                let mut key = (*stage, stack);
                if !found.contains_key(&key) {
                    lines += key.1.len();
                    key.1 = if lines > LINES { vec![MORE_STACKS.to_owned()] } else { key.1 };
                }
                let ns = found.entry(key).or_default();
                *ns = ns.saturating_add(sum.ns);
            }
            for (call, time) in idle.all().into_iter().flat_map(|idle| &idle.calls) {
                let waits = match call.other_work {
                    true => OTHER_WORK.to_owned(),
                    false => format!("(in {})", call.text(names)),
                };
                let lines = self.lines(call.stack, names).map(|line| line.text());
                let mut stack: Vec<String> = std::iter::once(waits).chain(lines).collect();
                stack.reverse();
                let ns = found.entry((*stage, stack)).or_default();
                *ns = ns.saturating_add(time.ns);
            }
        }
        found.into_iter().map(|((stage, stack), ns)| (stage, stack, ns)).collect()
    }
}

/// Returns the name of a state in tables.
pub fn state_name(state: HostState) -> &'static str {
    match state {
        HostState::Running => "running",
        HostState::Runnable => "runnable",
        HostState::GilWait => "gil_wait",
        HostState::Lock => "lock",
        HostState::Sleep => "sleep",
        HostState::Poll => "poll",
        HostState::Driver => "driver",
        HostState::Blocked => "blocked",
        HostState::Unknown => "unknown",
    }
}

/// Returns what a thread in this state waits for; `None` if it runs.
pub fn waits(state: HostState) -> Option<&'static str> {
    match state {
        HostState::Running => None,
        HostState::Runnable => Some("(waiting for a processor)"),
        HostState::GilWait => Some("(waiting for the GIL)"),
        HostState::Lock => Some("(waiting for a lock or a thread)"),
        HostState::Sleep => Some("(sleeping)"),
        HostState::Poll => Some("(waiting for input or output)"),
        HostState::Driver => Some("(in the driver)"),
        HostState::Blocked => Some("(blocked in a system call)"),
        HostState::Unknown => Some("(unknown)"),
    }
}

#[cfg(test)]
mod tests {
    use stage2_contract::trace::{self, HostStack};

    use super::*;
    use crate::host_stacks::DEPTH;
    use crate::trace::host::{Cause, StageIdle, Sum};

    #[test]
    fn stacks_of_any_depth_are_given_in_bounded_space() {
        let mut host = HostCapture::default();
        let mut idle = StageIdle::default();
        let depth = DEPTH as u32;
        // Each is deeper than all before it.
        for id in 1..2 * depth {
            host.stack(&HostStack { id, parent: id - 1, frame: id });
            host.frame(&trace::HostFrame { id, line: id, ..trace::HostFrame::default() }, |_| None);
            let sum = Sum { samples: 1, ns: 1, squares: 1.0 };
            idle.usual.cause(Cause { stack: id, ..Cause::default() }, &sum);
        }
        host.stages.insert(1, idle);
        let stacks = host.idle_stacks(&[]);
        assert!(stacks.iter().map(|(_, stack, _)| stack.len()).sum::<usize>() <= LINES + 1);
        assert_eq!(stacks.iter().map(|(_, _, ns)| ns).sum::<u64>(), u64::from(2 * depth - 1));
        assert!(stacks.iter().any(|(_, stack, _)| *stack == [MORE_STACKS]));
    }
}
