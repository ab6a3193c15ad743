//! GPU work of a stage on both sides -> a row for each name, matched across autotuned names, whose
//! changes add up to that of the stage.

mod gather;
mod matching;
mod tuned;

use std::collections::BTreeMap;

pub(crate) use gather::{Gathered, StageWork};
use gather::{Key, Work};
use matching::{Candidate, pair};

use crate::comparison::{
    MatchedBy, Noise, NoiseMethod, Verdict, WorkChange, WorkKind, WorkSide, WorkTotal,
};
use crate::noise::{Expected, Spread, judge};
use crate::per::Units;

/// A stage's work in one run, with the units that it is divided by.
pub(crate) type RunWork<'w> = (&'w StageWork, Units);

/// Work of one name on one side: means over its runs, and each run.
struct SideWork<'w> {
    work: &'w Work,
    side: WorkSide,
    runs: Vec<f64>,
    spread: Option<Spread>,
}

/// A row that changed by less than this share of its stage's GPU work is no difference: 5 % of a
/// kernel of a microsecond is less than the resolution of its time.
const LEAST_OF_STAGE: f64 = 0.001;

/// The rows of a stage, the largest change first, and their sum.
pub(crate) fn changes(
    before: &[RunWork<'_>],
    after: &[RunWork<'_>],
) -> (Vec<WorkChange>, WorkTotal) {
    let (mut a, mut b) = (side(before), side(after));
    let mut pairs: Vec<(Key, Key, MatchedBy)> = Vec::new();
    pairs.extend(
        a.keys()
            .filter(|key| b.contains_key(key))
            .map(|key| (key.clone(), key.clone(), MatchedBy::Name)),
    );
    let mut rows: Vec<WorkChange> = Vec::new();
    let mut take =
        |a: &mut BTreeMap<_, _>, b: &mut BTreeMap<_, _>, pairs: Vec<(Key, Key, MatchedBy)>| {
            for (old, new, by) in pairs {
                rows.push(row(old.kind, a.remove(&old), b.remove(&new), Some(by)));
            }
        };
    take(&mut a, &mut b, pairs);
    let others = pair(&candidates(&a), &candidates(&b));
    take(&mut a, &mut b, others);
    rows.extend(a.into_iter().map(|(key, work)| row(key.kind, Some(work), None, None)));
    rows.extend(b.into_iter().map(|(key, work)| row(key.kind, None, Some(work), None)));
    rows.sort_by(|x, y| {
        y.change_ns.abs().total_cmp(&x.change_ns.abs()).then_with(|| name(x).cmp(name(y)))
    });
    let sum = |of: fn(&WorkChange) -> Option<&WorkSide>| -> f64 {
        rows.iter().filter_map(of).map(|side| side.ns).sum()
    };
    let before_ns = (!before.is_empty()).then(|| sum(|row| row.before.as_ref()));
    let after_ns = (!after.is_empty()).then(|| sum(|row| row.after.as_ref()));
    let change_ns = after_ns.unwrap_or(0.0) - before_ns.unwrap_or(0.0);
    let least_ns = LEAST_OF_STAGE * before_ns.unwrap_or(0.0).max(after_ns.unwrap_or(0.0));
    let both = |row: &&mut WorkChange| row.before.is_some() && row.after.is_some();
    for row in rows.iter_mut().filter(both).filter(|row| row.change_ns.abs() < least_ns) {
        if row.verdict != Verdict::Unknown {
            row.verdict = Verdict::None;
        }
    }
    (rows, WorkTotal { before_ns, after_ns, change_ns })
}

fn name(row: &WorkChange) -> &str {
    row.after.as_ref().or(row.before.as_ref()).map_or("", |side| &side.name)
}

/// All names of a side. A run that lacks one has no time of it.
fn side<'w>(runs: &[RunWork<'w>]) -> BTreeMap<Key, SideWork<'w>> {
    let mut found: BTreeMap<Key, SideWork<'w>> = BTreeMap::new();
    for (at, (stage, units)) in runs.iter().enumerate() {
        for (key, work) in &stage.work {
            let entry = found.entry(key.clone()).or_insert_with(|| SideWork {
                work,
                side: WorkSide { name: work.name.clone(), ns: 0.0, calls: 0.0, mean_ns: None },
                runs: vec![0.0; runs.len()],
                spread: None,
            });
            let ns = work.total_ns / units.all;
            if let Some(run) = entry.runs.get_mut(at) {
                *run = ns;
            }
            entry.side.ns += ns / runs.len() as f64;
            entry.side.calls += work.calls / units.all / runs.len() as f64;
            entry.spread = work.spread(units.all);
        }
    }
    for entry in found.values_mut() {
        let timed = entry.work.timed_calls / entry.work.calls.max(1.0);
        let calls = entry.side.calls * timed;
        entry.side.mean_ns = (calls > 0.0).then(|| entry.side.ns / calls);
    }
    found
}

fn candidates<'c>(side: &'c BTreeMap<Key, SideWork<'_>>) -> Vec<Candidate<'c>> {
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
    let change_ns = ns(&after) - ns(&before);
    let (verdict, noise) = match (&before, &after) {
        (Some(a), Some(b)) => {
            let expected = match (a.spread, b.spread) {
                (Some(x), Some(y)) => Expected::Spread(x, y),
                _ => Expected::Measured,
            };
            let (verdict, noise) = judge(&a.runs, &b.runs, expected);
            // Runs are judged by their medians, and a row shows means: where these say the opposite,
            // nothing is certain.
            let agrees = match verdict {
                Verdict::Increased => change_ns > 0.0,
                Verdict::Decreased => change_ns < 0.0,
                Verdict::None | Verdict::Unknown => true,
            };
            (if agrees { verdict } else { Verdict::None }, noise)
        }
        _ => {
            let verdict = match change_ns {
                change if change > 0.0 => Verdict::Increased,
                change if change < 0.0 => Verdict::Decreased,
                _ => Verdict::None,
            };
            (verdict, Noise { method: NoiseMethod::Exact, threshold: Some(0.0), p_value: None })
        }
    };
    let class = after.as_ref().or(before.as_ref()).map(|side| side.work.class.clone());
    WorkChange {
        kind,
        class: class.unwrap_or_default(),
        before: before.map(|side| side.side),
        after: after.map(|side| side.side),
        matched_by,
        change_ns,
        verdict,
        noise,
    }
}
