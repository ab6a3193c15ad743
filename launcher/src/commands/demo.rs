//! `stage2-launch demo` -> the built-in workload as a job: on the GPU, or on the simulated one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::run::{Job, ask_dormant};
use crate::bundle::DEMO;
use crate::cli::{self, DemoArgs, OF_DEMO, RunOptions};
use crate::config;
use crate::env::probe_gpu;
use crate::failure::Failure;
use crate::install::{self, HOW_TO_INSTALL};
use crate::terminal::{Terminal, printable};
use stage2_contract::text::visible_path;
use stage2_model::finding::Id;

const SIMULATOR: &str = "libstage2_sim.so";

pub(crate) fn demo(args: DemoArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let DemoArgs { options, of_demo } = args;
    const ONLY_PRINT: [&str; 4] = ["--help", "-h", "--version", "-V"];
    if let Some(word) = ONLY_PRINT.iter().find(|only| of_demo.iter().any(|word| word == **only)) {
        return print(word);
    }
    let mut config = options.request();
    let behind = of_demo.iter().map(|word| word.to_string_lossy().into_owned());
    let settings = config.overrides.iter().filter(|word| cli::is_of_demo(word));
    let behind = behind.filter(|word| cli::is_setting(word) && !word.starts_with('-'));
    if let Some(word) = settings.cloned().chain(behind).next() {
        return Err(Failure::Usage(format!("`{word}` is not a setting; {OF_DEMO}")));
    }
    let dormant = ask_dormant(false, &mut config)?;
    // What is typed wrong is said before a GPU or a file is looked for.
    config::compose(&config)?;
    let RunOptions { settings, dry_run, acceptance, keep_going, showing, .. } = options;
    let exe = this_program()?;
    terminal.progress("looking for a GPU");
    let gpu = probe_gpu();
    let asked = value_of("--device", &of_demo);
    let is_asked = asked.is_some_and(|device| device == "simulated");
    let simulated = gpu.devices.is_empty() || is_asked;
    let why = gpu.absent.as_deref().unwrap_or("there is no other");
    if value_of("--sim", &of_demo).is_some() {
        let text = "`--sim` is for stage2-demo alone: `stage2-launch demo` records the simulated GPU next to it";
        return Err(Failure::Usage(text.into()));
    }
    if simulated && asked.is_some_and(|device| device == "gpu") {
        return Err(Failure::Usage(format!(
            "`--device gpu`: there is no GPU ({why}); without that option, the demo simulates one"
        )));
    }
    let workload = required(&exe, DEMO, dry_run, terminal)?;
    if !of_demo.is_empty() && !dry_run {
        check_options(&workload, &of_demo)?;
    }
    let simulator = simulated.then(|| required(&exe, SIMULATOR, dry_run, terminal)).transpose()?;
    terminal.progress(&match gpu.devices.first() {
        Some(_) if is_asked => "the demo replays recorded GPU work".to_owned(),
        Some(device) => format!("the demo runs on {}", device.name),
        None => format!("no GPU ({why}): the demo replays recorded GPU work"),
    });
    match simulated {
        true => config.overrides = replayed(&config),
        false => terminal.progress(
            "the demo's kernels on a GPU are not those of a model, so that there is no floor",
        ),
    }
    let job = Job {
        command: command(workload, simulator.as_deref(), of_demo),
        config,
        run_dir: settings.run_dir,
        dry_run,
        dormant,
        simulator,
        gpu: Some(gpu),
        keep_going,
        acceptance,
        showing,
        ..Job::default()
    };
    job.launch(terminal)
}

/// Refuses what the built-in workload would refuse, before there is a run of it.
fn check_options(workload: &Path, of_demo: &[OsString]) -> Result<(), Failure> {
    // Behind a `--` it would be no option.
    let options = of_demo.iter().take_while(|word| *word != "--");
    let asked = Command::new(workload).args(options).arg("--help").output();
    // What else goes wrong, the run says.
    let Some(said) = asked.ok().filter(|said| said.status.code() == Some(2)) else { return Ok(()) };
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let lines = said.lines().map(str::trim).take_while(|line| !line.starts_with("Usage"));
    let lines = lines.filter(|line| !line.starts_with("For more information"));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let text = lines.join("; ").replacen("error: ", "", 1).replace('\'', "`");
    let text = cli::in_words(&text);
    let (text, see) = match text.split_once("; tip: a similar argument exists: ") {
        Some((text, meant)) => (text, format!("; did you mean `{}`?", meant.trim_matches('`'))),
        None => (text.as_str(), "; see `stage2-launch demo -- --help`".to_owned()),
    };
    if text.starts_with("unexpected argument") && !text.contains("`-") {
        return Err(Failure::Usage(format!(
            "the demo has its own workload, and takes options only: {}; stage2-launch run -- COMMAND profiles a command \
             of yours{}",
            printable(text),
            printable(&see)
        )));
    }
    Err(Failure::Usage(format!("{}{}", printable(text), printable(&see))))
}

/// The value of an option of the built-in workload: the last one counts.
fn value_of<'w>(option: &str, words: &'w [OsString]) -> Option<&'w str> {
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let value = |at: usize| match words.get(at)?.strip_prefix(option)? {
        "" => words.get(at + 1).copied(),
        more => more.strip_prefix('='),
    };
    (0..words.len()).rev().find_map(value)
}

/// Has the built-in workload print its own options, or its version; there is nothing to record in that.
fn print(option: &str) -> Result<u8, Failure> {
    let workload = install::find(&this_program()?, DEMO)
        .map_err(|_| Failure::NoResult(format!("{DEMO} was not found; {HOW_TO_INSTALL}")))?;
    let ended = Command::new(&workload).arg(option).status();
    ended.map(|_| 0).map_err(|error| {
        Failure::NoResult(format!("{} cannot be started: {error}", visible_path(&workload)))
    })
}

fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|e| Failure::NoResult(format!("this program does not find itself: {e}")))
}

/// What the simulated GPU replays: one sequence of this model on this GPU, with decode steps as ranges. It has its own
/// counters, and other profilers do not see it. It takes half a second, in which only many samples tell
/// what the host did. What the user sets wins.
const REPLAYED: [&str; 7] = [
    "model/llm=llama_1b_random",
    "hardware=h200",
    "model.tokens.batch_size=1",
    "model.tokens.prompt_tokens=512",
    "run.mode=light",
    "profiling.collector.counters=on",
    "profiling.collector.host=1000",
];

/// The overrides of the user behind those of [`REPLAYED`] that the user does not set.
fn replayed(request: &config::Request) -> Vec<String> {
    let by_option = |key: &str| request.switches.iter().any(|(switched, ..)| *switched == key);
    let is_set = |setting: &str| {
        let key = key_of(setting);
        by_option(key) || request.overrides.iter().any(|set| key_of(set) == key)
    };
    let own = REPLAYED.iter().filter(|setting| !is_set(setting)).map(|s| (*s).to_owned());
    own.chain(request.overrides.iter().cloned()).collect()
}

fn key_of(setting: &str) -> &str {
    setting.split('=').next().unwrap_or_default().trim_start_matches(['+', '~'])
}

fn command(workload: PathBuf, simulator: Option<&Path>, more: Vec<OsString>) -> Vec<OsString> {
    let mut command: Vec<OsString> = vec![workload.into(), "--device".into()];
    match simulator {
        None => command.push("gpu".into()),
        Some(simulator) => command.extend(["simulated".into(), "--sim".into(), simulator.into()]),
    }
    // The report is what the demo shows.
    command.extend(["--sync".into(), "--quiet".into()]);
    command.extend(more);
    command
}

/// A file of the demo, which has to be there unless nothing is run.
fn required(
    exe: &Path,
    name: &str,
    dry_run: bool,
    terminal: &Terminal,
) -> Result<PathBuf, Failure> {
    let mut places = match install::find(exe, name) {
        Ok(found) => return Ok(found),
        Err(places) => places,
    };
    let text = format!("{name} was not found at{}", install::listed(&places));
    if !dry_run {
        return Err(Failure::NoResult(format!("{text}; {HOW_TO_INSTALL}")));
    }
    terminal.finding(&Id::RunWouldFail.found("a run would fail", text, HOW_TO_INSTALL));
    Ok(places.swap_remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_knows_its_model_unless_the_user_does() {
        let user = ["model/llm=none", "run.mode=deep"];
        let overrides = user.map(str::to_owned).to_vec();
        let request = config::Request { overrides, ..config::Request::default() };
        assert_eq!(replayed(&request), [&REPLAYED[1..4], &REPLAYED[5..], &user].concat());
        let deep = stage2_config::hydra::Value::Text("deep".to_owned());
        let switches = vec![("run.mode", "--deep".to_owned(), deep)];
        let request = config::Request { switches, ..config::Request::default() };
        assert_eq!(replayed(&request), [&REPLAYED[..4], &REPLAYED[5..]].concat());
    }

    #[test]
    fn the_workload_is_told_its_device() {
        assert_eq!(
            command("/b/stage2-demo".into(), None, vec!["--steps".into(), "9".into()]),
            ["/b/stage2-demo", "--device", "gpu", "--sync", "--quiet", "--steps", "9"]
        );
        let simulator = Path::new("/b/libstage2_sim.so");
        let simulated = command("/b/stage2-demo".into(), Some(simulator), Vec::new());
        assert_eq!(
            simulated[2..],
            ["simulated", "--sim", "/b/libstage2_sim.so", "--sync", "--quiet"]
        );
    }
}
