//! Values into the text of a JSON object, for the answers that programs read.

/// An object that is being written. What it writes has neither blanks nor line ends.
#[derive(Debug)]
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Self {
        Object("{".to_owned())
    }

    fn key(mut self, name: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        put_text(name, &mut self.0);
        self.0.push(':');
        self
    }

    /// A value that is JSON already.
    pub(crate) fn raw(self, name: &str, value: &str) -> Self {
        let mut object = self.key(name);
        object.0.push_str(value);
        object
    }

    pub(crate) fn text(self, name: &str, value: &str) -> Self {
        let mut object = self.key(name);
        put_text(value, &mut object.0);
        object
    }

    /// A number or a truth value.
    pub(crate) fn value(self, name: &str, value: impl ToString) -> Self {
        self.raw(name, &value.to_string())
    }

    /// Nothing where there is no value.
    pub(crate) fn maybe(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.value(name, value),
            None => self,
        }
    }

    pub(crate) fn texts<'t>(self, name: &str, values: impl Iterator<Item = &'t str>) -> Self {
        let mut list = List::new();
        for value in values {
            let mut text = String::new();
            put_text(value, &mut text);
            list.push(&text);
        }
        self.raw(name, &list.end())
    }

    pub(crate) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// A list that is being written, of values that are JSON already.
#[derive(Debug)]
pub(crate) struct List(String);

impl List {
    pub(crate) fn new() -> Self {
        List("[".to_owned())
    }

    pub(crate) fn push(&mut self, value: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(value);
    }

    pub(crate) fn end(mut self) -> String {
        self.0.push(']');
        self.0
    }
}

fn put_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_text_holds_it_is_one_text() {
        let object = Object::new().text("a\n", "x\"\\\u{1}é").value("b", 7).maybe("c", None::<u8>);
        assert_eq!(object.end(), "{\"a\\u000a\":\"x\\\"\\\\\\u0001é\",\"b\":7}");
        let mut list = List::new();
        ["1", "{}"].iter().for_each(|value| list.push(value));
        assert_eq!(Object::new().raw("l", &list.end()).end(), "{\"l\":[1,{}]}");
        assert_eq!(Object::new().texts("t", ["a", "b"].into_iter()).end(), "{\"t\":[\"a\",\"b\"]}");
    }
}
