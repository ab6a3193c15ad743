//! What the parser refuses -> what is wrong with it, and what to type instead.

use std::ffi::{OsStr, OsString};
use std::fs::DirEntry;
use std::path::Path;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Id};
use stage2_contract::text::most_like;
use stage2_read::files;

use super::words::{
    is_option, is_setting, shown, takes_others, takes_settings, takes_workload, tell,
};

/// What the parser refuses, in one line: what is wrong, what was probably meant, and where to read more.
pub(super) fn refused(command: &Command, words: &[OsString], error: &clap::Error) -> String {
    let text = error.render().to_string();
    let message = text.split("\n\n").next().unwrap_or_default();
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let message = said_once(message.strip_prefix("error: ").unwrap_or(&message), error);
    let told = tell(command, words);
    let of = told.subcommand.and_then(|at| words.get(at)).map(|word| word.to_string_lossy());
    let name = of
        .as_deref()
        .filter(|name| *name != "help")
        .map_or_else(String::new, |name| format!(" {name}"));
    let named = told.subcommand.and_then(|at| command.find_subcommand(words.get(at)?));
    if let Some(text) = named.and_then(|named| without_verb(named, words, error)) {
        return text;
    }
    if let Some(text) = named.and_then(|named| not_here(named, error)) {
        return format!("{text}; see `stage2-launch{name} --help`");
    }
    if let Some(order) = named.and_then(|named| target_behind(named, words, error)) {
        return format!("{message}; {order}");
    }
    if error.kind() == ErrorKind::MissingRequiredArgument
        && named.is_some_and(takes_captures)
        && let Some(text) = no_setting(command, words)
    {
        return text;
    }
    let setting = as_setting(named.unwrap_or(command), words, error);
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    let has_command = words.iter().any(|word| word == "--");
    // Whose option it is depends on a word that is no subcommand.
    let is_other = is_unknown && named.is_none() && told.stray().is_some();
    if is_other
        && has_command
        && let Some(instead) = no_setting(command, words)
    {
        return instead;
    }
    let meant = other_verb(named, words, error)
        .or_else(|| other_name(named.unwrap_or(command), words, error))
        .or(setting)
        .or_else(|| with_two_dashes(named.unwrap_or(command), words, error))
        .or_else(|| meant(command, error))
        .or_else(|| with_option(named?, words, error));
    if is_unknown
        && !has_command
        && (is_other || meant.is_none())
        && let Some(hint) = behind_unknown_option(command, words)
    {
        return format!("{message}; {hint}");
    }
    if let (None, Some(ContextValue::String(word))) =
        (&meant, error.get(ContextKind::InvalidSubcommand))
        && of.as_deref() == Some("help")
        && !word.starts_with('-')
    {
        return format!(
            "there is no subcommand `{}`; `stage2-launch help` lists them",
            shown(word)
        );
    }
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
    let missing = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => missing,
        _ => &Vec::new(),
    };
    let message = match missing.as_slice() {
        [] => message,
        missing => format!("{} needs {}", name.trim_start(), missing.join(" and ")),
    };
    let latest = missing.iter().any(|word| word.starts_with("<RUN"));
    let latest = if latest { "; `latest` is the newest run" } else { "" };
    let usage = match (error.kind(), error.get(ContextKind::Usage)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::StyledStr(usage))) => {
            let usage = usage.to_string().replacen("Usage", "usage", 1);
            let usage = required_only(named.unwrap_or(command), &usage, error);
            let values = values_of_missing(named.unwrap_or(command), error);
            format!("; {usage}{latest}{}", if meant.is_empty() { &values } else { "" })
        }
        _ => String::new(),
    };
    let made = message.contains(LEFT_OUT_QUOTES).then(made_by_shell).flatten();
    let made = made.map_or_else(String::new, |made| {
        format!("; without quotes, the shell made the file {made}, which you can delete")
    });
    let read = match meant.is_empty() {
        _ if error.kind() == ErrorKind::ArgumentConflict => "; leave one of them out".to_owned(),
        true => format!("; see `stage2-launch{name} --help`"),
        false => String::new(),
    };
    format!("{message}{usage}{made}{meant}{read}")
}

/// What the error of a condition without a sign says.
const LEFT_OUT_QUOTES: &str = "if you left out the quotes";
/// A file that a shell made for this command is younger.
const JUST_NOW: Duration = Duration::from_secs(10);

/// The empty file that a shell has just made of the limit of a condition: `decode.step_ms>+5%` without quotes.
fn made_by_shell() -> Option<String> {
    let is_limit = |name: &str| {
        let sign = name.strip_prefix(['+', '-']);
        sign.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_new = |entry: &DirEntry| {
        let found = entry.metadata().ok().filter(|found| found.is_file() && found.len() == 0);
        let age = found.and_then(|found| found.modified().ok()?.elapsed().ok());
        age.is_some_and(|age| age < JUST_NOW)
    };
    let entries = std::fs::read_dir(".").into_iter().flatten().flatten().take(MOST_ENTRIES);
    let names = entries.filter(is_new).filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_limit(name)).map(|name| format!("`{}`", shown(&name))).next()
}

/// Entries of a folder that are looked at.
const MOST_ENTRIES: usize = 1_000;

/// A line of usage without the options that were given although they need not be; those that are missing stay.
fn required_only(command: &Command, usage: &str, error: &clap::Error) -> String {
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.as_slice(),
        _ => &[],
    };
    let is_missing = |word: &str| missing.iter().any(|arg| arg.split(' ').next() == Some(word));
    let in_group = |id: &Id| {
        let required = command.get_groups().filter(|group| group.is_required_set());
        required.into_iter().any(|group| group.get_args().any(|arg| arg == id))
    };
    let optional = |word: &str| {
        let long = word.strip_prefix("--")?;
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(long))?;
        (!arg.is_required_set() && !in_group(arg.get_id())).then_some(arg)
    };
    let mut words = usage.split_whitespace().peekable();
    let mut kept: Vec<&str> = Vec::new();
    // What stands in brackets is our own text.
    let mut brackets = 0;
    while let Some(word) = words.next() {
        brackets += word.matches('[').count();
        brackets = brackets.saturating_sub(word.matches(']').count());
        let Some(arg) = optional(word).filter(|_| brackets == 0 && !is_missing(word)) else {
            kept.push(word);
            continue;
        };
        if arg.get_action().takes_values() {
            words.next_if(|value| value.starts_with('<'));
        }
    }
    kept.join(" ")
}

/// What a command has instead of what it does not have at all.
fn not_here(named: &Command, error: &clap::Error) -> Option<String> {
    let string = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match (named.get_name(), string(ContextKind::InvalidArg)?, string(ContextKind::InvalidValue)) {
        ("report", "-o" | "--output" | "--out", _) => Some(
            "report writes its files into the folder of the run; for a file elsewhere: stage2-launch report RUN_DIR \
             --json -q > FILE"
                .to_owned(),
        ),
        ("bench", "--light", _) => {
            Some("bench always runs each profiler by itself; leave --light out".to_owned())
        }
        ("completions", _, Some(shell)) if OTHER_SHELLS.contains(&shell) => {
            let shells = named.get_positionals().flat_map(Arg::get_possible_values);
            let shells: Vec<String> = shells.map(|shell| shell.get_name().to_owned()).collect();
            Some(format!("there are no completions for {shell}, only for {}", shells.join(", ")))
        }
        _ => None,
    }
}

/// Shells whose names are not mistyped.
const OTHER_SHELLS: [&str; 8] = ["tcsh", "csh", "sh", "ksh", "dash", "ash", "nu", "nushell"];

/// A message of the parser that names the wrong value once, and not again in our reason for it.
fn said_once(message: &str, error: &clap::Error) -> String {
    let message = as_code(&in_words(message), error);
    match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) => {
            let message = message.replacen(&format!(": {value:?} is not "), ": it is not ", 1);
            let message = message.replacen(&format!(": `{value}` is not "), ": it is not ", 1);
            message.replacen(&format!(": {value} is not in "), ": it is not in ", 1)
        }
        _ => message,
    }
}

/// The words of the user in the quotes of this program, and not in those of the parser.
fn as_code(message: &str, error: &clap::Error) -> String {
    let quoted = error.context().flat_map(|(_, value)| match value {
        ContextValue::String(word) => std::slice::from_ref(word),
        ContextValue::Strings(words) => words,
        _ => &[],
    });
    quoted.fold(message.to_owned(), |message, word| {
        message.replace(&format!("'{word}'"), &format!("`{word}`"))
    })
}

/// A reason of the parser without terms of Rust.
pub(crate) fn in_words(message: &str) -> String {
    let takes_none = message
        .strip_prefix("unexpected value ")
        .and_then(|rest| rest.strip_suffix(" found; no more were expected"))
        .and_then(|rest| rest.split_once(" for "));
    if let Some((value, option)) = takes_none {
        return format!("{option} takes no value, and {value} was given");
    }
    let message = message.replace("invalid digit found in string", "it is not a whole number");
    let message = match message.contains("..=") {
        true => message.replace(" is not in ", " is not between ").replace("..=", " and "),
        false => message,
    };
    message.replace("cannot parse integer from empty string", "it is empty")
}

/// What to type where a verb is missing, or mistyped so that it was taken for the target.
fn without_verb(named: &Command, words: &[OsString], error: &clap::Error) -> Option<String> {
    // A mistyped verb in front of the target is taken for the target, and the target for a verb.
    let is_misplaced = error.kind() == ErrorKind::UnknownArgument
        && named.get_positionals().any(|arg| arg.get_id() == "target")
        && !words.iter().any(|word| named.find_subcommand(word).is_some());
    let is_option_unknown = matches!(
        error.get(ContextKind::InvalidArg),
        Some(ContextValue::String(word)) if word.starts_with('-')
    );
    if error.kind() != ErrorKind::MissingSubcommand && (!is_misplaced || is_option_unknown) {
        return None;
    }
    let verbs = named.get_subcommands().map(Command::get_name).filter(|verb| *verb != "help");
    let verbs = verbs.collect::<Vec<_>>().join(", ");
    let name = named.get_name();
    let typed = words.iter().skip(1).find(|word| *word != name && !is_option(word));
    let see = format!("See `stage2-launch {name} --help`");
    Some(match (typed, other_verb(Some(named), words, error)) {
        (Some(word), Some(verb)) => {
            let word = word.to_string_lossy();
            format!("`{word}` is not a verb of {name}; did you mean `{verb}`?")
        }
        (Some(word), None) => {
            let word = shown(word);
            if let Some(ContextValue::String(other)) = error.get(ContextKind::InvalidArg)
                && *other != word
            {
                let other = shown(other);
                let instead = match verb_meant(Some(named), &other) {
                    Some(verb) => format!("did you mean `{verb}`?"),
                    None => format!("it is one of {verbs}. {see}"),
                };
                return Some(format!("`{other}` is not a verb of {name}; {instead}"));
            }
            format!(
                "the verb is missing: stage2-launch {name} {word} VERB; it is one of {verbs}. {see}"
            )
        }
        (None, _) => format!("the verb is missing; it is one of {verbs}. {see}"),
    })
}

/// What each argument that is missing accepts, where that is a list.
fn values_of_missing(named: &Command, error: &clap::Error) -> String {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
        return String::new();
    };
    let is_missing = |arg: &&Arg| missing.contains(&arg.to_string());
    let text = |arg: &Arg| {
        let values = arg.get_possible_values();
        let values: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
        let name = arg.get_value_names()?.first()?;
        (!values.is_empty()).then(|| format!("; {name} is one of {}", values.join(", ")))
    };
    named.get_arguments().filter(is_missing).filter_map(text).collect()
}

/// The long option that a word has with one dash, of which the program sees the first letter.
fn with_two_dashes(named: &Command, words: &[OsString], error: &clap::Error) -> Option<String> {
    let letter = match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(option) if error.kind() == ErrorKind::UnknownArgument => option,
        _ => return None,
    };
    let mut words = words.iter().filter_map(|word| word.to_str());
    let word = words.find(|word| word.len() > 2 && word.starts_with(letter.as_str()))?;
    let name = word.strip_prefix('-').filter(|name| !name.starts_with('-'))?;
    let is_it = |arg: &&Arg| arg.get_long() == name.split('=').next();
    named.get_arguments().any(|arg| is_it(&arg)).then(|| format!("-{word}"))
}

/// The setting that an unknown option stands for, as it is typed: `--hardware h200` is `hardware=h200`.
fn as_setting(named: &Command, words: &[OsString], error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let is_other = error.kind() != ErrorKind::UnknownArgument || !takes_settings(named);
    if is_other || (named.get_name() == "demo" && is_of_demo(option)) {
        return None;
    }
    let name = option.split('=').next()?;
    let is_it = |word: &&str| word.split('=').next() == Some(name);
    let mut rest = words.iter().filter_map(|word| word.to_str()).skip_while(|word| !is_it(word));
    let value = match rest.next()?.split_once('=') {
        Some((_, value)) => Some(value),
        None => rest.next().filter(|next| !next.starts_with(['-', '~']) && !is_setting(next)),
    };
    let typed = |key: String| match value {
        Some(value) => shown(format!("{key}={value}")),
        None => format!("{key}=VALUE"),
    };
    // A command that takes a folder as well reads the run in it.
    let key = name.strip_prefix("--")?.replace('-', "_");
    let keys = crate::config::settings_named(&key, takes_others(named));
    let all: Vec<String> = keys.into_iter().map(typed).collect();
    (!all.is_empty()).then(|| all.join("` or `"))
}

/// The order of the words of `ctl`, whose target comes first.
fn target_behind(named: &Command, words: &[OsString], error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let verb = words.iter().find_map(|word| named.find_subcommand(word))?.get_name();
    let is_target = error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-');
    // `--all` is a target, too.
    let takes_one = named.get_positionals().any(|arg| arg.get_id() == "target")
        && !words.iter().any(|word| word == "--all");
    let before = words.iter().take_while(|word| **word != *verb).count();
    let is_named =
        words.get(1..before).is_some_and(|ahead| ahead.iter().any(|word| !is_option(word)));
    (is_target && takes_one && !is_named).then(|| {
        format!(
            "the target comes before the verb: stage2-launch {} {word} {verb}",
            named.get_name()
        )
    })
}

/// The verb of a subcommand that a word stands for: one that other programs have, or a mistyped one that was taken for
/// the target.
fn other_verb(named: Option<&Command>, words: &[OsString], error: &clap::Error) -> Option<String> {
    let has_verb =
        named.is_some_and(|named| words.iter().any(|w| named.find_subcommand(w).is_some()));
    let is_missing = error.kind() == ErrorKind::MissingSubcommand
        || error.kind() == ErrorKind::UnknownArgument && !has_verb;
    if is_missing {
        let of = |word: &&OsString| named.is_some_and(|named| **word == *named.get_name());
        let bare = words.iter().skip(1).find(|word| !of(word) && !is_option(word))?;
        return verb_meant(named, &bare.to_string_lossy()).map(str::to_owned);
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    verb_meant(named, word).map(str::to_owned)
}

/// The verb of a subcommand that a word stands for, also a mistyped one of other programs.
fn verb_meant<'c>(named: Option<&'c Command>, word: &str) -> Option<&'c str> {
    let verbs = || named.into_iter().flat_map(Command::get_subcommands).map(Command::get_name);
    let ours = |word: &str| {
        let (_, ours) = OTHER_VERBS.into_iter().find(|(name, _)| *name == word)?;
        verbs().find(|verb| *verb == ours)
    };
    ours(word)
        .or_else(|| most_like(word, verbs()))
        .or_else(|| ours(most_like(word, OTHER_VERBS.iter().map(|(name, _)| *name))?))
}

/// What other programs call a verb of `ctl` or `baseline`.
const OTHER_VERBS: [(&str, &str); 11] = [
    ("add", "save"),
    ("create", "save"),
    ("set", "save"),
    ("pause", "stop"),
    ("end", "stop"),
    ("begin", "start"),
    ("resume", "start"),
    ("delete", "remove"),
    ("rm", "remove"),
    ("ls", "list"),
    ("show", "list"),
];

/// The option that this program has under another name.
fn other_name(named: &Command, words: &[OsString], error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) {
        let (_, ours) = OTHER_FORMATS.into_iter().find(|(name, _)| name == value)?;
        return word.contains("--format").then(|| ours.to_owned());
    }
    let has = |name: &str| named.get_arguments().any(|arg| arg.get_id() == name);
    let ours = match word.as_str() {
        "--lite" => "--light".to_owned(),
        // A server is recorded once it is warm.
        "--delay" if has("dormant") => "--dormant` and then `ctl RUN_DIR start".to_owned(),
        "--duration" if has("timeout") => "--timeout".to_owned(),
        // A process is a word of its own.
        "--pid" | "-p" | "--attach" if named.get_name() == "ctl" => {
            let verb = words.iter().find_map(|word| named.find_subcommand(word));
            format!("ctl PID {}", verb.map_or("VERB", Command::get_name))
        }
        "--pid" | "-p" | "--attach" if has("target") || has("targets") => {
            format!("{} PID", named.get_name())
        }
        // A process that runs already is no workload.
        "--pid" | "--attach" if takes_workload(named) => "ctl PID start` or `top PID".to_owned(),
        // A condition belongs to a comparison.
        "--fail-if" | "--expect" if !has("fail_if") => format!("diff RUN_A RUN_B {word}"),
        "--threshold" | "--fail-on" if has("fail_if") => "--fail-if CONDITION".to_owned(),
        "--format" if has("json") => "--json".to_owned(),
        "--baseline" if has("against") => "baseline:NAME".to_owned(),
        "--run-dir" if has("output") => "-o DIR".to_owned(),
        // It is no option there.
        "--run-dir" if has("run_dir") => format!("{} RUN_DIR", named.get_name()),
        "-o" | "--output" | "--out" if has("run_dir") && takes_workload(named) => {
            "--run-dir DIR".to_owned()
        }
        "-t" | "--trace" if takes_settings(named) => "pipeline.nsys.trace=[cuda,nvtx]".to_owned(),
        _ => return None,
    };
    Some(ours)
}

/// What other programs call a format of `export`, or what reads it.
const OTHER_FORMATS: [(&str, &str); 6] = [
    ("nsys", "sqlite"),
    ("pandas", "parquet"),
    ("json", "chrome"),
    ("torch", "chrome"),
    ("tensorboard", "chrome"),
    ("flamegraph", "folded"),
];

/// A value whose option is missing, with the option: `export perfetto RUN`.
fn with_option(named: &Command, words: &[OsString], error: &clap::Error) -> Option<String> {
    let missing = named.get_arguments().filter(|arg| arg.is_required_set());
    let found = |arg: &Arg| {
        let (short, values) = (arg.get_short()?, arg.get_possible_values());
        let is_value = |word: &&OsString| values.iter().any(|of| **word == *of.get_name());
        Some(format!("-{short} {}", words.iter().find(is_value)?.to_string_lossy()))
    };
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    missing.filter(|_| is_missing).find_map(found)
}

/// What the parser, or this program, takes a word for that it does not know. The parser's other tip puts an option
/// behind `--`, where it would be the command of a workload.
fn meant(command: &Command, error: &clap::Error) -> Option<String> {
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg)
        && is_of_demo(word)
    {
        // No option of ours is meant.
        return None;
    }
    let kinds =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    match kinds.into_iter().find_map(|kind| error.get(kind)) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        Some(ContextValue::Strings(words)) => words.last().cloned(),
        _ => match error.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(word)) => near_subcommand(command, word).map(str::to_owned),
            _ => near_value(error),
        },
    }
}

/// Of the values that a message tells to use, the one that is like the given one.
fn near_value(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidValue) else {
        return None;
    };
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue)
        && let Some(near) = most_like(word, values.iter().map(String::as_str))
    {
        return Some(near.to_owned());
    }
    let text = error.render().to_string();
    // What follows is not about the value.
    let (_, values) = text.split("\n\n").next()?.split_once("; use ")?;
    let values = || values.split_whitespace().map(|value| value.trim_end_matches(','));
    let first = |value: &'_ str| value.split('-').next().unwrap_or_default().to_owned();
    let firsts: Vec<String> = values().map(first).collect();
    let near = most_like(word, values().chain(firsts.iter().map(String::as_str)))?;
    values().find(|value| *value == near || first(value) == near).map(str::to_owned)
}

/// What to say besides that an option is unknown; nothing to a subcommand that has no workload.
fn behind_unknown_option(command: &Command, words: &[OsString]) -> Option<String> {
    let place = "the command of the workload comes after `--`";
    let told = tell(command, words);
    if let Some(known) = told.subcommand.and_then(|at| command.find_subcommand(words.get(at)?)) {
        if known.get_name() == "demo" {
            return Some(OF_DEMO.to_owned());
        }
        if !takes_workload(known) {
            return None;
        }
    }
    let Some(at) = told.stray() else {
        let name = told.subcommand.and_then(|at| words.get(at)).map(|word| word.to_string_lossy());
        let name = name.map_or_else(String::new, |name| format!(" {name}"));
        return Some(format!(
            "{place}: stage2-launch{name} [OPTIONS] [KEY=VALUE]... -- COMMAND [ARG]..."
        ));
    };
    let word = words.get(at).map(|word| word.to_string_lossy()).unwrap_or_default();
    if let Some(instead) = without_tool(words, at) {
        return Some(instead);
    }
    // A run is no program.
    if Path::new(&*word).is_dir() {
        return None;
    }
    Some(match near_subcommand(command, &word).filter(|_| told.subcommand.is_none()) {
        Some(near) => no_subcommand(&word, near, words, at),
        None => format!("{place}, e.g. {}", with_command(words, at)),
    })
}

/// Whether a command takes files that were taken elsewhere, each behind an option.
fn takes_captures(named: &Command) -> bool {
    named.get_arguments().any(|arg| arg.get_long() == Some("spool"))
}

/// That a capture needs an option in front of it: its name may tell which.
fn no_option(name: &str, capture: &str) -> String {
    let option = match files::ending(Path::new(capture)) {
        "nsys-rep" | "qdrep" | "sqlite" => "--nsys",
        "ncu-rep" => "--ncu",
        "s2t" => "--spool",
        _ => {
            return format!(
                "needs an option in front of it: --spool DIR for traces, --nsys FILE or --ncu FILE for captures; see \
                 `stage2-launch {name} --help`"
            );
        }
    };
    let capture = shlex::try_quote(capture).unwrap_or_default();
    format!("needs {option} in front of it; stage2-launch {name} {option} {capture} -o DIR")
}

/// What to say where a word before `--` has no place in its command.
pub(super) fn no_setting(command: &Command, words: &[OsString]) -> Option<String> {
    let told = tell(command, words);
    let at = told.stray()?;
    let word = words.get(at)?.to_string_lossy();
    if let Some(instead) = without_tool(words, at) {
        return Some(instead);
    }
    let wrong = match told.subcommand.and_then(|at| command.find_subcommand(words.get(at)?)) {
        Some(named) if !takes_settings(named) || takes_others(named) => return None,
        Some(named) if !takes_workload(named) => {
            let name = named.get_name();
            if takes_captures(named) && word.contains(['.', '/']) && !Path::new(&*word).exists() {
                return Some(format!("`{word}` does not exist, and {}", no_option(name, &word)));
            }
            if takes_captures(named) {
                return Some(format!("`{word}` {}", no_option(name, &word)));
            }
            return Some(format!(
                "`{word}` is not KEY=VALUE, and {name} accepts only options and settings; see \
                 `stage2-launch {name} --help`"
            ));
        }
        Some(named) => match as_option(named, &word) {
            Some(option) => format!("`{word}` is not KEY=VALUE; did you mean `{option}`?"),
            None => format!("`{word}` is not KEY=VALUE"),
        },
        None => match other_subcommand(&word)
            .map(str::to_owned)
            .or_else(|| as_option(command, &word))
            .or_else(|| near_subcommand(command, &word).map(str::to_owned))
        {
            Some(near) => no_subcommand(&word, &near, words, at),
            None => neither(&word),
        },
    };
    let end = words.iter().position(|word| word == "--");
    // It has the program already.
    if end.is_none() && told.subcommand.is_none() && wrong.contains(" -- ") {
        return Some(wrong);
    }
    // Behind advice that stands in the hint already, it is a further sentence of that.
    let [only, to_run] = match wrong.ends_with(['?', '.']) {
        true => [" Only", " To"],
        false => ["; only", "; to"],
    };
    Some(if end.is_some_and(|end| end + 1 < words.len()) {
        format!("{wrong}{only} options and KEY=VALUE settings go before `--`")
    } else {
        format!("{wrong}{to_run} run a program: {}", with_command(words, at))
    })
}

/// The option that a word is the name of.
fn as_option(named: &Command, word: &str) -> Option<String> {
    let has = |arg: &Arg| arg.get_long() == Some(word) && !arg.is_hide_set();
    named.get_arguments().any(has).then(|| format!("--{word}"))
}

/// Where options of the demo's workload go.
pub(crate) const OF_DEMO: &str = "options of the demo's workload (--rounds, --steps, --threads, --graph) go after `--`, e.g. \
     stage2-launch demo --light -- --rounds 200";

/// Whether a word is an option of the demo's workload, or is typed like a setting in its place.
pub(crate) fn is_of_demo(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default().trim_start_matches('-');
    // `--round` is one, too.
    let is_meant = |option: &str| option == name || option.strip_suffix('s') == Some(name);
    ["rounds", "steps", "threads", "graph"].into_iter().any(is_meant)
}

fn neither(word: &str) -> String {
    format!("`{word}` is neither a subcommand nor KEY=VALUE")
}

/// What to type instead of a word that names no subcommand, and the words behind it.
fn no_subcommand(word: &str, near: &str, words: &[OsString], at: usize) -> String {
    let wrong = neither(word);
    if near == LIST_OF_RUNS {
        return format!("{wrong}; the command of the shell `{near}` lists the runs.");
    }
    let line = as_run(words, at).filter(|_| near == "run");
    format!("{wrong}; did you mean `{}`?", line.unwrap_or_else(|| near.to_owned()))
}

/// A command of another profiler that takes the folder with `-o`, and no `--` before the program, as it is typed here.
fn as_run(words: &[OsString], at: usize) -> Option<String> {
    let behind = words.get(at + 1..)?;
    let (folder, program) = match behind {
        [option, folder, program @ ..] if option == "-o" || option == "--output" => {
            (Some(folder), program)
        }
        program => (None, program),
    };
    if !program.first().is_some_and(|first| first != "--" && !is_option(first)) {
        return None;
    }
    let ahead = words.get(..at)?.iter().map(shown);
    let folder = folder.map(|folder| format!("--run-dir {}", shown(folder)));
    let run = ["stage2-launch".to_owned(), "run".to_owned()].into_iter().chain(ahead).chain(folder);
    let line: Vec<String> = run.chain(["--".to_owned()]).chain(program.iter().map(shown)).collect();
    Some(line.join(" "))
}

/// What other programs call a subcommand of ours.
const OTHER_NAMES: [(&str, &str); 37] = [
    ("docs", "--help"),
    ("live", "top"),
    ("trace", "run"),
    ("collect", "run"),
    ("capture", "run"),
    ("launch", "run"),
    ("exec", "run"),
    ("snapshot", "ctl TARGET snapshot"),
    ("flush", "ctl TARGET flush"),
    ("mark", "ctl TARGET mark"),
    ("sql", "query"),
    ("info", "ask RUN summary"),
    ("inspect", "ask RUN summary"),
    ("convert", "export RUN --format perfetto"),
    ("check", "doctor"),
    ("attach", "ctl TARGET start"),
    ("start", "ctl TARGET start"),
    ("stop", "ctl TARGET stop"),
    ("status", "ctl --all status"),
    ("why", "ctl TARGET why"),
    ("profile", "run"),
    ("record", "run"),
    ("compare", "diff"),
    ("stats", "ask RUN summary"),
    ("summary", "ask RUN summary"),
    ("analyze", "ask RUN summary"),
    ("show", "report RUN --open"),
    ("open", "report RUN --open"),
    ("view", "report RUN --open"),
    ("perfetto", "export RUN --format perfetto"),
    ("timeline", "export RUN --format perfetto"),
    ("monitor", "top"),
    ("watch", "top"),
    ("list", LIST_OF_RUNS),
    ("ls", LIST_OF_RUNS),
    ("runs", LIST_OF_RUNS),
    ("version", "--version"),
];

/// The runs are folders, and the shell lists these.
const LIST_OF_RUNS: &str = "ls tmp/stage2";

/// What other programs call a subcommand, as it is typed here.
fn other_subcommand(word: &str) -> Option<&'static str> {
    OTHER_NAMES.into_iter().find(|(name, _)| *name == word).map(|(_, ours)| ours)
}

/// The subcommand that a mistyped word, or one of another program, may stand for.
fn near_subcommand<'a>(command: &'a Command, word: &str) -> Option<&'a str> {
    let seen = command.get_subcommands().filter(|known| !known.is_hide_set());
    other_subcommand(word)
        .or_else(|| most_like(word, seen.flat_map(Command::get_name_and_visible_aliases)))
}

/// What to type for a program under another profiler, which is given without it: CUPTI accepts one tool at a time.
fn without_tool(words: &[OsString], at: usize) -> Option<String> {
    let tool = words.get(at)?.to_str().filter(|word| ["nsys", "ncu"].contains(word))?;
    let (ahead, behind) = (words.get(..at)?, words.get(at + 1..)?);
    let program = match behind.split_first() {
        Some((verb, program)) if verb == "profile" || verb == "launch" => program,
        _ => behind,
    };
    let line = match program.first() {
        // The values of its own options cannot be told from the program.
        Some(first) if !is_option(first) => with_command(&[ahead, program].concat(), at),
        _ => "stage2-launch -- COMMAND [ARG]...".to_owned(),
    };
    Some(format!("stage2-launch runs {tool} itself, in a separate pass: {line}"))
}

/// The command line in which `words` from `at` on are the command of the workload.
fn with_command(words: &[impl AsRef<OsStr>], at: usize) -> String {
    let mut line = "stage2-launch".to_owned();
    for (index, word) in words.iter().map(AsRef::as_ref).enumerate() {
        // One that stands at the end has nothing behind it.
        if word == "--" {
            continue;
        }
        let text = word.to_string_lossy();
        if index == at && text.contains(' ') && text.split(' ').all(|part| shown(part) == part) {
            // A whole command line in quotes.
            line.push_str(&format!(" -- {text}"));
            continue;
        }
        let is_script = index == at && Path::new(word).extension().is_some_and(|of| of == "py");
        line.push_str(if index == at { " -- " } else { " " });
        line.push_str(if is_script { "python " } else { "" });
        line.push_str(&shown(word));
    }
    line
}
