//! A command line that cannot be read -> what to type instead.

use std::ffi::{OsStr, OsString};

use clap::CommandFactory as _;

use super::Cli;

/// Where the command of the workload belongs, for words without `--` of which one is an unknown
/// option; none where they name a subcommand, which may have no workload at all.
pub(super) fn place_of_command(words: &[OsString]) -> Option<String> {
    let place = "The command of the workload comes after `--`";
    let usage = format!("{place}: stage2-launch [OPTIONS] [KEY=VALUE]... -- COMMAND [ARG]...");
    let mut commands = Cli::command();
    commands.build();
    let option = |word: &str| {
        let (name, value) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
        let known = commands.get_arguments().find(|known| match name.strip_prefix("--") {
            Some(long) => known.get_long() == Some(long),
            None => {
                let short = name.strip_prefix('-').and_then(|name| name.parse().ok());
                short.is_some() && known.get_short() == short
            }
        })?;
        Some(known.get_action().takes_values() && value.is_none())
    };
    let mut at = 0;
    while let Some(word) = words.get(at).map(|word| word.to_string_lossy()) {
        if word.starts_with('-') {
            // Whether the next word is the value of an unknown option cannot be told.
            let Some(takes_next) = option(&word) else { return Some(usage) };
            at += 1 + usize::from(takes_next);
        } else if is_setting(&word) {
            at += 1;
        } else if commands.find_subcommand(word.as_ref()).is_some() {
            return None;
        } else {
            return Some(format!("{place}, e.g. {}", with_command(words, at)));
        }
    }
    Some(usage)
}

/// Whether a word is a setting as far as can be seen from outside; `~key` takes one out.
pub(crate) fn is_setting(word: &str) -> bool {
    word.contains('=') || word.starts_with('~')
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

/// A word as a shell reads it, with settings as a person types them: behind the name of a program `=`
/// needs no quotes.
fn shown(word: impl AsRef<OsStr>) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"=._-/,:+@%".contains(byte);
    match word.as_ref().to_str() {
        Some(text) if !text.is_empty() && text.as_bytes().iter().all(plain) => text.to_owned(),
        _ => crate::plan::quote(word),
    }
}

/// What to say to the word at `at` of `words`, which stands where settings do and is none; `workload`
/// is what stands after `--`.
pub(crate) fn no_setting(at: usize, words: &[String], workload: &[OsString]) -> String {
    let word = words.get(at).map_or("", String::as_str);
    let commands = Cli::command();
    let names = || commands.get_subcommands().filter(|known| !known.is_hide_set());
    if let Some(known) = names().find(|known| known.get_name() == word) {
        // Behind it, for the first word of `report` is its folder.
        let (before, after) = words.split_at(at);
        let others = after.iter().skip(1).chain(before).map(shown);
        let mut line: Vec<String> = std::iter::once(word.to_owned()).chain(others).collect();
        if !workload.is_empty() && known.get_positionals().any(|arg| arg.is_last_set()) {
            line.push("--".to_owned());
            line.extend(workload.iter().map(shown));
        }
        let line = line.join(" ");
        return format!("the subcommand `{word}` has to come first: stage2-launch {line}");
    }
    let near = names().find(|known| strsim::damerau_levenshtein(known.get_name(), word) <= 2);
    let near = near.map_or_else(String::new, |known| {
        format!(" (did you mean the subcommand `{}`?)", known.get_name())
    });
    let wrong = format!("`{word}` is neither a subcommand nor KEY=VALUE{near}");
    if workload.is_empty() {
        let line = with_command(words, at);
        format!("{wrong}. To run a program, put it after `--`: {line}")
    } else {
        format!("{wrong}; only options and KEY=VALUE settings go before `--`")
    }
}
