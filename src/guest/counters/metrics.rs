//! Which metrics are asked for, and which of them one pass of the GPU measures together.

use std::ffi::{CStr, CString};

use cupti_sys::pm_sampling::{Chip, Metrics};
use stage2_contract::trace::counters::{self, Names};

/// What is asked for where nothing was named, the most important first. Of each line the first that the
/// chip has is taken: what CUPTI does not know it refuses.
const PREFERRED: &[Names] = &[
    counters::DRAM_READ,
    counters::DRAM_WRITE,
    counters::TENSOR,
    counters::SM_ACTIVE,
    counters::ISSUE,
    counters::L2_SECTORS,
    counters::PCIE_READ,
    counters::PCIE_WRITE,
    // No report reads it: it is for other readers of the trace file.
    &[c"gpc__cycles_elapsed.max"],
    // GPUs without a neighbour have none.
    counters::NVLINK_RECEIVED,
    counters::NVLINK_SENT,
];

/// Metrics that were chosen, and those that were named but left out.
pub(super) struct Choice {
    pub(super) metrics: Metrics<'static>,
    pub(super) names: Vec<CString>,
    pub(super) left_out: Vec<String>,
}

/// Adds metric after metric, as long as one pass measures all. `named`: by the user; none: the preferred.
/// `None` where not one is measured.
pub(super) fn choose(chip: &Chip<'static>, named: &[String]) -> Option<Choice> {
    let lines: Vec<Vec<CString>> = if named.is_empty() {
        PREFERRED.iter().map(|line| line.iter().map(|&name| name.to_owned()).collect()).collect()
    } else {
        named.iter().map(|name| CString::new(name.as_str()).into_iter().collect()).collect()
    };
    let mut choice: Option<Choice> = None;
    let mut left_out = Vec::new();
    for line in lines {
        let before = choice.as_ref().map(|choice| choice.names.clone()).unwrap_or_default();
        let fitting = line.iter().find_map(|name| {
            let mut names = before.clone();
            names.push(name.clone());
            let all: Vec<&CStr> = names.iter().map(CString::as_c_str).collect();
            let (metrics, passes) = chip.metrics(&all).ok()?;
            (passes == 1).then_some((metrics, names))
        });
        match fitting {
            Some((metrics, names)) => {
                choice = Some(Choice { metrics, names, left_out: Vec::new() });
            }
            None => left_out.extend(line.first().map(|name| name.to_string_lossy().into_owned())),
        }
    }
    // What the chip does not have was not asked for by anybody, unless it was named.
    choice.map(|choice| Choice {
        left_out: if named.is_empty() { Vec::new() } else { left_out },
        ..choice
    })
}
