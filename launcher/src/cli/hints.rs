//! A command line that cannot be read -> what to type instead.

use std::ffi::{OsStr, OsString};

use clap::{Command, CommandFactory as _};

use super::Cli;
use super::words::{behind_options, is_setting, shown};

/// What to say besides that an option is unknown, to words without `--`; nothing where they name a
/// subcommand, which may have no workload at all.
pub(super) fn behind_unknown_option(command: &Command, words: &[OsString]) -> Option<String> {
    let place = "The command of the workload comes after `--`";
    let usage = format!("{place}: stage2-launch [OPTIONS] [KEY=VALUE]... -- COMMAND [ARG]...");
    let mut from = 0;
    loop {
        let Some(at) = behind_options(command, words, from) else { return Some(usage) };
        let word = words.get(at).map(|word| word.to_string_lossy()).unwrap_or_default();
        if is_setting(&word) {
            from = at + 1;
        } else if command.find_subcommand(word.as_ref()).is_some() {
            return None;
        } else if let Some(near) = near_subcommand(command, &word) {
            return Some(format!("{}; did you mean `{near}`?", neither(&word)));
        } else {
            return Some(format!("{place}, e.g. {}", with_command(words, at)));
        }
    }
}

/// What to say where one of the settings of a run is none; `workload` is what follows `--`.
pub(crate) fn no_setting(overrides: &[String], workload: &[OsString]) -> Option<String> {
    let at = overrides.iter().position(|word| !is_setting(word))?;
    let (before, after) = overrides.split_at(at);
    let (word, after) = after.split_first()?;
    let command = Cli::command();
    if let Some(known) = subcommands(&command).find(|(name, _)| name == word) {
        // Behind it, for the first word of `report` is its folder.
        let mut line = vec![word.to_owned()];
        line.extend(after.iter().chain(before).map(shown));
        if !workload.is_empty() && known.1.get_positionals().any(|arg| arg.is_last_set()) {
            line.push("--".to_owned());
            line.extend(workload.iter().map(shown));
        }
        let line = line.join(" ");
        return Some(format!("the subcommand `{word}` has to come first: stage2-launch {line}"));
    }
    let near = near_subcommand(&command, word);
    let near = near.map_or_else(|| ".".to_owned(), |near| format!("; did you mean `{near}`?"));
    let wrong = neither(word) + &near;
    Some(if workload.is_empty() {
        format!("{wrong} To run a program: {}", with_command(overrides, at))
    } else {
        format!("{wrong} Only options and KEY=VALUE settings go before `--`")
    })
}

fn neither(word: &str) -> String {
    format!("`{word}` is neither a subcommand nor KEY=VALUE")
}

/// Names of the subcommands that users see, their other names included.
fn subcommands(command: &Command) -> impl Iterator<Item = (&str, &Command)> {
    let all = command.get_subcommands().filter(|known| !known.is_hide_set());
    all.flat_map(|known| known.get_name_and_visible_aliases().into_iter().map(move |n| (n, known)))
}

/// The subcommand that a mistyped word may stand for.
fn near_subcommand<'a>(command: &'a Command, word: &str) -> Option<&'a str> {
    let distance = |name: &str| strsim::damerau_levenshtein(name, word);
    let near = subcommands(command).map(|(name, _)| (distance(name), name));
    near.filter(|(distance, _)| *distance <= 2).min().map(|(_, name)| name)
}

/// The command line in which `words` from `at` on are the command of the workload.
fn with_command(words: &[impl AsRef<OsStr>], at: usize) -> String {
    let mut line = "stage2-launch".to_owned();
    for (index, word) in words.iter().enumerate() {
        line.push_str(if index == at { " -- " } else { " " });
        line.push_str(&shown(word));
    }
    line
}
