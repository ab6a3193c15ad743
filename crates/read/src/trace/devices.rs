//! Device and queue records -> the device on which a piece of GPU work ran.

use std::collections::HashMap;

use rustc_hash::FxHashMap;
use stage2_contract::trace::{Device, Queue};

/// A GPU of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceEntry {
    /// Index as CUPTI numbers devices in the process; nothing for work of an undefined queue.
    pub id: Option<u32>,
    /// What the file says of it.
    pub device: Option<Device>,
}

#[derive(Debug, Default)]
pub(crate) struct Devices {
    list: Vec<DeviceEntry>,
    by_id: HashMap<Option<u32>, u32>,
    queues: FxHashMap<u32, u32>,
    /// Pieces of GPU work whose queue is not defined.
    pub undefined_queues: u64,
}

impl Devices {
    fn index(&mut self, id: Option<u32>) -> u32 {
        *self.by_id.entry(id).or_insert_with(|| {
            self.list.push(DeviceEntry { id, device: None });
            (self.list.len() - 1) as u32
        })
    }

    /// Takes a device's description; it may come after the device's first work.
    pub(crate) fn describe(&mut self, device: Device) {
        let index = self.index(Some(device.id)) as usize;
        if let Some(entry) = self.list.get_mut(index) {
            entry.device = Some(device);
        }
    }

    pub(crate) fn queue(&mut self, queue: &Queue) {
        let device = self.index(Some(queue.device));
        self.queues.insert(queue.id, device);
    }

    /// Index of the device on which work of `queue` runs.
    pub(crate) fn of_queue(&mut self, queue: u32) -> u32 {
        match self.queues.get(&queue) {
            Some(&device) => device,
            None => {
                self.undefined_queues += 1;
                self.index(None)
            }
        }
    }

    pub(crate) fn into_list(self) -> Vec<DeviceEntry> {
        self.list
    }
}
