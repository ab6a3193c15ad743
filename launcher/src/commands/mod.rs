//! The subcommands, each with what it needs: with `doctor`, `top` and `feed` the only modules that know
//! all the others. Those that are one step are here.

pub(crate) mod ask;
pub(crate) mod baseline;
pub(crate) mod bench;
pub(crate) mod ctl;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod ending;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod job;
mod json_schema;
pub(crate) mod mcp;
pub(crate) mod next;
pub(crate) mod query;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod skill;
mod windows;

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_complete::Shell;
use stage2_contract::text::visible_path;

use crate::cli::{Cli, RunSettings};
use crate::failure::Failure;
use crate::{config, install, redaction};
use ending::printed;

/// Prints the composed configuration, each value with its origin.
pub(crate) fn config(settings: RunSettings) -> Result<u8, Failure> {
    let composed = config::compose(&settings.request())?;
    let (_, settings) = composed.resolved(Path::new("RUN_DIR"))?;
    redaction::set(settings.redact.redactor());
    printed(&config::yaml_with_origins(&composed.tree))
}

pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    // `| head` is no error.
    match std::io::stdout().write_all(&text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::NoResult(format!("the completions cannot be written: {error}")))
        }
        _ => Ok(0),
    }
}

pub(crate) fn man(folder: &Path) -> Result<u8, Failure> {
    clap_mangen::generate_to(Cli::command(), folder).map(|()| 0).map_err(|error| {
        let folder = visible_path(folder);
        Failure::NoResult(format!("the manual pages cannot be written into {folder}: {error}"))
    })
}

/// Refuses what is to be written to a folder that is not there, before anything is computed for it.
fn check_folder_of(out: &Path, option: &str) -> Result<(), Failure> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.filter(|folder| !folder.exists()).map_or(Ok(()), |folder| {
        Err(Failure::Usage(format!(
            "the folder {} does not exist; make it, or choose another path with {option}",
            visible_path(folder)
        )))
    })
}

/// A program of this installation next to this one, which does `what`; `package` builds it.
fn program_beside(name: &str, what: &str, package: &str) -> Result<PathBuf, Failure> {
    let exe = std::env::current_exe()
        .map_err(|e| Failure::NoResult(format!("this program does not find itself: {e}")))?;
    install::find(&exe, name).map_err(|places| {
        let folder = places.first().and_then(|path| path.parent()).unwrap_or(Path::new("."));
        Failure::NoResult(format!(
            "{what} by a separate program, {name}, which is neither in {} nor in another folder of \
             this installation; build it with `cargo build --release -p {package}`, and copy it there",
            visible_path(folder)
        ))
    })
}
