//! The command of the workload -> the program that will run, and whether it can load the collector.

mod elf;
mod find;
mod hydra_app;
mod loading;
mod python_source;

pub(crate) use elf::is_library;
pub(crate) use find::{NotRunnable, find, why_not_started};
pub(crate) use hydra_app::hydra_app;
pub(crate) use loading::{Loading, loading};
