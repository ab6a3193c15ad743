//! The driver and what it and nvidia-smi say of the devices -> checks.

use std::process::Command;

use super::check::{Check, CheckInfo, Fix, Group, System, major};
use crate::env::{self, GpuFacts, NO_LIBRARY};
use stage2_model::{COULD_NOT_ASK, EmptyCause};

pub(super) const DRIVER: CheckInfo = CheckInfo {
    id: "driver",
    group: Group::Gpu,
    looks_at: "The version of the kernel module (/proc/driver/nvidia/version), and whether the CUDA \
               driver library starts (`cuInit` in a child process).",
    why: "Without the driver there is no GPU work to record.",
    fixes: &[
        Fix::problem(
            "there is no NVIDIA driver",
            "install NVIDIA's driver on the host; start a container with `--gpus all` (Docker), \
             `--device nvidia.com/gpu=all` (Podman), or a limit of nvidia.com/gpu (Kubernetes); \
             `stage2-launch demo` needs no GPU",
        ),
        Fix::problem(
            "the kernel module is loaded, and the library libcuda.so.1 is not there",
            "give the container NVIDIA_DRIVER_CAPABILITIES=compute,utility (or all); outside of \
             containers install the driver's library package (libcuda1, nvidia-driver-libs)",
        ),
        Fix::problem(
            "the library does not start",
            "run nvidia-smi; after an update of the driver reboot; make the devices with \
             `nvidia-modprobe -u -c 0`, and see that this user may open /dev/nvidia*",
        ),
    ],
    explains: &[EmptyCause::NoGpu, EmptyCause::CudaNeverInitialised, EmptyCause::CuptiOff],
};

pub(super) const DEVICES: CheckInfo = CheckInfo {
    id: "devices",
    group: Group::Gpu,
    looks_at: "Index, name, UUID and compute capability of each GPU that CUDA shows to this user.",
    why: "A workload that sees no GPU runs on the CPU, often without a message.",
    fixes: &[Fix::problem(
        "CUDA lists no GPU",
        "unset or correct CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES; `nvidia-smi -L` lists \
         all GPUs; give a container GPUs as described under the check `driver`",
    )],
    explains: &[EmptyCause::NoGpu, EmptyCause::CudaNeverInitialised, EmptyCause::NothingLaunched],
};

pub(super) const RUNTIME: CheckInfo = CheckInfo {
    id: "cuda-runtime",
    group: Group::Gpu,
    looks_at: "The CUDA version that torch was built for, against the newest one that the driver \
               supports.",
    why: "A CUDA runtime of a newer major version than the driver's does not start.",
    fixes: &[
        Fix::problem(
            "torch is built for a newer major version than the driver supports",
            "update the driver (CUDA 12 needs 525.60.13 or newer, CUDA 13 needs 580.65.06), or \
             install a torch for the driver's CUDA version",
        ),
        Fix::problem(
            "torch is built without CUDA",
            "install a torch with CUDA: https://pytorch.org/get-started names the command",
        ),
    ],
    explains: &[EmptyCause::CudaNeverInitialised, EmptyCause::NoGpu, EmptyCause::NothingLaunched],
};

pub(super) const MODES: CheckInfo = CheckInfo {
    id: "device-modes",
    group: Group::Gpu,
    looks_at: "MIG, compute mode, virtualisation and persistence mode of each GPU, as `nvidia-smi -q` \
               prints them.",
    why: "They decide who may use a GPU and which counters it has. Without persistence mode each \
          first use of the driver takes seconds longer.",
    fixes: &[
        Fix::problem("the compute mode is Prohibited", "`nvidia-smi -i INDEX -c DEFAULT` as root"),
        Fix::warning(
            "the compute mode is exclusive",
            "a workload of several processes fails on this GPU: `nvidia-smi -i INDEX -c DEFAULT` \
             as root",
        ),
        Fix::warning(
            "MIG is on",
            "the collector and nsys work; ncu has no counters of units that the instances share, \
             and cannot lock clocks (pipeline.ncu.ncu_cli.clock_control=none); `nvidia-smi -i \
             INDEX -mig 0` as root switches MIG off",
        ),
        Fix::warning(
            "the GPU is virtual (vGPU)",
            "let the administrator of the hypervisor allow profiling (vGPU plug-in parameter \
             enable_profiling=1), or leave the ncu pass out: pipeline.ncu.enable=false",
        ),
    ],
    explains: &[EmptyCause::CudaNeverInitialised, EmptyCause::NoGpu],
};

/// What the driver says; asks it in a child process.
pub(super) fn ask_driver(system: &System) -> GpuFacts {
    let version = system.read("/proc/driver/nvidia/version").ok();
    let driver = version.and_then(|text| env::driver_version(&text));
    GpuFacts { driver, ..env::probe_within(system.patience()) }
}

pub(super) fn nvidia_smi(system: &System) -> Result<String, String> {
    let path = system.on_path("nvidia-smi").ok_or("nvidia-smi is not on PATH")?;
    let asked = system.ask(Command::new(&path).arg("-q"));
    asked.map_err(|why| format!("{} -q: {why}", path.display()))
}

pub(super) fn checks(system: &System, gpu: &GpuFacts) -> Vec<Check> {
    let module = gpu.driver.as_deref();
    let cuda = gpu.cuda_driver.as_deref();
    let version = match (module, cuda) {
        (Some(module), Some(cuda)) => format!("driver {module}, CUDA {cuda}"),
        (Some(module), None) => format!("driver {module}"),
        (None, Some(cuda)) => format!("CUDA {cuda}; the version of the kernel module is not known"),
        (None, None) => "no NVIDIA driver".to_owned(),
    };
    let absent = gpu.absent.as_deref().unwrap_or_default();
    if absent.starts_with(COULD_NOT_ASK) {
        let what = format!("{version}; {absent}");
        return vec![DRIVER.not_checked(what), DEVICES.not_checked("the driver did not answer")];
    }
    // The library starts, and finds nothing: hidden, or not handed to the container.
    if absent.contains("CUDA_ERROR_NO_DEVICE") {
        return vec![DRIVER.ok(format!("{version}; the library starts")), devices(system, gpu)];
    }
    // The driver started, and has a version.
    if cuda.is_some() {
        return vec![DRIVER.ok(version), devices(system, gpu)];
    }
    let case = match (module, absent.starts_with(NO_LIBRARY)) {
        (None, true) => 0,
        (Some(_), true) => 1,
        (_, false) => 2,
    };
    let what = if absent.is_empty() { version } else { format!("{version}: {absent}") };
    vec![DRIVER.case(case, what), DEVICES.not_checked("the driver does not start")]
}

fn devices(system: &System, gpu: &GpuFacts) -> Check {
    let visible = ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"];
    let visible = visible
        .iter()
        .filter_map(|name| Some(format!("{name}={}", system.even_empty(name)?.to_string_lossy())));
    let mut details: Vec<String> = visible.collect();
    for device in &gpu.devices {
        let (index, name) = (&device.index, &device.name);
        let uuid = device.uuid.as_deref().unwrap_or("unknown");
        let capability = device.compute_capability.as_deref().unwrap_or("unknown");
        details.push(format!("GPU {index}: {name}, {uuid}, compute capability {capability}"));
    }
    let Some(first) = gpu.devices.first() else {
        return DEVICES.case(0, "CUDA lists no GPU").with(details);
    };
    let what = match gpu.devices.len() {
        1 => format!("1 GPU: {}", first.name),
        count => format!("{count} GPUs; GPU {} is {}", first.index, first.name),
    };
    DEVICES.ok(what).with(details)
}

/// Judges the CUDA version of torch; `torch` is what its version file states.
pub(super) fn runtime(gpu: &GpuFacts, torch: Option<&str>) -> Check {
    let Some(torch) = torch else {
        return RUNTIME.not_checked("the Python that was tried has no torch");
    };
    let Some(built) = major(torch) else {
        return RUNTIME
            .case(1, format!("torch is built without CUDA (torch.version.cuda is {torch})"));
    };
    let Some(driver) = gpu.cuda_driver.as_deref() else {
        let why = format!("torch is built for CUDA {torch}; the driver's version is not known");
        return RUNTIME.not_checked(why);
    };
    let what = format!("torch is built for CUDA {torch}, the driver supports up to CUDA {driver}");
    match major(driver) {
        Some(newest) if built > newest => RUNTIME.case(0, what),
        _ => RUNTIME.ok(what),
    }
}

/// Judges the modes in what `nvidia-smi -q` printed.
pub(super) fn modes(printed: &Result<String, String>) -> Check {
    let printed = match printed {
        Ok(text) => text,
        Err(why) => return MODES.not_checked(why.clone()),
    };
    let mut worst: Option<(usize, String)> = None;
    let (mut gpus, mut persistent, mut details) = (0, 0, Vec::new());
    for part in printed.split("\nGPU ").skip(1) {
        let bus = part.lines().next().unwrap_or_default();
        let mig = value_after(part, "MIG Mode", "Current");
        let mode = value(part, "Compute Mode");
        let virtual_mode = value(part, "Virtualization Mode");
        let persistence = value(part, "Persistence Mode");
        details.push(format!(
            "GPU {gpus} ({bus}): MIG {}, compute mode {}, virtualisation {}, persistence {}",
            mig.unwrap_or("unknown"),
            mode.unwrap_or("unknown"),
            virtual_mode.unwrap_or("unknown"),
            persistence.unwrap_or("unknown")
        ));
        let case = match (mode, mig, virtual_mode) {
            (Some("Prohibited"), ..) => Some((0, "may not be used (compute mode Prohibited)")),
            (Some(mode), ..) if mode.starts_with("Exclusive") => {
                Some((1, "may be used by one process only (exclusive compute mode)"))
            }
            (_, Some("Enabled"), _) => Some((2, "has MIG on")),
            (.., Some(mode)) if mode.eq_ignore_ascii_case("vgpu") => Some((3, "is virtual (vGPU)")),
            _ => None,
        };
        if let Some((case, text)) = case
            && worst.as_ref().is_none_or(|(known, _)| case < *known)
        {
            worst = Some((case, format!("GPU {gpus} {text}")));
        }
        persistent += usize::from(persistence == Some("Enabled"));
        gpus += 1;
    }
    match worst {
        _ if gpus == 0 => MODES.not_checked("nvidia-smi -q describes no GPU"),
        Some((case, what)) => MODES.case(case, what).with(details),
        None => {
            let what =
                format!("no MIG, shared compute mode; persistence mode on {persistent} of {gpus}");
            MODES.ok(what).with(details)
        }
    }
}

/// The value of the first line `key : value`.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// The value of `key` below the heading `under`.
fn value_after<'t>(text: &'t str, under: &str, key: &str) -> Option<&'t str> {
    let below = text.lines().skip_while(|line| line.trim() != under).nth(1)?;
    value(below, key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;
    use crate::doctor::testing::Machine;

    const SMI: &str = "==NVSMI LOG==\n\nAttached GPUs : 1\nGPU 00000000:19:00.0\n    \
        Product Name : NVIDIA H200\n    Persistence Mode : Enabled\n    MIG Mode\n        \
        Current : Disabled\n        Pending : Disabled\n    GPU Virtualization Mode\n        \
        Virtualization Mode : Pass-Through\n    Compute Mode : Default\n";

    #[test]
    fn each_state_of_the_driver_has_its_own_fix() {
        let system = Machine::new(&[]).system(&[("CUDA_VISIBLE_DEVICES", "3")]);
        let facts = |driver: Option<&str>, cuda: Option<&str>, absent: Option<&str>| GpuFacts {
            driver: driver.map(str::to_owned),
            cuda_driver: cuda.map(str::to_owned),
            absent: absent.map(str::to_owned),
            ..GpuFacts::default()
        };
        let missing = format!("{NO_LIBRARY} on this machine");
        let missing = Some(&*missing);
        let (driver, cuda) = (Some("580.159.03"), Some("13.0"));
        let capabilities = Some("NVIDIA_DRIVER_CAPABILITIES");
        for (gpu, status, fix) in [
            (facts(None, None, missing), Status::Problem, Some("--gpus all")),
            (facts(driver, None, missing), Status::Problem, capabilities),
            (facts(driver, None, Some("cuInit failed: CUDA_ERROR_NO_DEVICE")), Status::Ok, None),
            (facts(driver, None, Some("cuInit failed: 803")), Status::Problem, Some("reboot")),
            (facts(driver, cuda, None), Status::Ok, None),
            (facts(driver, None, Some(COULD_NOT_ASK)), Status::NotChecked, None),
        ] {
            let check = &checks(&system, &gpu)[0];
            assert_eq!(check.status, status, "{check:?}");
            let fits =
                fix.map_or(check.fix.is_none(), |part| check.fix.unwrap_or("").contains(part));
            assert!(fits, "{check:?}");
        }
        let hidden = &checks(&system, &facts(driver, Some("13.0"), None))[1];
        assert_eq!(hidden.status, Status::Problem);
        assert_eq!(hidden.details, ["CUDA_VISIBLE_DEVICES=3"]);
        let mut one = facts(driver, Some("13.0"), None);
        one.devices.push(Default::default());
        one.devices[0].name = "NVIDIA H200".into();
        let shown = &checks(&system, &one)[1];
        assert_eq!((shown.status, shown.what.as_str()), (Status::Ok, "1 GPU: NVIDIA H200"));
        assert!(shown.details[1].contains("unknown, compute capability unknown"), "{shown:?}");
    }

    #[test]
    fn modes_are_read_from_nvidia_smi_and_the_worst_is_told() {
        let of = |text: &str| modes(&Ok(text.to_owned()));
        assert_eq!(of(SMI).status, Status::Ok);
        assert!(of(SMI).details[0].contains("MIG Disabled, compute mode Default"), "{:?}", of(SMI));
        let mig = SMI.replace("Current : Disabled", "Current : Enabled");
        assert!(of(&mig).fix.is_some_and(|fix| fix.contains("-mig 0")));
        let exclusive = mig.replace("Compute Mode : Default", "Compute Mode : Exclusive_Process");
        assert!(of(&exclusive).what.contains("one process only"));
        let none = of(&exclusive.replace("Exclusive_Process", "Prohibited"));
        assert_eq!(none.status, Status::Problem);
        let vgpu = of(&SMI.replace("Pass-Through", "VGPU"));
        assert!(vgpu.fix.is_some_and(|fix| fix.contains("enable_profiling")));
        for text in ["", "\nGPU ", "No devices were found\n"] {
            let _ = of(text);
        }
        assert_eq!(of("").status, Status::NotChecked);
    }

    #[test]
    fn torch_of_a_newer_cuda_than_the_driver_is_a_problem() {
        let gpu = GpuFacts { cuda_driver: Some("12.4".into()), ..GpuFacts::default() };
        for (torch, status) in [
            (Some("13.0"), Status::Problem),
            (Some("12.8"), Status::Ok),
            (Some("11.8"), Status::Ok),
            (Some("None"), Status::Problem),
            (None, Status::NotChecked),
        ] {
            assert_eq!(runtime(&gpu, torch).status, status, "{torch:?}");
        }
        assert_eq!(runtime(&GpuFacts::default(), Some("12.4")).status, Status::NotChecked);
    }
}
