//! GPU work of a stage on both sides -> a row for each name, matched across autotuned names, whose
//! changes add up to that of the stage.

use std::collections::{BTreeMap, HashMap, HashSet};

use stage2_contract::order::Order as _;
use stage2_contract::text::{comparable, visible};
use stage2_model::{Report, Times};

use crate::comparison::{MatchedBy, WorkChange, WorkKind, WorkSide, WorkTotal};
use crate::judged::{Noise, NoiseMethod, Verdict};
use crate::libraries::library_of;
use crate::metric::RelativeError;
use crate::noise::{Centre, Expected, Spread, judge, noisiest};
use crate::stage_view::Units;

/// A stage's work in one run, with the units that it is divided by.
pub(crate) type RunWork<'w> = (&'w StageWork, Units);

/// Work of one name on one side: means over its runs, and each run.
struct SideWork<'w> {
    work: &'w Work,
    side: WorkSide,
    /// Each run, and the noise within it.
    runs: Vec<(f64, Option<Spread>)>,
}

type Side<'w> = BTreeMap<Key, SideWork<'w>>;

/// A row that changed by less than this share of its stage's GPU work is not a difference: 5 % of a
/// kernel of a microsecond is less than the resolution of its time.
const LEAST_OF_STAGE: f64 = 0.001;

/// The rows of a stage, the largest change first, and their sum.
pub(crate) fn changes(
    before: &[RunWork<'_>],
    after: &[RunWork<'_>],
) -> (Vec<WorkChange>, WorkTotal) {
    let (mut a, mut b) = (side(before), side(after));
    let mut rows: Vec<WorkChange> = Vec::new();
    let mut add = |a: &mut Side<'_>, b: &mut Side<'_>, pairs: Vec<(Key, Key, MatchedBy)>| {
        let pairs = pairs.into_iter();
        rows.extend(
            pairs.map(|(old, new, by)| row(old.kind, a.remove(&old), b.remove(&new), Some(by))),
        );
    };
    let same = a.keys().filter(|key| b.contains_key(key));
    let same = same.map(|key| (key.clone(), key.clone(), MatchedBy::Name)).collect();
    add(&mut a, &mut b, same);
    let others = pair(&candidates(&a), &candidates(&b));
    add(&mut a, &mut b, others);
    rows.extend(a.into_iter().map(|(key, work)| row(key.kind, Some(work), None, None)));
    rows.extend(b.into_iter().map(|(key, work)| row(key.kind, None, Some(work), None)));
    rows.order_by(|x, y| {
        y.change_ns.abs().total_cmp(&x.change_ns.abs()).then_with(|| name(x).cmp(name(y)))
    });
    let sum = |of: fn(&WorkChange) -> Option<&WorkSide>| -> f64 {
        // The sum of nothing is a negative zero.
        rows.iter().filter_map(of).map(|side| side.ns).fold(0.0, |all, ns| all + ns)
    };
    let before_ns = (!before.is_empty()).then(|| sum(|row| row.before.as_ref()));
    let after_ns = (!after.is_empty()).then(|| sum(|row| row.after.as_ref()));
    let change_ns = after_ns.unwrap_or(0.0) - before_ns.unwrap_or(0.0);
    let least_ns = LEAST_OF_STAGE * before_ns.unwrap_or(0.0).max(after_ns.unwrap_or(0.0));
    let both = |row: &&mut WorkChange| row.before.is_some() && row.after.is_some();
    for row in rows.iter_mut().filter(both).filter(|row| row.change_ns.abs() < least_ns) {
        if row.verdict.is_change() {
            (row.verdict, row.noise.too_small) = (Verdict::None, true);
        }
    }
    (rows, WorkTotal { before_ns, after_ns, change_ns })
}

fn name(row: &WorkChange) -> &str {
    row.after.as_ref().or(row.before.as_ref()).map_or("", |side| &side.name)
}

/// All names of a side. A run that lacks one has no time of it.
fn side<'w>(runs: &[RunWork<'w>]) -> Side<'w> {
    let mut found = Side::new();
    for (at, (stage, units)) in runs.iter().enumerate() {
        for (key, work) in *stage {
            let entry = found.entry(key.clone()).or_insert_with(|| SideWork {
                work,
                side: WorkSide { name: work.name.clone(), ns: 0.0, calls: 0.0, mean_ns: None },
                runs: vec![(0.0, None); runs.len()],
            });
            let ns = work.ns(units.is_warm) / units.of_work;
            if let Some(run) = entry.runs.get_mut(at) {
                *run = (ns, work.spread(units.all));
            }
            entry.side.ns += ns / runs.len() as f64;
            entry.side.calls += work.calls(units.is_warm) / units.of_work / runs.len() as f64;
        }
    }
    for entry in found.values_mut() {
        let timed = entry.work.timed_calls / entry.work.calls.max(1.0);
        let calls = entry.side.calls * timed;
        entry.side.mean_ns = (calls > 0.0).then(|| entry.side.ns / calls);
    }
    found
}

fn candidates<'c>(side: &'c Side<'_>) -> Vec<Candidate<'c>> {
    let kernels = side.iter().filter(|(key, _)| key.kind == WorkKind::Kernel);
    kernels
        .map(|(key, found)| Candidate {
            key,
            demangled: &found.work.demangled,
            class: &found.work.class,
            calls: found.side.calls,
            ns: found.side.ns,
            first_start: found.work.first_start,
        })
        .collect()
}

fn row(
    kind: WorkKind,
    before: Option<SideWork<'_>>,
    after: Option<SideWork<'_>>,
    matched_by: Option<MatchedBy>,
) -> WorkChange {
    let ns = |side: &Option<SideWork<'_>>| side.as_ref().map_or(0.0, |side| side.side.ns);
    let old_ns = ns(&before);
    let change_ns = ns(&after) - old_ns;
    let of_sign = match change_ns {
        change if change > 0.0 => Verdict::Increased,
        change if change < 0.0 => Verdict::Decreased,
        _ => Verdict::None,
    };
    let (verdict, noise, interval) = match (&before, &after) {
        (Some(a), Some(b)) => {
            let sides = [a, b].map(|side| side.runs.iter().copied());
            let [x, y] = sides.clone().map(noisiest);
            let [a, b] = sides.map(|runs| runs.map(|(ns, _)| ns).collect::<Vec<f64>>());
            let within = x.zip(y);
            let expected = if within.is_some() { Expected::Samples } else { Expected::OneValue };
            judge(&a, &b, expected, within, Centre::Mean)
        }
        _ => {
            let exact =
                Noise { method: NoiseMethod::Exact, threshold: Some(0.0), ..Noise::default() };
            (of_sign, exact, None)
        }
    };
    let work = after.as_ref().or(before.as_ref()).map(|side| side.work);
    let (class, library) = work.map(|work| (work.class.clone(), work.library)).unwrap_or_default();
    WorkChange {
        kind,
        class,
        library: library.map(str::to_owned),
        before: before.map(|side| side.side),
        after: after.map(|side| side.side),
        matched_by,
        change_ns,
        verdict,
        noise,
        interval,
        word: String::new(),
    }
}

/// 99th percentile of a normal distribution, in standard deviations from its middle.
const P99_DEVIATIONS: f64 = 2.326;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) kind: WorkKind,
    /// Mangled name of a kernel; what tells other work apart.
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    pub(crate) name: String,
    /// Demangled name of a kernel, without what demanglers spell differently.
    demangled: String,
    pub(crate) class: String,
    library: Option<&'static str>,
    total_ns: f64,
    calls: f64,
    /// Of these, those in cold instances.
    cold_ns: f64,
    cold_calls: f64,
    timed_calls: f64,
    first_start: Option<u64>,
    /// From the median to the 99th percentile of a call, times calls, ns.
    tail_ns: f64,
    /// Calls that this is known of.
    tail_calls: f64,
}

/// Work of a stage of one run.
pub(crate) type StageWork = BTreeMap<Key, Work>;

/// The work of a run by stage.
pub(crate) fn by_stage(report: &Report) -> HashMap<String, StageWork> {
    let mut stages: HashMap<String, StageWork> = HashMap::new();
    // Demangled names are made comparable once, and not for each row.
    let mut spelled: HashMap<usize, String> = HashMap::new();
    for row in &report.kernels {
        let name = report.kernel_names.get(row.name_index);
        let mangled = name.map_or(row.kernel.as_str(), |name| name.mangled.as_str());
        let key = Key { kind: WorkKind::Kernel, name: mangled.to_owned() };
        let work = entry(&mut stages, &row.stage, key);
        if work.name.is_empty() {
            work.demangled = match name {
                Some(name) => spelled
                    .entry(row.name_index)
                    .or_insert_with(|| comparable(&name.demangled))
                    .clone(),
                // A broken report: rows of other kernels may have the same index.
                None => comparable(&row.kernel),
            };
            work.library = library_of(name.map_or(&row.kernel, |name| &name.demangled));
            work.name = visible(row.kernel.as_bytes());
            work.class = visible(row.class.as_bytes());
        }
        work.add(&row.times);
    }
    let mut add = |kind, stage: &str, name: String, times: &Times| {
        let work = entry(&mut stages, stage, Key { kind, name: name.clone() });
        work.name = name;
        work.add(times);
    };
    let copies = report.copies.iter().map(|row| (WorkKind::Copy, row));
    for (kind, row) in copies.chain(report.fills.iter().map(|row| (WorkKind::Fill, row))) {
        let name = match &row.direction {
            Some(direction) => format!("{}, {}", kind.word(), visible(direction.as_bytes())),
            None => kind.word().to_owned(),
        };
        add(kind, &row.stage, name, &row.times);
    }
    for row in &report.graph_launches {
        // Ids of graphs say nothing beyond their process.
        let name = "CUDA graphs, recorded as a whole".to_owned();
        add(WorkKind::Graph, &row.stage, name, &row.times);
    }
    stages
}

fn entry<'s>(stages: &'s mut HashMap<String, StageWork>, stage: &str, key: Key) -> &'s mut Work {
    stages.entry(stage.to_owned()).or_default().entry(key).or_default()
}

/// Whether a report counts the work of cold instances separately.
pub(crate) fn tells_cold(work: &StageWork) -> bool {
    work.values().any(|work| work.cold_calls > 0.0)
}

/// A sum of the durations of kernels: each call is a sample of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KernelTime {
    pub(crate) ns: f64,
    /// Square of its standard error.
    variance: f64,
    calls: f64,
}

impl KernelTime {
    pub(crate) fn add(&mut self, other: Self) {
        self.ns += other.ns;
        self.variance += other.variance;
        self.calls += other.calls;
    }

    pub(crate) fn per(self, units: f64) -> Self {
        Self { ns: self.ns / units, variance: self.variance / units.powi(2), ..self }
    }

    pub(crate) fn relative_error(self) -> RelativeError {
        (self.ns > 0.0).then(|| (self.variance.sqrt() / self.ns, self.calls as u64))
    }
}

/// Sums of the durations of kernels by class.
pub(crate) fn sums_by_class(work: &StageWork, is_warm: bool) -> BTreeMap<String, KernelTime> {
    let mut sums: BTreeMap<String, KernelTime> = BTreeMap::new();
    for work in work.values().filter(|work| !work.class.is_empty()) {
        let ns = work.ns(is_warm);
        // The time of a kernel that ran once may be off by all of it.
        let share = work.spread(1.0).map(|spread| spread.standard_error / work.total_ns.max(1.0));
        let error = share.map_or(ns, |share| share * ns);
        let time = KernelTime { ns, variance: error.powi(2), calls: work.tail_calls };
        sums.entry(work.class.clone()).or_default().add(time);
    }
    sums
}

impl Work {
    fn add(&mut self, times: &Times) {
        let calls = times.calls as f64;
        let timed = times.calls.saturating_sub(times.invalid_timestamp_calls) as f64;
        self.total_ns += times.total_ns as f64;
        self.calls += calls;
        self.cold_ns += times.cold_total_ns.min(times.total_ns) as f64;
        self.cold_calls += times.cold_calls.min(times.calls) as f64;
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

    /// Sum of the durations, ns; of warm instances alone where they are told apart.
    fn ns(&self, is_warm: bool) -> f64 {
        if is_warm { self.total_ns - self.cold_ns } else { self.total_ns }
    }

    fn calls(&self, is_warm: bool) -> f64 {
        if is_warm { self.calls - self.cold_calls } else { self.calls }
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

/// Relative difference up to which calls per unit are the same: cold instances have a few more.
const SAME_CALLS: f64 = 0.01;

#[derive(Clone, Copy, Debug)]
struct Candidate<'c> {
    key: &'c Key,
    demangled: &'c str,
    class: &'c str,
    calls: f64,
    ns: f64,
    first_start: Option<u64>,
}

/// Pairs of kernels that do the same work under other names, one before and one after; no kernel is in two.
///
/// First those whose names only builds or demanglers spell differently, then names that autotuning
/// chose: class, number format and calls per unit have to be the same, and among several the order in
/// which they first ran decides. A grid decides nothing here: it follows the tiles that were tuned.
fn pair(before: &[Candidate<'_>], after: &[Candidate<'_>]) -> Vec<(Key, Key, MatchedBy)> {
    let mut pairs = Pairs { found: Vec::new(), taken: HashSet::new() };
    let spelled = |kernel: &Candidate<'_>| {
        // Without letters there is nothing to go by.
        kernel.demangled.contains(char::is_alphanumeric).then(|| kernel.demangled.to_owned())
    };
    pairs.add(before, after, MatchedBy::Spelling, spelled, |one, all| all == 1 && one == 1, false);
    let tuned = |kernel: &Candidate<'_>| is_tuned(kernel.demangled) && !kernel.class.is_empty();
    let by_stem = |kernel: &Candidate<'_>| {
        let key = format!("{}\n{}", kernel.class, stem(kernel.demangled));
        tuned(kernel).then_some(key)
    };
    pairs.add(before, after, MatchedBy::TunedName, by_stem, |_, _| true, true);
    // What no class is known of may be anything.
    let by_class = |kernel: &Candidate<'_>| {
        (tuned(kernel) && kernel.class != "other").then(|| kernel.class.to_owned())
    };
    pairs.add(before, after, MatchedBy::ClassAndCalls, by_class, |_, _| true, true);
    pairs.found
}

struct Pairs<'c> {
    found: Vec<(Key, Key, MatchedBy)>,
    taken: HashSet<(bool, &'c Key)>,
}

impl<'c> Pairs<'c> {
    /// Pairs kernels with the same `group` where its sizes are `sound`.
    fn add(
        &mut self,
        before: &[Candidate<'c>],
        after: &[Candidate<'c>],
        by: MatchedBy,
        group: impl Fn(&Candidate<'c>) -> Option<String>,
        sound: impl Fn(usize, usize) -> bool,
        calls_decide: bool,
    ) {
        let grouped = |kernels: &[Candidate<'c>],
                       is_after: bool,
                       taken: &HashSet<(bool, &'c Key)>| {
            let mut groups: BTreeMap<String, Vec<Candidate<'c>>> = BTreeMap::new();
            for kernel in kernels.iter().filter(|kernel| !taken.contains(&(is_after, kernel.key))) {
                if let Some(group) = group(kernel) {
                    groups.entry(group).or_default().push(*kernel);
                }
            }
            groups.values_mut().for_each(|kernels| in_order(kernels));
            groups
        };
        let mut new = grouped(after, true, &self.taken);
        for (group, old) in grouped(before, false, &self.taken) {
            let Some(new) = new.get_mut(&group) else { continue };
            if !sound(old.len(), new.len()) {
                continue;
            }
            for kernel in old {
                let fits = |other: &Candidate<'c>| {
                    !calls_decide
                        || (same_calls(kernel.calls, other.calls) && same_format(&kernel, other))
                };
                let Some(at) = new.iter().position(fits) else { continue };
                let other = new.remove(at);
                self.taken.insert((false, kernel.key));
                self.taken.insert((true, other.key));
                self.found.push((kernel.key.clone(), other.key.clone(), by));
            }
        }
    }
}

/// By position in the stage; where that is not known of all, the longest first.
fn in_order(kernels: &mut [Candidate<'_>]) {
    if kernels.iter().all(|kernel| kernel.first_start.is_some()) {
        kernels.order_by_key(|kernel| kernel.first_start);
    } else {
        kernels.order_by(|a, b| b.ns.total_cmp(&a.ns));
    }
}

fn same_calls(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME_CALLS * a.max(b)
}

/// A name that says no format fits any.
fn same_format(a: &Candidate<'_>, b: &Candidate<'_>) -> bool {
    match (format(a.demangled), format(b.demangled)) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    }
}

// cuBLAS, CUTLASS, cuDNN and Triton put tile sizes, stages and running numbers into names, and choose
// anew with each version, shape and GPU. What is left without them is the stem.

/// Families whose names hold what was tuned: how a word of the name begins.
const FAMILIES: &str = "nvjet cutlass cublas ampere volta turing hopper blackwell maxwell sm80 \
    sm86 sm89 sm90 sm100 sm120 xmma triton cudnn gemv gemm gemmk1 deepgemm deep_gemm flashinfer \
    flash fmha pytorch_flash";

/// Words of nvjet and CUTLASS for orders of tiles and for schedules, which are tuned as well.
const SCHEDULES: &str = "h v bz bias coopA coopB splitK TNT TNN NNT NNN NTN NTT TTN TTT \
    nn nt tn tt streamk pingpong cooperative";

/// Number formats by the words that names have for them; the special before the general.
const FORMATS: &[(&str, &[&str])] = &[
    ("fp4", &["e2m1", "nvfp4", "mxfp4", "fp4"]),
    ("fp8", &["e4m3", "e5m2", "fp8", "float8", "f8"]),
    ("bf16", &["bf16", "bfloat16", "nv_bfloat16"]),
    ("tf32", &["tf32"]),
    ("int8", &["s8", "i8", "int8", "imma"]),
    ("fp16", &["f16", "fp16", "half", "hgemm", "h16816gemm", "s16816gemm", "float16"]),
    ("fp64", &["f64", "dgemm", "fp64"]),
    ("fp32", &["sgemm", "f32", "fp32"]),
];

/// Whether a name is of a family whose names change when nothing else does.
fn is_tuned(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let families = || FAMILIES.split(' ');
    let mut long = lower.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut short = lower.split(|c: char| !c.is_ascii_alphanumeric());
    long.any(|word| families().any(|family| word.starts_with(family)))
        || short.any(|word| families().any(|family| word == family))
}

/// The number format that a name states; nothing where it says none.
fn format(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    if words.first() == Some(&"nvjet") {
        // Behind the architecture: input, accumulator and output, a letter each.
        let types = words.iter().skip(1).find(|word| !word.starts_with("sm"))?;
        return match types.chars().next()? {
            'h' => Some("fp16"),
            't' => Some("bf16"),
            's' => Some("fp32"),
            'q' | 'o' | 'r' => Some("fp8"),
            'd' => Some("fp64"),
            _ => None,
        };
    }
    let says = |word: &&str| {
        words.iter().any(|found| found == word || found.ends_with("bf16") && *word == "bf16")
    };
    FORMATS.iter().find(|(_, words)| words.iter().any(&says)).map(|(format, _)| *format)
}

/// The name of a kernel without sizes, layouts and schedules, so that variants of one product have the same stem.
fn stem(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| {
        let is_size = word.contains(|c: char| c.is_ascii_digit()) && !is_lasting(word);
        !word.is_empty() && !is_size && SCHEDULES.split(' ').all(|schedule| schedule != *word)
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Words with digits that say what is computed, and not how.
fn is_lasting(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    FORMATS.iter().any(|(_, words)| words.contains(&lower.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(before: &[(&str, &str, f64)], after: &[(&str, &str, f64)]) -> Vec<String> {
        let keys = |kernels: &[(&str, &str, f64)]| -> Vec<Key> {
            let key = |name: &str| Key { kind: WorkKind::Kernel, name: name.to_owned() };
            kernels.iter().map(|(name, ..)| key(name)).collect()
        };
        let (old, new) = (keys(before), keys(after));
        fn candidates<'c>(keys: &'c [Key], of: &[(&str, &'c str, f64)]) -> Vec<Candidate<'c>> {
            let candidate =
                |(at, (key, kernel)): (usize, (&'c Key, &(&str, &'c str, f64)))| Candidate {
                    key,
                    demangled: &key.name,
                    class: kernel.1,
                    calls: kernel.2,
                    ns: 1.0,
                    first_start: Some(at as u64),
                };
            keys.iter().zip(of).enumerate().map(candidate).collect()
        }
        let pairs = pair(&candidates(&old, before), &candidates(&new, after));
        pairs.into_iter().map(|(a, b, by)| format!("{} -> {} {by:?}", a.name, b.name)).collect()
    }

    #[test]
    fn tuned_kernels_find_their_successors() {
        let before = [
            ("nvjet_sm90_tst_64x8_2x1_v_bz_TNT", "gemm", 512.0),
            ("nvjet_sm90_tst_64x16_4x1_v_bz_TNT", "gemm", 16.0),
            ("cutlass_80_simt_sgemm_128x32_8x5_nn_align1", "gemm", 1.0),
            ("ampere_fp16_s16816gemm_fp16_64x64_nn", "gemm", 7.0),
            ("triton_poi_fused_add_0", "elementwise", 32.0),
        ];
        let after = [
            ("nvjet_sm90_tst_256x8_2x1_v_bz_TNT", "gemm", 16.1),
            ("nvjet_sm90_tst_128x8_2x1_v_bz_TNN", "gemm", 512.0),
            ("ampere_sgemm_32x32_sliced1x4_tn", "gemm", 1.0),
            ("nvjet_sm90_tst_8x8_v_bz_TNT", "gemm", 7.0),
            ("triton_poi_fused_add_4", "elementwise", 32.0),
        ];
        assert_eq!(
            matched(&before, &after),
            [
                "triton_poi_fused_add_0 -> triton_poi_fused_add_4 TunedName",
                "nvjet_sm90_tst_64x8_2x1_v_bz_TNT -> nvjet_sm90_tst_128x8_2x1_v_bz_TNN TunedName",
                "nvjet_sm90_tst_64x16_4x1_v_bz_TNT -> nvjet_sm90_tst_256x8_2x1_v_bz_TNT TunedName",
                // Not the one of another number format.
                "cutlass_80_simt_sgemm_128x32_8x5_nn_align1 -> ampere_sgemm_32x32_sliced1x4_tn ClassAndCalls",
            ]
        );
    }

    #[test]
    fn what_nobody_tuned_has_no_successor() {
        let none: [String; 0] = [];
        let (a, b) = ([("my_add", "elementwise", 4.0)], [("my_mul", "elementwise", 4.0)]);
        assert_eq!(matched(&a, &b), none);
        let (a, b) = ([("nvjet_sm90_tst_1x1", "gemm", 4.0)], [("nvjet_sm90_tst_2x2", "gemm", 5.0)]);
        assert_eq!(matched(&a, &b), none, "other calls");
        let (a, b) = ([("nvjet_sm90_tst_1x1", "", 4.0)], [("nvjet_sm90_tst_2x2", "", 4.0)]);
        assert_eq!(matched(&a, &b), none, "no class");
    }

    #[test]
    fn tuned_names_keep_what_they_compute() {
        let (a, b) = (
            "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT",
            "nvjet_sm90_tst_64x32_64x16_4x1_h_bz_splitK_TNT",
        );
        assert_eq!(stem(a), stem(b));
        assert_ne!(stem(a), stem("nvjet_sm90_hsh_64x8_64x16_2x1_v_bz_TNT"));
        assert_eq!(stem("triton_poi_fused_add_mul_3"), stem("triton_poi_fused_add_mul_12"));
        assert_ne!(stem("triton_poi_fused_add_3"), stem("triton_poi_fused_mul_3"));
        for (name, found) in [
            (a, Some("bf16")),
            ("nvjet_sm90_hsh_64x8_1x1_h_bz_TNT", Some("fp16")),
            ("ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x6_tn", Some("bf16")),
            ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_nn", Some("fp16")),
            ("cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>", Some("fp32")),
            ("ampere_sgemm_32x32_sliced1x4_tn", Some("fp32")),
            ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x64x128", Some("bf16")),
            ("triton_poi_fused_add_3", None),
        ] {
            assert_eq!(format(name), found, "{name}");
        }
    }

    #[test]
    fn only_families_that_tune_are_tuned() {
        for name in [
            "nvjet_sm90_tst_64x8",
            "triton_red_fused_3",
            "void cutlass::Kernel2<x>",
            "cudnn_generated_fort_native_sdpa_sm90",
            "cublasLt::splitKreduce_kernel<32>",
            "ampere_sgemm_32x32_tn",
            "pytorch_flash::flash_fwd_kernel<x>",
        ] {
            assert!(is_tuned(name), "{name}");
        }
        for name in ["at::native::vectorized_elementwise_kernel<4>", "my_kernel", ""] {
            assert!(!is_tuned(name), "{name}");
        }
    }
}
