//! schemas/ and hook/ -> compressed files, which the program contains: `schema --json-schema` prints one of the first,
//! and `--annotate` writes the second.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::ZlibEncoder;

fn main() -> io::Result<()> {
    pack("schemas.z", "../schemas", &[""], ".schema.json", "")?;
    pack("hook.z", "hook", &["", "stage2_annotate/"], ".py", ".py")
}

/// Writes the texts of some folders below `top` whose names have this ending, each behind its name and followed by a zero.
/// `kept`: the part of the ending that stays in the name.
fn pack(out: &str, top: &str, folders: &[&str], ending: &str, kept: &str) -> io::Result<()> {
    println!("cargo::rerun-if-changed={top}");
    let mut names = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(Path::new(top).join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(ending).map(|name| format!("{folder}{name}")));
        }
    }
    // The same bytes on every machine.
    names.sort();
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    for name in names {
        let text = fs::read_to_string(Path::new(top).join(format!("{name}{ending}")))?;
        write!(packed, "{name}{kept}\0{text}\0")?;
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(folder.join(out), packed.finish()?)
}
