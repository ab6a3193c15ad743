//! What a configuration says of the names of ranges: which NVTX domains belong to libraries, in addition to the
//! built-in list, and which outermost ranges are the model's.

use stage2_contract::text::is_library_domain;
use stage2_model::Role;
use wildmatch::WildMatch;

use crate::engine::Engines;
use crate::roles::{Meant, RoleSettings};

/// Longer names are not names of domains, bytes.
const LONGEST_NAME: usize = 256;

/// What names of ranges and domains mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeNames {
    /// Their ranges are never stages, and never the parent of a range of the user.
    libraries: Vec<WildMatch>,
    /// What ranges are to the model, by their names.
    pub roles: RoleSettings,
    /// What engines call their steps and modules.
    pub engines: Engines,
    /// Makes each process without ranges one stage.
    pub keeps_whole: bool,
    /// Ranges of engines keep their own names and places, although their steps are followed.
    pub keeps_names: bool,
}

impl RangeNames {
    /// The built-in list of libraries and `globs`, both without regard to upper and lower case.
    pub fn with(globs: &[String]) -> Self {
        let libraries = globs.iter().map(|glob| WildMatch::new_case_insensitive(glob)).collect();
        Self { libraries, ..Self::default() }
    }

    /// Replaces the patterns that say which ranges are the prefill, the decode and so on of the model.
    pub fn and_roles(self, roles: RoleSettings) -> Self {
        Self { roles, ..self }
    }

    /// Replaces the adapters that say what engines call their steps.
    pub fn and_engines(self, engines: Engines) -> Self {
        Self { engines, ..self }
    }

    /// Whether stages are inferred in processes without ranges.
    pub fn and_infers_stages(self, infers: bool) -> Self {
        Self { keeps_whole: !infers, ..self }
    }

    /// Each range keeps its own name and place, as the engine gave them.
    pub fn and_keeps_names(self) -> Self {
        Self { keeps_names: true, ..self }
    }

    /// Whether `domain` is that of a library.
    pub fn contains(&self, domain: &[u8]) -> bool {
        if domain.len() > LONGEST_NAME {
            return false;
        }
        let matches = |glob: &WildMatch| glob.matches(&String::from_utf8_lossy(domain));
        is_library_domain(domain) || self.libraries.iter().any(matches)
    }

    /// Whether an outermost range of this name, in this domain or the default one, is a stage of the model.
    pub fn is_of_model(&self, name: &[u8], domain: Option<&[u8]>) -> bool {
        let (name, domain) = (String::from_utf8_lossy(name), domain.map(String::from_utf8_lossy));
        let meant = self.roles.of(&name, domain.as_deref());
        matches!(meant, Meant::Stage(role) if role != Role::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_add_to_the_built_in_list() {
        let added = RangeNames::with(&["my*".into(), "vllm".into()]);
        for domain in ["NCCL", "myLib", "MYLIB", "vLLM"] {
            assert!(added.contains(domain.as_bytes()), "{domain}");
        }
        for domain in ["", "amy", "vllm2"] {
            assert!(!added.contains(domain.as_bytes()), "{domain}");
        }
        assert!(!RangeNames::default().contains(b"vllm"));
        assert!(!added.contains("m".repeat(300).as_bytes()));
    }

    #[test]
    fn stages_of_the_model_are_those_of_the_roles() {
        let names = RangeNames::default();
        for (name, domain, expected) in [
            (&b"decode_all"[..], Some(&b"LLM"[..]), true),
            (b"LLM@prefill", None, true),
            (b"vision", None, true),
            (b"sampling", None, false),
            (b"decoder_layer", None, false),
            (b"decode_warmup", None, false),
            (b"step", Some(b"decode"), false),
        ] {
            assert_eq!(names.is_of_model(name, domain), expected, "{name:?}");
        }
    }
}
