//! Processes that stand still -> evidence of all of them at once, and a sentence about the cause.

mod ended;
mod evidence;
mod show;
mod verdict;

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use stage2_contract::control::Verb;
use stage2_contract::order::Order as _;
use stage2_contract::text::visible_path;

use super::EXIT_REFUSED;
use crate::commands::ending::printed;
use crate::control::{
    AskError, ControlSocket, Target, ask_for, began_with, find_silent, is_stopped,
};
use crate::failure::Failure;
use crate::threads::begin_alone;
use evidence::{Evidence, SilentState};

/// The longest that an answer is waited for. A collector takes 1.5 s at most.
const PATIENCE: Duration = Duration::from_millis(1650);
/// The longest that a process may take to say where it writes.
const STATUS_PATIENCE: Duration = Duration::from_millis(300);
/// A file of the watch that is larger is none.
const FILE_BYTES: u64 = 4 << 20;

pub(super) fn why(target: &Target, json: bool) -> Result<u8, Failure> {
    let processes = match target {
        Target::Run(path) if path.is_file() => vec![read_file(path)?],
        _ => {
            let found = find_silent(target, STATUS_PATIENCE)?;
            let ended = match target {
                Target::Run(folder) => ended::of_folder(folder, &found),
                _ => Vec::new(),
            };
            let mut asked = ask_all(found, *target == Target::All);
            asked.extend(ended);
            asked
        }
    };
    if processes.is_empty() {
        return Err(Failure::NoResult("no process of this user can be asked".to_owned()));
    }
    let verdict = verdict::of(&processes);
    let text = if json {
        let processes: Vec<_> = processes
            .iter()
            .zip(&verdict.processes)
            .map(|(evidence, verdict)| json!({"verdict": verdict, "evidence": evidence}))
            .collect();
        let all = json!({"version": 1, "verdict": verdict.all, "processes": processes});
        format!("{all:#}\n")
    } else {
        show::text(&processes, &verdict)
    };
    printed(&text)?;
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
