//! Real programs of every kind under the launcher: those that cannot load the collector run without it
//! and are told, instead of being ended by the loader. The launcher itself never links the collector, whose
//! constructor would run in it; of CUPTI it knows the places only.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{self, Sandbox, stdout, text};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

/// Prints the variables that load the collector, and runs its arguments.
const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
  const char *names[] = {"LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"};
  for (int i = 0; i < 3; i++) {
    const char *value = getenv(names[i]);
    printf("%s=%s\n", names[i], value ? "set" : "unset");
  }
  fflush(stdout);
  if (argc > 1) execvp(argv[1], argv + 1);
  return 0;
}
"#;

/// A program, or none where this machine has no such compiler.
fn compile(sandbox: &Sandbox, name: &str, compiler: &[&str]) -> Option<PathBuf> {
    let (source, program) = (sandbox.write("program.c", SOURCE), sandbox.path(name));
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg(&source).arg("-o").arg(&program);
    let built = command.output().is_ok_and(|output| output.status.success());
    if !built {
        common::skipped(&format!("{} builds no program here", compiler.join(" ")));
    }
    built.then_some(program)
}

/// What the program printed and the run record, where the run went well.
fn run(sandbox: &Sandbox, words: &[&str], told: &str) -> (String, Value) {
    let words = [&["run.mode=light", "--"], words].concat();
    let assert = sandbox.launch(&words).assert().success().stderr(contains(told));
    (stdout(&assert), sandbox.run_json())
}

const ALL: &str = "LD_PRELOAD=set\nCUDA_INJECTION64_PATH=set\nNVTX_INJECTION64_PATH=set\n";
const NONE: &str = "LD_PRELOAD=unset\nCUDA_INJECTION64_PATH=unset\nNVTX_INJECTION64_PATH=unset\n";

#[test]
fn a_program_that_cannot_preload_the_collector_is_told_and_runs() {
    let without_preload = ALL.replacen("set", "unset", 1);
    for (compiler, words, told, out, why) in [
        (&["gcc"][..], &["./program"][..], "", ALL, None),
        (
            &["gcc", "-static"],
            &["./program", "sh", "-c", "cat /proc/$$/maps"],
            "is statically linked: the collector records its child",
            ALL,
            Some("statically"),
        ),
        // The other way in is open.
        (
            &["gcc", "-fsanitize=address"],
            &["./program"],
            "AddressSanitizer: LD_PRELOAD is left out",
            &without_preload,
            None,
        ),
        (&["musl-gcc"], &["./program"], "it uses musl", NONE, Some("musl")),
    ] {
        let sandbox = Sandbox::new();
        let Some(_) = compile(&sandbox, "program", compiler) else { continue };
        let (printed, run) = run(&sandbox, words, told);
        if words.len() == 1 {
            assert_eq!(printed, out, "{compiler:?}");
        }
        assert!(printed.starts_with(out), "{compiler:?}: {printed}");
        // What a static program starts has the collector.
        assert_eq!(words.len() > 1, printed.contains("libstage2.so"), "{printed}");
        let not_loaded = run["passes"][0]["not_loaded"].as_str();
        assert_eq!(not_loaded.is_some(), why.is_some(), "{compiler:?}: {not_loaded:?}");
        assert!(not_loaded.unwrap_or_default().contains(why.unwrap_or_default()), "{not_loaded:?}");
    }
}

#[test]
fn a_collector_for_a_newer_glibc_is_left_out_and_told() {
    let sandbox = Sandbox::new();
    let library = sandbox.path("libstage2.so");
    let mut bytes = std::fs::read(&library).expect("library");
    let prefix = b"GLIBC_2.";
    let places: Vec<usize> = (0..bytes.len() - 11)
        .filter(|&at| bytes[at..].starts_with(prefix) && bytes[at + 10] == 0)
        .collect();
    assert!(!places.is_empty(), "{} needs some glibc", library.display());
    places.iter().for_each(|&at| bytes[at + 8..at + 10].copy_from_slice(b"99"));
    std::fs::write(&library, bytes).expect("library");
    let (out, run) = run(&sandbox, &["sh", "-c", "echo ran; echo $LD_PRELOAD"], "needs glibc 2.99");
    assert_eq!(out, "ran\n\n", "the workload runs, without the collector");
    let why = run["passes"][0]["not_loaded"].as_str().expect("why");
    assert!(why.contains("needs glibc 2.99"), "{why}");
    assert_eq!(run["coverage"]["empty"]["cause"], "collector_not_loaded");
    assert!(run["findings"].to_string().contains("STAGE2_COLLECTOR"), "{run:#}");
    // A script is judged by its interpreter, and a dry run shows the same.
    sandbox.executable("script", "#!/usr/bin/env sh\necho script\n");
    let words = ["--dry-run", "--", "./script"];
    let assert = sandbox.launch(&words).assert().success();
    assert.stdout(contains("LD_PRELOAD").not().and(contains("needs glibc 2.99")));
}

#[test]
fn the_runtime_of_address_sanitizer_stays_the_first_library() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.launch(&["--dry-run", "run.mode=light", "--", "sh"]);
    let assert = command.env("LD_PRELOAD", "/x/libasan.so.8").assert().success();
    assert.stdout(contains(format!(
        "LD_PRELOAD=/x/libasan.so.8:{}",
        sandbox.path("libstage2.so").display()
    )));
}

#[test]
fn a_32_bit_program_is_told_before_it_runs() {
    let sandbox = Sandbox::new();
    // Its header alone: the kernel refuses it, whatever this machine can run.
    sandbox.executable("narrow", "\u{7f}ELF\u{1}\u{1}\u{1}");
    let assert = sandbox.launch(&["run.mode=light", "--", "./narrow"]).assert().code(126);
    assert.stderr(contains("it is a 32-bit program"));
}

#[test]
fn the_launcher_does_not_link_the_collector() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "-p", "stage2-launch", "-e", "all", "--prefix", "none", "--format", "{p}"])
        .args(["--offline", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .expect("cargo");
    let tree = text(&output);
    let names: Vec<_> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(output.status.success() && names.contains(&"stage2-launch"), "{tree}");
    assert!(!names.contains(&"stage2"), "stage2-launch depends on the collector:\n{tree}");
}

#[test]
fn the_launcher_knows_where_a_cupti_may_lie_and_no_more_of_it() {
    fn look(folder: &Path, uses: &mut usize) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                look(&path, uses);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                for used in common::read(&path).split("cupti_sys::").skip(1) {
                    assert!(used.starts_with("places"), "{}: {:.40}", path.display(), used);
                    *uses += 1;
                }
            }
        }
    }
    let mut uses = 0;
    look(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut uses);
    assert!(uses > 0, "nothing was looked at");
}
