//! Words of a command line -> what they are, as far as can be seen before all of them are read.

use std::ffi::{OsStr, OsString};

use clap::{ArgAction, Command};

/// The first word from `from` on that is neither an option nor the value of one. None: there is none,
/// or an option comes first that is not known, so that the next word may be its value.
pub(super) fn behind_options(command: &Command, words: &[OsString], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(word) = words.get(at).map(|word| word.to_string_lossy()) {
        if !word.starts_with('-') {
            return Some(at);
        }
        let (name, value) = word.split_once('=').map_or((&*word, None), |(n, v)| (n, Some(v)));
        let known = command.get_arguments().find(|known| match name.strip_prefix("--") {
            Some(long) => known.get_long() == Some(long),
            None => {
                let short = name.strip_prefix('-').and_then(|name| name.parse().ok());
                short.is_some() && known.get_short() == short
            }
        });
        match known?.get_action() {
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version => {
                return None;
            }
            action => at += 1 + usize::from(action.takes_values() && value.is_none()),
        }
    }
    None
}

/// Puts a subcommand in front of the options before it, which are its own.
pub(super) fn subcommand_first(command: &Command, words: &[OsString]) -> Vec<OsString> {
    let mut words = words.to_vec();
    // The first word is the name of this program.
    if let Some(at) = behind_options(command, &words, 1)
        && words.get(at).is_some_and(|word| command.find_subcommand(word).is_some())
        && let Some(ahead) = words.get_mut(1..=at)
    {
        ahead.rotate_right(1);
    }
    words
}

/// Whether a word is a setting as far as can be seen from outside; `~key` takes one out.
pub(super) fn is_setting(word: &str) -> bool {
    word.contains('=') || word.starts_with('~')
}

/// A word as a shell reads it, with settings as a person types them: behind the name of a program `=`
/// needs no quotes.
pub(super) fn shown(word: impl AsRef<OsStr>) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"=._-/,:+@%".contains(byte);
    match word.as_ref().to_str() {
        Some(text) if !text.is_empty() && text.as_bytes().iter().all(plain) => text.to_owned(),
        _ => crate::plan::quote(word),
    }
}
