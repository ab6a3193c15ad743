//! What NVML says of the GPUs in use into records of the trace file.

use stage2_contract::trace::Record;

use super::Drain;
use crate::drain::device_state::{DeviceStates, Said};
use crate::drain::intern::Sink;

/// Why energy and clocks are missing. With a dot and the number of a GPU: of this one.
const NVML_OFF: &str = "nvml.off";

impl Drain {
    /// Begins to read NVML, where that was not switched off and there is a GPU. A simulated GPU has
    /// only the NVML that was named for it.
    pub(super) fn watch_gpus(&mut self) {
        let options = &self.shared.options;
        if !options.device_state {
            return self.output.fact(NVML_OFF, "STAGE2_DEVICE_STATE=off".to_owned());
        }
        if options.out.is_none() || (self.output.is_simulated() && options.nvml.is_none()) {
            return;
        }
        match DeviceStates::start(options.nvml.as_ref()) {
            Ok(states) => self.device_states = Some(states),
            Err(error) => self.output.fact(NVML_OFF, format!("no thread can be started ({error})")),
        }
    }

    /// Takes in what was read, and has the GPUs read that work was found on since.
    pub(super) fn take_states(&mut self) {
        let Some(states) = &mut self.device_states else { return };
        for (device, uuid) in self.output.take_used() {
            states.watch(device, uuid);
        }
        let said = states.take();
        self.write_states(said);
    }

    /// Has all GPUs read once more, those as well whose first work came with the last records.
    pub(super) fn take_last_states(&mut self) {
        self.take_states();
        let said = self.device_states.take().map(DeviceStates::finish);
        self.write_states(said.unwrap_or_default());
    }

    /// Threads of ours that read.
    pub(super) fn reader_threads(&self) -> u64 {
        self.device_states.as_ref().map_or(0, |states| states.is_alive().into())
    }

    fn write_states(&mut self, said: Vec<Said>) {
        for said in said {
            match said {
                Said::State(state) => self.output.put(Record::DeviceState(state)),
                Said::Off { device: None, reason } => self.output.fact(NVML_OFF, reason),
                Said::Off { device: Some(device), reason } => {
                    self.output.fact(&format!("{NVML_OFF}.{device}"), reason);
                }
            }
        }
    }
}
