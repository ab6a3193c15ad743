//! What a client calls a run -> its folder, which lies below one root with all that it links to.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use serde_json::{Value, json};
use stage2_contract::text::{shorten, visible, visible_path};

/// Either makes a folder one of a run.
const REPORT: &str = "metrics.json";
const RECORD: &str = "run.json";
/// Folders below the root that are looked into.
const DEPTH: usize = 4;
/// Files and folders that are looked at in a call.
const ENTRIES: usize = 20_000;
/// Characters of a foreign text in a message.
const TEXT_LIMIT: usize = 200;

/// The folder below which all runs lie.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    root: PathBuf,
}

impl Runs {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a run, or its `metrics.json`, as an absolute path without links.
    pub(crate) fn find(&self, called: &str) -> Result<PathBuf, String> {
        let shown = shorten(&visible(called.as_bytes()), TEXT_LIMIT);
        // One text for what is not there and for what lies elsewhere: a client learns nothing of other folders.
        let none = || {
            let root = visible_path(&self.root);
            format!("`{shown}` is not a run below `{root}`: list_runs names those that there are")
        };
        let root = self.root.canonicalize().map_err(|_| none())?;
        let below = root.join(called);
        let places = [below.canonicalize(), Path::new(called).canonicalize()];
        let found = places.into_iter().flatten().find(|path| path.starts_with(&root));
        let found = found.ok_or_else(none)?;
        check_links(&found, &root).map_err(|why| format!("`{shown}` is not read: {why}"))?;
        Ok(found)
    }

    /// A folder of the root for a run to come.
    pub(crate) fn new_folder(&self, number: usize) -> PathBuf {
        let now = Timestamp::now().strftime("%Y%m%d-%H%M%S");
        self.root.join(format!("{now}-{}-{number}", std::process::id()))
    }

    /// The runs below the root, newest first, as a table.
    pub(crate) fn list(&self, most: usize) -> Value {
        let mut found = Vec::new();
        let (mut unnamed, mut seen) = (0, 0);
        let mut folders = vec![(self.root.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            let files = [REPORT, RECORD].map(|name| folder.join(name).symlink_metadata().ok());
            if let Some(file) = files.iter().flatten().next() {
                let written = file.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let name = folder.strip_prefix(&self.root).unwrap_or(&folder);
                match name.to_str().filter(|name| visible(name.as_bytes()) == *name) {
                    Some("") => found.push((written, ".".to_owned(), files[0].is_some())),
                    Some(name) => found.push((written, name.to_owned(), files[0].is_some())),
                    None => unnamed += 1,
                }
                continue;
            }
            let Ok(entries) = folder.read_dir() else { continue };
            for entry in entries.flatten() {
                seen += 1;
                // `latest` is a link to a run that is found all the same.
                if depth < DEPTH && seen < ENTRIES && entry.file_type().is_ok_and(|it| it.is_dir())
                {
                    folders.push((entry.path(), depth + 1));
                }
            }
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        let rows = found.iter().take(most).map(|(written, name, has_report)| {
            let written = Timestamp::try_from(*written).unwrap_or_default();
            json!([name, written.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), has_report])
        });
        let mut table = json!({
            "columns": [
                {"name": "run", "text": "workload"},
                {"name": "written", "basis": "UTC"},
                {"name": "has_report"},
            ],
            "rows": rows.collect::<Vec<_>>(),
        });
        for (name, count) in [
            ("left_out", found.len().saturating_sub(most)),
            ("names_not_printable", unnamed),
            ("entries_not_looked_at", seen.saturating_sub(ENTRIES)),
        ] {
            if count > 0 {
                table[name] = count.into();
            }
        }
        if found.is_empty() {
            let root = visible_path(&self.root);
            table["note"] = format!(
                "There is no run below `{root}`: `stage2-launch run --light -- COMMAND` makes one in \
                 tmp/stage2, and `stage2-launch mcp ROOT` serves another folder."
            )
            .into();
        }
        table
    }
}

/// Refuses a run with links to files outside of the root, which a verb would follow.
fn check_links(run: &Path, root: &Path) -> Result<(), String> {
    let mut entries = 0;
    let mut folders = vec![run.to_owned()];
    while let Some(folder) = folders.pop() {
        // A file is no folder, and no link: its path has none.
        let Ok(listed) = folder.read_dir() else { continue };
        for entry in listed.flatten() {
            entries += 1;
            if entries > ENTRIES {
                return Err(format!(
                    "it holds more than {ENTRIES} files, too many to check their links"
                ));
            }
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_symlink()
                && entry.path().canonicalize().is_ok_and(|target| !target.starts_with(root))
            {
                let name = shorten(&visible(entry.file_name().as_encoded_bytes()), TEXT_LIMIT);
                return Err(format!(
                    "its `{name}` is a link to a file outside of the served folder"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn folder_with_runs() -> (tempfile::TempDir, Runs) {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path().join("root");
        for (run, file) in [("a/deep", REPORT), ("b", RECORD), ("b\u{202e}", RECORD)] {
            std::fs::create_dir_all(root.join(run)).expect("folder");
            std::fs::write(root.join(run).join(file), "{}").expect("file");
        }
        std::fs::write(folder.path().join("secret.json"), "{}").expect("file");
        (folder, Runs::new(root))
    }

    #[test]
    fn runs_are_found_below_the_root_only() {
        let (folder, runs) = folder_with_runs();
        symlink("b", runs.root().join("latest")).expect("link");
        symlink(folder.path(), runs.root().join("out")).expect("link");
        let canonical = runs.root().canonicalize().expect("root");
        assert_eq!(runs.find("a/deep"), Ok(canonical.join("a/deep")));
        assert_eq!(runs.find("latest"), Ok(canonical.join("b")));
        assert_eq!(
            runs.find(runs.root().join("b").to_str().expect("text")),
            Ok(canonical.join("b"))
        );
        let missing = runs.find("c").expect_err("refused").replace("`c`", "");
        for outside in
            ["..", "../secret.json", "out/secret.json", "/etc", "/etc/passwd", "b/../../x"]
        {
            let refused = runs.find(outside).expect_err(outside);
            assert_eq!(refused.replace(&format!("`{outside}`"), ""), missing);
        }
        assert!(runs.find("x\u{1b}[31m\0").expect_err("refused").contains("list_runs"));
    }

    #[test]
    fn links_that_lead_out_of_the_root_are_not_followed() {
        let (folder, runs) = folder_with_runs();
        symlink(runs.root().join("b").join(RECORD), runs.root().join("a/deep/inside"))
            .expect("link");
        assert!(runs.find("a/deep").is_ok());
        symlink(folder.path().join("secret.json"), runs.root().join("b").join(REPORT))
            .expect("link");
        assert!(runs.find("b").expect_err("refused").contains("`metrics.json` is a link"));
    }

    #[test]
    fn the_newest_runs_are_listed_first() {
        let (_folder, runs) = folder_with_runs();
        let old =
            std::fs::File::options().write(true).open(runs.root().join("a/deep").join(REPORT));
        old.and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH)).expect("time");
        let listed = runs.list(10);
        assert_eq!(listed["rows"][0][0], "b");
        assert_eq!(listed["rows"][1], json!(["a/deep", "1970-01-01T00:00:00Z", true]));
        assert_eq!(listed["names_not_printable"], 1);
        assert_eq!(runs.list(1)["left_out"], 1);
        let none = Runs::new("/nonexistent".into()).list(10);
        assert!(none["note"].as_str().is_some_and(|note| note.contains("no run below")));
    }
}
