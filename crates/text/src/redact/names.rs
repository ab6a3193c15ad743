//! Names of options, variables and keys -> whether what they hold is a secret.

/// Wherever they stand in a name, separators and case aside.
const PARTS: [&str; 18] = [
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
}

/// Whether a sentence may have this word in front of a colon.
pub(super) fn is_word_of_prose(name: &str) -> bool {
    ["token", "pass", "auth", "signature"].iter().any(|word| word.eq_ignore_ascii_case(name))
}

/// Whether a number under this name says how many, and is no secret.
pub(super) fn may_be_a_count(name: &str) -> bool {
    let last = words(name).pop().unwrap_or_default();
    ["token", "pass"].contains(&&*last)
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
