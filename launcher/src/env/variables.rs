//! The environment of the workload -> the variables that choose its GPUs or change what is measured.
//!
//! A list of names, and nothing else: an environment holds secrets.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use stage2_text::{shorten, visible};

/// None of them can hold a secret.
const NAMES: [&str; 12] = [
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NVML_BASED_CUDA_CHECK",
    "OMP_NUM_THREADS",
];
/// Characters of a value.
const SHOWN: usize = 256;

/// Those that `command` runs with: of this process, and what a leading `env` changes.
pub(crate) fn relevant_variables(command: &[OsString]) -> BTreeMap<String, String> {
    let own = NAMES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?)));
    let mut found: BTreeMap<String, OsString> = own.collect();
    let is_env = |word: &OsString| Path::new(word).file_name().is_some_and(|name| name == "env");
    if command.first().is_some_and(is_env) {
        let words = command.iter().skip(1).map_while(|word| word.to_str());
        for (name, value) in words.map_while(|word| word.split_once('=')) {
            if NAMES.contains(&name) {
                found.insert(name.to_owned(), value.into());
            }
        }
    }
    let shown = |value: OsString| shorten(&visible(value.as_encoded_bytes()), SHOWN);
    found.into_iter().map(|(name, value)| (name, shown(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_env_sets_in_front_of_the_program_counts_and_nothing_else_is_kept() {
        let of = |words: &[&str]| {
            relevant_variables(&words.iter().map(OsString::from).collect::<Vec<_>>())
        };
        let long = format!("CUBLAS_WORKSPACE_CONFIG={}", "x".repeat(1000));
        let words = [
            "/usr/bin/env",
            "CUDA_VISIBLE_DEVICES=1,0\u{1b}",
            "TOKEN=secret",
            &long,
            "python",
            "A=b",
        ];
        let found = of(&words);
        assert_eq!(found["CUDA_VISIBLE_DEVICES"], "1,0\\x1b");
        assert!(!found.contains_key("TOKEN"));
        assert!(found["CUBLAS_WORKSPACE_CONFIG"].chars().count() <= SHOWN + 1);
        let later = of(&["env", "python", "CUDA_VISIBLE_DEVICES=7"]);
        assert_ne!(later.get("CUDA_VISIBLE_DEVICES").map(String::as_str), Some("7"));
        let other = of(&["python", "CUDA_VISIBLE_DEVICES=7"]);
        assert_ne!(other.get("CUDA_VISIBLE_DEVICES").map(String::as_str), Some("7"));
    }
}
