//! What a check looks at, and what it found: the types that every group of checks shares.

use serde::Serialize;
use stage2_contract::text::{shorten, visible};
use stage2_model::EmptyCause;

/// Characters of a text that quotes something from outside.
const QUOTED: usize = 300;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// Nothing to do.
    Ok,
    /// It could not be made; the text says why.
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
#[serde(rename_all = "snake_case")]
pub(crate) enum Group {
    /// The driver and the devices.
    Gpu,
    /// The collector, and what it needs in the workload.
    Collector,
    /// Who else uses CUPTI or the counters.
    Profilers,
    /// What the kernel, the driver and the container allow.
    Permissions,
    /// Nsight Systems and Nsight Compute.
    Tools,
    /// Container, memory and disk.
    Machine,
}

impl Group {
    /// Its heading.
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
    /// How the check comes out then.
    pub(crate) status: Status,
    /// What to do, as the program prints it.
    pub(crate) text: &'static str,
}

/// A check, as docs/doctor.md describes it.
#[derive(Debug)]
pub(crate) struct Known {
    /// Its name in the JSON, which never changes.
    pub(crate) id: &'static str,
    pub(crate) group: Group,
    /// What it looks at.
    pub(crate) looks_at: &'static str,
    /// Why that matters.
    pub(crate) why: &'static str,
    /// All that it may tell to do.
    pub(crate) fixes: &'static [Fix],
    /// The causes of a run without GPU work that a problem or a warning here may explain.
    pub(crate) explains: &'static [EmptyCause],
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

impl Known {
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

    /// The case of the fix at `index` of [`Known::fixes`]; a number that is none of them is a mistake
    /// that every test of the check finds.
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
