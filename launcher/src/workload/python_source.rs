//! The text of a Python file -> what it imports, calls and defines, as far as lines show it.
//!
//! No parser: strings of several lines and calls that a name is made for at run time are not seen.

use std::collections::{BTreeMap, BTreeSet};

/// What the lines of a file say.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Names that imports bind, wherever they stand, and the dotted path that each stands for, with the
    /// dots of a relative one.
    imports: BTreeMap<String, String>,
    /// Dotted names that are called while the file is run as a program.
    program: BTreeSet<String>,
    /// Dotted names that each function calls.
    functions: BTreeMap<String, BTreeSet<String>>,
    /// Hydra's entry points: the line, from 1, and the name of the function, where it has one.
    entries: Vec<(usize, Option<String>)>,
}

/// A function of another file that a file calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Called {
    /// The module, with the dots of a relative one.
    pub(super) module: String,
    /// The function in it.
    pub(super) function: String,
}

impl Source {
    /// Reads the text of a file.
    pub(super) fn read(text: &str) -> Source {
        let mut source = Source::default();
        let lines = logical_lines(text);
        let is_hydra = lines.iter().any(|(_, line)| imports_hydra(line.trim_start()));
        let mut function: Option<(usize, String)> = None;
        for (at, (number, line)) in lines.iter().enumerate() {
            let code = line.trim_start();
            if code.is_empty() || code.starts_with('#') {
                continue;
            }
            let indent = line.len() - code.len();
            if function.as_ref().is_some_and(|(of, _)| indent <= *of) {
                function = None;
            }
            if source.import(code) {
                continue;
            }
            if is_hydra && code.starts_with('@') && is_entry_decorator(code) {
                let name = lines.iter().skip(at + 1).find_map(|(_, line)| defined(line));
                source.entries.push((*number, name.map(str::to_owned)));
            } else if is_hydra && code.contains("hydra.main(") {
                let name = code.split_once('=').map(|(name, _)| name.trim());
                let name = name.filter(|name| !name.is_empty() && name.chars().all(is_name));
                source.entries.push((*number, name.map(str::to_owned)));
            }
            if code.starts_with('@') || code.starts_with("class ") {
                continue;
            }
            if let Some(name) = defined(code) {
                // A function inside of another one is a part of it.
                if function.is_none() {
                    source.functions.entry(name.to_owned()).or_default();
                    function = Some((indent, name.to_owned()));
                }
                continue;
            }
            let calls = calls(code.split('#').next().unwrap_or_default()).map(str::to_owned);
            match &function {
                Some((_, name)) => {
                    source.functions.entry(name.clone()).or_default().extend(calls);
                }
                None => source.program.extend(calls),
            }
        }
        source
    }

    /// The line of the first entry point of the file.
    pub(super) fn entry(&self) -> Option<usize> {
        self.entries.first().map(|(line, _)| *line)
    }

    /// What happens when `wanted` is called, or, with none, when the file is run as a program: the line
    /// of the entry point of Hydra that is reached, or what is called of other files.
    pub(super) fn reached(&self, wanted: Option<&str>) -> Result<usize, Vec<Called>> {
        let mut names: Vec<String> = match wanted {
            Some(name) => vec![name.to_owned()],
            None => self.program.iter().cloned().collect(),
        };
        let mut seen: BTreeSet<String> = names.iter().cloned().collect();
        let mut called = Vec::new();
        while let Some(name) = names.pop() {
            let entry = self.entries.iter().find(|(_, own)| own.as_deref() == Some(name.as_str()));
            if let Some((line, _)) = entry {
                return Ok(*line);
            }
            if let Some(inner) = self.functions.get(&name) {
                let new = inner.iter().filter(|name| seen.insert((*name).clone()));
                names.extend(new.cloned());
            } else {
                called.extend(self.imported(&name));
            }
        }
        Err(called)
    }

    /// The import that the start of a dotted name stands for; the longest one, for `import a.b` binds
    /// `a.b`.
    fn imported(&self, name: &str) -> Option<Called> {
        let ends = name.match_indices('.').map(|(at, _)| at).chain([name.len()]);
        let ends: Vec<usize> = ends.collect();
        ends.into_iter().rev().find_map(|end| {
            let path = format!("{}{}", self.imports.get(name.get(..end)?)?, name.get(end..)?);
            let (package, function) = path.rsplit_once('.')?;
            let relative = package.trim_matches('.').is_empty();
            // The dots of a relative import belong to its module.
            let module = format!("{package}{}", if relative { "." } else { "" });
            Some(Called { module, function: function.to_owned() })
        })
    }

    /// Takes in an import; false: the line is none.
    fn import(&mut self, line: &str) -> bool {
        let bound = |text: &str| {
            let mut words = text.split_whitespace();
            let name = words.next()?.to_owned();
            let alias = words.nth(1).map_or_else(|| name.clone(), str::to_owned);
            Some((alias, name))
        };
        if let Some(rest) = line.strip_prefix("import ") {
            for (alias, module) in rest.split(',').filter_map(bound) {
                self.imports.insert(alias, module);
            }
            return true;
        }
        let from = line.strip_prefix("from ").and_then(|rest| rest.split_once(" import "));
        let Some((module, names)) = from else { return false };
        let names = names.trim().trim_matches(['(', ')']);
        for (alias, name) in names.split(',').filter_map(bound) {
            let module = module.trim();
            let dot = if module.ends_with('.') { "" } else { "." };
            self.imports.insert(alias, format!("{module}{dot}{name}"));
        }
        true
    }
}

/// Lines with their number, from 1; an import in brackets is one line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (at, line) in text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default();
        let starts = !open && code.trim_start().starts_with("from ") && code.contains('(');
        match found.last_mut().filter(|_| open) {
            Some((_, last)) => {
                last.push(' ');
                last.push_str(code.trim());
            }
            None => found.push((at + 1, if starts { code } else { line }.to_owned())),
        }
        open = (open || starts) && !code.contains(')');
    }
    found
}

/// The function that a line defines.
fn defined(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let code = code.strip_prefix("async ").unwrap_or(code);
    let name = code.strip_prefix("def ")?.trim_start();
    name.split(|c| !is_name(c)).next().filter(|name| !name.is_empty())
}

/// Dotted names in front of an opening bracket.
fn calls(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices('(').filter_map(|(at, _)| {
        let before = line.get(..at)?;
        let name = before.rsplit(|c| !(is_name(c) || c == '.')).next()?;
        (!name.is_empty() && !name.starts_with('.')).then_some(name)
    })
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn imports_hydra(line: &str) -> bool {
    let rest = line.strip_prefix("import ").or_else(|| line.strip_prefix("from "));
    let package = rest.and_then(|rest| rest.trim_start().split([' ', '.', ',', ';']).next());
    package == Some("hydra")
}

/// Whether a decorator is Hydra's: `@hydra.main(...)`, or another name that ends in `main`.
fn is_entry_decorator(line: &str) -> bool {
    let name = line.strip_prefix('@').and_then(|name| name.split('(').next());
    name.is_some_and(|name| name.trim_end().ends_with("main"))
}
