//! Names of options, variables and keys -> whether what they hold is a secret.

/// Wherever they stand in a name, separators and case aside.
const PARTS: [&str; 19] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "credential",
    "authorization",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "sshkey",
    "authkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "hmackey",
    "licensekey",
    "accountkey",
    "honeycombteam",
];
/// Words at the end of a name.
const LAST: [&str; 9] =
    ["token", "pwd", "pass", "auth", "cookie", "signature", "sig", "jwt", "bearer"];
/// Words before `token` that make it one of a language model.
const OF_MODELS: [&str; 31] = [
    "eos",
    "bos",
    "pad",
    "unk",
    "sep",
    "cls",
    "mask",
    "image",
    "audio",
    "video",
    "vision",
    "max",
    "min",
    "num",
    "per",
    "special",
    "stop",
    "new",
    "prompt",
    "next",
    "input",
    "output",
    "start",
    "end",
    "begin",
    "first",
    "last",
    "decoder",
    "think",
    "draft",
    "additional",
];

/// Words before `key` at the end of a name that make it one of data, of a configuration or of a lookup.
const OF_DATA: &[&str] = &[
    "sort",
    "order",
    "partition",
    "primary",
    "foreign",
    "public",
    "cache",
    "group",
    "by",
    "prompt",
    "input",
    "output",
    "text",
    "label",
    "image",
    "images",
    "video",
    "audio",
    "data",
    "dataset",
    "dict",
    "row",
    "column",
    "index",
    "map",
    "json",
    "yaml",
    "toml",
    "sample",
    "name",
    "field",
    "query",
    "kv",
    "join",
    "hash",
    "manifest",
    "answer",
    "question",
    "response",
    "messages",
    "chat",
    "reward",
    "fn",
    "target",
    "value",
    "loss",
    "metric",
    "state",
    "model",
    "param",
    "config",
    "node",
    "hot",
    "any",
    "unique",
    "idempotency",
    "shard",
    "dedup",
];
/// Headers that say nothing secret.
const PLAIN_HEADERS: &[&str] = &[
    "contenttype",
    "contentlength",
    "contentencoding",
    "accept",
    "acceptencoding",
    "acceptlanguage",
    "useragent",
    "host",
];
/// Options whose value may be `user:password`.
const OF_USERS: &[&str] = &["-u", "-U", "--user", "--proxy-user", "--http-user", "--basic"];

/// The setting that switches redaction off: what it says is no secret.
const OWN_SETTING: &str = "redact.secrets";

/// Lower case, without separators.
pub(super) fn joined(name: &str) -> String {
    let kept = name.chars().filter(char::is_ascii_alphanumeric);
    kept.map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether a value under this name is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    if name == OWN_SETTING {
        return false;
    }
    let joined = joined(name);
    PARTS.iter().any(|part| joined.contains(part))
        || {
            let mut words = words(name).into_iter().rev();
            let last = words.next().unwrap_or_default();
            let before = words.next();
            LAST.contains(&&*last)
            && !(last == "token" && before.as_ref().is_some_and(|word| OF_MODELS.contains(&&**word)))
            // A pass of a profiler is none, and a line may say something of it.
            && !(last == "pass" && before.is_none() && !name.starts_with('-'))
        }
        || is_key(name)
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

/// Whether a header of a list may be secret. What is no list holds none.
pub(super) fn has_secret_header(value: &str) -> bool {
    value
        .split([',', '\n'])
        .filter_map(|header| header.split_once(['=', ':']))
        .any(|(name, value)| !value.trim().is_empty() && !PLAIN_HEADERS.contains(&&*joined(name)))
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
    let is_none = user.is_empty()
        || password.trim_matches(['"', '\'']).is_empty()
        || password.starts_with("//")
        || is_number(user) && is_number(password);
    (!is_none).then_some(user.len() + 1)
}

/// Whether a sentence may have this word in front of a colon.
pub(super) fn is_word_of_prose(name: &str) -> bool {
    ["token", "pass", "auth", "signature"].iter().any(|word| word.eq_ignore_ascii_case(name))
}

/// Whether a number under this name says how many, and is no secret.
pub(super) fn may_be_a_count(name: &str) -> bool {
    let last = words(name).pop().unwrap_or_default();
    ["token", "pass", "key"].contains(&&*last)
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
