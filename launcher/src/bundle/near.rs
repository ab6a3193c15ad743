//! A path that is not the folder of a run -> what it is, and which runs are near it.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use stage2_contract::text::{most_like, visible_path};

use super::folder::LATEST;
use super::{COLLECTOR_DIR, RUN_JSON, RunRecord};
use crate::commands::diff::METRICS;
use crate::failure::Failure;
use crate::plan;
use stage2_read::foreign::kind_of;

/// Where runs lie that were given no folder.
pub(crate) const FOLDER_OF_RUNS: &str = "tmp/stage2";
/// What the word for a baseline begins with.
pub(crate) const OF_BASELINES: &str = "baseline:";
/// Runs that a message names.
const NAMED: usize = 3;
/// Entries of a folder that are looked at.
const MOST_ENTRIES: usize = 10_000;

/// What the user named: `latest` is the latest run of the default folder, unless something here is called so.
pub(crate) fn run_named(given: &Path) -> PathBuf {
    let latest = Path::new(FOLDER_OF_RUNS).join(LATEST);
    match given.as_os_str() == LATEST && !given.exists() && latest.exists() {
        true => latest,
        false => given.to_owned(),
    }
}

/// Refuses what is not the folder of a run: something else was to be named, unless the folder cannot be looked at.
pub(crate) fn refused_run(path: &Path) -> Failure {
    let text = not_a_run(path);
    if hidden(path).is_some() { Failure::NoResult(text) } else { Failure::Usage(text) }
}

/// Why this user may not look into `path`: what is in it then seems to be absent.
pub(crate) fn hidden(path: &Path) -> Option<io::Error> {
    let is_denied = |why: &io::Error| why.kind() == ErrorKind::PermissionDenied;
    fs::metadata(path.join(RUN_JSON)).err().filter(is_denied)
}

/// That `path` cannot be looked into, who can, and how others can be let in.
fn denied(path: &Path, error: &io::Error) -> String {
    let owner = fs::metadata(path).map(|found| format!(" (user ID {})", found.uid()));
    format!(
        "`{}` cannot be read: {error}; only its owner{} can, and a group that it was given to: `run --group GROUP` makes \
         a run that a group can read",
        visible_path(path),
        owner.unwrap_or_default()
    )
}

/// Why `path` is not the folder of a run, and what to name instead.
pub(crate) fn not_a_run(path: &Path) -> String {
    not_a_run_among(path, &[])
}

/// Why `path`, one of the runs in `given`, is not the folder of a run, and what to name instead: none of the runs that
/// are given already.
pub(crate) fn not_a_run_among(path: &Path, given: &[&PathBuf]) -> String {
    let shown = visible_path(path);
    let above = path.parent().unwrap_or(Path::new(""));
    match fs::metadata(path) {
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
            let folders = [above, FOLDER_OF_RUNS.as_ref()];
            if let Some(name) = shown.strip_prefix(OF_BASELINES) {
                return format!(
                    "{shown} is a baseline, which only `diff` takes: stage2-launch diff {OF_BASELINES}{name} RUN"
                );
            }
            if path.as_os_str() == LATEST {
                let newest = newest(&folders);
                return format!(
                    "{shown} does not exist: it stands for the newest run in {FOLDER_OF_RUNS}, and no run there has a \
                     result yet (runs with --run-dir are elsewhere){newest}"
                );
            }
            format!("{shown} does not exist{}", instead(path, &folders, given))
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => denied(path, &error),
        Err(error) => {
            format!("{shown} cannot be read: {error}; check the path and where its links lead")
        }
        Ok(found) if found.is_dir() => {
            if let Some(error) = hidden(path) {
                return denied(path, &error);
            }
            if is_run(above) {
                return format!(
                    "{shown} is a part of a run; name the run, `{}`",
                    visible_path(above)
                );
            }
            let with_traces =
                [path.join(COLLECTOR_DIR), path.to_owned()].into_iter().find(holds_traces);
            let newest = match with_traces {
                Some(folder) => format!(
                    "; `stage2-launch merge --spool {} -o DIR` makes a run of its trace files",
                    plan::quote(&folder)
                ),
                None => newest_below(path, given),
            };
            format!("{shown} is not a run folder: no {RUN_JSON} in it{newest}")
        }
        Ok(_) if is_run(above) => {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            format!("{shown} is a file; name the folder of the run, `{}`", visible_path(above))
        }
        Ok(found) => {
            let kind = if found.is_file() { "a file" } else { "a device, a pipe or a socket" };
            let (what, option) = kind_of(path).unwrap_or_else(|_| (kind.to_owned(), None));
            let instead = option.map_or_else(
                || newest(&[above, FOLDER_OF_RUNS.as_ref(), Path::new("")]),
                |option| {
                    let file = plan::quote(path);
                    format!("; `stage2-launch merge {option} {file} -o DIR` makes a run of it")
                },
            );
            format!("{shown} is {what}, not the folder of a run{instead}")
        }
    }
}

/// Whether trace files are right in a folder.
fn holds_traces(folder: &PathBuf) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_ENTRIES);
    entries.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|end| end == "s2t"))
}

/// The run in one of `folders` that `path` was probably meant to be, or else the newest ones.
fn instead(path: &Path, folders: &[&Path], given: &[&PathBuf]) -> String {
    let given: Vec<_> = given.iter().filter_map(|run| run_named(run).canonicalize().ok()).collect();
    let mut runs = runs_in(folders);
    runs.retain(|(_, run)| run.canonicalize().is_ok_and(|run| !given.contains(&run)));
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let names: Vec<String> = runs.iter().filter_map(|(_, run)| name(run)).collect();
    let asked = name(path).unwrap_or_default();
    let near = most_like(&asked, names.iter().map(String::as_str));
    let is_word = path.parent().is_some_and(|above| above.as_os_str().is_empty());
    if is_word
        && near.is_none()
        && most_like(&asked, [LATEST]).is_some()
        && run_named(LATEST.as_ref()).exists()
    {
        return format!("; did you mean `{LATEST}`?");
    }
    let near = near.and_then(|near| runs.iter().find(|(_, run)| run.ends_with(near)));
    let near = near.map(|(_, near)| near.clone()).or_else(|| corrected(path));
    let is_given = |run: &PathBuf| run.canonicalize().is_ok_and(|run| given.contains(&run));
    match near.filter(|near| !is_given(near)) {
        Some(near) => format!("; did you mean {}?", visible_path(&near)),
        None => newest_of(runs),
    }
}

/// The run that a path leads to if each part of it that does not exist is the most similar name in its folder.
fn corrected(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for part in path.components() {
        let next = found.join(part);
        if next.exists() {
            found = next;
            continue;
        }
        let Component::Normal(name) = part else { return None };
        let folder = if found.as_os_str().is_empty() { Path::new(".") } else { &found };
        let entries = fs::read_dir(folder).ok()?.flatten().take(MOST_ENTRIES);
        let names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        let near = most_like(&name.to_string_lossy(), names.iter().map(String::as_str))?;
        found.push(near);
    }
    is_run(&found).then_some(found)
}

/// The newest runs in a folder that is none, and in the default one; where it has none, in the working directory. Those that
/// are `given` are not meant.
pub(crate) fn newest_below(folder: &Path, given: &[&PathBuf]) -> String {
    let mut runs = runs_in(&[folder, FOLDER_OF_RUNS.as_ref(), &folder.join(FOLDER_OF_RUNS)]);
    if !runs.iter().any(|(_, run)| run.starts_with(folder) && !is_empty(run)) {
        let here = runs_in(&[Path::new("")]).into_iter();
        let other: Vec<_> =
            here.filter(|(_, run)| runs.iter().all(|(_, known)| is_other(known, run))).collect();
        runs.extend(other);
    }
    // It is not that one, by whatever name.
    let named = given.iter().map(|run| run_named(run)).chain([folder.to_owned()]);
    let named: Vec<PathBuf> = named.filter_map(|run| run.canonicalize().ok()).collect();
    runs.retain(|(_, run)| run.canonicalize().is_ok_and(|run| !named.contains(&run)));
    newest_of(runs)
}

/// The newest runs of `folders` that recorded something.
fn newest(folders: &[&Path]) -> String {
    newest_of(runs_in(folders))
}

/// Whether a run has a report that ends as JSON does: no command takes one that was cut.
fn has_report(run: &Path) -> bool {
    let last = || {
        let mut file = std::fs::File::open(run.join(METRICS))?;
        let mut end = String::new();
        file.seek(SeekFrom::End(-2))?;
        file.read_to_string(&mut end)?;
        std::io::Result::Ok(end)
    };
    last().is_ok_and(|end| end.trim_end().ends_with('}'))
}

fn newest_of(mut runs: Vec<(SystemTime, PathBuf)>) -> String {
    // The link to the latest one is no further run, and one with a damaged record helps nobody.
    runs.retain(|(_, run)| !run.is_symlink() && RunRecord::read(run).is_ok());
    runs.sort();
    // Those with a report first: every command that reads a run takes them.
    let with_work = runs.iter().rev().filter(|(_, run)| !is_empty(run));
    let (reported, others): (Vec<_>, Vec<_>) = with_work.partition(|(_, run)| has_report(run));
    // Newer ones that recorded nothing are not among them.
    let hidden = runs.last().is_some_and(|(_, run)| is_empty(run));
    let of = if hidden { " with results" } else { "" };
    let shown = if reported.is_empty() { others } else { reported };
    let shown = shown.into_iter().take(NAMED).map(|(_, run)| visible_path(run));
    let shown: Vec<String> = shown.collect();
    match shown.as_slice() {
        [] if let Some((_, last)) = runs.last() => {
            format!("; the newest run, {}, recorded no GPU work", visible_path(last))
        }
        [] => "; `stage2-launch run -- COMMAND` makes a run, and `stage2-launch merge` makes one of captures".to_owned(),
        [only] => format!("; the newest run{of} is {only}"),
        all => format!("; the newest runs{of} are {}", all.join(", ")),
    }
}

/// The runs in these folders, each with the time of its last change.
fn runs_in(folders: &[&Path]) -> Vec<(SystemTime, PathBuf)> {
    let mut runs: Vec<(SystemTime, PathBuf)> = Vec::new();
    for folder in folders {
        let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let entries = fs::read_dir(listed).into_iter().flatten().flatten().take(MOST_ENTRIES);
        let entries = entries.filter(|entry| !is_scratch(&entry.file_name().to_string_lossy()));
        for path in entries.map(|entry| folder.join(entry.file_name())) {
            if let Some(changed) = changed(&path)
                && runs.iter().all(|(_, run)| is_other(run, &path))
            {
                runs.push((changed, path));
            }
        }
    }
    runs
}

/// Names of folders that programs make for a moment (`mktemp`, tempfile): nobody means these.
fn is_scratch(name: &str) -> bool {
    name.starts_with('.') || name.starts_with("tmp.")
}

/// Whether two paths lead to entries that are not one: `./a` is `a`, and `latest` is not what it leads to.
fn is_other(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or(Path::new(".")).canonicalize().ok()
    };
    one.file_name() != other.file_name() || place(one) != place(other)
}

fn is_run(folder: &Path) -> bool {
    changed(folder).is_some()
}

/// Whether a run recorded no GPU work, as far as it says.
fn is_empty(folder: &Path) -> bool {
    RunRecord::read(folder).is_ok_and(|record| record.coverage["verdict"]["status"] == "empty")
}

/// When a run was changed last; nothing where the folder is none of a run.
fn changed(folder: &Path) -> Option<SystemTime> {
    fs::metadata(folder.join(RUN_JSON)).and_then(|file| file.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_no_run_is_told_which_runs_are_near_it() {
        let root = tempfile::tempdir().expect("a folder");
        let at = |name: &str| root.path().join(name);
        let scratch = [(".tmp4fQ2xA", 10), ("tmp.Zb2Qk1f0aB", 20)];
        let runs = [("before", 300), ("middle", 200), ("after", 100), ("oldest", 400)];
        for (name, age) in runs.into_iter().chain(scratch) {
            fs::create_dir(at(name)).expect("a folder");
            RunRecord::new(name.to_owned(), Vec::new()).write(&at(name)).expect("a record");
            let record = fs::File::options().append(true).open(at(name).join(RUN_JSON));
            let record = record.expect("a file");
            let changed = SystemTime::now() - std::time::Duration::from_secs(age);
            record.set_modified(changed).expect("a time");
        }
        let mut empty = RunRecord::new("empty".to_owned(), Vec::new());
        empty.coverage = serde_json::json!({"verdict": {"status": "empty"}});
        fs::create_dir(at("empty")).expect("a folder");
        empty.write(&at("empty")).expect("a record");
        fs::create_dir(at("damaged")).expect("a folder");
        fs::write(at("damaged").join(RUN_JSON), "{").expect("a file");
        fs::create_dir(at("bare")).expect("a folder");
        fs::write(at("bare/notes.txt"), "").expect("a file");
        fs::create_dir_all(at("lost/collector")).expect("a folder");
        fs::write(at("lost/collector/h-1.s2t"), "").expect("a file");
        let merge =
            format!("`stage2-launch merge --spool {} -o DIR`", plan::quote(at("lost/collector")));
        assert!(not_a_run(&at("lost")).contains(&merge), "{}", not_a_run(&at("lost")));
        std::os::unix::fs::symlink("after", at("latest")).expect("a link");
        let shown = |name: &str| visible_path(&at(name));
        let newest = format!("{}, {}, {}", shown("after"), shown("middle"), shown("before"));
        for (name, expected) in [
            ("lates", format!("does not exist; did you mean {}?", shown("latest"))),
            ("befroe", format!("does not exist; did you mean {}?", shown("before"))),
            ("xyz", format!("does not exist; the newest runs with results are {newest}")),
            (
                "after/run.json",
                format!("is a file; name the folder of the run, `{}`", shown("after")),
            ),
            ("bare", "is not a run folder: no run.json in it; `stage2".to_owned()),
            ("bare/notes.txt", "is an empty file, not the folder of a run; `stage2".to_owned()),
            ("bare/notes.txt/x", "does not exist; `stage2-launch run".to_owned()),
            (
                "",
                format!(
                    "is not a run folder: no run.json in it; the newest runs with results are {newest}"
                ),
            ),
        ] {
            let said = not_a_run(&at(name));
            assert!(said.starts_with(&format!("{} {expected}", shown(name))), "{name}: {said}");
        }
        let slips = format!("{}x/befroe", visible_path(root.path()));
        let said = not_a_run(Path::new(&slips));
        assert!(said.ends_with(&format!("; did you mean {}?", shown("before"))), "{said}");
        let given = [at("latest"), at("before")];
        let said = not_a_run_among(&at("befroe"), &[&given[0], &given[1]]);
        let newest =
            format!("the newest runs with results are {}, {}", shown("middle"), shown("oldest"));
        assert!(said.ends_with(&newest), "{said}");
        // What no command could read is not proposed where others are.
        fs::write(at("oldest/metrics.json"), "{}\n").expect("a file");
        fs::write(at("after/metrics.json"), "{\"cut\":").expect("a file");
        let said = not_a_run(&at("xyz"));
        assert!(
            said.ends_with(&format!("the newest run with results is {}", shown("oldest"))),
            "{said}"
        );
    }
}
