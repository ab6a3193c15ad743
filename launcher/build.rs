//! schemas/ and hook/ -> compressed files, which the program contains: `schema --json-schema` prints one of the first,
//! and `--annotate` writes the second.

use stage2_packed::pack;

fn main() -> std::io::Result<()> {
    pack("schemas.z", "../schemas", |path| path.ends_with(".schema.json"))?;
    pack("hook.z", "hook", |path| path.ends_with(".py") && !path.starts_with("tests/"))
}
