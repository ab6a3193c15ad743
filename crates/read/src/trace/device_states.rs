//! What the driver said of the GPUs over the time of a process, in bounded space.

use std::collections::BTreeMap;

use stage2_contract::trace::DeviceState;

/// Readings that are kept of all devices of a process: those of some hours.
const MOST: usize = 1 << 16;

/// Readings by [`DeviceState::device`], in the order of the file.
#[derive(Debug, Default)]
pub struct DeviceStates {
    by_device: BTreeMap<u32, Vec<DeviceState>>,
    kept: usize,
    /// Of so many readings of a device one is kept; 0 and 1: each.
    stride: u64,
    seen: u64,
}

impl DeviceStates {
    /// Adds a reading. Of too many, every second one is left out: energy is a running total, and the
    /// others still tell it.
    pub fn add(&mut self, state: DeviceState) {
        self.seen += 1;
        if self.stride > 1 && !self.seen.is_multiple_of(self.stride) {
            return;
        }
        self.by_device.entry(state.device).or_default().push(state);
        self.kept += 1;
        if self.kept > MOST {
            self.stride = self.stride.max(1) * 2;
            for states in self.by_device.values_mut() {
                let mut number = 0_u64;
                states.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
            }
            self.kept = self.by_device.values().map(Vec::len).sum();
            // Of more devices than readings are kept, none is a GPU.
            if self.kept > MOST {
                self.by_device.clear();
                self.kept = 0;
            }
        }
    }

    /// Those of a device.
    pub fn of(&self, device: u32) -> &[DeviceState] {
        self.by_device.get(&device).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_number_of_readings_takes_bounded_space() {
        let (mut few, mut many) = (DeviceStates::default(), DeviceStates::default());
        for number in 0..(5 * MOST as u32) {
            few.add(DeviceState {
                device: 1,
                energy_mj: Some(number.into()),
                ..DeviceState::default()
            });
            many.add(DeviceState { device: number, ..DeviceState::default() });
        }
        assert!((MOST / 4..=MOST).contains(&few.of(1).len()), "{}", few.of(1).len());
        assert!(few.of(1).is_sorted_by_key(|state| state.energy_mj));
        assert!(many.kept <= MOST && many.by_device.len() <= MOST);
    }
}
