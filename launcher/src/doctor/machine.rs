//! Markers of containers, /dev/shm and the run's folder -> checks.

use std::path::Path;

use nix::sys::statvfs::statvfs;

use super::check::{Check, CheckInfo, Fix, Group, System};
use stage2_contract::text::numbers::count;

use crate::bundle::RunFolder;

pub(super) const CONTAINER: CheckInfo = CheckInfo {
    id: "container",
    group: Group::Machine,
    looks_at: "Marker files and variables of Docker, Podman, Kubernetes, Slurm and Singularity, and the \
               seccomp mode of this process.",
    why: "It shows where the other fixes have to be made: a container sees the driver and the \
          permissions of its host.",
    fixes: &[],
    explains: &[],
};

pub(super) const SHARED_MEMORY: CheckInfo = CheckInfo {
    id: "shared-memory",
    group: Group::Machine,
    looks_at: "Size and free space of /dev/shm.",
    why: "DataLoader workers and NCCL keep their buffers there; a container has 64 MiB by default, and \
          a workload then ends with a bus error.",
    fixes: &[Fix::warning(
        "/dev/shm is smaller than 1 GiB, or full",
        "start the container with `--ipc=host` or `--shm-size=8g` (Kubernetes: an emptyDir of \
         medium Memory at /dev/shm), if the workload has several processes; delete what ended \
         programs left in it",
    )],
    explains: &[],
};

pub(super) const RUN_FOLDER: CheckInfo = CheckInfo {
    id: "run-folder",
    group: Group::Machine,
    looks_at: "Whether the folder of the runs (tmp/stage2 below the working directory) can be written, \
               and the free space of its disk.",
    why: "A kernel takes 7 to 8 bytes, an nsys capture a hundred times as much: a full disk cuts the \
          records short.",
    fixes: &[
        Fix::problem(
            "the folder cannot be written",
            "change to a folder that you may write, or give `--run-dir DIR`",
        ),
        Fix::problem(
            "less than 64 MiB are free",
            "delete older runs, or give `--run-dir DIR` on another disk",
        ),
        Fix::warning(
            "less than 2 GiB are free",
            "free some space or give `--run-dir DIR` on another disk, if the nsys pass is to run \
             (`run.mode=light` needs little)",
        ),
        Fix::problem(
            "the folder that `--run-dir` names cannot take a run",
            "name a folder that is new or empty",
        ),
    ],
    explains: &[],
};

const MIB: u64 = 1 << 20;

/// Judges what contains this process.
pub(super) fn container(system: &System) -> Check {
    let has = |name: &str| system.variable(name).is_some();
    let cgroup = system.read("/proc/1/cgroup").unwrap_or_default();
    let markers = [
        ("Kubernetes", has("KUBERNETES_SERVICE_HOST") || cgroup.contains("kubepods")),
        ("Docker", system.exists("/.dockerenv") || cgroup.contains("/docker")),
        ("Podman", system.exists("/run/.containerenv")),
        ("Singularity or Apptainer", has("SINGULARITY_CONTAINER") || has("APPTAINER_CONTAINER")),
        ("a Slurm job", has("SLURM_JOB_ID")),
    ];
    let kinds: Vec<&str> =
        markers.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect();
    let seccomp = match system.field("/proc/self/status", "Seccomp").as_deref() {
        Some("0") => "no seccomp filter".to_owned(),
        Some("2") => "a seccomp filter is on (nsys may not sample the CPU)".to_owned(),
        Some(other) => format!("seccomp mode {other}"),
        None => "the seccomp mode is not known".to_owned(),
    };
    let kinds = match kinds.is_empty() {
        true => "no marker of a container".to_owned(),
        false => kinds.join(", "),
    };
    CONTAINER.ok(format!("{kinds}; {seccomp}"))
}

/// Judges /dev/shm.
pub(super) fn shared_memory(system: &System) -> Check {
    match space(&system.path("/dev/shm")) {
        Ok(space) => of_shared_memory(space),
        Err(why) => SHARED_MEMORY.not_checked(format!("/dev/shm: {why}")),
    }
}

fn of_shared_memory(Space { size, free }: Space) -> Check {
    let [all, left] = [size, free].map(|bytes| count(bytes / MIB));
    let left = if left == all { "all free".to_owned() } else { format!("{left} MiB free") };
    let what = format!("/dev/shm has {all} MiB, {left}");
    if size < 1024 * MIB || free < 16 * MIB {
        return SHARED_MEMORY.case(0, what);
    }
    SHARED_MEMORY.ok(what)
}

/// Judges the folder that runs are written into.
pub(super) fn run_folder(folder: &Path) -> Check {
    // The part of the path that is there already.
    let there = folder.ancestors().find(|part| part.exists()).unwrap_or(Path::new("/"));
    let shown = there.display();
    if let Err(why) = stage2_read::files::try_folder(there) {
        return RUN_FOLDER.case(0, format!("{shown} cannot be written: {why}"));
    }
    match space(there) {
        Ok(space) => of_run_folder(there, space.free),
        Err(why) => RUN_FOLDER.not_checked(format!("the free space of {shown}: {why}")),
    }
}

/// Judges the folder that was named for one run.
pub(super) fn named_folder(folder: &Path) -> Check {
    match RunFolder::Given(folder.to_owned()).refused() {
        Some(error) => RUN_FOLDER.case(3, format!("{}: {}", error.path.display(), error.what)),
        None => run_folder(folder),
    }
}

fn of_run_folder(folder: &Path, free: u64) -> Check {
    let what = format!("{} can be written; {} MiB are free", folder.display(), count(free / MIB));
    match free / MIB {
        0..64 => RUN_FOLDER.case(1, what),
        64..2048 => RUN_FOLDER.case(2, what),
        _ => RUN_FOLDER.ok(what),
    }
}

/// Bytes of a file system.
#[derive(Clone, Copy, Debug)]
struct Space {
    size: u64,
    /// For users other than root.
    free: u64,
}

fn space(path: &Path) -> nix::Result<Space> {
    let found = statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
    Ok(Space { size: bytes(found.blocks()), free: bytes(found.blocks_available()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;
    use crate::doctor::testing::Machine;

    #[test]
    fn containers_and_space_are_judged() {
        let machine = Machine::new(&[(".dockerenv", "")]);
        let system = machine.system(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]);
        let what = container(&system).what;
        assert!(what.starts_with("Kubernetes, Docker;") && !what.contains("10.0.0.1"), "{what}");
        assert_eq!(shared_memory(&system).status, Status::NotChecked);
        let shm =
            |size: u64, free: u64| of_shared_memory(Space { size: size * MIB, free: free * MIB });
        assert_eq!(shm(64, 64).status, Status::Warning);
        assert_eq!(shm(32_768, 32_000).status, Status::Ok);
        for (free, status) in [(10, Status::Problem), (500, Status::Warning), (9000, Status::Ok)] {
            assert_eq!(of_run_folder(Path::new("/x"), free * MIB).status, status, "{free}");
        }
        assert!(run_folder(&machine.path("tmp/stage2")).status != Status::NotChecked);
        assert_eq!(run_folder(Path::new("/proc/x")).status, Status::Problem);
    }
}
