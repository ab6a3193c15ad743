//! The server of the Model Context Protocol: its own program, which takes the place of this one.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use stage2_contract::text::visible_path;

use super::program_beside;
use crate::bundle::FOLDER_OF_RUNS;
use crate::cli::{Consent, McpArgs};
use crate::failure::Failure;
use crate::install;

const PROGRAM: &str = "stage2-mcp";

pub(crate) fn mcp(args: &McpArgs) -> Result<u8, Failure> {
    // The first run makes the folder of all runs, and a client that may run commands makes any.
    let may_come = args.root == Path::new(FOLDER_OF_RUNS) || args.allow.contains(&Consent::Run);
    if !args.root.is_dir() && !may_come {
        return Err(Failure::Usage(format!(
            "{} is not a folder; name the folder that contains the runs, for instance {FOLDER_OF_RUNS}",
            visible_path(&args.root)
        )));
    }
    let program = program_beside(PROGRAM, "Clients are served", "stage2-ask --features mcp")?;
    let mut command = Command::new(&program);
    command.arg("--launcher").arg(install::program());
    if !args.allow.is_empty() {
        let names: Vec<&str> = args.allow.iter().map(|consent| consent.name()).collect();
        command.arg("--allow").arg(names.join(","));
    }
    command.arg("--").arg(&args.root);
    // It returns only if it fails.
    let error = command.exec();
    let program = visible_path(&program);
    Err(Failure::NoResult(format!("{program} cannot be started: {error}")))
}
