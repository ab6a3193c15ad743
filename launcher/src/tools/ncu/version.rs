//! What `ncu --version` prints -> the version, and which forms of arguments it takes.

use std::fmt;

/// The oldest version that the argument forms of [`super::command`] hold for.
pub const OLDEST: NcuVersion = NcuVersion { year: 2022, release: 4, patch: 0 };

/// A version of Nsight Compute: `2025.3.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NcuVersion {
    /// Year of the release.
    pub year: u16,
    /// Number of the release in its year.
    pub release: u16,
    /// Number of the patch.
    pub patch: u16,
}

impl NcuVersion {
    /// Reads the output of `ncu --version`; nothing where it names no version.
    ///
    /// The line is `Version 2025.3.1.0 (build 36398880) (public-release)`, after a banner.
    pub fn parse(output: &str) -> Option<NcuVersion> {
        output.lines().find_map(|line| {
            let (_, after) = line.split_once("Version ")?;
            let mut numbers = after.split_whitespace().next()?.split('.').map(str::parse::<u16>);
            let (year, release) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
            let patch = numbers.next().and_then(Result::ok).unwrap_or(0);
            Some(NcuVersion { year, release, patch })
        })
    }

    /// Whether the version is one that the arguments are right for.
    pub fn is_supported(self) -> bool {
        self >= OLDEST
    }

    /// Whether `--config-file off` is known, which keeps a file of the user from changing the run.
    pub fn has_config_file(self) -> bool {
        (self.year, self.release) >= (2023, 1)
    }
}

impl fmt::Display for NcuVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.year, self.release, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_behind_the_banner() {
        let text = "NVIDIA (R) Nsight Compute Command Line Profiler\n\
                    Copyright (c) 2018-2025 NVIDIA Corporation\n\
                    Version 2025.3.1.0 (build 36398880) (public-release)\n";
        let version = NcuVersion::parse(text);
        assert_eq!(version, Some(NcuVersion { year: 2025, release: 3, patch: 1 }));
        assert_eq!(version.map(|v| v.to_string()), Some("2025.3.1".to_owned()));
    }

    #[test]
    fn versions_are_compared_by_number() {
        let parse = |text: &str| NcuVersion::parse(&format!("Version {text}")).expect(text);
        assert!(!parse("2022.3.0.0").is_supported());
        assert!(parse("2022.4.0.0").is_supported() && !parse("2022.4.1").has_config_file());
        assert!(parse("2023.1.0.0").has_config_file() && parse("2025.10.0") > parse("2025.9.1"));
    }

    #[test]
    fn no_version_is_made_up() {
        for text in ["", "Version", "Version x.y", "Version 2025", "ncu: not found"] {
            assert_eq!(NcuVersion::parse(text), None, "{text:?}");
        }
    }
}
