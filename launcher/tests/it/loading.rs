//! Real programs of every kind under the launcher: those that cannot load the collector run without it
//! and are told, instead of being ended by the loader.

use crate::common;
use std::path::PathBuf;
use std::process::Command;

use crate::common::Sandbox;
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
    let source = sandbox.write("program.c", SOURCE);
    let program = sandbox.path(name);
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
    (String::from_utf8_lossy(&assert.get_output().stdout).into_owned(), sandbox.run_json())
}

const ALL: &str = "LD_PRELOAD=set\nCUDA_INJECTION64_PATH=set\nNVTX_INJECTION64_PATH=set\n";
const NONE: &str = "LD_PRELOAD=unset\nCUDA_INJECTION64_PATH=unset\nNVTX_INJECTION64_PATH=unset\n";

#[test]
fn an_ordinary_program_preloads_the_collector() {
    let sandbox = Sandbox::new();
    let Some(_) = compile(&sandbox, "plain", &["gcc"]) else { return };
    let (out, run) = run(&sandbox, &["./plain"], "");
    assert_eq!(out, ALL);
    assert!(run["passes"][0]["not_loaded"].is_null());
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
fn a_static_program_passes_the_collector_on() {
    let sandbox = Sandbox::new();
    let Some(_) = compile(&sandbox, "fixed", &["gcc", "-static"]) else { return };
    let words = ["./fixed", "sh", "-c", "cat /proc/$$/maps"];
    let (out, run) = run(&sandbox, &words, "is statically linked: the collector records its child");
    assert!(out.starts_with(ALL) && out.contains("libstage2.so"), "its child has it: {out}");
    assert!(run["passes"][0]["not_loaded"].as_str().is_some_and(|why| why.contains("statically")));
}

#[test]
fn a_program_with_address_sanitizer_gets_the_injection_variables_alone() {
    let sandbox = Sandbox::new();
    let Some(_) = compile(&sandbox, "asan", &["gcc", "-fsanitize=address"]) else { return };
    let (out, run) = run(&sandbox, &["./asan"], "AddressSanitizer: LD_PRELOAD is left out");
    assert_eq!(out, ALL.replacen("set", "unset", 1));
    assert!(run["passes"][0]["not_loaded"].is_null(), "the other way in is open");
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
fn a_musl_program_runs_without_the_collector() {
    let sandbox = Sandbox::new();
    let Some(_) = compile(&sandbox, "musl", &["musl-gcc"]) else { return };
    let (out, run) = run(&sandbox, &["./musl"], "it uses musl");
    assert_eq!(out, NONE);
    assert!(run["passes"][0]["not_loaded"].as_str().is_some_and(|why| why.contains("musl")));
}

#[test]
fn a_32_bit_program_is_told_before_it_runs() {
    let sandbox = Sandbox::new();
    // Its header alone: the kernel refuses it, whatever this machine can run.
    sandbox.executable("narrow", "\u{7f}ELF\u{1}\u{1}\u{1}");
    let assert = sandbox.launch(&["run.mode=light", "--", "./narrow"]).assert().code(126);
    assert.stderr(contains("it is a 32-bit program"));
}
