//! The program of the workload and the collector -> how the collector gets into it.
//!
//! The loader ends a program whose LD_PRELOAD names a library that it cannot load (another libc, an
//! older glibc), and AddressSanitizer ends one that loads a library before its runtime. So what the
//! program will load is read from its ELF headers first. Nothing is executed for it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, ReadCache, ReadRef};

use super::find;
use crate::env::on_path;
use stage2_model::Finding;
use stage2_model::finding::Id;

/// Scripts that name another script as their interpreter are followed this far.
const MOST_SCRIPTS: usize = 4;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Loading {
    pub(crate) preload: bool,
    /// With the injection variables of CUDA and NVTX.
    pub(crate) doors: bool,
    pub(crate) not_loaded: Option<String>,
    pub(crate) finding: Option<Finding>,
}

impl Default for Loading {
    /// As an ordinary program loads it.
    fn default() -> Self {
        Loading { preload: true, doors: true, not_loaded: None, finding: None }
    }
}

/// How the program of `command` loads `library`. What cannot be read is taken for an ordinary program.
pub(crate) fn loading(command: &[OsString], library: &Path) -> Loading {
    let Some(program) = command.first().and_then(|word| find(word).ok()) else {
        return Loading::default();
    };
    let File::Elf(collector) = look(library) else { return Loading::default() };
    let program = interpreter_of(program);
    match look(&program) {
        File::Elf32 => without(&program, "it is a 32-bit program", OTHER_PROGRAM),
        File::Elf(elf) => decide(&program, &elf, &collector),
        File::Script(_) | File::DamagedElf | File::Other => Loading::default(),
    }
}

/// The program that a script runs in; any other file is itself.
fn interpreter_of(program: PathBuf) -> PathBuf {
    let mut program = program;
    for _ in 0..MOST_SCRIPTS {
        let File::Script(words) = look(&program) else { break };
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
        let finding = Id::WorkloadNoCollector.found(
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
        match look(&loader.with_file_name("libc.so.6")) {
            File::Elf(libc) => libc.glibc_provided,
            _ => None,
        }
    })
}

/// A static program ignores the variables, and its children inherit them: many launchers (`uv run`)
/// are static, and their children are what is to be measured.
fn of_static(program: &Path) -> Loading {
    let why = format!("{} is statically linked", program.display());
    let finding = Id::WorkloadNoCollector.found(
        format!("{why}: the collector records its child processes only"),
        "a static program loads no library",
        "profile a dynamically linked build of it, if it uses the GPU itself",
    );
    Loading { not_loaded: Some(why), finding: Some(finding), ..Loading::default() }
}

fn without(program: &Path, why: &str, remedy: &str) -> Loading {
    let program = program.display();
    let what = format!("the workload runs without the collector: {program} cannot load it");
    let finding = Id::WorkloadNoCollector.found(what, why, remedy);
    let not_loaded = Some(format!("{program}: {why}"));
    Loading { preload: false, doors: false, not_loaded, finding: Some(finding) }
}

/// A larger table is not a table of a program that can be trusted.
const LARGEST_TABLE_BYTES: u64 = 64 << 20;

type Header = FileHeader64<Endianness>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Elf {
    /// The loader that it asks for; none: a static program.
    pub(super) interpreter: Option<PathBuf>,
    /// Its machine, as `e_machine` has it.
    pub(super) machine: u16,
    pub(super) shared: bool,
    pub(super) asan: bool,
    /// The newest glibc that it needs: 34 stands for 2.34.
    pub(super) glibc_needed: Option<u32>,
    /// The newest glibc that it provides, if it is a libc.
    pub(super) glibc_provided: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum File {
    Elf(Elf),
    Elf32,
    /// One that is cut or damaged.
    DamagedElf,
    /// A script, and the words behind its `#!`.
    Script(Vec<String>),
    /// Anything else, or a file that cannot be read.
    Other,
}

/// Bytes of the first line of a script that the kernel reads.
const SCRIPT_LINE_BYTES: usize = 255;

/// Looks at a file. Only headers and the small dynamic tables are read, never code or symbols of the program:
/// a workload may be gigabytes long. A file that contradicts itself gives nothing.
pub(super) fn look(path: &Path) -> File {
    let Ok(file) = stage2_read::files::open(path) else { return File::Other };
    let cache = ReadCache::new(file);
    let length = ReadRef::len(&cache).unwrap_or(0);
    let first = length.min(SCRIPT_LINE_BYTES as u64);
    let head = (&cache).read_bytes_at(0, first).unwrap_or_default();
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        // As the kernel splits it: the carriage return of a Windows line end is a part of the word.
        let words = line.split([' ', '\t']).filter(|word| !word.is_empty());
        return File::Script(words.map(str::to_owned).collect());
    }
    match head.get(..5) {
        Some([0x7f, b'E', b'L', b'F', 1]) => File::Elf32,
        Some([0x7f, b'E', b'L', b'F', 2]) => read(&cache).map_or(File::DamagedElf, File::Elf),
        Some([0x7f, b'E', b'L', b'F', _]) => File::DamagedElf,
        _ => File::Other,
    }
}

/// Whether a file is a shared object for the machine that this program is for.
pub(crate) fn is_library(path: &Path) -> bool {
    let File::Elf(library) = look(path) else { return false };
    // Without /proc there is nothing to compare it with.
    let this = look(Path::new("/proc/self/exe"));
    library.shared && !matches!(this, File::Elf(this) if this.machine != library.machine)
}

fn read<'d, R: ReadRef<'d>>(data: R) -> Option<Elf> {
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let mut facts = Elf {
        machine: header.e_machine(endian).0,
        shared: header.e_type(endian) == object::elf::ET_DYN,
        ..Elf::default()
    };
    for segment in header.program_headers(endian, data).ok()? {
        if let Ok(Some(path)) = segment.interpreter(endian, data) {
            facts.interpreter = Some(std::ffi::OsStr::from_bytes(path).into());
        }
    }
    // Without section headers (sstrip) the rest stays unknown.
    let Ok(sections) = header.sections(endian, data) else { return Some(facts) };
    let tables = [
        object::elf::SHT_DYNSYM,
        object::elf::SHT_STRTAB,
        object::elf::SHT_GNU_VERDEF,
        object::elf::SHT_GNU_VERNEED,
    ];
    let mut of_tables = sections.iter().filter(|section| tables.contains(&section.sh_type(endian)));
    if of_tables.any(|section| section.sh_size(endian) > LARGEST_TABLE_BYTES) {
        return Some(facts);
    }
    if let Ok(Some((mut needs, link))) = sections.gnu_verneed(endian, data)
        && let Ok(strings) = sections.strings(endian, data, link)
    {
        while let Ok(Some((_, mut versions))) = needs.next() {
            while let Ok(Some(version)) = versions.next() {
                let needed = version.name(endian, strings).ok().and_then(glibc_version);
                facts.glibc_needed = facts.glibc_needed.max(needed);
            }
        }
    }
    if let Ok(Some((mut definitions, link))) = sections.gnu_verdef(endian, data)
        && let Ok(strings) = sections.strings(endian, data, link)
    {
        while let Ok(Some((_, mut names))) = definitions.next() {
            while let Ok(Some(name)) = names.next() {
                let provided = name.name(endian, strings).ok().and_then(glibc_version);
                facts.glibc_provided = facts.glibc_provided.max(provided);
            }
        }
    }
    if let Ok(symbols) = sections.symbols(endian, data, object::elf::SHT_DYNSYM) {
        let is_asan = |name: &[u8]| name == b"__asan_init";
        let strings = symbols.strings();
        facts.asan = symbols.iter().any(|symbol| symbol.name(endian, strings).is_ok_and(is_asan));
    }
    Some(facts)
}

/// `GLIBC_2.34` is 34; `GLIBC_2.3.4` is 3; `GLIBC_PRIVATE` is none.
fn glibc_version(name: &[u8]) -> Option<u32> {
    let version = std::str::from_utf8(name).ok()?.strip_prefix("GLIBC_2.")?;
    version.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(interpreter: Option<&str>) -> Elf {
        Elf { interpreter: interpreter.map(PathBuf::from), machine: 62, ..Elf::default() }
    }

    #[test]
    fn an_older_glibc_is_told_instead_of_letting_the_loader_end_the_workload() {
        let File::Elf(this) = look(Path::new("/proc/self/exe")) else { panic!("no ELF file") };
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

    #[test]
    fn versions_of_glibc_are_compared_as_numbers() {
        for (name, version) in [
            ("GLIBC_2.34", Some(34)),
            ("GLIBC_2.3.4", Some(3)),
            ("GLIBC_PRIVATE", None),
            ("GLIBC_2.x", None),
            ("GCC_3.0", None),
        ] {
            assert_eq!(glibc_version(name.as_bytes()), version, "{name}");
        }
    }

    #[test]
    fn this_program_needs_no_more_than_its_libc_provides() {
        let File::Elf(this) = look(Path::new("/proc/self/exe")) else { panic!("no ELF file") };
        let interpreter = this.interpreter.expect("a loader").canonicalize().expect("its file");
        let File::Elf(libc) = look(&interpreter.with_file_name("libc.so.6")) else {
            panic!("no libc beside {}", interpreter.display())
        };
        assert!(this.glibc_needed.is_some() && this.glibc_needed <= libc.glibc_provided);
        assert_eq!((this.machine, this.asan), (libc.machine, false));
    }

    #[test]
    fn damaged_files_give_no_facts_and_no_panic() {
        let whole = std::fs::read("/proc/self/exe").expect("this program");
        let whole = whole.get(..4096).expect("headers");
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("damaged");
        for at in (0..256).step_by(3) {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0xff;
            std::fs::write(&path, &bytes).expect("file");
            let _ = look(&path);
            std::fs::write(&path, &bytes[..at]).expect("file");
            let _ = look(&path);
        }
        std::fs::write(&path, "#! /bin/sh -e\nx").expect("file");
        assert_eq!(look(&path), File::Script(vec!["/bin/sh".into(), "-e".into()]));
        std::fs::write(&path, "#!\t/bin/sh\r\nx").expect("file");
        assert_eq!(look(&path), File::Script(vec!["/bin/sh\r".into()]));
        assert_eq!(look(Path::new("/no/such")), File::Other);
    }
}
