//! A report -> the text of `metrics.json` and `timelines.json`: indented where people look, with a line for
//! each row of a table, and compact within the rows.

use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// Levels at which a list has a line for each item: tables of the report, and tables in one of its parts.
const LISTS: usize = 3;
/// Levels at which an object has a line for each field: the report and its parts.
const OBJECTS: usize = 2;

/// Writes `value`, and a line feed.
///
/// # Errors
/// When `sink` cannot be written.
pub fn write(sink: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let formatter = Folding { depth: 0, outer: PrettyFormatter::new() };
    value.serialize(&mut Serializer::with_formatter(&mut *sink, formatter))?;
    sink.write_all(b"\n")
}

struct Folding {
    /// Arrays and objects that are open.
    depth: usize,
    outer: PrettyFormatter<'static>,
}

/// Calls the formatter of the level.
macro_rules! at_level {
    ($self:ident to $most:ident.$method:ident($($argument:expr),*)) => {
        match $self.depth > $most {
            true => CompactFormatter.$method($($argument),*),
            false => $self.outer.$method($($argument),*),
        }
    };
}

impl Formatter for Folding {
    fn begin_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.depth += 1;
        at_level!(self to LISTS.begin_array(to))
    }

    fn end_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        let written = at_level!(self to LISTS.end_array(to));
        self.depth -= 1;
        written
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        at_level!(self to LISTS.begin_array_value(to, first))
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        at_level!(self to LISTS.end_array_value(to))
    }

    fn begin_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.depth += 1;
        at_level!(self to OBJECTS.begin_object(to))
    }

    fn end_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        let written = at_level!(self to OBJECTS.end_object(to));
        self.depth -= 1;
        written
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        at_level!(self to OBJECTS.begin_object_key(to, first))
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        at_level!(self to OBJECTS.begin_object_value(to))
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        at_level!(self to OBJECTS.end_object_value(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn rows_have_lines_and_what_is_in_them_has_none() {
        let value = json!({
            "empty": [], "part": {"n": 1, "rows": [[1, null], [{}]]},
            "rows": [{"n": 1, "lanes": [{"at": [1, 2]}, {}]}, {}], "text": "a\nb"
        });
        let mut text = Vec::new();
        write(&mut text, &value).expect("memory");
        assert_eq!(serde_json::from_slice::<Value>(&text).expect("JSON"), value);
        let expected = "{\n  \"empty\": [],\n  \"part\": {\n    \"n\": 1,\n    \"rows\": [\n      \
                        [1,null],\n      [{}]\n    ]\n  },\n  \"rows\": [\n    \
                        {\"lanes\":[{\"at\":[1,2]},{}],\"n\":1},\n    {}\n  ],\n  \"text\": \
                        \"a\\nb\"\n}\n";
        assert_eq!(String::from_utf8(text).expect("UTF-8"), expected);
    }
}
