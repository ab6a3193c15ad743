//! Words of a command line -> what they are, as far as can be seen before all of them are read, and the order in
//! which the parser takes them.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, ArgAction, Command};

/// What a word in front of `--` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An option, or the value of the one before it.
    Option,
    /// A setting: see [`is_setting`].
    Setting,
    /// Anything else: a subcommand, a folder, or a mistake.
    Bare,
}

/// The words behind the name of the program, told apart.
#[derive(Debug, Default)]
pub(super) struct WordKinds {
    /// What each is, up to `--`, or to an unknown option, which may have a value.
    pub(super) kinds: Vec<Kind>,
    /// Where the subcommand is: the first bare word, if it names one.
    pub(super) subcommand: Option<usize>,
}

impl WordKinds {
    /// The first bare word that is not the subcommand.
    pub(super) fn stray(&self) -> Option<usize> {
        (0..self.kinds.len())
            .find(|at| self.kinds.get(*at) == Some(&Kind::Bare) && self.subcommand != Some(*at))
    }
}

/// Tells `words` apart. Options before a subcommand may be those of any; `command` is built.
pub(super) fn tell(command: &Command, words: &[OsString]) -> WordKinds {
    let mut told = WordKinds::default();
    let mut commands: Vec<&Command> =
        std::iter::once(command).chain(command.get_subcommands()).collect();
    let mut first = true;
    while let Some(word) = words.get(told.kinds.len()) {
        let text = word.to_string_lossy();
        if text == "--" {
            break;
        }
        if text.starts_with('-') && text != "-" {
            let Some(count) = words_of_option(&commands, &text) else { break };
            // A value that is missing is for the parser to tell.
            let count = count.min(words.len() - told.kinds.len());
            told.kinds.extend(std::iter::repeat_n(Kind::Option, count));
        } else if is_setting(&text) {
            told.kinds.push(Kind::Setting);
        } else {
            if first && let Some(found) = command.find_subcommand(word) {
                told.subcommand = Some(told.kinds.len());
                commands = vec![found];
            }
            first = false;
            told.kinds.push(Kind::Bare);
        }
    }
    told
}

/// How many words an option takes, itself included. None: it is not known, or ends the program.
fn words_of_option(commands: &[&Command], word: &str) -> Option<usize> {
    let find = |is: &dyn Fn(&Arg) -> bool| {
        let known = commands.iter().find_map(|command| command.get_arguments().find(|arg| is(arg)));
        known.map(Arg::get_action).filter(|action| !matches!(action, ArgAction::Version))
    };
    if let Some(name) = word.strip_prefix("--") {
        let (name, value) = name.split_once('=').map_or((name, None), |(n, v)| (n, Some(v)));
        let action = find(&|arg| arg.get_long() == Some(name))?;
        return Some(1 + usize::from(action.takes_values() && value.is_none()));
    }
    // Short options, of which only the last one can have a value: in this word or the next one.
    let mut shorts = word.chars();
    shorts.next();
    while let Some(short) = shorts.next() {
        if find(&|arg| arg.get_short() == Some(short))?.takes_values() {
            return Some(1 + usize::from(shorts.as_str().is_empty()));
        }
    }
    Some(1)
}

/// Puts a subcommand in front of all words. Where it takes settings behind words of another meaning,
/// these go in front of the settings. The first word is the name of this program.
pub(super) fn arranged(command: &Command, words: &[OsString]) -> Vec<OsString> {
    let Some((_, words)) = words.split_first() else { return Vec::new() };
    // Messages name this program so, whatever its file is called.
    let program = &OsString::from(command.get_name());
    let told = tell(command, words);
    let Some(at) = told.subcommand else { return [std::slice::from_ref(program), words].concat() };
    let (seen, rest) = words.split_at_checked(told.kinds.len()).unwrap_or((words, &[]));
    let mut ahead = vec![program.clone()];
    ahead.extend(seen.get(at).cloned());
    let mut settings = Vec::new();
    let known = seen.get(at).and_then(|name| command.find_subcommand(name));
    let sorts = known.is_some_and(|known| takes_settings(known) && takes_others(known))
        && !rest.first().is_some_and(is_option);
    // A folder may be called `a=1`.
    let folder = seen.iter().zip(&told.kinds).position(|(word, kind)| {
        *kind == Kind::Setting && told.stray().is_none() && Path::new(word).exists()
    });
    for (index, (word, kind)) in seen.iter().zip(&told.kinds).enumerate() {
        match kind {
            _ if index == at => {}
            Kind::Setting if sorts && folder != Some(index) => settings.push(word.clone()),
            _ => ahead.push(word.clone()),
        }
    }
    ahead.extend(settings);
    ahead.extend_from_slice(rest);
    ahead
}

pub(super) fn is_option(word: &OsString) -> bool {
    word != "--" && word.to_string_lossy().starts_with('-')
}

pub(super) fn takes_settings(command: &Command) -> bool {
    command.get_positionals().any(|arg| arg.get_id() == "overrides")
}

/// Whether a command takes other words before `--`: folders, files.
pub(super) fn takes_others(command: &Command) -> bool {
    command.get_positionals().any(|arg| !arg.is_last_set() && arg.get_id() != "overrides")
}

pub(super) fn takes_workload(command: &Command) -> bool {
    command.get_positionals().any(|arg| arg.is_last_set() && arg.get_id() != "of_demo")
}

/// Whether a word is a setting as far as can be seen from outside; `~key` takes one out.
pub(crate) fn is_setting(word: &str) -> bool {
    word.contains('=') || word.starts_with('~')
}

/// A word as a shell reads it, with settings as a person types them: `=` needs no quotes there.
pub(super) fn shown(word: impl AsRef<OsStr>) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"=._-/,:+@%".contains(byte);
    match word.as_ref().to_str() {
        Some(text) if !text.is_empty() && text.as_bytes().iter().all(plain) => text.to_owned(),
        _ => crate::plan::quote(word),
    }
}

/// The subcommand among `words`.
pub(super) fn subcommand<'w>(command: &Command, words: &'w [OsString]) -> Option<&'w OsString> {
    tell(command, words).subcommand.and_then(|at| words.get(at))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn in_order(line: &str) -> String {
        let mut command = crate::cli::Cli::command();
        command.build();
        let words = line.split(' ').map(OsString::from);
        let words: Vec<OsString> = std::iter::once("program".into()).chain(words).collect();
        let arranged = arranged(&command, &words);
        arranged[1..].iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_person_types_words_in_any_order() {
        for (typed, read) in [
            ("run.mode=light demo", "demo run.mode=light"),
            ("-v run.mode=light -q report X", "report -v -q X run.mode=light"),
            ("report model/llm=x X -q", "report X -q model/llm=x"),
            ("report X a=1 -q b=2", "report X -q a=1 b=2"),
            // Options of a subcommand ahead of it, with values that would pass for something else.
            ("-f perfetto export X --stage decode", "export -f perfetto X --stage decode"),
            (
                "--stage=a -fchrome --output demo export X",
                "export --stage=a -fchrome --output demo X",
            ),
            ("a=1 bench --rounds 2 -- demo b=1 -q", "bench a=1 --rounds 2 -- demo b=1 -q"),
            ("-vf chrome export X", "export -vf chrome X"),
            // Not ours to move.
            ("-- report a=1 X", "-- report a=1 X"),
            ("a=1 -v -- x", "a=1 -v -- x"),
            ("python demo", "python demo"),
            ("--run-dir demo -- x", "--run-dir demo -- x"),
            ("--bogus demo a=1", "--bogus demo a=1"),
            ("--version demo", "--version demo"),
            ("a=1 report X --bogus b=1", "report a=1 X --bogus b=1"),
            ("report a=1", "report a=1"),
            ("report b=2 a=1 X", "report X b=2 a=1"),
        ] {
            assert_eq!(in_order(typed), read, "{typed}");
        }
    }

    #[test]
    fn a_folder_may_look_like_a_setting() {
        let dir = tempfile::tempdir().expect("folder");
        let run = dir.path().join("lr=0.1");
        std::fs::create_dir(&run).expect("folder");
        let run = run.display();
        assert_eq!(in_order(&format!("report b=2 {run} a=1")), format!("report {run} b=2 a=1"));
    }
}
