//! What a workload shall mark -> the Python hook that makes it, its folder and its environment.
//!
//! Pure up to [`Hook::write`]: the plan shows what a run will do, and a dry run writes nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::env::is_python;
use stage2_contract::text::visible_path;
use stage2_model::Finding;
use stage2_model::finding::{Id, Severity};
use stage2_packed::Packed;
use stage2_read::private;
use stage2_report::operators::Annotation;

/// The hook's files, by their path in its folder.
const FILES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hook.z"));

/// What the hook leaves in its folder once a Python has loaded it.
const LOADED: &str = "loaded";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hook {
    pub(crate) folder: PathBuf,
    pub(crate) environment: BTreeMap<String, OsString>,
}

/// Plans the hook in `folder` for what `annotations` ask for; nothing where they ask for nothing or
/// where it cannot be. `python_path` is PYTHONPATH as it is inherited, `command` the workload's argv.
/// The findings state what has to be known of it.
pub(crate) fn plan(
    annotations: &[Annotation],
    folder: &Path,
    python_path: Option<&OsStr>,
    command: &[OsString],
) -> (Option<Hook>, Vec<Finding>) {
    let asked = Annotation::ALL.into_iter().filter(|a| annotations.contains(a));
    let words: Vec<&str> = asked.map(Annotation::word).collect();
    if words.is_empty() {
        return (None, Vec::new());
    }
    let words = words.join(",");
    if let Some(refused) = refused(folder, &words) {
        return (None, vec![refused]);
    }
    let mut findings = Vec::new();
    findings.extend(ignored_by(command).map(|flag| {
        Id::RangesNotAnnotated.found(
            format!("the workload is not annotated ({words}): it starts Python with -{flag}"),
            "such a Python does not read PYTHONPATH or run sitecustomize",
            format!("remove -{flag} to have the ranges"),
        )
    }));
    if annotations.contains(&Annotation::TorchOps) {
        findings.push(Id::RangesAnnotated.graded(
            Severity::Warning,
            "PyTorch marks every operator (--annotate torch-ops), so steps and GPU idle time are longer than without",
            "marking an operator takes host time; GPU times are not affected",
            "take times of steps and of the host from a run without it",
        ));
    }
    let mut path = folder.as_os_str().to_owned();
    // An empty entry would be the current folder.
    if let Some(others) = python_path.filter(|others| !others.is_empty()) {
        path.push(":");
        path.push(others);
    }
    let environment = BTreeMap::from([
        ("PYTHONPATH".to_owned(), path),
        ("STAGE2_ANNOTATE".to_owned(), words.into()),
    ]);
    (Some(Hook { folder: folder.to_owned(), environment }), findings)
}

impl Hook {
    /// The paths of the files.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let path = |(name, _): (&str, &str)| self.folder.join(name);
        Packed::open(FILES).map(|all| all.texts().map(path).collect()).unwrap_or_default()
    }

    /// Writes the files, or tells why the workload will mark nothing more.
    pub(crate) fn write(&self) -> Option<Finding> {
        let failed = match Packed::open(FILES) {
            Ok(all) => all.texts().find_map(|(name, content)| {
                let path = self.folder.join(name);
                let error = self.write_file(&path, content).err()?;
                Some(format!("{} cannot be written ({error})", path.display()))
            }),
            Err(error) => Some(format!("the hook cannot be unpacked ({error})")),
        };
        Some(Id::RangesNotAnnotated.found(
            "the workload is not annotated",
            failed?,
            "check its folder, or run without --annotate",
        ))
    }

    fn write_file(&self, path: &Path, content: &str) -> std::io::Result<()> {
        private::create_folders(path.parent().unwrap_or(&self.folder))?;
        private::create(path)?.write_all(content.as_bytes())
    }

    /// That no Python has loaded the hook. Of a `command` that is known to keep it out the plan has told.
    pub(crate) fn unloaded(&self, command: &[OsString]) -> Option<Finding> {
        if self.folder.join(LOADED).exists() || ignored_by(command).is_some() {
            return None;
        }
        Some(Id::RangesNotAnnotated.found(
            "the workload is not annotated, because no Python process loaded the hook of --annotate",
            "there is no Python in the workload, or a script replaced PYTHONPATH or started Python with -I, -E or -S, \
             or the folder of the hook is not writable",
            "in a script that sets PYTHONPATH, keep its value: export PYTHONPATH=/app/src${PYTHONPATH:+:$PYTHONPATH}",
        ))
    }
}

/// PYTHONPATH has no way to hold some paths.
fn refused(folder: &Path, words: &str) -> Option<Finding> {
    let why = if folder.as_os_str().as_bytes().contains(&b':') {
        "PYTHONPATH cannot hold a path with a colon"
    } else if !folder.is_absolute() {
        "PYTHONPATH needs an absolute path, whatever folder the workload changes to"
    } else {
        return None;
    };
    let what = format!("the workload is not annotated ({words}): {why}: {}", visible_path(folder));
    let why = "its operators and stages have no ranges but its own";
    Some(Id::RangesNotAnnotated.found(what, why, "choose another run folder with --run-dir"))
}

/// The flag of a Python command that keeps the hook out: `-I`, `-E` or `-S`. A command that is not
/// Python may still start one, of which nothing is known.
fn ignored_by(command: &[OsString]) -> Option<char> {
    let (program, arguments) = command.split_first()?;
    if !is_python(program) {
        return None;
    }
    let mut arguments = arguments.iter().filter_map(|argument| argument.to_str());
    while let Some(flags) = arguments.next().and_then(|argument| argument.strip_prefix('-')) {
        if flags.is_empty() || flags.starts_with('-') {
            return None;
        }
        for (at, flag) in flags.char_indices() {
            match flag {
                'I' | 'E' | 'S' => return Some(flag),
                'c' | 'm' => return None,
                // They take a value: the rest of the word, or the next one.
                'W' | 'X' => {
                    if at + 1 == flags.len() {
                        arguments.next();
                    }
                    break;
                }
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Annotation; 2] = [Annotation::PrefillDecode, Annotation::TorchOps];

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_folder_comes_before_what_was_on_the_path() {
        let at = |inherited: Option<&str>| {
            let (hook, _) = plan(&BOTH, Path::new("/run/hook"), inherited.map(OsStr::new), &[]);
            hook.expect("a hook").environment
        };
        assert_eq!(at(None)["PYTHONPATH"], "/run/hook");
        assert_eq!(at(Some(""))["PYTHONPATH"], "/run/hook", "no entry for the current folder");
        assert_eq!(at(Some("a::/b"))["PYTHONPATH"], "/run/hook:a::/b");
        assert_eq!(at(None)["STAGE2_ANNOTATE"], "torch-ops,prefill-decode");
    }

    #[test]
    fn nothing_asked_is_nothing_done() {
        assert_eq!(plan(&[], Path::new("/run/hook"), None, &[]), (None, Vec::new()));
        let (_, findings) = plan(&BOTH[..1], Path::new("/run/hook"), None, &words("python3 x.py"));
        assert_eq!(findings, []);
    }

    #[test]
    fn paths_that_python_cannot_be_told_are_refused() {
        for (folder, part) in [("/run 1:2/hook", "colon"), ("run/hook", "absolute")] {
            let (hook, findings) = plan(&BOTH, Path::new(folder), None, &[]);
            assert_eq!(hook, None);
            assert!(findings.iter().any(|f| f.what.contains(part)), "{findings:?}");
        }
    }

    #[test]
    fn a_python_that_leaves_the_hook_out_is_told() {
        for (line, flag) in [
            ("python -I x.py", Some('I')),
            ("/opt/venv/bin/python3.11 -u -uS -m runner", Some('S')),
            ("python3 -W ignore -X dev -E x.py", Some('E')),
            ("python3 -Wignore -B -s x.py -I", None),
            ("python3 -m runner -S", None),
            ("python3 -c pass -E", None),
            ("python3 - -I", None),
            ("python3 --version -I", None),
            ("python3", None),
            ("python-config -I", None),
            ("torchrun -I", None),
        ] {
            assert_eq!(ignored_by(&words(line)), flag, "{line}");
        }
        let (hook, findings) = plan(&BOTH, Path::new("/h"), None, &words("python3 -I x.py"));
        assert!(hook.is_some() && findings.iter().any(|f| f.what.contains("with -I")));
    }

    #[test]
    fn every_file_of_the_hook_is_there_and_written() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("hook");
        let python = |folder: &Path| {
            let entries = std::fs::read_dir(folder)
                .expect("folder")
                .map(|entry| entry.expect("entry").path());
            entries.filter(|path| path.extension().is_some_and(|e| e == "py")).count()
        };
        let folder = tempfile::tempdir().expect("folder");
        let (hook, _) = plan(&BOTH, &folder.path().join("run/hook"), None, &[]);
        let hook = hook.expect("a hook");
        assert_eq!(hook.write(), None);
        assert_eq!(hook.write(), None, "written again");
        let written = hook.files();
        assert!(written.iter().all(|path| path.is_file()));
        assert_eq!(written.len(), python(&here) + python(&here.join("stage2_annotate")));
        std::fs::write(folder.path().join("file"), "").expect("file");
        let (hook, _) = plan(&BOTH, &folder.path().join("file"), None, &[]);
        let error = hook.expect("a hook").write().expect("no folder");
        assert!(format!("{error:#}").contains("--annotate"), "{error:#}");
    }

    #[test]
    fn a_python_runs_it() {
        let folder = tempfile::tempdir().expect("folder");
        let (hook, _) = plan(&BOTH, folder.path(), None, &[]);
        let hook = hook.expect("a hook");
        assert_eq!(hook.write(), None);
        let unloaded = hook.unloaded(&[]).expect("nobody has loaded it");
        assert!(unloaded.why.contains("replaced"), "{unloaded}");
        let site = folder.path().join("sitecustomize.py");
        let old = "import runpy, sys; sys.version_info = (3, 7); runpy.run_path(sys.argv[1])";
        let mut python = std::process::Command::new("python3");
        let old = python.args(["-B", "-S", "-c", old]).arg(site).output().expect("python3");
        assert!(String::from_utf8_lossy(&old.stderr).contains("3.8 or newer"), "{old:?}");
        assert_eq!(hook.unloaded(&[]), None, "what is missing was said");
        std::fs::remove_file(folder.path().join(LOADED)).expect("loaded");
        let code = "import sys; print('stage2_annotate' in sys.modules, sys.path)";
        let done = std::process::Command::new("python3")
            .args(["-B", "-c", code])
            .envs(&hook.environment)
            .output()
            .expect("python3");
        let (out, err) =
            (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success() && out.starts_with("True") && err.is_empty(), "{out}{err}");
        assert!(!out.contains(&folder.path().display().to_string()), "{out}");
        assert_eq!(hook.unloaded(&[]), None);
    }
}
