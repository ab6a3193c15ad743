//! The processes of a run -> what the pass that started them does not see: those that outlive the workload, and
//! a run of another stage2-launch among them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::plan::TRACE_FOLDER;
use stage2_contract::text::visible;
use stage2_read::{files, private};

/// Helpers of a program may end a little later than itself.
const PATIENCE: Duration = Duration::from_secs(1);
/// While a process loads its program (`exec`), it shows no environment.
const LOADING: Duration = Duration::from_millis(250);
const STEP: Duration = Duration::from_millis(50);
/// Processes that are looked at, and bytes of the environment of each.
const PROCESSES: usize = 50_000;
const ENVIRONMENT_BYTES: u64 = 256 << 10;

/// What an inner run leaves in the folder of trace files of the outer one.
const INNER_RUN: &str = "inner-run.txt";
const INNER_RUN_BYTES: u64 = 1 << 20;

/// Processes whose collector writes into `folder`, once those are gone that just end. Those of other users are
/// not seen.
pub(crate) fn left_running(folder: &Path) -> Vec<u32> {
    let started = Instant::now();
    loop {
        let (found, unknown) = running(folder);
        let patience = match (found.is_empty(), unknown) {
            (true, false) => return found,
            (true, true) => LOADING,
            (false, _) => PATIENCE,
        };
        if started.elapsed() >= patience {
            return found;
        }
        std::thread::sleep(STEP);
    }
}

/// The processes, and whether there are some whose environment is not there now.
fn running(folder: &Path) -> (Vec<u32>, bool) {
    let wanted = [TRACE_FOLDER.as_bytes(), b"=", folder.as_os_str().as_bytes()].concat();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().take(PROCESSES);
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut unknown = false;
    let is_of_run = |pid: &u32| {
        let mut environment = Vec::new();
        let read = File::open(format!("/proc/{pid}/environ"))
            .and_then(|file| file.take(ENVIRONMENT_BYTES).read_to_end(&mut environment));
        // Threads of the kernel have no program.
        unknown |= matches!(read, Ok(0)) && fs::read_link(format!("/proc/{pid}/exe")).is_ok();
        read.is_ok() && environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
    };
    let found = processes.filter(|pid| *pid != std::process::id()).filter(is_of_run).collect();
    (found, unknown)
}

/// Tells a launcher around this one, which gets no records, where they are.
pub(crate) fn tell_outer(run_dir: &Path) {
    let outer = std::env::var_os("STAGE2_LAUNCHER").and_then(|_| std::env::var_os(TRACE_FOLDER));
    let Some(folder) = outer.map(PathBuf::from).filter(|folder| folder.is_dir()) else { return };
    let told = folder.join(INNER_RUN);
    // The first one is enough, and the outer launcher does without.
    if !told.exists()
        && let Ok(mut file) = private::create(&told)
    {
        let _ = file.write_all(run_dir.as_os_str().as_bytes());
    }
}

/// What [`tell_outer`] of an inner run has told in `folder`.
pub(crate) fn inner_run(folder: &Path) -> Option<String> {
    let told = files::read(&folder.join(INNER_RUN), INNER_RUN_BYTES).ok()?;
    Some(visible(OsStr::from_bytes(&told).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hazard (Calls that fail): A process that the workload leaves behind is just loading its program.
    /// Promise: It is not taken for gone.
    #[test]
    fn a_process_without_an_environment_is_looked_at_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = std::process::Command::new("sleep");
        let mut child = command.arg("60").env_clear().spawn().expect("sleep, of coreutils");
        assert_eq!(running(folder.path()), (Vec::new(), true));
        let started = Instant::now();
        assert_eq!(left_running(folder.path()), [0; 0]);
        assert!(started.elapsed() >= LOADING, "{:?}", started.elapsed());
        child.kill().expect("killed");
        child.wait().expect("over");
    }

    #[test]
    fn processes_of_a_run_are_known_by_its_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let begin = |folder: &Path| {
            let mut command = std::process::Command::new("sleep");
            command.arg("60").env(TRACE_FOLDER, folder).spawn().expect("sleep, of coreutils")
        };
        let mut ours = begin(folder.path());
        let mut other = begin(&folder.path().join("other"));
        assert_eq!(left_running(folder.path()), [ours.id()]);
        for child in [&mut ours, &mut other] {
            child.kill().expect("killed");
            child.wait().expect("over");
        }
        assert_eq!(left_running(folder.path()), [0; 0]);
    }
}
