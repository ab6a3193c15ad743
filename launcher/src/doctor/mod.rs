//! A machine and a command -> what would keep a run from recording, and what to do about it.
//!
//! Each group of checks has a module; [`examine`] asks all programs at once, each with a time limit, and
//! judges what came. A check that cannot be made says why. [`explain`] makes those that may explain a
//! run without GPU work, and starts nothing for it.

mod check;
mod cupti;
mod cupti_candidates;
mod cupti_choice;
mod gpu;
mod machine;
#[cfg(test)]
mod page;
mod permissions;
mod profilers;
mod sampling;
mod system;
mod text;
mod tools;
mod trial;
mod workload;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::Serialize;
use stage2_model::EmptyCause;

use crate::env::{self, GpuFacts};
use crate::run::Library;
#[cfg(test)]
use check::Known;
pub(crate) use check::{Check, Status};
use stage2_read::threads::begin;
use system::System;
pub(crate) use text::show;
use trial::{NoTrial, Part, Trial};

/// Names the libcupti that the collector uses.
pub(crate) const CUPTI: &str = "STAGE2_CUPTI";
/// Version of the JSON of [`Diagnosis`].
const SCHEMA: u32 = 1;

/// What is examined.
#[derive(Debug)]
pub(crate) struct Subject {
    /// The command of the workload; may be empty.
    pub(crate) command: Vec<OsString>,
    /// The collector, as a run would look for it.
    pub(crate) library: Library,
    /// The libcupti that the configuration names; none: that of [`CUPTI`], or the best one found.
    pub(crate) cupti: Option<PathBuf>,
    /// Where runs are written.
    pub(crate) run_folder: PathBuf,
}

/// All checks: the JSON of `stage2-launch doctor --json`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Diagnosis {
    /// Version of this format: 1. Members may be added to it.
    schema: u32,
    stage2_version: &'static str,
    /// The worst of all checks; a check that was not made is no worse than `ok`.
    pub(crate) status: Status,
    pub(crate) problems: usize,
    pub(crate) warnings: usize,
    pub(crate) not_checked: usize,
    /// In the order of their groups.
    pub(crate) checks: Vec<Check>,
}

impl Diagnosis {
    fn of(mut checks: Vec<Check>) -> Diagnosis {
        checks.sort_by_key(|check| check.group);
        let count = |status| checks.iter().filter(|check| check.status == status).count();
        let (problems, warnings) = (count(Status::Problem), count(Status::Warning));
        Diagnosis {
            schema: SCHEMA,
            stage2_version: env!("CARGO_PKG_VERSION"),
            status: match (problems, warnings) {
                (0, 0) => Status::Ok,
                (0, _) => Status::Warning,
                _ => Status::Problem,
            },
            problems,
            warnings,
            not_checked: count(Status::NotChecked),
            checks,
        }
    }
}

/// Every check there is.
#[cfg(test)]
fn all_known() -> Vec<&'static Known> {
    let groups: [&[&'static Known]; 8] = [
        &gpu::ALL,
        &workload::ALL,
        &[&cupti::LIBCUPTI],
        &profilers::ALL,
        &permissions::ALL,
        &sampling::ALL,
        &tools::ALL,
        &machine::ALL,
    ];
    groups.concat()
}

/// Makes all checks; takes less than five seconds, whatever hangs. `nsight`: nsys and ncu as the
/// settings name them, words or paths.
pub(crate) fn examine(subject: &Subject, nsight: [&Path; 2]) -> Diagnosis {
    let system = System::this().with(CUPTI, subject.cupti.as_deref().map(Path::as_os_str));
    let interpreter = interpreter(&subject.command, &system);
    let collector = match &subject.library {
        Library::Found(path) => Some(path.as_path()),
        Library::Missing(_) | Library::Unusable(_) => None,
    };
    let try_part = |part| -> Result<Trial, NoTrial> {
        let none = |why: &str| NoTrial::Impossible(why.to_owned());
        let python = interpreter.as_deref().map_err(|why| none(why))?;
        let collector = collector.ok_or_else(|| none("there is no collector to preload"))?;
        trial::run(&system, python, collector, part)
    };
    // Before the checks start nsys and ncu themselves.
    let running = profilers::running(&system);
    std::thread::scope(|scope| {
        let system = &system;
        let gpu = begin(scope, || gpu::facts(system));
        let smi = begin(scope, || gpu::nvidia_smi(system));
        let tools = nsight.map(|tool| begin(scope, move || tools::ask(system, tool)));
        let quick = begin(scope, || try_part(Part::Quick));
        let torch = begin(scope, || try_part(Part::Torch));

        let lost = |what: &str| NoTrial::Impossible(format!("{what} failed; please report it"));
        let quick = quick.join().unwrap_or_else(|| Err(lost("the trial")));
        let torch = torch.join().unwrap_or_else(|| Err(lost("the trial of torch")));
        let gpu = gpu.join().unwrap_or_default();
        let cuda = gpu.cuda_driver.as_deref();
        let torch_cuda = quick.as_ref().ok().and_then(|trial| trial.said.torch_cuda.as_deref());
        // A child without torch has nothing to say about it.
        let torch = has_torch(&quick).then_some(&torch);
        let path = interpreter.as_deref().map_err(|why| *why);

        let mut checks = gpu::checks(system, &gpu);
        checks.push(gpu::runtime(&gpu, torch_cuda));
        checks.push(gpu::modes(&smi.join().unwrap_or_else(|| Err("nvidia-smi: not asked".into()))));
        let recorded = quick.as_ref().ok().and_then(|trial| trial.collector.as_deref());
        checks.push(workload::collector(&subject.library, recorded));
        checks.push(workload::program(&subject.command, &subject.library));
        checks.push(workload::python(path, &quick));
        checks.push(workload::preload(&quick, torch));
        checks.push(libcupti(system, path.ok(), &gpu, &quick, torch));
        checks.push(profilers::injection(system, collector));
        let permissions = permissions::checks(system);
        let installed = cupti_candidates::installed(system, path.ok(), cuda_major(&gpu));
        checks.push(sampling::check(system, &installed, &permissions, &running));
        checks.extend(running);
        checks.extend(permissions);
        for (known, asked) in [&tools::NSYS, &tools::NCU].into_iter().zip(tools) {
            let asked = asked.join().unwrap_or(tools::Asked::Failed("it was not asked".into()));
            checks.push(tools::check(known, &asked, cuda));
        }
        checks.push(machine::container(system));
        checks.push(machine::shared_memory(system));
        checks.push(machine::run_folder(&subject.run_folder));
        Diagnosis::of(checks)
    })
}

fn cuda_major(gpu: &GpuFacts) -> Option<u32> {
    gpu.cuda_driver.as_deref()?.split('.').next()?.parse().ok()
}

/// What would keep a run of `command` from sampling counters; starts no program. `cupti`: what the run
/// sets [`CUPTI`] to; none: it leaves the variable as it is.
pub(crate) fn cannot_sample(command: &[OsString], cupti: Option<&OsStr>) -> Option<Check> {
    let system = System::this().with(CUPTI, cupti);
    let installed =
        cupti_candidates::installed(&system, interpreter(command, &system).ok().as_deref(), None);
    let running = profilers::running(&system);
    let check = sampling::check(&system, &installed, &permissions::checks(&system), &running);
    check.is_bad().then_some(check)
}

fn libcupti(
    system: &System,
    interpreter: Option<&Path>,
    gpu: &GpuFacts,
    quick: &Result<Trial, NoTrial>,
    torch: Option<&Result<Trial, NoTrial>>,
) -> Check {
    let cuda = gpu.cuda_driver.as_deref();
    let installed = cupti_candidates::installed(system, interpreter, cuda_major(gpu));
    // A process with torch has torch's libcupti in it already, which comes first.
    let is_tried =
        |trial: &&Trial| ["cupti.path", "gpu.off"].iter().any(|key| trial.facts.contains_key(*key));
    let tried = torch.and_then(|torch| torch.as_ref().ok()).filter(is_tried).map(Ok);
    let tried = tried.unwrap_or_else(|| quick.as_ref().map_err(ToString::to_string));
    let torch_cuda = quick.as_ref().ok().and_then(|trial| trial.said.torch_cuda.as_deref());
    cupti::check(&installed, asked(system).as_deref(), tried, cuda, torch_cuda)
}

/// What [`CUPTI`] says.
fn asked(system: &System) -> Option<PathBuf> {
    system.variable(CUPTI).map(PathBuf::from)
}

fn has_torch(quick: &Result<Trial, NoTrial>) -> bool {
    quick.as_ref().is_ok_and(|trial| trial.said.packages.contains_key("torch"))
}

/// The Python of the command; without a command, or where it names none, the one on PATH.
fn interpreter(command: &[OsString], system: &System) -> Result<PathBuf, &'static str> {
    let named = env::interpreter_of(command);
    let word = named.as_deref().unwrap_or(OsStr::new("python3"));
    if word.as_encoded_bytes().contains(&b'/') {
        return std::path::absolute(word).map_err(|_| "the working directory is gone");
    }
    let word = word.to_str().ok_or("the name of the interpreter is no UTF-8")?;
    system.on_path(word).ok_or("there is no python3 on PATH, and COMMAND names no Python")
}

/// What may explain a run without GPU work of these causes: warnings and problems of the checks that
/// start no program. `gpu` is what the run knew already.
pub(crate) fn explain(subject: &Subject, gpu: &GpuFacts, causes: &[EmptyCause]) -> Vec<Check> {
    let system = System::this().with(CUPTI, subject.cupti.as_deref().map(Path::as_os_str));
    let collector = match &subject.library {
        Library::Found(path) => Some(path.as_path()),
        Library::Missing(_) | Library::Unusable(_) => None,
    };
    let interpreter = interpreter(&subject.command, &system).ok();
    let cuda = gpu.cuda_driver.as_deref();
    let major = cuda.and_then(|cuda| cuda.split('.').next()?.parse().ok());
    let installed = cupti_candidates::installed(&system, interpreter.as_deref(), major);
    let untried = Err("the collector was not tried again".to_owned());
    let mut checks = gpu::checks(&system, gpu);
    checks.push(workload::program(&subject.command, &subject.library));
    checks.push(cupti::check(&installed, asked(&system).as_deref(), untried, cuda, None));
    checks.push(profilers::injection(&system, collector));
    fitting(checks, causes)
}

fn fitting(checks: Vec<Check>, causes: &[EmptyCause]) -> Vec<Check> {
    let fits =
        |check: &Check| check.is_bad() && check.explains.iter().any(|cause| causes.contains(cause));
    checks.into_iter().filter(fits).collect()
}

#[cfg(test)]
mod tests;
