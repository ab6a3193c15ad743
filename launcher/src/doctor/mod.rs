//! A machine and a command -> what would keep a run from recording, and what to do about it.
//!
//! Each group of checks has a module; [`examine`] asks all programs at once, each with a time limit, and
//! judges what came. A check that cannot be made states why. [`explain`] makes those that may explain a
//! run without GPU work, and starts nothing for it.

mod check;
mod cupti;
mod gpu;
mod machine;
mod permissions;
mod profilers;
#[cfg(test)]
mod testing;
mod tools;
mod trial;
mod workload;

pub(crate) use check::{Check, Status};

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use check::{System, major};
use serde::Serialize;
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::counted;
use stage2_contract::text::wrapped;
use stage2_model::EmptyCause;
use stage2_read::threads::begin;
use trial::{NoTrial, Part, Trial};

use crate::cli::DoctorArgs;
use crate::commands::ending::printed;
use crate::commands::run::working_dir;
use crate::config::{self, Pipeline, Request};
use crate::env::{self, GpuFacts};
use crate::failure::Failure;
use crate::run::{self, Library};
use crate::terminal::{Terminal, Verbosity, width};

/// The exit status where a check found a problem.
const EXIT_PROBLEM: u8 = 1;

pub(crate) fn doctor(
    args: DoctorArgs,
    verbosity: Verbosity,
    terminal: &Terminal,
) -> Result<u8, Failure> {
    let composed =
        config::compose(&Request { no_workload: false, ..args.presets.request(args.overrides) })?;
    let config = composed.resolved(Path::new("RUN_DIR"))?.1;
    let configured = config.profiling.collector.library.as_deref();
    let Pipeline { nsys, ncu } = &config.pipeline;
    let run_dir = args.run_dir.or(composed.run_dir()?);
    let library = std::env::var_os("STAGE2_COLLECTOR").map(PathBuf::from);
    let exe = std::env::current_exe().unwrap_or_default();
    let subject = Subject {
        command: args.workload,
        library: run::find_library(configured, library.as_deref(), &exe),
        cupti: config.profiling.collector.cupti.clone(),
        names_folder: run_dir.is_some(),
        run_folder: match run_dir {
            Some(dir) => working_dir()?.join(dir),
            None => working_dir()?.join(&config.artifacts.stage2_dir),
        },
    };
    terminal.progress("checking this machine; this takes up to five seconds");
    let diagnosis = examine(&subject, [&nsys.executable, &ncu.executable]);
    let text = if args.json {
        let json = serde_json::to_string_pretty(&diagnosis);
        json.map_err(|e| Failure::NoResult(format!("the result is not JSON: {e}")))? + "\n"
    } else {
        let width = width(&std::io::stdout()).unwrap_or(usize::MAX);
        match verbosity {
            Verbosity::Verbose => show_all(&diagnosis, width),
            _ => show(&diagnosis, width),
        }
    };
    printed(&text)?;
    Ok(if diagnosis.status == Status::Problem { EXIT_PROBLEM } else { 0 })
}

/// Names the libcupti that the collector uses.
pub(crate) const CUPTI: &str = "STAGE2_CUPTI";
/// Version of the JSON of [`Diagnosis`].
pub(crate) const SCHEMA: u32 = 1;

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
    /// The user named it, for one run.
    pub(crate) names_folder: bool,
}

impl Subject {
    /// This machine, with the libcupti that the configuration names.
    fn system(&self) -> System {
        System::this().with(CUPTI, self.cupti.as_deref().map(Path::as_os_str))
    }

    fn collector(&self) -> Option<&Path> {
        match &self.library {
            Library::Found(path) => Some(path),
            Library::Missing(_) | Library::Unusable(_) => None,
        }
    }
}

/// All checks: the JSON of `stage2-launch doctor --json`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Diagnosis {
    /// Version of this format: 1. Members may be added to it.
    schema: u32,
    stage2_version: &'static str,
    /// The worst of all checks; a check that was not made counts as `ok`.
    pub(crate) status: Status,
    pub(crate) problems: usize,
    pub(crate) warnings: usize,
    pub(crate) not_checked: usize,
    /// In the order of their groups.
    pub(crate) checks: Vec<Check>,
}

impl Diagnosis {
    fn of(mut checks: Vec<Check>) -> Diagnosis {
        checks.order_by_key(|check| check.group);
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

/// Makes all checks; takes less than five seconds, whatever hangs. `nsight`: nsys and ncu as the
/// settings name them, words or paths.
pub(crate) fn examine(subject: &Subject, nsight: [&Path; 2]) -> Diagnosis {
    let system = subject.system();
    let interpreter = interpreter(&subject.command, &system);
    let collector = subject.collector();
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
        let gpu = begin(scope, || gpu::ask_driver(system));
        let smi = begin(scope, || gpu::nvidia_smi(system));
        let tools = nsight.map(|tool| begin(scope, move || tools::ask(system, tool)));
        let quick = begin(scope, || try_part(Part::Quick));
        let torch = begin(scope, || try_part(Part::Torch));

        let lost = |what: &str| NoTrial::Impossible(format!("{what} failed; please report it"));
        let quick = quick.join().unwrap_or_else(|| Err(lost("the trial")));
        let torch = torch.join().unwrap_or_else(|| Err(lost("the trial of torch")));
        let gpu = gpu.join().unwrap_or_default();
        let cuda = gpu.cuda_driver.as_deref();
        let ran = quick.as_ref().ok();
        let torch_cuda = ran.and_then(|trial| trial.said.torch_cuda.as_deref());
        // A child without torch has nothing to say about it.
        let has_torch = ran.is_some_and(|trial| trial.said.packages.contains_key("torch"));
        let torch = has_torch.then_some(&torch);
        let path = interpreter.as_deref().map_err(|why| *why);
        let installed = cupti::installed(system, path.ok(), cuda.and_then(major));

        let mut checks = gpu::checks(system, &gpu);
        checks.push(gpu::runtime(&gpu, torch_cuda));
        checks.push(gpu::modes(&smi.join().unwrap_or_else(|| Err("nvidia-smi: not asked".into()))));
        let recorded = ran.and_then(|trial| trial.collector.as_deref());
        checks.push(workload::collector(&subject.library, recorded));
        checks.push(workload::program(&subject.command, &subject.library));
        checks.push(workload::python(path, &quick));
        checks.push(workload::preload(&quick, torch));
        let (asked, tried) = (asked(system), nearest_trial(&quick, torch));
        checks.push(cupti::check(&installed, asked, tried, cuda, torch_cuda));
        checks.push(profilers::injection(system, collector));
        let permissions = permissions::checks(system);
        checks.push(permissions::sampling(system, &installed, &permissions, &running));
        checks.extend(running);
        checks.extend(permissions);
        for (known, asked) in [&tools::NSYS, &tools::NCU].into_iter().zip(tools) {
            let asked =
                asked.join().unwrap_or(tools::ToolAnswer::Failed("it was not asked".into()));
            checks.push(tools::check(known, &asked, cuda));
        }
        checks.push(machine::container(system));
        checks.push(machine::shared_memory(system));
        checks.push(match subject.names_folder {
            true => machine::named_folder(&subject.run_folder),
            false => machine::run_folder(&subject.run_folder),
        });
        Diagnosis::of(checks)
    })
}

/// What would keep a run of `command` from sampling counters; starts no program. `cupti`: what the run
/// sets [`CUPTI`] to; none: it leaves the variable as it is.
pub(crate) fn cannot_sample(command: &[OsString], cupti: Option<&OsStr>) -> Option<Check> {
    let system = System::this().with(CUPTI, cupti);
    let installed = cupti::installed(&system, interpreter(command, &system).ok().as_deref(), None);
    let running = profilers::running(&system);
    let check = permissions::sampling(&system, &installed, &permissions::checks(&system), &running);
    check.is_bad().then_some(check)
}

/// The trial that is most like the workload: a process with torch has torch's libcupti in it already, which
/// comes first.
fn nearest_trial<'t>(
    quick: &'t Result<Trial, NoTrial>,
    torch: Option<&'t Result<Trial, NoTrial>>,
) -> Result<&'t Trial, String> {
    let is_tried = |trial: &&Trial| {
        trial.meta.contains_key("cupti.path") || trial.meta.contains_key("gpu.off")
    };
    match torch.and_then(|torch| torch.as_ref().ok()).filter(is_tried) {
        Some(trial) => Ok(trial),
        None => quick.as_ref().map_err(ToString::to_string),
    }
}

/// What [`CUPTI`] says.
fn asked(system: &System) -> Option<&Path> {
    system.variable(CUPTI).map(Path::new)
}

/// The Python of the command; without a command, or where it names none, the one on PATH.
fn interpreter(command: &[OsString], system: &System) -> Result<PathBuf, &'static str> {
    let named = env::interpreter_of(command);
    let word = named.as_deref().unwrap_or(OsStr::new("python3"));
    if word.as_encoded_bytes().contains(&b'/') {
        return std::path::absolute(word).map_err(|_| "the working directory is gone");
    }
    let word = word.to_str().ok_or("the name of the interpreter is not UTF-8")?;
    system.on_path(word).ok_or("there is no python3 on PATH, and COMMAND names no Python")
}

/// What may explain a run without GPU work of these causes: warnings and problems of the checks that
/// start no program. `gpu` is what the run knew already.
pub(crate) fn explain(subject: &Subject, gpu: &GpuFacts, causes: &[EmptyCause]) -> Vec<Check> {
    let system = subject.system();
    let interpreter = interpreter(&subject.command, &system).ok();
    let cuda = gpu.cuda_driver.as_deref();
    let installed = cupti::installed(&system, interpreter.as_deref(), cuda.and_then(major));
    let untried = Err("the collector was not tried again".to_owned());
    let mut checks = gpu::checks(&system, gpu);
    checks.push(workload::program(&subject.command, &subject.library));
    checks.push(cupti::check(&installed, asked(&system), untried, cuda, None));
    checks.push(profilers::injection(&system, subject.collector()));
    fitting(checks, causes)
}

fn fitting(checks: Vec<Check>, causes: &[EmptyCause]) -> Vec<Check> {
    let fits =
        |check: &Check| check.is_bad() && check.explains.iter().any(|cause| causes.contains(cause));
    checks.into_iter().filter(fits).collect()
}

/// The columns where texts of checks begin: with `-v`, and without it.
const TEXT_COLUMN: usize = 34;
const SHORT_COLUMN: usize = 13;

/// The checks in lines of a width: what asks for something comes last, where a screen shows it; of others, each group has
/// a line with their names.
fn show(diagnosis: &Diagnosis, width: usize) -> String {
    let mut text = String::new();
    let room = width.saturating_sub(SHORT_COLUMN).max(20);
    let mut row = |status: Status, texts: &[String]| {
        let style = style(status);
        let mut word = status.word();
        for line in texts.iter().flat_map(|text| wrapped(text, room)) {
            let _ = writeln!(text, "{style}{word:<11}{style:#}  {line}");
            word = "";
        }
    };
    let of = |status| diagnosis.checks.iter().filter(move |check| check.status == status);
    for status in [Status::Ok, Status::NotChecked] {
        for group in of(status).collect::<Vec<_>>().chunk_by(|one, next| one.group == next.group) {
            let names: Vec<_> = group.iter().map(|check| check.id).collect();
            let title = group.first().map(|check| check.group.title()).unwrap_or_default();
            row(status, &[format!("{title}: {}", names.join(", "))]);
        }
    }
    for check in of(Status::Warning).chain(of(Status::Problem)) {
        let what = format!("{}: {}", check.id, check.what);
        row(check.status, &[what, format!("to do: {}", check.fix.unwrap_or_default())]);
    }
    let _ = writeln!(text, "\n{}", wrapped(&summary(diagnosis), width).join("\n"));
    text
}

/// The checks by group, each with what to do and what it follows from below it, in lines of a width.
fn show_all(diagnosis: &Diagnosis, width: usize) -> String {
    let mut text = String::new();
    let mut before: Option<&Check> = None;
    let room = width.saturating_sub(TEXT_COLUMN).max(20);
    let below = format!("{:TEXT_COLUMN$}", "");
    let in_room = |words: &str| wrapped(words, room).join(&format!("\n{below}"));
    for check in &diagnosis.checks {
        if before.is_none_or(|before| before.group != check.group) {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{}", check.group.title());
        }
        let style = style(check.status);
        let word = check.status.word();
        let what = in_room(&check.what);
        let _ = writeln!(text, "  {style}{word:<11}{style:#}  {:<17}  {what}", check.id);
        let fix = check.fix.map(|fix| format!("to do: {fix}"));
        let why = check.is_bad().then(|| format!("why: {}", check.why));
        for line in fix.iter().chain(&why).chain(&check.details) {
            let _ = writeln!(text, "{below}{}", in_room(line));
        }
        before = Some(check);
    }
    let _ = writeln!(text, "\n{}", wrapped(&summary(diagnosis), width).join("\n"));
    text
}

fn summary(diagnosis: &Diagnosis) -> String {
    let Diagnosis { problems, warnings, not_checked, checks, .. } = diagnosis;
    // The checks may have scrolled away.
    let of = |status, number: usize, noun| {
        let names = checks.iter().filter(|check| check.status == status).map(|check| check.id);
        let names = names.collect::<Vec<_>>().join(", ");
        let names = if names.is_empty() { names } else { format!(" ({names})") };
        format!("{}{names}", counted(number as u64, noun))
    };
    let found = of(Status::Problem, *problems, "problem");
    let (warned, checks) = (of(Status::Warning, *warnings, "warning"), checks.len());
    let why = if *not_checked > 0 { " (-v shows why)" } else { "" };
    let all = format!("{found}, {warned}, {not_checked} not checked{why}, of {checks} checks");
    // What was not checked may still keep a run from recording.
    let free = match not_checked {
        0 => "A run can record here",
        _ => "Nothing that was checked keeps a run from recording here",
    };
    match (problems, warnings) {
        (0, 0) => format!("{all}. {free}."),
        (0, _) => format!("{all}. {free}; the warnings cost parts of its results."),
        _ => format!("{all}. A run would record nothing, or too little: solve the problems first."),
    }
}

fn style(status: Status) -> Style {
    match status {
        Status::Ok => AnsiColor::Green.on_default(),
        Status::NotChecked => Style::new().dimmed(),
        Status::Warning => AnsiColor::Yellow.on_default(),
        Status::Problem => AnsiColor::Red.on_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::check::{CheckInfo, Fix, Group};

    use super::*;

    const KNOWN: CheckInfo =
        CheckInfo { id: "x", group: Group::Gpu, looks_at: "", why: "", fixes: &[], explains: &[] };

    /// Every check there is.
    fn all_known() -> [&'static CheckInfo; 21] {
        [
            &gpu::DRIVER,
            &gpu::DEVICES,
            &gpu::RUNTIME,
            &gpu::MODES,
            &workload::COLLECTOR,
            &workload::PROGRAM,
            &workload::PYTHON,
            &workload::PRELOAD,
            &cupti::LIBCUPTI,
            &profilers::INJECTION,
            &profilers::RUNNING,
            &profilers::MPS,
            &permissions::COUNTERS,
            &permissions::PERF,
            &permissions::PTRACE,
            &permissions::SAMPLING,
            &tools::NSYS,
            &tools::NCU,
            &machine::CONTAINER,
            &machine::SHARED_MEMORY,
            &machine::RUN_FOLDER,
        ]
    }

    #[test]
    fn what_was_not_checked_is_not_called_fine() {
        let fine = Diagnosis::of(vec![KNOWN.ok("fine")]);
        assert!(summary(&fine).ends_with("A run can record here."), "{}", summary(&fine));
        let open = Diagnosis::of(vec![KNOWN.ok("fine"), KNOWN.not_checked("no answer")]);
        assert!(summary(&open).contains("Nothing that was checked"), "{}", summary(&open));
    }

    #[test]
    fn every_check_has_a_name_of_its_own_and_only_bad_fixes() {
        let known = all_known();
        let names: std::collections::BTreeSet<_> = known.iter().map(|known| known.id).collect();
        assert_eq!(names.len(), known.len());
        for known in known {
            let bad = |fix: &Fix| matches!(fix.status, Status::Warning | Status::Problem);
            assert!(known.fixes.iter().all(bad), "{}", known.id);
            assert!(!known.looks_at.contains("  ") && !known.why.contains("  "), "{}", known.id);
        }
    }

    #[test]
    fn the_worst_check_decides_and_unmade_ones_do_not() {
        let of = |checks: Vec<Check>| Diagnosis::of(checks).status;
        let (driver, nsys) = (&gpu::DRIVER, &tools::NSYS);
        assert_eq!(of(vec![driver.ok("x"), nsys.not_checked("y")]), Status::Ok);
        assert_eq!(of(vec![driver.ok("x"), nsys.case(0, "y")]), Status::Warning);
        let both = Diagnosis::of(vec![nsys.case(0, "y"), driver.case(0, "\u{1b}[2J")]);
        assert_eq!((both.status, both.problems, both.warnings), (Status::Problem, 1, 1));
        assert_eq!(both.checks[0].group, Group::Gpu, "in the order of the groups");
        let shown = anstream::adapter::strip_str(&show(&both, 200)).to_string();
        assert!(shown.contains("to do: install NVIDIA's driver"), "{shown}");
        assert!(shown.contains("\\x1b[2J"), "{shown}");
        let problem = shown.find("problem      driver: ").expect("a problem");
        assert!(shown.find("warning      nsys: y").expect("a warning") < problem, "{shown}");
        assert!(shown.contains("pipeline.nsys.executable") && !shown.contains("ncu"), "{shown}");
        assert!(
            shown.contains("1 problem (driver), 1 warning (nsys), 0 not checked, of 2 checks"),
            "{shown}"
        );
    }

    #[test]
    fn what_asks_for_nothing_is_a_line_of_names_in_each_group() {
        let ok =
            [&gpu::DRIVER, &workload::PYTHON, &workload::PRELOAD].map(|known| known.ok("fine"));
        let open = [workload::PROGRAM.not_checked("no COMMAND")];
        let all = Diagnosis::of(ok.into_iter().chain(open).collect());
        let shown = anstream::adapter::strip_str(&show(&all, 80)).to_string();
        let lines: Vec<&str> = shown.lines().take(4).collect();
        assert_eq!(
            lines,
            [
                "ok           GPU: driver",
                "ok           Collector and workload: python, nvtx",
                "not checked  Collector and workload: program",
                ""
            ]
        );
        assert!(shown.contains("1 not checked (-v shows why)"), "{shown}");
        assert!(show_all(&all, 80).contains("no COMMAND"));
    }

    #[test]
    fn only_what_fits_the_cause_explains_an_empty_run() {
        let checks = || {
            vec![
                gpu::DRIVER.case(0, "no driver"),
                profilers::INJECTION.case(0, "another tool"),
                gpu::DEVICES.not_checked("x"),
                tools::NSYS.case(0, "missing"),
            ]
        };
        let ids = |causes: &[EmptyCause]| -> Vec<_> {
            fitting(checks(), causes).iter().map(|check| check.id).collect()
        };
        assert_eq!(ids(&[EmptyCause::NoGpu]), ["driver"]);
        assert_eq!(ids(&[EmptyCause::NothingUsed]), ["injection"]);
        assert_eq!(ids(&[EmptyCause::CuptiOff]), ["driver", "injection"]);
        assert_eq!(ids(&[EmptyCause::RangesNeverOpened]), [""; 0]);
    }

    /// Stands before the list in the page, and behind it.
    const MARKS: [&str; 2] = ["<!-- checks: written by a test -->\n", "<!-- end of checks -->\n"];

    fn list() -> String {
        let mut text = String::new();
        let mut group = None;
        for known in all_known() {
            if group.replace(known.group) != Some(known.group) {
                text.push_str(&format!("\n## {}\n", known.group.title()));
            }
            text.push_str(&format!(
                "### `{}`\n**Looks at:** {}\n\n**Why it matters:** {}\n",
                known.id, known.looks_at, known.why
            ));
            if known.fixes.is_empty() {
                text.push_str("\nIt informs only: nothing has to be done.\n");
            } else {
                text.push_str("\n| case | result | what to do |\n|---|---|---|\n");
            }
            for fix in known.fixes {
                let word = if fix.status == Status::Problem { "problem" } else { "warning" };
                text.push_str(&format!(
                    "| {} | {word} | {} |\n",
                    fix.when,
                    fix.text.replace('|', "\\|")
                ));
            }
            text.push('\n');
        }
        text
    }

    #[test]
    fn the_page_has_the_texts_of_the_program() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/doctor.md");
        let page = std::fs::read_to_string(path).expect("docs/doctor.md");
        let (head, rest) = page.split_once(MARKS[0]).expect("the first mark");
        let (_, tail) = rest.split_once(MARKS[1]).expect("the second mark");
        let wanted = format!("{head}{}{}{}{tail}", MARKS[0], list(), MARKS[1]);
        if std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
            std::fs::write(path, &wanted).expect("docs/doctor.md");
        } else {
            snapbox::assert_data_eq!(page, snapbox::data::Data::text(wanted).raw());
        }
    }
}
