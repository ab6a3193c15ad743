//! Kernels that an Nsight capture holds under demangled names -> the mangled names of the rows.
//!
//! Demanglers spell one kernel differently. Names are compared by what they have in common
//! ([`comparable`]), together with grid and block where the capture has them, and only where that
//! leaves one kernel: what could be two is joined with neither.

use std::collections::HashMap;

use stage2_figures::comparable;

use crate::finding::{Finding, Severity};
use crate::ncu::load::Tables as NcuTables;
use crate::nsys::load::{Naming, Tables as NsysTables};
use crate::report::model::Report;
use crate::report::numbers::count;

/// Grid and block.
type Shape = ([u32; 3], [u32; 3]);

/// The rows' kernels by their comparable names.
struct Rows<'r> {
    by_name: HashMap<String, Found<'r>>,
    by_shape: HashMap<(String, Shape), Found<'r>>,
}

/// The mangled name that a comparable name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found<'r> {
    One(&'r str),
    Several,
}

impl<'r> Rows<'r> {
    fn of(report: &'r Report) -> Self {
        let names: Vec<String> =
            report.kernel_names.iter().map(|name| comparable(&name.demangled)).collect();
        let mut rows = Rows { by_name: HashMap::new(), by_shape: HashMap::new() };
        for row in &report.kernels {
            let Some(name) = report.kernel_names.get(row.name_index) else { continue };
            let Some(key) = names.get(row.name_index) else { continue };
            add(&mut rows.by_name, key.clone(), &name.mangled);
            if let Some(launch) = row.launch {
                let shape = (launch.grid, launch.block);
                add(&mut rows.by_shape, (key.clone(), shape), &name.mangled);
            }
        }
        rows
    }

    fn find(&self, demangled: &str, shape: Option<Shape>) -> Option<&'r str> {
        let key = comparable(demangled);
        let found = match shape {
            Some(shape) => self.by_shape.get(&(key, shape)),
            None => self.by_name.get(&key),
        };
        match found {
            Some(Found::One(mangled)) => Some(mangled),
            Some(Found::Several) | None => None,
        }
    }
}

fn add<'r, K: std::hash::Hash + Eq>(map: &mut HashMap<K, Found<'r>>, key: K, mangled: &'r str) {
    let found = map.entry(key).or_insert(Found::One(mangled));
    if *found != Found::One(mangled) {
        *found = Found::Several;
    }
}

/// How many names of a tool were found.
#[derive(Default)]
struct Joined {
    found: u64,
    lost: u64,
}

impl Joined {
    fn finding(&self, tool: &str, by: &str, remedy: &str) -> Option<Finding> {
        let Joined { found, lost } = *self;
        (found > 0).then(|| {
            let left = match lost {
                0 => String::new(),
                lost => format!("; {} more fit none, or several", count(lost)),
            };
            Finding::new(
                Severity::Note,
                format!("{} demangled names of {tool} were joined by their normalised names, {by}{left}", count(found)),
                "demanglers differ: return types, parameters, namespaces and types of literals were \
                 left out of the comparison",
                remedy,
            )
        })
    }
}

/// Gives the kernels of ncu the names of the rows.
pub(crate) fn of_ncu(report: &mut Report, tables: &mut NcuTables) {
    let mut joined = Joined::default();
    let rows = Rows::of(report);
    let exact = |name: &str| report.kernel_names.iter().any(|known| known.mangled == name);
    for kernel in &mut tables.kernels {
        let key = &mut kernel.key;
        if exact(&key.kernel) || !is_demangled(&key.kernel) {
            continue;
        }
        match rows.find(&key.kernel, Some((key.grid, key.block))) {
            Some(mangled) => {
                key.kernel = mangled.to_owned();
                joined.found += 1;
            }
            None => joined.lost += 1,
        }
    }
    let remedy = "import with --print-kernel-base mangled to have them exactly";
    report.findings.extend(joined.finding("ncu", "grid and block", remedy));
}

/// Gives the kernels of captures of nsys the names of the rows.
pub(crate) fn of_nsys(report: &mut Report, captures: &mut [NsysTables]) {
    let mut joined = Joined::default();
    let rows = Rows::of(report);
    for kernel in captures.iter_mut().flat_map(|tables| &mut tables.kernels) {
        if kernel.naming != Naming::Demangled {
            continue;
        }
        match rows.find(&kernel.name, kernel.grid.zip(kernel.block)) {
            Some(mangled) => {
                kernel.name = mangled.to_owned();
                kernel.naming = Naming::Mangled;
                joined.found += 1;
            }
            None => joined.lost += 1,
        }
    }
    let remedy =
        "write the table with mangled names: nsys stats --report cuda_gpu_kern_sum:mangled";
    report.findings.extend(joined.finding("nsys", "grid and block where it has them", remedy));
}

/// Whether a name has arguments, which no mangled name and no name of a C function has.
fn is_demangled(name: &str) -> bool {
    name.contains(['(', '<', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncu::load::{KernelCounters, Key};
    use crate::nsys::load::Kernel;
    use crate::report::model::{KernelRow, Launch};
    use stage2_figures::kernel_name;

    const BLOCK: [u32; 3] = [32, 1, 1];

    /// Rows of `a::k(int)` with 1 and 2 blocks, and of `b::k(int)`, whose name compares as the same,
    /// with 2 and 3.
    fn report() -> Report {
        let (a, b) = (kernel_name(b"_ZN1a1kEi"), kernel_name(b"_ZN1b1kEi"));
        assert_eq!(comparable(&a.demangled), comparable(&b.demangled));
        let row = |(name_index, blocks)| {
            let launch = Some(Launch { grid: [blocks, 1, 1], block: BLOCK, ..Launch::default() });
            KernelRow { name_index, launch, ..KernelRow::default() }
        };
        let kernels = [(0, 1), (0, 2), (1, 2), (1, 3)].map(row).to_vec();
        Report { kernel_names: vec![a, b], kernels, ..Report::default() }
    }

    /// The name that a kernel of so many blocks gets, from ncu and from nsys. Both say the name in
    /// another way than our demangler.
    fn joined(blocks: u32) -> [String; 2] {
        let (mut report, grid) = (report(), [blocks, 1, 1]);
        let name = "void k(int)".to_owned();
        let key = Key { kernel: name.clone(), grid, block: BLOCK, device: 0 };
        let kernels = vec![KernelCounters { key, ..KernelCounters::default() }];
        let mut ncu = NcuTables { kernels, ..NcuTables::default() };
        of_ncu(&mut report, &mut ncu);
        let (grid, block) = (Some(grid), Some(BLOCK));
        let kernel = Kernel { name, naming: Naming::Demangled, grid, block, ..Kernel::default() };
        let mut nsys = [NsysTables { kernels: vec![kernel], ..NsysTables::default() }];
        of_nsys(&mut report, &mut nsys);
        [ncu.kernels[0].key.kernel.clone(), nsys[0].kernels[0].name.clone()]
    }

    #[test]
    fn names_that_compare_as_the_same_are_told_apart_by_grid_and_block() {
        assert_eq!(joined(1), ["_ZN1a1kEi"; 2]);
        assert_eq!(joined(3), ["_ZN1b1kEi"; 2]);
        assert_eq!(joined(4), ["void k(int)"; 2], "no kernel ran so");
    }

    #[test]
    fn what_could_be_two_kernels_is_joined_with_neither() {
        assert_eq!(joined(2), ["void k(int)"; 2]);
        // Without a configuration, both names fit.
        let report = report();
        assert_eq!(Rows::of(&report).find("void k(int)", None), None);
    }
}
