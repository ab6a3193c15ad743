//! The command of a Python workload -> whether its source is a Hydra app. Nothing of it is run.
//!
//! Only files below the working directory, the script's folder and PYTHONPATH are looked at: what is
//! installed belongs to others, and is a library more often than the app.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use stage2_contract::order::IntoOrdered as _;
use stage2_read::files;

use super::python::{MAX_SOURCE_BYTES, imports, module_file, program, roots};

/// Where a Hydra app says that it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HydraApp {
    pub(crate) file: PathBuf,
    /// Line of its entry point, from 1.
    pub(crate) line: usize,
}

/// Files that are read: the program and what it imports.
const MAX_FILES: usize = 16;
/// Calls into other files that are followed: `__main__` often only calls another module.
const MAX_DEPTH: usize = 2;

/// Looks at the source that `command` runs in `cwd`; nothing where it is not found, or no Hydra app.
pub(crate) fn hydra_app(
    command: &[OsString],
    cwd: &Path,
    python_path: Option<&OsStr>,
) -> Option<HydraApp> {
    let mut roots = roots(cwd, python_path);
    let program = program(command, cwd, &roots)?;
    roots.extend(program.parent().map(Path::to_owned));
    let mut seen = BTreeSet::new();
    let mut queue = VecDeque::from([(program, None::<String>, 0)]);
    for _ in 0..MAX_FILES {
        let Some((file, function, depth)) = queue.pop_front() else { break };
        let Ok(bytes) = files::read(&file, MAX_SOURCE_BYTES) else { continue };
        let source = Source::read(&String::from_utf8_lossy(&bytes));
        // A library may have an entry point of its own: of other files only what is called counts.
        let own = source.entries.first().filter(|_| function.is_none());
        let called = match own {
            Some((line, _)) => Ok(*line),
            None => source.reached(function.as_deref()),
        };
        let called = match called {
            Ok(line) => return Some(HydraApp { file, line }),
            Err(called) => called,
        };
        for Called { module, function } in called {
            if let Some(found) = imported_file(&module, &file, &roots).filter(|_| depth < MAX_DEPTH)
                && seen.insert((found.clone(), function.clone()))
            {
                queue.push_back((found, Some(function), depth + 1));
            }
        }
    }
    None
}

/// The file of a module that `file` imports.
fn imported_file(module: &str, file: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let Some(rest) = module.strip_prefix('.') else {
        return roots.iter().find_map(|root| module_file(module, root, false));
    };
    // One dot is the folder of the file, each further one the folder above.
    let name = rest.trim_start_matches('.');
    let folder = file.ancestors().nth(rest.len() - name.len() + 1)?;
    module_file(name, folder, false)
}

/// What the lines of a Python file state that it imports, calls and defines. No parser: strings of several lines
/// and calls that a name is made for at run time are not seen.
#[derive(Debug, Default)]
struct Source {
    /// Names that imports bind anywhere, and the dotted path of each, with the dots of a relative one.
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
struct Called {
    /// The module, with the dots of a relative one.
    pub(super) module: String,
    pub(super) function: String,
}

impl Source {
    pub(super) fn read(text: &str) -> Source {
        let mut source = Source::default();
        let lines = logical_lines(text);
        let is_hydra = lines.iter().any(|(_, line)| imports(line, "hydra"));
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

    /// What happens when `wanted` is called, or, with none, when the file is run as a program: the line
    /// of the entry point of Hydra that is reached, or what is called of other files.
    fn reached(&self, wanted: Option<&str>) -> Result<usize, Vec<Called>> {
        let mut names: Vec<String> = match wanted {
            Some(name) => vec![name.to_owned()],
            None => self.program.iter().cloned().collect(),
        };
        let mut seen: BTreeSet<String> = names.iter().cloned().into_set();
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

    /// The import that the longest start of a dotted name stands for: `import a.b` binds `a.b`.
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

/// Whether a decorator is Hydra's: `@hydra.main(...)`, or another name that ends in `main`.
fn is_entry_decorator(line: &str) -> bool {
    let name = line.strip_prefix('@').and_then(|name| name.split('(').next());
    name.is_some_and(|name| name.trim_end().ends_with("main"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: &str =
        "import sys\nimport hydra\n\n@hydra.main(version_base=None)\ndef main(c): ...\n";

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn with(files: &[(&str, &str)]) -> Folder {
            let dir = tempfile::tempdir().expect("folder");
            for (name, text) in files {
                let path = dir.path().join(name);
                std::fs::create_dir_all(path.parent().expect("parent")).expect("folders");
                std::fs::write(path, text).expect("file");
            }
            Folder(dir)
        }

        fn look(&self, words: &[&str]) -> Option<(String, usize)> {
            let command: Vec<OsString> = words.iter().map(OsString::from).collect();
            let found = hydra_app(&command, self.0.path(), Some(OsStr::new("lib:/nowhere")))?;
            let file = found.file.strip_prefix(self.0.path()).expect("in the folder");
            Some((file.to_string_lossy().into_owned(), found.line))
        }
    }

    #[test]
    fn apps_are_found_however_they_are_started() {
        let folder = Folder::with(&[
            ("app.py", APP),
            ("pkg/__init__.py", ""),
            ("pkg/__main__.py", "from pkg.app import main\nmain()\n"),
            (
                "pkg/app.py",
                "from hydra import main as hydra_main\n@hydra_main(config_name='c')\ndef main(c):\n  pass\n",
            ),
            ("rel/__main__.py", "from . import cli\ncli.run()\n"),
            (
                "rel/cli.py",
                "def run():\n    from .deep.er import (  # late\n        go,\n    )\n    go()\n",
            ),
            ("guarded.py", "import pkg.app\nif __name__ == '__main__':\n    pkg.app.main()\n"),
            ("init.py", "import sys\nfrom package import main as m\nsys.exit(m())\n"),
            ("package/__init__.py", "from .inner import main\n"),
            (
                "package/inner.py",
                "import hydra\n@hydra.main(\n    None,\n)\ndef main(c):\n    pass\n",
            ),
            ("rel/deep/__init__.py", ""),
            ("rel/deep/er.py", "import hydra\ngo = hydra.main(version_base=None)(f)\n"),
            ("lib/far.py", APP),
            ("bin/tool", &format!("#!/usr/bin/env python3\n{APP}")),
        ]);
        let found = |file: &str, line| Some((file.to_owned(), line));
        for (words, expected) in [
            (&["python", "app.py", "x=1"][..], found("app.py", 4)),
            (&["env", "A=b", "python3", "-u", "app.py"], found("app.py", 4)),
            (&["torchrun", "--nproc-per-node", "2", "app.py"], found("app.py", 4)),
            (&["python", "-m", "torch.distributed.run", "app.py"], found("app.py", 4)),
            (&["python", "-m", "pkg", "model=x"], found("pkg/app.py", 2)),
            (&["python", "-m", "rel"], found("rel/deep/er.py", 2)),
            (&["python", "-m", "far"], found("lib/far.py", 4)),
            (&["python", "guarded.py"], found("pkg/app.py", 2)),
            (&["python", "init.py"], found("package/inner.py", 2)),
            (&["./bin/tool"], found("./bin/tool", 5)),
        ] {
            let expected = expected.map(|(file, line)| (file.replace("./", ""), line));
            let seen = folder.look(words).map(|(file, line)| (file.replace("./", ""), line));
            assert_eq!(seen, expected, "{words:?}");
        }
    }

    #[test]
    fn programs_that_only_use_functions_of_an_app_are_none() {
        let train = "import hydra\n\ndef build_model():\n    return helper()\n\ndef helper():\n    \
                     return 1\n\n@hydra.main(version_base=None)\ndef main(c):\n    build_model()\n\n\
                     if __name__ == '__main__':\n    main()\n";
        let folder = Folder::with(&[
            ("train.py", train),
            (
                "eval.py",
                "import argparse\nfrom train import build_model\n\ndef main():\n    build_model()\n\n\
                 if __name__ == '__main__':\n    main()\n",
            ),
            ("script.py", "from train import build_model, main\nmodel = build_model()  # main()\n"),
            ("module.py", "import train\nmodel = train.build_model()\n"),
            ("app.py", "import train\ntrain.main()\n"),
        ]);
        for name in ["eval.py", "script.py", "module.py"] {
            assert_eq!(folder.look(&["python", name]), None, "{name}");
        }
        for name in ["app.py", "train.py"] {
            let found = folder.look(&["python", name]);
            assert_eq!(found, Some(("train.py".to_owned(), 9)), "{name}");
        }
    }

    #[test]
    fn other_programs_are_no_apps_and_nothing_strange_is_followed() {
        let folder = Folder::with(&[
            ("plain.py", "import hydrant\nfrom hydra_zen import x\n@app.main()\n"),
            ("compose.py", "from hydra import compose, initialize\n"),
            ("comment.py", "import hydra\n# hydra.main() is not used here\n"),
            ("circle.py", "import circle2\nimport circle\n"),
            ("circle2.py", "import circle\n"),
            ("bytes.py", "import hydra\0\n@hydra.main\n"),
            ("huge.py", &"#".repeat((1 << 20) + 1)),
            ("out.py", "import ../app\nfrom ...... import x\nfrom  import \n"),
            ("folder.py/x", ""),
            ("bin/tool", "#!/bin/sh\nimport hydra\n@hydra.main\n"),
        ]);
        for name in
            ["plain", "compose", "comment", "circle", "bytes", "huge", "out", "folder", "no"]
        {
            assert_eq!(folder.look(&["python", &format!("{name}.py")]), None, "{name}");
            assert_eq!(folder.look(&["python", "-m", name]), None, "{name}");
        }
        for words in
            [&["./bin/tool"][..], &["python", "-c", "x", "app.py"], &["true"], &["python"], &[]]
        {
            assert_eq!(folder.look(words), None, "{words:?}");
        }
    }
}
