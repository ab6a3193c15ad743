//! What a profiler writes while it runs -> whether that is too much.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::plan::Pass;

/// Entries that are looked at: nsys makes some hundred files.
const MOST_ENTRIES: usize = 10_000;
/// Clocks of file systems tick coarsely.
const TICK: Duration = Duration::from_secs(1);

/// Files that a profiler may write, and how much.
pub(super) struct Growth {
    folders: Vec<PathBuf>,
    since: SystemTime,
    most_bytes: u64,
}

impl Growth {
    /// What to watch in a pass that has a limit of bytes; none: it has no limit. nsys gathers its records in the folder of temporary files.
    pub(super) fn of(pass: &Pass) -> Option<Self> {
        let most_bytes = pass.limits.bytes?;
        let own = pass.capture.as_ref().and_then(|capture| capture.log.parent());
        let temporary = std::env::temp_dir().join("nvidia/nsight_systems");
        let folders = own.into_iter().map(Path::to_owned).chain([temporary]).collect();
        Some(Self { folders, since: SystemTime::now(), most_bytes })
    }

    pub(super) fn is_too_large(&self) -> bool {
        let mut bytes: u64 = 0;
        let mut folders = self.folders.clone();
        let mut left = MOST_ENTRIES;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if left == 0 {
                    break;
                }
                left -= 1;
                let Ok(found) = entry.metadata() else { continue };
                let is_new = || found.modified().is_ok_and(|at| at + TICK >= self.since);
                if found.is_dir() {
                    folders.push(entry.path());
                } else if found.is_file() && is_new() {
                    bytes = bytes.saturating_add(found.len());
                }
            }
        }
        bytes > self.most_bytes
    }
}
