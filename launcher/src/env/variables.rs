//! The environment of the workload -> the variables that choose its GPUs or change what is measured.
//!
//! A list of names, and nothing else: an environment holds secrets.

use std::collections::{BTreeMap, VecDeque};
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

/// Those that `command` runs with: what `inherited` says of each, and what a leading `env` changes.
pub(crate) fn relevant_variables(
    command: &[OsString],
    inherited: impl Fn(&str) -> Option<OsString>,
) -> BTreeMap<String, String> {
    let own = NAMES.iter().filter_map(|name| Some(((*name).to_owned(), inherited(name)?)));
    let mut found: BTreeMap<String, OsString> = own.collect();
    let is_env = |word: &OsString| Path::new(word).file_name().is_some_and(|name| name == "env");
    if let Some((_, words)) = command.split_first().filter(|(first, _)| is_env(first)) {
        let words = words.iter().map_while(|word| word.to_str());
        apply_env(words.map(str::to_owned).collect(), &mut found);
    }
    let shown = |value: OsString| shorten(&visible(value.as_encoded_bytes()), SHOWN);
    found.into_iter().map(|(name, value)| (name, shown(value))).collect()
}

/// Does to `found` what `env` does before it starts its program. `words` follow `env`.
fn apply_env(mut words: VecDeque<String>, found: &mut BTreeMap<String, OsString>) {
    let mut options_over = false;
    while let Some(word) = words.pop_front() {
        if let Some((name, value)) = word.split_once('=').filter(|_| !word.starts_with('-')) {
            options_over = true;
            if NAMES.contains(&name) {
                found.insert(name.to_owned(), value.into());
            }
        } else if options_over || !word.starts_with('-') {
            return;
        } else if word == "--" {
            options_over = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            match name {
                "ignore-environment" => found.clear(),
                "unset" | "chdir" | "argv0" | "split-string" => {
                    let Some(value) = value.or_else(|| words.pop_front()) else { return };
                    take_value(name, &value, &mut words, found);
                }
                _ => {}
            }
        } else {
            short_options(&word, &mut words, found);
        }
    }
}

/// A word of one-letter options, of which the last may take the rest of the word or the next one.
fn short_options(word: &str, words: &mut VecDeque<String>, found: &mut BTreeMap<String, OsString>) {
    if word == "-" {
        found.clear();
    }
    for (at, letter) in word.char_indices().skip(1) {
        let name = match letter {
            'i' => {
                found.clear();
                continue;
            }
            'u' => "unset",
            'C' => "chdir",
            'a' => "argv0",
            'S' => "split-string",
            _ => continue,
        };
        let rest = word.get(at + 1..).filter(|rest| !rest.is_empty()).map(str::to_owned);
        if let Some(value) = rest.or_else(|| words.pop_front()) {
            take_value(name, &value, words, found);
        }
        return;
    }
}

/// An option of `env` that has a value.
fn take_value(
    name: &str,
    value: &str,
    words: &mut VecDeque<String>,
    found: &mut BTreeMap<String, OsString>,
) {
    match name {
        "unset" => drop(found.remove(value)),
        "split-string" => {
            for word in value.split_whitespace().rev() {
                words.push_front(word.to_owned());
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str], inherited: &[(&str, &str)]) -> BTreeMap<String, String> {
        let command: Vec<OsString> = words.iter().map(OsString::from).collect();
        relevant_variables(&command, |name| {
            let found = inherited.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn what_env_sets_in_front_of_the_program_counts_and_nothing_else_is_kept() {
        let long = format!("CUBLAS_WORKSPACE_CONFIG={}", "x".repeat(1000));
        let words = [
            "/usr/bin/env",
            "CUDA_VISIBLE_DEVICES=1,0\u{1b}",
            "TOKEN=secret",
            &long,
            "python",
            "A=b",
        ];
        let found = of(&words, &[("OMP_NUM_THREADS", "3"), ("TOKEN", "secret")]);
        assert_eq!(found["CUDA_VISIBLE_DEVICES"], "1,0\\x1b");
        assert_eq!(found["OMP_NUM_THREADS"], "3");
        assert!(!found.contains_key("TOKEN"));
        assert!(found["CUBLAS_WORKSPACE_CONFIG"].chars().count() <= SHOWN + 1);
        for words in [
            &["env", "python", "CUDA_VISIBLE_DEVICES=7"][..],
            &["python", "CUDA_VISIBLE_DEVICES=7"],
        ] {
            assert_eq!(of(words, &[]), BTreeMap::new(), "{words:?}");
        }
    }

    #[test]
    fn options_of_env_take_variables_out() {
        let inherited = [("CUDA_LAUNCH_BLOCKING", "1"), ("OMP_NUM_THREADS", "3")];
        for (options, left) in [
            (&["-u", "CUDA_LAUNCH_BLOCKING"][..], &["OMP_NUM_THREADS"][..]),
            (&["-uCUDA_LAUNCH_BLOCKING"], &["OMP_NUM_THREADS"]),
            (&["--unset=CUDA_LAUNCH_BLOCKING"], &["OMP_NUM_THREADS"]),
            (&["--unset", "CUDA_LAUNCH_BLOCKING"], &["OMP_NUM_THREADS"]),
            (&["-v", "-C", "/x", "-u", "CUDA_LAUNCH_BLOCKING", "A=b"], &["OMP_NUM_THREADS"]),
            (&["--chdir=/x", "--block-signal", "-vuCUDA_LAUNCH_BLOCKING"], &["OMP_NUM_THREADS"]),
            (&["-S", "-u CUDA_LAUNCH_BLOCKING python"], &["OMP_NUM_THREADS"]),
            (&["-i"], &[]),
            (&["-"], &[]),
            (&["--ignore-environment"], &[]),
            (&["-iv", "OMP_NUM_THREADS=1"], &["OMP_NUM_THREADS"]),
            (&["--", "OMP_NUM_THREADS=1"], &["CUDA_LAUNCH_BLOCKING", "OMP_NUM_THREADS"]),
            (&["-u", "TOKEN"], &["CUDA_LAUNCH_BLOCKING", "OMP_NUM_THREADS"]),
            (&["python", "-i"], &["CUDA_LAUNCH_BLOCKING", "OMP_NUM_THREADS"]),
            (&["A=b", "-i"], &["CUDA_LAUNCH_BLOCKING", "OMP_NUM_THREADS"]),
        ] {
            let words: Vec<&str> =
                ["env"].iter().chain(options).chain(&["python", "-i"]).copied().collect();
            let found = of(&words, &inherited);
            assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), left, "{options:?}");
        }
    }
}
