//! What is known of a process: how much work was counted, and its last seconds by stage, kernel and GPU.

use std::collections::BTreeMap;

use crate::numbers::StageNumbers;

/// Records of GPU work by what is known of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kernels.
    pub kernels: u64,
    /// Kernels, copies, fills and graphs.
    pub work: u64,
    /// Of these, launched in a range.
    pub attributed: u64,
    /// Launched while no range of the program was open.
    pub outside: u64,
    /// Whose launch could not be placed, by the collector or because we forgot its range.
    pub unattributed: u64,
    /// Without times that can be used.
    pub untimed: u64,
    /// What was beyond the limits of the reader: definitions and ranges.
    pub left_out: u64,
}

/// The last seconds of a process.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Its length, ns; 0: there is no data.
    pub ns: u64,
    /// When it ends, ns since the Unix epoch; nothing where no clock reading says it.
    pub end_wall_ns: Option<u64>,
    /// Stages by name.
    pub stages: BTreeMap<String, StageNumbers>,
    /// Kernels, the longest first.
    pub kernels: Vec<KernelRow>,
    /// GPUs with work.
    pub devices: Vec<DeviceBusy>,
}

/// A kernel within a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRow {
    /// The stage.
    pub stage: String,
    /// Its short name.
    pub name: String,
    /// Its class, for [`class_label`](crate::class_label).
    pub class: u8,
    /// Time of all launches, ns.
    pub ns: u64,
    /// Launches.
    pub launches: u64,
}

/// How long a GPU worked for a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBusy {
    /// As the process numbers it.
    pub device: u32,
    /// Time during which at least one operation of the process ran on the GPU, ns.
    pub busy_ns: u64,
}
