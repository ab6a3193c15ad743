//! The variables by which job launchers number their processes, into facts for the trace file.
//!
//! Only the names listed here are ever read, and only values of the expected form are kept: no
//! secret can get into a capture this way. They are read on the guest's thread that starts us, where
//! the start reads its own variables: our thread never looks at an environment that the guest may
//! be changing.

use std::ffi::OsString;

/// Longest list of GPUs that is kept: 16 of them by their UUIDs, with commas.
const GPUS_BYTES: usize = 16 * 41;
const GPUS: &str = "CUDA_VISIBLE_DEVICES";

const NUMBERS: &str = "\
    RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK OMPI_COMM_WORLD_RANK \
    OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE PMIX_RANK \
    MPI_LOCALRANKID MV2_COMM_WORLD_RANK MV2_COMM_WORLD_LOCAL_RANK MV2_COMM_WORLD_SIZE \
    SLURM_PROCID SLURM_LOCALID SLURM_NTASKS SLURM_STEP_NUM_TASKS";

/// What the environment said about this process's place in its job at one moment: variables and their
/// values.
#[derive(Default)]
pub struct JobFacts(Vec<(&'static str, String)>);

impl JobFacts {
    /// Reads the environment. Allocates: call it only in a start.
    pub fn from_env() -> Self {
        Self::read(|name| std::env::var_os(name))
    }

    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let text = |name| variable(name).and_then(|value| value.into_string().ok());
        let number = |name| {
            let text = text(name)?;
            let digits = text.trim();
            let fits = digits.len() <= 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
            Some((name, digits.parse::<u64>().ok().filter(|_| fits)?.to_string()))
        };
        let of_gpus = |c: char| c.is_ascii_alphanumeric() || ",-/. ".contains(c);
        let gpus = text(GPUS)
            .filter(|list| (1..=GPUS_BYTES).contains(&list.len()) && list.chars().all(of_gpus))
            .map(|list| (GPUS, list));
        Self(NUMBERS.split_whitespace().filter_map(number).chain(gpus).collect())
    }

    /// The process's number in its job, by the first variable that gives one.
    pub fn rank(&self) -> Option<&str> {
        let names = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"];
        let of = |wanted: &str| self.0.iter().find(|(name, _)| *name == wanted);
        names.into_iter().find_map(of).map(|(_, value)| value.as_str())
    }

    /// The facts that `earlier` does not state in the same way, as key and value.
    pub fn beyond(&self, earlier: &JobFacts) -> Vec<(String, String)> {
        let new = self.0.iter().filter(|fact| !earlier.0.contains(fact));
        new.map(|(name, value)| (format!("env.{name}"), value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pairs: &[(&str, &str)]) -> JobFacts {
        JobFacts::read(|name| {
            pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).into())
        })
    }

    /// Variables as key and value of a fact.
    fn kept(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (format!("env.{name}"), (*value).to_owned())).collect()
    }

    fn listed(facts: &JobFacts) -> Vec<(String, String)> {
        facts.beyond(&JobFacts::default())
    }

    #[test]
    fn only_known_names_and_values_of_the_expected_form_are_kept() {
        let long = "0,".repeat(GPUS_BYTES);
        let facts = facts(&[
            ("RANK", " 3\n"),
            ("WORLD_SIZE", "four"),
            ("LOCAL_RANK", "-1"),
            ("PMI_RANK", "12345678901"),
            ("SLURM_PROCID", ""),
            ("HF_TOKEN", "hf_secret"),
            ("PMIX_RANK", "token=hf_secret"),
            ("CUDA_VISIBLE_DEVICES", &long),
        ]);
        assert_eq!(listed(&facts), kept(&[("RANK", "3")]));
    }

    #[test]
    fn the_size_of_a_slurm_step_is_kept() {
        let pairs = [("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "4")];
        assert_eq!(listed(&facts(&pairs)), kept(&pairs));
    }

    #[test]
    fn gpus_may_be_indices_or_uuids() {
        for good in ["0", "2,3", "GPU-8a3f0c1e-1111-2222-3333-444455556666,1", "MIG-1/2/0"] {
            let pairs = [("CUDA_VISIBLE_DEVICES", good)];
            assert_eq!(listed(&facts(&pairs)), kept(&pairs), "{good}");
        }
        assert_eq!(listed(&facts(&[("CUDA_VISIBLE_DEVICES", "$(id)\u{7f}")])), []);
    }

    #[test]
    fn a_later_look_tells_only_what_is_new() {
        let early = facts(&[("RANK", "0"), ("WORLD_SIZE", "2")]);
        let late = facts(&[("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "1")]);
        assert_eq!(late.beyond(&early), kept(&[("RANK", "1"), ("LOCAL_RANK", "1")]));
    }
}
