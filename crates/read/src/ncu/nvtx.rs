//! The range columns of ncu's tables -> stacks of NVTX ranges, by name and domain.

use serde::{Deserialize, Serialize};

/// The domain that ranges have when they name none.
pub const DEFAULT_DOMAIN: &str = "<default domain>";

/// A range by name and domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Label {
    /// Name of the range.
    pub name: String,
    /// Its domain; none: the default one.
    pub domain: Option<String>,
}

impl Label {
    /// Reads `name` or `name@domain`, as this program and nsys write it. ncu puts the domain first.
    pub fn of_stage(stage: &str) -> Label {
        match stage.rsplit_once('@') {
            Some((name, domain)) if !name.is_empty() && !domain.is_empty() => {
                Label { name: name.to_owned(), domain: Some(domain.to_owned()) }
            }
            _ => Label { name: stage.to_owned(), domain: None },
        }
    }

    /// Whether `path` (`decode/layer.3`) is this range or lies within it.
    pub fn opens(&self, path: &str) -> bool {
        let full = self.domain.as_ref().map(|domain| format!("{}@{domain}", self.name));
        std::iter::once(self.name.as_str()).chain(full.as_deref()).any(|name| {
            path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// Reads the push/pop column of a table: the ranges that were open, the outermost first.
///
/// The cell is `THREAD  "DOMAIN:NAME:TYPE:VALUE:COLOR_TYPE:COLOR:MESSAGE_TYPE:MESSAGE" "..."`. Names
/// may hold anything, quotes and colons included: what is read is bounded by the six fields behind
/// the name, of which the message is the name again or `none`, and by quotes that a space or the end
/// follows.
pub fn stack(cell: &str) -> Vec<Label> {
    let mut labels = Vec::new();
    let mut rest = cell;
    while let Some(start) = rest.find('"') {
        if labels.len() >= DEEPEST {
            break;
        }
        let body = &rest[start + 1..];
        let end = closing_quote(body);
        labels.extend(label(&body[..end]));
        rest = body.get(end + 1..).unwrap_or("");
    }
    labels
}

/// Ranges of a stack that are read, the outermost ones: a program that forgets to close its ranges
/// opens them without end.
const DEEPEST: usize = 512;
/// Length up to which a part is searched for a repeated name, in bytes.
const LONGEST_REPEATED: usize = 4096;

/// Where the quoted part at the start of `body` ends.
fn closing_quote(body: &str) -> usize {
    let mut colons = 0;
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            b':' => colons += 1,
            b'"' if colons >= 7 => {
                let behind = body[at + 1..].trim_start_matches(' ');
                if behind.is_empty() || behind.starts_with('"') {
                    return at;
                }
            }
            _ => {}
        }
    }
    body.len()
}
fn label(text: &str) -> Option<Label> {
    let (domain, rest) = text.split_once(':')?;
    // Where the message is given it repeats the name, with as many colons in it as there are.
    let searched = if rest.len() <= LONGEST_REPEATED { rest } else { "" };
    let repeats = |(name, behind): &(&str, &str)| {
        let middle = behind.strip_suffix(name).and_then(|rest| rest.strip_suffix(':'));
        !name.is_empty() && middle.is_some_and(|middle| middle.matches(':').count() == 5)
    };
    let mut splits = searched.match_indices(':').map(|(at, _)| rest.split_at(at));
    let repeated = splits.find(repeats);
    let name = match repeated {
        Some((name, _)) => name,
        None => rest.rsplitn(7, ':').nth(6)?,
    };
    let domain = (domain != DEFAULT_DOMAIN && !domain.is_empty()).then(|| domain.to_owned());
    Some(Label { name: name.to_owned(), domain })
}

/// A stack as a path: `decode/layer.3`, `mlp@domain`. What separates is spelled out within names, so
/// that no two stacks share a path.
pub fn path(stack: &[Label]) -> String {
    let range = |label: &Label| match &label.domain {
        Some(domain) => format!("{}@{}", spelled(&label.name), spelled(domain)),
        None => spelled(&label.name),
    };
    stack.iter().map(range).collect::<Vec<_>>().join("/")
}

fn spelled(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2F").replace('@', "%40")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default(name: &str) -> Label {
        Label { name: name.into(), domain: None }
    }

    #[test]
    fn a_stage_is_the_first_range_of_a_path() {
        let stage = Label::of_stage("decode@LLM");
        assert!(stage.opens("decode") && stage.opens("decode/layer") && stage.opens("decode@LLM"));
        assert!(!stage.opens("decode2") && !stage.opens("prefill/decode") && !stage.opens(""));
    }

    #[test]
    fn stacks_are_read_from_a_cell() {
        let one = r#"1287  "<default domain>:decode:none:none:none:none:none:none" "#;
        assert_eq!(stack(one), [default("decode")]);
        let tail = "none:none:none:none:none:none";
        let two = format!(r#"7  "<default domain>:a:b c:{tail}" "LLM:say "hi":{tail}" "#);
        let second = Label { name: r#"say "hi""#.into(), domain: Some("LLM".into()) };
        assert_eq!(stack(&two), [default("a:b c"), second]);
        assert_eq!(path(&stack(&two)), r#"a:b c/say "hi"@LLM"#);
        let message = r#"7  "dom:a::A1:none:none:none:none:ASCII:a::A1"  "<default domain>:x:none:none:none:none:none:none" "#;
        let first = Label { name: "a::A1".into(), domain: Some("dom".into()) };
        assert_eq!(stack(message), [first, default("x")]);
    }

    #[test]
    fn endless_stacks_are_cut_and_endless_cells_are_read_in_time() {
        let one = r#""<default domain>:x:none:none:none:none:none:none"  "#;
        assert_eq!(stack(&one.repeat(100_000)).len(), DEEPEST);
        let odd = format!("1 \"{}", ":\"x".repeat(300_000));
        assert!(stack(&odd).len() <= 1);
    }

    #[test]
    fn damaged_cells_give_what_can_be_read() {
        for cell in ["", "1287", "\"", "\"\"", "1 \"<default domain>:x", "\"é\"\"", "::::::::"] {
            assert!(stack(cell).is_empty(), "{cell:?}");
        }
    }

    #[test]
    fn no_two_stacks_share_a_path() {
        let domain = Label { name: "a".into(), domain: Some("b".into()) };
        let names =
            [vec![default("a"), default("b")], vec![default("a/b")], vec![default("a%2Fb")]];
        let apart = names.into_iter().chain([vec![default("a@b")], vec![domain]]);
        let paths: std::collections::BTreeSet<String> = apart.map(|s| path(&s)).collect();
        assert_eq!(paths.len(), 5);
    }
}
