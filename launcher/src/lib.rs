//! `stage2-launch`: a command to profile -> a bundle of records and reports.
//!
//! The command line becomes a [`config`]uration, that a plan, the plan a run of passes, the run a
//! [`bundle`], and the bundle's records its [`report`]s. The two halves know each other only through
//! the files of the bundle, so that reports can be written again at any time. The collector is never
//! linked: it is loaded into the workload, and would otherwise start in this process.
#![deny(unsafe_code)]

mod bench;
pub mod bundle;
mod captures;
mod cli;
pub mod config;
mod demo;
mod dry_run;
pub mod env;
mod exit;
mod failure;
#[cfg(test)]
#[path = "../tests/common/golden.rs"]
mod golden;
pub mod hook;
mod launch;
pub mod ncu;
pub mod nsys;
mod plan;
mod precheck;
pub mod report;
mod report_again;
mod run;
mod seen;
mod terminal;
mod workload;

use std::ffi::OsString;

use cli::{Cli, Command};
use failure::Failure;
use launch::Job;
use terminal::Terminal;

/// Does what the command line says, and gives the exit status. Every error has been told by then.
pub fn run(words: impl Iterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.collect();
    let cli = match cli::parse(&words) {
        Ok(cli) => cli,
        Err(exit) => return exit,
    };
    let terminal = Terminal::new(cli.options.verbosity());
    match dispatch(cli, &terminal) {
        Ok(exit) => exit,
        Err(failure) => {
            terminal.error(failure.text());
            failure.exit()
        }
    }
}

fn dispatch(cli: Cli, terminal: &Terminal) -> Result<u8, Failure> {
    let Cli { options, command, overrides, nsys, workload } = cli;
    if command.is_some() && !(overrides.is_empty() && workload.is_empty() && nsys.is_empty()) {
        let text =
            "settings and files of a subcommand come after it, and it takes no command after `--`";
        return Err(Failure::Usage(text.into()));
    }
    match command {
        None => Job::of_user(&options, overrides, workload, nsys)?.launch(terminal),
        Some(Command::Demo { overrides }) => {
            demo::job(&options, overrides, terminal)?.launch(terminal)
        }
        Some(Command::Bench { rounds, warmup, overrides, workload }) => {
            let times = bench::Times { rounds, warmup };
            bench::bench(&options, times, overrides, workload, terminal)
        }
        Some(Command::Report { bundle, overrides }) => {
            report_again::report_again(&bundle, &options, overrides, terminal)
        }
        Some(Command::Merge { spool, nsys, ncu, output, overrides }) => {
            let captures = captures::Captures { spool, nsys, ncu, output, overrides };
            captures::merge(&captures, &options, terminal)
        }
        Some(Command::Config { overrides }) => launch::print_config(&options, overrides),
        Some(Command::ProbeGpu) => match env::print_devices() {
            Ok(()) => Ok(0),
            Err(error) => Err(Failure::NoResult(error.to_string())),
        },
    }
}
