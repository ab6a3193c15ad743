//! Names of options, variables and keys -> whether what they hold is a secret.

/// Wherever they stand in a name, separators and case aside.
#[rustfmt::skip]
const PARTS: [&str; 21] = [
    "password", "passcode", "passwd", "passphrase", "secret", "credential", "creds",
    "authorization", "apikey", "accesskey", "privatekey", "secretkey", "sshkey", "authkey",
    "signingkey", "encryptionkey", "masterkey", "hmackey", "licensekey", "accountkey",
    "honeycombteam",
];
/// Words at the end of a name.
const LAST: [&str; 10] =
    ["token", "pwd", "pw", "pass", "auth", "cookie", "signature", "sig", "jwt", "bearer"];
/// Those that end longer words as well: `AUTHTOKEN`, `hftoken`, `DBPWD`. Words such as `compass` have the others.
const JOINED: [&str; 2] = ["token", "pwd"];
/// Words before `token` that make a number under it a secret, too.
const OF_ACCESS: [&str; 5] = ["access", "auth", "api", "refresh", "bearer"];
/// Words before `token` that make it one of a language model.
#[rustfmt::skip]
const OF_MODELS: [&str; 31] = [
    "eos", "bos", "pad", "unk", "sep", "cls", "mask", "image", "audio", "video", "vision", "max",
    "min", "num", "per", "special", "stop", "new", "prompt", "next", "input", "output", "start",
    "end", "begin", "first", "last", "decoder", "think", "draft", "additional",
];

/// Words before `key` at the end of a name that make it one of data, of a configuration or of a lookup.
#[rustfmt::skip]
const OF_DATA: &[&str] = &[
    "sort", "order", "partition", "primary", "foreign", "public", "cache", "group", "by", "prompt",
    "input", "output", "text", "label", "image", "images", "video", "audio", "data", "dataset",
    "dict", "row", "column", "index", "map", "json", "yaml", "toml", "sample", "name", "field",
    "query", "kv", "join", "hash", "manifest", "answer", "question", "response", "messages", "chat",
    "reward", "fn", "target", "value", "loss", "metric", "state", "model", "param", "config",
    "node", "hot", "any", "unique", "idempotency", "shard", "dedup",
];
/// Headers that say nothing secret.
#[rustfmt::skip]
const PLAIN_HEADERS: &[&str] = &[
    "contenttype", "contentlength", "contentencoding", "accept", "acceptencoding", "acceptlanguage",
    "useragent", "host",
];
/// Options whose value may be `user:password`.
const OF_USERS: &[&str] = &["-u", "-U", "--user", "--proxy-user", "--http-user", "--basic"];

/// The longest number with its unit, in a sentence.
const MEASURE_BYTES: usize = 8;

/// The setting that switches redaction off: what it says is not a secret.
const OWN_SETTING: &str = "redact.secrets";

/// Lower case, without separators.
pub(super) fn normal_form(name: &str) -> String {
    let kept = name.chars().filter(char::is_ascii_alphanumeric);
    kept.map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether a value under this name is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    if name == OWN_SETTING {
        return false;
    }
    has_part(name)
        || {
            let (before, last) = ending(name);
            LAST.contains(&&*last)
            && !(last == "token" && OF_MODELS.contains(&&*before))
            // A pass of a profiler is none, and a line may say something of it.
            && !(last == "pass" && before.is_empty() && !name.starts_with('-'))
        }
        || is_key(name)
}

fn has_part(name: &str) -> bool {
    let joined = normal_form(name);
    PARTS.iter().any(|part| joined.contains(part))
}

/// The last two words of a name; of `hftoken` and its like the last is `token`.
fn ending(name: &str) -> (String, String) {
    let mut words = words(name).into_iter().rev();
    let last = words.next().unwrap_or_default();
    let parts = JOINED.iter().find_map(|end| Some((last.strip_suffix(end)?, *end)));
    match parts {
        Some((front, end)) if !front.is_empty() => (front.to_owned(), end.to_owned()),
        _ => (words.next().unwrap_or_default(), last),
    }
}

/// Whether a header of this name has a value with blanks: a scheme and what belongs to it, or several cookies.
pub(super) fn is_header_of_words(name: &str) -> bool {
    let joined = normal_form(name);
    ["authorization", "cookie"].iter().any(|part| joined.contains(part))
}

/// Whether this name states that it stands in front of that of a variable, in lists of variables.
pub(super) fn is_of_names(name: &str) -> bool {
    ["name", "key"].iter().any(|word| word.eq_ignore_ascii_case(name))
}

/// `--wandb-key`, `--key`, `WANDB_KEY`, `x-functions-key`, but not `key=value` nor `sort_key`.
fn is_key(name: &str) -> bool {
    let mut words = words(name).into_iter().rev();
    words.next().is_some_and(|last| last == "key")
        && words.next().map_or(name.starts_with('-'), |before| !OF_DATA.contains(&&*before))
}

/// Whether what is under this name is a list of headers, `name=value,...` or `name: value`.
pub(super) fn holds_headers(name: &str) -> bool {
    words(name).pop().is_some_and(|last| ["header", "headers"].contains(&&*last))
}

/// Whether a header of a list may be secret. What is not a list holds none.
pub(super) fn has_secret_header(value: &str) -> bool {
    value.split([',', '\n']).filter_map(|header| header.split_once(['=', ':'])).any(
        |(name, value)| !value.trim().is_empty() && !PLAIN_HEADERS.contains(&&*normal_form(name)),
    )
}

/// Whether this is an option whose value may be a user and a password.
pub(super) fn is_of_users(name: &str) -> bool {
    OF_USERS.contains(&name)
}

/// Where the password of `user:password` begins; nothing where it is none, such as the numbers of a user and a
/// group.
pub(super) fn password_at(value: &str) -> Option<usize> {
    let (user, password) = value.split_once(':')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // Without a user: a personal access token.
    let is_none = password.trim_matches(['"', '\'']).is_empty()
        || password.starts_with("//")
        || is_number(user) && is_number(password);
    (!is_none).then_some(user.len() + 1)
}

/// Whether a sentence may have this word in front of a colon.
pub(super) fn is_word_of_prose(name: &str) -> bool {
    ["token", "pass", "auth", "signature"].iter().any(|word| word.eq_ignore_ascii_case(name))
}

/// Whether a number under this name states how many, and is not a secret.
pub(super) fn may_be_a_count(name: &str) -> bool {
    let (before, last) = ending(name);
    ["token", "pass", "key"].contains(&&*last)
        && !has_part(name)
        && !(last == "token" && OF_ACCESS.contains(&&*before))
}

/// Whether this may go on a sentence: its first word is a plain one, or a number with its unit.
pub(super) fn is_prose(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    let word = word.trim_end_matches(['.', ',', ';', ':', ')']);
    let is_measure = || {
        let number = word.trim_end_matches(|c: char| c.is_ascii_lowercase() || c == '%');
        word.len() <= MEASURE_BYTES && number.parse::<f64>().is_ok()
    };
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'\'');
    word.starts_with(|c: char| c.is_ascii_lowercase()) && word.bytes().all(is_plain) || is_measure()
}

/// The words of a name, lower case: `hfToken`, `HF_TOKEN` and `hf.token` have two each.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let begins = !c.is_ascii_alphabetic() || (was_lower && c.is_ascii_uppercase());
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c.is_ascii_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}
