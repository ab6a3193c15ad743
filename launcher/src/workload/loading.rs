//! The program of the workload and the collector -> how the collector gets into it.
//!
//! The loader ends a program whose LD_PRELOAD names a library that it cannot load (another libc, an
//! older glibc), and AddressSanitizer ends one that loads a library before its runtime. So what the
//! program will load is read from its ELF headers first. Nothing is executed for it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::elf::{self, Elf, File};
use super::find::find;
use crate::env::on_path;
use stage2_model::Finding;

/// Scripts that name another script as their interpreter are followed this far.
const MOST_SCRIPTS: usize = 4;

/// How the collector is loaded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Loading {
    /// With LD_PRELOAD.
    pub(crate) preload: bool,
    /// With the injection variables of CUDA and NVTX.
    pub(crate) doors: bool,
    /// Why the program itself does not load it.
    pub(crate) not_loaded: Option<String>,
    /// What the user has to know.
    pub(crate) finding: Option<Finding>,
}

impl Default for Loading {
    /// As an ordinary program loads it.
    fn default() -> Self {
        Loading { preload: true, doors: true, not_loaded: None, finding: None }
    }
}

/// How the program of `command` loads `library`. What cannot be found or read is taken for an
/// ordinary program.
pub(crate) fn loading(command: &[OsString], library: &Path) -> Loading {
    let Some(program) = command.first().and_then(|word| find(word).ok()) else {
        return Loading::default();
    };
    let File::Elf(collector) = elf::look(library) else { return Loading::default() };
    let program = interpreter_of(program);
    match elf::look(&program) {
        File::Elf32 => without(&program, "it is a 32-bit program", OTHER_PROGRAM),
        File::Elf(elf) => decide(&program, &elf, &collector),
        File::Script(_) | File::Other => Loading::default(),
    }
}

/// The program that a script runs in; any other file is itself.
fn interpreter_of(program: PathBuf) -> PathBuf {
    let mut program = program;
    for _ in 0..MOST_SCRIPTS {
        let File::Script(words) = elf::look(&program) else { break };
        let mut words = words.into_iter();
        let Some(first) = words.next() else { break };
        let of_env = |word: &String| !word.starts_with('-') && !word.contains('=');
        let next = match Path::new(&first).file_name() {
            Some(name) if name == "env" => words.find(of_env).and_then(|name| on_path(&name)),
            _ => None,
        };
        program = next.unwrap_or_else(|| first.into());
    }
    program
}

const OTHER_PROGRAM: &str = "profile a 64-bit program of this machine that uses glibc";

fn decide(program: &Path, elf: &Elf, collector: &Elf) -> Loading {
    if elf.machine != collector.machine {
        return without(program, "it is built for another architecture", OTHER_PROGRAM);
    }
    let Some(interpreter) = &elf.interpreter else { return of_static(program) };
    let name = interpreter.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("ld-musl") {
        let remedy = "use a build of it for glibc (an image that is not Alpine)";
        return without(program, "it uses musl, and the collector needs glibc", remedy);
    }
    if let (Some(needed), Some(provided)) = (collector.glibc_needed, glibc_beside(interpreter))
        && needed > provided
    {
        let why = format!(
            "it loads glibc 2.{provided}, and this build of the collector needs glibc 2.{needed}"
        );
        let remedy = format!(
            "build the collector on a system with glibc 2.{provided} or older, and name it in \
             STAGE2_COLLECTOR, or run the workload in an image with glibc 2.{needed} or newer"
        );
        return without(program, &why, &remedy);
    }
    if elf.asan {
        let finding = Finding::warning(
            format!("{} is built with AddressSanitizer: LD_PRELOAD is left out", program.display()),
            "its runtime has to be the first library; the injection variables of CUDA and NVTX load \
             the collector instead",
            "",
        );
        return Loading { preload: false, finding: Some(finding), ..Loading::default() };
    }
    Loading::default()
}

/// The version of the glibc that a loader brings: its libc.so.6 lies in the same folder.
fn glibc_beside(interpreter: &Path) -> Option<u32> {
    let real = interpreter.canonicalize().ok()?;
    [real.as_path(), interpreter].iter().find_map(|loader| {
        match elf::look(&loader.with_file_name("libc.so.6")) {
            File::Elf(libc) => libc.glibc_provided,
            _ => None,
        }
    })
}

/// A static program ignores the variables, and its children inherit them: many launchers (`uv run`)
/// are static, and their children are what is to be measured.
fn of_static(program: &Path) -> Loading {
    let why = format!("{} is statically linked", program.display());
    let finding = Finding::warning(
        format!("{why}: the collector records its child processes only"),
        "a static program loads no library",
        "profile a dynamically linked build of it, if it uses the GPU itself",
    );
    Loading { not_loaded: Some(why), finding: Some(finding), ..Loading::default() }
}

fn without(program: &Path, why: &str, remedy: &str) -> Loading {
    let finding = Finding::warning(
        format!("the workload runs without the collector: {} cannot load it", program.display()),
        why,
        remedy,
    );
    let not_loaded = Some(format!("{}: {why}", program.display()));
    Loading { preload: false, doors: false, not_loaded, finding: Some(finding) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(interpreter: Option<&str>) -> Elf {
        Elf { interpreter: interpreter.map(PathBuf::from), machine: 62, ..Elf::default() }
    }

    #[test]
    fn an_older_glibc_is_told_instead_of_letting_the_loader_end_the_workload() {
        let File::Elf(this) = elf::look(Path::new("/proc/self/exe")) else { panic!("no ELF file") };
        let newer = Elf { glibc_needed: Some(999), ..this.clone() };
        let loading = decide(Path::new("/bin/x"), &this, &newer);
        assert!(!loading.preload && !loading.doors);
        let told = loading.finding.expect("told").to_string();
        assert!(told.contains("needs glibc 2.999") && told.contains("STAGE2_COLLECTOR"), "{told}");
        let same = Elf { glibc_needed: this.glibc_needed, ..this.clone() };
        assert_eq!(decide(Path::new("/bin/x"), &this, &same), Loading::default());
    }

    #[test]
    fn a_program_that_cannot_load_the_collector_is_told() {
        let collector = program(None);
        let decide = |elf: Elf| decide(Path::new("/bin/x"), &elf, &collector);
        let musl = decide(program(Some("/lib/ld-musl-x86_64.so.1")));
        assert!(!musl.preload && musl.not_loaded.is_some_and(|why| why.contains("musl")));
        let other = decide(Elf { machine: 183, ..program(Some("/lib/ld-linux-aarch64.so.1")) });
        assert!(!other.preload && other.not_loaded.is_some_and(|why| why.contains("architecture")));
        let fixed = decide(program(None));
        assert!(fixed.preload && fixed.not_loaded.is_some_and(|why| why.contains("statically")));
        let asan = decide(Elf { asan: true, ..program(Some("/lib64/ld-linux-x86-64.so.2")) });
        assert!(!asan.preload && asan.doors && asan.not_loaded.is_none());
    }

    #[test]
    fn a_script_is_judged_by_its_interpreter() {
        let dir = tempfile::tempdir().expect("folder");
        let script = |name: &str, line: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, format!("{line}\n")).expect("file");
            path
        };
        let sh = on_path("sh").expect("sh");
        for line in ["#!/usr/bin/env sh", "#!/usr/bin/env -S A=1 sh -e"] {
            assert_eq!(interpreter_of(script("a", line)), sh, "{line}");
        }
        let direct = script("b", "#! /bin/sh -e");
        assert_eq!(interpreter_of(direct.clone()), Path::new("/bin/sh"));
        let nested = script("c", &format!("#!{}", direct.display()));
        assert_eq!(interpreter_of(nested), Path::new("/bin/sh"));
        let endless = script("d", &format!("#!{}", dir.path().join("d").display()));
        assert_eq!(interpreter_of(endless.clone()), endless);
    }
}
