//! Files of /proc -> what the driver and the kernel allow this user.

use super::check::{Check, Fix, Group, Known, Status};
use super::system::System;

pub(super) const COUNTERS: Known = Known {
    id: "counters",
    group: Group::Permissions,
    looks_at: "RmProfilingAdminOnly in /proc/driver/nvidia/params, and the capabilities of this process.",
    why: "ncu and sampled counters need the permission (ERR_NVGPUCTRPERM otherwise). Timings of the \
          collector and of nsys do not.",
    fixes: &[Fix {
        when: "the driver keeps counters for administrators, and this process is none",
        status: Status::Warning,
        text: "on the host: `echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee \
               /etc/modprobe.d/nvidia-profiling.conf`, rebuild the initramfs where the distribution \
               needs that (update-initramfs -u or dracut -f), and reboot; or run as root outside of a \
               container; or start the container with `--cap-add=SYS_ADMIN` (Kubernetes: \
               securityContext.capabilities.add: [\"SYS_ADMIN\"]); without it leave ncu out: \
               pipeline.ncu.enable=false",
    }],
    explains: &[],
};

pub(super) const PERF: Known = Known {
    id: "perf-events",
    group: Group::Permissions,
    looks_at: "/proc/sys/kernel/perf_event_paranoid.",
    why: "Above 2 nsys cannot sample the CPU (pipeline.nsys settings that ask for it); GPU work and \
          ranges are not concerned.",
    fixes: &[],
    explains: &[],
};

pub(super) const PTRACE: Known = Known {
    id: "ptrace",
    group: Group::Permissions,
    looks_at: "/proc/sys/kernel/yama/ptrace_scope.",
    why: "From 2 on only administrators may attach to a process, and at 3 nobody. The passes start what \
          they profile, and attach to nothing.",
    fixes: &[],
    explains: &[],
};

#[cfg(test)]
pub(super) const ALL: [&Known; 3] = [&COUNTERS, &PERF, &PTRACE];

/// Bits of `CapEff`.
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;

/// Judges what the driver and the kernel allow.
pub(super) fn checks(system: &System) -> Vec<Check> {
    vec![counters(system), perf(system), ptrace(system)]
}

fn counters(system: &System) -> Check {
    let key = "RmProfilingAdminOnly";
    let Some(restricted) = system.field("/proc/driver/nvidia/params", key) else {
        return COUNTERS
            .not_checked(format!("/proc/driver/nvidia/params has no {key}, or is not there"));
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
                None => "/proc/self/status does not tell the capabilities".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_need_the_setting_or_a_capability() {
        let root = tempfile::tempdir().expect("folder");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            std::fs::write(path, text).expect("file");
        };
        let system = System::at(root.path(), &[]);
        assert_eq!(counters(&system).status, Status::NotChecked);
        // Docker's default set for root has neither capability.
        write("proc/self/status", "Name:\tx\nCapEff:\t00000000a80425fb\n");
        write("proc/driver/nvidia/params", "EnableMSI: 1\nRmProfilingAdminOnly: 0\n");
        assert_eq!(counters(&system).status, Status::Ok);
        write("proc/driver/nvidia/params", "EnableMSI: 1\nRmProfilingAdminOnly: 1\n");
        let denied = counters(&system);
        assert_eq!(denied.status, Status::Warning);
        let fix = denied.fix.expect("a fix");
        for part in ["options nvidia NVreg_RestrictProfilingToAdminUsers=0", "--cap-add=SYS_ADMIN"]
        {
            assert!(fix.contains(part), "{fix}");
        }
        for set in ["000001ffffffffff", "0000004000000000"] {
            write("proc/self/status", &format!("CapEff:\t{set}\n"));
            assert_eq!(counters(&system).status, Status::Ok, "{set}");
        }
        write("proc/self/status", "CapEff:\tnonsense\n");
        assert_eq!(counters(&system).status, Status::Warning);
    }
}
