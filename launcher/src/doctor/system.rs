//! Files, variables and programs of a machine: the real one, or a folder that stands for it in a test.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::env::{Answer, NoAnswer, answer, is_executable};

/// More of a file is not read: those of /proc have no size.
const MAX_BYTES: u64 = 1 << 20;
/// All of the checks together take no longer than this.
const PATIENCE: Duration = Duration::from_millis(4000);
/// A program that needs longer for its answer hangs.
const ANSWER: Duration = Duration::from_millis(3000);

/// Where the checks look.
#[derive(Debug)]
pub(crate) struct System {
    /// `/`, or the folder that stands for it.
    root: PathBuf,
    variables: BTreeMap<OsString, OsString>,
    deadline: Instant,
}

impl System {
    /// This machine and the environment of this process.
    pub(crate) fn this() -> System {
        System {
            root: "/".into(),
            variables: std::env::vars_os().collect(),
            deadline: Instant::now() + PATIENCE,
        }
    }

    /// This system with a variable as a run of the workload would set it.
    pub(crate) fn with(mut self, name: &str, value: Option<&OsStr>) -> System {
        if let Some(value) = value {
            self.variables.insert(name.into(), value.to_owned());
        }
        self
    }

    /// A folder that holds `proc`, `sys`, ...
    #[cfg(test)]
    pub(crate) fn at(root: &Path, variables: &[(&str, &str)]) -> System {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        System { root: root.to_owned(), variables: variables.collect(), ..System::this() }
    }

    pub(crate) fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    pub(crate) fn exists(&self, absolute: &str) -> bool {
        self.path(absolute).exists()
    }

    /// The beginning of a file; bytes that are no UTF-8 are replaced.
    pub(crate) fn read(&self, absolute: &str) -> std::io::Result<String> {
        let mut bytes = Vec::new();
        std::fs::File::open(self.path(absolute))?.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The value behind `key:` in a file of such lines.
    pub(crate) fn field(&self, absolute: &str, key: &str) -> Option<String> {
        self.read(absolute).ok()?.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    }

    /// The number in a file that holds nothing else.
    pub(crate) fn number(&self, absolute: &str) -> Option<i64> {
        self.read(absolute).ok()?.trim().parse().ok()
    }

    /// A variable that is set: an empty list of devices hides them all.
    pub(crate) fn even_empty(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// A variable that is set and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.even_empty(name).filter(|value| !value.is_empty())
    }

    /// The first executable file of that name on PATH.
    pub(crate) fn on_path(&self, name: &str) -> Option<PathBuf> {
        let path = self.variable("PATH").unwrap_or(OsStr::new("/bin:/usr/bin"));
        std::env::split_paths(path).map(|dir| dir.join(name)).find(|file| is_executable(file))
    }

    /// The time that a program may take.
    pub(crate) fn patience(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now()).min(ANSWER)
    }

    pub(crate) fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// What a program prints, without a profiler in it.
    pub(crate) fn ask(&self, command: &mut Command) -> Result<String, NoAnswer> {
        crate::env::ask(command, self.patience())
    }

    /// How a program ends and all that it prints, in the environment that `command` has.
    pub(crate) fn run(&self, command: &mut Command) -> Result<Answer, NoAnswer> {
        answer(command, self.patience())
    }
}
