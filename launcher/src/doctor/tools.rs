//! `nsys --version` and `ncu --version` -> whether they fit the driver.

use std::path::Path;
use std::process::Command;

use stage2_contract::text::visible_path;

use super::check::{Check, CheckInfo, Fix, Group, System, major};
use crate::env::is_executable;
use crate::tools::{Version, ncu, nsys};

/// What is to be done about a tool: with its own settings, and the package that has it.
macro_rules! fixes {
    ($tool:literal, $package:literal) => {
        &[
            Fix::warning(
                "it is not on PATH, or not where the settings say",
                concat!(
                    "install it and put its folder into PATH, or name the file in `pipeline.",
                    $tool,
                    ".executable`; `run.mode=light` does not need it"
                ),
            ),
            Fix::warning(
                "it does not start, or gives no answer",
                concat!(
                    "run it with --version yourself; if it hangs or fails there too, install it again, or leave \
                     its pass out: pipeline.",
                    $tool,
                    ".enable=false"
                ),
            ),
            Fix::warning(
                "it is older than the first release for the driver's CUDA major version",
                concat!(
                    "install a release that is at least as new (developer.nvidia.com, or the package ",
                    $package,
                    "): an old one may leave kernels out without an error"
                ),
            ),
            Fix::warning(
                "it is older than the oldest release whose arguments stage2-launch uses",
                concat!(
                    "install a newer release, or leave its pass out: pipeline.",
                    $tool,
                    ".enable=false"
                ),
            ),
        ]
    };
}

pub(super) const NSYS: CheckInfo = CheckInfo {
    id: "nsys",
    group: Group::Tools,
    looks_at: "The nsys on PATH, or the one that pipeline.nsys.executable names, its version, and the \
               driver's CUDA version.",
    why: "The nsys pass gives the timeline. An nsys that is older than the driver may lose most of the \
          kernels without a message.",
    fixes: fixes!("nsys", "nsight-systems"),
    explains: &[],
};

pub(super) const NCU: CheckInfo = CheckInfo {
    id: "ncu",
    group: Group::Tools,
    looks_at: "The ncu on PATH, or the one that pipeline.ncu.executable names, its version, and the \
               driver's CUDA version.",
    why: "The ncu pass gives counters. An ncu that is older than the driver may not start measuring.",
    fixes: fixes!("ncu", "nsight-compute"),
    explains: &[],
};

/// First releases of nsys and ncu for a CUDA major version.
const FIRST_FOR: [(u32, Version); 2] =
    [(12, Version::new(2022, 4, 0)), (13, Version::new(2025, 3, 0))];

#[derive(Clone, Debug)]
pub(super) enum ToolAnswer {
    /// Where it was looked for.
    Missing(String),
    Failed(String),
    Said {
        path: String,
        text: String,
    },
}

/// Asks a tool for its version. `executable`: a word that is looked for on PATH, or a path.
pub(super) fn ask(system: &System, executable: &Path) -> ToolAnswer {
    let shown = visible_path(executable);
    let path = match executable.to_str().filter(|word| !word.contains('/')) {
        Some(word) => match system.on_path(word) {
            Some(path) => path,
            None => return ToolAnswer::Missing(format!("{shown} is not on PATH")),
        },
        None if is_executable(executable) => executable.to_owned(),
        None => return ToolAnswer::Missing(format!("{shown} is not an executable file")),
    };
    let shown = visible_path(&path);
    match system.ask(Command::new(&path).arg("--version")) {
        Ok(text) => ToolAnswer::Said { path: shown, text },
        Err(why) => ToolAnswer::Failed(format!("{shown} --version: {why}")),
    }
}

pub(super) fn check(known: &CheckInfo, asked: &ToolAnswer, driver_cuda: Option<&str>) -> Check {
    let (path, text) = match asked {
        ToolAnswer::Missing(why) => return known.case(0, why.clone()),
        ToolAnswer::Failed(why) => return known.case(1, why.clone()),
        ToolAnswer::Said { path, text } => (path, text),
    };
    let Some(version) = Version::parse(text) else {
        return known.case(1, format!("{path} --version names no version"));
    };
    let details = [path.clone()];
    let name = known.id;
    let oldest = if known.id == NSYS.id { nsys::command::OLDEST } else { ncu::command::OLDEST };
    if version < oldest {
        let what = format!("{name} {version} is too old: stage2-launch needs {oldest} or newer");
        return known.case(3, what).with(details);
    }
    let (Some(cuda), Some(major)) = (driver_cuda, driver_cuda.and_then(major)) else {
        let what = format!("{name} {version}; no driver to compare it with");
        return known.ok(what).with(details);
    };
    let Some((_, first)) = FIRST_FOR.iter().find(|(of, _)| *of == major) else {
        let what = format!(
            "{name} {version}; which release belongs to a driver of CUDA {cuda} is not known here"
        );
        return known.ok(what).with(details);
    };
    if version < *first {
        let Version { year, release, .. } = first;
        let what = format!(
            "{name} {version} is older than the driver (CUDA {cuda}), which needs {year}.{release} or newer"
        );
        return known.case(2, what).with(details);
    }
    known.ok(format!("{name} {version} fits the driver (CUDA {cuda})")).with(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;

    #[test]
    fn a_tool_that_is_older_than_the_driver_is_told() {
        let said = |text: &str| ToolAnswer::Said { path: "/x".into(), text: text.into() };
        let old = said("NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0\n");
        for (cuda, status) in [
            (Some("13.0"), Status::Warning),
            (Some("12.8"), Status::Ok),
            (Some("14.0"), Status::Ok),
            (None, Status::Ok),
        ] {
            assert_eq!(check(&NSYS, &old, cuda).status, status, "{cuda:?}");
        }
        let ncu =
            said("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 1)\n");
        assert_eq!(check(&NCU, &ncu, Some("13.0")).status, Status::Ok);
        let ancient = check(&NCU, &said("Version 2021.1.0.0"), Some("12.0"));
        assert!(ancient.what.contains("too old"), "{ancient:?}");
        for asked in [
            ToolAnswer::Missing("x".into()),
            ToolAnswer::Failed("no answer in 3 s".into()),
            said(""),
        ] {
            let check = check(&NSYS, &asked, Some("13.0"));
            assert!(check.status == Status::Warning && check.fix.is_some(), "{check:?}");
        }
    }
}
