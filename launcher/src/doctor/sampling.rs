//! What other checks found -> whether the collector can sample hardware counters, told beforehand.

use std::path::Path;

use super::check::{Check, Fix, Group, Known, Status};
use super::cupti_candidates::Installed;
use super::system::System;
use super::{permissions, profilers};

pub(super) const SAMPLING: Known = Known {
    id: "sampled-counters",
    group: Group::Permissions,
    looks_at: "The version of the libcupti that a run would use, the permission for counters, slices of \
               GPUs (/proc/driver/nvidia/capabilities), and processes that may hold the counters.",
    why: "The collector samples hardware counters while the workload runs. Where it cannot, the report \
          says so and everything else is recorded as usual.",
    fixes: &[
        Fix {
            when: "the libcupti is older than that of CUDA 12.6",
            status: Status::Warning,
            text: "install a newer one of the driver's CUDA version (`pip install \
                   'nvidia-cuda-cupti-cu12>=12.6'`, or `pip install nvidia-cuda-cupti` for CUDA 13) and \
                   name it in profiling.collector.cupti; or turn sampling off: \
                   profiling.collector.counters=off",
        },
        Fix {
            when: "the driver keeps counters for administrators, and this process is none",
            status: Status::Warning,
            text: "on the host: `echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee \
                   /etc/modprobe.d/nvidia-profiling.conf`, and reboot; or start the container with \
                   `--cap-add=SYS_ADMIN`; or turn sampling off: profiling.collector.counters=off",
        },
        Fix {
            when: "a GPU is divided into slices (MIG)",
            status: Status::Warning,
            text: "sample on a whole GPU (`sudo nvidia-smi -i ID -mig 0` while nobody uses it): slices \
                   share the units that count; or turn sampling off: profiling.collector.counters=off",
        },
        Fix {
            when: "another tool may hold the counters (DCGM, nsys or ncu)",
            status: Status::Warning,
            text: "end the nsys or ncu run, or pause DCGM for the time of the run: `dcgmi profile \
                   --pause`, afterwards `dcgmi profile --resume`; or turn sampling off: \
                   profiling.collector.counters=off",
        },
    ],
    explains: &[],
};

#[cfg(test)]
pub(super) const ALL: [&Known; 1] = [&SAMPLING];

/// Where the driver shows the slices of each GPU.
const CAPABILITIES: &str = "/proc/driver/nvidia/capabilities";

/// Judges what the first of `installed`, the driver and other processes let a run sample.
pub(super) fn check(
    system: &System,
    installed: &[Installed],
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
    let denied = bad(permissions, permissions::COUNTERS.id);
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
        None if permissions.iter().any(|check| {
            check.id == permissions::COUNTERS.id && check.status == Status::NotChecked
        }) =>
        {
            SAMPLING.not_checked("there is no NVIDIA driver to ask for the permission")
        }
        None => SAMPLING.ok("nothing speaks against sampling"),
    }
}

/// Older than 12.6, by the version of a wheel (12.4.127) or of a toolkit's file (2024.1.1); of another
/// form: not known to be.
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
    gpus.sort_by_key(std::fs::DirEntry::file_name);
    let has_slices = |path: &Path| {
        let slices = path.join("mig").read_dir().into_iter().flatten().flatten();
        slices.into_iter().any(|slice| slice.file_name().to_string_lossy().starts_with("gi"))
    };
    let name = |gpu: std::fs::DirEntry| {
        let name = gpu.file_name().to_string_lossy().into_owned();
        name.starts_with("gpu")
            .then(|| name.replacen("gpu", "GPU ", 1))
            .filter(|_| has_slices(&gpu.path()))
    };
    gpus.into_iter().find_map(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_obstacle_has_its_remedy() {
        let root = tempfile::tempdir().expect("folder");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            std::fs::write(path, text).expect("file");
        };
        let judged = |version: &str| {
            let system = System::at(root.path(), &[]);
            let installed = [Installed {
                path: "/x/libcupti.so.12".into(),
                how: cupti_sys::places::How::System,
                cuda_major: Some(12),
                version: Some(version.to_owned()),
            }];
            let running = profilers::running(&system);
            check(&system, &installed, &permissions::checks(&system), &running)
        };
        assert_eq!(judged("12.6.80").status, Status::NotChecked, "no driver here");
        write("proc/self/status", "CapEff:\t00000000a80425fb\n");
        write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 0\n");
        assert_eq!(judged("12.6.80").status, Status::Ok);
        for (version, old) in
            [("12.4.127", true), ("2024.2.1", true), ("2025.3.1", false), ("x", false)]
        {
            assert_eq!(judged(version).is_bad(), old, "{version}");
        }
        write("proc/42/comm", "nv-hostengine\n");
        let held = judged("13.0.85");
        assert!(
            held.what.contains("nv-hostengine") && held.fix.is_some_and(|f| f.contains("dcgmi"))
        );
        write("proc/driver/nvidia/capabilities/gpu1/mig/gi0/access", "");
        let sliced = judged("13.0.85");
        assert!(
            sliced.what.contains("GPU 1") && sliced.fix.is_some_and(|fix| fix.contains("-mig 0"))
        );
        write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n");
        let denied = judged("13.0.85");
        assert!(denied.fix.is_some_and(|fix| fix.contains("RestrictProfilingToAdminUsers")));
        assert_eq!(denied.details.len(), 2, "the other obstacles are told as well");
    }
}
