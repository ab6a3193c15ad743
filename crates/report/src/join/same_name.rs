//! Kernels that an Nsight capture holds under demangled names -> the mangled names of the rows.
//!
//! Demanglers spell one kernel differently. Names are compared by what they have in common
//! ([`comparable`]), together with grid and block where the capture has them, and only where that
//! leaves one kernel, among the rows and among those of the capture: what could be two is joined
//! with neither.

use std::collections::{HashMap, HashSet};

use stage2_contract::text::comparable;
use stage2_contract::text::numbers::count;
use stage2_model::finding::Id;
use stage2_model::{Finding, Report};
use stage2_read::ncu::load::{Key, Tables as NcuTables};
use stage2_read::nsys::{Kernel, Naming, Tables as NsysTables};

/// Grid and block.
type Shape = ([u32; 3], [u32; 3]);

/// What is compared of a kernel: its name, and grid and block where they are known.
type ComparisonKey = (String, Option<Shape>);

/// The rows' kernels by what is compared of them: each with and without its grid and block.
struct Rows<'r>(HashMap<ComparisonKey, NameMatch<'r>>);

/// The name that a key stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameMatch<'r> {
    One(&'r str),
    Several,
}

impl<'r> Rows<'r> {
    fn of(report: &'r Report) -> Self {
        let names: Vec<String> =
            report.kernel_names.iter().map(|name| comparable(&name.demangled)).collect();
        let mut rows = HashMap::new();
        for row in &report.kernels {
            let Some(name) = report.kernel_names.get(row.name_index) else { continue };
            let Some(key) = names.get(row.name_index) else { continue };
            add(&mut rows, (key.clone(), None), &name.mangled);
            if let Some(launch) = row.launch {
                add(&mut rows, (key.clone(), Some((launch.grid, launch.block))), &name.mangled);
            }
        }
        Self(rows)
    }

    /// The mangled names of the kernels of a capture, of those whose key no other name of it has.
    fn find_all(&self, kernels: &[(&str, Option<Shape>)]) -> Vec<Option<&'r str>> {
        let key = |&(name, shape): &(&str, Option<Shape>)| (comparable(name), shape);
        let keys: Vec<ComparisonKey> = kernels.iter().map(key).collect();
        let mut of_capture = HashMap::new();
        for (key, (name, _)) in keys.iter().zip(kernels) {
            add(&mut of_capture, key.clone(), name);
        }
        let find = |key: &ComparisonKey| match (of_capture.get(key)?, self.0.get(key)?) {
            (NameMatch::One(_), NameMatch::One(mangled)) => Some(*mangled),
            _ => None,
        };
        keys.iter().map(find).collect()
    }
}

fn add<'r>(map: &mut HashMap<ComparisonKey, NameMatch<'r>>, key: ComparisonKey, name: &'r str) {
    let found = map.entry(key).or_insert(NameMatch::One(name));
    if *found != NameMatch::One(name) {
        *found = NameMatch::Several;
    }
}

/// States how many names of a tool were found, and how many were not.
fn finding(found: u64, lost: u64, tool: &str, by: &str, remedy: &str) -> Option<Finding> {
    let mut what =
        format!("{} demangled names of {tool} were matched by normalised name, {by}", count(found));
    if lost > 0 {
        what += &format!("; {} more matched no kernel, or more than one", count(lost));
    }
    (found > 0).then(|| {
        Id::KernelsLikened.found(
            what,
            "demanglers differ: return types, parameters, namespaces and types of literals were left \
             out of the comparison",
            remedy,
        )
    })
}

/// Gives the kernels of ncu the names of the rows.
pub(crate) fn of_ncu(report: &mut Report, tables: &mut NcuTables) {
    let rows = Rows::of(report);
    let exact: HashSet<&str> =
        report.kernel_names.iter().map(|known| known.mangled.as_str()).collect();
    let mut keys: Vec<&mut Key> = tables.kernels.iter_mut().map(|kernel| &mut kernel.key).collect();
    keys.retain(|key| !exact.contains(key.kernel.as_str()) && is_demangled(&key.kernel));
    let names = keys.iter().map(|key| (key.kernel.as_str(), Some((key.grid, key.block))));
    let mangled = rows.find_all(&names.collect::<Vec<_>>());
    let (mut found, mut lost) = (0, 0);
    for (key, mangled) in keys.into_iter().zip(mangled) {
        match mangled {
            Some(mangled) => (key.kernel, found) = (mangled.to_owned(), found + 1),
            None => lost += 1,
        }
    }
    let remedy = "import with --print-kernel-base mangled to have them exactly";
    report.findings.extend(finding(found, lost, "ncu", "grid and block", remedy));
}

/// Gives the kernels of captures of nsys the names of the rows.
pub(crate) fn of_nsys(report: &mut Report, captures: &mut [NsysTables]) {
    let rows = Rows::of(report);
    let (mut found, mut lost) = (0, 0);
    for tables in captures {
        let kernels: Vec<&mut Kernel> =
            tables.kernels.iter_mut().filter(|k| k.naming == Naming::Demangled).collect();
        let names = kernels.iter().map(|k| (&*k.name, k.grid.zip(k.block)));
        let mangled = rows.find_all(&names.collect::<Vec<_>>());
        for (kernel, mangled) in kernels.into_iter().zip(mangled) {
            match mangled {
                Some(mangled) => {
                    (kernel.name, kernel.naming) = (mangled.into(), Naming::Mangled);
                    found += 1;
                }
                None => lost += 1,
            }
        }
    }
    let remedy =
        "write the table with mangled names: nsys stats --report cuda_gpu_kern_sum:mangled";
    let by = "grid and block where it has them";
    report.findings.extend(finding(found, lost, "nsys", by, remedy));
}

/// Whether a name has arguments, which no mangled name and no name of a C function has.
fn is_demangled(name: &str) -> bool {
    name.contains(['(', '<', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_contract::text::kernel_name;
    use stage2_model::{KernelRow, Launch};
    use stage2_read::ncu::load::KernelCounters;

    const A: &str = "_ZN1a1kIfEEvv";
    const B: &str = "_ZN1b1kIfEEvv";
    const GRID: [u32; 3] = [4, 1, 1];
    const BLOCK: [u32; 3] = [128, 1, 1];

    /// A report whose rows hold these kernels, each with a grid of its own.
    fn report(kernels: &[(&str, [u32; 3])]) -> Report {
        let launch = |grid| Some(Launch { grid, block: BLOCK, ..Launch::default() });
        let row = |(name_index, &(_, grid)): (usize, &(&str, [u32; 3]))| KernelRow {
            name_index,
            launch: launch(grid),
            ..KernelRow::default()
        };
        Report {
            kernel_names: kernels.iter().map(|(name, _)| kernel_name(name.as_bytes())).collect(),
            kernels: kernels.iter().enumerate().map(row).collect(),
            ..Report::default()
        }
    }

    /// The names of nsys after the join, with their naming, and what is said of it.
    fn joined(
        mut report: Report,
        kernels: &[(&str, Option<[u32; 3]>)],
    ) -> (Vec<(String, Naming)>, Option<String>) {
        let kernel = |&(name, grid): &(&str, Option<[u32; 3]>)| Kernel {
            name: name.into(),
            naming: Naming::Demangled,
            grid,
            block: grid.map(|_| BLOCK),
            ..Kernel::default()
        };
        let kernels = kernels.iter().map(kernel).collect();
        let mut captures = [NsysTables { kernels, ..NsysTables::default() }];
        of_nsys(&mut report, &mut captures);
        let [tables] = captures;
        let names = tables
            .kernels
            .into_iter()
            .map(|kernel| (kernel.name.to_string(), kernel.naming))
            .collect();
        (names, report.findings.pop().map(|finding| finding.what))
    }

    fn found(name: &str) -> (String, Naming) {
        (name.to_owned(), Naming::Mangled)
    }

    fn lost(name: &str) -> (String, Naming) {
        (name.to_owned(), Naming::Demangled)
    }

    #[test]
    fn another_spelling_of_one_kernel_is_that_kernel() {
        let (names, what) = joined(report(&[(A, GRID)]), &[("k<float>()", Some(GRID))]);
        assert_eq!(names, [found(A)]);
        let what = what.expect("it is said");
        assert!(what.starts_with("1 demangled names of nsys were matched by normalised"), "{what}");
        // Of another grid it may be another kernel.
        let (names, _) = joined(report(&[(A, GRID)]), &[("k<float>()", Some([9, 1, 1]))]);
        assert_eq!(names, [lost("k<float>()")]);
    }

    #[test]
    fn what_could_be_two_kernels_of_the_rows_is_joined_with_neither() {
        let two = || report(&[(A, GRID), (B, GRID)]);
        assert_eq!(joined(two(), &[("k<float>()", Some(GRID))]).0, [lost("k<float>()")]);
        // The grid tells them apart.
        let apart = report(&[(A, GRID), (B, [9, 1, 1])]);
        let (names, what) = joined(apart, &[("k<float>()", Some(GRID)), ("k<float>()", None)]);
        assert_eq!(names, [found(A), lost("k<float>()")]);
        assert!(
            what.is_some_and(|what| what.ends_with("1 more matched no kernel, or more than one"))
        );
    }

    #[test]
    fn two_kernels_of_the_capture_are_not_one_of_the_rows() {
        let (a, b) = ("void a::k<float>()", "void b::k<float>()");
        for grid in [Some(GRID), None] {
            let (names, what) = joined(report(&[(A, GRID)]), &[(a, grid), (b, grid)]);
            assert_eq!((names, what), (vec![lost(a), lost(b)], None), "{grid:?}");
        }
        // On another grid the other one is no question.
        let (names, _) = joined(report(&[(A, GRID)]), &[(a, Some(GRID)), (b, Some([9, 1, 1]))]);
        assert_eq!(names, [found(A), lost(b)]);
    }

    #[test]
    fn names_of_ncu_are_joined_in_the_same_way() {
        let (a, b) = ("void a::k<float>()", "void b::k<float>()");
        let of = |names: &[&str]| {
            let kernel = |name: &&str| KernelCounters {
                key: Key { kernel: (*name).into(), grid: GRID, block: BLOCK, device: 0 },
                ..KernelCounters::default()
            };
            let kernels = names.iter().map(kernel).collect();
            let mut tables = NcuTables { kernels, ..NcuTables::default() };
            of_ncu(&mut report(&[(A, GRID)]), &mut tables);
            tables.kernels.into_iter().map(|kernel| kernel.key.kernel).collect::<Vec<_>>()
        };
        assert_eq!(of(&[a]), [A]);
        assert_eq!(of(&[a, b]), [a, b]);
    }
}
