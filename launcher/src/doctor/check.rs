//! Where a check looks, what it knows, and what it found: what every group of checks shares.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;
use stage2_contract::text::{shorten, visible};
use stage2_model::EmptyCause;

use crate::env::{Answer, NoAnswer, answer, is_executable};

/// Characters of a text that quotes something from outside.
const QUOTED: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// Nothing to do.
    Ok,
    /// It could not be made; the text states why.
    NotChecked,
    /// A part of the results will be missing, or has to be read with care.
    Warning,
    /// A run would record nothing, or would not start.
    Problem,
}

impl Status {
    /// The word on the terminal.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::NotChecked => "not checked",
            Status::Warning => "warning",
            Status::Problem => "problem",
        }
    }
}

/// Checks of one subject; the order is that of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Group {
    Gpu,
    Collector,
    Profilers,
    Permissions,
    Tools,
    Machine,
}

impl Group {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Group::Gpu => "GPU",
            Group::Collector => "Collector and workload",
            Group::Profilers => "Other profilers",
            Group::Permissions => "Permissions",
            Group::Tools => "Nsight tools",
            Group::Machine => "Container and disk",
        }
    }
}

/// What to do in one case.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fix {
    /// The case, as docs/doctor.md names it.
    pub(crate) when: &'static str,
    pub(crate) status: Status,
    /// What to do, as the program prints it.
    pub(crate) text: &'static str,
}

impl Fix {
    pub(super) const fn problem(when: &'static str, text: &'static str) -> Fix {
        Fix { when, status: Status::Problem, text }
    }

    pub(super) const fn warning(when: &'static str, text: &'static str) -> Fix {
        Fix { when, status: Status::Warning, text }
    }
}

/// A check, as docs/doctor.md describes it.
#[derive(Debug)]
pub(crate) struct CheckInfo {
    /// Its name in the JSON, which never changes.
    pub(crate) id: &'static str,
    pub(crate) group: Group,
    pub(crate) looks_at: &'static str,
    pub(crate) why: &'static str,
    /// All that it may tell to do.
    pub(crate) fixes: &'static [Fix],
    /// The causes of a run without GPU work that a problem or a warning here may explain.
    pub(crate) explains: &'static [EmptyCause],
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Check {
    pub(crate) id: &'static str,
    pub(crate) group: Group,
    pub(crate) status: Status,
    /// What was found, in one line.
    pub(crate) what: String,
    /// What it looks at, and why that matters; the same for every result.
    pub(crate) looks_at: &'static str,
    pub(crate) why: &'static str,
    /// What to do; none: nothing.
    pub(crate) fix: Option<&'static str>,
    /// What it follows from, a line each; shown with `-v`.
    pub(crate) details: Vec<String>,
    #[serde(skip)]
    pub(crate) explains: &'static [EmptyCause],
}

impl CheckInfo {
    fn check(&self, status: Status, what: impl Into<String>) -> Check {
        Check {
            id: self.id,
            group: self.group,
            status,
            what: quoted(&what.into()),
            looks_at: self.looks_at,
            why: self.why,
            fix: None,
            details: Vec::new(),
            explains: self.explains,
        }
    }

    pub(crate) fn ok(&self, what: impl Into<String>) -> Check {
        self.check(Status::Ok, what)
    }

    pub(crate) fn not_checked(&self, why: impl Into<String>) -> Check {
        self.check(Status::NotChecked, why)
    }

    /// The case of the fix at `index` of [`CheckInfo::fixes`]; tests find a number that is none of them.
    pub(crate) fn case(&self, index: usize, what: impl Into<String>) -> Check {
        let fix = self.fixes.get(index);
        debug_assert!(fix.is_some(), "{} has no fix {index}", self.id);
        let status = fix.map_or(Status::Warning, |fix| fix.status);
        Check { fix: fix.map(|fix| fix.text), ..self.check(status, what) }
    }
}

impl Check {
    pub(crate) fn with(mut self, details: impl IntoIterator<Item = String>) -> Check {
        self.details.extend(details.into_iter().map(|line| quoted(&line)));
        self
    }

    /// Whether it asks for something.
    pub(crate) fn is_bad(&self) -> bool {
        self.status >= Status::Warning
    }
}

/// A text that may come from anywhere, as it can be shown.
fn quoted(text: &str) -> String {
    shorten(&visible(text.as_bytes()), QUOTED)
}

/// More of a file is not read: those of /proc have no size.
const MAX_BYTES: u64 = 1 << 20;
/// All of the checks together take no longer than this.
const PATIENCE: Duration = Duration::from_millis(4000);
/// A program that needs longer for its answer hangs.
const ANSWER: Duration = Duration::from_millis(3000);

#[derive(Debug)]
pub(crate) struct System {
    /// `/`, or the folder that stands for it.
    pub(super) root: PathBuf,
    pub(super) variables: BTreeMap<OsString, OsString>,
    pub(super) deadline: Instant,
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

    pub(crate) fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    pub(crate) fn exists(&self, absolute: &str) -> bool {
        self.path(absolute).exists()
    }

    /// The beginning of a file; bytes that are not UTF-8 are replaced.
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

/// The first number of a version.
pub(super) fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}
