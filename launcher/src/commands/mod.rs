//! The subcommands, each with what it needs: the only modules that know all the others.

pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod ctl;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
mod ending;
pub(crate) mod export;
pub(crate) mod feed;
pub(crate) mod import;
mod open;
mod precheck;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod top;
mod windows;
