//! The CUPTI version that is claimed, and the sizes of the records that it writes.

use crate::abi::kind;

/// The CUPTI that this library claims to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) reported: u32,
    /// The CUDA toolkit (major, minor) whose record layouts are used.
    pub(crate) toolkit: (u32, u32),
}

/// CUPTI 13.0, the version that the behaviour was measured on.
pub(crate) const MEASURED: Version = Version { reported: 130_001, toolkit: (13, 0) };

/// The newest toolkit whose layouts are known; anything unknown gets these.
const NEWEST: (u32, u32) = (13, 5);

/// API number and toolkit of the versions before the number spelled the toolkit out. 11.8, 12.0
/// and 12.1 share a number; an entry further up wins when a number is turned into a toolkit.
const OLD_NUMBERS: [(u32, (u32, u32)); 12] = [
    (18, (11, 8)),
    (18, (12, 0)),
    (18, (12, 1)),
    (20, (12, 2)),
    (21, (12, 3)),
    (22, (12, 4)),
    (23, (12, 5)),
    (24, (12, 6)),
    (26, (12, 8)),
    (27, (12, 9)),
    (28, (12, 9)),
    (130_001, (13, 0)),
];

impl Version {
    /// Reads a number for `cuptiGetVersion` to report (`130001`; any is accepted) or a toolkit (`12.4`).
    pub(crate) fn parse(text: &str) -> Option<Version> {
        let Some((major, minor)) = text.split_once('.') else {
            return text.parse().ok().map(Version::from_reported);
        };
        let toolkit = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
        if !(11..=9999).contains(&toolkit.0) || toolkit.1 > 99 {
            return None;
        }
        let old = OLD_NUMBERS.iter().find(|(_, known)| *known == toolkit);
        let new = toolkit.0 * 10_000 + toolkit.1 * 100 + 1;
        let reported = old.map_or(new, |(number, _)| *number);
        Some(Version { reported, toolkit })
    }

    fn from_reported(reported: u32) -> Version {
        let toolkit = match OLD_NUMBERS.iter().find(|(number, _)| *number == reported) {
            Some((_, toolkit)) => *toolkit,
            None if reported < 18 => (11, 8),
            None if reported >= 100_000 => (reported / 10_000, reported / 100 % 100),
            None => NEWEST,
        };
        Version { reported, toolkit }
    }

    /// The CUDA version of its driver, at most that of [`MEASURED`]: 1000 * major + 10 * minor.
    pub(crate) fn driver_version(&self) -> u32 {
        let (major, minor) = self.toolkit.min(MEASURED.toolkit);
        major * 1000 + minor * 10
    }

    /// Bytes of a record of a simulated kind. Source: the structs in the headers of each toolkit.
    pub(crate) fn record_bytes(&self, kind: u32) -> Option<usize> {
        let steps: &[((u32, u32), usize)] = match kind {
            kind::CONCURRENT_KERNEL | kind::UNKNOWN => &[
                ((13, 4), 248),
                ((13, 3), 232),
                ((13, 1), 224),
                ((13, 0), 216),
                ((12, 0), 208),
                ((0, 0), 200),
            ],
            kind::MEMCPY => &[((13, 4), 112), ((12, 8), 96), ((0, 0), 88)],
            kind::MEMSET => &[((13, 4), 104), ((0, 0), 88)],
            kind::GRAPH_TRACE => &[((12, 3), 56), ((0, 0), 48)],
            kind::DEVICE => &[((13, 2), 192), ((12, 2), 184), ((0, 0), 176)],
            kind::CONTEXT => &[((13, 1), 40), ((12, 5), 32), ((12, 4), 24), ((0, 0), 16)],
            kind::DRIVER => &[((0, 0), 40)],
            _ => return None,
        };
        steps.iter().find(|(since, _)| self.toolkit >= *since).map(|(_, bytes)| *bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::kind::{CONCURRENT_KERNEL, MEMCPY, MEMSET};

    fn sizes(text: &str) -> (u32, [Option<usize>; 3]) {
        let version = Version::parse(text).expect(text);
        let bytes = [CONCURRENT_KERNEL, MEMCPY, MEMSET].map(|kind| version.record_bytes(kind));
        (version.reported, bytes)
    }

    #[test]
    fn toolkits_and_numbers_give_the_documented_sizes() {
        let some = |a, b, c| [Some(a), Some(b), Some(c)];
        assert_eq!(sizes("11.8"), (18, some(200, 88, 88)));
        assert_eq!(sizes("12.0"), (18, some(208, 88, 88)));
        assert_eq!(sizes("12.8"), (26, some(208, 96, 88)));
        assert_eq!(sizes("28"), (28, some(208, 96, 88)));
        assert_eq!(sizes("130001"), (130_001, some(216, 96, 88)));
        assert_eq!(sizes("13.1"), (130_101, some(224, 96, 88)));
        assert_eq!(sizes("130301"), (130_301, some(232, 96, 88)));
        assert_eq!(sizes("13.4"), (130_401, some(248, 112, 104)));
        assert_eq!(sizes("99"), (99, some(248, 112, 104)));
        assert_eq!(sizes("99.0"), (990_001, some(248, 112, 104)));
        assert_eq!(MEASURED, Version::parse("13.0").expect("13.0"));
        let driver = |text| Version::parse(text).expect(text).driver_version();
        assert_eq!(["11.8", "12.4", "13.3", "99"].map(driver), [11_080, 12_040, 13_000, 13_000]);
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "x", "13.x", "-1", "13.0.1", "1.0", "99999999999"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
