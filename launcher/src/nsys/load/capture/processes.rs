//! Ranges and GPU work of all processes of an export -> a [`ProcessCapture`] each.

use rustc_hash::FxHashMap;

use super::process::Process;
use super::strings::Strings;
use crate::load::ProcessCapture;

/// Processes, at most: those that follow are taken for one.
pub(super) const MAX_PROCESSES: usize = 1024;

/// All processes, by their global number.
#[derive(Default)]
pub(super) struct Processes {
    numbers: FxHashMap<i64, usize>,
    list: Vec<Process>,
    domains: Domains,
    /// Some are taken together.
    pub(super) too_many: bool,
}

/// Names of domains, which may stand behind their first use: numbers stand for them until the end.
#[derive(Default)]
struct Domains {
    stand_ins: FxHashMap<(i64, i64), u32>,
    names: FxHashMap<(i64, i64), Vec<u8>>,
}

impl Processes {
    /// The place of a process in the list.
    pub(super) fn number(&mut self, process: i64) -> usize {
        let next = self.list.len();
        if next > MAX_PROCESSES && !self.numbers.contains_key(&process) {
            self.too_many = true;
            return next - 1;
        }
        let number = *self.numbers.entry(process).or_insert(next);
        if number == next {
            self.list.push(Process::new());
        }
        number
    }

    /// The process at a place.
    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Process> {
        self.list.get_mut(number)
    }

    /// How many domains have a name.
    pub(super) fn domains(&self) -> usize {
        self.domains.names.len()
    }

    /// Names a domain; the first name counts.
    pub(super) fn name_domain(&mut self, process: i64, domain: i64, name: Vec<u8>) {
        self.domains.names.entry((process, domain)).or_insert(name);
    }

    /// Number of the name that stands for that of a domain.
    pub(super) fn domain(&mut self, process: i64, domain: i64, strings: &mut Strings) -> u32 {
        let stand_ins = &mut self.domains.stand_ins;
        let fresh = || strings.exact(&stand_in(process, domain));
        *stand_ins.entry((process, domain)).or_insert_with(fresh)
    }

    /// The capture of each process of the export `file`, in the order of their numbers.
    pub(super) fn finish(self, file: &str) -> Vec<ProcessCapture> {
        let Domains { stand_ins, names } = self.domains;
        let known: FxHashMap<Vec<u8>, Vec<u8>> = stand_ins
            .into_keys()
            .map(|(process, domain)| {
                let name = names.get(&(process, domain)).filter(|name| !name.is_empty()).cloned();
                let name = name.unwrap_or_else(|| format!("domain {domain}").into_bytes());
                (stand_in(process, domain), name)
            })
            .collect();
        let mut numbers: Vec<(i64, usize)> = self.numbers.into_iter().collect();
        numbers.sort_unstable();
        let mut list: Vec<Option<Process>> = self.list.into_iter().map(Some).collect();
        let in_order = numbers.into_iter().filter_map(|(_, at)| list.get_mut(at)?.take());
        in_order
            .map(|process| {
                let mut capture = process.finish();
                file.clone_into(&mut capture.file);
                for name in &mut capture.names {
                    if let Some(known) = known.get(name) {
                        name.clone_from(known);
                    }
                }
                capture
            })
            .collect()
    }
}

fn stand_in(process: i64, domain: i64) -> Vec<u8> {
    format!("\0domain {domain} of {process}").into_bytes()
}
