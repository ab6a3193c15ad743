//! The command of the workload -> the Python that it runs in, and the packages that matter there.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::on_path;
use super::subprocess::ask;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Python {
    /// As the workload names it.
    pub(crate) interpreter: String,
    pub(crate) version: Option<String>,
    /// Versions of the packages that are installed, out of those that matter for a GPU workload.
    #[serde(default)]
    pub(crate) packages: BTreeMap<String, String>,
    /// Why nothing is known; none when it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) absent: Option<String>,
}

const LIMIT: Duration = Duration::from_secs(10);

/// Imports nothing of what it asks for, and nothing from the working directory.
const SCRIPT: &str = "
import sys
sys.path[:] = [p for p in sys.path if p]
import json
found = {}
try:
    from importlib import metadata
    names = ['torch', 'transformers', 'triton', 'numpy', 'vllm', 'sglang', 'tensorrt-llm', 'flash-attn',
             'flashinfer-python', 'nvidia-cutlass-dsl', 'hydra-core', 'nvtx']
    # The packages of CUDA 12 and 11 have its number behind their names.
    for library in ('cublas', 'cudnn', 'nccl', 'cuda-runtime'):
        names += ['nvidia-' + library + end for end in ('', '-cu11', '-cu12', '-cu13')]
    for name in names:
        try:
            found[name] = metadata.version(name)
        except Exception:
            pass
except ImportError:
    pass
json.dump({'version': sys.version.split()[0], 'packages': found}, sys.stdout)
";

#[derive(Deserialize)]
struct Answer {
    version: String,
    packages: BTreeMap<String, Option<String>>,
}

/// The Python of the workload; none if it is not a Python program.
pub(crate) fn of_workload(command: &[OsString]) -> Option<Python> {
    let interpreter = interpreter_of(command)?;
    let name = interpreter.to_string_lossy().into_owned();
    let answer = ask(Command::new(&interpreter).args(["-c", SCRIPT]), LIMIT);
    let answer = answer.map_err(|why| why.to_string()).and_then(|text| {
        serde_json::from_str::<Answer>(&text).map_err(|e| format!("answered no JSON: {e}"))
    });
    Some(match answer {
        Ok(Answer { version, packages }) => Python {
            interpreter: name,
            version: Some(version),
            packages: packages.into_iter().filter_map(|(k, v)| Some((k, v?))).collect(),
            absent: None,
        },
        Err(why) => Python { interpreter: name, absent: Some(why), ..Python::default() },
    })
}

/// The interpreter: the command itself, what its `#!` line names, or a python further on in the
/// words of a wrapper that keeps PATH (`env A=b python x.py`).
pub(crate) fn interpreter_of(command: &[OsString]) -> Option<OsString> {
    let (first, rest) = command.split_first()?;
    if is_python(first) {
        return Some(first.clone());
    }
    if let Some(found) = find(first).and_then(|script| from_script(&script)) {
        return Some(found);
    }
    let wrappers = ["env", "nice", "taskset", "numactl", "timeout", "stdbuf", "nohup", "time"];
    let name = Path::new(first).file_name()?.to_str()?;
    if !wrappers.contains(&name) {
        return None;
    }
    rest.iter().find(|word| is_python(word)).cloned()
}

pub(crate) fn is_python(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let digits = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    digits.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

fn find(word: &OsStr) -> Option<PathBuf> {
    if word.as_encoded_bytes().contains(&b'/') { Some(word.into()) } else { on_path(word) }
}

/// The Python that runs a script, from its first lines.
fn from_script(script: &Path) -> Option<OsString> {
    let mut head = Vec::new();
    stage2_read::files::open(script).ok()?.take(1024).read_to_end(&mut head).ok()?;
    let head = String::from_utf8_lossy(head.strip_prefix(b"#!")?).into_owned();
    let mut lines = head.lines();
    let mut words = lines.next()?.split_whitespace();
    let program = words.next()?;
    if is_python(OsStr::new(program)) {
        return Some(program.into());
    }
    let name = Path::new(program).file_name()?.to_str()?;
    if name == "env" {
        return words.find(|word| is_python(OsStr::new(word))).map(OsString::from);
    }
    // Installers write this where the path of the interpreter is too long for the kernel.
    let exec = lines.next()?.strip_prefix("'''exec' ")?;
    let path = match exec.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => exec.split(' ').next()?,
    };
    (name == "sh" && is_python(OsStr::new(path))).then(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interpreter(words: &[&str]) -> Option<String> {
        let command: Vec<OsString> = words.iter().map(OsString::from).collect();
        interpreter_of(&command).map(|i| i.to_string_lossy().into_owned())
    }

    #[test]
    fn pythons_are_recognised() {
        assert_eq!(interpreter(&["python", "-m", "runner"]).as_deref(), Some("python"));
        assert_eq!(interpreter(&["/venv/bin/python3.12"]).as_deref(), Some("/venv/bin/python3.12"));
        assert_eq!(interpreter(&["env", "A=b", "python3", "x"]).as_deref(), Some("python3"));
        for other in
            [&["true"][..], &["echo", "python"], &["pythonista"], &["/no/such"], &[""], &[]]
        {
            assert_eq!(interpreter(other), None, "{other:?}");
        }
    }

    #[test]
    fn scripts_name_their_python() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("script");
        for (text, expected) in [
            ("#!/opt/python3\nx", Some("/opt/python3")),
            ("#!/usr/bin/env -S python3 -u\n", Some("python3")),
            ("#!/bin/sh\n'''exec' \"/a b/python3\" \"$0\" \"$@\"\n", Some("/a b/python3")),
            ("#!/bin/sh\necho python\n", None),
            ("#!", None),
            ("\u{7f}ELF", None),
        ] {
            std::fs::write(&path, text).expect("write");
            let found = interpreter(&[path.to_str().expect("path")]);
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_strange_interpreter_is_told_and_not_believed() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("python3");
        for (script, part) in [("echo no json", "no JSON"), ("echo broken >&2; exit 1", "broken")] {
            let source = dir.path().join("source");
            std::fs::write(&source, format!("#!/bin/sh\n{script}\n")).expect("write");
            // Another process copies it: what this one wrote is busy while another test forks.
            let copied =
                Command::new("install").args(["-m", "755"]).args([&source, &path]).status();
            assert!(copied.expect("install").success());
            let python = of_workload(&[path.clone().into()]).expect("it is called python3");
            assert!(python.absent.is_some_and(|why| why.contains(part)), "{script}");
        }
    }
}
