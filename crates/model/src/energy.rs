//! Energy, power and clocks of the GPUs in each stage, as the driver reports them.

use serde::{Deserialize, Serialize};

use crate::figure::Figure;

/// What the GPUs took and how fast they ran in the windows of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageEnergy {
    /// [`crate::StageRow::stage`].
    pub stage: String,
    /// Energy of its GPUs, J: all that they took in its windows, whoever had them work.
    pub energy_j: Figure,
    /// How far the energy may be off, J; null: there is none.
    pub uncertainty_j: Option<f64>,
    /// Mean power of its GPUs together in its windows, W.
    pub mean_power_w: Figure,
    /// Energy per token, J.
    pub joules_per_token: Figure,
    /// Clocks over all of its GPUs.
    pub clocks: ClockUse,
    /// Energy, power and clocks of each GPU in the windows of the stage.
    pub devices: Vec<DeviceEnergy>,
}

/// What one GPU took in the windows of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceEnergy {
    /// [`crate::DeviceRow::device`].
    pub device: String,
    /// Union of the windows of the (recorded) instances, in which the energy is counted, ns.
    pub window_ns: u64,
    /// Energy, J: all that the GPU took, whoever had it work.
    pub energy_j: Figure,
    /// How far the energy may be off, J; null: there is none.
    pub uncertainty_j: Option<f64>,
    /// Mean power, W.
    pub mean_power_w: Figure,
    /// Clocks and what held them down.
    pub clocks: ClockUse,
    /// Other processes with a compute context on the GPU, the most that were seen in the run; null: the
    /// driver does not say.
    pub other_processes: Option<u32>,
}

/// Clocks and temperature, by the readings within the windows. Those of an idle GPU do not count for the
/// clocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockUse {
    /// Readings within the windows.
    pub reads: u64,
    /// Readings among them that tell the clock of the multiprocessors while the GPU is not idle.
    pub clock_reads: u64,
    /// Clock of the multiprocessors, MHz; null: no reading tells.
    pub sm_clock_mhz: Option<ReadSpan>,
    /// Clock of the memory, MHz; null: no reading tells.
    pub memory_clock_mhz: Option<ReadSpan>,
    /// Highest temperature, degrees Celsius; null: no reading tells.
    pub temperature_max_c: Option<u32>,
    /// What held the clocks down, idleness left out; null: no reading tells.
    pub limits: Option<Vec<ClockLimit>>,
}

/// Readings of one quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadSpan {
    /// Lowest.
    pub min: u32,
    /// Mean over the readings.
    pub mean: f64,
    /// Highest.
    pub max: u32,
}

/// Something that held clocks down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockLimit {
    /// What, for instance `power limit`.
    pub reason: String,
    /// Readings that name it, of [`ClockUse::reads`].
    pub reads: u64,
}
