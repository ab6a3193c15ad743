//! The causes of idle time of several runs -> one name for what is the same in all of them.

use std::collections::{BTreeMap, BTreeSet};

use stage2_model::HostCause;

/// Names of the causes of a stage. A cause is named after its thread only where all runs that have it name the same
/// threads: what a thread is called may differ from run to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CauseNames {
    /// Those that are named without their threads.
    bare: BTreeSet<String>,
    pub(crate) all: BTreeSet<String>,
}

impl CauseNames {
    /// Of the causes of each run.
    pub(crate) fn of(runs: &[&[HostCause]]) -> Self {
        let mut threads: BTreeMap<String, BTreeSet<BTreeSet<&str>>> = BTreeMap::new();
        for run in runs {
            for (name, of_run) in threads_of(run) {
                threads.entry(name).or_default().insert(of_run);
            }
        }
        threads.retain(|_, of_runs| of_runs.len() > 1);
        let mut names = Self { bare: threads.into_keys().collect(), all: BTreeSet::new() };
        let all = runs.iter().flat_map(|run| run.iter()).filter(|cause| cause.is_finding());
        names.all = all.map(|cause| names.name(cause)).collect();
        names
    }

    pub(crate) fn name(&self, cause: &HostCause) -> String {
        let bare = without_thread(cause);
        if self.bare.contains(&bare) { bare } else { cause.without_line() }
    }
}

/// The threads of a run that each cause is named after.
fn threads_of(causes: &[HostCause]) -> BTreeMap<String, BTreeSet<&str>> {
    let mut threads: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for cause in causes.iter().filter(|cause| cause.is_finding()) {
        let thread = cause.thread.as_deref().unwrap_or_default();
        threads.entry(without_thread(cause)).or_default().insert(thread);
    }
    threads
}

fn without_thread(cause: &HostCause) -> String {
    HostCause { thread: None, ..cause.clone() }.without_line()
}
