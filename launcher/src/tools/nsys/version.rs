//! What `nsys --version` prints -> the version, and the forms of arguments that it takes.

use std::fmt;

use stage2_model::{Finding, Severity};

/// A version of Nsight Systems; ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Year of the release series.
    pub year: u16,
    /// Number of the release in its year.
    pub release: u16,
    /// Number of the update of that release.
    pub update: u16,
}

/// The oldest version whose arguments are known to be understood.
pub const OLDEST: Version = Version::new(2022, 4, 0);
/// Reports of `nsys stats` have their present names.
const NEW_REPORT_NAMES: Version = Version::new(2023, 1, 0);
/// The release before kept the old names as far as is known; it is asked for both.
const MAYBE_NEW_REPORT_NAMES: Version = Version::new(2022, 5, 0);
/// Where `--cuda-graph-trace` also takes the origin of the launch.
const GRAPH_LAUNCH_ORIGIN: Version = Version::new(2023, 4, 0);
/// Reports end in `.nsys-rep`.
const NSYS_REP: Version = Version::new(2021, 4, 0);

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

    /// What this version needs.
    pub fn forms(self) -> Forms {
        Forms {
            reports: if self >= NEW_REPORT_NAMES {
                ReportNames::New
            } else if self >= MAYBE_NEW_REPORT_NAMES {
                ReportNames::Both
            } else {
                ReportNames::Old
            },
            graph_launch_origin: self >= GRAPH_LAUNCH_ORIGIN,
            report_extension: if self >= NSYS_REP { "nsys-rep" } else { "qdrep" },
        }
    }

    /// What to tell where the tool is too old to be run.
    pub fn too_old(self) -> Option<Finding> {
        (self < OLDEST).then(|| {
            Finding::new(
                Severity::Warning,
                format!("nsys {self} was not run"),
                format!("it is older than {OLDEST}, and does not take the same arguments"),
                "install a newer Nsight Systems, or name one in pipeline.nsys.executable",
            )
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version { year, release, update } = self;
        write!(f, "{year}.{release}.{update}")
    }
}

/// Which forms of arguments a version takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forms {
    /// How the reports of `nsys stats` are called.
    pub reports: ReportNames,
    /// `--cuda-graph-trace` takes `graph:host-only` and `graph:host-and-device`.
    pub graph_launch_origin: bool,
    /// How reports end.
    pub report_extension: &'static str,
}

impl Forms {
    /// For a tool whose version cannot be told: what the newest take, and both names of reports,
    /// because a name that is not there costs a message only.
    pub const UNKNOWN: Forms = Forms {
        reports: ReportNames::Both,
        graph_launch_origin: true,
        report_extension: "nsys-rep",
    };

    /// The forms of a version, if it is known.
    pub fn of(version: Option<Version>) -> Forms {
        version.map_or(Forms::UNKNOWN, Version::forms)
    }
}

/// How the reports of `nsys stats` are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportNames {
    /// `gpukernsum`, ...
    Old,
    /// `cuda_gpu_kern_sum`, ...
    New,
    /// Either.
    Both,
}

impl ReportNames {
    /// The reports that are asked for, in the order of their use: kernels by mangled name with
    /// launch configuration, kernels by name, kernels by range, ranges.
    pub fn list(self) -> Vec<&'static str> {
        const NEW: [&str; 5] = [
            "cuda_gpu_kern_gb_sum:mangled",
            "cuda_gpu_kern_sum:mangled",
            "cuda_gpu_kern_sum",
            "nvtx_kern_sum:mangled",
            "nvtx_sum",
        ];
        // The old kernel summary has the launch configuration in it.
        const OLD: [&str; 4] =
            ["gpukernsum:mangled", "gpukernsum", "nvtxkernsum:mangled", "nvtxsum"];
        match self {
            ReportNames::New => NEW.to_vec(),
            ReportNames::Old => OLD.to_vec(),
            ReportNames::Both => [&NEW[..], &OLD[..]].concat(),
        }
    }
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
        ] {
            let (year, release, update) = expected;
            assert_eq!(Version::parse(output), Some(Version { year, release, update }), "{output}");
        }
    }

    #[test]
    fn what_is_no_version_is_none() {
        for output in ["", "version", "Python 3.11.7", "version 1.2.3", "version 2023", "version é"]
        {
            assert_eq!(Version::parse(output), None, "{output}");
        }
    }

    #[test]
    fn forms_follow_the_version() {
        let forms = |year, release| Version::new(year, release, 0).forms();
        assert_eq!(forms(2022, 4).reports, ReportNames::Old);
        assert_eq!(forms(2022, 5).reports, ReportNames::Both);
        assert_eq!(forms(2023, 1).reports, ReportNames::New);
        assert!(!forms(2023, 3).graph_launch_origin && forms(2024, 1).graph_launch_origin);
        assert_eq!(
            (forms(2021, 3).report_extension, forms(2022, 4).report_extension),
            ("qdrep", "nsys-rep")
        );
        assert!(ReportNames::Both.list().contains(&"gpukernsum:mangled"));
        assert!(!ReportNames::New.list().iter().any(|name| name.starts_with("gpu")));
    }

    #[test]
    fn age_decides_whether_it_is_run() {
        assert!(
            Version::new(2022, 3, 9).too_old().is_some_and(|f| f.to_string().contains("2022.4"))
        );
        assert_eq!(Version::new(2022, 4, 0).too_old(), None);
        assert!(Version::new(2022, 10, 0) > Version::new(2022, 9, 9), "compared as numbers");
    }
}
