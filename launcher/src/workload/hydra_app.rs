//! The command of a Python workload -> whether its source is a Hydra app. Nothing of it is run.
//!
//! Only files below the working directory, the script's folder and PYTHONPATH are looked at: what is
//! installed belongs to others, and is a library more often than the app.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use stage2_analysis::files;

/// Where a Hydra app says that it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HydraApp {
    /// The file.
    pub(crate) file: PathBuf,
    /// Line of its entry point, from 1.
    pub(crate) line: usize,
}

/// A larger source is not looked at.
const MAX_SOURCE_BYTES: u64 = 1 << 20;
/// Files that are read: the program and what it imports.
const MAX_FILES: usize = 16;
/// Folders that modules are looked for in.
const MAX_ROOTS: usize = 16;
/// Imports that are followed from the program on: `__main__` often only calls another module.
const MAX_DEPTH: usize = 2;

/// Looks at the source that `command` runs in the folder `cwd`; nothing where it cannot be found, or
/// is no Hydra app.
pub(crate) fn hydra_app(
    command: &[OsString],
    cwd: &Path,
    python_path: Option<&OsStr>,
) -> Option<HydraApp> {
    let mut roots = vec![cwd.to_owned()];
    let further = python_path.into_iter().flat_map(std::env::split_paths);
    roots.extend(further.map(|root| cwd.join(root)).take(MAX_ROOTS));
    let program = program(command, cwd, &roots)?;
    roots.extend(program.parent().map(Path::to_owned));
    let mut seen = BTreeSet::from([program.clone()]);
    let mut queue = VecDeque::from([(program, 0)]);
    let mut read = 0;
    while let Some((file, depth)) = queue.pop_front() {
        read += 1;
        if read > MAX_FILES {
            break;
        }
        let Ok(bytes) = files::read(&file, MAX_SOURCE_BYTES) else { continue };
        let source = String::from_utf8_lossy(&bytes);
        if let Some(line) = entry_point(&source) {
            return Some(HydraApp { file, line });
        }
        if depth == MAX_DEPTH {
            continue;
        }
        for module in imports(&source) {
            let found = match module.strip_prefix('.') {
                // One dot is the folder of the file, each further one the folder above.
                Some(rest) => {
                    let up = rest.len() - rest.trim_start_matches('.').len();
                    let folder = file.ancestors().nth(up + 1);
                    folder
                        .and_then(|folder| module_file(rest.trim_start_matches('.'), folder, false))
                }
                None => roots.iter().find_map(|root| module_file(&module, root, false)),
            };
            if let Some(found) = found.filter(|found| seen.insert(found.clone())) {
                queue.push_back((found, depth + 1));
            }
        }
    }
    None
}

/// The file of the program: `-m MODULE` or the first script among the words, also behind torchrun and
/// the like; or the command itself, where it is a script for Python.
fn program(command: &[OsString], cwd: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let mut words = command.iter().skip(1).filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        let found = match word {
            "-c" => return None,
            "-m" | "--module" => {
                let module = words.next()?;
                roots.iter().find_map(|root| module_file(module, root, true))
            }
            _ if word.ends_with(".py") => Some(cwd.join(word)).filter(|file| file.is_file()),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    let first = command.first()?.to_str()?;
    let file = if first.contains('/') { cwd.join(first) } else { crate::env::on_path(first)? };
    let bytes = files::read(&file, MAX_SOURCE_BYTES).ok()?;
    let head = bytes.split(|byte| *byte == b'\n').next()?;
    let head = std::str::from_utf8(head).ok()?;
    (head.starts_with("#!") && head.contains("python")).then_some(file)
}

/// The file of a dotted module below `root`; the one that `python -m` runs, where it is `main`.
fn module_file(module: &str, root: &Path, main: bool) -> Option<PathBuf> {
    let is_name = |part: &str| part.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !module.split('.').all(is_name) {
        return None;
    }
    let path = root.join(module.replace('.', "/"));
    let of_package = path.join(if main { "__main__.py" } else { "__init__.py" });
    let of_module = (!module.is_empty()).then(|| path.with_extension("py"));
    [Some(of_package), of_module].into_iter().flatten().find(|file| file.is_file())
}

/// The line of Hydra's decorator, or of a call of `hydra.main`, in a file that imports hydra.
fn entry_point(source: &str) -> Option<usize> {
    let lines = || source.lines().map(str::trim_start);
    let imports = |line: &str| {
        let rest = line.strip_prefix("import ").or_else(|| line.strip_prefix("from "));
        let package = rest.and_then(|rest| rest.trim_start().split([' ', '.', ',', ';']).next());
        package == Some("hydra")
    };
    if !lines().any(imports) {
        return None;
    }
    let is_entry = |line: &str| {
        let decorator = line.strip_prefix('@').and_then(|name| name.split('(').next());
        decorator.is_some_and(|name| name.trim_end().ends_with("main"))
            || (!line.starts_with('#') && line.contains("hydra.main("))
    };
    lines().position(is_entry).map(|at| at + 1)
}

/// Modules that a source names in `import` and `from` lines, with the names behind them, which may be
/// modules as well.
fn imports(source: &str) -> Vec<String> {
    let word = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for line in source.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("import ") {
            found.extend(rest.split(',').map(word));
        } else if let Some((module, names)) =
            line.strip_prefix("from ").and_then(|rest| rest.split_once(" import "))
        {
            let module = module.trim();
            found.push(module.to_owned());
            let dot = if module.ends_with('.') { "" } else { "." };
            let names = names.trim_start_matches('(').split(',').map(word);
            found
                .extend(names.filter(|name| !name.is_empty()).map(|n| format!("{module}{dot}{n}")));
        }
    }
    found
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
            ("pkg/app.py", "from hydra import main as hydra_main\n@hydra_main(config_name='c')\n"),
            ("rel/__main__.py", "from . import cli\ncli.run()\n"),
            ("rel/cli.py", "from .deep.er import go\n"),
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
            (&["./bin/tool"], found("./bin/tool", 5)),
        ] {
            let expected = expected.map(|(file, line)| (file.replace("./", ""), line));
            let seen = folder.look(words).map(|(file, line)| (file.replace("./", ""), line));
            assert_eq!(seen, expected, "{words:?}");
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
