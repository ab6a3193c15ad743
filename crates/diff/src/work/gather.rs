//! A report -> the GPU work of each stage, by name: kernels, copies, fills and whole graphs.

use std::collections::{BTreeMap, HashMap};

use stage2_contract::text::{comparable, visible};
use stage2_model::{Report, Times};

use crate::comparison::WorkKind;
use crate::noise::Spread;

/// 99th percentile of a normal distribution, in standard deviations from its middle.
const P99_DEVIATIONS: f64 = 2.326;

/// What work of one name has in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) kind: WorkKind,
    /// Mangled name of a kernel; what tells other work apart.
    pub(crate) name: String,
}

/// Work of one name in a stage of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// Name for people.
    pub(crate) name: String,
    /// Demangled name of a kernel, without what demanglers spell differently.
    pub(crate) demangled: String,
    pub(crate) class: String,
    pub(crate) total_ns: f64,
    pub(crate) calls: f64,
    /// Calls with times.
    pub(crate) timed_calls: f64,
    /// First start, ns.
    pub(crate) first_start: Option<u64>,
    /// From the median to the 99th percentile of a call, times calls, ns.
    tail_ns: f64,
    /// Calls that this is known of.
    tail_calls: f64,
}

/// Work of a stage of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageWork {
    pub(crate) work: BTreeMap<Key, Work>,
}

/// Work of all stages of one run.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    stages: HashMap<String, StageWork>,
}

impl Gathered {
    pub(crate) fn of(report: &Report) -> Self {
        let mut gathered = Self::default();
        // Demangled names are made comparable once, and not for each row.
        let mut spelled: HashMap<usize, String> = HashMap::new();
        for row in &report.kernels {
            let name = report.kernel_names.get(row.name_index);
            let mangled = name.map_or(row.kernel.as_str(), |name| name.mangled.as_str());
            let key = Key { kind: WorkKind::Kernel, name: mangled.to_owned() };
            let work = gathered.entry(&row.stage, key);
            if work.name.is_empty() {
                work.demangled = match name {
                    Some(name) => spelled
                        .entry(row.name_index)
                        .or_insert_with(|| comparable(&name.demangled))
                        .clone(),
                    // A broken report: rows of other kernels may have the same index.
                    None => comparable(&row.kernel),
                };
                work.name = visible(row.kernel.as_bytes());
                work.class = visible(row.class.as_bytes());
            }
            work.add(&row.times);
        }
        let copies = report.copies.iter().map(|row| (WorkKind::Copy, row));
        for (kind, row) in copies.chain(report.fills.iter().map(|row| (WorkKind::Fill, row))) {
            let name = match &row.direction {
                Some(direction) => format!("copy, {}", visible(direction.as_bytes())),
                None if kind == WorkKind::Copy => "copy".to_owned(),
                None => "fill".to_owned(),
            };
            let work = gathered.entry(&row.stage, Key { kind, name: name.clone() });
            work.name = name;
            work.add(&row.times);
        }
        for row in &report.graph_launches {
            // Ids of graphs say nothing beyond their process.
            let name = "CUDA graphs, recorded as a whole".to_owned();
            let work =
                gathered.entry(&row.stage, Key { kind: WorkKind::Graph, name: name.clone() });
            work.name = name;
            work.add(&row.times);
        }
        gathered
    }

    /// The work of a stage; nothing where it has none.
    pub(crate) fn stage(&self, stage: &str) -> Option<&StageWork> {
        self.stages.get(stage)
    }

    fn entry(&mut self, stage: &str, key: Key) -> &mut Work {
        if !self.stages.contains_key(stage) {
            self.stages.insert(stage.to_owned(), StageWork::default());
        }
        let work = self.stages.entry(stage.to_owned()).or_default();
        work.work.entry(key).or_default()
    }
}

impl StageWork {
    /// Sums of the durations of kernels by class, ns.
    pub(crate) fn classes(&self) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for work in self.work.values().filter(|work| !work.class.is_empty()) {
            *sums.entry(work.class.clone()).or_insert(0.0) += work.total_ns;
        }
        sums
    }
}

impl Work {
    fn add(&mut self, times: &Times) {
        let calls = times.calls as f64;
        let timed = times.calls.saturating_sub(times.invalid_timestamp_calls) as f64;
        self.total_ns += times.total_ns as f64;
        self.calls += calls;
        self.timed_calls += timed;
        self.first_start = match (self.first_start, times.first_start_gpu_ns) {
            (Some(known), Some(new)) => Some(known.min(new)),
            (known, new) => known.or(new),
        };
        if let (Some(p50), Some(p99)) = (times.p50_ns, times.p99_ns) {
            // Of a sample, only what was recorded says something about noise.
            let observed = times.recorded_calls.map_or(timed, |calls| calls as f64);
            self.tail_ns += p99.saturating_sub(p50) as f64 * observed;
            self.tail_calls += observed;
        }
    }

    /// Noise of the time per unit, from how much the calls differ.
    pub(crate) fn spread(&self, units: f64) -> Option<Spread> {
        (self.tail_calls >= 2.0).then(|| {
            let deviation = self.tail_ns / self.tail_calls / P99_DEVIATIONS;
            let error_of_mean = deviation / self.tail_calls.sqrt();
            Spread {
                standard_error: error_of_mean * self.timed_calls / units,
                count: self.tail_calls as u64,
            }
        })
    }
}
