//! A stage, or a run, of a report -> its numbers by the names that conditions use.

use std::collections::BTreeMap;

use stage2_model::{DeviceRow, Report, StageRow, WindowKind};

use crate::causes::CauseNames;
use crate::comparison::{Better, MetricUnit, Per};
use crate::noise::{Expected, Spread};
use crate::stage_view::{StageView, Units};
use Better::{Higher, Lower, Neither};
use MetricUnit::{Count, Joule, Mhz, Ms, PerSecond, Percent, Watt};

const NS_PER_MS: f64 = 1e6;
/// Standard error of a median over that of a mean, of a normal distribution.
const MEDIAN_ERROR: f64 = 1.2533;
/// Least relative standard error of the driver's energy, whatever its reads say.
const ENERGY_ERROR: f64 = 0.01;

/// What is known of a metric whatever its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) unit: MetricUnit,
    pub(crate) better: Better,
}

const fn kind(name: &'static str, unit: MetricUnit, better: Better) -> Kind {
    Kind { name, unit, better }
}

/// Metrics of a stage that are not by class of kernels; docs/diff.md says what each is.
const STAGE_METRICS: &[Kind] = &[
    kind("step_ms", Ms, Lower),
    kind("step_mean_ms", Ms, Lower),
    kind("step_p99_ms", Ms, Lower),
    kind("token_ms", Ms, Lower),
    kind("ttft_ms", Ms, Lower),
    kind("tokens_per_s", PerSecond, Higher),
    kind("host_ms", Ms, Lower),
    kind("window_ms", Ms, Lower),
    kind("gpu_busy_ms", Ms, Lower),
    kind("gpu_busy_percent", Percent, Neither),
    kind("idle_ms", Ms, Lower),
    kind("launch_gaps_ms", Ms, Lower),
    kind("kernels", Count, Lower),
    kind("kernel_ms", Ms, Lower),
    kind("mfu_percent", Percent, Higher),
    kind("mbu_percent", Percent, Higher),
    kind("energy_j", Joule, Lower),
    kind("power_w", Watt, Neither),
    kind("sm_clock_mhz", Mhz, Neither),
];

/// Where the window goes: the part, and the name of its metric.
const WINDOW_METRICS: &[(WindowKind, Kind)] = &[
    (WindowKind::Compute, kind("window_compute_percent", Percent, Neither)),
    (WindowKind::Transfer, kind("window_transfer_percent", Percent, Lower)),
    (WindowKind::Waiting, kind("window_waiting_percent", Percent, Lower)),
    (WindowKind::Communication, kind("window_communication_percent", Percent, Lower)),
    (WindowKind::Copies, kind("window_copies_percent", Percent, Lower)),
    (WindowKind::Busy, kind("window_busy_percent", Percent, Neither)),
    (WindowKind::LaunchGaps, kind("window_launch_gaps_percent", Percent, Lower)),
    (WindowKind::OtherIdle, kind("window_other_idle_percent", Percent, Lower)),
];

/// Wall time of the pass that the rows come from.
const DURATION: &str = "duration_ms";
/// Host time of a call, the cold ones included.
const OF_ALL_CALLS: &str = "host_ms";

pub(crate) const RUN_METRICS: &[Kind] = &[
    kind(DURATION, Ms, Lower),
    kind("gpu_busy_ms", Ms, Lower),
    kind("gpu_busy_percent", Percent, Neither),
    kind("kernels", Count, Lower),
    kind("kernel_ms", Ms, Lower),
    kind("generated_tokens_per_s", PerSecond, Higher),
    kind("mfu_percent", Percent, Higher),
];

/// A metric of kernels of a class: `class_gemm_ms`.
pub(crate) fn class_metric(class: &str) -> String {
    format!("class_{class}_ms")
}

pub(crate) fn class_of_metric(name: &str) -> Option<&str> {
    name.strip_prefix("class_")?.strip_suffix("_ms").filter(|class| !class.is_empty())
}

/// The metrics of a stage with fixed names: all but those of classes.
pub(crate) fn stage_kinds() -> impl Iterator<Item = &'static Kind> {
    STAGE_METRICS.iter().chain(WINDOW_METRICS.iter().map(|(_, kind)| kind))
}

/// A number of one run, and what is known of its noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) value: f64,
    pub(crate) spread: Option<Spread>,
    pub(crate) exact: bool,
}

/// What is known of the noise of two numbers of single runs.
pub(crate) fn expected(name: &str, before: Option<Measured>, after: Option<Measured>) -> Expected {
    let spread = |number: Option<Measured>| number.and_then(|number| number.spread);
    let spreads = spread(before).zip(spread(after));
    let exact = |number: Option<Measured>| number.is_some_and(|number| number.exact);
    match spreads {
        // Start-up, a cold cache, another process: no part of one run shows how far it may be off.
        _ if [DURATION, OF_ALL_CALLS].contains(&name) => Expected::BetweenRuns,
        _ if is_share_of_window(name) => Expected::Share(spreads),
        _ if exact(before) && exact(after) => Expected::Count,
        Some((a, b)) => Expected::Spread(a, b),
        None => Expected::Measured,
    }
}

fn is_share_of_window(name: &str) -> bool {
    name == "gpu_busy_percent" || WINDOW_METRICS.iter().any(|(_, kind)| kind.name == name)
}

/// The numbers of a stage in one run, by name; what is not known is not there.
pub(crate) fn of_stage(
    view: &StageView<'_>,
    per: Per,
    units: Option<Units>,
    classes: &BTreeMap<String, f64>,
) -> BTreeMap<String, Measured> {
    let mut found = Found::default();
    let error_of_mean = of_steps(view, &mut found);
    of_window(view, units, error_of_mean, &mut found);
    if let Some(units) = units {
        let ms = |ns: u64| ns as f64 / NS_PER_MS / units.all;
        let of_warm = classes.values().sum::<f64>() / NS_PER_MS;
        found.add(
            "kernel_ms",
            if units.is_warm { Some(of_warm) } else { view.row.kernel_sum_ns.map(ms) },
        );
        match (per, view.row.kernels_per_instance_median) {
            (Per::Instance, Some(median)) => found.count("kernels", Some(median as f64)),
            _ => found.add("kernels", view.row.kernels.map(|n| n as f64 / units.all)),
        }
        for (class, ns) in classes {
            found.add(&class_metric(class), Some(ns / NS_PER_MS));
        }
    }
    found.add("mfu_percent", view.mfu_percent());
    found.add("mbu_percent", view.mbu_percent());
    of_energy(view, units, &mut found);
    for (part, kind) in WINDOW_METRICS {
        let Some(window) = view.window() else { break };
        let part = window.parts.iter().find(|found| found.kind == *part);
        found.noisy(kind.name, Some(part.map_or(0.0, |part| part.percent)), error_of_mean);
    }
    found.0
}

/// Standard error of a mean relative to it, and the observations behind it.
type RelativeError = Option<(f64, u64)>;

fn of_steps(view: &StageView<'_>, found: &mut Found) -> RelativeError {
    let mut error_of_mean = None;
    let relative = |error: Option<f64>, of: f64| error.filter(|_| of > 0.0).map(|error| error / of);
    if let Some(steps) = view.steps() {
        let error = steps.std_ns.map(|std| std / (steps.count.max(1) as f64).sqrt());
        let (mean, median) = (steps.mean_ns, steps.p50_ns);
        let of_median = relative(error, median).map(|error| (error * MEDIAN_ERROR, steps.count));
        let of_mean = mean.and_then(|mean| relative(error, mean)).map(|error| (error, steps.count));
        error_of_mean = of_mean;
        found.noisy("step_ms", Some(median / NS_PER_MS), of_median);
        found.noisy("step_mean_ms", mean.map(|ns| ns / NS_PER_MS), of_mean);
        // Of few steps the tail is one or two of them: it is known no better than to its distance
        // from the median.
        let of_tail = steps.p99_ns.and_then(|p99| {
            let error = steps.std_ns.unwrap_or(0.0).max(p99 - median);
            relative(Some(error), p99).map(|error| (error, steps.count))
        });
        found.noisy("step_p99_ms", steps.p99_ns.map(|ns| ns / NS_PER_MS), of_tail);
        let token = view.tokens_per_step().map(|tokens| median / tokens / NS_PER_MS);
        found.noisy("token_ms", token, of_median);
        let first = view.time_to_first_token_ns().map(|ns| ns / NS_PER_MS);
        found.noisy("ttft_ms", first, of_median);
        found.noisy("tokens_per_s", view.tokens_per_s(), of_mean);
    } else {
        found.add("ttft_ms", view.time_to_first_token_ns().map(|ns| ns / NS_PER_MS));
        found.add("tokens_per_s", view.tokens_per_s());
    }
    let closed = view.row.instances.zip(view.row.host_total_ns).and_then(|(all, total)| {
        let closed = all.saturating_sub(view.row.unclosed.unwrap_or(0));
        (closed > 0).then(|| total as f64 / closed as f64)
    });
    found.noisy(OF_ALL_CALLS, closed.map(|ns| ns / NS_PER_MS), error_of_mean);
    error_of_mean
}

/// Window, busy and idle time: of the warm instances where they are told apart. What the host takes
/// part in is as noisy as its steps.
fn of_window(
    view: &StageView<'_>,
    units: Option<Units>,
    error_of_mean: RelativeError,
    found: &mut Found,
) {
    let Some(units) = units else { return };
    let row = view.row;
    let warm = row.ordinary().filter(|warm| warm.instances > 0);
    let (instances, window, busy, gaps) = match warm {
        Some(warm) => (
            Some(warm.instances as f64),
            Some(warm.gpu_window_ns),
            Some(warm.gpu_busy_ns),
            row.gpu_short_gaps_ns.map(|_| warm.gpu_short_gaps_ns),
        ),
        None => {
            (view.recorded_instances(), row.gpu_window_ns, row.gpu_busy_ns, row.gpu_short_gaps_ns)
        }
    };
    let of_units = instances.unwrap_or(1.0) * units.per_instance;
    let ms = |ns: u64| ns as f64 / NS_PER_MS / of_units;
    // Other processes may have filled the gaps where the report gives no idle time.
    let idle_known = row.gpu_idle_ns.is_some();
    let idle = window.zip(busy).map(|(window, busy)| window.saturating_sub(busy));
    found.noisy("window_ms", window.map(ms), error_of_mean);
    found.add("gpu_busy_ms", busy.map(ms));
    let share = window.zip(busy).filter(|(window, _)| *window > 0 && idle_known);
    let share = share.map(|(window, busy)| busy as f64 * 100.0 / window as f64);
    found.noisy("gpu_busy_percent", share, error_of_mean);
    // Busy time hardly varies: idle time varies by as much as the window, and not by as large a share.
    let idle = idle.filter(|_| idle_known);
    let window_per_idle = window.zip(idle).filter(|(_, idle)| *idle > 0);
    let window_per_idle = window_per_idle.map(|(window, idle)| window as f64 / idle as f64);
    let error_of_idle = error_of_mean.zip(window_per_idle).map(|((error, n), by)| (error * by, n));
    found.noisy("idle_ms", idle.map(ms), error_of_idle);
    found.noisy("launch_gaps_ms", gaps.filter(|_| idle_known).map(ms), error_of_mean);
}

/// The idle time of a stage by cause, ms; nothing where the host was not sampled, or not often enough. A cause
/// that has none is known to about one sample.
pub(crate) fn of_host(
    view: &StageView<'_>,
    metrics: &BTreeMap<String, Measured>,
    causes: &CauseNames,
) -> Option<BTreeMap<String, Measured>> {
    let idle_ms = metrics.get("idle_ms")?.value;
    let host = view.host.filter(|host| !host.causes.is_empty())?;
    let mut shares: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for cause in host.causes.iter().filter(|cause| cause.is_finding()) {
        let (share, variance) = shares.entry(causes.name(cause)).or_default();
        *share += cause.percent / 100.0;
        *variance += (cause.error_percent / 100.0).powi(2);
    }
    let least = 1.0 / host.samples.max(1) as f64;
    let measured = |cause: &String| {
        let (share, variance) = shares.get(cause).copied().unwrap_or_default();
        let standard_error = idle_ms * variance.sqrt().max(least);
        let spread = Some(Spread { standard_error, count: host.samples });
        (cause.clone(), Measured { value: idle_ms * share, spread, exact: false })
    };
    Some(causes.all.iter().map(measured).collect())
}

/// Energy, power and clocks. What the energy may be off by counts as its noise.
fn of_energy(view: &StageView<'_>, units: Option<Units>, found: &mut Found) {
    let Some(energy) = view.energy else { return };
    let joules = energy.energy_j.value().filter(|joules| *joules > 0.0);
    if let Some((joules, units)) = joules.zip(units) {
        let of_units = view.recorded_instances().unwrap_or(1.0) * units.per_instance;
        let off = energy.uncertainty_j.unwrap_or(0.0) / joules;
        let error = (off.max(ENERGY_ERROR), energy.clocks.reads);
        found.noisy("energy_j", Some(joules / of_units), Some(error));
    }
    found.add("power_w", energy.mean_power_w.value());
    found.add("sm_clock_mhz", energy.clocks.sm_clock_mhz.map(|clock| clock.mean));
}

/// The numbers of a run, by name; what is not known is not there.
pub(crate) fn of_run(report: &Report) -> BTreeMap<String, Measured> {
    let mut found = Found::default();
    let pass = match report.source.as_str() {
        "collector" => "collect",
        other => other,
    };
    let pass = report.run.passes.iter().find(|row| row.name.as_deref() == Some(pass));
    found.add(DURATION, pass.and_then(|row| row.duration_ms).map(|ms| ms as f64));
    let of_all_gpus = |ns: fn(&DeviceRow) -> Option<u64>| {
        let all: Option<f64> = report.devices.iter().map(|row| Some(ns(row)? as f64)).sum();
        all.filter(|_| !report.devices.is_empty())
    };
    let (busy, span) = (of_all_gpus(|row| row.gpu_busy_ns), of_all_gpus(|row| row.gpu_span_ns));
    found.add("gpu_busy_ms", busy.map(|ns| ns / NS_PER_MS));
    let alone = !report.devices.iter().any(|row| row.shared_by_processes);
    let share = busy.zip(span).filter(|(_, span)| *span > 0.0 && alone);
    found.add("gpu_busy_percent", share.map(|(busy, span)| busy * 100.0 / span));
    let of_known_stages = |number: fn(&StageRow) -> Option<u64>| {
        let known = report.stages.iter().filter_map(number).map(|number| number as f64);
        known.reduce(|a, b| a + b)
    };
    found.count("kernels", of_known_stages(|row| row.kernels));
    found.add("kernel_ms", of_known_stages(|row| row.kernel_sum_ns).map(|ns| ns / NS_PER_MS));
    if let Some(used) = &report.insight.utilisation {
        let model = &used.numbers.model;
        found.add("generated_tokens_per_s", model.generated_tokens_per_s.value());
        found.add("mfu_percent", model.mfu_wall.value().map(|share| share * 100.0));
    }
    found.0
}

#[derive(Default)]
struct Found(BTreeMap<String, Measured>);

impl Found {
    fn insert(&mut self, name: &str, value: Option<f64>, spread: Option<Spread>, exact: bool) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.0.insert(name.to_owned(), Measured { value, spread, exact });
        }
    }

    fn add(&mut self, name: &str, value: Option<f64>) {
        self.insert(name, value, None, false);
    }

    fn count(&mut self, name: &str, value: Option<f64>) {
        self.insert(name, value, None, true);
    }

    /// `error` is the standard error relative to the value, and the observations behind it.
    fn noisy(&mut self, name: &str, value: Option<f64>, error: RelativeError) {
        let spread = value.zip(error).filter(|(_, (_, count))| *count > 1);
        let spread = spread
            .map(|(value, (error, count))| Spread { standard_error: error * value.abs(), count });
        self.insert(name, value, spread, false);
    }
}
