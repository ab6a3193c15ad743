//! Samples of hardware counters -> the last value of each.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use stage2_contract::text::visible;
use stage2_contract::trace::{CounterSamples, CounterSet};

/// Sets that are kept, and metrics of a set.
const SETS: usize = 16;
const METRICS: usize = 64;

/// A counter and its last value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counter {
    /// The GPU, as the process numbers it.
    pub device: u32,
    /// As CUPTI names it.
    pub metric: String,
    /// A share of the peak in percent; of anything else, how much in a second.
    pub value: f64,
    /// It is a share.
    pub is_percent: bool,
    /// How much older than the newest data of the process it is, ns.
    pub age_ns: u64,
}

#[derive(Debug, Default)]
struct Set {
    device: u32,
    metrics: Vec<String>,
    last: Vec<Option<f64>>,
    /// When the last sample ended, by the clock of the GPU.
    at: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    sets: BTreeMap<u32, Set>,
}

impl Counters {
    pub(crate) fn define(&mut self, set: &CounterSet) {
        let metrics: Vec<String> =
            set.metrics.iter().take(METRICS).map(|name| visible(name.as_bytes())).collect();
        let same = |known: &Set| known.device == set.device && known.metrics == metrics;
        if self.sets.get(&set.id).is_some_and(same) {
            // A further piece of the trace says it again.
            return;
        }
        if self.sets.len() >= SETS && !self.sets.contains_key(&set.id) {
            let oldest = self.sets.iter().min_by_key(|(_, set)| set.at).map(|(id, _)| *id);
            oldest.and_then(|id| self.sets.remove(&id));
        }
        let last = vec![None; metrics.len()];
        self.sets.insert(set.id, Set { device: set.device, metrics, last, at: 0 });
    }

    /// Takes the mean over the samples of a record: a single sample is a millisecond or less.
    pub(crate) fn add(&mut self, samples: &CounterSamples) {
        let Some(set) = self.sets.get_mut(&samples.set) else { return };
        let width = samples.values.len().checked_div(samples.spans.len()).unwrap_or(0);
        if width == 0 {
            return;
        }
        set.at = samples.spans.iter().map(|(_, end)| end.0).fold(set.at, u64::max);
        for (at, (metric, last)) in set.metrics.iter().zip(&mut set.last).enumerate() {
            let percent = is_percent(metric);
            let (mut sum, mut seconds) = (0.0, 0.0);
            for (row, (start, end)) in samples.values.chunks_exact(width).zip(&samples.spans) {
                let (Some(value), length) = (row.get(at), end.since(*start) as f64 / 1e9) else {
                    continue;
                };
                if value.is_finite() {
                    sum += if percent { value * length } else { *value };
                    seconds += length;
                }
            }
            *last = (seconds > 0.0)
                .then_some(sum / seconds)
                .filter(|value| value.is_finite())
                .or(*last);
        }
    }

    /// The newest value of each: the collector goes on with another set where a GPU cannot measure one, or keep up.
    /// `now`: when the newest data is, by the clock of the GPU, if that is known.
    pub(crate) fn last(&self, now: Option<u64>) -> Vec<Counter> {
        let mut newest: BTreeMap<(u32, &str), (u64, f64)> = BTreeMap::new();
        for set in self.sets.values() {
            for (metric, last) in set.metrics.iter().zip(&set.last) {
                let Some(value) = *last else { continue };
                let known = newest.entry((set.device, metric)).or_insert((set.at, value));
                if set.at >= known.0 {
                    *known = (set.at, value);
                }
            }
        }
        let counter = |((device, metric), (at, value)): ((u32, &str), (u64, f64))| Counter {
            device,
            metric: metric.to_owned(),
            value,
            is_percent: is_percent(metric),
            age_ns: now.map_or(0, |now| now.saturating_sub(at)),
        };
        newest.into_iter().map(counter).collect()
    }
}

fn is_percent(metric: &str) -> bool {
    metric.contains("pct_of_peak") || metric.contains(".ratio") || metric.contains(".pct")
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_contract::trace::GpuNs;

    #[test]
    fn bytes_are_given_for_a_second_and_shares_as_they_are() {
        let mut counters = Counters::default();
        let metrics = vec!["dram__bytes_read.sum".to_owned(), "sm.pct_of_peak".to_owned()];
        counters.define(&CounterSet { id: 1, device: 3, interval_ns: 0, metrics });
        let spans =
            vec![(GpuNs(0), GpuNs(500_000_000)), (GpuNs(500_000_000), GpuNs(1_000_000_000))];
        counters.add(&CounterSamples { set: 1, spans, values: vec![10.0, 20.0, 30.0, f64::NAN] });
        let last = counters.last(Some(5_000_000_000));
        assert_eq!(last[0].age_ns, 4_000_000_000);
        assert_eq!(
            (last[0].value, last[1].value, last[1].is_percent, last[0].device),
            (40.0, 20.0, true, 3)
        );
    }

    /// Hazard (Watching what runs): The collector goes on with another set of counters, and the page shows the old one.
    /// Promise: Each counter has its newest value.
    #[test]
    fn of_several_sets_the_newest_value_counts() {
        let mut counters = Counters::default();
        let many = (10..10 + SETS as u32).map(|id| (id, 1, 5.0));
        for (id, end, value) in many.chain([(1, 2, 10.0), (7, 3, 30.0), (3, 2, 20.0)]) {
            let metrics = vec!["a.sum".to_owned(), format!("b.pct.{}", id.min(9))];
            counters.define(&CounterSet { id, device: 0, interval_ns: 0, metrics });
            let spans = vec![(GpuNs((end - 1) * 1_000_000_000), GpuNs(end * 1_000_000_000))];
            counters.add(&CounterSamples { set: id, spans, values: vec![value, value] });
        }
        let last = counters.last(Some(4_000_000_000));
        let ages: Vec<_> = last.iter().map(|of| (of.value, of.age_ns / 1_000_000_000)).collect();
        assert_eq!(ages, [(30.0, 1), (10.0, 2), (20.0, 2), (30.0, 1), (5.0, 3)]);
        assert_eq!(counters.sets.len(), SETS);
    }

    #[test]
    fn samples_without_a_set_or_values_change_nothing() {
        let mut counters = Counters::default();
        counters.add(&CounterSamples { set: 9, ..CounterSamples::default() });
        counters.define(&CounterSet { id: 9, metrics: vec!["a".into()], ..CounterSet::default() });
        counters.add(&CounterSamples { set: 9, ..CounterSamples::default() });
        let values = vec![f64::INFINITY];
        counters.add(&CounterSamples { set: 9, spans: vec![(GpuNs(5), GpuNs(1))], values });
        assert!(counters.last(None).is_empty());
    }
}
