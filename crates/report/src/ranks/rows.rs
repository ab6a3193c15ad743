//! Split collectives and calls without a match -> the rows of each stage.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::calls::{Calls, Member, MemberCall};
use super::matching::{Matching, Unmatched};
use super::split::{Collectives, Split};
use stage2_model::{CollectiveRow, Operation, UnmatchedRow};
use stage2_read::trace::stats::Estimate;

type RowKey = (u32, Operation, Option<u64>);

/// Sums of a [`CollectiveRow`]. Of a sample, estimates for all instances; bandwidth is over what was
/// recorded.
#[derive(Default)]
struct Sums {
    members: BTreeSet<Member>,
    calls: Estimate,
    replayed_calls: Estimate,
    calls_without_bytes: Estimate,
    bytes_least_most: Option<(u64, u64)>,
    bytes_total: Estimate,
    time_ns: Estimate,
    matched_calls: Estimate,
    waiting_ns: Option<Estimate>,
    transfer_ns: Option<Estimate>,
    /// Waiting in outliers of the stage.
    outlier_waiting_ns: Estimate,
    /// Waiting and transfer beyond the first instance of the stage in each process, and these.
    warm_ns: Option<(Estimate, Estimate)>,
    bus_bytes: f64,
    bus_ns: u64,
    bus_unknown: bool,
    unmatched: BTreeMap<Unmatched, Estimate>,
}

/// Collectives of each stage, longest time first within a stage.
pub(super) fn collective_rows<'l>(
    calls: &Calls,
    matching: &Matching<'_>,
    found: &Collectives<'_>,
    label: impl Fn(u32) -> &'l str,
) -> Vec<CollectiveRow> {
    let key = |made: MemberCall<'_>| (made.call.stage, made.call.operation, made.call.communicator);
    let mut sums: BTreeMap<RowKey, Sums> = BTreeMap::new();
    for made in calls.all() {
        let MemberCall { call, .. } = made;
        let sum = sums.entry(key(made)).or_default();
        sum.members.insert(made.member());
        let weight = call.weight;
        sum.calls.add(1, weight);
        sum.replayed_calls.add(call.replayed.into(), weight);
        sum.time_ns.add(call.end_ns.saturating_sub(call.start_ns), weight);
        match call.bytes {
            None => sum.calls_without_bytes.add(1, weight),
            Some(bytes) => {
                let (least, most) = sum.bytes_least_most.unwrap_or((bytes, bytes));
                sum.bytes_least_most = Some((least.min(bytes), most.max(bytes)));
                sum.bytes_total.add(bytes, weight);
            }
        }
    }
    for split in &found.split {
        for &(made, waiting_ns, transfer_ns) in &split.members {
            let sum = sums.entry(key(made)).or_default();
            let weight = made.call.weight;
            sum.matched_calls.add(1, weight);
            sum.waiting_ns.get_or_insert_default().add(waiting_ns, weight);
            sum.transfer_ns.get_or_insert_default().add(transfer_ns, weight);
            if made.call.outlier {
                sum.outlier_waiting_ns.add(waiting_ns, weight);
            } else if made.call.instance > 0 {
                let (waiting, transfer) = sum.warm_ns.get_or_insert_default();
                waiting.add(waiting_ns, weight);
                transfer.add(transfer_ns, weight);
            }
        }
        let Some(&(first, ..)) = split.members.first() else { continue };
        let sum = sums.entry(key(first)).or_default();
        match bus_bytes(split) {
            Some(bytes) => {
                sum.bus_bytes += bytes;
                sum.bus_ns = sum.bus_ns.saturating_add(split.last_needed_ns);
            }
            None => sum.bus_unknown = true,
        }
    }
    for &made in found.whole.iter().flatten() {
        sums.entry(key(made)).or_default().matched_calls.add(1, made.call.weight);
    }
    for &(made, why) in &matching.unmatched {
        let unmatched = &mut sums.entry(key(made)).or_default().unmatched;
        unmatched.entry(why).or_default().add(1, made.call.weight);
    }
    let finish = |((path, operation, communicator), sum): (RowKey, Sums)| {
        let bus_known = !sum.bus_unknown && sum.bus_ns > 0 && sum.bus_bytes > 0.0;
        let unmatched = |(why, calls): (Unmatched, Estimate)| UnmatchedRow {
            calls: calls.get(),
            why: why.to_string(),
            remedy: why.remedy().to_owned(),
        };
        CollectiveRow {
            stage: label(path).to_owned(),
            operation,
            communicator: communicator.map(|hash| format!("{hash:016x}")),
            members: sum.members.len() as u64,
            calls: sum.calls.get(),
            replayed_calls: sum.replayed_calls.get(),
            calls_without_bytes: sum.calls_without_bytes.get(),
            bytes_min: sum.bytes_least_most.map(|(least, _)| least),
            bytes_max: sum.bytes_least_most.map(|(_, most)| most),
            bytes_total: sum.bytes_least_most.map(|_| sum.bytes_total.get()),
            time_ns: sum.time_ns.get(),
            matched_calls: sum.matched_calls.get(),
            transfer_ns: sum.transfer_ns.map(Estimate::get),
            waiting_ns: sum.waiting_ns.map(Estimate::get),
            warm_transfer_ns: sum.warm_ns.map(|(_, transfer)| transfer.get()),
            warm_waiting_ns: sum.warm_ns.map(|(waiting, _)| waiting.get()),
            outlier_waiting_ns: sum.outlier_waiting_ns.get(),
            bus_gb_per_s: bus_known.then(|| sum.bus_bytes / sum.bus_ns as f64),
            unmatched: sum.unmatched.into_iter().map(unmatched).collect(),
        }
    };
    let mut rows: Vec<CollectiveRow> = sums.into_iter().map(finish).collect();
    rows.sort_by_key(|row| Reverse(row.time_ns));
    rows
}

/// Bytes that a collective moves over the links of each member; nothing where members differ in
/// what they say of its size.
fn bus_bytes(split: &Split<'_>) -> Option<f64> {
    let (first, ..) = split.members.first()?;
    let bytes = first.call.bytes?;
    let same = split.members.iter().all(|(made, ..)| made.call.bytes == Some(bytes));
    let factor = first.call.operation.bus_factor(split.members.len() as u64)?;
    same.then_some(bytes as f64 * factor)
}

/// Time that each member waited and transferred in each stage, of all its instances, ns.
pub(super) fn shares(found: &Collectives<'_>) -> BTreeMap<(u32, u32), (u64, u64)> {
    let mut shares: BTreeMap<(u32, u32), (Estimate, Estimate)> = BTreeMap::new();
    for &(made, waiting_ns, transfer_ns) in found.split.iter().flat_map(|split| &split.members) {
        let sum = shares.entry((made.call.stage, made.process)).or_default();
        sum.0.add(waiting_ns, made.call.weight);
        sum.1.add(transfer_ns, made.call.weight);
    }
    let total = |(place, (waiting, transfer)): (_, (Estimate, Estimate))| {
        (place, (waiting.get(), transfer.get()))
    };
    shares.into_iter().map(total).collect()
}
