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
    let until = Instant::now() + PATIENCE;
    loop {
        let found = running(folder);
        if found.is_empty() || Instant::now() >= until {
            return found;
        }
        std::thread::sleep(STEP);
    }
}

fn running(folder: &Path) -> Vec<u32> {
    let wanted = [TRACE_FOLDER.as_bytes(), b"=", folder.as_os_str().as_bytes()].concat();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().take(PROCESSES);
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_of_run = |pid: &u32| {
        let mut environment = Vec::new();
        let read = File::open(format!("/proc/{pid}/environ"))
            .and_then(|file| file.take(ENVIRONMENT_BYTES).read_to_end(&mut environment));
        read.is_ok() && environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
    };
    processes.filter(|pid| *pid != std::process::id()).filter(is_of_run).collect()
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
