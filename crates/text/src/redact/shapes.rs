//! Secrets that are known by their shape or place: tokens, private keys, user information of URLs.

use super::{Found, MAX_BLANKS};

/// A beginning that issuers of tokens use, and the fewest bytes behind it.
const TOKENS: [(&str, usize); 27] = [
    ("hf_", 16),
    ("api_org_", 16),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghu_", 16),
    ("ghs_", 16),
    ("ghr_", 16),
    ("github_pat_", 16),
    ("glpat-", 16),
    ("sk-", 16),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("nvapi-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxs-", 10),
    ("AIza", 30),
    ("ya29.", 16),
    ("npm_", 30),
    ("pypi-", 30),
    ("dckr_pat_", 16),
    ("gsk_", 16),
    ("r8_", 30),
    ("wandb_v1_", 16),
    ("eyJ", 16),
];
/// No token of a known shape is shorter.
pub(super) const SHORTEST_BYTES: usize = 15;
/// Beginnings of key ids of AWS, and the bytes behind them.
const AWS: [&str; 2] = ["AKIA", "ASIA"];
const AWS_BYTES: usize = 16;
/// The fewest bytes of what stands behind `Bearer`.
const BEARER_BYTES: usize = 6;
/// Schemes of `Authorization`, whose value has two words.
const SCHEMES: [&str; 5] = ["bearer ", "basic ", "token ", "digest ", "apikey "];
/// The part of a URL that is looked at for a password.
const MAX_AUTHORITY_BYTES: usize = 1024;

const KEY_BEGINS: &str = "-----BEGIN ";
/// The kind of a key stands in front of this, in one line.
const PRIVATE: &str = "PRIVATE KEY";
const MAX_KIND_BYTES: usize = 40;
const KEY_ENDS: &str = "-----END ";

/// A private key, to its end or to that of the text.
pub(super) fn private_key(text: &str) -> Option<Found> {
    let kind = text.strip_prefix(KEY_BEGINS)?.as_bytes();
    let head = kind.get(..MAX_KIND_BYTES).unwrap_or(kind);
    if !head.windows(PRIVATE.len()).any(|part| part == PRIVATE.as_bytes()) {
        return None;
    }
    let end = text.find(KEY_ENDS).map(|at| {
        let behind = text.get(at + KEY_ENDS.len()..).unwrap_or_default();
        let dashes = behind.find("-----").map_or(behind.len(), |dashes| dashes + 5);
        at + KEY_ENDS.len() + dashes
    });
    Some(Found { secret: 0, end: end.unwrap_or(text.len()) })
}

/// `://user:password@` -> the password; `://token@` -> the token, unless it is a name to log in by.
pub(super) fn user_info(text: &str) -> Option<Found> {
    let rest = text.strip_prefix("://")?;
    let is_authority = |byte: &u8| !byte.is_ascii_whitespace() && !b"/?#\"'`".contains(byte);
    let length = rest.bytes().take(MAX_AUTHORITY_BYTES).take_while(is_authority).count();
    let at = rest.as_bytes().get(..length)?.iter().rposition(|byte| *byte == b'@')?;
    let info = rest.get(..at)?;
    let name = info.find(':').map_or(0, |colon| colon + 1);
    let is_login = name == 0 && (info.is_empty() || info.len() < 16);
    if is_login || name == info.len() || info.get(name..) == Some(super::REDACTED) {
        return None;
    }
    Some(Found { secret: 3 + name, end: 3 + at })
}

/// A token of a known shape.
pub(super) fn token(text: &str) -> Option<Found> {
    let behind = |beginning: &str| {
        let body = text.strip_prefix(beginning)?;
        Some(token_end(body))
    };
    let is_aws = |beginning: &&&str| {
        let body = text.strip_prefix(**beginning);
        body.is_some_and(|body| {
            let is_id = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
            body.bytes().take_while(is_id).take(AWS_BYTES).count() == AWS_BYTES
        })
    };
    if let Some(beginning) = AWS.iter().find(is_aws) {
        return Some(Found { secret: 0, end: beginning.len() + behind(beginning)? });
    }
    TOKENS.iter().find_map(|(beginning, least)| {
        let length = behind(beginning).filter(|length| length >= least)?;
        let end = beginning.len() + length;
        let body = text.get(beginning.len()..end)?;
        // A name of several words is none: `hf_quantizer_config`, `sk-learn-...`.
        let is_long = body.bytes().take_while(u8::is_ascii_alphanumeric).count() >= *least;
        let has_digit = !beginning.ends_with('_') && body.bytes().any(|byte| byte.is_ascii_digit());
        (has_digit || is_long).then_some(Found { secret: 0, end })
    })
}

/// Bytes of a token that `text` begins with.
pub(super) fn token_end(text: &str) -> usize {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.bytes().take_while(is_token).count()
}

/// What stands behind `Bearer`, which ends at `end`.
pub(super) fn behind_bearer(text: &str, end: usize) -> Option<Found> {
    let behind = text.get(end..)?;
    let blanks = behind.bytes().take(MAX_BLANKS).take_while(|byte| matches!(byte, b' ' | b'\t'));
    let secret = end + blanks.count();
    let length = value_length(text.get(secret..)?);
    let is_token = secret > end && length >= BEARER_BYTES && !text.get(secret..)?.starts_with('[');
    is_token.then_some(Found { secret, end: secret + length })
}

/// Bytes of a value, as a shell would take them for one word: quotes may stand anywhere in it. In JSON
/// and its like it ends with its quotes.
pub(super) fn value_length(text: &str) -> usize {
    if let Some(rest) = text.strip_prefix("\\\"") {
        return rest.find("\\\"").map_or(text.len(), |end| end + 4);
    }
    let scheme = SCHEMES.iter().find(|scheme| {
        text.get(..scheme.len()).is_some_and(|front| front.eq_ignore_ascii_case(scheme))
    });
    let scheme = scheme.map_or(0, |scheme| scheme.len());
    let is_quoted = text.starts_with(['"', '\'']);
    let mut quote: Option<char> = None;
    let (mut is_escaped, mut was_closed) = (false, false);
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < scheme) {
        if was_closed && is_quoted && matches!(c, ',' | '}' | ']' | ':') {
            return at;
        }
        was_closed = false;
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (Some(open), c) if c == open => (quote, was_closed) = (None, true),
            (Some('\''), _) => {}
            (_, '\\') => is_escaped = true,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, c) if c.is_whitespace() || "&;|)<>`".contains(c) => return at,
            (None, _) => {}
        }
    }
    text.len()
}
