//! `stage2-launch` runs a command under profilers, and writes a bundle of records and reports.
//!
//! The command line becomes a [`config`], the config a plan, and the plan a run of passes, which fill a
//! [`bundle`]. The [`reports`] come only from the files of the bundle, so they can be written again at any
//! time. The launcher never links the collector, which would start in this process; it loads it into the
//! workload.
#![deny(unsafe_code)]

pub mod bundle;
mod cli;
mod commands;
mod config;
mod control;
mod copy_inputs;
mod doctor;
mod env;
mod failure;
mod feed;
mod hook;
mod install;
#[cfg(all(test, feature = "schema"))]
mod json_schemas;
mod live_source;
mod plan;
mod redaction;
pub mod reports;
mod run;
mod terminal;
mod threads;
pub mod tools;
mod top;
mod workload;

use std::ffi::OsString;

use cli::{Cli, Command};
use failure::Failure;
use terminal::Terminal;

/// Does what the command line states, and gives the exit status. Every error has been told by then.
pub fn run(words: impl Iterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.collect();
    let cli = match cli::parse(&words) {
        Ok(cli) => cli,
        Err(exit) => return exit,
    };
    let terminal = Terminal::new(cli.messages.verbosity());
    run::outlive_full_files();
    terminal::show_progress(terminal);
    match obey(cli, &terminal) {
        Ok(exit) => exit,
        Err(failure) => {
            terminal.error(&failure.to_string());
            failure.exit()
        }
    }
}

fn obey(cli: Cli, terminal: &Terminal) -> Result<u8, Failure> {
    match cli.command {
        None => commands::run::run(cli.run, terminal),
        Some(Command::Run(args)) => commands::run::run(args, terminal),
        Some(Command::Demo(args)) => commands::demo::demo(args, terminal),
        Some(Command::Bench(args)) => commands::bench::bench(args, terminal),
        Some(Command::Report(args)) => commands::report::report(args, terminal),
        Some(Command::Baseline(args)) => commands::baseline::baseline(args, terminal),
        Some(Command::Diff(args)) => commands::diff::diff(args, terminal),
        Some(Command::Next(args)) => commands::next::next(args),
        Some(Command::Ask(args)) => commands::ask::ask(&args, terminal),
        Some(Command::Query(args)) => commands::query::query(&args, terminal),
        Some(Command::Schema(args)) => commands::query::schema(&args, terminal),
        Some(Command::Mcp(args)) => commands::mcp::mcp(&args),
        Some(Command::Skill(args)) => commands::skill::skill(&args),
        Some(Command::Export(args)) => commands::export::export(args, terminal),
        Some(Command::Summarise(args)) => commands::job::summarise(&args, terminal),
        Some(Command::Job(args)) => commands::job::job(&args, terminal),
        Some(Command::Merge(args)) => commands::import::import(args, terminal),
        Some(Command::Ctl(args)) => commands::ctl::ctl(args, terminal),
        Some(Command::Top(args)) => top::top(args),
        Some(Command::Feed(args)) => feed::feed(args, terminal),
        Some(Command::Doctor(args)) => doctor::doctor(args, cli.messages.verbosity(), terminal),
        Some(Command::Config(args)) => commands::config(args),
        Some(Command::Completions { shell }) => commands::completions(shell),
        Some(Command::Man { folder }) => commands::man(&folder),
        Some(Command::ProbeGpu) => env::print_devices().map(|()| 0).map_err(Failure::no_result),
    }
}
