//! Kernel totals of the collector and of nsys -> how far the nsys capture can be believed.
//!
//! nsys can lose nine kernels in ten without a mark in its tables. The two tools see two runs of one
//! workload, so counts have to agree and times have to be alike; what does not is shown kernel by
//! kernel, and a capture that lost records is kept out of every other table.

use std::collections::BTreeMap;

use stage2_contract::text::numbers::{count, ms3, percent1};
use stage2_contract::text::visible;
use stage2_model::{Belief, KernelSides, Reconciliation, Sides};
use stage2_read::nsys::Total;

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison<'a> {
    /// What both sides are about, for people: `the whole run`, `the stage decode`.
    pub scope: &'a str,
    /// Kernels as the collector counted them.
    pub collector: &'a [Total<'a>],
    /// Kernels as nsys counted them.
    pub nsys: &'a [Total<'a>],
    /// How often the collector saw the stage, and how often nsys did: a gated capture holds its
    /// first instance only. None: both sides cover the same.
    pub instances: Option<(u64, u64)>,
    /// CUDA graphs that nsys recorded as a whole: their kernels are missing from its side by design.
    pub graph_launches: u64,
}

/// How far the numbers of kernels may be apart, percent of the collector's.
const CALLS_PERCENT: f64 = 1.0;
/// How far the sums of the kernels' durations may be apart, percent of the collector's. Two runs on
/// one GPU differ by its clocks.
const TIME_PERCENT: f64 = 15.0;

/// Compares both sides.
pub fn reconcile(comparison: &Comparison<'_>) -> Reconciliation {
    let scaled = comparison.instances.filter(|(ours, theirs)| ours != theirs && *ours > 0);
    let mut by_name: BTreeMap<String, Sides> = BTreeMap::new();
    for total in comparison.collector {
        let sides = by_name.entry(visible(total.mangled.as_bytes())).or_default();
        sides.collector_calls = sides.collector_calls.saturating_add(total.calls);
        sides.collector_ns = sides.collector_ns.saturating_add(total.total_ns);
    }
    if let Some((ours, theirs)) = scaled {
        for sides in by_name.values_mut() {
            sides.collector_calls = scale(sides.collector_calls, ours, theirs);
            sides.collector_ns = scale(sides.collector_ns, ours, theirs);
        }
    }
    for total in comparison.nsys {
        let sides = by_name.entry(visible(total.mangled.as_bytes())).or_default();
        sides.nsys_calls = sides.nsys_calls.saturating_add(total.calls);
        sides.nsys_ns = sides.nsys_ns.saturating_add(total.total_ns);
    }
    let mut overall = Sides::default();
    by_name.values().for_each(|sides| overall.add(sides));
    let only = |here: fn(&Sides) -> u64, there: fn(&Sides) -> u64| {
        by_name.values().filter(|sides| here(sides) > 0 && there(sides) == 0).count() as u64
    };
    let missing_in_nsys = only(|s| s.collector_calls, |s| s.nsys_calls);
    let missing_in_collector = only(|s| s.nsys_calls, |s| s.collector_calls);
    let exact = by_name.values().all(|sides| sides.collector_calls == sides.nsys_calls);
    let belief = belief(comparison, &overall, exact);
    let mut kernels: Vec<KernelSides> =
        by_name.into_iter().map(|(mangled, sides)| KernelSides { mangled, sides }).collect();
    kernels.sort_by_key(|k| {
        let apart = (k.sides.calls_difference().abs(), k.sides.ns_difference().abs());
        (std::cmp::Reverse(apart), k.mangled.clone())
    });
    Reconciliation {
        scope: comparison.scope.to_owned(),
        belief,
        scaled,
        overall,
        kernels,
        missing_in_nsys,
        missing_in_collector,
        text: text(comparison, belief, &overall, scaled),
    }
}

fn belief(comparison: &Comparison<'_>, overall: &Sides, exact: bool) -> Belief {
    let within = |percent: Option<f64>, bound: f64| percent.is_some_and(|p| p.abs() <= bound);
    if overall.collector_calls == 0 || comparison.instances.is_some_and(|(_, theirs)| theirs == 0) {
        return Belief::NotComparable;
    }
    if overall.calls_percent().is_some_and(|percent| percent < -CALLS_PERCENT) {
        // Kernels inside of graphs are not lost, they were not asked for.
        let by_design = comparison.graph_launches > 0;
        return if by_design { Belief::NotComparable } else { Belief::Lossy };
    }
    // Times of next to nothing may differ by any share.
    let times = overall.collector_ns == 0 || within(overall.ns_percent(), TIME_PERCENT);
    match (within(overall.calls_percent(), CALLS_PERCENT) && times, exact) {
        (true, true) => Belief::Agrees,
        (true, false) => Belief::WithinBounds,
        (false, _) => Belief::Differs,
    }
}

fn text(
    comparison: &Comparison<'_>,
    belief: Belief,
    overall: &Sides,
    scaled: Option<(u64, u64)>,
) -> String {
    let Sides { collector_calls, nsys_calls, collector_ns, nsys_ns } = *overall;
    let verdict = match belief {
        Belief::Agrees => "nsys agrees with the collector",
        Belief::WithinBounds => "nsys differs from the collector within bounds",
        Belief::Lossy => "nsys lost records and is not to be believed",
        Belief::Differs => "nsys differs from the collector, and is not to be used beside it",
        Belief::NotComparable if collector_calls == 0 => {
            "nsys cannot be checked: the collector has no kernels"
        }
        Belief::NotComparable if comparison.graph_launches > 0 => {
            "nsys cannot be checked: it recorded CUDA graphs as a whole"
        }
        Belief::NotComparable => "nsys cannot be checked: it has no such range",
    };
    let percent = |percent: Option<f64>| match percent {
        Some(percent) => format!("{}{}%", if percent > 0.0 { "+" } else { "" }, percent1(percent)),
        None => "nothing to compare with".into(),
    };
    let scaled = scaled.map_or_else(String::new, |(ours, theirs)| {
        format!(
            "; the collector's numbers scaled from {} instances to {}",
            count(ours),
            count(theirs)
        )
    });
    format!(
        "{verdict}: {}: {} of {} kernels ({}), {} of {} ms ({}){scaled}",
        comparison.scope,
        count(nsys_calls),
        count(collector_calls),
        percent(overall.calls_percent()),
        ms3(nsys_ns),
        ms3(collector_ns),
        percent(overall.ns_percent()),
    )
}

/// `value` of `from` instances, for `to` of them, rounded.
fn scale(value: u64, from: u64, to: u64) -> u64 {
    let scaled =
        (u128::from(value) * u128::from(to) + u128::from(from) / 2) / u128::from(from).max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(mangled: &str, calls: u64, total_ns: u64) -> Total<'_> {
        Total { mangled, calls, total_ns }
    }

    fn compare(
        collector: &[Total<'_>],
        nsys: &[Total<'_>],
        instances: Option<(u64, u64)>,
    ) -> Reconciliation {
        let comparison =
            Comparison { scope: "the whole run", collector, nsys, instances, graph_launches: 0 };
        reconcile(&comparison)
    }

    #[test]
    fn the_same_counts_agree_and_say_so_with_numbers() {
        let ours = [total("_Z1av", 2000, 10_000_000), total("_Z1bv", 10, 1_000)];
        let theirs = [total("_Z1bv", 10, 1_100), total("_Z1av", 2000, 10_500_000)];
        let result = compare(&ours, &theirs, None);
        assert_eq!((result.belief, result.finding()), (Belief::Agrees, None));
        assert_eq!(
            result.text,
            "nsys agrees with the collector: the whole run: 2,010 of 2,010 kernels (0.0%), \
             10.501 of 10.001 ms (+5.0%)"
        );
        assert_eq!(result.kernels.first().map(|k| k.sides.ns_difference()), Some(500_000));
    }

    #[test]
    fn lost_kernels_are_not_to_be_believed() {
        let result =
            compare(&[total("_Z1av", 12_428, 40_000)], &[total("_Z1av", 1_128, 4_000)], None);
        assert_eq!(result.belief, Belief::Lossy);
        assert!(!result.belief.usable());
        let finding = result.finding().expect("a finding");
        assert!(finding.what.contains("1,128 of 12,428 kernels (-90.9%)"), "{finding}");
        let empty = compare(&[total("_Z1av", 5, 5)], &[], None);
        assert_eq!((empty.belief, empty.missing_in_nsys), (Belief::Lossy, 1));
    }

    #[test]
    fn small_differences_are_within_bounds_and_large_ones_are_not() {
        let ours = [total("_Z1av", 1000, 1_000_000), total("_Z1bv", 1, 10)];
        let near = compare(&ours, &[total("_Z1av", 999, 1_000_000), total("_Z1cv", 1, 10)], None);
        assert_eq!(
            (near.belief, near.missing_in_nsys, near.missing_in_collector),
            (Belief::WithinBounds, 1, 1)
        );
        let more = compare(&ours, &[total("_Z1av", 1100, 1_000_000)], None);
        assert_eq!(more.belief, Belief::Differs);
        let slow = compare(&ours, &[total("_Z1av", 1000, 1_500_000), total("_Z1bv", 1, 10)], None);
        assert_eq!(slow.belief, Belief::Differs);
        assert!(!slow.belief.usable() && near.belief.usable());
    }

    #[test]
    fn a_gated_capture_is_compared_with_as_many_instances() {
        let ours = [total("_Z1av", 30, 3_000)];
        let result = compare(&ours, &[total("_Z1av", 10, 1_000)], Some((3, 1)));
        assert_eq!((result.belief, result.scaled), (Belief::Agrees, Some((3, 1))));
        assert!(result.text.contains("scaled from 3 instances to 1"), "{}", result.text);
        assert_eq!(compare(&ours, &[], Some((3, 0))).belief, Belief::NotComparable);
    }

    #[test]
    fn nothing_to_compare_with_is_said() {
        assert_eq!(compare(&[], &[total("_Z1av", 1, 1)], None).belief, Belief::NotComparable);
        let collector = [total("_Z1av", 100, 100)];
        let graphs = Comparison {
            scope: "x",
            collector: &collector,
            nsys: &[],
            instances: None,
            graph_launches: 4,
        };
        let result = reconcile(&graphs);
        assert_eq!(result.belief, Belief::NotComparable);
        assert!(result.text.contains("graphs as a whole"), "{}", result.text);
    }

    #[test]
    fn absurd_numbers_do_not_overflow() {
        let ours = [total("_Z1av", u64::MAX, u64::MAX), total("_Z1bv", u64::MAX, u64::MAX)];
        let result = compare(&ours, &[total("_Z1av", 1, 1)], Some((1, u64::MAX)));
        assert_eq!(result.belief, Belief::Lossy);
    }
}
