//! The server of the Model Context Protocol: a program of its own, which takes the place of this one.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use stage2_contract::text::visible_path;

use super::program_beside;
use crate::cli::McpArgs;
use crate::failure::Failure;
use crate::install;

const PROGRAM: &str = "stage2-mcp";

pub(crate) fn mcp(args: &McpArgs) -> Result<u8, Failure> {
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
