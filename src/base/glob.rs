//! `STAGE2_RANGES` into a filter over NVTX ranges that needs neither memory nor a table.
//!
//! Each glob is one bit. A domain or a registered string is matched once, when it is made, and its
//! bits travel in its handle; a plain name is matched at its push. A range is wanted where a glob
//! matches both its name and its domain.

use std::fmt;

/// Globs that a filter can hold: the bits that handles have room for.
pub const MAX_GLOBS: usize = 30;

/// Which ranges are collected. Without globs: everything, in and out of ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeFilter {
    globs: Vec<Glob>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Glob {
    name: Vec<u8>,
    /// `None`: the default domain or any other, i.e. no domain was asked for.
    domain: Option<Vec<u8>>,
}

impl fmt::Display for RangeFilter {
    /// As [`RangeFilter::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, glob) in self.globs.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            f.write_str(&String::from_utf8_lossy(&glob.name))?;
            if let Some(domain) = &glob.domain {
                write!(f, "@{}", String::from_utf8_lossy(domain))?;
            }
        }
        Ok(())
    }
}

impl RangeFilter {
    pub(crate) fn is_everything(&self) -> bool {
        self.globs.is_empty()
    }

    /// Reads comma-separated globs `name[@domain]` (`*` any text, `?` any byte). `None` where
    /// none is given or there are more than [`MAX_GLOBS`].
    pub fn parse(text: &str) -> Option<Self> {
        let globs: Vec<Glob> = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (name, domain) = part.rsplit_once('@').unzip();
                Glob { name: name.unwrap_or(part).into(), domain: domain.map(Into::into) }
            })
            .collect();
        (1..=MAX_GLOBS).contains(&globs.len()).then_some(RangeFilter { globs })
    }

    /// One bit for each glob whose name part matches.
    pub fn match_name(&self, name: &[u8]) -> u32 {
        self.bits(|glob| matches(&glob.name, name))
    }

    /// One bit for each glob whose domain part matches.
    pub fn match_domain(&self, domain: &[u8]) -> u32 {
        self.bits(|glob| glob.domain.as_ref().is_none_or(|pattern| matches(pattern, domain)))
    }

    fn bits(&self, hit: impl Fn(&Glob) -> bool) -> u32 {
        self.globs.iter().enumerate().filter(|(_, glob)| hit(glob)).map(|(i, _)| 1 << i).sum()
    }
}

/// Whether `text` matches `pattern`, in time linear in their product and without memory.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(&b) if b == b'?' || b == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                // Let the last star take one byte more.
                Some((after, taken)) => {
                    star = Some((after, taken + 1));
                    p = after;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("*", "abc", true),
            ("decode", "decode", true),
            ("decode", "decode_step", false),
            ("decode*", "decode_step", true),
            ("*step", "decode_step_step", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("s?ep", "step", true),
            ("s?ep", "sep", false),
            ("**", "x", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pathological_glob_stays_cheap() {
        let pattern = "*a".repeat(200);
        assert!(!matches(pattern.as_bytes(), "a".repeat(199).as_bytes()));
    }

    #[test]
    fn name_and_domain_must_match_the_same_glob() {
        let filter = RangeFilter::parse("prefill, decode*@llm").unwrap();
        let wanted = |name: &str, domain: &str| {
            filter.match_name(name.as_bytes()) & filter.match_domain(domain.as_bytes()) != 0
        };
        assert!(wanted("prefill", ""));
        assert!(wanted("prefill", "other"));
        assert!(wanted("decode_step", "llm"));
        assert!(!wanted("decode_step", ""));
        assert!(!wanted("warmup", "llm"));
    }

    #[test]
    fn empty_and_overlong_lists_are_no_filter() {
        assert_eq!(RangeFilter::parse(" , "), None);
        assert_eq!(RangeFilter::parse(&"a,".repeat(31)), None);
        assert!(RangeFilter::parse(&"a,".repeat(30)).is_some());
    }
}
