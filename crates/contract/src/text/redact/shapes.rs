//! Secrets that are known by their shape or place: tokens, private keys, user information of URLs.

use super::{Found, MAX_BLANKS};

/// A beginning that issuers of tokens use and that names of other things may have as well, and the fewest
/// bytes behind it.
#[rustfmt::skip]
const TOKENS: &[(&str, usize)] = &[
    ("hf_", 16), ("api_org_", 16), ("sk-", 16), ("xai-", 16), ("pplx-", 16), ("csk-", 16),
    ("tvly-", 16), ("jina_", 16), ("fw_", 16), ("re_", 16), ("co_", 30), ("dapi", 32), ("npm_", 30),
    ("pypi-", 16), ("pul-", 30), ("gsk_", 16), ("r8_", 30), ("rpa_", 30), ("eyJ", 16),
];
/// Beginnings that nothing else has. What is behind them may have any shape.
#[rustfmt::skip]
const ISSUERS: &[&str] = &[
    // Code and packages: GitHub, GitLab, Atlassian, PyPI, Docker, RubyGems.
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-", "glptt-",
    "glcbt-", "glsoat-", "glft-", "ATATT3x", "ATBB", "pypi-AgE", "dckr_pat_", "dckr_oat_",
    "rubygems_",
    // Clouds and hosts: Google, DigitalOcean, Azure DevOps, Fly, Supabase, HashiCorp, Doppler, Tailscale.
    "AIza", "ya29.", "GOCSPX-", "dop_v1_", "doo_v1_", "dor_v1_", "fo1_", "fm2_", "sbp_", "hvs.",
    "hvb.", "hvr.", "dp.pt.", "dp.st.", "tskey-", "ops_ey", "AGE-SECRET-KEY-",
    // Models and experiments: NVIDIA, Weights & Biases, Together, LangSmith, Pinecone, Hugging Face.
    "nvapi-", "wandb_v1_", "tgp_v1_", "lsv2_pt_", "lsv2_sk_", "pcsk_", "hf_oauth_",
    // Messages, payments, observability: Slack, SendGrid, Stripe, Shopify, Grafana, Sentry, Dynatrace.
    "xoxb-", "xoxp-", "xoxa-", "xoxs-", "xoxr-", "xoxe-", "xapp-", "SG.", "sk_live_", "sk_test_",
    "rk_live_", "rk_test_", "whsec_", "shpat_", "glsa_", "sntrys_", "dt0c01.", "NRAK-",
];
/// The fewest bytes behind these.
const ISSUED_BYTES: usize = 10;
/// No token of a known shape is shorter.
pub(super) const SHORTEST_BYTES: usize = 13;
/// Beginnings of key ids of AWS, and the bytes behind them.
const AWS: [&str; 2] = ["AKIA", "ASIA"];
const AWS_BYTES: usize = 16;
/// The fewest bytes of what stands behind `Bearer`.
const BEARER_BYTES: usize = 6;
/// Schemes of `Authorization`, whose value has two words.
const SCHEMES: [&str; 5] = ["bearer ", "basic ", "token ", "digest ", "apikey "];
/// What GitHub takes for a password behind a token.
const OF_TOKEN: &str = "x-oauth-basic";
/// A shorter user of a URL is a name to log in by.
const LOGIN_BYTES: usize = 16;
/// A list of values that is looked at to its end.
const MAX_LIST_BYTES: usize = 1024;
/// The part of a URL that is looked at for a password.
const MAX_AUTHORITY_BYTES: usize = 1024;

const KEY_BEGINS: &str = "-----BEGIN ";
/// The kind of a key stands in front of this, in one line.
const PRIVATE: &str = "PRIVATE KEY";
const MAX_KIND_BYTES: usize = 40;
const KEY_ENDS: &str = "-----END ";
/// Labels of a host, and parts of a path, that are looked at.
const MAX_PARTS: usize = 8;

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
    let (user, password) = info.split_once(':').unwrap_or((info, ""));
    // Without a password, or with this one, the user is the token.
    let secret = match password {
        OF_TOKEN => 0,
        "" if user.len() < LOGIN_BYTES => return None,
        "" => 0,
        super::REDACTED => return None,
        _ => user.len() + 1,
    };
    Some(Found { secret: 3 + secret, end: 3 + at })
}

/// The part of the URL of a web hook that lets anybody use it: Slack, Discord, Teams and others have no other
/// password than the path. `text` begins with the `://` of a URL.
pub(super) fn web_hook(text: &str) -> Option<Found> {
    let rest = text.strip_prefix("://")?;
    let is_url = |byte: &u8| !byte.is_ascii_whitespace() && !b"\"'`<>)".contains(byte);
    let length = rest.bytes().take(MAX_AUTHORITY_BYTES).take_while(is_url).count();
    let url = rest.get(..length)?;
    let (host, path) = url.split_once('/')?;
    let mut secret = host.len() + 1;
    if !host.split('.').take(MAX_PARTS).any(is_hook) {
        // Behind the part of the path that says what it is.
        let is_telegram = host.eq_ignore_ascii_case("api.telegram.org");
        let mut parts = path.split('/').take(MAX_PARTS);
        loop {
            let part = parts.next()?;
            if is_telegram && part.starts_with("bot") {
                break;
            }
            secret += part.len() + 1;
            if is_hook(part) || part.eq_ignore_ascii_case("hook") {
                break;
            }
        }
    }
    let path = url.get(secret..)?;
    // A page about web hooks has words in its path.
    let is_secret = path.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    is_secret.then_some(Found { secret: 3 + secret, end: 3 + length })
}

/// Whether a label of a host or a part of a path says that this is a web hook.
fn is_hook(part: &str) -> bool {
    let part = part.as_bytes();
    let has_word = |word: &[u8]| {
        let begin = part.get(..MAX_KIND_BYTES).unwrap_or(part);
        begin.windows(word.len()).any(|found| found.eq_ignore_ascii_case(word))
    };
    part.eq_ignore_ascii_case(b"hooks") || has_word(b"webhook")
}

/// A token of a known shape.
pub(super) fn token(text: &str) -> Option<Found> {
    // Each place of a text comes by here.
    if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
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
    let issued = ISSUERS.iter().find_map(|beginning| {
        let length = behind(beginning).filter(|length| *length >= ISSUED_BYTES)?;
        let body = text.get(beginning.len()..beginning.len() + length)?;
        // `SG.` begins the name of a class, too: of words alone nothing is a token.
        let is_token = body.bytes().any(|byte| byte.is_ascii_digit());
        is_token.then_some(Found { secret: 0, end: beginning.len() + length })
    });
    issued.or_else(|| prefixed_token(text))
}

/// A token whose beginning names of other things may have as well.
fn prefixed_token(text: &str) -> Option<Found> {
    TOKENS.iter().find_map(|(beginning, least)| {
        let behind = |beginning: &str| Some(token_end(text.strip_prefix(beginning)?));
        let length = behind(beginning).filter(|length| length >= least)?;
        let end = beginning.len() + length;
        let body = text.get(beginning.len()..end)?;
        // A name of several words is none: `hf_quantizer_config`, `sk-learn-...`.
        let is_long = body.bytes().take_while(u8::is_ascii_alphanumeric).count() >= *least;
        let has = |kind: fn(&u8) -> bool| body.bytes().any(|byte| kind(&byte));
        // Packages have names such as `pypi-server-2024`.
        let may_be_name = *beginning == "pypi-" && !has(u8::is_ascii_uppercase);
        let has_digit = !beginning.ends_with('_') && has(u8::is_ascii_digit) && !may_be_name;
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
    let mut is_list =
        text.starts_with('[') && text.bytes().take(MAX_LIST_BYTES).any(|byte| byte == b']');
    let is_quoted = is_list || text.starts_with(['"', '\'']);
    let mut quote: Option<char> = None;
    let (mut is_escaped, mut was_closed) = (false, false);
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < scheme) {
        if was_closed && is_quoted && !is_list && matches!(c, ',' | '}' | ']' | ':') {
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
            (None, ']') if is_list => (is_list, was_closed) = (false, true),
            (None, _) if is_list => {}
            (None, c) if c.is_whitespace() || "&;|)<>`".contains(c) => return at,
            (None, _) => {}
        }
    }
    text.len()
}

/// Bytes of the value of a header that has blanks: to the quote that closes what `quote` opened, or to the end
/// of the line.
pub(super) fn header_length(text: &str, quote: char) -> usize {
    let quote = Some(quote).filter(|quote| matches!(quote, '"' | '\''));
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        if matches!(c, '\n' | '\r') || (!is_escaped && Some(c) == quote) {
            return at;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text.len()
}

/// Where the lines begin and end that are indented by more than `indent`, below a sign that ends its line: a
/// value in YAML.
pub(super) fn block(text: &str, indent: usize) -> Option<(usize, usize)> {
    let is_style = |byte: &u8| matches!(byte, b'|' | b'>' | b'+' | b'-' | b'\r' | b'0'..=b'9');
    let style = text.bytes().take(MAX_BLANKS).take_while(is_style).count();
    let lines = text.get(style..)?.strip_prefix('\n')?.split_inclusive('\n');
    let deeper = lines.take_while(|line| indent_of(line) > indent);
    let length: usize = deeper.map(str::len).sum();
    let (begin, end) = (style + 1, style + 1 + length);
    let blanks = text.get(begin..end)?.len() - text.get(begin..end)?.trim_start().len();
    let kept = text.get(begin..end)?.trim_end().len();
    (kept > 0).then_some((begin + blanks, begin + kept))
}

/// Blanks and marks of lists at the beginning of a line.
pub(super) fn indent_of(line: &str) -> usize {
    line.bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'-')).count()
}
