//! The command line as a shell and `man` want it: completions and manual pages.

use std::io::Write as _;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;
use stage2_contract::text::visible_path;

use crate::cli::Cli;
use crate::failure::Failure;

/// `stage2-launch completions`.
pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    // `| head` is no error.
    match std::io::stdout().write_all(&text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::NoResult(format!("the completions cannot be written: {error}")))
        }
        _ => Ok(0),
    }
}

/// `stage2-launch man`.
pub(crate) fn man(folder: &Path) -> Result<u8, Failure> {
    clap_mangen::generate_to(Cli::command(), folder).map(|()| 0).map_err(|error| {
        let folder = visible_path(folder);
        Failure::NoResult(format!("the manual pages cannot be written into {folder}: {error}"))
    })
}
