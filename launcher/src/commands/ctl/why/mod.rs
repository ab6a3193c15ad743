//! Processes that stand still -> evidence of all of them at once, and a sentence about the cause.

mod ended;
mod evidence;
mod show;
mod verdict;
mod xid;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use stage2_contract::control::Verb;
use stage2_contract::order::Order as _;
use stage2_contract::text::visible_path;

use super::EXIT_REFUSED;
use crate::cli::WhyArgs;
use crate::commands::ending::printed;
use crate::control::{
    AskError, ControlSocket, FindError, Target, ask_for, began_with, find_silent, is_stopped,
};
use crate::failure::Failure;
use crate::threads::begin_alone;
use evidence::{Evidence, SilentState};
use verdict::Verdict;

/// Version of the JSON that is printed.
pub(crate) const SCHEMA: u32 = 1;
/// The longest that an answer is waited for. A collector takes 1.5 s at most.
const PATIENCE: Duration = Duration::from_millis(1650);
/// The longest that a process may take to say where it writes.
const STATUS_PATIENCE: Duration = Duration::from_millis(300);
/// Files that were written at times further apart do not show the same moment.
const APART_MS: u64 = 30_000;
/// A file of the watch that is larger is none.
const FILE_BYTES: u64 = 4 << 20;

/// Why processes stand still: what `stage2-launch ctl why --json` prints.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Why<'a> {
    /// Version of this format. Members may be added to it.
    schema_version: u32,
    /// Of all processes together.
    verdict: &'a Verdict,
    processes: Vec<Told<'a>>,
}

/// A process.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Told<'a> {
    verdict: &'a Verdict,
    evidence: &'a Evidence,
}

pub(super) fn why(target: Option<&Target>, args: &WhyArgs) -> Result<u8, Failure> {
    let processes = match target {
        None => read_files(&args.from)?,
        Some(Target::Run(path)) if path.is_file() => vec![read_file(path)?],
        Some(target) => {
            let found = match find_silent(target, STATUS_PATIENCE) {
                Ok(found) => found,
                Err(error) => return without_socket(error).and_then(|one| tell(&[one], args)),
            };
            let ended = match target {
                Target::Run(folder) => ended::of_folder(folder, &found),
                _ => Vec::new(),
            };
            let mut asked = ask_all(found, *target == Target::All);
            // A trace file tells more than a socket: the rank, and how it ended.
            let has_file = |pid| ended.iter().any(|ended| ended.process.pid == pid);
            asked.retain(|evidence| !evidence.is_gone() || !has_file(evidence.process.pid));
            asked.extend(ended);
            put_xids(&mut asked);
            asked
        }
    };
    tell(&processes, args)
}

/// What is known of a process whose socket is gone.
fn without_socket(error: FindError) -> Result<Evidence, Failure> {
    let evidence = match &error {
        FindError::NoSocket { pid, .. } => Evidence::without_socket(*pid),
        _ => None,
    };
    evidence.ok_or_else(|| error.into())
}

fn tell(processes: &[Evidence], args: &WhyArgs) -> Result<u8, Failure> {
    if processes.is_empty() {
        return Err(Failure::NoResult("no process of this user can be asked".to_owned()));
    }
    let verdict = verdict::of(processes);
    let told = processes.iter().zip(&verdict.processes);
    let told = told.map(|(evidence, verdict)| Told { verdict, evidence }).collect();
    let all = Why { schema_version: SCHEMA, verdict: &verdict.all, processes: told };
    let json = serde_json::to_string_pretty(&all).map_err(|error| {
        Failure::NoResult(format!("the answer cannot be written as JSON: {error}"))
    })?;
    let (json, text) = (json + "\n", show::text(processes, &verdict));
    // What cannot be written can still be read here.
    printed(if args.answering.json { &json } else { &text })?;
    if let Some(folder) = &args.out {
        write_bundle(folder, &json, &text)?;
    }
    let told = |evidence: &Evidence| {
        let silent = evidence.silent.as_ref();
        silent.is_none_or(|silent| silent.state != SilentState::Older)
    };
    Ok(if processes.iter().all(told) { 0 } else { EXIT_REFUSED })
}

/// Asks all processes at once. `skips_stale`: sockets of processes that were killed say nothing, but where they began
/// with those that live.
fn ask_all(found: Vec<ControlSocket>, skips_stale: bool) -> Vec<Evidence> {
    let (give, told) = mpsc::channel();
    let count = found.len();
    let alive = |socket: &&ControlSocket| Path::new(&format!("/proc/{}", socket.pid)).exists();
    let living: Vec<ControlSocket> = found.iter().filter(alive).cloned().collect();
    for (index, socket) in found.into_iter().enumerate() {
        let skips_stale = skips_stale && !began_with(&socket, &living);
        let give = give.clone();
        begin_alone(move || {
            let answer = match is_stopped(socket.pid) {
                true => Err(AskError::Silent { pid: socket.pid }),
                false => ask_for(&socket, &Verb::Why, PATIENCE),
            };
            let is_stale = matches!(answer, Err(AskError::Stale { .. }));
            let evidence = (!(skips_stale && is_stale)).then(|| Evidence::of(&socket, answer));
            let _ = give.send((index, evidence));
        });
    }
    let mut all: Vec<(usize, Option<Evidence>)> = told.into_iter().take(count).collect();
    all.order_by_key(|(index, _)| *index);
    all.into_iter().filter_map(|(_, evidence)| evidence).collect()
}

/// Which of these dormant processes must not be started, and why.
pub(super) fn held_up(found: &[ControlSocket]) -> Vec<Option<String>> {
    ask_all(found.to_vec(), false).iter().map(verdict::holds_up_cupti).collect()
}

/// Errors that the driver told recently, each with its process, or with all where it names none.
fn put_xids(asked: &mut [Evidence]) {
    // Only a process that uses a GPU has to do with them.
    let of_gpu = asked.iter_mut().filter(|evidence| evidence.process.cuda);
    let found = xid::recent();
    for evidence in of_gpu {
        match &found {
            Ok(all) => {
                let own =
                    all.iter().filter(|xid| xid.pid.is_none_or(|pid| pid == evidence.process.pid));
                evidence.xid = own.map(|xid| xid.text.clone()).collect();
            }
            Err(why) => evidence.missing.push(why.clone()),
        }
    }
}

/// Writes what can be sent to someone: the evidence, the same as text, and where it comes from.
fn write_bundle(folder: &Path, json: &str, text: &str) -> Result<(), Failure> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let provenance = json!({
        "tool": "stage2-launch ctl why",
        "version": env!("CARGO_PKG_VERSION"),
        "host": host.trim(),
        "written": jiff::Timestamp::now().to_string(),
    });
    let markdown = format!("# Why nothing moves\n\n```text\n{text}```\n");
    let failed = |path: &Path, error: std::io::Error| {
        let next = match error.kind() {
            std::io::ErrorKind::AlreadyExists => "; name a folder without an earlier answer",
            _ => "",
        };
        Failure::NoResult(format!("{} cannot be written: {error}{next}", visible_path(path)))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for (name, content) in [
        ("why.json", json),
        ("why.md", &markdown),
        ("provenance.json", &format!("{provenance:#}\n")),
    ] {
        let path = folder.join(name);
        let opened = fs::OpenOptions::new().write(true).create_new(true).open(&path);
        let written = opened.and_then(|mut file| file.write_all(content.as_bytes()));
        written.map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Reads what the watches of several processes have written, also on other hosts.
fn read_files(paths: &[PathBuf]) -> Result<Vec<Evidence>, Failure> {
    let mut all = paths.iter().map(|path| read_file(path)).collect::<Result<Vec<_>, _>>()?;
    let times = all.iter().map(|evidence| evidence.process.unix_ms);
    let apart_ms = times.clone().max().unwrap_or(0) - times.min().unwrap_or(0);
    if apart_ms > APART_MS
        && let Some(first) = all.first_mut()
    {
        let apart = apart_ms / 1_000;
        first.missing.push(format!(
            "the same moment: the files were written within {apart} s, and what stood in one may have moved before \
             the other"
        ));
    }
    Ok(all)
}

/// Reads what the watch of a process has written.
fn read_file(path: &Path) -> Result<Evidence, Failure> {
    let shown = visible_path(path);
    let failed = |why: String| Failure::NoResult(format!("{shown}: {why}"));
    let length = fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if length > FILE_BYTES {
        return Err(failed("it is too large for a file that STAGE2_WATCH has written".to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let none = |why: &str| {
        failed(format!("it is not a file that STAGE2_WATCH has written (*.why.json): {why}"))
    };
    let evidence: Evidence =
        serde_json::from_str(&text).map_err(|error| none(&error.to_string()))?;
    if evidence.process.pid == 0 { Err(none("it names no process")) } else { Ok(evidence) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(rank: u64, unix_ms: u64) -> String {
        json!({"process": {"pid": 7, "rank": rank, "unix_ms": unix_ms}}).to_string()
    }

    /// Hazard (Standstill): Files of ranks on several hosts, whose processes have the same number, are judged together.
    /// Promise: Each counts as a separate process, different times are reported, and other files are named.
    #[test]
    fn files_of_several_hosts_are_read_together() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            path
        };
        let files = [write("a", &evidence(0, 1_000)), write("b", &evidence(1, 90_000))];
        let read = read_files(&files).expect("files");
        assert_eq!(read.iter().map(|one| one.process.rank).collect::<Vec<_>>(), [Some(0), Some(1)]);
        assert!(read[0].missing[0].contains("within 89 s"), "{:?}", read[0].missing);
        let cut = write("cut.why.json", &evidence(0, 1)[..20]);
        let error = read_files(&[files[0].clone(), cut]).unwrap_err().to_string();
        assert!(error.contains("cut.why.json") && error.contains("STAGE2_WATCH"), "{error}");
    }

    #[test]
    fn a_bundle_has_the_answer_twice_and_replaces_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("new/why");
        write_bundle(&out, "{}\n", "It stands.\n").expect("written");
        let read = |name: &str| fs::read_to_string(out.join(name)).expect(name);
        assert_eq!(read("why.json"), "{}\n");
        assert!(read("why.md").contains("It stands."), "{}", read("why.md"));
        assert!(read("provenance.json").contains("\"host\""), "{}", read("provenance.json"));
        let error = write_bundle(&out, "", "").unwrap_err().to_string();
        assert!(error.contains("without an earlier answer"), "{error}");
    }
}
