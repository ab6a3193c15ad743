//! The command of a Python workload -> the file that Python runs, and what that file imports. Nothing of it is
//! run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use stage2_read::files;

/// Larger files are not source code, bytes.
pub(super) const MAX_SOURCE_BYTES: u64 = 1 << 20;
/// Folders of PYTHONPATH that are looked at.
const MAX_ROOTS: usize = 16;

/// The folders that Python imports from: the working directory and those of PYTHONPATH.
pub(super) fn roots(cwd: &Path, python_path: Option<&OsStr>) -> Vec<PathBuf> {
    let further = python_path.into_iter().flat_map(std::env::split_paths);
    let further = further.map(|root| cwd.join(root)).take(MAX_ROOTS);
    std::iter::once(cwd.to_owned()).chain(further).collect()
}

/// The file of the program: `-m MODULE` or the first script among the words, also behind torchrun and similar
/// ones; or the command itself, where it is a script for Python.
pub(super) fn program(command: &[OsString], cwd: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
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
pub(super) fn module_file(module: &str, root: &Path, main: bool) -> Option<PathBuf> {
    let is_name = |part: &str| part.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !module.split('.').all(is_name) {
        return None;
    }
    let path = root.join(module.replace('.', "/"));
    let of_package = path.join(if main { "__main__.py" } else { "__init__.py" });
    let of_module = (!module.is_empty()).then(|| path.with_extension("py"));
    [Some(of_package), of_module].into_iter().flatten().find(|file| file.is_file())
}

/// Whether a line of Python imports `package`, or something from it.
pub(super) fn imports(line: &str, package: &str) -> bool {
    let line = line.trim_start();
    let rest = line.strip_prefix("import ").or_else(|| line.strip_prefix("from "));
    rest.and_then(|rest| rest.trim_start().split([' ', '.', ',', ';']).next()) == Some(package)
}
