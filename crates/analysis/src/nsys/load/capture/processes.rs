//! Ranges and GPU work of all processes of an export -> a [`ProcessCapture`] each.

use rustc_hash::FxHashMap;

use super::super::domains::Domains;
use super::process::Process;
use crate::load::ProcessCapture;
use crate::load::libraries::LibraryDomains;

/// Processes, at most: those that follow are taken for one.
pub(super) const MAX_PROCESSES: usize = 1024;

/// All processes, by their global number.
pub(super) struct Processes {
    numbers: FxHashMap<i64, usize>,
    list: Vec<Process>,
    domains: Domains,
    libraries: LibraryDomains,
    /// Some are taken together.
    pub(super) too_many: bool,
}

impl Processes {
    /// No process yet.
    pub(super) fn new(domains: Domains, libraries: LibraryDomains) -> Self {
        let (numbers, list) = (FxHashMap::default(), Vec::new());
        Self { numbers, list, domains, libraries, too_many: false }
    }

    /// The place of a process in the list.
    pub(super) fn number(&mut self, process: i64) -> usize {
        let next = self.list.len();
        if next > MAX_PROCESSES && !self.numbers.contains_key(&process) {
            self.too_many = true;
            return next - 1;
        }
        let number = *self.numbers.entry(process).or_insert(next);
        if number == next {
            self.list.push(Process::new(self.libraries.clone()));
        }
        number
    }

    /// The process at a place.
    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Process> {
        self.list.get_mut(number)
    }

    /// The domains of all of them.
    pub(super) fn domains(&self) -> &Domains {
        &self.domains
    }

    /// The capture of each process of the export `file`, in the order of their numbers.
    pub(super) fn finish(self, file: &str) -> Vec<ProcessCapture> {
        let mut numbers: Vec<(i64, usize)> = self.numbers.into_iter().collect();
        numbers.sort_unstable();
        let mut list: Vec<Option<Process>> = self.list.into_iter().map(Some).collect();
        let in_order = numbers.into_iter().filter_map(|(_, at)| list.get_mut(at)?.take());
        in_order
            .map(|process| {
                let mut capture = process.finish();
                file.clone_into(&mut capture.file);
                capture
            })
            .collect()
    }
}
