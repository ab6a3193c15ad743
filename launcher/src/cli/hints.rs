//! A command line that cannot be read -> what to type instead.

use std::ffi::{OsStr, OsString};

use clap::Command;

use super::words::{shown, takes_others, takes_settings, takes_workload, tell};

/// What to say besides that an option is unknown, to words without `--` behind the name of the program;
/// nothing where they name a subcommand that has no workload.
pub(super) fn behind_unknown_option(command: &Command, words: &[OsString]) -> Option<String> {
    let place = "The command of the workload comes after `--`";
    let told = tell(command, words);
    if let Some(known) = told.subcommand.and_then(|at| command.find_subcommand(words.get(at)?))
        && !takes_workload(known)
    {
        return None;
    }
    let Some(at) = told.stray() else {
        return Some(format!(
            "{place}: stage2-launch [OPTIONS] [KEY=VALUE]... -- COMMAND [ARG]..."
        ));
    };
    let word = words.get(at).map(|word| word.to_string_lossy()).unwrap_or_default();
    Some(match near_subcommand(command, &word).filter(|_| told.subcommand.is_none()) {
        Some(near) => format!("{}; did you mean `{near}`?", neither(&word)),
        None => format!("{place}, e.g. {}", with_command(words, at)),
    })
}

/// What to say to words behind the name of the program of which one, before `--`, has no place in its
/// command.
pub(super) fn no_setting(command: &Command, words: &[OsString]) -> Option<String> {
    let told = tell(command, words);
    let at = told.stray()?;
    let word = words.get(at)?.to_string_lossy();
    let wrong = match told.subcommand.and_then(|at| command.find_subcommand(words.get(at)?)) {
        Some(named) if !takes_settings(named) || takes_others(named) => return None,
        Some(named) if !takes_workload(named) => {
            let name = named.get_name();
            return Some(format!(
                "`{word}` is no KEY=VALUE, and {name} takes options and settings only: see \
                 `stage2-launch {name} --help`"
            ));
        }
        Some(_) => format!("`{word}` is no KEY=VALUE."),
        None => match near_subcommand(command, &word) {
            Some(near) => format!("{}; did you mean `{near}`?", neither(&word)),
            None => format!("{}.", neither(&word)),
        },
    };
    let end = words.iter().position(|word| word == "--");
    Some(if end.is_some_and(|end| end + 1 < words.len()) {
        format!("{wrong} Only options and KEY=VALUE settings go before `--`")
    } else {
        format!("{wrong} To run a program: {}", with_command(words, at))
    })
}

fn neither(word: &str) -> String {
    format!("`{word}` is neither a subcommand nor KEY=VALUE")
}

/// Names of the subcommands that users see, their other names included.
fn subcommands(command: &Command) -> impl Iterator<Item = &str> {
    let all = command.get_subcommands().filter(|known| !known.is_hide_set());
    all.flat_map(Command::get_name_and_visible_aliases)
}

/// The subcommand that a mistyped word may stand for. In a short one, one letter makes another word.
fn near_subcommand<'a>(command: &'a Command, word: &str) -> Option<&'a str> {
    let distance = |name: &str| strsim::damerau_levenshtein(name, word);
    let near = subcommands(command).map(|name| (distance(name), name));
    near.filter(|(distance, name)| *distance <= if name.len() > 4 { 2 } else { 1 })
        .min()
        .map(|(_, name)| name)
}

/// The command line in which `words` from `at` on are the command of the workload.
fn with_command(words: &[impl AsRef<OsStr>], at: usize) -> String {
    let mut line = "stage2-launch".to_owned();
    for (index, word) in words.iter().map(AsRef::as_ref).enumerate() {
        // One that stands at the end has nothing behind it.
        if word == "--" {
            continue;
        }
        line.push_str(if index == at { " -- " } else { " " });
        line.push_str(&shown(word));
    }
    line
}
