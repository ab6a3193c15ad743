//! The command of the workload -> the program that will run, and whether it can load the collector.

mod engine;
mod hydra_app;
mod loading;
mod python;

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::env::{is_executable, on_path, path_folders};
use crate::failure::Failure;
use crate::threads::MORE_PROCESSES;
use loading::File;
use stage2_contract::text::visible_path;
use stage2_model::Finding;
use stage2_model::finding::Id;
use stage2_read::files;

pub(crate) use engine::Engine;
pub(crate) use hydra_app::hydra_app;
pub(crate) use loading::{Loading, is_library, loading};

/// Why a program does not run, and the exit status that a shell gives for it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {}", .finding.what, .finding.why)]
pub(crate) struct NotRunnable {
    /// 127: not found; 126: found, and cannot be run.
    pub(crate) exit: u8,
    pub(crate) finding: Box<Finding>,
}

// Names stand in backticks: what follows the colon behind `get-secret` would pass for a secret.
impl NotRunnable {
    pub(crate) fn new(
        exit: u8,
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> NotRunnable {
        let finding = Box::new(Id::WorkloadNotRunnable.found(what, why, remedy));
        NotRunnable { exit, finding }
    }
}

/// Commands that a shell has built in: no file on PATH runs them.
const OF_SHELLS: [&str; 8] = ["cd", "export", "source", "ulimit", "set", "unset", "alias", "exec"];

/// Programs on PATH that are looked at for one with a similar name.
const MOST_COMPARED: usize = 20_000;

/// Finds the file that the word `program` runs, as `execvp` does, or what is certain to fail. What the
/// kernel alone can judge (formats, permissions of others) is left to the start of the process.
pub(crate) fn find(program: &OsStr) -> Result<PathBuf, NotRunnable> {
    let path = located(program)?;
    let interpreter = match loading::look(&path) {
        File::Script(words) => words.first().map(PathBuf::from),
        File::Elf(elf) => elf.interpreter,
        File::DamagedElf => return Err(damaged(&path)),
        File::Other if is_script(&path) => return Err(no_first_line(&path)),
        File::Elf32 | File::Other => None,
    };
    match interpreter {
        Some(interpreter) if !interpreter.exists() => Err(no_interpreter(&path, &interpreter)),
        _ => Ok(path),
    }
}

fn located(program: &OsStr) -> Result<PathBuf, NotRunnable> {
    let path = Path::new(program);
    if program.as_bytes().contains(&b'/') || program == "." || program == ".." {
        return match path.metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(not_found(path)),
            Err(_) => Ok(path.to_owned()),
            Ok(_) if is_executable(path) => Ok(path.to_owned()),
            Ok(_) => Err(not_executable(path)),
        };
    }
    if let Some(found) = on_path(program) {
        return Ok(found);
    }
    let mut files = path_folders().into_iter().map(|folder| folder.join(program));
    match files.find(|file| !program.is_empty() && file.is_file()) {
        Some(file) => Err(not_executable(&file)),
        None => Err(not_found(path)),
    }
}

/// What the failure to start `program` means.
pub(crate) fn why_not_started(program: &Path, error: &io::Error) -> NotRunnable {
    if let Err(known) = find(program.as_os_str()) {
        return known;
    }
    let what = format!("cannot run `{}`", program.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let remedy = format!("check the permissions of {} and its folders", program.display());
            NotRunnable::new(126, what, "permission denied", remedy)
        }
        _ if error.raw_os_error() == Some(Errno::ENOEXEC as i32) => {
            match located(program.as_os_str()).map(|path| loading::look(&path)) {
                Ok(File::Elf(_) | File::Elf32) => {
                    let why = "it is built for another machine";
                    NotRunnable::new(126, what, why, "build it for this one")
                }
                _ => no_first_line(program),
            }
        }
        io::ErrorKind::WouldBlock => NotRunnable::new(126, what, error.to_string(), MORE_PROCESSES),
        _ => NotRunnable::new(126, what, error.to_string(), ""),
    }
}

fn no_interpreter(path: &Path, interpreter: &Path) -> NotRunnable {
    let why = format!("its interpreter or loader `{}` is not there", visible_path(interpreter));
    let remedy = match interpreter.as_os_str().as_bytes().ends_with(b"\r") {
        true => "the script has Windows line endings: convert it with dos2unix",
        false => {
            "install it, correct the first line of the script, or give the interpreter: \
             -- INTERPRETER FILE"
        }
    };
    NotRunnable::new(127, format!("cannot run `{}`", path.display()), why, remedy)
}

/// Whether a file is a text that the kernel refuses to run. By other endings, it may know what runs it (binfmt_misc).
fn is_script(path: &Path) -> bool {
    let is_known = path.extension().is_none_or(|ending| ending == "sh" || ending == "py");
    is_known && text_head(path).is_some()
}

/// The beginning of a file that is a text.
fn text_head(path: &Path) -> Option<String> {
    let mut head = String::new();
    let read = files::open(path).and_then(|file| file.take(HEAD).read_to_string(&mut head));
    // A letter that the end of the head cuts makes it no text; then the kernel says so.
    let is_text = |c: char| !c.is_control() || c.is_ascii_whitespace();
    (read.is_ok_and(|bytes| bytes > 0) && head.chars().all(is_text)).then_some(head)
}

/// Bytes at the start of a file that tell a text.
const HEAD: u64 = 64;

fn no_first_line(path: &Path) -> NotRunnable {
    let (what, shown) = (format!("cannot run `{}`", path.display()), visible_path(path));
    let why = "it is not a program for this machine, and its first line is not #!";
    let interpreter = if path.extension().is_some_and(|of| of == "py") { "python" } else { "sh" };
    NotRunnable::new(126, what, why, format!("give its interpreter, e.g. -- {interpreter} {shown}"))
}

fn damaged(path: &Path) -> NotRunnable {
    let what = format!("cannot run `{}`", path.display());
    let why = "it begins like an ELF program, and the rest of its header is damaged or missing";
    NotRunnable::new(126, what, why, "build or copy it again")
}

fn not_executable(path: &Path) -> NotRunnable {
    let what = format!("cannot run `{}`", path.display());
    if path.is_dir() {
        return NotRunnable::new(126, what, "it is a folder", "give a program in it");
    }
    // A mode alone makes it no program.
    if text_head(path).is_some_and(|head| !head.starts_with("#!")) {
        return no_first_line(path);
    }
    let remedy =
        format!("`chmod +x {0}`, or give its interpreter, e.g. -- python {0}", path.display());
    NotRunnable::new(126, what, "it is not executable", remedy)
}

fn not_found(program: &Path) -> NotRunnable {
    let bytes = program.as_os_str().as_bytes();
    if bytes.is_empty() {
        let remedy = "give a command behind `--`; a variable of the shell in it may not be set";
        return NotRunnable::new(127, "the command is empty", "", remedy);
    }
    let remedy = if bytes.starts_with(b"-") {
        "options of stage2-launch go before `--`, and the command of the workload after it"
            .to_owned()
    } else if bytes.contains(&b'=') && !bytes.contains(&b'/') {
        "it looks like KEY=VALUE: settings of stage2-launch go before `--`, those of the workload \
         after its command, and a variable is set with -- env NAME=VALUE COMMAND"
            .to_owned()
    } else if bytes.contains(&b' ') {
        "it is one word with spaces in it: remove the quotes, or use `-- sh -c '...'`; the command does \
         not run in a shell"
            .to_owned()
    } else if bytes.contains(&b'/') {
        "check the path".to_owned()
    } else if program.is_file() {
        format!("a file of that name is here: -- python {0}, or -- ./{0}", program.display())
    } else if program.to_str().is_some_and(|name| OF_SHELLS.contains(&name)) {
        "it is a command of the shell: use `-- sh -c '...'`".to_owned()
    } else {
        let near = program.to_str().and_then(similar);
        let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? Else "));
        format!("{near}check the spelling, put its folder into PATH, or give its path")
    };
    let what = format!("`{}`: command not found", program.display());
    NotRunnable::new(127, what, "", remedy)
}

/// The program on PATH whose name is most like `name`.
fn similar(name: &str) -> Option<String> {
    let length = name.chars().count();
    // Of a short name, two other letters make another word.
    let limit = if length <= 6 { 1 } else { 2 };
    if length < 2 {
        return None;
    }
    let entries = path_folders().into_iter().filter_map(|folder| folder.read_dir().ok());
    let near = entries.flatten().flatten().take(MOST_COMPARED).filter_map(|entry| {
        let other = entry.file_name().into_string().ok()?;
        let may_be = other.chars().count().abs_diff(length) <= limit;
        let distance = may_be.then(|| strsim::damerau_levenshtein(name, &other))?;
        (distance <= limit && is_executable(&entry.path())).then_some((distance, other))
    });
    near.min().map(|(_, name)| name)
}

impl From<NotRunnable> for Failure {
    fn from(problem: NotRunnable) -> Failure {
        Failure::NotRun { text: problem.finding.to_string(), exit: problem.exit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redaction;

    #[test]
    fn a_process_that_is_refused_has_its_remedy() {
        let refused = io::Error::from_raw_os_error(Errno::EAGAIN as i32);
        let why = why_not_started(Path::new("sh"), &refused);
        assert_eq!(why.exit, 126);
        assert!(why.finding.remedy.contains("ulimit -u"), "{why}");
    }

    #[test]
    fn a_name_like_that_of_a_secret_hides_nothing_of_the_message() {
        let folder = tempfile::tempdir().expect("a folder");
        let token = folder.path().join("token");
        std::fs::write(&token, "").expect("a file");
        for name in [OsStr::new("get-secret"), OsStr::new("vault_token"), token.as_os_str()] {
            let said = find(name).expect_err("it is none").finding.to_string();
            assert_eq!(redaction::text(&said), said);
        }
    }
}
