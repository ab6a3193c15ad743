//! The command of a Python workload -> whether its source is a Hydra app. Nothing of it is run.
//!
//! Only files below the working directory, the script's folder and PYTHONPATH are looked at: what is
//! installed belongs to others, and is a library more often than the app.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::python_source::{Called, Source};
use stage2_read::files;

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
/// Calls into other files that are followed from the program on: `__main__` often only calls another
/// module.
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
    let mut seen = BTreeSet::new();
    let mut queue = VecDeque::from([(program, None::<String>, 0)]);
    let mut read = 0;
    while let Some((file, function, depth)) = queue.pop_front() {
        read += 1;
        if read > MAX_FILES {
            break;
        }
        let Ok(bytes) = files::read(&file, MAX_SOURCE_BYTES) else { continue };
        let source = Source::read(&String::from_utf8_lossy(&bytes));
        // A library may have an entry point of its own: of other files only what is called counts.
        let own = source.entry().filter(|_| function.is_none());
        let called = match own.map_or_else(|| source.reached(function.as_deref()), Ok) {
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
