//! The list of inputs that the user gave, held against the one that the workload was configured with.

use std::path::{Component, Path, PathBuf};

use super::workload::{FOLDER, Workload};
use stage2_model::Finding;

/// What to say where the workload reads another list of inputs than `manifest`, the one that the user
/// gave.
pub(super) fn other(workload: &Workload, manifest: &str) -> Option<Finding> {
    let what = format!("inputs.manifest={manifest} was not read by the workload");
    let remedy = "give the workload the key that it reads after `--`, or name that key with \
                  workload.manifest_key=KEY";
    let Some((key, read)) = workload.manifest() else {
        let keys = workload.manifest_keys().join(" or ");
        let why = format!("{FOLDER}/config.yaml has no {keys}");
        return Some(Finding::warning(what, why, remedy));
    };
    // A relative path was given from where this program was started, not from where a report is made.
    let started_in = workload.started_in.as_deref().unwrap_or_else(|| workload.cwd());
    let (theirs, ours) = (normal(&read), normal(&started_in.join(manifest)));
    (theirs != ours && !theirs.ends_with(normal(Path::new(manifest)))).then(|| {
        let why = format!("its configuration says {key}={}", read.display());
        Finding::warning(what, why, remedy)
    })
}

/// A path without `.` and, as far as its text goes, without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(found.components().next_back(), Some(Component::Normal(_))) =>
            {
                found.pop();
            }
            part => found.push(part),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of the files of a bundle and a list.
    fn told(files: &[(&str, &str)], key: Option<&str>, manifest: &str) -> String {
        let dir = tempfile::tempdir().expect("folder");
        std::fs::create_dir_all(dir.path().join(FOLDER)).expect("folder");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).expect("file");
        }
        let mut findings = Vec::new();
        let workload = Workload::read(dir.path(), key, &mut findings);
        assert_eq!(findings, []);
        other(&workload, manifest).map_or_else(String::new, |finding| finding.to_string())
    }

    #[test]
    fn a_manifest_that_is_not_the_workloads_is_told() {
        let of = |config, manifest| told(&[("stage1/.hydra/config.yaml", config)], None, manifest);
        assert_eq!(of("inputs: {manifest: /a/m.yaml}", "/a/m.yaml"), "");
        assert_eq!(of("dataset: {subset_filelist: lists/m.txt}", "lists/m.txt"), "");
        let other = of("inputs: {manifest: /a/m.yaml}", "/b/m.yaml");
        assert!(
            other.contains("/b/m.yaml") && other.contains("inputs.manifest=/a/m.yaml"),
            "{other}"
        );
        let none = of("inputs: {manifest: null}", "/b/m.yaml");
        assert!(none.contains("no inputs.manifest or dataset.subset_filelist"), "{none}");
    }

    #[test]
    fn the_key_that_the_user_named_is_looked_up_first() {
        let config = "data: {list: /a/m.yaml}\ninputs: {manifest: /old.yaml}\n";
        let of = |key, manifest| told(&[("stage1/.hydra/config.yaml", config)], key, manifest);
        assert_eq!(of(Some("data.list"), "/a/m.yaml"), "");
        assert_ne!(of(None, "/a/m.yaml"), "");
        let other = of(Some("data.list"), "/b/m.yaml");
        assert!(other.contains("data.list=/a/m.yaml"), "{other}");
        let none = told(&[("stage1/.hydra/config.yaml", "a: 1\n")], Some("data.list"), "/b");
        assert!(none.contains("has no data.list or inputs.manifest or dataset"), "{none}");
    }

    #[test]
    fn relative_lists_are_of_the_folder_that_the_run_was_started_in() {
        let config = ("stage1/.hydra/config.yaml", "inputs: {manifest: /w/lists/m.yaml}\n");
        let started = ("inputs.yaml", "cwd: /w/app\nargv: []\n");
        let hydra = ("stage1/.hydra/hydra.yaml", "hydra: {runtime: {cwd: /w/app}}\n");
        for files in [&[config, started][..], &[config, hydra]] {
            for same in ["../lists/m.yaml", "./../lists/./m.yaml", "./lists/m.yaml", "m.yaml"] {
                assert_eq!(told(files, None, same), "", "{same}");
            }
            let other = told(files, None, "../m.yaml");
            assert!(other.contains("inputs.manifest=../m.yaml was not read"), "{other}");
        }
    }
}
