//! Arguments, settings and lines of text -> the same without what looks like a secret.
//!
//! A secret is identified by its name (`--password X`, `db.password=X`, `"api_key": "X"`), by its shape
//! (`hf_...`, `AKIA...`, a JSON web token, a private key) or by its place (`user:X@host` of a URL, the path
//! of a web hook, `Bearer X`, `-u user:X`). What has neither is not found. Too much is taken out rather than too little, but the
//! tokens of a language model (`max_tokens=128`, `eos_token=</s>`) stay.
//!
//! Time and memory grow linearly with the text, whatever it holds.

mod names;
mod shapes;
#[cfg(test)]
mod tests;

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";
/// Value of the setting that switches redaction off.
pub const OFF: &str = "off";

/// Most patterns of the user, and most bytes of one.
const MAX_PATTERNS: usize = 64;
const MAX_PATTERN_BYTES: usize = 128;
/// What `STAGE2_REDACT` accepts.
pub const REDACT_FORM: &str = "off, or up to 64 comma-separated patterns: part of a name, or the beginning of a secret with a *";

/// Blanks that may stand between a name, its sign and its value.
const MAX_BLANKS: usize = 8;
/// A longer name is judged by its end.
const MAX_NAME_BYTES: usize = 256;

/// What is taken for a secret, beyond what every redactor knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redactor {
    off: bool,
    /// Parts of names, lower case, without separators.
    names: Vec<String>,
    /// Beginnings of secrets.
    beginnings: Vec<String>,
}

/// A pattern that no redactor can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a pattern of a secret; give {REDACT_FORM}", crate::text::visible(.0.as_bytes()))]
pub struct BadPattern(String);

impl Redactor {
    /// One that leaves everything as it is.
    pub fn off() -> Redactor {
        Redactor { off: true, ..Redactor::default() }
    }

    /// One that knows these patterns, too: a part of a name in which separators and case do not count
    /// (`acme_pin` is in `--acme-pin`), or, with a `*` at its end, the beginning of a secret (`acme_*`).
    ///
    /// # Errors
    /// A pattern that is empty, too long or holds something else than letters, digits, `-`, `_`, `.`.
    pub fn with(patterns: &[impl AsRef<str>]) -> Result<Redactor, BadPattern> {
        let mut redactor = Redactor::default();
        for (at, pattern) in patterns.iter().enumerate() {
            let pattern = pattern.as_ref().trim();
            let beginning = pattern.strip_suffix('*');
            let text = beginning.unwrap_or(pattern);
            let is_sane = text.bytes().any(|byte| byte.is_ascii_alphanumeric())
                && text.bytes().all(is_name_byte)
                && text.len() <= MAX_PATTERN_BYTES
                && at < MAX_PATTERNS;
            if !is_sane {
                return Err(BadPattern(pattern.to_owned()));
            }
            match beginning {
                Some(text) => redactor.beginnings.push(text.to_owned()),
                None => redactor.names.push(names::normal_form(text)),
            }
        }
        Ok(redactor)
    }

    /// What `STAGE2_REDACT` asks for.
    ///
    /// # Errors
    /// As [`Redactor::with`].
    pub fn parse(text: &str) -> Result<Redactor, BadPattern> {
        if text == OFF {
            return Ok(Redactor::off());
        }
        Redactor::with(&text.split(',').collect::<Vec<_>>())
    }

    /// What [`Redactor::parse`] reads; none: the patterns that every redactor knows are all.
    pub fn setting(&self) -> Option<String> {
        if self.off {
            return Some(OFF.to_owned());
        }
        let beginnings = self.beginnings.iter().map(|text| format!("{text}*"));
        let all: Vec<String> = self.names.iter().cloned().chain(beginnings).collect();
        (!all.is_empty()).then(|| all.join(","))
    }

    /// Whether it takes nothing out.
    pub fn is_off(&self) -> bool {
        self.off
    }

    /// Whether a value under this name is a secret, whatever the value is.
    fn is_secret_name(&self, name: &str) -> bool {
        !self.off && (names::is_secret(name) || self.is_named(name))
    }

    fn is_named(&self, name: &str) -> bool {
        !self.names.is_empty() && {
            let joined = names::normal_form(name);
            self.names.iter().any(|part| joined.contains(part.as_str()))
        }
    }

    /// The value of a setting or variable of this name, as it may be written down.
    pub fn value(&self, name: &str, value: &str) -> String {
        if self.is_secret(name, value) { REDACTED.to_owned() } else { self.text(value) }
    }

    /// Arguments of a program, as they may be written down: as many, in the same order.
    pub fn words<S: AsRef<str>>(&self, words: impl IntoIterator<Item = S>) -> Vec<String> {
        // The word before, where it is an option whose value is a secret.
        let mut option: Option<String> = None;
        let redacted = words.into_iter().map(|word| {
            let word = word.as_ref();
            if let Some(name) = option.take().filter(|_| !word.starts_with("--")) {
                if self.is_secret(&name, word) {
                    return REDACTED.to_owned();
                }
                if let Some(user) = password_of(&name, word) {
                    return format!("{user}{REDACTED}");
                }
            }
            if word.starts_with('-') && !word.contains(['=', ' ']) && self.takes_a_secret(word) {
                option = Some(word.to_owned());
            }
            self.word(word)
        });
        redacted.collect()
    }

    /// One argument. If it is a name, a sign and a value, the value is all of the rest: a password may
    /// hold blanks and quotes. Names may follow each other: `--env=HF_TOKEN=X`.
    fn word(&self, word: &str) -> String {
        let mut begin = 0;
        while let Some(part) = word.get(begin..) {
            let end = part.bytes().take_while(|byte| is_key_byte(*byte)).count();
            let (name, rest) = part.split_at(end);
            let is_url = rest.starts_with("://");
            // What is mounted where, and what is wrong with a file.
            let is_path = rest.starts_with(':') && name.starts_with(['/', '.']);
            let is_pair = end > 0 && !is_url && !is_path;
            let Some(value) = rest.strip_prefix(['=', ':']).filter(|_| is_pair) else {
                break;
            };
            let value_at = begin + end + 1;
            let front = || self.text(word.get(..value_at).unwrap_or_default());
            if self.is_secret(effective_name(name, rest, ""), value.trim()) {
                return format!("{}{REDACTED}", front());
            }
            if let Some(user) = password_of(name, value) {
                return format!("{}{user}{REDACTED}", front());
            }
            begin = value_at;
        }
        self.text(word)
    }

    /// A line, a script or any other text.
    pub fn text(&self, text: &str) -> String {
        if self.off || !self.may_hold_a_secret(text) {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        let mut was = ' ';
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let c = rest.chars().next().unwrap_or(' ');
            // Nothing begins within a word.
            let is_within = was.is_ascii_alphanumeric() && c.is_ascii_alphanumeric();
            if !is_within
                && let Some(Found { secret, end }) =
                    self.find(rest, was, text.get(..at).unwrap_or_default())
            {
                out.push_str(rest.get(..secret).unwrap_or_default());
                out.push_str(REDACTED);
                at += end.max(1);
                was = ' ';
                continue;
            }
            out.push(c);
            at += c.len_utf8();
            was = c;
        }
        out
    }

    /// Whether a closer look is worth its time. Most lines have no sign of a value, nor a word that is long
    /// enough for a token.
    fn may_hold_a_secret(&self, text: &str) -> bool {
        let has_sign = text.bytes().any(|byte| matches!(byte, b'=' | b':' | b'%'));
        let has_option = || text.contains("--") || text.starts_with('-') || text.contains(" -");
        let has_token = || {
            let words = text.split(|c: char| !c.is_ascii() || !is_name_byte(c as u8));
            words.map(str::len).max().is_some_and(|longest| longest >= shapes::SHORTEST_BYTES)
        };
        has_sign
            || !self.beginnings.is_empty()
            || has_option()
            || has_token()
            || text.to_ascii_lowercase().contains("bearer")
    }

    /// A secret that `text` begins with, or whose name it begins with. `was` stands before it, at the end of
    /// `front` or in the place of a secret there.
    fn find(&self, text: &str, was: char, front: &str) -> Option<Found> {
        let is_scheme = was.is_ascii_alphanumeric();
        let hook = || shapes::web_hook(text).filter(|_| is_scheme);
        let placed = || shapes::user_info(text).or_else(hook);
        if let Some(found) = shapes::private_key(text).or_else(placed) {
            return Some(found);
        }
        if !was.is_ascii_alphanumeric() {
            let own = self.beginnings.iter().find(|beginning| text.starts_with(beginning.as_str()));
            let own = own.map(|_| Found { secret: 0, end: shapes::token_end(text) });
            if let Some(found) = own.or_else(|| shapes::token(text)) {
                return Some(found);
            }
        }
        let is_start = !u8::try_from(was).is_ok_and(is_name_byte);
        if !is_start {
            return None;
        }
        self.find_named(text, was, front).or_else(|| self.find_in_list(text))
    }

    /// The value of a variable in a list of them: `{"name": "HF_TOKEN", "value": "X"}`.
    fn find_in_list(&self, text: &str) -> Option<Found> {
        let (_, variable) = entry(text).filter(|(name, _)| names::is_of_names(name))?;
        let variable = variable.trim_start_matches(['\\', '"', '\'']);
        let end = variable.bytes().take_while(|byte| is_name_byte(*byte)).count();
        let (name, rest) = variable.split_at_checked(end)?;
        if !self.is_secret_name(name) {
            return None;
        }
        let next = rest.trim_start_matches(|c: char| c.is_whitespace() || "\\\"',".contains(c));
        let (_, value) = entry(next).filter(|(name, _)| name.eq_ignore_ascii_case("value"))?;
        let (length, secret) = (shapes::value_length(value), text.len() - value.len());
        let is_found = length > 0 && !value.starts_with(REDACTED);
        is_found.then_some(Found { secret, end: secret + length })
    }

    /// A name at the beginning of `text`, and the secret behind it. `was` stands before it.
    fn find_named(&self, text: &str, was: char, front: &str) -> Option<Found> {
        let end = text.bytes().take_while(|byte| is_name_byte(*byte)).count();
        let begin = end.saturating_sub(MAX_NAME_BYTES);
        let name = text.get(begin..end).filter(|name| !name.is_empty())?;
        if name.eq_ignore_ascii_case("bearer")
            && let Some(found) = shapes::behind_bearer(text, end)
        {
            return Some(found);
        }
        let after = text.get(end..)?;
        let name = effective_name(name, after, front);
        // Before the value is looked for: else many names in a row would take long.
        if !self.takes_a_secret(name) {
            return None;
        }
        let is_option = text.starts_with('-');
        let closed = after.trim_start_matches(['\\', '"', '\'', ']']);
        let signed = blank_trimmed(closed);
        // `time per token: not known` is a sentence; in JSON quotes stand around the name.
        let is_bare = !is_option && closed.len() == after.len();
        let is_sentence = after.strip_prefix(": ").is_some_and(|value| {
            let may_be = names::is_word_of_prose(name) || was == '/';
            !is_in_map(front) && (was == '/' && is_path(front) || may_be && names::is_prose(value))
        });
        if is_bare && (is_sentence || (was == '/' && is_mode_of_mount(after))) {
            return None;
        }
        let encoded = signed.strip_prefix("%3D").or_else(|| signed.strip_prefix("%3d"));
        let value = match signed.strip_prefix(['=', ':']).or(encoded) {
            // `-u :X`
            _ if is_option && after.starts_with([' ', '\t']) && names::is_of_users(name) => signed,
            Some(rest) if !rest.starts_with([':', '/']) || signed.starts_with('=') => {
                blank_trimmed(rest.strip_prefix('>').unwrap_or(rest))
            }
            // An option and its value, in a script.
            _ if is_option && after.starts_with([' ', '\t']) && !signed.starts_with("--") => signed,
            _ => return None,
        };
        let has_quote = value.starts_with(['"', '\'']) && !matches!(was, '"' | '\'');
        let is_header = is_bare
            && !has_quote
            && after.starts_with(':')
            && names::is_header_of_words(name)
            // Else many in a line would take long.
            && !value.starts_with(REDACTED);
        let line = || front.rsplit('\n').next().unwrap_or_default();
        let (begin, length) = match value.starts_with(['\n', '\r', '|', '>']) {
            true if let Some((begin, end)) = shapes::block(value, shapes::indent_of(line())) => {
                (begin, end - begin)
            }
            _ if is_header => (0, shapes::header_length(value, was)),
            _ => (0, shapes::value_length(value)),
        };
        let value = value.get(begin..)?;
        let secret = text.len() - value.len();
        let plain = value.get(..length)?;
        let bare = plain.trim_matches(|c| matches!(c, '\\' | '"' | '\'' | ',' | '}'));
        if let Some(user) = password_of(name, plain).filter(|_| !plain.ends_with(REDACTED)) {
            return Some(Found { secret: secret + user.len(), end: secret + length });
        }
        if bare.is_empty() || plain.starts_with(REDACTED) || !self.is_secret(name, bare) {
            return None;
        }
        Some(Found { secret, end: secret + length })
    }

    /// Whether a value under a name is a secret.
    fn is_secret(&self, name: &str, value: &str) -> bool {
        let is_nothing = ["", "true", "false", "null", "none"].iter();
        let is_nothing = is_nothing.clone().any(|word| word.eq_ignore_ascii_case(value));
        let is_count = || names::may_be_a_count(name) && value.parse::<f64>().is_ok();
        let has_header = || names::holds_headers(name) && names::has_secret_header(value);
        let is_known = || names::is_secret(name) && !is_count() || has_header();
        !self.off && !is_nothing && (self.is_named(name) || is_known())
    }

    /// Whether a value under this name may be a secret, or hold one.
    fn takes_a_secret(&self, name: &str) -> bool {
        self.is_secret_name(name)
            || !self.off && (names::holds_headers(name) || names::is_of_users(name))
    }
}

/// The user in front of a password, with the colon, where `value` of this option is the two.
fn password_of<'a>(name: &str, value: &'a str) -> Option<&'a str> {
    // The name first: the look at the value may go to its end.
    if !names::is_of_users(name) {
        return None;
    }
    value.get(..names::password_at(value)?)
}

/// The name as what stands around it says: `pass` is one of a password where it is set, and may be a pass of a
/// profiler elsewhere.
fn effective_name<'a>(name: &'a str, after: &str, front: &str) -> &'a str {
    let is_set = || after.starts_with('=') || (after.starts_with(':') && is_in_map(front));
    if name.eq_ignore_ascii_case("pass") && is_set() { "--pass" } else { name }
}

/// Whether what follows `front` is a key of a map: in braces, or at the beginning of a line.
fn is_in_map(front: &str) -> bool {
    front.trim_end_matches([' ', '\t']).ends_with(['{', ',', '\n'])
}

/// Whether the word that `front` ends with begins a path.
fn is_path(front: &str) -> bool {
    let word = front.rsplit(|c: char| c.is_whitespace() || "\"'`(".contains(c)).next();
    word.is_some_and(|word| word.starts_with(['/', '.']))
}

/// A key at the beginning of `text`, and what follows its sign.
fn entry(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().take_while(|byte| is_name_byte(*byte)).count();
    let (name, rest) = text.split_at_checked(end).filter(|_| end > 0)?;
    let rest = blank_trimmed(rest.trim_start_matches(['\\', '"', '\'']));
    Some((name, blank_trimmed(rest.strip_prefix([':', '='])?)))
}

/// Where a secret is in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    /// Bytes before it that stay.
    secret: usize,
    /// Where it ends.
    end: usize,
}

/// A byte of the name of an option, a variable or a key.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// A byte of the key in front of a `=` at the beginning of an argument, as Hydra and others have them.
fn is_key_byte(byte: u8) -> bool {
    is_name_byte(byte) || matches!(byte, b'+' | b'~' | b'@' | b'/')
}

/// Without a few blanks in front.
fn blank_trimmed(text: &str) -> &str {
    let blanks = text.bytes().take(MAX_BLANKS).take_while(|byte| matches!(byte, b' ' | b'\t'));
    text.get(blanks.count()..).unwrap_or_default()
}

/// `:ro` behind the path of a mount.
fn is_mode_of_mount(text: &str) -> bool {
    let word = text.strip_prefix(':').and_then(|rest| rest.split_whitespace().next());
    word.is_some_and(|word| ["ro", "rw", "z", "Z"].contains(&word))
}
