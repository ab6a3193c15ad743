//! Which NVTX domains belong to libraries: the built-in list, and what a configuration adds to it.

use stage2_text::is_library_domain;
use wildmatch::WildMatch;

/// Longer names are no names of domains, bytes.
const LONGEST_NAME: usize = 256;

/// The domains whose ranges are never stages, and never the parent of a range of the user.
#[derive(Clone, Debug, Default)]
pub struct LibraryDomains {
    added: Vec<WildMatch>,
}

impl LibraryDomains {
    /// The built-in list and `globs`, both without regard to upper and lower case.
    pub fn with(globs: &[String]) -> Self {
        Self { added: globs.iter().map(|glob| WildMatch::new_case_insensitive(glob)).collect() }
    }

    /// Whether `domain` is one of them.
    pub fn contains(&self, domain: &[u8]) -> bool {
        if domain.len() > LONGEST_NAME {
            return false;
        }
        let matches = |glob: &WildMatch| glob.matches(&String::from_utf8_lossy(domain));
        is_library_domain(domain) || self.added.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_add_to_the_built_in_list() {
        let added = LibraryDomains::with(&["my*".into(), "vllm".into()]);
        for domain in ["NCCL", "myLib", "MYLIB", "vLLM"] {
            assert!(added.contains(domain.as_bytes()), "{domain}");
        }
        for domain in ["", "amy", "vllm2"] {
            assert!(!added.contains(domain.as_bytes()), "{domain}");
        }
        assert!(!LibraryDomains::default().contains(b"vllm"));
        assert!(!added.contains("m".repeat(300).as_bytes()));
    }
}
