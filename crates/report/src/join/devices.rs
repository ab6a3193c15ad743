//! Devices of all processes and their busy times -> one row for each GPU.

use std::collections::{BTreeMap, BTreeSet};

use crate::join::kernels::percent;
use crate::join::{GlobalDevice, Groups, Labels, Mapping};
use stage2_contract::stats::union_ns;
use stage2_contract::text::{uuid_text, visible};
use stage2_contract::trace::{Device, window};
use stage2_model::DeviceRow;
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::stats::Work;

/// What the processes measured of each device.
#[derive(Debug, Default)]
pub(super) struct DeviceTotals {
    devices: BTreeMap<u32, Total>,
}

#[derive(Debug, Default)]
struct Total {
    /// Each by its file, or by its host and number where files are of its windows.
    processes: BTreeSet<(String, u32)>,
    busy_ns: u64,
    /// From the first to the last work of each process, on the clock of the GPU.
    spans: Vec<(u64, u64)>,
    in_part: bool,
}

impl DeviceTotals {
    pub(super) fn add_process(&mut self, process: &ProcessCapture, mapping: &Mapping) {
        let mut spans: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for (key, stats) in &process.groups {
            if let (Some(first), Some(last)) = (stats.first_start_ns, stats.last_end_ns) {
                let span = spans.entry(key.device).or_insert((first, last));
                *span = (span.0.min(first), span.1.max(last));
            }
        }
        let windows =
            process.process.as_ref().filter(|_| process.meta.contains_key(window::NUMBER));
        let who =
            windows.map_or_else(|| (process.file.clone(), 0), |who| (who.host.clone(), who.pid));
        // Without a record on a device, it may still have worked for what was not recorded.
        for (device, _) in (0..).zip(&process.devices) {
            self.devices.entry(mapping.device(device)).or_default().in_part |= process.gated;
        }
        for (&device, busy) in &process.device_busy {
            let total = self.devices.entry(mapping.device(device)).or_default();
            total.processes.insert(who.clone());
            total.busy_ns = total.busy_ns.saturating_add(busy.busy_ns);
            total.spans.push(spans.get(&device).copied().unwrap_or_default());
        }
    }

    /// Devices that several processes used at the same time. What each of them leaves idle, others may
    /// fill; which parts overlap is not known from what is kept of a process.
    pub(super) fn shared(&self) -> BTreeSet<u32> {
        self.devices.iter().filter(|(_, total)| total.shared()).map(|(&device, _)| device).collect()
    }

    /// The rows, in the order in which the devices were met.
    pub(super) fn rows(mut self, groups: &Groups, labels: &Labels<'_>) -> Vec<DeviceRow> {
        let mut rows = Vec::with_capacity(labels.tables.devices.len());
        for (index, device) in (0..).zip(labels.tables.devices.values()) {
            let total = self.devices.remove(&index).unwrap_or_default();
            rows.push(row(device, labels.device(index), &total));
        }
        for (key, stats) in groups {
            if let (Work::Kernel(_), Some(row)) = (key.work, rows.get_mut(key.device as usize)) {
                row.kernels = row.kernels.saturating_add(stats.calls);
                row.kernel_sum_ns = row.kernel_sum_ns.saturating_add(stats.total_ns);
            }
        }
        rows
    }
}

impl Total {
    /// Time in which any process was between its first and its last work, ns.
    fn span_ns(&self) -> u64 {
        union_ns(self.spans.clone())
    }

    fn shared(&self) -> bool {
        let lengths = self.spans.iter().map(|(first, last)| last.saturating_sub(*first));
        lengths.fold(0, u64::saturating_add) > self.span_ns()
    }
}

fn row(device: &GlobalDevice, label: &str, total: &Total) -> DeviceRow {
    let described = device.device.as_ref();
    let (span_ns, shared) = (total.span_ns(), total.shared());
    // Zero or empty in the record: not known.
    let some32 = |value: fn(&Device) -> u32| described.map(value).filter(|&v| v != 0);
    let some64 = |value: fn(&Device) -> u64| described.map(value).filter(|&v| v != 0);
    DeviceRow {
        device: label.to_owned(),
        index: device.index,
        name: described.map(|d| visible(&d.name)).filter(|name| !name.is_empty()),
        host: device.host.clone(),
        uuid: described.filter(|d| d.uuid != [0; 16]).map(|d| format!("GPU-{}", uuid_text(d.uuid))),
        simulated: device.simulated,
        compute_capability: described
            .filter(|d| d.compute_capability.0 != 0)
            .map(|d| format!("{}.{}", d.compute_capability.0, d.compute_capability.1)),
        multiprocessors: some32(|d| d.multiprocessors),
        memory_bytes: some64(|d| d.memory_bytes),
        bandwidth_kb_per_s: some64(|d| d.bandwidth_kb_per_s),
        core_clock_khz: some32(|d| d.core_clock_khz),
        l2_bytes: some32(|d| d.l2_bytes).map(u64::from),
        processes: total.processes.len() as u64,
        gpu_busy_ns: Some(total.busy_ns).filter(|_| !total.in_part),
        gpu_span_ns: Some(span_ns).filter(|_| !total.in_part),
        gpu_busy_percent: percent(total.busy_ns, span_ns).filter(|_| !total.in_part && !shared),
        shared_by_processes: shared,
        ..DeviceRow::default()
    }
}
