//! Variables and processes -> who else may hold CUPTI, NVTX or the counters.
//!
//! Of the environment only the variables that load tools are read, of other processes only their names
//! and the files that they have mapped.

use std::ffi::OsStr;
use std::path::Path;

use stage2_model::EmptyCause;

use super::check::{Check, CheckInfo, Fix, Group, System};
use super::cupti::same;

pub(super) const INJECTION: CheckInfo = CheckInfo {
    id: "injection",
    group: Group::Profilers,
    looks_at: "CUDA_INJECTION64_PATH, NVTX_INJECTION64_PATH, LD_PRELOAD and KINETO_USE_DAEMON of this \
               environment.",
    why: "Each of the first two variables loads one tool. If another tool owns one, the collector \
          gives way to it, and sees no GPU work, or no ranges.",
    fixes: &[
        Fix::problem(
            "another tool owns CUDA_INJECTION64_PATH",
            "unset CUDA_INJECTION64_PATH, or end the tool that sets it (a shell under nsys, \
             another profiler's launcher)",
        ),
        Fix::warning(
            "another tool owns NVTX_INJECTION64_PATH",
            "unset NVTX_INJECTION64_PATH: ranges go to the tool that it names, and all GPU work \
             counts as outside of ranges",
        ),
        Fix::warning(
            "LD_PRELOAD names a profiler",
            "take it out of LD_PRELOAD: CUPTI has one subscriber",
        ),
        Fix::warning(
            "torch's profiler waits for a daemon",
            "unset KINETO_USE_DAEMON: a trace that the daemon asks for takes CUPTI away",
        ),
    ],
    explains: &[EmptyCause::CuptiOff, EmptyCause::NothingUsed, EmptyCause::NothingLaunched],
};

pub(super) const RUNNING: CheckInfo = CheckInfo {
    id: "running-profilers",
    group: Group::Profilers,
    looks_at: "Processes called nsys, ncu, nv-hostengine or dcgm-exporter, and those that have a library \
               of nsys or ncu mapped. A mapped libcupti alone is not a profiler: torch includes one.",
    why: "Only one tool at a time can use a GPU's counters, and a second profiler changes the times of a run.",
    fixes: &[
        Fix::warning(
            "nsys or ncu is running",
            "let it end before the run (the details name the processes)",
        ),
        Fix::warning(
            "DCGM is running",
            "for the time of an ncu pass run `dcgmi profile --pause`, afterwards `dcgmi profile \
             --resume`; timings of the collector are not affected",
        ),
    ],
    explains: &[EmptyCause::CuptiOff],
};

pub(super) const MPS: CheckInfo = CheckInfo {
    id: "mps",
    group: Group::Profilers,
    looks_at: "Whether an MPS daemon runs here, and CUDA_MPS_PIPE_DIRECTORY.",
    why: "Under MPS several processes share a GPU at the same time: kernels of the others make ours \
          longer, and ncu cannot profile.",
    fixes: &[Fix::warning(
        "MPS is in use",
        "for undisturbed times stop it: `echo quit | nvidia-cuda-mps-control` as the user who \
         started it; or leave the ncu pass out: pipeline.ncu.enable=false",
    )],
    explains: &[],
};

/// Names of files of profilers that are preloaded or injected.
const PROFILERS: [&str; 6] =
    ["libToolsInjection", "libcuda-injection", "libnsys", "libhpcrun", "libproton", "libgpufl"];
const MOST_PROCESSES: usize = 16_384;
const NAMED: usize = 8;

/// Judges the variables; `collector`: paths of our own library in them are no other tool.
pub(super) fn injection(system: &System, collector: Option<&Path>) -> Check {
    let is_ours = |value: &&OsStr| collector.is_some_and(|own| same(own, Path::new(value)));
    let mut cases = Vec::new();
    let mut details = Vec::new();
    for (case, name) in ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"].into_iter().enumerate() {
        if let Some(value) = system.variable(name).filter(|value| !is_ours(value)) {
            cases.push((case, format!("another tool owns {name}")));
            details.push(format!("{name}={}", value.to_string_lossy()));
        }
    }
    if let Some(value) = system.variable("LD_PRELOAD") {
        let value = value.to_string_lossy();
        if let Some(tool) = PROFILERS.iter().find(|tool| value.contains(**tool)) {
            cases.push((2, format!("LD_PRELOAD names a profiler ({tool})")));
        }
        details.push(format!("LD_PRELOAD={value}"));
    }
    if system.variable("KINETO_USE_DAEMON").is_some() {
        cases
            .push((3, "torch's profiler waits for a daemon (KINETO_USE_DAEMON is set)".to_owned()));
    }
    match cases.first() {
        None => INJECTION.ok("no other tool is loaded by variables").with(details),
        Some((case, _)) => {
            let texts: Vec<&str> = cases.iter().map(|(_, text)| text.as_str()).collect();
            INJECTION.case(*case, texts.join("; ")).with(details)
        }
    }
}

/// What the processes of a machine are.
#[derive(Debug, Default)]
struct Processes {
    nsight: Vec<String>,
    dcgm: Vec<String>,
    mps: Vec<String>,
    /// Those whose mapped files this user may not read.
    closed: usize,
    seen: usize,
    is_cut: bool,
}

/// Judges the processes that this user sees.
pub(super) fn running(system: &System) -> Vec<Check> {
    let Ok(entries) = system.path("/proc").read_dir() else {
        let why = "/proc cannot be read";
        return vec![RUNNING.not_checked(why), MPS.not_checked(why)];
    };
    let mut found = Processes::default();
    let pids =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        if found.seen == MOST_PROCESSES || system.is_late() {
            found.is_cut = true;
            break;
        }
        found.seen += 1;
        found.look(system, pid);
    }
    let mut seen = vec![format!("{} processes looked at", found.seen)];
    if found.closed > 0 {
        seen.push(format!(
            "the mapped files of {} belong to other users: only names are known",
            found.closed
        ));
    }
    if found.is_cut {
        seen.push("there are more processes than could be looked at in time".to_owned());
    }
    let named = |list: &[String]| list.iter().take(NAMED).cloned().collect::<Vec<_>>();
    let running = match (found.nsight.first(), found.dcgm.first()) {
        (Some(one), _) => {
            RUNNING.case(0, format!("a profiler is running: {one}")).with(named(&found.nsight))
        }
        (None, Some(one)) => {
            RUNNING.case(1, format!("DCGM is running, which may hold the counters: {one}"))
        }
        (None, None) => RUNNING.ok("no other profiler is running, as far as this user sees"),
    };
    let mps = match (found.mps.first(), system.variable("CUDA_MPS_PIPE_DIRECTORY")) {
        (Some(one), _) => MPS.case(0, format!("an MPS daemon is running: {one}")),
        (None, Some(dir)) => {
            MPS.case(0, format!("CUDA_MPS_PIPE_DIRECTORY is set ({})", dir.to_string_lossy()))
        }
        (None, None) => MPS.ok("MPS is not in use"),
    };
    vec![running.with(named(&found.dcgm)).with(seen), mps]
}

impl Processes {
    fn look(&mut self, system: &System, pid: u32) {
        let Ok(name) = system.read(&format!("/proc/{pid}/comm")) else { return };
        let name = name.trim();
        let shown = format!("{name} (process {pid})");
        match name {
            "nsys" | "ncu" | "nsys-launcher" => return self.nsight.push(shown),
            // Names of processes have 15 characters.
            "nv-hostengine" | "dcgm-exporter" | "dcgmi" => return self.dcgm.push(shown),
            _ if name.starts_with("nvidia-cuda-mps") => return self.mps.push(shown),
            _ => {}
        }
        match system.read(&format!("/proc/{pid}/maps")) {
            Ok(maps) => {
                let tool = ["libToolsInjection", "libcuda-injection.so"];
                if let Some(tool) = tool.into_iter().find(|tool| maps.contains(tool)) {
                    self.nsight.push(format!("{shown} has {tool} loaded"));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => self.closed += 1,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;
    use crate::doctor::testing::Machine;

    #[test]
    fn another_tool_in_the_variables_is_named_and_our_own_is_not() {
        let machine = Machine::new(&[("libstage2.so", "")]);
        let own = machine.path("libstage2.so");
        let of = |variables: &[(&str, &str)]| injection(&machine.system(variables), Some(&own));
        let text = own.to_str().expect("path");
        let ours = of(&[("CUDA_INJECTION64_PATH", text), ("SECRET", "hunter2")]);
        assert_eq!(ours.status, Status::Ok);
        let check = of(&[
            ("CUDA_INJECTION64_PATH", "/nsys/libToolsInjection64.so"),
            ("NVTX_INJECTION64_PATH", "/x.so"),
        ]);
        assert_eq!(check.status, Status::Problem);
        assert!(check.what.contains("CUDA_INJECTION64_PATH; another tool owns NVTX"), "{check:?}");
        let preload = of(&[("LD_PRELOAD", "/lib/libhpcrun.so /lib/libjemalloc.so")]);
        assert_eq!(preload.status, Status::Warning);
    }

    #[test]
    fn running_profilers_are_found_by_name_and_by_their_libraries() {
        let machine = Machine::new(&[]);
        let process = |pid: u32, name: &str, maps: &str| {
            machine.write(&format!("proc/{pid}/comm"), &format!("{name}\n"));
            machine.write(&format!("proc/{pid}/maps"), maps);
        };
        process(7, "python", "7f00-7f01 r-xp 0 0:0 1 /x/torch/lib/libcupti.so.12\n");
        let checks = |variables| running(&machine.system(variables));
        // A libcupti alone is none.
        assert!(checks(&[]).iter().all(|check| check.status == Status::Ok));
        process(8, "nv-hostengine", "");
        assert!(checks(&[])[0].fix.is_some_and(|fix| fix.contains("dcgmi profile --pause")));
        process(9, "python", "7f00-7f01 r-xp 0 0:0 1 /nsys/libToolsInjection64.so\n");
        let found = &checks(&[])[0];
        assert!(found.what.contains("process 9"), "{found:?}");
        assert!(found.details[1].contains("nv-hostengine"), "{found:?}");
        assert_eq!(checks(&[("CUDA_MPS_PIPE_DIRECTORY", "/tmp/mps")])[1].status, Status::Warning);
        process(10, "nvidia-cuda-mps", "");
        assert!(checks(&[])[1].what.contains("process 10"));
    }
}
