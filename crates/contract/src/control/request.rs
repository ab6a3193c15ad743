//! A request -> a line, and back, with every limit checked by the side that reads it.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::control::{MAX_MARK_BYTES, VERSION, escape, title, unescape, version_of};

/// Times that a window may be limited to, ms: a millisecond to a week.
pub const FOR_MS: RangeInclusive<u64> = 1..=7 * 24 * 3_600_000;
/// Numbers of steps that it may be limited to.
pub const STEPS: RangeInclusive<u64> = 1..=1_000_000_000;
/// Sizes of trace files that it may be limited to, bytes: 64 KiB to 1 TiB.
pub const SIZE: RangeInclusive<u64> = 64 << 10..=1 << 40;
/// How far ahead the beginning of a window may be set.
pub const MOST_AHEAD: Duration = Duration::from_secs(24 * 3600);
/// The longest list of globs, bytes.
const RANGES_BYTES: usize = 4 << 10;
/// The words of a start.
const START_TAKES: &str =
    "start takes ranges=GLOBS sample=1/N counters=on at_unix_us=US for_ms=MS steps=N size=BYTES";

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Tell how things stand.
    Status,
    /// Begin a window.
    Start(Start),
    /// End the window.
    Stop,
    /// Write out what there is.
    Flush,
    /// Put a mark with this text into the trace file.
    Mark(String),
    /// A signal is about to be sent: write out what there is, and that the process ends if the signal ends it.
    Ending(u8),
}

/// What a window is to record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Globs as in `STAGE2_RANGES`; `None`: as the environment says, `*` alone: everything.
    pub ranges: Option<String>,
    /// One in so many instances as in `STAGE2_SAMPLE`; `None`: as the environment says.
    pub sample: Option<u32>,
    /// Sample hardware counters, of the collector's choice where the environment names none.
    pub counters: bool,
    /// When it begins, us since 1970: the same moment in every process that is asked. `None`: at once.
    pub at_unix_us: Option<u64>,
    /// When it ends by itself.
    pub limits: Limits,
}

/// When a window ends by itself: at the first of these that is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// After so long, ms.
    pub for_ms: Option<u64>,
    /// After so many instances of the outermost range that was asked for have closed, or of the
    /// outermost ranges of the program where none was. What begins behind the last one is not recorded.
    pub steps: Option<u64>,
    /// When its trace file has so many bytes.
    pub size: Option<u64>,
}

/// Why a line is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It begins otherwise.
    #[error("no request: a line begins with {TITLE}, e.g. `{TITLE} status`; use stage2-launch ctl", TITLE = title())]
    Foreign,
    /// It is of another version.
    #[error(
        "the request is of version {theirs}, this collector speaks {ours}; use the stage2-launch of \
         version {collector}", ours = VERSION, collector = env!("CARGO_PKG_VERSION")
    )]
    Version {
        /// The client's version.
        theirs: u32,
    },
    /// There is no such verb.
    #[error("no verb {0:?}; there are status, start, stop, flush and mark")]
    Verb(String),
    /// A word cannot be read.
    #[error("{word:?} cannot be read: {accepted}")]
    Word {
        /// The word.
        word: String,
        /// What is accepted there.
        accepted: &'static str,
    },
}

fn bad<T>(word: &str, accepted: &'static str) -> Result<T, RequestError> {
    Err(RequestError::Word { word: word.chars().take(80).collect(), accepted })
}

impl Verb {
    /// As it is sent, with the line end.
    pub fn to_line(&self) -> String {
        let title = title();
        match self {
            Verb::Status => format!("{title} status\n"),
            Verb::Start(start) => format!("{title} start{}\n", start.to_words()),
            Verb::Stop => format!("{title} stop\n"),
            Verb::Flush => format!("{title} flush\n"),
            Verb::Mark(text) => format!("{title} mark {}\n", escape(text)),
            Verb::Ending(signal) => String::from_utf8_lossy(&Verb::ending(*signal)).into_owned(),
        }
    }

    /// The line of [`Verb::Ending`], without an allocation. Signals have two digits at most.
    pub fn ending(signal: u8) -> [u8; 27] {
        let mut line = *b"stage2-control/1 ending 00\n";
        (line[24], line[25]) = (b'0' + signal / 10 % 10, b'0' + signal % 10);
        line
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it, and what is accepted.
    pub fn parse(line: &str) -> Result<Self, RequestError> {
        let mut words =
            line.trim_end_matches(['\n', '\r']).split(' ').filter(|word| !word.is_empty());
        match words.next().and_then(version_of) {
            Some(VERSION) => {}
            Some(theirs) => return Err(RequestError::Version { theirs }),
            None => return Err(RequestError::Foreign),
        }
        let verb = words.next().unwrap_or_default();
        let mut words = words.peekable();
        let parsed = match verb {
            "status" => Verb::Status,
            "start" => return Start::parse(words).map(Verb::Start),
            "stop" => Verb::Stop,
            "flush" => Verb::Flush,
            "ending" => match words.next().and_then(|signal| signal.parse().ok()) {
                Some(signal @ 1..=64) => Verb::Ending(signal),
                _ => return bad("ending", "ending takes the number of a signal"),
            },
            "mark" => {
                let text = words.next().unwrap_or_default();
                match unescape(text).filter(|text| (1..=MAX_MARK_BYTES).contains(&text.len())) {
                    Some(text) => Verb::Mark(text),
                    None => return bad(text, "mark takes one text of 1 to 1024 bytes"),
                }
            }
            other => return Err(RequestError::Verb(other.chars().take(80).collect())),
        };
        match words.next() {
            Some(word) => bad(word, "nothing more comes behind this verb"),
            None => Ok(parsed),
        }
    }
}

impl Start {
    /// Words of a line (`for_ms=10000`) -> what they ask for.
    ///
    /// # Errors
    /// The first word that cannot be read, and what is accepted.
    pub fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, RequestError> {
        let mut start = Start::default();
        let mut seen = Vec::new();
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                return bad(word, START_TAKES);
            };
            if seen.contains(&key) {
                return bad(word, "each of them once");
            }
            seen.push(key);
            let number = |within: RangeInclusive<u64>| {
                value.parse::<u64>().ok().filter(|number| within.contains(number))
            };
            let found = match key {
                "ranges" => {
                    start.ranges =
                        unescape(value).filter(|globs| (1..=RANGES_BYTES).contains(&globs.len()));
                    (
                        start.ranges.is_some(),
                        "ranges takes up to 30 comma-separated globs name[@domain]",
                    )
                }
                "sample" => {
                    start.sample = crate::settings::read_sample(value);
                    (start.sample.is_some(), crate::settings::SAMPLE_FORM)
                }
                "for_ms" => {
                    start.limits.for_ms = number(FOR_MS);
                    (
                        start.limits.for_ms.is_some(),
                        "for_ms takes milliseconds from 1 to 604800000 (a week)",
                    )
                }
                "at_unix_us" => {
                    start.at_unix_us = value.parse().ok();
                    (start.at_unix_us.is_some(), "at_unix_us takes microseconds since 1970")
                }
                "steps" => {
                    start.limits.steps = number(STEPS);
                    (start.limits.steps.is_some(), "steps takes a number from 1 to 1000000000")
                }
                "size" => {
                    start.limits.size = crate::settings::read_bytes(value)
                        .and_then(|bytes| u64::try_from(bytes).ok())
                        .filter(|bytes| SIZE.contains(bytes));
                    (start.limits.size.is_some(), "size takes bytes from 64K to 1024G, e.g. 512M")
                }
                "counters" => {
                    start.counters = value == "on";
                    (
                        start.counters,
                        "counters takes on; metrics are chosen by STAGE2_COUNTERS when the process starts",
                    )
                }
                _ => (false, START_TAKES),
            };
            if !found.0 {
                return bad(word, found.1);
            }
        }
        Ok(start)
    }

    fn to_words(&self) -> String {
        let words = [
            self.ranges.as_ref().map(|globs| format!(" ranges={}", escape(globs))),
            self.sample.map(|n| format!(" sample=1/{n}")),
            self.counters.then(|| " counters=on".to_owned()),
            self.at_unix_us.map(|us| format!(" at_unix_us={us}")),
            self.limits.for_ms.map(|ms| format!(" for_ms={ms}")),
            self.limits.steps.map(|steps| format!(" steps={steps}")),
            self.limits.size.map(|bytes| format!(" size={bytes}")),
        ];
        words.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_start_survives(
            ranges in prop::option::of("[^\0]{1,99}"),
            sample in prop::option::of(1u32..1_000_000),
            for_ms in prop::option::of(FOR_MS),
            steps in prop::option::of(STEPS),
            size in prop::option::of(SIZE),
            at_unix_us in prop::option::of(any::<u64>()),
            counters: bool,
        ) {
            let limits = Limits { for_ms, steps, size };
            let start = Start { ranges, sample, counters, at_unix_us, limits };
            let verb = Verb::Start(start);
            prop_assert_eq!(Verb::parse(&verb.to_line()), Ok(verb));
        }

        #[test]
        fn every_mark_survives(text in "(?s).{1,200}") {
            let verb = Verb::Mark(text);
            prop_assert_eq!(Verb::parse(&verb.to_line()), Ok(verb));
        }

        #[test]
        fn any_line_is_read_without_a_panic(line in "(?s).*") {
            let _ = Verb::parse(&line);
            let _ = Verb::parse(&format!("{} start {line}", title()));
        }
    }

    #[test]
    fn verbs_are_read() {
        let read = |line: &str| Verb::parse(&format!("{} {line}\n", title()));
        for verb in [Verb::Status, Verb::Stop, Verb::Flush, Verb::Ending(9), Verb::Ending(64)] {
            assert_eq!(Verb::parse(&verb.to_line()), Ok(verb));
        }
        let start = read("start for_ms=10000 size=512M").unwrap();
        let limits = Limits { for_ms: Some(10_000), steps: None, size: Some(512 << 20) };
        assert_eq!(start, Verb::Start(Start { limits, ..Start::default() }));
    }

    #[test]
    fn what_cannot_be_read_is_named_with_what_can() {
        let said = |line: &str| Verb::parse(line).unwrap_err().to_string();
        let of = |line: &str| said(&format!("{} {line}", title()));
        for (said, part) in [
            (said(""), "stage2-control/1 status"),
            (said("GET / HTTP/1.1"), "stage2-control/1 status"),
            (said("stage2-control/2 status"), "version 2, this collector speaks 1"),
            (of("begin"), "\"begin\""),
            (of("status now"), "\"now\""),
            (of("start for_ms=0"), "milliseconds from 1"),
            (of("start for_ms=1 for_ms=2"), "once"),
            (of("start steps=-1"), "steps takes a number"),
            (of("start at_unix_us=now"), "microseconds since 1970"),
            (of("start size=1K"), "64K"),
            (of("start sample=2/3"), "1/N"),
            (of("start ranges="), "globs"),
            (of("start counters=dram__bytes_read.sum"), "STAGE2_COUNTERS"),
            (of("start fast"), "for_ms=MS"),
            (of("ending 0"), "the number of a signal"),
            (of("mark"), "1 to 1024 bytes"),
            (of(&format!("mark {}", "x".repeat(1025))), "1 to 1024 bytes"),
        ] {
            assert!(said.contains(part), "{said} without {part}");
        }
    }
}
