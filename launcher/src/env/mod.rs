//! The machine and its tools -> `env.json`: what the numbers of a run were measured on.
//!
//! Only an allow-list of environment variables is recorded ([`relevant_variables`]); others may hold secrets.
//! Every question to another program has a time limit, and an answer that does not come is said to be
//! missing, with the reason.

mod cuda;
mod gpu;
mod python;
mod subprocess;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::{Arg, ArgAction};
use serde::{Deserialize, Serialize};

use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::{shorten, visible};
use stage2_model::{ProcessRow, Tool};
use stage2_read::threads::begin;

pub(crate) use cuda::{NO_LIBRARY, print_devices};
pub(crate) use gpu::{
    GpuFacts, SUBCOMMAND as PROBE_GPU, driver_version, probe as probe_gpu, probe_within,
};
pub(crate) use python::{Python, interpreter_of, is_python};
pub(crate) use subprocess::{Answer, DOORS, NoAnswer, answer, ask};

/// Contents of `env.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Environment {
    /// Version of this format: 1.
    pub(crate) schema: u32,
    /// Whether the run was made on a simulated GPU; the facts here are the machine's own.
    #[serde(default)]
    pub(crate) simulated: bool,
    pub(crate) host: Host,
    pub(crate) gpu: GpuFacts,
    /// The Python that the workload runs in; none when it is not a Python program.
    pub(crate) python: Option<Python>,
    /// Environment variables of the workload that choose its GPUs or change what is measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) variables: BTreeMap<String, String>,
    /// The profilers on PATH, by name.
    #[serde(default)]
    pub(crate) tools: BTreeMap<String, Tool>,
    /// Traced processes, with rank, host and GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) processes: Vec<ProcessRow>,
}

/// Asks the machine, the GPUs (unless that was done), the workload's Python and the tools at once.
pub(crate) fn gather(command: &[OsString], gpu: Option<GpuFacts>) -> Environment {
    std::thread::scope(|scope| {
        let gpu = begin(scope, move || gpu.unwrap_or_else(gpu::probe));
        let python = begin(scope, || python::of_workload(command));
        let tools = begin(scope, profilers);
        Environment {
            schema: 1,
            simulated: false,
            host: Host::read(),
            gpu: gpu.join().unwrap_or_default(),
            python: python.join().flatten(),
            variables: relevant_variables(command, |name| std::env::var_os(name)),
            tools: tools.join().unwrap_or_default(),
            processes: Vec::new(),
        }
    })
}

/// The machine. Empty or none: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) name: Option<String>,
    /// Distribution, as `/etc/os-release` names it.
    pub(crate) os: Option<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) cpu: Option<String>,
    /// Logical processors that this process may use.
    pub(crate) cpus: Option<usize>,
    pub(crate) memory_bytes: Option<u64>,
}

impl Host {
    pub(crate) fn read() -> Host {
        let file = |path: &str| std::fs::read_to_string(path).ok();
        let line = |path: &str| file(path).map(|t| t.trim().to_owned()).filter(|t| !t.is_empty());
        Host {
            name: line("/proc/sys/kernel/hostname"),
            os: file("/etc/os-release").and_then(|t| os_name(&t)),
            kernel: line("/proc/sys/kernel/osrelease"),
            cpu: file("/proc/cpuinfo").and_then(|t| value_of(&t, "model name")),
            cpus: std::thread::available_parallelism().ok().map(usize::from),
            memory_bytes: file("/proc/meminfo").and_then(|t| memory_bytes(&t)),
        }
    }
}

fn os_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned())
}

fn value_of(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let value = value_of(meminfo, "MemTotal")?;
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// `nsys` and `ncu`, as far as they are on PATH.
pub(crate) fn profilers() -> BTreeMap<String, Tool> {
    std::thread::scope(|scope| {
        let found = ["nsys", "ncu"].into_iter().filter_map(|name| Some((name, on_path(name)?)));
        let asked = found.map(|(name, path)| (name, begin(scope, move || version_of(path))));
        // All are asked before the first answer is waited for.
        let asked = asked.collect::<Vec<_>>().into_iter();
        asked.map(|(name, tool)| (name.to_owned(), tool.join().unwrap_or_default())).collect()
    })
}

fn version_of(path: PathBuf) -> Tool {
    let answer = ask(Command::new(&path).arg("--version"), VERSION_LIMIT);
    let version = match answer {
        Ok(text) => {
            // ncu prints a copyright before the version.
            let line = text.lines().find(|line| line.to_lowercase().contains("version"));
            line.map(|line| line.trim().to_owned())
        }
        Err(why) => Some(format!("unknown ({why})")),
    };
    Tool { path: Some(path.to_string_lossy().into_owned()), version }
}

/// The first executable file of that name on PATH.
pub(crate) fn on_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let mut files = path_folders().into_iter().map(|folder| folder.join(name.as_ref()));
    files.find(|path| is_executable(path))
}

/// The folders of PATH; where it is not set, those that `execvp` of glibc looks in then.
pub(crate) fn path_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).collect()
}

pub(crate) fn is_executable(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// None of them can hold a secret.
const VARIABLES: [&str; 12] = [
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
const SHOWN_CHARS: usize = 256;

/// Those that `command` runs with: what `inherited` says of each, and what a leading `env` changes.
pub(crate) fn relevant_variables(
    command: &[OsString],
    inherited: impl Fn(&str) -> Option<OsString>,
) -> BTreeMap<String, String> {
    let own = VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), inherited(name)?)));
    let mut found: BTreeMap<String, OsString> = own.into_map();
    let is_env = |word: &OsString| Path::new(word).file_name().is_some_and(|name| name == "env");
    if let Some((_, words)) = command.split_first().filter(|(first, _)| is_env(first)) {
        let words: Vec<&str> = words.iter().map_while(|word| word.to_str()).collect();
        apply_env(&words, &mut found);
    }
    let shown = |value: OsString| shorten(&visible(value.as_encoded_bytes()), SHOWN_CHARS);
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
    let env = clap::Command::new("env")
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
        if VARIABLES.contains(&name) {
            found.insert(name.to_owned(), value.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_they_are() {
        assert_eq!(os_name("ID=x\nPRETTY_NAME=\"Debian 13\"\n").as_deref(), Some("Debian 13"));
        assert_eq!(memory_bytes("MemTotal:       32 kB\nMemFree: 1 kB\n"), Some(32 * 1024));
        assert_eq!(memory_bytes("MemTotal: 99999999999999999999 kB"), None);
        assert_eq!(memory_bytes(""), None);
        assert_eq!(value_of("a\t: 1\nmodel name\t: X: Y\n", "model name").as_deref(), Some("X: Y"));
        assert!(Host::read().kernel.is_some());
    }

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
        assert!(found["CUBLAS_WORKSPACE_CONFIG"].chars().count() <= SHOWN_CHARS + 1);
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
