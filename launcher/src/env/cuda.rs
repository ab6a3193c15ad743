//! The CUDA driver library -> the devices, as JSON on stdout. Runs in the probing process only.
#![allow(unsafe_code)]

use std::io::Write as _;

use anyhow::{anyhow, ensure};
use cudarc::driver::result::{self, device};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

use super::gpu::{Gpu, GpuFacts};

/// How the reason begins if the library is not there.
pub(crate) const NO_LIBRARY: &str = "libcuda.so, the CUDA driver library, is not installed";

pub(crate) fn print_devices() -> anyhow::Result<()> {
    let none =
        |why: anyhow::Error| GpuFacts { absent: Some(why.to_string()), ..GpuFacts::default() };
    let facts = read().unwrap_or_else(none);
    let json = serde_json::to_string(&facts)?;
    std::io::stdout().write_all(json.as_bytes())?;
    Ok(())
}

fn read() -> anyhow::Result<GpuFacts> {
    // SAFETY: loads libcuda and runs its constructors; this process does nothing else.
    let present = unsafe { sys::is_culib_present() };
    ensure!(present, "{NO_LIBRARY} on this machine");
    result::init().map_err(|e| anyhow!("cuInit failed: {e:?}"))?;
    let count = device::get_count().map_err(|e| anyhow!("cuDeviceGetCount failed: {e:?}"))?;
    let devices: Vec<Gpu> = (0..count).filter_map(gpu).collect();
    let absent = devices.is_empty().then(|| "the CUDA driver lists no device".to_owned());
    Ok(GpuFacts { driver: None, cuda_driver: cuda_version(), devices, absent })
}

fn cuda_version() -> Option<String> {
    let mut version = 0;
    // SAFETY: the library is there and started; the pointer is to a live integer.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().ok()?;
    // CUDA writes 12.4 as 12040.
    Some(format!("{}.{}", version / 1000, version % 1000 / 10))
}

fn gpu(index: i32) -> Option<Gpu> {
    let handle = device::get(index).ok()?;
    let attribute = |which: Attribute| {
        // SAFETY: `handle` came from the driver a moment ago, and devices do not go away.
        let value = unsafe { device::get_attribute(handle, which) }.ok()?;
        u32::try_from(value).ok()
    };
    // SAFETY: as above.
    let memory = unsafe { device::total_mem(handle) }.ok();
    let capability = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        .zip(attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
    let known = |value: Option<u32>| value.filter(|v| *v > 0);
    Some(Gpu {
        index,
        name: device::get_name(handle).unwrap_or_else(|e| format!("unknown ({e:?})")),
        uuid: device::get_uuid(handle).ok().map(|uuid| text_of(&uuid.bytes.map(|b| b as u8))),
        compute_capability: capability.map(|(major, minor)| format!("{major}.{minor}")),
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        memory_bytes: memory.and_then(|bytes| u64::try_from(bytes).ok()),
        core_clock_khz: known(attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)),
        memory_clock_khz: known(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)),
        memory_bus_bits: known(attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)),
        l2_bytes: known(attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)),
    })
}

fn text_of(uuid: &[u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(*uuid));
    let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &hex[part]);
    format!("GPU-{a}-{b}-{c}-{d}-{e}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_uuid_is_written_as_the_driver_writes_it() {
        let uuid = std::array::from_fn(|i| i as u8);
        assert_eq!(super::text_of(&uuid), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
