//! An executable or a library -> the few facts of its ELF headers that decide what it can load.
//!
//! Only headers and the small dynamic tables are read, never code or symbols of the program: a
//! workload may be gigabytes long. A file that contradicts itself gives no facts.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, ReadCache, ReadRef};

/// A larger table is no table of a program that can be trusted.
const LARGEST_TABLE_BYTES: u64 = 64 << 20;

type Header = FileHeader64<Endianness>;

/// What the headers say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Elf {
    /// The loader that it asks for; none: a static program.
    pub(super) interpreter: Option<PathBuf>,
    /// Its machine, as `e_machine` has it.
    pub(super) machine: u16,
    /// It is a shared object.
    pub(super) shared: bool,
    /// It is built with AddressSanitizer.
    pub(super) asan: bool,
    /// The newest glibc that it needs: 34 stands for 2.34.
    pub(super) glibc_needed: Option<u32>,
    /// The newest glibc that it provides, if it is a libc.
    pub(super) glibc_provided: Option<u32>,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum File {
    /// A 64-bit ELF file.
    Elf(Elf),
    /// An ELF file of 32 bits.
    Elf32,
    /// A script, and the words behind its `#!`.
    Script(Vec<String>),
    /// Anything else, or a file that cannot be read.
    Other,
}

/// Bytes of the first line of a script that the kernel reads.
const SCRIPT_LINE_BYTES: usize = 255;

/// Looks at a file.
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
        Some([0x7f, b'E', b'L', b'F', 2]) => read(&cache).map_or(File::Other, File::Elf),
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
        shared: header.e_type(endian) == elf::ET_DYN,
        ..Elf::default()
    };
    for segment in header.program_headers(endian, data).ok()? {
        if let Ok(Some(path)) = segment.interpreter(endian, data) {
            facts.interpreter = Some(std::ffi::OsStr::from_bytes(path).into());
        }
    }
    // Without section headers (sstrip) the rest stays unknown.
    let Ok(sections) = header.sections(endian, data) else { return Some(facts) };
    let tables = [elf::SHT_DYNSYM, elf::SHT_STRTAB, elf::SHT_GNU_VERDEF, elf::SHT_GNU_VERNEED];
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
    if let Ok(symbols) = sections.symbols(endian, data, elf::SHT_DYNSYM) {
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
