//! Tables of nsys or of ncu -> kernels in parts that share no launch, each in one stage.

use std::collections::BTreeMap;

use super::label;
use stage2_model::{PathKind, Times};
use stage2_read::ncu::load::{Key, Tables as NcuTables};
use stage2_read::ncu::nvtx;
use stage2_read::nsys::{Naming, Placed, Tables};
use stage2_read::trace::stats::mean;

/// Where a launch was, if nobody saw its ranges.
const NOT_KNOWN: &str = "(not known)";
/// Where a launch was, if it was outside of all ranges.
const OUTSIDE: &str = "(outside ranges)";
/// All that was captured, where no range is known at all.
const WHOLE: &str = "(whole capture)";

/// Kernels of one name and configuration in one stage on one device.
pub struct Piece {
    /// Its name.
    pub name: String,
    /// The name is mangled.
    pub mangled: bool,
    /// Grid and block.
    pub shape: Option<([u32; 3], [u32; 3])>,
    /// Index of the GPU.
    pub device: Option<u32>,
    /// The stage.
    pub stage: String,
    /// What kind of stage that is.
    pub kind: PathKind,
    /// Calls and durations.
    pub times: Times,
}

/// Rows of nsys. Ranges of its SQLite are the outermost of their thread, so that they part the
/// kernels. Those of the CSV tables may nest: then they do so only by their numbers, or where nothing
/// else is known of the kernels.
pub fn of_nsys(tables: &Tables) -> Vec<Piece> {
    let mut left: Vec<(u64, u64)> =
        tables.kernels.iter().map(|kernel| (kernel.calls, kernel.total_ns)).collect();
    let mut pieces = Vec::new();
    let piece = |index: usize, stage: String, kind, calls: u64, total_ns: u64| {
        let kernel = tables.kernels.get(index)?;
        // Extremes and calls without times are known of all launches of a kernel only.
        let whole = kernel.calls == calls;
        let untimed = if whole { kernel.untimed } else { 0 };
        let timed = calls.saturating_sub(untimed);
        let times = Times {
            calls,
            invalid_timestamp_calls: untimed,
            total_ns,
            mean_ns: mean(total_ns, timed).filter(|_| whole || kernel.untimed == 0),
            min_ns: kernel.min_ns.filter(|_| whole),
            max_ns: kernel.max_ns.filter(|_| whole),
            ..Times::default()
        };
        Some(Piece {
            name: kernel.name.to_string(),
            mangled: kernel.naming == Naming::Mangled,
            shape: kernel.grid.zip(kernel.block),
            device: kernel.device,
            stage,
            kind,
            times,
        })
    };
    if tables.placed != Placed::NotKnown {
        for range in &tables.ranges {
            for row in &range.kernels {
                let Some(rest) = left.get_mut(row.kernel) else { continue };
                *rest = (rest.0.saturating_sub(row.calls), rest.1.saturating_sub(row.total_ns));
                let (kind, calls) = (PathKind::Range, row.calls);
                pieces.extend(piece(row.kernel, label(range), kind, calls, row.total_ns));
            }
        }
    }
    // Kernels whose launch is not in the file may have been in any range.
    let outside = tables.placed != Placed::NotKnown && tables.counts.without_launch == 0;
    let (stage, kind) = match outside {
        _ if tables.ranges.is_empty() => (WHOLE, PathKind::WholeProcess),
        true => (OUTSIDE, PathKind::OutsideRanges),
        false => (NOT_KNOWN, PathKind::Unattributed),
    };
    for (index, (calls, total_ns)) in left.into_iter().enumerate().filter(|(_, rest)| rest.0 > 0) {
        pieces.extend(piece(index, stage.to_owned(), kind, calls, total_ns));
    }
    pieces
}

/// The launches that ncu profiled. Profiled ranges are no kernels.
pub(super) fn of_ncu(tables: &NcuTables) -> Vec<Piece> {
    let mut pieces: BTreeMap<(Key, String), Times> = BTreeMap::new();
    let no_range = tables.launches.iter().all(|launch| launch.ranges.is_empty());
    for launch in tables.launches.iter().filter(|launch| !launch.is_range()) {
        let key = Key {
            kernel: launch.kernel.clone(),
            grid: launch.grid,
            block: launch.block,
            device: launch.device,
        };
        let stage = launch.ranges.get(..1).map(nvtx::path).unwrap_or_default();
        let times = pieces.entry((key, stage)).or_default();
        let count = launch.count();
        times.calls = times.calls.saturating_add(count);
        let Some(ns) = launch.duration_ns() else {
            times.invalid_timestamp_calls = times.invalid_timestamp_calls.saturating_add(count);
            continue;
        };
        let whole = |ns: f64| ns.round() as u64;
        let (least, most) = launch.duration_ends_ns.unwrap_or((ns, ns));
        times.total_ns = times.total_ns.saturating_add(whole(ns * count as f64));
        times.min_ns = Some(times.min_ns.map_or(whole(least), |min| min.min(whole(least))));
        times.max_ns = times.max_ns.max(Some(whole(most)));
    }
    let piece = |((key, stage), mut times): ((Key, String), Times)| {
        let timed = times.calls.saturating_sub(times.invalid_timestamp_calls);
        times.mean_ns = mean(times.total_ns, timed);
        let (stage, kind) = match stage.is_empty() {
            true if no_range => (WHOLE.to_owned(), PathKind::WholeProcess),
            true => (NOT_KNOWN.to_owned(), PathKind::Unattributed),
            false => (stage, PathKind::Range),
        };
        Piece {
            name: key.kernel,
            mangled: tables.names_are_mangled,
            shape: Some((key.grid, key.block)),
            device: Some(key.device),
            stage,
            kind,
            times,
        }
    };
    pieces.into_iter().map(piece).collect()
}
