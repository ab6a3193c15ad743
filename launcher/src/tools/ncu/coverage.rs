//! What was chosen and what was profiled -> what is missing of it.

use std::collections::BTreeSet;

use stage2_analysis::ncu::load::Tables;
use stage2_model::{Finding, Severity};
use stage2_text as text;

use super::select::{Chosen, Shape};

/// What is missing of the kernels that were chosen; nothing where all of them were profiled.
///
/// A kernel can be missing although it ran: it may have been launched from another thread than the
/// range, or fewer times than are skipped. In a run that chooses nothing by itself (no names are
/// known) there is nothing to miss.
pub fn missing(chosen: &[Chosen], tables: &Tables) -> Option<Finding> {
    let profiled = |name: &str| -> BTreeSet<Shape> {
        let of_name = tables.kernels.iter().filter(|kernel| kernel.key.kernel == name);
        of_name.map(|kernel| (kernel.key.grid, kernel.key.block)).collect()
    };
    let mut kernels = Vec::new();
    let mut configurations = 0;
    for kernel in chosen {
        let found = profiled(&kernel.mangled);
        if found.is_empty() {
            kernels.push(text::shorten(&kernel.mangled, 60));
        } else {
            configurations += kernel.shapes.difference(&found).count();
        }
    }
    if kernels.is_empty() && configurations == 0 {
        return None;
    }
    let mut what = Vec::new();
    if !kernels.is_empty() {
        let names = kernels.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if kernels.len() > 3 { ", ..." } else { "" };
        what.push(format!("{} of {} kernels ({names}{more})", kernels.len(), chosen.len()));
    }
    if configurations > 0 {
        what.push(format!("{configurations} configurations of the others"));
    }
    // The whole of the kernels counts more than some of their shapes, which vary with the input.
    let severity = if kernels.is_empty() { Severity::Note } else { Severity::Warning };
    Some(Finding::new(
        severity,
        format!("ncu: no counters for {}", what.join(" and ")),
        "they ran in the collect pass, but no launch of them was profiled: other inputs, another \
         thread than that of the range, fewer launches than are skipped, or the time was over",
        "",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_analysis::ncu::load::{KernelCounters, Key};

    const ONE: Shape = ([1, 1, 1], [32, 1, 1]);
    const TWO: Shape = ([2, 1, 1], [32, 1, 1]);

    fn chosen(name: &str) -> Chosen {
        Chosen { mangled: name.into(), calls: 1, total_ns: 1, shapes: [ONE, TWO].into() }
    }

    fn tables(list: &[(&str, Shape)]) -> Tables {
        let kernels = list.iter().map(|(name, (grid, block))| {
            let key = Key { kernel: (*name).into(), grid: *grid, block: *block, device: 0 };
            KernelCounters { key, ..KernelCounters::default() }
        });
        Tables { kernels: kernels.collect(), ..Tables::default() }
    }

    #[test]
    fn nothing_is_missing_where_all_was_profiled() {
        assert_eq!(missing(&[chosen("a")], &tables(&[("a", ONE), ("a", TWO)])), None);
        assert_eq!(missing(&[], &tables(&[])), None);
    }

    #[test]
    fn kernels_and_configurations_are_missed() {
        let finding =
            missing(&[chosen("a"), chosen("b")], &tables(&[("a", ONE)])).expect("missing");
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.what.contains("1 of 2 kernels (b) and 1 configurations"), "{finding}");
        let note = missing(&[chosen("a")], &tables(&[("a", TWO)])).expect("missing");
        assert_eq!(note.severity, Severity::Note);
    }
}
