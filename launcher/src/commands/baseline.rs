//! Named reports that later runs are compared with: `baseline save NAME RUN`, and `diff baseline:NAME RUN`.
//!
//! A baseline is a folder of reports (`1.json`, `2.json`, ...) next to the folders of the runs. Nothing else of a
//! run is kept: a report is all that `diff` reads, and bundles may be deleted to make room.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use stage2_contract::text::numbers::counted;
use stage2_contract::text::{instead, listed, shorten, shorten_words, visible, visible_path};
use stage2_model::{Report, Status};
use stage2_read::files::without_its_name;

use super::diff::{identity, metrics_of, refuse_twice, report_of};
use super::ending::printed;
use crate::bundle::{FOLDER_OF_RUNS, LATEST, OF_BASELINES, RUN_JSON, run_named};
use crate::cli::{BaselineArgs, BaselineVerb};
use crate::failure::Failure;
use crate::terminal::{Terminal, width};

/// In addition to the runs of the default folder.
const FOLDER: &str = "tmp/stage2/baselines";
const NAME_CHARS: usize = 64;
/// Of `2026-11-28T15:43:46.029Z`, with room for an offset.
const STARTED_CHARS: usize = 32;
/// Least and most of a command in the list.
const COMMAND_CHARS: (usize, usize) = (10, 60);
const MOST_BASELINES: usize = 200;
const MOST_RUNS: usize = 32;
/// A folder in the making; no name of a baseline begins with a dot.
const NEW: &str = ".new-";

pub(crate) fn baseline(args: BaselineArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let folder = Path::new(FOLDER);
    match args.verb {
        BaselineVerb::Save { name, runs, replace } => {
            save(folder, &name, &runs, replace, terminal)?
        }
        BaselineVerb::List => {
            let width = width(&io::stdout()).unwrap_or(usize::MAX);
            printed(&list(folder, width)?)?;
        }
        BaselineVerb::Remove { name } => {
            let path = existing(folder, &name, true)?;
            fs::remove_dir_all(&path).map_err(|error| {
                Failure::NoResult(format!("{} cannot be removed: {error}", visible_path(&path)))
            })?;
            terminal.result(&format!("removed baseline {name}"));
        }
    }
    Ok(0)
}

/// The word for a baseline that has this name; nothing: there is none.
pub(super) fn named(word: &Path) -> Option<String> {
    let name =
        word.to_str().filter(|name| names_in(Path::new(FOLDER)).iter().any(|n| n == name))?;
    Some(format!("{OF_BASELINES}{name}"))
}

/// The reports that a word such as `baseline:main` stands for; nothing: it is a path.
pub(super) fn reports_of(word: &Path) -> Option<Result<Vec<PathBuf>, Failure>> {
    let name = word.to_str()?.strip_prefix(OF_BASELINES)?;
    Some(existing(Path::new(FOLDER), name, false).and_then(|path| {
        let reports = reports_in(&path);
        match reports.is_empty() {
            false => Ok(reports),
            true => Err(Failure::NoResult(format!(
                "{} holds no report; save it again with `stage2-launch baseline save {name} RUN --replace`",
                visible_path(&path)
            ))),
        }
    }))
}

fn save(
    folder: &Path,
    name: &str,
    runs: &[PathBuf],
    replace: bool,
    terminal: &Terminal,
) -> Result<(), Failure> {
    if runs.is_empty() && Path::new(name).join(RUN_JSON).exists() {
        return Err(Failure::Usage(format!(
            "{name} is a run, and the name comes before it: stage2-launch baseline save NAME {name}"
        )));
    }
    check_name(name)?;
    if runs.len() > MOST_RUNS {
        return Err(Failure::Usage(format!(
            "a baseline holds {MOST_RUNS} runs at most, and {} are named",
            runs.len()
        )));
    }
    let path = folder.join(name);
    let is_there = path.symlink_metadata().is_ok();
    if is_there && !replace {
        return Err(Failure::Usage(format!(
            "baseline `{name}` already exists; use --replace to overwrite it, or choose another name"
        )));
    }
    let names = names_in(folder);
    if !is_there && names.len() >= MOST_BASELINES {
        return Err(Failure::Usage(format!(
            "there are {MOST_BASELINES} baselines, which is the limit; remove one first, for instance \
             {}: stage2-launch baseline remove NAME",
            names.first().map_or("", String::as_str)
        )));
    }
    let latest = [PathBuf::from(LATEST)];
    let runs = match runs {
        [] if !run_named(Path::new(LATEST)).exists() => {
            return Err(Failure::Usage(format!(
                "no run in {FOLDER_OF_RUNS} has a result yet (runs with --run-dir are elsewhere): name the run, \
                 stage2-launch baseline save {name} RUN"
            )));
        }
        [] => &latest[..],
        runs => runs,
    };
    // All are read before anything is written.
    let read: Result<Vec<(Vec<u8>, String)>, Failure> =
        runs.iter().map(|run| checked(run)).collect();
    let (reports, identities): (Vec<_>, Vec<_>) = read?.into_iter().unzip();
    refuse_twice(identities.into_iter().zip(runs.iter().map(|run| visible_path(run))))?;
    write(folder, &path, &reports).map_err(|error| {
        Failure::NoResult(format!("{} cannot be written: {error}", visible_path(&path)))
    })?;
    let from = runs.iter().map(|run| visible_path(run)).collect::<Vec<_>>();
    let runs = counted(reports.len() as u64, "run");
    terminal.result(&format!("baseline {name}: {runs} ({})", listed(&from, 4)));
    terminal.result(&format!("compare with: stage2-launch diff {OF_BASELINES}{name} RUN"));
    Ok(())
}

/// Puts the reports in the place of whatever is at `path`, or leaves that as it is.
fn write(folder: &Path, path: &Path, reports: &[Vec<u8>]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let temporary =
        || tempfile::Builder::new().prefix(NEW).tempdir_in(folder).map_err(without_its_name);
    let new = temporary()?;
    for (at, bytes) in reports.iter().enumerate() {
        fs::write(new.path().join(format!("{}.json", at + 1)), bytes)?;
    }
    let old = temporary()?;
    let aside = old.path().join("old");
    let is_there = path.symlink_metadata().is_ok();
    if is_there {
        fs::rename(path, &aside)?;
    }
    fs::rename(new.path(), path).inspect_err(|_| {
        if is_there {
            let _ = fs::rename(&aside, path);
        }
    })?;
    // It has moved: nothing is left to delete.
    let _ = new.keep();
    Ok(())
}

/// The text of the report of a run that can be compared, and what distinguishes that run.
fn checked(run: &Path) -> Result<(Vec<u8>, String), Failure> {
    let path = metrics_of(run)?;
    let (bytes, read) = report_of(&path)?;
    if read.report.coverage.verdict.status == Status::Empty {
        return Err(Failure::NoResult(format!(
            "{}: it has no GPU work to compare",
            visible_path(&path)
        )));
    }
    let identity = identity(&path, &read.report);
    Ok((bytes, identity))
}

/// When the first run of a baseline started and on which GPU, with its command, or why its report cannot be read.
type First = Option<Result<(Vec<String>, Option<Vec<String>>), String>>;

/// The baselines in lines of a width: a command has the room that is left.
fn list(folder: &Path, width: usize) -> Result<String, Failure> {
    let names = names_in(folder);
    if names.is_empty() {
        return Ok(format!(
            "no baselines in {FOLDER}; save one with `stage2-launch baseline save NAME RUN`\n"
        ));
    }
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let name_width = longest.clamp(8, 24);
    let all: Vec<_> = names.iter().map(|name| reports_in(&folder.join(name))).collect();
    let first = |reports: &Vec<PathBuf>| -> First {
        match report_of(reports.first()?) {
            Ok((_, read)) => Some(Ok((told(&read.report), read.report.run.command))),
            Err(why) => Some(Err(shorten(&why.to_string(), 160))),
        }
    };
    let firsts: Vec<_> = all.iter().map(first).collect();
    let commands = firsts.iter().flatten().flatten().filter_map(|(_, command)| command.as_ref());
    let commands: Vec<&Vec<String>> = commands.collect();
    // What all have does not tell one from the others.
    let is_shared =
        |word: &String| commands.len() > 1 && commands.iter().all(|words| words.contains(word));
    let line = |((name, reports), first): ((&String, &Vec<PathBuf>), &First)| {
        let text = match first {
            None => "it holds no report".to_owned(),
            Some(Ok((ahead, command))) => {
                let room = width.saturating_sub(name_width + 12);
                with_command(ahead, command.as_deref(), room, is_shared)
            }
            Some(Err(why)) => format!("cannot be used: {why}"),
        };
        format!("{name:name_width$} {:>8}  {text}\n", counted(reports.len() as u64, "run"))
    };
    let head =
        format!("{:name_width$} {:>8}  {}\n", "NAME", "RUNS", "FIRST RUN: STARTED, GPU, COMMAND");
    Ok(head + &names.iter().zip(&all).zip(&firsts).map(line).collect::<String>())
}

/// When a run started, and on which GPU.
fn told(report: &Report) -> Vec<String> {
    let started = report.run.started_minute();
    let started = started.map(|text| shorten(&visible(text.as_bytes()), STARTED_CHARS));
    let gpu = report.devices.iter().find_map(|device| device.name.as_ref());
    let gpu = gpu.map(|text| shorten(&visible(text.as_bytes()), 60));
    started.into_iter().chain(gpu).collect()
}

/// That, and what it ran.
fn with_command(
    ahead: &[String],
    command: Option<&[String]>,
    room: usize,
    is_shared: impl Fn(&String) -> bool,
) -> String {
    let taken: usize = ahead.iter().map(|part| part.chars().count() + 2).sum();
    let room = room.saturating_sub(taken).min(COMMAND_CHARS.1);
    let command = command.and_then(<[String]>::split_first).map(|(program, arguments)| {
        let mut words = vec![program.rsplit('/').next().unwrap_or(program)];
        for word in arguments {
            match is_shared(word) {
                false => words.push(word),
                true if words.last() != Some(&"…") => words.push("…"),
                true => {}
            }
        }
        words.join(" ")
    });
    let command = command.filter(|_| room >= COMMAND_CHARS.0);
    let command = command.map(|text| shorten_words(&visible(text.as_bytes()), room));
    ahead.iter().cloned().chain(command).collect::<Vec<_>>().join("  ")
}

/// Names are folders here: nothing in them may lead elsewhere.
fn check_name(name: &str) -> Result<(), Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if name == LATEST {
        return Err(Failure::Usage(format!(
            "`{name}` cannot name a baseline: it stands for the newest run"
        )));
    }
    if name.is_empty() {
        return Err(Failure::Usage("the name of a baseline is missing".to_owned()));
    }
    match begins_well && name.len() <= NAME_CHARS && name.chars().all(is_plain) {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "`{}` cannot name a baseline; a name has up to {NAME_CHARS} letters, digits, dots, dashes and \
             underscores, and begins with a letter or a digit",
            shorten(&visible(name.as_bytes()), 80)
        ))),
    }
}

/// The folder of a baseline that is there.
fn existing(folder: &Path, name: &str, is_removed: bool) -> Result<PathBuf, Failure> {
    check_name(name)?;
    let path = folder.join(name);
    // A link may lead anywhere.
    if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return Ok(path);
    }
    let names = names_in(folder);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // What saves one is said below.
    let instead = if names.is_empty() { String::new() } else { instead(name, &names) };
    let how = match instead.is_empty() {
        true if is_removed => "; no baseline is saved in this folder".to_owned(),
        true => format!("; `stage2-launch baseline save {name} RUN` saves one"),
        false => String::new(),
    };
    Err(Failure::Usage(format!("there is no baseline `{name}` in {FOLDER}{instead}{how}")))
}

/// The names of all baselines.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| check_name(name).is_ok()).collect();
    names.sort();
    names
}

/// The reports of a baseline, in the order in which they were named.
fn reports_in(baseline: &Path) -> Vec<PathBuf> {
    let of = |number: usize| baseline.join(format!("{number}.json"));
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_file());
    (1..=MOST_RUNS).map(of).take_while(is_there).collect()
}
