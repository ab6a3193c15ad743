//! The GPU driver -> the devices, asked in its own process.
//!
//! A broken or hanging driver then costs a time limit, and not the run; and stage2-launch itself
//! never holds a CUDA context while the workload is measured.

use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::subprocess::ask;
use stage2_model::COULD_NOT_ASK;

/// The GPUs of a machine, as the CUDA driver lists them to this user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GpuFacts {
    /// Version of the kernel driver, from `/proc/driver/nvidia/version`.
    pub(crate) driver: Option<String>,
    /// Newest CUDA version that the driver supports, as `major.minor`.
    pub(crate) cuda_driver: Option<String>,
    #[serde(default)]
    pub(crate) devices: Vec<Gpu>,
    /// Why there are none; none when there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) absent: Option<String>,
}

/// A GPU. None: the driver does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gpu {
    /// Index as CUDA numbers devices under this environment (`CUDA_VISIBLE_DEVICES`).
    pub(crate) index: i32,
    pub(crate) name: String,
    /// `GPU-` and 32 hexadecimal digits in five groups.
    pub(crate) uuid: Option<String>,
    /// As `major.minor`.
    pub(crate) compute_capability: Option<String>,
    pub(crate) multiprocessors: Option<u32>,
    pub(crate) memory_bytes: Option<u64>,
    /// Highest clocks.
    pub(crate) core_clock_khz: Option<u32>,
    pub(crate) memory_clock_khz: Option<u32>,
    pub(crate) memory_bus_bits: Option<u32>,
    pub(crate) l2_bytes: Option<u32>,
}

/// The hidden subcommand of stage2-launch that asks the driver.
pub(crate) const SUBCOMMAND: &str = "probe-gpu";

/// Starting CUDA on a machine with eight GPUs and no persistence daemon takes several seconds.
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn probe() -> GpuFacts {
    probe_within(LIMIT)
}

/// Asks the driver and waits for `limit` at most; never fails, but may know nothing.
pub(crate) fn probe_within(limit: Duration) -> GpuFacts {
    let driver = std::fs::read_to_string("/proc/driver/nvidia/version")
        .ok()
        .and_then(|text| driver_version(&text));
    let answer = std::env::current_exe()
        .map_err(|e| format!("this program does not find itself: {e}"))
        .and_then(|exe| ask(Command::new(exe).arg(SUBCOMMAND), limit).map_err(|e| e.to_string()))
        .and_then(|text| serde_json::from_str::<GpuFacts>(&text).map_err(|e| e.to_string()));
    match answer {
        Ok(facts) => GpuFacts { driver, ..facts },
        Err(why) => GpuFacts {
            driver,
            absent: Some(format!("{COULD_NOT_ASK}: {why}")),
            ..GpuFacts::default()
        },
    }
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  ...`: the first word of that form.
pub(crate) fn driver_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    line.split_whitespace()
        .find(|word| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.'))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_version_is_found_in_both_forms() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\nGCC version: 12.2.0";
        let open =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build";
        assert_eq!(driver_version(closed).as_deref(), Some("535.104.05"));
        assert_eq!(driver_version(open).as_deref(), Some("580.159.03"));
        assert_eq!(driver_version("nothing"), None);
    }
}
