//! The path of a region -> a folder of its own: no two paths share one.

use std::fmt::Write as _;
use std::path::PathBuf;

/// Longest name of a folder, in bytes: file systems take 255, and ncu adds its endings.
const LONGEST: usize = 200;

/// The folder of a region, relative to that of the pass.
///
/// Letters, digits, `-` and inner dots stay; every other byte becomes `_` and its two hex digits,
/// also `_` itself, so that the path can be told from the folder. What is too long for one name
/// continues in a folder below, in steps of the same length.
pub fn folder(path: &str) -> PathBuf {
    let mut name = String::with_capacity(path.len());
    for (at, byte) in path.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || byte == b'-' || (byte == b'.' && at > 0);
        if plain && !(byte == b'-' && at == 0) {
            name.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(name, "_{byte:02x}");
        }
    }
    if name.is_empty() {
        // Stands for no byte, so that it is nothing else's name.
        return PathBuf::from("_");
    }
    let mut folder = PathBuf::new();
    let mut rest = name.as_str();
    while rest.len() > LONGEST {
        let (part, behind) = rest.split_at(LONGEST);
        // A part must not be `..` or start with a dot; the mark is taken off again in reading.
        folder.push(format!("{part}_"));
        rest = behind;
    }
    folder.push(if folder.as_os_str().is_empty() { rest.to_owned() } else { format!("+{rest}") });
    folder
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The path that a folder stands for: that there is such a function proves that no two paths
    /// share a folder.
    fn path_of(folder: &std::path::Path) -> Vec<u8> {
        let parts: Vec<&str> = folder.iter().map(|part| part.to_str().expect("ASCII")).collect();
        if parts == ["_"] {
            return Vec::new();
        }
        let last = parts.len() - 1;
        let joined: String = parts
            .iter()
            .enumerate()
            .map(|(at, part)| match (at == last, last) {
                (false, _) => part.strip_suffix('_').expect("marked"),
                (true, 0) => part,
                (true, _) => part.strip_prefix('+').expect("marked"),
            })
            .collect();
        let mut bytes = joined.bytes();
        let mut path = Vec::new();
        while let Some(byte) = bytes.next() {
            if byte == b'_' {
                let hex = [bytes.next().expect("hex"), bytes.next().expect("hex")];
                let hex = std::str::from_utf8(&hex).expect("ASCII").to_owned();
                path.push(u8::from_str_radix(&hex, 16).expect("hex"));
            } else {
                path.push(byte);
            }
        }
        path
    }

    #[test]
    fn names_that_a_simpler_rule_confuses_stay_apart() {
        let names = [
            "A::A1", "A__A1", "A_A1", "A/A1", "decode*", "decode", "stem/", "stem", "", "***",
            "..", ".", "é", "a%2Fb",
        ];
        let folders: std::collections::BTreeSet<PathBuf> =
            names.iter().map(|n| folder(n)).collect();
        assert_eq!(folders.len(), names.len());
        assert_eq!(folder("decode"), PathBuf::from("decode"));
        assert_eq!(folder("A::A1"), PathBuf::from("A_3a_3aA1"));
    }

    proptest! {
        #[test]
        fn a_folder_tells_its_path(path in ".{0,300}") {
            prop_assert_eq!(path_of(&folder(&path)), path.as_bytes());
        }

        #[test]
        fn also_of_paths_made_of_what_is_special(path in "[_a/.+%-]{0,700}") {
            let folder = folder(&path);
            prop_assert_eq!(path_of(&folder), path.as_bytes());
            for part in folder.components() {
                prop_assert!(matches!(part, std::path::Component::Normal(name) if name.len() <= 255));
            }
        }
    }
}
