//! The counters of ncu -> next to the kernel rows of a report, at their undisturbed durations.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::roofline::bound::{DURATION_RATIO_MOST, Evidence, one_launch, roofline};
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::visible;
use stage2_model::finding::Id;
use stage2_model::{
    CounterRow, KernelRow, Launch, Origin, Peaks, RATE_SHARE_MOST, Report, Roofline, StageRow,
};
use stage2_read::ncu::load::{KernelCounters, Tables};
use stage2_read::ncu::nvtx::{self, Label};
use stage2_read::path_label::element;

/// What follows the name of a stage of ncu's rows that stand next to the collector's.
pub(super) const NCU_MARK: &str = " (ncu)";

/// Kernel, grid, block and device: what both tools know of a launch. The device is absent where both
/// know one only: tools number devices differently when some are hidden.
type Key<'t> = (&'t str, [u32; 3], [u32; 3], Option<u32>);

/// Adds the counters to every row whose kernel, configuration and GPU ncu profiled: those of its
/// stage, or else those of another one, which say so.
pub(crate) fn attach(report: &mut Report, tables: &Tables, peaks: Option<&Peaks>) {
    let of_ncu: BTreeSet<u32> = tables.kernels.iter().map(|kernel| kernel.key.device).into_set();
    let of_rows: BTreeSet<Option<u32>> = report.kernels.iter().map(device_number).into_set();
    let several = of_ncu.len() > 1 || of_rows.len() > 1;
    let number = |device: u32| several.then_some(device);
    let mut by_key: HashMap<Key<'_>, Vec<&KernelCounters>> = HashMap::new();
    for counters in &tables.kernels {
        let of = &counters.key;
        let key = (of.kernel.as_str(), of.grid, of.block, number(of.device));
        by_key.entry(key).or_default().push(counters);
    }
    let shapeless = report.kernels.iter().filter(|row| row.launch.is_none()).count();
    let source = report.source.clone();
    let Report { kernels, kernel_names, stages, findings, .. } = report;
    let key = |row: &KernelRow| {
        let name = kernel_names.get(row.name_index).map_or("", |name| name.mangled.as_str());
        key_of(row, name, several)
    };
    let places = Places::new(stages, kernels, key);
    let mut joined = 0usize;
    let mut apart = Vec::new();
    let mut one_launch = Vec::new();
    let mut impossible = Vec::new();
    for row in kernels.iter_mut() {
        let Some(key) = key(row) else { continue };
        let Some(candidates) = by_key.get(&key) else { continue };
        let Some(counted) = choose(candidates, row, &key, &places, peaks) else { continue };
        joined += 1;
        if let Some(why) = &counted.one_launch {
            one_launch.push((row.kernel.clone(), row.stage.clone(), why.clone()));
        } else if let Some(ratio) = counted.roofline.duration_ratio
            && ratio > DURATION_RATIO_MOST
        {
            apart.push((row.kernel.clone(), ratio));
        }
        if let Some(share) = counted.roofline.beyond_peak() {
            impossible.push((row.kernel.clone(), share));
        }
        row.counters = Some(Box::new(counted));
        row.sources.counters = Some(Origin::Ncu);
    }
    findings.extend(tables.findings.iter().cloned());
    if joined == 0 && !tables.kernels.is_empty() {
        let profiled = tables.kernels.len();
        findings.push(Id::NcuNothingMatches.found(
            format!("none of the {profiled} kernels that ncu profiled is in the capture"),
            match shapeless {
                0 => "names, grids and blocks of both have to be the same".to_owned(),
                _ => format!("{shapeless} kernel rows have no grid and block to find them by"),
            },
            "profile the same command, and import with --print-kernel-base mangled; of nsys, merge \
             the SQLite export",
        ));
    }
    if let Some((kernel, stage, why)) = one_launch.first() {
        findings.push(Id::NcuOneLaunch.found(
            format!(
                "counters of {} of {joined} kernel rows are of the profiled launch only, e.g. {kernel} \
                 in {stage}",
                one_launch.len()
            ),
            format!("{why}; one configuration can stand for several workloads"),
            "no rate is given for these rows, and MFU by counters leaves them out; profile the \
             stage that matters (pipeline.ncu), or tell workloads apart with NVTX ranges",
        ));
    }
    if let Some((kernel, share)) = impossible.first() {
        findings.push(Id::NcuImpossibleRates.found(
            format!(
                "rates of {} kernel rows are more than the GPU can do, e.g. {share:.3e} times its peak \
                 for {kernel}",
                impossible.len(),
            ),
            format!(
                "counters, durations or peaks are not those of these kernels (up to \
                 {RATE_SHARE_MOST} times is attributed to clocks)"
            ),
            "compare hardware with env.json, and profile with ncu again; do not rely on the rates of these rows",
        ));
    }
    if let Some((kernel, ratio)) = apart.first() {
        findings.push(Id::NcuDurationDiffers.found(
            format!(
                "ncu's own duration is far from the undisturbed one for {} kernel rows, e.g. {ratio:.2} \
                 times it for {kernel}",
                apart.len()
            ),
            "ncu measures one launch, at other clocks and with cold caches",
            format!("read rates of these rows with care; durations are those of {source}"),
        ));
    }
}

/// Where the kernels of a report ran, and how their medians differ.
struct Places<'t> {
    stages: BTreeSet<String>,
    /// Stages of a kernel and configuration, with the smallest and largest median, ns.
    medians: HashMap<Key<'t>, BTreeMap<String, (u64, u64)>>,
}

impl<'t> Places<'t> {
    fn new(
        stages: &[StageRow],
        rows: &[KernelRow],
        key: impl Fn(&KernelRow) -> Option<Key<'t>>,
    ) -> Self {
        let mut medians: HashMap<Key<'t>, BTreeMap<String, (u64, u64)>> = HashMap::new();
        for row in rows {
            let Some(key) = key(row) else { continue };
            let of_stage = medians.entry(key).or_default().entry(row.stage.clone());
            let of_stage = of_stage.or_insert((u64::MAX, 0));
            if let Some(ns) = row.times.p50_ns.filter(|ns| *ns > 0) {
                *of_stage = (of_stage.0.min(ns), of_stage.1.max(ns));
            }
        }
        Self { stages: stages.iter().map(|row| row.stage.clone()).collect(), medians }
    }

    /// The stage that a launch was profiled in, where it is known: by its ranges, or because the
    /// kernel ran in no other.
    fn profiled_in(&self, counters: &KernelCounters, key: &Key<'t>) -> Option<String> {
        let named: Vec<String> = counters.outermost.iter().map(stage_label).collect();
        let known: Vec<&String> = named.iter().filter(|name| self.stages.contains(*name)).collect();
        let ran_in = self.medians.get(key).into_iter().flat_map(BTreeMap::keys);
        let possible: Vec<&String> = match (known.as_slice(), named.as_slice()) {
            ([one], _) => vec![*one],
            ([], [one]) => vec![one],
            ([], []) => ran_in.collect(),
            _ => ran_in.filter(|stage| known.contains(stage)).collect(),
        };
        if let [one] = possible.as_slice() { Some((*one).clone()) } else { None }
    }

    fn medians_ratio(&self, key: &Key<'t>, stage: &str) -> Option<f64> {
        let (low, high) = *self.medians.get(key)?.get(stage)?;
        (low <= high).then(|| high as f64 / low as f64)
    }
}

fn stage_label(label: &Label) -> String {
    let domain = label.domain.as_ref().map(|domain| visible(domain.as_bytes()));
    element(&visible(label.name.as_bytes()), domain.as_deref())
}

/// The counters of the row's stage, else such as stand for it nevertheless, else any.
fn choose<'t>(
    candidates: &[&KernelCounters],
    row: &KernelRow,
    key: &Key<'t>,
    places: &Places<'t>,
    peaks: Option<&Peaks>,
) -> Option<CounterRow> {
    if row.sources.times == Origin::Ncu {
        // The row is made of the very launches; its stage may be marked as ncu's.
        let stage = row.stage.strip_suffix(NCU_MARK).unwrap_or(&row.stage);
        let of_stage = |c: &&&KernelCounters| {
            c.outermost.iter().any(|label| nvtx::path(std::slice::from_ref(label)) == stage)
        };
        let unplaced = |c: &&&KernelCounters| c.outermost.is_empty();
        let found = candidates.iter().find(of_stage).or(candidates.iter().find(unplaced));
        let found = (*found.or(candidates.first())?).clone();
        // Against itself it would check nothing.
        let counters = KernelCounters { duration_ns: None, ..found };
        let profiled_in = Some(row.stage.clone());
        return Some(CounterRow { profiled_in, ..counter_row(&counters, row, peaks) });
    }
    let medians_ratio = places.medians_ratio(key, &row.stage);
    let counted = candidates.iter().map(|counters| {
        let mut counted = counter_row(counters, row, peaks);
        counted.profiled_in = places.profiled_in(counters, key);
        counted.one_launch = one_launch(&Evidence {
            profiled_in: counted.profiled_in.as_deref(),
            stage: &row.stage,
            calls: row.times.calls,
            duration_ratio: counted.roofline.duration_ratio,
            min_ns: row.times.min_ns,
            high_ns: row.times.p99_ns.or(row.times.max_ns),
            medians_ratio,
        });
        if counted.one_launch.is_some() {
            // Without the row counters give no rate, and a bound in the stage of the launch only.
            let duration_ratio = counted.roofline.duration_ratio;
            counted.roofline = Roofline { duration_ratio, ..roofline(counters, None, peaks) };
            if counted.profiled_in.as_ref() != Some(&row.stage) {
                (counted.roofline.bound, counted.roofline.bound_why) = (None, None);
            }
        }
        counted
    });
    counted.min_by_key(|counted| {
        (counted.profiled_in.as_ref() != Some(&row.stage), counted.one_launch.is_some())
    })
}

fn key_of<'t>(row: &KernelRow, name: &'t str, several: bool) -> Option<Key<'t>> {
    // Old tables of ncu have no columns of grid and block; zeros stand for them there.
    let of_ncu = (row.sources.times == Origin::Ncu).then(Launch::default);
    let launch = row.launch.or(of_ncu)?;
    let device = if several { Some(device_number(row)?) } else { None };
    Some((name, launch.grid, launch.block, device))
}

/// A device is shown as `0 NVIDIA H200`.
fn device_number(row: &KernelRow) -> Option<u32> {
    row.device.split_whitespace().next()?.parse().ok()
}

fn counter_row(counters: &KernelCounters, row: &KernelRow, peaks: Option<&Peaks>) -> CounterRow {
    let duration_ns = row.times.mean_ns.map(|ns| ns as f64);
    let mut counted = counters.measured.clone();
    counted.roofline = roofline(counters, duration_ns, peaks);
    counted.rules.order_by(|a, b| {
        b.speedup_percent.partial_cmp(&a.speedup_percent).unwrap_or(std::cmp::Ordering::Equal)
    });
    counted
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::Times;

    const KEY: Key<'_> = ("k", [1; 3], [32, 1, 1], None);

    fn places(rows: &[(&str, u64)]) -> Places<'static> {
        let stages: Vec<StageRow> = ["prefill", "decode", "encode@llm"]
            .map(|stage| StageRow { stage: stage.into(), ..StageRow::default() })
            .into();
        let row = |(stage, ns): &(&str, u64)| KernelRow {
            stage: (*stage).into(),
            times: Times { p50_ns: Some(*ns), ..Times::default() },
            ..KernelRow::default()
        };
        let rows: Vec<KernelRow> = rows.iter().map(row).collect();
        Places::new(&stages, &rows, |_| Some(KEY))
    }

    fn profiled_in(rows: &[(&str, u64)], ranges: &[&str]) -> Option<String> {
        let outermost = ranges.iter().map(|range| Label::of_stage(range)).collect();
        let counters = KernelCounters { outermost, ..KernelCounters::default() };
        places(rows).profiled_in(&counters, &KEY)
    }

    #[test]
    fn a_launch_is_placed_by_its_ranges_or_by_where_the_kernel_ran() {
        let both = [("prefill", 1), ("decode", 1)];
        assert_eq!(profiled_in(&both, &["decode"]).as_deref(), Some("decode"));
        assert_eq!(profiled_in(&both, &["encode@llm"]).as_deref(), Some("encode@llm"));
        let library = ["decode", "ncclAllReduce@NCCL"];
        assert_eq!(profiled_in(&both, &library).as_deref(), Some("decode"), "no stage but one");
        assert_eq!(profiled_in(&both, &["other"]).as_deref(), Some("other"));
        let order_not_known = ["decode", "encode@llm"];
        assert_eq!(profiled_in(&both, &order_not_known).as_deref(), Some("decode"), "it ran there");
        assert_eq!(profiled_in(&[("prefill", 1)], &order_not_known), None);
        assert_eq!(profiled_in(&both, &[]), None, "no ranges, two stages");
        assert_eq!(profiled_in(&both[..1], &[]).as_deref(), Some("prefill"), "it ran in no other");
    }

    #[test]
    fn medians_are_compared_within_a_stage() {
        let places = places(&[("decode", 100), ("decode", 120), ("prefill", 500), ("x", 0)]);
        assert_eq!(places.medians_ratio(&KEY, "decode"), Some(1.2));
        assert_eq!(places.medians_ratio(&KEY, "prefill"), Some(1.0));
        assert_eq!(places.medians_ratio(&KEY, "x"), None, "none is known");
        assert_eq!(places.medians_ratio(&KEY, "elsewhere"), None);
    }
}
