//! The fit of a GPU's samples by its kernels -> what a call of each kernel read, wrote and computed.

use std::collections::HashMap;

use rustc_hash::FxHashMap;
use stage2_contract::trace::ReadError;
use stage2_counter_fit::{Column, ColumnFit, Fit, Fitted, Kernel, Samples};

use super::read::{Item, SampledFile, for_each, kernel};
use super::store::Series;
use crate::roofline::bound::of_percent;
use crate::sampled::read::{Kind, KindTable};
use crate::sampled::store::Metric;
use stage2_contract::text::kernel_name;
use stage2_model::{
    Bound, KernelRow, NoAmount, RATE_SHARE_MOST, Report, SampledAmount, SampledKernel,
};
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::libraries::RangeNames;

/// What is fitted: shares become the time that they stand for, which adds up.
const FITTED: [Metric; 5] =
    [Metric::DramRead, Metric::DramWrite, Metric::L2Sectors, Metric::Tensor, Metric::Issue];

/// Amounts by stage (its place among the owners) and kind, in the order of [`FITTED`].
type Amounts = FxHashMap<(u32, u32), [SampledAmount; FITTED.len()]>;

/// What is known of the kinds on one GPU, by stage and kind.
#[derive(Debug, Default)]
pub(super) struct OfGpu {
    amounts: Amounts,
    /// Calls in the file that holds the samples, and how long they took together, ns: shares are of the
    /// time in which the samples were taken.
    durations: FxHashMap<(u32, u32), (u64, u64)>,
}

impl OfGpu {
    pub(super) fn is_empty(&self) -> bool {
        self.amounts.is_empty()
    }

    fn count(&mut self, kernel: &Kernel) {
        let Some(stage) = kernel.stage else { return };
        let (calls, ns) = self.durations.entry((stage, kernel.kind)).or_default();
        *calls += 1;
        *ns = ns.saturating_add(kernel.end_ns - kernel.start_ns);
    }

    fn mean_ns(&self, key: &(u32, u32)) -> Option<f64> {
        let &(calls, ns) = self.durations.get(key).filter(|(_, ns)| *ns > 0)?;
        Some(ns as f64 / calls as f64)
    }
}

/// Fits the series of a file that `wanted` says, each by itself.
pub(super) fn fit(
    process: &ProcessCapture,
    libraries: &RangeNames,
    file: &SampledFile,
    wanted: &[bool],
) -> Result<(Vec<OfGpu>, KindTable), ReadError> {
    let mut all: Vec<OfGpu> = file.store.series.iter().map(|_| OfGpu::default()).collect();
    let samples: Vec<Samples> = file.store.series.iter().map(additive).collect();
    let kinds = file.kinds.iter().zip(&samples);
    let designs: Vec<_> = kinds.map(|(kinds, samples)| kinds.design(samples)).collect();
    let fits = samples.iter().zip(&designs);
    // Both times are of one clock. What the counters lag behind it, the samples show.
    let mut fits: Vec<Fit<'_>> = fits.map(|(samples, design)| Fit::new(samples, design)).collect();
    let table = for_each(process, libraries, |item| {
        let Item::Work(work) = item else { return };
        let each = file.store.series.iter().zip(&file.held).zip(&mut fits).zip(&mut all);
        for ((((series, held), fit), of_gpu), _) in each.zip(wanted).filter(|(_, wanted)| **wanted)
        {
            if series.device == work.device {
                let kernel = kernel(&work, &held.owners);
                fit.kernel(&kernel);
                of_gpu.count(&kernel);
            }
        }
    })?;
    for ((fit, of_gpu), _) in fits.into_iter().zip(&mut all).zip(wanted).filter(|(_, w)| **w) {
        of_gpu.amounts = amounts(&fit.finish());
    }
    Ok((all, table))
}

/// The samples in units that add up.
fn additive(series: &Series) -> Samples {
    let mut samples = Samples::new(FITTED.len());
    let columns = FITTED.map(|wanted| series.metrics.iter().position(|metric| *metric == wanted));
    for (at, &(start, end)) in series.spans.iter().enumerate() {
        let values = series.sample(at);
        let mut of_sample = [f32::NAN; FITTED.len()];
        for ((value, column), metric) in of_sample.iter_mut().zip(columns).zip(FITTED) {
            if let Some(found) = column.and_then(|column| values.get(column)) {
                let share = if metric.is_percent() { (end - start) as f32 / 100.0 } else { 1.0 };
                *value = found * metric.unit() as f32 * share;
            }
        }
        samples.push(start, end, &of_sample);
    }
    samples
}

fn amounts(fitted: &Fitted) -> Amounts {
    let mut found = Amounts::default();
    for stage in &fitted.stages {
        for counter in &stage.counters {
            for column in &counter.columns {
                // What is fitted together has no amount of its own: the rows say so by having none.
                let Column::Kind(kind) = column.column else { continue };
                let of_kind = found.entry((stage.stage, kind)).or_insert_with(|| {
                    [(); FITTED.len()].map(|()| SampledAmount::Absent(NoAmount::NoCounter))
                });
                if let Some(place) = of_kind.get_mut(counter.counter) {
                    *place = amount(column);
                }
            }
        }
    }
    found
}

fn amount(column: &ColumnFit) -> SampledAmount {
    match column.amount {
        SampledAmount::Absent(NoAmount::TooUncertain { low, high, .. })
            if !(low.is_finite() && high.is_finite()) =>
        {
            SampledAmount::Absent(NoAmount::TooFewSamples { samples: column.samples })
        }
        ref known => known.clone(),
    }
}

/// A kernel on one GPU, as rows and fits both know it: stage, name, blocks and threads.
type Key<'t> = (&'t str, &'t str, [u32; 3], [u32; 3]);

/// Where a fit is of.
pub(super) struct Place<'p> {
    pub(super) device: String,
    pub(super) peak_bytes_per_s: Option<f64>,
    /// Labels of the stages, by their place among the owners.
    pub(super) stages: Vec<&'p str>,
}

/// Puts the amounts next to the rows of their kernels.
pub(super) fn attach(
    report: &mut Report,
    process: &ProcessCapture,
    place: &Place<'_>,
    of_gpu: &OfGpu,
    table: &KindTable,
) {
    let names: HashMap<u32, String> = (table.kinds.iter())
        .filter_map(|(kind, _)| match kind {
            Kind::Kernel(name, ..) => {
                Some((*name, kernel_name(process.names.get(*name as usize)?).mangled))
            }
            _ => None,
        })
        .collect();
    let none = [(); FITTED.len()].map(|()| SampledAmount::Absent(NoAmount::Pooled));
    let mut by_key: HashMap<Key<'_>, (&[SampledAmount; FITTED.len()], Option<f64>)> =
        HashMap::new();
    for (stage, label) in (0..).zip(&place.stages) {
        for (kind, (what, _)) in (0..).zip(&table.kinds) {
            let Kind::Kernel(name, grid, block) = what else { continue };
            let Some(name) = names.get(name) else { continue };
            let key = (*label, name.as_str(), *grid, *block);
            let of_kind = of_gpu.amounts.get(&(stage, kind));
            let mean_ns = of_gpu.mean_ns(&(stage, kind));
            if of_kind.is_some() || mean_ns.is_some() {
                by_key.insert(key, (of_kind.unwrap_or(&none), mean_ns));
            }
        }
    }
    let Report { kernels, kernel_names, .. } = report;
    for row in kernels.iter_mut().filter(|row| row.device == place.device) {
        let Some((launch, name)) = row.launch.zip(kernel_names.get(row.name_index)) else {
            continue;
        };
        if !place.stages.contains(&row.stage.as_str()) {
            continue;
        }
        let key = (row.stage.as_str(), name.mangled.as_str(), launch.grid, launch.block);
        let (of_kind, mean_ns) = by_key.get(&key).copied().unwrap_or((&none, None));
        row.sampled = Some(Box::new(of_row(row, of_kind, mean_ns, place.peak_bytes_per_s)));
    }
}

fn of_row(
    row: &KernelRow,
    amounts: &[SampledAmount; FITTED.len()],
    mean_ns: Option<f64>,
    peak_bytes_per_s: Option<f64>,
) -> SampledKernel {
    let [read, write, l2, tensor, issue] = amounts.clone();
    let of_peak = |bytes: f64| Some(bytes / (peak_bytes_per_s? * mean_ns? / 1e9) * 100.0);
    let (bound, bound_why) = bound(amounts, mean_ns, peak_bytes_per_s).unzip();
    let ncu = row.counters.as_ref().filter(|counters| counters.one_launch.is_none());
    let ncu =
        ncu.and_then(|counters| counters.roofline.dram_read_bytes).filter(|bytes| *bytes > 0.0);
    let kernel = SampledKernel {
        mean_ns,
        tensor_flops_per_s: None,
        flops_per_byte: None,
        dram_percent: None,
        dram_percent_at_most: None,
        dram_percent_at_least: None,
        tensor_percent: tensor.value().and_then(|tensor| Some(tensor / mean_ns? * 100.0)),
        dram_read_bytes: read,
        dram_write_bytes: write,
        l2_bytes: l2,
        tensor_ns: tensor,
        issue_ns: issue,
        bound,
        bound_why,
        dram_read_over_ncu: None,
    };
    let moved = kernel.moved();
    let read = kernel.dram_read_bytes.value();
    let dram_percent = moved.value().and_then(of_peak);
    let is_of_reads = bound == Some(Bound::Memory) && dram_percent.is_none();
    SampledKernel {
        dram_percent,
        dram_percent_at_most: moved.limit().and_then(of_peak),
        dram_percent_at_least: read.filter(|_| is_of_reads).and_then(of_peak),
        dram_read_over_ncu: read.zip(ncu).map(|(sampled, ncu)| sampled / ncu),
        ..kernel
    }
}

/// What holds a kernel up, where it is the same at both ends of what is known of its amounts.
fn bound(
    [read, write, _, tensor, issue]: &[SampledAmount; FITTED.len()],
    mean_ns: Option<f64>,
    peak_bytes_per_s: Option<f64>,
) -> Option<(Bound, String)> {
    let ns = mean_ns?;
    let of_peak = |bytes: f64| Some(bytes / (peak_bytes_per_s? * ns / 1e9) * 100.0);
    // What is said is the low end.
    let is_exact = |amount: &SampledAmount| amount.value().is_some();
    let possible = |percent: &f64| *percent <= RATE_SHARE_MOST * 100.0;
    let compute = |end: fn((f64, f64)) -> f64| {
        let share = |amount: &SampledAmount| Some(end(amount.between()?) / ns * 100.0);
        let share = share(tensor)?.max(share(issue)?);
        let name = match is_exact(tensor) && is_exact(issue) {
            true => "tensor pipe or issue",
            false => "tensor pipe or issue (at least)",
        };
        Some(share).filter(possible).zip(Some(name))
    };
    let (read, written) = (read.between()?, write.between());
    // Without what it wrote, more than what it read may have moved: only "memory" is certain then. Nor is
    // anything without both of the counters of compute.
    let (name, (low, high)) = match written {
        Some(written) => {
            let both = (read.0 + written.0, read.1 + written.1);
            let exact = both.0 >= both.1;
            (if exact { "DRAM bytes/s" } else { "DRAM bytes/s (at least)" }, both)
        }
        None => ("DRAM bytes read/s (at least)", read),
    };
    let memory = |bytes| of_peak(bytes).filter(possible).zip(Some(name));
    let ends: [fn((f64, f64)) -> f64; 2] = [|(low, _)| low, |(_, high)| high];
    let mut found = ends
        .iter()
        .flat_map(|end| [low, high].map(|bytes| of_percent(compute(*end), memory(bytes))));
    let first = found.next()??;
    let certain = found.all(|other| other.is_some_and(|(bound, _)| bound == first.0));
    (certain && (written.is_some() || first.0 == Bound::Memory)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(value: f64) -> SampledAmount {
        SampledAmount::Known { value, low: value, high: value }
    }

    /// Hazard (Records that make no sense): Samples cannot tell what a kernel writes from what others do, so the share of its roof is unknown,
    /// though it reads nearly all that memory can move.
    /// Promise: Its reads alone count, as the least that it attains.
    #[test]
    fn a_kernel_that_memory_bounds_attains_at_least_what_it_reads() {
        let of = |write: SampledAmount, tensor_ns| {
            // Reads 40 MB in 10 us, of 50 MB that memory could move.
            let amounts = [known(40e6), write, known(50e6), known(tensor_ns), known(500.0)];
            of_row(&KernelRow::default(), &amounts, Some(10_000.0), Some(5e12))
        };
        let unknown = || SampledAmount::Absent(NoAmount::Together { others: 3, total: Some(1e6) });
        let found = of(unknown(), 1_000.0);
        assert_eq!((found.dram_percent, found.dram_percent_at_least), (None, Some(80.0)));
        let found = of(known(5e6), 1_000.0);
        assert_eq!((found.dram_percent, found.dram_percent_at_least), (Some(90.0), None));
        let found = of(unknown(), 9_000.0);
        assert_eq!((found.dram_percent, found.dram_percent_at_least), (None, None));
    }
}
