//! A stage, or a run, of a report -> its numbers by the names that conditions use.

use std::collections::BTreeMap;

use stage2_model::{
    DeviceRow, HostOtherWork, Report, Role, Spread as Latencies, StageEnergy, StageRow, WindowKind,
};

use crate::causes::CauseNames;
use crate::comparison::{Better, MetricUnit};
use crate::noise::{Expected, Spread, Within, noisiest};
use crate::stage_view::{StageView, Units};
use crate::work::KernelTime;
use Better::{Higher, Lower, Neither};
use MetricUnit::{Count, Joule, Mhz, Ms, PerSecond, Percent, Watt};

const NS_PER_MS: f64 = 1e6;
/// Standard error of a median over that of a mean, of a normal distribution.
const MEDIAN_ERROR: f64 = 1.2533;

/// What is known of a metric whatever its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// The name for people, without what it is per.
    label: &'static str,
    pub(crate) unit: MetricUnit,
    pub(crate) better: Better,
}

const fn kind(name: &'static str, label: &'static str, unit: MetricUnit, better: Better) -> Kind {
    Kind { name, label, unit, better }
}

/// Metrics of a stage that are not by class of kernels; docs/diff.md states what each is. Another number of kernels
/// alone helps or costs nothing: their time shows which.
const STAGE_METRICS: &[Kind] = &[
    kind("step_ms", "median time", Ms, Lower),
    kind("step_mean_ms", "mean time", Ms, Lower),
    kind("step_p99_ms", "99th percentile", Ms, Lower),
    kind("token_ms", "median time", Ms, Lower),
    kind("ttft_ms", "median time to first token", Ms, Lower),
    kind("tpot_ms", "median time per output token of a request", Ms, Lower),
    kind("tokens_per_s", "tokens per second", PerSecond, Higher),
    kind("host_ms", "mean host time", Ms, Lower),
    kind("window_ms", "window", Ms, Lower),
    kind("gpu_busy_ms", "GPU busy", Ms, Lower),
    kind("gpu_busy_percent", "GPU busy", Percent, Neither),
    kind("idle_ms", "GPU idle", Ms, Lower),
    kind("launch_gaps_ms", "launch gaps", Ms, Lower),
    kind("other_work_ms", "work of other stages", Ms, Neither),
    kind("kernels", "kernels", Count, Neither),
    kind("kernel_ms", "kernel time", Ms, Lower),
    kind("mfu_percent", "MFU", Percent, Higher),
    kind("mbu_percent", "MBU", Percent, Higher),
    kind("energy_j", "energy", Joule, Lower),
    kind("power_w", "mean power", Watt, Neither),
    kind("sm_clock_mhz", "SM clock", Mhz, Neither),
];

/// Where the window goes: the part, and the name of its metric. A share may grow because the window got shorter, so
/// that neither way is better.
const WINDOW_METRICS: &[(WindowKind, Kind)] = &[
    (WindowKind::Compute, kind("window_compute_percent", "share of compute", Percent, Neither)),
    (WindowKind::Transfer, kind("window_transfer_percent", "share of transfer", Percent, Neither)),
    (
        WindowKind::Waiting,
        kind("window_waiting_percent", "share of waiting in collectives", Percent, Neither),
    ),
    (
        WindowKind::Communication,
        kind("window_communication_percent", "share of communication", Percent, Neither),
    ),
    (WindowKind::Copies, kind("window_copies_percent", "share of copies", Percent, Neither)),
    (WindowKind::Busy, kind("window_busy_percent", "share of other GPU work", Percent, Neither)),
    (
        WindowKind::LaunchGaps,
        kind("window_launch_gaps_percent", "share of launch gaps", Percent, Neither),
    ),
    (
        WindowKind::OtherIdle,
        kind("window_other_idle_percent", "share of other idle time", Percent, Neither),
    ),
    (
        WindowKind::OtherWork,
        kind("window_other_work_percent", "share of other stages' work", Percent, Neither),
    ),
];

/// Sums over a run also grow with what it had to do, so that neither way is better.
pub(crate) const RUN_METRICS: &[Kind] = &[
    kind("duration_ms", "duration", Ms, Neither),
    kind("gpu_span_ms", "first to last GPU work", Ms, Neither),
    kind("gpu_busy_ms", "GPU busy", Ms, Neither),
    kind("gpu_busy_percent", "GPU busy", Percent, Neither),
    kind("kernels", "kernels", Count, Neither),
    kind("kernel_ms", "kernel time", Ms, Neither),
    kind("generated_tokens_per_s", "generated tokens per second", PerSecond, Higher),
    kind("mfu_percent", "MFU", Percent, Higher),
    kind("request_ms", "median time of a request", Ms, Lower),
];

/// A metric of kernels of a class: `class_gemm_ms`.
pub(crate) fn class_metric(class: &str) -> String {
    format!("class_{class}_ms")
}

pub(crate) fn class_of_metric(name: &str) -> Option<&str> {
    name.strip_prefix("class_")?.strip_suffix("_ms").filter(|class| !class.is_empty())
}

/// The name of a metric for people; of a cause of idle time, itself.
pub(crate) fn label(name: &str) -> String {
    if let Some(class) = class_of_metric(name) {
        return format!("{class} kernels");
    }
    let known = stage_kinds().chain(RUN_METRICS).find(|kind| kind.name == name);
    known.map_or_else(|| name.to_owned(), |kind| kind.label.to_owned())
}

/// Why the report of one side may have no number of a metric that the other has.
pub(crate) fn why_absent(name: &str) -> &'static str {
    match name {
        "step_p99_ms" => "too few steps",
        "token_ms" | "tokens_per_s" | "generated_tokens_per_s" => "its tokens are not known",
        "mfu_percent" | "mbu_percent" => "its model, tokens or GPU peaks are not known",
        "ttft_ms" => "it has no ranges of requests",
        "tpot_ms" | "request_ms" => "its engine recorded no requests",
        "energy_j" | "power_w" | "sm_clock_mhz" => "NVML was not read, or not often enough",
        "gpu_busy_percent" | "idle_ms" | "launch_gaps_ms" => "its report gives no idle time",
        "other_work_ms" => "its host was not sampled, or too rarely",
        name if is_share_of_window(name) => "its window is not known",
        _ => "not in its report",
    }
}

/// The metrics of a stage with fixed names: all but those of classes.
pub(crate) fn stage_kinds() -> impl Iterator<Item = &'static Kind> {
    STAGE_METRICS.iter().chain(WINDOW_METRICS.iter().map(|(_, kind)| kind))
}

/// A number of one run, and what is known of its noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) value: f64,
    /// Noise of the samples (steps, calls) that it is of. Of what a run has once, that of the steps: so much it may be off
    /// at least.
    pub(crate) spread: Option<Spread>,
    pub(crate) origin: Origin,
}

/// What a number of a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It is of many samples.
    Samples,
    /// The run has it once.
    OneValue,
    /// A count that repeats exactly.
    Count,
}

/// Times of a step, and amounts of it over its time.
const OF_STEPS: [&str; 9] = [
    "step_ms",
    "step_mean_ms",
    "token_ms",
    "ttft_ms",
    "tpot_ms",
    "request_ms",
    "tokens_per_s",
    "mfu_percent",
    "mbu_percent",
];

/// What is known of the noise of a number before it is compared, and within the noisiest run of each side.
pub(crate) fn expected(name: &str, before: &[Measured], after: &[Measured]) -> (Expected, Within) {
    let all_are = |origin: Origin| before.iter().chain(after).all(|of| of.origin == origin);
    let expected = match () {
        () if is_share_of_window(name) => Expected::Share,
        () if all_are(Origin::Count) => Expected::Count,
        () if !all_are(Origin::Samples) => Expected::OneValue,
        () if OF_STEPS.contains(&name) => Expected::Steps,
        () => Expected::Samples,
    };
    let within =
        |side: &[Measured]| noisiest(side.iter().map(|number| (number.value, number.spread)));
    (expected, within(before).zip(within(after)))
}

fn is_share_of_window(name: &str) -> bool {
    name == "gpu_busy_percent" || WINDOW_METRICS.iter().any(|(_, kind)| kind.name == name)
}

/// The numbers of a stage in one run, by name; what is not known is not there.
pub(crate) fn of_stage(
    view: &StageView<'_>,
    units: Option<Units>,
    classes: &BTreeMap<String, KernelTime>,
) -> BTreeMap<String, Measured> {
    let mut found = Found::default();
    let error_of_steps = of_steps(view, &mut found);
    let mut kernels = KernelTime::default();
    classes.values().for_each(|time| kernels.add(*time));
    of_window(view, units, kernels.relative_error(), &mut found);
    if let Some(units) = units {
        let all = view.row.kernel_sum_ns.map(|ns| ns as f64 / units.all);
        let sum = if units.is_warm { Some(kernels.ns) } else { all };
        found.noisy("kernel_ms", sum.map(|ns| ns / NS_PER_MS), kernels.relative_error());
        let kernels = view.row.kernels.map(|n| n as f64 / units.all);
        match view.row.kernels_per_instance_median.filter(|_| units.is_even) {
            Some(median) => found.count("kernels", Some(median as f64 / units.per_instance)),
            None if launches_as_many(view) => found.count("kernels", kernels),
            None => found.add("kernels", kernels),
        }
        for (class, time) in classes {
            // That no kernel ran is as sure as that two of them took the same time.
            let error = time.relative_error().or(Some((0.0, 2)));
            found.noisy(&class_metric(class), Some(time.ns / NS_PER_MS), error);
        }
    }
    // Amounts of a step over its time.
    found.noisy("mfu_percent", view.mfu_percent(), error_of_steps);
    found.noisy("mbu_percent", view.mbu_percent(), error_of_steps);
    of_energy(view, units, &mut found);
    for (part, kind) in WINDOW_METRICS {
        let Some(window) = view.window() else { break };
        let part = window.parts.iter().find(|found| found.kind == *part);
        found.add(kind.name, Some(part.map_or(0.0, |part| part.percent)));
    }
    found.with_noise_of_steps(error_of_steps)
}

/// Whether all of several calls launched the same number of kernels.
fn launches_as_many(view: &StageView<'_>) -> bool {
    let row = view.row;
    let ends = row.kernels_per_instance_min.zip(row.kernels_per_instance_max);
    row.instances.is_some_and(|calls| calls > 1) && ends.is_some_and(|(least, most)| least == most)
}

/// Standard error of a number relative to it, and the observations behind it.
pub(crate) type RelativeError = Option<(f64, u64)>;

/// The error of the median of times, from the distance to their 90th percentile, which one slow request does not move.
fn error_of(times: &Latencies) -> RelativeError {
    let (median, p90) = times.p50_ns.zip(times.p90_ns).filter(|(median, _)| *median > 0)?;
    let deviation = p90.saturating_sub(median) as f64 / P90_DEVIATIONS;
    let error = deviation / (times.count.max(1) as f64).sqrt();
    Some((error * MEDIAN_ERROR / median as f64, times.count))
}

/// Standard deviations from the median of a normal distribution to its 90th percentile.
const P90_DEVIATIONS: f64 = 1.2816;

/// Adds the times of the steps and what follows from them. All have the error of the median, the larger one: what is one
/// measurement has one judgement.
fn of_steps(view: &StageView<'_>, found: &mut Found) -> RelativeError {
    let mut error_of_steps = None;
    let relative = |error: Option<f64>, of: f64| error.filter(|_| of > 0.0).map(|error| error / of);
    if let Some(steps) = view.steps() {
        let error = steps.std_ns.map(|std| std / (steps.count.max(1) as f64).sqrt());
        let (mean, median) = (steps.mean_ns, steps.p50_ns);
        let of_median = relative(error, mean.unwrap_or(median));
        let of_median = of_median.map(|error| (error * MEDIAN_ERROR, steps.count));
        error_of_steps = of_median;
        found.noisy("step_ms", Some(median / NS_PER_MS), of_median);
        found.noisy("step_mean_ms", mean.map(|ns| ns / NS_PER_MS), of_median);
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
        let of_requests = view.requests().and_then(|requests| error_of(&requests.first_token));
        found.noisy("ttft_ms", first, of_requests.or(of_median));
        found.noisy("tokens_per_s", view.tokens_per_s(), of_median);
    } else {
        found.add("ttft_ms", view.time_to_first_token_ns().map(|ns| ns / NS_PER_MS));
        found.add("tokens_per_s", view.tokens_per_s());
    }
    if let Some(requests) = view.requests().filter(|_| view.role() == Role::Decode) {
        found.spread("tpot_ms", &requests.token);
    }
    let closed = view.row.instances.zip(view.row.host_total_ns).and_then(|(all, total)| {
        let closed = all.saturating_sub(view.row.unclosed.unwrap_or(0));
        (closed > 0).then(|| total as f64 / closed as f64)
    });
    found.add("host_ms", closed.map(|ns| ns / NS_PER_MS));
    error_of_steps
}

/// Adds the window, the busy time and the idle time of a stage, of its warm instances where these are known. Window
/// and idle time are single values of a run; busy time has the noise of the kernels.
fn of_window(
    view: &StageView<'_>,
    units: Option<Units>,
    error_of_kernels: RelativeError,
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
    // What samples show to be work of other stages is not idle time.
    let other = view.host.and_then(|host| host.other_work);
    let without = window.zip(busy).map(|(window, busy)| {
        let gaps = gaps.unwrap_or(0);
        HostOtherWork::split(other, gaps, window.saturating_sub(busy).saturating_sub(gaps))
    });
    let without = without.filter(|_| idle_known);
    found.add("window_ms", window.map(ms));
    found.noisy("gpu_busy_ms", busy.map(ms), error_of_kernels);
    let share = window.zip(busy).filter(|(window, _)| *window > 0 && idle_known);
    let share = share.map(|(window, busy)| busy as f64 * 100.0 / window as f64);
    found.add("gpu_busy_percent", share);
    found.add("idle_ms", without.map(|[gaps, longer, _]| ms(gaps.saturating_add(longer))));
    found.add("launch_gaps_ms", gaps.and(without).map(|[gaps, ..]| ms(gaps)));
    found.add("other_work_ms", other.and(without).map(|[.., other]| ms(other)));
}

/// Idle time that no named cause has, as the bar of a report calls it.
pub const REST_OF_IDLE: &str = "smaller and unknown causes";
/// Samples that a cause without a name may have had, as one standard error.
const UNSEEN_SAMPLES: f64 = 2.0;

/// The idle time of a stage by cause, and the work of other stages, ms; nothing where the host was not sampled, or not often enough.
pub(crate) fn of_host(
    view: &StageView<'_>,
    metrics: &BTreeMap<String, Measured>,
    causes: &CauseNames,
) -> Option<BTreeMap<String, Measured>> {
    let value = |name: &str| metrics.get(name).map(|metric| metric.value);
    let idle_ms = value("idle_ms")? + value("other_work_ms").unwrap_or(0.0);
    let host = view.host.filter(|host| !host.causes.is_empty())?;
    // What no sample tells may still have happened.
    let absent = (0.0, UNSEEN_SAMPLES / host.samples.max(1) as f64);
    let mut shares: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let small = host.small_causes.iter().map(|cause| host.of_all_time(cause));
    for cause in host.causes_with_other_work().into_iter().chain(small) {
        let name = causes.name(&cause);
        if !cause.is_finding() || !causes.all.contains(&name) {
            continue;
        }
        let (share, error) = shares.entry(name).or_default();
        *share += cause.percent / 100.0;
        *error = error.hypot(cause.error_percent / 100.0);
    }
    let rest = (1.0 - shares.values().map(|(share, _)| share).sum::<f64>()).clamp(0.0, 1.0);
    let rest_error = (rest * (1.0 - rest) / host.samples.max(1) as f64).sqrt();
    shares.insert(REST_OF_IDLE.to_owned(), (rest, rest_error));
    let mut found = Found::default();
    for cause in causes.all.iter().map(String::as_str).chain([REST_OF_IDLE]) {
        let (share, error) = shares.get(cause).copied().unwrap_or(absent);
        let standard_error = idle_ms * error;
        let spread = (host.samples > 1).then_some(Spread { standard_error, count: host.samples });
        found.insert(cause, Some(idle_ms * share), spread, Origin::Samples);
    }
    Some(found.0)
}

/// Energy, power and clocks.
fn of_energy(view: &StageView<'_>, units: Option<Units>, found: &mut Found) {
    let Some(energy) = view.energy else { return };
    found.add("sm_clock_mhz", energy.clocks.sm_clock_mhz.map(|clock| clock.mean));
    if has_cold_energy(view, energy) {
        return;
    }
    let joules = energy.energy_j.value().filter(|joules| *joules > 0.0);
    if let Some((joules, units)) = joules.zip(units) {
        let warm = view.row.warm.map(|warm| warm.instances as f64).filter(|count| *count > 0.0);
        let instances = warm.or_else(|| view.recorded_instances()).unwrap_or(1.0);
        found.add("energy_j", Some(joules / (instances * units.per_instance)));
    }
    found.add("power_w", energy.mean_power_w.value());
}

/// Whether the energy includes cold calls, as older versions counted it: then the windows of its GPUs do not add up to a
/// multiple of the warm window.
fn has_cold_energy(view: &StageView<'_>, energy: &StageEnergy) -> bool {
    let Some(warm) = view.row.warm.filter(|warm| warm.gpu_window_ns > 0) else { return false };
    let windows: f64 = energy.devices.iter().map(|device| device.window_ns as f64).sum();
    let times = windows / warm.gpu_window_ns as f64;
    (times - times.round()).abs() > SAME_WINDOWS * times
}

/// Share up to which windows are the same.
const SAME_WINDOWS: f64 = 0.001;

/// The numbers of a run, by name; what is not known is not there.
pub(crate) fn of_run(report: &Report) -> BTreeMap<String, Measured> {
    let mut found = Found::default();
    let pass = match report.source.as_str() {
        "collector" => "collect",
        other => other,
    };
    let pass = report.run.passes.iter().find(|row| row.name.as_deref() == Some(pass));
    found.add("duration_ms", pass.and_then(|row| row.duration_ms).map(|ms| ms as f64));
    let of_all_gpus = |ns: fn(&DeviceRow) -> Option<u64>| {
        let all: Option<f64> = report.devices.iter().map(|row| Some(ns(row)? as f64)).sum();
        all.filter(|_| !report.devices.is_empty())
    };
    let (busy, span) = (of_all_gpus(|row| row.gpu_busy_ns), of_all_gpus(|row| row.gpu_span_ns));
    found.add("gpu_span_ms", span.map(|ns| ns / NS_PER_MS));
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
    if let Some(requests) = report.engine.as_ref().and_then(|engine| engine.requests.as_ref()) {
        found.spread("request_ms", &requests.total);
    }
    found.0
}

#[derive(Default)]
struct Found(BTreeMap<String, Measured>);

impl Found {
    fn insert(&mut self, name: &str, value: Option<f64>, spread: Option<Spread>, origin: Origin) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.0.insert(name.to_owned(), Measured { value, spread, origin });
        }
    }

    fn add(&mut self, name: &str, value: Option<f64>) {
        self.insert(name, value, None, Origin::OneValue);
    }

    fn count(&mut self, name: &str, value: Option<f64>) {
        self.insert(name, value, None, Origin::Count);
    }

    /// `error` is the standard error relative to the value, and the observations behind it.
    fn noisy(&mut self, name: &str, value: Option<f64>, error: RelativeError) {
        let spread = value.and_then(|value| spread_of(value, error));
        let origin = if spread.is_some() { Origin::Samples } else { Origin::OneValue };
        self.insert(name, value, spread, origin);
    }

    /// The median of times.
    fn spread(&mut self, name: &str, times: &Latencies) {
        self.noisy(name, times.p50_ns.map(|ns| ns as f64 / NS_PER_MS), error_of(times));
    }

    /// Gives what a run has once the noise of its warm steps: to what is of a whole step in proportion, and to a part of
    /// it as much as to all of it.
    fn with_noise_of_steps(mut self, error: RelativeError) -> BTreeMap<String, Measured> {
        let step = self.0.get("window_ms").map(|window| window.value);
        let once = self.0.iter_mut().filter(|(_, number)| number.origin == Origin::OneValue);
        // How long a cold call takes, no warm one shows.
        for (name, number) in once.filter(|(name, _)| *name != "host_ms") {
            let whole = match name.as_str() {
                name if PARTS_OF_STEP.contains(&name) => step,
                name if is_share_of_window(name) => Some(100.0),
                _ => None,
            };
            number.spread = spread_of(whole.unwrap_or(number.value), error);
        }
        self.0
    }
}

/// Whether it is a part of the mean step, or that itself.
pub(crate) fn is_additive(name: &str) -> bool {
    PARTS_OF_STEP.contains(&name)
        || ["gpu_busy_ms", "kernel_ms"].contains(&name)
        || class_of_metric(name).is_some()
}

/// Parts of the time of a step. A run has a single value of each.
pub(crate) const PARTS_OF_STEP: [&str; 4] =
    ["window_ms", "idle_ms", "launch_gaps_ms", "other_work_ms"];

fn spread_of(value: f64, error: RelativeError) -> Option<Spread> {
    let (error, count) = error.filter(|(_, count)| *count > 1)?;
    Some(Spread { standard_error: error * value.abs(), count })
}
