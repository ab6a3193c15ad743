//! schemas/ -> one compressed file, which the program contains and `schema --json-schema` prints.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::ZlibEncoder;

const ENDING: &str = ".schema.json";

fn main() -> io::Result<()> {
    let folder = Path::new("../schemas");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(ENDING).map(str::to_owned));
    }
    // The same bytes on every machine.
    names.sort();
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    for name in names {
        let text = fs::read_to_string(folder.join(format!("{name}{ENDING}")))?;
        write!(packed, "{name}\0{text}\0")?;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("schemas.z"), packed.finish()?)
}
