//! The collector's folders import only from those below them, and no two modules import each other, not even through
//! others. Records flow in one direction: the drain thread knows no producer. State outside of `state` is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each folder and those that it may import from.
const LAYERS: [(&str, &[&str]); 6] = [
    ("entry", &["entry", "control", "drain", "host", "guest", "base"]),
    ("control", &["control", "host", "guest", "base"]),
    ("drain", &["drain", "host", "guest", "base"]),
    ("host", &["host", "base"]),
    ("guest", &["guest", "base"]),
    ("base", &["base"]),
];

/// All of `guest` that `drain` may know: what it takes from there, and [`gpu`](stage2::guest::gpu), the
/// one interface through which it asks CUPTI for something. Neither CUPTI's nor NVTX's side is here.
const TAKEN_BY_DRAIN: [&str; 11] = [
    "activity",
    "blob",
    "collection_switch",
    "event",
    "gpu",
    "pool",
    "registry",
    "schema_encoding",
    "state",
    "window_filter",
    "windows",
];

/// All of CUPTI's ABI that `drain` may know: numbers of NVTX types, and what a refused call says.
const ABI_OF_DRAIN: [&str; 2] = ["nvtx", "CuptiError"];

/// Every static outside of `guest/state.rs`: what outlives a recording, and process-wide switches.
const STATICS: [(&str, &[&str]); 18] = [
    // What a process knows of its forks.
    ("base/ancestry.rs", &["NOTICES", "PROCESS", "PARENT", "AFTER_CUDA"]),
    ("base/generation.rs", &["NUMBER", "EPOCH", "UNSEEN", "MARK"]),
    ("entry/forks.rs", &["ASKING"]),
    // Registrations, and numbers of ranges and threads.
    ("guest/registry.rs", &["REGISTRY"]),
    ("guest/nvtx/mod.rs", &["NEXT", "FIRST"]),
    ("guest/thread.rs", &["STATE"]),
    // Of a thread that is in a launch.
    ("guest/launch_watch.rs", &["BEGUN"]),
    // Memory.
    ("base/allocator.rs", &["ALLOCATOR", "RESERVE", "FAILED", "LAST_RESORT"]),
    // The socket and the main thread of the process, for handlers of forks and ends.
    ("control/place.rs", &["CURRENT"]),
    ("base/main_end.rs", &["KEY", "WATCHED", "ENDED", "TELL"]),
    // What a preloaded library stands before.
    ("entry/ends/execs.rs", &["mut environ"]),
    ("entry/ends/interpreter.rs", &["ASKED"]),
    ("entry/ends/mod.rs", &["READY"]),
    ("entry/ends/others.rs", &["FOLDERS"]),
    // Switches.
    ("base/diag.rs", &["LEVEL"]),
    ("base/timed_write.rs", &["STDERR_STUCK"]),
    ("entry/inject.rs", &["CONSTRUCTOR", "SAID"]),
    ("base/barrier.rs", &["OWNER", "KEY", "PREPARED", "PLACE"]),
];

/// A folder and a module in it.
type Module = (String, String);

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The code of a file without comments and, where `tests` is false, without its tests.
fn code(file: &Path, tests: bool) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().take_while(|line| tests || line.trim() != "#[cfg(test)]");
    lines.map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// What is named as `crate::FOLDER::MODULE`, in groups as well.
fn named(code: &str) -> BTreeSet<Module> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut modules = BTreeSet::new();
    for path in code.split("crate::").skip(1) {
        let folder = word(path);
        let rest = path[folder.len()..].strip_prefix("::").unwrap_or_default();
        let items: Vec<&str> = match rest.strip_prefix('{') {
            Some(group) => group.split(';').next().unwrap_or_default().split(',').collect(),
            None => vec![rest],
        };
        modules.extend(items.into_iter().map(|item| (folder.clone(), word(item))));
    }
    modules
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn folders_import_only_from_those_below_them() {
    for (folder, below) in LAYERS {
        for file in files(&src().join(folder)) {
            for (imported, module) in named(&code(&file, true)) {
                assert!(
                    below.contains(&imported.as_str()),
                    "{} imports {imported}::{module}",
                    file.display()
                );
            }
        }
    }
}

#[test]
fn our_thread_knows_no_producer_and_cannot_read_a_record_itself() {
    for file in files(&src().join("drain")) {
        let code = code(&file, false);
        for (folder, module) in named(&code) {
            let known = folder != "guest" || TAKEN_BY_DRAIN.contains(&module.as_str());
            assert!(known, "{} imports {folder}::{module}", file.display());
        }
        for path in code.split("cupti_sys::").skip(1) {
            let known = ABI_OF_DRAIN.iter().any(|name| path.starts_with(name));
            assert!(known, "{}: cupti_sys::{path:.20}", file.display());
        }
    }
}

#[test]
fn what_a_process_records_is_in_state_and_every_other_static_is_listed() {
    for file in files(&src()) {
        let code = code(&file, false);
        let statics: Vec<&str> = code
            .lines()
            .filter_map(|line| line.trim().trim_start_matches("pub ").strip_prefix("static "))
            .filter_map(|declaration| declaration.split(':').next())
            .collect();
        let file = file.strip_prefix(src()).unwrap().to_string_lossy().into_owned();
        let listed = STATICS.iter().find(|(listed, _)| *listed == file);
        let listed = listed.map_or(&[][..], |(_, names)| names);
        assert!(file == "guest/state.rs" || statics == listed, "{file}: {statics:?}");
    }
}

#[test]
fn no_module_imports_one_that_imports_it() {
    let mut imports: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (folder, _) in LAYERS {
        for file in files(&src().join(folder)) {
            let inner = file.strip_prefix(src().join(folder)).unwrap();
            if inner
                .components()
                .any(|part| part.as_os_str().to_string_lossy().starts_with("tests"))
            {
                continue;
            }
            let module = inner.components().next().unwrap().as_os_str().to_string_lossy();
            let module = (folder.to_owned(), module.trim_end_matches(".rs").to_owned());
            let of_module = imports.entry(module.clone()).or_default();
            of_module
                .extend(named(&code(&file, false)).into_iter().filter(|other| *other != module));
        }
    }
    assert!(imports.len() > 40, "{} modules found", imports.len());
    // Modules that import none of those that are left are taken away; a circle stays.
    while let Some(leaf) = imports
        .iter()
        .find(|(_, others)| !others.iter().any(|other| imports.contains_key(other)))
        .map(|(module, _)| module.clone())
    {
        imports.remove(&leaf);
    }
    assert!(imports.is_empty(), "a circle among {:?}", imports.keys());
}
