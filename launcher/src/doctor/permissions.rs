//! Files of /proc -> what the driver and the kernel allow this user, and whether the collector can sample
//! hardware counters.

use std::path::Path;

use super::check::{Check, CheckInfo, Fix, Group, Status, System};
use super::cupti::InstalledCupti;
use super::profilers;
use stage2_contract::order::Order as _;

pub(super) const COUNTERS: CheckInfo = CheckInfo {
    id: "counters",
    group: Group::Permissions,
    looks_at: "RmProfilingAdminOnly in /proc/driver/nvidia/params, and the capabilities of this process.",
    why: "ncu and sampled counters need the permission (ERR_NVGPUCTRPERM otherwise). Timings of the \
          collector and of nsys do not.",
    fixes: &[Fix::warning(
        "the driver keeps counters for administrators, and this process is not privileged",
        "on the host: `echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee \
         /etc/modprobe.d/nvidia-profiling.conf`, rebuild the initramfs where the distribution \
         needs that (update-initramfs -u or dracut -f), and reboot; or run as root outside of a \
         container; or start the container with `--cap-add=SYS_ADMIN` (Kubernetes: \
         securityContext.capabilities.add: [\"SYS_ADMIN\"]); without it leave ncu out: \
         pipeline.ncu.enable=false",
    )],
    explains: &[],
};

pub(super) const PERF: CheckInfo = CheckInfo {
    id: "perf-events",
    group: Group::Permissions,
    looks_at: "/proc/sys/kernel/perf_event_paranoid.",
    why: "Above 2 nsys cannot sample the CPU (pipeline.nsys settings that ask for it); GPU work and ranges \
          are not affected.",
    fixes: &[],
    explains: &[],
};

pub(super) const PTRACE: CheckInfo = CheckInfo {
    id: "ptrace",
    group: Group::Permissions,
    looks_at: "/proc/sys/kernel/yama/ptrace_scope.",
    why: "At 2, only administrators may attach to a process, and at 3 no one. The passes start what \
          they profile, and attach to nothing.",
    fixes: &[],
    explains: &[],
};

/// Bits of `CapEff`.
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;

pub(super) fn checks(system: &System) -> Vec<Check> {
    vec![counters(system), perf(system), ptrace(system)]
}

fn counters(system: &System) -> Check {
    let key = "RmProfilingAdminOnly";
    let params = "/proc/driver/nvidia/params";
    let Some(restricted) = system.field(params, key) else {
        return COUNTERS.not_checked(match system.path(params).exists() {
            true => format!("{params} has no {key}"),
            false => format!("{params} does not exist: whether ncu may read counters is not known"),
        });
    };
    let effective = system.field("/proc/self/status", "CapEff");
    let effective = effective.and_then(|text| u64::from_str_radix(&text, 16).ok());
    let holds = |bit: u32| effective.is_some_and(|set| set >> bit & 1 == 1);
    let holder = [(SYS_ADMIN, "CAP_SYS_ADMIN"), (PERFMON, "CAP_PERFMON")];
    let holder = holder.into_iter().find(|(bit, _)| holds(*bit));
    match (restricted.as_str(), holder) {
        ("0", _) => COUNTERS.ok(format!("every user may read performance counters ({key}: 0)")),
        (_, Some((_, name))) => COUNTERS.ok(format!(
            "counters are for administrators ({key}: {restricted}), and this process has {name}"
        )),
        (_, None) => {
            let what =
                format!("performance counters are for administrators only ({key}: {restricted})");
            COUNTERS.case(0, what).with([match effective {
                Some(set) => format!("CapEff: {set:016x}: neither CAP_SYS_ADMIN nor CAP_PERFMON"),
                None => "/proc/self/status does not show the capabilities".to_owned(),
            }])
        }
    }
}

fn perf(system: &System) -> Check {
    match system.number("/proc/sys/kernel/perf_event_paranoid") {
        None => PERF.not_checked("/proc/sys/kernel/perf_event_paranoid cannot be read"),
        Some(level @ 3..) => {
            PERF.ok(format!("perf_event_paranoid is {level}: nsys cannot sample the CPU"))
        }
        Some(level) => PERF.ok(format!("perf_event_paranoid is {level}: nsys can sample the CPU")),
    }
}

fn ptrace(system: &System) -> Check {
    match system.number("/proc/sys/kernel/yama/ptrace_scope") {
        None => PTRACE.ok("no Yama: nothing restricts ptrace here"),
        Some(scope) => PTRACE.ok(format!("ptrace_scope is {scope}; no pass attaches")),
    }
}

pub(super) const SAMPLING: CheckInfo = CheckInfo {
    id: "sampled-counters",
    group: Group::Permissions,
    looks_at: "The version of the libcupti that a run would use, the permission for counters, slices of \
               GPUs (/proc/driver/nvidia/capabilities), and processes that may hold the counters.",
    why: "The collector samples hardware counters while the workload runs. If it cannot, the report \
          states that, and everything else is recorded as usual.",
    fixes: &[
        Fix::warning(
            "the libcupti is older than that of CUDA 12.6",
            "install a newer one of the driver's CUDA version (`pip install \
             'nvidia-cuda-cupti-cu12>=12.6'`, or `pip install nvidia-cuda-cupti` for CUDA 13) and \
             name it in profiling.collector.cupti; or turn sampling off: \
             profiling.collector.counters=off",
        ),
        Fix::warning(
            "the driver keeps counters for administrators, and this process is not privileged",
            "on the host: `echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee \
             /etc/modprobe.d/nvidia-profiling.conf`, and reboot; or start the container with \
             `--cap-add=SYS_ADMIN`; or turn sampling off: profiling.collector.counters=off",
        ),
        Fix::warning(
            "a GPU is divided into slices (MIG)",
            "sample on a whole GPU (`sudo nvidia-smi -i ID -mig 0` while it is not in use): slices \
             share the units that count; or turn sampling off: profiling.collector.counters=off",
        ),
        Fix::warning(
            "another tool may hold the counters (DCGM, nsys or ncu)",
            "end the nsys or ncu run, or pause DCGM for the time of the run: `dcgmi profile \
             --pause`, afterwards `dcgmi profile --resume`; or turn sampling off: \
             profiling.collector.counters=off",
        ),
    ],
    explains: &[],
};

/// Where the driver shows the slices of each GPU.
const CAPABILITIES: &str = "/proc/driver/nvidia/capabilities";

/// Judges what the first of `installed`, the driver and other processes let a run sample.
pub(super) fn sampling(
    system: &System,
    installed: &[InstalledCupti],
    permissions: &[Check],
    running: &[Check],
) -> Check {
    let bad = |checks: &[Check], id: &str| {
        checks.iter().find(|check| check.id == id && check.is_bad()).map(|check| check.what.clone())
    };
    let old = installed.first().and_then(|first| {
        let version = first.version.as_deref()?;
        is_too_old(version).then(|| {
            let path = first.path.display();
            format!(
                "counters cannot be sampled: {path} is of version {version}, older than CUDA 12.6"
            )
        })
    });
    let denied = bad(permissions, COUNTERS.id);
    let sliced = slices(&system.path(CAPABILITIES));
    let held = bad(running, profilers::RUNNING.id);
    let cases = [
        old,
        denied.map(|what| format!("counters cannot be sampled: {what}")),
        sliced.map(|gpu| {
            format!("counters cannot be sampled on {gpu}: it is divided into slices (MIG)")
        }),
        held.map(|what| format!("counters may be held by another tool: {what}")),
    ];
    let found: Vec<(usize, &String)> =
        cases.iter().enumerate().filter_map(|(case, what)| Some((case, what.as_ref()?))).collect();
    let more = found.iter().skip(1).map(|(_, what)| (*what).clone());
    match found.first() {
        Some((case, what)) => SAMPLING.case(*case, what.as_str()).with(more),
        None if permissions
            .iter()
            .any(|check| check.id == COUNTERS.id && check.status == Status::NotChecked) =>
        {
            SAMPLING.not_checked("there is no NVIDIA driver to ask for the permission")
        }
        None => SAMPLING.ok("nothing speaks against sampling"),
    }
}

/// Older than 12.6, by the version of a wheel (12.4.127) or of a toolkit's file (2024.1.1); of another form: not
/// known to be.
fn is_too_old(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(year @ 2000..), Some(of_year)) => (year, of_year) < (2024, 3),
        (Some(major), Some(minor)) => (major, minor) < (12, 6),
        _ => false,
    }
}

/// The first GPU that has slices.
fn slices(capabilities: &Path) -> Option<String> {
    let mut gpus: Vec<_> = capabilities.read_dir().ok()?.flatten().collect();
    gpus.order_by_key(std::fs::DirEntry::file_name);
    gpus.into_iter().find_map(|gpu| {
        let name = gpu.file_name().to_string_lossy().strip_prefix("gpu")?.to_owned();
        let mut slices = gpu.path().join("mig").read_dir().ok()?.flatten();
        let has_slices = slices.any(|slice| slice.file_name().to_string_lossy().starts_with("gi"));
        has_slices.then(|| format!("GPU {name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::testing::Machine;

    const PARAMS: &str = "proc/driver/nvidia/params";
    const STATUS: &str = "proc/self/status";
    /// Docker's default set for root has neither capability.
    const DOCKERS: &str = "Name:\tx\nCapEff:\t00000000a80425fb\n";

    #[test]
    fn counters_need_the_setting_or_a_capability() {
        let machine = Machine::new(&[]);
        let system = machine.system(&[]);
        assert_eq!(counters(&system).status, Status::NotChecked);
        machine.write(STATUS, DOCKERS);
        machine.write(PARAMS, "EnableMSI: 1\nRmProfilingAdminOnly: 0\n");
        assert_eq!(counters(&system).status, Status::Ok);
        machine.write(PARAMS, "EnableMSI: 1\nRmProfilingAdminOnly: 1\n");
        let denied = counters(&system);
        assert_eq!(denied.status, Status::Warning);
        let fix = denied.fix.expect("a fix");
        assert!(fix.contains("options nvidia NVreg_RestrictProfilingToAdminUsers=0"), "{fix}");
        assert!(fix.contains("--cap-add=SYS_ADMIN"), "{fix}");
        for (set, status) in [
            ("000001ffffffffff", Status::Ok),
            ("0000004000000000", Status::Ok),
            ("nonsense", Status::Warning),
        ] {
            machine.write(STATUS, &format!("CapEff:\t{set}\n"));
            assert_eq!(counters(&system).status, status, "{set}");
        }
    }

    #[test]
    fn each_obstacle_has_its_remedy() {
        let machine = Machine::new(&[]);
        let judged = |version: &str| {
            let system = machine.system(&[]);
            let installed = [InstalledCupti {
                path: "/x/libcupti.so.12".into(),
                how: cupti_sys::places::How::System,
                cuda_major: Some(12),
                version: Some(version.to_owned()),
            }];
            sampling(&system, &installed, &checks(&system), &profilers::running(&system))
        };
        assert_eq!(judged("12.6.80").status, Status::NotChecked, "no driver here");
        machine.write(STATUS, DOCKERS);
        machine.write(PARAMS, "RmProfilingAdminOnly: 0\n");
        assert_eq!(judged("12.6.80").status, Status::Ok);
        for (version, old) in
            [("12.4.127", true), ("2024.2.1", true), ("2025.3.1", false), ("x", false)]
        {
            assert_eq!(judged(version).is_bad(), old, "{version}");
        }
        // The worse of two obstacles is told.
        for (file, text, what, fix) in [
            ("proc/42/comm", "nv-hostengine\n", "nv-hostengine", "dcgmi"),
            ("proc/driver/nvidia/capabilities/gpu1/mig/gi0/access", "", "GPU 1", "-mig 0"),
            (PARAMS, "RmProfilingAdminOnly: 1\n", "", "RestrictProfilingToAdminUsers"),
        ] {
            machine.write(file, text);
            let found = judged("13.0.85");
            assert!(found.what.contains(what), "{found:?}");
            assert!(found.fix.is_some_and(|text| text.contains(fix)), "{found:?}");
        }
        assert_eq!(judged("13.0.85").details.len(), 2, "the other obstacles are told as well");
    }
}
