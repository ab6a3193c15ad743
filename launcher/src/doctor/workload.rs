//! The collector's library, the program, its Python and the trial -> whether ranges reach us.

use std::ffi::OsString;
use std::path::Path;

use stage2_contract::text::visible_path;
use stage2_model::{EmptyCause, Severity};

use super::check::{Check, CheckInfo, Fix, Group};
use super::trial::{NoTrial, Trial};
use crate::env::{NoAnswer, is_python};
use crate::install::in_one_line;
use crate::run::Library;
use crate::workload;

pub(super) const COLLECTOR: CheckInfo = CheckInfo {
    id: "collector",
    group: Group::Collector,
    looks_at: "The file libstage2.so that a run loads, and its version, from a trace file that it writes.",
    why: "Without it there is no measurement; one of another version may write what this program \
          cannot read.",
    fixes: &[
        Fix::problem(
            "libstage2.so is not where a run looks for it, or is not a library for this machine",
            "put libstage2.so next to stage2-launch or into ../lib, name it in STAGE2_COLLECTOR, or \
             build both with `cargo build --release`",
        ),
        Fix::warning(
            "it is of another version than stage2-launch",
            "install libstage2.so and stage2-launch of the same release",
        ),
    ],
    explains: &[EmptyCause::CollectorNotLoaded, EmptyCause::FilesUnreadable],
};

pub(super) const PROGRAM: CheckInfo = CheckInfo {
    id: "program",
    group: Group::Collector,
    looks_at: "The program of COMMAND: whether it exists, and whether it can load the collector (glibc \
               version, musl, static, 32-bit, AddressSanitizer), from its ELF headers.",
    why: "A program that cannot load the collector runs without it, and nothing is recorded.",
    fixes: &[
        Fix::problem(
            "there is no such program, or it cannot be run",
            "check the spelling and the permissions, put its folder into PATH, or give its path",
        ),
        Fix::problem(
            "it cannot load the collector",
            "run the workload with a dynamically linked glibc program (no Alpine image); for an \
             older glibc build the collector on a system as old, and name it in STAGE2_COLLECTOR",
        ),
        Fix::warning(
            "it is static (then its child processes are recorded), or is built with \
             AddressSanitizer",
            "use a dynamically linked build without AddressSanitizer, if it uses the GPU itself",
        ),
    ],
    explains: &[EmptyCause::CollectorNotLoaded, EmptyCause::NothingUsed],
};

pub(super) const PYTHON: CheckInfo = CheckInfo {
    id: "python",
    group: Group::Collector,
    looks_at: "The interpreter of COMMAND (else python3), and the versions of torch, nvtx, hydra-core \
               and others in it.",
    why: "Their CUDA and CUPTI are those of the workload; without a package that opens NVTX ranges a \
          report has no stages.",
    fixes: &[Fix::problem(
        "the interpreter does not run",
        "run it yourself, and name the interpreter of the workload's environment in COMMAND",
    )],
    explains: &[EmptyCause::NotStarted],
};

pub(super) const PRELOAD: CheckInfo = CheckInfo {
    id: "nvtx",
    group: Group::Collector,
    looks_at: "Starts the interpreter with the collector preloaded, opens a range by each NVTX binding \
               that is there (torch.cuda.nvtx, the package nvtx, a separate NVTX client), and reads \
               the resulting trace file.",
    why: "Every range takes this path: what fails here also fails in the workload.",
    fixes: &[
        Fix::problem(
            "no range reached the collector",
            "see the details (-v): a line of ld.so names a library that cannot be loaded; in a \
             sandbox or under sudo LD_PRELOAD is dropped: start stage2-launch inside of it",
        ),
        Fix::warning(
            "a binding is installed, and its range did not reach the collector",
            "update that package (torch, nvtx): it may be built without NVTX, or NVTX_DISABLE or \
             NVTX_INJECTION64_PATH is set",
        ),
        Fix::problem(
            "the interpreter ended with the collector preloaded",
            "run it without the collector; if it works there, please report it with the output of \
             `stage2-launch doctor -v`",
        ),
    ],
    explains: &[EmptyCause::NothingUsed],
};

/// Judges the library. `recorded`: the version in the trace file of the trial.
pub(super) fn collector(library: &Library, recorded: Option<&str>) -> Check {
    let Library::Found(path) = library else {
        return COLLECTOR.case(0, in_one_line(&library.problem()));
    };
    let own = env!("CARGO_PKG_VERSION");
    let path = path.display();
    match recorded {
        None => COLLECTOR.ok(format!("{path}; its version is not known: it left no trace file")),
        Some(version) if version == own => COLLECTOR.ok(format!("{path}, version {version}")),
        Some(version) => {
            let what = format!("{path} is version {version}, stage2-launch is version {own}");
            COLLECTOR.case(1, what)
        }
    }
}

pub(super) fn program(command: &[OsString], library: &Library) -> Check {
    let Some(word) = command.first() else {
        return PROGRAM.not_checked("no COMMAND was given: stage2-launch doctor -- COMMAND");
    };
    let path = match workload::find(word) {
        Ok(path) => path,
        Err(problem) => {
            let (what, why) = (&problem.finding.what, &problem.finding.why);
            let what = if why.is_empty() { what.clone() } else { format!("{what}: {why}") };
            let check = PROGRAM.case(0, what);
            return check
                .with([problem.finding.remedy].into_iter().filter(|text| !text.is_empty()));
        }
    };
    if let Some(script) = missing_script(command) {
        let what = format!("the script {script} does not exist");
        return PROGRAM.case(0, what);
    }
    let Library::Found(library) = library else {
        return PROGRAM.not_checked("there is no collector to compare its glibc with");
    };
    let loading = workload::loading(command, library);
    let Some(finding) = loading.finding else {
        return PROGRAM.ok(format!("{} can load the collector", path.display()));
    };
    let case = if loading.preload || loading.doors { 2 } else { 1 };
    debug_assert!(finding.severity >= Severity::Warning);
    PROGRAM.case(case, format!("{}: {}", finding.what, finding.why)).with([finding.remedy])
}

/// The script behind a Python, if it is not there.
fn missing_script(command: &[OsString]) -> Option<String> {
    let (program, words) = command.split_first()?;
    let is_python = is_python(program);
    // Options may have values: only a script right behind the program is told for certain.
    let script =
        words.first().filter(|word| is_python && !word.as_encoded_bytes().starts_with(b"-"))?;
    (!Path::new(script).exists()).then(|| visible_path(Path::new(script)))
}

pub(super) fn python(interpreter: Result<&Path, &str>, quick: &Result<Trial, NoTrial>) -> Check {
    let path = match interpreter {
        Ok(path) => path.display(),
        Err(why) => return PYTHON.not_checked(why),
    };
    match quick {
        Ok(Trial { said, .. }) => {
            let known = said.packages.iter();
            let known =
                known.filter_map(|(name, version)| Some(format!("{name} {}", version.as_ref()?)));
            let torch = said.torch_cuda.iter().map(|cuda| format!("torch for CUDA {cuda}"));
            let packages: Vec<String> = known.chain(torch).collect();
            let packages = match (&said.packages_unknown, packages.is_empty()) {
                (Some(why), _) => format!("its packages are not known ({why})"),
                (None, true) => "none of torch, nvtx, hydra-core, vllm, jax and cupy".to_owned(),
                (None, false) => packages.join(", "),
            };
            let warns = match warns_at_forks(&said.version) {
                true => {
                    "; its os.fork() will warn of a multi-threaded process: the collector has threads"
                }
                false => "",
            };
            PYTHON.ok(format!("{path}, Python {}: {packages}{warns}", said.version))
        }
        Err(NoTrial::NoAnswer(_, why @ NoAnswer::NotStarted(_))) => {
            PYTHON.case(0, format!("{path} {why}"))
        }
        Err(why) => PYTHON.not_checked(why.to_string()),
    }
}

/// Whether `os.fork()` warns where the process has a second thread: from 3.12.
fn warns_at_forks(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(3), Some(12))
}

/// Judges which bindings reached the collector.
pub(super) fn preload(
    quick: &Result<Trial, NoTrial>,
    torch: Option<&Result<Trial, NoTrial>>,
) -> Check {
    let first = match quick {
        Ok(trial) => trial,
        Err(why @ NoTrial::Ended(..)) => return PRELOAD.case(2, why.to_string()),
        Err(why) => return PRELOAD.not_checked(why.to_string()),
    };
    let second = torch.and_then(|torch| torch.as_ref().ok());
    let (mut reached, mut lost) = (Vec::new(), Vec::new());
    for trial in std::iter::once(first).chain(second) {
        for (name, problem) in &trial.said.bindings {
            let shown = label(name);
            match problem {
                Some(why) => lost.push(format!("{shown} ({why})")),
                None if trial.reached.contains(name) => reached.push(shown),
                None => lost.push(format!("{shown} (no range in the trace file)")),
            }
        }
    }
    let mut details = first.lines.clone();
    let more = second.into_iter().flat_map(|trial| &trial.lines);
    details.extend(more.filter(|line| !first.lines.contains(line)).cloned());
    if let Some(Err(why)) = torch {
        details.push(format!("torch.cuda.nvtx was not checked: {why}"));
    }
    details.extend(lost.iter().cloned());
    let lost = lost.join("; ");
    if reached.is_empty() {
        return PRELOAD
            .case(0, format!("no NVTX range reached the collector: {lost}"))
            .with(details);
    }
    let mut what = format!("ranges reach the collector by {}", reached.join(", "));
    if matches!(torch, Some(Err(_))) {
        what.push_str(
            "; torch.cuda.nvtx was not checked (importing torch took too long, or failed)",
        );
    }
    match lost.is_empty() {
        true => PRELOAD.ok(what).with(details),
        false => PRELOAD.case(1, format!("{what}, but not by {lost}")).with(details),
    }
}

fn label(binding: &str) -> &str {
    match binding {
        "torch" => "torch.cuda.nvtx",
        "nvtx" => "the package nvtx",
        _ => "NVTX itself",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn trial(bindings: &[(&str, Option<&str>)], reached: &[&str]) -> Result<Trial, NoTrial> {
        let mut trial = Trial::default();
        let bindings = bindings.iter();
        trial.said.bindings = bindings
            .map(|(name, why)| ((*name).to_owned(), why.map(str::to_owned)))
            .collect::<BTreeMap<_, _>>();
        trial.reached = reached.iter().map(|name| (*name).to_owned()).collect();
        Ok(trial)
    }

    #[test]
    fn pythons_whose_forks_warn_of_our_threads_are_known() {
        for (version, warns) in
            [("3.11.7", false), ("3.12.1", true), ("3.9.18", false), ("?", false)]
        {
            assert_eq!(warns_at_forks(version), warns, "{version}");
        }
    }

    #[test]
    fn a_range_counts_only_if_it_is_in_the_trace_file() {
        let both = trial(&[("bare", None), ("nvtx", None)], &["bare", "nvtx"]);
        assert_eq!(preload(&both, None).status, Status::Ok);
        let told = preload(&trial(&[("bare", None), ("nvtx", None)], &["bare"]), None);
        assert!(told.status == Status::Warning, "{told:?}");
        assert!(told.what.contains("not by the package nvtx"), "{told:?}");
        let none = trial(&[("bare", Some("the collector did not start"))], &[]);
        assert_eq!(preload(&none, None).status, Status::Problem);
        let late =
            Err(NoTrial::NoAnswer("python3".into(), NoAnswer::TooLate(Duration::from_secs(3))));
        let torch = preload(&both, Some(&late));
        assert!(torch.status == Status::Ok && torch.what.contains("was not checked"), "{torch:?}");
        let crashed = Err(NoTrial::Ended("python3".into(), "signal 11".into()));
        assert_eq!(preload(&crashed, None).status, Status::Problem);
        assert_eq!(preload(&late, None).status, Status::NotChecked);
    }

    #[test]
    fn the_library_and_the_program_are_judged() {
        let check = collector(&Library::Missing(vec!["/a/libstage2.so".into()]), None);
        assert!(check.status == Status::Problem, "{check:?}");
        assert!(check.what.contains("/a/libstage2.so"), "{check:?}");
        let found = Library::Found("/a/libstage2.so".into());
        assert_eq!(collector(&found, Some(env!("CARGO_PKG_VERSION"))).status, Status::Ok);
        assert_eq!(collector(&found, Some("0.0.1")).status, Status::Warning);
        assert_eq!(program(&[], &found).status, Status::NotChecked);
        let none = program(&["/no/such/program".into()], &found);
        assert!(none.status == Status::Problem, "{none:?}");
        assert!(none.what.contains("command not found"), "{none:?}");
        let own = Library::Found(std::env::current_exe().expect("path"));
        assert_eq!(program(&["sh".into()], &own).status, Status::Ok);
    }
}
