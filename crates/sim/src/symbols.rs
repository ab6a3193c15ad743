//! A shared library into a copy of it that lacks one exported symbol.

use std::fs;
use std::io;
use std::path::Path;

use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

/// Size of an entry of `.dynsym` (Elf64_Sym); the name's offset is its first field.
const ENTRY_BYTES: u64 = 24;

/// Copies the 64-bit ELF library `source` to `copy` so that `dlsym(copy, name)` finds nothing.
///
/// The symbol stays, under its name without the first letter: the hash table still leads to it,
/// and the comparison of the names fails.
///
/// # Errors
/// `source` cannot be read, is no such library or does not export `name`; `copy` cannot be
/// written.
pub fn without_symbol(source: &Path, copy: &Path, name: &str) -> io::Result<()> {
    let refuse = |what: String| {
        let message =
            format!("{}: {what}; give a library built from this package", source.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    };
    let mut bytes = fs::read(source)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", source.display())))?;
    let (entry, name_offset) = find(&bytes, name).map_err(refuse)?;
    let renamed = name_offset + 1;
    let field = usize::try_from(entry).ok().and_then(|at| bytes.get_mut(at..at + 4));
    match field {
        Some(field) => field.copy_from_slice(&renamed.to_le_bytes()),
        None => return Err(refuse("its symbol table lies outside of the file".to_owned())),
    }
    fs::write(copy, bytes)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", copy.display())))
}

/// Where in the file the symbol's entry is, and the offset of its name in the string table.
fn find(bytes: &[u8], name: &str) -> Result<(u64, u32), String> {
    let file = ElfFile64::<Endianness>::parse(bytes)
        .map_err(|error| format!("no 64-bit ELF library ({error})"))?;
    let endian = file.endian();
    if file.elf_header().is_big_endian() {
        return Err("not little-endian".to_owned());
    }
    let (table, _) = file
        .section_by_name(".dynsym")
        .and_then(|section| section.file_range())
        .ok_or("no table of exported symbols")?;
    let symbol = file
        .dynamic_symbols()
        .find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))
        .ok_or_else(|| format!("does not export {name}"))?;
    let entry = table + symbol.index().0 as u64 * ENTRY_BYTES;
    Ok((entry, symbol.elf_symbol().st_name.get(endian)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_is_refused_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, copy) = (folder.path().join("a.so"), folder.path().join("b.so"));
        let missing = without_symbol(&source, &copy, "x").expect_err("no file");
        assert!(missing.to_string().contains("a.so"), "{missing}");
        fs::write(&source, b"\x7fELF and then nothing").expect("written");
        let error = without_symbol(&source, &copy, "x").expect_err("no library");
        assert!(error.to_string().contains("a.so"), "{error}");
        assert!(!copy.exists());
    }
}
