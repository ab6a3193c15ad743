//! The GPU facts of env.json, from a CUDA driver that a few lines of C play.

use crate::common::Sandbox;
use crate::common::simulated::compile;
use serde_json::{Value, json};

/// The calls that the probe makes, with CUDA's ABI. `INIT` is the result of cuInit.
const DRIVER: &str = r#"
#include <stddef.h>
#include <string.h>
int cuInit(unsigned flags) { INIT; }
int cuGetErrorString(int error, const char **text) { *text = "no CUDA-capable device"; return 0; }
int cuGetErrorName(int error, const char **text) { *text = "CUDA_ERROR_NO_DEVICE"; return 0; }
int cuDriverGetVersion(int *version) { *version = 13010; return 0; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, device ? "GPU B" : "GPU A", size); return 0; }
int cuDeviceGetUuid(char *uuid, int device) { memset(uuid, 0xa0 + device, 16); return 0; }
int cuDeviceGetUuid_v2(char *uuid, int device) { return cuDeviceGetUuid(uuid, device); }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 150000000000u; return 0; }
int cuDeviceTotalMem(size_t *bytes, int device) { return cuDeviceTotalMem_v2(bytes, device); }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
        case 75: *value = 9; return 0;
        case 76: *value = 0; return 0;
        case 16: *value = 132; return 0;
        case 13: *value = 1980000; return 0;
        case 37: return 1;
        default: *value = 0; return 0;
    }
}
"#;

fn described(init: &str) -> Value {
    let sandbox = Sandbox::new();
    for name in ["libcuda.so", "libcuda.so.1"] {
        compile(&sandbox, DRIVER, name, &["-shared", "-fPIC", &format!("-DINIT={init}")]);
    }
    let mut command = sandbox.launch(&["--", "true"]);
    command.env("LD_LIBRARY_PATH", sandbox.path("")).assert().success();
    sandbox.json("env.json")["gpu"].clone()
}

#[test]
fn every_device_is_described_and_what_is_not_told_is_absent() {
    let gpu = described("return 0");
    assert_eq!(gpu["cuda_driver"], "13.1");
    assert!(gpu["absent"].is_null());
    let device = json!({
        "index": 1,
        "name": "GPU B",
        "uuid": "GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1",
        "compute_capability": "9.0",
        "multiprocessors": 132,
        "memory_bytes": 150_000_000_000_u64,
        "core_clock_khz": 1_980_000,
        "memory_clock_khz": null,
        "memory_bus_bits": null,
        "l2_bytes": null
    });
    assert_eq!(gpu["devices"][1], device);
    assert_eq!(gpu["devices"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_driver_that_fails_or_crashes_costs_only_its_facts() {
    for (init, part) in [("return 100", "no CUDA-capable device"), ("__builtin_trap()", "signal")] {
        let gpu = described(init);
        let absent = gpu["absent"].as_str().unwrap_or_default();
        assert!(absent.contains(part), "{init}: {gpu}");
        assert_eq!(gpu["devices"], json!([]));
    }
}
