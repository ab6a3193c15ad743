//! Captures that were taken elsewhere, or are being taken -> a bundle with reports of them.

mod environment;
mod made;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::bundle::{Access, RunFolder};
use crate::cli::{Captures, MergeArgs};
use crate::commands::ending::take_signals;
use crate::config;
use crate::copy_inputs::{self, Kind};
use crate::failure::Failure;
use crate::terminal::Terminal;
pub(super) use made::{Made, Parts, WindowFile, WindowKind, make};

/// `stage2-launch merge`, which is also called `import`. What cannot be used of the captures is told;
/// the rest is merged.
pub(crate) fn import(args: MergeArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let MergeArgs { captures, output, presets, acceptance, showing, overrides } = args;
    let composed = config::compose(&presets.request(overrides))?;
    check_inputs(&captures)?;
    let absolute = std::path::absolute(&output)
        .map_err(|e| Failure::Usage(format!("-o {}: {e}", output.display())))?;
    let (_, early) = composed.resolved(&absolute)?;
    let access = Access::of(early.run.group.as_deref())?;
    let found = absolute.exists();
    let around = absolute.ancestors().skip(1).take_while(|folder| !folder.exists());
    let around: Vec<PathBuf> = around.map(Path::to_owned).collect();
    let folder = RunFolder::Given(absolute).create(&access)?;
    let ends = format!("the merge ends here, and {} is incomplete", folder.path().display());
    let signals = take_signals(terminal, ends)?;
    let command: Vec<OsString> = std::env::args_os().collect();
    let parts = Parts {
        captures: &captures,
        windows: &[],
        command: &command,
        findings: &[],
        environment: None,
    };
    let made = make(&composed, &folder, access, parts, &signals, terminal)?;
    if !made.is_of_use() {
        let refused = made.take_back(found, terminal);
        // Where something else is in one meanwhile it stays.
        around.iter().for_each(|folder| drop(std::fs::remove_dir(folder)));
        return Err(refused);
    }
    made.tell(showing, terminal);
    Ok(made.status(&acceptance, terminal))
}

/// Fails where no file can be used, before there is a folder. One that can be used is merged without
/// the others.
fn check_inputs(captures: &Captures) -> Result<(), Failure> {
    let Captures { spool, nsys, ncu } = captures;
    if spool.is_empty() && nsys.is_empty() && ncu.is_empty() {
        let text = "there is nothing to merge; give --spool DIR, --nsys FILE or --ncu FILE";
        return Err(Failure::Usage(text.into()));
    }
    let mut problems = Vec::new();
    for (kind, files) in [(Kind::Spool, spool), (Kind::Nsys, nsys), (Kind::Ncu, ncu)] {
        for file in files {
            match copy_inputs::check(kind, file) {
                Ok(()) => return Ok(()),
                // No colon behind the name: what follows one that ends in `passwd` would pass for a secret.
                Err(why) => problems.push(format!("{} ({why:#})", file.display())),
            }
        }
    }
    let text = format!("no capture can be merged, so no bundle was made: {}", problems.join("; "));
    Err(Failure::Usage(text))
}
