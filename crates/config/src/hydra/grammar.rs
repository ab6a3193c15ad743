//! One word `KEY=VALUE` of the command line, in Hydra's override grammar -> an [`Override`], and its value.

use super::node::{Node, Origin, Value};

/// A word that is not an override.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word}: at character {at}: {what}")]
pub struct GrammarError {
    /// The word as it was given.
    pub word: String,
    /// The character, from 1, that it fails at.
    pub at: usize,
    /// What is wrong, and what the form is.
    pub what: String,
}

/// Parts of a key, at most: whoever puts a value at a key goes one call deeper for each of them.
const MAX_KEY_PARTS: usize = 64;

/// What an override does to its key.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// `k=v`: change a key that exists.
    Set(Value),
    /// `+k=v`: make a key that does not exist.
    Add(Value),
    /// `++k=v`: either.
    AddOrSet(Value),
    /// `~k` or `~k=v`: take a key out, if it has the value.
    Delete(Option<Value>),
}

/// A parsed override.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// Dotted key, or group with slashes.
    pub key: String,
    /// What stands after `@` in `group@package=option`.
    pub package: Option<String>,
    /// What to do.
    pub action: Action,
    /// The word as it was given.
    pub word: String,
}

impl Override {
    /// Reads one word.
    pub fn parse(word: &str) -> Result<Override, GrammarError> {
        let fault =
            |at: usize, what: String| GrammarError { word: word.to_owned(), at: at + 1, what };
        let (sign, rest) = ["++", "+", "~"]
            .iter()
            .find_map(|sign| word.strip_prefix(sign).map(|rest| (*sign, rest)))
            .unwrap_or(("", word));
        let (name, text) = split(rest, '=');
        if text.is_none() && sign != "~" {
            return Err(fault(word.chars().count(), "it is not KEY=VALUE".into()));
        }
        let (key, package) = split(name, '@');
        let allowed = |c: char| c.is_alphanumeric() || "_-./$".contains(c);
        if let Some((at, c)) = key.chars().enumerate().find(|(_, c)| !allowed(*c)) {
            let what = format!(
                "`{c}` is not allowed in a key; the form is KEY=VALUE, e.g. run.mode=light"
            );
            return Err(fault(sign.len() + at, what));
        }
        if key.split(['.', '/']).any(str::is_empty) {
            let what = "a part of the key is empty; the form is KEY=VALUE".into();
            return Err(fault(sign.len(), what));
        }
        if key.split(['.', '/']).count() > MAX_KEY_PARTS {
            let what = format!("the key has more than {MAX_KEY_PARTS} parts; name one that exists");
            return Err(fault(sign.len(), what));
        }
        if package.is_some_and(|p| p.is_empty() || !p.chars().all(|c| allowed(c) && c != '/')) {
            let what = "after @ a package is expected, e.g. group@a.b=preset".into();
            return Err(fault(sign.len() + key.chars().count() + 1, what));
        }
        let value = |text: &str| {
            let before = word.chars().count() - text.chars().count();
            parse_value(text, &Origin::Override(word.into()))
                .map_err(|bad| fault(before + bad.at, bad.what))
        };
        let action = match (sign, text) {
            ("~", text) => Action::Delete(text.map(value).transpose()?),
            ("++", text) => Action::AddOrSet(value(text.unwrap_or_default())?),
            ("+", text) => Action::Add(value(text.unwrap_or_default())?),
            (_, text) => Action::Set(value(text.unwrap_or_default())?),
        };
        let package = package.map(str::to_owned);
        Ok(Override { key: key.to_owned(), package, action, word: word.to_owned() })
    }

    /// Origin of what it sets.
    pub fn origin(&self) -> Origin {
        Origin::Override(self.word.as_str().into())
    }
}

/// What stands before the first `sign`, and behind it.
fn split(text: &str, sign: char) -> (&str, Option<&str>) {
    text.split_once(sign).map_or((text, None), |(before, behind)| (before, Some(behind)))
}

/// The key of a word that a Hydra app would read as an override, or nothing: for words that belong
/// to the workload, which need not be valid.
pub fn hydra_key(word: &str) -> Option<&str> {
    let (name, value) = split(word.trim_start_matches(['+', '~']), '=');
    if value.is_none() && !word.starts_with('~') {
        return None;
    }
    let allowed = |c: char| c.is_alphanumeric() || "_-./@$:".contains(c);
    let starts_well = name.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    (starts_well && name.chars().all(allowed)).then_some(name)
}

/// Where and why a value cannot be read.
#[derive(Debug)]
struct BadValue {
    /// Characters before the fault.
    at: usize,
    /// The fault and the remedy.
    what: String,
}

/// Deeper nesting is refused: the parser and all who read the value recurse.
const MAX_DEPTH: usize = 32;

fn parse_value(text: &str, origin: &Origin) -> Result<Value, BadValue> {
    let mut parser = Parser { chars: text.chars().collect(), at: 0, origin };
    parser.skip_blanks();
    if parser.peek().is_none() {
        return Ok(Value::Text(String::new()));
    }
    let value = parser.element(&[], 0)?;
    parser.skip_blanks();
    match parser.peek() {
        None => Ok(value),
        Some(',') => Err(parser.fault(
            "a comma outside of brackets is a sweep, which is not supported; quote the \
             value, or write a list: [a,b]",
        )),
        Some(c) => Err(parser.fault(format!("`{c}` after the end of the value; quote the value"))),
    }
}

struct Parser<'a> {
    chars: Vec<char>,
    at: usize,
    origin: &'a Origin,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn fault(&self, what: impl Into<String>) -> BadValue {
        BadValue { at: self.at, what: what.into() }
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
    }

    /// One element; `ends` are the characters that end an unquoted one here.
    fn element(&mut self, ends: &[char], depth: usize) -> Result<Value, BadValue> {
        if depth > MAX_DEPTH {
            return Err(self.fault(format!("more than {MAX_DEPTH} nested brackets")));
        }
        self.skip_blanks();
        match self.peek() {
            Some('[') => self.list(depth),
            Some('{') => self.map(depth),
            Some(quote @ ('\'' | '"')) => self.quoted(quote).map(Value::Text),
            _ => self.unquoted(ends),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, BadValue> {
        let items = self.items(']', "`,` or `]` is missing in a list", |parser| {
            let value = parser.element(&[',', ']'], depth + 1)?;
            Ok(Node { value, origin: parser.origin.clone() })
        })?;
        Ok(Value::List(items))
    }

    fn map(&mut self, depth: usize) -> Result<Value, BadValue> {
        let all = self.items('}', "`,` or `}` is missing in {...}", |parser| {
            let key = match parser.element(&[':', ',', '}'], MAX_DEPTH)? {
                Value::Text(key) => key,
                Value::Int(key) => key.to_string(),
                _ => return Err(parser.fault("a key in {...} has to be a word")),
            };
            parser.skip_blanks();
            if parser.peek() != Some(':') {
                return Err(parser.fault("`:` is missing after a key in {...}"));
            }
            parser.at += 1;
            parser.skip_blanks();
            if parser.peek().is_none() {
                return Err(parser.fault("`,` or `}` is missing in {...}"));
            }
            let value = parser.element(&[',', '}'], depth + 1)?;
            Ok((key, Node { value, origin: parser.origin.clone() }))
        })?;
        let mut pairs: Vec<(String, Node)> = Vec::new();
        for (key, value) in all {
            pairs.retain(|(known, _)| *known != key);
            pairs.push((key, value));
        }
        Ok(Value::Map(pairs))
    }

    /// What stands in brackets, set off by commas.
    fn items<T>(
        &mut self,
        close: char,
        missing: &str,
        item: impl Fn(&mut Self) -> Result<T, BadValue>,
    ) -> Result<Vec<T>, BadValue> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_blanks();
        while self.peek() != Some(close) || !items.is_empty() {
            self.skip_blanks();
            if self.peek().is_none() {
                return Err(self.fault(missing));
            }
            items.push(item(self)?);
            self.skip_blanks();
            match self.peek() {
                Some(',') => self.at += 1,
                Some(c) if c == close => break,
                _ => return Err(self.fault(missing)),
            }
        }
        self.at += 1;
        Ok(items)
    }

    /// A string in quotes. A backslash is one unless it stands before the quote.
    fn quoted(&mut self, quote: char) -> Result<String, BadValue> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let slashes = self.chars.iter().skip(self.at).take_while(|c| **c == '\\').count();
            self.at += slashes;
            let before_quote = self.peek() == Some(quote);
            let kept = if before_quote { slashes / 2 } else { slashes };
            text.extend(std::iter::repeat_n('\\', kept));
            match self.peek() {
                None => return Err(self.fault(format!("the quote {quote} is not closed"))),
                Some(c) => {
                    self.at += 1;
                    if before_quote && slashes % 2 == 0 {
                        return Ok(text);
                    }
                    text.push(c);
                }
            }
        }
    }

    fn unquoted(&mut self, ends: &[char]) -> Result<Value, BadValue> {
        let mut text = String::new();
        let mut escaped = false;
        // Length of `text` up to the last character that is no unescaped blank.
        let mut solid = 0;
        while let Some(c) = self.peek() {
            match c {
                '\\' => {
                    let next = self.chars.get(self.at + 1).copied();
                    let special = next.filter(|n| "\\()[]{}:=, \t".contains(*n));
                    text.push(special.unwrap_or('\\'));
                    self.at += if special.is_some() { 2 } else { 1 };
                    escaped |= special.is_some();
                    solid = text.len();
                    continue;
                }
                '$' if self.chars.get(self.at + 1) == Some(&'{') => {
                    let length = self.chars.iter().skip(self.at).position(|c| *c == '}');
                    let Some(length) = length else {
                        return Err(self.fault("`${` without `}`"));
                    };
                    text.extend(self.chars.iter().skip(self.at).take(length + 1));
                    self.at += length + 1;
                    (escaped, solid) = (true, text.len());
                    continue;
                }
                '(' if is_word(&text) => {
                    return Err(self.fault(format!(
                        "functions such as {text}() are not supported; quote the value"
                    )));
                }
                '(' | ')' | '{' | '}' | '[' | ']' | '\'' | '"' if !ends.contains(&c) => {
                    return Err(self.fault(format!(
                        "`{c}` has a special meaning; quote the value: KEY='\"...\"'"
                    )));
                }
                ',' => break,
                _ if ends.contains(&c) => break,
                _ => text.push(c),
            }
            if !matches!(c, ' ' | '\t') {
                solid = text.len();
            }
            self.at += 1;
        }
        text.truncate(solid);
        if text.is_empty() && !escaped {
            return Err(self.fault("a value is missing; write '' for an empty one"));
        }
        Ok(if escaped { Value::Text(text) } else { scalar(text) })
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// What an unquoted word means: null, a truth value, a number, or itself.
fn scalar(text: String) -> Value {
    match text.to_ascii_lowercase().as_str() {
        "null" => return Value::Null,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.trim_start_matches(['+', '-']);
    let signs = text.len() - digits.len();
    let plain = digits.replace('_', "");
    let grouped_well = !digits.contains("__") && !digits.starts_with('_') && !digits.ends_with('_');
    if signs > 1 || !grouped_well {
        return Value::Text(text);
    }
    let sign = if text.starts_with('-') { "-" } else { "" };
    let leading_zero = plain.len() > 1 && plain.starts_with('0');
    if !plain.is_empty() && plain.bytes().all(|b| b.is_ascii_digit()) && !leading_zero {
        return format!("{sign}{plain}").parse().map_or(Value::Text(text), Value::Int);
    }
    let named = matches!(plain.to_ascii_lowercase().as_str(), "inf" | "nan");
    let numeric = plain.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b))
        && plain.bytes().any(|b| b.is_ascii_digit())
        && plain.contains(['.', 'e', 'E']);
    if named || numeric {
        return format!("{sign}{plain}").parse().map_or(Value::Text(text), Value::Float);
    }
    Value::Text(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(word: &str) -> Override {
        Override::parse(word).unwrap_or_else(|e| panic!("{word}: {e}"))
    }

    #[test]
    fn the_four_forms() {
        assert_eq!(parse("run.mode=light").action, Action::Set(Value::Text("light".into())));
        assert_eq!(parse("+a.b=1").action, Action::Add(Value::Int(1)));
        assert_eq!(parse("++a.b=1").action, Action::AddOrSet(Value::Int(1)));
        assert_eq!(parse("~a.b").action, Action::Delete(None));
        assert_eq!(parse("~a.b=x").action, Action::Delete(Some(Value::Text("x".into()))));
        assert_eq!(parse("++a.b=1").key, "a.b");
    }

    #[test]
    fn groups_and_packages() {
        let both = parse("profiling/collector@profiling.second=default");
        assert_eq!(both.key, "profiling/collector");
        assert_eq!(both.package.as_deref(), Some("profiling.second"));
        assert_eq!(parse("runner@_global_=stage2").package.as_deref(), Some("_global_"));
    }

    #[test]
    fn only_the_first_equals_sign_ends_the_key() {
        assert_eq!(parse("a=b=c").action, Action::Set(Value::Text("b=c".into())));
        assert_eq!(parse("a=").action, Action::Set(Value::Text(String::new())));
    }

    #[test]
    fn faults_name_the_place() {
        for (word, at, part) in [
            ("demo", 5, "KEY=VALUE"),
            ("+demo", 6, "KEY=VALUE"),
            ("=x", 1, "empty"),
            ("a..b=x", 1, "empty"),
            ("a b=x", 2, "is not allowed in a key"),
            ("list[0]=x", 5, "is not allowed in a key"),
            ("a@=x", 3, "package"),
            (&("a.".repeat(MAX_KEY_PARTS) + "a=x"), 1, "64 parts"),
            ("a=[1, 2", 8, "`]`"),
            ("a=[", 4, "`]` is missing"),
            ("a=[1, ", 7, "`]` is missing"),
            ("a={b: ", 7, "`}` is missing"),
            ("a=b,c", 4, "sweep"),
        ] {
            match Override::parse(word) {
                Err(GrammarError { at: found, what, .. }) => {
                    assert_eq!(found, at, "{word}: {what}");
                    assert!(what.contains(part), "{word}: {what}");
                }
                other => panic!("{word}: {other:?}"),
            }
        }
    }

    #[test]
    fn overrides_are_found_in_the_words_of_a_workload() {
        assert_eq!(hydra_key("++pipeline.x.enable=false"), Some("pipeline.x.enable"));
        assert_eq!(
            hydra_key("dataset/sampling@dataset.sampling=default"),
            Some("dataset/sampling@dataset.sampling")
        );
        assert_eq!(hydra_key("~a.b"), Some("a.b"));
        for word in ["--lr=3", "infer.py", "-m", "1=2", "http://x/?a=b", ""] {
            assert_eq!(hydra_key(word), None, "{word}");
        }
    }

    fn read(text: &str) -> serde_json::Value {
        let origin = Origin::Flag("test".into());
        let value = parse_value(text, &origin).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        Node { value, origin }.to_json()
    }

    #[test]
    fn words_have_types() {
        for (text, value) in [
            ("null", json!(null)),
            ("NULL", json!(null)),
            ("True", json!(true)),
            ("false", json!(false)),
            ("10", json!(10)),
            ("-1_000", json!(-1000)),
            ("007", json!("007")),
            ("1__0", json!("1__0")),
            ("1.5", json!(1.5)),
            ("-1e3", json!(-1000.0)),
            (".5", json!(0.5)),
            ("1/16", json!("1/16")),
            ("4M*16", json!("4M*16")),
            ("1.2.3", json!("1.2.3")),
            ("cuda:0", json!("cuda:0")),
            ("e", json!("e")),
            ("--5", json!("--5")),
            ("99999999999999999999", json!("99999999999999999999")),
            ("nan", json!("NaN")),
            ("", json!("")),
            ("  a b  ", json!("a b")),
            ("/tmp/x-y_z.d/*?|@+%", json!("/tmp/x-y_z.d/*?|@+%")),
            ("${run.dir}/x", json!("${run.dir}/x")),
            ("naïve", json!("naïve")),
        ] {
            assert_eq!(read(text), value, "{text}");
        }
    }

    #[test]
    fn quotes_and_backslashes() {
        for (text, value) in [
            ("'1'", json!("1")),
            ("\"a, b\"", json!("a, b")),
            (r"'it\'s'", json!("it's")),
            (r#""say \"hi\"""#, json!("say \"hi\"")),
            (r"'a\nb'", json!(r"a\nb")),
            (r"'end\\'", json!(r"end\")),
            (r"a\,b", json!("a,b")),
            (r"\ a\ ", json!(" a ")),
            (r"C:\dir", json!(r"C:\dir")),
            ("''", json!("")),
        ] {
            assert_eq!(read(text), value, "{text}");
        }
    }

    #[test]
    fn lists_and_maps_nest() {
        assert_eq!(read("[]"), json!([]));
        assert_eq!(read("[ a, 1 ,'x,y',[null]]"), json!(["a", 1, "x,y", [null]]));
        assert_eq!(read("{}"), json!({}));
        assert_eq!(read("{a: 1, b:{c:[x]}, a: 2}"), json!({"b": {"c": ["x"]}, "a": 2}));
        assert_eq!(read("[prefill*@llm,decode]"), json!(["prefill*@llm", "decode"]));
    }

    #[test]
    fn faults_are_told() {
        let origin = Origin::Flag("test".into());
        for (text, part) in [
            ("a,b", "sweep"),
            ("[a", "`]`"),
            ("[a,]", "missing"),
            ("{a}", "`:`"),
            ("{a:1", "`}`"),
            ("'a", "not closed"),
            ("'a'b", "after the end"),
            ("a]", "quote"),
            ("range(1,3)", "functions"),
            ("${x", "without"),
            ("it's", "quote"),
        ] {
            let bad = parse_value(text, &origin).expect_err(text);
            assert!(bad.what.contains(part), "{text}: {}", bad.what);
            assert!(bad.at <= text.len());
        }
        assert!(parse_value(&"[".repeat(100_000), &origin).is_err());
        assert!(parse_value(&"{a:".repeat(100_000), &origin).is_err());
    }
}
