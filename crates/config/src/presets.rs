//! Every file of `conf/`, embedded, so that the installed program needs none of them.

use std::sync::LazyLock;

use stage2_packed::Packed;

/// What build.rs packed: a test compares it with the folder.
static CONF: LazyLock<Packed> = LazyLock::new(|| {
    Packed::open(include_bytes!(concat!(env!("OUT_DIR"), "/conf.z"))).unwrap_or_default()
});

/// Path below conf/ and text of every preset, sorted by path.
pub static FILES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| CONF.texts().collect());

/// Names and texts of the presets of a group: `hardware`, `model/llm`.
pub fn group(name: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().filter_map(move |(path, text)| {
        let (folder, file) = path.rsplit_once('/')?;
        (folder == name).then_some((file.strip_suffix(".yaml")?, *text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn list(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry")) {
            let path = format!("{prefix}{}", entry.file_name().to_str().expect("UTF-8"));
            if entry.path().is_dir() {
                list(&entry.path(), &format!("{path}/"), found);
            } else if path.ends_with(".yaml") {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_file_of_conf_is_built_in() {
        let mut paths = Vec::new();
        list(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf"), "", &mut paths);
        paths.sort();
        let built_in: Vec<_> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(paths, built_in, "FILES, sorted, against the folder");
        assert!(paths.len() > 50, "{paths:?}");
    }
}
