//! Nsight Systems and Nsight Compute: settings -> command lines -> a verdict on what came of them.
//!
//! Nothing is run here, and no table is read: `run` does the one, `stage2_read` the other.

pub(crate) mod ncu;
pub mod nsys;

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use stage2_contract::text::listed;
use stage2_model::finding::Id;
use stage2_model::{Finding, Severity, WorkloadExit};

/// A choice of the settings as the flag of the tool takes it: the word that the preset has.
fn word(choice: impl Serialize) -> String {
    let value = serde_json::to_value(choice).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn product(key: &str) -> &'static str {
    if key == "nsys" { "Nsight Systems" } else { "Nsight Compute" }
}

pub(crate) fn missing(key: &str, executable: &Path, why: &str) -> Finding {
    let product = product(key);
    let what = format!("skipping the {key} pass: `{}` {why}", executable.display());
    let remedy = format!(
        "install {product}, put its folder into PATH, or name it in pipeline.{key}.executable; \
         pipeline.{key}.enable=false leaves the pass out"
    );
    Id::ToolMissing.about(key).found(what, "", remedy)
}

/// A path that the output flags of the tools take as it is: they expand %p, %h, %q{...}.
fn without_patterns(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    let doubled = bytes.iter().flat_map(|&b| std::iter::repeat_n(b, if b == b'%' { 2 } else { 1 }));
    OsString::from_vec(doubled.collect())
}

fn saw(ranges: &[String]) -> String {
    if ranges.is_empty() {
        return "the collector saw no range".to_owned();
    }
    format!("the collector saw {}", listed(ranges, 8))
}

/// A command of a profiler that does not run the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Program and arguments; never empty.
    pub argv: Vec<OsString>,
    /// Where it has to run; none: anywhere.
    pub cwd: Option<PathBuf>,
    /// File that gets its standard output; none: the log.
    pub stdout: Option<PathBuf>,
    /// When it is ended.
    pub timeout: Option<Duration>,
}

/// How a command of a profiler ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandEnd {
    /// Its exit, which a profiler usually takes from the workload; none: it was not started, or could
    /// not be waited for.
    pub exit: Option<WorkloadExit>,
    /// Why it was not started.
    pub refused: Option<String>,
    /// It was ended because it took longer than this.
    pub timed_out_after: Option<Duration>,
    /// It was ended because it had written more than this many bytes.
    pub outgrew: Option<u64>,
    /// This program got a signal while it ran, or before.
    pub interrupted: bool,
    /// How long it lived.
    pub duration: Duration,
    /// What it and the workload wrote, both streams: the first and the last part.
    pub log: String,
}

impl CommandEnd {
    /// Its exit status, where it ended by itself.
    pub fn status(&self) -> Option<i32> {
        match self.exit {
            Some(WorkloadExit::Code(code)) if self.timed_out_after.is_none() => Some(code),
            _ => None,
        }
    }

    /// Whether it did all that it was asked for.
    pub fn succeeded(&self) -> bool {
        self.exit == Some(WorkloadExit::Code(0))
    }
}

/// A version of Nsight Systems or Nsight Compute; ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Year of the release series.
    pub year: u16,
    /// Number of the release in its year.
    pub release: u16,
    /// Number of the update of that release.
    pub update: u16,
}

impl Version {
    /// `year.release.update`.
    pub const fn new(year: u16, release: u16, update: u16) -> Version {
        Version { year, release, update }
    }

    /// Finds the version in what the tool printed; nothing where no line has one.
    pub fn parse(output: &str) -> Option<Version> {
        let words = |line: &str| -> Option<Version> {
            let after = line.to_ascii_lowercase().find("version")? + "version".len();
            line.get(after..)?.split_whitespace().find_map(Version::from_word)
        };
        output.lines().find_map(words)
    }

    fn from_word(word: &str) -> Option<Version> {
        let mut numbers = word.split(['.', '-']);
        let year = numbers.next()?.parse().ok().filter(|year| (2018..=2200).contains(year))?;
        let release = numbers.next()?.parse().ok()?;
        // A tool built by hand may have no update number.
        let update = numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0);
        Some(Version { year, release, update })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version { year, release, update } = self;
        write!(f, "{year}.{release}.{update}")
    }
}

/// What to tell of a version of the tool of the pass `key`; one older than `oldest` is as bad as `too_old` says.
pub(crate) fn judge_version(
    key: &str,
    version: Option<Version>,
    oldest: Version,
    too_old: Severity,
) -> Option<Finding> {
    let (severity, what, why) = match version {
        Some(version) if version >= oldest => return None,
        Some(version) => (
            too_old,
            format!("{key} {version} is too old"),
            format!("it is older than {oldest}, and does not take the same arguments"),
        ),
        None => (
            Severity::Warning,
            format!("the version of {key} is not known"),
            format!("`{key} --version` prints none; the arguments of new versions are used"),
        ),
    };
    let remedy = format!("install a newer one, or set pipeline.{key}.executable to its path");
    Some(Id::ToolVersion.about(key).graded(severity, what, why, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_outputs() {
        for (output, expected) in [
            ("NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0\n", (2023, 4, 4)),
            ("NVIDIA Nsight Systems version 2022.4.2.1-df9881f\n", (2022, 4, 2)),
            ("NVIDIA Nsight Systems version 2025.1.1.103-251135427971v0", (2025, 1, 1)),
            ("warning: something 7.1\nNVIDIA Nsight Systems version 2026.1-beta", (2026, 1, 0)),
            ("Nsight Systems Version 2021.3.2.4-027534f", (2021, 3, 2)),
            (
                "NVIDIA (R) Nsight Compute Command Line Profiler\n\
                 Copyright (c) 2018-2025 NVIDIA Corporation\n\
                 Version 2025.3.1.0 (build 36398880) (public-release)\n",
                (2025, 3, 1),
            ),
        ] {
            let (year, release, update) = expected;
            assert_eq!(Version::parse(output), Some(Version { year, release, update }), "{output}");
        }
        assert_eq!(Version::new(2025, 3, 1).to_string(), "2025.3.1");
    }

    #[test]
    fn what_is_no_version_is_none() {
        for output in [
            "",
            "version",
            "Python 3.11.7",
            "version 1.2.3",
            "version 2023",
            "version é",
            "Version x.y",
            "ncu: not found",
        ] {
            assert_eq!(Version::parse(output), None, "{output}");
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(Version::new(2022, 10, 0) > Version::new(2022, 9, 9));
        assert!(Version::new(2025, 10, 0) > Version::new(2025, 9, 1));
    }

    #[test]
    fn a_version_is_judged() {
        let oldest = Version::new(2022, 4, 0);
        let judge = |version| judge_version("ncu", version, oldest, Severity::Error);
        assert_eq!(judge(Version::parse("Version 2025.3.1.0")), None);
        assert_eq!(judge(Some(oldest)), None);
        let old = judge(Version::parse("Version 2021.1.0.0")).expect("finding");
        assert!(old.what.contains("2021.1.0 is too old") && old.severity == Severity::Error);
        assert!(old.why.contains("2022.4.0"), "{old}");
        assert_eq!(judge(None).map(|f| f.severity), Some(Severity::Warning));
    }
}
