//! The kernels of a process without ranges, in the order of their launches -> the step that repeats.
//!
//! An eager program launches the same kernels at each step: within a decode, every name is the one a
//! period before ([`runs`]). Phases are cut where that breaks ([`phases`]). Launches are put into the
//! order in which they were made ([`order`]), once for the whole process and once for each queue:
//! threads that launch at the same time mix in the first sequence, streams of one thread do not.
//! Nothing is said where no period is certain. Memory is bounded, whatever the number of launches.

mod history;
mod order;
mod phases;
mod runs;
#[cfg(test)]
mod tests;

use super::series::Series;
use super::stats::Stats;
use order::InOrder;
pub(super) use order::{GRAPH, Launch};
use phases::repeats_of;
use runs::Runs;

/// Queues that are looked at one by one.
const QUEUES: usize = 8;
/// Work before a phase is more than a step where its kernels take this long, percent of one.
const LONGER_PERCENT: u128 = 125;

/// Which launch sequences to search for steps. Each sequence takes about 2 MB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// All launches of the process, and those of single queues.
    #[default]
    Queues,
    /// All launches of the process.
    Process,
    /// No launches at all.
    Nothing,
}

/// Steps that repeat in one sequence of launches.
#[derive(Clone, Debug, Default)]
pub struct Repeats {
    /// The queue that the sequence is of, by its identifier in the file; nothing: all launches of
    /// the process.
    pub queue: Option<u32>,
    /// Launches of the sequence: kernels, and graphs that ran as a whole.
    pub launches: u64,
    /// Steps of one kind, the most launches first.
    pub phases: Vec<Phase>,
}

/// All phases that consist of the same step.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// Launches in each step.
    pub launches_per_step: u64,
    /// Launches of CUDA graphs in each step.
    pub graphs_per_step: u64,
    /// How many there are.
    pub phases: u64,
    /// Steps of all of them.
    pub steps: u64,
    /// There may be more: too many runs were found to keep all.
    pub at_least: bool,
    /// Steps of each phase.
    pub steps_per_phase: Series,
    /// From the first kernel of a step to that of the next in the same run.
    pub step_times: Stats,
    /// Durations of all kernels in the phases, ns.
    pub kernel_sum_ns: u64,
    /// From the first kernel of each phase to the end of its last one, summed, ns.
    pub window_ns: u64,
    /// Launches within the phases that are in no whole step.
    pub irregular_launches: u64,
    /// What was launched before the first phase of all, if that is one of these.
    pub first_lead: Option<Lead>,
    /// What was launched before each other phase, since the phase before.
    pub leads: Leads,
}

/// Launches before a phase that do not repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// Launches in it.
    pub launches: u64,
    /// Duration of its kernels in all, ns.
    pub kernel_sum_ns: u64,
}

/// What was launched before phases.
#[derive(Clone, Debug, Default)]
pub struct Leads {
    /// Launches.
    pub launches: Series,
    /// Durations of kernels in all, ns.
    pub kernel_sum_ns: Series,
    /// Times that their durations are longer than those of a step.
    pub longer_than_step: u64,
}

fn is_longer(lead: Lead, step_ns: u64) -> bool {
    u128::from(lead.kernel_sum_ns) * 100 >= u128::from(step_ns) * LONGER_PERCENT
}

impl Leads {
    fn push(&mut self, lead: Lead, step_ns: u64) {
        self.launches.push(lead.launches);
        self.kernel_sum_ns.push(lead.kernel_sum_ns);
        self.longer_than_step += u64::from(lead.launches > 0 && is_longer(lead, step_ns));
    }
}

impl Phase {
    /// Whether most phases follow launches that take longer than a step, as a decode follows its
    /// prefill. What comes before the first phase of all counts where there is no other: it holds
    /// the start of the program, too.
    pub fn follows_longer_work(&self) -> bool {
        let step_ns = self.kernel_sum_ns.checked_div(self.steps).unwrap_or(0);
        match (self.leads.launches.count(), self.first_lead) {
            (0, Some(lead)) => lead.launches > 0 && is_longer(lead, step_ns),
            (0, None) => false,
            (all, _) => self.leads.longer_than_step * 2 >= all,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Sequences {
    order: InOrder,
    /// Records arrive in launch order.
    ordered: bool,
    follow: Follow,
    all: Runs,
    /// Each queue; none as long as there is only one, whose launches are all.
    queues: Vec<(u32, Runs)>,
    first: Option<u32>,
}

impl Sequences {
    /// For records that arrive in launch order.
    pub(super) fn ordered(follow: Follow) -> Self {
        Self { ordered: true, follow, ..Self::default() }
    }

    /// The search for steps skipped this process.
    pub(super) fn are_left_out(&self) -> bool {
        self.follow == Follow::Nothing
    }

    pub(super) fn push(&mut self, launch: Launch) {
        if self.follow == Follow::Nothing {
            return;
        }
        if self.ordered {
            return self.take(&launch);
        }
        for launch in self.order.push(launch) {
            self.take(&launch);
        }
    }

    /// What repeats: in the sequence of the process, or else in those of its queues. Nothing where
    /// no period is certain.
    pub(super) fn finish(mut self) -> Vec<Repeats> {
        for launch in self.order.rest() {
            self.take(&launch);
        }
        if let Some(repeats) = repeats_of(&self.all.finish()) {
            return vec![repeats];
        }
        let of_queue = |(queue, runs): (u32, Runs)| {
            Some(Repeats { queue: Some(queue), ..repeats_of(&runs.finish())? })
        };
        self.queues.into_iter().filter_map(of_queue).collect()
    }

    /// Takes the next launch in their order.
    fn take(&mut self, launch: &Launch) {
        let first = *self.first.get_or_insert(launch.queue);
        if self.queues.is_empty() && launch.queue != first && self.follow == Follow::Queues {
            // What came so far is of one queue.
            self.queues.push((first, self.all.clone()));
        }
        self.all.push(launch);
        if self.queues.is_empty() {
            return;
        }
        let known = self.queues.iter().position(|(queue, _)| *queue == launch.queue);
        let at = known.unwrap_or(self.queues.len());
        if known.is_none() && at < QUEUES {
            self.queues.push((launch.queue, Runs::default()));
        }
        if let Some((_, runs)) = self.queues.get_mut(at) {
            runs.push(launch);
        }
    }
}
