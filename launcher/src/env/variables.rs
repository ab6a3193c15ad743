//! The environment of the workload -> the variables that choose its GPUs or change what is measured.
//!
//! A list of names, and nothing else: an environment holds secrets.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use stage2_contract::text::{shorten, visible};

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
        let words: Vec<&str> = words.iter().map_while(|word| word.to_str()).collect();
        apply_env(&words, &mut found);
    }
    let shown = |value: OsString| shorten(&visible(value.as_encoded_bytes()), SHOWN);
    found.into_iter().map(|(name, value)| (name, shown(value))).collect()
}

/// Does to `found` what `env` does before it starts its program. `words` follow `env`.
fn apply_env(words: &[&str], found: &mut BTreeMap<String, OsString>) {
    let flag = |name, short| Arg::new(name).long(name).short(short).action(ArgAction::SetTrue);
    let value = |name, short| {
        let arg = Arg::new(name).long(name).short(short).action(ArgAction::Append);
        arg.allow_hyphen_values(true)
    };
    let signals = |name| Arg::new(name).long(name).num_args(0..=1).require_equals(true);
    let env = Command::new("env")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args([flag("ignore-environment", 'i'), flag("null", '0'), flag("debug", 'v')])
        .args([value("unset", 'u'), value("split-string", 'S')])
        .args([value("chdir", 'C'), value("argv0", 'a')])
        .args(["block-signal", "default-signal", "ignore-signal"].map(signals))
        .arg(Arg::new("list").long("list-signal-handling").action(ArgAction::SetTrue))
        .arg(Arg::new("words").num_args(0..).trailing_var_arg(true));
    let Ok(given) = env.try_get_matches_from(words) else { return };
    let all = |name| given.get_many::<String>(name).into_iter().flatten().map(String::as_str);
    let mut rest: VecDeque<&str> = all("words").collect();
    // A lone `-` is an old name of `-i`.
    let is_lone = rest.pop_front_if(|word| *word == "-").is_some();
    if is_lone || given.get_flag("ignore-environment") {
        found.clear();
    }
    for name in all("unset") {
        found.remove(name);
    }
    if let Some(text) = all("split-string").next() {
        return apply_env(&text.split_whitespace().chain(rest).collect::<Vec<_>>(), found);
    }
    for (name, value) in rest.iter().map_while(|word| word.split_once('=')) {
        if NAMES.contains(&name) {
            found.insert(name.to_owned(), value.into());
        }
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
