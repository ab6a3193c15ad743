//! An answer of the collector -> text, and back.

use crate::control::{MAX_ANSWER_BYTES, VERSION, escape, title, unescape, version_of};

/// The last line.
const END: &str = "end";

/// What the collector says to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The request was refused: the field `error` says why and what to do.
    pub refused: bool,
    /// Names and values in order. A name may come several times.
    pub fields: Vec<(String, String)>,
}

/// Why a text is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It begins otherwise.
    #[error("it is no answer of the collector (it begins with {0:?})")]
    Foreign(String),
    /// It is of another version.
    #[error(
        "the collector in the process speaks version {theirs} of the protocol, this program {ours}; use \
         the stage2-launch of the collector's version",
        ours = VERSION
    )]
    Version {
        /// The collector's version.
        theirs: u32,
    },
    /// The end is missing.
    #[error("the answer is cut: its last line is missing")]
    Cut,
    /// A line cannot be read.
    #[error("line {0} of the answer cannot be read")]
    Line(usize),
}

impl Answer {
    /// A request that was taken.
    pub fn ok() -> Self {
        Answer::default()
    }

    /// A request that was refused.
    pub fn error(why: impl Into<String>) -> Self {
        Answer { refused: true, ..Answer::default() }.with("error", why.into())
    }

    /// One field more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.fields.push((name.to_owned(), value.to_string()));
        self
    }

    /// The first value of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of that name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// As it is sent. Fields beyond [`MAX_ANSWER_BYTES`] are left out, which a last field `cut` says.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {}\n", title(), if self.refused { "error" } else { "ok" });
        for (name, value) in &self.fields {
            let line = format!("{} {}\n", escape(name), escape(value));
            if text.len() + line.len() > MAX_ANSWER_BYTES - 32 {
                text.push_str("cut 1\n");
                break;
            }
            text.push_str(&line);
        }
        text.push_str(END);
        text.push('\n');
        text
    }

    /// Reads what [`Answer::to_text`] wrote.
    ///
    /// # Errors
    /// The text is not an answer, is cut, or is of another version.
    pub fn parse(text: &str) -> Result<Self, AnswerError> {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let foreign = || AnswerError::Foreign(first.chars().take(40).collect());
        let (word, outcome) = first.split_once(' ').ok_or_else(foreign)?;
        match version_of(word) {
            Some(VERSION) => {}
            Some(theirs) => return Err(AnswerError::Version { theirs }),
            None => return Err(foreign()),
        }
        let refused = match outcome {
            "ok" => false,
            "error" => true,
            _ => return Err(foreign()),
        };
        let mut answer = Answer { refused, fields: Vec::new() };
        for (index, line) in lines.enumerate() {
            if line == END {
                return if text.ends_with("\nend\n") { Ok(answer) } else { Err(AnswerError::Cut) };
            }
            let read = || {
                let (name, value) = line.split_once(' ')?;
                Some((unescape(name)?, unescape(value)?))
            };
            answer.fields.push(read().ok_or(AnswerError::Line(index + 2))?);
        }
        Err(AnswerError::Cut)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_answer_survives(
            refused: bool,
            fields in prop::collection::vec(("[a-z_]{1,9}", ".*"), 0..9),
        ) {
            let answer = Answer { refused, fields };
            prop_assert_eq!(Answer::parse(&answer.to_text()), Ok(answer));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "(?s).*") {
            let _ = Answer::parse(&text);
        }
    }

    /// Hazard (Dormant processes and windows): An answer is cut.
    /// Promise: It is not taken for a whole one.
    #[test]
    fn a_part_of_an_answer_is_known_for_one() {
        let text = Answer::ok().with("phase", "on").with("error", "a b").to_text();
        for end in 0..text.len() {
            assert!(Answer::parse(&text[..end]).is_err(), "{:?}", &text[..end]);
        }
    }

    /// Hazard (Dormant processes and windows): The collector in the process is of another version.
    /// Promise: Both versions are named.
    #[test]
    fn an_answer_of_another_version_says_both_versions() {
        let error = Answer::parse("stage2-control/7 ok\nend\n").unwrap_err();
        assert_eq!(error, AnswerError::Version { theirs: 7 });
        assert!(
            error.to_string().contains("version 7")
                && error.to_string().contains(", this program 1")
        );
    }

    #[test]
    fn too_much_is_left_out_and_said() {
        let answer =
            (0..9999).fold(Answer::ok(), |answer, i| answer.with("file", format!("{i:0>99}")));
        let text = answer.to_text();
        assert!(text.len() <= MAX_ANSWER_BYTES);
        assert_eq!(Answer::parse(&text).unwrap().get("cut"), Some("1"));
    }
}
