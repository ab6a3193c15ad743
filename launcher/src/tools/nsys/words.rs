//! Words of the preset that have an inner form -> values that are known to be right.

use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// A word that nsys would not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is none of {words}")]
pub struct NoneOf {
    text: String,
    words: &'static str,
}

/// What the end of a capture range does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RangeEnd {
    /// Nothing: the capture goes on to the end of the workload.
    None,
    /// The capture ends, the workload goes on.
    Stop,
    /// The capture ends, and the workload with it.
    StopShutdown,
    /// Each of the following ranges gives a report of its own, all or the first so many.
    Repeat(Option<u32>),
    /// The first so many give a report each, then the workload is ended.
    RepeatShutdown(u32),
}

impl RangeEnd {
    /// Whether nsys ends the workload at the end of the capture.
    pub fn ends_workload(&self) -> bool {
        matches!(self, RangeEnd::StopShutdown | RangeEnd::RepeatShutdown(_))
    }
}

impl TryFrom<String> for RangeEnd {
    type Error = NoneOf;

    fn try_from(text: String) -> Result<RangeEnd, NoneOf> {
        let count = |digits: &str| digits.parse::<u32>().ok().filter(|n| *n > 0);
        let end = match text.as_str() {
            "none" => Some(RangeEnd::None),
            "stop" => Some(RangeEnd::Stop),
            "stop-shutdown" => Some(RangeEnd::StopShutdown),
            "repeat" => Some(RangeEnd::Repeat(None)),
            other => match other.split_once(':') {
                Some(("repeat", digits)) => count(digits).map(|n| RangeEnd::Repeat(Some(n))),
                Some(("repeat-shutdown", digits)) => count(digits).map(RangeEnd::RepeatShutdown),
                _ => None,
            },
        };
        end.ok_or(NoneOf {
            text,
            words: "none, stop, stop-shutdown, repeat, repeat:N, repeat-shutdown:N (N from 1)",
        })
    }
}

impl From<RangeEnd> for String {
    fn from(end: RangeEnd) -> String {
        match end {
            RangeEnd::None => "none".into(),
            RangeEnd::Stop => "stop".into(),
            RangeEnd::StopShutdown => "stop-shutdown".into(),
            RangeEnd::Repeat(None) => "repeat".into(),
            RangeEnd::Repeat(Some(n)) => format!("repeat:{n}"),
            RangeEnd::RepeatShutdown(n) => format!("repeat-shutdown:{n}"),
        }
    }
}

/// What nsys ends the workload with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Kill(String);

impl Kill {
    /// As nsys takes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Kill {
    type Error = NoneOf;

    fn try_from(text: String) -> Result<Kill, NoneOf> {
        let number = text.parse::<u8>().is_ok_and(|n| (1..=64).contains(&n));
        if number || matches!(text.as_str(), "none" | "sigterm" | "sigkill") {
            Ok(Kill(text))
        } else {
            Err(NoneOf { text, words: "none, sigterm, sigkill, or a signal number in quotes" })
        }
    }
}

impl From<Kill> for String {
    fn from(kill: Kill) -> String {
        kill.0
    }
}

/// How CUDA graphs are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GraphTrace {
    /// Every node has its record.
    #[serde(rename = "node")]
    Node,
    /// A graph launch is one record.
    #[serde(rename = "graph")]
    Graph,
    /// The same, for launches by the host only.
    #[serde(rename = "graph:host-only")]
    GraphHostOnly,
    /// The same, also for launches by the device.
    #[serde(rename = "graph:host-and-device")]
    GraphHostAndDevice,
}

impl GraphTrace {
    /// As nsys takes it, with the origin of the launch where the version knows that.
    pub fn as_str(self, with_origin: bool) -> &'static str {
        match self {
            GraphTrace::Node => "node",
            GraphTrace::GraphHostOnly if with_origin => "graph:host-only",
            GraphTrace::GraphHostAndDevice if with_origin => "graph:host-and-device",
            GraphTrace::Graph | GraphTrace::GraphHostOnly | GraphTrace::GraphHostAndDevice => {
                "graph"
            }
        }
    }
}

/// A list of words, or one text with commas between them.
pub(super) fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    struct Words;
    impl<'de> Visitor<'de> for Words {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of words, e.g. [cuda,nvtx]")
        }
        fn visit_unit<E>(self) -> Result<Vec<String>, E> {
            Ok(Vec::new())
        }
        fn visit_str<E>(self, text: &str) -> Result<Vec<String>, E> {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            Ok(words.map(str::to_owned).collect())
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<String>, A::Error> {
            let mut words = Vec::new();
            while let Some(word) = from.next_element::<String>()? {
                words.push(word);
            }
            Ok(words)
        }
    }
    from.deserialize_any(Words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_ends_come_back_as_they_were_written() {
        for text in ["none", "stop", "stop-shutdown", "repeat", "repeat:3", "repeat-shutdown:2"] {
            let end = RangeEnd::try_from(text.to_owned()).expect(text);
            assert_eq!(String::from(end), text);
        }
    }

    #[test]
    fn other_range_ends_are_refused_with_the_choices() {
        for text in ["", "Stop", "repeat:0", "repeat:-1", "repeat-shutdown", "repeat:x", "stop:1"] {
            let error = RangeEnd::try_from(text.to_owned()).expect_err(text);
            assert!(error.to_string().contains("repeat-shutdown:N"), "{text}: {error}");
        }
    }

    #[test]
    fn kill_takes_names_and_numbers() {
        for (text, good) in [
            ("none", true),
            ("sigterm", true),
            ("9", true),
            ("0", false),
            ("65", false),
            ("hup", false),
        ] {
            assert_eq!(Kill::try_from(text.to_owned()).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn an_old_version_gets_the_granularity_alone() {
        assert_eq!(GraphTrace::GraphHostOnly.as_str(false), "graph");
        assert_eq!(GraphTrace::GraphHostOnly.as_str(true), "graph:host-only");
        assert_eq!(GraphTrace::Node.as_str(false), "node");
    }
}
