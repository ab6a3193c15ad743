//! Numbers of a comparison -> cells, the same in every table and picture.

use stage2_contract::text::numbers::ABSENT;
use stage2_diff::{Better, MetricChange, MetricUnit, NoiseMethod, Verdict, signed};

/// A number of a metric, without its unit.
pub(super) fn value(value: Option<f64>, unit: MetricUnit) -> String {
    cell(value, |value| format!("{value:.*}", unit.digits(value)))
}

/// A difference, without its unit.
pub(super) fn difference(value: Option<f64>, unit: MetricUnit) -> String {
    cell(value, |value| signed(value, unit.digits(value)))
}

/// A difference in percent.
pub(super) fn percent(value: Option<f64>) -> String {
    cell(value, |value| signed(value, 1))
}

/// Nanoseconds as microseconds.
pub(super) fn us(ns: Option<f64>) -> String {
    cell(ns, |ns| format!("{:.3}", ns / 1e3))
}

/// A difference of nanoseconds as microseconds.
pub(super) fn us_difference(ns: f64) -> String {
    cell(Some(ns), |ns| signed(ns / 1e3, 3))
}

/// Calls, which need not be whole per unit.
pub(super) fn calls(value: Option<f64>) -> String {
    cell(value, |calls| match calls.fract() == 0.0 {
        true => format!("{calls:.0}"),
        false => format!("{calls:.2}"),
    })
}

/// What a metric's change comes to.
pub(super) fn verdict(metric: &MetricChange) -> &'static str {
    match (metric.verdict, metric.better) {
        (Verdict::Unknown, _) => ABSENT,
        (Verdict::None, _) if metric.change == Some(0.0) => "equal",
        (Verdict::None, _) if metric.noise.method == NoiseMethod::OneRunEach => "not judged",
        (Verdict::None, _) => "none (noise)",
        (Verdict::Increased, Better::Lower) | (Verdict::Decreased, Better::Higher) => "worse",
        (Verdict::Decreased, Better::Lower) | (Verdict::Increased, Better::Higher) => "better",
        (Verdict::Increased, Better::Neither) => "more",
        (Verdict::Decreased, Better::Neither) => "less",
    }
}

/// What a change was held against.
pub(super) fn noise(metric: &MetricChange) -> String {
    let threshold = || difference(metric.noise.threshold, metric.unit).replace('+', "±");
    match metric.noise.method {
        NoiseMethod::NotCompared => ABSENT.to_owned(),
        NoiseMethod::OneRunEach => "one run a side".to_owned(),
        NoiseMethod::Exact => "exact count".to_owned(),
        NoiseMethod::FivePercent => format!("{} (5 %)", threshold()),
        NoiseMethod::Instances => format!("{} (instances)", threshold()),
        NoiseMethod::OneAgainstSeveral => format!("{} and spread of the runs", threshold()),
        NoiseMethod::Separation => format!("{} and spread of the runs", threshold()),
        NoiseMethod::RankTest => match metric.noise.p_value {
            Some(p) => format!("{} and p = {p:.3}", threshold()),
            None => ABSENT.to_owned(),
        },
    }
}

fn cell(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    match value {
        Some(value) if value.is_finite() && value.abs() < 1e18 => show(value),
        Some(_) => "(no number)".to_owned(),
        None => ABSENT.to_owned(),
    }
}
